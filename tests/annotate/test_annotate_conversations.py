"""A transcript on the annotation page: read and rated on a phone, a turn marked, a comment kept, one skipped, and the
warning before.
"""

import pytest

from mhbench.annotate.assignment import enrol
from mhbench.annotate.export import ratings
from mhbench.annotate.pages import question_view, texts
from mhbench.annotate.store import Change, differences, open_store
from mhbench.annotate.study import QuestionPage, RatedAnswer, build_study, fields, missing, present
from mhbench.records.schema import Rating
from mhbench.records.transcript import Transcript, Turn
from mhbench.steps.graded import people_ratings
from mhbench.tasks.written import transcript_items

from .test_annotate_browser import AXE, SCHEMES, Page

CANARY = "synthetic: written for this test"
LABELS = ["Not at all", "In part", "Entirely"]
ASKS = {"asks": "Does the chatbot ask about safety?", "warm": "Is the chatbot warm?"}
ENTRY = {"kind": "conversation", "asks": ASKS, "labels": LABELS}


def talk(k: int, n: int = 30) -> Transcript:
    "A conversation of n turns, with a word that no line holds and a script from right to left among them."
    said = [f"Turn {i} of conversation {k}. " + ("word " * 30 if i % 2 else "x" * 300) for i in range(1, n)]
    said.append("אבג مرحبا, " * 20)
    turns = [Turn(role="assistant" if i % 2 else "user", text=t) for i, t in enumerate(said)]
    about = {"item_id": f"c{k}", "study": "example", "model": "m", "person": "Ada", "source": "test", "canary": CANARY}
    return Transcript(**about, turns=turns, ended="turns", protected=False)


TALKS = [talk(1), talk(2)]


def page_of(answers=None):
    study = build_study("example", ENTRY, transcript_items(TALKS))
    return study, QuestionPage(study, study.questions[0], "r1", 0, "secret")


def test_a_skipped_conversation_is_complete_and_no_rating():
    study, page = page_of()
    q = page.question
    assert list(q.targets) == ["asks", "warm"] and len(q.sides) == 30 and q.texts == {"": q.texts[""]}
    assert [f.target for f in fields(study, q)][:3] == ["asks", "warm", "turn-1"]
    assert missing(study, q, {"asks": RatedAnswer(label="In part")}) == ["warm"]
    assert missing(study, q, {"skip": RatedAnswer(label="yes")}) == []
    view = question_view(page, {}, "de")
    assert [t["who"] for t in view["turns"][:2]] == ["1 · Person", "2 · Chatbot"] and view["turns"][1]["reply"]


def test_a_study_of_conversations_says_what_is_read_and_needs_criteria():
    for language in ("en", "de"):
        words = texts(language)["consent.conversation"]
        assert ("suicide" in words or "Suizid" in words) and ("stop" in words or "aufhören" in words)
    with pytest.raises(ValueError, match="asks must not be empty for kind conversation"):
        build_study("example", ENTRY | {"asks": {}}, transcript_items(TALKS))
    with pytest.raises(ValueError, match="must not have a name that the page uses; got 'skip'"):
        build_study("example", ENTRY | {"asks": {"skip": "?"}}, transcript_items(TALKS))


def test_a_criterion_whose_name_begins_like_a_mark_is_rated(tmp_path):
    "It was taken for a mark of a turn: in no rating, and the export of all answers failed at it."
    study = build_study("example", ENTRY | {"asks": {"turn-taking": "Turn-taking?"}}, transcript_items(TALKS[:1]))
    q = study.questions[0]
    with open_store(tmp_path / "a.sqlite", study) as store:
        enrol(store, study, ["r1"])
        for k, (target, label) in enumerate({"turn-taking": "In part", "turn-2": "yes"}.items()):
            shown = present(study, q, "r1").text()
            store.save([Change(f"e{k}", "r1", q.question_id, 0, target, RatedAnswer(label=label), shown, k, None)])
        (r,) = ratings(store).ratings
    assert (r.target, r.label, r.variant["turns"]) == ("turn-taking", "In part", "2")
    with pytest.raises(ValueError, match="must not have a name that the page uses; got 'turn-2'"):
        build_study("example", ENTRY | {"asks": {"turn-2": "?"}}, transcript_items(TALKS[:1]))


