"A reply is an answer only where its ending, its letters and its text say so."

import json
import math

import pytest
from asking import MODEL, ep, q, run
from faults.server import FaultServer, completion

from mhbench.ask.cache import Cache
from mhbench.ask.parse import parse_choice
from mhbench.ask.reply import ENDINGS, UNFINISHED, Malformed, read_reply
from mhbench.ask.request import Model, wire

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


@pytest.mark.parametrize("broken", [[1, 2], {"content": ["A"]}, {"content": [None]}, {"top_logprobs": [5]}])
def test_a_broken_list_of_log_probabilities_loses_no_text(broken):
    got = read(choice("B", logprobs=broken))
    assert (got.text, got.status, got.letter_logprobs) == ("B", "ok", None)


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


# -- a stream that nobody asked for


def events(*chunks, end=b"data: [DONE]\n\n"):
    return b"".join(b"event: x\ndata: " + json.dumps(c).encode() + b"\n\n" for c in chunks) + end


def delta(finish=None, logprobs=None, **part):
    return {"choices": [{"index": 0, "delta": part, "logprobs": logprobs, "finish_reason": finish}]}


CHUNKS = [
    delta(role="assistant", content="", reasoning_content="Let me "),
    delta(reasoning_content="see."),
    delta(content="B", logprobs=listed({"B": 0.9, "A": 0.05})),
    delta("stop", content="."),
    {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}},
]
RESPONSE = {
    "status": "completed",
    "output": [{"type": "message", "content": [{"type": "output_text", "text": "B"}]}],
    "usage": {"input_tokens": 7, "output_tokens": 3},
}


def test_a_stream_is_read_where_it_is_whole():
    got = read_reply(events(*CHUNKS), q(0, letters=LETTERS), MODEL)
    assert (got.text, got.reasoning, got.status, got.prompt_tokens) == ("B.", "Let me see.", "ok", 7)
    assert got.letter_logprobs["B"] == pytest.approx(math.log(0.9))
    whole = {"choices": [choice("B")]}
    for raw in (events(whole), json.dumps(whole).encode() + b"\n\ndata: [DONE]\n\n"):
        assert read_reply(raw, q(0), MODEL).text == "B"
    parts = [{"choices": [{"text": t, "finish_reason": f}]} for t, f in (("B", None), (".", "stop"))]
    assert read_reply(events(*parts), q(0), MODEL.model_copy(update={"api": "completions"})).text == "B."
    said = [{"type": "response.created", "response": {"status": "in_progress"}}]
    said += [{"type": "response.output_text.delta", "delta": "B"}, {"type": "response.completed", "response": RESPONSE}]
    assert read_reply(events(*said), q(0), MODEL.model_copy(update={"api": "responses"})).text == "B"


@pytest.mark.parametrize(
    "raw", [events(*CHUNKS[:3]), events(*CHUNKS[:2], end=b"data: {"), b"data: \n\n", b"event: x\n"]
)
def test_a_stream_that_is_not_whole_is_refused_after_one_try_with_a_remedy(raw):
    with FaultServer({"question 0": [lambda body: (200, raw)] * 9}) as s:
        (a,) = run([q(0)], s)
    assert (a.status, len(s.asked)) == ("error", 1) and "whole replies" in a.error and "base_urls" in a.error


def test_what_is_too_large_is_not_sent_again_and_what_has_no_capacity_is():
    large = {"error": {"message": "Request too large; please reduce your message size and try again"}}
    full = {"error": {"message": "Flex tier capacity exceeded"}}
    with FaultServer({"question 0": [lambda body: (413, large)] * 9, "question 1": [lambda body: (498, full)]}) as s:
        first, second = run([q(0), q(1)], s)
    assert (first.status, first.attempts, second.status, second.attempts) == ("error", 1, "ok", 2)


# -- content that is empty, in parts, paid for and absent


