"""`make mutants`: faults put into the package and its stages one at a time, and those that nothing notices.

A notebook that is executed runs its own cells, not the module that they were exported to: a mutant of a module is also
put into its notebook's cell. A mutant of a stage is a changed cell of its notebook. What notices is the module's
notebook, then tests and other notebooks that import the module, then what the stages of the demo leave, where they run
the changed line: the shortest first, until one fails. All run in processes forked from one that has the libraries
loaded. Stages need the results of `make repro`. What nothing notices within the budget counts as missed.

    python tests/mutants.py --sample 20 --seed 1                                 20 of every group of GROUPS
    python tests/mutants.py --sample 40 --budget 600 stats/metrics stages/panel
"""

from __future__ import annotations

import argparse
import ast
import csv
import importlib
import json
import math
import os
import pickle
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise, permutations
from pathlib import Path

import numpy as np
from golden_tables import differences

ROOT = Path(__file__).resolve().parent.parent
GROUPS = {
    "stats, records and tasks": "stats/* records/* tasks/*",
    "ask and encode": "ask/* encode/*",
    "steps and studies": "steps/* studies/*/*",
    "stage notebooks": "stages/*",
    "report and ledger": "report/* ledger/*",
    "run, tools, annotate and corpus": "run/* tools/* annotate/* corpus/*",
}
EQUIVALENT = Path(__file__).with_name("mutants_equivalent.tsv")  # module, line, mutated line, why no result changes
LIBRARIES = (
    "numpy pandas scipy.stats scipy.optimize matplotlib.pyplot pyarrow.parquet pydantic yaml jinja2 aiohttp rapidfuzz "
    "IPython nbformat papermill pytest hypothesis jsonschema"
)
LONGEST_S = 8  # a test that takes longer is left out
SHARED_S = 30  # and one whose fixtures, which others share, take longer than this
MOST_S = 60  # of tests or of stages a mutant, the shortest first; what these do not notice counts as not noticed

# Faults ---------------------------------------------------------------------------------------------------------------

OTHER = {"<": ("<=", ">"), ">": (">=", "<"), "<=": ("<",), ">=": (">",), "//": ("/",), "%": ("//",), "**": ("*",)}
for both in "==,!=;is,is not;in,not in;and,or;+,-;*,/;|,&;min,max;any,all;minimum,maximum".split(";"):
    OTHER |= {one: (two,) for one, two in permutations(both.split(","))}
MISSED = ("survived", "never run", "out of time")
WORDS = {"about", "absent", "alt", "caption", "help", "metavar", "place", "remedy", "title"}  # for a reader
SILENT = {"refuse", "warn", "warnings", "cast", "ax", "fig", "figure", "plt"}  # what these are given is for a reader
LEAVES = {"table", "records", "headline", "done", "added", "page", "know", "know_labels"}  # of a stage: what it leaves
Edit = tuple[int, int, str]  # bytes from, to, and what stands there then


def _parts(node: ast.AST) -> list[ast.AST]:
    "What of a node can change a result: no annotation, import, decorator, assertion, refusal, sentence, caption."
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Raise() | ast.Assert() | ast.JoinedStr():
            return []
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return [*node.args.defaults, *filter(None, node.args.kw_defaults), *node.body]
        case ast.ClassDef():
            return node.body
        case ast.AnnAssign():
            return [node.value] if node.value else []
        case ast.Assign(targets=[ast.Name(id="__all__")]) | ast.Call(func=ast.Name(id="print")):
            return []
        case ast.Call(func=func) if ast.unparse(func).partition(".")[0] in SILENT:
            return []
        case ast.Call(func=ast.Attribute(attr="table"), args=[_, frame, _]):
            return [frame]
        case ast.Call(func=func, args=args, keywords=given):
            return [func, *args, *(k for k in given if k.arg not in WORDS)]
    return list(ast.iter_child_nodes(node))


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for part in _parts(node):
        yield from _walk(part)


