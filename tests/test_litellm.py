"Endpoints of kind litellm: the library stood in for, and the library itself where it is installed."

import json
import os
import types
import urllib.request

import pytest
from faults.server import FaultServer, completion

from mhbench.ask.cache import Cache
from mhbench.ask.client import ask
from mhbench.ask.request import Endpoint, Model, Request
from mhbench.ask.request import endpoint as endpoint_of

LETTERS = ["A", "B"]


def model(**more):
    price = {"prompt": 1.0, "completion": 2.0}
    return Model(**{"name": "m", "endpoint": "e", "served": "bedrock/m-1", "price": price, **more})


def letter(i=0):
    return Request(f"id-{i}", [{"role": "user", "content": f"question {i}"}], {"max_tokens": 1}, letters=LETTERS)


def endpoint(**more):
    return endpoint_of("e", "litellm", pause_s=0.01, concurrency=1, **more)


class Refused(Exception):
    def __init__(self, status, message):
        super().__init__(message)
        self.status_code, self.message = status, message


class ContentPolicyViolationError(Refused):
    pass


class Library(types.ModuleType):
    "What the client uses of litellm."

    def __init__(self, answer):
        super().__init__("litellm")
        self.answer, self.asked, self.closed = answer, [], 0

    async def acompletion(self, **fields):
        self.asked.append(fields)
        got = self.answer(len(self.asked), fields)
        if isinstance(got, Exception):
            raise got
        return types.SimpleNamespace(model_dump_json=lambda: json.dumps(got))

    async def close_litellm_async_clients(self):
        self.closed += 1


def library(monkeypatch, answer):
    lib = Library(answer)
    monkeypatch.setitem(__import__("sys").modules, "litellm", lib)
    return lib


def test_what_is_on_this_machine_is_asked_past_the_proxy(monkeypatch):
    for name, value in (("no_proxy", "intranet.example"), ("NO_PROXY", "intranet.example"), ("http_proxy", "http://p")):
        monkeypatch.setenv(name, value)
    past = lambda host: bool(urllib.request.proxy_bypass_environment(host))
    assert [past(h) for h in ("127.0.0.1", "localhost")] == [False, False]
    hosts, seen = ("127.0.0.1", "localhost", "::1", "intranet.example", "service.example"), []

    def answer(n, fields):
        seen.append(([past(h) for h in hosts], os.environ["NO_PROXY"], os.environ["no_proxy"]))
        return completion(fields, "B")

    library(monkeypatch, answer)
    for _ in range(2):
        list(ask([letter()], model(), endpoint(), cache=None, progress=False))
    names = "intranet.example,localhost,127.0.0.1,::1"
    assert len(seen) >= 2 and all(s == ([True, True, True, True, False], names, names) for s in seen)
    assert os.environ["NO_PROXY"] == os.environ["no_proxy"] == "intranet.example", "and nobody else is affected"


def test_what_a_service_refuses_is_learnt_once_and_answers_are_cached(monkeypatch, tmp_path):
    def answer(n, fields):
        if "logprobs" in fields:
            return Refused(400, "litellm.UnsupportedParamsError: bedrock does not support parameters: ['logprobs']")
        if n == 2:
            return Refused(429, "litellm.RateLimitError: too many requests")
        return completion(fields | {"messages": fields["messages"]}, "B")

    lib = library(monkeypatch, answer)
    with Cache(tmp_path / "c.sqlite") as cache:
        got = list(ask([letter(i) for i in range(3)], model(), endpoint(), cache=cache, progress=False))
        n = len(lib.asked)
        again = list(ask([letter(i) for i in range(3)], model(), endpoint(), cache=cache, progress=False))
    assert [(a.status, a.text, a.letter_logprobs) for a in got] == [("ok", "B", None)] * 3
    assert all(a.cached for a in again) and len(lib.asked) == n == 5 and lib.closed == 1
    assert sum("logprobs" in f for f in lib.asked) == 2 and "no logprobs" in got[0].changed
    assert got[0].cost_usd == pytest.approx((10 * 1.0 + 5 * 2.0) / 1e6)
    sent = lib.asked[-1]
    assert (sent["model"], sent["num_retries"], sent["max_retries"]) == ("bedrock/m-1", 0, 0)
    assert "api_base" not in sent and "api_key" not in sent and lib.drop_params is False


def test_what_a_filter_stopped_is_filtered_and_no_key_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "abcdefgh-planted-key")

    def answer(n, fields):
        if "question 0" in fields["messages"][-1]["content"]:
            return ContentPolicyViolationError(400, "the content policy was violated")
        return Refused(401, "the key abcdefgh-planted-key is wrong")

    library(monkeypatch, answer)
    a, b = ask([letter(0), letter(1)], model(), endpoint(), cache=None, progress=False)
    assert (a.status, b.status) == ("filtered", "error")
    assert "abcdefgh" not in b.error and "litellm reads the key from the environment" in b.error


def test_without_the_library_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "litellm", None)
    with pytest.raises(ImportError, match=r"pip install 'mhbench\[litellm\]'"):
        list(ask([letter()], model(), endpoint(), cache=None, progress=False))


def test_an_endpoint_over_http_still_has_to_say_where_it_is():
    with pytest.raises(ValueError, match="base_urls must name where the endpoint is"):
        Endpoint(name="e")


def test_the_library_itself(monkeypatch):
    "Where litellm is installed: a server on loopback through it, which refuses log-probabilities."
    pytest.importorskip("litellm", reason="optional: pip install 'mhbench[litellm]'")

    def server(n, body):
        def reply(body):
            if body.get("logprobs"):
                return 400, {"error": {"message": "Unsupported parameter: 'logprobs'", "param": "logprobs"}}
            return 200, completion(body, "B") | {"id": "x", "created": 1, "model": body["model"]}

        return reply

    monkeypatch.setenv("MY_KEY", "sk-not-a-real-key")
    with FaultServer(every=server) as s:
        e = endpoint(base_urls=[s.url], api_key_env="MY_KEY")
        got = list(ask([letter(0), letter(1)], model(served="openai/m-1"), e, cache=None, progress=False))
        assert [(a.status, a.text) for a in got] == [("ok", "B")] * 2, got
        assert len(s.asked) == 3 and s.asked[-1]["model"] == "m-1"
        assert s.headers[-1]["authorization"] == "Bearer sk-not-a-real-key"
