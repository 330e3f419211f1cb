"""Anki decks: files that Anki wrote, files that genanki writes, and files that somebody broke."""

import io
import sqlite3
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mhbench.records.anki import GAP, MOST_BYTES, Note, cloze_question, field_text, load_anki, parse_cloze

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


@pytest.mark.parametrize(
    ("field", "text", "n_media"),
    [
        ("<style>p {}</style>a<b>b</b>", "ab", 0),
        ("<script>x</script>y<i>z</i>", "yz", 0),
        ("<tr><td>a</td><th>b</th></tr>c", "a b\nc", 0),
        ("x<sup>2</sup> y<sub>3</sub> <s>n</s>o <del>p</del>", "x^2 y_3 ~~n~~o ~~p~~", 0),
        ("a<br>b<p>c</p>d<br><br>e", "a\nb\nc\nd\ne", 0),
        ("[sound:a.mp3]<img src=x> t <video></video>", "t", 3),
        (" a\xa0 b\u200b\xad\t c ", "a b c", 0),
        ("a &lt; b", "a < b", 0),
        ("e\u0301", "é", 0),
    ],
)
def test_a_field_is_read_as_it_is_shown(field, text, n_media):
    assert field_text(field) == (text, n_media)


def test_a_field_that_is_no_html_keeps_its_signs():
    assert field_text("a <b> &lt; [sound:x.mp3] c", is_html=False) == ("a <b> &lt; c", 1)


def exported(tmp_path, header: str, *rows: str) -> Path:
    (tmp_path / "d.txt").write_text("\n".join([*header.split("|"), *rows]) + "\n", encoding="utf-8")
    return tmp_path / "d.txt"


def test_columns_of_an_export_are_told_by_its_header(tmp_path):
    head = "#separator:Semicolon|#html:false|#guid column:1|#deck column:2|#tags column:4"
    rows = ["g 1;Deck A;a {{c1::b<c}} d;t1 u-canary-7;more", "g_2;;x {{c1::y}}", "", '"g3";B;"{{c1::p', 'q}} r";;']
    first, second, third = load_anki(exported(tmp_path, head, *rows), language="de", protected=True).items
    assert (first.question, first.key, first.category) == (f"a {GAP} d", ["b<c"], "Deck A")
    assert (first.topic, first.canary, first.source, first.protected) == ("t1", "u-canary-7", "d.txt:6", True)
    assert len(first.item_id) == 17 and first.item_id != "anki-g 1"  # white space is in no identifier
    assert (second.item_id, second.category, second.topic, second.canary) == ("anki-g_2", None, None, None)
    assert (third.item_id, third.key, third.source) == ("anki-g3", ["p\nq"], "d.txt:10")
    everywhere = exported(tmp_path, "#deck:All|#tags:x y|#separator:|", "a {{c1::<b>b</b>}}\tc")
    with pytest.raises(ValueError, match="#separator must be one of"):
        load_anki(everywhere, language="de")
    [item] = load_anki(exported(tmp_path, "#deck:All|#tags:x y", "a {{c1::<b>b</b>}}\tc"), language="de").items
    assert (item.category, item.topic, item.key, item.study, item.protected) == ("All", "x", ["b"], "medqade", False)
    for bad in ("0", "x", "-1"):
        with pytest.raises(ValueError, match=f"a column must be a number from 1; got '#tags column:{bad}'"):
            load_anki(exported(tmp_path, f"#tags column:{bad}", "a"), language="de")


def test_why_a_note_is_left_out_and_media_are_kept_where_they_may_be(tmp_path):
    rows = ["a <img> {{c1::b}}", "a <img> {{c1::b}}", "c {{c1::d}}", "c {{c1::d}}", "x {{c1::\x07y}}"]
    kept = load_anki(exported(tmp_path, "#html:true", *rows), language="de")
    assert len(kept.items) == 2 and kept.excluded == {"duplicate": 2, "control_character": 1}
    left = load_anki(exported(tmp_path, "#html:TRUE", *rows), language="de", keep_media=False)
    assert len(left.items) == 1
    assert left.excluded == {"question_has_media": 2, "duplicate": 1, "control_character": 1}


