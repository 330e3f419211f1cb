"""What an answer was, and what it counts for: one rule, however it came."""

import csv
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from answering import answering, refuse

from mhbench.ask.parse import is_refusal
from mhbench.ask.request import Answer, Model, Request
from mhbench.records.answers import load_answers
from mhbench.records.schema import Item, Response
from mhbench.records.task import NOTHING, task_of
from mhbench.stats.estimate import Estimate
from mhbench.steps import accuracy
from mhbench.steps.accuracy import chance_level, matching_table, probability_scores, with_run
from mhbench.steps.between_models import model_pairs
from mhbench.steps.generate import generate, response
from mhbench.steps.rates import COUNTS, average_models, best_first, declined_table, f1_table, rate_table, status_table
from mhbench.steps.score import (
    is_correct,
    mode_names,
    none_read,
    outcome_counts,
    read_answer,
    response_outcomes,
    scorable,
    score_responses,
    self_consistency,
    where_read,
    with_soft_labels,
)
from mhbench.tasks.written import OpenTask, SequentialTask, same_string, same_term
from mhbench.tools.compare import paired_accuracies

NO = "I'm sorry, but I can't help with that."
WAYS = {  # in which a model declines, as a response holds them
    "in words": {"text": NO},
    "in its field": {"text": "", "status": "refused", "error": "the model refused: no"},
    "by a filter": {"text": None, "status": "filtered"},
    "by a filter that cut the answer": {"text": "", "status": "filtered"},
}
MODEL = Model(name="m", endpoint="here", served="m")


def choice(k=0, key="B", **more):
    same = {"study": "demo", "task": "multiple_choice", "question": f"question {k}?", "source": "here"}
    return Item(item_id=f"q{k}", options=["lithium", "valproate", "quetiapine"], key=list(key), **(same | more))


def said(text, item="q0", **more):
    return Response(**({"item_id": item, "study": "demo", "model": "m", "mode": "zero_shot", "text": text} | more))


def of_task(task, key, **more):
    return Item(item_id="q0", study="demo", task=task, question="?", key=key, source="here", **more)


# -- reading


def test_the_probabilities_answer_where_one_letter_is_right_and_a_tie_is_no_answer():
    sure = said("I would say C.", letter_logprobs={"A": -3.0, "B": -0.1, "C": -3.0})
    tied = said("A", letter_logprobs={"A": -1.0, "B": -1.0, "C": -3.0})
    assert read_answer(choice(), sure) == (["B"], "logprobs")
    assert read_answer(choice(), tied) == ([], "logprobs: tie")
    table = score_responses([choice()], [sure, tied.model_copy(update={"sample": 1})])
    assert table["correct"].tolist() == [1, 0] and response_outcomes(table).tolist() == ["read", "unread"]


def test_several_right_letters_are_read_from_the_text_whatever_the_probabilities_say():
    item = choice(key="AC")
    r = said("A and C", letter_logprobs={"A": -0.1, "B": -3.0, "C": -3.0})
    assert read_answer(item, r)[0] == ["A", "C"]
    table = score_responses([item], [r, said("A", sample=1), said("A, B and C", sample=2)])
    assert table["correct"].tolist() == [1, 0, 0]  # subset accuracy


def test_extended_matching_gives_partial_credit_and_an_unread_set_is_not_right():
    item = of_task("extended_matching", ["A", "C"], options=["x", "y", "z"], stems=["one", "two"])
    texts = ["1: A\n2: C", "1: A\n2: B", "1: A", "no idea", ""]
    table = score_responses([item], [said(t, sample=k) for k, t in enumerate(texts)])
    assert table["correct"].tolist() == [1, 0.5, 0.5, 0, 0]
    assert response_outcomes(table).tolist() == ["read", "read", "read", "unread", "unread"]
    alone = where_read(table[3:], ["model"])
    assert alone["correct"].isna().all()  # nothing was read, nothing is known


