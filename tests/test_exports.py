"""Out to other tools and in from them: with the real packages where they are installed."""

import hashlib
import json
import zipfile
from datetime import UTC, datetime

import pandas as pd
import pytest
import yaml

from mhbench import __version__
from mhbench.corpus.demo import demo_path
from mhbench.corpus.load import load_corpus
from mhbench.records.answers import load_answers
from mhbench.records.database import staged_folder
from mhbench.records.schema import Item, Rating
from mhbench.records.transcript import Transcript, Turn
from mhbench.report.items import ROW_COLUMNS, Answers
from mhbench.steps.score import read_answer
from mhbench.tools import export
from mhbench.tools.export import dataset_folder
from mhbench.tools.manifest import RunPart

ITEMS = [
    Item(item_id=f"q{k}", study="s", task="multiple_choice", question="?", options=["x", "y"], key=["B"], source="x")
    for k in (1, 2, 3)
]


def lines(rows):
    return "".join(json.dumps(r) + "\n" for r in rows)


def batch(name, text):
    return {
        "custom_id": name,
        "response": {
            "status_code": 200,
            "body": {"choices": [{"message": {"content": text}, "finish_reason": "stop"}]},
        },
    }


LOGS = {
    "batch.jsonl": lines([batch("q1", "B"), batch("q2", "A"), batch("elsewhere", "A")]),
    "samples_task.jsonl": lines(
        [
            {"doc_id": 0, "doc": {"item_id": "q1"}, "resps": [[["-3", "False"]], [["-1", "True"]]]}
            | {"filtered_resps": [["-3", "False"], ["-1", "True"]]},
            {"doc_id": 1, "doc": {"item_id": "q2"}, "resps": [["A"]], "filtered_resps": ["A"]},
            {"doc_id": 2, "doc": {"item_id": "elsewhere"}, "resps": [["B"]], "filtered_resps": ["B"]},
        ]
    ),
    "log.json": json.dumps(
        {
            "samples": [
                {"id": q, "epoch": 1, "output": {"completion": a, "choices": [{"stop_reason": "stop"}]}}
                for q, a in (("q1", "B"), ("q2", "A"), ("elsewhere", "A"))
            ]
        }
    ),
}


@pytest.mark.parametrize("name", LOGS)
def test_a_log_is_read_as_answers_and_says_what_matched(name, tmp_path, capsys):
    file = tmp_path / name
    file.write_text(LOGS[name], encoding="utf-8")
    got = load_answers(file, ITEMS, "other")
    assert [(r.item_id, r.text, r.status) for r in got] == [("q1", "B", "ok"), ("q2", "A", "ok")]
    assert "other: 2 of 3 answers" in capsys.readouterr().out
    if name == "samples_task.jsonl":
        assert got[0].letter_logprobs == {"A": -3.0, "B": -1.0}
    with pytest.raises(ValueError, match="must name items of this run"):
        load_answers(file, [ITEMS[2]], "other")


def test_an_archive_of_inspect_is_read_whichever_way_it_is_packed(tmp_path, capsys):
    "Entries by Python's own zipfile, and with method 93 (Zstandard) as inspect packs them, header by header."
    zstandard = pytest.importorskip("zstandard")
    entries = {
        f"samples/{s['id']}_epoch_1.json": json.dumps(s).encode() for s in json.loads(LOGS["log.json"])["samples"]
    }
    plain, packed = tmp_path / "plain.eval", tmp_path / "packed.eval"
    with zipfile.ZipFile(plain, "w", zipfile.ZIP_DEFLATED) as z:
        for name, content in entries.items():
            z.writestr(name, content)
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as z:
        for name, content in entries.items():
            z.writestr(name, zstandard.ZstdCompressor().compress(content))
            z.getinfo(name).file_size = len(content)  # unpacked, as an archive's directory has it
    raw = bytearray(packed.read_bytes())
    for mark, at in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):  # the method, in both of a file's headers
        start = raw.find(mark)
        while start >= 0:
            raw[start + at : start + at + 2] = (93).to_bytes(2, "little")
            start = raw.find(mark, start + 1)
    packed.write_bytes(bytes(raw))
    both = [load_answers(file, ITEMS, "other") for file in (plain, packed)]
    assert both[0] == both[1] and [(r.item_id, r.text) for r in both[0]] == [("q1", "B"), ("q2", "A")]
    said = capsys.readouterr().out
    assert (
        "ids that name no item asked: 1, such as elsewhere" in said and "items without an answer: 1, such as q3" in said
    )
    packed.write_bytes(bytes(raw[:200]))
    with pytest.raises(ValueError, match="must be an archive that can be unpacked"):
        load_answers(packed, ITEMS, "other")


