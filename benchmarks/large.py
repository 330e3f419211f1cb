"""Large runs: N items by M models, their answers given, through prepare, score, demographics, agreement and report.

    python benchmarks/large.py --items 10000 20000   # and how the time grows from each size to the next
    python benchmarks/large.py --items 100000 --only prepare score --study mhqa
    python benchmarks/large.py --items 10000 --cells # what each cell of a stage's notebook takes

Two simulated corpora: `mhqa`, N items that are each a case by itself, and `mentat`, whose evaluation sets ask 15
prompts a question, N in all, with five people's ratings of every option. Of a model's answers one in a hundred is
missing and one in a hundred cannot be read. Every stage runs as its notebook's cells, in a process of its own, with
the parameters of `params.yaml`; Jupyter's kernel is left out. CPU seconds are those of all threads; `load` is what
else the machine was doing.
"""

import argparse
import csv
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

LETTERS = np.array(list("ABCDE"))
SAID = ("{0}", "{0}.", "The answer is {0}.", "**{0}**", "I would choose {0}, since it fits the history best.")
WAYS = {  # study -> the stages that it goes through
    "mhqa": ["prepare", "score", "report"],
    "mentat": ["prepare", "score", "demographics", "agreement", "report"],
}


def corpus_mhqa(folder: Path, n: int, rng: np.random.Generator) -> dict:
    "A file of the released form, and the letters of the key by item."
    from mhbench.studies.mhqa.load import TOPICS, TYPES

    file = folder / "mhqa.csv"
    key = rng.integers(0, 4, n)
    with file.open("w", newline="", encoding="utf-8") as f:
        rows = csv.writer(f)
        options = [f"option{k}" for k in range(1, 5)]
        rows.writerow(["id", "topic", "type", "question", *options, "correct_option", "correct_option_number"])
        for k in range(n):
            texts = [f"simulated finding {k} {letter}" for letter in "abcd"]
            about = [TOPICS[rng.integers(4)], TYPES[rng.integers(4)], f"Which finding was simulated as number {k}?"]
            rows.writerow([900_000_000 + k, *about, *texts, texts[key[k]], key[k] + 1])
    return {"loader": "mhqa", "path": str(file), "sets": []}


def corpus_mentat(folder: Path, n: int, rng: np.random.Generator) -> dict:
    "Questions of the released form in three wordings, so many that their evaluation sets ask n prompts; and ratings."
    from mhbench.records.schema import Rating, write_records
    from mhbench.studies.mentat.questions import MENTAT_CATEGORIES, MENTAT_COLUMNS

    home = folder / "mentat"
    home.mkdir()
    ratings = []
    with (home / "final_dataset_raw_questions.csv").open("w", newline="", encoding="utf-8") as f:
        rows = csv.writer(f)
        rows.writerow(["", *MENTAT_COLUMNS])
        for k in range(round(n / 13.5)):  # nine in ten are asked, in 1 + 3 + 5 + 6 prompts
            key = int(rng.integers(5))
            truth = [float(j == key) for j in range(5)]
            texts = [f"A <AGE> <NAT> {who} comes as simulated case {k}." for who in ("man", "woman", "person")]
            options = [f"simulated step {k} {letter}" for letter in "abcde"]
            about = [k + 1, MENTAT_CATEGORIES[k % 5]]
            rows.writerow([k, *about, *options, str(truth), *texts, "['age', 'nat']", "simulated"])
            for rater in rng.choice(20, 5, replace=False):
                scores = np.clip(rng.normal(np.where(np.arange(5) == key, 80, 30), 20), 0, 100).round()
                who = {"item_id": f"mentat-{k + 1}", "study": "mentat", "rater": f"sim-r{rater}", "source": "simulated"}
                ratings += [
                    Rating(target=str(LETTERS[j]), value=float(scores[j]), variant={"simulated": "true"}, **who)
                    for j in range(5)
                ]
    write_records(ratings, folder / "ratings.parquet", Rating)
    return {"loader": "mentat", "path": str(home), "sets": ["D0", "D_G", "D_A", "D_N"], "ratings": "ratings.parquet"}


def answers(folder: Path, items: list, n_models: int, rng: np.random.Generator) -> dict[str, str]:
    "A table of answers a model, of rising accuracy."
    keys = np.array([LETTERS.tolist().index(i.key[0]) if i.key else 0 for i in items])
    n_options = np.array([len(i.options) for i in items])
    ids = [i.item_id for i in items]
    out = {}
    for m in range(n_models):
        right = rng.random(len(items)) < 0.3 + 0.05 * m
        letter = LETTERS[np.where(right, keys, rng.integers(0, n_options))]
        text = [SAID[w].format(x) for w, x in zip(rng.integers(0, len(SAID), len(items)), letter)]
        become = rng.random(len(items))
        text = np.where(become < 0.01, "", np.where(become < 0.02, "I cannot say.", text))
        file = folder / f"model-{m:02}.parquet"
        pd.DataFrame({"item_id": ids, "text": text}).to_parquet(file)
        out[f"model-{m:02}"] = str(file)
    return out


