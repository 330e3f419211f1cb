"""Differences: on the same units, on different ones, and many of them at once."""

import numpy as np

from mhbench.stats.differences import group_difference, mean_difference, simultaneous_intervals
from mhbench.stats.estimate import Estimate

from .kind import Kind, cases_of

SIZES = {  # of cases; several sizes are repeated
    "ones": [1],
    "tens": [10],
    "1 to 20": [1, 1, 1, 2, 2, 3, 5, 8, 12, 20],
}
EASY = {"discordant": 0.1, "won": 0.06}  # most pairs are the same: 8 of 100 only the first has right, 2 the second
EVEN = {"discordant": 0.06, "won": 0.0}
MANY = {"discordant": 0.4, "won": 0.2}


def sizes_of(cases: int, size: str) -> np.ndarray:
    return np.resize(SIZES[size], cases)


def draw_pairs(
    rng: np.random.Generator, *, cases: int, size: str, discordant: float, won: float, alike: float, answers: int
):
    "Differences of right and wrong, shares over `answers` of a question; questions of a case share their shares."
    shares = np.array([(discordant + won) / 2, (discordant - won) / 2, 1 - discordant])
    of = cases_of(cases, sizes_of(cases, size))
    shares = np.broadcast_to(shares, (cases, 3))
    if alike:
        mass = rng.gamma(shares * (1 - alike) / alike)
        shares = mass / mass.sum(1, keepdims=True)
    counts = rng.multinomial(answers, shares[of])
    return (counts[:, 0] - counts[:, 1]) / answers, of


SHAPES = {  # of what a case adds, with mean 0
    "normal": lambda rng, n: rng.normal(0, 1, n),
    "two exponentials": lambda rng, n: rng.exponential(1, n) - rng.exponential(0.5, n) - 0.5,
    "exponential": lambda rng, n: rng.exponential(1, n) - 1,  # as where one model's losses are 0
    "gamma": lambda rng, n: rng.gamma(2, 0.7, n) - 1.4,
    "heavy": lambda rng, n: rng.standard_t(3, n) / np.sqrt(3),
}


def draw_points(rng: np.random.Generator, *, cases: int, size: str, shape: str, noise: float):
    "Differences of points; items of a case share what it adds."
    of = cases_of(cases, sizes_of(cases, size))
    return 5 + 10 * (SHAPES[shape](rng, cases)[of] + noise * rng.normal(0, 1, len(of))), of


def draw_two(
    rng: np.random.Generator, *, first: int, second: int, size: str, shares: tuple, alike: float, common: bool
):
    "Right or wrong in two groups of cases: others, or the same ones."
    groups = []
    mass = rng.beta(1.0, 1.0, first + second)  # its rank is the case's ease in either group
    for at, (cases, share) in enumerate(zip((first, second), shares)):
        of = cases_of(cases, sizes_of(cases, size))
        u = mass[:cases] if common or at == 0 else mass[first : first + cases]
        ease = share + alike * (u - 0.5) * 2 * min(share, 1 - share)
        own = 0 if common else 1000 * at  # cases of one group alone
        groups.append(((rng.random(len(of)) < ease[of]).astype(float), of + own))
    return groups


def difference_of_two(groups, seed: int) -> Estimate:
    (x, of), (y, other) = groups
    second = np.repeat([False, True], [len(x), len(y)])
    return group_difference(np.concatenate([x, y]), second, np.concatenate([of, other]), share=True)


def draw_family(rng: np.random.Generator, *, questions: int, levels: int, models: int, sets: int, changed: float):
    "Right or wrong of each model under each level of an attribute, of which none matters; every two levels a pair."
    n = questions * sets
    right = rng.random((n, 1, 1)) < np.linspace(0.6, 0.9, models)[:, None]
    x = (right ^ (rng.random((n, models, levels)) < changed)).astype(float)
    first, second = np.triu_indices(levels, 1)
    pairs = (x[:, :, first] - x[:, :, second]).reshape(n, 1, -1)
    own = np.arange(n)[:, None, None] // questions == np.arange(sets)[:, None]
    return np.where(own, pairs, np.nan).reshape(n, -1)  # a set has questions of its own