class _Source:
    "A program's text, and where its nodes stand in it."

    def __init__(self, code: str):
        self.text = code.encode()
        self.tree = ast.parse(code)
        self.starts = [0, *(m.end() for m in re.finditer(rb"\n", self.text))]

    def span(self, node: ast.AST) -> tuple[int, int]:
        last = self.starts[node.end_lineno - 1]
        return self.starts[node.lineno - 1] + node.col_offset, last + node.end_col_offset

    def of(self, node: ast.AST) -> str:
        start, end = self.span(node)
        return self.text[start:end].decode()

    def changed(self, edit: Edit) -> str:
        start, end, words = edit
        return (self.text[:start] + words.encode() + self.text[end:]).decode()

    def between(self, one: ast.AST, two: ast.AST) -> Iterator[Edit]:
        "Another operator between two operands."
        start = self.span(one)[1]
        blank = re.sub(rb"#[^\n]*", lambda m: b" " * len(m[0]), self.text[start : self.span(two)[0]])
        found = re.search(rb"not\s+in|is\s+not|[^\s()\\]+", blank)
        for other in OTHER.get(" ".join(found[0].decode().split()), ()) if found else ():
            yield start + found.start(), start + found.end(), other


def _numbers(x: float) -> Iterator[float]:
    "One more and one less; of a large or a broken number the double and the half."
    if isinstance(x, int) and abs(x) < 10:
        yield from (x + 1, x - 1)
    elif math.isfinite(x):
        yield from (2 * x, x // 2 if isinstance(x, int) else x / 2) if x else (1.0,)


def _edits(s: _Source, node: ast.AST, columns: list[str], parameters: dict[str, object]) -> Iterator[Edit]:
    "What a node may be changed to."
    whole = lambda part, words: (*s.span(part), words)
    match node:
        case ast.Constant(value=bool(x)):
            yield whole(node, str(not x))
        case ast.Constant(value=int(x) | float(x)):
            yield from (whole(node, repr(y)) for y in _numbers(x))
        case ast.Name(id=name, ctx=ast.Load()) if name in parameters:
            kind = parameters[name]
            if isinstance(kind, int | float):
                yield whole(node, f"(not {name})" if isinstance(kind, bool) else f"(2 * {name})")
        case ast.Name(id=name) | ast.Attribute(attr=name) if name in OTHER:
            end = s.span(node)[1]
            yield end - len(name), end, OTHER[name][0]
        case ast.BinOp(left=left, right=right):
            yield from s.between(left, right)
        case ast.Compare(left=left, comparators=others):
            for one, two in pairwise([left, *others]):
                yield from s.between(one, two)
        case ast.BoolOp(values=values):
            for one, two in pairwise(values):
                yield from s.between(one, two)
            yield whole(node, s.of(values[0]))
        case ast.UnaryOp(operand=operand):
            yield whole(node, f"({s.of(operand)})")
        case ast.AugAssign() | ast.Expr(value=ast.Call()):
            yield whole(node, "pass")
        case ast.Break():
            yield whole(node, "continue")
        case ast.Continue():
            yield whole(node, "break")
        case ast.For(iter=each):
            yield whole(each, "()")
        case ast.Call():
            for k in [k for k in _parts(node) if isinstance(k, ast.keyword)]:
                end = s.span(k.value)[1]
                comma = re.match(rb"\s*,", s.text[end:])
                yield s.span(k)[0], end + (comma.end() if comma else 0), ""
        case ast.Subscript(slice=ast.Constant(value=str(column)) as part) if column in columns and len(columns) > 1:
            yield whole(part, repr(columns[columns.index(column) - 1]))
    for test in [getattr(node, "test", None), *getattr(node, "ifs", ())]:
        if isinstance(test, ast.Name | ast.Attribute | ast.Call):
            yield whole(test, f"not {s.of(test)}")


def _left_by(stage: ast.Module) -> list[ast.stmt]:
    "The statements of a stage that its tables rest on; the others draw, print and check."
    found: list[ast.stmt] = []
    needed: set[str] = set()
    names = lambda nodes, kind: {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, kind)}
    for statement in reversed(stage.body):
        nodes = list(_walk(statement))
        calls = {n.func.attr for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)}
        if calls & LEAVES or (names(nodes, ast.Store) & needed and not isinstance(statement, ast.Expr)):
            found.append(statement)
            needed |= names(nodes, ast.Load)
    return found


