"A judge's scores beside people's: what is refused, what is left out, and numbers by another way of computing them."

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.sparse.csgraph import connected_components
from scipy.special import logit
from scipy.stats import t

from mhbench.stats.differences import independent_difference
from mhbench.stats.estimate import estimate
from mhbench.stats.judge_error import (
    EVEN_DIGITS,
    _find_fieller_limits,
    bias_slope,
    bland_altman,
    heaping,
    leave_one_rater_out,
    length_effect,
    pass_rates,
    split_half_calibration,
    within_slope,
)
from mhbench.stats.preference import bradley_terry, worth_estimates
from mhbench.stats.resample import mean


def test_shares_of_round_numbers_from_0_to_100():
    scores = np.arange(101)
    assert EVEN_DIGITS == {step: np.mean(scores % step == 0) for step in (5, 10)}


def test_scores_of_judge_and_people_are_one_an_answer():
    square = np.ones((3, 3))
    for judge, people in ((square, square), ([1, 2, 3], [1, 2])):
        with pytest.raises(ValueError, match="one score an answer each"):
            bland_altman(judge, people, seed=1)


def test_a_slope_within_items_is_that_of_the_items_in_which_something_varies():
    rng = np.random.default_rng(1)
    items = np.repeat(np.arange(12), 2)
    x = np.where(items % 3 == 0, 1.0, rng.normal(size=24))  # in every third item nothing varies
    found = within_slope(10 * items + 2 * x, x, items)
    assert found.estimate == pytest.approx(2) and (found.n, found.n_clusters) == (16, 8)
    assert np.isnan(within_slope(10 * items, np.ones(24), items).estimate)
    assert np.isnan(within_slope([], [], []).estimate)


def test_the_slope_of_the_bias_is_that_of_the_analysis_of_variance():
    rng = np.random.default_rng(2)
    true = rng.normal(60, 15, 50)
    people = true + np.array([[-8], [0], [8]]) + rng.normal(0, 10, (3, 50))
    judge = 20 + 0.7 * true + rng.normal(0, 5, 50)
    w = people.mean(0)
    residual = people - w - people.mean(1, keepdims=True) + people.mean()
    noise = (residual**2).sum() / (49 * 2) / 3  # of a mean of three raters whose severity is the same for all answers
    by_hand = (np.cov(judge - w, w)[0, 1] + noise) / (w.var(ddof=1) - noise)
    found = bias_slope(judge, people)
    assert found.estimate == pytest.approx(by_hand, abs=1e-9) and found.ci_low < -0.3 < found.ci_high
    naive = np.polyfit((judge + w) / 2, judge - w, 1)[0]
    assert abs(found.estimate + 0.3) < abs(naive + 0.3)


def slope_by_least_squares(y, x, case, level):
    """The slope and its limits from ordinary least squares and loops: panels that share no answer have a rank of their
    own, and a limit is where the bias left over is as large as its t errors."""
    rater, answer = np.nonzero(~np.isnan(x))
    scores = x[rater, answer]
    design = np.hstack([np.eye(x.shape[1])[answer], np.eye(len(x))[rater]])
    panel = connected_components(np.isfinite(x) @ np.isfinite(x).T)[1]
    sums_of_panels = np.hstack([np.zeros((panel.max() + 1, x.shape[1])), np.eye(panel.max() + 1)[:, panel]])
    effects = np.linalg.lstsq(np.vstack([design, sums_of_panels]), np.r_[scores, np.zeros(panel.max() + 1)])[0]
    residual, w = scores - design @ effects, effects[: x.shape[1]]
    n_scores = np.bincount(answer)
    df = (len(scores) - np.linalg.matrix_rank(design)) / (n_scores - 1).sum()

    def parts(keep):
        noise = (residual[keep[answer]] ** 2).sum() / ((n_scores[keep] - 1).sum() * df) * (1 / n_scores[keep]).mean()
        products = np.cov((y - w)[keep], w[keep])
        return products[0, 1] + noise, products[1, 1] - noise

    top, bottom = parts(np.ones(len(y), bool))
    without = np.array([parts(case != k) for k in np.unique(case)])

    def excess(slope):
        rest = without @ [1, -slope]
        error = (len(rest) - 1) * rest.var()
        return (top - slope * bottom) ** 2 - t.ppf(0.5 + level / 2, len(rest) - 1) ** 2 * error

    value = top / bottom
    return value, brentq(excess, -1e4, value, xtol=1e-12), brentq(excess, value, 1e4, xtol=1e-12)


