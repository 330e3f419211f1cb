"""The page at its ends: the anchors of a scale, a study that has ended, and the words that say so."""

import json
import re

import pytest

from mhbench.annotate import export
from mhbench.annotate.assignment import enrol
from mhbench.annotate.dashboard import progress
from mhbench.annotate.pages import listed_fields, page_text, question_view, texts
from mhbench.annotate.store import Register, open_store
from mhbench.annotate.study import QuestionPage, build_study
from mhbench.records.schema import Response

from .conftest import ANSWERS, ENTRIES, items
from .test_annotate_app import with_page


def test_after_the_end_the_dashboard_says_finished_and_a_link_that_the_study_has_ended(tmp_path):
    async def check(client, path, tokens):
        with open_store(path) as store:
            register = Register(store)
            register.withdraw("r2")
            assert not register.ended and register.end() == ["r1"] and register.ended
            assert [r["marks"] for r in progress(store, store.study)] == [["finished"], ["withdrawn"]]
        for language, words in (("en", "The study has ended"), ("de", "Die Studie ist beendet")):
            client.session.cookie_jar.update_cookies({"mhbench_language": language})
            reply = await client.get(f"/in/{tokens['r1']}")
            shown = await reply.text()
            assert reply.status == 403 and words in shown and "new one" not in shown
        await client.get(f"/in/{tokens['boss']}")
        board = await (await client.get("/dashboard")).text()
        assert "r1 (beendet)" in board and "r2 (Teilnahme zurückgezogen)" in board and "Die Studie ist beendet" in board
        with open_store(path) as store:
            token = Register(store).invite("r1")
            assert not Register(store).ended and Register(store).rater_of_token(token).rater == "r1"
            Register(store).withdraw("r1")
            assert not Register(store).ended, "somebody was invited since"

    with_page(tmp_path, ENTRIES["agree"], check)


@pytest.mark.parametrize(
    ("kind", "own", "language", "ends"),
    [
        ("sliders", {}, "en", ["not appropriate at all", "entirely appropriate"]),
        ("sliders", {}, "de", ["gar nicht angemessen", "völlig angemessen"]),
        ("score", {"anchors": {}}, "de", ["völlig falsch", "so gut wie die Referenz"]),
        ("score", {"anchors": {"100": "perfect", "50": "half", "0": "useless"}}, "en", ["useless", "half", "perfect"]),
    ],
)
def test_the_anchors_of_the_scale_stand_at_every_slider(kind, own, language, ends):
    said = [Response(item_id="q1", study="example", model=m, mode="zero_shot", text=t) for m, t in ANSWERS.items()]
    study = build_study("example", ENTRIES[kind] | own | {"language": language}, items(1), said)
    page = QuestionPage(study, study.questions[0], "r1", 0, "secret")
    view = question_view(page, {}, language)
    assert list(view["anchors"].values()) == ends
    seen = page_text(study, "r1")
    assert [seen.count(words) for words in ends] == [len(view["rated"])] * len(ends)


@pytest.mark.parametrize("kind", ENTRIES)
def test_the_preview_in_a_terminal_holds_all_that_may_be_answered(kind):
    answers = [Response(item_id="q1", study="example", model=m, mode="zero_shot", text=t) for m, t in ANSWERS.items()]
    study = build_study("example", {**ENTRIES[kind], "practice": [], "checks": []}, items(1), answers)
    page = QuestionPage(study, study.questions[0], "r1", 0, "secret")
    preview = page_text(study, "r1").splitlines()
    text = " ".join(map(str.strip, preview))
    for field in listed_fields(question_view(page, {}, "en")):
        assert field["words"] in text
        assert all(f"( ) {c['words']}" in preview for c in field["choices"][1:])
    assert study.questions[0].texts[page.shown.wording].split()[0] in text


def test_german_words_are_those_of_the_field():
    words = json.dumps(texts("de"), ensure_ascii=False)
    assert not re.search("Urteilende|Nachzufragen|ausgeschieden|Prüffragen", words)


def test_the_report_names_whom_the_dashboard_flags_and_counts_ratings_that_do_not_say_what_was_asked(
    tmp_path, monkeypatch
):
    study = build_study("example", ENTRIES["agree"], items(2))
    open_store(tmp_path / "a.sqlite", study).close()
    monkeypatch.setattr(export, "flags", lambda store, study: {"r1": "one answer throughout", "r2": ""})
    with open_store(tmp_path / "a.sqlite") as store:
        enrol(store, study, ["r1", "r2"])
    found = export.raters_for_review("a.sqlite", tmp_path)
    assert found.to_dict("records") == [{"rater": "r1", "reasons": "one answer throughout"}]
    assert export.raters_for_review("a.csv").empty and export.raters_for_review(None).empty
    (tmp_path / "a.csv").write_text("item_id,study,rater,target,label\nq1,example,r1,key,B\nq2,example,r1,key,B\n")
    notes = export.study_ratings([], items(2), "a.csv", tmp_path).notes
    assert "2 of 2 ratings do not record what was asked: nothing compared it with the items" in notes
