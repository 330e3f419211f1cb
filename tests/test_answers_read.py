"Answers as others wrote them, cell by cell and line by line: what is read, counted, left out and refused."

import json
import zipfile

import pytest

from mhbench.records import answers as a
from mhbench.records.answers import MODE_UNKNOWN, NO_ANSWER, NO_ENDING, all_simulated, load_answers, log_rows
from mhbench.records.schema import Item

OPTIONS = ["wait", "refer", "treat"]


def item(k: int, question: str = "", **more) -> Item:
    question = question or f"What would you do first in the case of person {k}?"
    fields = {"study": "s", "task": "multiple_choice", "options": OPTIONS, "key": ["B"], "source": "x"}
    return Item(item_id=f"q{k}", question=question, **fields | more)


ITEMS = [item(k) for k in range(4)]


@pytest.fixture
def read(tmp_path):
    def answers(content, name="a.csv", items=ITEMS, **how):
        text = content if isinstance(content, str) else "".join(json.dumps(line) + "\n" for line in content)
        (tmp_path / name).write_text(text, encoding="utf-8")
        return load_answers(tmp_path / name, items, "m", **how)

    return answers


@pytest.mark.parametrize(
    ("head", "row", "expected"),
    [
        ("letter", "B", {"text": "B"}),
        ("number", "3", {"text": "C"}),
        ("number", "1.0", {"text": "A"}),
        ("letter,number", "B,2", {"text": "B"}),
        ("letter,number", ",", {"text": "", "status": "ok"}),
        ("text,sample", "x,2", {"sample": 2}),
        ("text,sample", "x,", {"sample": 0}),
        ("text,temperature", "x,0.5", {"temperature": 0.5}),
        ("text,temperature", "x,", {"temperature": None}),
        ("text,numbered", "x,Yes ", {"numbered": True}),
        ("text,numbered", "x,0", {"numbered": False}),
        ("text,numbered", "x,", {"numbered": False}),
        ("text,order", "x,CAB", {"order": [2, 0, 1]}),
        ("text,order", "x,", {"order": None}),
        ("text,mode", "x,cot", {"mode": "cot", "changed": []}),
        ("text,mode", "x,", {"mode": "zero_shot", "changed": [MODE_UNKNOWN]}),
        ("text", "x", {"mode": "zero_shot", "changed": [], "origin": "recorded", "votes": False, "status": "ok"}),
        ("text,origin", "x,simulated", {"origin": "simulated"}),
        ("text,answered_by", "x,sample", {"votes": True}),
        ("text,status", "x,refused", {"status": "refused", "text": "x"}),
        ("text,status", "x,odd", {"status": "ok", "error": None}),
        ("text,status", ",odd", {"status": "error", "error": "status 'odd'", "text": None}),
        ("text,status", ",done", {"status": "ok", "error": None, "text": ""}),
        ("text,error", ",broken", {"status": "error", "error": "broken"}),
        ("text,error", "x,broken", {"status": "ok", "error": "broken", "text": "x"}),
        ("text,status", "x,error", {"status": "error", "error": "the table says no more", "text": None}),
        ("text,letter_logprobs", 'x,"{""A"": -0.5, ""C"": 1e-6}"', {"letter_logprobs": {"A": -0.5, "C": 1e-6}}),
    ],
)
def test_a_row_says_what_was_written_and_how_it_came(head, row, expected, read):
    [got] = read(f"item_id,{head}\nq1,{row}\n")
    assert {k: getattr(got, k) for k in expected} == expected and (got.item_id, got.model, got.study) == (
        "q1",
        "m",
        "s",
    )
    assert got.cost_usd is None and got.attempts == 0