@pytest.mark.parametrize(
    "message, words",
    [
        ({"content": "", "reasoning_content": "So the final choice is B."}, "no text after a thought of 25 characters"),
        ({"content": ""}, "an empty content"),
        ({"content": None}, "no content; 3 tokens of it were counted"),
        ({"content": []}, "an empty content"),
        ({"content": [{"type": "reasoning", "text": "B?"}]}, "no text after a thought of 2 characters"),
        ({"content": None, "tool_calls": [{"function": {"name": "answer", "arguments": "B"}}]}, "called a tool"),
    ],
)
def test_a_reply_without_a_text_is_empty_says_what_came_and_is_never_kept(message, words, tmp_path):
    body = {"choices": [{"message": message, "finish_reason": "stop"}], "usage": {"completion_tokens": 3}}
    with FaultServer(every=lambda n, _: lambda _: (200, body)) as s, Cache(tmp_path / "cache.sqlite") as cache:
        (a,) = run([q(0)], s, cache=cache)
        assert (a.status, a.text or "") == ("empty", "") and words in a.error
        assert len(s.asked) == 1, "it is paid for once"
        run([q(0)], s, cache=cache)
        assert len(s.asked) == 2, "the next run asks again"


# -- where a letter is read


def sentence(body, text="The answer is B", first="The"):
    "A model that begins with a word whose alternatives include an article, and states the letter later."
    alone = body.get("max_tokens", 99) == 1
    out = completion(body, first if alone else text, finish="length" if alone else "stop")
    if body.get("logprobs"):
        tokens = [{first: 0.85, "A": 0.03}]
        tokens += [] if alone else [{" answer": 0.9}, {" is": 0.9}, {" B": 0.8, " A": 0.1}]
        out["choices"][0]["logprobs"] = listed(*tokens)
    return 200, out


def ask_letters(s, n, cache=None, **more):
    one = {"max_tokens": 1}
    return run([q(i, letters=LETTERS, sampling=one) for i in range(n)], s, cache=cache, **more)


def test_a_model_whose_first_token_is_no_letter_is_given_room_from_the_first_items_on(tmp_path):
    with FaultServer(every=lambda n, _: sentence) as s, Cache(tmp_path / "cache.sqlite") as cache:
        answers = ask_letters(s, 30, cache)
        assert {max(a.letter_logprobs, key=a.letter_logprobs.get) for a in answers} == {"B"}
        assert {a.letter_position for a in answers} == {3}
        assert len(s.asked) <= 30 + 4 + 1, "once more for those in flight alone"
        n = len(s.asked)
        ask_letters(s, 31, cache)
        assert len(s.asked) == n + 1, "a later run asks with room at once"


def test_a_letter_that_came_at_once_is_not_asked_for_again(tmp_path):
    def reply(body):
        even = int(body["messages"][-1]["content"].split()[-1]) % 2 == 0
        return sentence(body, "B", "B") if even else sentence(body)

    def at_once(body):
        code, out = reply(body)
        if out["choices"][0]["message"]["content"] == "B" and body.get("logprobs"):
            out["choices"][0]["logprobs"] = listed({"B": 0.9, "A": 0.05})
        return code, out

    with FaultServer(every=lambda n, _: at_once) as s, Cache(tmp_path / "cache.sqlite") as cache:
        first = ask_letters(s, 40, cache)
        assert all(max(a.letter_logprobs, key=a.letter_logprobs.get) == "B" for a in first)
        n = len(s.asked)
        again = ask_letters(s, 40, cache)
        assert len(s.asked) == n and all(a.cached for a in again)


def test_a_first_token_that_an_earlier_version_kept_is_not_served_as_a_letter(tmp_path):
    from mhbench.ask.cache import Row
    from mhbench.ask.request import Answer

    with FaultServer(every=lambda n, _: sentence) as s, Cache(tmp_path / "cache.sqlite") as cache:
        key = wire(q(0, letters=LETTERS, sampling={"max_tokens": 1}), MODEL, ep(s.url)).key
        old = Answer(text="The", finish_reason="length").to_json()
        cache.put_many([Row(key, MODEL.name, ep(s.url).cache_identity, "ok", True, 1.0, old, "")])
        (a,) = ask_letters(s, 1, cache)
        assert a.letter_logprobs and not a.cached


