"""Every command of README and docs/ is run as it stands there: here, or by the test named for it. (The blocks of
CONTRIBUTING.md are run by tests/test_new_study.py.)

Here they run in the reader's order, in a folder as `mhbench init` makes it, with a loopback endpoint behind `qwen`, a
workbook of questions, and a person at the terminal who takes what is offered. DVC stands aside: what it would be told
has to be understood by its own parser and is noted; that it runs the stages is what tests/test_pipeline.py is for.
"""

import io
import re
import shlex
import shutil
import subprocess
from datetime import date
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
import yaml
from conftest import ENV, ROOT
from dvc.cli import parse_args
from faults.server import FaultServer, completion

from mhbench.records.schema import Response, read_records, write_records
from mhbench.report.tables import KEY_RESULTS, file_stem
from mhbench.run import cli
from mhbench.run.cli import main, parser
from mhbench.run.execute import run_stage
from mhbench.run.params import load_params

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"(?ms)^ *```(?:sh|bash)\n(.*?)^ *```")
SYNOPSIS = re.compile(r"`(mhbench [a-z][^`]*|make [a-z][^`]*|dvc repro[^`]*)`")
ELSEWHERE = {  # how a command begins -> the test that runs it, and a text by which it is seen to be there
    "make test": ("test_parts.py", 'made("-n", "test")'),
    "make repro": ("test_first_hour.py", '"make", "-n", "repro"'),
    "mhbench replicate": ("test_replicate.py", '"replicate", name'),
    "mhbench fetch mhqa": ("test_fetch.py", '"fetch", "mhqa"'),
    "mhbench fetch counselingbench": ("test_cite.py", '"fetch", "counselingbench"'),
    "mhbench import mhqa": ("test_real_studies.py", '"import", "mhqa"'),
    "mhbench import counselingbench": ("test_cite.py", '"import", "counselingbench"'),
    "mhbench import mentat ~": ("test_real_studies.py", "mentat"),
    "export MHBENCH_MENTAT_PASSWORD": ("test_replicate.py", "MHBENCH_MENTAT_PASSWORD"),
    "mhbench ledger docs/ledgers/empathy.yaml --from": ("test_ledger.py", '["--from", folder]'),
    "mhbench ledger docs/ledgers/mentalbench.yaml --from": ("test_ledger.py", "mentalbench"),
    "mhbench converse": ("test_conversations.py", '"converse", "talks.yaml"'),
    "mhbench new-study talks talks": ("test_conversations.py", '"new-study", "talks", "talks/ratings.yaml"'),
    "mhbench annotate new raters": ("test_conversations.py", '"annotate", "new", "raters"'),
    "mhbench ratings": ("test_described.py", '"ratings"'),
    "mhbench new-study talks": ("test_described.py", '"new-study", "talks"'),
    "mhbench panel design": ("test_panel_design.py", "(panel design)"),
    "mhbench corpus": ("test_bank.py", '["corpus", *words'),
    "mhbench export eee": ("test_eee.py", '"eee"'),
    "mhbench plan --humans": ("test_humans.py", '["plan", "--humans", *card]'),
    "mhbench sweep": ("test_sweep.py", "GRID"),
    "python3 -m venv": ("test_wheel.py", "venv"),
    "pip install": ("test_wheel.py", '"pip", "install"'),
    "mhbench init": ("test_wheel.py", '"init"'),
    "mhbench annotate serve": ("annotate/conftest.py", '"annotate", "serve"'),
    "mhbench select --studies mentat": ("test_real_studies.py", '"select"'),
}
HEADLINE = """study,stage,measure,model,mode,n,n_unread,estimate,ci_low,ci_high,level,origin
mhqa,score,accuracy,qwen,zero_shot,20,0,0.5,0.3,0.7,0.95,asked
"""


def lines_of(page: Path) -> list[str]:
    "The commands of its fenced blocks, without what is said of them."
    found = [line.strip() for block in FENCE.findall(page.read_text(encoding="utf-8")) for line in block.splitlines()]
    return [re.split(r"\s+# ?", line)[0] for line in found if line]


