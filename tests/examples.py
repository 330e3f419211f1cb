"""A module notebook run as a test: no cell may fail, and what a cell shows must be what the notebook stores."""

import __future__

import ast
import asyncio
import contextlib
import gc
import inspect
import io
import json
import math
import os
import re
import sys
import traceback
import types
from functools import cache
from pathlib import Path
from unittest import mock

from IPython.core.formatters import DisplayFormatter
from nbformat.v4 import new_output

ROOT = Path(__file__).resolve().parent.parent
EXPORTED = re.compile(r"^#\| ?export\b", re.M)
MAGIC = re.compile(r"^%.*$", re.M)
SKIPPED = re.compile(r"nbdev_export|^#\| ?eval: ?false", re.M)
FIGURE = re.compile(r"<Figure size [^>]*>")  # a cell that shows only a figure is compared by its checks
NUMBER = re.compile(r"-?\d+\.\d+(?:e[+-]?\d+)?|-?\d+e[+-]?\d+")


CELL = __future__.annotations.compiler_flag | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT  # as a notebook's kernel compiles cells


def _ran(tree: ast.AST, how: str, space: dict, file: str):
    "What a cell's code gives; one event loop serves all cells of a notebook."
    code = compile(tree, file, how, flags=CELL)
    value = eval(code, space)
    if code.co_flags & inspect.CO_COROUTINE:
        return space.setdefault("_loop", asyncio.new_event_loop()).run_until_complete(value)
    return value


def cell_outputs(source: str, space: dict, file: str = "cell") -> list:
    "Run a cell as a notebook would: what it printed, displayed and left last, and how it ended."
    out, printed, formatter = [], io.StringIO(), DisplayFormatter()

    def display(*things) -> None:
        for x in things:
            out.append(new_output("display_data", data=formatter.format(x)[0]))

    space["display"] = display
    code = ast.parse(MAGIC.sub("", source))
    last = code.body.pop() if code.body and isinstance(code.body[-1], ast.Expr) else None
    try:
        with contextlib.redirect_stdout(printed):
            _ran(code, "exec", space, file)
            value = _ran(ast.Expression(last.value), "eval", space, file) if last else None
        if value is not None and not source.rstrip().endswith(";"):
            display(value)
    except (Exception, SystemExit) as e:
        out.append(new_output("error", ename=type(e).__name__, evalue=str(e), traceback=traceback.format_exception(e)))
    return [new_output("stream", name="stdout", text=printed.getvalue())] * bool(printed.getvalue()) + out


def shown(outputs: list) -> str:
    "The text that a cell printed or displayed; spaces, which a table's width decides, count once."
    texts = []
    for o in outputs:
        if o["output_type"] == "stream":
            texts.append("".join(o["text"]) if o["name"] == "stdout" else "")
        else:
            texts.append(FIGURE.sub("", "".join(o.get("data", {}).get("text/plain", ""))))
    return " ".join(" ".join(texts).split())


def same(one: str, two: str) -> bool:
    "Equal texts, whose decimal numbers may differ in their last digits (another machine's linear algebra)."
    if NUMBER.sub("#", one) != NUMBER.sub("#", two):
        return False
    pairs = zip(NUMBER.findall(one), NUMBER.findall(two), strict=True)
    return all(math.isclose(float(a), float(b), rel_tol=1e-4, abs_tol=1e-9) for a, b in pairs)


@contextlib.contextmanager
def _place(folder: Path):
    "As a notebook's kernel has it: its folder is the current one, and `__main__` is the notebook's."
    before, main = os.getcwd(), sys.modules["__main__"]
    space = types.ModuleType("__main__")
    os.chdir(folder)
    sys.modules["__main__"] = space
    try:
        with mock.patch.dict(os.environ):
            yield space.__dict__
    finally:
        sys.modules["__main__"] = main
        os.chdir(before)


@cache
def _defined(notebook: str) -> dict:
    with _place((ROOT / "nbs" / notebook).parent) as space:
        for cell in json.loads((ROOT / "nbs" / notebook).read_text(encoding="utf-8"))["cells"]:
            if cell["cell_type"] == "code":
                exec("".join(cell["source"]), space)
    return dict(space)


class notebook_functions:
    """What a notebook under nbs/ defines that exports nothing, such as the makers of the demonstration banks; it runs
    when the first name is asked for.
    """

    def __init__(self, notebook: str):
        self._notebook = notebook

    def __getattr__(self, name: str):
        return _defined(self._notebook)[name]


VARIES = {  # notebooks whose outputs need not be those stored, and why
    "ask/17_client": "what was answered before an interrupt",
    "tools/04_annotate": "times of day",
    "run/10_process": "what a process of its own prints; requests a second",
    "studies/mentat/05_readings": "the authors' release, where it is at hand",
    "studies/mentat/09_release": "the authors' release, where it is at hand",
    "studies/mentat/08_preferences": "the authors' release, where it is at hand",
}


def first_fault(notebook: Path, code=lambda cell: (cell["source"], "cell")) -> str | None:
    """What the first cell says that fails, or that shows something else than it stores (but see VARIES). `code` gives a
    cell's source and the name of its file.
    """
    import matplotlib.pyplot as plt
    import pandas as pd

    gc.freeze()  # what was loaded before is searched for garbage no more
    pd.reset_option("display")
    pd.set_option("display.max_columns", 20)  # as in a notebook
    compared = notebook.relative_to(ROOT / "nbs").with_suffix("").as_posix() not in VARIES
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    with _place(notebook.parent) as space:
        try:
            for k, cell in enumerate(cells):
                source = "".join(cell["source"])
                if cell["cell_type"] != "code" or SKIPPED.search(source):
                    continue
                source, file = code({**cell, "source": source})
                outputs = cell_outputs(source, space, file)
                fault = next((o for o in outputs if o.output_type == "error"), None)
                if fault is not None:
                    return f"cell {k}: {fault.ename}: {fault.evalue}\n{''.join(fault.traceback)}"
                now, stored = shown(outputs), shown(cell["outputs"])
                if compared and stored and not same(now, stored):
                    return f"cell {k} shows\n{now}\nand stores\n{stored}"
        finally:
            plt.close("all")
    return None
