"""Who may read a text: a module outside this list, or a field that it did not read before, has to be looked at.

The words of a question or an answer may go to a model, to a rater's page, into numbers and into `results/text`, which
is never pushed. Out of the machine they go through `report/items.py`, which leaves out those of protected items;
test_canary.py runs every stage and looks. What is listed here is what each module reads, and why it may.
"""

import ast
import json
from pathlib import Path

import pytest

from mhbench.corpus import load
from mhbench.corpus.load import Corpus, load_corpus, registered_loaders
from mhbench.records.schema import Item, write_records
from mhbench.records.transcript import Transcript, Turn

ROOT = Path(__file__).resolve().parent.parent
FIELDS = {"question", "options", "stems", "context", "rationale", "text", "reasoning"}  # of an item and a response
LISTED = ROOT / "tests" / "data" / "text_fields.tsv"  # module, fields, where their texts go
GOES = {
    "a model",
    "numbers",
    "records",
    "results/text",
    "the gate",
    "a rater's page",
    "the owner's terminal",
    "no text",
}


def fields_read(source: str) -> set[str]:
    "The fields of items and answers that some code reads: as attributes, by name, or as a column."
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            found.add(node.attr)
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            found.add(node.slice.value)
        elif (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("column", "get")
        ):
            found |= {a.value for a in node.args[:1] if isinstance(a, ast.Constant)}
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
            found |= {a.value for a in node.args[1:2] if isinstance(a, ast.Constant)}
    return {f for f in found if isinstance(f, str)} & FIELDS


def code() -> dict[str, str]:  # module or stage -> its source
    "Every module of the package, and every stage's notebook."
    found = {p.relative_to(ROOT).as_posix(): p.read_text(encoding="utf-8") for p in (ROOT / "mhbench").rglob("*.py")}
    for p in (ROOT / "nbs" / "stages").glob("*.ipynb"):
        cells = json.loads(p.read_text(encoding="utf-8"))["cells"]
        found[p.relative_to(ROOT).as_posix()] = "\n".join(
            "".join(c["source"]) for c in cells if c["cell_type"] == "code"
        )
    return found


def listed() -> dict[str, tuple[set[str], str]]:
    rows = [line.split("\t") for line in LISTED.read_text(encoding="utf-8").splitlines()[1:]]
    return {module: (set(fields.split()), goes) for module, fields, goes in rows}


def test_texts_are_read_by_the_modules_that_may():
    known = listed()
    assert {goes for _, goes in known.values()} <= GOES
    now = {module: fields for module, source in code().items() if (fields := fields_read(source))}
    more = {m: sorted(f - known.get(m, (set(), ""))[0]) for m, f in now.items() if f - known.get(m, (set(), ""))[0]}
    assert not more, f"where do these texts go? past report/items.py, or with a row in {LISTED.name}: {more}"


def test_what_writes_for_others_reads_no_item_itself():
    "Of the code that writes pages and exports, only the gate, and what asks it, reads texts."
    outside = {
        m: goes
        for m, (_, goes) in listed().items()
        if m.startswith(("mhbench/run/", "mhbench/tools/", "mhbench/report/"))
    }
    assert {goes for goes in outside.values()} <= {"the gate", "the owner's terminal", "no text", "numbers"}
    gates = {m for m, goes in outside.items() if goes == "the gate"}
    assert gates == {
        "mhbench/report/items.py",
        "mhbench/tools/eee.py",
        "mhbench/tools/export.py",
        "mhbench/tools/aggregates.py",
    }


@pytest.mark.parametrize("line", ["i.question", "row['rationale']", "s.column('text')", "getattr(i, 'context')"])
def test_a_new_access_is_seen(line):
    assert fields_read(f"def f(i, row, s):\n    return {line}")


# ---------------------------------------------------------------- at the door

ASKED = Item(item_id="q1", study="s", task="open", question="Which?", key=["this"], source="here", protected=False)
MEDMCQA = {"id": "1", "subject_name": "Psychiatry", "question": "Which?", "cop": 1, **{f"op{x}": x for x in "abcd"}}
TALK = Transcript(
    item_id="c", study="s", model="m", turns=[Turn(role="user", text="x")], ended="script", source="t", protected=False
)
FORMS = {  # loader -> a file of it, and its options
    "table": ("q.csv", "question,reference,canary\nWhich?,this,mhbench-canary-x\n", {}),
    "medmcqa": ("q.jsonl", json.dumps(MEDMCQA) + "\n", {"first": 0}),
    "items": ("q.parquet", None, {}),
    "transcripts": ("t.jsonl", TALK.model_dump_json(), {"study": "s"}),
    "somebody's": ("q.txt", "anything", {}),
}
IN_CANARY = {"mentat", "psychiatrybench", "medqade", "counselingbench", "mhqa"}  # whose banks test_canary.py runs


@pytest.mark.parametrize("name", FORMS)
def test_whatever_a_loader_says_its_texts_are_protected_without_a_licence(name, tmp_path, monkeypatch):
    file, text, options = FORMS[name]
    path = tmp_path / file
    if text is None:
        write_records([ASKED], path, Item)
    else:
        path.write_text(text, encoding="utf-8")
    if name == "table":
        options = {"study": "s", "columns": {"question": "question", "reference": "reference", "canary": "canary"}}
    if name == "somebody's":
        monkeypatch.setattr(load, "find_loader", lambda name: lambda path: Corpus([ASKED]))
    assert [i.protected for i in load_corpus(name, path, **options).items] == [True]
    assert [i.protected for i in load_corpus(name, path, licence="CC-BY-4.0", **options).items] == [False]
    with pytest.raises(ValueError, match="licence must be one of"):
        load_corpus(name, path, licence="CC-BY-NC-4.0", **options)
    if name == "table":
        assert load_corpus(name, path, **options, protected=False).items[0].protected


def test_every_loader_is_tried_here_or_in_the_run_with_words():
    assert set(registered_loaders()) == (set(FORMS) - {"somebody's"}) | IN_CANARY
