"""Limits that hold whenever one stops: a sample is a whole run, its interval what all its looks have in common."""

import numpy as np

from mhbench.stats.anytime import confidence_sequence, observed

from .kind import Kind, Limits, settings

MODELS = {"same": ((1.0, 0.0),), "apart": ((1.0, 0.1),), "skewed": ((0.1, -0.9), (0.9, 0.1))}  # (of cases, difference)


def ease(rng: np.random.Generator, cases: int, share: float, alike: float) -> np.ndarray:
    "The share of each case that is right; `alike` is the correlation of two questions of a case."
    if alike == 0:
        return np.full(cases, share)
    scale = (1 - alike) / alike
    return rng.beta(share * scale, (1 - share) * scale, cases)


def turns(rng: np.random.Generator, cases: int, items: int) -> np.ndarray:  # (cases * items,) the case of each
    "One question of each case, in one random order of cases, then another of each."
    return np.tile(rng.permutation(cases), items)


def draw_share(rng: np.random.Generator, *, cases: int, items: int, share: float, alike: float, batch: int):
    of = turns(rng, cases, items)
    right = (rng.random(len(of)) < ease(rng, cases, share, alike)[of]).astype(float)
    return right, of if items > 1 else None, 0.0, batch


def draw_difference(rng: np.random.Generator, *, cases: int, items: int, models: str, alike: float, batch: int):
    "Two models that differ in two questions of five, or in nine of ten of a case that one of them loses."
    of = turns(rng, cases, items)
    kinds = MODELS[models]
    kind = rng.choice(len(kinds), cases, p=[share for share, _ in kinds])
    mean = np.array([difference for _, difference in kinds])[kind]
    differ = np.where(np.abs(mean) > 0.4, 0.9, 0.4)
    won = np.array([ease(rng, 1, s, alike)[0] for s in (1 + mean / differ).clip(1e-3, 2 - 1e-3) / 2])[of]
    sign = np.where(rng.random(len(of)) < won, 1.0, -1.0)
    return sign * (rng.random(len(of)) < differ[of]), of if items > 1 else None, -1.0, batch


def at_every_look(sample, seed: int) -> Limits:
    "The highest lower and the lowest upper limit: they hold the truth if every look does."
    values, of, low, batch = sample
    looks = [*range(min(20, batch * 5), len(values), batch), len(values)]
    seen = np.where(np.arange(len(values))[:, None] < np.array(looks), values[:, None], np.nan)
    lower, upper = confidence_sequence(observed(seen, of, low=low))
    return Limits(lower.max(), upper.min())


WIDE = "one promise for all looks, of which each alone is wider than it needs to be"
KINDS = [
    Kind(
        "share while asking",
        "The share that is right, at every look of a run that may stop at any of them",
        "generate with compare.stop",
        settings(
            "cases items share alike batch",
            *((n, 1, share, 0.0, batch) for n, batch in ((40, 5), (300, 20)) for share in (0.1, 0.5, 0.9)),
            (100, 1, 0.7, 0.0, 1),
            *((40, 5, share, 0.3, 20) for share in (0.5, 0.9)),
        ),
        draw_share,
        lambda share, **_: share,
        at_every_look,
        wide=WIDE,
    ),
    Kind(
        "difference while asking",
        "The difference of two models' shares, at every look of a run that may stop at any of them",
        "generate with compare.stop",
        settings(
            "cases items models alike batch",
            *((n, 1, models, 0.0, batch) for n, batch in ((40, 5), (300, 20)) for models in ("same", "apart")),
            (100, 1, "apart", 0.0, 1),
            *((40, 5, models, 0.3, 20) for models in ("same", "apart", "skewed")),
        ),
        draw_difference,
        lambda models, **_: sum(share * difference for share, difference in MODELS[models]),
        at_every_look,
        wide=WIDE,
    ),
]
