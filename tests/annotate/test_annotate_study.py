"""What a rating study asks, which answers it reads, who gets which question, and what is in conflict."""

import hashlib
import hmac
import json
import re
import sqlite3

import pytest

from mhbench.annotate.assignment import (
    complete_answers,
    conflicting,
    core,
    enrol,
    first_assignment,
    leave,
    rater_list,
    reassign,
    share_conflicts,
    share_out,
)
from mhbench.annotate.export import all_answers, all_events, left_out, ratings
from mhbench.annotate.server import RateLimit
from mhbench.annotate.store import Change, Register, Visit, open_store
from mhbench.annotate.study import (
    QUESTION_KINDS,
    Assigned,
    Field,
    Kind,
    QuestionPage,
    RatedAnswer,
    Rule,
    build_study,
    code,
    draw,
    fields,
    fits,
    is_mark,
    main_error,
    missing,
    passed,
    present,
    question_fingerprint,
    read,
    verdicts,
)
from mhbench.records.schema import Response

from .conftest import items

ERRORS = {"kind": "errors", "errors": {"fact": "Wrong.", "logic": "Odd."}}


def said(*of: tuple, **more) -> list[Response]:
    return [Response(item_id=i, study="example", model=m, mode="cot", text=t, **more) for i, m, t in of]


def label(x: str | None) -> RatedAnswer:
    return RatedAnswer(label=x)


def test_answers_without_a_text_are_shown_to_nobody_and_counted_by_status():
    given = said(("q1", "a", " text "), ("q1", "b", "  "), ("q1", "c", "x"), ("other", "a", "x"))
    given += said(("q2", "b", "No."), status="refused")
    study = build_study("example", {"kind": "labels", "models": ["a", "b"]}, items(2), given)
    assert [(q.question_id, q.targets) for q in study.questions] == [("q1", {"a": "text"})]
    assert study.omitted == {"empty": 1, "refused": 1}
    with pytest.raises(ValueError, match=r"must be one a model and item; got two of a \(q1\)"):
        build_study("example", {"kind": "labels"}, items(1), said(("q1", "a", "x"), ("q1", "a", "y")))
    with pytest.raises(ValueError, match=r"got none of 1 items, 0 with answers \(without a text: \{'empty': 1\}\)"):
        build_study("example", {"kind": "labels"}, items(1), said(("q1", "a", "")))
    with pytest.raises(ValueError, match=r"got none of 1 items, 0 with answers \(without a text: none\)"):
        build_study("example", {"kind": "labels"}, items(1), said(("other", "a", "x")))


def test_a_model_without_an_answer_and_items_that_nobody_answered_are_named():
    "A misspelled model, and an item that no answer names, were left out without a word."
    given = said(*[(f"q{k}", "m", "x") for k in (1, 2)])
    study = build_study("example", {"kind": "score", "models": ["m", "typo"]}, items(3), given)
    assert study.omitted == {"no answer of typo": 3, "no answer to q3": 1}
    study = build_study("example", {"kind": "labels"}, items(9), given)
    assert study.omitted == {"no answer to q3, q4, q5, q6, q7 and 2 more": 7}
    assert build_study("example", ERRORS, items(3), given).omitted == {}, "of the others no answer is wrong"
    assert build_study("example", {"kind": "agree"}, items(3)).omitted == {}


def test_each_kind_asks_about_what_it_judges():
    answers = said(("q1", "b", "B!"), ("q1", "a", "A!"), ("q1", "c", "C!"))
    of = lambda entry: build_study("example", entry, items(1), answers).questions
    duels = of({"kind": "duel", "axes": {"harm": "Which?"}})
    assert [(q.question_id, list(q.sides)) for q in duels] == [
        ("q1@a@b", ["a", "b"]),
        ("q1@a@c", ["a", "c"]),
        ("q1@b@c", ["b", "c"]),
    ]
    assert [(q.question_id, q.targets) for q in of(ERRORS)] == [
        ("q1@b", {"b": "B!"}),
        ("q1@a", {"a": "A!"}),
        ("q1@c", {"c": "C!"}),
    ]
    [agree] = of({"kind": "agree"})
    assert agree.key == "B" and list(agree.targets) == list("ABCDE") and agree.sides == {}
    [yes] = of({"kind": "yes_no", "asks": {"fit": "Fit?"}})
    assert yes.targets == {"fit": "Fit?"} and list(yes.sides) == list("ABCDE")
    assert of({"kind": "score"})[0].reference == "Refer at once"
    few = build_study("example", {"kind": "agree", "n_items": 2, "replace": {"case": "story"}}, items(9)).questions
    ids = [q.question_id for q in few]
    assert len(ids) == 2 and ids == sorted(ids, key=lambda i: int(i[1:])), "drawn, in the corpus's order"
    with pytest.raises(ValueError, match="n_items must fit .*greater than or equal to 1.*got 0"):
        build_study("example", {"kind": "agree", "n_items": 0}, items(9))
    other = build_study("example", {"kind": "agree", "n_items": 2, "seed": 2}, items(9)).rated_ids
    assert other != ids
    named = build_study("example", {"kind": "agree", "item_ids": ["q3", "q1"]}, items(3))
    assert named.rated_ids == ["q3", "q1"] and named.synthetic
    real = [i.model_copy(update={"canary": None}) for i in items(2)]
    assert not build_study("example", {"kind": "agree"}, real).synthetic
    assert build_study("example", {"kind": "agree"}, [*real[:1], items(2)[1]]).synthetic, "one that is marked is enough"
    assert (Rule().per_item, Rule().batch, Rule().repeats, Rule().resolver_core) == (2, 20, 0, False)


