"What an interval, a test and a plan are at, where nobody says it: the same everywhere."

import inspect
import pkgutil
from collections.abc import Iterator
from importlib import import_module

import numpy as np
import pytest

from mhbench import stats
from mhbench.corpus import compose, passages, splits
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
from mhbench.steps import (
    answers,
    between_models,
    by_raters,
    contamination,
    demographics,
    duels,
    graded,
    judge,
    judge_people,
    judge_study,
    judge_tables,
    parameters,
    rates,
    training,
    verdict_tables,
)
from mhbench.studies.counselingbench import competency
from mhbench.studies.medqade import judges, panel, panel_tables, rounds
from mhbench.studies.medqade.study import PanelParameters
from mhbench.studies.mentat import agreement, labels, preferences, readings
from mhbench.studies.mentat.study import PreferencesParameters
from mhbench.studies.mhqa.study import ComposeParameters, KeysParameters
from mhbench.studies.psychiatrybench import classification, formats, standings
from mhbench.studies.psychiatrybench.study import StandingsParameters

MODULES = [import_module(m.name) for m in pkgutil.iter_modules(stats.__path__, "mhbench.stats.")]
OF_STAGES = [between_models, judge, judge_people, judge_tables, rates, verdict_tables]
OF_STAGES += [competency, judges, agreement, classification, formats, standings]
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


PAPER = {"paper_interval": {"level": 0.99}, "ensemble_table": {"n_boot": 200}}  # as the papers have it


@pytest.mark.parametrize("module", OF_STAGES, ids=lambda m: m.__name__.rpartition(".")[2])
def test_what_the_functions_of_stages_take_where_nobody_says_it_is_usual_too(module):
    for name, function in functions_of(module):
        usual = (
            USUAL | {"n_boot": 1000, "repeats": 1, "temperature": 0.0, "share": False, "top": 1.0} | PAPER.get(name, {})
        )
        for parameter in inspect.signature(function).parameters.values():
            if parameter.name in usual and parameter.default not in (inspect.Parameter.empty, None):
                assert parameter.default == usual[parameter.name], f"{name}({parameter.name})"


AS_STAGES = [  # the parameters of a stage, one of them, functions that have it, and the name that it has there
    (parameters.JudgeParameters, "threshold", [answers.judge_by_similarity, answers.judge_everything]),
    (parameters.JudgeParameters, "repeats", [judge.judge_requests, judge.judge, graded.grade, graded.grade_walks]),
    (parameters.JudgeStudyParameters, "threshold", [judge_study.ask_parts]),
    (parameters.JudgeStudyParameters, "cut", [judge_tables.repeatability_table]),
    (parameters.DuelsParameters, "penalty", [duels.duel_strengths, by_raters.people_duel_rows]),
    (parameters.ContaminationParameters, "others", [contamination.compare_completions], "n_others"),
    (parameters.FinetuneParameters, "validation_share", [training.training_parts], "share"),
    (parameters.FinetuneParameters, "n_orders", [training.order_table]),
    (parameters.DemographicsParameters, "margin", [demographics.level_pairs]),
    (parameters.DemographicsParameters, "n_permutations", [demographics.level_pairs]),
    (PanelParameters, "margin", [panel_tables.members_table]),
    (PanelParameters, "quorum", [judges.judge_confidences]),
    (PreferencesParameters, "n_boot", [labels.label_tables]),
    (PreferencesParameters, "n_boot_rankings", [labels.label_tables]),
    (PreferencesParameters, "n_permutations", [labels.wording_distances], "n"),
    (PreferencesParameters, "creators_rate", [preferences.chosen_labels]),
    (PreferencesParameters, "penalty", [labels.label_tables, preferences.predicting_raters, readings.reading_fits]),
    (PreferencesParameters, "penalty", [preferences.labels_of_every_kind, preferences.left_out_raters]),
    (PreferencesParameters, "ridge", [labels.label_tables, preferences.predicting_raters]),
    (PreferencesParameters, "ridge", [preferences.labels_of_every_kind, preferences.left_out_raters]),
    (ComposeParameters, "threshold", [compose.without_duplicates, splits.near_duplicates]),
    (ComposeParameters, "together", [compose.compose_requests, compose.compose_with]),
    (KeysParameters, "words", [passages.chunk_text, passages.read_passages]),
    (KeysParameters, "overlap", [passages.chunk_text, passages.read_passages]),
    (KeysParameters, "near", [passages.passage_requests], "threshold"),
    (KeysParameters, "n_passages", [passages.nearest_passages], "k"),
    (StandingsParameters, "cut", [standings.medical_table]),
    (parameters.Reported, "n_boot", [judge.position_bias_table, competency.paper_interval], "n"),
]


@pytest.mark.parametrize(("stage", "name", "functions", "called"), [(*row, row[1])[:4] for row in AS_STAGES])
def test_a_function_takes_what_its_stage_takes_where_nobody_says_it(stage, name, functions, called):
    for function in functions:
        assert inspect.signature(function).parameters[called].default == stage.model_fields[name].default, function


def test_functions_that_do_the_same_by_themselves_do_it_alike():
    "Judges of conversations have as much room either way, encoders one scale, and an error sample is the paper's."
    default = lambda function, name: inspect.signature(function).parameters[name].default
    assert default(graded.grade, "max_tokens") == default(graded.grade_walks, "max_tokens") == 256
    assert default(answers.nearest_option, "scale") == answers.Asked._field_defaults["scale"] == 20.0
    assert default(duels.error_sample, "n") == 100


def test_a_round_draws_the_share_of_matches_that_a_draw_has_by_itself():
    share = inspect.signature(panel.stratified_draw).parameters["share_match"].default
    assert inspect.signature(rounds.draw_round).parameters["share_match"].default == share == 0.2  # the paper's


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
