"""Distances against the textbook table, completions and Min-K% against loops."""

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from answering import answering, refuse
from mhbench import contamination as c
from mhbench.llm import Model
from mhbench.schema import Item

words = st.text(alphabet="abcäβ ", max_size=90)


def table_distance(a: str, b: str) -> int:
    "Wagner and Fischer's table."
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))
    return row[-1]


@settings(max_examples=300, deadline=None)
@given(words, words)
def test_levenshtein_equals_the_table(a, b):
    assert c.levenshtein(a, b) == c.levenshtein(b, a) == table_distance(a, b)
    assert 0 <= c.levenshtein_similarity(a, b) <= 1
    assert (c.levenshtein_similarity(a, b) == 1) == (a == b)


def test_levenshtein_beyond_a_machine_word():
    rng = np.random.default_rng(1)
    a, b = ("".join(rng.choice(list("abcd "), 1000)) for _ in range(2))
    assert c.levenshtein(a, b) == table_distance(a, b)
    assert c.levenshtein(a, a[:500] + "x" + a[500:]) == 1


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=80))
def test_halves_keep_every_word(text):
    got = c.halves(text)
    if got is None: assert len(text.split()) < 4
    else:
        assert " ".join(got).split() == text.split()
        assert 0 <= len(got[1].split()) - len(got[0].split()) <= 1


class OneHot:
    "Sentences as one-hot vectors: equal texts have cosine 1, others 0."
    def sentences(self, texts):
        at = {t: i for i, t in enumerate(dict.fromkeys(texts))}
        return np.eye(len(at), dtype=np.float32)[[at[t] for t in texts]]


def test_completions_by_loops():
    rng = np.random.default_rng(0)
    seconds = [" ".join(rng.choice(["fear", "sleep", "mood", "work"], 6)) for _ in range(12)]
    wrote = [s if i % 3 == 0 else " ".join(reversed(s.split())) for i, s in enumerate(seconds)]
    got = c.compare_completions(seconds, wrote, encoder=OneHot(), others=4)
    for i, row in got.table.iterrows():
        rest = [seconds[(i + s) % 12] for s in range(1, 5)]
        assert row["distance"] == table_distance(seconds[i], wrote[i])
        assert row["levenshtein"] == pytest.approx(c.levenshtein_similarity(seconds[i], wrote[i]))
        assert row["levenshtein_other"] == pytest.approx(max(c.levenshtein_similarity(wrote[i], r) for r in rest))
        assert row["embedding"] == float(seconds[i] == wrote[i])
        assert row["embedding_margin"] == row["embedding"] - float(wrote[i] in rest)
    assert got.flagged["embedding > 0.9"] == sum(a == b for a, b in zip(seconds, wrote))


def test_what_is_written_beyond_the_question_does_not_count():
    got = c.compare_completions(["one two three"], ["one two three Answer: B because " + "x " * 50])
    assert got.table.loc[0, "levenshtein"] == 1


def test_missing_completions_are_counted_and_not_scored():
    got = c.compare_completions(["a b", None, "c d", "e f"], ["a b", "x", None, "  "], others=3)
    assert got.n == 1 and got.skipped == {"too short": 1, "no completion": 2}
    assert got.table["levenshtein"].isna().tolist() == [False, True, True, True]
    assert got.table.loc[0, "levenshtein_other"] < 1      # compared with the halves whose completion is missing


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.floats(-20, 0), max_size=30), max_size=5), st.floats(0.01, 1))
def test_min_k_by_sorting(texts, k):
    for got, x in zip(c.min_k(texts, k), texts):
        if not x: assert math.isnan(got)
        else: assert got == pytest.approx(np.mean(sorted(x)[:max(1, math.floor(k * len(x)))]))


def test_real_halves(datasets):
    from mhbench.sources import load_mhqa
    items = load_mhqa(datasets / "mhqa" / "mhqa.csv", key="number").records
    cut = [c.halves(i.question) for i in items]
    assert sum(h is None for h in cut) == 0
    seconds = [h[1] for h in cut[:200]]
    same = c.compare_completions(seconds, seconds)
    assert same.flagged == {"levenshtein > 0.8": 200, "levenshtein > 0.9": 200}


def test_a_model_is_asked_with_the_first_half_alone():
    questions = ["Which of the following would you assess first today?", "Why now?", "What should the counselor do next with the family?", "How would you describe his affect in the session?"]
    items = [Item(item_id=f"q{i}", study="any", task="open", question=q, key=["-"], source="test") for i, q in enumerate(questions)]

    def reply(body):
        text = body["messages"][-1]["content"]
        return "would you assess first today?" if "Which of the" in text else refuse() if "What should" in text else {"message": {"content": "describe his affect in"}, "finish_reason": "length"}
    with answering(reply) as (here, seen):
        got = c.complete(items, Model(name="m", endpoint="here", served="m"), here, cache=None, progress=False)
    assert len(seen) == len(got.answers) == 3
    for q, body in zip((questions[0], questions[2], questions[3]), sorted(seen, key=lambda b: [i for i, q in enumerate(questions) if (h := c.halves(q)) and h[0] in b["messages"][-1]["content"]])):
        first, second = c.halves(q)
        assert first in body["messages"][-1]["content"] and second not in body["messages"][-1]["content"]
        assert body["temperature"] == 0
    assert got.seconds[1] is None and got.completions[1] is None and got.completions[2] is None
    assert got.completions[0] == "would you assess first today?" and got.completions[3] == "describe his affect in"      # cut off, but written
    assert got.statuses == {"ok": 1, "refused": 1, "truncated": 1}
    assert c.compare_completions(got.seconds, got.completions).skipped == {"too short": 1, "no completion": 1}
