"The cache: what goes in comes out, in any number of processes; damage is seen, named and survived."

import gzip
import hashlib
import json
import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mhbench.ask.cache import (
    Cache,
    CacheError,
    Imported,
    Row,
    Runs,
    add_recorded,
    cache_path,
    changed_under_us,
    digest,
    export,
    foreign,
    import_file,
    open_cache,
)
from mhbench.run.cli import main


def row(i, value=None, **more):
    return Row(
        **{
            "key": hashlib.sha256(str(i).encode()).hexdigest(),
            "model": "m",
            "endpoint": "e",
            "status": "ok",
            "final": True,
            "created": float(i),
            "value": json.dumps(
                {"text": value or f"answer {i}", "prompt_tokens": 10, "completion_tokens": 2, "cost_usd": 0.5}
            ),
            **more,
        }
    )


@pytest.fixture
def cache(tmp_path):
    with Cache(tmp_path / "c.sqlite") as c:
        yield c


def corrupt(path, rng):
    "Overwrite a stretch in the middle of a closed database."
    raw = bytearray(path.read_bytes())
    raw[rng] = b"\xa5" * len(raw[rng])
    path.write_bytes(raw)


def test_default_path(tmp_path, monkeypatch):
    monkeypatch.delenv("MHBENCH_CACHE", raising=False)
    (tmp_path / ".git").mkdir()
    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a" / "b")
    assert cache_path() == tmp_path.resolve() / ".mhbench" / "cache.sqlite"
    monkeypatch.setenv("MHBENCH_CACHE", str(tmp_path / "else.sqlite"))
    assert cache_path() == tmp_path / "else.sqlite"


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 8), st.text(st.characters(exclude_categories=["Cs"]), max_size=20), st.booleans()),
        max_size=30,
    )
)
def test_the_first_final_answer_stays(tmp_path_factory, puts):
    "Against a dictionary that follows the rule."
    rule = {}
    with Cache(tmp_path_factory.mktemp("c") / "c.sqlite") as c:
        for i, text, final in puts:
            r = row(i, json.dumps(text), final=final)
            theirs = c.put_many([r])
            if r.key in rule and rule[r.key].final:
                assert theirs.get(r.key, r).value == rule[r.key].value
            else:
                rule[r.key] = r
                assert not theirs
        assert c.get_many([row(i).key for i in range(9)], failures=True) == rule
        assert c.get_many([row(i).key for i in range(9)]) == {k: r for k, r in rule.items() if r.final}


def test_an_answer_replaces_a_failure_whole_and_nothing_replaces_an_answer(cache):
    failure = row(1, status="error", final=False, study="one", created=0.0)
    answer = row(1, "yes", study="two")
    cache.put_many([failure])
    cache.put_many([answer])
    cache.put_many([row(1, "no", study="three"), failure])
    assert cache.get_many([answer.key]) == {answer.key: answer}


def test_more_keys_than_one_statement_takes(cache):
    rows = [row(i) for i in range(3000)]
    cache.put_many(rows)
    assert cache.get_many([r.key for r in rows]) == {r.key: r for r in rows} and len(cache) == 3000


WRITER = """
import sys
from mhbench.ask.cache import Cache, Row
import hashlib
with Cache(sys.argv[1]) as c:
    for i in range(int(sys.argv[2]), int(sys.argv[2]) + 500):
        c.put_many([Row(hashlib.sha256(str(i).encode()).hexdigest(), "m", "e", "ok", True, 0.0, '{"text": "%d"}' % i)])
"""


def test_four_processes_write_and_none_is_lost(tmp_path, root):
    path = tmp_path / "c.sqlite"
    ps = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(k)], env={**os.environ, "PYTHONPATH": str(root)})
        for k in (0, 250, 500, 750)
    ]
    assert [p.wait() for p in ps] == [0] * 4
    with Cache(path) as c:
        assert len(c) == 1250


# -- damage


