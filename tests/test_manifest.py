"The manifest of a run: what of a selection is fresh, stale, failed or absent, and what the next run asks again."

import json
import os
import shutil
import subprocess
import time

import pytest
import yaml
from conftest import BIN, ENV, ROOT

from mhbench.records.database import stage_folder
from mhbench.run import execute, inputs
from mhbench.run.graph import PARAMETERS, pipeline, write_json
from mhbench.run.losses import check_outcome, failures_left, named_parts, selected_run
from mhbench.run.params import load_params
from mhbench.steps.failures import LOST_ANSWERS, Failure
from mhbench.tools.manifest import _Hashes, _inputs_now, fresh_studies, manifest, publishable_parts, states_in_words

RUN = {"studies": ["mhqa", "mentat"], "models": ["minilm"]}
LOST = Failure("generate", "mhqa", "minilm", "zero_shot", LOST_ANSWERS, "HTTP 500", 9, 0, 9, "all", "mend it", True)


@pytest.fixture
def top(tmp_path, monkeypatch):
    "A folder in which all parts of two studies have run under DVC."
    for name in ("dvc.yaml", "params.yaml"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "nbs" / "stages", tmp_path / "nbs" / "stages")
    whole = yaml.safe_load((ROOT / "run.yaml").read_text(encoding="utf-8"))["run"]
    run = {k: [] if isinstance(v, list) else v for k, v in whole.items()} | RUN
    (tmp_path / "run.yaml").write_text(yaml.safe_dump({"run": run}), encoding="utf-8")
    monkeypatch.setenv("MHBENCH_ROOT", str(tmp_path))
    for part in named_parts(run, tmp_path):
        lay(tmp_path, *part)
    record(tmp_path)
    return tmp_path


def lay(top, stage, study, model=None, failures=()):
    folder = top / "results" / stage_folder(stage, study, model)
    folder.mkdir(parents=True, exist_ok=True)
    contents = {"stage": stage, "failures": [f._asdict() for f in failures]}
    (folder / "contents.json").write_text(json.dumps(contents), encoding="utf-8")


def record(top):
    "What DVC would write into dvc.lock of what is there."
    hashes, params, stages = _Hashes(top), yaml.safe_load((top / "params.yaml").read_text(encoding="utf-8")), {}
    for stage, study, model in named_parts(selected_run(top), top):
        left = f"results/{stage_folder(stage, study, model)}"
        deps = [
            f"nbs/stages/{stage}.ipynb",
            *([f"results/studies/{study}/generate/minilm"] if stage == "score" else []),
        ]
        of = {"deps": deps, "outs": [left]}
        entry = {k: [{"path": p, "md5": hashes.of(top / p)} for p in paths] for k, paths in of.items()}
        entry["params"] = {"params.yaml": {"seed": params["seed"]}}
        stages[f"{stage}@{'-'.join(filter(None, (study, model)))}"] = entry
    (top / "dvc.lock").write_text(yaml.safe_dump({"schema": "2.0", "stages": stages}), encoding="utf-8")


def states(top) -> dict[str, str]:
    return {p.named: f"{p.state} {p.cause}".strip() for p in manifest(top) if p.study}


def test_what_was_run_is_fresh_until_something_changes(top):
    assert set(states(top).values()) == {"fresh"}
    assert set(publishable_parts(manifest(top))) == {(s, of) for s in ("prepare", "score") for of in RUN["studies"]}
    file = top / "params.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace("seed: 20250107", "seed: 1", 1), encoding="utf-8")
    assert set(states(top).values()) == {"stale seed has changed"} and not publishable_parts(manifest(top))


@pytest.mark.parametrize("name", ["params.yaml", "run.yaml"])
def test_what_the_next_run_would_write_is_worked_out_where_a_file_is_newer_than_the_last_run(top, name, monkeypatch):
    shutil.copytree(ROOT / "nbs" / "studies", top / "nbs" / "studies")
    monkeypatch.setattr(inputs, "input_files", lambda p, top: {"report.json": {"seed": p["seed"]}})
    written = top / "results" / "inputs" / "report.json"
    assert _inputs_now(top) == {}, "nothing was written"
    write_json({}, written)
    later = time.time() + 60
    os.utime(written, (later, later))
    assert _inputs_now(top) == {}
    os.utime(top / name, (later + 60, later + 60))
    assert written in _inputs_now(top)


