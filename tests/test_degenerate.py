"What cannot be computed is NaN or refused by name: equal values whose mean is rounded, missing labels, other ranges."

import tracemalloc

import numpy as np
import pandas as pd
import pytest

from mhbench.stats.agreement import mean_pairwise, percent_agreement
from mhbench.stats.bias import position_bias, self_enhancement
from mhbench.stats.components import points_mean, points_score, variance_components
from mhbench.stats.consensus import best_ensemble, leave_one_out_ceiling
from mhbench.stats.differences import difference_p, mean_difference
from mhbench.stats.estimate import estimate
from mhbench.stats.hierarchical import hierarchical_bradley_terry
from mhbench.stats.jackknife import agreement_estimate
from mhbench.stats.judge_error import split_half_calibration
from mhbench.stats.label_models import rater_flags
from mhbench.stats.multi_reader import mean_over_raters, over_raters, rated_items, rater_components
from mhbench.stats.prediction_powered import prediction_powered
from mhbench.stats.preference import worth_estimates
from mhbench.stats.repeatability import intraclass_correlation, repeated_sd, two_way_intraclass_correlation
from mhbench.stats.resample import mean
from mhbench.stats.soft_labels import group_means, mean_alpha, question_alphas
from mhbench.stats.tests import (
    adjust_within,
    clustered_chi_square,
    compare_levels,
    detectable_difference,
    paired_t,
    sign_flip_test,
    stratified_permutation_test,
)

VALUES = [0.1, 0.7, 1 / 3, 1.1, 0.3, 1e6 + 0.1]  # sums of some of these, divided by their number, differ from them
SHAPES = [(5, 3), (7, 3), (6, 2), (11, 3), (9, 7)]


@pytest.mark.parametrize("value", VALUES)
def test_equal_scores_have_no_intraclass_correlation(value):
    for shape in SHAPES:
        y = np.full(shape, value)
        e = intraclass_correlation(y, seed=1)
        assert np.isnan([e.estimate, e.ci_low, e.ci_high]).all() and e.kind == "none"
        for of in ("consistency", "agreement"):
            assert np.isnan(two_way_intraclass_correlation(y, of))
            assert np.isnan(two_way_intraclass_correlation(y, of, weights=np.ones((2, len(y))) * [[1], [2]])).all()
    raters_apart = np.tile([value, value + 0.6, value + 0.2], (7, 1))  # answers do not differ, raters do
    assert np.isnan(two_way_intraclass_correlation(raters_apart))
    assert two_way_intraclass_correlation(raters_apart, "agreement") == pytest.approx(0)


@pytest.mark.parametrize("value", VALUES)
def test_equal_ratings_have_no_components(value):
    for n, k in SHAPES:
        y, item, rater = np.full(n * k, value), np.repeat(np.arange(n), k), np.tile(np.arange(k), n)
        assert np.isnan(list(rater_components(y, item, rater).shares().values())).all()
        table = variance_components(y, {"item": item, "rater": rater}).table
        assert (table["component"] == 0).all() and table["share"].isna().all()


@pytest.mark.parametrize("step", [0.1, 0.7, -0.3])
def test_a_constant_difference_has_no_test(step):
    for a in ([0.1, 0.2, 0.3], [1e6 + 0.1, 0.7, 12.3], np.arange(20) / 10):
        t = paired_t(np.asarray(a) + step, a)
        assert np.isnan([t.statistic, t.p]).all() and t.n == len(a)
    assert paired_t([1e-9, 2e-9, 4e-9], [0, 0, 0]).p == pytest.approx(paired_t([1, 2, 4], [0, 0, 0]).p)
    d = np.full(9, step)
    assert np.isnan([difference_p(d), mean_difference(d).ci_low]).all() and difference_p(0 * d) == 1
    assert np.isnan(detectable_difference(9, se=np.std(d)))


def test_a_rater_of_one_number_is_like_nobody_and_unlike_nobody():
    "Standardised, equal numbers are 0: the same for 0.1, whose mean is rounded, as for 2."
    others = np.random.default_rng(1).integers(1, 6, (2, 11)).astype(float)
    found = [rater_flags(np.vstack([np.full(11, v), others]), list("abc")) for v in (2.0, 0.1)]
    pd.testing.assert_frame_equal(*found)
    alike = rater_flags(np.full((3, 11), 0.1), list("abc"))
    assert (alike["flag"] == "").all(), "all gave the one number there is"


@pytest.mark.parametrize("value", VALUES)
def test_a_judge_of_one_score_has_a_flat_line(value):
    for n in range(12, 30):
        c = split_half_calibration(np.full(n, value), np.random.default_rng(n).normal(size=n), seed=1)
        assert c.slope == 0 and abs(c.intercept) < 2


# ------------------------------------------------------------------ what is missing


def test_a_missing_verdict_is_no_criterion_met():
    for missing in (None, np.nan, pd.NA):
        assert np.isnan(points_score([5, 5, -3], [True, missing, False]))


