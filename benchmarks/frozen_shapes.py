"""Data-generating settings on which interval methods are tried. They are frozen: no method is tuned on them.

`SHAPES[name].draw(rng)` gives `(data, truth)`. The truth is the value in the population that the process describes,
over fresh cases, items and raters, and is exact:
  mean              score, case: E[sum of a case's scores] / E[number of its items], so every item counts the same
  difference        a, b, case: the same ratio for a - b
  judge             judge, label (nan: none), case: the share of answers that people would call right
  raters            value, rater, item: the mean over raters and items, every rater and every item counting the same
  rater_difference  the same with a column `model`: the mean of model 1 less the mean of model 0
  agreement         label, rater, item: the probability that two raters, drawn independently from their population,
                    give the same label to a random item, even one that they would skip
`n_cases` counts items where there are raters. `random_labels` is False where what is observed depends on what is
measured: the naive estimate (pooled mean, labelled mean, share of agreeing pairs) is then off by design.

Two shapes are no blind test: that raters count alike, whoever rated what (`mean_over_raters`), was chosen when
`busy_are_lenient` and `busy_prefer_a_model` stood here, of which the mean of all ratings misses the truth by design.

python benchmarks/frozen_shapes.py [--draws 200] compares naive estimates, pooled over draws as ratios, with truths.
"""

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Shape:
    name: str
    kind: str
    about: str
    draw: Callable
    n_cases: int
    n_raters: int = 0
    random_labels: bool = True


SHAPES: dict[str, Shape] = {}


def shape(kind, *sizes, **more):
    def add(f):
        SHAPES[f.__name__] = Shape(f.__name__, kind, f.__doc__, f, *sizes, **more)
        return f

    return add


def above(mean, sd, *cuts):
    "How many cuts a normal variable lies above, on average."
    return sum(math.erfc((c - mean) / sd / math.sqrt(2)) / 2 for c in cuts)


def coin(rng, p):
    return (rng.random(np.shape(p)) < p).astype(float)


def scored(rng, theta, size):
    "Items are right with their case's probability."
    case = np.repeat(np.arange(len(theta)), size)
    return {"score": coin(rng, theta[case]), "case": case}


def paired(rng, pa, pb, size, shared=0.0):
    "Two models; on a share of the items one draw decides for both."
    case = np.repeat(np.arange(len(pa)), size)
    u, v = rng.random((2, case.size))
    v = np.where(rng.random(case.size) < shared, u, v)
    return {"a": (u < pa[case]).astype(float), "b": (v < pb[case]).astype(float), "case": case}


def judged(rng, theta, size, sens, spec, share):
    "Verdicts on all answers; `share` gives the chance of a label from the truth and the verdict."
    case = np.repeat(np.arange(len(theta)), size)
    true = coin(rng, theta[case])
    sens, spec = (np.broadcast_to(x, len(theta))[case] for x in (sens, spec))
    judge = coin(rng, np.where(true == 1, sens, 1 - spec))
    seen = rng.random(case.size) < (share(true, judge) if callable(share) else share)
    return {"judge": judge, "label": np.where(seen, true, np.nan), "case": case}


def crossed(rng, n_items, n_raters, share=1.0):
    "Pairs of a rater and an item; each is there with a probability, which may be the rater's own."
    rater, item = np.divmod(np.arange(n_raters * n_items), n_items)
    seen = rng.random(rater.size) < np.broadcast_to(share, n_raters)[rater]
    return rater[seen], item[seen]


def few_each(rng, n_items, n_raters, k):
    "Every item goes to k raters at random."
    return rng.random((n_items, n_raters)).argsort(1)[:, :k].ravel(), np.repeat(np.arange(n_items), k)


def rated(rng, pairs, bias, item_sd=0.6, noise=0.6):
    rater, item = pairs
    value = 3 + bias[rater] + rng.normal(0, item_sd, item.max() + 1)[item] + rng.normal(0, noise, item.size)
    return {"value": value, "rater": rater, "item": item}


