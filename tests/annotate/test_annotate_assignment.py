"""Who answers what: MedQADE's matrix, and what stays true whoever comes and goes."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mhbench.annotate.assignment import core, enrol, first_assignment, leave, rater_list, reassign
from mhbench.annotate.store import Change, Register, open_store
from mhbench.annotate.study import Assigned, RatedAnswer, Rule, build_study, present

from .conftest import items


def test_medqades_matrix():
    "Section 4.3: 9 raters, 200 items for all, 3,600 for exactly two, so that everyone has 200 + 2 * 3600 / 9 = 1,000."
    ids, raters = [f"q{k}" for k in range(3800)], [f"r{k}" for k in range(9)]
    held = first_assignment(Rule(rule="core_and_split", n_core=200), ids, raters, seed=20250107)
    assert {len(of) for of in held.values()} == {1000}
    times = Counter(i for of in held.values() for i in of)
    assert Counter(times.values()) == {9: 200, 2: 3600}
    pairs = Counter(frozenset(r for r in raters if i in set(held[r])) for i in ids if times[i] == 2)
    assert len(pairs) == 36  # every pair of the nine shares items


@pytest.mark.parametrize("wrong", [{"per_item": 0}, {"batch": 0}, {"n_core": -1}, {"repeats": -1}])
def test_a_rule_with_an_impossible_number_is_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Rule(rule="batches", **wrong)


RULES = st.one_of(
    st.just(Rule(rule="everyone")),
    st.just(Rule(rule="pairs")),
    st.builds(Rule, rule=st.just("core_and_split"), n_core=st.integers(0, 4), per_item=st.integers(1, 3)),
    st.builds(Rule, rule=st.just("batches"), batch=st.integers(1, 5), per_item=st.integers(1, 2)),
)
STEPS = st.lists(st.tuples(st.sampled_from(["join", "leave", "answer"]), st.integers(0, 50)), max_size=14)


@settings(max_examples=150, deadline=None)
@given(rule=RULES, n_raters=st.integers(1, 5), steps=STEPS, seed=st.integers(0, 5))
def test_whoever_comes_and_goes_nothing_begun_is_taken_and_every_item_is_held(rule, n_raters, steps, seed):
    ids = [f"q{k}" for k in range(12)]
    active = [f"r{k}" for k in range(n_raters)]
    held, begun, n = first_assignment(rule, ids, active, seed), set(), n_raters
    for step, k in steps:
        if step == "answer":
            r = active[k % len(active)]
            todo = [i for i in held.get(r, []) if (r, i) not in begun]
            if todo:
                begun.add((r, todo[k % len(todo)]))
            continue
        if step == "join":
            active, n = [*active, f"r{n}"], n + 1
        elif len(active) > 1:
            active = [r for r in active if r != active[k % len(active)]]
        held = reassign(rule, ids, held, begun, active, seed)
        for r, i in begun:
            assert i in held[r]
        everyone = set(core(rule, ids, seed))
        per_item = 2 if rule.rule == "pairs" else rule.per_item
        for i in ids:
            holders = {r for r, of in held.items() if i in of}
            if i in everyone:
                assert set(active) <= holders
            else:
                assert len(holders) >= min(per_item, len(active))
        for r, of in held.items():
            assert len(set(of)) == len(of)
            assert r in active or {(r, i) for i in of} <= begun


def test_a_list_has_practice_first_checks_between_and_repeats_last():
    extra = {"question": "?", "targets": {"A": "This"}}
    entry = {
        "kind": "sliders",
        "assignment": {"repeats": 2},
        "practice": [extra | {"question_id": "p1"}, extra | {"question_id": "p2"}],
        "checks": [extra | {"question_id": "c1"}, extra | {"question_id": "c2"}],
    }
    study = build_study("example", entry, items(9))
    ids = [f"q{k}" for k in range(1, 10)]
    pages = rater_list(study, "r1", ids)
    assert pages[:2] == [Assigned("p1"), Assigned("p2")]
    assert [p.question_id for p in pages[2:-2]].index("c1") == 3
    assert [p.question_id for p in pages[2:-2]].index("c2") == 7
    assert all(p.occasion == 1 for p in pages[-2:])
    assert sorted(p.question_id for p in pages if p.question_id in ids and not p.occasion) == sorted(ids)
    assert rater_list(study, "r1", ids) == pages
    assert rater_list(study, "r2", ids) != pages


def test_presentation_depends_on_rater_question_and_occasion_and_on_nothing_else():
    "Over 300 raters each of five options stands first about equally often, and starts are spread over 0 to 100."
    study = build_study("example", {"kind": "sliders"}, items(2))
    q1, q2 = study.questions
    shown = [present(study, q1, f"r{k}") for k in range(300)]
    first = Counter(s.order[0] for s in shown)
    assert sum((n - 60) ** 2 / 60 for n in first.values()) < 18.5  # chi-square, 4 degrees of freedom, p = 0.001
    starts = [v for s in shown for v in s.starts.values()]
    assert min(starts) == 0 and max(starts) == 100
    assert abs(sum(starts) / len(starts) - 50) < 4 * 29.2 / len(starts) ** 0.5  # four standard errors
    assert present(study, q1, "r1") != present(study, q2, "r1")
    assert present(study, q1, "r1", 1) != present(study, q1, "r1", 0)
    other = build_study("example", {"kind": "sliders", "title": "Other words"}, items(2))
    assert present(other, q1, "r1") == present(study, q1, "r1")


def test_sides_of_a_duel_are_balanced_over_raters():
    from mhbench.records.schema import Response

    said = [Response(item_id="q1", study="example", model=m, mode="cot", text=m) for m in ("m1", "m2")]
    study = build_study("example", {"kind": "duel", "axes": {"harm": "?"}}, items(1), said)
    left = Counter(present(study, study.questions[0], f"r{k}").sides[0] for k in range(400))
    assert abs(left["m1"] - 200) < 4 * 10  # four standard deviations of 400 fair coins


def test_after_a_change_everybodys_questions_are_in_the_order_of_the_draw():
    """Of what the whole draw is, a list is a part in the same order; what left the study is dropped."""
    ids = [f"q{k}" for k in range(12)]
    rule = Rule(rule="core_and_split", n_core=12, per_item=1)
    order = core(rule, ids, 7)
    assert order != sorted(order)
    again = reassign(
        rule, ids, {"a": [*ids, "gone"], "left": ids}, {("a", "q1"), ("left", "q3"), ("left", "q9")}, ["a"], 7
    )
    assert again == {"a": order, "left": sorted(["q3", "q9"], key=order.index)}


def test_a_second_answer_that_was_begun_stays_on_the_list_when_another_rater_leaves(tmp_path):
    rule = {"rule": "core_and_split", "per_item": 1, "repeats": 1}
    study = build_study("example", {"kind": "agree", "assignment": rule}, items(12))
    for k in range(6):  # of these lists some draw another repeated item from all twelve than from half of them
        with open_store(tmp_path / f"{k}.sqlite", study) as store:
            enrol(store, study, [f"stays{k}", f"leaves{k}"])
            register = Register(store)
            before = register.assigned(f"stays{k}")
            for n, page in enumerate(before):
                store.save([Change(f"e{n}", f"stays{k}", *page, "key", RatedAnswer(label="A"), "{}", n, None)])
            leave(store, study, f"leaves{k}")
            after = register.assigned(f"stays{k}")
        assert after[: len(before)] == before and [p.occasion for p in after].count(1) == 1
        assert {p.question_id for p in after} == set(study.rated_ids)
