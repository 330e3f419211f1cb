"People and a judge together: the authors' package, published formulas, and what is shown where little is known."

import json
from pathlib import Path

import numpy as np
import pytest

from mhbench.stats.estimate import estimate
from mhbench.stats.prediction_powered import _with_pairs, pilot_of, pilot_of_card, prediction_powered, tuned_power
from mhbench.stats.resample import ClusterMean, cluster_mean, mean

ORACLE = json.loads((Path(__file__).parent / "fixtures" / "ppi_python.json").read_text())["rows"]


def sample(row: dict) -> tuple[np.ndarray, np.ndarray]:
    judge = np.array(row["judge"])
    return np.append(row["people"], np.full(len(judge) - len(row["people"]), np.nan)), judge


@pytest.mark.parametrize("row", ORACLE)
def test_estimates_and_limits_are_those_of_the_authors_package(row):
    people, judge = sample(row)
    share = bool(np.isin(judge, (0, 1)).all())
    for power, *expected in row["power, estimate, limits"]:
        e = prediction_powered(people, judge, power=power, share=share, small_sample=False).both
        assert (e.estimate, e.ci_low, e.ci_high) == pytest.approx(expected, abs=1e-6)
        ours = prediction_powered(people, judge, power=power, share=share)  # the estimate needs no correction
        assert ours.both.estimate == pytest.approx(expected[0], abs=1e-6)


def test_with_all_the_judge_it_is_the_regression_estimator_of_two_phase_sampling():
    rng = np.random.default_rng(3)
    judge = rng.normal(size=5_000)
    people = np.where(np.arange(5_000) < 100, 2 + 0.8 * judge + rng.normal(size=5_000), np.nan)
    y, f = people[:100], judge[:100]
    slope = np.cov(y, f)[0, 1] / judge.var(ddof=1) * 99 / 100  # Cochran 1977, 12.5, with the variance of all
    expected = y.mean() + slope * (judge.mean() - f.mean())
    assert prediction_powered(people, judge).both.estimate == pytest.approx(expected, abs=1e-12)


def test_strata_are_weighted_by_all_answers():
    rng = np.random.default_rng(4)
    of = np.repeat(["a", "b"], [300, 100])
    judge = rng.normal(size=400)
    people = np.where(np.isin(np.arange(400) % 100, range(20)), judge + rng.normal(size=400), np.nan)
    parts = [prediction_powered(people[of == s], judge[of == s]) for s in "ab"]
    both = prediction_powered(people, judge, strata=of)
    assert both.both.estimate == pytest.approx(0.75 * parts[0].both.estimate + 0.25 * parts[1].both.estimate)
    assert both.se == pytest.approx(np.hypot(0.75 * parts[0].se, 0.25 * parts[1].se))
    empty = np.where(of == "b", np.nan, people)
    assert np.isnan(prediction_powered(empty, judge, strata=of).both.estimate)  # nothing is known of the other part


def test_cases_that_hold_labelled_and_other_answers_are_one_unit():
    "Every case has one labelled answer and one other that is exactly like it: the judge adds nothing."
    rng = np.random.default_rng(5)
    label = rng.normal(size=80)
    people, judge = np.append(label, np.full(80, np.nan)), np.tile(label, 2)
    cases = np.tile(np.arange(80), 2)
    together = prediction_powered(people, judge, clusters=cases, power=1.0)
    assert together.se == pytest.approx(label.std(ddof=1) / np.sqrt(80), rel=1e-6)
    apart = prediction_powered(people, judge, power=1.0)
    assert apart.se == pytest.approx(label.std(ddof=1) / np.sqrt(80), rel=1e-6)  # y - f is 0; f alone varies


def test_without_the_judge_it_is_people_s_estimate():
    rng = np.random.default_rng(6)
    people = np.where(np.arange(90) < 30, rng.random(90) < 0.7, np.nan)
    cases = np.arange(90) // 3
    alone = estimate(mean, people[:30], clusters=cases[:30], share=True, seed=0)
    assert prediction_powered(people, np.ones(90), clusters=cases, share=True).both == alone
    assert prediction_powered(people, rng.random(90), clusters=cases, share=True, power=0.0).both == alone


