"""What comes out is what the other parts of mhbench read."""

import json
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest

from mhbench.annotate.assignment import enrol
from mhbench.annotate.export import ratings, ratings_of_file, study_ratings, write_export
from mhbench.annotate.simulate import opinion
from mhbench.annotate.sources import demo_entry, demo_names, entry_corpus
from mhbench.annotate.store import Change, open_store
from mhbench.annotate.study import RatedAnswer, build_study, present
from mhbench.records import labelstudio
from mhbench.records.schema import Rating, Response, read_records
from mhbench.run.cli import main
from mhbench.stats.panel_design import pilot_table
from mhbench.studies.medqade.panel import label_array
from mhbench.studies.medqade.panel_tables import build_panel
from mhbench.studies.mentat.annotations import annotation_arrays

from .conftest import items


@pytest.fixture(scope="module")
def answered(tmp_path_factory):
    "Every demonstration, answered by five simulated raters over HTTP."
    folder = tmp_path_factory.mktemp("answered")
    for name in demo_names():
        words = [name, "--params", str(folder / "none"), "--answers", str(folder / f"{name}.sqlite")]
        assert main(["annotate", "demo", *words, "--raters", "5"]) == 0
        assert main(["annotate", "check", *words]) == 0
        assert main(["annotate", "export", *words, "--to", str(folder / name), "--sheet"]) == 0
    return folder


@pytest.mark.parametrize("name", demo_names())
def test_ratings_are_the_raters_opinions_in_every_form(answered, name, tmp_path):
    entry = demo_entry(name)
    items = entry_corpus(entry, tmp_path).items
    with open_store(answered / f"{name}.sqlite") as store:
        study, found = store.study, ratings(store)
    for r in found.ratings:
        assert r.origin == "simulated"
    if study.settings.kind not in ("errors", "duel"):
        thinks = {q.item_id: q for q in study.questions}
        for r in found.ratings:
            want = opinion(study, thinks[r.item_id], r.rater, seed=1)[r.target]
            assert (r.value, r.label) == tuple(want)
    for file in (f"{name}.sqlite", f"{name}/ratings.parquet", f"{name}/ratings.csv"):
        assert ratings_of_file(answered / file, items) == found.ratings
    assert found.incomplete == []


def test_what_raters_wrote_runs_in_no_spreadsheet_and_lies_in_their_owners_folder(answered, tmp_path):
    shutil.copy(answered / "mentat.sqlite", tmp_path / "mentat.sqlite")
    wrote = "=cmd|'/C calc'!A0"
    with open_store(tmp_path / "mentat.sqlite") as store:
        at = {q.question_id: q.role for q in store.study.questions}
        page, given = next((p, g) for p, g in store.all_answers().items() if at[p[1]] == "item" and not p[2])
        shown = next(iter(given.values())).shown
        store.save([Change("x", *page, "comment", RatedAnswer(label=wrote), shown, store.clock(), None)])
        found = write_export(store, tmp_path / "out")
    assert any(r.comment == wrote for r in found.ratings)
    for name in ("ratings.csv", "answers.csv", "events.csv"):
        text = (tmp_path / "out" / name).read_text(encoding="utf-8")
        assert f",{wrote}" not in text and f',"{wrote}' not in text, name
    assert ratings_of_file(tmp_path / "out" / "ratings.csv") == found.ratings
    modes = {p.name: p.stat().st_mode & 0o777 for p in (tmp_path / "out").iterdir()}
    assert modes.pop(".gitignore") and set(modes.values()) == {0o600} and len(modes) >= 7
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "out" / ".gitignore").read_text(encoding="utf-8") == "*\n"


def test_mentats_reader_takes_the_sliders(answered):
    found = ratings_of_file(answered / "mentat.sqlite")
    a = annotation_arrays(found)
    assert a.scores.shape == (5 * 12, 5)
    assert set(a.genders) <= {"male", "female", "nonbinary", ""}
    by = {(r.rater, r.item_id, r.target): r.value for r in found}
    for rater, question, scores in zip(a.raters, a.questions, a.scores, strict=True):
        assert scores.tolist() == [by[rater, question, t] for t in "ABCDE"]
    orders = {r.variant["order"] for r in found}
    assert len(orders) > 20  # options were shuffled, and what came out was not


def test_ratings_need_no_source_of_their_own(answered, tmp_path):
    "item_id, study, rater, target and value are enough: the options that one rater rated are one annotation."
    whole = annotation_arrays(ratings_of_file(answered / "mentat.sqlite"))
    table = pd.read_csv(answered / "mentat" / "ratings.csv", dtype=str, keep_default_na=False)
    table[["item_id", "study", "rater", "target", "value"]].to_csv(tmp_path / "ratings.csv", index=False)
    bare = annotation_arrays(ratings_of_file(tmp_path / "ratings.csv"))
    assert bare.scores.tolist() == whole.scores.tolist() and list(bare.raters) == list(whole.raters)


