"What is missing, tied or of another scale is said, and no number stands for it."

import numpy as np
import pandas as pd
import pytest

from mhbench.records.schema import Item, Judgment, Rating
from mhbench.run.params import load_params, stage_parameters
from mhbench.steps.duels import duel_strengths, outcome_shares
from mhbench.steps.judge import position_bias_table
from mhbench.steps.judge_people import other_labels, people_table, rated_points
from mhbench.steps.judge_study import _change_fact, corruption_rules
from mhbench.steps.verdict_tables import (
    about_lineages,
    final_scores,
    judges_compared,
    one_value,
    verdict_frame,
    verdict_means,
)
from mhbench.steps.verdicts import BY_RULE


def mean(labels, ruled=0, kind="label"):
    "The row of all verdicts of one judge; None stands for a failed one."
    said = [*labels, *[BY_RULE] * ruled]
    about = {"study": "s", "task": "open", "question": "?", "key": ["x"], "source": "test", "category": "c"}
    items = [Item(item_id=f"q{k}", **about) for k in range(len(said))]
    judgments = []
    for item, label in zip(items, said):
        by = {"item_id": item.item_id, "study": "s", "model": "m", "judge": "j", "kind": kind, "rubric": "r"}
        if label is None:
            by |= {"status": "error", "error": "unread"}
        elif label == BY_RULE:
            by |= {"text": BY_RULE} | ({"label": "Incorrect"} if kind == "label" else {"score": 0.0})
        else:
            by |= {kind: label}
        judgments.append(Judgment(**by))
    table = verdict_means(verdict_frame(judgments, items, kind), kind)
    return table.query("by == 'all'").to_dict("records")[0], judgments, items


def test_a_judge_whose_every_verdict_is_unread_has_no_number():
    row, *_ = mean([None] * 142, ruled=8)
    assert np.isnan(row["estimate"]) and np.isnan(row["ci_low"])
    assert (row["n_asked"], row["n_failed"], row["n_by_rule"]) == (142, 142, 8)
    assert row["low"] == 0 and row["high"] == pytest.approx(142 / 150)


def test_what_the_rule_decides_is_no_verdict():
    row, *_ = mean([], ruled=12)
    assert np.isnan(row["estimate"]) and (row["n_asked"], row["n_by_rule"]) == (0, 12)
    row, *_ = mean(["Correct"] * 12, ruled=12)
    assert row["estimate"] == 0.5 and (row["n"], row["n_asked"], row["n_by_rule"]) == (24, 12, 12)


def test_a_third_label_does_not_leave_the_mean_unseen():
    row, *_ = mean(["Correct"] * 5 + ["Partially correct"] * 5)
    assert np.isnan(row["estimate"]) and row["n_other"] == 5 and (row["low"], row["high"]) == (0.5, 1.0)
    row, *_ = mean(["Correct"] * 60 + ["Incorrect"] * 40 + ["Partially correct"])
    assert row["estimate"] == 0.6 and row["n_other"] == 1
    assert row["low"] == pytest.approx(60 / 101) and row["high"] == pytest.approx(61 / 101)


def test_a_number_stands_where_nothing_is_missing_or_nothing_missing_matters():
    row, *_ = mean(["Correct"] * 30 + ["Incorrect"] * 10 + ["Abstain"] * 5)
    assert row["estimate"] == row["low"] == row["high"] == 0.75 and row["n_abstain"] == 5
    few, *_ = mean(["Correct"] * 30 + ["Incorrect"] * 10 + [None])
    many, *_ = mean(["Correct"] * 30 + ["Incorrect"] * 10 + [None] * 40)
    assert few["estimate"] == 0.75 and np.isnan(many["estimate"]) and (many["low"], many["high"]) == (0.375, 0.875)


def test_scores_have_bounds_too():
    row, judgments, items = mean([80.0] * 6 + [60.0] * 6 + [None] * 12, kind="score")
    assert np.isnan(row["estimate"]) and (row["low"], row["high"]) == (pytest.approx(0.35), pytest.approx(0.85))
    [final] = final_scores(judgments, items).to_dict("records")
    assert np.isnan(final["estimate"]) and final["n_failed"] == 12
    assert (final["low"], final["high"]) == (pytest.approx(35), pytest.approx(85))
    _, judgments, items = mean([None] * 4, ruled=8, kind="score")
    [final] = final_scores(judgments, items).to_dict("records")
    assert np.isnan(final["estimate"])


