"""How often 95% intervals hold the truth: every kind of interval that a stage prints, in settings that occur.

    python benchmarks/coverage.py [KIND ...] [--draws 2000] [--jobs 2] [--part] [--missing] [--to FOLDER]

A kind is declared in `benchmarks/intervals/*.py` (`KINDS`); what is found goes into a table of its own,
`intervals/results/<kind>.csv`. The notebook `nbs/stats/22_coverage.ipynb` reads these tables, and a test runs a part.
"""

import argparse
import importlib
import json
import sys
import time
from functools import partial
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


def known_rows(file: Path, draws: int) -> dict[str, dict]:
    "The rows of a table that rest on so many draws, by setting."
    rows = pd.read_csv(file).to_dict("records") if file.exists() else []
    return {row["setting"]: row for row in rows if row["draws"] >= draws}


def main() -> None:
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("kinds", nargs="*", help="none: all")
    args.add_argument("--draws", type=int, default=2000)
    args.add_argument("--jobs", type=int, default=1)
    args.add_argument("--part", action="store_true", help="every kind's first setting alone")
    args.add_argument("--missing", action="store_true", help="settings alone that the table lacks, or has with fewer")
    args.add_argument("--to", type=Path, default=HERE / "intervals" / "results")
    args = args.parse_args()
    args.to.mkdir(parents=True, exist_ok=True)
    every = kinds()
    for name in args.kinds or every:
        file = args.to / f"{name}.csv"
        settings = [json.dumps(s) for s in every[name].settings[: 1 if args.part else None]]
        rows = known_rows(file, args.draws) if args.missing else {}
        places = [p for p, s in enumerate(settings) if s not in rows]
        with Pool(args.jobs) as pool:
            for row in pool.imap(partial(measure, name, draws=args.draws), places):
                print(pd.Series(row).drop(["kind", "draws", "se"]).to_frame().T.to_string(header=False), flush=True)
                rows[row["setting"]] = row
                table = pd.DataFrame([rows[s] for s in settings if s in rows])  # a run that is stopped can go on
                table.drop(columns="seconds", errors="ignore").round(4).to_csv(file, index=False)


if __name__ == "__main__":
    main()
