"""Schedules of kills, failures, selections and changes: what a user then sees, held against what was answered.

`python tests/schedules.py [NAME ...]` runs them all, or some; `--tell` prints every screen of them.
Each step is a real `dvc repro` in a folder of its own; four models stand behind an endpoint on loopback. After each
schedule `summary`, the report, `compare` and an export are read, and `seen` says what is wrong with them. What prepares
a step and what reads it are commands that are given in this process.
"""

import contextlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parent))
from conftest import fewer_draws
from faults.server import FaultServer, completion, question_of

from mhbench.run import cli

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
ENV = {**os.environ, "DVC_NO_ANALYTICS": "1", "PYTHONHASHSEED": "0", "CI": "1", "MPLBACKEND": "agg"}
N = {"clinic": 8, "ward": 6}  # questions
LETTERS = "ABCD"


def key_of(study: str, k: int) -> str:
    return LETTERS[(3 * k + len(study)) % 4]


def knows(model: str, study: str, k: int) -> bool:
    "Whether a model knows the answer to a question."
    return (k + len(model)) % 4 != 0


class Models:
    "What the endpoint answers, by the name that a model is served under; `mood` may change between runs."

    def __init__(self):
        self.mood: dict[str, str] = {}
        self.given: Counter = Counter()  # (model, body) -> answers with a text
        self.asked = 0
        self.kill_at = None  # (number of the request, whom to kill)

    def __call__(self, n, body):
        self.asked += 1
        if self.kill_at and self.asked >= self.kill_at[0]:
            self.kill_at, (_, kill) = None, self.kill_at
            kill()
        model = body["model"]
        mood = self.mood.get(model, model)
        text = question_of(body)
        found = re.findall(r"Question (\d+) of (\w+)", text)
        few = len(body["messages"]) > 2 or len(found) > 1

        def reply(body):
            if mood == "typo":
                return 404, {"error": {"message": f"The model `{model}` does not exist", "code": "model_not_found"}}
            if mood == "down":
                return 500, {"error": {"message": "the server is overloaded"}}
            if mood == "key":
                return 401, {"error": {"message": "Incorrect API key provided"}}
            self.given[model, json.dumps(body, sort_keys=True)] += 1
            if mood == "refuses":
                return 200, completion(body, "I'm sorry, but I can't help with that.")
            if mood == "cut":
                return 200, completion(body, "Let me think about", "length")
            if mood == "mute" or (mood == "onemode" and few):
                return 200, completion(body, "Hm, hm, hm.")
            if "Incorrect" in text or "json" in json.dumps(body.get("response_format", "")):
                if mood == "badjudge":
                    return 200, completion(body, "No idea.")
                names = re.findall(r"answer_\d+", json.dumps(body)) or ["answer_1"]
                return 200, completion(body, json.dumps({name: "Correct" for name in dict.fromkeys(names)}))
            k, study = found[-1] if found else ("0", "clinic")
            right = key_of(study, int(k))
            said = right if knows(model, study, int(k)) else LETTERS[(LETTERS.index(right) + 1) % 4]
            return 200, completion(body, f"The answer is {said}.")

        return reply


