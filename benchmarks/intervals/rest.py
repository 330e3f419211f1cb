"""Numbers of single stages: contamination, repeated runs, seeds, ratings of a rater, errors of judges, formats."""

from functools import partial

import numpy as np
import pandas as pd
from scipy.special import expit
from scipy.stats import foldnorm, norm

from mhbench.stats.estimate import estimate
from mhbench.stats.judge_error import split_half_calibration
from mhbench.stats.repeatability import flip_rate
from mhbench.stats.resample import mean
from mhbench.stats.soft_labels import group_means
from mhbench.steps.between_models import spread_over_runs
from mhbench.steps.contamination import flag_table, similarity_table
from mhbench.studies.psychiatrybench.formats import partial_credit
from mhbench.studies.psychiatrybench.standings import (
    Column,
    draw_standings,
    rank_table,
    results_table,
)

from .kind import Kind, Limits, cases_of, normal_mean, of_row

N_BOOT = 400


# ------------------------------------------------------------------------------------------------- contamination
def draw_copies(rng, *, cases, items, alike):
    "Similarities of completions: questions of one case are known together."
    case = cases_of(cases, items)
    z = np.sqrt(alike) * rng.normal(size=cases)[case] + np.sqrt(1 - alike) * rng.normal(size=len(case))
    return pd.DataFrame({"model": "m", "levenshtein": norm.cdf(z) ** 2, "cluster": case})


COPIES = [
    {"cases": cases, "items": items, "alike": alike}
    for cases, items, alike in ((5, 1, 0.0), (10, 1, 0.0), (30, 1, 0.0), (300, 1, 0.0))
    + ((6, 5, 0.5), (10, 10, 0.5), (30, 3, 0.5), (100, 10, 0.5))
]


def flagged(sample, seed):
    found = flag_table(sample[0], [sample[1]])
    return of_row(found.iloc[0])


def draw_ranks(rng, *, cases, items, alike, known):
    "Where the own half stands among twenty others, 1 the nearest; what is known by heart is always the nearest."
    table = draw_copies(rng, cases=cases, items=items, alike=alike)
    rank = np.round(np.sqrt(table["levenshtein"]) * 20) / 20
    return table.assign(levenshtein_rank=np.where(rng.random(len(table)) < known, 1.0, rank)).drop(
        columns="levenshtein"
    )


RANKS = [{**s, "known": known} for s in COPIES[::2] for known in (0.0, 0.6)]


# -------------------------------------------------------------------------------------- trainings by several seeds
def draw_seeds(rng, *, cases, items, seeds, centre):
    "Right or wrong of each item by each training; an item's ease is shared by trainings, a case's by its items."
    case = cases_of(cases, items)
    ease = centre + rng.normal(size=cases)[case] + rng.normal(size=len(case))
    right = rng.random((len(case), seeds)) < expit(ease)[:, None]
    return right.mean(1), case


def truth_of_seeds(*, centre, **_):
    return normal_mean(lambda z: expit(centre + np.sqrt(2) * z))


SEEDS = [
    {"cases": cases, "items": items, "seeds": seeds, "centre": centre}
    for cases, items in ((10, 1), (30, 1), (300, 1), (6, 5), (10, 10), (50, 4))
    for seeds, centre in ((2, 0.0), (5, 3.0))
]


# ----------------------------------------------------------------------------------------- means of annotations
def draw_sliders(rng, *, ratings, skewed):
    "Sliders of 0 to 100 by one rater, or of one option."
    x = 100 * expit(rng.normal(2.0, 1.5, ratings)) if skewed else np.clip(rng.normal(50, 20, ratings), 0, 100)
    return np.round(x)


def truth_of_sliders(*, skewed, **_):
    return 100 * normal_mean(lambda z: expit(2.0 + 1.5 * z)) if skewed else 50.0


def mean_of_group(x, seed):
    i = group_means(x, np.zeros(len(x), int)).mean
    return Limits(float(i.ci_low[0]), float(i.ci_high[0]))


SLIDERS = [{"ratings": n, "skewed": s} for n in (2, 4, 6, 7, 8, 10, 15, 30, 75) for s in (False, True)]


# ------------------------------------------------------------------------------------- many tasks, many models
def points_of_tasks(models, tasks, ahead, uneven):  # (models, tasks)
    "What models have in tasks: each is `ahead` of the next, and tasks lie apart by `uneven`."
    places = np.linspace(-1, 1, tasks)
    return 60 - ahead * np.arange(models)[:, None] + uneven * (places / places.std(ddof=1))[None]


