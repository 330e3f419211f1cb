"Whatever bytes a server sends, a request ends as an answer or a counted failure; the cache is not trusted either."

import gzip
import json
import time
import tracemalloc
from functools import partial

import asking
import pytest
from asking import MODEL, q
from faults.server import FaultServer, answer_to, completion
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mhbench.ask.budget import Budget, BudgetReached
from mhbench.ask.cache import Cache, Row
from mhbench.ask.client import ask
from mhbench.ask.reply import Malformed, read_reply, words
from mhbench.ask.request import Answer, Request, wire
from mhbench.errors import NOTES, plain

ep = partial(asking.ep, max_attempts=2)


def run(requests, server, endpoint=None, **more):
    return asking.run(requests, server, endpoint=endpoint or ep(server.url), **more)


# -- every shape

LEAF = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**30), 10**30),
    st.floats(),
    st.text(st.characters(), max_size=8),
    st.sampled_from(["\ud83d", "many", "A", "<think>", "length", "stop", "content_filter", "", "{}", "NaN"]),
)
ANY = st.recursive(
    LEAF, lambda x: st.lists(x, max_size=3) | st.dictionaries(st.text(max_size=6), x, max_size=3), max_leaves=6
)
PART = st.fixed_dictionaries({}, optional={"type": ANY, "text": ANY, "thinking": ANY})
TOKEN = st.fixed_dictionaries(
    {},
    optional={
        "token": ANY,
        "logprob": ANY,
        "top_logprobs": st.lists(st.fixed_dictionaries({"token": ANY, "logprob": ANY}), max_size=3) | ANY,
    },
)
LOGPROBS = st.fixed_dictionaries(
    {},
    optional={
        "content": st.lists(TOKEN | ANY, max_size=3) | ANY,
        "tokens": ANY,
        "top_logprobs": ANY,
        "token_logprobs": ANY,
    },
)
MESSAGE = st.fixed_dictionaries(
    {},
    optional={"content": ANY | st.lists(PART, max_size=3), "refusal": ANY, "reasoning": ANY, "reasoning_content": ANY},
)
CHOICE = st.fixed_dictionaries(
    {},
    optional={
        "message": MESSAGE | ANY,
        "text": ANY,
        "finish_reason": ANY,
        "logprobs": LOGPROBS | ANY,
    },
)
USAGE = st.fixed_dictionaries(
    {}, optional={"prompt_tokens": ANY, "completion_tokens": ANY, "total_tokens": ANY, "completion_tokens_details": ANY}
)
REPLY = st.fixed_dictionaries(
    {},
    optional={"choices": st.lists(CHOICE | ANY, max_size=2) | ANY, "usage": USAGE | ANY, "error": ANY, "prompt": ANY},
)
REQUESTS = [
    q(0),
    q(0, letters=["A", "B"]),
    q(0, schema={"type": "object", "properties": {"a": {"type": "number"}}}),
]


@settings(max_examples=600, deadline=None, suppress_health_check=list(HealthCheck))
@given(reply=REPLY | ANY, which=st.sampled_from(range(3)), api=st.sampled_from(["chat", "completions"]))
def test_no_reply_raises_anything_but_malformed_and_what_it_gives_can_be_kept(reply, which, api):
    raw = json.dumps(reply).encode()
    try:
        got = read_reply(raw, REQUESTS[which], MODEL.model_copy(update={"api": api}))
    except Malformed as e:
        assert plain(str(e)) and all(0 <= n < 2**40 for n in e.tokens)
        return
    assert got.thought in (True, False) and got.listed in (True, False)
    assert Answer.from_json(got.to_json(), id=got.id) == got
    assert got.status in ("ok", "truncated", "filtered", "refused", "error")


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200) | st.binary(max_size=50).map(lambda b: b'{"choices": [' + b))
def test_no_bytes_raise_anything_but_malformed(raw):
    assert isinstance(words(raw), str)
    for request in REQUESTS:
        try:
            read_reply(raw, request, MODEL)
        except Malformed:
            pass


