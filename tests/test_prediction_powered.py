"People and a judge together: the authors' package, published formulas, and what is shown where little is known."

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from mhbench.stats.estimate import estimate, mean_limits
from mhbench.stats.prediction_powered import (
    Pilot,
    _with_pairs,
    card_moments,
    certificate,
    pilot_moments,
    planned_width,
    prediction_powered,
    tuned_power,
)
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
    p = card_moments(rates=(sensitivity, specificity), correct=correct)
    means = [np.average(x, weights=shares) for x in (people, judge)]
    assert p[:5] == pytest.approx([*means, covariance[0, 0], covariance[1, 1], covariance[0, 1]])


def test_a_pilot_has_six_answers_or_more():
    people = np.array([1, 2, 4, 3, 5, 2.0])
    assert pilot_moments(people, people + [0, 1, 0, -1, 0, 1]).n == 6
    with pytest.raises(ValueError, match="six answers or more; got 5 of 5"):
        pilot_moments(people[1:], people[1:])
    with pytest.raises(ValueError, match="six answers or more; got 6 of 7 labelled by people; leave the others out"):
        pilot_moments([*people, np.nan], [*people, 1])
    with pytest.raises(ValueError, match="pilot_moments: people and judge must have one number an answer"):
        pilot_moments(people, people[1:])


def plain_part(y, f, unit, n_labels, share, level, power=None) -> dict:
    "One stratum, as the notebook's formulas have it, written down once more."
    have = ~np.isnan(y)
    cases = len(set(unit[have]))
    tuned = power is None and cases >= 6
    weight = tuned_power(y[have], f[have], f[~have]) if tuned else power or 0.0
    e = y[have] - weight * f[have]
    m, rest = cluster_mean(e, unit[have]), cluster_mean(f[~have], unit[~have])
    centre, labelled = m.mean, m.se**2
    if share:
        centre, labelled = _with_pairs(m, e.var(ddof=1), weight, norm.ppf((1 + level) / 2) ** 2 / 4 * len(e) / n_labels)
    elif tuned and weight > 0:
        labelled *= (cases - 1) / (cases - 2) * (1 + 1 / (cases - 3))
    se = weight * rest.se
    shared = 0.0
    for u in set(unit[have]) & set(unit[~have]):
        shared += (e[unit[have] == u] - e.mean()).sum() * (f[~have][unit[~have] == u] - rest.mean).sum()
    both = labelled + se**2 + 2 * weight * shared / (len(e) * (~have).sum())
    return {
        "value": m.mean + weight * rest.mean,
        "centre": centre + weight * rest.mean,
        "variance": max(both, (np.sqrt(labelled) - se) ** 2),
        "df": (labelled + se**2) ** 2 / (labelled**2 / m.df + se**4 / rest.df),
        "third": m.skewness * labelled**1.5 + rest.skewness * se**3,
        "power": weight,
    }


def plain_interval(parts: list[dict], shares: np.ndarray, normal: bool, level: float) -> tuple:
    variance, centre, third = (
        sum(w**k * p[name] for w, p in zip(shares, parts)) for k, name in ((2, "variance"), (1, "centre"), (3, "third"))
    )
    se = variance**0.5
    df = variance**2 / sum(w**4 * p["variance"] ** 2 / p["df"] for w, p in zip(shares, parts))
    half = norm.ppf((1 + level) / 2) * se
    limits = (centre - half, centre + half)
    if not normal:
        limits = mean_limits(ClusterMean(centre, se, df, 0, 0, third / se**3), (1 - level) / 2)
    return (sum(w * p["value"] for w, p in zip(shares, parts)), *limits, se)


