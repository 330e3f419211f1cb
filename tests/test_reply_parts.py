"Parts of a reply, each by hand: letters, places, usage, complaints, endings."

import json
import math

import pytest
from asking import MODEL, q

from mhbench.ask import reply as r
from mhbench.ask.reply import Complaint, Malformed, complaint_in, letter_logprobs, read_reply, read_usage

LETTERS = list("ABCD")


def logs(**p: float) -> list[tuple[str, float]]:
    return [(token.replace("_", " "), math.log(x)) for token, x in p.items()]


def test_a_letter_has_nineteen_spellings():
    expected = {f"{a}A{b}" for a in ("", " ", "(", " (") for b in ("", ")", ".", ":")} | {"a", "(a", "a)"}
    assert len(r.spellings("A")) == 19 and set(r.spellings("A")) == expected


def test_the_spellings_of_a_letter_are_added_up_and_a_token_that_stands_twice_counts_once():
    top = [*logs(A=0.4, _A=0.1, a=0.05, B=0.2, C=0.1, D=0.1), ("A", math.log(0.4)), ("\u0120B", math.log(0.02))]
    got = letter_logprobs(top, LETTERS)
    p = {"A": 0.55, "B": 0.22, "C": 0.1, "D": 0.1}
    assert got.bounded == [] and got.mass == pytest.approx(0.97)
    assert got.logprobs == pytest.approx({c: math.log(x) for c, x in p.items()})
    assert letter_logprobs([("A", 5.0)], ["A"]) == ({"A": 0.0}, [], 1.0)  # no probability is above 1
    assert letter_logprobs([("A", -1e9), ("B", 0.0)], ["B"]).mass == 1.0  # and one of 0 is none
    assert letter_logprobs([], LETTERS) is None


@pytest.mark.parametrize(
    ("p", "bounds"),
    [
        ({"A": 0.6, "B": 0.3, "x": 0.05}, 0.05 / 2),  # what the list leaves, shared by two
        ({"A": 0.9, "B": 0.099, "x": 0.0005}, 0.0005 / 2),
        ({"A": 0.6, "B": 0.2, "x": 0.001}, 0.019),  # nineteen spellings, each below the least that is listed
        ({"A": 0.5, "x": 0.3}, 0.2 / 3),
        ({"A": 0.49, "x": 0.3}, None),  # less than half on letters
        ({"A": 0.5, "B": 0.0001, "x": 0.0499}, 0.0019),
        ({"A": 0.3, "B": 0.25, "x": 0.1}, None),  # .35 are left: more than the best has
        ({"A": 0.35, "B": 0.3, "x": 0.05}, 0.15),
        ({"A": 0.39, "B": 0.2}, None),  # .41 are left
    ],
)
def test_letters_that_are_not_listed_share_what_is_left(p, bounds):
    got = letter_logprobs(logs(**p), LETTERS)
    if bounds is None:
        assert got is None
    else:
        absent = [c for c in LETTERS if c not in p]
        assert got.bounded == absent
        assert [math.exp(got.logprobs[c]) for c in absent] == pytest.approx([bounds] * len(absent))
        assert got.mass == pytest.approx(sum(x for c, x in p.items() if c in LETTERS))


def test_tokens_are_listed_in_either_form():
    chat = {
        "content": [{"token": "A", "logprob": -0.1, "top_logprobs": [{"token": "B", "logprob": -2}]}, {"logprob": 0}]
    }
    assert r.listed_tokens({"logprobs": chat}) == [("A", [("B", -2)]), ("", [])]
    alone = {"content": [{"token": "A", "logprob": -0.1, "top_logprobs": []}]}
    assert r.listed_tokens({"logprobs": alone}) == [("A", [("A", -0.1)])]
    old = {"tokens": ["A", "x"], "top_logprobs": [{"A": -0.1, "B": True, "C": "x", "D": 0.5, "E": 1e-3}, None]}
    assert r.listed_tokens({"logprobs": old}) == [("A", [("A", -0.1), ("E", 1e-3)]), ("x", [])]
    assert r.listed_tokens({"logprobs": {}}) is None and r.listed_tokens({}) is None


