"""Resampling: draws, intervals against SciPy, equality of the two forms of a statistic, faults."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from mhbench.stats.resample import (
    Interval,
    bootstrap,
    draw_weights,
    mean,
    percentile_interval,
)


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
