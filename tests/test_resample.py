"""Resampling: draws, intervals against SciPy, equality of the two forms of a statistic, faults."""

import re
from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from mhbench.stats import components, differences, judge_error, multi_reader, repeatability
from mhbench.stats.abstention import abstention_by_difficulty, risk_coverage
from mhbench.stats.anytime import observed
from mhbench.stats.calibration import calibration_error
from mhbench.stats.components import points_mean
from mhbench.stats.estimate import estimate
from mhbench.stats.jackknife import jackknife
from mhbench.stats.judge_error import bland_altman
from mhbench.stats.prediction_powered import prediction_powered
from mhbench.stats.repeatability import repeated_sd
from mhbench.stats.resample import (
    Interval,
    aligned_numbers,
    bootstrap,
    cluster_mean,
    divide,
    draw_weights,
    group_codes,
    kinds,
    mean,
    percentile_interval,
    sums_by,
    without_each,
)
from mhbench.stats.tests import compare_levels
from mhbench.studies.counselingbench.competency import over_units


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.integers(1, 60), st.integers(0, 2**32), st.integers(1, 500))
def test_a_chunk_changes_nothing(n_units, n, seed, chunk):
    whole = np.vstack(list(draw_weights(n_units, n, seed=seed)))
    assert (np.vstack(list(draw_weights(n_units, n, seed=seed, chunk=chunk))) == whole).all()
    assert whole.shape == (n, n_units) and (whole.sum(1) == n_units).all() and (whole >= 0).all()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=40), st.integers(0, 2**32))
def test_clusters_go_whole(labels, seed):
    labels = np.array(labels)
    w = np.vstack(list(draw_weights(len(labels), 30, seed=seed, clusters=labels)))
    for c in np.unique(labels):
        assert (w[:, labels == c] == w[:, labels == c][:, :1]).all()
    assert (w[:, np.unique(labels, return_index=True)[1]].sum(1) == len(np.unique(labels))).all()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=40), st.integers(0, 2**32))
def test_strata_keep_their_size(labels, seed):
    labels = np.array(labels)
    w = np.vstack(list(draw_weights(len(labels), 30, seed=seed, strata=labels)))
    for s in np.unique(labels):
        assert (w[:, labels == s].sum(1) == (labels == s).sum()).all()


def test_draws_are_uniform():
    w = np.vstack(list(draw_weights(50, 20_000, seed=1)))
    assert abs(w.mean() - 1) < 1e-12
    assert np.abs(w.mean(0) - 1).max() < 5 * np.sqrt(0.98 / 20_000)  # five standard errors
    assert abs(w.var() - (1 - 1 / 50)) < 0.02  # binomial(N, 1/N)


