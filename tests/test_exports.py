"""Out to other tools and in from them: with the real packages where they are installed."""

import json
import zipfile

import pandas as pd
import pytest
import yaml

from mhbench.records.answers import load_answers
from mhbench.records.database import staged_folder
from mhbench.records.schema import Item
from mhbench.report.items import ROW_COLUMNS, Answers
from mhbench.steps.score import read_answer
from mhbench.tools.export import dataset_folder

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