@pytest.mark.parametrize(
    ("form", "text", "answer"),
    [
        ("number", " 7 ", RatedAnswer(7.0)),
        ("number", "100", RatedAnswer(100.0)),
        ("number", "101", None),
        ("number", "7.5", None),
        ("number", "-1", None),
        ("number", " ", RatedAnswer()),
        ("choice", "yes", label("yes")),
        ("choice", "maybe", None),
        ("flag", "yes", label("yes")),
        ("span", "02-10", label("2-10")),
        ("span", "0-14", label("0-14")),
        ("span", "0-15", None),
        ("span", "5-5", None),
        ("span", "6-5", None),
        ("span", "x", None),
        ("text", "a\r\nb\0", label("a\nb")),
        ("text", "x" * 10_000, label("x" * 10_000)),
        ("text", "x" * 10_001, None),
    ],
)
def test_a_field_reads_an_answer_or_says_what_it_takes(form, text, answer):
    [question] = build_study("example", ERRORS, items(1), said(("q1", "a", "fourteen chars"))).questions
    field = Field("f", form, ("yes", "no"))
    if answer is not None:
        assert read(field, text, question) == answer
        return
    with pytest.raises(ValueError, match="read: f must be .*; got .* .q1@a"):
        read(field, text, question)


@pytest.mark.parametrize(
    ("given", "lacking", "main"),
    [
        ({}, ["fact"], None),
        ({"Abstain": "yes"}, [], "Abstain"),
        ({"Abstain": "yes", "fact": "yes"}, ["Abstain"], None),
        ({"fact": "yes"}, [], "fact"),
        ({"fact": "yes", "logic": "yes"}, ["main"], None),
        ({"fact": "yes", "logic": "yes", "main": "logic"}, [], "logic"),
        ({"comment": "x"}, ["fact"], None),
    ],
)
def test_errors_are_complete_with_one_kind_or_a_main_one(given, lacking, main):
    study = build_study("example", ERRORS, items(1), said(("q1", "a", "x")))
    answers = {t: label(x) for t, x in given.items()} | {"logic-none": RatedAnswer()}
    assert missing(study, study.questions[0], answers) == lacking
    if main:
        assert main_error(study, answers) == main
    names = [(f.target, f.form, f.required) for f in fields(study, study.questions[0])]
    assert names == [
        ("fact", "flag", False),
        ("logic", "flag", False),
        ("Abstain", "flag", False),
        ("span-fact", "span", False),
        ("span-logic", "span", False),
        ("main", "choice", False),
        ("comment", "text", False),
    ]
    without = build_study("example", ERRORS | {"spans": False}, items(1), said(("q1", "a", "x")))
    assert len(fields(without, without.questions[0])) == 5


def test_a_check_is_passed_by_the_expected_answers_alone():
    study = build_study(
        "example",
        {
            "kind": "sliders",
            "checks": [
                {
                    "question_id": "c",
                    "question": "?",
                    "targets": {"A": "a", "B": "b"},
                    "expected": {"A": [10, 20], "B": [0, 5]},
                }
            ],
        },
        items(1),
    )
    check = study.of_role("check")[0]
    number = lambda a, b: {"A": RatedAnswer(a), "B": RatedAnswer(b)}
    assert passed(check, number(10.0, 5.0)) is True and passed(check, number(20.0, 0.0)) is True
    assert passed(check, number(9.0, 5.0)) is False and passed(check, number(21.0, 5.0)) is False
    assert passed(check, {"A": RatedAnswer(10.0)}) is None and passed(study.questions[0], number(10.0, 5.0)) is None
    assert fits("yes", label("yes")) and not fits("yes", label("no")) and not fits([0, 5], label("yes"))


