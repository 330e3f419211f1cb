"""Files that nobody would write, or somebody did: each is read rightly, or refused by function, place, value and rule.

Each is made in a folder of its own, in which nothing else may lie when its reader has ended.
"""

import datetime
import gzip
import io
import json
import os
import pickle
import re
import sqlite3
import subprocess
import sys
import zipfile
from decimal import Decimal

import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from conftest import ROOT
from openpyxl.cell.rich_text import CellRichText, TextBlock
from openpyxl.cell.text import InlineFont

from mhbench.ledger.release import _read_release
from mhbench.records.anki import load_anki
from mhbench.records.answers import load_answers
from mhbench.records.labelstudio import load_label_studio
from mhbench.records.questions import guess_layout, load_questions
from mhbench.records.schema import Item
from mhbench.records.table import read_table
from mhbench.run.params import load_params
from mhbench.studies.mentat.pickled import pickled_table

OF = dict(study="s", task="multiple_choice", options=["sleep", "noise"], key=["A"], source="made")
ITEMS = [Item(item_id=f"q{n}", question=f"What helps {n}?", **OF) for n in (1, 2)]


def questions(path):
    table = read_table(path)
    layout = guess_layout(table)
    return load_questions(table, "s", **layout).records


def logs(path):
    return load_answers(path, ITEMS, "m")


def label_studio(path):
    return load_label_studio(path, {"q1": ["m"]}, raters="r1").ratings


def anki(path):
    return load_anki(path, language="de", max_bytes=2 << 20).items


def release(path):
    return [_read_release("s", path)]


def params(path):
    return [load_params(path)]


# ---------------------------------------------------------------- how the files are made

HEAD = "id,question,A,B,answer\n"
ROW = "1,What helps?,sleep,noise,A\n"


def asked(question="What helps?", a="sleep", b="noise", key="A", id="1") -> str:
    return f"{HEAD}{id},{question},{a},{b},{key}\n"


def lines(*rows) -> bytes:
    return "".join(json.dumps(r) + "\n" for r in rows).encode()


def parquet(**columns) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out)
    return out.getvalue()


def twice(**columns) -> bytes:
    "A Parquet file whose last column stands twice."
    table, out = pa.table(columns), io.BytesIO()
    pq.write_table(table.append_column(table.column_names[-1], table.column(-1)), out)
    return out.getvalue()


SHEET = (("id", "question", "A", "B", "answer"), (1, "Which?", "a", "b", "A"), (2, None, "c", "d", "B"))


def workbook(change=lambda sheet: None, rows=SHEET[:2]) -> bytes:
    book, out = openpyxl.Workbook(), io.BytesIO()
    for row in rows:
        book.active.append(row)
    change(book.active)
    book.save(out)
    return out.getvalue()


def put(cell, value) -> bytes:
    return workbook(lambda sheet: sheet.__setitem__(cell, value))


def repacked(change) -> bytes:
    "A workbook whose sheet is changed as XML."
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(workbook())) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, change(old.read(name)) if name.endswith("sheet1.xml") else old.read(name))
    return out.getvalue()


def with_entities(declared: bytes, used: bytes) -> bytes:
    doctype = b"<!DOCTYPE x [" + declared + b"]>"
    return repacked(lambda x: doctype + x.split(b"?>", 1)[-1].replace(b"<v>1</v>", b"<v>" + used + b"</v>"))


LAUGHS = b"".join(b'<!ENTITY %c "%s">' % (97 + i, b"&%c;" % (96 + i) * 10 if i else b"ha") for i in range(10))
ALIASES = "a: &a [x]\n" + "".join(f"{b}: &{b} [{','.join([f'*{a}'] * 10)}]\n" for a, b in zip("abcdefghi", "bcdefghij"))


def zipped(name, content) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr(name, content)
    return out.getvalue()


