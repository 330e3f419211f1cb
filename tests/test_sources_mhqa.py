"""MHQA's files as released, and rows made to break each rule."""

import csv
import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
from conftest import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st

from mhbench.corpus.load import load_corpus
from mhbench.corpus.splits import shared_items
from mhbench.records.schema import Item, Response
from mhbench.records.table import csv_rows
from mhbench.run.params import load_params
from mhbench.steps.score import score_responses
from mhbench.studies.mhqa.load import (
    TOPICS,
    TYPES,
    load_mhqa,
    load_mhqa_results,
    mend_encoding,
    mend_option,
)
from mhbench.studies.mhqa.profile import (
    accuracy_and_f1,
    banks_counted,
    counts_by_part,
    judged_shares,
    label_test,
    sorted_banks,
    topic_counts,
)
from mhbench.studies.mhqa.released import agreement_on_keys, annotated_keys, counted_questions, recorded_difficulty
from mhbench.tools.edit import import_corpus

ROW = dict(
    id="101",
    topic="Anxiety",
    type="Factoid",
    question="Which is a benzodiazepine?",
    option1="Sertraline",
    option2="Lorazepam",
    option3="Lithium",
    option4="Buspirone",
    correct_option="Lorazepam",
    correct_option_number="2",
)


def write(path, rows, encoding="utf-8"):
    with open(path, "w", newline="", encoding=encoding) as f:
        w = csv.DictWriter(f, list(rows[0]))
        w.writeheader()
        w.writerows(rows)
    return path


def by_topic_and_type(items):
    counts = counted_questions({"one file": items}).pivot(index="topic", columns="type", values="n")
    return counts.loc[list(TOPICS), [*TYPES, "Total"]]


def test_gold(datasets):
    path = datasets / "mhqa" / "mhqa.csv"
    with pytest.raises(ValueError, match=r"mhqa\.csv:98"):
        load_mhqa(path)
    items = load_mhqa(path, key="number").records
    assert len(items) == len({i.item_id for i in items}) == 2475
    assert {i.split for i in items} == {"gold"} and len({i.group_id for i in items}) == 2453
    # the paper's table 1, topics in alphabetical order; its total for depression (616) is not the sum of its own row
    assert by_topic_and_type(items).values.tolist() == [
        [85, 171, 136, 212, 604],
        [90, 207, 152, 168, 617],
        [123, 259, 123, 132, 637],
        [26, 242, 147, 202, 617],
    ]
    (again,) = [i for i in items if i.base_id]
    (first,) = [i for i in items if i.item_id == again.base_id]
    assert (first.source, again.item_id) == ("mhqa.csv:2", first.item_id + "-2") and first.key == again.key


def test_gold_without_the_row_that_contradicts_itself(datasets, tmp_path):
    path, aside = datasets / "mhqa" / "mhqa.csv", tmp_path / "aside.jsonl"
    items, bad = load_mhqa(path, strict=False, set_aside=aside)
    assert (len(items), len(bad)) == (2474, 1)
    assert json.loads(aside.read_text())["place"] == "mhqa.csv:98"
    by_number, by_text = ({i.item_id: i.key for i in load_mhqa(path, key=k).records} for k in ("number", "text"))
    assert sum(by_number[i] != by_text[i] for i in by_number) == 1
    assert all(by_number[i.item_id] == i.key for i in items)


def test_mending_changes_no_key_and_no_id(datasets):
    path = datasets / "mhqa" / "mhqa.csv"
    mended, released = (load_mhqa(path, key="number", repair=r).records for r in (True, False))
    assert [(i.item_id, i.key) for i in mended] == [(i.item_id, i.key) for i in released]
    changed = sum((a.question, a.options) != (b.question, b.options) for a, b in zip(mended, released))
    assert 17 <= changed <= 60
    text = " ".join(i.question + " ".join(i.options) for i in mended)
    assert not any(x in text for x in ("â€", "Ã", "Î±", "Â®"))


