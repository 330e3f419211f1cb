"""`mhbench replicate` on the authors' files: one command, nothing edited; and what is committed of it.

Expected numbers are counted here from the files themselves, or are the papers'.
"""

import contextlib
import csv
import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest
import yaml
from claiming import found_slips, twenty_in
from conftest import BIN, ROOT, mhbench, run
from test_canary import everything

from mhbench.ledger.claims import load_claims
from mhbench.ledger.release import inventory_of
from mhbench.ledger.verdicts import tables_of_run
from mhbench.records.database import stage_folder
from mhbench.registry import claims_file, study_files
from mhbench.report.tables import KEY_RESULTS, file_stem
from mhbench.tools import replicate as command
from mhbench.tools.aggregates import check_published_files, held_by, written_out
from mhbench.tools.replicate import replicate, replication

COMMITTED = ROOT / "reports" / "replication"
IDS = re.compile(r"\b(?:mentat-\d|mhqa-\d|counselingbench-[a-z])")


def table(folder: Path, path: str) -> pd.DataFrame:
    stage, study, name = path.split("/")
    return pd.read_parquet(folder / "results" / stage_folder(stage, study) / f"{name}.parquet")


def released(datasets: Path, name: str) -> Path:
    if not (datasets / name).is_dir():
        pytest.skip(f"no release of {name} among the corpora")
    return datasets / name


@pytest.fixture(scope="module")
def password(datasets):
    "MENTAT's is the lead author's last name in lower case, whom the licence names."
    named = re.search(r"Copyright \(c\) \d+ .*?(\w+)\s*$", (released(datasets, "mentat") / "LICENSE").read_text(), re.M)
    with pytest.MonkeyPatch.context() as m:
        m.setenv("MHBENCH_MENTAT_PASSWORD", named[1].lower())
        yield


def stages_in_place_of_dvc(words, run=subprocess.run, **options) -> subprocess.CompletedProcess:
    "A command; but where it is `dvc repro` every stage, in order, in this process."
    if "repro" not in words:
        return run(words, **options)
    with contextlib.chdir(options["cwd"]), pd.option_context("display.max_colwidth", 120):  # as in a notebook
        everything(options["cwd"])
    return subprocess.CompletedProcess(words, 0)


@pytest.fixture(scope="module")
def made(datasets, tmp_path_factory):
    """A replication as the command makes it, once for each study: its folder, what was said, and what it published.
    CounselingBench's is a command of its own that starts DVC; of the others every stage runs in this process.
    """
    top, known = tmp_path_factory.mktemp("replications"), {}

    def of(name: str) -> tuple[Path, str, Path]:
        if name not in known:
            options = ("--from", released(datasets, name), "--to", top / name, "--publish", top / "published")
            with pytest.MonkeyPatch.context() as m:
                if name == "counselingbench":
                    known[name] = run(BIN / "mhbench", "replicate", name, *options, cwd=top)
                else:
                    m.setattr(command.subprocess, "run", stages_in_place_of_dvc)
                    known[name] = mhbench("replicate", name, *options, cwd=top)
        return top / name, known[name], top / "published" / name

    return of


# ---------------------------------------------------------------- MENTAT


@pytest.fixture(scope="module")
def mentat(made, password):
    return made("mentat")


def test_mentat_takes_the_recorded_answers(mentat):
    folder, said, _ = mentat
    assert "mentat: 183 items, 3000 ratings, 183 recorded answers" in said and "nobody is asked" in said
    accuracy = table(folder, "score/mentat/accuracy").query("by == 'category'").set_index(["model", "group"])
    assert set(accuracy.index.get_level_values(0)) == {"o1-2024-12-17"}
    o1 = accuracy.loc["o1-2024-12-17"]
    assert o1["n"].to_dict() == {"diagnosis": 46, "documentation": 27, "monitoring": 42, "treatment": 42, "triage": 26}
    assert o1.loc["diagnosis", "estimate"] == pytest.approx(44 / 46)  # the paper's
    page = (folder / "results" / "report.html").read_text(encoding="utf-8")
    assert "with recorded answers of o1" in page


