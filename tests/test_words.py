"Words alone: what the baseline may learn from, and how it is asked."

import numpy as np
import pandas as pd
import pytest

from mhbench.encode.classifiers import WordModel
from mhbench.records.schema import Item
from mhbench.report.findings import answered_by_words
from mhbench.run.asking import open_model
from mhbench.steps.accuracy import words_table
from mhbench.steps.answers import answer_everything
from mhbench.steps.score import score_responses

WORDS = "lamp river stone cloud paper glass wheel garden bread window".split()


def bank(n=120, seed=0, **more):
    "Keys that no word tells, but that are the same within a case."
    rng = np.random.default_rng(seed)
    items = []
    for k in range(n):
        options = list(rng.permutation(WORDS)[:4])
        of = dict(item_id=f"q{k}", study="s", task="multiple_choice", source="made here", group_id=f"c{k // 2}")
        items.append(Item(**of, question=f"Which one, {k}?", options=options, key=["ABCD"[rng.integers(4)]]))
    return [i if k % 2 == 0 else twin(i, items[k - 1]) for k, i in enumerate(items)] if more.get("twins") else items


def twin(item, other):
    "The other question of a case: the same options in another order, and the same key."
    options = other.options[::-1]
    return item.model_copy(
        update={"options": options, "key": ["ABCD"[options.index(other.options["ABCD".index(other.key[0])])]]}
    )


def accuracy(items, read="options alone"):
    entry = {"endpoint": "words", "served": read}
    with open_model(entry, "w", {"words": {"kind": "words"}}, {"zero_shot": {}}) as asked:
        scores = score_responses(items, answer_everything(items, asked))
    assert set(scores["read_from"]) == {"classifier"}, "every option has a probability of its own"
    return scores["correct"].mean()


def test_a_case_teaches_nothing_about_itself():
    items = bank(twins=True)
    assert 0.1 < accuracy(items) < 0.45
    apart = [i.model_copy(update={"group_id": None, "base_id": i.item_id}) for i in items]
    assert accuracy(items) <= accuracy(apart) + 0.1


def test_a_word_that_keys_have_is_learnt():
    items = bank()
    told = [
        i.model_copy(
            update={"options": [o + (" always" if a in i.key else " never") for a, o in zip("ABCD", i.options)]}
        )
        for i in items
    ]
    assert accuracy(told) == 1.0 == accuracy(told, "question and options")


def test_what_the_question_shares_with_its_key_is_learnt_from_the_question_alone():
    items = [i.model_copy(update={"question": f"Which is like {i.options['ABCD'.index(i.key[0])]}?"}) for i in bank()]
    assert accuracy(items, "question and options") > 0.9 and accuracy(items) < 0.45


def test_a_training_split_teaches_the_others_alone():
    items = bank()
    wrong = ["BCDA"["ABCD".index(i.key[0])] for i in items]
    told = []
    for k, i in enumerate(items):
        marked = i.key[0] if k < 60 else wrong[k]  # within the training split the mark is true, elsewhere it is not
        options = [o + (" always" if a == marked else "") for a, o in zip("ABCD", i.options)]
        told.append(i.model_copy(update={"options": options, "split": "train" if k < 60 else "test"}))
    found = WordModel("options alone").log_probabilities(told)
    right = [told[k].key[0] == "ABCD"[found[f"q{k}"].argmax()] for k in range(120)]
    assert all(right[:60]) and not any(right[60:])


def test_another_part_of_the_item_is_refused():
    with pytest.raises(ValueError, match="read must be one of question and options, options alone; got 'stem'"):
        accuracy(bank(), "stem")


def test_a_bank_that_words_alone_answer_is_said_to_have_a_flaw():
    "The sentence of the report, from answers to a bank whose keys a word tells, and to one whose keys none tells."
    fair = bank()
    told = [
        i.model_copy(update={"options": [o + (" always" if a in i.key else "") for a, o in zip("ABCD", i.options)]})
        for i in fair
    ]
    banks = {study: words_table(items) for study, items in (("told", told), ("fair", fair))}
    assert answered_by_words(banks) == [
        "told has a flaw: words alone answer 120 of 120 from question and options, 120 of 120 from options alone "
        "(chance 0.25; corrected for 4 intervals), so that part of every accuracy may rest on how its options are "
        "written.",
        "Words alone are not shown to answer more than chance in fair.",
    ]
    assert words_table([]).empty, "a bank without options has no such baseline"


def test_of_many_banks_one_is_above_chance_by_luck_and_has_no_flaw():
    "An interval that lies above chance by itself, and not when nineteen others were looked at, too."
    by_itself = pd.DataFrame(
        {"measure": ["options alone"], "estimate": 0.33, "ci_low": 0.26, "ci_high": 0.41, "level": 0.95, "n": 150}
    ).assign(chance=0.25)
    (sentence,) = answered_by_words({"one": by_itself})
    assert sentence.startswith("one has a flaw")
    (sentence,) = answered_by_words({f"bank {k}": by_itself for k in range(20)})
    assert sentence.startswith("Words alone are not shown to answer more than chance in bank 0, bank 1,")
