"""Comparison: exact permutation distributions, level and power, and independent implementations."""

import itertools

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from statsmodels.stats.meta_analysis import combine_effects
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestPower

from mhbench.stats.estimate import half_width_se, inverse_variance_mean
from mhbench.stats.tests import (
    adjust_p,
    clustered_chi_square,
    compare_levels,
    detectable_difference,
    stratified_permutation_test,
)


def exact(x, z, g):
    "The two-sided p over every dealing of labels within strata."

    def t(z):
        d = [x[(g == k) & z].mean() - x[(g == k) & ~z].mean() for k in np.unique(g)]
        return np.mean(d)

    options = []
    for k in np.unique(g):
        m = np.flatnonzero(g == k)
        options.append([set(c) for c in itertools.combinations(m, int(z[m].sum()))])
    ts = np.array([t(np.isin(np.arange(len(x)), list(set().union(*c)))) for c in itertools.product(*options)])
    return t(z), np.mean(np.abs(ts) >= abs(t(z)) - 1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_against_the_exact_distribution(seed):
    rng = np.random.default_rng(seed)
    g = np.repeat([0, 1, 2, 3], [2, 3, 4, 3])
    z = np.concatenate([[True, False], [True, False, False], [True, True, False, False], [False, True, True]])
    x = rng.normal(0, 1, 12) + 0.8 * z
    d, p = exact(x, z, g)
    mixed = rng.permutation(12)
    got = stratified_permutation_test(x[mixed], z[mixed], g[mixed], n=40_000, seed=seed)
    assert got.difference == pytest.approx(d) and got.p == pytest.approx(p, abs=0.012) and got.n_strata == 4


def test_level_is_kept_where_strata_differ():
    """Questions of very different difficulty and unequal numbers of prompts, no effect of the label: p is uniform or
    above.
    """
    rng, p = np.random.default_rng(0), []
    g = np.repeat(np.arange(40), rng.integers(2, 6, 40))
    for k in range(300):
        z = rng.random(len(g)) < 0.5
        p.append(
            stratified_permutation_test(
                (rng.random(len(g)) < rng.beta(0.5, 0.5, 40)[g]).astype(float), z, g, n=199, seed=k
            ).p
        )
    assert np.mean(np.array(p) <= 0.05) < 0.09 and np.mean(np.array(p) <= 0.5) < 0.58


def test_left_out_is_counted():
    x, z, g = (
        np.array([1, np.nan, 0, 1, 1, 0]),
        np.array([True, False, True, False, True, True]),
        np.array([1, 1, 2, 2, 3, 3]),
    )
    got = stratified_permutation_test(x, z, g, n=99, seed=1)
    assert (got.n_strata, got.n_left_out) == (1, 4) and got.difference == -1


def test_same_seed_same_p_and_labels_need_not_be_numbers():
    rng = np.random.default_rng(0)
    x, q, l = rng.random(60), np.repeat([f"q{k}" for k in range(20)], 3), np.tile(["a", "b", "c"], 20)
    one, two = compare_levels(x, q, l, seed=3), compare_levels(x, q, l, seed=3)
    assert [(t.p, t.difference.ci_low) for t in one] == [(t.p, t.difference.ci_low) for t in two]
    assert [(t.first, t.second) for t in one] == [("a", "b"), ("a", "c"), ("b", "c")]


@pytest.mark.parametrize("method, theirs", [("holm", "holm"), ("bh", "fdr_bh"), ("bonferroni", "bonferroni")])
def test_all_pairs_are_corrected_as_statsmodels_does(method, theirs):
    rng = np.random.default_rng(1)
    l, q = np.tile(list("abcd"), 50), np.repeat(np.arange(50), 4)
    got = compare_levels((rng.random(200) < 0.5 + 0.3 * (l == "d")).astype(float), q, l, seed=1, permutations=999)
    p = [t.p for t in got]
    assert len(got) == 6 and adjust_p(p, method) == pytest.approx(multipletests(p, method=theirs)[1])
    assert all(t.difference.n == 50 and t.detectable > 0 for t in got)


@pytest.mark.parametrize(
    "scores, questions, levels", [([1, 0, 1], [1, 1, 2], ["f", "m"]), ([1, 0], [1, 1], ["f", "m", "f"])]
)
def test_levels_of_another_length_are_refused(scores, questions, levels):
    with pytest.raises(ValueError, match=r"compare_levels: .* one entry a prompt; got shapes"):
        compare_levels(scores, questions, levels, seed=1)


def test_several_prompts_of_a_level_count_as_one_mean():
    x, q, l = np.array([1, 0, 1, 1, 0, 0]), np.array([1, 1, 1, 2, 2, 2]), np.array(["f", "f", "m", "f", "m", "m"])
    t = compare_levels(x, q, l, seed=1, permutations=99)[0]
    assert np.isnan(t.p_mcnemar) and t.n_mcnemar == 0  # no question has one of each
    assert t.difference.estimate == pytest.approx(((0.5 - 1) + (1 - 0)) / 2), "first minus second"


@pytest.mark.parametrize("n, sd, power, alpha", [(183, 0.3, 0.8, 0.05), (1000, 1, 0.9, 0.01), (60, 0.5, 0.5, 0.1)])
def test_detectable_against_statsmodels(n, sd, power, alpha):
    want = TTestPower().solve_power(nobs=n, power=power, alpha=alpha) * sd
    same = {"se": sd / np.sqrt(n), "power": power}
    assert detectable_difference(n, alpha=alpha, **same) == pytest.approx(want, rel=0.01)
    shared = detectable_difference(n, alpha=alpha, comparisons=3, **same)
    assert shared == detectable_difference(n, alpha=alpha / 3, **same)


@pytest.mark.parametrize("seed", range(5))
def test_weighted_means_against_statsmodels(seed):
    rng = np.random.default_rng(seed)
    x, s = rng.random(7), rng.uniform(0.01, 0.2, 7)
    theirs, ours = combine_effects(x, s**2), inverse_variance_mean(x, s)
    assert (ours.estimate, ours.se, ours.q) == pytest.approx((theirs.mean_effect_fe, theirs.sd_eff_w_fe, theirs.q))
    assert ours.ci_high - ours.ci_low == pytest.approx(2 * scipy.stats.norm.ppf(0.975) * ours.se)
    assert half_width_se(ours.ci_low, ours.ci_high) == pytest.approx(ours.se)


def test_one_model_and_bad_input():
    assert inverse_variance_mean([0.7], [0.1])[:2] == pytest.approx((0.7, 0.1))
    for bad in ([0.0], [np.nan], [-1.0]):
        with pytest.raises(ValueError, match="se above zero|se must be 0 or more"):
            inverse_variance_mean([0.7], bad)
    with pytest.raises(ValueError, match="of one length"):
        inverse_variance_mean([0.7, 0.8], [0.1])


@pytest.mark.parametrize("seed", range(4))
def test_mcnemar_is_on_the_questions_with_one_prompt_of_each(seed):
    rng = np.random.default_rng(seed)
    q, l = np.repeat(np.arange(60), 2), np.tile(["f", "m"], 60)
    x = (rng.random(120) < 0.4 + 0.3 * (l == "m")).astype(float)
    only_f, only_m = ((x[l == a] == 1) & (x[l == b] == 0) for a, b in (("f", "m"), ("m", "f")))
    want = scipy.stats.binomtest(int(only_m.sum()), int(only_m.sum() + only_f.sum())).pvalue
    t = compare_levels(x, q, l, seed=1, permutations=20_000)[0]
    assert t.p_mcnemar == pytest.approx(want) and t.n_mcnemar == 60 and t.p == pytest.approx(want, abs=0.02)
    more = compare_levels(np.r_[x, 1, 1], np.r_[q, 60, 60], np.append(l, ["m", "f"]), seed=1, permutations=99)[0]
    doubled = compare_levels(
        np.r_[x, 0, 1, 1], np.r_[q, 60, 60, 60], np.append(l, ["m", "m", "f"]), seed=1, permutations=99
    )[0]
    assert (more.n_mcnemar, doubled.n_mcnemar, doubled.difference.n) == (
        61,
        60,
        61,
    ) and doubled.p_mcnemar == pytest.approx(want)


def test_levels_that_share_too_little_are_listed_and_not_tested():
    x, q, l = np.array([1.0, 0, 1, 0, 1]), np.array([1, 1, 2, 2, 3]), np.array(["a", "b", "a", "b", "c"])
    got = {(t.first, t.second): t for t in compare_levels(x, q, l, seed=1, permutations=99)}
    assert len(got) == 3 and not np.isnan(got["a", "b"].p)
    for k in (("a", "c"), ("b", "c")):
        assert np.isnan([got[k].p, got[k].detectable]).all() and got[k].difference.n == 0


def test_an_average_has_a_95_percent_interval_and_no_floor_unless_told():
    plain = inverse_variance_mean([0.2, 0.4], [0.1, 0.2])
    assert plain.se == pytest.approx(1 / np.sqrt(1 / 0.1**2 + 1 / 0.2**2))
    assert plain.ci_high - plain.estimate == pytest.approx(1.959964 * plain.se)
    assert inverse_variance_mean([0.2, 0.4], [0.1, 0.2], floor=0.2).estimate == pytest.approx(0.3)
    for se in ([0.0, 0.1], [-0.1, 0.1]):
        with pytest.raises(ValueError, match="inverse_variance_mean"):
            inverse_variance_mean([0.2, 0.4], se)


def test_labels_by_case_reject_as_often_as_they_say():
    rng, by_case, by_item, samples = np.random.default_rng(3), 0, 0, 120
    of, bank = np.repeat(np.arange(30), 5), np.repeat([0, 1], [60, 90])
    for k in range(samples):
        share = rng.dirichlet(np.ones(3), 30)[of]  # no bank differs from the other, cases do
        label = (rng.random((150, 1)) > share.cumsum(1)[:, :2]).sum(1)
        found, _ = clustered_chi_square(label, bank, of, n=199, seed=k)
        by_case += found.p <= 0.05
        by_item += scipy.stats.chi2_contingency(pd.crosstab(bank, label), correction=False)[1] <= 0.05
    most = scipy.stats.binom.ppf(0.999, samples, 0.05)
    assert by_case <= most < by_item


def test_dealing_labels_is_the_enumeration_of_all_dealings():
    label, bank, of = list("xxyxyyxz"), [0, 0, 0, 1, 1, 1, 1, 0], [0, 0, 1, 2, 2, 3, 4, 5]
    groups = np.array([0, 0, 1, 1, 1, 0])  # of the six cases
    statistic = lambda g: scipy.stats.chi2_contingency(pd.crosstab(g[of], np.array(label)), correction=False)[0]
    dealt = [statistic(np.isin(np.arange(6), members).astype(int)) for members in itertools.combinations(range(6), 3)]
    found, smallest = clustered_chi_square(label, bank, of, n=20_000, seed=1)
    assert found.statistic == pytest.approx(statistic(groups)) and smallest < 5
    assert found.p == pytest.approx(np.mean(np.array(dealt) >= statistic(groups) - 1e-9), abs=0.02)


@pytest.mark.parametrize("seed", range(3))
def test_whole_points_have_the_exact_probability(seed):
    "Strata in which one label is rarer than the other, so that a dealing moves their differences by unlike amounts."
    rng = np.random.default_rng(seed)
    g = np.repeat([0, 1, 2, 3], [2, 3, 4, 4])
    z = np.array([0, 1, 0, 0, 1, 0, 0, 0, 1, 0, 1, 1, 1], bool)
    x = rng.integers(0, 4, len(g)).astype(float) + z
    difference, p = exact(x, z, g)
    got = stratified_permutation_test(x, z, g, seed=1)
    assert (got.difference, got.p) == pytest.approx((difference, p))
