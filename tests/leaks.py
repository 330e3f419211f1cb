"""Where a text has got to: every file that leaves a run, unpacked as far as a reader could unpack it.

A text to be traced is made of words that nothing else has, so that one of them, in any case and cut anywhere else,
shows it.
"""

import base64
import binascii
import contextlib
import gzip
import io
import json
import re
import sqlite3
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq

_BASE64 = re.compile(rb"(?:[A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{76}\n){8,}[A-Za-z0-9+/]*={0,2}")
_ESCAPED = re.compile(rb"\\u[0-9a-fA-F]{4}|&#?\w+;|%[0-9A-F]{2}")


def _png(data: bytes) -> Iterator[bytes]:
    "The texts of a picture: chunks tEXt, zTXt and iTXt."
    at = 8
    while at + 8 <= len(data):
        size, kind = int.from_bytes(data[at : at + 4]), data[at + 4 : at + 8]
        body = data[at + 8 : at + 8 + size]
        if kind in (b"tEXt", b"iTXt", b"eXIf"):
            yield body
        if kind in (b"zTXt", b"iTXt"):
            for k in (i + 1 for i, byte in enumerate(body) if byte == 0):
                with contextlib.suppress(zlib.error):
                    yield zlib.decompress(body[k:].lstrip(b"\0"))
        at += 12 + size


def _sqlite(data: bytes) -> Iterator[bytes]:
    with tempfile.NamedTemporaryFile(suffix=".sqlite") as f:
        f.write(data)
        f.flush()
        with contextlib.closing(sqlite3.connect(f.name)) as db:
            for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                with contextlib.suppress(sqlite3.Error):  # a table of a module that is not here
                    for row in db.execute(f'SELECT * FROM "{name}"'):
                        yield from (v if isinstance(v, bytes) else str(v).encode() for v in row if v is not None)


def _inner(data: bytes) -> Iterator[bytes]:
    "What is packed in some bytes: one step of unpacking."
    if data.startswith(b"\x1f\x8b"):
        with contextlib.suppress(OSError, EOFError, zlib.error):
            yield gzip.decompress(data)
    elif data.startswith(b"\x28\xb5\x2f\xfd"):
        import pyarrow as pa

        yield pa.CompressedInputStream(pa.BufferReader(data), "zstd").read()
    elif data.startswith(b"\x89PNG"):
        yield from _png(data)
    elif data.startswith(b"PAR1"):
        table = pq.read_table(io.BytesIO(data))
        yield json.dumps(table.to_pylist(), ensure_ascii=False, default=str).encode()
        yield json.dumps({k.decode(): v.decode() for k, v in (table.schema.metadata or {}).items()}).encode()
    elif data.startswith(b"SQLite format 3"):
        yield from _sqlite(data)
    elif data.startswith(b"PK\x03\x04"):
        with zipfile.ZipFile(io.BytesIO(data)) as z:
            yield from (z.read(name) for name in z.namelist())
    elif b"\0" not in data[:1000]:
        for m in _BASE64.finditer(data):
            with contextlib.suppress(binascii.Error):
                block = m[0].replace(b"\n", b"")
                yield base64.b64decode(block[: len(block) // 4 * 4])
        if _ESCAPED.search(data):
            yield plain_text(data)


def plain_text(data: bytes) -> bytes:
    "A text with the escapes of JSON, HTML and URLs undone."
    import html
    from urllib.parse import unquote

    text = re.sub(r"\\u([0-9a-fA-F]{4})", lambda m: chr(int(m[1], 16)), data.decode("utf-8", errors="replace"))
    return re.sub(r"&#?\w+;", lambda m: html.unescape(m[0]), unquote(text)).encode("utf-8", errors="replace")


def unpacked(data: bytes, depth: int = 5) -> Iterator[bytes]:
    "The bytes themselves, and everything that is packed in them."
    yield data
    if depth:
        for part in _inner(data):
            if part and part != data:
                yield from unpacked(part, depth - 1)


def marks_in(data: bytes, marks: list[str]) -> set[str]:
    "Which of the words, which are in lower case, occur in any case."
    return {word for part in map(bytes.lower, unpacked(data)) for word in marks if word.encode() in part}


def leaks(files: list[Path], marks: list[str]) -> dict[str, set[str]]:  # file -> the words in it
    "The files that hold one of the words, packed or not."
    found = {str(f): marks_in(f.read_bytes(), marks) for f in files if f.is_file()}
    return {name: words for name, words in found.items() if words}