@pytest.mark.parametrize(
    "name, split, n, conflicts", [("mhqa_b_test.csv", "test", 4982, 0), ("mhqa_b_val.csv", "val", 4981, 2)]
)
def test_pseudo_labelled_splits(datasets, tmp_path, name, split, n, conflicts):
    path = datasets / "mhqa" / name
    items, bad = load_mhqa(path, strict=False, set_aside=tmp_path / "aside.jsonl")
    assert (len(items), len(bad)) == (n - conflicts, conflicts)
    assert {i.split for i in items} == {split}
    assert not any(o.startswith("<") or o.endswith((",", ">")) for i in items for o in i.options)
    table = by_topic_and_type(load_mhqa(path, key="number").records)
    assert table["Total"].sum() == n and list(table.index) == list(TOPICS)


def test_gold_stands_in_the_training_corpus_too(datasets):
    gold, *others = (
        load_mhqa(datasets / "mhqa" / f, key="number").records
        for f in ("mhqa.csv", "mhqa_b_test.csv", "mhqa_b_val.csv")
    )
    for other, abstracts in zip(others, (117, 133)):
        shared = shared_items(gold, other)
        assert (
            (shared["kind"] == "question").sum() >= len({i.question for i in gold} & {i.question for i in other}) == 76
        )
        groups = {i.item_id: i.group_id for i in gold}
        assert (
            len({i.group_id for i in gold} & {i.group_id for i in other})
            == abstracts
            <= len({groups[i] for i in shared["item_id"]})
        )


@pytest.mark.parametrize(
    "change, column",
    [
        ({"id": "PMC12"}, "id"),
        ({"topic": "Sleep"}, "topic"),
        ({"type": "factoid"}, "type"),
        ({"question": "  "}, "question"),
        ({"option3": ""}, "option3"),
        ({"option1": "LORAZEPAM"}, "twice"),
        ({"correct_option_number": "0"}, "correct_option_number"),
        ({"correct_option_number": "2.5"}, "correct_option_number"),
        ({"correct_option": "Lithium"}, "correct_option"),
        ({"valid_question": "False"}, "valid_question"),
        ({"note": "x"}, "note"),
    ],
)
def test_a_broken_rule_names_its_column_and_line(tmp_path, change, column):
    good = {**ROW, **{k: "True" if k == "valid_question" else "" for k in change if k not in ROW}}
    if "note" in change:
        good.pop("note")
    path = write(tmp_path / "mhqa.csv", [{**good, **({"note": ""} if "note" in change else {})}, {**good, **change}])
    with pytest.raises(ValueError) as e:
        load_mhqa(path)
    assert column in str(e.value) and "mhqa.csv:" in str(e.value)


def test_two_layouts_give_the_same_items(tmp_path):
    gold = write(tmp_path / "mhqa.csv", [ROW])
    other = {k: v for k, v in ROW.items() if not k.startswith("correct")}
    other = write(
        tmp_path / "mhqa_b_train.csv",
        [{**other, "valid_question": "True", "correct_answer": "Lorazepam", "correct_option_num": "2.0"}],
    )
    (a,), (b,) = load_mhqa(gold).records, load_mhqa(other).records
    assert a.model_dump(exclude={"split", "source"}) == b.model_dump(exclude={"split", "source"})
    assert (a.split, b.split) == ("gold", "train")


def test_ids_do_not_depend_on_the_order_of_rows(tmp_path):
    rows = [ROW, {**ROW, "id": "102"}, {**ROW, "question": "Which is not?"}]
    a = {i.item_id for i in load_mhqa(write(tmp_path / "a.csv", rows)).records}
    b = {i.item_id for i in load_mhqa(write(tmp_path / "b.csv", rows[::-1])).records}
    assert a == b and len(a) == 3


def test_files_of_mhqa_b_beside_the_gold_are_counted_and_put_to_nobody(datasets):
    released = datasets / "mhqa"
    for path in (released, released / "mhqa.csv"):
        beside = load_corpus("mhqa", path, key="number").settings["profile"]["beside"]
        assert {n: Path(of["path"]).name for n, of in beside.items()} == {
            "MHQA-B val": "mhqa_b_val.csv",
            "MHQA-B test": "mhqa_b_test.csv",
        }
    counts = counts_by_part(banks_counted(beside)).set_index("topic").query("type == 'Total'")
    assert counts.loc["All", list(beside)].tolist() == [4981, 4982], "every row of the files"
    banks = sorted_banks([], "mhqa", beside, None, seed=1)
    assert [list(of) for of in banks.values()] == [["mhqa"], ["mhqa"]]
    assert load_corpus("mhqa", released / "mhqa_b_val.csv", key="number").settings == {}


