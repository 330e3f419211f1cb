"""The page of each study: in the order of its paper, findings first, every number from its table, without code."""

import json
import re
import shutil

import numpy as np
import pandas as pd
import pytest
import yaml
from conftest import ROOT
from PIL import Image

from mhbench.ledger.front import committed_tables, quantities
from mhbench.run.results import PaperPage, PaperPart, _grid, _part_of, opening, paper_parts
from mhbench.run.stage import as_saved
from mhbench.tools.ledger import front_papers

STUDIES = ("mentat", "psychiatrybench", "medqade", "counselingbench", "mhqa")
REAL = ("mentat", "counselingbench", "mhqa")


def cells_of(folder: str, study: str) -> list[dict]:
    file = ROOT / folder / study / "results.ipynb"
    return json.loads(file.read_text(encoding="utf-8"))["cells"]


def html_of(cell: dict) -> str:
    return "".join("".join(o["data"]["text/html"]) for o in cell.get("outputs", []) if "data" in o)


def page_of(study: str) -> str:
    return "\n".join(
        "".join(c["source"]) if c["cell_type"] == "markdown" else html_of(c) for c in cells_of("reports", study)
    )


@pytest.fixture(scope="module", params=STUDIES)
def study(request):
    return request.param


def test_the_notebook_shows_the_paper_in_its_order(study):
    parts, cells = paper_parts(study), cells_of("nbs/studies", study)
    order = {what: k for k, what in enumerate(parts)}
    shown = []
    for before, cell in zip(cells, cells[1:]):
        if found := re.fullmatch(r'page\.show\("(.+)"\)', "".join(cell["source"])):
            assert "".join(before["source"]) == f"## {found[1]}: {parts[found[1]].of}"
            shown.append(order[found[1]])
    assert shown == sorted(shown) and len(set(shown)) == len(shown) >= 8
    missing = [w for w, p in parts.items() if order[w] not in shown and (p.by or p.finding or p.released)]
    assert not missing, "each that a stage computes has a cell"


def test_results_come_before_code_and_nothing_only_says_what_is_absent(study):
    cells = cells_of("reports", study)
    setup = [
        k
        for k, c in enumerate(cells)
        if {"parameters", "injected-parameters", "setup"} & set(c["metadata"].get("tags", []))
    ]
    shown = [k for k, c in enumerate(cells) if html_of(c)]
    assert shown[0] == 1 and setup and min(setup) > max(shown)
    assert not any("`" in html_of(c) for c in cells), "HTML, in which code is an element"
    for before, cell in zip(cells, cells[1:]):
        if "".join(before["source"]).startswith("## ") and "Not on this page" not in "".join(before["source"]):
            assert re.search(r"<t(able|d)|<img", html_of(cell)) or "<strong>" in html_of(cell), before["source"]


def test_the_finding_stands_first_and_has_its_numbers_tables(study):
    page = PaperPage(study)
    for what, part in page.parts.items():
        shown = page.show(what)
        if part.finding:
            text = " ".join(shown.data.split())
            assert text.startswith("<p><strong>") and "{" not in text.partition("</strong>")[0]
            assert text.partition("</strong>")[0].count("data-from=") >= part.finding.count("{")
    assert sum(bool(p.finding) for p in page.parts.values()) >= 4


def test_the_demo_is_named_where_it_is_shown(study):
    page = page_of(study)
    assert page.count("<details") == page.count("<summary>On the demo: synthetic questions") > 0
    if study in REAL:
        real = page.partition("<details")[0]
        assert "From the released files" in real and "In print" in real


def test_a_page_is_read_aloud(study):
    page = page_of(study)
    assert all(re.search(r'alt="[^"]{15,}"', image) for image in re.findall(r"<img[^>]*>", page))
    assert page.count("<caption>") == page.count("<table") > 3 and page.count('scope="row"') > page.count("<table")
    heads = re.findall(r"(?m)^(#+) ", page)
    assert heads[0] == "#" and set(heads[1:]) == {"##"}


