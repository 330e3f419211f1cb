"""A person's files: no command but those whose purpose it is writes params.yaml or run.yaml, none writes into them, and
whenever a command is killed each of them is as it was, or as it is after the command: it is killed at each moment at
which it would replace one, and at every other moment it leaves them alone.
"""

import subprocess
import sys
import time

import pytest
import yaml
from conftest import BIN, ENV, mhbench, run

from mhbench.tools.edit import difference, edit, replace_file, study_entry, study_lines
from mhbench.tools.replicate import init

OWN = ("params.yaml", "run.yaml")
TABLE = "id,question,option A,option B,option C,answer\n" + "".join(f"q{k},What of {k}?,a,b,c,A\n" for k in range(6))
LOOK = """
import os, signal, sys
def look(event, args, own={own!r}, to={to!r}):
    if event == "open" and isinstance(args[0], (str, bytes, os.PathLike)):
        path, mode, flags = os.fsdecode(args[0]), args[1] or "", args[2] or 0
        if os.path.abspath(path) in own and (set(mode) & set("wax+") or flags & (os.O_WRONLY | os.O_RDWR)):
            note = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.write(note, f"{{sys.argv}} writes {{path}} {{mode}}\\n".encode())
    elif event in ("os.rename", "os.remove", "shutil.copyfile", "os.truncate"):
        at = 0 if event in ("os.remove", "os.truncate") else 1
        here = event != "os.remove" or args[1] in (-1, None)  # else it is a name in another folder
        if here and os.path.abspath(os.fsdecode(args[at])) in own and event != "os.rename":
            note = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.write(note, f"{{sys.argv}} {{event}} {{args}}\\n".encode())
        elif here and os.path.abspath(os.fsdecode(args[at])) in own:
            with open(to + ".replaced", "a") as f:  # told before it is done
                f.write(".")
            if os.path.getsize(to + ".replaced") == int(os.environ.get("KILLED_AT", 0)):
                os.killpg(0, signal.SIGKILL)
sys.addaudithook(look)
"""
READ_ONLY = (  # they run stages, read results or look at parameters; the status does not matter
    "plan",
    "inputs",
    "run prepare --study mhqa",
    "run report",
    "run --all",
    "summary",
    "compare HEAD .",
    "sweep score.n_boot=60,61 --target prepare@mhqa",
    "select --show",
    "fetch",
    "export hf out",
    "report",
)
WRITING = {  # command -> the files that it may change
    "select --studies mentat --models minilm --items 5": {"run.yaml"},
    "select --demo": {"run.yaml"},
    "new-study mine table.csv --yes --option licence=own": {"params.yaml", "run.yaml"},
    "import mhqa corpus.csv": {"params.yaml", "run.yaml"},
    "annotate new ward table.csv --raters a,b --kind sliders --yes --texts shared": {"params.yaml", "run.yaml"},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    "A working folder as `mhbench init` makes it, with a commit, and with comments of its owner."
    top = tmp_path_factory.mktemp("own") / "work"
    init(top)
    for name in OWN:
        (top / name).write_text(f"# mine\n{(top / name).read_text(encoding='utf-8')}# mine, too\n", encoding="utf-8")
    (top / "table.csv").write_text(TABLE, encoding="utf-8")
    (top / "corpus.csv").write_bytes((top / "data" / "mhqa" / "mhqa_demo.csv").read_bytes())
    text = (top / "params.yaml").read_text(encoding="utf-8")
    found = yaml.safe_load(text)["studies"]["mhqa"]
    small = {"prepare": found["prepare"] | {"answers": {}}, "generate": {"modes": {"zero_shot": {}}}, "score": {}}
    first, last = study_entry(text, "mhqa", "params.yaml")
    (top / "params.yaml").write_text(text[:first] + study_lines("mhqa", small) + text[last:], encoding="utf-8")
    mhbench("select", "--studies", "mhqa", "--models", "minilm", "--items", "3", cwd=top)
    git = ("git", "-c", "user.name=t", "-c", "user.email=t@example.org")
    run(*git, "add", "-A", cwd=top)
    run(*git, "commit", "-qm", "t", cwd=top)
    return top


@pytest.fixture
def looked_at(folder, tmp_path):
    """An environment in which every process of Python notes what it writes into the files; and the note. It counts how
    often it replaces one, and is killed at the one that KILLED_AT names.
    """
    note = tmp_path / "note.txt"
    own = {str(folder / name) for name in OWN}
    (tmp_path / "sitecustomize.py").write_text(LOOK.format(own=own, to=str(note)), encoding="utf-8")
    env = {k: v for k, v in ENV.items() if k != "MHBENCH_ROOT"} | {"PYTHONPATH": str(tmp_path)}
    return env, note


@pytest.fixture
def kept(folder):
    "The files' content, which is there again afterwards."
    before = {name: (folder / name).read_bytes() for name in OWN}
    yield before
    for name, content in before.items():
        (folder / name).write_bytes(content)
    for left in folder.glob(".*.new"):  # of a command that was killed
        left.unlink()


def ended(folder, words: str, env) -> None:
    "Run a command to its end, whatever that is."
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    command = [BIN / "mhbench", *words.split()]
    subprocess.run(command, cwd=folder, env=env, start_new_session=True, timeout=300, **quiet)


def written_at(folder) -> dict:
    "Which files they are, and when anything was last done to them: whoever writes or replaces one changes that."
    found = {name: (folder / name).stat() for name in OWN}
    return {name: (s.st_ino, s.st_mtime_ns, s.st_ctime_ns) for name, s in found.items()}


@pytest.mark.parametrize("words", READ_ONLY)
def test_a_command_that_reads_leaves_the_files_alone_at_whatever_moment(folder, looked_at, kept, words):
    "What it never does it has not done either when it is killed."
    env, note = looked_at
    before = written_at(folder)
    ended(folder, words, env)
    assert not note.exists(), note.read_text()
    assert kept == {name: (folder / name).read_bytes() for name in OWN} and before == written_at(folder)


@pytest.mark.parametrize("words", WRITING)
def test_a_command_that_writes_replaces_a_file_as_a_whole(folder, looked_at, kept, words):
    env, note = looked_at
    modes, replaced = {name: (folder / name).stat().st_mode for name in OWN}, note.with_name("note.txt.replaced")
    command = [BIN / "mhbench", *words.split()]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert not note.exists(), note.read_text()
    after = {name: (folder / name).read_bytes() for name in OWN}
    changed = {name for name in OWN if after[name] != kept[name]}
    assert changed and changed <= WRITING[words], done.stdout
    if "params.yaml" in changed:
        assert "params.yaml changes:" in done.stdout and "# mine" not in done.stdout.split("params.yaml changes:")[1]
        assert after["params.yaml"].startswith(b"# mine\n") and after["params.yaml"].endswith(b"# mine, too\n")
    assert {name: (folder / name).stat().st_mode for name in OWN} == modes
    moments = replaced.stat().st_size
    assert moments >= len(changed), "each way to replace a file is seen"
    for k in range(1, moments + 1):
        for name, content in kept.items():
            (folder / name).write_bytes(content)
        replaced.unlink()
        ended(folder, words, env | {"KILLED_AT": str(k)})
        assert replaced.stat().st_size == k, "it goes no further"
        now = {name: (folder / name).read_bytes() for name in OWN}
        assert all(now[name] in (kept[name], after[name]) for name in OWN) and now != after, (words, k)
        assert yaml.safe_load(now["params.yaml"]) and yaml.safe_load(now["run.yaml"])


def test_a_reader_finds_the_old_file_or_the_new_one(tmp_path):
    "A process replaces a file again and again, and is killed; another one reads it all the time."
    file, texts = tmp_path / "own.yaml", [f"{letter * 200_000}\n" for letter in "ab"]
    file.write_text(texts[0], encoding="utf-8")
    code = (
        "import pathlib, sys; from mhbench.tools.edit import replace_file\n"
        "while True:\n    for letter in 'ba': replace_file(pathlib.Path(sys.argv[1]), letter * 200_000 + chr(10))\n"
    )
    going = subprocess.Popen([sys.executable, "-c", code, str(file)])
    seen = set()
    try:
        while len(seen) < 2 and going.poll() is None:
            seen.add(file.read_text(encoding="utf-8"))
        until = time.monotonic() + 1
        while time.monotonic() < until:
            seen.add(file.read_text(encoding="utf-8"))
    finally:
        going.kill()
        going.wait()
    seen.add(file.read_text(encoding="utf-8"))
    assert seen == set(texts)


def test_neither_file_is_written_where_one_is_refused(folder, kept):
    params = folder / "params.yaml"
    text = params.read_text(encoding="utf-8")
    params.write_text(text.replace("seed: 20250107", "seed: &s 20250107", 1) + "\n", encoding="utf-8")
    now = params.read_bytes()
    with pytest.raises(ValueError, match="must"):
        edit(params, {("run", "items"): -1, ("seed",): 3})
    assert (params.read_bytes(), (folder / "run.yaml").read_bytes()) == (now, kept["run.yaml"])
    assert difference(params, text)[:1] == ["params.yaml changes:"] and difference(params, now.decode()) == []
    replace_file(params, text)
    assert params.read_text(encoding="utf-8") == text and not list(folder.glob(".*.new"))
