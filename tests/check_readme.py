"""README.md is nbs/index.ipynb as Markdown.

With --write it is written, without it compared (exit 1 where it differs).
"""

import sys
from pathlib import Path

import nbformat
from nbconvert import MarkdownExporter

ROOT = Path(__file__).resolve().parent.parent


def rendered() -> str:
    nb = nbformat.read(ROOT / "nbs" / "index.ipynb", 4)
    nb.cells = [c for c in nb.cells if not c.source.startswith("#| hide") and not c.source.startswith("#| default_exp")]
    nb.metadata["language_info"] = {"name": "python"}
    text, _ = MarkdownExporter(exclude_input_prompt=True).from_notebook_node(nb)
    lines = [line.rstrip() for line in text.strip().splitlines()]
    return "<!-- made from nbs/index.ipynb by `make readme`: edit that -->\n\n" + "\n".join(lines) + "\n"


if __name__ == "__main__":
    target = ROOT / "README.md"
    text = rendered()
    if "--write" in sys.argv:
        target.write_text(text, encoding="utf-8")
    elif not target.exists() or target.read_text(encoding="utf-8") != text:
        sys.exit("README.md is out of step with nbs/index.ipynb: run `make readme`")
