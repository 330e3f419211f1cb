"""The process of a stage: what a cell leaves in it, how it ends, and how DVC finds the command."""

import base64
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest
import yaml
from conftest import BIN, ENV, ROOT
from here import run_here

PORTS = """
import os
files = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
inodes = [os.readlink(f)[8:-1] for f in files if os.path.lexists(f)]
lines = [line.split() for name in ("tcp", "tcp6") for line in open(f"/proc/self/net/{name}")]
print([x[1] for x in lines if x[9] in inodes])
"""
FIGURE = """
import os
from matplotlib.figure import Figure
from mhbench.run.stage import Stage
s = Stage("agreement", "mentat", os.environ["MADE"])
fig = Figure((2, 2))
ax = fig.subplots()
s.figure("one", fig, "A line")
"""
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
    PORTS,
    FIGURE,
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
    "What a cell leaves but for its standard error, where a kernel logs too, and for how an error's place is written."
    outputs = [dict(o) for o in cell.outputs if o.get("name") != "stderr"]
    for o in (o for o in outputs if o["output_type"] == "error"):
        o |= {"traceback": [], "evalue": o["evalue"].split(" (line ")[0]}
    return outputs


@pytest.fixture(scope="module")
def cells_by_engine(tmp_path_factory) -> dict[str, list]:
    "The cells of one notebook after it ran in a process of the package, and in a kernel."
    folder = tmp_path_factory.mktemp("cells")
    kernel = {"name": "python3", "display_name": "python3", "language": "python"}
    book = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(c) for c in CELLS], metadata={"kernelspec": kernel}
    )
    nbformat.write(book, folder / "in.ipynb")
    run_here("prepare", "mentat", None, {"results": str(folder / "results"), "n_items": 2})
    env = {**ENV, "PYTHONPATH": str(ROOT), "MHBENCH_ROOT": str(ROOT), "MADE": str(folder / "results")}
    found = {}
    for engine in ("here", "nbclient"):
        done = subprocess.run(
            [sys.executable, "-c", RUN, engine], cwd=folder, env=env, capture_output=True, text=True, check=True
        )
        said = f"{CELLS.index('1 / 0')} ZeroDivisionError division by zero"
        assert done.stdout.strip() == (f"{said} (line 1 of the cell)" if engine == "here" else said)
        found[engine] = [c for c in nbformat.read(folder / f"{engine}.ipynb", 4).cells if c.cell_type == "code"]
    return found


def test_a_cell_leaves_what_it_leaves_in_a_kernel(cells_by_engine):
    for here, there in zip(cells_by_engine["here"], cells_by_engine["nbclient"], strict=True):
        assert here.source == there.source and here.execution_count == there.execution_count
        assert here.source in (PORTS, FIGURE) or plain(here) == plain(there), here.source
    assert [o.text for o in cells_by_engine["here"][6].outputs if o.get("name") == "stderr"] == ["said\n"]


def test_a_figure_is_in_its_notebook_as_a_picture(cells_by_engine):
    for engine, cells in cells_by_engine.items():
        (shown,) = cells[CELLS.index(FIGURE)].outputs
        assert base64.b64decode(shown.data["image/png"]).startswith(b"\x89PNG"), engine


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_notebook_opens_no_port(cells_by_engine):
    found = {engine: cells[CELLS.index(PORTS)].outputs for engine, cells in cells_by_engine.items()}
    [here], [there] = found["here"], found["nbclient"]
    assert here.text.strip() == "[]" != there.text.strip(), "a kernel's ports are seen"


EARLY = """
import os, signal
from mhbench.run import cli, process

os.environ["CALLER"] = str(os.getpid())
process._STAGE = "import os, signal; os.kill(int(os.environ['CALLER']), 2); os.kill(os.getpid(), 2); " + process._STAGE
signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever the tests were started with
raise SystemExit(cli.main(["run", "prepare", "--study", "mhqa"]))
"""


