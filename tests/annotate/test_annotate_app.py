"""Over HTTP, without a browser: who may come in, what is escaped, forms without a script, and a killed server."""

import argparse
import asyncio
import contextlib
import html
import json
import re
import resource
import secrets
import socket
import time
import urllib.request
from types import SimpleNamespace

import pytest
from aiohttp.test_utils import TestClient, TestServer

from mhbench.annotate import server as listening
from mhbench.annotate.assignment import enrol, leave
from mhbench.annotate.export import all_events, ratings
from mhbench.annotate.server import make_app
from mhbench.annotate.store import Change, Register, differences, open_store
from mhbench.annotate.study import Assigned, QuestionPage, RatedAnswer, build_study, code
from mhbench.records.schema import Item, Response
from mhbench.tools import annotate as command

from .conftest import ANSWERS, ENTRIES, items


class Rater:
    "A client that has come in by its link and agreed."

    def __init__(self, client, path, name, token, prefix=""):
        self.client, self.path, self.name, self.token, self.prefix = client, path, name, token, prefix

    async def come_in(self):
        await self.client.get(f"{self.prefix}/in/{self.token}")
        page = await (await self.client.get(f"{self.prefix}/consent")).text()
        self.word = re.search(r'name="csrf" value="(\w+)"', page)[1]
        await self.client.post(f"{self.prefix}/consent", data={"csrf": self.word})
        return self

    def sheet(self, question, occasion=0):
        with open_store(self.path) as store:
            study, secret = store.study, store.secret
        q = next(q for q in study.questions if q.question_id == question)
        return QuestionPage(study, q, self.name, occasion, secret)

    def change(self, question, target, value, choice="", **more):
        s = self.sheet(question)
        return {
            "event": secrets.token_hex(12),
            "question": code(s.secret, "question", question),
            "occasion": 0,
            "field": s.code(target),
            "value": s.code(target, choice) if choice else value,
            "stamp": time.time_ns() // 1_000_000,
            "client_ms": None,
        } | more

    async def save(self, *changes, word=None, visit=None, **headers):
        body = {"changes": list(changes), "visit": visit}
        headers = {"X-CSRF-Token": self.word if word is None else word} | headers
        return await self.client.post(f"{self.prefix}/save", data=json.dumps(body), headers=headers)


def with_page(tmp_path, entry, check, *, prefix="", found=None, said=(), **more):
    "Serve a study in this process and run a check against it."
    study, path = build_study("example", entry, found or items(2), said), tmp_path / "a.sqlite"
    with open_store(path, study) as store:
        tokens = enrol(store, study, ["r1", "r2"]) | enrol(store, study, ["boss"], role="owner")

    async def run():
        async with TestClient(TestServer(make_app(path, prefix=prefix, **more))) as client:
            await check(client, path, tokens)

    asyncio.run(run())
    return path


def test_an_unknown_link_is_refused_without_saying_why(tmp_path):
    async def check(client, path, tokens):
        with open_store(path) as store:
            leave(store, store.study, "r2")
        said = []
        for token in ("guess", tokens["r2"], "%00", "x" * 5000, "\ud83d".encode("utf-8", "surrogatepass").hex()):
            reply = await client.get(f"/in/{token}")
            assert reply.status == 403
            said.append(re.sub(r"\?to=[^\"]*", "", await reply.text()))
        assert len(set(said)) == 1
        for page in ("/", "/q/1", "/review", "/consent", "/dashboard", "/state/c0/0", "/q/1/next"):
            assert (await client.get(page)).status == 403, page
        assert (await client.post("/save", data="{}")).status == 403

    with_page(tmp_path, ENTRIES["sliders"], check)


def test_guessing_is_slowed_down_and_a_good_link_still_opens(tmp_path):
    async def check(client, path, tokens):
        statuses = [(await client.get(f"/in/guess{k}")).status for k in range(30)]
        assert statuses[:20] == [403] * 20
        assert 429 in statuses[20:]
        assert (await client.get(f"/in/{tokens['r1']}")).status == 200

    with_page(tmp_path, ENTRIES["sliders"], check)


def test_one_rater_cannot_ask_without_end(tmp_path):
    async def check(client, path, tokens):
        r = await Rater(client, path, "r1", tokens["r1"]).come_in()
        replies = [await r.save() for _ in range(20)]
        assert [x.status for x in replies][-1] == 429
        assert replies[-1].headers["Retry-After"]

    with_page(tmp_path, ENTRIES["sliders"], check, rate=0.01, burst=12)


