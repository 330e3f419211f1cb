"""Two hundred raters answer at once over loopback: how long a save takes, and whether a confirmed one is ever lost.

Each server runs as a process of its own, the raters in this one. A rater changes one number, waits for the reply,
thinks, and changes the next. In the end the server is killed (SIGKILL), and what every rater was last told to be saved
has to be on the disk; mhbench's log has to replay to its answers besides.

    python benchmarks/annotate.py --raters 200 --seconds 20
    python benchmarks/annotate.py --potato /tmp/p/bin/potato --label-studio /tmp/l/bin/label-studio

The second line asks the same of potato (`pip install potato-annotation`) and of Label Studio (`pip install
label-studio`), each in a virtual environment of its own, one after another. `--pause` is how long a rater thinks, on
average. With 0 everybody saves as fast as the server answers, which is more than two hundred people can do.

What differs. mhbench appends the change to a log and waits for the disk (fsync). potato rewrites the rater's JSON file,
and Label Studio updates the draft of the task, as its own page does while one works; neither waits for the disk. Each
runs as its command starts it: for potato and Label Studio that is a development server, and Label Studio's own advice
for many people is uWSGI with PostgreSQL. All of Label Studio's raters share one account, and each has a draft of its
own.

Measured on two cores that others worked on as well, each line in one run; nothing confirmed was lost by any of the
three (mhbench 0.2.0, potato 2.12.1, Label Studio 1.23.2; milliseconds, median and 99th percentile of a save):

    raters    mhbench        potato               Label Studio
       200    13.2  52.8    302.5  5101 (x97)    18808  56858 (x1076)
        10    18.0  39.9     58.2  4190 (x105)     220   3689 (x92)
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import re
import secrets
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import aiohttp
import numpy as np
import yaml

from mhbench.annotate.assignment import enrol
from mhbench.annotate.sources import demo_entry, study_of
from mhbench.annotate.store import Register, differences, now_ms, open_store
from mhbench.annotate.study import QuestionPage, code

QUESTIONS, OPTIONS = 12, "ABCDE"
KEY = "load-test-only-0000000000000000000000000"


class Server:
    "A server in a process of its own, in a folder of its own."

    name, wait_s = "", 60.0

    def __init__(self, folder: Path, raters: list[str]):
        self.folder, self.raters = folder, raters
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = subprocess.Popen(
            list(map(str, self.command())),
            cwd=folder,
            env=os.environ | {"LABEL_STUDIO_BASE_DATA_DIR": str(folder), "COLLECT_ANALYTICS": "False"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    async def answers(self) -> None:
        until = time.monotonic() + self.wait_s
        while time.monotonic() < until:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            await asyncio.sleep(0.2)
        raise SystemExit(f"{self.name} did not start within {self.wait_s:g} s")

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    async def ready(self) -> None:
        "What has to be done once before anybody comes in."

    async def come_in(self, client: aiohttp.ClientSession, rater: str) -> list:
        "Everything that this rater can change: whatever `save` takes."
        raise NotImplementedError

    async def save(self, client: aiohttp.ClientSession, rater: str, field, value: int) -> None:
        "Returns when the server says that it has it."
        raise NotImplementedError

    def kept(self, rater: str, field) -> int | None:
        "What the disk holds, with the server gone."
        raise NotImplementedError


class Mhbench(Server):
    name = "mhbench"

    def command(self) -> list:
        self.path, study = self.folder / "mentat.sqlite", study_of("mentat", demo_entry("mentat"))
        self.word: dict[str, str] = {}
        self.confirmed: set[str] = set()
        with open_store(self.path, study) as store:
            self.tokens = enrol(store, study, self.raters, simulated=True)
            self.fields = {r: self.fields_of(store, r) for r in self.raters}
        main = "import sys; from mhbench.run.cli import main; sys.exit(main())"
        words = ["annotate", "serve", "mentat", "--params", "none", "--answers", self.path, "--port", self.port]
        return [sys.executable, "-c", main, *words]

    @staticmethod
    def fields_of(store, rater: str) -> list[tuple]:
        "Every slider of a rater: what names it in a request, and where it is kept."
        study, out = store.study, []
        at = {q.question_id: q for q in study.questions}
        for place in Register(store).assigned(rater):
            q = at[place.question_id]
            shown = QuestionPage(study, q, rater, place.occasion, store.secret)
            page = {"question": code(store.secret, "question", q.question_id), "occasion": place.occasion}
            for word, f in shown.by_code().items():
                if f.form == "number":
                    out.append((json.dumps(page | {"field": word}), (q.question_id, place.occasion), f.target))
        return out

    async def come_in(self, client, rater):
        async with client.get(f"{self.url}/in/{self.tokens[rater]}") as reply:
            self.word[rater] = re.search(r'name="csrf" value="(\w+)"', await reply.text())[1]
        async with client.post(f"{self.url}/consent", data={"csrf": self.word[rater]}):
            return self.fields[rater]

    async def save(self, client, rater, field, value):
        named = {"event": secrets.token_hex(12), "stamp": now_ms(), "client_ms": now_ms(), "value": str(value)}
        body = {"changes": [json.loads(field[0]) | named], "visit": None}
        async with client.post(f"{self.url}/save", json=body, headers={"X-CSRF-Token": self.word[rater]}) as reply:
            assert (await reply.json())["saved"] == [named["event"]]
        self.confirmed.add(named["event"])

    def kept(self, rater, field):
        with open_store(self.path) as store:
            return store.answers(rater, *field[1])[field[2]].answer.value

    def told(self) -> str:
        with open_store(self.path) as store:
            logged = {e for (e,) in store.db.execute("SELECT event FROM events")}
            wrong = differences(store)
        return f"confirmed and not in the log: {len(self.confirmed - logged)}; answers beside the log: {len(wrong)}"


class Potato(Server):
    name, program = "potato", ""

    def command(self):
        lines = [json.dumps({"id": f"q{k}", "text": f"What comes first, {k}?"}) for k in range(QUESTIONS)]
        (self.folder / "items.jsonl").write_text("\n".join(lines) + "\n")
        slider = {"annotation_type": "slider", "min_value": 0, "max_value": 100, "starting_value": 50}
        config = {
            "annotation_task_name": "load",
            "task_dir": ".",
            "data_files": ["items.jsonl"],
            "item_properties": {"id_key": "id", "text_key": "text"},
            "output_annotation_dir": "out",
            "require_password": False,
            "user_config": {"allow_all_users": True, "users": []},
            "annotation_schemes": [slider | {"name": o, "description": o} for o in OPTIONS],
        }
        (self.folder / "config.yaml").write_text(yaml.safe_dump(config))
        return [self.program, "start", "config.yaml", "-p", self.port, "--host", "127.0.0.1"]

    async def come_in(self, client, rater):
        async with client.post(f"{self.url}/auth", data={"email": rater, "pass": "", "action": "login"}) as reply:
            assert reply.url.path == "/annotate"
        return [(f"q{k}", o) for k in range(QUESTIONS) for o in OPTIONS]

    async def save(self, client, rater, field, value):
        question, option = field
        body = {"instance_id": question, "annotations": {f"{option}:{option}": str(value)}, "span_annotations": []}
        async with client.post(f"{self.url}/updateinstance", json=body) as reply:
            assert (await reply.json())["status"] == "success"

    def kept(self, rater, field):
        file = self.folder / "out" / rater / "user_state.json"
        values = json.loads(file.read_text())["instance_id_to_label_to_value"].get(field[0], [])
        return {label["schema"]: int(v) for label, v in values}.get(field[1])


class LabelStudio(Server):
    name, program, wait_s = "Label Studio", "", 600.0

    def command(self):
        self.drafts: dict[tuple, int] = {}
        self.values: dict[tuple, dict] = {}
        who = ["--username", "load@example.org", "--password", KEY, "--user-token", KEY, "--enable-legacy-api-token"]
        where = ["--data-dir", self.folder, "--port", self.port, "--log-level", "ERROR"]
        return [self.program, "start", "--no-browser", *where, *who]

    async def ready(self):
        shown = "".join(f'<Number name="{o}" toName="text" min="0" max="100"/>' for o in OPTIONS)
        config = f'<View><Text name="text" value="$text"/>{shown}</View>'
        async with aiohttp.ClientSession(self.url, headers={"Authorization": f"Token {KEY}"}) as client:
            async with client.post("/api/projects/", json={"title": "load", "label_config": config}) as reply:
                project = (await reply.json())["id"]
            tasks = [{"text": f"What comes first, {k}?"} for k in range(QUESTIONS)]
            async with client.post(f"/api/projects/{project}/import?return_task_ids=true", json=tasks) as reply:
                self.tasks = (await reply.json())["task_ids"]

    def result(self, rater, task) -> list[dict]:
        at = {"to_name": "text", "type": "number"}
        return [
            at | {"id": o, "from_name": o, "value": {"number": v}}
            for o, v in self.values.get((rater, task), {}).items()
        ]

    async def come_in(self, client, rater):
        client.headers["Authorization"] = f"Token {KEY}"
        for task in self.tasks[:2]:  # a draft is made at the first change; two of the tasks, so that coming in is short
            async with client.post(f"{self.url}/api/tasks/{task}/drafts", json={"result": [], "lead_time": 1}) as reply:
                self.drafts[rater, task] = (await reply.json())["id"]
        return [(task, o) for task in self.tasks[:2] for o in OPTIONS]

    async def save(self, client, rater, field, value):
        task, option = field
        self.values.setdefault((rater, task), {})[option] = value
        body = {"result": self.result(rater, task), "lead_time": 1}
        async with client.patch(f"{self.url}/api/drafts/{self.drafts[rater, task]}/", json=body) as reply:
            await reply.json()

    def kept(self, rater, field):
        with contextlib.closing(sqlite3.connect(self.folder / "label_studio.sqlite3")) as db:
            sql = "SELECT result FROM tasks_annotationdraft WHERE id = ?"
            (result,) = db.execute(sql, [self.drafts[rater, field[0]]]).fetchone()
        return {r["from_name"]: r["value"]["number"] for r in json.loads(result)}.get(field[1])


async def rate(server: Server, client, rater: str, fields: list, until: float, pause: float, times: list) -> dict:
    "One rater, until the time is over: field -> the last value that was confirmed."
    told = {}
    await asyncio.sleep(random.random() * pause)
    while time.monotonic() < until:
        field, value, start = random.choice(fields), random.randint(0, 100), time.perf_counter()
        await server.save(client, rater, field, value)
        times.append(time.perf_counter() - start)
        told[field] = value
        await asyncio.sleep(pause * (0.5 + random.random()))
    return told


async def measure(server: Server, seconds: float, pause: float) -> tuple[np.ndarray, float, int, int]:
    "Milliseconds of every save, and the seconds of all; how many last answers there were, and how many are not kept."
    await server.answers()
    await server.ready()
    times: list[float] = []
    async with contextlib.AsyncExitStack() as stack:
        clients, fields = {}, {}
        for r in server.raters:
            timeout, jar = aiohttp.ClientTimeout(total=120), aiohttp.CookieJar(unsafe=True)
            session = aiohttp.ClientSession(cookie_jar=jar, raise_for_status=True, timeout=timeout)
            clients[r] = await stack.enter_async_context(session)
            fields[r] = await server.come_in(clients[r], r)
        start = time.monotonic()
        until = start + seconds
        raters = [rate(server, clients[r], r, fields[r], until, pause, times) for r in server.raters]
        told = dict(zip(server.raters, await asyncio.gather(*raters), strict=True))
        spent = time.monotonic() - start  # a server that is slow goes on after the time is over
        server.kill()
    lost = sum(server.kept(r, f) != v for r, of in told.items() for f, v in of.items())
    return 1000 * np.array(times), spent, sum(map(len, told.values())), lost


def run(kinds: list[type[Server]], raters: int, seconds: float, pause: float) -> None:
    print(f"{raters} raters, {seconds:g} s, {pause:g} s between two saves of a rater; load {os.getloadavg()[0]:.1f}")
    first = None
    for kind in kinds:
        with tempfile.TemporaryDirectory() as folder:
            server = kind(Path(folder), [f"r{k}" for k in range(raters)])
            try:
                ms, spent, n, lost = asyncio.run(measure(server, seconds, pause))
            finally:
                with contextlib.suppress(ProcessLookupError):
                    server.kill()
            p50, p99 = np.percentile(ms, [50, 99])
            first = first or (p50, p99)
            middle, slow = f"{p50:.1f} ms (x{p50 / first[0]:.1f})", f"{p99:.1f} ms (x{p99 / first[1]:.1f})"
            print(
                f"{kind.name:>12}: {len(ms) / spent:.0f} saves a second; median {middle}, 99th percentile {slow}",
                end="",
            )
            print(f", longest {ms.max():.0f} ms; lost after SIGKILL: {lost} of {n} last answers")
            if isinstance(server, Mhbench):
                print(" " * 14 + server.told())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--raters", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--pause", type=float, default=1.0)
    parser.add_argument("--potato", default="", metavar="PROGRAM")
    parser.add_argument("--label-studio", default="", metavar="PROGRAM")
    a = parser.parse_args()
    Potato.program, LabelStudio.program = (str(Path(p).absolute()) for p in (a.potato, a.label_studio))
    others = [kind for kind, given in ((Potato, a.potato), (LabelStudio, a.label_studio)) if given]
    run([Mhbench, *others], a.raters, a.seconds, a.pause)