def test_labels_that_are_none_are_an_answer_and_a_refusal_is_no_unknown_label():
    item = of_task("multi_label", [], options=["Depressive Disorders", "Anxiety Disorders"])
    table = score_responses([item], [said(t, sample=k) for k, t in enumerate(["Normal", "Grief", NO, " "])])
    assert table["answer"].tolist() == [[NOTHING], ["unknown: Grief"], [], []]
    assert response_outcomes(table).tolist() == ["read", "read", "refused", "unread"]
    assert table["correct"].tolist() == [1, 0, 0, 0]


def test_every_accepted_term_counts_as_people_compare_and_as_a_string():
    item = of_task("cloze", ["naloxone", "Narcan"])
    texts = ["naloxone", "Narcan", "**narcan**.", "The answer is Naloxone.", "naltrexone", "", NO]
    table = score_responses([item], [said(t, sample=k) for k, t in enumerate(texts)])
    assert table["correct"].tolist() == [1, 1, 1, 1, 0, 0, 0]
    assert table["correct_strict"].tolist() == [1, 1, 0, 0, 0, 0, 0]
    assert response_outcomes(table).tolist() == ["read"] * 5 + ["unread", "refused"]
    assert not table["answer"].map(len).any()  # a term is a text, and no text leaves the stage
    matching = matching_table(table.assign(item_id=[f"q{k}" for k in range(7)])).set_index("measure")
    assert matching["estimate"].round(6).to_dict() == {"the same term": 0.571429, "the same string": 0.285714}
    assert matching[["n_unread", "n_refused"]].to_numpy().tolist() == [[1, 1]] * 2


def test_a_key_that_sounds_like_a_refusal_is_a_right_answer():
    item = of_task("cloze", ["I cannot answer this question"])
    table = score_responses([item], [said("I cannot answer this question.")])
    assert response_outcomes(table).tolist() == ["read"] and table["correct"].tolist() == [1]


@pytest.mark.parametrize("task", [OpenTask.name, SequentialTask.name])
def test_what_a_judge_decides_is_not_right_or_wrong_but_a_refusal_is_counted(task):
    item = of_task(task, ["x"], stems=["one"] if task == "sequential" else [])
    table = score_responses([item], [said(t, sample=k) for k, t in enumerate(["Rest.", NO, ""])])
    assert table["correct"].isna().all() and response_outcomes(table).tolist() == ["judged", "refused", "unread"]
    assert task_of(item).judged and np.isnan(task_of(item).chance(item))


# -- one rule


@pytest.mark.parametrize("way", WAYS)
def test_a_refusal_is_one_thing_however_it_comes(way):
    items = [choice(k) for k in range(12)]
    asked = [said("B" if k % 4 else "A", item=f"q{k}") for k in range(9)]
    asked += [said(**{"text": None, "item": f"q{k}"} | WAYS[way]) for k in range(9, 12)]
    scores = score_responses(items, asked)
    row = rate_table(scores, seed=1, all_items=scorable(items)).iloc[0]
    assert row["estimate"] == pytest.approx(6 / 12)
    assert row[["n", *COUNTS]].tolist() == [12, 0, 0, 0, 3, 0, 0]
    assert status_table(scores)[["n", "read", "unread", "refused", "failed"]].values.tolist() == [[12, 9, 0, 3, 0]]
    table = declined_table(scores, by=()).set_index("measure")["estimate"]
    expected = {"declined": 3 / 12, "right": 6 / 12, "right, of those read": 6 / 9}
    expected |= {"right, at worst": 6 / 12, "right, at best": 9 / 12}
    assert table.to_dict() == pytest.approx(expected)