def test_the_token_moves_from_the_address_to_a_cookie(tmp_path):
    async def check(client, path, tokens):
        reply = await client.get(f"/study/in/{tokens['r1']}", allow_redirects=False)
        assert reply.status == 303
        assert reply.headers["Location"] == "/study/"
        cookie = reply.headers["Set-Cookie"]
        for word in ("HttpOnly", "SameSite=Lax", "Secure", "Path=/study", f"Max-Age={180 * 24 * 3600}"):
            assert word in cookie

    with_page(tmp_path, ENTRIES["sliders"], check, prefix="/study", secure=True)


def test_every_reply_carries_the_headers_of_safety(tmp_path):
    async def check(client, path, tokens):
        r = await Rater(client, path, "r1", tokens["r1"]).come_in()
        for page in ("/q/1", "/review", "/nowhere", "/in/guess", "/static/x/page.js", "/q/99", "/language/de"):
            reply = await client.get(page, allow_redirects=False)
            policy = reply.headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy and "unsafe" not in policy and "*" not in policy, page
            assert reply.headers["X-Content-Type-Options"] == "nosniff"
            assert reply.headers["X-Frame-Options"] == "DENY"
            kept = "immutable" in reply.headers["Cache-Control"]
            assert kept == page.startswith("/static"), page
        page = await (await client.get("/q/1")).text()
        assert not re.search(r"<script(?![^>]*\bsrc=)", page)
        assert not re.search(r"\son\w+=|style=", page)
        assert not re.search(r"(src|href|action)=\"(https?:)?//", page)
        assert r.word not in (await (await client.get("/review")).text())

    with_page(tmp_path, ENTRIES["sliders"], check)


def test_nothing_is_posted_without_the_second_word(tmp_path):
    async def check(client, path, tokens):
        r = await Rater(client, path, "r1", tokens["r1"]).come_in()
        change = r.change("q1", "A", "50")
        assert (await r.save(change, word="guess")).status == 403
        assert (await r.save(change, **{"Sec-Fetch-Site": "cross-site"})).status == 403
        for address in ("/q/1", "/consent", "/leave"):
            assert (await client.post(address, data={"csrf": "guess"})).status == 403
        with open_store(path) as store:
            assert store.all_answers() == {}
        assert (await r.save(change)).status == 200

    with_page(tmp_path, ENTRIES["sliders"], check)


NASTY = [
    "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "\" onfocus=alert(1) autofocus x='",
    "{{ 7 * 7 }} {% raw %} ${7*7}",
    "\u202eright to left\u202c אבג مرحبا",
    "&amp; &lt; ]]> <!-- </form></textarea></select>",
    "word " * 2000,
]


def test_every_text_is_escaped(tmp_path):
    "Questions, options, context and authors of HTML, scripts, right-to-left marks and 10,000 characters."
    found = [
        Item(
            item_id=f"q{k}",
            study="example",
            task="multiple_choice",
            question=text,
            options=[f"{text} one", f"{text} two"],
            key=["A"],
            context={f"name {text[:300]}": text},
            source="synthetic",
        )
        for k, text in enumerate(NASTY)
    ]

    async def check(client, path, tokens):
        r = await Rater(client, path, "r1", tokens["r1"]).come_in()
        for text in NASTY[:-1]:
            assert (await (await r.save(r.change("q0", "comment", text))).json())["refused"] == []
            for address in ("/q/1", "/review"):
                page = await (await client.get(address)).text()
                for raw in (NASTY[0], NASTY[1], NASTY[4]):
                    assert raw not in page
                assert "<img" not in page
        seen = "".join([await (await client.get(f"/q/{n}")).text() for n in range(1, 7)])
        for text in NASTY:
            assert html.escape(text, quote=True).replace("&#x27;", "&#39;").replace("&quot;", "&#34;").strip() in seen
        assert seen.count("<script") == 6

    with_page(tmp_path, {"kind": "sliders"}, check, found=found)