@pytest.mark.parametrize(
    ("kind", "expected", "told"),
    [
        ("yes_no", {"z": "Yes"}, "must be one of yes, no; got 'Yes' for 'z' (example, question c); correct it"),
        ("yes_no", {"zz": "yes"}, "must name a target of the question (z, a, comment); got 'yes' for 'zz'"),
        ("yes_no", {"z": [0, 1]}, "must be one of yes, no; got [0.0, 1.0] for 'z'"),
        ("sliders", {"A": [80]}, "must be the lowest and the highest number, from 0 to 100, as [80, 100]; got [80.0]"),
        ("sliders", {"A": [80, 20]}, "; got [80.0, 20.0] for 'A'"),
        ("sliders", {"A": [80, 101]}, "; got [80.0, 101.0] for 'A'"),
        ("sliders", {"A": "80"}, "; got '80' for 'A'"),
        ("agree", {"key": "C"}, "must be one of A, B; got 'C' for 'key'"),
    ],
)
def test_an_expected_answer_that_nobody_can_give_is_refused_at_the_start(kind, expected, told):
    "Everybody failed the check, or it was never decided, or the page broke off."
    check = {"question_id": "c", "question": "?", "expected": expected}
    entry = {"kind": kind, "checks": [check | ({} if kind == "yes_no" else {"targets": {"A": "a", "B": "b"}})]}
    with pytest.raises(ValueError, match=re.escape(told)):
        build_study("example", entry | ({"asks": ASKS} if kind == "yes_no" else {}), items(1))


@pytest.mark.parametrize(
    ("kind", "verdicts", "conflict"),
    [
        ("agree", ["A", "B"], True),
        ("agree", ["A", "A"], False),
        ("agree", ["A", "B", "A"], False),
        ("agree", ["A", "B", "C"], True),
        ("agree", ["A"], False),
        ("labels", ["Correct", "Incorrect"], True),
        ("labels", ["Correct", "Abstain"], False),
        ("labels", ["Correct", "Incorrect", "Abstain"], True),
        ("errors", ["fact", "logic"], True),
        ("errors", ["fact", "Abstain"], True),
        ("errors", ["fact", "fact"], False),
    ],
)
def test_raters_are_in_conflict_where_no_verdict_has_most(kind, verdicts, conflict):
    entry = ERRORS if kind == "errors" else {"kind": kind}
    study = build_study("example", entry, items(1), said(("q1", "m", "x")) if kind != "agree" else ())
    target = {"agree": "key", "labels": "m"}.get(kind)
    answers = [
        {target or v: label(v if target else "yes"), "comment": label(str(k)), "difficulty": label(str(k))}
        for k, v in enumerate(verdicts)
    ]
    assert conflicting(study, answers) is conflict


@pytest.mark.parametrize(
    ("verdicts", "conflict"),
    [(["good", "bad"], True), (["good", "good"], False), (["good", "Abstain"], False), (["bad", "good", "bad"], False)],
)
def test_labels_of_a_studys_own_are_in_conflict_as_the_usual_ones_are(verdicts, conflict):
    "Raters who differed over good and bad were in no conflict, and the resolver had nothing."
    entry = {"kind": "labels", "labels": ["good", "bad", "Abstain"]}
    study = build_study("example", entry, items(1), said(("q1", "m", "x")))
    assert conflicting(study, [{"m": label(v)} for v in verdicts]) is conflict


IDS = [f"q{k}" for k in range(12)]


@pytest.mark.parametrize(
    ("rule", "raters_of_each", "most_apart"),
    [
        (Rule(rule="everyone"), {3}, 0),
        (Rule(rule="pairs"), {2}, 1),
        (Rule(rule="core_and_split", n_core=3, per_item=1), {1, 3}, 1),
        (Rule(rule="batches", batch=4, per_item=2), {2}, 4),
        (Rule(rule="core_and_split", n_core=0, per_item=9), {3}, 0),
    ],
)
def test_each_question_has_the_raters_that_the_rule_wants(rule, raters_of_each, most_apart):
    held = first_assignment(rule, IDS, ["a", "b", "c"], seed=1)
    counts = [sum(i in of for of in held.values()) for i in IDS]
    loads = [len(of) for of in held.values()]
    assert set(counts) == raters_of_each and max(loads) - min(loads) <= most_apart
    assert all(len(set(of)) == len(of) for of in held.values())
    shared = [i for i, n in zip(IDS, counts) if n == 3]
    if rule.rule == "core_and_split" and rule.n_core:
        assert sorted(shared) == sorted(core(rule, IDS, 1)) and all(
            of[:3] == core(rule, IDS, 1) for of in held.values()
        )
    assert first_assignment(rule, IDS, [], seed=1) == {}
    assert first_assignment(rule, IDS, ["a", "b", "c"], seed=1) == held


