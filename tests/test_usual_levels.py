"What an interval, a test and a plan are at, where nobody says it: the same everywhere."

import inspect
from collections.abc import Iterator

import pytest

from mhbench.stats import (
    abstention,
    agreement,
    anytime,
    bias,
    calibration,
    components,
    consensus,
    differences,
    estimate,
    hierarchical,
    jackknife,
    judge_error,
    label_models,
    metrics,
    multi_reader,
    panel_design,
    prediction_powered,
    preference,
    repeatability,
    resample,
    soft_labels,
)
from mhbench.stats import tests as permutation_tests

MODULES = [
    abstention,
    agreement,
    anytime,
    bias,
    calibration,
    components,
    consensus,
    differences,
    estimate,
    hierarchical,
    jackknife,
    judge_error,
    label_models,
    metrics,
    multi_reader,
    panel_design,
    prediction_powered,
    preference,
    repeatability,
    resample,
    soft_labels,
    permutation_tests,
]
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
