"The command line: interrupts, ends from outside, faults of our own, odd surroundings. One sentence, and nothing lost."

import contextlib
import os
import pickle
import re
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import BIN, ENV, ROOT
from faults.server import FaultServer

from mhbench.ask.cache import Cache
from mhbench.records.schema import Item
from mhbench.run import cli
from mhbench.studies.mentat.pickled import pickled_table, pickled_values

ITEMS = [
    Item(item_id=f"q{n}", study="mhqa", task="open", question=f"What helps {n}?", key=["sleep"], source="made")
    for n in range(200)
]


@pytest.fixture
def running(house):
    "A generate stage that asks one question after the other, once three were asked."
    house.only("mhqa")
    house.params["run"]["models"] = ["slow"]
    house.params["models"]["slow"] = {"endpoint": "remote", "served": "x", "sampling": {"max_tokens": 8}}
    house.params["studies"]["mhqa"]["generate"]["modes"] = {"zero_shot": {}}
    house.lay("prepare", "items", ITEMS, "mhqa")
    with FaultServer(delay=0.2) as s:
        house.params["endpoints"]["remote"] = {"kind": "openai", "base_urls": [s.url], "concurrency": 1}
        house.write()
        command = [BIN / "mhbench", "run", "generate", "--study", "mhqa", "--model", "slow"]
        pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        env = ENV | {"MHBENCH_ROOT": str(house.top)}
        p = subprocess.Popen(command, cwd=house.top, env=env, start_new_session=True, **pipes)
        try:
            while len(s.asked) < 3 and p.poll() is None:
                time.sleep(0.05)
            p.house, p.server = house, s
            yield p
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(p.pid, signal.SIGKILL)
            p.communicate()


def one_sentence(text: str) -> str:
    "What was said, without a line of a library's source."
    assert "Traceback" not in text and "site-packages" not in text and "[IPKernelApp]" not in text, text
    return text


@pytest.mark.parametrize("times", [1, 3])
def test_an_interrupt_is_one_sentence_and_loses_nothing(times, running):
    for _ in range(times):
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGINT)
        time.sleep(0.2)
    out, err = running.communicate(timeout=60)
    told = one_sentence(err).strip().splitlines()
    assert running.returncode == 130 and all(line.startswith("mhbench") for line in told) and len(told) <= 3
    assert "interrupted; what was answered is kept" in told[-1]
    assert len(Cache(running.house.top / ".mhbench/cache.sqlite")) >= 2


def child_of(pid: int) -> int:
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True).stdout
    return int(found.split()[0])


def test_a_stage_ends_with_the_command_that_asked_for_it(running):
    stage = child_of(running.pid)
    running.kill()
    until = time.monotonic() + 20
    while Path(f"/proc/{stage}/stat").exists() and time.monotonic() < until:
        if Path(f"/proc/{stage}/stat").read_text().split()[2] == "Z":
            break
        time.sleep(0.05)
    assert time.monotonic() < until, "the stage went on asking"


def test_a_stage_that_is_ended_from_outside_says_so(running):
    os.kill(child_of(running.pid), signal.SIGKILL)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 1 and "often for want of memory" in err and "fewer items" in err, err
    assert "got SIGKILL from outside" in one_sentence(err)


def said_by(function, house, monkeypatch, capsys):
    monkeypatch.setattr("mhbench.tools.commands.plan_run", function)
    code = cli.main(["plan"])
    return code, capsys.readouterr().err


def raising(error):
    def plan_run(*_):
        raise error

    return plan_run


def test_a_fault_of_our_own_is_one_sentence_and_its_place_is_kept(house, monkeypatch, capsys):
    code, err = said_by(raising(TypeError("'<' not supported")), house, monkeypatch, capsys)
    assert code == 1 and "a fault of mhbench itself" in one_sentence(err) and "error.log" in err
    log = house.top / ".mhbench" / "error.log"
    assert "plan_run" in log.read_text() and log.parent.stat().st_mode & 0o077 == 0


def test_what_an_endpoint_says_cannot_command_a_terminal(house, monkeypatch, capsys):
    words = "first\n  \x1b]0;title\x07\x1b[31mred\x1b[0m\x9b2J\u202e"
    code, err = said_by(raising(ValueError(words)), house, monkeypatch, capsys)
    assert code == 1 and err == "mhbench plan: first\n  red2J\n"