def both(rng, pairs, gain, step=None, seen=1.0):
    "Two models rated on each item; `gain` is a rater's own difference."
    rater, item, model = *np.tile(pairs, 2), np.repeat([0, 1], len(pairs[0]))
    n, m = rater.max() + 1, item.max() + 1
    value = 3 + rng.normal(0, 0.5, n)[rater] + rng.normal(0, 0.6, m)[item] + rng.normal(0, 0.5, rater.size)
    value += (model - 0.5) * (gain[rater] + rng.normal(0, 0.4, m)[item])  # symmetric: steps keep a zero
    if step is not None:
        value = 1.0 + (value[:, None] > step).sum(1)
    keep = rng.random(rater.size) < seen
    return {k: x[keep] for k, x in {"value": value, "rater": rater, "item": item, "model": model}.items()}


def labelled(rng, kinds, types, p, pairs, seen=None):
    """Labels of items of some kinds by raters of some types; p[type, kind] holds the probabilities of the labels.

    Given an item, raters are independent: the truth is the mean over kinds of the sum over labels of the
    squared probability that a random rater gives it. `seen[type, kind]` is the chance that a rater labels the item.
    """
    p, (rater, item) = np.asarray(p, float), pairs
    t = rng.choice(len(types), rater.max() + 1, p=types)[rater]
    k = rng.choice(len(kinds), item.max() + 1, p=kinds)[item]
    label = (rng.random((item.size, 1)) > p[t, k].cumsum(1)[:, :-1]).sum(1)
    keep = rng.random(item.size) < (1.0 if seen is None else np.asarray(seen)[t, k])
    truth = kinds @ (np.tensordot(types, p, 1) ** 2).sum(1)
    return {"label": label[keep], "rater": rater[keep], "item": item[keep]}, float(truth)


@shape("mean", 30)
def ties(rng):
    "Heavy ties: 85 in 100 scores are one half"
    d = scored(rng, rng.beta(4, 2, 30), 5)
    return d | {"score": np.where(rng.random(150) < 0.85, 0.5, d["score"])}, 0.425 + 0.15 * 2 / 3


@shape("mean", 60)
def long_cases_hard(rng):
    "Size-informative cases: the harder a case, the more items it has"
    theta = rng.beta(3, 2, 60)
    return scored(rng, theta, 2 + rng.poisson(12 * (1 - theta))), (2 * 0.6 + 12 * (0.6 - 0.4)) / (2 + 12 * 0.4)


@shape("mean", 10)
def long_cases_easy_few(rng):
    "Ten cases, long where the model is right"
    theta = rng.beta(2, 2, 10)
    return scored(rng, theta, 1 + rng.poisson(25 * theta)), (0.5 + 25 * 0.3) / 13.5


@shape("mean", 30)
def ceiling_99(rng):
    "A ceiling of .99: many draws have no error at all"
    return scored(rng, rng.beta(9.9, 0.1, 30), 6), 0.99


@shape("mean", 60)
def whole_case_lost(rng):
    "Rare losses of whole cases: one case in fifty is lost with all its items"
    return scored(rng, 0.995 * coin(rng, np.full(60, 0.98)), 6), 0.98 * 0.995


@shape("mean", 15)
def floor_03(rng):
    "A floor of .03 with fifteen cases"
    return scored(rng, rng.beta(0.3, 9.7, 15), 8), 0.03


@shape("mean", 15)
def half_in_one_case(rng):
    "One case holds half of the items, whatever its difficulty"
    return scored(rng, rng.beta(3, 1.5, 15), [42] + [3] * 14), 2 / 3


@shape("mean", 30)
def zero_inflated(rng):
    "Partial credit with zeros: half of the cases get nothing, and 4 in 10 items of the others"
    d = scored(rng, 0.6 * coin(rng, np.full(30, 0.5)), 6)
    return d | {"score": d["score"] * rng.beta(2, 3, 180)}, 0.5 * 0.6 * 0.4


@shape("mean", 30)
def u_shaped(rng):
    "Cases are nearly all right or nearly all wrong"
    return scored(rng, rng.beta(0.2, 0.3, 30), 4), 0.4


@shape("mean", 8)
def eight_cases(rng):
    "Eight cases of twelve items"
    return scored(rng, rng.beta(2, 2, 8), 12), 0.5


@shape("mean", 15)
def heaped_grades(rng):
    "Grades that only ever are 0, 5, 7, 8 or 10"
    case = np.repeat(np.arange(15), 8)
    x = 7 + rng.normal(0, 1.2, 15)[case] + rng.normal(0, 1.8, 120)
    truth = sum(w * above(7, math.hypot(1.2, 1.8), c) for w, c in ((5, 3), (2, 6), (1, 7.5), (2, 9)))
    return {"score": np.array([0.0, 5, 7, 8, 10])[np.searchsorted([3, 6, 7.5, 9], x)], "case": case}, truth


