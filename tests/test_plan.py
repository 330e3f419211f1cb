"""What `mhbench plan` counts before a run is what the run asks."""

import json

import pytest
import yaml
from faults.server import FaultServer, completion

from mhbench.ask.client import Recorder
from mhbench.ask.request import Model
from mhbench.ask.request import endpoint as endpoint_of
from mhbench.corpus.compose import compose_with, making_recipe, read_with
from mhbench.corpus.demo import demo_path
from mhbench.corpus.pubmed import read_pubmed
from mhbench.run.cli import main
from mhbench.run.execute import run_stage
from mhbench.run.graph import graph, root, selective
from mhbench.tools import plan

STUDIES = {
    "psychiatrybench": {"approach", "generate", "judge"},
    "counselingbench": {"generate", "duels", "contamination"},
}


def obliging(n, body):
    "An answer that fits: a schema's first values, log-probabilities where asked, words that name no option."
    fields = body.get("response_format", {}).get("json_schema", {}).get("schema", {}).get("properties", {})
    verdict = json.dumps({k: v["enum"][0] if "enum" in v else 50 for k, v in fields.items()})
    reply = completion(body, verdict if fields else "None of the options fits.")
    if body.get("logprobs"):
        first = {"token": "None", "logprob": -0.1}
        reply["choices"][0]["logprobs"] = {"content": [first | {"top_logprobs": [first]}]}
    return lambda _: (200, reply)


@pytest.fixture
def planned(clone, tmp_path, monkeypatch):
    "Parameters of two studies, three items each, that a server and the encoder answer; and the server."
    with FaultServer(every=obliging) as s:
        p = yaml.safe_load((clone / "params.yaml").read_text())
        p["endpoints"]["remote"] = {"kind": "openai", "base_urls": [s.url]}
        p["models"] |= {
            "remote": {
                "endpoint": "remote",
                "served": "m-1",
                "sampling": {"temperature": 0.0, "max_tokens": 16},
                "price": {"prompt": 1.0, "completion": 4.0},
            },
        }
        del p["studies"]["psychiatrybench"]["judge_study"]
        p |= yaml.safe_load((clone / "run.yaml").read_text())
        p["seed"] = 20250143  # whose draw of five has a case without a question, and open answers to judge
        p["run"] |= {"studies": list(STUDIES), "models": ["remote", "minilm"]} | {
            s: [name for name, has in STUDIES.items() if s in has] for s in ("judge", "duels", "contamination")
        }
        p["run"] |= {s: [name for name in STUDIES if s in p["studies"][name]] for s in selective(graph())}
        for name in STUDIES:
            p["studies"][name]["prepare"]["n_items"] = 5
            for mode in p["studies"][name]["generate"]["modes"].values():
                mode.pop("n_items", None)
                mode.pop("demonstrations", None)  # three items do not hold the three that the study's entry asks for
        p["studies"]["psychiatrybench"]["judge"] |= {"judges": ["remote", "minilm"], "n_items": None}
        p["studies"]["psychiatrybench"]["approach"] |= {"asked": ["remote"], "judges": ["remote"]}
        p["studies"]["counselingbench"]["duels"] |= {
            "judges": ["remote"],
            "contestants": None,
            "n_items": None,
            "n_errors": None,
        }
        p["studies"]["counselingbench"]["contamination"] |= {"asked": ["remote"], "n_items": None}
        p["studies"]["counselingbench"]["competency"]["pairs"] = {}
        for section in (p["approach"], p["generate"], p["judge"], p["duels"], p["contamination"]):
            section["cache"] = str(tmp_path / "cache.sqlite")
        folder = tmp_path / "mhbench"
        folder.mkdir()
        for f in ("dvc.yaml", "nbs", "data"):
            (folder / f).symlink_to(clone / f)
        (folder / "params.yaml").write_text(yaml.safe_dump(p, sort_keys=False))
        monkeypatch.chdir(folder)
        monkeypatch.setenv("MHBENCH_ROOT", str(folder))
        yield p, s