def test_a_reader_that_goes_away_ends_the_command_quietly(house):
    done = subprocess.run(
        ["bash", "-c", f"{BIN}/mhbench select --studies mhqa | true; exit ${{PIPESTATUS[0]}}"],
        cwd=house.top,
        env=ENV | {"MHBENCH_ROOT": str(house.top), "PYTHONUNBUFFERED": "1"},
        capture_output=True,
        text=True,
    )
    one_sentence(done.stderr)
    assert "studies: [mhqa]" in (house.top / "params.yaml").read_text(), "it was done before it was said"


LOCALE = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
NO_HOME = {"HOME": "/proc/none", "XDG_CACHE_HOME": "/proc/none"}


def test_a_stage_runs_in_ascii_without_a_home_and_in_another_time_zone(house):
    env = ENV | {"MHBENCH_ROOT": str(house.top), "TZ": "Pacific/Kiritimati"} | LOCALE | NO_HOME
    command = [BIN / "mhbench", "run", "prepare", "--study", "mhqa"]
    done = subprocess.run(command, cwd=house.top, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


def test_a_folder_of_results_that_is_a_file_is_refused(house):
    (house.top / "results").write_text("in the way")
    done = subprocess.run(
        [BIN / "mhbench", "run", "prepare", "--study", "mhqa"],
        cwd=house.top,
        env=ENV | {"MHBENCH_ROOT": str(house.top)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and "results" in one_sentence(done.stderr)


# -- what may not be in the package

FORBIDDEN = {
    "pickle": r"^\s*(?:import|from)\s+(?:pickle|cPickle|dill|cloudpickle|joblib|shelve|marshal)\b",
    "a model's own code": r"trust_remote_code\s*[:=]\s*True",
    "weights that run": r"torch\.load\((?![^)]*weights_only\s*=\s*True)",
    "arrays that run": r"allow_pickle\s*=\s*True|read_pickle|to_pickle",
    "YAML that runs": r"yaml\.(?:unsafe_|full_)load\(|yaml\.load(?:_all)?\((?!.*(?:BaseLoader|SAFE_LOADER|_BASE)\))",
    "a shell": r"shell\s*=\s*True|os\.system\(|os\.popen\(",
    "lines that a question may hold": r"read_text\([^)]*\)\.splitlines\(",
    "text that runs": r"(?<![\w.])(?:eval|exec)\(",
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_nothing_in_the_package_runs_what_it_reads(what):
    found = [
        f"{f.relative_to(ROOT)}:{n}: {line.strip()}"
        for f in [*(ROOT / "mhbench").rglob("*.py"), *(ROOT / "nbs/stages").glob("*.ipynb")]
        for n, line in enumerate(f.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(FORBIDDEN[what], line)
    ]
    assert found == []


class Calls:
    "A pickle that calls something as it is read."

    def __init__(self, what, *given):
        self.what, self.given = what, given

    def __reduce__(self):
        return self.what, self.given


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_of_answers_runs_nothing(protocol, tmp_path):
    out = tmp_path / "ran"
    plain = pd.Index(["a"], dtype=object)
    table = pd.DataFrame([[1], [2]], columns=plain)
    bombs = [
        Calls(os.system, f"touch {out}"),
        Calls(eval, f"open({str(out)!r}, 'w')"),
        Calls(open, str(out), "w"),
        Calls(pd.read_pickle, str(tmp_path / "other.pkl")),
        Calls(pd.DataFrame.to_csv, table, str(out)),
        Calls(np.save, str(out), 1),
    ]
    for bomb in bombs:
        inside = pd.DataFrame([[bomb]], columns=plain, dtype=object)
        for data in (pickle.dumps(bomb, protocol), pickle.dumps(inside, protocol)):
            with pytest.raises(ValueError, match="which no table needs"):
                pickled_values(data)
    assert not list(tmp_path.iterdir())
    if protocol >= 4:  # as the release's are: a table without a call is read
        assert pickled_table(pickle.dumps(table, protocol)).to_dict("list") == {"a": [1, 2]}


def test_the_check_sees_what_it_is_for():
    bad = ["import pickle", "trust_remote_code=True", "torch.load(f)", "allow_pickle=True", "yaml.load(x)"]
    bad += ["subprocess.run(x, shell=True)", "p.read_text(encoding='utf-8').splitlines()", "eval(x)"]
    assert all(re.search(rule, line) for rule, line in zip(FORBIDDEN.values(), bad, strict=True))
    assert not re.search(FORBIDDEN["weights that run"], "torch.load(f, weights_only=True)")
