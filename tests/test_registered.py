"""`mhbench freeze`: what is written before the answers come, and what the report then says of the numbers.

A small repository of one study and three models behind an endpoint on loopback: frozen, run, changed, reported.
"""

import hashlib
import subprocess

import pandas as pd
import pytest
import yaml
from faults.server import FaultServer, completion

from mhbench.run import cli
from mhbench.run.execute import run_stage
from mhbench.run.registered import about_registration, registration

THREE = ("qwen", "llama", "qwen-tuned")


def numbers(n, body):
    "The number of an option, by the model's name and the question: who asks again gets the same."
    k = hashlib.sha256((body["model"] + body["messages"][-1]["content"]).encode()).digest()[0]
    return lambda _: (200, completion(body, "1234"[k % 4]))


@pytest.fixture
def study(house, monkeypatch):
    "One study that three models will be asked about, in a repository of git."
    monkeypatch.chdir(house.top)
    with FaultServer(every=numbers) as server:
        p = house.params
        p["endpoints"]["remote"] = {"kind": "openai", "base_urls": [server.url]}
        served = {m: {"endpoint": "remote", "served": f"{m}-1", "sampling": {"temperature": 0.0}} for m in THREE}
        p["models"] |= {m: entry | {"max_unread": 1.0, "max_truncated": 1.0} for m, entry in served.items()}
        p["run"] |= {"studies": ["mhqa"], "models": [*THREE], "items": 12}
        p["studies"] = {"mhqa": {k: p["studies"]["mhqa"][k] for k in ("prepare", "generate", "score")}}
        p["studies"]["mhqa"]["prepare"]["answers"] = {}
        p["studies"]["mhqa"]["generate"] = {"modes": {"zero_shot": {}}}
        p["score"] |= {"n_boot": 50, "n_permutations": 199}
        house.write()
        git(house, "init", "-q")
        yield house, server


def git(house, *words):
    name = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run(["git", *name, *words], cwd=house.top, check=True, capture_output=True)


def ask():
    run_stage("prepare", "mhqa")
    for model in THREE:
        run_stage("generate", "mhqa", model)
    run_stage("score", "mhqa")


def test_what_was_frozen_is_told_apart_from_what_was_changed_since(study, capsys):
    house, server = study
    assert cli.main(["freeze", "--main", "qwen-llama"]) == 0
    told = capsys.readouterr().out
    assert "mhqa: 12 items of 12 cases; asked of qwen 12, llama 12, qwen-tuned 12" in told
    assert "main comparisons: qwen - llama" in told and not server.asked, "nobody is asked"
    assert not (house.top / "results" / "text").exists()
    known = registration()
    assert known["studies"]["mhqa"]["answers"] == {m: {"items": 12, "there": 0} for m in THREE}
    assert known["settings"]["score.method"] == "holm" and known["settings"]["models.qwen.served"] == "qwen-1"
    lines = (house.top / "registered.yaml").read_text().splitlines()
    assert "  score.method: holm" in lines and len(lines) < 120, "a decision a line"
    corpus = hashlib.sha256()
    for file in sorted(f for f in (house.top / "data" / "mhqa").rglob("*") if f.is_file()):
        corpus.update(file.relative_to(house.top / "data" / "mhqa").as_posix().encode() + b"\0" + file.read_bytes())
    assert known["data"]["mhqa.corpus"] == corpus.hexdigest()
    assert cli.main(["freeze", "--check"]) == 0 and cli.main(["freeze"]) == 1
    assert "nothing must be registered yet" in capsys.readouterr().err
    assert "not committed to git" in about_registration()[0]
    git(house, "add", "registered.yaml")
    git(house, "commit", "-qm", "Registered")
    assert "in commit" in about_registration()[0]

    ask()
    house.params["score"]["method"] = "bh"
    house.params["models"]["qwen-tuned"]["sampling"]["temperature"] = 0.7
    house.write()
    run_stage("score", "mhqa")
    assert cli.main(["freeze", "--check"]) == 1
    got = capsys.readouterr()
    assert got.out.splitlines()[:2] == [
        "models.qwen-tuned.sampling.temperature: 0.0 -> 0.7",
        "score.method: holm -> bh",
    ]
    assert "2 entries differ from registered.yaml" in got.err

    metrics = house.top / "results" / "metrics" / "generate" / "mhqa" / "llama.json"
    asked = metrics.read_text(encoding="utf-8")
    metrics.write_text(asked.replace('"n_items": 12', '"n_items": 9').replace('"ok": 12', '"ok": 10, "error": 2'))
    assert about_registration("mhqa")[2:] == [
        "Fewer items asked than registered: llama 9 of 12 (mhqa).",
        "Requests without an answer: llama 2 of 12 (mhqa).",
    ]
    metrics.write_text(asked)
    assert len(about_registration("mhqa")) == 2, "all of the items were asked, and answered"
    run_stage("report")
    page = (house.top / "results" / "report.html").read_text(encoding="utf-8")
    assert page.count("before any of the models of the run had answered") == 2, "on the first screen, and in the study"
    assert "Changed since: models.qwen-tuned.sampling.temperature: 0.0 -&gt; 0.7; score.method: holm -&gt; bh." in page
    assert "the comparison qwen - llama. Everything else is exploratory." in page
    tables = [pd.read_csv(f) for f in (house.top / "results" / "report").glob("*.csv")]
    pairs = next(t for t in tables if {"first", "second", "registered"} <= set(t))
    marks = {frozenset((r.first, r.second)): r.registered for r in pairs.itertuples()}
    assert marks == {
        frozenset(("qwen", "llama")): "foreseen, with changes",
        frozenset(("qwen", "qwen-tuned")): "exploratory",
        frozenset(("llama", "qwen-tuned")): "exploratory",
    }


