"""What a notebook shows is what its cells give: see examples.py. `python docs/outputs.py NOTEBOOK` stores it."""

from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from multiprocessing import get_context

import pytest
from examples import ROOT, first_fault

NOTEBOOKS = sorted(f for f in (ROOT / "nbs").rglob("*.ipynb") if f.parent.name not in ("stages", ".ipynb_checkpoints"))

LOADED = [  # what costs most to import; none of it starts a thread of Python's or declares a command
    "aiohttp",
    "fastcore.test",
    "IPython.core.formatters",
    "matplotlib.pyplot",
    "mhbench.run.notebook",
    "mhbench.run.stage",
    "scipy.stats",
    "sklearn.metrics",
    "torch",
    "transformers.models.bert.modeling_bert",
]


@pytest.fixture(scope="module")
def processes(request):
    """A process for each notebook, with nothing that another notebook left. The libraries are loaded before, unless few
    notebooks run: that takes seven seconds.
    """
    context = get_context("forkserver")
    context.set_forkserver_preload(LOADED if len(request.session.items) > 20 else [])
    with ProcessPoolExecutor(1, context, max_tasks_per_child=1) as pool:
        yield pool


def test_what_is_loaded_before_the_notebooks_is_there():
    "The server of forked processes passes over what it does not find, in silence."
    assert [name for name in LOADED if name.startswith("mhbench") and not find_spec(name)] == []


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda f: f"{f.parent.name}/{f.stem}")
def test_what_a_notebook_stores_is_what_it_shows(notebook, processes):
    fault = processes.submit(first_fault, notebook).result()
    assert fault is None, f"{fault}\nif that is right: python docs/outputs.py {notebook.relative_to(ROOT)}"