@pytest.fixture
def answers():
    rows = pd.DataFrame({c: None for c in ROW_COLUMNS}, index=range(3))
    rows = rows.assign(
        study="s", item_id=["q1", "q2", "q3"], cluster="c", category="triage", model="m", mode="cot", sample=0
    )
    rows = rows.assign(what=["right", "wrong", "error"], correct=[1.0, 0.0, None], answer=["A", "B", None], key="A")
    return Answers(rows, {"s/q1": {"question": "What first?", "options": ["x", "y"]}}, {"0": {"text": "A, surely"}})


@pytest.mark.whole
def test_a_dataset_folder_is_read_by_datasets(answers, tmp_path):
    with staged_folder(tmp_path / "out") as write:
        made = dataset_folder(answers, pd.DataFrame({"measure": ["accuracy"], "estimate": [0.5]}), write, "cc-by-4.0")
    card = made[0].read_text(encoding="utf-8")
    assert "config_name: answers" in card and '\nlicense: "cc-by-4.0"\n' in card
    assert "| refused |" in card and "cards/" not in card, "what is not beside it is not named"
    assert pd.read_parquet(made[1])["question"].tolist()[0] == "What first?"
    datasets = pytest.importorskip("datasets")
    found = datasets.load_dataset(str(tmp_path / "out"), "answers", cache_dir=str(tmp_path / "cache"))
    assert found["train"].num_rows == 3


def test_a_dataset_of_ratings_alone_has_no_empty_table(answers, tmp_path):
    rated = [
        {"evaluation_name": "ward", "rater_id": r, "rater_kind": "person", "shown": {"order": "0,1"}} for r in "ab"
    ]
    none = Answers(answers.rows[:0], {}, {})
    with staged_folder(tmp_path / "out") as write:
        main = pd.DataFrame({"measure": ["alpha"], "estimate": [0.5]})
        made = dataset_folder(none, main, write, "cc-by-4.0", ratings=rated)
    assert [f.name for f in made] == ["README.md", "ratings.parquet", "headline.parquet"]
    card = made[0].read_text(encoding="utf-8")
    head = yaml.safe_load(card.split("---")[1])
    assert [(c["config_name"], c.get("default", False)) for c in head["configs"]] == [
        ("ratings", True),
        ("headline", False),
    ]
    assert "2 ratings by 2 raters (person) of ward." in card and "answers of" not in card
    assert pd.read_parquet(made[1])["shown"].map(json.loads).tolist() == [{"order": "0,1"}] * 2


def test_a_table_of_answers_says_whether_the_options_were_numbered(tmp_path):
    table = pd.DataFrame({"item_id": ["q1", "q2", "q3"], "text": "2", "numbered": ["yes", "no", ""]})
    for file, write in ((tmp_path / "a.csv", table.to_csv), (tmp_path / "a.parquet", table.to_parquet)):
        write(file, index=False)
        got = load_answers(file, ITEMS, "other")
        assert [r.numbered for r in got] == [True, False, False]
        assert [read_answer(i, r)[0] for i, r in zip(ITEMS, got)] == [["B"], [], []]
    table.assign(numbered="perhaps").to_csv(tmp_path / "a.csv")
    with pytest.raises(ValueError, match="numbered must be yes or no"):
        load_answers(tmp_path / "a.csv", ITEMS, "other")


