"Results: names that name nothing are said, and no name runs anything where a table or a figure is opened."

import io

import matplotlib
import numpy as np
import pandas as pd
import pytest

from mhbench.records.database import stage_folder
from mhbench.records.schema import Item, Response, write_records
from mhbench.report.findings import against_lines, went_wrong
from mhbench.report.items import answers_of
from mhbench.report.page import collect
from mhbench.report.style import STYLE
from mhbench.report.tables import csv_text, doubts, markdown_table
from mhbench.run.graph import Node, runs
from mhbench.run.stage import Stage
from mhbench.steps.accuracy import breakdowns
from mhbench.steps.between_models import model_pairs
from mhbench.steps.chains import mean_scores, reasoning_chains
from mhbench.steps.freeform import accuracy_on_freeform_questions, could_be_asked, inconsistency_table
from mhbench.steps.rates import absent_members, present_groups
from mhbench.steps.score import scorable, score_responses
from mhbench.studies.counselingbench.competency import competency_table, pairs_not_asked
from mhbench.studies.mhqa.profile import accuracy_and_f1
from mhbench.studies.psychiatrybench.standings import draw_standings, result_columns, results_table

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
    nodes = [Node(s, "studies" if s == "score" else s, False, (), ("study",)) for s in ("score", "judge")]
    stages = {n.name: n for n in nodes}
    for stage, study in (("score", "old"), ("score", "new"), ("judge", "old")):
        (tmp_path / stage_folder(stage, study)).mkdir(parents=True)
        contents = '{"stage": "%s", "study": "%s", "about": "", "tables": [], "figures": [], "absent": []}'
        (tmp_path / stage_folder(stage, study) / "contents.json").write_text(contents % (stage, study))
    parts = runs({"studies": ["new"], "models": [], "judge": []}, stages)
    assert [(s.stage, s.study) for s in collect(tmp_path, tmp_path, parts)] == [("score", "new")]
    with pytest.raises(FileNotFoundError, match="must have left its contents"):
        collect(tmp_path, tmp_path, runs({"studies": ["new"], "models": [], "judge": ["new"]}, stages))


@pytest.mark.parametrize("models, said", [(["a"], "scores of b, not of the run"), (["a", "b", "c"], "none of c")])
def test_a_report_of_another_selection_of_models_is_refused(models, said, tmp_path):
    same = dict(study="mhqa", mode="zero_shot")
    item = Item(item_id="q", study="mhqa", task="cloze", question="?", key=["x"], source="made")
    answers = {m: [Response(item_id="q", model=m, text="x", **same)] for m in "abc"}
    write_records([item], tmp_path / "text/mhqa/prepare/items.parquet", Item)
    for m, found in answers.items():
        write_records(found, tmp_path / f"text/mhqa/generate/{m}/responses.parquet", Response)
    (tmp_path / "studies/mhqa/score").mkdir(parents=True)
    score_responses([item], answers["a"] + answers["b"]).to_parquet(tmp_path / "studies/mhqa/score/scores.parquet")
    assert len(answers_of(tmp_path, ["mhqa"], ["a", "b"]).rows) == 2
    with pytest.raises(ValueError, match=f"be those of the models of the run; got {said}; run `dvc repro`"):
        answers_of(tmp_path, ["mhqa"], models)


# -- somebody who answered the easy ones only


@pytest.fixture
def forty():
    "Forty questions; `whole` answered all and knows half, `easy` answered ten, all of them right."
    made = dict(study="psychiatrybench", task="multiple_choice", options=["a", "b"], key=["A"], source="made")
    items = [Item(item_id=f"q{n}", question=f"Which {n}?", category="mcq", topic="x", **made) for n in range(40)]
    said = [("whole", n, "AB"[n % 2]) for n in range(40)] + [("easy", n, "A") for n in range(10)]
    same = dict(study="psychiatrybench", mode="zero_shot")
    return items, score_responses(items, [Response(item_id=f"q{n}", model=m, text=a, **same) for m, n, a in said])


