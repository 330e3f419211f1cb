"An error of a cell arrives with its name, its words and its place, whatever IPython can make of it."

import sys

import nbformat
import pandas as pd
import papermill
import pytest
from IPython.core.interactiveshell import InteractiveShell
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from papermill.engines import papermill_engines

from mhbench.run import notebook
from mhbench.run.notebook import Here, Printed, displayed_number, error_output

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


def run(cells, folder):
    "A notebook of some cells, executed; its cells as they are kept."
    kernel = {"name": "python3", "display_name": "python3", "language": "python"}
    files = [str(folder / name) for name in ("in.ipynb", "out.ipynb")]
    made = [cell if isinstance(cell, dict) else new_code_cell(cell) for cell in cells]
    nbformat.write(new_notebook(cells=made, metadata={"kernelspec": kernel}), files[0])
    try:
        papermill.execute_notebook(*files, engine_name="here", kernel_name="python3", progress_bar=False)
    finally:
        left = [c for c in nbformat.read(files[1], 4).cells if "papermill-error-cell-tag" not in str(c.metadata)]
    return left


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


def shown(output) -> tuple:
    "Kind and text of an output."
    return output.output_type, output.get("name") or output.get("data", {}).get("text/plain"), output.get("text")


def test_cells_leave_what_a_kernel_would_leave_and_prose_and_blank_cells_end_nothing(tmp_path):
    cells = [
        new_markdown_cell("prose"),
        "x = 2\nx + 1",
        "  \n",
        "import sys\nprint('out')\nprint('err', file=sys.stderr)",
        "from IPython.display import clear_output, display, update_display\n"
        "display('a', display_id='d')\ndisplay('b')\nx",
        "update_display('c', display_id='d')\n'last'",
        "print('gone')\nsys.stdout.flush()\nclear_output()\nprint('kept')",
        "Out, In[1:2], __name__",
        "import pandas as pd\npd.get_option('display.max_columns'), pd.get_option('display.max_colwidth')",
    ]
    with pd.option_context("display.max_columns", 3, "display.max_colwidth", 4):
        left = run(cells, tmp_path)
    outputs = [[shown(o) for o in c.get("outputs", ())] for c in left]
    assert outputs[:3] == [[], [("execute_result", "3", None)], []]
    assert sorted(outputs[3]) == [("stream", "stderr", "err\n"), ("stream", "stdout", "out\n")]
    displayed = [("display_data", "'c'", None), ("display_data", "'b'", None), ("execute_result", "2", None)]
    assert outputs[4:6] == [displayed, [("execute_result", "'last'", None)]]
    assert outputs[6] == [("stream", "stdout", "kept\n")]
    assert outputs[7] == [("execute_result", "({}, ['x = 2\\nx + 1'], '__main__')", None)]
    assert outputs[8] == [("execute_result", "(20, 120)", None)]
    assert [c.get("execution_count") for c in left] == [None, 1, None, 2, 3, 4, 5, 6, 7]


def test_the_shell_that_was_there_is_there_again(tmp_path):
    outer, main = InteractiveShell.instance(), sys.modules["__main__"]
    try:
        run(["y = 1"], tmp_path)
        assert InteractiveShell._instance is outer is type(outer)._instance and sys.modules["__main__"] is main
    finally:
        InteractiveShell.clear_instance()
    run(["y = 1"], tmp_path)
    assert not InteractiveShell.initialized() and sys.modules["__main__"] is main


def test_cells_after_an_error_are_not_run_and_an_interrupt_ends_it_at_once(tmp_path):
    for error, kind in (("ValueError(1)", papermill.PapermillExecutionError), ("KeyboardInterrupt", KeyboardInterrupt)):
        with pytest.raises(kind):
            run(["1", f"print('so far')\nraise {error}", "2"], tmp_path)
        left = nbformat.read(tmp_path / "out.ipynb", 4).cells
        found = [[shown(o)[:2] for o in c.outputs] for c in left if c.cell_type == "code"]
        assert found[-1] == [] and found[-2] == [("stream", "stdout"), ("error", None)]
        assert found[-3] == [("execute_result", "1")]


def test_a_group_of_errors_is_told_three_groups_deep_and_a_long_text_is_cut(monkeypatch):
    deep = ValueError("inmost")
    for name in "dcba":
        deep = ExceptionGroup(name, [deep])
    words = notebook._error_in_words(deep)
    assert words == "; ".join(f"ExceptionGroup: {x} (1 sub-exception)" for x in "abcd").removeprefix("ExceptionGroup: ")
    monkeypatch.setattr(notebook, "PRINTED", 5)
    output = error_output(OSError("123456"))
    assert (output.ename, output.evalue) == ("OSErr", "12345") and output.traceback == ["OSErr"]


def test_streams_of_a_cell_are_joined_where_nothing_stands_between_them():
    outputs: list = []
    out, err = Printed("stdout", outputs, limit=4), Printed("stderr", outputs)
    assert out.writable() and out.encoding == "utf-8" and Printed("stdout", []).most == 1_000_000
    for stream, text in ((out, "a"), (out, "b"), (err, "c"), (out, "d"), (out, "")):
        assert stream.write(text) == len(text)
        stream.flush()
    assert [(o.name, o.text) for o in outputs] == [("stdout", "ab"), ("stderr", "c"), ("stdout", "d")]
    out.write("efg")
    out.flush()
    assert outputs[-1].text == "de\n[what was printed after 4 characters is left out]\n"


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (40.0, "40"),
        (-3.0, "-3"),
        (1.0, "1.000"),
        (0.0, "0.000"),
        (0.08326, "0.083"),
        (5.08e-10, "5.1e-10"),
        (1e-16, "0.000"),
    ],
)
def test_a_number_of_a_stage_s_table_is_short_and_a_small_one_is_not_0(x, text):
    assert displayed_number(x) == text
