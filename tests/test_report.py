"""The page of the report: in a real Chromium, with fifty thousand answers, without JavaScript, on a phone."""

import base64
import io
import json
import re
import time

import numpy as np
import pandas as pd
import pytest
from annotate.conftest import axe, chromium, no_script  # noqa: F401 (the browser of the annotation page)
from conftest import ROOT

from mhbench.records.schema import Item, Response, write_records
from mhbench.report.findings import Front, _request_failures
from mhbench.report.items import ROW_COLUMNS, Answers, answers_of
from mhbench.report.page import ROWS_SHOWN, ReportTable, Section, _reference_lines, _shrink_svg, html_report
from mhbench.report.tables import QUESTIONS, Prose, csv_text, doubts, in_a_sentence, without
from mhbench.stats.differences import mean_difference
from mhbench.stats.tests import sign_flip_test

N = 12_500


@pytest.fixture(scope="module")
def answers():
    "Two models, two ways of asking, 12,500 items in cases of two, from a seed."
    rng = np.random.default_rng(1)
    item = np.tile(np.arange(N), 4)
    right = (rng.random(4 * N) < np.repeat([0.6, 0.55, 0.5, 0.45], N)).astype(float)
    rows = pd.DataFrame({c: None for c in ROW_COLUMNS}, index=range(4 * N))
    rows = rows.assign(
        study="made-up",
        item_id=[f"q{k}" for k in item],
        cluster=[f"c{k // 2}" for k in item],
        category=np.where(item % 3 == 0, "triage", "diagnosis"),
        task="multiple_choice",
        model=np.repeat(["alpha", "beta", "alpha", "beta"], N),
        mode=np.repeat(["zero_shot", "zero_shot", "cot", "cot"], N),
        sample=0,
        correct=right,
        what=np.where(right == 1, "right", "wrong"),
        answer="A",
        key=np.where(right == 1, "A", "B"),
    )
    items = {"made-up/q7": {"question": "What comes first, <b>here</b>?", "options": ["This", "That"], "key": ["A"]}}
    return Answers(rows, items, {"7": {"text": "This one."}})


@pytest.fixture(scope="module")
def page(answers, tmp_path_factory):
    table = pd.DataFrame({"model": ["alpha", "beta"], "mode": "cot", "estimate": [0.5, 0.45], "n": [N, 3]})
    table = table.assign(ci_low=[0.49, np.nan], ci_high=[0.51, np.nan], level=0.95)
    sections = [Section("made-up: score", "How often.", [ReportTable("Accuracy", table, study="made-up")])]
    file = tmp_path_factory.mktemp("report") / "report.html"
    text = html_report("A report", ["What was asked."], sections, wrong=["2 of 9 were not read."], answers=answers)
    file.write_text(text, encoding="utf-8")
    assert file.stat().st_size < 2_000_000, "fifty thousand answers are packed"
    return file.as_uri()


@pytest.fixture
def opened(chromium, page):  # noqa: F811
    def at(where="", width=1200):
        size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
        chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        chromium.get("about:blank")
        chromium.get(page + where)
        until = time.monotonic() + 30
        while chromium.execute_script("return document.documentElement.dataset.ready") != "1":
            assert time.monotonic() < until, chromium.get_log("browser")
            time.sleep(0.02)
        return chromium

    return at


def text(browser, css):
    return browser.execute_script("return document.querySelector(arguments[0])?.innerText", css)


def test_fifty_thousand_answers_are_a_short_list_of_nodes(opened):
    browser = opened("#items")
    assert text(browser, "#list [role=status]").startswith("50000 answers")
    assert browser.execute_script("return document.querySelectorAll('#explorer *').length") < 800
    filtered = "mhbench.explorer.set({model: 'beta', what: 'wrong'})"
    took = browser.execute_script(f"const t = performance.now(); {filtered}; return performance.now() - t")
    assert took < 2000
    browser.execute_script("document.querySelector('.list').scrollTop = 400000")
    time.sleep(0.3)
    assert browser.execute_script("return document.querySelectorAll('.all .line').length") < 60
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert browser.get_log("browser") == []


