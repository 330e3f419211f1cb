"""Scores against scikit-learn, SciPy and loops, on generated tables."""

import math
import warnings
from unittest import mock

import numpy as np
import pandas as pd
import pytest
import sklearn.metrics as sk
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from mhbench.stats import calibration, metrics, tests
from mhbench.stats.resample import bootstrap

quick = settings(max_examples=60, deadline=None)
CLASSES = list("ABCDE")


@st.composite
def answered(draw, min_size=1):
    n = draw(st.integers(min_size, 40))
    truth = draw(st.lists(st.sampled_from(CLASSES), min_size=n, max_size=n))
    answers = draw(st.lists(st.sampled_from([*CLASSES, None]), min_size=n, max_size=n))
    return truth, answers


@st.composite
def weighted(draw):
    truth, answers = draw(answered())
    w = draw(st.lists(st.lists(st.integers(0, 3), min_size=len(truth), max_size=len(truth)), min_size=1, max_size=4))
    return truth, answers, np.array(w)


def replicate(values, counts):
    return [v for v, c in zip(values, counts) for _ in range(c)]


def test_an_answer_that_is_no_class_is_no_answer():
    for measure in (metrics.precision, metrics.recall, metrics.f1):
        values = [measure(["a", "b", "b"], ["a", "b", x], average="macro", classes=["a", "b"]) for x in ("z", None)]
        assert values[0] == values[1]


@quick
@given(answered())
def test_averages_equal_sklearn(table):
    truth, answers = table
    filled = [a or "-" for a in answers]
    labels = sorted({*truth, *(a for a in answers if a)})
    for average in ("macro", "weighted", "micro"):
        for ours, theirs in (
            (metrics.precision, sk.precision_score),
            (metrics.recall, sk.recall_score),
            (metrics.f1, sk.f1_score),
        ):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                expected = theirs(truth, filled, average=average, labels=labels, zero_division=0)
                everything = theirs(truth, filled, average=average, labels=CLASSES, zero_division=0)
            assert ours(truth, answers, average=average) == pytest.approx(expected, abs=1e-12)
            assert ours(truth, answers, average=average, classes=CLASSES) == pytest.approx(everything, abs=1e-12)
    assert metrics.accuracy(truth, answers) == pytest.approx(sk.accuracy_score(truth, filled))


@quick
@given(weighted())
def test_a_weighted_score_is_the_score_of_the_resampled_table(case):
    truth, answers, w = case
    for score in (
        metrics.accuracy,
        *(
            lambda t, a, weights=None, f=f, k=k: f(t, a, average=k, weights=weights)
            for f in (metrics.precision, metrics.recall, metrics.f1)
            for k in ("macro", "weighted", "micro")
        ),
    ):
        at_once = score(truth, answers, weights=w)
        for row, value in zip(w, at_once):
            alone = score(replicate(truth, row), replicate(answers, row)) if row.sum() else math.nan
            assert (math.isnan(alone) and math.isnan(value)) or value == pytest.approx(alone, abs=1e-12)


@st.composite
def label_tables(draw):
    n, k = draw(st.integers(1, 25)), draw(st.integers(2, 6))
    bits = st.lists(st.lists(st.booleans(), min_size=k, max_size=k), min_size=n, max_size=n)
    return (
        np.array(draw(bits)),
        np.array(draw(bits)),
        np.array(draw(st.lists(st.lists(st.integers(0, 3), min_size=n, max_size=n), min_size=1, max_size=3))),
    )


@st.composite
def distributions(draw, zeros=False):
    n, k = draw(st.integers(1, 12)), draw(st.integers(2, 5))
    low = 0 if zeros else 0.01
    table = lambda: (
        np.array(draw(st.lists(st.lists(st.floats(low, 1), min_size=k, max_size=k), min_size=n, max_size=n)))
        + (1e-3 if zeros else 0)
    )
    p, q = table(), table()
    return p / p.sum(1, keepdims=True), q / q.sum(1, keepdims=True)


