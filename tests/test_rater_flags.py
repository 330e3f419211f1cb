"Whom to ask what happened: each reason for a flag where it holds, and where it just does not."

import json

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from mhbench.report.findings import _rated_front
from mhbench.stats.agreement import percent_agreement
from mhbench.stats.bias import as_scores
from mhbench.stats.consensus import majority
from mhbench.stats.label_models import Slips, _difference_from_others, _flat_pages, rater_flags, too_many
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


@pytest.mark.parametrize(
    ("n", "level", "mean", "is_lower"), [(9, 0.95, -0.3, True), (9, 0.9999, -0.3, False), (9, 0.95, -0.09, False)]
)
def test_a_rater_differs_whose_agreement_is_lower_by_a_tenth_and_more_than_chance(n, level, mean, is_lower):
    "A one-sided t limit of the means of cases, of which one has no value; a single case tells nothing."
    rng = np.random.default_rng(2)
    case_means = rng.normal(0, 0.12, n)
    case_means += mean - case_means.mean()
    d = np.r_[np.repeat(case_means, 2) + np.tile([0.2, -0.2], n), np.nan]
    case = np.r_[np.repeat(np.arange(n), 2), n]
    difference, told = _difference_from_others(d, case, level)
    upper = mean + scipy.stats.t.ppf(level, n - 1) * case_means.std(ddof=1) / np.sqrt(n)
    assert difference == pytest.approx(mean) and told == is_lower == (mean < -0.1 and upper < 0)
    assert _difference_from_others(d[:2], case[:2], level) == (pytest.approx(case_means[0]), False)
    two = _difference_from_others(np.array([-0.3, -0.3001]), np.arange(2), 0.95)
    assert two == (pytest.approx(-0.30005), True)


def test_pages_of_three_equal_numbers_are_flat():
    "Two numbers make no page; a missing one is none."
    x = np.array([[5.0, 5, 5, 2, 2, 7, 7, 7], [5, 5, 6, 2, 2, 7, np.nan, 7], [1, 1, 1, 3, 3, 2, 2, 2]])
    flat, pages = _flat_pages(x, np.array([0, 0, 0, 1, 1, 2, 2, 2]))
    assert (flat.tolist(), pages.tolist()) == ([2, 0, 2], [2, 1, 2])


@pytest.mark.parametrize(
    ("k", "n", "alpha", "is_too_many"),
    [(1, 3, 0.05, False), (2, 4, 0.01, True), (3, 20, 0.08, True), (3, 20, 0.07, False), (0, 0, 0.05, False)],
)
def test_slips_are_too_many_by_the_binomial_tail_of_five_percent(k, n, alpha, is_too_many):
    "From half of all on, whatever the tail is."
    assert (
        too_many(k, n, alpha) == is_too_many == (k > 0 and (2 * k >= n or scipy.stats.binom.sf(k - 1, n, 0.05) < alpha))
    )


