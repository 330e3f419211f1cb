"""Models compared within items, against statsmodels and exact enumeration; runs compared, against counts by hand."""

from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from statsmodels.stats.contingency_tables import mcnemar as statsmodels_mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestPower

from mhbench.stats.bias import self_enhancement
from mhbench.stats.tests import adjust_p, sign_flip_test
from mhbench.steps.between_models import model_pairs, run_to_run


def answers(model, right, *, sample=0, said=None, clusters=None, mode="zero_shot", **more):
    names = [f"q{i}" for i in range(len(right))]
    row = {"item_id": names, "cluster": clusters or names, "model": model, "mode": mode, "sample": sample}
    row |= {"answered_by": "plain", "n_votes": 1, "status": "ok", "how": "letter", "read": True, "temperature": 0.0}
    letters = [[x] for x in (said or ["A" if r == 1 else "B" for r in right])]
    return pd.DataFrame(row | {"correct": np.array(right, float), "answer": letters} | more)


@pytest.fixture(scope="module")
def three():
    rng = np.random.default_rng(11)
    hard = rng.random(60)
    right = {m: (rng.random(60) < 0.3 + a * hard).astype(float) for m, a in (("a", 0.6), ("b", 0.3), ("c", 0.0))}
    right["c"][50:] = np.nan  # no answer to ten questions
    return right


def test_every_pair_is_tested_on_the_items_of_both(three):
    table = model_pairs(pd.concat([answers(m, x) for m, x in three.items()]))
    assert list(zip(table["first"], table["second"], strict=True)) == [("a", "b"), ("a", "c"), ("b", "c")]
    assert table["n"].tolist() == [60, 50, 50] and table["n_left_out"].tolist() == [0, 10, 10]
    for r in table.itertuples():
        x, y = (three[m][: r.n] for m in (r.first, r.second))
        assert r.estimate == pytest.approx(x.mean() - y.mean())
        counts = [[((x == i) & (y == j)).sum() for j in (1, 0)] for i in (1, 0)]
        exact = statsmodels_mcnemar(counts, exact=True).pvalue
        assert r.p_mcnemar == pytest.approx(exact) and r.p == pytest.approx(exact, abs=0.1)
        assert (r.p < 0.05) == (r.ci_low > 0 or r.ci_high < 0), "one inference a row"
        assert (r.only_first, r.only_second) == (counts[0][1], counts[1][0])
    holm = multipletests(table["p"], method="holm")[1]
    assert table["p_adjusted"].tolist() == pytest.approx(holm.tolist())


def test_the_detectable_difference_is_the_one_of_an_independent_package(three):
    table = model_pairs(pd.concat([answers(m, three[m]) for m in "ab"]))
    d = three["a"] - three["b"]
    effect = TTestPower().solve_power(nobs=60, alpha=0.05, power=0.8)
    assert table["detectable"].item() == pytest.approx(effect * d.std(ddof=1), rel=0.03)  # normal beside t
    assert table["detectable_corrected"].item() == pytest.approx(table["detectable"].item())  # one test


@pytest.mark.parametrize("seed", range(3))
def test_signs_of_whole_clusters_are_flipped(seed):
    rng = np.random.default_rng(seed)
    d, of = rng.normal(0.4, 1, 14), rng.integers(0, 6, 14)
    total = np.array([d[of == c].sum() for c in np.unique(of)])
    sums = [abs(np.dot(s, total)) for s in product((1, -1), repeat=len(total))]
    exact = np.mean(np.array(sums) >= abs(total.sum()) - 1e-9)
    assert sign_flip_test(d, of, seed=1) == pytest.approx(exact)
    assert sign_flip_test(d, of, n=20, seed=1) == pytest.approx(exact, abs=0.35)  # drawn, not gone through


def test_items_of_one_case_count_as_one_when_it_comes_to_what_can_be_seen(three):
    alone = model_pairs(pd.concat([answers(m, three[m]) for m in "ab"]))
    cases = [f"c{i // 10}" for i in range(60)]
    whole = model_pairs(pd.concat([answers(m, three[m], clusters=cases) for m in "ab"]))
    assert whole["n_clusters"].item() == 6 and np.isnan(whole["p_mcnemar"].item())
    assert whole["estimate"].item() == alone["estimate"].item() and whole["p"].item() >= 2 / 2**6


def test_samples_of_self_consistency_are_compared_by_their_majority_alone():
    votes = [answers("a", [1, 1, 0], sample=k, answered_by="sample") for k in range(3)]
    other = answers("b", [0, 1, 0], answered_by="majority")
    both = pd.concat([*votes, answers("a", [1, 1, 0], answered_by="majority"), other])
    table = model_pairs(both)
    assert table[["answered_by", "n"]].to_numpy().tolist() == [["majority", 3]]


