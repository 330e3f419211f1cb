"Results: names that name nothing are said, and no name runs anything where a table or a figure is opened."

import io

import matplotlib
import pandas as pd
import pytest

from mhbench.report.page import collect
from mhbench.report.style import STYLE
from mhbench.report.tables import csv_text, markdown_table
from mhbench.run.graph import Node, runs
from mhbench.steps.rates import absent_members, present_groups
from mhbench.studies.counselingbench.tables import pairs_not_asked

FORMULAS = ["=cmd|'/C calc'!A0", "@SUM(A1)", "+1+cmd", "-cmd", "\t=1", "\r=1"]


@pytest.mark.parametrize("name", FORMULAS)
def test_a_name_is_no_formula_in_a_spreadsheet(name):
    text = csv_text(
        pd.DataFrame({"deck": [name, "plain"], "estimate": [-0.5, 1.0], "interval": ["-0.5", "−1"], name: 1})
    )
    cells = pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False)
    assert cells["deck"][0].startswith("'") and cells.columns[-1].startswith("'")
    assert cells["estimate"][0] == "-0.5" and cells["interval"][0] == "-0.5", "a number stays one"


def test_a_name_is_no_tag_in_a_table_for_readers():
    table = markdown_table(pd.DataFrame({"deck": ["<img src=x onerror=alert(1)>", "a|b\nc"]}))
    assert "<" not in table and "\\|" in table


@pytest.mark.parametrize("label", ["Costs $5_$", "$5 or $10", "$\\frac{$", "a_b^c"])
def test_a_name_is_no_formula_in_a_figure(label, tmp_path):
    with matplotlib.rc_context(STYLE):
        from matplotlib.figure import Figure

        figure = Figure()
        figure.subplots().set_title(label)
        figure.savefig(tmp_path / "f.svg")
    assert (tmp_path / "f.svg").stat().st_size > 0


def test_a_group_that_is_not_whole_is_said():
    groups = {"large": ["a", "nosuch"], "gone": ["x"], "whole": ["a", "b"]}
    assert list(present_groups(groups, ["a", "b"])) == ["large", "whole"]
    said = absent_members(groups, ["a", "b"])
    assert said == {"group large": "nosuch did not answer here", "group gone": "x did not answer here"}


def test_a_pair_that_is_not_there_is_said():
    assert list(pairs_not_asked({"nosuch": "a", "b": "a"}, {"b": "a"}, "cot")) == ["nosuch beside a"]


def test_the_report_takes_the_studies_of_the_run_and_no_other(tmp_path):
    nodes = [Node(s, "studies" if s == "score" else s, False, (), (), ("study",)) for s in ("score", "judge")]
    stages = {n.name: n for n in nodes}
    for stage, study in (("score", "old"), ("score", "new"), ("judge", "old")):
        (tmp_path / stage / study).mkdir(parents=True)
        contents = '{"stage": "%s", "study": "%s", "about": "", "tables": [], "figures": [], "absent": []}'
        (tmp_path / stage / study / "contents.json").write_text(contents % (stage, study))
    parts = runs({"studies": ["new"], "models": [], "judge": []}, stages)
    assert [(s.stage, s.study) for s in collect(tmp_path, tmp_path, parts)] == [("score", "new")]
    with pytest.raises(FileNotFoundError, match="must have left its contents"):
        collect(tmp_path, tmp_path, runs({"studies": ["new"], "models": [], "judge": ["new"]}, stages))
