"""Fixtures shared by the tests."""

import contextlib
import gc
import io
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from filelock import FileLock
from here import stages_here

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # no test asks the hub, or waits for it

ROOT = Path(__file__).resolve().parent.parent
os.environ.setdefault("MHBENCH_CORPORA", str(ROOT / ".mhbench" / "corpora"))  # no test writes into a user's folder
SECONDS: dict[str, float] = {}  # file -> what its tests took in this run
WAITED: list[float] = []  # how long a test has waited for another worker

# The part that a file belongs to: those of `form` and `whole` are named here, every other one is `fast`. A test of a
# fast file is whole where it asks for the authors' files (the fixture `datasets`) or is marked: @pytest.mark.whole.
FORM = """
test_contributing test_docs test_graph test_parts test_readme test_repository test_structure test_style
hostile/test_hostile_counted hostile/test_hostile_requirements
""".split()
WHOLE = """
test_benchmarks test_canary test_cluster test_golden test_interval_coverage test_ledger_page test_local
test_medqade_pipeline test_mentat_pipeline test_new_study test_own_files test_parallel test_pipeline test_process
test_real_studies test_real_texts test_replicate test_report test_reruns test_schedules test_site test_stages test_sweep
test_oldest test_wheel
annotate/test_annotate_browser annotate/test_annotate_killed annotate/test_annotate_pipeline
annotate/test_annotate_proxy
hostile/test_hostile_command hostile/test_hostile_local hostile/test_hostile_surroundings
""".split()
PARTS = ("form", "fast", "whole")
LONGEST = """
test_examples test_varied test_schedules test_replicate test_stages test_pipeline test_benchmarks test_canary test_sweep
test_new_study annotate/test_annotate_browser test_own_files test_reruns test_real_texts test_oldest test_site
""".split()  # the longest first
MAY_BE_ABSENT = (  # why a test may be skipped; a skip for any other reason fails
    r"no real corpora at |among the (real )?corpora|no runs of |are not here: set MHBENCH_DATASETS",
    r"the files at hand are not those that reports/replication was made from",
    r"no chromium and chromedriver|npm is not installed|npm pack axe-core failed|node is not installed",
    r"or openssl is not installed|unshare -rm is not allowed|reads /proc|needs SIGKILL",
    r"Biopython wants a DTD from the network|no package index answers",
)
BIN = Path(sys.executable).parent
ENV = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "PYTHONHASHSEED": "0", "DVC_NO_ANALYTICS": "1"}
ENV.pop("PYTHONDONTWRITEBYTECODE", None)  # users have compiled files beside the package's


