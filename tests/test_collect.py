"""A literature, collected from a server of our own that also misbehaves. Nothing here leaves the machine."""

import datetime
import gzip
import io
import json
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
from http.client import IncompleteRead
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest

from mhbench.corpus import pubmed
from mhbench.corpus.demo import demo_path
from mhbench.corpus.pubmed import (
    Eutils,
    collect_files,
    collect_literature,
    fetch,
    keyword_query,
    literature_manifest,
    literature_table,
    merge_topics,
    read_pubmed,
)

DAY = datetime.date
XML = (demo_path("mhqa") / "literature" / "pubmed_demo.xml").read_text(encoding="utf-8")
RECORDS = list(read_pubmed(XML.encode()))
N_ARTICLES = 48
ARTICLES = XML.split("\n")[3:-2]
SINCE, UNTIL = DAY(2000, 1, 1), DAY(2024, 12, 31)


class Server:
    "Answers as NCBI does from the demo's records; `faults` are done first, one a request."

    def __init__(self):
        self.faults, self.asked, self.short = [], [], 0
        self.held = {}
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *args):
                pass

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                name = self.path.rpartition("/")[2].removesuffix(".fcgi")
                given = dict(urllib.parse.parse_qsl(body))
                outer.asked.append((name, given))
                fault = outer.faults.pop(0) if outer.faults else None
                status, out = outer.answer(name, given)
                headers = {}
                if fault == "429":
                    status, out, headers = 429, b'{"error":"API rate limit exceeded"}', {"Retry-After": "0"}
                if fault == "500":
                    status, out = 500, b"<html>sorry</html>"
                if fault == "400":
                    status, out = 400, b'{"error":"API key invalid","api-key":"s3cret-key"}'
                if fault == "escape":
                    status, out = 400, b"\x1b]0;owned\x07\x1b[31mno\r\nmore"
                if fault == "cut":
                    out = out[: len(out) // 2]
                if fault == "html":
                    out = b"<html>maintenance</html>"
                self.send_response(status)
                for k, v in headers.items():
                    self.send_header(k, v)
                self.send_header("Content-Length", str(len(out) + (50 if fault == "drop" else 0)))
                self.end_headers()
                self.wfile.write(out)

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        self.base = f"http://127.0.0.1:{self.http.server_port}"

    def answer(self, name, given):
        if name == "esearch":
            words = [w.strip('"').lower() for w in given["term"].replace("[Title/Abstract]", "").split(" OR ")]
            low, high = (given[k].replace("/", "-") for k in ("mindate", "maxdate"))
            hits = [
                k
                for k, r in enumerate(RECORDS)
                if low <= r.entered <= high and any(w in f"{r.title} {r.text}".lower() for w in words)
            ]
            self.held[key := str(len(self.held))] = hits
            found = {"count": str(len(hits)), "webenv": "W", "querykey": key, "idlist": []}
            return 200, json.dumps({"esearchresult": found}).encode()
        start, n = int(given["retstart"]), int(given["retmax"])
        hits = self.held[given["query_key"]][start : start + n]
        hits = hits[: len(hits) - self.short]
        return 200, f"<PubmedArticleSet>{''.join(ARTICLES[k] for k in hits)}</PubmedArticleSet>".encode()


@pytest.fixture
def server():
    s = Server()
    yield s
    s.http.shutdown()


@pytest.fixture
def client(server, monkeypatch):
    monkeypatch.setenv("NCBI_API_KEY", "s3cret-key")
    c = Eutils(email="someone@example.org", base=server.base, first_pause=0.001)
    c.gap = 0.0
    return c


QUERIES = {"Depression": keyword_query(["depression"]), "Anxiety": keyword_query(["anxiety", "panic"])}


def expected(words):
    return {r.pmid for r in RECORDS if any(w in f"{r.title} {r.text}".lower() for w in words)}


def test_a_reply_without_end_is_given_up_and_its_words_are_plain(client, server):
    asked = {"term": QUERIES["Depression"], "mindate": "2000/01/01", "maxdate": "2024/12/31"}
    held = json.loads(client.get("esearch", **asked))["esearchresult"]["querykey"]
    client.max_reply_bytes = 1000
    with pytest.raises(RuntimeError, match="a reply must have at most 1000 bytes; got a longer one"):
        client.get("efetch", query_key=held, retstart=0, retmax=20)
    server.faults = ["escape"]
    with pytest.raises(RuntimeError, match="got 400: no more; run it again"):
        client.get("esearch", **asked)


def test_every_record_that_is_announced_comes_once_with_all_its_topics(client, server, tmp_path):
    found, slices = collect_literature(client, QUERIES, SINCE, UNTIL, tmp_path, limit=5, batch=2)
    assert {a.pmid for a in found["Depression"]} == expected(["depression"])
    assert slices["records"].max() <= 5 and slices.groupby("topic").size().min() > 1
    merged = merge_topics(found)
    assert len(merged) == len({a.pmid for a in merged}) == len(expected(["depression", "anxiety", "panic"]))
    both = [a for a in merged if len(a.topics) == 2]
    assert {a.pmid for a in both} == expected(["depression"]) & expected(["anxiety", "panic"])
    assert all(g["tool"] == "mhbench" and g["email"] and g["api_key"] == "s3cret-key" for _, g in server.asked)


def test_a_server_that_misbehaves_costs_time_and_no_record(client, server, tmp_path):
    server.faults = ["429", None, "500", "html", None, "cut", "drop", "cut"]
    found, _ = collect_literature(
        client, {"Depression": QUERIES["Depression"]}, SINCE, UNTIL, tmp_path, limit=50, batch=5
    )
    assert {a.pmid for a in found["Depression"]} == expected(["depression"]) and not server.faults


def test_a_slice_that_announces_more_than_it_gives_is_refused_and_kept_by_nobody(client, server, tmp_path):
    server.short = 1
    with pytest.raises(RuntimeError, match="a slice must give the .* records that it announces; got"):
        collect_literature(client, QUERIES, SINCE, UNTIL, tmp_path, limit=50)
    assert not list(tmp_path.rglob("*.parquet"))
    server.short = 0
    assert collect_literature(client, QUERIES, SINCE, UNTIL, tmp_path, limit=50)[0]


def test_a_run_that_was_stopped_goes_on(client, server, tmp_path):
    server.faults = [None] * 12 + ["400"]
    with pytest.raises(RuntimeError, match="400"):
        collect_literature(client, QUERIES, SINCE, UNTIL, tmp_path, limit=10)
    kept = {f: f.stat().st_mtime_ns for f in tmp_path.rglob("*.parquet")}
    assert kept
    (tmp_path / "depression" / "2000-01-01_x.part").write_bytes(b"half")  # what a kill leaves
    server.asked.clear()
    found, _ = collect_literature(client, QUERIES, SINCE, UNTIL, tmp_path, limit=10)
    assert {f: f.stat().st_mtime_ns for f in kept} == kept
    assert {a.pmid for a in found["Anxiety"]} == expected(["anxiety", "panic"])
    server.asked.clear()
    assert collect_literature(client, QUERIES, SINCE, UNTIL, tmp_path, limit=10)[0] == found and not server.asked


COLLECTING = """
import datetime, sys
from mhbench.corpus.pubmed import Eutils, collect_literature
client = Eutils(email="someone@example.org", base=sys.argv[1], api_key_env=None)
client.gap = 0.02
first, last = datetime.date(2000, 1, 1), datetime.date(2024, 12, 31)
collect_literature(client, {"Depression": sys.argv[2]}, first, last, sys.argv[3], limit=3, batch=1)
"""


def test_a_process_that_was_killed_costs_one_slice(client, server, tmp_path):
    where = [server.base, QUERIES["Depression"], str(tmp_path)]
    with subprocess.Popen([sys.executable, "-c", COLLECTING, *where]) as process:
        while len(list(tmp_path.rglob("*.parquet"))) < 3 and process.poll() is None:
            time.sleep(0.005)
        process.kill()
    assert process.returncode == -9, "killed while it was collecting"
    kept = {f: f.stat().st_mtime_ns for f in tmp_path.rglob("*.parquet")}
    server.asked.clear()
    found, slices = collect_literature(client, {"Depression": QUERIES["Depression"]}, SINCE, UNTIL, tmp_path, limit=3)
    assert {f: f.stat().st_mtime_ns for f in kept} == kept and 3 <= len(kept) < len(slices)
    assert sum(name == "esearch" for name, _ in server.asked) == len(slices) - len(kept)
    assert sorted(a.pmid for a in found["Depression"]) == sorted(expected(["depression"]))


def test_the_key_stands_in_no_message(client, server):
    server.faults = ["400"]
    with pytest.raises(RuntimeError) as e:
        fetch(client, "x", SINCE, UNTIL)
    assert "s3cret" not in str(e.value) and "400" in str(e.value)


def test_no_more_requests_a_second_than_allowed(server, monkeypatch):
    monkeypatch.delenv("NCBI_API_KEY", raising=False)
    client, times = Eutils(email="a@example.org", base=server.base), []
    for _ in range(3):
        client.get("esearch", term='"x"', mindate="2000/01/01", maxdate="2001/01/01")
        times.append(client.last)
    assert min(b - a for a, b in zip(times, times[1:])) >= 1 / 3
    assert "api_key" not in server.asked[-1][1]


def test_biopython_reads_the_same_fields():
    Entrez = pytest.importorskip("Bio.Entrez")
    head = '<!DOCTYPE PubmedArticleSet PUBLIC "-//NLM//DTD PubMedArticle, 1st January 2025//EN" '
    dtd = '"https://dtd.nlm.nih.gov/ncbi/pubmed/out/pubmed_250101.dtd">\n'
    text = XML.replace("<PubmedArticleSet>", f"{head}{dtd}<PubmedArticleSet>", 1)
    try:
        theirs = Entrez.read(io.BytesIO(text.encode()), validate=False)["PubmedArticle"]
    except (RuntimeError, OSError, NotImplementedError) as e:  # no copy of the DTD came with the package
        pytest.skip(f"Biopython wants a DTD from the network: {e}")
    assert len(theirs) == len(RECORDS) == N_ARTICLES
    for ours, t in zip(RECORDS, theirs):
        citation = t["MedlineCitation"]
        article = citation["Article"]
        parts = article["Abstract"]["AbstractText"] if "Abstract" in article else []
        assert ours.pmid == str(citation["PMID"]) and ours.version == int(citation["PMID"].attributes["Version"])
        assert ours.title == str(article["ArticleTitle"]) and ours.languages == list(map(str, article["Language"]))
        assert ours.text == "\n".join(f"{p.attributes['Label']}: {p}" for p in parts)
        assert ours.types == list(map(str, article["PublicationTypeList"]))
        assert str(ours.year) == str(article["Journal"]["JournalIssue"]["PubDate"]["Year"])
        corrections = citation.get("CommentsCorrectionsList", [])
        assert ours.retracted == any(c.attributes["RefType"] == "RetractionIn" for c in corrections)


def test_a_file_gives_the_same_records(tmp_path):
    file = tmp_path / "export.xml.gz"
    file.write_bytes(gzip.compress(XML.encode()))
    found, counts = collect_files([file], {"Depression": ["depression"]})
    assert counts == {"entry_not_said": 0}
    assert {a.pmid for a in found["Depression"]} == expected(["depression"])
    late = collect_files([file], {"Depression": ["depression"]}, first_year=2012)[0]["Depression"]
    assert late and min(a.year for a in late) >= 2012
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(ValueError, match="be whole XML"):
        collect_files([file], {"Depression": ["depression"]})


def a_file(path, *records):
    path.write_text(f"<PubmedArticleSet>{''.join(records)}</PubmedArticleSet>", encoding="utf-8")
    return path


def test_the_last_state_of_a_record_counts(tmp_path):
    "The same version again, revised: the article is one, and retracted."
    first = next(k for k, r in enumerate(RECORDS) if "depression" in f"{r.title} {r.text}".lower() and not r.retracted)
    retracted = ARTICLES[first].replace("</Language>", "</Language><PublicationTypeList><PublicationType>"
        "Retracted Publication</PublicationType></PublicationTypeList>", 1)  # fmt: skip
    files = [a_file(tmp_path / "a.xml", *ARTICLES), a_file(tmp_path / "b.xml", retracted)]
    merged = {a.pmid: a for a in merge_topics(collect_files(files, {"Depression": ["depression"]})[0])}
    assert merged[RECORDS[first].pmid].retracted and not RECORDS[first].retracted
    assert set(merged) == expected(["depression"])


def test_files_and_the_service_go_by_the_same_date(client, server, tmp_path):
    "Printed in 2019, taken in in 2021: both ways find it in 2021 and not in 2019."
    k = next(k for k, r in enumerate(RECORDS) if "depression" in f"{r.title} {r.text}".lower())
    moved = re.sub(r'(PubStatus="entrez"><Year>)\d+', r"\g<1>2021", ARTICLES[k])
    moved = re.sub(r"(<PubDate><Year>)\d+", r"\g<1>2019", moved)
    [record] = read_pubmed(f"<PubmedArticleSet>{moved}</PubmedArticleSet>".encode())
    assert (record.year, record.entered[:4]) == (2019, "2021")
    file = a_file(tmp_path / "n0001.xml", moved)
    for year, n in ((2019, 0), (2021, 1)):
        found, _ = collect_files([file], {"D": ["depression"]}, first_year=year, last_year=year)
        assert len(found["D"]) == n
        server.asked.clear()
        fetch(client, keyword_query(["nothing like this"]), DAY(year, 1, 1), DAY(year, 12, 31))
        assert server.asked[0][1]["datetype"] == "edat"
    undated = re.sub(r"<PubmedData>.*</PubmedData>", "", moved)
    found, counts = collect_files([a_file(file, undated)], {"D": ["depression"]}, first_year=2019, last_year=2019)
    assert len(found["D"]) == 1 and counts["entry_not_said"] == 1


def test_retractions_are_marked_and_texts_are_not_in_the_manifest():
    assert [r.pmid for r in RECORDS if r.retracted] == ["910000014"]
    table = literature_table([r.model_copy(update={"topics": ["x"]}) for r in RECORDS]).set_index("topic")
    assert table.loc["all", ["articles", "retracted", "not_english"]].tolist() == [N_ARTICLES, 1, 1]
    assert table.loc["all", "with_abstract"] == N_ARTICLES - 1
    manifest = literature_manifest(RECORDS).to_csv()
    assert "synthetic" not in manifest.lower()


# ---------------------------------------------------------------- by hand


class Clock:
    "A clock that goes on by what is slept."

    def __init__(self):
        self.now, self.slept = 100.0, []

    def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 9))
        self.now += seconds

    def monotonic(self) -> float:
        return self.now