def test_the_labels_decide_what_o1_gets(mentat):
    "12 of 27 is the paper's; of triage it prints 12 of 26, because its reading of one answer ('E') went wrong."
    by = table(mentat[0], "score/mentat/by_labels").query("model == 'o1-2024-12-17'").set_index(["category", "labels"])
    assert by.loc[("documentation", "results file"), "estimate"] == pytest.approx(12 / 27)
    assert by.loc[("triage", "results file"), "estimate"] == pytest.approx(13 / 26)
    assert {"as shown", "as released"} < set(by.index.get_level_values(1))
    assert by.loc[("all", "as shown - as released"), "ci_low"] > 0.1
    published = table(mentat[0], "preferences/mentat/published")
    assert set(published["published"]) == {"results file"} and published["largest_difference"].min() > 0.2


def test_a_rater_is_one_rater(mentat):
    "600 annotations are 347 pairs of rater and question: 350 pairs of annotations are one rater's of one question."
    folder, _, _ = mentat
    questions, repeats = (table(folder, f"agreement/mentat/{name}") for name in ("questions", "repeats"))
    assert questions["n"].sum() == 347 and questions["n"].max() <= 8
    assert table(folder, "agreement/mentat/agreement")["estimate"][0] == pytest.approx(0.66, abs=0.01)
    assert set(repeats["n"]) == {350}


# ---------------------------------------------------------------- CounselingBench


def test_counselingbench_compares_every_recorded_run(made, datasets):
    folder, said, _ = made("counselingbench")
    assert "508 items, 0 ratings, 16256 recorded answers" in said and "recorded: 32 runs of models" in said
    assert "set aside: 2 rows" in said and "64 of 16320 recorded answers are left out, with the questions" in said
    accuracy = table(folder, "score/counselingbench/accuracy").query("by == 'all'").set_index(["model", "mode"])
    assert len(accuracy) == 32 and set(accuracy["n"]) == {508}
    pairs = table(folder, "score/counselingbench/pairs")
    assert len(pairs) == 2 * 16 * 15 / 2, "every two models in either mode"
    groups = table(folder, "score/counselingbench/averages").query("by == 'all'")
    assert {"general", "medical"} < set(groups["models"])
    equal = 0
    for file in sorted((datasets / "counselingbench" / "outputs_t").glob("*.csv")):
        rows = [r for r in csv.DictReader(file.open(encoding="utf-8-sig", newline="")) if r["Question"].strip()]
        by_hand = sum(r["parsed_pred"] == r["correct_answer_letter"] for r in rows) / len(rows)
        model, mode = file.stem.split("_")[0], file.stem.split("_")[1].replace("-", "_")
        ours = accuracy.loc[(model, mode), "estimate"]
        assert ours == pytest.approx(by_hand, abs=0.012), file.name
        equal += ours == pytest.approx(by_hand)
    assert equal == 29  # the authors' parser and ours part on some answers of three files
    head = (folder / "results" / "report" / f"{file_stem(*KEY_RESULTS)}.csv").read_text(encoding="utf-8")
    assert "med42-70b" in head and "recorded" in head


def test_a_part_of_the_files_goes_through_in_the_authors_folders(datasets, tmp_path, capfd, monkeypatch):
    "Four of the runs, where their repository has them, in a folder with a space; nothing is listed by name."
    monkeypatch.delenv("CI", raising=False)  # with it a stage's progress is not printed
    there = tmp_path / "my data" / "CounselingBench-main" / "results" / "outputs" / "outputs_t"
    there.mkdir(parents=True)
    for file in sorted((released(datasets, "counselingbench") / "outputs_t").glob("M*.csv"))[:4]:
        shutil.copy(file, there)
    said = mhbench("replicate", "counselingbench", "--from", tmp_path / "my data", cwd=tmp_path)
    folder = tmp_path / "replication" / "counselingbench"
    assert "508 items, 0 ratings, 2032 recorded answers" in said and "recorded: 4 runs" in said
    assert len(table(folder, "score/counselingbench/pairs")) == 2
    before = (folder / "results" / "studies" / "counselingbench" / "score" / "notebook.ipynb").stat().st_mtime_ns
    assert "mhbench: score" in "".join(capfd.readouterr())
    mhbench("replicate", "counselingbench", "--from", tmp_path / "my data", cwd=tmp_path)
    assert "mhbench: score" not in "".join(capfd.readouterr()), "the second time all is there"
    assert (
        folder / "results" / "studies" / "counselingbench" / "score" / "notebook.ipynb"
    ).stat().st_mtime_ns == before