def test_a_note_of_four_million_characters_is_the_longest():
    note = lambda n: Note("g", ["{{c1::a}} b", "x" * (n - 11)], None, [], "x")
    assert cloze_question(note(4 << 20)) == (f"{GAP} b", "a", None, 0)
    assert cloze_question(note((4 << 20) + 1)) == "too_long"


def collection(notes, cards=(), decks=()) -> bytes:
    "A collection of notes (id, fields), cards (note, deck) and decks (id, name)."
    db = sqlite3.connect(":memory:")
    db.execute("create table notes (id, guid, tags, flds)")
    db.execute("create table cards (nid, did)")
    db.execute("create table decks (id, name)")
    db.executemany("insert into notes values (?, 'g' || ?1, '', ?)", notes)
    db.executemany("insert into cards values (?, ?)", cards)
    db.executemany("insert into decks values (?, ?)", decks)
    db.commit()
    return db.serialize()


@pytest.mark.parametrize("member", ["collection.anki2", "collection.anki21b"])
def test_a_collection_is_as_large_as_it_may_be_and_no_larger(member, tmp_path):
    "Unpacked, by default 512 MiB."
    zstandard = pytest.importorskip("zstandard")
    content = collection([(1, "a {{c1::b}}")])
    packed = zstandard.ZstdCompressor().compress(content) if member.endswith("b") else content
    path = broken(tmp_path, member, packed)
    assert len(load_anki(path, language="en", max_bytes=len(content)).items) == 1 and MOST_BYTES == 512 * 2**20
    with pytest.raises(ValueError, match="the collection must be under 0 MiB, unpacked"):
        load_anki(path, language="en", max_bytes=len(content) - 1)


def test_a_note_with_cards_in_two_decks_is_in_the_first_and_notes_come_in_their_order(tmp_path):
    "The deck of the smaller number, with a deck inside another one."
    content = collection(
        [(2, "a {{c1::b}}"), (1, "c {{c1::d}}"), (3, "e {{c1::f}}")],
        [(2, 20), (2, 10), (1, 20), (3, 99)],
        [(10, "All\x1fPart"), (20, "Other")],
    )
    items = load_anki(broken(tmp_path, "collection.anki2", content), language="en").items
    assert [(i.key, i.category) for i in items] == [(["d"], "Other"), (["b"], "All::Part"), (["f"], None)]


@pytest.mark.parametrize(("html", "key"), [("true", "b"), ("false", "<b>b</b>"), ("no", "<b>b</b>")])
def test_a_field_is_html_where_the_header_says_true(html, key, tmp_path):
    "Or where it says nothing."
    [item] = load_anki(exported(tmp_path, f"#html:{html}", "a {{c1::<b>b</b>}}"), language="en").items
    assert item.key == [key]


def test_a_long_field_of_an_export_is_read_and_what_is_long_is_named_in_part(tmp_path):
    "More than Python's own limit of a field; 60 characters of a deletion that is open; five names of an archive."
    text = "x" * 200_000
    [item] = load_anki(exported(tmp_path, "#html:false", f"a {{{{c1::b}}}}\t{text}"), language="en").items
    assert item.question == f"a {GAP}"
    with pytest.raises(ValueError, match="every deletion must be closed") as e:
        parse_cloze("{{c1::" + "y" * 100)
    assert "{{c1::" + "y" * 54 + "'" in str(e.value)
    with zipfile.ZipFile(tmp_path / "z.apkg", "w") as z:
        for k in range(6):
            z.writestr(f"f{k}", b"")
    with pytest.raises(ValueError, match=r"got \['f0', 'f1', 'f2', 'f3', 'f4'\]"):
        load_anki(tmp_path / "z.apkg", language="en")