def test_authors_do_not_reach_the_browser(tmp_path):
    for kind in ("labels", "errors", "duel", "score"):
        authors = {"secret-model-1": "First text.", "secret-model-2": "Second text."}
        said = [
            Response(item_id=i.item_id, study="example", model=m, mode="cot", text=t)
            for i in items(2)
            for m, t in authors.items()
        ]
        entry = {k: v for k, v in ENTRIES[kind].items() if k != "models"}

        async def check(client, path, tokens):
            r = await Rater(client, path, "r1", tokens["r1"]).come_in()
            for address in ("/q/1", "/q/2", "/review"):
                assert "secret-model" not in await (await client.get(address)).text()
            question = open_store(path).study.questions[0].question_id
            state = await client.get(f"/state/{code(r.sheet(question).secret, 'question', question)}/0")
            assert "secret-model" not in await state.text()

        folder = tmp_path / kind
        folder.mkdir()
        with_page(folder, entry, check, said=said)


def test_a_path_prefix_is_kept_everywhere(tmp_path):
    async def check(client, path, tokens):
        r = await Rater(client, path, "r1", tokens["r1"], "/a/b").come_in()
        for address in ("/q/1", "/review", "/pause", "/instructions", "/thanks"):
            page = await (await client.get(f"/a/b{address}")).text()
            local = re.findall(r"(?:href|src|action|data-save|data-state|data-onward)=\"(/[^\"]*)", page)
            assert local and all(x.startswith("/a/b/") for x in local), address
        assert (await (await r.save(r.change("q1", "A", "5"))).json())["refused"] == []
        assert (await client.get("/a/b/language/de?to=/a/b/q/1", allow_redirects=False)).headers[
            "Location"
        ] == "/a/b/q/1"
        for away in ("//evil.example", "https://evil.example", "/a/b/../..//x", "/elsewhere", "\\evil"):
            reply = await client.get("/a/b/language/de", params={"to": away}, allow_redirects=False)
            assert reply.headers["Location"] == "/a/b/", away
        assert (await client.get("/q/1")).status == 404

    with_page(tmp_path, ENTRIES["sliders"], check, prefix="/a/b")


@pytest.mark.parametrize("prefix", ["study", "/study/", "//", "/a b"])
def test_a_prefix_that_is_no_path_is_refused(tmp_path, prefix):
    with pytest.raises(ValueError, match="prefix must be a path"):
        make_app(tmp_path / "none.sqlite", prefix=prefix)


def test_a_save_says_what_it_could_not_take(tmp_path):
    async def check(client, path, tokens):
        r = await Rater(client, path, "r1", tokens["r1"]).come_in()
        other = r.change("q1", "A", "5") | {"field": Rater(client, path, "r2", "").sheet("q1").code("A")}
        odd = [
            r.change("q1", "A", "101"),
            r.change("q1", "A", "5") | {"question": "c0"},
            r.change("q1", "A", "5") | {"occasion": 1},
            r.change("q1", "A", "5") | {"occasion": True},
            r.change("q1", "A", "5") | {"stamp": "now"},
            r.change("q1", "A", "5") | {"stamp": 2**60},
            r.change("q1", "comment", "x" * 10_001),
            {"event": 3},
            other,
        ]
        good = r.change("q1", "B", "7")
        said = await (await r.save(*odd, good)).json()
        assert said["saved"] == [good["event"]]
        assert len(said["refused"]) == len(odd)
        for body in (b"", b"[]", b"{", b'{"changes": 3}', b'{"changes": [3]}', b'{"changes": [{}, 3]}', b"[" * 100_000):
            reply = await client.post("/save", data=body, headers={"X-CSRF-Token": r.word})
            assert reply.status == 400, body[:10]
        assert [(await r.save(*[good] * n)).status for n in (200, 201)] == [200, 400]

    with_page(tmp_path, ENTRIES["sliders"], check)


def test_a_browser_whose_clock_has_no_date_loses_its_time_and_no_export(tmp_path, capsys):
    "One such time in the log, and nothing could be exported: year 287396 is out of range."
    last = 253_402_300_799_999

    async def check(client, path, tokens):
        r = await Rater(client, path, "r1", tokens["r1"]).come_in()
        times = zip("ABC", (2**53 - 1, last, last + 1), strict=True)
        said = await (await r.save(*[r.change("q1", t, "5", client_ms=ms) for t, ms in times])).json()
        assert len(said["saved"]) == 3 and said["refused"] == []

    path = with_page(tmp_path, ENTRIES["sliders"], check)
    with open_store(path) as store:
        assert [ms for (ms,) in store.db.execute("SELECT client_ms FROM events ORDER BY seq")] == [None, last, None]
        log = all_events(store)
        assert [t[:10] for t in log["client"]] == ["", "9999-12-31", ""] and log["server"].all()
        earlier = Change("e" * 16, "r1", "q1", 0, "D", RatedAnswer(5.0), "{}", 1, 2**53 - 1)  # by an earlier version
        store.save([earlier])
        assert all_events(store)["client"].tolist()[-1] == ""
    assert "a.sqlite: 1 change by a clock without a date: its time is empty" in capsys.readouterr().err


