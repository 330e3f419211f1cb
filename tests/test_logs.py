"Logs of other tools: nothing that is missing counts as wrong, and nothing is joined by the number of a row."

import json

import numpy as np
import pandas as pd
import pytest

from mhbench.encode.embeddings import load_encoder
from mhbench.records.answers import MODE_UNKNOWN, load_answers
from mhbench.records.schema import Item, Response
from mhbench.steps.answers import judge_by_similarity, nearest_option
from mhbench.steps.between_models import run_to_run
from mhbench.steps.score import ONLY_BEGUN, score_responses, self_consistency

DRUGS = ["lithium", "sertraline", "clozapine", "naloxone"]
USES = ["acute mania in an adult", "panic disorder in an adult", "resistant schizophrenia", "an overdose of opioids"]
ITEMS = [
    Item(
        item_id=f"q{k}",
        study="s",
        task="multiple_choice",
        question=f"Which drug is given first in {use}?",
        options=DRUGS,
        key=[letter],
        source="made here",
    )
    for k, (use, letter) in enumerate(zip(USES, "ABCD"), 1)
]


def written(folder, lines, name="samples.jsonl"):
    path = folder / name
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def correct(responses):
    return score_responses(ITEMS, responses)["correct"].fillna(-1).tolist()


def of_harness(k, text, **doc):
    doc = {"question": ITEMS[k].question} | doc
    return {"doc_id": k, "doc": doc, "target": "ABCD"[k], "resps": [[text]], "filtered_resps": ["a"], "filter": "f"}


def test_a_harness_log_is_joined_by_its_question_and_read_before_its_filter(tmp_path, capsys):
    lines = [of_harness(k, f"I would pick {'ABCD'[k]}.") for k in (1, 2, 3, 0)]
    for n, line in enumerate(lines):
        line["doc_id"] = n  # the number of a row, which is no item's
    got = load_answers(written(tmp_path, lines), ITEMS, "m")
    assert [r.item_id for r in got] == ["q2", "q3", "q4", "q1"] and correct(got) == [1, 1, 1, 1]
    assert "4 of 4 answers are joined by their question" in capsys.readouterr().out


def test_ids_that_name_other_questions_are_not_believed(tmp_path, capsys):
    lines = [of_harness(k, "ABCD"[k], id=f"q{(k + 1) % 4 + 1}") for k in range(4)]
    assert correct(load_answers(written(tmp_path, lines), ITEMS, "m")) == [1, 1, 1, 1]
    strange = [of_harness(0, "A", question="Which of these drugs is the oldest?") for _ in range(2)]
    with pytest.raises(ValueError, match="whose question is that of no item"):
        load_answers(written(tmp_path, strange), ITEMS, "m")


def test_answers_to_other_questions_are_counted_as_left_out(tmp_path, capsys):
    strange = of_harness(0, "A", question="Which of these drugs is the oldest?")
    kept = load_answers(written(tmp_path, [*(of_harness(k, "ABCD"[k]) for k in range(4)), strange]), ITEMS, "m")
    assert len(kept) == 4
    assert "1 of 5 answers are left out: their question is no item's" in capsys.readouterr().out


def test_the_order_and_the_key_of_a_log_are_its_own(tmp_path, capsys):
    samples = [
        {"id": i.item_id, "input": i.question, "choices": DRUGS[::-1], "target": "DCBA"[k]}
        | {"output": {"choices": [{"message": {"content": f"ANSWER: {'DCBA'[k]}"}, "stop_reason": "stop"}]}}
        for k, i in enumerate(ITEMS)
    ]
    samples[3]["target"] = "B"
    path = tmp_path / "log.json"
    path.write_text(json.dumps({"samples": samples}))
    assert correct(load_answers(path, ITEMS, "m")) == [1, 1, 1, 1]
    assert "1 of 4 keys of log.json are not those here, such as q4" in capsys.readouterr().out


def test_repeats_are_samples_and_no_response_is_missing(tmp_path):
    lines = [of_harness(0, "A") | {"resps": [["A", "B", "A"]]}, of_harness(1, "") | {"resps": []}]
    got = load_answers(written(tmp_path, lines), ITEMS, "m")
    assert [(r.sample, r.text) for r in got[:3]] == [(0, "A"), (1, "B"), (2, "A")]
    assert (got[3].status, correct(got)[3]) == ("error", -1)


