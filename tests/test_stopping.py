"""Asking until it is decided: what is asked, in which order, and that a run that was ended decides the same."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from answering import answering

from mhbench.records.schema import Item, Response
from mhbench.steps.stopping import Stopping, asking_order, recorded_as_asked, until_decided

OPTIONS = {"good": 0.85, "fair": 0.55, "even": 0.55}
STOP = {"smallest": 12, "batch": 6, "models": list(OPTIONS)}


def bank(n, per_case=2):
    same = {"study": "demo", "task": "multiple_choice", "options": ["x", "y"], "key": ["A"], "source": "made up"}
    return [
        Item(item_id=f"q{k}", question=f"number {k}?", group_id=f"c{k // per_case}", category="ab"[k % 2], **same)
        for k in range(n)
    ]


def says(name, text):
    "A or B, as the name and the question decide."
    share = int(hashlib.sha256(f"{name}:{text}".encode()).hexdigest()[:8], 16) / 2**32
    return "A" if share < OPTIONS[name] else "B"


def reply(body):
    time.sleep(0.005)  # so that a run can be ended in its middle
    return says(body["model"], body["messages"][-1]["content"])


def child(url, folder):
    "A process that asks all three models, as the stage of the model good does."
    code = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
from test_stopping import STOP, bank
from mhbench.ask.request import Endpoint, Model
from mhbench.steps.answers import Asked
from mhbench.steps.stopping import answer_until_decided
endpoint = Endpoint(name="here", base_urls=[{url!r}], identity="here", concurrency=2)
modes = {{"zero_shot": {{}}}}
def entry(name):
    model = Model(name=name, endpoint="here", served=name, sampling={{"temperature": 0.0, "max_tokens": 5}})
    return Asked(name, modes, model, endpoint)
folder = Path({str(folder)!r})
answers, found = answer_until_decided(
    bank(240), {{name: entry(name) for name in STOP["models"]}}, "good", STOP,
    file=folder / "looks.jsonl", cache=folder / "cache.sqlite", seed=3, progress=False,
)
(folder / "done").write_text(str(len(answers)))
"""
    return subprocess.Popen([sys.executable, "-c", code], env=os.environ | {"PYTHONHASHSEED": "0"})


def test_a_run_that_is_killed_and_begins_again_decides_the_same(tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    with answering(reply) as (endpoint, seen):
        for folder in (whole, broken):
            folder.mkdir()
        assert child(endpoint.base_urls[0], whole).wait(120) == 0
        n_whole = len(seen)
        process = child(endpoint.base_urls[0], broken)
        end = time.monotonic() + 60
        while len(seen) < n_whole * 3 // 2 and time.monotonic() < end:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait(10)
        assert not (broken / "done").exists() and n_whole < len(seen) < 2 * n_whole
        (broken / "looks.jsonl").rename(broken / "before.jsonl")
        assert child(endpoint.base_urls[0], broken).wait(120) == 0
        assert len(seen) <= 2 * n_whole + 4  # what was in flight when it was killed is asked twice
    looks = (whole / "looks.jsonl").read_text()
    assert (broken / "looks.jsonl").read_text() == looks
    assert looks.startswith((broken / "before.jsonl").read_text())  # the looks of the run that was killed
    verdicts = {(r["first"], r["second"]): r["verdict"] for r in map(json.loads, looks.splitlines())}
    assert verdicts["fair", "good"] == verdicts["even", "good"] == "second"


def test_decided_is_asked_no_further():
    items = bank(400)
    asked = {name: [] for name in OPTIONS}

    def ask(name):
        def given(batch):
            asked[name].append([i.item_id for i in batch])
            same = {"study": "demo", "model": name, "mode": "zero_shot"}
            return [Response(item_id=i.item_id, text=says(name, i.item_id), **same) for i in batch]

        return given

    best = Stopping(smallest=20, batch=10, decide="best")
    found = until_decided(items, {n: ask(n) for n in OPTIONS}, best, mode="zero_shot", seed=5)
    order = [i.item_id for i in asking_order(items, best.by, seed=5)]
    for name, batches in asked.items():
        flat = [x for b in batches for x in b]
        assert flat == order[: len(flat)] and len(flat) < 400  # a stretch of the one order, from its beginning
        assert found.models.set_index("model")["asked"][name] == len(flat)
    for _, row in found.decisions[found.decisions["verdict"] == "first"].iterrows():
        assert row["e_adjusted"] >= 20 and row["ci_low"] > 0


def test_what_is_missing_and_who_is_asked_less_is_no_evidence():
    items = bank(200, per_case=1)
    same = {"study": "demo", "mode": "zero_shot"}
    right = [Response(item_id=i.item_id, model="a", text="A", **same) for i in items]
    failed = [Response(item_id=i.item_id, model="b", status="error", error="none", **same) for i in items[:100]]
    wrong = [Response(item_id=i.item_id, model="b", text="B", **same) for i in items[100:140]]
    ask = {"a": recorded_as_asked(right), "b": recorded_as_asked(failed + wrong)}
    found = until_decided(items, ask, Stopping(smallest=200), mode="zero_shot", seed=1)
    assert found.decisions["n"].tolist() == [40] and found.decisions["verdict"].tolist() == ["first"]
    with pytest.raises(ValueError, match="got none in cot"):
        until_decided(items, ask, Stopping(), mode="cot", seed=1)


@pytest.mark.parametrize("decide", ["pairs", "best", "mark"])
def test_models_that_are_equally_good_are_rarely_told_apart(decide):
    "Over all comparisons of three models, 8 runs with looks after every 20 of 90 questions."
    items, wrong = bank(90, per_case=3), 0
    mark = {"mark": 0.6} if decide == "mark" else {}
    stop = Stopping(smallest=20, batch=20, decide=decide, **mark)
    for seed in range(8):
        rng = np.random.default_rng(seed)
        said = {
            name: [
                Response(item_id=i.item_id, study="demo", model=name, mode="zero_shot", text="A" if x else "B")
                for i, x in zip(items, rng.random(90) < 0.6)
            ]
            for name in "abc"
        }
        found = until_decided(
            items, {n: recorded_as_asked(r) for n, r in said.items()}, stop, mode="zero_shot", seed=seed
        )
        wrong += bool((found.decisions["verdict"] != "open").any())
    assert wrong <= 3  # of 8 with .05 each: more in one of four thousand
