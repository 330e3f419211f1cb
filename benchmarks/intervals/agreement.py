"""Agreement of raters, consensus, repeatability: coefficients over items in cases."""

from functools import partial

import numpy as np

from mhbench.stats.agreement import krippendorff_alpha, mean_pairwise
from mhbench.stats.consensus import alignment, best_ensemble
from mhbench.stats.jackknife import agreement_estimate
from mhbench.stats.repeatability import intraclass_correlation, repeated_sd
from mhbench.stats.soft_labels import question_alphas

from .kind import Kind, Limits, cases_of

LABELS = {
    "half": (0.5, 0.5),
    "a tenth": (0.9, 0.1),
    "3 in 100": (0.97, 0.03),
    "three": (0.5, 0.3, 0.2),
    "four": (0.4, 0.3, 0.2, 0.1),
}
PLACES = [(20, 1), (10, 1), (50, 1), (200, 1), (3, 10), (5, 10), (10, 10), (30, 5)]  # cases, items of each


def draw_labels(
    rng: np.random.Generator,
    *,
    raters: int,
    cases: int,
    items: int,
    labels: str,
    known: float,
    sd: float = 0.7,
    **_,
):
    "Labels of raters who know an item's class or guess; cases differ in their classes and in how easy they are."
    share, n = np.array(LABELS[labels]), cases * items
    by_case = share * np.exp(rng.normal(0, sd, (cases, len(share))))
    by_case /= by_case.sum(1, keepdims=True)
    ease = 1 / (1 + np.exp(-np.log(known / (1 - known)) - rng.normal(0, sd, cases)))
    case = cases_of(cases, items)
    last = len(share) - 1
    item = (rng.random(n)[:, None] > by_case.cumsum(1)[case]).sum(1).clip(max=last)
    guess = (rng.random((raters, n, 1)) > share.cumsum()).sum(2).clip(max=last)
    return np.where(rng.random((raters, n)) < ease[case], item, guess).astype(float), case


def of_many(statistic, **setting) -> float:
    "The statistic of 300,000 cases."
    few = setting | {"cases": 200_000, "items": 1}
    return float(statistic(draw_labels(np.random.default_rng(1), **few)[0]))


def _settings(raters: int, classes: tuple, places: list = PLACES) -> list[dict]:
    return [
        {"raters": raters, "cases": c, "items": i, "labels": labels, "known": known}
        for labels, known in classes
        for c, i in places
    ]


def _coefficient(sample, seed: int, measure: str = "cohen_kappa", **how):
    labels, case = sample
    return agreement_estimate(labels, measure, clusters=case, **how)


kappa = partial(mean_pairwise, metric="cohen_kappa")
MANY = [(20, 1), (50, 1), (5, 10), (10, 10)]

FEW_RARE = "few items of the rarer label"
COEFFICIENT = partial(Kind, draw=draw_labels, wide=FEW_RARE)

KINDS = [
    COEFFICIENT(
        name="kappa",
        about="Cohen's kappa of two raters; cases are a sample, with their items.",
        stages="judge, errors, adjudicate, keys",
        settings=_settings(2, (("half", 0.7), ("a tenth", 0.7), ("half", 0.97), ("four", 0.2))),
        truth=partial(of_many, kappa),
        interval=_coefficient,
    ),
    COEFFICIENT(
        name="kappa of pairs",
        about="The mean kappa of all pairs of a panel; cases are a sample, raters are fixed.",
        stages="panel",
        settings=_settings(5, (("a tenth", 0.7), ("three", 0.97), ("four", 0.2)), MANY)
        + _settings(9, (("half", 0.9),), [(50, 1), (200, 1), (10, 10)]),
        truth=partial(of_many, kappa),
        interval=_coefficient,
    ),
    COEFFICIENT(
        name="alpha",
        about="Krippendorff's alpha of labels without order; cases are a sample, raters are fixed.",
        stages="panel, between models, annotate",
        settings=_settings(3, (("half", 0.7), ("a tenth", 0.7), ("three", 0.97)), [*MANY, (200, 1)]),
        truth=partial(of_many, partial(krippendorff_alpha, level="nominal")),
        interval=partial(_coefficient, measure="krippendorff_alpha"),
    ),
    COEFFICIENT(
        name="alpha of places",
        about="Krippendorff's alpha of ordered labels; cases are a sample, raters are fixed.",
        stages="panel, annotate",
        settings=_settings(3, (("3 in 100", 0.8), ("three", 0.9), ("four", 0.2)), MANY),
        truth=partial(of_many, partial(krippendorff_alpha, level="ordinal")),
        interval=partial(_coefficient, measure="krippendorff_alpha", scale="ordinal"),
    ),
]


