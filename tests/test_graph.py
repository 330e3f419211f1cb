"""What dvc.yaml, the stage notebooks and the package say of a stage: each fact once, and all of them agreeing."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import nbformat
import yaml

from mhbench.run.code import Code, Memory
from mhbench.run.graph import before, graph, notebook_files, pipeline
from mhbench.run.inputs import package_code
from mhbench.run.params import load_params

ROOT = Path(__file__).resolve().parent.parent
STAGES = {name: node for name, node in graph(ROOT).items() if node.parameters}
DECLARED = pipeline(ROOT)


@cache
def source_of(stage: str) -> str:
    cells = [c for f in notebook_files(ROOT, stage) for c in nbformat.read(f, 4).cells]
    return "\n".join(c.source for c in cells if c.cell_type == "code")


def test_what_a_stage_reaches_is_what_its_notebook_uses():
    "A test that cannot fail is none: the score stage needs the statistics, the stage that asks draws nothing."
    reached = {
        name: package_code(ROOT).of_stage(notebook_files(ROOT, name), name, None) for name in ("score", "generate")
    }
    assert "mhbench.stats.resample" in reached["score"] and "mhbench.ask.client" in reached["generate"]
    assert "mhbench.report.figures" in reached["score"].keys() - reached["generate"].keys()


def test_a_stage_notebook_imports_at_most_twenty_names():
    "Where it uses several functions of a module, it imports the module: a reader sees where each is from."
    count = {
        name: sum(len(n.names) for n in ast.walk(ast.parse(source_of(name))) if hasattr(n, "names")) for name in STAGES
    }
    assert max(count.values()) <= 20, {name: n for name, n in count.items() if n > 20}


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
        if re.search(rf"(?<!\w)(s\.)?({calls[other]})", source_of(stage))
    ]
    assert not unsaid, "\n".join(unsaid)


def test_who_depends_on_one_table_reads_no_other():
    wrong = []
    for stage in STAGES:
        declared = DECLARED[stage]["deps"]
        tables = [re.fullmatch(r"results/(\w+)/\$\{item.study\}/(\w+)\.parquet", d) for d in declared]
        for other, table in (m.groups() for m in tables if m):
            read = set(re.findall(rf'(?:read|has)\("{other}", "(\w+)"', source_of(stage)))
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
            if (call in source_of(stage)) != any(p.startswith(start) for p, _ in outs):
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
    assert set(p["run"]) - {"studies", "models", "judges", "subjects", "trained", "items"} == {
        n.studies for n in STAGES.values()
    } - {"studies", None}


def test_a_stage_depends_on_what_decides_it():
    "The selection is in run.yaml; `inputs` writes code, files and settings, without what says only how a stage runs."
    for stage, node in STAGES.items():
        declared = DECLARED[stage]
        plain = [p for p in declared.get("params", []) if isinstance(p, str)]
        assert f"results/inputs/{stage}/${{item.study}}.json" in declared["deps"] or stage == "report", stage
        assert not [p for p in plain if p.split(".")[0] in ("run", "endpoints") or p == "models"], stage
        assert ("results/inputs/models/${item.model}.json" in declared["deps"]) == node.models, stage
    assert "results/inputs/report.json" in DECLARED["report"]["deps"]


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
    assert stages["outcome"]["deps"] == ["results/report"] and "results/studies" in stages["report"]["deps"]


def test_what_a_module_names_is_reached(tmp_path, monkeypatch):
    "All modules of a package that is imported whole; a folder of texts that a module of its package or another names."
    files = {
        "__init__.py": "",
        "room/__init__.py": "",
        "room/first.py": 'TEXTS = "texts"\n',
        "room/second.py": "",
        "room/texts/a.txt": "a",
        "far.py": 'NAMES = ["room", "texts"]\n',
        "farther.py": 'NAMES = ["texts"]\n',
    }
    for name, text in files.items():
        file = tmp_path / "mhbench" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    code = Code(tmp_path / "mhbench", Memory(tmp_path))
    modules = {f"mhbench.room.{name}" for name in ("first", "second")}
    assert modules <= set(code.reached(["mhbench.room.*"]))
    assert not code.reached(["mhbench.far.*"]), "a module that is no package"
    reads_texts = {
        name: "mhbench/room/texts/a.txt" in code.reached([f"mhbench.{name}"])
        for name in ("room.first", "far", "farther")
    }
    assert reads_texts == {"room.first": True, "far": True, "farther": False}
