"What an interval, a test and a plan are at, where nobody says it: the same everywhere."

import inspect
import pkgutil
from collections.abc import Iterator
from importlib import import_module

import numpy as np
import pytest

from mhbench import stats
from mhbench.stats import (
    components,
    consensus,
    differences,
    estimate,
    judge_error,
    prediction_powered,
    preference,
    repeatability,
    resample,
)

MODULES = [import_module(m.name) for m in pkgutil.iter_modules(stats.__path__, "mhbench.stats.")]
USUAL = {"level": 0.95, "tail": 0.025, "alpha": 0.05, "power": 0.8, "seed": 0, "axis": 0, "tests": 1, "bins": 10}


def functions_of(module) -> Iterator:
    for name, thing in vars(module).items():
        if inspect.isfunction(thing) and thing.__module__ == module.__name__:
            yield name, thing
        elif inspect.isclass(thing) and thing.__module__ == module.__name__:
            methods = ((k, getattr(f, "__func__", f)) for k, f in vars(thing).items())
            yield from ((f"{name}.{k}", f) for k, f in methods if inspect.isfunction(f) and k[:2] != "__")


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__.rpartition(".")[2])
def test_what_is_usual_is_the_default_where_there_is_one(module):
    for name, function in functions_of(module):
        for parameter in inspect.signature(function).parameters.values():
            if parameter.name in USUAL and parameter.default not in (inspect.Parameter.empty, None):
                assert parameter.default == USUAL[parameter.name], f"{name}({parameter.name})"


RNG = np.random.default_rng(7)
CASES = np.repeat(np.arange(20), 3)
SCORES = np.clip(RNG.normal(60, 15, 60) + RNG.normal(0, 5, 20)[CASES], 0, 100)
OTHERS = np.clip(SCORES + RNG.normal(2, 10, 60), 0, 100)
LABELS = np.where(RNG.random((5, 60)) < 0.8, np.arange(60) % 2, 1 - np.arange(60) % 2)
WINS = np.zeros((60, 3, 3))
for _k, (_i, _j) in enumerate(RNG.integers(0, 3, (60, 2))):
    WINS[_k, _i, _j] = _i != _j
HARM = (RNG.random(60) < 0.3).astype(float)
RATERS = np.clip(np.arange(60) % 5 + RNG.normal(0, 1, (8, 60)) + RNG.normal(0, 0.5, (8, 1)), -9, 9)

AT = {
    "mean": lambda level: estimate.estimate(resample.mean, SCORES, seed=1, level=level),
    "share": lambda level: estimate.proportion(12, 30, level),
    "median": lambda level: estimate.estimate(lambda x: float(np.median(x)), SCORES, n_boot=200, seed=1, level=level),
    "difference": lambda level: differences.mean_difference(SCORES - OTHERS, level=level),
    "worth": lambda level: preference.worth_estimates(WINS, np.zeros_like(WINS), level=level)[0],
    "points": lambda level: components.points_mean(SCORES / 100, level=level),
    "harm": lambda level: (
        components.harm_score_over(HARM, HARM * 0, np.arange(60), {"persona": CASES}, level=level).estimate
    ),
    "repeats": lambda level: repeatability.repeated_sd(np.stack([SCORES, OTHERS], 1), level=level),
    "slope": lambda level: judge_error.bias_slope(RATERS[0], RATERS[1:], level=level),
    "ceiling": lambda level: consensus.leave_one_out_ceiling(LABELS, level=level).mean,
    "member": lambda level: consensus.alignment(LABELS[0], LABELS[1:], level=level).agreement,
    "beside": lambda level: consensus.agreement_with_members(RATERS[0] > 2, RATERS[1:] > 2, level=level).difference,
    "powered": lambda level: (
        prediction_powered.prediction_powered(np.where(CASES < 9, SCORES, np.nan), OTHERS, level=level).both
    ),
}


@pytest.mark.parametrize("name", AT)
def test_an_interval_is_at_the_level_that_is_asked_for(name):
    "Of one number an interval of .8 lies within one of .95 and is narrower, and each says its level."
    narrow, wide = AT[name](0.8), AT[name](0.95)
    assert (narrow.level, wide.level) == (0.8, 0.95)
    assert narrow.estimate == wide.estimate and (narrow.n, narrow.n_clusters) == (wide.n, wide.n_clusters)
    assert wide.ci_low <= narrow.ci_low < narrow.ci_high <= wide.ci_high
    assert narrow.ci_high - narrow.ci_low < 0.9 * (wide.ci_high - wide.ci_low)
