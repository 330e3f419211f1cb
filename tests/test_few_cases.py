"""Nothing promises more than its cases: warnings, detectable differences and signs of differences."""

import numpy as np
import pandas as pd
import pytest

from mhbench.report.reading import doubts
from mhbench.stats.simultaneous import simultaneous_intervals
from mhbench.stats.tests import compare_levels, detectable_difference, sign_flip_test
from mhbench.steps.between_models import model_pairs


def table(**more) -> pd.DataFrame:
    return pd.DataFrame({"estimate": [0.65], "ci_low": [0.6], "ci_high": [0.7], "n": [200], "n_clusters": [2]} | more)


def test_warnings_look_at_cases_and_not_at_answers_alone():
    assert doubts(table()) == ["1 of 1 rows rest on fewer than 10 independent cases: read them as not known"]
    assert doubts(table(n_clusters=[20])) == [
        "1 of 1 rows rest on fewer than 30 independent cases: one more or less moves them"
    ]
    assert doubts(table(n_clusters=[200])) == []
    assert doubts(table(n=[9], n_clusters=[9])) == ["1 of 1 rows rest on fewer than 10 items: read them as not known"]
    none = table(ci_low=[np.nan], ci_high=[np.nan], interval=["few"])
    assert "so few independent cases do not tell" in doubts(none)[1]


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
    found = model_pairs(scores, seed=1, n_boot=100).iloc[0]  # by the formula 1.2: no two models differ by that
    assert np.isnan(found["detectable"]) and found["p"] == 1 and found["n"] == 8
    levels = compare_levels(scores["correct"], scores["item_id"], scores["model"], seed=1, n=100, permutations=99)[0]
    assert np.isnan(levels.detectable)


def test_a_difference_is_the_first_minus_the_second_wherever_pairs_stand():
    right = np.array([1, 1, 1, 1, 0, 1, 1, 0] + [0, 1, 0, 1, 0, 0, 1, 0], float)
    names, who = [f"q{k}" for k in range(8)] * 2, ["a"] * 8 + ["b"] * 8
    rows = {"mode": "zero_shot", "answered_by": "plain", "n_votes": 1, "status": "ok", "how": "letter", "read": True}
    scores = pd.DataFrame(rows | {"item_id": names, "cluster": names, "model": who, "correct": right})
    pair = model_pairs(scores, seed=1, n_boot=100).iloc[0]
    level = compare_levels(right, names, who, seed=1, n=100, permutations=99)[0]
    assert (pair["first"], pair["second"]) == (level.first, level.second) == ("a", "b")
    assert pair["estimate"] == level.difference.estimate == 3 / 8


def test_simultaneous_intervals_need_six_questions():
    d = np.random.default_rng(1).normal(size=(6, 3))
    assert np.isfinite(simultaneous_intervals(d, seed=1).ci_low).all()
    assert np.isnan(simultaneous_intervals(d[:5], seed=1).ci_low).all()