@quick
@given(distributions())
def test_soft_label_scores(case):
    p, q = case
    apart = calibration.cross_entropy(p, q, each=True) - calibration.cross_entropy(p, p, each=True)
    np.testing.assert_allclose(apart, [stats.entropy(a, b) for a, b in zip(p, q)], atol=1e-9)
    np.testing.assert_allclose(
        calibration.cross_entropy(p, q),
        np.mean([stats.entropy(a) + stats.entropy(a, b) for a, b in zip(p, q)]),
        atol=1e-9,
    )
    assert calibration.cross_entropy(p, p) <= calibration.cross_entropy(p, q) + 1e-12  # Gibbs
    np.testing.assert_allclose(calibration.brier(p, q, each=True), [sum((a - b) ** 2) for a, b in zip(p, q)])
    assert calibration.brier(p, q) == pytest.approx(calibration.brier(p, q, each=True).mean())


@quick
@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=60), st.integers(1, 15))
def test_expected_calibration_error_by_loops(pairs, bins):
    c, r = map(np.array, zip(*pairs))
    edges, total = np.linspace(0, 1, bins + 1), 0.0
    for i in range(bins):
        inside = (c > edges[i]) & (c <= edges[i + 1]) | ((i == 0) & (c == 0))
        if inside.any():
            total += inside.sum() / len(c) * abs(r[inside].mean() - c[inside].mean())
    assert calibration.expected_calibration_error(c, r, bins=bins) == pytest.approx(total, abs=1e-12)
    curve = calibration.reliability_curve(c, r, bins=bins)
    assert curve.count.sum() == len(c)


def test_calibration_edges():
    for c in (0.0, 1.0):
        assert calibration.reliability_curve([c], [1], bins=3).count.sum() == 1
    assert math.isnan(calibration.expected_calibration_error([], []))
    assert calibration.reliability_curve([0.5] * 9, [1] * 9, bins=3).count.sum() == 9


@quick
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40))
def test_settings_add_up(pairs):
    f, s = zip(*pairs)
    got = metrics.compare_settings(f, s)
    assert got.both + got.neither + got.only_first + got.only_second == got.n == len(pairs)
    assert got.consistency + got.divergence == pytest.approx(1)
    assert got.consistency == pytest.approx(np.mean([a == b for a, b in pairs]))
    assert (
        math.isnan(got.agreement)
        if not any(f + s)
        else got.agreement == pytest.approx(sum(a and b for a, b in pairs) / sum(a or b for a, b in pairs))
    )


# counts of the paper's first table (total right in the full and the separated format, right in both, wrong in both),
# and what its second table reports: consistency, divergence
@pytest.mark.parametrize(
    "full, separated, both, neither, consistency, divergence",
    [(328, 378, 304, 50, 0.783, 0.217), (362, 398, 350, 42, 0.867, 0.133)],
)
def test_settings_on_published_counts(full, separated, both, neither, consistency, divergence):
    k = [both, full - both, separated - both, neither]
    got = metrics.compare_settings(np.repeat([1, 1, 0, 0], k), np.repeat([1, 0, 1, 0], k))
    assert (round(got.consistency, 3), round(got.divergence, 3)) == (consistency, divergence)


@quick
@given(st.lists(st.lists(st.sampled_from(["A", "B", "C", None]), min_size=5, max_size=5), min_size=1, max_size=10))
def test_majority_vote_by_loops(rows):
    for row in rows:
        given_ = [x for x in row if x]
        if not given_:
            assert metrics.majority_vote(row) == (None, 0, 0, False)
            continue
        top = max(given_.count(x) for x in given_)
        winners = [x for x in dict.fromkeys(given_) if given_.count(x) == top]
        assert metrics.majority_vote(row) == (winners[0], top, len(given_), len(winners) > 1)


@quick
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_adjusted_p_values(p):
    from statsmodels.stats.multitest import multipletests

    for ours, theirs in (("holm", "holm"), ("bh", "fdr_bh"), ("bonferroni", "bonferroni")):
        with mock.patch("gc.collect"):  # theirs collects the garbage of the whole process at each call
            expected = multipletests(p, method=theirs)[1]
        np.testing.assert_allclose(tests.adjust_p(p, ours), expected, atol=1e-12)
    np.testing.assert_allclose(tests.adjust_p([*p, math.nan])[:-1], tests.adjust_p(p))