def test_what_was_begun_stays_and_the_rest_is_shared_anew():
    rule = Rule(rule="pairs")
    before = first_assignment(rule, IDS, ["a", "b", "c"], seed=1)
    begun = {("c", before["c"][0]), ("a", before["a"][0])}
    left = reassign(rule, IDS, before, begun, ["a", "b"], seed=1)
    assert left["c"] == [before["c"][0]] and before["a"][0] in left["a"]
    for i in IDS:
        holders = {r for r, of in left.items() if i in of}
        assert len(holders) == 2 or holders >= {"a", "b"}
    joined = reassign(rule, IDS, before, begun, ["a", "b", "c", "d"], seed=1)
    loads = sorted(len(of) for of in joined.values())
    assert loads == [6, 6, 6, 6] and all(q in joined[r] for r, q in begun)
    assert all(sum(i in of for of in joined.values()) == 2 for i in IDS)
    everybody = reassign(Rule(rule="everyone"), IDS, {"a": IDS}, {("a", "q0")}, ["a", "b"], seed=1)
    assert {r: sorted(of) for r, of in everybody.items()} == {"a": sorted(IDS), "b": sorted(IDS)}


@pytest.mark.parametrize(("n_checks", "places"), [(1, [3]), (2, [2, 5]), (3, [2, 4, 6])])
def test_checks_lie_evenly_between_items_after_practice_and_before_repeats(n_checks, places):
    extra = lambda name: {"question_id": name, "question": "?", "targets": {"A": "a"}, "expected": {"key": "A"}}
    entry = {
        "kind": "agree",
        "practice": [extra("p1"), extra("p2")],
        "checks": [extra(f"c{k}") for k in range(n_checks)],
    }
    study = build_study("example", entry | {"assignment": {"repeats": 2}}, items(6))
    pages = rater_list(study, "r1", study.rated_ids)
    ids = [p.question_id for p in pages]
    assert ids[:2] == ["p1", "p2"] and len(pages) == 2 + 6 + n_checks + 2
    middle = ids[2:-2]
    assert [k for k, i in enumerate(middle) if i.startswith("c")] == places
    assert [p.occasion for p in pages] == [0] * (8 + n_checks) + [1, 1]
    order = [i for i in middle if i.startswith("q")]
    assert sorted(order) == sorted(study.rated_ids) and [i for i in order if i in ids[-2:]] == ids[-2:]
    assert (
        order != [i for i in (p.question_id for p in rater_list(study, "r2", study.rated_ids)) if i.startswith("q")][:6]
    )


def test_raters_who_leave_hand_on_what_they_had_not_begun(tmp_path):
    study = build_study("example", {"kind": "agree", "assignment": {"rule": "pairs"}}, items(6))
    with open_store(tmp_path / "a.sqlite", study) as store:
        tokens = enrol(store, study, ["a", "b", "c"])
        register = Register(store)
        first = register.assigned("c")[0]
        store.save(
            [Change("e", "c", *first, "key", label("A"), "{}", 1, None)],
            [Visit("c", *first, "v", 5), Visit("c", *first, "v", 3), Visit("c", *first, "w", 4)],
        )
        assert store.active_ms() == {("c", *first): 9}, "of one visit the longest time, of several their sum"
        assert leave(store, study, "c") == 0
        assert register.rater_of_token(tokens["c"]) is None and register.rater_of_token(tokens["a"]).rater == "a"
        assert register.assigned("c") == [first] and {r.rater: r.active for r in register.raters()}["c"] is False
        held = {r: {p.question_id for p in register.assigned(r)} for r in "abc"}
        assert all(sum(q in of for of in held.values()) >= 2 for q in study.rated_ids)
        assert leave(store, study, "c", forget=True) == 1 and complete_answers(store, study) == {}
        with pytest.raises(ValueError, match="a pseudonym must have one role; got 'a' as resolver, who is rater"):
            enrol(store, study, ["a"], role="resolver")
        with pytest.raises(ValueError, match="withdraw: rater must be one of a, b; got 'c'"):
            register.withdraw("c")
        share_out(store, study)
        assert all(len(register.assigned(r)) == 6 for r in "ab")
    with pytest.raises(sqlite3.ProgrammingError):
        store.db.execute("SELECT 1")


