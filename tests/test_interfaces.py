"""The Responses API and the Messages API: stand-ins that hold to the providers' references, asked over loopback.

What a stand-in says is validated by the types of the packages `openai` and (where it is installed) `anthropic`.
"""

import json
import re

import pytest
from asking import ep
from faults.server import FaultServer

from mhbench.ask.batch import ask_batch, write_parts
from mhbench.ask.cache import Cache
from mhbench.ask.client import ask
from mhbench.ask.probe import check
from mhbench.ask.request import Model, Request, wire
from mhbench.ask.request import endpoint as endpoint_of

PRICE = {"prompt": 2.0, "cached": 0.5, "cache_write": 2.5, "completion": 10.0}
SCHEMA = {"type": "object", "properties": {"label": {"enum": ["yes", "no"]}}, "required": ["label"]}


def model(api, **more):
    return Model(**{"name": "m", "endpoint": "e", "served": "m-1", "api": api, "price": PRICE, **more})


def turns(text="Which is a fruit?"):
    return [{"role": "system", "content": "Be brief."}, {"role": "user", "content": text}]


def letter(i=0, **more):
    return Request(f"id-{i}", turns(f"question {i}"), {"max_tokens": 1}, letters=["A", "B"], **more)


def asked(requests, server, who, cache=None, **more):
    return list(ask(requests, who, ep(server.url, concurrency=1, **more), cache=cache, progress=False))


# What the two say, as their references have it


def response(text="B", *, items=None, status="completed", why=None, cached=0, thought=0, logprobs=(), **more):
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": list(logprobs)}
    message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}
    usage = {"input_tokens": 100, "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0}}
    usage |= {"output_tokens": 20, "output_tokens_details": {"reasoning_tokens": thought}, "total_tokens": 120}
    said = {"id": "resp_1", "object": "response", "created_at": 1760000000, "status": status, "model": "gpt-5-mini"}
    said |= {"output": [message] if items is None else items, "usage": usage, "error": None}
    said |= {"incomplete_details": {"reason": why} if why else None, "instructions": None, "metadata": {}}
    said |= {"parallel_tool_calls": True, "temperature": 1.0, "tool_choice": "auto", "tools": [], "top_p": 1.0}
    return said | {"reasoning": {"effort": "low", "summary": None}, "service_tier": "default", "store": False} | more


def reasoned(*summaries, content=()):
    summary = [{"type": "summary_text", "text": s} for s in summaries]
    parts = [{"type": "reasoning_text", "text": s} for s in content]
    return {"type": "reasoning", "id": "rs_1", "summary": summary, "content": parts}


def declined(words):
    part = {"type": "refusal", "refusal": words}
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}


def listed(token, others):
    top = [{"token": t, "logprob": p, "bytes": list(t.encode())} for t, p in {token: -0.1, **others}.items()]
    return {"token": token, "logprob": -0.1, "bytes": list(token.encode()), "top_logprobs": top}


def message(text="B", *, blocks=None, stop="end_turn", details=None, usage=None):
    content = [{"type": "text", "text": text, "citations": None}] if blocks is None else blocks
    counted = {
        "input_tokens": 100,
        "output_tokens": 20,
        "service_tier": "standard",
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
    }
    said = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "content": content}
    return said | {
        "stop_reason": stop,
        "stop_sequence": None,
        "stop_details": details,
        "usage": counted | (usage or {}),
    }


THOUGHT = {"type": "thinking", "thinking": "B is a fruit.", "signature": "c2ln"}


def openai_error(words, param=None, code=None, kind="invalid_request_error"):
    return {"error": {"message": words, "type": kind, "param": param, "code": code}}


def claude_error(kind, words):
    return {"type": "error", "error": {"type": kind, "message": words}, "request_id": "req_1"}


# Stand-ins that refuse what the references refuse

RESPONSES = set(  # the parameters of "Create a model response"
    "background conversation include input instructions max_output_tokens max_tool_calls metadata model"
    " parallel_tool_calls previous_response_id prompt prompt_cache_key reasoning safety_identifier service_tier store"
    " stream stream_options temperature text tool_choice tools top_logprobs top_p truncation user".split()
)
MESSAGES = set(
    "cache_control container inference_geo max_tokens messages metadata model output_config service_tier"
    " stop_sequences stream system temperature thinking tool_choice tools top_k top_p".split()
)