@pytest.mark.parametrize("level", [0.95, 0.8])
@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize("case", [1, 3])
@pytest.mark.parametrize("power", [None, 0.4])
def test_the_interval_for_few_labels_is_that_of_its_formulas(share, case, power, level):
    rng = np.random.default_rng(8)
    case_of = np.arange(180) // case
    latent = rng.gamma(2.0, size=180) + rng.gamma(1.0, size=180)[case_of]
    judge = (latent + rng.normal(size=180) > 3).astype(float) if share else latent + rng.normal(size=180)
    truth = (latent > 3).astype(float) if share else latent
    people = np.where(np.arange(180) % 5 < 2, truth, np.nan)  # of most cases one answer has a label and others none
    stratum = np.repeat([0, 1], [60, 120])
    for strata in (None, stratum):
        group = np.zeros(180, int) if strata is None else strata
        n_labels = int((~np.isnan(people)).sum())
        parts = [
            plain_part(people[group == g], judge[group == g], case_of[group == g], n_labels, share, level, power)
            for g in set(group)
        ]
        shares = np.bincount(group) / 180
        estimate_, low, high, se = plain_interval(parts, shares, share and case == 1, level)
        got = prediction_powered(people, judge, clusters=case_of, strata=strata, power=power, share=share, level=level)
        assert (got.both.estimate, got.both.ci_low, got.both.ci_high, got.se) == pytest.approx(
            (estimate_, low, high, se), rel=1e-9
        )
        assert got.power == pytest.approx(sum(w * p["power"] for w, p in zip(shares, parts))) and got.power > 0.1
        assert (got.both.n, got.both.n_clusters, got.both.level) == (n_labels, len(set(case_of[people > -9])), level)
        assert got.both.kind == "prediction-powered"


def test_a_judge_is_weighed_from_six_labelled_cases_on_and_the_range_holds():
    rng = np.random.default_rng(9)
    judge = rng.normal(size=60)
    for n, is_used in ((5, False), (6, True)):
        got = prediction_powered(np.where(np.arange(60) < n, judge, np.nan), judge)
        assert (got.power > 0) == is_used
        whole = prediction_powered(np.where(np.arange(60) < n, judge, np.nan), judge, power=1.0)
        assert whole.power == 1.0  # one that is given is used as it is
    assert prediction_powered(judge, judge, power=0.7).power == 0.0  # nothing is left to be judged
    high = prediction_powered(np.where(np.arange(60) < 20, 1 + judge / 9, np.nan), judge, power=1.0, within=(-1, 0.5))
    assert high.both.estimate == 0.5 == high.both.ci_high and -1 <= high.both.ci_low < 0.5
    wide = prediction_powered(np.where(np.arange(60) < 20, judge / 9, np.nan), judge, power=1.0)
    low = prediction_powered(np.where(np.arange(60) < 20, judge / 9, np.nan), judge, power=1.0, within=(-0.1, 9.0))
    assert wide.both.ci_low < -0.1 == low.both.ci_low and low.both.ci_high == wide.both.ci_high
    many = prediction_powered(np.where(np.arange(60) < 20, judge, np.nan), judge, power=0.5, small_sample=False)
    assert many.both.kind == "prediction-powered, many labels"


def test_a_pilot_holds_the_moments_of_its_labels():
    rng = np.random.default_rng(10)
    cases = np.arange(48) // 3
    judge = rng.normal(size=48) + rng.normal(size=16)[cases]
    people = 2 + judge + rng.gamma(1.0, size=48)
    p = pilot_moments(people, judge, clusters=cases)
    spread, of_judge, r = people.var(ddof=1), judge.var(ddof=1), np.corrcoef(people, judge)[0, 1]
    adjusted = np.sqrt(1 - (1 - r**2) * 47 / 46)  # Ezekiel's
    assert p[:5] == pytest.approx(
        (people.mean(), judge.mean(), spread, of_judge, adjusted * np.sqrt(spread * of_judge))
    )
    assert (p.n, p.n_clusters, p.share) == (48, 16, False) and p.correlation == pytest.approx(adjusted)
    rest = people - np.cov(people, judge)[0, 1] / of_judge * judge
    for x, effect, skewness in ((people, p.effect, p.skewness), (rest, p.effect_rest, p.skewness_rest)):
        of_cases = cluster_mean(x, cases)
        assert effect == pytest.approx(max(1.0, of_cases.se**2 / (x.var(ddof=1) / 48)))
        assert skewness == pytest.approx(of_cases.skewness * 4)
    assert p.effect > 1
    single = pilot_moments(people, judge)
    assert (single.effect, single.effect_rest, single.n_clusters) == (1.0, 1.0, 48)
    backwards = pilot_moments(people, -judge)
    assert backwards.correlation < 0 and backwards.skewness_rest == pytest.approx(backwards.skewness)
    unlike = pilot_moments(people, rng.permutation(people))  # a correlation that chance explains is 0
    assert unlike.correlation == 0.0 and pilot_moments(people, np.ones(48)).correlation == 0.0
    with pytest.raises(ValueError, match="six answers or more"):
        pilot_moments(np.append(people, np.nan), np.append(judge, 1.0))