@pytest.mark.parametrize(
    ("head", "row", "words"),
    [
        ("letter", "D", r"an option must be one of A, B, C, or a number from 1 to 3; got 'D' \(a.csv:2\)"),
        ("number", "0", "an option must be one of A, B, C, or a number from 1 to 3; got '0'"),
        ("number", "4", "got '4'"),
        ("number", "1.5", "got '1.5'"),
        ("letter,number", "A,2", r"letter and number must name one option; got letter 'A', number '2' \(a.csv:2\)"),
        ("text,sample", "x,-1", r"sample must be a whole number from 0; got '-1' \(a.csv:2\)"),
        ("text,numbered", "x,maybe", r"numbered must be yes or no; got 'maybe' \(a.csv:2\)"),
        ("text,temperature", "x,hot", r"temperature must be a number; got 'hot' \(a.csv:2\)"),
        ("text,temperature", "x,inf", "temperature must be a number; got 'inf'"),
        ("text,order", "x,CA", r"order must name each of the item's letters once.* got 'CA' \(a.csv:2\)"),
        ("text,order", "x,CAA", "got 'CAA'"),
        (
            "text,letter_logprobs",
            'x,"{""D"": -0.5}"',
            r"must be of the item's letters, and 0 at most; got D: -0.5 for 3",
        ),
        ("text,letter_logprobs", 'x,"{""A"": 0.1}"', "got A: 0.1 for 3 options"),
        ("text,letter_logprobs", "x,[]", r"must be a JSON object of numbers by letter; got '\[\]'"),
        ("words", "x", r"have the columns item_id and text.*got 2 columns, not these \(a.csv\)"),
    ],
)
def test_a_row_that_does_not_fit_is_named(head, row, words, read):
    with pytest.raises(ValueError, match=words):
        read(f"item_id,{head}\nq1,{row}\n")


def test_an_item_is_answered_once_a_mode_temperature_and_sample(read):
    rows = ["q1,x,cot,0,", "q1,x,,0,", "q1,x,cot,1,", "q1,x,cot,0,0.5"]
    head = "item_id,text,mode,sample,temperature\n"
    assert len(read(head + "\n".join(rows))) == 4
    with pytest.raises(ValueError, match=r"got 'q1' again, first in a.csv:3 \(a.csv:6\)"):
        read(head + "\n".join([*rows, "q1,y,zero_shot,,"]))


def test_rows_to_other_items_are_counted_and_refused_where_they_are_most(read, capsys):
    head = "item_id,text\nq0,x\nq1,x\n"
    assert len(read(head + "z1,x\n")) == 2
    assert "m: 1 of 3 answers of a.csv name no item and are left out: z1\n" in capsys.readouterr().out
    with pytest.raises(ValueError, match=r"got 2 that do not, the first 'z1' \(a.csv\)"):
        read(head + "z1,x\nz2,x\n")  # as many
    assert len(read(head + "z1,x\nz2,x\n", other_ids={"z1"})) == 2
    said = capsys.readouterr().out
    assert "m: 1 of 4 answers of a.csv are to items that are not asked here" in said and "left out: z2" in said
    many = "".join(f"y{k:02},x\n" for k in range(11))
    enough = "".join(f"q{k % 4},x,{k}\n" for k in range(12))
    got = read("item_id,text,sample\n" + enough + many.replace(",x", ",x,0"))
    assert len(got) == 12 and "y08, y09, ...\n" in capsys.readouterr().out
    with pytest.raises(ValueError, match=r"table must .*; got no row \(a.csv\)"):
        read("item_id,text\n")
    with pytest.raises(FileNotFoundError, match="'none.csv', which is not there"):
        load_answers("none.csv", ITEMS, "m")
    with pytest.raises(ValueError, match="path must be a table .* got 'a.xls'"):
        read("x", "a.xls")


def doc(k: int, text: str, **more) -> dict:
    return {"doc_id": k, "doc": {"question": ITEMS[k].question, "choices": OPTIONS, **more}, "resps": [[text]]}