def test_two_models_are_compared_as_the_package_compares_them(opened, answers):
    browser = opened("#items?model=alpha&beside=beta&mode=cot&category=triage&differ=1")
    told = browser.execute_script("return {...document.querySelector('.paired').dataset}")
    rows = answers.rows[(answers.rows["mode"] == "cot") & (answers.rows["category"] == "triage")]
    a, b = (rows[rows["model"] == m].set_index("item_id")["correct"] for m in ("alpha", "beta"))
    assert (int(told["first"]), int(told["second"])) == (((a == 1) & (b == 0)).sum(), ((a == 0) & (b == 1)).sum())
    cases = rows[rows["model"] == "alpha"]["cluster"].to_numpy()
    assert float(told["p"]) == pytest.approx(sign_flip_test(a.to_numpy() - b.to_numpy(), cases, seed=1), rel=1e-6)
    ours = mean_difference(a.to_numpy() - b.to_numpy(), cases, largest=1)
    assert float(told["mean"]) == pytest.approx(ours.estimate, abs=1e-9)
    assert float(told["low"]) == pytest.approx(ours.ci_low, abs=1e-6)
    assert float(told["high"]) == pytest.approx(ours.ci_high, abs=1e-6)
    assert text(browser, "#list [role=status]").startswith(f"{(a != b).sum()} questions")


def test_the_page_s_intervals_are_the_package_s_from_few_cases_and_many(opened):
    browser, rng = opened("#items"), np.random.default_rng(1)
    for k in range(30):
        n = int(rng.integers(3, 120))
        cases = rng.integers(0, rng.integers(2, 30), n) if k % 3 else np.arange(n)
        d = rng.choice([-1.0, 0, 1], n, p=rng.dirichlet([1, 4, 1])) / (1 if k % 5 else 2)
        both = "const [d, c] = arguments; return {...mhbench.pairedDifference(d, c), p: mhbench.flipped(d, c)}"
        told = browser.execute_script(both, d.tolist(), cases.tolist())
        ours = mean_difference(d, cases, largest=1)
        assert told["mean"] == pytest.approx(ours.estimate, abs=1e-9)
        for end, limit in (("low", ours.ci_low), ("high", ours.ci_high)):
            assert (told[end] is None) == np.isnan(limit) and (told[end] is None or abs(told[end] - limit) < 1e-5)
        if told["p"] is not None:
            assert told["p"] == pytest.approx(sign_flip_test(d, cases, seed=1), rel=1e-6)
    assert np.isnan(mean_difference(d[:5], np.arange(5), largest=1).ci_low)  # few: neither shows one
    assert browser.execute_script("return mhbench.pairedDifference([1, 0, 1, 0, 0], [0, 1, 2, 3, 4]).low") is None


def test_a_number_leads_to_its_answers_and_an_answer_has_a_link(opened):
    browser = opened()
    browser.execute_script("document.querySelector('a.down').click()")
    time.sleep(0.3)
    assert text(browser, "#list [role=status]") == f"{N} answers of 50000"
    browser = opened("#row=made-up/q7/alpha/zero_shot/0")
    until = time.monotonic() + 20
    while not text(browser, ".one"):
        assert time.monotonic() < until
        time.sleep(0.02)
    one = text(browser, ".one")
    assert "What comes first, <b>here</b>?" in one and "This one." in one and "Other answers to this question" in one


def test_tables_are_sorted_by_their_numbers(opened):
    browser = opened()
    first = "return [...document.querySelectorAll('#s1t1 tbody tr')].map(r => r.cells[0].innerText)"
    button = "document.querySelectorAll('#s1t1 th button')[2].click()"
    browser.execute_script(button)
    assert browser.execute_script(first) == ["beta", "alpha"]
    browser.execute_script(button)
    assert browser.execute_script(first) == ["alpha", "beta"]
    assert text(browser, "#s1t1 .doubt").startswith("Caution. 1 of 2 rows rest on fewer than 10")


