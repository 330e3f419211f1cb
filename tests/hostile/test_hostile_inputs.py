"Files that people bring: what is wrong with them is said in our words, and a change of any of them is seen."

import json
import sqlite3
import zipfile
from pathlib import Path

import pytest
from conftest import ROOT

from mhbench.corpus.load import load_corpus
from mhbench.records.anki import Note, cloze_question, load_anki
from mhbench.records.answers import load_answers
from mhbench.records.labelstudio import load_label_studio
from mhbench.records.schema import Item
from mhbench.run.cli import main
from mhbench.run.inputs import record_inputs

ITEMS = [
    Item(
        item_id=f"q{n}",
        study="mhqa",
        task="multiple_choice",
        question=f"What helps {n}?",
        options=["sleep", "noise"],
        key=["A"],
        source="made",
    )
    for n in range(4)
]


def refused(do, *args, error=ValueError, **more):
    "What is said; an exception that is not ours has no sentence."
    with pytest.raises(error) as e:
        do(*args, **more)
    message = str(e.value)
    assert " must " in message and "; got " in message, message
    return message


# -- answers of somebody's

ANSWERS = {
    "empty": b"",
    "only a header": b"item_id,text\n",
    "latin-1": "item_id,text\nq1,gr\xf6\xdfer\n".encode("latin-1"),
    "another table": b"id,answer\nq1,A\n",
    "a sample that is a word": b"item_id,text,sample\nq1,A,one\n",
    "a negative sample": b"item_id,text,sample\nq1,A,-1\n",
    "an item that was not asked": b"item_id,text\nq9,A\n",
    "another mode": b"item_id,text,mode\nq1,A,zero\n",
    "an open quote": b'item_id,text\nq1,"A\n',
    "a row that is too long": b"item_id,text\nq1,A,B\n",
    "a NUL": b"item_id,text\nq\x001,A\n",
}


@pytest.mark.parametrize("what", ANSWERS)
def test_answers_that_cannot_be_read_are_refused(what, tmp_path):
    (tmp_path / "a.csv").write_bytes(ANSWERS[what])
    if what == "another mode":
        with pytest.raises(ValueError, match="Response.mode does not fit"):
            load_answers(tmp_path / "a.csv", ITEMS, "someone")
        return
    assert "a.csv" in refused(load_answers, tmp_path / "a.csv", ITEMS, "someone")


def test_answers_that_are_no_parquet_or_a_folder_are_refused(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"no Parquet")
    (tmp_path / "b.csv").mkdir()
    refused(load_answers, tmp_path / "a.parquet", ITEMS, "someone")
    refused(load_answers, tmp_path / "b.csv", ITEMS, "someone", error=(ValueError, OSError))


def test_a_long_answer_is_read(tmp_path):
    (tmp_path / "a.csv").write_text("item_id,text\nq1," + "x" * 200_000 + "\n")
    assert len(load_answers(tmp_path / "a.csv", ITEMS, "someone")[0].text) == 200_000


# -- decks

DECK = {
    "col empty": ("create table col (decks text)", "col.decks must be"),
    "decks no JSON": ("create table col (decks text); insert into col values ('{')", "col.decks must be"),
    "decks a list": ("create table col (decks text); insert into col values ('[1]')", "col.decks must be"),
    "fields null": ("create table decks (id, name)", "must have fields and tags that are text"),
    "no col": ("create table other (x)", "intact SQLite collection"),
}


def deck(path, script, fields=None):
    db = sqlite3.connect(path.with_suffix(".db"))
    db.executescript(f"create table notes (id, guid, tags, flds); {script};")
    db.execute("insert into notes values (1, 'g', '', ?)", [fields])
    db.commit()
    db.close()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:
        z.write(path.with_suffix(".db"), "collection.anki21")
    return path


@pytest.mark.parametrize("what", DECK)
def test_a_deck_that_is_damaged_is_refused(what, tmp_path):
    script, part = DECK[what]
    assert part in refused(load_anki, deck(tmp_path / "d.apkg", script), language="de")