def test_a_log_is_joined_by_its_question_and_what_is_left_is_said(read, capsys):
    lines = [
        doc(0, "A"),
        doc(1, "B", id="q1"),
        doc(2, "C", id="q3"),
        doc(3, "A", question="Who was it that asked at all?"),
    ]
    got = read(lines, "samples.jsonl")
    assert [(r.item_id, r.text) for r in got] == [("q0", "A"), ("q1", "B"), ("q2", "C")]
    said = capsys.readouterr().out
    assert "samples.jsonl: 2 of 4 answers are joined by their question, and not by their id" in said
    assert "samples.jsonl: 1 of 4 answers are left out: their question is no item's" in said
    assert "m: 3 of 3 answers of samples.jsonl are to 3 of the 4 items asked" in said
    assert "  items without an answer: 1, such as q3" in said and "ids that name" not in said
    assert "m: 3 of 3 answers of samples.jsonl name no mode and count as zero_shot" in said
    short = [doc(0, "A", id="q0", question="x" * 19)]  # too short to tell
    assert len(read(short, "samples.jsonl")) == 1
    with pytest.raises(ValueError, match=r"got 1 whose question is that of no item \(samples.jsonl\)"):
        read([doc(0, "A", id="q0", question="x" * 20)], "samples.jsonl")


@pytest.mark.parametrize(("n", "is_told"), [(19, False), (20, True)])
def test_a_question_of_twenty_characters_tells_it_from_others(n, is_told, read):
    line = {"doc": {"id": "q0", "question": "y" * 40}, "resps": [["A"]]}
    if is_told:
        with pytest.raises(ValueError, match="whose question is that of no item"):
            read([line], "samples.jsonl", items=[item(0, "x" * n)])
    else:
        assert len(read([line], "samples.jsonl", items=[item(0, "x" * n)])) == 1


def test_of_items_with_one_question_the_options_tell(read):
    twins = [
        item(0, "The same question for both of these?"),
        item(1, "The same question for both of these?", options=["a", "b"]),
    ]
    line = {"doc": {"question": "the same question, for both of these", "choices": ["b", "a"]}, "resps": [["A"]]}
    [got] = read([line], "samples.jsonl", items=twins)
    assert (got.item_id, got.order) == ("q1", [1, 0])
    plain = {"doc": {"question": "the same question, for both of these"}, "resps": [["A"]]}
    with pytest.raises(ValueError, match="whose question is that of no item"):
        read([plain], "samples.jsonl", items=twins)
    with pytest.raises(ValueError, match=r"choices must be the item's options, in any order; got 3 others"):
        read([doc(0, "A", id="q0", choices=["x", "y", "z"])], "samples.jsonl")


@pytest.mark.parametrize(
    ("target", "differs"),
    [
        ("B", False),
        ("refer", False),
        (1, False),
        ("1", False),
        (["B"], False),
        ("A", True),
        (2, True),
        (3, None),
        ("x", None),
    ],
)
def test_a_log_s_key_is_held_beside_the_item_s(target, differs, read, capsys):
    read([doc(0, "A", id="q0") | {"target": target}], "samples.jsonl")
    said = capsys.readouterr().out
    assert ("1 of 1 keys of samples.jsonl are not those here, such as q0" in said) is bool(differs)


def test_a_log_s_key_is_read_in_its_own_order(read, capsys):
    turned = doc(0, "A", id="q0", choices=["refer", "treat", "wait"])
    for target, differs in (("A", False), (0, False), ("refer", False), ("B", True), ("C", True)):
        read([turned | {"target": target}], "samples.jsonl")
        assert ("keys of" in capsys.readouterr().out) is differs


