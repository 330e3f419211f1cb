"""Does `mhbench plan --humans` keep its promise? Widths that a pilot predicts, against those of labels drawn later.

    MHBENCH_DATASETS=../shared/datasets python benchmarks/humans.py [--draws 200] [--to benchmarks/results/humans.csv]

Three sources: simulated answers of known correlation; MentalBench-Align (people and two model judges; one answer a
conversation drawn at random, or those of one model; pilot and held-out are different conversations); Lend an Ear (three
experts' mean and three model judges, fifty conversations). A row is a source, a judge, an attribute and a size; a draw
splits the answers anew, plans from the pilot and labels `labels` answers of the held-out part. No text and no label is
written: means of widths alone. The predicted ratio is that of widths with and without the judge.
"""

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from mhbench.stats.prediction_powered import certificate, pilot_moments, prediction_powered

HERE = Path(__file__).resolve().parent
DATASETS = Path(os.environ.get("MHBENCH_DATASETS", HERE.parents[1] / "shared" / "datasets")) / "outside"
Sample = tuple[np.ndarray, np.ndarray]  # people, judge


def simulated(rng: np.random.Generator, rho: float, share: bool, n: int = 1400) -> Sample:
    y = rng.normal(size=n)
    f = rho * y + np.sqrt(1 - rho**2) * rng.normal(size=n)
    if share:
        y = (rng.random(n) < 0.7).astype(float)
        f = np.where(rng.random(n) < 0.5 + rho / 2, y, 1 - y)
    return y, f


def of_mentalbench(rng: np.random.Generator, wide: pd.DataFrame, judge: str) -> Sample:
    "One answer a conversation."
    one = wide[["people", judge]].dropna().sample(frac=1, random_state=int(rng.integers(2**31)))
    one = one[~one.index.get_level_values("conversation").duplicated()]
    return one["people"].to_numpy(float), one[judge].to_numpy(float)


def of_one_model(rng: np.random.Generator, wide: pd.DataFrame, judge: str) -> Sample:
    "All answers of one model, drawn at random."
    models = sorted(set(wide.index.get_level_values("model")))
    return of_mentalbench(rng, wide.xs(models[rng.integers(len(models))], level="model"), judge)


def compared(y: np.ndarray, f: np.ndarray, pilot: int, labels: int, share: bool, rng: np.random.Generator) -> list:
    "Predicted and realised widths of one draw: people alone, both."
    order = rng.permutation(len(y))
    first, later = order[:pilot], order[pilot:]
    plan = certificate(pilot_moments(y[first], f[first], share=share), len(later), [labels]).iloc[0]
    few = np.where(np.arange(len(later)) < labels, y[later], np.nan)
    found = [prediction_powered(few, f[later], power=p, share=share).both for p in (0.0, None)]
    return [plan["people_alone"], plan["with_judge"], *(e.ci_high - e.ci_low for e in found)]


def sources() -> Iterator[tuple[dict, object, list, bool]]:  # name, how a sample is drawn, (pilot, labels), share
    for share in (False, True):
        for rho in (0.2, 0.4, 0.6, 0.8, 0.95):
            name = {"source": "simulated", "judge": f"correlation {rho}", "attribute": "label" if share else "score"}
            sizes = [(100, 100), (400, 50), (400, 100), (400, 200)]
            yield name, lambda rng, rho=rho, share=share: simulated(rng, rho, share), sizes, share
    file = DATASETS / "mentalbench" / "scores.csv.gz"
    if file.exists():
        scores = pd.read_csv(file)
        for attribute, g in scores.groupby("attribute"):
            wide = g.pivot_table(index=["conversation", "model"], columns="rater", values="score")
            for judge in sorted(set(wide) - {"people"}) if "people" in wide else []:
                name = {"source": "MentalBench-Align", "judge": judge, "attribute": attribute}
                sizes = [(100, 100), (500, 50), (500, 100), (500, 200)]
                yield name, lambda rng, w=wide, j=judge: of_mentalbench(rng, w, j), sizes, False
                name = name | {"source": "MentalBench-Align, one model"}
                yield name, lambda rng, w=wide, j=judge: of_one_model(rng, w, j), [(500, 100)], False
    folder = DATASETS / "empathy" / "lend_an_ear"
    if folder.exists():
        who = ("expert1", "expert2", "expert3", "claude", "gemini", "gpt")
        tables = {w: pd.read_csv(folder / f"{w}_ratings.csv").set_index("conversation_id") for w in who}
        people = pd.concat([tables[w] for w in who[:3]]).groupby(level=0).mean(numeric_only=True)
        for judge in who[3:]:
            for attribute in people:
                both = pd.concat([people[attribute], tables[judge][attribute]], axis=1).dropna().to_numpy(float)
                name = {"source": "Lend an Ear", "judge": judge, "attribute": attribute}
                yield name, lambda rng, b=both: (b[:, 0], b[:, 1]), [(25, 12)], False


def main() -> None:
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--draws", type=int, default=200)
    args.add_argument("--to", type=Path, default=HERE / "results" / "humans.csv")
    a = args.parse_args()
    rows = []
    for name, draw, sizes, share in sources():
        for pilot, labels in sizes:
            found, judged = [], 0
            for d in range(a.draws):
                rng = np.random.default_rng([d, pilot, labels])
                y, f = draw(rng)
                found.append(compared(y, f, pilot, labels, share, rng))
                judged = len(y) - pilot
            planned_alone, planned, alone, both = np.nanmean(found, axis=0)
            one = np.array(found)[:, 1] / np.array(found)[:, 0]
            row = name | {"pilot": pilot, "labels": labels, "judged": judged, "draws": a.draws}
            row |= {"predicted": planned / planned_alone, "realised": both / alone}
            row["difference"] = row["predicted"] - row["realised"]
            row |= {"sd_of_predictions": one.std(ddof=1), "people_alone": alone, "planned_alone": planned_alone}
            rows.append(row)
            print(pd.Series(row).to_frame().T.to_string(header=False, index=False), flush=True)
    a.to.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(rows).round(4).to_csv(a.to, index=False)


if __name__ == "__main__":
    main()
