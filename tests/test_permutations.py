"Draws and exact probabilities of the tests, at the places where another way of computing them begins."

import warnings
from itertools import product

import numpy as np
import pytest
from scipy import stats

from mhbench.stats import tests as t

HALF = np.array([0.5, 0.5])
SIGN = np.array([-1.0, 1.0])


def test_draws_are_twenty_a_test_at_its_share_of_the_error_rate():
    with warnings.catch_warnings(action="error"):
        draws = [t.draws_for(k) for k in (1, 25, 26, 2_500, 2_501, 50_000)]
    assert draws == [10_000, 10_000, 10_400, 1_000_000, 1_000_000, 1_000_000]
    assert t.draws_for(50_000, 3_000_000) == 3_000_000 and t.draws_for(100, 5) == 40_000
    words = "50002 tests share the error rate: with 1000000 draws the smallest p possible is 1e-06, 0.05 after Holm"
    with pytest.warns(UserWarning, match=words):
        t.draws_for(50_002)
    with pytest.warns(UserWarning, match="is 1e-06, 1 after Holm; none is decided"):
        t.draws_for(2_000_000)


@pytest.mark.parametrize(
    ("n_large", "tests", "p", "chunks"),
    [
        (19, 1, 20 / 10_001, [4_000, 4_000, 2_000]),  # one test is decided at once
        (19, 26, 39 / 10_401, [4_000, 4_000, 2_000, 400]),
        (20, 26, 21 / 10_001, [4_000, 4_000, 2_000]),  # twenty are enough
        (19, 25, 20 / 10_001, [4_000, 4_000, 2_000]),
    ],
)
def test_few_large_draws_of_a_test_among_others_are_followed_by_more(n_large, tests, p, chunks):
    "Of the first draws so many are as large, and as many of those that follow."
    made = []

    def count(n):
        made.append(n)
        return n_large if sum(made) in (4_000, 10_400) else 0

    assert t._p_of_draws(count, 10_000, tests, 4_000) == pytest.approx(p, rel=1e-12) and made == chunks


def all_sums(terms) -> list[tuple[float, float]]:
    "The sum and the probability of every combination of the terms' values."
    each = [list(zip(values, p)) for values, p, m in terms for _ in range(m)]
    return [(sum(v for v, _ in drawn), np.prod([p for _, p in drawn])) for drawn in product(*each)]


@pytest.mark.parametrize(
    "terms",
    [
        [(SIGN, HALF, 5)],
        [(SIGN, HALF, 3), (2.5 * SIGN, HALF, 2)],
        [(np.array([0.0, 3.0]), np.array([0.75, 0.25]), 4), (SIGN, HALF, 2)],
        [(np.array([3.0, 0.0]), np.array([0.25, 0.75]), 4)],  # the larger value first
        [(np.array([-1.0, 0.0, 2.0]), np.array([0.5, 0.2, 0.3]), 3), (np.array([0.5]), np.ones(1), 2)],
        [(np.array([-1.0, 1 / 3, 1.0]), np.full(3, 1 / 3), 5), (SIGN / 4, HALF, 1)],
        [(np.array([0.0, 1.0]), np.array([0.99, 0.01]), 3)],
        [(np.array([0.0, 1.0]), np.array([0.01, 0.99]), 3)],
    ],
)
def test_a_sum_s_probability_is_that_of_every_combination(terms):
    sums = all_sums(terms)
    for observed in {round(total, 9) for total, _ in sums} - {0.0}:
        expected = sum(p for total, p in sums if abs(total) >= abs(observed) - 1e-6)
        assert t.exact_p(terms, observed) == pytest.approx(expected, abs=1e-12)
    assert t.exact_p(terms, 1e6) == np.finfo(float).tiny  # not 0
    assert t.exact_p(terms, 0.0) == 1.0


def test_terms_that_do_not_vary_have_one_sum():
    assert t.exact_p([(np.array([2.0, 2.0]), HALF, 3)], 6.0) == 1.0 and t.exact_p([], 1.0) == 1.0


