"""Means and differences of a release of ratings, of 20 personas x 3 models; personas and raters are a sample."""

from functools import partial

import numpy as np
import pandas as pd
from scipy.stats import norm

from mhbench.records.described import RatingTable, Scale
from mhbench.steps.rated import means_and_differences

from .kind import Kind, Limits, of_row

PERSONAS, MODELS = 20, 3
LEVEL = np.array([0.0, 0.4, 0.8])  # of each model, on a scale behind the labels
PARTS = {"persona": 0.25, "rater": 0.15, "persona model": 0.1, "rater model": 0.05, "persona rater": 0.15, "rest": 0.3}
STEPS = ["low", "middle", "high"]
SCALES = {
    "1 to 6": (Scale.of("1..6"), np.array([-1.2, -0.4, 0.2, 0.8, 1.5])),
    "four labels": (Scale.of({"steps": STEPS, "beside": ["not relevant"]}), np.array([-0.3, 0.9])),
}


def draw_release(rng: np.random.Generator, *, raters: int, each: int, scale: str) -> RatingTable:
    "Ratings of each persona with each model by `each` of the raters; of four labels one is no step of the scale."
    shape = PERSONAS, MODELS, raters
    at = dict(zip(("persona", "model", "rater"), np.indices(shape)))
    y = LEVEL[at["model"]]
    for names, part in PARTS.items():
        own = [at[n] for n in names.split()] if names != "rest" else list(at.values())
        sizes = [shape[list(at).index(n)] for n in names.split()] if names != "rest" else list(shape)
        y = y + np.sqrt(part) * rng.normal(size=sizes)[tuple(own)]
    kind, cuts = SCALES[scale]
    score = 1.0 + np.searchsorted(cuts, y.ravel())
    beside = (rng.random(score.size) < 0.1) & bool(kind.beside)
    label = np.array(kind.steps)[score.astype(int) - 1] if kind.steps else score.astype(int).astype(str)
    persona, model, rater = (np.char.add(n[0], i.ravel().astype(str)) for n, i in at.items())
    columns = {"item": np.char.add(persona, model), "target": model, "rater": rater, "kind": "person"}
    columns |= {"label": np.where(beside, "not relevant", label), "score": np.where(beside, np.nan, score)}
    columns |= dict.fromkeys(("criterion", "repeat", "session", "place"), "") | dict.fromkeys(("n", "sd"), np.nan)
    frame = pd.DataFrame(columns | {"within.persona": persona})
    rated = rng.random(shape).argsort(-1).argsort(-1).ravel() < each
    return RatingTable("drawn", "drawn", {"": kind}, frame[rated], pd.DataFrame(), [], [], "simulated")


def mean_of(model: int, scale: str) -> float:
    "The mean of a model over all personas and raters: the sum of the parts is normal, of variance 1."
    return float(1 + norm.sf(SCALES[scale][1] - LEVEL[model]).sum())


def row_of(table: RatingTable, seed: int, *, target: str, against: str) -> Limits:
    wanted = table.frame["target"].isin([target, against])  # a row rests on these alone
    t = means_and_differences(table._replace(frame=table.frame[wanted].sort_values("target", kind="stable")))
    [row] = t[(t["target"] == target) & (t["against"] == against) & (t["for"] == "items and raters")].to_dict("records")
    return of_row(row)


SETTINGS = [
    {"raters": raters, "each": each, "scale": scale}
    for scale in SCALES
    for raters, each in ((6, 6), (8, 8), (6, 3), (4, 4))
]
KINDS = [
    Kind(
        name="mean_of_a_release",
        about="A model's mean in a release of ratings; personas and raters are a sample.",
        stages="ratings",
        settings=SETTINGS,
        draw=draw_release,
        truth=lambda scale, **_: mean_of(0, scale),
        interval=partial(row_of, target="m0", against=""),
    ),
    Kind(
        name="difference_of_a_release",
        about="The difference of two models in a release of ratings; personas and raters are a sample.",
        stages="ratings",
        settings=SETTINGS,
        draw=draw_release,
        truth=lambda scale, **_: mean_of(0, scale) - mean_of(1, scale),
        interval=partial(row_of, target="m0", against="m1"),
    ),
]
