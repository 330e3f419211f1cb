"""A rating study from a workbook to its stages: what is written, what is wired, and what is said where nothing is."""

import shutil

import openpyxl
import pytest
import yaml
from conftest import ROOT

from mhbench.annotate.export import ratings_of_file
from mhbench.run.cli import main
from mhbench.run.edit import name_ratings
from mhbench.run.params import load_params, unread_ratings

QUESTIONS = [
    [f"q{k}", f"Question {k}: what comes first?", "Ask about safety", "Refer at once", "Wait", "A"]
    for k in range(1, 11)
]


def workbook(path, rows=QUESTIONS, head=("id", "question", "option A", "option B", "option C", "answer")):
    book = openpyxl.Workbook()
    for row in [list(head), *rows]:
        book.active.append(row)
    book.save(path)
    return path


@pytest.fixture
def folder(tmp_path, monkeypatch):
    "A repository's settings, and a workbook of ten questions, in the current folder."
    for name in ("params.yaml", "run.yaml", "dvc.yaml"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "nbs").symlink_to(ROOT / "nbs")
    workbook(tmp_path / "questions.xlsx")
    monkeypatch.setenv("MHBENCH_ROOT", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def entry(folder, name="ward") -> dict:
    return yaml.safe_load((folder / "params.yaml").read_text(encoding="utf-8"))["studies"][name]


ANNOTATE = "    annotate: {kind: sliders}\n"


def with_page(folder) -> None:
    "A study whose page was configured by hand, as CONTRIBUTING says, and answered by three simulated raters."
    assert main(["new-study", "ward", "questions.xlsx", "--yes"]) == 0
    text = (folder / "params.yaml").read_text(encoding="utf-8")
    (folder / "params.yaml").write_text(text.replace("  ward:\n", "  ward:\n" + ANNOTATE), encoding="utf-8")
    assert main(["annotate", "demo", "ward", "--raters", "3"]) == 0


def test_ratings_that_are_named_are_wired_to_their_stages(folder, capsys):
    with_page(folder)
    file = ".mhbench/annotate/ward.sqlite"
    assert len(ratings_of_file(folder / file)) == 10 * 3 * 3
    before = (folder / "params.yaml").read_text(encoding="utf-8")
    by_hand = before.replace("      ratings: null\n", f"      ratings: {file}\n")
    assert by_hand != before
    (folder / "params.yaml").write_text(by_hand, encoding="utf-8")
    said = unread_ratings(load_params(folder / "params.yaml"))
    assert said == [
        f"ward: the ratings of {file} go through no stage; `mhbench import ward --ratings {file}` adds the stages that"
        " fit them"
    ]
    capsys.readouterr()
    assert main(["import", "ward", "--ratings", file]) == 0
    assert "they go through preferences, agreement\nadded to studies.ward: preferences" in capsys.readouterr().out
    p = load_params(folder / "params.yaml")
    assert {"preferences", "agreement", "annotate"} <= set(entry(folder)) and unread_ratings(p) == []
    assert "ward" in p["run"]["preferences"] and "ward" in p["run"]["agreement"]


def test_a_study_that_is_written_anew_keeps_what_people_are_asked(folder):
    with_page(folder)
    assert main(["new-study", "ward", "questions.xlsx", "--replace", "--yes"]) == 0
    assert entry(folder)["annotate"] == {"kind": "sliders"}
    file = ".mhbench/annotate/ward.sqlite"
    assert main(["new-study", "ward", "questions.xlsx", "--ratings", file, "--replace", "--yes"]) == 0
    written = entry(folder)
    assert written["prepare"]["ratings"] == file and "ratings" not in written["prepare"]["options"]
    assert written["annotate"] == {"kind": "sliders"} and {"preferences", "agreement"} <= set(written)
    assert main(["new-study", "ward", "questions.xlsx", "--replace", "--yes"]) == 0
    assert entry(folder) == written
    table = "id,rater,option,score\n" + "".join(f"q1,r{r},{o},{r}0\n" for r in (1, 2) for o in "ABC")
    (folder / "ratings.csv").write_text(table, encoding="utf-8")
    assert main(["new-study", "ward", "questions.xlsx", "--ratings", "ratings.csv", "--replace", "--yes"]) == 0
    now = entry(folder)
    assert now["prepare"]["ratings"] is None and now["annotate"] == {"kind": "sliders"}
    assert now["prepare"]["options"]["ratings"]["path"] == "ratings.csv"


def test_ratings_that_no_stage_reads_are_said_to_be_so(folder):
    with_page(folder)
    (folder / "none.csv").write_text("item_id,study,rater,target,value,label\n", encoding="utf-8")
    [said] = name_ratings("ward", "none.csv", params=folder / "params.yaml")
    assert "they go through no stage: there is no complete answer yet" in said
