"""Two runs side by side, and a grid of parameters: from folders on the disk, by the command line."""

import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import yaml

from mhbench.run.cli import main
from mhbench.run.compare import paired_accuracies, results_of
from mhbench.run.sweep import sweep
from mhbench.stats.tests import mcnemar

HEAD = {
    "measure": "accuracy",
    "model": "m",
    "mode": "zero_shot",
    "n": 200,
    "ci_low": 0.0,
    "ci_high": 1.0,
    "level": 0.95,
}
POINT = """
import yaml, pandas as pd, pathlib
p = yaml.safe_load(open("params.yaml"))
if p["judge"]["threshold"] > 0.85: raise SystemExit(3)
out = pathlib.Path("results/report/headline.csv")
out.parent.mkdir(parents=True, exist_ok=True)
row = {"study": "s", "stage": "judge", "measure": "share", "model": "m", "mode": None, "n": 9}
row["estimate"] = p["judge"]["threshold"]
pd.DataFrame([row | {"ci_low": None, "ci_high": None, "level": 0.95}]).to_csv(out, index=False)
open("ran.txt", "a").write("x")
"""


def run_of(folder, right):
    n = len(right)
    scores = {"study": "s", "item_id": [f"q{k}" for k in range(n)], "cluster": [f"q{k}" for k in range(n)]}
    scores |= {"model": "m", "mode": "zero_shot", "answered_by": "plain", "n_votes": 1, "correct": right}
    out = folder / "results" / "score" / "s"
    out.mkdir(parents=True)
    pd.DataFrame(scores).to_parquet(out / "scores.parquet")
    pd.DataFrame([HEAD | {"estimate": np.mean(right)}]).to_parquet(out / "headline.parquet")
    return folder


def test_a_change_that_two_intervals_hide_is_seen_item_by_item(tmp_path, capsys):
    rng = np.random.default_rng(3)
    before = (rng.random(200) < 0.5).astype(float)
    after = np.where((rng.random(200) < 0.1) & (before == 0), 1.0, before)
    a, b = run_of(tmp_path / "a", before), run_of(tmp_path / "b", after)
    found = paired_accuracies(results_of(str(a)).scores, results_of(str(b)).scores, seed=1).iloc[0]
    assert found["estimate"] == pytest.approx(after.mean() - before.mean())
    assert found["ci_low"] > 0 and mcnemar(after, before).p < 0.05, "both say that it is there"
    half = 1.96 * np.sqrt(0.25 / 200)
    assert abs(found["estimate"]) < 2 * half, "and the two intervals overlap"
    page = tmp_path / "page.html"
    assert main(["compare", str(a), str(b), "--page", str(page)]) == 0
    assert "200" in capsys.readouterr().out and "item by item" in page.read_text(encoding="utf-8")
    assert main(["compare", str(a), str(tmp_path)]) == 1
    assert "must hold main numbers" in capsys.readouterr().err


def test_a_sweep_goes_on_where_it_was_and_leaves_params_as_they_were(tmp_path, root, monkeypatch):
    for name in ("params.yaml", "dvc.yaml"):
        shutil.copy(root / name, tmp_path / name)
    monkeypatch.setenv("MHBENCH_ROOT", str(tmp_path))
    before = (tmp_path / "params.yaml").read_text(encoding="utf-8")
    command = [sys.executable, "-c", POINT]
    with pytest.raises(RuntimeError, match="threshold=0.9 ended with 3"):
        sweep(["judge.threshold=0.5,0.6,0.9"], command=command)
    assert (tmp_path / "params.yaml").read_text(encoding="utf-8") == before
    table = sweep(["judge.threshold=0.5,0.6,0.7"], command=command)
    assert table["estimate"].tolist() == [0.5, 0.6, 0.7] == table["judge.threshold"].tolist()
    assert (tmp_path / "ran.txt").read_text() == "xxx", "what was run is not run again"
    assert yaml.safe_load(before)["judge"]["threshold"] == 0.8


def test_python_m_mhbench_is_the_command():
    done = subprocess.run([sys.executable, "-m", "mhbench", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("mhbench ")