@pytest.mark.parametrize(
    ("tokens", "text", "place"),
    [
        (["A"], "A", 0),
        (["The", " answer", " is", " B", "."], "The answer is B.", 3),
        (["A", " patient", " B"], "A patient B", None),  # an article
        (["hm", "</think>", "\n", "C"], "C", 3),
        (["A", "</think>", "B"], "B", 2),
        (["B", "cd"], "Bcd", None),
        (["**", "B", "**"], "**B**", 1),
        (["`B`"], "`B`", 0),
        (["A", "B"], "B", 1),  # what stands before the answer is none
        (["\u0120", "\u2581B"], "B", 1),
        (["No", ":", " B"], "No: B", None),  # it does not announce an answer
        (["B"], "B and more", 0),  # the list ends before the text
        (["B"], "C", None),
        (["B"], "", None),
        (["x", "y"], "x y", None),
        (["xy"], "xy", None),
    ],
)
def test_the_token_that_states_the_letter(tokens, text, place):
    assert r.answer_position([(t, []) for t in tokens], text, LETTERS) == place


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        (None, (0, 0, 0, 0, 0)),
        ({"prompt_tokens": 5, "completion_tokens": 3}, (5, 3, 0, 0, 0)),
        ({"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 12}, (5, 7, 0, 0, 0)),
        ({"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 6}, (5, 3, 0, 0, 0)),
        ({"completion_tokens": 3, "total_tokens": 12}, (0, 3, 0, 0, 0)),
        ({"prompt_tokens": "5", "completion_tokens": 3.0}, (5, 3, 0, 0, 0)),
        ({"prompt_tokens": -1, "completion_tokens": True}, (0, 0, 0, 0, 0)),
        ({"prompt_tokens": 2**40, "completion_tokens": 2**40 - 1}, (0, 2**40 - 1, 0, 0, 0)),
        ({"prompt_tokens": 5, "completion_tokens_details": {"reasoning_tokens": 2}}, (5, 0, 2, 0, 0)),
        ({"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 9, "cache_write_tokens": 1}}, (0, 0, 0, 0, 0)),
        ({"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 9}}, (0, 0, 0, 0, 0)),
        ({"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 3}}, (5, 0, 0, 2, 3)),
        ({"prompt_tokens": 5, "prompt_tokens_details": 3, "completion_tokens_details": 3}, (5, 0, 0, 0, 0)),
        ("many", (0, 0, 0, 0, 0)),
    ],
)
def test_tokens_are_counted_where_a_count_can_be_read(usage, tokens):
    assert read_usage({"usage": usage}) == tokens


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (
            {"error": {"message": "no", "param": "seed", "code": "unknown_parameter"}},
            ("no", "seed", "unknown_parameter", True),
        ),
        ({"error": {"message": "no", "param": "body.messages/seed"}}, ("no", "seed", None, True)),
        ({"error": {"message": "no", "param": "null"}}, ("no", None, None, True)),
        ({"error": "no"}, ("no", None, None, False)),
        ([{"error": {"message": "no"}}], ("no", None, None, True)),
        ([{"error": {"message": "no"}}, {"msg": "so"}], ("no; so", None, None, True)),
        ([{"msg": "so"}, {"error": {"message": "no"}}], ("so; no", None, None, False)),
        ({"error": {"error": {"error": {"message": "in", "param": "q"}}}}, ("in", "q", None, True)),
        ({"error": {"error": {"error": {"error": {"msg": "in"}}}}}, ("{'msg': 'in'}", None, None, True)),
        ([], ("an empty body", None, None, False)),
        (
            {"detail": [{"msg": "bad", "loc": ["body", "seed"], "type": "extra_forbidden"}]},
            ("bad (body.seed)", None, "extra_forbidden", False),
        ),
        ({"detail": [{"msg": "a"}, {"msg": "b", "param": "x"}]}, ("a; b", None, None, False)),
        ([{"msg": str(k)} for k in range(7)], ("0; 1; 2; 3; 4", None, None, False)),
        (
            {"error": {"message": "up", "metadata": {"raw": '{"error": {"message": "down"}}'}}},
            ("up: down", None, None, True),
        ),
        ({"error": {"message": "up", "metadata": {"raw": {"message": "down"}}}}, ("up: down", None, None, True)),
        ({"error": {"param": "p", "error": {"message": "in", "param": "q"}}}, ("in", "p", None, True)),
        ({"error": {"error": {"message": "in", "param": "q"}}}, ("in", "q", None, True)),
        ({"a": 1}, ("{'a': 1}", None, None, False)),
        (None, ("an empty body", None, None, False)),
    ],
)
def test_what_the_body_of_an_error_says(body, complaint):
    words, param, code, error = complaint
    assert complaint_in(json.dumps(body).encode()) == Complaint(words, param, True, code, error)


def test_a_page_of_a_gateway_is_no_complaint_of_the_service():
    assert complaint_in(b" <html>") == Complaint("<html>", of_api=False)
    assert complaint_in(b"busy") == Complaint("busy") and complaint_in(b" ") == Complaint("an empty body")
    assert len(complaint_in(b"x" * 200_000).words) == 100_000


def read(one: dict, model=MODEL, letters=None, limit=None, schema=None, **more):
    raw = json.dumps({"choices": [one], **more}).encode()
    return read_reply(raw, q(0, letters=letters, schema=schema), model, limit)


def choice(text, finish="stop", **more) -> dict:
    return {"message": {"content": text, **more}, "finish_reason": finish}


@pytest.mark.parametrize(
    ("one", "status", "error"),
    [
        (choice("B"), "ok", None),
        (choice("B", "length"), "truncated", None),
        (choice("B", "content_filter"), "filtered", "finish_reason: content_filter"),
        (choice("B", refusal="I cannot"), "refused", "the model refused: I cannot"),
        (choice(""), "empty", "an empty content"),
        (choice(None), "empty", "no content"),
        (choice(None, reasoning="hm hm"), "empty", "no text after a thought of 5 characters"),
        (choice(None, tool_calls=[{"function": {"name": "f"}}, {"name": "g"}]), "empty",
         "no text: it called a tool, and none was offered (f, g)"),
        (choice(None, function_call={"name": "h"}), "empty", "no text: it called a tool, and none was offered (h)"),
    ],
)  # fmt: skip
def test_the_status_of_an_answer(one, status, error):
    got = read(one)
    assert (got.status, got.error) == (status, error)


def test_what_was_counted_of_an_empty_answer_is_said():
    assert read(choice(""), usage={"completion_tokens": 7}).error == "an empty content; 7 tokens of it were counted"
    got = read(choice(None, reasoning_content="hm"), usage={"completion_tokens": 7})
    assert got.error == "no text after a thought of 2 characters; 7 tokens of it were counted" and got.thought


def test_a_letter_that_is_all_that_is_wanted_may_be_cut():
    cut = choice("B", "length")
    assert read(cut, letters=LETTERS, limit=1).status == "ok"
    assert read(cut, letters=LETTERS, limit=400).status == "truncated"
    assert read(choice("Be", "length"), letters=LETTERS, limit=1).status == "truncated"
    assert read(cut, limit=1).status == "truncated"  # no letter was wanted
    listed = {"content": [{"token": "B", "top_logprobs": [{"token": "B", "logprob": -0.01}]}]}
    got = read({**choice("B because", "length"), "logprobs": listed}, letters=["A", "B"], limit=400)
    assert (got.status, got.letter_position, got.bounded, got.listed) == ("ok", 0, ["A"], True)
    assert got.letter_mass == pytest.approx(math.exp(-0.01)) and not read(choice("B"), letters=LETTERS).listed
    assert r.states_letter(got, LETTERS) and r.states_letter(read(choice(" **B** ")), LETTERS)
    assert not r.states_letter(read(cut), LETTERS) and not r.states_letter(read(choice("Be")), LETTERS)


@pytest.mark.parametrize(
    ("content", "text", "reasoning"),
    [
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "ab", None),
        ([{"type": "thinking", "thinking": [{"text": "h"}, {"text": "m"}]}, {"type": "text", "text": "b"}], "b", "hm"),
        ([{"type": "reasoning", "text": "hm"}, {"type": "text", "text": "b"}], "b", "hm"),
        ("<think>hm</think>b", "b", "hm"),
    ],
)
def test_a_thought_stands_apart(content, text, reasoning):
    got = read(choice(content))
    assert (got.text, got.reasoning, got.thought) == (text, reasoning, reasoning is not None)
    assert got.served["thought"] == ("yes" if reasoning else "not seen")
    both = read(choice(content, reasoning_content="first", reasoning="second"))
    assert both.reasoning == "first"


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        ([], "JSON that is no object"),
        ({"error": {"message": "x"}}, "an error with status 200: x"),
        ({"choices": []}, "an empty list of choices"),
        ({"choices": ["x"]}, "an empty list of choices"),
        ({"choices": [{"error": {"message": "x"}}]}, "an error in the choice: x"),
        ({"choices": [{"finish_reason": "stop"}]}, "no message in the choice"),
        ({"choices": [choice("x", "later")]}, "finish_reason 'later', which ends no complete answer"),
        ({"choices": [choice("x", 3)]}, "finish_reason '3', which"),
        ({"choices": [choice([{"text": 3}])]}, "content with a part that is no text"),
        ({"choices": [choice({"a": 1})]}, "content that is no text: {'a': 1}"),
        ({"choices": [choice("\ud800")]}, "content with a lone surrogate"),
        ({"choices": [choice("x", reasoning="\ud800")]}, "reasoning with a lone surrogate"),
        ({"choices": [choice("x", refusal="\ud800")]}, "refusal with a lone surrogate"),
    ],
)
def test_a_reply_that_is_none_is_malformed_and_its_tokens_are_counted(reply, words):
    if isinstance(reply, dict):
        reply |= {"usage": {"prompt_tokens": 5, "completion_tokens": 2}}
    with pytest.raises(Malformed, match=words.replace("(", r"\(")) as e:
        read_reply(json.dumps(reply).encode(), q(0), MODEL)
    assert e.value.tokens == ((5, 2) if isinstance(reply, dict) else (0, 0))


def test_a_body_that_is_not_json_is_shown_in_part():
    for raw, shown in ((b"x" * 80, repr(b"x" * 80)), (b"x" * 81, f"{b'x' * 80!r} ...")):
        with pytest.raises(Malformed) as e:
            read_reply(raw, q(0), MODEL)
        assert str(e.value) == f"a body that is not JSON: {shown}"


def test_json_is_read_against_its_schema():
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    assert r.read_json('so: ```json\n{"a": 1}\n```', schema) == ({"a": 1}, None)
    assert r.read_json('{"a": "x"}', schema) == (None, "at $.a: 'x' is not of type 'integer'")
    assert r.read_json("no", schema) == (None, "not JSON, or JSON that says two things: 'no'")
    got = read(choice('{"a": "x"}'), schema=schema)
    assert (got.status, got.error, got.data) == (
        "error",
        "not the JSON asked for, at $.a: 'x' is not of type 'integer'",
        None,
    )
    assert read(choice('{"a": 2}'), schema=schema).data == {"a": 2}


def test_what_answered_is_told_as_the_reply_states_it():
    reply = {
        "model": "/srv/x\\m.gguf/",
        "system_fingerprint": "f",
        "usage": {"provider": "p", "model": "other"},
        "service_tier": " ",
    }
    assert r.served_by(reply) == {"model": "m.gguf", "provider": "p", "fingerprint": "f"}
    assert (
        r.served_by({"model": "a/b", "usage": 3}) == {"model": "a/b"}
        and len(r.served_by({"model": "x" * 300})["model"]) == 200
    )
    counts = {("model", "a"): 2, ("model", "b"): 1, ("provider", "p"): 3}
    assert r.describe_serving_differences(counts) == "what answered was not the same throughout; 2 models: a (2), b (1)"
    assert r.describe_serving_differences({("model", "a"): 2}) == ""
    many = {("tier", f"t{k}"): 1 for k in range(7)}
    assert r.describe_serving_differences(many).endswith(
        "7 service tiers: t0 (1), t1 (1), t2 (1), t3 (1), t4 (1) and 2 more"
    )
    assert "and" not in r.describe_serving_differences({k: 1 for k in list(many)[:5]})


@pytest.mark.parametrize(
    ("top", "is_evidence"),
    [
        ({"A": 0.0, "B": 0.0}, False),  # each has all of the probability: a stand-in for what was not computed
        ({"A": -0.1, "B": -0.1}, False),
        ({"A": -0.6, "B": -0.7}, True),  # 1.045, with rounding
        ({"B": 0.0}, True),
    ],
)
def test_what_sums_to_more_than_all_is_no_probability(top, is_evidence):
    assert (letter_logprobs(top.items(), ["A", "B"]) is not None) is is_evidence