def deck(*notes, script="create table notes (id, guid, tags, flds); create table decks (id, name);") -> bytes:
    db = sqlite3.connect(":memory:")
    db.executescript(script)
    for note in notes:
        db.execute("insert into notes values (?, ?, ?, ?)", note)
    db.commit()
    return zipped("collection.anki21", db.serialize())


ENDLESS = "create view notes as with recursive t(id) as (select 1 union all select id + 1 from t) select id from t"


def task(*results, **more) -> bytes:
    annotation = {"id": 1, "result": results} | more
    return json.dumps([{"id": 1, "data": {"item_id": "q1", "study": "s"}, "annotations": [annotation]}]).encode()


def said(value, name="correctness_1", kind="choices"):
    return {"from_name": name, "type": kind, "value": {"text" if kind == "textarea" else kind: value}}


def loop(path):
    path.symlink_to(path.with_name(f"{path.stem}-too"))
    path.with_name(f"{path.stem}-too").symlink_to(path)


FOLDER, PIPE, DEEP = os.mkdir, os.mkfifo, b"[" * 100_000 + b"]" * 100_000
RIGHT = task(said(["Correct"]))
MC = {"id": "1", "question": "Which?", "options": ["a", "b"], "answer": "A"}
THREE = MC | {"options": ["a", "b", "c"]}
LM = {"doc_id": 0, "doc": {"id": "q1", "question": "What helps 1?"}, "resps": [["A"]], "filter": "none"}
RELEASE = dict(title="t", repository="https://x.org/a", commit="c", licence="MIT", terms="none", groups=[])


def with_group(to) -> str:
    return yaml.safe_dump(RELEASE | {"groups": [{"there": "*", "to": to}]})


def logged(**body) -> bytes:
    return lines({"custom_id": "q1", "response": body})


def inspected(*samples) -> str:
    return json.dumps({"samples": samples})


