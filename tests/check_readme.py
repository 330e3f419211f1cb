"""README.md is nbs/index.ipynb as Markdown, and the figures of the papers are drawn from committed tables.

With --write both are written, without it the text is compared (exit 1 where it differs).
"""

import sys
from pathlib import Path

import nbformat
from nbconvert import MarkdownExporter

ROOT = Path(__file__).resolve().parent.parent
FIGURES = ROOT / "figures" / "replication"


def rendered() -> str:
    nb = nbformat.read(ROOT / "nbs" / "index.ipynb", 4)
    nb.cells = [c for c in nb.cells if not c.source.startswith("#| hide") and not c.source.startswith("#| default_exp")]
    nb.metadata["language_info"] = {"name": "python"}
    text, _ = MarkdownExporter(exclude_input_prompt=True).from_notebook_node(nb)
    lines = [line.rstrip() for line in text.strip().splitlines()]
    return "<!-- made from nbs/index.ipynb by `make readme`: edit that -->\n\n" + "\n".join(lines) + "\n"


def drawn() -> dict:  # name of the file -> figure
    "The figures of the papers, for a page and for a telephone."
    from replication_figures import PAPERS, front_figure

    from mhbench.report.style import WIDE, WIDTH
    from mhbench.tools.ledger import front_papers

    folder = ROOT / "reports" / "replication"
    papers = front_papers(ROOT)
    found = {f"first{end}": front_figure(*papers, folder, width) for end, width in (("", WIDE), ("_390", WIDTH))}
    for name, draw in PAPERS.items():
        folder = ROOT / "reports" / "replication" / name
        found |= {f"{name}{end}": draw(folder, width) for end, width in (("", WIDE), ("_390", WIDTH))}
    return found


if __name__ == "__main__":
    target = ROOT / "README.md"
    text = rendered()
    if "--write" in sys.argv:
        target.write_text(text, encoding="utf-8")
        from mhbench.report.style import save

        for name, figure in drawn().items():
            save(figure, name, FIGURES)
    elif not target.exists() or target.read_text(encoding="utf-8") != text:
        sys.exit("README.md is out of step with nbs/index.ipynb: run `make readme`")
