"What is not known is named and counted, and not taken for a value: ties, abstentions, gaps, answers that are gone."

import numpy as np
import pandas as pd
import pytest

from mhbench.records.schema import Item, Rating, Response
from mhbench.stats.consensus import majority
from mhbench.stats.panel_design import pilot_table
from mhbench.steps.by_raters import option_votes, people_duels
from mhbench.steps.generate import Setting, select_items
from mhbench.steps.score import score_responses
from mhbench.steps.training import _likeliest_letters
from mhbench.studies.counselingbench.competency import competency_differences
from mhbench.studies.medqade.panel import student_accuracy
from mhbench.studies.medqade.panel_tables import _kappa_with_people, match_strata
from mhbench.studies.mentat.preferences import same_as_source
from mhbench.studies.mhqa.profile import counts_by_part, topic_counts, trained_measures
from mhbench.studies.psychiatrybench.classification import classification_table
from mhbench.studies.psychiatrybench.standings import Column, draw_standings, rank_table, results_table


def test_equal_models_are_neither_best_nor_second_nor_lowest():
    points = np.tile(np.linspace(70, 90, 20)[:, None], (1, 3))
    s = draw_standings({"mcq": Column(np.arange(20), points)}, ["a", "b", "c"], n_boot=50, seed=1)
    assert results_table(s).query("task == 'mcq'")["mark"].tolist() == ["", "", ""]
    points[:, 2] -= 10
    s = draw_standings({"mcq": Column(np.arange(20), points)}, ["a", "b", "c"], n_boot=50, seed=1)
    marks = results_table(s).query("task == 'mcq'")["mark"].tolist()
    assert marks == ["best, tied", "best, tied", "lowest"]
    assert rank_table(s)["first"].tolist() == [0.5, 0.5, 0.0]


def test_refusals_that_no_column_counts_are_unknown():
    s = draw_standings({"diagnosis": Column(np.arange(9), np.full((9, 2), 50.0))}, ["a", "b"], n_boot=20, seed=1)
    assert results_table(s)[["n_refused", "n_unread"]].isna().all(axis=None)


def test_a_tie_of_labels_is_the_sources_option_in_part():
    labels = pd.DataFrame({"question": ["q"] * 5, "option": list("ABCDE"), "probability": [0.2] * 5})
    found = same_as_source(pd.concat([labels, labels.assign(question="r")]), {"q": 0, "r": 4})
    assert found["estimate"].tolist() == [pytest.approx(0.2)]


def test_one_label_beside_two_abstentions_is_no_majority():
    labels = np.array([["Correct", "Correct", None], ["Abstain", "Correct", "Correct"], ["Abstain", "Abstain", None]])
    assert majority(labels).tolist() == ["Correct"] * 3
    assert majority(labels, alone=False).tolist() == [None, "Correct", "Correct"]
    row = student_accuracy(labels[:, None], ["s"]).iloc[0]
    assert (row["n"], row["left_out"]) == (2, 1)


def test_an_item_that_no_student_answered_is_in_no_stratum_of_matches():
    of = {"study": "medqade", "task": "cloze", "question": "?", "key": ["lithium"], "source": "here"}
    items = [Item(item_id=f"i{k}", **of) for k in range(3)]
    said = [
        Response(item_id=f"i{k}", study="medqade", model="m", mode="zero_shot", text=t)
        for k, t in enumerate(["lithium", "?"])
    ]
    assert list(match_strata(items, said).values()) == [
        "some student equals the key",
        "no student equals the key",
        "not asked",
    ]


def test_a_rater_without_labels_leaves_the_judges_kappa():
    rng = np.random.default_rng(1)
    own = rng.choice(["Correct", "Incorrect"], 40).astype(object)
    people = np.stack([own, np.roll(own, 1)])
    silent = np.vstack([people, np.full((1, 40), None, dtype=object)])
    assert _kappa_with_people(silent, annotator=own) == pytest.approx(_kappa_with_people(people, annotator=own))


def test_a_pilots_kind_and_label_do_not_depend_on_the_order_of_rows():
    of = {"study": "s", "source": "here"}
    labels = [
        Rating(item_id=f"i{k}", rater=f"r{k % 2}", target="m", label="Correct" if k < 6 else "Incorrect", **of)
        for k in range(12)
    ]
    assert pilot_table(labels)[1] == pilot_table(labels[::-1])[1] == "Correct"
    number = Rating(item_id="i0", rater="r0", target="difficulty", value=3.0, **of)
    assert pilot_table([number, *labels])[1] == "Correct" and len(pilot_table([number, *labels])[0]) == 12
    with pytest.raises(ValueError, match="ratings of a target must be numbers or labels; got both for 'm'"):
        pilot_table([number.model_copy(update={"target": "m"}), *labels])


def test_a_training_that_diverged_is_no_model():
    items = [
        Item(
            item_id=f"i{k}",
            study="mhqa",
            task="multiple_choice",
            question="?",
            options=["x", "y"],
            key=["A"],
            source="here",
            category="t",
            topic="u",
        )
        for k in range(12)
    ]
    good = {i.item_id: np.array([1.0, 0.0]) for i in items}
    broken = {i.item_id: np.array([np.nan, np.nan]) for i in items}

    class Run:
        model, variant = "m", "tuned"

        def __init__(self, scores):
            self.scores = scores

    assert _likeliest_letters(broken) == {} and _likeliest_letters(good)["i0"] == "A"
    from mhbench.steps.training import TUNED

    Run.variant = TUNED
    one = trained_measures([Run(good), Run(broken)], items, n_boot=20, seed=1)
    assert set(one["mode"]) == {"SFT (1 of 2 seeds, 1 diverged)"} and set(one["estimate"]) == {1.0}
    none = trained_measures([Run(broken)], items, n_boot=20, seed=1)
    assert none["estimate"].isna().all() and set(none["interval"]) == {"diverged"} and len(none) == 6