def test_a_comment_with_half_a_surrogate_is_saved(tmp_path):
    async def check(client, path, tokens):
        r = await Rater(client, path, "r1", tokens["r1"]).come_in()
        assert (await (await r.save(r.change("q1", "comment", "half \ud83d, \u2028 and \x00 nul"))).json())[
            "refused"
        ] == []
        with open_store(path) as store:
            assert store.answers("r1", "q1", 0)["comment"].answer.label == "half ?, \u2028 and  nul"

    with_page(tmp_path, ENTRIES["sliders"], check)


def test_what_is_open_among_types_of_error_is_their_group_and_no_type_of_them(tmp_path):
    said = [Response(item_id="q1", study="example", model="m2", mode="cot", text=ANSWERS["m2"])]

    async def check(client, path, tokens):
        r = await Rater(client, path, "r1", tokens["r1"]).come_in()
        with open_store(path) as store:
            first = store.db.execute("SELECT question FROM places WHERE rater = 'r1' ORDER BY position").fetchone()[0]

        async def open_links():
            page = await (await client.get("/q/1?missing=1")).text()
            links = re.findall('Please answer this as well: <a href="#([^"]*)" dir="auto">([^<]*)</a>', page)
            assert all(f'id="{at}"' in page for at, _ in links)
            return [words for _, words in links]

        assert await open_links() == ["Types of error, one or several"]
        ticked = [r.change(first, kind, "", "yes") for kind in ("logical", "Abstain")]
        assert (await (await r.save(*ticked)).json())["refused"] == []
        assert await open_links() == ["Types of error, one or several"]

    with_page(tmp_path, ENTRIES["errors"], check, found=items(1), said=said)


def test_the_form_works_without_a_script_and_a_stale_form_changes_nothing_else(tmp_path):
    async def check(client, path, tokens):
        r = await Rater(client, path, "r1", tokens["r1"]).come_in()
        with open_store(path) as store:
            first = store.db.execute("SELECT question FROM places WHERE rater = 'r1' ORDER BY position").fetchone()[0]
        s = r.sheet(first)

        def form(page, **values):
            hidden = dict(re.findall(r'type="hidden" name="([\w.]+)" value="([^"]*)"', page))
            kept = {n.removeprefix("was."): v for n, v in hidden.items() if n.startswith("was.")}
            return hidden | kept | {s.code(t): v for t, v in values.items()}

        old = await (await client.get("/q/1")).text()
        reply = await client.post("/q/1", data=form(old, A="10", B="20"))
        assert reply.url.path_qs == "/q/1?missing=1"
        page = await reply.text()
        assert "Still open: 3" in page
        reply = await client.post("/q/1", data=form(page, C="30", D="40", E="50", comment="é\r\nline"))
        assert reply.url.path == "/q/2"
        await client.post("/q/1", data=form(old, A="99"))  # a form of before, sent now: only A changed on it
        await client.post("/q/1", data=form(old, A="10", B="20"))  # by the back button: the last word, and B as before
        await client.post("/q/1", data=form(old, A="10", B="20"))  # pressed twice: nothing new
        with open_store(path) as store:
            said = [v for (v,) in store.db.execute("SELECT value FROM events WHERE target = 'A' ORDER BY seq")]
            assert said == [10.0, 99.0, 10.0]
        await client.post("/q/1", data=form(old, A="99"))
        reply = await client.post("/q/1", data=form(old, E="500"))
        assert reply.url.path_qs == "/q/1?bad=1"
        with open_store(path) as store:
            given = {t: g.answer.value or g.answer.label for t, g in store.answers("r1", first, 0).items()}
            assert given == {"A": 99.0, "B": 20.0, "C": 30.0, "D": 40.0, "E": 50.0, "comment": "é\nline"}
            assert differences(store) == []

    with_page(tmp_path, ENTRIES["sliders"], check)


