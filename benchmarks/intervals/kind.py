"""What a kind of interval declares, and what declarations share."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm


@dataclass(frozen=True)
class Kind:
    "A kind of interval: how samples are drawn, what the truth is, and the function that a stage calls."

    name: str  # of its table of results
    about: str  # one sentence: the number and what is random in it
    stages: str  # where it is printed
    settings: list[dict[str, Any]]  # arguments of draw and truth, one dict a row of the table
    draw: Callable[..., Any]  # (rng, **setting): a sample
    truth: Callable[..., float]  # (**setting): the number in the population that the sample is from
    interval: Callable[[Any, int], Any]  # (sample, seed): something with ci_low and ci_high, NaN where none is shown
    truth_of: Callable[[Any], float] | None = None  # of one sample, where the number is chosen by it (the best of many)
    wide: str = ""  # why it covers more than .97 in some settings
    narrow: str = ""  # where it covers less than .92, as its notebook and the tables that show it say


class Limits(NamedTuple):
    "An interval by itself."

    ci_low: float = np.nan
    ci_high: float = np.nan


def of_row(row: Any) -> Limits:
    "The interval of a row of a table."
    return Limits(row["ci_low"], row["ci_high"])


def settings(names: str, *rows: tuple) -> list[dict[str, Any]]:
    "A setting a row of values; names are parted by spaces."
    return [dict(zip(names.split(), row, strict=True)) for row in rows]


def cases_of(cases: int, items: Any) -> np.ndarray:  # `items` of each, or (cases,) how many
    "The case of each item."
    return np.repeat(np.arange(cases), items)


def normal_mean(f: Callable[[np.ndarray], np.ndarray], points: int = 4001) -> float:
    "The mean of a function of a standard normal variable."
    z = np.linspace(-8, 8, points)
    density = norm.pdf(z)
    return float((f(z) * density).sum() / density.sum())