MISSING = np.array(["a", "a", None, None, "b", "b"], dtype=object)
SCORES = np.array([1.0, 0, 1, 0, 1, 0])
FIRST = np.array([True, False] * 3)
LABELS = np.array(list("xyxyxy"))


@pytest.mark.parametrize("none", [None, np.nan])
@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("strata", lambda m: stratified_permutation_test(SCORES, FIRST, m, seed=1)),
        ("clusters", lambda m: sign_flip_test(SCORES, m, seed=1)),
        ("questions", lambda m: compare_levels(SCORES, m, LABELS, seed=1)),
        ("levels", lambda m: compare_levels(SCORES, np.arange(6) // 2, m, seed=1)),
        ("labels", lambda m: clustered_chi_square(m, LABELS, seed=1)),
        ("groups", lambda m: clustered_chi_square(LABELS, m, seed=1)),
        ("clusters", lambda m: clustered_chi_square(LABELS, LABELS[::-1], m, seed=1)),
        ("families", lambda m: adjust_within(SCORES / 10, m)),
        ("groups", lambda m: group_means(SCORES, m)),
        ("questions", lambda m: question_alphas(np.eye(6), m)),
        ("raters", lambda m: question_alphas(np.eye(6), LABELS, raters=m)),
        ("questions", lambda m: hierarchical_bradley_terry(np.eye(6), m, LABELS)),
        ("raters", lambda m: hierarchical_bradley_terry(np.eye(6), LABELS, m)),
    ],
)
def test_missing_labels_are_no_group_of_their_own(name, call, none):
    "They were one: two questions without a name counted as a pair, missing answers as the last label."
    labels = np.where(pd.isna(MISSING), none, MISSING)
    with pytest.raises(ValueError, match=f"{name} must name one for each unit; got none for 2 of 6, first unit 2"):
        call(labels)


def test_nan_in_a_list_of_texts_is_no_label():
    x = [["a", "b", np.nan, "a", "b"], ["a", "b", "a", "b", "b"], ["a", "a", "a", "b", "b"]]
    objects = np.array(x, dtype=object)
    assert rated_items(x, 3).tolist() == [True, True, False, True, True]
    assert agreement_estimate(x[:2], "percent_agreement") == agreement_estimate(objects[:2], "percent_agreement")
    assert agreement_estimate(x[:2], "percent_agreement").estimate == percent_agreement(*objects[:2]) == 3 / 4
    assert over_raters(mean_pairwise, x, fewest=2).items == over_raters(mean_pairwise, objects, fewest=2).items
    pd.testing.assert_frame_equal(rater_flags(x, list("abc")), rater_flags(objects, list("abc")))


# ------------------------------------------------------------------ what a number can be


def test_a_mean_outside_its_range_is_refused_wherever_ratings_are_missing():
    "It was cut to the end of the range: 1.000 for ratings of 5 to 7."
    for n in (5, 6):
        ratings = [5, 6, 7, 5, 6, 5], [1, 1, 2, 2, 3, 3], list("ababab")
        with pytest.raises(ValueError, match="must be within 0 and 1; got 5 to 7; mend them, or within"):
            mean_over_raters(*(x[:n] for x in ratings), within=(0, 1))


def test_limits_that_are_cut_to_one_point_are_none():
    "A mean of points that is below 0 is 0 when it is cut, and so were its limits."
    e = points_mean(np.random.default_rng(1).normal(-0.5, 0.1, 50))
    assert e.estimate == 0 and np.isnan([e.ci_low, e.ci_high]).all() and e.kind == "none"
    cut = points_mean(np.random.default_rng(1).normal(0.05, 0.5, 50))
    assert cut.ci_low == 0 < cut.estimate < cut.ci_high


def test_no_mean_of_alphas_reaches_above_1():
    e = mean_alpha([0.99, 1, 1, 0.98, 0.97, 1, 1, 1, 0.6])
    assert e.ci_low < e.estimate < e.ci_high == 1
    assert np.isnan(mean_alpha([0.5, np.nan]).ci_high)


@pytest.mark.parametrize("small_sample", [True, False])
def test_limits_that_are_unknown_are_none_and_not_the_whole_line(small_sample):
    "One label, or a judge who is alone on one case: there is no variance to take limits from."
    single = prediction_powered([0.3, *[np.nan] * 3], [0.2] * 4, power=1.0, small_sample=small_sample).both
    alone = prediction_powered([*np.eye(7)[0], np.nan], np.arange(8.0), power=1.0, small_sample=small_sample).both
    share = prediction_powered([1, *[np.nan] * 3], [1, 0, 1, 1], power=1.0, share=True, small_sample=small_sample).both
    for e in (single, alone, share):
        assert np.isfinite(e.estimate) and np.isnan([e.ci_low, e.ci_high]).all() and e.kind == "none"