def http_error(code: int, words: bytes, **headers) -> urllib.error.HTTPError:
    return urllib.error.HTTPError(
        "u", code, "m", {k.replace("_", "-"): v for k, v in headers.items()}, io.BytesIO(words)
    )


@pytest.fixture
def utils(monkeypatch):
    "A client whose replies and clock are made by hand; pauses are the number of the try."
    clock, sent, replies = Clock(), [], []

    def urlopen(url, data, timeout):
        sent.append((url, dict(urllib.parse.parse_qsl(data.decode())), timeout))
        reply = replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    monkeypatch.setattr(pubmed, "time", clock)
    monkeypatch.setattr(pubmed.urllib.request, "urlopen", urlopen)
    monkeypatch.setattr(
        pubmed, "pause", lambda n, retry_s=None, share=None, first=None: n if retry_s is None else retry_s
    )
    monkeypatch.delenv("NCBI_API_KEY", raising=False)
    return clock, sent, replies


class Body(io.BytesIO):
    "A reply, with the number of bytes that are still to come."

    length = 0


def test_a_request_has_who_asks_and_waits_its_turn(utils, monkeypatch):
    clock, sent, replies = utils
    replies += [Body(b"one"), Body(b"two"), Body(b"three")]
    client = Eutils(email="a@b.c", base="http://h")
    assert client.get("esearch", term="x", retmax=0) == b"one" and client.get("esearch") == b"two"
    same = {"db": "pubmed", "tool": "mhbench", "email": "a@b.c"}
    assert sent[0] == ("http://h/esearch.fcgi", same | {"term": "x", "retmax": "0"}, 120.0) and client.requests == 2
    assert clock.slept == [0.0, round(1 / 3, 9)], "three requests a second"
    monkeypatch.setenv("NCBI_API_KEY", "secret-key-123456")
    keyed = Eutils(email="a@b.c", base="http://h")
    assert keyed.get("esearch") == b"three" and sent[2][1] == same | {"api_key": "secret-key-123456"}
    assert keyed.gap == 0.1 and Eutils(email="a@b.c", api_key_env=None).same == same
    with pytest.raises(ValueError, match="email must be an address, as NCBI asks; got 'nobody'"):
        Eutils(email="nobody")