def test_an_inspect_log_has_the_counts_of_its_samples_and_an_identifier_of_its_names():
    "Two items, one asked twice, one request failed; the identifier is a hash of study, model and mode."
    samples = [{"id": "q1", "epoch": 1}, {"id": "q1", "epoch": 2}, {"id": "q2", "epoch": 1, "error": "x"}]
    name, content = export._log(("s", "in two steps", "m"), "2027-03-01T10:11:12+00:00", samples, {"k": "v"}, [1])
    digest = hashlib.sha256(b"s/m/in two steps").hexdigest()[:22]
    failure = {"message": "1 of 3 requests failed", "traceback": "", "traceback_ansi": ""}
    dataset = {"name": "s", "samples": 2, "sample_ids": ["q1", "q2"], "shuffled": False}
    head = {"eval_id": digest, "run_id": digest, "task_id": digest, "created": "2027-03-01T10:11:12+00:00"}
    head |= {"task": "mhbench/s/in_two_steps", "task_version": 0, "dataset": dataset, "model": "mhbench/m"}
    head |= {"config": {"epochs": 2}, "packages": {"mhbench": __version__}, "metadata": {"k": "v"}}
    times = dict.fromkeys(("started_at", "completed_at"), "2027-03-01T10:11:12+00:00")
    assert name == f"2027-03-01T10-11-12+00-00_mhbench-s-in_two_steps-m_{digest}.json"
    assert json.loads(content) == {
        "version": 2,
        "status": "error",
        "eval": head,
        "plan": {"name": "plan", "steps": [], "config": {}},
        "results": {"total_samples": 3, "completed_samples": 2, "scores": [1]},
        "stats": times | {"model_usage": {}},
        "samples": samples,
        "error": failure,
    }
    whole = json.loads(export._log(("s", "cot", "m", "more"), "t", samples[:2], {}, [])[1])
    assert whole["status"] == "success" and "error" not in whole
    assert whole["eval"]["eval_id"] == hashlib.sha256(b"s/m/cot/more").hexdigest()[:22]


def test_logs_for_inspect_are_by_study_model_and_mode_with_the_texts_of_their_rows(answers):
    "Each row has the text of its own number, and its item's of its own study; what is not scored is counted."
    rows = pd.concat([answers.rows, answers.rows[:1].assign(study="r", mode="direct")], ignore_index=True)
    texts = {"0": {"text": "first"}, "1": {"text": "second"}, "3": {"text": "other study"}}
    items = {"s/q1": {"question": "Of s?"}, "r/q1": {"question": "Of r?"}}
    dates = {("s", "m"): datetime(2027, 3, 1, tzinfo=UTC), ("r", "m"): datetime(2026, 3, 1, tzinfo=UTC)}
    logs = []
    export.inspect_logs(Answers(rows, items, texts), dates, lambda name, raw: logs.append((name, json.loads(raw))))
    (first_name, first), (second_name, second) = logs
    assert (first_name[:4], second_name[:4]) == ("2026", "2027") and first["eval"]["metadata"] == {"mode": "direct"}
    assert [(s["input"], s["output"]["completion"]) for s in first["samples"]] == [("Of r?", "other study")]
    assert [s["output"]["completion"] for s in second["samples"]] == ["first", "second", ""]
    [score] = second["results"]["scores"]
    assert (score["scored_samples"], score["unscored_samples"]) == (2, 1)
    metric = {"accuracy": {"name": "accuracy", "value": 0.5, "params": {}}}
    assert score == {"name": "mhbench", "scorer": "mhbench", "params": {}, "metrics": metric} | {
        "scored_samples": 2,
        "unscored_samples": 1,
    }