def _answered(rng, right, wrong):
    d = scored(rng, rng.beta(3, 2, 30), 8)
    keep = rng.random(240) < np.where(d["score"] == 1, right, wrong)
    return {k: x[keep] for k, x in d.items()}


@shape("mean", 30)
def abstains_at_random(rng):
    "A quarter of the items has no answer, at random; truth: all items"
    return _answered(rng, 0.75, 0.75), 0.6


@shape("mean", 30, random_labels=False)
def abstains_where_wrong(rng):
    "Items without an answer would mostly have been wrong; truth: all items"
    return _answered(rng, 0.95, 0.5), 0.6


@shape("difference", 60)
def shared_errors(rng):
    "Two models share most errors; one is a little better"
    theta = rng.beta(4, 2, 60)
    return paired(rng, theta, 0.92 * theta, 5, 0.85), 0.08 * 2 / 3


@shape("difference", 30)
def no_difference_ties(rng):
    "No difference, and nearly all items tie"
    theta = rng.beta(4, 2, 30)
    return paired(rng, theta, theta, 6, 0.95), 0.0


@shape("difference", 15)
def lognormal_gain(rng):
    "Lognormal differences: small losses and rare large gains"
    case = np.repeat(np.arange(15), 4)
    b = rng.normal(0, 1, 60)
    gain = np.exp(rng.normal(0, 0.9, 15)[case] + rng.normal(0, 0.6, 60)) - 1.5
    return {"a": b + gain, "b": b, "case": case}, math.exp((0.81 + 0.36) / 2) - 1.5


@shape("difference", 60)
def one_model_loses_cases(rng):
    "Equal but for three cases in a hundred, which the second model loses whole"
    p = np.full(60, 0.9)
    return paired(rng, p, p * coin(rng, np.full(60, 0.97)), 4, 1.0), 0.03 * 0.9


@shape("difference", 60)
def both_at_ceiling(rng):
    "Two models at .985 and .97, with independent errors"
    return paired(rng, np.full(60, 0.985), rng.beta(9.7, 0.3, 60), 5), 0.015


@shape("difference", 30)
def better_on_long_cases(rng):
    "The gain is in the long cases"
    z = rng.beta(1, 2, 30)
    truth = 0.3 * (2 / 3 + 10 / 6) / (2 + 10 / 3)
    return paired(rng, 0.5 + 0.3 * z, np.full(30, 0.5), 2 + rng.poisson(10 * z), 0.5), truth


@shape("difference", 10)
def opposed_domains(rng):
    "Ten cases of two domains, in which opposite models win"
    gain = 0.4 * (2 * coin(rng, np.full(10, 0.55)) - 1)
    return paired(rng, 0.5 + gain / 2, 0.5 - gain / 2, 10, 0.3), 0.04


@shape("judge", 60)
def judge_plain(rng):
    "A fair judge, and a quarter labelled at random"
    return judged(rng, rng.beta(4, 2, 60), 5, 0.9, 0.8, 0.25), 2 / 3


@shape("judge", 60)
def judge_ceiling(rng):
    "Nearly all is right, and the judge sees half of the errors"
    return judged(rng, rng.beta(19.5, 0.5, 60), 6, 0.97, 0.5, 0.2), 0.975


@shape("judge", 15)
def judge_of_moods(rng):
    "The judge's leniency differs between fifteen cases"
    return judged(rng, rng.beta(2, 2, 15), 20, rng.uniform(0.6, 1, 15), rng.uniform(0.2, 1, 15), 0.2), 0.5


@shape("judge", 60)
def judge_few_labels(rng):
    "Some twenty labels, and an almost faultless judge"
    return judged(rng, rng.beta(8, 2, 60), 5, 0.985, 0.985, 0.07), 0.8


@shape("judge", 60, random_labels=False)
def labels_by_verdict(rng):
    "Non-random labels: what the judge calls wrong is labelled five times as often"
    return judged(rng, rng.beta(4, 2, 60), 5, 0.9, 0.8, lambda t, j: 0.5 - 0.4 * j), 2 / 3


@shape("judge", 60, random_labels=False)
def labels_by_truth(rng):
    "Non-random labels: right answers are labelled more often, whatever the verdict"
    return judged(rng, rng.beta(4, 2, 60), 5, 0.85, 0.8, lambda t, j: 0.15 + 0.25 * t), 2 / 3