@pytest.mark.parametrize(
    ("study", "what", "file", "where", "column"),
    [
        (
            "counselingbench",
            "Table 2",
            "ledger-together.csv",
            {"model": "counselingQA-gpt4o", "mode": "zero_shot"},
            "estimate",
        ),
        ("mentat", "Figure 4", "score-by_labels.csv", {"category": "all", "labels": "as shown"}, "estimate"),
        ("mhqa", "Table 1", "verdicts.csv", {"claim": "Table 1/Anxiety / Factoid/MHQA-Gold"}, "value"),
    ],
)
def test_a_changed_cell_changes_the_page(tmp_path, study, what, file, where, column):
    shutil.copytree(ROOT / "reports" / "replication", tmp_path / "reports" / "replication")
    table = pd.read_csv(tmp_path / "reports" / "replication" / study / file, keep_default_na=False)
    row = table.index[(table[list(where)].astype(str) == pd.Series(where)).all(axis=1)]
    assert len(row) == 1
    table[column] = table[column].astype(object)
    table.loc[row[0], column] = float(table.loc[row[0], column]) * 0.9
    table.to_csv(tmp_path / "reports" / "replication" / study / file, index=False)
    assert PaperPage(study, top=tmp_path).show(what).data != PaperPage(study).show(what).data


def test_a_folder_without_replications_shows_what_is_printed(tmp_path):
    page = PaperPage("counselingbench", top=tmp_path)
    assert "<strong>" not in page.show("Table 3").data and "In print" in page.show("Table 3").data
    assert "What holds" not in opening(page).data


def test_what_is_committed_is_what_the_pipeline_makes_now(study):
    "Findings and printed numbers of the executed copy; what rests on a run is compared by the run's own tests."
    page, told = PaperPage(study), page_of(study)
    for what, part in page.parts.items():
        if part.finding:
            assert page.show(what).data.partition("</strong>")[0] in told, "dvc repro, then `mhbench publish results`"


def test_words_hold_that_hang_on_numbers():
    "What findings say without a number."
    papers, verdicts = front_papers(ROOT)
    known = {}
    for p in papers:
        own = verdicts[verdicts["paper"] == p.claims.name]
        name = p.claims.path.parent.name
        known[name] = quantities(p.claims, committed_tables(ROOT / "reports" / "replication", name, own))
    med, mentat, mhqa, psych = (known[s] for s in ("medqade", "mentat", "mhqa", "psychiatrybench"))
    assert med["pairwise"].value < med["ceiling"].value and med["own"].value > 0 > med["qwen_own"].value
    assert med["ceiling_low"].value < med["gemini_high"].value, "equality is not excluded"
    assert mentat["alpha_triage"].value > mentat["alpha_documentation"].value and mentat["o1_gain"].low > 0
    assert mhqa["gold_distinct"].value < mhqa["gold"].value and mhqa["few_anxiety_most"].value < 0.566
    assert psych["best"].value > psych["second"].value
    claims = next(p.claims for p in papers if p.claims.name == "PsychiatryBench")
    table = pd.DataFrame([(c.column, float(c.number.value)) for c in claims.claims if c.place == "Table 6"])
    means = table.groupby(0)[1].mean()
    other_scales = ["Exams", "MCQ", "EMI", "AVG.", *means.index[means.index.str.contains(r"^Categories|^Specific")]]
    rated = [*means.drop(other_scales).sort_values().index]
    assert rated[:4] == ["Treatment Follow-Up", "Treatment", "Management Plan", "Diagnosis"] and len(rated) == 7
    assert rated[-1] == "Sequential QA" and means["Exams"] < means["Treatment Follow-Up"]
    assert psych["printed_gpt5"].value == pytest.approx(psych["own_deepseek"].value, abs=0.1)


def test_an_entry_that_stands_twice_is_refused(tmp_path, monkeypatch):
    file = tmp_path / "results.yaml"
    file.write_text(yaml.dump([{"what": "Table 1", "of": "a"}] * 2))
    monkeypatch.setattr("mhbench.run.results.study_files", lambda name: {"x": file})
    with pytest.raises(ValueError, match="results.yaml must list each table and figure of the paper once"):
        paper_parts("x")


