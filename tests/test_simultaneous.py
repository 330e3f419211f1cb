"""Differences of means: limits by hand; simultaneous intervals by coverage, the t interval and their definition."""

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from mhbench.stats.differences import (
    difference_limits,
    difference_p,
    group_difference,
    independent_difference,
    least_p,
    mean_difference,
    score_limits,
    simultaneous_intervals,
)
from mhbench.stats.estimate import Estimate


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


@pytest.mark.parametrize("n", [6, 30, 1000])
def test_score_limits_without_a_discordant_pair_are_z_squared_in_n_and_as_many(n):
    "Solved by hand, n delta = z^2 (1 - delta), to ten digits; and all pairs won reach to 1."
    z_squared = stats.norm.ppf(0.975) ** 2
    low, high = score_limits(0, 0, n)
    assert [-low, high] == pytest.approx([z_squared / (n + z_squared)] * 2, abs=1e-10)
    assert [x.item() for x in score_limits(n, 0, n)] == pytest.approx([(n - z_squared) / (n + z_squared), 1], abs=1e-10)


@pytest.mark.parametrize("counts", [(1, 1, 0), (-1, 3, 9), (3, -1, 9), (5, 5, 9), (1, 0, -2)])
def test_counts_of_pairs_that_no_pairs_have_are_refused(counts):
    "No pair at all, less than none, and more than there are."
    with pytest.raises(ValueError, match="b and c must be 0 or more and together at most n"):
        score_limits(*counts)


def test_cases_that_each_cancel_count_as_cases():
    "Eight cases of a gain and a loss: their sums do not vary, and n is their number, with Student's t."
    d, case = np.tile([1.0, -1.0], 8), np.repeat(np.arange(8), 2)
    limits = np.array(difference_limits(d, case, largest=1)[1:])
    assert limits == pytest.approx(np.array(score_limits(4, 4, 8, stats.t.ppf(0.975, 7))), abs=1e-9)
    assert difference_p(d, case, largest=1) == 1.0


@pytest.mark.parametrize("largest", [1.0, np.inf])
@pytest.mark.parametrize(("n", "has_p"), [(5, False), (6, True)])
def test_six_cases_are_the_fewest_for_limits_and_a_p_value(n, has_p, largest):
    "At 95%; at 80% four are enough for limits."
    d = np.array([1.0, 1, 0, 1, 0, -1][:n])
    mean, low, high = difference_limits(d, largest=largest)
    assert np.isfinite([low, high, difference_p(d, largest=largest)]).tolist() == [has_p] * 3
    assert np.isfinite(difference_limits(d, largest=largest, level=0.8)[1]) and mean.n == n
    kind = "score" if largest == 1 else "hall"
    assert mean_difference(d, largest=largest).kind == (kind if has_p else "few")


@pytest.mark.parametrize("largest", [1.0, np.inf])
def test_differences_that_are_all_0_have_a_p_value_of_1(largest):
    "Where nothing varies but the differences are not 0, t has no value."
    assert difference_p(np.zeros(8), largest=largest) == 1.0
    assert np.isnan(difference_p(np.full(8, 0.5))) and np.isnan(difference_p(np.zeros(5), largest=largest))


def test_the_least_p_of_single_questions_is_that_of_a_first_model_alone_right_in_all():
    "Five are too few; of several questions a case no bound is known."
    assert (least_p(5, 5), least_p(12, 6), least_p(12, 5)) == (1.0, 0.0, 1.0)
    for n in (6, 40):
        assert least_p(n, n) == pytest.approx(2 * stats.norm.sf(np.sqrt(n)))
        assert least_p(n, n) == pytest.approx(difference_p(np.ones(n), largest=1))


def estimate_with_limits(value, low, high, n, kind="hall"):
    return Estimate(n, n, value, low, high, 0.95, kind)


@pytest.mark.parametrize("correlation", [0.0, 0.4, -0.4, 1.0])
def test_limits_of_an_independent_difference_are_sums_of_squared_distances(correlation):
    "Of the first's lower distance and the second's upper one, and the other way round."
    first, second = estimate_with_limits(0.7, 0.4, 0.8, 20), estimate_with_limits(0.5, 0.3, 0.9, 9)
    e = independent_difference(first, second, correlation)
    low = np.sqrt(0.3**2 + 0.4**2 - 2 * correlation * 0.3 * 0.4)
    high = np.sqrt(0.1**2 + 0.2**2 - 2 * correlation * 0.1 * 0.2)
    assert e[:5] == pytest.approx((29, 9, 0.2, 0.2 - low, 0.2 + high)) and e.kind == "mover"


def test_a_difference_of_few_cases_or_of_estimates_that_move_together_has_no_limits():
    "Equal distances with a correlation of 1 (or of a rounding error more) have no width."
    alike = [estimate_with_limits(value, value - 0.1, value + 0.1, 9) for value in (0.7, 0.5)]
    for correlation in (1.0, 1 + 1e-9):
        assert np.isnan(independent_difference(*alike, correlation).ci_low)
    few = estimate_with_limits(0.5, np.nan, np.nan, 3, "few")
    assert [independent_difference(*x).kind for x in ((alike[0], few), (few, alike[0]))] == ["few", "few"]


def test_groups_that_share_cases_are_compared_with_the_correlation_of_their_sums():
    "The plug-in correlation as a loop over cases, of residuals of both groups; a single case has no interval."
    rng = np.random.default_rng(7)
    case = rng.integers(0, 15, 90)
    is_second = rng.random(90) < 0.4
    x = rng.normal(0, 1, 15)[case] + is_second + rng.normal(0, 1, 90)
    e = group_difference(x, is_second, case, level=0.9)
    groups = [x[~is_second], x[is_second]]
    sums = np.zeros((2, 15))
    for value, c, second in zip(x, case, is_second):
        sums[int(second), c] += value - groups[int(second)].mean()
    r = sums[0] @ sums[1] / np.sqrt((sums[0] @ sums[0]) * (sums[1] @ sums[1]))
    means = [mean_difference(g, case[is_second == k], level=0.9) for k, g in enumerate(groups)]
    assert r > 0.2 and e[:5] == pytest.approx(independent_difference(*means, r)[:5])
    scaled = group_difference(x / 1000, is_second, case, level=0.9)
    assert scaled[2:5] == pytest.approx([v / 1000 for v in e[2:5]])  # in other units
    assert group_difference(x, is_second, np.arange(90) % 2).kind == "few"
    shares = group_difference((x > 0).astype(float), is_second, share=True)
    assert shares.estimate == pytest.approx((groups[0] > 0).mean() - (groups[1] > 0).mean())
    assert -1 <= shares.ci_low < shares.estimate < shares.ci_high <= 1 and shares.n_clusters == is_second.sum()
    alone = group_difference(x, is_second, np.zeros(90), level=0.9)
    assert alone[:3] == pytest.approx((90, 1, e.estimate)) and (alone.kind, alone.level) == ("none", 0.9)
    assert np.isfinite(group_difference(x, is_second, np.arange(90) % 6).ci_low)