def test_null_in_parquet_is_missing_and_an_empty_text_is_an_empty_answer(tmp_path):
    pd.DataFrame({"item_id": ["q1", "q2"], "text": [None, ""]}).to_parquet(tmp_path / "a.parquet")
    got = load_answers(tmp_path / "a.parquet", ITEMS, "m")
    assert [r.status for r in got] == ["error", "ok"] and correct(got) == [-1, 0]


@pytest.mark.parametrize("status", ["timeout", "failed"])
def test_another_tools_status_without_a_text_is_no_answer(tmp_path, status):
    (tmp_path / "a.csv").write_text(f"item_id,text,status\nq1,,{status}\nq2,B,{status}\n")
    got = load_answers(tmp_path / "a.csv", ITEMS, "m")
    assert [r.status for r in got] == ["error", "ok"] and status in got[0].error


CHAT = {"choices": [{"message": {"content": "A, as"}, "finish_reason": "length"}]}
RESPONSES = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
RESPONSES |= {"output": [{"type": "reasoning"}, {"type": "message", "content": [{"text": "A"}]}]}
MESSAGE = {"content": [{"type": "text", "text": "A"}], "stop_reason": "max_tokens"}
GEMINI = {"candidates": [{"content": {"parts": [{"text": "A"}]}, "finishReason": "MAX_TOKENS"}]}


@pytest.mark.parametrize(
    "line",
    [
        {"custom_id": "q1", "response": {"status_code": 200, "body": CHAT}},
        {"custom_id": "q1", "response": {"body": {"choices": [{"text": "A", "finish_reason": "length"}]}}},
        {"custom_id": "q1", "response": {"status_code": 200, "body": RESPONSES}},
        {"custom_id": "q1", "result": {"type": "succeeded", "message": MESSAGE}},
        {"key": "q1", "response": GEMINI},
    ],
)
def test_every_kind_of_batch_is_read_with_its_cut(tmp_path, line):
    (got,) = load_answers(written(tmp_path, [line]), ITEMS, "m")
    assert got.text.startswith("A") and got.status == "truncated"


@pytest.mark.parametrize(
    "line, status",
    [
        ({"custom_id": "q1", "response": None}, "error"),
        ({"custom_id": "q1", "result": {"type": "expired"}}, "error"),
        ({"custom_id": "q1", "response": {"body": {"choices": []}}}, "error"),
        ({"custom_id": "q1", "response": {"body": {"choices": [{"text": "A", "finish_reason": "later"}]}}}, "error"),
        ({"key": "q1", "response": {"promptFeedback": {"blockReason": "SAFETY"}}}, "filtered"),
    ],
)
def test_what_a_batch_did_not_answer_is_missing(tmp_path, line, status):
    (got,) = load_answers(written(tmp_path, [line]), ITEMS, "m")
    assert got.status == status


def test_another_kind_of_batch_is_refused_by_its_fields(tmp_path):
    line = {"custom_id": "q1", "response": {"body": {"embedding": [0.1]}}}
    with pytest.raises(ValueError, match=r"got the fields embedding \(samples.jsonl:1\)"):
        load_answers(written(tmp_path, [line]), ITEMS, "m")


def test_a_log_without_a_mode_says_so(tmp_path, capsys):
    load_answers(written(tmp_path, [of_harness(0, "A", id="q1")]), ITEMS, "m")
    assert "1 of 1 answers of samples.jsonl name no mode and count as zero_shot" in capsys.readouterr().out


# ---------------------------------------------------------------- what is read is what was said


def test_a_tie_of_soft_labels_decides_nothing():
    item = ITEMS[0].model_copy(update={"key": [], "soft_labels": [0.4, 0.4, 0.1, 0.1]})
    assert item.right == []
    assert item.model_copy(update={"soft_labels": [0.4, 0.3, 0.2, 0.1]}).right == ["A"]


def test_a_vote_counts_the_votes_that_came():
    same = {"item_id": "q1", "study": "s", "model": "m", "mode": "zero_shot", "votes": True}
    said = [Response(**same, sample=0, text="A")]
    said += [Response(**same, sample=k, status="error", error="no reply") for k in range(1, 10)]
    (vote,) = self_consistency(score_responses(ITEMS, said), ITEMS).to_dict("records")
    assert vote["confidence"] == pytest.approx(0.1) and vote["how"] == "majority (1 of 10 votes came)"


