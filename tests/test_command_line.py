"""The command line as somebody meets it: the first screen, slips, completion, the version at once."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import BIN, ENV, ROOT

from mhbench.errors import numbered
from mhbench.records.database import stage_folder
from mhbench.run.cli import FIRST_SCREEN, declaring, main, parser
from mhbench.run.losses import named_parts, selected_run
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
        assert said.command in declaring()
    assert max(map(len, FIRST_SCREEN.splitlines())) <= 100
    assert len(FIRST_SCREEN.splitlines()) <= 25


HEAVY = {"scipy", "matplotlib", "aiohttp", "openai", "httpx2", "torch", "pydantic"}
CODE = """
import sys
from mhbench.run.cli import main
try:
    main(sys.argv[1:])
finally:
    print("", *sys.modules)
"""


@pytest.mark.parametrize(
    "said, light", [("--version", {"numpy"}), ("", {"numpy"}), ("--help", {"numpy", "pandas"}), ("summary", set())]
)
def test_what_prints_imports_nothing_that_computes(said, light, tmp_path, root):
    "Whatever these commands import is time before the first line."
    for name in ("params.yaml", "run.yaml", "dvc.yaml", "nbs"):
        (tmp_path / name).symlink_to(root / name)
    folder = tmp_path / "results" / "report"
    folder.mkdir(parents=True)
    (folder / "wrong.json").write_text('["mhqa: 2 of 9 answers were not read."]', encoding="utf-8")
    for part_folder in [Path("report"), *(stage_folder(*part) for part in named_parts(selected_run(root), root))]:
        (tmp_path / "results" / part_folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / "results" / part_folder / "contents.json").write_text('{"stage": "any"}', encoding="utf-8")
    head = "study,stage,measure,model,mode,n,n_unread,estimate,ci_low,ci_high,level,origin\n"
    row = "mhqa,score,accuracy,m,zero_shot,20,0,0.5,0.3,0.7,0.95,asked\n"
    (folder / "over-all-studies-key-results.csv").write_text(head + row, encoding="utf-8")
    env = ENV | {"MHBENCH_ROOT": str(tmp_path)}
    command = [sys.executable, "-c", CODE, *said.split()]
    told = subprocess.run(command, capture_output=True, text=True, check=True, env=env).stdout
    assert not set(told.splitlines()[-1].split()) & (HEAVY | light)
    if said == "summary":
        assert "what went wrong: mhqa: 2 of 9 answers were not read." in told and "0.500 [0.300, 0.700]" in told


def test_help_read_from_the_source_is_what_the_modules_declare():
    parser()
    declared = {word: command.text for word, command in SUBCOMMANDS.items() if " " not in word}
    assert declared == {word: text for word, (text, _) in declaring().items()}


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


@pytest.mark.parametrize(
    ("n", "words", "sentence"),
    [
        (1, ("row",), "1 row"),
        (0, ("row",), "0 rows"),
        (2, ("entry", "entries"), "2 entries"),
        (1, ("row does not fit", "rows do not fit"), "1 row does not fit"),
    ],
)
def test_a_number_stands_with_its_noun(n, words, sentence):
    assert numbered(n, *words) == sentence


def test_no_sentence_of_the_package_counts_one_thing_in_the_plural():
    "What is printed at once; `numbered` writes a count with its noun."
    nouns = "rows|figures|models|questions|items|raters|ratings|answers|tables|files|cases|labels|events|tasks|requests"
    pattern = re.compile(rf"^ *print\(f\"[^\"]*\{{(len\([^{{}}]*\)|n_[a-z_]+)\}} ({nouns})\b", re.MULTILINE)
    found = {p.name: m[0] for p in (ROOT / "mhbench").rglob("*.py") for m in pattern.finditer(p.read_text("utf-8"))}
    assert found == {}