# Words that pages and figures had, and the standard terms that stand in their place.
OLD_WORDS = {
    "right most often": "most accurate",
    "means what it says": "calibrated",
    "right less often than": "overconfident",
    "what was declared": "the true (simulated) value",
    "declared truth": "true value",
    "lies between": "ranges from",
    "outcomes of the requests": "request status",
    "what answered, and when": "model version and date",
    "what became of": "status of",
    "every model against every other": "paired comparisons of models",
    "main numbers": "key results",
    "read with care": "caution",
    "free of who rated": "adjusted for rater severity",
    "free of what each": "adjusted for item difficulty",
    "mean person": "average rater",
    "readiness to tie": "tie parameter",
    "share called correct": "proportion judged correct",
    "favouritism": "self-preference bias",
    "member of the panel": "physician",
    "whose worth is known": "known-groups validation",
    "points of 100": "score (0 to 100)",
    "who had no part": "held-out rater",
    "how near to certainty": "entropy of the labels",
    "distance from the preferred": "inconsistency",
    "pairs of patients": "paired demographic differences",
    "composed by recorded": "answers taken from a recorded run",
    "sorted most often": "most frequent class",
    "what each step took": "exclusions by step",
    "against the marks": "against pass mark and expert level",
    "what their entries say": "model metadata",
    "right here, wrong there": "discordant answers",
    "held against": "compared with",
}


def old_words(text: str) -> list[str]:
    plain = " ".join(re.sub(r"<[^>]+>", " ", re.sub(r"(?s)<(script|style).*?</\1>", " ", text)).lower().split())
    return [f"{old} -> {new}" for old, new in OLD_WORDS.items() if re.search(rf"\b{re.escape(old)}", plain)]


def test_pages_and_figures_have_the_standard_terms():
    assert old_words("<b>Right most</b> often: MiniLM") == ["right most often -> most accurate"]
    files = [
        *(ROOT / "reports").glob("*.html"),
        *(ROOT / "figures").rglob("*.svg"),
        *(ROOT / "figures").rglob("*.json"),
    ]
    files += [
        *(ROOT / "mhbench" / "report" / "templates").glob("*.html"),
        *(ROOT / "mhbench" / "studies").glob("*/front.yaml"),
    ]
    files += (ROOT / "mhbench" / "studies").glob("*/results.yaml")
    found = {str(f.relative_to(ROOT)): old for f in files if (old := old_words(f.read_text(encoding="utf-8")))}
    found |= {f"reports/{s}/results": old for s in STUDIES if (old := old_words(page_of(s)))}
    assert found == {}


def test_a_part_that_a_run_has_a_figure_of_alone_is_shown(monkeypatch):
    page = PaperPage("medqade")
    page.parts["A figure"] = PaperPart(what="A figure", of="a figure without a printed number", by=["score/ours.svg"])
    assert page.show("A figure") is None
    figure = {"source": "data:,", "alt": "a figure of the run", "caption": "Ours"}
    monkeypatch.setattr(page, "_of_run", lambda names: {"tables": [], "figures": [figure], "label": "In this run"})
    assert "a figure of the run" in page.show("A figure").data


def test_a_figure_of_a_run_elsewhere_is_that_run_s(tmp_path):
    page = PaperPage("mentat", tmp_path / "results")
    stage, picture = tmp_path / "results/studies/mentat/score", tmp_path / "results/figures/mentat/score/accuracy.png"
    for folder in (stage, picture.parent):
        folder.mkdir(parents=True)
    Image.new("RGB", (4, 4), "red").save(picture)
    figure = {"name": "accuracy", "alt": "Accuracy of this run", "caption": "Accuracy"}
    (stage / "contents.json").write_text(json.dumps({"tables": [], "figures": [figure]}))
    page.parts["Figure 20"] = page.parts["Figure 20"].model_copy(update={"by": ["score/accuracy.svg"]})
    assert as_saved(picture) in page.show("Figure 20").data


def test_a_misspelt_column_of_a_part_is_refused(tmp_path):
    page = PaperPage("mentat", tmp_path)
    folder = tmp_path / "studies" / "mentat" / "demographics"
    folder.mkdir(parents=True)
    pd.DataFrame({"set": ["D_G"], "estimate": [0.5]}).to_parquet(folder / "pairs.parquet")
    table = {"name": "pairs", "caption": "Differences", "hide": []}
    (folder / "contents.json").write_text(json.dumps({"tables": [table], "figures": []}))
    assert page.show("Figure 20") is not None
    page.parts["Figure 20"] = page.parts["Figure 20"].model_copy(update={"rows": {"sets": "D_G"}})
    with pytest.raises(ValueError, match=r"rows must name columns .* got 'sets' \(Figure 20, results.yaml of mentat"):
        page.show("Figure 20")


