"""The demonstration banks: what they promise, and the people they simulate."""

import csv
import io
import json
import re
from collections import Counter
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from examples import notebook_functions

from mhbench.ask.prompts import build
from mhbench.corpus.demo import DEMO_STUDIES, demo_canary, demo_files, demo_path
from mhbench.records.anki import load_anki
from mhbench.records.schema import Response
from mhbench.steps.score import score_responses
from mhbench.studies.counselingbench.load import (
    ERRORS,
    load_counselingbench,
    load_counselingbench_errors,
    load_counselingbench_labels,
)
from mhbench.studies.medqade.load import load_panel, load_students
from mhbench.studies.mentat.annotations import annotation_arrays, load_annotations
from mhbench.studies.mentat.questions import MENTAT_COLUMNS, load_mentat
from mhbench.studies.mhqa.load import load_mhqa
from mhbench.studies.psychiatrybench.load import PSYCHIATRY_TASKS, load_psychiatrybench

SEED = 20250107
MENTAT = notebook_functions("studies/mentat/04_demo_annotations.ipynb")
MHQA = notebook_functions("studies/mhqa/02_demo_literature.ipynb")
MEDQADE = notebook_functions("studies/medqade/04_demo_panel.ipynb")
COUNSELINGBENCH = notebook_functions("studies/counselingbench/07_demo_errors.ipynb")


@pytest.fixture(scope="module")
def mentat():
    return load_mentat(demo_path("mentat"))


@pytest.fixture(scope="module")
def annotated(mentat):
    return [i for i in mentat if i.category in ("triage", "documentation")]


@pytest.fixture(scope="module")
def banks(mentat):
    return {
        "mentat": mentat,
        "psychiatrybench": load_psychiatrybench(demo_path("psychiatrybench")),
        "medqade": load_anki(demo_path("medqade") / "medqade_demo.txt", language="en").items,
        "counselingbench": load_counselingbench(demo_path("counselingbench") / "counselingbench_demo.csv").records,
        "mhqa": load_mhqa(demo_path("mhqa") / "mhqa_demo.csv").records,
    }


# ------------------------------------------------------------------ every file


def test_every_row_and_line_carries_the_canary():
    for f in demo_files().values():
        text = f.read_text(encoding="utf-8")
        assert demo_canary() in text, f
        if f.suffix == ".csv" and f.parent.name != "annotated_data":
            assert all(r["canary"] == demo_canary() for r in csv.DictReader(io.StringIO(text))), f
        if f.suffix == ".jsonl":
            assert all(
                json.loads(line)["canary"] == demo_canary() and json.loads(line)["synthetic"] is True
                for line in text.splitlines()
            ), f
    notes = [
        line
        for line in (demo_path("medqade") / "medqade_demo.txt").read_text().splitlines()
        if not line.startswith("#")
    ]
    assert len(notes) == 46 and all(line.endswith(demo_canary()) for line in notes)


def test_every_item_is_marked_synthetic_and_not_protected(banks):
    assert {(i.canary, i.protected) for bank in banks.values() for i in bank} == {(demo_canary(), False)}
    assert set(banks) == set(DEMO_STUDIES)


def test_no_typographic_traces(banks):
    "Plain text: no double spaces, no curly quotes, no stray braces, no text that ends in the middle."
    for bank in banks.values():
        for i in bank:
            for text in (i.question, *i.options, *i.stems, *i.context.values(), *i.variant.values(), i.rationale or ""):
                assert not re.search(r"  |[\u2018-\u201f{}]|\s$|^\s|\bTODO\b", text), (i.item_id, text)


def test_every_item_has_a_prompt_that_shows_all_of_it(banks):
    for bank in banks.values():
        for i in bank:
            shown = "\n".join(m["content"] for m in build(i, "zero_shot"))
            assert all(o in shown for o in (*i.options, *i.stems)) and i.question in shown, i.item_id


# ------------------------------------------------------------------ what the banks promise


