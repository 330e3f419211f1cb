"""`mhbench export eee`: valid against the published schemas, equal after a round trip, silent about protected texts."""

import hashlib
import json
import os
import re
import signal
import stat
import subprocess
import sys
import uuid
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import jsonschema
import pandas as pd
import pytest
import yaml

from mhbench.errors import NOTES
from mhbench.records.answers import load_answers
from mhbench.records.database import SUMS, stage_folder
from mhbench.records.schema import Item, Judgment, Rating, Response, write_records
from mhbench.run.cli import main
from mhbench.run.losses import named_parts, selected_run
from mhbench.steps.accuracy import breakdowns
from mhbench.steps.score import score_responses, self_consistency
from mhbench.tools import eee
from mhbench.tools.eee import HumanRating, _rows_of
from mhbench.tools.panel import new_file

SCHEMAS = Path(__file__).parent / "fixtures" / "every_eval_ever"
CANARY = "Frau Ziegler hears the radiator speak"
OPTIONS = ["lithium", "sertraline", "clozapine"]


def validator(name):
    return jsonschema.Draft7Validator(json.loads((SCHEMAS / name).read_text(encoding="utf-8")))


def items():
    about = {"study": "mhqa", "task": "multiple_choice", "source": "by hand", "category": "drugs"}
    out = [
        Item(
            item_id=f"q{k}", question=f"What for case {k}?", options=OPTIONS, key=["B"], group_id=f"c{k // 2}", **about
        )
        for k in range(8)
    ]
    gap = {"item_id": "gap", "question": "The antidote is ___.", "key": ["Naloxone"], "study": "mhqa", "source": "x"}
    closed = {"question": CANARY, "options": [CANARY + x for x in "abc"], "rationale": CANARY, "context": {"x": CANARY}}
    hidden = [Item(item_id=f"p{k}", key=["A"], protected=True, **closed, **about) for k in (1, 2)]
    return [*out, Item(task="cloze", **gap), *hidden]


def responses(model):
    "Every way in which an answer can come: plain, numbered, moved options, log-probabilities alone, votes, no answer."

    def said(item_id, text, **more):
        return Response(item_id=item_id, study="mhqa", model=model, **{"mode": "zero_shot", "text": text} | more)

    tokens = {"prompt_tokens": 40, "completion_tokens": 3}
    out = [
        said("q0", "B", served={"model": "minilm-2", "date": "2027-03-01"}, **tokens),
        said("q0", "B", sample=1, served={"date": "2027-02-28"}),
        said("q1", "The answer is A."),
        said("q2", "2", numbered=True),
        said("q3", "C", order=[2, 0, 1]),  # shown third: clozapine's letter is A, sertraline's C
        said("q4", None, letter_logprobs={"A": -3.0, "B": -0.1, "C": -4.0}),
        said("q5", "I cannot help with that.", status="refused", error="refusal field"),
        said("q6", None, status="error", error="503"),
        said("q7", "Hm. =2+5 perhaps", status="truncated"),
        said("gap", "naloxone."),
        said("p1", CANARY, reasoning=CANARY, letter_logprobs={"A": -0.5, "B": -1.0, "C": -3.0}),
        said("p2", None, status="error", error=CANARY),
    ]
    votes = [said("q0", t, mode="cot", sample=k, votes=True, temperature=0.7) for k, t in enumerate("BBA")]
    return [*out, said("q0", "A", mode="cot"), *votes]