def test_an_unknown_lineage_is_unknown():
    said = about_lineages(["judge"], ["a", "b"], {"judge": "x", "a": "y"})
    assert said.startswith("no judge is known to share a lineage with a student; unknown is the lineage of b")
    assert "judge" in about_lineages(["judge"], ["a"], {"a": "y"}).partition("unknown is the lineage of")[2]
    assert about_lineages(["judge"], ["a"], {"judge": "x", "a": "y"}) == "no judge shares a lineage with a student"
    assert about_lineages(["judge"], ["a"], {"judge": "x", "a": "x"}) == "of one lineage: judge judging a"


def met(*verdicts):
    "Judgments of two contestants in both orders, a pair of verdicts for each question."
    out = []
    for k, (forward, backward) in enumerate(verdicts):
        for model, other, label in (("a", "b", forward), ("b", "a", backward)):
            by = {"item_id": f"q{k}", "study": "s", "model": model, "other": other, "judge": "j", "axis": "overall"}
            by |= {"label": label} if label else {"status": "error", "error": "unread"}
            out.append(Judgment(**by, kind="pairwise", rubric="r"))
    return out


def test_a_pair_with_a_failed_verdict_is_no_tie():
    "Ten pairs with both verdicts, half of them for the first place in both orders; thirty of which one or both failed."
    verdicts = [("first", "first" if k % 2 else "second") for k in range(10)]
    bias = position_bias_table(met(*verdicts, *[(None, "first")] * 20, *[(None, None)] * 10)).set_index("measure")
    assert (bias["n_pairs"] == 40).all() and (bias["n_failed"] == 30).all() and (bias["n"] == 10).all()
    assert bias["estimate"].to_dict() == {"consistency": 0.5, "first": 0.25}


def test_a_judge_that_only_ties_has_that_as_its_finding():
    ties = met(*[("tie", "tie")] * 28)
    bias = position_bias_table(ties)
    assert bias["estimate"].isna().all() and bias["ci_low"].isna().all() and (bias["n_ties"] == 28).all()
    assert set(bias["finding"]) == {"every verdict is a tie: it decides nothing (28 pairs)"}
    worths = duel_strengths(ties)
    assert worths["estimate"].isna().all() and (worths["n_duels"] == 28).all()
    assert set(worths["finding"]) == {"none of 28 duels was decided: each is tied or split"}


def test_a_judge_that_always_takes_the_first_has_that_as_its_finding():
    bias = position_bias_table(met(*[("first", "first")] * 9)).set_index("measure")
    assert (bias.loc["consistency", "estimate"], bias.loc["first", "estimate"]) == (0, 0.5)
    assert set(bias["finding"]) == {"the first place wins every time (9 pairs)"}
    assert duel_strengths(met(*[("first", "first")] * 9))["estimate"].isna().all()


def test_a_judge_that_decides_has_no_finding():
    decided = met(*[("first", "second")] * 6, *[("second", "first")] * 4)
    assert set(position_bias_table(decided)["finding"]) == {""}
    worths = duel_strengths(decided)
    assert worths["estimate"].notna().all() and set(worths["finding"]) == {""}


def test_shares_of_duels_have_bounds():
    ended = outcome_shares(met(*[("first", "second")] * 6, *[(None, "second")] * 6)).set_index("outcome")
    assert ended["estimate"].isna().all() and (ended["n_failed"] == 6).all()
    assert ended.loc["a wins", ["low", "high"]].tolist() == [0.5, 1.0]
    assert ended.loc["equal", ["low", "high"]].tolist() == [0.0, 0.5]


def test_one_value_for_every_answer_is_a_finding():
    _, judgments, items = mean([85.0] * 9 + [None], ruled=3, kind="score")
    assert one_value(verdict_frame(judgments, items, "score")) == {"j": "85 for each of 9 answers"}
    _, judgments, items = mean([85.0] * 9 + [80.0], kind="score")
    assert one_value(verdict_frame(judgments, items, "score")) == {}


def rating(k, **verdict):
    return Rating(item_id=f"q{k}", study="s", rater="r", target="m", source="test", **verdict)


def test_peoples_labels_are_read_in_the_rubrics_words():
    said = ["correct", "Richtig", "FALSCH", "Incorrect", "Partially correct", "Abstain", "Keine Angabe"]
    ratings = [rating(k, label=label) for k, label in enumerate(said)]
    points = rated_points(ratings, ["m"])["r"]
    assert points.dropna().tolist() == [100, 100, 0, 0]
    assert other_labels(ratings, ["m"]).to_dict("records") == [{"model": "m", "label": "Partially correct", "n": 1}]