class Folder:
    "A working folder of one schedule."

    def __init__(self, top: Path, server: FaultServer, models: Models):
        self.top, self.models, self.told = top, models, []
        top.mkdir(parents=True)
        for name in ("dvc.yaml", "params.yaml", "run.yaml"):
            shutil.copy(ROOT / name, top)
        (top / "params.yaml").write_text(fewer_draws((top / "params.yaml").read_text()))
        shutil.copytree(ROOT / "nbs" / "stages", top / "nbs" / "stages")
        for page in (ROOT / "nbs" / "studies").glob("*/results.ipynb"):
            (top / page.parent.relative_to(ROOT)).mkdir(parents=True)
            shutil.copy(page, top / page.relative_to(ROOT))
        (top / "data").symlink_to(ROOT / "data")
        (top / ".gitignore").write_text("/results/*\n!/results/metrics/\n/data\n/.mhbench/\n")
        for words in (["git", "init", "-q"], [BIN / "dvc", "init", "-q"]):
            subprocess.run(words, cwd=top, check=True, env=ENV)
        for study, n in N.items():
            rows = ["id,question,A,B,C,D,key,category"]
            rows += [f"{study}{k},Question {k} of {study}: which?,w,x,y,z,{key_of(study, k)},c" for k in range(n)]
            (top / f"{study}.csv").write_text("\n".join(rows) + "\n")
            self.mhbench("new-study", study, f"{study}.csv", "--yes")
        self.edit(lambda p: self._add(p, server.url))
        self.select("clinic", "sound")

    @staticmethod
    def _add(p, url):
        p["endpoints"]["mock"] = {
            **{"kind": "openai", "base_urls": [url], "max_attempts": 2, "pause_s": 0.01},
            **{"concurrency": 1, "timeout_s": 5.0},
        }
        for name in ("sound", "typo", "refuses", "onemode", "judge", "other"):
            p["models"][name] = {"endpoint": "mock", "served": name, "lineage": name, "thinking": True}
        for study in N:
            p["studies"][study]["generate"] = {"modes": {"zero_shot": {}, "few_shot": {}}, "n_demonstrations": 1}

    def edit(self, change):
        file = self.top / "params.yaml"
        p = yaml.safe_load(file.read_text())
        change(p)
        file.write_text(yaml.safe_dump(p, sort_keys=False))

    def run(self, *words, env=None, cwd=None):
        done = subprocess.run(
            [str(w) for w in words], cwd=cwd or self.top, env={**ENV, **(env or {})}, capture_output=True, text=True
        )
        self.told.append((" ".join(Path(str(w)).name if "/" in str(w) else str(w) for w in words), done))
        return done

    def command(self, *words):
        "A command of mhbench that runs no stage, given in this process."
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as m, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            m.chdir(self.top)
            m.delenv("MHBENCH_ROOT", raising=False)
            done = subprocess.CompletedProcess(words, cli.main([str(w) for w in words]))
        done.stdout, done.stderr = out.getvalue(), err.getvalue()
        self.told.append((" ".join(map(str, ("mhbench", *words))), done))
        return done

    def mhbench(self, *words):
        done = self.command(*words)
        assert not done.returncode, done.stdout + done.stderr
        return done.stdout

    def select(self, studies: str, models: str, **more: str):
        given = [x for name, value in more.items() for x in (f"--{name}", value)]
        return self.mhbench("select", "--studies", studies, "--models", models, *given)

    def repro(self, *words):
        return self.run(BIN / "mhbench", "run", "--all", *words)

    def repro_killed(self, after: int, how=signal.SIGKILL):
        "A run whose processes are all killed at the nth request from now."
        child = subprocess.Popen(
            [str(BIN / "dvc"), "repro", "-q"], cwd=self.top, env=ENV, start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self.models.kill_at = (self.models.asked + after, lambda: os.killpg(child.pid, how))
        child.wait()
        self.models.kill_at = None
        for lock in ("rwlock", "lock"):
            (self.top / ".dvc" / "tmp" / lock).unlink(missing_ok=True)

    # -- what a user sees

    def numbers(self) -> pd.DataFrame:
        done = self.command("summary", "--csv")
        assert not done.returncode, done.stderr
        return pd.read_csv(io.StringIO(done.stdout)) if done.stdout.strip() else pd.DataFrame()

    def summary(self) -> str:
        return self.mhbench("summary")

    def failures(self) -> list[dict]:
        file = self.top / "results" / "report" / "failures.json"
        return json.loads(file.read_text()) if file.exists() else []


def expected(model: str, study: str) -> float:
    return sum(knows(model, study, k) for k in range(N[study])) / N[study]


def seen(f: Folder, *, twice: int = 0, moods: dict[str, str] | None = None) -> list[str]:
    """What is wrong with what a user sees after the latest step, in sentences; moods: of the models when they were
    asked, where these are not the present ones. A kill may make one request a second time: `twice`.
    """
    wrong = []
    run = yaml.safe_load((f.top / "run.yaml").read_text())["run"]
    moods = f.models.mood if moods is None else moods
    main = f.numbers()
    for row in main.to_dict("records") if len(main) else ():
        who = f"{row['study']} {row['stage']} {row['model']} {row['mode']}"
        if row["study"] not in run["studies"] or (row["stage"] == "score" and row["model"] not in run["models"]):
            wrong.append(f"{who}: of another selection")
        if row["measure"] != "accuracy" or pd.isna(row["estimate"]):
            continue
        mood = moods.get(row["model"], row["model"])
        bad = {"typo", "down", "key", "mute", "cut"}
        if mood in bad or (mood == "onemode" and "few" in row["mode"]):
            wrong.append(f"{who}: a number, {row['estimate']}, where nothing can be known")
        elif abs(row["estimate"] - (0 if mood == "refuses" else expected(row["model"], row["study"]))) > 1e-6:
            wrong.append(f"{who}: {row['estimate']}, expected {expected(row['model'], row['study'])}")
    text = f.summary()
    page = f.top / "results" / "report.html"
    made = {"page": page.read_text()} if page.exists() and f"page: {page.relative_to(f.top)}" in text else {}
    for place, said in ({"summary": text} | made).items():
        for study in set(N) - set(run["studies"]):
            if re.search(rf"\b{study}\b", said):
                wrong.append(f"{place}: names {study}, which is not selected")
        for model in ("sound", "typo", "refuses", "onemode", "other"):
            if model not in run["models"] and re.search(rf">{model}<|\b{model}, (zero|few)", said):
                wrong.append(f"{place}: names {model}, which is not selected")
    again = sum(n - 1 for n in f.models.given.values())
    if again > twice:
        wrong.append(f"{again} requests were asked again that had been answered")
    to = f.top / "exported"
    shutil.rmtree(to, ignore_errors=True)
    done = f.command("export", "eee", to)
    if not done.returncode:
        told = "\n".join(x.read_text() for x in to.rglob("*.json*"))
        wrong += [f"export: names {s}, which is not selected" for s in set(N) - set(run["studies"]) if f'{s}"' in told]
    done = f.command("compare", ".", ".")
    if not done.returncode:
        for study in set(N) - set(run["studies"]):
            if re.search(rf"\b{study}\b", done.stdout):
                wrong.append(f"compare: names {study}, which is not selected")
    return wrong


# -- the schedules -----------------------------------------------------------------------------------------------------


def _ok(done, code=0):
    assert done.returncode == code, f"ended with {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"


def four(f: Folder):
    "One is mistyped, one refuses everything, one fails in one mode, one is sound."
    f.select("clinic", "sound,typo,refuses,onemode")
    _ok(f.repro(), 1)
    lost = {(r["model"], r["mode"], r["what"]) for r in f.failures()}
    assert ("typo", "zero_shot", "requests got no answer") in lost, lost
    assert ("onemode", "few_shot", "answers could not be read") in lost, lost
    assert not [r for r in f.failures() if r["model"] in ("sound", "refuses")]
    yield seen(f)
    before = f.models.asked
    f.models.mood["typo"] = "sound"  # the name is mended at the endpoint
    _ok(f.repro())
    assert f.models.asked - before == 2 * N["clinic"], f"{f.models.asked - before} asked: what failed, and nothing else"
    assert not [r for r in f.failures() if r["model"] == "typo"]
    yield seen(f)
    before = f.models.asked
    _ok(f.repro())
    assert f.models.asked == before, "nothing is pending"


def down(f: Folder):
    "The server is down in a first run, and up in a second."
    f.models.mood["sound"] = "down"
    _ok(f.repro(), 1)
    yield seen(f)
    f.models.mood.clear()
    _ok(f.repro())
    yield seen(f)


def selection_after_failure(f: Folder):
    "A good run of one study, then another study whose model cannot be read (P1)."
    _ok(f.repro())
    yield from unreadable(f, "ward")


def unreadable(f: Folder, study: str, twice: int = 0):
    f.select(study, "onemode,typo")
    f.models.mood["onemode"] = "mute"
    _ok(f.repro(), 1)
    yield seen(f, twice=twice)


def killed(f: Folder, n=5):
    "A run that is killed while it asks; its summary; and the run that goes on."
    f.select("clinic,ward", "sound,onemode")
    f.repro_killed(n)
    yield seen(f, twice=1)
    _ok(f.repro())
    yield seen(f, twice=1)


def killed_after_another(f: Folder):
    "A run, another selection that is killed: the first run's numbers are not the second's."
    _ok(f.repro())
    f.select("clinic,ward", "other,sound")
    f.repro_killed(9)
    yield seen(f, twice=1)
    f.select("ward", "other")
    yield seen(f, twice=1)
    _ok(f.repro())
    yield seen(f, twice=1)


def killed_then_unreadable(f: Folder):
    "The same, and then the first study again, whose models cannot be read."
    yield from killed_after_another(f)
    yield from unreadable(f, "clinic", twice=1)


def another_model(f: Folder):
    "The selection changes from one model to another and back; nothing is asked again."
    _ok(f.repro())
    f.select("clinic", "other")
    yield seen(f)
    _ok(f.repro())
    yield seen(f)
    f.select("clinic", "sound")
    yield seen(f)
    before = f.models.asked
    _ok(f.repro())
    assert f.models.asked == before
    yield seen(f)


def changed_parameter(f: Folder):
    "A parameter changes after a run: its numbers are stale until the next."
    _ok(f.repro())
    f.edit(lambda p: p["score"].update(n_boot=200))
    assert "stale" in f.summary()
    yield seen(f)
    _ok(f.repro())
    assert "stale" not in f.summary()
    yield seen(f)


def wrong_key(f: Folder):
    "A key is wrong for one model of two."
    f.select("clinic", "sound,other")
    f.models.mood["other"] = "key"
    _ok(f.repro(), 1)
    assert "Incorrect API key" in f.summary()
    yield seen(f)
    f.models.mood.clear()
    _ok(f.repro())
    yield seen(f)


def cut_off(f: Folder):
    "All answers of one model are cut off at the limit."
    f.select("clinic", "sound,other")
    f.models.mood["other"] = "cut"
    _ok(f.repro())
    assert "cut off" in f.summary()
    yield seen(f)


def lost_corpus(f: Folder):
    "The table of one of two studies is gone: the other has its tables."
    f.select("clinic,ward", "sound")
    (f.top / "ward.csv").rename(f.top / "away.csv")
    _ok(f.repro(), 1)
    assert set(f.numbers()["study"]) == {"clinic"}
    yield seen(f)
    (f.top / "away.csv").rename(f.top / "ward.csv")
    _ok(f.repro())
    assert set(f.numbers()["study"]) == {"clinic", "ward"}
    yield seen(f)


def fails_again(f: Folder):
    "A model fails twice, then answers; the other is asked once."
    f.select("clinic", "sound,other")
    f.models.mood["other"] = "down"
    for _ in range(2):
        _ok(f.repro(), 1)
        yield seen(f)
    f.models.mood.clear()
    _ok(f.repro())
    yield seen(f)


def deselected_and_back(f: Folder):
    "A model fails, is left out, and comes back when it answers."
    f.select("clinic", "sound,other")
    f.models.mood["other"] = "down"
    _ok(f.repro(), 1)
    f.select("clinic", "sound")
    _ok(f.repro())
    yield seen(f)
    f.models.mood.clear()
    f.select("clinic", "sound,other")
    _ok(f.repro())
    yield seen(f)


def fewer_items(f: Folder):
    "A run with fewer questions after one with all of them: the numbers of all are not shown for some."
    _ok(f.repro())
    f.select("clinic", "sound", items="4")
    main = f.numbers()
    assert not len(main), f"of another selection: {main}"
    yield []


def broken_code(f: Folder):
    "A stage notebook breaks for every study; the report is made, and says so."
    f.select("clinic,ward", "sound")
    _ok(f.repro())
    file = f.top / "nbs" / "stages" / "score.ipynb"
    text = file.read_text()
    nb = json.loads(text)
    cell = next(c for c in nb["cells"] if "score_responses(items, s.stored)" in "".join(c["source"]))
    cell["source"] = ["raise ZeroDivisionError('the code is broken')"]
    file.write_text(json.dumps(nb))
    _ok(f.repro(), 1)
    assert "the code is broken" in f.summary() and not len(f.numbers())
    yield seen(f)
    file.write_text(text)
    _ok(f.repro())
    yield seen(f)


def results_by_hand(f: Folder):
    "Somebody changes a result by hand: it is not shown as the run's."
    _ok(f.repro())
    file = f.top / "results" / "studies" / "clinic" / "score" / "headline.parquet"
    pd.read_parquet(file).assign(estimate=0.99).to_parquet(file)
    assert not len(f.numbers())
    yield seen(f)
    _ok(f.repro())
    yield seen(f)


def interrupted(f: Folder):
    "An interrupt in the middle."
    f.select("clinic,ward", "sound")
    f.repro_killed(4, signal.SIGINT)
    yield seen(f, twice=1)
    _ok(f.repro())
    yield seen(f, twice=1)


def killed_in_the_second(f: Folder):
    "A kill in the second model, then another selection."
    f.select("clinic", "sound,other")
    f.repro_killed(2 * N["clinic"] + 3)
    yield seen(f, twice=1)
    f.select("clinic", "other")
    _ok(f.repro())
    yield seen(f, twice=1)


def study_added(f: Folder):
    "A second study is added to a run that was done."
    _ok(f.repro())
    f.select("clinic,ward", "sound")
    yield seen(f)
    before = f.models.asked
    _ok(f.repro())
    assert f.models.asked - before == 2 * N["ward"]
    yield seen(f)


def nothing_works(f: Folder):
    "No model answers at all: the report is made, and the run ends with 1."
    f.select("clinic", "typo,other")
    f.models.mood["other"] = "down"
    _ok(f.repro(), 1)
    assert (f.top / "results" / "report.html").exists()
    yield seen(f)


def results_deleted(f: Folder):
    "The results are deleted after a failure: nothing answered is asked again."
    f.select("clinic", "sound,other")
    f.models.mood["other"] = "down"
    _ok(f.repro(), 1)
    for name in os.listdir(f.top / "results"):
        if name != "cache.sqlite":
            there = f.top / "results" / name
            shutil.rmtree(there) if there.is_dir() else there.unlink()
    f.models.mood.clear()
    f.repro()
    _ok(f.repro())
    yield seen(f)


SCHEDULES = [
    four, down, selection_after_failure, killed, killed_then_unreadable, another_model, changed_parameter, wrong_key,
    cut_off, lost_corpus, fails_again, deselected_and_back, fewer_items, broken_code, results_by_hand, interrupted,
    killed_in_the_second, study_added, nothing_works, results_deleted,
]  # fmt: skip


def play(schedule, home: Path, tell: bool = False) -> list[str]:
    "Run a schedule; what is wrong, in sentences."
    models = Models()
    wrong: list[str] = []
    with FaultServer(every=models) as server:
        f = Folder(home / schedule.__name__, server, models)
        try:
            for k, found in enumerate(schedule(f)):
                wrong += [f"{schedule.__name__}, step {k + 1}: {x}" for x in found]
        except AssertionError as e:
            wrong.append(f"{schedule.__name__}: {e or traceback.format_exc()}")
        for words, done in f.told if tell else ():
            print(f"$ {words}   [{done.returncode}]\n{done.stdout}{done.stderr}")
    return wrong


if __name__ == "__main__":
    names = [w for w in sys.argv[1:] if not w.startswith("--")]
    home = Path(tempfile.mkdtemp(prefix="schedules-"))
    bad = 0
    for schedule in SCHEDULES:
        if names and schedule.__name__ not in names:
            continue
        began = time.monotonic()
        wrong = play(schedule, home, "--tell" in sys.argv)
        bad += bool(wrong)
        print(f"{schedule.__name__}: {'as it should be' if not wrong else 'WRONG'} ({time.monotonic() - began:.0f} s)")
        print(*(f"  {x}" for x in wrong), sep="\n", end="\n" if wrong else "", flush=True)
    raise SystemExit(bad > 0)