def test_the_lines_of_a_harness(tmp_path):
    file = tmp_path / "samples.jsonl"
    nan = [[["nan", False]], [[-1.0, False]]]
    lines = [
        doc(0, "x") | {"filter": "none"},
        doc(0, "x") | {"filter": "strict"},
        {
            "doc": {"item_id": 7, "query": "?"},
            "doc_id": 1,
            "resps": [[["-1.5", True]], [["-0.5", False]]],
            "filter": "none",
        },
        {"doc": {"id": "q"}, "doc_id": 2, "resps": nan, "filter": "none"},
        {"doc": {"id": "q"}, "doc_id": 3, "resps": [["a", "b"]], "filter": "none"},
        {"doc": {"id": "q"}, "doc_id": 4, "resps": [], "filter": "none"},
        {"doc": {"id": "q"}, "doc_id": 5, "resps": ["a"], "filter": "none"},
        {"doc": {"id": "q"}, "doc_id": 6, "resps": None, "filter": "none"},
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    rows = log_rows(file)
    assert [place for place, _ in rows] == [f"samples.jsonl:{k}" for k in (1, 3, 4, 5, 5, 6, 7, 8)]
    fields = [f for _, f in rows]
    assert fields[0] == {"item_id": None, "row": 0, "question": ITEMS[0].question, "choices": OPTIONS, "text": "x"}
    assert fields[1] == {
        "item_id": "7",
        "row": 1,
        "question": "?",
        "text": "B",
        "letter_logprobs": {"A": -1.5, "B": -0.5},
    }
    assert (fields[2]["status"], fields[2]["error"]) == ("error", "its log-likelihoods are no numbers")
    assert [(f["text"], f["sample"]) for f in fields[3:5]] == [("a", "0"), ("b", "1")]
    for unanswered in (fields[5], fields[7]):
        assert (unanswered["status"], unanswered["error"]) == ("error", NO_ANSWER)
    assert fields[6]["text"] == "a" and "sample" not in fields[6]


STOP = {"finish_reason": "stop"}
UNENDED = {"text": "", "status": "error", "error": NO_ENDING}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            {
                "response": {
                    "status_code": 200,
                    "body": {"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]},
                }
            },
            {"text": "x"},
        ),
        (
            {"response": {"body": {"choices": [{"text": "x", "finish_reason": "length"}]}}},
            {"text": "x", "status": "truncated"},
        ),
        (
            {"response": {"body": {"choices": [{"message": {"content": [{"text": "x"}, {"text": "y"}, "z"]}} | STOP]}}},
            {"text": "xy"},
        ),
        ({"response": {"body": {"choices": [{"text": "x"}]}}}, UNENDED),
        ({"response": {"body": {"output": [{"type": "message", "content": [{"text": "x"}]}]}}}, UNENDED),
        ({"result": {"message": {"content": [{"type": "text", "text": "x"}]}}}, UNENDED),
        ({"key": "q1", "response": {"candidates": [{"content": {"parts": [{"text": "x"}]}}]}}, UNENDED),
        ({"response": {"body": {"choices": []}}}, {"text": "", "status": "error", "error": NO_ANSWER}),
        (
            {"response": {"body": {"choices": [{"message": {"content": "x"}, "finish_reason": "content_filter"}]}}},
            {"text": "x", "status": "filtered", "error": "finish_reason: content_filter"},
        ),
        (
            {"response": {"body": {"choices": [{"message": {"content": "x"}, "finish_reason": "odd"}]}}},
            {"text": "", "status": "error", "error": "finish_reason 'odd'"},
        ),
        (
            {"response": {"body": {"choices": [{"message": {"refusal": "no"}}]}}},
            {"text": "", "status": "refused", "error": "the model refused: no"},
        ),
        (
            {
                "response": {
                    "body": {
                        "output": [
                            {"type": "reasoning", "content": [{"text": "h"}]},
                            {"type": "message", "content": [{"text": "x"}, {"text": "y"}]},
                        ],
                        "status": "completed",
                    }
                }
            },
            {"text": "xy"},
        ),
        (
            {
                "response": {
                    "body": {
                        "output": [{"type": "message", "content": [{"text": "x"}]}],
                        "status": "incomplete",
                        "incomplete_details": {"reason": "max_output_tokens"},
                    }
                }
            },
            {"text": "x", "status": "truncated"},
        ),
        (
            {"response": {"body": {"output": [{"type": "message", "content": [{"refusal": "no"}]}]}}},
            {"text": "", "status": "refused", "error": "the model refused: no"},
        ),
        (
            {
                "result": {
                    "type": "succeeded",
                    "message": {
                        "content": [{"type": "thinking", "thinking": "h"}, {"type": "text", "text": "x"}],
                        "stop_reason": "end_turn",
                    },
                }
            },
            {"text": "x"},
        ),
        ({"result": {"type": "errored", "error": {"message": "down"}}}, {"text": "", "error": '{"message": "down"}'}),
        ({"result": {"type": "expired"}}, {"text": "", "error": '{"type": "expired"}'}),
        ({"response": {"status_code": 500, "body": {}}}, {"text": "", "error": '{"status_code": 500, "body": {}}'}),
        ({"response": None}, {"text": "", "error": json.dumps(NO_ANSWER)}),
        (
            {
                "key": "q1",
                "response": {
                    "candidates": [
                        {"content": {"parts": [{"text": "h", "thought": True}, {"text": "x"}]}, "finishReason": "STOP"}
                    ]
                },
            },
            {"text": "x"},
        ),
        (
            {"key": "q1", "response": {"promptFeedback": {"blockReason": "SAFETY"}}},
            {"text": "", "status": "filtered", "error": "finish_reason: SAFETY"},
        ),
    ],
)
def test_the_lines_of_a_batch(line, expected, tmp_path):
    (tmp_path / "b.jsonl").write_text(json.dumps({"custom_id": "q1"} | line if "key" not in line else line) + "\n")
    assert log_rows(tmp_path / "b.jsonl") == [("b.jsonl:1", {"item_id": "q1"} | expected)]