def test_seeds_matter_and_repeat():
    a, b, c = (bootstrap(mean, np.arange(9.0), seed=s).replicates for s in (1, 1, 2))
    assert (a == b).all() and (a != c).any()
    assert (bootstrap(mean, np.arange(9.0), seed=np.random.SeedSequence(1)).replicates == a).all()


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=30), st.integers(0, 1000), st.booleans())
def test_both_forms_of_a_statistic_agree(x, seed, clustered):
    x = np.array(x)
    kw = dict(n=50, seed=seed, clusters=np.arange(len(x)) // 2 if clustered else None)
    a, b = bootstrap(mean, x, **kw), bootstrap(lambda x: x.mean(), x, **kw)
    np.testing.assert_allclose(a.replicates, b.replicates, rtol=1e-9, atol=1e-9)
    assert a.n == b.n == ((len(x) + 1) // 2 if clustered else len(x))


@pytest.mark.parametrize("level", [0.8, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("seed", range(4))
def test_intervals_equal_scipys(level, seed):
    x = np.random.default_rng(seed).lognormal(size=25)
    ours = bootstrap(lambda x: np.std(x, ddof=1), x, n=800, seed=seed, level=level)
    theirs = scipy.stats.bootstrap(
        (x,),
        lambda x, axis=-1: np.std(x, axis=axis, ddof=1),
        n_resamples=0,
        method="percentile",
        confidence_level=level,
        bootstrap_result=SimpleNamespace(bootstrap_distribution=ours.replicates),
    ).confidence_interval
    np.testing.assert_allclose([ours.ci_low, ours.ci_high], theirs, rtol=1e-12)


def test_vector_statistics():
    x = np.random.default_rng(0).random((30, 3))
    i = bootstrap(mean, x, n=200, seed=1)
    for k in range(3):
        one = bootstrap(mean, x[:, k], n=200, seed=1)
        np.testing.assert_allclose(
            [i.estimate[k], i.ci_low[k], i.ci_high[k]], [one.estimate, one.ci_low, one.ci_high], rtol=1e-12
        )


def test_undefined_replicates_are_left_out_and_counted():
    def last(x, *, weights):
        return np.where(weights[:, -1] > 0, weights @ x, np.nan)

    i = bootstrap(last, np.ones(4), n=500, seed=2)
    assert i.undefined == np.isnan(i.replicates).sum() > 0 and (i.ci_low, i.ci_high) == (4, 4)
    never = bootstrap(lambda x, *, weights: np.full(len(weights), np.nan), np.ones(4), n=20, seed=2)
    assert never.undefined == 20 and np.isnan(never.ci_low)


def test_constant_data_has_an_interval_of_no_width():
    i = bootstrap(mean, np.full(10, 0.25), n=100, seed=1)
    assert (i.estimate, i.ci_low, i.ci_high) == (0.25, 0.25, 0.25)


def test_a_partial_and_a_matrix_with_units_last():
    x = np.random.default_rng(1).random((3, 20))

    def spread(x, *, scale=1.0, weights):
        return scale * (weights @ x.T).std(1)

    assert bootstrap(partial(spread, scale=2.0), x, axis=-1, n=10, seed=1).replicates.shape == (10,)


def test_how_an_interval_is_shown():
    assert "n=5" in repr(bootstrap(mean, np.arange(5.0), seed=1)) and "shape=(2,)" in repr(
        bootstrap(mean, np.ones((5, 2)), seed=1)
    )
    assert isinstance(bootstrap(mean, np.arange(5.0), seed=1), Interval)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: bootstrap(mean, np.empty(0), seed=1), "at least 1"),
        (lambda: bootstrap(mean, np.float64(1), seed=1), "at least 1"),
        (lambda: bootstrap(mean, np.ones(3), seed=1, n=0), "n_units and n must be at least 1"),
        (lambda: bootstrap(mean, np.ones(3), seed=1, strata=[1]), "strata must be one label a unit"),
        (lambda: bootstrap(np.average, np.ones(3), seed=1), "."),
        (lambda: percentile_interval(np.ones(3), 1.5), "level must be between 0 and 1"),
    ],
)
def test_faults_are_named(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()


def test_units_are_counted_whether_drawn_alone_or_in_clusters():
    x = np.arange(12.0)
    assert bootstrap(mean, x, n=20, seed=1).n_units == 12
    of_cases = bootstrap(mean, x, n=20, seed=1, clusters=np.repeat(range(4), 3))
    assert (of_cases.n, of_cases.n_units) == (4, 12)


def test_units_that_are_alike_are_drawn_as_kinds_with_the_same_distribution(monkeypatch):
    x = np.repeat([0.0, 1.0, 3.0], [40, 50, 10])
    one_by_one = bootstrap(mean, x, n=20_000, seed=3)
    monkeypatch.setattr("mhbench.stats.resample.MOST_DRAWS", 1)
    as_kinds = bootstrap(mean, x, n=20_000, seed=3)
    assert as_kinds.estimate == one_by_one.estimate == x.mean()
    np.testing.assert_allclose(as_kinds.replicates.std(), x.std() / 10, rtol=0.02)
    np.testing.assert_allclose([as_kinds.ci_low, as_kinds.ci_high], [one_by_one.ci_low, one_by_one.ci_high], atol=0.02)


@pytest.mark.parametrize("missing", [None, np.nan])
def test_a_unit_without_a_case_is_refused_and_not_one_case_with_the_others(missing):
    cases = np.array(["a", missing, "b", missing], dtype=object)
    with pytest.raises(ValueError, match=r"clusters must name one for each unit; got none for 2 of 4, first unit 1"):
        bootstrap(mean, np.arange(4.0), clusters=cases, n=10, seed=1)


X = np.array([1.0, 0.0, 1.0, 1.0])


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (bland_altman, (X, X)),
        (calibration_error, (X, X)),
        (repeated_sd, (np.stack([X, X], 1),)),
        (differences.difference_limits, (X,)),
        (differences.difference_p, (X,)),
        (differences.mean_difference, (X,)),
        (points_mean, (X,)),
        (risk_coverage, (X, X)),
        (abstention_by_difficulty, (np.array(["a", "b", "a", "b"]), X)),
        (over_units, (pd.DataFrame({"all": X}),)),
    ],
)
def test_a_message_about_clusters_names_the_function_that_was_called(function, arguments):
    settings = {"seed": 1} if function in (risk_coverage, abstention_by_difficulty) else {}
    for clusters in (["a"], list("abcde")):
        with pytest.raises(ValueError, match=rf"^{function.__name__}: clusters must be one label a unit, shape \(4,\)"):
            function(*arguments, clusters=clusters, **settings)


