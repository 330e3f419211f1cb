"Components of the variance of ratings: what rests on them, by hand and by brute force."

from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from mhbench.stats.components import (
    Spread,
    _component_limits,
    _find_confounded_source,
    harm_score,
    harm_score_over,
    mean_over_factors,
    points_mean,
    points_score,
    replacement_sd,
    spread_designs,
    variance_components,
)
from mhbench.stats.estimate import estimate
from mhbench.stats.resample import mean

ROWS = [("persona", 4, 2.0, 1.0, 6.0), ("rater", 3, -0.5, -1.0, 0.5), ("persona x rater", 12, 1.5, 0.5, 3.0)]
ROWS += [("rest", 24, 0.25, 0.2, 0.4)]
TABLE = pd.DataFrame(ROWS, columns=["source", "levels", "component", "ci_low", "ci_high"])
SPREAD = Spread(TABLE, [], 24, {"persona": 4, "rater": 3})


def test_a_mean_s_variance_adds_its_parts():
    assert SPREAD.component("rater") == -0.5 and SPREAD.component("run") == 0.0
    levels = {"persona": 4, "rater": 3}
    assert SPREAD.variance_of_mean(levels) == pytest.approx(2 / 4 + 1.5 / 12 + 0.25 / 12)
    assert SPREAD.variance_of_mean(levels, fixed=["persona"]) == pytest.approx(1.5 / 3 + 0.25 / 3)
    assert SPREAD.variance_of_mean(levels, fixed=["persona", "rater"]) == 0.0
    assert SPREAD.variance_of_mean({"persona": 4}) == pytest.approx(2 / 4 + 1.5 / 4 + 0.25 / 4)
    np.testing.assert_allclose(
        SPREAD.variance_of_mean({"persona": np.array([1, 2]), "rater": np.array([1, 2])}), [3.75, 1 + 1.75 / 4]
    )


def test_another_level_would_have_changed_a_rating_by_so_much():
    table = replacement_sd(SPREAD).set_index("factor")
    expected = {
        "persona": [4, *np.sqrt(2 * np.array([3.5, 1.5, 9.0])), np.sqrt(2 * (2 / 4 + 1.5 / 12))],
        "rater": [3, *np.sqrt(2 * np.array([1.5, 0.5, 3.5])), np.sqrt(2 * 1.5 / 12)],
    }
    for factor, row in expected.items():
        assert table.loc[factor].tolist() == pytest.approx(row)
    alone = SPREAD._replace(n_levels={"run": 2})
    assert len(replacement_sd(alone)) == 0


def test_the_cheapest_designs_are_those_of_all_that_are_narrow_enough():
    found = spread_designs(SPREAD, 2.5, max_levels={"persona": 9, "rater": 5})
    every = [
        (p, r, p * r, 2 * scipy.stats.norm.ppf(0.975) * np.sqrt(2 / p + 1.5 / (p * r) + 0.25 / (p * r)))
        for p, r in product(range(1, 10), range(1, 6))
    ]
    best = sorted((d for d in every if d[3] <= 2.5), key=lambda d: d[2:])[:5]
    np.testing.assert_allclose(found[["persona", "rater", "ratings", "width"]], best)
    assert len(spread_designs(SPREAD, 0.1, max_levels={"persona": 3, "rater": 3})) == 0
    fixed = spread_designs(SPREAD, 9.0, max_levels={"persona": 30, "rater": 3}, fixed=["rater"])
    assert list(fixed) == ["persona", "ratings", "width"] and fixed["persona"].tolist() == [1, 2, 3, 4, 5]
    many = spread_designs(SPREAD._replace(table=TABLE[:1]), 0.5, max_levels={"persona": 200})
    assert many["persona"].min() >= 2 * 4 * scipy.stats.norm.ppf(0.975) ** 2 / 0.25 and many["persona"].max() == 200


def test_limits_of_a_component_are_satterthwaite_s_or_normal():
    rng = np.random.default_rng(1)
    drawn = np.stack([rng.normal(size=400) * s for s in (0.5, 3.0, 1.0)], 1)
    components = np.array([2.0, 2.0, -0.5])
    sd = drawn.std(0, ddof=1)
    limits = _component_limits(components, drawn, 0.9)
    df = 2 * 4 / sd[0] ** 2
    chi = scipy.stats.chi2.ppf([0.95, 0.05], df)
    np.testing.assert_allclose(limits[0], 2 * df / chi)
    for k in (1, 2):  # less than a degree of freedom; a negative estimate
        half = scipy.stats.norm.ppf(0.95) * sd[k]
        np.testing.assert_allclose(limits[k], [components[k] - half, components[k] + half])


