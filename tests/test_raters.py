"Panels of raters: chunks, gaps and ties in what they labelled."

import numpy as np
import pytest

from mhbench.stats.abstention import mean_difficulty
from mhbench.stats.agreement import METRICS, contingency_tables, krippendorff_alpha, mean_pairwise, pairwise
from mhbench.stats.bias import position_bias, self_enhancement
from mhbench.stats.consensus import alignment, best_ensemble


def test_tables_of_many_pairs_do_not_depend_on_how_many_are_made_at_once():
    rng = np.random.default_rng(1)
    a, b = rng.integers(-1, 3, (5, 20)), rng.integers(-1, 3, (5, 20))
    w = rng.integers(0, 3, (4, 20)).astype(float)
    for other in (b, b[:1]):
        whole = contingency_tables(a, other, 3, w)
        assert (contingency_tables(a, other, 3, w, room=1) == whole).all()
        assert whole.shape == (4, 5, 3, 3)
    p, q = 3, int(np.flatnonzero((a[3] >= 0) & (b[0] >= 0))[0])
    one = np.zeros((1, 20))
    one[0, q] = 1
    single = contingency_tables(a, b[:1], 3, one)[0, p]
    assert single[a[p, q], b[0, q]] == 1 == single.sum()


@pytest.mark.parametrize("metric", sorted(METRICS))
@pytest.mark.parametrize("labels", [[["x", "x"], ["x", "x"]], [["x", "y"], ["x", "x"], ["y", "y"]]])
def test_the_mean_over_pairs_is_the_mean_of_the_pairs(metric, labels):
    each = pairwise(labels, metric)
    assert len(each.pairs) == len(labels) * (len(labels) - 1) / 2
    assert mean_pairwise(labels, metric) == pytest.approx(each.mean, nan_ok=True)
    assert each.undefined == np.isnan(each.values).sum()


def test_alpha_of_nothing_is_unknown_in_the_shape_of_its_weights():
    nothing = np.full((2, 3), None)
    assert (
        np.isnan(krippendorff_alpha(nothing, level="nominal"))
        and np.ndim(krippendorff_alpha(nothing, level="nominal")) == 0
    )
    assert krippendorff_alpha(nothing, level="nominal", weights=np.ones((4, 3))).shape == (4,)
    assert krippendorff_alpha(nothing, level="nominal", rater_weights=np.ones((5, 2))).shape == (5,)


def test_alpha_of_one_value_is_unknown_and_not_perfect():
    same = np.array([["a", "a", "a"], ["a", "a", None]], object)
    for level in ("nominal", "ordinal"):
        numbers = np.array([[1.0, 1, 1], [1, 1, np.nan]])
        assert np.isnan(krippendorff_alpha(same if level == "nominal" else numbers, level=level))
    assert np.isnan(krippendorff_alpha(np.array([[1.0, 1, 1], [1, 1, np.nan]]), level="interval"))


def test_who_did_not_rate_is_not_in_the_mean_difficulty():
    got = mean_difficulty([["Hard", None, None], ["Hard", "Easy", None]])
    assert got[:2].tolist() == [2, 0] and np.isnan(got[2])


def test_a_name_that_stands_twice_is_refused():
    x = np.zeros((2, 2, 3))
    for annotators, students, what in ((["a", "a"], ["s", "t"], "annotators"), (["a", "b"], ["s", "s"], "students")):
        with pytest.raises(ValueError, match=f"{what} must be different"):
            self_enhancement(x, annotators, students, dict.fromkeys("abst", "f"), seed=1, n=20)


def test_pairs_without_a_verdict_in_one_order_are_not_among_the_units():
    found = position_bias(["first", "first", "tie", None], ["second", "first", "tie", "tie"], n_boot=50, seed=1)
    assert (found.consistency.n, found.consistency.n_clusters, found.first.n) == (3, 3, 3)
    assert found.consistency.estimate == pytest.approx(2 / 3)  # the first pair and the tie keep their winner


def test_an_item_without_a_consensus_is_not_one_that_the_annotator_left_out():
    panel = [["x", "x", "y", "y", "x"], ["x", "x", "y", "y", "y"]]
    some = alignment(["x", None, "y", "y", None], panel, metric="percent_agreement")
    assert some.n_left_out == 1  # the last has a tie, so that nothing was to be agreed with


def test_verdicts_that_are_no_two_lists_of_pairs_are_refused():
    with pytest.raises(ValueError, match="same shape"):
        position_bias([["first"]], [["second"]], seed=1)
    with pytest.raises(ValueError, match="same shape"):
        position_bias(["first"], ["second", "tie"], seed=1)


def test_an_order_that_was_told_in_few_cases_has_no_interval():
    "Two pairs of forty are not answered alike in both orders; the others say nothing of an order."
    told = ["first"] * 2 + ["second"] * 38
    found = position_bias(told, ["first"] * 40, n_boot=50, seed=1).first
    assert found.estimate == pytest.approx(2 / 80) and np.isnan(found.ci_low) and found.kind == "few"


def test_scores_of_answers_are_three_deep():
    with pytest.raises(ValueError, match="n_annotators, n_students, n_items"):
        self_enhancement(np.zeros((2, 2)), ["a", "b"], ["s", "t"], dict.fromkeys("abst", "f"), seed=1, n=20)


def test_who_is_no_table_of_labels_is_in_no_ensemble():
    panel, one = [["x", "y", "y"]] * 3, ["x", "y", "y"]
    for annotators, labels in ((one, panel), ([one] * 3, one), ([["x", "y"]] * 3, panel)):
        with pytest.raises(ValueError, match="annotators must have shape"):
            best_ensemble(annotators, labels, metrics=("percent_agreement",), n=20, seed=1)


def test_alpha_of_nothing_is_one_number_for_each_set_of_weights():
    nothing = np.full((2, 3), None)
    assert krippendorff_alpha(nothing, level="nominal", weights=np.ones((1, 3))).shape == (1,)


def test_sixteen_annotators_are_too_many_ensembles():
    panel = [["x", "y", "y"]] * 3
    with pytest.raises(ValueError, match="at most 15"):
        best_ensemble([["x", "y", "y"]] * 16, panel, metrics=("percent_agreement",), n=20, seed=1)
