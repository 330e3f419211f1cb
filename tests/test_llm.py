"The client: keys, order, replay, budget, failures, pace; against a fault server on loopback."

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from dataclasses import replace

import pytest
from asking import MODEL, ep, plan, q, run
from faults.server import FaultServer, answer_to, completion

from mhbench.ask import learning
from mhbench.ask.budget import Budget, BudgetReached, TooManyFailed
from mhbench.ask.cache import Cache, CacheError, Row, export, import_file
from mhbench.ask.client import LoopThread, Recorder, as_far_as_it_goes, ask, not_asked, schema_example, stand_in
from mhbench.ask.learning import Learner, Refusal, keep_terms
from mhbench.ask.progress import LIVE, Progress
from mhbench.ask.reply import letter_logprobs, read_reply
from mhbench.ask.request import Answer, Request, Secrets, Terms, Tokens, wire
from mhbench.ask.retry import Failed, Limiter, Queue
from mhbench.ask.scheduler import Asking, Ledger, NextSteps, Scheduler, dated
from mhbench.ask.transport import Transport


@pytest.fixture
def cache(tmp_path):
    with Cache(tmp_path / "cache.sqlite") as c:
        yield c


# -- order, replay


def test_answers_come_in_the_order_asked_however_slow_the_first(cache):
    with FaultServer({"question 0": ["500", "500", "500"]}) as s:
        out = run([q(i) for i in range(200)], s, cache=cache)
    assert [a.id for a in out] == [f"id-{i}" for i in range(200)]
    assert [a.text for a in out] == [answer_to(f"question {i}") for i in range(200)]
    assert out[0].attempts == 4


def test_a_replay_gives_every_field_again_and_asks_nothing(cache):
    requests = [q(i) for i in range(30)] + [q(3, sample=1)]
    with FaultServer({"question 5": ["429", "reset"]}) as s:
        first = run(requests, s, cache=cache)
        n = len(s.asked)
        again = run(requests, s, cache=cache)
        assert len(s.asked) == n == 33
    assert [replace(a, cached=False) for a in again] == first and all(a.cached for a in again)
    assert first[5].attempts == 3
    only = list(
        ask(
            requests,
            MODEL,
            ep("http://127.0.0.1:9/v1", api_key_env="UNSET_KEY"),
            cache=cache,
            replay="only",
            progress=False,
        )
    )
    assert only == again


def test_an_exported_run_replays_elsewhere_failures_included(cache, tmp_path):
    with FaultServer({"question 1": ["404"]}) as s:
        first = run([q(i) for i in range(3)], s, cache=cache)
    export(cache, tmp_path / "run.jsonl.gz")
    with Cache(tmp_path / "other.sqlite") as other:
        assert import_file(other, tmp_path / "run.jsonl.gz").added == 3
        replayed = list(
            ask(
                [q(i) for i in range(3)], MODEL, ep("http://127.0.0.1:9/v1"), cache=other, replay="only", progress=False
            )
        )
    assert [replace(a, cached=False) for a in replayed] == first
    assert replayed[1].status == "error" and "told to answer 404" in replayed[1].error


def test_replay_off_neither_reads_nor_writes(cache):
    with FaultServer() as s:
        run([q(0)], s, cache=cache)
        run([q(0), q(1)], s, cache=cache, replay="off")
        assert len(s.asked) == 3
    assert len(cache) == 1


def test_a_failure_is_asked_again_and_a_repeat_within_a_run_is_asked_once(cache):
    with FaultServer({"question 0": ["401"]}) as s:
        assert [a.status for a in run([q(0), q(1), replace(q(1), id="twin")], s, cache=cache)] == [
            "error",
            "ok",
            "ok",
        ]
        assert len(s.asked) == 2
        out = run([q(0), q(1)], s, cache=cache)
        assert [(a.status, a.cached) for a in out] == [("ok", False), ("ok", True)]


def test_samples_never_collapse_and_have_seeds_of_their_own(cache):
    model = MODEL.model_copy(update={"sampling": {"temperature": 1.0, "seed": 100, "max_tokens": 5}})
    with FaultServer() as s:
        out = run([q(0, sample=k) for k in range(25)], s, model=model, cache=cache)
        assert sorted(b["seed"] for b in s.asked) == list(range(100, 125))
    assert len({a.request_key for a in out}) == 25 == len(cache)


def test_works_inside_a_running_loop(cache):
    async def notebook(s):
        return run([q(0)], s, cache=cache)

    with FaultServer() as s:
        assert [a.status for a in asyncio.run(notebook(s))] == ["ok"]


# -- memory, leaving early


def test_requests_are_taken_as_they_are_needed(cache):
    "A caller that stops to think does not make the client read all requests."
    taken = []

    def source():
        for i in range(100_000):
            taken.append(i)
            yield q(i)

    with FaultServer() as s:
        answers = ask(source(), MODEL, ep(s.url), cache=cache, progress=False)
        for _ in range(10):
            next(answers)
        time.sleep(0.5)
        assert len(taken) < 64 * 256 + 4096 + 512
        answers.close()
    assert not [t for t in threading.enumerate() if t.name == "ask m"], "no thread stays behind"


def test_leaving_early_ends_at_once_though_the_endpoint_hangs(cache):
    with FaultServer(every=lambda n, b: "stall" if n else None) as s:
        answers = ask(
            [q(i) for i in range(5)], MODEL, ep(s.url, timeout_s=60.0, concurrency=1), cache=cache, progress=False
        )
        assert next(answers).status == "ok"
        began = time.monotonic()
        answers.close()
        assert time.monotonic() - began < 5
    assert len(cache) == 1


# -- failures


@pytest.mark.parametrize(
    "fault, words",
    [("400", "400: told to answer 400"), ("401", "401: "), ("404", "404: "), ("quota", "exceeded your current quota")],
)
def test_what_is_turned_away_for_good_fails_at_once_with_the_endpoints_words(fault, words):
    with FaultServer({"question 0": [fault]}) as s:
        (a,) = run([q(0)], s)
        assert (a.status, a.attempts, len(s.asked), a.text) == ("error", 1, 1, None)
    assert words in a.error


def test_attempts_run_out_and_the_run_goes_on():
    with FaultServer({"question 1": ["500"] * 9}) as s:
        out = run([q(i) for i in range(3)], s, endpoint=ep(s.url, max_attempts=3))
    assert [a.status for a in out] == ["ok", "error", "ok"]
    assert (out[1].attempts, out[1].error) == (3, "500: told to answer 500")


def test_push_back_does_not_use_up_attempts_but_patience():
    with FaultServer({"question 0": ["429"] * 12, "question 1": ["429-after"] * 500}) as s:
        out = run([q(0)], s, endpoint=ep(s.url, max_attempts=2))
        assert (out[0].status, out[0].attempts) == ("ok", 13)
        out = run([q(1)], s, endpoint=ep(s.url, patience_s=0.5))
    assert out[0].status == "error" and "patience_s is 0.5" in out[0].error and "429" in out[0].error


def test_a_wall_of_429_is_waited_out_with_few_requests(cache):
    "Every request is 429 for two seconds: all are answered, and the wall is probed, not stormed."
    began = time.monotonic()
    with FaultServer(every=lambda n, b: "429" if time.monotonic() - began < 2 else None) as s:
        out = run([q(i) for i in range(100)], s, cache=cache, endpoint=ep(s.url, pause_s=0.1, max_attempts=2))
        assert len(s.answered) == 100
        assert len(s.asked) - 100 < 60, "not a storm: 8 at once and one probe for each pause after that"
    assert all(a.status == "ok" for a in out) and len(cache) == 100


def test_retry_after_is_honoured():
    seen = []
    with FaultServer(
        every=lambda n, b: (
            seen.append(time.monotonic()),
            (lambda body: (429, {}, {"Retry-After": "1"})) if n == 0 else None,
        )[1]
    ) as s:
        run([q(0)], s)
    assert seen[1] - seen[0] >= 1.0


