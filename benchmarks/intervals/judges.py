"""A judge's errors against people, favouritism, and duels."""

from functools import cache

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import expit, softmax

from mhbench.stats.bias import position_bias, self_enhancement
from mhbench.stats.estimate import Estimate, estimate
from mhbench.stats.judge_error import (
    bias_slope,
    bland_altman,
    leave_one_rater_out,
    pass_rates,
    within_slope,
)
from mhbench.stats.preference import bradley_terry, worth_estimates
from mhbench.stats.resample import mean
from mhbench.studies.medqade.panel_tables import weighted_to_bank

from .kind import Kind, Limits, cases_of, of_row


@cache
def centre(share: float, sd: float) -> float:
    "The logit about which cases spread by `sd` when their mean share is `share`."
    x = np.linspace(-6, 6, 601)
    w = np.exp(-x * x / 2)
    return float(brentq(lambda m: (expit(m + sd * x) * w).sum() / w.sum() - share, -15, 15))


def chance(rng: np.random.Generator, share: float, cases: int, sd: float) -> np.ndarray:  # (cases, 1)
    return expit(centre(share, sd) + sd * rng.normal(size=(cases, 1)))


# ---- labels


def verdicts(rng: np.random.Generator, cases: int, items: int, *, theta: float, q1: float, q0: float, sd: float):
    good = rng.random((cases, items)) < chance(rng, theta, cases, sd)
    found = rng.random((cases, items)) < chance(rng, q1, cases, sd)
    seen = rng.random((cases, items)) < chance(rng, q0, cases, sd)
    return np.where(good, found, ~seen).ravel(), good.ravel(), cases_of(cases, items)


# ---- the bias, and its slope

CASES = {
    "6 of 1": [1] * 6,
    "10 of 1": [1] * 10,
    "30 of 1": [1] * 30,
    "200 of 1": [1] * 200,
    "3 of 5": [5] * 3,
    "6 of 5": [5] * 6,
    "10 of 10": [10] * 10,
    "30 of 3": [3] * 30,
    "12 of 1 to 20": [1, 2, 3, 5, 10, 20] * 2,
    "30 of 1 to 8": [1, 2, 8] * 10,
}
BIAS, SPREAD = 8.0, 10.0


def noise(rng: np.random.Generator, shape: str, n: int) -> np.ndarray:
    "Of mean 0 and variance 1."
    if shape == "skew":
        return (rng.gamma(4, size=n) - 4) / 2
    return rng.normal(size=n) if shape == "normal" else rng.standard_t(6, size=n) / np.sqrt(1.5)


def draw_differences(rng: np.random.Generator, *, cases: str, alike: float, shape: str):
    of = cases_of(len(CASES[cases]), CASES[cases])
    own = noise(rng, shape, len(of))
    return BIAS + SPREAD * (np.sqrt(alike) * noise(rng, shape, of[-1] + 1)[of] + np.sqrt(1 - alike) * own), of


def bias(sample, seed: int) -> Estimate:
    d, of = sample
    return bland_altman(50 + d, np.full(len(d), 50.0), clusters=of, n_boot=300, seed=seed).bias


def draw_scores(rng: np.random.Generator, *, cases: int, items: int, raters: int, steep: float):
    "A judge without bias at 60 points, `steep` points a point of the true score, less noisy than its raters."
    of = cases_of(cases, items)
    true = 60 + 15 * (np.sqrt(0.3) * rng.normal(size=cases)[of] + np.sqrt(0.7) * rng.normal(size=len(of)))
    people = true + 12 * rng.normal(size=(raters, len(of)))
    people[rng.random(people.shape) < 0.2] = np.nan
    return 60 + steep * (true - 60) + 5 * rng.normal(size=len(of)), people, of


def draw_slope(rng: np.random.Generator, *, items: int, answers: int, slope: float, varies: float):
    of = cases_of(items, answers)
    x = np.log2(rng.integers(20, 200, len(of)))
    own = slope + varies * rng.normal(size=items)[of]
    return 30 + 10 * rng.normal(size=items)[of] + own * x + 8 * rng.normal(size=len(of)), x, of


# ---- favouritism

FAMILIES = {"own": "a", "p": "b", "q": "c", "r": "d"}


def draw_labels(rng: np.random.Generator, *, cases: int, items: int, sd: float):
    "Four judges' labels of one model's answers; the first lets a fifth of its own wrong answers pass."
    good = rng.random((cases, items)) < chance(rng, 0.5, cases, sd)
    right = rng.random((4, cases, items)) < 0.9
    x = np.where(right, good, ~good)
    x[0] |= ~good & (rng.random((cases, items)) < 0.2)
    return x.reshape(4, 1, -1).astype(float), cases_of(cases, items)


def favour(sample, seed: int) -> Estimate:
    x, of = sample
    return self_enhancement(x, list(FAMILIES), ["own"], FAMILIES, clusters=of, seed=seed, n=300)[0].difference