def edits(code: str, parameters: dict[str, object] | None = None) -> list[Edit]:
    "All changes of a program; of a stage, which has `parameters`, those of what it leaves."
    s = _Source(code)
    top = [s.tree] if parameters is None else _left_by(s.tree)
    nodes = [node for part in top for node in _walk(part)]
    columns = []
    if parameters is not None:
        slices = [n.slice for n in nodes if isinstance(n, ast.Subscript) and isinstance(n.slice, ast.Constant)]
        columns = sorted({x.value for x in slices if isinstance(x.value, str)})
    return [edit for node in nodes for edit in _edits(s, node, columns, parameters or {})]


def _statements(code: str) -> dict[int, set[int]]:
    "Line -> lines of the innermost statement that it is in; of a compound one, its head."
    found = {}
    nodes = [n for n in ast.walk(ast.parse(code)) if isinstance(n, (ast.stmt, ast.ExceptHandler))]
    for node in sorted(nodes, key=lambda n: (n.lineno, -n.end_lineno)):
        body = getattr(node, "body", None)
        last = max(node.lineno, body[0].lineno - 1) if body else node.end_lineno
        head = set(range(node.lineno, last + 1))
        found |= dict.fromkeys(head, head)
    return found


def _key(module: str, old: str, new: str) -> tuple[str, str, str]:
    "What a mutant is known by: its module and both lines, however they are spaced and bracketed."
    return module, *(re.sub(r"[\s()]", "", line) for line in (old, new))


@dataclass
class Mutant:
    module: Module
    code: str
    lines: set[int]  # of the statement that it changes
    line: int
    old: str
    new: str
    fate: str = "not tried"

    @property
    def key(self) -> tuple[str, str, str]:
        return _key(self.module.name, self.old, self.new)


def mutant(module: Module, edit: Edit) -> Mutant | None:
    "The module with one change; None where that is no other program."
    s = _Source(module.code)
    changed = s.changed(edit)
    try:
        if ast.dump(ast.parse(changed)) == ast.dump(s.tree):
            return None
    except SyntaxError:
        return None
    line = s.text.count(b"\n", 0, edit[0]) + 1
    end = s.text.count(b"\n", 0, edit[1]) + 1
    shorter = end - line - edit[2].count("\n")
    old, new = module.code.splitlines(), changed.splitlines()
    both = (" ".join(x.strip() for x in t[line - 1 : to]) for t, to in ((old, end), (new, end - shorter)))
    return Mutant(module, changed, _statements(module.code).get(line, {line}), line, *both)


def sampled(modules: list[Module], n: int, seed: str) -> tuple[list[Mutant], int]:
    "A seeded sample of the modules' mutants, without those known to change no result; and how many places there are."
    places = [(m, edit) for m in modules for edit in edits(m.code, m.parameters)]
    known = equivalent()
    found: list[Mutant] = []
    for module, edit in random.Random(seed).sample(places, len(places)):
        if len(found) == n:
            break
        one = mutant(module, edit)
        if one is not None and one.key not in known:
            found.append(one)
    return found, len(places)


# What notices ---------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Module:
    "A module under test, in the copy of the tree."

    name: str  # as mhbench.stats.metrics
    file: Path
    root: Path
    parameters = None

    def __post_init__(self):
        self.code = self.read()

    def read(self) -> str:
        return self.file.read_text(encoding="utf-8")

    def write(self, code: str) -> None:
        self.file.write_text(code, encoding="utf-8")
        for stale in self.file.parent.glob(f"__pycache__/{self.file.stem}.*"):
            stale.unlink()

    def as_cell(self, code: str):
        "What an exported cell of the notebook is in this version of the module, at the same lines of its file."
        chunks = {}
        for found in re.finditer(r"^# %% \S+\.ipynb #(\w+)\n(.*?)(?=^# %% |\Z)", code, re.M | re.S):
            above = code.count("\n", 0, found.start(2))
            chunks[found[1]] = "\n" * above + re.sub(r"^from (\.+)(\S*) import", self._absolute, found[2], flags=re.M)

        def written(cell):
            return (chunks[cell["id"]], str(self.file)) if cell.get("id") in chunks else (cell["source"], "cell")

        return written

    def _absolute(self, m: re.Match) -> str:
        parents = self.name.split(".")[: -len(m[1])]
        return f"from {'.'.join([*parents, *filter(None, [m[2]])])} import"

    def fault(self, code: str) -> str | None:
        "What its notebook says of this version."
        from examples import first_fault

        told = re.search(r"File to edit: (\S+\.ipynb)", code)
        return first_fault((self.file.parent / told[1]).resolve(), self.as_cell(code)) if told else None