def test_a_replica_that_is_dead_is_left_alone():
    with FaultServer() as s:
        out = run([q(i) for i in range(40)], s, endpoint=ep(["http://127.0.0.1:9/v1", s.url]))
    assert all(a.status == "ok" for a in out) and sum(a.attempts for a in out) < 60


def test_replicas_share_the_work():
    with FaultServer(delay=0.01) as a, FaultServer(delay=0.01) as b, FaultServer(delay=0.01) as c:
        run([q(i) for i in range(90)], a, endpoint=ep([a.url, b.url, c.url], concurrency=9))
        counts = [len(x.asked) for x in (a, b, c)]
    assert sum(counts) == 90 and min(counts) >= 20


def test_an_endpoint_that_was_never_there_fails_soon_and_says_so():
    (a,) = list(ask([q(0)], MODEL, ep("http://127.0.0.1:9/v1", max_attempts=3), cache=None, progress=False))
    assert (a.status, a.attempts) == ("error", 3) and "cannot be reached" in a.error


# -- statuses


def reply(**more):
    return lambda body: (200, completion(body, **more))


@pytest.mark.parametrize(
    "fault, status, text",
    [
        (reply(text="cut in the mid", finish="length"), "truncated", "cut in the mid"),
        (reply(text="", finish="content_filter"), "filtered", ""),
        (reply(text=None, refusal="I cannot help with that"), "refused", ""),
        ("filter", "filtered", None),
    ],
)
def test_what_is_no_full_answer_says_so_and_is_kept(cache, fault, status, text):
    with FaultServer({"question 0": [fault]}) as s:
        (a,) = run([q(0)], s, cache=cache)
        assert (a.status, a.text) == (status, text)
        assert run([q(0)], s, cache=cache)[0].cached and len(s.asked) == 1


def test_reasoning_is_kept_apart(cache):
    with FaultServer(
        {
            "question 0": [reply(text="B", reasoning_content="A? No, B.")],
            "question 1": [reply(text="<think>A? No, B.</think>\nB")],
            "question 2": [reply(text="<think>A? No", finish="length")],
        }
    ) as s:
        out = run([q(i) for i in range(3)], s, cache=cache)
    assert [(a.text, a.reasoning, a.status) for a in out] == [
        ("B", "A? No, B.", "ok"),
        ("B", "A? No, B.", "ok"),
        ("", "A? No", "truncated"),
    ]


# -- letters


def test_letters_over_every_form_that_servers_give():
    request = q(0, letters=["A", "B", "C"], sampling={"max_tokens": 1})
    pairs = [(" A", -0.5), ("A", -2.0), (" B", -2.5), ("(B", -5.0), ("The", -6.0)]
    chat = {
        "choices": [
            {
                "message": {"content": " A"},
                "finish_reason": "length",
                "logprobs": {
                    "content": [{"token": " A", "top_logprobs": [{"token": t, "logprob": v} for t, v in pairs]}]
                },
            }
        ]
    }
    new = {"choices": [{"text": " A", "finish_reason": "length", "logprobs": chat["choices"][0]["logprobs"]}]}
    old = {
        "choices": [
            {"text": " A", "finish_reason": "length", "logprobs": {"tokens": [" A"], "top_logprobs": [dict(pairs)]}}
        ]
    }
    base = MODEL.model_copy(update={"api": "completions"})
    a, b, c = (
        read_reply(json.dumps(chat).encode(), request, MODEL),
        read_reply(json.dumps(new).encode(), request, base),
        read_reply(json.dumps(old).encode(), request, base),
    )
    assert (
        a.letter_logprobs == b.letter_logprobs == c.letter_logprobs
        and a.bounded == b.bounded == ["C"]
        and a.status == "ok"
    )
    assert a.letter_logprobs["A"] == pytest.approx(-0.298587, abs=1e-6)  # ln(e^-0.5 + e^-2)


def test_a_missing_letter_is_bounded_by_what_the_list_leaves_over():
    from math import exp

    got = letter_logprobs([("A", -0.0001), ("B", -11.0)], ["A", "B", "C", "D"])
    assert got.bounded == ["C", "D"]
    assert 0 < exp(got.logprobs["C"]) <= 1 - exp(-0.0001) + 1e-12


def test_an_endpoint_without_log_probabilities_falls_back_to_text():
    with FaultServer({"question 0": [reply(text="A")]}) as s:
        (a,) = run([q(0, letters=["A", "B"])], s, endpoint=ep(s.url, top_logprobs=0))
        assert "logprobs" not in s.asked[0]
    assert (a.status, a.text, a.letter_logprobs, a.bounded) == ("ok", "A", None, [])


# -- structured output

LABEL = {"type": "object", "properties": {"label": {"enum": ["Correct", "Incorrect"]}}, "required": ["label"]}


def test_json_that_fits_the_schema_is_parsed(cache):
    with FaultServer({"question 0": [reply(text='{"label": "Correct"}')]}) as s:
        (a,) = run([q(0, schema=LABEL)], s, cache=cache)
        assert s.asked[0]["response_format"]["json_schema"]["schema"]["additionalProperties"] is False
        assert run([q(0, schema=LABEL)], s, cache=cache)[0].data == a.data == {"label": "Correct"}


def test_one_repair_then_an_error_never_a_guess(cache):
    with FaultServer(
        every=lambda n, b: reply(text=['{"label": "correct"}', '{"label": "Correct"}', "Correct", "It is Correct."][n])
    ) as s:
        good, bad = run([q(0, schema=LABEL)], s)[0], run([q(1, schema=LABEL)], s, cache=cache)[0]
        assert (good.status, good.data, good.attempts, good.prompt_tokens) == ("ok", {"label": "Correct"}, 2, 20)
        assert (bad.status, bad.data, bad.attempts, bad.text) == ("error", None, 2, "It is Correct.")
        assert "is not one of ['Correct', 'Incorrect']" in s.asked[1]["messages"][-1]["content"]
        assert run([q(1, schema=LABEL)], s, cache=cache)[0].cached and len(s.asked) == 4, (
            "paid for: not asked a third time"
        )


def test_a_german_prompt_is_followed_by_german_words_alone():
    with FaultServer(every=lambda n, b: reply(text=["Richtig", '{"label": "Correct"}'][n])) as s:
        (a,) = run([q(0, schema=LABEL, language="de")], s)
        assert a.status == "ok" and "noch einmal" in s.asked[1]["messages"][-1]["content"]
    body = json.loads(wire(q(0, schema=LABEL, language="de"), MODEL, ep("http://x/v1", structured="none")).body)
    assert "JSON-Schema passt" in body["messages"][-1]["content"] and "Answer" not in body["messages"][-1]["content"]


@pytest.mark.parametrize("structured", ["none", "json_object"])
def test_an_endpoint_that_takes_no_schema_is_told_in_words(structured):
    body = json.loads(wire(q(0, schema=LABEL), MODEL, ep("http://x/v1", structured=structured)).body)
    assert '"enum": ["Correct", "Incorrect"]' in body["messages"][-1]["content"]
    assert body.get("response_format") == ({"type": "json_object"} if structured == "json_object" else None)


# -- budget, plan


def test_a_budget_holds_where_a_token_is_a_byte(cache):
    def dense(n, body):
        n = len(json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode())
        return lambda body: (200, completion(body, "A") | {"usage": {"prompt_tokens": n, "completion_tokens": 5}})

    budget = Budget(max_tokens=2100)
    asked = [Request(f"id-{i}", [{"role": "user", "content": "头晕乏力" * 30 + str(i)}]) for i in range(50)]
    with FaultServer(every=dense) as s, pytest.raises(BudgetReached):
        run(asked, s, cache=cache, budget=budget, endpoint=ep(s.url, concurrency=16))
    assert 1000 < budget.tokens <= 2100


