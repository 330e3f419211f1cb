"""Two hundred raters answer at once over loopback: how long a save takes, and whether anything is lost.

The page runs as a process of its own, the raters in this one; each saves one slider at a time and waits for the reply
before the next. A save is confirmed once it is on the disk. At the end every confirmed save has to be in the log, and
the log has to replay to the answers.

    python benchmarks/annotate.py --raters 200 --seconds 20

`--pause` is how long a rater thinks between two saves, on average. With 0 everybody saves as fast as the page answers,
which is more than two hundred people can do; people at sliders take a second or more.
"""

import argparse
import asyncio
import contextlib
import random
import re
import resource
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import aiohttp
import numpy as np

from mhbench.annotate.enrolment import enrol
from mhbench.annotate.pages import Sheet
from mhbench.annotate.presentation import code, present
from mhbench.annotate.sources import demo_entry, study_of
from mhbench.annotate.store import Register, differences, now_ms, open_store


def fields_of(store, rater: str) -> list[dict]:
    "Every slider of a rater, as a change names it."
    study, out = store.study, []
    at = {q.question_id: q for q in study.questions}
    for place in Register(store).places(rater):
        q = at[place.question_id]
        sheet = Sheet(study, q, present(study, q, rater, place.occasion), store.secret, rater, place.occasion)
        page = {"question": code(store.secret, "question", q.question_id), "occasion": place.occasion}
        out += [page | {"field": c} for c, f in sheet.by_code().items() if f.form == "number"]
    return out


async def come_in(client: aiohttp.ClientSession, url: str, token: str) -> str:
    "By the link and the consent to the word that every save carries."
    async with client.get(f"{url}/in/{token}") as reply:
        word = re.search(r'name="csrf" value="(\w+)"', await reply.text())[1]
    async with client.post(f"{url}/consent", data={"csrf": word}):
        return word


async def rate(client, url: str, word: str, fields: list[dict], until: float, pause: float, times: list, events: list):
    await asyncio.sleep(random.random() * pause)
    while time.monotonic() < until:
        named = {"event": secrets.token_hex(12), "stamp": now_ms(), "client_ms": now_ms()}
        change = random.choice(fields) | named | {"value": str(random.randint(0, 100))}
        start = time.perf_counter()
        body = {"changes": [change], "visit": None}
        async with client.post(f"{url}/save", json=body, headers={"X-CSRF-Token": word}) as reply:
            saved = (await reply.json())["saved"]
        times.append(time.perf_counter() - start)
        events += saved
        await asyncio.sleep(pause * (0.5 + random.random()))


async def measure(url: str, tokens: dict, fields: dict, seconds: float, pause: float) -> tuple[list, list]:
    "Everybody comes in, then the clock starts."
    times, events = [], []
    async with contextlib.AsyncExitStack() as stack:
        clients = {}
        for r in tokens:
            jar = aiohttp.CookieJar(unsafe=True)
            client = aiohttp.ClientSession(cookie_jar=jar, raise_for_status=True)
            clients[r] = await stack.enter_async_context(client)
        words = {r: await come_in(clients[r], url, token) for r, token in tokens.items()}
        until = time.monotonic() + seconds
        await asyncio.gather(*(rate(clients[r], url, words[r], fields[r], until, pause, times, events) for r in tokens))
    return times, events


async def run(raters: int, seconds: float, pause: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, study = Path(folder) / "mentat.sqlite", study_of("mentat", demo_entry("mentat"))
        with open_store(path, study) as store:
            tokens = enrol(store, study, [f"r{k}" for k in range(raters)], simulated=True)
            fields = {r: fields_of(store, r) for r in tokens}
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        main = "import sys; from mhbench.run.cli import main; sys.exit(main())"
        words = [
            "annotate",
            "serve",
            "mentat",
            "--params",
            f"{folder}/none",
            "--answers",
            str(path),
            "--port",
            str(port),
        ]
        server = subprocess.Popen([sys.executable, "-c", main, *words], stdout=subprocess.DEVNULL)
        try:
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), timeout=1).close()
                    break
                except OSError:
                    await asyncio.sleep(0.1)
            times, events = await measure(f"http://127.0.0.1:{port}", tokens, fields, seconds, pause)
        finally:
            server.terminate()
            server.wait()
        with open_store(path) as store:
            logged = {e for (e,) in store.db.execute("SELECT event FROM events")}
            wrong = differences(store)
    ms = 1000 * np.array(times)
    p50, p99, most = np.percentile(ms, 50), np.percentile(ms, 99), ms.max()
    print(
        f"{raters} raters, {seconds:g} s, {pause:g} s between saves: {len(ms)} saves, {len(ms) / seconds:.0f} a second"
    )
    print(f"a save: median {p50:.1f} ms, 99th percentile {p99:.1f} ms, longest {most:.1f} ms")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = 1000 * (used.ru_utime + used.ru_stime) / len(ms)
    print(f"the server's processor time: {cpu:.2f} ms a save, with its start and the coming in of all raters")
    print(
        f"confirmed and not in the log: {len(set(events) - logged)}; answers that the log does not give: {len(wrong)}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--raters", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--pause", type=float, default=1.0)
    a = parser.parse_args()
    asyncio.run(run(a.raters, a.seconds, a.pause))