class Stage(Module):
    "The notebook of a stage as one program, its cells under their marks."

    def __post_init__(self):
        super().__post_init__()
        tagged = next(c for c in self.cells if "parameters" in c["metadata"].get("tags", ()))
        space: dict[str, object] = {}
        exec("".join(tagged["source"]), space)
        self.parameters = {name: x for name, x in space.items() if name not in ("__builtins__", "seed")}
        self.code = self.read()

    def read(self) -> str:
        self.whole = json.loads(self.file.read_text(encoding="utf-8"))
        self.cells = [c for c in self.whole["cells"] if c["cell_type"] == "code"]
        tagged = lambda c: "parameters" in c["metadata"].get("tags", ())
        return "".join(f"# %% {k}\n{''.join(c['source'])}\n" for k, c in enumerate(self.cells) if not tagged(c))

    def write(self, code: str) -> None:
        parts = re.split(r"^# %% (\d+)\n", code, flags=re.M)[1:]
        for k, source in zip(parts[::2], parts[1::2], strict=True):
            self.cells[int(k)]["source"] = source.rstrip("\n")
        self.file.write_text(json.dumps(self.whole), encoding="utf-8")

    def fault(self, code: str) -> None:
        "A stage's notebook is no check: what its runs leave is."


@dataclass
class Checks:
    "What notices mutants: notebooks, tests or runs of stages; what each takes and which lines it runs."

    seconds: dict[str, float] = field(default_factory=dict)
    lines: dict[str, set[tuple[str, int]]] = field(default_factory=dict)
    left: dict[str, dict] = field(default_factory=dict)  # of a run of a stage, its tables
    left_out: dict[str, str] = field(default_factory=dict)

    def of(self, mutant: Mutant) -> list[str]:
        "The checks that run a mutant's statement, the shortest first."
        changed = {(str(mutant.module.file), line) for line in mutant.lines}
        own = mutant.module.file.stem if isinstance(mutant.module, Stage) else ""
        runs = lambda check: _stage_of(check) == own if own else self.lines[check] & changed
        found = sorted(filter(runs, self.seconds), key=self.seconds.__getitem__)
        until = np.searchsorted(np.cumsum([self.seconds[c] for c in found]), MOST_S)
        return found[: int(until) + 1]


def _imports(code: str) -> set[str]:
    "What a program imports: modules, and names from modules, dotted."
    found = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def importing(root: Path, modules: list[Module]) -> dict[str, set[str]]:
    "The test files that import one of the modules, and which."
    found = {}
    for file in sorted((root / "tests").rglob("test_*.py")):
        known = _imports(file.read_text(encoding="utf-8"))
        if which := {str(m.file) for m in modules if m.name in known}:
            found[str(file.relative_to(root))] = which
    return found


def _imported(notebook: Path) -> set[str]:
    "What the cells of a notebook import."
    from examples import MAGIC

    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return set().union(*(_imports(MAGIC.sub("", "".join(c["source"]))) for c in cells if c["cell_type"] == "code"))


def notebooks_importing(root: Path, modules: list[Module]) -> dict[Path, set[str]]:
    "The notebooks that import one of the modules, and which; not the module's own, which runs its cells instead."
    found = {}
    for file in sorted((root / "nbs").rglob("*.ipynb")):
        known = _imported(file) if file.parent.name != "stages" else set()
        if which := {str(m.file) for m in modules if m.name in known}:
            found[file] = which
    return found


def stages_resting_on(root: Path, modules: list[Module]) -> set[str]:
    """The stages that are modules or whose notebooks import one: what they leave can rest on it. Figures are no table:
    on what draws and writes the report's page rests the report alone. A study's loader is imported by name.
    """
    known = {file.stem: _imported(file) for file in (root / "nbs" / "stages").glob("*.ipynb")}
    found = {m.file.stem for m in modules if isinstance(m, Stage)}
    for name in (m.name for m in modules if not isinstance(m, Stage)):
        direct = {stage for stage, names in known.items() if name in names}
        by_name = {"prepare"} if name.startswith("mhbench.studies.") else set()
        found |= {"report"} if name.startswith("mhbench.report.") else direct or by_name
    return found


