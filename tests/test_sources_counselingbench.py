"""CounselingBench's files as released, and rows made to break each rule."""

import csv
import shutil

import pytest

from mhbench.corpus.demo import demo_path
from mhbench.corpus.load import load_corpus
from mhbench.studies.counselingbench.competency import count_cases
from mhbench.studies.counselingbench.fields import (
    COMPETENCIES,
    break_ties,
    competency,
    ethnicity_group,
    icd_blocks,
    parse_demographics,
)
from mhbench.studies.counselingbench.load import (
    load_counselingbench,
    load_counselingbench_errors,
    load_counselingbench_labels,
    load_counselingbench_responses,
    model_and_mode,
)

ANSWERS = "Mistral-7B-Instruct-v0.3_zero-shot_None_0.csv"
LABELS = "Asclepius-7B_few-shot-cot_None_3.csv"
ROW = {
    "Source": "example.org",
    "Exam Name": "E",
    "Question #": "1",
    "Patient Demographic": "Age: 30 Gender: Male",
    "Mental Status Exam": "",
    "Presenting Problem": "Worry (F41.1).",
    "Question": "What first?",
    "Choice A": "a",
    "Choice B": "b",
    "Choice C": "c",
    "Choice D": "d",
    "Correct Answer": "c",
}


def write(path, rows):
    with open(path, "w", newline="", encoding="utf-8") as f:
        w = csv.DictWriter(f, list(rows[0]))
        w.writeheader()
        w.writerows(rows)
    return path


@pytest.fixture(scope="module")
def answered(datasets, tmp_path_factory):
    return load_counselingbench(
        datasets / "counselingbench" / ANSWERS, strict=False, set_aside=tmp_path_factory.mktemp("cb") / "aside.jsonl"
    )


def test_questions_without_text_are_set_aside(datasets, answered):
    items, bad = answered
    assert (len(items), len(bad)) == (508, 2)
    assert {b["column"] for b in bad} == {"question"}
    with pytest.raises(ValueError, match="CounselingRow.question"):
        load_counselingbench(datasets / "counselingbench" / ANSWERS)


def test_cases_stay_together(answered):
    "51 cases, as in table A1, of about ten questions each."
    table = count_cases(answered.records, "publisher")
    assert table.loc["tests", ["n_questions", "n_cases"]].tolist() == [508, 51]
    sizes = count_cases(answered.records, "case")
    assert len(sizes) == 51 and sizes["n_cases"].eq(1).all() and sizes["n_questions"].between(8, 11).all()


def test_demographics_have_their_fields(answered):
    for i in answered.records:
        assert {"age", "gender", "ethnicity", "relationship", "setting", "modality"} <= set(i.variant), i.item_id
        assert i.variant["age"].isdigit() and ":" not in " ".join(i.variant.values())
        shown = i.context["Patient demographics"]
        assert "Refer to" not in shown and not shown[0].isdigit()
    groups = count_cases(answered.records, "ethnicity_group")
    assert groups["n_cases"].to_dict() == {
        "White": 29,
        "Black": 11,
        "Asian": 4,
        "Hispanic": 4,
        "Multiracial": 2,
        "Pacific Islander": 1,
    }
    assert groups["share"].sum() == pytest.approx(1)


def test_conditions(answered):
    once = count_cases(answered.records, "condition")
    assert once["n_questions"].sum() == 508
    assert once.loc["F90", "n_cases"] == 3


def test_the_key_is_the_letter_of_the_release(datasets, answered):
    with open(datasets / "counselingbench" / ANSWERS, newline="", encoding="utf-8") as f:
        letters = {r["Question #"]: r["correct_answer_letter"] for r in csv.DictReader(f)}
    assert all(i.key == [letters[i.item_id.split("-")[-2]]] for i in answered.records)


