"""Each stage's notebook by itself, with its defaults: here, as tests/here.py has it, and once in a kernel."""

import shutil
import tempfile

import papermill
import pytest
import yaml
from conftest import BIN, ROOT, run

from mhbench.run.graph import graph, notebook_files


@pytest.fixture(scope="module")
def demo(clone, tmp_path_factory):
    "A copy of the clone in which the stages before another ask the bundled model little."
    folder = tmp_path_factory.mktemp("demo") / "mhbench"
    shutil.copytree(clone, folder, symlinks=True)
    p = yaml.safe_load((folder / "params.yaml").read_text(encoding="utf-8"))
    few = {"n_items": 1, "demonstrations": 1}
    p["studies"]["counselingbench"]["generate"]["modes"] = {"zero_shot": {"n_items": 2}, "few_shot": few, "cot": few}
    p["studies"]["mhqa"]["compose"] |= {"n_examined": 2}
    for study in ("psychiatrybench", "medqade"):
        p["studies"][study]["judge"]["judges"] = ["minilm"]
    (folder / "params.yaml").write_text(yaml.safe_dump(p, sort_keys=False), encoding="utf-8")
    return folder


NOTEBOOKS = [f.relative_to(ROOT) for n in graph().values() if n.parameters for f in notebook_files(ROOT, n.name)]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=str)
def test_each_stage_notebook_runs_with_its_defaults(notebook, demo, tmp_path, monkeypatch):
    folder = (demo / notebook).parent
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    given = {"engine_name": "here", "kernel_name": "python3", "progress_bar": False}
    papermill.execute_notebook(demo / notebook, tmp_path / "out.ipynb", cwd=folder, **given)
    assert not [f for f in (demo / "results").rglob("notebook.failed.ipynb")]


def test_a_stage_notebook_runs_from_the_command_line(clone, tmp_path):
    folder = clone / "nbs" / "stages"
    given = ["--cwd", folder, "-k", "python3", "--no-progress-bar"]
    run(BIN / "papermill", folder / "agreement.ipynb", tmp_path / "out.ipynb", *given, cwd=clone)
