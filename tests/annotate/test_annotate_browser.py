"""In a real Chromium, at 360 pixels: what a person sees and does is what the file of answers holds, by option."""

import time

import numpy as np
import pytest

from mhbench.annotate.export import ratings
from mhbench.annotate.store import Change, Visit, differences, open_store
from mhbench.annotate.study import RatedAnswer, present

from .conftest import ANSWERS, ENTRIES, OPTIONS, items

WANTED = {  # kind -> target -> what the rater means
    "sliders": {"A": 0, "B": 10, "C": 23, "D": 77, "E": 100},
    "labels": {"m1": "Correct", "m2": "Incorrect", "m3": "Abstain", "difficulty": "Hard"},
    "agree": {"key": "D"},
    "errors": {"m2": "logical"},
    "duel": {"harm": "m2", "bias": "tie"},
    "score": {"m1": 88, "m2": 5, "m3": 41},
    "yes_no": {"relevant": "yes", "clear": "no"},
}
SHOWN = {"Abstain": "I cannot tell", "yes": "Yes", "no": "No", "tie": "No difference"}


# what stands beside these words, in the middle of the screen: one request to the browser in place of one an element
SLIDER = """
const words = (e) => (e.querySelector(".body") || e.querySelector(".words")).innerText.trim();
const box = [...document.querySelectorAll("[data-slider]")].find((e) => words(e) === arguments[0]);
box?.scrollIntoView({block: "center"});
return box;
"""
BOXES = """
const seen = [...document.querySelectorAll(arguments[0])].filter((e) => e.checkVisibility());
return seen.map((e) => ({...e.getBoundingClientRect().toJSON(), words: e.innerText.slice(0, 40)}));
"""
GROUP = """
return [...document.querySelectorAll("legend")].find((e) => e.innerText.trim() === arguments[0])?.closest("fieldset");
"""
CHOICE = """
const labels = [...(arguments[0] || document).querySelectorAll(".choice")];
const button = labels.find((e) => e.innerText.trim().split("\\n")[0] === arguments[1])?.querySelector("input");
button?.scrollIntoView({block: "center"});
return button;
"""


