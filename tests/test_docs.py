"""The site builds from what is there, calls no other host, and can be searched."""

import re
import subprocess
import sys

import pytest

ELSEWHERE = r"""["']?(?:https?:)?//"""
CALLS = re.compile(
    rf"<(?:script|img|iframe|source|video)[^>]*\bsrc={ELSEWHERE}|<link[^>]*\bhref={ELSEWHERE}|url\({ELSEWHERE}"
)


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
    for study in ("mentat", "psychiatrybench", "medqade", "counselingbench", "mhqa"):
        page = (site / "studies" / f"{study}.html").read_text(encoding="utf-8")
        assert page.count("<tr") > 3 and "nbs/stages/score.html" in page
    text = (site / "api" / "mhbench.stats.agreement.html").read_text(encoding="utf-8")
    assert "krippendorff_alpha" in text and "NaN" in text and "Raises" in text
    assert "MathJax" in (site / "nbs" / "stats" / "03_agreement.html").read_text(encoding="utf-8")
