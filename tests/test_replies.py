"A reply is an answer only where its ending, its letters and its text say so."

import json
import math

import pytest
from asking import MODEL, ep, q, run
from faults.server import FaultServer, completion

from mhbench.ask.cache import Cache
from mhbench.ask.parse import parse_choice
from mhbench.ask.reply import ENDINGS, Malformed, read_reply
from mhbench.ask.request import wire

LETTERS = list("ABCDE")


def choice(text, finish="stop", **more):
    return {"message": {"content": text}, "finish_reason": finish, **more}


def listed(*tokens):
    "The log-probabilities of a reply: for each token, its alternatives with their probabilities."
    logs = lambda tops: [{"token": t, "logprob": math.log(p)} for t, p in tops.items()]
    return {"content": [{"token": next(iter(tops)), "top_logprobs": logs(tops)} for tops in tokens]}


def read(one, **more):
    return read_reply(json.dumps({"choices": [one], **more}).encode(), q(0, letters=LETTERS), MODEL)


STATUS = {"complete": "ok", "cut": "truncated", "filtered": "filtered", "refused": "refused"}


@pytest.mark.parametrize("reason, meaning", ENDINGS.items())
def test_an_end_reason_on_the_list_decides_the_status(reason, meaning):
    assert read(choice("Lithium is first.", reason.upper())).status == STATUS[meaning]


@pytest.mark.parametrize("reason", ["error", "network_error", "insufficient_system_resource", "abort", "later", None])
def test_any_other_end_reason_fails_by_its_name_and_is_never_kept(reason, tmp_path):
    with FaultServer({"question 0": [lambda body: (200, completion(body, text="A would be", finish=reason))] * 9}) as s:
        with Cache(tmp_path / "cache.sqlite") as cache:
            (a,) = run([q(0)], s, cache=cache)
            assert a.status == "error" and str(reason) in a.error
            asked = len(s.asked)
            run([q(0)], s, cache=cache)
            assert len(s.asked) > asked


def test_an_error_inside_a_choice_fails():
    with pytest.raises(Malformed, match="Upstream died"):
        read(choice("", error={"code": 502, "message": "Upstream died"}))


def test_a_letter_is_read_at_the_answer_and_not_at_an_article():
    preamble = [{"The": 0.9, "A": 0.03}, {" answer": 0.9}, {" is": 0.9}]
    got = read(choice("The answer is B", logprobs=listed(*preamble, {" B": 0.8, " A": 0.15})))
    assert max(got.letter_logprobs, key=got.letter_logprobs.get) == "B"
    assert got.letter_mass == pytest.approx(0.95)
    assert read(choice("The", "length", logprobs=listed(preamble[0]))).letter_logprobs is None
    patient = listed({"A": 0.9, "The": 0.05}, {" patient": 0.9}, {" on": 0.9}, {" B": 0.9})
    assert read(choice("A patient on B", logprobs=patient)).letter_logprobs is None


def test_letters_without_half_of_the_probability_are_no_evidence():
    assert read(choice("A", logprobs=listed({"A": 0.45, "Sure": 0.3}))).letter_logprobs is None
    assert read(choice("A", logprobs=listed({"A": 0.55, "Sure": 0.3}))).letter_logprobs is not None


def test_a_letter_that_is_not_listed_cannot_be_the_answer():
    assert read(choice("A", logprobs=listed({"A": 0.5}))).letter_logprobs is None  # B may have as much


def test_what_is_broken_beside_a_good_text_loses_no_text():
    logprobs = listed({"B": 0.9, "A": 0.05})
    logprobs["content"][0]["top_logprobs"][1]["logprob"] = None
    got = read(choice("B", logprobs=logprobs), usage={"prompt_tokens": "50", "completion_tokens": -1})
    assert (got.text, got.status, got.prompt_tokens, got.completion_tokens) == ("B", "ok", 50, 0)
    assert list(got.letter_logprobs) == LETTERS


def test_a_part_that_is_reasoning_is_no_answer():
    parts = [{"type": "reasoning", "text": "It may be A. "}, {"type": "text", "text": "B"}]
    got = read(choice(parts))
    assert (got.text, got.reasoning) == ("B", "It may be A. ")


@pytest.mark.parametrize(
    "text, letter",
    [
        ("<|channel>thought\nThe answer is A.\n<channel|>B", "B"),
        ("<|channel>thought\nThe answer is A, but", None),
        ("The answer is A.<|END_THINKING|><|START_RESPONSE|>B<|END_RESPONSE|>", "B"),
        ("&lt;think&gt;The answer is A.&lt;/think&gt;B", "B"),
        ("analysisThe answer is A?assistantfinalB", "B"),
    ],
)
def test_a_thought_is_no_answer(text, letter):
    assert parse_choice(text, LETTERS).letter == letter


FIRST = {"type": "object", "properties": {"justification": {"type": "string"}, "decision": {"enum": ["yes", "no"]}}}


@pytest.mark.parametrize("api", ["chat", "responses", "messages", "completions"])
@pytest.mark.parametrize("structured", ["json_schema", "json_object", "none"])
def test_the_fields_of_a_schema_are_sent_in_the_order_declared(api, structured):
    one = FIRST | {"required": ["justification", "decision"]}
    two = FIRST | {"properties": dict(reversed(FIRST["properties"].items()))}
    model = MODEL.model_copy(update={"api": api})
    sent = [wire(q(0, schema=s), model, ep("http://h/v1", structured=structured)) for s in (one, two)]
    places = [[w.body.index(b"justification"), w.body.index(b"decision")] for w in sent]
    assert places[0] == sorted(places[0]) and places[1] == sorted(places[1], reverse=True)
    assert sent[0].key != sent[1].key
