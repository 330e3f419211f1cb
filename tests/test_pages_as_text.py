"""The report of a run, the ledger of papers and figures of tables that are made up here, as text.

python tests/test_pages_as_text.py     # make the files in fixtures again, after the differences were read
"""

import base64
import gzip
import json
import re
import tempfile
from difflib import unified_diff
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from claiming import SECOND_PAPER
from drawing import drawings

from mhbench.ledger.claims import claims_by_place, load_claims
from mhbench.ledger.page import ReleaseFiles, ledger_page
from mhbench.ledger.release import Blob, Inventory, Tree
from mhbench.ledger.verdicts import claims_by_reason, claims_by_verdict, judge_claims, tolerances
from mhbench.records.schema import Item, Judgment, Rating, Response, write_records
from mhbench.report import findings, items, page

FIXTURES = Path(__file__).with_name("fixtures")
STUDIES, MODELS = ["mhqa", "mentat", "medqade"], ["alpha", "beta", "delta"]
PARTS = [(stage, study) for study in STUDIES for stage in ("score", "judge", "ledger")]
PARTS.remove(("judge", "medqade"))
PICTURE = (
    '<svg><metadata>x</metadata><g id="a" style="fill: red"> <path d="M 1.2345 2.5 L 3 4 Z" x="0.98765"/> </g></svg>'
)
NOTEBOOK = [
    ("markdown", "# Accuracy\nHow **often** each [model](x.md) was right, $n \\ge 10$. More."),
    ("code", "from mhbench.steps.rates import rate_table\nt = rate_table(x)\ns.table('accuracy', t, 'Accuracy')"),
    ("markdown", "## Pairs"),
    ("code", "s.table('pairs', t, 'Pairs')"),
]