def test_questions_without_topic_or_of_another_type_have_their_row():
    of = {
        "study": "mhqa",
        "task": "multiple_choice",
        "question": "?",
        "options": ["x", "y"],
        "key": ["A"],
        "source": "here",
    }
    kinds = [("Anxiety", "Factoid"), (None, "Factoid"), ("Anxiety", "riddle"), ("Anxiety", None)]
    items = [Item(item_id=f"i{k}", topic=t, category=c, split="test", **of) for k, (t, c) in enumerate(kinds)]
    table = counts_by_part(topic_counts(items)).set_index(["topic", "type"])["test"]
    assert table["(none)", "Factoid"] == 1 and table["(none)", "Total"] == 1
    assert table["Anxiety", "riddle"] == table["Anxiety", "(none)"] == 1
    assert table["All", "Total"] == 4 and table["Anxiety", "Total"] == 3


def test_competencies_are_compared_on_the_same_models():
    "Two models that are alike in both competencies; the better one answered the first alone."
    rng = np.random.default_rng(2)
    rows = []
    for k in range(120):
        for model, right in (("good", 0.9), ("plain", 0.5)):
            if model == "plain" or k % 2 == 0:
                of = {
                    "item_id": f"q{k}",
                    "model": model,
                    "category": "xy"[k % 2],
                    "correct": float(rng.random() < right),
                }
                rows.append(
                    of
                    | {
                        "cluster": f"c{k}",
                        "mode": "zero_shot",
                        "answered_by": "plain",
                        "answer": ["A"],
                        "how": "letter",
                    }
                )
    found = competency_differences(pd.DataFrame(rows)).iloc[0]
    assert found["n_models"] == 1 and found["ci_low"] < 0 < found["ci_high"]
    only_first = pd.DataFrame(
        [r for r in rows if r["model"] == "good"] + [r | {"category": "y", "model": "late"} for r in rows[:9]]
    )
    assert not len(competency_differences(only_first)), "no two competencies can be compared"
    third = [r | {"item_id": r["item_id"] + "z", "category": "z"} for r in rows if r["model"] == "good"]
    some = competency_differences(pd.concat([only_first, pd.DataFrame(third)])).set_index(["first", "second"])
    assert some["estimate"].isna().tolist() == [True, False, True] and some.loc[("x", "y"), "n_models"] == 0


def test_an_answer_to_a_question_without_a_key_has_a_confidence_and_no_score():
    asked = {"item_id": "q", "study": "s"}
    item = Item(**asked, task="multiple_choice", question="?", options=["a", "b"], key=[], source="here")
    said = Response(**asked, model="m", mode="zero_shot", text="A", letter_logprobs={"A": -0.1, "B": -3.0})
    [row] = score_responses([item], [said]).to_dict("records")
    assert row["confidence"] > 0.9 and all(pd.isna(row[c]) for c in ("correct", "cross_entropy", "brier"))


def test_what_is_no_side_of_a_duel_and_an_annotation_in_part_are_said(capsys):
    same = {"study": "s", "source": "here"}
    duel = {"item_id": "q", "target": "harm", "variant": {"first": "a", "second": "b"}}
    labels = ("a", "tie", "equal", "N")
    said = [Rating(**same, **duel, rater=f"r{k}", label=label) for k, label in enumerate(labels)]
    assert [*people_duels(said)["outcome"]] == ["first", "tie"]
    item = Item(**same, item_id="q", task="multiple_choice", question="?", options=list("abc"), key=["A"])
    whole = [Rating(**same, item_id="q", rater="r1", target=x, value=1.0) for x in "ABC"]
    part = [Rating(**same, item_id="q", rater="r2", target=x, value=1.0) for x in "AB"]
    assert {*option_votes([item], [*whole, *part])["rater"]} == {"r1"}
    shown = capsys.readouterr().err
    assert "2 duels have a label that is neither a side nor a tie" in shown
    assert "1 annotations do not rate every option of their question" in shown


def test_a_category_in_another_spelling_is_no_empty_selection():
    item = Item(item_id="q", study="s", task="open", question="?", key=["a"], category="diagnosis", source="here")
    assert select_items([item], Setting(categories=["diagnosis", "absent"]), 1) == [item]
    with pytest.raises(ValueError, match="got 'Diagnosis', where items have 'diagnosis'"):
        select_items([item], Setting(categories=["Diagnosis"]), 1)


def test_lists_of_labels_without_a_category_are_a_task_of_their_own():
    of = {"study": "own", "task": "multi_label", "question": "?", "options": ["x", "y"], "key": ["x"], "source": "here"}
    items = [Item(item_id=f"i{k}", category="c" if k < 2 else None, **of) for k in range(8)]
    said = [Response(item_id=f"i{k}", study="own", model="m", mode="zero_shot", text="x") for k in range(7)]
    table = classification_table(score_responses(items, said), items, n_boot=20, seed=1)
    counts = table[table["measure"] == "subset accuracy"].set_index("task")[["n", "n_not_asked"]]
    assert counts.to_dict("index") == {"c": {"n": 2, "n_not_asked": 0}, "(none)": {"n": 5, "n_not_asked": 1}}
