"""Who is right where raters differ: against crowd-kit's numbers, and in simulations whose truth is known."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mhbench.stats.label_models import dawid_skene, rater_flags

FIXTURES = Path(__file__).parent / "fixtures"


@pytest.fixture
def labels() -> np.ndarray:
    "403 labels of 80 items by 12 raters, each item with 2 to 8, of three kinds."
    rows = pd.read_csv(FIXTURES / "label_models_labels.csv")
    out = np.full((12, 80), None, dtype=object)
    out[rows["rater"], rows["item"]] = rows["label"]
    return out


def test_probabilities_are_those_of_crowd_kit(labels):
    # crowd-kit 1.4.2: DawidSkene(n_iter=3000, tol=-1).fit of the same labels
    theirs = pd.read_csv(FIXTURES / "label_models_crowdkit.csv")
    ours = dawid_skene(labels, smoothing=0)
    for k, name in enumerate("abc"):
        assert ours.probability[:, k] == pytest.approx(theirs[f"dawid_skene_{name}"], abs=1e-6)


@pytest.mark.whole
def test_crowd_kit_itself(labels):
    aggregation = pytest.importorskip("crowdkit.aggregation")
    labels = labels[:, :40]
    rater, item = np.nonzero(labels != None)  # noqa: E711
    data = pd.DataFrame({"task": item, "worker": rater, "label": labels[rater, item]})
    theirs = aggregation.DawidSkene(n_iter=100, tol=-1.0).fit_predict_proba(data).sort_index()  # 1e-8 from its limit
    ours = dawid_skene(labels, smoothing=0)
    assert ours.probability == pytest.approx(theirs[ours.classes].to_numpy(), abs=1e-6)


def test_the_order_of_raters_and_items_and_the_names_of_labels_do_not_matter(labels):
    rng = np.random.default_rng(1)
    raters, items = rng.permutation(12), rng.permutation(80)
    renamed = np.array([[{"a": "z", "b": "y", "c": "x"}.get(x) for x in row] for row in labels], dtype=object)
    ours = dawid_skene(labels).probability
    theirs = dawid_skene(renamed[raters][:, items]).probability[:, ::-1]
    assert theirs == pytest.approx(ours[items], abs=1e-6)


def test_nobody_asked_has_no_probability_and_changes_no_other(labels):
    wider = np.hstack([labels, np.full((12, 5), None)])
    found = dawid_skene(wider).probability
    assert np.isnan(found[80:]).all()
    assert found[:80] == pytest.approx(dawid_skene(labels).probability, abs=1e-9)


def test_smoothing_keeps_a_rater_of_few_labels_from_certainty(labels):
    alone = labels.copy()
    alone[0, 1:] = None
    alone[0, 0] = "a"
    free, smooth = dawid_skene(alone, smoothing=0).errors[0], dawid_skene(alone).errors[0]
    assert free[:, 0].max() > 0.999 and 0.4 < smooth[0, 0] < 0.95


def test_a_rater_without_a_label_has_no_accuracy_and_enters_no_median(labels):
    silent = np.vstack([labels, np.full((1, labels.shape[1]), None, dtype=object)])
    accuracy = dawid_skene(silent).accuracy()
    assert np.isnan(accuracy[-1]) and accuracy[:-1] == pytest.approx(dawid_skene(labels).accuracy(), abs=1e-6)
    names = [f"r{k}" for k in range(len(silent))]
    table = rater_flags(silent, names)
    assert np.isnan(table["accuracy"].iloc[-1])
    assert table.iloc[:-1]["flag"].tolist() == rater_flags(labels, names[:-1])["flag"].tolist()