def run(*command, cwd, ok=True) -> str:
    done = subprocess.run(
        [str(c) for c in command],
        cwd=cwd,
        env={k: v for k, v in ENV.items() if k != "MHBENCH_ROOT"},
        capture_output=True,
        text=True,
    )
    assert (done.returncode == 0) == ok, (
        f"{command} ended with {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    )
    return done.stdout + done.stderr


def mhbench(*words, cwd, ok=True) -> str:
    "A command of mhbench, given in this process: what it says. `run(BIN / 'mhbench', ...)` gives it in another one."
    from mhbench.run.cli import main

    said = io.StringIO()
    with pytest.MonkeyPatch.context() as m, contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        m.chdir(cwd)
        m.delenv("MHBENCH_ROOT", raising=False)
        ended = main([str(w) for w in words])
    assert (ended == 0) == ok, f"{words} ended with {ended}\n{said.getvalue()}"
    return said.getvalue()


def part_of(file: Path) -> str:
    "The part of a file of tests: form, fast or whole."
    name = file.relative_to(ROOT / "tests").with_suffix("").as_posix()
    return "form" if name in FORM else "whole" if name in WHOLE else "fast"


def pytest_ignore_collect(collection_path, config):
    "What has no test of the parts that `-m` names is not even imported."
    wanted = set(config.option.markexpr.split(" or "))
    if wanted <= set(PARTS) and collection_path.name.startswith("test_"):
        part = part_of(collection_path)
        return True if not wanted & ({"fast", "whole"} if part == "fast" else {part}) else None


def unexpected(report) -> None:
    "A test that is left out for a reason that nobody has looked at has failed."
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if report.skipped and not hasattr(report, "wasxfail") and not any(re.search(r, reason) for r in MAY_BE_ABSENT):
        report.outcome = "failed"
        report.longrepr = (
            f"{reason}: install what is missing (`make test-whole` does), or add the reason to MAY_BE_ABSENT"
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    unexpected(report)
    report.waited = sum(WAITED)  # which is not its file's work
    WAITED.clear()
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    report = yield
    unexpected(report)
    return report


def pytest_runtest_logreport(report):
    file = report.nodeid.partition("::")[0]
    SECONDS[file] = SECONDS.get(file, 0) + report.duration - getattr(report, "waited", 0)


def pytest_sessionfinish(session):
    "What each file took is kept for the next run of the same parts, in pytest's cache; but not of some files alone."
    config, cache = session.config, getattr(session.config, "cache", None)
    whole = config.args_source is config.ArgsSource.TESTPATHS and not config.option.keyword
    if cache is not None and not hasattr(config, "workerinput") and whole:
        cache.set(known_as(config), cache.get(known_as(config), {}) | SECONDS)


def known_as(config) -> str:
    "Under which name pytest's cache has what each file took in a run of these parts."
    return f"mhbench/seconds of {config.option.markexpr or 'all'}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Each test is marked with its part. The files that took longest come first, so that two workers end together
    (`--dist loadfile`); in a fresh clone, which does not know yet, the one with all notebooks, and those of LONGEST.
    """
    for item in items:
        alone = item.get_closest_marker("whole") or "datasets" in item.fixturenames
        item.add_marker("whole" if alone else part_of(item.path))
    cache = getattr(config, "cache", None)
    known = {f"tests/{name}.py": len(LONGEST) - k for k, name in enumerate(LONGEST)}
    took = (cache.get(known_as(config), {}) if cache is not None else {}) or known
    items.sort(key=lambda item: -took.get(item.nodeid.partition("::")[0], 0))


def pytest_collection_finish():
    "What was imported and collected stays: nothing looks through it again for garbage (statsmodels does at each call)."
    gc.collect()
    gc.freeze()


def listed(root: Path) -> list[Path]:
    "The files of a working tree that git tracks or would track."
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    out = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    return [root / f for f in out.split("\0") if f and (root / f).is_file()]


def fewer_draws(params: str) -> str:
    "`params.yaml` with 50 replicates of every bootstrap and 199 permutations, where it has more."
    params = re.sub(r"\bn_boot: \d{3,}", "n_boot: 50", params)
    return re.sub(r"\bn_permutations: \d{4,}", "n_permutations: 199", params)


def once(tmp_path_factory, name: str, make) -> Path:
    """A folder that `make(folder)` fills, once for all workers of a run: the first that asks makes it, the others wait.
    It is read alone; a test that changes something in it takes a copy.
    """
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / name
    began = time.monotonic()
    with FileLock(f"{folder}.lock"):
        WAITED.append(time.monotonic() - began)
        if not Path(f"{folder}.made").exists():
            shutil.rmtree(folder, ignore_errors=True)  # of a worker that died over it
            folder.mkdir()
            make(folder)
            Path(f"{folder}.made").touch()
    return folder


def make_clone(above: Path) -> None:
    from mhbench.run.inputs import input_files
    from mhbench.run.params import load_params

    folder = above / "mhbench"
    params = folder / "params.yaml"
    for f in listed(ROOT):
        if f.name != "dvc.lock":
            copy = folder / f.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(f, copy)
    params.write_text(fewer_draws(params.read_text(encoding="utf-8")), encoding="utf-8")
    run("git", "init", "-q", cwd=folder)
    run("git", "add", "-A", cwd=folder)
    run("git", "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "t", cwd=folder)
    run(BIN / "dvc", "pull", "-q", "data.dvc", cwd=folder)
    input_files(load_params(params), folder)  # what the code needs is known in every copy of this folder


@pytest.fixture(scope="session")
def clone(tmp_path_factory) -> Path:
    """A clone of the working tree with the data from its own remote, one for all workers, with fewer draws in its
    `params.yaml`.
    It has no `dvc.lock`, which is about other runs, and which DVC would read and write anew after every stage.
    """
    return once(tmp_path_factory, "clone", make_clone) / "mhbench"


def fresh(folder: Path) -> bool:
    """Whether the results of its run are there, and are those of its code, parameters and data as they are now: what
    DVC has recorded of every stage still holds. The page is none of them, as below.
    """
    from mhbench.tools.manifest import manifest

    return all(part.state == "fresh" for part in manifest(folder) if part.stage != "report")


def make_demo(above: Path, clone: Path) -> None:
    "The whole demo: a copy of its results where `fresh` finds them here, else every stage in order, in this process."
    import yaml

    from mhbench.run.cli import main
    from mhbench.run.execute import run_stage
    from mhbench.run.graph import graph, jobs

    folder = above / "mhbench"
    shutil.copytree(clone, folder, symlinks=True)
    shutil.copy(ROOT / "params.yaml", folder / "params.yaml")
    if fresh(ROOT):
        for name in ("results", "figures"):
            unmade = shutil.ignore_patterns("report", "report.html", "private", "ledger")  # here as below
            shutil.copytree(ROOT / name, folder / name, dirs_exist_ok=True, ignore=unmade)
        return
    run = yaml.safe_load((folder / "run.yaml").read_text(encoding="utf-8"))["run"]
    with pytest.MonkeyPatch.context() as m:
        m.chdir(folder)
        m.setenv("MHBENCH_ROOT", str(folder))
        stages = graph(folder)
        for node in stages.values():
            if node.name in ("report", "ledger"):
                continue
            if not node.parameters:
                assert main([node.name]) == 0
            for _, study, model in jobs(run, {node.name: node}) if node.parameters else ():
                run_stage(node.name, study, model, in_process=True)


@pytest.fixture(scope="session")
def demo(clone, tmp_path_factory) -> Path:
    "A working folder with the results of the whole demo, one for all workers; MHBENCH_DEMO names one that is there."
    if folder := os.environ.get("MHBENCH_DEMO"):
        return Path(folder)
    return once(tmp_path_factory, "demo", lambda above: make_demo(above, clone)) / "mhbench"


@pytest.fixture(scope="session", autouse=True)
def _stages_here():
    "Where a test itself runs a stage, no process starts; where a command does that a test started, one does."
    with stages_here():
        yield


@pytest.fixture(scope="session", autouse=True)
def _every_text_has_a_named_encoding():
    "The package reads and writes no text in the encoding that the system happens to have."
    checked = io.text_encoding

    def named(encoding, stacklevel=2):
        caller = sys._getframe(2).f_globals.get("__name__") or ""
        assert encoding or not caller.startswith("mhbench."), f"{caller} must name the encoding of a text"
        return checked(encoding, stacklevel)

    with pytest.MonkeyPatch.context() as m:
        m.setattr(io, "text_encoding", named)
        yield


@pytest.fixture(scope="session")
def root() -> Path:
    "The repository."
    return ROOT


@pytest.fixture(autouse=True)
def _as_it_was():
    "What a stage that runs here leaves in the process: its store is closed, and no model has looks of its own."
    yield
    if "mhbench.encode.store" in sys.modules:
        store = sys.modules["mhbench.encode.store"]
        store.keep_results(store.StoreSettings(max_gb=0))
    if "mhbench.report.style" in sys.modules:
        sys.modules["mhbench.report.style"].introduce(())


@pytest.fixture
def house(tmp_path, monkeypatch):
    "A small repository to break, which `mhbench` finds as its own; see hostile/house.py."
    from hostile.house import House

    (tmp_path / "house").mkdir()
    monkeypatch.setenv("MHBENCH_ROOT", str(tmp_path / "house"))
    monkeypatch.delenv("MHBENCH_CACHE", raising=False)
    return House(tmp_path / "house")


@pytest.fixture(scope="session")
def datasets() -> Path:
    "The folder of real corpora, kept beside the project and never inside it; skips where it is absent."
    folder = Path(os.environ.get("MHBENCH_DATASETS", ROOT.parent / "shared" / "datasets"))
    if not folder.is_dir():
        pytest.skip(f"no real corpora at {folder}: set MHBENCH_DATASETS to run this test")
    return folder


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    "Folders of tiny models with random weights, by kind."
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    from mhbench.encode import embeddings as encode

    root = tmp_path_factory.mktemp("models")
    tokenizer = transformers.AutoTokenizer.from_pretrained(encode.bundled_encoder())
    torch.manual_seed(0)
    bert = dict(
        vocab_size=30522,
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=80,
        initializer_range=0.3,
    )
    three = {0: "entailment", 1: "neutral", 2: "contradiction"}

    def save(name, model, declared=512):
        tokenizer.model_max_length = declared
        model.save_pretrained(root / name)
        tokenizer.save_pretrained(root / name)
        return str(root / name)

    config = transformers.BertConfig
    other = {0: "contradiction", 1: "entailment", 2: "neutral"}
    gpt2 = transformers.GPT2Config(
        vocab_size=30522,
        n_embd=32,
        n_layer=2,
        n_head=2,
        n_positions=32,
        initializer_range=0.3,
        bos_token_id=101,
        eos_token_id=102,
    )
    tokenizer.bos_token = "[CLS]"
    return {
        "bert": save("bert", transformers.BertModel(config(**bert))),
        "no-length": save("no-length", transformers.BertModel(config(**bert)), declared=int(1e30)),
        "roscoe-tiny": save("roscoe-tiny", transformers.BertModel(config(**bert))),
        "nli": save(
            "nli",
            transformers.BertForSequenceClassification(
                config(**bert, id2label=three, label2id={v: k for k, v in three.items()})
            ),
        ),
        "nli-first": save(
            "nli-first",
            transformers.BertForSequenceClassification(
                config(**bert, id2label=other, label2id={v: k for k, v in other.items()})
            ),
        ),
        "nli-unnamed": save("nli-unnamed", transformers.BertForSequenceClassification(config(**bert, num_labels=3))),
        "cola": save("cola", transformers.BertForSequenceClassification(config(**bert, num_labels=2))),
        "lm": save("lm", transformers.GPT2LMHeadModel(gpt2)),
    }
