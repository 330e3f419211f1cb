"Labels of a closed list and written terms: what a text gives, each expected by hand."

import json
import math

import pytest

from mhbench.records.schema import Item, Response
from mhbench.records.transcript import Transcript, Turn
from mhbench.tasks import multi_label, written
from mhbench.tasks.multi_label import parse_labels
from mhbench.tasks.written import bare_term, same_string, same_term, transcript_items

PANIC, DEPRESSION, SOCIAL = "Panic disorder", "Major depressive disorder", "Social anxiety disorder (social phobia)"
HAIR, PICA = "Trichotillomania (Hair-Pulling Disorder)", "Feeding, eating and pica disorders"
NAMES = [PANIC, DEPRESSION, SOCIAL, HAIR, PICA, "Bipolar I disorder F31.1", "Bipolar II disorder F31.8"]
NAMES += ["Mild neurocognitive disorder (Alzheimer's)", "Mild neurocognitive disorder (Lewy bodies)"]
ALIASES = {"MDD": DEPRESSION, "major depression": DEPRESSION}


@pytest.mark.parametrize(
    ("text", "labels", "unknown", "how"),
    [
        (f'["{PANIC}"]', [PANIC], [], "json"),
        (f'{{"labels": ["{PANIC}", "x"]}}', [PANIC], ["x"], "json"),
        (f'{{"{PANIC}": true, "{DEPRESSION}": false}}', [PANIC], [], "json"),
        (f'{{"{PANIC}": 1, "{DEPRESSION}": 0, "{HAIR}": "Present"}}', [PANIC, HAIR], [], "json"),
        (f'{{"diagnoses": {{"{PANIC}": "yes", "{DEPRESSION}": "no"}}}}', [PANIC], [], "json"),
        (f'[{{"name": "{PANIC}", "present": true}}, {{"name": "{DEPRESSION}", "present": "no"}}]', [PANIC], [], "json"),
        (f'[{{"name": "{PANIC}", "ruled_out": true}}, {{"label": "{DEPRESSION}"}}]', [DEPRESSION], [], "json"),
        (f'[{{"name": "{PANIC}", "ruled_out": false, "status": "not met"}}, "{HAIR}"]', [HAIR], [], "json"),
        ("Panic disorder, major depression", [PANIC, DEPRESSION], [], "lines"),
        ("MDD; Panic", [DEPRESSION, PANIC], [], "lines"),
        (f"{PANIC} and {DEPRESSION} und {PANIC}", [PANIC, DEPRESSION], [], "lines"),
        (f"{PANIC} / {DEPRESSION}", [PANIC, DEPRESSION], [], "lines"),
        (f"1. {PANIC}\n2) {DEPRESSION}\n", [PANIC, DEPRESSION], [], "lines"),
        ("Answer: Panic disorder; social phobia", [PANIC, SOCIAL], [], "marked"),
        (f"Hm.\n**Final diagnosis:** {PANIC}", [PANIC], [], "marked"),
        (f"{PICA}, {PANIC}", [PICA, PANIC], [], "lines"),  # a name with a comma and an `and`
        (f"{PANIC}, Something else", [PANIC], ["Something else"], "lines"),
        (f"Ruled out:\n- {PANIC}\n\n{DEPRESSION}", [DEPRESSION], [], "lines"),
        (f"Excluded: {PANIC}", [], [], "none"),
        (f"{PANIC}: yes\n{DEPRESSION}: no", [PANIC], [], "lines"),
        (f"{PANIC} - present\n{DEPRESSION} = 0", [PANIC], [], "lines"),
        (f"not {PANIC}", [], [], "none"),
        (f"[x] {PANIC}\n[ ] {DEPRESSION}", [PANIC], [], "lines"),  # a box that is not ticked
        (f"- [ ] {PANIC}\n- [X] {DEPRESSION}", [DEPRESSION], [], "lines"),
        (f"{PANIC} \u2713\n{DEPRESSION} \u2717", [PANIC], [], "lines"),
        (f"\u274c {PANIC}\n\u2705 {DEPRESSION}", [DEPRESSION], [], "lines"),
        (f"Primary diagnosis: {PANIC}\nComorbidities: {HAIR}", [PANIC, HAIR], [], "lines"),
        (f"## Diagnoses\n{PANIC}", [PANIC], [], "lines"),
        ("F31.1", ["Bipolar I disorder F31.1"], [], "lines"),
        ("Bipolar I disorder", ["Bipolar I disorder F31.1"], [], "lines"),
        ("Bipolar I disorder F31.8", [], ["Bipolar I disorder F31.8"], "lines"),  # another code
        ("Bipolar disorder", [], ["Bipolar disorder"], "lines"),
        ("panic disorder (300.01)", [PANIC], [], "lines"),
        ("hair pulling", [HAIR], [], "lines"),
        ('"Panic disorders."', [PANIC], [], "lines"),
        ("Mild neurocognitive disorder", [], ["Mild neurocognitive disorder"], "lines"),  # of two
        ("Mild neurocognitive disorder (Lewy bodies)", [NAMES[-1]], [], "lines"),
        ("Mild neurocognitive disorder (Parkinson)", [], ["Mild neurocognitive disorder (Parkinson)"], "lines"),
        ("", [], [], "none"),
    ],
)
def test_the_labels_that_a_text_gives(text, labels, unknown, how):
    assert parse_labels(text, NAMES, aliases=ALIASES) == (tuple(labels), tuple(unknown), how)