def test_a_reply_that_counts_no_tokens_costs_what_was_reserved(cache):
    silent = lambda n, body: lambda body: (200, completion(body, "A") | {"usage": None})
    budget = Budget(max_tokens=1000)
    with FaultServer(every=silent) as s, pytest.raises(BudgetReached, match="got Budget\\([0-9]+ of 1000 tokens\\)"):
        run([q(i) for i in range(50)], s, cache=cache, budget=budget)
    assert 500 < budget.tokens <= 1000
    with FaultServer(every=silent) as s:
        (a,) = run([q(99)], s)
        assert a.cost_usd is None, "unknown, and not nothing"


def test_a_request_that_timed_out_may_be_paid_for(cache):
    budget = Budget(max_tokens=1000)
    with FaultServer({"question 0": ["stall"]}) as s:
        (a,) = run([q(0)], s, cache=cache, budget=budget, endpoint=ep(s.url, timeout_s=0.5))
        (again,) = run([q(0)], s, cache=cache)
    assert (a.attempts, a.uncounted, a.prompt_tokens, a.cost_usd) == (2, 1, 10, pytest.approx(20e-6))
    assert budget.tokens > 15, "what was reserved for the first counts too"
    assert again.cached and again.uncounted == 1
    with FaultServer() as s:
        assert run([q(1)], s)[0].uncounted == 0


@pytest.mark.parametrize("concurrency", [1, 8, 64])
def test_a_budget_is_never_crossed_and_nothing_is_lost(cache, concurrency):
    budget = Budget(max_cost_usd=0.001)  # an answer costs 20 millionths
    with FaultServer(delay=0.005) as s:
        with pytest.raises(BudgetReached, match="the answers so far are kept"):
            run([q(i) for i in range(500)], s, cache=cache, budget=budget, endpoint=ep(s.url, concurrency=concurrency))
        answered = len(s.answered)
        assert 0.00086 <= answered * 20e-6 <= 0.001, "used, but for the greatest cost of one request"
        assert budget.cost_usd == pytest.approx(answered * 20e-6)
        assert len(cache) == answered
        assert sum(a.cached for a in run([q(i) for i in range(500)], s, cache=cache)) == answered


def test_a_budget_of_tokens_and_one_that_cannot_be_kept():
    budget = Budget(max_tokens=300)
    with FaultServer() as s:
        with pytest.raises(BudgetReached):
            run([q(i) for i in range(100)], s, budget=budget)
        assert len(s.answered) * 15 == budget.tokens <= 300
        with pytest.raises(ValueError, match="sampling must have max_tokens where there is a budget"):
            run([q(0)], s, model=MODEL.model_copy(update={"sampling": {}}), budget=budget)


def test_plan_counts_what_a_run_then_does(cache):
    requests = [q(i) for i in range(20)] + [replace(q(0), id="twin")]
    with FaultServer() as s:
        run([q(i) for i in range(7)], s, cache=cache)
        before, n = plan(requests, MODEL, ep(s.url), cache), len(s.asked)
        run(requests, s, cache=cache)
        assert (before.requests, before.cached, before.repeated, before.to_ask) == (21, 8, 0, 13)
        assert len(s.asked) - n == before.to_ask
        assert plan(requests, MODEL, ep(s.url), cache).to_ask == 0
    assert plan([q(0), replace(q(0), id="twin")], MODEL, ep("http://x/v1"), cache).cached == 2


def test_a_recorder_asks_nobody_counts_what_a_run_asks_and_writes_nothing(cache):
    requests = [q(i) for i in range(20)] + [replace(q(0), id="twin")]
    with FaultServer() as s:
        run([q(i) for i in range(7)], s, cache=cache)
        held, n = len(cache), len(s.asked)
        with Recorder() as recorder:
            out = run(requests, s, cache=cache, study="mhqa")
        assert len(s.asked) == n and len(cache) == held
        assert [a.id for a in out] == [r.id for r in requests] and [a.cached for a in out[6:8]] == [True, False]
        assert out[7].text == "?" * int(3.5 * 5) and out[-1].text == out[0].text == answer_to("question 0")
        real = run(requests, s, cache=cache)
        assert [a.request_key for a in out] == [a.request_key for a in real]
        assert recorder.calls == [("mhqa", "m", "e", recorder.calls[0].plan)]
        assert recorder.calls[0].plan.to_ask == len(s.asked) - n == 13


# -- a dry run, by hand


@pytest.mark.parametrize(
    ("schema", "example"),
    [
        ({"const": 3, "enum": [4]}, "3"),
        ({"enum": ["a", "b"]}, '"a"'),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "0"),
        ({"oneOf": [{"type": "null"}, {"type": "string"}]}, "null"),
        ({"type": "array"}, '["?"]'),
        ({"type": "array", "minItems": 0}, '["?"]'),
        ({"type": "array", "items": {"type": "boolean"}, "minItems": 3}, "[false, false, false]"),
        ({"type": "integer", "minimum": 4}, "4"),
        ({"type": "number"}, "0.0"),
        ({"type": "number", "minimum": 0.5}, "0.5"),
        ({"properties": {"a": {"type": "string"}, "b": {"type": "object"}}}, '{"a": "?", "b": {}}'),
    ],
)
def test_a_small_value_fits_a_schema(schema, example):
    "The first of several options, every field, a list as short as it may be, a number at its minimum."
    assert json.dumps(schema_example(schema)) == example


def test_a_stand_in_is_as_long_as_its_limit_allows():
    "Three and a half bytes a token; the texts of a schema share what its smallest value leaves of them."
    texts = lambda schema, *limits: [stand_in(q(0, schema=schema), n).text for n in limits]
    assert texts(None, None, 0, 1, 2, 4) == ["?", "?", "???", "?" * 7, "?" * 14]
    object_schema = lambda *names: {"properties": {name: {"type": "string"} for name in names}}
    assert texts(object_schema("a"), None, 2, 4) == ['{"a": "?"}', '{"a": "?"}', '{"a": "?????"}']
    assert list(map(len, texts(object_schema("a", "b"), None, 5, 6, 7, 16))) == [20, 20, 20, 24, 56]
    assert texts({"enum": [1]}, 1, 9) == ["1", "1"]
    answer = stand_in(q(0, schema=object_schema("a")), 4)
    assert (answer.id, answer.data, answer.finish_reason) == ("id-0", {"a": "?????"}, "stand-in")


