"""What runs again after a change, and what does not: a table, compared with what DVC says of the stages' hashes."""

import hashlib
import json
import logging
import re
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path

import pytest
import yaml
from conftest import BIN, ENV

from mhbench.registry import studies
from mhbench.run import execute, process
from mhbench.run.code import imports_of_notebook
from mhbench.run.graph import graph, jobs, notebook_files, part_name, pipeline, recorded_parameters
from mhbench.run.inputs import package_code, record_inputs, record_trained
from mhbench.run.params import WRITTEN, load_params, stage_parameters
from mhbench.run.shape import stage_classes
from mhbench.settings import Role, deciding, marked
from mhbench.steps.parameters import GIVEN
from mhbench.tools.manifest import address

STUDIES = ("mentat", "psychiatrybench", "medqade", "counselingbench", "mhqa")
MODELS = ("gemma", "minilm", "minilm-mhqa", "other")
ASKED = {  # what the demo leaves to encoders, or to nobody: here a language model takes part everywhere
    ("psychiatrybench", "judge", "judges"): ["gemma", "minilm"],
    ("psychiatrybench", "judge_study", "judges"): ["gemma", "minilm"],
    ("psychiatrybench", "approach", "asked"): ["gemma"],
    ("counselingbench", "duels", "judges"): ["gemma"],
    ("medqade", "judge", "judges"): ["gemma", "minilm"],
    ("mhqa", "compose", "asked"): ["gemma"],
    ("mhqa", "keys", "asked"): ["gemma"],
    ("mhqa", "profile", "asked"): ["gemma", "minilm"],
}
FINETUNED = "results/finetune/mhqa/models.json"
FIGURES = {
    "classification",
    "competency",
    "demographics",
    "finetune",
    "panel",
    "preferences",
    "ratings",
    "score",
    "standings",
}


@lru_cache(maxsize=4)
def parsed(text: str) -> dict:
    return yaml.safe_load(text)