def where(line: str) -> str | None:
    return next((start for start in sorted(ELSEWHERE, key=len, reverse=True) if line.startswith(start)), None)


EVERY = [(page, line) for page in PAGES for line in lines_of(page)]
HERE = list(dict.fromkeys(line for _, line in EVERY if where(line) is None))


def test_the_parser_of_blocks_sees_comments_and_indents(tmp_path):
    text = "```sh\nmhbench a  # b `c`\n\n```\n1. x\n   ```bash\n   dvc repro\n   ```\n```yaml\na: 1\n```\n"
    (tmp_path / "x.md").write_text(text, encoding="utf-8")
    assert lines_of(tmp_path / "x.md") == ["mhbench a", "dvc repro"] and len(EVERY) > 60


@pytest.mark.parametrize("start", ELSEWHERE)
def test_a_command_that_is_run_elsewhere_has_its_test_there(start):
    file, text = ELSEWHERE[start]
    assert [line for _, line in EVERY if where(line) == start], "no page has it any more"
    assert text in (ROOT / "tests" / file).read_text(encoding="utf-8")


def understood(words: list[str]) -> None:
    "By the parser that takes it in earnest, which ends the test where a word is unknown."
    if words[0] == "mhbench":
        parser(words[1:]).parse_args(words[1:])
    elif words[0] == "dvc":
        parse_args(words[1:])
    elif words[0] == "make":
        subprocess.run(["make", "-n", *words[1:]], cwd=ROOT, env=ENV, check=True, capture_output=True)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_every_command_is_understood_as_it_stands(page):
    for line in lines_of(page):
        for part in re.split(r" && |; ", line):
            understood(shlex.split(part))


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_every_command_in_a_sentence_is_one(page):
    "Whole commands as they stand; of one that is cut short or has CAPITALS to fill in, the command's own name."
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for said in SYNOPSIS.findall(re.sub(r"(?ms)^```.*?^```", "", text)):
        words = shlex.split(said)
        if words[0] == "mhbench" and not re.search(r"\b[A-Z]{2,}\b|\.\.\.|…", said):
            try:
                parser(words[1:]).parse_args(words[1:])
                continue
            except SystemExit as e:
                if e.code == 0:  # --help
                    continue
        if words[0] == "mhbench":
            with pytest.raises(SystemExit) as ended:
                parser(words[1:2]).parse_args([words[1], "--help"])
            assert ended.value.code == 0, said
        elif words[0] == "make" and "..." not in said and words[1] != "PYTHON=python3.11":
            understood(words)


class Person:
    "At a terminal: agrees, and takes what is offered."

    def __init__(self, said: io.StringIO):
        self.said = said

    def isatty(self) -> bool:
        return True

    def readline(self, *_) -> str:
        return "y\n" if self.said.getvalue().endswith("[y/N] ") else "\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    "A reader's folder, with `qwen` behind an endpoint that answers B."
    from openpyxl import Workbook

    top = tmp_path_factory.mktemp("reader")
    for name in ("dvc.yaml", "nbs", "data", "mhbench", "docs"):
        (top / name).symlink_to(ROOT / name)
    shutil.copy(ROOT / "run.yaml", top)
    shutil.copy(ROOT / "params.schema.json", top)
    book = Workbook()
    for row in [["Case", "Question", "A", "B", "C", "Answer"]] + [
        [f"Case {k}", f"What comes first in case {k}?", "Ask about safety", "Refer at once", "Wait", "A"]
        for k in range(10)
    ]:
        book.active.append(row)
    book.save(top / "questions.xlsx")
    (top / "bank").mkdir()
    pd.DataFrame(list(book.active.values)[1:], columns=list(book.active.values)[0]).to_csv(
        top / "bank" / "bank.csv", index=False
    )

    def answers(n, body):
        return lambda body: (200, completion(body, "B"))

    with FaultServer(every=answers) as server, pytest.MonkeyPatch.context() as m:
        p = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
        p["endpoints"]["vllm"] = {"kind": "vllm", "base_urls": [server.url]}
        entries = (ROOT / "docs" / "howto-models.md").read_text(encoding="utf-8")
        p["models"]["qwen"] = yaml.safe_load(re.search(r"```yaml\n(.*?)```", entries, re.DOTALL)[1])["models"]["qwen"]
        (top / "params.yaml").write_text(yaml.safe_dump(p, sort_keys=False), encoding="utf-8")
        m.chdir(top)
        m.setenv("MHBENCH_ROOT", str(top))
        m.setenv("CI", "true")
        yield top


