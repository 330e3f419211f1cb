"The names of raters and their pseudonyms, against a plain rule: the next number that nobody has."

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mhbench.records import pseudonyms as p
from mhbench.records.pseudonyms import RaterKey, is_pseudonym, pseudonyms, rater_key


@pytest.mark.parametrize(
    "code", "7 b AB12 abc-3 ab_3 rater-2 Reader_c expert7 consensus Tie-Breaker tiebreaker".split()
)
def test_a_code_is_no_name(code):
    assert is_pseudonym(code) and pseudonyms([code]) == {code: code}


@pytest.mark.parametrize("name", ["abcd1", "ab", "anna", "rater", "rater-bc", "rater--1", "7a", "٧", "gold medal", "é"])
def test_a_name_is_no_code(name):
    assert not is_pseudonym(name) and pseudonyms([name]) == {name: "rater-1"}


def plain(names: list[str], known: dict[str, str], taken: list[str]) -> dict[str, str]:
    "What each is called: a code itself, a known one as before, another by the next number that nobody has."
    gone = {x.lower() for x in [*known.values(), *taken, *filter(is_pseudonym, names)]}
    called = dict(known)
    for name in names:
        if not is_pseudonym(name) and name not in called:
            called[name] = next(f"rater-{k}" for k in range(1, 99) if f"rater-{k}" not in gone | set(called.values()))
    return {name: called.get(name, name) for name in names}


WHO = st.lists(st.sampled_from(["anna", "bob", "Zoë", "rater-1", "RATER-2", "rater-3", "r2", "c"]), max_size=6)


@given(WHO, WHO, st.lists(st.sampled_from(["rater-1", "Rater-2", "rater-4"]), max_size=2))
def test_who_is_called_what(first, second, taken):
    key = RaterKey()
    known = plain(first, {}, taken)
    assert key.of(first, taken) == known
    numbered = {name: code for name, code in known.items() if code.lower().startswith("rater-")}
    kept = {name: code for name, code in numbered.items() if name != code or name.lower() not in map(str.lower, taken)}
    once = {}  # of RATER-2 and rater-2 the first
    for name, code in kept.items():
        if code.lower() not in map(str.lower, once.values()):
            once[name] = code
    assert key.known == once
    assert key.of(second) == plain(second, key.known | {}, [])
    assert key.names == {code: name for name, code in key.known.items() if name != code}


def test_a_name_is_one_however_it_is_spaced_and_composed():
    assert pseudonyms(["Zo\u0308e  B", "Zöe B", " Zöe\tB "]) == dict.fromkeys(
        ["Zo\u0308e  B", "Zöe B", " Zöe\tB "], "rater-1"
    )
    key = RaterKey()
    key.of(["Zöe B"])
    assert (key.called("Zo\u0308e   B"), key.called(" x ")) == ("rater-1", " x ")
    with pytest.raises(ValueError, match="a rater must have a name; got an empty one"):
        key.of(["anna", " \t"])


def rows(file) -> list[tuple]:
    db = sqlite3.connect(file)
    found = db.execute("SELECT study, name, pseudonym FROM raters ORDER BY study, pseudonym").fetchall()
    db.close()
    return found


def test_names_are_kept_a_study_and_forgotten_by_either_name(tmp_path):
    file = tmp_path / "raters.sqlite"
    RaterKey(file, "ward").save()
    assert not file.exists()  # nothing to keep
    for study in ("ward", "clinic"):
        key = RaterKey(file, study)
        key.of(["anna", "bob", "rater-7"])
        key.save()
        key.save()  # nothing new
        key.of(["cleo"])
        key.save()
    names = [("anna", "rater-1"), ("bob", "rater-2"), ("cleo", "rater-3"), ("rater-7", "rater-7")]
    assert rows(file) == [(study, *r) for study in ("clinic", "ward") for r in names]
    key = RaterKey(file, "ward")
    key.forget("rater-1")
    key.forget(" bob ")
    key.forget("nobody")
    assert rows(file) == [("clinic", *r) for r in names] + [
        ("ward", *r) for r in [("rater-1", "rater-1"), ("rater-2", "rater-2"), *names[2:]]
    ]
    assert set(key.known) == {"rater-1", "rater-2", "cleo", "rater-7"} and key.names == {"rater-3": "cleo"}
    assert key.of(["anna"]) == {"anna": "rater-4"}  # rater-1 stands in exports that were made before
    key.save()
    key.of(["wilhelmina"])
    key.save()
    assert {("ward", "anna", "rater-4"), ("ward", "wilhelmina", "rater-5")} < set(rows(file))
    key.forget("Wilhelmina")  # another name
    key.forget("wilhelmina")
    assert b"wilhelmina" not in file.read_bytes()  # its place is written over
    plain = RaterKey()
    plain.of(["anna"])
    plain.save()
    plain.forget("anna")
    assert plain.known == {"rater-1": "rater-1"}


def test_of_two_commands_at_once_the_later_is_refused(tmp_path):
    file = tmp_path / "raters.sqlite"
    early, late = RaterKey(file, "ward"), RaterKey(file, "ward")
    early.of(["anna"])
    late.of(["bob"])
    early.save()
    with pytest.raises(RuntimeError, match="names from another command at the same time"):
        late.save()
    assert rows(file) == [("ward", "anna", "rater-1")]


def test_a_block_inside_another_uses_its_key_and_one_with_a_file_its_own(tmp_path):
    file = tmp_path / "raters.sqlite"
    with rater_key() as outer:
        pseudonyms(["anna"])
        with rater_key() as inner:
            assert inner is outer and pseudonyms(["bob"]) == {"bob": "rater-2"}
        with rater_key(file, "ward") as own:
            assert own is not outer and pseudonyms(["cleo"]) == {"cleo": "rater-1"}
        assert pseudonyms(["dora"]) == {"dora": "rater-3"} and rows(file) == [("ward", "cleo", "rater-1")]
    assert p._OPEN.get() is None and pseudonyms(["dora"]) == {"dora": "rater-1"}
    with pytest.raises(ZeroDivisionError), rater_key(file, "ward"):
        pseudonyms(["ed"])
        1 / 0
    assert p._OPEN.get() is None and len(rows(file)) == 1  # what broke keeps nothing