@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (360, "dark")])
def test_axe_finds_nothing(opened, axe, width, scheme):  # noqa: F811
    browser = opened("#row=made-up/q7/alpha/zero_shot/0", width)
    media = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
    time.sleep(0.3)
    browser.set_script_timeout(90)
    browser.execute_script(axe)
    found = browser.execute_async_script("const done = arguments[0]; axe.run().then(r => done(r.violations))")
    assert [(v["id"], v["nodes"][0]["html"][:200]) for v in found] == []
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [1200, 360])
def test_no_word_of_a_table_is_broken(opened, width):
    browser = opened(width=width)
    cell = "const r = document.createRange(); r.selectNodeContents(document.querySelector('#s1t1 tbody td'));"
    lines = browser.execute_script(f"{cell} return new Set([...r.getClientRects()].map(x => x.top)).size")
    assert lines == 1  # one column as wide as a letter would have five
    reach = "document.querySelectorAll('#s1t1 tbody td')[2].getBoundingClientRect().right"
    assert browser.execute_script(f"return {reach}") <= width  # the estimate is on the first screen of a phone


def test_on_paper_it_is_a_document(opened):
    pypdf = pytest.importorskip("pypdf", reason="pypdf is not installed: pip install pypdf")
    browser = opened()
    printed = browser.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})["data"]
    pages = pypdf.PdfReader(io.BytesIO(base64.b64decode(printed))).pages
    said = " ".join(" ".join(p.extract_text() for p in pages).split())
    for words in ("What was asked.", "2 of 9 were not read.", "0.500 [0.490, 0.510]", "Caution.", "alpha"):
        assert words in said, words
    assert "What the words mean" in said and "Show all" not in said and "Light or dark" not in said
    assert len(pages) <= 6  # the list of 50,000 answers is not printed
    width, height = pages[0].mediabox[2:]
    assert width > height


def test_without_javascript_it_is_a_document(no_script, page):  # noqa: F811
    no_script.get(page)
    said = no_script.find_element("css selector", "main").text
    assert "What was asked." in said and "2 of 9 were not read." in said and "0.500 [0.490, 0.510]" in said
    assert "first 200 of 50000 answers" in said and "q7" in said
    assert "made-up-score-accuracy.csv" in said  # where the file is, whose button needs JavaScript


def test_texts_of_a_protected_item_are_only_on_the_private_page(tmp_path):
    secret, words = "A wording that nobody may copy", "An answer that repeats the wording"
    item = {"item_id": "q1", "study": "s", "task": "multiple_choice", "question": secret, "key": ["A"], "source": "x"}
    write_records(
        [Item(**item, options=["Yes", "No"], protected=True)], tmp_path / "text/s/prepare/items.parquet", Item
    )
    answer = Response(item_id="q1", study="s", model="m", mode="zero_shot", text=words)
    write_records([answer], tmp_path / "text/s/generate/m/responses.parquet", Response)
    scored = {"item_id": "q1", "cluster": "q1", "category": "c", "topic": None, "set": None, "task": "multiple_choice"}
    scored |= {"model": "m", "mode": "zero_shot", "answered_by": "plain", "n_votes": 1, "sample": 0, "status": "ok"}
    scored |= {"correct": 1.0, "read": True, "answer": ["A"], "key": ["A"], "confidence": 0.9}
    (tmp_path / "studies" / "s" / "score").mkdir(parents=True)
    pd.DataFrame([scored]).to_parquet(tmp_path / "studies" / "s" / "score" / "scores.parquet")
    for private in (False, True):
        got = answers_of(tmp_path, ["s"], ["m"], private=["s"] * private)
        held = json.dumps([got.items, got.texts]) + got.rows.to_json()
        assert (secret in held and words in held) == private
        text = html_report("r", [], [], answers=got, private=private)
        assert ("Private." in text) == private


def test_a_figure_on_the_page_has_its_words_and_its_places():
    svg = (
        '<svg viewBox="0 0 9 9">\n <metadata>told\n twice</metadata>\n'
        ' <g id="a">\n  <path d="M 1.234567 2.5 \nL 3 4.999"/>\n'
        ' <use x="7.123456" y="8" transform="scale(0.015625)"/><text>n = 1.2345, <tspan>a  b</tspan></text></g></svg>'
    )
    assert _shrink_svg(svg) == (
        '<svg viewBox="0 0 9 9"><g><path d="M1.23 2.5L3 4.99"/>'
        '<use x="7.12" y="8" transform="scale(0.015625)"/><text>n = 1.2345, <tspan>a  b</tspan></text></g></svg>'
    )


