"Entries of endpoints and models: their defaults and bounds, what they refuse, and what their requests say."

import json

import pytest
from pydantic import ValidationError

from mhbench.ask import request as r
from mhbench.ask.request import (
    Answer,
    Endpoint,
    Model,
    Request,
    Secrets,
    Terms,
    Tokens,
    answer_token_limit,
    build_request,
    changes,
    wire,
)

HOST = "http://localhost:1/v1"
ENDPOINT = {  # field: default, least, more than, most, less than
    "base_urls": ([], None),
    "identity": ("", None),
    "record": (None, None),
    "api_key_env": (None, None),
    "concurrency": (16, {"minimum": 1}),
    "rpm": (None, {"exclusiveMinimum": 0}),
    "tpm": (None, {"exclusiveMinimum": 0}),
    "timeout_s": (120.0, {"exclusiveMinimum": 0}),
    "max_attempts": (6, {"minimum": 1}),
    "patience_s": (900.0, {"minimum": 0}),
    "pause_s": (0.5, {"exclusiveMinimum": 0}),
    "top_logprobs": (20, {"minimum": 0}),
    "structured": ("json_schema", None),
    "prefill": (False, None),
    "refuses": ({}, None),
    "headers": ({}, None),
    "headers_env": ({}, None),
    "batch_discount": (0.0, {"minimum": 0, "exclusiveMaximum": 1}),
    "max_reply_bytes": (33554432, {"minimum": 1024}),
}
MODEL = {
    "api": ("chat", None),
    "system": (None, None),
    "template": (None, None),
    "sampling": ({}, None),
    "price": ({}, None),
    "thinking": (False, None),
    "thinking_tokens": (4096, {"minimum": 1}),
    "max_tokens": ({}, None),
    "one_line": (False, None),
    "lineage": ("", None),
    **dict.fromkeys("provider open medical released parameters data licence caution".split(), (None, None)),
}


def bounds(field: dict) -> dict:
    parts = [field, *field.get("anyOf", ())]
    return {k: v for p in parts for k, v in p.items() if k in ("minimum", "maximum") or k.startswith("exclusive")}


@pytest.mark.parametrize(
    ("entry", "fields", "required"),
    [(Endpoint, ENDPOINT, {"name"}), (Model, MODEL, {"name", "endpoint", "served"})],
)
def test_fields_have_defaults_bounds_and_a_description(entry, fields, required):
    schema = entry.model_json_schema()
    properties = schema["properties"]
    assert set(properties) == set(fields) | required and set(schema["required"]) == required
    assert schema["additionalProperties"] is False
    for name, field in properties.items():
        assert name == "name" or field["description"].strip(), name
        if name in fields:
            default, limits = fields[name]
            assert field["default"] == default and bounds(field) == (limits or {}), name


def endpoint(**more) -> Endpoint:
    return Endpoint(name="e", **{"base_urls": [HOST]} | more)


def model(**more) -> Model:
    return Model(name="m", endpoint="e", served="s", **more)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Endpoint(name="e"), "base_urls must name where the endpoint is; got none"),
        (lambda: endpoint(base_urls=[HOST, "nowhere"]), "base_urls must .*; number 2 does not"),
        (lambda: endpoint(concurrency="4"), "valid integer"),  # strict
        (lambda: endpoint(concurency=4), "Extra inputs are not permitted"),
        (lambda: endpoint(api_key="x"), "api_key must not stand in an entry; name the environment variable"),
        (lambda: endpoint(headers={"Authorization": "Bearer x"}), r"headers must hold no key; got \['Authorization'\]"),
        (lambda: endpoint(headers_env={"X-A": "not a name"}), r"must name environment variables; those of \['X-A'\]"),
        (lambda: Endpoint(name="-e", base_urls=[HOST]), "should match pattern"),
        (lambda: model(api="x"), "chat"),
        (lambda: model(price={"prompt": 1.0}), r"price must have the fields prompt and completion.*got \['prompt'\]"),
        (lambda: model(price={"prompt": 1.0, "completion": 1.0, "other": 1.0}), "price must have the fields"),
        (lambda: model(price={"prompt": -1.0, "completion": 1.0}), "price must be 0 or more"),
        (lambda: model(price={"prompt": 1.0, "completion": float("inf")}), "price must be 0 or more"),
        (lambda: model(sampling={"temperature": float("nan")}), "sampling must hold ordinary numbers"),
        (lambda: model(sampling={"temprature": 1}), "got temprature; did you mean temperature"),
        (lambda: model(template="x"), "template must hold {prompt}; got 'x'"),
        (lambda: model(max_tokens={"letter": 0}), "greater than or equal to 1"),
        (lambda: model(max_tokens={"word": 1}), "letter"),
    ],
)
def test_an_entry_that_does_not_fit_is_refused_without_its_values(make, words):
    with pytest.raises(ValidationError, match=words) as e:
        make()
    assert "input_value" not in str(e.value)