def test_a_request_is_tried_again_after_a_pause_and_given_up_after_six(utils):
    clock, sent, replies = utils
    client = Eutils(email="a@b.c")
    cut = Body(b"x")
    cut.length = 5
    replies += [http_error(500, b"broken"), http_error(429, b"slow", Retry_After="7"), cut, Body(b"well")]
    assert client.get("efetch") == b"well" and len(sent) == 4
    assert [s for s in clock.slept if s >= 1] == [1, 7, 3], "the service's own pause goes before"
    sent.clear()
    replies += [ConnectionResetError("gone")] * 6
    with pytest.raises(
        RuntimeError, match="must answer efetch; got ConnectionResetError: gone; run it again: it goes on"
    ):
        client.get("efetch")
    assert len(sent) == 6
    sent.clear()
    replies[:] = [http_error(400, b"bad query")]
    with pytest.raises(RuntimeError, match="got 400: bad query"):
        client.get("efetch")
    assert len(sent) == 1, "what is refused is not sent again"


def test_a_reply_is_read_up_to_its_limit(utils):
    client = Eutils(email="a@b.c")
    client.max_reply_bytes = 4
    assert client._read_body(Body(b"1234")) == b"1234"
    with pytest.raises(RuntimeError, match="a reply must have at most 4 bytes; got a longer one"):
        client._read_body(Body(b"12345"))
    cut = Body(b"12")
    cut.length = 1
    with pytest.raises(IncompleteRead):
        client._read_body(cut)


