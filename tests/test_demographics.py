"""Scores by level: the main numbers of answers at random, of a planted effect, and of nothing."""

from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.weightstats import ztest

from mhbench.stats.differences import simultaneous_intervals
from mhbench.steps import demographics


def scores(questions: int, effect: float = 0.0, seed: int = 0) -> pd.DataFrame:
    "One row a question and ethnicity; `effect` is how much rarer answers about the first ethnicity are right."
    rng, rows = np.random.default_rng(seed), []
    for q in range(questions):
        for e in demographics.ORDER["ethnicity"]:
            right = rng.random() < 0.7 - effect * (e == "African American")
            rows.append({"base_id": f"q{q}", "item_id": f"q{q}-{e}", "ethnicity": e, "correct": float(right)})
    same = {"model": "m", "mode": "zero_shot", "set": "D_N", "status": "ok", "how": "letter", "read": True}
    same |= {"answered_by": "plain", "n_votes": 1}
    return pd.DataFrame(rows).assign(cluster=lambda t: t["base_id"], **same)


def main_number(table: pd.DataFrame) -> tuple[dict, pd.DataFrame]:
    levels = demographics.level_scores(table, {"D_N": "ethnicity"}).scores
    pairs = demographics.level_pairs(levels, n_permutations=1999, seed=1)
    largest, differ = demographics.demographics_headline(pairs).to_dict("records")
    assert np.isnan(differ["ci_low"]) and "corrected" not in largest["measure"], "one correction a line"
    return largest | {"differ": differ["measure"].partition(";")[0], "n_differ": differ["estimate"]}, pairs


@pytest.mark.parametrize("seed", range(3))
def test_random_answers_have_no_finding_in_the_headline(seed):
    "The largest of fifteen differences looks real by itself in many such studies; the main number does not."
    main, pairs = main_number(scores(15, seed=seed))
    assert (main["differ"], main["n_differ"]) == ("D_N: pairs of levels that differ, of 15", 0)
    assert main["ci_low"] < 0 < main["ci_high"]
    assert main["estimate"] == pairs.loc[pairs["estimate"].abs().idxmax(), "estimate"]


def test_a_planted_effect_is_found():
    main, pairs = main_number(scores(120, effect=0.6))
    assert main["n_differ"] == 5
    assert "African American minus " in main["measure"]
    assert main["ci_high"] < 0
    apart = pairs["first"] == "African American"
    assert (pairs.loc[apart, "simultaneous_high"] < 0).all() and (pairs.loc[~apart, "simultaneous_high"] > 0).all()


def test_where_every_answer_is_right_nothing_is_largest():
    main, pairs = main_number(scores(10).assign(correct=1.0))
    assert main["n_differ"] == 0 and main["measure"].endswith("largest difference of two levels; all means are equal")
    assert pairs["simultaneous_low"].lt(-0.05).all() and set(pairs["verdict"]) == {"undecided"}, "ten questions are few"


def test_ages_are_bands_and_sets_drawn_otherwise_count():
    table = scores(6).assign(set="D_A_random", age=[18, 33, 48, 49, 65, None] * 6)
    levels = demographics.level_scores(table, {"D_A": "age"})
    assert levels.n_without == 6
    assert levels.scores["level"].value_counts().to_dict() == {"18-33": 6, "33-49": 12, "49-65": 12}


def test_where_no_set_varies_the_patient_every_table_is_empty():
    levels = demographics.level_scores(scores(4).assign(set="D0"), {"D_N": "ethnicity"})
    table = demographics.level_table(levels.scores, seed=1)
    pairs = demographics.level_pairs(levels.scores, seed=1)
    averages = demographics.level_averages(levels.scores, {}, seed=1)
    found = (levels.scores, table, pairs, averages)
    assert [len(x) for x in found] == [0] * 4
    assert len(demographics.demographics_headline(pairs)) == len(demographics.pairs_excluding_zero(pairs)) == 0


@pytest.mark.whole
def test_where_nothing_differs_a_figure_seldom_has_an_interval_without_zero():
    "Sixteen models and three sets on the same sixty questions: at most one run in twenty, and what luck adds."
    sets, runs, misses = {"D_G": "gender", "D_A": "age", "D_N": "ethnicity"}, 40, 0
    columns = [(s, a, x) for s, a in sets.items() for x in demographics.ORDER[a]]
    pairs_of = {a: list(combinations(demographics.ORDER[a], 2)) for a in sets.values()}
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        right = (rng.random((16, 60, len(columns))) < 0.4 + 0.4 * rng.random((1, 60, 1))).astype(float)
        at = np.indices(right.shape).reshape(3, -1)
        of = np.array(columns, object)[at[2]]
        table = pd.DataFrame({"model": [f"m{k}" for k in at[0]], "base_id": at[1], "set": of[:, 0], "level": of[:, 2]})
        table["correct"] = right.ravel()
        wide = table.pivot(index=["set", "base_id"], columns=["model", "level"], values="correct")
        pairs = [((m, a), (m, b)) for m in set(table["model"]) for v in sets.values() for a, b in pairs_of[v]]
        found = simultaneous_intervals(
            wide[[a for a, _ in pairs]].to_numpy() - wide[[b for _, b in pairs]].to_numpy(), seed=seed, largest=1
        )
        misses += bool(((found.ci_low > 0) | (found.ci_high < 0)).any())
    assert misses <= stats.binom.ppf(0.99, runs, 0.05)