# ---------------------------------------------------------------- MHQA


def test_mhqa_takes_the_recorded_encoders(made, datasets):
    folder, said, _ = made("mhqa")
    source = datasets / "mhqa"
    assert "2475 items, 0 ratings" in said and "recorded: 6 runs" in said
    asked = Counter(
        " ".join(r["question"].split()) for r in csv.DictReader((source / "mhqa.csv").open(encoding="utf-8-sig"))
    )
    accuracy = table(folder, "score/mhqa/accuracy").query("by == 'all'").set_index("model")
    encoders = sorted((source / "final_results").glob("*_small.csv"))
    assert set(accuracy.index) == {f.stem for f in encoders} | {"llama_3_8b"}
    assert accuracy.loc["llama_3_8b", ["mode", "n"]].tolist() == ["few_shot_cot", 1594]  # of its 1,599 rows
    for file in encoders:
        rows = list(csv.DictReader(file.open(encoding="utf-8-sig", newline="")))
        here = [r for r in rows if " ".join(r["question"].split()) in asked]
        by_hand = sum(r["predictions"] == r["correct_option"] for r in here) / len(here)
        assert accuracy.loc[file.stem, "estimate"] == pytest.approx(by_hand)
        assert accuracy.loc[file.stem, "n"] == 2474
    person = next(w for w in list(rows[0])[10].split() if w.isalpha() and w.islower())
    texts = [f for f in (folder / "results").rglob("*") if f.suffix in (".md", ".csv", ".html", ".json", ".ipynb")]
    texts += [f for f in COMMITTED.rglob("*") if f.suffix in (".md", ".csv", ".ipynb", ".json")]
    assert texts and not [f for f in texts if person in f.read_text(encoding="utf-8").casefold()], "a name goes nowhere"


def test_mhqa_s_printed_numbers_differ_in_five_places(made, datasets):
    folder, _, _ = made("mhqa")
    verdicts = table(folder, "ledger/mhqa/verdicts").set_index("claim")
    differs = verdicts[verdicts["verdict"] == "differs"]
    assert differs["note"].to_dict() == {
        "Table 2/BERT-base / SFT/Overall / Acc.": "overall",
        "Table 2/MentalBERT / base/Overall / Acc.": "mentalbert_overall",
        "Section 6.1/BioBERT": "biobert_overall",
        "Section 6.2": "factoid_best",
        "Section 7.2/most above": "one_to_two",
    }
    assert verdicts.loc["Table 1/Depression / Total/MHQA-Gold", "convention"] == "distinct", "617 rows, 616 questions"
    few_shot = verdicts.query("note == 'few_shot'")["verdict"]
    assert few_shot.tolist() == ["undecided"] * 18, "the file has 1,599 of 2,475 rows"
    assert set(verdicts["reason"]) == {"", "not_fetched", "not_in_release", "said_in_words"}
    gone = verdicts.query("reason == 'not_in_release'")["row"].unique()
    assert {g for g in gone if "GPT" in g} == {"GPT-3.5 / zero-shot", "Zero-Shot / GPT-3.5", "GPT-3.5-Turbo"}
    assert verdicts.loc["Section 3.4/kappa", ["convention", "n_tried"]].tolist() == ["agreeing", 1]


