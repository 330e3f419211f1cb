"""How often 95% intervals hold the truth: every kind of interval that a stage prints, in settings that occur.

    python benchmarks/coverage.py [KIND ...] [--draws 2000] [--jobs 2] [--part] [--to benchmarks/intervals/results]

A kind is declared in `benchmarks/intervals/*.py` (`KINDS`); what is found goes into a table of its own,
`intervals/results/<kind>.csv`. The notebook `nbs/stats/22_coverage.ipynb` reads these tables, and a test runs a part.
"""

import argparse
import importlib
import json
import sys
import time
from multiprocessing import Pool
from pathlib import Path

import numpy as np
import pandas as pd

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))  # also where this file is imported, or a worker begins afresh
from intervals.kind import Kind  # noqa: E402


def kinds() -> dict[str, Kind]:
    "Every kind that a file of `intervals` declares, by name."
    files = sorted((HERE / "intervals").glob("*.py"))
    modules = [importlib.import_module(f"intervals.{f.stem}") for f in files if f.stem not in ("__init__", "kind")]
    found = [kind for module in modules for kind in module.KINDS]
    names = [kind.name for kind in found]
    assert len(set(names)) == len(names), f"two kinds have one name: {names}"
    return dict(zip(names, found))


def measure(name: str, place: int, draws: int, truth: float | None = None) -> dict:
    "One setting of a kind: the share of its intervals that hold the truth, which may be known from an earlier run."
    kind = kinds()[name]
    setting = kind.settings[place]
    began = time.perf_counter()
    truth = kind.truth(**setting) if truth is None else truth
    limits = np.full((draws, 2), np.nan)
    truths = np.full(draws, np.nan)
    for d in range(draws):
        rng = np.random.default_rng([place, d])
        sample = kind.draw(rng, **setting)
        found = kind.interval(sample, d)
        limits[d] = found.ci_low, found.ci_high
        truths[d] = truth if kind.truth_of is None else kind.truth_of(sample)
    shown = ~np.isnan(limits).any(1)
    low, high = limits[shown].T
    under, over = truths[shown] < low - 1e-12, truths[shown] > high + 1e-12
    n = int(shown.sum())
    covered = float(1 - (under | over).mean()) if n else np.nan
    return {
        "kind": name,
        "setting": json.dumps(setting),
        "draws": draws,
        "shown": n / draws,
        "covered": covered,
        "se": float(np.sqrt(covered * (1 - covered) / n)) if n else np.nan,
        "truth_below": float(under.mean()) if n else np.nan,
        "truth_above": float(over.mean()) if n else np.nan,
        "width": float((high - low).mean()) if n else np.nan,
        "truth": truth,
        "seconds": round(time.perf_counter() - began, 2),
    }


def main() -> None:
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("kinds", nargs="*", help="none: all")
    args.add_argument("--draws", type=int, default=2000)
    args.add_argument("--jobs", type=int, default=1)
    args.add_argument("--part", action="store_true", help="every kind's first setting alone")
    args.add_argument("--to", type=Path, default=HERE / "intervals" / "results")
    args = args.parse_args()
    every = kinds()
    for name in args.kinds or every:
        places = range(1 if args.part else len(every[name].settings))
        with Pool(args.jobs) as pool:
            rows = pd.DataFrame(pool.starmap(measure, [(name, p, args.draws) for p in places], chunksize=1))
        print(rows.drop(columns=["kind", "draws", "se"]).round(3).to_string(index=False), flush=True)
        args.to.mkdir(parents=True, exist_ok=True)
        rows.drop(columns="seconds").round(4).to_csv(args.to / f"{name}.csv", index=False)


if __name__ == "__main__":
    main()