def test_names_that_cannot_be_told_apart_are_refused():
    with pytest.raises(
        ValueError, match="names must differ by more than case and punctuation; got 'Panic' and 'panic!'"
    ):
        parse_labels("x", ["Panic", "panic!"])
    with pytest.raises(ValueError, match="aliases must stand for a name of the list; got 'p' for 'Anxiety'"):
        parse_labels("x", ["Panic"], aliases={"p": "Anxiety"})


def item(task: str, **more) -> Item:
    return Item(**{"item_id": "q", "study": "s", "task": task, "question": "?", "source": "x"} | more)


def said(text: str) -> Response:
    return Response(item_id="q", study="s", model="m", mode="zero_shot", text=text)


def test_an_answer_of_labels_is_right_as_a_whole():
    task, one = multi_label.MultiLabelTask(), item("multi_label", options=NAMES, key=[PANIC, HAIR])
    assert task.read(one, said(f"{HAIR}, {PANIC}")) == ([HAIR, PANIC], "lines")
    assert task.read(one, said("None of the above."))[0] == [multi_label.NOTHING]
    verdicts = dict.fromkeys(NAMES, False)
    for text in ('{"labels": []}', "[]", json.dumps(verdicts), "\n".join(f"{name}: no" for name in NAMES)):
        assert task.read(one, said(text)) == ([multi_label.NOTHING], "denied"), text
    for text in ("", "{}", json.dumps({HAIR: False}), f"{PANIC}: no", json.dumps(verdicts | {HAIR: True})):
        assert task.read(one, said(text))[0] != [multi_label.NOTHING], text
    assert task.read(one, said("None, ghosts"))[0] == [f"{multi_label.UNKNOWN}None", f"{multi_label.UNKNOWN}ghosts"]
    assert task.correct(one.key, [HAIR, PANIC]) == 1.0 and task.correct(one.key, [HAIR]) == 0.0
    assert task.correct([], [multi_label.NOTHING]) == 1.0 and task.chance(one) == 0.0
    with pytest.raises(ValueError, match=r"key must hold names from options for task multi_label; got \['x'\]"):
        item("multi_label", options=NAMES, key=["x"])


@pytest.mark.parametrize(
    ("text", "key", "same"),
    [
        ("Insulin", "insulin", True),
        ("**Insulin**.", "insulin", True),
        ("The answer is: insulin", "Insulin", True),
        ("the insulin", "Insulin", True),
        ("Das Insulin", "Insulin", True),
        ("insulin", "the insulin", True),
        ("fibres", "A fibres", False),  # no article
        ("A fibres", "A fibres", True),
        ("10\u2079", "10^9", True),
        ("10\u2079", "109", False),
        ("10<sup>-3</sup>", "10^-3", True),
        ("beta\u2011blocker", "beta blocker", True),
        ("1-2", "1 2", False),
        ("ben\u00adzo", "benzo", True),
        ('{"answer": "insulin"}', "insulin", True),
        ('["insulin"]', "insulin", True),
        ('["insulin", "glucagon"]', "insulin", False),
        ("Insulin\n\nIt is made in the pancreas.", "insulin", True),
        ("Insulin\n\nand so", "insulin", False),  # no explanation: three words or fewer
        ("glucagon", "insulin", False),
        ("", "insulin", False),
    ],
)
def test_a_term_is_the_same_up_to_how_it_is_written(text, key, same):
    assert same_term(text, [key]) is same and same_term(text, ["other", key]) is same


def test_a_term_to_the_letter():
    assert (
        same_string(" Insulin\n", ["Insulin"])
        and not same_string("insulin", ["Insulin"])
        and not same_string(None, ["x"])
    )
    assert bare_term("`_Beta_-Blocker`!") == "beta blocker"
    task, one = written.ClozeTask(), item("cloze", question="_", key=["Insulin"])
    assert task.read(one, said(" insulin ")) == (["insulin"], "text") and task.read(one, said(" ")) == ([], "empty")
    assert [task.correct(["Insulin"], a) for a in (["insulin"], ["x"], [])] == [1.0, 0.0, 0.0]
    assert [task.strictly(one, a) for a in (["insulin"], ["Insulin"], [])] == [0.0, 1.0, 0.0]
    assert task.chooses(one, ["insulin"]) and not task.chooses(one, []) and task.chance(one) == 0.0
    open_task = written.OpenTask()
    assert open_task.read(one, said("x")) == ([], "judge")
    assert math.isnan(open_task.correct([], [])) and math.isnan(open_task.chance(one))


def test_a_conversation_is_an_item_for_raters():
    turns = [Turn(role="user", text="Hi"), Turn(role="assistant", text="Hello"), Turn(role="user", text="Bye")]
    talk = Transcript(item_id="c", study="s", model="m", turns=turns, ended="script", source="x", person="Lena B")
    [one] = transcript_items([talk, talk.model_copy(update={"turns": []})])
    assert (one.item_id, one.stems, one.group_id, one.protected) == (talk.id, ["Hi", "Hello", "Bye"], "Lena-B", True)
    shown = written.ConversationTask().for_people(one)
    assert shown.endswith("chatbot.\n\n[1] User: Hi\n\n[2] Chatbot: Hello\n\n[3] User: Bye")
    [alone] = transcript_items([talk.model_copy(update={"person": ""})])
    assert alone.group_id == "c"
    with pytest.raises(ValueError, match="stems must hold the turns, the user's first, for task conversation"):
        item("conversation")
