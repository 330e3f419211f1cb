"The Batch API: resumed, partly failed, expired, never paid for twice; the same answers as the ordinary path."

import hashlib
import json
import os
from contextlib import suppress
from types import SimpleNamespace
from unittest.mock import patch

import pytest
from aiohttp import web
from asking import MODEL, ep, q
from faults.batch import BatchServer
from faults.server import FaultServer, answer_to

from mhbench.ask import batch as batches
from mhbench.ask.batch import (
    BatchUnreadable,
    ask_batch,
    batch_folder,
    load_state,
    read_line,
    save_state,
    write_parts,
)
from mhbench.ask.budget import Budget, BudgetReached
from mhbench.ask.cache import Cache
from mhbench.ask.client import Recorder, ask
from mhbench.ask.request import Request, Secrets, endpoint, wire


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


def test_a_line_that_counts_no_tokens_is_charged_what_was_reserved(cache):
    class Uncounted(BatchServer):
        def reply(self, body):
            return {name: value for name, value in super().reply(body).items() if name != "usage"}

    requests = [q(i) for i in range(3)]
    n_bytes = sum(len(w.body) for _, w in pairs_of(requests))
    budget = Budget(max_cost_usd=1.0)
    with Uncounted() as s:
        answers = batch(requests, s, cache, discount=0.5, budget=budget)
    assert [(a.uncounted, a.cost_usd) for a in answers] == [(1, None)] * 3
    assert budget.tokens == n_bytes + 3 * 5
    assert budget.cost_usd == pytest.approx((n_bytes * 1.0 + 3 * 5 * 2.0) / 2 / 1e6)


def test_a_line_that_is_paid_for_in_vain_is_in_the_cost_of_its_answer_and_in_the_budget(cache):
    "By hand: an answer has 10 and 5 tokens, so 20e-6 USD; a line costs half of it. Two direct ones repair the line's."
    schema = {"type": "object", "properties": {"label": {"enum": ["yes", "no"]}}, "required": ["label"]}
    repaired = lambda body: body["messages"][-1]["content"].startswith("That is not")
    budget = Budget(max_cost_usd=1.0)
    with BatchServer(say=lambda body: '{"label": "yes"}' if repaired(body) else "Yes.") as s:
        for _ in range(2):  # the second time from the cache, and the budget is charged no more
            (a,) = batch([q(0, schema=schema)], s, cache, discount=0.5, budget=budget)
            assert (a.status, a.prompt_tokens, a.completion_tokens, a.uncounted) == ("ok", 30, 15, 0)
            assert a.cost_usd == pytest.approx(50e-6) and len(s.direct) == 2
            assert budget.cost_usd == pytest.approx(50e-6) and budget.tokens == 45


# -- files and state, by hand


def pairs_of(requests, model=MODEL):
    "Requests as they are written into a batch."
    return [(request, wire(request, model, ep("http://x/v1"))) for request in requests]


def test_a_later_process_finds_the_folder_of_an_earlier_one(cache):
    "It is named by the model and eight digits of the SHA-256 of what answers, here of `e`."
    assert batch_folder(MODEL, ep("http://x/v1"), cache) == cache.path.parent / "batches" / "m-3f79bb7b"


def test_a_state_is_on_the_disk_before_it_takes_the_place_of_the_last(tmp_path, monkeypatch):
    "What stands in the new file when it is synchronised is all of it."
    parts = [{"file": "a.jsonl", "merged": False, "batch_id": f"batch-{k}"} for k in range(3)]
    (tmp_path / "a.jsonl").touch()
    n_bytes_synchronised = []
    monkeypatch.setattr(batches.os, "fsync", lambda f: n_bytes_synchronised.append(os.fstat(f).st_size))
    save_state(tmp_path, parts)
    assert n_bytes_synchronised == [(tmp_path / "state.json").stat().st_size]
    assert load_state(tmp_path) == parts and not (tmp_path / "state.json.new").exists()


