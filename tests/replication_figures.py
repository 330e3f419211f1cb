"""The figures of README and of the studies' results, drawn from the committed tables of the replications.

A changed cell changes a figure and its title: `check_readme.py --write` draws them all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from mhbench.ledger.front import FrontPaper, Plot, Quantity, committed_tables, filled_text, quantities
from mhbench.report.figures import names_in_words
from mhbench.report.forest import ChartRow, Mark, Sign, chart
from mhbench.report.style import GENERAL_LOOK, LOOKS, MEDICAL_LOOK, PLAIN, WIDTH, Look, printed_name

PASS, EXPERTS = 0.63, 0.90  # of the counselling examination, as the paper gives them


def _mark(row: Any, look: Look, **kw: Any) -> Mark:
    return Mark(row.estimate, row.ci_low, row.ci_high, look, **kw)


def counselingbench(folder: Path, width: float = WIDTH) -> Figure:
    "Accuracy of the models, with and without examples, on one scale with pass mark and expert level."
    table = pd.read_csv(folder / "ledger-together.csv")
    averages = pd.read_csv(folder / "score-averages.csv")
    medical = set(averages.loc[averages["models"] == "medical", "averaged"].iloc[0].split(", "))
    zero = table[table["mode"] == "zero_shot"].sort_values("estimate", ascending=False)
    few = table[table["mode"] == "few_shot"].set_index("model")
    rows = []
    for r in zero.itertuples():
        look = MEDICAL_LOOK if r.model in medical else GENERAL_LOOK
        by_mode = [(r, False), (few.loc[r.model], True)]
        lost = [f"{m.n_unread} unparseable" if m.n_unread >= m.n / 100 else "" for m, _ in by_mode]
        marks = [_mark(m, look, hollow=hollow, note=note) for (m, hollow), note in zip(by_mode, lost)]
        rows.append(ChartRow(printed_name(r.model), marks))
    above = table[table["pass mark"] == "above"]
    passed = [printed_name(m) for m in above["model"].unique()]
    modes = " ".join(dict.fromkeys(above["mode"].str.replace("_", "-"))) if above["mode"].nunique() == 1 else ""
    below = table.groupby("model")["expert level"].agg(lambda x: (x == "below").all())
    finding = f"{names_in_words(passed)} pass{'es' * (len(passed) == 1)}" if passed else "No model is shown to pass"
    group = f"all {len(below)}" if below.all() else f"{below.sum()} of {len(below)}"
    best = zero.iloc[0]
    title = f"{finding} the counselling exam{f' {modes}' * bool(modes)}; {group} models stay below expert level"
    alternative = (
        f"{printed_name(best.model)} {best.estimate:.2f} [{best.ci_low:.2f}, {best.ci_high:.2f}]; pass mark {PASS:.2f}"
    )
    signs = [Sign(GENERAL_LOOK, "general"), Sign(MEDICAL_LOOK, "medical")]
    signs += [Sign(PLAIN, "zero-shot"), Sign(PLAIN, "few-shot", hollow=True)]
    return chart(
        rows,
        title=title,
        legend=signs,
        key=f"Lines: 95% intervals that hold for all {best.n_comparisons} comparisons at once; a model is shown to "
        "pass where the whole line lies above the mark. Unparseable answers count as incorrect.",
        xlabel=f"accuracy on {best.n} questions from {best.n_clusters} cases",
        limits=(0, 1),
        refs={"chance .25": 0.25, f"pass mark {PASS:.2f}".replace("0.", "."): PASS, "experts .90": EXPERTS},
        width=width,
        brief=width <= WIDTH,
        told=f"{title}. {alternative}.",
    )


_SHOWN, _RELEASED, _AUTHORS = GENERAL_LOOK, MEDICAL_LOOK, LOOKS[1]  # three assignments of one model


def mentat(folder: Path, width: float = WIDTH) -> Figure:
    "Raters' agreement and the accuracy of o1 on triage and documentation, by the assignment of sliders to options."
    alpha = pd.read_csv(folder / "preferences-reading_agreement.csv").query('measure == "Krippendorff\'s alpha"')
    o1 = pd.read_csv(folder / "score-by_labels.csv")
    rows = []
    parts = ["all", "triage", "documentation"]
    for heading, table, column, looks in (
        ("Agreement of raters (Krippendorff's alpha)", alpha, "reading", {"shown": _SHOWN, "release": _RELEASED}),
        ("Accuracy of o1", o1, "labels", {"as shown": _SHOWN, "as released": _RELEASED, "results file": _AUTHORS}),
    ):
        rows.append(ChartRow(heading))
        for category in parts:
            by_assignment = table[table["category"] == category].set_index(column)
            marks = [_mark(by_assignment.loc[x], look) for x, look in looks.items()]
            rows.append(ChartRow(category, marks, f"n = {by_assignment['n'].iloc[0]}"))
    n = alpha[alpha["reading"] == "shown"].set_index("category")["n"]
    beside = n["all"] - n["triage"] - n["documentation"]
    value = {x: f"{rows[1].marks[k].estimate:.2f}" for k, x in enumerate(("shown", "released"))}
    right = {x: f"{rows[5].marks[k].estimate:.2f}" for k, x in enumerate(("shown", "released"))}
    title = (
        f"With sliders as shown, raters agree (alpha {value['shown']}) and o1 scores {right['shown']}; "
        f"as released, {value['released']} and {right['released']}"
    )
    signs = [Sign(_SHOWN, "as the screen showed"), Sign(_RELEASED, "as released"), Sign(_AUTHORS, "authors' labels")]
    return chart(
        rows,
        title=title,
        legend=signs,
        key=f"Questions rated with sliders; {beside} without an answer of o1 in the release are in no category. "
        "Lines: 95% confidence intervals. Accuracy by chance: 0.20.",
        xlabel="alpha, accuracy: higher is better",
        limits=(0, 1),
        width=width,
        told=f"{title}.",
    )


def mhqa(folder: Path, width: float = WIDTH) -> Figure:
    "Accuracy of the encoders before fine-tuning, from the released predictions."
    table = pd.read_csv(folder / "score-accuracy.csv").query("by == 'all' and mode == 'zero_shot'")
    table = table.sort_values("estimate", ascending=False)
    rows = [ChartRow(printed_name(r.model), [_mark(r, GENERAL_LOOK)]) for r in table.itertuples()]
    above = int((table["ci_low"] > 0.25).sum())
    best = table.iloc[0]
    title = (
        f"Before fine-tuning, {above} of {len(table)} encoders beat chance (0.25); "
        f"{printed_name(best.model)} is highest ({best.estimate:.2f})"
    )
    return chart(
        rows,
        title=title,
        key=f"Released predictions on {best.n:,} questions. Lines: 95% confidence intervals, each for itself.",
        xlabel="accuracy: higher is better",
        limits=(0, 1),
        refs={"chance .25": 0.25},
        width=width,
        told=f"{title}.",
    )


PAPERS: dict[str, Callable[[Path, float], Figure]] = {
    "counselingbench": counselingbench,
    "mentat": mentat,
    "mhqa": mhqa,
}


_LOOKS = {"general": GENERAL_LOOK, "first": GENERAL_LOOK, "medical": MEDICAL_LOOK, "second": MEDICAL_LOOK}
_TITLE = "Five papers on language models in mental health, and what of each holds"


def _rows(plot: Plot, values: Mapping[str, Quantity]) -> list[ChartRow]:
    "The rows of a paper's key number."
    upper_limit = plot.limits[1]
    line = next((values[name].value / upper_limit for name in plot.lines.values()), float("nan"))
    rows = []
    for row in plot.rows:
        marks = []
        for dot in row.dots:
            q = values[dot.of]
            low, high = (values[name].value if name else x for name, x in ((dot.low, q.low), (dot.high, q.high)))
            look = PLAIN if q.printed else _LOOKS[dot.kind]
            marks.append(
                Mark(q.value / upper_limit, low / upper_limit, high / upper_limit, look, hollow=q.printed, tick=line)
            )
        rows.append(ChartRow(row.name, marks, filled_text(row.small, values)))
    return rows


def front_figure(
    papers: Sequence[FrontPaper],
    verdicts: pd.DataFrame,  # of all papers, as the ledger has them
    folder: str | Path,  # reports/replication
    width: float = WIDTH,  # px
) -> Figure:
    "The key numbers of the first page with the verdicts in words."
    rows, sentences = [], []
    for claims, front in papers:
        tables = committed_tables(folder, claims.path.parent.name, verdicts[verdicts["paper"] == claims.name])
        values = quantities(claims, tables)
        rows += [ChartRow(f"{claims.name}: {front.verdict}"), *_rows(front.key, values)]
        sentences.append(f"{claims.name}: {front.verdict}. {filled_text(front.holds, values)}")
    signs = [Sign(GENERAL_LOOK, "computed here"), Sign(MEDICAL_LOOK, "by the authors' labels")]
    signs.append(Sign(PLAIN, "in print", hollow=True))
    return chart(
        rows,
        title=_TITLE,
        legend=signs,
        key="Line: interval, 95%. Stroke: reference (chance, pass mark, physicians).",
        xlabel="accuracy, kappa, or share of 100 points",
        limits=(0, 1),
        width=width,
        told=" ".join([f"{_TITLE}.", *sentences]),
    )
