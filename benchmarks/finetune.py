"""Fine-tuning adds nothing to transformers' Trainer: the same weights, in the same CPU time.

Run: OMP_NUM_THREADS=1 python benchmarks/finetune.py [questions [rounds]]
"""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from transformers import DataCollatorForMultipleChoice, Trainer, set_seed

from mhbench.corpus.demo import demo_path
from mhbench.encode.classifiers import load_multiple_choice
from mhbench.encode.finetune import TrainingData, _training_arguments, finetune, training_settings, untrained_model
from mhbench.records.schema import Item
from mhbench.studies.mhqa.load import load_mhqa

N, ROUNDS = (int(x) for x in [*sys.argv[1:], *(64, 3)[len(sys.argv) - 1 :]])
SETTINGS = training_settings({"epochs": 2, "batch_size": 16, "layers": 2, "max_length": 64})


def plain(rows, folder) -> tuple[float, dict]:
    "The Trainer as its documentation shows it, on the same rows and arguments: load, train, save."
    start = time.process_time()
    model, tokenizer = untrained_model("minilm", SETTINGS, seed=0)
    steps = SETTINGS.epochs * -(-len(rows) // SETTINGS.batch_size)
    trainer = Trainer(
        model, _training_arguments(folder, SETTINGS, 0, False, steps), DataCollatorForMultipleChoice(tokenizer), rows
    )
    trainer.train()
    trainer.save_model(str(folder / "model"))
    return time.process_time() - start, {k: v.clone() for k, v in trainer.model.state_dict().items()}


def ours(data, folder) -> tuple[float, dict]:
    "The same by this package, which resumes, stops early and writes down what it did besides."
    start = time.process_time()
    run = finetune(data, SETTINGS, seed=0, runs=folder)
    took = time.process_time() - start
    return took, load_multiple_choice(run.folder / "model").model.state_dict()


def main() -> None:
    items: list[Item] = load_mhqa(demo_path("mhqa") / "b" / "mhqa_b_train.csv").records[:N]
    _, tokenizer = untrained_model("minilm", SETTINGS, seed=0)
    start = time.process_time()
    data = TrainingData("minilm", items)
    prepared, _ = data.prepared(tokenizer, SETTINGS.max_length)
    n_tokens = sum(len(ids) for r in prepared.rows for ids in r["input_ids"])
    print(f"tokenised once: {len(items)} questions, {n_tokens} tokens, {time.process_time() - start:.2f} s")
    home = Path(tempfile.mkdtemp())
    set_seed(0)
    times: dict[str, list[float]] = {"plain Trainer": [], "finetune": []}
    for k in range(ROUNDS):
        t, a = plain(prepared.rows, home / f"plain{k}")
        times["plain Trainer"].append(t)
        t, b = ours(data, home / f"ours{k}")
        times["finetune"].append(t)
    same = a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)
    medians = {k: float(np.median(v)) for k, v in times.items()}
    print(", ".join(f"{k}: {v:.2f} s" for k, v in medians.items()))
    print(f"ratio {medians['finetune'] / medians['plain Trainer']:.2f}; the same weights: {same}")


if __name__ == "__main__":
    main()