def test_counts(banks):
    assert {s: len(b) for s, b in banks.items() if s != "psychiatrybench"} == {
        "mentat": 24,
        "medqade": 40,
        "counselingbench": 24,
        "mhqa": 40,
    }
    rows = {f.stem: len(f.read_text().splitlines()) for f in demo_path("psychiatrybench").glob("*.jsonl")}
    assert set(rows) == set(PSYCHIATRY_TASKS) and len(rows) == 12 and min(rows.values()) >= 3


def test_keys_are_balanced(banks):
    for study in ("mentat", "counselingbench", "mhqa"):
        n = Counter(k for i in banks[study] for k in i.key)
        assert max(n.values()) - min(n.values()) <= 1, (study, n)


def test_mhqas_training_questions_are_made_from_facts_by_seed():
    made = MHQA.simulate_bank(seed=SEED, canary=demo_canary())
    for name, text in made.items():
        path = demo_path("mhqa") / "b" / name
        assert path.read_bytes() == text.encode()
        assert len(load_mhqa(path).records) == len(text.splitlines()) - 1
    assert MHQA.simulate_bank(seed=1, canary="c") != MHQA.simulate_bank(seed=2, canary="c")


def test_mhqas_literature_is_made_by_seed_and_marked():
    for name, text in MHQA.literature_files(seed=SEED, canary=demo_canary()).items():
        path = demo_path("mhqa") / "literature" / name
        assert path.read_bytes() == text.encode() and demo_canary() in text


def test_mhqa_is_clean_and_covers_every_cell(banks):
    path = demo_path("mhqa") / "mhqa_demo.csv"
    assert load_mhqa(path).records == load_mhqa(path, repair=False).records  # there is nothing to mend
    cells = Counter((i.topic, i.category) for i in banks["mhqa"])
    assert len(cells) == 16 and min(cells.values()) >= 2 and max(cells.values()) <= 3
    assert all(int(r["id"]) > 900_000_000 for r in csv.DictReader(path.open()))  # beyond the ids of PubMed
    assert len({i.question for i in banks["mhqa"]}) == 40


def test_mentat_columns_are_the_release_s(mentat):
    header = next(csv.reader((demo_path("mentat") / "final_dataset_raw_questions.csv").open()))
    assert header == ["", *MENTAT_COLUMNS, "canary"]
    certain = [i for i in mentat if i.category in ("diagnosis", "treatment", "monitoring")]
    assert all(sorted(i.soft_labels) == [0, 0, 0, 0, 1] for i in certain)
    assert all(sum(p > 0 for p in i.soft_labels) > 1 and 0 in i.soft_labels for i in mentat if i not in certain)


PRONOUNS = re.compile(r"\b(non-binary person|woman|man|s?he|they|him|her|them|his|their|(him|her|them)self)\b", re.I)
VERBS = {"are": "is", "were": "was", "have": "has", "do": "does"}


def test_the_three_wordings_differ_in_gender_alone(mentat):
    def words(text):
        return [VERBS.get(w, w) for w in PRONOUNS.sub("_", text).split()]

    def same(they, he):
        return he in (they, they + "s", they + "es", re.sub("y$", "ies", they)) or (
            he[-1] in ".,?" and same(they[:-1], he[:-1]) and they[-1] == he[-1]
        )

    three = [i for i in mentat if len(i.variant) == 3]
    assert len(three) == 23
    for i in three:
        male, female, they = (words(i.variant[f"text_{g}"]) for g in ("male", "female", "nonbinary"))
        assert male == female and len(male) == len(they) and all(map(same, they, male)), i.item_id
        assert not re.search(r"\b(he|she|his|her|him)\b", i.variant["text_nonbinary"], re.I), i.item_id
        assert not re.search(r"\b(he|his|him)\b", i.variant["text_female"], re.I) and not re.search(
            r"\b(she|her)\b", i.variant["text_male"], re.I
        ), i.item_id
        assert not re.search(
            r"\bthey (is|was|has|does)\b|\bs?he (are|were|have)\b|person (are|have)\b",
            " ".join(i.variant.values()),
            re.I,
        ), i.item_id
    assert Counter("".join(sorted(i.variant)) for i in mentat)["text_female"] == 1