def test_simultaneous_intervals_name_themselves():
    with pytest.raises(ValueError, match="^simultaneous_intervals: clusters must be one label a unit"):
        differences.simultaneous_intervals(np.stack([X, X], 1), clusters=["a"], seed=1)


FOUR, TWO_ROWS = np.arange(4.0), np.ones((2, 4))
HALF, INFINITE = np.array([True, False, True, False]), np.array([0.0, np.inf, 1.0, 2.0])
GAP = np.array([0.0, np.nan, 1.0, 0.0])


@pytest.mark.parametrize(
    ("function", "arguments", "says"),
    [
        ("bias_slope", (FOUR, np.ones((2, 3))), "people must have one row a rater and one column an answer (4); got"),
        ("bias_slope", (FOUR, FOUR), "people must have one row a rater and one column an answer (4); got"),
        ("bias_slope", (TWO_ROWS, TWO_ROWS), "judge must have one score an answer; got shape (2, 4)"),
        ("bias_slope", (INFINITE, TWO_ROWS), "judge must be finite, or NaN where missing; got inf (answer 1)"),
        (
            "bias_slope",
            (FOUR, -INFINITE * TWO_ROWS),
            "people must be finite, or NaN where missing; got -inf (answer 1)",
        ),
        ("bland_altman", (INFINITE, FOUR), "judge must be finite, or NaN where missing; got inf (answer 1)"),
        ("split_half_calibration", (FOUR, INFINITE), "people must be finite, or NaN where missing; got inf (answer 1)"),
        ("leave_one_rater_out", (TWO_ROWS, INFINITE, "ab"), "judge must be finite, or NaN where missing; got inf"),
        ("heaping", (INFINITE,), "scores must be finite, or NaN where missing; got inf (answer 1)"),
        ("heaping", (TWO_ROWS,), "scores must have one score an answer each, same shape; got shapes (2, 4)"),
        ("pass_rates", (HALF, HALF[:3], HALF, FOUR), "passed and good and is_own must have one verdict an answer each"),
        ("pass_rates", (GAP, HALF, HALF, FOUR), "passed must be 1 or 0; got nan (answer 1); leave out answers without"),
        ("pass_rates", (HALF, GAP, HALF, FOUR), "good must be 1 or 0; got nan (answer 1); leave out answers without"),
        ("pass_rates", (HALF, HALF, 2 * HALF, FOUR), "is_own must be 1 or 0; got 2 (answer 0); leave out answers"),
        ("pass_rates", (HALF, HALF, HALF, FOUR[:3]), "clusters must be one label a unit, shape (4,); got shape (3,)"),
        ("within_slope", (FOUR, FOUR[:3], FOUR), "scores and x must have one number an answer each, same shape"),
        ("within_slope", (FOUR, INFINITE, FOUR), "x must be finite, or NaN where missing; got inf (answer 1)"),
        ("within_slope", (FOUR, FOUR, FOUR[:3]), "items must be one label a unit, shape (4,); got shape (3,)"),
        ("length_effect", (FOUR, FOUR[:3], FOUR), "scores and words must have one number an answer each, same shape"),
        ("length_effect", (FOUR, INFINITE, FOUR), "words must be finite, or NaN where missing; got inf (answer 1)"),
        ("length_effect", (FOUR, FOUR, FOUR[:3]), "items must be one label a unit, shape (4,); got shape (3,)"),
        ("group_difference", (FOUR, HALF[:3]), "x and second must have one entry a unit each, same shape; got shapes"),
        ("group_difference", (GAP, HALF), "x must be finite; got nan (unit 1); leave out units without one"),
        ("group_difference", (FOUR, GAP), "second must be 1 or 0; got nan (unit 1); leave out units without one"),
        ("severities", (FOUR, FOUR[:3], FOUR), "items must be one label a rating, 4 without a gap; got shape (3,)"),
        ("severities", (FOUR, FOUR, None), "raters must be one label a rating, 4 without a gap; got shape ()"),
        ("severities", (FOUR, GAP, FOUR), "items must be one label a rating, 4 without a gap; got none for rating 1"),
        ("severities", (TWO_ROWS, FOUR, FOUR), "values must have one number a rating each, same shape; got shapes"),
        ("severities", (INFINITE, FOUR, FOUR), "values must be finite, or NaN where missing; got inf (rating 1)"),
        ("mean_over_raters", (FOUR, FOUR[:3], FOUR), "items must be one label a rating, 4 without a gap; got shape"),
        ("mean_over_raters", (INFINITE, FOUR, FOUR), "values must be finite, or NaN where missing; got inf (rating 1)"),
        ("rater_components", (INFINITE, FOUR, FOUR), "values must be finite, or NaN where missing; got inf (rating 1)"),
    ],
)
def test_arrays_that_do_not_fit_are_named_with_function_value_and_remedy(function, arguments, says):
    modules = (judge_error, differences, multi_reader)
    of_module = next(m for m in modules if function in m.__all__)
    settings = (
        {"seed": 1}
        if function in ("bland_altman", "split_half_calibration", "leave_one_rater_out", "pass_rates")
        else {}
    )
    with pytest.raises(ValueError, match="^" + re.escape(f"{function}: {says}")):
        getattr(of_module, function)(*arguments, **settings)