def of_easy(table: pd.DataFrame) -> pd.DataFrame:
    return table[table["model"] == "easy"]


def test_a_share_of_ten_of_forty_says_so_wherever_it_stands(forty):
    items, scores = forty
    how = dict(n_boot=20, seed=1)
    whole = scorable(items)
    accuracy = breakdowns(scores, ["category"], all_items=whole, **how)["correct"]
    measures = competency_table(scores, all_items=whole, **how)
    profile = accuracy_and_f1(scores, "category", all_items=whole, **how)
    for table in (accuracy, measures, profile):
        assert (of_easy(table)["n"] == 10).all() and (of_easy(table)["n_not_asked"] == 30).all()
        assert (table.loc[table["model"] == "whole", "n_not_asked"] == 0).all()
    columns = result_columns(
        scores, pd.DataFrame(columns=["item_id", "cluster", "category", "model", "points"]), items, ["whole", "easy"]
    )
    placed = of_easy(results_table(draw_standings(columns, ["whole", "easy"], **how)))
    assert (placed["n_without"] == 30).all()
    [pair] = model_pairs(scores).to_dict("records")
    assert pair["n"] == 10, "compared on what both answered"


def test_answers_in_free_form_and_chains_of_ten_of_forty_say_so(forty):
    items = [i.model_copy(update={"rationale": "Because it helps."}) for i in forty[0]]
    same = dict(study="psychiatrybench", model="easy")
    said = [Response(item_id=f"q{n}", mode="free_form", text="a", **same) for n in range(9)]
    said += [Response(item_id="q9", mode="free_form", status="error", **same)]
    said += [Response(item_id=f"q{n}", mode="zero_shot", text="A", **same) for n in range(10)]
    said += [Response(item_id=f"q{n}", mode="cot", text="It helps. A.", **same) for n in range(8)]
    said += [Response(item_id="q8", mode="cot", status="error", **same)]
    said += [Response(item_id="q9", mode="cot", text=" ", **same)]
    own = score_responses(items, said[:10]).assign(inconsistency=[0.0] * 9 + [np.nan])
    free = inconsistency_table(own, all_items=could_be_asked(items, own))
    beside = accuracy_on_freeform_questions(items, said)
    chains = reasoning_chains(items, said)
    means = mean_scores(items, chains, pd.DataFrame({"rougeL": [0.5] * 8}))
    for table, counts in ((free, (9, 30, 1)), (beside, (10, 30, 0)), (means, (8, 30, 2))):
        assert set(table[["n", "n_not_asked", "n_missing"]].itertuples(index=False, name=None)) == {counts}


def test_the_first_screen_says_who_answered_the_easy_ones_only(forty, tmp_path):
    items, scores = forty
    s = Stage("score", "psychiatrybench", tmp_path, models=["whole", "easy"])
    accuracy = breakdowns(scores, [], all_items=scorable(items), n_boot=20, seed=1)["correct"]
    s.table("scores", scores, "One row a response", show=False)
    s.table("accuracy", accuracy, "Accuracy")
    s.headline(accuracy, measure="accuracy")
    s.done({})
    main = pd.read_parquet(tmp_path / "studies/psychiatrybench/score/headline.parquet")
    first = against_lines(tmp_path, ["psychiatrybench"], [("score", "psychiatrybench")])
    for table in (main, first):
        assert of_easy(table)["n_not_asked"].tolist() == [30] and of_easy(table)["estimate"].tolist() == [1.0]
        assert any("the models answered different items (n from 10 to 40)" in d for d in doubts(table))
    assert any(
        "30 of 80 questions to a model in a mode were not asked; they are in no accuracy (easy, zero shot 30 of 40)"
        in w
        for w in went_wrong(tmp_path, ["psychiatrybench"], [("score", "psychiatrybench")])
    )