def test_what_fits_is_taken_as_it_is():
    e = endpoint(refuses={"seed": None, "max_tokens": "max_completion_tokens"}, headers_env={"X-A": "MY_KEY2"})
    assert e.terms == Terms(renamed=(("max_tokens", "max_completion_tokens"),), dropped=("seed",))
    assert e.server is None and e.cache_identity == HOST and endpoint(identity="x").cache_identity == "x"
    assert endpoint(base_urls=[HOST + "2/", HOST]).cache_identity == f"{HOST}|{HOST}2"
    with pytest.raises(ValidationError, match="frozen"):
        e.concurrency = 3
    prices = {"prompt": 0.0, "completion": 1.0, "cached": 0.5, "cache_write": 2.0}
    assert model(price=prices, sampling={"top_k": 3, "seed": 1}).price == prices
    assert [r.parameter_count(b) for b in (None, 27, 1.0, 0.27)] == ["not stated", "27B", "1B", "270M"]


def test_secrets_are_cut_out_of_texts_and_bytes():
    s = Secrets("sesame-open-123", "abc", "", None)
    assert repr(s) == "Secrets(2)" and s.clean("x abc y sesame-open-123") == "x [key] y [key]"
    assert s.clean(b"abc") == b"[key]" and s.clean_answer("abc sesame-open-123") == "abc [key]"
    assert s.clean("sesame-o and sesame-") == "[key] and sesame-"  # eight characters of it, and seven
    assert s.clean("sesame-oX") == "[key]X" and s.clean_line("a\nabc\x00") == "a [key]"
    assert s.clean_line("x" * 1000) == "x" * 1000 and s.clean_line("x" * 1001) == "x" * 1000 + " ..."
    assert s.clean_line("xyz", 2) == "xy ..."


def asked(sampling=None, **more) -> Request:
    return Request("q", [{"role": "user", "content": "?"}], sampling or {}, **more)


@pytest.mark.parametrize(
    ("entry", "said", "reads_text", "limit"),
    [
        ({}, {}, False, ("max_tokens", None)),
        ({}, {"room": 7}, False, ("max_tokens", 7)),
        ({"sampling": {"max_tokens": 9}}, {"room": 7}, False, ("max_tokens", 9)),
        ({"sampling": {"max_tokens": 9}}, {"sampling": {"max_tokens": 5}}, False, ("max_tokens", 5)),
        (
            {"sampling": {"max_completion_tokens": 9}},
            {"sampling": {"max_tokens": 5}},
            False,
            ("max_completion_tokens", 9),
        ),
        (
            {"sampling": {"max_tokens": 9}},
            {"sampling": {"max_completion_tokens": 5}},
            False,
            ("max_completion_tokens", 5),
        ),
        ({"thinking": True}, {"room": 7}, False, ("max_tokens", 4096)),
        ({"thinking": True}, {"room": 5000}, False, ("max_tokens", 5000)),
        ({"thinking": True}, {"sampling": {"max_tokens": 6000}}, False, ("max_tokens", 6000)),
        ({"thinking": True, "sampling": {"max_tokens": 9}}, {"sampling": {"max_tokens": 5}}, False, ("max_tokens", 9)),
        ({}, {"room": 1}, True, ("max_tokens", 1024)),
        ({}, {"room": 1}, False, ("max_tokens", 1)),
        ({}, {}, True, ("max_tokens", None)),
        ({"sampling": {"max_tokens": 300}}, {"sampling": {"max_tokens": 1}}, True, ("max_tokens", 300)),
        ({"sampling": {"max_tokens": 1}}, {"room": 1}, True, ("max_tokens", 1024)),
        ({}, {"room": 500}, True, ("max_tokens", 500)),
    ],
)
def test_the_limit_of_an_answer(entry, said, reads_text, limit):
    assert answer_token_limit(asked(**said), model(**entry), reads_text=reads_text) == limit
    if not entry.get("thinking"):
        thinks = answer_token_limit(asked(**said), model(**entry), Terms(thinks=True), reads_text)
        assert thinks == answer_token_limit(asked(**said), model(**entry, thinking=True), None, reads_text)