@shape("raters", 30, 4)
def four_raters(rng):
    "Four raters, two for each item"
    return rated(rng, few_each(rng, 30, 4, 2), rng.normal(0, 0.5, 4)), 3.0


@shape("raters", 30, 6)
def one_extreme_in_six(rng):
    "One rater in six, in the population, is far more severe"
    bias = rng.normal(0, 0.2, 6) - 2.5 * coin(rng, np.full(6, 1 / 6))
    return rated(rng, few_each(rng, 30, 6, 3), bias), 3 - 2.5 / 6


@shape("raters", 60, 8)
def skewed_raters(rng):
    "Eight raters, of whom a few are very severe"
    return rated(rng, crossed(rng, 60, 8, 0.3), -rng.exponential(0.8, 8)), 2.2


@shape("raters", 30, 6)
def rater_camps(rng):
    "Two camps, seven and three in ten, two points apart"
    return rated(rng, crossed(rng, 30, 6, 0.5), 2 * coin(rng, np.full(6, 0.7))), 4.4


@shape("raters", 30, 8)
def raters_of_schools(rng):
    "Eight raters nested in four schools, which differ more than their members"
    return rated(rng, few_each(rng, 30, 8, 4), np.repeat(rng.normal(0, 0.8, 4), 2) + rng.normal(0, 0.3, 8)), 3.0


@shape("raters", 60, 8)
def unequal_workload(rng):
    "One rater does most of the work, another very little"
    return rated(rng, crossed(rng, 60, 8, 1 / np.arange(1, 9)), rng.normal(0, 0.6, 8)), 3.0


@shape("raters", 60, 8, random_labels=False)
def busy_are_lenient(rng):
    "Informative workload: the busy 4 in 10 are lenient; truth: every rater counts the same"
    busy = coin(rng, np.full(8, 0.4))
    return rated(rng, crossed(rng, 60, 8, 0.2 + 0.6 * busy), 0.8 * busy + rng.normal(0, 0.3, 8)), 3.32


@shape("raters", 15, 4)
def strong_interaction(rng):
    "Two random factors whose interaction is the largest part; two readings of each pair"
    pairs = crossed(rng, 15, 4, 0.8)
    d = rated(rng, pairs, rng.normal(0, 0.5, 4), 0.5, 1.0)
    d = {k: np.repeat(x, 2) for k, x in d.items()}
    return d | {"value": d["value"] + rng.normal(0, 0.3, d["value"].size)}, 3.0


@shape("raters", 60, 6)
def drifting_raters(rng):
    "Raters grow more severe from item to item, each at their own pace; truth: the whole sequence"
    d = rated(rng, crossed(rng, 60, 6, 0.6), rng.normal(0, 0.3, 6))
    return d | {"value": d["value"] - rng.exponential(1.2, 6)[d["rater"]] * d["item"] / 59}, 3 - 0.6


@shape("raters", 30, 6)
def top_step_missing(rng):
    "Ordinal steps 1 to 6, of which the sixth is never given"
    d = rated(rng, few_each(rng, 30, 6, 3), rng.normal(0, 0.6, 6))
    cuts, sd = (2.2, 2.8, 3.3, 4.0), math.sqrt(3 * 0.36)
    return d | {"value": 1.0 + (d["value"][:, None] > cuts).sum(1)}, 1 + above(3, sd, *cuts)


@shape("rater_difference", 30, 4)
def camps_of_taste(rng):
    "Four raters of two camps that prefer opposite models"
    return both(rng, few_each(rng, 30, 4, 2), 1.6 * coin(rng, np.full(4, 0.6)) - 0.8), 0.16


@shape("rater_difference", 30, 6)
def one_hates_a_model(rng):
    "One rater in six, in the population, rejects the second model"
    return both(rng, few_each(rng, 30, 6, 3), 0.5 - 3 * coin(rng, np.full(6, 1 / 6)), seen=0.8), 0.0


@shape("rater_difference", 60, 8, random_labels=False)
def busy_prefer_a_model(rng):
    "Informative workload: raters who rate much prefer the second model"
    busy = coin(rng, np.full(8, 0.3))
    return both(rng, crossed(rng, 60, 8, 0.15 + 0.7 * busy), busy + rng.normal(0, 0.2, 8)), 0.3


