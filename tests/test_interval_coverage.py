"""Every interval that a stage prints is listed, measured by the coverage study, and holds what it promises."""

import sys
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

from inventory import COLUMNS, inventory, sites  # noqa: E402


def test_every_place_that_makes_an_interval_is_listed():
    listed = inventory()
    assert list(listed) == COLUMNS and not listed.duplicated(["place", "call"]).any()
    there, known = set(sites()), set(zip(listed["place"], listed["call"]))
    assert len(there) > 100  # the package was read
    assert there <= known, f"add to benchmarks/intervals/inventory.csv: {sorted(there - known)}"
    assert known <= there, f"these make no interval, or are gone: {sorted(known - there)}"