def test_what_is_published_rests_on_files_that_others_have():
    known = {"registered": True}
    ours, copied, strange = ({"registered": False} for _ in range(3))
    assert command.check_clean("mentat", {"LICENSE": known}) == {}
    same = command.check_clean("mentat", {"LICENSE": known, "wrong_options.json": copied})
    assert list(same) == ["wrong_options.json"] and "mentat/config/config_params.py" in same["wrong_options.json"]
    with pytest.raises(ValueError, match=r"creators\.csv, which others do not have: recovered by this project"):
        command.check_clean("mentat", {"LICENSE": known, "creators.csv": ours})
    with pytest.raises(ValueError, match="more.csv, which others do not have: the registry does not know it"):
        command.check_clean("mhqa", {"more.csv": strange})


def test_what_others_cannot_have_is_left_out_of_what_is_published(tmp_path, capsys):
    source = tmp_path / "source" / "deep"
    source.mkdir(parents=True)
    (source / "creators.csv").write_text("question,option\n1,A\n")
    (source / "wrong_options.json").write_text("{}")
    released = lambda public: command._released(tmp_path / str(public), "mentat", tmp_path / "source", public)
    assert [*released(False).files] == ["creators.csv", "wrong_options.json"] and not capsys.readouterr().out
    public = released(True)
    assert [*public.files] == ["wrong_options.json"] and public.passed_over == 1
    assert re.search(r"left out, since others do not have it .*: \S+deep/creators\.csv", capsys.readouterr().out)
    record = json.loads((public.folder / "release.json").read_text())["files"]
    assert [*command.check_clean("mentat", record)] == ["wrong_options.json"]


# ---------------------------------------------------------------- errors


def test_a_study_without_released_files_is_refused():
    assert [*study_files("replication.yaml")] == ["counselingbench", "mentat", "mhqa"]
    with pytest.raises(ValueError, match=r"must be a study whose files are released .*'medqade'; `mhbench import`"):
        replicate("medqade")


def test_a_replication_of_one_study_is_no_place_for_another(tmp_path):
    (tmp_path / "mine.txt").write_text("something else")
    with pytest.raises(ValueError, match="--to must be new.* with other files; take another folder"):
        replicate("mhqa", tmp_path, tmp_path)


def test_a_folder_without_the_release_is_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="--from must hold files of mhqa"):
        replicate("mhqa", tmp_path / "empty", tmp_path / "to")


def test_what_is_not_installed_is_named_with_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyAesCrypt", None)
    with pytest.raises(ImportError, match=r"pyAesCrypt must be installed.*pip install 'mhbench\[pipeline,sources\]'"):
        replicate("mhqa", tmp_path, tmp_path / "to")


def test_a_wrong_password_is_told_and_the_right_one_goes_on(datasets, tmp_path, monkeypatch):
    monkeypatch.setenv("MHBENCH_MENTAT_PASSWORD", "wrong")
    there = released(datasets, "mentat")
    said = mhbench("replicate", "mentat", "--from", there, "--to", tmp_path / "to", cwd=tmp_path, ok=False)
    assert "password must be that of the release" in said and "see the authors' README" in said
    assert json.loads((tmp_path / "to" / ".mhbench" / "replication.json").read_text()) == {"study": "mentat"}


# ---------------------------------------------------------------- what is committed


@pytest.mark.parametrize("name", study_files("replication.yaml"))
def test_what_is_committed_is_what_the_files_give(made, request, name):
    if name == "mentat":
        request.getfixturevalue("password")
    _, _, published = made(name)
    now = json.loads((made(name)[0] / ".mhbench" / "release" / "release.json").read_text(encoding="utf-8"))["files"]
    held = pd.read_csv(COMMITTED / name / "release.csv").set_index("file")["sha256"].to_dict()
    if held != {file: known["sha256"] for file, known in now.items()}:
        pytest.skip("the files at hand are not those that reports/replication was made from")
    remedy = f"make it again: mhbench replicate {name} --publish reports/replication"
    assert {f.name for f in (COMMITTED / name).iterdir()} == {f.name for f in published.iterdir()}, remedy
    for file in sorted(published.glob("*.csv")):
        ours, theirs = pd.read_csv(file), pd.read_csv(COMMITTED / name / file.name)
        pd.testing.assert_frame_equal(ours, theirs, rtol=1e-3, atol=1e-4, obj=f"{name}/{file.name} ({remedy})")