def run_cells(stage: str, values: dict) -> dict[str, float]:
    "Run a stage's notebook in this process; what each cell took."
    nb = json.loads((Path(__file__).parents[1] / "nbs" / "stages" / f"{stage}.ipynb").read_text(encoding="utf-8"))
    space, took = {"display": lambda x: None}, {}
    for k, cell in enumerate(c for c in nb["cells"] if c["cell_type"] == "code"):
        source = "".join(cell["source"])
        began = time.process_time()
        exec(compile(source, f"{stage}, cell {k}", "exec"), space)
        if "parameters" in cell["metadata"].get("tags", []):
            unknown = set(values) - set(space)
            if unknown:
                raise SystemExit(f"{stage} does not take {unknown}")
            space |= values
        took[f"{k}: {source.strip().splitlines()[0][:70]}"] = time.process_time() - began
    return took


def one(stage: str, given: str):
    "Of a child: run a stage, and say what it took."
    import matplotlib

    matplotlib.use("Agg")
    cells = run_cells(stage, json.loads(given))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(json.dumps({"cpu": time.process_time(), "peak": peak, "cells": cells}))


def stage_of(stage: str, values: dict) -> dict:
    "Run a stage in a process of its own."
    here = Path(__file__).resolve()
    env = os.environ | {"PYTHONHASHSEED": "0", "MHBENCH_ROOT": str(here.parents[1])}
    command = [sys.executable, str(here), "--one", stage, json.dumps(values)]
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    if done.returncode:
        raise SystemExit(f"{stage} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1]) | {"wall": time.perf_counter() - began}


def measure(study: str, n: int, n_models: int, wanted: list[str], folder: Path, settings: dict) -> dict[str, dict]:
    "What the stages of a study take at one size."
    from mhbench.corpus.load import load_corpus
    from mhbench.steps.variants import draw_and_vary

    rng = np.random.default_rng(n)
    folder.mkdir(parents=True)
    prepare = {"mhqa": corpus_mhqa, "mentat": corpus_mentat}[study](folder, n, rng)
    corpus = load_corpus(prepare["loader"], prepare["path"], study=study)
    _, items = draw_and_vary(corpus.items, None, prepare["sets"], seed=20250107)
    if "ratings" in prepare:
        prepare["ratings"] = str(folder / prepare["ratings"])
    prepare["answers"] = answers(folder, items, n_models, rng)
    n_asked, results = len(items), str(folder / "results")
    del corpus, items
    same = {"results": results, "study": study}
    run = {s: [study] for s in ("studies", *WAYS[study][2:-1])} | {"models": []}
    core = {"core": "D0", "by": ["category", "set"]} if study == "mentat" else {}
    values = {
        "prepare": same | prepare,
        "score": same | {"models": []} | core | settings,
        "demographics": same | {"models": []} | settings,
        "agreement": same | settings,
        "report": {"results": results, "run": run},
    }
    out = {}
    for stage in WAYS[study]:
        if stage in wanted or stage in ("prepare", "score"):  # the others rest on these
            if stage == "report":
                (Path(results) / "report").mkdir(exist_ok=True)
            out[stage] = stage_of(stage, values[stage]) | {"items": n_asked}
    page = Path(results) / "report.html"
    if page.exists():
        out["report"]["page"] = page.stat().st_size / 2**20
    return out


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--items", type=int, nargs="+", default=[10_000, 20_000])
    p.add_argument("--models", type=int, default=10)
    p.add_argument("--study", nargs="+", default=list(WAYS), choices=list(WAYS))
    p.add_argument("--only", nargs="+", default=[s for w in WAYS.values() for s in w])
    p.add_argument("--n-boot", type=int, default=1000)
    p.add_argument("--cells", action="store_true", help="say what each cell took that took more than a tenth")
    p.add_argument("--keep", help="keep corpora and results in this folder")
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        top = Path(a.keep or temporary)
        print(f"{a.models} models, load {os.getloadavg()[0]:.1f}\n")
        columns = ["study", "items", "stage", "CPU s", "wall s", "peak GB", "times the size before"]
        print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|")
        before: dict[tuple[str, str], dict] = {}
        for n in a.items:
            for study in a.study:
                found = measure(study, n, a.models, a.only, top / f"{study}-{n}", {"n_boot": a.n_boot})
                for stage, r in found.items():
                    then = before.get((study, stage))
                    times = f"{r['cpu'] / then['cpu']:.2f} for {r['items'] / then['items']:.2f}" if then else ""
                    page = f" ({r['page']:.1f} MB page)" if "page" in r else ""
                    took = f"{r['cpu']:.1f} | {r['wall']:.1f} | {r['peak']:.2f}"
                    print(f"| {study} | {r['items']:,} | {stage}{page} | {took} | {times} |", flush=True)
                    before[study, stage] = r
                    for cell, s in r["cells"].items() if a.cells else ():
                        if s > r["cpu"] / 20:
                            print(f"|  |  | {cell} | {s:.1f} |  |  |  |")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one(*sys.argv[2:4])
    else:
        main()
