"""Nothing promises more than its cases: warnings, detectable differences and signs of differences."""

import numpy as np
import pandas as pd
import pytest

from mhbench.report.tables import doubts
from mhbench.stats.bias import family_bias
from mhbench.stats.differences import mean_difference, simultaneous_intervals
from mhbench.stats.tests import compare_levels, detectable_difference, sign_flip_test
from mhbench.steps.between_models import model_pairs
from mhbench.studies.psychiatrybench.standings import Column, draw_standings, rank_table, results_table


def table(**more) -> pd.DataFrame:
    return pd.DataFrame({"estimate": [0.65], "ci_low": [0.6], "ci_high": [0.7], "n": [200], "n_clusters": [2]} | more)


def test_warnings_look_at_cases_and_not_at_answers_alone():
    assert doubts(table()) == ["1 of 1 rows rest on fewer than 10 independent cases: treat as inconclusive"]
    assert doubts(table(n_clusters=[20])) == ["1 of 1 rows rest on fewer than 30 independent cases: treat as imprecise"]
    assert doubts(table(n_clusters=[200])) == []
    assert doubts(table(n=[9], n_clusters=[9])) == ["1 of 1 rows rest on fewer than 10 items: treat as inconclusive"]
    none = table(ci_low=[np.nan], ci_high=[np.nan], interval=["few"])
    assert "too few independent cases" in doubts(none)[1]


def test_an_interval_that_excludes_0_beside_a_larger_p_is_no_finding():
    "Four questions of 21 differ, all one way: an exact p of 2^-3, and an interval above 0."
    differences = np.r_[np.ones(4), np.zeros(17)]
    p, e = sign_flip_test(differences, seed=0), mean_difference(differences, largest=1)
    assert p == 2 ** (1 - 4) and e.ci_low > 0
    pairs = pd.DataFrame([{"first": "a", "second": "b", **e.row(), "p": x, "p_holm": 1.0} for x in (p, 0.01)])
    note = "1 of 2 intervals exclude 0 although p is not below 0.05: the test decides; an exact one of k cases that "
    assert note + "differ gives 2^(1-k) or more" in doubts(pairs)
    inside = pairs.assign(ci_low=-0.1)
    for without in (pairs[pairs["p"] < 0.05], inside, pairs.rename(columns={"first": "model", "second": "change"})):
        assert not [d for d in doubts(without) if "exclude 0" in d]


@pytest.mark.parametrize("n", range(2, 9))
def test_nothing_is_detectable_where_signs_can_show_nothing(n):
    smallest = sign_flip_test(np.ones(n), seed=1)
    assert np.isnan(detectable_difference(n, se=0.1)) == (smallest > 0.05)
    assert np.isnan(detectable_difference(n, se=0.1, comparisons=3)) == (smallest > 0.05 / 3)


def test_no_difference_of_shares_above_one_is_detectable():
    x = np.array([1, 0, 0, 1, 1, 0, 1, 0] * 2, float)
    rows = {"mode": "zero_shot", "answered_by": "plain", "n_votes": 1, "status": "ok", "how": "letter", "read": True}
    rows |= {"item_id": [f"q{k}" for k in range(8)] * 2, "cluster": [f"q{k}" for k in range(8)] * 2}
    scores = pd.DataFrame(rows | {"model": ["a"] * 8 + ["b"] * 8, "correct": np.r_[x[:8], 1 - x[:8]]})
    found = model_pairs(scores).iloc[0]  # by the formula 1.2: no two models differ by that
    assert np.isnan(found["detectable"]) and found["p"] == 1 and found["n"] == 8
    levels = compare_levels(scores["correct"], scores["item_id"], scores["model"], largest=1, seed=1, permutations=99)[
        0
    ]
    assert np.isnan(levels.detectable)


