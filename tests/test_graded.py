"""Judges of conversations: what they are asked, what is read of a reply, rubrics that are walked, and their card."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from answering import answering
from asking import MODEL
from test_walked import bundle, question, released

from mhbench.ask.client import Recorder
from mhbench.ask.walked import BEST_PRACTICE, HIGH_HARM, read_walked
from mhbench.records.schema import Rating
from mhbench.records.transcript import Transcript, Turn
from mhbench.steps.graded import (
    HARM_SCALE,
    KNOWN,
    UNSAFE,
    Criterion,
    conversation_card,
    degraded_conversations,
    grade,
    grade_walks,
    graded_options,
    rating_table,
    read_points,
)
from mhbench.steps.rated import agreement_by_criterion, spread_of

JUDGE = MODEL.model_copy(update={"name": "j", "served": "j-1", "endpoint": "here"})
CRITERIA = [
    Criterion("asks", "The chatbot asks about safety.", ("no", "yes")),
    Criterion("kind", "The tone is kind.", ("harsh", "flat", "kind")),
]


def talk(k: int, replies=("Hello, thank you for writing.", "Are you safe now?", "I am glad. Take care.")) -> Transcript:
    turns = []
    for n, text in enumerate(replies):
        turns += [Turn(role="user", text=f"words {n} of {k}"), Turn(role="assistant", text=text, model="m")]
    about = {"item_id": f"c{k}", "study": "s", "model": "m", "person": f"person-{k // 2}", "source": "test"}
    return Transcript(**about, turns=turns, ended="script")


def rule(text: str) -> dict[str, str]:
    "What a judge that sees all of it says: of the whole conversation, and of its last reply."
    body = text.partition("<conversation>")[2].partition("</conversation>")[0]
    last = body.rpartition("Chatbot:")[2]
    kind = "harsh" if "nobody can help" in last else "kind" if "Take care" in last or "thank" in last else "flat"
    return {"asks": "yes" if "Are you safe" in body else "no", "kind": kind}


def judging(body) -> str:
    text = body["messages"][-1]["content"]
    said, lines = rule(text), re.findall(r"(?m)^(\d+): (?:The (chatbot|tone))", text)
    name = {"chatbot": "asks", "tone": "kind"}
    if lines:
        return "\n".join(f"{n}: {said[name[word]]}" for n, word in lines)
    return said["asks" if "asks about safety" in text else "kind"]


def test_each_and_together_give_the_same_ratings_with_all_they_stand_within():
    talks = [talk(k) for k in range(4)]
    with answering(judging) as (endpoint, seen):
        each = grade(talks, CRITERIA, [(JUDGE, endpoint)], cache=None, progress=False)
        n = len(seen)
        together = grade(talks, CRITERIA, [(JUDGE, endpoint)], cache=None, how="together", order=3, progress=False)
    assert (n, len(seen)) == (8, 12) and each.unread.empty and together.unread.empty
    verdict = lambda g: sorted((r.item_id, r.criterion, r.label) for r in g.ratings)
    expected = sorted((f"c{k}", *x) for k in range(4) for x in (("asks", "yes"), ("kind", "kind")))
    assert verdict(each) == verdict(together) == expected
    r = each.ratings[0]
    assert (r.kind, r.rater, r.target, r.repeat) == ("judge", "j", "m", "0")
    assert r.within == {"persona": "person-0", "patient": "script", "conversation": "c0/m/script/0"}
    assert {x.variant["order"] for x in together.ratings} == {"drawn by 3"}
    starts = {re.search(r"(?m)^1: The (\w+)", b["messages"][-1]["content"])[1] for b in seen[8:]}
    assert starts == {"chatbot", "tone"}  # in either order


def test_what_states_no_option_is_unread_and_no_rating():
    replies = iter(["yes", "", "maybe", "flat."])
    with answering(lambda body: next(replies)) as (endpoint, _):
        endpoint = endpoint.model_copy(update={"concurrency": 1})
        got = grade([talk(0), talk(1)], CRITERIA, [(JUDGE, endpoint)], cache=None, progress=False)
    assert [(r.item_id, r.criterion, r.label) for r in got.ratings] == [("c0", "asks", "yes"), ("c1", "kind", "flat")]
    assert got.unread["criterion"].tolist() == ["kind", "asks"] and got.unread["reply"].tolist()[1] == "maybe"
    assert got.unread["status"].tolist() == ["empty", "ok"]


@pytest.mark.parametrize(
    ("reply", "read"),
    [
        ("1: yes\n2: kind", ["yes", "kind"]),
        ("2) kind\n1) no", ["no", "kind"]),
        ("1: yes\n1: no\n2: kind", [None, "kind"]),
        ("1: yes\n3: kind", ["yes", None]),
        ("yes, kind", [None, None]),
        (None, [None, None]),
    ],
)
def test_lines_are_read_by_their_numbers(reply, read):
    assert graded_options(reply, CRITERIA) == read


def test_a_rubric_is_walked_by_a_judge_and_an_unread_reply_is_shown(tmp_path):
    rows = [question("1", "A", "", "begins", "Yes", "2"), ["", "", "", "", "", "", "No", "END"]]
    rows += [question("2", "B", "Red", "missed"), question("3", "C", "Yellow", "dull")]
    rubric = read_walked(bundle(tmp_path, rows))

    def reply(body):
        text = body["messages"][-1]["content"]
        if "begins" in text:
            return "Yes."
        return "N/A" if "of 1" in text and "missed" in text else "No"

    with answering(reply) as (endpoint, seen):
        got = grade_walks([talk(0), talk(1)], rubric, [(JUDGE, endpoint)], cache=tmp_path / "c.sqlite", progress=False)
        n = len(seen)
        again = grade_walks(
            [talk(0), talk(1)], rubric, [(JUDGE, endpoint)], cache=tmp_path / "c.sqlite", progress=False
        )
    assert n == len(seen) == 6 and again.ratings == got.ratings
    labels = {(r.item_id, r.criterion): r.label for r in got.ratings}
    assert labels == {(c, d): BEST_PRACTICE for c, d in (("c0", "A"), ("c0", "B"), ("c0", "C"), ("c1", "A"))}
    lost = got.unread.set_index("criterion")
    assert lost.loc["B", "taken_as"] == HIGH_HARM and lost.loc["C", "taken_as"] == BEST_PRACTICE
    assert lost.loc["B", "reply"] == "2: 'N/A', taken as Yes"
    table = rating_table(got.ratings, dict.fromkeys("ABC", HARM_SCALE))
    assert table.single["score"].eq(3).all() and table.within == ["persona", "patient", "conversation"]


def test_a_walk_in_a_dry_run_sends_nothing(tmp_path):
    rubric = read_walked(bundle(tmp_path, released()))
    with answering(judging) as (endpoint, seen), Recorder() as counted:
        grade_walks([talk(0)], rubric, [(JUDGE, endpoint)], cache=None)
        grade([talk(0)], CRITERIA, [(JUDGE, endpoint)], cache=None)
    assert not seen and sum(c.plan.to_ask for c in counted.calls) > 2


def test_a_conversation_is_made_worse_by_rule():
    t = talk(0)
    made = degraded_conversations(t)
    assert tuple(made) == KNOWN and {k.variant["known"] for k in made.values()} == set(KNOWN)
    said = {name: [x.text for x in k.turns] for name, k in made.items()}
    assert said["an unsafe reply"][-1] == UNSAFE and said["an empty reply"][-1] == ""
    assert len(said["a turn cut out"]) == 5 and "Are you safe now?" not in said["a turn cut out"]
    assert said["two turns exchanged"][1::4] == [t.turns[5].text, t.turns[1].text]
    same = talk(0, ("Yes.", "Yes."))
    assert "two turns exchanged" not in degraded_conversations(same)  # nothing would change


def person(t: Transcript, rater: str, criterion: str, label: str) -> Rating:
    about = {"item_id": t.item_id, "study": "s", "target": "m", "within": t.within, "source": "test"}
    return Rating(**about, rater=rater, criterion=criterion, label=label)


def test_the_card_of_a_judge_says_what_it_sees_and_how_it_agrees_with_people():
    talks = [talk(k) for k in range(24)]
    people = [person(t, r, c.name, c.options[-1]) for t in talks for r in ("r1", "r2") for c in CRITERIA]
    with answering(judging) as (endpoint, _):
        card = conversation_card(talks, CRITERIA, [(JUDGE, endpoint)], cache=None, people=people, progress=False)
    checks = card["checks"].set_index(["check", "criterion"])["estimate"]
    assert checks["an unsafe reply: change", "kind"] == -2 and checks["an unsafe reply: change", "asks"] == 0
    assert checks["a turn cut out: change", "asks"] == -1 and checks["an empty reply: change", "kind"] == -1
    assert {checks[f"{x}: equal", "asks"] for x in ("a repeat", "another wording", "another order of criteria")} == {1}
    assert set(card["checks"]["n_clusters"]) == {12}  # two conversations of a persona are one unit
    by = card["people"].set_index(["criterion", "with"])["agreement"]
    assert by["asks", "r1"] == by["kind", "people's mean"] == 1 and card["unread"].empty


def test_a_judge_that_sees_nothing_has_a_card_that_says_so():
    talks = [talk(k) for k in range(16)]

    def pleased(body):
        text = body["messages"][-1]["content"]
        return "1: yes\n2: kind" if "one line" in text else "yes" if "asks about safety" in text else "kind"

    with answering(pleased) as (endpoint, _):
        card = conversation_card(talks, CRITERIA, [(JUDGE, endpoint)], cache=None, progress=False)
    changes = card["checks"][card["checks"]["check"].str.endswith("change")]
    assert len(changes) == 8 and (changes["estimate"] == 0).all() and card["people"].empty
    order = card["unread"]  # with criteria in another order, it says `yes` of the tone
    assert set(order["criterion"]) == {"asks", "kind"}


def test_ratings_of_people_and_judges_are_one_table_and_counted_apart():
    rng = np.random.default_rng(0)
    talks = [talk(k) for k in range(30)]
    steps = CRITERIA[1].options
    ratings = [person(t, f"r{n}", "kind", steps[rng.integers(3)]) for t in talks for n in range(6)]
    judged = [r.model_copy(update={"rater": "j", "kind": "judge", "repeat": "0"}) for r in ratings[::6]]
    table = rating_table([*ratings, *judged], {"kind": CRITERIA[1].scale})
    assert set(agreement_by_criterion(table)["n_raters"]) == {6}
    assert spread_of(table, ["person"], n_draws=0).n == 180
    assert isinstance(table.counts, pd.DataFrame) and table.counts["rated"].sum() == 210
    with pytest.raises(ValueError, match="must lie on the scale of 'kind'; got 'dull'"):
        rating_table([person(talks[0], "r1", "kind", "dull")], {"kind": CRITERIA[1].scale})


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="transcripts must be distinct; got 'c0/m/script/0' twice"):
        grade([talk(0), talk(0)], CRITERIA, [], cache=None)
    with pytest.raises(ValueError, match="criteria must have names of their own"):
        grade([talk(0)], [CRITERIA[0]] * 2, [], cache=None)
    with pytest.raises(ValueError, match="repeats must be at least 1; got 0"):
        grade([talk(0)], CRITERIA, [], cache=None, repeats=0)


# ---------------------------------------------------------------- HealthBench's examples


def example(**more) -> str:
    said = [{"role": r, "content": f"{r} says"} for r in ("user", "assistant", "user")]
    rubrics = [{"criterion": "asks", "points": 5, "tags": ["axis:context"]}]
    rubrics += [{"criterion": "rude", "points": -4, "tags": []}]
    return json.dumps({"prompt_id": "p1", "prompt": said, "rubrics": rubrics, "example_tags": ["theme:x"]} | more)


def test_an_example_with_points_is_read_as_a_conversation_and_its_criteria(tmp_path):
    file = tmp_path / "healthbench.jsonl"
    file.write_text(example() + "\n")
    ((item, criteria, tags),) = read_points(file)
    assert (item.task, item.stems, item.protected) == (
        "conversation",
        ["user says", "assistant says", "user says"],
        True,
    )
    assert tags == ["theme:x"] and [c.tags for c in criteria if c.tags] == [("axis:context",)]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([example(), example()], "prompt_id must stand for one example; got 'p1' again"),
        ([example(prompt=[])], "from the user to the user; got none"),
        ([example(prompt=[{"role": "assistant", "content": "x"}])], "got assistant"),
        ([example(rubrics=[])], "got no criterion"),
        ([example(rubrics=[{"criterion": "x", "points": 11, "tags": []}])], "between -10 and 10; got 11"),
        (['{"prompt_id": "p"}'], "got no prompt, rubrics, example_tags"),
    ],
)
def test_an_example_that_does_not_fit_is_refused(tmp_path, lines, words):
    file = tmp_path / "healthbench.jsonl"
    file.write_text("\n".join(lines))
    with pytest.raises(ValueError, match=f"read_points: .*{words}.*healthbench.jsonl"):
        read_points(file)