def test_an_import_names_the_files_of_mhqa_b_where_they_are(tmp_path):
    for name in ("params.yaml", "run.yaml"):
        shutil.copy(ROOT / name, tmp_path)
    params, gold = tmp_path / "params.yaml", write(tmp_path / "mhqa.csv", [ROW])
    import_corpus("mhqa", gold, settings=load_corpus("mhqa", gold).settings, params=params)
    assert "beside" not in load_params(params)["studies"]["mhqa"]["profile"]
    other = write(tmp_path / "mhqa_b_test.csv", [ROW, ROW | {"id": "102", "topic": "Depression"}])
    import_corpus("mhqa", gold, settings=load_corpus("mhqa", gold).settings, params=params)
    entry = load_params(params)["studies"]["mhqa"]
    beside = entry["profile"]["beside"]
    assert {n: of["path"] for n, of in beside.items()} == {"MHQA-B test": str(other)}
    assert banks_counted(beside)["n"].sum() == 2 and "finetune" not in entry


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet=st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=40))
def test_encoding_is_mended_and_nothing_else_is_changed(text):
    try:
        twice = text.encode("utf-8").decode("cp1252")
    except UnicodeDecodeError:
        return
    assert mend_encoding(twice) == text


@pytest.mark.parametrize("text", ["<5 mg", "< 5", "p < 0.05", "IL-6 → TNF", "a, b", "5 > 3", "β₂", "“quoted”"])
def test_signs_stay(text):
    assert mend_option(text) == text


@pytest.mark.parametrize("body, words", [(b"", "must include"), (b"id,topic\n1,2,3\n", "must include")])
def test_files_that_are_no_release(tmp_path, body, words):
    (tmp_path / "x.csv").write_bytes(body)
    with pytest.raises(ValueError) as e:
        load_mhqa(tmp_path / "x.csv")
    assert words in str(e.value)
    with pytest.raises(FileNotFoundError):
        list(csv_rows(tmp_path / "absent.csv"))


def test_a_quote_that_is_not_closed(tmp_path):
    path = write(tmp_path / "mhqa.csv", [ROW])
    path.write_text(path.read_text() + '102,"Anxiety,Factoid\n')
    with pytest.raises(ValueError, match="CSV file"):
        load_mhqa(path)


def test_types_and_topics_are_the_papers():
    assert len(TYPES) == len(TOPICS) == 4


def test_answers_after_worked_examples_are_those_of_the_mode_that_compares_options(tmp_path):
    "The form of the authors' file of few-shot answers: MHQA-gold's columns, and the number of an option as 2.0."
    twin = ROW | {"id": "102", "option4": "Zolpidem"}
    items = load_mhqa(write(tmp_path / "mhqa.csv", [ROW, ROW, twin])).records
    rows = [
        ROW | {"predictions": "2.0"},
        twin | {"predictions": ""},
        ROW | {"predictions": "1.0"},
        ROW | {"question": "Rejected later?", "predictions": "4.0"},
    ]
    said, strange = load_mhqa_results(write(tmp_path / "llama_3_8b_fewshot.csv", rows), items)
    assert [(r.item_id, r.model, r.mode, r.text, r.status) for r in said] == [
        (items[0].item_id, "llama_3_8b", "few_shot_cot", "B", "ok"),
        (items[2].item_id, "llama_3_8b", "few_shot_cot", None, "error"),
    ]
    assert strange == ["llama_3_8b_fewshot.csv:4", "llama_3_8b_fewshot.csv:5"]


def test_an_option_that_the_results_leave_empty_is_not_compared(tmp_path):
    other = ROW | {"id": "102", "option1": "Zolpidem"}
    items = load_mhqa(write(tmp_path / "mhqa.csv", [ROW, other])).records
    row = {c: v for c, v in other.items() if c != "id"} | {"option3": "", "predictions": "1"}
    (said,), strange = load_mhqa_results(write(tmp_path / "bert.csv", [row]), items)
    assert (said.item_id, said.mode, strange) == (items[1].item_id, "zero_shot", [])


def test_every_recorded_row_of_a_kept_question_is_read(datasets):
    released = datasets / "mhqa"
    items = load_mhqa(released / "mhqa.csv", key="number").records
    for file in ("bert_base_uncased_small", "mental_bert_small", "pubmed_bert_small"):
        said, strange = load_mhqa_results(released / "final_results" / f"{file}.csv", items)
        assert (len(said), len(strange)) == (2474, 544), "all but the second of the two equal rows"