def test_counselingbench_labels_follow_an_annotator_each():
    path = demo_path("counselingbench") / "counselingbench_demo.csv"
    by = pd.DataFrame(
        [(r.item_id, r.rater, r.label) for r in load_counselingbench_labels(path)], columns=["item", "rater", "label"]
    ).pivot(index="item", columns="rater", values="label")
    assert (
        ((by.resolved == by.h) | (by.resolved == by.s)).all()
        and (by.h == by.s).sum() == 14
        and by.resolved.nunique() == 5
    )


def test_medqade_answers_differ_and_no_question_holds_its_key(banks):
    pool = pd.read_csv(demo_path("medqade") / "answer_pool.csv").set_index("item_id")
    assert list(pool.index) == [i.item_id for i in banks["medqade"]]
    for i in banks["medqade"]:
        row = pool.loc[i.item_id]
        assert i.key == [row.key] and len({row.key, row.accepted, row.wrong_1, row.wrong_2}) == 4
        assert row.key.lower() not in i.question.lower(), i.item_id


# ------------------------------------------------------------------ simulated people


def test_the_files_are_what_the_models_make(annotated):
    made = MENTAT.simulate_annotations(
        annotated, seed=SEED, note=f"Simulated annotations: no person took part. {demo_canary()}"
    )
    folder = demo_path("mentat") / "annotated_data"
    assert {n: t.encode() for n, t in made.items()} == {f.name: f.read_bytes() for f in folder.iterdir()}
    creators = MENTAT.simulate_creators(annotated, seed=SEED, canary=demo_canary())
    assert creators == (demo_path("mentat") / "creators.csv").read_text(encoding="utf-8")
    students, panel = MEDQADE.simulate_panel_files(
        demo_path("medqade") / "answer_pool.csv", seed=SEED, canary=demo_canary()
    )
    assert students.encode() == (demo_path("medqade") / "simulated_students.csv").read_bytes()
    assert panel.encode() == (demo_path("medqade") / "simulated_panel.csv").read_bytes()


def test_another_seed_makes_other_files(annotated):
    assert MENTAT.simulate_annotations(annotated, seed=1) != MENTAT.simulate_annotations(annotated, seed=2)
    pool = demo_path("medqade") / "answer_pool.csv"
    assert MEDQADE.simulate_panel_files(pool, seed=1) != MEDQADE.simulate_panel_files(pool, seed=2)


@pytest.mark.whole
def test_many_simulated_raters_reach_the_stated_model(annotated, tmp_path):
    """Over many sessions of one rater, option i is above j where it is not level with it with probability
    sigma(slope x (worth_i - worth_j)), which is Bradley and Terry's, within four standard errors.
    """
    for name, text in MENTAT.simulate_annotations(annotated[:2], n_raters=1, n_sessions=800, seed=3).items():
        (tmp_path / name).write_text(text, newline="")
    panel = MENTAT.simulated_panel(annotated[:2], n_raters=1, seed=3)
    a = annotation_arrays(load_annotations(tmp_path).ratings)
    for k, i in enumerate(annotated[:2]):
        x = a.scores[a.questions == i.item_id]
        for one, other in combinations(range(5), 2):
            apart = x[x[:, one] != x[:, other]]
            p = 1 / (1 + np.exp(-panel.slopes[0] * (panel.worths[k, one] - panel.worths[k, other])))
            share = (apart[:, one] > apart[:, other]).mean()
            assert abs(share - p) < 4 * np.sqrt(p * (1 - p) / len(apart)), (i.item_id, one, other)


@pytest.mark.parametrize("mapping", ["release", "shown"])
def test_scores_survive_the_permutation(annotated, tmp_path, mapping):
    "The same seed gives the same scores, however the permutation is written, if it is read as it was written."
    other = {"release": "shown", "shown": "release"}[mapping]
    for m in (mapping, other):
        (tmp_path / m).mkdir()
        for name, text in MENTAT.simulate_annotations(annotated, seed=5, mapping=m).items():
            (tmp_path / m / name).write_text(text, newline="")
    scores = {
        (wrote, read): annotation_arrays(load_annotations(tmp_path / wrote, mapping=read).ratings).scores
        for wrote, read in ((mapping, mapping), (other, other), (mapping, other))
    }
    assert (scores[mapping, mapping] == scores[other, other]).all()
    assert (scores[mapping, mapping] != scores[mapping, other]).any(1).mean() > 0.6  # 94 of 120 orders


