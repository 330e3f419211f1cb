"""BERTScore of ten samples a question: mhbench against the bert-score package called once on the whole list, one run.

    python benchmarks/bertscore.py [--questions 119] [--samples 10] [--repeats 3]

The same network on both sides, the bundled MiniLM, its last layer. Three settings: every sample different, samples of
which
half repeat, and samples that are the same every time, as at temperature 0. Scores are compared too. The two take turns,
and the fastest of
each counts.
"""

import argparse
import os
import random
import sys
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "2")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

WORDS = (
    "start stop increase the dose of sertraline lithium therapy with a follow up in two weeks refer to emergency room"
    " admit patient because risk of suicide first talk about alcohol sleep diet and consider major depression bipolar"
    " panic disorder generalized anxiety"
).split()


def sentence(rng):
    return " ".join(rng.choice(WORDS) for _ in range(max(4, round(rng.gauss(18, 6))))).capitalize() + "."


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--questions", type=int, default=119)
    p.add_argument("--samples", type=int, default=10)
    p.add_argument("--repeats", type=int, default=3)
    a = p.parse_args()
    import numpy as np
    import torch
    from bert_score import BERTScorer

    from mhbench.encode.bertscore import bertscore
    from mhbench.encode.embeddings import bundled_encoder, load_encoder

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    encoder, package = load_encoder(), BERTScorer(model_type=str(bundled_encoder()), num_layers=6)
    rng = random.Random(0)
    references = [r for r in (sentence(rng) for _ in range(a.questions)) for _ in range(a.samples)]
    print(f"{'samples':28s}{'package s':>11s}{'mhbench s':>11s}{'ratio':>7s}{'largest difference':>20s}")
    for label, different in (("all different", a.samples), ("half repeat", a.samples // 2), ("all the same", 1)):
        candidates = []
        for _ in range(a.questions):
            own = [sentence(rng) for _ in range(different)]
            candidates += [own[i % different] for i in range(a.samples)]
        ours, theirs = [], []
        for _ in range(a.repeats):
            start = time.perf_counter()
            found = bertscore(candidates, references, encoder=encoder)
            ours.append(time.perf_counter() - start)
            start = time.perf_counter()
            want = package.score(candidates, references)
            theirs.append(time.perf_counter() - start)
        worst = max(float(np.abs(x - y.numpy()).max()) for x, y in zip(found, want))
        print(f"{label:28s}{min(theirs):11.2f}{min(ours):11.2f}{min(theirs) / min(ours):7.1f}{worst:20.1e}", flush=True)


if __name__ == "__main__":
    main()
