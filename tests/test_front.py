"""The first page: made again it is the same, each number is a cell or a printed number, and it needs nothing else."""

import html
import re
import shutil
from collections import Counter
from typing import get_args

import pandas as pd
import pytest
from annotate.conftest import axe, chromium  # noqa: F401 (the browser of the annotation page)
from conftest import ROOT

from mhbench.ledger.claims import ConclusionVerdict
from mhbench.ledger.front import committed_tables, front_page, quantities
from mhbench.tools.ledger import first_page, front_papers

PAGE = ROOT / "reports" / "index.html"
NUMBER = re.compile(r'<data value="([^"]*)" data-from="([^"]*)"[^>]*>(.*?)</data>', re.DOTALL)
WITHOUT_NUMBERS = re.compile(  # where digits may stand that no table gives: names, places in a paper, years, scales
    r"<style>.*?</style>|<data.*?</data>(?: <small>[^<]*</small>)?|style=\"[^\"]*\"|<table>.*?</table>|href=\"[^\"]*\""
    r"|<b style[^>]*>[^<]*</b>|<div class=\"row axis ticks\".*?</div>|<q>.*?</q>"
    r"|[Ss]ections? [\d.]+|[Tt]ables? \d+|[Ff]igure \d+|, \d{4}|\bof 100\b|\bas 0\b"
    r"|\d+%? (?:confidence|without a value)|\(95%\)"
    r"|\b[A-Za-z][\w.-]*\d[\w.-]*|\b(?:Gemini|Gemma|Sonnet|GPT)[ -][\d.]+(?: \d+B)?|&#\d+;",
    re.DOTALL,
)


@pytest.fixture(scope="module")
def page():
    return first_page(ROOT)


def test_made_again_it_is_the_same(page):
    assert page == PAGE.read_text(encoding="utf-8"), "mhbench ledger --front reports/index.html"


@pytest.mark.parametrize(
    ("file", "where", "column"),
    [
        ("counselingbench/ledger-together.csv", {"model": "counselingQA-gpt4o", "mode": "zero_shot"}, "estimate"),
        ("counselingbench/ledger-together.csv", {"model": "meditron-70b", "mode": "few_shot"}, "ci_low"),
        ("mentat/score-by_labels.csv", {"category": "all", "labels": "as shown"}, "estimate"),
        ("mhqa/score-accuracy.csv", {"model": "llama_3_8b", "by": "topic", "group": "Anxiety"}, "n_not_asked"),
        ("mentat/verdicts.csv", {"verdict": "differs"}, "verdict"),
    ],
)
def test_a_changed_cell_changes_the_page(page, tmp_path, file, where, column):
    shutil.copytree(ROOT / "reports" / "replication", tmp_path / "reports" / "replication")
    table = pd.read_csv(tmp_path / "reports" / "replication" / file, keep_default_na=False)
    row = table.index[(table[list(where)].astype(str) == pd.Series(where)).all(axis=1)][0]
    table.loc[row, column] = "equal" if column == "verdict" else float(table.loc[row, column]) * 0.9
    table.to_csv(tmp_path / "reports" / "replication" / file, index=False)
    assert first_page(tmp_path) != page


def test_a_printed_number_changes_the_page(page):
    papers, verdicts = front_papers(ROOT)
    claims = next(p.claims for p in papers if p.claims.name == "MedQADE")
    k = next(k for k, c in enumerate(claims.claims) if c.id == "Section 2.4/Gemini 3 Flash/kappa")
    claims.claims[k] = claims.claims[k].__class__(**vars(claims.claims[k]) | {"number": claims.claims[k - 1].number})
    assert front_page(papers, verdicts, ROOT / "reports" / "replication") != page


def test_a_number_is_what_its_cell_says(page):
    "The cell that `data-from` names, read by this test alone."
    seen = 0
    for value, origin, _ in NUMBER.findall(page):
        found = re.fullmatch(r"([\w/-]+\.csv): (.+): (\w+)", html.unescape(origin))
        if not found or ";" in origin or " of " in origin.partition(".csv")[0]:
            continue
        table = pd.read_csv(ROOT / "reports" / "replication" / found[1])
        for part in re.split(r", (?=[\w ]+=)", found[2]):
            name, _, wanted = part.partition("=")
            table = table[table[name].astype(str) == wanted]
        assert len(table) == 1, origin
        assert float(value) == pytest.approx(float(table[found[3]].iloc[0]), rel=1e-5), origin
        seen += 1
    assert seen > 60


def test_every_number_has_an_origin(page):
    body = page[page.index("<body>") : page.index("<h2>How to read this page")]
    printed = r"<h3>Its printed numbers</h3>.*?</ul>"  # counts of the ledger
    left = WITHOUT_NUMBERS.sub(" ", re.sub(printed, "", body, flags=re.DOTALL))
    text = re.sub(r"<summary>Where[^<]*|<[^>]+>", " ", left)
    assert not re.findall(r".{0,30}\d.{0,20}", text), "a typed number: name it in `values` of claims.yaml"


