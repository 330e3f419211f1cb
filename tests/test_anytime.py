"""E-processes against a loop written out, against all sequences of small samples, and by their error when looked at."""

from itertools import product

import numpy as np
import pytest

from mhbench.stats.anytime import closed, confidence_sequence, log_wealth, observed, stakes, wealth_path


def wealth_by_hand(values, cases, null, low, high, stakes, longest):
    "One wager after another, one question after another."
    total = 0.0
    for stake in stakes:
        sums = {}
        for k, (x, c) in enumerate(zip(values, cases if cases is not None else range(len(values)))):
            if x == x:
                sums[c] = sums.get(c, 0.0) + x - null
        wealth = 1.0
        for s in sums.values():
            signs = cases is not None and low == -high
            wealth *= 1 + np.tanh(stake * s) if signs else 1 + stake * s / (longest * (null - low))
        total += wealth
    return total / len(stakes)


@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize(("low", "null"), [(-1.0, 0.0), (-1.0, 0.2), (0.0, 0.63)])
def test_a_loop_gives_the_same(clustered, low, null):
    rng = np.random.default_rng(7)
    x = rng.choice([low, 0.0, 0.5, 1.0, np.nan], 60)
    cases = rng.integers(0, 12, 60) if clustered else None
    a = observed(x, cases, low=low, n_largest=200)
    for t in (1, 20, 60):
        of = None if cases is None else a.cases[:t]
        want = wealth_by_hand(x[:t], of, null, low, 1.0, a.stake, a.longest)
        assert np.exp(log_wealth(a.first(t), null))[0] == pytest.approx(want, rel=1e-9)
        assert np.exp(wealth_path(a, null))[t - 1, 0] == pytest.approx(want, rel=1e-9)


@pytest.mark.parametrize("share", [0.5, 0.63, 0.9])
def test_the_chance_of_ever_reaching_the_bar_is_exactly_below_its_inverse(share):
    "All 4,096 sequences of twelve answers, with their probabilities, and a look after each."
    every = np.array(list(product([0.0, 1.0], repeat=12))).T
    chance = np.prod(np.where(every > 0, share, 1 - share), 0)
    a = observed(every, low=0.0, n_largest=12)
    for one in (wealth_path(a, share), wealth_path(a.turned(), -share)):
        assert (chance * np.exp(one[-1])).sum() == pytest.approx(1.0)
        for bar in (2, 5, 20):
            assert (chance * (one.max(0) >= np.log(bar))).sum() <= 1 / bar


def test_limits_are_those_values_that_no_wager_has_beaten():
    rng = np.random.default_rng(1)
    a = observed(rng.choice([-1.0, 0.0, 1.0], (80, 3), p=[0.1, 0.6, 0.3]), n_largest=300)
    low, high = confidence_sequence(a)
    for grid in np.linspace(-0.95, 0.95, 39):
        beaten = (log_wealth(a, grid) >= np.log(40)) | (log_wealth(a.turned(), -grid) >= np.log(40))
        assert ((low <= grid) & (grid <= high) == ~beaten).all()


def test_the_closed_procedure_is_the_mean_over_the_worst_set():
    rng = np.random.default_rng(2)
    e = np.exp(rng.normal(0, 3, 7))
    sets = [[k for k in range(7) if m >> k & 1] for m in range(1, 128)]
    assert closed(e) == pytest.approx([min(e[s].mean() for s in sets if k in s) for k in range(7)])


@pytest.mark.parametrize(("cases", "alike"), [(0, 0.0), (30, 0.0), (30, 1.0)])
def test_looking_after_every_question_errs_in_at_most_one_run_in_twenty(cases, alike):
    rng = np.random.default_rng(3)
    of = np.tile(np.arange(cases), 8) if cases else np.arange(240)
    sign = np.where(rng.random((of.max() + 1, 1500)) < 0.5, 1.0, -1.0)[of]
    own = np.where(rng.random(sign.shape) < 0.5, 1.0, -1.0)
    x = np.where(alike == 1, sign, own) * (rng.random(sign.shape) < 0.4)
    a = observed(x, of if cases else None)
    ever = (np.maximum(wealth_path(a, 0.0), wealth_path(a.turned(), 0.0)) >= np.log(40)).any(0).mean()
    assert 0 < ever < 0.05 + 2 * np.sqrt(0.05 * 0.95 / 1500)


def test_ten_stakes_from_the_smallest_that_pays_to_nine_tenths():
    grid = stakes(400)
    assert len(grid) == 10 and grid[0] == pytest.approx(0.1) and grid[-1] == pytest.approx(0.9)
    assert stakes(4)[0] == pytest.approx(0.3)


def test_what_was_observed_is_counted_with_what_may_still_come():
    "Values without NaN, the longest case seen or declared, the grid for questions that are there or may be asked."
    values = np.array([[1.0, np.nan], [0.0, np.nan], [0.25, np.nan]])
    a = observed(values, np.array(["x", "y", "x"]), low=0.0)
    assert (a.n.tolist(), a.longest) == ([3, 0], 2) and a.mean[0] == pytest.approx(1.25 / 3) and np.isnan(a.mean[1])
    assert a.stake == pytest.approx(stakes(3)) and not a.by_signs and observed(values, [0, 1, 0]).by_signs
    planned = observed(values, [0, 1, 0], low=0.0, n_largest=900, longest=7)
    assert planned.longest == 7 and planned.stake == pytest.approx(stakes(900)) and observed(values).longest == 1
    assert observed(np.zeros((0, 1))).stake == pytest.approx(stakes(1))
    assert (a.first(2).n.tolist(), a.first(2).cases.tolist(), observed(values).first(2).cases) == ([2, 0], [0, 1], None)


@pytest.mark.parametrize(
    ("values", "low", "high"), [([0.5, -0.1], 0.0, 1.0), ([0.5, 1.1], 0.0, 1.0), ([-2.0], -1.0, 1.0)]
)
def test_values_beyond_the_range_are_refused_and_its_ends_are_within(values, low, high):
    "One value beyond is enough."
    with pytest.raises(ValueError, match=f"values must be between {low} and {high}"):
        observed(values, low=low, high=high)
    assert observed([low, high], low=low, high=high).n == 2


def test_limits_of_the_smallest_and_the_largest_mean_are_in_order_and_reach_the_ends():
    "Answers that are all right or all wrong; and an upper limit is never below the lower one."
    for value in (0.0, 1.0):
        low, high = confidence_sequence(observed(np.full(30, value), low=0.0), 0.9)
        mirrored = confidence_sequence(observed(np.full(30, 1 - value), low=0.0), 0.9)
        assert [low[0], high[0]] == pytest.approx([1 - mirrored[1][0], 1 - mirrored[0][0]], abs=1e-9)
        assert (low[0] == pytest.approx(0.0, abs=1e-9)) == (value == 0.0) and low[0] <= value <= high[0]