def test_an_endpoint_that_declines_in_three_ways_gives_one_accuracy():
    "Twelve questions, of which three are declined: text, field, filter, and a filter that turns the request away."
    items = [choice(k) for k in range(12)]
    field = {"message": {"content": None, "refusal": "I cannot help."}, "finish_reason": "stop"}
    stopped = {"message": {"content": ""}, "finish_reason": "content_filter"}
    turned_away = lambda: refuse(400, "content_filter: the prompt was flagged")  # noqa: E731
    for declines in (lambda: NO, lambda: field, lambda: stopped, turned_away):

        def reply(body, declines=declines):
            k = next(k for k in range(11, -1, -1) if f"question {k}?" in body["messages"][-1]["content"])
            return declines() if k >= 9 else "B" if k % 4 else "A"

        with answering(reply) as (here, _):
            got = generate(items, MODEL, here, cache=None, progress=False)
        row = rate_table(score_responses(items, got), seed=1).iloc[0]
        assert (row["n"], row["n_refused"], row["n_failed"], row["n_missing"]) == (12, 3, 0, 0)
        assert row["estimate"] == pytest.approx(0.5)


def test_a_request_that_failed_is_missing_and_an_unread_answer_is_not_right():
    items = [choice(k) for k in range(5)]
    texts = [said("B"), said("who knows", item="q1"), said("", item="q2"), said(None, item="q3", status="error")]
    row = rate_table(score_responses(items, texts), seed=1, all_items=scorable(items)).iloc[0]
    assert row["estimate"] == pytest.approx(1 / 3)
    assert row[["n", "n_not_asked", "n_missing", "n_failed", "n_refused", "n_unread"]].tolist() == [3, 1, 1, 1, 0, 2]


def test_what_cannot_be_scored_is_not_counted():
    "Of three requests that failed, one was for an item that nobody scores."
    items = [choice(k) for k in range(4)]
    answers = [said("B"), *(said(None, item=f"q{k}", status="error") for k in (1, 2, 3))]
    row = rate_table(score_responses(items, answers), seed=1, all_items=scorable(items[:3])).iloc[0]
    assert row[["n", "n_missing", "n_failed"]].tolist() == [1, 2, 2]


def test_macro_f1_is_over_the_letters_that_are_keys():
    "Keys A A B B, answers A A B C. F1 of A is 1, of B 2 x 1 x .5 / 1.5; C is the key of no item."
    items = [choice(k, key="AABB"[k]) for k in range(4)]
    answers = [said("AABC"[k], item=f"q{k}") for k in range(4)]
    assert f1_table(score_responses(items, answers), seed=1, n_boot=10)["estimate"].tolist() == [pytest.approx(5 / 6)]


def test_where_nothing_was_read_nothing_is_known_but_refusals_are_known():
    items = [choice(k) for k in range(2)]
    both = lambda one, two: score_responses(items, [said(one), said(two, item="q1")])  # noqa: E731
    rate = lambda scores: rate_table(scores, seed=1)["estimate"][0]  # noqa: E731
    assert np.isnan(rate(both("hm", "")))
    assert np.isnan(rate(both("hm", NO)))
    assert rate(both(NO, NO)) == 0 and rate(both("B", "hm")) == 0.5
    assert where_read(both("hm", NO), ["model"])["correct"].isna().all()
    assert where_read(both(NO, NO), ["model"])["correct"].tolist() == [0, 0]


def test_an_answer_that_was_cut_is_read_like_any_other_and_counted():
    table = score_responses([choice()], [said("B", status="truncated"), said("Well", status="truncated", sample=1)])
    assert outcome_counts(table) == {"n_failed": 0, "n_refused": 0, "n_truncated": 2, "n_unread": 1}
    assert table["correct"].tolist() == [1, 0]


def test_refusals_vote_and_unread_answers_do_not():
    texts = {"B": 2, NO: 3, "hm": 9}
    samples = [said(t, sample=k) for k, t in enumerate(t for t, n in texts.items() for _ in range(n))]
    vote = self_consistency(score_responses([choice()], samples), [choice()]).iloc[0]
    assert (vote["how"], vote["correct"], vote["confidence"]) == ("refused", 0.0, 3 / 5)
    vote = self_consistency(score_responses([choice()], samples[:2] + samples[5:]), [choice()]).iloc[0]
    assert (vote["how"], vote["answer"], vote["correct"], vote["confidence"]) == ("majority", ["B"], 1.0, 1.0)