def raters_answer(top: Path) -> None:
    "Raters answer in their browsers before a round is closed."
    assert main(["annotate", "demo", "ward", "--raters", "3"]) == 0


def answers_wait(top: Path) -> None:
    "A run has left answers, and the list of those that the jury does not keep."
    given, texts = load_params(top / "params.yaml"), top / "results" / "text"
    run_stage("prepare", "medqade", overrides={"results": str(top / "results")})
    for model in given["run"]["models"]:
        write_records([], texts / f"medqade/generate/{model}/responses.parquet", Response)
    recorded = read_records(texts / "medqade/prepare/recorded.parquet", Response)
    waiting = pd.DataFrame([{"judge": "jury", "item_id": r.item_id, "target": r.model} for r in recorded[:60]])
    (top / "results/studies/medqade/panel").mkdir(parents=True)
    waiting.to_csv(top / "results/studies/medqade/panel/for_people.csv", index=False)


BEFORE = {"mhbench annotate close": raters_answer, "mhbench panel draw": answers_wait}


def shell(line: str, top: Path) -> int:
    return subprocess.Popen(["bash", "-euc", line], cwd=top, env=ENV).wait()


def done(line: str, top: Path, monkeypatch) -> None:
    "Run one line: mhbench in this process, DVC by its parser alone, what a shell does by bash."
    told, said = [], io.StringIO()
    monkeypatch.setattr("sys.stdin", Person(said))
    monkeypatch.setattr("sys.stdout", said)

    def dvc(words, **_):
        parse_args([str(w) for w in words[words.index("dvc") + 1 :]])
        told.append(words)
        report = top / "results" / "report"  # what the stage `report` leaves for the last lines
        report.mkdir(parents=True, exist_ok=True)
        (report / f"{file_stem(*KEY_RESULTS)}.csv").write_text(HEADLINE, encoding="utf-8")
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(cli.subprocess, "run", dvc)
    words = shlex.split(line)
    for start, prepare in BEFORE.items():
        if line.startswith(start):
            prepare(top)
    if words[0] == "mhbench":
        code = main([re.sub(r"\$\(date \+%F\)", f"{date.today()}", w) for w in words[1:]])
        runs = "run" in words or "--run" in words
        assert bool(told) == runs, f"{line}: DVC is asked where stages run, and nowhere else"
        assert code == 0, f"{line}\n{said.getvalue()[-2000:]}"
    elif words[0] == "dvc":
        parse_args(words[1:])
    else:
        assert shell(line, top) == 0, line


@pytest.mark.parametrize("page", [p for p in PAGES if any(line in HERE for line in lines_of(p))], ids=lambda p: p.name)
def test_the_commands_of_a_page_run_in_its_order(page, folder, monkeypatch):
    before = {f.name: f.read_bytes() for f in (folder / "params.yaml", folder / "run.yaml")}
    shutil.rmtree(folder / ".mhbench" / "annotate", ignore_errors=True)
    shutil.rmtree(folder / "corpora", ignore_errors=True)
    try:
        for line in lines_of(page):
            if line in HERE:
                done(line, folder, monkeypatch)
    finally:
        for name, content in before.items():
            (folder / name).write_bytes(content)
