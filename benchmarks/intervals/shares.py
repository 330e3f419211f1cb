"""Shares and means over items in cases."""

import numpy as np
from scipy.special import expit

from mhbench.stats.estimate import estimate
from mhbench.stats.resample import mean

from .kind import Kind

CENTRES = {"middle": 0.0, "near 1": 3.0}


def draw_cases(rng: np.random.Generator, *, cases: int, items: int, where: str, sd: float):
    "Right or wrong of each item; items of a case share its ease."
    ease = CENTRES[where] + rng.normal(0, sd, cases)
    right = rng.random((cases, items)) < expit(ease)[:, None]
    return right.ravel().astype(float), np.repeat(np.arange(cases), items)


def share_of_cases(*, where: str, sd: float, **_: int) -> float:
    x = np.linspace(-8, 8, 4001)
    density = np.exp(-(x**2) / 2)
    return float((expit(CENTRES[where] + sd * x) * density).sum() / density.sum())


KINDS = [
    Kind(
        name="share",
        about="A share of right answers; cases are a sample, with their questions.",
        stages="score, demographics, competency, agreement",
        settings=[
            {"cases": cases, "items": items, "where": where, "sd": 1.0}
            for where in CENTRES
            for items in (1, 10)
            for cases in (2, 3, 5, 6, 10, 30, 100)
        ],
        draw=draw_cases,
        truth=share_of_cases,
        interval=lambda sample, seed: estimate(mean, sample[0], clusters=sample[1], n_boot=500, seed=seed, share=True),
    ),
]
