"""The house: imports go down, a public name stands for one thing, every place that makes an interval is listed."""

import ast
import re
import sys
from collections import defaultdict
from pathlib import Path

from mhbench.registry import studies
from mhbench.run.code import Code, Memory, imports_of_notebook
from mhbench.run.graph import notebook_files

ROOT = Path(__file__).resolve().parent.parent / "mhbench"
BENCHMARKS = ROOT.parent / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

from inventory import COLUMNS, inventory, sites  # noqa: E402

MODULES = sorted(p for p in ROOT.rglob("*.py") if p.name not in ("__init__.py", "_modidx.py"))
# A module imports its own floor and those below it.
FLOORS = [
    ["errors", "subcommand"],
    ["records", "stats"],
    ["registry"],
    ["ask"],
    ["encode"],
    ["tasks"],
    ["corpus"],
    ["steps"],
    ["report"],
    ["ledger"],
    ["studies"],
    ["annotate"],
    ["run"],
    ["tools"],
    ["__main__"],
]
FLOOR = {name: height for height, names in enumerate(FLOORS) for name in names}
STUDIES = ("mentat", "psychiatrybench", "medqade", "counselingbench", "mhqa")
# What every study calls alike: the registry of studies finds it by this name.
INTERFACE = {"load": "studies/*/load.py", "STUDY": "studies/*/study.py"}


