"""What the pages of the papers and the executed notebooks of the demo run say of each other."""

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
PAPERS = {
    f.parent.name: yaml.safe_load(f.read_text(encoding="utf-8"))
    for f in sorted((ROOT / "mhbench" / "studies").glob("*/results.yaml"))
}


def test_what_a_paper_s_table_is_mapped_to_is_there():
    "The stage, gone through by the study; the table that its notebook registers; the figure; the notebook."
    studies = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))["studies"]
    for study, entries in PAPERS.items():
        assert {e["what"] for e in entries} & {"Table 1", "Figure 2"}, "the paper's own numbering"
    for study, e in [(study, e) for study, entries in PAPERS.items() for e in entries]:
        assert e.get("by") or e.get("see") or e.get("note") or e.get("printed") or e.get("caption"), e
        assert set(e.get("absent", {})) <= set(e.get("by", [])), e
        for page in e.get("see", []):
            assert (ROOT / page).exists(), page
        for made in e.get("by", []):
            assert made.split("/")[0] in studies[study], f"{study} does not go through {made}"


GOLDEN = re.compile(r"(?m)^== (\w+)/(\w+): ([1-9]\d*) rows$")


def with_rows(stage: str, study: str, golden: Path = ROOT / "tests" / "golden") -> set[str]:
    "The tables with rows that the committed run has of a stage; the study's page of results shows them."
    file = golden / f"{stage}.txt"
    tables = GOLDEN.findall(file.read_text(encoding="utf-8")) if file.exists() else []
    return {name for of, name, _ in tables if of == study}


def wrongly_shown(study: str) -> list[str]:
    """In the committed run: a table with rows, a figure as a file. `absent` of an entry names what the demo cannot
    have, and why; a stage that it does not go through has none. After a change, `make golden` brings it up to date.
    """
    named = [made for e in PAPERS[study] for made in e.get("by", [])]
    excused = {made for e in PAPERS[study] for made in e.get("absent", {})}
    run = yaml.safe_load((ROOT / "run.yaml").read_text(encoding="utf-8"))["run"]
    named = [made for made in named if study in run.get(made.split("/")[0], run["studies"])]
    there = set()
    for stage in {made.split("/")[0] for made in named}:
        there |= {f"{stage}/{name}" for name in with_rows(stage, study)}
        there |= {f"{stage}/{f.name}" for f in (ROOT / "figures" / study / stage).glob("*.svg")}
    return [f"{study}: {made}" for made in named if (made in there) == (made in excused)]


def test_the_demo_run_shows_every_output_that_the_papers_are_mapped_to():
    wrong = [made for study in PAPERS for made in wrongly_shown(study)]
    assert wrong == [], "`make golden`, or say in results.yaml of the study why it is absent"


def test_a_table_without_rows_would_be_noticed(tmp_path):
    (tmp_path / "x.txt").write_text("== mhqa/some: 2 rows\n== mhqa/none: 0 rows\n== mentat/other: 1 rows\n")
    assert with_rows("x", "mhqa", tmp_path) == {"some"}


def test_forms_and_the_citation_are_read_by_others():
    for file in sorted((ROOT / ".github").rglob("*.yml")):
        assert "name" in yaml.safe_load(file.read_text(encoding="utf-8")), file
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    assert "run: .ci/run" in workflow and "run: make docs" in workflow
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["references"]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(cited) == 5 and all(r["authors"] and r["year"] and r["url"] in readme for r in cited)
