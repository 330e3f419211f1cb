"""Few labels of people and many verdicts of a judge."""

import numpy as np

from mhbench.stats.estimate import Estimate
from mhbench.stats.prediction_powered import prediction_powered

from .judges import verdicts
from .kind import Kind, cases_of

SIZES = [  # labelled, others, answers a case
    {"labels": n, "others": m, "items": i}
    for n, m, i in (
        *((20, 200, 1), (50, 500, 1), (200, 1000, 1), (20, 20, 1)),
        *((20, 200, 2), (60, 500, 5), (200, 2000, 10)),
    )
]
JUDGES = [  # the last is a coin, that before it nearly always right
    {"theta": 0.7, "q1": 0.85, "q0": 0.8},
    {"theta": 0.95, "q1": 0.9, "q0": 0.8},
    {"theta": 0.1, "q1": 0.65, "q0": 0.65},
    {"theta": 0.5, "q1": 0.65, "q0": 0.65},
    {"theta": 0.7, "q1": 0.98, "q0": 0.98},
    {"theta": 0.7, "q1": 0.5, "q0": 0.5},
]


def labelled(rng: np.random.Generator, labels: int, others: int, items: int, mixed: bool) -> np.ndarray:
    "Which answers have a label: whole cases, or answers of any case."
    has = np.arange(labels + others) < labels
    return rng.permutation(has) if mixed else has


def draw_labels(rng: np.random.Generator, *, labels: int, others: int, items: int, mixed: bool = False, **judge: float):
    said, good, of = verdicts(rng, (labels + others) // items, items, **judge, sd=0.0 if items == 1 else 1.0)
    has = labelled(rng, labels, others, items, mixed)
    return np.where(has, good, np.nan), said.astype(float), of


def draw_scores(rng: np.random.Generator, *, labels: int, others: int, items: int, rho: float, skew: bool, mixed=False):
    of = cases_of((labels + others) // items, items)

    def noise() -> np.ndarray:
        own = rng.normal(size=len(of))
        return own if items == 1 else np.sqrt(0.4) * rng.normal(size=of[-1] + 1)[of] + np.sqrt(0.6) * own

    t = noise()
    true = np.exp(0.6 * t) if skew else t
    has = labelled(rng, labels, others, items, mixed)
    return np.where(has, true, np.nan), 0.5 + rho * t + np.sqrt(1 - rho**2) * noise(), of


def draw_strata(rng: np.random.Generator, *, labels: int, bank: int, matched: float):
    "A fifth of the labels are of answers that match the key, which are a third of the bank; they are right more often."
    match = np.arange(bank) < bank // 3
    good = rng.random(bank) < np.where(match, matched, 0.4)
    said = np.where(rng.random(bank) < 0.85, good, ~good)
    has = np.zeros(bank, bool)
    has[: labels // 5] = True
    has[bank // 3 : bank // 3 + labels - labels // 5] = True
    return np.where(has, good, np.nan), said.astype(float), match


def share(sample, seed: int) -> Estimate:
    people, judge, of = sample
    return prediction_powered(people, judge, clusters=of, share=True).both


def score(sample, seed: int) -> Estimate:
    people, judge, of = sample
    return prediction_powered(people, judge, clusters=of).both


def stratified(sample, seed: int) -> Estimate:
    people, judge, match = sample
    return prediction_powered(people, judge, strata=match, share=True).both


MIXED = [{"labels": n, "others": m, "items": i, "mixed": True} for n, m, i in ((60, 240, 5), (200, 1000, 10))]
KINDS = [
    Kind(
        name="share of people and judge",
        about="The share that people would call right, from few labels and a judge; cases are a sample.",
        stages="judge, panel, standings, judge_study",
        settings=[size | judge for size in SIZES + MIXED for judge in JUDGES],
        draw=draw_labels,
        truth=lambda theta, **_: theta,
        interval=share,
        wide="a judge that hardly errs, or a share near 0 or 1: few of the labels differ from what the judge says,"
        " and the errors among twenty labels are a count from 0 to 2; ten labelled cases, with few degrees of freedom",
    ),
    Kind(
        name="mean of people and judge",
        about="The mean that people would give, from few scores and a judge; cases are a sample.",
        stages="judge, standings, judge_study",
        settings=[
            s | {"rho": r, "skew": k} for s in (SIZES[0], SIZES[5], MIXED[1]) for r in (0.3, 0.9) for k in (False, True)
        ],
        draw=draw_scores,
        truth=lambda skew, **_: float(np.exp(0.18)) if skew else 0.0,
        interval=score,
        wide="ten labelled cases, whose likeness is estimated from pairs",
    ),
    Kind(
        name="stratified share of people and judge",
        about="The same of a bank whose strata were labelled at different rates; answers are a sample.",
        stages="panel",
        settings=[{"labels": n, "bank": b, "matched": m} for n, b in ((40, 300), (100, 900)) for m in (0.9, 0.6)],
        draw=draw_strata,
        truth=lambda matched, **_: (matched + 2 * 0.4) / 3,
        interval=stratified,
    ),
]