def test_a_transcript_as_a_sample_counts_the_tokens_of_each_speaker():
    "Two turns of the examined model, two of a patient of which one is not counted; a script has no model."
    turn = lambda role, text, model, *tokens: Turn(
        role=role, text=text, model=model, prompt_tokens=tokens[0], completion_tokens=tokens[1], served={"model": "v"}
    )
    turns = [turn("user", "a", "p", 1, 2), turn("assistant", "b", "m", 3, 4), turn("user", "c", "p", 5, 0)]
    turns.append(turn("assistant", "d", "m", 7, 8))
    common = {"item_id": "t1", "study": "s", "model": "m", "patient": "p", "source": "x", "protected": False}
    t = Transcript(**common, run=1, person="anna", turns=turns, ended="turns", variant={"tone": "flat"})
    sample = export._spoken(t, False)
    spoken = [("user", "a", "p"), ("assistant", "b", "m"), ("user", "c", "p"), ("assistant", "d", "m")]
    messages = [
        {"role": r, "content": text, "metadata": {"model": "v"}, "model": f"mhbench/{m}", "source": "generate"}
        for r, text, m in spoken
    ]
    assert sample == {
        "id": "t1",
        "epoch": 2,
        "input": "a",
        "target": "",
        "messages": messages,
        "output": {"model": "m", "choices": [{"message": messages[3], "stop_reason": "stop"}], "completion": "d"},
        "scores": {},
        "metadata": {"person": "anna", "ended": "turns", "cost_usd": 0.0, "tone": "flat"},
        "store": {},
        "events": [],
        "model_usage": {"mhbench/m": {"input_tokens": 10, "output_tokens": 12, "total_tokens": 22}},
    }
    script = t.model_copy(update={"turns": [turns[0].model_copy(update={"model": None})], "ended": "failed"})
    sample = export._spoken(script, False)
    assert sample["messages"] == [{"role": "user", "content": "a", "metadata": {"model": "v"}}]
    assert sample["output"]["choices"] == [{"message": {"role": "assistant", "content": ""}, "stop_reason": "unknown"}]
    assert sample["error"]["message"] == "failed" and sample["model_usage"] == {}
    stopped = export._spoken(script.model_copy(update={"ended": "stopped", "error": "no money", "turns": []}), False)
    assert stopped["error"]["message"] == "no money" and stopped["input"] == ""
    hidden = t.model_copy(update={"protected": True})
    assert export._spoken(hidden, False)["input"] == "(the text of t1 is not part of this log)"
    assert export._spoken(hidden, True)["input"] == "a"
    logs = []
    other = [t.model_copy(update={"patient": "q"}), t.model_copy(update={"model": "n"}), t]
    export.transcript_logs([t, *other], datetime(2027, 3, 1, tzinfo=UTC), lambda *log: logs.append(json.loads(log[1])))
    heads = [(x["eval"]["model"], x["eval"]["metadata"], len(x["samples"])) for x in logs]
    of_patient = lambda name: {"patient": name}
    assert heads == [("mhbench/m", of_patient(p), n) for p, n in (("p", 2), ("q", 1))] + [
        ("mhbench/n", of_patient("p"), 1)
    ]
    assert len({x["eval"]["eval_id"] for x in logs}) == 3 and {x["eval"]["task"] for x in logs} == {
        "mhbench/s/conversations"
    }