def test_an_encoder_that_saw_the_beginning_of_a_text_says_so():
    encoder = load_encoder("minilm")
    long = "She sleeps badly and worries about her work. " * 80
    assert encoder.cut(["short", long]).tolist() == [False, True]
    items = [ITEMS[0], ITEMS[1].model_copy(update={"question": long})]
    nearest = nearest_option(items, encoder)
    assert [r.changed for r in nearest] == [[], [ONLY_BEGUN]]
    read = score_responses(items, nearest)["read_from"]
    assert read.tolist() == ["encoder", "encoder, from the beginning of the text alone"]
    same = {"study": "s", "model": "m", "mode": "zero_shot"}
    prose = ITEMS[0].model_copy(update={"task": "open", "options": [], "key": ["Lithium."]})
    said = [Response(item_id="q1", text=t, sample=k, **same) for k, t in enumerate(("Lithium.", long))]
    got = judge_by_similarity(said, [prose], encoder)
    assert [j.changed for j in got] == [[], [ONLY_BEGUN]]
    assert np.isfinite([j.confidence for j in got]).all()


def test_what_a_table_does_not_say_of_an_answer_is_unknown(tmp_path, capsys):
    table = tmp_path / "answers.csv"
    table.write_text("item_id,text,mode,temperature\nq1,A,few_shot,0\nq2,B,few_shot,\nq3,C,,0.7\n", encoding="utf-8")
    got = load_answers(table, ITEMS, "m")
    assert [r.temperature for r in got] == [0, None, 0.7]
    assert [r.changed for r in got] == [[], [], [MODE_UNKNOWN]] and got[2].mode == "zero_shot"
    assert "1 of 3 answers of answers.csv name no mode" in capsys.readouterr().out
    twice = run_to_run(score_responses(ITEMS, got + [r.model_copy(update={"sample": 1}) for r in got]))
    assert set(twice[twice["mode"] == "few_shot"]["temperature"].fillna(-1)) == {0, -1}


def test_a_workbook_is_no_table_of_answers(tmp_path):
    path = tmp_path / "answers.xlsx"
    pd.DataFrame({"item_id": [i.item_id for i in ITEMS], "letter": "A"}).to_excel(path, index=False)
    with pytest.raises(ValueError, match="got 'answers.xlsx'; save the table as CSV in UTF-8, or as Parquet"):
        load_answers(path, ITEMS, "m")


def test_tabs_and_capitals_in_a_name_make_no_log(tmp_path):
    rows = [(i.item_id, "A") for i in ITEMS]
    for name, mark in (("answers.tsv", "\t"), ("ANSWERS.CSV", ",")):
        path = tmp_path / name
        path.write_text("".join(f"{mark.join(row)}\n" for row in [("item_id", "letter"), *rows]), encoding="utf-8")
        got = load_answers(path, ITEMS, "m")
        assert len(got) == len(ITEMS) and not any(r.changed for r in got), name


# -- what a log does not know

ENDED = {"finish_reason": "stop"}
SAID = {"message": {"content": "A"}} | ENDED
MAYBE = {"type": "reasoning", "text": "It may be A. "}
RESPONSE = {"object": "response", "status": "completed"}
COMMENTED = [
    {"type": "message", "phase": "commentary", "content": [{"type": "output_text", "text": "Maybe A. "}]},
    {"type": "message", "content": [{"type": "output_text", "text": "B"}]},
]
CANDIDATE = {"content": {"parts": [{"text": "A"}]}, "finishReason": "STOP"}


@pytest.mark.parametrize(
    ("body", "status", "text", "error"),
    [
        (
            {"choices": [SAID, {"message": {"content": "B"}} | ENDED]},
            "error",
            None,
            "2 choices, of which none is known",
        ),
        ({"choices": [SAID | {"error": {"message": "died"}}]}, "error", None, "died"),
        ({"choices": [{"message": {"content": [MAYBE, {"type": "text", "text": "B"}]}} | ENDED]}, "ok", "B", None),
        ({"choices": [{"message": {"content": [{"type": "refusal", "refusal": "no"}]}} | ENDED]}, "refused", "", "no"),
        ({"choices": [{"finish_reason": "content_filter: RECITATION"}]}, "filtered", "", "RECITATION"),
        ({"candidates": [CANDIDATE, CANDIDATE]}, "error", None, "2 candidates, of which none is known"),
        (RESPONSE | {"output": COMMENTED}, "ok", "B", None),
        ({"error": {"message": "overloaded"}}, "error", None, "overloaded"),
        (None, "error", None, "no answer"),
        ("<html>502</html>", "error", None, "502"),
    ],
)
def test_a_line_of_a_batch_is_an_answer_only_where_it_is_known_to_be(body, status, text, error, tmp_path):
    lines = [{"custom_id": x, "response": {"status_code": 200, "body": b}} for x, b in (("q1", body), ("q2", SAID))]
    lines[1]["response"]["body"] = {"choices": [SAID]}
    got, whole = load_answers(written(tmp_path, lines), ITEMS, "m")
    assert (got.status, got.text) == (status, text) and (error is None or error in got.error)
    assert whole.text == "A", "one line that cannot be used loses no other"