def test_a_dry_run_counts_by_hand(cache):
    "Cached, repeated, without a limit; a second call finds what the first would have asked; no cache keeps nothing."
    model = MODEL.model_copy(update={"sampling": {"temperature": 0.0}})
    limit_fields = {"sampling": {"max_tokens": 5}}
    with FaultServer() as s:
        run([q(i, **limit_fields) for i in range(2)], s, model=model, cache=cache)
        requests = [
            *(q(i, **limit_fields) for i in (0, 1, 3)),
            replace(q(3, **limit_fields), id="twin"),
            q(44, **limit_fields),
            q(5),
        ]
        bodies = [wire(requests[k], model, ep(s.url)).body for k in (2, 4, 5)]
        n_tokens = sum(-(-2 * len(body) // 7) for body in bodies)
        with Recorder() as recorder:
            for _ in range(2):
                run(requests, s, model=model, cache=cache)
            with Recorder() as inner_recorder:
                run(requests, s, model=model)
    usd = pytest.approx((n_tokens + 2 * 10) / 1e6)
    assert [c.plan for c in recorder.calls] == [(6, 2, 1, 3, n_tokens, 10, 1, 0, usd), (6, 2, 4, 0, 0, 0, 0, 0, 0.0)]
    [call] = inner_recorder.calls
    assert call.plan[:4] == (6, 0, 0, 6) and call.plan.completion_tokens == 25 and call.plan.unlimited == 1


def test_a_dry_run_prices_what_may_be_sent_twice_as_the_dearest(cache, monkeypatch):
    "What was learnt long ago is tried again by those in flight, and by one more: each may cost what the dearest does."
    endpoint = ep("http://x/v1", concurrency=2)
    model = MODEL.model_copy(update={"sampling": {"temperature": 0.0}})
    with monkeypatch.context() as m:
        m.setattr(learning.time, "time", lambda now=time.time(): now - 2 * 86_400)
        keep_terms(cache, endpoint, model, Terms(dropped=("temperature",)))
    for limits in ((5, 7, 3), (None, None, None)):
        requests = [q(10**k, sampling={"max_tokens": n} if n else {}) for k, n in enumerate(limits)]
        sizes = [-(-2 * len(wire(r, model, endpoint).body) // 7) for r in requests]
        run_plan = plan(requests, model, endpoint, cache)
        assert (run_plan.again, run_plan.to_ask) == (3, 3)
        n_completion = sum(n or 0 for n in limits) + 3 * max(n or 0 for n in limits)
        assert run_plan.cost_usd == pytest.approx((sum(sizes) + 3 * max(sizes) + 2 * n_completion) / 1e6)


def test_a_record_is_read_unless_the_cache_is_left_alone(cache, tmp_path):
    "Recorded answers go into the cache before anything is asked; not where nothing is read, or kept."
    with FaultServer() as s, Cache(tmp_path / "first.sqlite") as other_cache:
        run([q(0)], s, cache=other_cache)
        export(other_cache, tmp_path / "r.jsonl.gz")
        recorded_endpoint = ep(s.url, record=str(tmp_path / "r.jsonl.gz"))
        for store, replay, n_asked, n_kept in ((cache, "off", 2, 0), (None, "use", 3, 0), (cache, "use", 3, 1)):
            run([q(0)], s, endpoint=recorded_endpoint, cache=store, replay=replay)
            assert (len(s.asked), len(cache)) == (n_asked, n_kept)
    broken_endpoint = ep("http://x/v1", record=str(tmp_path / "none.gz"))
    with pytest.raises(ValueError, match="record must be a file.*which is not there; name a file .* demo for one of"):
        list(ask([q(0)], MODEL, broken_endpoint, cache=cache))


def test_a_loop_in_a_thread_ends_all_its_tasks():
    "The thread ends with the loop, however tasks take it that they are cancelled, and never outlives the process."
    thread = LoopThread("ask somebody")
    endings = []

    async def begin():
        async def hang():
            try:
                await asyncio.sleep(60)
            finally:
                endings.append("cancelled")
                raise ValueError("in its own way")

        asyncio.get_running_loop().create_task(hang())
        await asyncio.sleep(0)

    thread.wait(begin())
    assert thread.thread.name == "ask somebody" and thread.thread.daemon
    thread.close()
    assert endings == ["cancelled"] and not thread.thread.is_alive() and thread.loop.is_closed()


def test_an_end_of_a_run_is_noted_and_said_of_every_request_after_it():
    "The first reason stands in the errors; a cache that cannot be used is raised."

    def answers(error):
        yield Answer("a")
        raise error

    stop_reasons: list[str] = []
    assert [a.id for a in as_far_as_it_goes(answers(BudgetReached("no money")), stop_reasons)] == ["a"]
    assert stop_reasons == ["no money"]
    with pytest.raises(CacheError):
        list(as_far_as_it_goes(answers(CacheError("no disk")), stop_reasons))
    errors = [not_asked("b", reasons) for reasons in (["no money", "later"], [])]
    assert [(a.id, a.status) for a in errors] == [("b", "error")] * 2
    assert [a.error.partition(": ")[2] for a in errors] == ["no money", "the answers ended before it"]


# -- the parts of a run, by hand


def ledger_of(requests, cache=None, concurrency=4, **settings) -> Ledger:
    "The ledger of a call whose endpoint is never asked."
    endpoint = ep("http://x/v1", concurrency=concurrency)
    asking = Asking(MODEL, endpoint, cache, **settings)
    return Ledger(requests, asking, Learner(MODEL, endpoint), Queue(8), lambda error: None)


@pytest.mark.parametrize(("concurrency", "window"), [(4, 4096), (320, 5120)])
def test_no_more_requests_are_taken_than_may_wait_and_be_held_back(concurrency, window):
    "By 256, while fewer wait; and until 4096, or sixteen for each in flight, are not handed on."
    ledger = ledger_of((q(i) for i in range(20_000)), concurrency=concurrency)
    ledger.feed()
    assert len(ledger.queue.new) == ledger.taken_in == 256
    for _ in range(56):
        ledger.queue.new.popleft()
    ledger.feed()
    assert len(ledger.queue.new) == 456
    for _ in range(2 * window // 256):
        ledger.queue.clear()
        ledger.feed()
    assert ledger.taken_in == window
    ledger.ready[0] = Answer("id-0")
    assert [a.id for a in ledger.take()] == ["id-0"] and not ledger.done
    ledger.feed()
    assert ledger.taken_in == window + 256


def test_an_answer_goes_to_all_its_places_and_was_paid_for_at_the_first(cache):
    "Where it was sent, the others have it from the cache; where it was not, nobody has."
    for k, attempts in ((0, 1), (1, 0)):
        ledger = ledger_of([q(k), replace(q(k), id="twin")], cache)
        ledger.feed()
        [job] = ledger.queue.clear()
        ledger.commit([(job, Answer(text="yes", attempts=attempts), True)])
        answers = ledger.take()
        assert [(a.id, a.cached) for a in answers] == [(f"id-{k}", False), ("twin", attempts == 1)] and ledger.done
        assert {a.request_key for a in answers} == {job.wire.key} and answers[0].served["date"]
        row = cache.get_many([job.wire.key])[job.wire.key]
        assert row[1:5] == ("m", "e", "ok", True) and json.loads(row.value)["text"] == "yes"


@pytest.mark.parametrize(
    ("answers", "n_failed", "first_error"),
    [
        ([("error", None), ("error", None)], 2, "id-0: wrong 0"),
        ([("ok", "x"), ("error", None)], 1, "id-1: wrong 1"),
        ([("error", "no JSON"), ("error", None)], 1, "id-1: wrong 1"),
        ([("empty", None), ("ok", "x")], 0, None),
        ([], 0, None),
    ],
)
def test_a_call_fails_where_nothing_came_and_something_had_to(answers, n_failed, first_error):
    "A text that is not the JSON wanted is an answer; a call without requests has not failed."
    ledger = ledger_of([q(i) for i in range(len(answers))], some_must_come=True)
    ledger.feed()
    outcomes = [Answer(status=status, text=text, error=f"wrong {k}") for k, (status, text) in enumerate(answers)]
    ledger.commit([(job, answer, False) for job, answer in zip(ledger.queue.clear(), outcomes)])
    assert len(ledger.take()) == len(answers) and (ledger.failed, ledger.first_error) == (n_failed, first_error)
    if n_failed == 2:
        ledger.asking.some_must_come = False
        ledger.end()
        assert ledger.progress.ended, "the last line comes before what is said of the run"
        ledger.asking.some_must_come = True
        with pytest.raises(TooManyFailed, match="must be answered; got none of 2 .m; id-0: wrong 0.; remove the cause"):
            ledger.end()
    else:
        ledger.end()


def stored_row(key, answer, final=True, created=86_400.0) -> Row:
    "A row of another run."
    return Row(key, "m", "e", answer.status, final, created, answer.to_json())


def test_the_answer_that_another_run_has_stored_first_replaces_ours(cache):
    "With the day on which that one came."
    ledger = ledger_of([q(0)], cache)
    ledger.feed()
    [job] = ledger.queue.clear()
    cache.put_many([stored_row(job.wire.key, Answer(text="theirs"))])
    ledger.commit([(job, Answer(text="ours", attempts=1), True)])
    [answer] = ledger.take()
    assert (answer.text, answer.cached, answer.request_key) == ("theirs", True, job.wire.key)
    assert answer.served == {"date": "1970-01-02"} and not ledger.by_key


def test_a_stored_answer_that_cannot_be_used_is_asked_for_and_told_in_a_replay(cache, tmp_path):
    "It is put aside with the reason; a replay has an error of its own for it, and for one that is not there."
    key = wire(q(0), MODEL, ep("http://x/v1")).key
    broken_row = stored_row(key, Answer())._replace(value='{"text": 3, "nonsense": 1}')
    cache.put_many([broken_row])
    replay_ledger = ledger_of([q(0), q(1)], cache, replay="only")
    replay_ledger.feed()
    errors = [(a.id, a.status, a.error) for a in replay_ledger.take()]
    assert errors == [
        ("id-0", "error", "replay: it cannot be used"),
        ("id-1", "error", "replay: the answer is not in the cache"),
    ]
    assert replay_ledger.done and len(cache) == 1
    ledger = ledger_of([q(0)], cache)
    with pytest.warns(RuntimeWarning, match="cannot be used"):
        ledger.feed()
    assert [job.wire.key for job in ledger.queue.new] == [key] and len(cache) == 0
    assert cache.query("SELECT why FROM aside")[0][0].startswith("text: ")


def test_what_is_asked_again_under_other_terms_has_another_key_and_another_mark(cache):
    "Other runs may ask under the terms that are left, and everything once the run has ended."
    ledger = ledger_of([q(0), q(1)], cache)
    ledger.feed()
    jobs = ledger.queue.clear()
    keys = [job.wire.key for job in jobs]
    assert cache.take(keys, "another run") == ({}, set())
    ledger.learner.terms = Terms(dropped=("temperature",))
    ledger.readmit(jobs)
    new_keys = [job.wire.key for job in jobs]
    assert list(ledger.by_key) == new_keys and not set(new_keys) & set(keys)
    assert [job.wire.key for job in ledger.queue.new] == new_keys
    assert cache.take(keys, "another run")[1] == set(keys) and cache.take(new_keys, "another run")[1] == set()
    ledger.release()
    assert cache.take(new_keys, "another run")[1] == set(new_keys)


def test_a_request_that_another_run_is_asking_waits_for_it(cache, tmp_path):
    "Its answer is taken from the cache; where that run ends without one, it is asked for here."
    with FaultServer() as s, Cache(cache.path) as their_cache:
        key_of = lambda i: wire(q(i), MODEL, ep(s.url)).key
        their_cache.take([key_of(0), key_of(1)], "another run")
        threading.Timer(0.1, their_cache.put_many, [[stored_row(key_of(0), Answer(text="theirs"))]]).start()
        threading.Timer(0.2, their_cache.release, ["another run"]).start()
        answers = run([q(i) for i in range(3)], s, cache=cache)
    assert [(a.text, a.cached) for a in answers] == [
        ("theirs", True),
        (answer_to("question 1"), False),
        (answer_to("question 2"), False),
    ]
    assert len(s.asked) == 2


def test_a_run_that_is_left_early_ends_its_line_and_its_marks(cache):
    "What has arrived is kept, and another run may ask for the rest."

    async def begin(url):
        scheduler = Scheduler([q(i) for i in range(3)], Asking(MODEL, ep(url, concurrency=1), cache))
        batches = scheduler.batches()
        first_batch = await anext(batches)
        await batches.aclose()
        return scheduler, first_batch

    with FaultServer(every=lambda n, body: "stall" if n else None) as s:
        scheduler, first_batch = asyncio.run(begin(s.url))
    assert [a.id for a in first_batch] == ["id-0"] and len(cache) == 1
    assert scheduler.ledger.progress.ended and str(scheduler.stop) == "closed"
    keys = [wire(q(i), MODEL, ep(s.url)).key for i in range(3)]
    assert cache.take(keys, "another run")[1] == set(keys[1:])


def test_an_answer_is_dated_by_the_day_on_which_it_came():
    "In UTC, where a text or letters came."
    day = 86_400.0
    served = lambda **fields: dated(Answer("a", served={"model": "x"}, **fields), 3 * day - 1).served
    assert served(text="") == served(letter_logprobs={"A": 0.0}) == {"model": "x", "date": "1970-01-03"}
    assert served() == {"model": "x"}


def test_what_is_read_and_shared_follows_the_replay(tmp_path):
    "A replay opens a cache to read it alone, and without one it neither reads nor shares."
    path = tmp_path / "c.sqlite"
    Cache(path).close()
    endpoint = ep("http://x/v1")
    for replay, reads, shares in (("use", True, True), ("only", True, False), ("off", False, False)):
        asking = Asking(MODEL, endpoint, path, replay=replay)
        assert (asking.reads is asking.cache, asking.shares is asking.cache) == (reads, shares)
        assert asking.cache.readonly == (replay == "only")
        assert (asking.progress, asking.study, asking.some_must_come, asking.budget) == (False, "", False, None)
        asking.cache.close()
    with pytest.raises(ValueError, match="replay must be use, only or off; got 'never'"):
        Asking(MODEL, endpoint, None, replay="never")


def steps_of(model=MODEL, budget=None, **settings) -> NextSteps:
    "With a limiter whose clock of tokens, a second for each, stands at 1,000."
    endpoint = ep("http://x/v1", **settings)
    limiter = Limiter(4, tpm=60)
    limiter.start(0.0, 1_000)
    return NextSteps(Asking(model, endpoint, None, budget), Learner(model, endpoint), limiter, Transport(endpoint))


def job_of(steps: NextSteps, **fields):
    "A job, with what it may cost reserved."
    job = steps.learner.job(q(0, **fields), 0)
    steps.purse.reserve(job, waits=False)
    return job


def test_a_reply_is_charged_by_what_it_counts_and_else_by_what_was_reserved():
    "To its job, to the budget and to the clock of tokens; what was never billed costs nothing."
    budget = Budget(max_tokens=10_000)
    steps = steps_of(budget=budget)
    job = job_of(steps)
    n_held = job.held[1]
    steps.of(job, Failed("again", "broken", billed=True, tokens=(7, 2)))
    token_clock = 1_000 - (n_held - 9)
    assert (job.spent[:2], job.uncounted, budget.tokens, steps.limiter.due[1]) == ((7, 2), 0, 9, token_clock)
    steps.of(job, Failed("again", "no connection"))
    assert (job.spent[:2], job.uncounted, budget.tokens, steps.limiter.due[1]) == ((7, 2), 0, 9, token_clock)
    job.tries = 4
    steps.of(job, Failed("again", "no reply", billed=None))
    assert (job.uncounted, budget.tokens, steps.limiter.due[1]) == (1, 9 + n_held, token_clock)
    step = steps.of(job, Answer(text="yes", prompt_tokens=20, completion_tokens=3))
    assert step.final and (step.answer.attempts, step.answer.uncounted) == (4, 1)
    assert step.answer.tokens[:2] == (27, 5) and step.answer.cost_usd == pytest.approx((27 + 10) / 1e6)
    assert (budget.tokens, steps.limiter.due[1]) == (9 + n_held + 23, token_clock - (n_held - 23))


@pytest.mark.parametrize(
    ("price", "cost_usd"), [({"prompt": 1.0, "completion": 0.0}, None), ({"prompt": 0.0, "completion": 0.0}, 0.0)]
)
def test_a_reply_that_counts_nothing_costs_nothing_only_where_it_is_free(price, cost_usd):
    "Tokens that nobody counted have an unknown price; they are free where all prices are 0."
    steps = steps_of(MODEL.model_copy(update={"price": price}))
    job = job_of(steps)
    step = steps.of(job, Answer(text="yes", prompt_tokens=20))
    assert (step.answer.tokens, step.answer.cost_usd, step.answer.uncounted) == (Tokens(), cost_usd, 1)
    assert steps.limiter.due[1] == 1_000


def test_an_answer_is_final_unless_nothing_came():
    "What the model or its filter declined is an answer; an empty text and an error are asked for again."
    steps = steps_of()
    step_of = lambda **fields: steps.of(job_of(steps), Answer(prompt_tokens=9, completion_tokens=1, **fields))
    assert step_of(text="yes").final and step_of(text="", status="refused").final
    assert not step_of(text="", status="empty").final
    last_step = steps.of(job_of(steps), Failed("filtered", "400: no", status=400))
    assert (last_step.answer.status, last_step.final, last_step.answer.error) == ("filtered", True, "400: no")
    last_step = steps.of(job_of(steps), Failed("refused", "404: gone", status=404))
    assert (last_step.answer.status, last_step.final) == ("error", False)


def test_json_is_asked_for_once_more_and_not_at_the_end_of_a_run():
    "Once for each request that wants JSON and whose text cannot be read without it."
    bad_answer = lambda: Answer(text="so", status="error", error="no JSON", prompt_tokens=9, completion_tokens=1)
    schema = {"type": "object"}
    steps = steps_of()
    job = job_of(steps, schema=schema)
    step = steps.of(job, bad_answer())
    assert step.answer is None and job.repaired and abs(step.at - time.monotonic()) < 1 and not step.alone
    assert steps.of(job, bad_answer()).answer.error == "no JSON"
    assert steps.of(job_of(steps), bad_answer()).answer.text == "so", "no JSON was wanted"
    for is_read in (True, False):
        step = steps.of(job_of(steps, schema=schema, reads=lambda text, is_read=is_read: is_read), bad_answer())
        assert (step.answer is not None) == is_read
    steps.ending = True
    assert steps.of(job_of(steps, schema=schema), bad_answer()).answer.text == "so"


UNSUPPORTED = "Unsupported parameter: temperature"


def refusal_of(job, last_words="") -> Failed:
    "A refusal of the temperature."
    refusal = Refusal(400, UNSUPPORTED + last_words, json.loads(job.wire.body))
    return Failed("refused", f"400: {UNSUPPORTED}", status=400, refusal=refusal)


def test_a_refusal_teaches_where_it_comes_twice_with_nothing_between(capfd):
    "The first time the job is sent alone after a pause; the reason that is told has three hundred characters at most."
    steps = steps_of(pause_s=2.0)
    job = job_of(steps)
    step = steps.of(job, refusal_of(job, " x" * 300))
    assert step.alone and step.answer is None and step.at - time.monotonic() == pytest.approx(2.0, abs=0.2)
    steps.of(job, Failed("again", "500: broken", status=500))
    assert job.lesson is None
    step = steps.of(job, refusal_of(job))
    assert step.alone and step.at - time.monotonic() == pytest.approx(8.0, abs=0.2) and job.faults == 3
    step = steps.of(job, refusal_of(job, " x" * 300))
    assert step.anew and steps.learner.terms.dropped == ("temperature",)
    reason = f"400: {UNSUPPORTED}{' x' * 300}"[:300]
    assert f"({reason} ...)" in capfd.readouterr().err
    late_job = steps.learner.job(q(1), 1)
    late_job.terms, late_job.wire = job.terms, job.wire
    steps.ending = True
    assert steps.of(late_job, refusal_of(late_job)).answer.status == "error", "nothing is sent again to learn from it"


def test_a_thought_teaches_at_once_and_a_lack_of_log_probabilities_when_it_comes_twice():
    "Under new terms the request is sent anew; an answer that came under earlier terms is not mixed with others."
    steps = steps_of(MODEL.model_copy(update={"sampling": {}}))
    letter_job = lambda: job_of(steps, letters=["A", "B"], sampling={"max_tokens": 1})
    answer = lambda **fields: Answer(prompt_tokens=9, completion_tokens=1, **fields)
    job = letter_job()
    step = steps.of(job, answer(text="B", listed=False))
    assert step.alone and step.answer is None and abs(step.at - time.monotonic()) < 1
    assert steps.learner.terms == Terms()
    early_job = letter_job()
    step = steps.of(job, answer(text="B", listed=False))
    assert step.anew and steps.learner.terms == Terms(top_logprobs=0)
    assert steps.of(early_job, answer(text="B", letter_logprobs={"A": -1.0, "B": -0.5})).anew
    thinking_job = letter_job()
    step = steps.of(thinking_job, answer(text="", thought=True, status="truncated", listed=False))
    assert step.anew and steps.learner.terms.thinks
    steps.learner.reword(thinking_job)
    steps.purse.reserve(thinking_job, waits=False)
    assert steps.of(thinking_job, answer(text="B", thought=True)).answer.changed == [
        "no logprobs",
        "no top_logprobs",
    ] + ["room for a thought"]
    late_job = letter_job()
    late_job.terms = Terms()
    late_job.wire = wire(late_job.request, steps.asking.model, steps.asking.endpoint)
    steps.ending = True
    assert steps.of(late_job, answer(text="B", finish_reason="stop")).answer.text == "B"


def test_what_comes_back_holds_no_secret(monkeypatch):
    "Neither the text nor the thought of an answer, nor an error, nor the reason for what is learnt."
    steps = steps_of()
    steps.transport.secrets = Secrets("sk-planted-0123456789")
    text = "it is sk-planted-0123456789"
    answer = steps.of(job_of(steps), Answer(text=text, reasoning=text, prompt_tokens=9, completion_tokens=1)).answer
    assert (answer.text, answer.reasoning) == ("it is [key]", "it is [key]")
    silent_answer = steps.of(job_of(steps), Answer(text="x", prompt_tokens=9, completion_tokens=1)).answer
    assert silent_answer.reasoning is None
    job = job_of(steps)
    failed_answer = steps.of(job, Failed("refused", text, status=404)).answer
    assert failed_answer.error == job.error == "it is [key]"
    bad_answer = Answer(text="x", status="error", error=text, prompt_tokens=9, completion_tokens=1)
    assert steps.of(job_of(steps), bad_answer).answer.error == "it is [key]"


def test_replicas_that_confirm_a_refusal_are_counted_anew_where_it_is_another_one():
    "Of two replicas that must refuse the same, the one that refused something else does not count."
    steps = steps_of()
    learner, job = steps.learner, job_of(steps)
    learner.enough = 2
    job.lesson, job.refusers, job.replica = "another refusal", {0}, 1
    terms = learner.lesson(refusal_of(job).refusal)
    assert not learner.lasts(job, terms) and job.refusers == {1}
    assert not learner.lasts(job, terms) and job.refusers == {1}
    job.replica = 0
    assert learner.lasts(job, terms) and job.refusers == {0, 1}


def test_a_refusal_of_what_others_were_answered_with_ends_in_a_remedy():
    "It is sent as often as the entry says, and then the error says what to write into the entry."
    steps = steps_of(max_attempts=2)
    answered_job, job = job_of(steps), job_of(steps)
    steps.of(answered_job, Answer(text="yes", prompt_tokens=9, completion_tokens=1))
    for _ in range(2):
        step = steps.of(job, refusal_of(job))
    assert not step.alone and step.answer.status == "error"
    assert (
        "others were answered with it, and answers of two kinds are not mixed: where it stays so, say in" in job.error
    )
    assert "endpoints.e what it refuses" in step.answer.error


def test_the_first_error_ends_a_run():
    "What ends it is kept, nothing is learnt any more, and as many may wait as four times what may be in flight."
    asking = Asking(MODEL, ep("http://x/v1", concurrency=3), None)
    scheduler = Scheduler([], asking)
    assert scheduler.queue.most_waiting == 12 and not scheduler.steps.ending
    first, second = ValueError("first"), ValueError("second")
    scheduler.halt(first)
    scheduler.halt(second)
    assert scheduler.stop is first and scheduler.steps.ending and scheduler.wake.is_set()


def test_a_job_is_counted_when_it_is_sent():
    "Its time, its attempt, the replica that has not refused it, its place and its tokens."

    async def begin():
        scheduler = Scheduler([], Asking(MODEL, ep(["http://x/v1", "http://y/v1"], tpm=60.0), None))
        job = job_of(scheduler.steps)
        job.refusers = {0}
        scheduler.flight.transport.clients = {"": None}
        scheduler.flight.start(job, 7.0)
        counts = (job.began, job.tries, job.replica, scheduler.limiter.in_flight, scheduler.limiter.due[1])
        n_tasks = len(scheduler.flight.tasks)
        for task in list(scheduler.flight.tasks):
            task.cancel()
        return counts, n_tasks, job.held[1]

    counts, n_tasks, n_held = asyncio.run(begin())
    assert counts == (7.0, 1, 1, 1, 7.0 + n_held) and n_tasks == 1


# -- keys


def test_a_planted_key_appears_nowhere(cache, tmp_path, monkeypatch, capfd):
    "The endpoint echoes the key in its errors; it is in no answer, cache, export, error, log or representation."
    secret = "sk-planted-0123456789abcdef"
    monkeypatch.setenv("PLANTED_KEY", secret)
    echo = lambda n, b: (
        (lambda body: ([401, 400, 500, 429][n % 4], {"error": {"message": f"Incorrect API key provided: {secret}"}}))
        if n < 12
        else None
    )
    with FaultServer(every=echo) as s:
        endpoint = ep(s.url, api_key_env="PLANTED_KEY", max_attempts=2)
        out = list(ask([q(i) for i in range(20)], MODEL, endpoint, cache=cache, progress="with a key"))
        assert s.headers[0]["authorization"] == f"Bearer {secret}"
    assert any("[key]" in (a.error or "") for a in out)
    export(cache, tmp_path / "export.jsonl.gz")
    cache.close()
    import gzip

    texts = [
        repr(out),
        repr(endpoint),
        endpoint.model_dump_json(),
        *capfd.readouterr(),
        gzip.decompress((tmp_path / "export.jsonl.gz").read_bytes()).decode(),
    ]
    assert not [t for t in texts if secret in t]
    assert not [f for f in tmp_path.rglob("*") if f.is_file() and secret.encode() in f.read_bytes()]


# -- pace (a clock of the test's own)


def test_requests_a_minute_are_paced_not_burst():
    gate, now, sent = Limiter(1000, rpm=600), 0.0, []
    while len(sent) < 600:
        if (w := gate.wait(now)) > 0:
            now += w
            continue
        gate.start(now)
        gate.end()
        sent.append(now)
    assert max(sum(t <= x < t + 60 for x in sent) for t in sent) <= 600 + 11, (
        "a window of a minute: the limit and a second of burst"
    )
    assert sent[-1] == pytest.approx(58.8, abs=0.3)


def test_tokens_a_minute_are_paced_and_corrected_by_what_was_used():
    gate = Limiter(1000, tpm=6000)
    gate.start(0.0, 600)  # six seconds' worth
    assert gate.wait(0.0) == pytest.approx(5.0)
    gate.correct(500)  # it took a hundred
    assert gate.wait(0.0) == 0.0


def test_concurrency_falls_to_what_an_endpoint_bears_and_climbs_again():
    "An endpoint that bears ten at once: simulated in rounds."
    gate, loads = Limiter(64), []
    for t in range(60):
        n = 0
        while gate.wait(float(t)) == 0:
            gate.start(float(t))
            n += 1
        for k in range(n):
            gate.end()
            if k < 10:
                gate.answered()
            else:
                gate.pushed_back(t + 0.5, float(t))
        loads.append(n)
    assert loads[0] == 64 and 8 <= sum(loads[20:]) / 40 <= 16
    for t in range(60, 200):
        while gate.wait(float(t)) == 0:
            gate.start(float(t))
        for _ in range(gate.in_flight):
            gate.end()
            gate.answered()
    assert int(gate.limit) == 64


def test_no_more_are_in_flight_than_allowed():
    with FaultServer(delay=0.01) as s:
        run([q(i) for i in range(100)], s, endpoint=ep(s.url, concurrency=5))
        assert s.most == 5


# -- progress


class Tty(list):
    def isatty(self):
        return True

    def write(self, text):
        self.append(text)

    def flush(self):
        pass


def test_the_line_is_live_on_a_terminal_and_quiet_in_ci(monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    out = Tty()
    p = Progress("demo", 2, out=out)
    p.add(Answer("a", prompt_tokens=5))
    assert "at least" not in p.line(p.began + 1)
    p.shown -= 1
    p.tick()
    p.tick(last=True)
    assert "".join(out).count("\r\x1b[Kdemo: 1/2 done, 0 failed, 0 cached") == 2 and out[-1] == "\n"
    monkeypatch.setenv("CI", "1")
    quiet = Tty()
    p = Progress("demo", 2, out=quiet)
    p.shown -= 100
    p.tick()
    p.tick(last=True)
    assert not quiet


def progress_of(total, out=None, live=False) -> Progress:
    "A line of progress that is shown, into a terminal or a file, and began at 100 s."
    progress = Progress("demo", total, out=Tty() if out is None else out)
    progress.show, progress.live = True, live
    progress.began = progress.shown = progress.told = 100.0
    return progress


def test_a_line_of_progress_says_what_is_done_and_what_is_left():
    "By hand, after ten seconds: pace and time left are of what was asked, and not of what the cache held."
    progress = progress_of(10)
    for answer, is_read in (
        (Answer(prompt_tokens=90, completion_tokens=10, cost_usd=0.25), False),
        (Answer(prompt_tokens=9, cost_usd=0.5, cached=True, uncounted=4), False),
        (Answer(status="error", cost_usd=0.5), False),
        (Answer(status="error"), True),
        (Answer(status="refused"), False),
        (Answer(status="filtered", cached=True), False),
    ):
        progress.add(answer, is_read)
    numbers = "demo: 6/10 done, 1 failed, 2 refused, 2 cached, 0.4 items/s"
    assert progress.line(110.0) == f"{numbers}, 100 tokens (10/s), 0.7500 USD, 10 s left"
    progress.add(Answer(cost_usd=None, uncounted=1))
    assert "at least 100 tokens (10/s), cost unknown, 6 s left" in progress.line(110.0)
    progress.unpriced = False
    assert "at least 0.7500 USD" in progress.line(110.0)
    replay = progress_of(None)
    replay.add(Answer(cached=True))
    assert replay.line(102.0) == "demo: 1 done, 0 failed, 1 cached, 0.5 items/s, 0 tokens (0/s), 0.0000 USD"
    assert replay.line(100.0), "at the first moment, too"
    assert [progress_of(n).left(101.0) for n in (None, 0, 3)] == [None] * 3


@pytest.mark.parametrize(
    ("live", "seconds", "is_last", "end"),
    [
        (True, 0.19, False, None),
        (True, 0.2, False, ""),
        (True, 0.1, True, "\n"),
        (False, 29.9, False, None),
        (False, 30.0, False, "\n"),
        (False, 4.9, True, None),
        (False, 5.0, True, "\n"),
    ],
)
def test_a_line_is_shown_when_it_is_due(monkeypatch, live, seconds, is_last, end):
    "Every fifth of a second in a terminal, else every half minute; of a short run none is left in a file."
    progress = progress_of(3, live=live)
    monkeypatch.setattr(time, "monotonic", lambda: 100.0 + seconds)
    progress.tick(last=is_last)
    line = "".join(progress.out)
    assert line == ("" if end is None else ("\r\x1b[K" if live else "") + progress.line(100.0 + seconds) + end)
    if is_last:
        progress.tick(last=True)
        assert "".join(progress.out) == line, "the last one is shown once"


def test_the_state_of_a_run_is_written_five_times_a_second(tmp_path, monkeypatch):
    "With the sums of all runs of the process, and a cost that is unknown where one of them is."
    file = tmp_path / "state.json"
    monkeypatch.setenv(LIVE, str(file))
    progress = progress_of(4)
    progress.add(Answer(prompt_tokens=1, cost_usd=0.5, uncounted=1))
    for seconds, is_written in ((0.19, False), (0.2, True), (0.3, False), (0.41, True)):
        file.unlink(missing_ok=True)
        monkeypatch.setattr(time, "monotonic", lambda seconds=seconds: 100.0 + seconds)
        progress.tick()
        assert file.exists() == is_written
    state = json.loads(file.read_text())
    counts = {"label": "demo", "total": 4, "done": 1, "failed": 0, "declined": 0, "cached": 0, "tokens": 1}
    assert {name: state[name] for name in counts} == counts and state["usd"] == 0.5
    assert (state["seconds"], state["left"]) == (pytest.approx(0.41), pytest.approx(3 * 0.41))
    sums = {"done": 1, "failed": 0, "declined": 0, "cached": 0, "uncounted": 1, "usd": 0.5}
    assert state["so_far"] == sums
    progress.tick(last=True)
    next_progress = progress_of(1)
    next_progress.add(Answer(status="refused", cost_usd=None))
    assert next_progress.state(101.0)["usd"] is None
    assert next_progress.so_far() == sums | {"done": 2, "declined": 1, "usd": None}
    monkeypatch.setenv(LIVE, str(tmp_path / "no" / "folder"))
    progress_of(1).tick(last=True)  # a file that cannot be written stops nobody


def test_a_line_is_for_whoever_looks_on(monkeypatch):
    "None where it is not wanted, none on a service that builds, and in a notebook none that is drawn over."
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setitem(sys.modules, "ipykernel", None)
    shows = lambda out, **fields: Progress("demo", 1, out=out, **fields).show
    assert shows(Tty()) and not shows([]) and not shows(Tty(), show=False)
    monkeypatch.delitem(sys.modules, "ipykernel")
    assert shows([])
    monkeypatch.setenv("CI", "1")
    assert not shows(Tty())


def test_the_last_line_of_a_call_is_shown_once(monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr(sys, "stderr", Tty())
    with FaultServer() as s:
        list(ask([q(i) for i in range(3)], MODEL, ep(s.url), cache=None))
    assert "".join(sys.stderr).count("3/3 done") == 1


def test_a_text_off_the_schema_that_is_read_has_not_failed(tmp_path, monkeypatch):
    monkeypatch.setenv(LIVE, str(tmp_path / "state.json"))
    schema = {"type": "object", "properties": {"label": {"enum": ["yes"]}}, "required": ["label"]}
    with FaultServer(every=lambda n, body: lambda _: (200, completion(body, "My label is yes."))) as server:
        for read, failed in ((True, 0), (False, 1)):
            about = {"schema": schema, "reads": lambda text, read=read: read}
            request = Request("a", [{"role": "user", "content": f"Is it? {read}"}], **about)
            (answer,) = ask([request], MODEL, ep(server.url), cache=None)
            told = json.loads((tmp_path / "state.json").read_text(encoding="utf-8"))
            assert (answer.status, told["done"], told["failed"]) == ("error", 1, failed)


# -- processes

SCRIPT = """
import json, sys
from mhbench.ask.client import ask
from mhbench.ask.request import Endpoint, Model, Request
url, cache, n, out = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
endpoint = Endpoint(name="e", base_urls=[url], identity="e", concurrency=8, timeout_s=5.0)
sampling = {"temperature": 0.0, "max_tokens": 5}
model = Model(name="m", endpoint="e", served="m-1", sampling=sampling, price={"prompt": 1.0, "completion": 2.0})
requests = (Request(f"id-{i}", [{"role": "user", "content": f"question {i}"}]) for i in range(n))
answers = list(ask(requests, model, endpoint, cache=cache, progress=False))
json.dump([[a.id, a.request_key, a.to_json()] for a in answers], open(out, "w"))
"""


def start(url, cache, n, out, root):
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, url, str(cache), str(n), str(out)], env={**os.environ, "PYTHONPATH": str(root)}
    )


def test_killed_at_half_at_most_those_in_flight_are_asked_again(tmp_path, root):
    with FaultServer(delay=0.02) as s:
        child = start(s.url, tmp_path / "c.sqlite", 400, tmp_path / "a.json", root)
        while len(s.answered) < 200 and child.poll() is None:
            time.sleep(0.002)
        assert child.poll() is None
        child.send_signal(signal.SIGKILL)
        child.wait()
        time.sleep(0.1)
        before = len(s.answered)
        assert start(s.url, tmp_path / "c.sqlite", 400, tmp_path / "a.json", root).wait() == 0
        assert 0 <= len(s.asked) - 400 <= 8, "eight were in flight"
        assert before >= 200
        assert start(s.url, tmp_path / "undisturbed.sqlite", 400, tmp_path / "b.json", root).wait() == 0
    assert json.loads((tmp_path / "a.json").read_text()) == json.loads((tmp_path / "b.json").read_text())


def test_two_processes_share_a_cache_and_agree(tmp_path, root):
    with FaultServer(delay=0.002) as s:
        two = [start(s.url, tmp_path / "c.sqlite", 300, tmp_path / f"{k}.json", root) for k in "ab"]
        assert [p.wait() for p in two] == [0, 0]
    assert json.loads((tmp_path / "a.json").read_text()) == json.loads((tmp_path / "b.json").read_text())
    with Cache(tmp_path / "c.sqlite") as c:
        assert len(c) == 300


# -- the disk


def test_a_full_disk_ends_the_run_with_an_error_and_keeps_what_was_saved(cache):
    with FaultServer() as s:
        run([q(i) for i in range(50)], s, cache=cache)
        pages = cache._db.execute("PRAGMA page_count").fetchone()[0]
        cache._db.execute(f"PRAGMA max_page_count = {pages + 4}")  # SQLite then fails as on a full disk
        with pytest.raises(CacheError, match="disk is full.*what was committed before is still there"):
            run([q(i) for i in range(2000)], s, cache=cache)
        n = len(s.asked)
        assert n < 1000, "nothing more is sent once it cannot be kept"
    held = len(cache)
    assert held >= 50
    with FaultServer() as s:
        cache._db.execute("PRAGMA max_page_count = 1000000")
        out = run([q(i) for i in range(400)], s, cache=cache)
        assert sum(a.cached for a in out) >= min(held, 400) - 8 and all(a.status == "ok" for a in out)


def test_a_cache_that_cannot_be_written_is_said_before_anything_is_sent(tmp_path, root):
    "As a user without the right to write (this test drops its own rights where it runs as root)."
    path = tmp_path / "there" / "cache.sqlite"
    with Cache(path) as c, FaultServer() as s:
        run([q(0)], s, cache=c)
    os.chmod(path, 0o444)
    os.chmod(path.parent, 0o555)
    for p in [tmp_path, *tmp_path.parents]:
        if p.stat().st_uid == os.getuid() and p != p.parent and str(p).startswith(os.path.realpath("/tmp") + "/"):
            os.chmod(p, p.stat().st_mode | 0o055)
    code = textwrap.dedent(f"""
        import os
        from mhbench.ask.cache import Cache, CacheError
        if os.getuid() == 0: os.setgroups([]); os.setgid(65534); os.setuid(65534)
        try: Cache({str(path)!r})
        except CacheError as e: print(e)
        with Cache({str(path)!r}, readonly=True) as c: print(len(c))
    """)
    out = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(root), "HOME": "/"},
        cwd="/",
    )
    os.chmod(path.parent, 0o755)
    assert "attempt to write a readonly database" in out.stdout or "unable to open" in out.stdout, out.stderr
    assert "MHBENCH_CACHE" in out.stdout and out.stdout.strip().endswith("1"), "and a replay still reads it"
