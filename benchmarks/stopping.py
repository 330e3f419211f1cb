"""Stopping early: how often it errs where there is nothing to find, and what it saves on recorded answers.

python benchmarks/stopping.py null OUT.csv [RUNS]         runs without a difference, a look after every question
python benchmarks/stopping.py recorded FOLDER OUT.csv     CounselingBench's released answers (outputs_t), every pair
python benchmarks/stopping.py families FOLDER OUT.csv     the same, all models of it at once
"""

import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

from mhbench.stats.anytime import observed, wealth_path
from mhbench.steps.stopping import Known, Stopping, still_asked, take_look, to_compare

LEVEL = 0.95
BAR = np.log(2 / (1 - LEVEL))
SMALLEST = 30  # questions
SETTINGS = [  # cases, questions of each, how alike the questions of a case are, how often two models differ
    *((0, n, 0.0, d) for n in (100, 500, 2000) for d in (0.1, 0.4)),
    *((c, m, r, 0.4) for c, m in ((20, 5), (51, 10), (200, 3)) for r in (0.0, 0.3, 1.0)),
]
SKEWED = [(20, 5, 0.0, 0.37), (51, 10, 0.0, 0.37), (200, 10, 0.0, 0.37)]
MARKS = [(0, 500, 0.0, 0.63), (0, 500, 0.0, 0.9), *((51, 10, r, m) for r in (0.1, 0.5) for m in (0.63, 0.9))]