def test_answers_that_are_there_are_refused_or_told(study, capsys):
    house, server = study
    run_stage("prepare", "mhqa")
    run_stage("generate", "mhqa", "qwen")
    asked = len(server.asked)
    assert asked == 12 and cli.main(["freeze"]) == 1
    assert "got answers of qwen to 12 of 12 items of mhqa; register before" in capsys.readouterr().err
    assert not (house.top / "registered.yaml").exists()
    assert cli.main(["freeze", "--anyway"]) == 0 and len(server.asked) == asked
    assert "none named" in capsys.readouterr().out
    there = {m: n["there"] for m, n in registration()["studies"]["mhqa"]["answers"].items()}
    assert there == {"qwen": 12, "llama": 0, "qwen-tuned": 0}
    assert "when answers to 12 of 12 items of mhqa by qwen already existed" in about_registration()[0]
    house.params["models"]["qwen"]["system"] = "Be brief."  # other words, and the answers of before are still known
    house.write()
    assert cli.main(["freeze", "--replace"]) == 1
    assert "answers of qwen to 12 of 12 items" in capsys.readouterr().err


def test_an_answer_in_the_cache_counts_without_its_stage_s_results(study, capsys):
    house, _ = study
    run_stage("prepare", "mhqa")
    run_stage("generate", "mhqa", "llama")
    for file in (house.top / "results" / "text" / "generate").rglob("responses.parquet"):
        file.unlink()
    assert cli.main(["freeze"]) == 1
    assert "answers of llama to 12 of 12 items of mhqa" in capsys.readouterr().err


def test_what_cannot_be_meant_is_refused(study, capsys):
    house, _ = study
    assert cli.main(["freeze", "--main", "qwen-nobody"]) == 1
    assert "name two models (of qwen, llama, qwen-tuned) as A-B" in capsys.readouterr().err
    assert cli.main(["freeze", "--check"]) == 1
    assert "must find registered.yaml; got none" in capsys.readouterr().err
    (house.top / "registered.yaml").write_text(yaml.safe_dump({"main": []}))
    assert cli.main(["freeze", "--check"]) == 1
    assert "registered.yaml must hold registered, main" in capsys.readouterr().err
