"The demo's numbers, compared with tests/golden, and what its notebooks show where there are none."

import json
import re
from pathlib import Path

import pytest
from conftest import ROOT
from golden_tables import differences, stored, tables

from mhbench.run.graph import graph

SHOWN = [n.name for n in graph(ROOT).values() if n.parameters and n.name not in ("report", "ledger")]


@pytest.fixture(scope="module")
def known() -> dict:
    return stored()


@pytest.fixture(scope="module")
def found(demo) -> dict:
    return tables(demo / "results")


@pytest.mark.parametrize("stage", SHOWN)
def test_no_number_of_the_demo_moved(stage, known, found):
    lines = differences({stage: known.get(stage, {})}, {stage: found.get(stage, {})})
    assert not lines, "\n".join([*lines[:20], "if the change is for that, say so in its commit, and `make golden`"])


def only_text(notebook: Path) -> list[str]:
    "What cells that show a table or figure put in its place as bare text."
    cells = [c for c in json.loads(notebook.read_text(encoding="utf-8"))["cells"] if c["cell_type"] == "code"]
    shown = [c for c in cells if re.search(r"\bs\.(table|figure)\(", "".join(c["source"]))]
    outputs = [o["data"] for c in shown for o in c["outputs"] if o.get("data")]
    texts = ["".join(data["text/plain"]) for data in outputs if set(data) == {"text/plain"}]
    return [text for text in texts if not text.startswith("<Figure size")]  # which a shell would show


@pytest.mark.parametrize("stage", SHOWN)
def test_where_a_table_is_not_there_nothing_says_so(stage, demo):
    "The last line of a stage names what the run lacks; a result without a row is a sentence."
    for notebook in (demo / "results" / stage).rglob("notebook.ipynb"):
        assert only_text(notebook) == [], notebook
        contents = json.loads((notebook.parent / "contents.json").read_text(encoding="utf-8"))
        text = notebook.read_text(encoding="utf-8")
        lost = [a for a in contents["absent"] for part in a.values() if json.dumps(part)[1:-1] not in text]
        assert not lost, notebook
