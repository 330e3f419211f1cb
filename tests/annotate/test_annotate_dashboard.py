"""What the dashboard says of answers whose numbers are counted by hand."""

from datetime import UTC, datetime

import pytest

from mhbench.annotate import store as store_module
from mhbench.annotate.assignment import complete_answers, enrol
from mhbench.annotate.dashboard import (
    again,
    agreement,
    fastest,
    flag_in_words,
    flags,
    overview,
    progress,
    rater_slips,
    when,
)
from mhbench.annotate.store import Change, Register, Visit, open_store
from mhbench.annotate.study import RatedAnswer, build_study
from mhbench.records.schema import Response

from .conftest import items

CHECK = {"question_id": "check", "question": "Say B.", "targets": {"A": "a", "B": "b"}, "expected": {"key": "B"}}


def label(x: str) -> RatedAnswer:
    return RatedAnswer(label=x)


def number(x: float) -> RatedAnswer:
    return RatedAnswer(value=x)


def save(store, said: dict[tuple, RatedAnswer], seconds: dict[tuple, float] | None = None) -> None:
    "(rater, question, occasion, target) -> answer; (rater, question, occasion) -> seconds in view."
    store.save(
        [Change("-".join(map(str, at)), *at, answer, "{}", k, None) for k, (at, answer) in enumerate(said.items(), 1)],
        [Visit(*page, "v", int(1000 * s)) for page, s in (seconds or {}).items()],
    )


def test_a_rater_has_a_row_of_what_was_done_and_how(tmp_path, monkeypatch):
    now = int(datetime(2025, 1, 7, 10, 42, tzinfo=UTC).timestamp() * 1000)
    monkeypatch.setattr(store_module, "now_ms", lambda: now)
    entry = {"kind": "agree", "checks": [CHECK], "assignment": {"repeats": 2}}
    study = build_study("example", entry, items(4))
    with open_store(tmp_path / "a.sqlite", study) as store:
        enrol(store, study, ["r1", "r2", "gone"])
        enrol(store, study, ["sim"], simulated=True)
        enrol(store, study, ["judge"], role="resolver")
        enrol(store, study, ["boss"], role="owner")
        second = [p.question_id for p in Register(store).assigned("r1") if p.occasion == 1]
        said = {("r1", q, 0, "key"): label("A") for q in ("q1", "q2", "q3", "q4")}
        said |= {("r1", q, 1, "key"): label(x) for q, x in zip(second, "AC")}
        said |= {("r1", "check", 0, "key"): label("A"), ("r2", "check", 0, "key"): label("B")}
        said |= {("r2", "q1", 0, "key"): label("A"), ("r2", "q2", 0, "comment"): label("Hm.")}
        times = {("r1", "q1", 0): 10.0, ("r1", "q2", 0): 22.0, ("r1", "q3", 0): 60.0, ("r2", "q2", 0): 99.0}
        save(store, said, times)
        Register(store).withdraw("gone")
        rows = {r["rater"]: r for r in progress(store, study)}
    assert list(rows) == ["r1", "r2", "gone", "sim", "judge"]
    of = lambda rater, *columns: [rows[rater][c] for c in columns]
    counts = ("assigned", "complete", "started", "share")
    assert of("r1", *counts) == [7, 7, 0, "100%"] and of("r2", *counts) == [7, 2, 1, "29%"]
    assert of("judge", *counts) == [0, 0, 0, "–"]
    assert of("r1", "seconds", "checks", "again") == ["22", "0/1", "50%"]
    assert of("r2", "seconds", "checks", "again") == ["–", "1/1", "–"] and of("sim", "checks", "last") == ["–", "–"]
    assert of("r1", "last", "role") == ["2025-01-07 10:42", "rater"] and rows["judge"]["role"] == "resolver"
    assert [r["marks"] for r in rows.values()] == [[], [], ["withdrawn"], ["simulated"], []]
    assert when(0) == "1970-01-01 00:00" and when(None) == "–"


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        ({"A": number(50), "B": number(10)}, {"A": number(60), "B": number(5)}, "±8"),
        ({"A": number(50), "B": number(10)}, {"A": number(51)}, "±1"),
        (
            {"A": label("yes"), "B": label("no"), "C": label("no")},
            {"A": label("yes"), "B": label("yes"), "C": label("no")},
            "67%",
        ),
        ({"A": number(50)}, {"A": label("no")}, "0%"),
        ({"comment": label("x")}, {"comment": label("x")}, "–"),
        ({}, {"A": number(3)}, "–"),
    ],
)
def test_repeated_answers_are_held_against_the_first_ones(first, second, told):
    complete = {("r", "q", 0): first, ("r", "q", 1): second, ("other", "q", 0): second, ("other", "q", 1): second}
    assert again(complete, "r") == told
    assert again({("r", "q", 0): first}, "r") == again({("r", "q", 1): second}, "r") == "–"


