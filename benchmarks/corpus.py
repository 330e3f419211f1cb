"""Exact search of passages, and PubMed's XML, against plain loops; in CPU seconds, which a busy machine hardly moves.

Run: OMP_NUM_THREADS=1 python benchmarks/corpus.py [passages] [questions] [records]
"""

import io
import resource
import sys
import time
from itertools import chain

import numpy as np

from mhbench.corpus.demo import demo_path
from mhbench.corpus.passages import nearest_passages
from mhbench.corpus.pubmed import read_pubmed


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


AUTHOR = """<Author ValidYN="Y"><LastName>Made</LastName><ForeName>Up</ForeName><Initials>U</Initials><AffiliationInfo>
<Affiliation>Department of Examples, University of Nowhere, Nowhere.</Affiliation></AffiliationInfo></Author>"""
HEADING = """<MeshHeading><DescriptorName UI="D000000" MajorTopicYN="N">A Heading</DescriptorName>
<QualifierName UI="Q000000" MajorTopicYN="N">made up</QualifierName></MeshHeading>"""
REFERENCE = """<Reference><Citation>Made U. A reference that nobody wrote. J Ex. 2000;1(1):1-2.</Citation>
<ArticleIdList><ArticleId IdType="pubmed">910000000</ArticleId></ArticleIdList></Reference>"""


def grown(article: str) -> str:
    "A demo article with what real records hold besides: a longer abstract, authors, headings, references."
    sentence = "This text is synthetic: it was made for a demonstration, and no study stands behind it."
    article = article.replace(sentence, " ".join([sentence] * 12))
    article = article.replace("</Abstract>", f"</Abstract><AuthorList>{AUTHOR * 6}</AuthorList>")
    headings = f"<MeshHeadingList>{HEADING * 10}</MeshHeadingList>"
    article = article.replace("</MedlineCitation>", f"{headings}</MedlineCitation>")
    return article.replace("</PubmedData>", f"<ReferenceList>{REFERENCE * 15}</ReferenceList></PubmedData>")


class Many(io.RawIOBase):
    "The demo's articles, grown, over and over, as a stream that is never held whole."

    def __init__(self, n: int):
        text = (demo_path("mhqa") / "literature" / "pubmed_demo.xml").read_text(encoding="utf-8").split("\n")
        articles = [grown(a).encode() for a in text[3:-2]]
        self.mean_size = sum(map(len, articles)) / len(articles)  # bytes
        body = (articles[k % len(articles)] for k in range(n))
        self.parts = chain([b"<PubmedArticleSet>"], body, [b"</PubmedArticleSet>"])

    def read(self, size: int = -1) -> bytes:
        return b"".join(p for _, p in zip(range(64), self.parts))


def parse(n: int) -> None:
    for count in (n // 10, n):
        source = Many(count)
        start = time.process_time()
        read = sum(1 for _ in read_pubmed(source))
        took = time.process_time() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        rate = f"{read / took * 60:,.0f} a minute of one core"
        print(f"{read} records of {source.mean_size / 1000:.1f} kB: {rate}, peak memory of the process {peak:.0f} MiB")


if __name__ == "__main__":
    given = [int(x) for x in sys.argv[1:]]
    m, n, records = (*given, *(20_000, 5_600, 20_000)[len(given) :])
    parse(records)
    search(m, n)
