"""What the pages of the papers and the executed notebooks of the demo run say of each other."""

import inspect
import json
import re
from pathlib import Path

import yaml
from test_style import is_older

from mhbench.registry import added

ROOT = Path(__file__).parents[1]
PAPERS = {
    f.parent.name: yaml.safe_load(f.read_text(encoding="utf-8"))
    for f in sorted((ROOT / "mhbench" / "studies").glob("*/results.yaml"))
}
NAMED = re.compile(r"""\b(?:s|stage)\.(table|figure)\(\s*"(\w+)\"""")


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


def shown(executed: Path) -> dict[str, str]:
    """What an executed notebook of a stage shows of each table and figure that it registers: rows of a table, or `a
    picture`; nothing where it says in words that there is none.
    """
    out = {}
    for cell in json.loads(executed.read_text(encoding="utf-8"))["cells"]:
        data = [o["data"] for o in cell.get("outputs", []) if "data" in o]
        rows = ["".join(d["text/html"]).partition("<tbody>")[2].count("<tr") for d in data if "text/html" in d]
        pictures = [d for d in data if d.get("image/png")]
        registered = NAMED.findall("".join(cell["source"]))
        for n, (kind, name) in enumerate(registered, 1):
            if kind == "table" and n == len(registered) and rows and rows[-1]:
                out[name] = f"{rows[-1]} rows"
            if kind == "figure" and pictures:
                out[f"{name}.svg"] = "a picture"
        if "s.added(" in "".join(cell["source"]):
            out |= shown_by_studies(executed.parent.name, data)
    return out


def shown_by_studies(stage: str, data: list[dict]) -> dict[str, str]:
    "The tables with rows that studies add to a stage: after its heading, what each function yields, in its order."
    out = {}
    for add in added("tables", stage):
        heading = f"## {inspect.getdoc(add).splitlines()[0]}"
        headings = ["".join(d.get("text/markdown", "")).splitlines()[:1] for d in data]
        if [heading] in headings:
            names = [name for _, name in NAMED.findall(inspect.getsource(add))]
            for name, d in zip(names, data[headings.index([heading]) + 1 :]):
                if "<tr" in "".join(d.get("text/html", "")).partition("<tbody>")[2]:
                    out[name] = "rows"
    return out


def wrongly_shown(study: str) -> list[str]:
    """In the committed run, as far as it is not older than its source: a table with rows in its executed notebook, a
    figure as a file. `absent` of an entry names what the demo cannot have, and why; a stage that it does not go through
    has none.
    After a change, `make readers` brings the run up to date.
    """
    named = [made for e in PAPERS[study] for made in e.get("by", [])]
    excused = {made for e in PAPERS[study] for made in e.get("absent", {})}
    run = yaml.safe_load((ROOT / "run.yaml").read_text(encoding="utf-8"))["run"]
    named = [made for made in named if study in run.get(made.split("/")[0], run["studies"])]
    copies = {made: ROOT / "reports" / made.split("/")[0] / f"{study}.ipynb" for made in named}
    named = [made for made in named if copies[made].exists() and not is_older(copies[made])]
    there = set()
    for stage in {made.split("/")[0] for made in named}:
        there |= {f"{stage}/{name}" for name in shown(ROOT / "reports" / stage / f"{study}.ipynb")}
        there |= {f"{stage}/{f.name}" for f in (ROOT / "figures" / stage / study).glob("*.svg")}
    return [f"{study}: {made}" for made in named if (made in there) == (made in excused)]


def test_the_demo_run_shows_every_output_that_the_papers_are_mapped_to():
    wrong = [made for study in PAPERS for made in wrongly_shown(study)]
    assert wrong == [], "`make readers`, or say in results.yaml of the study why it is absent"


def test_a_table_without_rows_would_be_noticed(tmp_path):
    empty = {"data": {"text/html": "<table><thead><tr></tr></thead><tbody></tbody></table>"}}
    rows = {"data": {"text/html": "<table><thead><tr></tr></thead><tbody><tr></tr></tbody></table>"}}
    said = {"data": {"text/plain": "'Nothing: nobody was asked'"}}
    cells = [
        {"source": [f's.table("t{k}", x, "X")'], "outputs": outputs}
        for k, outputs in enumerate([[empty], [rows], [said], []])
    ]
    cells.append({"source": ['s.table("hidden", x, "X")\ns.table("last", x, "X")'], "outputs": [rows]})
    (tmp_path / "x.ipynb").write_text(json.dumps({"cells": cells}), encoding="utf-8")
    assert shown(tmp_path / "x.ipynb") == {"t1": "1 rows", "last": "1 rows"}


def test_forms_and_the_citation_are_read_by_others():
    for file in sorted((ROOT / ".github").rglob("*.yml")):
        assert "name" in yaml.safe_load(file.read_text(encoding="utf-8")), file
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    assert "run: .ci/run" in workflow and "run: make docs" in workflow
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["references"]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(cited) == 5 and all(r["authors"] and r["year"] and r["url"] in readme for r in cited)
