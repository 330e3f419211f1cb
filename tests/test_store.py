"""The store of what was computed: same bits, several processes, damage, limits, and no model where all is there."""

import json
import os
import sqlite3
import subprocess
import sys
from hashlib import sha256

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from mhbench.encode import bertscore, classifiers, embeddings, perplexity, roscoe, store
from mhbench.encode.store import ResultStore, StoreSettings, code_of, keep_results, opened, recalled
from mhbench.errors import NOTES

TEXTS = ["She sleeps badly.", "", "He drinks.", "word " * 300, "He has not slept for years, she says.", "He drinks."]
COMPUTING = ("loading", "classifiers", "perplexity", "bertscore", "roscoe")
CHAIN = (["She sleeps badly.", "So she is tired."], ["A woman of 30 sleeps badly.", "What follows?"], ["She is tired."])


@pytest.fixture
def kept(tmp_path):
    return keep_results(StoreSettings(), tmp_path / "encoders.sqlite")


def rows(kept) -> int:
    with sqlite3.connect(kept.path) as db:
        return db.execute("SELECT count(*) FROM results").fetchone()[0]


def numbers(tiny):
    "Every number that is kept, as bytes."
    encoder = embeddings.load_encoder()
    nli, lm = classifiers.load_nli(tiny["nli"]), perplexity.load_lm(tiny["lm"])
    grammar = classifiers.load_grammar(tiny["cola"])
    h, s, r = [[c] for c in CHAIN]
    suite = roscoe.roscoe(h, s, r, encoder=encoder, nli=nli, lm=lm, grammar=grammar)
    found = {
        "sentences": encoder.sentences(TEXTS),
        "bertscore": np.array(bertscore.load_scorer()(TEXTS, TEXTS[::-1])),
        "contradiction": nli.contradiction([("He drinks.", t) for t in TEXTS]),
        "acceptability": grammar.acceptability(TEXTS),
        "perplexity": np.array(lm.perplexity(TEXTS)),
        "roscoe": suite.to_numpy(),
    }
    return {k: v.tobytes() for k, v in found.items()}


def test_the_store_gives_the_bits_that_were_computed_and_loads_no_model(tiny, kept, monkeypatch):
    modules_in_keys = set()
    monkeypatch.setattr(store, "code_of", lambda *modules: modules_in_keys.add(modules) or code_of(*modules))
    computed = numbers(tiny)
    assert {m[-1] for m in modules_in_keys} == {f"mhbench.encode.{m}" for m in COMPUTING}, "other code is another key"
    n = rows(kept)
    loaders = [(embeddings, "_load_encoder"), (perplexity, "_load_lm"), (classifiers.loading, "placed_on")]
    for module, loads in (*loaders, (bertscore, "_load_scorer")):
        monkeypatch.setattr(module, loads, lambda *a: pytest.fail("a model was loaded"))
    assert numbers(tiny) == computed
    assert rows(kept) == n > 30


def test_without_a_store_the_bits_are_the_same(tiny, kept):
    inside = numbers(tiny)
    keep_results(StoreSettings(max_gb=0))
    assert numbers(tiny) == inside


def test_what_one_thread_has_stored_and_two_complete_is_what_two_compute(tmp_path):
    encoder, rng = embeddings.load_encoder(), np.random.default_rng(0)
    words = np.array("client sleep work family mood risk history session plan of the and has been most days".split())
    said = lambda: " ".join(rng.choice(words, 17)) + "."
    contexts, chains, experts = ([[said() for _ in range(k)] for _ in range(4)] for k in (6, 3, 3))

    def scores(threads: int, rows: slice) -> bytes:
        with threadpool_limits(threads, user_api="blas"):
            suite = roscoe.roscoe(chains[rows], contexts[rows], experts[rows], encoder=encoder)
            joined = [[" ".join(c) for c in of[rows]] for of in (chains, experts)]
            return suite.to_numpy().tobytes() + roscoe.chain_cosine(*joined, encoder=encoder).tobytes()

    everything = slice(None)
    cold = scores(2, everything)
    for part in (slice(1, 3), slice(0, 4, 3)):  # two states of the store
        keep_results(StoreSettings(), tmp_path / f"{part.start}.sqlite")
        scores(1, part)
        assert scores(2, everything) == cold


def test_what_is_missing_is_computed_to_the_same_bits_as_all_of_it(kept):
    whole = embeddings.load_encoder().sentences(TEXTS)
    with sqlite3.connect(kept.path) as db:
        db.execute("DELETE FROM results")
    embeddings.load_encoder().sentences(TEXTS[2:4])
    assert embeddings.load_encoder().sentences(TEXTS).tobytes() == whole.tobytes()