def test_ratings_of_the_page_stand_beside_a_judge_s():
    (item,) = transcript_items(TALKS[:1])
    given = Rating(item_id=item.item_id, study="example", rater="r1", target="warm", label="In part", source="page")
    (r,) = people_ratings([given], TALKS)
    assert (r.item_id, r.target, r.criterion, r.kind) == ("c1", "m", "warm", "person")
    assert r.within == TALKS[0].within
    with pytest.raises(ValueError, match="got none for 'c1/m/script/0'"):
        people_ratings([given], TALKS[1:])


@pytest.mark.whole
def test_thirty_turns_are_read_marked_rated_and_skipped_on_a_phone(serve, browser):
    s, page = serve(ENTRY, all_items=transcript_items(TALKS)), Page(browser)
    browser.get(s.link("r1"))
    page.until(lambda: "consent" in browser.current_url)
    assert "self-harm or suicide" in page.one("main").text and "stop" in page.one("main").text
    page.come_in(s.link("r1"))
    for width in (360, 320):
        browser.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": 740, "deviceScaleFactor": 1, "mobile": True},
        )
        assert browser.execute_script("const e = document.documentElement; return e.scrollWidth - e.clientWidth") == 0
        seen = page.boxes(".turns li, .turns p, main .choice")
        assert len(seen) > 60 and not [b for b in seen if b["x"] < 0 or b["x"] + b["width"] > width], (width, seen)
    turns, marks = page.all(".turns li"), page.boxes(".turns .choice")
    assert len(turns) == 30 and page.all("nav.top a[href$=pause]")
    assert len(marks) == 30 and all(b["height"] >= 44 for b in marks)
    for k in (3, 9):
        page.middle(page.one("input[type=checkbox]", turns[k])).click()
    for criterion, label in (("asks", "In part"), ("warm", "Entirely")):
        page.choose("mouse", ASKS[criterion], label)
    page.one("textarea").send_keys("The tenth turn helps.")
    page.saved()
    browser.refresh()
    page.ready("/q/1")
    assert [e.is_selected() for e in page.all(".turns input")].count(True) == 2
    page.onward()
    page.ready("/q/2")
    page.choose("mouse", None, "Skip this conversation; I do not want to rate it")
    page.saved()
    page.onward()
    page.until(lambda: browser.current_url.endswith("/thanks"))
    with open_store(s.answers) as store:
        found = ratings(store)
        assert differences(store) == []
    shown = {(r.item_id, r.target): r for r in found.ratings}
    assert {k[1]: r.label for k, r in shown.items()} == {"asks": "In part", "warm": "Entirely"}
    assert {r.variant["turns"] for r in found.ratings} == {"4,10"}
    assert {r.comment for r in found.ratings} == {"The tenth turn helps."}
    assert len({r.item_id for r in found.ratings} | {p["item_id"] for p in found.incomplete}) == 2
    assert len(found.incomplete) == 1 and len(people_ratings(found.ratings, TALKS)) == 2


@pytest.mark.whole
def test_it_works_without_a_script(serve, no_script):
    s, page = serve(ENTRY, all_items=transcript_items(TALKS[:1])), Page(no_script)
    no_script.delete_all_cookies()
    no_script.get(s.link("r1"))
    page.one("main button").click()
    page.until(lambda: "instructions" in no_script.current_url)
    no_script.get(f"{s.url}/q/1")
    page.middle(page.one(".turns input[type=checkbox]")).click()
    for criterion in ASKS:
        page.choose("form", ASKS[criterion], "Not at all")
    page.one("button[name=go]").click()
    page.until(lambda: no_script.current_url.endswith("/thanks"))
    assert set(s.ratings().values()) == {"Not at all"} and len(s.ratings()) == 2


@pytest.mark.whole
def test_axe_finds_nothing_on_a_transcript(serve, browser, axe):
    s, page, found = serve(ENTRY, all_items=transcript_items(TALKS[:1])), Page(browser), {}
    browser.get(s.link("r1"))
    page.until(lambda: "consent" in browser.current_url)
    for look in ("consent", "fresh", "missing=1"):
        if look == "fresh":
            page.come_in(s.link("r1"))
        elif look != "consent":
            page.onward()
            page.ready(look)
        browser.execute_script(axe)
        for scheme, options in SCHEMES.items():
            listed = [{"name": "prefers-color-scheme", "value": scheme}]
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": listed})
            if violations := browser.execute_async_script(AXE, options):
                found[look, scheme] = violations
    assert found == {}