def test_no_link_of_a_page_leads_beside_it():
    "A page is mailed: the notebook that computed a table is named, and no link leads to it."
    table = ReportTable("Accuracy", pd.DataFrame({"model": ["m"]}), Prose("A heading", "What it says."))
    text = html_report("r", [], [Section("s: score", tables=[table], stage="score", study="s")])
    assert "results/studies/s/score/notebook.ipynb</code>, section “A heading”" in text
    assert not [a for a in re.findall(r'href="([^"]*)"', text) if not a.startswith("#")]


def test_long_tables_do_not_make_a_long_page(chromium, tmp_path):  # noqa: F811
    "Eight tables of 150 rows, as a study of sixteen models has them: they are scrolled, and printed in full."
    everybody = ", ".join(f"m{k}" for k in range(16))  # what all rows share is said once
    long = pd.DataFrame({"model": [f"m{k}" for k in range(150)], "estimate": 0.5, "averaged": everybody})
    sections = [Section(f"study: stage {k}", "How often.", [ReportTable("Accuracy", long)]) for k in range(8)]
    file = tmp_path / "report.html"
    file.write_text(html_report("A report", ["What was asked."], sections), encoding="utf-8")
    chromium.get(file.as_uri())
    assert chromium.execute_script("return document.documentElement.scrollHeight") < 8_000
    assert len(chromium.execute_script("return document.querySelectorAll('.tall tbody tr')")) == 8 * 150
    assert chromium.execute_script("return document.body.innerText").count(f"averaged: {everybody}.") == 8


LINES = {"chance 1/4": 0.25, "pass mark": 0.63, "expert": 0.9}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    "A run of five studies: what stands on the first screen, and twenty-five tables behind it."
    names = ["gemma-with-a-long-name", "minilm", "o1", "sim-gap", "sim-sure"]
    origin = ["asked", "asked", "recorded", "simulated", "simulated"]
    rows = pd.DataFrame({"model": names, "origin": origin, "n": 330, "estimate": [0.2, 0.3, 0.75, 0.95, 0.5]})
    rows = rows.assign(
        ci_low=rows["estimate"] - 0.04, ci_high=rows["estimate"] + 0.04, truth=[None, None, None, 0.95, 0.4]
    )
    table = rows.assign(level=0.95, wide="w" * 60, mode="zero_shot")
    stages = {"score": "accuracy", "demographics": "table", "judge": "means", "of_my_own": "mine", "finetune": "truth"}
    sections = [
        Section(
            f"s{k}: {stage}",
            "How often.",
            [ReportTable(f"Of {stage}", table, study=f"s{k}", name=name)],
            (),
            (),
            stage,
            f"s{k}",
        )
        for k in range(5)
        for stage, name in stages.items()
    ]
    said = "o1 is the most accurate of 3 models, 0.75 [0.71, 0.79]: above chance 1/4 and pass mark; below expert."
    shown = [
        Front(f"s{k}", "accuracy, zero shot", said, rows, LINES, notes=("Stopped early.",) * (k == 1)) for k in range(5)
    ]
    cautions = {"What is simulated?": "All questions.", "What went wrong?": "Two of nine."}
    file = tmp_path_factory.mktemp("run") / "report.html"
    more = {"cautions": cautions, "wrong": ["s1: two of nine."]}
    file.write_text(html_report("A report", [], sections, shown=shown, **more), encoding="utf-8")
    return file.as_uri(), table


@pytest.fixture
def screen(chromium, run):  # noqa: F811
    def at(width, height, where=""):
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        chromium.get("about:blank")
        chromium.get(run[0] + where)
        return chromium

    return at


# what of the page can be seen without scrolling
SEEN = """
const within = (b) => b.height && b.top < innerHeight;
const seen = (e) => e.checkVisibility() && within(e.getBoundingClientRect());
return [...document.querySelectorAll(arguments[0])].filter(seen).map((e) => e.innerText.trim());
"""