def test_runs_of_a_model(three):
    said = [list("ABCAB"), list("ABCBB"), list("ABDCB")]
    key = list("ABCAC")
    runs = [
        answers("m", [float(x == k) for x, k in zip(s, key, strict=True)], said=s, sample=n, temperature=0.7)
        for n, s in enumerate(said)
    ]
    table = run_to_run(pd.concat(runs)).set_index("measure")
    agree = [np.mean([a == b for a, b in combinations(x, 2)]) for x in zip(*said, strict=True)]
    assert table["estimate"]["same answer"] == pytest.approx(np.mean(agree))
    right = [[x == k for x, k in zip(s, key, strict=True)] for s in said]
    verdicts = [np.mean([a == b for a, b in combinations(x, 2)]) for x in zip(*right, strict=True)]
    assert table["estimate"]["same verdict"] == pytest.approx(np.mean(verdicts))
    assert table["estimate"]["spread of accuracy"] == pytest.approx(np.std(np.mean(right, axis=1), ddof=1))
    # nominal alpha by its definition: observed disagreement within items over that among all values
    within = 1 - np.mean(agree)
    values = [v for s in said for v in s]
    between = np.mean([a != b for a, b in combinations(values, 2)])
    assert table["estimate"]["Krippendorff's alpha of answers"] == pytest.approx(1 - within / between)
    assert (table["n"] == 5).all() and (table["n_runs"] == 3).all()


def test_a_run_without_an_answer_is_counted_and_an_unread_one_agrees_with_none():
    runs = [answers("m", [1, 1], sample=k, temperature=1.0) for k in range(3)]
    runs[1].loc[0, ["status", "correct", "read"]] = ["error", np.nan, False]
    runs[2].loc[1, "read"] = False
    table = run_to_run(pd.concat(runs)).set_index("measure")
    assert table["estimate"]["same answer"] == pytest.approx((1 + 1 / 3) / 2)
    assert table["n_unread"].unique().tolist() == [1] and table["n_failed"].unique().tolist() == [1]


def test_far_ahead_is_significant_among_552_tests():
    "24 models in two modes: the difference of the best is none that a number of draws could hide."
    rng = np.random.default_rng(3)
    parts = []
    for mode in ("zero_shot", "few_shot"):
        for k in range(24):
            right = rng.random(120) < (0.98 if k == 0 else 0.4)
            parts.append(answers(f"m{k:02}", right, mode=mode))
    table = model_pairs(pd.concat(parts))
    assert len(table) == 552
    ahead = table[table["first"] == "m00"]
    assert ahead["estimate"].min() > 0.4 and ahead["p_adjusted"].max() < 1e-6
    assert table["p"].to_numpy() == pytest.approx(table["p_mcnemar"].to_numpy(), abs=0.15)


def test_scores_without_a_unit_are_drawn_until_their_family_can_be_decided():
    d = np.random.default_rng(4).normal(3, 1, 40)
    assert sign_flip_test(d, seed=1) == 1 / 10_001
    assert sign_flip_test(d, seed=1, tests=552) == 1 / 220_801
    open_at_once = np.random.default_rng(5).normal(0, 1, 40)
    assert sign_flip_test(open_at_once, seed=1) == sign_flip_test(open_at_once, seed=1, tests=552)
    with pytest.warns(UserWarning, match="smallest p possible is 1e-06"):
        sign_flip_test(d[:25], seed=1, tests=60_000)


@pytest.mark.parametrize("seed", range(3))
def test_signs_of_unequal_cases_are_exact(seed):
    rng = np.random.default_rng(seed)
    total = rng.integers(-4, 5, 14)
    sums = np.array([np.dot(s, total) for s in product((1, -1), repeat=14)])
    assert sign_flip_test(total / 3, n=10, seed=1) == pytest.approx(
        (np.abs(sums) >= abs(total.sum())).mean(), abs=1e-12
    )


def test_the_favour_of_one_judge_among_26_is_significant():
    rng = np.random.default_rng(6)
    names = [f"j{k}" for k in range(26)]
    x = (rng.random((26, 26, 150)) < 0.5).astype(float)
    x[0, 0] = rng.random(150) < 0.98
    found = self_enhancement(x, names, names, {n: n for n in names}, n=100, seed=1)
    p = adjust_p([b.row()["p_value"] for b in found])
    assert p[0] < 1e-6 and (p[1:] > 0.05).all()
