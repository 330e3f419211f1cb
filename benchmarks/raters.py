"""The statistics of raters against loops over scikit-learn and the krippendorff package.

    python benchmarks/raters.py            # the loops run 5 of 1,000 replicates and are scaled up
    python benchmarks/raters.py --full     # the loops run all of them (about half an hour)

1. The whole analysis of MedQADE at its size: 9 physicians x 200 items x 5 students, 9 annotators x 3,800 x 5, 1,000
bootstraps, all 256
   odd-sized ensembles, all biases. Bars: under 15 s and 1 GB; at least 100 times as fast as the loops; the same numbers
   to 1e-9.
2. An alpha interval of 1,000 replicates for 9 raters x 1,000 items. Bar: at least 50 times as fast as a loop.
3. Alpha intervals (1,000 replicates, interval level) for 61 questions of about 10 annotations x 5 options. Bar: under 5
s, equal to 1e-9.

Simulated ratings throughout. The loops get the same draws as we do, and the drawn units by `numpy.repeat`.
"""

import os

for v in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(v, "1")  # the products are small: threads only wait for each other
import argparse
import resource
import time
import warnings
from functools import partial
from itertools import combinations

import krippendorff
import numpy as np
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import cohen_kappa_score

from mhbench.stats.abstention import abstention_by_difficulty, mean_difficulty
from mhbench.stats.agreement import krippendorff_alpha, mean_pairwise
from mhbench.stats.bias import as_scores, family_bias, self_enhancement
from mhbench.stats.consensus import alignment, best_ensemble, leave_one_out_ceiling, majority
from mhbench.stats.resample import bootstrap, draw_weights
from mhbench.studies.medqade.simulate import Judge, Student, simulate_panel

warnings.simplefilter("ignore", UndefinedMetricWarning)
B, N, SEED = 1000, 200, 7
STUDENTS = [
    Student("gem-flash", 0.9, "gem"),
    Student("ox-nano", 0.7, "ox"),
    Student("elm-27", 0.2, "elm"),
    Student("elm-4", -0.9, "elm"),
    Student("fir-4", -0.9, "fir"),
]
MODELS = [
    Judge("gem-3", 0.94, 0.93, lineage="gem"),
    Judge("gem-flash", 0.9, 0.9, 0.001, "gem", 0.05, 0.05),
    Judge("gem-lite", 0.88, 0.88, lineage="gem"),
    Judge("ox-mini", 0.9, 0.88, lineage="ox"),
    Judge("ox-nano", 0.85, 0.86, lineage="ox"),
    Judge("ox-tiny", 0.83, 0.85, lineage="ox"),
    Judge("elm-27", 0.85, 0.82, 0.01, "elm"),
    Judge("elm-4", 0.8, 0.7, 0.06, "elm", 0.25, 0.2),
    Judge("fir-4", 0.75, 0.85, 0.04, "fir"),
]
PHYSICIANS = [Judge(f"r{k}", 0.9, 0.89, 0.03) for k in range(9)]


def ours(panel, machine):
    "Every statistic of the paper's section 4.4, with intervals."
    flat = lambda x: x.reshape(len(x), -1)
    people, models = flat(panel.labels), flat(machine.labels[:, :, :N])
    items = np.tile(np.arange(N), len(STUDENTS))
    kw = dict(n=B, seed=SEED)
    out = {}
    for m in ("percent_agreement", "cohen_kappa", "pabak"):
        out["pairwise", m] = [
            bootstrap(partial(mean_pairwise, metric=m), panel.labels[:, s], axis=-1, **kw) for s in range(5)
        ] + [bootstrap(partial(mean_pairwise, metric=m), people, axis=-1, clusters=items, **kw)]
        out["alignment", m] = alignment(models, people, metric=m, clusters=items)
    out["alpha"] = [
        bootstrap(partial(krippendorff_alpha, level="nominal"), panel.labels[:, s], axis=-1, **kw) for s in range(5)
    ]
    order = np.vectorize({"Easy": 0.0, "Medium": 1.0, "Hard": 2.0}.get)(panel.difficulty)
    out["alpha_ordinal"] = bootstrap(partial(krippendorff_alpha, level="ordinal"), order, axis=-1, **kw)
    out["ceiling"] = leave_one_out_ceiling(people, clusters=items)
    hard = mean_difficulty(panel.difficulty)
    out["abstention"] = [
        abstention_by_difficulty(x.reshape(-1, N), hard, **kw) for x in (panel.labels, *machine.labels[:, :, :N])
    ]
    out["accuracy"] = [
        bootstrap(
            lambda x, *, weights: weights @ np.nan_to_num(x) / (weights @ ~np.isnan(x)),
            as_scores(majority(panel.labels[:, s])),
            **kw,
        )
        for s in range(5)
    ]
    out["ensemble"] = best_ensemble(models, people, clusters=items, **kw)
    scores, names = as_scores(machine.labels), ([j.name for j in MODELS], [s.name for s in STUDENTS])
    lineages = {j.name: j.lineage for j in MODELS}
    out["bias"] = self_enhancement(scores, *names, lineages, **kw) + family_bias(scores, *names, lineages, **kw)
    return out