def test_a_part_whose_file_is_gone_is_given_up_unless_its_answers_are_there(tmp_path, capfd):
    "Its questions are asked again, and that is said; a state that is none is refused."
    (tmp_path / "there.jsonl").touch()
    files = (("there.jsonl", False), ("gone.jsonl", True), ("gone.jsonl", False))
    save_state(
        tmp_path, [{"file": file, "merged": merged, "batch_id": str(k)} for k, (file, merged) in enumerate(files)]
    )
    parts = load_state(tmp_path)
    assert [(p["merged"], p.get("given_up")) for p in parts] == [(False, None), (True, None), (True, True)]
    assert "the batch 2 is given up, since gone.jsonl was deleted" in capfd.readouterr().err
    for text in ("{", '[{"merged": false}]', "[3]"):
        (tmp_path / "state.json").write_text(text)
        with pytest.raises(ValueError, match="state.json must hold the state of the batches; got"):
            load_state(tmp_path)


def test_a_part_is_named_by_its_content_and_keeps_what_reads_its_answers(tmp_path):
    "Its lines are in UTF-8, with their keys in order and without what a batch does not know."
    schema = {"type": "object", "properties": {}}
    request = Request("id", [{"role": "user", "content": "\u4f60"}], schema=schema, letters=["A", "B"], sample=1)
    [(_, w)] = pairs_of([request])
    [part] = write_parts([(request, w)], tmp_path / "folder")
    content = (tmp_path / "folder" / part["file"]).read_bytes()
    line = json.loads(content)
    assert list(line) == ["body", "custom_id", "method", "url"] and "\u4f60".encode() in content
    assert (line["custom_id"], line["method"], line["url"]) == (w.key, "POST", "/v1/chat/completions")
    assert line["body"] == {k: v for k, v in json.loads(w.body).items() if k != "stream"}
    sha256 = hashlib.sha256(content).hexdigest()
    assert part == {
        "file": f"{sha256[:16]}.jsonl",
        "sha256": sha256,
        "lines": 1,
        "file_id": None,
        "batch_id": None,
        "status": "written",
        "merged": False,
    }
    request_fields = json.loads((tmp_path / "folder" / f"{sha256[:16]}.asked.jsonl").read_text())
    assert Request(**request_fields) == Request(w.key, [], schema=schema, letters=["A", "B"], room=5)


def test_a_part_holds_no_more_lines_and_bytes_than_a_service_takes(tmp_path, monkeypatch):
    "OpenAI takes 50,000 lines and 200 MB, of which half is used; a line that is longer is a part of its own."
    assert (batches.PART_LINES, batches.PART_BYTES) == (50_000, 100_000_000)
    pairs = pairs_of([q(i) for i in range(5)])
    n_lines = lambda: [part["lines"] for part in write_parts(pairs, tmp_path)]
    assert n_lines() == [5]
    n_bytes = max(f.stat().st_size for f in tmp_path.glob("*.jsonl") if "asked" not in f.name) // 5
    for most_bytes, sizes in ((2 * n_bytes, [2, 2, 1]), (2 * n_bytes - 1, [1] * 5), (1, [1] * 5), (5 * n_bytes, [5])):
        monkeypatch.setattr(batches, "PART_BYTES", most_bytes)
        assert n_lines() == sizes
    monkeypatch.setattr(batches, "PART_LINES", 3)
    assert n_lines() == [3, 2] and write_parts([], tmp_path) == []


def test_a_line_costs_what_its_tokens_do_less_the_discount():
    "By hand: 10 and 3 tokens at 1 and 2 dollars a million, a quarter off; tokens nobody counts cost nothing if free."
    line = json.loads(line_of("x"))
    requests = {"k": Request("k", [])}
    for usage, price, cost_usd, uncounted in (
        ({"prompt_tokens": 10, "completion_tokens": 3}, MODEL.price, 12e-6, 0),
        ({"prompt_tokens": 10}, MODEL.price, None, 1),
        ({"prompt_tokens": 10}, {"prompt": 1.0, "completion": 0.0}, None, 1),
        ({}, {"prompt": 0.0, "completion": 0.0}, 0.0, 1),
    ):
        line["response"]["body"]["usage"] = usage
        model = MODEL.model_copy(update={"price": price})
        answer = read_line(json.dumps(line).encode(), requests, model, Secrets(), 0.25)
        assert (answer.cost_usd, answer.uncounted) == (pytest.approx(cost_usd) if cost_usd else cost_usd, uncounted)
        assert (answer.attempts, answer.request_key) == (1, "k")
    full_price = read_line(line_of("x"), requests, MODEL.model_copy(update={"price": {}}), Secrets())
    assert full_price.cost_usd is None


