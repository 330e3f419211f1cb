"""`make mutants`: faults put into the package one at a time, and those that no notebook and no test notices.

The faults are operators of cosmic-ray and five of ours. cosmic-ray's own runner starts a command for each mutant and
knows nothing of notebooks: a notebook that is executed runs its own cells, not the module that they were exported to.
Here a mutant of a module is also put into its notebook's cell, and both run in a process forked from one that has the
libraries loaded. Only checks that run the changed line are run, the shortest first, until one fails.

    python tests/mutants.py --sample 40 --seed 1 --budget 600 stats/metrics ask/parse
"""

from __future__ import annotations

import argparse
import ast
import csv
import importlib
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
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

try:
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.operators.operator import Operator
    from cosmic_ray.operators.provider import OperatorProvider
    from parso.python.tree import Keyword, Name, PythonLeaf, String
except ModuleNotFoundError as e:
    sys.exit(f"{e}: make mutants needs `pip install cosmic-ray`")

ROOT = Path(__file__).resolve().parent.parent
MODULES = ("stats/*", "ask/parse", "tasks/*", "steps/score", "ask/cache", "annotate/store", "encode/store")
EQUIVALENT = Path(__file__).with_name("mutants_equivalent.tsv")  # module, line, mutated line, why no result changes
LIBRARIES = (
    "numpy pandas scipy.stats scipy.optimize matplotlib.pyplot pyarrow.parquet pydantic yaml jinja2 aiohttp rapidfuzz "
    "IPython nbformat papermill pytest hypothesis jsonschema"
)
LONGEST_S = 8  # a test that takes longer is left out, and named
MOST_S = 30  # of tests a mutant, the shortest first; what these do not notice counts as not noticed
CHOSEN = """
    Binary_Add_Sub Binary_Sub_Add Binary_Mul_Div Binary_Div_Mul Binary_FloorDiv_Div Binary_Mod_FloorDiv Binary_Pow_Mul
    Binary_BitOr_BitAnd Binary_BitAnd_BitOr Comparison_Lt_LtE Comparison_LtE_Lt Comparison_Gt_GtE Comparison_GtE_Gt
    Comparison_Lt_Gt Comparison_Gt_Lt Comparison_Eq_NotEq Comparison_NotEq_Eq Comparison_Is_IsNot Comparison_IsNot_Is
    Unary_USub_UAdd Unary_Delete_Not Unary_Delete_USub Unary_Delete_Invert
"""


class _Swap(Operator):
    "A name for its opposite."

    pairs = {"min": "max", "max": "min", "any": "all", "all": "any", "minimum": "maximum", "maximum": "minimum"}

    def mutation_positions(self, node):
        if isinstance(node, Name) and node.value in self.pairs:
            yield node.start_pos, node.end_pos

    def mutate(self, node, index):
        return Name(self.pairs[node.value], node.start_pos, prefix=node.prefix)

    @classmethod
    def examples(cls):
        return ()


class _Drop(_Swap):
    "A call made for its effect, or a change in place, that does not happen."

    def mutation_positions(self, node):
        if node.parent is None or node.parent.type != "simple_stmt":
            return
        called = node.type == "atom_expr" and node.children[-1].type == "trailer"
        in_place = node.type == "expr_stmt" and node.children[1].type == "operator" and node.children[1].value != "="
        if called or in_place:
            yield node.start_pos, node.end_pos

    def mutate(self, node, index):
        return PythonLeaf("pass", node.start_pos, prefix=node.get_first_leaf().prefix)


class _Regex(_Swap):
    "A piece of a regular expression left out, or a repetition that needs one more or one less."

    pieces = re.compile(r"\\b|(?<![\\(?*+])[*+](?!\])|(?<=\))\?|\^(?!\])|\$")
    other = {"*": "+", "+": "*"}

    def _found(self, node):
        return list(self.pieces.finditer(node.value)) if isinstance(node, String) and node.value[0] == "r" else []

    def mutation_positions(self, node):
        for _ in self._found(node):
            yield node.start_pos, node.end_pos

    def mutate(self, node, index):
        m = self._found(node)[index]
        changed = node.value[: m.start()] + self.other.get(m[0], "") + node.value[m.end() :]
        return String(changed, node.start_pos, prefix=node.prefix)


class _Or(_Swap):
    "`a or b` that is never b, `a and b` that is never b."

    def mutation_positions(self, node):
        if node.type in ("or_test", "and_test"):
            yield node.start_pos, node.end_pos

    def mutate(self, node, index):
        return node.children[0]


class _In(_Swap):
    "`in` for `not in`."

    def mutation_positions(self, node):
        if isinstance(node, Keyword) and node.value == "in" and node.parent.type == "comparison":
            yield node.start_pos, node.end_pos

    def mutate(self, node, index):
        return Keyword("not in", node.start_pos, prefix=node.prefix)