@pytest.mark.parametrize("pipeline", [{}, {"DVC_STAGE": "one", "MHBENCH_DVC": str(os.getpid())}], ids=["alone", "copy"])
def test_an_interrupt_before_the_stage_has_begun_is_not_lost(house, pipeline):
    env = {**ENV, "PYTHONPATH": str(ROOT), "MHBENCH_ROOT": str(house.top), **pipeline}
    done = subprocess.run(
        [sys.executable, "-c", EARLY], cwd=house.top, env=env, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 130 and "interrupted; what was answered is kept" in done.stderr, done.stderr
    assert done.stderr.count("\n") == 1 and not (house.top / "results").exists()


def test_a_program_is_told_what_went_wrong_in_a_stage(house):
    code = "from mhbench.run.execute import run_stage; run_stage('prepare', 'mhqa', overrides={'of': 1})"
    env = {**ENV, "PYTHONPATH": str(ROOT), "MHBENCH_ROOT": str(house.top)}
    done = subprocess.run([sys.executable, "-c", code], cwd=house.top, env=env, capture_output=True, text=True)
    assert "RuntimeError: run_stage: parameters must be declared by the notebook; got unknown ['of']" in done.stderr


SEEDED = """
from mhbench.run import process
process._STAGE = "print(hash('a'))"
process.run_in_child_process([])
"""


def test_a_stage_has_one_order_of_sets_whatever_the_environment_says(tmp_path):
    env = {**ENV, "PYTHONPATH": str(ROOT)}
    same = dict(cwd=tmp_path, capture_output=True, text=True, check=True)
    said = [
        subprocess.run([sys.executable, "-c", code], env=env | {"PYTHONHASHSEED": seed}, **same).stdout
        for code, seed in ((SEEDED, "7"), ("print(hash('a'))", "0"), ("print(hash('a'))", "7"))
    ]
    assert said[0] == said[1] != said[2]


PIPELINE = """
import json, os, subprocess, sys, time
os.environ |= {"MHBENCH_DVC": str(os.getpid())}
calls = json.loads(sys.argv[1])
for stage, code, more in calls:
    patch = f"from mhbench.run import process; process._STAGE = {code!r}"
    call = "print(process.run_in_child_process(['a', 'b']))"
    subprocess.run([sys.executable, "-c", f"{patch}; {call}"], env=os.environ | {"DVC_STAGE": stage} | more)
print(os.getpid())
"""
OWN = """
import sys
import mhbench.run.stage, mhbench.steps.parameters
print(sorted(m for m in sys.modules if m.startswith("mhbench.st")))
"""
TELL = """
import os, sys
template = open(f"/proc/{os.getppid()}/stat").read().split()[3]
kept = getattr(os, "left_behind", None)
os.left_behind = "a value"
packages, own = "pandas" in sys.modules, sorted(m for m in sys.modules if m.startswith("mhbench.st"))
print(template, kept, packages, own, sys.argv[1:], os.environ["DVC_STAGE"], hash("a"), os.getcwd(), flush=True)
"""


def run_pipeline(folder, *calls, contains="") -> list[str]:
    "What the commands of a pipeline print, and their exit statuses, a line each; last the pipeline's process."
    env = {**ENV, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", PIPELINE, json.dumps(calls)], cwd=folder, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0 and contains in done.stderr, done.stderr
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def shared() -> str:
    "The modules of statistics, steps and studies that the declaration of every study imports, and a stage: no others."
    env = {**ENV, "PYTHONPATH": str(ROOT)}
    loaded = subprocess.run([sys.executable, "-c", OWN], env=env, capture_output=True, text=True, check=True).stdout
    assert "mhbench.steps.parameters" in loaded and "mhbench.steps.accuracy" not in loaded
    return loaded.strip()


def is_running(process: str) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for_end(process: str) -> bool:
    "Whether a process ends within ten seconds."
    return any(not is_running(process) or time.sleep(0.1) for _ in range(100))


linux = pytest.mark.skipif(sys.platform != "linux", reason="a template of stages is made under Linux")


@linux
def test_stages_of_one_pipeline_are_copies_of_one_template_and_share_nothing_else(tmp_path, shared):
    lines = run_pipeline(tmp_path, ["one", TELL, {}], ["two", TELL, {}], ["three", TELL, {"OTHER": "1"}])
    (one, two, three), statuses = [line.split(" ", 1) for line in lines[:6:2]], lines[1:6:2]
    hashed = subprocess.run(
        [sys.executable, "-c", "print(hash('a'))"], env=ENV | {"PYTHONHASHSEED": "0"}, capture_output=True, text=True
    ).stdout.strip()
    assert statuses == ["0"] * 3 and one[0] == two[0] != three[0]
    for told, stage in ((one, "one"), (two, "two"), (three, "three")):
        assert told[1] == f"None True {shared} ['a', 'b'] {stage} {hashed} {tmp_path}"
    assert wait_for_end(one[0]) and wait_for_end(three[0])


@linux
def test_the_end_of_a_copy_is_that_of_its_command(tmp_path):
    ends = ("raise SystemExit(3)", "import os; os.kill(os.getpid(), 9)", "1 / 0")
    code = "try:\n    {}\nfinally:\n    print('ended', flush=True)"
    lines = run_pipeline(
        tmp_path, *(["one", code.format(end), {}] for end in ends), contains="got SIGKILL from outside"
    )
    assert lines[:2] == ["ended", "3"] and lines[2:4] == ["ended", "1"] and len(lines) == 5


@linux
def test_a_stage_without_a_template_starts_an_interpreter(tmp_path, shared):
    kill = (
        "import os; os.kill(int(open(f'/proc/{os.getppid()}/stat').read().split()[3]), 9); print('killed', flush=True)"
    )
    lines = run_pipeline(tmp_path, ["one", kill, {}], ["two", TELL, {}], ["three", TELL, {"MHBENCH_DVC": "4194305"}])
    assert lines[:2] == ["killed", "0"] and f" True {shared} " in lines[2] and lines[3] == "0"
    assert " False [] " in lines[4] and lines[5] == "0", "no process has the number 2**22 + 1"


@linux
def test_a_copy_ends_with_its_caller(tmp_path):
    slow = "import os, time; from mhbench.run.process import prepare_child_process as p; p(); "
    slow += "open('pid', 'w').write(str(os.getpid())); os.kill(int(os.environ['CALLER']), 9); time.sleep(60)"
    caller = "import os\nos.environ['CALLER'] = str(os.getpid())\nfrom mhbench.run import process\n"
    caller += f"process._STAGE = {slow!r}\nprocess.run_in_child_process([])"
    env = {**ENV, "PYTHONPATH": str(ROOT), "DVC_STAGE": "one", "MHBENCH_DVC": str(os.getpid())}
    done = subprocess.run([sys.executable, "-c", caller], cwd=tmp_path, env=env)
    assert done.returncode == -9 and wait_for_end((tmp_path / "pid").read_text(encoding="utf-8"))


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
