"""What MENTAT prints against what its release holds: lists of questions, conventions, and the claims file."""

import re
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from mhbench.corpus.demo import demo_path
from mhbench.ledger.claims import load_claims, unused_names
from mhbench.ledger.release import inventory_of
from mhbench.ledger.verdicts import claims_by_verdict, judge_claims, no_tables
from mhbench.registry import studies
from mhbench.stats.soft_labels import question_alphas
from mhbench.studies.mentat.annotations import annotation_arrays, load_annotations
from mhbench.studies.mentat.labels import with_creators
from mhbench.studies.mentat.readings import both_readings
from mhbench.studies.mentat.release import EARLIER_NOTEBOOK, bootstrap_ends, evaluation_ids, release_tables
from mhbench.tools.fetch import fetch_release


@pytest.fixture(scope="module")
def claims():
    (mentat,) = [s for s in studies() if s.name == "mentat"]
    return load_claims(mentat.folder / "claims.yaml")


@pytest.fixture(scope="module")
def tables(datasets):
    "Of the release; its password is the lead author's last name in lower case, whom the licence names."
    folder = datasets / "mentat"
    if not folder.is_dir():
        pytest.skip("no MENTAT release among the corpora")
    named = re.search(r"Copyright \(c\) \d+ .*?(\w+)\s*$", (folder / "LICENSE").read_text(), re.MULTILINE)
    return dict(release_tables(folder, named[1].lower()))


@pytest.fixture(scope="module")
def find(tables):
    "The study's tables as the stage keeps them; accuracy by the labels as shown stands for that of the stage `score`."
    marks = tables["marks"].query("read_by == 'mhbench' and labels == 'shown'")
    accuracy = marks.rename(columns={"category": "group"}).assign(mode="zero_shot", answered_by="plain", by="category")
    every = {f"ledger/{name}": table for name, table in tables.items()} | {"score/accuracy": accuracy}
    return every.get


def test_every_number_of_the_paper_is_listed_once(claims):
    assert len(claims.claims) == 210 and unused_names(claims) == []
    by_place = [c.place for c in claims.claims]
    assert [by_place.count(f"Table {k}") for k in (1, 2, 3)] == [20, 48, 72]


@pytest.fixture(scope="module")
def inventory(datasets, tmp_path_factory):
    got = fetch_release("mentat", datasets / "mentat", tmp_path_factory.mktemp("release"))
    return inventory_of("mentat", got.folder)


def test_without_a_release_nothing_is_judged(claims):
    found = judge_claims(claims, no_tables, inventory_of("mentat"))
    assert set(found["verdict"]) == {"cannot"}
    assert found["reason"].value_counts()["not_fetched"] > 160 and "no_run" not in set(found["reason"])


def test_verdicts_on_the_release(claims, find, inventory):
    verdicts = judge_claims(claims, find, inventory).set_index("claim")
    counts = claims_by_verdict(verdicts.reset_index()).set_index("kind")
    assert counts.loc["stored"].tolist()[1:] == [110, 94, 14, 0, 2], "claims, equal, convention, undecided, differs"
    tables = verdicts[verdicts["place"].isin(["Table 1", "Table 2"])]["verdict"].value_counts()
    assert tables.to_dict() == {"equal": 57, "convention": 11}, "the notebook of 27 February 2025 has all of them"
    differs = verdicts[(verdicts["verdict"] == "differs") & (verdicts["kind"] == "data")]
    assert differs["value"].to_dict() == {"Section 4.1/prompts of a question and gender": 3}
    assert (verdicts.loc[verdicts["verdict"] == "differs", "note"] != "").all()
    named = verdicts[verdicts["verdict"] == "convention"]["convention"].to_dict()
    assert named["Table 3/o1/triage / accuracy"] == "own_marks"
    assert named["Section 3.2/annotations"] == named["Section 3.2/annotations a question"] == "creators_counted"
    assert verdicts.loc["Section 3.2/probability of wrong options", "value"] < 0.2


