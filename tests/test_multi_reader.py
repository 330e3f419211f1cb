"""Raters and items at random: sums over pairs written as loops, lme4's estimates, faults."""

import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from mhbench.records.schema import Rating
from mhbench.stats.agreement import mean_pairwise
from mhbench.stats.differences import mean_difference
from mhbench.stats.estimate import agresti_coull, estimate
from mhbench.stats.multi_reader import (
    RaterComponents,
    _limits_within_range,
    _means_without,
    _rater_item_means,
    half_widths,
    mean_over_raters,
    over_raters,
    rated_items,
    rater_components,
    severities,
    two_way_variance,
)
from mhbench.stats.resample import mean
from mhbench.steps.by_raters import number_rows
from mhbench.studies.mentat.agreement import annotators_as_sample, mean_agreement, question_agreement
from mhbench.studies.mentat.annotations import annotation_arrays, load_annotations
from mhbench.studies.mentat.labels import label_tables
from mhbench.studies.mentat.preferences import predicting_raters, slider_severities

LME4 = json.loads((Path(__file__).parent / "fixtures" / "lme4_raters.json").read_text())
NAMES = ("item", "rater", "item_by_rater", "rest")


def ratings(seed, n_items=7, n_raters=4, twice=0.4):
    "Ratings with holes; some items are rated twice by a rater."
    rng = np.random.default_rng(seed)
    item, rater = (place.ravel() for place in np.indices((n_items, n_raters)))
    keep = rng.random(item.size) < 0.75
    again = rng.random(item.size) < twice
    item, rater = np.r_[item[keep], item[keep & again]], np.r_[rater[keep], rater[keep & again]]
    y = rng.normal(0, 2, n_items)[item] + rng.normal(0, 1, n_raters)[rater] + rng.normal(0, 1, item.size)
    return y, item, rater


def by_loops(y, item, rater):
    "Henderson's first method as sums over pairs of ratings: observed and expected, group by group."
    k = len(y)
    groupings = [[0] * k, list(item), list(rater), list(zip(item, rater))]
    sources = [list(item), list(rater), list(zip(item, rater)), list(range(k))]
    observed, expected = np.zeros(4), np.zeros((4, 4))
    for g, grouping in enumerate(groupings):
        for label in set(grouping):
            members = [j for j in range(k) if grouping[j] == label]
            for a, b in combinations(members, 2):
                observed[g] += (y[a] - y[b]) ** 2 / len(members)
                for s, source in enumerate(sources):
                    expected[g, s] += 2 * (source[a] != source[b]) / len(members)
    return np.linalg.solve(expected, observed)


@pytest.mark.parametrize("seed", range(5))
def test_components_are_the_sums_over_pairs(seed):
    data = ratings(seed)
    np.testing.assert_allclose(rater_components(*data)[:4], by_loops(*data), rtol=1e-9)


def test_components_are_lme4s_where_the_design_is_balanced():
    data = LME4["penicillin"]
    found = rater_components(data["value"], data["item"], data["rater"])
    np.testing.assert_allclose(found[:4], [data["components"][name] for name in NAMES], rtol=1e-4)


def test_components_are_near_lme4s_where_it_is_not():
    data = LME4["repeats"]
    found = rater_components(data["value"], data["item"], data["rater"])
    np.testing.assert_allclose(found[:4], [data["components"][name] for name in NAMES], rtol=0.06)


def test_components_move_neither_with_the_scale_nor_with_the_order():
    y, item, rater = ratings(3)
    base = np.array(rater_components(y, item, rater)[:4])
    order = np.random.default_rng(0).permutation(len(y))
    names = np.array(["d", "b", "a", "c"])
    np.testing.assert_allclose(rater_components(3 * y[order] + 7, item[order], names[rater[order]])[:4], 9 * base)
    with_gap = np.r_[y, np.nan], np.r_[item, 99], np.r_[rater, 0]
    np.testing.assert_allclose(rater_components(*with_gap)[:4], base)