class _Trace:
    "Which lines of some files are run: counted by coverage, in C, so that what a check takes is hardly longer."

    def __init__(self, files: set[str]):
        from coverage import Coverage

        self.files = files
        self.n = 0
        self.coverage = Coverage(data_file=None, include=sorted(files), config_file=False, messages=False)

    def start(self) -> None:
        self.coverage.start()
        self.coverage.switch_context(str(self.n))

    def stop(self) -> None:
        self.coverage.stop()

    def taken(self) -> set[tuple[str, int]]:
        "The lines since the last time."
        data = self.coverage.get_data()
        data.set_query_context(str(self.n))
        seen = {(file, line) for file in data.measured_files() & self.files for line in data.lines(file) or ()}
        self.n += 1
        self.coverage.switch_context(str(self.n))
        return seen


class _Watch:
    "pytest's plugin that notes what each test takes and runs; a module's own lines count for files that import it."

    def __init__(self, trace: _Trace, checks: Checks, files: dict[str, set[str]]):
        self.trace = trace
        self.checks = checks
        self.files = files
        self.imported: set[tuple[str, int]] = set()
        self.started = 0.0

    def pytest_collection_finish(self, session):
        self.imported = self.trace.taken()

    def pytest_runtest_setup(self, item):
        import pytest

        def too_long(*_):
            pytest.skip(f"longer than {LONGEST_S} s")

        self.started = time.process_time()
        signal.signal(signal.SIGPROF, too_long)
        signal.setitimer(signal.ITIMER_PROF, SHARED_S)

    def pytest_runtest_call(self, item):
        signal.setitimer(signal.ITIMER_PROF, LONGEST_S)

    def pytest_runtest_logreport(self, report):
        name = report.nodeid
        known = self.checks
        if name not in known.lines:
            own = self.files[name.partition("::")[0]]
            known.lines[name] = {(file, line) for file, line in self.imported if file in own}
        known.lines[name] |= self.trace.taken()
        known.seconds[name] = time.process_time() - self.started
        if report.outcome != "passed":
            known.left_out[name] = str(report.longrepr)[-200:]
        if report.when == "teardown":
            signal.setitimer(signal.ITIMER_PROF, 0)


def _pytest(nodes: list[str], *plugins) -> int:
    import pytest

    words = ["-q", "-n0", "--no-header"]
    return int(pytest.main([*words, *([] if plugins else ["-x"]), *nodes], plugins=list(plugins)))


def notebook_ran(notebook: Path, files: set[str]) -> tuple[str | None, float, set[tuple[str, int]]]:
    "What a notebook says, what it takes, and which lines of these files it runs; in a child."
    from examples import first_fault

    trace = _Trace(files)
    trace.start()
    fault = first_fault(notebook)
    return fault, time.process_time(), trace.taken()


def notebooks_measured(modules: list[Module], root: Path) -> Checks:
    "The notebooks that import one of the modules."
    checks = Checks()
    for file, own in notebooks_importing(root, modules).items():
        name = f"notebook {file.relative_to(root)}"
        ran = in_child(lambda f=file, o=own: notebook_ran(f, o), 300, root.parent / "notebook")
        if ran is None or ran[0]:
            checks.left_out[name] = str(ran and ran[0])
        else:
            _, checks.seconds[name], checks.lines[name] = ran
    return checks


def tests_measured(modules: list[Module], root: Path) -> Checks:
    "The tests that import one of the modules."
    checks = Checks()
    trace = _Trace({str(m.file) for m in modules})
    trace.start()
    if files := importing(root, modules):
        _pytest(list(files), _Watch(trace, checks, files))
    trace.stop()
    for gone in checks.left_out:
        checks.seconds.pop(gone, None)
    return checks


def left(check: str) -> dict[str, dict]:
    "What a run of a stage leaves: `stage score/mentat` with the demo's parameters, or `varied` with others."
    from varied import VARIED, left_by

    kind, _, key = check.partition(" ")
    return left_by(key, Path("results").resolve(), VARIED[key] if kind == "varied" else {})


def _stage_of(check: str) -> str:
    return check.split()[1].partition("/")[0]


