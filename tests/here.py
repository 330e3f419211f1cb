"""Stages whose notebooks run in this process: no kernel starts, and what one imported the next one has.

For tests of what a stage makes. That its notebook runs in a kernel of its own is what tests/test_pipeline.py shows.
"""

import ast
import contextlib
import io
import traceback

import pytest
from IPython.core.formatters import DisplayFormatter
from nbformat.v4 import new_output
from papermill.engines import Engine, NBClientEngine, papermill_engines


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
    "papermill's engine without a kernel."

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
def stages_by(engine: type[Engine]):
    with pytest.MonkeyPatch.context() as m:
        m.setitem(papermill_engines._engines, None, engine)
        yield


def stages_here():
    "Until its end, `run_stage` starts no kernel."
    return stages_by(Here)


def stages_in_kernels():
    "Until its end, `run_stage` starts a kernel, as it does for everybody but the tests."
    return stages_by(NBClientEngine)