def draw_tasks(rng, *, models, tasks, cases, ahead, uneven):
    "Points of every item, two a case; a hard case is hard for all models."
    columns = {}
    for t, means in enumerate(points_of_tasks(models, tasks, ahead, uneven).T):
        case = cases_of(cases, 2)
        points = means + 12 * rng.normal(size=(cases, 1))[case] + 6 * rng.normal(size=(cases, models))[case]
        columns[f"task {t}"] = Column(t * cases + case, points + 15 * rng.normal(size=(len(case), models)))
    return draw_standings(columns, [f"m{k}" for k in range(models)], n_boot=200, seed=int(rng.integers(1 << 30)))


def truth_of_average(*, models, tasks, ahead, uneven, **_):
    return float(points_of_tasks(models, tasks, ahead, uneven)[0].mean())


def truth_of_rank(*, models, ahead, **_):
    return 1.0 if ahead else (models + 1) / 2


def of_table(table, **where):
    for name, value in where.items():
        table = table[table[name] == value]
    return of_row(table.iloc[0]) if len(table) else Limits()


TASKS = [
    {"models": models, "tasks": tasks, "cases": cases, "ahead": ahead, "uneven": uneven}
    for models, tasks, cases in ((3, 3, 6), (5, 4, 10), (10, 4, 30))
    for ahead, uneven in ((0.0, 0.0), (2.0, 10.0))
]


# ----------------------------------------------------------------------------------------- sets of sub-questions
def draw_sets(rng, *, sets, centre):
    "Right or wrong of two to eight sub-questions of a set, whole and one by one."
    size = rng.integers(2, 9, sets)
    of = cases_of(sets, size)
    ease = centre + rng.normal(size=sets)[of] + 0.7 * rng.normal(size=len(of))
    full, apart = (rng.random(len(of)) < expit(ease) for _ in range(2))
    return full.astype(float), apart.astype(float), size[of].astype(float), of


def truth_of_sets(*, centre, **_):
    return normal_mean(lambda z: expit(centre + np.sqrt(1.49) * z))


def credit(sample, seed):
    full, _, size, of = sample
    return estimate(partial_credit, full, size, clusters=of, n_boot=N_BOOT, seed=seed, share=True)


SETS = [{"sets": n, "centre": c} for n in (3, 6, 10, 20, 60, 150) for c in (0.0, 2.0)]


# -------------------------------------------------------------------------------------------------- repeated runs
def draw_runs(rng, *, items, runs, where):
    "Right or wrong of the same items in several runs; each item has its own chance."
    chance = np.random.default_rng(0).beta(*where, items)
    return (rng.random((items, runs)) < chance[:, None]).astype(float)


def truth_of_runs(*, items, where, **_):
    chance = np.random.default_rng(0).beta(*where, items)
    return float(np.sqrt((chance * (1 - chance)).sum()) / items)


def spread(right, seed):
    return spread_over_runs(right)


RUNS = [
    {"items": items, "runs": runs, "where": where}
    for items in (10, 40, 300)
    for runs, where in ((2, (1, 1)), (3, (1, 1)), (5, (1, 1)), (5, (0.3, 0.1)), (20, (1, 1)))
]

COPIED = partial(
    Kind,
    stages="contamination",
    interval=lambda x, seed: of_row(similarity_table(x).iloc[0]),
)
STANDINGS = partial(Kind, stages="standings", settings=TASKS, draw=draw_tasks)


# -------------------------------------------------------------------------- a judge asked again, and one calibrated
def draw_again(rng, *, cases, items, runs, sure):
    "Passed or not of each answer in each run; answers of a case share half of what makes them clear."
    case = cases_of(cases, items)
    z = np.sqrt(0.5) * (rng.normal(size=cases)[case] + rng.normal(size=len(case)))
    return (rng.random((len(case), runs)) < expit(sure * z)[:, None]).astype(float), case


def truth_of_flips(*, sure, **_):
    return normal_mean(lambda z: 2 * expit(sure * z) * expit(-sure * z))


AGAIN = [
    {"cases": cases, "items": items, "runs": runs, "sure": sure}
    for cases, items, runs in ((6, 5, 2), (10, 1, 3), (30, 1, 2), (30, 4, 3), (200, 1, 2))
    for sure in (1.0, 5.0)
]
SCALE = {"noise": 10.0, "slope": 0.7, "shift": 15.0}  # a judge's points: noise, and less spread than people's


