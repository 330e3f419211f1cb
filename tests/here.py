"""Stages whose notebooks run in this process: no other one starts, and what one imported the next one has.

For tests of what a stage makes. That it runs in a process of its own is what tests/test_process.py shows.
"""

import ast
import contextlib
import io
import traceback

import pytest
from IPython.core.formatters import DisplayFormatter
from nbformat.v4 import new_output
from papermill.engines import Engine, papermill_engines

import mhbench.run.notebook  # noqa: F401  registers the engine of stages
from mhbench.run import cli, execute


def cell_outputs(source: str, space: dict) -> list:
    "Run a cell as a notebook would: what it printed, displayed and left last, and how it ended."
    out, printed, formatter = [], io.StringIO(), DisplayFormatter()

    def display(*things) -> None:
        for x in things:
            out.append(new_output("display_data", data=formatter.format(x)[0]))

    space["display"] = display
    code = ast.parse(source)
    last = code.body.pop() if code.body and isinstance(code.body[-1], ast.Expr) else None
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "cell", "exec"), space)
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), space) if last else None
        if value is not None and not source.rstrip().endswith(";"):
            display(value)
    except (Exception, SystemExit) as e:
        out.append(new_output("error", ename=type(e).__name__, evalue=str(e), traceback=traceback.format_exception(e)))
    return [new_output("stream", name="stdout", text=printed.getvalue())] * bool(printed.getvalue()) + out


class Here(Engine):
    "papermill's engine without a shell."

    @classmethod
    def execute_managed_notebook(cls, nb_man, kernel_name, **_):
        import matplotlib.pyplot as plt

        space: dict = {"__name__": "__main__"}
        try:
            for k, cell in enumerate(nb_man.nb.cells):
                if cell.cell_type != "code":
                    continue
                cell.outputs = cell_outputs(cell.source, space)
                if any(o.output_type == "error" for o in cell.outputs):
                    nb_man.cell_exception(cell, k)
                    break
        finally:
            plt.close("all")


@contextlib.contextmanager
def stages_here():
    "Until its end, `run_stage` and `mhbench run` start no process."
    with pytest.MonkeyPatch.context() as m:
        m.setitem(papermill_engines._engines, "here", Here)
        m.setattr(execute, "call", lambda job: execute.run_stage(**job, here=True))
        m.setattr(cli, "apart", lambda words: cli.main(words, here=True))
        yield
