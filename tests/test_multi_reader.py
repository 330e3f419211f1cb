"""Raters and items at random: sums over pairs written as loops, lme4's estimates, faults."""

import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from mhbench.stats.multi_reader import rater_components

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
