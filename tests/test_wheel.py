"""The built wheel works in a folder far from the repository."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

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
    stages = {f"mhbench/pipeline/nbs/stages/{f.name}" for f in (root / "nbs" / "stages").glob("*.ipynb")}
    assert stages <= set(names) and "mhbench/pipeline/dvc.yaml" in names
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", tmp_path / "site", wheel],
        check=True,
        capture_output=True,
    )
    far = tmp_path / "far"
    far.mkdir()
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "site"), "PATH": path, "MHBENCH_ROOT": ""}

    def python(*arguments, cwd=far):
        done = subprocess.run([sys.executable, *arguments], cwd=cwd, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert str(tmp_path / "site") in python("-c", CODE)
    python("-m", "mhbench", "init", "mine")  # a working folder, and a stage in it by DVC
    python("-m", "mhbench", "select", "--studies", "mhqa", "--models", "minilm", cwd=far / "mine")
    python("-m", "dvc", "repro", "prepare@mhqa", cwd=far / "mine")
    assert (far / "mine" / "results" / "prepare" / "mhqa" / "notebook.ipynb").exists()
    package = json.loads((far / "mine" / "results" / "inputs" / "package.json").read_text(encoding="utf-8"))
    assert package["version"] in wheel.name
    assert "prepare" not in python("-m", "dvc", "status", "prepare@mhqa", cwd=far / "mine"), "up to date, code included"