def test_what_failed_keeps_its_heads_where_columns_are_rows():
    "A phone shows no head of the table: each cell has its own; and a banner is no markdown."
    page = (ROOT / "reports" / "report.html").read_text(encoding="utf-8")
    tables = re.findall(r'(?s)<table class="lost">.*?</table>', page)
    assert tables and ".lost td::before { content: attr(data-label)" in page
    for table in tables:
        heads = re.findall(r'<th scope="col">(.*?)</th>', table)[1:]
        labels = re.findall(r'<td data-label="(.*?)">', table)
        assert heads and labels == heads * (len(labels) // len(heads)) and len(labels) == table.count("<td")
    assert not any("`" in banner for banner in re.findall(r'(?s)<p class="doubt">(.*?)</p>', page))


@pytest.mark.parametrize(("width", "height", "studies"), [(1400, 900, 5), (390, 844, 4)])
def test_the_first_screen_is_a_sentence_and_a_figure_a_study_and_nothing_else(screen, width, height, studies):
    browser = screen(width, height)
    said = browser.execute_script(SEEN, ".front .said")
    assert len(said) >= studies and all("most accurate" in x for x in said)
    assert len(browser.execute_script(SEEN, ".plot .bar")) >= 3 * studies
    assert {"chance 1/4", "pass mark 0.63", "expert 0.90"} <= set(browser.execute_script(SEEN, ".plot .mark"))
    assert browser.execute_script(SEEN, "h2, .question, .entry, .group p, #contents") in ([], ["What came out"])
    assert any("All questions." in x for x in browser.execute_script(SEEN, ".read p"))
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width


def test_the_lines_and_intervals_of_a_figure_stand_where_their_numbers_are(screen):
    browser = screen(1400, 900)
    places = """
    const row = document.querySelector(".plot").tBodies[0].rows[0];  // the best of those asked
    const box = row.querySelector(".track div").getBoundingClientRect();
    const at = (e, end) => (e.getBoundingClientRect()[end] - box.left) / box.width;
    const dot = row.querySelector(".dot").getBoundingClientRect();
    return [...row.querySelectorAll(".ref")].map((e) => at(e, "left"))
      .concat(at(row.querySelector(".bar"), "left"), at(row.querySelector(".bar"), "right"))
      .concat(((dot.left + dot.right) / 2 - box.left) / box.width);
    """
    assert browser.execute_script(places) == pytest.approx([0.25, 0.63, 0.9, 0.71, 0.79, 0.75], abs=0.01)
    each = "[...document.querySelector('.plot').querySelectorAll('.mark')]"
    marks = f"return {each}.map((e) => e.getBoundingClientRect().toJSON())"
    for width in (1400, 390):
        boxes = screen(width, 900).execute_script(marks)
        pairs = [(a, b) for k, a in enumerate(boxes) for b in boxes[k + 1 :]]
        beside = [(a, b) for a, b in pairs if a["top"] < b["bottom"] - 3 and b["top"] < a["bottom"] - 3]
        assert not [(a, b) for a, b in beside if a["left"] < b["right"] and b["left"] < a["right"]]


def test_tables_stand_by_study_and_question_folded_behind_their_sentence(screen):
    browser = screen(1400, 900)
    heads = browser.execute_script(
        "return [...document.querySelectorAll('#g1 .question h3')].map((e) => e.textContent)"
    )
    known = [q for q in QUESTIONS if q in heads]
    assert heads == [*known, "Of my own"] and known[0] == "How accurate are the models?"
    assert not browser.execute_script("return document.querySelectorAll('.question[open], .entry[open]').length")
    browser = screen(1400, 900, "#s2t1")
    opened = browser.execute_script("return [...document.querySelectorAll('details[open]')].map((e) => e.className)")
    assert opened == ["question", "entry"]


def test_a_search_finds_tables_by_their_words_and_opens_them(screen):
    browser = screen(390, 844)
    find = browser.find_element("css selector", "#find")
    find.send_keys("judge GEMMA-with")
    links = browser.find_elements("css selector", "#found a")
    assert [a.text for a in links] == ["Of judge"] * 5 and text(browser, "#found [role=status]") == "5 places"
    find.send_keys("\n")  # the first result has the focus
    assert browser.execute_script("return document.activeElement.textContent") == "Of judge"
    browser.switch_to.active_element.send_keys("\n")
    at = browser.execute_script(
        "const e = document.activeElement; return [e.tagName, e.parentElement.id, e.parentElement.open]"
    )
    assert at == ["SUMMARY", "s3t1", True]
    for words, n in (("nothing like that", "0 places"), ("kappa", "2 places")):
        find.clear()
        find.send_keys(words)
        assert text(browser, "#found [role=status]") == n
    find.send_keys("\ue00c")
    assert not browser.find_element("css selector", "#found").is_displayed()


def test_a_table_is_saved_as_csv_with_every_digit(screen, run):
    browser = screen(1400, 900, "#s1t1")
    browser.execute_script(
        "URL.createObjectURL = (blob) => { blob.text().then((t) => { window.saved = t; }); return '#'; };"
    )
    browser.execute_script("document.querySelector('#s1t1 .csv').click()")
    until = time.monotonic() + 20
    while not (saved := browser.execute_script("return window.saved")):
        assert time.monotonic() < until
        time.sleep(0.02)
    assert saved == csv_text(run[1])


@pytest.mark.parametrize(("width", "scheme"), [(1400, "light"), (390, "dark")])
def test_axe_finds_nothing_on_the_first_screen_or_behind_it(screen, axe, width, scheme):  # noqa: F811
    browser = screen(width, 844, "#s2t1")
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    browser.find_element("css selector", "#find").send_keys("judge")
    browser.set_script_timeout(90)
    browser.execute_script(axe)
    found = browser.execute_async_script("const done = arguments[0]; axe.run().then(r => done(r.violations))")
    assert [(v["id"], v["nodes"][0]["html"][:200]) for v in found] == []
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width


def test_printed_every_table_is_open_and_none_is_cut(screen):
    browser = screen(1032, 700)  # A4, landscape, within its margins
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": []})
    browser.execute_script("dispatchEvent(new Event('beforeprint'))")
    shut = "return [...document.querySelectorAll('main details')].filter((e) => !e.open).length"
    wide = "return [...document.querySelectorAll('table')].filter((e) => e.getBoundingClientRect().right > 1033).length"
    rows = "return [...document.querySelectorAll('.plot tbody tr')].filter((e) => e.checkVisibility()).length"
    told = [browser.execute_script(x) for x in (shut, wide, rows)]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
    assert told == [0, 0, 25]


def test_an_adjusted_p_value_of_a_twentieth_shows_no_difference():
    table = pd.DataFrame({"p": [0.01, 0.01, 0.01], "p_adjusted": [0.05, 0.049, np.nan]})
    assert in_a_sentence(table).startswith("1 of 3 comparisons show a difference")


def test_why_a_row_has_no_interval_is_unknown_where_nothing_says_it():
    rows = pd.DataFrame({"estimate": [0.5] * 3, "ci_low": np.nan, "ci_high": np.nan, "interval": ["few", "t", None]})
    few, unknown = "there are too few independent cases to estimate one", "the reason is unknown"
    assert without(rows).tolist() == [few, unknown, unknown]
    assert without(rows.drop(columns="interval")).tolist() == [unknown] * 3
    assert doubts(rows) == [f"1 of 3 rows have no interval: {few}", f"2 of 3 rows have no interval: {unknown}"]


def test_the_name_of_a_line_turns_to_the_middle_near_the_ends():
    sides = [_reference_lines({"chance": x}, (0, 100))[0]["side"] for x in (27, 28, 72, 73)]
    assert sides == [" start", "", "", " end"]


def test_requests_that_failed_are_counted_by_model_in_the_order_of_the_table():
    counts = pd.DataFrame({"model": ["b", "a", "b", "c"], "failed": [1, 2, 3, 0], "n": [10, 10, 10, 10]})
    rows = {what: (k, n, who) for _, what, k, n, who in _request_failures(counts, "s")}
    assert (6, 40, "b 4, a 2") in rows.values() and len(rows) == 4
    assert list(rows.values()).count((0, 0, "")) == 3, "columns that are not there count nothing"


def test_a_count_that_is_0_in_the_shown_rows_alone_stays_a_column():
    frame = pd.DataFrame({"model": [f"m{k}" for k in range(ROWS_SHOWN + 5)], "n": 9, "n_failed": 0, "n_unread": 0})
    frame.loc[ROWS_SHOWN + 1, "n_failed"] = 4
    text = html_report("r", [], [Section("s: score", tables=[ReportTable("Counts", frame)])])
    assert "n unread: 0" in text and "n failed: 0" not in text