def operators(patterns: bool) -> list[Operator]:
    "The kinds of fault: cosmic-ray's, without those that only raise (`+` for `>>`), and ours."
    provider = OperatorProvider()
    whole = ("NumberReplacer", "AddNot", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "ReplaceAndWithOr")
    whole += ("ReplaceOrWithAnd", "ReplaceBreakWithContinue", "ReplaceContinueWithBreak", "ZeroIterationForLoop")
    named = [re.sub(r"^(\w+?)_", r"Replace\1Operator_", name) for name in CHOSEN.split()]
    return [*(provider[name]() for name in (*whole, *named)), _Swap(), _Drop(), _Or(), _In(), *[_Regex()] * patterns]


@dataclass
class Mutant:
    module: str
    code: str
    lines: set[int]  # of the statement that it changes
    line: int
    old: str
    new: str
    fate: str = "not tried"

    @property
    def key(self) -> tuple[str, str, str]:
        return self.module, " ".join(self.old.split()), " ".join(self.new.split())


def _no_result(node) -> bool:
    "Whether a node is part of an annotation, an import, a decorator, a refusal's words or `__all__`."
    child = node
    while (parent := child.parent) is not None:
        kind = parent.type
        if kind in ("decorator", "import_name", "import_from", "raise_stmt"):
            return True
        if kind in ("tfpdef", "param") and child is getattr(parent, "annotation", None):
            return True
        if kind == "tfpdef" and child is not parent.children[0]:
            return True
        if node.type == "operator" and kind in ("parameters", "param", "argument", "star_expr"):
            return True  # a star that is no product
        if kind == "annassign" and child is parent.children[1]:
            return True
        if kind == "funcdef" and child is parent.annotation:
            return True
        if kind == "atom_expr" and parent.get_first_leaf().value in ("refuse", "warn", "warnings", "cast"):
            return True
        if kind == "expr_stmt" and parent.get_first_leaf().value == "__all__":
            return True
        child = parent
    return False


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


def sites(code: str, patterns: bool) -> list[tuple[Operator, int]]:
    "Where each operator can change a module: the operator, and the how-manieth of its places."
    found = []
    tree = get_ast(code)
    for operator in operators(patterns):
        places = (node for node in ast_nodes(tree) for _ in operator.mutation_positions(node))
        found += [(operator, k) for k, node in enumerate(places) if not _no_result(node)]
    return found


def mutant_at(module: str, code: str, operator: Operator, occurrence: int) -> Mutant | None:
    "The module with one change; None where that is no other program."
    changed = mutate_code(code, operator, occurrence)
    try:
        if changed is None or ast.dump(ast.parse(changed)) == ast.dump(ast.parse(code)):
            return None
    except SyntaxError:
        return None
    one, two = code.splitlines(), changed.splitlines()
    line = next(k for k, (a, b) in enumerate(zip(one, two, strict=False), 1) if a != b)
    return Mutant(module, changed, _statements(code).get(line, {line}), line, one[line - 1], two[line - 1])


def sampled(module: str, code: str, n: int, seed: int, patterns: bool) -> tuple[list[Mutant], int]:
    "A seeded sample of a module's mutants, without those known to change no result; and how many places there are."
    places = sites(code, patterns)
    known = equivalent()
    order = random.Random(f"{seed} {module}").sample(places, len(places))
    found: list[Mutant] = []
    for operator, occurrence in order:
        if len(found) == n:
            break
        mutant = mutant_at(module, code, operator, occurrence)
        if mutant is not None and mutant.key not in known:
            found.append(mutant)
    return found, len(places)


# What is run --------------------------------------------------------------------------------------------------------


@dataclass
class Module:
    "A module under test, in the copy of the tree."

    name: str  # as mhbench.stats.metrics
    file: Path
    root: Path

    def __post_init__(self):
        self.code = self.file.read_text(encoding="utf-8")
        told = re.search(r"File to edit: (\S+\.ipynb)", self.code)[1]
        self.notebook = (self.file.parent / told).resolve()

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

        return first_fault(self.notebook, self.as_cell(code))


@dataclass
class Checks:
    "What notices: notebooks, by their module's name, and tests; what each takes and which lines it runs."

    seconds: dict[str, float] = field(default_factory=dict)
    lines: dict[str, set[tuple[str, int]]] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def of(self, mutant: Mutant, file: Path) -> list[str]:
        "The checks that run a mutant's statement, the notebook first and then the shortest."
        changed = {(str(file), line) for line in mutant.lines}
        found = [c for c in self.seconds if self.lines[c] & changed]
        found.sort(key=lambda c: (c != mutant.module, self.seconds[c]))
        until = np.searchsorted(np.cumsum([self.seconds[c] for c in found]), MOST_S)
        return found[: int(until) + 1]


