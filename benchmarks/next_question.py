"""Which question to ask next? Random, stratified and informative orders on the recorded answers of CounselingBench.

    python benchmarks/next_question.py              # 200 seeds, into results/next_question.csv
    python benchmarks/next_question.py --seeds 20

Eight models answered 508 questions twice (zero-shot and few-shot). In turn a model is left out: the model of raters is
fitted to the fourteen runs of the others, as raters of questions, which says how easy each question is. Then a run of
the model left out is asked 25, 50, 100 and 200 of the questions, and its accuracy on all 508 is estimated: by the mean
of what was asked, or by the model of raters (its ability from what was asked, the rest of the questions predicted).
The error is the absolute difference from its accuracy on all of them; errors are averaged over seeds and the two runs,
and the interval is Student's over the eight models.
"""

import argparse
import os
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats
from scipy.special import expit

from mhbench.stats.rater_model import fit_raters
from mhbench.steps.score import score_responses
from mhbench.studies.counselingbench.load import load

HERE = Path(__file__).resolve().parent
DATASETS = Path(os.environ.get("MHBENCH_DATASETS", HERE.parent.parent / "shared" / "datasets"))
SIZES = (25, 50, 100, 200)
ABILITIES = np.linspace(-4, 4, 81)  # logits
WAYS = [  # order, estimate: the simplest first
    ("random", "mean"),
    ("stratified", "mean"),
    ("random", "model of raters"),
    ("stratified", "model of raters"),
    ("informative", "model of raters"),
]


def recorded_scores(folder: Path = DATASETS / "counselingbench" / "outputs_t") -> pd.DataFrame:
    "A row a question and run: item_id, cluster (its case), model, mode, answer, key, correct (0 where none was read)."
    with tempfile.TemporaryDirectory() as aside:
        corpus = load(folder, strict=False, set_aside=f"{aside}/rows.jsonl")
    scores = score_responses(corpus.items, corpus.responses)
    return scores[["item_id", "cluster", "model", "mode", "answer", "key", "correct"]]


class Questions:
    "What the model of raters knows of every question from the runs of other models."

    def __init__(self, right: np.ndarray):  # (R, N) 0 or 1
        runs, n = right.shape
        run, question = np.indices((runs, n)).reshape(2, -1)
        fit = fit_raters(right.ravel(), question, run, categories=[0, 1], spreads=False)
        severity, cut = fit.part("severity"), fit.part("cuts")[0]
        # the curve of a question: how probably it is answered right, by ability, over what is known of its ease
        self.curve = fit.weight @ expit(fit.grid[:, None] + cut + ABILITIES)  # (N, T)
        slope = np.gradient(self.curve, ABILITIES, axis=1)
        self.information = slope**2 / (self.curve * (1 - self.curve))  # (N, T)
        self.prior = -0.5 * ((ABILITIES + severity.mean()) / severity.std(ddof=1)) ** 2  # (T,) log, up to a constant
        self.log_right, self.log_wrong = np.log(self.curve), np.log1p(-self.curve)

    def gain(self, k: int, right: float) -> np.ndarray:  # (T,) what an answer adds to the log of the posterior
        return self.log_right[k] if right else self.log_wrong[k]


def posterior(log_weight: np.ndarray) -> np.ndarray:
    w = np.exp(log_weight - log_weight.max())
    return w / w.sum()


def stratified(case: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    "Rounds through the cases, in a new order each, one question of each case a round."
    place = np.empty(len(case), int)
    shuffled = rng.permutation(len(case))
    for c in np.unique(case):
        of = shuffled[case[shuffled] == c]
        place[of] = np.arange(len(of))
    return np.lexsort((rng.random(len(case)), place))


def informative(q: Questions, right: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    "The first at random; then what tells most of the ability, as far as it is known."
    log_weight, order = q.prior.copy(), [int(rng.integers(len(right)))]
    free = np.ones(len(right), bool)
    while True:
        k = order[-1]
        free[k] = False
        log_weight += q.gain(k, right[k])
        if len(order) == n:
            return np.array(order)
        worth = q.information @ posterior(log_weight)
        order.append(int(np.argmax(np.where(free, worth, -1.0))))


def estimates(q: Questions, right: np.ndarray, order: np.ndarray) -> dict[tuple[str, int], float]:
    "By the mean and by the model of raters, after each of the sizes."
    found = {}
    for n in SIZES:
        asked = order[:n]
        log_weight = q.prior + sum(q.gain(k, right[k]) for k in asked)
        rest = np.delete(q.curve @ posterior(log_weight), asked)
        found["mean", n] = right[asked].mean()
        found["model of raters", n] = (right[asked].sum() + rest.sum()) / len(right)
    return found


def errors(scores: pd.DataFrame, seeds: int) -> pd.DataFrame:  # model, mode, seed, order, estimate, n, error
    "The signed error of every estimate."
    table = scores.pivot(index=["model", "mode"], columns="item_id", values="correct").fillna(0.0)
    case = scores.drop_duplicates("item_id").set_index("item_id")["cluster"].loc[table.columns].to_numpy()
    rows = []
    for model in table.index.get_level_values("model").unique():
        q = Questions(table.drop(index=model, level="model").to_numpy())
        for mode, right in zip(table.loc[model].index, table.loc[model].to_numpy()):
            for seed in range(seeds):
                rng = np.random.default_rng(seed)
                orders = {
                    "random": rng.permutation(len(right)),
                    "stratified": stratified(case, rng),
                    "informative": informative(q, right, max(SIZES), rng),
                }
                for name, order in orders.items():
                    for (by, n), value in estimates(q, right, order).items():
                        rows.append((model, mode, seed, name, by, n, value - right.mean()))
        print(model, flush=True)
    found = pd.DataFrame(rows, columns=["model", "mode", "seed", "order", "estimate", "n", "error"])
    return found[[x in WAYS for x in zip(found["order"], found["estimate"])]]


def over_models(values: pd.Series) -> tuple[float, float, float]:  # a value a model
    "The mean, and Student's interval over models."
    half = stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    return values.mean(), values.mean() - half, values.mean() + half


def table_of(found: pd.DataFrame) -> pd.DataFrame:
    """Mean absolute error, and its difference from a random order's: of the mean, and of the same estimate. Aggregates
    over models: no answer and no label is in it."""
    by_model = found.assign(error=found["error"].abs(), lean=found["error"])
    by_model = by_model.groupby(["order", "estimate", "n", "model"])[["error", "lean"]].mean()
    rows = []
    for n in SIZES:
        for order, by in WAYS:
            here = by_model.loc[(order, by, n)]
            row = {"order": order, "estimate": by, "n": n, "models": len(here)}
            compared = {"error": here["error"]}
            compared["less mean"] = here["error"] - by_model.loc[("random", "mean", n)]["error"]
            compared["less random"] = here["error"] - by_model.loc[("random", by, n)]["error"]
            for name, values in compared.items():
                row[name], row[f"{name}, low"], row[f"{name}, high"] = over_models(values)
            rows.append(row | {"lean": here["lean"].mean()})
    return pd.DataFrame(rows)


def main() -> None:
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--seeds", type=int, default=200)
    args.add_argument("--to", type=Path, default=HERE / "results" / "next_question.csv")
    a = args.parse_args()
    table = table_of(errors(recorded_scores(), a.seeds))
    a.to.parent.mkdir(exist_ok=True)
    table.round(5).to_csv(a.to, index=False, lineterminator="\n")
    print(table.round(4).to_string(index=False))


if __name__ == "__main__":
    main()
