"""Scores of classes and confidences: F1, calibration error, risk and coverage."""

import numpy as np
from scipy.special import expit

from mhbench.stats.abstention import risk_coverage
from mhbench.stats.calibration import calibration_error
from mhbench.stats.estimate import Estimate, estimate
from mhbench.stats.metrics import f1

from .kind import Kind

LETTERS, OFTEN = np.array(list("ABCD")), np.array([0.4, 0.3, 0.2, 0.1])


def draw_letters(rng: np.random.Generator, *, cases: int, items: int, accuracy: float):
    "Keys, answers and cases; cases differ in ease, wrong answers are any other letter."
    of = np.repeat(np.arange(cases), items)
    ease = np.log(accuracy / (1 - accuracy)) + rng.normal(size=cases)
    key = rng.choice(4, len(of), p=OFTEN)
    wrong = (key + rng.integers(1, 4, len(of))) % 4
    return LETTERS[key], LETTERS[np.where(rng.random(len(of)) < expit(ease)[of], key, wrong)], of


def f1_of_letters(*, accuracy: float, **_) -> float:
    key, said, _ = draw_letters(np.random.default_rng(1), cases=300_000, items=1, accuracy=accuracy)
    return f1(key, said)


def macro_f1(sample, seed: int) -> Estimate:
    key, said, of = sample
    classes = sorted(set(key))
    score = lambda t, s, weights: f1(t, s, classes=classes, weights=weights)
    return estimate(score, key, said, clusters=of, n_boot=300, seed=seed, share=True)


def draw_confidence(rng: np.random.Generator, *, n: int, slope: float):
    "Confidences, and whether the answers are right: as often as said with slope 1, less with a lower one."
    said = rng.uniform(0.5, 1, n)
    return said, rng.random(n) < 0.5 + slope * (said - 0.5)


def area_under_risk(*, slope: float, **_) -> float:
    said, right = draw_confidence(np.random.default_rng(1), n=2_000_000, slope=slope)
    wrong = 1 - right[np.argsort(-said)]
    return float((wrong.cumsum() / np.arange(1, len(wrong) + 1)).mean())


KINDS = [
    Kind(
        name="macro F1",
        about="Macro F1 over four letters, of which the rarest is the key of a tenth; cases are a sample.",
        stages="score, competency, profile, classification",
        settings=[
            {"cases": cases, "items": items, "accuracy": accuracy}
            for accuracy in (0.6, 0.93)
            for cases, items in ((12, 1), (30, 1), (100, 1), (8, 5), (10, 10))
        ],
        draw=draw_letters,
        truth=f1_of_letters,
        interval=macro_f1,
        wide="few items of the rarest letter",
    ),
    Kind(
        name="calibration error",
        about="The expected calibration error in ten bins; items are a sample.",
        stages="score",
        settings=[{"n": n, "slope": slope} for slope in (1.0, 0.7, 0.4) for n in (30, 120, 500)],
        draw=draw_confidence,
        truth=lambda *, slope, **_: (1 - slope) * 0.25,
        interval=lambda sample, seed: calibration_error(*sample),
        wide="an error is 0 or more, and the bias of the chance gaps is bounded, not known",
    ),
    Kind(
        name="area under risk and coverage",
        about="The mean share of wrong answers among the most confident; items are a sample.",
        stages="score",
        settings=[{"n": n, "slope": slope} for slope in (1.0, 0.4) for n in (15, 30, 120)],
        draw=draw_confidence,
        truth=area_under_risk,
        interval=lambda sample, seed: Estimate.from_interval(
            risk_coverage(*(np.asarray(x, float) for x in sample), n=300, seed=seed).area, share=True
        ),
    ),
]
