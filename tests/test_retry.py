"When requests are sent, put off, sent again or given up: with a clock that is set by hand."

import json
import math
from dataclasses import replace
from email.utils import formatdate

import pytest

from mhbench.ask.learning import Learner
from mhbench.ask.request import Endpoint, Model, Request, Terms, wire
from mhbench.ask.retry import REFUSALS, Failed, Job, Limiter, Patience, Queue, Replicas, pause, retry_after, verdict

ENDPOINT = Endpoint(name="e", base_urls=["http://localhost:1/v1"], max_attempts=3, patience_s=100.0, pause_s=2.0)


def job(place: int = 0, api: str = "chat", **more) -> Job:
    request = Request("q", [{"role": "user", "content": "?"}], **more)
    return Job(
        request, wire(request, Model(name="m", endpoint="e", served="s", api=api), ENDPOINT), Terms(), [(place, "q")]
    )


@pytest.mark.parametrize(
    ("status", "body", "word"),
    [
        (200, b"", "answer"),
        (201, b"", "refused"),
        (429, b"slow down", "wait"),
        (429, b"insufficient_quota", "refused"),
        (429, b"billing_hard_limit", "refused"),
        *((status, b"content_filter", "wait") for status in (498, 503, 529)),
        *((status, b"content_filter", "again") for status in (408, 409, 425, 500, 502, 504, 599)),
        (499, b"", "refused"),
        (400, b"content_filter", "filtered"),
        (400, b"content_policy", "filtered"),
        (400, b'{"error": {"message": "Content Exists Risk", "code": "invalid_request_error"}}', "filtered"),
        (400, b'{"error": {"code": "data_inspection_failed"}}', "filtered"),
        (400, b"Invalid prompt: your prompt was flagged as potentially violating our usage policy.", "filtered"),
        (403, b'{"error": {"code": 403, "metadata": {"reasons": ["self-harm"], "flagged_input": "..."}}}', "filtered"),
        (403, b"content_filter", "refused"),
        (400, b"", "refused"),
        (401, b"content_filter", "refused"),
    ],
)
def test_what_a_status_means(status, body, word):
    assert verdict(status, body) == word


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"Retry-After": "3"}, 3.0),
        ({"Retry-After": "-3"}, 0.0),
        ({"Retry-After": "inf"}, None),
        ({"Retry-After": "soon"}, None),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after-ms": "1500", "Retry-After": "3"}, 1.5),
        ({"retry-after-ms": "soon", "Retry-After": "3"}, 3.0),
        ({"Retry-After": formatdate(1_000_060, usegmt=True)}, 60.0),
        ({"Retry-After": formatdate(999_990, usegmt=True)}, 0.0),
        ({"Retry-After": "Wed, 99 Nov 2026 00:00:00 GMT"}, None),
    ],
)
def test_how_long_an_endpoint_asks_to_wait(headers, seconds):
    assert retry_after(headers, 1_000_000) == seconds


def test_a_pause_doubles_up_to_sixty_times_the_first():
    assert [pause(k) for k in (1, 2, 3, 6, 7, 8, 20)] == [0.5, 1, 2, 16, 30, 30, 30]
    assert [pause(k, first=2.0) for k in (1, 6, 7)] == [2, 64, 120] and pause(1, draw=0.0) == 0.25
    assert pause(1, 10.0) == 10.5 and pause(1, 10.0, 0.0) == 10.0 and pause(7, 10.0) == 30


def test_a_job_is_asked_once_more_for_json():
    for language, words in (
        ("en", "That is no JSON. Answer again with the JSON alone."),
        ("de", None),
        ("fr", "That is no"),
    ):
        j = job(language=language)
        assert j.body == j.wire.body and not j.repaired
        j.ask_for_json("so {", "no JSON")
        said = json.loads(j.body)["messages"]
        assert said[:2] == [{"role": "user", "content": "?"}, {"role": "assistant", "content": "so {"}]
        assert said[2]["role"] == "user" and said[2]["content"].startswith(words or "Das ist nicht das verlangte JSON")
        assert (j.repaired, j.error) == (True, "no JSON") and json.loads(j.wire.body)["messages"] == said[:1]
    text = job(api="completions")
    text.ask_for_json(" so { ", "no JSON")
    again = "\n\nThat is no JSON. Answer again with the JSON alone.\n"
    assert json.loads(text.body)["prompt"] == json.loads(text.wire.body)["prompt"] + " so {" + again
    responses = job(api="responses")
    responses.ask_for_json("x", "no JSON")
    assert [m["role"] for m in json.loads(responses.body)["input"]] == ["user", "assistant", "user"]
    assert job().shape == (False, False, ())
    assert job(letters=["A"], schema={"type": "object"}, sampling={"seed": 1}).shape == (True, True, ("seed",))