@pytest.mark.parametrize(
    ("terms", "is_exact"),
    [
        ([(np.array([0.0, 1.0, 1 + 1 / 120]), np.full(3, 1 / 3), 2)], True),  # parts down to a 120th
        ([(np.array([0.0, 1.0, 1 + 1 / 121]), np.full(3, 1 / 3), 2)], False),
        ([(SIGN, HALF, 19_998), (2 * SIGN, HALF, 1)], True),  # 20,000 steps of two kinds
        ([(SIGN, HALF, 19_999), (2 * SIGN, HALF, 1)], False),
        ([(np.array([0.0, 1.0, 2.0]), np.full(3, 1 / 3), 10_000)], True),  # or of three values
        ([(np.array([0.0, 1.0, 2.0]), np.full(3, 1 / 3), 10_001)], False),
        ([(SIGN, HALF, 1_000_000)], True),  # and a million of one binomial
        ([(SIGN, HALF, 1_000_001)], False),
    ],
)
def test_a_sum_of_too_many_values_has_no_exact_probability(terms, is_exact):
    assert np.isnan(t.exact_p(terms, 1.0)) != is_exact


def test_a_binomial_far_out_is_the_library_s():
    for n, k in ((1_000, 600), (5_001, 2_700), (40, 40)):
        expected = stats.binomtest(k, n).pvalue
        assert t.exact_p([(SIGN, HALF, n)], 2 * k - n) == pytest.approx(expected, rel=1e-9)


