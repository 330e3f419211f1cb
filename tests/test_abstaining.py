"""Thresholds with a guarantee: limits beside scipy's and a root found apart, levels by hand, the promise simulated."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.optimize import brentq

from mhbench.stats.abstention import BETS, error_limit, threshold_kept, thresholds_tested

RESULTS = Path(__file__).resolve().parents[1] / "benchmarks" / "results" / "abstaining.csv"


@pytest.mark.parametrize(("wrong", "kept", "alpha"), [(0, 30, 0.05), (3, 50, 0.0125), (49, 50, 0.1)])
def test_one_answer_a_case_has_the_limit_of_clopper_and_pearson(wrong, kept, alpha):
    errors = np.arange(kept) < wrong
    exact = stats.binomtest(wrong, kept, alternative="less").proportion_ci(1 - alpha, "exact").high
    assert error_limit(errors, np.ones(kept), alpha) == pytest.approx(exact, abs=1e-10)
    with_unkept = error_limit(np.append(errors, 0), np.append(np.ones(kept), 0), alpha)
    assert with_unkept == pytest.approx(exact, abs=1e-10), "an answer that is not kept says nothing"


def test_the_limit_of_cases_is_where_the_capital_reaches_one_over_alpha():
    rng = np.random.default_rng(0)
    kept = rng.integers(0, 5, 120)
    wrong = rng.binomial(kept, 0.05)

    def capital(risk):  # as the text has it: a product over cases for every bet, then their mean
        z = (wrong - risk * kept) / 4 / (1 - risk)
        return np.mean([np.prod(1 - bet * z) for bet in BETS])

    root = brentq(lambda r: np.log(capital(r)) - np.log(1 / 0.02), 0.01, 0.6)
    assert error_limit(wrong, kept, 0.02, largest=4) == pytest.approx(root, abs=1e-6)


def test_the_capital_has_an_expectation_of_one_at_the_true_risk_whatever_hangs_together():
    "All distributions of one case with two answers whose risk is r: the mean capital is at most 1, by hand exactly 1."
    risk = 0.3
    cases = [(0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2)]  # wrong, kept
    p = np.array([0.2, 0.25, 0.0, 0.2, 0.0, 0.0])
    p[[2, 4, 5]] = np.array([0.1, 0.12, 0.13])
    wrong, kept = np.array(cases).T
    risk = (p * wrong).sum() / (p * kept).sum()
    for bet in BETS:
        assert (p * (1 - bet * (wrong - risk * kept) / 2 / (1 - risk))).sum() == pytest.approx(1, abs=1e-12)


def test_a_level_is_handed_on_from_a_threshold_that_passed_and_from_no_other():
    confidence = np.repeat([1.0, 0.85, 0.75], [100, 100, 300])
    wrong = np.zeros(500)
    wrong[100:130] = 1  # 15 in 100 of what is kept at 0.8
    found = thresholds_tested(confidence, wrong, risk=0.1, delta=0.2, thresholds=(0.9, 0.8, 0.7, 0.0))
    assert found["guaranteed"].tolist() == [True, False, True, True]
    assert found["alpha"].to_numpy() == pytest.approx([0.05, 0.1, 0.05, 0.1])
    assert threshold_kept(found)["threshold"] == 0.0
    strict = thresholds_tested(confidence, wrong, risk=0.05, delta=0.2, thresholds=(0.9, 0.8))
    assert threshold_kept(strict)["threshold"] == 0.9


def test_dependence_widens_and_the_order_of_answers_changes_nothing():
    rng = np.random.default_rng(1)
    case = np.repeat(np.arange(100), 3)
    confidence, wrong = rng.random(300), (rng.random(300) < 0.04).astype(float)
    apart = thresholds_tested(confidence, wrong, risk=0.1)
    together = thresholds_tested(confidence, wrong, risk=0.1, clusters=case)
    seen = apart["n"] > 20
    assert (together.loc[seen, "limit"] > apart.loc[seen, "limit"] - 1e-3).all()
    order = rng.permutation(300)
    again = thresholds_tested(confidence[order], wrong[order], risk=0.1, clusters=case[order])
    pd.testing.assert_frame_equal(again, together)


def test_a_case_larger_than_any_is_refused():
    with pytest.raises(ValueError, match="kept at most 2"):
        thresholds_tested([0.9] * 3, [0] * 3, risk=0.1, clusters=["a"] * 3, largest=2)


def test_the_promise_fails_in_at_most_delta_of_ten_thousand_draws():
    table = pd.read_csv(RESULTS)
    assert (table["draws"] == 10_000).all()
    assert (table["promise failed"] <= table["delta"]).all()
    assert table["setting"].str.contains("alike").any() and (table["threshold found"] > 0.5).any()
    worst = table[table["setting"] == "nothing to be had"]
    assert (worst["promise failed"] == worst["threshold found"]).all() and (worst["promise failed"] > 0).all()
