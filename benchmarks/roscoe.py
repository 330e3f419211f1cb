"""ROSCOE's thirteen embedding scores: mhbench against the published scorer's own order of work, same MiniLM, one run.

    python benchmarks/roscoe.py [--chains 48] [--peer 6] [--memory] [--network [--to benchmarks/results/roscoe.csv]]

The peer is tests/literal_roscoe.py, which sends each chain through the models as the published implementation does and
takes each cosine by itself; it was written anew from the published description and code, it is not that code. Chains
have 4 steps
and contexts 27 sentences, as the cases of CounselingBench do. Three settings: a context of its own for every chain,
which
shares nothing; twelve chains a context, as 1,612 questions share 138 cases; and that with the answers of four models.
--memory scores 400, 1,612 and 4,836 chains in fresh processes and prints their peaks.
--network compares with the bare forward passes instead: every distinct sentence and chain once for its sentence vector,
and once for its tokens at each width that the published padding gives it; tokenizing, alignment and all else is not in
them. Seconds of this process's CPUs, the least of --repeats in turn.
--released compares with the scores that CounselingBench's authors released for the five chains that they released as
they scored them, in a folder with both files (`mhbench fetch counselingbench --only '*generated/Asclepius_7B*'`):
the eleven scores of sentence vectors, with each of the encoders named by --encoders.
"""

import argparse
import os
import random
import re
import subprocess
import sys
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "2")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
sys.path[:0] = [str(Path(__file__).resolve().parent.parent), str(Path(__file__).resolve().parent.parent / "tests")]

WORDS = (
    "client counselor session anxiety mood sleep appetite family mother father work school drinking risk history"
    " symptoms reports feels has been with the of and in for about most days several weeks since last year difficulty"
    " concentrating goal plan support group treatment depressed hopeless isolated withdrawn friends partner children"
    " pain medication"
).split()


def sentence(rng):
    return " ".join(rng.choice(WORDS) for _ in range(max(4, round(rng.gauss(17, 6))))).capitalize() + "."


