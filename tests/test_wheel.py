"""The built wheel works in a folder far from the repository."""

import os
import shutil
import subprocess
import sys
import zipfile

CODE = """
import mhbench, sys
from mhbench.studies.corpus import load_corpus
from mhbench.studies.demo import demo_path
from mhbench.ask.prompts import build
for study in ("mentat", "psychiatrybench", "medqade", "counselingbench", "mhqa"):
    items = load_corpus(study, demo_path(study), **({"language": "en"} if study == "medqade" else {})).items
    assert items and build(items[0], "zero_shot")[-1]["content"], study
    print(study, len(items))
assert "torch" not in sys.modules and "transformers" not in sys.modules
print(mhbench.__file__)
"""


def test_a_built_wheel_works_elsewhere(root, tmp_path):
    source = tmp_path / "source"
    shutil.copytree(
        root,
        source,
        ignore=shutil.ignore_patterns(
            ".venv", ".git", ".dvc", ".mhbench", "results", "data", "dvc-remote", "build", "*.egg-info", "__pycache__"
        ),
    )
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, source],
        check=True,
        capture_output=True,
    )
    wheel = next(tmp_path.glob("*.whl"))
    names = zipfile.ZipFile(wheel).namelist()
    for folder in ("ask/texts/default/", "studies/mhqa/prompts/", "studies/mentat/demo/annotated_data/"):
        assert any(n.startswith(f"mhbench/{folder}") for n in names), folder
    assert not [n for n in names if n.startswith(("tests/", "nbs/", "data/"))]
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", tmp_path / "site", wheel],
        check=True,
        capture_output=True,
    )
    far = tmp_path / "far"
    far.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        cwd=far,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert str(tmp_path / "site") in done.stdout
