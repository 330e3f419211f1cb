"""`make outputs`: what module notebooks show, stored in those that have none, for the site and readers on the web.

A notebook is executed where it lies, in a kernel of its own; its outputs are kept where no cell failed, and without
what differs from run to run or belongs to this machine. `python docs/outputs.py NOTEBOOK ...` takes those anew.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

TOP = Path(__file__).resolve().parents[1]
LIMIT_S, LIMIT_BYTES = 600, 400_000
PASSING = re.compile(
    r"0x[0-9a-f]{6,}|/tmp/\w+|\d+(?:\.\d+)? ?(?:ms|µs)\b|" + re.escape(str(Path.home())) + r"/|" + str(TOP)
)

HIDDEN = re.compile(r"\s*#\| ?hide")


def missing() -> list[Path]:
    "Notebooks of modules in which no cell has an output."
    found = [f for f in sorted((TOP / "nbs").rglob("*.ipynb")) if f.parent.name not in ("stages", "nbs")]
    return [f for f in found if not any(c.get("outputs") for c in nbformat.read(f, 4).cells)]


def text_of(output: dict) -> str:
    return str(output.get("text") or {k: v for k, v in output.get("data", {}).items() if not k.startswith("image/")})


def kept(outputs: list[dict]) -> list[dict]:
    "The outputs of a cell; none where one would differ in the next run, or on another machine."
    out = [o for o in outputs if not (o.output_type == "stream" and o.name == "stderr")]
    if any(PASSING.search(text_of(o)) for o in out):
        return []
    for o in out:
        o.get("data", {}).pop("application/javascript", None)
        if "execution_count" in o:
            o.execution_count = None
    return out


def store(file: Path) -> str:
    "What became of a notebook."
    nb = nbformat.read(file, 4)
    ran = nbformat.from_dict(nb)
    ran.cells = [c for c in ran.cells if "nbdev_export" not in c.source]  # it would write the package anew
    where = {"metadata": {"path": file.parent}}
    inline = ["--matplotlib=inline", "--IPKernelApp.log_level=50"]  # a figure is shown as a picture, not by its name
    client = NotebookClient(ran, timeout=LIMIT_S, kernel_name="python3", resources=where, extra_arguments=inline)
    try:
        client.execute()
    except (CellExecutionError, TimeoutError, RuntimeError) as e:
        return f"not stored: {type(e).__name__}: {str(e).strip().splitlines()[-1][:200]}"
    shown = {c["id"]: kept(c.outputs) for c in ran.cells if c.cell_type == "code" and not HIDDEN.match(c.source)}
    for cell in nb.cells:
        if cell.cell_type == "code":
            cell.outputs = shown.get(cell["id"], [])
    if (size := len(nbformat.writes(nb))) > LIMIT_BYTES:
        return f"not stored: it would have {size:,} bytes"
    n = sum(bool(c.get("outputs")) for c in nb.cells)
    if n:
        nbformat.write(nb, file)
    return f"{n} outputs"


def main(names: list[str]) -> int:
    os.environ |= {"PYTHONHASHSEED": "0", "TOKENIZERS_PARALLELISM": "false", "MPLCONFIGDIR": str(TOP / ".mhbench")}
    for file in [TOP / n for n in names] or missing():
        print(f"{file.relative_to(TOP)}: {store(file)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
