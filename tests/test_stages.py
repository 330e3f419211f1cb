"""Each stage's notebook by itself, with its defaults: here, as tests/here.py has it, and once in a kernel."""

import tempfile

import papermill
import pytest
from conftest import BIN, run

from mhbench.run.graph import graph


@pytest.mark.parametrize("stage", [n.name for n in graph().values() if n.parameters])
def test_each_stage_notebook_runs_with_its_defaults(stage, clone, tmp_path, monkeypatch):
    folder = clone / "nbs" / "stages"
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    given = {"engine_name": "here", "kernel_name": "python3", "progress_bar": False}
    papermill.execute_notebook(folder / f"{stage}.ipynb", tmp_path / "out.ipynb", cwd=folder, **given)
    assert not [f for f in (clone / "results").rglob("notebook.failed.ipynb")]


def test_a_stage_notebook_runs_from_the_command_line(clone, tmp_path):
    folder = clone / "nbs" / "stages"
    given = ["--cwd", folder, "-k", "python3", "--no-progress-bar"]
    run(BIN / "papermill", folder / "agreement.ipynb", tmp_path / "out.ipynb", *given, cwd=clone)
