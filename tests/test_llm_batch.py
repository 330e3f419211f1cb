"The Batch API: resumed, partly failed, expired, never paid for twice; the same answers as the ordinary path."

import json
from contextlib import suppress
from unittest.mock import patch

import pytest
from asking import MODEL, ep, q
from faults.batch import BatchServer
from faults.server import FaultServer, answer_to

from mhbench.ask import batch as batches
from mhbench.ask.batch import ask_batch, batch_folder, load_state
from mhbench.ask.budget import Budget, BudgetReached
from mhbench.ask.cache import Cache
from mhbench.ask.client import ask
from mhbench.ask.request import Request, Secrets, endpoint


def batch(requests, s, cache, discount=0.0, **more):
    endpoint = ep(s.url, batch_discount=discount)
    return list(ask_batch(requests, MODEL, endpoint, cache=cache, **{"poll_s": 0.01, "progress": False, **more}))


def interrupted(requests, s, cache):
    "A process that is stopped while it waits for its batch."
    with patch.object(batches.time, "sleep", side_effect=KeyboardInterrupt), suppress(KeyboardInterrupt):
        batch(requests, s, cache)
        raise AssertionError("it did not wait")


@pytest.fixture
def cache(tmp_path):
    with Cache(tmp_path / "c.sqlite") as c:
        yield c


def test_the_answers_of_the_ordinary_path_in_the_order_asked(cache, tmp_path, monkeypatch):
    monkeypatch.setattr(batches, "PART_LINES", 10)
    requests = [q(i) for i in range(30)] + [q(4, sample=1), q(4)]
    with BatchServer(polls=3) as s, FaultServer() as plain, Cache(tmp_path / "plain.sqlite") as other:
        got = batch(requests, s, cache, discount=0.5)
        want = list(ask(requests, MODEL, ep(plain.url), cache=other, progress=False))
        assert len(s.batches) == 4 and not s.direct
    same = ("id", "text", "status", "request_key", "prompt_tokens", "completion_tokens", "attempts", "finish_reason")
    assert [[getattr(a, f) for f in same] for a in got] == [[getattr(a, f) for f in same] for a in want]
    assert sum(a.cost_usd for a in got) == pytest.approx(sum(a.cost_usd for a in want) / 2)


def test_a_restart_takes_up_what_is_under_way_and_submits_only_what_is_new(cache):
    with BatchServer(polls=4) as s:
        interrupted([q(i) for i in range(5)], s, cache)
        assert load_state(batch_folder(MODEL, ep(s.url), cache))[0]["batch_id"] == "batch-0"
        got = batch([q(i) for i in range(8)], s, cache)  # three more than before
        assert [a.text for a in got] == [answer_to(f"question {i}") for i in range(8)]
        assert [len(s.files[b["input_file_id"]].splitlines()) for b in s.batches] == [5, 3] and not s.direct
        assert batch([q(i) for i in range(8)], s, cache) and len(s.batches) == 2


def test_what_a_batch_answers_is_kept_though_this_call_does_not_ask_for_it(cache):
    letters = {
        "content": [{"token": "A", "top_logprobs": [{"token": "A", "logprob": -0.1}, {"token": "B", "logprob": -2.5}]}]
    }
    with BatchServer(polls=3, say=lambda body: "A", logprobs=letters) as s:
        interrupted([q(0, letters=["A", "B"])], s, cache)
        batch([q(1)], s, cache)
        assert len(cache) == 2
        (got,) = batch([q(0, letters=["A", "B"])], s, cache)
    assert got.letter_logprobs == pytest.approx({"A": -0.1, "B": -2.5}) and len(s.batches) == 2


@pytest.mark.parametrize("end, direct", [("completed", 2), ("expired", 2), ("cancelled", 2), ("failed", 6)])
def test_what_a_batch_does_not_answer_takes_the_ordinary_path(cache, end, direct):
    with BatchServer(end=end, lose=["question 1", "question 4"], stray=True) as s:
        got = batch([q(i) for i in range(6)], s, cache)
        assert [a.text for a in got] == [answer_to(f"question {i}") for i in range(6)]
        assert len(s.direct) == direct and len(cache) == 6, "a stray answer is nobody's"
        part = load_state(batch_folder(MODEL, ep(s.url), cache))[0]
        assert part["merged"] and part["answered"] == 6 - direct and part["unanswered"] == direct and part["reason"]


@pytest.mark.parametrize("end, n_batches", [("completed", 1), ("failed", 2), ("expired", 2), ("cancelled", 2)])
def test_only_a_batch_that_may_have_answers_is_taken_up_by_another_folder(cache, tmp_path, end, n_batches):
    with BatchServer(end=end) as s, Cache(tmp_path / "other" / "c.sqlite") as other:
        batch([q(i) for i in range(3)], s, cache)
        got = batch([q(i) for i in range(3)], s, other)
        assert [a.text for a in got] == [answer_to(f"question {i}") for i in range(3)]
        assert len(s.batches) == n_batches


def test_json_that_does_not_fit_is_repaired_by_the_ordinary_path(cache):
    schema = {"type": "object", "properties": {"label": {"enum": ["yes", "no"]}}, "required": ["label"]}
    with BatchServer(
        say=lambda body: '{"label": "yes"}' if body["messages"][-1]["content"].startswith("That is not") else "Yes."
    ) as s:
        (got,) = batch([q(0, schema=schema)], s, cache)
    assert (got.status, got.data, got.attempts, len(s.direct)) == ("ok", {"label": "yes"}, 2, 2)