def test_new_answers_make_the_scores_stale_and_a_hand_that_changes_them_too(top):
    lay(top, "generate", "mhqa", "minilm", [LOST])
    now = states(top)
    assert now["score mhqa"] == "stale generate of mhqa has new results" and now["score mentat"] == "fresh"
    assert now["generate mhqa minilm"] == "stale results/studies/mhqa/generate/minilm is not what it left"
    fresh, others = fresh_studies(manifest(top))
    assert fresh == ["mentat"] and len(others) == 1 and others[0].startswith("mhqa (")


@pytest.mark.parametrize("changed", ["answers.csv", "ratings.csv"])
def test_what_read_a_file_that_somebody_has_changed_is_stale(top, changed):
    for name in ("answers.csv", "ratings.csv"):
        (top / name).write_text("item_id,text\nq1,A\n", encoding="utf-8")
    params = yaml.safe_load((top / "params.yaml").read_text(encoding="utf-8"))
    for study in params["studies"].values():  # whose notebooks are not here
        study.pop("results", None)
    params["studies"]["mhqa"]["prepare"] |= {"answers": {"colleague": "answers.csv"}, "ratings": "ratings.csv"}
    (top / "params.yaml").write_text(yaml.safe_dump(params, sort_keys=False), encoding="utf-8")
    p = load_params(top / "params.yaml", lists=False)
    for name, content in inputs.input_files(p, top).items():
        write_json(content, top / "results" / "inputs" / name, sort_keys=True)
    write_json(inputs.parameters_of_run(p, top), top / PARAMETERS)
    lock = yaml.safe_load((top / "dvc.lock").read_text(encoding="utf-8"))
    path = "results/inputs/prepare/mhqa.json"
    lock["stages"]["prepare@mhqa"]["deps"].append({"path": path, "md5": _Hashes(top).of(top / path)})
    (top / "dvc.lock").write_text(yaml.safe_dump(lock), encoding="utf-8")
    written = (top / "results" / "inputs" / "report.json").stat().st_mtime
    for name in ("params.yaml", "run.yaml"):  # they are older than the run
        os.utime(top / name, (written - 9, written - 9))
    assert states(top)["prepare mhqa"] == "fresh"
    (top / changed).write_text("item_id,text\nq1,B\n", encoding="utf-8")
    os.utime(top / changed, (written - 99, written - 99))  # as a copy keeps the time of its original
    assert states(top)["prepare mhqa"] == "stale its code, inputs or settings have changed"


def test_the_ratings_beside_a_corpus_and_all_files_of_a_release_are_read_by_their_study(top):
    files = (
        "data/items.csv",
        "data/rated.csv",
        "data/pool.csv",
        "release/a.csv",
        "release/b.csv",
        "release/readme.txt",
    )
    for name in files:
        (top / name).parent.mkdir(exist_ok=True)
        (top / name).write_text("", encoding="utf-8")
    words = "files: '*.csv'\nitem: item\nrater: rater\nvalue: score\nscale: 1..6\n"
    (top / "release" / "d.yaml").write_text(words, encoding="utf-8")
    prepare = {"path": "data/items.csv", "options": {"ratings": {"path": "rated.csv"}}, "answers": {"m": "none.csv"}}
    stages = {"prepare": prepare, "ratings": {"description": "release/d.yaml"}, "panel": {"pool": "data/pool.csv"}}
    p = {"studies": {"own": stages}}
    release = {"release/d.yaml", "release/a.csv", "release/b.csv"}
    assert set(inputs.source_files(p, "own")) == {"data/items.csv", "data/rated.csv", "data/pool.csv"} | release


def test_what_another_selection_left_is_not_named(top):
    lay(top, "score", "medqade")
    (top / "results" / "studies" / "mentat" / "score" / "contents.json").unlink()
    assert not [name for name in states(top) if "medqade" in name]
    assert states(top)["score mentat"] == "absent it has not been run"
    assert "absent: score mentat (it has not been run): `dvc repro`" in states_in_words(manifest(top))


