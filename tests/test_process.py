"""The process of a stage: what a cell leaves in it, and who forks it."""

import os
import re
import shutil
import subprocess
import sys
import time

import nbformat
import pytest
import yaml
from conftest import BIN, ENV, ROOT

CELLS = (
    "seed = 1",
    "import pandas as pd\nfrom IPython.display import HTML, display\nprint('one')\nprint('two', end='')",
    "pd.DataFrame({f'a long name {k}': range(3) for k in range(15)})",
    "display(HTML('<b>x</b>'), pd.Series([1.5], name='y')); display({'image/png': b'PNG'}, raw=True)",
    "from matplotlib.figure import Figure\nFigure(figsize=(2, 1)).subplots().figure",
    "shown = display('first', display_id=True)\nshown.update('second');",
    "import sys, warnings\nprint('said', file=sys.stderr)\n'last'",
    "None",
    "await __import__('asyncio').sleep(0)\nseed + 1",
    "import os\n(os.environ['PYTHONHASHSEED'], __name__, pd.get_option('display.width'))",
    "1 / 0",
    "print('never')",
)
RUN = """
import sys, papermill, mhbench.run.notebook
try:
    papermill.execute_notebook(
        "in.ipynb", sys.argv[1] + ".ipynb", None, sys.argv[1], kernel_name="python3", progress_bar=False
    )
except papermill.PapermillExecutionError as e:
    print(e.cell_index, e.ename, e.evalue)
"""


def plain(cell) -> list:
    "What a cell leaves but for its standard error, where a kernel logs too, and without the colours of a traceback."
    outputs = [dict(o) for o in cell.outputs if o.get("name") != "stderr"]
    for o in outputs:
        o |= {"traceback": re.sub(r"\x1b\[[\d;]*m", "", "\n".join(o.get("traceback", [])))}
    return outputs


def test_a_cell_leaves_what_it_leaves_in_a_kernel(tmp_path):
    cells = [nbformat.v4.new_code_cell(c) for c in CELLS]
    kernel = {"name": "python3", "display_name": "python3", "language": "python"}
    book = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})
    nbformat.write(book, tmp_path / "in.ipynb")
    env, left = {**ENV, "PYTHONPATH": str(ROOT)}, {}
    for engine in ("here", "nbclient"):
        done = subprocess.run(
            [sys.executable, "-c", RUN, engine], cwd=tmp_path, env=env, capture_output=True, text=True, check=True
        )
        assert done.stdout.split() == ["10", "ZeroDivisionError", "division", "by", "zero"]
        left[engine] = [c for c in nbformat.read(tmp_path / f"{engine}.ipynb", 4).cells if c.cell_type == "code"]
    for here, there in zip(left["here"], left["nbclient"], strict=True):
        assert here.source == there.source and here.execution_count == there.execution_count
        assert plain(here) == plain(there), here.source
    assert [o.text for o in left["here"][6].outputs if o.get("name") == "stderr"] == ["said\n"]


FIGURE = """
from mhbench.report.style import canvas
from mhbench.run.stage import Stage
s = Stage("agreement", "mentat", "", n_items=2)
fig, ax = canvas(2, 2)
s.figure("one", fig, "A line")
"""


def test_a_figure_is_in_its_notebook_as_a_picture(tmp_path):
    import base64

    cells = [FIGURE, "s.done({})"]
    kernel = {"name": "python3", "display_name": "python3", "language": "python"}
    cells = [nbformat.v4.new_code_cell(c) for c in cells]
    book = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})
    nbformat.write(book, tmp_path / "in.ipynb")
    env = {**ENV, "PYTHONPATH": str(ROOT), "MHBENCH_ROOT": str(ROOT)}
    for engine in ("here", "nbclient"):
        subprocess.run([sys.executable, "-c", RUN, engine], cwd=tmp_path, env=env, capture_output=True, check=True)
        (shown,) = nbformat.read(tmp_path / f"{engine}.ipynb", 4).cells[0].outputs
        assert base64.b64decode(shown.data["image/png"]).startswith(b"\x89PNG"), engine


ASKED = """
export DVC_STAGE=prepare
mhbench run prepare --study nobody 2> first; echo $?
ls .mhbench | grep -c warm
sh -c 'mhbench run prepare --study nobody; exit $?' 2> second; echo $?
ls .mhbench | grep -c warm
OTHER=1 mhbench run prepare --study nobody; ls .mhbench | grep -c warm
touch "$MHBENCH/errors.py"; mhbench run prepare --study nobody; ls .mhbench | grep -c warm
mhbench run prepare --study mhqa
: # or bash would become that command, and another would be its parent
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a warm process is forked on Linux alone")
def test_stages_of_one_repro_are_forked_from_a_process_that_ends_with_it(house, tmp_path):
    package = tmp_path / "code" / "mhbench"
    not_compiled = shutil.ignore_patterns("__pycache__")  # Python compiles it meanwhile, and it is the same code
    shutil.copytree(ROOT / "mhbench", package, ignore=not_compiled)
    env = ENV | {"MHBENCH_ROOT": str(house.top), "MHBENCH": str(package)}
    env |= {"PYTHONPATH": str(package.parent), "PATH": f"{BIN}{os.pathsep}{ENV['PATH']}"}
    done = subprocess.run(["bash", "-c", ASKED], cwd=house.top, env=env, capture_output=True, text=True)
    said = (house.top / "first").read_text()
    assert "study must be one of studies" in said and said == (house.top / "second").read_text()
    counted = [line for line in done.stdout.splitlines() if line.isdigit()]
    assert counted == ["1", "1", "1", "1", "2", "3"], "another for another environment, and for changed code"
    assert "prepare mhqa: results" in done.stdout and "stage" in done.stderr
    until = time.monotonic() + 10
    while left := [f.name for f in (house.top / ".mhbench").glob("warm-*")]:
        assert time.monotonic() < until, f"{left} outlived the process that ran the stages"
        time.sleep(0.05)


LEARNT = """
import json, os, socket, sys, types
from mhbench.run import child