def test_a_failed_upload_is_tried_again_and_no_batch_is_made_twice(cache):
    with BatchServer(refuse_uploads=2) as s:
        assert batch([q(0)], s, cache)[0].status == "ok"
        assert (s.uploads, len(s.batches)) == (1, 1)


def test_a_budget_is_checked_before_anything_is_submitted(cache):
    with BatchServer() as s:
        with pytest.raises(BudgetReached, match="leave room for the batch"):
            batch([q(i) for i in range(100)], s, cache, budget=Budget(max_cost_usd=1e-6))
        assert not s.uploads
        budget = Budget(max_cost_usd=1.0)
        batch([q(i) for i in range(10)], s, cache, budget=budget)
        assert budget.cost_usd == pytest.approx(10 * 20e-6) and budget.tokens == 150, "no discount is assumed"


def test_no_key_in_the_folder(cache, tmp_path, monkeypatch):
    monkeypatch.setenv("PLANTED_KEY", "sk-planted-0123456789abcdef")
    with BatchServer() as s:
        list(ask_batch([q(0)], MODEL, ep(s.url, api_key_env="PLANTED_KEY"), cache=cache, poll_s=0.01, progress=False))
    assert not [f for f in tmp_path.rglob("*") if f.is_file() and b"sk-planted" in f.read_bytes()]


def test_a_discount_is_that_of_the_entry_and_of_the_services_that_are_known_to_give_it():
    assert endpoint("own", "openai").batch_discount == 0.5
    assert endpoint("own", "openai", base_urls=["http://gateway.example/v1"]).batch_discount == 0
    assert endpoint("own", "vllm", base_urls=["http://gateway.example/v1"]).batch_discount == 0


def line_of(text, finish="stop", key="k", status=200, **message) -> bytes:
    body = {"choices": [{"message": {"content": text, **message}, "finish_reason": finish}]}
    return json.dumps({"custom_id": key, "response": {"status_code": status, "body": body}}).encode()


@pytest.mark.parametrize(
    ("line", "status", "error"),
    [
        (line_of("x"), "ok", None),
        (line_of("x", reasoning="hm"), "ok", None),  # a thought that is through
        (line_of("x", "length", reasoning="hm"), "truncated", None),  # and one with a text behind it
        (line_of(None, "length", reasoning="hm"), "error", "a thought that was cut"),
        (line_of(""), "error", "an empty content"),
        (line_of("x", key="other"), "error", "an answer to a request that was not in the batch"),
        (line_of("x", status=500), "error", "choices"),
        (line_of("x", "later"), "error", "a malformed reply, finish_reason 'later'"),
    ],
)
def test_a_line_of_a_batch_is_an_answer_or_is_asked_again(line, status, error):
    got = batches.read_line(line, {"k": Request("k", [])}, MODEL, Secrets())
    assert got.status == status and (error or "") in (got.error or "") and bool(got.error) == bool(error)


def test_a_letter_of_a_batch_is_a_letter():
    asked = {"k": Request("k", [], letters=["A", "B"], room=1)}
    assert batches.read_line(line_of("B"), asked, MODEL, Secrets()).text == "B"
    assert (
        batches.read_line(line_of("Because", "length"), asked, MODEL, Secrets()).error
        == "no letter: it began 'Because'"
    )
    for bad in (b"[1]", b"{", b"[" * 100_000):
        with pytest.raises(ValueError):
            batches.read_line(bad, asked, MODEL, Secrets())


def test_the_client_tries_as_often_as_the_entry_says(cache, tmp_path):
    entry = endpoint("e", "openai", base_urls=["http://localhost:1/v1"], max_attempts=3, timeout_s=7.0)
    client = batches.Batches(MODEL, entry, cache, tmp_path, "s").client
    assert (client.max_retries, client.timeout) == (2, 7.0)  # the first one is no retry


def test_of_two_answers_to_one_request_none_is_kept(cache):
    class Twice(BatchServer):
        def finish(self, b):
            super().finish(b)
            key = f"{b['id']}-output"
            lines = self.files[key].split("\n")
            other = json.loads(lines[0])
            other["response"]["body"]["choices"][0]["message"]["content"] = "something else"
            self.files[key] = "\n".join([*lines, json.dumps(other), lines[1]])  # and one that is the same twice

    with Twice() as s:
        got = batch([q(i) for i in range(3)], s, cache)
        assert [a.text for a in got] == [answer_to(f"question {i}") for i in range(3)]
        assert s.direct == ["question 2"], "it is asked directly"
        (part,) = load_state(batch_folder(MODEL, ep(s.url), cache))
        assert (part["answered"], part["reason"]) == (2, "two answers to one request, which differ")


def test_an_answer_of_a_batch_that_counts_no_tokens_has_no_cost(cache):
    class Uncounted(BatchServer):
        def reply(self, body):
            return super().reply(body) | {"usage": {"prompt_tokens": 10}}

    with Uncounted() as s:
        (a,) = batch([q(0)], s, cache)
        assert (a.status, a.prompt_tokens, a.cost_usd) == ("ok", 0, None)