ALONE = """
import json, os, sys
from pathlib import Path
from mhbench.encode import store
from mhbench.encode.bertscore import load_scorer
from mhbench.encode.embeddings import load_encoder
from mhbench.encode.roscoe import roscoe
store.keep_results(store.StoreSettings(), Path(sys.argv[1]))
encoder = load_encoder()
vectors = encoder.sentences(json.loads(sys.argv[2]))
f1 = load_scorer()(["She is tired."], ["She sleeps badly."]).f1
table = roscoe(*[[c] for c in json.loads(sys.argv[3])], encoder=encoder)
libraries = [m for m in ("torch", "transformers", "sentence_transformers", "tokenizers") if m in sys.modules]
print(json.dumps([vectors.tobytes().hex(), f1.tobytes().hex(), table.to_numpy().tobytes().hex(), libraries]))
"""


def alone(path):
    command = [sys.executable, "-c", ALONE, str(path), json.dumps(TEXTS), json.dumps(CHAIN)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def test_two_processes_fill_one_store_and_a_third_imports_no_torch(tmp_path):
    first, second = [alone(tmp_path / "encoders.sqlite") for _ in range(2)]
    a, b = [json.loads(p.communicate(timeout=300)[0]) for p in (first, second)]
    third = json.loads(alone(tmp_path / "encoders.sqlite").communicate(timeout=300)[0])
    assert a[:3] == b[:3] == third[:3]
    assert third[3] == [] and "torch" in a[3] + b[3]


WRITE = """
import sys
import time
from hashlib import sha256
import numpy as np
from mhbench.encode.store import ResultStore
store = ResultStore(sys.argv[1])
for n in range(300):
    key = sha256(f"{sys.argv[2]} {n}".encode()).digest()
    store.put({key: np.full(8, n, np.float64)})
"""


def test_processes_that_write_at_once_lose_nothing(tmp_path):
    file = tmp_path / "encoders.sqlite"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    writers = [subprocess.Popen([sys.executable, "-c", WRITE, str(file), w], env=environment) for w in "ab"]
    assert [w.wait(timeout=120) for w in writers] == [0, 0]
    there = ResultStore(file)
    assert rows(there) == 600
    key = sha256(b"b 299").digest()
    assert there.get([key])[key].tolist() == [299.0] * 8


def one(n=0):
    return {sha256(bytes([n])).digest(): np.arange(4, dtype=np.float32) + n}


@pytest.mark.parametrize("damage", ["not a database", "a page overwritten"])
def test_a_damaged_file_is_set_aside_and_named(tmp_path, damage):
    file = tmp_path / "encoders.sqlite"
    first = ResultStore(file)
    for n in range(200):
        first.put(one(n))
    first.close()
    content = bytearray(file.read_bytes())
    content[:100] = b"x" * 100 if damage == "not a database" else content[:100]
    content[4096 * 2 : 4096 * 6] = os.urandom(4096 * 4)
    file.write_bytes(content)
    again = ResultStore(file)
    again.get([k for n in range(200) for k in one(n)])
    again.put(one())
    assert list(again.get(list(one()))) == list(one())
    assert (tmp_path / "encoders.sqlite.damaged-1").exists()
    assert any("damaged-1" in sentence for sentence in NOTES)


@pytest.mark.parametrize("message", ["database or disk is full", "database is locked"])
def test_an_error_that_is_no_damage_is_raised_at_once_and_sets_no_file_aside(tmp_path, message):
    results = ResultStore(tmp_path / "encoders.sqlite")
    results.put(one())
    messages = []

    def fail():
        messages.append(message)
        raise sqlite3.OperationalError(message)

    with pytest.raises(sqlite3.OperationalError, match=message):
        results._guard(fail)
    assert messages == [message] and not list(tmp_path.glob("*.damaged-*"))
    assert list(results.get(list(one()))) == list(one())


CHANGES = [
    "value = zeroblob(16)",
    "value = substr(value, 1, 130)",
    "value = NULL",
    "digest = zeroblob(8)",
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_row_that_is_not_as_written_is_computed_again(change, tmp_path):
    file = tmp_path / "encoders.sqlite"
    ResultStore(file).put(one())
    with sqlite3.connect(file) as db:
        db.execute(f"UPDATE results SET {change}")
    again = ResultStore(file)
    assert again.get(list(one())) == {}
    again.put(one())
    assert list(again.get(list(one())).values())[0].tolist() == [0, 1, 2, 3]


def test_a_row_under_another_key_is_not_used(tmp_path):
    file = tmp_path / "encoders.sqlite"
    ResultStore(file).put(one())
    (other,) = one(1)
    with sqlite3.connect(file) as db:
        db.execute("UPDATE results SET key = ?", (other,))
    assert ResultStore(file).get([other]) == {}


def test_what_is_no_number_is_handed_on_and_not_kept(tmp_path):
    keep_results(StoreSettings(), tmp_path / "s.sqlite")
    values = {"a": 1.0, "b": np.nan}
    compute = lambda texts: [np.array([values[t]]) for t in texts]
    got = recalled({"model": "m", "weights": "w"}, "n", ["a", "b"], compute)
    assert np.isnan(got[1][0])
    values["b"] = 2.0
    assert recalled({"model": "m", "weights": "w"}, "n", ["a", "b"], compute)[1][0] == 2.0


def test_an_object_that_would_be_pickled_is_not_stored(tmp_path):
    with ResultStore(tmp_path / "s.sqlite") as kept:
        with pytest.raises((TypeError, ValueError)):
            kept.put({b"k" * 32: np.array([{}])})


def test_another_programs_table_of_this_name_stops_nobody(tmp_path):
    with sqlite3.connect(tmp_path / "s.sqlite") as db:
        db.execute("CREATE TABLE results (name TEXT)")
    keep_results(StoreSettings(), tmp_path / "s.sqlite")
    found = recalled({"model": "m"}, "x", ["a"], lambda texts: [np.zeros(1) for _ in texts])
    assert found[0].tolist() == [0.0] and "not kept from here on" in NOTES[-1] and opened() is None


def test_a_file_that_is_too_large_keeps_its_later_half(tmp_path):
    file = tmp_path / "encoders.sqlite"
    results = {sha256(f"{n}".encode()).digest(): np.zeros(500) for n in range(100)}
    with ResultStore(file) as old:
        old.put(results)
    size = file.stat().st_size
    with ResultStore(file, max_bytes=size) as same:
        assert len(same.get(list(results))) == 100
    with ResultStore(file, max_bytes=size - 1) as small:
        assert list(small.get(list(results))) == list(results)[50:]
    assert file.stat().st_size < 0.6 * size


def test_weights_that_change_are_another_model(tiny, kept, tmp_path):
    import shutil

    folder = tmp_path / "model"
    shutil.copytree(tiny["nli"], folder)
    before = classifiers.load_nli(folder).identity
    moved = shutil.move(folder, tmp_path / "moved")
    assert classifiers.load_nli(moved).identity["weights"] == before["weights"]
    with open(tmp_path / "moved" / "model.safetensors", "r+b") as f:
        f.seek(-4, os.SEEK_END)
        f.write(b"\0\0\x80?")
    assert classifiers.load_nli(moved).identity["weights"] != before["weights"]


def test_a_folder_that_cannot_be_written_stops_nobody(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("no folder")
    assert store.keep_results(store.StoreSettings(), tmp_path / "file" / "encoders.sqlite") is None
    assert "what is computed is not kept" in NOTES[-1]
    found = store.recalled({"model": "m"}, "x", ["a"], lambda texts: [np.zeros(1) for _ in texts])
    assert found[0].tolist() == [0.0]


def test_code_that_changes_computes_again(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    seen = []
    for text in ("x = 1\n", "x = 1\n", "x = 2\n"):
        (tmp_path / "small.py").write_text(text)
        store.code_of.cache_clear()
        seen.append(store.code_of("small"))
    assert seen[0] == seen[1] != seen[2]


def test_the_room_is_two_gigabytes_or_as_the_settings_say(tmp_path):
    with ResultStore(tmp_path / "s.sqlite") as kept:
        assert kept.max_bytes == 2_000_000_000
    assert keep_results(StoreSettings(max_gb=0.5), tmp_path / "t.sqlite").max_bytes == 500_000_000
    assert keep_results(StoreSettings(max_gb=0), tmp_path / "t.sqlite") is None and opened() is None


def test_the_code_of_no_module_is_refused():
    with pytest.raises(ValueError, match="modules with a source; got 'mhbench.nothing'"):
        code_of("mhbench.nothing")


def test_a_store_that_breaks_while_it_is_written_stops_nobody(tmp_path, monkeypatch):
    def broken(self, *_):
        raise OSError("no space left on device")

    monkeypatch.setattr(ResultStore, "put", broken)
    keep_results(StoreSettings(), tmp_path / "s.sqlite")
    compute = lambda texts: [np.array([len(t)], np.int64) for t in texts]  # noqa: E731
    identity = {"model": "m", "weights": "w"}
    assert [int(x[0]) for x in recalled(identity, "n", ["a", "bb"], compute)] == [1, 2]
    assert opened() is None
