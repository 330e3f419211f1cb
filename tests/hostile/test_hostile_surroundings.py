"Where it runs: media that cannot be written, no inode left, odd paths and files, clocks that jump, floods of text."

import errno
import gzip
import json
import os
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pandas as pd
import pytest
import yaml
from conftest import BIN, ENV, ROOT

from mhbench.ask.cache import Cache, Row
from mhbench.corpus.load import load_corpus
from mhbench.records.answers import load_answers
from mhbench.report.page import ReportTable, Section, html_report, write_tables
from mhbench.run import cli
from mhbench.run.graph import before, graph
from mhbench.run.provenance import sha256

# -- file systems


def own_mounts() -> bool:
    "Whether a process may have mounts of its own here, without being root."
    if not shutil.which("unshare"):
        return False
    return subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode == 0


mounts = pytest.mark.skipif(not own_mounts(), reason="unshare -rm is not allowed here")


def within(house, mount: str, script: str) -> str:
    "What a script says in a shell that sees other mounts than everybody else."
    env = ENV | {"MHBENCH_ROOT": str(house.top), "MH": str(BIN / "mhbench"), "PY": sys.executable}
    command = ["unshare", "-rm", "bash", "-c", f"set -e; cd {house.top}; {mount}; cd {house.top}; set +e; {script}"]
    done = subprocess.run(command, env=env | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=120)
    said = done.stdout + done.stderr
    assert "Traceback" not in said and "site-packages" not in said, said
    return said


COMMANDS = """
from mhbench.run.cli import main
for command in ("plan", "select --models minilm", "run prepare --study mhqa", "inputs"):
    print(command.split()[0], main(command.split()), flush=True)
"""


@mounts
@pytest.mark.whole
def test_a_clone_that_cannot_be_written_is_counted_and_the_rest_refused(house):
    house.only("mhqa")
    house.params["run"]["models"] = ["minilm", "minilm-mhqa"]
    house.params["studies"]["mhqa"] = {k: house.params["studies"]["mhqa"][k] for k in ("prepare", "generate", "score")}
    house.write()
    before = (house.top / "params.yaml").read_bytes()
    (house.top / "commands.py").write_text(COMMANDS)
    said = within(house, "mount --bind . . && mount -o remount,ro,bind .", "$PY commands.py")
    assert all(f"{c} {n}\n" in said for c, n in {"plan": 0, "select": 1, "run": 1, "inputs": 1}.items()), said
    assert said.count("Read-only file system") == said.count("copy the clone to one that can") == 3, said
    assert (house.top / "params.yaml").read_bytes() == before and not list(house.top.glob("*.new"))


ASKED = """
import sys
from mhbench.ask.cache import Cache, Row
try:
    with Cache("held/c.sqlite") as c:
        c.put_many([Row("0" * 64, "m", "e", "ok", True, 1.0, "{}")])
        print("kept", len(c))
except Exception as e:
    print(type(e).__name__, e)
"""


@mounts
@pytest.mark.parametrize("inodes, part", [(1, "cannot be made"), (2, "free space"), (3, "free space"), (4, "kept 1")])
def test_a_cache_without_an_inode_left_says_so_before_anything_is_paid_for(inodes, part, house):
    (house.top / "held").mkdir()
    (house.top / "ask.py").write_text(ASKED)
    said = within(house, f"mount -t tmpfs -o nr_inodes={inodes} tmpfs held", "$PY ask.py")
    assert part in said and ("CacheError" in said) == (inodes < 4), said


@mounts
def test_results_without_an_inode_left_end_in_a_sentence(house):
    (house.top / "results").mkdir()
    said = within(house, "mount -t tmpfs -o nr_inodes=2 tmpfs results", "$MH inputs; echo ended $?")
    assert "ended 1" in said and "No space left on device" in said and "`df -i`" in said, said


# -- paths

ODD = ["a space", "50%", "%20d", "a?b#c", "new\nline", "'\"$(touch pwned)`;&", "…ü", "-rf", b"\xff\xfe"]


@pytest.mark.parametrize("name", ODD)
def test_a_cache_lies_where_it_is_put(name, tmp_path):
    folder = tmp_path / os.fsdecode(name)
    folder.mkdir()
    with Cache(folder / "c.sqlite") as c:
        c.put_many([Row("0" * 64, "m", "e", "ok", True, 1.0, "{}")])
    with Cache(folder / "c.sqlite", readonly=True) as c:
        assert len(c) == 1
    assert [p.name for p in tmp_path.iterdir()] == [folder.name]
    assert all(p.name.startswith("c.sqlite") for p in folder.iterdir())


def test_a_clone_may_have_any_name(house, tmp_path, monkeypatch):
    moved = tmp_path / "%20 ?#\n'\"$(touch pwned) clone"
    house.top.rename(moved)
    monkeypatch.setenv("MHBENCH_ROOT", str(moved))
    assert cli.main(["inputs"]) == 0 and (moved / "results/inputs/prepare/mhqa.json").exists()
    assert not list(tmp_path.rglob("pwned"))