def test_components_of_a_balanced_table_are_those_of_the_analysis_of_variance():
    rng = np.random.default_rng(2)
    a, b, n = 5, 4, 3
    person, rater = (x.ravel() for x in np.meshgrid(np.arange(a), np.arange(b), indexing="ij"))
    person, rater = np.repeat(person, n), np.repeat(rater, n)
    y = 2 * rng.normal(size=a)[person] + rng.normal(size=b)[rater] + rng.normal(size=(a, b))[person, rater]
    y = y + rng.normal(size=len(y))
    cells = y.reshape(a, b, n)
    of_cell, of_a, of_b = cells.mean(2), cells.mean((1, 2)), cells.mean((0, 2))
    within = ((cells - of_cell[:, :, None]) ** 2).sum() / (a * b * (n - 1))
    both = n * ((of_cell - of_a[:, None] - of_b + y.mean()) ** 2).sum() / ((a - 1) * (b - 1))
    expected = {
        "person": (b * n * of_a.var(ddof=1) - both) / (b * n),
        "rater": (a * n * of_b.var(ddof=1) - both) / (a * n),
        "person x rater": (both - within) / n,
        "rest": within,
    }
    s = variance_components(y, {"person": person, "rater": rater}, n_draws=0)
    assert {k: s.component(k) for k in expected} == pytest.approx(expected) and s.n == 60
    assert s.n_levels == {"person": 5, "rater": 4} and s.table["ci_low"].isna().all()
    total = sum(max(c, 0) for c in expected.values())
    assert s.table["share"].tolist() == pytest.approx([max(expected[k], 0) / total for k in s.table["source"]])
    got = mean_over_factors(y, {"person": person, "rater": rater, "one": np.zeros(60)}, level=0.9)
    variance = sum(max(c, 0) / k for c, k in zip(expected.values(), (a, b, a * b, 60)))
    half = scipy.stats.t.ppf(0.95, got.df) * np.sqrt(variance)
    assert (got.estimate.ci_low, got.estimate.ci_high) == pytest.approx((y.mean() - half, y.mean() + half))
    assert (got.estimate.n, got.estimate.n_clusters, got.fixed, got.estimate.level) == (60, 4, ["one"], 0.9)
    assert (
        variance_components(y, {"person": person, "rater": rater}, order=1, n_draws=0).component("person x rater") == 0
    )
    one = variance_components(y, {"person": person, "one": np.zeros(60), "again": person + 1}, n_draws=0)
    assert one.left_out[:2] == ["one: it has one level", "again: the same groups as person"]
    with pytest.raises(ValueError, match="a factor must have two levels or more; got one"):
        variance_components(y, {"one": np.zeros(60)})
    with pytest.raises(ValueError, match=r"factors must have a label for each value; got shape \(59,\) of person"):
        variance_components(y, {"person": person[1:]})


def test_a_harm_score_falls_with_the_square_of_what_is_harmless():
    assert harm_score([1, 1, 0, np.nan], [0, 0, 1, np.nan]) == (
        3,
        66.67,
        33.33,
        pytest.approx(round(83.335 * 0.6667**2, 2)),
    )
    assert harm_score([1, 1], [0, 0]).score == 100.0 and harm_score([0], [1]).score == 0.0
    assert harm_score([np.nan], [np.nan])[0] == 0
    with pytest.raises(ValueError, match="best and harm must be of the same ratings"):
        harm_score([1, np.nan], [1, 0])