@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize("people", [np.zeros(20), np.ones(20), np.arange(20) % 2])
@pytest.mark.parametrize("judge", [np.zeros(60), np.ones(60), np.arange(60) % 2])
@pytest.mark.parametrize("case", [1, 2, 20])
def test_no_interval_has_no_width_and_no_constant_sample_fails(share, people, judge, case):
    "Constant labels, constant verdicts, a judge that is always right, few cases."
    labels = np.append(people, np.full(40, np.nan))
    e = prediction_powered(labels, judge, clusters=np.arange(60) // case, share=share).both
    assert 0 <= e.estimate <= 1
    assert np.isnan(e.ci_low) == np.isnan(e.ci_high)
    assert np.isnan(e.ci_low) or (e.ci_high - e.ci_low > 0.01 and e.ci_low <= e.estimate <= e.ci_high)
    assert not np.isnan(e.ci_low) or e.kind in ("none", "few")


def test_a_judge_is_never_used_backwards_or_more_than_whole():
    rng = np.random.default_rng(7)
    y = rng.normal(size=50)
    assert tuned_power(y, -y, -rng.normal(size=500)) == 0
    assert tuned_power(y, 0.1 * y, 0.1 * rng.normal(size=500)) == 1


def test_pairs_added_to_a_share_count_as_much_as_a_case():
    of = np.repeat(range(5), 4)
    y = np.repeat([0.0, 1.0, 1.0, 0.0, 1.0], 4)  # answers to one case are alike: the effect of the design is near 4
    m, spread = cluster_mean(y, of), float(y.var(ddof=1))
    centre, variance = _with_pairs(m, spread, 0.0, 0.96)
    effect = m.se**2 / (spread / 20)
    c = 0.96 * effect
    by_hand = (20 * y.mean() + c * 2) / (20 + 4 * c)  # four pairs, two of them with people at 1
    squares = 19 * spread + 20 * (y.mean() - by_hand) ** 2 + c * ((np.array([0, 0, 1, 1]) - by_hand) ** 2).sum()
    assert 3 < effect < 6
    np.testing.assert_allclose([centre, variance], [by_hand, effect * squares / (20 + 4 * c) ** 2])


@pytest.mark.parametrize("times, clusters, effect", [(1.0, 10, 1), (4.0, 10, 1), (4.0, 5, 4), (0.5, 5, 1)])
def test_pairs_are_added_by_the_design_effect_which_is_no_gain(times, clusters, effect):
    """Ten labels of mean 1/2 and variance 1/4, without the judge, and one more of each pair of labels, two of them 1:
    each counts as often as `effect` says, the variance of the mean over that of as many independent labels.
    """
    m = ClusterMean(0.5, np.sqrt(times * 0.025), 9.0, 10, clusters, 0.0)
    squares = 9 * 0.25 + 4 * effect * 0.25
    assert _with_pairs(m, 0.25, 0.0, 1.0) == pytest.approx((0.5, effect * squares / (10 + 4 * effect) ** 2))


def test_a_card_gives_the_moments_of_its_two_by_two_table():
    correct, sensitivity, specificity = 0.6, 0.9, 0.8
    shares = [0.6 * 0.9, 0.6 * 0.1, 0.4 * 0.2, 0.4 * 0.8]  # of answers: people's label 1 1 0 0, the judge's 1 0 1 0
    people, judge = np.array([1, 1, 0, 0]), np.array([1, 0, 1, 0])
    covariance = np.cov(people, judge, aweights=shares, ddof=0)
    p = pilot_of_card(rates=(sensitivity, specificity), correct=correct)
    means = [np.average(x, weights=shares) for x in (people, judge)]
    assert p[:5] == pytest.approx([*means, covariance[0, 0], covariance[1, 1], covariance[0, 1]])


def test_a_pilot_has_six_answers_or_more():
    people = np.array([1, 2, 4, 3, 5, 2.0])
    assert pilot_of(people, people + [0, 1, 0, -1, 0, 1]).n == 6
    with pytest.raises(ValueError, match="six answers or more; got 5"):
        pilot_of(people[1:], people[1:])
