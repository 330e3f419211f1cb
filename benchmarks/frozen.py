"""Coverage of the intervals that stages print, on shapes that were written beforehand and by somebody else.

    python benchmarks/frozen.py [SHAPE ...] [--draws 2000] [--to FILE]

No method may be tuned on `frozen_shapes.py`. What is found goes into `intervals/frozen.csv`, a row a shape; a run goes
on where an earlier one stopped. `nbs/stats/22_coverage.ipynb` prints the table beside the shapes that are our own.
"""

import argparse
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from frozen_shapes import SHAPES, Shape

from mhbench.report.tables import UNSEEN
from mhbench.stats.agreement import mean_pairwise
from mhbench.stats.differences import mean_difference
from mhbench.stats.estimate import Estimate, estimate
from mhbench.stats.multi_reader import mean_over_raters, over_raters
from mhbench.stats.prediction_powered import prediction_powered
from mhbench.stats.resample import mean

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "intervals" / "frozen.csv"
COUNTS = ["draws", "shown", "below", "above", "width", "error", "square", "seconds"]  # sums over draws
CHUNK = 50
RARE = "too wide: by a sample in which something rare is not seen, no number can exclude that it is there"
WHEN = {  # shape -> which sentence of a table says that its interval fails
    "whole_case_lost": "cases",
    "lognormal_gain": "cases",
    "abstains_where_wrong": "missing",
    "labels_by_verdict": "labels",
    "labels_by_truth": "labels",
    **dict.fromkeys(["one_extreme_in_six", "one_hates_a_model", "one_guesses_in_six", "skewed_raters"], "raters"),
    **dict.fromkeys(["rater_camps", "raters_of_schools", "steps_no_difference", "hard_items_skipped"], "raters"),
}
WIDE = {  # shape -> why its interval covers more than .97 and is more than 1.25 times as wide as the best
    "ceiling_99": RARE,
    "floor_03": RARE,
    "one_model_loses_cases": RARE,
    "judge_few_labels": RARE,
    "camps_of_rule": "too wide: a variance over six raters has five degrees of freedom",
}


def binary(*values: np.ndarray) -> bool:
    return all(np.isin(x[np.isfinite(x)], (0, 1)).all() for x in values)


def of_mean(d: dict) -> Estimate:
    return estimate(mean, d["score"], clusters=d["case"], share=binary(d["score"]), seed=0)


def of_difference(d: dict) -> Estimate:
    a, b = (np.asarray(d[name], float) for name in "ab")
    return mean_difference(a - b, d["case"], largest=1.0 if binary(a, b) else np.inf)


def of_judge(d: dict) -> Estimate:
    return prediction_powered(d["label"], d["judge"], clusters=d["case"], share=True, level=0.95).both


def of_raters(d: dict) -> Estimate:
    within = (0, 1) if binary(np.asarray(d["value"], float)) else (-np.inf, np.inf)
    return mean_over_raters(d["value"], d["item"], d["rater"], within=within).both


def of_rater_difference(d: dict) -> Estimate:
    wide = pd.DataFrame(d).pivot_table("value", ["item", "rater"], "model")
    apart = (wide[1] - wide[0]).dropna()
    within = (-1, 1) if binary(np.asarray(d["value"], float)) else (-np.inf, np.inf)
    return mean_over_raters(apart, *(apart.index.get_level_values(k) for k in ("item", "rater")), within=within).both


def of_agreement(d: dict) -> Estimate:
    wide = pd.DataFrame(d).astype({"label": str}).pivot_table("label", "rater", "item", aggfunc="first")
    labels = wide.to_numpy(dtype=object)
    labels = np.where(pd.isna(labels), None, labels)
    return over_raters(partial(mean_pairwise, metric="percent_agreement"), labels, fewest=2, within=(0, 1)).both


INTERVAL = {
    "mean": of_mean,
    "difference": of_difference,
    "judge": of_judge,
    "raters": of_raters,
    "rater_difference": of_rater_difference,
    "agreement": of_agreement,
}


def measure(shape: Shape, place: int, start: int, draws: int) -> dict[str, float]:
    "Sums over these draws, of which each has a seed of its own."
    found = dict.fromkeys(COUNTS, 0.0)
    began = time.perf_counter()
    for d in range(start, start + draws):
        data, truth = shape.draw(np.random.default_rng([place, d]))
        e = INTERVAL[shape.kind](data)
        found["draws"] += 1
        if np.isfinite(e.estimate):
            found["error"] += e.estimate - truth
            found["square"] += (e.estimate - truth) ** 2
        if np.isfinite(e.ci_low):
            found["shown"] += 1
            found["below"] += truth < e.ci_low - 1e-12
            found["above"] += truth > e.ci_high + 1e-12
            found["width"] += e.ci_high - e.ci_low
    return found | {"seconds": time.perf_counter() - began}


def table(results: pd.DataFrame) -> pd.DataFrame:
    "A row a shape: coverage, and the width in units of the central 95% of the estimate's errors."
    r = results.set_index("shape")
    covered = 1 - (r["below"] + r["above"]) / r["shown"]
    sd = np.sqrt(np.maximum(r["square"] / r["draws"] - (r["error"] / r["draws"]) ** 2, 1e-18))
    about = {name: (s.kind, s.n_cases, s.n_raters, s.random_labels) for name, s in SHAPES.items()}
    rows = pd.DataFrame([about[s] for s in r.index], r.index, ["kind", "cases", "raters", "random"])
    rows["draws"] = r["draws"].astype(int)
    rows["shown"] = (r["shown"] / r["draws"]).round(3)
    rows["covered"] = covered.round(3)
    rows["times the best"] = (r["width"] / r["shown"] / (3.92 * sd)).round(2)
    said = {name: UNSEEN[key].format("so many") for name, key in WHEN.items()} | WIDE
    few = "fewer than six raters: no interval"
    rows["fails where"] = [said.get(name, few if not n else "") for name, n in r["shown"].items()]
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", help="none: all")
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--to", type=Path, default=RESULTS)
    args = parser.parse_args()
    known = pd.read_csv(args.to).set_index("shape") if args.to.exists() else pd.DataFrame(columns=COUNTS, dtype=float)
    warnings.simplefilter("ignore")
    names = args.shapes or list(SHAPES)
    while left := [n for n in names if n not in known.index or known.loc[n, "draws"] < args.draws]:
        fewest = min(left, key=lambda n: known.loc[n, "draws"] if n in known.index else 0)
        before = known.loc[fewest] if fewest in known.index else pd.Series(0.0, COUNTS)
        start = int(before["draws"])
        found = measure(SHAPES[fewest], list(SHAPES).index(fewest), start, min(CHUNK, args.draws - start))
        known.loc[fewest, COUNTS] = [before[c] + found[c] for c in COUNTS]
        known.rename_axis("shape").round(6).reset_index().to_csv(args.to, index=False)
    print(table(known.loc[[n for n in names]].rename_axis("shape").reset_index()).to_string())


if __name__ == "__main__":
    main()
