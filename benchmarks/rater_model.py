"""The model of raters at the size of a pilot and of a benchmark.

    python benchmarks/rater_model.py
    python benchmarks/rater_model.py --raschpy    # RaschPy's many-facet model of the same ratings, if it is installed

Bars: 2,400 ratings under 2 s, 50,000 under 60 s. RaschPy needs one column an item and one row a rater and answer.
"""

import os

for v in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(v, "1")
import argparse
import time

import numpy as np
import pandas as pd

from mhbench.stats.rater_likelihood import category_log_probs
from mhbench.stats.rater_model import fit_raters


def drawn(raters: int, answers: int, each: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    "Scores of 0 to 4, their answers and raters."
    rng = np.random.default_rng(seed)
    rater = np.argsort(rng.random((answers, raters)), 1)[:, :each].ravel()
    answer = np.repeat(np.arange(answers), each)
    cuts = np.tile([0, 1.2, 1.6, 1.2, 0], (raters, 1))
    worth, severity = rng.normal(0, 1.2, answers), rng.normal(0, 0.7, raters)
    p = np.exp(category_log_probs(worth, severity, np.ones(raters), cuts, np.arange(5)))[rater, answer]
    return (p.cumsum(1) < rng.random(len(p))[:, None]).sum(1), answer, rater


def by_raschpy(value: np.ndarray, answer: np.ndarray, rater: np.ndarray) -> float:
    import raschpy

    index = pd.MultiIndex.from_product([np.unique(rater), np.unique(answer)], names=["Rater", "Person"])
    frame = pd.DataFrame({"item": value.astype(float)}, index=pd.MultiIndex.from_arrays([rater, answer])).reindex(index)
    began = time.perf_counter()
    raschpy.MFRM(frame, max_score=4).calibrate(model="global")
    return time.perf_counter() - began


def main() -> None:
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--raschpy", action="store_true")
    args.add_argument("--sizes", type=int, default=4, help="the first of the four sizes alone")
    a = args.parse_args()
    for raters, answers, each in ((8, 300, 8), (8, 1200, 2), (30, 6250, 8), (30, 25_000, 2))[: a.sizes]:
        ratings = drawn(raters, answers, each)
        began, cpu = time.perf_counter(), time.process_time()
        fit = fit_raters(*ratings, categories=range(5))
        took = f"{time.perf_counter() - began:.1f} s ({time.process_time() - cpu:.1f} s of the processor)"
        print(
            f"{len(ratings[0]):6,} ratings by {raters:2} raters, {each} an answer: {took}, passed {fit.passed}", end=""
        )
        if each == 2:  # five models' answers to each question
            cpu = time.process_time()
            model, question = ratings[1] % 5, ratings[1] // 5
            fit_raters(*ratings, categories=range(5), facets={"model": model}, items=question)
            print(f"; with models and questions {time.process_time() - cpu:.1f} s of the processor", end="")
        print(f"; RaschPy {by_raschpy(*ratings):.1f} s" if a.raschpy else "", flush=True)


if __name__ == "__main__":
    main()