def test_a_letter_s_room_at_the_edge():
    assert answer_token_limit(asked(room=r.LETTER), model(), reads_text=True)[1] == 1024
    assert answer_token_limit(asked(room=r.LETTER + 1), model(), reads_text=True)[1] == r.LETTER + 1
    for api, most in (("chat", r.LETTER), ("responses", 16)):
        assert r.only_a_letter(most, model(api=api)) and not r.only_a_letter(most + 1, model(api=api))
    assert not r.only_a_letter(None, model())


@pytest.mark.parametrize(
    ("entry", "terms", "n"),
    [
        ({}, Terms(), 20),
        ({}, Terms(top_logprobs=5), 5),
        ({}, Terms(top_logprobs=30), 20),
        ({}, Terms(top_logprobs=0), None),
        ({}, Terms(thinks=True), None),
        ({"thinking": True}, Terms(), None),
        ({"api": "messages"}, Terms(), None),
    ],
)
def test_log_probabilities_are_asked_for_where_the_first_token_is_the_letter(entry, terms, n):
    body = build_request(asked(letters=["A", "B"], room=1), model(**entry), endpoint(), terms)
    assert body.get("top_logprobs") == n and body.get("logprobs") == (True if n else None)
    assert "logprobs" not in build_request(asked(), model(**entry), endpoint(), terms)
    assert build_request(asked(letters=["A"], room=1), model(), endpoint(), Terms(room=True))["max_tokens"] == 1024


def test_samples_have_seeds_of_their_own_and_a_system_message_is_said_once():
    body = build_request(asked(sample=3), model(sampling={"seed": 4}, system="Be kind."), endpoint())
    assert body["seed"] == 7 and [m["role"] for m in body["messages"]] == ["system", "user"]
    own = Request("q", [{"role": "system", "content": "x"}, {"role": "user", "content": "?"}], {"seed": None})
    body = build_request(own, model(sampling={"seed": 4}, system="Be kind."), endpoint())
    assert body["seed"] is None and [m["content"] for m in body["messages"]] == ["x", "?"] and body["stream"] is False


SCHEMA = {"type": "object", "properties": {"b": {"type": "string"}, "a": {"type": "object", "properties": {}}}}


@pytest.mark.parametrize("form", ["json_schema", "json_object", "none"])
def test_a_schema_is_sent_as_the_endpoint_takes_it(form):
    body = build_request(asked(schema=SCHEMA, language="de"), model(), endpoint(structured=form))
    by_terms = build_request(asked(schema=SCHEMA, language="de"), model(), endpoint(), Terms(structured=form))
    assert body == by_terms
    closed = {"type": "object", "properties": SCHEMA["properties"] | {"a": SCHEMA["properties"]["a"]}}
    closed["properties"] = {"b": {"type": "string"}, "a": SCHEMA["properties"]["a"] | {"additionalProperties": False}}
    closed["additionalProperties"] = False
    said = body["messages"][-1]["content"]
    if form == "json_schema":
        schema = {"name": "answer", "strict": True, "schema": closed}
        assert body["response_format"] == {"type": "json_schema", "json_schema": schema} and said == "?"
    else:
        assert body.get("response_format") == ({"type": "json_object"} if form == "json_object" else None)
        assert said.startswith("?\n\nAntworten Sie mit einem JSON-Wert") and json.loads(said.split("\n")[-1]) == closed
    text = build_request(asked(schema=SCHEMA), model(api="completions"), endpoint(structured=form))
    assert text.get("json_schema") == (closed if form == "json_schema" else None)
    list_of = build_request(asked(schema={"type": "array", "anyOf": [SCHEMA]}), model(), endpoint())
    assert list_of["response_format"]["json_schema"]["schema"]["anyOf"] == [closed]
    french = build_request(asked(schema=SCHEMA, language="fr"), model(), endpoint(structured="none"))
    assert "Answer with one JSON value" in french["messages"][-1]["content"]


