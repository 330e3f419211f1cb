"""Anki decks: files that Anki wrote, files that genanki writes, and files that somebody broke."""

import io
import sqlite3
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mhbench.records.anki import GAP, field_text, load_anki, parse_cloze

FILES = Path(__file__).parent / "fixtures" / "anki"


@pytest.mark.parametrize("name", ["legacy.apkg", "new.apkg", "collection.colpkg", "notes.txt"])
def test_what_anki_wrote(name):
    if name in ("new.apkg", "collection.colpkg"):
        pytest.importorskip("zstandard", reason="the compressed form needs zstandard")
    deck = load_anki(FILES / name, language="en")
    assert len(deck.items) + sum(deck.excluded.values()) == 7
    assert deck.excluded == {"several_clozes": 1, "nested_cloze": 1, "no_cloze": 1, "answer_is_media": 1}
    assert [(i.question, i.key, i.category) for i in deck.items] == [
        ("The hormone that lowers blood glucose is _____.", ["insulin"], "Demo::Endocrine"),
        ('A "quoted" line;\nCO_2 is carried as _____ <mostly>', ["bicarbonate"], "Demo::Endocrine"),
        ("Schilddrüse: das aktive Hormon ist _____", ["Trijodthyronin (T3)"], "Demo::Endocrine"),
    ]
    assert deck.items[0].context == {"hint": "hormone"} and deck.items[0].topic == "demo::hormone"


def test_the_same_ids_from_every_form():
    pytest.importorskip("zstandard", reason="the compressed form needs zstandard")
    ids = {
        name: [i.item_id for i in load_anki(FILES / name, language="en").items]
        for name in ("legacy.apkg", "new.apkg", "collection.colpkg", "notes.txt")
    }
    assert len(set(map(tuple, ids.values()))) == 1


def test_text_without_html():
    deck = load_anki(FILES / "plain.txt", language="en")
    assert deck.excluded["empty_answer"] == 1  # Anki dropped the picture that was the answer
    assert deck.items[1].question.endswith("<mostly>")  # not a tag


def genanki_deck(path, notes, model=None):
    genanki = pytest.importorskip("genanki", reason="genanki writes the decks of this test")
    deck = genanki.Deck(1, "Demo::Generated")
    for guid, fields, tags in notes:
        deck.add_note(genanki.Note(model=model or genanki.CLOZE_MODEL, fields=fields, guid=guid, tags=tags))
    genanki.Package(deck).write_to_file(path)
    return path


@pytest.mark.parametrize(
    "text, reason",
    [
        ("no deletion", "no_cloze"),
        ("{{c1::a}} {{c1::b}}", "several_clozes"),
        ("{{c1::a {{c2::b}}}} x", "nested_cloze"),
        ("x {{c1::a", "unclosed_cloze"),
        ("x {{c1::<img src='a.png'>}}", "answer_is_media"),
        ("x {{c1::image-occlusion:rect:left=.1:top=.2}}", "answer_is_media"),
        ("x {{c1::[sound:a.mp3]}}", "answer_is_media"),
        ("x {{c1::<b> </b>}}", "empty_answer"),
        ("{{c1::alone}}.", "empty_question"),
        ("{{c1::alone}}<img src='a.png'>", "empty_question"),
    ],
)
def test_every_reason(tmp_path, text, reason):
    deck = load_anki(
        genanki_deck(tmp_path / "d.apkg", [("g1", [text, ""], []), ("g2", ["Kept: {{c1::yes}}", ""], [])]),
        language="de",
    )
    assert deck.excluded == {reason: 1}
    assert [i.key for i in deck.items] == [["yes"]] and deck.items[0].language == "de"


def test_duplicates_and_ids(tmp_path):
    deck = load_anki(
        genanki_deck(
            tmp_path / "d.apkg",
            [
                ("g1", ["Q {{c1::a}}", ""], ["t"]),
                ("g2", ["Q <i>{{c1::a}}</i>", ""], []),
                ("g3", ["Q {{c1::b}}", ""], []),
            ],
        ),
        language="en",
    )
    assert deck.excluded == {"duplicate": 1} and [i.item_id for i in deck.items] == ["anki-g1", "anki-g3"]
    assert deck.items[0].topic == "t" and deck.items[0].category == "Demo::Generated"