def test_medqades_reader_takes_the_labels(answered):
    found = ratings_of_file(answered / "medqade.sqlite")
    raters, ids = sorted({r.rater for r in found}), sorted({r.item_id for r in found})
    students = sorted({r.target for r in found} - {"difficulty"})
    labels = label_array([r for r in found if r.target != "difficulty"], raters, students, ids)
    per_item = (labels != np.array(None)).all(1).sum(0)
    assert sorted(per_item) == [2] * 8 + [5] * 4


def test_second_answers_and_checks_are_kept_apart(answered):
    repeats = read_records(answered / "mentat" / "repeats.parquet", Rating)
    assert len(repeats) == 25
    assert {r.session for r in repeats} == {"occasion 1"}
    assert not [r for r in ratings_of_file(answered / "mentat.sqlite") if r.item_id in ("practice-1", "check-1")]
    assert (answered / "mentat" / "checks.csv").read_text().count("True") == 10


def test_a_file_that_names_other_items_is_refused(answered):
    with pytest.raises(ValueError, match="name an item of the study"):
        ratings_of_file(answered / "mentat.sqlite", [])
    with pytest.raises(FileNotFoundError, match="correct prepare.ratings"):
        ratings_of_file(answered / "none.parquet")


def test_the_sheet_holds_no_formula(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    from mhbench.annotate.assignment import enrol
    from mhbench.annotate.export import write_export
    from mhbench.annotate.store import Change
    from mhbench.annotate.study import RatedAnswer, build_study

    study = build_study("example", {"kind": "agree"}, items(1))
    with open_store(tmp_path / "a.sqlite", study) as store:
        enrol(store, study, ["r1"])
        shown = json.dumps({"wording": "", "order": list("ABCDE"), "starts": {}, "sides": []})
        said = {"key": "A", "comment": "=1+1\x07"}
        store.save(Change(t, "r1", "q1", 0, t, RatedAnswer(label=x), shown, 1, None) for t, x in said.items())
        write_export(store, tmp_path / "out", sheet=True)
    page = openpyxl.load_workbook(tmp_path / "out" / "answers.xlsx")["ratings"]
    cells = [c for row in page.iter_rows() for c in row if c.value is not None]
    assert [c.value for c in cells if str(c.value).startswith("=")] == ["=1+1?"]
    assert {c.data_type for c in cells} == {"s"}


def test_no_rater_is_named_in_what_a_study_makes_of_ratings(answered):
    "Names become pseudonyms in the order of the file; released pseudonyms and simulated raters stay."
    known = ratings_of_file(answered / "mentat.sqlite")
    items = entry_corpus(demo_entry("mentat"), answered).items
    simulated = list(dict.fromkeys(r.rater for r in known))
    names = dict(zip(simulated, ["Dr. Anna Berg", "r2", "jokoye", "Dr. Anna Berg-Lund", "rater-1"], strict=True))
    asked = [r.model_copy(update={"rater": names[r.rater], "origin": "recorded"}) for r in known]
    shown = study_ratings(asked, items)
    assert list(dict.fromkeys(r.rater for r in shown.ratings)) == ["rater-2", "r2", "rater-3", "rater-4", "rater-1"]
    told = "3 names of raters are replaced: rater-1, rater-2, ... in order; `mhbench annotate who` reads them"
    assert [n.startswith(told) for n in shown.notes] == [True]
    assert study_ratings(known, items).ratings == known


def test_a_folder_that_was_there_is_kept_out_of_git_by_names(answered, tmp_path):
    "A repository whose user made the folder first: nothing that people wrote may be added by `git add -A`."
    git = ["git", "-C", str(tmp_path), "-c", "user.name=n", "-c", "user.email=e@example.org"]
    subprocess.run([*git, "init", "-q"], check=True)
    (tmp_path / "out").mkdir(mode=0o755)
    (tmp_path / "out" / "mine.txt").write_text("mine")
    with open_store(answered / "mentat.sqlite") as store:
        for _ in range(2):
            write_export(store, tmp_path / "out")
    subprocess.run([*git, "add", "-A"], check=True)
    listed = subprocess.run([*git, "ls-files"], check=True, capture_output=True, text=True).stdout.split()
    assert listed == ["out/.gitignore", "out/mine.txt"]
    named = (tmp_path / "out" / ".gitignore").read_text(encoding="utf-8").split()
    assert "/study.json" in named and len(named) == len(set(named)), "each once"
    written = {p.name: p.stat().st_mode & 0o777 for p in (tmp_path / "out").iterdir()}
    assert {written[name.strip("/")] for name in named} == {0o600}


def test_a_table_of_answers_has_each_rating_once_within_the_sliders_and_its_own_remedy(tmp_path):
    "A number that no slider gives, or a second one of the same page, would go into every mean and every alpha."
    head = "item_id,study,rater,target,value,label,session,variant\n"
    asked = '"{""asked"": ""0123456789ab""}"'
    row = lambda value, target="A", session="occasion 0": f"q1,example,r1,{target},{value},,{session},{asked}\n"
    whole = head + row(0) + row(100, "B") + row(40, "A", "occasion 1")
    wrong = {
        head + row(250): r"must be from 0 to 100; got 250.0 \(t.csv:2\); export the answers again",
        head + row(-5): r"must be from 0 to 100; got -5.0 \(t.csv:2\)",
        whole + row(0): r"once in a session; got two of q1, A, r1, at line 2 and here \(t.csv:5\); export",
        head + row("nan").replace(asked, "{}"): r"finite number; got nan \(t.csv:2\); export the answers again$",
    }
    file = tmp_path / "t.csv"
    for text, told in wrong.items():
        file.write_text(text, encoding="utf-8")
        with pytest.raises(ValueError, match=told):
            ratings_of_file(file)
    file.write_text(whole, encoding="utf-8")
    assert [r.value for r in ratings_of_file(file)] == [0, 100, 40]


def test_what_an_export_of_label_studio_lacks_is_told_with_its_ratings(tmp_path, monkeypatch):
    "A cancelled annotation, one that was replaced, a difficulty that nobody chose, and a task that nobody opened."

    def annotation(n: int, label: str, **more) -> dict:
        chosen = {"from_name": "correctness_1", "type": "choices", "value": {"choices": [label]}}
        return {"id": n, "completed_by": 1, "created_at": f"2025-01-0{n}T10:00:00Z", "result": [chosen]} | more

    given = [annotation(1, "Correct"), annotation(2, "Incorrect"), annotation(3, "Correct", was_cancelled=True)]
    tasks = [{"data": {"item_id": f"q{k}", "study": "example"}, "annotations": given * (k == 1)} for k in (1, 2)]
    (tmp_path / "export.json").write_text(json.dumps(tasks), encoding="utf-8")
    (tmp_path / "key.json").write_text('{"q1": ["m"], "q2": ["m"]}', encoding="utf-8")
    n_reads, read = [], labelstudio.exported_tasks
    monkeypatch.setattr(labelstudio, "exported_tasks", lambda path: n_reads.append(path) or read(path))
    rated = study_ratings([], items(2), tmp_path / "export.json")
    assert n_reads == [tmp_path / "export.json"], "the ratings and what is not among them come from one reading"
    assert [r.label for r in rated.ratings] == ["Incorrect"]
    told = "; ".join(rated.notes)
    assert "of 3 annotations 1 were cancelled, 1 replaced by a later one of the same rater" in told
    assert "leave 1 labels open; 1 of 2 tasks have no annotation" in told


def test_a_resolvers_verdict_is_an_adjudicators_and_no_third_raters(tmp_path):
    "The panel of the stage has the raters that the dashboard compares; the tie is broken by who was asked to."
    said = [Response(item_id="q1", study="example", model="m", mode="zero_shot", text="An answer.")]
    study = build_study("example", {"kind": "labels", "difficulties": []}, items(1), said)
    with open_store(tmp_path / "a.sqlite", study) as store:
        enrol(store, study, ["r1", "r2"])
        enrol(store, study, ["r9"], role="resolver")
        for k, (rater, label) in enumerate({"r1": "Correct", "r2": "Incorrect", "r9": "Correct"}.items()):
            shown = present(study, study.questions[0], rater).text()
            store.save([Change(f"e{k}", rater, "q1", 0, "m", RatedAnswer(label=label), shown, k, None)])
        write_export(store, tmp_path / "out")
    for file in ("a.sqlite", "out/ratings.parquet", "out/ratings.csv"):
        found = ratings_of_file(tmp_path / file)
        assert {r.rater: r.kind for r in found} == {"r1": "person", "r2": "person", "r9": "adjudicator"}, file
        panel = build_panel(found)
        assert panel.raters == ["r1", "r2"] and panel.breaking.tolist() == [["Correct"]]
        assert set(pilot_table(found)[0]["rater"]) == {"r1", "r2"}