def test_it_needs_nothing_else(page):
    assert not re.search(r"<script|<img|<link|@import|url\(|src=", page)
    for target in re.findall(r'href="([^"#:]+)"', page):
        assert (PAGE.parent / target).exists(), target
    assert all(f'id="{anchor}"' in page for anchor in re.findall(r'href="#([^"]+)"', page))


def test_headings_and_lists_are_read_aloud(page):
    levels = [int(n) for n in re.findall(r"<h(\d)", page)]
    assert levels[0] == 1 and levels.count(1) == 1 and all(b - a <= 1 for a, b in zip(levels, levels[1:]))
    assert len(re.findall(r"<figcaption>", page)) == len(re.findall(r"<figure>", page)) >= 5
    assert all('aria-hidden="true"' in track for track in re.findall(r'<span class="track"[^>]*>', page)[:1])


def test_conclusions_have_one_of_four_verdicts_and_support_is_looked_for():
    papers, _ = front_papers(ROOT)
    verdicts = [c.verdict for p in papers for c in p.claims.file.conclusions.values()]
    assert set(verdicts) <= set(get_args(ConclusionVerdict)) and all(p.claims.file.conclusions for p in papers)
    assert Counter(verdicts) == {"supported": 4, "supported in part": 14, "cannot be decided here": 9}


@pytest.mark.whole
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1400])
def test_in_a_browser(chromium, axe, width, scheme):  # noqa: F811
    chromium.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    )
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    chromium.get(PAGE.as_uri())
    chromium.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
    wide, small = chromium.execute_script(
        """const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), small = []
        for (let n; n = walk.nextNode();) if (n.data.trim() && n.parentElement.getClientRects().length
            && parseFloat(getComputedStyle(n.parentElement).fontSize) < 11) small.push(n.data.trim())
        return [document.documentElement.scrollWidth, small]"""
    )
    assert wide <= width and not small
    chromium.execute_script(axe)
    found = chromium.execute_async_script("const done = arguments[0]; axe.run().then(r => done(r.violations))")
    assert [(v["id"], [n["html"] for n in v["nodes"]][:2]) for v in found] == []


def test_words_hold_that_hang_on_numbers():
    "What sentences say without a number: who passes, what a correction leaves, what is possible."
    papers, _ = front_papers(ROOT)
    tables = lambda p: committed_tables(ROOT / "reports" / "replication", p.claims.path.parent.name)
    of = {p.claims.name: quantities(p.claims, tables(p)) for p in papers if p.front.settled}
    counselling, mhqa, mentat = of["CounselingBench"], of["MHQA"], of["MENTAT"]
    mark, experts = counselling["pass_mark"].value, counselling["experts"].value
    assert counselling["passing"].value == 1 and counselling["gpt4o"].low > mark
    assert counselling["llama_few_alone"].low > mark > counselling["llama_few"].low
    assert counselling["gpt4o_few_alone"].low > mark > counselling["gpt4o_few"].low
    assert counselling["gpt4o_few"].low < mark and counselling["highest"].value < experts
    assert counselling["below_experts"].value == 2 * counselling["models"].value
    assert counselling["gpt4o_cca"].value == min(
        counselling[f"gpt4o_{c}"].value for c in ("ia", "tp", "cs", "pp", "cca")
    )
    assert counselling["ia_pp_p"].value > 0.05 > counselling["tp_pp_p"].value
    assert counselling["pairs"].low < 0 < counselling["pairs"].high
    assert mhqa["few_anxiety_most"].value * 100 < mhqa["few_anxiety_printed"].value
    assert mhqa["biobert_preventive"].value > mhqa["gpt4o_preventive"].value
    assert mhqa["gpt4o"].value > max(mhqa["biobert_sft"].value, mhqa["roberta_sft"].value)
    assert (
        max(mhqa[x].value for x in ("scibert", "biobert", "bert", "mentalbert", "pubmedbert")) == mhqa["scibert"].value
    )
    assert mentat["o1_gain"].low > 0 and mentat["alpha_shown"].low > mentat["alpha_release"].high
    assert mentat["wordings_p"].value > 0.05 and mentat["own_inverse_shown"].low > mentat["own_inverse_release"].high


def test_printed_words_hold():
    "Of PsychiatryBench and MedQADE: every mean follows from the table, and derived numbers agree."
    verdicts = front_papers(ROOT)[1]
    means = verdicts[verdicts["claim"].str.fullmatch(r"Table 6/.*/AVG\.")]
    assert len(means) == 15 and set(means["verdict"]) <= {"equal", "convention"}
    med = verdicts[(verdicts["paper"] == "MedQADE") & (verdicts["verdict"] != "cannot")]
    assert set(med["verdict"]) == {"equal", "convention"}
    papers = {p.claims.name: p.claims for p in front_papers(ROOT)[0]}
    printed = {c.id: float(c.number.value) for c in papers["PsychiatryBench"].claims}
    models = {i.split("/")[1] for i in printed if i.startswith("Table 6/")}
    higher = {m for m in models if printed[f"Table 6/{m}/Specific F1"] > printed[f"Table 6/{m}/Categories F1"]}
    assert higher == {"MedGemma"}