def test_a_cache_behind_a_symlink_is_its_owners_alone_and_stays_one_file(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real/c.sqlite").touch(0o600)
    (tmp_path / "link.sqlite").symlink_to("real/c.sqlite")
    with Cache(tmp_path / "link.sqlite") as a, Cache(tmp_path / "real/c.sqlite") as b:
        a.put_many([Row("0" * 64, "m", "e", "ok", True, 1.0, "{}")])
        assert len(b) == 1
    assert stat.S_IMODE((tmp_path / "real/c.sqlite").stat().st_mode) == 0o600


def no_file(tmp_path, what: str) -> str:
    "A path that is neither a file nor a folder that can be read."
    path = tmp_path / "it"
    if what == "a pipe":
        os.mkfifo(path)
    elif what == "a symlink to itself":
        path.symlink_to("it")
    elif what == "a symlink to nothing":
        path.symlink_to("gone")
    return {"zeros without end": "/dev/zero", "nothing": "/dev/null", "a NUL in its name": f"{path}\0"}.get(
        what, str(path)
    )


@pytest.mark.parametrize(
    "what",
    ["a pipe", "a symlink to itself", "a symlink to nothing", "zeros without end", "nothing", "a NUL in its name"],
)
def test_what_is_no_file_is_refused_and_not_waited_for(what, tmp_path):
    path = no_file(tmp_path, what)
    for do in (
        lambda: sha256(path),
        lambda: load_corpus("mhqa", path, study="mhqa"),
        lambda: load_corpus("medqade", path, study="medqade", language="de"),
        lambda: load_answers(path, [], "someone"),
    ):
        with pytest.raises((ValueError, FileNotFoundError), match=r"must .*; got "):
            do()


def test_a_folder_that_holds_itself_is_hashed_once(tmp_path):
    (tmp_path / "a").write_text("x")
    (tmp_path / "up").symlink_to(".")
    assert len(sha256(tmp_path)) == 64


@pytest.mark.parametrize(
    "command", [["plan", "--params"], ["import", "mhqa"], ["cache", "export", "a.jsonl", "--cache"]]
)
def test_a_name_of_three_hundred_characters_is_one_sentence(command, house, capsys):
    assert cli.main([*command, "n" * 300]) == 1
    said = capsys.readouterr().err
    assert "File name too long" in said and said.count("\n") == 1, said


# -- for whose eyes


@pytest.mark.parametrize("before, after", [(None, 0o700), (0o755, 0o700), (0o775, 0o770), (0o777, 0o770)])
def test_texts_and_answers_are_for_their_owner_and_a_group_that_shares(before, after, house):
    os.umask(0o022)
    (house.top / ".dvc").mkdir()
    folders = [house.top / name for name in ("results/text", ".dvc/cache", ".mhbench")]
    for folder in folders if before else ():
        folder.mkdir(parents=True)
        folder.chmod(before)
    assert cli.main(["inputs"]) == 0
    assert [stat.S_IMODE(f.stat().st_mode) for f in folders] == [after] * 3


def test_answers_of_one_study_are_exported_alone(tmp_path, house):
    with Cache(tmp_path / "c.sqlite") as c:
        c.put_many([Row(f"{i:064x}", "m", "e", "ok", True, 1.0, f'{{"text": "{s}"}}', s) for i, s in enumerate("ab")])
    command = ["cache", "export", str(tmp_path / "x.gz"), "--study", "a", "--cache", str(tmp_path / "c.sqlite")]
    assert cli.main(command) == 0
    kept = gzip.decompress((tmp_path / "x.gz").read_bytes()).decode()
    assert '"study": "a"' in kept or '"a"' in kept
    assert kept.count("\n") == 1 and '"b"' not in kept


# -- files that stay behind, stages that start too early


def test_parameters_that_cannot_be_replaced_leave_nothing_behind(house, monkeypatch, capsys):
    def refused(self, *_):
        raise PermissionError(errno.EPERM, "Operation not permitted", str(self))

    before = (house.top / "params.yaml").read_bytes()
    monkeypatch.setattr(Path, "replace", refused)
    assert cli.main(["select", "--studies", "mhqa"]) == 1
    assert "Operation not permitted" in capsys.readouterr().err
    assert (house.top / "params.yaml").read_bytes() == before and not list(house.top.glob("*.new"))


def test_every_stage_comes_after_the_one_that_checks_the_parameters():
    "DVC puts names of params.yaml into a shell: `mhbench inputs` refuses those that a shell would read, and is first."
    stages = graph(ROOT)
    first = [name for name in stages if name != "inputs" and "inputs" not in before(stages, name)]
    assert first == [], first
    commands = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
    assert commands["inputs"]["cmd"] == "sh nbs/stages/mhbench.sh inputs" and commands["inputs"]["always_changed"]


@pytest.mark.parametrize("alone", [False, True])
def test_a_name_that_a_shell_would_read_runs_nothing_through_dvc(alone, house, monkeypatch):
    from dvc.exceptions import ReproductionError
    from dvc.repo import Repo

    name = "x; touch pwned; $(touch pwned) #"
    house.params["studies"] = {name: house.params["studies"]["mhqa"]}
    house.only(name)
    house.write()
    run = yaml.safe_dump({"run": house.params.pop("run")})
    (house.top / "run.yaml").write_text(run)
    (house.top / "params.yaml").write_text(yaml.safe_dump(house.params))
    (house.top / "dvc.yaml").unlink()
    shutil.copy(ROOT / "dvc.yaml", house.top)
    monkeypatch.chdir(house.top)
    monkeypatch.setenv("PATH", f"{BIN}{os.pathsep}{os.environ['PATH']}")
    with Repo.init(".", no_scm=True) as repo, pytest.raises(ReproductionError) as e:
        assert [s.cmd for s in repo.index.stages if s.name == f"prepare@{name}"] == [
            f"sh nbs/stages/mhbench.sh run prepare --study {name}"
        ]
        repo.reproduce(f"prepare@{name}", single_item=True) if alone else repo.reproduce()
    assert "touch" in str(e.value) if alone else "inputs" in str(e.value), "refused before the name reaches a shell"
    assert not list(house.top.rglob("pwned*")) and not list((house.top / "results/studies").glob("*/prepare/*"))


# -- clocks

YEAR = 365 * 86400.0


@pytest.mark.parametrize("jump", [-YEAR, -3600.0, 3600.0, YEAR])
def test_a_clock_that_jumps_leaves_no_question_unasked(jump, tmp_path, monkeypatch):
    keys, now = [f"{i:064x}" for i in range(5)], time.time()
    with Cache(tmp_path / "c.sqlite") as c:
        with Cache(tmp_path / "c.sqlite") as other:  # a run that lives: its marks count
            assert other.take(keys, "one run")[1] == set(keys)
            monkeypatch.setattr(time, "time", lambda: now + jump)
            assert c.take(keys, "another")[1] == set(), "whatever the clock says"
        assert c.take(keys, "a third")[1] == set(keys), "the marks of a run that has ended hold nobody up"


# -- floods


def test_a_cell_that_prints_a_gigabyte_leaves_a_notebook_that_opens(tmp_path):
    flood = "import sys\nfor _ in range(10_000):\n    print('x' * 100_000)\n    print('y' * 1_000, file=sys.stderr)"
    peak = (
        "next(x.split()[1] for x in open('/proc/self/status') if x.startswith('VmHWM'))"  # KiB, of this process alone
    )
    after = f"print('after')\nprint({peak})"
    cells = [nbformat.v4.new_code_cell(x) for x in (flood, after)]
    kernel = {"name": "python3", "display_name": "python3", "language": "python"}
    book = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})
    nbformat.write(book, tmp_path / "in.ipynb")
    ran = "import papermill, mhbench.run.notebook; papermill.execute_notebook('in.ipynb', 'out.ipynb', None, 'here')"
    subprocess.run([sys.executable, "-c", ran], cwd=tmp_path, env={**ENV, "PYTHONPATH": str(ROOT)}, check=True)
    assert (tmp_path / "out.ipynb").stat().st_size < 4 << 20
    first, second = nbformat.read(tmp_path / "out.ipynb", 4).cells
    text = "".join(o.text for o in first.outputs if o.name == "stdout")
    assert text.endswith("[what was printed after 1,000,000 characters is left out]\n") and len(text) < 1_000_100
    said, peak = "".join(o.text for o in second.outputs).split()
    assert said == "after" and int(peak) < 1 << 20, f"the process had {int(peak) >> 10} MiB"


