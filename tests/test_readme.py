"""The README says what committed tables say: every number of its findings, and the figure."""

import re

import check_readme
import pandas as pd
from conftest import ROOT
from scipy.stats import norm

from mhbench.ledger.claims import load_claims
from mhbench.ledger.verdicts import EVIDENCE_KINDS, claims_by_verdict, judge_claims
from mhbench.report.style import save
from mhbench.stats.tests import chi_square

REPLICATION = ROOT / "reports" / "replication"
README = (ROOT / "README.md").read_text(encoding="utf-8")
FINDINGS = README[README.index("- **MENTAT**") : README.index("## Two commands")]
PAPERS = ("MENTAT", "PsychiatryBench", "MedQADE", "CounselingBench", "MHQA")


def of(paper: str) -> str:
    "What the README finds of one paper."
    return next(line for line in FINDINGS.splitlines() if line.startswith(f"- **{paper}"))


def value(file: str, column: str = "interval", **where) -> str:
    "A cell of a committed table, as the README writes it."
    table = pd.read_csv(REPLICATION / file)
    for name, wanted in where.items():
        table = table[table[name] == wanted]
    assert len(table) == 1, (file, where, len(table))
    row = table.iloc[0]
    if column != "interval":
        return f"{int(row[column]):,}"
    return f"{row['estimate']:.3f} [{row['ci_low']:.3f}, {row['ci_high']:.3f}]"


ALPHA = ("mentat/preferences-reading_agreement.csv", {"measure": "Krippendorff's alpha", "category": "all"})
O1 = ("mentat/score-by_labels.csv", {"model": "o1-2024-12-17", "category": "all"})
COUNSEL = ("counselingbench/score-accuracy.csv", {"by": "all"})
MHQA = ("mhqa/score-accuracy.csv", {"mode": "zero_shot"})
ALL = {"group": "all"}
FOUND = [
    ("MENTAT", "0.660 [0.594, 0.721]", *ALPHA, {"reading": "shown"}),
    ("MENTAT", "0.096 [0.062, 0.140]", *ALPHA, {"reading": "release"}),
    ("MENTAT", "0.849 [0.727, 0.924]", *O1, {"labels": "as shown"}),
    ("MENTAT", "0.415 [0.292, 0.549]", *O1, {"labels": "as released"}),
    ("MENTAT", "0.472 [0.344, 0.603]", *O1, {"labels": "results file"}),
    ("CounselingBench", "0.709 [0.665, 0.749]", *COUNSEL, {"model": "counselingQA-gpt4o", "mode": "zero_shot"}),
    ("CounselingBench", "0.705 [0.654, 0.751]", *COUNSEL, {"model": "counselingQA-gpt4o", "mode": "few_shot"}),
    ("CounselingBench", "0.683 [0.631, 0.731]", *COUNSEL, {"model": "Meta-Llama-3-70B-Instruct", "mode": "few_shot"}),
    ("MHQA", "0.358 [0.339, 0.377]", *MHQA, {"model": "scibert_small", **ALL}),
    ("MHQA", "0.333 [0.314, 0.351]", *MHQA, {"model": "biobert_small", **ALL}),
    ("MHQA", "0.303 [0.285, 0.322]", *MHQA, {"model": "bert_base_uncased_small", **ALL}),
    ("MHQA", "0.238 [0.222, 0.256]", *MHQA, {"model": "mental_bert_small", **ALL}),
    ("MHQA", "0.234 [0.218, 0.251]", *MHQA, {"model": "pubmed_bert_small", **ALL}),
    ("MHQA", "0.185 [0.155, 0.219]", *MHQA, {"model": "pubmed_bert_small", "group": "Prognostic"}),
]
COUNTED = [
    ("MENTAT", "61", "n", *ALPHA, {"reading": "shown"}),
    ("MENTAT", "53", "n", *O1, {"labels": "as shown"}),
    ("CounselingBench", "168", "n_unread", *COUNSEL, {"model": "medalpaca-7b", "mode": "few_shot"}),
    ("MHQA", "2,474", "n", *MHQA, {"model": "bert_base_uncased_small", **ALL}),
]


def test_an_estimate_is_that_of_its_table():
    for paper, said, file, where, more in FOUND:
        assert said in of(paper) and value(file, **where, **more) == said


def test_a_count_is_that_of_its_table():
    for paper, said, column, file, where, more in COUNTED:
        assert re.search(rf"(?<!\d){said}(?![\d,]*\d)", of(paper)) and value(file, column, **where, **more) == said


def test_every_estimate_of_the_findings_is_traced():
    said = re.findall(r"\d\.\d{3} \[\d\.\d{3}, \d\.\d{3}\]", FINDINGS)
    assert sorted(said) == sorted(text for _, text, *_ in FOUND)


def passes(mode: str) -> set[str]:
    table = pd.read_csv(REPLICATION / "counselingbench" / "score-accuracy.csv")
    assert (table.loc[table["by"] == "all", "ci_high"] < 0.9).all(), "none comes near the experts"
    return set(table.query("by == 'all' and mode == @mode and ci_low > 0.63")["model"])


def test_who_is_shown_to_pass():
    assert passes("zero_shot") == {"counselingQA-gpt4o"}
    assert passes("few_shot") == {"counselingQA-gpt4o", "Meta-Llama-3-70B-Instruct"}