@pytest.mark.parametrize(("private", "cards"), [(False, True), (True, False)])
def test_the_page_of_a_dataset_says_what_its_tables_hold(answers, tmp_path, private, cards):
    "Answers, ratings and main results, counted by hand; texts are joined by study, item and row."
    rated = [{"evaluation_name": "ward", "rater_id": r, "rater_kind": "panel", "shown": {}} for r in "aba"]
    main = pd.DataFrame({"measure": ["accuracy"], "model": ["m"], "n": [3], "n_unread": [2], "estimate": [0.25]})
    rows = answers.rows.assign(study=["s", "s", "r"])
    files = {}
    keep = lambda name, raw: files.update({name: raw}) or tmp_path / name
    dataset_folder(answers._replace(rows=rows), main, keep, "mit", ratings=rated, private=private, cards=cards)
    page = " ".join(files["README.md"].decode().split())
    assert "3 answers of m to items of s, r. One row" in page and "3 ratings by 2 raters (panel) of ward. One" in page
    assert ("`cards/` has a page" in page) == cards
    assert ("Texts of protected items are here: do not publish this folder." in page) == private
    assert ("Of items of a protected corpus there are ids and scores, no text" in page) != private
    assert f"Made by mhbench {__version__}." in page and "| unparseable |" in page and "| refused |" in page
    [cells] = [line.split("|")[1:-1] for line in files["README.md"].decode().splitlines() if "| accuracy |" in line]
    assert [c.strip() for c in cells] == ["–", "accuracy", "m", "–", "3", "–", "2", "–", "–", "0.250"]
    (tmp_path / "t.parquet").write_bytes(files["answers.parquet"])
    table = pd.read_parquet(tmp_path / "t.parquet")
    assert table["text"].fillna("").tolist() == ["A, surely", "", ""]
    assert table["question"].fillna("").tolist() == ["What first?", "", ""] and list(table["options"][0]) == ["x", "y"]


def test_the_page_of_a_demonstration_bank_has_each_of_its_sentences():
    items = load_corpus("mhqa", demo_path("mhqa")).items
    card = export.demo_card("mhqa", items)
    head = yaml.safe_load(card.split("---")[1])
    assert (head["version"], head["license"], head["language"]) == (__version__, "MIT", ["en"])
    assert head["pretty_name"].startswith("mhbench demonstration bank: ") and "MHQA" in head["pretty_name"]
    for title, text in (
        ("Source", "Written for mhbench; no corpus, no literature."),
        ("How it was made", "Each item was written or simulated for mhbench, in the form of the study's own data; see"),
        ("Who checked it", "nobody; who rates or answers in it is simulated, with declared parameters."),
        ("Sensitive data", "No patient, no clinician and no annotator is in it."),
        ("Limits", "Not validated by a panel: nothing clinical follows from a number on these items."),
    ):
        assert f"## {title}\n\n{text}" in card
    assert "**Synthetic**, in the form of MHQA" in card and "no item of that study is in it. " in card


def test_a_page_of_a_bank_is_of_a_demonstration_alone_and_of_questions_once(tmp_path, monkeypatch):
    "Variants of one question count once; a bank without the demonstration's canary has its authors' own page."
    monkeypatch.setattr(export, "DEMO_STUDIES", {"s": 1, "empty": 1, "own": 1})
    monkeypatch.setattr(export, "demo_canary", lambda: "canary")
    variants = [ITEMS[0].model_copy(update={"item_id": f"q1-{k}", "base_id": "q1", "canary": "canary"}) for k in "ab"]
    items = {"s": [*variants, ITEMS[1].model_copy(update={"canary": "canary"})], "empty": []}
    items |= {"own": [*items["s"], ITEMS[2]], "real": items["s"]}
    monkeypatch.setattr(export, "records_left", lambda results, stage, study, record: items[study])
    monkeypatch.setattr(export, "demo_card", lambda study, of: f"{study}: {sorted(i.item_id for i in of)}")
    written = export.bank_cards("results", items, lambda name, raw: (name, raw.decode()))
    assert written == [("cards/s.md", "s: ['q1-a', 'q2']")]


RATED = [Rating(item_id=f"q{k}", study="s", rater="r", target="A", value=1.0, source="x") for k in (1, 2, 3)]


@pytest.mark.parametrize(
    ("n_protected", "kind", "private", "line"),
    [
        (0, "hf", False, ""),
        (0, "hf", True, ""),
        (2, "hf", True, "the texts of 2 protected items are in it, for those who may read them"),
        (2, "hf", False, "of 2 protected items it has ids and scores alone, and no rating (left out: 2); --private"),
        (1, "inspect", False, "of 1 protected items it has ids and scores alone; --private writes the rest"),
    ],
)
def test_what_an_export_leaves_out_is_counted(monkeypatch, n_protected, kind, private, line):
    items = [i.model_copy(update={"protected": k < n_protected}) for k, i in enumerate(ITEMS)]
    left = {Item: items, Rating: RATED}
    monkeypatch.setattr(export, "records_left", lambda results, stage, study, record: left[record])
    told = export._protected_line("results", ["s"], kind, private=private)
    assert told.startswith(line) and bool(told) == bool(line)


