"Confidence against what was right: literal versions of the formulas, and the ends of their ranges."

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

from mhbench.stats.calibration import (
    _accuracy_limits,
    brier,
    calibration_error,
    cross_entropy,
    expected_calibration_error,
    letter_probabilities,
    reliability_curve,
)
from mhbench.stats.estimate import agresti_coull


def literal_error(confidence, right, clusters, bins=10, level=0.95):
    "The calibration error and its interval, one step a line, for confidences inside the bins."
    n, names = len(confidence), sorted(set(clusters))
    inside = [[i for i in range(n) if b / bins < confidence[i] <= (b + 1) / bins] for b in range(bins)]
    inside = [units for units in inside if units]
    gaps, errors, shares = [], [], []
    for units in inside:
        m = len(units)
        hits = sum(right[i] for i in units)
        middle = sum(confidence[i] for i in units) / m
        gaps.append(hits / m - middle)
        p = (hits + 4 * middle) / (m + 4)
        errors.append(np.sqrt(p * (1 - p) / m))
        shares.append(m / n)
    seen = sum(w * abs(g) for w, g in zip(shares, gaps))
    alone = sum((w * s) ** 2 for w, s in zip(shares, errors))
    part = dict.fromkeys(names, 0.0)
    for units, gap in zip(inside, gaps):
        for i in units:
            part[clusters[i]] += np.sign(gap) * (right[i] - confidence[i] - gap) / n
    k = len(names)
    together = k / (k - 1) * sum(x**2 for x in part.values())
    wider = max(1.0, together / alone) if k < n else 1.0
    spread = [s * np.sqrt(wider) for s in errors]
    value = seen
    for w, gap, s in zip(shares, gaps, spread):
        g = np.sqrt(max(0.0, gap**2 - s**2))
        value -= w * (s * np.sqrt(2 / np.pi) * np.exp(-((g / s) ** 2) / 2) - 2 * g * stats.norm.cdf(-g / s))
    t = stats.t.ppf(0.5 + level / 2, k - 1)
    outstanding = max(range(len(gaps)), key=lambda m: shares[m] * abs(gaps[m]) / spread[m])

    def surprise(error, patterns):
        laws = [stats.foldnorm(error * g / s, scale=s) for g, s in zip(patterns, spread)]
        mean = sum(w * law.mean() for w, law in zip(shares, laws))
        return (seen - mean) / np.sqrt(sum(w**2 * law.var() for w, law in zip(shares, laws)))

    one = [1 / shares[m] if m == outstanding else 0.0 for m in range(len(gaps))]
    as_seen = [abs(g) / seen for g in gaps]
    low = brentq(lambda x: surprise(x, one) - t, 0, 1) if surprise(0, one) > t else 0.0
    high = 1.0 if surprise(1, as_seen) > -t else brentq(lambda x: surprise(x, as_seen) + t, 0, 1)
    return max(0.0, value), low, high


@pytest.mark.parametrize("cases", [7, 10, 60])
def test_the_error_and_its_interval_equal_the_formulas_one_by_one(cases):
    rng = np.random.default_rng(cases)
    n = 120
    of = np.arange(n) % cases
    c = rng.uniform(0.05, 0.95, n)
    right = (rng.random(cases) < 0.4)[of].astype(float)  # a case's answers are right or wrong together
    e = calibration_error(c, right, clusters=of)
    assert (e.estimate, e.ci_low, e.ci_high) == pytest.approx(literal_error(c, right, list(of)), abs=1e-6)
    alone = calibration_error(c, right)
    assert (alone.estimate, alone.ci_low, alone.ci_high) == pytest.approx(
        literal_error(c, right, list(range(n))), abs=1e-6
    )
    assert alone.ci_high - alone.ci_low < e.ci_high - e.ci_low


def test_the_interval_ends_where_an_error_can():
    calibrated = calibration_error([0.5] * 10, [1, 0] * 5)
    assert calibrated.ci_low == 0 and 0 < calibrated.ci_high < 1
    wrong = calibration_error([0.99] * 9 + [0.5] * 3, [0] * 12, clusters=[0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 5])
    assert 0.9 < wrong.ci_high <= 1 and wrong.estimate > 0.5


