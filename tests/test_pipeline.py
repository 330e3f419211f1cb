"""The pipeline: what it refuses, and `dvc repro` in a fresh clone on a cut-down demo."""

import contextlib
import io
import json
import re
import shutil
import subprocess
from pathlib import Path

import nbformat
import pandas as pd
import pytest
import yaml
from conftest import BIN, ENV, mhbench, run
from faults.batch import BatchServer
from faults.server import FaultServer

from mhbench.corpus.demo import demo_files
from mhbench.records.schema import Item, Response, read_records
from mhbench.run import inputs
from mhbench.run.cli import main
from mhbench.run.execute import run_stage


def drop_stages(study: dict, *stages: str) -> None:
    for stage in stages:
        del study[stage]


@pytest.fixture(scope="session")
def small(clone, root, tmp_path_factory) -> Path:
    "A copy of it, narrowed to two studies and the encoder, and run: others read the clone as it is committed."
    folder = tmp_path_factory.mktemp("small") / "mhbench"
    shutil.copytree(clone, folder, symlinks=True)
    shutil.rmtree(folder / "results")  # the metrics that a clone comes with are those of the whole demo
    lock = yaml.load((root / "dvc.lock").read_text(encoding="utf-8"), yaml.CSafeLoader)  # a clone comes with one
    theirs = re.compile(r"inputs|(prepare|score)@(mhqa|mentat)")  # that of everything costs DVC a second a stage
    lock["stages"] = {name: entry for name, entry in lock["stages"].items() if theirs.fullmatch(name)}
    (folder / "dvc.lock").write_text(yaml.dump(lock, Dumper=yaml.CSafeDumper, sort_keys=False), encoding="utf-8")
    p = yaml.safe_load((folder / "params.yaml").read_text(encoding="utf-8"))
    drop_stages(p["studies"]["mhqa"], "collect", "compose", "keys", "profile")  # an encoder is loaded for most of them
    (folder / "params.yaml").write_text(yaml.safe_dump(p, sort_keys=False), encoding="utf-8")
    mhbench("select", "--studies", "mhqa,mentat", "--models", "minilm", "--items", "10", cwd=folder)
    said = run(BIN / "mhbench", "run", "--all", cwd=folder)
    (folder.parent / "run.txt").write_text(said, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def mine(clone, tmp_path_factory) -> Path:
    "A copy of it with the same selection and every section of its studies, to be changed."
    folder = tmp_path_factory.mktemp("mine") / "mhbench"
    shutil.copytree(clone, folder, symlinks=True)
    mhbench("select", "--studies", "mhqa,mentat", "--models", "minilm", "--items", "10", cwd=folder)
    return folder


@pytest.fixture
def command(monkeypatch, capfd):
    "A command of mhbench, given here: what it says."

    def said(*words, cwd, ok=True) -> str:
        monkeypatch.chdir(cwd)
        ended = main(list(words))
        said = "".join(capfd.readouterr())
        assert (ended == 0) == ok, said
        return said

    return said


def test_the_pulled_data_are_the_packaged_banks(clone, root):
    packaged = {name: path.read_bytes() for name, path in demo_files().items()}
    data = clone / "data"
    pulled = {p.relative_to(data).as_posix(): p.read_bytes() for p in data.rglob("*") if p.is_file()}
    assert packaged == pulled, "run `make data-update`, which copies the banks, adds them to DVC and pushes them"


def test_repro_runs_every_stage_and_then_nothing(small):
    for stage, study in (
        ("prepare", "mhqa"),
        ("score", "mhqa"),
        ("score", "mentat"),
        ("demographics", "mentat"),
        ("preferences", "mentat"),
        ("agreement", "mentat"),
    ):
        assert (small / "results" / "metrics" / study / f"{stage}.json").exists()
        assert (small / "results" / "studies" / study / stage / "contents.json").exists()
        assert (small / "results" / "studies" / study / stage / "notebook.ipynb").exists()
    in_words = json.loads((small / "results" / "metrics" / "mentat" / "freeform.json").read_text(encoding="utf-8"))
    assert set(in_words["inconsistency"]) == {"sim-writer", "sim-steady"}, "an encoder writes no answer of its own"
    said = (small.parent / "run.txt").read_text(encoding="utf-8")
    assert re.search(r"\nmhqa.*\n +0\.\d+ \[.* n \d+ +minilm, zero shot: accuracy", said), (
        "`run --all` ends with the main results"
    )
    assert "(stage 1 in the order of " in said or ENV.get("CI"), "and says which stage of how many it is at"
    assert "is empty" not in said, "DVC warns of empty folders: one that no stage fills says so in a file"
    again = run(BIN / "dvc", "repro", cwd=small)
    assert re.findall(r"Running stage '([^']+)'", again) == ["inputs"]  # the inputs are hashed, and nothing else runs


def test_nothing_is_dropped_on_the_way(small):
    items = read_records(small / "results/text/mhqa/prepare/items.parquet", Item)
    responses = read_records(small / "results/text/mhqa/generate/minilm/responses.parquet", Response)
    scores = pd.read_parquet(small / "results/studies/mhqa/score/scores.parquet")
    simulated = scores[scores["model"].str.startswith("sim-")]
    assert len(simulated) == 4 * 10, "the demo's simulated examinees answer what is asked, and nothing else"
    scores = scores[scores["model"] == "minilm"]
    assert len(items) == 10
    assert [r.item_id for r in responses] == [i.item_id for i in items]
    assert scores["item_id"].tolist() == [i.item_id for i in items]
    accuracy = pd.read_parquet(small / "results/studies/mhqa/score/accuracy.parquet").query(
        "by == 'all' and model == 'minilm'"
    )
    by_hand = sum(list(a) == i.key for a, i in zip(scores["answer"], items)) / 10
    assert accuracy["estimate"].tolist() == pytest.approx([by_hand])


def test_the_report_loads_nothing_and_holds_every_figure(small, command):
    page = (small / "results" / "report.html").read_text(encoding="utf-8")
    assert "src='http" not in page and 'src="http' not in page and "default-src 'none'" in page
    assert list((small / "results" / "report").glob("*.csv"))
    corpus = json.loads((small / "results" / "inputs" / "prepare" / "mhqa.json").read_text())["corpus"]
    commit = run("git", "rev-parse", "--short=12", "HEAD", cwd=small).strip()
    for fact in (
        corpus,
        f"(commit {commit}, with changes",
        "and seed 20250107;",
        "questions from 2 studies, put to",
    ):
        assert fact in page, fact
    assert re.search(r"Made on 20\d\d-\d\d-\d\d \d\d:\d\d UTC by mhbench", page)
    contents = [json.loads(f.read_text(encoding="utf-8")) for f in (small / "results").rglob("contents.json")]
    drawn = [f"{c['study']}/{c['stage']}/{f['name']}.png" for c in contents for f in c["figures"]]
    assert page.count("<svg ") == len(drawn) > 2
    everything = command("summary", "--all", cwd=small)
    older = small / "figures" / "nobody" / "duels" / "strengths.png"  # of a run that took other studies
    older.parent.mkdir(parents=True)
    shutil.copy(small / "figures" / drawn[0], older)
    said = command("summary", cwd=small)
    assert "accuracy" in said and f"{len(drawn)} figures in figures/" in said and "\nstale: report" in said
    shutil.rmtree(older.parent)
    said = command("summary", cwd=small)
    assert len(said.splitlines()) <= 40 < len(everything.splitlines())
    assert "\nran: " in said and "; asked: " in said and "\nwhat went wrong: " in said
    assert max(map(len, said.splitlines())) <= 100 and re.search(r"\n +0\.\d{3} \[.*\] +[.-]*[|o][.|o-]* n \d+", said)
    assert ", the first " not in command("summary", "--study", "mentat", cwd=small), "one study is printed whole"
    of_one = pd.read_csv(io.StringIO(command("summary", "--study", "mentat", "--stage", "score", "--csv", cwd=small)))
    assert set(of_one["model"]) == {"minilm"} and set(of_one["stage"]) == {"score"}, "no simulated examinee"
    assert "minilm, zero shot" in command("summary", "--stage", "score", cwd=small)
    assert "got 'scroe'; did you mean score?" in command("summary", "--stage", "scroe", cwd=small, ok=False)
    main = pd.read_csv(small / "results" / "report" / "over-all-studies-key-results.csv")
    assert len(main) > 5 and main[["n", "estimate"]].notna().all().all(), "every main number has its n"


def test_executed_notebooks_have_no_time_and_no_error(small):
    for f in (small / "results").rglob("notebook.ipynb"):
        nb = nbformat.read(f, 4)
        assert set(nb.metadata) == {"kernelspec"}
        for cell in nb.cells:
            assert set(cell.metadata) <= {"tags"}
            assert not [o for o in cell.get("outputs", []) if o.output_type == "error"]


def test_the_same_run_gives_the_same_bytes(small):
    before = {f: f.read_bytes() for f in (small / "results" / "studies").glob("*/score/*") if f.is_file()} | {
        f: f.read_bytes() for f in (small / "figures").glob("*/score/*") if f.is_file()
    }
    run(BIN / "dvc", "repro", "-f", "-s", "score@mhqa", cwd=small)
    changed = [str(f.relative_to(small)) for f, old in before.items() if f.read_bytes() != old]
    assert changed == []


def test_an_experiment_of_dvc_runs_what_it_changes(small):
    file, accuracy = small / "params.yaml", small / "results" / "studies" / "mhqa" / "score" / "accuracy.parquet"
    text, before = file.read_text(), pd.read_parquet(accuracy)
    try:
        said = run(BIN / "dvc", "exp", "run", "-S", "score.n_boot=20", "score@mhqa", cwd=small)
        after = pd.read_parquet(accuracy)
    finally:
        file.write_text(text)
        run(BIN / "dvc", "repro", "score@mhqa", cwd=small)
    assert "Running stage 'score@mhqa'" in said and "Running stage 'generate@" not in said
    assert after["estimate"].tolist() == before["estimate"].tolist()
    assert pd.read_parquet(accuracy).equals(before)


def test_a_new_colour_makes_figures_again_and_no_questions(small):
    figures = small / "mhbench" / "report" / "style.py"
    text = figures.read_text()
    assert "#00805d" in text
    figures.write_text(text.replace("#00805d", "#00805e"))
    try:
        run(BIN / "mhbench", "inputs", cwd=small)  # the first stage of every repro
        out = run(BIN / "dvc", "status", cwd=small)
    finally:
        figures.write_text(text)
        run(BIN / "mhbench", "inputs", cwd=small)
    assert "score@mhqa" in out and "results/text/mhqa/prepare" not in out


def test_an_unknown_parameter_is_refused(mine, command):
    p = mine / "params.yaml"
    text = p.read_text()
    y = yaml.safe_load(text)
    y["score"]["n_boots"] = 10
    p.write_text(yaml.safe_dump(y, sort_keys=False))
    try:
        out = command("run", "score", "--study", "mhqa", cwd=mine, ok=False)
    finally:
        p.write_text(text)
    assert "score.n_boots must be one of" in out and "did you mean n_boot?" in out


def test_a_missing_parameter_is_refused(mine, command):
    p = mine / "params.yaml"
    text = p.read_text()
    y = yaml.safe_load(text)
    del y["score"]["n_boot"]
    p.write_text(yaml.safe_dump(y, sort_keys=False))
    try:
        out = command("run", "score", "--study", "mhqa", cwd=mine, ok=False)
    finally:
        p.write_text(text)
    assert "studies.mhqa.score.n_boot must be given; got nothing" in out


BAD = {
    "prepare": ({"path": "data/nowhere"}, "path must be a file or a folder"),
    "generate": (
        {
            "modes": {"zero_shout": {}},
            "entries": {"m": {"endpoint": "e", "served": "m", "lineage": "m"}},
            "endpoints": {"e": {"kind": "openai", "base_urls": ["http://127.0.0.1:9/v1"]}},
            "model": "m",
        },
        "modes must be among",
    ),
    "score": ({"by": ["kategory"]}, "kategory"),
    "collect": ({"files": ["data/nowhere.xml"]}, "nowhere.xml"),
    "compose": ({"shares": {"train": 0.5}, "asked": [], "entries": {}, "endpoints": {}}, "sum to 1"),
    "finetune": ({"train": "data/nowhere.csv", "entries": {}, "endpoints": {}}, "path must be a file"),
    "profile": ({"asked": ["nobody"], "entries": {}, "endpoints": {}}, "nobody"),
    "keys": ({"passages": "data/nowhere.jsonl", "entries": {}, "endpoints": {}}, "nowhere.jsonl"),
    "judge": ({"judges": ["nobody"]}, "nobody"),
    "freeform": ({"models": ["nobody"]}, "nobody"),
    "reasoning": ({"convention": "mine"}, "convention must be"),
    "preferences": ({"labels": "mine"}, "labels must be"),
    "demographics": ({"method": "mine"}, "method must be"),
    "agreement": ({"level": "mine"}, "level"),
    "panel": ({"study": "mhqa"}, "ratings"),
    "competency": ({"interval": "mine"}, "interval"),
    "duels": (
        {"judges": ["nobody"], "entries": {}, "endpoints": {}, "contestants": None, "n_errors": 1, "n_items": 2},
        "nobody",
    ),
    "contamination": ({"asked": ["nobody"], "entries": {}, "endpoints": {}}, "nobody"),
    "ledger": ({"claims": "nowhere.yaml"}, "nowhere.yaml"),
    "report": ({"run": {"studies": ["nothing"], "models": []}}, "must have left its contents"),
}


@pytest.fixture(scope="module")
def all_results(small, mine, tmp_path_factory) -> Path:
    "The results of the small run, with a third study's and the questions that are composed for one."
    results = tmp_path_factory.mktemp("all") / "results"
    shutil.copytree(small / "results", results)
    with contextlib.chdir(mine):
        for stage in ("collect", "compose"):
            run_stage(stage, "mhqa", overrides={"results": str(results)})
        for stage, model, more in (("prepare", None, {"n_items": 4}), ("generate", "minilm", {}), ("score", None, {})):
            run_stage(stage, "counselingbench", model, overrides={"results": str(results)} | more)
    return results


@pytest.mark.parametrize("stage", sorted(BAD))
def test_each_stage_refuses_bad_input(stage, mine, all_results, tmp_path, monkeypatch):
    bad, words = BAD[stage]
    monkeypatch.chdir(mine)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    study = (
        None
        if stage == "report"
        else {
            "freeform": "mentat",
            "reasoning": "counselingbench",
            "preferences": "mentat",
            "agreement": "mentat",
            "demographics": "mentat",
            "competency": "counselingbench",
            "duels": "counselingbench",
            "contamination": "counselingbench",
        }.get(stage, "mhqa")
    )
    values = {"results": str(tmp_path / "bad")}
    shutil.copytree(all_results, tmp_path / "bad")
    if stage == "judge":
        values |= {
            "kind": "label",
            "n_items": 2,
            "judges": [],
            "entries": {},
            "endpoints": {},
            "lineages": {"minilm": "minilm"},
        }
    with pytest.raises((RuntimeError, ValueError), match=words):
        run_stage(stage, study, "minilm" if stage == "generate" else None, overrides=values | bad)


def test_a_changed_source_is_refused(small, tmp_path, monkeypatch):
    monkeypatch.chdir(small)
    source = tmp_path / "mhqa.csv"
    shutil.copy(next((small / "data" / "mhqa").glob("*.csv")), source)
    digest = inputs.sha256(source)
    with source.open("a") as f:
        f.write("\n")
    with pytest.raises(RuntimeError, match="the source must be the file that was imported"):
        run_stage("prepare", "mhqa", overrides={"results": str(tmp_path / "r"), "path": str(source), "sha256": digest})


def test_two_tagged_cells_are_refused(mine, monkeypatch):
    monkeypatch.chdir(mine)
    f = mine / "nbs" / "stages" / "prepare.ipynb"
    text = f.read_text()
    nb = nbformat.read(f, 4)
    next(c for c in nb.cells if c.cell_type == "code" and not c.metadata.get("tags")).metadata["tags"] = ["parameters"]
    nbformat.write(nb, f)
    try:
        with pytest.raises(ValueError, match="one cell tagged 'parameters'; got 2"):
            run_stage("prepare", "mhqa")
    finally:
        f.write_text(text)


def test_no_text_of_a_protected_corpus_is_in_any_result(small, tmp_path, monkeypatch):
    "The demo bank without its canary column is read as what it imitates: a protected release."
    monkeypatch.chdir(small)
    corpus = tmp_path / "release"
    shutil.copytree(small / "data" / "mentat", corpus)
    table = pd.read_csv(corpus / "final_dataset_raw_questions.csv", dtype=str, keep_default_na=False, index_col=0)
    table.drop(columns="canary").to_csv(corpus / "final_dataset_raw_questions.csv")
    out = str(tmp_path / "results")
    values = {"results": out}
    run_stage("prepare", "mentat", overrides=values | {"path": str(corpus), "sha256": None, "n_items": 16})
    run_stage("generate", "mentat", "minilm", overrides=values)
    for stage in ("preferences", "score", "freeform", "agreement", "demographics"):
        run_stage(stage, "mentat", overrides=values)
    items = read_records(tmp_path / "results/text/mentat/prepare/items.parquet", Item)
    assert all(i.protected for i in items) and len(items) >= 16
    words = {
        t[:60]
        for i in items
        for t in (i.question, *i.options, *(v for k, v in i.variant.items() if k.startswith("text_")))
        if len(t) > 25
    }
    searched = 0
    for f in (tmp_path / "results").rglob("*"):
        if not f.is_file() or f.name in ("items.parquet", "ratings.parquet", "recorded.parquet"):
            continue
        text = pd.read_parquet(f).to_csv() if f.suffix == ".parquet" else f.read_text(encoding="utf-8", errors="ignore")
        searched += 1
        assert not [w for w in words if w in text], f"{f.name} holds text of a protected item"
    assert searched > 25


REMOTE = {"kind": "openai", "identity": "remote", "api_key_env": "PLANTED_KEY", "pause_s": 0.01, "max_attempts": 2}
ASKED = {"endpoint": "remote", "served": "m-1", "lineage": "m", "sampling": {"temperature": 0.0, "max_tokens": 5}}


def test_a_planted_key_is_nowhere_after_a_run(clone, tmp_path):
    """The endpoint repeats the key in its errors; no notebook, cache, lock, log, table, page or message of the run
    holds it.
    """
    secret, folder = "-".join(["sk-planted", "run", "0123456789abcdef"]), tmp_path / "mhbench"  # in no file as it is
    shutil.copytree(clone, folder, ignore=shutil.ignore_patterns(".mhbench"))
    echo = lambda n, body: (
        (lambda _: ([401, 400, 500][n % 3], {"error": {"message": f"Incorrect API key provided: {secret}"}}))
        if n < 9
        else None
    )
    everywhere = lambda: [
        str(f.relative_to(folder)) for f in folder.rglob("*") if f.is_file() and secret.encode() in f.read_bytes()
    ]
    env = {k: v for k, v in ENV.items() if k != "MHBENCH_ROOT"} | {"PLANTED_KEY": secret}
    with FaultServer(every=echo) as s:
        p = yaml.safe_load((clone / "params.yaml").read_text())
        p["endpoints"]["remote"], p["models"]["remote"] = REMOTE | {"base_urls": [s.url]}, ASKED
        p["studies"]["psychiatrybench"]["judge"] |= {"judges": ["remote"]}
        drop_stages(
            p["studies"]["psychiatrybench"], "approach", "classification", "formats", "standings", "judge_study"
        )
        (folder / "params.yaml").write_text(yaml.safe_dump(p, sort_keys=False))
        mhbench("select", "--studies", "psychiatrybench", "--models", "remote", "--items", "12", cwd=folder)
        done = subprocess.run([BIN / "dvc", "repro", "-v"], cwd=folder, env=env, capture_output=True, text=True)
        silent = "failed to reproduce 'outcome'" in done.stdout + done.stderr  # a judge whose verdicts are letters
        assert done.returncode == 0 or silent, done.stdout[-3000:] + done.stderr[-1500:]
        assert s.headers[0]["authorization"] == f"Bearer {secret}" and len(s.asked) > 12
        responses = read_records(folder / "results/text/psychiatrybench/generate/remote/responses.parquet", Response)
        assert any("[key]" in (r.error or "") for r in responses) and any(r.status == "ok" for r in responses)
        assert (folder / "results/studies/psychiatrybench/judge/notebook.ipynb").exists()
        assert secret not in done.stdout + done.stderr and everywhere() == []
        p = yaml.safe_load((folder / "params.yaml").read_text())
        p["generate"] |= {"replay": "off"}
        (folder / "params.yaml").write_text(yaml.safe_dump(p, sort_keys=False))
        s.asked.clear()  # the echo begins again
        again = subprocess.run(
            [BIN / "mhbench", "run", "generate", "--study", "psychiatrybench", "--model", "remote"],
            cwd=folder,
            env=env,
            capture_output=True,
            text=True,
        )
    assert again.returncode == 0, again.stderr
    responses = read_records(folder / "results/text/psychiatrybench/generate/remote/responses.parquet", Response)
    assert any("[key]" in (r.error or "") for r in responses)
    assert secret not in again.stdout + again.stderr and everywhere() == []


def test_the_batch_api_gives_the_responses_of_the_ordinary_path(small, tmp_path, monkeypatch):
    "The same stage by `delivery: batch`: one batch, no request beside it, and the same bytes."
    monkeypatch.chdir(small)
    monkeypatch.setenv("PLANTED_KEY", "sk-planted-0123456789abcdef")
    shutil.copytree(small / "results" / "text" / "mhqa" / "prepare", tmp_path / "text" / "mhqa" / "prepare")
    letters = {
        "content": [{"token": "A", "top_logprobs": [{"token": "A", "logprob": -0.1}, {"token": "B", "logprob": -2.5}]}]
    }
    found = {}
    with BatchServer(logprobs=letters, say=lambda body: "A") as s:
        values = {
            "results": str(tmp_path),
            "model": "remote",
            "modes": {"zero_shot": {}, "few_shot": {"n_items": 3}},
            "entries": {"remote": ASKED},
            "endpoints": {"remote": REMOTE | {"base_urls": [s.url]}},
        }
        for delivery in ("batch", "live"):
            run_stage(
                "generate",
                "mhqa",
                "minilm",
                overrides=values | {"delivery": delivery, "cache": str(tmp_path / f"{delivery}.sqlite")},
            )
            found[delivery] = (tmp_path / "text/mhqa/generate/remote/responses.parquet").read_bytes()
            assert len(s.batches) == 1 and len(s.direct) == (0 if delivery == "batch" else 13)
    assert found["batch"] == found["live"]


def test_a_cluster_gives_the_bytes_of_threads(small, tmp_path, monkeypatch):
    pytest.importorskip("dask.distributed", reason="the extra dask is not installed")
    monkeypatch.chdir(small)
    shutil.copytree(small / "results" / "text" / "mhqa" / "prepare", tmp_path / "text" / "mhqa" / "prepare")
    run_stage(
        "generate", "mhqa", "minilm", overrides={"results": str(tmp_path), "executor": {"kind": "dask", "workers": 2}}
    )
    of = "text/mhqa/generate/minilm/responses.parquet"
    assert (tmp_path / of).read_bytes() == (small / "results" / of).read_bytes()
