"One model that fails costs a night no other model, and the end is one list."

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
import yaml
from conftest import ROOT

from mhbench.records.schema import Item, Response, write_records
from mhbench.run import cli, keep_going
from mhbench.run.keep_going import (
    NOTED_IN,
    Stop,
    mending_line,
    note_stop,
    run_all,
    stop_lines,
    unanswered,
    unanswered_lines,
)
from mhbench.run.params import WRITTEN

CUT = "generate: truncated answers must be at most 0.05 of a mode's (max_truncated); got 12 of 12 (bad, cot); look"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name in ("params.yaml", "run.yaml", "dvc.yaml"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "nbs" / "stages", tmp_path / "nbs" / "stages")
    chosen = (tmp_path / "run.yaml").read_text().replace("models: [minilm,", "models: [gemma, minilm,", 1)
    studies = yaml.safe_load((tmp_path / "params.yaml").read_text())["studies"]
    for stage in WRITTEN:  # where a language model takes part
        through = ", ".join(name for name, sections in studies.items() if stage in sections)
        chosen = chosen.replace(f"  {stage}: []\n", f"  {stage}: [{through}]\n", 1)
    (tmp_path / "run.yaml").write_text(chosen)
    monkeypatch.setattr(keep_going, "root", lambda: tmp_path)
    monkeypatch.setattr(cli, "root", lambda: tmp_path)
    monkeypatch.setattr(keep_going, "texts_of", lambda stop: [])
    return tmp_path


def pipeline(monkeypatch, folder, failing):
    "Stands in for DVC: (stage, study, model) of `failing` end with an error, and the rest of the night is noted."
    night = []

    def run(words, cwd, env):
        chosen = yaml.safe_load((folder / "run.yaml").read_text())["run"]
        models = chosen["models"]
        assert {*(chosen["subjects"] or []), *(chosen["judges"] or [])} <= {*models}, "who is left out judges nothing"
        night.append((words[3:], models))
        monkeypatch.setenv(NOTED_IN, env[NOTED_IN])
        stopped = [(stage, study, model) for stage, study, model in failing if model in (*models, None)]
        for stage, study, model in stopped:
            note_stop(SimpleNamespace(command="run", stage=stage, study=study, model=model), RuntimeError(CUT))
            if "--keep-going" not in words:
                break
        monkeypatch.delenv(NOTED_IN)
        return SimpleNamespace(returncode=255 if stopped else 0)

    monkeypatch.setattr(keep_going.subprocess, "run", run)
    return night


def test_a_model_that_fails_is_left_out_of_the_numbers_and_selected_as_before(folder, monkeypatch):
    chosen = (folder / "run.yaml").read_text().replace("  subjects:  ", "  subjects: [gemma, minilm]  ", 1)
    (folder / "run.yaml").write_text(chosen.replace("  judges:  ", "  judges: [gemma, minilm]  ", 1))
    before = (folder / "run.yaml").read_bytes()
    night = pipeline(monkeypatch, folder, [("generate", "mhqa", "gemma"), ("generate", "mentat", "gemma")])
    status, stops, out = run_all()
    assert (status, out) == (0, ["gemma"]) and [(s.study, s.model) for s in stops] == [
        ("mhqa", "gemma"),
        ("mentat", "gemma"),
    ]
    assert [words for words, _ in night] == [["repro", "--quiet", "--keep-going"]] * 2
    assert night[1][1] == [m for m in night[0][1] if m != "gemma"]
    assert (folder / "run.yaml").read_bytes() == before


def test_fail_fast_ends_at_the_first_failure(folder, monkeypatch):
    night = pipeline(monkeypatch, folder, [("generate", "mhqa", "gemma"), ("generate", "mentat", "minilm")])
    status, stops, out = run_all(fail_fast=True)
    assert status and len(stops) == 1 and out == [] and [words for words, _ in night] == [["repro", "--quiet"]]


def test_a_study_that_fails_leaves_no_model_out(folder, monkeypatch):
    night = pipeline(monkeypatch, folder, [("prepare", "mhqa", None)])
    status, stops, out = run_all()
    assert status and [s.of for s in stops] == ["(prepare, mhqa)"] and out == [] and len(night) == 1


def outcomes(folder, stage, *where, **status):
    file = folder.joinpath("results", "metrics", stage, *where[:-1], f"{where[-1]}.json")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"status": status}))
    return file


