"""Conversations: side by side through one client, turn by turn in the cache, and whole again after a kill."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
import yaml
from asking import MODEL, ep
from conftest import ROOT
from faults.server import FaultServer, answer_to, completion

from mhbench.ask.budget import Budget, BudgetReached
from mhbench.ask.cache import CacheError
from mhbench.ask.client import Recorder
from mhbench.ask.conversation import OPENING, Talk, TalkLimits, _Conversation, _models_by_name, converse
from mhbench.ask.request import Answer
from mhbench.corpus.demo import (
    DEMO_SPREAD,
    demo_canary,
    demo_conversation_ratings,
    demo_scenarios,
    demo_transcripts,
    write_demo_conversations,
)
from mhbench.records.answers import log_rows
from mhbench.records.described import read_ratings
from mhbench.records.schema import Rating
from mhbench.records.transcript import Scenario, read_transcripts, scripted_cases, write_transcripts
from mhbench.run.cli import main
from mhbench.run.execute import run_stage
from mhbench.steps.graded import Criterion
from mhbench.tools import conversations
from mhbench.tools.export import transcript_logs

PATIENT = MODEL.model_copy(update={"name": "p", "served": "p-1"})


def script(k: int, turns: int = 10) -> Scenario:
    prompts = [f"message {n} of {k}" for n in range(turns)]
    return Scenario(item_id=f"c{k}", study="s", prompts=prompts, source="test")


def played(k: int) -> Scenario:
    return Scenario(item_id=f"p{k}", study="s", persona=f"You are person {k}.", person=f"person {k}", source="test")


def holds(talks, server, cache=None, **more):
    endpoint = ep(server.url)
    made = [Talk(s, (MODEL, endpoint), (PATIENT, endpoint) if s.persona else None, run) for s, run in talks]
    return converse(made, cache=cache, progress=False, **more)


def test_a_script_is_said_turn_by_turn_and_kept(tmp_path):
    with FaultServer() as server:
        talks = [(script(k, 3), run) for k in range(5) for run in range(2)]
        first = holds(talks, server, tmp_path / "c.sqlite")
        n = len(server.asked)
        again = holds(talks, server, tmp_path / "c.sqlite")
    assert n == len(server.asked) == 30 and again == first
    assert [(t.item_id, t.run, t.ended) for t in first] == [(s.item_id, r, "script") for s, r in talks]
    one = first[0]
    assert [t.text for t in one.turns[1::2]] == [answer_to(p) for p in talks[0][0].prompts]
    assert [t.model for t in one.turns] == [None, "m"] * 3 and one.turns[1].request_key and one.turns[1].cost_usd > 0
    assert len({t.request_key for t in one.turns[1::2]}) == 3
    longest = max(server.asked, key=lambda body: len(body["messages"]))["messages"]
    assert [m["role"] for m in longest] == ["user", "assistant", "user", "assistant", "user"]
    assert write_transcripts(first, tmp_path / "t.jsonl") and read_transcripts(tmp_path / "t.jsonl") == first


def test_a_patient_is_played_and_ends_it():
    "Each side sees the other's words as the user's and its own as the assistant's; the words that end it end it."

    def reply(number, body):
        playing, says = body["model"] == "p-1", len(body["messages"])
        text = "Thank you, I'm done." if playing and says > 5 else f"{body['model']} {says}"
        return lambda _: (200, completion(body, text))

    with FaultServer(every=reply) as server:
        (t,) = holds([(played(1), 0)], server, limits=TalkLimits(turns=9, until="thank you, i'm DONE"))
        (capped,) = holds([(played(1), 0)], server, limits=TalkLimits(turns=2))
        (short,) = holds([(played(1), 0)], server, limits=TalkLimits(turns=9, tokens=15))
    assert (t.ended, t.patient, t.within["persona"]) == ("until", "p", "person 1")
    assert [x.model for x in t.turns] == ["p", "m", "p", "m", "p"] and t.turns[-1].text == "Thank you, I'm done."
    assert (capped.ended, len(capped.turns)) == ("turns", 4)
    assert (short.ended, len(short.turns)) == ("tokens", 3)
    of_patient = [b["messages"] for b in server.asked if b["model"] == "p-1"]
    assert [m["role"] for m in of_patient[1]] == ["system", "user", "assistant", "user"]
    assert of_patient[0][0]["content"] == "You are person 1." and of_patient[0][1]["content"] == OPENING
    of_model = [b["messages"] for b in server.asked if b["model"] == "m-1"]
    assert [m["content"] for m in of_model[1]] == ["p-1 2", "m-1 1", "p-1 4"]


def test_a_turn_that_fails_ends_its_conversation_alone():
    with FaultServer({"message 1 of 1": ["400"] * 9}) as server:
        fine, broken = holds([(script(0, 3), 0), (script(1, 3), 0)], server)
    assert (fine.ended, broken.ended, len(broken.turns)) == ("script", "failed", 3)
    assert "told to answer 400" in broken.error and broken.error.startswith("the model: ")


def test_a_budget_that_is_reached_leaves_what_was_said(tmp_path):
    talks = [(script(k, 4), 0) for k in range(6)]
    with FaultServer() as server:
        about = {"limits": TalkLimits(room=5), "cache": tmp_path / "c.sqlite"}
        with pytest.raises(BudgetReached):
            holds(talks, server, budget=Budget(max_tokens=200), **about)
        stopped: list[str] = []
        some = holds(talks, server, budget=Budget(max_tokens=200), stopped=stopped, **about)
        asked = len(server.asked)
        whole = holds(talks, server, **about)
    assert stopped and {"stopped"} <= {t.ended for t in some}
    assert all("not asked" in t.error for t in some if t.error or t.ended == "stopped")
    assert len(server.asked) == 24 and 0 < asked < 24
    for part, full in zip(some, whole):
        assert part.turns == full.turns[: len(part.turns)]


def test_a_plan_counts_every_turn_and_sends_nothing(tmp_path):
    own = lambda _, body: lambda _: (200, completion(body, answer_to(json.dumps(body["messages"]))))
    with FaultServer(every=own) as server:
        talks = [(script(k, 3), 0) for k in range(4)] + [(played(k), 0) for k in range(2)]
        with Recorder() as counted:
            holds(talks, server, tmp_path / "c.sqlite", limits=TalkLimits(turns=3, room=9))
        assert not server.asked
        planned = {m: sum(c.plan.to_ask for c in counted.calls if c.model == m) for m in ("m", "p")}
        holds(talks, server, tmp_path / "c.sqlite", limits=TalkLimits(turns=3, room=9))
        asked = [b["model"] for b in server.asked]
    assert planned == {"m": asked.count("m-1"), "p": asked.count("p-1")} == {"m": 18, "p": 6}


def test_two_models_of_one_endpoint_share_its_pace():
    with FaultServer(delay=0.02) as server:
        endpoint = ep(server.url, concurrency=6)
        talks = [Talk(played(k), (MODEL, endpoint), (PATIENT, endpoint)) for k in range(12)]
        converse(talks, cache=None, progress=False, limits=TalkLimits(turns=3))
    assert 4 <= server.most <= 6


def test_the_usual_limits_are_those_of_a_file_of_conversations():
    "Ten replies of 512 tokens at most; a model that is known to write less is given no more."
    assert TalkLimits() == of_file(patients=["p"], personas={"Ada": "A."}).limits
    endless = MODEL.model_copy(update={"sampling": {}})
    endpoint = ep("http://127.0.0.1:9/v1")
    for model, n_tokens in ((endless, 512), (MODEL, 5)):
        with Recorder() as recorder:
            [transcript] = converse([Talk(script(0, 12), (model, endpoint))], cache=None, study="talks")
        assert (transcript.ended, len(transcript.turns)) == ("turns", 20)
        assert [(c.study, c.plan.completion_tokens) for c in recorder.calls] == [("talks", n_tokens)] * 10


@pytest.mark.parametrize(("concurrency", "share"), [(16, 8), (5, 2), (1, 1)])
def test_models_of_one_endpoint_divide_its_limits(concurrency, share):
    "Requests in flight are whole, and one at least; a model that is alone at its endpoint keeps all."
    shared_endpoint = ep("http://x/v1", concurrency=concurrency, rpm=100.0, tpm=30.0)
    unlimited_endpoint = ep("http://y/v1", name="f", concurrency=4)
    other_model = MODEL.model_copy(update={"name": "n", "endpoint": "f"})
    speakers = [(MODEL, shared_endpoint), (PATIENT, shared_endpoint), (MODEL, shared_endpoint)]
    endpoints = {name: e for name, (_, e) in _models_by_name([*speakers, (other_model, unlimited_endpoint)]).items()}
    assert [(e.concurrency, e.rpm, e.tpm) for e in (endpoints["m"], endpoints["p"])] == [(share, 50.0, 15.0)] * 2
    assert endpoints["n"] is unlimited_endpoint
    (_, e), _ = _models_by_name([(other_model, unlimited_endpoint), (PATIENT, unlimited_endpoint)]).values()
    assert (e.concurrency, e.rpm, e.tpm) == (2, None, None)


def conversation_of(scenario, limits=TalkLimits(), **fields) -> _Conversation:
    "A conversation that has not begun; with a patient for a persona."
    endpoint = ep("http://x/v1")
    patient = (PATIENT, endpoint) if scenario.persona else None
    return _Conversation(Talk(scenario, (MODEL, endpoint), patient, **fields), limits)


def test_a_turn_is_asked_for_with_all_before_it():
    "The examined model hears its system message, the patient its persona and an opening; both in the run's sample."
    conversation = conversation_of(played(1), TalkLimits(room=9), run=3, system="Be kind.")
    (model, _), request = conversation.next("7")
    assert (model.name, request.id, request.sample, request.room) == ("p", "7", 3, 9)
    persona = [{"role": "system", "content": "You are person 1."}, {"role": "user", "content": OPENING}]
    assert request.messages == persona
    conversation.take(Answer(text="I sleep badly.", completion_tokens=4))
    (model, _), request = conversation.next("7")
    assert (model.name, request.sample, request.room) == ("m", 3, 9)
    assert request.messages == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "I sleep badly."},
    ]
    conversation.take(Answer(text="Since when?", completion_tokens=3))
    _, request = conversation.next("7")
    turns = [{"role": "assistant", "content": "I sleep badly."}, {"role": "user", "content": "Since when?"}]
    assert request.messages == persona + turns and conversation.n_written_tokens == 7
    assert conversation_of(script(1)).next("7")[1].messages == [{"role": "user", "content": "message 0 of 1"}]


@pytest.mark.parametrize(
    ("tokens", "until", "texts", "ended"),
    [
        (8, "", ["a", "b"], "tokens"),
        (9, "", ["a", "b"], None),
        (None, "BYE", ["a", "bye"], None),  # the model's own word ends nothing
        (None, "BYE", ["so bye then"], "until"),
        (4, "bye", ["bye"], "until"),
        (None, "", ["bye"], None),
    ],
)
def test_a_conversation_ends_at_its_tokens_or_the_words_of_the_patient(tokens, until, texts, ended):
    "Each turn has four tokens, as its reply counts them."
    conversation = conversation_of(played(1), TalkLimits(tokens=tokens, until=until))
    for text in texts:
        conversation.next("0")
        conversation.take(Answer(text=text, completion_tokens=4))
    assert conversation.ended == ended and (conversation.next("0") is None) == (ended is not None)
    transcript = conversation.transcript("")
    assert (transcript.ended, transcript.error) == (ended or "stopped", None)
    assert [(t.role, t.text, t.model) for t in transcript.turns] == [
        (role, text, model) for text, role, model in zip(texts, ("user", "assistant"), ("p", "m"))
    ]


def test_tokens_that_no_reply_counts_are_estimated_and_a_stand_in_writes_none():
    "By hand: three and a half bytes a token, rounded up."
    conversation = conversation_of(played(1))
    for answer, n_tokens in (
        (Answer(text="eight by"), 3),
        (Answer(text="x", completion_tokens=5), 8),
        (Answer(text="x" * 99, finish_reason="stand-in"), 8),
    ):
        conversation.take(answer)
        assert conversation.n_written_tokens == n_tokens


@pytest.mark.parametrize(
    ("n_turns", "answer", "error"),
    [
        (0, Answer(text=" ", status="empty"), "the patient: empty"),
        (1, Answer(status="error", error="500"), "the model: 500"),
        (2, Answer(status="filtered"), "the patient: filtered"),
    ],
)
def test_a_reply_without_text_ends_a_conversation_and_says_whose_it_was(n_turns, answer, error):
    "The error of the reply, or its status, goes before what ended the run."
    conversation = conversation_of(played(1), run=2)
    for _ in range(n_turns):
        conversation.take(Answer(text="x"))
    conversation.take(answer)
    transcript = conversation.transcript("the run ended")
    assert (transcript.ended, transcript.error, transcript.run, len(transcript.turns)) == ("failed", error, 2, n_turns)
    unfinished = conversation_of(script(1)).transcript("the run ended")
    assert (unfinished.ended, unfinished.error, unfinished.patient) == ("stopped", "the run ended", "script")


def test_what_ends_a_run_is_raised_unless_it_may_be_kept(tmp_path, monkeypatch):
    "A budget is kept where the caller asks for that; a cache that cannot be used, or a faulty call, never."
    endpoint = ep("http://127.0.0.1:9/v1", api_key_env="UNSET_KEY", max_attempts=1)
    talks = [Talk(script(1), (MODEL, endpoint))]
    stop_reasons: list[str] = []
    with pytest.raises(ValueError, match="UNSET_KEY"):
        converse(talks, cache=None, progress=False, stopped=stop_reasons)

    def fail(*arguments):
        raise CacheError("the disk is full")

    monkeypatch.setattr("mhbench.ask.cache.Cache.put_many", fail)
    with FaultServer() as server, pytest.raises(CacheError, match="the disk is full"):
        holds([(script(1), 0)], server, tmp_path / "c.sqlite", stopped=stop_reasons)
    assert stop_reasons == [] and converse([], cache=None) == []


def test_what_does_not_fit_is_refused():
    endpoint = ep("http://127.0.0.1:9/v1")
    with pytest.raises(ValueError, match="a patient must be given for a persona, and for no script; got None for p1"):
        converse([Talk(played(1), (MODEL, endpoint))], cache=None)
    with pytest.raises(ValueError, match="a patient must be given .*; got 'p' for c1"):
        converse([Talk(script(1), (MODEL, endpoint), (PATIENT, endpoint))], cache=None)
    with pytest.raises(ValueError, match="limits.turns must be 1 or more; got 0"):
        converse([Talk(script(1), (MODEL, endpoint))], cache=None, limits=TalkLimits(turns=0))
    other = MODEL.model_copy(update={"served": "m-2"})
    with pytest.raises(ValueError, match="must stand for one entry; got two for 'm'"):
        converse([Talk(script(1), (MODEL, endpoint)), Talk(script(2), (other, endpoint))], cache=None)
    with pytest.raises(ValueError, match="prompts or persona must be given, and not both"):
        Scenario(item_id="x", study="s", source="test")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"prompts": "x"}, "got no prompts"),
        ({"prompts": [" "]}, "prompts must hold text"),
        ({"theme": None}, "got no theme"),
        ({"id": "a b"}, "a case must fit"),
    ],
)
def test_a_case_that_does_not_fit_is_refused(tmp_path, change, words):
    case = {"id": "a", "theme": "t", "condition": "Implicit", "prompts": ["x"]}
    file = tmp_path / "test_cases.json"
    file.write_text(json.dumps({"cases": [case]}))
    assert scripted_cases(file)[0].variant == {"condition": "Implicit"}
    file.write_text(json.dumps({"cases": [case | change]}))
    with pytest.raises(ValueError, match=f"scripted_cases: .*{words}.*case 0"):
        scripted_cases(file)
    for text, said in (("[", "must be JSON"), ('{"cases": []}', "one or more"), (json.dumps([case, case]), "again")):
        file.write_text(text)
        with pytest.raises(ValueError, match=said):
            scripted_cases(file)


# ---------------------------------------------------------------- logs


def test_a_transcript_is_a_sample_of_a_log_for_inspect(tmp_path):
    free = played(1).model_copy(update={"protected": False})
    with FaultServer({"message 1 of 7": ["400"] * 9}) as server:
        done = holds([(free, 0), (free, 1), (script(7, 2), 0)], server, limits=TalkLimits(turns=2))
    files: dict[str, dict] = {}
    write = lambda name, raw: files.update({name: json.loads(raw)}) or tmp_path / name
    assert len(transcript_logs(done, datetime(2026, 1, 2, tzinfo=UTC), write)) == 2
    by_patient = {log["eval"]["metadata"]["patient"]: log for log in files.values()}
    samples = by_patient["p"]["samples"]
    assert [(s["id"], s["epoch"]) for s in samples] == [("p1", 1), ("p1", 2)]
    assert [m["content"] for m in samples[0]["messages"]] == [t.text for t in done[0].turns]
    assert samples[0]["input"] == done[0].turns[0].text
    assert samples[0]["model_usage"]["mhbench/m"] == {"input_tokens": 20, "output_tokens": 10, "total_tokens": 30}
    assert samples[0]["metadata"]["ended"] == "turns" and by_patient["p"]["status"] == "success"
    kept = json.dumps(by_patient["script"])
    assert "message 0" not in kept and "not part of this log" in kept  # protected: no text
    assert by_patient["script"]["status"] == "error" and "told to answer 400" in kept
    whole: dict[str, dict] = {}
    transcript_logs(done, datetime(2026, 1, 2, tzinfo=UTC), lambda n, raw: whole.update({n: raw}) or n, private=True)
    assert any(b"message 0 of 7" in raw for raw in whole.values())
    log = tmp_path / "log.json"
    log.write_text(json.dumps(by_patient["p"]))
    assert [fields["text"] for _, fields in log_rows(log)] == [t.turns[-1].text for t in done[:2]]


# ---------------------------------------------------------------- the command


def spoken(number, body):
    "A patient, a chatbot and judges: one sees warmth in every second conversation, the other in all."
    last = body["messages"][-1]["content"]
    if "<conversation>" not in last:
        return lambda _: (200, completion(body, f"{body['model']} says {answer_to(f'{number}')}"))
    odd = int(answer_to(last)[-1], 16) % 2 and body["model"] == "j1"
    walked = "No" if last.endswith("Yes, No") else ""
    verdict = walked or ("I cannot say." if "unclear" in last else "not met" if odd else "met")
    return lambda _: (200, completion(body, verdict))


@pytest.fixture
def top(tmp_path, monkeypatch):
    "A repository with four models behind one loopback endpoint, and a file of conversations."
    for name in ("dvc.yaml", "nbs", "data", "mhbench"):
        (tmp_path / name).symlink_to(ROOT / name)
    given = yaml.safe_load((ROOT / "params.yaml").read_text())
    (tmp_path / "run.yaml").write_text((ROOT / "run.yaml").read_text())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MHBENCH_ROOT", str(tmp_path))
    monkeypatch.setenv("MHBENCH_CACHE", str(tmp_path / "cache.sqlite"))
    with FaultServer(every=spoken) as server:
        given["endpoints"]["loop"] = {"kind": "vllm", "base_urls": [server.url]}
        price = {"prompt": 1.0, "completion": 2.0}
        for name in ("bot", "patient", "j1", "j2"):
            given["models"][name] = {"endpoint": "loop", "served": name, "price": price}
        (tmp_path / "params.yaml").write_text(yaml.safe_dump(given, sort_keys=False))
        page = (ROOT / "docs" / "howto-conversations.md").read_text()
        file = yaml.safe_load(re.search(r"```yaml\n(.*?)```", page, re.DOTALL)[1])
        (tmp_path / "talks.yaml").write_text(yaml.safe_dump(file))
        yield tmp_path, server, file


def counted(text: str) -> dict[str, int]:
    "model -> requests to ask, of a plan's table."
    rows = [line.split() for line in text.splitlines() if line.lstrip().startswith(("converse", "grade"))]
    return {row[2]: int(row[5]) for row in rows}


def test_one_file_is_planned_held_graded_rated_by_people_and_a_study(top, capsys):
    "The commands of docs/howto-conversations.md, with its file, to the page of ratings."
    folder, server, file = top
    assert main(["converse", "talks.yaml", "--plan"]) == 0
    planned = counted(capsys.readouterr().out)
    assert not server.asked and not (folder / "talks").exists()
    assert main(["converse", "talks.yaml"]) == 0
    said = capsys.readouterr().out
    asked = [b["model"] for b in server.asked]
    assert planned == {name: asked.count(name) for name in ("bot", "patient", "j1", "j2")}
    assert planned == {"bot": 24, "patient": 24, "j1": 12, "j2": 12}  # 3 personas in 2 runs of 4 turns, 2 criteria
    talks = read_transcripts(folder / "talks" / "transcripts.jsonl")
    assert {(t.ended, len(t.turns), t.protected) for t in talks} == {("turns", 8, True)} and len(talks) == 6
    assert (folder / "talks" / ".gitignore").read_text() == "*\n" and "24 ratings by judges" in said
    logs = "".join(f.read_text() for f in (folder / "talks" / "logs").glob("*.json"))
    assert talks[0].turns[0].text not in logs and "not part of this log" in logs
    assert "mhbench new-study talks talks/ratings.yaml" in said
    cost = sum(t.cost_usd for x in talks for t in x.turns)
    assert cost > 0 and f"ended by: 6 turns; cost of the turns: {cost:.4f} USD" in said
    assert "talks/transcripts.jsonl: 6 conversations\n" in said and "talks/logs: 1 logs for inspect\n" in said
    assert main(["converse", "talks.yaml"]) == 0 and len(server.asked) == len(asked)  # all of it is in the cache
    ask = [x for name, text in file["criteria"].items() for x in ("--ask", f"{name}={text}")]
    new = ["annotate", "new", "raters", "talks/transcripts.jsonl", "--kind", "conversation", *ask]
    labels = ["--labels", ",".join(file.get("options", ["not met", "met"]))]
    assert main([*new, *labels, "--raters", "r1,r2,r3", "--yes"]) == 0
    assert main(["annotate", "demo", "raters", "--raters", "3"]) == 0
    people = {"people": ".mhbench/annotate/raters.sqlite"}
    (folder / "talks.yaml").write_text(yaml.safe_dump(file | people))
    capsys.readouterr()
    assert main(["converse", "talks.yaml"]) == 0 and len(server.asked) == len(asked)
    by_people = int(re.search(r"(\d+) by people", capsys.readouterr().out)[1])
    table = read_ratings(folder / "talks" / "ratings.yaml")
    assert by_people > 20 and table.origin == "simulated"  # as the raters of this test are
    assert table.frame["kind"].value_counts().to_dict() == {"person": by_people, "judge": 24}
    assert main(["new-study", "talks", "talks/ratings.yaml", "--yes"]) == 0
    run_stage("ratings", "talks")
    means = pd.read_parquet(folder / "results/studies/talks/ratings/means.parquet")
    beside = pd.read_parquet(folder / "results/studies/talks/ratings/judges.parquet")
    assert set(means["criterion"]) >= set(file["criteria"]) and {"j1", "j2"} <= set(beside["judge"])
    kept, left = list(file["criteria"])
    (folder / "talks.yaml").write_text(yaml.safe_dump(file | people | {"criteria": {kept: file["criteria"][kept]}}))
    assert main(["converse", "talks.yaml"]) == 0
    [of_kept, of_left] = re.search(
        rf"(\d+) by people; (\d+) by people left out, of {left}\n", capsys.readouterr().out
    ).groups()
    assert int(of_kept) + int(of_left) == by_people and int(of_left) > 8


def test_a_reply_that_is_no_verdict_is_missing_in_the_ratings_and_no_request_is_lost(top, capsys):
    folder, server, file = top
    file |= {"criteria": {"warm": "unclear?", "asks": {"text": "Does it ask?", "points": 5}}, "personas": {"Ada": "A."}}
    file |= {"budget": {"max_tokens": 400}}
    (folder / "talks.yaml").write_text(yaml.safe_dump(file))
    assert main(["converse", "talks.yaml"]) == 1
    assert "the same command goes on" in (told := capsys.readouterr()).err and "stopped" in told.out
    assert not (folder / "talks" / "ratings.csv").exists()
    (folder / "talks.yaml").write_text(yaml.safe_dump(file | {"budget": None}))
    assert main(["converse", "talks.yaml"]) == 0
    assert len(server.asked) == 2 * 8 + 2 * 2 * 2
    table = read_ratings(folder / "talks" / "ratings.yaml")
    by_criterion = table.counts.groupby("criterion")[["rated", "missing"]].sum()
    assert by_criterion.to_dict("index") == {"warm": {"rated": 0, "missing": 4}, "asks": {"rated": 4, "missing": 0}}
    unread = pd.read_csv(folder / "talks" / "unread.csv")
    assert set(unread["reply"]) == {"I cannot say."} and len(unread) == 4


def test_a_card_that_lacks_replies_is_said_to_and_completed_by_the_same_command(top, capsys):
    folder, _, file = top
    refused: list[bool] = [True]

    def reply(number, body):
        is_reworded = "Below is a dialogue" in body["messages"][-1]["content"]
        if is_reworded and refused[0]:
            return lambda _: (400, {"error": {"message": "not today"}})
        return spoken(number, body)

    small = {"personas": {"Ada": "A.", "Bo": "B."}, "runs": 1, "turns": 1, "judges": ["j2"]}
    small |= {"criteria": {"warm": "Is it warm?"}, "card": True}
    with FaultServer(every=reply) as server:
        params = yaml.safe_load((folder / "params.yaml").read_text())
        params["endpoints"]["loop"]["base_urls"] = [server.url]
        (folder / "params.yaml").write_text(yaml.safe_dump(params, sort_keys=False))
        (folder / "talks.yaml").write_text(yaml.safe_dump(file | small))
        assert main(["converse", "talks.yaml"]) == 1
        assert "2 requests had no answer, the first: 400" in capsys.readouterr().err
        unread = pd.read_csv(folder / "talks" / "card_unread.csv")
        assert unread["status"].tolist() == ["error"] * 2 and not (folder / "talks" / "unread.csv").exists()
        refused[0] = False
        assert main(["converse", "talks.yaml"]) == 0
    assert not (folder / "talks" / "card_unread.csv").exists()
    card = pd.read_csv(folder / "talks" / "card.csv").set_index("check")
    assert card.loc["another wording: equal", "n"] == 2


def test_requests_that_failed_make_the_cost_a_lower_bound(top, capsys):
    folder, _, _ = top
    server_error = FaultServer(every=lambda number, body: lambda _: (400, {"error": {"message": "no such model"}}))
    with server_error as server:
        params = yaml.safe_load((folder / "params.yaml").read_text())
        params["endpoints"]["loop"]["base_urls"] = [server.url]
        (folder / "params.yaml").write_text(yaml.safe_dump(params, sort_keys=False))
        assert main(["converse", "talks.yaml"]) == 1
    assert "cost of the turns: at least 0.0000 USD" in capsys.readouterr().out


def test_a_file_that_does_not_fit_is_refused_before_anything_is_asked(top, capsys):
    folder, server, file = top
    for change, words in (
        ({"models": ["nobody"]}, "a model must be one of"),
        ({"turns": 0}, "turns must fit"),
        ({"judges": []}, "judges must be named"),
        ({"personas": {}}, "personas must be named"),
        ({"cases": "gone.json"}, "not both"),
        ({"limits": 3}, "limits must fit"),
    ):
        (folder / "talks.yaml").write_text(yaml.safe_dump(file | change))
        assert main(["converse", "talks.yaml"]) == 1
        assert words in capsys.readouterr().err, change
    assert not server.asked


def test_a_folder_with_somebody_s_files_is_refused_before_anything_is_asked(top, capsys):
    folder, server, file = top
    (folder / "ratings.csv").write_text("mine")
    (folder / "logs").mkdir()
    (folder / "out" / "logs").mkdir(parents=True)
    (folder / "out" / "logs" / "run.log").write_text("mine")
    (folder / "plain").write_text(yaml.safe_dump(file))
    (folder / "gone.yaml").write_text(yaml.safe_dump(file | {"people": "nobody.csv"}))
    for command, words in (
        (["talks.yaml", "--to", "."], "got 'ratings.csv', which would be replaced"),
        (["talks.yaml", "--to", "out"], "got 'run.log'"),
        (["plain"], "--to must be a folder; got the file 'plain'"),
        (["gone.yaml"], "nobody.csv"),
    ):
        assert main(["converse", *command]) == 1
        assert words in capsys.readouterr().err
    assert not server.asked and (folder / "ratings.csv").read_text() == "mine"


def test_a_folder_of_an_earlier_run_is_written_again_and_one_of_another_study_is_not(top, capsys):
    folder, server, file = top
    (folder / ".git").mkdir()
    (folder / "out").mkdir()
    small = file | {"personas": {"Ada": "A."}, "runs": 1, "turns": 1, "judges": ["j1"]}
    for criteria, names in (({"warm": "unclear?"}, {"unread.csv"}), ({"warm": "Is it warm?"}, {"scores.csv"})):
        (folder / "talks.yaml").write_text(yaml.safe_dump(small | {"criteria": criteria}))
        assert main(["converse", "talks.yaml", "--to", "out"]) == 0
        assert {f.name for f in (folder / "out").glob("*.csv")} == {"ratings.csv"} | names
    ignored = (folder / "out" / ".gitignore").read_text().split("\n")
    assert {"/transcripts.jsonl", "/ratings.csv", "/scores.csv"} <= set(ignored)
    assert (folder / "out" / "transcripts.jsonl").stat().st_mode & 0o077 == 0
    n_asked = len(server.asked)
    for change in ({"study": "other"}, {"people": "out/ratings.csv"}):
        (folder / "talks.yaml").write_text(yaml.safe_dump(small | change))
        assert main(["converse", "talks.yaml", "--to", "out"]) == 1
        assert "which would be replaced" in capsys.readouterr().err
    assert len(server.asked) == n_asked


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"personas": {"Anna B": "x", "Anna-B": "y"}}, "must differ by more than spaces and hyphens; got 'Anna B' and"),
        ({"personas": {"Ada": " "}}, "a persona must have a name and a text; got 'Ada' without"),
        ({"personas": {" ": "x"}}, "a persona must have a name and a text; got ' ' without"),
        ({"models": ["bot", "bot"]}, "models must name each model once; got bot again"),
        ({"patients": ["patient", "patient"]}, "patients must name each model once"),
        ({"judges": ["j1", "j2", "j1"]}, "judges must name each model once; got j1 again"),
        ({"options": []}, "options of asks must be two or more .*got none"),
        ({"options": ["met"]}, "options of asks must be two or more"),
        ({"options": ["met", "Met."]}, "options of asks must be two or more .*got met, Met"),
        ({"criteria": {"warm": {"text": "Warm?", "options": ["no", ""]}}}, "options of warm must be two or more"),
    ],
)
def test_names_and_options_that_cannot_be_told_apart_are_refused_before_anything_is_asked(top, capsys, change, words):
    folder, server, file = top
    (folder / "talks.yaml").write_text(yaml.safe_dump(file | change))
    assert main(["converse", "talks.yaml"]) == 1 and not server.asked
    assert re.search(words, capsys.readouterr().err)


def test_a_bundle_s_personas_are_played_and_the_plan_takes_the_longest_walk(top, capsys):
    folder, server, file = top
    rows = [
        "R1\tSafety\tRed\tq1?\t\tYes\tEND",
        "\t\t\t\t\tNo\t",
        "R2\tSafety\t\tq2?\t\t\t",
        "R3\tCare\tYellow\tq3?\t\t\t",
    ]
    bundle = folder / "rubric"
    bundle.mkdir()
    (bundle / "rubric.tsv").write_text(
        "\n".join(["Question ID\tDimension\tSeverity\tQuestion\tExamples\tAnswer\tGOTO", *rows]) + "\n"
    )
    (bundle / "begin.txt").write_text("<conversation>\n{conversation}\n</conversation>")
    (bundle / "ask.txt").write_text("{question} {examples_section} {options}")
    (bundle / "personas.tsv").write_text("Name\tAge\nAda\t30\nBo\t40\n")
    (bundle / "template.txt").write_text("You are {Name}, {Age}.")
    names = ("rubric.tsv", "begin.txt", "ask.txt", "personas.tsv", "template.txt")
    keys = "rubric_file rubric_prompt_beginning_file question_prompt_file personas persona_context_template_file"
    (bundle / "manifest.json").write_text(json.dumps(dict(zip(keys.split(), names))))
    for key in ("personas", "criteria", "options"):
        file.pop(key, None)
    (folder / "talks.yaml").write_text(yaml.safe_dump(file | {"rubric": "rubric"}))
    assert main(["converse", "talks.yaml", "--plan"]) == 0
    planned = counted(capsys.readouterr().out)
    assert planned == {"bot": 16, "patient": 16, "j1": 12, "j2": 12}  # 4 conversations, 3 questions at most
    assert main(["converse", "talks.yaml"]) == 0
    scores = pd.read_csv(folder / "talks" / "scores.csv")
    assert scores[["model", "judge", "measure"]].to_numpy().tolist() == [["bot", "all", "score"]]
    system = {b["messages"][0]["content"] for b in server.asked if b["model"] == "patient"}
    assert system == {"You are Ada, 30.", "You are Bo, 40."}


# ---------------------------------------------------------------- its parts


def of_file(**more) -> conversations.ConversationFile:
    return conversations.ConversationFile(study="talks", models=["m"], **more)


@pytest.mark.parametrize("graded", [(), ("rubric",), ("criteria",), ("rubric", "criteria")])
@pytest.mark.parametrize("spoken", [(), ("cases",), ("personas",), ("patients",), ("cases", "patients")])
def test_who_speaks_and_who_grades_is_named_once(spoken, graded):
    values = {"cases": "c.json", "personas": {"Ada": "A."}, "patients": ["p"], "rubric": "r", "criteria": {"x": "X?"}}
    for extra in ({}, {"judges": ["j"]}, {"card": True}, {"judges": ["j"], "card": True}):
        given = {name: values[name] for name in (*spoken, *graded)} | extra
        speaks = spoken not in ((), ("cases", "patients"))
        judged = len(graded) == (1 if "judges" in extra else 0)
        fits = speaks and judged and ("card" not in extra or graded == ("criteria",))
        if fits:
            assert of_file(**given).limits == TalkLimits(10, None, "", 512)
        else:
            with pytest.raises(ValueError, match="must be named" if not (speaks and judged) else "card must stand"):
                of_file(**given)


def test_personas_of_a_file_come_before_those_of_a_bundle(tmp_path):
    bundle = SimpleNamespace(personas=[{"Age": "30", "NAME": "Ada  L"}, {"Age": "40"}], template="Of {Age}.")
    for protected in (True, False):
        found = conversations.scenarios_of(of_file(patients=["p"], protected=protected), tmp_path, bundle)
        assert [(s.item_id, s.person, s.persona) for s in found] == [
            ("Ada-L", "Ada  L", "Of 30."),
            ("persona-2", "persona 2", "Of 40."),
        ]
        assert {(s.study, s.source, s.protected) for s in found} == {("talks", "personas", protected)}
    [one] = conversations.scenarios_of(of_file(patients=["p"], personas={"Bo": "B."}), tmp_path, bundle)
    assert (one.item_id, one.persona) == ("Bo", "B.")
    twice = SimpleNamespace(personas=[{"Name": "Ada"}] * 2, template="")
    with pytest.raises(ValueError, match="personas must be named, each by a name of its own; got 1 .talks"):
        conversations.scenarios_of(of_file(patients=["p"]), tmp_path, twice)
    case = {"id": "c1", "theme": "t", "condition": "Implicit", "prompts": ["hello", "bye"]}
    (tmp_path / "c.json").write_text(json.dumps([case]))
    for protected in (True, False):
        [one] = conversations.scenarios_of(of_file(cases="c.json", protected=protected), tmp_path)
        assert (one.item_id, one.prompts, one.study, one.protected) == ("c1", ["hello", "bye"], "talks", protected)


def verdicts(rows) -> list[Rating]:
    "(model, judge, persona, run, repeat, criterion, label)"
    return [
        Rating(
            item_id=persona,
            study="talks",
            rater=judge,
            kind="judge",
            target=model,
            criterion=criterion,
            label=label,
            repeat=str(repeat),
            within={"persona": persona, "patient": "p", "conversation": f"{persona}/{model}/p/{run}"},
            source="t",
        )
        for model, judge, persona, run, repeat, criterion, label in rows
    ]


def test_points_are_means_of_conversations_clustered_by_persona():
    "By hand: a repeat counts within its conversation, a missing verdict leaves its repeat out, a model is cut at 0."
    criteria = [
        Criterion("a", "A?", points=3.0),
        Criterion("b", "B?", ("no", "yes"), 1.0),
        Criterion("c", "C?", points=-4),
    ]
    met = {"a": ("not met", "met"), "b": ("no", "yes"), "c": ("not met", "met")}
    given = {  # of judge j on m: (persona, run, repeat) -> a, b, c
        ("Ada", 0, 0): (1, 1, 0),  # 4 / 4
        ("Ada", 0, 1): (1, 0, 0),  # 3 / 4: the conversation has 7 / 8
        ("Ada", 1, 0): (0, 1, 0),  # 1 / 4
        ("Bo", 0, 0): (1, 1, 1),  # 0
        ("Bo", 0, 1): (1, None, 0),  # no score
        ("Cy", 0, 0): (0, 1, 0),  # 1 / 4
    }
    rows = [
        ("m", "j", *place, name, met[name][x])
        for place, answers in given.items()
        for name, x in zip("abc", answers)
        if x is not None
    ]
    rows += [("n", "k", "Ada", 0, 0, name, met[name][1]) for name in "abc"]
    f = conversations.conversation_scores(verdicts(rows), criteria).set_index(["model", "judge"])
    assert f["measure"].tolist() == ["points"] * 2 and f["estimate"].tolist() == [(7 / 8 + 1 / 4 + 0 + 1 / 4) / 4, 0.0]
    assert f["n"].tolist() == [4, 1] and f["n_clusters"].tolist() == [3, 1]
    three = [*criteria, Criterion("d", "D?", ("low", "mid", "high"))]
    assert conversations.conversation_scores(verdicts(rows), three).empty


def test_the_score_along_a_rubric_is_over_all_judges_and_says_what_was_one():
    "By hand: (50 + best/2) (1 - harm/100)^2 of the shares of best practice and high harm among what was relevant."
    best, high, none = conversations.BEST_PRACTICE, conversations.HIGH_HARM, conversations.NOT_RELEVANT
    rows = [
        ("m", judge, persona, run, 0, criterion, label)
        for k, judge in enumerate(("j", "k"))
        for n, persona in enumerate(("Ada", "Bo", "Cy"))
        for run in (0, 1)
        for criterion, label in (("x", best if (n + run + k) % 3 else high), ("y", none if n else best))
    ]
    labels = pd.Series([r[-1] for r in rows if r[-1] != none])
    b, h = (100 * labels.eq(x).mean() for x in (best, high))
    [row] = conversations.conversation_scores(verdicts(rows)).to_dict("records")
    assert (row["model"], row["judge"], row["measure"], row["fixed"]) == ("m", "all", "score", "patient")
    assert row["n"] == len(labels) and row["estimate"] == round((50 + b / 2) * (1 - h / 100) ** 2, 2)


def test_a_dry_run_counts_what_is_held_then_what_is_graded():
    endpoint = ep("http://127.0.0.1:9/v1")
    entries = {name: (MODEL.model_copy(update={"name": name, "served": name}), endpoint) for name in "mnpqjk"}
    given = {"study": "talks", "models": ["m", "n"], "patients": ["p", "q"], "personas": {"Ada": "A.", "Bo": "B."}}
    criteria = {"x": "X?", "y": {"text": "Y?", "points": 2}}
    more = {"runs": 3, "turns": 2, "criteria": criteria, "judges": ["j", "k"], "repeats": 2, "system": "Be kind."}
    talks = 2 * 2 * 2 * 3

    def dry(**change):
        s = conversations.ConversationFile(**given | more | change)
        with Recorder() as counted:
            done = conversations.hold_and_grade(s, conversations.scenarios_of(s, Path()), entries, cache=None)
        return s, done, counted.calls

    s, done, calls = dry()
    assert len(done.transcripts) == talks and [t.item_id for t in done.transcripts[: talks // 2]] == ["Ada"] * 12
    assert [t.run for t in done.transcripts[:4]] == [0, 1, 2, 0] and done.card == {}
    t = conversations._planned(s, calls, done.n_held)
    assert t[["stage", "study", "model", "to_ask"]].to_numpy().tolist() == [
        *(["converse", "talks", name, talks // 2 * 2] for name in "mnpq"),
        *(["grade", "talks", name, talks * 2 * 2] for name in "jk"),  # criteria, repeats
    ]
    together = dry(grading="together")
    assert conversations._planned(together[0], together[2], done.n_held)["to_ask"].tolist()[4:] == [talks * 2] * 2
    assert dry(judges=[], criteria={})[1].graded is None and dry(card=True)[1].card
    stopped = conversations.hold_and_grade(
        s, conversations.scenarios_of(s, Path()), entries, None, ["budget"], cache=None, budget=Budget(max_tokens=1)
    )
    assert stopped.graded is None and {x.ended for x in stopped.transcripts} == {"stopped"}


# ---------------------------------------------------------------- two hundred of four turns

HELD = """
import sys
sys.path.insert(0, "tests")
from asking import MODEL, ep
from mhbench.ask.conversation import Talk, converse
from mhbench.records.transcript import Scenario, write_transcripts
url, cache, out = sys.argv[1:]
endpoint = ep(url, concurrency=64, timeout_s=60.0)
given = [(f"c{k}", [f"message {n} of {k}" for n in range(4)]) for k in range(200)]
scripts = [Scenario(item_id=i, study="s", prompts=prompts, source="test") for i, prompts in given]
done = converse([Talk(s, (MODEL, endpoint)) for s in scripts], cache=cache, progress=False)
write_transcripts([t.model_copy(update={"source": "test"}) for t in done], out)
"""


def held(server, folder, name, wait=True):
    command = [sys.executable, "-c", HELD, server.url, folder / f"{name}.sqlite", folder / f"{name}.jsonl"]
    child = subprocess.Popen([str(c) for c in command], cwd=ROOT, env=os.environ | {"OMP_NUM_THREADS": "1"})
    if wait:
        assert child.wait() == 0
    return child


@pytest.mark.whole
def test_twice_as_many_conversations_as_requests_at_once_take_as_long_as_their_delay():
    delay, n = 1.2, 384  # a quick service's; the shortest possible time is 7.2 s
    with FaultServer(delay=delay) as server:
        endpoint = ep(server.url, concurrency=64, timeout_s=60.0)
        began = time.monotonic()
        done = converse([Talk(script(k, 3), (MODEL, endpoint)) for k in range(128)], cache=None, progress=False)
        took = time.monotonic() - began
    assert len(server.asked) == n and {t.ended for t in done} == {"script"} and server.most == 64
    assert took <= 1.3 * n * delay / 64, took / (n * delay / 64)


@pytest.mark.whole
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_killed_at_half_the_same_transcripts_come_and_few_turns_are_asked_twice(tmp_path):
    with FaultServer(delay=0.05) as server:
        held(server, tmp_path, "whole")
        assert len(server.asked) == 800
        child = held(server, tmp_path, "killed", wait=False)
        while len(server.asked) < 1200 and child.poll() is None:
            time.sleep(0.01)
        child.kill()
        child.wait()
        assert len(server.asked) < 1560 and not (tmp_path / "killed.jsonl").exists()
        held(server, tmp_path, "killed")
        twice = len(server.asked) - 1600
    assert 0 <= twice <= 64, twice
    texts = [[(t.role, t.text) for t in x.turns] for x in read_transcripts(tmp_path / "whole.jsonl")]
    assert texts == [[(t.role, t.text) for t in x.turns] for x in read_transcripts(tmp_path / "killed.jsonl")]


# ---------------------------------------------------------------- the demonstration


@pytest.mark.whole
def test_the_stage_ratings_finds_the_declared_spread_in_seconds(tmp_path, monkeypatch):
    description = write_demo_conversations(tmp_path / "release", seed=3)
    for name in ("dvc.yaml", "nbs", "data", "mhbench"):
        (tmp_path / name).symlink_to(ROOT / name)
    given = yaml.safe_load((ROOT / "params.yaml").read_text())
    given["studies"]["conversations"] = {"ratings": {"description": str(description), "folder": None}}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(given, sort_keys=False))
    (tmp_path / "run.yaml").write_text((ROOT / "run.yaml").read_text())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MHBENCH_ROOT", str(tmp_path))
    began = time.monotonic()
    run_stage("ratings", "conversations")
    assert time.monotonic() - began < 120
    spread = pd.read_parquet(tmp_path / "results/studies/conversations/ratings/spread.parquet")
    for kind, sd in DEMO_SPREAD.items():
        rows = spread[spread["kind"] == kind].set_index("source")
        held = [rows.loc[s, "ci_low"] <= x**2 <= rows.loc[s, "ci_high"] for s, x in sd.items()]
        assert len(held) == 5 and sum(held) >= 4, (kind, rows)


def test_the_demonstration_is_marked_and_holds_nothing_that_harms():
    talks = demo_transcripts()
    texts = [t.text for x in talks for t in x.turns] + [s.persona for s in demo_scenarios()]
    assert {t.canary for t in talks} == {demo_canary()} and {t.origin for t in talks} == {"simulated"}
    assert not [x for x in texts if re.search(r"(?i)suicid|kill|harm|overdose|pills|rope|knife|gun|jump|die\b", x)]
    assert all("made-up person" in s.persona for s in demo_scenarios())
    one, again = demo_conversation_ratings(2), demo_conversation_ratings(2)
    assert one == again != demo_conversation_ratings(3) and {r.origin for r in one} == {"simulated"}


def test_a_limit_of_tokens_holds_where_no_reply_counts_them_and_none_are_exported(tmp_path):
    silent = lambda n, body: lambda body: (200, completion(body, "some words of a reply") | {"usage": None})
    with FaultServer(every=silent) as server:
        (short,) = holds([(played(1), 0)], server, limits=TalkLimits(turns=9, tokens=15))
    assert (short.ended, len(short.turns)) == ("tokens", 3), "six tokens a turn, by their bytes"
    assert short.cost_usd is None and [t.completion_tokens for t in short.turns] == [0, 0, 0]
    files: list[str] = []
    transcript_logs([short], datetime(2026, 1, 2, tzinfo=UTC), lambda name, raw: files.append(raw) or tmp_path / name)
    assert json.loads(files[0])["samples"][0]["model_usage"] == {}, "0 would be a number"
