"""Each stage's notebook by itself, with its defaults. (A file of its own, so that it runs beside the tests of the
pipeline.)
"""

import subprocess

import pytest
from conftest import BIN, ENV

from mhbench.run.graph import graph


@pytest.mark.parametrize("stage", [n.name for n in graph().values() if n.parameters])
def test_each_stage_notebook_runs_with_its_defaults(stage, clone, tmp_path):
    out = tmp_path / "out.ipynb"
    env = {**ENV, "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [
            BIN / "papermill",
            clone / "nbs" / "stages" / f"{stage}.ipynb",
            out,
            "--cwd",
            clone / "nbs" / "stages",
            "-k",
            "python3",
            "--no-progress-bar",
        ],
        cwd=clone,
        env=env,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1500:]
    assert not [f for f in (clone / "results").rglob("notebook.failed.ipynb")]
