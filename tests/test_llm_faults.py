"""For any schedule of faults that ends, every item is answered exactly once, with its own answer, and the cache holds
exactly the answers given.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
from collections import Counter

import httpx2
import pytest
from asking import MODEL, ep, q
from faults.server import FAULTS, FaultServer, answer_to, completion
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mhbench.ask.cache import Cache
from mhbench.ask.client import ask
from mhbench.ask.learning import Learner
from mhbench.ask.reply import Malformed
from mhbench.ask.request import Endpoint, Model, Request, wire
from mhbench.ask.retry import Failed, pause
from mhbench.ask.transport import Reply, Transport, limited_client, offered_in_words, request_headers

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


# -- the transport, by hand


@pytest.mark.parametrize(
    ("api", "key", "headers"),
    [
        ("chat", "k-1", {"X-Title": "t", "X-Own": "v", "Authorization": "Bearer k-1"}),
        ("chat", None, {"X-Title": "t", "X-Own": "v"}),
        ("messages", "k-1", {"anthropic-version": "2023-06-01", "X-Title": "t", "X-Own": "v", "x-api-key": "k-1"}),
        ("messages", None, {"anthropic-version": "2023-06-01", "X-Title": "t", "X-Own": "v"}),
    ],
)
def test_headers_are_those_of_the_entry_and_the_key_where_the_api_has_it(monkeypatch, api, key, headers):
    "Secrets among them are known, so that they can be taken out of what comes back."
    monkeypatch.setenv("OWN_HEADER", " v ")
    monkeypatch.setenv("OWN_KEY", "k-1")
    entry = ep("http://x/v1", headers={"X-Title": "t"}, headers_env={"X-Own": "OWN_HEADER"})
    entry_headers, secrets = request_headers(entry.model_copy(update={"api_key_env": "OWN_KEY" if key else None}), api)
    assert entry_headers == headers and secrets.clean("k-1, v") == ("[key], [key]" if key else "k-1, [key]")
    entry._server = type("Server", (), {"key": "of the server"})()
    assert request_headers(entry)[0]["Authorization"] == "Bearer of the server"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("a key", None),
        ("", "nothing"),
        (" ", "nothing"),
        ("a\nb", "several lines"),
        ("a\x1fb", "several lines"),
    ],
)
def test_a_key_is_one_line(monkeypatch, value, words):
    "Without a character that ends it or controls a terminal; spaces may stand in it."
    monkeypatch.setenv("OWN_KEY", value)
    entry = ep("http://x/v1", api_key_env="OWN_KEY")
    if words is None:
        assert request_headers(entry)[0]["Authorization"] == f"Bearer {value}"
        return
    with pytest.raises(ValueError, match=f"OWN_KEY must hold the key to endpoint 'e'; got .*{words}; export OWN_KEY="):
        request_headers(entry)


def test_the_models_that_an_endpoint_offers_are_told_those_alike_first():
    "Eight of them: three at most that are alike, and then the others in their order."
    models = [f"x-{k}" for k in range(9)]
    assert offered_in_words("gpt", []) == ""
    assert offered_in_words("gpt", models[:8]) == f"the endpoint offers {', '.join(models[:8])}"
    assert offered_in_words("gpt", models) == f"the endpoint offers {', '.join(models[:8])} and 1 more"
    similar_models = ["gpt-4a", "gpt-4b", "gpt-4c", "gpt-4d"]
    words = offered_in_words("gpt-4", [*models, *similar_models])
    assert words.startswith("the endpoint offers gpt-4") and words.endswith(" and 5 more")
    assert words.count("gpt-4") == 3 and "x-4" in words and "x-5" not in words
    assert offered_in_words("abcd", ["zzzz", "abxy"]).endswith("abxy, zzzz")  # half alike is alike
    assert offered_in_words("abcde", ["zzzz", "abxyz"]).endswith("zzzz, abxyz")


def test_a_connection_is_opened_as_the_entry_says(monkeypatch):
    "Each base URL has a client of its own, which tries once, follows no redirect and unpacks two packings."
    monkeypatch.setenv("OWN_KEY", "k-1")
    urls = ["http://localhost:1/v1/", "http://models.example/v1"]
    for timeout_s, connect_s in ((7.0, 7.0), (99.0, 30.0)):
        transport = Transport(ep(urls, timeout_s=timeout_s, api_key_env="OWN_KEY", max_reply_bytes=2048))
        assert transport.clients == {}
        transport.connect()
        assert list(transport.clients) == ["http://localhost:1/v1", "http://models.example/v1"]
        for client, is_remote in zip(transport.clients.values(), (False, True)):
            http_client = client._client
            assert (client.max_retries, http_client.follow_redirects, http_client.trust_env) == (0, False, is_remote)
            assert (http_client.timeout.connect, http_client.timeout.read, http_client.most) == (connect_s, None, 2048)
            assert http_client.ours == {"Authorization": "Bearer k-1", "Accept-Encoding": "gzip, deflate"}
        assert transport.secrets.clean("k-1") == "[key]"
        asyncio.run(transport.close())
        assert all(client._client.is_closed for client in transport.clients.values())


def replied(body=b"{}", **headers):
    "What a client of at most a hundred bytes reads of a reply."
    client = limited_client()(
        transport=httpx2.MockTransport(lambda _: httpx2.Response(200, headers=headers, content=body))
    )
    client.ours, client.most = (), 100
    return asyncio.run(client.get("http://x/v1"))


def test_a_reply_is_read_to_its_limit():
    "To the byte, and in the packings that were asked for."
    assert len(replied(b" " * 100).content) == 100
    with pytest.raises(Malformed, match=r"a body of more than 9.54e-05 MiB \(max_reply_bytes\)"):
        replied(b" " * 101)
    with pytest.raises(Malformed, match="a packing that was not asked for, 'br'"):
        replied(**{"Content-Encoding": "br"})
    assert replied(**{"Content-Encoding": "identity"}).content == b"{}"


class Canned(Transport):
    "Gives one reply to every request."

    def __init__(self, status, raw=b"", headers=None, **settings):
        super().__init__(ep("http://x/v1", **settings))
        self.reply = Reply(status, headers or {}, raw)

    async def post(self, base, path, body, mine):
        return self.reply

    async def offered(self, base):
        return ["m-2"]


def failure_of(transport, model=MODEL) -> Failed:
    "How a request fails."
    job = Learner(model, transport.endpoint).job(q(0), 0)
    with pytest.raises(Failed) as error:
        asyncio.run(transport.ask(job, model, "http://x/v1"))
    return error.value


UNSUPPORTED = json.dumps(
    {"error": {"message": "Unsupported parameter: seed", "code": "unsupported_parameter"}}
).encode()
PASSING = json.dumps({"error": {"message": "seed is not supported right now"}}).encode()


@pytest.mark.parametrize(
    ("status", "raw", "kind", "text"),
    [
        (400, UNSUPPORTED, "refused", "Unsupported parameter: seed"),
        (422, b'{"detail": "seed not permitted"}', "refused", "seed not permitted"),
        (403, b'{"detail": "seed not permitted"}', "refused", ""),  # a gateway's, perhaps
        (403, UNSUPPORTED, "refused", "Unsupported parameter: seed"),
        (400, b"<p>seed not permitted</p>", "refused", ""),
        (400, PASSING, "again", "seed is not supported right now"),
        *((status, PASSING, "refused", "seed is not supported right now") for status in (401, 403, 404, 413)),
        (429, UNSUPPORTED, "wait", None),
        (500, UNSUPPORTED, "again", None),
    ],
)
def test_a_refusal_is_learnt_from_where_the_service_itself_gives_it(status, raw, kind, text):
    "By its status and its form; one that passes is sent again, unless its status says that it does not."
    failure = failure_of(Canned(status, raw, {"Retry-After": "3"}))
    assert (failure.kind, failure.status, failure.asked) == (kind, status, 3.0)
    assert (failure.refusal and failure.refusal.text) == text
    if text is not None:
        assert failure.refusal.code == ("unsupported_parameter" if raw is UNSUPPORTED else None)
        assert failure.refusal.body["max_tokens"] == 5 and failure.billed is False


def test_a_limit_cannot_be_renamed_where_the_api_has_its_own_name():
    "So that no refusal names it there."
    for api, has_limit in (("chat", True), ("completions", True), ("responses", False), ("messages", False)):
        model = MODEL.model_copy(update={"api": api})
        assert ("max_tokens" in failure_of(Canned(400, UNSUPPORTED), model).refusal.body) == has_limit


def test_an_answer_to_another_request_is_none():
    "A server may send back the number of the request; one that is not ours is no matter."
    answer_body = json.dumps(completion({"messages": []}, "A")).encode()
    failure = failure_of(Canned(200, answer_body, {"X-Request-Id": "mhb-0-1", "Retry-After": "2"}))
    assert (failure.kind, failure.asked) == ("again", 2.0) and "an answer to another request" in failure.words
    for number in ("req-1", None):
        transport = Canned(200, answer_body, {"X-Request-Id": number} if number else {})
        job = Learner(MODEL, transport.endpoint).job(q(0), 0)
        assert asyncio.run(transport.ask(job, MODEL, "http://x/v1")).text == "A"


@pytest.mark.parametrize(
    ("status", "raw", "words"),
    [
        (400, b'{"error": "' + b"x" * 2000 + b'"}', f"400: {'x' * 1000} ..."),
        (400, b'[{"msg": "' + b"x" * 2000 + b'"}]', f"400: {'x' * 1000} ..."),
        (500, b"x" * 2000, f"500: {'x' * 300} ..."),
        (299, b"x", "299: x"),
        (300, b"x", f"300: a redirect to {'y' * 200} ..., which is not followed, so that prompts go where base_urls"),
        (399, b"x", "399: a redirect to "),
        (401, b"x", "401: x; no key was sent: name its variable in api_key_env"),
        (403, b"x", "403: x; no key was sent"),
        (402, b"x", "402: x"),
        (404, b"x", "404: x; the endpoint offers m-2"),
    ],
)
def test_a_failure_is_explained_in_one_line(status, raw, words):
    "A thousand characters of a message, three hundred of a page, and what may be done."
    transport = Canned(status, raw, {"Location": "y" * 300})
    explanation = failure_of(transport).words
    assert explanation.startswith(words) and (status in (300, 399) or len(explanation) == len(words) or status == 403)


def test_of_a_key_that_is_refused_its_variable_is_named():
    "And never its value."
    failure = failure_of(Canned(401, b"x", api_key_env="OWN_KEY"))
    assert failure.words == "401: x; the key was read from OWN_KEY"


def test_the_models_of_an_endpoint_are_looked_up_once():
    "Five hundred of them; an endpoint that does not say has none."

    class Models:
        n_calls = 0

        async def list(self):
            Models.n_calls += 1
            return type("Page", (), {"data": [type("Entry", (), {"id": f"m-{k}"}) for k in range(600)]})

    transport = Transport(ep("http://x/v1"))
    transport.clients = {"here": type("Client", (), {"models": Models()})}
    names = [asyncio.run(transport.offered("here")) for _ in range(2)]
    assert names[0] == names[1] == [f"m-{k}" for k in range(500)] and Models.n_calls == 1
    silent_transport = Transport(ep("http://x/v1"))
    assert asyncio.run(silent_transport.offered("nowhere")) == []


def test_a_request_has_its_time_and_no_more():
    "A reply that does not come in time may be paid for."

    class Slow(Transport):
        async def post(self, *arguments):
            raise TimeoutError

    failure = failure_of(Slow(ep("http://x/v1", timeout_s=2.5)))
    assert (failure.kind, failure.words, failure.billed) == ("again", "no answer within 2.5 s", None)
    assert failure.unreached is False


def test_what_is_malformed_is_billed_and_sent_again_unless_it_would_be_so_again():
    "With the tokens that it counts; a stream that cannot be read is refused with a remedy."
    usage = {"prompt_tokens": 7, "completion_tokens": 2}
    body = {"choices": [], "usage": usage}
    failure = failure_of(Canned(200, json.dumps(body).encode()))
    assert (failure.kind, failure.billed, failure.tokens) == ("again", True, (7, 2))
    choice = completion({"messages": []}, "A")["choices"][0]
    failure = failure_of(Canned(200, json.dumps(body | {"choices": [choice] * 2}).encode()))
    assert (failure.kind, failure.billed, failure.tokens) == ("refused", True, (7, 2))
    failure = failure_of(Canned(200, b"data: {"))
    assert failure.kind == "refused" and failure.words.endswith("or name the service behind it in base_urls")