@pytest.mark.parametrize("n_raters", [3, 5, 9])
def test_round_robin_is_even(n_raters):
    n = n_raters * ((n_raters - 1) // 2)
    pairs = MEDQADE._pairs(n, n_raters)
    assert {frozenset(p) for p in pairs} == {frozenset(p) for p in combinations(range(n_raters), 2)}
    assert all(a != b for a, b in MEDQADE._pairs(5 * n + 1, n_raters))
    loads = Counter(r for p in MEDQADE._pairs(5 * n + 1, n_raters) for r in p)
    assert max(loads.values()) - min(loads.values()) <= 1


def test_panel_design(banks):
    ratings = load_panel(demo_path("medqade") / "simulated_panel.csv")
    t = pd.DataFrame(
        [(r.item_id, r.rater, r.target, r.label) for r in ratings], columns=["item", "rater", "target", "label"]
    )
    nine = t[t.rater != "sim-p10"]
    assert set(nine.groupby(["item", "target"]).size().unstack().nunique(axis=1)) == {1}
    assert Counter(nine[nine.target == "difficulty"].groupby("item").size()) == {9: 10, 2: 30}
    core = set(nine.groupby("item").rater.nunique().loc[lambda n: n == 9].index)
    tie = t[(t.rater == "sim-p10") & ~t.item.isin(core)]
    pairs = nine[~nine.item.isin(core) & (nine.target != "difficulty")].groupby(["item", "target"]).label.agg(set)
    assert set(zip(tie.item, tie.target)) == set(
        pairs[pairs.map(lambda s: s == {"Correct", "Incorrect"})].index
    ) and len(tie)
    assert {i.item_id for i in banks["medqade"]} == set(t.item)
    students = load_students(demo_path("medqade") / "simulated_students.csv")
    assert {(r.item_id, r.model) for r in students} == set(
        zip(*map(list, (t[t.target != "difficulty"].item, t[t.target != "difficulty"].target)))
    )


def test_large_panel_follows_its_model(tmp_path):
    "Four thousand items of hardness 2: abstention is what the model says."
    rows = [
        {"item_id": f"q{k}", "key": "a", "accepted": "b", "wrong_1": "c", "wrong_2": "d", "hardness": 2}
        for k in range(4000)
    ]
    pd.DataFrame(rows).to_csv(tmp_path / "pool.csv", index=False)
    students, panel = MEDQADE.simulate_panel_files(tmp_path / "pool.csv", seed=1, n_core=4000)
    answers, labels = pd.read_csv(io.StringIO(students)), pd.read_csv(io.StringIO(panel))
    labels = labels[labels.rater != "sim-p10"]
    theta = np.linspace(1.5, -1.5, 5)
    b = 1 + 0.4 * np.random.default_rng(0).normal(size=200_000)
    expected = [(1 / (1 + np.exp(1.3 * b - a))).mean() for a in theta]
    names = [f"sim-s{k}" for k in range(1, 6)]
    assert np.allclose(answers[names].isin(["a", "b"]).mean(), expected, atol=0.03)
    right = answers[names].isin(["a", "b"])
    assert abs((answers[names] == "a").sum().sum() / right.sum().sum() - 0.6) < 0.02
    u = np.random.default_rng(1).normal(0, 0.5, 200_000)
    spread = (1 / (1 + np.exp(1 - u))).std() * 0.8 / 3  # nine raters' own levels
    assert abs((labels[names] == "Abstain").mean().mean() - 0.8 * (1 / (1 + np.exp(1 - u))).mean()) < 4 * spread


# ------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    "task, row, message",
    [
        ("diagnosis", {"id": "x", "question": "?"}, "answer"),
        ("diagnosis", {"id": "x", "question": " ", "answer": "a"}, "question"),
        (
            "treatment_follow_up",
            {"id": "x", "question": "?", "answer": "a", "second_follow_up": "later"},
            "first_follow_up must be given",
        ),
        ("sequential_qa", {"id": "x", "history": "h", "questions": ["?"] * 5, "answers": ["a"] * 6}, "questions"),
        ("mcq", {"id": "x", "question": "?", "choices": {"A": "one"}, "answer": ["A"]}, "choices"),
        (
            "mcq",
            {"id": "x", "question": "?", "choices": {"A": "one", "B": "one"}, "answer": ["A"]},
            "choices must differ",
        ),
        ("mcq", {"id": "x", "question": "?", "choices": {"A": "one", "B": "two"}, "answer": []}, "answer"),
        ("mcq", {"id": "x y", "question": "?", "choices": {"A": "one", "B": "two"}, "answer": ["A"]}, "id"),
        (
            "emi",
            {
                "id": "x",
                "header": "h",
                "required": "r",
                "choices": {"A": "one", "B": "two"},
                "questions": ["?"],
                "answers": ["AB"],
            },
            "answers",
        ),
    ],
)
def test_psychiatrybench_refuses(tmp_path, task, row, message):
    (tmp_path / f"{task}.jsonl").write_text("\n" + json.dumps(row) + "\n")
    with pytest.raises(ValueError, match=message) as e:
        load_psychiatrybench(tmp_path)
    assert f"{task}.jsonl:2" in str(e.value)


