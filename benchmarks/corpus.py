"""Exact search of passages, and PubMed's XML, against plain loops; in CPU seconds, which a busy machine hardly moves.

Run: OMP_NUM_THREADS=1 python benchmarks/corpus.py [passages] [questions] [records]
"""

import io
import resource
import sys
import time
from itertools import chain

import numpy as np

from mhbench.corpus.passages import nearest_passages
from mhbench.corpus.pubmed import read_pubmed
from mhbench.studies.mhqa.simulate import simulate_pubmed


def vectors(n: int, seed: int) -> np.ndarray:
    x = np.random.default_rng(seed).standard_normal((n, 384), dtype=np.float32)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def loop(questions: np.ndarray, passages: np.ndarray) -> list[list[int]]:
    return [np.argsort(-(passages @ q), kind="stable")[:3].tolist() for q in questions]


WHOLE = (200_000, 56_000)  # passages and questions of a corpus like MHQA-B


def search(m: int, n: int) -> None:
    passages, questions = vectors(m, 1), vectors(n, 2)
    start = time.process_time()
    places, _ = nearest_passages(questions, passages)
    took = time.process_time() - start
    few = min(n, 50)
    start = time.process_time()
    slow = loop(questions[:few], passages)
    each = (time.process_time() - start) / few
    assert places[:few].tolist() == slow
    print(f"{n} questions among {m} passages: {took:.1f} s; a loop {each * n:.1f} s; ratio {each * n / took:.1f}")
    if (m, n) != WHOLE:
        whole = took * (WHOLE[0] * WHOLE[1]) / (m * n)
        print(f"by the product of both, {WHOLE[1]} among {WHOLE[0]} are {whole:.0f} s of one core")


class Many(io.RawIOBase):
    "The demo's articles over and over, as a stream that is never held whole."

    def __init__(self, n: int):
        text = simulate_pubmed(canary="c").split("\n")
        articles = text[3:-2]
        body = (articles[k % len(articles)].encode() for k in range(n))
        self.parts = chain([b"<PubmedArticleSet>"], body, [b"</PubmedArticleSet>"])

    def read(self, size: int = -1) -> bytes:
        return b"".join(p for _, p in zip(range(64), self.parts))


def parse(n: int) -> None:
    for count in (n // 10, n):
        start = time.process_time()
        read = sum(1 for _ in read_pubmed(Many(count)))
        took = time.process_time() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"{read} records: {read / took * 60:,.0f} a minute of one core, peak memory of the process {peak:.0f} MiB"
        )


if __name__ == "__main__":
    given = [int(x) for x in sys.argv[1:]]
    m, n, records = (*given, *(20_000, 5_600, 20_000)[len(given) :])
    parse(records)
    search(m, n)
