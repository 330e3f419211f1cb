"""Severities of raters, and models free of them."""

from functools import partial

import numpy as np

from mhbench.stats.rater_likelihood import category_log_probs
from mhbench.stats.rater_model import facet_levels, fit_raters, rater_quantities

from .kind import Kind, settings


def who_rates(rng: np.random.Generator, raters: int, answers: int, each: int) -> tuple[np.ndarray, np.ndarray]:
    "Answer and rater of each rating: `each` different raters an answer."
    chosen = np.argsort(rng.random((answers, raters)), 1)[:, :each]
    return np.repeat(np.arange(answers), each), chosen.ravel()


def raters_drawn(rng: np.random.Generator, raters: int, sd: float) -> tuple[np.ndarray, np.ndarray]:
    "Severities and spreads; severities and logarithms of spreads sum to zero."
    severity, log_spread = rng.normal(0, sd, raters), rng.normal(0, 0.2, raters)
    return severity - severity.mean(), np.exp(log_spread - log_spread.mean())


def drawn_categories(rng, worth, answer, rater, severity, spread, cuts, steps) -> np.ndarray:
    p = np.exp(category_log_probs(worth, severity, spread, cuts, steps))[rater, answer]
    return (p.cumsum(1) < rng.random(len(p))[:, None]).sum(1)


def arched(categories: int) -> np.ndarray:
    "Cuts under which the middle of a scale is used most."
    k = np.arange(categories)
    return 0.4 * k * (categories - 1 - k) * (categories > 2)


def draw_scale(rng, *, raters: int, answers: int, each: int, categories: int):
    severity, spread = raters_drawn(rng, raters, 0.7)
    answer, rater = who_rates(rng, raters, answers, each)
    cuts = np.tile(arched(categories), (raters, 1))
    worth = rng.normal(0, 1.2, answers)
    y = drawn_categories(rng, worth, answer, rater, severity, spread, cuts, np.arange(categories))
    one = rng.integers(raters)
    return (y, answer, rater, categories), one, severity[one]


def scale_severity(sample, seed):
    (y, answer, rater, categories), one, _ = sample
    found = rater_quantities(fit_raters(y, answer, rater, categories=range(categories)))
    return found[(found["quantity"] == "severity") & (found["rater"] == one)].iloc[0]


def draw_slider(rng, *, raters: int, answers: int, each: int, shape: str):
    "Points of 0 to 100, cut off at both ends; worths normal, or of two kinds (right and wrong options)."
    severity, spread = raters_drawn(rng, raters, 0.5)
    answer, rater = who_rates(rng, raters, answers, each)
    noise = np.exp(rng.normal(-0.3, 0.2, raters))

    def worths(n):
        if shape == "normal":
            return rng.normal(0, 1, n)
        return np.where(rng.random(n) < 0.6, rng.normal(-0.9, 0.5, n), rng.normal(1.35, 0.5, n))

    def points(r, t):
        return np.clip(50 + 24 * (spread[r] * t - severity[r] + noise[r] * rng.normal(size=len(t))), 0, 100)

    y = points(rater, worths(answers)[answer])
    population = worths(20_000)
    mean = np.array([points(np.full(len(population), r), population).mean() for r in range(raters)])
    one = rng.integers(raters)
    return (y, answer, rater), one, mean.mean() - mean[one]


def slider_severity(sample, seed):
    ratings, one, _ = sample
    found = rater_quantities(fit_raters(*ratings))
    return found[(found["quantity"] == "points below") & (found["rater"] == one)].iloc[0]


def draw_repeats(rng, *, raters: int, questions: int, annotations: int, own: float, options: int = 5):
    "Annotations of all options of a question, several by one rater, who has a view of a question and of an option."
    severity, spread = raters_drawn(rng, raters, 0.5)
    keen = rng.permutation(np.linspace(1, 6, raters))
    rater = rng.choice(raters, annotations, p=keen / keen.sum())
    question = np.concatenate([np.arange(questions), rng.integers(questions, size=annotations - questions)])
    noise = np.exp(rng.normal(-0.9, 0.2, raters))

    def worths(size):
        return np.where(rng.random(size) < 0.6, rng.normal(-0.9, 0.5, size), rng.normal(1.35, 0.5, size))

    def points(r, t, view):
        return np.clip(50 + 24 * (spread[r] * t - severity[r] + view + noise[r] * rng.normal(size=t.shape)), 0, 100)

    view = own * rng.normal(size=(raters, questions, options)) + own / 2 * rng.normal(size=(raters, questions, 1))
    y = points(rater[:, None], worths((questions, options))[question], view[rater, question])
    population = worths(20_000)
    views = own * np.sqrt(1.25) * rng.normal(size=(raters, 20_000))
    mean = np.array([points(r, population, views[r]).mean() for r in range(raters)])
    one = rng.integers(raters)
    return (y, question, rater), one, mean.mean() - mean[one]