def _classified(tmp_path, **labels):
    row = {"id": "c", "history": "h", "categories": [], "disorders": []} | labels
    (tmp_path / "classification.jsonl").write_text(json.dumps(row))
    return load_psychiatrybench(tmp_path)


@pytest.mark.parametrize("healthy", [[], ["Normal"], "Normal", ["healthy"]])
def test_a_healthy_patient_is_in_the_table(tmp_path, healthy):
    categories, _ = _classified(tmp_path, categories=healthy)
    assert categories.key == ["Normal"] and categories.category == "classification categories"
    said = [
        Response(item_id=categories.item_id, study="psychiatrybench", model=m, mode="zero_shot", text=t)
        for m, t in (
            ("a", "Normal"),
            ("b", "Anxiety Disorders"),
            ("c", "no mental disorder"),
            ("d", "Normal; Anxiety Disorders"),
            ("e", ""),
        )
    ]
    assert score_responses([categories], said)["correct"].tolist() == [1, 0, 1, 0, 0]


def test_a_closed_list_without_a_word_for_none_counts_its_empty_key(tmp_path):
    (item, _) = _classified(tmp_path)
    bare = item.model_copy(update={"options": ["Anxiety Disorders", "Depressive Disorders"], "key": [], "aliases": {}})
    said = [
        Response(item_id=bare.item_id, study="psychiatrybench", model=m, mode="zero_shot", text=t)
        for m, t in (
            ("a", "None"),
            ("b", "Anxiety Disorders"),
            ("c", "Burnout"),
            ("d", ""),
        )
    ]
    assert score_responses([bare], said)["correct"].tolist() == [1, 0, 0, 0]


def test_a_name_with_commas_is_found_beside_others(tmp_path):
    name = "Disruptive, Impulse-Control, and Conduct Disorders"
    categories, specific = _classified(tmp_path, categories=f"{name}, ADHD", disorders=["Conduct Disorder", "MDD"])
    assert categories.key == [name, "Attention-Deficit/Hyperactivity Disorder"]
    assert specific.key == ["Conduct Disorder", "Major Depressive Disorder"] and len(specific.options) == 226
    with pytest.raises(ValueError, match="must not hold Normal beside a label.*classification.jsonl:1"):
        _classified(tmp_path, categories=["Normal", name])