def test_an_error_in_a_line_is_told_in_part():
    "Three hundred characters of a message, and twenty of what should have been a letter."
    body = {"error": {"message": "x" * 400}}
    line = json.dumps({"custom_id": "k", "response": {"status_code": 500, "body": body}}).encode()
    assert read_line(line, {"k": Request("k", [])}, MODEL, Secrets()).error == "x" * 300
    line = json.dumps({"custom_id": "k", "error": {"message": "expired"}}).encode()
    assert read_line(line, {"k": Request("k", [])}, MODEL, Secrets()).error == "expired"
    letter_request = {"k": Request("k", [], letters=["A", "B"], room=1)}
    answer = read_line(line_of("0123456789" * 3, "length"), letter_request, MODEL, Secrets())
    assert answer.error == "no letter: it began '01234567890123456789'"
    text_request = {"k": Request("k", [], letters=["A", "B"], room=400)}
    assert read_line(line_of("Because"), text_request, MODEL, Secrets()).text == "Because", "a text was wanted"


# -- what is submitted, taken up and told


def test_a_batch_of_three_days_is_taken_up_and_an_older_one_is_not(cache, tmp_path, monkeypatch):
    "The service is asked for a hundred batches, the most that it lists."
    limits = []

    class Listing(BatchServer):
        async def list(self, http):
            limits.append(http.query["limit"])
            return await super().list(http)

    now = 1_800_000_000
    monkeypatch.setattr(batches, "time", SimpleNamespace(time=lambda: now, sleep=lambda seconds: None))
    with Listing() as s:
        batch([q(0)], s, cache)
        for k, (age, n_batches) in enumerate(((3 * 86_400 - 1, 1), (3 * 86_400, 2))):
            for b in s.batches:
                b["created_at"] = now - age
            with Cache(tmp_path / str(k) / "c.sqlite") as other_cache:
                batch([q(0)], s, other_cache)
            assert len(s.batches) == n_batches
    assert set(limits) == {"100"}


def test_a_batch_is_noted_before_it_is_looked_at(cache):
    "A process that ends at the first look knows the batch that it has created."

    class Forgetful(BatchServer):
        async def retrieve(self, http):
            return web.json_response({"error": {"message": "No such batch"}}, status=404)

    with Forgetful() as s:
        with pytest.raises(BatchUnreadable, match="got 404 for it, deleted or expired"):
            batch([q(0)], s, cache)
        [part] = load_state(batch_folder(MODEL, ep(s.url), cache))
    assert (part["batch_id"], part["file_id"], part["merged"]) == ("batch-0", "file-1", False)


def test_a_batch_that_failed_says_why(cache):
    "The service's first message, three hundred characters of it, before anything else that went wrong."

    class Failing(BatchServer):
        def finish(self, b):
            super().finish(b)
            b["errors"]["data"] = [{"message": "x" * 400}, {"message": "later"}]

    with Failing(end="failed") as s:
        batch([q(0)], s, cache)
        [part] = load_state(batch_folder(MODEL, ep(s.url), cache))
    assert part["reason"] == "x" * 300 and (part["answered"], part["unanswered"]) == (0, 1)


def test_a_line_that_is_none_is_named_by_its_number(cache):
    "The first of them, after the answers that can be read are kept, with the study that asked."

    class Torn(BatchServer):
        def finish(self, b):
            super().finish(b)
            lines = self.files[f"{b['id']}-output"].split("\n")
            self.files[f"{b['id']}-output"] = "\n".join([lines[0], "", "<html> " + "x" * 60, "[3]", *lines[1:]])

    with Torn() as s, pytest.raises(BatchUnreadable) as error:
        batch([q(i) for i in range(3)], s, cache, study="demo")
    assert "line 3 of batch-0-output is no JSON" in str(error.value) and f"'<html> {'x' * 33}'" in str(error.value)
    assert "3 of 3 answers could be read and are kept" in str(error.value)
    rows = list(cache.rows())
    assert {(r.model, r.endpoint, r.status, r.final, r.study) for r in rows} == {("m", "e", "ok", True, "demo")}