def sample(k: int, text: str | None, stop: str | None = "stop", **more) -> dict:
    choices = [{"message": {"content": text}, "stop_reason": stop}]
    return {"id": f"q{k}", "epoch": 2, "input": "?", "output": {"choices": choices, "completion": text or ""}} | more


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (sample(1, "x"), {"sample": "1", "text": "x", "question": "?"}),
        (sample(1, "x", "max_tokens"), {"sample": "1", "text": "x", "status": "truncated", "question": "?"}),
        (sample(1, "x", None), {"sample": "1", "question": "?"} | UNENDED),
        (
            sample(1, "", "stop", error={"message": "down"}),
            {"sample": "1", "text": "", "error": "down", "question": "?"},
        ),
        ({"id": 3}, {"item_id": "3", "sample": "0", "text": "", "status": "error", "error": NO_ANSWER}),
        (
            sample(1, "x", target="B", choices=["a", 2]),
            {"sample": "1", "text": "x", "question": "?", "target": "B", "choices": ["a", "2"]},
        ),
        (
            sample(
                1,
                "x",
                input=[
                    {"role": "user", "content": "1"},
                    {"role": "user", "content": "2"},
                    {"role": "assistant", "content": "3"},
                ],
                choices=[["a"]],
            ),
            {"sample": "1", "text": "x", "question": "2"},
        ),
    ],
)
def test_the_samples_of_inspect(one, expected, tmp_path):
    (tmp_path / "log.json").write_text(json.dumps({"samples": [one]}))
    assert log_rows(tmp_path / "log.json") == [(f"log.json, sample {one['id']}", {"item_id": "q1"} | expected)]


def test_a_log_without_texts_or_one_that_is_cut_is_refused(tmp_path):
    withheld = sample(1, "x", input=a.NO_TEXT.format("q1"))
    (tmp_path / "log.json").write_text(json.dumps({"samples": [sample(2, "y"), withheld]}))
    with pytest.raises(ValueError, match="a log must hold texts"):
        log_rows(tmp_path / "log.json")
    (tmp_path / "log.json").write_text(json.dumps({"samples": [sample(2, "y"), sample(3, "z", epoch="x")]}))
    with pytest.raises(
        ValueError, match=r"must be a whole log; got ValueError: invalid .* \(after log.json, sample q2\)"
    ):
        log_rows(tmp_path / "log.json")
    (tmp_path / "log.json").write_text(json.dumps({"other": []}))
    with pytest.raises(ValueError, match=r"must be a log of inspect with samples; got other \(log.json\)"):
        log_rows(tmp_path / "log.json")
    (tmp_path / "x.jsonl").write_text("")
    with pytest.raises(ValueError, match=r"must be a log that is known here; got no line \(x.jsonl\)"):
        log_rows(tmp_path / "x.jsonl")


