"""Shares and means over items in cases."""

from functools import partial

import numpy as np
import pandas as pd
from scipy.special import expit
from scipy.stats import norm

from mhbench.stats.estimate import estimate, proportion
from mhbench.stats.resample import mean
from mhbench.steps.rates import average_models

from .kind import Kind, cases_of, normal_mean

CENTRES = {"middle": 0.0, "near 1": 3.0}
SIZES = {
    "1 to 20": lambda k: np.round(np.geomspace(1, 20, k)).astype(int),
    "one of 20": lambda k: np.r_[20, [2] * (k - 1)],
}


def of_sizes(cases: int, items: int | str) -> np.ndarray:
    return cases_of(cases, SIZES[items](cases) if isinstance(items, str) else items)


def draw_cases(rng: np.random.Generator, *, cases: int, items: int | str, where: str, sd: float):
    "Right or wrong of each item; items of a case share its ease."
    of = of_sizes(cases, items)
    ease = CENTRES[where] + rng.normal(0, sd, cases)
    return (rng.random(len(of)) < expit(ease)[of]).astype(float), of


def share_of_cases(*, where: str, sd: float, **_) -> float:
    return normal_mean(lambda z: expit(CENTRES[where] + sd * z))


LOSSES = {  # of a uniform variable: the loss, and its mean
    "score": (lambda u: np.round(60 + 15 * norm.ppf(u)), 60.0),
    "cross-entropy": (lambda u: -np.log1p(-u), 1.0),
    "Brier score": (lambda u: u**4, 0.2),
}


def draw_losses(rng: np.random.Generator, *, cases: int, items: int | str, loss: str, alike: float):
    "A loss of each item; items of a case are correlated."
    of = of_sizes(cases, items)
    z = np.sqrt(alike) * rng.normal(size=cases)[of] + np.sqrt(1 - alike) * rng.normal(size=len(of))
    return LOSSES[loss][0](norm.cdf(z)), of


def draw_models(rng: np.random.Generator, *, items: int, models: int, centre: float, sd: float) -> pd.DataFrame:
    "Answers of models of several abilities to the same questions."
    ability = centre + np.linspace(-1, 1, models)
    right = rng.random((items, models)) < expit(ability - rng.normal(0, sd, (items, 1)))
    names = [f"q{k}" for k in range(items)]
    table = pd.DataFrame({"item_id": np.repeat(names, models), "model": [f"m{k}" for k in range(models)] * items})
    said = {"mode": "zero_shot", "answered_by": "plain", "n_votes": 1, "status": "ok", "how": "letter", "read": True}
    return table.assign(cluster=table["item_id"], correct=right.ravel().astype(float), **said)


def share_of_models(*, models: int, centre: float, sd: float, **_) -> float:
    return normal_mean(lambda z: expit(centre + np.linspace(-1, 1, models)[:, None] - sd * z).mean(0))


def over_models(sample: pd.DataFrame, seed: int):
    return average_models(sample, by=[], n_boot=300, seed=seed).iloc[0]


OVER_CASES = partial(
    Kind,
    draw=draw_cases,
    truth=share_of_cases,
    interval=lambda sample, seed: estimate(mean, sample[0], clusters=sample[1], n_boot=500, seed=seed, share=True),
)

KINDS = [
    OVER_CASES(
        name="share",
        about="A share of right answers; cases are a sample, with their questions.",
        stages="score, demographics, competency, agreement",
        settings=[
            {"cases": cases, "items": items, "where": where, "sd": 1.0}
            for where in CENTRES
            for items in (1, 10)
            for cases in (2, 3, 5, 6, 10, 30, 100)
        ],
        wide="small counts",
    ),
    OVER_CASES(
        name="share over unequal cases",
        about="A share of right answers; cases are a sample, of unequal sizes or very unlike one another.",
        stages="score, demographics, competency, agreement, subsets of any table",
        settings=[
            {"cases": cases, "items": items, "where": where, "sd": sd}
            for where, sd in (("middle", 1.0), ("middle", 2.0), ("near 1", 1.0), ("near 1", 2.0))
            for cases, items in ((6, "1 to 20"), (10, "1 to 20"), (10, "one of 20"), (10, 5), (30, "1 to 20"))
        ],
        wide="small counts of wrong answers",
    ),
    Kind(
        name="count",
        about="A share of independent units, from its count; units are a sample.",
        stages="contamination, errors, cues, adjudication",
        settings=[{"n": n, "share": p} for p in (0.02, 0.1, 0.5, 0.8, 0.98) for n in (2, 5, 10, 30, 100, 1000)],
        draw=lambda rng, *, n, share: (int(rng.binomial(n, share)), n),
        truth=lambda *, n, share: share,
        interval=lambda sample, seed: proportion(*sample),
        wide="small counts",
    ),
    Kind(
        name="mean over cases",
        about="A mean of scores or losses; cases are a sample, with their items.",
        stages="score (cross-entropy, Brier), judge, judge_study, freeform",
        settings=[
            {"cases": cases, "items": items, "loss": loss, "alike": 0.3}
            for loss in LOSSES
            for cases, items in ((5, 1), (6, 1), (6, 5), (10, 1), (10, "1 to 20"), (10, "one of 20"), (30, 1), (30, 5))
        ],
        draw=draw_losses,
        truth=lambda *, loss, **_: LOSSES[loss][1],
        interval=lambda sample, seed: estimate(mean, sample[0], clusters=sample[1], n_boot=500, seed=seed),
    ),
    Kind(
        name="average over models",
        about="The mean share of several models that answered the same questions; questions are a sample.",
        stages="score, demographics",
        settings=[
            {"items": items, "models": models, "centre": centre, "sd": sd}
            for items, models in ((10, 4), (30, 2), (30, 16), (100, 30))
            for centre, sd in ((0.5, 1.0), (3.0, 2.0))
        ],
        draw=draw_models,
        truth=share_of_models,
        interval=over_models,
        wide="ten questions, of which few are missed",
    ),
]