def test_resolvers_get_the_core_first_and_conflicts_as_they_come(tmp_path):
    rule = {"rule": "core_and_split", "n_core": 2, "per_item": 2, "resolver_core": True}
    study = build_study("example", {"kind": "agree", "assignment": rule}, items(5))
    with open_store(tmp_path / "a.sqlite", study) as store:
        enrol(store, study, ["a", "b"])
        share_conflicts(store, study)
        enrol(store, study, ["judge"], role="resolver")
        register = Register(store)
        of_core = core(study.settings.assignment, study.rated_ids, study.settings.seed)
        assert [p.question_id for p in register.assigned("judge")] == of_core
        apart = next(q for q in study.rated_ids if q not in of_core)
        store.save([Change(r, r, apart, 0, "key", label(x), "{}", 1, None) for r, x in (("a", "A"), ("b", "B"))])
        share_conflicts(store, study)
        share_conflicts(store, study)
        assert [p.question_id for p in register.assigned("judge")] == [*of_core, apart]


def test_an_export_has_each_answer_with_its_draw_and_counts_what_is_no_rating(tmp_path):
    check = {"question_id": "c", "question": "?", "targets": {"A": "a"}, "expected": {"key": "A"}}
    study = build_study("example", {"kind": "agree", "checks": [check], "assignment": {"repeats": 1}}, items(2))
    at = {q.question_id: q for q in study.questions}
    with open_store(tmp_path / "a.sqlite", study) as store:
        enrol(store, study, ["r"])
        again = next(p.question_id for p in Register(store).assigned("r") if p.occasion)
        rows = [
            ("q1", 0, "key", "B"),
            ("q1", 0, "comment", "Hm."),
            (again, 1, "key", "C"),
            ("c", 0, "key", "A"),
            ("q2", 0, "comment", "Only this."),
        ]
        store.save(
            [
                Change(
                    f"e{k}", "r", q, o, t, label(x), present(study, at[q], "r", o).text(), k, k * 1000 if k else None
                )
                for k, (q, o, t, x) in enumerate(rows)
            ],
            [Visit("r", "q1", 0, "v", 1500)],
        )
        found, table, events = ratings(store), all_answers(store), all_events(store)
    [rating] = found.ratings
    assert (rating.item_id, rating.label, rating.comment, rating.session, rating.origin) == (
        "q1",
        "B",
        "Hm.",
        "occasion 0",
        "asked",
    )
    assert rating.variant["agrees"] == "yes" and [r.session for r in found.repeats] == ["occasion 1"]
    assert found.checks == [{"rater": "r", "item_id": "c", "occasion": 0, "role": "check", "passed": True}]
    assert [(x["item_id"], x["n_answers"]) for x in found.incomplete] == [("q2", 1)]
    assert left_out(found)[0] == "1 second ratings; 1 of 1 attention checks passed" and left_out(found)[1].startswith(
        "1 pages"
    )
    by = table.set_index(["question", "occasion", "target"])
    assert by.loc[("q1", 0, "key"), ["complete", "seconds_on_page"]].tolist() == [True, 1.5]
    assert not by.loc[("q2", 0, "comment"), "complete"] and by["saved"].str.endswith("+00:00").all()
    assert events["client"].tolist() == ["", *(f"1970-01-01T00:00:0{k}.000+00:00" for k in (1, 2, 3, 4))]
    assert len(events) == 5 and events["server"].str.len().eq(29).all()


def test_a_visitor_has_so_many_requests_at_once_and_then_a_rate():
    limit = RateLimit(rate=2.0, burst=3)
    assert [limit.allow("a", 0.0) for _ in range(4)] == [True, True, True, False]
    assert [limit.allow("a", t) for t in (0.4, 0.5, 0.6, 1.1)] == [False, True, False, True]
    assert limit.allow("b", 0.0) and [limit.allow("a", 100.0) for _ in range(4)] == [True, True, True, False]
    for k in range(10_001):
        limit.allow(f"v{k}", 100.0)
    assert len(limit.left) < 10_001 and not limit.left.get("a"), "the memory is bounded"


def drawn(*words) -> int:
    "The SHA-256 of words as JSON, as a number."
    text = json.dumps(words, ensure_ascii=False, separators=(",", ":"))
    return int(hashlib.sha256(text.encode()).hexdigest(), 16)


def test_a_draw_and_a_code_depend_on_their_words_alone():
    assert draw(1, "é", "x") == drawn(1, "é", "x")
    digest = hmac.new(b"key", '["é",1]'.encode(), hashlib.sha256).hexdigest()
    assert code("key", "é", 1) == f"c{digest[:11]}"