@pytest.mark.parametrize(
    ("items", "raters", "says"),
    [
        ([0, 1, 2, 3], [0, 0, 1, 1], "let raters share items"),
        ([0, 0, 0, 0], [0, 1, 2, 3], "two items and two raters"),
        ([0, 0, 1], [0, 1, 0], "one label a rating"),
        ([0, 0, 1, None], [0, 1, 0, 1], "one label a rating"),
    ],
)
def test_ratings_that_tell_nothing_are_refused(items, raters, says):
    with pytest.raises(ValueError, match=says):
        rater_components([1.0, 2, 3, 5], items, raters)


def test_two_items_and_two_raters_are_enough_and_a_sum_of_nothing_has_no_shares():
    "Three ratings a cell of two by two; and a design rated by all is one rated by as many as there are."
    item, rater = (place.ravel() for place in np.indices((2, 2, 3))[:2])
    data = np.random.default_rng(1).normal(size=12), item, rater
    np.testing.assert_allclose(rater_components(*data)[:4], by_loops(*data), rtol=1e-9)
    assert np.isnan([*RaterComponents(-1.0, 0.0, 0.0, -0.1, 9, 3, 27).shares().values()]).all()
    c = RaterComponents(4.0, 1.0, 0.5, 2.0, 9, 3, 27)
    assert c.standard_error(8, 4, 2) == pytest.approx(np.sqrt(4 / 8 + 1 / 4 + 2.5 / 16))
    assert c.standard_error(8, 4, 4) == c.standard_error(8, 4) == pytest.approx(np.sqrt(4 / 8 + 1 / 4 + 2.5 / 32))
    for design in ((0, 4), (8, 4, 0), (8, 0), (8, 4, 5)):
        with pytest.raises(ValueError, match="numbers must be above 0"):
            c.standard_error(*design)


@pytest.mark.parametrize(
    ("value", "half_width", "has_limits"),
    [(1.0, 0.1, False), (0.0, 0.1, False), (0.4, 0.9e-9, False), (0.4, 1.5e-9, True), (0.4, 0.1, True)],
)
def test_limits_in_a_range_are_those_of_a_share_of_as_many_as_the_half_width_tells(value, half_width, has_limits):
    "On a scale of 3 to 8: none at its ends, nor without a width; none are beyond it."
    limits = _limits_within_range(3 + 5 * value, 5 * half_width, (3.0, 8.0), 0.9)
    assert np.isnan(limits).tolist() == [not has_limits] * 2
    if has_limits:
        n = value * (1 - value) * (stats.norm.ppf(0.95) / half_width) ** 2
        assert limits == pytest.approx([3 + 5 * x for x in agresti_coull(value, n, 0.9)])
    assert _limits_within_range(2.0, 0.5, (0.0, np.inf), 0.9) == (1.5, 2.5)


def u_statistic(y, item, rater):
    """The variance of a mean of complete ratings from averages of products over pairs (Gallas 2006, equation 6): of
    ratings that share an item and a rater, an item, a rater, or neither.
    """
    sums, counts = {}, {}
    for a in range(len(y)):
        for b in range(len(y)):
            kind = (item[a] == item[b], rater[a] == rater[b])
            sums[kind] = sums.get(kind, 0.0) + y[a] * y[b]
            counts[kind] = counts.get(kind, 0) + 1
    moment = {kind: sums[kind] / counts[kind] for kind in sums}
    share = {kind: counts[kind] / len(y) ** 2 for kind in sums}
    return sum(share[kind] * moment[kind] for kind in moment) - moment[False, False]


def test_a_value_that_is_missing_is_left_out_with_its_item_and_rater():
    y = np.random.default_rng(3).normal(0, 1, (9, 6))
    item, rater = (place.ravel() for place in np.indices(y.shape))
    y[4], y[:, 2], y[0, 0] = np.nan, np.nan, np.nan
    is_there = ~np.isnan(y.ravel())
    left = mean_over_raters(y.ravel(), item, rater)
    given = mean_over_raters(y.ravel()[is_there], item[is_there], rater[is_there])
    assert left.both.n == 8 and np.isfinite(left.both.estimate)
    for kind in ("items", "raters", "both"):
        assert getattr(left, kind) == getattr(given, kind)


