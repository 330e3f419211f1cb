"""Two runs side by side: from folders on the disk, by the command line."""

import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import yaml

from mhbench.run.cli import main
from mhbench.stats.tests import mcnemar
from mhbench.tools.compare import _changed_numbers, compare_respondents, paired_accuracies, results_of

HEAD = {
    "measure": "accuracy",
    "model": "m",
    "mode": "zero_shot",
    "n": 200,
    "ci_low": 0.0,
    "ci_high": 1.0,
    "level": 0.95,
}


def run_of(folder, right):
    n = len(right)
    scores = {"study": "s", "set": None, "item_id": [f"q{k}" for k in range(n)], "cluster": [f"q{k}" for k in range(n)]}
    scores |= {"model": "m", "mode": "zero_shot", "answered_by": "plain", "n_votes": 1, "correct": right}
    scores |= {"status": "ok", "how": "text", "read": True}
    out = folder / "results" / "studies" / "s" / "score"
    out.mkdir(parents=True)
    pd.DataFrame(scores).to_parquet(out / "scores.parquet")
    pd.DataFrame([HEAD | {"estimate": np.mean(right)}]).to_parquet(out / "headline.parquet")
    return folder


def test_a_change_that_two_intervals_hide_is_seen_item_by_item(tmp_path, capsys):
    rng = np.random.default_rng(3)
    before = (rng.random(200) < 0.5).astype(float)
    after = np.where((rng.random(200) < 0.1) & (before == 0), 1.0, before)
    a, b = run_of(tmp_path / "a", before), run_of(tmp_path / "b", after)
    found = paired_accuracies(results_of(str(a)).scores, results_of(str(b)).scores).iloc[0]
    assert found["estimate"] == pytest.approx(after.mean() - before.mean())
    assert found["ci_low"] > 0 and mcnemar(after, before).p < 0.05, "both say that it is there"
    half = 1.96 * np.sqrt(0.25 / 200)
    assert abs(found["estimate"]) < 2 * half, "and the two intervals overlap"
    page = tmp_path / "page.html"
    assert main(["compare", str(a), str(b), "--to", str(page)]) == 0
    assert "200" in capsys.readouterr().out and "item by item" in page.read_text(encoding="utf-8")
    assert main(["compare", str(a), str(tmp_path)]) == 1
    assert "must hold main numbers" in capsys.readouterr().err


MAKE = """
import json, pathlib, pandas as pd, yaml
right = [float(k < yaml.safe_load(open("params.yaml"))["right"]) for k in range(40)]
ids = [f"q{k}" for k in range(40)]
rows = {"study": "s", "set": None, "item_id": ids, "cluster": ids, "model": "m", "mode": "zero_shot"}
rows |= {"status": "ok", "how": "text", "read": True}
out = pathlib.Path("results/studies/s/score")
out.mkdir(parents=True, exist_ok=True)
pd.DataFrame(rows | {"answered_by": "plain", "n_votes": 1, "correct": right}).to_parquet(out / "scores.parquet")
main = {"measure": "accuracy", "model": "m", "mode": "zero_shot", "n": 40, "estimate": sum(right) / 40}
pd.DataFrame([main | {"ci_low": 0.0, "ci_high": 1.0, "level": 0.95}]).to_parquet(out / "headline.parquet")
kept = pathlib.Path("results/metrics/s/score.json")
kept.parent.mkdir(parents=True, exist_ok=True)
kept.write_text(json.dumps({"accuracy": {"m/zero_shot": {"n": 40, "estimate": sum(right) / 40}}, "n_items": 40}))
"""
STAGE = """
stages:
  score:
    matrix: {study: [s]}
    cmd: python make.py
    deps: [make.py]
    params: [right]
    outs:
      - results/studies/${item.study}/score
      - results/metrics/${item.study}/score.json: {cache: false}
"""


@pytest.mark.whole
def test_commits_tags_and_experiments_are_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MHBENCH_ROOT", str(tmp_path))
    for variable in ("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"):
        monkeypatch.setenv(variable, "tests@localhost")
    monkeypatch.setenv("PATH", f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}")
    files = {
        "make.py": MAKE,
        "dvc.yaml": STAGE,
        "params.yaml": "right: 10\nrun: {studies: [s], models: [m]}\n",
        ".gitignore": "/results/*\n!/results/metrics/\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")

    def do(*commands):
        for c in commands:
            subprocess.run(c.split(), check=True, capture_output=True, timeout=300)

    do("git init -q", "dvc init -q", "dvc repro -q", "git add -A", "git commit -qm first", "git tag v1")
    do("dvc exp run -q -n better -S right=20", "git checkout -q .", "dvc checkout -q")
    assert main(["compare", "v1", "better", "--to", "both.html"]) == 0
    said = capsys.readouterr().out
    assert "1 of 1 main numbers that both runs have differ" in said and "0.250 [" in said, said
    assert "parameter right    10     20" in said.split("better minus v1")[0] and "code" not in said, (
        "what was run is first"
    )
    page = (tmp_path / "both.html").read_text(encoding="utf-8")
    assert "0.250 [" in page and "item by item" in page
    assert main(["compare", "HEAD", "."]) == 0
    said = capsys.readouterr().out
    assert "0 of 1 main numbers that both runs have differ" in said and "nothing: the same studies, models" in said
    assert main(["compare", "HEAD", "nowhere"]) == 1
    assert "must be a folder or a revision" in capsys.readouterr().err
    shutil.rmtree(tmp_path / ".dvc" / "cache")  # as where somebody else ran that commit
    assert main(["compare", "v1", "."]) == 1
    said = capsys.readouterr().err
    assert "must hold main numbers" in said and "score/s (in no cache here: `dvc metrics diff v1`" in said, said