@pytest.mark.parametrize(
    "function",
    [
        lambda **k: judge_error.bias_slope(FOUR, TWO_ROWS, **k),
        lambda **k: judge_error.split_half_calibration(FOUR, FOUR, seed=1, **k),
        lambda **k: judge_error.leave_one_rater_out(TWO_ROWS, FOUR, "ab", seed=1, **k),
        lambda **k: judge_error.heaping(FOUR, seed=1, **k),
    ],
    ids=["bias_slope", "split_half_calibration", "leave_one_rater_out", "heaping"],
)
@pytest.mark.parametrize("clusters", [["a"], np.arange(5)])  # too few and too many: of the latter all can be indexed
def test_clusters_are_checked_before_they_are_indexed(function, clusters, request):
    name = request.node.callspec.id.split("-")[-1]
    with pytest.raises(ValueError, match=rf"^{name}: clusters must be one label a unit, shape \(4,\)"):
        function(clusters=clusters)


CASE, RATER = np.repeat(np.arange(15), 4), np.tile(np.arange(4), 15)


@pytest.mark.parametrize(
    "call",
    [
        lambda x, table: estimate(mean, x, seed=1, share=True),
        lambda x, table: estimate(mean, x, seed=1, method="percentile", n_boot=50),
        lambda x, table: bootstrap(mean, x, seed=1, n=50)[:3],
        lambda x, table: bootstrap(np.nanmean, x, seed=1, n=50)[:3],
        lambda x, table: jackknife(mean, x, clusters=CASE).se,
        lambda x, table: cluster_mean(x, CASE),
        lambda x, table: mean(x),
        lambda x, table: differences.mean_difference(x, CASE),
        lambda x, table: differences.simultaneous_intervals(table, CASE, seed=1),
        lambda x, table: judge_error.bias_slope(x, table.T),
        lambda x, table: judge_error.leave_one_rater_out(table.T, x, "abc", seed=1),
        lambda x, table: judge_error.within_slope(x, RATER, CASE),
        lambda x, table: repeatability.repeated_sd(table),
        lambda x, table: repeatability.flip_rate(table),
        lambda x, table: repeatability.intraclass_correlation(table, seed=1),
        lambda x, table: repeatability.two_way_intraclass_correlation(table),
        lambda x, table: components.mean_over_factors(x, {"case": CASE, "rater": RATER}),
        lambda x, table: points_mean(x, clusters=CASE),
        lambda x, table: multi_reader.mean_over_raters(x, CASE, RATER).both,
        lambda x, table: multi_reader.over_raters(lambda y, weights: weights @ np.nanmean(y, 0), table.T).items,
        lambda x, table: prediction_powered(x, np.ones(60)),
        lambda x, table: observed(x, CASE).mean.tolist(),
        lambda x, table: compare_levels(x, CASE, RATER, seed=1),
    ],
)
def test_a_nullable_type_is_as_numbers_with_nan(call):
    rng = np.random.default_rng(1)
    numbers = np.where(rng.random((60, 4)) < 0.1, np.nan, rng.random((60, 4)) < 0.6)
    nullable = pd.DataFrame(numbers).astype("boolean")
    assert nullable.isna().any().all() and np.asarray(nullable).dtype == object
    expected, found = (repr(call(x[0], x[[1, 2, 3]])) for x in (pd.DataFrame(numbers), nullable))
    assert found == expected
    assert repr(call(np.asarray(nullable[0]), np.asarray(nullable[[1, 2, 3]]))) == expected


