"""What endpoints refuse, as they really say it, lasting and stray and in any order: what is learnt, and from what not.

The bodies follow reports and documentation of the services (named beside each), in our words where a text is long.
"""

import asyncio
import json
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from asking import ep, plan
from faults.server import completion
from hypothesis import given, settings
from hypothesis import strategies as st
from test_negotiation import err, good, model

from mhbench.ask import learning, scheduler
from mhbench.ask.cache import Cache, export, import_file
from mhbench.ask.client import ask
from mhbench.ask.learning import FORGET_DAYS, keep_terms, learnt_terms, recall_terms
from mhbench.ask.request import Request, Terms
from mhbench.ask.transport import Reply, Transport
from mhbench.errors import NOTES

SAMPLING = {"temperature": 0.0, "seed": 0, "top_p": 0.9, "presence_penalty": 0.0}
CASE = "Her temperature of 38.5 fell; the seed of doubt, top_p, logprobs and presence_penalty are not supported. Which?"


def refuse(name, body, status=400):
    "A provider that refuses a parameter, however often it is asked."
    return lambda sent: (status, body) if name in sent else None


def detail(name, **more):  # pydantic's form
    return [
        {"type": "extra_forbidden", "loc": ["body", name], "msg": "Extra inputs are not permitted", "input": 0, **more}
    ]


def bare(message, code=400):  # vLLM and SGLang before they took OpenAI's envelope
    return {"object": "error", "message": message, "type": "BadRequestError", "param": None, "code": code}


