"The cache: other people's files, files that vanish, marks of who is asking, modes, and what is said of it all."

import gzip
import json
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from asking import MODEL, ep, q
from faults.server import FaultServer, answer_to

from mhbench.ask.cache import Cache, CacheError, Row, export
from mhbench.ask.client import ask
from mhbench.ask.request import Request


def row(i, **more):
    value = json.dumps({"text": f"answer {i}", "prompt_tokens": 1, "completion_tokens": 1, "cost_usd": 0.0})
    return Row(
        **{
            "key": f"{i:064x}",
            "model": "m",
            "endpoint": "e",
            "status": "ok",
            "final": True,
            "created": 1.0,
            "value": value,
            **more,
        }
    )


# -- files that are not ours


def test_a_file_that_is_no_cache_is_left_as_it_is(tmp_path):
    for name, raw in (("README.md", b"# read me\n" * 400), ("answers.gz", gzip.compress(b"x" * 5000))):
        path = tmp_path / name
        path.write_bytes(raw)
        for readonly in (True, False):
            with pytest.raises(CacheError, match="must be"):
                Cache(path, readonly=readonly)
            assert path.read_bytes() == raw and [p.name for p in tmp_path.iterdir()] == [name]
        path.unlink()


@pytest.mark.parametrize("readonly", [True, False])
def test_another_programs_database_is_refused_in_our_words_and_not_changed(tmp_path, readonly):
    path = tmp_path / "bookmarks.sqlite"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE bookmarks (url TEXT)")
    db.close()
    before = path.read_bytes()
    with pytest.raises(CacheError, match="another program's database .*bookmarks.*name another file"):
        Cache(path, readonly=readonly)
    assert path.read_bytes() == before and [p.name for p in tmp_path.iterdir()] == ["bookmarks.sqlite"]


def test_a_cache_of_a_later_version_is_refused_in_our_words(tmp_path):
    Cache(tmp_path / "c.sqlite").close()
    with sqlite3.connect(tmp_path / "c.sqlite") as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(CacheError, match="of a later mhbench .version 99.*update mhbench"):
        Cache(tmp_path / "c.sqlite")


def test_a_cache_of_an_earlier_version_is_refused_in_our_words_and_not_changed(tmp_path):
    path = tmp_path / "old.sqlite"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE answers (id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, value TEXT NOT NULL)")
    db.close()
    before = path.read_bytes()
    for readonly in (True, False):
        with pytest.raises(CacheError, match="of an earlier mhbench .version 0.*name another file"):
            Cache(path, readonly=readonly)
    assert path.read_bytes() == before


def test_exporting_changes_nothing(tmp_path):
    with Cache(tmp_path / "c.sqlite") as c:
        c.put_many([row(i, study="ab"[i % 2]) for i in range(10)])
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    with Cache(tmp_path / "c.sqlite", readonly=True) as c:
        assert export(c, tmp_path / "a.gz", study="a") == 5
    assert (tmp_path / "c.sqlite").read_bytes() == before["c.sqlite"]
    kept = [json.loads(x) for x in gzip.decompress((tmp_path / "a.gz").read_bytes()).decode().split("\n") if x]
    assert {r["study"] for r in kept} == {"a"}


def test_a_cache_is_its_owners_alone(tmp_path):
    os.umask(0o022)
    with Cache(tmp_path / "there" / "c.sqlite") as c:
        c.put_many([row(1)])
        modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in [c.path.parent, *c.path.parent.iterdir()]}
    assert modes == {"there": 0o700, "c.sqlite": 0o600, "c.sqlite-wal": 0o600, "c.sqlite-shm": 0o600}


# -- files that vanish


def lose(path, how):
    if how == "deleted":
        for p in filter(Path.is_file, path.parent.glob(path.name + "*")):
            p.unlink()
    elif how == "only the file":
        path.unlink()
    elif how == "replaced":
        other = path.with_name("other.sqlite")
        with Cache(other) as c:
            c.put_many([row(7_000)])
        for p in path.parent.glob(path.name + "-*"):
            p.unlink()
        os.replace(other, path)
    else:
        path.write_bytes(b"a text that somebody saved under this name\n" * 3)