def test_declining_wins_no_comparison():
    items = [choice(k) for k in range(8)]
    honest = [said("B" if k < 4 else "A", item=f"q{k}", model="honest") for k in range(8)]
    shy = [said("B", item=f"q{k}", model="shy") for k in range(4)]
    shy += [said(None, item=f"q{k}", model="shy", status="filtered") for k in range(4, 8)]
    scores = score_responses(items, honest + shy)
    pair = model_pairs(scores).iloc[0]
    assert (pair["n"], pair["estimate"], pair["n_left_out"]) == (8, 0.0, 0)
    before, after = (
        score_responses(items, [r.model_copy(update={"model": "m"}) for r in rs]).assign(study="demo")
        for rs in (honest, shy)
    )
    moved = paired_accuracies(before, after).iloc[0]
    assert (moved["n"], moved["estimate"]) == (8, 0.0)


def test_a_recorded_answer_that_is_blank_counts_and_one_that_failed_does_not(tmp_path):
    items = [choice(k) for k in range(5)]
    rows = ["item_id,text,error,status", "q0,B,,", "q1,,,", "q2,,time-out,", f'q3,"{NO}",,', "q4,,stopped,filtered"]
    (tmp_path / "a.csv").write_text("\n".join(rows), encoding="utf-8")
    scores = score_responses(items, load_answers(tmp_path / "a.csv", items, "m"))
    assert response_outcomes(scores).tolist() == ["read", "unread", "failed", "refused", "refused"]
    assert rate_table(scores, seed=1)["estimate"][0] == pytest.approx(1 / 4)


# -- words


def forms():
    with open(Path(__file__).parent / "data" / "refusals.tsv", encoding="utf-8", newline="") as f:
        return [(r["text"], r["refusal"] == "yes") for r in csv.DictReader(f, delimiter="\t", quoting=csv.QUOTE_NONE)]


@pytest.mark.parametrize("text, declines", forms())
def test_a_refusal_in_words(text, declines):
    assert is_refusal(text) == declines


def test_a_long_text_is_no_refusal_and_what_is_read_is_none():
    assert is_refusal(NO) and not is_refusal(NO + " Rest." * 200)
    both = NO + " The answer is B."
    assert response_outcomes(score_responses([choice()], [said(both)])).tolist() == ["read"]


def test_a_refusal_has_at_most_120_words():
    assert is_refusal(NO + " Rest." * (120 - len(NO.split())))
    assert not is_refusal(NO + " Rest." * (121 - len(NO.split())))


@pytest.mark.parametrize(
    "text, key, same",
    [
        ("answer: NALOXONE!", "naloxone", True),
        ("My answer is: `naloxone`", "naloxone", True),
        ("Final answer: **the amygdala**", "amygdala", True),
        ("Der gesuchte Begriff lautet: „Glukagon“.", "Glukagon", True),
        ("Post\u2011traumatic stress disorder", "post-traumatic stress disorder", True),
        ("vitamin B₁₂", "Vitamin B12", True),
        ("It acts on receptors.\n\nAnswer: naloxone", "naloxone", True),
        ("naloxone\nmethadone", "naloxone", False),
        ("It is not naloxone", "naloxone", False),
        ("an opioid antagonist", "naloxone", False),
        ("B fibres", "A fibres", False),
        ("-5", "5", False),
    ],
)
def test_terms_as_people_compare_them(text, key, same):
    assert same_term(text, [key]) == same and not same_string(text, [key])


def test_a_tie_of_soft_labels_keeps_the_key_and_a_plain_top_makes_one():
    labels = pd.DataFrame({"question": "q0", "option": list("ABC"), "probability": [0.4, 0.4, 0.2]})
    (kept,) = with_soft_labels([choice()], labels)
    assert kept.key == ["B"] and kept.soft_labels == pytest.approx([0.4, 0.4, 0.2])
    (made,) = with_soft_labels([choice()], labels.assign(probability=[0.6, 0.2, 0.2]))
    assert made.key == ["A"] and is_correct(made, ["A"]) == 1