def test_codes_of_the_units_that_are_used_count_their_clusters_alone():
    labels, used = np.array(["c", "a", "b", "a", "d"]), np.array([False, True, True, True, False])
    assert group_codes("f", labels, 5, used=used).tolist() == [0, 1, 0]  # in order of first appearance among them
    assert group_codes("f", None, 5, used=used).tolist() == [0, 1, 2]
    assert group_codes("f", labels, 5, used=~used).tolist() == [0, 1]
    with pytest.raises(ValueError, match="f: clusters must name one for each unit; got none for 1 of 5, first unit 0"):
        group_codes("f", np.array([None, "a", "b", "a", "d"], dtype=object), 5, used=used)


def test_nan_in_a_list_is_no_label():
    for labels in (["a", np.nan, "b", np.nan], ("a", None, "b", pd.NA), [1, 2, 3, np.nan]):
        with pytest.raises(ValueError, match="f: clusters must name one for each unit; got none for"):
            group_codes("f", labels, 4)
    assert group_codes("f", ["b", "a", "b", "c"], 4).tolist() == [0, 1, 0, 2]


def test_empty_arrays_have_a_nan_with_no_unit():
    none = np.zeros(0)
    estimates = [
        judge_error.bias_slope(none, np.zeros((2, 0)), clusters=none),
        judge_error.within_slope(none, none, none),
        judge_error.length_effect(none, none, none),
        differences.group_difference(none, none, none),
        *judge_error.pass_rates(none, none, none, none, seed=1).values(),
    ]
    assert all(np.isnan(e.estimate) and e.n == 0 for e in estimates)
    assert not len(multi_reader.severities(none, none, none))


def test_units_of_few_kinds_are_coded_up_to_one_kind_in_twenty_units():
    x = np.arange(60) % 3
    assert kinds((x,)).tolist() == x.tolist() and kinds((x[:59],)) is None  # 3 of 60, 3 of 59
    both = np.stack([np.repeat([5, 2], 30), np.full(60, np.nan)], 1)
    assert kinds((both,)).tolist() == [0] * 30 + [1] * 30
    assert kinds((both.T, both.T), -1).tolist() == [0] * 30 + [1] * 30
    crossed = kinds((np.repeat([1, 0], 80), np.tile([0, 1, 1, 0], 40)))
    assert crossed.tolist() == [0, 1, 1, 0] * 20 + [2, 3, 3, 2] * 20