def answering(*replies) -> SimpleNamespace:
    "A client that gives these replies, and keeps what it was asked."
    left, asked = list(replies), []
    get = lambda name, **parameters: asked.append((name, parameters)) or left.pop(0)
    return SimpleNamespace(get=get, asked=asked, first_pause=2.0, secrets=SimpleNamespace(clean=lambda text: text))


FOUND = {"esearchresult": {"count": "3", "webenv": "W", "querykey": 1}}
FROM, TO = DAY(2020, 1, 2), DAY(2021, 3, 4)
SEARCHED = {"term": "q", "datetype": "edat", "mindate": "2020/01/02", "maxdate": "2021/03/04"}
SEARCHED |= {"usehistory": "y", "retmax": 0, "retmode": "json"}


def test_a_search_asks_for_a_count_and_for_where_the_records_are_held():
    client = answering(b"no json", json.dumps({"esearchresult": {}}).encode(), json.dumps(FOUND).encode())
    assert pubmed.search(client, "q", FROM, TO) == (3, {"WebEnv": "W", "query_key": "1"})
    assert client.asked == [("esearch", SEARCHED)] * 3
    with pytest.raises(RuntimeError, match="the reply must hold a count; got bad; look at the query"):
        pubmed.search(answering(b"x", b"y", b"bad"), "q", FROM, TO)