def test_the_states_of_batches_are_told_when_they_change(cache, monkeypatch, capsys):
    "Once for each change, every thirty seconds at most; not where nobody reads along."
    monkeypatch.delenv("CI", raising=False)
    pauses = []
    monkeypatch.setattr(batches.time, "sleep", pauses.append)
    with BatchServer(polls=4) as s:
        list(ask_batch([q(0)], MODEL, ep(s.url), cache=cache))
        assert capsys.readouterr().out == "m: batches {'in_progress': 1}\nm: batches {'completed': 1}\n"
        assert pauses == [30.0] * 3
        for environment, progress in (("1", True), ("", False)):
            monkeypatch.setenv("CI", environment)
            batch([q(2 + progress)], s, cache, progress=progress)
            assert capsys.readouterr().out == ""


def test_a_client_of_batches_sends_its_key_and_goes_nowhere_else(cache, tmp_path, monkeypatch):
    "Redirects are not followed, and the environment's proxies serve remote hosts alone."
    monkeypatch.setenv("BATCH_KEY", "k-1")
    for url, is_remote in (("http://localhost:1/v1", False), ("http://gateway.example/v1", True)):
        remote = ep(url, api_key_env="BATCH_KEY", timeout_s=7.0)
        client = batches.Batches(MODEL, remote, cache, tmp_path).client
        assert (client._client.follow_redirects, client._client.trust_env) == (False, is_remote)
        assert client._client.timeout.read == 7.0 and client.default_headers["Authorization"] == "Bearer k-1"


# -- its budget


def test_a_batch_fits_a_budget_at_its_discount_to_the_last_byte(cache):
    "By hand: a token has at least a byte, an answer has five tokens at most, and half of the price is taken off."
    requests = [q(i) for i in range(4)]
    n_bytes = sum(len(w.body) for _, w in pairs_of(requests))
    usd = (n_bytes * 1.0 + 4 * 5 * 2.0) / 2 / 1e6
    with BatchServer() as s:
        for limits in ({"max_cost_usd": 0.999 * usd}, {"max_tokens": n_bytes + 19}):
            with pytest.raises(BudgetReached, match=f"4 requests may take {usd:.6f} USD and {n_bytes + 20} tokens"):
                batch(requests, s, cache, discount=0.5, budget=Budget(**limits))
        endless = MODEL.model_copy(update={"sampling": {}})
        with pytest.raises(ValueError, match="sampling must have max_tokens where there is a budget; got none"):
            list(ask_batch(requests, endless, ep(s.url), cache=cache, budget=Budget(max_tokens=10**9)))
        assert not s.uploads
        budget = Budget(max_cost_usd=1.001 * usd, max_tokens=n_bytes + 20)
        batch(requests, s, cache, discount=0.5, budget=budget)
        assert (budget.cost_usd, budget.tokens) == (pytest.approx(4 * 10e-6), 4 * 15)
        batch(requests, s, cache, discount=0.5, budget=budget)
        assert budget.tokens == 60, "what is in the cache is paid for already"


def test_a_dry_run_of_a_batch_counts_and_submits_nothing(cache, monkeypatch):
    "Under the caller's study, with the usual cache where none is named."
    monkeypatch.setenv("MHBENCH_CACHE", str(cache.path))
    with BatchServer() as s, Recorder() as recorder:
        for store in (cache, None):
            answers = list(ask_batch([q(0), q(0, sample=1)], MODEL, ep(s.url), cache=store, study="demo"))
            assert [a.finish_reason for a in answers] == ["stand-in"] * 2
        assert not s.uploads
    assert [(c.study, c.plan.to_ask) for c in recorder.calls] == [("demo", 2), ("demo", 0)]
    messages_model = MODEL.model_copy(update={"api": "messages"})
    with pytest.raises(ValueError, match="delivery must be live for a model of api messages; got batch"):
        list(ask_batch([q(0)], messages_model, ep("http://x/v1"), cache=cache))
