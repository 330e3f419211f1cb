"""One gate for what goes out: words that nothing else has, in every text of every corpus, and where they get to.

The demo's banks are written again with such words in them, which makes them what a release without a licence is: other
files than the bundled ones. Then everything that leaves the machine is unpacked and searched.
"""

import csv
import io
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from conftest import BIN, fewer_draws, mhbench, run
from faults.server import FaultServer, completion
from leaks import leaks

from mhbench.corpus.demo import demo_path
from mhbench.corpus.load import load_corpus
from mhbench.run.cli import main
from mhbench.run.execute import _outputs, run_stage
from mhbench.run.graph import graph, jobs

WORDS = {  # by the field of an item, and of what is said about one
    "question": "vorpalquill",
    "case": "brillgasker",
    "option": "ospreyette",
    "key": "keystonelle",
    "rationale": "marmandelo",
    "comment": "quandrible",
    "answer": "thistlewumb",
    "verdict": "zephyrcote",
    "abstract": "lanternwick",
}
MARKS = list(WORDS.values())
STUDIES = ("mentat", "psychiatrybench", "medqade", "counselingbench", "mhqa")
FIELDS = {  # column, or key, of a bank -> the field
    **dict.fromkeys(("Question", "question", "stem", "questions", "header", "required"), "question"),
    **dict.fromkeys(("Patient Demographic", "Mental Status Exam", "Presenting Problem", "Other Contexts"), "case"),
    **dict.fromkeys(("history", "mental_state_examination", "physical_examination", "first_follow_up"), "case"),
    **dict.fromkeys(("text_male", "text_female", "text_nonbinary"), "case"),
    **dict.fromkeys(("Choice A", "Choice B", "Choice C", "Choice D", "choices"), "option"),
    **dict.fromkeys(
        ("option1", "option2", "option3", "option4", "correct_option", "correct_answer", "Correct Answer"), "option"
    ),
    **dict.fromkeys(("answer_a", "answer_b", "answer_c", "answer_d", "answer_e"), "option"),
    **dict.fromkeys(("Explanation for correct answer", "clinical_approach", "explanation"), "rationale"),
    "comment": "comment",
}


def marked(text: str, field: str) -> str:
    return (
        f"{WORDS[field].capitalize()}: {text} ({WORDS[field]})"
        if field in ("question", "case")
        else f"{WORDS[field]} {text}"
    )


def with_marks(value, field=None):
    "A value of a JSON line with the words of its fields."
    if isinstance(value, dict):
        return {k: with_marks(v, field or FIELDS.get(k)) for k, v in value.items()}
    if isinstance(value, list):
        return [with_marks(v, field) for v in value]
    return marked(value, field) if isinstance(value, str) and field and value else value


def mark_csv(file: Path, fields: dict[str, str]) -> None:
    rows = list(csv.reader(io.StringIO(file.read_text(encoding="utf-8"))))
    head = rows[0]
    for row in rows[1:]:
        for k, column in enumerate(head):
            if column in fields and row[k]:
                row[k] = marked(row[k], fields[column])
            if column == "canary":
                row[k] = ""
    with file.open("w", encoding="utf-8", newline="") as f:
        csv.writer(f, lineterminator="\n").writerows(rows)