@pytest.mark.parametrize(("values", "fits"), [([1, 2, 5, 4], False), ([20, 40, 100, 80], True), ([0, 10, 5, 0], True)])
def test_ratings_on_another_scale_are_refused(values, fits):
    ratings = [rating(k, value=float(v)) for k, v in enumerate(values)]
    table = pd.DataFrame({"judge": "j", "item_id": [f"q{k}" for k in range(4)], "model": "m", "points": 85.0})
    table["cluster"] = table["item_id"]
    if fits:
        assert len(people_table(table, ratings, kind="score", seed=1, n_boot=20))
    else:
        with pytest.raises(ValueError, match=r"points from 0 to 100.* got 4 from 1 to 5, .*; write them as 100"):
            people_table(table, ratings, kind="score", seed=1)


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("1. Sertraline 50 mg\n2. Therapy", "1. Sertraline 500 mg\n2. Therapy"),
        ("By DSM-5 it takes 2 weeks.", "By DSM-5 it takes 20 weeks."),
        ("By DSM 5 it takes 2 weeks.", "By DSM 5 it takes 20 weeks."),
        ("(1) Bipolar 1, (2) 3 of 9 signs", "(1) Bipolar 1, (2) 30 of 9 signs"),
        ("5-HT2A agonists, since 2013", "5-HT2A antagonists, since 2013"),
        ("1. An acute state", "1. An chronic state"),
        ("Type 2 in 12 months; ICD-10", "Type 2 in 120 months; ICD-10"),
        ("Take 50. Then wait.", "Take 500. Then wait."),
        ("First: 1) rest 2) 6 walks", "First: 1) rest 2) 60 walks"),
    ],
)
def test_a_changed_fact_is_a_fact(text, changed):
    rules = corruption_rules("en")
    rules = {**rules, "opposites": [*rules["opposites"], ["agonists", "antagonists"]]}
    assert _change_fact(text, rules) == changed


def test_an_adjudicator_is_no_rater_and_a_panel_is_one_where_no_person_rated():
    fields = dict(item_id="q1", study="s", target="m", source="test")
    person, panel, breaker = (
        Rating(**fields, rater=rater, kind=kind, label=label)
        for rater, kind, label in (("r", "person", "Correct"), ("p", "panel", "Incorrect"), ("t", "adjudicator", "Odd"))
    )
    reference = Rating(**fields, rater="key", kind="reference", label="Incorrect")
    assert rated_points([person, panel, breaker, reference], ["m"]).to_dict("list") == {"r": [100.0]}
    assert rated_points([panel, breaker, reference], ["m"]).to_dict("list") == {"p": [0.0]}
    assert rated_points([breaker, reference], ["m"]).empty and other_labels([person, breaker], ["m"]).empty


def test_who_breaks_ties_by_the_parameters_is_no_rater_beside_a_judge(root):
    p = load_params(root / "params.yaml")
    assert p["studies"]["medqade"]["panel"]["tie_breaker"] == "sim-p10"
    assert stage_parameters(p, "judge", "medqade")["tie_breaker"] == "sim-p10"
    assert stage_parameters(p, "judge", "mhqa")["tie_breaker"] is None
    raters = [rating(0, label="Correct").model_copy(update={"rater": name}) for name in ("sim-p9", "sim-p10")]
    assert list(rated_points(raters, ["m"], "sim-p10")) == ["sim-p9"]
    odd = [r.model_copy(update={"label": "Odd"}) for r in raters]
    assert other_labels(odd, ["m"], "sim-p10")["n"].tolist() == [1]


def test_the_share_of_scores_alike_has_an_interval_where_all_are_and_their_distance_has_none():
    items = [Item(item_id=f"q{k}", task="open", question="?", key=["x"], study="d", source="x") for k in range(10)]
    about = {"study": "d", "model": "m", "kind": "score", "rubric": "r"}
    judgments = [Judgment(item_id=f"q{k}", judge=j, score=10.0 * k, **about) for j in "ab" for k in range(10)]
    pairs = judges_compared(verdict_frame(judgments, items, "score"), "score", seed=1).set_index("measure")
    assert pairs["estimate"].tolist() == [1.0, 0.0] and pairs["interval"].tolist() == ["agresti-coull", "none"]
    assert pairs.loc["same score", "ci_low"] == pytest.approx(0.679113, abs=1e-6)
