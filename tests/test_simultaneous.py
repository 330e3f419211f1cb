"""Simultaneous intervals: coverage of the largest of many differences, against the t interval and by its definition."""

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from mhbench.stats.differences import difference_limits, simultaneous_intervals


def differences(rng, questions: int, levels: int, effect: float = 0.0) -> np.ndarray:
    "Right or wrong answers to the same questions at several levels; the last level is right more often by `effect`."
    right = rng.random((questions, 1)) < 0.4
    changed = rng.random((questions, levels)) < 0.3
    x = (right ^ changed).astype(float)
    x[:, -1] = np.maximum(x[:, -1], rng.random(questions) < effect)
    return np.stack([x[:, b] - x[:, a] for a, b in combinations(range(levels), 2)], axis=1)


@pytest.mark.parametrize(("questions", "levels"), [(6, 6), (12, 3), (60, 6)])
def test_the_largest_difference_is_covered_as_often_as_promised(questions, levels):
    """All true differences are 0. Of 200 studies some 10 may call one real; 22 or more would have a probability below
    0.001 (binomial, 0.05)."""
    rng, wrong = np.random.default_rng(questions), 0
    for seed in range(200):
        s = simultaneous_intervals(differences(rng, questions, levels), n=500, seed=seed, largest=1)
        wrong += bool(((s.ci_low > 1e-12) | (s.ci_high < -1e-12)).any())
    assert stats.binom.sf(21, 200, 0.05) < 0.001
    assert wrong < 22


def test_a_large_effect_is_found():
    d = differences(np.random.default_rng(1), 200, 4, effect=0.6)
    s = simultaneous_intervals(d, seed=1, largest=1)
    last = [k for k, (_, b) in enumerate(combinations(range(4), 2)) if b == 3]
    assert (s.ci_low[last] > 0).all()
    rest = np.delete(np.arange(6), last)
    assert ((s.ci_low[rest] < 0) & (s.ci_high[rest] > 0)).all()


def test_one_pair_of_many_questions_has_the_interval_of_the_t_test():
    d = np.random.default_rng(2).normal(0.3, 1, (400, 1))
    s = simultaneous_intervals(d, seed=1)
    t = stats.ttest_1samp(d[:, 0], 0).confidence_interval()
    assert s.ci_low[0] == pytest.approx(t.low, abs=0.01)
    assert s.ci_high[0] == pytest.approx(t.high, abs=0.01)


def test_independent_pairs_need_about_what_sidak_asks_for():
    "Sidak's critical value of ten independent normal means; with 400 questions t is normal."
    d = np.random.default_rng(3).normal(0, 1, (400, 10))
    s = simultaneous_intervals(d, seed=1)
    half = (s.ci_high - s.ci_low) / 2 / (d.std(axis=0, ddof=1) / np.sqrt(400))
    assert half == pytest.approx(np.full(10, stats.norm.isf((1 - 0.95 ** (1 / 10)) / 2)), abs=0.1)


def test_pairs_that_move_together_cost_nothing():
    x = np.random.default_rng(4).normal(0, 1, (400, 1))
    s = simultaneous_intervals(np.repeat(x, 15, axis=1), seed=1)
    half = (s.ci_high - s.ci_low) / 2 / (x.std(ddof=1) / np.sqrt(400))
    assert half == pytest.approx(np.full(15, 1.97), abs=0.08)


def test_missing_questions_belong_to_their_pair_alone():
    d = np.random.default_rng(5).normal(0, 1, (40, 3))
    d[10:, 1] = np.nan
    d[1:, 2] = np.nan
    s = simultaneous_intervals(d, n=300, seed=1)
    assert s.n.tolist() == [40, 10, 1]
    assert s.estimate == pytest.approx([d[:, 0].mean(), d[:10, 1].mean(), d[0, 2]])
    assert np.isnan([s.ci_low[2], s.ci_high[2]]).all()
    assert s.ci_high[1] - s.ci_low[1] > s.ci_high[0] - s.ci_low[0]


def test_cases_and_not_questions_are_what_is_random():
    "Ten answers of a case that are all alike are one answer."
    case = np.random.default_rng(6).normal(0, 1, (12, 3))
    s = simultaneous_intervals(np.repeat(case, 10, axis=0), np.repeat(np.arange(12), 10), seed=1)
    one = simultaneous_intervals(case, seed=1)
    assert s.ci_low == pytest.approx(one.ci_low) and s.ci_high == pytest.approx(one.ci_high)
    assert s.critical == pytest.approx(one.critical)


def test_differences_of_no_question_are_refused():
    for table in (np.zeros((0, 2)), np.zeros((3, 0)), np.zeros(3)):
        with pytest.raises(ValueError, match="a row a question and a column a pair"):
            simultaneous_intervals(table, seed=1)


def test_differences_may_be_bounded_below_one():
    m, low, high = difference_limits(np.tile([0.5, -0.5, 0.0, 0.5], 5), largest=0.5)
    assert m.mean == 0.125 and -0.5 < low < 0.125 < high < 0.5
    with pytest.raises(ValueError, match="differences must be within -0.5 and 0.5; got 0.6"):
        difference_limits([0.6, 0.1], largest=0.5)