def mark_bank(study: str, folder: Path) -> None:
    "The bank of a study with words in its texts; what examinees answered is said of the items as they now are."
    before = load_corpus(study, folder, **OPTIONS.get(study, {}))
    for file in [*folder.glob("*_demo.csv"), *folder.glob("final_dataset*.csv"), *folder.glob("b/*.csv")]:
        mark_csv(file, FIELDS)
    for file in folder.glob("*.jsonl"):
        rows = [with_marks(json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]
        rows = [
            r
            | (
                {"answer": marked(r["answer"], "key")}
                if isinstance(r.get("answer"), str) and len(r["answer"]) > 20
                else {}
            )
            for r in rows
        ]
        rows = [{k: v for k, v in r.items() if k not in ("canary", "synthetic")} for r in rows]
        file.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows), encoding="utf-8")
    for file in [*folder.glob("*_demo.txt"), *folder.glob("german/*.txt")]:
        lines = [x.split("\t") for x in file.read_text(encoding="utf-8").splitlines()]
        for x in lines:
            if len(x) > 4:
                x[3], x[4] = (
                    marked(x[3].replace("{{c1::", "{{c1::" + WORDS["key"] + " "), "question"),
                    marked(x[4], "rationale") if x[4] else "",
                )
                x[5] = re.sub(r" mhbench-canary\S+", "", x[5])
        file.write_text("\n".join("\t".join(x) for x in lines) + "\n", encoding="utf-8")
    waits = [f.rename(f.with_suffix(".waits")) for f in folder.glob("simulated_errors.csv")]  # it names items
    after = load_corpus(study, folder, **OPTIONS.get(study, {}))
    for file in waits:
        file.rename(file.with_suffix(".csv"))
    same = dict(zip((i.item_id for i in before.items), (i.item_id for i in after.items), strict=True))
    same |= {o: n for a, b in zip(before.items, after.items) for o, n in zip(a.options, b.options, strict=True)}
    for file in [*folder.glob("examinees/*.csv"), *folder.glob("simulated*.csv"), *folder.glob("answer_pool.csv")]:
        rows = list(csv.reader(io.StringIO(file.read_text(encoding="utf-8"))))
        head = rows[0]
        for row in rows[1:]:
            row[:] = [same.get(x, x) for x in row]
            for k, column in enumerate(head):
                if column == "text" and len(row[k]) > 60:
                    row[k] = f"{WORDS['answer'].capitalize()}. {row[k]}"
                if column == "comment":
                    row[k] = marked(row[k], "comment")
        with file.open("w", encoding="utf-8", newline="") as f:
            csv.writer(f, lineterminator="\n").writerows(rows)
    for file in folder.glob("literature/*"):
        text = file.read_text(encoding="utf-8")
        text = re.sub(r"(<AbstractText[^>]*>|<ArticleTitle>)", rf"\g<1>{WORDS['abstract'].capitalize()}: ", text)
        text = re.sub(
            r'("(?:question|snippet|justification|text)": ")', rf"\g<1>{WORDS['abstract'].capitalize()}: ", text
        )
        file.write_text(text, encoding="utf-8")


OPTIONS = {"medqade": {"decks": {"en": "medqade_demo.txt", "de": "german/medqade_demo_de.txt"}}}


@pytest.fixture(scope="session")
def banks(tmp_path_factory) -> Path:
    "The five banks with words in them, in a folder of their own."
    top = tmp_path_factory.mktemp("releases")
    for study in STUDIES:
        shutil.copytree(demo_path(study), top / study, ignore=shutil.ignore_patterns("__pycache__"))
        mark_bank(study, top / study)
    return top


# ---------------------------------------------------------------- a run, in which a model writes, too


def fits(schema: dict, say: str):
    "A value that a JSON schema asks for; the words of a verdict in its texts."
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        return {k: fits(v, say) for k, v in schema.get("properties", {}).items()}
    if kind == "array":
        return [fits(schema.get("items", {}), say)]
    return {"integer": schema.get("minimum", 70), "number": schema.get("minimum", 70), "boolean": True}.get(kind, say)


def reply(body: dict):
    "A model that repeats what it was asked; a judge with its reasons."
    asked = body["messages"][-1]["content"] if "messages" in body else body["prompt"]
    form = body.get("response_format") or {}
    if form.get("type") == "json_schema":
        why = f"{WORDS['verdict']}, since it says: {asked[-300:]}"
        text = json.dumps(fits(form["json_schema"]["schema"], why) | {"why": why})
        return 200, completion(body, text, reasoning_content=why)
    text = f"{WORDS['answer'].capitalize()}. First of all: {asked[-400:]}. Second. The answer is B."
    return 200, completion(body, text)


WRITER = {"endpoint": "canary", "served": "m-1", "lineage": "m", "sampling": {"temperature": 0.0, "max_tokens": 400}}
ENDPOINT = {"kind": "openai", "identity": "canary", "pause_s": 0.01, "max_attempts": 2}


def configured(folder: Path, banks: Path, url: str) -> None:
    "The demo's parameters, of the banks with words in them, with a model that writes and judges."
    text = fewer_draws((folder / "params.yaml").read_text(encoding="utf-8")).replace(" data/", f" {banks}/")
    p = yaml.safe_load(text)
    p["endpoints"]["canary"], p["models"]["writer"] = ENDPOINT | {"base_urls": [url]}, WRITER
    for study in p["studies"].values():
        for section in study.values():
            if isinstance(section, dict):
                section |= {k: ["writer"] for k in ("asked", "judges") if k in section}
    p["studies"]["mentat"]["annotate"] = {"kind": "sliders", "n_items": 3, "replace": {"<AGE>": "40", " <NAT>": ""}}
    trained = p["studies"]["mhqa"]["finetune"]
    trained |= {"asked": ["minilm-mhqa"], "n_items": 16, "seeds": [0], "baseline_seeds": [], "n_orders": 1}
    trained["settings"] |= {"epochs": 1, "layers": 1, "max_length": 48}  # it need not be good
    p["studies"]["mhqa"]["compose"]["asked"] = []  # the recorded answers
    (folder / "params.yaml").write_text(yaml.safe_dump(p, sort_keys=False), encoding="utf-8")