def short(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def floor(path: Path) -> int:
    if path.match("studies/*/commands.py"):  # the command line imports it, as it imports those of `tools`
        return FLOOR["__main__"]
    return FLOOR[path.relative_to(ROOT).with_suffix("").parts[0]]


def imported_floors(path: Path) -> dict[str, int]:
    "The modules of the package that a module imports, in functions too, with their floors."
    package = ("mhbench", *path.relative_to(ROOT).parts[:-1])
    found = {}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            start = ".".join([*base, *([node.module] if node.module else [])])
            names = [start] if start != "mhbench" else [f"mhbench.{a.name}" for a in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "mhbench" and len(parts) > 1 and parts[1] in FLOOR:
                found[name] = FLOOR[parts[1]]
    return found


def test_what_a_run_needs_knows_of_no_tool():
    "Not by name either: `mhbench.run` is what `dvc repro` needs, `mhbench.tools` makes no number of a run."
    named = [short(p) for p in MODULES if p.parent.name == "run" and "mhbench.tools" in p.read_text(encoding="utf-8")]
    assert not named, named


def reached_rooms(tmp_path) -> dict[str, list[str]]:  # stage, or results@study -> its modules, without packages
    code = Code(ROOT, Memory(tmp_path))
    out = {}
    for notebook in notebook_files(ROOT.parent, "*"):
        names = [n for n in code.reached(imports_of_notebook(notebook)) if n.startswith("mhbench.")]
        modules = [n.removeprefix("mhbench.") for n in names if code.module(n)[0].name != "__init__.py"]
        out[notebook.stem if notebook.parent.name == "stages" else f"results@{notebook.parent.name}"] = modules
    return out


def test_a_stage_reaches_no_more_than_it_shows(tmp_path):
    rooms = reached_rooms(tmp_path)
    reach = lambda room: {stage for stage, modules in rooms.items() if any(m.startswith(f"{room}.") for m in modules)}
    results = {stage for stage in rooms if stage.startswith("results@")}
    assert len(rooms) > 25 and len(results) == len(STUDIES)
    assert not reach("tools")
    assert reach("annotate") <= {"prepare"}, "it reads answers that the page has collected"
    assert reach("ledger") - results <= {"ledger", "standings"}, "standings has the paper's printed numbers"
    assert {stage: len(rooms[stage]) for stage in results if len(rooms[stage]) >= 40} == {}
    of_studies = {
        stage: {m.split(".")[1] for m in modules if m.startswith("studies.")} for stage, modules in rooms.items()
    }
    assert all(not of_studies[stage] for stage in results), "a page reads its study by name"


def public_names(path: Path) -> list[str]:
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return ast.literal_eval(node.value)
    return []


def test_imports_never_go_up_a_floor():
    up = [
        f"{short(path)} stands on floor {floor(path)} and imports {name} from above"
        for path in MODULES
        for name, height in imported_floors(path).items()
        if height > floor(path)
    ]
    assert not up, "\n".join(up)


def test_the_reader_of_imports_sees_them():
    seen = imported_floors(ROOT / "steps" / "rates.py")
    assert {"mhbench.errors": 0, "mhbench.stats.estimate": 1, "mhbench.steps.score": 7}.items() <= seen.items()


def test_a_public_name_stands_for_one_thing():
    where = defaultdict(list)
    for path in MODULES:
        for name in public_names(path):
            if name not in INTERFACE or not path.match(INTERFACE[name]):
                where[name].append(short(path))
    assert len(where) > 300
    assert not {name: files for name, files in where.items() if len(files) > 1}


def test_no_module_outside_studies_is_called_after_a_study():
    outside = [short(p) for p in MODULES if p.relative_to(ROOT).parts[0] != "studies"]
    assert len(outside) > 100
    assert [name for name in outside if set(STUDIES) & set(re.split(r"[/_.]", name))] == []


def imported_studies(name: str) -> set[str]:
    "The papers whose folder a module's name lies in."
    return {name.split(".")[2]} & set(STUDIES) if name.startswith("mhbench.studies.") else set()


GENERAL = [p for p in MODULES if p.parent.parent.name != "studies"]


def test_no_general_module_imports_from_studies():
    imports = [(short(path), name) for path in GENERAL for name in imported_floors(path)]
    assert [pair for pair in imports if pair[1].startswith("mhbench.studies")] == []


def test_studies_holds_folders_of_studies_alone():
    for folder in (ROOT / "studies", ROOT.parent / "nbs" / "studies"):
        names = {p.name for p in folder.iterdir() if not p.name.startswith((".", "__"))}
        assert names == set(STUDIES), folder


def test_a_study_takes_from_another_at_most_its_corpus():
    for path in MODULES:
        if path.parent.parent.name == "studies":
            names = [name for name in imported_floors(path) if not name.endswith(".load")]
            others = set().union(*map(imported_studies, names)) - {path.parent.name}
            assert not others, f"{short(path)} imports {others}"


def test_a_stage_imports_a_study_only_where_it_is_its_own():
    own = {stage: study.name for study in studies() for stage in study.parameters}
    notebooks = {n.stem: n.read_text(encoding="utf-8") for n in (ROOT.parent / "nbs" / "stages").glob("*.ipynb")}
    assert set(own) < set(notebooks)
    for stage, text in notebooks.items():
        found = {s for s in STUDIES if f"mhbench.studies.{s}." in text}
        assert found <= {own.get(stage)}, f"the stage {stage} imports {found}"
        assert stage in own or "mhbench.studies." not in text, f"the general stage {stage} imports from studies"


def test_what_is_asked_of_an_item_stands_in_its_properties():
    "`base` and `cluster` are the one place that says what a variant varies, and what is drawn whole."
    by_hand = re.compile(r"(base_id|group_id) or ")
    found = [short(p) for p in MODULES if by_hand.search(p.read_text(encoding="utf-8"))]
    assert found == ["records/schema.py"]


def test_the_numbers_of_a_folder_are_a_reading_order():
    folders = {
        n.parent for n in (ROOT.parent / "nbs").glob("*/**/[0-9]*_*.ipynb") if ".ipynb_checkpoints" not in n.parts
    }
    assert len(folders) > 10
    for folder in folders:
        numbers = sorted(int(n.name.split("_")[0]) for n in folder.glob("[0-9]*_*.ipynb"))
        assert numbers == list(range(1, len(numbers) + 1)), folder


def test_every_place_that_makes_an_interval_is_listed():
    listed = inventory()
    assert list(listed) == COLUMNS and not listed.duplicated(["place", "call"]).any()
    there, known = set(sites()), set(zip(listed["place"], listed["call"]))
    assert len(there) > 100  # the package was read
    assert there <= known, f"add to benchmarks/intervals/inventory.csv: {sorted(there - known)}"
    assert known <= there, f"these make no interval, or are gone: {sorted(known - there)}"


def test_a_new_place_is_seen(tmp_path, monkeypatch):
    made = "def new_table(x):\n    return estimate(mean, x, seed=1).row()\n\n\ndef other(x):\n    return x.sum()\n"
    (tmp_path / "steps").mkdir()
    (tmp_path / "steps" / "new.py").write_text(made)
    (tmp_path / "stats").symlink_to(ROOT / "stats")
    monkeypatch.setattr("inventory.PACKAGE", tmp_path)
    monkeypatch.setattr("inventory.STAGES", tmp_path)
    for folder in ("corpus", "studies", "report", "annotate", "run", "tools"):
        (tmp_path / folder).mkdir()
    assert sites() == [("steps/new.py: new_table", "estimate")]
