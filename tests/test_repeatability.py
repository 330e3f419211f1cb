"A judge asked again: too few answers, no variance, and two verdicts an answer."

import numpy as np
import pytest

from mhbench.stats.repeatability import flip_rate, intraclass_correlation, variance_components
from mhbench.stats.resample import bootstrap, mean


def test_a_correlation_needs_two_answers_and_some_variance():
    one = intraclass_correlation([[50.0, 60.0], [70.0, np.nan]], seed=1)
    assert (one.n, np.isnan(one.estimate)) == (1, True)
    same = intraclass_correlation([[50.0, 50.0], [50.0, 50.0]], seed=1)
    assert (same.n, np.isnan(same.estimate)) == (2, True)
    apart = intraclass_correlation([[50.0, 50.0], [60.0, 60.0]], seed=1)
    assert (apart.estimate, np.isnan(apart.ci_low)) == (1.0, True)  # nothing varies within


def test_components_of_one_wording_in_two_runs_and_of_two_wordings_in_one():
    rng = np.random.default_rng(1)
    y = rng.normal(0, 10, (30, 1, 1)) + rng.normal(0, 1, (30, 1, 2))
    runs = variance_components(y, seed=1, n_draws=50)
    wordings = variance_components(y.transpose(0, 2, 1), seed=1, n_draws=50)
    assert runs.names[0] == wordings.names[0] == "answer" and runs.n_left_out == 0
    assert runs.sd[0].estimate == pytest.approx(10, rel=0.5)
    with pytest.raises(ValueError, match="two verdicts an answer"):
        variance_components(y[:, :, :1], seed=1)


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


def test_components_of_answers_to_one_question_have_no_interval():
    y = np.random.default_rng(3).normal(60, 5, (5, 3, 2))
    found = variance_components(y, clusters=np.zeros(5), seed=1)
    assert {e.kind for e in found.sd} == {"few"} and np.isnan([e.ci_low for e in found.sd]).all()
    assert [e.estimate for e in found.sd] == [e.estimate for e in variance_components(y, seed=1).sd]


def test_flips_are_of_a_table_of_ones_and_noughts():
    for table in ([[0.5, 1.0]], [1.0, 0.0], [0.5]):
        with pytest.raises(ValueError, match="a table of 1 and 0"):
            flip_rate(table)


def test_an_answer_with_a_failed_verdict_is_left_out_of_the_components():
    y = np.random.default_rng(3).normal(60, 10, (12, 2, 2))
    y[4, 0, 1] = np.nan
    found = variance_components(y, seed=1, n_draws=50)
    without = variance_components(np.delete(y, 4, 0), seed=1, n_draws=50)
    assert (found.n_left_out, without.n_left_out) == (1, 0)
    assert [e.estimate for e in found.sd] == pytest.approx([e.estimate for e in without.sd])
