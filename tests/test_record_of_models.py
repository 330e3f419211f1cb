"""The answers of small language models that come with mhbench: under the identity that params.yaml gives them, complete
for the studies that are named here, and replayed where neither weights nor llama.cpp are."""

import json
import re

import pytest
import yaml
from conftest import ROOT, mhbench

from mhbench.ask.cache import Cache, import_file
from mhbench.ask.client import RECORDED
from mhbench.ask.local import serve
from mhbench.ask.request import Answer
from mhbench.records.schema import Response, read_records
from mhbench.tools import commands
from mhbench.tools.commands import verify
from mhbench.tools.plan import plan_run

PARAMS = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
MODELS = {name: m for name, m in PARAMS["models"].items() if PARAMS["endpoints"][m["endpoint"]].get("record") == "demo"}
COMPLETE = [
    ("mhqa", "qwen-0.5b"),
    ("mhqa", "qwen-1.5b"),
    ("mentat", "qwen-0.5b"),
    ("mentat", "qwen-1.5b"),
]


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    "The rows of each model's file."
    found = {}
    for name, model in MODELS.items():
        with Cache(tmp_path_factory.mktemp("record") / "cache.sqlite") as cache:
            import_file(cache, RECORDED / f"{model['served']}.jsonl.gz")
            found[name] = list(cache.rows())
    return found


def test_every_row_is_an_answer_of_the_model_that_params_names(rows):
    assert set(rows) == {"qwen-0.5b", "qwen-1.5b", "gemma"}
    for name, model in MODELS.items():
        entry = {k: v for k, v in PARAMS["endpoints"][model["endpoint"]].items() if k != "kind"}
        with serve(
            **entry, name="x", served=model["served"], start=False
        ) as endpoint:  # neither file nor runtime is needed
            assert {r.endpoint for r in rows[name]} == {endpoint.identity}
        answers = [Answer.from_json(r.value) for r in rows[name] if r.status != "terms"]
        assert len(answers) > (30 if name == "gemma" else 190) and {a.served["model"] for a in answers} == {
            model["served"]
        }
        assert {r.study for r in rows[name] if r.status != "terms"} <= set(PARAMS["studies"])


def test_the_record_is_small_and_names_no_place(rows):
    assert sum(f.stat().st_size for f in RECORDED.glob("*")) < 300_000
    said = json.dumps([r.value for some in rows.values() for r in some])
    assert not re.search(r"/(home|root|tmp|work|Users)/", said)


@pytest.mark.whole
@pytest.mark.parametrize("study, model", COMPLETE)
def test_a_study_is_replayed_whole_where_nobody_can_be_asked(study, model, tmp_path, monkeypatch):
    "No folder of weights, no cache: the stage has every answer that it wants, and asks for none."
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "none"))
    monkeypatch.delenv("MHBENCH_CACHE", raising=False)
    where = {"results": str(tmp_path / "results")}
    mhbench("run", "prepare", "--study", study, "--overrides", json.dumps(where), cwd=ROOT)
    alone = where | {"replay": "only", "cache": str(tmp_path / "cache.sqlite")}
    asks = ["generate", "--study", study, "--model", model, "--overrides", json.dumps(alone)]
    mhbench("run", *asks, cwd=ROOT)
    left = read_records(tmp_path / "results" / "text" / study / "generate" / model / "responses.parquet", Response)
    assert left and {r.status for r in left} <= {"ok", "truncated"}
    assert not list(tmp_path.glob("none/**/*.gguf"))


@pytest.mark.whole
def test_the_demo_asks_nobody(tmp_path, monkeypatch):
    "Every request of every stage has a recorded answer, whatever is cached here."
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "none"))
    monkeypatch.setenv("MHBENCH_CACHE", str(tmp_path / "cache.sqlite"))
    p = tmp_path / "params.yaml"
    p.write_text((ROOT / "params.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "run.yaml").write_text((ROOT / "run.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    asked = plan_run(p).requests
    assert {"generate", "approach", "judge", "judge_study", "duels", "contamination"} <= set(asked["stage"])
    assert set(asked["model"]) == set(MODELS) and asked["requests"].sum() > 500
    left = asked[asked["to_ask"] > 0]
    assert left.empty, f"`mhbench cache record` asks:\n{left.to_string()}"


@pytest.mark.whole
def test_letters_are_asked_again_and_compared(tmp_path, monkeypatch):
    where = json.dumps({"results": str(tmp_path / "results")})
    mhbench("run", "prepare", "--study", "counselingbench", "--overrides", where, cwd=ROOT)
    for name in ("params.yaml", "run.yaml", "dvc.yaml", "data", "nbs"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.setenv("MHBENCH_ROOT", str(tmp_path))
    n = verify("gemma", "counselingbench", 3)
    assert n["asked"] == 3 and 2 <= n["letters"] and n["log_probabilities"] <= n["letters"]
    answered = commands.answer_everything
    asked = []
    note = lambda *given, **how: asked.append(how["replay"]) or answered(*given, **how)
    monkeypatch.setattr(commands, "answer_everything", note)
    with pytest.raises(ValueError, match="must hold the first 24 letters of counselingbench"):
        verify("gemma", "counselingbench", 24)
    assert asked == ["only"], "no model is asked for what the record lacks"