def test_new_jobs_go_in_turn_until_too_many_wait():
    q = Queue(1)
    assert q.next(0.0) == (None, math.inf)
    first, second, third = jobs = [job(k) for k in range(3)]
    q.new.extend(jobs)
    assert q.next(0.0) == (first, 0.0)
    q.take(first)
    q.put_off(first, 5.0)
    assert q.next(0.0) == (second, 0.0)  # one waits: no more than may
    q.take(second)
    q.put_off(second, 4.0)
    assert q.next(1.0) == (None, 3.0)  # two wait: nothing new
    assert q.next(4.0) == (second, 0.0)
    q.take(second)
    assert q.next(4.0) == (third, 0.0) and q.next(5.0) == (first, 0.0)
    q.put_off(second, 5.0)
    assert q.next(5.0) == (first, 0.0)  # of one time the one that was asked first
    assert q.clear() == [third, first, second] and q.next(9.0) == (None, math.inf)


def test_one_job_is_tested_alone():
    q = Queue(9)
    first, second, third = jobs = [job(k) for k in range(3)]
    q.new.append(third)
    q.test(first, 10.0)
    q.test(second, 20.0)
    assert [*q.new] == [first, third, second]
    assert q.next(8.0) == (None, 2.0) and q.next(10.0) == (first, 0.0)
    q.take(first)
    q.put_off(jobs[1], 0.0)
    assert q.next(11.0) == (None, math.inf)  # it is in flight
    q.came_back(third)
    assert q.next(11.0) == (None, math.inf)
    q.came_back(first)
    assert q.next(11.0) == (second, 0.0) and q.tested is None
    q.test(first, 0.0)
    assert q.clear()[0] is first and q.tested is None


def test_requests_and_tokens_a_minute_are_spread():
    l = Limiter(8, rpm=60, tpm=600)
    assert l.wait(0.0) == 0.0
    l.start(0.0, 20)  # a request a second, a token a tenth of one
    assert l.due == [1.0, 2.0] and l.wait(0.0) == 1.0 and l.wait(0.5) == 0.5 and l.wait(1.0) == 0.0
    l.correct(10)
    assert l.due == [1.0, 1.0] and l.wait(0.0) == 0.0
    l.start(0.0, 0)
    assert l.due == [2.0, 1.0]
    l.start(9.0, 5)
    assert l.due == [10.0, 9.5] and l.in_flight == 3
    free = Limiter(2)
    free.start(0.0, 1_000)
    assert free.due == [-math.inf, -math.inf] and free.wait(0.0) == 0.0
    free.start(0.0)
    assert free.wait(0.0) == math.inf
    free.end()
    assert free.wait(0.0) == 0.0 and free.in_flight == 1


def test_push_back_cuts_the_limit_once_and_then_shuts():
    l = Limiter(16)
    assert (l.least, l.most, l.limit) == (2, 16, 16.0)
    l.pushed_back(1.0, 0.0)
    assert l.limit == l.aim == pytest.approx(11.2) and l.streak == 1 and l.shut_since == 1.0
    l.pushed_back(2.0, 0.5)  # sent before the cut: no further one
    assert l.limit == pytest.approx(11.2) and l.streak == 2 and l.shut_since == 1.0
    l.pushed_back(3.0, 1.0)  # at the cut
    assert l.limit == pytest.approx(7.84) and l.streak == 3
    for k in range(3):
        l.pushed_back(4.0, 1.5)
    assert l.streak == 6 and l.opens == -math.inf
    l.pushed_back(5.0, 1.5)  # the seventh in a row, of seven that may be in flight
    assert (l.limit, l.walls, l.streak, l.opens) == (1.0, 1, 0, 5.5) and l.aim == pytest.approx(3.92)
    l.pushed_back(5.2, 5.1)  # sent before it opens
    assert l.walls == 1
    assert l.wait(5.2) == pytest.approx(0.3)
    l.pushed_back(6.0, 5.5)  # one is enough now
    assert (l.walls, l.opens, l.aim) == (2, 7.0, 2.0)
    l.pushed_back(8.0, 7.0, asked=3.0)
    assert (l.walls, l.opens) == (3, 11.0)
    l.pushed_back(20.0, 20.0)
    assert l.opens == 24.0  # half a second, doubled three times
    l.pushed_back(21.0, 23.9)
    l.pushed_back(30.0, 30.0)
    assert l.opens == 35.0 and l.walls == 5  # ten times at most
    l.answered()
    assert (l.limit, l.walls, l.streak, l.shut_since) == (2.0, 0, 0, None)  # up to the aim by one
    l.answered()
    assert l.limit == 2.5  # and then by its inverse
    l.limit = 15.99
    l.answered()
    assert l.limit == 16.0 and Limiter(7).least == 1 == Limiter(1).least


def test_three_in_a_row_shut_a_small_limit():
    l = Limiter(2)
    for now in (1.0, 2.0):
        l.pushed_back(now, 0.0)
    assert l.opens == -math.inf and l.limit == pytest.approx(1.4)
    l.pushed_back(3.0, 0.0)
    assert l.opens == 3.5 and l.aim == 1.0