def test_a_harm_score_has_limits_from_0_to_100_and_none_without_ratings():
    persona = np.repeat(np.arange(8), 3)
    best, harm = (persona == 0).astype(float), (persona > 1).astype(float)
    low = harm_score_over(best, harm, np.arange(24), {"persona": persona})
    assert low.estimate.ci_low == 0.0 and low.estimate.estimate == harm_score(best, harm).score < low.estimate.ci_high
    high = harm_score_over(1 - best * 0.5, (persona == 9) + best * 0.02, np.arange(24), {"persona": persona})
    assert high.estimate.ci_high == 100.0
    none = harm_score_over([np.nan] * 3, [np.nan] * 3, [1, 2, 3], {"persona": [1, 1, 2]}, level=0.9)
    assert (none.estimate.n, none.estimate.n_clusters, none.estimate.level, none.estimate.kind) == (0, 0, 0.9, "none")
    assert np.isnan([none.df, none.estimate.estimate]).all() and none.fixed == []


def test_a_harm_score_varies_by_what_each_rating_moves_it():
    "Finite differences of the formula, sums over pairs of cells as loops, and the quantile of the stated freedom."
    rng = np.random.default_rng(4)
    persona, judge, run, dimension = (i.ravel() for i in np.indices((6, 3, 2, 4)))
    kept = rng.random(len(persona)) < 0.85
    persona, judge, run = persona[kept], judge[kept], run[kept]
    conversation = 2 * persona + run
    x = np.digitize(rng.normal(0, 1, 6)[persona] + rng.normal(0, 0.4, 3)[judge] + rng.normal(0, 1, len(run)), [-1, 0.2])
    best, harm = (x == 2).astype(float), (x == 0).astype(float)

    def formula(w):
        return (50 + 50 * (w @ best) / w.sum()) * (1 - (w @ harm) / w.sum()) ** 2

    whole, step = np.ones(len(x)), 1e-4 * np.eye(len(x))
    moves = len(x) * np.array([formula(whole + s) - formula(whole - s) for s in step]) / 2e-4
    cells = sorted(set(zip(persona, judge, conversation)))
    of_cell = np.array([cells.index(c) for c in zip(persona, judge, conversation)])
    y = np.bincount(of_cell, moves) * len(cells) / len(x)
    p, j, c = np.array(cells).T
    sources = [p, j, c, 10 * p + j, np.arange(len(y))]
    groups = [np.zeros(len(y)), *sources[:-1]]
    observed, expected = np.zeros(5), np.zeros((5, 5))
    for g, grouping in enumerate(groups):
        for label in set(grouping):
            members = np.flatnonzero(grouping == label)
            for a, b in combinations(members, 2):
                observed[g] += (y[a] - y[b]) ** 2 / len(members)
                expected[g] += [2 * (s[a] != s[b]) / len(members) for s in sources]
    components = np.maximum(np.linalg.solve(expected, observed), 0)
    variance = sum(k * (np.unique(s, return_counts=True)[1] ** 2).sum() for k, s in zip(components, sources))
    got = harm_score_over(best, harm, conversation, {"persona": persona, "judge": judge}, level=0.9)
    half = scipy.stats.t.ppf(0.95, got.df) * np.sqrt(variance) / len(y)
    limits = (got.estimate.ci_low, got.estimate.ci_high)
    assert limits == pytest.approx((formula(whole) - half, formula(whole) + half), abs=0.01)  # of rounded percentages


def test_a_rating_of_no_known_persona_is_no_less_than_a_rating():
    "It was left out of the interval, and counted beside it."
    best, persona = np.tile([1.0, 0.0, 1.0], 8), np.repeat(np.arange(8.0), 3)
    persona[3:6] = np.nan
    for labels, name in ((persona, "persona"), (np.arange(24), "conversations")):
        conversations = np.where(np.arange(24) == 7, np.nan, labels) if name == "conversations" else np.arange(24)
        factors = {"persona": persona if name == "persona" else np.repeat(np.arange(8), 3)}
        with pytest.raises(ValueError, match=f"harm_score_over: {name} must name one for each unit; got none for"):
            harm_score_over(best, 1 - best, conversations, factors)


@pytest.mark.parametrize(
    ("shares", "source"),
    [((0.15, 0.07), "a x b"), ((0.15, 0.12), "a x b x c"), ((0.08, 0.07), "a"), ((0.0, 0.15), "a x b x c")],
)
def test_the_finest_product_that_takes_part_by_a_tenth_is_not_told_apart(shares, source):
    "Columns of length 1 of which the last is the sum of the first and of shares of the others, backwards."
    a, b, c = np.eye(4)[:3]
    total = a + shares[0] * b + shares[1] * c
    table = np.stack([a, 3 * b, 2 * c, total / np.linalg.norm(total)], 1)
    assert _find_confounded_source(table, ["a", "a x b", "a x b x c", "rest"]) == source