def test_a_prefill_is_sent_where_the_endpoint_goes_on_with_it():
    body = build_request(asked(prefill="Because"), model(), endpoint(prefill=True))
    assert body["messages"][-1] == {"role": "assistant", "content": "Because"}
    with pytest.raises(ValueError, match=r"endpoints.e must take a prefill.*got prefill: false \(q\)"):
        build_request(asked(prefill="Because"), model(), endpoint())
    text = build_request(asked(prefill="Because"), model(api="completions"), endpoint())
    assert text["prompt"] == "Question: ?\nAnswer: Because" and "messages" not in text
    chat = [("system", "S"), ("user", "1"), ("assistant", " a "), ("user", "2")]
    messages = [{"role": role, "content": content} for role, content in chat]
    assert r.completion_prompt(messages) == "S\n\nQuestion: 1\nAnswer: a\n\nQuestion: 2\nAnswer:"
    assert r.completion_prompt(messages, "<{system}{prompt}>") == "<S\n\n1> a\n\n<2>"


def test_changes_are_what_the_terms_made_of_the_request():
    said = asked({"temperature": 0.5}, letters=["A"], schema=SCHEMA, room=9)
    all_changed = Terms(
        renamed=(("max_tokens", "max_completion_tokens"), ("top_k", "k")),
        dropped=("temperature",),
        top_logprobs=3,
        structured="json_object",
        thinks=True,
    )
    sent = build_request(said, model(), endpoint(), all_changed)
    got = changes(said, model(), endpoint(), all_changed, sent)
    assert sent["max_completion_tokens"] == 4096 and "temperature" not in sent
    assert set(got) == {
        "no temperature",
        "no logprobs",
        "no top_logprobs",
        "max_tokens as max_completion_tokens",
        "response_format json_object",
        "room for a thought",
    }
    fewer = Terms(top_logprobs=3)
    assert changes(said, model(), endpoint(), fewer, build_request(said, model(), endpoint(), fewer)) == (
        "top_logprobs 3",
    )
    assert changes(said, model(), endpoint(), Terms(), {}) == ()
    thinking = model(thinking=True)
    thinks = Terms(thinks=True)
    assert changes(said, thinking, endpoint(), thinks, build_request(said, thinking, endpoint(), thinks)) == ()


@pytest.mark.parametrize(
    ("messages", "letters", "words"),
    [
        ([], None, r"messages must be chat messages .* got \[\] \(q\)"),
        ([{"role": "assistant", "content": "x"}], None, "that end with the user's"),
        ([{"role": "user", "content": 3}], None, "got {'role': 'user', 'content': 3}"),
        ([{"role": "tool", "content": "x"}, {"role": "user", "content": "x"}], None, "got {'role': 'tool'"),
        ([{"role": "user", "content": "x"}], [], r"letters must name an option or be None; got \[\]"),
        ([{"role": "user", "content": "x"}], ["A", "b"], "letters must be single capital letters"),
        ([{"role": "user", "content": "x"}], ["AB"], "letters must be single capital letters"),
        ([{"role": "user", "content": "x"}], ["Ä"], "letters must be single capital letters"),
        ([{"role": "user", "content": "x\ud800"}], None, r"messages must be Unicode; got the lone surrogate '\\ud800'"),
    ],
)
def test_a_request_that_is_none_is_refused(messages, letters, words):
    with pytest.raises(ValueError, match=words):
        wire(Request("q", messages, letters=letters), model(), endpoint())