def test_labels_belong_to_choices_and_other_items_stay_as_they_are():
    labels = pd.DataFrame({"question": "q0", "option": list("ABC"), "probability": [0.6, 0.2, 0.2]})
    alone = choice(1)
    term = of_task("cloze", ["naloxone"])
    assert with_soft_labels([alone, term, choice()], labels)[:2] == [alone, term]
    shuffled = choice().model_copy(update={"order": [2, 0, 1]})  # its first option is the question's third
    (made,) = with_soft_labels([shuffled], labels)
    assert made.soft_labels == pytest.approx([0.2, 0.6, 0.2]) and made.key == ["B"]
    with pytest.raises(ValueError, match="one row an option"):
        with_soft_labels([choice()], labels[:2])


# -- the table


def test_what_can_be_scored_without_a_judge():
    key_and_none = [choice(), of_task("multi_label", ["x"], options=["x", "y"]), of_task("open", ["Rest."])]
    soft = choice(2, key="").model_copy(update={"soft_labels": [0.1, 0.2, 0.7]})
    none = choice(3, key="")
    table = scorable([*key_and_none, soft, none])
    assert table["task"].tolist() == ["multiple_choice", "multi_label", "multiple_choice"]
    assert table["item_id"].tolist() == ["q0", "q0", "q2"]
    assert is_correct(soft, ["C"]) == 1 and np.isnan(is_correct(none, ["C"]))


def test_a_response_to_no_item_is_refused_by_its_name():
    with pytest.raises(ValueError, match="got 'q9' .demo, m."):
        score_responses([choice(), choice(1)], [said("B", "q1"), said("B"), said("B", "q9")])
    with pytest.raises(ValueError, match="once; got .'q0', 'm', 'zero_shot', .*twice"):
        score_responses([choice(), choice(1)], [said("B", "q1"), said("A"), said("B")])
    assert len(score_responses([choice()], [])) == 0


def test_letters_are_those_of_the_item_whatever_order_was_shown():
    item = choice(key="A")
    shown = said("B", order=[2, 0, 1])  # the second that was shown is the item's first
    likely = said("?", sample=1, order=[2, 0, 1], letter_logprobs={"A": -9.0, "B": -0.1, "C": -9.0})
    table = score_responses([item], [shown, likely])
    assert table["answer"].tolist() == [["A"], ["A"]] and table["correct"].tolist() == [1, 1]
    assert table["how"][1] == "logprobs" and np.isnan(table["confidence"][0])


def test_probabilities_are_scored_against_the_key_or_the_soft_labels():
    p = {"A": np.log(0.25), "B": np.log(0.5), "C": np.log(0.25)}
    soft = choice(1).model_copy(update={"soft_labels": [0.5, 0.5, 0.0]})
    items = [choice(), soft, choice(2, key="AB")]
    table = score_responses(items, [said("B", f"q{k}", letter_logprobs=p) for k in range(3)])
    assert table["confidence"].tolist() == pytest.approx([0.5, 0.5, 0.5])
    assert table["brier"].tolist() == pytest.approx([2 * 0.25**2 + 0.5**2, 0.25**2 + 0.25**2, 0.25**2 + 0.25**2])
    half = -(np.log(0.5) + np.log(0.25)) / 2
    assert table["cross_entropy"].tolist() == pytest.approx([-np.log(0.5), half, half])
    assert table["correct"].tolist() == [1, 1, 0]  # two letters are right in the last


def test_none_read_is_said_where_answers_are_there_and_not_one_was_read():
    def says(*texts):
        return none_read(score_responses([choice()], [said(t, sample=k) for k, t in enumerate(texts)]))

    assert says("hm") and says("hm", NO)
    assert not says("hm", "B") and not says(NO) and not says("B")
    assert not none_read(score_responses([of_task("open", ["x"])], [said("Rest.")]))