def test_a_form_of_another_page_is_refused(tmp_path):
    "The list may change between a form and its answer: the address then belongs to another page."

    async def check(client, path, tokens):
        await Rater(client, path, "r1", tokens["r1"]).come_in()
        page = await (await client.get("/q/1")).text()
        hidden = dict(re.findall(r'type="hidden" name="([\w.]+)" value="([^"]*)"', page))
        sent = hidden | {name.removeprefix("was."): "42" for name in hidden if name.startswith("was.")}
        for go in ("next", "back"):
            assert (await client.post("/q/2", data=sent | {"go": go})).status == 409
        for refused, status in ((sent | {"go": "next"}, 409), (sent | {"csrf": "of another link"}, 403)):
            reply = await client.post("/q/2", data=refused)
            told = await reply.text()
            assert reply.status == status and "was not saved" in told and "enter it again" in told
            assert 'href="/go"' in told and "go back and try" not in told
        with open_store(path) as store:
            assert store.all_answers() == {}

    with_page(tmp_path, ENTRIES["sliders"], check)


def test_without_a_script_back_saves_too(tmp_path):
    async def check(client, path, tokens):
        r = await Rater(client, path, "r1", tokens["r1"]).come_in()
        page = await (await client.get("/q/2")).text()
        hidden = dict(re.findall(r'type="hidden" name="([\w.]+)" value="([^"]*)"', page))
        with open_store(path) as store:
            second = Register(store).assigned("r1")[1].question_id
        sent = hidden | {r.sheet(second).code("A"): "42", "go": "back"}
        assert (await client.post("/q/2", data=sent)).url.path == "/q/1"
        with open_store(path) as store:
            assert {t: g.answer.value for t, g in store.answers("r1", second, 0).items()} == {"A": 42.0}

    with_page(tmp_path, ENTRIES["sliders"], check)


def test_the_own_link_goes_on_on_another_device(tmp_path):
    "A second browser with the same link finds the answers of the first, and the first page that is open."

    async def check(client, path, tokens):
        r = await Rater(client, path, "r1", tokens["r1"]).come_in()
        with open_store(path) as store:
            first = Register(store).assigned("r1")[0].question_id
        await r.save(*[r.change(first, t, "64") for t in "ABCDE"])
        assert (await client.get("/thanks")).url.path == "/q/2"  # no thanks for what is not answered
        async with TestClient(client.server) as phone:
            assert (await phone.get(f"/in/{tokens['r1']}")).url.path == "/q/2"
            page = await (await phone.get("/q/1")).text()
            assert re.findall(r'type="number"[^>]*value="(\d*)"', page) == ["64"] * 5

    with_page(tmp_path, ENTRIES["sliders"], check)


def test_raters_come_and_go_while_it_is_served(tmp_path):
    "By other connections to the file, as `mhbench annotate invite`, `withdraw` and `forget` make them."

    async def check(client, path, tokens):
        r1 = await Rater(client, path, "r1", tokens["r1"]).come_in()
        with open_store(path) as store:
            study, begun = store.study, Register(store).assigned("r1")[0].question_id
        await r1.save(r1.change(begun, "key", "", "A"))
        with open_store(path) as store:
            new = enrol(store, study, ["r3"])["r3"]
            leave(store, study, "r1")
            held = {r: [p.question_id for p in Register(store).assigned(r)] for r in ("r1", "r2", "r3")}
        assert held["r1"] == [begun]
        assert all(sum(q in of for of in held.values()) >= 2 for q in (f"q{k}" for k in range(1, 7)))
        assert (await r1.save(r1.change(begun, "key", "", "B"))).status == 403
        assert (await client.get("/q/1")).status == 403
        async with TestClient(client.server) as other:
            r3 = await Rater(other, path, "r3", new).come_in()
            assert (await (await r3.save(r3.change(held["r3"][0], "key", "", "C"))).json())["refused"] == []
            with open_store(path) as store:
                assert leave(store, study, "r3", forget=True) == 1
            assert (await other.get("/q/1")).status == 403
        with open_store(path) as store:
            assert {r for r, _, _ in store.all_answers()} == {"r1"}
            assert differences(store) == []

    with_page(tmp_path, ENTRIES["agree"] | {"assignment": {"rule": "pairs"}}, check, found=items(6))