def test_rows_of_one_case_or_history_make_a_cluster(tmp_path):
    base = {"question": "?", "answer": "a", "history": "one history"}
    rows = [base | {"id": "a"}, base | {"id": "b"}, base | {"id": "c", "book": "B", "case": "7"}]
    (tmp_path / "diagnosis.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    a, b, c = load_psychiatrybench(tmp_path)
    assert a.cluster == b.cluster != c.cluster == "psychiatrybench-case-B-7" and c.origin == {"book": "B", "case": "7"}


def test_separated_questions_may_have_a_file_of_their_own(tmp_path):
    choices = {"A": "one", "B": "two"}
    both = {"header": "h", "required": "r", "choices": choices}
    (tmp_path / "emi.jsonl").write_text(json.dumps(both | {"id": "s", "questions": ["?", "!"], "answers": ["A", "B"]}))
    rows = [
        both | {"id": "s-1", "set": "s", "number": 1, "question": "?", "answer": "b"},
        both | {"id": "x", "question": "?", "answer": "A"},
    ]
    (tmp_path / "emi_separated.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    whole, first, other = load_psychiatrybench(tmp_path)
    assert first.base_id == first.group_id == whole.item_id and first.key == ["B"] and first.origin == {"number": "1"}
    assert other.group_id == other.item_id and other.category == "emi separated"
    assert [i.task for i in load_psychiatrybench(tmp_path, emi="sets")] == ["extended_matching"]


@pytest.mark.parametrize(
    "text, message", [("{", "be a JSON object"), ("[]", "got list"), ('{"categories": ["a"]}', "two or more")]
)
def test_a_bad_label_list_is_refused(tmp_path, text, message):
    (tmp_path / "labels.json").write_text(text)
    with pytest.raises(ValueError, match=message):
        _classified(tmp_path)


def test_set_aside_accounts_for_every_row(tmp_path):
    good = {"id": "a", "question": "?", "answer": "yes"}
    (tmp_path / "diagnosis.jsonl").write_text(
        "".join(json.dumps(r) + "\n" for r in (good, {"id": "b"}, good, good | {"id": "c"}))
    )
    items = load_psychiatrybench(tmp_path, strict=False, set_aside=tmp_path / "bad.json")
    bad = [json.loads(line) for line in (tmp_path / "bad.json").open()]
    assert [i.item_id for i in items] == ["psychiatrybench-a", "psychiatrybench-c"] and [b["place"] for b in bad] == [
        "diagnosis.jsonl:2",
        "diagnosis.jsonl:3",
    ]
    with pytest.raises(ValueError, match="set_aside must be a path"):
        load_psychiatrybench(tmp_path, strict=False)
    (tmp_path / "diagnosis.jsonl").write_text(2 * (json.dumps(good) + "\n"))
    with pytest.raises(ValueError, match="item_id must be unique"):
        load_psychiatrybench(tmp_path)


def test_missing_question_of_a_clinical_approach_is_marked(tmp_path):
    (tmp_path / "clinical_approach.jsonl").write_text(
        json.dumps({"id": "a", "history": "h", "clinical_approach": "Ask first."})
    )
    (item,) = load_psychiatrybench(tmp_path)
    assert item.variant == {"question": "to be generated"} and item.key == ["Ask first."] and item.protected


def test_simulated_errors_have_the_shares_that_were_put_in(banks):
    shares = {"a": (0.6, 0.15, 0.25), "b": (0.0, 1.0, 0.0)}
    erred = dict.fromkeys(shares, banks["counselingbench"] * 150)
    text = COUNSELINGBENCH.simulate_errors(erred, shares, n_raters=2, right=0.9, abstains=0.0, seed=SEED)
    found = pd.read_csv(io.StringIO(text)).groupby("model")["label"].value_counts(normalize=True)
    for m, p in shares.items():
        for kind, share in zip(ERRORS, p):
            assert found[m].get(kind, 0) == pytest.approx(0.9 * share + 0.05 * (1 - share), abs=0.02)
    assert text != COUNSELINGBENCH.simulate_errors(erred, shares, n_raters=2, right=0.9, abstains=0.0, seed=SEED + 1)


def test_simulated_errors_are_of_nobody_real_and_say_so(banks, root):
    import yaml

    params = yaml.safe_load((root / "params.yaml").read_text())
    labels = load_counselingbench_errors(
        demo_path("counselingbench") / "simulated_errors.csv", banks["counselingbench"]
    )
    assert not {r.target for r in labels} & set(params["models"]), "no model gets an error that nobody found"
    assert {r.target for r in labels} <= set(params["studies"]["counselingbench"]["prepare"]["answers"])
    assert {r.comment for r in labels} == {"simulated: no rationale was read"}
    assert {r.origin for r in labels} == {"simulated"} and len(labels) == 60
    assert len({(r.item_id, r.target) for r in labels}) == 20, "three labels of each wrong answer"
