"""Shares of a label where the truth is not known and raters err."""

import numpy as np

from mhbench.stats.label_models import dawid_skene_shares

from .kind import Kind


def draw_panel(rng: np.random.Generator, *, raters: int, items: int, each: int, correct: float, core: int = 0):
    "Labels (R, N) of `each` raters an item, of the core by all; every rater is right on .70 to .95 of each class."
    truth = (rng.random(items) >= correct).astype(int)
    right = rng.random((raters, items)) < rng.uniform(0.70, 0.95, (raters, 2))[:, truth]
    labels = np.where(right == (truth == 0), "Correct", "Incorrect").astype(object)
    labels[rng.random((raters, items)).argsort(0).argsort(0) >= np.where(np.arange(items) < core, raters, each)] = None
    return labels


KINDS = [
    Kind(
        name="labelled_share",
        about="The share of correct answers by Dawid and Skene's model; items are a sample, raters are not.",
        stages="panel",
        settings=[
            {"raters": raters, "items": items, "each": each, "correct": correct, "core": core}
            for raters, items, each, correct, core in (
                (9, 200, 9, 0.7, 0),
                (9, 40, 9, 0.7, 0),
                (9, 200, 9, 0.95, 0),
                (9, 1000, 9, 0.95, 0),
                (9, 100, 3, 0.7, 0),
                (9, 400, 2, 0.7, 60),
                (5, 40, 5, 0.5, 0),
                (5, 100, 5, 0.7, 0),
                (5, 100, 5, 0.95, 0),
                (5, 400, 5, 0.95, 0),
            )
        ],
        draw=draw_panel,
        truth=lambda *, correct, **_: correct,
        interval=lambda labels, seed: dawid_skene_shares(labels, "Correct", groups=np.zeros(labels.shape[1]))[0.0],
    ),
]