def _imports(file: Path) -> set[str]:
    "What a file imports: modules, and names from modules, dotted."
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def importing(root: Path, modules: list[Module]) -> dict[str, set[str]]:
    "The test files that import one of the modules, and which."
    found = {}
    for file in sorted((root / "tests").rglob("test_*.py")):
        known = _imports(file)
        if which := {str(m.file) for m in modules if m.name in known}:
            found[str(file.relative_to(root))] = which
    return found


class _Trace:
    "Which lines of some files are run."

    def __init__(self, files: set[str]):
        self.files = files
        self.seen: set[tuple[str, int]] = set()

    def __call__(self, frame, event, arg):
        return self._line if frame.f_code.co_filename in self.files else None

    def _line(self, frame, event, arg):
        self.seen.add((frame.f_code.co_filename, frame.f_lineno))
        return self._line

    def start(self):
        threading.settrace(self)
        sys.settrace(self)

    def taken(self) -> set[tuple[str, int]]:
        seen, self.seen = self.seen, set()
        return seen


class _Watch:
    "pytest's plugin that notes what each test takes and runs; a module's own lines count for files that import it."

    def __init__(self, trace: _Trace, checks: Checks, files: dict[str, set[str]]):
        self.trace = trace
        self.checks = checks
        self.files = files
        self.imported: set[tuple[str, int]] = set()

    def pytest_collection_finish(self, session):
        self.imported = self.trace.taken()

    def pytest_runtest_setup(self, item):
        import pytest

        def too_long(*_):
            pytest.skip(f"longer than {LONGEST_S} s")

        self.trace.start()  # an alarm that came while a line was traced has ended it
        signal.signal(signal.SIGALRM, too_long)
        signal.alarm(LONGEST_S)

    def pytest_runtest_logreport(self, report):
        name = report.nodeid
        known = self.checks
        if name not in known.lines:
            own = self.files[name.partition("::")[0]]
            known.lines[name] = {(file, line) for file, line in self.imported if file in own}
        known.lines[name] |= self.trace.taken()
        known.seconds[name] = known.seconds.get(name, 0) + report.duration
        if report.outcome != "passed":
            known.left_out[name] = str(report.longrepr)[-200:]
        if report.when == "teardown":
            signal.alarm(0)


def _pytest(nodes: list[str], *plugins) -> int:
    import pytest

    words = ["-q", "-n0", "-p", "no:cacheprovider", "--no-header", "-m", "not slow"]
    return int(pytest.main([*words, *([] if plugins else ["-x"]), *nodes], plugins=list(plugins)))


def measured(modules: list[Module], root: Path) -> Checks:
    "What each check takes and runs where nothing is changed; in a child."
    checks = Checks()
    trace = _Trace({str(m.file) for m in modules})
    trace.start()
    for module in modules:
        started = time.monotonic()
        fault = module.fault(module.code)
        checks.seconds[module.name] = time.monotonic() - started
        checks.lines[module.name] = trace.taken()
        if fault:
            checks.left_out[module.name] = fault
    for name in [n for n in sys.modules if n.partition(".")[0] == "mhbench"]:
        del sys.modules[name]  # so that what is run at import is seen for the tests too
    trace.taken()
    if files := importing(root, modules):
        _pytest(list(files), _Watch(trace, checks, files))
    sys.settrace(None)
    for gone in checks.left_out:
        checks.seconds.pop(gone, None)
    return checks


def noticed(module: Module, chosen: list[str], code: str) -> str:
    "Which kind of check fails for a mutant; in a child."
    if module.name in chosen and module.fault(code):
        return "notebook"
    tests = [c for c in chosen if "::" in c]
    if tests and _pytest(tests) not in (0, 5):
        return "tests"
    return ""


def in_child(work, timeout: float, log: Path):
    "What `work` returns in a process of its own; None where it takes too long or dies."
    into = log.with_suffix(".pickle")
    into.unlink(missing_ok=True)
    pid = os.fork()
    if not pid:
        os.setsid()
        with log.open("w") as out:
            os.dup2(out.fileno(), 1)
            os.dup2(out.fileno(), 2)
        resource.setrlimit(resource.RLIMIT_AS, (24 << 30, 24 << 30))
        try:
            into.write_bytes(pickle.dumps(work()))
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
    "The working tree, with its data, where files may be changed."
    folder = Path(tempfile.mkdtemp(prefix="mutants-")) / "mhbench"
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    if (ROOT / "data").is_dir():
        shutil.copytree(ROOT / "data", folder / "data", dirs_exist_ok=True)
    for words in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    subprocess.run([sys.executable, "-m", "compileall", "-q", "mhbench", "tests"], cwd=folder)
    return folder


