"""The model of raters against psychotools, RaschPy, and itself from the other end."""

import json
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest
from conditional import conditional_severities, symmetric_functions

from mhbench.stats.rater_likelihood import (
    ModelParameters,
    ParameterBlock,
    SliderPoints,
    category_log_probs,
    over_items,
    over_worths,
)
from mhbench.stats.rater_model import (
    fit_raters,
    misfits,
    rater_quantities,
)

THEIRS = json.loads((Path(__file__).parent / "fixtures" / "rater_models.json").read_text())


def five_raters() -> np.ndarray:
    "Two hundred answers by four or five raters of four categories; draws of a congruence that nobody will change."
    state = 12345
    ratings = np.full((200, 5), np.nan)
    severity = [-0.8, -0.3, 0, 0.4, 0.7]

    def uniform() -> float:
        nonlocal state
        state = (1103515245 * state + 12345) % 2**31
        return state / 2**31

    for i in range(200):
        worth = sum(uniform() for _ in range(12)) - 6
        skipped = int(uniform() * 5)
        for r in range(5):
            u = uniform()
            if i % 2 and r == skipped:
                continue
            weight = np.exp([k * (worth - severity[r]) + (0, 0.6, 0.6, 0)[k] for k in range(4)])
            ratings[i, r] = (np.cumsum(weight / weight.sum()) < u).sum()
    return ratings


# psychotools 0.7-2 (R 4.2.2): pcmodel and rsmodel of five_raters(), reltol = 1e-14.
PCM = "1.930114477 4.006025235 1.74772871 3.558684291 6.121188335 1.811718905 3.944912765 6.4894723 2.030892145"
PCM += " 4.860639889 7.748852285 2.184656645 5.277171329 8.167602591"
PCM_SE = "0.4706664957 0.8309616987 0.4361769429 0.7826721362 1.158843447 0.4323112915 0.7869105029 1.163852377"
PCM_SE += " 0.4229449062 0.7949412894 1.179920606 0.4205528004 0.8005229139 1.186307676"
RSM = "0.4683831941 0.6115607083 1.066017223 1.227305077 0.6796175024 1.671779827"


# RaschPy 1.4.0: MFRM(...).calibrate("global", constant=0, ridge=0) of five_raters() > 1, labels of one item.
MANY_FACETS = "-1.056135 -0.597159 -0.133192 0.768139 1.018346"


def numbers(text: str) -> list[float]:
    return [float(v) for v in text.split()]


def test_symmetric_functions_are_sums_over_all_ratings():
    psi = np.array([[0, 0.3, -0.2], [0, -0.5, 0.1], [0, 0.2, 0.4]])
    by_hand = np.zeros(7)
    for ratings in product(range(3), repeat=3):
        by_hand[sum(ratings)] += np.exp(sum(psi[r, k] for r, k in enumerate(ratings)))
    log_gamma, gradient = symmetric_functions(psi)
    assert np.allclose(log_gamma, np.log(by_hand))
    assert np.allclose((gradient * np.arange(3)[:, None]).sum((0, 1)), np.arange(7))  # categories add up to the total


def test_two_raters_of_labels_differ_by_the_log_odds_of_their_disagreements():
    pairs = np.array([[1, 0]] * 30 + [[0, 1]] * 12 + [[1, 1]] * 40 + [[0, 0]] * 18)
    two = conditional_severities(pairs)
    assert np.isclose(two.severity[1] - two.severity[0], np.log(30 / 12))
    assert np.isclose(2 * two.severity_se[0], np.sqrt(1 / 30 + 1 / 12), rtol=1e-4)
    with pytest.raises(ValueError, match="must connect all raters"):
        conditional_severities(np.array([[0, 1, None, None], [None, None, 1, 0]] * 5 + [[1, 0, None, None]] * 3, float))


def test_partial_credit_equals_psychotools():
    fit = conditional_severities(five_raters(), by_rater=True)
    assert np.allclose(-fit.psi[:, 1:].ravel()[1:], numbers(PCM), atol=1e-5)
    assert np.allclose(np.sqrt(np.diag(fit.covariance))[1:], numbers(PCM_SE), atol=1e-5)
    assert fit.log_likelihood == pytest.approx(-604.0270099, abs=1e-5)


