"""PsychiatryBench at the paper's size: 5,188 items, 15 models, 3 judges, 1,000 draws of cases.

    python benchmarks/psychiatrybench.py            # all of it, and the ratio to loops over scikit-learn
    python benchmarks/psychiatrybench.py --draws 50 # a trial

Answers and judgments are simulated. What is timed: classification tables, both formats of extended matching, final
scores of three judges, the results table with ranks and stability. The comparison makes the same tables for one model
with loops and scikit-learn on a fiftieth of the draws, in CPU time, and says so.

Measured on two cores that 15 other processes wanted too: 10.3 s of CPU, 50.8 s by the clock (bar: 60 s), 383 MiB (bar:
2 GB); one model 1.1 s of CPU, by loops 46 s (extrapolated from 20 draws): 42 times.
"""

import argparse
import json
import resource
import time

import numpy as np
import pandas as pd
from sklearn.metrics import accuracy_score, f1_score

from mhbench.records.schema import Item
from mhbench.studies.psychiatrybench.classification import classification_table, key_and_answer, label_scores
from mhbench.studies.psychiatrybench.formats import format_counts, format_rates, format_units
from mhbench.studies.psychiatrybench.load import label_lists
from mhbench.studies.psychiatrybench.standings import (
    draw_standings,
    paired_table,
    published_counts,
    rank_table,
    result_columns,
    results_table,
)

MODELS = [f"model-{k:02}" for k in range(15)]
JUDGES = ["judge-a", "judge-b", "judge-c"]
OPEN = (
    "diagnosis",
    "treatment",
    "treatment follow up",
    "management plan",
    "clinical approach",
    "mental qa",
    "sequential qa",
)