def test_a_stage_that_breaks_leaves_a_row_where_dvc_expects_its_output(top):
    home = top / "results" / "studies" / "mhqa" / "score"
    (home / "scores.parquet").write_bytes(b"of an earlier run")
    (home / "notebook.failed.ipynb").write_text("{}", encoding="utf-8")
    error = RuntimeError(
        "run_stage: score mhqa ended in cell 5 of score.ipynb: ValueError: a; got b; mend c\n(the rest)"
    )
    execute.leave_failure("score", "mhqa", None, error)
    assert sorted(os.listdir(home)) == ["absent.txt", "contents.json"]
    for out in pipeline(top)["score"]["outs"]:
        path = (out if isinstance(out, str) else next(iter(out))).replace("${item.study}", "mhqa")
        assert (top / path).exists(), path
    assert (top / ".mhbench" / "failed" / "score-mhqa.ipynb").exists()
    record(top)
    assert states(top)["score mhqa"] == "failed ValueError: a; got b; mend c"
    assert ("score", "mhqa") not in publishable_parts(manifest(top))
    with pytest.raises(RuntimeError, match="mhqa, score ended with an error: ValueError: a; got b"):
        check_outcome(top)


def test_the_outcome_is_told_of_models_without_any_answer_alone(top):
    lay(top, "generate", "mhqa", "minilm", [LOST._replace(n_answered=4, n_lost=5)])
    assert "1 of them with losses" in check_outcome(top)
    lay(
        top, "generate", "mhqa", "minilm", [LOST._replace(n_answered=4, n_lost=5, mode=m) for m in ("zero_shot", "cot")]
    )
    assert "1 of them with losses" in check_outcome(top), "parts are counted, and not what they have lost"
    lay(top, "generate", "mhqa", "minilm", [LOST])
    with pytest.raises(RuntimeError, match="none of 9 requests was answered: HTTP 500; mend it"):
        check_outcome(top)


def test_what_is_pending_is_asked_again_and_nothing_else(top):
    lay(top, "generate", "mhqa", "minilm", [LOST])
    lay(top, "score", "mhqa", failures=[LOST._replace(again=False)])
    folder = top / "results" / "inputs" / inputs.ASKED_AGAIN

    def times():
        inputs._record_again({"run": selected_run(top)}, folder, top)
        files = sorted(f for f in folder.rglob("*.json") if json.loads(f.read_text(encoding="utf-8"))["times"])
        return {f.relative_to(folder).as_posix(): json.loads(f.read_text(encoding="utf-8"))["times"] for f in files}

    assert times() == {"generate/mhqa/minilm.json": 1}
    assert times() == {"generate/mhqa/minilm.json": 2}, "it failed again"
    lay(top, "generate", "mhqa", "minilm")
    assert times() == {"generate/mhqa/minilm.json": 2}, "a number that falls would bring back what failed"


def test_causes_come_before_what_follows_from_them(top):
    lay(top, "prepare", "mhqa", failures=[LOST._replace(follows="collect, mhqa", broke=True)])
    lay(top, "score", "mhqa", failures=[LOST._replace(broke=True)])
    told = failures_left(top / "results", named_parts(selected_run(top), top))
    assert [f["follows"] for f in told] == ["", "collect, mhqa"]


@pytest.mark.whole
def test_the_hashes_are_those_of_dvc(tmp_path):
    subprocess.run([BIN / "dvc", "init", "--no-scm", "-q"], cwd=tmp_path, check=True, env=ENV)
    folder = tmp_path / "data"
    for name in ("b/ü.txt", "a.txt", "b.txt", "__pycache__/x.pyc"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name, encoding="utf-8")
    (tmp_path / ".dvcignore").write_text("__pycache__/\n", encoding="utf-8")
    subprocess.run([BIN / "dvc", "add", "-q", "data"], cwd=tmp_path, check=True, env=ENV)
    told = yaml.safe_load((tmp_path / "data.dvc").read_text(encoding="utf-8"))["outs"][0]["md5"]
    assert _Hashes(tmp_path).of(folder) == told