def test_kinds_of_question_are_what_they_are():
    "Whether answers are judged, numbers are given, targets are shuffled, two texts stand side by side; the rest."
    none: tuple[str, ...] = ()
    assert {k: tuple(kind) for k, kind in QUESTION_KINDS.items()} == {
        "sliders": (False, True, True, False, "", "options", ("preferences", "agreement")),
        "labels": (True, False, True, False, "", "labels", ("panel",)),
        "agree": (False, False, True, False, "", "key", none),
        "errors": (True, False, True, False, "errors", "", none),
        "duel": (True, False, False, True, "axes", "", none),
        "score": (True, True, True, False, "", "scores", none),
        "yes_no": (False, False, False, False, "asks", "", none),
        "conversation": (False, False, False, False, "asks", "", none),
    }
    assert Kind._fields == ("judged", "numbers", "shuffled", "two_sides", "needs", "rated", "stages")


def worded(n: int = 1) -> list:
    "Items in two wordings, with the turns of a conversation."
    more = {"variant": {"text_f": "She <AGE>?", "text_m": "He <AGE>?"}, "stems": ["Hello.", "Good day."]}
    return [i.model_copy(update=more) for i in items(n)]


ASKS = {"z": "Safe?", "a": "Kind?"}


@pytest.mark.parametrize(
    ("entry", "shuffled", "numbers", "sides"),
    [
        ({"kind": "sliders"}, True, True, False),
        ({"kind": "agree"}, True, False, False),
        ({"kind": "labels"}, True, False, False),
        ({"kind": "score"}, True, True, False),
        ({"kind": "yes_no", "asks": ASKS}, False, False, False),
        ({"kind": "conversation", "asks": ASKS}, False, False, False),
        ({"kind": "duel", "axes": ASKS}, False, False, True),
    ],
)
@pytest.mark.parametrize("occasion", [0, 1])
def test_what_a_rater_sees_is_drawn_for_rater_question_and_occasion(entry, shuffled, numbers, sides, occasion):
    answers = said(("q1", "b", "B!"), ("q1", "a", "A!"))
    study = build_study("example", entry | {"seed": 5}, worded(), answers)
    question = study.questions[0]
    seed = (5, "example", "r1", question.question_id, occasion)
    targets = list(question.targets)
    shown = present(study, question, "r1", occasion)
    wordings = sorted(question.texts)
    assert shown.wording == wordings[drawn(*seed, "wording") % len(wordings)]
    assert shown.order == (sorted(targets, key=lambda t: drawn(*seed, "order", t)) if shuffled else targets)
    assert shown.starts == ({t: drawn(*seed, "start", t) % 101 for t in targets} if numbers else {})
    assert shown.sides == (sorted(question.sides, key=lambda s: drawn(*seed, "side", s)) if sides else [])
    assert json.loads(shown.text()) == shown._asdict()


def test_a_question_has_its_wordings_with_words_put_in_place():
    entry = {"kind": "sliders", "replace": {"<AGE>": "of 40", "She": "Ann"}}
    [question] = build_study("example", entry, worded()).questions
    assert question.texts == {"f": "Ann of 40?", "m": "He of 40?"}
    [talk] = build_study("example", {"kind": "conversation", "asks": ASKS}, worded()).questions
    assert talk.texts == {"": worded()[0].question} and talk.sides == {"1": "Hello.", "2": "Good day."}
    assert (talk.item_id, talk.case, talk.asked) == ("q1", worded()[0].cluster, question_fingerprint(worded()[0]))


@pytest.mark.parametrize(
    "change", [{"question": "?"}, {"options": ["a", "b"]}, {"context": {}}, {"variant": {"x": "y"}}, {"stems": ["s"]}]
)
def test_a_fingerprint_is_of_what_a_rater_reads(change):
    [item] = items(1)
    assert question_fingerprint(item.model_copy(update=change)) != question_fingerprint(item)
    same = {"key": ["A"], "source": "other", "canary": None, "item_id": "z"}
    assert question_fingerprint(item.model_copy(update=same)) == question_fingerprint(item)
    assert len(question_fingerprint(item)) == 12