def test_the_least_busy_replica_that_does_not_rest_is_taken():
    r = Replicas(["a/", "b", "c"])
    assert r.urls == ["a", "b", "c"] and [r.take(0.0) for _ in range(4)] == [0, 1, 2, 0]
    r.give(1, 0.0, False)
    assert (r.faults, r.rests[1], r.busy) == ([0, 1, 0], 2.0, [2, 0, 1])
    assert r.take(1.9) == 2 and r.take(2.0) == 1  # it rests for two seconds
    r.give(1, 2.0, False)
    assert r.rests[1] == 6.0
    for _ in range(6):
        r.busy[1] += 1
        r.give(1, 0.0, False)
    assert r.rests[1] == 60.0
    assert r.take(0.0, but=[0, 2]) == 1 and r.take(0.0, but=[0, 1, 2]) in (0, 2)
    r.give(1, 0.0, True)
    assert (r.faults[1], r.rests[1]) == (0, -math.inf)
    r = Replicas(["a", "b"])
    r.busy = [1, 1]
    r.faults = [1, 0]
    assert r.take(0.0) == 1


def patience(**more) -> Patience:
    return Patience(ENDPOINT.model_copy(update=more), Limiter(16, pause_s=2.0))


def test_faults_are_tried_again_as_often_as_the_entry_says():
    p, j = patience(), job()
    p.draw = lambda: 1.0
    assert p.next_try(j, Failed("again", "x"), 10.0) == 12.0
    assert p.next_try(j, Failed("again", "x", asked=20.0), 10.0) == 31.0
    assert p.next_try(j, Failed("again", "x"), 10.0) is None and j.faults == 3 and p.gone is None
    for kind in ("refused", "filtered"):
        assert p.next_try(job(), Failed(kind, "x"), 10.0) is None


def test_refusals_from_the_first_request_on_end_it():
    p, j = patience(), job()
    j.error = "HTTP 401"
    for _ in range(REFUSALS - 1):
        p.next_try(j, Failed("refused", "x", status=401), 0.0)
    p.next_try(j, Failed("refused", "x", status=400), 0.0)
    assert p.gone is None
    p.next_try(j, Failed("refused", "x", status=403), 0.0)
    assert p.gone == "the first 16 requests were all refused, HTTP 401" and REFUSALS == 16
    p.answered()
    assert (p.gone, p.reached, p.refused) == (None, True, 0)
    for _ in range(REFUSALS):
        p.next_try(j, Failed("refused", "x", status=404), 0.0)
    assert p.gone is None  # it has answered before


def test_an_endpoint_that_was_never_reached_is_given_up_and_another_waited_for():
    p, j = patience(max_attempts=2), job()
    j.error = "no connection"
    assert p.next_try(j, Failed("again", "x", unreached=True), 0.0) is not None and p.gone is None
    assert p.next_try(j, Failed("again", "x", unreached=True), 0.0) is None
    assert p.gone == "no connection (2 attempts)"
    p, j = patience(max_attempts=1), job()
    p.answered()
    failed = Failed("again", "x", unreached=True)
    assert p.next_try(j, failed, 0.0) is not None and failed.kind == "wait" and j.faults == 0


def test_push_back_is_waited_for_as_long_as_the_entry_says():
    p, j = patience(), job()
    p.draw = lambda: 0.0
    j.error, j.tries = "HTTP 429", 3
    assert p.next_try(j, Failed("wait", "x"), 10.0) == 14.0 and j.since == 10.0  # 2 s, doubled twice, half of it
    j.tries = 9
    assert p.next_try(j, Failed("wait", "x"), 20.0) == 28.0  # doubled three times at most
    assert p.next_try(j, Failed("wait", "x", asked=0.5), 20.0) == 21.0  # the first pause at least
    assert p.next_try(j, Failed("wait", "x", asked=90.0), 20.0) == 110.0 and j.since == 10.0 and p.gone is None
    p.limiter.answered()
    other = job()
    other.since, other.error = 10.0, "HTTP 429"
    assert p.next_try(other, Failed("wait", "x"), 111.0) is None and p.gone is None
    assert other.error == "put off for 101 s (patience_s is 100), HTTP 429"
    p.limiter.answered()
    assert p.next_try(job(), Failed("wait", "x", asked=100.0), 200.0) == 300.0
    p.limiter.answered()
    late = job()
    late.error = "HTTP 503"
    assert p.next_try(late, Failed("wait", "x", asked=101.0), 200.0) is None
    assert p.gone == "nothing but this for 0 s (patience_s is 100), HTTP 503"


def test_nothing_but_push_back_ends_it():
    p, j = patience(), job()
    j.error = "HTTP 429"
    p.next_try(job(), Failed("wait", "x"), 0.0)
    assert p.next_try(j, Failed("wait", "x"), 100.0) is not None and p.gone is None
    assert p.next_try(j, Failed("wait", "x"), 101.0) is None
    assert p.gone == "nothing but this for 101 s (patience_s is 100), HTTP 429"


def test_a_job_that_is_reworded_may_again_be_asked_once_more_for_json():
    j = job()
    learner = Learner(Model(name="m", endpoint="e", served="s"), ENDPOINT)
    j.ask_for_json("so {", "no JSON")
    learner.terms = replace(learner.terms, thinks=True)
    learner.reword(j)
    assert j.terms == learner.terms and j.body == j.wire.body and len(json.loads(j.body)["messages"]) == 1
    assert not j.repaired, "the second request for JSON went with the body that held it"