def test_a_difference_is_the_first_minus_the_second_wherever_pairs_stand():
    right = np.array([1, 1, 1, 1, 0, 1, 1, 0] + [0, 1, 0, 1, 0, 0, 1, 0], float)
    names, who = [f"q{k}" for k in range(8)] * 2, ["a"] * 8 + ["b"] * 8
    rows = {"mode": "zero_shot", "answered_by": "plain", "n_votes": 1, "status": "ok", "how": "letter", "read": True}
    scores = pd.DataFrame(rows | {"item_id": names, "cluster": names, "model": who, "correct": right})
    pair = model_pairs(scores).iloc[0]
    level = compare_levels(right, names, who, seed=1, permutations=99)[0]
    assert (pair["first"], pair["second"]) == (level.first, level.second) == ("a", "b")
    assert pair["estimate"] == level.difference.estimate == 3 / 8


@pytest.mark.parametrize("largest", [np.inf, 1])
def test_differences_need_six_cases_one_by_one_and_together(largest):
    d = np.random.default_rng(1).choice([-1.0, 0, 1], size=(12, 3), p=[0.2, 0.3, 0.5])
    for n, of in ((6, np.arange(6)), (12, np.arange(12) % 6)):
        assert np.isfinite(simultaneous_intervals(d[:n], of, seed=1, largest=largest).ci_low).all()
        assert np.isfinite(mean_difference(d[:n, 0], of, largest=largest).ci_low)
    for n, of in ((5, np.arange(5)), (12, np.arange(12) % 5)):
        assert np.isnan(simultaneous_intervals(d[:n], of, seed=1, largest=largest).ci_low).all()
        assert mean_difference(d[:n, 0], of, largest=largest).kind == "few"


def test_what_has_no_interval_has_no_p():
    x = np.array(
        [[[1.0] * 2, [1.0] * 2], [[0.0] * 2, [1.0] * 2]]
    )  # a judge, a student that is its sibling; two answers
    row = family_bias(x, ["a", "b"], ["a2", "b2"], {"a": "A", "a2": "A", "b": "B", "b2": "B"}, n=100, seed=1)[0].row()
    assert row["n"] == 2 and np.isnan([row["ci_low"], row["p_value"]]).all()


def test_single_questions_make_no_column_and_no_best():
    rng = np.random.default_rng(4)
    columns = {str(k): Column(np.arange(30) + 100 * k, 60 + 15 * rng.normal(size=(30, 3))) for k in range(2)}
    columns["2"] = Column(np.array([900]), np.array([[100.0, 0, 50]]))
    s = draw_standings(columns, ["a", "b", "c"], n_boot=100, seed=1)
    table = results_table(s).set_index(["task", "model"])
    assert set(table.loc["2", "mark"]) == {""} and table.loc["2", "ci_low"].isna().all()
    assert table.loc["average", "ci_low"].isna().all() and (table.loc["average", "n_clusters"] == 1).all()
    assert np.isfinite(table.loc["0", "ci_low"]).all() and "best" in set(table.loc["0", "mark"])


def test_a_draw_without_an_average_of_somebody_ranks_nobody():
    "The second model answered six cases of sixty, and is behind: no draw without these cases makes it the first."
    points = np.column_stack([np.full(60, 60.0), np.where(np.arange(60) < 6, 50.0, np.nan)])
    s = draw_standings({"mcq": Column(np.arange(60), points)}, ["a", "b"], n_boot=4000, seed=1)
    assert np.isnan(s.draws[:, -1, 1]).any()
    table = rank_table(s)
    assert table[["model", "estimate", "first"]].to_numpy().tolist() == [["a", 1.0, 1.0], ["b", 2.0, 0.0]]
    few = draw_standings({"mcq": Column(np.arange(60), points[:, :1] + [0, -10])}, ["a", "b"], n_boot=20, seed=1)
    assert rank_table(few)["first"].tolist() == [1.0, 0.0]
    few = draw_standings({"mcq": Column(np.arange(5), points[:5])}, ["a", "b"], n_boot=20, seed=1)
    assert rank_table(few)["first"].isna().all(), "five cases say nothing of who leads"