def share(study: str) -> pd.DataFrame:
    "Accuracies of models that were asked, recorded and simulated, in two modes, one from few answers."
    k = STUDIES.index(study)
    who = [("alpha", "zero_shot", 0.71, 40), ("beta", "zero_shot", 0.45 + k / 5, 38), ("delta", "cot", 0.9, 40)]
    who += [("sim-good", "zero_shot", 0.8, 40), ("simple", "zero_shot", 0.3, 40), ("few", "zero_shot", 0.5, 4)]
    who += [("alpha", "cot", 0.66, 12), ("silent", "zero_shot", np.nan, 0)]
    t = pd.DataFrame(who, columns=["model", "mode", "estimate", "n"])
    wide = np.where(t["n"] < 10, np.nan, 0.12)
    t = t.assign(answered_by="plain", n_votes=1, by="all", group="all", n_clusters=t["n"] // (1 + k % 2))
    t = t.assign(ci_low=t["estimate"] - wide, ci_high=(t["estimate"] + wide).clip(upper=1.0), level=0.95)
    t = t.assign(n_not_asked=40 - t["n"], n_missing=[0, 2, 0, 0, 0, 0, 0, 0], n_refused=1, n_unread=0)
    t["origin"] = ["asked", "recorded", "asked", "simulated", "simulated", "asked", "asked", "asked"]
    t["interval"] = np.where(t["n"] < 10, "few", "bootstrap")
    part = t.iloc[:4].assign(by="category", group="triage", n=6, estimate=0.5, ci_low=0.1, ci_high=0.8)
    return pd.concat([t, part], ignore_index=True)


def answers(study: str) -> tuple[list[Item], list[Response], list[Judgment], list[Rating], pd.DataFrame]:
    "Items, answers, verdicts and ratings of a study, with the scores."
    asked = [
        Item(item_id=f"q{k}", study=study, task="multiple_choice", question=f"What of {k}?", options=["This", "That"],
             key=["AB"[k % 2]], category="triage" if k % 3 else "diagnosis", topic="mood", protected=k == 5,
             rationale="Since." if k == 1 else None, source="s.csv:1")
        for k in range(6)
    ]  # fmt: skip
    said, judged, rows = [], [], []
    outcomes = [("ok", "letter", True), ("ok", "none", False), ("refused", "refused", False), ("error", "error", False)]
    for m, model in enumerate(["alpha", "beta", "delta", "sim-good"]):
        for k, i in enumerate(asked):
            status, how, read = outcomes[(k * 4 + m) % 7 % 4]
            letter = "AB"[(k * m) % 2]
            about = {"item_id": i.item_id, "study": study, "model": model, "mode": "cot" if m == 2 else "zero_shot"}
            text = None if status == "error" else f" {letter}, I think "
            origin = "simulated" if model.startswith("sim") else "asked"
            error = "no connection" if status == "error" else None
            said.append(Response(**about, text=text, status=status, origin=origin, error=error))
            correct = float(letter == i.key[0]) if status != "error" else np.nan
            answer = [letter] if read else []
            rows.append({**about, "sample": 0, "cluster": f"c{k // 2}", "category": i.category, "topic": "mood",
                         "set": "D0" if study == "mentat" and k < 4 else None, "task": i.task, "answered_by": "plain",
                         "n_votes": 1, "status": status, "how": how, "read": read, "answer": answer, "key": i.key,
                         "correct": 0.5 if k == 4 else correct, "confidence": 0.12345 * k,
                         "origin": origin})  # fmt: skip
            for judge, score in (("dr", 20.0 * k), ("prof", 100.0 - 20 * k)) if m < 2 and status == "ok" else ():
                failed = k == 2 and judge == "prof"
                verdict = (
                    {"status": "error", "error": "gone"} if failed else {"score": score, "text": f"{score} points"}
                )
                judged.append(Judgment(**about, judge=judge, kind="score", rubric="score", **verdict))
    rated = [
        Rating(item_id=i.item_id, study=study, rater=f"p{r}", target=target, value=10.0 * k + r, source="r.csv:1")
        for k, i in enumerate(asked[:2])
        for r in range(3)
        for target in i.options
    ]
    rated += [
        Rating(item_id="q3", study=study, rater=f"p{r}", target="all", label="AAB"[r], source="r.csv") for r in range(3)
    ]
    return asked, said, judged, rated, pd.DataFrame(rows)


def keep(folder: Path, name: str, table: pd.DataFrame, told: list, caption: str, **how) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    table.to_parquet(folder / f"{name}.parquet")
    told.append({"name": name, "caption": caption, "rows": len(table), "hide": [], "show": True} | how)


def made(results: Path) -> None:
    "The results of the run."
    for k, study in enumerate(STUDIES):
        asked, said, judged, rated, scores = answers(study)
        text = results / "text"
        for stage, name, records, record in (
            ("prepare", "items", asked, Item),
            ("prepare", "ratings", rated, Rating),
            ("prepare", "recorded", [r for r in said if r.model in ("beta", "sim-good")], Response),
            ("judge", "judgments", judged, Judgment),
        ):
            (text / study / stage).mkdir(parents=True, exist_ok=True)
            write_records(records, text / study / stage / f"{name}.parquet", record)
        for model in ("alpha", "delta"):
            (text / study / "generate" / model).mkdir(parents=True)
            own = [r for r in said if r.model == model]
            write_records(own, text / study / "generate" / model / "responses.parquet", Response)
        accuracy, told = share(study), []
        score = results / "studies" / study / "score"
        keep(score, "scores", scores, told, "One row a response", show=False)
        keep(score, "accuracy", accuracy, told, "Accuracy", hide=["answered_by", "n_votes"])
        n = pd.DataFrame({"model": ["alpha", "beta"], "n": [40, 40], "failed": [k, 0], "refused": [1, 1]})
        keep(score, "counts", n.assign(unread=[0, 3 * k], cut=[2, 0]), told, "Request status")
        pairs = pd.DataFrame({"first": ["alpha", "alpha", "beta"], "second": ["beta", "sim-good", "delta"], "n": 36})
        pairs = pairs.assign(mode="zero_shot", answered_by="plain")
        pairs = pairs.assign(estimate=[0.2, 0.1, -0.3], ci_low=[0.1, -0.1, np.nan], ci_high=[0.3, 0.3, np.nan])
        pairs = pairs.assign(p=[0.01, 0.2, np.nan], p_adjusted=[0.03, 0.4, np.nan])
        pairs["origin"] = ["asked", "simulated", "asked"]
        keep(score, "pairs", pairs, told, "Every two models")
        if not k:
            long = pd.DataFrame(
                {"item": [f"-q{j}" for j in range(205)], "why": "a text that stands in every row of a long table"}
            )
            keep(score, "long", long.assign(x=np.arange(205) / 3), told, "A long table")
        truth = pd.DataFrame(
            {"model": ["sim-good", "simple"], "quantity": ["accuracy", "accuracy"], "truth": [0.85, 0.1]}
        )
        truth = truth.assign(n=40, estimate=[0.8, 0.3], ci_low=[0.68, 0.18], ci_high=[0.92, 0.42], level=0.95)
        keep(score, "truth", truth.assign(covered=["yes", "no"]), told, "Truth and estimate")
        served = {"model": ["alpha", "alpha"], "served_model": ["m-1", "m-2"], "n": [20, 20], "n_terms": [1, 2]}
        served |= {f"served_{x}": "not said" for x in ("fingerprint", "provider", "tier", "thought")}
        keep(score, "served", pd.DataFrame(served).assign(changed=["", "no seed"]), told, "Model version")
        main = accuracy.iloc[[0, 1, 3, 6]].assign(measure=["accuracy", "accuracy", "accuracy", "F1"])
        main.to_parquet(score / "headline.parquet")
        drawn = results / "figures" / study / "score"
        drawn.mkdir(parents=True)
        figures = []
        for name in ("accuracy", "alone"):
            (drawn / f"{name}.svg").write_text(PICTURE)
            figures.append({"name": name, "caption": f"The figure {name}"} | ({"alt": "Dots."} if k else {}))
        lines = {"chance 1/5": 0.2, "pass mark": 0.6, "expert": 0.9} if k < 2 else {}
        contents = {"about": "How often.", "tables": told, "figures": figures, "lines": lines}
        contents |= {
            "absent": [{"name": "votes", "why": "nobody voted"}, {"name": "ties", "why": "nobody voted"}],
            "findings": ["Every answer came."] if k else [],
            "origins": {"sim-good": "simulated"} if k else {},
        }
        contents |= {"notes": ["Read the card first."]} if k == 1 else {}
        (score / "contents.json").write_text(json.dumps(contents))
        judge, told = results / "studies" / study / "judge", []
        card = pd.DataFrame(
            {"judge": ["dr", "dr", "prof"], "question": ["again", "people", "again"], "n": [3, None, 5]}
        )
        card = card.assign(n_clusters=2, estimate=[1.5, None, 0.4], ci_low=[1.0, None, 0.2], ci_high=[2.0, None, 0.5])
        keep(judge, "card", card, told, "The card", card="judge")
        means = pd.DataFrame({"judge": ["dr", "prof"], "model": "alpha", "n": [6, 6], "mean": [50.0, 60.123456]})
        keep(
            judge,
            "means",
            means,
            told,
            "Means",
            about={"heading": "Means", "text": "A mean is a mean.", "functions": []},
        )
        counts = pd.DataFrame({"judge": "dr", "status": ["ok", "error", "refused"], "n": [9, 2, k]})
        keep(judge, "counts", counts, told, "Status of the verdicts")
        guard = pd.DataFrame({"judge": ["dr"], "student": ["beta"], "lineage": ["x"]})
        keep(judge, "guard", guard.iloc[: 1 - k % 2], told, "Judges of one family")
        contents = {"about": "", "tables": told, "figures": [], "absent": [], "lines": {"people": 55.0}}
        first = {"measure": "mean by dr", "said": "Of 2 judges, 1 is mild."}
        contents |= {"first": first, "notes": ["One judge."]} if study == "mentat" else {}
        (judge / "contents.json").write_text(json.dumps(contents))
        main = pd.DataFrame({"measure": "mean by dr", "model": ["beta", "alpha", "new"], "mode": "zero_shot", "n": 6})
        main = main.assign(
            n_clusters=3, estimate=[40.0, 60.0, 50.0], ci_low=[30.0, 50.0, np.nan], ci_high=[50.0, 70, np.nan]
        )
        main.assign(level=0.95, origin="asked").to_parquet(judge / "headline.parquet")
        ledger, told = results / "ledger" / study, []
        claims = {"printed": ["70", "2"], "place": ["Table 2", "Table 3"], "verdict": ["equal", "convention"]}
        cells = [f"score/accuracy[model={who}, by=all].estimate" for who in ("alpha, mode=zero_shot", "beta")]
        claims |= {"convention": ["", "rounding"], "source": cells}
        keep(ledger, "verdicts", pd.DataFrame(claims).iloc[: 1 + k], told, "Printed numbers", show=k == 1)
        (ledger / "contents.json").write_text(json.dumps({"about": "", "tables": told, "figures": [], "absent": []}))
        (results / "metrics" / study).mkdir(parents=True, exist_ok=True)
        numbers = {"n_items": 40, "n_ratings": 15, "n_simulated": 3 * k, "n_by_models": 2, "n_set_aside": k}
        (results / "metrics" / study / "prepare.json").write_text(json.dumps(numbers))
    cells = [{"cell_type": kind, "source": text} for kind, text in NOTEBOOK]
    (results / "score.ipynb").write_text(json.dumps({"cells": cells}))


def in_lines(text: str) -> list[str]:
    "A page in lines: what is packed unpacked, no styles, scripts and glossary; texts, and what places and links them."
    text = re.sub(r"(?s)<(style|script)\b[^>]*>(?!H4sI|[A-Za-z0-9+/=]+<).*?</\1>|<dl\b.*?</dl>", "", text)
    unpacked = lambda m: json.dumps(json.loads(gzip.decompress(base64.b64decode(m[0])))).replace("}, ", "},\n")
    text = re.sub(r"H4sI[A-Za-z0-9+/=]+", unpacked, text)
    places = r"\s(?:class|href|id|style|src|alt|open|data-[a-z]+)(?:=(?:\"[^\"]*\"|'[^']*'|[^\s>]+))?"
    text = re.sub(r"<[^>]+>", lambda m: " " + "".join(re.findall(places, m[0])) + " ", text)
    return [line for line in (" ".join(x.split()) for x in text.split("\n")) if line]


def reported() -> str:
    "What the report says of the run, in the order of the stage."
    out: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder)
        made(results)
        main = page.headline(results, PARTS)
        whom = findings.asked(results, STUDIES)
        standings = findings.against_lines(results, STUDIES, PARTS)
        shown = findings.fronts(results, standings, STUDIES, PARTS)
        wrong = findings.went_wrong(results, STUDIES, PARTS)
        truths = findings.truths(results, PARTS)
        cautions = findings.before_reading(results, STUDIES, {"mhqa": (6, 6), "mentat": (0, 6)}, shown, truths, PARTS)
        found = items.answers_of(results, STUDIES, ["alpha", "delta"])
        short = items.answers_of(results, STUDIES[:1], ["alpha", "delta"], private=STUDIES[:1], most=200)
        out += [main.to_csv(index=False), whom.to_csv(index=False), standings.to_csv(index=False), *wrong]
        out += [f"{heading} {said}" for heading, said in cautions.items()]
        out += [json.dumps([short.wordless, sorted(short.items), sorted(short.texts)])]
        out += sorted(items.protected_ids(results, STUDIES))
        sections = page.collect(results, results / "figures", PARTS, results)
        first = page.Section("Over all studies", tables=[("Whom", whom), ("Key results", main)])
        known = page.Section("The truth", "Of 95%.", [page.ReportTable("Truths", truths)])
        every = [known, *sections, first]
        files = page.write_tables(every, results / "report")
        for file in files:
            out += [
                f"== {file.name}",
                *(file.read_text(encoding="utf-8").split("\n") if "long" not in file.name else []),
            ]
        ends = {"shown": shown, "cautions": cautions, "wrong": wrong, "answers": found}
        out += ["== page", *in_lines(page.html_report("A run", ["What was run."], every, **ends))]
        small = page.html_report("Small", ["One.", "Two."], [first], wrong=[], private=True)
        out += ["== small page", *in_lines(small)]
    return "\n".join(line for text in out for line in text.split("\n")) + "\n"


