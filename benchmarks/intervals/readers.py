"""Numbers that people's ratings make, where raters and items are both a sample."""

from functools import cache, partial

import numpy as np
from scipy import stats

from mhbench.stats.multi_reader import mean_over_raters, over_raters

from .kind import Kind, cases_of

PARTS = {
    "few know": (0.05, 0.3),
    "most know": (0.3, 0.7),
}  # share of variance of items where raters have none, and some
ACTIVE = {
    8: [0.95, 0.9, 0.9, 0.8, 0.7, 0.6, 0.5, 0.3],
    6: [1.0, 0.9, 0.8, 0.7, 0.6, 0.5],
}  # share of items that each rates


def who_rated(rng: np.random.Generator, items: int, raters: int, design: str) -> np.ndarray:  # (items, raters) bool
    "All; two of them for each item; or each a part, of unequal size."
    if design == "all":
        return np.ones((items, raters), bool)
    if design == "two each":
        return np.argsort(rng.random((items, raters)), axis=1) < 2
    seen = rng.random((items, raters)) < np.array(ACTIVE[raters])
    seen[~seen.any(1), 0] = True
    return seen


def latent(rng: np.random.Generator, *, items: int, raters: int, item: float, rater: float) -> np.ndarray:
    "Scores (items, raters) of variance 1, with these shares of items and of raters."
    rest = 1 - item - rater
    of_item, of_rater = rng.normal(0, np.sqrt(item), (items, 1)), rng.normal(0, np.sqrt(rater), raters)
    return of_item + of_rater + rng.normal(0, np.sqrt(rest), (items, raters))


def draw_scores(
    rng, *, items: int, raters: int, item: float, rater: float, design: str = "all", cut: float | None = None
):
    y = latent(rng, items=items, raters=raters, item=item, rater=rater)
    y = y if cut is None else (y > cut).astype(float)
    at = np.nonzero(who_rated(rng, items, raters, design))
    return y[at], *at


def range_of(values: np.ndarray) -> tuple[float, float]:
    return (0, 1) if np.isin(values, (0, 1)).all() else (-np.inf, np.inf)