def test_the_rating_scale_equals_psychotools():
    fit = conditional_severities(five_raters())
    found = [*(fit.severity[1:] - fit.severity[0]), *-fit.psi[0, 2:]]
    assert np.allclose(found, numbers(RSM), atol=1e-5)
    assert fit.log_likelihood == pytest.approx(-611.6428457, abs=1e-5)


def test_labels_in_pairs_equal_raschpy():
    "RaschPy's composite likelihood takes every pair of raters by itself: ours of all pairs, each as an answer of two."
    x = five_raters()
    labels = np.where(np.isnan(x), np.nan, x > 1)
    pairs = []
    for one in labels:
        for both in combinations(np.flatnonzero(~np.isnan(one)), 2):
            pairs.append(np.where(np.isin(np.arange(5), both), one, np.nan))
    assert np.allclose(conditional_severities(np.array(pairs)).severity, numbers(MANY_FACETS), atol=1e-5)


def test_psychotools_own_data():
    "Its items are our raters: 316 people's answers to twelve of them."
    theirs = THEIRS["psychotools"]
    x = np.array([[int(c) for c in one] for one in theirs["responses"]])
    scale = conditional_severities(x)
    found = [*(scale.severity[1:] - scale.severity[0]), *-scale.psi[0, 2:]]
    assert np.allclose(found, theirs["rating_scale"], atol=1e-5)
    assert scale.log_likelihood == pytest.approx(theirs["rating_scale_log_likelihood"], abs=1e-5)
    credit = conditional_severities(x, by_rater=True)
    assert np.allclose(-credit.psi[:, 1:].ravel()[1:], theirs["partial_credit"], atol=1e-4)
    assert np.allclose(np.sqrt(np.diag(credit.covariance))[1:], theirs["partial_credit_se"], atol=1e-4)
    answer, rater = np.nonzero(x >= 0)
    fit = fit_raters(x[answer, rater], answer, rater, categories=range(3), spreads=False)
    severity = rater_quantities(fit).query("quantity == 'severity'")["estimate"]
    assert np.abs(severity - scale.severity).max() < 0.25 * scale.severity_se.min()


def answers_without_luck(n: int = 20_000) -> np.ndarray:  # (n, 6)
    "Two items by three raters, three categories: every pattern as often as the many-facet model says."
    severity = np.add.outer([-0.6, 0.1, 0.5], [-0.3, 0.3]).ravel()
    worth = np.linspace(-8, 8, 161)
    weight = np.exp(-(worth**2) / 2)
    chance = np.exp(category_log_probs(worth, severity, np.ones(6), np.tile([0, 0.8, 0.3], (6, 1)), np.arange(3)))
    patterns = np.array(list(product(range(3), repeat=6)))
    often = [(weight * np.prod([chance[r, :, k] for r, k in enumerate(one)], axis=0)).sum() for one in patterns]
    ends = np.rint(np.concatenate([[0], n * np.cumsum(often) / weight.sum()])).astype(int)
    return np.repeat(patterns, np.diff(ends), axis=0)


def test_more_than_two_categories_equal_raschpy():
    """RaschPy's composite likelihood has neighbouring patterns of two ratings, ours all patterns of an answer. Of a
    sample they differ by chance; where every pattern is as frequent as the model says, both find what it has.
    """
    theirs, x = THEIRS["raschpy"], answers_without_luck()
    apart = np.add.outer(theirs["raters"], theirs["items"]).ravel()
    conditional = conditional_severities(x)
    assert np.allclose(conditional.severity, apart, atol=1e-3)
    assert -conditional.psi[0, 2] == pytest.approx(np.diff(theirs["thresholds"])[0], abs=1e-3)
    answer, rater = np.nonzero(x >= 0)
    fit = fit_raters(x[answer, rater], answer, rater, categories=range(3), spreads=False)
    assert np.allclose(rater_quantities(fit).query("quantity == 'severity'")["estimate"], apart, atol=1e-3)


