"""What `mhbench plan` counts before a run is what the run asks."""

import json

import pytest
import yaml
from faults.server import FaultServer, completion

from mhbench.run import plan
from mhbench.run.execute import run_stage
from mhbench.run.graph import graph, root, selective

STUDIES = {"psychiatrybench": {"generate", "judge"}, "counselingbench": {"generate", "duels", "contamination"}}


def obliging(n, body):
    "An answer that fits: a schema's first values, log-probabilities where asked, words that name no option."
    if body.get("echo"):
        prompt = {"text": "", "finish_reason": "length", "logprobs": {"token_logprobs": [None, *[-1.0] * 14]}}
        return lambda _: (200, completion(body, "") | {"choices": [prompt]})
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
        p["endpoints"]["remote"] = {"kind": "openai", "base_urls": [s.url], "prompt_logprobs": "echo"}
        p["models"] |= {
            "remote": {
                "endpoint": "remote",
                "served": "m-1",
                "sampling": {"temperature": 0.0, "max_tokens": 16},
                "max_unread": 1.0,
                "price": {"prompt": 1.0, "completion": 4.0},
            },
        }
        del p["studies"]["psychiatrybench"]["judge_study"]
        p |= yaml.safe_load((clone / "run.yaml").read_text())
        p["run"] |= {"studies": list(STUDIES), "models": ["remote", "minilm"]} | {
            s: [name for name, has in STUDIES.items() if s in has] for s in ("judge", "duels", "contamination")
        }
        p["run"] |= {s: [name for name in STUDIES if s in p["studies"][name]] for s in selective(graph())}
        for name in STUDIES:
            p["studies"][name]["prepare"]["n_items"] = 5
            for mode in p["studies"][name]["generate"]["modes"].values():
                mode.pop("n_items")
                mode.pop("demonstrations", None)  # three items do not hold the three that the study's entry asks for
        p["studies"]["psychiatrybench"]["judge"] |= {"judges": ["remote", "minilm"], "n_items": None}
        p["studies"]["counselingbench"]["duels"] |= {
            "judges": ["remote"],
            "contestants": None,
            "n_items": None,
            "n_errors": None,
        }
        p["studies"]["counselingbench"]["contamination"] |= {"asked": ["remote"], "n_items": None}
        p["studies"]["counselingbench"]["competency"]["pairs"] = {}
        for section in (p["generate"], p["judge"], p["duels"], p["contamination"]):
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
    unprepared = plan.plan_run()
    assert not (root() / "results" / "text").exists(), "what was prepared for the count is not kept"
    for study in STUDIES:
        run_stage("prepare", study)
    before = plan.plan_run()
    assert before.equals(unprepared)
    assert len(server.asked) == 0 and (before["cached"] == 0).all() and (before["to_ask"] > 0).all()
    assert {(r.stage, r.study) for r in before.itertuples()} == {
        (stage, study) for study, stages in STUDIES.items() for stage in stages
    }
    asked = {}
    for study, stages in STUDIES.items():
        for model in p["run"]["models"]:
            run_stage("generate", study, model)
        asked["generate", study] = len(server.asked) - sum(asked.values())
        for stage in sorted(stages - {"generate"}):
            run_stage(stage, study)
            asked[stage, study] = len(server.asked) - sum(asked.values())
    # Nobody named an option, so every answer is in error, as a plan must suppose.
    assert {(r.stage, r.study): r.to_ask for r in before.itertuples()} == asked
    path = root() / "params.yaml"
    path.write_text(yaml.safe_dump(p | {"seed": 1}, sort_keys=False))
    other = plan.plan_run()
    assert (other["cached"] < before["requests"]).any(), "another draw has other questions"
    path.write_text(yaml.safe_dump(p, sort_keys=False))
    after = plan.plan_run()
    assert (
        (after["requests"] == before["requests"]).all()
        and (after["to_ask"] == 0).all()
        and (after["cost_usd"] == 0).all()
    )
    spent = {
        s: json.loads((root() / "results" / "metrics" / stage / f"{study}.json").read_text())
        for stage, study in asked
        for s in [(stage, study)]
        if stage != "generate"
    }
    for r in before.itertuples():
        if r.stage != "generate":
            assert r.cost_usd >= spent[r.stage, r.study]["cost_usd"] > 0
