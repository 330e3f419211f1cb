"""The site: built from what is there, no link leads nowhere, no other host is called, functions are found."""

import html
import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import yaml
from annotate.conftest import chromium  # noqa: F401 (the browser of the annotation page)
from conftest import ENV, ROOT

sys.path.insert(0, str(ROOT / "docs"))
import finder
import gallery

ELSEWHERE = r"""["']?(?:https?:)?//"""
CALLS = re.compile(
    rf"<(?:script|img|iframe|source|video)[^>]*\bsrc={ELSEWHERE}|<link[^>]*\bhref={ELSEWHERE}|url\({ELSEWHERE}"
)
PAPERS = {
    f.parent.name: yaml.safe_load(f.read_text(encoding="utf-8"))
    for f in sorted((ROOT / "mhbench" / "studies").glob("*/results.yaml"))
}
DOCS = sorted((ROOT / "docs").glob("*.md"))
STARTS = ("start-model", "start-raters", "start-paper")
SCREEN = 40 * 100  # characters: 40 lines of 100 columns


class Page(HTMLParser):
    "Where a page leads to, what can be pointed to on it, and how much is read before the first link of its article."

    def __init__(self, file: Path):
        super().__init__()
        self.links, self.ids, self.within, self.read, self.first = [], set(), 0, 0, None
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.ids |= {found[k] for k in ("id", "name") if found.get(k)}
        self.links += [found[k] for k in ("href", "src") if found.get(k)]
        self.within += tag == "article"
        onward = tag == "a" and "headerlink" not in (found.get("class") or "")
        if self.within and onward and self.first is None:
            self.first = self.read

    def handle_endtag(self, tag):
        self.within -= tag == "article"

    def handle_data(self, data):
        self.read += len(" ".join(data.split())) if self.within else 0


def dead(folder: Path, pages: dict[Path, Page]) -> list[str]:
    "Links of the pages of a folder that lead nowhere within it; a hash with a query is read by the page's script."
    out = []
    for file, page in pages.items():
        for link in page.links:
            to = urlsplit(link)
            if to.scheme or to.netloc:
                continue
            there = (file.parent / unquote(to.path)).resolve() if to.path else file
            if not there.is_file():
                out.append(f"{file.relative_to(folder)}: {link}")
            elif there in pages and to.fragment and "?" not in to.fragment:
                if unquote(to.fragment) not in pages[there].ids | {"top"}:
                    out.append(f"{file.relative_to(folder)}: {link}")
    return sorted(out)


def read_pages(folder: Path) -> dict[Path, Page]:
    return {f.resolve(): Page(f) for f in folder.rglob("*.html") if "_static" not in f.parts}


def test_a_dead_link_and_a_dead_anchor_are_seen(tmp_path):
    (tmp_path / "a.html").write_text('<a href="b.html#there">x</a><a href="b.html#gone">x</a><a href="#q?m=1">x</a>')
    (tmp_path / "b.html").write_text('<h1 id="there">x</h1><img src="none.png"><a href="https://example.org">x</a>')
    assert dead(tmp_path, read_pages(tmp_path)) == ["a.html: b.html#gone", "b.html: none.png"]


@pytest.fixture(scope="module")
def site():
    pytest.importorskip("myst_nb", reason="the extra `docs` is not installed")
    subprocess.run([sys.executable, "docs/build.py"], cwd=ROOT, check=True, capture_output=True, timeout=900, env=ENV)
    return ROOT / "_docs" / "html"


@pytest.fixture(scope="module")
def pages(site):
    return read_pages(site.resolve())


def test_no_link_of_the_site_leads_nowhere(site, pages):
    assert len(pages) > 300 and sum(len(p.links) for p in pages.values()) > 10_000
    assert dead(site.resolve(), pages) == []


def test_no_page_calls_another_host(site):
    pages = [*site.rglob("*.html"), *site.rglob("*.css")]
    found = {str(p.relative_to(site)): m[0] for p in pages if (m := CALLS.search(p.read_text(encoding="utf-8")))}
    assert found == {}


def test_within_three_screens_every_page_leads_on(site, pages):
    late = {
        str(file.relative_to(site.resolve())): page.first
        for file, page in pages.items()
        if page.ids >= {"pst-primary-sidebar"} and (page.first is None or page.first > 3 * SCREEN)
    }
    assert {k: v for k, v in late.items() if not k.startswith(("search", "genindex"))} == {}