def test_severities_do_not_hang_on_the_distribution_of_worths():
    "The marginal likelihood assumes normal worths, the conditional one nothing; both have the same severities here."
    x = five_raters()
    answer, rater = np.nonzero(~np.isnan(x))
    fit = fit_raters(x[answer, rater].astype(int), answer, rater, categories=range(4), spreads=False)
    found = rater_quantities(fit).query("quantity == 'severity'")
    conditional = conditional_severities(x)
    assert np.abs(found["estimate"] - conditional.severity).max() < 0.25 * conditional.severity_se.min()
    width = (found["ci_high"] - found["ci_low"]).to_numpy()
    assert np.allclose(width / (2 * 1.96 * conditional.severity_se), 1, atol=0.05)


def test_sliders_with_every_rating_there_are_the_balanced_anova():
    "Without spreads and with one noise for all, severity is the difference of means, whatever the answers are worth."
    rng = np.random.default_rng(3)
    points = 60 + 15 * rng.normal(size=(80, 1)) - np.array([5.0, 0, -5]) + 8 * rng.normal(size=(80, 3))
    fit = fit_raters(points.ravel(), np.repeat(np.arange(80), 3), np.tile(np.arange(3), 80), spreads=False)
    found = rater_quantities(fit).query("quantity == 'points below'")
    assert np.allclose(found["estimate"], points.mean() - points.mean(0), atol=0.3)
    assert fit.passed


def test_a_careless_rater_is_found():
    x = five_raters()
    x[:, 2] = np.where(np.isnan(x[:, 2]), np.nan, np.random.default_rng(1).permutation(200) % 4)
    answer, rater = np.nonzero(~np.isnan(x))
    fit = fit_raters(x[answer, rater].astype(int), answer, rater, categories=range(4), spreads=False)
    failed = {c.check: c.found for c in fit.checks if not c.passed}
    assert "2 (" in failed["every rater fits (misfit near 1)"]


def test_who_is_asked_again_says_little_more():
    """Raters have a view of each answer (a variance of 36) and change with each day (16). Hand-derived: a mean of 60
    answers asked three times over has the variance (36 + 16 / 3) / 60 = .83 of the (36 + 16) / 60 of one; counted as
    if every rating was anew it would have a third.
    """
    rng = np.random.default_rng(4)
    view = 60 + 15 * rng.normal(size=(60, 1)) - np.array([5.0, 0, -5]) + 6 * rng.normal(size=(60, 3))
    days = view + 4 * rng.normal(size=(3, 60, 3))
    rater, answer = np.tile(np.arange(3), 60), np.repeat(np.arange(60), 3)

    def width(n_days: int, clusters: bool) -> float:
        who, what = np.tile(rater, n_days), np.tile(answer, n_days)
        fit = fit_raters(days[:n_days].ravel(), what, who, spreads=False, clusters=what if clusters else None)
        found = rater_quantities(fit).query("quantity == 'points below'")
        return float((found["ci_high"] - found["ci_low"]).mean())

    once = width(1, False)
    assert width(1, True) == pytest.approx(once, rel=0.1)
    assert width(3, True) == pytest.approx(once * np.sqrt((36 + 16 / 3) / (36 + 16)), rel=0.1)
    assert width(3, False) < 0.7 * once


def test_gradients_of_the_integral_are_its_finite_differences():
    "By the means, the spread of answers and the spread of questions, each moved a little."
    rng = np.random.default_rng(7)
    grid, ease = np.linspace(-8, 8, 161), np.linspace(-4, 4, 17)
    like = -0.5 * ((grid - rng.normal(0, 1.5, (12, 1))) / 0.7) ** 2
    row, item = np.arange(12) % 2, np.arange(12) // 3
    at = np.array([0.3, -0.4, np.log(1.2), np.log(0.8)])

    def integral(at):
        sd, item_sd = np.exp(at[2:])
        return over_items(like, grid, at[:2], row, sd, item, item_sd, 0.8 * ease)

    found = integral(at)
    by_mean = np.bincount(row, found.by_mean)
    gradient = [*by_mean, found.by_log_sd.sum(), found.by_log_item_sd.sum()]
    for k, slope in enumerate(gradient):
        step = 1e-5 * (np.arange(4) == k)
        assert slope == pytest.approx((integral(at + step).value - integral(at - step).value) / 2e-5, rel=1e-5)


