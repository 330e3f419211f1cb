"A judge asked again: too few answers, no variance, and two verdicts an answer."

import numpy as np
import pytest
from scipy import stats

from mhbench.stats.repeatability import (
    _effective_df,
    _split_by_cluster,
    flip_rate,
    intraclass_correlation,
    repeated_sd,
    two_way_intraclass_correlation,
    within_item_sd,
)
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


def runs_of_answers(n, seed=4):
    "Scores of n answers by two to four runs; a question has two answers."
    rng = np.random.default_rng(seed)
    scores = rng.normal(0, 5, (n // 2, 1)).repeat(2, axis=0) + rng.normal(60, 8, (n, 1)) + rng.normal(0, 6, (n, 4))
    scores[rng.random(scores.shape) < 0.2] = np.nan
    scores[:, :2] = np.where(np.isnan(scores[:, :2]), 55.0, scores[:, :2])
    return scores


@pytest.mark.parametrize("with_clusters", [False, True])
def test_a_correlation_s_limits_are_quantiles_of_drawn_mean_squares(with_clusters):
    """The analysis of variance in loops, with unequal numbers of runs; each mean square is divided by a drawn
    chi-square with the degrees of freedom that its parts have. An answer judged once is in none of it.
    """
    scores = runs_of_answers(24)
    case = np.arange(24) // 2 if with_clusters else np.arange(24)
    answers = [row[~np.isnan(row)] for row in scores]
    k, means = np.array([len(x) for x in answers]), np.array([x.mean() for x in answers])
    squares = np.array([((x - x.mean()) ** 2).sum() for x in answers])
    n_scores, grand_mean = k.sum(), np.concatenate(answers).mean()
    between, within = (k * (means - grand_mean) ** 2).sum() / 23, squares.sum() / (n_scores - 24)
    k0 = (n_scores - (k**2).sum() / n_scores) / 23
    found = intraclass_correlation(
        np.vstack([scores, [1.0, np.nan, np.nan, np.nan]]), clusters=np.r_[case, 99], seed=3, n_draws=400, level=0.8
    )
    assert found.estimate == pytest.approx((between - within) / (between + (k0 - 1) * within))
    rng, n_cases = np.random.default_rng(3), case.max() + 1
    df = _effective_df(np.bincount(case, squares), np.bincount(case, k - 1))
    run_variance = within * df / rng.chisquare(df, 400)
    case_means = np.array([means[case == c].mean() for c in range(n_cases)])
    sizes = np.bincount(case)
    between_squares = sizes * (case_means - means.mean()) ** 2
    df_between = _effective_df(between_squares, np.full(n_cases, 1 - 1 / n_cases))
    drawn = between_squares.sum() / (n_cases - 1) * df_between / rng.chisquare(df_between, 400)
    if with_clusters:
        within_squares = np.array([((means[case == c] - case_means[c]) ** 2).sum() for c in range(n_cases)])
        df_within = _effective_df(within_squares, sizes - 1)
        drawn_within = within_squares.sum() / (24 - n_cases) * df_within / rng.chisquare(df_within, 400)
        drawn = drawn_within + (drawn - drawn_within) / 2
    answer_variance = np.maximum(0, drawn - run_variance * (1 / k).mean())
    limits = np.quantile(answer_variance / (answer_variance + run_variance), [0.1, 0.9])
    assert (found.ci_low, found.ci_high) == pytest.approx(limits) and found[:2] == (24, n_cases)
    assert (found.level, found.kind) == (0.8, "generalized")


def test_the_freedom_of_a_mean_square_is_that_of_its_variance_and_at_most_what_there_is():
    "Parts that are as unlike as can be, parts that are alike, and all the same."
    squares, df = np.array([1.0, 9.0, 2.0]), np.array([2, 1, 2])
    deviations = squares - 12 / 5 * df
    variance = 3 / 2 * (deviations**2).sum() / 25
    assert _effective_df(squares, df) == pytest.approx(2 * (12 / 5) ** 2 / variance) and variance > 2.304
    assert _effective_df(np.array([2.0, 1.1, 2.0]), df) == 5.0 == _effective_df(np.array([2.0, 1.0, 2.0]), df)


@pytest.mark.parametrize(("n", "kind"), [(29, "few"), (30, "jackknife")])
def test_thirty_answers_are_the_fewest_for_the_limits_of_a_standard_deviation(n, kind):
    "Its logarithm with each case left out, in a loop; pooled over answers, each with a mean of its own."
    scores = runs_of_answers(30)[:n]
    squares = lambda x: sum(np.nansum((row - np.nanmean(row)) ** 2) for row in x)
    df = lambda x: sum((~np.isnan(row)).sum() - 1 for row in x)
    sd = lambda x: np.sqrt(squares(x) / df(x))
    case = np.arange(n) // 2
    found = repeated_sd(scores, clusters=case, level=0.9)
    assert found.estimate == pytest.approx(sd(scores)) == within_item_sd(scores)
    assert (found.kind, found.n, found.n_clusters) == (kind, n, 15)
    if kind == "jackknife":
        logs = np.array([np.log(sd(scores[case != c])) for c in range(15)])
        spread = logs - logs.mean()
        kurtosis = max(0, 15 * (spread**4).sum() / (spread**2).sum() ** 2 - 3 * 14 / 16)
        t = stats.t.ppf(0.95, 1 / (1 / 14 + kurtosis / 30))
        half = t * np.sqrt(14 / 15 * (spread**2).sum())
        assert (found.ci_low, found.ci_high) == pytest.approx(sd(scores) * np.exp([-half, half]))
    assert repeated_sd(scores, clusters=np.zeros(n)).kind == "few"


@pytest.mark.parametrize("of", ["consistency", "agreement"])
def test_a_two_way_correlation_is_that_of_the_analysis_of_variance(of):
    "In loops, of the answers that all have scored."
    rng = np.random.default_rng(1)
    y = rng.normal(0, 2, (9, 1)) + rng.normal(0, 1, 3) + rng.normal(0, 1, (9, 3))
    mean, rows, columns = y.mean(), y.mean(1), y.mean(0)
    ms_r, ms_c = 3 * ((rows - mean) ** 2).sum() / 8, 9 * ((columns - mean) ** 2).sum() / 2
    ms_e = ((y - rows[:, None] - columns + mean) ** 2).sum() / 16
    expected = (ms_r - ms_e) / (ms_r + 2 * ms_e + (3 / 9 * (ms_c - ms_e) if of == "agreement" else 0))
    with_gap = np.vstack([y, [5.0, np.nan, 1.0]])
    assert two_way_intraclass_correlation(with_gap, of) == pytest.approx(expected)
    for scores, of_what in ((y, "both"), (y[:, :1], of), (y[0], of)):
        with pytest.raises(ValueError, match="a column a rater, two or more"):
            two_way_intraclass_correlation(scores, of_what)
