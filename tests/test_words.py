"Words alone: what the baseline may learn from, and how it is asked."

import hashlib
import math
import re
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax

from mhbench.encode.classifiers import WordModel, _folds, _OptionFeatures, choice_responses
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


# -- by hand


def question(k, case, options, key="A", split=None, **fields):
    "A question of a case."
    text = {"question": f"Which one, {k}?", "source": "made here", "options": options, "key": [*key]}
    return Item(
        **{
            "item_id": f"q{k}",
            "study": "s",
            "task": "multiple_choice",
            "group_id": case,
            "split": split,
            **text,
            **fields,
        }
    )


@pytest.mark.parametrize(("n_cases", "n_folds"), [(7, 5), (5, 5), (3, 3), (2, 2), (1, 0)])
def test_each_question_is_answered_once_by_those_of_other_cases(n_cases, n_folds):
    "In five folds, or one for each case; a single case has nobody to learn from."
    items = [question(k, f"c{k % n_cases}", ["x", "y"]) for k in range(14)]
    folds = list(_folds(items))
    assert len(folds) == n_folds
    assert sorted(k for _, test in folds for k in test) == (list(range(14)) if n_folds else [])
    for train, test in folds:
        assert sorted([*train, *test]) == list(range(14))
        assert not {k % n_cases for k in train} & {k % n_cases for k in test}


def test_a_split_teaches_the_rest_but_for_cases_that_it_shares_with_it():
    "The questions of the split are answered, too: by one another, in folds."
    splits = ["train"] * 6 + ["test"] * 3 + [None]
    cases = ["a", "b", "c", "d", "e", "f", "a", "g", "g", "h"]
    items = [question(k, case, ["x", "y"], split=split) for k, (case, split) in enumerate(zip(cases, splits))]
    (train, test), *folds = _folds(items)
    assert (train.tolist(), test.tolist()) == ([1, 2, 3, 4, 5], [6, 7, 8, 9])
    assert len(folds) == 5 and sorted(k for _, test in folds for k in test) == list(range(6))
    assert all(sorted([*train, *test]) == list(range(6)) for train, test in folds)
    folds = list(_folds([i.model_copy(update={"split": "train"}) for i in items]))
    assert sorted(k for _, test in folds for k in test) == list(range(10)), "a split of all is none"


def tf_idf(text: str, documents: list[str]) -> dict[str, float]:
    "Of one text: (1 + ln tf) (1 + ln((1 + n) / (1 + df))) of its words and pairs of words, at length one."
    terms_of = lambda t: Counter([*(w := re.findall(r"\w+", t.lower())), *map(" ".join, zip(w, w[1:]))])
    n_documents = Counter(term for d in documents for term in terms_of(d).keys())
    vector = {
        term: (1 + math.log(n)) * (1 + math.log((1 + len(documents)) / (1 + n_documents[term])))
        for term, n in terms_of(text).items()
        if n_documents[term]
    }
    norm = math.sqrt(sum(v * v for v in vector.values())) or 1.0
    return {t: v / norm for t, v in vector.items()}


def rows_of(items, documents, vocabulary, with_question) -> np.ndarray:
    "Of each option: its words, those of the question among them, its relative length, how like the others it is."
    rows = []
    for i in items:
        vectors = [tf_idf(o, documents) for o in i.options]
        question_vector = tf_idf(" ".join([*i.context.values(), i.question]), documents)
        mean_n_words = np.mean([len(o.split()) for o in i.options])
        for k, v in enumerate(vectors):
            sum_of_others = Counter()
            for j, other_vector in enumerate(vectors):
                sum_of_others.update(other_vector if j != k else {})
            norm = math.sqrt(sum(x * x for x in sum_of_others.values())) or 1.0
            columns = [len(i.options[k].split()) / mean_n_words, sum(v[t] * sum_of_others[t] for t in v) / norm]
            in_question = [v.get(t, 0.0) * question_vector.get(t, 0.0) for t in vocabulary]
            blocks = [[v.get(t, 0.0) for t in vocabulary]]
            rows.append(
                np.concatenate([*blocks, *([in_question, columns, [sum(in_question)]] if with_question else [columns])])
            )
    return np.array(rows)


TEACHERS = [
    question(0, "a", ["The red lamp", "a river a river", "stone"], context={"case": "Lamp or stone?"}),
    question(1, "b", ["cloud red", "paper of stone lamp", "glass"], "B"),
    question(2, "c", ["lamp", "the river bank is red", "red paper"], "C"),
    question(3, "d", ["stone stone", "glass lamp"], "B"),
]
UNKNOWN = question(4, "e", ["zebra", "quagga okapi", "zebra lamp"], context={"case": "A red lamp."})