@pytest.mark.parametrize("seed", range(5))
def test_the_variance_of_a_mean_is_the_u_statistic(seed):
    y = np.random.default_rng(seed).normal(0, 1, (9, 5)) + np.random.default_rng(seed + 9).normal(0, 2, (9, 1))
    item, rater = (place.ravel() for place in np.indices(y.shape))
    c = rater_components(y.ravel(), item, rater)
    by_components = c.item / 9 + c.rater / 5 + c.rest / 45
    np.testing.assert_allclose(by_components, u_statistic(y.ravel(), item, rater), rtol=1e-9)
    found = mean_over_raters(y.ravel(), item, rater)
    np.testing.assert_allclose(found.between + found.shared, by_components, rtol=1e-9)
    few = mean_over_raters(y[:, :4].ravel(), *(x.ravel() for x in np.indices((9, 4))))
    assert few.both.kind == few.raters.kind == "raters" and few.items.ci_low < few.items.ci_high
    six = np.random.default_rng(seed).normal(0, 1, (9, 6)) + np.random.default_rng(seed + 9).normal(0, 2, (9, 1))
    found = mean_over_raters(six.ravel(), *(x.ravel() for x in np.indices(six.shape)))
    t = stats.t.ppf(0.975, [5, 8]) ** 2
    half = np.sqrt(max(t @ [found.between, found.shared], t[1] * six.mean(1).var(ddof=1) / 9))
    both, items = found.both, found.items
    ends = min(items.ci_low, both.estimate - half), max(items.ci_high, both.estimate + half)
    np.testing.assert_allclose([both.ci_low, both.ci_high], ends, rtol=1e-9)


@pytest.mark.parametrize("number", [np.mean, np.std, np.median])
def test_half_widths_are_those_of_covariances_of_raters(number):
    "Each rater's own number by its pseudo-value; the mean covariance of two raters, by the jackknife over items."
    rng = np.random.default_rng(5)
    for r, g in ((2, 30), (5, 12), (8, 3), (4, 2)):
        y = rng.normal(0, 1, (r, 1)) + rng.normal(0, 1, g) + rng.normal(0, 1, (r, g))
        without = lambda a, b: np.delete(np.delete(y, a[a > 0] - 1, 0), b[b > 0] - 1, 1)
        left_out = np.array(
            [[number(without(np.array([a]), np.array([b]))) for b in range(g + 1)] for a in range(r + 1)]
        )
        own = r * left_out[0] - (r - 1) * left_out[1:]  # (R, G + 1)
        covariance = (g - 1) ** 2 / g * np.cov(own[:, 1:])
        shared = max(0.0, (covariance.sum() - np.trace(covariance)) / (r * (r - 1)))
        items = (g - 1) ** 2 / g * left_out[0, 1:].var(ddof=1)
        raters = own[:, 0].var(ddof=1) / r
        t = stats.t.ppf(0.95, [r - 1, g - 1]) ** 2
        expected = np.sqrt([t[1] * items, t[0] * raters, max(t @ [raters, shared], t[1] * items)])
        np.testing.assert_allclose(half_widths(left_out, 0.9), expected, rtol=1e-9)


@pytest.mark.parametrize(("n_raters", "n_items"), [(1, 5), (3, 1), (1, 1)])
def test_one_rater_or_one_item_has_no_variance_over_raters(n_raters, n_items):
    "The variance over items needs two items alone: of means without one it is the usual one."
    y = np.random.default_rng(4).normal(size=(n_raters, n_items))
    left_out = np.full((n_raters + 1, n_items + 1), 0.5)
    if n_items > 1:
        left_out[0, 1:] = [np.delete(y.mean(0), k).mean() for k in range(n_items)]
    *between_and_shared, item_variance = two_way_variance(left_out)
    assert np.isnan(between_and_shared).all() and np.isnan(item_variance) == (n_items == 1)
    if n_items > 1:
        assert item_variance == pytest.approx(y.mean(0).var(ddof=1) / n_items)


def by_least_squares(y, item, rater):
    "The mean of items' effects in an additive model in which raters' effects sum to 0."
    x = np.hstack([np.eye(item.max() + 1)[item], np.eye(rater.max() + 1)[rater]])
    x = np.vstack([x, np.r_[np.zeros(item.max() + 1), np.ones(rater.max() + 1)]])
    return np.linalg.lstsq(x, np.r_[y, 0.0])[0][: item.max() + 1].mean()