@pytest.mark.parametrize("start", STARTS)
def test_a_start_page_is_one_screen_with_next_steps(start):
    "At 100 columns, a line of text for every hundred characters that are read."
    text = (ROOT / "docs" / f"{start}.md").read_text(encoding="utf-8")
    seen = re.sub(r"\]\([^)]*\)", "]", text).splitlines()
    assert sum(-(-len(line) // 100) for line in seen if line.strip()) <= 40
    before, _, after = text.partition("**Next**")
    assert len(re.findall(r"\]\(", before)) >= 3 and len(re.findall(r"\]\(", after)) >= 4
    assert f"]({start}.md)" in (ROOT / "docs" / "index.md").read_text(encoding="utf-8")


def test_every_page_of_docs_is_in_a_table_of_contents():
    listed = re.findall(r"(?s)```\{toctree\}\n(.*?)```", "\n".join(d.read_text(encoding="utf-8") for d in DOCS))
    names = set(re.findall(r"(?m)^(?:.*<)?([\w/-]+)>?$", "\n".join(listed)))
    assert {d.stem for d in DOCS} - {"index"} <= names


def test_the_gallery_is_the_second_page_and_has_the_replications_first(site):
    toctree = (ROOT / "docs" / "index.md").read_text(encoding="utf-8").partition("```{toctree}")[2]
    assert re.findall(r"(?m)^[^:`\n].*$", toctree)[0] == "Figures <gallery>"
    page = (site / "gallery.html").read_text(encoding="utf-8")
    real, _, demo = page.partition('id="from-the-demo-synthetic-questions"')
    found = gallery.pictures(ROOT / "reports")
    assert [p.real for p in found] == sorted((p.real for p in found), reverse=True)
    n_real = sum(p.real for p in found)
    assert real.count("real-") >= n_real > 2 and demo.count("demo-") >= len(found) - n_real > 10
    assert "synthetic" in real and "demo-" not in real.partition("<article")[2]
    for p in found:
        assert p.title and p.sentence and "{" not in p.title + p.sentence, p.notebook
        assert f"{p.notebook.relative_to(ROOT).with_suffix('')}.html" in page


def test_a_caption_is_read_from_its_cell():
    cell = 'caption = (f"A share{mark}; of {n} answers" "!")\ns.figure("x", drawing, caption, absent=why)'
    assert gallery.captions(cell) == [("x", "A share; of … answers!")]
    assert gallery.captions("%magic\n") == [] and gallery.captions("1 + 1") == []


def test_a_title_of_the_gallery_is_the_one_that_the_figure_bears(tmp_path):
    (tmp_path / "figures" / "mhqa" / "score").mkdir(parents=True)
    entries = [{"name": "accuracy", "title": "minilm is above chance (0.25)", "caption": "A share; of answers"}]
    (tmp_path / "figures" / "mhqa" / "score" / "figures.json").write_text(json.dumps(entries), encoding="utf-8")
    notebook = tmp_path / "reports" / "mhqa" / "score.ipynb"
    notebook.parent.mkdir(parents=True)
    shown = {"output_type": "display_data", "data": {"image/png": "QQ=="}}
    calls = ['s.figure("accuracy", drawing, "A share; of answers")', 's.figure("other", drawing, "A bar; of counts")']
    cells = [{"cell_type": "markdown", "source": ["# Score"]}]
    cells += [{"cell_type": "code", "source": [call], "outputs": [shown]} for call in calls]
    notebook.write_text(json.dumps({"cells": cells}), encoding="utf-8")
    found = gallery.pictures(tmp_path / "reports")
    assert [(p.title, p.sentence) for p in found] == [
        ("minilm is above chance (0.25)", "A share; of answers."),
        ("A bar", "Of counts."),
    ]


def test_every_figure_of_the_reports_has_its_title():
    "The one that the stage drew above it; of released files one may name an item, and keeps its caption."
    found, lost = gallery.pictures(ROOT / "reports"), []
    for file in sorted((ROOT / "reports").rglob("*.ipynb")):
        drawn = gallery.titles(file, ROOT / "reports")
        own = [p.title for p in found if p.notebook == file]
        bare = [title for title in own if title not in drawn.values()]
        few = 1 if "replication" in file.parts else 0
        lost += [f"{file.relative_to(ROOT)}: {title}" for title in bare] if len(bare) > few else []
    assert found
    assert lost == []


WANTED = {  # what somebody asks who does not know a name -> functions of which one is meant
    "agreement of raters": {"krippendorff_alpha", "cohen_kappa", "agreement_estimate"},
    "confidence interval for a share of cases": {"count_limits", "proportion"},
    "calibration": {"calibration_error", "expected_calibration_error"},
    "paired comparison": {"compare_levels", "paired_t", "mean_difference"},
    "read an Anki deck": {"load_anki"},
    "rank models from duels": {"bradley_terry", "duel_strengths"},
    "soft labels from ratings": {"soft_labels"},
    "correct a p-value": {"adjust_p"},
    "parse a letter from an answer": {"parse_choice"},
    "split train and test without leakage": {"split_by_group", "shared_items"},
    "kappa with weights": {"cohen_kappa"},
    "interval for kappa": {"agreement_estimate"},
    "how many raters": {"design_sentence", "raters_for_width", "with_more"},
    "bootstrap by case": {"bootstrap", "draw_weights"},
    "confidence sequence": {"confidence_sequence"},
    "soft labels": {"soft_labels"},
    "inconsistency of free text": {"inconsistency_scores", "inconsistency"},
    "position bias": {"position_bias"},
    "recover severity": {"severities"},
    "export to inspect": {"inspect_logs"},
    "is my judge biased": {"leave_one_rater_out", "bland_altman", "self_enhancement", "family_bias"},
}


@pytest.fixture(scope="module")
def index():
    return finder.index_of(ROOT / "nbs")


@pytest.mark.parametrize("asked", WANTED)
def test_a_function_is_found_by_what_it_does(index, asked):
    assert set(finder.ranked(index, asked, 3)) & WANTED[asked], finder.ranked(index, asked)


def test_the_weights_of_words(tmp_path):
    "By hand: in the name of one of two functions, the only text, a word has 4 / (2 + 4) of log(1 + 1.5 / 1.5)."
    found = [finder.Found(name, "m", "", {f: name if f == "name" else "" for f in finder.FIELDS}) for name in "pq"]
    found = [f._replace(texts=f.texts | {"name": word}) for f, word in zip(found, ("zebra", "lion"))]
    index = finder.indexed(found)
    assert index["words"]["zebra"] == [[0, round(100 * 0.6931 * 4 / (2 + 4))]]
    assert finder.ranked(index, "a zebra?") == ["p"] and finder.ranked(index, "") == []


def test_the_browser_finds_the_same(index, tmp_path):
    if not (node := shutil.which("node")):
        pytest.skip("node is not installed: docs/static/search.js is not run")
    (tmp_path / "index.json").write_text(json.dumps(index), encoding="utf-8")
    script = """
    const { ranked } = require(process.argv[1]);
    const index = JSON.parse(require("fs").readFileSync(process.argv[2], "utf-8"));
    console.log(JSON.stringify(process.argv.slice(3).map((q) => ranked(index, q).map((f) => f[0]))));
    """
    words = [node, "-e", script, str(ROOT / "docs" / "static" / "search.js"), str(tmp_path / "index.json"), *WANTED]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [finder.ranked(index, q) for q in WANTED]


def test_what_is_found_has_a_place_on_the_site(site, pages):
    made = (site / "functions.js").read_text(encoding="utf-8")
    index = json.loads(made.removeprefix("window.FUNCTIONS = ").rstrip().removesuffix(";"))
    for name, module, _ in index["functions"]:
        page = pages[(site / "api" / f"{module}.html").resolve()]
        assert name.lower().replace("_", "-") in page.ids, f"{module}.{name}"
    assert 'src="_static/search.js' in (site / "search.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("study", PAPERS)
def test_every_table_of_a_paper_has_its_place(site, study):
    page = (site / "studies" / f"{study}.html").read_text(encoding="utf-8")
    assert page.count("<tr") > len(PAPERS[study]) and "nbs/stages/score.html" in page
    assert all(html.escape(entry["what"], quote=False) in page for entry in PAPERS[study])
    assert page.index("<table") < page.index("How this page is made") and "page.show(" not in page


def test_the_reference_says_shapes_and_errors_and_formulas_are_set(site):
    text = (site / "api" / "mhbench.stats.agreement.html").read_text(encoding="utf-8")
    assert "krippendorff_alpha" in text and "NaN" in text and "Raises" in text
    assert "MathJax" in (site / "nbs" / "stats" / "03_agreement.html").read_text(encoding="utf-8")


def test_every_equation_between_lines_is_set_as_one(site):
    "One within a paragraph too: else it is set as a part of the line, and a dollar of it may begin one of prose."
    for notebook in sorted((ROOT / "nbs").rglob("*.ipynb")):
        page = site / notebook.relative_to(ROOT).with_suffix(".html")
        if page.exists() and ".ipynb_checkpoints" not in notebook.parts:
            cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
            written = sum("".join(c["source"]).count("$$") for c in cells if c["cell_type"] == "markdown") // 2
            assert page.read_text(encoding="utf-8").count('<div class="math ') == written, notebook.name


WIDER = """
const held = [...document.querySelectorAll(".bd-article-container, .prev-next-area a")];
const captions = [...document.querySelectorAll(".bd-article caption")];  // they stand above what scrolls
return held.filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.className)
  .concat(captions.filter((e) => e.getBoundingClientRect().right > innerWidth).map((e) => e.textContent));
"""


@pytest.mark.parametrize(
    "page", ["reports/replication/mentat/README", "api/mhbench.stats.agreement", "howto-raters", "studies/mentat"]
)
def test_no_page_scrolls_sideways_on_a_phone(site, chromium, page):  # noqa: F811
    size = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    chromium.get((site / f"{page}.html").as_uri())
    assert chromium.execute_script(WIDER) == []


PAST_THE_EDGE = """
const [text, done] = arguments, article = document.querySelector("article");
article.innerHTML = text;
MathJax.startup.promise.then(() => { MathJax.typesetClear(); return MathJax.typesetPromise([article]); }).then(() => {
  const edge = article.getBoundingClientRect().right + 1, past = (c) => c.getBoundingClientRect().right > edge;
  const equations = [...document.querySelectorAll("div.math")], set = (e) => e.querySelector("mjx-container");
  const cut = equations.filter((e) => !set(e) || [...e.querySelectorAll("mjx-math *")].some(past));
  done([equations.length, cut.map((e) => e.textContent)]);
});
"""


def test_no_equation_is_cut_on_a_screen_of_1280_pixels(site, chromium):  # noqa: F811
    """It scrolls, but what is past the edge is not seen: long ones stand in two lines. The articles of all pages are
    laid out in the place of the first one's.
    """
    size = {"width": 1280, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    texts = {page: page.read_text(encoding="utf-8") for page in sorted(site.glob("nbs/**/*.html"))}
    texts = {page: text for page, text in texts.items() if '<div class="math ' in text}
    assert len(texts) > 40
    chromium.get(next(iter(texts)).as_uri())
    cut = {}
    for page, text in texts.items():
        article = re.search(r"(?s)<article[^>]*>(.*)</article>", text)[1]
        n, past = chromium.execute_async_script(PAST_THE_EDGE, article)
        assert n == text.count('<div class="math ')
        cut |= {page.name: past} if past else {}
    assert cut == {}


def test_links_of_markdown_lead_somewhere():
    "README, CONTRIBUTING and docs/ as they are read in the clone; pages that the build makes stand beside them."
    made = {"ledger.md", "demo.md", "gallery.md", "parameters.md", "replication.md"}
    for file in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS]:
        text = re.sub(r"(?s)```.*?```", "", file.read_text(encoding="utf-8"))
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            to = urlsplit(link)
            if to.scheme or not to.path or to.path in made or to.path.startswith(("studies/", "notebooks/", "api/")):
                continue
            there = ROOT / to.path.lstrip("/") if to.path.startswith("/") else file.parent / to.path
            assert there.exists(), f"{file.name}: {link}"


def test_a_notebook_of_a_module_leads_to_its_functions(site):
    for notebook, module in (("stats/03_agreement", "stats.agreement"), ("run/03_params", "run.params")):
        page = (site / "nbs" / f"{notebook}.html").read_text(encoding="utf-8")
        assert f'api/mhbench.{module}.html">' in page, notebook


def test_the_site_opens_with_the_first_page(site, pages):
    page = (site / "index.html").read_text(encoding="utf-8")
    assert page.count('class="study"') == len(PAPERS) and 'href="guide.html"' in page
    for study in PAPERS:
        assert f'href="studies/{study}.html"' in page
        assert f'href="../index.html#{study}"' in (site / "studies" / f"{study}.html").read_text(encoding="utf-8")
