"""README.md is nbs/index.ipynb as Markdown, and its figure is drawn from a committed table.

With --write both are written, without it the text is compared (exit 1 where it differs).
"""

import sys
from pathlib import Path

import nbformat
import pandas as pd
from nbconvert import MarkdownExporter

ROOT = Path(__file__).resolve().parent.parent
FIGURES = ROOT / "figures" / "replication"
ACCURACY = ROOT / "reports" / "replication" / "counselingbench" / "score-accuracy.csv"


def rendered() -> str:
    nb = nbformat.read(ROOT / "nbs" / "index.ipynb", 4)
    nb.cells = [c for c in nb.cells if not c.source.startswith("#| hide") and not c.source.startswith("#| default_exp")]
    nb.metadata["language_info"] = {"name": "python"}
    text, _ = MarkdownExporter(exclude_input_prompt=True).from_notebook_node(nb)
    lines = [line.rstrip() for line in text.strip().splitlines()]
    return "<!-- made from nbs/index.ipynb by `make readme`: edit that -->\n\n" + "\n".join(lines) + "\n"


def drawn(table: pd.DataFrame):  # the score stage's accuracies of CounselingBench
    "The README's figure: who would pass."
    from mhbench.report.forest import intervals
    from mhbench.report.seen import compared
    from mhbench.run.replicate import replication
    from mhbench.steps.accuracy import figure_rows

    shown = figure_rows(table[table["by"] == "all"])
    zero_shot = shown[shown["mode"] == "zero_shot"]
    return intervals(
        shown,
        group="run",
        hue=None,
        kinds=replication("counselingbench").stages["score"]["groups"],
        marks={"chance .25": 0.25, "pass mark .63": 0.63, "experts .90": 0.90},
        limits=(0, 1),
        title=f"CounselingBench, released answers, zero shot: {compared(zero_shot, 0.63, 'the pass mark (0.63)')}",
    )


if __name__ == "__main__":
    target = ROOT / "README.md"
    text = rendered()
    if "--write" in sys.argv:
        target.write_text(text, encoding="utf-8")
        if ACCURACY.exists():
            from mhbench.report.style import save

            save(drawn(pd.read_csv(ACCURACY)), "counselingbench", FIGURES)
    elif not target.exists() or target.read_text(encoding="utf-8") != text:
        sys.exit("README.md is out of step with nbs/index.ipynb: run `make readme`")
