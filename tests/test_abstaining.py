"""Risk and coverage of judges beside a loop written out, and the answers that are left to people."""

import numpy as np
import pandas as pd
import pytest

from mhbench.studies.medqade.judges import answers_for_people, judge_risk_coverage


@pytest.fixture
def sure():
    "Two judges on 60 answers to 20 items: one in tenths, with three abstentions; one whose confidence says nothing."
    rng = np.random.default_rng(4)
    about = {"item_id": np.repeat([f"q{k:02d}" for k in range(20)], 3), "target": list("abc") * 20}
    first = pd.DataFrame(about).assign(judge="graded", confidence=rng.integers(5, 11, 60) / 10)
    first.loc[:2, "confidence"] = np.nan
    both = pd.concat([first, pd.DataFrame(about).assign(judge="flat", confidence=0.7)], ignore_index=True)
    return both.assign(confidence_is="its own", label=rng.choice(["Correct", "Incorrect"], 120))


@pytest.fixture
def people(sure):
    "The majority on the answers to the first fifteen items."
    first = sure[(sure["judge"] == "flat") & (sure["item_id"] < "q15")]
    labels = np.random.default_rng(5).choice(["Correct", "Incorrect"], len(first))
    return first[["item_id", "target"]].assign(people=labels)


def test_every_point_is_the_error_among_the_labels_at_its_confidence_or_above(sure, people):
    areas, lines = judge_risk_coverage(sure, people, n=100, seed=1)
    assert areas["judge"].tolist() == ["graded", "flat"] and areas["left_out"].tolist() == [3, 0]
    assert areas["n"].tolist() == [42, 45] and areas["n_clusters"].tolist() == [14, 15]
    beside = sure.merge(people, on=["item_id", "target"]).dropna(subset=["confidence"])
    for _, point in lines.iterrows():
        own = beside[beside["judge"] == point["judge"]]
        kept = own[own["confidence"] >= point["threshold"]]
        assert point["coverage"] == pytest.approx(len(kept) / len(own))
        assert point["risk"] == pytest.approx((kept["label"] != kept["people"]).mean())
    last = lines.groupby("judge", sort=False).last()
    assert last["coverage"].tolist() == [1, 1] and last["risk"].tolist() == areas["risk"].tolist()
    flat = areas.set_index("judge").loc["flat"]
    assert flat["estimate"] == pytest.approx(flat["risk"]), "a confidence that says nothing has the risk as its area"
    assert (areas["ci_low"] < areas["estimate"]).all() and (areas["estimate"] < areas["ci_high"]).all()


def test_what_nobody_labelled_is_left_to_people_the_least_sure_first(sure, people):
    left = answers_for_people(sure, people)
    assert len(left) == 30 and left["item_id"].min() == "q15"
    assert left["judge"].tolist() == ["flat"] * 15 + ["graded"] * 15
    assert left.loc[left["judge"] == "graded", "confidence"].is_monotonic_increasing
    everything = answers_for_people(sure, people[:0])
    assert len(everything) == 120 and everything.loc[everything["judge"] == "graded", "confidence"][60:63].isna().all()
