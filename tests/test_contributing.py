"""Whoever adds a statistic, a form of answer, a preset, a stage or a study is told of every place that is left, and of
what to do there. Each function below says of one addition: place and remedy -> whether it is done.
"""

import ast
import inspect
import json
import re
from importlib import import_module
from pathlib import Path

import answer_forms
import pytest
import yaml
from conftest import ROOT

from mhbench.ask import parse
from mhbench.ask.request import presets
from mhbench.records.database import stage_folder
from mhbench.registry import studies
from mhbench.report.page import GLOSSARY
from mhbench.run.graph import notebook_files, pipeline
from mhbench.run.shape import stage_classes, stale_cells
from mhbench.steps.parameters import GIVEN


def text(*path: str) -> str:
    file = ROOT.joinpath(*path)
    return file.read_text(encoding="utf-8") if file.exists() else ""


PARAMS = yaml.safe_load(text("params.yaml"))
RUN = yaml.safe_load((ROOT / "run.yaml").read_text(encoding="utf-8"))["run"]
TESTS = {
    f: f.read_text(encoding="utf-8") for f in (ROOT / "tests").rglob("test_*.py") if f.name != "test_contributing.py"
}
TESTED = "\n".join(TESTS.values())


def told(what: str, places: dict[str, bool]) -> str:
    "What is left, a line each; nothing where all is done."
    left = [place for place, done in places.items() if not done]
    return f"{what} is not everywhere yet:\n  " + "\n  ".join(left) if left else ""


def of_a_study(name: str) -> dict[str, bool]:
    return {
        f"mhbench/studies/{name}/demo: a synthetic bank with a canary, then `make data-update`": (
            ROOT / "mhbench" / "studies" / name / "demo"
        ).is_dir(),
        f"mhbench/studies/{name}/recipe.yaml: what a real corpus of it goes through": bool(
            text("mhbench", "studies", name, "recipe.yaml")
        ),
        f"mhbench/studies/{name}/citation.bib: its paper, for `mhbench cite`": bool(
            text("mhbench", "studies", name, "citation.bib")
        ),
        f"mhbench/studies/{name}/claims.yaml: every number that its paper prints; see docs/howto-ledger.md": bool(
            text("mhbench", "studies", name, "claims.yaml")
        ),
        f"params.yaml: an entry studies.{name}, then `mhbench select --demo`": name in PARAMS["studies"],
        f"mhbench/studies/{name}/results.yaml: its tables and figures, and what makes each": bool(
            text("mhbench", "studies", name, "results.yaml")
        ),
        f"nbs/studies/{name}/results.ipynb: its page": bool(text("nbs", "studies", name, "results.ipynb")),
        "docs/build.py: its name in STUDIES": f'"{name}": ' in text("docs", "build.py"),
        f"tests/test_sources_{name}.py, or another test_*{name}*.py": any(name in f.stem.split("_") for f in TESTS),
    }


# Synthetic items prove nothing about a paper: these notebooks are in reports/replication.
NOT_OF_THE_DEMO = ("ledger",)


def of_a_stage(name: str) -> dict[str, bool]:
    declared = pipeline(ROOT)
    folder = f"results/{stage_folder(name, None if name == 'report' else '${item.study}')}"
    return {
        f"nbs/stages/{name}.ipynb: a notebook that begins with **The question.**": any(
            "**The question.**" in f.read_text(encoding="utf-8") for f in notebook_files(ROOT, name)
        ),
        f"dvc.yaml: an entry stages.{name}": name in declared,
        f"dvc.yaml: {folder} among its outs, where the report and the page of a study read it": name in declared
        and folder in str(declared[name]["outs"]),
        "nbs/steps/03_parameters.ipynb, or the folder of its study: a class of its parameters": name in stage_classes(),
        f"params.yaml: a section {name}, at the top or in a study; run.yaml: no study, if users alone add one": name
        in PARAMS
        or any(name in sections for sections in PARAMS["studies"].values())
        or RUN.get(name) == [],
    }


def of_a_preset(kind: str) -> dict[str, bool]:
    return {
        f"docs/howto-models.md: `{kind}` among the kinds of endpoints": f"`{kind}`" in text("docs", "howto-models.md")
        or f"kind: {kind}" in text("docs", "howto-models.md"),
        f"tests: a test that names the kind {kind}": re.search(rf"\b{kind}\b", TESTED) is not None,
    }