def test_slices_halve_the_dates_until_each_is_small_enough():
    days = [DAY(2024, 1, 1)] * 3 + [DAY(2024, 1, 4), DAY(2024, 1, 8)]
    count = lambda first, last: sum(first <= d <= last for d in days)
    found = list(pubmed.date_slices(count, DAY(2024, 1, 1), DAY(2024, 1, 8), 3))
    assert found == [
        (DAY(2024, 1, 1), DAY(2024, 1, 2), 3),
        (DAY(2024, 1, 3), DAY(2024, 1, 4), 1),
        (DAY(2024, 1, 5), DAY(2024, 1, 8), 1),
    ]
    assert list(pubmed.date_slices(count, DAY(2024, 2, 1), DAY(2024, 2, 2))) == []
    with pytest.raises(ValueError, match="a day must have 2 records at most; got 3 .2024-01-01.; narrow the query"):
        list(pubmed.date_slices(count, DAY(2024, 1, 1), DAY(2024, 1, 8), 2))
    assert pubmed.MOST == 9_999


def records(*pmids: str, books: int = 0) -> bytes:
    return b" ".join([*(f"<{p}>".encode() for p in pmids), *[b"<PubmedBookArticle>"] * books])


def test_a_slice_is_fetched_in_batches_and_again_where_less_has_come(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(pubmed, "time", clock)
    monkeypatch.setattr(pubmed, "pause", lambda n, first: n * first)

    def read(raw):
        if raw == b"cut":
            raise ValueError(raw)
        return [SimpleNamespace(pmid=x) for x in re.findall(r"<(\d+)>", raw.decode())]

    monkeypatch.setattr(pubmed, "read_pubmed", read)
    found = json.dumps(FOUND).encode()
    client = answering(
        found, records("1", "2"), b"cut", found, records("1"), records("2"), found, records("1", "2"), records(books=1)
    )
    articles, n = fetch(client, "q", FROM, TO, batch=2)
    assert [a.pmid for a in articles] == ["1", "2"] and n == 3 and clock.slept == [2.0, 4.0]
    fetched = {"rettype": "abstract", "retmode": "xml", "WebEnv": "W", "query_key": "1", "retmax": 2}
    assert (
        client.asked
        == [("esearch", SEARCHED), ("efetch", fetched | {"retstart": 0}), ("efetch", fetched | {"retstart": 2})] * 3
    )
    short = answering(*[found, records("1"), records()] * 3)
    with pytest.raises(
        RuntimeError, match="must give the 3 records that it announces; got 1 .2020-01-02 to 2021-03-04."
    ):
        fetch(short, "q", FROM, TO, batch=2)


def abstract(pmid: str, title: str, entered: str = "", year: int | None = None) -> SimpleNamespace:
    return SimpleNamespace(pmid=pmid, title=title, text="", entered=entered, year=year)


def test_articles_of_files_are_chosen_by_words_and_by_year(monkeypatch):
    all_articles = [
        abstract("1", "Sleep", "2019-12-31", 2021),
        abstract("2", "Sleep and mood", "2020-01-01", 2019),
        abstract("3", "Mood", "", 2021),
        abstract("4", "Mood", "", None),
        abstract("5", "Other", "", None),
        abstract("6", "Mood", "2022-01-01", 2021),
    ]
    monkeypatch.setattr(pubmed, "read_pubmed", lambda files: all_articles)
    words = {"sleep": ["sleep"], "mood": ["mood"]}
    ids = lambda found: {topic: [a.pmid for a in articles] for topic, articles in found.items()}
    articles, counts = collect_files(["f"], words, first_year=2020, last_year=2021)
    assert ids(articles) == {"sleep": ["2"], "mood": ["2", "3"]} and counts == {
        "entry_not_said": 1,
        "year_not_known": 1,
    }
    articles, counts = collect_files(["f"], words)
    assert ids(articles) == {"sleep": ["1", "2"], "mood": ["2", "3", "4", "6"]} and counts == {"entry_not_said": 2}
    assert ids(collect_files(["f"], words, first_year=2021)[0])["mood"] == ["3", "6"]
    assert ids(collect_files(["f"], words, last_year=2019)[0]) == {"sleep": ["1"], "mood": []}


def test_a_recipe_counts_articles_by_topic():
    articles = [SimpleNamespace(topics=t) for t in (["a"], ["a", "b"], ["c"])]
    told = {
        "queries": {"a": "x", "b": "y", "d": "z"},
        "articles": 3,
        "by_topic": {"a": 2, "b": 1, "d": 0},
        "first": "2020",
    }
    assert pubmed.recipe({"a": "x", "b": "y", "d": "z"}, articles, first="2020") == told


def test_without_a_query_there_is_no_slice(tmp_path):
    articles, slices = collect_literature(answering(), {}, FROM, TO, tmp_path)
    assert articles == {} and list(slices) == ["topic", "first", "last", "records"] and len(slices) == 0