CLAIMS = """
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
  away: {title: Elsewhere, discovery: true, says: It lies away., notebook: "https://example.org/n.ipynb"}
claims:
- {place: Table 1, of: items, id: sum, printed: "616", ours: &a {table: t, where: {of: sum}, value: v}, note: plain}
- {place: Table 1, of: items, id: other, printed: "9", ours: {call: sum, of: [*a, -609]}, note: found}
- {place: Table 1, of: items, id: more, printed: "618", ours: *a, note: plain}
- {place: Table 1, of: items, id: right, printed: "617", ours: *a}
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
- {place: Table 3, of: big, id: big, printed: "1,234.5", ours: {table: t, where: {of: big}, value: v}, note: away}
- {place: Table 3, of: low, id: low, printed: "-0.25", ours: {table: t, where: {of: low}, value: v}}
- {place: Section 4, of: kappa, id: kappa, printed: "0.44", cannot: in_words}
- {place: Section 4, of: pi, id: pi, printed: "0.3", cannot: in_words}
- {place: Section 5, of: a cell, printed: "1", needs: ["away/*.csv"], beside: near,
   ours: {table: score/x, where: {a: 1}, value: v}}
- {place: Section 6, of: a cell, printed: "0.52", ours: {table: t, where: {of: half}, value: v}, random: 0.01}
"""


