"""What a run used, as BibTeX that another program reads."""

import re
import shutil
import unicodedata

import bibtexparser
import pytest
import yaml
from conftest import BIN, ROOT, mhbench, run

from mhbench.tools.fetch import bibtex, citations, papers, software


def entries(text: str) -> dict[str, dict[str, str]]:
    "The entries of a BibTeX file, read by bibtexparser; none may fail."
    library = bibtexparser.parse_string(text)
    assert not library.failed_blocks
    return {e.key: {f.key: f.value for f in e.fields} for e in library.entries}


def test_every_study_s_paper_is_that_of_the_citation_file():
    cff = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["references"]
    by_url = {r["url"]: r for r in cff}
    assert len(papers()) == len(by_url) == 5
    for text in papers().values():
        ((_, fields),) = entries(text).items()
        cited = by_url.pop(fields["url"])
        names = [re.sub(r'\{\\"(\w)\}', "\\1\u0308", n) for n in re.split(r"\s+and\s+", fields["author"])]
        names = [" ".join(n.split()) for n in names]
        expected = [f"{a['family-names']}, {a['given-names']}" for a in cited["authors"]]
        assert [unicodedata.normalize("NFC", n) for n in names] == expected
        assert fields["title"].strip("{}") == cited["title"] and int(fields["year"]) == cited["year"]
        assert fields["url"].endswith(fields["eprint"])


def test_claims_cite_a_paper_that_is_there():
    for study, text in papers().items():
        file = ROOT / "mhbench" / "studies" / study / "claims.yaml"
        if file.exists():
            cited = yaml.safe_load(file.read_text(encoding="utf-8"))["paper"]["cite"]
            assert cited in entries(text), f"{study}: {cited}"


def test_what_is_special_to_latex_is_escaped():
    ((_, fields),) = entries(bibtex("x", {"title": "50% of {R} & D_1 # $2", "note": "a ~ b ^ c \\ d"})).items()
    assert fields["title"] == r"{50\% of \{R\} \& D\_1 \# \$2}"
    assert fields["note"] == r"a \textasciitilde{} b \^{} c \textbackslash{} d"


def test_the_demo_cites_papers_and_software_and_no_release():
    found = entries(run(BIN / "mhbench", "cite", cwd=ROOT))
    assert {"mhbench", *(k for text in papers().values() for k in entries(text))} == set(found)
    assert found["mhbench"] == next(iter(entries(software()).values()))


@pytest.mark.parametrize("fetched", [True, False])
def test_a_corpus_that_was_fetched_is_cited_with_its_commit(clone, datasets, tmp_path, monkeypatch, fetched):
    monkeypatch.setenv("MHBENCH_CORPORA", str(tmp_path / "corpora"))
    folder = tmp_path / "mhbench"
    shutil.copytree(clone, folder)
    source = tmp_path / "release"
    (source / "outputs_t").mkdir(parents=True)
    for file in sorted((datasets / "counselingbench" / "outputs_t").glob("M*.csv"))[:2]:
        shutil.copy(file, source / "outputs_t")
    command = (
        ("fetch", "counselingbench", "--from", source)
        if fetched
        else ("import", "counselingbench", source / "outputs_t")
    )
    mhbench(*command, cwd=folder)
    mhbench("select", "--studies", "counselingbench", "--models", "", cwd=folder)
    said = mhbench("cite", "--to", tmp_path / "used.bib", cwd=folder)
    assert "used.bib: 3 entries" in said
    text = (tmp_path / "used.bib").read_text(encoding="utf-8")
    note = entries(text)["counselingbench_release"]["note"]
    assert ("8219cbb8279d9c3a6098ac85f5bdf657be479b0f" in note) == fetched
    assert "licence: none stated" in note and "No model is run" in text
    assert "Nguyen, Viet Cuong" in entries(text)["counselingbench_release"]["author"]


def test_models_are_named_without_a_paper():
    p = {"run": {"studies": [], "models": ["a", "b"]}, "studies": {}, "models": {"a": {"provider": "P"}, "b": {}}}
    assert citations(p).endswith("does not know: a (P), b (provider not stated).\n")