def test_numbers_are_paired_by_their_names_and_leftovers_of_another_selection_stay_out(tmp_path, capsys):
    "One run lacks a row, one has two of a name; both folders have a study that is not selected now."
    lists = {"a": [("x", 0.1), ("y", 0.2), ("z", 0.3), ("z", 0.4)], "b": [("y", 0.2), ("z", 0.3), ("w", np.nan)]}
    for name, rows in lists.items():
        run = run_of(tmp_path / name, np.ones(20))
        head = pd.DataFrame([HEAD | {"model": m, "estimate": e} for m, e in rows])
        head.to_parquet(run / "results" / "studies" / "s" / "score" / "headline.parquet")
        old = run / "results" / "studies" / "old" / "score"
        shutil.copytree(run / "results" / "studies" / "s" / "score", old)
        head.assign(estimate=0.9 if name == "a" else 0.1).to_parquet(old / "headline.parquet")
        lock = {"stages": {"score@s": {"params": {"params.yaml": {"seed": 1 if name == "a" else 2}}}}}
        (run / "dvc.lock").write_text(yaml.safe_dump(lock))
        chosen = {"run": {"studies": ["s"], "models": ["y", *(["w"] if name == "b" else [])]}}
        (run / "run.yaml").write_text(yaml.safe_dump(chosen))
        (run / "params.yaml").write_text("seed: 1\n")
    a, b = tmp_path / "a", tmp_path / "b"
    assert main(["compare", str(a), str(b)]) == 0
    said = capsys.readouterr().out
    ran, _, numbers = said.partition(f"{b} minus {a}")
    assert re.search(r"models +y +y, w\n", ran) and re.search(r"parameter +seed +1 +2\n", ran), ran
    assert "0 of 1 main numbers that both runs have differ\n" in numbers and "old" not in numbers, numbers
    assert f"1 are in {a} alone: score of s" in numbers and f"2 are in {b} alone: score of s" in numbers
    assert f"2 of {a} share their name with another one, and are not compared" in numbers
    (b / "dvc.lock").unlink()
    assert main(["compare", str(a), str(b)]) == 0
    assert f"parameters, code and files are not known of {b}: no stage of it in dvc.lock" in capsys.readouterr().out
    (a / "run.yaml").unlink()
    assert main(["compare", str(a), str(b)]) == 0
    assert f"not known of {a}: no run.yaml beside its results" in capsys.readouterr().out


def test_a_number_that_is_withheld_in_one_run_differs(tmp_path, capsys):
    for name, value in (("a", 0.5), ("b", np.nan)):
        run = run_of(tmp_path / name, np.ones(20))
        pd.DataFrame([HEAD | {"estimate": value}]).to_parquet(
            run / "results" / "studies" / "s" / "score" / "headline.parquet"
        )
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    assert "1 of 1 main numbers that both runs have differ" in capsys.readouterr().out


def test_python_m_mhbench_is_the_command():
    done = subprocess.run([sys.executable, "-m", "mhbench", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("mhbench ")


def test_what_answered_stands_beside_the_numbers_of_two_runs(tmp_path, capsys):
    runs = [run_of(tmp_path / name, np.ones(20)) for name in "abc"]
    row = {f"served_{k}": "not known" for k in ("model", "provider", "fingerprint", "tier", "thought")} | {"n": 20}
    days = {"first": "2026-03-01", "last": "2026-03-02", "changed": "", "n_terms": 1}
    for run, served in zip(runs, ("m-2026-01", "m-2026-03", "m-2026-03")):
        kinds = [{"model": "m", "served_model": served}, {"model": "recorded"}]
        table = pd.DataFrame([row | days | kind for kind in kinds])
        table.to_parquet(run / "results" / "studies" / "s" / "score" / "served.parquet")
    a, b, c = (results_of(str(run)) for run in runs)
    assert compare_respondents(a, b)["model"].tolist() == ["m", "recorded"]
    assert compare_respondents(b, c)["model"].tolist() == ["recorded"], "of which nothing is known in either"
    assert main(["compare", str(runs[0]), str(runs[1])]) == 0
    said = capsys.readouterr().out.split("Models that answered")[1]
    assert "m-2026-01" in said and "m-2026-03" in said and "2026-03-01 to 2026-03-02" in said and "not known" in said


def test_a_number_that_neither_run_could_compute_has_not_changed():
    numbers = pd.DataFrame(
        {
            "model": list("abcd"),
            "first": [np.nan, 0.5, 0.5, 0.25],
            "second": [np.nan, np.nan, 0.5, 0.75],
            "there": ["both", "both", "both", "second"],
        }
    )
    assert list(_changed_numbers(numbers)["model"]) == ["b"]