child._LIBRARIES, child._import_used = ("slow",), lambda: None
listening = socket.socket(socket.AF_UNIX)
listening.bind("warm")
listening.listen()
if os.fork() == 0:
    asked = child._serve(listening, os.getppid())
    if asked:  # in the process of a stage
        (_, stage), told = asked
        print(stage, *(name for name in ("slow", "slow.part", "slow.made", "colorsys") if name in sys.modules))
        if stage == "judge":
            import colorsys, slow.part
            sys.modules["slow.made"] = types.ModuleType("slow.made")  # nobody can import it again
        child._tell(told)
        sys.stdout.flush()
    os._exit(0)
for stage in ("judge", "score", None, "judge", "score"):
    with socket.socket(socket.AF_UNIX) as conn:
        conn.connect("warm")
        if stage:  # or this caller goes before it has asked
            socket.send_fds(conn, [b"."], [0, 1, 2])
            conn.sendall(json.dumps({"words": ["run", stage], "environment": {}, "folder": "."}).encode() + b"\\n")
            assert conn.makefile().readlines() == ["begun\\n", "0\\n"]
"""


def test_a_stage_finds_in_memory_what_one_of_its_name_has_imported(tmp_path):
    "Modules of the libraries of models, and no others; and so does every stage after it."
    (tmp_path / "slow").mkdir()
    for name in ("__init__", "part"):
        (tmp_path / "slow" / f"{name}.py").write_text("", encoding="utf-8")
    env = {**ENV, "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}
    done = subprocess.run([sys.executable, "-c", LEARNT], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["judge", "score", "judge slow slow.part", "score slow slow.part"], done.stderr


BUSY = """
import contextlib, os, signal, socket, threading
from pathlib import Path
from mhbench.run import process

@contextlib.contextmanager
def warm():
    yield Path("warm"), 0

process._may_be_forked, process._warm = lambda: True, warm
signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever the tests were started with
listening, taken = socket.socket(socket.AF_UNIX), []
listening.bind("warm")
listening.listen()

def interrupt():
    taken.append(listening.accept())  # and nothing begins
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt, daemon=True).start()
process.apart(["run", "score"])
"""


def test_an_interrupt_before_the_stage_has_begun_is_not_lost(tmp_path):
    env = {**ENV, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", BUSY], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=30
    )
    assert done.stderr.endswith("KeyboardInterrupt\n"), done.stderr


def repro(program, folder, shell, **env):
    "DVC by its path, with a PATH that holds neither it nor mhbench."
    env = {**ENV, "PATH": "/usr/bin:/bin", "SHELL": shell, **env}
    env = {k: v for k, v in env.items() if k != "MHBENCH_ROOT"}
    return subprocess.run([*program, "repro"], cwd=folder, env=env, capture_output=True, text=True)


@pytest.fixture
def called(tmp_path):
    "A folder whose first stage is the pipeline's, and asks for the version alone."
    top = tmp_path / "called"
    (top / "nbs" / "stages").mkdir(parents=True)
    shutil.copy(ROOT / "nbs" / "stages" / "mhbench.sh", top / "nbs" / "stages")
    stage = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]["inputs"]
    stage["cmd"] = stage["cmd"].replace(" inputs", " --version > results/inputs/said")
    (top / "dvc.yaml").write_text(yaml.safe_dump({"stages": {"inputs": stage}}), encoding="utf-8")
    (top / "results" / "inputs").mkdir(parents=True)
    (top / "results" / "inputs" / "kept").write_text("of an earlier run", encoding="utf-8")
    subprocess.run([BIN / "dvc", "init", "--no-scm", "-q"], cwd=top, check=True, env=ENV)
    return top


@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash", ""])
def test_a_stage_finds_the_command_that_is_installed_beside_dvc(shell, called):
    done = repro([BIN / "dvc"], called, shell)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (called / "results" / "inputs" / "said").read_text(encoding="utf-8").startswith("mhbench ")


def test_where_there_is_no_such_command_dvc_removes_nothing(called, tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    places = os.pathsep.join(p for p in sys.path if p)
    done = repro([tmp_path / "bin" / "python", "-m", "dvc"], called, "/bin/sh", PYTHONPATH=places)
    assert done.returncode and "mhbench: must be installed beside DVC" in done.stderr, done.stderr
    assert (called / "results" / "inputs" / "kept").exists()
    (called / ".venv" / "bin").mkdir(parents=True)
    (called / ".venv" / "bin" / "mhbench").symlink_to(BIN / "mhbench")
    done = repro([tmp_path / "bin" / "python", "-m", "dvc"], called, "/bin/sh", PYTHONPATH=places)
    assert done.returncode == 0, done.stderr


def test_every_stage_is_run_by_that_script():
    stages = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
    assert {s["cmd"].partition("mhbench.sh ")[0] for s in stages.values()} == {"sh nbs/stages/"}