def test_a_part_of_the_release_judges_what_it_holds(claims, datasets, tmp_path):
    "Without the archive, the recorded answers and the notebook nothing is ambiguous, and nothing else is judged."
    whole = datasets / "mentat"
    shutil.copytree(whole / "annotated_data", tmp_path / "part" / "annotated_data")
    shutil.copy(whole / "final_dataset_raw_questions.csv.aes", tmp_path / "part")
    password = re.search(r"(\w+)\s*$", (whole / "LICENSE").read_text().split("Permission")[0])[1].lower()
    got = fetch_release("mentat", tmp_path / "part", tmp_path / "here")
    part = dict(release_tables(got.folder, password))
    assert list(part) == ["questions", "annotations", "facts", "alphas"]
    tables = {f"ledger/{name}": table for name, table in part.items()}.get
    verdicts = judge_claims(claims, tables, inventory_of("mentat", got.folder)).set_index("claim")
    assert verdicts.loc["Section 3.1/highest age", "reason"] == "not_fetched"
    assert verdicts.loc["Section 3.2/highest alpha", "verdict"] == "undecided", (
        "the printed range has the creators in it"
    )
    assert verdicts.loc["Table 3/o1/triage / accuracy", "reason"] == "not_fetched"
    assert verdicts["verdict"].value_counts()["equal"] > 20 and "no_run" not in set(verdicts["reason"])


def test_numbers_altered_on_purpose_are_found_and_no_other_is_accused(claims, find, inventory):
    "Four units of the last digit: one or three would be another list's count (204 for 203, 552 for 549)."
    before = judge_claims(claims, find, inventory).set_index("claim")["verdict"]
    right = [c for c in claims.claims if before[c.id] in ("equal", "convention") and not c.number.bound]
    chosen = right[::6]
    assert len(chosen) >= 22
    steps = {c.id: 4 * c.number.unit * (-1) ** k for k, c in enumerate(chosen)}
    altered = [
        replace(c, number=replace(c.number, value=c.number.value + steps[c.id])) if c.id in steps else c
        for c in claims.claims
    ]
    after = judge_claims(replace(claims, claims=altered), find, inventory).set_index("claim")["verdict"]
    assert set(after[list(steps)]) == {"differs"}
    assert (after.drop(list(steps)) == before.drop(list(steps))).all()


def test_lists_of_questions_reproduce_the_released_splits(tables):
    sets = tables["sets"].set_index("set")
    assert sets["split_of"].to_dict() == {
        "D0_results": "paper",
        **dict.fromkeys(["D0_release", "D_G_release", "D_A_release", "D_N_release"], "evaluation sets"),
    }
    counts = tables["questions"].set_index(["list", "group"])["n"]
    assert counts["paper", "all"] == 203 and counts["paper", "triage and documentation"] == 57


def test_the_demo_has_the_tables_that_need_no_archive():
    made = dict(release_tables(demo_path("mentat")))
    assert list(made) == ["questions", "annotations", "facts", "alphas", "creators"]
    assert made["facts"].set_index("fact")["value"]["raters"] == 8


def test_bootstrap_limits_without_draws():
    rng = np.random.default_rng(3)
    for right, n in ((44, 46), (12, 26), (1, 9)):
        x = np.repeat([1.0, 0.0], [right, n - right])
        drawn = np.quantile(rng.choice(x, (40_000, n)).mean(1), [0.025, 0.975])
        assert bootstrap_ends(right, n) == pytest.approx(drawn, abs=1e-9)


def test_a_folder_without_sessions_has_no_tables(tmp_path):
    file = next(demo_path("mentat").glob("*questions.csv"))
    (tmp_path / file.name).write_bytes(file.read_bytes())
    assert list(release_tables(tmp_path)) == []


def test_the_split_depends_on_every_question():
    assert evaluation_ids(range(200)) != evaluation_ids([*range(199), 500])


def test_the_alphas_that_the_authors_store_are_those_of_their_sessions_and_notebook(datasets):
    "As their import reads the sliders, with the creators among the raters; their notebook prints counts and means."
    stored = pd.read_csv(EARLIER_NOTEBOOK.parent / "analysis_results_963c255.csv", comment="#", dtype={"question": str})
    stored = stored.set_index("question")["alpha"]
    assert len(stored) == 28 + 33 and (stored < 0).sum() == 3 + 6
    assert stored.mean() == pytest.approx((28 * 0.09 + 33 * 0.10) / 61, abs=0.005)
    answers = pd.read_csv(datasets / "mentat" / "creators.csv", dtype=str).set_index("question")["option"]
    creators = {question: ord(option) - ord("A") for question, option in answers.items()}
    arrays = annotation_arrays(load_annotations(datasets / "mentat" / "annotated_data").ratings)
    scores, questions, _ = with_creators(both_readings(arrays)["release"], creators)[True]
    computed = question_alphas(scores, questions)
    known = {q: a for q, a in zip(computed.questions, computed.alpha) if q in creators}
    assert len(known) == 58 and max(abs(stored[q.removeprefix("mentat-")] - a) for q, a in known.items()) < 1e-5