def test_a_study_is_another_one_where_a_question_or_its_display_is():
    entry = {"kind": "sliders", "title": "T", "consent": ["c"], "thanks": ["t"], "assignment": {"repeats": 1}}
    study = build_study("example", entry, items(2))
    same = {"title": "U", "consent": [], "thanks": ["other"], "assignment": {"rule": "pairs"}}
    assert build_study("example", entry | same, items(2)).hash == study.hash and len(study.hash) == 64
    regrouped = [i.model_copy(update={"group_id": "g"}) for i in items(2)]
    assert build_study("example", entry, regrouped).hash == study.hash, "of what case an item is"
    others = [build_study("other", entry, items(2)), build_study("example", entry, items(3))]
    others += [
        build_study("example", entry | more, items(2))
        for more in ({"seed": 1}, {"language": "de"}, {"anchors": {"0": "x"}})
    ]
    others.append(build_study("example", entry, [i.model_copy(update={"study": "x"}) for i in items(2)]))
    assert len({study.hash, *(s.hash for s in others)}) == 7


def test_so_many_items_are_drawn_by_a_hash_and_stand_in_the_corpus_order():
    study = build_study("example", {"kind": "sliders", "n_items": 3, "seed": 4}, items(8))
    hashed = {i: hashlib.sha256(f'[4,"example","{i}"]'.encode()).hexdigest() for i in (f"q{k}" for k in range(1, 9))}
    chosen = sorted(hashed, key=hashed.get)[:3]
    assert study.rated_ids == sorted(chosen)
    plain = [items(4)[0].model_copy(update={"options": [], "task": "open"}), *items(4)[1:]]
    plain[1] = plain[1].model_copy(update={"key": ["A", "B"]})
    assert build_study("example", {"kind": "sliders"}, plain).rated_ids == ["q2", "q3", "q4"]
    assert build_study("example", {"kind": "agree"}, plain).rated_ids == ["q3", "q4"], "with one key alone"
    asked = build_study("example", {"kind": "yes_no", "asks": ASKS}, plain)
    assert asked.rated_ids == ["q1", "q2", "q3", "q4"]


def test_practice_comes_first_and_checks_last_with_the_targets_of_the_study():
    extra = lambda name, **more: {"question_id": name, "question": f"{name}?"} | more
    own = {
        "practice": [extra("try", feedback="Well.")],
        "checks": [extra("check", expected={"a": "yes"}, targets={"a": "A?"})],
    }
    study = build_study("example", {"kind": "yes_no", "asks": ASKS} | own, items(1))
    assert [(q.question_id, q.role, q.item_id) for q in study.questions] == [
        ("try", "practice", "try"),
        ("q1", "item", "q1"),
        ("check", "check", "check"),
    ]
    first, _, last = study.questions
    assert first.targets == ASKS and first.texts == {"": "try?"} and first.feedback == "Well."
    assert last.targets == {"a": "A?"} and study.rated_ids == ["q1"]
    sliders = {"kind": "sliders", "practice": [extra("try", targets={"A": "x"})]}
    assert build_study("example", sliders, items(1)).questions[0].targets == {"A": "x"}
    duel = {"kind": "duel", "axes": ASKS, "practice": [extra("try")]}
    assert build_study("example", duel, items(1), said(("q1", "a", "A"), ("q1", "b", "B"))).questions[0].targets == ASKS


@pytest.mark.parametrize(
    ("entry", "of", "told"),
    [
        ({"kind": "yes_no"}, items(1), "asks must not be empty for kind yes_no"),
        ({"kind": "sliders"}, [], "items must not be empty; got none"),
        (
            {"kind": "sliders", "item_ids": ["q1", "a", "b", "c", "d"]},
            items(1),
            r"got \['a', 'b', 'c'\], not among them",
        ),
        ({"kind": "sliders"}, [*items(2), *items(2)], r"question_id must be unique; got \['q1', 'q2'\] more than once"),
        ({"kind": "yes_no", "asks": {"skip": "x"}}, items(1), "must not have a name that the page uses; got 'skip'"),
    ],
)
def test_an_entry_that_gives_no_study_is_refused(entry, of, told):
    with pytest.raises(ValueError, match=told):
        build_study("example", entry, of)


FLAG = {"choices": ("yes",), "required": False}
COMMENT = Field("comment", "text", required=False)