def stages_measured(modules: list[Module], root: Path) -> Checks:
    "The runs of stages, with the demo's parameters and with others."
    from varied import VARIED

    checks = Checks()
    trace = _Trace({str(m.file) for m in modules if not isinstance(m, Stage)})
    if trace.files:
        trace.start()
    wanted = stages_resting_on(root, modules)
    found = [str(f.parent.relative_to("results")) for f in sorted(Path("results").rglob("notebook.ipynb"))]
    for check in [*(f"stage {place}" for place in found), *(f"varied {key}" for key in VARIED)]:
        if _stage_of(check) in wanted:
            started = time.process_time()
            try:
                checks.left[check] = left(check)
            except Exception as e:
                checks.left_out[check] = str(e)
                continue
            checks.seconds[check] = time.process_time() - started
            checks.lines[check] = trace.taken() if trace.files else set()
    return checks


def noticed(mutant: Mutant, chosen: list[str], known: dict[str, dict]) -> bool:
    "Whether one of the checks fails for a mutant; in a child."
    from examples import first_fault

    if mutant.module.name in chosen and mutant.module.fault(mutant.code):
        return True
    if any(first_fault(mutant.module.root / c.split()[1]) for c in chosen if c.startswith("notebook ")):
        return True
    for check in [c for c in chosen if c.startswith(("stage ", "varied "))]:
        try:
            if differences(known[check], left(check)):
                return True
        except Exception:
            return True
    tests = [c for c in chosen if "::" in c]
    return bool(tests) and _pytest(tests) not in (0, 5)


def in_child(work, timeout: float, log: Path):
    "What `work` returns in a process of its own; None where it takes too long or dies."
    into = log.with_suffix(".pickle")
    into.unlink(missing_ok=True)
    main = sys.modules["__main__"]
    pid = os.fork()
    if not pid:
        os.setsid()
        with log.open("w") as out:
            os.dup2(out.fileno(), 1)
            os.dup2(out.fileno(), 2)
        resource.setrlimit(resource.RLIMIT_DATA, (24 << 30, 24 << 30))  # browsers reserve more than they use
        try:
            result, sys.modules["__main__"] = work(), main  # an example that was cut off leaves its own
            into.write_bytes(pickle.dumps(result))
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    until = time.monotonic() + timeout
    while not os.waitpid(pid, os.WNOHANG)[0]:
        if time.monotonic() > until:
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return None
        time.sleep(0.01)
    return pickle.loads(into.read_bytes()) if into.exists() else None


def copied() -> Path:
    "The working tree, with its data and its results, where files may be changed."
    folder = Path(tempfile.mkdtemp(prefix="mutants-")) / "mhbench"
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    for name in ("data", "results", "figures", ".mhbench"):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, dirs_exist_ok=True)
    for words in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    subprocess.run([sys.executable, "-m", "compileall", "-q", "mhbench", "tests"], cwd=folder)
    return folder


def equivalent() -> set[tuple[str, str, str]]:
    "Mutants that were looked at and change no result."
    with EQUIVALENT.open(encoding="utf-8", newline="") as f:
        rows = csv.reader((line for line in f if not line.startswith("#")), delimiter="\t", quoting=csv.QUOTE_NONE)
        return {_key(*r[:3]) for r in rows if r}


def tried(mutants: list[Mutant], root: Path, until: float, quick: bool) -> None:
    "The fate of mutants: the notebooks of their modules first, then tests and stages for what is left."
    log = root.parent / "log"

    def one(mutant: Mutant, kind: str, which: list[str], seconds: float, known: dict) -> None:
        mutant.module.write(mutant.code)
        fate = in_child(lambda: noticed(mutant, which, known), 120 + 4 * seconds, log)
        mutant.fate = {None: "died", True: kind, False: "survived"}[fate]
        mutant.module.write(mutant.module.code)

    sound: dict[Module, bool] = {}  # whether a module's notebook says nothing where nothing is changed
    for mutant in [m for m in mutants if not isinstance(m.module, Stage)]:
        module = mutant.module
        if time.monotonic() < until and module not in sound:
            sound[module] = in_child(lambda m=module: m.fault(m.code) is None, 300, log) is True
            if not sound[module]:
                print(f"left out, since it fails unchanged: the notebook of {module.name}", flush=True)
        if time.monotonic() < until and sound[module]:
            one(mutant, "notebook", [module.name], 60, {})
    kinds = {"tests": tests_measured, "notebooks": notebooks_measured, "stages": stages_measured}
    for kind, measured in kinds.items():
        rest = [m for m in mutants if m.fate in ("not tried", "survived")]
        rest = [
            m for m in rest if isinstance(m.module, Stage) == (kind == "stages") or (kind == "stages" and not quick)
        ]
        if not rest:
            continue
        if time.monotonic() > until:
            for mutant in rest:
                mutant.fate = "out of time"
            continue
        modules = list(dict.fromkeys(m.module for m in rest))
        checks = in_child(lambda f=measured, m=modules: f(m, root), until - time.monotonic(), log)
        if checks is None:
            print(f"{kind}: they do not run unchanged in the time that is left\n{log.read_text()[-300:]}", flush=True)
            for mutant in rest:
                mutant.fate = "out of time"
            continue
        for name, why in checks.left_out.items():
            if "Skipped" not in why:
                print(f"left out, since it fails unchanged: {name}: {' '.join(why.split())[-160:]}")
        print(f"{kind}: {len(checks.seconds)} take {sum(checks.seconds.values()):.0f} s unchanged", flush=True)
        for mutant in rest:
            which = checks.of(mutant)
            if not which and mutant.fate == "not tried":
                mutant.fate = "never run"
            for together in [[c] for c in which] if kind == "notebooks" else [which] if which else []:
                if time.monotonic() > until:
                    mutant.fate = "out of time"
                elif mutant.fate in ("not tried", "survived"):
                    one(mutant, kind, together, sum(checks.seconds[c] for c in together), checks.left)


