"""Stages whose notebooks run in this process: no other one starts, and what one imported the next one has.

For tests of what a stage makes. That it runs in a process of its own is what tests/test_process.py shows.
"""

import contextlib

import pytest
from examples import cell_outputs
from papermill.engines import Engine, papermill_engines

import mhbench.run.notebook  # noqa: F401  registers the engine of stages
from mhbench.run import cli, execute, stage


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


def run_here(name, study, model, overrides, params="params.yaml"):
    return execute.run_stage(name, study, model, params=params, overrides=overrides, in_process=True)


@contextlib.contextmanager
def stages_here():
    "Until its end, `run_stage` and `mhbench run` start no process."
    with pytest.MonkeyPatch.context() as m:
        m.setitem(papermill_engines._engines, "here", Here)
        for module in (execute, stage):
            m.setattr(module, "stage_by_command", run_here)
        m.setattr(cli, "run_in_child_process", lambda words: cli.main(words, in_process=True))
        m.setattr(cli, "prepare_child_process", lambda: None)
        yield
