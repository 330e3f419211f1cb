"""How the source reads: formatted, linted, typed; stage notebooks thin; what readers see in step with what runs."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from mhbench.run.params import WRITTEN

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


@pytest.mark.parametrize("notebook", STAGES, ids=lambda p: p.stem)
def test_a_stage_computes_by_calls(notebook):
    "No function of its own, no choice within a choice, no loop: what computes is in the package, and tested there."
    for source in code_cells(notebook):
        tree = ast.parse(source)
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.While)
        assert not [n for n in ast.walk(tree) if isinstance(n, kinds)], source
        assert not nested_choices(tree), source
        two = [n for n in ast.walk(tree) if isinstance(n, (ast.ListComp, ast.DictComp, ast.SetComp, ast.GeneratorExp))]
        assert not [n for n in two if len(n.generators) > 1], source


def test_a_nested_choice_would_be_found():
    assert nested_choices(ast.parse("x = a if b else (c if d else e)")) == [1]


def test_what_readers_see_is_what_the_stages_are():
    "reports/ holds the executed notebooks of the demo, their source that of nbs/stages, and the page beside them."
    reports = ROOT / "reports"
    assert (reports / "report.html").stat().st_size < 5 << 20
    found = sorted(p for p in reports.rglob("*.ipynb") if "replication" not in p.relative_to(reports).parts)
    # Synthetic items prove nothing about a paper, and no model of the demo writes: these stages are not of the demo.
    expected = {p.stem for p in STAGES} - {"ledger", *WRITTEN}
    assert {p.relative_to(reports).parts[0].removesuffix(".ipynb") for p in found} == expected
    for executed in found:
        stage = executed.relative_to(reports).parts[0].removesuffix(".ipynb")
        cells = json.loads(executed.read_text(encoding="utf-8"))["cells"]
        ran = [
            c for c in cells if c["cell_type"] == "code" and "injected-parameters" not in c["metadata"].get("tags", [])
        ]
        assert ["".join(c["source"]) for c in ran] == code_cells(ROOT / "nbs" / "stages" / f"{stage}.ipynb"), (
            f"{executed}: run `make readers STAGE={stage}`"
        )
        outputs = [o for c in ran for o in c["outputs"]]
        assert not [o for o in outputs if o["output_type"] == "error"], executed
        shown = [o["data"] for o in outputs if "".join(o.get("data", {}).get("text/plain", "")).startswith("<Figure")]
        assert all(data.get("image/png") for data in shown), f"{executed}: a figure shows as text"