def strata(n: int, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x = np.arange(float(n * size)) ** 2
    return x, np.arange(n * size) % size == 0, np.repeat(np.arange(n), size)


@pytest.mark.parametrize(("n", "size", "fits"), [(3, 8, True), (3, 9, False), (1_000, 2, True), (1_001, 2, False)])
def test_strata_are_dealt_in_every_way_up_to_eight_scores_and_a_thousand_kinds(n, size, fits):
    terms = t._permutation_terms(*strata(n, size), False)
    assert (terms is not None) == fits
    if fits:
        assert sum(m for _, _, m in terms) == n and {len(v) for v, _, _ in terms} == {size}
        assert all(p.sum() == pytest.approx(1) for _, p, _ in terms)


def test_a_permutation_test_of_two_strata_by_hand():
    """Stratum 1: 0, 0, 3, the 3 with the second label; stratum 2: 1, 4, the 4 with it. The differences are 3 and 3; of
    the 3 x 2 dealings one gives (3 + 3) / 2, and none is as large on the other side: (-1.5 - 3) / 2."""
    x, second, g = [0, 0, 3, 1, 4, np.nan, 7], np.array([0, 0, 1, 0, 1, 1, 1], bool), [1, 1, 1, 2, 2, 2, 3]
    got = t.stratified_permutation_test(x, second, g, seed=1)
    assert got == (3.0, pytest.approx(1 / 6), 2, 2)
    swapped = t.stratified_permutation_test(x[:5], ~second[:5], g[:5], seed=2)
    assert swapped == (-3.0, pytest.approx(1 / 6), 2, 0)


@pytest.mark.parametrize("n_flips", [32, 31])
def test_signs_are_flipped_in_every_way_where_these_are_no_more_than_the_draws(n_flips):
    "Sizes without a common unit have no exact sum: beyond the draws, p is (as large + 1) / (draws + 1)."
    d = np.sqrt([2.0, 3.0, 5.0, 7.0, 11.0])
    p = t.sign_flip_test(d, n=n_flips, seed=1)
    n = 32 if n_flips == 32 else 401  # of few draws few are as large: 400 are made
    assert p * n == pytest.approx(2 if n == 32 else round(p * n)) and p < 0.15
    assert t.sign_flip_test([1e-13, 0.0], seed=1) == 1.0 and t.sign_flip_test([1.0], n=1, seed=1) == 1.0


def test_a_paired_difference_that_is_constant_has_no_t():
    assert np.isnan(t.paired_t([1, 2, 3], [0, 1, 2]).p) and t.paired_t([1, 2, 3], [0, 1, 2]).df == 2
    got, expected = t.paired_t([3.0, 1.0], [1.0, 0.0]), stats.ttest_rel([3.0, 1.0], [1.0, 0.0])
    assert (got.statistic, got.p, got.n) == (pytest.approx(expected.statistic), pytest.approx(expected.pvalue), 2)


@pytest.mark.parametrize("table", [[[1, 2]], [[1], [2]], [1, 2], [[1, -1], [2, 3]], [[0, 0], [1, 2]], [[0, 1], [0, 2]]])
def test_a_table_without_two_filled_rows_and_columns_is_refused(table):
    with pytest.raises(ValueError, match="chi_square: table must have two or more rows and columns"):
        t.chi_square(table)


def test_p_values_in_order_are_corrected_as_scipy_and_statsmodels_do():
    from statsmodels.stats.multitest import multipletests

    rng = np.random.default_rng(3)
    for _ in range(20):
        p = np.round(rng.random(6), 2) ** 2
        for method, theirs in (("holm", "holm"), ("bh", "fdr_bh"), ("bonferroni", "bonferroni")):
            np.testing.assert_allclose(t.adjust_p([*p, np.nan], method), [*multipletests(p, method=theirs)[1], np.nan])
    assert t.adjust_p([0.0, 1.0]).tolist() == [0.0, 1.0] and t.adjust_p([]).tolist() == []
    for bad in (-0.01, 1.01):
        with pytest.raises(ValueError, match=r"adjust_p: p must be in \[0, 1\]"):
            t.adjust_p([0.5, bad])
    with pytest.raises(ValueError, match="method must be holm, bh or bonferroni; got 'x'"):
        t.adjust_p([0.5], "x")


def test_a_difference_needs_an_error_rate_that_its_pairs_can_reach():
    assert t.detectable_difference(6, se=0.1) == pytest.approx((stats.t.ppf(0.975, 5) + stats.t.ppf(0.8, 5)) * 0.1)
    assert t.detectable_difference(2, se=1, alpha=0.5) == pytest.approx(stats.t.ppf(0.75, 1) + stats.t.ppf(0.8, 1))
    limit = t.detectable_difference(9, se=0.2, comparisons=3)
    assert limit == pytest.approx((stats.t.ppf(1 - 0.05 / 6, 8) + stats.t.ppf(0.8, 8)) * 0.2)
    assert t.detectable_difference(9, se=0.2, comparisons=3, largest=limit) == limit
    for args in (
        {"n": 1, "se": 1, "alpha": 1.0},
        {"n": 5, "se": 1},
        {"n": 9, "se": 0},
        {"n": 9, "se": 1, "largest": 1},
    ):
        assert np.isnan(t.detectable_difference(**args))


def test_labels_by_group_are_exact_where_five_are_expected_everywhere():
    "Ten labels in a group, half of either kind: 5 are expected in each cell; of 9 in the other group 4.5."
    labels, groups = ["x", "y"] * 10, ["a"] * 10 + ["b"] * 10
    for seed in (1, 2):
        test, smallest = t.clustered_chi_square(labels, groups, seed=seed)
        assert (smallest, test) == (5.0, t.chi_square([[5, 5], [5, 5]]))
    few, smallest = t.clustered_chi_square([*labels[:-2], "y"], groups[:-1], n=99, seed=1)
    assert smallest == pytest.approx(9 * 9 / 19) and few.p * 100 == pytest.approx(round(few.p * 100))
    whole, _ = t.clustered_chi_square(labels, groups, list("qrstuvwxyz") * 2, n=99, seed=1)
    assert whole.p * 100 == pytest.approx(round(whole.p * 100))  # clusters: permuted whatever is expected
