"""What decides the stages of a run, by hand: its code, its files, its settings, and what is kept of them."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from mhbench.run import code, execute, inputs, losses, provenance, results
from mhbench.run.code import Code, Memory, module_facts
from mhbench.run.graph import Node
from mhbench.steps.failures import Failure

sha = lambda raw: hashlib.sha256(raw).hexdigest()


# Code -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "package", "names"),
    [
        ("import numpy, mhbench.a.b as c", "", ["mhbench.a.b"]),
        ("from mhbench import x, y", "", ["mhbench", "mhbench.x", "mhbench.y"]),
        ("from . import x", "mhbench.a", ["mhbench.a", "mhbench.a.x"]),
        ("from .b import x", "mhbench.a", ["mhbench.a.b", "mhbench.a.b.x"]),
        ("from .. import x", "mhbench.a.c", ["mhbench.a", "mhbench.a.x"]),
        ("from ...d import x", "mhbench.a.c", ["mhbench.d", "mhbench.d.x"]),
        ("if TYPE_CHECKING:\n    import mhbench.a\nelse:\n    import mhbench.b", "", ["mhbench.b"]),
        ("if DEBUG:\n    import mhbench.a", "", ["mhbench.a"]),
        ("def f():\n    class A:\n        import mhbench.a", "", ["mhbench.a"]),
        ("import_module('mhbench.a')", "", ["mhbench.a", "mhbench.a.*"]),
        ("importlib.import_module('mhbench.a', 'mhbench.b')", "", ["mhbench.a", "mhbench.a.*"]),
        ("import_module(name), import_module(3), load('mhbench.a'), import_module('numpy')", "", []),
    ],
)
def test_a_module_needs_what_it_imports_for_its_work(source, package, names):
    assert module_facts(source, package)[1] == names


def test_a_module_does_the_same_whatever_its_layout_and_words_and_something_else_with_another_value():
    same = [
        "def f(x=1):\n    return x",
        '"Doc."\ndef f(x = 1):\n    "Says."\n    return (x)  # so',
        "def f(x=1): return x",
    ]
    others = [
        "def f(x=2):\n    return x",
        "def f(x=1):\n    return",
        "def f(x=1):\n    return None",
        "def g(x=1):\n    return x",
    ]
    others += [
        "async def f(x=1):\n    return x",
        "def f(x=1):\n    return -x",
        "def f(x=True):\n    return x",
        "f = lambda x=1: x",
    ]
    others += ["def f(*, x=1):\n    return x", "class f:\n    'Doc.'\n    x = 1", "class f:\n    x = 1"]
    digests = [module_facts(source)[0] for source in [*same, *others]]
    assert len(set(digests[:3])) == 1 and {len(d) for d in digests} == {16}
    assert len(set(digests[2:])) == len(others), (
        "of those a class with a docstring is the class without, and no other is"
    )
    assert digests[-1] == digests[-2]


def test_a_tree_is_written_out_without_what_differs_between_versions():
    import ast

    assert code._canonical(ast.parse("x = u'a'")) == (
        "Module(body=[Assign(targets=[Name(id='x')],value=Constant(value='a'))])"
    )
    assert (
        code._canonical(ast.parse("'doc'\n1").body)
        == "[Expr(value=Constant(value='doc')),Expr(value=Constant(value=1))]"
    )


def test_what_was_computed_of_a_file_is_kept_until_the_file_or_the_question_changes(tmp_path):
    calls = []

    def length(file):
        calls.append(file.name)
        return len(file.read_bytes())

    def first(file):
        return file.read_text()[:1]

    (tmp_path / "a").write_text("abc")
    memory = Memory(tmp_path)
    assert (memory.of(tmp_path / "a", length), memory.of(tmp_path / "a", length), memory.of(tmp_path / "a", first)) == (
        3,
        3,
        "a",
    )
    assert calls == ["a"] and not memory.file.exists()
    memory.save()
    again = Memory(tmp_path)
    assert again.of(tmp_path / "a", length) == 3 and calls == ["a"]
    before = again.file.stat().st_mtime_ns, again.file.read_text()
    again.save()
    assert (again.file.stat().st_mtime_ns, again.file.read_text()) == before, "nothing new was computed"
    (tmp_path / "b").write_text("xy")
    third = Memory(tmp_path)
    assert third.of(tmp_path / "b", length) == 2
    third.save()
    assert list(json.loads(third.file.read_text()).values()) == [2], "what this run has not used is forgotten"
    for name in ("m.py", "copy.py", "other.py"):
        (tmp_path / name).write_text("x = 1" if name != "other.py" else "x = 2")
        assert third.of(tmp_path / name, length) == 5
    assert third.of(tmp_path / "m.py", length, "package") == 5
    assert calls[2:] == ["m.py", "other.py", "m.py"], "code is known by its content and its package"
    for damaged in ("{", "[1]", "3"):
        third.file.write_text(damaged)
        assert Memory(tmp_path).values == {} and Memory(tmp_path).of(tmp_path / "a", length) == 3


@pytest.fixture
def package(tmp_path):
    "A package of four modules, with files of data, a study, and what is no part of any module."
    files = {
        "__init__.py": "",
        "a.py": "from . import b\nimport mhbench.gone\n",
        "b.py": 'from .deep.c import x\nTEXT = "words.txt"\n',
        "words.txt": "w",
        "deep/__init__.py": "from ..d import y\n",
        "deep/c.py": 'x = "rules/one.yaml"\n',
        "deep/rules/one.yaml": "1",
        "deep/rules/two.txt": "2",
        "deep/rules/README.md": "3",
        "deep/e.py": 'x = "rules"\n',
        "d.py": "y = 1\n",
        "__pycache__/a.pyc": "x",
        "pipeline/words.txt": "p",
        "studies/__init__.py": "",
        "studies/s/__init__.py": "",
        "studies/s/load.py": "z = 1\n",
        "studies/s/claims.yaml": "c",
        "studies/s/table.csv": "t",
    }
    for name, text in files.items():
        (tmp_path / "mhbench" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "mhbench" / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_a_module_reaches_what_it_imports_the_packages_around_it_and_the_data_that_they_name(package):
    found = Code(package / "mhbench", Memory(package)).reached(["mhbench.a"])
    modules = ["mhbench", "mhbench.a", "mhbench.b", "mhbench.d", "mhbench.deep", "mhbench.deep.c"]
    assert list(found) == sorted([*modules, "mhbench/words.txt", "mhbench/deep/rules/one.yaml"])
    assert found["mhbench/words.txt"] == sha(b"w")[:16] and found["mhbench.d"] == module_facts("y = 1\n")[0]
    whole = Code(package / "mhbench", Memory(package)).reached(["mhbench.deep.e"])
    assert [k for k in whole if "rules" in k] == ["mhbench/deep/rules/one.yaml", "mhbench/deep/rules/two.txt"]
    assert Code(package / "mhbench", Memory(package)).reached(["mhbench.gone"]) == {}
    stars = Code(package / "mhbench", Memory(package)).reached(["mhbench.deep.*"])
    assert {"mhbench.deep.c", "mhbench.deep.e"} <= set(stars)


def test_a_folder_s_hash_is_of_names_and_contents_of_what_decides_a_result(package):
    of = lambda: Code(package / "mhbench", Memory(package))._hash(package / "mhbench" / "studies" / "s")
    entries = [("__init__.py", module_facts("")[0]), ("load.py", module_facts("z = 1")[0]), ("table.csv", sha(b"t"))]
    before = of()
    assert before == sha(json.dumps(entries).encode())[:16]
    for name in ("claims.yaml", "__pycache__/load.pyc"):
        (package / "mhbench/studies/s" / name).parent.mkdir(exist_ok=True)
        (package / "mhbench/studies/s" / name).write_text("other")
        assert of() == before
    (package / "mhbench/studies/s/load.py").write_text("z = 1  # in other words\n")
    assert of() == before
    (package / "mhbench/studies/s/load.py").write_text("z = 2\n")
    assert of() != before
    one = Code(package / "mhbench", Memory(package))
    file = package / "mhbench/words.txt"
    assert one._hash(file) == sha(json.dumps([(".", sha(b"w"))]).encode())[:16]
    assert one.identity() == {"version": code.mhbench.__version__, "sha256": one._hash(package / "mhbench")}


def test_a_stage_rests_on_its_notebooks_its_loaders_and_the_study_s_own_folder(package, monkeypatch):
    notebook = package / "n.ipynb"
    cells = [
        ("code", ["import mhbench.d\n", "import numpy"]),
        ("code", "from mhbench import b"),
        ("markdown", "import mhbench.a"),
    ]
    content = {"cells": [{"cell_type": kind, "source": source} for kind, source in cells]}
    notebook.write_text(json.dumps(content), encoding="utf-8")
    assert code.imports_of_notebook(notebook) == ["mhbench", "mhbench.b", "mhbench.d"]
    tables = {("tables", "score", "own"): ["mhbench.studies.s.load:made"], ("loaders", "csv"): ["mhbench.deep.e:read"]}
    monkeypatch.setattr(code, "references", lambda *given: tables.get(given, []))
    monkeypatch.setattr(code, "owner", lambda study: "own" if study == "s" else "")
    monkeypatch.setattr(code, "studies", lambda: [SimpleNamespace(name="t", folder=package / "mhbench" / "deep")])
    (package / "mhbench/studies/s/load.py").write_text('def made():\n    "Words."\ndef other():\n    "More."\n')
    own = Code(package / "mhbench", Memory(package))
    plain = own.of_stage([notebook], "score", None)
    assert {"mhbench.b", "mhbench.d"} <= set(plain) and not {"mhbench.deep.e", "mhbench.a"} & set(plain)
    of_study = own.of_stage([notebook], "score", "s", ["csv"])
    assert of_study["mhbench.studies.s.load:made"] == sha(str(["Words."]).encode())[:16]
    assert of_study["studies/s"] == own._hash(package / "mhbench/studies/s") and "mhbench.deep.e" in of_study
    assert "mhbench.studies.s.load" in of_study
    assert own.of_stage([], "judge", "t")["studies/t"] == own._hash(package / "mhbench/deep")
    assert own.of_stage([], "judge", "u") == {}


# Inputs ---------------------------------------------------------------------------------------------------------------


def test_an_endpoint_with_an_identity_is_the_same_at_another_address():
    entry = {"kind": "vllm", "base_urls": ["http://a/v1"], "concurrency": 1}
    other = entry | {"base_urls": ["http://b/v1"]}
    assert inputs.deciding_endpoint(entry) != inputs.deciding_endpoint(other)
    named = inputs.deciding_endpoint(entry | {"identity": "ward"})
    assert named == inputs.deciding_endpoint(other | {"identity": "ward"}) and named["identity"] == "ward"
    of_run = inputs._deciding_entries({"m": {"endpoint": "e", "served": "x"}}, {"e": entry})
    assert of_run["endpoints"] == {"e": inputs.deciding_endpoint(entry)} and of_run["entries"]["m"]["served"] == "x"


def test_files_are_hashed_by_their_paths_and_names_alone_are_no_files(tmp_path):
    for name in ("data/a.csv", "b.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    found = inputs._file_hashes(["b.csv", "data", "no/where.csv", "demo"], tmp_path, Memory(tmp_path))
    assert found == {"b.csv": sha(b"b.csv"), "data": sha(b"a.csv\0data/a.csv"), "no/where.csv": "absent"}


def test_loaders_are_named_at_any_depth():
    settings = {"loader": "one", "options": {"loader": "two", "more": {"n": 1, "loader": "three"}}, "names": ["loader"]}
    assert list(inputs.loaders_in(settings)) == ["one", "two", "three"] and list(inputs.loaders_in(["loader"])) == []


@pytest.mark.parametrize(
    ("prepare", "files"),
    [
        ({"path": "data/x.csv"}, {"ratings": None, "people": None}),
        (None, {"ratings": None, "people": None}),
        ({"path": "data/x.csv", "options": {"ratings": {"path": "r.csv"}}}, {"ratings": "data/r.csv", "people": None}),
        ({"path": "data/x.csv", "options": {"ratings": "r.csv"}}, {"ratings": None, "people": None}),
        (
            {"path": "x", "ratings": "answers.sqlite", "options": {"ratings": {}}},
            {"ratings": None, "people": "answers.sqlite"},
        ),
    ],
)
def test_a_corpus_is_made_of_its_ratings_and_of_people_s_answers_besides(prepare, files, tmp_path):
    p = {"studies": {"s": {"prepare": prepare}}}
    assert inputs._corpus_files(p, "s") == files
    if prepare:
        hashes = inputs._hashes_of_sources(p, "s", tmp_path)
        expected = {"corpus": "absent"} | ({"ratings": "absent"} if files["ratings"] else {})
        assert hashes == expected | ({"people": "absent"} if files["people"] else {})


def test_a_paper_s_files_decide_the_stages_that_read_them(tmp_path, monkeypatch):
    for name in ("claims", "front", "results"):
        (tmp_path / f"{name}.yaml").write_text(name)
    (tmp_path / "reports/replication/s").mkdir(parents=True)
    (tmp_path / "reports/replication/s/a.csv").write_text("a")
    files = {f"{name}.yaml": {"s": tmp_path / f"{name}.yaml"} for name in ("claims", "results")} | {"front.yaml": {}}
    monkeypatch.setattr(inputs, "study_files", files.get)
    monkeypatch.setattr(inputs, "claims_file", lambda study: tmp_path / "claims.yaml")
    of = lambda stage, **settings: inputs._paper_hashes(settings, stage, "s", tmp_path)
    assert of("score") == {} and of("ledger", claims="own.yaml") == {}
    assert of("ledger", claims="") == {"claims": sha(b"claims")}
    assert of("results") == {
        "claims.yaml": sha(b"claims"),
        "results.yaml": sha(b"results"),
        "reports/replication/s": sha(b"a.csv\0a"),
        "figures/replication/s.png": "absent",
    }
    assert of("ratings", description="") == {} and of("ratings", description="gone.yaml") == {"description": "absent"}


def test_places_that_dvc_expects_are_made_and_say_why_they_are_empty(tmp_path, monkeypatch):
    deps = [
        "results/studies/${item.study}/judge",
        "results/studies/${item.study}/prepare",
        "results/ledger",
        "results/a.json",
        "results/studies/x.parquet",
        "nbs/x",
        "figures",
    ]
    monkeypatch.setattr(inputs, "pipeline", lambda top: {"one": {"deps": deps}, "two": {}})
    nodes = [Node(s, {"prepare": "studies"}.get(s, s), False, (), ()) for s in ("judge", "prepare", "ledger")]
    monkeypatch.setattr(inputs, "graph", lambda: {n.name: n for n in nodes})
    (tmp_path / "results/studies/b/judge").mkdir(parents=True)
    (tmp_path / "results/studies/b/judge/x").touch()
    inputs._make_places(tmp_path, {"run": {"studies": ["a", "b", "c"], "judge": ["a"]}})
    made = sorted(f.relative_to(tmp_path).as_posix() for f in tmp_path.rglob("*"))
    folders = ["figures", "results", "results/studies", *(f"results/studies/{s}" for s in "abc")]
    folders += [f"results/studies/{s}/{stage}" for s in "abc" for stage in ("judge", "prepare")]
    folders += ["results/studies/b/judge/x", "results/studies/c/judge/absent.txt"]
    folders += ["results/ledger", "results/ledger/absent.txt"]
    assert made == sorted(folders)
    assert (tmp_path / "results/studies/c/judge/absent.txt").read_text() == "c does not go through judge in this run.\n"
    assert (tmp_path / "results/ledger/absent.txt").read_text() == "No study goes through ledger in this run.\n"


def test_every_stage_study_and_model_of_a_run_has_what_decides_it(tmp_path, monkeypatch):
    nodes = [
        Node("inputs", None, False, (), ()),
        Node("generate", "studies", True, (), ("study",)),
        Node("judge", "judge", False, (), ("study",)),
        Node("report", None, False, (), ("run",)),
    ]
    saved = []
    of_stage = lambda notebooks, stage, study, *loaders: {"code": (stage, study, *map(list, loaders))}
    package = SimpleNamespace(of_stage=of_stage, memory=SimpleNamespace(save=lambda: saved.append(1)))
    monkeypatch.setattr(inputs, "graph", lambda top: {n.name: n for n in nodes})
    monkeypatch.setattr(inputs, "package_code", lambda top: package)
    monkeypatch.setattr(inputs, "notebook_files", lambda top, stage, study="*": [(stage, study)])
    monkeypatch.setattr(inputs, "_stage_inputs", lambda p, node, study, top, code: (node.name, study))
    monkeypatch.setattr(inputs, "_file_hashes", lambda paths, top, memory: {"paths": paths})
    monkeypatch.setattr(inputs, "_paths_of_models", lambda entries, endpoints: [*entries, *endpoints])
    monkeypatch.setattr(inputs, "_deciding_entries", lambda entries, endpoints: {"of": [*entries, *endpoints]})
    p = {"models": {"m": {"endpoint": "e"}, "n": {"endpoint": "e"}}, "endpoints": {"e": {}, "f": {}}}
    p["run"] = {"studies": ["a", "b"], "judge": ["b"], "models": ["m"]}
    model = {"of": ["m", "e"], "files": {"paths": ["m", "e"]}}
    found = inputs.input_files(p, tmp_path)
    stages = {
        "generate/a.json": ("generate", "a"),
        "generate/b.json": ("generate", "b"),
        "judge/b.json": ("judge", "b"),
    }
    assert found == stages | {
        "report.json": {"code": {"code": ("report", None)}},
        "models/m.json": model,
    } and saved == [1]
    p["run"] |= {"models": [], "judge": None}
    assert list(inputs.input_files(p, tmp_path)) == ["report.json"], "nobody is asked"


def test_what_decides_a_stage_is_its_code_its_files_and_the_settings_that_matter(tmp_path, monkeypatch):
    given = {
        "seed": 1,
        "results": "r",
        "study": "s",
        "model": "m",
        "entries": {"m": {}},
        "endpoints": {"e": {}},
        "n": 2,
    }
    package = SimpleNamespace(of_stage=lambda *of: [*of[:3], list(of[3])], memory="memory")
    monkeypatch.setattr(inputs, "stage_classes", lambda: {"generate": "class", "judge": "class", "prepare": "class"})
    monkeypatch.setattr(inputs, "stage_parameters", lambda p, stage, study, model: given | {"model": model})
    monkeypatch.setattr(inputs, "deciding", lambda cls, settings: dict(settings))
    monkeypatch.setattr(inputs, "input_paths", lambda cls, settings: sorted(settings))
    monkeypatch.setattr(inputs, "_deciding_entries", lambda entries, endpoints: {"of": [*entries, *endpoints]})
    monkeypatch.setattr(inputs, "_paths_of_models", lambda entries, endpoints: ["weights"])
    monkeypatch.setattr(inputs, "notebook_files", lambda top, stage, study: [stage, study])
    monkeypatch.setattr(inputs, "_file_hashes", lambda paths, top, memory: {"paths": paths})
    monkeypatch.setattr(inputs, "_paper_hashes", lambda v, stage, study, top: {"paper": stage})
    monkeypatch.setattr(inputs, "_hashes_of_sources", lambda p, study, top: {"corpus": study})
    p = {"run": {"models": ["m", "k"]}, "models": {"m": {"medical": False}, "k": {"medical": True}}}
    of = lambda name, models, figures: inputs._stage_inputs(
        p, Node(name, "studies", models, (), (), figures), "s", tmp_path, package
    )
    settings = {"seed": 1, "n": 2}
    assert of("generate", True, False) == {
        "code": [["generate", "s"], "generate", "s", []],
        "files": {"paths": ["n", "seed"], "paper": "generate"},
        "settings": settings,
    }
    judge = of("judge", False, True)
    assert judge["settings"] == settings | {"of": ["m", "e"], "medical_models": ["k"]}
    assert judge["files"] == {"paths": ["n", "seed", "weights"], "paper": "judge"} and "corpus" not in judge
    given["cache"] = ""
    assert "medical_models" not in of("judge", False, True)["settings"]
    given["loader"] = "csv"
    prepare = of("prepare", False, False)
    assert prepare["corpus"] == "s" and prepare["code"][3] == ["csv"] and "medical_models" not in prepare["settings"]


def test_what_decides_is_written_anew_for_each_selection_and_the_count_of_failures_stays(tmp_path, monkeypatch):
    folder = tmp_path / "results" / "inputs"
    for name in ("old/x.json", "old.json", f"{inputs.ASKED_AGAIN}/x.json"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("{}")
    for study in "ab":
        (tmp_path / "results/text" / study / "approach").mkdir(parents=True)
        (tmp_path / "results/text" / study / "approach/items.parquet").touch()
    calls = []
    monkeypatch.setattr(inputs, "root", lambda: tmp_path)
    p = {"run": {"studies": ["a", "b"], "approach": ["b"]}}
    monkeypatch.setattr(inputs, "load_params", lambda file: p if file == tmp_path / "own.yaml" else None)
    monkeypatch.setattr(inputs, "input_files", lambda p, top: {"score/a.json": {"z": 1, "a": 2}})
    monkeypatch.setattr(inputs, "parameters_of_run", lambda p, top: {"parameters": 1})
    monkeypatch.setattr(inputs, "keep_private", lambda top: calls.append(("private", top)))
    monkeypatch.setattr(inputs, "_record_again", lambda p, folder, top: calls.append(("again", folder)))
    monkeypatch.setattr(inputs, "_make_places", lambda top, p: calls.append(("places", top)))
    assert inputs.record_inputs("own.yaml") == {"score/a.json": {"z": 1, "a": 2}}
    files = sorted(f.relative_to(folder).as_posix() for f in folder.rglob("*") if f.is_file())
    assert files == ["again/x.json", "parameters.json", "score/a.json"]
    assert (folder / "score/a.json").read_text() == '{\n "a": 2,\n "z": 1\n}\n'
    assert calls == [("private", tmp_path), ("again", folder / "again"), ("places", tmp_path)]
    left = [s for s in "ab" if (tmp_path / "results/text" / s / "approach/items.parquet").exists()]
    assert left == ["b"]


def test_the_record_of_a_training_is_that_of_the_study_that_the_model_was_trained_on(tmp_path, monkeypatch):
    models = {"m": {"trained_on": "s"}, "n": {"trained_on": "s"}, "k": {"trained_on": "t"}, "plain": {}, "out": {}}
    monkeypatch.setattr(inputs, "root", lambda: tmp_path)
    monkeypatch.setattr(inputs, "load_params", lambda file: {"run": {"models": list(models)[:4]}, "models": models})
    (tmp_path / "results/finetune/s").mkdir(parents=True)
    (tmp_path / "results/finetune/s/models.json").write_text(json.dumps({"m": {"seed": 1}, "k": {"seed": 2}}))
    expected = {"m": {"seed": 1}, "n": {}, "k": {}, "plain": {}}
    assert inputs.record_trained() == expected
    files = {f.stem: json.loads(f.read_text()) for f in (tmp_path / "results/trained").iterdir()}
    assert files == expected


# Provenance -----------------------------------------------------------------------------------------------------------


def test_a_folder_s_sum_is_of_its_files_in_order_without_caches(tmp_path):
    for name in ("b.txt", "a/c.txt", "__pycache__/x.pyc"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    assert provenance.sha256(tmp_path) == sha(b"a/c.txt\0a/c.txtb.txt\0b.txt")
    assert provenance.hash_if_there("b.txt", tmp_path) == sha(b"b.txt")
    assert provenance.hash_if_there("gone", tmp_path) == "absent"


@pytest.mark.parametrize(
    ("head", "status", "has_git", "told"),
    [
        ("abc", "", True, "abc"),
        ("abc", " M nbs/x", True, "abc, with changes that are not committed"),
        (None, "", True, "none yet"),
        (None, "", False, "not a git repository"),
        (OSError(), "", True, "none yet"),
        (subprocess.TimeoutExpired("git", 60), "", False, "not a git repository"),
    ],
)
def test_a_commit_is_told_with_whether_code_differs_from_it(tmp_path, monkeypatch, head, status, has_git, told):
    def run(words, cwd, **options):
        assert cwd == tmp_path
        if isinstance(head, Exception):
            raise head
        if words[1] == "rev-parse":
            return SimpleNamespace(returncode=int(head is None), stdout=f"{head}\n")
        assert words[words.index("--") + 1 :] == ["mhbench", "nbs", "params.yaml", "run.yaml", "dvc.yaml"]
        return SimpleNamespace(returncode=0, stdout=status)

    monkeypatch.setattr(provenance.subprocess, "run", run)
    if has_git:
        (tmp_path / ".git").mkdir()
    assert provenance.commit_of(tmp_path) == told


def test_a_run_is_described_by_its_versions_its_seed_and_its_hashes(tmp_path, monkeypatch):
    monkeypatch.setattr(provenance, "root", lambda: tmp_path)
    monkeypatch.setattr(provenance, "commit_of", lambda top: "abc")
    monkeypatch.setattr(provenance, "_version", lambda package: {"numpy": "2", "torch": "3"}.get(package, ""))
    (tmp_path / "params.yaml").write_text("p")
    (tmp_path / "results/inputs/prepare").mkdir(parents=True)
    (tmp_path / "results/inputs/prepare/a.json").write_text('{"corpus": "0f"}')
    facts = provenance.run_provenance(tmp_path / "results", ["a", "b"], 7)
    values = dict(facts.to_numpy())
    made_on = values.pop("made on")
    assert values == {
        "commit": "abc",
        "mhbench": provenance.mhbench.__version__,
        "Python": sys.version.split()[0],
        "numpy": "2",
        "torch": "3",
        "seed": "7",
        "SHA-256 of params.yaml": sha(b"p"),
        "SHA-256 of run.yaml": "absent",
        "SHA-256 of the corpus of a": "0f",
        "SHA-256 of the corpus of b": "not taken",
    }
    words = provenance.made_in_words(facts)
    assert words.startswith(f"Made on {made_on} by mhbench {values['mhbench']} (commit abc) with Python")


# Losses ---------------------------------------------------------------------------------------------------------------

LOST = Failure(
    "generate", "s", "m", "few_shot", "requests got no answer", "503", 9, 0, 9, "its accuracy", "mend it", True
)
BROKE = Failure(
    "score", "s", "", "", "ended with an error", "KeyError", withheld="all", remedy="mend", again=True, broke=True
)


def test_losses_are_told_with_who_what_and_the_remedy():
    rest = {"said": "503", "withheld": "its accuracy", "remedy": "mend it"}
    lost = {"who": "m (s, generate, few shot)", "what": "9 of 9 requests got no answer"} | rest
    broken = {"who": "s, score", "what": "ended with an error", "said": "KeyError", "withheld": "all", "remedy": "mend"}
    follows = BROKE._replace(study="t", follows="score, s")
    rows = losses.lost_rows([f._asdict() for f in (LOST, follows, BROKE, follows, follows._replace(study="u"))])
    rest = {"said": "", "withheld": "everything of these stages", "remedy": ""}
    assert rows == [lost, broken, {"who": "t score, u score", "what": "rest on what failed, and have no table"} | rest]
    [row] = losses.lost_rows([follows._asdict()])
    assert row == {"who": "t score", "what": "rests on what failed, and has no table"} | rest


def test_a_run_ends_with_an_error_for_stages_that_broke_and_models_that_never_answered():
    other = LOST._replace(study="t", n_asked=4, said="timeout")
    parts = [LOST, other, BROKE, LOST._replace(model="n", n_answered=1), LOST._replace(model="k", n_asked=None)]
    told = losses.faults([f._asdict() for f in [*parts, LOST._replace(model="r", again=False)]])
    assert told == [
        "s, score ended with an error: KeyError; mend",
        "m (generate, s, t): none of 13 requests was answered: 503; mend it",
    ]


# Execution ------------------------------------------------------------------------------------------------------------


def test_modules_that_no_import_leads_to_are_refused_unless_the_study_declares_them(tmp_path, monkeypatch):
    monkeypatch.setattr(execute, "root", lambda: tmp_path)
    monkeypatch.setattr(execute, "studies", lambda: [SimpleNamespace(name="own")])
    file = tmp_path / "results/inputs/score/s.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"code": {"mhbench.a": "1"}}))
    reached = SimpleNamespace(
        reached=lambda names: dict.fromkeys([*names, "mhbench.d"]), of_stage=lambda *given: {"mhbench.e": given[2]}
    )
    monkeypatch.setattr(inputs, "package_code", lambda top: reached)
    check = lambda *names: execute._check_modules(set(names), Path("score.ipynb"), "score", "s", {})
    check("numpy", "mhbenchmark.x")
    check("mhbench.a", "mhbench.studies.t", "mhbench.studies.t.study", "mhbench.studies.s.deep.load")
    check("mhbench.d", "mhbench.e", "mhbench.studies.own.study")
    with pytest.raises(RuntimeError, match=r"got mhbench.b, mhbench.studies.t.load \(score.ipynb\)"):
        check("mhbench.a", "mhbench.studies.t.load", "mhbench.b", "numpy")


def test_parameters_are_those_that_were_checked_else_those_of_the_files(tmp_path, monkeypatch):
    from mhbench.run import params

    monkeypatch.setattr(execute, "recorded_parameters", lambda top: {"score s": {"seed": 1}})
    monkeypatch.setattr(params, "load_params", lambda file: file.name)
    monkeypatch.setattr(params, "stage_parameters", lambda *given: given)
    assert execute._parameters(tmp_path, "params.yaml", "score", "s", None) == {"seed": 1}
    assert execute._parameters(tmp_path, "own.yaml", "score", "s", None) == ("own.yaml", "score", "s", None)
    assert execute._parameters(tmp_path, "params.yaml", "score", "s", "m") == ("params.yaml", "score", "s", "m")


def test_what_dvc_expects_of_a_stage_is_named_for_its_study_and_model(tmp_path, monkeypatch):
    outs = ["results/a/${item.study}/${item.model}", {"results/m/${item.study}.json": {"cache": False}}]
    monkeypatch.setattr(execute, "root", lambda: tmp_path)
    monkeypatch.setattr(execute, "pipeline", lambda top: {"a": {"outs": outs}})
    assert execute._outputs("a", "s", "m") == [tmp_path / "results/a/s/m", tmp_path / "results/m/s.json"]


# Results of papers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("printed", "value", "ours"),
    [
        (".75", 0.7512, "0.751"),
        ("75.0%", 75.123, "75.12"),
        ("1,353", 1353.0, "1,353"),
        ("5", 5.04, "5"),
        ("5", 5.26, "5.3"),
    ],
)
def test_a_value_has_one_decimal_more_than_its_printed_number(printed, value, ours):
    assert results._ours(printed, value) == ours


def test_printed_numbers_stand_in_the_form_of_the_paper_s_table():
    columns = ["row", "column", "of", "printed", "value", "verdict"]
    rows = [
        ("A", "x", "o", "1", 1.0, "equal"),
        ("A", "y", "o", "2", 3.0, "differs"),
        ("B", "y", "o", "3", None, "cannot"),
    ]
    rows += [("", "", "alone", "4.0", 4.0, "convention"), ("B", "x", "o", "5", 5.0, "undecided")]
    table = results._printed_beside_ours(pd.DataFrame(rows, columns=columns), "A caption")
    cell = lambda printed, ours, sign: {"printed": printed, "ours": ours, "sign": sign}
    assert table == {
        "head": ["", "x", "y", "number"],
        "rows": [
            ["A", cell("1", "1", "="), cell("2", "3", "\N{NOT EQUAL TO}"), ""],
            ["B", cell("5", "5", "?"), cell("3", "", ""), ""],
            ["alone", "", "", cell("4.0", "4.00", "\N{ALMOST EQUAL TO}")],
        ],
        "right": [False, True, True, True],
        "caption": "A caption",
        "file": "",
        "more": 0,
    }


def test_verdicts_are_counted_in_a_sentence():
    rows = [("data", "equal", ""), ("data", "differs", ""), ("", "cannot", "no_run")]
    frame = pd.DataFrame(rows, columns=["kind", "verdict", "reason"]).assign(paper="P")
    told = results._verdict_counts(frame)
    counts = results.printed_counts(frame)
    [without] = counts["without"]
    assert told == (
        f"Of 3 printed numbers: 2 {counts['kinds'][0]['name']} ({counts['kinds'][0]['of']}); "
        f"1 without a value here (1 {without['name']})."
    )
    assert "without" not in results._verdict_counts(frame[:2])
    assert results._note_html("a `b<c` & `d`") == "a <code>b&lt;c</code> &amp; <code>d</code>"


def test_a_picture_of_a_replication_is_for_wide_and_narrow_pages(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "as_saved", lambda file: file.name)
    (tmp_path / "s.png").touch()
    assert results._replication_picture(tmp_path, "s", "words") == {}
    (tmp_path / "s_390.png").touch()
    pictures = {"wide": "data:image/png;base64,s.png", "narrow": "data:image/png;base64,s_390.png", "alt": "words"}
    assert results._replication_picture(tmp_path, "s", "words") == pictures


def test_a_page_ends_with_what_is_not_on_it_and_keeps_its_counts(tmp_path):
    part = lambda what, note="": results.PaperPart(what=what, of=f"of {what}", note=note)
    parts = {p.what: p for p in (part("Table 1"), part("Table 2", "no `x`"), part("Figure 1"))}
    page = SimpleNamespace(parts=parts, shown=["Table 1"], study="s", results=tmp_path)
    html = results.rest(page)
    text = "Not on this page: Table 2, of Table 2 (no <code>x</code>); Figure 1, of Figure 1."
    assert (
        html._repr_html_() == f"<p><small>{text}</small></p>" and repr(html) == f"{len(html.data)} characters of HTML"
    )
    metrics = json.loads((tmp_path / "metrics/s/results.json").read_text())
    assert metrics == {"shown": 1, "not shown": 2}
    contents = json.loads((tmp_path / "results/s/contents.json").read_text())
    assert (contents["stage"], contents["study"], contents["absent"]) == ("results", "s", [])
    page.shown, page.results = list(parts), None
    assert results.rest(page).data == "<p><small></small></p>"