def test_a_cautious_plan_takes_the_lower_limit_of_fisher_s_z():
    p = Pilot(0.0, 0.0, 4.0, 9.0, 3.0, False, 40, 40)
    assert p.correlation == 0.5
    assert p.cautious().correlation == pytest.approx(np.tanh(np.arctanh(0.5) - norm.ppf(0.8) / np.sqrt(37)))
    assert p._replace(n_clusters=5).cautious().correlation == pytest.approx(
        max(0.0, np.tanh(np.arctanh(0.5) - norm.ppf(0.8) / np.sqrt(2)))
    )
    assert p._replace(n_clusters=4, together=5.9).cautious().correlation == 0.0
    assert p._replace(n_clusters=5, together=5.9).cautious().correlation > 0.9
    assert p._replace(together=6.0).cautious().correlation < 1.0 and p._replace(together=-3.0).cautious().together == 0
    assert p._replace(spread=0.0).correlation == 0.0 and p.with_correlation(-0.2).together == pytest.approx(-1.2)


@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize("answers_a_case", [1, 4])
@pytest.mark.parametrize(("labels", "n_cases"), [(100, 60), (100, 29), (100, 30)])
def test_a_planned_width_is_that_of_the_moments(share, answers_a_case, labels, n_cases):
    moments = {"people": 0.6, "judge": 0.5, "spread": 0.24, "of_judge": 0.25, "together": 0.15, "share": share}
    effects = {"effect": 1.8, "effect_rest": 1.3} if answers_a_case > 1 else {}
    p = Pilot(**moments, n=n_cases * answers_a_case, n_clusters=n_cases, **effects, skewness=0.9, skewness_rest=1.4)
    cases = labels / answers_a_case
    for judged, judge in ((1_000, True), (1_000, False), (100, True)):
        rest = judged - labels
        weight = 0.15 / ((1 + labels / rest) * 0.25) if judge and rest else 0.0
        effect = p.effect_rest if weight else p.effect
        spread = (0.24 - 2 * weight * 0.15 + weight**2 * 0.25) * (98 / 99 if weight else 1)
        labelled = spread * effect / labels
        centre = 0.6 - weight * 0.5
        skewed = (p.skewness_rest if weight else p.skewness) if min(cases, n_cases) >= 30 else 0.0
        third = skewed / np.sqrt(cases + skewed**2)
        if share:
            m = ClusterMean(centre, np.sqrt(labelled), cases - 1, labels, cases, 0.0)
            centre, labelled = _with_pairs(m, spread, weight, norm.ppf(0.95) ** 2 / 4)
        elif weight:
            labelled *= (cases - 1) / (cases - 2) * (1 + 1 / (cases - 3))
        of_rest = weight**2 * 0.25 / max(rest, 1) * p.effect
        df = (labelled + of_rest) ** 2 / (labelled**2 / (cases - 1) + of_rest**2 / max(rest / answers_a_case - 1, 1))
        part = {"value": 0, "centre": centre + weight * 0.5, "variance": labelled + of_rest, "df": df}
        part["third"] = third * labelled**1.5
        _, low, high, _ = plain_interval([part], np.ones(1), share and answers_a_case == 1, 0.9)
        expected = min(1, high) - max(0, low) if share else high - low
        assert planned_width(p, labels, judged, judge=judge, level=0.9) == pytest.approx(expected, rel=1e-9)