@pytest.fixture
def home(tmp_path, root, monkeypatch):
    "A working folder whose stages have left what they leave, made by hand."
    p = yaml.safe_load((root / "params.yaml").read_text(encoding="utf-8"))
    p["models"]["minilm"] |= {"served": "sentence-transformers/all-MiniLM-L6-v2"}
    p["studies"] = {"mhqa": {k: p["studies"]["mhqa"][k] for k in ("prepare", "generate", "score")}}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(p), encoding="utf-8")
    run = {"studies": ["mhqa"], "models": ["minilm"]}
    (tmp_path / "run.yaml").write_text(yaml.safe_dump({"run": run}), encoding="utf-8")
    for name in ("dvc.yaml", "nbs"):
        (tmp_path / name).symlink_to(root / name)
    results = tmp_path / "results"
    for folder in (
        "text/mhqa/prepare",
        "text/mhqa/generate/minilm",
        "text/mhqa/judge",
        "studies/mhqa/score",
        "studies/mhqa/judge",
    ):
        (results / folder).mkdir(parents=True)
    of_nobody = [r for r in responses("silent") if r.status == "error"]  # a model of which nothing could be scored
    recorded = [r.model_copy(update={"origin": "recorded"}) for r in [*responses("elsewhere"), *of_nobody]]
    scores = score_responses(items(), [*responses("minilm"), *recorded])
    scores = pd.concat([scores, self_consistency(scores, items())], ignore_index=True)
    scores = scores.assign(
        origin=scores["model"].map({"minilm": "asked", "elsewhere": "recorded", "silent": "recorded"})
    )
    accuracy = breakdowns(scores, ["category"], n_boot=50, seed=1)["correct"]
    accuracy.assign(origin="asked").to_parquet(results / "studies/mhqa/score/accuracy.parquet")
    scores.to_parquet(results / "studies/mhqa/score/scores.parquet")
    rated = {"study": "mhqa", "rater": "rater-1", "target": "A", "value": 70.0, "comment": CANARY, "source": "x"}
    rated |= {"variant": {"wording": "female"}}
    write_records(items(), results / "text/mhqa/prepare/items.parquet", Item)
    write_records(recorded, results / "text/mhqa/prepare/recorded.parquet", Response)
    write_records(responses("minilm"), results / "text/mhqa/generate/minilm/responses.parquet", Response)
    ratings = [Rating(item_id=i, **rated) for i in ("q0", "p1")]
    write_records(ratings, results / "text/mhqa/prepare/ratings.parquet", Rating)
    verdict = {
        "item_id": "gap",
        "study": "mhqa",
        "model": "minilm",
        "judge": "minilm",
        "kind": "label",
        "label": "pass",
    }
    write_records([Judgment(rubric="of gaps", **verdict)], results / "text/mhqa/judge/judgments.parquet", Judgment)
    mean = {
        "judge": "minilm",
        "model": "minilm",
        "by": "all",
        "group": "all",
        "n": 20,
        "n_clusters": 20,
        "estimate": 0.75,
    }
    mean |= {"ci_low": 0.5, "ci_high": 0.9, "level": 0.95, "interval": "agresti-coull", "n_failed": 1}
    pd.DataFrame([mean]).to_parquet(results / "studies/mhqa/judge/means.parquet")
    for part in named_parts(selected_run(tmp_path), tmp_path):
        left = results / stage_folder(*part)
        left.mkdir(parents=True, exist_ok=True)
        (left / "contents.json").write_text('{"stage": "any"}', encoding="utf-8")
    monkeypatch.setenv("MHBENCH_ROOT", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def exported(*words, to="out"):
    assert main(["export", "eee", to, *words]) == 0
    runs = {}
    for file in sorted(Path(to).glob("data/*/*/*/*.json")):
        run = json.loads(file.read_text(encoding="utf-8"))
        lines = Path(to, run["detailed_evaluation_results"]["file_path"]).read_text(encoding="utf-8").splitlines()
        runs[run["model_info"]["name"]] = run, [json.loads(x) for x in lines]
    return runs


def unscored(run, to="out"):
    "The answers that nothing scored: the schema has no place for them, and 0 would be false."
    file = Path(to, "unscored", run["evaluation_id"].split("/")[0], run["model_info"]["id"], "answers.jsonl")
    return [json.loads(x) for x in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []


@pytest.mark.parametrize("private", [False, True])
def test_runs_and_answers_are_valid(home, private):
    runs = exported(*(["--private"] if private else []))
    assert list(runs) == ["elsewhere", "minilm"]
    for run, lines in runs.values():
        validator("eval.schema.json").validate(run)
        apart = unscored(run)
        assert len(lines) == run["detailed_evaluation_results"]["total_rows"] == 18 - len(apart)
        assert not any("evaluation" in x for x in apart)
        for line in lines:
            validator("instance_level_eval.schema.json").validate(line)
    assert runs["minilm"][0]["model_info"]["id"] == "sentence-transformers/all-MiniLM-L6-v2"
    assert runs["minilm"][0]["evaluation_timestamp"] == "2027-03-01T00:00:00+00:00", "the last answer's"
    assert runs["minilm"][1][0]["metadata"]["served_model"] == "minilm-2"
    assert subprocess.run(["sha256sum", "--quiet", "-c", SUMS], cwd="out").returncode == 0


def test_what_nothing_scored_is_apart_from_what_the_schemas_validator_looks_at(home):
    "The validator of Every Eval Ever refuses a file in data/ of another name, and a run without a line."
    runs = exported()
    schema = json.loads((SCHEMAS / "eval.schema.json").read_text(encoding="utf-8"))
    of_lines = schema["properties"]["detailed_evaluation_results"]["properties"]["file_path"]["pattern"]
    files = [f.relative_to("out").as_posix() for f in Path("out/data").rglob("*") if f.is_file()]
    assert len(files) == 2 * len(runs)
    assert not [
        f for f in files if not re.match(of_lines, f.replace(".json", "_samples.jsonl")) and f.endswith(".json")
    ]
    assert not [f for f in files if not re.match(of_lines, f) and f.endswith(".jsonl")]
    assert list(runs) == ["elsewhere", "minilm"] and all(lines for _, lines in runs.values())
    (silent,) = Path("out/unscored/mhqa").glob("*/silent/answers.jsonl")
    assert len(silent.read_text(encoding="utf-8").splitlines()) == 2


def test_intervals_are_the_tables_and_a_standard_error_is_over_cases(home):
    run, lines = exported()["minilm"]
    table = pd.read_parquet(home / "results/studies/mhqa/score/accuracy.parquet").query("model == 'minilm'")
    table = table[table["estimate"].notna()]
    assert len(run["evaluation_results"]) == len(table) + 1
    judged = run["evaluation_results"][-1]
    scoring = judged["metric_config"]["llm_scoring"]
    assert scoring["judges"][0]["model_info"]["name"] == "minilm" and scoring["input_prompt"].endswith(": of gaps")
    limits = {"lower": 0.5, "upper": 0.9, "confidence_level": 0.95, "method": "agresti-coull"}
    assert judged["score_details"]["uncertainty"] == {"confidence_interval": limits, "num_samples": 20}
    for result, row in zip(run["evaluation_results"], table.itertuples()):
        said = result["score_details"]
        assert said["score"] == row.estimate and said["details"]["n"] == str(row.n)
        limits = said.get("uncertainty", {}).get("confidence_interval")
        assert (limits is None) == pd.isna(row.ci_low)
        if limits:
            assert (limits["lower"], limits["upper"], limits["method"]) == (row.ci_low, row.ci_high, row.interval)
    plain = run["evaluation_results"][[r["evaluation_result_id"] for r in run["evaluation_results"]].index(MAIN)]
    own = [x for x in lines if x.get("evaluation_result_id") == MAIN]
    of_item = pd.DataFrame([(x["sample_id"], x["evaluation"]["score"]) for x in own]).groupby(0)[1].mean()
    assert of_item.mean() == pytest.approx(plain["score_details"]["score"]) and len(of_item) == len(own) - 1
    failed = next(x for x in unscored(run) if x["sample_id"] == "q6")
    assert "evaluation_result_id" not in failed and failed["error"] == "failed: 503"


MAIN = "mhqa/zero_shot/plain/1/accuracy/all/all"


def test_scores_of_other_answers_are_refused(home, capsys):
    (home / "results/text/mhqa/generate/minilm/responses.parquet").unlink()
    assert main(["export", "eee", "out"]) == 1
    said = capsys.readouterr().err
    assert "must be those that were scored; got scores of 16 answers" in said and not Path("out").exists()


def test_nothing_of_a_protected_corpus_leaves(home):
    exported()
    files = [f for f in Path("out").rglob("*") if f.is_file()]
    assert files and not [f for f in files if CANARY.encode() in f.read_bytes()]
    run, lines = exported()["minilm"]
    lines = [*lines, *unscored(run)]
    hidden = [x for x in lines if x["sample_id"].startswith("p")]
    assert {x["input"]["raw"][:7] for x in hidden} == {"sha256:"} and len(hidden) == 2
    for x in hidden:
        assert x["output"]["raw"] == x["input"]["reference"] == x["answer_attribution"] == []
        assert "letter_logprobs" not in x["metadata"] and x["error"] in (None, "failed")
    ratings = Path("out/ratings/mhqa.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(r)["sample_id"] for r in ratings] == ["q0"]
    open_ones = exported("--private")["minilm"][1]
    assert CANARY in json.dumps(open_ones) and CANARY not in Path("out/ratings/mhqa.jsonl").read_text(), "no comments"


def test_people_s_ratings_are_valid_against_the_extension(home, root):
    run, _ = exported()["minilm"]
    told = run["source_metadata"]["additional_details"]
    lines = Path("out", told["human_ratings.file_path"]).read_text(encoding="utf-8").splitlines()
    assert told["human_ratings.total_rows"] == str(len(lines)) == "1"
    assert (told["human_ratings.licence"], told["human_ratings.consent"]) == ("unknown", "unknown")  # nobody said
    agreed = ("--license", "cc-by-4.0", "--consent", "to publication without names")
    told = exported(*agreed)["minilm"][0]["source_metadata"]["additional_details"]
    assert [told[f"human_ratings.{k}"] for k in ("licence", "consent")] == [*agreed[1::2]]
    schema = json.loads(Path("out/ratings/human_ratings.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(json.loads(lines[0]))
    page = (root / "docs" / "exchange.md").read_text(encoding="utf-8")
    assert not [name for name in HumanRating.model_fields if f"`{name}`" not in page], (
        "docs/exchange.md names each field"
    )


@pytest.mark.parametrize("which", ["folder", "run", "lines"])
def test_answers_come_back_with_equal_scores(home, which, capsys):
    exported("--private")
    (folder,) = Path("out").glob("data/mhqa/sentence-transformers/*")
    run = next(folder.glob("*.json"))
    path = {"folder": folder, "run": run, "lines": folder / f"{run.stem}_samples.jsonl"}[which]
    again = load_answers(path, items(), "again")
    old, new = (score_responses(items(), r) for r in (responses("minilm"), again))
    key = ["item_id", "mode", "answered_by", "temperature", "sample"]
    kept = [*key, "correct", "read", "how", "status", "confidence", "brier"]
    if which != "folder":  # what nothing scored stands in a file of its own
        old = old[old["correct"].notna()]
    same = [t.sort_values(key, ignore_index=True)[kept] for t in (old, new)]
    pd.testing.assert_frame_equal(*same)
    assert {r.origin for r in again} == {"recorded"}
    assert ("again: 16 of 16 answers" in capsys.readouterr().out) == (which == "folder")


def test_what_cannot_be_read_back_is_refused(home):
    exported()
    with pytest.raises(ValueError, match="export it with --private"):
        load_answers(next(Path("out").glob("data/*/sen*/*")), items(), "again")
    exported("--private")
    with pytest.raises(ValueError, match="must hold the answers of one model; got .'recorded/elsewhere', 'sentence"):
        load_answers("out", items(), "again")
    folder = next(Path("out").glob("data/*/sen*/*"))
    other = [i.model_copy(update={"options": ["x", "y", "z"]}) if i.item_id == "q1" else i for i in items()]
    with pytest.raises(ValueError, match="choices must be the item's options"):
        load_answers(folder, other, "again")
    (lines,) = folder.glob("*.jsonl")
    lines.write_text(lines.read_text(encoding="utf-8").replace('"B"', '"A"'), encoding="utf-8")
    with pytest.raises(ValueError, match="must be the one that its run names; got another hash"):
        load_answers(next(folder.glob("*.json")), items(), "again")


def test_another_s_file_needs_none_of_our_metadata(tmp_path):
    "The README's example, with a choice in another order, and metrics that share a sample: answers come once."
    line = {"evaluation_id": "e/m/1", "model_id": "o/m", "evaluation_name": "e", "interaction_type": "single_turn"}
    answer = {"input": {"raw": "?", "reference": ["C"], "choices": OPTIONS[::-1]}, "output": {"raw": ["B"]}}
    rows = [line | answer | {"sample_id": "q0", "evaluation_result_id": m} for m in ("acc", "acc", "f1", "f1")]
    rows.append(line | answer | {"sample_id": "q1", "output": {"raw": []}, "error": "Refusal by the model"})
    talk = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "A"}]
    rows.append(line | {"sample_id": "q2", "input": answer["input"], "output": None, "messages": talk})
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
    got = load_answers(tmp_path / "x.jsonl", items(), "other")
    assert [(r.item_id, r.sample, r.text, r.status) for r in got] == [
        ("q0", 0, "B", "ok"),
        ("q0", 1, "B", "ok"),
        ("q1", 0, "", "refused"),
        ("q2", 0, "A", "ok"),
    ]
    assert {tuple(r.order) for r in got} == {(2, 1, 0)}


def test_two_exports_are_the_same_bytes_and_only_an_export_is_replaced(home, capsys):
    exported()
    first = {f: f.read_bytes() for f in Path("out").rglob("*") if f.is_file()}
    exported()
    assert {f: f.read_bytes() for f in Path("out").rglob("*") if f.is_file()} == first
    Path("out/notes.txt").write_text("mine")
    assert main(["export", "eee", "out"]) == 1
    assert "must be new, empty or an export; got 'notes.txt'" in capsys.readouterr().err
    assert Path("out/notes.txt").read_text() == "mine" and set(os.listdir(".")) >= {"out"}
    assert not list(Path(".").glob(".out.*"))


KINDS = {"eee": [], "inspect": [], "hf": ["--license", "cc-by-4.0"]}


@pytest.mark.parametrize("kind", KINDS)
def test_every_export_is_its_owner_s_alone_and_git_leaves_it(home, kind):
    subprocess.run(["git", "init", "-q"], check=True)
    old = os.umask(0o022)
    try:
        assert main(["export", kind, "out", *KINDS[kind]]) == 0
    finally:
        os.umask(old)
    assert stat.S_IMODE(Path("out").stat().st_mode) == 0o700
    files = [f for f in Path("out").rglob("*") if f.is_file() and f.name != ".gitignore"]
    assert files and {stat.S_IMODE(f.stat().st_mode) for f in files} == {0o600}
    listed = subprocess.run(["git", "status", "--porcelain", "-uall"], check=True, capture_output=True, text=True)
    assert "out/" not in listed.stdout


def test_a_sheet_for_people_is_its_owner_s_alone(tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    file = new_file(tmp_path / "sheets" / "panel.csv")
    file.write_text("=cmd", encoding="utf-8")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    status = ["git", "-C", str(tmp_path), "status", "--porcelain", "-uall"]
    assert subprocess.run(status, check=True, capture_output=True, text=True).stdout == "?? sheets/.gitignore\n"


def test_a_dataset_has_the_licence_that_is_given_and_no_other(home, capsys):
    assert main(["export", "hf", "out"]) == 1 and not Path("out").exists()
    assert "--license must be given for hf" in (said := capsys.readouterr().err) and "--license cc-by-4.0" in said


KILLED = """
import os, signal, sys
from mhbench.records import database
with database.staged_folder("out") as write:
    write("data/a.json", b"1" * 1000)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_export_leaves_the_old_one_and_nothing_half(home):
    exported()
    first = (Path("out") / SUMS).read_bytes()
    for there in (True, False):
        done = subprocess.run([sys.executable, "-c", KILLED], env={**os.environ, "PYTHONHASHSEED": "0"})
        assert done.returncode == -signal.SIGKILL
        assert Path(".out.partial").exists() and Path("out").exists() == there
        if there:
            assert (Path("out") / SUMS).read_bytes() == first
            subprocess.run(["rm", "-r", "out", ".out.partial"], check=True)
    exported()
    assert (Path("out") / SUMS).read_bytes() == first and not Path(".out.partial").exists()


def test_a_row_of_accuracies_rests_on_the_answers_in_its_mode_and_of_its_vote():
    ways = [("cot", "plain", 1), ("zero_shot", "plain", 1), ("cot", "majority", 1), ("cot", "plain", 5)]
    rows = pd.DataFrame(ways, columns=["mode", "answered_by", "n_votes"]).assign(set=["a", "a", "a", "b"])
    first = next(rows.assign(by="all", group="all").itertuples())
    assert _rows_of(first, rows, None).index.tolist() == [0]
    fifth = next(rows[3:].assign(by="all", group="all").itertuples())
    assert _rows_of(fifth, rows, None).index.tolist() == [3] and not len(_rows_of(fifth, rows, "a"))
    by_set = next(rows[3:].assign(by="set", group="b").itertuples())
    assert _rows_of(by_set, rows, "a").index.tolist() == [3]


def test_what_people_alone_have_rated_is_exported(home, capsys):
    for file in Path("results/studies/mhqa/score").glob("*.parquet"):  # the stage has run, and had no answer to score
        file.unlink()
    rated = {"item_id": "q0", "study": "mhqa", "source": "x"}
    told = [
        Rating(rater="r1", target="A", criterion="warm", value=1.0, **rated),
        Rating(rater="r1", target="A", criterion="asks", value=0.0, **rated),
        Rating(rater="t", kind="adjudicator", target="A", criterion="warm", value=1.0, **rated),
        Rating(rater="r1", item_id="p1", target="A", value=1.0, study="mhqa", source="x"),
    ]
    write_records(told, Path("results/text/mhqa/prepare/ratings.parquet"), Rating)
    NOTES.clear()
    assert main(["export", "eee", "out", "--license", "cc-by-4.0"]) == 0
    lines = [json.loads(x) for x in Path("out/ratings/mhqa.jsonl").read_text(encoding="utf-8").splitlines()]
    kinds = [("person", "warm"), ("person", "asks"), ("adjudicator", "warm")]
    assert [(x["rater_kind"], x["criterion"]) for x in lines] == kinds
    said = json.loads(Path("out/ratings/mhqa.json").read_text(encoding="utf-8"))
    assert (said["licence"], said["total_rows"]) == ("cc-by-4.0", "3") and not Path("out/data").exists()
    assert main(["export", "hf", "set", "--license", "cc-by-4.0"]) == 0
    assert len(pd.read_parquet("set/ratings.parquet")) == 3 and not Path("set/answers.parquet").exists()
    left_out = "protected items it has ids and scores alone, and no rating (left out: 1); --private writes the rest"
    assert capsys.readouterr().err.count(left_out) == 2
    assert main(["export", "hf", "whole", "--license", "cc-by-4.0", "--private"]) == 0
    assert "protected items are in it, for those who may read them" in capsys.readouterr().err
    assert len(pd.read_parquet("whole/ratings.parquet")) == 4
    assert main(["export", "inspect", "logs"]) == 1
    assert "a log is of models' answers, and eee and hf have people's ratings" in capsys.readouterr().err
    write_records(told[3:], Path("results/text/mhqa/prepare/ratings.parquet"), Rating)
    assert main(["export", "eee", "none"]) == 1
    said = capsys.readouterr().err
    assert "1 ratings of protected items" in said and "--private writes them" in said and "dvc repro" not in said


@pytest.mark.parametrize(
    ("entry", "args", "thinks"),
    [
        ({}, {}, False),
        ({"max_tokens": 200, "thinking": True}, {"max_tokens": 200}, True),
        ({"max_tokens": {"answer": 64, "reasoning": 900}}, {"max_tokens": 64}, False),
        ({"max_tokens": {"reasoning": 900}, "sampling": None}, {}, False),
        (
            {"sampling": {"temperature": 0, "top_p": 1.0, "top_k": 5, "seed": 3}},
            {"temperature": 0, "top_p": 1.0, "top_k": 5},
            False,
        ),
    ],
)
def test_the_settings_of_a_model_are_those_of_its_entry(entry, args, thinks):
    assert eee._generation(entry) == {"args": args, "thinks": thinks}


ENTRY = {
    "endpoint": "e",
    "served": "lab/model-1",
    "provider": "The Lab, Inc.",
    "open": True,
    "lineage": "x",
    "medical": False,
}


@pytest.mark.parametrize(
    ("entry", "kind", "identity", "deployment", "availability", "more"),
    [
        (ENTRY, "local", "lab/model-1", "self_deployed", "open_weights", {"served": "lab/model-1"}),
        (ENTRY | {"served": "/opt/m.gguf"}, "openai", "The-Lab-Inc./model", "unknown", "open_weights", {}),
        (
            ENTRY | {"served": "a/b/c", "open": False},
            "openai",
            "The-Lab-Inc./model",
            "externally_managed",
            "closed_weights",
            {"served": "a/b/c"},
        ),
        (
            ENTRY | {"provider": "?", "served": ".a/b", "open": "partly"},
            None,
            "unknown/model",
            "unknown",
            "unknown",
            {"served": ".a/b"},
        ),
    ],
)
def test_a_model_has_the_address_of_a_hub_or_else_its_developer_and_its_name(
    entry, kind, identity, deployment, availability, more
):
    p = {"models": {"model": entry}, "endpoints": {"e": {"kind": kind} if kind else {}}}
    details = {"deployment_type": deployment, "model_availability": availability, "origin": "asked"}
    details |= {"lineage": "x", "medical": "False"} | more
    assert eee._model_info("model", p, "asked") == {
        "name": "model",
        "id": identity,
        "additional_details": details,
        "developer": entry["provider"],
    }
    recorded = eee._model_info("elsewhere", p, "recorded")
    details = {"deployment_type": "unknown", "model_availability": "unknown", "origin": "recorded"}
    assert recorded == {"name": "elsewhere", "id": "recorded/elsewhere", "additional_details": details}


CHOICE = Item(
    item_id="q", study="s", task="multiple_choice", question="Which?", options=list("xyz"), key=["B"], source="x",
    context={"Age": "30"}, stems=["He sleeps."],
)  # fmt: skip
ROW = {"item_id": "q", "model": "m", "mode": "cot", "answered_by": "plain", "n_votes": 1, "sample": 2, "task": "t"}
ROW |= {
    "order": [2, 0, 1],
    "text": "It is C.",
    "reasoning": "Because.",
    "answer": ["B"],
    "how": "letter",
    "topic": None,
}
ROW |= {
    "error": None,
    "numbered": True,
    "served": {"model": "v1", "date": "2027-03-01"},
    "temperature": 0.7,
    "set": "D",
}
ROW |= {"letter_logprobs": {"A": -1.0}, "prompt_tokens": 40, "completion_tokens": 3, "became": "read", "correct": 1.0}
ROW |= {"cluster": "c1", "base_id": "b1", "request_key": "k1", "status": "ok", "origin": "asked", "category": "drugs"}


def test_an_answer_is_a_line_with_all_that_is_known_of_it():
    "Options were shown in the order z, x, y: the right one, B, was the third, and has the letter C."
    asked = "Age: 30\n\nHe sleeps.\n\nWhich?"
    turn = {"turn_idx": 0, "source": "output.raw", "extraction_method": "letter", "is_terminal": True}
    known = {"mode": "cot", "answered_by": "plain", "status": "ok", "origin": "asked", "task": "t", "category": "drugs"}
    known |= {"set": "D", "case": "c1", "question": "b1", "request_key": "k1", "sample": "2", "numbered": "yes"}
    known |= {"served_model": "v1", "served_date": "2027-03-01", "temperature": "0.7"}
    line = eee._instance_line(SimpleNamespace(**ROW), CHOICE, {"evaluation_id": "e"}, True)
    assert line == {
        "schema_version": "0.3.0",
        "evaluation_id": "e",
        "sample_id": "q",
        "sample_hash": hashlib.sha256(f"{asked}C".encode()).hexdigest(),
        "interaction_type": "single_turn",
        "input": {"raw": asked, "reference": ["C"], "choices": ["z", "x", "y"]},
        "output": {"raw": ["It is C."], "reasoning_trace": ["Because."]},
        "answer_attribution": [turn | {"extracted_value": "C"}],
        "evaluation": {"score": 1.0, "is_correct": True},
        "token_usage": {"input_tokens": 40, "output_tokens": 3, "total_tokens": 43},
        "error": None,
        "metadata": known | {"letter_logprobs": '{"A": -1.0}'},
    }
    closed = eee._instance_line(SimpleNamespace(**ROW), CHOICE, {}, False)
    assert closed["metadata"] == known | {"withheld": "texts of a protected corpus"}
    assert closed["input"]["raw"].startswith("sha256:") and closed["answer_attribution"] == []
    assert closed["output"] == {"raw": [], "reasoning_trace": None}


@pytest.mark.parametrize(
    ("became", "error", "is_public", "told"),
    [
        ("failed", "503", True, "failed: 503"),
        ("failed", "503", False, "failed"),
        ("refused", None, True, "refused"),
        ("read", "odd", True, None),
        ("judged", "odd", True, None),
    ],
)
def test_what_became_of_an_answer_is_its_error_with_what_the_service_said(became, error, is_public, told):
    row = ROW | {"became": {"judged": eee.JUDGED, "read": eee.READ}.get(became, became), "error": error}
    row |= {"text": "", "reasoning": None, "correct": 0.5, "answer": [], "temperature": float("nan"), "served": None}
    line = eee._instance_line(SimpleNamespace(**row | {"numbered": False}), CHOICE, {}, is_public)
    assert line["error"] == told and line["evaluation"] == {"score": 0.5, "is_correct": False}
    assert line["output"] == {"raw": [""] if is_public else [], "reasoning_trace": None}
    assert not {"temperature", "numbered", "served_model"} & set(line["metadata"])
    assert [x["extracted_value"] for x in line["answer_attribution"]] == [""] * (became == "read")


def judged_rows() -> pd.DataFrame:
    "Means of one judge on two models: as a whole, in a category, and one that could not be computed."
    row = {"judge": "j", "n": 20, "n_clusters": 10, "n_failed": 1, "ci_low": 0.5, "ci_high": 0.9, "level": 0.9}
    row |= {"interval": "t", "origin": "asked", "n_missing": float("nan")}
    kinds = [
        ("m", "all", "all", 0.75),
        ("m", "category", "drugs", 0.5),
        ("m", "all", "all", None),
        ("n", "all", "all", 0.1),
    ]
    return pd.DataFrame([row | dict(zip(("model", "by", "group", "estimate"), kind)) for kind in kinds])


def test_a_judge_s_mean_of_all_answers_is_a_result_and_its_breakdowns_are_not():
    rubrics = {"j": ["a", "b"], "other": ["c"]}
    s = eee.Scored("s", pd.DataFrame(), pd.DataFrame(), {}, [], None, judged_rows(), rubrics)
    [result] = eee._of_judges("m", s, {"models": {}, "endpoints": {}})
    judge = eee._model_info("j", {"models": {}, "endpoints": {}}, "asked")
    metric = {
        "metric_id": "mhbench.judged",
        "metric_name": "Judged by j",
        "evaluation_description": "judged by j, all items",
    }
    metric |= {"llm_scoring": {"judges": [{"model_info": judge}], "input_prompt": "rubrics of mhbench: a, b"}}
    limits = {"lower": 0.5, "upper": 0.9, "confidence_level": 0.9, "method": "t"}
    details = {"n": "20", "n_clusters": "10", "n_failed": "1", "interval": "t", "origin": "asked"}
    assert result == {
        "evaluation_result_id": "s/judge/j/all/all",
        "evaluation_name": "s",
        "source_data": {"dataset_name": "s", "source_type": "other"},
        "metric_config": metric | eee._BOUNDS,
        "score_details": {
            "score": 0.75,
            "details": details,
            "uncertainty": {"confidence_interval": limits, "num_samples": 20},
        },
    }


def accuracy_rows() -> pd.DataFrame:
    "Accuracies by hand: of the main set D two items of which one is right, of the set G one item that is right."
    row = {"model": "m", "mode": "cot", "answered_by": "plain", "n_votes": 1, "ci_low": float("nan")}
    row |= {"ci_high": float("nan"), "level": 0.95, "interval": "few"}
    kinds = [("all", "all", 2, 0.5), ("set", "G", 1, 1.0), ("topic", "x", 0, None)]
    return pd.DataFrame([row | dict(zip(("by", "group", "n", "estimate"), kind)) for kind in kinds])


def test_an_answer_belongs_to_the_result_of_the_main_set_or_to_that_of_its_own_set():
    answers = [("q1", "D", 1.0), ("q2", "D", 0.0), ("q3", "G", 1.0), ("q4", "D", None), ("q5", "H", 1.0)]
    rows = pd.DataFrame([ROW | {"item_id": i, "set": s, "correct": x} for i, s, x in answers])
    by_id = {f"q{k}": CHOICE.model_copy(update={"item_id": f"q{k}"}) for k in range(1, 6)}
    s = eee.Scored("s", rows, accuracy_rows(), by_id, [], "D", pd.DataFrame(columns=["model", "by", "estimate"]), {})
    run, lines = eee._of_model("m", s, {"models": {"m": {"max_tokens": 9}}, "endpoints": {}}, False)
    name = "s/cot/plain/1/accuracy"
    found = [x.get("evaluation_result_id") for x in lines]
    assert found == [f"{name}/all/all", f"{name}/all/all", f"{name}/set/G", None, None]
    assert {x["evaluation_name"] for x in lines} == {"s"} and len({x["evaluation_id"] for x in lines}) == 1
    stamp = str(int(datetime(2027, 3, 1, tzinfo=UTC).timestamp()))
    assert {k: v for k, v in run.items() if k not in ("model_info", "evaluation_results")} == {
        "evaluation_id": f"s/asked/m/{stamp}/m",
        "evaluation_timestamp": "2027-03-01T00:00:00+00:00",
        "retrieved_timestamp": stamp,
    }
    first, second = run["evaluation_results"]
    assert [r["evaluation_result_id"] for r in (first, second)] == [f"{name}/all/all", f"{name}/set/G"]
    details = {"mode": "cot", "answered_by": "plain", "n_votes": "1"}
    args = {"max_tokens": 9, "reasoning": True}
    assert first["generation_config"] == {"generation_args": args, "additional_details": details}
    assert first["metric_config"] == eee._ACCURACY | eee._BOUNDS | {
        "additional_details": details | {"by": "all", "group": "all"},
        "evaluation_description": "share of right answers, all items",
    }
    assert second["metric_config"]["evaluation_description"] == "share of right answers, set G"
    assert first["score_details"] == {"score": 0.5, "details": {"n": "2", "interval": "few", "origin": "asked"}}


def test_the_date_of_answers_is_the_last_that_a_service_named_or_when_they_were_scored():
    rows = pd.DataFrame({"model": ["a", "a", "b", "c"], "when": [86400.9, 1.0, 172800.0, 5.0]})
    rows["served"] = [{"date": "2027-03-01"}, {"date": "2027-02-28"}, {"model": "v"}, None]
    s = eee.Scored("s", rows, pd.DataFrame(), {}, [], None, pd.DataFrame(), {})
    days = {"a": datetime(2027, 3, 1, tzinfo=UTC), "b": datetime(1970, 1, 3, tzinfo=UTC)}
    assert s.dates() == days | {"c": datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)}


def test_a_rating_says_who_rated_what_and_what_was_shown():
    "A person's number, a label in an order, a model's, a simulated one; of protected items where that is asked for."
    shared = {"study": "s", "target": "A", "source": "x"}
    ratings = [
        Rating(item_id="q", rater="r1", value=2.0, criterion="warm", session="2", variant={"wording": "f"}, **shared),
        Rating(item_id="q", rater="r2", label="yes", order=[1, 0], repeat="7", kind="panel", **shared),
        Rating(item_id="q", rater="m", value=1.0, variant={"annotator": "model"}, origin="recorded", **shared),
        Rating(item_id="base", rater="r3", value=0.0, origin="simulated", **shared),
        Rating(item_id="elsewhere", rater="r3", value=0.0, **shared),
    ]
    of = [CHOICE, CHOICE.model_copy(update={"item_id": "p", "base_id": "base", "protected": True})]
    keys = ("sample_id", "rater_id", "rater_kind", "criterion", "score", "label", "shown", "session", "repeat")
    rows = [
        ("q", "r1", "person", "warm", 2.0, None, {"wording": "f"}, "2", None),
        ("q", "r2", "panel", None, None, "yes", {"order": "1,0"}, None, "7"),
        ("q", "m", "model", None, 1.0, None, {"annotator": "model"}, None, None),
        ("base", "r3", "simulated", None, 0.0, None, {}, None, None),
    ]
    head = {"schema_version": "human_ratings_0.2.0", "evaluation_name": "s", "target": "A"}
    expected = [head | dict(zip(keys, row)) for row in rows]
    assert list(eee.human_ratings(of, ratings, True)) == expected
    assert list(eee.human_ratings(of, ratings, False)) == expected[:3]


def test_a_run_names_its_file_of_answers_by_their_hash_and_who_made_it(home):
    run, lines = exported("--organization", "A ward", "--license", "cc0-1.0")["minilm"]
    entry = run["detailed_evaluation_results"]
    content = Path("out", entry["file_path"]).read_bytes()
    digest = hashlib.sha256(content)
    name = str(uuid.UUID(bytes=digest.digest()[:16], version=4))
    folder = "data/mhqa/sentence-transformers/all-MiniLM-L6-v2"
    assert entry == {
        "format": "jsonl",
        "file_path": f"{folder}/{name}_samples.jsonl",
        "hash_algorithm": "sha256",
        "checksum": digest.hexdigest(),
        "total_rows": len(lines),
    }
    assert Path("out", folder, f"{name}.json").exists() and run["schema_version"] == "0.3.0"
    rated = Path("out/ratings/mhqa.jsonl").read_bytes()
    details = {"file_path": "ratings/mhqa.jsonl", "sha256": hashlib.sha256(rated).hexdigest(), "total_rows": "1"}
    details |= {"licence": "cc0-1.0", "consent": "unknown"}
    assert run["source_metadata"] == {
        "source_type": "evaluation_run",
        "source_organization_name": "A ward",
        "source_name": "mhbench",
        "evaluator_relationship": "other",
        "additional_details": {f"human_ratings.{k}": v for k, v in details.items()},
    }
    library = run["eval_library"]
    assert library["name"] == "mhbench" and not {"made on", "mhbench"} & set(library["additional_details"])
    assert not Path("out/ratings/mhqa.json").exists(), "the run's own file says it"


def test_a_majority_has_no_text_of_its_own(home):
    "Its temperature is missing as the plain answer's is, which came with no other."
    lines = exported()["minilm"][1]
    of_q0 = [x for x in lines if x["sample_id"] == "q0" and x["metadata"]["mode"] == "cot"]
    plain, *_, majority = of_q0
    assert plain["output"]["raw"] == ["A"] and plain["metadata"]["answered_by"] == "plain"
    assert majority["output"]["raw"] == [] and majority["metadata"]["answered_by"] == "majority"
    assert majority["answer_attribution"][0]["extracted_value"] == "B" and majority["evaluation"]["score"] == 1
