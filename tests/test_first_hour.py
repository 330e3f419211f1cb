"""The first hour of somebody with a model of today: each trap that ended in a wrong number, or in none.

Two endpoints know the answers to three of four demonstration questions. One thinks, and refuses log-probabilities,
`max_tokens` and `temperature`; one gives everything.
"""

import difflib
import hashlib
import json
import os
import re
import shutil
import subprocess

import pandas as pd
import pytest
import yaml
from conftest import ENV, ROOT
from faults.server import FaultServer, completion

from mhbench.ask.budget import Budget, BudgetReached
from mhbench.run.cli import main
from mhbench.run.execute import run_stage
from mhbench.run.params import ASKED_IN, asked_by, goes_through, load_params
from mhbench.tools import edit, plan

N = 8


def knows(item_id: str) -> bool:
    return int(hashlib.sha256(item_id.encode()).hexdigest(), 16) % 4 != 0


class Answers:
    "The demonstration questions, and what these endpoints say of them."

    def __init__(self):
        from mhbench.corpus.load import load_corpus

        self.items = load_corpus("mhqa", ROOT / "data" / "mhqa", study="mhqa").items
        self.by_question = {i.question: i for i in self.items}

    def names(self, body: dict) -> str:
        "What the prompt calls its four options."
        return "1234" if "Option 1:" in body["messages"][-1]["content"] else "ABCD"

    def says(self, body: dict) -> str:
        text, names = body["messages"][-1]["content"], self.names(body)
        item = next((i for q, i in self.by_question.items() if q in text), None)
        if item is None:
            return names[1]
        right = names["ABCD".index(item.key[0])]
        return right if knows(item.item_id) else next(c for c in names if c != right)