@pytest.mark.parametrize("with_question", [True, False])
def test_options_become_numbers_by_their_words(with_question):
    "Beside a loop over the words; an option of unknown words is like none."
    documents = [o for i in TEACHERS for o in i.options]
    documents += [" ".join([*i.context.values(), i.question]) for i in TEACHERS] if with_question else []
    features = _OptionFeatures(TEACHERS, with_question)
    vocabulary = sorted(features.words.vocabulary_)
    for items in (TEACHERS, [UNKNOWN]):
        expected = rows_of(items, documents, vocabulary, with_question)
        np.testing.assert_allclose(features(items).toarray(), expected, atol=1e-9)


def test_words_are_weighed_by_a_logistic_regression_of_balanced_classes():
    "Beside a minimum that scipy finds: weights penalised by half their square, classes of equal weight."
    documents = [o for i in TEACHERS for o in i.options]
    vocabulary = sorted(_OptionFeatures(TEACHERS, False).words.vocabulary_)
    x = rows_of(TEACHERS, documents, vocabulary, False)
    sign = np.array([1 if letter in i.key else -1 for i in TEACHERS for letter in "ABC"[: len(i.options)]])
    class_weight = np.where(sign > 0, len(sign) / (2 * (sign > 0).sum()), len(sign) / (2 * (sign < 0).sum()))

    def loss(w):
        return (class_weight * np.logaddexp(0, -sign * (x @ w[1:] + w[0]))).sum() + 0.5 * (w[1:] ** 2).sum()

    w = minimize(loss, np.zeros(1 + x.shape[1]), tol=1e-10).x
    scores = rows_of([UNKNOWN], documents, vocabulary, False) @ w[1:]
    items = [*(i.model_copy(update={"split": "train"}) for i in TEACHERS), UNKNOWN.model_copy(update={"split": "test"})]
    log_probs = WordModel("options alone").log_probabilities(items)["q4"]
    np.testing.assert_allclose(log_probs, log_softmax(scores), atol=2e-3)
    assert (log_probs == np.round(log_probs, 6)).all()


def test_options_that_no_word_tells_apart_are_millionths_apart_in_the_order_of_their_hashes():
    "Three millionths a rank of the SHA-256 of the question and the option."
    items = [*(i.model_copy(update={"split": "train"}) for i in TEACHERS), question(9, "z", ["p", "q", "r", "s"])]
    log_probs = WordModel("options alone").log_probabilities(items)["q9"]
    digests = [hashlib.sha256(f"q9:{option}".encode()).hexdigest() for option in "pqrs"]
    ranks = np.array([sorted(digests).index(d) for d in digests])
    np.testing.assert_allclose(log_probs - log_probs[0], 3e-6 * (ranks - ranks[0]), atol=1.1e-6)
    assert log_probs[0] == pytest.approx(math.log(0.25), abs=1e-5)


def test_a_question_without_a_key_or_whose_options_are_all_right_teaches_nothing():
    "The answers are those without it."
    keyless = TEACHERS[0].model_copy(update={"key": []})
    all_right = TEACHERS[1].model_copy(update={"key": ["A", "B", "C"], "task": "multi_answer"})
    items = [*TEACHERS[2:], UNKNOWN.model_copy(update={"split": "test"})]
    items = [i.model_copy(update={"split": i.split or "train"}) for i in items]
    log_probs = WordModel("options alone").log_probabilities(items)["q4"]
    with_others = [*items, *(i.model_copy(update={"split": "train"}) for i in (keyless, all_right))]
    assert (WordModel("options alone").log_probabilities(with_others)["q4"] == log_probs).all()


def test_the_most_probable_option_is_the_answer_and_why_there_is_none_is_said():
    "For questions with options that the classifier could not answer, and for those without."

    class Fixed:
        why_none = "it is too long"

        def log_probabilities(self, items):
            assert [i.item_id for i in items] == ["q0", "q1"], "those with options"
            return {"q1": np.log([0.2, 0.5, 0.3])}

    open_question = question(7, "x", [], task="open", key=["text"])
    responses = choice_responses([*TEACHERS[:2], open_question], Fixed(), model="w")
    assert [(r.status, r.text) for r in responses] == [("error", None), ("ok", "B"), ("error", None)]
    assert responses[1].letter_logprobs == pytest.approx(dict(zip("ABC", np.log([0.2, 0.5, 0.3]))))
    errors = ["choice_responses: it is too long", "choice_responses: task open has no options to choose"]
    assert [responses[0].error, responses[2].error] == errors
    assert {(r.study, r.model, r.mode, r.attempts, r.chosen_by) for r in responses} == {
        ("s", "w", "zero_shot", 0, "classifier")
    }