def test_hasty_pages_and_missed_checks_are_counted_for_items_at_the_first_occasion(tmp_path):
    study = build_study("example", {"kind": "agree", "checks": [CHECK], "assignment": {"repeats": 1}}, items(3))
    question = next(q for q in study.questions if q.question_id == "q1")
    words = sum(
        len(t.split()) for t in [*question.texts.values(), *question.context.values(), *question.targets.values()]
    )
    assert fastest(study, question) == pytest.approx(words / 10 + 1), "one second for the one answer"
    quick, slow = fastest(study, question) - 0.5, fastest(study, question)  # just in time is not hasty
    with open_store(tmp_path / "a.sqlite", study) as store:
        enrol(store, study, ["r1", "r2"])
        again_at = next(p.question_id for p in Register(store).assigned("r1") if p.occasion)
        said = {("r1", q, 0, "key"): label("A") for q in ("q1", "q2", "q3", "check")}
        said |= {("r1", again_at, 1, "key"): label("A"), ("r2", "check", 0, "key"): label("B")}
        times = {("r1", "q1", 0): quick, ("r1", "q2", 0): slow, ("r1", again_at, 1): 0.1, ("r1", "check", 0): 0.1}
        save(store, said, times)
        assert rater_slips(store, study) == {"r1": (1, 1, 1, 2), "r2": (0, 1, 0, 0)}


def test_agreement_is_of_raters_first_answers_to_items_without_abstentions(tmp_path):
    given = [Response(item_id=f"q{k}", study="example", model=m, mode="cot", text=m) for k in (1, 2, 3) for m in "ab"]
    study = build_study("example", {"kind": "labels", "assignment": {"repeats": 1}}, items(3), given)
    with open_store(tmp_path / "a.sqlite", study) as store:
        enrol(store, study, ["r1", "r2"])
        enrol(store, study, ["judge"], role="resolver")
        said = {}
        for rater, labels in {"r1": "CICCII", "r2": "CIICIA", "judge": "IIIIII"}.items():
            for (q, m), x in zip([(f"q{k}", m) for k in (1, 2, 3) for m in "ab"], labels):
                said[rater, q, 0, m] = label({"C": "Correct", "I": "Incorrect", "A": "Abstain"}[x])
                said[rater, q, 0, "difficulty"] = label("Hard" if q == "q1" else "Easy")
        said |= {("r1", "q1", 1, m): label("Incorrect") for m in "ab"} | {("r1", "q1", 1, "difficulty"): label("Easy")}
        save(store, said)
        difficulty, labels = agreement(store, study)
        assert len(complete_answers(store, study)) == 10
        found = overview(store, study)
    assert (difficulty.of, difficulty.level, difficulty.n, difficulty.estimate) == ("difficulty", "ordinal", 3, 1.0)
    assert (labels.of, labels.level, labels.n) == ("labels", "nominal", 5)
    # ten labels of five units, five of each; one unit has both: 1 - (2/10) / (2 * 5 * 5 / (10 * 9))
    assert labels.estimate == pytest.approx(1 - 0.2 / (50 / 90))
    assert (found["questions"], found["untouched"], found["conflicts"]) == (3, 0, 1)


def test_agreement_on_difficulty_is_by_the_order_of_its_levels(tmp_path):
    """Krippendorff's ordinal alpha by hand: levels between two answers count, by the settings' order."""
    study = build_study("example", {"kind": "agree"}, items(5))
    levels = list(study.settings.difficulties)
    assert levels != sorted(levels)
    given = [(0, 0), (0, 1), (1, 2), (2, 2), (0, 2)]
    with open_store(tmp_path / "a.sqlite", study) as store:
        enrol(store, study, ["r1", "r2"])
        said = {(r, f"q{k + 1}", 0, "key"): label("A") for k in range(5) for r in ("r1", "r2")}
        for k, pair in enumerate(given):
            said |= {(r, f"q{k + 1}", 0, "difficulty"): label(levels[x]) for r, x in zip(("r1", "r2"), pair)}
        save(store, said)
        found = {a.of: a for a in agreement(store, study)}
    values = [x for pair in given for x in pair]

    def apart(a: int, b: int) -> float:
        a, b = sorted((a, b))
        return (sum(a <= x <= b for x in values) - (values.count(a) + values.count(b)) / 2) ** 2 if a != b else 0.0

    observed = sum(apart(*pair) for pair in given) / len(given)
    expected = sum(apart(a, b) for a in values for b in values) / (len(values) * (len(values) - 1))
    assert found["difficulty"].estimate == pytest.approx(1 - observed / expected)
    assert found["difficulty"].n == 5


def test_what_nobody_has_touched_is_counted_and_numbers_have_no_conflicts(tmp_path):
    study = build_study("example", {"kind": "sliders"}, items(3))
    with open_store(tmp_path / "a.sqlite", study) as store:
        enrol(store, study, ["r1"])
        save(store, {("r1", "q2", 0, t): number(5) for t in "ABCDE"} | {("r1", "q1", 0, "A"): number(5)})
        found = overview(store, study)
    assert (found["questions"], found["untouched"], found["conflicts"]) == (3, 2, None)
    assert found["flags"] == {} and found["hash"] == study.hash
    [options] = found["agreement"]
    assert (options.n, options.estimate, options.ci) == (0, None, None)