def test_a_width_ends_where_a_share_ends():
    p = card_moments(rates=(0.9, 0.9), correct=0.95)
    m, spread = ClusterMean(0.95, np.sqrt(0.95 * 0.05 / 12), 11, 12, 12, 0), 0.95 * 0.05
    centre, variance = _with_pairs(m, spread, 0.0, norm.ppf(0.975) ** 2 / 4)
    low = centre - norm.ppf(0.975) * np.sqrt(variance)
    assert centre + norm.ppf(0.975) * np.sqrt(variance) > 1
    assert planned_width(p, 12, 12) == pytest.approx(1 - low)
    low_end = card_moments(rates=(0.9, 0.9), correct=0.05)
    assert planned_width(low_end, 12, 12) == pytest.approx(1 - low)


def test_a_certificate_says_how_many_labels_people_alone_would_need():
    p = card_moments(0.8, 2.0)
    table = certificate(p, 100, (5, 6, 20, 99, 100))
    assert table["labels"].tolist() == [6, 20, 99]  # from six on, and fewer than are judged
    row = table.iloc[1]
    assert row["people_alone"] == planned_width(p, 20, 100, judge=False) and row["with_judge"] == planned_width(
        p, 20, 100
    )
    assert row["narrower"] == pytest.approx(1 - row["with_judge"] / row["people_alone"])
    assert row["worth"] == round(20 / (1 - row["saved"])) > 20
    assert planned_width(p, 20 / (1 - row["saved"]), 100, judge=False) == pytest.approx(row["with_judge"])
    poor = certificate(card_moments(0.0, 2.0), 100, (20,)).iloc[0]
    assert (poor["worth"], poor["saved"]) == (20, 0.0)
    cases = Pilot(0, 0, 1.0, 1.0, 0.5, False, n=40, n_clusters=20)
    assert certificate(cases, 100, (11, 12))["labels"].tolist() == [12]  # six cases of two answers
    for bad in ({"correlation": 1.1}, {"correlation": -1.1}, {"correlation": 0.5, "sd": 0}):
        with pytest.raises(ValueError, match="correlation must be -1 to 1 and sd above 0"):
            card_moments(**bad)
    assert card_moments(-1.0, 3.0)[2:6] == (9.0, 9.0, -9.0, False)
    for bad in ({"rates": (1.1, 0.5)}, {"rates": (0.5, -0.1)}, {"rates": (0.5, 0.5), "correct": 1.1}):
        with pytest.raises(ValueError, match="rates and correct must lie between 0 and 1"):
            card_moments(**bad)
    with pytest.raises(ValueError, match="either correlation or rates must be given"):
        card_moments(0.5, rates=(0.5, 0.5))


@pytest.mark.parametrize("seed", range(4))
def test_labels_that_people_alone_would_need_are_the_fewest_of_a_width(seed):
    rng = np.random.default_rng(seed)
    spread, of_judge = (0.24, 0.2) if seed % 2 else rng.uniform(0.5, 3, 2)
    p = Pilot(0.6, 0.5, spread, of_judge, rng.uniform(0.4, 0.9) * np.sqrt(spread * of_judge), bool(seed % 2), 90, 90)
    for row in certificate(p, 2000, (20, 60)).itertuples():
        fewest = next(k for k in range(row.labels, 4000) if planned_width(p, k, 2000, judge=False) <= row.with_judge)
        assert fewest - 1 <= row.labels / (1 - row.saved) <= fewest and fewest - row.worth in (0, 1)


def test_a_judge_without_error_is_worth_as_many_labels_as_it_judged():
    row = certificate(card_moments(1.0, 2.0), 10**6, (6,)).iloc[0]  # over a thousand times as many as people gave
    assert row["worth"] == pytest.approx(10**6, rel=0.5) and row["saved"] == pytest.approx(1 - 6 / row["worth"])


