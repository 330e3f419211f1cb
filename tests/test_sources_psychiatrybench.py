"""Real questions as one of PsychiatryBench's tasks."""

import shutil

import pytest

from mhbench.records.schema import Response
from mhbench.steps.score import score_responses
from mhbench.studies.mhqa.load import load_mhqa
from mhbench.studies.psychiatrybench.load import load_psychiatrybench


@pytest.fixture
def folder(datasets, tmp_path):
    shutil.copy(datasets / "mhqa" / "mhqa.csv", tmp_path / "mcq.csv")
    return tmp_path


def test_mhqa_gold_is_the_task_of_single_choices(folder):
    items = load_psychiatrybench(folder, mcq_key="number")
    assert len(items) == 2475 and len({i.item_id for i in items}) == 2475
    assert {(i.study, i.task, i.category, len(i.options)) for i in items} == {
        ("psychiatrybench", "multiple_choice", "mcq", 4)
    }
    own = load_mhqa(folder / "mcq.csv", key="number").records
    assert [(i.question, i.options, i.key, i.cluster) for i in items] == [
        (i.question, i.options, i.key, i.cluster) for i in own
    ]
    assert {i.origin["topic"] for i in items} == {i.topic for i in own}


def test_its_row_of_two_keys_is_refused_with_its_line_or_set_aside(folder):
    with pytest.raises(ValueError, match=r"correct_option must be the text of option 1.*mcq\.csv:98"):
        load_psychiatrybench(folder)
    items = load_psychiatrybench(folder, strict=False, set_aside=folder / "aside.jsonl")
    (line,) = (folder / "aside.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(items) == 2474 and "mcq.csv:98" in line


def test_thousands_of_real_questions_are_scored(folder):
    items = load_psychiatrybench(folder, mcq_key="number")
    first = [
        Response(item_id=i.item_id, study=i.study, model="first", mode="zero_shot", text="The answer is A.")
        for i in items
    ]
    scores = score_responses(items, first)
    assert len(scores) == 2475 and scores["correct"].mean() == sum(i.key == ["A"] for i in items) / 2475
