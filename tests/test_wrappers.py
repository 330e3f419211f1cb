"Every wrapper that the tables know is taken off for every task: a new one of either without a cell fails here."

import json
from pathlib import Path

import pytest
from test_prompts import an_item

from mhbench.ask.reply import read_json
from mhbench.ask.unwrap import answer_table, strip_marks
from mhbench.records.schema import Item, Response
from mhbench.records.task import task_named, tasks
from mhbench.steps.score import is_correct, read_answer
from mhbench.steps.verdicts import split_parts

TABLE = answer_table("replies")


THOUGHTS = {
    f"thought: {name}": family["example"].replace("{TAG}", family.get("each", [""])[0])
    for name, family in TABLE["thoughts"].items()
}
MARKS = {
    f"{kind}: {name}": entry["example"]
    for kind in ("begun", "stops", "follows", "citations", "wrappers")
    for name, entry in TABLE[kind].items()
}
PLACES = {
    "plain": "{}",
    "bold": "**{}**",
    "code": "`{}`",
    "fence": "```\n{}\n```",
    "fence of json": '```json\n{{"answer": {json}}}\n```',
    "json": '{{"answer": {json}}}',
    "json with reasons": 'Sure:\n{{"reasoning": "C is wrong.", "answer": {json}}}',
    "json in a field": '{{"response": {{"final_answer": {json}, "confidence": 0.9}}}}',
    "heading": "It fits well.\n\n## Answer\n\n{}",
    "heading in bold": "**Final answer:**\n{}",
    "lead-in": "Answer: {}",
    "lead-in in bold": "It fits well.\n\n**Final answer:** {}",
    "quotation": "> {}",
    "LaTeX": "$\\text{{{}}}$",
    "HTML": "<p><b>{}</b></p>",
    "table": "| Answer |\n|---|\n| {} |",
    "tag around a fence": "<answer>\n```\n{}\n```\n</answer>",
    "box in a sentence": "Therefore, the answer is $\\boxed{{\\text{{{}}}}}$.",
}
WRAPPERS = {**{k: None for k in PLACES}, **THOUGHTS, **MARKS}


def cell(wrapper: str, text: str, value) -> str:
    if wrapper in PLACES:
        return PLACES[wrapper].format(text, json=json.dumps(value))
    example = WRAPPERS[wrapper]
    at = example.index("B") if example.count("B") == 1 else example.rfind("B")
    return example[:at] + text + example[at + 1 :]


def several() -> Item:
    item = an_item("multiple_choice")
    return item.model_copy(update={"key": ["A", "C"]}) if len(item.options) > 2 else item


def written(name: str) -> tuple[Item, str, object]:
    "An item, and its right answer as a text in one line and as a value of JSON."
    item = an_item(name) if name != "several letters" else several()
    if name == "extended_matching":
        pairs = {str(n): k for n, k in enumerate(item.key, 1)}
        return item, ", ".join(f"{n}-{k}" for n, k in pairs.items()), pairs
    if name in ("several letters", "multi_label", "ranking"):
        between = {"several letters": ", ", "multi_label": "; ", "ranking": " > "}[name]
        return item, between.join(item.key), list(item.key)
    return item, item.key[0], item.key[0]


SCORED = [name for name in tasks() if not task_named(name).judged] + ["several letters"]


@pytest.mark.parametrize("name", SCORED)
@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_every_task_reads_its_answer_in_every_wrapper(wrapper, name):
    item, text, value = written(name)
    said = cell(wrapper, text, value)
    response = Response(item_id=item.item_id, study=item.study, model="m", mode="zero_shot", text=said)
    answer, how = read_answer(item, response)
    assert is_correct(item, answer) == 1, (said, answer, how)


@pytest.mark.parametrize("name", [name for name in tasks() if task_named(name).judged])
@pytest.mark.parametrize("thought", THOUGHTS)
def test_prose_is_shown_without_its_thought(thought, name):
    text = "1. It is a manic episode.\n2. Lithium."
    shown = strip_marks(cell(thought, text, text), follows=False)
    assert shown.strip() == text
    assert name != "sequential" or split_parts(shown, 2) == ["It is a manic episode.", "Lithium."]


VERDICT_IN = [
    "plain",
    "fence",
    "tag around a fence",
    "heading",
    *(w for w in WRAPPERS if w.startswith("wrappers: tag")),
]


@pytest.mark.parametrize("wrapper", VERDICT_IN)
def test_a_verdict_is_read_in_every_wrapper_of_json(wrapper):
    form = {"type": "object", "properties": {"score": {"type": "integer"}}, "required": ["score"]}
    said = cell(wrapper, '{"score": 85}', None)
    assert read_json(said, form) == ({"score": 85}, None)


def test_the_table_names_a_source_for_every_family():
    lines = (Path(__file__).parent.parent / "mhbench/ask/texts/answers/replies.yaml").read_text("utf-8").splitlines()
    named = [line for line in lines if line.startswith("  ") and line.rstrip().partition("#")[0].strip().endswith(":")]
    plain = (
        "white space",
        "a question",
        "a speaker",
        "behind a space",
        "behind a letter",
        "numbers above the line",
        "complete",
    )
    missing = [line for line in named if "#" not in line and not line.strip().startswith((*plain, "cut", "filtered"))]
    assert missing == ["  refused:"], missing