def openai(said, refuses=()):
    "Replies of the Responses API; `refuses` are (test of the body, error)."

    def reply(body):
        if unknown := sorted(body.keys() - RESPONSES):
            return 400, openai_error(f"Unknown parameter: '{unknown[0]}'.", unknown[0], "unknown_parameter")
        if body.get("max_output_tokens", 16) < 16:
            words = (
                "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got 1 instead."
            )
            return 400, openai_error(words, "max_output_tokens", "integer_below_min_value")
        for wrong, error in refuses:
            if wrong(body):
                return 400, error
        return (200, said(body) if callable(said) else said)

    return FaultServer(every=lambda n, body: reply)


def claude(said, refuses=()):
    def reply(body):
        if unknown := sorted(body.keys() - MESSAGES):
            return 400, claude_error("invalid_request_error", f"{unknown[0]}: Extra inputs are not permitted")
        if "max_tokens" not in body:
            return 400, claude_error("invalid_request_error", "max_tokens: Field required")
        if any(m["role"] not in ("user", "assistant") for m in body["messages"]):
            return 400, claude_error("invalid_request_error", 'messages: Unexpected role "system"')
        for wrong, error in refuses:
            if wrong(body):
                return 400, error
        return (200, said(body) if callable(said) else said)

    return FaultServer(every=lambda n, body: reply)


SERVED = {"responses": "default", "messages": "standard"}
STANDS_IN = {"responses": openai, "messages": claude}
SHAPES = {  # what is said, and what of the answer it makes
    "responses": [
        (response("B"), {"status": "ok", "text": "B", "reasoning": None}),
        (response(items=[reasoned("First.", "Then."), *response("B")["output"]], thought=12),
         {"status": "ok", "text": "B", "reasoning": "First.\n\nThen.", "thinking_tokens": 12}),
        (response(items=[reasoned(content=["It is B."]), *response("B")["output"]]), {"reasoning": "It is B."}),
        (response(items=[response("Let me see.")["output"][0] | {"phase": "commentary"}, *response("B")["output"]]),
         {"text": "B", "reasoning": "Let me see."}),
        (response(items=[declined("Not that.")]), {"status": "refused", "error": "the model refused: Not that."}),
        (response("The ans", status="incomplete", why="max_output_tokens"), {"status": "truncated", "text": "The ans"}),
        (response("x", status="incomplete", why="content_filter"), {"status": "filtered"}),
        (response(items=[], status="incomplete", why="content_filter"), {"status": "filtered", "text": ""}),
        (response(cached=64), {"cached_tokens": 64, "prompt_tokens": 100, "completion_tokens": 20}),
    ],
    "messages": [
        (message("B"), {"status": "ok", "text": "B", "reasoning": None}),
        (message(blocks=[THOUGHT, *message("B")["content"]], usage={"output_tokens_details": {"thinking_tokens": 9}}),
         {"text": "B", "reasoning": "B is a fruit.", "thinking_tokens": 9}),
        (message(blocks=[{"type": "redacted_thinking", "data": "x"}, *message("B")["content"]]), {"text": "B"}),
        (message("B", stop="stop_sequence"), {"status": "ok"}),
        (message("The ans", stop="max_tokens"), {"status": "truncated", "text": "The ans"}),
        (message("The ans", stop="model_context_window_exceeded"), {"status": "truncated"}),
        (message(blocks=[], stop="refusal", details={"type": "refusal", "category": "bio", "explanation": "Not that."}),
         {"status": "refused", "error": "the model refused: Not that."}),
        (message("I", stop="refusal"), {"status": "refused", "error": "the model refused: stop_reason: refusal I"}),
        (message(usage={"input_tokens": 20, "cache_read_input_tokens": 70, "cache_creation_input_tokens": 10}),
         {"prompt_tokens": 100, "cached_tokens": 70, "cache_write_tokens": 10}),
    ],
}  # fmt: skip


@pytest.mark.whole
def test_the_stand_ins_say_what_the_references_say():
    responses = pytest.importorskip("openai.types.responses")
    for said, _ in SHAPES["responses"]:
        responses.Response.model_validate(said)
    types = pytest.importorskip("anthropic.types")
    for said, _ in SHAPES["messages"]:
        types.Message.model_validate(said)


@pytest.mark.parametrize("api,said,made", [(api, *shape) for api, shapes in SHAPES.items() for shape in shapes])
def test_each_form_of_an_answer_is_read(api, said, made):
    with STANDS_IN[api](said) as server:
        [answer] = asked([Request("id", turns(), {"max_tokens": 64})], server, model(api))
    assert {name: getattr(answer, name) for name in made} == made
    assert server.paths == [f"/v1/{api}"]
    assert (answer.served["model"], answer.served["tier"]) == (said["model"], SERVED[api])


