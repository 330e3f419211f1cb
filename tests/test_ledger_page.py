"""The page of the ledger: what it says, that it needs nothing else, and that it is usable by everybody."""

import re
import time
from html.parser import HTMLParser

import pandas as pd
import pytest
from annotate.conftest import axe, chromium, no_script  # noqa: F401 (the browser of the annotation page)
from claiming import SECOND_PAPER
from conftest import ROOT
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from mhbench.ledger.claims import load_claims
from mhbench.ledger.page import ReleaseFiles, ledger_page
from mhbench.ledger.release import Blob, Inventory, Tree
from mhbench.ledger.verdicts import judge_claims
from mhbench.tools.ledger import all_verdicts_on_papers

ONE = """
paper: {name: First paper, url: "https://example.org/first"}
reasons: {in_words: Who <of people> took part is said in words., near: Another table lies beside it.}
conventions:
  cut: {says: Digits are cut off & not rounded., source: "section 2 & 3"}
  unused: {says: Nobody needs this one., source: nowhere}
  random: {says: Draws differ., source: the script}
notes:
  plain: {says: The rows sum to 617., doubt: Which of the two is right., notebook: nbs/ledger/01_claims.ipynb}
  found: {title: The order is another, discovery: true, says: Applied backwards., doubt: None known., notebook: x.ipynb}
  cutting: {says: All numbers of the table are cut.}
claims:
- {place: Table 1, of: items, id: sum, printed: "616", ours: &a {table: t, where: {of: sum}, value: v}, note: plain}
- {place: Table 1, of: items, id: other, printed: "9", ours: {call: sum, of: [*a, -609]}, note: found}
- place: Table 2
  of: mean
  columns: [alpha, beta]
  rows: {r: ["0.66", "0.50"]}
  blocks:
  - columns: [alpha]
    ours: &b {table: t, where: {of: mean}, value: v}
    conventions: {cut: {table: t, where: {of: mean}, value: v, rounding: down}}
    note: cutting
  - {columns: [beta], ours: {table: t, where: {of: half}, value: v}}
- {place: Section 4, of: kappa, printed: "0.44", cannot: in_words}
- place: Section 5
  of: a cell
  printed: "1"
  needs: ["away/*.csv"]
  beside: near
  ours: {table: score/x, where: {a: 1}, value: v}
- {place: Section 6, of: a cell, printed: "0.52", ours: {table: t, where: {of: half}, value: v}, random: 0.01}
"""
VALUES = pd.DataFrame({"of": ["sum", "mean", "half"], "v": [617, 2 / 3, 0.5]})
TREE = Tree("authors/example", "0" * 40, {"away/one.csv": Blob("a" * 40, 1)})


@pytest.fixture(scope="module")
def papers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("claims")
    out = []
    for name, text in (("one", ONE), ("two", SECOND_PAPER)):
        (folder / f"{name}.yaml").write_text(text)
        out.append(load_claims(folder / f"{name}.yaml"))
    return out


@pytest.fixture(scope="module")
def text(papers):
    verdicts = pd.concat([judge_claims(p, {"t": VALUES}.get, Inventory(TREE)) for p in papers])
    files = [ReleaseFiles("First paper", "https://example.org/r", "abc1234", {"a.csv": "0" * 64})]
    return ledger_page(verdicts, papers, files)


class Page(HTMLParser):
    "Ids, links and what would be loaded."

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.loaded = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.ids += [given["id"]] if "id" in given else []
        self.links += [given["href"]] if tag == "a" and "href" in given else []
        self.loaded += [given[a] for a in ("src", "srcset", "data") if a in given]
        self.loaded += [given["href"]] if tag == "link" else []


def section(text: str, name: str) -> str:
    return re.search(rf'<section id="{name}".*?</section>', text, re.DOTALL)[0]


# ---------------------------------------------------------------- what it says


def test_the_page_needs_nothing_else_and_every_link_in_it_leads_somewhere(text):
    page = Page(text)
    assert page.loaded == [] and "@import" not in text and "url(" not in text
    assert len(page.ids) == len(set(page.ids))
    assert {href[1:] for href in page.links if href.startswith("#")} <= set(page.ids)
    elsewhere = {h for h in page.links if not h.startswith(("#", "data:"))}
    assert elsewhere == {"https://example.org/first", "https://example.org/r", "../nbs/ledger/01_claims.ipynb"}
    assert "<of people>" not in text and "&lt;of people&gt;" in text