def test_tests_against_scipy():
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=30), rng.normal(size=30)
    got, want = tests.paired_t(a, b), stats.ttest_rel(a, b)
    assert (got.statistic, got.p, got.df) == (pytest.approx(want.statistic), pytest.approx(want.pvalue), 29)
    assert math.isnan(tests.paired_t([1, 2], [0, 1]).p)
    assert tests.mcnemar([1, 0], [1, 0]).p == 1
    table = [[12, 5, 9], [3, 8, 30]]
    want = stats.chi2_contingency(table, correction=False)
    assert tests.chi_square(table)[:3] == (pytest.approx(want.statistic), want.dof, pytest.approx(want.pvalue))


def test_bootstrap_of_f1_is_the_bootstrap_by_loops():
    rng = np.random.default_rng(0)
    truth = rng.choice(CLASSES, 60)
    answers = np.where(rng.random(60) < 0.6, truth, rng.choice(CLASSES, 60))
    fast = bootstrap(metrics.f1, truth, answers, n=50, seed=5)
    slow = bootstrap(lambda t, a: sk.f1_score(t, a, average="macro"), truth, answers, n=50, seed=5)
    assert (fast.estimate, fast.ci_low, fast.ci_high) == pytest.approx((slow.estimate, slow.ci_low, slow.ci_high))


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: metrics.accuracy(["A", ""], ["A", "A"]), "truth must not be missing"),
        (lambda: metrics.f1(["A"], ["A", "B"]), "one entry a unit each"),
        (lambda: metrics.compare_settings([1, 2], [1, 0]), "right or wrong, 1 or 0; got 2 and 0 (unit 1)"),
        (lambda: metrics.compare_settings([1, 1], [math.nan, 0]), "got 1 and nan (unit 0)"),
        (lambda: metrics.indicator([["a"]], ["a", "a"]), "labels must differ"),
        (lambda: calibration.cross_entropy([[1, 0]], [[0.5, 0.5]], floor=1), "floor must be in [0, 1)"),
        (lambda: calibration.brier([[1, math.nan]], [[0.5, 0.5]]), "soft must be probabilities"),
        (lambda: calibration.reliability_curve([0.5], [1], bins=0), "bins must be 1 or more"),
        (lambda: calibration.reliability_curve([math.nan], [1]), "confidence must be in [0, 1]"),
        (lambda: tests.adjust_p([1.2]), "p must be in [0, 1]"),
        (
            lambda: tests.adjust_within([0.1, 0.2, 0.3], ["a", "b"]),
            "families must be one label a unit, shape (3,); got shape (2,)",
        ),
        (lambda: tests.chi_square([[1, math.nan], [2, 3]]), "counts of 0 or more"),
        (lambda: tests.goodness_of_fit([0, 0], [1, 1]), "one above 0"),
        (lambda: tests.goodness_of_fit([1, math.nan], [1, 1]), "none below 0"),
        (lambda: tests.goodness_of_fit([1, 2], [1, math.nan]), "none expected of 0"),
    ],
)
def test_bad_input_is_refused(call, words):
    with pytest.raises(ValueError) as e:
        call()
    assert words in str(e.value)


@pytest.mark.parametrize("nothing", [None, float("nan"), np.nan, pd.NA, pd.NaT, "", "  "])
def test_a_missing_or_blank_sample_has_no_vote(nothing):
    assert metrics.majority_vote(["B", nothing, nothing, "A", "B"]) == ("B", 2, 3, False)
    assert metrics.majority_vote([("A", "C"), nothing, ("A", "C")]) == (("A", "C"), 2, 2, False)
    assert metrics.majority_vote([nothing]) == (None, 0, 0, False)
    assert metrics.accuracy(["A", "B"], ["A", nothing]) == 0.5


@pytest.mark.parametrize(("truth", "answers"), [([1, 0, 1], ["1", None, "1"]), (["1", "0"], [1, 0])])
def test_texts_beside_numbers_are_no_wrong_answers(truth, answers):
    for measure in (metrics.accuracy, metrics.f1):
        with pytest.raises(ValueError, match=f"{measure.__name__}: truth and answers must be of one kind"):
            measure(truth, answers)
    assert metrics.accuracy([1, 0, 1], [1.0, None, True]) == 2 / 3 and metrics.accuracy([1, 0], [None, None]) == 0