def test_majorities_stand_in_the_order_of_the_answers_and_cost_what_their_samples_cost():
    items = [choice(), choice(1)]
    spent = dict(votes=True, attempts=1, prompt_tokens=10, completion_tokens=2, cost_usd=0.5)
    samples = [said(t, f"q{q}", sample=k, **spent) for q in (1, 0) for k, t in enumerate(["B", "A", "B"])]
    table = self_consistency(score_responses(items, samples), items)
    assert table["item_id"].tolist() == ["q1", "q0"] and table["n_votes"].tolist() == [3, 3]
    assert table["confidence"].tolist() == pytest.approx([2 / 3, 2 / 3])
    assert (
        table[["attempts", "prompt_tokens", "completion_tokens", "cost_usd"]].values.tolist() == [[3, 30, 6, 1.5]] * 2
    )
    assert table["answered_by"].tolist() == ["majority"] * 2 and table["sample"].tolist() == [0, 0]
    assert mode_names(table).tolist() == ["zero_shot, majority of 3"] * 2
    assert mode_names(score_responses(items, samples))[0] == "zero_shot, one of its samples"
    assert mode_names(score_responses(items, [said("B")])).tolist() == ["zero_shot"]


def test_a_vote_of_failures_has_failed_and_one_answer_is_a_vote():
    failed = [said(None, status="error", sample=k, votes=True) for k in range(2)]
    nothing = self_consistency(score_responses([choice()], failed), [choice()]).iloc[0]
    assert nothing["status"] == "error" and np.isnan(nothing["correct"])
    some = [*failed, said("B", sample=2, votes=True)]
    vote = self_consistency(score_responses([choice()], some), [choice()]).iloc[0]
    assert (vote["status"], vote["answer"], vote["correct"]) == ("ok", ["B"], 1)
    assert len(self_consistency(score_responses([choice()], [said("B", votes=True)]), [choice()])) == 0


def test_the_last_announcement_of_a_term_counts_and_no_text_is_no_term():
    changed = "The answer is naloxone.\nThe final answer is methadone."
    assert same_term(changed, ["methadone"]) and not same_term(changed, ["naloxone"])
    for nothing in (None, "", " "):
        assert not same_term(nothing, ["naloxone"]) and not same_string(nothing, ["naloxone"])


@pytest.mark.parametrize(
    "item, chance",
    [
        (choice(), 1 / 3),
        (of_task("multiple_choice", ["A", "C"], options=["x", "y", "z", "u"]), 1 / 6),
        (of_task("extended_matching", ["A"], options=["x", "y"], stems=["one"]), 1 / 2),
        (of_task("multi_label", ["x"], options=["x", "y"]), 0),
        (of_task("cloze", ["naloxone"]), 0),
    ],
    ids=lambda x: x.task if isinstance(x, Item) else "",
)
def test_what_a_guess_would_get(item, chance):
    assert task_of(item).chance(item) == pytest.approx(chance)


def test_a_line_of_chance_is_that_of_every_question():
    one, two = choice(), of_task("multiple_choice", ["A", "C"], options=["x", "y", "z", "u"])
    labels, essay = of_task("multi_label", ["x"], options=["x", "y"]), of_task("open", ["Because."])
    assert chance_level([one, one, essay]) == {"chance 1/3": 1 / 3} and chance_level([two]) == {"chance 1/6": 1 / 6}
    for mixed in ([one, two], [one, labels], [labels], [essay], []):
        assert not chance_level(mixed)


@pytest.mark.parametrize(("limits", "n_rows"), [((0, 0.2), 0), ((-0.2, 0), 0), ((0.1, 0.2), 1), ((-0.2, -0.1), 1)])
def test_an_interval_that_ends_at_zero_shows_no_difference_by_case_size(limits, n_rows, monkeypatch):
    "The limits of the difference are set by hand; cases have one question, or two."
    difference = Estimate.from_limits(np.mean(limits), *limits, n=6)
    monkeypatch.setattr(accuracy, "group_difference", lambda *_, **__: difference)
    scores = pd.DataFrame({"cluster": [0, 1, 2, 2, 3, 3, 4], "correct": 1.0, "model": "m", "mode": "zero_shot"})
    assert len(accuracy.by_case_size(scores.assign(answered_by="plain", n_votes=1))) == n_rows


