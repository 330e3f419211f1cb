"""MiniLM fine-tuned on MHQA-B, tested on MHQA-gold, beside what needs no training. The release is not ours to hand on.

Run: python benchmarks/mhqa_b.py [--rows 2000] [--seeds 3] [--epochs 3] [--test 2475] [--runs FOLDER]

It reads `mhqa_b_test.csv` (to train on), `mhqa_b_val.csv` (to choose the epoch) and `mhqa.csv` (gold, the test) in the
folder `mhqa` of $MHBENCH_DATASETS, by default `../shared/datasets`. Every seed trains once with the questions and once
on the options alone. A run that was stopped goes on at its last epoch; what is done is read.
"""

import argparse
import os
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from mhbench.encode.embeddings import load_encoder
from mhbench.encode.store import StoreSettings, keep_results
from mhbench.records.draw import draw_items
from mhbench.records.schema import Item
from mhbench.stats.estimate import estimate
from mhbench.stats.resample import mean
from mhbench.steps.answers import nearest_option
from mhbench.steps.training import TrainingParts, order_table, run_table, seed_table, train_runs, training_parts
from mhbench.studies.mhqa.load import load_mhqa

SEED = 20250107
SETTINGS = {"learning_rate": 1.0e-4, "batch_size": 32, "max_length": 64, "patience": 2}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--validation", type=int, default=400)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--test", type=int, default=None, help="questions of MHQA-gold; by default all")
    parser.add_argument("--orders", type=int, default=4, help="of the options, in which the test is answered")
    parser.add_argument("--runs", default=".mhbench/mhqa_b")
    return parser.parse_args()


def parts(rows: int, validation: int, test: int | None) -> TrainingParts:
    "The release's parts without what they share, drawn to size."
    home = Path(os.environ.get("MHBENCH_DATASETS", "../shared/datasets")) / "mhqa"
    train, chosen, gold = (
        load_mhqa(home / f"{name}.csv", key="number").records for name in ("mhqa_b_test", "mhqa_b_val", "mhqa")
    )
    held, tested = draw_items(chosen, validation, seed=SEED), draw_items(gold, test, seed=SEED)
    return training_parts(train, held, tested, n_items=rows, seed=SEED)


def nearest(items: list[Item]) -> dict[str, object]:
    "What the encoder answers untrained, by the option that is nearest to the question."
    said = nearest_option(items, load_encoder("minilm"))
    right = np.array([r.text == i.key[0] for r, i in zip(said, items)], float)
    clusters = np.array([i.cluster for i in items])
    return {"variant": "nearest option"} | estimate(mean, right, clusters=clusters, seed=SEED, share=True).row()


def show(table: pd.DataFrame) -> None:
    print(table.to_string(index=False, float_format="{:.3f}".format), flush=True)


def main() -> None:
    given = arguments()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", torch.get_num_threads())))
    of = parts(given.rows, given.validation, given.test)
    show(of.counts)
    show(pd.DataFrame([nearest(of.test)]))
    show(run_table([], of))
    settings = SETTINGS | {"epochs": given.epochs}
    base = {"minilm": {"served": "minilm"}}
    found = []
    Path(given.runs).mkdir(parents=True, exist_ok=True)
    keep_results(StoreSettings(), Path(given.runs) / "encoders.sqlite")
    for k in range(given.seeds):
        start = time.process_time()
        found += train_runs(base, of, settings, seeds=[k], baseline_seeds=[k], runs=given.runs)
        print(f"seed {k}: {time.process_time() - start:.0f} s of CPU", flush=True)
        show(seed_table(found, of))
    show(run_table(found, of))
    show(order_table(found, of, n_orders=given.orders, seed=SEED))


if __name__ == "__main__":
    main()
