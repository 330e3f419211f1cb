"""What the repository may hold, read file by file."""

import configparser
import filecmp
import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import nbformat
import pytest
import yaml
from packaging.requirements import Requirement

sys.path.insert(0, str(Path(__file__).parent))
import check_export
import check_readme
from conftest import listed


def text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


FORBIDDEN = {
    "a path of somebody's machine": re.compile(r"(?<![\w./<])/(?:home|root|Users|work|farm)/[A-Za-z0-9_.-]+"),
    "a temporary path": re.compile(r"/tmp/[a-z0-9_]{4,}"),
    "an API key": re.compile(
        r"\b(?:sk-(?!planted)[A-Za-z0-9_-]{20,}|hf_[A-Za-z0-9]{20,}|AKIA[0-9A-Z]{16}|ghp_[A-Za-z0-9]{30,})"
    ),
    "a private key": re.compile("-----BEGIN [A-Z ]*PRIVATE " + "KEY-----"),
}


def test_no_paths_and_no_secrets(root):
    found = []
    for f in listed(root):
        if f == Path(__file__):
            continue
        text = text_of(f)
        found += [
            f"{f.relative_to(root)}: {what}: {m.group(0)}"
            for what, pattern in FORBIDDEN.items()
            for m in [pattern.search(text)]
            if m
        ]
    assert not found, "\n".join(found)


def test_the_canary_is_in_every_demo_file_and_only_there(root):
    readme = text_of(root / "mhbench" / "corpus" / "demo.md")
    canary = re.search(r"mhbench-canary-[0-9a-f-]{36}", readme).group(0)
    demo = [f for f in listed(root) if "demo" in f.relative_to(root).parts or f.name == "demo.md"]
    assert len(demo) > 10
    assert not [str(f) for f in demo if canary not in text_of(f)]
    stray = [
        str(f.relative_to(root))
        for f in listed(root)
        if canary in text_of(f)
        and f not in demo
        and f.relative_to(root).parts[0] not in ("data", "dvc-remote", "reports")
    ]
    assert not stray, f"the canary marks demo items, and what was made of them, and belongs nowhere else: {stray}"


def test_export_is_in_step():
    assert check_export.differences() == [], "run `make export`"


def test_running_all_cells_of_a_notebook_changes_no_file_of_the_package(root, tmp_path):
    "Its last cell exports the package: nothing comes after that which would write it otherwise."
    for name in ("settings.ini", "pyproject.toml", "README.md"):
        shutil.copy(root / name, tmp_path / name)
    for name in ("nbs", "mhbench"):
        shutil.copytree(
            root / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints")
        )
    home = tmp_path / "nbs" / "records"
    cells = json.loads((home / "02_table.ipynb").read_text(encoding="utf-8"))["cells"]
    last = "".join(cells[-1]["source"])
    assert "nbdev_export()" in last
    subprocess.run([sys.executable, "-c", last], cwd=home, check=True, capture_output=True)
    files = {f.relative_to(tmp_path) for f in (tmp_path / "mhbench").rglob("*.py")}
    changed = [f for f in sorted(files) if not filecmp.cmp(root / f, tmp_path / f, shallow=False)]
    assert files and changed == [], "run `make export`"


def test_readme_is_in_step(root):
    assert (root / "README.md").read_text(encoding="utf-8") == check_readme.rendered(), "run `make readme`"


def test_a_page_names_every_stage_folder_and_extra(root):
    said = (root / "docs" / "parts.md").read_text(encoding="utf-8")
    first = " ".join(line.split("|")[1] for line in said.splitlines() if line.startswith("| `"))
    extras = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    folders = {f"{f.name}/" for f in (root / "nbs").iterdir() if f.is_dir() and not f.name.startswith((".", "_"))}
    stages = set(yaml.safe_load((root / "dvc.yaml").read_text())["stages"])
    wanted = stages | folders | {f"mhbench[{e}]" for e in set(extras) - {"dev", "docs"}}
    unnamed = {x for x in wanted if f"`{x}`" not in first}
    assert not unnamed, "name them in the tables of docs/parts.md"