def test_the_annotators_agree_as_the_paper_says(datasets):
    "97.0%, 97.9% and kappa 0.44 (section 3.4): of agreeing with the key, on the questions that stayed."
    released = datasets / "mhqa"
    questions = [i.question for i in load_mhqa(released / "mhqa.csv", key="number").records]
    said = annotated_keys(released / "final_results" / "mental_bert_small.csv", questions)
    assert (len(said), said["gold"].sum()) == (3018, 2474)
    found = agreement_on_keys(said).set_index(["questions", "of", "measure"])["estimate"]
    agreeing = found["MHQA-gold", "agreeing"].round(4).to_dict()
    assert agreeing == {
        "first reader agrees with the key": round(2399 / 2474, 4),
        "second reader agrees with the key": round(2421 / 2474, 4),
        "agreement": round((29 + 2375) / 2474, 4),
        "kappa": 0.4390,
    }
    assert found["MHQA-gold", "letter", "kappa"] > 0.99


def test_recorded_difficulty_is_table_4_s(datasets):
    files = sorted((datasets / "mhqa" / "difficulty").glob("*_data_*.csv"))
    recorded = {f.stem: recorded_difficulty(f) for f in files}
    shares = judged_shares(recorded, ["Easy", "Medium", "Hard"])
    assert shares["k"].tolist() == [257, 438, 105, 111, 528, 161] and set(shares["n"]) == {800}
    assert label_test(recorded, seed=1)["chi2"].round(2).tolist() == [78.10]


def test_a_total_of_table_1_counts_the_repeated_question_once(datasets):
    items = load_mhqa(datasets / "mhqa" / "mhqa.csv", key="number").records
    counts = counted_questions({"MHQA-gold": items}).set_index(["topic", "type"])
    assert counts.loc[("Depression", "Total"), ["n", "n_distinct"]].tolist() == [617, 616]
    assert counts.loc[("All", "Total"), ["n", "n_distinct"]].tolist() == [2475, 2474]


def test_accuracy_by_topic_counts_first_answers_with_a_reply_to_questions_with_one_right_letter():
    same = {"study": "mhqa", "task": "multiple_choice", "question": "?", "options": ["x", "y", "z"], "source": "here"}
    keys = {"q1": ["A"], "q2": ["A"], "q3": ["A"], "q4": ["A", "B"]}
    items = [Item(item_id=k, key=key, topic="Anxiety", **same) for k, key in keys.items()]
    about = {"study": "mhqa", "model": "m", "mode": "zero_shot"}
    said = [Response(item_id=k, text=text, **about) for k, text in (("q1", "A"), ("q2", "B"), ("q4", "A, B"))]
    said += [
        Response(item_id="q3", status="error", error="no reply", **about),
        Response(item_id="q2", text="A", sample=1, **about),
    ]
    scores = score_responses(items, said)
    scores = pd.concat([scores, scores[:1].assign(answered_by="majority")], ignore_index=True)
    found = accuracy_and_f1(scores, "topic", n_boot=10, seed=1).set_index(["group", "measure"])
    assert found.loc[("Anxiety", "accuracy"), ["n", "estimate"]].tolist() == [2, 0.5]
    assert found.loc[("Overall", "accuracy"), ["n", "estimate"]].tolist() == [2, 0.5]


def test_questions_without_a_topic_are_in_no_group_and_those_without_a_part_are_counted():
    same = {"study": "own", "task": "multiple_choice", "question": "?", "options": ["x", "y"], "key": ["A"]}
    items = [Item(item_id=f"q{k}", topic="Anxiety" if k < 4 else None, source="here", **same) for k in range(8)]
    said = [Response(item_id=i.item_id, study="own", model="m", mode="zero_shot", text="A") for i in items]
    found = accuracy_and_f1(score_responses(items, said), "topic", n_boot=10, seed=1)
    assert found.drop_duplicates("group").set_index("group")["n"].to_dict() == {"Anxiety": 4, "Overall": 8}
    counts = counts_by_part(topic_counts(items)).set_index(["topic", "type"])["(none)"]
    assert counts["Anxiety", "Total"] == counts["(none)", "Total"] == 4 and counts["All", "Total"] == 8