@pytest.mark.parametrize("seed", [0, 5])
def test_intervals_rest_on_two_hundred_draws_from_the_estimated_components(seed):
    "Each drawn anew and estimated; the degrees of freedom of a mean are those of its variance over the draws."
    rng = np.random.default_rng(3)
    person, rater = (i.ravel() for i in np.indices((7, 5)))
    y = 0.3 * rng.normal(size=7)[person] + rng.normal(size=5)[rater] + rng.normal(size=35)
    factors = {"person": person, "rater": rater}
    s = variance_components(y, factors, seed=seed, level=0.8)
    components, generator = s.table["component"].to_numpy(), np.random.default_rng(seed)
    sd, draws = np.sqrt(np.maximum(components, 0)), []
    for _ in range(200):
        parts = [x * generator.standard_normal(n)[g] for x, n, g in zip(sd, (7, 5, 35), (person, rater, np.arange(35)))]
        draws.append(variance_components(sum(parts), factors, n_draws=0).table["component"])
    limits = _component_limits(components, np.array(draws), 0.8)
    np.testing.assert_allclose(s.table[["ci_low", "ci_high"]], limits)
    variance = lambda x: np.maximum(x, 0) @ [1 / 7, 1 / 5, 1 / 35]
    df = 2 * variance(components) ** 2 / np.var([variance(d) for d in draws], ddof=1)
    assert df > 1 and mean_over_factors(y, factors, seed=seed).df == pytest.approx(df)
    assert variance_components(y, factors).table.equals(variance_components(y, factors, seed=0, level=0.95).table)


def test_levels_that_may_be_had_are_all_to_twelve_and_then_twelve_in_equal_proportions():
    "A design of one factor; where twelve or fewer can be had, no other."
    s = SPREAD._replace(table=TABLE[:1])
    enough = lambda n: 2 * scipy.stats.norm.ppf(0.975) * np.sqrt(2 / n)
    levels = sorted({*range(1, 13), *(int(12 * (200 / 12) ** (k / 11) + 1e-9) for k in range(12))})
    for k in (0, 7, 9, 14, 18):
        found = spread_designs(s, enough(levels[k]), max_levels={"persona": 200})
        assert found["persona"].tolist() == levels[k : k + 5]
    assert spread_designs(s, enough(8), max_levels={"persona": 9})["persona"].tolist() == [8, 9]


@pytest.mark.parametrize(
    ("points", "met", "score"),
    [
        ([10, -10], [True, True], 0.0),
        ([1, 2, -1], [True, False, True], 0.0),
        ([4, 4, 0], [True, False, True], 0.5),
        ([0, -1], [True, False], np.nan),
        ([5, 5], [True, None], np.nan),
    ],
)
def test_points_are_those_of_met_criteria_by_the_positive_ones(points, met, score):
    "From -10 to 10; none beyond, and one verdict for each."
    assert points_score(points, met) == pytest.approx(score, nan_ok=True)
    for beyond in (10.5, -10.5):
        with pytest.raises(ValueError, match="points must lie between -10 and 10"):
            points_score([*points, beyond], [*met, True])
    with pytest.raises(ValueError, match="one verdict for each of"):
        points_score(points, met[:-1])


def test_a_mean_of_points_and_its_limits_are_cut_at_0_and_1():
    "Of cases, at the level that is asked for; a missing score is in no count."
    case = np.r_[0, np.repeat(np.arange(8), 3)]
    for shift, cut in ((0.1, 0), (0.5, None), (0.9, 1)):
        scores = np.r_[np.nan, shift + np.repeat(np.linspace(-1, 1, 8), 3)]
        e = points_mean(scores, clusters=case, level=0.9)
        plain = estimate(mean, scores[1:], clusters=case[1:], seed=0, level=0.9)
        assert e[:5] == pytest.approx((24, 8, plain.estimate, max(plain.ci_low, 0), min(plain.ci_high, 1)))
        assert [cut == 0, cut == 1] == [e.ci_low == 0, e.ci_high == 1] and e.level == 0.9