@pytest.mark.parametrize("name", study_files("replication.yaml"))
def test_what_is_committed_has_no_text_and_no_label(name):
    "Without the corpora: an item is named in the tables that the replication declares, and nowhere else."
    declared = {f.replace("/", "-", 1) for f in replication(name).shown}
    files = sorted((COMMITTED / name).iterdir())
    assert {f.suffix for f in files} == {".csv", ".ipynb", ".md", ".json"} and sum(
        f.stat().st_size for f in files
    ) < 3 << 20
    for file in files:
        if file.suffix == ".csv":
            frame = pd.read_csv(file, dtype=str)
            named = bool(IDS.search(written_out(frame)))
            assert not named or file.stem in declared, file
            forbidden = {"option", "label", "key", "answer", "text", "probability", "comment", "item_id"}
            assert not named or not forbidden & set(frame), file
        elif file.suffix == ".ipynb":
            nb = json.loads(file.read_text(encoding="utf-8"))
            for cell in [c for c in nb["cells"] if c["cell_type"] == "code"]:
                shows = re.search(r's\.table\(\s*"(\w+)"', "".join(cell["source"]))
                text = re.sub(r'"image/png": "[^"]*"', "", json.dumps(cell))
                assert not IDS.search(text) or f"{file.stem}-{shows[1]}" in declared, (file, "".join(cell["source"]))


@pytest.mark.parametrize("name", study_files("replication.yaml"))
def test_a_slip_is_found_where_the_corpus_is_at_hand(made, request, tmp_path, name):
    "The committed files pass; one with a row an item, a question's words or a path does not."
    if name == "mentat":
        request.getfixturevalue("password")
    top, _, _ = made(name)
    protected, declared = held_by(top, name), replication(name).shown
    check_published_files(COMMITTED / name, protected, declared)
    item = next(i for i in protected.items if len(i.question.split()) > 8)
    slips = {
        "no item beside": f"item_id,answer\n{item.item_id},B\n",
        "no text of the corpus": f'n,note\n1,"see {item.question.upper()}"\n',
        "no path of a machine": "n,note\n1,/" + "home/somebody/corpus.csv\n",
    }
    for rule, text in slips.items():
        (tmp_path / "score-slip.csv").write_text(text, encoding="utf-8")
        with pytest.raises(ValueError, match=rule):
            check_published_files(tmp_path, protected, declared)
    (tmp_path / "score-slip.csv").unlink()
    nb = {"cells": [{"cell_type": "code", "source": ["x"], "outputs": [{"text": [f"{item.base} B"]}]}]}
    (tmp_path / "score.ipynb").write_text(json.dumps(nb), encoding="utf-8")
    with pytest.raises(ValueError, match="no item beside"):
        check_published_files(tmp_path, protected, declared)


@pytest.mark.parametrize("name", study_files("replication.yaml"))
def test_slips_in_the_printed_numbers_are_found_on_the_real_run(made, request, name):
    "Numbers that come out as printed, each with a slip: all are found, and no other number's verdict changes."
    if name == "mentat":
        request.getfixturevalue("password")
    folder, _, _ = made(name)
    tables = tables_of_run(folder / "results", name)
    here = inventory_of(name, folder / ".mhbench" / "release")
    claims, altered = twenty_in(load_claims(claims_file(name)), tables, here)
    assert len(altered) >= 12
    found_slips(claims, tables, altered, here)


@pytest.mark.parametrize("name", study_files("replication.yaml"))
def test_a_replication_names_stages_and_files_that_are_there(name):
    said = replication(name)
    stages = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
    assert set(said.stages) <= set(stages)
    assert {f.split("/")[0] for f in said.shown} <= set(stages)