def test_recorded_answers_join_the_items(datasets, answered):
    responses, parsed = load_counselingbench_responses(datasets / "counselingbench" / ANSWERS)
    assert (responses[0].model, responses[0].mode) == ("Mistral-7B-Instruct-v0.3", "zero_shot")
    ids = {i.item_id for i in answered.records}
    assert len(responses) == len(parsed) == 510 and len(ids & set(parsed)) == 508
    key = {i.item_id: i.key[0] for i in answered.records}
    assert (
        sum(parsed[i] == key[i] for i in ids) == 281
    )  # and 282 of all 510: the two questions without text were answered too, one of them right


def test_labels_of_both_annotators(datasets):
    path = datasets / "counselingbench" / LABELS
    items = load_counselingbench(path).records
    ratings = load_counselingbench_labels(path)
    assert len(items) == 5 and len({i.group_id for i in items}) == 1 and len(ratings) == 15
    assert len({i.context["Presenting problem"] for i in items}) == 2  # a later session is added within the case
    assert {i.category for i in items} <= set(COMPETENCIES)
    by = {r: [x.label for x in ratings if x.rater == r] for r in ("h", "s", "resolved")}
    assert [break_ties(*said)[0] for said in zip(*by.values())] == by["resolved"] == [i.category for i in items]
    assert (
        items[0].variant["gender"] == "Male"
        and items[0].variant["sexual_orientation"] == "Heterosexual"
        and items[0].topic == "F34 persistent mood disorders"
    )
    assert not items[0].rationale.startswith("Explanation")


@pytest.mark.parametrize(
    "change, words",
    [
        ({"Choice B": "a"}, "must differ"),
        ({"Correct Answer": "e"}, "correct_answer must be the text of one"),
        ({"Question": " "}, "CounselingRow.question"),
        ({"Presenting Problem": ""}, "CounselingRow.problem"),
        ({"correct_answer_letter": "A"}, "must name the choice that correct_answer gives, C"),
        ({"correct_answer_letter": "E"}, "correct_answer_letter"),
        ({"label": "kindness"}, "label must be one of"),
        (
            {"label": "treatment planning", "label_h": "CS&I", "label_s": "CS&I"},
            "label must be the annotators' where they agree",
        ),
    ],
)
def test_a_broken_rule_is_refused(tmp_path, change, words):
    path = write(tmp_path / "q.csv", [{**ROW, **change}])
    with pytest.raises(ValueError) as e:
        load_counselingbench(path)
    assert words in str(e.value) and "q.csv:2" in str(e.value)


def test_ids_follow_the_order_of_the_options(tmp_path):
    (a,) = load_counselingbench(write(tmp_path / "a.csv", [ROW])).records
    (b,) = load_counselingbench(write(tmp_path / "b.csv", [{**ROW, "Choice A": "c", "Choice C": "a"}])).records
    assert a.item_id != b.item_id and a.group_id == b.group_id and (a.key, b.key) == (["C"], ["A"])


@pytest.mark.parametrize(
    "text, want",
    [
        (
            "Age: 4 Sex: Female        Gender: Female Sexuality: Heterosexual",
            {"age": "4", "sex": "Female", "gender": "Female", "sexual_orientation": "Heterosexual"},
        ),
        ("Case 12   Initial Intake: Age: 15 Ethnicity: Hispanic", {"case": "12", "age": "15", "ethnicity": "Hispanic"}),
        ("Gender and Sexual Orientation: Nonbinary", {"gender": "Nonbinary"}),
        (
            "Marital Status: Married Location of Therapy : Private Practice",
            {"relationship": "Married", "setting": "Private Practice"},
        ),
        ("", {}),
    ],
)
def test_demographics(text, want):
    assert parse_demographics(text) == want


@pytest.mark.parametrize(
    "text, group",
    [
        ("Caucasian", "White"),
        ("Asian American", "Asian"),
        ("Native American/Caucasian", "Multiracial"),
        ("Indian American", "Asian"),
        ("Unknown", None),
        ("", None),
    ],
)
def test_ethnic_groups(text, group):
    assert ethnicity_group(text) == group