class Page:
    "The page as somebody uses it: by the words that stand on it."

    def __init__(self, browser):
        from selenium.webdriver.common.action_chains import ActionChains
        from selenium.webdriver.common.by import By
        from selenium.webdriver.common.keys import Keys

        self.browser, self.by, self.keys, self.actions = browser, By, Keys, ActionChains

    def all(self, css, within=None):
        return (within or self.browser).find_elements(self.by.CSS_SELECTOR, css)

    def one(self, css, within=None):
        return (within or self.browser).find_element(self.by.CSS_SELECTOR, css)

    def until(self, what, seconds=30):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if found := what():
                    return found
            except Exception:  # the page is changing under our hands
                pass
            time.sleep(0.02)
        raise AssertionError(
            f"not so within {seconds} s: {what.__name__}; the page says {self.one('body').text[:600]!r}"
        )

    def ready(self, path=""):
        def page_is_ready():
            return path in self.browser.current_url and self.one("html").get_attribute("data-ready")

        self.until(page_is_ready)
        return self

    def come_in(self, link):
        self.browser.get(link)
        if "consent" in self.browser.current_url:
            self.one("main button").click()
            self.until(lambda: "instructions" in self.browser.current_url)
        self.browser.get(link.rsplit("/in/", 1)[0] + "/q/1")
        return self.ready("/q/1")

    def saved(self):
        def everything_is_saved():
            return self.one("#saved").get_attribute("data-state") == "saved" and not self.waiting()

        self.until(everything_is_saved)

    def state(self, name):
        def state_is_shown():
            return self.one("#saved").get_attribute("data-state") == name

        self.until(state_is_shown)

    def waiting(self):
        return self.browser.execute_script(
            "return Object.keys(localStorage).filter(k => k.includes('.change.')).length"
        )

    def middle(self, element):
        self.browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
        return element

    def boxes(self, css):
        return self.browser.execute_script(BOXES, css)

    def slider(self, words):
        box = self.browser.execute_script(SLIDER, words)
        assert box, f"no slider {words!r}"
        return box

    def number(self, words):
        return self.one("input[type=number]", self.slider(words)).get_attribute("value")

    def slide_by_keys(self, words, value):
        "Home, then page by page and step by step, as a keyboard does it."
        handle = self.one("input[type=range]", self.slider(words))
        self.browser.execute_script("arguments[0].focus()", handle)
        k = self.keys
        handle.send_keys(k.HOME, *[k.PAGE_UP] * (value // 10), *[k.ARROW_RIGHT] * (value % 10))
        assert self.number(words) == str(value)

    def slide_by_mouse(self, words, value):
        "Drag the handle near, then look at the number and drag on until it is right."
        handle = self.one("input[type=range]", self.slider(words))
        width = handle.size["width"]
        for nudge in (0, 1, -1, 2, -2, 3, -3):
            x = round((value / 100 - 0.5) * (width - 28)) + nudge
            self.actions(self.browser, duration=0).move_to_element_with_offset(handle, x, 0).click().perform()
            if self.number(words) == str(value):
                return
        typed = self.one("input[type=number]", self.slider(words))  # a pixel may be more than one step: type it
        typed.clear()
        typed.send_keys(str(value), self.keys.TAB)
        assert self.number(words) == str(value)

    def type_number(self, words, value):
        box = self.one("input[type=number]", self.slider(words))
        box.clear()
        box.send_keys(str(value))

    def group(self, legend):
        if legend is None:
            return None
        group = self.browser.execute_script(GROUP, legend)
        assert group, f"no group {legend!r}"
        return group

    def choice(self, legend, words):
        "The button that stands beside these words."
        button = self.browser.execute_script(CHOICE, self.group(legend), words)
        assert button, f"no choice {words!r}"
        return button

    def choose(self, how, legend, words):
        button = self.choice(legend, words)
        if how == "mouse":
            self.actions(self.browser, duration=0).move_to_element(button).click().perform()
        elif how == "form":
            button.click()
        elif button.get_attribute("type") == "checkbox":
            self.browser.execute_script("arguments[0].focus()", button)
            button.send_keys(self.keys.SPACE)
        else:  # from the group's first button with the arrows, as the keyboard goes
            group = self.all(f"input[name='{button.get_attribute('name')}']")
            self.browser.execute_script("arguments[0].focus()", group[0])
            group[0].send_keys(self.keys.SPACE)
            for before in group[: group.index(button)]:
                before.send_keys(self.keys.ARROW_DOWN)
        assert button.is_selected()

    def onward(self, how="mouse"):
        if how == "mouse":
            self.middle(self.one("button[name=go]")).click()
        else:
            self.actions(self.browser).key_down(self.keys.CONTROL).send_keys(self.keys.ENTER).key_up(
                self.keys.CONTROL
            ).perform()


def answer(page, kind, how):
    "Say on the page what WANTED says: by mouse, by keyboard, or on a plain form."
    wanted = WANTED[kind]
    if kind in ("sliders", "score"):
        slide = {"mouse": page.slide_by_mouse, "keyboard": page.slide_by_keys, "form": page.type_number}[how]
        texts = dict(zip("ABCDE", OPTIONS, strict=True)) if kind == "sliders" else ANSWERS
        for target, value in wanted.items():
            slide(texts[target], value)
    elif kind == "labels":
        for target, label in wanted.items():
            page.choose(how, ANSWERS.get(target, "How hard is the question?"), SHOWN.get(label, label))
    elif kind == "agree":
        page.choose(how, "Do you agree with the answer marked as correct?", OPTIONS[3])
    elif kind == "errors":
        page.choose(how, None, "Knowledge")
        page.choose(how, None, "Logical")
        page.choose(how, "The main type, if you ticked several", "Logical")
        select = page.one(".span select")
        select.send_keys("2")  # the second sentence, by its number
    elif kind == "duel":
        sides = [s.text for s in page.all(".pair p")]
        better = f"Explanation {sides.index(ANSWERS['m2']) + 1}"
        page.choose(how, ENTRIES["duel"]["axes"]["harm"], better)
        page.choose(how, ENTRIES["duel"]["axes"]["bias"], "No difference")
    else:
        for target, label in wanted.items():
            page.choose(how, ENTRIES["yes_no"]["asks"][target], SHOWN[label])


@pytest.mark.parametrize("kind", list(ENTRIES))
def test_what_is_said_on_the_page_is_what_is_kept_by_option(serve, browser, kind):
    "Two questions, one by mouse and one by keyboard, in orders, starts and sides that differ; read back equal."
    s, page = serve(ENTRIES[kind]), Page(browser)
    page.come_in(s.link("r1"))
    for n, how in enumerate(("mouse", "keyboard"), 1):
        page.ready(f"/q/{n}")
        answer(page, kind, how)
        page.saved()
        page.onward(how)
    page.until(lambda: browser.current_url.endswith("/thanks"))
    found = s.ratings()
    for item in ("q1", "q2"):
        given = {t: v for (_, i, t), v in found.items() if i == item}
        assert given == WANTED[kind], item
    with open_store(s.answers) as store:
        assert differences(store) == []
        shown = {r.item_id: r.variant for r in ratings(store).ratings}
        if kind == "errors":
            assert all(v["kinds"] == "knowledge,logical" and v["span-knowledge"] == "15-25" for v in shown.values())
        active = store.active_ms()
        assert len(active) == 2 and all(0 < ms < 60_000 for ms in active.values())
    refused = [x for x in browser.get_log("browser") if "Content Security Policy" in x["message"]]
    assert refused == []


@pytest.mark.parametrize("kind", list(ENTRIES))
def test_without_javascript_the_forms_post_and_are_kept_by_option(serve, no_script, kind):
    "Consent, an empty form that comes back with what is missing, every answer, one changed once more; read back."
    s, page = serve(ENTRIES[kind], n_items=1), Page(no_script)
    no_script.delete_all_cookies()
    no_script.get(s.link("r1"))
    page.one("main button").click()
    page.until(lambda: "instructions" in no_script.current_url)
    no_script.get(f"{s.url}/q/1")
    said = page.one("#saved").get_property("innerText")  # selenium calls a <noscript> hidden, and it is not
    assert said == "The buttons below save your answers."
    assert page.all("input[type=range]") == []
    page.one("button[name=go]").click()
    page.until(lambda: no_script.current_url.endswith("/q/1?missing=1"))
    page.until(lambda: "Still open" in page.one("#note").text)
    answer(page, kind, "form")
    page.one("textarea").send_keys("A remark, without a script")
    page.one("button[name=go]").click()
    page.until(lambda: no_script.current_url.endswith("/thanks"))
    assert {t: v for (_, _, t), v in s.ratings().items()} == WANTED[kind]
    no_script.get(f"{s.url}/q/1")
    comment = page.one("textarea")
    assert comment.get_attribute("value") == "A remark, without a script"
    comment.clear()
    comment.send_keys("Another")
    page.one("button[name=go]").click()
    page.until(lambda: no_script.current_url.endswith("/thanks"))
    with open_store(s.answers) as store:
        found = ratings(store).ratings
        assert {r.target: r.label if r.value is None else r.value for r in found} == WANTED[kind]
        assert {r.comment for r in found} == {"Another"}
        if kind == "errors":
            assert found[0].variant["span-knowledge"] == "15-25"
        assert differences(store) == []
    assert page.one("html").get_attribute("data-ready") is None


def test_the_start_of_a_slider_is_no_answer_until_it_is_meant(serve, browser):
    "Untouched: no number, and the page insists. Enter on the handle, or a tap on it, answers the start value."
    s, page = serve(ENTRIES["sliders"], n_items=1, prefix="/study/one"), Page(browser)  # as behind a proxy
    page.come_in(s.link("r1"))
    assert [page.number(o) for o in OPTIONS] == [""] * 5
    page.onward()
    page.ready("missing=1")
    assert "Still open: 5" in page.one("#note").text
    assert s.ratings() == {}
    starts = {}
    for k, words in enumerate(OPTIONS):
        box = page.slider(words)
        handle, starts["ABCDE"[k]] = page.one("input[type=range]", box), float(box.get_attribute("data-start"))
        assert handle.get_attribute("aria-valuetext") == "not answered yet"
        if k % 2:
            page.browser.execute_script("arguments[0].focus()", handle)
            handle.send_keys(page.keys.ENTER)
        else:
            x = round((starts["ABCDE"[k]] / 100 - 0.5) * (handle.size["width"] - 28))
            page.actions(browser, duration=0).move_to_element_with_offset(handle, x, 0).click().perform()
            starts["ABCDE"[k]] = float(page.number(words))  # a click may fall one step beside
            assert abs(starts["ABCDE"[k]] - float(box.get_attribute("data-start"))) <= 1
        assert handle.get_attribute("aria-valuetext") is None
    page.saved()
    assert {t: v for (_, _, t), v in s.ratings().items()} == starts


def test_a_typed_number_is_saved_while_its_field_still_has_the_cursor(serve, browser):
    s, page = serve(ENTRIES["sliders"], n_items=1), Page(browser)
    page.come_in(s.link("r1"))

    def kept():
        with open_store(s.answers) as store:
            return {t: g.answer.value for of in store.all_answers().values() for t, g in of.items()}

    page.type_number(OPTIONS[0], 73)
    page.until(lambda: kept() == {"A": 73.0})
    page.type_number(OPTIONS[1], 41)
    browser.refresh()  # at once: the typing has not come to rest
    page.ready()
    page.until(lambda: [page.number(o) for o in OPTIONS[:3]] == ["73", "41", ""])
    page.until(lambda: kept() == {"A": 73.0, "B": 41.0})
    page.type_number(OPTIONS[2], 150)  # no answer: neither while it is typed nor once it is left
    time.sleep(1)
    assert page.number(OPTIONS[2]) == "150"
    page.one("#main").click()
    page.until(lambda: page.number(OPTIONS[2]) == "")
    assert kept() == {"A": 73.0, "B": 41.0}
    marked = lambda: [box.find_element(page.by.CSS_SELECTOR, "input[type=number]") for box in page.all(".missing")]
    assert [box.get_attribute("placeholder") for box in marked()] == ["0–100"]  # and it does not vanish in silence
    page.type_number(OPTIONS[2], 15)
    page.until(lambda: kept() == {"A": 73.0, "B": 41.0, "C": 15.0})
    assert not marked()


def test_a_reload_the_back_button_and_another_tab_keep_everything(serve, browser):
    s, page = serve(ENTRIES["sliders"]), Page(browser)
    page.come_in(s.link("r1"))
    page.slide_by_keys(OPTIONS[0], 31)
    page.slide_by_keys(OPTIONS[1], 62)
    browser.refresh()
    page.ready()
    assert [page.number(o) for o in OPTIONS[:3]] == ["31", "62", ""]
    first = browser.current_window_handle
    browser.switch_to.new_window("tab")
    browser.get(f"{s.url}/q/1")
    page.ready()
    page.slide_by_keys(OPTIONS[0], 33)
    page.saved()
    browser.switch_to.window(first)
    page.until(lambda: page.number(OPTIONS[0]) == "33")  # the first tab learns of it when it is looked at again
    for words in OPTIONS[1:]:
        page.slide_by_keys(words, 50)
    page.saved()
    page.onward()
    page.ready("/q/2")
    page.slide_by_keys(OPTIONS[3], 8)
    page.middle(page.one("button[value=back]")).click()  # goes back from a page that is not complete
    page.ready("/q/1")
    browser.back()
    page.ready("/q/2")
    page.until(lambda: page.number(OPTIONS[3]) == "8")
    browser.back()
    page.ready("/q/1")
    page.until(lambda: [page.number(o) for o in OPTIONS] == ["33", "50", "50", "50", "50"])
    with open_store(s.answers) as store:
        assert differences(store) == []


def test_two_raters_at_once_do_not_touch_each_other(serve, browser):
    "Two names of one host are two sites for a browser, each with its own cookie and store."
    s, page = serve(ENTRIES["sliders"], raters=("r1", "r2"), n_items=1), Page(browser)
    page.come_in(s.link("r1"))
    one = browser.current_window_handle
    browser.switch_to.new_window("tab")
    page.come_in(s.link("r2", host="localhost"))
    two = browser.current_window_handle
    for k, words in enumerate(OPTIONS):
        browser.switch_to.window(one)
        page.slide_by_keys(words, k)
        browser.switch_to.window(two)
        page.slide_by_keys(words, 90 + k)
    page.saved()
    browser.switch_to.window(one)
    page.saved()
    found = s.ratings()
    assert [found["r1", "q1", t] for t in "ABCDE"] == [0, 1, 2, 3, 4]
    assert [found["r2", "q1", t] for t in "ABCDE"] == [90, 91, 92, 93, 94]


def test_a_killed_server_and_a_cut_network_lose_nothing(serve, browser):
    s, page = serve(ENTRIES["sliders"], n_items=1, process=True), Page(browser)
    page.come_in(s.link("r1"))
    page.slide_by_keys(OPTIONS[0], 7)
    page.saved()
    s.kill()
    page.slide_by_keys(OPTIONS[1], 17)
    page.state("retry")
    assert page.one("#saved").text == "Not saved, trying again"
    assert page.waiting() > 0
    s.start_process()
    page.saved()
    cut = {"offline": True, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    browser.execute_cdp_cmd("Network.emulateNetworkConditions", cut)
    page.slide_by_keys(OPTIONS[2], 27)
    page.state("retry")
    page.onward()
    time.sleep(0.2)
    assert browser.current_url.endswith("/q/1")  # it does not go on without them
    browser.execute_cdp_cmd("Network.emulateNetworkConditions", cut | {"offline": False})
    page.saved()
    with open_store(s.answers) as store:
        given = {t: g.answer.value for given in store.all_answers().values() for t, g in given.items()}
        assert given == {"A": 7.0, "B": 17.0, "C": 27.0}
        assert differences(store) == []


def test_a_reload_while_the_server_is_gone_keeps_what_waits(serve, browser):
    s, page = serve(ENTRIES["yes_no"], n_items=1, process=True), Page(browser)
    page.come_in(s.link("r1"))
    s.kill()
    page.choose("mouse", "Is it relevant?", "No")
    page.state("retry")
    browser.get("about:blank")
    s.start_process()
    browser.get(f"{s.url}/q/1")
    page.ready()
    assert page.choice("Is it relevant?", "No").is_selected()
    page.until(lambda: page.waiting() == 0)
    with open_store(s.answers) as store:
        assert [g["relevant"].answer.label for g in store.all_answers().values()] == ["no"]


def test_an_interrupted_selection_marks_the_characters_that_were_selected(serve, browser):
    "The text holds a character of two UTF-16 units before the span; offsets count characters."
    entry = ENTRIES["errors"] | {
        "answers": [{"item_id": "q1", "model": "m2", "text": "An 😀 first. The wrong step here."}]
    }
    s, page = serve(entry, n_items=1), Page(browser)
    page.come_in(s.link("r1"))
    page.choose("mouse", None, "Logical")
    browser.execute_script(
        "const t = document.getElementById('passage').firstChild; const at = t.data.indexOf('wrong');"
        "getSelection().setBaseAndExtent(t, at, t, at + 10);"
    )
    button = page.one(".span:not([hidden]) button")
    page.middle(button).click()
    page.saved()
    with open_store(s.answers) as store:
        given = next(iter(store.all_answers().values()))
    start, end = map(int, given["span-logical"].answer.label.split("-"))
    assert "An 😀 first. The wrong step here."[start:end] == "wrong step"


def test_it_is_wide_enough_for_no_screen(serve, browser):
    "No page scrolls sideways at 360 pixels, whatever the texts, and what is tapped is 44 pixels high or more."
    for kind, entry in ENTRIES.items():
        rtl = "אבג מרحבا, " * 20
        long = [i.model_copy(update={"question": rtl, "options": [rtl, "x" * 400, *OPTIONS[2:]]}) for i in items(1)]
        said = [{"item_id": "q1", "model": m, "text": t} for m, t in (("m1", rtl), ("m2", "word " * 900))]
        judged = {"answers": said} if kind in ("labels", "errors", "duel", "score") else {}
        s, page = serve(entry | judged, all_items=long), Page(browser)
        page.come_in(s.link("r1"))
        assert browser.execute_script("const e = document.documentElement; return e.scrollWidth - e.clientWidth") == 0
        tapped = page.boxes("main .choice, main button, main .button, main input[type=range], .top a")
        assert tapped and not [b for b in tapped if b["height"] < 44], (kind, tapped)
        s.stop()


def test_the_dashboard_says_how_many_more_ratings_and_whom_to_ask(serve, browser):
    """Ten questions of 400 words by five raters: r1 clicks through them here, r2 misses a check, r3 says yes to all.

    What the page shows is compared with the library's own numbers of the exported ratings.
    """
    check = {"question_id": "c", "question": "Say yes here.", "expected": {"relevant": "yes", "clear": "yes"}}
    long = [i.model_copy(update={"question": "word " * 400}) for i in items(10)]
    raters = [f"r{k}" for k in range(1, 6)]
    s = serve(ENTRIES["yes_no"] | {"checks": [check]}, raters, all_items=long)
    draws, page = np.random.default_rng(2), Page(browser)
    said = draws.random((4, 10, 2)) < np.where(draws.random((10, 2)) < 0.5, 0.85, 0.15)
    with open_store(s.answers) as store:
        for r, q, t in np.ndindex(4, 11, 2):
            rater, question, target = raters[r + 1], f"q{q + 1}" if q < 10 else "c", ("relevant", "clear")[t]
            yes = (r != 0 if q == 10 else said[r, q, t]) or r == 1
            shown = present(s.study, next(x for x in s.study.questions if x.question_id == question), rater).text()
            verdict = RatedAnswer(label="yes" if yes else "no")
            change = Change(f"{rater}{question}{target}", rater, question, 0, target, verdict, shown, 1, None)
            store.save([change], [Visit(rater, question, 0, "v", 60_000)])
    page.come_in(s.link("r1"))
    for k in range(1, 12):
        page.ready(f"/q/{k}")
        for legend in ("Is it relevant?", "Is it clear?"):
            page.choose("form", legend, "Yes")
        page.saved()
        page.onward()
        page.until(lambda k=k: not browser.current_url.endswith(f"/q/{k}"))
    browser.get(s.link("boss"))
    assert browser.current_url.endswith("/dashboard")
    flags = dict(flag.text.split(": ") for flag in page.all("#flags li"))
    assert "10 of 10 pages faster than they can be read" in flags["r1"]
    assert "missed 1 of 1 attention checks" in flags["r2"] and "faster" not in flags["r2"]
    assert "one answer throughout" in flags["r3"]
    assert not {"r4", "r5"} & set(flags)
    assert browser.execute_script("const e = document.documentElement; return e.scrollWidth - e.clientWidth") == 0


AXE = """
const [options, done] = arguments;
const words = (v) => v.id + ": " + v.nodes[0].html;
axe.run(document, {resultTypes: ["violations"], ...options}).then((r) => done(r.violations.map(words)));
"""
SCHEMES = {"light": {}, "dark": {"runOnly": ["color-contrast"]}}  # nothing else depends on the colours


@pytest.mark.parametrize("kind", list(ENTRIES))
def test_axe_finds_nothing_on_any_page(serve, browser, axe, kind):
    found, page = {}, Page(browser)

    def look(name):
        browser.execute_script(axe)
        for scheme, options in SCHEMES.items():
            features = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}
            listed = [{"name": k, "value": v} for k, v in features.items()]
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": listed})
            if violations := browser.execute_async_script(AXE, options):
                found[name, scheme] = violations

    s = serve(ENTRIES[kind], n_items=1)
    if kind == "sliders":
        browser.get(s.link("r1"))
        look("consent")
    page.come_in(s.link("r1"))
    look("fresh")
    page.onward()
    page.ready("missing=1")
    look("something missing")
    answer(page, kind, "keyboard")
    page.saved()
    look("answered")
    if kind == "sliders":
        for at in ("review", "instructions", "pause", "thanks", "in/guess", "nowhere"):
            browser.get(f"{s.url}/{at}")
            look(at)
        browser.get(s.link("boss"))
        look("dashboard")
    assert found == {}