def case_order(cases: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    "Questions in turns: one of each case, in one random order of cases, then another of each."
    place = rng.permutation(cases.max() + 1)[cases]
    mixed = rng.permutation(len(cases))
    turn = pd.Series(cases[mixed]).groupby(cases[mixed]).cumcount().to_numpy()
    return mixed[np.lexsort((place[mixed], turn))]


def shares_of_cases(rng: np.random.Generator, n: int, runs: int, share: float, alike: float) -> np.ndarray:
    "The share of each case, with this mean; `alike` is the correlation of two questions of a case."
    if alike == 0:
        return np.full((n, runs), share)
    if alike == 1:
        return (rng.random((n, runs)) < share).astype(float)
    scale = (1 - alike) / alike
    return rng.beta(share * scale, (1 - share) * scale, (n, runs))


def drawn_pairs(rng, cases, runs, alike, discordant) -> np.ndarray:
    "Differences of two models that are right equally often."
    won = shares_of_cases(rng, cases.max() + 1, runs, 0.5, alike)[cases]
    sign = np.where(rng.random(won.shape) < won, 1.0, -1.0)
    return sign * (rng.random(won.shape) < discordant)


def drawn_skewed(rng, cases, runs, alike, discordant) -> np.ndarray:
    "One model loses whole cases, one in ten, and is a little better in the others: no difference on average."
    lost = (rng.random((cases.max() + 1, runs)) < 0.1)[cases]
    mean, differ = np.where(lost, -0.9, 0.1), np.where(lost, 1.0, 0.3)
    u = rng.random(mean.shape)
    return np.where(u < (differ + mean) / 2, 1.0, np.where(u < differ, -1.0, 0.0))


def drawn_marks(rng, cases, runs, alike, mark) -> np.ndarray:
    "Observed of a model that is exactly as good as the mark."
    share = shares_of_cases(rng, cases.max() + 1, runs, mark, alike)[cases]
    return (rng.random(share.shape) < share).astype(float)


def wrong_runs(draw, low: float, null: float, setting: tuple, runs: int, seed: int) -> dict:
    n_cases, n, alike, share = setting
    rng = np.random.default_rng(seed)
    of = np.repeat(np.arange(n_cases or n), n if n_cases else 1)
    ever = late = 0
    chunk = max(1, 200_000 // len(of))
    for start in range(0, runs, chunk):
        order = case_order(of, rng)
        x = draw(rng, of, min(chunk, runs - start), alike, share)[order]
        a = observed(x, of[order] if n_cases else None, low=low)
        won = np.maximum(wealth_path(a, null), wealth_path(a.turned(), -null)) >= BAR
        ever += int(won.any(0).sum())
        late += int(won[SMALLEST:].any(0).sum())
    named = dict(cases=n_cases or n, questions=len(of), alike=alike, share=share)
    return named | {"runs": runs, "wrong": ever / runs, f"wrong_from_{SMALLEST}": late / runs}


def null_runs(out: str, runs: int = 10_000) -> None:
    rows = [{"kind": "pair"} | wrong_runs(drawn_pairs, -1.0, 0.0, s, runs, seed) for seed, s in enumerate(SETTINGS)]
    rows += [
        {"kind": "pair, skewed"} | wrong_runs(drawn_skewed, -1.0, 0.0, s, runs, 50 + seed)
        for seed, s in enumerate(SKEWED)
    ]
    rows += [
        {"kind": "pass mark"} | wrong_runs(drawn_marks, 0.0, s[-1], s, runs, 100 + seed) for seed, s in enumerate(MARKS)
    ]
    pd.DataFrame(rows).to_csv(out, index=False)
    print(pd.DataFrame(rows).to_string())


def released(folder: str) -> tuple[pd.DataFrame, np.ndarray]:
    "Right or wrong (a row a question, a column a model and mode), and the case of each question."
    from mhbench.steps.score import score_responses
    from mhbench.studies.counselingbench.load import load_counselingbench, load_counselingbench_responses, run_of

    files = sorted(Path(folder).glob("*.csv"))
    items = load_counselingbench(files[0], strict=False, set_aside=Path("/tmp") / "aside.jsonl").records
    known = {i.item_id for i in items}
    columns = {}
    for file in files:
        said = [r for r in load_counselingbench_responses(file, strict=False)[0] if r.item_id in known]
        columns[" ".join(run_of(file))] = score_responses(items, said).set_index("item_id")["correct"]
    right = pd.DataFrame(columns).reindex([i.item_id for i in items])
    return right, pd.factorize(np.array([i.cluster for i in items]))[0]


def savings(right: pd.DataFrame, cases: np.ndarray, by_case: bool, smallest: int, orders: int) -> dict:
    pairs = np.array(list(combinations(range(right.shape[1]), 2)))
    d = right.to_numpy(float)[:, pairs[:, 0]] - right.to_numpy(float)[:, pairs[:, 1]]
    full, saved, wrong, decided = d.mean(0), [], 0, []
    for seed in range(orders):
        rng = np.random.default_rng(seed)
        order = case_order(cases if by_case else np.arange(len(d)), rng)
        a = observed(d[order], cases[order] if by_case else None)
        up, down = wealth_path(a, 0.0), wealth_path(a.turned(), 0.0)
        won = np.maximum(up, down) >= BAR
        won[: smallest - 1] = False
        first = won.argmax(0)
        sign = np.where(won.any(0), np.sign((up - down)[first, np.arange(len(full))]), 0)
        saved.append(np.where(won.any(0), 1 - (first + 1) / len(d), 0.0))
        wrong += int((sign * full < 0).sum())
        decided.append((sign != 0).mean())
    named = {"units": "cases" if by_case else "questions", "smallest": smallest, "comparisons": len(pairs) * orders}
    return named | {"saved": np.mean(saved), "decided": np.mean(decided), "wrong": wrong}


def of_all(right: pd.DataFrame, cases: np.ndarray, by_case: bool, decide: str, orders: int) -> dict:
    "All models at once, with the one error for all of them, as the stage asks: 50 questions, then 20 at a time."
    names, full, stop = list(right), right.mean(), Stopping(decide=decide)
    saved, decided, wrong, best = [], [], [], 0
    for seed in range(orders):
        order = case_order(cases if by_case else np.arange(len(right)), np.random.default_rng(seed))
        of = [str(c) for c in (cases[order] if by_case else order)]
        values = right.iloc[order].reset_index(drop=True)
        seen, asked = values * np.nan, dict.fromkeys(names, 0)
        comparisons, active, done = to_compare(names, stop), names, 0
        for n in stop.looks(len(order)):
            seen.loc[done : n - 1, active] = values.loc[done : n - 1, active]
            asked |= dict.fromkeys(active, n)
            comparisons = take_look(Known(seen.iloc[:n], of, stop), comparisons, active)
            active, done = still_asked(comparisons, active, stop), n
            if not active:
                break
        won = [(c.first, c.second) if c.verdict == "first" else (c.second, c.first) for c in comparisons if c.verdict]
        saved.append(1 - sum(asked.values()) / (len(names) * len(order)))
        decided.append(len(won) / len(comparisons))
        wrong.append(sum(full[a] < full[b] for a, b in won))
        best += len({b for _, b in won}) == len(names) - 1
    named = {"decide": decide, "units": "cases" if by_case else "questions", "runs": orders, "models": len(names)}
    named |= {"comparisons": len(names) * (len(names) - 1) // 2, "saved": np.mean(saved), "decided": np.mean(decided)}
    return named | {"wrong": sum(wrong), "runs_with_a_wrong_one": int(np.count_nonzero(wrong)), "one_left": best}


def families(folder: str, out: str, orders: int = 20) -> None:
    right, cases = released(folder)
    rows = [of_all(right, cases, by, decide, orders) for decide in ("pairs", "best") for by in (False, True)]
    pd.DataFrame(rows).to_csv(out, index=False)
    print(pd.DataFrame(rows).to_string())


def recorded(folder: str, out: str, orders: int = 50) -> None:
    right, cases = released(folder)
    rows = [savings(right, cases, by_case, n, orders) for by_case in (False, True) for n in (1, 30, 50, 100)]
    pd.DataFrame(rows).to_csv(out, index=False)
    print(pd.DataFrame(rows).to_string())


if __name__ == "__main__":
    command, *given = sys.argv[1:]
    if command == "null":
        null_runs(given[0], *map(int, given[1:]))
    elif command == "families":
        families(*given[:2])
    else:
        recorded(*given[:2])
