"The demo's numbers, compared with tests/golden."

import pytest
from conftest import ROOT
from golden_tables import differences, stored, tables

from mhbench.run.graph import graph

SHOWN = [n.name for n in graph(ROOT).values() if n.parameters and n.name not in ("report", "ledger")]


@pytest.mark.parametrize("stage", SHOWN)
def test_no_number_of_the_demo_moved(stage, demo):
    golden = {stage: stored().get(stage, {})}
    lines = differences(golden, {stage: tables(demo / "results").get(stage, {})})
    assert not lines, "\n".join([*lines[:20], "if the change is for that, say so in its commit, and `make golden`"])
