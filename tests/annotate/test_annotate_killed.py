"""Fifty raters with names in eight scripts answer while their server is killed five times: what was confirmed is there,
and no file but the key has a name.
"""

import asyncio
import contextlib
import os
import random
import re
import socket
import subprocess
import sys

import aiohttp

from annotate.test_annotate_names import KEY, NAMES, named_in
from annotate.test_annotate_rounds import QUESTIONS, folder, workbook  # noqa: F401
from mhbench.annotate.pages import QuestionPage
from mhbench.annotate.simulate import _build_changes
from mhbench.annotate.store import Register, differences, open_store
from mhbench.run.cli import main

KILLS = 5


class Killed:
    "A server process in its folder, on one port, which can be killed and started again."

    def __init__(self, folder):  # noqa: F811
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.folder, self.log, self.process = folder, (folder / "server.log").open("ab"), None

    async def start(self):
        code = "import sys; from mhbench.run.cli import main; sys.exit(main())"
        words = [sys.executable, "-c", code, "annotate", "serve", "ward", "--port", str(self.port)]
        env = {**os.environ, "MHBENCH_ROOT": str(self.folder)}
        self.process = subprocess.Popen(words, cwd=self.folder, env=env, stdout=self.log, stderr=self.log)
        while self.process.poll() is None:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", self.port)
                return writer.close()
            await asyncio.sleep(0.05)
        raise AssertionError("the server ended by itself")

    def kill(self):
        self.process.kill()
        self.process.wait()


class Rater:
    "One of them, whose browser sends a change again until it is confirmed, as the page's script does."

    def __init__(self, url: str, token: str, pages: list[QuestionPage]):
        self.url, self.token, self.pages = url, token, pages
        self.confirmed: dict[str, dict] = {}  # event -> what was confirmed
        self.again = 0

    async def call(self, session, method: str, path: str, **more) -> str:
        while True:
            try:
                async with session.request(method, f"{self.url}/{path}", **more) as reply:
                    if reply.status == 200:
                        return await reply.text()
                    assert reply.status in (429, 503), (reply.status, path)
            except (TimeoutError, aiohttp.ClientError, OSError):
                self.again += 1
            await asyncio.sleep(0.3)

    async def answer(self):
        limit = aiohttp.ClientTimeout(total=20)
        async with aiohttp.ClientSession(timeout=limit, cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
            await self.call(session, "GET", f"in/{self.token}")
            word = re.search(r'name="csrf" value="(\w+)"', await self.call(session, "GET", "consent"))[1]
            await self.call(session, "POST", "consent", data={"csrf": word})
            for k, page in enumerate(self.pages, 1):
                await self.call(session, "GET", f"q/{k}")
                for change in _build_changes(page, 1):
                    sent = {"json": {"changes": [change], "visit": None}, "headers": {"X-CSRF-Token": word}}
                    said = await self.call(session, "POST", "save", **sent)
                    assert change["event"] in said, said
                    self.confirmed[change["event"]] = change


async def answered(server: Killed, raters: list[Rater]) -> int:
    "All of them at once, and a server that is killed while they answer; how often it was."
    await server.start()
    work = [asyncio.create_task(r.answer()) for r in raters]
    total = sum(len(list(_build_changes(p, 1))) for r in raters for p in r.pages)
    draw, kills = random.Random(1), 0
    while not all(t.done() for t in work):
        now = sum(len(r.confirmed) for r in raters)
        if kills < KILLS and now >= (kills + draw.random()) * total / (KILLS + 1):
            server.kill()  # whatever it was doing
            kills += 1
            await server.start()
        await asyncio.sleep(0.01)
    await asyncio.gather(*work)
    server.kill()
    return kills


def test_what_was_confirmed_to_fifty_raters_outlives_five_kills(folder, capsys):  # noqa: F811
    workbook(folder / "questions.xlsx", QUESTIONS[:4])
    assert main(["annotate", "new", "ward", "questions.xlsx", "--raters", ",".join(NAMES), "--yes"]) == 0
    links = re.findall(r"\((rater-\d+)\): http://127\.0\.0\.1:8484/in/(\S+)$", capsys.readouterr().out, re.MULTILINE)
    path = folder / ".mhbench/annotate/ward.sqlite"
    server = Killed(folder)
    with open_store(path) as store:
        at = {q.question_id: q for q in store.study.questions}
        of = lambda r: [QuestionPage(store.study, at[q], r, k, store.secret) for q, k in Register(store).assigned(r)]
        raters = [Rater(f"http://127.0.0.1:{server.port}", token, of(who)) for who, token in links]
    kills = asyncio.run(answered(server, raters))
    confirmed = sum(len(r.confirmed) for r in raters)
    assert len(raters) == 50 and kills == KILLS and confirmed == 50 * 4 * 3

    with open_store(path) as store:
        kept = 0
        for (who, _), rater in zip(links, raters, strict=True):
            for page in rater.pages:
                kept += len(store.answers(who, page.question.question_id, page.occasion))
        assert differences(store) == []
    assert kept == confirmed
    assert main(["annotate", "export", "ward", "--to", "answers"]) == 0
    assert main(["annotate", "close", "ward"]) == 0
    rows = (folder / "answers" / "ratings.csv").read_text(encoding="utf-8").count("\n") - 1
    assert rows == confirmed, "every confirmed answer is a rating"
    assert named_in(folder) == {KEY}
    print(f"{kills} kills, {confirmed} answers confirmed, {kept} kept; {sum(r.again for r in raters)} requests again")