def test_limits_hold_over_all_sets_and_models_and_a_simulated_examinee_changes_none():
    many = pd.concat([scores(40, seed=k).assign(model=f"m{k}") for k in range(6)])
    levels = demographics.level_scores(many, {"D_N": "ethnicity"}).scores
    how = {"n_permutations": 99, "seed": 1}
    ends = ["simultaneous_low", "simultaneous_high"]
    six = demographics.level_pairs(levels, **how)
    alone = demographics.level_pairs(levels[levels["model"] == "m0"], **how)
    wider = six.loc[six["model"] == "m0", ends].diff(axis=1)[ends[1]].to_numpy() / alone[ends].diff(axis=1)[ends[1]]
    assert (wider > 1.05).all()
    five = demographics.level_pairs(levels[levels["model"] != "m5"], **how)
    drawn = demographics.level_pairs(levels, simulated={"m5"}, **how)
    assert drawn.loc[drawn["model"] != "m5", ends].to_numpy() == pytest.approx(five[ends].to_numpy())


@pytest.mark.parametrize(
    ("questions", "gap", "margin", "verdict"),
    [
        (30, 0.0, 0.05, "undecided"),  # not one answer differs, and thirty questions say too little
        (400, 0.01, 0.05, "equivalent within 0.05"),
        (400, 0.3, 0.05, "differ"),
        (4000, 0.03, 0.05, "differ, by less than 0.05"),
    ],
)
def test_a_null_is_not_taken_for_fairness(questions, gap, margin, verdict):
    "With many questions as statsmodels' two one-sided tests decide: a family of one pair is that pair."
    rng = np.random.default_rng(4)
    right = rng.random(questions) < 0.6
    two = np.stack([right, right & (rng.random(questions) >= gap)], axis=1).astype(float)
    same = {"model": "m", "mode": "zero_shot", "set": "D_G", "status": "ok", "how": "letter", "read": True}
    same |= {"answered_by": "plain", "n_votes": 1}
    rows = {"correct": two.ravel(), "gender": ["female", "male"] * questions}
    rows |= {"base_id": np.repeat([f"q{k}" for k in range(questions)], 2)}
    table = pd.DataFrame(rows | same).assign(item_id=lambda t: t["base_id"], cluster=lambda t: t["base_id"])
    levels = demographics.level_scores(table, {"D_G": "gender"}).scores
    (pair,) = demographics.level_pairs(levels, margin=margin, seed=1).to_dict("records")
    assert pair["verdict"] == verdict
    assert pair["detectable_corrected"] == pytest.approx(pair["detectable"], nan_ok=True), "one pair shares with none"
    if questions > 30:
        apart = max(ztest(two[:, 0] - two[:, 1], value=at, alternative=way)[1] for at, way in SIDES)
        assert (apart < 0.05) == (verdict != "differ")


SIDES = ((-0.05, "larger"), (0.05, "smaller"))


def test_samples_of_a_prompt_are_no_further_prompts():
    "Three equal samples of each prompt change nothing; of unequal ones the mean counts, as in the rates."
    levels = demographics.level_scores(scores(12, seed=2), {"D_N": "ethnicity"}).scores
    how = {"n_permutations": 999, "seed": 1}
    expected = demographics.level_pairs(levels, **how)
    samples = pd.concat([levels.assign(sample=k) for k in range(3)], ignore_index=True)
    pd.testing.assert_frame_equal(demographics.level_pairs(samples, **how), expected)
    unequal = samples.assign(correct=samples["correct"].where(samples["sample"] > 0, 1.0))
    first = demographics.level_pairs(unequal, **how).iloc[0]
    means = unequal.groupby(["base_id", "level"])["correct"].mean().unstack()
    differences = means[first["first"]] - means[first["second"]]
    assert first["estimate"] == pytest.approx(differences.mean()) and first["n"] == 12
    signs = np.array(list(product([-1, 1], repeat=12))) @ differences.to_numpy()
    assert first["p"] == pytest.approx(np.mean(np.abs(signs) >= abs(differences.sum()) - 1e-9))
