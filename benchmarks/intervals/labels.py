"""Shares of a label where the truth is not known and raters err."""

import numpy as np
from scipy.special import expit, logit

from mhbench.stats.estimate import Estimate
from mhbench.stats.label_models import dawid_skene

from .kind import Kind


def draw_panel(
    rng: np.random.Generator,
    *,
    raters: int,
    items: int,
    each: int,
    correct: float,
    core: int = 0,
    low: float = 0.70,
    hard: float = 0.0,
    students: int = 1,
):
    """Labels (R, N) of `each` raters an item, of the core by all; every rater is right on `low` to .95 of each class,
    less on hard items: their log odds differ by a standard deviation of `hard` from item to item; and whose they are.
    """
    chance = np.full(items, correct) if students == 1 else rng.beta(4 * correct, 4 * (1 - correct), items)
    truth = (rng.random((students, items)) >= chance).astype(int).ravel()
    item, n = np.tile(np.arange(items), students), items * students
    known = logit(rng.uniform(low, 0.95, (raters, 2)))[:, truth] + hard * rng.normal(size=items)[item]
    labels = np.where((rng.random((raters, n)) < expit(known)) == (truth == 0), "Correct", "Incorrect").astype(object)
    asked = np.where(np.arange(items) < core, raters, each)
    labels[rng.random((raters, items)).argsort(0).argsort(0)[:, item] >= asked[item]] = None
    return labels, np.repeat(np.arange(students), items), item


def fresh(rng: np.random.Generator, **setting):
    "Of a stream of its own: no draw of it was seen when the rule was settled."
    return draw_panel(rng.spawn(1)[0], **setting)


def share(sample, seed: int):
    "Of the first student, without limits, as `students_by_way` prints it; with them: `before/labelled_share.csv`."
    labels, student, _ = sample
    fit = dawid_skene(labels, groups=student)
    return Estimate.from_limits(fit.shares[0, fit.probability.classes.index("Correct")], n=int((student == 0).sum()))


KINDS = [
    Kind(
        name="labelled_share",
        about="The share of correct answers by Dawid and Skene's model; items are a sample. None is shown.",
        stages="panel",
        settings=[
            {"raters": 7, "items": 250, "each": 7, "correct": 0.75},
            {"raters": 12, "items": 300, "each": 12, "correct": 0.6},
            {"raters": 6, "items": 500, "each": 6, "correct": 0.8},
            {"raters": 20, "items": 600, "each": 5, "correct": 0.65},
            {"raters": 10, "items": 300, "each": 3, "correct": 0.7, "core": 80},
            {"raters": 5, "items": 200, "each": 5, "correct": 0.6},
            {"raters": 8, "items": 150, "each": 8, "correct": 0.5},
            {"raters": 8, "items": 300, "each": 8, "correct": 0.7, "low": 0.55},
            {"raters": 6, "items": 150, "each": 6, "correct": 0.65, "students": 3},
            {"raters": 9, "items": 300, "each": 9, "correct": 0.7, "hard": 0.5},
            {"raters": 9, "items": 300, "each": 9, "correct": 0.7, "hard": 1.0},
            {"raters": 5, "items": 300, "each": 5, "correct": 0.7, "hard": 1.0},
        ],
        draw=fresh,
        truth=lambda *, correct, **_: correct,
        interval=share,
    ),
]