def equivalent() -> set[tuple[str, str, str]]:
    "Mutants that were looked at and change no result."
    if not EQUIVALENT.exists():
        return set()
    with EQUIVALENT.open(encoding="utf-8", newline="") as f:
        rows = csv.reader((line for line in f if not line.startswith("#")), delimiter="\t", quoting=csv.QUOTE_NONE)
        return {(r[0], r[1], r[2]) for r in rows if r}


def tried(module: Module, mutants: list[Mutant], checks: Checks, until: float) -> list[Mutant]:
    "The mutants that the time allows, each with its fate."
    log = module.root.parent / "log"
    for mutant in mutants:
        if time.monotonic() > until:
            break
        which = checks.of(mutant, module.file)
        if not which:
            mutant.fate = "never run"
            continue
        module.file.write_text(mutant.code, encoding="utf-8")
        for stale in module.file.parent.glob(f"__pycache__/{module.file.stem}.*"):
            stale.unlink()
        limit = 10 + 5 * sum(checks.seconds[c] for c in which)
        fate = in_child(lambda m=mutant, w=which: noticed(module, w, m.code), limit, log)
        mutant.fate = "died" if fate is None else fate or "survived"
    module.file.write_text(module.code, encoding="utf-8")
    return [m for m in mutants if m.fate != "not tried"]


def report(name: str, done: list[Mutant], seconds: float) -> None:
    missed = [m for m in done if m.fate in ("survived", "never run")]
    by = {fate: sum(m.fate == fate for m in done) for fate in ("notebook", "tests", "died")}
    share = f"{1 - len(missed) / len(done):.0%}" if done else "none tried"
    print(f"{name}: {len(done) - len(missed)} of {len(done)} found ({share}), {by}, {seconds:.0f} s", flush=True)
    for m in sorted(missed, key=lambda m: m.line):
        print(f"  {name.replace('.', '/')}.py:{m.line} {m.fate}")
        print(f"    - {m.old.strip()}\n    + {m.new.strip()}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="*", default=MODULES, help="as stats/metrics; stats/* is all of a folder")
    parser.add_argument("--sample", type=int, default=30, help="mutants of each module")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--budget", type=float, default=1800, help="seconds in all")
    parser.add_argument("--patterns", action="store_true", help="also pieces of regular expressions")
    given = parser.parse_args()
    found = [f for m in given.modules for f in sorted((ROOT / "mhbench").glob(f"{m}.py")) if f.stem != "__init__"]
    names = [".".join(f.relative_to(ROOT).with_suffix("").parts) for f in found]
    os.environ |= {"OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"}
    os.environ.setdefault("MHBENCH_DATASETS", str(ROOT.parent / "shared" / "datasets"))
    root = copied()
    os.chdir(root)
    os.environ["PYTHONPATH"] = str(root)
    os.environ["MHBENCH_ROOT"] = str(root)
    sys.path[:0] = [str(root), str(root / "tests")]
    sys.dont_write_bytecode = True
    for library in LIBRARIES.split():
        importlib.import_module(library)
    until = time.monotonic() + given.budget
    modules = [Module(name, root / Path(*name.split(".")).with_suffix(".py"), root) for name in names]
    log = root.parent / "log"
    checks = in_child(lambda: measured(modules, root), given.budget, log)
    if checks is None:
        sys.exit(f"the checks do not run unchanged\n{log.read_text()[-3000:]}")
    long = [name for name, why in checks.left_out.items() if "Skipped" in why]
    print(f"left out: {len(long)} checks that are skipped, or take longer than {LONGEST_S} s")
    for name in sorted(set(checks.left_out) - set(long)):
        print(f"left out, since it fails unchanged: {name}: {' '.join(checks.left_out[name].split())[-160:]}")
    print(f"{len(checks.seconds)} checks take {sum(checks.seconds.values()):.0f} s unchanged", flush=True)
    total = []
    for module in modules:
        started = time.monotonic()
        mutants, places = sampled(module.name, module.code, given.sample, given.seed, given.patterns)
        print(f"{module.name}: {len(mutants)} mutants of {places} places", flush=True)
        done = tried(module, mutants, checks, until)
        report(module.name, done, time.monotonic() - started)
        total += done
    missed = sum(m.fate in ("survived", "never run") for m in total)
    print(f"all: {len(total) - missed} of {len(total)} found ({1 - missed / max(1, len(total)):.0%})")
    shutil.rmtree(root.parent)
    return 0


if __name__ == "__main__":
    sys.exit(main())