def draw_line(rng, *, cases, items):
    "Points of a judge and of people; half of what people's points differ by is between cases."
    case = cases_of(cases, items)
    people = 60 + 15 * np.sqrt(0.5) * (rng.normal(size=cases)[case] + rng.normal(size=len(case)))
    judge = SCALE["shift"] + SCALE["slope"] * people + SCALE["noise"] * rng.normal(size=len(case))
    return judge, people, case


def calibrated(sample):
    return split_half_calibration(*sample[:2], clusters=sample[2], seed=1)


def error_of_line(sample):
    "The mean absolute error, in the population, of the line that was fitted to this sample."
    line = calibrated(sample)
    middle = 60 - line.intercept - line.slope * (SCALE["shift"] + SCALE["slope"] * 60)
    sd = np.hypot(15 * (1 - line.slope * SCALE["slope"]), line.slope * SCALE["noise"])
    return float(foldnorm(abs(middle) / sd, scale=sd).mean())


KINDS = [
    Kind(
        name="flips",
        wide="ten answers, of which few flip",
        about="How often two runs of a judge lie on different sides of the mark; cases are a sample.",
        stages="judge_study",
        settings=AGAIN,
        draw=draw_again,
        truth=truth_of_flips,
        interval=lambda x, seed: estimate(flip_rate, x[0], clusters=x[1], n_boot=N_BOOT, seed=seed, share=True),
    ),
    Kind(
        name="error after calibration",
        about="The mean absolute error of a calibration line in the other half of the cases, given the line.",
        stages="judge_study",
        settings=[{"cases": c, "items": i} for c, i in ((8, 1), (12, 1), (12, 5), (20, 1), (40, 3), (200, 1))],
        draw=draw_line,
        truth=lambda **_: np.nan,
        truth_of=error_of_line,
        interval=lambda sample, seed: calibrated(sample).after,
    ),
    Kind(
        name="spread over runs",
        about="The standard deviation of the accuracies of runs; runs are a sample, the items are not.",
        stages="score",
        settings=RUNS,
        draw=draw_runs,
        truth=truth_of_runs,
        interval=spread,
        wide="two runs, or ten items: a spread of few values",
    ),
    Kind(
        name="flagged",
        about="The share of completions above a threshold of similarity; cases are a sample.",
        stages="contamination",
        settings=[{**s, "above": above} for s in COPIES for above in (0.5, 0.9)],
        draw=lambda rng, *, above, **s: (draw_copies(rng, **s), above),
        truth=lambda *, above, **_: float(1 - np.sqrt(above)),
        interval=flagged,
        wide="small counts",
    ),
    COPIED(
        name="similarity",
        about="The mean similarity of completions; cases are a sample.",
        settings=COPIES,
        draw=draw_copies,
        truth=lambda **_: 1 / 3,
    ),
    COPIED(
        name="rank of the own half",
        about="The mean rank of a question's own half among others; cases are a sample.",
        settings=RANKS,
        draw=draw_ranks,
        truth=lambda *, known, **_: known + (1 - known) / 2,
        wide="five questions: shown in one sample of twelve, where every rank is 0 or 1",
    ),
    Kind(
        name="accuracy over seeds",
        about="The mean accuracy of trainings by several seeds; cases are a sample, these trainings are not.",
        stages="finetune, profile",
        settings=SEEDS,
        draw=draw_seeds,
        truth=truth_of_seeds,
        interval=lambda x, seed: estimate(mean, x[0], clusters=x[1], n_boot=N_BOOT, seed=seed, share=True),
        wide="ten cases, of which few are wrong",
    ),
    Kind(
        name="mean of ratings",
        about="The mean score of a rater, or of an option; its ratings are a sample.",
        stages="preferences",
        settings=SLIDERS,
        draw=draw_sliders,
        truth=truth_of_sliders,
        interval=mean_of_group,
    ),
    STANDINGS(
        name="average of tasks",
        about="The mean points of a model over tasks; cases of each task are a sample, the tasks are not.",
        truth=truth_of_average,
        interval=lambda s, seed: of_table(results_table(s), model="m0", task="average"),
    ),
    STANDINGS(
        name="rank of a model",
        about="The rank of a model by its average; cases are a sample, tasks and models are not.",
        truth=truth_of_rank,
        interval=lambda s, seed: of_table(rank_table(s), model="m0"),
        wide="ranks are whole numbers",
    ),
    Kind(
        name="partial credit",
        about="The mean over sets of the share of sub-questions that are right; sets are a sample.",
        stages="formats",
        settings=SETS,
        draw=draw_sets,
        truth=truth_of_sets,
        interval=credit,
        wide="six sets, of which few are wrong",
    ),
]