@pytest.mark.parametrize("name", ["x" * 255, "x" * 5000, "new\nline", "\0", "\x1b[31m", "../up", "-", ""])
def test_a_name_of_any_form_is_a_file_of_its_own(name, tmp_path):
    frame = pd.DataFrame({"model": [name]})
    sections = [Section(name, tables=[ReportTable(name, frame), ReportTable(name + "!", frame)])]
    files = write_tables(sections, tmp_path / "report")
    assert len(set(files)) == 2 and all(f.parent == tmp_path / "report" and f.exists() for f in files)
    assert name[:3].strip() in html_report("t", "i", sections) or not name[:3].isalnum()


def test_captions_that_are_alike_for_eighty_characters_cost_no_table(tmp_path):
    long = "A caption that goes on and on until it is well beyond eighty characters of a name, and then "
    tables = [ReportTable(f"{long}{k}", pd.DataFrame({"k": [k]})) for k in range(12)]
    files = write_tables([Section("mhqa: score", tables=tables)], tmp_path)
    assert sorted(pd.read_csv(f)["k"][0] for f in files if f.suffix == ".csv") == list(range(12))


def test_a_thousand_models_are_known_by_what_decides_their_answers(house):
    for i in range(1000):
        house.params["models"][f"m{i}"] = {"endpoint": "encoder", "served": "minilm"}
    house.only("mhqa")
    house.params["run"]["models"] = [f"m{i}" for i in range(1000)]
    house.write()
    assert cli.main(["inputs"]) == 0 and len(list((house.top / "results/inputs/models").iterdir())) == 1000
    known = json.loads((house.top / "results/inputs/models/m999.json").read_text())
    assert known["endpoints"]["encoder"]["kind"] == "encoder"