@pytest.mark.parametrize("panels", [1, 2, 3])
@pytest.mark.parametrize("pattern", ["holes", "chain"])
def test_the_slope_and_its_limits_are_those_of_least_squares(panels, pattern):
    rng = np.random.default_rng(panels)
    n, raters = 40, 12
    true = rng.normal(60, 15, (panels, n))
    x = np.full((panels, raters, panels, n), np.nan)
    for p in range(panels):
        x[p, :, p] = true[p] + rng.normal(0, 8, (raters, 1)) + rng.normal(0, 6, (raters, n))
        rater, answer = np.indices((raters, n))
        gap = rng.random((raters, n)) < 0.5 if pattern == "holes" else (answer - rater * 3) % n > 4
        x[p, :, p][gap] = np.nan
    x = x.reshape(panels * raters, -1)
    y = 20 + 0.7 * true.ravel() + rng.normal(0, 5, panels * n)
    case = rng.integers(0, 25 * panels, panels * n)
    has_score = ~np.isnan(x).all(0)
    found = bias_slope(y, x, clusters=case, level=0.9)
    expected = slope_by_least_squares(y[has_score], x[:, has_score], case[has_score], 0.9)
    assert (found.estimate, found.ci_low, found.ci_high) == pytest.approx(expected, rel=1e-8)


def test_pass_rates_change_sign_where_own_and_others_change_places():
    rng = np.random.default_rng(3)
    good, own, case = rng.random(300) < 0.6, rng.random(300) < 0.4, rng.integers(0, 60, 300)
    said = rng.random(300) < np.where(good, 0.8, 0.3 + 0.2 * own)
    here, there = pass_rates(said, good, own, case, seed=1), pass_rates(said, good, ~own, case, seed=1)
    for label in ("right", "wrong"):
        a, b = here[label], there[label]
        assert (a.estimate, a.ci_low, a.ci_high) == pytest.approx((-b.estimate, -b.ci_high, -b.ci_low))


def test_the_spread_of_worths_is_that_of_leaving_questions_out():
    rng = np.random.default_rng(4)
    wins, favoured = np.zeros((80, 3, 3)), rng.random(80)  # a question favours the same contestant in all its duels
    for a, b, share in ((0, 1, 0.6), (0, 2, 0.75), (1, 2, 0.65)):
        ease = favoured < share
        wins[ease, a, b], wins[~ease, b, a] = 1, 1
    found = worth_estimates(wins, np.zeros_like(wins), penalty=0)
    whole = wins.sum(0)
    without = np.array([logit(bradley_terry(whole - w).probs) for w in wins])
    spread = np.sqrt(79 / 80 * ((without - without.mean(0)) ** 2).sum(0)) * t.ppf(0.975, 79)
    for k in (0, 2):  # who is favoured or not: there the sandwich is wider than the model's own variance
        assert (logit(found[k].ci_high) - logit(found[k].ci_low)) / 2 == pytest.approx(spread[k], rel=0.04)


def test_limits_of_a_slope_are_where_the_bias_left_over_is_as_large_as_its_error():
    "Fieller: the limits are the values that a t test of `top - value * bottom`, over cases left out, just refuses."
    rng = np.random.default_rng(5)
    top, bottom = 2 + rng.normal(0, 0.02, 31), 4 + rng.normal(0, 0.03, 31)
    for limit in _find_fieller_limits(top, bottom, 0.9):
        rest = top - limit * bottom
        error = np.sqrt(29 / 30 * ((rest[1:] - rest[1:].mean()) ** 2).sum() * 30 / 30)
        assert abs(rest[0]) == pytest.approx(t.ppf(0.95, 29) * error, rel=1e-6)
    assert np.isnan(_find_fieller_limits(top - 2, 0.01 * bottom - 0.04, 0.9)).all()  # a slope of which nothing is known


def test_limits_of_agreement_allow_for_cases_and_have_no_interval():
    rng = np.random.default_rng(6)
    case = np.repeat(np.arange(6), [2, 3, 9, 2, 4, 8])
    d = rng.choice([-3.0, 3.0], 6)[case] + rng.choice([-1.0, 1.0], len(case))
    about = d - d.mean()
    of_mean = 6 / 5 * sum(about[case == k].sum() ** 2 for k in range(6)) / len(d) ** 2
    b = bland_altman(50 + d, np.full(len(d), 50.0), clusters=case, seed=1)
    half = 1.959964 * np.sqrt((about**2).mean() + of_mean)
    assert (b.low.estimate, b.high.estimate) == pytest.approx((d.mean() - half, d.mean() + half), abs=1e-4)
    assert np.isnan(b.low.ci_low) and b.high.kind == "limits" and b.bias.ci_low < b.bias.estimate < b.bias.ci_high