NO_CONTROL = "a cell must have no control character"
# reader, suffix, files: name -> what it holds (or what makes it), and how many records it has or the rule it breaks
FILES = [
    (questions, "csv", {
        "UTF-16": ((HEAD + ROW).encode("utf-16"), 1),
        "UTF-16 that does not say so": ((HEAD + ROW).encode("utf-16-le"), 1),
        "UTF-32": ((HEAD + ROW).encode("utf-32"), "must have 5 fields"),
        "two marks of UTF-8": (b"\xef\xbb\xbf\xef\xbb\xbf" + (HEAD + ROW).encode(), 1),
        "another encoding": (asked("Wär?").encode("cp1252"), "say --encoding cp1252 if that is right"),
        "lines that end as on old Macs": ((HEAD + ROW).replace("\n", "\r"), 1),
        "a delimiter that is named": ("sep=;\n" + (HEAD + ROW).replace(",", ";"), 1),
        "a delimiter that is a quote": ('sep="\n' + HEAD + ROW, "no quote and ends no line; got '\"' (PLACE)"),
        "nothing": (b"", "must begin with the names of its columns"),
        "a mark and nothing": (b"\xef\xbb\xbf", "must begin with the names of its columns"),
        "a NUL": (asked("Wh\0at?"), NO_CONTROL),
        "colours of a terminal": (asked("What \x1b[31mred?"), NO_CONTROL),
        "a text from right to left": (asked("What \u202ehelps\u202c?"), NO_CONTROL),
        "an id that rings": (asked(id="a\x07b"), NO_CONTROL),
        "an id that is a path": (asked(id="../../etc"), 1),
        "an id of 6,000 digits": (asked(id="9" * 6000), 1),
        "a formula of Excel": (asked("=cmd|'/C calc'!A0"), 1),
        "a picture without quotes": (asked("What is <img src=http://x/y.png>?"), "without pictures"),
        "a script": (asked("What <script>alert(1)</script> helps?"), 1),
        "a question that nobody sees": (asked("\u200b\u2060"), "question must not be empty"),
        "an option that nobody sees": (asked(b="\u200b"), "options must be two or more"),
        "options that differ by nothing seen": (asked(b="sle\u200bep"), "options must differ"),
        "options that differ by composition": (asked(a="größe", b="gro\u0308ße"), "options must differ"),
        "a key in Cyrillic": (asked(key="А"), "key must name an option by letter, number or text"),
        "a key of full width": (asked(key="Ａ"), "key must name an option by letter, number or text"),
        "a key in Arabic": (asked(key="١"), "the form of keys must be given"),
        "a short row": (HEAD + ROW + "2,What?\n", "must have 5 fields; got 2"),
        "a long row": (asked("Was, was?"), "must have 5 fields; got 6"),
        "a quote that stays open": (HEAD + '1,"What?,a,b,A\n' + ROW, "look for a quote"),
        "a text behind a quote": (HEAD + '1,"What"?,a,b,A\n', "look for a quote"),
        "a name twice": ("id,question,question,A,B,answer\n1,x,y,a,b,A\n", "must have names of their own"),
        "a name in two cases": ("id,question,Question,A,B,answer\n1,x,y,a,b,A\n", "must be named where several fit"),
        "60,000 columns": (",".join(f"c{n}" for n in range(60_000)) + "\n", "must have 4,000 columns at most"),
        "a packed table": (gzip.compress((HEAD + ROW).encode()), "encoding must be that of the file"),
        "a workbook by another name": (workbook(), "path must be a text file; got an Excel workbook"),
        "a folder": (FOLDER, "path must be a file"),
        "a pipe": (PIPE, "path must be a file"),
        "a link to itself": (loop, "path must be a file"),
    }),
    (questions, "jsonl", {
        "infinity": ('{"id": Infinity}', "got Infinity, which is no number"),
        "a number of 6,000 digits": ('{"id": ' + "9" * 6000 + "}", "Exceeds the limit"),
        "a name twice": ('{"answer": "A", "answer": "B"}', "the name 'answer' more than once"),
        "an option twice": ('{"options": {"A": "a", "B": "b", "B": "c"}}', "the name 'B' more than once"),
        "half a character": ('{"question": "W\\ud83d?"}', "half a character"),
        "nesting without end": (b'{"question": ' + DEEP + b"}", "entries in entries without end"),
        "an end that is cut off": (lines(MC) + lines(MC)[:30], "(PLACE:2)"),
        "a list": (json.dumps([MC]), "must be a JSON object; got list"),
        "a mark in the middle": (lines(MC) + b"\xef\xbb\xbf" + lines(MC), "(PLACE:2)"),
        "a line separator": (json.dumps(MC | {"question": "a\u2028b?"}, ensure_ascii=False), 1),
        "keys from 0 or 1": (lines(THREE | {"answer": 1}, THREE | {"id": 2, "answer": 2}), "--key number0"),
        "keys from 0": (lines(THREE | {"answer": 0}, THREE | {"id": 2, "answer": 2}), 2),
        "keys from 0 and from 1": (lines(THREE | {"answer": 0}, THREE | {"id": 2, "answer": 3}), "--key number0"),
        "keys that are options": (lines(MC | {"options": ["1", "2"], "answer": 1}), "--key text"),
        "27 options": (lines(MC | {"options": [f"o{n}" for n in range(27)]}), "options must be 26 at most"),
        "2,000 options": (lines(MC | {"options": ["o"] * 2000}), "must hold 1000 values at most"),
        "options out of order": (lines(MC | {"options": {"B": "b", "A": "a"}}), "not dict"),
        "an option that is none": (lines(MC | {"options": ["a", None]}), "must not be empty between others"),
    }),
    (questions, "xlsx", {
        "a text": (HEAD + ROW, "must be an Excel workbook"),
        "a workbook with a password": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "without a password"),
        "names that are merged": (workbook(lambda s: s.merge_cells("C1:D1")), "must name each column"),
        "options that are merged": (workbook(lambda s: s.merge_cells("C2:D2")), "must not be merged over several"),
        "a question for two rows": (workbook(lambda s: s.merge_cells("B2:B3"), SHEET), 2),
        "an option that is a date": (put("C2", datetime.date(2026, 4, 3)), "not 'yyyy-mm-dd': make it text"),
        "a formula without a value": (put("E2", '=IF(1,"A","B")'), "a formula must have a stored value"),
        "a cell of another workbook": (put("B2", "='[http://x.example/x.xlsx]S'!A1"), "must have a stored value"),
        "an error": (put("E2", "#REF!"), "not an error of the sheet"),
        "a superscript": (put("B2", CellRichText("10", TextBlock(InlineFont(vertAlign="superscript"), "9"))), 1),
        "a format that shows nothing": (workbook(lambda s: setattr(s["A2"], "number_format", ";;;")), "not ';;;'"),
        "entities of entities": (with_entities(LAUGHS, b"&j;"), "Excel workbook"),
        "an entity that is a file": (with_entities(b'<!ENTITY a SYSTEM "file:///etc/passwd">', b"&a;"), "Excel"),
        "more than it says": (lambda path: path.write_bytes(repacked(lambda x: x + bytes(80 << 20))), "64 MB at most"),
        "a row a billion below": (repacked(lambda x: re.sub(rb'"([A-E]?)2"', rb'"\g<1>999999999"', x)), "rows at most"),
    }),
    (questions, "parquet", {
        "options as an object": (parquet(question=["W?"], options=[{"A": "x", "B": "y"}], answer=["A"]), 1),
        "options in lists": (parquet(question=["W?"], options=[[["x"], ["y"]]], answer=["A"]), "hold texts or numbers"),
        "bytes": (parquet(question=[b"W\xff?"], options=[["a", "b"]], answer=["A"]), "not bytes"),
        "a decimal": (parquet(question=["W?"], options=[["a", "b"]], answer=[Decimal("1.00")]), "not Decimal"),
        "a column twice": (twice(question=["W?"]), "must have names of their own"),
        "an end that is none": (b"PAR1" + b"\xff" * 44 + b"\x7fPAR1", "must be a Parquet file"),
    }),
    (logs, "csv", {
        "a number of 5,000 digits": ("item_id,number\nq1," + "9" * 5000, "a number from 1 to 2"),
        "a superscript": ("item_id,number\nq1,²\n", "a number from 1 to 2"),
        "no temperature": ("item_id,text,temperature\nq1,A,nan\n", "temperature must be a number"),
        "an infinite temperature": ("item_id,text,temperature\nq1,A,1e999\n", "temperature must be a number"),
        "a column twice": ("item_id,text,text\nq1,A,B\n", "must have a name of its own"),
        "an answer twice": ("item_id,text\nq1,A\nq1,B\n", "must be answered once"),
        "no probability": ('item_id,text,letter_logprobs\nq1,A,"{""A"": NaN}"\n', "0 at most; got A: nan"),
        "a probability above 1": ('item_id,text,letter_logprobs\nq1,A,"{""A"": 3}"\n', "0 at most; got A: 3"),
        "a letter of no option": ('item_id,text,letter_logprobs\nq1,A,"{""Z"": -1}"\n', "of the item's letters"),
        "a letter twice": ('item_id,text,letter_logprobs\nq1,A,"{""A"": -1, ""A"": -2}"\n', "must be a JSON object"),
        "an order with a letter twice": ("item_id,text,order\nq1,A,AA\n", "each of the item's letters once"),
        "an id from right to left": ("item_id,text\n\u202eq1,A\n", "got 1 that do not, the first '\\u202eq1'"),
        "an origin that is none": ("item_id,text,origin\nq1,A,dream\n", "Response.origin does not fit"),
        "a pipe": (PIPE, "must be a CSV or Parquet file"),
    }),
    (logs, "parquet", {
        "texts in lists": (parquet(item_id=["q1"], text=[["A"]]), "must hold texts or numbers"),
        "bytes": (parquet(item_id=["q1"], text=[b"A\xff"]), "must hold texts or numbers"),
        "no answer": (parquet(item_id=["q1", "q2"], text=["A", None]), 2),
        "a column twice": (twice(item_id=["q1"], text=["A"]), "must be a CSV or Parquet file"),
    }),
    (logs, "jsonl", {
        "nesting without end": (b'{"doc":' + DEEP + b"}\n", "entries in entries without end"),
        "numbers": (b"1\n2\n", "must be a JSON object; got int (PLACE:1)"),
        "UTF-16": (lines(LM).decode().encode("utf-16"), 1),
        "an end that is cut off": (lines(LM) + lines(LM)[:40], "(PLACE:2)"),
        "responses that are none": (lines(LM, LM | {"resps": 5}), "after PLACE:1"),
        "a document that is a list": (lines(LM | {"doc": [1]}), "must be a whole log"),
        "more letters than options": (lines(LM | {"resps": [[["-3", 0]], [["-2", 0]], [["-1", 0]]]}), "got C: -1.0"),
        "options of another item": (lines(LM | {"doc": LM["doc"] | {"choices": [1, 2]}}), "must be the item's options"),
        "a document twice": (lines(LM, LM), "must be answered once"),
        "a body that is a list": (logged(body=[1]), 1),
        "a body that is null": (logged(status_code=200, body=None), 1),
        "a choice that is a text": (logged(body={"choices": ["A"]}), "must be a whole log"),
        "a request twice": (b'{"custom_id": "q2", "custom_id": "q1"}', "the name 'custom_id' more than once"),
        "a run without a model": (lines({"evaluation_id": "x"}), "must be a whole log"),
    }),
    (logs, "json", {
        "nesting without end": (DEEP, "must be a whole log"),
        "a list": (b"[]", "a .json must be a log of inspect with samples; got list"),
        "no samples": (inspected(), "path must hold answers; got none"),
        "samples that are numbers": (inspected(1, 2), "must be a whole log"),
        "a sample that nothing names": (inspected({"output": None}), "must be a whole log"),
        "an epoch that is a word": (inspected({"id": "q1", "epoch": "one", "output": {}}), "must be a whole log"),
        "a path out of the folder": (
            '{"evaluation_id": 1, "detailed_evaluation_results": {"file_path": "../../etc/passwd"}}', "got no passwd"
        ),
    }),
    (logs, "eval", {
        "no archive": (b"no", "must be an archive that can be unpacked"),
        "a sample without end": (lambda path: path.write_bytes(zipped("samples/a.json", bytes(80 << 20))), "64 MB"),
        "nesting without end": (zipped("samples/a.json", DEEP), "must be a whole log"),
        "nothing": (zipped("a.json", "{}"), "path must hold answers; got none"),
    }),
    (label_studio, "json", {
        "an export without annotations": (json.dumps([{"id": 1, "item_id": "q1"}]), "export as JSON, not JSON_MIN"),
        "another project": (json.dumps([{"data": {"text": "x", "url": "y"}, "annotations": []}]), "data.item_id"),
        "a name twice": (RIGHT.replace(b'"id": 1', b'"id": 1, "id": 2', 1), "the name 'id' more than once"),
        "an id that is no number": (RIGHT.replace(b'"id": 1', b'"id": NaN'), "got NaN, which is no number"),
        "two answers to a question": (task(said(["Correct"]), said(["Incorrect"])), "two results of the control"),
        "a choice that is a text": (task(said("Correct")), "a choice must be single; got 'Correct'"),
        "a choice that is null": (task(said(None)), "a choice must be single; got None"),
        "a comment of numbers": (task(said([1], "comment", "textarea")), "must be choices or textarea"),
        "a user that is a list": (task(said(["Correct"]), completed_by=[1]), "completed_by"),
        "a mark that is a text": (task(said(["Correct"]), was_cancelled="false"), "was_cancelled"),
        "a time that is a number": (task(said(["Correct"]), updated_at=5), "must be as 2025-01-07T10:42:00Z"),
        "UTF-16": (RIGHT.decode().encode("utf-16"), 1),
        "a folder": (FOLDER, "must be the JSON export of a project"),
    }),
    (anki, "apkg", {
        "no collection": (zipped("x", ""), "a package must hold one of"),
        "an identifier that is a path": (deck((1, "../..", "", "{{c1::a}} is b")), 1),
        "fields that are bytes": (deck((1, "g", "", b"{{c1::a}}")), "fields and tags that are text"),
        "an end that is cut off": (deck((1, "g", "", "{{c1::a}} is b"))[:200], "must be a zip that Anki wrote"),
        "a database that is none": (zipped("collection.anki21", b"SQLite format 3\0" + bytes(5000)), "intact SQLite"),
        "notes without end": (deck(script=ENDLESS), "must have a table of notes"),
        "a note twice": (deck((1, "g", "", "{{c1::a}} is b"), (2, "g", "", "{{c1::c}} is d")), "must be unique"),
    }),
    (anki, "txt", {
        "a text from right to left": ("{{c1::a}} is &#x202e;b\n", 0),
        "a superscript": ("10<sup>9</sup>/L is {{c1::normal}}\n", 1),
        "UTF-16": ("{{c1::a}} is b\n".encode("utf-16"), "must be UTF-8"),
    }),
    (release, "yaml", {
        "a tag that runs": (b"title: !!python/object/apply:os.system [touch ran]\n", "determine a constructor"),
        "aliases of aliases": (ALIASES, "title must fit (Field required)"),
        "a licence twice": (yaml.safe_dump(RELEASE) + "licence: none\n", "the name 'licence' more than once"),
        "nothing": (b"", "got nothing"),
        "a tab": (b"title:\tx\n\tb: 1\n", "cannot start any token"),
        "bytes": (b"title: \xff\n", "can't decode byte 0xff"),
        "nesting without end": (DEEP, "must be YAML with named entries"),
        "an anchor in itself": (b"title: &a [*a]\n", "should be a valid string"),
        "a commit that is a date": (yaml.safe_dump(RELEASE | {"commit": datetime.date(2026, 1, 1)}), "commit must fit"),
        "a path out of the folder": (with_group("../../{}"), "must be a path below the folder"),
        "a field of a field": (with_group("{0.__class__}"), "must be a path below the folder"),
        "two documents": (yaml.safe_dump(RELEASE) + "---\na: 1\n", "found another document"),
    }),
    (params, "yaml", {
        "a tag that runs": (b"seed: !!python/object/apply:os.system [touch ran]\n", "determine a constructor"),
        "aliases of aliases": (ALIASES, "of a size that can be read"),
        "an anchor in itself": (b"studies: &a {x: *a}\n", "of a size that can be read"),
        "a list": (b"- 1\n", "got a list"),
        "a NUL": (b"seed: 1\0\n", "take the odd character out"),
        "UTF-16": ("seed: 1\n".encode("utf-16"), "must be UTF-8"),
        "a folder": (FOLDER, "must be a file; got a folder"),
    }),
]  # fmt: skip