@pytest.mark.parametrize("api", ["responses", "messages"])
def test_what_was_read_from_the_providers_cache_has_its_own_price(api, tmp_path):
    said = {
        "responses": response(cached=64),
        "messages": message(usage={"input_tokens": 36, "cache_read_input_tokens": 64}),
    }
    with STANDS_IN[api](said[api]) as server, Cache(tmp_path / "c.sqlite") as cache:
        for _ in range(2):
            [answer] = asked([Request("id", turns())], server, model(api), cache)
            assert answer.cost_usd == pytest.approx((36 * 2.0 + 64 * 0.5 + 20 * 10.0) / 1e6)
            assert answer.cached_tokens == 64
    assert len(server.asked) == 1 and answer.cached
    assert (answer.prompt_tokens, answer.completion_tokens) == (100, 20)


def test_a_letter_has_the_log_probabilities_of_the_responses_api():
    said = response("B", logprobs=[listed("B", {"A": -2.4})])
    with openai(said) as server:
        [answer] = asked(
            [letter()], server, model("responses", sampling={"temperature": 0.0, "seed": 3, "stop": ["."]})
        )
    body = server.asked[0]
    assert answer.letter_logprobs == pytest.approx({"A": -2.4, "B": -0.1})
    assert (body["include"], body["top_logprobs"], body["max_output_tokens"]) == (
        ["message.output_text.logprobs"],
        20,
        16,
    )
    assert (body["instructions"], body["store"]) == ("Be brief.", False)
    assert answer.changed == ["no seed", "no stop"]


def test_letters_are_read_from_the_text_where_no_log_probabilities_come(tmp_path):
    "As vLLM's and others' responses do: the list is empty, without a word."
    with openai(lambda body: response("B" if body["max_output_tokens"] > 16 else "The answer is")) as server:
        with Cache(tmp_path / "c.sqlite") as cache:
            answers = asked([letter(i) for i in range(3)], server, model("responses"), cache)
    assert [a.text for a in answers] == ["B"] * 3
    assert answers[0].changed == ["no logprobs", "no top_logprobs"]


def test_what_a_reasoning_model_refuses_is_learnt_by_its_name_in_the_responses_api(tmp_path):
    "https://github.com/vllm-project/vllm/pull/23319 and OpenHands/software-agent-sdk/pull/992 quote the errors."
    no_list = openai_error("logprobs are not supported with reasoning models.", "include", "unsupported_parameter")
    no_heat = openai_error("Unsupported parameter: 'temperature' is not supported with this model.", "temperature")

    def said(body):
        if body["max_output_tokens"] > 2000:
            return response(thought=12)
        return response(items=[], thought=12, status="incomplete", why="max_output_tokens")

    refuses = [(lambda b: "include" in b, no_list), (lambda b: "temperature" in b, no_heat)]
    with openai(said, refuses) as server, Cache(tmp_path / "c.sqlite") as cache:
        who = model(
            "responses", sampling={"temperature": 0.0, "reasoning_effort": "low", "reasoning": {"summary": "auto"}}
        )
        answers = asked([letter(i) for i in range(3)], server, who, cache)
        n = len(server.asked)
        again = asked([letter(i) for i in range(3)], server, who, cache)
    assert [a.text for a in answers] == ["B"] * 3 and len(server.asked) == n and all(a.cached for a in again)
    last = server.asked[-1]
    assert last["reasoning"] == {"effort": "low", "summary": "auto"}
    assert "include" not in last and "temperature" not in last and last["max_output_tokens"] == 4096
    assert set(answers[-1].changed) == {"no temperature", "no logprobs", "no top_logprobs", "room for a thought"}


@pytest.mark.parametrize("api,where", [("responses", ("text", "format")), ("messages", ("output_config", "format"))])
def test_a_schema_stands_where_the_api_has_it_and_is_said_in_words_where_it_is_refused(api, where, tmp_path):
    no_schema = "Invalid parameter: 'text.format' of type 'json_schema' is not supported with this model."
    error = {
        "responses": openai_error(no_schema, "text.format"),
        "messages": claude_error("invalid_request_error", "output_config.format: Extra inputs are not permitted"),
    }[api]
    say = {"responses": response, "messages": message}[api]
    given = lambda body: body.get(where[0], {}).get(where[1])
    with STANDS_IN[api](say('{"label": "yes"}')) as server:
        [answer] = asked([Request("id", turns(), schema=SCHEMA)], server, model(api))
    assert answer.data == {"label": "yes"} and given(server.asked[0])["type"] == "json_schema"
    assert server.asked[0].keys() <= (RESPONSES if api == "responses" else MESSAGES)
    strict = lambda body: (given(body) or {}).get("type") == "json_schema"
    with STANDS_IN[api](say('{"label": "yes"}'), [(strict, error)]) as server:
        answers = asked([Request(f"id-{i}", turns(f"q {i}"), schema=SCHEMA) for i in range(3)], server, model(api))
    assert [a.data for a in answers] == [{"label": "yes"}] * 3
    turn = server.asked[-1].get("input", server.asked[-1].get("messages"))[-1]
    assert not strict(server.asked[-1]) and '"enum": ["yes", "no"]' in turn["content"]