def test_media_in_the_question(tmp_path):
    path = genanki_deck(tmp_path / "d.apkg", [("g1", ["See <img src='a.png'> shows {{c1::a}}", ""], [])])
    assert [i.item_id for i in load_anki(path, language="en").items] == ["anki-g1"]
    assert load_anki(path, language="en", keep_media=False).excluded == {"question_has_media": 1}


def broken(tmp_path, member, data):
    path = tmp_path / "broken.apkg"
    with zipfile.ZipFile(path, "w") as z:
        z.writestr(member, data)
    return path


@pytest.mark.parametrize(
    "member, data, message",
    [
        ("notes.txt", b"", "must hold one of"),
        ("collection.anki21", b"hello", "must be an SQLite collection"),
        ("collection.anki21", b"SQLite format 3\x00" + b"\x00" * 200, "intact SQLite"),
        ("collection.anki21b", b"not zstandard", "intact collection"),
    ],
)
def test_damage_is_named(tmp_path, member, data, message):
    if member.endswith("b"):
        pytest.importorskip("zstandard")
    with pytest.raises(ValueError, match=message):
        load_anki(broken(tmp_path, member, data), language="en")


def test_truncated_package(tmp_path):
    (tmp_path / "cut.apkg").write_bytes((FILES / "legacy.apkg").read_bytes()[:2000])
    with pytest.raises(ValueError, match="must be a zip that Anki wrote"):
        load_anki(tmp_path / "cut.apkg", language="en")


def test_truncated_collection(tmp_path):
    zstandard = pytest.importorskip("zstandard")
    with zipfile.ZipFile(FILES / "new.apkg") as z:
        data = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(z.read("collection.anki21b"))).read()
    with pytest.raises(ValueError, match="load_anki: .*collection"):
        load_anki(broken(tmp_path, "collection.anki21", data[:5000]), language="en")


def test_a_collection_without_notes(tmp_path):
    db = sqlite3.connect(":memory:")
    db.execute("create table other (x)")
    with pytest.raises(ValueError, match="must have a table of notes"):
        load_anki(broken(tmp_path, "collection.anki2", db.serialize()), language="en")


def test_a_note_that_starts_with_a_hash(tmp_path):
    (tmp_path / "n.txt").write_text(
        "#separator:semicolon\n#html:false\n#1 cause is {{c1::x}};extra\n", encoding="utf-8"
    )
    assert load_anki(tmp_path / "n.txt", language="en").items[0].question == "#1 cause is _____"


plain = st.text(
    st.characters(codec="utf-8", exclude_characters="{}:<>&[]\xad\u200b", exclude_categories=["C", "Z"]),
    min_size=1,
    max_size=12,
)


@settings(max_examples=200, deadline=None)
@given(plain, plain, plain, st.none() | plain)
def test_a_deletion_survives_the_round_trip(before, answer, after, hint):
    text = f"{before} {{{{c1::{answer}{'' if hint is None else '::' + hint}}}}} {after}"
    (d,) = parse_cloze(text)
    assert (d.answer, d.hint) == (answer, hint)
    assert text[: d.start] + GAP + text[d.end :] == f"{before} {GAP} {after}"


def test_hints_of_inner_deletions_stay_inner():
    assert [(d.answer, d.hint, d.depth) for d in parse_cloze("{{c1::x {{c2::y::z}} w::h}}")] == [
        ("x {{c2::y::z}} w", "h", 0),
        ("y", "z", 1),
    ]
    assert [(d.answer, d.depth) for d in parse_cloze("{{c1::a {{c2::b {{c3::c}}}}}}")] == [
        ("a {{c2::b {{c3::c}}}}", 0),
        ("b {{c3::c}}", 1),
        ("c", 2),
    ]


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=80))
def test_any_text_parses_or_says_why(text):
    try:
        found = parse_cloze(text)
    except ValueError as e:
        assert "must be closed" in str(e)
    else:
        assert all(text[d.start : d.start + 3] == "{{c" and text[d.end - 2 : d.end] == "}}" for d in found)
    field_text(text)