@pytest.mark.parametrize(
    "name, run",
    [
        ("GPT_zero-shot_None_0.csv", ("GPT", "zero_shot")),
        ("My_Model_few-shot_0.2_3.csv", ("My_Model", "few_shot")),
        ("m_zero-shot-cot.csv", ("m", "cot")),
    ],
)
def test_runs(name, run):
    assert model_and_mode(name) == run


def test_small_parts():
    assert icd_blocks("F41.9, F43 and (F41.1)") == ["F41", "F43"]
    assert all(competency(v) == k == competency(k.upper()) for k, v in COMPETENCIES.items())
    votes = ("a", "a", None), ("a", "b", "b"), ("a", "b", "c"), ("a", "b", None)
    how = ("a", "agreed"), ("b", "tie_broken"), (None, "three_ways"), (None, "undecided")
    assert tuple(break_ties(*said) for said in votes) == how


# -- labels of errors, and a file with all that it holds as a corpus

SAID = {"item_id": "q1", "model": "m-7B", "rater": "r1", "label": "knowledge"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"label": "careless"},
            (
                r"ErrorRow.label does not fit: Input should be 'knowledge', 'context', 'logical' or 'Abstain'; got"
                r" 'careless' \(e.csv:3\)"
            ),
        ),
        ({"label": ""}, r"ErrorRow.label does not fit.*e.csv:3"),
        ({"rater": " "}, r"ErrorRow.rater does not fit.*e.csv:3"),
        ({"rater": "r1"}, r"annotation must be unique; got 'q1, m-7B, r1' again, first at e.csv:2"),
        (
            {"item_id": "q7"},
            (
                r"load_counselingbench_errors: item_id must name a question of the corpus; got 'q7' \(e.csv:3\); take"
                r" the ids"
            ),
        ),
    ],
)
def test_a_broken_label_of_an_error_is_refused_with_its_place(tmp_path, change, words):
    item = load_counselingbench(write(tmp_path / "q.csv", [ROW])).records[0].model_copy(update={"item_id": "q1"})
    path = write(tmp_path / "e.csv", [SAID, {**SAID, "rater": "r2", **change}])
    with pytest.raises(ValueError, match=words):
        load_counselingbench_errors(path, [item])


def test_labels_of_errors_are_ratings_of_the_model_that_erred(tmp_path):
    path = write(
        tmp_path / "e.csv",
        [
            {**SAID, "label": " Logical ", "comment": "", "canary": "x"},
            {**SAID, "rater": "r2", "label": "ABSTAIN", "comment": "too short to say", "canary": "x"},
        ],
    )
    got = load_counselingbench_errors(path)
    assert [(r.item_id, r.target, r.rater, r.label, r.comment, r.source) for r in got] == [
        ("q1", "m-7B", "r1", "logical", None, "e.csv:2"),
        ("q1", "m-7B", "r2", "Abstain", "too short to say", "e.csv:3"),
    ]
    with pytest.raises(ValueError, match=r"columns must include \['rater', 'label'\]"):
        load_counselingbench_errors(write(tmp_path / "f.csv", [{"item_id": "q1", "model": "m"}]))


def test_a_corpus_is_everything_that_the_file_holds(tmp_path):
    answered = {
        **ROW,
        "raw_pred": "C",
        "parsed_pred": "C",
        "label": "treatment planning",
        "label_h": "treatment planning",
        "label_s": "core counseling attributes",
    }
    rows = [
        answered,
        {**answered, "Question #": "2", "Question": "What next?"},
        {**answered, "Question #": "3", "Choice A": "b"},
    ]  # the third has two equal choices
    path = write(tmp_path / "some-7B_zero-shot_None_0.csv", rows)
    with pytest.raises(ValueError, match="must differ"):
        load_corpus("counselingbench", path)
    got = load_corpus("counselingbench", tmp_path, strict=False, set_aside=tmp_path / "aside.jsonl")
    ids = [i.item_id for i in got.items]
    assert (
        len(ids) == 2
        and [r.item_id for r in got.responses] == ids
        and {(r.model, r.mode, r.text) for r in got.responses} == {("some-7B", "zero_shot", "C")}
    )
    assert [(r.item_id, r.rater) for r in got.ratings] == [
        (i, r) for i in ids for r in ("h", "s", "resolved")
    ] and got.notes[0].startswith("1 rows do not fit")
    write(tmp_path / "my_errors.csv", [{**SAID, "item_id": ids[0]}])
    again = load_corpus(
        "counselingbench", tmp_path, strict=False, set_aside=tmp_path / "aside.jsonl"
    )  # found in the folder
    assert [(r.item_id, r.target, r.label) for r in again.ratings[6:]] == [(ids[0], "m-7B", "knowledge")]
    assert (
        load_corpus(
            "counselingbench", path, errors="my_errors.csv", strict=False, set_aside=tmp_path / "aside.jsonl"
        ).ratings
        == again.ratings
    )  # named, from the file's folder
    with pytest.raises(FileNotFoundError):
        load_corpus("counselingbench", path, errors="none.csv", strict=False, set_aside=tmp_path / "aside.jsonl")