def test_cases_that_lie_in_several_strata_are_one_unit():
    "A label twice, once in each of two strata, says no more than once, whatever the order of the rows."
    rng = np.random.default_rng(12)
    label = rng.normal(size=40)
    people, cases, strata = np.tile(label, 2), np.tile(np.arange(40), 2), np.repeat(["a", "b"], 40)
    got = prediction_powered(people, people, clusters=cases, strata=strata)
    spread = label.var(ddof=1)
    assert got.se == pytest.approx(np.sqrt(spread / 80 + 39 * spread / 40**2 / 2))  # .5 (y - mean) / 40 in each
    once = estimate(mean, label, seed=0)
    assert (got.both.ci_low, got.both.ci_high) == pytest.approx((once.ci_low, once.ci_high), abs=0.02)
    order = rng.permutation(80)
    mixed = prediction_powered(people[order], people[order], clusters=cases[order], strata=strata[order])
    assert mixed.both[2:5] == pytest.approx(got.both[2:5])


def test_answers_to_one_case_in_two_strata_are_covered():
    rng = np.random.default_rng(13)
    cases, strata = np.repeat(np.arange(40), 6), np.tile([0, 0, 0, 1, 1, 1], 40)
    n_covered, values, se = 0, [], []
    for _ in range(200):
        truth = 50 + 10 * strata + np.repeat(rng.normal(0, 10, 40), 6) + rng.normal(0, 3, 240)
        judge = truth + rng.normal(0, 20, 240)
        people = np.where(rng.random(240) < np.where(strata == 0, 0.7, 0.4), truth, np.nan)
        got = prediction_powered(people, judge, clusters=cases, strata=strata)
        n_covered += got.both.ci_low <= 55 <= got.both.ci_high
        values.append(got.both.estimate)
        se.append(got.se)
    assert n_covered >= 186  # 178 where strata count as independent
    assert np.mean(se) == pytest.approx(np.std(values), rel=0.15)


@pytest.mark.parametrize(
    ("people", "judge", "settings", "message"),
    [
        (100.0, 1.0, {"share": True}, r"people must lie between 0 and 1 for a share; got 100 \(answer 0\)"),
        (1.0, 100.0, {"share": True}, r"judge must lie between 0 and 1 for a share; got 100 \(answer 0\)"),
        (-1.0, 1.0, {"share": True}, "people must lie between 0 and 1 for a share; got -1"),
        (1.0, 1.0, {"power": -0.5}, "power must lie between 0 and 1; got -0.5"),
        (1.0, 1.0, {"power": 1.5}, "power must lie between 0 and 1; got 1.5"),
        (1.0, 1.0, {"power": np.nan}, "power must lie between 0 and 1; got nan"),
        (np.inf, 1.0, {}, "people must be finite"),
        (1.0, np.inf, {}, "judge must be finite"),
    ],
)
def test_percentages_are_no_shares_and_a_judge_has_no_negative_weight(people, judge, settings, message):
    "A share of percentages was cut to 1, and of a negative power only the half that people labelled was taken off."
    labels = np.where(np.arange(60) < 20, np.arange(60) % 2.0, np.nan)
    labels[0] = people
    verdicts = np.arange(60) % 2.0
    verdicts[0] = judge
    with pytest.raises(ValueError, match=f"prediction_powered: {message}"):
        prediction_powered(labels, verdicts, **settings)
    if "share" in settings:
        with pytest.raises(ValueError, match=f"pilot_moments: {message}"):
            pilot_moments(np.append(labels[:8], 0.0), verdicts[:9], share=True)


def test_a_pilot_of_one_case_does_not_say_how_much_its_answers_are_alike():
    people = np.arange(12) % 2.0
    with pytest.raises(ValueError, match="clusters must be two cases or more; got one for all 12 answers"):
        pilot_moments(people, people, clusters=["c"] * 12, share=True)
    assert pilot_moments(people, people, clusters=["c"] * 6 + ["d"] * 6, share=True).n_clusters == 2
