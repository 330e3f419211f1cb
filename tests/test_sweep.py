"""A grid of parameters, from the command in the documentation to its table: the user's files stay as they are, what
failed runs again and nothing else, no request is sent twice.
"""

import hashlib
import json
import os
import re
import signal
import subprocess
import time

import pandas as pd
import pytest
import yaml
from conftest import BIN, ENV, ROOT, mhbench, run
from faults.server import FaultServer, completion

from mhbench.tools.edit import select
from mhbench.tools.replicate import init
from mhbench.tools.sweep import _outside

GRID = re.search(r"(?m)^mhbench (sweep .*)$", (ROOT / "docs" / "howto-runs.md").read_text(encoding="utf-8"))[1].split()
MODES = {"zero_shot": {}, "few_shot": {}}
ASKED = {"endpoint": "remote", "served": "m-1", "lineage": "m", "sampling": {"temperature": 0.0}}


def git(top, *words):
    return run("git", "-c", "user.name=t", "-c", "user.email=t@example.org", *words, cwd=top)


def demonstrations(body) -> int:
    return sum(m["role"] == "assistant" for m in body["messages"])


def letter_of(body) -> str:
    "An option that the request decides, and not the order in which requests come."
    return "1234"[hashlib.sha256(json.dumps(body["messages"]).encode()).digest()[0] % 4]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    "A working folder as `mhbench init` makes it, with one study and one model behind an endpoint; nothing committed."
    monkeypatch.delenv("MHBENCH_ROOT", raising=False)
    monkeypatch.delenv("MHBENCH_CACHE", raising=False)
    top = tmp_path / "work"
    init(top)
    with FaultServer(every=lambda n, body: lambda _: (200, completion(body, letter_of(body)))) as server:
        p = yaml.safe_load((top / "params.yaml").read_text(encoding="utf-8"))
        braces = f'{{kind: openai, base_urls: ["{server.url}"], pause_s: 0.01, max_attempts: 2}}'  # as documented
        p["models"]["remote"] = ASKED
        mhqa = {stage: p["studies"]["mhqa"][stage] for stage in ("prepare", "generate", "score")}
        mhqa["prepare"]["answers"] = {}
        mhqa["generate"] = {"modes": MODES}
        p["studies"]["mhqa"] = mhqa
        p["score"] |= {"n_boot": 50}
        text = yaml.safe_dump(p, sort_keys=False).replace("endpoints:\n", f"endpoints:\n  remote: {braces}\n", 1)
        (top / "params.yaml").write_text(text, encoding="utf-8")
        monkeypatch.chdir(top)
        select(["mhqa"], ["remote"], 6, params=top / "params.yaml")
        yield top, server


def test_the_grid_of_the_documentation_from_beginning_to_table(folder):
    top, server = folder
    assert "the folder must have a commit; got none" in mhbench(*GRID, cwd=top, ok=False)
    git(top, "add", "-A")
    git(top, "commit", "-qm", "t")
    (top / "params.yaml").write_text((top / "params.yaml").read_text(encoding="utf-8") + "# mine\n", encoding="utf-8")
    before = {name: (top / name).read_bytes() for name in ("params.yaml", "run.yaml")}
    answer = server.every
    broken = lambda _: (500, {"error": {"message": "broken"}})
    server.every = lambda n, body: broken if demonstrations(body) == 1 else answer(n, body)
    said = run(BIN / "mhbench", *GRID, cwd=top, ok=False)
    assert "2 points failed: generate.n_demonstrations=1, run.yaml:run.items=6; generate.n_demonstrations=1," in said
    first = len(server.asked)
    server.every = answer
    said = run(BIN / "mhbench", *GRID, cwd=top)
    assert said.count("there already") == 2, "what was done is not run again"
    asked = [json.dumps(body, sort_keys=True) for body in server.asked]
    assert first < len(asked) and all(demonstrations(body) < 2 for body in server.asked[first:])
    answered = asked[first:] + [text for text, body in zip(asked, server.asked[:first]) if demonstrations(body) != 1]
    assert len(answered) == len(set(answered)) > 20, "no request is sent twice"
    table = pd.read_csv(top / "results" / "sweep.csv")
    points = ["generate.n_demonstrations=1, run.yaml:run.items=6", "generate.n_demonstrations=2, run.yaml:run.items=12"]
    assert set(points) < set(table["point"]) and table["point"].nunique() == table["experiment"].nunique() == 4
    assert table.groupby("point")["n"].max()[points].tolist() == [6, 12]
    assert re.search(r"mhqa +score +accuracy +remote", said), "the table of what differs"
    assert before == {name: (top / name).read_bytes() for name in before} and not git(top, "stash", "list")
    assert not list((top / ".mhbench" / "sweep").iterdir())
    said = mhbench("cache", "export", str(top / "answers.gz"), "--study", "mhqa", cwd=top)
    assert said.startswith(f"{len(answered)} answers written"), "each is kept under its study"
    # a single experiment of DVC's finds the answers, too, though its copy has no cache of its own
    cache, there = top / ".mhbench" / "cache.sqlite", len(server.asked)
    params = (top / "params.yaml").read_text(encoding="utf-8")
    (top / "params.yaml").write_text(re.sub(r"n_boot: 50\b", "n_boot: 60", params), encoding="utf-8")
    run(BIN / "dvc", "exp", "run", "-q", "--temp", "-f", "score@mhqa", cwd=top)
    assert cache.exists() and len(server.asked) == there