def test_a_text_that_is_cut_before_its_letter_is_given_the_room_of_a_thought():
    def rambles(body):
        most = body.get("max_tokens", 9999)
        return 200, completion(
            body, *(("The answer is B", "stop") if most > 2000 else ("First, the options", "length"))
        )

    with FaultServer(every=lambda n, _: rambles) as s:
        answers = ask_letters(s, 6, model=MODEL.model_copy(update={"sampling": {"temperature": 0.0}}))
    assert {a.text for a in answers} == {"The answer is B"}


def test_a_check_compares_token_and_text_and_says_which_is_read():
    from mhbench.ask.probe import check

    def reply(body, text, tokens):
        out = completion(body, text)
        if body.get("logprobs"):
            out["choices"][0]["logprobs"] = listed(*tokens)
        return 200, out

    fair = {"B": 0.9, "A": 0.05}
    for text, tokens, source, why in [
        ("B", [fair], "log-probabilities", "its text states B"),
        ("B", [{"B": 0.3, "A": 0.6}], None, "its first token states A, and its text B: it is given room"),
        (
            "The answer is B",
            [{"The": 0.9, "A": 0.05}, {" answer": 0.9}, {" is": 0.9}, {" B": 0.9}],
            None,
            "token 4 is a letter",
        ),
        ("It depends", [{"It": 0.9}, {" depends": 0.9}], "none", "no letter is stated"),
        ("", [], "none", "empty"),
    ]:
        with FaultServer(every=lambda n, _, text=text, tokens=tokens: lambda b: reply(b, text, tokens)) as s:
            report = check(MODEL.model_copy(update={"sampling": {}}), ep(s.url))
        assert report.letters_from == (source or "log-probabilities") and why in report.why, str(report)
        assert report.works["sentence"].startswith("ok") == bool(text)


@pytest.mark.parametrize("api", ["chat", "responses", "messages", "completions"])
def test_what_is_sent_asks_for_no_stream_and_the_key_is_of_the_rest(api):
    model = MODEL.model_copy(update={"api": api})
    one = q(0, schema=FIRST | {"required": ["justification", "decision"]})
    with FaultServer(every=lambda n, body: lambda body: (200, {"choices": []})) as s:
        run([one], s, model=model, endpoint=ep(s.url, max_attempts=1))
        there, without = (wire(one, model, ep(s.url, refuses=r)) for r in ({}, {"stream": None}))
    assert s.raw[0] == there.body and b'"stream":false' in there.body and b"stream" not in without.body
    assert there.key == without.key and not without.changed


@pytest.mark.parametrize("reason, is_asked_again", [("later", False), (None, False), *((r, True) for r in UNFINISHED)])
def test_a_reply_is_asked_again_where_its_end_reason_may_pass_and_paid_once_where_it_is_unknown(reason, is_asked_again):
    say = lambda body: (200, completion(body, text="A would be", finish=reason))
    with FaultServer({"question 0": [say] * 9}) as s:
        (a,) = run([q(0)], s)
    n_asked = 6 if is_asked_again else 1
    assert (a.status, a.text, a.attempts, len(s.asked)) == ("error", None, n_asked, n_asked)
    assert (a.prompt_tokens, a.completion_tokens) == (10 * n_asked, 5 * n_asked)
    remedy = "name it under endings in mhbench/ask/texts/answers/replies.yaml"
    assert (
        f"finish_reason '{reason}', which ends no complete answer" in a.error and (remedy in a.error) != is_asked_again
    )


# -- what is not known


@pytest.mark.parametrize("index", [0, 1])
def test_of_several_choices_none_is_the_answer(index, tmp_path):
    second = {"index": index, **choice("B")}
    body = {"choices": [{"index": 1 - index, **choice("A")}, second]}
    with FaultServer(every=lambda n, _: lambda _: (200, body)) as s:
        (a,) = run([q(0)], s)
        assert (a.status, a.text, len(s.asked)) == ("error", None, 1) and "2 choices where one was asked for" in a.error