def plain_words(name: str) -> str:
    "`Cohen's kappa` and `cohen_kappa` alike."
    return " ".join(re.sub(r"'s\b|[_-]", " ", name.casefold()).split())


def of_a_measure(name: str) -> dict[str, bool]:
    "A main number of a stage, as the first page of the report calls it."
    words = [plain_words(w) for key in GLOSSARY for w in key.split(",")]
    known = any(re.search(rf"\b{re.escape(w)}\b", plain_words(name)) for w in words)
    plain = re.match(PLAIN, name)
    return {f"mhbench/report/static/glossary.yaml: an entry for {name!r}, or PLAIN here": bool(known or plain)}


# Words that say by themselves what they count.
PLAIN = (
    r"accuracy|agreement$|consistency$|share judged correct|mean score|free-form inconsistency|similarity of"
    r"|.*: (pairs of levels that differ|largest difference)|creator's answer preferred|the source's own labels"
)


def of_a_statistic(module: str, name: str) -> dict[str, bool]:
    notebook = re.search(r"File to edit: (?:\.\./)*(nbs/\S+\.ipynb)", text("mhbench", "stats", f"{module}.py"))
    cells = json.loads(text(notebook[1]))["cells"] if notebook else []
    sources = ["".join(c["source"]) for c in cells if c["cell_type"] == "code"]
    shown = any(re.search(rf"\b{name}\b", s) for s in sources if not s.lstrip().startswith("#| export"))
    return {
        f"{notebook[1] if notebook else 'nbs/stats'}: an example of {name}, and a check against a known value": shown
        or re.search(rf"\b{name}\b", TESTED) is not None
    }


def of_a_form(name: str) -> dict[str, bool]:
    place = f"tests/data/answer_forms_added.jsonl: a row with an answer of the form {name!r}, and its letters"
    return {place: name in MATCHED}


def matched() -> set[str]:
    "The forms of answers that occur in a row of the corpora."
    found = set()
    for file in answer_forms.FILES:
        for row in answer_forms.read_forms(file):
            plain, _ = parse._replace_options_by_signs(
                row["text"], parse._options(tuple(row["options"]), row["numbered"])
            )
            found |= {form.name for form in parse.forms() if form.pattern.search(plain)}
    return found


MATCHED = matched()


def statistics() -> list[tuple[str, str]]:
    "The functions that have a source, or give an estimate; not the small ones on which they rest."
    out = []
    for file in sorted((ROOT / "mhbench" / "stats").glob("[a-z]*.py")):
        nodes = ast.parse(file.read_text(encoding="utf-8")).body
        for n in [n for n in nodes if isinstance(n, ast.FunctionDef) and not n.name.startswith("_")]:
            gives = ast.unparse(n.returns) if n.returns else ""
            if "Source:" in (ast.get_docstring(n) or "") or "Estimate" in gives:
                out.append((file.stem, n.name))
    return out


def measures() -> list[str]:
    by_study = json.loads(text("results", "metrics", "headline.json"))
    return sorted({name.split(",")[0] for s in by_study.values() for stage in s.values() for name in stage})


def left_of(what: str, additions: dict[str, dict[str, bool]]) -> str:
    "What is left of several additions of a kind."
    assert additions
    return "\n".join(filter(None, (told(f"the {what} {name}", places) for name, places in additions.items())))


def test_a_study_is_everywhere():
    left = left_of("study", {s.name: of_a_study(s.name) for s in studies()})
    assert not left, left


def test_a_stage_is_everywhere():
    left = left_of("stage", {name: of_a_stage(name) for name in stage_classes()})
    assert not left, left


def test_a_preset_is_everywhere():
    left = left_of("preset", {kind: of_a_preset(kind) for kind in presets()})
    assert not left, left


def test_a_measure_is_explained():
    left = left_of("measure", {name: of_a_measure(name) for name in measures()})
    assert not left, left


def test_a_statistic_is_shown():
    left = left_of("statistic", {f"{module}.{name}": of_a_statistic(module, name) for module, name in statistics()})
    assert not left, left