def test_bins_reach_from_0_to_1():
    ends = reliability_curve([0.0, 1.0], [0, 1], bins=4)
    assert ends.count.tolist() == [1, 0, 0, 1]  # 0 is in the first bin and 1 in the last


def test_letters_that_are_all_unlikely_have_probabilities():
    far = letter_probabilities(np.array([[-2000.0, -2001.0, np.nan], [-1e9, -1e9, -np.inf]]))
    assert far == pytest.approx(np.array([[1 / (1 + np.exp(-1)), 1 / (1 + np.e), 0], [0.5, 0.5, 0]]))
    assert np.isnan(letter_probabilities(np.full((1, 3), np.nan))).all()


def test_distributions_of_different_shapes_are_refused():
    with pytest.raises(ValueError, match=r"soft and probs must have one row a unit.*\(1, 2\) and \(1, 3\)"):
        brier([[0.5, 0.5]], [[0.2, 0.3, 0.5]])


def test_cases_whose_errors_cancel_make_the_interval_no_narrower():
    "One of each pair is right, so that sums over pairs vary less than independent answers would."
    confidence = np.repeat([0.55, 0.75], 100)
    right = np.tile([1.0, 0.0], 100)
    pairs = calibration_error(confidence, right, clusters=np.repeat(np.arange(100), 2))
    alone = calibration_error(confidence, right)
    assert pairs.ci_high - pairs.ci_low >= alone.ci_high - alone.ci_low


@pytest.mark.parametrize("n", [20, 50, 200])
@pytest.mark.parametrize(("confidence", "accuracy"), [(0.999, 0.99), (0.99, 0.97), (0.02, 0.05), (1.0, 0.95)])
def test_the_interval_holds_the_error_of_models_that_are_nearly_certain(n, confidence, accuracy):
    "Every number of right answers of one bin, weighted by its probability."
    held = 0.0
    for k, p in enumerate(stats.binom.pmf(np.arange(n + 1), n, accuracy)):
        if p > 1e-5:
            e = calibration_error([confidence] * n, [1] * k + [0] * (n - k))
            held += p * (e.ci_low <= abs(confidence - accuracy) <= e.ci_high)
    assert held > 0.94


@pytest.mark.parametrize("n", [20, 50, 200])
def test_a_calibrated_model_that_is_nearly_certain_is_compatible_with_no_error(n):
    rng = np.random.default_rng(n)
    above = 0
    for _ in range(200):
        c = np.where(rng.random(n) < 0.5, rng.beta(60, 1, n), rng.beta(1, 60, n))
        above += calibration_error(c, rng.random(n) < c).ci_low > 0
    assert above <= 12  # 0.06 of 200


@pytest.mark.parametrize("verdict", [np.nan, 2.0, -0.5])
def test_a_verdict_that_is_none_has_no_error(verdict):
    "It gave an error of 0."
    with pytest.raises(ValueError, match=r"right must be in \[0, 1\]; got .*leave out units without a verdict"):
        calibration_error([0.5, 0.6, 0.9], [1, 0, verdict])


@pytest.mark.parametrize("level", [0.9, 0.95])
@pytest.mark.parametrize("accuracy", [[0.2, 0.5, 0.99], [0.9, 0.1, 0.95], [0.3, 0.62, 0.8]])
def test_limits_from_the_accuracies_of_bins_are_sums_of_squared_distances(accuracy, level):
    "Each bin's limits of its accuracy, as a loop; 0 where the sum of gaps is what noise alone may leave."
    confidence, n, t = [0.3, 0.6, 0.97], [20.0, 30.0, 50.0], 2.2
    w, value = np.array([0.2, 0.3, 0.5]), 0.05
    z = stats.norm.ppf(0.5 + level / 2)
    gaps, to_least, to_most, noise = [], [], [], []
    for p, c, m in zip(accuracy, confidence, n):
        low, high = agresti_coull(p, m * (z / t) ** 2, level)
        gap, ends = abs(p - c), (abs(low - c), abs(high - c))
        gaps.append(gap)
        to_least.append(gap - (0.0 if low <= c <= high else min(ends)))
        to_most.append(max(ends) - gap)
        noise.append(np.sqrt(c * (1 - c) / m))
    noise, total = np.array(noise), w @ gaps
    excess = total - w @ noise * np.sqrt(2 / np.pi)
    bar = t * np.sqrt(((w * noise) ** 2).sum() * (1 - 2 / np.pi))
    low = 0.0 if excess <= bar else max(0.0, total - np.sqrt(((w * np.maximum(to_least, 0)) ** 2).sum()))
    high = value + np.sqrt(((w * np.maximum(to_most, 0)) ** 2).sum())
    found = _accuracy_limits(value, *map(np.array, (accuracy, confidence)), w, np.array(n), t, level)
    assert found == pytest.approx((low, high)) and (low > 0) == (accuracy[0] == 0.9)
    assert _accuracy_limits(0.99, *map(np.array, (accuracy, confidence)), w, np.array(n), t, level)[1] == 1.0