def test_choices_of_a_stream_are_not_joined():
    event = lambda i, text, end=None: {"choices": [{"index": i, "delta": {"content": text}, "finish_reason": end}]}
    stream = lambda *events: b"".join(b"data: " + json.dumps(e).encode() + b"\n\n" for e in events)
    one = read_reply(stream(event(0, "The answer "), event(0, "is B", "stop")), q(0), MODEL)
    assert one.text == "The answer is B"
    with pytest.raises(Malformed, match="2 choices"):
        read_reply(stream(event(0, "B"), event(1, "A"), event(0, "", "stop"), event(1, "", "stop")), q(0), MODEL)


@pytest.mark.parametrize("name", ["n", "best_of"])
def test_an_entry_that_asks_for_several_choices_is_refused(name):
    with pytest.raises(ValueError, match=f"sampling must ask for one answer a request; got {name}: 3"):
        Model(name="m", endpoint="e", served="m", sampling={name: 3})
    assert Model(name="m", endpoint="e", served="m", sampling={name: 1}).sampling == {name: 1}


PROMPT = {"prompt_tokens": 50}


@pytest.mark.parametrize(
    "usage",
    [
        None,
        {},
        PROMPT,
        PROMPT | {"completion_tokens": -1},
        PROMPT | {"completion_tokens": 0},
        {"completion_tokens": 3},
        {"prompt_tokens": 10**30, "completion_tokens": 3},
        {"prompt_tokens": 0, "completion_tokens": 3},
        {"input_tokens": 50, "output_tokens": 3},
        PROMPT | {"completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 51}},
    ],
)
def test_a_count_of_tokens_that_lacks_one_of_both_is_none(usage):
    body = lambda b: (200, completion(b, "B") | {"usage": usage})
    with FaultServer(every=lambda n, _: body) as s:
        (a,) = run([q(0)], s)
    assert (a.status, a.text, a.prompt_tokens, a.completion_tokens, a.cost_usd) == ("ok", "B", 0, 0, None)


def test_a_reply_that_was_paid_for_and_counts_nothing_has_no_cost():
    for body in (b"<html>", b'{"choices": []}', b'{"error": {"message": "overloaded"}}'):
        with FaultServer(every=lambda n, _, body=body: lambda _: (200, body)) as s:
            (a,) = run([q(0)], s)
            assert (a.status, a.cost_usd) == ("error", None), "unknown, and not nothing"
    with FaultServer(every=lambda n, _: "401") as s:
        (a,) = run([q(0)], s)
        assert (a.status, a.cost_usd) == ("error", 0.0), "it was refused"


def test_a_filter_that_gives_no_message_is_a_filter():
    body = {"choices": [{"index": 0, "finish_reason": "content_filter: PROHIBITED_CONTENT"}]}
    with FaultServer(every=lambda n, _: lambda _: (200, body)) as s:
        (a,) = run([q(0)], s)
        assert (a.status, a.text, len(s.asked)) == ("filtered", "", 1)
    with pytest.raises(Malformed, match="no message"):
        read({"finish_reason": "stop"})


def test_a_refusal_among_the_parts_of_a_content_is_a_refusal():
    got = read(choice([{"type": "refusal", "refusal": "I can't help with that."}]))
    assert (got.status, got.error) == ("refused", "the model refused: I can't help with that.")


def test_a_thought_in_the_text_is_no_answer_though_there_is_a_field_for_it():
    got = read({"message": {"content": "<think>A?</think>B", "reasoning_content": "A?"}, "finish_reason": "stop"})
    assert (got.text, got.reasoning) == ("B", "A?")


def test_an_end_reason_that_is_no_text_is_named_and_paid_once():
    body = lambda b: (200, completion(b, "B", finish={"type": "stop", "matched": 1}))
    with FaultServer(every=lambda n, _: body) as s:
        (a,) = run([q(0)], s)
        assert "finish_reason \"{'type': 'stop'" in a.error and len(s.asked) == 1
