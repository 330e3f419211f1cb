"""Answers that were recorded elsewhere: letters and numbers without a text, another order of options, unknown ids."""

import pytest

from mhbench.records.answers import load_answers
from mhbench.records.schema import Item
from mhbench.steps.score import score_responses

OPTIONS = ["Lithium", "Sertraline", "Lorazepam", "Buspirone"]
ITEMS = [
    Item(
        item_id=f"q{k}",
        study="demo",
        task="multiple_choice",
        question="Which one?",
        options=OPTIONS,
        key=["B"],
        source="made up",
    )
    for k in range(4)
]


def table(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def right(path, items=ITEMS):
    scores = score_responses(items, load_answers(path, items, "m"))
    return scores.set_index("item_id")["correct"].to_dict()


@pytest.mark.parametrize(
    "cells", ["item_id,letter\nq0,B\nq1,C\n", "item_id,number\nq0,2\nq1,3.0\n", "item_id,letter,number\nq0,B,\nq1,,3\n"]
)
def test_an_option_without_a_text_comes_in(tmp_path, cells):
    assert right(table(tmp_path / "a.csv", cells)) == {"q0": 1, "q1": 0}


def test_no_option_is_an_empty_answer_and_another_one_is_refused(tmp_path):
    (empty,) = load_answers(table(tmp_path / "a.csv", "item_id,letter\nq0,\n"), ITEMS, "m")
    assert empty.text == ""
    for cells in ("item_id,letter\nq0,E\n", "item_id,number\nq0,0\n", "item_id,number\nq0,two\n"):
        with pytest.raises(ValueError, match="an option must be one of A, B, C, D, or a number from 1 to 4"):
            load_answers(table(tmp_path / "a.csv", cells), ITEMS, "m")


def test_a_letter_is_read_in_the_order_that_was_shown(tmp_path):
    "Shown D, B, A, C: the second option shown is the item's B, the first its D, whatever the form of the answer."
    cells = 'item_id,text,order\nq0,B,DBAC\nq1,A,DBAC\nq2,"B) Sertraline, since lithium is not one",DBAC\nq3,B,\n'
    path = table(tmp_path / "a.csv", cells)
    assert right(path) == {"q0": 1, "q1": 0, "q2": 1, "q3": 1}
    scores = score_responses(ITEMS, load_answers(path, ITEMS, "m")).set_index("item_id")
    assert scores.loc["q1", "answer"] == ["D"] and scores.loc["q0", "answer"] == ["B"]
    sure = '"{""A"": -3.0, ""B"": -0.2, ""C"": -3.0, ""D"": -4.0}"'
    known = table(tmp_path / "b.csv", f"item_id,text,order,letter_logprobs\nq0,B,DCBA,{sure}\n")
    scores = score_responses(ITEMS, load_answers(known, ITEMS, "m"))
    assert scores["answer"][0] == ["C"] and scores["correct"][0] == 0 and scores["confidence"][0] > 0.8
    with pytest.raises(ValueError, match="order must name each of the item's letters once"):
        load_answers(table(tmp_path / "c.csv", "item_id,text,order\nq0,B,DBA\n"), ITEMS, "m")


def test_a_few_unknown_ids_are_counted_and_named(tmp_path, capsys):
    path = table(tmp_path / "a.csv", "item_id,letter\nq0,B\nq1,B\nq2,B\nold-7,A\n")
    assert right(path) == {"q0": 1, "q1": 1, "q2": 1}
    assert "1 of 4 answers of a.csv name no item and are left out: old-7" in capsys.readouterr().out
    with pytest.raises(ValueError, match="name items of this run; got 1 that do not"):
        load_answers(table(tmp_path / "b.csv", "item_id,letter\nq0,B\nold-7,A\n"), ITEMS, "m")


def test_the_names_of_columns_are_not_repeated(tmp_path):
    "Headings of an authors' file may hold a person's name."
    with pytest.raises(ValueError, match="must have the columns item_id and text") as e:
        load_answers(table(tmp_path / "a.csv", "nr,checked by Somebody\n1,Y\n"), ITEMS, "m")
    assert "Somebody" not in str(e.value)