def test_a_form_has_the_fields_of_its_kind():
    of = lambda entry, *answers: build_study("example", entry, worded(), said(*answers))
    form = lambda study: fields(study, study.questions[0])
    choice = lambda target, *choices: Field(target, "choice", choices)
    asked = [choice("z", "yes", "no"), choice("a", "yes", "no")]
    assert form(of({"kind": "yes_no", "asks": ASKS})) == [*asked, COMMENT]
    marks = [Field(name, "flag", **FLAG) for name in ("turn-1", "turn-2", "skip")]
    talk = of({"kind": "conversation", "asks": ASKS, "labels": ["bad", "good"]})
    assert form(talk) == [choice("z", "bad", "good"), choice("a", "bad", "good"), *marks, COMMENT]
    a, b = ("q1", "a", "A!"), ("q1", "b", "B!")
    labels = of({"kind": "labels", "difficulties": ["Easy", "Hard"]}, a)
    assert form(labels) == [
        choice("a", "Correct", "Incorrect", "Abstain"),
        choice("difficulty", "Easy", "Hard"),
        COMMENT,
    ]
    assert form(of({"kind": "labels", "difficulties": []}, a)) == [
        choice("a", "Correct", "Incorrect", "Abstain"),
        COMMENT,
    ]
    duel = of({"kind": "duel", "axes": ASKS}, b, a)
    assert form(duel) == [choice("z", "a", "b", "tie"), choice("a", "a", "b", "tie"), COMMENT]
    assert form(of({"kind": "score"}, a, b)) == [Field("a", "number"), Field("b", "number"), COMMENT]
    assert form(of({"kind": "agree"})) == [choice("key", *"ABCDE"), COMMENT]
    flags = [Field(name, "flag", **FLAG) for name in ("fact", "logic", "Abstain")]
    main = Field("main", "choice", ("fact", "logic"), required=False)
    spans = [Field(f"span-{name}", "span", required=False) for name in ("fact", "logic")]
    assert form(of(ERRORS, a)) == [*flags, *spans, main, COMMENT]
    assert form(of(ERRORS | {"spans": False}, a)) == [*flags, main, COMMENT]


def test_marks_on_a_conversation_are_no_verdicts_and_a_skipped_page_is_complete():
    talk = build_study("example", {"kind": "conversation", "asks": ASKS}, worded())
    yes_no = build_study("example", {"kind": "yes_no", "asks": ASKS | {"turn-1": "?"}}, worded())
    assert [is_mark(talk, t) for t in ("skip", "turn-2", "z", "return-2")] == [True, True, False, False]
    assert not is_mark(yes_no, "turn-1") and not is_mark(yes_no, "skip")
    [question] = talk.questions
    answers = {"z": label("Correct"), "turn-1": label("yes"), "comment": label("c")}
    assert missing(talk, question, answers) == ["a"] and missing(talk, question, {}) == ["z", "a"]
    assert missing(talk, question, {"skip": label("yes")}) == [] and missing(talk, question, {"skip": label(None)}) == [
        "z",
        "a",
    ]
    assert verdicts(talk, answers) == {"z": label("Correct")} and verdicts(talk, answers | {"skip": label("yes")}) == {}
    assert verdicts(yes_no, {"turn-1": label("yes"), "comment": label("c")}) == {"turn-1": label("yes")}


def test_a_form_is_in_codes_that_tell_neither_target_nor_choice():
    study = build_study("example", {"kind": "labels", "difficulties": []}, items(1), said(("q1", "a", "A!")))
    page = QuestionPage(study, study.questions[0], "r1", 1, "key")
    [verdict, comment] = fields(study, page.question)
    assert page.assigned == Assigned("q1", 1) and page.shown == present(study, page.question, "r1", 1)
    assert page.code("a", "Correct") == code("key", "r1", "q1", 1, "a", "Correct") and page.code("a") == code(
        "key", "r1", "q1", 1, "a", ""
    )
    assert page.by_code() == {page.code("a"): verdict, page.code("comment"): comment}
    sent = page.encoded(verdict, label("Correct"))
    assert sent == page.code("a", "Correct") and page.decoded(verdict, sent) == "Correct"
    assert (page.encoded(verdict, RatedAnswer()), page.decoded(verdict, "")) == ("", "")
    assert (page.encoded(comment, label("words")), page.decoded(comment, "words")) == ("words", "words")
    assert page.encoded(Field("a", "number"), RatedAnswer(70.0)) == "70"
    with pytest.raises(ValueError, match="a must be one of its choices; got another .q1."):
        page.decoded(verdict, "Correct")
    assert page.heading == "page.question"
    practice = page._replace(question=page.question.model_copy(update={"role": "practice"}))
    assert practice.heading == "page.practice"


@pytest.mark.parametrize("name", ["main", "comment", "Abstain", "span-logic"])
def test_a_kind_of_error_has_no_name_of_another_field(name):
    "Its tick would be kept under the name of the other field."
    said = [Response(item_id="q1", study="example", model="m", mode="zero_shot", text="An answer.")]
    with pytest.raises(ValueError, match=f"must not have a name that the page uses; got '{name}'"):
        build_study("example", {"kind": "errors", "errors": {"logic": "Odd.", name: "x"}}, items(1), said)