DEEP = b"[" * 200_000 + b"]" * 200_000
ODD = {
    "content is a list with a null": {"choices": [{"message": {"content": [{"type": "text", "text": None}]}}]},
    "a lone surrogate": b'{"choices": [{"message": {"content": "A \\ud83d"}}]}',
    "usage of many": {"choices": [{"message": {"content": "A"}}], "usage": {"prompt_tokens": "many"}},
    "usage is a list": {"choices": [{"message": {"content": "A"}}], "usage": [1]},
    "negative tokens": {"choices": [{"message": {"content": "A"}}], "usage": {"prompt_tokens": -10}},
    "10^30 tokens": {"choices": [{"message": {"content": "A"}}], "usage": {"completion_tokens": 10**30}},
    "finish_reason 7": {"choices": [{"message": {"content": "A"}, "finish_reason": 7}]},
    "reasoning is a list of objects": {"choices": [{"message": {"content": "A", "reasoning": [{"text": 5}]}}]},
    "nested 200,000 deep": DEEP,
    "nested inside": b'{"choices": ' + DEEP + b"}",
    "an integer of 6,000 digits": b'{"usage": {"prompt_tokens": ' + b"9" * 6000 + b"}}",
}
for name, value in {"null": None, "text": "high", "positive": 800.0, "NaN": float("nan")}.items():
    listed = [{"token": "A", "logprob": value}, {"token": "B", "logprob": -1.0}]
    content = [{"token": "A", "top_logprobs": listed}]
    ODD[f"a log-probability: {name}"] = {"choices": [{"message": {"content": "A"}, "logprobs": {"content": content}}]}


@pytest.mark.parametrize("name", ODD)
def test_one_odd_reply_is_one_failure_and_the_others_are_kept(tmp_path, name):
    raw = ODD[name] if isinstance(ODD[name], bytes) else json.dumps(ODD[name]).encode()
    with FaultServer({"question 3": [lambda body: (200, raw)] * 9}) as s, Cache(tmp_path / "c.sqlite") as cache:
        asked = [q(i, letters=["A", "B"]) for i in range(8)]
        endpoint = ep(s.url, top_logprobs=0 if "log" not in name else 20)
        first = run(
            asked, s, endpoint=endpoint, cache=cache, model=MODEL.model_copy(update={"sampling": {"max_tokens": 9}})
        )
        assert [a.status for a in first] == ["ok"] * 3 + ["error"] + ["ok"] * 4
        assert "malformed reply" in first[3].error
        n_sent = 1 if "finish_reason" in first[3].error else 2  # an end that is not known is asked once
        assert (n := len(s.asked)) == 7 + n_sent
        again = run(
            asked, s, endpoint=endpoint, cache=cache, model=MODEL.model_copy(update={"sampling": {"max_tokens": 9}})
        )
        assert len(s.asked) - n == n_sent and sum(a.cached for a in again) == 7, "the good answers are kept"


def test_a_log_probability_of_minus_infinity_is_an_ordinary_thing():
    top = [{"token": "A", "logprob": -0.1}, {"token": "B", "logprob": -9999.0}]
    logprobs = {"content": [{"token": "A", "top_logprobs": top}]}
    choice = {"message": {"content": "A"}, "finish_reason": "stop", "logprobs": logprobs}
    reply = {"choices": [choice]}
    got = read_reply(json.dumps(reply).encode(), q(0, letters=["A", "B"]), MODEL)
    assert got.bounded == ["B"] and got.letter_logprobs["A"] == pytest.approx(-0.1)


# -- a poisoned cache


@pytest.mark.parametrize(
    "poison",
    [
        {"prompt_tokens": -10},
        {"completion_tokens": 10**30},
        {"finish_reason": 7},
        {"reasoning": [{"x": 1}]},
        {"cost_usd": -0.1},
        {"letter_logprobs": {"A": "x"}},
        {"nonsense": 1},
    ],
)
def test_a_cached_answer_that_cannot_be_used_is_set_aside_named_and_asked_again(tmp_path, poison):
    with FaultServer() as s, Cache(tmp_path / "c.sqlite") as cache:
        (good,) = run([q(0)], s, cache=cache)
        key = good.request_key
        row = cache.get_many([key])[key]
        cache._db.execute("DELETE FROM answers")
        cache.put_many([Row(*row[:6], json.dumps(json.loads(row.value) | poison))])
        with pytest.warns(RuntimeWarning, match="cannot be used .* asked again"):
            (a,) = run([q(0)], s, cache=cache)
        assert (a.status, a.text, a.cached, len(s.asked)) == ("ok", answer_to("question 0"), False, 2)
        assert key[:16] in NOTES[-1]
        assert cache._db.execute("SELECT count(*) FROM aside").fetchone() == (1,)
        assert run([q(0)], s, cache=cache)[0].cached


# -- size


def sized(body, **headers):
    return lambda _: (200, body, headers)


def test_a_reply_is_given_up_at_its_limit_and_memory_stays_small():
    bomb = gzip.compress(b" " * (200 << 20), 9)
    with FaultServer(
        {"question 0": [sized(bomb, **{"Content-Encoding": "gzip"})] * 2, "question 1": [sized(b" " * (3 << 20))] * 2}
    ) as s:
        tracemalloc.start()
        out = run([q(0), q(1), q(2)], s, endpoint=ep(s.url, max_reply_bytes=2 << 20))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert [a.status for a in out] == ["error", "error", "ok"]
    assert all("more than 2 MiB (max_reply_bytes)" in a.error for a in out[:2])
    assert peak < 40 << 20, f"{peak / 2**20:.0f} MiB; the bomb alone has 200"