def test_counts_are_by_what_a_value_is_made_of_and_never_added_up(text):
    plain = " ".join(re.sub(r"<[^>]+>", " ", section(text, "summary")).split())
    assert "2 papers print 9 numbers" in plain and "never added up" in plain
    first = re.search(r"First paper(.*?)Second paper(.*)", plain)
    assert "5 : 1 equal as printed , 1 equal under a convention , 1 not decided , 2 differs none none 2 : " in first[1]
    assert "1 in words" in first[1] and "1 not fetched" in first[1]
    assert "none none 1 : 1 differs 1 : 1 nowhere 2" in first[2] and " all " not in plain.split("Second paper")[1]


def test_discoveries_come_first_and_every_note_is_told_once(text):
    found, differences = section(text, "discoveries"), section(text, "differences")
    assert "The order is another" in found and text.count("Applied backwards.") == 1
    assert text.index("Applied backwards.") < text.index("The rows sum to 617.")
    assert "What remains open.</strong> Which of the two is right." in differences
    assert 'href="../nbs/ledger/01_claims.ipynb"' in differences
    assert "We have no explanation for it." in differences, "of the second paper's number nobody knows why"


def test_conventions_say_how_often_they_were_tried_and_what_is_equal_under_them(text):
    said = section(text, "conventions")
    assert "3 conventions are declared" in said and "2 attempts on 2 numbers made 1 of them equal" in said
    assert "Digits are cut off &amp; not rounded." in said and "All numbers of the table are cut." in said
    assert (
        "1 number names it; 1 is accepted under it." in said and "0 numbers name it; 0 are accepted under it." in said
    )
    assert "Source: section 2 &amp; 3" in said and "1 cannot be told apart from wrong ones" in said
    price = section(text, "tolerances")
    assert "Section 6: a cell" in price and ">no</td>" in price


def test_reasons_searches_and_files_are_named(text):
    reasons = section(text, "reasons")
    assert "<strong>1</strong>: Who &lt;of people&gt; took part is said in words." in reasons
    assert "in the release, not fetched here" in reasons and "Another table lies beside it." in reasons
    assert "away/one.csv (blob aaaaaaaaaa)" in reasons and "No address is given." in reasons
    assert "says nothing about its authors" in reasons and "not released" not in text
    files = section(text, "files")
    assert "abc1234" in files and "0" * 64 in files and "a.csv" in files


def test_values_have_two_more_digits_than_printed_and_counts_none(text):
    rows = re.findall(r'<tr id="k-.*?</tr>', text)
    cells = [[re.sub("<[^>]+>", "", c) for c in re.findall(r"<td.*?</td>", row)] for row in rows]
    assert [[*c[3:6], c[6].partition(" (")[0]] for c in cells] == [
        ["616", "617", "+1", "differs"],
        ["9", "8", "\N{MINUS SIGN}1", "differs"],
        ["0.66", "0.6667", "", "equal under a convention"],
        ["0.50", "0.5000", "", "equal as printed"],
        ["0.44", "", "", "no value here"],
        ["1", "", "", "no value here"],
        ["0.52", "0.5000", "", "not decided"],
        ["2", "", "", "no value here"],
        ["2", "1", "\N{MINUS SIGN}1", "differs"],
    ]


# ---------------------------------------------------------------- in a browser