def test_a_table_is_shown_where_another_of_its_part_is_not_there(tmp_path):
    "A row of `results.yaml` may name a column of the table that is not there: it is not misspelt."
    page = PaperPage("mentat", tmp_path)
    folder = tmp_path / "studies" / "mentat" / "demographics"
    folder.mkdir(parents=True)
    pd.DataFrame({"set": ["D_G", "D_A"], "estimate": [0.51, 0.52]}).to_parquet(folder / "pairs.parquet")
    table = {"name": "pairs", "caption": "Differences", "hide": []}
    (folder / "contents.json").write_text(json.dumps({"tables": [table], "figures": []}))
    part = {"by": ["demographics/pairs", "judge/final"], "rows": {"set": "D_G", "task": "triage"}}
    page.parts["Figure 20"] = page.parts["Figure 20"].model_copy(update=part)
    html = page.show("Figure 20").data
    assert "0.510" in html and "0.520" not in html


def test_a_column_without_a_value_is_left_out_but_for_an_estimate_and_its_limits():
    frame = pd.DataFrame({"model": ["a", "b"], "note": None, "estimate": np.nan, "ci_low": np.nan, "ci_high": np.nan})
    grid = _grid(frame, "A table")
    assert "estimate" in grid["caption"], "all rows share that there is none"
    assert "note" not in [*grid["head"], *grid["caption"].split()]


def test_a_level_in_words_stays_and_a_level_of_confidence_stands_in_the_heading():
    limits = {"estimate": [0.5, 0.6], "ci_low": [0.4, 0.5], "ci_high": [0.6, 0.7]}
    words = _grid(pd.DataFrame({"set": "D_G", "level": ["male", "female"]} | limits), "A table")
    assert words["head"] == ["level", "estimate [95% interval]"] and [row[0] for row in words["rows"]] == [
        "male",
        "female",
    ]
    of_90 = _grid(pd.DataFrame({"model": ["a", "b"], "level": 0.9} | limits), "A table")
    assert of_90["head"] == ["model", "estimate [90% interval]"]


def test_a_result_that_all_rows_share_stays_in_the_table():
    wide = {
        "judge": "j",
        "model": ["a", "b"],
        "1": "0.500 [0.100, 0.900] (n = 9)",
        "2": "0.75, no interval",
        "p_holm": 1.0,
    }
    grid = _grid(pd.DataFrame(wide), "A table")
    assert (grid["head"], grid["caption"]) == (["model", "1", "2", "p holm"], "A table (judge: j)")


def test_a_table_without_a_row_keeps_its_heads():
    grid = _grid(pd.DataFrame(columns=["model", "estimate", "ci_low", "ci_high"], dtype=float), "A table")
    assert (grid["head"], grid["rows"]) == (["estimate [95% interval]"], [])


@pytest.mark.parametrize(
    ("part", "rows", "heads"),
    [
        ({"rows": {"set": "G"}}, [["a", "G", 1, 2]], ["model", "set", "age: 1", "kin: 2"]),
        ({"rows": {"task": "x"}, "columns": "age"}, [["a", 1], ["b", 3]], ["model", "age: 1"]),
        ({"rows": {"set": "none"}}, [], ["model", "set", "age: 1", "kin: 2"]),
        ({"columns": "aeg"}, [], ["model", "set", "age: 1", "kin: 2"]),
    ],
)
def test_a_part_of_a_paper_has_its_rows_and_columns_of_a_table(part, rows, heads):
    frame = pd.DataFrame({"model": ["a", "b"], "set": ["G", "A"], "age: 1": [1, 3], "kin: 2": [2, 4]})
    left = _part_of(frame, PaperPart(what="Table 1", of="a table", **part))
    assert [list(left), left.to_numpy().tolist()] == [heads, rows]


@pytest.mark.parametrize("study", STUDIES)
def test_rows_and_columns_of_a_part_are_those_of_the_demo(study):
    "A misspelt column or value would leave the whole table, or none of it."
    golden = "".join(f.read_text(encoding="utf-8") for f in (ROOT / "tests" / "golden").glob("*.txt"))
    words = {word for line in golden.splitlines() for word in line.split(",")}
    for part in paper_parts(study).values():
        assert {*part.rows, *part.rows.values()} <= words, part.what
        assert not part.columns or any(word.startswith(part.columns) for word in words), part.what
