"""Every interval that a stage prints is measured by the coverage study, and holds what it promises."""

import importlib.util
import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from mhbench.report import tables

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import frozen  # noqa: E402
from inventory import inventory  # noqa: E402

SPEC = importlib.util.spec_from_file_location("interval_coverage", BENCHMARKS / "coverage.py")  # a package has its name
coverage = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(coverage)
KINDS = coverage.kinds()
FLOOR = 0.92  # of the share covered, at every setting where an interval is shown
MOST = 0.97
DRAWS = 100
FITS = 25  # draws of a model of raters, which takes a tenth of a second, and of other slow ones
SLOW = ("rater_", "model_free", "best ensemble", "average over models")
MEASURED = list(KINDS)


def test_every_listed_place_has_a_kind_that_measures_it():
    listed = inventory()
    named = {f"{r.place} ({r.call})": r.kinds.split("; ") for r in listed.itertuples() if r.kinds != "-"}
    unknown = {place: [k for k in names if k not in KINDS] for place, names in named.items()}
    assert not {place: names for place, names in unknown.items() if names}
    without = listed[listed["kinds"] == "-"]
    assert len(without) < 10 and without["number"].str.len().gt(20).all()  # each says what is printed instead


def results(folder: str, name: str) -> pd.DataFrame:
    return pd.read_csv(BENCHMARKS / "intervals" / folder / f"{name}.csv")


@pytest.mark.parametrize("name", MEASURED)
def test_the_results_of_every_kind_are_there_and_hold(name):
    found = results("results", name)
    kind = KINDS[name]
    assert [json.dumps(s) for s in kind.settings] == found["setting"].tolist(), "run benchmarks/coverage.py again"
    assert (found["draws"] >= 500).all()
    shown = found[found["shown"] * found["draws"] >= 50]  # of fewer the share covered says nothing
    low = shown[shown["covered"] + 2 * shown["se"] < FLOOR]
    assert bool(len(low)) == bool(kind.narrow), low[["setting", "shown", "covered", "se"]].to_string()
    if kind.narrow:  # the figures that are printed are those that were measured
        figures = sorted(re.findall(r"\.\d\d", kind.narrow))
        assert [figures[0], figures[-1]] == [f"{x:.2f}"[1:] for x in (low["covered"].min(), low["covered"].max())]


def part(name: str) -> pd.Series:
    "The setting of a kind that runs in a test: of those that show intervals, the one of the least work."
    found = results("results", name)
    usual = found[found["shown"] > 0.9]
    work = (usual if len(usual) else found)["setting"].map(
        lambda s: sum(v for v in json.loads(s).values() if is_size(v))
    )
    return found.loc[work.idxmin()]


def is_size(value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def most_missed(n: int, covered: float) -> int:
    "How many of n intervals miss at most, but for one time in a thousand, where this share of them holds."
    return int(binom.ppf(0.999, n, 1 - min(covered, 0.97)))


def missed(found: dict) -> tuple[int, int]:  # of how many
    n = round(found["shown"] * found["draws"])
    return round((1 - found["covered"]) * n) if n else 0, n


@pytest.mark.parametrize("name", MEASURED)
def test_what_covers_more_than_97_in_100_says_why(name):
    found = results("results", name)
    over = found[(found["shown"] * found["draws"] >= 50) & (found["covered"] - 2 * found["se"] > MOST)]
    assert KINDS[name].wide or not len(over), over[["setting", "shown", "covered", "se"]].to_string()


@pytest.mark.parametrize("name", MEASURED)
def test_a_part_of_every_kind_holds_now(name):
    stored = part(name)
    draws = FITS if name.startswith(SLOW) else DRAWS
    found = coverage.measure(name, int(stored.name), draws, truth=stored["truth"])
    assert abs(found["shown"] - stored["shown"]) <= 0.2
    misses, n = missed(found)
    assert not n or misses <= most_missed(n, stored["covered"]), f"{misses} of {n} intervals miss the truth"


def test_what_fails_on_the_shapes_of_others_says_when():
    found = frozen.table(pd.read_csv(frozen.RESULTS))
    assert set(found.index) == set(frozen.SHAPES) and (found["draws"] >= 2000).all()
    shown = found[found["shown"] > 0.5]
    error = (0.93 * 0.07 / shown["draws"]) ** 0.5
    low = set(shown.index[shown["covered"] < 0.93 - 2 * error])
    assert low <= set(frozen.WHEN), f"say when these fail: {sorted(low - set(frozen.WHEN))}"
    assert set(frozen.WHEN) <= set(shown.index[shown["covered"] < 0.93])
    wide = (shown["covered"] > 0.97) & (shown["times the best"] > 1.25)
    assert set(frozen.WIDE) == set(shown.index[wide])
    assert (found.loc[found["raters"].between(1, 5), "shown"] == 0).all()
    assert (found["shown"] > 0.9).mean() >= 0.8


@pytest.mark.parametrize("name", frozen.WHEN)
def test_a_table_of_an_interval_that_fails_says_when(name):
    shape = frozen.SHAPES[name]
    data, _ = shape.draw(np.random.default_rng(1))
    row = frozen.INTERVAL[shape.kind](data).row() | {"n_missing": int(name == "abstains_where_wrong")}
    assert np.isfinite(row["ci_low"])
    fewest = row["n_clusters"] if row["n_clusters"] < row["n"] else ""
    assert tables.UNSEEN[frozen.WHEN[name]].format(fewest) in tables.sampled(pd.DataFrame([row]))


def test_a_method_that_is_too_narrow_falls_out(monkeypatch):
    share = KINDS["share"]
    place = next(k for k, s in enumerate(share.settings) if s["cases"] == 30)

    def narrow(sample, seed):
        e = share.interval(sample, seed)
        half = 0.6 * (e.ci_high - e.ci_low) / 2  # six tenths of what it should be
        return SimpleNamespace(ci_low=e.estimate - half, ci_high=e.estimate + half)

    monkeypatch.setattr(coverage, "kinds", lambda: KINDS | {"share": replace(share, interval=narrow)})
    misses, n = missed(coverage.measure("share", place, DRAWS))
    assert misses > most_missed(n, results("results", "share").iloc[place]["covered"])