def test_a_sweep_that_is_killed_leaves_the_parameters_as_they_were(folder):
    top, server = folder
    git(top, "add", "-A")
    git(top, "commit", "-qm", "t")
    before, state = (top / "params.yaml").read_bytes(), git(top, "status", "--porcelain")
    server.delay = 30.0
    env = {k: v for k, v in ENV.items() if k != "MHBENCH_ROOT"}
    going = subprocess.Popen([BIN / "mhbench", *GRID], cwd=top, env=env, start_new_session=True)
    try:
        while not server.asked:  # from the start on: DVC itself would write there and put it back
            assert (top / "params.yaml").read_bytes() == before and going.poll() is None
            time.sleep(0.01)
    finally:
        os.killpg(going.pid, signal.SIGKILL)
        going.wait()
    assert (top / "params.yaml").read_bytes() == before and git(top, "status", "--porcelain") == state
    assert not git(top, "stash", "list")


def test_a_change_of_a_file_that_lies_elsewhere_makes_other_points(folder, tmp_path):
    top, _ = folder
    assert _outside(top) == {}
    answers = tmp_path / "answers.csv"
    p = yaml.safe_load((top / "params.yaml").read_text(encoding="utf-8"))
    p["studies"]["mhqa"]["prepare"]["answers"] = {"colleague": str(answers)}
    (top / "params.yaml").write_text(yaml.safe_dump(p, sort_keys=False), encoding="utf-8")
    told = []
    for text in ("item_id,text\nmhqa-1,A\n", "item_id,text\nmhqa-1,B\n"):
        answers.write_text(text, encoding="utf-8")
        told.append(_outside(top))
    assert [*told[0]] == [*told[1]] == [str(answers)] and told[0] != told[1]


def test_what_git_does_not_know_is_refused_by_name(folder):
    top, _ = folder
    git(top, "add", "-A")
    git(top, "commit", "-qm", "t")
    p = yaml.safe_load((top / "params.yaml").read_text(encoding="utf-8"))
    (top / "mine.csv").write_text("item,answer\n", encoding="utf-8")
    (top / "nbs" / "stages" / "mine.ipynb").write_text("{}", encoding="utf-8")
    p["studies"]["mhqa"]["prepare"]["answers"] = {"student": "mine.csv", "other": "/elsewhere/answers.csv"}
    (top / "params.yaml").write_text(yaml.safe_dump(p, sort_keys=False), encoding="utf-8")
    said = mhbench("sweep", "score.n_boot=50,60", cwd=top, ok=False)
    assert "git knows; got nbs/stages/mine.ipynb, mine.csv (studies.mhqa); git add it" in said
    for words, told in (
        (["score.n_bot=50,60"], "NAME must be an entry of params.yaml; got 'score.n_bot'; there is "),
        (["score.n_boot.x=50,60"], "got 'score.n_boot.x'; there is nothing below a value"),
        (["run.items=6,12"], "got 'run.items'; entries of the run are run.yaml:run.NAME"),
        (["score.n_boot=50,60", "--target", "score@nix"], "--target must be a stage of the run; got score@nix"),
    ):
        assert told in mhbench("sweep", *words, cwd=top, ok=False)
    said = mhbench("sweep", "score.n_boot", cwd=top, ok=False)
    assert "an axis must be NAME=V1,V2; got score.n_boot" in said