def test_a_filter_is_a_filter_in_a_batch_too(tmp_path):
    body = {"error": {"code": "content_filter", "message": "flagged"}}
    lines = [{"custom_id": "q1", "response": {"status_code": 400, "body": body}, "error": None}]
    (got,) = load_answers(written(tmp_path, lines), ITEMS, "m")
    assert got.status == "filtered" and "flagged" in got.error


INFINITE = float("inf")


@pytest.mark.parametrize(
    ("resps", "status", "right"),
    [
        ([[[-1.0, False]], [[-2.0, False]], [[-3.0, False]], [[-4.0, False]]], "ok", 1.0),
        ([[["-1.0", "False"]], [["-2.0", "False"]], [["-inf", "False"]], [["-4.0", "False"]]], "ok", 1.0),
        ([[[-1.0, False]], [[-1.0, False]], [[-3.0, False]], [[-4.0, False]]], "ok", 0.0),  # a tie is unread
        ([[[-INFINITE, False]]] * 4, "error", -1),
        ([[[-1.0, False]], [[-2.0, False]], [[-3.0, False]]], "error", -1),  # the fourth may be likelier
        ([[[None, False]], [[-2.0, False]], [[-3.0, False]], [[-4.0, False]]], "error", -1),
        ([[None]], "error", -1),
        ([[{"text": "A"}]], "error", -1),
    ],
)
def test_what_a_harness_did_not_measure_is_no_answer(resps, status, right, tmp_path):
    (got,) = load_answers(written(tmp_path, [of_harness(0, "") | {"resps": resps}]), ITEMS, "m")
    scored = score_responses(ITEMS, [got])
    assert (got.status, scored["correct"].fillna(-1)[0]) == (status, right)
    assert right or not scored["answer"][0], "and not read as its first letter"


def sample(**more):
    output = {"choices": [{"message": {"content": "A"}, "stop_reason": "stop"}], "completion": "A"}
    return {"id": "q1", "epoch": 1, "input": ITEMS[0].question, "output": output} | more


def test_a_sample_of_inspect_that_stands_twice_is_refused_and_an_error_of_its_model_is_one(tmp_path):
    path = tmp_path / "log.json"
    path.write_text(json.dumps({"samples": [sample(), sample()]}))
    with pytest.raises(ValueError, match="answered once a mode and sample; got 'q1' again"):
        load_answers(path, ITEMS, "m")
    path.write_text(json.dumps({"samples": [sample(output=sample()["output"] | {"error": "content filter"})]}))
    (got,) = load_answers(path, ITEMS, "m")
    assert (got.status, got.text, got.error) == ("error", None, "content filter")


@pytest.mark.parametrize("value", [{"request_states": [], "adapter_spec": {}}, {"samples": None}, [{"input": "x"}]])
def test_another_json_is_no_log_and_is_named_by_its_fields(value, tmp_path):
    path = tmp_path / "scenario_state.json"
    path.write_text(json.dumps(value))
    with pytest.raises(
        ValueError, match="a .json must be a log of inspect with samples; got (adapter_spec|samples|list)"
    ):
        load_answers(path, ITEMS, "m")


@pytest.mark.parametrize(
    ("error", "status"),
    [("Refused: I cannot", "refused"), ("the model refused: no", "refused"), ("Connection refused", "error")],
)
def test_a_connection_that_is_refused_is_no_refusal_of_the_model(error, status, tmp_path):
    line = {"evaluation_id": "e", "model_id": "m", "evaluation_name": "n", "sample_id": "q1", "error": error}
    (got,) = load_answers(written(tmp_path, [line | {"output": {"raw": []}}]), ITEMS, "m")
    assert got.status == status


def test_a_status_that_is_not_known_is_named(tmp_path, capsys):
    rows = [("q1", "A", "timed out"), ("q2", "B", "timed out"), ("q3", "C", "done"), ("q4", "D", "ok")]
    pd.DataFrame(rows, columns=["item_id", "text", "status"]).to_csv(tmp_path / "a.csv", index=False)
    assert [r.status for r in load_answers(tmp_path / "a.csv", ITEMS, "m")] == ["ok"] * 4
    words = "a.csv has statuses that are not known here; such answers count by their text: 'timed out' (2)"
    assert words in capsys.readouterr().out