def test_a_form_of_answer_has_a_row():
    left = left_of("form", {form.name: of_a_form(form.name) for form in parse.forms()})
    assert not left, left


def test_what_is_nowhere_is_told_of_every_place():
    "A test that cannot fail is none: of an addition that nobody has made, every place is named with its remedy."
    nowhere = [of_a_study("nowhere"), of_a_stage("nowhere"), of_a_preset("new-kind"), of_a_measure("new index")]
    nowhere += [of_a_statistic("estimate", "new_index"), of_a_form("new form")]
    for places in nowhere:
        assert not any(places.values()), [place for place, done in places.items() if done]
        assert told("it", places).count("\n") == len(places)


def test_the_cell_of_parameters_says_what_the_class_declares():
    stale = [str(f.relative_to(ROOT)) for f in stale_cells(ROOT)]
    assert not stale, f"the cell tagged `parameters` of {stale} is out of step with its class: run `make export`"


SAME_EVERYWHERE = {"n_boot", "n_draws", "seed"}  # names that mean one thing, of stages and of functions
FIXED = {"write_demo_conversations"}  # the demonstration's ratings are the same whatever the seed


def ignored_parameters(notebook: Path) -> list[str]:
    "Parameters of a stage's notebook that no cell uses, and of SAME_EVERYWHERE those that a function is not given."
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    code = [("".join(c["source"]), "parameters" in c["metadata"].get("tags", [])) for c in cells if "outputs" in c]
    declared, body = (ast.parse("\n".join(s for s, declares in code if declares == which)) for which in (True, False))
    names = {t.id for n in declared.body if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Name)}
    calls = [n for n in ast.walk(body) if isinstance(n, ast.Call)]
    only_shown = {id(n) for c in calls if ast.unparse(c.func) == "s.parameters" for n in ast.walk(c)}
    used = {n.id for n in ast.walk(body) if isinstance(n, ast.Name) and id(n) not in only_shown}
    ignored = [f"{name} is not used" for name in sorted(names - set(GIVEN) - used)]
    imports = [n for n in body.body if isinstance(n, ast.ImportFrom) and (n.module or "").startswith("mhbench.")]
    functions = {a.name: getattr(import_module(n.module), a.name, None) for n in imports for a in n.names}
    for call in calls:
        function = functions.get(ast.unparse(call.func))
        if not inspect.isfunction(function) or function.__name__ in FIXED or any(k.arg is None for k in call.keywords):
            continue
        taken = inspect.signature(function).parameters
        given = dict(zip(taken, call.args)) | {k.arg: k.value for k in call.keywords}
        read = {name: [n.id for n in ast.walk(value) if isinstance(n, ast.Name)] for name, value in given.items()}
        missing = [name for name in taken if name in SAME_EVERYWHERE & names and name not in read.get(name, [])]
        ignored += [f"{ast.unparse(call.func)} is not given {name}" for name in missing]
    return ignored


STAGE_NOTEBOOKS = notebook_files(ROOT)


@pytest.mark.parametrize("notebook", STAGE_NOTEBOOKS, ids=lambda f: str(f.relative_to(ROOT / "nbs")))
def test_a_stage_passes_on_what_its_parameters_say(notebook):
    assert not ignored_parameters(notebook)


@pytest.mark.parametrize(
    ("stage", "cell", "fault", "says"),
    [
        ("formats", "format_rates(units, n_boot=n_boot, seed=seed)", "format_rates(units, seed=seed)", "n_boot"),
        ("formats", "n_boot=n_boot, seed=seed)", "n_boot=1000, seed=seed)", "format_rates is not given n_boot"),
        ("freeform", "s.labelled_items(soft_labels)", "s.labelled_items(False)", "soft_labels is not used"),
    ],
)
def test_a_stage_that_ignores_a_parameter_is_seen(stage, cell, fault, says, tmp_path):
    text = (ROOT / "nbs" / "stages" / f"{stage}.ipynb").read_text(encoding="utf-8")
    assert cell in text
    changed = tmp_path / "changed.ipynb"
    changed.write_text(text.replace(cell, fault), encoding="utf-8")
    assert any(says in sentence for sentence in ignored_parameters(changed))
