"""How often 95% intervals hold the truth: means over models that answered the same questions, shares over cases.

    python benchmarks/coverage.py [--samples 1000]

Models have fixed abilities; questions are drawn, with difficulties of a standard deviation of 1 or 2 on the scale of
the log odds. The truth is the mean over the models of their accuracy over all such questions.
"""

import argparse

import numpy as np
import pandas as pd
from scipy.special import expit

from mhbench.stats.estimate import estimate, proportion
from mhbench.stats.pooling import half_width_se, inverse_variance_mean
from mhbench.stats.resample import bootstrap, mean
from mhbench.steps.rates import average_models

CENTRES = {"middle": 0.8, "near 1": 3.5, "near 0": -5.0}


def as_scores(right: np.ndarray) -> pd.DataFrame:  # (questions, models)
    "One row an answer, as the stage score keeps them."
    n, m = right.shape
    names = np.repeat([f"q{k}" for k in range(n)], m)
    row = {"item_id": names, "cluster": names, "model": [f"m{k}" for k in range(m)] * n, "mode": "zero_shot"}
    row |= {"answered_by": "plain", "n_votes": 1, "status": "ok", "how": "letter", "read": True}
    return pd.DataFrame(row | {"correct": right.ravel().astype(float)})


def over_models(n: int, n_models: int, spread: float, centre: float, samples: int, seed: int) -> dict[str, float]:
    "Coverage and mean width of three intervals of a mean over models."
    rng = np.random.default_rng(seed)
    ability = centre + rng.normal(0, 0.7, n_models)
    truth = expit(ability - rng.normal(0, spread, (100_000, 1))).mean()
    held, width = np.zeros(3), np.zeros(3)
    for s in range(samples):
        right = rng.random((n, n_models)) < expit(ability - rng.normal(0, spread, (n, 1)))
        ours = estimate(mean, right.mean(1), n_boot=500, seed=s, share=True)  # where all answered all, average_models
        percentile = bootstrap(mean, right.mean(1), n=500, seed=s)
        alone = [proportion(int(k), n) for k in right.sum(0)]
        se = half_width_se([e.ci_low for e in alone], [e.ci_high for e in alone])
        paper = inverse_variance_mean([e.estimate for e in alone], se)
        for k, e in enumerate((ours, percentile, paper)):
            held[k] += e.ci_low <= truth <= e.ci_high
            width[k] += e.ci_high - e.ci_low
        if s == 0:
            same = average_models(as_scores(right), by=[], n_boot=500, seed=s).iloc[0]
            assert np.allclose(same[["estimate", "ci_low", "ci_high"]].astype(float), ours[2:5], atol=0.02)
    names = ("ours", "percentile", "as the paper")
    return (
        {"truth": truth} | dict(zip(names, held / samples)) | dict(zip([f"width, {x}" for x in names], width / samples))
    )


def over_cases(cases: int, spread: float, centre: float, samples: int, seed: int) -> dict[str, float]:
    "Coverage of two intervals of a share, five answers a case."
    rng = np.random.default_rng(seed)
    truth = expit(centre + rng.normal(0, spread, 200_000)).mean()
    held = np.zeros(2)
    for s in range(samples):
        right = (rng.random((cases, 5)) < expit(centre + rng.normal(0, spread, (cases, 1)))).mean(1)
        ours, percentile = estimate(mean, right, n_boot=500, seed=s, share=True), bootstrap(mean, right, n=500, seed=s)
        held += [e.ci_low <= truth <= e.ci_high for e in (ours, percentile)]
    return {"truth": truth} | dict(zip(("ours", "percentile"), held / samples))


def main() -> None:
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--samples", type=int, default=1000)
    samples, rows = args.parse_args().samples, []
    for where, centre in CENTRES.items():
        for n_models in (4, 16):
            for spread in (1.0, 2.0):
                for n in (20, 60, 200):
                    head = {"share": where, "models": n_models, "sd": spread, "questions": n}
                    rows.append(head | over_models(n, n_models, spread, centre, samples, seed=n + n_models))
    print(pd.DataFrame(rows).round(3).to_string(index=False))
    rows = []
    for where, centre in (("middle", 0.0), ("near 1", 3.0)):
        for spread in (0.3, 1.5):
            for cases in (3, 6, 10, 20, 60):
                rows.append(
                    {"share": where, "sd": spread, "cases": cases} | over_cases(cases, spread, centre, samples, cases)
                )
    print(pd.DataFrame(rows).round(3).to_string(index=False))


if __name__ == "__main__":
    main()
