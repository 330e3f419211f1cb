"""Every benchmark runs: each is started in its smallest form, and what it prints is there."""

import subprocess
import sys

import pytest
from conftest import ENV, ROOT

FOLDER = ROOT / "benchmarks"
SMALLEST = {  # file -> its arguments, and a text that it prints
    "frozen": ("ties four_raters --draws 3 --to TMP/frozen.csv", "four_raters"),
    "annotate": ("--raters 3 --seconds 1 --pause 0.1", "mhbench"),
    "cache": ("--rows 100", "rows/s"),
    "client": ("--bench BENCH --n 40 --repeat 1 --port PORT --many 100", "ratio|the same answers: True"),
    "corpus": ("200 10 20", "records of"),
    "conversations": ("--seeds 2", "persona x rater"),
    "coverage": ("share --draws 20 --part --to TMP", '"cases": 2'),
    "frozen_shapes": ("--draws 2", "agrees"),
    "finetune": ("4 1", "the same weights: True"),
    "hierarchical_fit": ("--refits 1 --questions 2", "SLSQP"),
    "humans": ("--draws 1 --to TMP/humans.csv", ""),
    "inventory": ("", ""),
    "large": ("--items 60 --models 2 --n-boot 20 --study mhqa --only prepare score", "| mhqa | 60 | score"),
    "metrics_bootstrap": ("5", "macro F1"),
    "mhqa_b": ("--rows 4 --validation 2 --seeds 1 --epochs 1 --test 4 --orders 1 --runs TMP", ""),
    "noninferior": ("--draws 1 --to TMP/noninferior.csv", "greatest error"),
    "parallel": ("--items 40", "equal results: True"),
    "parse": ("1", "microseconds an answer"),
    "psychiatrybench": ("--draws 2 --models 2", '"ratio"'),
    "raters": ("--loops 1 --items 300", "greatest difference"),
    "repro": ("CLONE --stage inputs --rounds 1", "CPU s"),
    "roscoe": ("--chains 2 --peer 1 --repeats 1", "12 chains a context"),
}
OF_RELEASES = ("humans", "mhqa_b")  # nothing to measure without the authors' files
MOCK = """
import argparse, asyncio, json
from aiohttp import web
p = argparse.ArgumentParser()
p.add_argument("--port", type=int), p.add_argument("--delay", type=float, default=0), p.add_argument("--fail-every")
a, seen = p.parse_args(), {"requests": 0, "done": 0, "window_s": 1.0}
async def answer(request):
    seen["requests"] += 1
    await asyncio.sleep(a.delay)
    seen["done"] += 1
    said = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "A"}}
    return web.json_response({"choices": [said], "usage": {"prompt_tokens": 9, "completion_tokens": 1}})
async def stats(request):
    return web.json_response(seen)
async def reset(request):
    seen.update(requests=0, done=0)
    return web.json_response({})
app = web.Application()
app.add_routes([web.get("/stats", stats), web.get("/reset", reset), web.post("/v1/chat/completions", answer)])
web.run_app(app, host="127.0.0.1", port=a.port, print=None)
"""
ITEMS = """
import json, sys
with open("items.jsonl", "w") as f:
    for k in range(int(sys.argv[1])):
        f.write(json.dumps({"id": k, "question": "Which?", "choices": list("wxyz"), "answer": "A"}) + "\\n")
"""


def started(name: str, arguments: str, **more) -> str:
    command = [sys.executable, FOLDER / f"{name}.py", *arguments.split()]
    env = {k: v for k, v in ENV.items() if k != "MHBENCH_ROOT"} | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=env | more, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{name}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def test_every_benchmark_is_started():
    "The mock of the client's is started by the client's."
    assert {f.stem for f in FOLDER.glob("*.py")} == {*SMALLEST, "client_mock"}


@pytest.mark.parametrize("name", sorted(set(SMALLEST) - {"client", "repro", *OF_RELEASES}))
def test_a_benchmark_runs_in_its_smallest_form(name, tmp_path):
    arguments, text = SMALLEST[name]
    assert text in started(name, arguments.replace("TMP", str(tmp_path)), MHBENCH_DATASETS=str(tmp_path / "none"))


@pytest.mark.parametrize("name", OF_RELEASES)
def test_a_benchmark_of_released_files_runs_in_its_smallest_form(name, datasets, tmp_path):
    arguments, text = SMALLEST[name]
    assert text in started(name, arguments.replace("TMP", str(tmp_path)), MHBENCH_DATASETS=str(datasets))


def test_the_cost_of_a_run_is_measured_in_a_working_folder(clone):
    arguments, text = SMALLEST["repro"]
    assert text in started("repro", arguments.replace("CLONE", str(clone)))


def test_the_client_is_measured_against_a_mock_and_peers_that_are_absent_are_named(tmp_path):
    import socket

    (tmp_path / "mock_server.py").write_text(MOCK)
    (tmp_path / "make_items.py").write_text(ITEMS)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = str(s.getsockname()[1])
    arguments = SMALLEST["client"][0].replace("BENCH", str(tmp_path)).replace("PORT", port)
    said = started("client", f"{arguments} --only speed,replay,memory")
    assert "| mhbench |" in said and "aiohttp did not run here" in said
    assert " 0 requests sent, the same answers: True" in said and "0 failed" in said
