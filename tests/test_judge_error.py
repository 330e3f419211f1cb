"A judge's scores beside people's: what is refused, what is left out, and numbers by another way of computing them."

import numpy as np
import pytest
from scipy.special import logit
from scipy.stats import t

from mhbench.stats.judge_error import (
    EVEN_DIGITS,
    _find_fieller_limits,
    bias_slope,
    bland_altman,
    leave_one_rater_out,
    pass_rates,
    split_half_calibration,
    within_slope,
)
from mhbench.stats.preference import bradley_terry, worth_estimates


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
