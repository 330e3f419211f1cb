"""What dvc.yaml, the stage notebooks and the package say of a stage: each fact once, and all of them agreeing."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import nbformat
import yaml

from mhbench.run.graph import before, graph, notebook_files, pipeline
from mhbench.run.inputs import ASKING, ASKING_FILE, NO_RESULT, PACKAGE_FILE, code_files
from mhbench.run.params import load_params

ROOT = Path(__file__).resolve().parent.parent
STAGES = {name: node for name, node in graph(ROOT).items() if node.parameters}
DECLARED = pipeline(ROOT)


@cache
def imported(source: str, package: str = "") -> set[str]:
    "The modules of mhbench that a source imports, in functions too; `package` is where its relative imports start."
    out = set()
    for n in ast.walk(ast.parse(source)):
        if isinstance(n, ast.Import):
            out |= {a.name for a in n.names}
        elif isinstance(n, ast.ImportFrom):
            base = ".".join(package.split(".")[: len(package.split(".")) - n.level + 1]) if n.level else ""
            module = ".".join(x for x in (base, n.module) if x)
            out |= {module, *(f"{module}.{a.name}" for a in n.names)}
    return {m for m in out if m.split(".")[0] == "mhbench"}


def file_of(module: str) -> Path | None:
    path = ROOT.joinpath(*module.split("."))
    return next((p for p in (path.with_suffix(".py"), path / "__init__.py") if p.exists()), None)


def closure(modules: set[str]) -> set[Path]:
    "The files that these modules need, and those that they need in turn."
    todo, found = list(modules), set()
    while todo:
        module = todo.pop()
        file = file_of(module)
        if file is None or file in found:
            continue
        found.add(file)
        package = module if file.name == "__init__.py" else module.rpartition(".")[0]
        todo += imported(file.read_text(encoding="utf-8"), package)
    return {f.relative_to(ROOT) for f in found if f.name != "__init__.py"}


@cache
def code_of(stage: str) -> str:
    cells = [c for f in notebook_files(ROOT, stage) for c in nbformat.read(f, 4).cells]
    return "\n".join(c.source for c in cells if c.cell_type == "code")


RUNS_IT = ("beside", "execute", "inputs", "mistakes", "notebook", "params", "process", "shape")


def unknown_code(stage: str) -> list[str]:
    "The files that a stage's numbers hang on, and that DVC does not look at for it."
    deps = DECLARED[stage]["deps"]
    assert (PACKAGE_FILE in deps) != (ASKING_FILE in deps) and (ASKING_FILE in deps) == (stage == "generate")
    known = [Path("mhbench", name) for name in code_files(ROOT / "mhbench")]
    asks = [Path("mhbench", part) for part in ASKING]
    covered = [f for f in known if stage != "generate" or {f, *f.parents} & set(asks)]
    needed = closure(imported(code_of(stage)))
    # what runs a stage (its process, its command line) makes no number of it
    runs_it = {Path(f"mhbench/run/{f}.py") for f in RUNS_IT}
    if stage == "generate":  # answers hang on nothing that is drawn, or written into tables for people
        runs_it |= {Path("mhbench/report/style.py"), Path("mhbench/report/tables.py")}
        runs_it |= {Path("mhbench/annotate/study.py")}  # whose kinds of pages params.yaml is checked against
    assert needed
    return sorted(map(str, needed - runs_it - set(covered)))


def test_dvc_knows_all_the_code_that_makes_a_stages_numbers():
    missing = {stage: files for stage in STAGES if (files := unknown_code(stage))}
    assert not missing, f"these belong to ASKING, or not to NO_RESULT: {missing}"


def test_the_closure_sees_what_a_notebook_uses():
    "A test that cannot fail is none: the score stage needs the statistics, the stage that prepares does not."
    assert Path("mhbench/stats/resample.py") in closure(imported(code_of("score")))
    assert Path("mhbench/report/figures.py") not in closure(imported(code_of("generate")))


def test_every_part_of_the_code_that_asks_is_there_and_hashed():
    assert all((ROOT / "mhbench" / part).exists() for part in ASKING)
    assert [s for s in DECLARED if ASKING_FILE in DECLARED[s].get("deps", [])] == ["generate"]


def test_no_stage_needs_code_that_dvc_does_not_look_at():
    "NO_RESULT leaves out what makes none: a command, a page for raters; a loader is reached by its name."
    left_out = {Path("mhbench", name) for name in NO_RESULT if name != "pipeline"}  # a wheel's, which DVC sees
    assert len(left_out) > 15 and all((ROOT / f).is_file() for f in left_out)
    for stage in STAGES:
        assert not closure(imported(code_of(stage))) & left_out, stage
    assert not [f for f in left_out if "studies" in f.parts or "steps" in f.parts]


def test_every_notebook_is_a_stage_and_every_stage_a_notebook():
    notebooks = {p.stem for p in notebook_files(ROOT)}
    assert notebooks == set(STAGES) == set(graph(ROOT)) - {"inputs", "trained", "outcome"}


def test_a_stage_reads_what_dvc_knows():
    "s.items, s.responses and the like read other stages' folders: these are dependencies."
    reads = {"prepare": ("s.items", "s.ratings", "s.recorded", "s.responses", "s.labelled_items")}
    reads |= {"generate": ("s.responses", "s.answers"), "judge": ("s.judgments",), "preferences": ("s.labelled_items",)}
    calls = {other: "|".join([f'read\\("{other}"', *map(re.escape, reads.get(other, ()))]) for other in STAGES}
    unsaid = [
        f"{stage} reads {other}: add its folder to the deps in dvc.yaml"
        for stage in STAGES
        for other in set(STAGES) - {stage, *STAGES[stage].reads}
        if re.search(rf"(?<!\w)(s\.)?({calls[other]})", code_of(stage))
    ]
    assert not unsaid, "\n".join(unsaid)


def test_who_depends_on_one_table_reads_no_other():
    wrong = []
    for stage in STAGES:
        declared = DECLARED[stage]["deps"]
        tables = [re.fullmatch(r"results/(\w+)/\$\{item.study\}/(\w+)\.parquet", d) for d in declared]
        for other, table in (m.groups() for m in tables if m):
            read = set(re.findall(rf'(?:read|has)\("{other}", "(\w+)"', code_of(stage)))
            if read != {table} or f"results/{other}/${{item.study}}" in declared:
                wrong.append(f"{stage} depends on {other}/{table} and reads {read}")
    assert not wrong, "\n".join(wrong)


def test_a_stage_leaves_what_dvc_keeps():
    "Texts lie apart and are never pushed; metrics and figures are in git; nothing else is."
    declared = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))
    wrong = []
    for stage in STAGES:
        outs = [next(iter(o.items())) if isinstance(o, dict) else (o, {}) for o in declared["stages"][stage]["outs"]]
        kept = {"results/text/": {"push": False}, "results/metrics/": {"cache": False}, "figures/": {"cache": False}}
        wrong += [p for p, flags in outs for start, wanted in kept.items() if p.startswith(start) and flags != wanted]
        for call, start in (("s.records(", "results/text/"), ("s.figure(", "figures/")):
            if (call in code_of(stage)) != any(p.startswith(start) for p, _ in outs):
                wrong.append(f"{stage}: {call}...) and an output {start} go together")
    assert not wrong, "\n".join(wrong)
    assert declared["metrics"] == ["results/metrics/headline.json"] and declared["plots"] == ["figures"]


def test_the_parameters_of_this_repository_fit():
    p = load_params(ROOT / "params.yaml")
    assert before(graph(ROOT), "score") == [
        "inputs",
        "prepare",
        "finetune",
        "trained",
        "approach",
        "generate",
        "preferences",
    ]
    assert set(p["run"]) - {"studies", "models", "judges", "subjects", "items"} == {
        n.studies for n in STAGES.values()
    } - {"studies", None}


def test_a_stage_depends_on_what_decides_it():
    "The selection is in run.yaml; whom a stage asks is hashed by `inputs`, without what decides only how fast."
    for stage in STAGES:
        declared = DECLARED[stage]
        plain = [p for p in declared.get("params", []) if isinstance(p, str)]
        assert plain or f"results/inputs/{stage}/${{item.study}}.json" in declared["deps"], stage
        assert not [p for p in plain if p.split(".")[0] in ("run", "endpoints") or p == "models"], stage
        if {"entries", "lineages"} & set(STAGES[stage].parameters):
            asks = "models/${item.model}" if STAGES[stage].models else f"{stage}/${{item.study}}"
            assert f"results/inputs/{asks}.json" in declared["deps"], stage


def test_dvc_yaml_is_short():
    assert len((ROOT / "dvc.yaml").read_text(encoding="utf-8").splitlines()) <= 460


def test_plots_have_something_to_show(tmp_path):
    "Pictures need no script from elsewhere: the page of `dvc plots show` is complete without a network."
    command = [str(Path(sys.executable).with_name("dvc")), "plots", "show", "--out", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert page.count("<img") >= 10


def test_a_stage_that_can_fail_for_a_study_is_run_again_for_what_it_lost():
    stages = pipeline(ROOT)
    for name, node in graph(ROOT).items():
        if node.parameters and node.studies:
            own = (
                "results/inputs/again/" + name + "/${item.study}" + ("/${item.model}" if node.models else "") + ".json"
            )
            assert own in stages[name]["deps"], f"{name}: {own}"
    assert stages["outcome"]["deps"] == ["results/report"] and "results/generate" in stages["report"]["deps"]