@pytest.mark.parametrize("how", ["deleted", "only the file", "replaced", "overwritten"])
def test_a_cache_that_is_lost_during_a_run_ends_it_with_a_sentence_before_more_is_paid_for(tmp_path, how):
    path = tmp_path / "c.sqlite"
    with FaultServer() as s, Cache(path) as cache:
        answers = ask([q(i) for i in range(600)], MODEL, ep(s.url), cache=cache, progress=False)
        out = [next(answers) for _ in range(50)]
        lose(path, how)
        with pytest.raises(CacheError, match=r"c\.sqlite' must (stay as it is while it is in use|be a cache that)"):
            out += list(answers)
        assert {a.status for a in out} == {"ok"} and len(s.asked) < 600
    if how == "replaced":
        with Cache(path) as other:
            assert len(other) == 1, "another's answers are left as they are"


def test_damage_is_told_to_whoever_asks(tmp_path):
    path = tmp_path / "c.sqlite"
    with Cache(path) as c:
        c.put_many([row(i) for i in range(100)])
    raw = bytearray(path.read_bytes())
    raw[:100] = bytes(100)
    path.write_bytes(raw)
    with pytest.raises(CacheError, match=r"c\.sqlite' must be a cache that is whole; got a damaged file.*move it away"):
        Cache(path)
    assert path.read_bytes() == raw


# -- marks

SCRIPT = """
import json, sys
from mhbench.ask.client import ask
from mhbench.ask.request import Endpoint, Model, Request
url, cache, n, out = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
endpoint = Endpoint(name="e", base_urls=[url], identity="e", concurrency=8)
sampling, price = {"max_tokens": 5}, {"prompt": 1.0, "completion": 2.0}
model = Model(name="m", endpoint="e", served="m-1", sampling=sampling, price=price)
requests = [Request(f"id-{i}", [{"role": "user", "content": f"question {i}"}]) for i in range(n)]
answers = list(ask(requests, model, endpoint, cache=cache, progress=False))
json.dump([a.text for a in answers], open(out, "w"))
"""


def start(s, cache, n, out, root):
    command = [sys.executable, "-c", SCRIPT, s.url, str(cache), str(n), str(out)]
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(root)})


def test_two_processes_pay_for_an_answer_once(tmp_path, root):
    with FaultServer(delay=0.01) as s:
        two = [start(s, tmp_path / "c.sqlite", 600, tmp_path / f"{k}.json", root) for k in "ab"]
        assert [p.wait(timeout=120) for p in two] == [0, 0]
        assert len(s.asked) == 600
    want = [answer_to(f"question {i}") for i in range(600)]
    assert all(json.loads((tmp_path / f"{k}.json").read_text()) == want for k in "ab")


def test_a_process_that_is_killed_leaves_its_questions_to_the_other(tmp_path, root):
    with FaultServer(delay=0.02) as s:
        killed = start(s, tmp_path / "c.sqlite", 400, tmp_path / "a.json", root)
        while len(s.answered) < 50 and killed.poll() is None:
            time.sleep(0.005)
        other = start(s, tmp_path / "c.sqlite", 400, tmp_path / "b.json", root)
        time.sleep(1.0)
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert other.wait(timeout=100) == 0
        assert len(s.asked) <= 400 + 8, "eight were in flight"
    assert json.loads((tmp_path / "b.json").read_text()) == [answer_to(f"question {i}") for i in range(400)]


def test_marks_end_with_the_run_whatever_ends_it(tmp_path):
    count = "SELECT count(*) FROM asking"
    with FaultServer({"question 300": ["stall"]}) as s, Cache(tmp_path / "c.sqlite") as c:
        answers = ask([q(i) for i in range(900)], MODEL, ep(s.url, concurrency=1), cache=c, progress=False)
        next(answers)
        assert c._db.execute(count).fetchone()[0] > 0
        answers.close()
        assert c._db.execute(count).fetchone()[0] == 0
        bad = [*(q(i) for i in range(300)), Request("bad", [])]
        with pytest.raises(ValueError, match="bad"):
            list(ask(bad, MODEL, ep(s.url), cache=c, progress=False))
        assert c._db.execute(count).fetchone()[0] == 0


def test_a_question_that_failed_elsewhere_is_asked_here(tmp_path):
    path = tmp_path / "c.sqlite"
    with FaultServer() as s, Cache(path) as c:
        key = next(iter(ask([q(0)], MODEL, ep(s.url), cache=None, progress=False))).request_key
        assert c.take([key], "elsewhere|1|x")[1] == {key}
        c.put_many([row(0, key=key, status="error", final=False)])  # it gave up
        (a,) = ask([q(0)], MODEL, ep(s.url), cache=c, progress=False)
        assert a.status == "ok"
