"A judge asked again: too few answers, no variance, and two verdicts an answer."

import numpy as np
import pytest

from mhbench.stats.repeatability import _split_by_cluster, flip_rate, intraclass_correlation, repeated_sd
from mhbench.stats.resample import bootstrap, mean


def test_a_correlation_needs_two_answers_and_some_variance():
    one = intraclass_correlation([[50.0, 60.0], [70.0, np.nan]], seed=1)
    assert (one.n, np.isnan(one.estimate)) == (1, True)
    none = intraclass_correlation([[50.0, np.nan]], seed=1)
    assert (none.n, none.n_clusters, np.isnan(none.estimate)) == (0, 0, True)
    same = intraclass_correlation([[50.0, 50.0], [50.0, 50.0]], seed=1)
    assert (same.n, np.isnan(same.estimate)) == (2, True)
    apart = intraclass_correlation([[50.0, 50.0], [60.0, 60.0]], seed=1)
    assert (apart.estimate, np.isnan(apart.ci_low), apart.kind) == (1.0, True, "none")  # nothing varies within
    assert intraclass_correlation([[50.0, 52.0], [60.0, 61.0]], seed=1).kind == "few"


def test_a_cluster_of_one_has_no_freedom_within():
    strata = _split_by_cluster(np.array([1.0, 3.0, 5.0, 9.0, 2.0]), np.array([0, 0, 1, 1, 2]))
    assert (strata.df_between, strata.df_within) == (3 - 1, 5 - 3)


def test_flips_are_pairs_of_runs_on_two_sides():
    assert flip_rate([[1, 0], [1, 1], [1, np.nan]]) == 0.5
    assert flip_rate([[1, 0, 0]]) == pytest.approx(2 / 3)
    assert flip_rate([[1, 0], [1, 1]], weights=np.array([[1.0, 0], [0, 1]])).tolist() == [1, 0]


def test_strata_of_clusters_are_those_of_their_units():
    "Clusters of two units whose labels are no numbers, in strata that are no ranges."
    x = np.array([1.0, 1, 5, 5, 2, 2, 9, 9])
    clusters = ["a", "a", "b", "b", "c", "c", "d", "d"]
    strata = ["x", "x", "y", "y", "x", "x", "y", "y"]
    i = bootstrap(mean, x, clusters=clusters, strata=strata, n=200, seed=1)
    assert i.n == 4 and i.estimate == 4.25
    assert i.replicates.min() >= (1 + 5) / 2 and i.replicates.max() <= (2 + 9) / 2  # two of each stratum
    assert 3 <= i.ci_low < i.ci_high <= 5.5


def test_flips_are_of_a_table_of_ones_and_noughts():
    for table in ([[0.5, 1.0]], [1.0, 0.0], [0.5]):
        with pytest.raises(ValueError, match="a table of 1 and 0"):
            flip_rate(table)
    with pytest.raises(ValueError, match="got 0.5$"):
        flip_rate([[1, 0], [0.5, np.nan]])
    with pytest.raises(ValueError, match=r"repeated_sd: scores must have one row an answer .* got shape \(3,\)"):
        repeated_sd([1, 2, 3])


def test_why_a_standard_deviation_has_no_interval():
    "Too few answers that vary; none of them varies; one answer."
    scores = [[[1, 2], [3, 3]], [[1, 1], [3, 3]], [[1, 2]]]
    assert [repeated_sd(x).kind for x in scores] == ["few", "none", "none"]