def table(n, per_case, models=1, seed=0):
    "n chains: `models` answers to each of n / models questions, `per_case` questions a case."
    rng = random.Random(seed)
    chain = lambda: [sentence(rng) for _ in range(4)]
    questions = -(-n // models)
    cases = [[sentence(rng) for _ in range(27)] for _ in range(-(-questions // per_case))]
    experts = [chain() for _ in range(questions)]
    return (
        [chain() for _ in range(n)],
        [cases[i % questions // per_case] for i in range(n)],
        [experts[i % questions] for i in range(n)],
    )


def forward_passes(encoder, chains):
    "The network's calls for the texts of some chains, prepared: what is to be called, with what."
    import torch

    from mhbench.encode.embeddings import padded_rows
    from mhbench.encode.loading import length_batches, padded_widths

    texts = list(dict.fromkeys(t for c in chains for t in c))
    whole = dict.fromkeys([*texts, *(". ".join(c) for c in chains)])
    length = dict(zip(texts, encoder.lengths(texts)))
    wide = dict.fromkeys((t, max(length[u] for u in c)) for c in chains for t in c)
    calls = []
    for model, tokenizer, limit, rows, masked in (
        (encoder.sentence_model.model, encoder.sentence_model.tokenizer, encoder.sentence_model.limit, whole, True),
        (encoder.token_model, encoder.token_tokenizer, encoder.max_tokens, wide, False),
    ):
        ids = tokenizer([t if masked else t[0] for t in rows], truncation=True, max_length=limit)["input_ids"]
        widths = padded_widths([len(i) for i in ids], limit) if masked else [w for _, w in rows]
        for width in sorted(set(widths)):
            of_width = [i for i, w in zip(ids, widths) if w == width]
            for batch in length_batches([width] * len(of_width), encoder.budget):
                x, mask = padded_rows([of_width[k] for k in batch], tokenizer.pad_token_id, int(width))
                calls.append((model, x, mask if masked else torch.ones_like(mask)))
    return calls


def against_network(encoder, a):
    import pandas as pd
    import torch

    from mhbench.encode.roscoe import roscoe

    rows = []
    for label, per_case, models in SETTINGS:
        h, s, r = table(a.chains, per_case, models)
        calls = forward_passes(encoder, [*h, *s, *r])
        seconds = {"network": [], "roscoe": []}
        for _ in range(a.repeats):
            start = time.process_time()
            with torch.inference_mode():
                for model, ids, mask in calls:
                    model(input_ids=ids, attention_mask=mask)
            seconds["network"].append(time.process_time() - start)
            start = time.process_time()
            roscoe(h, s, r, encoder=encoder)
            seconds["roscoe"].append(time.process_time() - start)
        least = {k: round(min(v) / a.chains, 4) for k, v in seconds.items()}
        ratio = round(min(seconds["roscoe"]) / min(seconds["network"]), 2)
        rows.append({"setting": label, "chains": a.chains, **least, "ratio": ratio})
        print(*(f"{k} {v}" for k, v in rows[-1].items()), sep=", ", flush=True)
    if a.to:
        pd.DataFrame(rows).to_csv(a.to, index=False)


def against_released(a):
    import json

    import pandas as pd

    from mhbench.encode.embeddings import load_encoder
    from mhbench.encode.roscoe import roscoe, split_steps

    chains, scores = (next(a.released.rglob(name)) for name in RELEASED)
    rows = [json.loads(line) for line in chains.read_text(encoding="utf-8").splitlines()]
    steps = [[split_steps(row[part]) for row in rows] for part in ("hypothesis", "context", "reference")]
    printed = pd.read_csv(scores, sep=r"\s+")
    for name in a.encoders:
        found = roscoe(*steps, encoder=load_encoder(name))
        for score in found.columns.intersection(printed.columns).drop(["faithfulness_ww", "repetition_word"]):
            apart = (found[score] - printed[score]).abs().max()
            print(f"{name}: {score} {found[score].mean():.4f}, released {printed[score].mean():.4f}, apart {apart:.6f}")


def peak():
    "This process's own peak in MiB; the one that getrusage gives may be its parent's."
    return int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) / 1024


RELEASED = ("Asclepius_7B_counselingqa.json", "scores_Asclepius_7B_counselingqa.tsv")
SETTINGS = (  # a label, questions a case, models
    ("every chain with a context of its own", 1, 1),
    ("12 chains a context", 12, 1),
    ("12 chains a context, the answers of 4 models", 12, 4),
)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--chains", type=int, default=48)
    p.add_argument("--peer", type=int, default=6)
    p.add_argument("--repeats", type=int, default=3)
    p.add_argument("--memory", action="store_true")
    p.add_argument("--network", action="store_true")
    p.add_argument("--to", type=Path)
    p.add_argument("--released", type=Path)
    p.add_argument("--encoders", nargs="+", default=["minilm", "mpnet"])
    p.add_argument("--peak-of", type=int, help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.released:
        return against_released(a)
    import torch

    from mhbench.encode.embeddings import bundled_encoder, load_encoder
    from mhbench.encode.roscoe import roscoe

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    encoder = load_encoder()
    if a.peak_of:
        roscoe(*table(64, 12, seed=1), encoder=encoder)
        before = peak()
        start = time.perf_counter()
        roscoe(*table(a.peak_of, 12), encoder=encoder)
        print(
            f"{a.peak_of:6d} chains   peak {peak():6.0f} MiB   (after 64 chains {before:.0f})  "
            f" {(time.perf_counter() - start) / a.peak_of:.3f} s a chain"
        )
        return
    if a.network:
        roscoe(*table(4, 4, seed=9), encoder=encoder)  # warm
        return against_network(encoder, a)
    import literal_roscoe as literal
    from sentence_transformers import SentenceTransformer
    from transformers import AutoModel, AutoTokenizer

    folder = str(bundled_encoder())
    peer = literal.Embedder(
        SentenceTransformer(folder, device="cpu"),
        AutoTokenizer.from_pretrained(folder),
        AutoModel.from_pretrained(folder).eval(),
    )
    roscoe(*table(4, 4, seed=9), encoder=encoder)  # warm
    print(f"{'setting':46s}{'peer s/chain':>13s}{'mhbench s/chain':>17s}{'ratio':>8s}{'largest difference':>20s}")
    for label, per_case, models in SETTINGS:
        h, s, r = table(a.chains, per_case, models)
        rows = random.Random(1).sample(range(a.chains), a.peer)
        ours, theirs = [], []
        for _ in range(a.repeats):  # in turn, so that a busy machine slows both; the fastest of each counts
            start = time.perf_counter()
            found = roscoe(h, s, r, encoder=encoder)
            ours.append((time.perf_counter() - start) / a.chains)
            start = time.perf_counter()
            want = [literal.embedding_scores(h[i], s[i], r[i], peer) for i in rows]
            theirs.append((time.perf_counter() - start) / a.peer)
        worst = max(abs(found.loc[i, k] - v) for i, w in zip(rows, want) for k, v in w.items())
        print(f"{label:46s}{min(theirs):13.3f}{min(ours):17.4f}{min(theirs) / min(ours):8.1f}{worst:20.1e}", flush=True)
    if a.memory:
        for n in (400, 1612, 4836):
            subprocess.run([sys.executable, __file__, "--peak-of", str(n)], check=True)


if __name__ == "__main__":
    main()