def test_settings_and_pyproject_agree(root):
    ini = configparser.ConfigParser()
    ini.read(root / "settings.ini")
    ini, project = ini["DEFAULT"], tomllib.loads((root / "pyproject.toml").read_text())["project"]
    import mhbench

    assert ini["lib_name"] == project["name"]
    assert ini["version"] == mhbench.__version__
    assert ini["description"] == project["description"]
    assert ">=" + ini["min_python"] == project["requires-python"]
    assert ini["license"].upper() == project["license"]
    assert ini["requirements"].split() == project["dependencies"]
    assert "tags" in ini["allowed_cell_metadata_keys"].split()


def test_requirements_pin_what_the_extras_name(root):
    pinned = {
        re.split(r"==", line)[0].lower().replace("_", "-")
        for line in (root / "requirements.txt").read_text().splitlines()
        if "==" in line
    }
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    groups = [project["dependencies"], *extras.values()]
    named = [d for group in groups for d in group]
    here = [d for d in named if "==" not in d]  # weights of 2 GB, which `make` does not install, are pinned themselves
    unpinned = [d for d in here if re.split(r"[<>=\[]", d)[0].lower().replace("_", "-") not in pinned]
    assert not unpinned, "give each its version in requirements.txt"


STAGES = sorted((Path(__file__).resolve().parent.parent / "nbs" / "stages").glob("*.ipynb"))


def test_stage_notebooks_have_one_parameters_cell():
    tagged = {
        notebook.stem: sum("parameters" in c.metadata.get("tags", []) for c in nbformat.read(notebook, 4).cells)
        for notebook in STAGES
    }
    assert len(tagged) > 10 and {stage: n for stage, n in tagged.items() if n != 1} == {}


def test_import_is_light():
    code = (
        "import sys, pkgutil, importlib, mhbench\n"
        "names = {m.name for m in pkgutil.walk_packages(mhbench.__path__, 'mhbench.')}\n"
        "for name in names - {'mhbench.run.notebook'}: importlib.import_module(name)\n"  # a shell of Jupyter
        "print([m for m in ('torch', 'transformers', 'nbdev', 'fastcore', 'dask', 'IPython') if m in sys.modules])"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip() == "[]"
    )


def test_dvc_is_quiet(root):
    config = configparser.ConfigParser()
    config.read(root / ".dvc" / "config")
    assert config["core"]["analytics"] == "false" and config["core"]["check_update"] == "false"


def test_a_sweep_can_edit_the_parameters(root, tmp_path):
    "DVC writes params.yaml anew, with its lines folded, for `dvc exp run -S`; it must read the same."
    modify = pytest.importorskip("dvc.utils.serialize").modify_yaml
    copy = tmp_path / "params.yaml"
    copy.write_bytes((root / "params.yaml").read_bytes())
    (tmp_path / "run.yaml").write_bytes((root / "run.yaml").read_bytes())
    with modify(copy) as p:
        p["preferences"]["penalty"] = 2.5
    want = yaml.safe_load((root / "params.yaml").read_text())
    want["preferences"]["penalty"] = 2.5
    assert yaml.safe_load(copy.read_text()) == want
    from mhbench.run.params import load_params

    load_params(copy)


def test_every_committed_metric_is_a_number_or_missing(root):
    files = list((root / "results" / "metrics").rglob("*.json"))
    assert files

    def leaves(x):
        if isinstance(x, dict):
            yield from (v for y in x.values() for v in leaves(y))
        elif isinstance(x, list):
            yield from (v for y in x for v in leaves(y))
        else:
            yield x

    for f in files:
        assert all(v is None or isinstance(v, (int, float, str)) for v in leaves(json.loads(f.read_text()))), f


def test_every_extra_says_the_oldest_that_is_promised_and_the_pins_are_no_older(root):
    "`python -m pytest tests/test_finetune.py` was also run with the oldest transformers, beside huggingface-hub 1.33."
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    lines = (root / "requirements.txt").read_text().splitlines()
    pins = {re.split("==", line)[0].lower(): re.split("==", line)[1] for line in lines if "==" in line}
    for extra, named in project["optional-dependencies"].items():
        for requirement in map(Requirement, named if extra != "dev" else []):
            assert requirement.specifier, f"{extra}: {requirement.name} needs a lower bound"
            pin = pins.get(requirement.name.lower())
            assert pin is None or requirement.specifier.contains(pin), f"{requirement}; {pin} is pinned"
