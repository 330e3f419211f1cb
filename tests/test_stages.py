"""Each stage's notebook by itself, with its defaults: here, as tests/here.py has it, and once in a kernel."""

import json
import shutil
import tempfile
from pathlib import Path

import papermill
import pytest
import yaml
from conftest import BIN, ROOT, run
from here import run_here

from mhbench.run import stage
from mhbench.run.graph import before, graph, notebook_files


@pytest.fixture(scope="module")
def demo(clone, tmp_path_factory):
    "A copy of the clone in which the stages before another ask the bundled model little."
    folder = tmp_path_factory.mktemp("demo") / "mhbench"
    shutil.copytree(clone, folder, symlinks=True)
    p = yaml.safe_load((folder / "params.yaml").read_text(encoding="utf-8"))
    p["studies"]["counselingbench"]["generate"]["modes"] = {"zero_shot": {"n_items": 1}, "cot": {"n_items": 1}}
    p["models"]["gemma"]["max_tokens"] = {"answer": 16, "reasoning": 16}
    p["studies"]["mhqa"]["compose"] |= {"n_examined": 2}
    for study in ("psychiatrybench", "medqade"):
        p["studies"][study]["judge"]["judges"] = ["minilm"]
    (folder / "params.yaml").write_text(yaml.safe_dump(p, sort_keys=False), encoding="utf-8")
    return folder


class Once:
    "Runs what a notebook rests on; what another one rested on, made in the same way from the same, is copied."

    def __init__(self, kept: Path):
        self.kept, self.runs = kept, []  # the files that each run left lie in kept / its number
        self.made: dict[Path, dict] = {}  # results folder -> what was made in it -> from what, and how

    def __call__(self, name, study, model, overrides):
        folder = Path(overrides["results"])
        made, needed = self.made.setdefault(folder, {}), before(graph(), name)
        how = {k: v for k, v in overrides.items() if k != "results"}
        under = {of: known for of, known in made.items() if of.split()[0] in needed and of.split()[1] == study}
        made[f"{name} {study} {model}"] = known = json.dumps([name, study, model, how, under], sort_keys=True)
        if known not in self.runs:
            there = self.files(folder)
            run_here(name, study, model, overrides)
            for file in self.files(folder) - there:
                copy = self.kept / str(len(self.runs)) / file[0]
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(folder / file[0], copy)
            self.runs.append(known)
        else:
            shutil.copytree(self.kept / str(self.runs.index(known)), folder, dirs_exist_ok=True)

    @staticmethod
    def files(folder: Path) -> set[tuple[str, int]]:
        return {(str(f.relative_to(folder)), f.stat().st_mtime_ns) for f in folder.rglob("*") if f.is_file()}


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    return Once(tmp_path_factory.mktemp("once"))


NOTEBOOKS = [f.relative_to(ROOT) for n in graph().values() if n.parameters for f in notebook_files(ROOT, n.name)]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=str)
def test_each_stage_notebook_runs_with_its_defaults(notebook, demo, once, tmp_path, monkeypatch):
    folder = (demo / notebook).parent
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(stage, "stage_by_command", once)
    given = {"engine_name": "here", "kernel_name": "python3", "progress_bar": False}
    papermill.execute_notebook(demo / notebook, tmp_path / "out.ipynb", cwd=folder, **given)
    assert not [f for f in (demo / "results").rglob("notebook.failed.ipynb")]


def test_a_stage_notebook_runs_from_the_command_line(clone, tmp_path):
    folder = clone / "nbs" / "stages"
    given = ["--cwd", folder, "-k", "python3", "--no-progress-bar"]
    run(BIN / "papermill", folder / "agreement.ipynb", tmp_path / "out.ipynb", *given, cwd=clone)