def refused(message: str, param: str, status: int = 400):
    return status, {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": None}}


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    "A folder with entries for both endpoints, and the endpoints."
    answers = Answers()

    def thinker(n, body):
        def reply(body):
            if "max_tokens" in body:
                return refused("'max_tokens' is not supported. Use 'max_completion_tokens' instead.", "max_tokens")
            if body.get("logprobs"):
                return refused("You are not allowed to request logprobs from this model", "logprobs", 403)
            if body.get("temperature", 1) != 1:
                return refused("'temperature' does not support 0 with this model. Only the default (1).", "temperature")
            room = body.get("max_completion_tokens", 9999) > 200
            out = completion(body, answers.says(body) if room else "", "stop" if room else "length")
            usage = {"prompt_tokens": 90, "completion_tokens": 201, "total_tokens": 291}
            return 200, out | {"usage": usage | {"completion_tokens_details": {"reasoning_tokens": 200}}}

        return reply

    def open_one(n, body):
        def reply(body):
            said = answers.says(body)
            out = completion(body, said, "length" if body.get("max_tokens") == 1 else "stop")
            if body.get("logprobs"):
                top = [{"token": c, "logprob": -0.2 if c == said else -4.0} for c in answers.names(body)]
                out["choices"][0]["logprobs"] = {"content": [{"token": said, "logprob": -0.2, "top_logprobs": top}]}
            return 200, out

        return reply

    def cut(n, body):
        return lambda body: (200, completion(body, "<think>Let me see, the", "length"))

    folder = tmp_path_factory.mktemp("first") / "mhbench"
    folder.mkdir()
    for name in ("dvc.yaml", "nbs", "data", "mhbench"):
        (folder / name).symlink_to(ROOT / name)
    with FaultServer(every=thinker) as a, FaultServer(every=open_one) as b, FaultServer(every=cut) as c:
        p = yaml.safe_load((ROOT / "params.yaml").read_text())
        for name, server in (("paid", a), ("lab", b), ("busy", c)):
            p["endpoints"][name] = {"kind": "openai", "base_urls": [server.url]}
        price = {"prompt": 1.0, "completion": 10.0}
        p["models"]["thinker"] = {"endpoint": "paid", "served": "x", "price": price, "sampling": {"temperature": 0.0}}
        p["models"]["open"] = {"endpoint": "lab", "served": "y", "sampling": {"temperature": 0.0}}
        p["models"]["stuck"] = {"endpoint": "busy", "served": "z", "sampling": {"max_tokens": 512}}
        for name in ("thinker", "open", "stuck"):
            p["models"][name]["n_items"] = N - 2  # a model may be asked fewer than the run's items
        p["studies"]["mhqa"]["generate"]["modes"] = {"zero_shot": {"n_items": N - 3}}  # which gives way to these
        (folder / "params.yaml").write_text(yaml.safe_dump(p, sort_keys=False))
        (folder / "run.yaml").write_text((ROOT / "run.yaml").read_text())
        with pytest.MonkeyPatch.context() as m:
            m.chdir(folder)
            m.setenv("MHBENCH_ROOT", str(folder))
            m.setenv("CI", "true")
            m.delenv("MHBENCH_CACHE", raising=False)
            m.mine = (folder / "params.yaml").read_bytes()
            assert main(["select", "--studies", "mhqa", "--models", "thinker,open", "--items", str(N)]) == 0
            every, _ = plan.plan_run()
            assert not (folder / "results").exists(), "a plan prepares by itself"
            yield folder, m.mine, every


@pytest.fixture(scope="module")
def prepared(first):
    run_stage("prepare", "mhqa")
    return first


def test_an_unknown_price_is_not_zero(first):
    every = first[2]  # before anything was asked
    assert "gemma" not in set(every["model"]), "whom nobody selected is asked nothing"
    t = every[every["stage"] == "generate"].set_index("model")
    assert pd.isna(t.loc["open", "cost_usd"]) and t.loc["thinker", "cost_usd"] > 0
    assert t.loc["open", "completion_tokens"] > 0
    p = load_params("params.yaml")
    from mhbench.run.asking import asking, capped

    with asking(capped(p["models"]["open"], {})[0], "open", p["endpoints"]) as (model, _):
        with pytest.raises((ValueError, BudgetReached), match="price"):
            Budget(max_cost_usd=0.000001).check(model)


def test_both_are_scored_rightly(prepared):
    for model in ("thinker", "open"):
        run_stage("generate", "mhqa", model)
    run_stage("score", "mhqa")
    total = pd.read_parquet("results/studies/mhqa/score/accuracy.parquet").query("by == 'all'").set_index("model")
    scores = pd.read_parquet("results/studies/mhqa/score/scores.parquet")
    scores = scores[scores["model"].isin(("thinker", "open"))]  # simulated examinees answered, too
    want = scores.drop_duplicates("item_id")["item_id"].map(knows).mean()
    for model in ("thinker", "open"):
        assert total.loc[model, "estimate"] == pytest.approx(want), model
        counts = total.loc[model, ["n", "n_not_asked", "n_missing", "n_failed", "n_truncated", "n_unread"]]
        assert counts.tolist() == [N - 2, 2, 0, 0, 0, 0], model
    assert set(scores.groupby("model")["how"].first()) != {"logprobs"} and 0 < want < 1
    head = pd.read_parquet("results/studies/mhqa/score/headline.parquet")
    assert {"n_unread", "n_truncated", "n_missing", "n_failed", "n_not_asked"} <= set(head)


def test_answers_that_were_cut_are_a_row_with_the_remedy(prepared):
    run_stage("generate", "mhqa", "stuck")
    (row,) = json.loads(open("results/studies/mhqa/generate/stuck/contents.json", encoding="utf-8").read())["failures"]
    assert (row["n_lost"], row["n_asked"], row["withheld"]) == (N - 2, N - 2, "its accuracy in this mode")
    assert row["remedy"] == "models.stuck in params.yaml: thinking: true" and not row["again"]


def test_a_selection_takes_its_judges_with_it_and_touches_nothing_else(first):
    folder, mine, _ = first
    before = (folder / "run.yaml").read_text()
    try:
        p = edit.select(["all"], ["open"], params=folder / "params.yaml")
        asked = {s: asked_by(p, s, study) for s in ASKED_IN for study in goes_through(p, s)}
        assert set(asked) == set(ASKED_IN)
        assert all(names == ["open"] for who in asked.values() for names in who.values())
        p = edit.select(["all"], ["minilm"], params=folder / "params.yaml")
        assert asked_by(p, "compose", "mhqa")["examinees"] == ["minilm"]
        assert {s for s in ASKED_IN if goes_through(p, s)} == {"judge", "judge_study", "compose", "keys", "profile"}
        asked = {s: asked_by(p, s, "mhqa")["asked"] for s in ("compose", "keys", "profile")}
        assert asked == {"compose": [], "keys": [], "profile": ["minilm"]}, "an encoder sorts, and completes nothing"
        assert edit.select(judges=["minilm"], params=folder / "params.yaml")["run"]["judges"] == ["minilm"]
        back = edit.select(demo=True, params=folder / "params.yaml")
        assert back == load_params(folder / "params.yaml")
        assert yaml.safe_load((folder / "run.yaml").read_text()) == yaml.safe_load((ROOT / "run.yaml").read_text())
        assert (folder / "params.yaml").read_bytes() == mine
    finally:
        (folder / "run.yaml").write_text(before)


def test_an_imported_corpus_has_a_way_back(first, capsys):
    folder, mine, _ = first
    before = load_params(folder / "params.yaml")
    assert main(["import", "mhqa", str(ROOT / "data" / "mhqa")]) == 0
    there = load_params(folder / "params.yaml")["studies"]["mhqa"]
    assert there["prepare"]["sha256"] and "n_items" not in there["generate"]["modes"]["zero_shot"]
    assert main(["import", "mhqa", "--demo"]) == 0
    assert load_params(folder / "params.yaml") == before
    (folder / "params.yaml").write_bytes(mine)  # it says the same, in other bytes
    assert main(["import", "mhqa", "--demo"]) == 1 and "must have been imported here" in capsys.readouterr().err
    assert (
        main(["import", "mhqa"]) == 1 and "PATH must be given, or --ratings, or --demo alone" in capsys.readouterr().err
    )


def altered(old: str, new: str) -> list[str]:
    "The lines of either text that the other has not got."
    return [x[1:] for x in difflib.unified_diff(old.splitlines(), new.splitlines(), n=0, lineterm="")][2:]


def test_an_edit_changes_its_own_lines_alone(tmp_path):
    "Whatever the style of the file: nulls that are written out or left out, quotes, long lines."
    file, demo = tmp_path / "params.yaml", (ROOT / "params.yaml").read_text(encoding="utf-8")
    spelt = re.sub(r"(?m)^( +(?:sha256|ratings|n_items|budget|core):)(?= *(#|$))", r"\1 null", demo)
    spelt = spelt.replace("lineage: minilm\n", 'lineage: "minilm"   # mine\n').replace("answer: 64,", "answer:  64,")
    assert len(altered(demo, spelt)) > 40
    shutil.copy(ROOT / "run.yaml", tmp_path)
    for text in (demo, spelt):
        file.write_text(text, encoding="utf-8")
        edit.import_corpus("medqade", ROOT / "data" / "medqade", params=file)
        lines = altered(text, file.read_text(encoding="utf-8"))
        before, after = (file.read_text(encoding="utf-8") if x else text for x in (0, 1))
        others = [t[: t.index("  medqade:\n")] + t[t.index("  counselingbench:\n") :] for t in (before, after)]
        assert any("sha256: " in line for line in lines) and others[0] == others[1]
        edit.forget_corpus("medqade", params=file)
        assert file.read_text(encoding="utf-8") == text


def test_an_experiment_of_dvc_changes_its_own_line_alone(tmp_path):
    "`dvc exp run -S score.n_boot=500` writes the whole file in DVC's style: ours is in it."
    from dvc.utils.hydra import apply_overrides

    shutil.copy(ROOT / "params.yaml", tmp_path)
    apply_overrides(tmp_path / "params.yaml", ["score.n_boot=77"])
    new = (tmp_path / "params.yaml").read_text(encoding="utf-8")
    lines = altered((ROOT / "params.yaml").read_text(encoding="utf-8"), new)
    assert lines[1:] == ["  n_boot: 1000", "  n_boot: 77"], lines


def test_check_prints_an_entry_that_works(first, capsys):
    assert main(["check", "thinker"]) == 0
    said = capsys.readouterr().out
    assert "max_tokens is sent as max_completion_tokens" in said and "the model thinks first" in said
    entry = yaml.safe_load(said[said.index("endpoints:") :])
    assert (
        entry["models"]["thinker"]["thinking"] is True and "temperature" not in entry["models"]["thinker"]["sampling"]
    )
    assert json.dumps(entry) and os.environ["CI"]


@pytest.mark.parametrize(
    "given,said",
    [({}, "mhbench select"), ({"MODELS": "minilm", "ITEMS": "5"}, 'mhbench select --models "minilm" --items "5"')],
)
def test_make_repro_narrows_a_run_by_what_is_given_and_by_nothing_else(given, said):
    "An empty --models would ask nobody."
    words = ["make", "-n", "repro", *(f"{k}={v}" for k, v in given.items())]
    done = subprocess.run(words, cwd=ROOT, env=ENV, capture_output=True, text=True, check=True)
    (line,) = [" ".join(x.split()) for x in done.stdout.splitlines() if "mhbench select" in x]
    assert line.removeprefix(".venv/bin/") == said
