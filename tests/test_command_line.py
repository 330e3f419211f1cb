"""The command line as somebody meets it: the first screen, slips, completion, the version at once."""

import re
import shlex
import subprocess
import sys

import pytest
from conftest import BIN, ENV

from mhbench.run.cli import FIRST_SCREEN, main, parser
from mhbench.subcommand import SUBCOMMANDS

LINES = re.findall(r"^  ([a-z-]+) +\S.*?(mhbench .*)$", FIRST_SCREEN, re.MULTILINE)


def test_the_first_screen_has_ten_commands_whose_examples_can_be_said(capsys):
    assert main([]) == 0
    assert capsys.readouterr().out.strip() == FIRST_SCREEN
    assert len(LINES) == 10
    for command, example in LINES:
        words = shlex.split(example)[1:]
        assert words[0] == command
        said = parser(words).parse_args(words)  # ends the test where it is no command, or an option is not there
        assert said.command in {name.partition(" ")[0] for name in SUBCOMMANDS}
    assert max(map(len, FIRST_SCREEN.splitlines())) <= 100
    assert len(FIRST_SCREEN.splitlines()) <= 25


def test_the_version_imports_none_of_the_package_that_computes():
    code = "import sys; from mhbench.run.cli import main; main(sys.argv[1:]); print(*sys.modules)"
    for words in (["--version"], []):
        told = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True).stdout
        loaded = set(told.splitlines()[-1].split())
        assert not loaded & {"numpy", "pandas", "torch", "pydantic", "mhbench.run.commands"}


@pytest.mark.parametrize(
    "said, meant",
    [
        ("summry", "summary"),
        ("run --al", "--all"),  # cut short, it would have begun a run
        ("corpus crad", "card"),
        ("new-study x y --rating z", "--ratings"),
        ("cache export --studdy=mhqa out", "--study"),
        ("completion bsh", "bash"),
    ],
)
def test_a_slip_is_answered_with_the_nearest_word(said, meant, capsys):
    with pytest.raises(SystemExit) as ended:
        main(said.split())
    assert ended.value.code == 2
    assert f"did you mean {meant}?" in capsys.readouterr().err


def test_bash_completes_commands_and_options():
    script = subprocess.run(
        [BIN / "mhbench", "completion", "bash"], capture_output=True, text=True, check=True, env=ENV
    )
    ask = """
    words=($1); COMP_WORDS=("${words[@]}"); COMP_CWORD=$((${#words[@]} - 1)); _shtab_mhbench; echo "${COMPREPLY[@]}"
    """
    for typed, wanted in (("mhbench sum", "summary"), ("mhbench run --ove", "--overrides")):
        done = subprocess.run(["bash", "-c", script.stdout + ask, "bash", typed], capture_output=True, text=True)
        assert done.stdout.split() == [wanted], done.stderr