def exchanged(k: int, sample_id: str = "q0", run: str = "r1", **more) -> dict:
    fields = {"evaluation_id": run, "model_id": "o/m", "sample_id": sample_id, "evaluation_name": "accuracy"}
    return fields | {"output": {"raw": [f"t{k}"]}} | more


def test_answers_in_exchange_are_samples_and_metrics_are_not(tmp_path):
    file = tmp_path / "m_samples.jsonl"
    write = lambda *lines: file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    write(
        exchanged(0),
        exchanged(0, evaluation_name="calibration"),
        exchanged(1),
        exchanged(2, metadata={"answered_by": "majority"}),
        exchanged(3, "q1", metadata={"sample": "4", "mode": "cot", "origin": "simulated", "answered_by": "sample"}),
    )
    rows = [f for _, f in log_rows(file)]
    assert [(f["item_id"], f["text"], f["sample"]) for f in rows] == [
        ("q0", "t0", "0"),
        ("q0", "t1", "1"),
        ("q1", "t3", "4"),
    ]
    assert (rows[2]["mode"], rows[2]["origin"], rows[2]["answered_by"]) == ("cot", "simulated", "sample")
    assert "origin" not in rows[0] and rows[0]["choices"] is None
    write(exchanged(0, metadata={"sample": "0"}), exchanged(1, run="r2", metadata={"sample": "0"}))
    with pytest.raises(ValueError, match=r"must answer a sample in one run; got two of 'q0' \(m_samples.jsonl:2\)"):
        log_rows(file)
    write(exchanged(0), exchanged(1, model_id="o/n"))
    with pytest.raises(ValueError, match=r"the answers of one model; got \['o/m', 'o/n'\]"):
        log_rows(file)
    write(exchanged(0, metadata={"withheld": True}))
    with pytest.raises(ValueError, match="a run must hold texts; got hashes"):
        log_rows(file)
    told = [
        {
            "output": {"raw": []},
            "messages": [{"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"}],
        },
        {
            "output": None,
            "answer_attribution": [
                {"extracted_value": "B", "is_terminal": True},
                {"extracted_value": "C", "is_terminal": True},
                {"extracted_value": "D"},
            ],
        },
        {"output": None, "metadata": {"letter_logprobs": {"A": -1}}, "error": "Refused it"},
        {"error": "down", "metadata": {"status": "ok"}},
        {"error": "down"},
    ]
    got = [a._answer_fields(exchanged(7) | line) for line in told]
    assert [f["text"] for f in got] == ["b", "C", None, "t7", "t7"]
    assert got[2]["status"] == "refused" and got[2]["error"] == "Refused it"
    assert "error" not in got[3] and got[4]["error"] == "down" and "status" not in got[4]


def test_all_are_simulated_where_every_row_says_so(tmp_path):
    file = tmp_path / "a.csv"
    for rows, said in (("q1,x,simulated\n", True), ("q1,x,simulated\nq2,x,\n", False)):
        file.write_text("item_id,text,origin\n" + rows)
        assert all_simulated(file) is said
    assert not all_simulated(tmp_path / "none.csv")


@pytest.mark.parametrize(
    ("logprobs", "n", "expected"),
    [
        ({"A": -0.1, "B": -2.0}, 3, {"error": "log-likelihoods of 2 of 3 options"}),
        ({"A": -0.1, "B": -2.0, "C": 1e-6}, 3, {"status": "ok"}),
        ({"A": -0.1, "B": -2.0, "C": 1.5e-6}, 3, "0 at most; got C: 1.5e-06 for 3 options"),
        ({"A": -0.1, "B": -2.0, "D": -3.0}, 3, "got D: -3.0 for 3 options"),
        ({"A": -0.1}, 30, {"status": "ok"}),  # names, and no letters: the list is longer than the letters
        ({"A": -0.1, "AA": -0.1}, 30, "got AA: -0.1 for 30 options"),
    ],
)
def test_log_likelihoods_of_a_log_are_of_all_letters(logprobs, n, expected):
    "And none is above 0 by more than rounding."
    if isinstance(expected, str):
        with pytest.raises(ValueError, match=expected):
            a._outcome_of_row({"text": "A", "letter_logprobs": logprobs}, n, "x:1")
    else:
        outcome = a._outcome_of_row({"text": "A", "letter_logprobs": logprobs}, n, "x:1")
        assert {k: outcome[k] for k in expected} == expected


