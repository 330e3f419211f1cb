"""What a kind of interval declares."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


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
    methods: dict[str, Callable[[Any, int], Any]] = field(default_factory=dict)  # others, for the notebook's comparison
