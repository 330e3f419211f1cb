"""For any schedule of faults that ends, every item is answered exactly once, with its own answer, and the cache holds
exactly the answers given.
"""

import json
import subprocess
import sys
import tempfile
from collections import Counter

import pytest
from faults.server import FAULTS, FaultServer, answer_to
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mhbench.ask.cache import Cache
from mhbench.ask.client import ask
from mhbench.ask.request import Endpoint, Model, Request, wire
from mhbench.ask.retry import pause

QUICK = [f for f in FAULTS if f not in ("stall", "loris")]  # those two cost a timeout each
MODELS = {
    api: Model(name="m", endpoint="faulty", served="m", api=api, sampling={"max_tokens": 5})
    for api in ("chat", "completions")
}


def request(i, sample=0):
    return Request(f"id-{i}-{sample}", [{"role": "user", "content": f"question {i}"}], sample=sample)


def expected(faults):
    "(status, attempts) of an item that goes through these faults."
    for n, f in enumerate(faults, 1):
        if FAULTS[f] in ("refused", "filtered"):
            return ("filtered" if FAULTS[f] == "filtered" else "error"), n
    return "ok", len(faults) + 1


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("api", ["chat", "completions"])
def test_one_fault_then_the_answer(fault, api, tmp_path):
    model, name = MODELS[api], "question 0" if api == "chat" else "Question: question 0\nAnswer:"
    with FaultServer({name: [fault]}) as s, Cache(tmp_path / "c.sqlite") as cache:
        endpoint = Endpoint(name="faulty", base_urls=[s.url], identity="f", timeout_s=0.5, pause_s=0.01)
        (a,) = ask([request(0)], model, endpoint, cache=cache, progress=False)
        status, attempts = expected([fault])
        assert (a.status, a.attempts) == (status, attempts)
        assert a.text == (answer_to(name) if status == "ok" else None)
        assert len(s.asked) == attempts
        final = cache.get_many([a.request_key])
        assert len(final) == (status in ("ok", "filtered"))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    schedules=st.lists(st.lists(st.sampled_from(QUICK), max_size=4), min_size=1, max_size=12),
    repeats=st.lists(st.integers(0, 11), max_size=6),
    concurrency=st.integers(1, 8),
    api=st.sampled_from(["chat", "completions"]),
    replicas=st.integers(1, 3),
)
def test_any_schedule_of_faults_that_ends(schedules, repeats, concurrency, api, replicas):
    model = MODELS[api]
    name = lambda i: f"question {i}" if api == "chat" else f"Question: question {i}\nAnswer:"
    requests = [request(i) for i in range(len(schedules))] + [request(i % len(schedules)) for i in repeats]
    with (
        FaultServer({name(i): f for i, f in enumerate(schedules)}) as s,
        tempfile.TemporaryDirectory() as d,
        Cache(f"{d}/c.sqlite") as cache,
    ):
        endpoint = Endpoint(
            name="faulty",
            base_urls=[s.url] * replicas,
            identity="f",
            concurrency=concurrency,
            timeout_s=5.0,
            max_attempts=6,
            pause_s=0.001,
        )
        answers = list(ask(requests, model, endpoint, cache=cache, progress=False))
        assert [a.id for a in answers] == [r.id for r in requests], "every item once, in the order asked"
        for a, r in zip(answers, requests):
            i = int(r.id.split("-")[1])
            assert (a.status, a.attempts) == expected(schedules[i])
            assert a.text == (answer_to(name(i)) if a.status == "ok" else None), "an item's own answer"
        given_ = Counter(s.answered)
        assert set(given_.values()) <= {1}, "nothing answered is asked again"
        held = cache.get_many([wire(r, model, endpoint).key for r in requests])
        assert {json.loads(v.value)["text"] for v in held.values() if v.status == "ok"} == {
            answer_to(q) for q in given_
        }
        assert sum(v.status == "ok" for v in held.values()) == len(given_)
        replayed = list(ask(requests, model, endpoint, cache=cache, replay="only", progress=False))
        assert [(a.id, a.text, a.status, a.attempts, a.error) for a in replayed] == [
            (a.id, a.text, a.status, a.attempts, a.error) for a in answers
        ]


def test_every_second_request_is_429_and_none_is_lost(tmp_path):
    with FaultServer(every=lambda n, body: "429" if n % 2 else None) as s, Cache(tmp_path / "c.sqlite") as cache:
        endpoint = Endpoint(
            name="faulty", base_urls=[s.url], identity="f", concurrency=16, pause_s=0.01, max_attempts=1
        )
        answers = list(ask([request(i) for i in range(300)], MODELS["chat"], endpoint, cache=cache, progress=False))
        assert Counter(a.status for a in answers) == {"ok": 300} and len(cache) == 300
        assert len(s.answered) == 300


def test_pauses_double_to_a_minute_half_of_them_random_and_are_as_long_as_asked():
    assert [pause(n, draw=1.0, first=1.0) for n in (1, 2, 3, 7, 99)] == [1, 2, 4, 60, 60]
    assert pause(3, draw=0.0, first=1.0) == 2 and pause(1, draw=0.0) == 0.25
    assert pause(1, asked=10, draw=1.0) == pytest.approx(10.5) and pause(9, asked=1, first=1.0, draw=0.0) == 30


def test_the_clients_package_is_imported_by_the_first_request_alone(tmp_path):
    code = """
import sys
from mhbench.ask.client import ask
from mhbench.ask.request import Endpoint, Model, Request
model = Model(name="m", endpoint="e", served="m", sampling={"max_tokens": 5})
endpoint = Endpoint(name="e", base_urls=[sys.argv[1]], identity="f", pause_s=0.01, max_attempts=1)
one = [Request("id-0-0", [{"role": "user", "content": "question 0"}])]
print(*[a.status for a in ask(one, model, endpoint, cache=sys.argv[2], progress=False)])
print(*{"openai", "httpx2", "aiohttp"} & set(sys.modules))
"""
    with FaultServer() as s:
        said = [
            subprocess.run(
                [sys.executable, "-c", code, s.url, str(tmp_path / "c.sqlite")],
                capture_output=True,
                text=True,
                check=True,
            ).stdout.splitlines()
            for _ in range(2)
        ]
    assert [set(lines[1].split()) for lines in said] == [{"openai", "httpx2", "aiohttp"}, set()]