def draw_passes(rng: np.random.Generator, *, cases: int, items: int, own: float, others: float):
    "A judge's labels of its own answers and of three others'; a wrong one passes with 0.2, or 0.35 if it is its own."
    good = rng.random((4, cases, items)) < np.array([own, others, others, others])[:, None, None]
    own_pass = np.array([0.35, 0.2, 0.2, 0.2])[:, None, None]
    said = rng.random(good.shape) < np.where(good, 0.85, own_pass)
    mine = np.repeat([True, False, False, False], cases * items)
    return said.ravel(), good.ravel(), mine, np.tile(cases_of(cases, items), 4)


def draw_orders(rng: np.random.Generator, *, cases: int, pairs: int, first: float, sd: float):
    better = rng.normal(0, 1, (cases, pairs)) + sd * rng.normal(size=(cases, 1))
    seen = [rng.random((cases, pairs)) < expit(v + first) for v in (better, -better)]
    names = [np.where(s, "first", "second").ravel().astype(object) for s in seen]
    return names[0], names[1], cases_of(cases, pairs)


def preferred(sample, seed: int) -> Estimate:
    forward, backward, of = sample
    return position_bias(forward, backward, clusters=of, seed=seed, n_boot=300).first


@cache
def preference_for_first(first: float, sd: float) -> float:
    rng = np.random.default_rng(0)
    return float(np.mean(expit(rng.normal(0, np.sqrt(1 + sd**2), 2_000_000) + first)) - 0.5)


# ---- duels, and judges of one panel


def strengths(models: int, spread: float) -> np.ndarray:
    return np.linspace(spread, -spread, models)


def draw_duels(rng: np.random.Generator, *, models: int, questions: int, spread: float, sd: float, ties: float):
    "Every two meet once on each question; questions differ in who is good at them."
    i, j = np.triu_indices(models, 1)
    b = strengths(models, spread) + sd * rng.normal(size=(questions, models))
    won = rng.random((questions, len(i))) < expit(b[:, i] - b[:, j])
    tied = rng.random((questions, len(i))) < ties
    wins, even = np.zeros((2, questions, models, models))
    wins[:, i, j], wins[:, j, i] = won & ~tied, ~won & ~tied
    even[:, i, j] = even[:, j, i] = tied
    return wins, even


@cache
def worth_of_first(models: int, spread: float, sd: float, ties: float) -> float:
    "The worth that the model gives to the population of duels."
    b, rng = strengths(models, spread), np.random.default_rng(0)
    if spread == 0 or sd == ties == 0:
        return float(softmax(b)[0])
    e = np.sqrt(2) * sd * rng.normal(size=20_000)
    share = expit(b[:, None, None] - b[None, :, None] + e).mean(2)
    share = (share + 1 - share.T) / 2
    off = ~np.eye(models, dtype=bool)
    fit = bradley_terry(1e4 * (1 - ties) * share * off, 1e4 * ties * off if ties else None, penalty=1e-6)
    return float(fit.probs[0])


def worth(sample, seed: int) -> Estimate:
    return worth_estimates(*sample, penalty=0.1)[0]