@pytest.mark.parametrize(
    ("reader", "suffix", "name"), [(r, suffix, name) for r, suffix, files in FILES for name in files]
)
def test_a_hostile_file_is_read_rightly_or_refused_with_its_place(reader, suffix, name, tmp_path):
    content, expected = next(files[name] for r, s, files in FILES if (r, s) == (reader, suffix))
    path = tmp_path / f"held.{suffix}"
    if callable(content):
        content(path)
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    before = sorted(tmp_path.iterdir())
    if isinstance(expected, int):
        assert len(reader(path)) == expected
    else:
        with pytest.raises((ValueError, OSError)) as e:
            reader(path)
        message = str(e.value)
        assert expected.replace("PLACE", path.name).casefold() in message.casefold(), message
        assert re.match(r"[a-z_]+: .*( must .*; got | does not fit: .*; got )", message, re.DOTALL), message
        assert len(message) < 1000 and message.isprintable() | ("\n" in message), message
        assert path.name in message or message.startswith(("guess_", "releases: s: ")), message
    assert sorted(tmp_path.iterdir()) == before and not os.path.exists("ran")


# ---------------------------------------------------------------- pickles

FUZZ = r"""
import pickle, random, resource, sys
from mhbench.studies.mentat.pickled import _build_table, pickled_values

seeds = pickle.load(open(sys.argv[1], "rb"))
for data in seeds:
    _build_table(pickled_values(data))  # imports what it needs
happened = set()
sys.addaudithook(lambda event, _: happened.add(event) if event != "builtins.id" else None)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
rng, read = random.Random(int(sys.argv[2])), 0
for _ in range(int(sys.argv[3])):
    data = bytearray(rng.choice(seeds))
    for _ in range(rng.randint(1, 6)):
        at, kind = rng.randrange(len(data)), rng.randrange(5)
        if kind < 2:
            data[at] = rng.randrange(256)
        elif kind == 2:
            del data[at : at + rng.randint(1, 8)]
        elif kind == 3:
            data[at:at] = data[(start := rng.randrange(len(data))) : start + rng.randint(1, 20)]
        else:
            data[at:at] = bytes([rng.choice(b"cRbo\x81\x93\x85(te}]R.i0")])
        data = data or bytearray(b".")
    try:
        read += _build_table(pickled_values(bytes(data))).num_rows >= 0
    except Exception:
        pass
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(sorted(happened), grown >> 10, read)
"""


