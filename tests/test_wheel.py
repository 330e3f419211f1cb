"""The built wheel works in a folder far from the repository."""

import ast
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import PackageNotFoundError, packages_distributions, requires

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

CODE = """
import mhbench, sys
from mhbench.corpus.load import load_corpus
from mhbench.corpus.demo import demo_path
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
    assert stages | {"mhbench/pipeline/dvc.yaml", "mhbench/pipeline/nbs/stages/mhbench.sh"} <= set(names)
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", tmp_path / "site", wheel],
        check=True,
        capture_output=True,
    )
    far = tmp_path / "far"
    far.mkdir()
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "site"), "PATH": "/usr/bin:/bin", "MHBENCH_ROOT": ""}

    def python(*arguments, cwd=far):
        done = subprocess.run([sys.executable, *arguments], cwd=cwd, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert str(tmp_path / "site") in python("-c", CODE)
    python("-m", "mhbench", "init", "mine")  # a working folder, and a stage in it by DVC
    python("-m", "mhbench", "select", "--studies", "mhqa", "--models", "minilm", cwd=far / "mine")
    python("-m", "dvc", "repro", "prepare@mhqa", cwd=far / "mine")
    assert (far / "mine" / "results" / "studies" / "mhqa" / "prepare" / "notebook.ipynb").exists()
    reached = json.loads((far / "mine" / "results/inputs/prepare/mhqa.json").read_text(encoding="utf-8"))["code"]
    assert {"mhbench.corpus.load", "mhbench.studies.mhqa.load", "studies/mhqa"} <= reached.keys()
    assert "prepare" not in python("-m", "dvc", "status", "prepare@mhqa", cwd=far / "mine"), "up to date, code included"


def distributions(root, *extras) -> set[str]:
    "What `pip install 'mhbench[EXTRAS]'` installs, by name, of what is installed here."
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *(r for e in extras for r in project["optional-dependencies"][e])]
    todo, seen = [Requirement(r) for r in wanted], set()
    while todo:
        requirement = todo.pop()
        for extra in ("", *requirement.extras):
            name = canonicalize_name(requirement.name)
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            with contextlib.suppress(PackageNotFoundError):  # of another platform
                needed = [Requirement(r) for r in requires(name) or []]
                todo += [r for r in needed if r.marker is None or r.marker.evaluate({"extra": extra})]
    return {name for name, _ in seen}


def imported(tree) -> set[str]:
    "The packages that a piece of code imports."
    names = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    names |= {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and not n.level}
    return {name.partition(".")[0] for name in names}


def is_caught(node):
    "Whether what fails to be imported within is told: in a try, or in `with optional(...)`."
    return isinstance(node, ast.Try) or (
        isinstance(node, ast.With) and ast.unparse(node.items[0].context_expr).startswith("optional(")
    )


def test_what_the_folder_needs_comes_with_the_extras_that_are_named_or_an_error_names_another(root):
    "As docs/howto-folder.md names them. Whatever else is imported, the import's failure says what to do."
    assert '"mhbench-0.1.0-py3-none-any.whl[pipeline,metrics]"' in (root / "docs" / "howto-folder.md").read_text()
    there, of = distributions(root, "pipeline", "metrics"), packages_distributions()
    assert "datasketch" in there, "the demo's stage compose needs it"
    raw = {}
    for file in sorted((root / "mhbench").rglob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        caught = {name for t in ast.walk(tree) if is_caught(t) for part in t.body for name in imported(part)}
        for name in imported(tree) - caught - {*sys.stdlib_module_names, "mhbench"}:
            if not {canonicalize_name(d) for d in of.get(name, [])} & there:
                raw.setdefault(name, []).append(file.relative_to(root).as_posix())
    assert not raw, raw
