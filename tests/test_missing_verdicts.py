"Means of verdicts where some are missing: bounds, and a number only where it is read in the same way at both."

import numpy as np
import pytest

from mhbench.records.schema import Item, Judgment
from mhbench.steps.verdict_tables import about_lineages, final_scores, verdict_frame, verdict_means
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
    table = verdict_means(verdict_frame(judgments, items, kind), kind, seed=1)
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
    [final] = final_scores(judgments, items, seed=1).to_dict("records")
    assert np.isnan(final["estimate"]) and final["n_failed"] == 12
    assert (final["low"], final["high"]) == (pytest.approx(35), pytest.approx(85))
    _, judgments, items = mean([None] * 4, ruled=8, kind="score")
    [final] = final_scores(judgments, items, seed=1).to_dict("records")
    assert np.isnan(final["estimate"])


def test_an_unknown_lineage_is_unknown():
    said = about_lineages(["judge"], ["a", "b"], {"judge": "x", "a": "y"})
    assert said.startswith("no judge is known to share a lineage with a student; unknown is the lineage of b")
    assert "judge" in about_lineages(["judge"], ["a"], {"a": "y"}).partition("unknown is the lineage of")[2]
    assert about_lineages(["judge"], ["a"], {"judge": "x", "a": "y"}) == "no judge shares a lineage with a student"
    assert about_lineages(["judge"], ["a"], {"judge": "x", "a": "x"}) == ""