def severity_of_repeats(sample, seed):
    (y, question, rater), one, _ = sample
    options = y.shape[1]
    of = np.repeat(question, options)
    answer = of * options + np.tile(np.arange(options), len(question))
    fit = fit_raters(y.ravel(), answer, np.repeat(rater, options), clusters=of)
    found = rater_quantities(fit)
    return found[(found["quantity"] == "points below") & (found["rater"] == one)].iloc[0]


def draw_models(rng, *, raters: int, items: int, models: int, each: int, categories: int):
    "Each model answers each item; the strict raters rate the first models more often."
    severity, spread = raters_drawn(rng, raters, 0.7)
    n = items * models
    item, model = np.repeat(np.arange(items), models), np.tile(np.arange(models), items)
    worth = np.linspace(-0.5, 0.5, models)[model] + rng.normal(0, 0.8, items)[item] + rng.normal(0, 0.8, n)
    lean = np.exp(0.8 * np.outer(np.linspace(1, -1, models), severity))[model]
    chosen = np.argsort(rng.exponential(size=(n, raters)) / lean, 1)[:, :each]
    answer, rater = np.repeat(np.arange(n), each), chosen.ravel()
    cuts = np.tile(arched(categories), (raters, 1))
    y = drawn_categories(rng, worth, answer, rater, severity, spread, cuts, np.arange(categories))
    return y, answer, rater, categories, model[answer], item[answer]


def model_worth(sample, seed):
    y, answer, rater, categories, model, item = sample
    found = facet_levels(
        fit_raters(y, answer, rater, categories=range(categories), facets={"model": model}, items=item)
    )
    return found[(found["quantity"] == "worth") & (found["model"] == max(model))].iloc[0]


WHERE = "preferences, panel, judge_study"
SCALES = settings(
    "raters answers each categories",
    *((4, 60, 2, 2), (10, 200, 2, 2), (30, 200, 4, 2), (8, 60, 8, 2)),
    *((4, 60, 4, 3), (4, 60, 2, 5), (8, 60, 8, 5), (8, 200, 2, 7)),
)
SLIDERS = settings(
    "raters answers each shape",
    *((4, 60, 2, "normal"), (4, 60, 4, "two kinds"), (8, 100, 2, "normal"), (8, 300, 2, "two kinds")),
    *((10, 60, 10, "normal"), (30, 300, 2, "normal")),
)
REPEATS = settings(
    "raters questions annotations own",
    *((4, 20, 80, 0.5), (6, 20, 300, 0.5), (8, 60, 600, 0.0), (8, 60, 600, 0.5)),
)
MODELS = settings(
    "raters items models each categories", (4, 15, 4, 2, 5), (4, 60, 2, 2, 2), (6, 30, 5, 2, 5), (8, 60, 3, 3, 7)
)
OF_A_RATER = partial(Kind, stages=WHERE, truth=lambda **_: np.nan, truth_of=lambda sample: sample[2])
KINDS = [
    OF_A_RATER(
        name="rater_severity",
        about="How strict a rater is, on a scale or with labels; answers are a sample, raters are these.",
        settings=SCALES,
        draw=draw_scale,
        interval=scale_severity,
    ),
    OF_A_RATER(
        name="rater_severity_slider",
        about="How many points a rater gives below the mean rater; answers are a sample, raters are these.",
        settings=SLIDERS,
        draw=draw_slider,
        interval=slider_severity,
    ),
    OF_A_RATER(
        name="rater_severity_repeats",
        about="Points below the mean rater where raters annotate questions again; questions are a sample.",
        settings=REPEATS,
        draw=draw_repeats,
        interval=severity_of_repeats,
    ),
    Kind(
        name="model_free_of_severity",
        about="How far a model is above the mean one, free of who rated it; items are a sample, raters are these.",
        stages="panel, judge_study",
        settings=MODELS,
        draw=draw_models,
        truth=lambda **_: 0.5,
        interval=model_worth,
    ),
]
