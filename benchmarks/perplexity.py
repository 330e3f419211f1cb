"""Perplexities of the bundled model: the vocabulary read once for all texts, against a table of logits a text; one run.

    python benchmarks/perplexity.py [--texts 24]

The peer is the usual way: the same network is asked for the logits of one text after the other, and a softmax in 64
bits is taken of them.
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

WORDS = "he she drinks sleeps badly every evening says nobody would miss him appetite work family low mood for weeks"


def one_by_one(lm, texts):
    import torch

    found = []
    for text in texts:
        ids = torch.tensor([[lm.start, *lm.tokenizer(text, add_special_tokens=False)["input_ids"]]])
        with torch.inference_mode():
            logits = lm.model(input_ids=ids).logits[0, :-1].double()
        found.append(torch.log_softmax(logits, -1).gather(1, ids[0, 1:, None])[:, 0].numpy())
    return found


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--texts", type=int, default=24)
    n_texts = p.parse_args().texts
    from mhbench.encode.perplexity import load_lm

    rng = random.Random(0)
    texts = [" ".join(rng.choices(WORDS.split(), k=rng.randint(8, 40))) for _ in range(n_texts)]
    lm = load_lm("bundled")
    lm.logprobs(texts[:2])
    times, found = {}, {}
    for name, compute in (("one by one", lambda: one_by_one(lm, texts)), ("mhbench", lambda: lm.logprobs(texts))):
        start = time.perf_counter()
        found[name] = compute()
        times[name] = time.perf_counter() - start
    ours, theirs = times["mhbench"], times["one by one"]
    apart = max(abs(a - b).max() for a, b in zip(*found.values(), strict=True))
    n = sum(map(len, found["mhbench"]))
    print(f"{n} tokens in {n_texts} texts: {ours:.1f} s, one by one {theirs:.1f} s: {theirs / ours:.1f} x")
    print(f"largest difference of a log-probability: {apart:.1e}")


if __name__ == "__main__":
    main()
