"""Duels that people judged: people are a sample."""

from functools import cache

import numpy as np
import pandas as pd

from mhbench.stats.preference import bradley_terry_batch
from mhbench.steps.by_raters import people_duel_rows

from .kind import Kind, settings

MEANS = np.array([0.6, 0.0, -0.6])  # of three contestants


def draw_duels(rng: np.random.Generator, *, people: int, items: int, each: int, own: float) -> pd.DataFrame:
    "People differ in how much they think of each contestant, and so do items."
    taste, view = own * rng.normal(size=(people, 3)), 0.5 * rng.normal(size=(items, 3))
    item = np.repeat(np.arange(items), 3 * each)
    rater = np.repeat(rng.random((items, people)).argsort(1)[:, :each], 3, axis=1).ravel()
    one, other = np.tile([[0, 0, 1], [1, 2, 2]], items * each)
    lead, row = MEANS + view[item] + taste[rater], np.arange(len(item))
    won = rng.random(len(row)) < 1 / (1 + np.exp(lead[row, other] - lead[row, one]))
    columns = {"item": item, "rater": rater, "first": one, "second": other}
    return pd.DataFrame(columns).assign(outcome=np.where(won, "first", "second"), axis="depth", kind="person")


@cache
def worth_of_the_first(own: float) -> float:
    "By Bradley and Terry's model of very many duels of new people on new items."
    lead = MEANS + np.sqrt(own**2 + 0.25) * np.random.default_rng(0).normal(size=(400_000, 3))
    wins = np.array([[(1 / (1 + np.exp(lead[:, j] - lead[:, i]))).mean() for j in range(3)] for i in range(3)])
    return float(bradley_terry_batch((wins * (1 - np.eye(3)))[None] * 1e6, penalty=0.1)[0][0, 0])


def worth_by_people(sample, seed):
    found = people_duel_rows(sample).query("measure == 'worth' and model == 0")
    return found[found["random"] == "items and raters"].iloc[0]


KINDS = [
    Kind(
        name="worth_over_raters",
        about="A worth in duels that people judged; people and items are a sample.",
        stages="duels",
        settings=settings(
            "people items each own",
            *((6, 30, 2, 0.0), (6, 100, 2, 0.7), (8, 30, 2, 0.4)),
        ),
        draw=draw_duels,
        truth=lambda own, **_: worth_of_the_first(own),
        interval=worth_by_people,
        wide="six people who do not differ: the part of raters is estimated where there is none",
    ),
]