@pytest.mark.parametrize(("n", "by_kind"), [(20, False), (21, True)])
def test_units_are_drawn_by_kind_where_the_draws_are_too_many(n, by_kind, monkeypatch):
    "A statistic sees the weights of kinds, three columns, or those of units."
    monkeypatch.setattr("mhbench.stats.resample.MOST_DRAWS", 20 * 100)
    widths = set()

    def total(x, *, weights):
        widths.add(weights.shape[1])
        return weights @ x

    bootstrap(total, np.arange(100.0) % 3, n=n, seed=1)
    assert widths == ({100, 3} if by_kind else {100})
    for more in ({"strata": np.arange(100) % 2}, {"clusters": np.arange(100) // 2}):
        widths.clear()
        bootstrap(total, np.arange(100.0) % 3, n=21, seed=1, **more)
        assert widths == {100}
    plain = lambda x: x.sum()
    assert bootstrap(plain, np.arange(100.0) % 3, n=21, seed=1).replicates.shape == (21,)


def test_each_unit_is_left_out_once_or_each_group_of_them():
    unit = np.array([0, 0, 1, 2, 2, 2])
    one = np.concatenate(list(without_each(unit, 3)))
    assert one.tolist() == [[0, 0, 1, 1, 1, 1], [1, 1, 0, 1, 1, 1], [1, 1, 1, 0, 0, 0]]
    groups = np.concatenate(list(without_each(np.arange(10), 3)))
    assert groups.shape == (3, 10) and sorted((1 - groups).sum(1)) == [3, 3, 4]
    assert ((1 - groups).sum(0) == 1).all()


def test_sums_by_code_have_a_row_for_each_group_that_is_asked_for():
    columns = np.array([[1.0, 10], [2, 20], [4, 40]])
    assert sums_by(np.array([0, 2, 0]), columns).tolist() == [[5, 50], [0, 0], [2, 20]]
    assert sums_by(np.array([0, 1, 0]), columns, 3).tolist() == [[5, 50], [2, 20], [0, 0]]
    assert sums_by(np.zeros(0, int), np.zeros((0, 2))).shape == (0, 2)


def test_what_is_divided_by_nothing_is_no_number():
    got = divide(np.array([1.0, 0.0, -1.0, 1.0]), np.array([2.0, 0.0, -1e-9, 1e-13]))
    assert got[0] == 0.5 and np.isnan(got[[1, 3]]).all() and got[2] == pytest.approx(1e9)


def test_means_leave_out_what_is_missing():
    x, w = np.array([[1.0, np.nan], [3.0, 5.0], [8.0, np.nan]]), np.array([[1.0, 1, 0], [2, 0, 1]])
    assert mean(x).tolist() == [4.0, 5.0] and mean(x[:, 0]) == 4.0 and isinstance(mean(x[:, 0]), float)
    np.testing.assert_array_equal(mean(x, weights=w), [[2.0, 5.0], [10 / 3, np.nan]])
    for bad in (np.ones(3), np.ones((2, 4))):
        with pytest.raises(ValueError, match=r"mean: weights must have shape \(n_replicates, n_items\), n_items 3"):
            mean(x, weights=bad)


def bell_mccaffrey(sizes: np.ndarray, rho: float) -> float:
    "Satterthwaite's degrees of freedom, from the matrices of the working model: trace(GV)^2 / trace(GVGV)."
    of = np.repeat(np.arange(len(sizes)), sizes)
    n = len(of)
    working = np.where(of[:, None] == of, rho, 0.0) + (1 - rho) * np.eye(n)
    residuals = np.eye(n) - 1 / n
    covariance = residuals @ working @ residuals
    quadratic = np.zeros((n, n))
    for c in range(len(sizes)):
        inside = (of == c).astype(float)
        expected = inside @ covariance @ inside
        quadratic += np.outer(inside, inside) * (inside @ working @ inside) / expected
    product = quadratic @ covariance
    return np.trace(product) ** 2 / np.trace(product @ product)


@pytest.mark.parametrize("rho", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("sizes", [[1, 1, 1, 1], [2, 2, 2], [1, 2, 5, 7], [9, 1, 1, 1, 1]])
def test_the_error_of_a_mean_over_clusters_is_bell_and_mccaffrey_s(sizes, rho):
    rng = np.random.default_rng(4)
    of = np.repeat(np.arange(len(sizes)), sizes)
    x = rng.normal(size=len(of)) + rng.normal(size=len(sizes))[of]
    got = cluster_mean(x, of, rho)
    assert got.df == pytest.approx(bell_mccaffrey(np.array(sizes), rho), rel=1e-9)
    n, h = len(of), np.array(sizes) / len(of)
    own = np.array(sizes) * (1 + (np.array(sizes) - 1) * rho)
    sums = np.array([(x - x.mean())[of == c].sum() for c in range(len(sizes))])
    leverage = own * (1 - 2 * h) + h**2 * own.sum()
    assert got.se**2 == pytest.approx((own / leverage * sums**2).sum() / n**2)
    z = sums / np.sqrt(own)
    skew = (z**3).mean() / (z**2).mean() ** 1.5 * (own**1.5).sum() / own.sum() ** 1.5
    assert got.skewness == pytest.approx(skew * np.sqrt(min(1, got.df / (len(sizes) - 1))))
    columns = cluster_mean(np.stack([x, np.where(of == 0, np.nan, x)], 1), of, rho)
    assert [columns.mean[0], columns.se[0], columns.df[0]] == pytest.approx(got[:3])
    rest = cluster_mean(x[of > 0], of[of > 0], rho)
    assert [columns[k][1] for k in range(6)] == pytest.approx(list(rest))


def test_the_likeness_of_answers_to_one_case_is_that_of_their_products():
    "All pairs of a case's residuals, with the mean's own variance added; 0 to 1."
    rng = np.random.default_rng(6)
    of = np.repeat(np.arange(12), rng.integers(1, 6, 12))
    x = rng.normal(size=len(of)) + rng.normal(size=12)[of]
    n, e = len(x), x - x.mean()
    products = sum(e[i] * e[j] for i in range(n) for j in range(n) if i != j and of[i] == of[j])
    pairs = sum(of[i] == of[j] for i in range(n) for j in range(n) if i != j)
    sizes = np.bincount(of)
    correction = (np.bincount(of, e) ** 2 / (1 - sizes / n)).sum() / n**2
    rho = np.clip((products / pairs + correction) * (n - 1) / (e**2).sum(), 0, 1)
    assert 0 < rho < 1 and cluster_mean(x, of) == pytest.approx(cluster_mean(x, of, rho))
    assert np.isnan(cluster_mean(x, np.zeros(n)).se) and cluster_mean(x, np.zeros(n)).df == 0
    constant = cluster_mean(np.ones(6), np.arange(6) // 2)
    assert (constant.mean, constant.se, constant.skewness, constant.n, constant.n_clusters) == (1.0, 0.0, 0.0, 6, 3)


def test_what_does_not_fit_together_is_named():
    with pytest.raises(ValueError, match="clusters must each lie within one stratum"):
        list(draw_weights(4, 2, seed=1, clusters=["a", "a", "b", "b"], strata=[1, 2, 1, 1]))
    with pytest.raises(ValueError, match="n_units and n must be at least 1; got 0 and 3"):
        list(draw_weights(0, 3, seed=1))
    with pytest.raises(
        ValueError, match=r"f: a and b must have one item each, same shape; got shapes \(2,\) and \(3,\)"
    ):
        aligned_numbers("f", "item", a=[1, 2], b=[1, 2, 3])
    with pytest.raises(ValueError, match="same shape"):
        aligned_numbers("f", "item", a=[[1]])
    wrong = lambda x, *, weights: np.ones(len(weights) + 1)
    with pytest.raises(ValueError, match=r"one value a row of weights, 1; got shape \(2,\) \(<lambda>\)"):
        bootstrap(wrong, np.ones(3), n=4, seed=1)
    for level in (0, 1):
        with pytest.raises(ValueError, match="level must be between 0 and 1"):
            percentile_interval(np.ones(3), level)


def test_an_interval_says_what_it_is():
    i = Interval(0.12345, 0.1, 0.2, 7, np.ones(3), 0, 0.95)
    assert repr(i) == "Interval(0.1235 [0.1, 0.2], n=7, 95% percentile)" and i.n_units == 7
    assert repr(i._replace(ci_high=np.nan)) == "Interval(0.1235 without an interval, n=7, 95% percentile)"
    assert repr(i._replace(estimate=np.ones(2), level=0.9, units=9)) == "Interval(shape=(2,), n=7, 90% percentile)"
