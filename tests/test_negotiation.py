"Negotiation and thinking, against endpoints that behave as the services' documentation and users' reports show."

import json

import pytest
from asking import ep, plan
from faults.server import FaultServer, completion

from mhbench.ask.budget import Budget
from mhbench.ask.cache import Cache, export, import_file
from mhbench.ask.client import ask
from mhbench.ask.learning import Refusal, learn, recall_terms
from mhbench.ask.probe import Report, _letters_outcome, _model_and_endpoint_entries, check
from mhbench.ask.request import Answer, Endpoint, Model, Request, Terms, presets, wire
from mhbench.ask.request import endpoint as endpoint_of
from mhbench.errors import NOTES

SAMPLING = {"temperature": 0.0, "seed": 0}


def model(**more):
    price = {"prompt": 1.0, "completion": 2.0}
    return Model(**{"name": "m", "endpoint": "e", "served": "m-1", "sampling": SAMPLING, "price": price, **more})


def letter(i=0, **more):
    return Request(
        f"id-{i}", [{"role": "user", "content": f"question {i}"}], {"max_tokens": 1}, letters=["A", "B"], **more
    )


def err(message, param=None, code=None, status=400):
    return status, {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


def listed(body, text="A", n=20, finish="stop"):
    pairs = [("A", -0.1), ("B", -2.5), *((f"t{i}", -9.0) for i in range(n))][: body["top_logprobs"]]
    top = [{"token": t, "logprob": v} for t, v in pairs]
    out = completion(body, text, finish)
    out["choices"][0]["logprobs"] = {"content": [{"token": text, "logprob": -0.1, "top_logprobs": top}]}
    return 200, out


def good(body, room=1):
    "An answer: with log-probabilities where they are asked for, cut where there is no room for a text."
    if body.get("logprobs"):
        return listed(body)
    most = body.get("max_completion_tokens", body.get("max_tokens", 99))
    return 200, completion(body, "The answer is A" if most > 4 else "The", "stop" if most > 4 else "length")


# Each fake: what it refuses, in its own words, and what it takes.


def openai_thinking(body):  # https://github.com/griptape-ai/ComfyUI-Griptape/issues/312, johny-b/llmcomp/issues/69
    if "max_tokens" in body:
        words = (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
        )
        return err(words, "max_tokens", "unsupported_parameter")
    if body.get("logprobs"):
        return err("You are not allowed to request logprobs from this model", status=403)
    if body.get("temperature", 1) != 1:
        words = (
            "Unsupported value: 'temperature' does not support 0 with this model."
            " Only the default (1) value is supported."
        )
        return err(words, "temperature", "unsupported_value")
    out = completion(body, "B" if body.get("max_completion_tokens", 9999) > 200 else "", "stop")
    thought = {"reasoning_tokens": 200}
    if out["choices"][0]["message"]["content"] == "":
        out["choices"][0]["finish_reason"] = "length"
    out["usage"] = {
        "prompt_tokens": 10,
        "completion_tokens": 201,
        "total_tokens": 211,
        "completion_tokens_details": thought,
    }
    return 200, out


def azure(body):  # openai/openai-python/issues/1080
    if "logprobs" in body:
        return err("Unrecognized request argument supplied: logprobs")
    if "seed" in body:
        return err("Unrecognized request argument supplied: seed")
    return good(body)


def azure_data(body):  # openai/openai-python/issues/1468
    if "logprobs" in body:
        return 400, {
            "error": {"code": 400, "message": "Validation error at #/logprobs: Extra inputs are not permitted"}
        }
    return good(body)


def vllm_five(body):  # vllm/v1/engine: ValueError of the processor
    if body.get("top_logprobs", 0) > 5:
        words = f"Requested sample logprobs of {body['top_logprobs']}, which is greater than max allowed: 5"
        return 400, {"object": "error", "message": words, "type": "BadRequestError", "code": 400}
    return good(body)


def strict_fields(body):  # pydantic's form, as SGLang's and FastAPI's servers give it
    if "seed" in body:
        return 422, {
            "detail": [{"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}]
        }
    return good(body)


def llamacpp(body):
    if "logprobs" in body:
        words = "Unsupported param: logprobs"
        return 400, {"error": {"code": 400, "message": words, "type": "invalid_request_error"}}
    return good(body)


def ollama(body):  # server/routes.go; here with a lower cap, as a fork might have
    if body.get("top_logprobs", 0) > 5:
        return err("top_logprobs must be between 0 and 5")
    return good(body)


def together(body):  # stanford-crfm/helm/pull/2325
    if body.get("top_logprobs", 0) > 1:
        return err(f"{body['top_logprobs']} is greater than the maximum of 1 - 'logprobs'", "logprobs")
    return good(body)


def openrouter(body):  # openstory-so/openstory/issues/1317
    if "logprobs" in body or "seed" in body:
        words = (
            "No endpoints found that can handle the requested parameters. To learn more about provider routing,"
            " visit: ..."
        )
        return 404, {"error": {"message": words, "code": 404}}
    return good(body)


def openrouter_provider(body):
    if "logprobs" in body:
        raw = json.dumps({"error": {"message": "logprobs is not supported by this model"}})
        return 400, {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": raw}}}
    return good(body)


def gemini(body):  # Vali-98/ChatterUI/issues/227, mscraftsman/generative-ai/issues/135
    if "seed" in body:
        words = 'Invalid JSON payload received. Unknown name "seed": Cannot find field.'
        return 400, [{"error": {"code": 400, "message": words, "status": "INVALID_ARGUMENT"}}]
    if "logprobs" in body:
        return 400, [{"error": {"code": 400, "message": "Logprobs is not enabled for models/gemini-2.5-pro"}}]
    return good(body)


def anthropic(body):  # The-PR-Agent/pr-agent/issues/2456; log-probabilities are left out without a word
    if "temperature" in body:
        return err("`temperature` is deprecated for this model.")
    return good({k: v for k, v in body.items() if k not in ("logprobs", "top_logprobs", "seed")})


FAKES = {  # fake: (what is learnt, where letters come from)
    openai_thinking: (Terms((("max_tokens", "max_completion_tokens"),), ("temperature",), 0), "text"),
    azure: (Terms((), ("seed",), 0), "text"),
    azure_data: (Terms((), (), 0), "text"),
    vllm_five: (Terms((), (), 5), "log-probabilities"),
    strict_fields: (Terms((), ("seed",)), "log-probabilities"),
    llamacpp: (Terms((), (), 0), "text"),
    ollama: (Terms((), (), 5), "log-probabilities"),
    together: (Terms((), (), 1), "log-probabilities"),
    openrouter: (Terms((), ("seed",), 0), "text"),
    openrouter_provider: (Terms((), (), 0), "text"),
    gemini: (Terms((), ("seed",), 0), "text"),
    anthropic: (Terms((), ("temperature",), 0), "text"),
}


@pytest.mark.parametrize("fake", FAKES, ids=lambda f: f.__name__)
def test_what_an_endpoint_refuses_is_learnt_once_said_kept_and_never_tried_again(fake, tmp_path, capfd):
    want, source = FAKES[fake]
    NOTES.clear()
    with FaultServer(every=lambda n, b: fake) as s, Cache(tmp_path / "c.sqlite") as c:
        out = list(ask([letter(i) for i in range(30)], model(), ep(s.url), cache=c, progress=False))
        assert {a.status for a in out} == {"ok"}
        assert all((a.letter_logprobs is not None) == (source == "log-probabilities") for a in out)
        assert all(a.changed for a in out), "the rows say what the endpoint did not take"
        found = recall_terms(c, ep(s.url), model())
        assert (found.renamed, set(found.dropped), found.top_logprobs) == (
            want.renamed,
            set(want.dropped),
            want.top_logprobs,
        )
        assert len(s.asked) <= 30 + 4 * 4, "not more than a few rounds of what was in flight"
        assert "mhbench: m at e:" in capfd.readouterr().err and NOTES
        n = len(s.asked)
        more = [letter(i) for i in range(35)]
        assert plan(more, model(), ep(s.url), c).to_ask == 5
        again = list(ask(more, model(), ep(s.url), cache=c, progress=False))
        assert sum(a.cached for a in again) == 30 and len(s.asked) - n == 5, "never tried again"
        export(c, tmp_path / "x.gz")
    with Cache(tmp_path / "other.sqlite") as other:
        import_file(other, tmp_path / "x.gz")
        replayed = ask(more, model(), ep("http://127.0.0.1:9/v1"), cache=other, replay="only", progress=False)
        assert [a.status for a in replayed] == ["ok"] * 35


def test_answers_under_other_terms_have_other_keys():
    e = ep("http://x/v1")
    terms = [Terms(), Terms(dropped=("seed",)), Terms(top_logprobs=0), Terms(top_logprobs=5), Terms(thinks=True)]
    assert len({wire(letter(), model(), e, t).key for t in terms}) == 5


@pytest.mark.parametrize(
    "words",
    [
        "temperature must be between 0 and 2",
        "This model's maximum context length is 4096 tokens; you requested 5000 (max_tokens 1)",
        "Invalid 'messages[0].content': string too long",
        "The model `m-1` does not exist or you do not have access to it.",
        "Billing hard limit has been reached",
        "'max_tokens' is too large: 100000. This model supports at most 4096 completion tokens",
    ],
)
def test_an_error_about_something_else_teaches_nothing(words):
    body = {"model": "m", "messages": [], "temperature": 0, "max_tokens": 1, "logprobs": True, "top_logprobs": 20}
    assert learn(Refusal(400, words, body), Terms()) is None


def test_a_schema_that_is_refused_is_said_in_words():
    def fake(body):
        if body.get("response_format", {}).get("type") == "json_schema":
            words = "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model."
            return err(words)
        return 200, completion(body, '{"label": "Correct"}')

    schema = {"type": "object", "properties": {"label": {"enum": ["Correct"]}}}
    request = Request("v", [{"role": "user", "content": "right?"}], schema=schema)
    with FaultServer(every=lambda n, b: fake) as s:
        (a,) = ask([request], model(), ep(s.url), cache=None, progress=False)
        assert (a.data, a.changed) == ({"label": "Correct"}, ["response_format json_object"])
        assert "JSON schema" in s.asked[-1]["messages"][-1]["content"]


# -- what teaches nothing: an error that passes, one that quotes the prompt, a page, one replica of several

FEVER = "Her temperature of 38.5 falls; no seed of doubt is left, and nothing is unsupported or not allowed. Next step?"
PAGE = "<html><body>403 Forbidden: parameter temperature is not allowed by policy</body></html>"
STRAY = {
    "asks to try again": err("temperature is not available right now, try again"),
    "as lasting ones look": err("Unsupported value: 'temperature' does not support 0 with this model.", "temperature"),
    "quotes the prompt": err(f"Content not allowed: {FEVER}"),
    "quotes a part of it": err("Not allowed near 'temperature of 38.5 falls; no seed of d'"),
    "a gateway's page": (403, PAGE),
    "a page with 404": (404, PAGE),
    "a fault that quotes the request": (500, {"error": {"message": 'unsupported: {"max_tokens": 1, "seed": 0}'}}),
    "a fault that names a parameter": (500, {"error": {"message": "Unsupported param: max_tokens"}}),
}


def case(i):
    return Request(f"id-{i}", [{"role": "user", "content": f"{FEVER} ({i})"}], {"max_tokens": 8})


def plain(body):
    return 200, completion(body, "rest")


@pytest.mark.parametrize("at", [0, 5])
@pytest.mark.parametrize("name", STRAY)
def test_a_stray_error_changes_neither_this_run_nor_the_next(name, at, tmp_path, capfd):
    NOTES.clear()
    with FaultServer(every=lambda n, b: STRAY[name] if n == at else plain) as s, Cache(tmp_path / "c.sqlite") as c:
        first = list(ask([case(i) for i in range(12)], model(), ep(s.url), cache=c, progress=False))
        second = list(ask([case(i) for i in range(20)], model(), ep(s.url), cache=c, progress=False))
        assert recall_terms(c, ep(s.url), model()) == Terms() and not NOTES
        assert {b["temperature"] for b in s.asked} == {0.0} == {b["seed"] for b in s.asked} and len(s.asked) <= 22
    assert sum(a.status == "ok" for a in first) >= 11 and {a.status for a in second} == {"ok"}
    assert not any(a.changed for a in first + second) and "doubt" not in capfd.readouterr().err


def test_a_lasting_refusal_is_learnt_though_the_prompt_has_the_word(tmp_path, capfd):
    def refuses(body):
        return err(f"Unsupported parameter: temperature. You sent: {FEVER}") if "temperature" in body else plain(body)

    with FaultServer(every=lambda n, b: refuses) as s, Cache(tmp_path / "c.sqlite") as c:
        out = list(ask([case(i) for i in range(12)], model(), ep(s.url), cache=c, progress=False))
        assert recall_terms(c, ep(s.url), model()) == Terms(dropped=("temperature",))
        assert {a.status for a in out} == {"ok"} and len(s.asked) <= 12 + 4 + 1
    assert "doubt" not in capfd.readouterr().err, "the line about it repeats nothing of the prompt"


def test_one_replica_that_refuses_changes_nothing_for_the_others(tmp_path):
    def refuses(body):
        return err("Unsupported parameter: temperature", "temperature") if "temperature" in body else plain(body)

    with FaultServer(every=lambda n, b: refuses) as bad, FaultServer(every=lambda n, b: plain) as good:
        endpoint = Endpoint(name="e", base_urls=[bad.url, good.url], identity="e", concurrency=4, pause_s=0.01)
        with Cache(tmp_path / "c.sqlite") as c:
            out = list(ask([case(i) for i in range(20)], model(), endpoint, cache=c, progress=False))
            assert recall_terms(c, endpoint, model()) == Terms()
    assert {a.status for a in out} == {"ok"} and not any(a.changed for a in out) and len(bad.asked) >= 1


def test_a_parameter_that_was_taken_is_not_given_up_in_the_middle_of_a_run(tmp_path):
    def refuses(body):
        return err("Unsupported parameter: temperature", "temperature") if "temperature" in body else plain(body)

    with Cache(tmp_path / "c.sqlite") as c:
        with FaultServer(every=lambda n, b: plain if n < 6 else refuses) as s:
            one = list(ask([case(i) for i in range(12)], model(), ep(s.url), cache=c, progress=False))
            assert {a.status for a in one[:6]} == {"ok"} and {a.status for a in one[6:]} == {"error"}
            assert not any(a.changed for a in one)
        with FaultServer(every=lambda n, b: refuses) as s:
            two = list(ask([case(i) for i in range(12)], model(), ep(s.url), cache=c, progress=False))
            said = ep(s.url, refuses={"temperature": None})
            three = list(ask([case(i) for i in range(12)], model(), said, cache=c, progress=False))
    assert [a.status for a in two] == ["ok"] * 6 + ["error"] * 6 and not any(a.changed for a in two)
    assert {(a.status, *a.changed) for a in three} == {("ok", "no temperature")}, "said in the entry: all without it"


# -- thinking


def tagged(body):  # Qwen3 by vLLM without a reasoning parser: letters stand among the tokens at the place of the tag
    most = body.get("max_tokens", 9999)
    if most < 50:
        if body.get("logprobs"):
            return listed(body, "<think>", finish="length")
        return 200, completion(body, "<think>\nA? No", "length")
    return 200, completion(body, "<think>\nA? No, it must be B.\n</think>\n\nB")


def parsed(body):  # with a reasoning parser: a field of its own, and no content where it was cut
    most = body.get("max_tokens", 9999)
    if most < 50:
        code, out = (
            listed(body, "A", finish="length") if body.get("logprobs") else (200, completion(body, None, "length"))
        )
        out["choices"][0]["message"] = {"role": "assistant", "content": None, "reasoning_content": "A"}
        return code, out
    return 200, completion(body, "B", reasoning_content="A? No, it must be B.")


def counted(body):  # only the usage says so
    out = completion(
        body,
        "B" if body.get("max_tokens", 9999) > 50 else "",
        "stop" if body.get("max_tokens", 9999) > 50 else "length",
    )
    out["usage"]["completion_tokens_details"] = {"reasoning_tokens": min(40, body.get("max_tokens", 40))}
    return 200, out


@pytest.mark.parametrize("fake", [tagged, parsed, counted], ids=lambda f: f.__name__)
@pytest.mark.parametrize("own", [None, 512])
def test_a_model_that_thinks_is_given_room_and_read_after_the_thought(fake, own, tmp_path):
    m = model(sampling=SAMPLING | ({"max_tokens": own} if own else {}))
    with FaultServer(every=lambda n, b: fake) as s, Cache(tmp_path / "c.sqlite") as c:
        out = list(ask([letter(i) for i in range(12)], m, ep(s.url), cache=c, progress=False))
        assert {(a.status, a.text) for a in out} == {("ok", "B")}, "not A, which stands inside the thought"
        assert all(a.letter_logprobs is None and "room for a thought" in a.changed for a in out)
        assert s.asked[-1]["max_tokens"] == (own or 4096) and "logprobs" not in s.asked[-1]
        n = len(s.asked)
        assert n <= 12 + 4
        list(ask([letter(i) for i in range(12)], m, ep(s.url), cache=c, progress=False))
        assert len(s.asked) == n
    if fake is counted:
        assert out[0].thinking_tokens >= 40 and out[0].completion_tokens >= 5


def test_a_chain_of_thought_that_the_mode_cuts_is_given_the_entrys_room():
    request = Request("cot", [{"role": "user", "content": "question 0"}], {"max_tokens": 40})
    with FaultServer(every=lambda n, b: tagged) as s:
        (a,) = ask([request], model(), ep(s.url), cache=None, progress=False)
        assert (a.status, a.text, [b["max_tokens"] for b in s.asked]) == ("ok", "B", [40, 4096])


def test_the_entrys_limit_goes_before_the_modes():
    e = ep("http://x/v1")
    thinking = model(sampling={"max_completion_tokens": 2000})
    body = json.loads(wire(letter(), thinking, e).body)
    assert body["max_completion_tokens"] == 2000 and "max_tokens" not in body
    roomy = Request("r", [{"role": "user", "content": "q"}], room=100)
    assert json.loads(wire(roomy, model(sampling={"max_tokens": 512}), e).body)["max_tokens"] == 512
    assert json.loads(wire(roomy, model(), e).body)["max_tokens"] == 100
    assert json.loads(wire(letter(), model(thinking=True), e).body)["max_tokens"] == 4096


def test_thinking_tokens_that_stand_in_the_total_alone_are_paid_for():
    def fake(body):
        out = completion(body, "B")
        out["usage"] = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 315}
        return 200, out

    with FaultServer(every=lambda n, b: fake) as s:
        (a,) = ask([Request("x", [{"role": "user", "content": "q"}])], model(), ep(s.url), cache=None, progress=False)
    assert a.completion_tokens == 305 and a.cost_usd == pytest.approx((10 * 1.0 + 305 * 2.0) / 1e6)


# -- prices, presets, the check


def test_an_unknown_price_is_unknown_and_a_budget_of_money_refuses_it():
    m = model(price={})
    with FaultServer() as s:
        (a,) = ask([Request("x", [{"role": "user", "content": "q"}])], m, ep(s.url), cache=None, progress=False)
        assert a.cost_usd is None and plan([letter()], m, ep(s.url), None).cost_usd is None
        with pytest.raises(ValueError, match="price must be known where money is limited; got none .model m"):
            ask_all = ask([letter()], m, ep(s.url), cache=None, progress=False, budget=Budget(max_cost_usd=1e-6))
            list(ask_all)
        assert len(s.asked) == 1


@pytest.mark.parametrize("kind", presets())
def test_each_preset_makes_an_endpoint(kind):
    own = {"base_urls": ["https://me.invalid/v1"]} if kind == "azure" else {}
    e = endpoint_of("x", kind, **own)
    assert e.base_urls[0].startswith("http") and (e.api_key_env or "localhost" in e.base_urls[0])


@pytest.mark.parametrize("fake", [openai_thinking, vllm_five, gemini, tagged], ids=lambda f: f.__name__)
def test_a_check_tells_what_works_and_gives_an_entry_that_asks_rightly_at_once(fake):
    def whole(body):
        code, out = fake(body)
        if code == 200 and body.get("response_format") and out["choices"][0]["finish_reason"] == "stop":
            out["choices"][0]["message"]["content"] = '{"label": "Correct"}'
        return code, out

    with FaultServer(every=lambda n, b: whole) as s:
        report = check(model(), ep(s.url))
        assert report.ok, str(report)
        assert report.letters_from == ("log-probabilities" if fake is vllm_five else "text")
        assert report.usd_per_thousand["letter"] > 0 and "models:" in report.entry()
        settings = dict(report.endpoint_entry)
        e = endpoint_of("e", settings.pop("kind"), **settings)
        m = Model(name="m", **report.model_entry)
        s.asked.clear()
        request = letter(sample=0) if not m.thinking else Request("id", letter().messages, letters=["A", "B"])
        (a,) = ask([request], m, e, cache=None, progress=False)
        assert a.status == "ok" and len(s.asked) == 1, "nothing is left to find out"


def out_of_sight(body):  # the reasoning is hidden, and so is its count: nothing comes until there is room
    if body.get("max_tokens", 9999) < 1000:
        return 200, completion(body, "", "length")
    return 200, completion(body, '{"label": "Correct"}' if body.get("response_format") else "B")


def test_a_check_of_a_model_that_thinks_out_of_sight_gives_the_entry_that_reads_it():
    with FaultServer(every=lambda n, b: out_of_sight) as s:
        report = check(model(), ep(s.url))
        assert report.ok and report.model_entry["thinking"] is True, str(report)


def test_a_check_prices_a_letter_by_what_a_study_would_send_and_not_by_what_was_tried():
    def without_logprobs(body):
        text = '{"label": "Correct"}' if body.get("response_format") else "B"
        return 200, completion(body, text) | {"usage": {"prompt_tokens": 40, "completion_tokens": 2}}

    with FaultServer(every=lambda n, b: without_logprobs) as s:
        report = check(model(), ep(s.url))
    assert (report.letters_from, report.tokens["letter"]) == ("text", (40, 2)), str(report)


def test_a_check_says_of_what_the_tokens_are_unknown():
    uncounted = lambda body: (200, completion(body, "B") | {"usage": {"prompt_tokens": 40}})
    with FaultServer(every=lambda n, b: uncounted) as s:
        report = check(model(), ep(s.url))
    unknown = "a thousand like verdict, sentence, letter: unknown, since no reply counts its tokens"
    assert report.tokens == {} and unknown in str(report).replace(
        "letter, verdict, sentence", "verdict, sentence, letter"
    )


@pytest.mark.parametrize(("named", "said"), [("m-1", False), ("another", True), (None, False), ("/srv/q4.gguf", False)])
def test_a_check_says_which_model_answers_where_another_was_asked_for(named, said):
    reply = lambda body: (200, completion(body, "B") | {"model": named})
    served = named if named and named.startswith("/") else "m-1"
    with FaultServer(every=lambda n, b: reply) as s:
        report = check(model(served=served), ep(s.url))
    words = "replies are from another, by their own words; m-1 was asked for"
    assert (report.answers_as, words in str(report)) == (["another"] if said else [], said)


def test_a_check_asks_anew_and_forgets_what_was_learnt(tmp_path):
    file = tmp_path / "cache.sqlite"
    with FaultServer(every=lambda n, b: openai_thinking) as s:
        assert check(model(), ep(s.url), cache=file).ok
        with Cache(file) as cache:
            assert recall_terms(cache, ep(s.url), model()).dropped
    assert not check(model(), ep(s.url, max_attempts=1, patience_s=0.1), cache=file).ok, "nobody answers"
    with Cache(file) as cache:
        assert recall_terms(cache, ep(s.url), model()).dropped, "and nothing is forgotten"
    with FaultServer(every=lambda n, b: good) as s:  # the service takes everything now
        e = ep(s.url).model_copy(update={"identity": "e"})
        assert check(model(), e, cache=file).ok
        with Cache(file) as cache:
            assert not recall_terms(cache, e, model()).dropped
    gone = ep(s.url, max_attempts=1, patience_s=0.1).model_copy(update={"identity": "e"})
    assert not check(model(), gone, cache=file).ok, "nobody answers there any more"


def test_an_entry_does_not_repeat_what_its_kind_refuses_already():
    here = ep("http://x", refuses={"seed": None})
    terms = Terms(dropped=("seed", "stop"), renamed=(("max_tokens", "max_completion_tokens"),))
    learnt = {"stop": None, "max_tokens": "max_completion_tokens"}
    said, where = _model_and_endpoint_entries(
        model(sampling={"seed": 1, "max_tokens": 9}), here, terms, {"kind": "some preset"}
    )
    assert where == {"kind": "some preset", "refuses": learnt}
    assert said["sampling"] == {"max_completion_tokens": 9}
    assert _model_and_endpoint_entries(model(), here, terms, None)[1]["refuses"] == learnt | {"seed": None}


def test_what_came_instead_of_a_letter_is_quoted_in_part():
    "Sixty characters of a text; an error whole where it stands first, and sixty of it behind the reason."
    text = "0123456789" * 10
    outcome = lambda **fields: _letters_outcome(Answer("letter"), Answer("text", **fields), Terms(), False)
    quotation = repr(text[:60])
    assert outcome(text=text) == (
        f"unread: ok, {quotation}",
        "none",
        f"no letter is stated in what came (ok: {quotation:.60})",
    )
    failure = outcome(status="error", error=text)
    assert failure == (f"unread: error, {text}", "none", f"no letter is stated in what came (error: {text[:60]})")
    answer = lambda place: Answer("letter", text=text, letter_logprobs={"A": -2.0, "B": -0.2}, letter_position=place,
                                  letter_mass=0.9)  # fmt: skip
    assert _letters_outcome(answer(None), Answer("text", text=text), Terms(), False)[2] == (
        f"its first token is a letter (B, mass 0.90), and its text states none ({quotation})"
    )
    room = Terms(room=True)
    assert _letters_outcome(Answer("letter"), answer(None), room, False)[2] == (
        "its first token is no letter: it is given room, and read at token 1 (mass 0.90)"
    )
    cut = Answer("text", text="The answer is A", status="truncated")
    assert _letters_outcome(Answer("letter"), cut, Terms(), False)[:2] == ("ok, A is read from the text", "text")
    refused = Answer("text", text="The answer is A", status="refused")
    assert _letters_outcome(Answer("letter"), refused, Terms(), False)[1] == "none"


def test_a_report_says_what_it_found_and_what_a_thousand_cost():
    "By hand: a thousand of 40 and 2 tokens, at 1 and 2 dollars a million."
    tokens, prices = {"letter": (40, 2), "verdict": (50, 5)}, {"letter": 0.044, "verdict": None}
    works = {"letter": "ok, B", "verdict": "ok", "sentence": "ok"}
    entry = {"endpoint": "e", "served": "m-1", "sampling": {"stop": ["\u00e4"]}}
    report = Report(
        "m", works, ["seed is left out"], "text", "it thinks first", True, ["m-2", "m-3"], tokens, prices, entry
    )
    assert str(report).splitlines() == [
        "m: works",
        "  letter: ok, B",
        "  verdict: ok",
        "  sentence: ok",
        "  learnt: seed is left out",
        "  replies are from m-2, m-3, by their own words; m-1 was asked for",
        "  letters come from: text; it thinks first",
        "  a thousand like letter: 40000 + 2000 tokens, 0.0440 USD",
        "  a thousand like verdict: 50000 + 5000 tokens, price unknown",
        "  a thousand like sentence: unknown, since no reply counts its tokens",
    ]
    assert report.entry().splitlines() == [
        *("endpoints:", "  e: {}", "models:", "  m:", "    endpoint: e", "    served: m-1"),
        *("    sampling:", "      stop:", "      - \u00e4"),
    ]
    assert (Report("m").letters_from, Report("m").thinks, Report("m").ok) == ("none", False, False)


@pytest.mark.parametrize(
    ("letter_works", "verdict_works", "sentence_works", "verdict"),
    [
        (True, True, True, "works"),
        (True, False, True, "works, but gave no verdict as JSON: let another model judge"),
        (
            False,
            True,
            True,
            "works as a judge and for texts; its answers to questions with options would count as unread",
        ),
        (False, False, True, "does not work as it stands"),
        (True, True, False, "does not work as it stands"),
    ],
)
def test_a_model_is_of_use_with_a_text_and_a_letter_or_a_verdict(letter_works, verdict_works, sentence_works, verdict):
    outcomes = zip(("letter", "verdict", "sentence"), (letter_works, verdict_works, sentence_works))
    report = Report("m", {name: "ok, so" if works else "error: x" for name, works in outcomes})
    assert report.verdict == verdict and report.ok == (verdict != "does not work as it stands")


def test_a_check_sends_four_questions_and_prices_each():
    "By hand: a letter where its text states the same, 10 and 5 tokens; the price of a reply is that of a thousand."
    with FaultServer(
        every=lambda n, b: lambda body: listed(body, "A") if body.get("logprobs") else plain_reply(body)
    ) as s:
        report = check(model(), ep(s.url))
        n_asked = len(s.asked)
    assert n_asked == 4 and report.letters_from == "log-probabilities" and not report.thinks
    assert report.why == "its first token is a letter (A, mass 0.99), and its text states A"
    assert list(report.works) == ["letter", "verdict", "sentence"] and report.learnt == []
    assert report.tokens == dict.fromkeys(report.works, (10, 5))
    assert report.usd_per_thousand == dict.fromkeys(report.works, pytest.approx(1000 * 20e-6))
    assert report.model_entry["sampling"] == SAMPLING and "thinking" not in report.model_entry


def plain_reply(body):
    "A verdict where JSON is wanted, and else a sentence."
    return 200, completion(body, '{"label": "Correct"}' if body.get("response_format") else "Light helps.")


def test_a_token_and_a_text_that_differ_make_letters_be_asked_for_with_room(tmp_path):
    "For the check's report and for the study, whose cache holds what is learnt."

    def differing(body):
        if body.get("logprobs"):
            return listed(body, "A") if body["max_tokens"] == 1 else (200, completion(body, "The answer is B."))
        return plain_reply(body)

    with FaultServer(every=lambda n, b: differing) as s:
        report = check(model(), ep(s.url), cache=tmp_path / "c.sqlite")
        with Cache(tmp_path / "c.sqlite") as cache:
            assert recall_terms(cache, ep(s.url), model()) == Terms(room=True)
    assert (report.letters_from, report.why) == ("text", "its first token states A, and its text B")
    assert report.learnt == ["the first token is no letter: it is given room, and read where its answer stands"]


def test_an_entry_holds_what_was_learnt_and_is_no_default():
    "Of our own server nothing is learnt; the fewest log-probabilities count."
    here = ep("http://x", top_logprobs=8, concurrency=16)
    terms = Terms(top_logprobs=5, structured="none", thinks=True)
    model_entry, endpoint_entry = _model_and_endpoint_entries(model(), here, terms, None)
    assert model_entry == {
        **{"endpoint": "e", "served": "m-1", "price": {"prompt": 1.0, "completion": 2.0}},
        **{"sampling": SAMPLING, "thinking": True},
    }
    settings = {"identity": "e", "timeout_s": 5.0, "pause_s": 0.01, "base_urls": ["http://x"]}
    assert endpoint_entry == {"kind": "openai", **settings, "top_logprobs": 5, "structured": "none"}
    many = _model_and_endpoint_entries(model(), here, Terms(top_logprobs=20), {"kind": "vllm"})
    assert many[1] == {"kind": "vllm", "top_logprobs": 8} and "thinking" not in many[0]
    own = {"kind": "local", "gguf": "x"}
    assert _model_and_endpoint_entries(model(), here, terms, own)[1] == own
    declared = _model_and_endpoint_entries(
        model(), here, Terms(dropped=("stop",)), {"kind": "x", "refuses": {"n": None}}
    )
    assert declared[1] == {"kind": "x", "refuses": {"n": None, "stop": None}}


@pytest.mark.parametrize("finish", ["stop", "length", "content_filter", None])
def test_an_answer_without_content_is_asked_once_where_the_reply_says_that_it_ended(finish):
    with FaultServer(every=lambda n, b: lambda body: (200, completion(body, None, finish))) as s:
        (a,) = ask([letter()], model(thinking=True), ep(s.url, max_attempts=3), cache=None, progress=False)
    status = {"stop": "empty", "length": "truncated", "content_filter": "filtered", None: "error"}[finish]
    assert (a.status, len(s.asked)) == (status, 1 if finish else 3)
    assert not a.text


@pytest.mark.parametrize(
    ("name", "words", "renamed"),
    [
        ("max_tokens", "Unsupported parameter: use 'max_completion_tokens' instead", "max_completion_tokens"),
        ("max_completion_tokens", "Unsupported parameter: use max_tokens", "max_tokens"),
        ("max_tokens", "Unsupported parameter: 'max_tokens'", "max_completion_tokens"),
        ("max_tokens", "Unsupported parameter: use max_tokens below 10", None),  # the same name is no other
    ],
)
def test_a_limit_goes_under_the_name_that_the_refusal_gives(name, words, renamed):
    got = learn(Refusal(400, words, {"model": "m", name: 5}, name, "unsupported_parameter"), Terms())
    assert (got.renamed if got else ()) == (((name, renamed),) if renamed else ())
