"""What a notebook shows is what its cells give: see examples.py. `python docs/outputs.py NOTEBOOK` stores it."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest
from examples import ROOT, first_fault

NOTEBOOKS = sorted(f for f in (ROOT / "nbs").rglob("*.ipynb") if f.parent.name not in ("stages", ".ipynb_checkpoints"))


@pytest.fixture(scope="module")
def processes():
    "A process for each notebook, with the libraries loaded and nothing that another notebook left."
    context = get_context("forkserver")
    context.set_forkserver_preload(["examples", "matplotlib.pyplot", "scipy.stats", "mhbench.run.stage"])
    with ProcessPoolExecutor(1, context, max_tasks_per_child=1) as pool:
        yield pool


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda f: f"{f.parent.name}/{f.stem}")
def test_what_a_notebook_stores_is_what_it_shows(notebook, processes):
    fault = processes.submit(first_fault, notebook).result()
    assert fault is None, f"{fault}\nif that is right: python docs/outputs.py {notebook.relative_to(ROOT)}"