def test_a_damaged_file_is_refused_by_name_and_left_as_it_is(tmp_path):
    path = tmp_path / "c.sqlite"
    with Cache(path) as c:
        c.put_many([row(i) for i in range(2000)])
    size = path.stat().st_size
    corrupt(path, slice(size // 2, size // 2 + 8192))
    before = path.read_bytes()
    with pytest.raises(CacheError, match=r"got a damaged file .* move it away .*c\.sqlite \.recover"):
        with Cache(path) as c:
            c.get_many([row(i).key for i in range(2000)])
    assert path.read_bytes() == before and [p.name for p in tmp_path.iterdir()] == ["c.sqlite"]


def test_one_flipped_bit_in_an_answer_is_not_believed(tmp_path):
    path = tmp_path / "c.sqlite"
    with Cache(path) as c:
        c.put_many([row(i) for i in range(10)])
    raw = path.read_bytes()
    path.write_bytes(raw.replace(b"answer 7", b"answer 5"))
    with Cache(path) as c:
        assert len(c.get_many([row(3).key])) == 1
        with pytest.raises(CacheError, match="does not match its digest"):
            c.get_many([row(7).key])


def test_damage_is_refused_before_anything_new_is_written(tmp_path):
    path = tmp_path / "c.sqlite"
    with Cache(path) as c:
        c.put_many([row(i) for i in range(500)])
    corrupt(path, slice(4096, path.stat().st_size))
    with pytest.raises(CacheError, match="damaged file"):
        with Cache(path) as c:
            c.put_many([row(9000)])


def test_a_replay_of_a_damaged_file_changes_nothing(tmp_path):
    (tmp_path / "c.sqlite").write_bytes(b"no database at all " * 100)
    with pytest.raises(CacheError, match="not a database.*left as it is"):
        Cache(tmp_path / "c.sqlite", readonly=True)
    assert [p.name for p in tmp_path.iterdir()] == ["c.sqlite"]


def test_killed_in_the_middle_of_a_transaction_the_file_is_whole(tmp_path, root):
    code = WRITER.replace(
        "c.put_many(", "(i == 200 and __import__('os').kill(__import__('os').getpid(), 9)) or c.put_many("
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / "c.sqlite"), "0"], env={**os.environ, "PYTHONPATH": str(root)}
        ).returncode
        == -9
    )
    with Cache(tmp_path / "c.sqlite") as c:
        assert len(c) == 200 and c._db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


# -- the disk


def test_a_full_disk_is_said_and_keeps_what_was_there(cache):
    cache.put_many([row(i) for i in range(100)])
    cache._db.execute(f"PRAGMA max_page_count = {cache._db.execute('PRAGMA page_count').fetchone()[0] + 1}")
    with pytest.raises(CacheError, match="database or disk is full.*free space"):
        cache.put_many([row(i, "x" * 500) for i in range(100, 300)])
    assert len(cache) == 100, "a transaction is whole or not there"
    assert len(cache.get_many([row(i).key for i in range(100)])) == 100


def test_read_only(tmp_path):
    with pytest.raises(CacheError, match="import one first"):
        Cache(tmp_path / "none.sqlite", readonly=True)
    with Cache(tmp_path / "c.sqlite") as c:
        c.put_many([row(1)])
    with Cache(tmp_path / "c.sqlite", readonly=True) as c:
        assert c.get_many([row(1).key]) == {row(1).key: row(1)}
        with pytest.raises(CacheError, match="readonly database"):
            c.put_many([row(2)])


# -- sharing