def verdicts(paper: str) -> pd.DataFrame:
    "Of the released files where there are some, otherwise of the printed numbers alone."
    name = paper.lower()
    if (file := REPLICATION / name / "verdicts.csv").exists():
        return pd.read_csv(file, keep_default_na=False, na_values={"value": ""})
    return judge_claims(load_claims(ROOT / "mhbench" / "studies" / name / "claims.yaml"))


NAMES = {"equal": "equal", "convention": "under a convention", "undecided": "not decided", "differs": "differ"}


def test_verdicts_are_counted_by_what_values_are_made_of():
    for paper in PAPERS:
        row = next(line for line in README.splitlines() if line.startswith(f"| [{paper}]"))
        found = verdicts(paper)
        counts = claims_by_verdict(found).set_index("kind")
        by_kind = [counts.loc[kind] for kind in EVIDENCE_KINDS]
        told = [", ".join(f"{n[v]} {name}" for v, name in NAMES.items() if n[v]) for n in by_kind]
        without = (found["verdict"] == "cannot").sum()
        assert [x.strip() for x in row.split("|")[2:-1]] == [
            *(x or "none" for x in told),
            str(without),
            str(len(found)),
        ]


def test_what_is_said_of_one_run_and_another():
    tables = verdicts("MENTAT").query("place in ['Table 1', 'Table 2']")["verdict"].value_counts()
    said = f"agrees with print in all {tables.sum()} numbers of tables 1 and 2: in {tables['equal']} as it is released"
    assert said in of("MENTAT") and set(tables.index) == {"equal", "convention"}
    scores = pd.read_csv(REPLICATION / "counselingbench" / "ledger-scores.csv")
    row = scores.query("model == 'Llama-2-70b-hf' and measure == 'faithfulness'").iloc[0]
    told = f"{row['n_missing']} of {row['n']:,} for Llama2-70B, whose faithfulness is .547 in print and "
    assert told + f"{row['present']:.3f}"[1:] in of("CounselingBench")


def test_one_pass_in_thirty_two_does_not_survive_a_correction():
    table = pd.read_csv(REPLICATION / "counselingbench" / "score-accuracy.csv").query("by == 'all'")
    z = (table["estimate"] - 0.63) / ((table["ci_high"] - table["ci_low"]) / 2 / 1.96)
    kept = table[2 * norm.sf(z) * len(table) < 0.05]
    assert len(table) == 32 and kept[["model", "mode"]].values.tolist() == [["counselingQA-gpt4o", "zero_shot"]]


def test_what_follows_from_printed_numbers():
    printed = verdicts("CounselingBench").set_index("claim")["printed"]
    kinds = ("logical", "context", "knowledge")
    counts = [[int(printed[f"Section 7.2.1/{m}/{k}"]) for k in kinds] for m in ("Llama-3-70B", "OpenBioLLM-70B")]
    test = chi_square(counts)
    said = (
        f"({printed['Section 7.2.1/chi-square']}) is {test.statistic:.2f}, p = {test.p:.3f}, in a test of independence"
    )
    assert said in of("CounselingBench")
    mhqa = verdicts("MHQA").set_index("claim")
    text, table = mhqa.loc["Section 6.2", "printed"], mhqa.loc["Section 6.2", "value"]
    assert f"RoBERTa's F1 on factoid questions is {text} in the text and {table:.1f} in table 2" in of("MHQA")
    medqade = verdicts("MedQADE")["verdict"].value_counts()
    assert "differs" not in medqade and f"All {medqade['equal'] + medqade['convention']} of its" in of("MedQADE")
    assert f", {medqade['convention']} of them within rounding" in of("MedQADE")
    agreement = verdicts("PsychiatryBench").query("place == 'Table 2 of the appendix' and column == 'Format Agreement'")
    printed = dict(zip(agreement["row"], agreement["printed"]))
    assert f"(printed {printed['DeepSeek-R1']} and {printed['GPT-5']})" in of("PsychiatryBench")


def test_the_figures_of_papers_are_drawn_from_their_tables(tmp_path):
    for name, figure in check_readme.drawn().items():
        save(figure, name, tmp_path)
        committed = check_readme.FIGURES / f"{name}.svg"
        assert (tmp_path / committed.name).read_bytes() == committed.read_bytes(), "run `make readme`"


def test_it_is_short():
    assert len(README.splitlines()) <= 110


def test_the_picture_is_told_in_the_words_of_the_first_page():
    told = re.search(r'<img src="figures/replication/first.svg"[^>]* alt="([^"]*)"', README)[1]
    page = (ROOT / "reports" / "index.html").read_text(encoding="utf-8")
    verdicts = dict(re.findall(r'<h2 id="h-\w+">(\w+) <span class="chip[^"]*">([^<]*)', page))
    assert set(verdicts) == set(PAPERS)
    for paper, verdict in verdicts.items():
        assert f"{paper}: {verdict[0].lower()}{verdict[1:]}" in told
    o1 = [f"{float(value(*O1[:1], **O1[1], labels=x).split()[0]):.2f}" for x in ("results file", "as shown")]
    assert f"{o1[0]} by the authors' labels, {o1[1]} with sliders as shown" in told
    gpt4o = value(*COUNSEL[:1], **COUNSEL[1], model="counselingQA-gpt4o", mode="zero_shot").split()[0]
    assert f"GPT-4o {float(gpt4o):.2f} zero-shot" in told