@pytest.fixture
def opened(chromium, text, tmp_path):  # noqa: F811
    def at(where="", width=1200, scheme="light"):
        (tmp_path / "ledger.html").write_text(text, encoding="utf-8")
        size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
        chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        media = [
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
        chromium.get("about:blank")
        chromium.get_log("browser")
        chromium.get((tmp_path / "ledger.html").as_uri() + where)
        assert chromium.get_log("browser") == []
        return chromium

    return at


def shown(browser) -> list[str]:
    "What is printed in the rows that are shown."
    rows = "[...document.querySelectorAll('#numbers tbody tr')]"
    return browser.execute_script(f"return {rows}.filter(r => r.offsetHeight).map(r => r.cells[3].textContent)")


def test_filters_and_search_leave_the_rows_that_fit(opened):
    browser = opened()
    assert len(shown(browser)) == 9
    choose = "const f = document.getElementById('filters'); f.elements[arguments[0]].value = arguments[1];"
    choose += "f.dispatchEvent(new Event('input', {bubbles: true}))"
    browser.execute_script(choose, "verdict", "differs")
    assert shown(browser) == ["616", "9", "2"]
    assert browser.find_element(By.ID, "shown").text == "3 of 9 numbers."
    browser.execute_script(choose, "paper", "First paper")
    places = "return [...document.querySelector('[name=place]').options].map(o => o.value)"
    assert browser.execute_script(places) == ["", "Table 1", "Table 2", "Section 4", "Section 5", "Section 6"]
    browser.execute_script(choose, "words", "ITEMS 617")
    assert shown(browser) == ["616"]
    assert browser.execute_script("return location.hash") == "#claims?paper=First+paper&verdict=differs&words=ITEMS+617"
    browser.find_element(By.CSS_SELECTOR, "#filters [type=reset]").click()
    until = time.monotonic() + 10
    while len(shown(browser)) < 9:
        assert time.monotonic() < until


def test_an_address_and_a_count_choose_the_filters(opened):
    assert shown(opened("#claims?paper=Second+paper")) == ["2", "2"]
    browser = opened()
    browser.find_element(By.CSS_SELECTOR, "a[data-paper='First paper'][data-kind=data][data-verdict=undecided]").click()
    assert shown(browser) == ["0.52"]
    browser = opened("#claims?verdict=equal")
    browser.execute_script("location.hash = '#k-1-1'")  # a row that was filtered away
    until = time.monotonic() + 10
    while "616" not in shown(browser):
        assert time.monotonic() < until


def test_the_keyboard_reaches_every_filter(opened):
    browser = opened()
    browser.find_element(By.CSS_SELECTOR, "[name=paper]").send_keys(Keys.TAB)
    names = []
    for _ in range(5):
        names.append(browser.switch_to.active_element.get_attribute("name") or browser.switch_to.active_element.text)
        browser.switch_to.active_element.send_keys(Keys.TAB)
    assert names == ["place", "kind", "verdict", "words", "Show all"]
    assert browser.switch_to.active_element.get_attribute("aria-label") == "Every printed number with its verdict"


def test_without_javascript_the_page_is_its_tables(no_script, text, tmp_path):  # noqa: F811
    (tmp_path / "ledger.html").write_text(text, encoding="utf-8")
    no_script.get((tmp_path / "ledger.html").as_uri())
    assert len([r for r in no_script.find_elements(By.CSS_SELECTOR, "#numbers tbody tr") if r.is_displayed()]) == 9
    assert not no_script.find_element(By.ID, "filters").is_displayed()


def test_a_phone_shows_every_column_without_scrolling_sideways(opened):
    browser = opened(width=390)
    wide = "[...document.querySelectorAll('.wide')].map(e => e.scrollWidth - e.clientWidth)"
    total, *tables = browser.execute_script(f"return [document.documentElement.scrollWidth, ...{wide}]")
    assert total <= 390 and set(tables) == {0}
    head = "return document.querySelector('#numbers td:nth-child(4)').dataset.label"
    assert browser.execute_script(head) == "Printed"


@pytest.mark.parametrize("width", [850, 1200, 1440])
def test_what_a_number_is_of_can_be_read_beside_it(opened, width):
    cells = "return [...document.querySelectorAll('#numbers tbody tr:first-child td')].map(c => c.offsetWidth)"
    assert min(opened(width=width).execute_script(cells)) > 60, "no column is a letter wide"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 390])
def test_axe_finds_nothing(opened, axe, width, scheme):  # noqa: F811
    browser = opened(width=width, scheme=scheme)
    browser.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
    browser.set_script_timeout(90)
    browser.execute_script(axe)
    found = browser.execute_async_script("const done = arguments[0]; axe.run().then(r => done(r.violations))")
    assert [(v["id"], v["nodes"][0]["html"][:200]) for v in found] == []


# ---------------------------------------------------------------- the five papers


@pytest.fixture(scope="module")
def ledger():
    verdicts, files, _ = all_verdicts_on_papers(ROOT)
    return verdicts, files


def test_every_difference_of_the_papers_has_its_evidence_and_its_doubt(ledger):
    verdicts, files = ledger
    bare = verdicts[(verdicts["verdict"] == "differs") & (verdicts["note"] == "")]
    assert not len(bare), bare[["paper", "claim"]].to_string()
    for file in files:
        differ = verdicts[(verdicts["paper"] == file.name) & (verdicts["verdict"] == "differs")]
        for code in differ["note"].unique():
            note = file.file.notes[code]
            assert note.doubt and len(note.says) > 60, f"{file.name}: {code}"


def test_notes_name_notebooks_that_are_there(ledger):
    for file in ledger[1]:
        named = {note.notebook for note in file.file.notes.values() if note.notebook.startswith("nbs/")}
        assert not [n for n in named if not (ROOT / n).exists()], file.name


def test_the_page_of_the_papers_has_every_claim(ledger):
    verdicts, files = ledger
    page = Page(ledger_page(verdicts, files))
    assert sum(i.startswith("k-") for i in page.ids) == len(verdicts) > 2000
    assert len(page.ids) == len(set(page.ids))
    assert {href[1:] for href in page.links if href.startswith("#")} <= set(page.ids)