def test_export_and_import(cache, tmp_path):
    rows = [row(i, model="ab"[i % 2]) for i in range(50)]
    cache.put_many(rows[::-1])
    assert export(cache, tmp_path / "all.gz") == 50 and export(cache, tmp_path / "a.gz", model="a") == 25
    again = Cache(tmp_path / "again.sqlite")
    again.put_many(rows)  # the other order of writing: the same bytes
    export(again, tmp_path / "again.gz")
    assert (tmp_path / "again.gz").read_bytes() == (tmp_path / "all.gz").read_bytes()
    other = Cache(tmp_path / "other.sqlite")
    other.put_many([row(0, "another", model="a")])
    assert import_file(other, tmp_path / "a.gz") == Imported(24, 0, [row(0).key])
    assert import_file(other, tmp_path / "all.gz") == Imported(25, 24, [row(0).key])
    assert json.loads(other.get_many([row(0).key])[row(0).key].value)["text"] == "another"


@pytest.mark.parametrize(
    "line, words",
    [
        ("{", "2"),
        ('{"key": "00", "model": "m"}', "2"),
        (json.dumps(row(1)._replace(key="00")._asdict()), "not a SHA-256"),
    ],
)
def test_an_import_is_whole_or_not_at_all(cache, tmp_path, line, words):
    (tmp_path / "x.gz").write_bytes(gzip.compress((json.dumps(row(5)._asdict()) + "\n" + line + "\n").encode()))
    with pytest.raises(ValueError, match=r"x\.gz:2") as e:
        import_file(cache, tmp_path / "x.gz")
    assert words in str(e.value) and len(cache) == 0


def test_a_cut_export_is_refused(cache, tmp_path):
    cache.put_many([row(i) for i in range(500)])
    export(cache, tmp_path / "x.gz")
    (tmp_path / "x.gz").write_bytes((tmp_path / "x.gz").read_bytes()[:-200])
    with Cache(tmp_path / "o.sqlite") as o, pytest.raises(ValueError, match="must be an export of a cache"):
        import_file(o, tmp_path / "x.gz")


def test_a_run_that_ends_leaves_no_lock_and_one_that_was_killed_is_seen(tmp_path):
    runs, others = Runs(tmp_path / "c.sqlite"), Runs(tmp_path / "c.sqlite")
    runs.begin("one")
    assert runs.lives("one") and others.lives("one") and not others.lives("two")
    runs.end("one")
    assert not others.lives("one") and list(tmp_path.iterdir()) == []
    left = runs._file("killed")
    left.touch()
    assert not others.lives("killed") and not left.exists()


# -- what is in the files, by hand


def test_other_versions_find_the_lock_and_the_digest_of_a_run(tmp_path):
    "By 32 digits of the SHA-256 of its owner, for its owner alone; a digest is eight bytes of BLAKE2b."
    runs = Runs(tmp_path / "c.sqlite")
    runs.begin("one")
    [lock] = tmp_path.iterdir()
    assert lock.name == "c.sqlite.asking-7692c3ad3540bb803c020b3aee66cd88" and lock.stat().st_mode & 0o777 == 0o600
    runs.begin("two")
    runs.end()
    assert list(tmp_path.iterdir()) == [] and not runs.lives("one")
    assert digest("x") == hashlib.blake2b(b"x", digest_size=8).digest()


@pytest.mark.parametrize(
    ("tables", "version", "words"),
    [
        ({"answers"}, 1, ""),
        ({"answers"}, 2, "one of a later mhbench (version 2; this one knows 1): update mhbench"),
        ({"answers"}, 0, "one of an earlier mhbench (version 0; this one knows 1): name another file"),
        ({*"abcdefg"}, 1, "another program's database (its tables: a, b, c, d, e): name another file"),
    ],
)
def test_a_database_of_another_kind_is_told(tables, version, words):
    "Five of its tables are named."
    assert foreign(tables, version) == words


@pytest.mark.parametrize(
    ("size_before", "size", "words"),
    [
        (8192, 8192, ""),
        (8192, 4096, ""),  # SQLite may have made it smaller
        (8192, 3584, "was overwritten"),
        (1024, 1024, ""),
        (1024, 512, "was overwritten"),
        (8192, 8193, "was overwritten"),
        (8192, 4352, "was overwritten"),  # no whole page
    ],
)
def test_a_file_that_is_no_database_any_more_was_overwritten(tmp_path, size_before, size, words):
    "One of half a page, or of less than the first page."
    file = tmp_path / "c.sqlite"
    file.write_bytes(b"x" * size_before)
    before = file.stat()
    file.write_bytes(b"x" * size)
    assert changed_under_us(file, before) == words
    (tmp_path / "other.sqlite").write_bytes(b"x" * size)
    (tmp_path / "other.sqlite").replace(file)
    assert changed_under_us(file, before) == "was replaced by another file"
    file.unlink()
    assert changed_under_us(file, before) == "was deleted"


