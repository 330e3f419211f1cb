"""The site builds from what is there, calls no other host, and can be searched."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ELSEWHERE = r"""["']?(?:https?:)?//"""
CALLS = re.compile(
    rf"<(?:script|img|iframe|source|video)[^>]*\bsrc={ELSEWHERE}|<link[^>]*\bhref={ELSEWHERE}|url\({ELSEWHERE}"
)


ROOT = Path(__file__).parents[1]
PAPERS = yaml.safe_load((ROOT / "docs" / "papers.yaml").read_text(encoding="utf-8"))
NAMED = re.compile(r"""s\.(table|figure)\(\s*"(\w+)\"""")


@pytest.mark.parametrize("study", PAPERS)
def test_what_a_paper_s_table_is_mapped_to_is_there(study):
    "The stage, gone through by the study; the table that its notebook registers; the figure; the notebook."
    sections = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))["studies"][study]
    assert {e["what"] for e in PAPERS[study]} & {"Table 1", "Figure 2"}, "the paper's own numbering"
    for e in PAPERS[study]:
        assert e.get("by") or e.get("see") or e.get("note"), e
        for page in e.get("see", []):
            assert (ROOT / page).exists(), page
        for made in e.get("by", []):
            stage, name = made.split("/")
            assert stage in sections, f"{study} does not go through {stage}"
            cells = json.loads((ROOT / "nbs" / "stages" / f"{stage}.ipynb").read_text(encoding="utf-8"))["cells"]
            code = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "code")
            kind = "figure" if name.endswith(".svg") else "table"
            drawn = (ROOT / "figures" / stage / study / name).exists()
            assert (kind, name.removesuffix(".svg")) in NAMED.findall(code) or drawn, made


def test_forms_and_the_citation_are_read_by_others():
    for file in sorted((ROOT / ".github").rglob("*.yml")):
        assert "name" in yaml.safe_load(file.read_text(encoding="utf-8")), file
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    assert "run: .ci/run" in workflow and "run: make docs" in workflow
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["references"]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(cited) == 5 and all(r["authors"] and r["year"] and r["url"] in readme for r in cited)


@pytest.fixture(scope="module")
def site(root):
    pytest.importorskip("myst_nb", reason="the extra `docs` is not installed")
    subprocess.run([sys.executable, "docs/build.py"], cwd=root, check=True, capture_output=True, timeout=600)
    return root / "_docs" / "html"


def test_no_page_calls_another_host(site):
    pages = [*site.rglob("*.html"), *site.rglob("*.css")]
    assert len(pages) > 300
    found = {str(p.relative_to(site)): m[0] for p in pages if (m := CALLS.search(p.read_text(encoding="utf-8")))}
    assert found == {}


def test_it_can_be_searched_and_every_study_maps_its_paper(site, root):
    assert "cohen_kappa" in (site / "searchindex.js").read_text(encoding="utf-8")
    for study, entries in PAPERS.items():
        page = (site / "studies" / f"{study}.html").read_text(encoding="utf-8")
        assert page.count("<tr") > len(entries) and "nbs/stages/score.html" in page
        links = re.findall(r'href="((?!https?:)[^"#]+\.(?:svg|html))', page)
        assert not [x for x in links if not (site / "studies" / x).exists()], "a link that leads nowhere"
        assert any(x.endswith(".svg") for x in links)
    text = (site / "api" / "mhbench.stats.agreement.html").read_text(encoding="utf-8")
    assert "krippendorff_alpha" in text and "NaN" in text and "Raises" in text
    assert "MathJax" in (site / "nbs" / "stats" / "03_agreement.html").read_text(encoding="utf-8")