# ------------------------------------------------------------------ consensus


def draw_panel(rng: np.random.Generator, *, judges: tuple, raters: int, cases: int, items: int, sd: float = 1.0, **_):
    "Labels of judges and of a panel, .85 right; items of a case share their ease."
    n = cases * items
    case = cases_of(cases, items)
    skill = np.array([*judges, *[0.85] * raters])
    logit = np.log(skill / (1 - skill))[:, None] + rng.normal(0, sd, cases)[case]
    truth = rng.random(n) < 0.5
    right = rng.random(logit.shape) < 1 / (1 + np.exp(-logit))
    labels = np.where(right == truth, 1.0, 0.0)
    return labels[: len(judges)], labels[len(judges) :], case


def _panel_of_many(part: str, **setting) -> float:
    judges, panel, _ = draw_panel(np.random.default_rng(1), **setting | {"cases": 100_000, "items": 1})
    return aligned(part, judges[0], panel, np.arange(100_000) % 4).estimate


def worth_of_the_best(sample) -> float:
    judges, panel, _, setting = sample
    found = best_ensemble(judges, panel, metrics=("cohen_kappa",), n=1, inner=1, seed=0)["cohen_kappa"]
    return _worths(**setting)[found.members]


_KNOWN: dict = {}


def _worths(**setting) -> dict:
    "What every ensemble is worth, on 60,000 items."
    key = tuple(setting.items())
    if key not in _KNOWN:
        judges, panel, _ = draw_panel(np.random.default_rng(1), **setting | {"cases": 60_000, "items": 1})
        e = best_ensemble(judges, panel, metrics=("cohen_kappa",), n=1, inner=1, seed=0, clusters=np.arange(60_000) % 4)
        _KNOWN[key] = dict(zip(e["cohen_kappa"].candidates, e["cohen_kappa"].values))
    return _KNOWN[key]


def _best(sample, seed: int):
    judges, panel, case, _ = sample
    how = {"metrics": ("cohen_kappa",), "n": 20, "inner": 2, "seed": seed, "clusters": case}
    return best_ensemble(judges, panel, **how)["cohen_kappa"].score


_PANELS = [
    {"judges": (skill,), "raters": raters, "cases": cases, "items": items}
    for skill, raters in ((0.85, 5), (0.95, 3), (0.7, 9))
    for cases, items in ((40, 1), (20, 1), (200, 1), (10, 5), (5, 10))
]
EQUAL = {k: (0.85,) * k for k in (3, 5)}
BESIDE_PANEL = {
    "agreement": ("alignment", "A judge's kappa with the consensus of a panel; cases are a sample."),
    "difference": (
        "alignment less ceiling",
        "What a judge reaches less what a member of the panel reaches, on the same items.",
    ),
}


def aligned(part: str, judge: np.ndarray, panel: np.ndarray, case: np.ndarray):
    return getattr(alignment(judge, panel, clusters=case), part)


KINDS += [
    Kind(
        name=name,
        about=about,
        stages="panel",
        settings=_PANELS,
        draw=draw_panel,
        truth=partial(_panel_of_many, part),
        interval=lambda s, seed, part=part: aligned(part, s[0][0], *s[1:]),
        wide="few items on which judge and panel differ",
    )
    for part, (name, about) in BESIDE_PANEL.items()
]
KINDS += [
    Kind(
        name="best ensemble",
        about="What the best of all odd-sized majorities of judges is worth on new items.",
        stages="panel",
        settings=[
            {"judges": judges, "raters": 5, "cases": cases, "items": items}
            for judges in (EQUAL[3], EQUAL[5], (0.95, 0.85, 0.7))
            for cases, items in ((50, 1), (30, 1), (200, 1), (20, 5))
        ],
        draw=lambda rng, **s: (*draw_panel(rng, **s), s),
        truth=lambda **s: float(max(_worths(**s).values())),
        interval=_best,
        truth_of=worth_of_the_best,
        wide="ensembles worth much the same: the interval allows for a choice that changes little",
    ),
]

