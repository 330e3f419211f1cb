"Whom to ask what happened: each reason for a flag where it holds, and where it just does not."

import json

import numpy as np
import pandas as pd
import pytest

from mhbench.report.findings import _rated_front
from mhbench.stats.agreement import percent_agreement
from mhbench.stats.bias import as_scores
from mhbench.stats.consensus import majority
from mhbench.stats.label_models import Slips, rater_flags, too_many
from mhbench.stats.multi_reader import over_raters, rated_items


def flagged(ratings, **settings) -> dict[str, str]:
    names = [f"r{k}" for k in range(len(ratings))]
    return rater_flags(ratings, names, **settings).set_index("rater")["flag"].to_dict()


def test_a_slip_is_one_too_many_from_half_of_all_on_or_beyond_an_attentive_raters():
    assert too_many(1, 2, 0.01) and not too_many(0, 2, 0.01)  # half of them
    assert not too_many(2, 30, 0.05) and too_many(5, 30, 0.05)  # 5% are slips of anybody
    assert Slips(1, 2, 2, 3).reasons(0.01) == ["missed 1 of 2 attention checks"]  # two hasty pages are none
    assert "3 of 4 pages faster" in Slips(0, 2, 3, 4).reasons(0.01)[0]


def test_one_number_throughout_is_a_reason_where_the_others_numbers_differ():
    rng = np.random.default_rng(1)
    same = np.full(12, 50.0)
    others = np.round(rng.uniform(20, 80, (2, 12)))
    assert "one answer throughout" in flagged(np.vstack([same, others]))["r0"]
    assert flagged(np.vstack([same, same, same])) == dict.fromkeys(("r0", "r1", "r2"), "")  # it may be the right one


def test_one_number_throughout_is_a_reason_where_nobody_else_answered():
    alone = np.vstack([np.full(12, 50.0), np.full(12, np.nan)])
    assert flagged(alone)["r0"] == "one answer throughout"
    assert flagged(alone[:1])["r0"] == "one answer throughout"


def test_two_raters_have_no_accuracy_and_three_have():
    rng = np.random.default_rng(2)
    right = rng.random(60) < 0.5
    labels = np.where(rng.random((3, 60)) < 0.8, right, ~right).astype(str).astype(object)
    two, three = rater_flags(labels[:2], ["a", "b"]), rater_flags(labels, ["a", "b", "c"])
    assert two["accuracy"].isna().all() and three["accuracy"].between(0, 1).all()


def test_ratings_that_are_no_matrix_of_the_raters_are_refused():
    for ratings in ([1, 2, 3], [[1, 2, 3]]):
        with pytest.raises(ValueError, match="ratings must be"):
            rater_flags(ratings, ["a", "b"])


def test_numbers_are_compared_by_each_raters_own_spread():
    rng = np.random.default_rng(3)
    worth = rng.normal(size=30)
    narrow, wide = 50 + 0.3 * worth, 50 + 20 * worth
    found = rater_flags(np.vstack([narrow, wide, wide]), ["narrow", "wide", "twin"])
    assert found["agreement"].to_numpy() == pytest.approx(1)


def test_what_nobody_else_rated_is_not_in_the_agreement():
    labels = np.array([["x", "y", "x", "y"], ["x", "y", "y", None]], dtype=object)
    found = rater_flags(labels, ["a", "b"])
    assert found["agreement"].tolist() == pytest.approx([2 / 3, 2 / 3]) and found["n"].tolist() == [4, 3]


@pytest.mark.parametrize("shared", [1, 2])  # of the twenty pages of others, with one number; the limit is a tenth
def test_one_number_for_a_page_is_a_flag_only_where_it_is_rare(shared):
    rng = np.random.default_rng(4)
    x = rng.normal(50, 10, (3, 40))
    page = np.repeat(range(10), 4)
    x[0] = np.repeat(rng.normal(50, 10, 10), 4)
    for k in range(shared):
        x[1 + k % 2, page == k] = 30.0
    flag = rater_flags(x, ["a", "b", "c"], clusters=page).set_index("rater")["flag"]["a"]
    assert ("one number for all on 10 of 10 pages" in flag) == (shared < 2)


def test_the_first_screen_of_raters_alone_has_their_labels_spread_and_who_is_flagged(tmp_path):
    tables = {
        "agreement/s/flags": pd.DataFrame({"rater": ["r1", "r2", "r3"], "flag": ["", "differs from the others", None]}),
        "prepare/s/review": pd.DataFrame({"rater": ["r2"], "reasons": ["differs from the others; a page in 2 s"]}),
        "preferences/s/labels": pd.DataFrame(
            {"question": ["q1", "q1", "q2", "q2"], "option": list("ABAB"), "probability": [0.9, 0.1, 0.4, 0.6]}
        ),
    }
    for name, table in tables.items():
        (tmp_path / name).parent.mkdir(parents=True)
        table.to_parquet(tmp_path / f"{name}.parquet")
    metrics = {"prepare": {"n_items": 2, "n_ratings": 12, "n_raters": 3}, "preferences": {"n_questions": 2}}
    for stage, values in metrics.items():
        (tmp_path / "metrics" / stage).mkdir(parents=True)
        (tmp_path / "metrics" / stage / "s.json").write_text(json.dumps(values))
    said = _rated_front(tmp_path, "s", ["prepare", "preferences", "agreement"]).said
    assert "probability of 0.75 in the median question, from 0.60 to 0.90" in said
    assert "Flagged, and not removed: 1 of 3 raters (r2: differs from the others, a page in 2 s)" in said


@pytest.mark.parametrize("blank", ["", "  "])
def test_a_blank_label_is_no_rating_wherever_ratings_are_counted(blank, capsys, monkeypatch):
    monkeypatch.setattr("mhbench.errors.NOTES", [])
    labels = np.array([["x", "y", blank, "x"], ["x", blank, blank, "y"], ["y", "x", "x", "Abstain"]], dtype=object)
    missing = np.where(labels == blank, None, labels)
    raters = ["a", "b", "c"]
    assert rated_items(labels, 2).tolist() == [True, True, False, True] == rated_items(missing, 2).tolist()
    pd.testing.assert_frame_equal(rater_flags(labels, raters), rater_flags(missing, raters))
    assert rater_flags(labels, raters)["n"].tolist() == [3, 2, 3]
    assert capsys.readouterr().err.count("3 of 12 labels are blank, which is no rating") == 2  # once by each function
    kappa = lambda x, weights: percent_agreement(x[0], x[1], weights=weights)
    assert over_raters(kappa, labels[:2], fewest=2).items.n == over_raters(kappa, missing[:2], fewest=2).items.n == 2
    one = [["x", *[blank] * 2]], [["x", None, None]]
    assert majority(np.array(one[0], object).T, alone=False) == majority(np.array(one[1], object).T, alone=False)
    assert np.isnan(as_scores(["Correct", blank])[1])