@pytest.fixture
def ran(tmp_path, monkeypatch):
    "A run of one study whose notebooks and page are files made by hand."
    page = "Made on 2026-01-02 10:11:12 UTC by mhbench 1 (commit a). <code>results/s/score.ipynb</code>"
    names = {"s/score.ipynb": "score", "s/judge.ipynb": "judge", "report.ipynb": "report"}
    for name, text in ({"report.html": page} | names).items():
        (tmp_path / "results" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "results" / name).write_text(text, encoding="utf-8")
    parts = [RunPart(f"stage{k}", "s", None, "stale" if k % 2 else "failed") for k in range(7)]
    parts = {"all": parts, "fresh": [RunPart("score", "s", None, "fresh"), RunPart("judge", "s", None, "absent")]}
    state = {"parts": parts, "now": "fresh", "items": ITEMS}
    monkeypatch.setattr(export, "root", lambda: tmp_path)
    monkeypatch.setattr(
        export, "load_params", lambda path: {"run": {"studies": ["s"]}, "studies": {"s": {}, "gone": {}}}
    )
    monkeypatch.setattr(export, "records_left", lambda *a: state["items"])
    notebooks = {name: tmp_path / "results" / name for name in names}
    monkeypatch.setattr(export, "executed_notebooks", lambda run: notebooks)
    monkeypatch.setattr(export, "manifest", lambda top, run: state["parts"][state["now"]])
    return tmp_path, state


def test_the_notebooks_and_the_page_of_a_run_are_published_undated_and_other_files_stay(ran):
    top, _ = ran
    for name in ("gone/old.ipynb", "s/other.ipynb", "mine.txt"):
        (top / "reports" / name).parent.mkdir(parents=True, exist_ok=True)
        (top / "reports" / name).write_text("x", encoding="utf-8")
    files = export.publish("reports")
    names = ["s/score.ipynb", "s/judge.ipynb", "report.ipynb", "report.html"]
    assert files == [top / "reports" / name for name in names]
    assert sorted(f.name for f in (top / "reports").rglob("*.*")) == sorted(["mine.txt", *(f.name for f in files)])
    assert (top / "reports/report.html").read_text() == "Made by mhbench 1. <code>s/score.ipynb</code>"
    (top / "reports/s/other.ipynb").write_text("x", encoding="utf-8")
    assert [f.name for f in export.publish("reports", ["score"])] == ["score.ipynb"]
    assert (top / "reports/s/other.ipynb").exists(), "of some stages nothing is removed"
    assert export.publish("reports", ["report"]) == [top / "reports" / "report.ipynb"]


def test_what_may_not_be_published_or_has_not_run_is_refused(ran):
    top, state = ran
    state["now"] = "all"
    with pytest.raises(
        ValueError, match=r"got 7 that are not \(stage0 s, stage1 s, stage2 s, stage3 s, stage4 s\); `mh"
    ):
        export.publish("reports")
    assert export.publish("reports", ["score"]), "of some stages it is not asked whether all are up to date"
    (top / "results/s/judge.ipynb").unlink()
    with pytest.raises(FileNotFoundError, match=r"every stage must have run; got none of \['s/judge.ipynb'\]"):
        export.publish("reports", ["judge"])
    state["items"] = [ITEMS[0], ITEMS[1].model_copy(update={"protected": True})]
    with pytest.raises(ValueError, match="free to publish; got protected items of s"):
        export.publish("reports", ["score"])
    state["items"] = []
    with pytest.raises(FileNotFoundError, match="every study must be prepared; got no items of s"):
        export.publish("reports", ["score"])