def test_an_export_of_a_study_without_an_answer_is_refused_and_the_older_one_stays(cache, tmp_path, capsys):
    cache.put_many([row(1, study="one"), row(2, study="two", model="n")])
    command = ["cache", "export", str(tmp_path / "x.gz"), "--cache", str(cache.path)]
    assert main([*command, "--study", "one"]) == 0
    before = (tmp_path / "x.gz").read_bytes()
    for words, told in ((["--study", "on"], "(one, two); got 'on'"), (["--model", "k"], "; got 'k'")):
        assert main([*command, *words]) == 1 and told in capsys.readouterr().err
    assert (tmp_path / "x.gz").read_bytes() == before


def test_what_was_learnt_goes_with_every_export_and_before_what_is_there(cache, tmp_path):
    "Rows of terms are not counted; those of the file stand first, and none twice."
    key = row(9).key
    write = lambda store, *values: store.put_many(
        [row(9, status="terms", final=False)._replace(value=json.dumps(values))]
    )
    cache.put_many([row(1, study="one"), row(2, study="two", model="n")])
    write(cache, 1, 2)
    file = tmp_path / "x.gz"
    assert [export(cache, file), export(cache, file, study="one"), export(cache, file, study="one", model="n")] == [
        2,
        1,
        0,
    ]
    assert export(cache, file, study="one") == 1
    with Cache(tmp_path / "b.sqlite") as other_cache:
        write(other_cache, 2, 3)
        assert import_file(other_cache, file) == Imported(2, 0, [])
        stored_terms = other_cache.get_many([key], failures=True)[key]
        assert json.loads(stored_terms.value) == [1, 2, 3] and len(other_cache) == 2
    assert len(cache.get_many([key])) == 0
    cache.mark_final(row(1).key, False)
    assert cache.get_many([row(1).key]) == {}
    cache.mark_final(row(1).key, True)
    assert list(cache.get_many([row(1).key])) == [row(1).key]


def test_recorded_answers_are_read_once_and_only_where_some_are_missing(cache, tmp_path, monkeypatch):
    "A cache that is only read stays as it is, and one that has them all is not written."
    cache.put_many([row(1), row(2)])
    export(cache, tmp_path / "x.gz")
    n_imports = []
    monkeypatch.setattr("mhbench.ask.cache.import_file", lambda *a: n_imports.append(1) or import_file(*a))
    add_recorded(cache, tmp_path / "x.gz")
    assert n_imports == []
    add_recorded(tmp_path / "b.sqlite", tmp_path / "x.gz")
    add_recorded(tmp_path / "b.sqlite", tmp_path / "x.gz")
    assert n_imports == [1]
    with Cache(tmp_path / "c2.sqlite") as empty_cache:
        empty_cache.put_many([row(3)])
    with Cache(tmp_path / "c2.sqlite", readonly=True) as read_cache:
        add_recorded(read_cache, tmp_path / "x.gz")
        assert len(read_cache) == 1 and repr(read_cache).endswith("readonly=True)")
    assert open_cache(tmp_path / "none.sqlite", readonly=True) is None and open_cache(None) is None
    assert open_cache(cache, readonly=True) is cache
    with open_cache(tmp_path / "new.sqlite") as new_cache:
        assert not new_cache.readonly and not repr(new_cache).endswith("readonly=True)")
    with open_cache(tmp_path / "new.sqlite", readonly=True) as read_cache:
        assert read_cache.readonly