def test_a_deck_that_unpacks_without_end_is_refused_while_it_is_read(tmp_path):
    with zipfile.ZipFile(tmp_path / "d.apkg", "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("collection.anki21", bytes(8 << 20))
    assert "be under 2 MiB" in refused(load_anki, tmp_path / "d.apkg", language="de", max_bytes=2 << 20)
    zstandard = pytest.importorskip("zstandard")
    with zipfile.ZipFile(tmp_path / "e.apkg", "w") as z:
        z.writestr("collection.anki21b", zstandard.compress(bytes(8 << 20)))
    assert "--option max_bytes=N" in refused(load_anki, tmp_path / "e.apkg", language="de", max_bytes=2 << 20)


def test_a_note_without_end_is_counted_and_left_out(tmp_path):
    got = load_anki(deck(tmp_path / "d.apkg", "create table decks (id, name)", "{{c1::x}}" * 600_000), language="de")
    assert got.excluded == {"too_long": 1} and got.items == []


CLOZES = {  # the first with a hundredth of its openings once took six seconds
    "inside each other": ("{{c1::" * 300_000 + "x" + "}}" * 300_000, "nested_cloze"),
    "beside each other": ("{{c1::a::b}}" * 100_000, "several_clozes"),
    "never closed": ("{{c1::" * 600_000, "unclosed_cloze"),
    "hints without end": ("{{c1::" + "::" * 1_500_000 + "}}", "empty_answer"),
}


@pytest.mark.parametrize("what", CLOZES)
def test_a_note_of_hundreds_of_thousands_of_clozes_is_read_in_one_pass(what):
    text, reason = CLOZES[what]
    assert cloze_question(Note("g", [text], None, [], "here")) == reason


TEXTS = {
    "latin-1": ("#separator:tab\n{{c1::größer}}\tb\n".encode("latin-1"), "must be UTF-8"),
    "a column that is no number": (b"#guid column:abc\n{{c1::a}}\tb\n", "must be a number from 1"),
    "column 0": (b"#deck column:0\n{{c1::a}}\tb\n", "must be a number from 1"),
    "empty": (b"", "must have at least one note"),
}


@pytest.mark.parametrize("what", TEXTS)
def test_a_text_export_that_is_odd_is_refused(what, tmp_path):
    raw, part = TEXTS[what]
    (tmp_path / "d.txt").write_bytes(raw)
    assert part in refused(load_anki, tmp_path / "d.txt", language="de")


# -- Label Studio

TASKS = {
    "a number": 3,
    "annotations null": [{"data": {"item_id": "q1"}, "annotations": None}],
    "an annotation null": [{"data": {"item_id": "q1"}, "annotations": [None]}],
    "data a list": [{"data": ["q1"], "annotations": []}],
    "a result without a name": [{"data": {"item_id": "q1"}, "annotations": [{"result": [{"type": "choices"}]}]}],
    "a result null": [{"data": {"item_id": "q1"}, "annotations": [{"result": [None]}]}],
    "results null": [{"data": {"item_id": "q1"}, "annotations": [{"result": None}]}],
    "a value that is none": [
        {"data": {"item_id": "q1"}, "annotations": [{"result": [{"from_name": "difficulty", "value": "Easy"}]}]}
    ],
    "another item": [{"data": {"item_id": "q9"}, "annotations": []}],
    "an item that is a list": [{"data": {"item_id": ["q1"]}, "annotations": []}],
}


@pytest.mark.parametrize("what", TASKS)
def test_an_export_of_another_form_is_refused(what, tmp_path):
    (tmp_path / "e.json").write_text(json.dumps(TASKS[what]))
    assert "e.json" in refused(load_label_studio, tmp_path / "e.json", {"q1": ["m"]}, raters="r1")


def test_an_export_that_is_no_json_is_refused(tmp_path):
    for raw in (b"\xff\xfe", b"{", b"[" * 100_000, b""):
        (tmp_path / "e.json").write_bytes(raw)
        refused(load_label_studio, tmp_path / "e.json", {}, raters="r1")
    refused(load_label_studio, tmp_path / "none.json", {}, raters="r1", error=FileNotFoundError)


# -- corpora

CORPORA = {
    "a header and no row": ("mhqa", "mhqa.csv", b"", {}),
    "jsonl that is not UTF-8": ("psychiatrybench", "*", b'{"a": "\xff"}\n', {}),
    "jsonl nested without end": ("psychiatrybench", "*", b"[" * 100_000, {}),
    "an unknown encoding": ("mhqa", "mhqa.csv", b"", {"encoding": "klingon"}),
    "an option that is none": ("mhqa", "mhqa.csv", b"", {"nosuch": 1}),
    "a deck without its language": ("medqade", "d.txt", b"{{c1::a}}\tb\n", {}),
    "a deck with an odd option": ("medqade", "d.txt", b"{{c1::a}}\tb\n", {"language": "de", "nosuch": 1}),
}


@pytest.mark.parametrize("what", CORPORA)
def test_a_corpus_that_is_none_is_refused(what, tmp_path):
    loader, name, raw, options = CORPORA[what]
    if name == "mhqa.csv":
        raw = (ROOT / "data/mhqa").glob("*.csv").__next__().read_bytes().split(b"\n")[0] + b"\n"
    if name == "*":
        name = next((ROOT / "data/psychiatrybench").glob("*.jsonl")).name
    (tmp_path / name).write_bytes(raw)
    message = refused(
        load_corpus, loader, tmp_path if name.endswith("jsonl") else tmp_path / name, study=loader, **options
    )
    if "language" in what:
        assert "--option language=" in message


def test_import_says_what_is_missing_and_changes_nothing(house, capsys):
    deck = house.top / "deck.txt"
    deck.write_text("{{c1::a}}\tb\n")
    before = (house.top / "params.yaml").read_bytes()
    wrong = {
        "got no language (deck.txt); say --option language=VALUE": [],
        "must have a value that is YAML; got '[d'": ["--option", "language=[d"],
        "got one that it does not know, 'nosuch'": ["--option", "nosuch=1", "--option", "language=de"],
    }
    for sentence, more in wrong.items():
        ended, said = main(["import", "medqade", str(deck), *more]), capsys.readouterr().err
        assert ended == 1 and " must " in said and sentence in said, said
    assert (house.top / "params.yaml").read_bytes() == before


# -- what is read is known


def touched(house, change):
    "The studies whose inputs are other ones after a change."
    before = record_inputs()
    change()
    after = record_inputs()
    return {Path(s).stem for s in after if after[s] != before[s]}


def test_every_input_that_changes_is_seen(house):
    top, s = house.top, house.params["studies"]
    for name in (
        "corpus.csv",
        "answers.csv",
        "creators.csv",
        "template.txt",
        "of-study.txt",
        "weights.gguf",
        "enc.bin",
    ):
        (top / "in").mkdir(exist_ok=True)
        (top / "in" / name).write_text("one")
    for name, file in (("t", "template.txt"), ("u", "of-study.txt"), ("encoder", "enc.bin")):
        (top / name).mkdir()
        (top / "in" / file).rename(top / name / file)
    house.only("mhqa", "mentat")
    s["mhqa"]["prepare"] |= {"path": str(top / "in/corpus.csv"), "answers": {"someone": "in/answers.csv"}}
    s["mentat"]["preferences"] = {"creators": "in/creators.csv"}
    s["mhqa"]["generate"]["prompts_dir"] = "u"
    s["mentat"]["freeform"]["encoder"] = str(top / "encoder")
    house.params["generate"]["prompts_dir"] = "t"
    house.params["run"]["models"] = ["minilm", "gemma"]
    house.params["endpoints"]["local"]["gguf"] = str(top / "in/weights.gguf")
    house.write()
    write = lambda file: lambda: (top / file).write_text("two")
    assert touched(house, write("in/corpus.csv")) == {"mhqa"}
    assert touched(house, write("in/answers.csv")) == {"mhqa"}
    assert touched(house, write("in/creators.csv")) == {"mentat"}
    assert touched(house, write("u/of-study.txt")) == {"mhqa"}
    assert touched(house, write("encoder/enc.bin")) == {"mentat"}
    assert touched(house, write("t/template.txt")) == {"mentat"}
    assert touched(house, write("in/weights.gguf")) == {"gemma"}
    assert touched(house, (top / "in/answers.csv").unlink) == {"mhqa"}
    assert touched(house, lambda: None) == set()


def test_what_a_study_asks_has_what_decides_it(house):
    record_inputs()
    for study in house.params["run"]["studies"]:
        asks = json.loads((house.top / f"results/inputs/generate/{study}.json").read_text())
        assert {"code", "files", "settings"} == asks.keys() and not {"entries", "cache"} & asks["settings"].keys()
        assert asks["settings"]["seed"] == house.params["seed"] and asks["settings"]["n_demonstrations"] == 2