def report(name: str, done: list[Mutant], seconds: float) -> None:
    missed = [m for m in done if m.fate in MISSED]
    by = {fate: sum(m.fate == fate for m in done) for fate in ("notebook", "notebooks", "tests", "stages", "died")}
    share = f"{1 - len(missed) / len(done):.0%}" if done else "none tried"
    print(f"{name}: {len(done) - len(missed)} of {len(done)} found ({share}), {by}, {seconds:.0f} s", flush=True)
    for m in missed:
        print(f"  {m.module.file.relative_to(m.module.root)}:{m.line} {m.fate}")
        print(f"    - {m.old.strip()}\n    + {m.new.strip()}", flush=True)


def modules_of(patterns: str, root: Path) -> list[Module]:
    found: list[Module] = []
    for pattern in patterns.split():
        folder, kind, ends = ("nbs", Stage, ".ipynb") if pattern.startswith("stages/") else ("mhbench", Module, ".py")
        for file in sorted((root / folder).glob(pattern + ends)):
            if file.stem != "__init__":
                found.append(kind(".".join(file.relative_to(root).with_suffix("").parts), file, root))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="*", help="as stats/metrics, stats/*, stages/panel; left out: every group")
    parser.add_argument("--sample", type=int, default=20, help="mutants of a group, or of the modules named")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--budget", type=float, default=1800, help="seconds of a group")
    parser.add_argument("--quick", action="store_true", help="what stages leave is held against faults in stages alone")
    given = parser.parse_args()
    words = " ".join(given.modules)
    groups = {words: GROUPS.get(words, words)} if words else GROUPS
    os.environ |= {"OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"}
    os.environ.setdefault("MHBENCH_DATASETS", str(ROOT.parent / "shared" / "datasets"))
    root = copied()
    os.chdir(root)
    os.environ["PYTHONPATH"] = str(root)
    os.environ["MHBENCH_ROOT"] = str(root)
    if (root / "results").is_dir():
        os.environ["MHBENCH_DEMO"] = str(root)  # tests read what the stages left
    sys.path[:0] = [str(root), str(root / "tests")]
    sys.dont_write_bytecode = True
    for library in LIBRARIES.split():
        importlib.import_module(library)
    total: list[Mutant] = []
    for name, patterns in groups.items():
        started = time.monotonic()
        modules = modules_of(patterns, root)
        mutants, places = sampled(modules, given.sample, f"{given.seed} {name}")
        print(f"{name}: {len(mutants)} mutants of {places} places in {len(modules)} files", flush=True)
        tried(mutants, root, started + given.budget, given.quick)
        done = [m for m in mutants if m.fate != "not tried"]
        report(name, done, time.monotonic() - started)
        total += done
    missed = sum(m.fate in MISSED for m in total)
    print(f"all: {len(total) - missed} of {len(total)} found ({1 - missed / max(1, len(total)):.0%})")
    shutil.rmtree(root.parent)
    return 0


if __name__ == "__main__":
    sys.exit(main())