def test_bins_hold_their_upper_edge_and_errors_are_weighted_by_units():
    "Confidences on edges; an empty bin; weights of replicates against repeated units."
    confidence, right = np.array([0.25, 0.5, 0.5, 0.51, 1.0]), np.array([1, 0, 1, 1, 0.5])
    curve = reliability_curve(confidence, right, bins=4)
    assert curve.count.tolist() == [1, 2, 1, 1] and curve.edges.tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert curve.accuracy.tolist() == [1, 0.5, 1, 0.5] and curve.confidence.tolist() == [0.25, 0.5, 0.51, 1]
    assert expected_calibration_error(confidence, right, bins=4) == pytest.approx((0.75 + 0 + 0.49 + 0.5) / 5)
    weights = np.array([[2, 0, 1, 0, 3], [1, 1, 1, 1, 1]], float)
    drawn = np.repeat(np.arange(5), weights[0].astype(int))
    by_weights = expected_calibration_error(confidence, right, bins=4, weights=weights)
    assert by_weights[0] == pytest.approx(expected_calibration_error(confidence[drawn], right[drawn], bins=4))
    whole = reliability_curve(confidence, right, bins=1)
    assert whole.count.tolist() == [5] and whole.accuracy[0] == pytest.approx(0.7)
    with pytest.raises(ValueError, match="bins must be 1 or more"):
        reliability_curve(confidence, right, bins=0)
    ten = reliability_curve([0.05, 0.15], [1, 0])
    assert len(ten.count) == 10 and expected_calibration_error([0.05, 0.15], [1, 0]) == pytest.approx(0.55)


@pytest.mark.parametrize(
    ("floor", "expected"), [(0.0, np.inf), (0.1, -(np.log(0.5) + np.log(0.1)) / 2), (0.6, -np.log(0.6))]
)
def test_a_probability_below_the_floor_is_raised_to_it(floor, expected):
    "Of options that were preferred; one that was not has no part."
    soft, probs = [[1.0, 0.0], [0.0, 1.0]], [[0.5, 0.5], [1.0, 0.0]]
    assert cross_entropy(soft, probs, floor=floor) == pytest.approx(expected)
    assert cross_entropy(soft, probs, floor=floor, each=True)[0] == pytest.approx(-np.log(max(0.5, floor)))
    for wrong in (-0.1, 1.0):
        with pytest.raises(ValueError, match="floor must be in"):
            cross_entropy(soft, probs, floor=wrong)
    for rows in ([[0.5, 0.5 + 2e-6], [1, 0]], [[1.1, -0.1], [1, 0]], [[1.0, np.nan], [1, 0]]):
        with pytest.raises(ValueError, match="probs must be probabilities"):
            cross_entropy(soft, rows)
    assert brier(soft, probs, each=True).tolist() == [0.5, 2.0] and brier(soft, probs) == 1.25


def test_no_answer_and_a_single_case_have_no_interval_of_the_error():
    "A single case has a value; nobody has none."
    nobody = calibration_error([], [], level=0.9)
    assert (nobody.n, nobody.level, np.isnan(nobody.estimate)) == (0, 0.9, True)
    alone = calibration_error([0.9] * 8, [0] * 8, clusters=[1] * 8)
    assert (alone.n, alone.n_clusters, alone.kind) == (8, 1, "none") and 0.8 < alone.estimate <= 0.9