def test_what_has_no_answer_is_asked_again_and_listed(folder, monkeypatch, capsys):
    lacking = outcomes(folder, "generate", "mhqa", "gemma", ok=9, error=3)
    outcomes(folder, "generate", "mhqa", "minilm", ok=12)
    outcomes(folder, "judge", "medqade", ok=4, error=1)
    night = pipeline(monkeypatch, folder, [])
    status, stops, out = run_all()
    assert (status, stops, out) == (0, [], [])
    again = ["--single-item", "--force", "generate@mhqa-gemma", "judge@medqade"]
    assert [words[2:] for words, _ in night] == [["--keep-going"], ["--keep-going", *again], ["--keep-going"]]
    assert unanswered_lines(unanswered(folder))[1:] == [
        "  gemma (generate, mhqa): 3 of 12",
        "  (judge, medqade): 1 of 5",
    ]
    night = pipeline(monkeypatch, folder, [])
    real = keep_going.subprocess.run

    def rerun(words, cwd, env):  # the stages were out of date, and asked again by that
        os.utime(lacking, ns=(1, 1))
        outcomes(folder, "judge", "medqade", ok=5)
        return real(words, cwd, env)

    monkeypatch.setattr(keep_going.subprocess, "run", rerun)
    run_all()
    assert len(night) == 1
    monkeypatch.setattr("mhbench.run.summary.print_summary", lambda a: None)
    assert cli.main(["run", "--all"]) == 0
    assert "gemma (generate, mhqa): 3 of 12" in capsys.readouterr().err


def test_the_command_ends_with_the_list(folder, monkeypatch, capsys):
    pipeline(monkeypatch, folder, [("generate", "mhqa", "gemma")])
    printed = []
    monkeypatch.setattr("mhbench.run.summary.print_summary", lambda a: printed.append(a))
    assert cli.main(["run", "--all"]) == 1 and len(printed) == 1
    said = capsys.readouterr().err
    assert "1 stopped; gemma left out of the numbers" in said and "gemma (generate, mhqa): generate: truncated" in said
    assert "models.gemma in params.yaml: max_tokens: {answer: 1024" in said
    assert cli.main(["run", "score", "--fail-fast"]) == 1
    assert "--fail-fast must come with --all" in capsys.readouterr().err


def test_three_of_its_texts_stand_in_the_list(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(keep_going, "items_file", lambda *_: tmp_path / "items.parquet")
    monkeypatch.setattr(keep_going, "place", lambda *_: tmp_path)
    asks = dict(study="mhqa", task="multiple_choice", question="Which?", options=["a", "b"], key=["A"], source="here")
    items = [Item(item_id=f"q{i}", **asks) for i in range(5)]
    texts = ["A", "It depends on\nthe case.", "Hm.", "Well.", "B"]
    said = [
        Response(item_id=i.item_id, study="mhqa", model="bad", mode="zero_shot", text=t) for i, t in zip(items, texts)
    ]
    write_records(items, tmp_path / "items.parquet", Item)
    write_records(said, tmp_path / "responses.parquet", Response)
    lines = stop_lines([Stop("generate", "mhqa", "bad", CUT)], ["bad"])
    assert lines[2:5] == [f"    it wrote: {t}" for t in ("It depends on the case.", "Hm.", "Well.")]


@pytest.mark.parametrize(
    ("error", "texts", "line"),
    [
        (CUT, [""], "models.bad in params.yaml: thinking: true"),
        (CUT, ["First,"], "models.bad in params.yaml: max_tokens: {answer: 1024"),
        ("ask: the environment variable K must hold the key; got nothing; export K=... and run again", [], "export K="),
        ("ask: it broke", [], "mhbench check bad"),
    ],
)
def test_the_line_that_mends_it(error, texts, line):
    assert mending_line(Stop("generate", "mhqa", "bad", error), texts).startswith(line)


def test_a_stage_that_is_killed_is_noted_and_nobody_waits(tmp_path):
    "SIGKILL of the process that a stage runs in: the command says so, with status 1, and notes it."
    pid, stage = tmp_path / "pid", tmp_path / "stage.py"
    works = f"import os, time; print(os.getpid(), file=open({str(pid)!r}, 'w'), flush=True); time.sleep(99)"
    stage.write_text(
        f"import mhbench.run.process as p\np._STAGE = {works!r}\n"
        "from mhbench.run.cli import main\nraise SystemExit(main(['run', 'score', '--study', 'mhqa']))\n"
    )
    noted = tmp_path / "stopped.jsonl"
    env = {**os.environ, NOTED_IN: str(noted)}
    command = subprocess.Popen([sys.executable, str(stage)], cwd=ROOT, env=env, stderr=subprocess.PIPE, text=True)
    while not (pid.exists() and pid.read_text().strip()) and command.poll() is None:
        time.sleep(0.05)
    os.kill(int(pid.read_text()), signal.SIGKILL)
    _, said = command.communicate(timeout=60)
    assert command.returncode == 1 and "the stage must end by itself; got SIGKILL from outside" in said
    assert json.loads(noted.read_text())["stage"] == "score"