def test_recorded_answers_of_nobody_are_left_out_with_a_note(tmp_path):
    path = write(tmp_path / "questions.csv", [{**ROW, "raw_pred": "C"}])
    got = load_corpus("counselingbench", path)
    assert got.responses == [] and got.ratings == [] and "does not say whose they are" in got.notes[0]
    (named,) = load_corpus("counselingbench", path, model="some-7B", mode="few_shot").responses
    assert (named.model, named.mode) == ("some-7B", "few_shot")


def test_released_files_as_corpora(datasets, tmp_path):
    folder, aside = datasets / "counselingbench", {"strict": False, "set_aside": tmp_path / "aside.jsonl"}
    answers, labels = (load_corpus("counselingbench", folder / f, **aside) for f in (ANSWERS, LABELS))
    assert (len(answers.items), len(answers.responses), len(answers.ratings)) == (508, 508, 0)
    assert len(labels.ratings) == 3 * len(labels.items) and {r.mode for r in labels.responses} == {"few_shot_cot"}


LABELLED = ("Intake, Assessment & Diagnosis", "Treatment Planning")


@pytest.mark.parametrize(
    "h,s,third,expected,how",
    [
        (0, 0, None, 0, "both annotators agree"),
        (0, 1, 1, 1, "a third annotator broke the tie"),
        (0, 1, None, None, "nobody broke the tie"),
    ],
)
def test_two_annotators_and_no_final_label_are_brought_together(tmp_path, h, s, third, expected, how):
    names = {"label_h": LABELLED[h], "label_s": LABELLED[s]}
    names["label_third"] = "" if third is None else LABELLED[third]
    corpus = load_corpus("counselingbench", write(tmp_path / "q.csv", [ROW | names]))
    assert corpus.items[0].category == (None if expected is None else competency(LABELLED[expected]))
    said = {r.rater: r.label for r in corpus.ratings}
    assert said.get("resolved") == corpus.items[0].category and said["h"] == competency(LABELLED[h])
    assert len(corpus.notes) == 1 and how in corpus.notes[0]


def test_a_final_label_of_the_file_goes_before_the_tie_break(tmp_path):
    row = ROW | {"label_h": LABELLED[0], "label_s": LABELLED[1], "label": LABELLED[1], "label_third": LABELLED[0]}
    corpus = load_corpus("counselingbench", write(tmp_path / "q.csv", [row]))
    assert corpus.items[0].category == competency(LABELLED[1]) and corpus.notes == []


def test_a_table_of_errors_in_another_layout_is_named_and_left_out(tmp_path):
    "As the authors' own, whose heading begins with a column without a name."
    shutil.copy(demo_path("counselingbench") / "counselingbench_demo.csv", tmp_path)
    (tmp_path / "errors_general_annotated.csv").write_text(" ,Question,Errors\n0,Which?,none\n", encoding="utf-8")
    corpus = load_corpus("counselingbench", tmp_path)
    assert len(corpus.items) == 24 and not [r for r in corpus.ratings if r.label == "none"]
    assert any(n.startswith("errors_general_annotated.csv is left out: no table of labels") for n in corpus.notes)
