"""How well soft labels predict a rater who had no part in them."""

import numpy as np
import pytest

from mhbench.corpus.demo import demo_path
from mhbench.studies.mentat.annotations import AnnotationArrays, annotation_arrays, load_annotations
from mhbench.studies.mentat.preferences import left_out_raters, predicting_raters, tempered, top_shares
from mhbench.studies.mentat.readings import both_readings


def arrays(scores, questions, raters):
    n = len(scores)
    other = np.array([""] * n)
    return AnnotationArrays(np.asarray(scores, float), questions, raters, other, other, other, None, None)


def drawn(n_questions, n_raters, sure, seed):
    "Raters who put a question's right option on top with probability `sure`, else another one, by chance."
    rng = np.random.default_rng(seed)
    rows = []
    for q in range(n_questions):
        for r in range(n_raters):
            top = 0 if rng.random() < sure else rng.integers(1, 5)
            scores = rng.uniform(0, 50, 5)
            scores[top] = 90
            rows.append((scores, f"q{q:02}", f"r{r}"))
    scores, questions, raters = zip(*rows)
    return arrays(np.array(scores), np.array(questions), np.array(raters))


def test_a_rater_s_own_annotations_have_no_part_in_the_labels():
    "Whatever a rater answered, the labels that are held against this rater stay the same."
    a = drawn(6, 4, 0.8, 1)
    before = left_out_raters(a)
    turned = a._replace(scores=np.where((a.raters == "r2")[:, None], a.scores[:, ::-1], a.scores))
    after = left_out_raters(turned)
    own = before.raters == "r2"
    for kind, probs in before.predicted.items():
        assert after.predicted[kind][own] == pytest.approx(probs[own]), kind
        assert kind == "even" or np.abs(after.predicted[kind][~own] - probs[~own]).max() > 0.01


def test_scores_by_hand():
    "Three raters of two options, all of one mind: votes of the other two give (2 + 1/2) / 3 to it."
    a = arrays([[9, 1]] * 3, np.array(["q"] * 3), np.array(list("abc")))
    held = left_out_raters(a)
    assert held.predicted["votes"] == pytest.approx(np.array([[5 / 6, 1 / 6]] * 3))
    table = predicting_raters({"x": a}).set_index(["measure", "labels"])["estimate"]
    assert table["log score", "votes"] == pytest.approx(-np.log(5 / 6))
    assert table["Brier score", "mean scores"] == pytest.approx(2 * 0.1**2)
    assert table["log score", "even"] == pytest.approx(np.log(2))


def test_a_repeated_annotation_is_one_unit():
    a = arrays([[9, 1], [1, 9], [9, 1], [9, 1]], np.array(["q"] * 4), np.array(list("aabc")))
    held = left_out_raters(a)
    assert held.raters.tolist() == ["a", "b", "c"] and held.chosen[0].tolist() == [0.5, 0.5]
    assert top_shares(np.array([[5, 5, 1]])).tolist() == [[0.5, 0.5, 0]]


def test_tempering_softens_what_is_too_sure():
    "Raters agree in seven of ten cases; few others make the hierarchical labels nearly certain."
    held = left_out_raters(drawn(40, 4, 0.7, 2))
    for kind in ("hierarchical, symmetric",):
        assert tempered(held, kind).max(1).mean() < held.predicted[kind].max(1).mean() - 0.1


def test_two_raters_are_too_few():
    a = arrays([[9, 1]] * 2, np.array(["q"] * 2), np.array(list("ab")))
    assert not len(predicting_raters({"x": a}))


def test_the_published_reading_predicts_a_rater_worse_than_nothing(datasets):
    folder = datasets / "mentat" / "annotated_data"
    if not folder.is_dir():
        pytest.skip("no MENTAT annotations among the corpora")
    got = predicting_raters(both_readings(annotation_arrays(load_annotations(folder).ratings)))
    by = got.set_index(["reading", "measure", "labels"])
    log = by["estimate"].xs("log score", level="measure")
    assert log["release", "hierarchical, paper"] > log["release", "even"] == pytest.approx(np.log(5))
    assert log["shown", "mean scores, tempered"] < log["shown", "hierarchical, paper"] < 0.8
    assert by.loc[("shown", "log score", "Bradley-Terry"), "minus_high"] < 0
    assert set(by["n"]) == {347} and set(by["n_clusters"]) == {61}


def test_the_demo_s_labels_predict_better_than_nothing():
    demo = annotation_arrays(load_annotations(demo_path("mentat") / "annotated_data").ratings)
    log = predicting_raters({"shown": demo}).query("measure == 'log score'").set_index("labels")
    assert (log["estimate"].drop("even") < log.loc["even", "estimate"]).any()