def test_every_rater_and_every_item_counts_alike_whoever_rated_what():
    "Who is severe rates most, and the hard items; and the variance is that of the mean over many studies."
    rng = np.random.default_rng(4)
    item, rater = np.nonzero(rng.random((40, 6)) < np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4]))
    severe = np.arange(6)[::-1] - 2.5
    y = np.linspace(-1, 1, 40)[item] - severe[rater]
    assert mean_over_raters(y, item, rater).both.estimate == pytest.approx(0)
    found, means = [], []
    for k in range(1500):
        y = rng.normal(0, 1, 40)[item] + rng.normal(0, 1, 6)[rater] + rng.normal(0, np.sqrt(0.5), len(item))
        e = mean_over_raters(y, item, rater)
        assert k or e.both.estimate == pytest.approx(by_least_squares(y, item, rater))
        found.append(e.between + e.shared)
        means.append(e.both.estimate)
    ratio, error = np.mean(found) / np.var(means), 4 * np.sqrt(2 / 1500)
    assert 1 - error < ratio < 1.1 + error  # the jackknife is a little too large with unequal loads


@pytest.mark.parametrize("n_raters", [2, 5])
def test_means_without_a_rater_or_a_case_are_those_fitted_anew(n_raters):
    """A third of the ratings are missing. Without a rater the fit is exact; without a case severities move by one step,
    whose error is of second order.
    """
    rng = np.random.default_rng(n_raters)
    item, rater = np.nonzero(rng.random((80, n_raters)) < 0.67)
    y = rng.normal(0, 1, 80)[item] + rng.normal(0, 1, n_raters)[rater] + rng.normal(0, 1, len(item))
    item = pd.factorize(item)[0]
    case_of_item = np.arange(item.max() + 1) // 2
    case = case_of_item[item]
    left_out = _means_without(_rater_item_means(y, rater, item), case_of_item)
    fit = lambda k: by_least_squares(y[k], *(pd.factorize(x[k])[0] for x in (item, rater)))
    assert left_out[0, 0] == pytest.approx(fit(case >= 0))
    items = mean_over_raters(y, item, rater, cases=case).items  # two raters are enough for an interval over items
    assert (items.ci_high - items.ci_low) / 2 == pytest.approx(half_widths(left_out)[0])
    assert left_out[1:, 0] == pytest.approx([fit(rater != r) for r in range(n_raters)])
    for r in range(n_raters + 1):
        exact = np.array([fit((rater != r - 1) & (case != c)) for c in range(case.max() + 1)]) - left_out[r, 0]
        error = left_out[r, 1:] - left_out[r, 0] - exact
        assert np.abs(error).max() < 0.02 * exact.std()


def test_ratings_that_are_there_twice_count_by_their_mean():
    "A rater's two ratings of an item are one: the mean is that of a table of means."
    y, item, rater = ratings(3, n_items=12, n_raters=6)
    means = pd.DataFrame({"y": y, "item": item, "rater": rater}).groupby(["item", "rater"], sort=False)["y"].mean()
    of_means = mean_over_raters(means.to_numpy(), *(means.index.get_level_values(k) for k in ("item", "rater")))
    assert len(means) < len(y) and mean_over_raters(y, item, rater).both[:5] == pytest.approx(of_means.both[:5])


def test_a_single_rater_or_two_have_a_mean_and_the_means_without_each():
    "One rater: the mean of the ratings, and nothing without; two of whom each misses an item: the other's mean."
    alone = mean_over_raters([1.0, 2.0, 6.0], [0, 1, 2], [7, 7, 7])
    assert alone.both.estimate == 3.0 and np.isnan(alone.without).tolist() == [True]
    assert np.isnan(alone.range_without()).all() and alone.both.kind == "raters"
    two = mean_over_raters([1.0, 2.0, 6.0, 3.0, 5.0, 9.0], [0, 1, 2, 0, 1, 3], [0, 0, 0, 1, 1, 1])
    assert two.without == pytest.approx([17 / 3, 3.0])
    assert two.range_without() == pytest.approx((3.0, 17 / 3))