def test_a_judge_who_is_alone_on_one_case_adds_nothing():
    rng = np.random.default_rng(1)
    judge = rng.normal(size=20)
    people = np.where(np.arange(20) < 16, judge + 0.3 * rng.normal(size=20), np.nan)
    case = np.r_[np.arange(16) // 2, [9] * 4]
    both = prediction_powered(people, judge, clusters=case)
    assert both.power == 0 and both.both == prediction_powered(people[:16], judge[:16], clusters=case[:16]).both
    assert prediction_powered(people, judge, clusters=np.r_[case[:18], [10] * 2]).power > 0


# ------------------------------------------------------------------ limits within what a number can be, and no warning


def test_equal_ratings_have_components_without_limits():
    factors = {"item": np.repeat(np.arange(5), 3), "rater": np.tile(np.arange(3), 5)}
    table = variance_components(np.full(15, 0.1), factors).table
    assert (table["component"] == 0).all() and table[["ci_low", "ci_high", "share"]].isna().all(axis=None)
    with pytest.raises(ValueError, match="variance_components: a factor must have two levels or more; got item, rater"):
        variance_components(np.full(15, np.nan), factors)


def test_no_preference_and_no_favour_reaches_further_than_it_can():
    "Eight cases, of which six or more have an answer: skewness carried limits past the ends."
    judge = np.array([1.0] * 5 + [0.5])
    lineages = {"a": "A", "b": "B"}
    scores = np.stack([np.stack([judge, judge]), np.stack([0 * judge, 0 * judge])])
    favour = self_enhancement(scores, ["a", "b"], ["a", "b"], lineages, seed=1)[0].difference
    assert favour.estimate == pytest.approx(11 / 12) and favour.ci_low < favour.estimate < favour.ci_high == 1
    in_points = self_enhancement(100 * scores, ["a", "b"], ["a", "b"], lineages, seed=1)[0].difference
    assert in_points.ci_high > 100, "the range of points is not known"
    verdicts = np.array(["first"] * 11 + ["second"] + ["first"] * 12, dtype=object)
    first = position_bias(verdicts, np.roll(verdicts, 1), seed=1, clusters=np.arange(24) // 3).first
    assert -0.5 <= first.ci_low < first.estimate < first.ci_high <= 0.5
    low = mean_alpha([0.3] * 20 + [-0.9] * 3 + [0.4], [*range(3)] * 8)
    assert not low.ci_low < -1


def test_a_rater_who_cannot_be_compared_has_no_agreement():
    "Silent, before a tie of the others: an empty sequence had no commonest label."
    labels = np.full((3, 8), None, dtype=object)
    labels[1], labels[2] = ["x", "y"] * 4, ["y", "x"] * 4
    ceiling = leave_one_out_ceiling(labels)
    assert [e.kind for e in ceiling.per_rater][0] == "none" and np.isnan(ceiling.per_rater[0].estimate)
    assert ceiling.per_rater[1].estimate == -1


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_nothing_warns_where_nothing_varies():
    nothing = np.full(6, np.nan)
    assert np.isnan(estimate(mean, nothing, seed=1, within=(1, 5)).estimate)
    assert (
        np.isnan(difference_p(np.full(9, 0.3)))
        and np.isnan(question_alphas(np.eye(3)[:, [0, 0]], [1, 2, 3]).alpha).all()
    )
    one_case_varies = np.ones((40, 2))
    one_case_varies[0, 0] = 2
    e = repeated_sd(one_case_varies, clusters=np.arange(40) // 2)
    assert e.estimate > 0 and np.isnan([e.ci_low, e.ci_high]).all()
    x = np.array([["x"] * 7 + ["y"]] * 3, dtype=object)
    best = best_ensemble(x[:1], x, metrics=["cohen_kappa"], n=20, inner=3, seed=1)["cohen_kappa"]
    assert best.members == (0,) and np.isnan(best.score.ci_low)


@pytest.mark.parametrize(("seed", "n"), [(25, 8), (57, 5)])
def test_a_corrected_agreement_is_one_and_lies_within_its_limits(seed, n):
    "On few answers the correction for the search reached 1.07, and below the lower limit."
    rng = np.random.default_rng(seed)
    assert rng.choice([5, 6, 8, 12]) == n
    panel, annotators = rng.choice(np.array(["x", "y"], dtype=object), (2, 3, n), p=[0.6, 0.4])
    e = best_ensemble(annotators, panel, metrics=["cohen_kappa"], n=100, inner=10, seed=1)["cohen_kappa"].score
    assert -1 <= e.estimate <= 1
    assert np.isnan(e.ci_low) or e.ci_low <= e.estimate <= e.ci_high


DUELS = np.eye(2)[np.arange(10_000) % 2][:, :, None] * [[0, 1], [1, 0]]


@pytest.mark.parametrize(
    "call",
    [
        lambda case: group_means(np.full(len(case), 50.0), case),
        lambda case: worth_estimates(DUELS, 0 * DUELS, clusters=case),
    ],
    ids=["group_means", "worth_estimates"],
)
def test_no_table_of_cases_by_units_is_held(call):
    "With ten thousand units in five thousand cases it took 400 MB, with a million in a hundred thousand 800 GB."
    tracemalloc.start()
    call(np.arange(10_000) // 2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40e6