def test_a_plan_counts_what_the_run_then_asks(planned):
    p, server = planned
    unprepared = plan.plan_run().requests
    assert not (root() / "results" / "text").exists(), "what was prepared for the count is not kept"
    for study in STUDIES:
        run_stage("prepare", study)
    before = plan.plan_run().requests
    assert before.equals(unprepared)
    assert len(server.asked) == 0 and (before["cached"] == 0).all() and (before["to_ask"] > 0).all()
    assert {(r.stage, r.study) for r in before.itertuples()} == {
        (stage, study) for study, stages in STUDIES.items() for stage in stages
    }
    asked = {}
    for study, stages in STUDIES.items():
        if "approach" in stages:
            run_stage("approach", study)
            asked["approach", study] = len(server.asked) - sum(asked.values())
        for model in p["run"]["models"]:
            run_stage("generate", study, model)
        asked["generate", study] = len(server.asked) - sum(asked.values())
        for stage in sorted(stages - {"approach", "generate"}):
            run_stage(stage, study)
            asked[stage, study] = len(server.asked) - sum(asked.values())
    # Nobody named an option, so every answer is in error, as a plan must suppose.
    assert {(r.stage, r.study): r.to_ask for r in before.itertuples()} == asked
    path = root() / "params.yaml"
    path.write_text(yaml.safe_dump(p | {"seed": 1}, sort_keys=False))
    other = plan.plan_run().requests
    assert (other["cached"] < before["requests"]).any(), "another draw has other questions"
    path.write_text(yaml.safe_dump(p, sort_keys=False))
    after = plan.plan_run().requests
    assert (
        (after["requests"] == before["requests"]).all()
        and (after["to_ask"] == 0).all()
        and (after["cost_usd"] == 0).all()
    )
    spent = {
        s: json.loads((root() / "results" / "metrics" / study / f"{stage}.json").read_text())
        for stage, study in asked
        for s in [(stage, study)]
        if stage not in ("approach", "generate")
    }
    for r in before.itertuples():
        if r.stage not in ("approach", "generate"):
            assert r.cost_usd >= spent[r.stage, r.study]["cost_usd"] > 0


def composing(n, body):
    "Two questions of three that stand, and a reader who finds them valid."
    fields = body["response_format"]["json_schema"]["schema"]["properties"]
    if "questions" not in fields:
        verdict = {"snippet": "This text is synthetic", "justification": "It says so.", "decision": "Valid"}
        return lambda _: (200, completion(body, json.dumps(verdict)))
    pmid = body["messages"][-1]["content"].rpartition("Id: ")[2].split()[0]
    made = {"id": pmid, "valid": pmid != "910000002", "topic": "Anxiety", "type": "Factoid"}
    made |= {"question": f"Which word is on page {pmid}?", "options": ["one", "two", "three", "four"], "correct": "two"}
    return lambda _: (200, completion(body, json.dumps({"questions": [made]})))


def test_making_a_bank_asks_what_was_counted_or_less(tmp_path):
    texts = demo_path("mhqa").parent / "making"
    how, reading = (making_recipe(texts / f"{name}.yaml") for name in ("compose", "validate"))
    articles = list(read_pubmed((demo_path("mhqa") / "literature" / "pubmed_demo.xml").read_bytes()))[:3]
    file, same = tmp_path / "cache.sqlite", {"max_tokens": 300, "seed": 1}
    with FaultServer(every=composing) as s:
        endpoint = endpoint_of("remote", "openai", base_urls=[s.url])
        model = Model(name="m", endpoint="remote", served="m-1", lineage="m")
        by_id = {a.pmid: a for a in articles}

        def made(cache):
            candidates = compose_with(articles, how, model, endpoint, cache=cache, **same)
            return read_with(candidates, by_id, reading, model, endpoint, cache=cache, max_tokens=same["max_tokens"])

        with Recorder() as before:
            assert all(c.is_kept for c in made(None)), "what is not known yet is read, and stays"
        kept = made(file)
        with Recorder() as after:
            known = made(file)
        counted = [[call.plan.requests for call in recorder.calls] for recorder in (before, after)]
        assert (counted, len(s.asked)) == ([[3, 3], [3, 2]], 5)
        assert known == kept and [c.is_kept for c in kept] == [True, False, True]
        assert sum(call.plan.to_ask for call in after.calls) == 0


@pytest.mark.whole
def test_what_a_plan_prints_has_no_none_and_what_failed_is_kept(planned, capsys):
    p, server = planned
    p["models"]["remote"].pop("price")
    p["models"]["priced"] = p["models"]["remote"] | {"served": "m-2", "price": {"prompt": 1.0, "completion": 4.0}}
    del p["studies"]["counselingbench"]["duels"]
    p["run"] = {s: ["counselingbench"] * (s in p["studies"]["counselingbench"]) for s in selective(graph())}
    p["run"] |= {"studies": ["counselingbench"], "models": ["remote", "priced"]}
    path = root() / "params.yaml"
    path.write_text(yaml.safe_dump(p, sort_keys=False))
    assert main(["plan"]) == 0
    said = capsys.readouterr().out
    assert "None" not in said and "NaN" not in said and "nan" not in said
    rows = {words[2]: words[-1] for words in map(str.split, said.split("\n")) if words[:1] == ["generate"]}
    assert rows["remote"] == "unknown" and float(rows["priced"]) > 0
    assert "and what is unknown" in said and "The price of remote is not known" in said
    assert "counselingbench: 5 items of" in said and not server.asked
    corpus = root() / "gone.csv"
    corpus.write_text("id,question\n1,What?\n")
    p["studies"]["counselingbench"]["prepare"]["path"] = str(corpus)
    path.write_text(yaml.safe_dump(p, sort_keys=False))
    assert main(["plan"]) == 1
    said = capsys.readouterr().err
    kept = root() / ".mhbench" / "plan.failed.ipynb"
    assert "prepare counselingbench ended in cell" in said and ".mhbench/plan.failed.ipynb" in said
    assert kept.exists() and "mhbench-plan-" not in said, "the folder of the count is deleted"
