"""Averages over models: intervals that know that all models answered the same questions, and who counts."""

import copy
import math

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from mhbench.run.params import load_params, stage_parameters
from mhbench.stats.estimate import inverse_variance_mean
from mhbench.steps.rates import average_models, by_category, paper_averages, rate_table


def scores(right, **more) -> pd.DataFrame:
    "One row an answer; `right` is (questions, models)."
    n, m = np.shape(right)
    names = [f"q{k}" for k in range(n)]
    row = {"item_id": np.repeat(names, m), "cluster": np.repeat(names, m), "model": [f"m{k}" for k in range(m)] * n}
    row |= {"mode": "zero_shot", "answered_by": "plain", "n_votes": 1, "status": "ok", "how": "letter", "read": True}
    return pd.DataFrame(row | {"correct": np.ravel(right).astype(float), "category": "all of them"} | more)


@pytest.mark.parametrize(
    "n, centre, spread, old",  # `old`: as if the sixteen were independent, the interval holds no more than this
    [(20, 0.8, 2.0, 0.75), (20, 3.5, 1.0, 0.65), (60, 0.8, 1.0, 0.85), (60, -4.0, 2.0, 0.7)],
)
@pytest.mark.whole
def test_the_interval_of_a_mean_over_models_holds(n, centre, spread, old):
    samples, n_models = 200, 16
    rng = np.random.default_rng(7)
    ability = centre + rng.normal(0, 0.7, n_models)
    truth = expit(ability - rng.normal(0, spread, (100_000, 1))).mean()
    ours, papers = 0, 0
    for s in range(samples):
        asked = scores(rng.random((n, n_models)) < expit(ability - rng.normal(0, spread, (n, 1))))
        e = average_models(asked, by=[], n_boot=300, seed=s).iloc[0]
        ours += e["ci_low"] <= truth <= e["ci_high"]
        if s < 30:
            p = paper_averages(rate_table(asked, by=[], n_boot=100, seed=s, method="percentile"), ["by"]).iloc[0]
            papers += p["ci_low"] <= truth <= p["ci_high"]
    assert ours >= 0.9 * samples and papers <= old * 30


def test_nobody_right_is_as_unsure_as_the_questions_are_few():
    e = average_models(scores(np.zeros((5, 8))), by=[], seed=1).iloc[0]
    assert (e["estimate"], e["n_models"], e["n"]) == (0, 8, 5) and e["ci_high"] == pytest.approx(1 - 0.025 ** (1 / 5))
    table = pd.DataFrame([e]).assign(by="category", group="documentation")
    assert by_category(table).iloc[0, 1] == "0.00 [0.00, 0.52]"


def test_a_model_with_few_questions_leaves_the_mean_without_an_interval_and_is_not_left_out():
    many, few = scores(np.tile([[1], [0]], (20, 1))), scores(np.array([[0], [0]]), model="few")
    e = average_models(pd.concat([many, few]), by=[], seed=1).iloc[0]
    assert (e["estimate"], e["n"], e["n_clusters"], e["averaged"]) == (0.25, 2, 2, "m0, few")
    assert e["interval"] == "few" and np.isnan(e["ci_low"])
    alone = average_models(pd.concat([many, few[:1]]), by=[], seed=1).iloc[0]
    assert alone["n_clusters"] == 1 and np.isnan(alone["ci_low"]), "one question says nothing of others"


def test_a_model_counts_once_and_who_does_not_is_named():
    x = scores(np.tile([[1, 0, 1]], (12, 1)))
    x.loc[x["model"] == "m2", "model"] = "z"
    silent = x[x["model"] == "m0"].assign(model="silent", read=False, correct=0.0)
    counted = {"groups": {"both": ["m1", "z"]}, "same": {"m1": "m0"}, "simulated": {"z"}}
    found = average_models(pd.concat([x, silent]), by=[], **counted, seed=1)
    first, group = found.to_dict("records")
    assert first["averaged"] == "m0" and first["estimate"] == 1
    reasons = {"z: simulated", "m1: the same model as m0", "silent: no answer that counts"}
    assert set(first["left_out"].split("; ")) == reasons
    assert (group["averaged"], group["left_out"]) == ("m1", "z: simulated")


def test_models_lie_apart_only_beyond_luck():
    rng = np.random.default_rng(2)
    q = []
    for s in range(60):
        asked = scores(rng.random((100, 6)) < expit(rng.normal(0, 2, (100, 1))))
        q.append(average_models(asked, by=[], n_boot=200, seed=s)["q"][0])
    assert 4 < np.mean(q) < 6  # five degrees of freedom, whatever the questions share


def test_entries_of_one_served_model_are_one_model(root):
    p = copy.deepcopy(load_params(root / "params.yaml"))
    p["models"]["worded"] = p["models"]["qwen-0.5b"] | {
        "max_tokens": {"answer": 80}
    }  # the same weights, otherwise asked
    p["run"]["models"].append("worded")
    for stage in ("score", "demographics"):
        given = stage_parameters(p, stage, "mentat")
        assert given["same_model"] == {"worded": "qwen-0.5b"}  # and qwen-1.5b is another model


@pytest.mark.parametrize("estimates, se", [([0.5, math.inf], [0.1, 0.1]), ([0.5, 0.6], [0.1, math.inf])])
def test_one_value_that_is_no_number_is_refused(estimates, se):
    with pytest.raises(ValueError, match="estimates must be finite"):
        inverse_variance_mean(estimates, se)


def test_the_papers_average_counts_whom_it_leaves_out():
    "Equal weights, since an interval without a width gets the smallest error of the others; c has no interval."
    ends = {"estimate": [0.2, 0.4, 0.9], "ci_low": [0.1, 0.4, math.nan], "ci_high": [0.3, 0.4, math.nan]}
    table = pd.DataFrame({"by": "all", "group": "all", "model": ["a", "b", "c"], **ends})
    found = paper_averages(table, ["by", "group"]).iloc[0]
    assert found[["n_models", "n_left_out"]].tolist() == [2, 1] and found["estimate"] == pytest.approx(0.3)
    nobody = paper_averages(table[1:], ["by", "group"]).iloc[0]
    assert nobody[["n_models", "n_left_out"]].tolist() == [1, 1] and math.isnan(nobody["estimate"])