def both(a, b):
    return (a != None) & (b != None) & (a != "Abstain") & (b != "Abstain")  # noqa: E711 (by element)


def kappa(a, b):
    keep = both(a, b)
    return cohen_kappa_score(a[keep].astype(str), b[keep].astype(str)) if keep.any() else np.nan


def agree(a, b):
    keep = both(a, b)
    return (a[keep] == b[keep]).mean()


def loops(panel, machine, got, replicates):
    "The same by loops; seconds for B replicates, and the greatest difference from ours."
    flat = lambda x: x.reshape(len(x), -1)
    people, models = flat(panel.labels), flat(machine.labels[:, :, :N])
    items = np.tile(np.arange(N), len(STUDENTS))
    single = [w.astype(int) for w in next(draw_weights(N, B, seed=SEED))[:replicates]]
    by_item = [w[items] for w in single]  # one weight an item, for all of its answers
    worst, seconds = {}, {}

    def timed(name, f, scale=B / replicates):
        t = time.perf_counter()
        want, have = f()
        seconds[name] = (time.perf_counter() - t) * scale
        worst[name] = float(np.nanmax(np.abs(np.asarray(want, float) - np.asarray(have, float))))
        assert (np.isnan(np.asarray(want, float)) == np.isnan(np.asarray(have, float))).all(), name

    drawn = lambda x, w: np.repeat(x, w, axis=-1)
    vote = lambda x: np.array([_majority(c) for c in x.T], dtype=object)
    pairs = list(combinations(range(9), 2))
    nan = np.vectorize(lambda v: {"Correct": 1.0, "Incorrect": 0.0}.get(v, np.nan))

    def f():
        want, have = [], []
        for m, g in (("cohen_kappa", kappa), ("percent_agreement", agree), ("pabak", lambda a, b: 2 * agree(a, b) - 1)):
            for s in range(5):
                for k, w in enumerate(single):
                    x = drawn(panel.labels[:, s], w)
                    want.append(np.nanmean([g(x[i], x[j]) for i, j in pairs]))
                    have.append(got["pairwise", m][s].replicates[k])
            for k, w in enumerate(by_item):
                x = drawn(people, w)
                want.append(np.nanmean([g(x[i], x[j]) for i, j in pairs]))
                have.append(got["pairwise", m][5].replicates[k])
        return want, have

    timed("pairs", f)

    def f():
        want = [
            krippendorff.alpha(drawn(nan(panel.labels[:, s]), w), level_of_measurement="nominal")
            for s in range(5)
            for w in single
        ]
        have = [got["alpha"][s].replicates[k] for s in range(5) for k in range(replicates)]
        order = np.vectorize({"Easy": 0.0, "Medium": 1.0, "Hard": 2.0}.get)(panel.difficulty)
        return (
            want + [krippendorff.alpha(drawn(order, w), level_of_measurement="ordinal") for w in single],
            have + got["alpha_ordinal"].replicates[:replicates].tolist(),
        )

    timed("alpha", f)

    consensus = vote(people)
    others = [vote(np.delete(people, r, 0)) for r in range(9)]

    def f():
        every = [kappa(people[r], others[r]) for r in range(9)]
        return [np.mean(every), *every], [got["ceiling"].mean.estimate, *(e.estimate for e in got["ceiling"].per_rater)]

    timed("ceiling", f, scale=1.0)

    def f():  # without the inner replicates, which are 20 times as much again
        want, have, e = [], [], got["ensemble"]["cohen_kappa"]
        votes = [vote(models[list(m)]) for m in e.candidates]
        best = e.candidates.index(e.members)
        for k, w in enumerate(by_item[: max(1, replicates // 5)]):
            want.append([kappa(drawn(v, w), drawn(consensus, w)) for v in votes][best])
            have.append(e.apparent.replicates[k])
        return want + [kappa(v, consensus) for v in votes], have + e.values.tolist()

    timed("ensembles (kappa, outer replicates)", f, B / max(1, replicates // 5))

    def f():
        scores, want, have = nan(machine.labels), [], []
        n = scores.shape[2]
        weights = [w.astype(int) for w in next(draw_weights(n, replicates, seed=SEED))]
        of = {j.name: j.lineage for j in MODELS}
        for b in got["bias"]:
            a, s = [j.name for j in MODELS].index(b.annotator), [x.name for x in STUDENTS].index(b.student)
            peers = [i for i, j in enumerate(MODELS) if j.lineage != of[b.annotator]]
            differences = [
                np.nanmean(x[a] - np.nanmean(x[peers], axis=0))
                for x in (scores[:, s], *(np.repeat(scores[:, s], w, axis=1) for w in weights))
            ]
            want.append(differences[0])  # an estimate keeps no replicates: those of the loop take their time alone
            have.append(b.difference.estimate)
        return want, have

    timed("biases", f)
    return seconds, worst


def _majority(column):
    c, i = (column == "Correct").sum(), (column == "Incorrect").sum()
    return "Correct" if c > i else "Incorrect" if i > c else None


def best_of(f, k=5):
    out = []
    for _ in range(k):
        t = time.perf_counter()
        r = f()
        out.append(time.perf_counter() - t)
    return min(out), r


def main():
    full = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    full.add_argument("--full", action="store_true")
    full.add_argument("--loops", type=int, default=5, help="how many replicates the loops run")
    full.add_argument("--items", type=int, default=3800, help="of the annotators of the first part")
    a = full.parse_args()
    replicates = B if a.full else a.loops

    print("1. the whole analysis of MedQADE at its size (simulated)")
    panel, machine = simulate_panel(PHYSICIANS, STUDENTS, N, seed=1), simulate_panel(MODELS, STUDENTS, a.items, seed=1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    t = time.perf_counter()
    got = ours(panel, machine)
    mine = time.perf_counter() - t
    print(
        f"   ours {mine:.2f} s, peak memory of the process"
        f" {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB ({before:.2f} GB before)"
    )
    seconds, worst = loops(panel, machine, got, replicates)
    for k in seconds:
        print(
            f"   loops: {k:38s} {seconds[k]:9.1f} s{'' if replicates == B else ' (scaled)'}   greatest difference"
            f" {worst[k]:.1e}"
        )
    total = sum(seconds.values())
    print(f"   loops {total:.0f} s, ratio {total / mine:.0f}, greatest difference {max(worst.values()):.1e}")

    print("2. an alpha interval, 1,000 replicates, 9 x 1,000")
    rng = np.random.default_rng(0)
    for name, level, values in (
        ("binary, nominal", "nominal", 2),
        ("three grades, ordinal", "ordinal", 3),
        ("0 to 100, interval", "interval", 101),
    ):
        x = rng.integers(0, values, (9, 1000)).astype(float)
        x[rng.random(x.shape) < 0.03] = np.nan
        mine, i = best_of(lambda: bootstrap(partial(krippendorff_alpha, level=level), x, axis=-1, n=B, seed=SEED))
        some = min(10 if values > 10 else 200, 40 * replicates)
        w = next(draw_weights(1000, B, seed=SEED))[:some].astype(int)
        theirs, r = best_of(
            lambda: [krippendorff.alpha(np.repeat(x, k, axis=1), level_of_measurement=level) for k in w],
            1 if values > 10 else 3,
        )
        theirs *= B / some
        print(
            f"   {name:22s} ours {mine * 1e3:7.1f} ms, loop {theirs * 1e3:9.1f} ms (scaled from {some}), ratio"
            f" {theirs / mine:6.0f}, greatest difference {np.abs(i.replicates[:some] - r).max():.1e}"
        )

    print("3. alpha intervals for 61 questions, interval level, 1,000 replicates")
    data = [rng.integers(0, 101, (int(rng.integers(6, 12)), 5)).astype(float) for _ in range(61)]
    mine, out = best_of(
        lambda: [bootstrap(partial(krippendorff_alpha, level="interval"), x, axis=-1, n=B, seed=SEED) for x in data], 3
    )
    w = next(draw_weights(5, B, seed=SEED))[:50].astype(int)
    t = time.perf_counter()
    worst = max(
        np.abs(
            i.replicates[:50]
            - [krippendorff.alpha(np.repeat(x, k, axis=1), level_of_measurement="interval") for k in w]
        ).max()
        for x, i in zip(data, out)
    )
    theirs = (time.perf_counter() - t) * B / 50
    print(
        f"   ours {mine:.3f} s, loop {theirs:.1f} s (scaled from 50), ratio {theirs / mine:.0f}, greatest difference"
        f" {worst:.1e}"
    )


if __name__ == "__main__":
    main()