@pytest.mark.parametrize("correct", [[1, 0], [1, 1, 1], [1]])
def test_a_case_that_moves_an_accuracy_by_just_its_standard_error_is_not_influential(correct):
    "Of two cases one moves the mean by half, which is its standard error; where all are right nothing moves."
    scores = pd.DataFrame({"item_id": range(len(correct)), "correct": np.array(correct, float), "model": "m"})
    scores = scores.assign(cluster=scores["item_id"], mode="zero_shot", answered_by="plain", n_votes=1)
    assert accuracy.influential_cases(scores).empty


def test_the_main_measure_is_the_exact_match_of_terms_alone():
    "Essays, which a judge decides, count for neither."
    term, essay = of_task("cloze", ["lithium"]), of_task("open", ["Because."])
    measures = [accuracy.main_measure(items) for items in ([term], [term, essay], [term, choice()], [essay], [])]
    assert measures == ["exact match", "exact match", "accuracy", "accuracy", "accuracy"]


def test_a_limit_at_a_mark_is_neither_above_nor_below_it():
    "Marks at the limits themselves, and just outside them."
    items = [choice(k) for k in range(12)]
    scores = score_responses(items, [said("B" if k < 7 else "A", f"q{k}") for k in range(12)])
    (limits,) = accuracy.simultaneous_accuracy(scores, {})[["ci_low", "ci_high"]].to_numpy().tolist()
    marks = {
        "at the low one": limits[0],
        "at the high one": limits[1],
        "under": limits[0] - 1e-9,
        "over": limits[1] + 1e-9,
    }
    assert accuracy.simultaneous_accuracy(scores, marks)[[*marks]].to_numpy().tolist() == [
        ["open", "open", "above", "below"]
    ]


def test_an_accuracy_is_below_chance_where_its_whole_interval_is_below_it():
    "Of three models one ends at chance, one below it; of a task without a chance nothing can be below it."
    items = [choice(), of_task("cloze", ["lithium"]).model_copy(update={"item_id": "q1"})]
    run = {"mode": "zero_shot", "answered_by": "plain", "n_votes": 1}
    scores = pd.DataFrame({"item_id": ["q0", "q0", "q1"], "model": list("abc"), "correct": 0.0} | run).assign(set=None)
    rates = pd.DataFrame({"model": list("abc"), "ci_high": [1 / 3, 0.33, 0.0]} | run).assign(by="all", group="all")
    rows_below = accuracy.below_chance(rates, scores, items)
    assert (rows_below["model"].tolist(), rows_below.attrs["looked_at"]) == (["b"], 2)


def test_soft_labels_are_made_to_sum_to_one():
    labels = pd.DataFrame({"question": "q0", "option": list("ABC"), "probability": [1.2, 0.4, 0.4]})
    (made,) = with_soft_labels([choice()], labels)
    assert made.soft_labels == pytest.approx([0.6, 0.2, 0.2])


def test_a_cost_that_is_not_known_makes_the_vote_s_unknown():
    costs = [said("B", sample=k, votes=True, cost_usd=cost) for k, cost in enumerate([0.5, None])]
    assert np.isnan(self_consistency(score_responses([choice()], costs), [choice()])["cost_usd"][0])


def test_answers_without_a_category_are_a_group_of_their_own():
    items = [choice(), choice(1, category="x")]
    scores = score_responses(items, [said("hm"), said("B", "q1")])
    assert scores["category"].isna().tolist() == [True, False]
    assert where_read(scores, ["category"])["correct"].fillna(-1).tolist() == [-1, 1]


def test_a_run_is_named_by_model_and_mode_and_by_its_vote_where_votes_are_told_apart():
    table = pd.DataFrame({"model": ["a", "b"], "mode": ["zero_shot", "cot"]})
    assert with_run(table)["run"].tolist() == ["a, zero shot", "b, cot"]
    voted = with_run(table.assign(answered_by=["plain", "majority"], n_votes=[1, 5]))
    assert voted["run"].tolist() == ["a, zero shot", "b, cot, majority of 5"]