def severity_of(rng: np.random.Generator, raters: int, shape: str) -> np.ndarray:
    "Of mean 0 and variance 1, but for workloads that go with severity."
    z = rng.normal(size=raters)
    if shape == "skewed":
        return (np.exp(0.8 * z) - np.exp(0.32)) / np.sqrt(np.exp(1.28) - np.exp(0.64))
    if shape == "one in six":
        return (0.3 * z + (rng.random(raters) < 1 / 6) - 1 / 6) / np.sqrt(0.09 + 5 / 36)
    if shape == "camps":
        return (0.3 * z + rng.choice([-1.0, 1.0], raters)) / np.sqrt(1.09)
    if shape == "schools":
        return 0.6 * z + 0.8 * np.repeat(rng.normal(size=2), -(-raters // 2))[:raters]
    return z


def draw_shape(rng, *, items: int, raters: int, rater: float, shape: str, cut: float | None = None):
    "Severities of a shape; where workload is unequal or goes with severity, each rates a part."
    own = severity_of(rng, raters, shape)
    rest = rng.normal(0, np.sqrt(0.3), (items, 1)) + rng.normal(0, np.sqrt(0.7 - rater), (items, raters))
    y = rest + np.sqrt(rater) * own
    y = y if cut is None else (y < cut).astype(float)
    seen = np.ones(y.shape, bool)
    if "workload" in shape:
        order = own if shape == "informative workload" else rng.random(raters)
        seen = rng.random(y.shape) < np.linspace(1, 0.3, raters)[order.argsort().argsort()]
        seen[~seen.any(1), 0] = True
    at = np.nonzero(seen)
    return y[at], *at


@cache
def mean_of_shape(*, rater: float, shape: str, cut: float | None = None, **_) -> float:
    if cut is None:
        return 0.0
    own = severity_of(np.random.default_rng(0), 400_000, shape if shape != "schools" else "normal")
    return float(stats.norm.cdf((cut - np.sqrt(rater) * own) / np.sqrt(1 - rater)).mean())


def mean_score(*, cut: float | None = None, **_) -> float:
    return 0.0 if cut is None else float(stats.norm.sf(cut))


def draw_cases(rng, *, cases: int, items: int, raters: int, case: float, item: float, rater: float):
    y = latent(rng, items=cases * items, raters=raters, item=item, rater=rater)
    of = cases_of(cases, items)
    y = y + rng.normal(0, np.sqrt(case), cases)[of, None]
    at = np.nonzero(np.ones(y.shape))
    return y[at], *at, of[at[0]]


def draw_labels(rng, *, items: int, raters: int, item: float, rater: float, judge: float = 0.0):
    "Labels (raters, items) that hang on one scale, and a judge's, who sees `judge` of what items differ in."
    of_item = rng.normal(0, np.sqrt(item), items)
    noise = rng.normal(0, np.sqrt(1 - item - rater), (raters, items))
    people = of_item + rng.normal(0, np.sqrt(rater), (raters, 1)) + noise > 0
    own = of_item * np.sqrt(judge) + rng.normal(0, np.sqrt(item * (1 - judge) + 1e-9), items) > 0
    return people.astype(float), own.astype(float)


def kappas(people: np.ndarray, own: np.ndarray, weights: np.ndarray) -> np.ndarray:  # (R, B), of 0/1 labels
    total = weights.sum(1)
    p, q = people @ weights.T / total, own @ weights.T / total
    chance = p * q + (1 - p) * (1 - q)
    same = (people == own).astype(float) @ weights.T / total
    return (same - chance) / (1 - chance)


def judge_with_people(people: np.ndarray, weights: np.ndarray, own: np.ndarray) -> np.ndarray:
    return kappas(people, own, weights).mean(0)


@cache
def kappa_of_people(raters: int, item: float, rater: float, judge: float) -> float:
    "The mean kappa over 20,000 people, by their severity; each of 4,000 items."
    rng = np.random.default_rng(0)
    found = [draw_labels(rng, items=4000, raters=40, item=item, rater=rater, judge=judge) for _ in range(500)]
    return float(np.mean([judge_with_people(people, np.ones((1, 4000)), own)[0] for people, own in found]))


def kappa_of_pairs(people: np.ndarray, weights: np.ndarray) -> np.ndarray:  # (B,), of 0/1 labels (R, N)
    return np.mean([kappas(people[k + 1 :], people[k], weights).mean(0) for k in range(len(people) - 1)], axis=0)


@cache
def kappa_of_any_two(item: float, rater: float) -> float:
    "The mean kappa of two people over 1,000 panels of 40; each of 4,000 items."
    rng = np.random.default_rng(1)
    found = [draw_labels(rng, items=4000, raters=8, item=item, rater=rater)[0] for _ in range(400)]
    return float(np.mean([kappa_of_pairs(people, np.ones((1, 4000)))[0] for people in found]))


CROSSED = [
    {"items": items, "raters": raters, "item": item, "rater": rater}
    for raters in (4, 6, 8, 10, 30)
    for items, item, rater in ((20, 0.3, 0.0), (20, 0.05, 0.5), (200, 0.3, 0.1), (200, 0.05, 0.0), (200, 0.3, 0.5))
]
HOLES = [
    {"items": items, "raters": raters, "item": item, "rater": rater, "design": design}
    for items, raters, design in ((60, 6, "two each"), (60, 8, "a part"))
    for item, rater in ((0.3, 0.1), (0.3, 0.5))
]
LABELS = [
    {"items": items, "raters": raters, "item": 0.5, "rater": rater, "judge": judge}
    for raters in (6,)
    for items, item, rater, judge in (
        (30, 0.5, 0.3, 0.5),
        (200, 0.5, 0.1, 0.9),
    )
]

KINDS = [
    Kind(
        name="mean_over_raters",
        about="A mean of people's ratings; raters and items are a sample.",
        stages="agreement, panel, judge_study, score, duels",
        settings=[
            *CROSSED,
            {"items": 1000, "raters": 8, "item": 0.2, "rater": 0.44},
            *({"items": 50, "raters": r, "item": 0.3, "rater": 0.2, "cut": c} for r in (6, 8) for c in (0.0, 1.3)),
            *HOLES,
        ],
        draw=draw_scores,
        truth=mean_score,
        interval=lambda sample, seed: mean_over_raters(*sample, within=range_of(sample[0])).both,
    ),
    Kind(
        name="mean_over_raters_shapes",
        about="A mean of ratings of raters whose severities are skewed, of kinds or schools, at a ceiling, or tied to"
        " their workload; raters and items are a sample.",
        stages="agreement, panel, judge_study, score, duels",
        settings=[
            {"items": 40, "raters": raters, "rater": rater, "shape": shape, **more}
            for shape, sizes in (
                ("skewed", (6, 8)),
                ("one in six", (6, 8)),
                ("camps", (6,)),
                ("workload", (8,)),
                ("informative workload", (8,)),
            )
            for raters in sizes
            for rater, more in ((0.1, {}), (0.4, {}), (0.1, {"cut": 1.5}))[: 3 if "work" not in shape else 2]
        ],
        draw=draw_shape,
        truth=lambda **setting: mean_of_shape(**setting),
        interval=lambda sample, seed: mean_over_raters(*sample, within=range_of(sample[0])).both,
        wide="near the ceiling: few ratings have the rarer value",
    ),
    Kind(
        name="mean_over_raters_cases",
        about="A mean of people's ratings of items in cases; raters and cases are a sample.",
        stages="agreement, panel, judge_study, score",
        settings=[
            {"cases": cases, "items": items, "raters": raters, "case": case, "item": 0.2, "rater": rater}
            for cases, items in ((6, 10), (20, 5))
            for raters in (6,)
            for case, rater in ((0.3, 0.0), (0.3, 0.3))
        ],
        draw=draw_cases,
        truth=mean_score,
        interval=lambda sample, seed: mean_over_raters(*sample[:3], cases=sample[3]).both,
    ),
    Kind(
        name="kappa_with_people",
        about="Cohen's kappa of a judge with a person, on average over people; raters and items are a sample.",
        stages="panel, judge_study",
        settings=LABELS,
        draw=draw_labels,
        truth=lambda items, **setting: kappa_of_people(**{**setting, "raters": 0}),
        interval=lambda sample, seed: (
            over_raters(partial(judge_with_people, own=sample[1]), sample[0], within=(-1, 1)).both
        ),
    ),
    Kind(
        name="kappa_of_two_people",
        about="Cohen's kappa of two people, on average over pairs; raters and items are a sample.",
        stages="panel",
        settings=[
            {"items": items, "raters": raters, "item": 0.5, "rater": rater}
            for raters in (6, 8)
            for items, rater in ((30, 0.0),)
        ],
        draw=lambda rng, **setting: draw_labels(rng, **setting)[0],
        truth=lambda items, raters, item, rater: kappa_of_any_two(item, rater),
        wide="raters who do not differ: their part is estimated where there is none",
        interval=lambda people, seed: over_raters(kappa_of_pairs, people, within=(-1, 1)).both,
    ),
]
