"""The hierarchical Bradley-Terry fit against its bars and against SLSQP with numerical gradients, all in one run.

    python benchmarks/hierarchical_fit.py [--full] [--refits 100]

Takes the 600 raw annotations of the MENTAT release ($MHBENCH_DATASETS, or ../shared/datasets beside the repository),
and simulated ones of the same
size where they are absent. SLSQP, which the authors use, runs on the first questions only (--questions), because it
takes minutes on all of them:
--full runs it on all. Wall-clock seconds, and processor seconds of this process beside them, since other programs may
be running.
"""

import argparse
import os
import time
from pathlib import Path

import krippendorff
import numpy as np
from scipy.optimize import minimize

from mhbench.stats.hierarchical import bootstrap_preferences, hierarchical_bradley_terry
from mhbench.stats.soft_labels import question_alphas
from mhbench.studies.mentat.annotations import annotation_arrays, load_annotations

ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
ap.add_argument("--full", action="store_true")
ap.add_argument("--refits", type=int, default=100)
ap.add_argument("--questions", type=int, default=8)
args = ap.parse_args()
rows = []


def timed(name, bar, f):
    wall, cpu = time.perf_counter(), time.process_time()
    out = f()
    rows.append((name, time.perf_counter() - wall, time.process_time() - cpu, bar))
    return out


def annotations():
    folder = (
        Path(os.environ.get("MHBENCH_DATASETS", Path(__file__).resolve().parents[2] / "shared" / "datasets"))
        / "mentat"
        / "annotated_data"
    )
    if folder.is_dir():
        a = annotation_arrays(load_annotations(folder, mapping="release").ratings)
        return "600 raw annotations of the release", a.scores, a.questions, a.raters
    rng = np.random.default_rng(1)
    q = rng.integers(0, 61, 600)
    x = np.clip(np.round(50 + 15 * (rng.normal(0, 1, (61, 5))[q] + rng.gumbel(0, 1.5, (600, 5)))), 0, 100)
    return "600 simulated annotations (no release at hand)", x, q, rng.integers(0, 8, 600)


def slsqp(x, questions, raters):
    "The model as the paper writes it, by SLSQP with numerical gradients and the betas' sums as constraints."
    (uq, q), (ur, r) = (np.unique(v, return_inverse=True) for v in (questions, raters))
    i, j = np.triu_indices(x.shape[1], 1)
    d = x[:, i] - x[:, j]
    n, p = np.nonzero(d)
    win, lose = np.where(d[n, p] > 0, i[p], j[p]), np.where(d[n, p] > 0, j[p], i[p])
    k, m, a = x.shape[1], len(uq), len(ur)

    def nll(v):
        b, s, g = v[: m * k].reshape(m, k), v[m * k : m * k + a], v[m * k + a :]
        z = g[r[n]] + s[r[n]] * (b[q[n], win] - b[q[n], lose])
        return np.logaddexp(0, -z).sum() + 5 * (g @ g) + 5 * ((1 - s) @ (1 - s))

    sums = [{"type": "eq", "fun": lambda v, c=c: v[c * k : (c + 1) * k].sum()} for c in range(m)]
    return minimize(
        nll,
        np.r_[np.zeros(m * k), np.ones(a), np.zeros(a)],
        method="SLSQP",
        bounds=[(None, None)] * (m * k) + [(0.5, 2)] * a + [(-3, 3)] * a,
        constraints=sums,
        options={"maxiter": 1000},
    ).fun


def panel(n_questions, n_raters=20, ratings=10, n_options=5):
    "Simulated annotations, `ratings` a question, with raters of different slopes and rounded scores."
    rng = np.random.default_rng(1)
    worths, slopes = rng.normal(0, 1.5, (n_questions, n_options)), rng.uniform(0.6, 1.6, n_raters)
    question = np.repeat(np.arange(n_questions), ratings)
    rater = np.concatenate([rng.choice(n_raters, ratings, replace=False) for _ in range(n_questions)])
    seen = slopes[rater][:, None] * worths[question] + rng.gumbel(0, 1.5, (len(question), n_options))
    return np.clip(np.round(50 + 8 * seen), 0, 100), question, rater


name, x, q, r = annotations()
hierarchical_bradley_terry(x[:50], q[:50], r[:50])  # imports and first calls, out of the timing
fit = timed("fit, paper's model", "0.5 s", lambda: hierarchical_bradley_terry(x, q, r))
timed("fit, symmetric model with ties", "", lambda: hierarchical_bradley_terry(x, q, r, offset="symmetric"))
boot = timed(
    f"{args.refits} refits, paper's model",
    "30 s for 100",
    lambda: bootstrap_preferences(x, q, r, n=args.refits, seed=1),
)
for n_questions in (500, 1000):
    large = panel(n_questions)
    for offset in ("paper", "symmetric"):
        timed(
            f"{args.refits} refits, {n_questions} questions, {offset}",
            "120 s for 100 of both" if n_questions == 1000 else "",
            lambda: bootstrap_preferences(*large, n=args.refits, seed=1, offset=offset),
        )
alphas = timed("alpha of each question", "5 s", lambda: question_alphas(x, q, seed=1))
few = np.isin(q, np.unique(q)[: len(np.unique(q)) if args.full else args.questions])
ours = timed(f"fit, {len(np.unique(q[few]))} questions", "", lambda: hierarchical_bradley_terry(x[few], q[few], r[few]))
theirs = timed(f"SLSQP, {len(np.unique(q[few]))} questions", "", lambda: slsqp(x[few], q[few], r[few]))

print(f"{name}, {len(np.unique(q))} questions, {len(np.unique(r))} raters\n\n{'':42}{'wall s':>9}{'CPU s':>9}  bar")
for row in rows:
    print(f"{row[0]:42}{row[1]:9.3f}{row[2]:9.3f}  {row[3]}")
package = np.array(
    [krippendorff.alpha(reliability_data=x[q == k], level_of_measurement="interval") for k in alphas.questions]
)
print(
    f"\npenalised negative log-likelihood    {fit.nll:.4f} (bar on the release: 470.72)\nreplicates that did not"
    f" converge     {boot.n_unconverged} of {args.refits}\nlargest difference of alpha from the krippendorff package "
    f" {np.nanmax(np.abs(alphas.alpha - package)):.1e}\nSLSQP ends at {theirs:.4f}, ours at {ours.nll:.4f}; SLSQP takes"
    f" {rows[-1][1] / rows[-2][1]:.0f} times as long"
)