@pytest.mark.parametrize(("n_units", "kind"), [(1, "none"), (2, "few"), (5, "few"), (6, "items and raters")])
def test_six_cases_of_six_raters_are_the_fewest_for_an_interval(n_units, kind):
    "A rating is missing, so that severities are removed; two items a case."
    y = np.random.default_rng(2).normal(size=(2 * n_units, 6))
    y[0, 0] = np.nan
    item, rater = (place.ravel() for place in np.indices(y.shape))
    e = mean_over_raters(y.ravel(), item, rater, cases=item // 2)
    assert (e.both.kind, e.both.n, e.both.n_clusters) == (kind, 2 * n_units, n_units)
    assert e.raters.kind == kind.replace("items and", "other") and np.isfinite(e.both.ci_low) == (n_units > 5)


@pytest.mark.parametrize("value_range", [(0.0, 1.0), (0.0, 4.0)])
def test_items_that_everybody_rated_have_the_interval_of_their_means(value_range):
    "Values at both ends of the range are within it; one beyond is refused."
    y = np.random.default_rng(3).choice(value_range, (14, 6), p=[0.7, 0.3])
    y[0], y[1] = value_range
    item, rater = (place.ravel() for place in np.indices(y.shape))
    items = mean_over_raters(y.ravel(), item, rater, cases=item // 2, within=value_range, level=0.9).items
    share = value_range == (0, 1)
    by_hand = estimate(mean, y.mean(1), clusters=np.arange(14) // 2, seed=0, share=share, within=value_range, level=0.9)
    assert items == by_hand and (items.n, items.n_clusters, items.level) == (14, 7, 0.9)
    for beyond in (value_range[0] - 0.1, value_range[1] + 0.1):
        with pytest.raises(ValueError, match=r"values must be within 0 and [14]"):
            mean_over_raters([beyond, *y.ravel()[1:]], item, rater, within=value_range)


def test_adjusted_means_stay_within_the_range():
    """The first rater has three items, the second, less lenient by 1, two of them and four more. The mean of items is
    (3 x 0.5 + 4 x 1.5) / 7.
    """
    values, items, raters = [1.0] * 3 + [0.0] * 2 + [1.0] * 4, [0, 1, 2, 1, 2, 3, 4, 5, 6], [0] * 3 + [1] * 6
    assert mean_over_raters(values, items, raters).both.estimate == pytest.approx(7.5 / 7)
    for low, high in ((0, 1), (-1, 1)):
        assert mean_over_raters(values, items, raters, within=(low, high)).both.estimate == 1.0


@pytest.mark.parametrize(
    ("table", "fewest", "has_enough"),
    [
        ([[1.0, np.nan, 3.0], [np.nan, np.nan, 2.0]], 1, [True, False, True]),
        ([[1.0, np.nan, 3.0], [np.nan, np.nan, 2.0]], 2, [False, False, True]),
        (np.array([["a", "Abstain", None], ["Abstain", " ", "b"]], dtype=object), 1, [True, False, True]),
        (np.array([["a", "Abstain", "a"], ["Abstain", "b", "b"]], dtype=object), 2, [False, False, True]),
    ],
)
def test_an_item_is_rated_by_so_many_who_gave_a_label(table, fewest, has_enough):
    "Neither a missing number nor an abstention nor a blank is a label."
    assert rated_items(table, fewest).tolist() == has_enough


@pytest.mark.parametrize(("n_items", "n_rows"), [(150, 151), (200, 201), (450, 201)])
def test_items_are_left_out_one_by_one_up_to_two_hundred_and_beyond_in_groups(n_items, n_rows):
    "The rows of weights that a statistic is given: all items, and without each or without each group."
    shapes = []

    def number(x, weights):
        shapes.append((len(x), *weights.shape))
        return weights @ x.mean(0) / weights.sum(1)

    over_raters(number, np.random.default_rng(0).random((3, n_items)))
    assert shapes == [(3, n_rows, n_items), *[(2, n_rows, n_items)] * 3]


@pytest.mark.parametrize(
    ("n_raters", "fewest", "is_defined"), [(2, 2, False), (3, 2, True), (2, 1, True), (1, 1, False)]
)
def test_a_rater_without_whom_too_few_are_left_is_not_left_out(n_raters, fewest, is_defined):
    "A number that needs two raters has no value without one of two."
    y = np.random.default_rng(0).random((n_raters, 9))
    e = over_raters(lambda x, weights: weights @ x.mean(0) / weights.sum(1), y, fewest=fewest)
    assert np.isfinite(e.without).tolist() == [is_defined] * n_raters
    assert e.both.estimate == pytest.approx(y.mean())
    if is_defined:
        assert e.without == pytest.approx([np.delete(y, k, 0).mean() for k in range(n_raters)])


def test_any_number_has_the_interval_of_a_mean():
    y = np.random.default_rng(2).normal(0, 1, (7, 12)) + np.random.default_rng(3).normal(0, 1, 12)
    rater, item = (place.ravel() for place in np.indices(y.shape))
    one = mean_over_raters(y.ravel(), item, rater)
    other = over_raters(lambda x, weights: weights @ x.mean(0) / weights.sum(1), y)
    np.testing.assert_allclose(one.raters[:5], other.raters[:5], rtol=1e-9)
    np.testing.assert_allclose([one.between, one.shared], [other.between, other.shared], rtol=1e-9)
    np.testing.assert_allclose(one.without, other.without, rtol=1e-9)
    half = np.sqrt(stats.t.ppf(0.975, 11) ** 2 * y.mean(0).var(ddof=1) / 12)
    assert other.items.ci_high - other.items.estimate == pytest.approx(half)


def test_severity_is_the_distance_to_the_others_on_the_same_items():
    y, item, rater = ratings(4, n_items=20, n_raters=6, twice=0)
    found = severities(y, item, rater).set_index("rater")
    for r in range(6):
        apart = [y[(item == i) & (rater != r)].mean() - y[(item == i) & (rater == r)].mean() for i in item[rater == r]]
        assert found.loc[r, "estimate"] == pytest.approx(np.nanmean(apart))
    people = severities(y, item, rater, reference=[0, 1]).set_index("rater")
    assert people.loc[2, "n"] == len({*item[rater == 2]} & {*item[rater < 2]})


def test_a_severity_has_the_interval_of_its_differences_over_cases():
    "Against two raters of reference, of whom an item may have neither: the mean of differences within 0 to 100."
    rng = np.random.default_rng(6)
    table = np.round(rng.uniform(0, 100, (4, 24)))
    table[rng.random(table.shape) < 0.3] = np.nan
    rater, item = (place.ravel() for place in np.indices(table.shape))
    names = np.array(["d", "b", "c", "a"])
    settings = {"within": (0.0, 100.0), "level": 0.9}
    with_cases = severities(table.ravel(), item, names[rater], cases=item // 2, reference=["a", "b"], **settings)
    assert with_cases["rater"].tolist() == ["d", "b", "c", "a"]
    for k, row in enumerate(with_cases.to_dict("records")):
        reference = [table[r] for r in (1, 3) if r != k]
        others = [[x[i] for x in reference if x[i] == x[i]] for i in range(24)]
        gaps = np.array([np.mean(x) - table[k, i] if x else np.nan for i, x in enumerate(others)])
        by_hand = mean_difference(gaps, np.arange(24) // 2, largest=100.0, level=0.9).row()
        assert [row[name] for name in by_hand] == pytest.approx(list(by_hand.values()))
    unbounded = severities(table.ravel(), item, rater, reference=[0])
    assert unbounded["interval"].tolist() == ["none", "hall", "hall", "hall"]


def test_a_mean_over_reml_is_near_lme4s():
    data = LME4["repeats"]
    found = mean_over_raters(data["value"], data["item"], data["rater"])
    assert abs(found.both.estimate - data["mean"]) < 0.5 * data["standard_error"]
    assert 0.8 < np.sqrt(found.between + found.shared) / data["standard_error"] < 1.25


@pytest.mark.parametrize("scale", [0.001, 1000])
def test_the_interval_of_a_mean_has_the_units_of_its_ratings(scale):
    y, item, rater = ratings(3, n_items=12, n_raters=6)
    one, other = (mean_over_raters(x, item, rater).both for x in (y, scale * y))
    np.testing.assert_allclose(np.array([other.ci_low, other.ci_high]), scale * np.array([one.ci_low, one.ci_high]))
    assert np.isfinite(one.ci_low)


def test_five_raters_make_no_interval_and_say_so():
    y = np.arange(50.0).reshape(5, 10)
    rater, item = (place.ravel() for place in np.indices(y.shape))
    for found in (
        mean_over_raters(y.ravel(), item, rater),
        over_raters(lambda x, weights: weights @ x.mean(0) / weights.sum(1), y),
    ):
        assert found.both.kind == "raters" and np.isnan(found.both.ci_low) and abs(found.both.estimate - 24.5) < 1e-9
        assert found.range_without() == pytest.approx((19.5, 29.5))  # without the last, and without the first


def test_ratings_that_are_all_alike_have_no_interval():
    rater, item = (place.ravel() for place in np.indices((6, 10)))
    found = mean_over_raters(np.ones(60), item, rater, within=(0, 1)).both
    assert abs(found.estimate - 1) < 1e-9 and np.isnan(found.ci_low) and found.kind == "none"


def test_mentats_eight_raters(datasets):
    """On MENTAT's own annotations: the rest is the spread of a rater's repeats, by groups; the interval of
    agreement grows when annotators, too, are a sample.
    """
    folder = datasets / "mentat" / "annotated_data"
    if not folder.is_dir():
        pytest.skip("no MENTAT release among the corpora")
    ratings = load_annotations(folder).ratings
    long = pd.DataFrame([(r.item_id + r.target, r.rater, r.value) for r in ratings], columns=["item", "rater", "value"])
    again = long.groupby(["item", "rater"])["value"].agg(["var", "count"]).dropna()
    pooled = (again["var"] * (again["count"] - 1)).sum() / (again["count"] - 1).sum()
    found = rater_components(long["value"], long["item"], long["rater"])
    np.testing.assert_allclose(found.rest, pooled, rtol=1e-9)
    assert found.n_raters == 8 and found.shares()["item"] > 0.6 and found.shares()["rater"] < 0.05
    two = annotators_as_sample(ratings, seed=1).set_index("random")
    width = two["ci_high"] - two["ci_low"]
    assert width["items and raters"] > 1.2 * width["items"]


def test_raters_who_all_say_the_same_leave_the_interval_of_items():
    item, rater = (place.ravel() for place in np.indices((9, 6)))
    values = np.random.default_rng(0).normal(size=9)
    e = mean_over_raters(values[item], item, rater)
    half = stats.t.ppf(0.975, 8) * values.std(ddof=1) / 3
    ends = min(e.items.ci_low, values.mean() - half), max(e.items.ci_high, values.mean() + half)
    assert [e.both.ci_low, e.both.ci_high] == pytest.approx(ends) and e.between == pytest.approx(0)
    few = mean_over_raters(values[item[item < 5]], item[item < 5], rater[item < 5]).both
    assert few.kind == "few" and np.isnan(few.ci_low)


def test_ratings_of_one_item_have_no_interval():
    def first(x, weights):
        return np.repeat(x[:, 0].mean(), len(weights))

    alone = over_raters(first, np.arange(8.0)[:, None])
    assert alone.both.estimate == 3.5 and np.isnan([*alone.both[3:5], *alone.items[3:5]]).all()


def test_items_that_cannot_agree_are_in_no_count():
    "Kappa of five raters: forty items have their labels, and sixty more have one label or an abstention."
    rng = np.random.default_rng(5)
    truth = rng.random(40) < 0.5
    labels = np.where(rng.random((6, 40)) < 0.8, truth, ~truth).astype(int).astype(str).astype(object)
    more = np.full((6, 60), None, dtype=object)
    more[0], more[1] = "1", "Abstain"
    with_more = np.hstack([labels, more])
    found = over_raters(mean_pairwise, with_more, fewest=2)
    assert found[:3] == over_raters(mean_pairwise, labels, fewest=2)[:3]
    assert found.both.n == found.both.n_clusters == 40
    rows = number_rows(mean_pairwise, with_more, np.arange(100), {}, least=2)
    assert [r["n"] for r in rows] == [40, 40]
    nobody = over_raters(mean_pairwise, more, fewest=2).both
    assert np.isnan(nobody.estimate) and nobody.n == 0


def test_a_question_that_is_asked_again_in_its_case_makes_no_interval_narrower():
    "Every number over questions, where each of twelve cases has one question, and again with an exact copy of it."
    rng = np.random.default_rng(3)
    worth = rng.uniform(10, 90, (12, 3))
    scores = np.clip(np.round(worth + rng.normal(0, 15, (4, 12, 3))), 0, 100)

    def rated(copies):
        return [
            Rating(item_id=f"q{q}{c}", study="demo", rater=f"p{r}", target="ABC"[o], value=x, source=f"here:{r}-{q}{c}")
            for c in copies
            for (r, q, o), x in np.ndenumerate(scores)
        ]

    def intervals_of(ratings, cases):
        arrays = annotation_arrays(ratings)
        creators = {q: int(q.strip("qab")) % 3 for q in set(arrays.questions.tolist())}
        made = label_tables(arrays, creators=creators, cases=cases, models=["Bradley-Terry"], n_boot=2, seed=1)
        mean = mean_agreement(question_agreement(ratings, seed=1), cases)
        sample = annotators_as_sample(ratings, cases=cases, seed=1)
        held_out = predicting_raters({"x": arrays}, cases=cases).sort_values(["measure", "labels"])
        held_out = held_out[~held_out["labels"].str.contains("hier|tempered")]  # these are fitted to all questions
        tables = (mean, sample, held_out, slider_severities(arrays, cases), made.top_k)
        return np.concatenate([t[["ci_low", "ci_high"]].to_numpy(float).ravel() for t in tables]), 2 * len(made.top_k)

    once, twice = rated("a"), rated("ab")
    cases = {f"q{q}{c}": f"case{q}" for q in range(12) for c in "ab"}
    (expected, of_shares), (by_case, _) = intervals_of(once, None), intervals_of(twice, cases)
    assert np.isfinite(expected).mean() > 0.8
    np.testing.assert_allclose(by_case[:-of_shares], expected[:-of_shares], atol=1e-9)
    np.testing.assert_allclose(by_case[-of_shares:], expected[-of_shares:], atol=0.05)  # the design effect is estimated
    width = lambda limits: np.diff(limits.reshape(-1, 2))[np.isfinite(expected).reshape(-1, 2).all(axis=1)]
    assert (width(intervals_of(twice, None)[0]) < 0.9 * width(by_case)).all()  # as if a copy were another case
    few = {f"q{q}{c}": f"case{q // 3}" for q in range(12) for c in "ab"}
    assert mean_agreement(question_agreement(twice, seed=1), few)["interval"].tolist() == ["few"]


@pytest.mark.parametrize("label", [None, "Abstain", " "])
def test_who_labelled_none_of_the_items_is_no_rater(label):
    "Five raters are too few for an interval, whoever abstains beside them; six have the interval of six."
    rng = np.random.default_rng(2)
    truth = rng.random(40) < 0.5
    labels = np.where(rng.random((6, 40)) < 0.8, truth, ~truth).astype(int).astype(str).astype(object)
    silent = np.full((3, 40), label, dtype=object)
    alone = np.hstack([np.full((6, 9), None, dtype=object), labels]), np.full((1, 49), None, dtype=object)
    alone[1][0, :9] = "1"  # the only rater of nine items, which cannot agree
    for n_raters in (5, 6):
        expected = over_raters(mean_pairwise, labels[:n_raters], fewest=2, within=(-1, 1))
        for table in (np.vstack([labels[:n_raters], silent]), np.vstack([alone[0][:n_raters], alone[1]])):
            found = over_raters(mean_pairwise, table, fewest=2, within=(-1, 1))
            assert found.both.kind == expected.both.kind == ("raters" if n_raters == 5 else "items and raters")
            np.testing.assert_allclose(found.without, expected.without)
            np.testing.assert_allclose(found.raters[2:5], expected.raters[2:5])
        with_silent = np.vstack([labels[:n_raters], silent])
        rows = number_rows(mean_pairwise, with_silent, np.arange(40), {}, least=2, within=(-1, 1))
        assert [r["n_raters"] for r in rows] == [n_raters] * 2
