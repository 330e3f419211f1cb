"""One answer, from the wire to the page: few forms, each where the documentation says, and one name for a column."""

import dataclasses
import importlib
import json
import re

import pandas as pd
import pytest

from mhbench.ask.request import Answer
from mhbench.records.schema import Grouping, Item, Outcome, Response, Score, column_of, columns, conform
from mhbench.report.items import ROW_COLUMNS
from mhbench.steps.score import score_responses

DERIVED = {"what", "origin", "judged", "judges"}  # what the page says of an answer beside its scores


@pytest.fixture(scope="module")
def forms(root):
    "The rows of the table in the notebook: name and place of each form."
    cells = json.loads((root / "nbs/records/01_schema.ipynb").read_text(encoding="utf-8"))["cells"]
    (text,) = [
        "".join(c["source"]) for c in cells if "## One answer, from the wire to the page" in "".join(c["source"])
    ]
    return re.findall(r"^\| (\d) \| (.*?) \| `(.*?)` \|.*$", text, re.M), text


def test_an_answer_takes_at_most_eight_forms_and_each_is_where_the_notebook_says(forms, root):
    found, _ = forms
    assert [int(n) for n, _, _ in found] == list(range(1, len(found) + 1)) and 5 <= len(found) <= 8
    for _, name, place in found:
        if "/" in place:
            assert (root / place).is_file(), name
            continue
        module, _, what = place.rpartition(".") if place.rsplit(".", 1)[1][0].isupper() else (place, "", "")
        assert not what or hasattr(importlib.import_module(module), what), name
        importlib.import_module(module)


def test_the_documentation_has_the_notebook_s_table(forms, root):
    lines = [line for line in forms[1].splitlines() if line.startswith("| ")]
    said = (root / "docs" / "forms.md").read_text(encoding="utf-8").splitlines()
    assert lines and [line for line in said if line.startswith("| ")] == lines


def test_a_response_has_the_fields_of_its_answer_under_their_names():
    answer = {f.name for f in dataclasses.fields(Answer)}
    carried = answer & set(Response.model_fields)
    assert {"status", "text", "reasoning", "letter_logprobs", "attempts", "error", "cost_usd", "changed"} <= carried
    made = {"item_id", "study", "model", "mode", "sample", "votes", "origin", "temperature", "numbered", "order"}
    made |= {"agrees", "chosen_by", "wording"}
    assert set(Response.model_fields) - carried <= made
    assert set(Outcome.model_fields) <= set(Response.model_fields)


def test_the_scores_table_is_the_declared_one():
    item = {"item_id": "q", "study": "s", "task": "multiple_choice", "question": "?", "source": "x"}
    items = [Item(**item, options=["a", "b"], key=["B"])]
    responses = [Response(item_id="q", study="s", model="m", mode="cot", text="B")]
    table = score_responses(items, responses)
    assert list(table) == columns(Score) and list(table)[: len(columns(Grouping))] == columns(Grouping)
    assert table["correct"].tolist() == [1.0] and column_of(responses, "mode").tolist() == ["cot"]
    whole = {name: str(table[name].dtype) for name in columns(Score, int, float, bool)}
    assert set(whole.values()) == {"int64", "float64", "bool"} and whole["n_votes"] == "int64"
    with pytest.raises(ValueError, match=r"columns must be those of Score; got none of \['correct'\]"):
        conform(table.drop(columns="correct"), Score)
    assert list(conform(table.assign(more=1)[[*table][::-1]], Score)) == columns(Score)  # by name, whatever the order


def test_the_page_calls_a_column_what_the_scores_call_it(root):
    assert set(ROW_COLUMNS) - DERIVED <= set(columns(Score))
    script = (root / "mhbench/report/static/answers.js").read_text(encoding="utf-8")
    asked = set(re.findall(r'\bget\("(\w+)"|\bget\(\w+, "(\w+)"\)|columns\.(\w+)\.', script))
    names = {name for found in asked for name in found if name}
    assert {"item_id", "mode", "correct", "cluster"} <= names <= set(ROW_COLUMNS)
    template = (root / "mhbench/report/templates/page.html").read_text(encoding="utf-8")
    assert not re.search(r"asked=|case=", script + template)


def test_a_column_by_position_is_refused_by_its_name():
    table = pd.DataFrame([[1, 2]], columns=["a", "b"])
    with pytest.raises(ValueError, match="must be those of Grouping; got none of"):
        conform(table, Grouping)
