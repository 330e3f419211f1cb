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


SHAPES = {  # of confidences: how they are said, and how often the answer is then right
    "calibrated": (lambda rng, n: rng.uniform(0.5, 1, n), lambda said: said),
    "too sure": (lambda rng, n: rng.uniform(0.5, 1, n), lambda said: 0.5 + 0.7 * (said - 0.5)),
    "much too sure": (lambda rng, n: rng.uniform(0.5, 1, n), lambda said: 0.5 + 0.4 * (said - 0.5)),
    "in the top bin alone": (lambda rng, n: rng.choice([0.55, 0.65, 0.75, 0.85, 0.95], n, p=[0.1, 0.1, 0.1, 0.2, 0.5]),)
    + (lambda said: np.where(said > 0.9, 0.8, said),),
    "at both ends": (lambda rng, n: rng.choice([0.15, 0.35, 0.55, 0.75, 0.95], n),)
    + (lambda said: 0.55 + 0.75 * (said - 0.55),),
    "always sure": (lambda rng, n: rng.uniform(0.9, 1, n), lambda said: 0 * said + 0.75),
    "nearly certain": (lambda rng, n: rng.beta(50, 0.5, n), lambda said: 0 * said + 0.97),
    "nearly certain, calibrated": (lambda rng, n: rng.beta(50, 1, n), lambda said: said),
}


def draw_sure(rng: np.random.Generator, *, n: int, shape: str, items: int):
    "Confidences, right or wrong, and cases; answers of a case are right together more often than by chance."
    said = SHAPES[shape][0](rng, n)
    of = np.arange(n) // items
    common = np.where(rng.random(n) < (0.0 if items == 1 else 0.5), rng.random(n // items + 1)[of], rng.random(n))
    return said, (common < SHAPES[shape][1](said)).astype(float), of


def error_of_shape(*, shape: str, **_) -> float:
    said = SHAPES[shape][0](np.random.default_rng(1), 400_000)
    bins = np.ceil(said * 10 - 1e-9).astype(int)
    apart = np.bincount(bins, SHAPES[shape][1](said) - said)
    return float(np.abs(apart).sum() / len(said))


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
        about="The expected calibration error in ten bins; cases are a sample, with their items.",
        stages="score, panel",
        settings=[{"n": n, "shape": shape, "items": 1} for shape in SHAPES for n in (30, 120, 500)]
        + [{"n": 200, "shape": shape, "items": 5} for shape in SHAPES],
        draw=draw_sure,
        truth=error_of_shape,
        interval=lambda sample, seed: calibration_error(*sample[:2], clusters=sample[2]),
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
