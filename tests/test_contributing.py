"Whoever adds a statistic, a form of answer, a preset, a stage or a study is told of every place that is left."

from conftest import ROOT

from mhbench.run.shape import stale_cells


def test_the_cell_of_parameters_says_what_the_class_declares():
    stale = [str(f.relative_to(ROOT)) for f in stale_cells(ROOT)]
    assert not stale, f"the cell tagged `parameters` of {stale} is out of step with its class: run `make export`"
