"An error of a cell arrives with its name, its words and its place, whatever IPython can make of it."

import nbformat
import papermill
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from papermill.engines import papermill_engines

from mhbench.run.notebook import Here

ERRORS = {  # a cell -> the name and words of what papermill raises
    "class E(Exception):\n    def __str__(self): raise RuntimeError('no text')\nraise E": (
        "E",
        "(its text cannot be had: RuntimeError) (line 3 of the cell)",
    ),
    "class E(Exception):\n    def __str__(self): return 3\nraise E": (
        "E",
        "(its text cannot be had: TypeError) (line 3 of the cell)",
    ),
    "class E(ValueError):\n    def _render_traceback_(self): return None\nraise E('the cause')": ("E", "the cause"),
    "class E(Exception):\n    def __getattribute__(self, name): raise KeyError(name)\nraise E('the cause')": (
        "E",
        "the cause (line 3 of the cell)",
    ),
    "raise ExceptionGroup('two', [ValueError('one'), ExceptionGroup('more', [OSError('other')])])": (
        "ExceptionGroup",
        "two (2 sub-exceptions); ValueError: one; ExceptionGroup: more (1 sub-exception); OSError: other"
        " (line 1 of the cell)",
    ),
    "raise ValueError('half a pair: \\ud800')": ("ValueError", "half a pair: \\ud800"),
    "e = ValueError('its own cause')\ne.__cause__ = e\nraise e": ("ValueError", "its own cause"),
    "exec(compile('raise ValueError(1)', '\\x00', 'exec'))": ("ValueError", "embedded null character"),
    "raise SystemExit(3)": ("SystemExit", "3"),
    "{}['x']": ("KeyError", "'x' (line 1 of the cell)"),
}


@pytest.fixture(autouse=True)
def _the_engine_of_stages(monkeypatch):
    monkeypatch.setitem(papermill_engines._engines, "here", Here)


def failing(source: str, folder) -> papermill.PapermillExecutionError:
    kernel = {"name": "python3", "display_name": "python3", "language": "python"}
    notebook = new_notebook(cells=[new_code_cell("x = 1"), new_code_cell(source)], metadata={"kernelspec": kernel})
    files = [str(folder / name) for name in ("in.ipynb", "out.ipynb")]
    nbformat.write(notebook, files[0])
    with pytest.raises(papermill.PapermillExecutionError) as e:
        papermill.execute_notebook(*files, engine_name="here", kernel_name="python3", progress_bar=False)
    [kept] = [o for o in nbformat.read(files[1], 4).cells[-1].outputs if o.output_type == "error"]
    assert (kept.ename, kept.evalue) == (e.value.ename, e.value.evalue), "the notebook that is left says it too"
    return e.value


@pytest.mark.parametrize("source", ERRORS)
def test_an_error_that_ipython_cannot_format_has_its_cause(source, tmp_path):
    e = failing(source, tmp_path)
    assert (e.cell_index, e.ename, e.evalue) == (1, *ERRORS[source])
    assert e.traceback and "interactiveshell" not in "".join(e.traceback)


def test_a_fault_of_the_package_says_where_and_a_cell_that_is_no_python_what(tmp_path):
    e = failing("from mhbench.stats.estimate import Estimate\nEstimate.from_limits({}['x'])", tmp_path)
    assert e.evalue == "'x' (line 2 of the cell)"
    e = failing("from mhbench.report.tables import in_a_sentence\nin_a_sentence(None)", tmp_path)
    assert (
        e.ename == "TypeError"
        and "mhbench/report/tables.py:" in e.evalue
        and e.evalue.endswith(", in _corrected_p_columns)")
    )
    e = failing("try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('outer') from e", tmp_path)
    assert e.evalue == "outer" and "ZeroDivisionError: division by zero" in "".join(e.traceback)
    e = failing("def (", tmp_path)
    assert e.ename == "SyntaxError" and "invalid syntax" in e.evalue
