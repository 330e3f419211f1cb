"""What runs again after a change, and what does not: a table, compared with what DVC says of the stages' hashes."""

import hashlib
import json
import logging
import re
import shutil
from functools import lru_cache
from pathlib import Path

import pytest
import yaml

from mhbench.run.inputs import record_inputs, record_trained
from mhbench.run.params import WRITTEN, load_params

STUDIES = ("mentat", "psychiatrybench", "medqade", "counselingbench", "mhqa")
MODELS = ("gemma", "minilm", "minilm-mhqa", "other")
ASKED = {  # what the demo leaves to encoders, or to nobody: here a language model takes part everywhere
    ("psychiatrybench", "judge", "judges"): ["gemma", "minilm"],
    ("psychiatrybench", "judge_study", "judges"): ["gemma", "minilm"],
    ("medqade", "judge", "judges"): ["gemma", "minilm"],
    ("mhqa", "compose", "asked"): ["gemma"],
    ("mhqa", "keys", "asked"): ["gemma"],
    ("mhqa", "profile", "asked"): ["gemma", "minilm"],
}
HASHED = {"inputs", "trained", "outcome"}  # they look at what changed or failed, and ask and compute nothing
FINETUNED = "results/finetune/mhqa/models.json"
MADE_HERE = {"every stage that computes"}


def made_here(stages) -> set[str]:
    "All stages with a notebook but those that ask."
    return {s.split("@")[0] for s in stages} - ASKING - HASHED


ASKING = {"approach", "generate", "judge", "judge_study", "duels", "contamination"}  # stages that ask somebody
CODE = ("report/style", "report/figures", "run/cli", "annotate/server", "steps/score", "ask/prompts", "stats/resample")
CHANGED = ("params.yaml", "run.yaml", *(f"mhbench/{f}.py" for f in CODE))


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
    (folder / "data").mkdir()
    p = yaml.safe_load((folder / "params.yaml").read_text())
    p["endpoints"]["remote"] = {"kind": "vllm", "base_urls": ["http://127.0.0.1:9/v1"], "concurrency": 4}
    p["models"]["other"] = {"endpoint": "remote", "served": "other"}
    for (study, stage, whom), names in ASKED.items():
        p["studies"][study][stage][whom] = names
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


def of(stages: set[str], names: set[str]) -> set[str]:
    return {s for s in stages if s.split("@")[0] in names}


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


JUDGED = {"judge_study@psychiatrybench", "judge_study@medqade", "approach@psychiatrybench"} | {
    "judge@psychiatrybench",
    "judge@medqade",
    "duels@counselingbench",
    "contamination@counselingbench",
}
TABLE = {  # a change: (how, the stages that ask, and that it makes stale; and the others, of any study)
    "nothing": (lambda folder: None, set(), set()),
    "more requests at once": (put("endpoints", "remote", "concurrency", value=64), set(), set()),
    "a limit a minute": (put("endpoints", "remote", "rpm", value=60), set(), set()),
    "another key's variable": (put("endpoints", "remote", "api_key_env", value="MY_KEY"), set(), set()),
    "threads of the bundled server": (put("endpoints", "local", "threads", value=1), set(), set()),
    "an endpoint for later": (
        put("endpoints", "later", value={"kind": "openai", "base_urls": ["http://x/v1"]}),
        set(),
        set(),
    ),
    "a model for later": (
        put("models", "later", value={"endpoint": "remote", "served": "x", "lineage": "y"}),
        set(),
        set(),
    ),
    "where the cluster is": (put("executor", value={"kind": "threads", "workers": 1}), set(), set()),
    "a money budget": (put("generate", "budget", value={"max_cost_usd": 1.0}), set(), set()),
    "the command line": (text("mhbench/run/cli.py", r"\Z", "\n# another word\n"), set(), set()),
    "the page for raters": (text("mhbench/annotate/server.py", r"\Z", "\n# another word\n"), set(), set()),
    # figures stand in the notebooks of their stages, so these run again; no answer is stale, and verdicts come from
    # the cache
    "a colour": (text("mhbench/report/style.py", r"\Z", "\n# another colour\n"), JUDGED, MADE_HERE),
    "a figure": (text("mhbench/report/figures.py", r"\Z", "\n# another figure\n"), JUDGED, MADE_HERE),
    "a prompt's code": (text("mhbench/ask/prompts.py", r"\Z", "\n# other words\n"), every(*MODELS) | JUDGED, MADE_HERE),
    "an interval's code": (
        text("mhbench/stats/resample.py", r"\Z", "\n# other\n"),
        every(*MODELS) | JUDGED,
        MADE_HERE,
    ),
    "one model's entry": (put("models", "other", "served", value="new"), every("other"), {"trained"}),
    "its endpoint's address": (
        put("endpoints", "remote", "base_urls", value=["http://127.0.0.1:8/v1"]),
        every("other"),
        {"trained"},
    ),
    "what its endpoint lists": (put("endpoints", "remote", "top_logprobs", value=5), every("other"), {"trained"}),
    "the judge's entry": (
        put("models", "gemma", "system", value="Be brief."),
        every("gemma") | JUDGED - {"judge_study@medqade"},
        {"trained", "compose", "keys", "profile"},
    ),
    "a trained model": (trained("another run"), every("minilm-mhqa"), {"trained", "compose", "profile", "report"}),
    "one study's mode": (
        put("studies", "mhqa", "generate", "modes", "zero_shot", "n_items", value=7),
        {f"generate@mhqa-{m}" for m in MODELS},
        set(),
    ),
    "one study's labels": (put("studies", "mentat", "preferences", "penalty", value=4.0), set(), {"preferences"}),
    "a bootstrap's length": (put("score", "n_boot", value=500), set(), {"score"}),
    "the items of a run": (run(items=7), every(*MODELS), {"prepare", "report"}),  # they go before the limits of modes
    "the room for a letter": (put("generate", "max_tokens_letter", value=2), every(*MODELS), set()),
}


@pytest.mark.parametrize("change", TABLE)
def test_a_change_makes_those_stages_stale_that_it_touches(folder, before, change):
    how, asking, others = TABLE[change]
    kept = {f: (folder / f).read_text() for f in CHANGED}
    try:
        how(folder)
        load_params(folder / "params.yaml")
        after = decided()
    finally:
        for file, was in kept.items():
            (folder / file).write_text(was)
        (folder / FINETUNED).unlink(missing_ok=True)
    stale = {s for s in after if after[s] != before.get(s)}
    assert of(stale, ASKING) == asking and set(after) == set(before)
    rest = {s.split("@")[0] for s in stale} - ASKING - {"inputs"}  # inputs are looked at every time
    assert rest == (others if others is not MADE_HERE else made_here(before))