def loaded_once(path, fs) -> dict:
    "What DVC reads for every stage anew."
    return parsed(Path(path).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def folder(root, tmp_path_factory):
    "What dvc.yaml reads before anything has run, in a folder of DVC's own, with a second model behind an endpoint."
    from dvc.repo import Repo

    folder = tmp_path_factory.mktemp("reruns") / "mhbench"
    shutil.copytree(root / "mhbench", folder / "mhbench", ignore=shutil.ignore_patterns("__pycache__", "*.gguf"))
    shutil.copytree(root / "nbs" / "stages", folder / "nbs" / "stages")
    for file in ("dvc.yaml", "params.yaml", "run.yaml"):
        shutil.copy(root / file, folder / file)
    for notebook in (root / "nbs" / "studies").glob("*/results.ipynb"):
        (folder / "nbs" / "studies" / notebook.parent.name).mkdir(parents=True)
        shutil.copy(notebook, folder / "nbs" / "studies" / notebook.parent.name)
    for file in ("mhqa/notes.txt", "mentat/answers.csv", "templates/cloze.yaml"):
        (folder / "data" / file).parent.mkdir(parents=True)
        (folder / "data" / file).write_text("item_id,text\nq1,a text\n")
    p = yaml.safe_load((folder / "params.yaml").read_text())
    p["endpoints"]["remote"] = {"kind": "vllm", "base_urls": ["http://127.0.0.1:9/v1"], "concurrency": 4}
    p["models"]["other"] = {"endpoint": "remote", "served": "other"}
    for (study, stage, whom), names in ASKED.items():
        p["studies"][study][stage][whom] = names
    p["studies"]["mentat"]["prepare"]["answers"]["student"] = "data/mentat/answers.csv"
    p["studies"]["medqade"]["judge"]["prompts_dir"] = "data/templates"
    (folder / "params.yaml").write_text(yaml.safe_dump(p, sort_keys=False))
    run = yaml.safe_load((folder / "run.yaml").read_text())
    run["run"] |= {"models": [*MODELS]}
    run["run"] |= {stage: [s for s in STUDIES if stage in p["studies"][s]] for stage in WRITTEN}
    (folder / "run.yaml").write_text(yaml.safe_dump(run, sort_keys=False))
    with pytest.MonkeyPatch.context() as m:
        m.setenv("MHBENCH_ROOT", str(folder))
        m.chdir(folder)
        m.setattr("dvc.dependency.param.load_path", loaded_once)
        m.setattr(logging.getLogger("dvc"), "handlers", [])  # a command of DVC before may have left one that is closed
        Repo.init(".", no_scm=True).close()
        yield folder


def digest(path: Path) -> str:
    "Of a file, or of a folder's files."
    h = hashlib.sha256()
    for f in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if f.is_file():
            h.update(str(f).encode() + f.read_bytes())
    return h.hexdigest()


def decided() -> dict[str, str]:
    "For each stage as DVC resolves dvc.yaml: the hash of the code, the inputs and the parameters that it depends on."
    from dvc.dependency import ParamsDependency
    from dvc.repo import Repo

    record_inputs()
    record_trained()
    out, known = {}, {}
    with Repo(".") as repo:
        for stage in repo.index.stages:
            name = stage.addressing
            facts = []
            for dep in stage.deps:
                if isinstance(dep, ParamsDependency):
                    facts.append([dep.def_path, dep.read_params()])
                elif not dep.def_path.startswith(("results/text", "figures")):
                    path = Path(dep.def_path)
                    known[path] = known.get(path) or digest(path)
                    facts.append([dep.def_path, known[path]])
            out[name] = json.dumps(facts, sort_keys=True, default=str)
    return out


@pytest.fixture(scope="module")
def before(folder):
    return decided()


def expand(stages, expected: set[str]) -> set[str]:
    "Stages as DVC names them: one of a study, or all that have a name."
    out = set()
    for stage in stages:
        name, _, of = stage.partition("@")
        study = of.split("-")[0]
        if {stage, name, f"study {study}"} & expected and f"-{stage}" not in expected:
            out.add(stage)
    return out


def params(change):
    def do(folder):
        p = yaml.safe_load((folder / "params.yaml").read_text())
        change(p)
        (folder / "params.yaml").write_text(yaml.safe_dump(p, sort_keys=False))

    return do


def text(file, old, new):
    def do(folder):
        path = folder / file
        assert re.search(old, path.read_text())
        path.write_text(re.sub(old, new, path.read_text(), count=1))

    return do


def put(*keys, value):
    def change(p):
        for k in keys[:-1]:
            p = p[k]
        p[keys[-1]] = value

    return params(change)


def run(**chosen):
    def do(folder):
        r = yaml.safe_load((folder / "run.yaml").read_text())
        r["run"] |= chosen
        (folder / "run.yaml").write_text(yaml.safe_dump(r, sort_keys=False))

    return do


def trained(name):
    def do(folder):
        (folder / FINETUNED).parent.mkdir(parents=True, exist_ok=True)
        (folder / FINETUNED).write_text(json.dumps({"minilm-mhqa": {"folder": "x", "run": name, "seed": 0}}))

    return do


def every(*models: str) -> set[str]:
    return {f"generate@{s}-{m}" for s in STUDIES for m in models}


def code(file, old=r"\Z", new="\n_ANOTHER = 1\n"):
    return text(f"mhbench/{file}", old, new)


def study(name: str) -> set[str]:
    return {f"study {name}"}


ASKED_BY_OTHERS = {"approach", "judge", "judge_study", "duels", "contamination"}  # of the language model
MAKERS = {"compose", "keys", "profile"}
ASK = {"generate", "finetune", "panel", "standings", *ASKED_BY_OTHERS, *MAKERS}  # their code reaches that which asks
NOTHING: set[str] = set()
WITH_NUMBERS = {"every stage with a notebook"}
TABLE = {  # a change: how, and the stages that it makes stale, of one study or of all
    # how a model is asked, and what is said of it
    "nothing": (lambda folder: None, NOTHING),
    "more requests at once": (put("endpoints", "remote", "concurrency", value=64), NOTHING),
    "a limit a minute": (put("endpoints", "remote", "rpm", value=60), NOTHING),
    "another key's variable": (put("endpoints", "remote", "api_key_env", value="MY_KEY"), NOTHING),
    "threads of the bundled server": (put("endpoints", "local", "threads", value=1), NOTHING),
    "an endpoint for later": (
        put("endpoints", "later", value={"kind": "openai", "base_urls": ["http://x/v1"]}),
        NOTHING,
    ),
    "a model for later": (
        put("models", "later", value={"endpoint": "remote", "served": "x", "lineage": "y"}),
        NOTHING,
    ),
    "where the cluster is": (put("executor", value={"kind": "threads", "workers": 1}), NOTHING),
    "a money budget": (put("generate", "budget", value={"max_cost_usd": 1.0}), NOTHING),
    "where answers are kept": (put("generate", "cache", value="elsewhere.sqlite"), NOTHING),
    "where verdicts are kept": (put("judge", "cache", value="elsewhere.sqlite"), NOTHING),
    "by the batch": (put("generate", "delivery", value="batch"), NOTHING),
    "whose address the literature's service has": (put("collect", "email", value="a@b.org"), NOTHING),
    "a model's price": (put("models", "other", "price", value={"prompt": 1.0, "completion": 2.0}), NOTHING),
    "who serves a model": (put("models", "other", "provider", value="somebody"), {"competency", "standings"}),
    "its licence": (put("models", "other", "licence", value="MIT"), {"competency", "standings"}),
    "whether it is medical": (put("models", "other", "medical", value=True), FIGURES),
    "its family": (
        put("models", "other", "lineage", value="new"),
        {"approach", "judge", "duels", "panel", "competency", "standings"},
    ),
    "one model's entry": (put("models", "other", "served", value="new"), {*every("other"), "trained"}),
    "its endpoint's address": (
        put("endpoints", "remote", "base_urls", value=["http://127.0.0.1:8/v1"]),
        {*every("other"), "trained"},
    ),
    "what its endpoint lists": (put("endpoints", "remote", "top_logprobs", value=5), {*every("other"), "trained"}),
    "the judge's entry": (
        put("models", "gemma", "system", value="Be brief."),
        {*every("gemma"), "trained", *(ASKED_BY_OTHERS | MAKERS), "-judge_study@medqade"},
    ),
    # parameters and inputs
    "a trained model": (
        trained("another run"),
        {*every("minilm-mhqa"), "trained", "compose", "profile", "report", "results@mhqa"},
    ),
    "one study's mode": (
        put("studies", "mhqa", "generate", "modes", "zero_shot", "n_items", value=7),
        {f"generate@mhqa-{m}" for m in MODELS},
    ),
    "one study's labels": (put("studies", "mentat", "preferences", "penalty", value=4.0), {"preferences"}),
    "a bootstrap's length": (put("score", "n_boot", value=500), {"score"}),
    "the items of a run": (run(items=7), {"generate", "prepare", "report"}),  # they go before the limits of modes
    "the room for a letter": (put("generate", "max_tokens_letter", value=2), {"generate"}),
    "a judge's repetitions": (put("judge", "repeats", value=2), {"judge"}),
    "a corpus": (text("data/mhqa/notes.txt", r"\Z", "more"), {"prepare@mhqa"}),
    "a table of answers": (text("data/mentat/answers.csv", r"\Z", "q9,a text\n"), {"prepare@mentat"}),
    "a template of one's own": (text("data/templates/cloze.yaml", r"\Z", "# more\n"), {"judge@medqade"}),
    # code
    "the command line": (code("run/cli.py"), NOTHING),
    "what reads the parameters": (code("run/params.py"), NOTHING),
    "the page for raters": (code("annotate/server.py"), NOTHING),
    "its style": (text("mhbench/annotate/static/style.css", r"\Z", "\n"), NOTHING),
    "a comment in the statistics": (code("stats/resample.py", new="\n# another word\n"), NOTHING),
    "a docstring": (code("stats/resample.py", r'^"""', '"""Another word. '), NOTHING),
    "the page of the report": (code("report/page.py"), {"report"}),
    "how a template is filled": (code("report/template.py"), {"report", "results"}),
    "its glossary": (text("mhbench/report/static/glossary.yaml", r"\Z", "\n# a word\n"), {"report", "results"}),
    "the ledger": (code("ledger/verdicts.py"), {"results"}),
    "how demographics are compared": (code("steps/demographics.py"), {"demographics"}),
    "a prompt's text": (text("mhbench/ask/texts/default/cloze.yaml", r"\Z", "\n# other\n"), ASK),
    "how models are asked": (code("ask/transport.py"), ASK),
    "an interval": (code("stats/resample.py"), WITH_NUMBERS),
    "one study's labels of raters": (code("studies/mentat/labels.py"), study("mentat")),
    "one study's loader": (code("studies/counselingbench/load.py"), study("counselingbench")),
    "one study's prompt": (
        text("mhbench/studies/mhqa/prompts/multiple_choice.yaml", r"\Z", "\n# other\n"),
        study("mhqa"),
    ),
    "what one paper prints": (
        text("mhbench/studies/mhqa/claims.yaml", r"\Z", "\n# a note\n"),
        NOTHING,
    ),
}


def stale_after(folder, before, how) -> set[str]:
    kept = {f: (folder / f).read_text() for f in ("params.yaml", "run.yaml")}
    changed: dict[Path, str] = {}
    was = Path.write_text

    def write(path, content, *options, **named):
        changed.setdefault(path, path.read_text() if path.exists() else "")
        return was(path, content, *options, **named)

    with pytest.MonkeyPatch.context() as m:
        m.setattr(Path, "write_text", write)
        how(folder)
    try:
        load_params(folder / "params.yaml")
        after = decided()
    finally:
        for file, text_before in changed.items():
            file.write_text(text_before)
        (folder / FINETUNED).unlink(missing_ok=True)
    assert set(after) == set(before) and kept == {f: (folder / f).read_text() for f in kept}
    return {s for s in after if after[s] != before.get(s)} - {"inputs"}  # inputs are looked at every time


@pytest.mark.parametrize("change", TABLE)
def test_a_change_makes_those_stages_stale_that_it_touches(folder, before, change):
    how, expected = TABLE[change]
    if expected is WITH_NUMBERS:
        expected = {s.split("@")[0] for s in before} - {"inputs", "trained", "outcome"}
    assert stale_after(folder, before, how) == expand(before, expected)


def test_there_are_forty_changes_and_most_touch_few_stages():
    assert len(TABLE) >= 40 and sum(not expected for _, expected in TABLE.values()) >= 15


def test_what_only_says_how_a_stage_runs_is_marked_and_dvc_compares_no_parameter_of_such_a_stage(root):
    "A setting that DVC compares by itself makes a stage stale whatever its mark says."
    declared, n = pipeline(root), 0
    for name, record in stage_classes().items():
        values = {k: f"value of {k}" for k in record.model_fields}
        ignored = {*marked(record, Role.MACHINE), *marked(record, Role.FACT)}
        assert values.keys() - deciding(record, values).keys() == ignored
        n += len(ignored)
        own = ignored - set(GIVEN)
        assert not (own and any(name in str(p) for p in declared[name].get("params", []))), (name, own)
    assert n > 15


def test_every_file_of_data_counts_for_the_module_that_names_it(root):
    code = package_code(root)
    files = [f.relative_to(code.home).with_suffix("") for f in code.home.rglob("*.py") if f.name != "__init__.py"]
    modules = ["mhbench." + ".".join(f.parts) for f in files if f.parts[0] not in ("studies", "annotate")]
    named = {path for module in modules for path, _ in code._data_of(module)}
    data = [f for package, inside in code._data.values() for f in inside if not package.endswith("annotate")]
    assert len(data) > 30 and not {f.relative_to(root).as_posix() for f in data} - named


def test_a_stage_reaches_few_modules_and_none_of_the_pages_that_it_does_not_show(root):
    code, out = package_code(root), {}
    for notebook in notebook_files(root):
        name = notebook.parent.name if notebook.stem == "results" else notebook.stem
        reached = code.reached(imports_of_notebook(notebook))
        out[name] = {m for m in reached if m.startswith("mhbench.") and not m.endswith("__init__")}
        shown = {"report": ("report.page",), "ledger": ("ledger.verdicts",), "prepare": ("annotate.export",)}
        pages = ("annotate.", "ledger.", "report.page", "run.params", "run.shape", "run.execute", "run.cli")
        allowed = shown.get(name, ())
        if notebook.stem != "results":
            unwanted = {m for m in out[name] for p in pages if m.startswith(f"mhbench.{p}")}
            assert allowed or not unwanted - STANDINGS, (name, sorted(unwanted))
    assert max(map(len, out.values())) <= 110 and len(out["agreement"]) <= 60


STANDINGS = {"mhbench.ledger.claims"}  # printed placements beside ours


def test_a_module_that_no_import_leads_to_ends_the_stage(root):
    notebook = root / "nbs" / "stages" / "score.ipynb"
    execute._check_modules({"mhbench.steps.score", "json"}, notebook, "score", "mhqa", {})
    with pytest.raises(RuntimeError, match="reach every module that it loads .*; got mhbench.annotate.server .score"):
        execute._check_modules({"mhbench.annotate.server"}, notebook, "score", "mhqa", {})


def test_every_stage_reaches_what_the_template_of_stages_has_loaded_for_it(root):
    "The others of what is loaded there run the notebook, or declare its study, and are no part of a stage."
    shared = {name for name in process._SHARED if name.startswith("mhbench.")}
    declaring = "mhbench.steps.parameters"
    assert shared - {"mhbench.run.execute", "mhbench.run.notebook"} == {"mhbench.run.stage", declaring}
    code = package_code(root)
    for study in studies():
        assert code.reached([declaring]).keys() <= code.reached([f"mhbench.studies.{study.name}.study"]).keys()
    given = code.reached(["mhbench.run.stage"])
    for notebook in notebook_files(root):
        reached = code.reached(imports_of_notebook(notebook))
        assert not (unseen := sorted(given.keys() - reached)), (notebook.parent.name, notebook.stem, unseen)


def test_a_stage_that_dvc_runs_takes_the_parameters_that_were_checked_for_this_run(folder, monkeypatch):
    record_inputs()
    assert recorded_parameters(folder) == {}, "nobody says that DVC runs this"
    monkeypatch.setenv("DVC_STAGE", "score@mhqa")
    recorded, p = recorded_parameters(folder), load_params(folder / "params.yaml")
    assert [*recorded] == [part_name(node.name, *rest) for node, *rest in jobs(p["run"], graph(folder))]
    assert recorded["score mhqa"] == stage_parameters(p, "score", "mhqa")
    assert execute._parameters(folder, "params.yaml", "score", "mhqa", None) == recorded["score mhqa"]
    was = (folder / "params.yaml").read_text()
    try:
        put("score", "n_boot", value=77)(folder)
        assert recorded_parameters(folder) == {}, "params.yaml is another"
        assert execute._parameters(folder, "params.yaml", "score", "mhqa", None)["n_boot"] == 77
    finally:
        (folder / "params.yaml").write_text(was)


COMMITTED = ("agreement@mentat", "score@mhqa", "generate@mhqa-other")
SEEN_BY_DVC = {  # a change of TABLE -> which of them `dvc status` calls changed
    "nothing": set(),
    "a comment in the statistics": set(),
    "a model's price": set(),
    "an interval": set(COMMITTED),
    "one study's labels of raters": {"agreement@mentat"},
    "one model's entry": {"generate@mhqa-other"},
    "a bootstrap's length": {"score@mhqa"},
}


@pytest.fixture(scope="module")
def committed(folder):
    "Three stages whose outputs, which are made up here, stand in dvc.lock."
    from dvc.repo import Repo

    record_inputs()
    record_trained()
    with Repo(".") as repo:
        for stage in [s for s in repo.index.stages if s.addressing in COMMITTED]:
            for path in [Path(x.def_path) for x in (*stage.deps, *stage.outs) if not hasattr(x, "params")]:
                if not path.exists() and path.suffix in (".json", ".parquet"):
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text("{}")
                path.mkdir(parents=True, exist_ok=True) if not path.exists() else None
        for name in COMMITTED:
            repo.commit(name, force=True)
    return folder


@pytest.mark.parametrize("change", SEEN_BY_DVC)
def test_dvc_itself_sees_the_same(committed, before, change):
    from dvc.repo import Repo

    seen = {}

    def status(folder):
        TABLE[change][0](folder)
        record_inputs()
        with Repo(".") as repo:
            seen.update(repo.status(targets=list(COMMITTED)))

    stale_after(committed, before, status)
    assert {s for s in seen if s in COMMITTED} == SEEN_BY_DVC[change]


@pytest.mark.whole
def test_dvc_repro_goes_through_every_stage(root):
    "A stage on which nothing depends would be left out in silence."
    command = [BIN / "dvc", "repro", "--dry", "--force"]
    told = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True, env=ENV).stdout
    run = load_params(root / "params.yaml")["run"]
    expected = {address(node.name, *of) if of[0] else node.name for node, *of in jobs(run, graph(root))}
    assert set(re.findall(r"^Running stage '(.+)':", told, re.MULTILINE)) == expected | {"inputs", "trained", "outcome"}