def draw_strata(rng: np.random.Generator, *, items: int, match: float, without: float):
    "MedQADE's draw: a fifth of the items have a matching answer."
    n = {"with": items // 5, "without": items - items // 5}
    rows = []
    for name, share in (("with", match), ("without", without)):
        e = estimate(mean, (rng.random(n[name]) < share).astype(float), n_boot=300, seed=0, share=True)
        rows.append({"by": "lexical match", "stratum": name, "student": "s", **e.row(), "left_out": 0})
    return pd.DataFrame(rows)


def of_bank(sample, seed: int) -> Limits:
    found = weighted_to_bank(sample, {"with": 600, "without": 400})
    return of_row(found.iloc[0]) if len(found) else Limits()


def draw_panel(rng: np.random.Generator, *, cases: int, items: int, raters: int):
    "A judge with noise of 8 points among raters with noise of 12 and a severity of their own."
    of = cases_of(cases, items)
    true = rng.uniform(30, 90, len(of))
    severe = 6 * np.linspace(-1, 1, raters)[:, None]
    people = true + severe + 12 * rng.normal(size=(raters, len(of)))
    return people, true + 8 * rng.normal(size=len(of)), of


@cache
def nearer(cases: int, items: int, raters: int) -> float:
    people, judge, _ = draw_panel(np.random.default_rng(0), cases=400_000, items=1, raters=raters)
    others = people[1:].mean(0)
    return float((np.abs(judge - others) - np.abs(people[0] - others)).mean())


def left_out(sample, seed: int) -> Estimate:
    people, judge, of = sample
    names = [str(r) for r in range(len(people))]
    return leave_one_rater_out(people, judge, names, clusters=of, seed=seed, n_boot=300)[0].difference


KINDS = [
    Kind(
        name="judge_bias",
        about="A judge's mean difference from people's mean; cases are a sample.",
        stages="judge_study",
        settings=[{"cases": c, "alike": 0.5, "shape": "normal"} for c in CASES if c != "3 of 5"],
        draw=draw_differences,
        truth=lambda **_: BIAS,
        interval=bias,
        wide="twelve cases of 1 to 20 answers, which leave few degrees of freedom",
    ),
    Kind(
        name="slope_of_bias",
        about="How a judge's bias changes with the true score, raters' noise taken out; cases are a sample.",
        stages="judge_study",
        settings=[
            {"cases": c, "items": i, "raters": r, "steep": s}
            for c, i in ((6, 5), (10, 1), (10, 10), (30, 1), (30, 3), (100, 1))
            for r, s in ((3, 1.0), (8, 1.0), (3, 0.6))
        ],
        draw=draw_scores,
        truth=lambda steep, **_: steep - 1,
        interval=lambda sample, seed: bias_slope(*sample[:2], clusters=sample[2]),
        wide="ten answers and three raters: shown in one sample of six, where the answers lie far apart",
    ),
    Kind(
        name="slope_within_items",
        about="Points a doubling of length among the answers to one item; items are a sample.",
        stages="judge_study",
        settings=[
            {"items": k, "answers": a, "slope": s, "varies": v}
            for k, a in ((5, 4), (6, 2), (10, 3), (30, 3), (100, 8))
            for s, v in ((0.0, 0.0), (5.0, 3.0))
        ],
        draw=draw_slope,
        truth=lambda slope, **_: slope,
        interval=lambda sample, seed: within_slope(*sample),
        wide="six items of two answers leave few degrees of freedom",
    ),
    Kind(
        name="self_enhancement",
        about="How far a judge's pass rate on its own answers lies above its peers'; cases are a sample.",
        stages="panel, judge_study",
        settings=[
            {"cases": c, "items": i, "sd": 0.0 if i == 1 else 1.5}
            for c, i in ((6, 1), (10, 1), (30, 1), (200, 1), (6, 5), (10, 10), (30, 5))
        ],
        draw=draw_labels,
        truth=lambda **_: 0.5 * 0.9 * 0.2,
        interval=favour,
    ),
    Kind(
        name="favour_by_label",
        about="How much more often a judge passes its own wrong answers than others'; cases are a sample.",
        stages="panel",
        settings=[
            {"cases": c, "items": i, "own": own, "others": others}
            for c, i in ((10, 1), (30, 1), (100, 1), (10, 5), (30, 5))
            for own, others in ((0.3, 0.8), (0.6, 0.6), (0.9, 0.5))
        ],
        draw=draw_passes,
        truth=lambda **_: 0.15,
        interval=lambda sample, seed: pass_rates(*sample, n_boot=300, seed=seed)["wrong"],
        wide="few wrong answers of the judge's own",
    ),
    Kind(
        name="prefers_the_first",
        about="How much more often than half a judge prefers what it reads first; questions are a sample.",
        stages="duels",
        settings=[
            {"cases": c, "pairs": p, "first": f, "sd": 1.0}
            for c, p in ((6, 3), (10, 1), (10, 10), (30, 3), (100, 1))
            for f in (0.0, 1.0)
        ],
        draw=draw_orders,
        truth=lambda first, sd, **_: preference_for_first(first, sd),
        interval=preferred,
        wide="ten pairs, of which few change with the order",
    ),
    Kind(
        name="worth_in_duels",
        about="The worth of the best of several contestants; questions are a sample.",
        stages="duels",
        settings=[
            {"models": m, "questions": q, "spread": s, "sd": sd, "ties": t}
            for m, q in ((3, 6), (3, 10), (3, 30), (5, 10), (5, 100), (10, 10), (10, 30), (30, 10))
            for s, sd, t in ((0.0, 0.0, 0.0), (0.0, 1.0, 0.3), (1.5, 1.0, 0.3), (1.5, 0.0, 0.0))
            if m < 30 or sd
        ],
        draw=draw_duels,
        truth=lambda models, questions, **how: worth_of_first(models, **how),
        interval=worth,
        wide="six questions, or worths near 0 or 1",
    ),
    Kind(
        name="share_of_bank",
        about="The share of right answers in a bank, from a draw that is stratified; items are a sample.",
        stages="panel",
        settings=[
            {"items": n, "match": a, "without": b} for n in (50, 200, 1000) for a, b in ((0.9, 0.17), (0.98, 0.5))
        ],
        draw=draw_strata,
        truth=lambda match, without, **_: 0.6 * match + 0.4 * without,
        interval=of_bank,
    ),
    Kind(
        name="rater_left_out",
        about="Distance of a judge to the other raters, minus that of a rater who is left out; cases are a sample.",
        stages="judge_study",
        settings=[{"cases": c, "items": i, "raters": r} for c, i in ((6, 5), (10, 1), (30, 3)) for r in (3, 8)],
        draw=draw_panel,
        truth=nearer,
        interval=left_out,
    ),
]