def test_the_resolver_decides_what_two_raters_disagree_on(tmp_path):
    "The list is empty, then holds the question in conflict, without what the others said; the verdict comes out."

    async def check(client, path, tokens):
        with open_store(path) as store:
            study = store.study
            token = enrol(store, study, ["judge"], role="resolver")["judge"]
            q1, q2 = (q.question_id for q in study.questions)
        judge = await Rater(client, path, "judge", token).come_in()
        page = await client.get("/go")
        assert page.url.path == "/thanks" and "nothing to decide" in await page.text()
        for name, key in (("r1", "A"), ("r2", "C")):
            async with TestClient(TestServer(make_app(path))) as other:
                r = await Rater(other, path, name, tokens[name]).come_in()
                await r.save(r.change(q1, "key", "", key), r.change(q2, "key", "", "B"))
        page = await client.get("/go")
        assert page.url.path == "/q/1" and "checked" not in await page.text()
        await judge.save(judge.change(q1, "key", "", "C"))
        assert (await client.get("/go")).url.path == "/thanks"
        with open_store(path) as store:
            said = {(r.rater, r.item_id): r.label for r in ratings(store).ratings}
        pairs = {("r1", q1): "A", ("r2", q1): "C", ("r1", q2): "B", ("r2", q2): "B"}
        assert said == pairs | {("rater-1", q1): "C"}  # a name has a pseudonym

    with_page(tmp_path, ENTRIES["agree"] | {"assignment": {"rule": "pairs"}}, check)


