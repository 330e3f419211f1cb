"""How the tests are run: the three parts, what may be skipped, and an environment that is judged by its content."""

import os
import re
import shutil
import subprocess
from types import SimpleNamespace

import pytest
from conftest import FORM, LONGEST, ROOT, WHOLE, part_of, unexpected


def made(*words: str, cwd=ROOT, ok=True) -> str:
    done = subprocess.run(["make", *words], cwd=cwd, capture_output=True, text=True)
    assert (done.returncode == 0) == ok, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_every_file_that_is_named_is_there():
    files = {f.relative_to(ROOT / "tests").with_suffix("").as_posix(): f for f in (ROOT / "tests").rglob("test_*.py")}
    assert [name for name in (*FORM, *WHOLE, *LONGEST) if name not in files] == []
    assert {part_of(f) for f in files.values()} == {"form", "fast", "whole"}


def test_the_targets_run_the_parts():
    assert '-m "form or fast"' in made("-n", "test") and "-m whole" in made("-n", "test-whole")
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert re.findall(r"(?m)^(?:timeout \d+ )?make (\S+)", ci) == ["licences", "test", "test-whole"]


@pytest.mark.parametrize(
    "reason, outcome",
    [
        ("Skipped: could not import 'torch'", "failed"),
        ("Skipped: no real corpora at x: set MHBENCH_DATASETS to run this test", "skipped"),
    ],
)
def test_a_skip_for_a_reason_that_nobody_looked_at_fails(reason, outcome):
    report = SimpleNamespace(skipped=True, outcome="skipped", longrepr=("test_x.py", 1, reason))
    unexpected(report)
    assert report.outcome == outcome and reason in str(report.longrepr)


def stamp(folder) -> str:
    return re.search(r"(?m)^STAMP := (.*)$", made("-pn", "data", cwd=folder))[1]


@pytest.fixture
def installed(tmp_path):
    "A folder whose environment is as its files say."
    folder = tmp_path / "one"
    (folder / ".venv").mkdir(parents=True)
    for name in ("Makefile", "requirements.txt", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    (folder / ".venv" / ".installed").write_text(stamp(folder) + "\n")
    return folder


def test_a_file_that_is_written_anew_installs_nothing_and_one_that_changed_does(installed):
    "nbdev_export writes pyproject.toml at every export, changed or not."
    os.utime(installed / "pyproject.toml", (2**31, 2**31))
    assert "pip install" not in made("-n", "data", cwd=installed)
    with (installed / "requirements.txt").open("a") as f:
        f.write("another==1.0\n")
    assert "pip install" in made("-n", "data", cwd=installed)


def test_a_second_clone_changes_no_environment_that_it_shares(installed):
    other = installed.parent / "two"
    shutil.copytree(installed, other, ignore=shutil.ignore_patterns(".venv"))
    (other / ".venv").symlink_to(installed / ".venv")
    assert ".venv must be a folder of this clone; got a link to" in made("data", cwd=other, ok=False)


def test_the_index_of_torch_is_one_variable():
    told = made("-n", "-B", "data", "TORCH_INDEX=https://example.org/cpu", "READY=.venv/.never")
    assert "--extra-index-url https://example.org/cpu -r requirements.txt" in told