class Calls:
    def __reduce__(self):
        return os.system, ("touch ran",)


def test_a_changed_pickle_ends_nothing_runs_nothing_and_takes_no_memory(tmp_path):
    names = pd.Index(["q_id", "reply", "shares"], dtype=object)
    table = pd.DataFrame([[1, "A", [0.5, 0.5]], [2, None, [1.0]]], columns=names, dtype=object)
    plain = pd.DataFrame({"a": [1.5, 2.5], "b": [1, 2]}).set_axis(pd.Index(["a", "b"], dtype=object), axis=1)
    seeds = [pickle.dumps(t, protocol) for t in (table, plain) for protocol in (4, 5)]
    (tmp_path / "seeds").write_bytes(pickle.dumps(seeds))
    command = [sys.executable, "-c", FUZZ, str(tmp_path / "seeds"), "0", "6000"]
    here = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=here)
    assert done.returncode == 0, done.stderr[-500:]
    happened, grown, read = re.fullmatch(r"(\[.*\]) (\d+) (\d+)", done.stdout.strip()).groups()
    assert happened == "[]" and int(grown) < 200 and int(read) > 50, done.stdout


@pytest.mark.whole
def test_what_would_fill_the_memory_or_run_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MHBENCH_CORPORA", str(tmp_path / "corpora"))
    doubled = {("x" * 10_000,): 0}  # each copy has a name of its own
    for _ in range(40):
        doubled = [doubled, doubled]
    one = pd.Index(["a"], dtype=object)
    for value, reason in ((doubled, "MemoryError"), (Calls(), "it names posix.system")):
        held = pd.DataFrame([[None]], columns=one, dtype=object)
        held.iat[0, 0] = value
        with pytest.raises(
            ValueError, match=f"pickled_table: file must be a pickled table, and nothing else; got {reason}"
        ):
            pickled_table(pickle.dumps(held))
    assert not list(tmp_path.iterdir())