def test_raters_who_share_no_answer_have_no_interval_however_well_the_model_fits():
    "Two pairs of raters, each with answers of its own: every check of the fit passes, that of the design does not."
    rng = np.random.default_rng(3)
    answer = np.repeat(np.arange(160), 2)
    rater = np.where(answer < 80, 0, 2) + np.tile([0, 1], 160)
    values = rng.normal(0, 1, 160)[answer] + rng.normal(0, 0.7, 320)
    fit = fit_raters(values, answer, rater)
    assert [c.check for c in fit.checks if not c.passed] == ["raters are connected by answers they share"]
    assert np.isnan(fit.covariance).all()


def test_ratings_of_nobody_are_refused():
    values, answers = ["yes", "no", "no", "yes"], [0, 0, 1, 1]
    for raters in (["a", "b", "a", None], ["a", "b", "a"]):
        with pytest.raises(ValueError, match="raters must be one label a rating"):
            fit_raters(values, answers, raters, categories=["no", "yes"])


def test_a_spread_is_a_ratio_and_has_no_interval():
    rng = np.random.default_rng(8)
    worth = rng.normal(50, 12, 40)
    scores = worth + rng.normal(0, 4, (4, 40))
    fit = fit_raters(scores.ravel(), np.tile(np.arange(40), 4), np.repeat(np.arange(4), 40))
    noise = rater_quantities(fit).query("quantity == 'noise'")
    assert noise["estimate"].between(2, 8).all() and noise[["ci_low", "ci_high"]].isna().all(None)


def test_the_misfit_of_two_ratings_has_the_spread_of_two():
    rng = np.random.default_rng(9)
    value = np.where(rng.random((4, 30)) < 0.6, "yes", "no")
    answer, rater = np.tile(np.arange(30), (4, 1)), np.repeat(np.arange(4)[:, None], 30, 1)
    asked = np.ones((4, 30), bool)
    asked[3, 2:] = False
    fit = fit_raters(value[asked], answer[asked], rater[asked], categories=["no", "yes"])
    mine = fit.ratings[fit.ratings["rater"] == 3]
    square = (mine["value"] - mine["expected"]) ** 2
    apart = square - square.sum() / mine["variance"].sum() * mine["variance"]
    by_hand = np.sqrt((apart**2).sum() * 2) / mine["variance"].sum()
    assert len(mine) == 2 and misfits(fit)["se"].iloc[3] == pytest.approx(by_hand)


def test_gradients_of_ratings_by_points_are_their_finite_differences():
    "By severity, spread, level and noise, each moved a little, with worths integrated out."
    rng = np.random.default_rng(10)
    answer, rater = np.repeat(np.arange(9), 3), np.tile(np.arange(3), 9)
    family = SliderPoints(rng.normal(0, 1.4, 27), answer, rater)
    grid = np.linspace(-8, 8, 321)
    at = {name: rng.normal(0, 0.3, 3) for name in ("severity", "spread", "noise_by_rater")}
    at |= {"level": np.array([0.2]), "noise": np.array([-0.1])}

    def integral(p):
        return over_worths(family.log_likelihood(p, grid), grid, np.zeros(1), np.zeros(9, int), 1.0)

    found = family.gradient(at, grid, integral(at).weight)
    for name, slopes in found.items():
        for k, slope in enumerate(slopes):
            step = 1e-5 * (np.arange(len(slopes)) == k)
            moved = [integral(at | {name: at[name] + sign * step}).value for sign in (1, -1)]
            assert slope == pytest.approx((moved[0] - moved[1]) / 2e-5, rel=1e-5, abs=1e-6)


def test_a_block_that_a_model_lacks_is_nowhere():
    blocks = ModelParameters([ParameterBlock("level", np.eye(1)), ParameterBlock("severity", np.eye(3))])
    assert blocks.where("severity") == slice(1, 4) and np.arange(4)[blocks.where("readiness")].size == 0
