"""How the source reads: formatted, linted, typed; stage notebooks thin; what readers see in step with what runs."""

import ast
import json
import subprocess
import sys
import warnings
from pathlib import Path

from mhbench.tools.export import stage_of_copy, undated

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
SOURCES = ("mhbench", "nbs", "tests", "benchmarks")
STAGES = sorted((ROOT / "nbs" / "stages").glob("*.ipynb"))


def said(*command: str) -> str:
    done = subprocess.run([BIN / command[0], *command[1:]], cwd=ROOT, capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_everything_is_formatted_at_120_columns():
    assert said("ruff", "format", "--check", *SOURCES) == "", "run `make export`"
    assert said("ruff", "check", "--output-format", "concise", *SOURCES) == "", "run `ruff check --fix nbs tests`"


def test_the_public_functions_are_typed():
    assert (ROOT / "mhbench" / "py.typed").exists()
    assert said("mypy") == ""


def code_cells(notebook: Path) -> list[str]:
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return ["".join(c["source"]) for c in cells if c["cell_type"] == "code"]


def nested_choices(tree: ast.AST) -> list[int]:
    "Lines with one conditional expression inside another."
    outer = [n for n in ast.walk(tree) if isinstance(n, ast.IfExp)]
    return [n.lineno for n in outer for m in ast.walk(n) if m is not n and isinstance(m, ast.IfExp)]


def computes(source: str) -> bool:
    "Whether a cell defines something, holds a choice within a choice, or a loop within a loop."
    tree = ast.parse(source)
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.While)
    loops = [n for n in ast.walk(tree) if isinstance(n, (ast.ListComp, ast.DictComp, ast.SetComp, ast.GeneratorExp))]
    defined = [n for n in ast.walk(tree) if isinstance(n, kinds)]
    return bool(defined or nested_choices(tree) or [n for n in loops if len(n.generators) > 1])


def test_a_stage_computes_by_calls():
    "What computes is in the package, and tested there."
    cells = [(notebook.stem, source) for notebook in STAGES for source in code_cells(notebook)]
    assert len(cells) > 100
    found = [f"{stage}:\n{source}" for stage, source in cells if computes(source)]
    assert not found, "\n\n".join(found)


def test_a_nested_choice_would_be_found():
    assert nested_choices(ast.parse("x = a if b else (c if d else e)")) == [1]
    assert computes("x = [a for b in c for a in b]") and computes("f = lambda x: x") and not computes("x = f(a)")


def copies() -> list[Path]:
    "The executed notebooks of the demo that are kept for readers."
    found = sorted((ROOT / "reports").rglob("*.ipynb"))
    return [p for p in found if "replication" not in p.relative_to(ROOT / "reports").parts]


def stage_of(copy: Path) -> str:
    return stage_of_copy(copy.relative_to(ROOT / "reports").as_posix())


def is_older(copy: Path) -> bool:
    "Whether its stage is gone, or has another source."
    cells = json.loads(copy.read_text(encoding="utf-8"))["cells"]
    ran = ["".join(c["source"]) for c in cells if c["cell_type"] == "code" and not injected(c)]
    notebook = ROOT / "nbs" / "stages" / f"{stage_of(copy)}.ipynb"
    if stage_of(copy) == "results":  # a page has its parts in another order, and not those that are empty
        source = code_cells(ROOT / "nbs" / "studies" / copy.parent.name / "results.ipynb")
        return not set(ran) <= set(source)
    return not notebook.exists() or ran != code_cells(notebook)


def injected(cell: dict) -> bool:
    return "injected-parameters" in cell["metadata"].get("tags", [])


def test_copies_for_readers_that_are_older_than_their_source_are_named():
    "They are made at a release, by `make readers`: until then somebody is told, and nothing fails."
    older = [copy.relative_to(ROOT).as_posix() for copy in copies() if is_older(copy)]
    # Synthetic items prove nothing about a paper: this stage is not of the demo.
    missing = {p.stem for p in STAGES} - {"ledger"} - {stage_of(copy) for copy in copies()}
    if older or missing:
        lines = [*older, *(f"reports/{stage} (missing)" for stage in sorted(missing))]
        warnings.warn("older than their source; `make readers` at a release:\n  " + "\n  ".join(lines), stacklevel=1)


def test_an_older_copy_would_be_named(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    cell = {"cell_type": "code", "source": ["1 + 1"], "metadata": {}, "outputs": []}
    for file, source in (("nbs/stages/score.ipynb", "1 + 1"), ("reports/mhqa/score.ipynb", "1 + 2")):
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).write_text(json.dumps({"cells": [cell | {"source": [source]}]}))
    assert [is_older(copy) for copy in copies()] == [True]
    (tmp_path / "reports/mhqa/score.ipynb").write_text((tmp_path / "nbs/stages/score.ipynb").read_text())
    assert [is_older(copy) for copy in copies()] == [False]


def test_copies_for_readers_show_their_figures_and_no_error_date_or_commit():
    "What differs from run to run would be a change in git where nothing changed."
    page = (ROOT / "reports" / "report.html").read_text(encoding="utf-8")
    assert len(page) < 5 << 20 and undated(page) == page, "run `make readers`"
    wrong = []
    for copy in copies():
        notebook = json.loads(copy.read_text(encoding="utf-8"))
        outputs = [o for c in notebook["cells"] for o in c.get("outputs", [])]
        data = [o["data"] for o in outputs if "".join(o.get("data", {}).get("text/plain", "")).startswith("<Figure")]
        if any(o["output_type"] == "error" for o in outputs) or not all(d.get("image/png") for d in data):
            wrong.append(f"{copy.relative_to(ROOT)}: an error, or a figure that shows as text")
        if set(notebook["metadata"]) - {"kernelspec"} or any(set(c["metadata"]) - {"tags"} for c in notebook["cells"]):
            wrong.append(f"{copy.relative_to(ROOT)}: metadata of the run")
    assert not wrong, "\n".join(wrong)