@pytest.mark.parametrize("api", ["responses", "messages"])
def test_json_that_does_not_fit_is_asked_for_once_more(api):
    say = {"responses": response, "messages": message}[api]
    turn = {"responses": "input", "messages": "messages"}[api]
    with STANDS_IN[api](lambda body: say('{"label": "no"}' if len(body[turn]) > 1 else "perhaps")) as server:
        [answer] = asked([Request("id", turns(), schema=SCHEMA)], server, model(api))
    assert answer.data == {"label": "no"} and [t["role"] for t in server.asked[1][turn]] == [
        "user",
        "assistant",
        "user",
    ]


FAILURES = {  # what comes before an answer, in the providers' own forms
    "responses": [
        (429, openai_error("Rate limit reached for gpt-5-mini", code="rate_limit_exceeded"), {"retry-after": "0.01"}),
        (500, openai_error("The server had an error", kind="server_error"), {}),
        (200, response(items=[], status="failed", error={"code": "server_error", "message": "It failed."}), {}),
        (200, response(items=[], status="in_progress"), {}),
        (
            200,
            response(items=[{"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "x"}]),
            {},
        ),
    ],
    "messages": [
        (429, claude_error("rate_limit_error", "This request would exceed your rate limit"), {"retry-after": "0.01"}),
        (529, claude_error("overloaded_error", "Overloaded"), {}),
        (500, claude_error("api_error", "Internal server error"), {}),
        (200, message(blocks=[{"type": "image", "source": {}}]), {}),
    ],
}


@pytest.mark.parametrize("api,failure", [(api, f) for api, all_of in FAILURES.items() for f in all_of])
def test_what_passes_is_asked_again(api, failure):
    good = (200, {"responses": response("B"), "messages": message("B")}[api])
    with FaultServer(every=lambda n, body: lambda _: failure if n == 0 else good) as server:
        [answer] = asked([Request("id", turns())], server, model(api))
    assert (answer.status, answer.text, answer.attempts) == ("ok", "B", 2)


def test_a_refused_request_says_why():
    words = "Your organization must be verified to generate reasoning summaries."
    error = openai_error(words, "reasoning.summary", "unsupported_value")
    with openai(response(), [(lambda b: "reasoning" in b, error)]) as server:
        [answer] = asked(
            [Request("id", turns())], server, model("responses", sampling={"reasoning": {"summary": "auto"}})
        )
    assert answer.status == "error" and words in answer.error
    lost = (404, claude_error("not_found_error", "model: m-1"))
    with FaultServer(every=lambda n, body: lambda _: lost) as server:
        [answer] = asked([Request("id", turns())], server, model("messages"))
    assert answer.status == "error" and "model: m-1" in answer.error


def test_a_request_to_anthropic_has_its_headers_and_names_what_the_api_lacks(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-a-key-of-nobody")
    sampling = {"temperature": 0.0, "seed": 1, "presence_penalty": 0.5, "stop": ["\n\n"], "reasoning_effort": "low"}
    with claude(message("B")) as server:
        where = endpoint_of(
            "e", "anthropic", base_urls=[server.url], api_key_env="ANTHROPIC_API_KEY", structured="json_schema"
        )
        [answer] = ask([letter()], model("messages", sampling=sampling), where, cache=None, progress=False)
    sent, body = server.headers[0], server.asked[0]
    assert sent["x-api-key"] == "sk-ant-a-key-of-nobody" and "authorization" not in sent
    assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", sent["anthropic-version"])
    assert body.keys() <= MESSAGES and body["system"] == "Be brief." and body["stop_sequences"] == ["\n\n"]
    assert body["output_config"] == {"effort": "low"} and body["max_tokens"] == 1024  # room for a letter in a text
    assert (answer.text, set(answer.changed)) == ("B", {"no seed", "no presence_penalty"})


def test_a_thought_that_is_cut_or_not_shown_is_given_room(tmp_path):
    "`display: omitted`, the newer models' default: a block without its text."
    hidden = THOUGHT | {"thinking": ""}
    cut = message(blocks=[hidden], stop="max_tokens")
    whole = message(blocks=[hidden, *message("B")["content"]])
    with claude(lambda body: whole if body["max_tokens"] > 2000 else cut) as server:
        with Cache(tmp_path / "c.sqlite") as cache:
            who = model("messages", sampling={"thinking": {"type": "adaptive"}})
            answers = asked([letter(i) for i in range(3)], server, who, cache)
    assert [a.text for a in answers] == ["B"] * 3 and answers[-1].changed == ["room for a thought"]


@pytest.mark.parametrize("api", ["responses", "messages"])
def test_a_check_gives_an_entry_that_asks_rightly(api):
    say = {"responses": response, "messages": message}[api]

    def said(body):
        asked_for = json.dumps(body)
        if "2 + 2" in asked_for:
            return say('{"label": "Correct"}')
        return say("B" if "fruit" in asked_for else "Light helps.")

    with STANDS_IN[api](said) as server:
        report = check(model(api, sampling={"seed": 1}), ep(server.url))
    assert report.verdict == "works" and report.letters_from == "text"
    assert report.model_entry["api"] == api
    assert report.usd_per_thousand["sentence"] == pytest.approx(1000 * (100 * 2.0 + 20 * 10.0) / 1e6)


def test_an_image_is_refused():
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    pictured = Request("id-7", [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, part]}])
    for api in ("chat", "responses", "messages"):
        with pytest.raises(ValueError, match=r"content: a text\) .* got .*image_url.*id-7"):
            list(ask([pictured], model(api), ep("http://127.0.0.1:9/v1"), cache=None, progress=False))


def test_a_batch_is_for_the_responses_api_and_not_for_anthropics(tmp_path):
    where = ep("http://127.0.0.1:9/v1")
    [part] = write_parts([(letter(), wire(letter(), model("responses"), where))], tmp_path)
    line = json.loads((tmp_path / part["file"]).read_text())
    assert line["url"] == "/v1/responses" and line["body"].keys() <= RESPONSES
    with pytest.raises(ValueError, match="delivery must be live for a model of api messages"):
        list(ask_batch([letter()], model("messages"), where, cache=tmp_path / "c.sqlite"))


def test_a_price_names_what_it_is_of():
    with pytest.raises(ValueError, match="may have cached and cache_write"):
        model("chat", price={"prompt": 1.0, "completion": 1.0, "cache": 0.1})


def test_what_the_chat_api_had_in_its_cache_has_its_price_too():
    usage = {"prompt_tokens": 100, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": 64}}
    said = {"choices": [{"message": {"content": "B"}, "finish_reason": "stop"}], "usage": usage}
    with FaultServer(every=lambda n, body: lambda _: (200, said)) as server:
        [answer] = asked([Request("id", turns())], server, model("chat"))
    assert answer.cost_usd == pytest.approx((36 * 2.0 + 64 * 0.5 + 20 * 10.0) / 1e6)


@pytest.mark.parametrize("how", [{"status": "later"}, {"status": None}, {"status": "incomplete"}, {"why": "later"}])
def test_a_response_that_is_not_known_to_be_whole_is_no_answer(how):
    said = response("The answer is A, but", **how)
    with openai(said) as server:
        (a,) = asked([Request("id", turns(), {"max_tokens": 64})], server, model("responses"))
    name = how.get("why") or how["status"]
    assert (a.status, a.text, len(server.asked)) == ("error", None, 1) and f"finish_reason '{name}'" in a.error


@pytest.mark.parametrize("api", ["responses", "messages"])
@pytest.mark.parametrize("usage", [[1], None, {"input_tokens": "many"}, {"input_tokens": 9, "output_tokens": -1}])
def test_a_broken_count_of_tokens_loses_no_text_and_is_none(api, usage):
    said = (response if api == "responses" else message)("B") | {"usage": usage}
    with STANDS_IN[api](said) as server:
        (a,) = asked([Request("id", turns(), {"max_tokens": 64})], server, model(api))
    assert (a.status, a.text, a.prompt_tokens, a.completion_tokens) == ("ok", "B", 0, 0)


@pytest.mark.parametrize("cached", [-5, "many", 1.5, True])
def test_a_broken_count_of_what_was_cached_is_no_part_of_a_sum(cached):
    said = message(usage={"input_tokens": 20, "output_tokens": 3, "cache_read_input_tokens": cached})
    with claude(said) as server:
        (a,) = asked([Request("id", turns(), {"max_tokens": 64})], server, model("messages"))
    assert (a.status, a.prompt_tokens, a.completion_tokens) == ("ok", 0, 0)