OWN = """id,case,question,option A,option B,option C,answer,rationale
{n},{case}: she is tired. ({case}),{question}: what comes first? ({question}),{option} diet,risk,age,B,{rationale} first
"""


def own_study(folder: Path, to: Path) -> None:
    "A study of one's own, with people's ratings and what they wrote beside them."
    lines = [OWN.format(n=f"w{n}", **WORDS).splitlines() for n in range(6)]
    (to / "own.csv").write_text("\n".join([lines[0][0], *(line[1] for line in lines)]) + "\n", encoding="utf-8")
    rated = ["item,rater,option,score,comment"]
    for n in range(6):
        for rater in ("r1", "r2", "r3"):
            rated += [f"w{n},{rater},{x},{10 * k + n},{WORDS['comment']} {rater}" for k, x in enumerate("ABC")]
    (to / "rated.csv").write_text("\n".join(rated) + "\n", encoding="utf-8")
    ratings = ("--ratings", to / "rated.csv", "--ratings-scale", "0:100")
    mhbench("new-study", "own", to / "own.csv", *ratings, "--judges", "writer", "--texts", "here", "--yes", cwd=folder)


def everything(folder: Path) -> None:
    "Every stage of the run, in order, in this process; as DVC does, without what it left before."
    run = yaml.safe_load((folder / "run.yaml").read_text(encoding="utf-8"))["run"]
    for node in graph(folder).values():
        if not node.parameters:
            assert main([node.name]) == 0
        for _, study, model in jobs(run, {node.name: node}) if node.parameters else ():
            for out in _outputs(node.name, str(study), model):
                shutil.rmtree(out) if out.is_dir() else out.unlink(missing_ok=True)
            run_stage(node.name, study, model, in_process=True)


@pytest.fixture(scope="module")
def ran(clone, banks, tmp_path_factory) -> Path:
    "A clone in which every stage has run over the banks with words in them, once for the tests below."
    top = tmp_path_factory.mktemp("canary")
    folder = top / "mhbench"
    shutil.copytree(clone, folder, symlinks=True)
    with FaultServer(every=lambda n, body: reply) as server, pytest.MonkeyPatch.context() as m:
        configured(folder, banks, server.url)
        own_study(folder, top)
        chosen = ("--studies", ",".join([*STUDIES, "own"]), "--models", "minilm,minilm-mhqa,writer")
        mhbench("select", *chosen, "--items", "6", cwd=folder)
        m.chdir(folder)
        m.setenv("MHBENCH_ROOT", str(folder))
        everything(folder)
    return folder


def outputs(folder: Path, pushed: bool) -> list[Path]:
    "The files of the outputs that `dvc push` takes, or of those that it leaves."
    stages = yaml.safe_load((folder / "dvc.yaml").read_text(encoding="utf-8"))["stages"].values()
    every = [{o: {}} if isinstance(o, str) else o for stage in stages for o in stage.get("outs", [])]
    named = [
        re.sub(r"\$\{[^}]*\}", "*", path) for o in every for path, how in o.items() if how.get("push", True) == pushed
    ]
    found = {f for name in named for top in folder.glob(name) for f in ([top] if top.is_file() else top.rglob("*"))}
    return sorted(f for f in found if f.is_file())


def changed(folder: Path) -> list[Path]:
    "What git tracks, or would, of what the run has made."
    names = []
    for words in (("diff", "--name-only", "HEAD"), ("ls-files", "--others", "--exclude-standard")):
        names += subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True).stdout.split()
    return [folder / name for name in names]


def test_every_word_is_among_the_texts_that_stay_here(ran):
    found = leaks(outputs(ran, pushed=False), MARKS)
    assert set().union(*found.values()) == set(MARKS), "what is nowhere cannot be missed elsewhere"


def test_the_page_that_stays_here_has_the_texts_that_its_owner_let_it_have(ran):
    [shown] = leaks([ran / "results" / "private" / "report.html"], MARKS).values()
    assert shown >= {WORDS[field] for field in ("question", "case", "option", "rationale")}


def test_no_word_is_in_what_git_tracks_or_dvc_pushes(ran, tmp_path):
    files = changed(ran)
    assert len(files) > 60 and any(f.suffix == ".svg" for f in files)
    assert leaks(files, MARKS) == {}
    run(BIN / "dvc", "commit", "-q", "-f", cwd=ran)
    run(BIN / "dvc", "remote", "add", "-q", "-f", "away", tmp_path / "away", cwd=ran)
    run(BIN / "dvc", "push", "-q", "-r", "away", cwd=ran)
    pushed = [f for f in (tmp_path / "away").rglob("*") if f.is_file()]
    assert len(pushed) > 300 and leaks(pushed, MARKS) == {}
    assert leaks(outputs(ran, pushed=True), MARKS) == {}