def test_no_token_reaches_the_log(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(Register, "rater_of_token", lambda self, token: 1 / 0)

    async def check(client, path, tokens):
        assert (await client.get(f"/in/{tokens['r1']}")).status == 503
        assert "/in/{token}" in caplog.text
        assert tokens["r1"] not in caplog.text

    with_page(tmp_path, ENTRIES["sliders"], check)


@pytest.mark.parametrize(
    ("question", "shown"),
    [
        ({"role": "practice", "expected": {"A": [0, 9]}, "feedback": ""}, True),
        ({"role": "practice", "expected": {}, "feedback": "So it works."}, True),
        ({"role": "practice", "expected": {}, "feedback": ""}, False),
        ({"role": "check", "expected": {"A": [0, 9]}, "feedback": "So it works."}, False),
    ],
)
def test_a_practice_question_gives_feedback_where_it_expects_an_answer_or_has_a_word(question, shown):
    assert listening._has_feedback(SimpleNamespace(question=SimpleNamespace(**question))) == shown


def test_practice_gives_feedback_and_a_loud_check_speaks_once(tmp_path):
    extra = {"question": "Give this 100.", "targets": {"A": "This"}, "expected": {"A": [100, 100]}}
    entry = ENTRIES["sliders"] | {
        "practice": [extra | {"question_id": "p", "feedback": "So it works."}],
        "checks": [extra | {"question_id": "c", "loud": True}],
        "n_items": 1,
    }

    async def check(client, path, tokens):
        r = await Rater(client, path, "r1", tokens["r1"]).come_in()
        with open_store(path) as store:
            places = [
                q for (q,) in store.db.execute("SELECT question FROM places WHERE rater = 'r1' ORDER BY position")
            ]
        assert places[0] == "p"
        await r.save(r.change("p", "A", "3"))
        reply = await client.get("/q/1/next")
        page = await reply.text()
        assert reply.url.path_qs == "/q/1?checked=1"
        assert "Another answer was expected" in page and "So it works." in page
        assert (await client.get("/q/1/next?seen=1")).url.path == "/q/2"
        n = places.index("c") + 1
        await r.save(r.change("c", "A", "3"))
        assert (await client.get(f"/q/{n}/next")).url.path_qs == f"/q/{n}?again=1"
        assert (await client.get(f"/q/{n}/next?seen=1")).url.path != f"/q/{n}"
        with open_store(path) as store:
            found = ratings(store)
            assert found.ratings == []
            assert [(c["item_id"], c["passed"]) for c in found.checks] == [("c", False), ("p", False)]

    with_page(tmp_path, entry, check)


def test_the_dashboard_is_for_the_owner_alone(tmp_path):
    async def check(client, path, tokens):
        r = await Rater(client, path, "r1", tokens["r1"]).come_in()
        assert (await client.get("/dashboard")).status == 403
        await r.save(*[r.change(q, t, "5") for q in ("q1", "q2") for t in "ABCDE"])
        reply = await client.get(f"/in/{tokens['boss']}")
        page = await reply.text()
        assert reply.url.path == "/dashboard"
        assert re.search(r"r1</th><td>rater</td><td>2</td><td>2</td>", page)
        assert (await client.get("/q/1")).status == 200  # the rater's cookie is another
        german = await (await client.get("/language/de?to=/dashboard")).text()
        assert "Krippendorffs Alpha, intervallskaliert: Punkte" in german
        assert "Beurteilung</td>" in german

    with_page(tmp_path, ENTRIES["sliders"], check)


@pytest.mark.parametrize("kind", list(ENTRIES))
@pytest.mark.parametrize(("language", "word"), [("en", "Next"), ("de", "Weiter")])
def test_both_languages_render_every_kind(tmp_path, kind, language, word):
    said = [Response(item_id="q1", study="example", model=m, mode="cot", text=t) for m, t in ANSWERS.items()]

    async def check(client, path, tokens):
        r = await Rater(client, path, "r1", tokens["r1"]).come_in()
        page = await (await client.get("/q/1")).text()
        assert f">{word}</button>" in page
        assert f'lang="{language}"' in page
        assert r.word in page

    with_page(tmp_path, ENTRIES[kind] | {"language": language}, check, found=items(1), said=said)


def test_a_server_killed_between_two_saves_keeps_the_first(serve):
    "A real process, SIGKILL, and the same address again."
    s = serve(ENTRIES["sliders"], process=True)
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    opener.open(s.link("r1"))
    word = re.search(r'name="csrf" value="(\w+)"', opener.open(f"{s.url}/consent").read().decode())[1]
    opener.open(f"{s.url}/consent", data=f"csrf={word}".encode())
    place = Assigned(s.study.questions[0].question_id)
    rater = Rater(None, s.answers, "r1", s.tokens["r1"])

    def save(target, value):
        body = json.dumps({"changes": [rater.change(place.question_id, target, value)], "visit": None}).encode()
        request = urllib.request.Request(f"{s.url}/save", data=body, headers={"X-CSRF-Token": word})
        return json.loads(opener.open(request).read())

    assert len(save("A", "11")["saved"]) == 1
    s.kill()
    s.start_process()
    assert len(save("B", "22")["saved"]) == 1
    with open_store(s.answers) as store:
        assert {t: g.answer.value for t, g in store.answers("r1", place.question_id, 0).items()} == {
            "A": 11.0,
            "B": 22.0,
        }
        assert differences(store) == []


@pytest.mark.parametrize(
    ("host", "public", "secure", "warned"),
    [
        ("127.0.0.1", "", False, False),
        ("127.0.0.1", "https://page.example", True, False),
        ("0.0.0.0", "", True, True),
        ("0.0.0.0", "http://lab.example:8484", False, True),
    ],
)
def test_what_the_command_serves_keeps_cookies_to_https_and_warns_where_the_world_can_reach_it(
    tmp_path, monkeypatch, capsys, host, public, secure, warned
):
    "The application as the command makes it, asked over a socket of loopback."
    path, seen = tmp_path / "a.sqlite", []
    study = build_study("example", ENTRIES["sliders"], items(2), ())
    with open_store(path, study) as store:
        tokens = enrol(store, study, ["r1"])

    async def look(app, host, port, ready):
        async with TestClient(TestServer(app)) as client:
            for place in (f"/in/{tokens['r1']}", "/language/de?to=/"):
                reply = await client.get(place, allow_redirects=False)
                seen.append("; secure" in reply.headers["Set-Cookie"].lower())

    monkeypatch.setattr(command, "_prepare", lambda a: path)
    monkeypatch.setattr(listening, "listen", look)
    command._serve(argparse.Namespace(host=host, port=0, public_url=public))
    assert seen == [secure] * 2
    assert ("open to the network" in capsys.readouterr().out) == warned


def test_a_proxy_that_says_https_makes_cookies_secure(tmp_path):
    async def check(client, path, tokens):
        for said, secure in (("https", True), ("HTTPS, http", True), ("http", False), ("", False)):
            headers = {"X-Forwarded-Proto": said} if said else {}
            reply = await client.get(f"/in/{tokens['r1']}", headers=headers, allow_redirects=False)
            assert ("; secure" in reply.headers["Set-Cookie"].lower()) == secure, said

    with_page(tmp_path, ENTRIES["sliders"], check)


def few_files():
    "So few open files that 370 connections were more than a server without a limit could have."
    resource.setrlimit(resource.RLIMIT_NOFILE, (300, 300))


def test_370_half_connections_do_not_stop_the_page(serve, tmp_path):
    s, log = serve(ENTRIES["sliders"], process=False), tmp_path / "log.txt"
    s.stop()
    with log.open("wb") as stderr:
        s.start_process(preexec_fn=few_files, stderr=stderr)
        half = []
        for _ in range(370):
            with contextlib.suppress(OSError):  # not taken within the time, or closed already: it made room
                half.append(socket.create_connection(("127.0.0.1", s.port), timeout=0.2))
                half[-1].sendall(b"GET / HTTP/1.1\r\nHost: half\r\n")
        for _ in range(5):
            browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
            page = browser.open(s.link("r1"), timeout=listening.HEADERS_S - 5)  # before they are closed for silence
            assert page.status == 200 and b"<form" in page.read()
        assert s.process.poll() is None
        for one in half:
            one.close()
        s.kill()
    assert log.stat().st_size < 10_000, log.read_text()[:2000]


def test_a_body_that_never_ends_is_ended_and_an_idle_connection_is_closed(tmp_path, monkeypatch):
    "A request has its time, body included; and a browser that keeps silent does not keep its connection."
    path = tmp_path / "a.sqlite"
    study = build_study("example", ENTRIES["sliders"], items(2), ())
    with open_store(path, study) as store:
        token = enrol(store, study, ["r1"])["r1"]
    monkeypatch.setattr(listening, "HEADERS_S", 0.4)
    monkeypatch.setattr(listening, "REQUEST_S", 0.4)

    async def said(port, words):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(words)
        found = await asyncio.wait_for(reader.read(), 30)  # until it is closed from there
        writer.close()
        return found.decode()

    async def run():
        port = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(listening.listen(make_app(path), "127.0.0.1", 0, port.set_result))
        head = f"Host: page\r\nCookie: mhbench_example={token}\r\n"
        body = f"POST /consent HTTP/1.1\r\n{head}Content-Type: application/x-www-form-urlencoded\r\n"
        found = [await said(await port, f"{body}Content-Length: 100\r\n\r\ncsrf=".encode())]
        found.append(await said(await port, f"GET /consent HTTP/1.1\r\n{head}\r\n".encode()))
        task.cancel()
        return found

    trickled, idle = asyncio.run(run())
    assert trickled.startswith("HTTP/1.1 408 ") and "Content-Security-Policy" in trickled
    assert idle.startswith("HTTP/1.1 200 ") and "</html>" in idle


def test_a_save_with_odd_numbers_or_headers_is_refused_and_no_failure(tmp_path):
    async def check(client, path, tokens):
        rater = await Rater(client, path, "r1", tokens["r1"]).come_in()
        for occasion in (2**63, -1):
            reply = await rater.save(rater.change("q1", "A", "11", occasion=occasion))
            assert reply.status == 200 and len((await reply.json())["refused"]) == 1
        assert (await rater.save(word="\u00e9")).status == 403
        reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
        cookie = f"mhbench_example={tokens['r1']}".encode()
        writer.write(b"POST /save HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n")
        writer.write(b"Cookie: " + cookie + b"\r\nX-CSRF-Token: \xff\xe9\r\n\r\n{}")
        assert (await reader.readline()).split()[1] == b"403"

    with_page(tmp_path, ENTRIES["sliders"], check)


def test_the_time_on_a_page_is_kept_and_what_is_no_time_loses_no_answer(tmp_path):
    async def check(client, path, tokens):
        r = await Rater(client, path, "r1", tokens["r1"]).come_in()
        page = {"question": r.change("q1", "A", "50")["question"], "occasion": 0}
        for visit in (
            *({"visit": "a" * 16, "active_ms": ms} | page for ms in (-1, 1.5, "9", None, 2**53, True)),
            *({"visit": name, "active_ms": 9} | page for name in ("a" * 15, "A" * 16, 9, None)),
            {"visit": "a" * 16, "active_ms": 9, "question": "c0", "occasion": 0},
            {"visit": "a" * 16, "active_ms": 9} | page | {"occasion": 1},
            "a" * 16,
        ):
            assert (await r.save(r.change("q1", "A", "50"), visit=visit)).status == 200
        assert active_ms(path) == {} and kept_answers(path) == {"A": 50}
        for name, ms in (("b", 1500), ("c", 10**12)):  # a day at most: a page that was left open
            await r.save(visit={"visit": name * 16, "active_ms": ms} | page)
        assert active_ms(path) == {("r1", "q1", 0): 1500 + 24 * 3600 * 1000}

    def active_ms(path):
        with open_store(path) as store:
            return store.active_ms()

    def kept_answers(path):
        with open_store(path) as store:
            return {t: g.answer.value for of in store.all_answers().values() for t, g in of.items()}

    with_page(tmp_path, ENTRIES["sliders"], check)