@pytest.mark.parametrize(("n_answers", "n_pages"), [(10, 6), (9, 5), (12, 4)])
def test_ten_answers_and_five_pages_are_the_fewest_for_a_flag(n_answers, n_pages):
    "One label throughout, where others rarely give it; and one number for half of the pages."
    labels = np.full((5, n_answers), "x", dtype=object)
    labels[1:] = "y"
    assert ("one answer throughout" in flagged(labels)["r0"]) == (n_answers >= 10)
    x = np.random.default_rng(3).normal(50, 10, (3, 3 * n_pages))
    x[0, : 3 * ((n_pages + 1) // 2)] = np.repeat(np.arange((n_pages + 1) // 2), 3)
    told = f"one number for all on {(n_pages + 1) // 2} of {n_pages} pages"
    assert (told in flagged(x, clusters=np.repeat(np.arange(n_pages), 3))["r0"]) == (n_pages >= 5)


def test_a_rater_who_differs_and_is_among_the_more_accurate_is_not_flagged():
    "Columns of the table: answers, agreement, its difference from that of the others; no flag without a reason."
    labels = np.array([["a", "b", "a", "b", None], ["a", "b", "b", "b", "a"], ["a", "a", "a", "b", "a"]], dtype=object)
    found = rater_flags(labels, ["r", "s", "t"], slips={"t": Slips(2, 2, 0, 9), "x": Slips(9, 9, 9, 9)})
    agreement = [[1, 0.5, 0.5, 1], [1, 0.5, 0, 1, 1], [1, 0, 0.5, 1, 1]]
    assert found["n"].tolist() == [4, 5, 5]
    assert found["agreement"].tolist() == pytest.approx([np.mean(x) for x in agreement])
    others = [[1, 0.25, 0.25, 1], [1, 0.25, 0.5, 1, 1], [1, 0.5, 0.25, 1, 1]]
    assert found["difference"].tolist() == pytest.approx(
        [np.mean(np.subtract(a, o)) for a, o in zip(agreement, others)]
    )
    assert found["flag"].tolist() == ["", "", "missed 2 of 2 attention checks"]


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
        "studies/s/agreement/flags": pd.DataFrame(
            {"rater": ["r1", "r2", "r3"], "flag": ["", "differs from the others", None]}
        ),
        "studies/s/prepare/review": pd.DataFrame(
            {"rater": ["r2"], "reasons": ["differs from the others; a page in 2 s"]}
        ),
        "studies/s/preferences/labels": pd.DataFrame(
            {"question": ["q1", "q1", "q2", "q2"], "option": list("ABAB"), "probability": [0.9, 0.1, 0.4, 0.6]}
        ),
    }
    for name, table in tables.items():
        (tmp_path / name).parent.mkdir(parents=True)
        table.to_parquet(tmp_path / f"{name}.parquet")
    metrics = {"prepare": {"n_items": 2, "n_ratings": 12, "n_raters": 3}, "preferences": {"n_questions": 2}}
    for stage, values in metrics.items():
        (tmp_path / "metrics" / "s").mkdir(parents=True, exist_ok=True)
        (tmp_path / "metrics" / "s" / f"{stage}.json").write_text(json.dumps(values))
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


@pytest.mark.parametrize(
    ("n_other", "alpha", "is_flagged"), [(3, 0.05, False), (3, 0.08, True), (4, 0.05, True), (4, 0.02, False)]
)
def test_one_label_throughout_is_as_rare_as_the_others_labels_say(n_other, alpha, is_flagged):
    "The other gave another label to three or four of ten: (1/3)^3 = 0.037, (1/3)^4 = 0.012; two raters share alpha."
    labels = np.full((2, 10), "x", dtype=object)
    labels[1, :n_other] = "y"
    assert (
        ("one answer throughout" in flagged(labels, alpha=alpha)["r0"])
        == is_flagged
        == ((1 / 3) ** n_other < alpha / 2)
    )


def test_a_rater_differs_at_the_level_that_raters_share():
    "Similarity in a loop over items and others; flagged from the alpha on at which the t limit of three raters is 0."
    rng = np.random.default_rng(1)
    worth = rng.normal(size=24)
    x = np.vstack([-0.2 * worth + rng.normal(size=24), worth, worth + 0.3 * rng.normal(size=24)])
    z = (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True)
    similarity = np.array(
        [[np.mean([1 - (z[k] - z[o]) ** 2 / 2 for o in range(3) if o != k], axis=0)] for k in range(3)]
    )[:, 0]
    d = (similarity[0] - similarity[1:].mean(0)).reshape(12, 2).mean(1)
    t = -d.mean() / (d.std(ddof=1) / np.sqrt(12))
    alpha = 2 * 3 * scipy.stats.t.sf(t, 11)
    case = np.arange(24) // 2
    assert rater_flags(x, list("abc"), clusters=case)["difference"][0] == pytest.approx(d.mean()) and 0 < alpha < 1
    for factor in (0.98, 1.02):
        flag = flagged(x, clusters=case, alpha=factor * alpha)["r0"]
        assert ("differs from the others" in flag) == (factor > 1)


def test_who_alone_rated_pages_of_one_number_is_flagged():
    "Nobody else's pages say that it is usual."
    x = np.vstack([np.repeat(np.arange(6.0), 3), np.full(18, np.nan)])
    assert "one number for all on 6 of 6 pages" in flagged(x, clusters=np.arange(18) // 3)["r0"]
