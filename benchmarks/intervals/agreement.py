"""Agreement of raters, consensus, repeatability: coefficients over items in cases."""

from functools import partial

import numpy as np

from mhbench.stats.agreement import krippendorff_alpha, mean_pairwise
from mhbench.stats.jackknife import agreement_estimate

from .kind import Kind

LABELS = {
    "half": (0.5, 0.5),
    "a tenth": (0.9, 0.1),
    "3 in 100": (0.97, 0.03),
    "three": (0.5, 0.3, 0.2),
    "four": (0.4, 0.3, 0.2, 0.1),
}
PLACES = [(10, 1), (20, 1), (50, 1), (200, 1), (3, 10), (5, 10), (6, 5), (10, 10), (30, 5)]  # cases, items of each


def draw_labels(
    rng: np.random.Generator,
    *,
    raters: int,
    cases: int,
    items: int,
    labels: str,
    known: float,
    sd: float = 0.7,
    **_,
):
    "Labels of raters who know an item's class or guess; cases differ in their classes and in how easy they are."
    share, n = np.array(LABELS[labels]), cases * items
    by_case = share * np.exp(rng.normal(0, sd, (cases, len(share))))
    by_case /= by_case.sum(1, keepdims=True)
    ease = 1 / (1 + np.exp(-np.log(known / (1 - known)) - rng.normal(0, sd, cases)))
    case = np.repeat(np.arange(cases), items)
    last = len(share) - 1
    item = (rng.random(n)[:, None] > by_case.cumsum(1)[case]).sum(1).clip(max=last)
    guess = (rng.random((raters, n, 1)) > share.cumsum()).sum(2).clip(max=last)
    return np.where(rng.random((raters, n)) < ease[case], item, guess).astype(float), case


def of_many(statistic, **setting) -> float:
    "The statistic of 300,000 cases."
    few = setting | {"cases": 300_000, "items": 1}
    return float(statistic(draw_labels(np.random.default_rng(1), **few)[0]))


def _settings(raters: int, classes: tuple, places: list = PLACES) -> list[dict]:
    return [
        {"raters": raters, "cases": c, "items": i, "labels": labels, "known": known}
        for labels, known in classes
        for c, i in places
    ]


def _coefficient(sample, seed: int, measure: str = "cohen_kappa", **how):
    labels, case = sample
    return agreement_estimate(labels, measure, clusters=case, **how)


kappa = partial(mean_pairwise, metric="cohen_kappa")
MANY = [(20, 1), (50, 1), (200, 1), (5, 10), (10, 10), (30, 5)]

KINDS = [
    Kind(
        name="kappa",
        about="Cohen's kappa of two raters; cases are a sample, with their items.",
        stages="judge, errors, adjudicate, keys",
        settings=_settings(2, (("half", 0.7), ("a tenth", 0.7), ("half", 0.97), ("four", 0.2))),
        draw=draw_labels,
        truth=partial(of_many, kappa),
        interval=_coefficient,
    ),
    Kind(
        name="kappa of pairs",
        about="The mean kappa of all pairs of a panel; cases are a sample, raters are fixed.",
        stages="panel",
        settings=_settings(9, (("half", 0.9), ("a tenth", 0.7)), MANY)
        + _settings(5, (("a tenth", 0.7), ("three", 0.97), ("four", 0.2)), MANY),
        draw=draw_labels,
        truth=partial(of_many, kappa),
        interval=_coefficient,
    ),
    Kind(
        name="alpha",
        about="Krippendorff's alpha of labels without order; cases are a sample, raters are fixed.",
        stages="panel, between models, annotate",
        settings=_settings(3, (("half", 0.7), ("a tenth", 0.7), ("three", 0.97), ("four", 0.2)), MANY)
        + _settings(9, (("a tenth", 0.9),), MANY),
        draw=draw_labels,
        truth=partial(of_many, partial(krippendorff_alpha, level="nominal")),
        interval=partial(_coefficient, measure="krippendorff_alpha"),
    ),
    Kind(
        name="alpha of places",
        about="Krippendorff's alpha of ordered labels; cases are a sample, raters are fixed.",
        stages="panel, annotate",
        settings=_settings(3, (("3 in 100", 0.8), ("three", 0.9), ("four", 0.2)), [(10, 1), *MANY]),
        draw=draw_labels,
        truth=partial(of_many, partial(krippendorff_alpha, level="ordinal")),
        interval=partial(_coefficient, measure="krippendorff_alpha", scale="ordinal"),
    ),
]