def test_the_two_scores_of_probabilities_stand_in_one_table():
    of = {v: pd.DataFrame({"model": ["m"], "estimate": [x]}) for v, x in (("brier", 0.2), ("cross_entropy", 0.9))}
    found = probability_scores(of)
    assert found.to_dict("list") == {"model": ["m"] * 2, "estimate": [0.9, 0.2], "score": ["cross_entropy", "brier"]}
    assert found.index.tolist() == [0, 1]


def test_models_stand_by_the_mode_that_most_answered_and_those_with_few_answers_last():
    rows = [  # model, mode, estimate, n, by, answered_by
        ("a", "cot", 0.9, 10, "all", "plain"),
        ("b", "zero_shot", 0.5, 10, "all", "plain"),
        ("c", "zero_shot", 0.8, 4, "all", "plain"),
        ("d", "zero_shot", 0.7, 5, "all", "plain"),
        ("b", "cot", 0.1, 10, "all", "majority"),
        ("e", "cot", 1.0, 10, "category", "plain"),
    ]
    table = pd.DataFrame(rows, columns=["model", "mode", "estimate", "n", "by", "answered_by"])
    assert best_first(table) == ["d", "b", "a", "c", "e"], "half as many answers are not few"
    assert best_first(table[:2]) == ["b", "a"], "of two modes with as many models zero-shot"
    assert best_first(table[4:]) == ["b", "e"]
    assert best_first(table[:4].drop(columns="n")) == ["c", "d", "b", "a"]


# -- how letters were read


LOGPROBS = {"A": -3.0, "B": -0.1, "C": -3.0}


def test_an_accuracy_says_how_its_letters_were_read_and_how_often_token_and_text_differ():
    items = [choice(k) for k in range(4)]
    responses = [
        said("B", letter_logprobs=LOGPROBS),
        said("I would say C.", item="q1", letter_logprobs=LOGPROBS),
        said("The answer is B.", item="q2"),
        said("Both may be right.", item="q3"),
    ]
    table = score_responses(items, responses)
    assert table["read_from"].tolist() == ["log-probabilities", "log-probabilities", "text", ""]
    assert table["disagrees"].tolist() == [False, True, False, False]
    both = "log-probabilities (2), text (1); the text states another letter in 1"
    assert rate_table(table, by=[], seed=0)["read_from"].tolist() == [both]
    assert f1_table(table, seed=0)["read_from"].tolist() == [both]
    assert average_models(table, by=[], seed=0)["read_from"].tolist() == [both]
    assert rate_table(table[3:], by=[], seed=0)["read_from"].tolist() == ["nothing was read"]
    assert "read_from" not in rate_table(table, "brier", [], seed=0)


@pytest.mark.parametrize(
    "more, words",
    [
        ({"chosen_by": "encoder", "letter_logprobs": LOGPROBS}, "encoder"),
        ({"chosen_by": "classifier", "letter_logprobs": LOGPROBS}, "classifier"),
        ({"origin": "recorded", "letter_logprobs": LOGPROBS}, "recorded log-probabilities"),
        ({"origin": "simulated"}, "recorded text"),
    ],
)
def test_an_encoder_a_classifier_and_recorded_answers_are_named(more, words):
    assert score_responses([choice()], [said("B", **more)])["read_from"].tolist() == [words]


@pytest.mark.parametrize("text, agrees", [("B", True), ("C", False), ("Both may be right.", None), ("", None)])
def test_a_response_holds_whether_its_token_and_its_text_state_one_letter(text, agrees):
    request = Request("demo/q0/zero_shot/0", [{"role": "user", "content": "?"}], letters=["A", "B", "C"])
    answer = Answer(request.id, text=text, letter_logprobs=LOGPROBS, letter_mass=0.98, letter_position=3)
    found = response(choice(), request, answer, MODEL, "zero_shot")
    assert (found.agrees, found.letter_mass, found.letter_position) == (agrees, 0.98, 3)