def simulated_items(rng: np.random.Generator) -> list[Item]:
    "As many items as the paper has, with cases that several of them share."
    counts, lists, items = published_counts(), label_lists(), []
    about = {"study": "psychiatrybench", "source": "simulated", "question": "?"}
    for task in OPEN:
        kind = "sequential" if task == "sequential qa" else "open"
        for k in range(counts[task]):
            more = {"stems": list("abcdef"), "key": list("abcdef")} if kind == "sequential" else {"key": ["x"]}
            case = f"case-{rng.integers(300)}"
            items.append(
                Item(item_id=f"{task}-{k}".replace(" ", "-"), task=kind, category=task, group_id=case, **more, **about)
            )
    for k in range(counts["classification"]):
        for form, name in (("categories", "categories"), ("disorders", "specific")):
            options = [*lists[form], "Normal"]
            key = sorted(set(rng.choice(options[:40], rng.integers(1, 3)))) if rng.random() > 0.1 else ["Normal"]
            more = {
                "options": options,
                "key": [str(x) for x in key],
                "topic": form,
                "category": f"classification {name}",
            }
            items.append(Item(item_id=f"c-{k}-{form}", task="multi_label", group_id=f"c-{k}", **more, **about))
    four = {"options": list("wxyz"), "key": ["A"]}
    for task in ("mcq", "exams"):
        items += [
            Item(item_id=f"{task}-{k}", task="multiple_choice", category=task, **four, **about)
            for k in range(counts[task])
        ]
    sizes = np.full(counts["emi"], counts["emi separated"] // counts["emi"])
    sizes[: counts["emi separated"] - sizes.sum()] += 1
    ten = {"options": [f"option {k}" for k in range(10)]}
    for k, size in enumerate(sizes):
        set_id, key = f"emi-{k}", [chr(65 + int(x)) for x in rng.integers(0, 10, size)]
        whole = {"stems": ["?"] * int(size), "key": key, "group_id": set_id}
        items.append(Item(item_id=set_id, task="extended_matching", category="emi", **whole, **ten, **about))
        for n, letter in enumerate(key, 1):
            more = {"key": [letter], "group_id": set_id, "topic": "separated", "origin": {"number": str(n)}}
            items.append(
                Item(item_id=f"{set_id}-{n}", task="multiple_choice", category="emi separated", **more, **ten, **about)
            )
    return items


def simulated_answers(items: list[Item], rng: np.random.Generator) -> tuple[pd.DataFrame, pd.DataFrame]:
    "Scores as the score stage leaves them, and three judges' points."
    rows, judged = [], []
    for m, model in enumerate(MODELS):
        skill = 0.6 + 0.02 * m
        for i in items:
            if i.task in ("open", "sequential"):
                points = np.clip(rng.normal(60 + 2 * m, 15, 3), 0, 100)
                judged += [(j, i.item_id, i.cluster, i.category, model, p) for j, p in zip(JUDGES, points)]
                continue
            if i.task == "multi_label":
                answer = [k for k in i.key if rng.random() < skill] + ([i.options[3]] if rng.random() < 0.3 else [])
                answer = list(dict.fromkeys(answer))
                correct = float(set(answer) == set(i.key))
            else:
                answer = [k if rng.random() < skill else "J" for k in i.key]
                correct = float(np.mean([a == k for a, k in zip(answer, i.key)]))
            rows.append((i.item_id, i.cluster, i.task, i.category, model, answer, i.key, correct))
    columns = ["item_id", "cluster", "task", "category", "model", "answer", "key", "correct"]
    scores = pd.DataFrame(rows, columns=columns).assign(mode="zero_shot", answered_by="plain", sample=0, status="ok")
    columns = ["judge", "item_id", "cluster", "category", "model", "points"]
    return scores, pd.DataFrame(judged, columns=columns).assign(by_rule=False)


def every_table(scores: pd.DataFrame, judged: pd.DataFrame, items: list[Item], draws: int, models: list[str]) -> dict:
    "The whole analysis, with the seconds of each part."
    took, how = {}, {"n_boot": draws, "seed": 1}
    start = time.perf_counter()
    classification_table(scores, items, **how)
    label_scores(scores, items, **how)
    took["classification"] = time.perf_counter() - start
    start = time.perf_counter()
    units = format_units(scores, items)
    format_counts(units)
    format_rates(units, **how)
    took["formats"] = time.perf_counter() - start
    start = time.perf_counter()
    for judge in JUDGES:
        columns = result_columns(scores, judged[judged["judge"] == judge], items, models)
        s = draw_standings(columns, models, **how)
        results_table(s), rank_table(s)
        if len(models) > 1:
            paired_table(columns, models, {models[1]: models[0]}, **how)
    took["standings"] = time.perf_counter() - start
    return took


def with_loops(scores: pd.DataFrame, judged: pd.DataFrame, items: list[Item], draws: int) -> float:
    "The same for one model, as one would write it first: a loop over draws, scikit-learn within."
    rng, start = np.random.default_rng(1), time.process_time()
    for form in ("classification categories", "classification specific"):
        g = scores[scores["category"] == form]
        options = next(i.options for i in items if i.category == form)
        y, p, _ = key_and_answer(g["answer"], g["key"], options)
        for _ in range(draws):
            at = rng.integers(0, len(y), len(y))
            accuracy_score(y[at], p[at])
            for average in ("weighted", "macro", "micro", None):
                f1_score(y[at], p[at], average=average, zero_division=0)
    units = format_units(scores, items)
    names = units["set"].unique()
    groups = {k: v for k, v in units.groupby("set")}
    for _ in range(draws):
        drawn = pd.concat([groups[k] for k in rng.choice(names, len(names))])
        drawn.groupby("set")["full"].mean().mean(), (drawn["full"] == drawn["separated"]).mean()
    for _, g in judged.groupby(["judge", "category"]):
        parts = {k: v["points"].to_numpy() for k, v in g.groupby("cluster")}
        cases = list(parts)
        for _ in range(draws):
            np.concatenate([parts[cases[k]] for k in rng.integers(0, len(cases), len(cases))]).mean()
    return time.process_time() - start


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--models", type=int, default=15)
    given = parser.parse_args()
    draws, MODELS = given.draws, MODELS[: given.models]
    rng = np.random.default_rng(20250107)
    items = simulated_items(rng)
    scores, judged = simulated_answers(items, rng)
    start, cpu = time.perf_counter(), time.process_time()
    took = every_table(scores, judged, items, draws, MODELS)
    whole, worked = time.perf_counter() - start, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    one = MODELS[0]
    mine, theirs = scores[scores["model"] == one], judged[judged["model"] == one]
    fewer = max(1, draws // 50)
    cpu = time.process_time()
    every_table(mine, theirs, items, draws, [one])
    ours = time.process_time() - cpu
    loops = with_loops(mine, theirs, items, fewer) * draws / fewer
    found = {
        "items": len(items),
        "models": len(MODELS),
        "judges": len(JUDGES),
        "draws": draws,
        "seconds": round(whole, 1),
        "cpu_seconds": round(worked, 1),
    }
    found |= {"parts": {k: round(v, 1) for k, v in took.items()}, "peak_mib": round(peak)}
    found |= {"one_model_cpu_seconds": round(ours, 2), "one_model_loops_cpu_seconds": round(loops, 1)}
    print(json.dumps(found | {"ratio": round(loops / ours, 1), "loops_on_draws": fewer}, indent=1))