@pytest.mark.parametrize(
    ("target", "order", "key"),
    [
        ("refer", None, ["B"]),
        (["treat", "refer"], None, ["B", "C"]),
        (["C", "A"], [2, 0, 1], ["B", "C"]),
        (2, [2, 0, 1], ["B"]),
        ("3", None, None),
        (["refer", "?"], None, None),
        (" wait ", None, ["A"]),
    ],
)
def test_a_log_s_key_is_the_item_s_letters_in_their_order(target, order, key):
    "By text, by letter and by number, from 0, as they were shown."
    assert a._target_letters(target, ITEMS[0], order) == key


@pytest.mark.parametrize(("n_before", "is_exchange"), [(2000, True), (4081, True), (4082, False), (5000, False)])
def test_a_file_of_exchange_says_so_within_its_first_four_thousand_bytes(n_before, is_exchange, tmp_path):
    "The name in its quotes is whole within 4,096."
    (tmp_path / "x.jsonl").write_text(" " * n_before + '"evaluation_id"')
    assert a._is_exchange_file(tmp_path / "x.jsonl") == is_exchange == (n_before + len('"evaluation_id"') <= 4096)


def test_reasons_and_lists_that_are_long_are_shown_in_part(read, capsys, tmp_path):
    "500 characters of an error, five statuses, three ids, eight names of fields."
    assert len(a._no_answer("x" * 900)["error"]) == 500 == len(a._failed_line("x" * 900, None)["error"])
    rows = "".join(f"q1,x,{k},odd{k}\n" for k in range(6))
    read("item_id,text,sample,status\n" + rows)
    assert capsys.readouterr().out.count("'odd") == 5
    (tmp_path / "x.json").write_text(json.dumps({f"f{k}": k for k in range(9)}))
    with pytest.raises(ValueError, match=r"got f0, f1, f2, f3, f4, f5, f6, f7 \(x.json\)"):
        log_rows(tmp_path / "x.json")
    more = [item(k) for k in range(9)]
    read([doc(k, "A") for k in range(2)], "b.jsonl", more)
    assert "items without an answer: 7, such as q2, q3, q4\n" in capsys.readouterr().out


def test_a_sample_unpacks_to_the_most_that_is_held_and_no_more(tmp_path, monkeypatch):
    "64 MB of each sample of inspect."
    assert a.MOST_OF_A_SAMPLE == 64 * 2**20
    text = json.dumps(sample(0, "A"))
    with zipfile.ZipFile(tmp_path / "x.eval", "w") as z:
        z.writestr("samples/1.json", text)
        z.writestr("samples/notes.txt", "x" * 10_000)
    monkeypatch.setattr(a, "MOST_OF_A_SAMPLE", len(text))
    assert len(log_rows(tmp_path / "x.eval")) == 1
    monkeypatch.setattr(a, "MOST_OF_A_SAMPLE", len(text) - 1)
    with pytest.raises(ValueError, match="a sample must unpack to 0 MB at most"):
        log_rows(tmp_path / "x.eval")


def test_a_log_that_repeats_a_part_of_what_an_item_asks_is_of_that_item():
    "Its context, or a linked question; or more than the question; anything is too short that has no twenty characters."
    asked = item(
        0, question="Which of these would you do first here?", context={"case": "A man of forty cannot sleep."}
    )
    index = a._ByQuestion([asked])
    assert index.asks_the_same("q0", "A man of forty cannot sleep.")
    assert index.asks_the_same("q0", "Answer: which of these would you do first here? A, B or C")
    assert index.asks_the_same("q0", "Something else?") and not index.asks_the_same(
        "q0", "A woman of forty cannot sleep."
    )