def test_a_packed_reply_is_read_as_ever_and_a_wrong_packing_is_malformed():
    good = json.dumps(completion({"messages": []}, "yes")).encode()
    with FaultServer(
        {
            "question 0": [sized(gzip.compress(good), **{"Content-Encoding": "gzip"})],
            "question 1": [sized(b"not gzip", **{"Content-Encoding": "gzip"})] * 2,
            "question 2": [sized(good, **{"Content-Encoding": "br"})] * 2,
        }
    ) as s:
        out = run([q(0), q(1), q(2)], s)
    assert (out[0].status, out[0].text) == ("ok", "yes")
    assert "not packed as it says" in out[1].error and "was not asked for" in out[2].error


# -- the budget, patience


def test_replies_that_cannot_be_used_are_counted():
    "Each of these costs 15 tokens; 300 allow 20 of them."
    budget = Budget(max_tokens=300)
    with FaultServer(every=lambda n, b: "null") as s:
        with pytest.raises(BudgetReached):
            run([q(i) for i in range(100)], s, endpoint=ep(s.url, max_attempts=6), budget=budget)
        assert budget.tokens == 15 * len(s.asked) <= 300


def test_an_endpoint_that_goes_away_costs_its_patience_once():
    with FaultServer(every=lambda n, b: "429" if n >= 5 else None) as s:
        began = time.monotonic()
        out = run([q(i) for i in range(200)], s, endpoint=ep(s.url, concurrency=2, patience_s=1.0, pause_s=0.05))
        took = time.monotonic() - began
    assert sum(a.status == "ok" for a in out) == 5 and sum(a.status == "error" for a in out) == 195
    assert took < 10, "one second of patience, not one for each of 195"
    assert "not asked any more: nothing but this for" in out[-1].error and "patience_s is 1" in out[-1].error


def test_an_endpoint_that_comes_back_in_time_answers_all():
    with FaultServer(every=lambda n, b: "503" if 5 <= n < 15 else None) as s:
        out = run([q(i) for i in range(60)], s, endpoint=ep(s.url, concurrency=2, patience_s=20.0))
    assert {a.status for a in out} == {"ok"}


@pytest.mark.parametrize("fault", ["401", "404"])
def test_an_endpoint_that_refuses_everything_is_not_asked_three_thousand_times(fault):
    with FaultServer(every=lambda n, b: fault) as s:
        out = run([q(i) for i in range(3000)], s)
        assert len(s.asked) <= 16 + 4
    assert {a.status for a in out} == {"error"} and "were all refused" in out[-1].error


def test_an_endpoint_that_was_never_there_fails_once_for_all():
    out = list(ask([q(i) for i in range(500)], MODEL, ep("http://127.0.0.1:9/v1"), cache=None, progress=False))
    assert {a.status for a in out} == {"error"} and sum(a.attempts for a in out) < 60, "not 1,000"


# -- in words


def test_a_redirect_says_where_to_and_is_not_followed():
    to = {"Location": "http://127.0.0.1:9/stolen"}
    with FaultServer({"question 0": [lambda b: (307, b"", to)]}) as s:
        (a,) = run([q(0)], s)
    assert a.status == "error" and "http://127.0.0.1:9/stolen" in a.error and "not followed" in a.error


def test_escape_sequences_of_an_error_do_not_reach_the_terminal():
    said = {"error": {"message": "x \x1b]0;PWNED\x07 \x1b[31mred \x1b[2J\u202e"}}
    with FaultServer({"question 0": [lambda b: (400, said)]}) as s:
        (a,) = run([q(0)], s)
    assert a.error == "400: x  red"


def test_404_names_the_nearest_models_and_401_the_variable(monkeypatch):
    monkeypatch.setenv("MY_KEY", "sk-abcdefgh12345")
    with FaultServer({"question 0": ["404"], "question 1": ["401"]}) as s:
        s.models = ["llama-3", "m-1-large", "whisper"]
        a, b = run([q(0), q(1)], s, endpoint=ep(s.url, api_key_env="MY_KEY"))
    assert "the endpoint offers m-1-large, llama-3, whisper" in a.error
    assert "the key was read from MY_KEY" in b.error


def test_a_question_that_is_no_unicode_is_refused_by_name():
    bad = Request("mine", [{"role": "user", "content": "cut \ud83d"}])
    with pytest.raises(ValueError, match="messages must be Unicode; got .*mine"):
        wire(bad, MODEL, ep("http://x/v1"))
