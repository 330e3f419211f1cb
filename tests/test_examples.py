"""What a notebook shows is what its cells give: see examples.py. `python docs/outputs.py NOTEBOOK` stores it."""

import pytest
from examples import ROOT, first_fault

NOTEBOOKS = sorted(f for f in (ROOT / "nbs").rglob("*.ipynb") if f.parent.name not in ("stages", ".ipynb_checkpoints"))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda f: f"{f.parent.name}/{f.stem}")
def test_what_a_notebook_stores_is_what_it_shows(notebook):
    fault = first_fault(notebook)
    assert fault is None, f"{fault}\nif that is right: python docs/outputs.py {notebook.relative_to(ROOT)}"