def test_no_word_is_in_an_export_and_publish_refuses(ran, tmp_path):
    for kind, more in (("eee", ()), ("inspect", ()), ("hf", ("--license", "other"))):
        mhbench("export", kind, tmp_path / kind, *more, cwd=ran)
        mhbench("export", kind, tmp_path / "private" / kind, *more, "--private", cwd=ran)
        seen = leaks(list((tmp_path / "private" / kind).rglob("*")), MARKS)
        assert seen, f"{kind} with --private holds texts, so that their absence without it says something"
    said = {word: mhbench(word, cwd=ran) for word in ("cite", "summary", "plan")}
    said["publish"] = mhbench("publish", "--to", tmp_path / "reports", cwd=ran, ok=False)
    assert "must be free to publish" in said["publish"] and not (tmp_path / "reports").exists()
    for word, text in said.items():
        (tmp_path / f"{word}.txt").write_text(text, encoding="utf-8")
    shutil.rmtree(tmp_path / "private")
    made = [f for f in tmp_path.rglob("*") if f.is_file()]
    assert len(made) > 30 and leaks(made, MARKS) == {}


def test_no_word_is_in_what_raters_leave_or_in_a_card(ran, tmp_path):
    mhbench("annotate", "demo", "mentat", "--raters", "2", cwd=ran)
    assert leaks([ran / ".mhbench" / "annotate" / "mentat.sqlite"], MARKS), "the file of answers holds what raters see"
    mhbench("annotate", "export", "mentat", "--to", tmp_path / "raters", "--sheet", cwd=ran)
    mhbench("corpus", "card", "--study", "mhqa", "--to", tmp_path / "bank", cwd=ran)
    assert leaks([tmp_path / "bank" / "bank.csv"], MARKS), "the bank is what goes out; its card tells none of it"
    made = [f for f in tmp_path.rglob("*") if f.is_file() and f.name != "bank.csv"]
    assert {"ratings.csv", "answers.xlsx", "README.md"} <= {f.name for f in made} and leaks(made, MARKS) == {}


def test_no_word_is_in_what_a_stage_says_that_fails(ran, monkeypatch, capfd):
    "A verdict that no judge could give, an output that is gone, and a fault of the program."
    monkeypatch.chdir(ran)
    said = []
    for stage, study, overrides in (
        ("score", "mhqa", {"by": ["question"]}),
        ("judge", "psychiatrybench", {"judges": ["nobody"]}),
        ("agreement", "own", {"level": "none"}),
        ("score", "counselingbench", {"n_boot": "many"}),
    ):
        (ran / "o.json").write_text(json.dumps(overrides), encoding="utf-8")
        words = ["run", stage, "--study", study, "--overrides", json.dumps(overrides)]
        assert main(words) == 1, f"{words} should have failed"
        said.append("".join(capfd.readouterr()))
    (ran / "said.txt").write_text("\n".join(said), encoding="utf-8")
    logs = [ran / "said.txt", *(ran / ".mhbench").glob("*.log")]
    assert all(len(text) > 40 for text in said) and leaks(logs, MARKS) == {}
    failed = list((ran / "results").rglob("notebook.failed.ipynb"))
    assert failed and leaks(failed, MARKS) == {}


def test_no_word_of_the_other_studies_is_in_what_is_published_of_a_free_one(ran, tmp_path, monkeypatch):
    "The run goes on with the bundled demo of one study, beside the results of the others."
    original = lambda name: run("git", "show", f"HEAD:{name}", cwd=ran)
    (ran / "params.yaml").write_text(fewer_draws(original("params.yaml")), encoding="utf-8")
    (ran / "run.yaml").write_text(original("run.yaml"), encoding="utf-8")
    mhbench("select", "--studies", "mhqa", "--models", "minilm", "--items", "6", cwd=ran)
    monkeypatch.chdir(ran)
    monkeypatch.setenv("MHBENCH_ROOT", str(ran))
    everything(ran)
    run(BIN / "dvc", "commit", "-q", "-f", cwd=ran)
    mhbench("publish", "--to", tmp_path / "reports", cwd=ran)
    made = [f for f in (tmp_path / "reports").rglob("*") if f.is_file()]
    assert {"report.html", "notebook.ipynb"} & {f.name for f in made} and len(made) > 5
    assert leaks(outputs(ran, pushed=False), MARKS) and leaks(made, MARKS) == {}