def worst_of_family(differences: np.ndarray, seed: int) -> Estimate:
    "The interval that lies furthest from 0, which is true of all."
    s = simultaneous_intervals(differences, n=500, seed=seed, largest=1)
    known = np.flatnonzero(~np.isnan(s.ci_low))
    if not len(known):
        return Estimate.from_limits(np.nan, n=0)
    k = known[np.argmax(np.maximum(s.ci_low, -s.ci_high)[known])]
    return Estimate.from_limits(s.estimate[k], s.ci_low[k], s.ci_high[k], n=int(s.n[k]), kind="t")


def settings_of_pairs() -> list[dict]:
    alone = [{"cases": n, "size": "ones", "alike": 0.0, "answers": 1} for n in (5, 10, 30, 100, 1000)]
    cases = [{"cases": k, "size": "tens", "alike": 0.1, "answers": 1} for k in (2, 3, 4, 6, 10, 30)]
    uneven = [{"cases": k, "size": "1 to 20", "alike": 0.3, "answers": 1} for k in (10, 30)]
    graded = [{"cases": k, "size": "ones", "alike": 0.3, "answers": 3} for k in (10, 30)]
    return [a | b for a in alone + cases + uneven + graded for b in (EASY, EVEN, MANY)]


KINDS = [
    Kind(
        name="paired_share",
        about="The difference of two shares on the same questions; cases are a sample, with their questions.",
        stages="score, demographics, competency, profile, formats, books, compare",
        settings=settings_of_pairs(),
        draw=draw_pairs,
        truth=lambda won, **_: won,
        interval=lambda sample, seed: mean_difference(*sample, largest=1),
        wide="few pairs that differ",
    ),
    Kind(
        name="paired_points",
        wide="ten cases of 1 to 20 items leave two degrees of freedom, and their skewness is known as little",
        about="The mean difference of points on the same questions; cases are a sample, with their questions.",
        stages="score, judge_study, duels",
        settings=[
            {"cases": k, "size": size, "shape": shape, "noise": noise}
            for shape, noise in (("normal", 1.0), ("two exponentials", 1.0), ("exponential", 0.0), ("gamma", 0.3))
            for size in SIZES
            for k in (5, 6, 10, 30, 100)
            if size != "1 to 20" or k >= 10
        ]
        + [{"cases": k, "size": "ones", "shape": "heavy", "noise": 0.0} for k in (7, 12, 40)],
        draw=draw_points,
        truth=lambda **_: 5.0,
        interval=lambda sample, seed: mean_difference(*sample),
    ),
    Kind(
        name="difference_of_two_groups",
        about="The difference of two shares on different questions; cases are a sample, with their questions.",
        stages="competency",
        settings=[
            {"first": a, "second": b, "size": size, "shares": shares, "alike": 0.5, "common": False}
            for shares in ((0.7, 0.5), (0.97, 0.9))
            for size, a, b in (
                ("ones", 20, 20),
                ("ones", 30, 200),
                ("tens", 4, 10),
                ("tens", 10, 10),
                ("tens", 30, 100),
                ("1 to 20", 20, 20),
            )
        ]
        + [
            {"first": k, "second": k, "size": size, "shares": (0.7, 0.5), "alike": alike, "common": True}
            for k, size, alike in ((10, "tens", 0.9), (30, "ones", 0.9), (30, "tens", 0.5), (20, "1 to 20", 0.9))
        ],
        draw=draw_two,
        truth=lambda shares, **_: shares[0] - shares[1],
        interval=difference_of_two,
        wide="few wrong answers in a group",
    ),
    Kind(
        name="all_pairs_at_once",
        about="Differences of levels over sets and models, all at once, where none matters; questions are a sample.",
        stages="demographics, judge_study",
        settings=[
            {"questions": q, "levels": levels, "models": models, "sets": sets, "changed": changed}
            for changed in (0.02, 0.2)
            for levels, models, sets in ((2, 1, 1), (6, 1, 1), (3, 16, 3))
            for q in ((6, 20, 200) if sets == 1 else (10, 60))
        ],
        draw=draw_family,
        truth=lambda **_: 0.0,
        interval=worst_of_family,
        wide="few pairs that differ",
    ),
]