def test_flags_are_of_raters_beside_others_and_are_told_in_the_pages_language(tmp_path):
    study = build_study("example", {"kind": "agree"}, items(30))
    with open_store(tmp_path / "a.sqlite", study) as store:
        enrol(store, study, ["r1"])
        said = {("r1", f"q{k}", 0, "key"): label("ABCDE"[k % 5]) for k in range(1, 31)}
        save(store, said)
        assert flags(store, study) == {}, "one rater has nobody beside them"
        enrol(store, study, ["r2", "r3"])
        others = {(r, q, o, t): x for (_, q, o, t), x in said.items() for r in ("r2", "r3")}
        save(store, others | {("r3", q, 0, "key"): label("A") for _, q, _, _ in said})
        found = flags(store, study)
    assert set(found) == {"r1", "r2", "r3"} and found["r1"] == "" and "one answer throughout" in found["r3"]
    known = {"dashboard.flag.missed # of # attention checks": "# von # verfehlt"}
    flag = "missed 2 of 13 attention checks; 4 of 20 pages faster"
    assert flag_in_words(flag, known) == "2 von 13 verfehlt; 4 of 20 pages faster"


def test_ticks_that_two_answers_share_do_not_make_them_the_same_kind_of_error(tmp_path):
    "Twice another main kind, with a tick in common; spans and ticks are no verdicts."
    entry = {"kind": "errors", "models": ["m"], "errors": {"knowledge": "K.", "logical": "L."}}
    said = [Response(item_id=f"q{k}", study="example", model="m", mode="zero_shot", text="Text.") for k in (1, 2)]
    study = build_study("example", entry | {"assignment": {"repeats": 2}}, items(2), said)
    with open_store(tmp_path / "a.sqlite", study) as store:
        enrol(store, study, ["r1"])
        both = {"knowledge": label("yes"), "logical": label("yes")}
        pages = {
            ("q1@m", 0): both | {"main": label("knowledge")},
            ("q1@m", 1): both | {"main": label("logical")},
            ("q2@m", 0): {"knowledge": label("yes"), "span-knowledge": label("0-4")},
            ("q2@m", 1): {"knowledge": label("yes"), "span-knowledge": label("1-4")},
        }
        save(store, {("r1", *page, target): a for page, answers in pages.items() for target, a in answers.items()})
        assert [r["again"] for r in progress(store, study)] == ["50%"]


def test_a_skipped_conversation_counts_in_no_number_of_the_dashboard(tmp_path):
    "Of two conversations one is skipped by both raters, one after an answer and at once."
    entry = {"kind": "conversation", "asks": {"warm": "Warm?"}, "labels": ["not met", "met"]}
    talks = [i.model_copy(update={"stems": ["Hello.", "Hello. " * 50]}) for i in items(2)]
    study = build_study("example", entry | {"assignment": {"repeats": 2}}, talks)
    with open_store(tmp_path / "a.sqlite", study) as store:
        enrol(store, study, ["r1", "r2"])
        said = {(r, "q1", k, "warm"): label("met") for r in ("r1", "r2") for k in (0, 1)}
        said |= {("r1", "q1", 1, "warm"): label("not met")}
        said |= {("r1", "q1", k, "turn-2"): label("yes") for k in (0, 1)}
        said |= {(r, "q2", k, "skip"): label("yes") for r in ("r1", "r2") for k in (0, 1)}
        said |= {("r1", "q2", 0, "warm"): label("met"), ("r2", "q2", 0, "warm"): label("not met")}
        save(store, said, {(r, "q2", 0): 1.0 for r in ("r1", "r2")})
        state = overview(store, study)
        assert [r["complete"] for r in state["rows"]] == [4, 4]
        assert [r["again"] for r in state["rows"]] == ["0%", "100%"]
        assert (state["untouched"], state["conflicts"]) == (1, 0)
        assert [(a.of, a.n) for a in state["agreement"]] == [("warm", 1)]
        assert not any(slips.hasty for slips in rater_slips(store, study).values())


def test_resolvers_who_take_part_get_the_conflicts_when_they_come_and_no_core_unasked(tmp_path):
    """A second resolver gets them as well, one who left nothing new, and raters' coming shares out none."""
    core = {"rule": "core_and_split", "n_core": 3, "per_item": 1, "resolver_core": False}
    study = build_study("example", {"kind": "agree", "assignment": core}, items(3))
    with open_store(tmp_path / "a.sqlite", study) as store:
        register = Register(store)
        listed = lambda rater: [p.question_id for p in register.assigned(rater)]
        enrol(store, study, ["r1", "r2"])
        enrol(store, study, ["j1", "j0"], role="resolver")
        register.withdraw("j0")
        save(
            store,
            {
                (r, q, 0, "key"): label("AB"[r == "r2"] if q == "q2" else "A")
                for r in ("r1", "r2")
                for q in ("q1", "q2")
            },
        )
        assert listed("j1") == []
        enrol(store, study, ["r3"])
        assert listed("j1") == []
        enrol(store, study, ["j2"], role="resolver")
        assert listed("j1") == listed("j2") == ["q2"] and listed("j0") == []
