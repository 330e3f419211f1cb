"Interval, test and sentence of one row are one inference, and hold for all that the sentence names."

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mhbench.report.findings import best_in_words
from mhbench.report.tables import differences_in_words
from mhbench.stats.consensus import agreement_with_members
from mhbench.stats.differences import difference_limits, difference_p, least_p
from mhbench.steps.between_models import model_pairs
from mhbench.steps.by_raters import mean_rows


@settings(max_examples=60, deadline=None)
@given(st.integers(6, 40), st.integers(1, 4), st.floats(0, 1), st.floats(0, 1), st.integers(0, 2**32))
def test_a_difference_is_significant_exactly_where_its_interval_leaves_0(cases, size, win, lose, seed):
    rng = np.random.default_rng(seed)
    share = np.array([win, lose, 1]) / (win + lose + 1)
    d = rng.choice([1.0, -1.0, 0.0], cases * size, p=share)
    of = np.repeat(np.arange(cases), size)
    p = difference_p(d, of, largest=1.0)
    _, low, high = difference_limits(d, of, largest=1.0)
    assert (p < 0.05) == bool(low > 0 or high < 0) or abs(p - 0.05) < 1e-6
    assert size > 1 or p >= least_p(cases, cases) - 1e-9
    assert -1 <= low <= high <= 1


def test_five_cases_and_six_questions_cannot_show_a_difference_and_the_sentence_says_so():
    rows = []
    for model, right in (("a", 1.0), ("b", 0.0), ("c", 0.0)):
        for k in range(24):
            row = {"item_id": f"q{k}", "cluster": f"c{k % 5}", "model": model, "mode": "zero_shot", "correct": right}
            rows.append(row | {"answered_by": "plain", "read": True, "status": "ok", "how": "letter", "n_votes": 1})
    pairs = model_pairs(pd.DataFrame(rows).assign(answer=[["A"]] * len(rows), sample=0))
    assert (pairs["least_p"] == 1).all() and pairs["p_adjusted"].isna().all()
    told = differences_in_words(pairs["p_adjusted"], pairs["least_p"], pairs["n_clusters"])
    assert told == "none of 3 comparisons can show a difference: 5 cases cannot show one"
    assert pairs["detectable_corrected"].isna().all()
    single = pd.DataFrame(rows)
    single = single[single["item_id"].isin([f"q{k}" for k in range(6)])].assign(cluster=lambda t: t["item_id"])
    four = pd.concat([single, single.query("model == 'c'").assign(model="d")])
    pairs = model_pairs(four.assign(answer=[["A"]] * len(four), sample=0))
    assert (pairs["least_p"] > 0.05).all() and (pairs["p_adjusted"] > 0.05).all()
    told = differences_in_words(pairs["p_adjusted"], pairs["least_p"], pairs["n_clusters"])
    assert told == "none of 6 comparisons can show a difference: 6 cases cannot show one"
    mixed = differences_in_words(pd.Series([0.01, 0.5, np.nan]), pd.Series([0.0, 0.2, 1.0]))
    assert mixed.endswith(", 1 not tested; 2 with too few cases to show one")


def panel(seed, raters, answers, sd, judge):
    "Labels of raters whose skills differ, and of a judge, on answers in cases of three."
    rng = np.random.default_rng(seed)
    ease = 1.5 + rng.normal(0, 0.7, answers // 3 + 1)[np.arange(answers) // 3] + rng.normal(0, 0.7, answers)
    skill = np.r_[rng.normal(0, sd, raters), judge][:, None]
    truth = rng.random(answers) < 0.6
    right = rng.random((raters + 1, answers)) < 1 / (1 + np.exp(-skill - ease))
    labels = np.where(right == truth, "Correct", "Incorrect").astype(object)
    labels[:-1][(rng.random((raters, answers)) < 0.08) & (ease < 1)] = "Abstain"
    return labels[-1], labels[:-1], np.arange(answers) // 3


@pytest.mark.parametrize("raters", [3, 5, 8])
def test_a_judge_worse_by_the_margin_is_hardly_ever_no_worse(raters):
    "-1.53 is the skill at which the expected difference is -.1, where raters' skills have a standard deviation of 1."
    found = []
    for seed in range(60):
        judge, labels, cases = panel(seed, raters, 200, 1.0, -1.53)
        found.append(agreement_with_members(judge, labels, clusters=cases).verdict(0.1))
    assert found.count("non-inferior") <= 6  # .05 of 60 and three standard errors


def test_eight_raters_find_an_equal_judge_no_worse():
    found = []
    for seed in range(20):
        judge, labels, cases = panel(seed, 8, 800, 0.5, -0.26)
        found.append(agreement_with_members(judge, labels, clusters=cases).verdict(0.1))
    assert found.count("non-inferior") >= 15


def test_an_abstention_is_no_answer_and_raters_too_few_are_named():
    judge, labels, cases = panel(1, 6, 400, 0.3, 0.0)
    whole = agreement_with_members(judge, labels, clusters=cases)
    silent = judge.copy()
    silent[::2] = "Abstain"
    half = agreement_with_members(silent, labels, clusters=cases)
    assert half.n_abstained == 200 and half.difference.n == whole.difference.n == 400
    assert half.agreement < 0.6 * whole.agreement and half.verdict(0.1) == "inferior"
    two = agreement_with_members(judge, labels[:2], clusters=cases)
    assert two.difference.kind == "raters" and two.verdict(0.1) == "undecided, for want of raters"
    judge, labels, cases = panel(2, 3, 400, 1.0, 0.0)
    three = agreement_with_members(judge, labels, clusters=cases)
    assert three.verdict(0.1) == "undecided, for want of raters" and three.needed(0.1) > 3


def test_sixteen_models_that_guess_make_no_winner():
    "Each has an interval of its own; chance stands above one of them in a sixth of such runs, and above all in few."
    rng = np.random.default_rng(1)
    above = won = 0
    for _ in range(60):
        right = rng.binomial(200, 0.25, 16) / 200
        half = 1.96 * np.sqrt(right * (1 - right) / 200)
        rows = pd.DataFrame({"model": [f"m{k}" for k in range(16)], "origin": "asked", "n": 200, "estimate": right})
        said = best_in_words(rows.assign(ci_low=right - half, ci_high=right + half, level=0.95), {"chance": 0.25})
        above += ": above chance" in said
        won += "is the most accurate" in said
    assert above <= 8 and won == 0


@settings(max_examples=40, deadline=None)
@given(st.integers(4, 7), st.integers(6, 25), st.floats(0, 1), st.floats(0.3, 1), st.integers(0, 2**32))
def test_two_random_factors_are_never_narrower_than_one(raters, items, severity, share, seed):
    rng = np.random.default_rng(seed)
    item, rater = (x.ravel() for x in np.indices((items, raters)))
    value = rng.normal(0, 1, items)[item] + rng.normal(0, severity, raters)[rater] + rng.normal(0, 0.5, len(item))
    value[rng.random(len(item)) > share] = np.nan
    rows = mean_rows(pd.DataFrame({"value": value, "item": item, "rater": rater, "case": item}), {})
    if rows and not np.isnan(rows[1]["ci_low"]):
        one, two = rows
        assert two["ci_low"] <= one["ci_low"] and two["ci_high"] >= one["ci_high"]