def test_five_cases_make_no_two_halves():
    with pytest.raises(ValueError, match="share six cases or more; got 5"):
        split_half_calibration(np.arange(5.0), np.arange(5.0), seed=1)


def test_a_judge_as_near_as_the_rater_wins_half():
    scores = [[60.0] * 8, [60.0] * 8, [70.0] * 8]  # the third is ten from the others' mean, and so is the judge
    found = leave_one_rater_out(scores, [50.0] * 8, ["a", "b", "c"], seed=1)
    assert [r.wins.estimate for r in found] == [0.0, 0.0, 0.5]


def test_a_calibration_is_fitted_and_tested_on_different_cases():
    rng = np.random.default_rng(2)
    judge = rng.normal(50, 10, 40)
    people = judge + rng.normal(0, 5, 40)
    case = [f"case {k}" for k in np.repeat(range(10), 4)]
    found = split_half_calibration(judge, people, clusters=case, seed=1)
    assert (found.after.n, found.after.n_clusters) == (20, 5)
    half = split_half_calibration(judge, people, clusters=case, seed=1, level=0.5)
    assert {half.before.level, half.after.level, half.gain.level} == {0.5}
    assert half.after.estimate == found.after.estimate


def test_an_answer_without_a_word_has_no_length():
    items, words = np.repeat(np.arange(6), 3), np.tile([0, 8, 16], 6)
    found = length_effect(np.where(words, 3 * np.log2(np.maximum(words, 1)), -50.0), words, items)
    assert (found.estimate, found.n) == (pytest.approx(3), 12)


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_limits_of_a_slope_within_items_leave_out_each_item(level):
    "The slope without each item in a loop, and Student's t with the freedom of items that count alike."
    rng = np.random.default_rng(7)
    item = np.repeat(np.arange(9), 4)
    x = rng.normal(size=36) * np.repeat(rng.uniform(0.5, 2, 9), 4)
    y = rng.normal(0, 10, 9)[item] + 3 * x + rng.normal(0, 2, 36)
    y[5] = np.nan

    def parts(keep):
        keep = keep & ~np.isnan(y)
        centred = [
            np.concatenate(
                [v[keep & (item == i)] - v[keep & (item == i)].mean() for i in range(9) if (keep & (item == i)).any()]
            )
            for v in (x, y)
        ]
        return centred[0] @ centred[1] / (centred[0] @ centred[0]), centred[0] @ centred[0]

    slope, total = parts(item >= 0)
    without = np.array([parts(item != i) for i in range(9)])
    squares = total - without[:, 1]
    half = t.ppf(0.5 + level / 2, total**2 / (squares**2).sum() - 1) * np.sqrt(
        8 / 9 * ((without[:, 0] - slope) ** 2).sum()
    )
    found = within_slope(y, x, item, level=level)
    assert found[:5] == pytest.approx((35, 9, slope, slope - half, slope + half)) and found.level == level
    for widths, has_limits in (([1, 1], False), ([1, 1, 1], True), ([1, 1, 9], False), ([1, 1, 1, 2], True)):
        x = np.repeat(widths, 2) * np.tile([-1.0, 1.0], len(widths))  # effectively two items of one freedom, or fewer
        few = within_slope(x + rng.normal(size=len(x)), x, np.arange(len(x)) // 2)
        assert np.isfinite(few.ci_low) == has_limits and few.n_clusters == len(widths)


@pytest.mark.parametrize("seed", range(2))
def test_pass_rates_of_own_and_other_answers_are_correlated_by_case(seed):
    "The correlation of what each case adds to either rate, in a loop; a group without an answer has none."
    rng = np.random.default_rng(seed)
    case, good, own = rng.integers(0, 20, 200), rng.random(200) < 0.5, rng.random(200) < 0.4
    passed = (rng.random(200) < rng.uniform(0.1, 0.9, 20)[case]).astype(float)
    found = pass_rates(passed, good, own, case, seed=1, level=0.9)
    for quality in ("wrong", "right"):
        chosen = [(good == (quality == "right")) & (own == x) for x in (True, False)]
        rates = [estimate(mean, passed[s], clusters=case[s], share=True, seed=1, level=0.9) for s in chosen]
        u, v = (np.array([(passed[s & (case == c)] - passed[s].mean()).sum() for c in range(20)]) for s in chosen)
        expected = independent_difference(*rates, u @ v / np.sqrt(u @ u * (v @ v)))
        assert abs(u @ v) > 0.1 and found[quality][:5] == pytest.approx(expected[:5])
        assert (found[quality].kind, found[quality].level) == ("MOVER", 0.9)
    alone = pass_rates(passed, good, own | ~good, case, seed=1)
    assert alone["wrong"].kind == "none" and np.isnan(alone["wrong"].estimate) and alone["right"].kind == "MOVER"


def test_a_rater_and_the_judge_are_measured_by_the_mean_of_the_others():
    "With scores that are missing, in a loop over answers; intervals over cases."
    rng = np.random.default_rng(8)
    scores, judge, case = rng.normal(60, 10, (3, 20)), rng.normal(60, 10, 20), np.arange(20) // 2
    scores[rng.random(scores.shape) < 0.3] = np.nan
    judge[3] = np.nan
    for r, row in enumerate(leave_one_rater_out(scores, judge, list("abc"), clusters=case, seed=1, level=0.9)):
        gaps, wins, cases = [], [], []
        for i in range(20):
            others = [scores[k, i] for k in range(3) if k != r and scores[k, i] == scores[k, i]]
            if others and scores[r, i] == scores[r, i] and judge[i] == judge[i]:
                own, of_judge = abs(scores[r, i] - np.mean(others)), abs(judge[i] - np.mean(others))
                gaps.append(of_judge - own)
                wins.append(float(of_judge < own))
                cases.append(case[i])
        settings = {"clusters": np.array(cases), "seed": 1, "level": 0.9}
        assert row.difference == estimate(mean, np.array(gaps), **settings) and row.rater == "abc"[r]
        assert row.wins == estimate(mean, np.array(wins), **settings, share=True)


def test_round_numbers_are_counted_by_case():
    "A quarter is no multiple of 5; of scores that are equally common the lowest is named; a missing one is none."
    scores = np.array([70, 70.25, 75, 20, 20, np.nan, 70, 33, 5, 50, 100, 0])
    case = np.arange(12) // 2
    found = heaping(scores, clusters=case, seed=1, level=0.9)
    there = ~np.isnan(scores)
    for step, n in ((5, 9), (10, 7)):
        is_multiple = (scores[there] % step == 0).astype(float)
        expected = estimate(mean, is_multiple, clusters=case[there], seed=1, level=0.9, share=True)
        assert is_multiple.sum() == n and found.multiples[step] == expected
    assert (found.values, found.commonest, found.share_of_commonest.estimate) == (9, 20.0, pytest.approx(2 / 11))
    nothing = heaping([np.nan], seed=1)
    assert nothing.values == 0 and np.isnan(nothing.commonest)


def test_half_of_the_cases_fit_and_the_others_test():
    "Of seven cases three fit. A judge who gives one score to all has a slope of 0."
    rng = np.random.default_rng(9)
    judge, people, case = rng.normal(50, 10, 21), rng.normal(50, 10, 21), np.repeat(np.arange(7), 3)
    found = split_half_calibration(judge, people, clusters=case, seed=2)
    fits = (np.random.default_rng(2).permutation(7) < 3)[case]
    slope, intercept = np.polyfit(judge[fits], people[fits], 1)
    assert (found.slope, found.intercept) == pytest.approx((slope, intercept)) and found.after.n == 12
    errors = [np.abs(x - people)[~fits] for x in (judge, intercept + slope * judge)]
    values = [x.mean() for x in (*errors, errors[0] - errors[1])]
    assert [e.estimate for e in found[2:]] == pytest.approx(values)
    constant = split_half_calibration(np.full(21, 40.0), people, clusters=case, seed=2)
    assert (constant.slope, constant.intercept) == (0.0, pytest.approx(people[fits].mean()))


def test_a_tie_is_a_tie_whatever_rounding_does():
    "The judge is as far above the other rater as the rater is below: .3 and .1 beside .2, a third and two thirds."
    for rater, judge, other in ((0.1, 0.3, 0.2), (100 / 3, 200 / 3, 50.0), (0.7, 0.9, 0.8)):
        found = leave_one_rater_out([[rater] * 12, [other] * 12], [judge] * 12, ["a", "b"], seed=1)[0]
        assert found.wins.estimate == 0.5 and found.difference.estimate == pytest.approx(0)
