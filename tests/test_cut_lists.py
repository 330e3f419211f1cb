"What is too long for a terminal or a page is cut, one entry beyond its limit and not at it, and the reader is told."

import pandas as pd
import pytest

from mhbench.records.schema import Item
from mhbench.run import results, shape
from mhbench.steps import failures, verdict_tables
from mhbench.tools import edit, ledger, manifest, new_study, summary

ITEM = Item(item_id="q", study="s", task="open", question="?", key=["k"], source="q.csv:2")
PART = manifest.RunPart("score", "", None, "stale", "a cause", "run it")
CHOICE = {"task": "multiple_choice", "key": ["A"]}


def names(n: int) -> list[str]:
    return [f"n{k:02d}" for k in range(n)]


def page_rows(n: int) -> str:
    grid = results._grid(pd.DataFrame({"model": names(n)}), "A table")
    return f"{len(grid['rows'])} rows, {grid['more']} more"


def stale(n: int) -> str:
    return manifest.states_in_words([PART._replace(study=name) for name in names(n)])[0]


def set_aside(n: int) -> str:
    rows = [{"place": name, "column": "key", "rule": "be one", "value": "v"} for name in names(n)]
    return edit.rows_aside(rows, 3)[-1]


def columns_of(n: int) -> str:
    item = ITEM.model_copy(update=CHOICE | {"options": names(n)})
    layout = {"columns": {"options": names(n), "question": "text", "key": "right"}, "key": "letter", "separator": None}
    table = new_study.understood([item], layout).set_index("field")
    return table.loc["options", "column"]


def unknown_lineages(n: int) -> str:
    return verdict_tables.about_lineages([], names(n), {})


def example(n: int) -> str:
    return new_study.example(ITEM.model_copy(update={"question": "x" * n}))


def differing(n: int) -> str:
    shared = {
        "paper": "P",
        "kind": "data",
        "verdict": "differs",
        "place": "T",
        "of": "o",
        "tolerance": "",
        "reason": "",
    }
    rows = pd.DataFrame({"claim": names(n), "printed": "2", "value": 1.0, "difference": -1.0}).assign(**shared)
    return ledger.verdict_summary(rows)


CUT = {  # at the limit, and one beyond it
    "names": (lambda n: shape.listed(names(n)), 20, "18, n19", "n19 and 1 more"),
    "a value": (lambda n: shape.short_repr("x" * (n - 2)), 60, "x'", "x ..."),
    "rows of a page": (page_rows, 15, "15 rows, 0 more", "12 rows, 4 more"),
    "judges of no known lineage": (unknown_lineages, 8, "n06, n07 (", "n07 and 1 more ("),
    "stages that are out of date": (
        stale,
        3,
        "score n02 (a cause): `run it`",
        "score n02 and 1 more (a cause): `run it`",
    ),
    "rows that are set aside": (set_aside, 3, "n02, key: be one; got v", "  and 1 more"),
    "values of a column": (lambda n: new_study._commonest_values(names(n)), 3, "n00, n01, n02", "n02, …"),
    "a value of a column": (lambda n: new_study._commonest_values(["x" * n]), 24, "x" * 24, "x" * 23 + "…"),
    "columns of a field": (columns_of, 2, "n00, n01", "n00 … n02"),
    "a text of an example": (example, 90, "x" * 90, "x" * 89 + "…"),
    "numbers that differ": (differing, 20, "n19", "and 1 more"),
    "a line": (lambda n: summary._shortened_line("x" * n), 120, "x" * 120, "x" * 116 + " ..."),
    "an error": (lambda n: failures.in_one_line("x" * n), 240, "x" * 240, "..."),
}


@pytest.mark.parametrize("what", CUT)
def test_a_list_is_whole_at_its_limit_and_cut_one_beyond(what):
    text_of, limit, whole, cut = CUT[what]
    assert whole in text_of(limit) and cut not in text_of(limit)
    assert cut in text_of(limit + 1)


def test_what_all_rows_share_stands_in_the_caption_unless_the_table_has_nothing_else():
    alike = results._grid(pd.DataFrame({"model": ["a"] * 3, "kind": "x"}), "A table")
    assert (alike["head"], alike["caption"], len(alike["rows"])) == (["model", "kind"], "A table", 3)
    grid = results._grid(pd.DataFrame({"judge": "j", "kind": "x", "set": "G", "model": ["a", "b"]}), "A table")
    assert (grid["head"], grid["caption"]) == (["model"], "A table (judge: j, kind: x, set: G)")