@shape("rater_difference", 15, 8)
def steps_no_difference(rng):
    "Two models alike on steps 1 to 6 without a sixth; schools have tastes of their own"
    return both(rng, crossed(rng, 15, 8, 0.6), np.repeat(rng.normal(0, 0.6, 4), 2), (2.0, 2.6, 3.2, 4.0)), 0.0


@shape("agreement", 60, 4)
def one_label_prevails(rng):
    "One of three labels has most items"
    p = [[[0.97, 0.02, 0.01], [0.3, 0.6, 0.1], [0.3, 0.2, 0.5]]]
    return labelled(rng, np.array([0.9, 0.07, 0.03]), [1.0], p, few_each(rng, 60, 4, 2))


@shape("agreement", 30, 6)
def one_guesses_in_six(rng):
    "One rater in six, in the population, labels at random"
    p = [np.eye(3) * 0.85 + 0.05, np.full((3, 3), 1 / 3)]
    return labelled(rng, np.full(3, 1 / 3), [5 / 6, 1 / 6], p, crossed(rng, 30, 6, 0.7))


@shape("agreement", 30, 6)
def camps_of_rule(rng):
    "Two camps read the rule for a third of the items in opposite ways"
    p = [[[0.95, 0.05], [0.05, 0.95], [x, 1 - x]] for x in (0.9, 0.1)]
    return labelled(rng, np.full(3, 1 / 3), [0.6, 0.4], p, few_each(rng, 30, 6, 3))


@shape("agreement", 8, 4)
def eight_items_easy_or_hard(rng):
    "Eight items: plain, or a guess between four labels"
    p = [[[1, 0, 0, 0], [0, 1, 0, 0], [0.25] * 4]]
    return labelled(rng, np.array([0.4, 0.3, 0.3]), [1.0], p, crossed(rng, 8, 4))


@shape("agreement", 60, 8)
def steps_severe_and_mild(rng):
    "Ordinal steps 1 to 6 without a sixth; mild raters go one step higher"
    p = 0.6 * np.eye(5) + 0.2 * (np.eye(5, k=1) + np.eye(5, k=-1))
    p[0, 0] = p[4, 4] = 0.8
    d, truth = labelled(rng, np.full(4, 0.25), [0.7, 0.3], [p[:4], p[1:]], crossed(rng, 60, 8, 0.4))
    return d | {"label": d["label"] + 1}, truth


@shape("agreement", 60, 6, random_labels=False)
def hard_items_skipped(rng):
    "Abstentions not at random: raters skip what is hard; truth: all items"
    p, seen = [[[0.95, 0.05], [0.05, 0.95], [0.5, 0.5]]], [[0.9, 0.9, 0.4]]
    return labelled(rng, np.array([0.4, 0.3, 0.3]), [1.0], p, crossed(rng, 60, 6), seen)


def naive(kind, d):
    "The numerator and the denominator of the plain estimate."
    if kind == "rater_difference":
        return d["value"][d["model"] == 1].mean() - d["value"][d["model"] == 0].mean(), 1
    if kind != "agreement":
        x = d["a"] - d["b"] if kind == "difference" else d[{"mean": "score", "judge": "label"}.get(kind, "value")]
        return np.nansum(x), np.isfinite(x).sum()
    counts = np.zeros((d["item"].max() + 1, d["label"].max() + 1))
    np.add.at(counts, (d["item"], d["label"]), 1)
    n = counts.sum(1)
    return (counts * (counts - 1)).sum(), (n * (n - 1)).sum()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=200)
    draws = parser.parse_args().draws
    print(f"{'shape':26}{'kind':18}{'truth':>9}{'naive':>9}{'z':>7}")
    for k, s in enumerate(SHAPES.values()):
        rng, rows = np.random.default_rng(k), []
        for _ in range(draws):
            data, truth = s.draw(rng)
            rows.append(naive(s.kind, data))
        top, low = np.array(rows, float).T
        at = top.sum() / low.sum()
        z = (at - truth) / max(math.sqrt(((top - at * low) ** 2).sum()) / low.sum(), 1e-12)
        told = ("agrees" if abs(z) < 4 else "DIFFERS") if s.random_labels else "off by design"
        print(f"{s.name:26}{s.kind:18}{truth:9.4f}{at:9.4f}{z:7.1f}  {told}")


if __name__ == "__main__":
    main()