# ------------------------------------------------------------------ a question's raters

OPTIONS = {"apart": (90, 75, 50, 20, 5), "one": (95, 10, 10, 10, 5), "close": (60, 55, 50, 45, 40)}


def draw_sliders(rng: np.random.Generator, *, raters: int, options: str, sd: float, careless: float) -> np.ndarray:
    "Scores of 0 to 100 of five options; raters differ in level, and a share of scores is given at random."
    x = np.array(OPTIONS[options]) + rng.normal(0, 8, (raters, 1)) + rng.normal(0, sd, (raters, 5))
    return np.clip(np.where(rng.random(x.shape) < careless, rng.uniform(0, 100, x.shape), x).round(), 0, 100)


def alpha_of_all(**setting) -> float:
    x = draw_sliders(np.random.default_rng(1), **setting | {"raters": 300_000})
    return float(1 - x.var(0).mean() / x.var())


def _question(sample, seed: int) -> Limits:
    found = question_alphas(sample, np.zeros(len(sample)))
    return Limits(found.ci_low[0], found.ci_high[0])


KINDS += [
    Kind(
        name="alpha of a question",
        about="Krippendorff's alpha of a question's raters over its five options; raters are a sample.",
        stages="agreement",
        settings=[
            {"raters": raters, "options": options, "sd": sd, "careless": careless}
            for options, sd, careless in (("apart", 20, 0.0), ("one", 15, 0.0), ("close", 25, 0.0), ("one", 12, 0.15))
            for raters in (12, 3, 5, 8, 15, 30)
        ],
        draw=draw_sliders,
        truth=alpha_of_all,
        interval=_question,
    )
]

# ------------------------------------------------------------------ repeatability

NOISE = {"even": 0.0, "uneven": 0.4, "very uneven": 0.9}  # standard deviation of the logarithm of an answer's noise


def draw_runs(rng: np.random.Generator, *, cases: int, items: int, runs: int, case: float, noise: str, tails: int = 0):
    "Points of a judge: cases and answers differ (5 points; by t with `tails` df), and runs by 5 points on average."
    n = cases * items
    of = cases_of(cases, items)
    loud = np.exp(rng.normal(0, NOISE[noise], (n, 1, 1)) - NOISE[noise] ** 2)  # its mean square is 1
    effects = lambda sd, size: (
        sd * (rng.standard_t(tails, size) / np.sqrt(tails / (tails - 2)) if tails else rng.normal(0, 1, size))
    )
    answer = effects(case, cases)[of] + effects(5, n)
    return 60 + answer[:, None, None] + 5 * loud * rng.normal(0, 1, (n, 1, runs)), of


def _between(*, case: float, **_) -> float:
    return case**2 + 25


_RUNS = [
    {"cases": c, "items": i, "runs": 3, "case": case, "noise": noise}
    for noise in ("even", "uneven")
    for c, i, case in ((10, 5, 8.0), (5, 10, 8.0), (10, 10, 3.0), (30, 3, 5.0), (12, 1, 0.0), (50, 1, 0.0))
]
_RUNS += [
    {"cases": c, "items": i, "runs": 3, "case": case} | apart
    for apart in ({"noise": "even", "tails": 3}, {"noise": "very uneven"})
    for c, i, case in ((12, 1, 0.0), (12, 5, 5.0), (50, 1, 0.0), (30, 3, 5.0))
]


REPEATED = partial(Kind, stages="judge study", draw=draw_runs)

KINDS += [
    REPEATED(
        name="intraclass correlation",
        about="The share of the variance of points that lies between answers; cases and runs are a sample.",
        settings=_RUNS,
        truth=lambda **s: _between(**s) / (_between(**s) + 25),
        interval=lambda s, seed: intraclass_correlation(s[0][:, 0], clusters=s[1], seed=seed, n_draws=1000),
        narrow="heavy tails (t with 3 df): .81 to .88; noise of answers that differs by a factor of e^.9: .81 to .86",
    ),
    REPEATED(
        name="sd within answers",
        about="The standard deviation of repeated points of one answer; cases are a sample.",
        settings=_RUNS,
        truth=lambda **s: 5.0,
        interval=lambda s, seed: repeated_sd(s[0][:, 0], clusters=s[1]),
        narrow="noise of answers that differs by a factor of e^.9: .84 to .86",
    ),
]