def test_a_request_s_bytes_and_key():
    w = wire(asked({"temperature": 0.5}, schema=SCHEMA, room=9), model(), endpoint())
    body = json.loads(w.body)
    assert list(body) == sorted(body) and b" " not in w.body.replace(b"json_schema", b"") and w.most == 9
    schema = body["response_format"]["json_schema"]["schema"]
    assert list(schema["properties"]) == ["b", "a"]  # as declared
    assert (w.path, len(w.key), w.changed) == ("/chat/completions", 64, ())
    same = wire(asked({"temperature": 0.5}, schema=SCHEMA, room=9), model(), endpoint(concurrency=3))
    assert same.key == w.key
    for other in (
        wire(asked({"temperature": 0.5}, schema=SCHEMA, room=9, sample=1), model(), endpoint()),
        wire(asked({"temperature": 0.5}, schema=SCHEMA, room=9, letters=["A"]), model(thinking=True), endpoint()),
        wire(asked({"temperature": 0.5}, schema=SCHEMA, room=9), model(), endpoint(identity="x")),
        wire(asked({"temperature": 0.5}, schema=SCHEMA, room=9), model(), endpoint(structured="none")),
        wire(asked({"temperature": 0.5}, room=9), model(), endpoint()),
    ):
        assert other.key != w.key
    with pytest.raises(ValueError, match=r"wire: .*\(q\)"):
        wire(asked({"temperature": float("nan")}), model(), endpoint())
    assert wire(asked(), model(), endpoint()).most is None
    assert wire(asked(room=9), model(api="responses"), endpoint()).most == 16


def test_an_answer_is_kept_as_it_is_and_counts_are_none_below_nothing():
    a = Answer("q", "x", letter_logprobs={"A": -0.5}, cost_usd=None, changed=["no seed"])
    a.tokens = Tokens(1, 2, 3, 4, 5)
    assert a.tokens == Tokens(1, 2, 3, 4, 5) and Tokens() == (0, 0, 0, 0, 0)
    back = Answer.from_json(a.to_json(), id="q")
    assert back == a and back.thought is False and back.listed is True
    plain = json.loads(Answer("q", "x").to_json())
    assert not {"id", "request_key", "cached", "letter_mass", "served", "thinking_tokens"} & set(plain)
    assert plain["cost_usd"] == 0.0 and plain["attempts"] == 0 and plain["status"] == "ok"
    for row, words in (
        ({"attempts": -1}, "attempts: .* greater than or equal to 0"),
        ({"prompt_tokens": 2**40}, "prompt_tokens: .* less than"),
        ({"cost_usd": -0.1}, "cost_usd"),
        ({"letter_logprobs": {"A": 0.1}}, "letter_logprobs.A"),
        ({"attempts": "1"}, "attempts"),
        ({"other": 1}, "other"),
    ):
        with pytest.raises(ValueError, match=words):
            Answer.from_json(json.dumps(plain | row))
    assert Answer.from_json(json.dumps(plain | {"prompt_tokens": 2**40 - 1, "letter_logprobs": {"A": 0.0}}))
    for bad in ("\ud800", float("nan")):
        with pytest.raises(ValueError):
            Answer("q", data=bad).to_json()


def test_kinds_of_endpoints(tmp_path, monkeypatch):
    monkeypatch.setenv("MHBENCH_PROVIDERS", str(tmp_path))
    (tmp_path / "mine.yaml").write_text(f"base_urls: [{HOST}]\napi_key_env: MY_KEY\nbatch_discount: 0.5\nrpm: 3.0\n")
    mine = r.endpoint("e", "mine")
    assert (mine.api_key_env, mine.batch_discount, mine.rpm, mine.base_urls) == ("MY_KEY", 0.5, 3.0, [HOST])
    moved = r.endpoint("e", "mine", base_urls=[HOST + "2"])  # a key goes only where the entry says
    assert (moved.api_key_env, moved.batch_discount, moved.rpm) == (None, 0.0, 3.0)
    assert r.endpoint("e", "mine", base_urls=[HOST]).api_key_env == "MY_KEY"
    with pytest.raises(ValueError, match="kind must be among .*; got 'mines'; did you mean mine"):
        r.endpoint("e", "mines")
    with pytest.raises(ValueError, match="any OpenAI-compatible service is openai with its base_urls"):
        r.endpoint("e", "zzzzzz")
    for text in ("name: x\n", "- x\n", "a: [\n"):
        (tmp_path / "bad.yaml").write_text(text)
        with pytest.raises(ValueError, match="the preset must be a YAML file with fields of an endpoint"):
            r.endpoint("e", "bad")
    (tmp_path / "bare.yaml").write_text("rpm: 1.0\n")
    with pytest.raises(
        ValueError, match=r"base_urls must be given for kind bare; got none \(endpoints.e\); see bare.yaml"
    ):
        r.endpoint("e", "bare")
    monkeypatch.delenv("MHBENCH_PROVIDERS")
    assert "mine" not in r.presets() and "openai" in r.presets()