def on_papers() -> str:
    "What the ledger's page and tables say of two papers made up here."
    values = pd.DataFrame({"of": ["sum", "mean", "half", "big", "low"], "v": [617, 2 / 3, 0.5, 1234.56789, -0.2777]})
    tree = Tree("authors/example", "0" * 40, {"away/one.csv": Blob("a" * 40, 1)})
    with tempfile.TemporaryDirectory() as folder:
        papers = []
        for k, text in enumerate((CLAIMS, SECOND_PAPER)):
            file = Path(folder) / f"{k}.yaml"
            file.write_text(text)
            papers.append(load_claims(file))
    verdicts = pd.concat([judge_claims(p, {"t": values}.get, Inventory(tree)) for p in papers])
    tables = [claims_by_place(papers[0]), claims_by_verdict(verdicts), claims_by_reason(verdicts), tolerances(verdicts)]
    files = [ReleaseFiles("First paper", "https://example.org/r", "abc1234", {"a.csv": "0" * 64})]
    both, one = ledger_page(verdicts, papers, files), ledger_page(verdicts, papers[1:])
    said = [t.to_csv(index=False, float_format="%.6g") for t in [*tables, verdicts]]
    return "\n".join([*said, "== page", *in_lines(both), "== page of one", *in_lines(one)]) + "\n"


SAYS = {"report": reported, "ledger": on_papers, "figures": drawings}  # test_figures.py reads the last


@pytest.mark.parametrize("name", ["report", "ledger"])
def test_a_page_says_what_somebody_read(name):
    read = (FIXTURES / f"{name}.txt").read_text(encoding="utf-8").split("\n")
    moved = list(unified_diff(read, SAYS[name]().split("\n"), lineterm="", n=0))
    assert not moved, "\n".join([*moved[:40], f"if that is right: python tests/{Path(__file__).name}"])


if __name__ == "__main__":
    for name, says in SAYS.items():
        (FIXTURES / f"{name}.txt").write_text(says(), encoding="utf-8")