# provider: (what it refuses, the parameter that is given up)
PROVIDERS = {
    "openai": (  # johny-b/llmcomp/issues/69
        refuse(
            "temperature",
            err(
                "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is"
                " supported.",
                "temperature",
                "unsupported_value",
            )[1],
        ),
        "temperature",
    ),
    "openai, by its code alone": (
        refuse("seed", err("This model does its own sampling.", "seed", "unsupported_parameter")[1]),
        "seed",
    ),
    "azure": (  # openai/openai-python/issues/433
        refuse("logprobs", err("Unrecognized request argument supplied: logprobs")[1]),
        "logprobs",
    ),
    "anthropic": (  # anomalyco/opencode/issues/28930
        lambda sent: (
            err("`temperature` and `top_p` cannot both be specified for this model. Please use only one.")
            if {"temperature", "top_p"} <= sent.keys()
            else None
        ),
        "top_p",
    ),
    "gemini": (  # GoogleCloudPlatform/generative-ai/issues/2947
        refuse(
            "logprobs",
            [
                {
                    "error": {
                        "code": 400,
                        "message": "Unable to submit request because Logprobs is not supported for this model.",
                        "status": "INVALID_ARGUMENT",
                    }
                }
            ],
        ),
        "logprobs",
    ),
    "gemini, an unknown name": (  # Vali-98/ChatterUI/issues/227
        refuse(
            "seed",
            [
                {
                    "error": {
                        "code": 400,
                        "message": 'Invalid JSON payload received. Unknown name "seed": Cannot find field.',
                    }
                }
            ],
        ),
        "seed",
    ),
    "mistral": (  # editor-code-assistant/eca/issues/231
        refuse(
            "seed",
            {
                "object": "error",
                "message": {"detail": detail("seed")},
                "type": "invalid_request_error",
                "param": None,
                "code": None,
            },
            422,
        ),
        "seed",
    ),
    "mistral, its proxy": (  # mistralai/platform-docs-public/issues/7
        refuse(
            "presence_penalty",
            {
                "object": "error",
                "message": json.dumps({"detail": detail("presence_penalty")}),
                "type": "internal_error_proxy",
                "param": None,
                "code": "1000",
            },
            422,
        ),
        "presence_penalty",
    ),
    "mistral, both fields": (  # partITech/php-mistral/issues/76
        refuse("seed", {"object": "Error", "detail": detail("seed"), "message": detail("seed"), "code": 3001}, 422),
        "seed",
    ),
    "together": (  # lmg-anon/mikupad/issues/55
        lambda sent: (
            err(f"{sent['top_logprobs']} is greater than the maximum of 1 - 'logprobs'", "logprobs")
            if sent.get("top_logprobs", 0) > 1
            else None
        ),
        1,
    ),
    "groq": (refuse("logprobs", err("`logprobs` is not supported with this model")[1]), "logprobs"),  # groq-python/25
    "fireworks": (
        lambda sent: err("top_logprobs must be less than or equal to 5") if sent.get("top_logprobs", 0) > 5 else None,
        5,
    ),
    "qwen": (  # huangdihd/programmer/issues/14
        lambda sent: (
            err(f"Invalid 'top_logprobs': {sent['top_logprobs']}. Expected an integer in range [0, 5]")
            if sent.get("top_logprobs", 0) > 5
            else None
        ),
        5,
    ),
    "deepseek": (  # lollipopkit/flutter_gpt_box/issues/213
        refuse(
            "presence_penalty",
            err("deepseek-reasoner does not support the parameter `presence_penalty`", code="invalid_request_error")[1],
        ),
        "presence_penalty",
    ),
    "openrouter": (
        refuse(
            "seed",
            {
                "error": {
                    "message": "Provider returned error",
                    "code": 400,
                    "metadata": {
                        "raw": json.dumps(
                            {"error": {"message": "Unsupported parameter: 'seed' is not supported with this model."}}
                        )
                    },
                }
            },
        ),
        "seed",
    ),
    "vllm": (refuse("logprobs", bare(str(detail("logprobs")))), "logprobs"),  # vllm-project/vllm/issues/3657
    "vllm, its limit": (
        lambda sent: (
            (400, bare(f"Requested sample logprobs of {sent['top_logprobs']}, which is greater than max allowed: 5"))
            if sent.get("top_logprobs", 0) > 5
            else None
        ),
        5,
    ),
    "sglang": (refuse("seed", {"detail": detail("seed")}, 422), "seed"),
    "one that knows no streams": (refuse("stream", {"detail": detail("stream")}, 422), "stream"),
    "llama.cpp": (
        refuse(
            "logprobs",
            {"error": {"code": 400, "message": "Unsupported param: logprobs", "type": "invalid_request_error"}},
        ),
        "logprobs",
    ),
    "tgi": (  # huggingface/text-generation-inference/issues/1236
        refuse(
            "temperature",
            {"error": "Input validation error: `temperature` must be strictly positive", "error_type": "validation"},
            422,
        ),
        "temperature",
    ),
    "ollama": (
        lambda sent: err("top_logprobs must be between 0 and 5") if sent.get("top_logprobs", 0) > 5 else None,
        5,
    ),
    "lm studio": (refuse("logprobs", {"error": "'logprobs' is not supported by this engine"}), "logprobs"),
    "litellm proxy": (  # BerriAI/litellm/pull/33738
        refuse(
            "temperature",
            err(
                "litellm.UnsupportedParamsError: gpt-5-nano doesn't support temperature=0.0 while reasoning is active."
                " Only temperature=1 is supported. To drop unsupported params set `litellm.drop_params = True`.",
                code="400",
            )[1],
        ),
        "temperature",
    ),
    "bedrock gateway": (  # skydiscover-ai/skydiscover/issues/15
        lambda sent: (
            err(
                'litellm.BadRequestError: BedrockException - {"message":"The model returned the following errors:'
                ' `temperature` and `top_p` cannot both be specified for this model. Please use only one."}',
                code="400",
            )
            if {"temperature", "top_p"} <= sent.keys()
            else None
        ),
        "top_p",
    ),
    "cohere": (
        refuse(
            "seed", {"id": "7", "message": "invalid request: unknown field: parameter 'seed' is not supported"}, 422
        ),
        "seed",
    ),
    "xai": (  # n8n-io/n8n/issues/14581: no envelope, and names in another spelling
        refuse(
            "presence_penalty",
            {
                "code": "Client specified an invalid argument",
                "error": "Argument not supported on this model: presencePenalty",
            },
        ),
        "presence_penalty",
    ),
    "everything": (lambda sent: None, None),
}
STRAY = {  # what passes: kind -> reply to one request
    "overloaded": lambda sent: (529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
    "a fault that echoes": lambda sent: (500, {"error": {"message": f"unsupported: {json.dumps(sent)}"}}),
    "a bad gateway": lambda sent: (502, "<html>parameter temperature is not allowed</html>"),
    "a page": lambda sent: (403, "<html>403: the parameter seed is not allowed by policy</html>"),
    "a gateway's JSON": lambda sent: (403, {"message": "Forbidden: parameter temperature is not allowed"}),
    "a route that is gone": lambda sent: (404, {"message": "no Route matched: unknown field seed"}),
    "asks to try again": lambda sent: err("temperature is not available right now, try again"),
    "looks as if it lasted": lambda sent: err(
        "Unsupported parameter: 'temperature'", "temperature", "unsupported_parameter"
    ),
    "quotes the prompt": lambda sent: err(f"Content not allowed: {CASE}"),
    "takes it once": good,
    "no log-probabilities": lambda sent: (200, completion(sent, "A")),
}


class Played(Transport):
    "A service in this process: what it refuses for good, and what goes wrong now and then."

    def __init__(self, endpoint, provider, stray, only=None):
        super().__init__(endpoint)
        self.provider, self.stray, self.only, self.asked = PROVIDERS[provider][0], stray, only, []

    def connect(self):
        self.clients = {"": self}

    async def offered(self, base):
        return []

    async def close(self):
        pass

    async def post(self, base, path, body, mine):
        sent = json.loads(body)
        prompt = sent["messages"][0]["content"]
        self.asked.append(prompt)
        waiting = self.stray.get(prompt, [])
        kind, ticks = waiting.pop(0) if waiting else (None, len(self.asked) % 3)
        for _ in range(ticks):
            await asyncio.sleep(0)
        refused = None if self.only not in (None, base) else self.provider(sent)
        status, said = STRAY[kind](sent) if kind else refused or good(sent)
        return Reply(status, {}, (said if isinstance(said, str) else json.dumps(said)).encode())


def case(i, letter):
    messages = [{"role": "user", "content": f"{CASE} ({i})"}]
    if letter:
        return Request(f"id-{i}", messages, {"max_tokens": 1}, letters=["A", "B"])
    return Request(f"id-{i}", messages, {"max_tokens": 300})


def played(monkeypatch, provider, cases, cache, stray=None, only=None, **more):
    "The answers of one call, and the service that gave them; `only` one of its replicas refuses."
    endpoint = ep("http://played/v1", pause_s=1e-4).model_copy(update=more)
    service = Played(endpoint, provider, stray or {}, only)
    monkeypatch.setattr(scheduler, "Transport", lambda *_: service)
    m = model(sampling=SAMPLING)
    answers = list(ask([case(i, letter) for i, letter in cases], m, endpoint, cache=cache, progress=False))
    return answers, service, recall_terms(cache, endpoint, m)


def lesson(provider):
    "The terms that a provider's refusal should teach."
    given_up = PROVIDERS[provider][1]
    if given_up == "logprobs" or isinstance(given_up, int):
        return Terms(top_logprobs=0 if given_up == "logprobs" else given_up)
    return Terms(dropped=(given_up,)) if given_up else Terms()


@pytest.mark.parametrize("provider", PROVIDERS)
def test_what_a_provider_refuses_for_good_is_learnt_from_its_own_words(provider, monkeypatch, tmp_path):
    with Cache(tmp_path / "c.sqlite") as cache:
        answers, service, terms = played(monkeypatch, provider, [(i, True) for i in range(8)], cache)
        assert terms == lesson(provider)
        assert {a.status for a in answers} == {"ok"} and len({tuple(a.changed) for a in answers}) == 1
        n = len(service.asked)
        assert n <= 8 + 2 * 4, "one is tested, and the others in flight come back"
        again, service, _ = played(monkeypatch, provider, [(i, True) for i in range(8)], cache)
        assert not service.asked and [a.text for a in again] == [a.text for a in answers]


@pytest.mark.parametrize("kind", STRAY)
@pytest.mark.parametrize("at", [0, 3])
def test_what_passes_teaches_nothing(kind, at, monkeypatch, tmp_path):
    NOTES.clear()
    with Cache(tmp_path / "c.sqlite") as cache:
        stray = {f"{CASE} ({at})": [(kind, 0)]}
        answers, _, terms = played(monkeypatch, "everything", [(i, True) for i in range(6)], cache, stray)
    assert terms == Terms() and not NOTES and not any(a.changed for a in answers)
    assert sum(a.status == "ok" for a in answers) >= 5


STRAYS = st.lists(st.tuples(st.sampled_from(list(STRAY)), st.sampled_from([0, 1, 3, 200])), max_size=3)
SCHEDULES = st.dictionaries(st.integers(0, 7), STRAYS)


def strays(drawn):
    "By prompt; the same stray twice running could not be told from a refusal that lasts."
    apart = {i: [k for n, k in enumerate(kinds) if n == 0 or kinds[n - 1][0] != k[0]] for i, kinds in drawn.items()}
    return {f"{CASE} ({i})": kinds for i, kinds in apart.items()}


@settings(max_examples=60, deadline=None)
@given(
    provider=st.sampled_from(list(PROVIDERS)),
    letters=st.lists(st.booleans(), min_size=8, max_size=8),
    schedules=st.tuples(SCHEDULES, SCHEDULES),
    first=st.integers(1, 8),
    concurrency=st.integers(1, 4),
    replicas=st.sampled_from(["one", "two", "two, of which one refuses"]),
)
def test_no_schedule_mixes_terms_or_learns_from_what_passes(provider, letters, schedules, first, concurrency, replicas):
    "Two calls, the second with more questions: whatever comes in between, and in whatever order."
    more = {
        "concurrency": concurrency,
        "base_urls": ["http://a/v1"] if replicas == "one" else ["http://a/v1", "http://b/v1"],
    }
    may = [Terms()] if replicas.endswith("refuses") else [Terms(), lesson(provider)]
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as d, Cache(f"{d}/c.sqlite") as cache:
        for n, drawn in zip((first, 8), schedules):
            stray = strays(drawn)
            waits = {prompt: sum(kind == "overloaded" for kind, _ in kinds) for prompt, kinds in stray.items()}
            cases = list(enumerate(letters))[:n]
            only = "http://a/v1" if replicas.endswith("refuses") else None
            answers, service, terms = played(patch, provider, cases, cache, stray, only, **more)
            assert terms in may
            for kind in (True, False):
                of = [a for a, (_, letter) in zip(answers, cases) if letter == kind and a.status == "ok"]
                assert len({tuple(a.changed) for a in of}) <= 1, "answers under two sets of terms"
            for prompt, asked in Counter(service.asked).items():
                assert asked <= 6 + 2 + waits.get(prompt, 0), "max_attempts, and once for the change of terms"


def test_refused_again_after_something_else_is_not_refused_twice(monkeypatch, tmp_path):
    stray = {f"{CASE} (0)": [(kind, 0) for kind in ("looks as if it lasted", "a fault that echoes") * 2]}
    with Cache(tmp_path / "c.sqlite") as cache:  # alone: nothing else is answered meanwhile
        (answer,), service, terms = played(monkeypatch, "everything", [(0, True)], cache, stray)
    assert (terms, answer.status, answer.changed, len(service.asked)) == (Terms(), "ok", [], 5)


def test_an_answer_that_was_in_flight_when_the_terms_changed_is_asked_for_anew(monkeypatch, tmp_path):
    with Cache(tmp_path / "c.sqlite") as cache:
        late = {f"{CASE} (1)": [("takes it once", 5000)]}
        answers, service, terms = played(monkeypatch, "sglang", [(0, True), (1, True)], cache, late, concurrency=2)
    assert terms == Terms(dropped=("seed",)) and [a.changed for a in answers] == [["no seed"]] * 2
    assert Counter(service.asked) == {f"{CASE} (0)": 3, f"{CASE} (1)": 2}


@pytest.mark.parametrize("old", [False, True])
def test_what_was_learnt_is_forgotten_with_time_but_not_in_the_middle_of_a_study(old, monkeypatch, tmp_path):
    began = time.time() - (FORGET_DAYS + 1) * 86400 * old
    gone = Terms(dropped=("temperature",))
    cases = [(i, True) for i in range(6)]
    with Cache(tmp_path / "c.sqlite") as cache:
        endpoint, m = ep("http://played/v1"), model(sampling=SAMPLING)
        monkeypatch.setattr(time, "time", lambda: began)
        keep_terms(cache, endpoint, m, gone)
        played(monkeypatch, "everything", cases[:3], cache)
        monkeypatch.undo()
        study, _, _ = played(monkeypatch, "everything", cases, cache)
        assert {tuple(a.changed) for a in study} == {("no temperature",)}, "the study goes on as it began"
        new = [case(i, True) for i in range(10, 14)]
        assert plan(new, m, endpoint, cache).to_ask == 4
        others, service, _ = played(monkeypatch, "everything", [(i, True) for i in range(10, 14)], cache)
        assert {tuple(a.changed) for a in others} == ({()} if old else {("no temperature",)})
        again, service, _ = played(monkeypatch, "everything", cases, cache)
        assert not service.asked and plan(new, m, endpoint, cache).cached == 4


def test_a_study_goes_on_with_its_terms_whatever_another_has_learnt_since(monkeypatch, tmp_path):
    with Cache(tmp_path / "c.sqlite") as cache:
        played(monkeypatch, "everything", [(i, True) for i in range(12)], cache)
        _, _, terms = played(monkeypatch, "openai", [(i, True) for i in range(20, 24)], cache)
        assert terms.dropped == ("temperature",)
        new = [(i, True) for i in range(1000, 1300)]  # more than are taken at once, before the old ones
        cases = [*new, *((i, True) for i in range(12))]
        assert plan([case(*one) for one in cases], model(sampling=SAMPLING), ep("http://played/v1"), cache).cached == 12
        study, service, _ = played(monkeypatch, "everything", cases, cache)
        assert len(service.asked) == 300 and not any(a.changed for a in study)
        again, service, _ = played(monkeypatch, "openai", [(i, True) for i in range(20, 24)], cache)
        assert not service.asked and {tuple(a.changed) for a in again} == {("no temperature",)}


@pytest.mark.parametrize(
    ("terms", "counts"),
    [
        (Terms(thinks=True, room=True), (3, 1)),
        (Terms(room=True), (2, 1)),
        (Terms(thinks=True), (2, 0)),
        (Terms(), (1, 1)),
        (Terms(dropped=("seed",)), (0, 0)),
    ],
)
def test_answers_count_under_terms_and_with_less_room(terms, counts, monkeypatch):
    "One request was answered under the plain terms, one with room for a text, one with room for a thought as well."
    key = lambda request, _, __, x: SimpleNamespace(key=(request, x.dropped, x.thinks, x.room))
    monkeypatch.setattr(learning, "wire", key)
    keys = {(0, (), False, False), (1, (), False, True), (2, (), True, True)}
    cache = SimpleNamespace(get_many=lambda wanted: {k: "" for k in wanted if k in keys})
    assert learning._count_answers_under(terms, range(4), None, None, cache) == counts


def test_what_is_tried_again_is_said_with_its_cost_before_it_is_paid(monkeypatch, tmp_path):
    endpoint, m = ep("http://played/v1"), model(sampling=SAMPLING, price={"prompt": 1.0, "completion": 1.0})
    with Cache(tmp_path / "c.sqlite") as cache:
        fresh = plan([case(1, True)] * 1, m, endpoint, cache)
        with monkeypatch.context() as patch:
            patch.setattr(time, "time", lambda: 0.0)
            keep_terms(cache, endpoint, m, Terms(dropped=("temperature",)))
        old = plan([case(1, True)], m, endpoint, cache)
        assert (fresh.again, old.again) == (0, 2) and old.cost_usd == pytest.approx(3 * fresh.cost_usd)
        NOTES.clear()
        played(monkeypatch, "everything", [(1, True)], cache)
        [note] = [note for note in NOTES if "tried again" in note]
        assert "tried again: temperature is left out" in note and "are sent twice" in note
        NOTES.clear()
        _, service, _ = played(monkeypatch, "everything", [(1, True)], cache)
        assert not service.asked and not NOTES, "nothing is tried where every answer is there"


def test_a_refusal_after_others_were_answered_ends_in_the_words_that_mend_it(monkeypatch, tmp_path):
    late = {f"{CASE} ({i})": [("looks as if it lasted", 0)] * 6 for i in (4, 5)}
    with Cache(tmp_path / "c.sqlite") as cache:
        answers, _, terms = played(monkeypatch, "everything", [(i, True) for i in range(6)], cache, late, concurrency=1)
    assert terms == Terms() and [a.status for a in answers] == ["ok"] * 4 + ["error"] * 2
    assert "not mixed" in answers[5].error and "endpoints.e" in answers[5].error and "refuses:" in answers[5].error


# -- what answered


@pytest.mark.parametrize("name", ["model", "provider", "system_fingerprint", "service_tier"])
def test_what_answered_is_kept_and_a_change_within_the_run_is_said(name, monkeypatch, tmp_path):
    NOTES.clear()
    who = {"model": "m-2", "provider": "P", "system_fingerprint": "fp_1", "service_tier": "default"}
    ours = {"system_fingerprint": "fingerprint", "service_tier": "tier"}.get(name, name)

    def served(sent):
        status, out = good(sent)
        return status, out | who | ({name: "another"} if "(5)" in sent["messages"][0]["content"] else {})

    monkeypatch.setitem(PROVIDERS, "named", (served, None))
    with Cache(tmp_path / "c.sqlite") as cache:
        for _ in range(2):  # asked, then read from the cache
            answers, _, _ = played(monkeypatch, "named", [(i, True) for i in range(6)], cache)
            assert {a.served[ours] for a in answers[:5]} == {who[name]} and answers[5].served[ours] == "another"
            assert {a.served["date"] for a in answers} == {f"{datetime.now(UTC):%Y-%m-%d}"}
            assert {a.served["thought"] for a in answers} == {"not seen"}
    assert any("not the same throughout" in note and "another (1)" in note for note in NOTES)


def test_the_answers_of_a_study_are_exported_with_their_terms_and_imported_beside_others(monkeypatch, tmp_path):
    endpoint, m = ep("http://played/v1"), model(sampling=SAMPLING)
    with Cache(tmp_path / "c.sqlite") as cache, Cache(tmp_path / "d.sqlite") as other:
        keep_terms(cache, endpoint, m, Terms(dropped=("seed",)))
        asked = [case(i, True) for i in range(3)]
        monkeypatch.setattr(scheduler, "Transport", lambda *_: Played(endpoint, "sglang", {}))
        list(ask(asked, m, endpoint, cache=cache, progress=False, study="mine"))
        list(ask([case(9, True)], m, endpoint, cache=cache, progress=False, study="another"))
        assert export(cache, tmp_path / "a.gz", study="mine") == 3
        keep_terms(other, endpoint, m, Terms(dropped=("top_p",)))
        import_file(other, tmp_path / "a.gz")
        again = list(ask(asked, m, endpoint, cache=other, progress=False, replay="only"))
        assert [a.status for a in again] == ["ok"] * 3 and {tuple(a.changed) for a in again} == {("no seed",)}
        assert {terms.dropped for _, terms in learnt_terms(other, endpoint, m)} == {("seed",), ("top_p",)}
