"""Distances against the textbook table, completions against loops."""

import numpy as np
import pytest
from answering import answering, refuse
from hypothesis import given, settings
from hypothesis import strategies as st

from mhbench.ask.request import Answer, Model
from mhbench.records.schema import Item
from mhbench.steps import contamination as c

words = st.text(alphabet="abcäβ ", max_size=90)


def table_distance(a: str, b: str) -> int:
    "Wagner and Fischer's table."
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))
    return row[-1]


def table_similarity(a: str, b: str) -> float:
    return 1 - table_distance(a, b) / max(len(a), len(b))


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=80))
def test_halves_keep_every_word(text):
    got = c.halves(text)
    if got is None:
        assert len(text.split()) < 4
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
    got, _ = c.compare_completions(seconds, wrote, encoder=OneHot(), n_others=4)
    for i, row in got.iterrows():
        rest = [seconds[(i + s) % 12] for s in range(1, 5)]
        assert row["distance"] == table_distance(seconds[i], wrote[i])
        assert row["levenshtein"] == pytest.approx(table_similarity(seconds[i], wrote[i]))
        beside = [table_similarity(wrote[i], r) for r in rest]
        lower = sum(x < row["levenshtein"] for x in beside) + sum(x == row["levenshtein"] for x in beside) / 2
        assert row["levenshtein_other"] == pytest.approx(np.mean(beside))
        assert row["levenshtein_rank"] == pytest.approx(lower / 4)
        assert row["embedding"] == float(seconds[i] == wrote[i])
        same = [float(wrote[i] == r) for r in rest]
        assert row["embedding_rank"] == np.mean([(x < row["embedding"]) + (x == row["embedding"]) / 2 for x in same])
    assert (got["embedding"] > 0.9).sum() == sum(a == b for a, b in zip(seconds, wrote))


def test_what_is_written_beyond_the_question_does_not_count():
    got, _ = c.compare_completions(["one two three"], ["one two three Answer: B because " + "x " * 50])
    assert got.loc[0, "levenshtein"] == 1


def test_missing_completions_are_counted_and_not_scored():
    got, counts = c.compare_completions(["a b", None, "c d", "e f"], ["a b", "x", None, "  "], n_others=3)
    assert counts == {"compared": 1, "too short": 1, "no completion": 2}
    assert got["levenshtein"].isna().tolist() == [False, True, True, True]
    assert got.loc[0, "levenshtein_other"] < 1  # compared with the halves whose completion is missing


def test_real_halves(datasets):
    from mhbench.studies.mhqa.load import load_mhqa

    items = load_mhqa(datasets / "mhqa" / "mhqa.csv", key="number").records
    cut = [c.halves(i.question) for i in items]
    assert sum(h is None for h in cut) == 0
    seconds = [h[1] for h in cut[:200]]
    same, _ = c.compare_completions(seconds, seconds)
    assert (same["levenshtein"] > 0.9).sum() == 200


def test_a_model_is_asked_with_the_first_half_alone():
    questions = [
        "Which of the following would you assess first today?",
        "Why now?",
        "What should the counselor do next with the family?",
        "How would you describe his affect in the session?",
    ]
    items = [
        Item(item_id=f"q{i}", study="any", task="open", question=q, key=["-"], source="test")
        for i, q in enumerate(questions)
    ]

    def reply(body):
        text = body["messages"][-1]["content"]
        return (
            "would you assess first today?"
            if "Which of the" in text
            else (
                refuse()
                if "What should" in text
                else {"message": {"content": "describe his affect in"}, "finish_reason": "length"}
            )
        )

    with answering(reply) as (here, seen):
        wrote, answers = c.complete(
            items, Model(name="m", endpoint="here", served="m"), here, cache=None, progress=False
        )
    assert len(seen) == len(answers) == 3
    for q, body in zip(
        (questions[0], questions[2], questions[3]),
        sorted(
            seen,
            key=lambda b: [
                i for i, q in enumerate(questions) if (h := c.halves(q)) and h[0] in b["messages"][-1]["content"]
            ],
        ),
    ):
        first, second = c.halves(q)
        assert first in body["messages"][-1]["content"] and second not in body["messages"][-1]["content"]
        assert body["temperature"] == 0
    assert wrote[1] is None and wrote[2] is None
    assert wrote[0] == "would you assess first today?" and wrote[3] == "describe his affect in"  # cut off, but written
    assert sorted(a.status for a in answers) == ["error", "ok", "truncated"]
    counts = c.compare_completions([h and h[1] for h in map(c.halves, questions)], wrote)[1]
    assert counts == {"compared": 2, "too short": 1, "no completion": 1}


def test_a_completion_that_is_given_twice_is_refused_and_an_unread_answer_flags_nothing(tmp_path):
    import pandas as pd

    from mhbench.steps.contamination import book_flags, check_recorded

    (tmp_path / "c.csv").write_text("item_id,text\nq1,one half\nq1,another half\n", encoding="utf-8")
    with pytest.raises(ValueError, match="have one completion; got another one of 'q1' .c.csv:3"):
        check_recorded([], "m", tmp_path / "c.csv")
    rows = [("q1", "a", 1, 1), ("q1", "b", None, None), ("q2", "a", 1, 1), ("q2", "b", 1, None), ("q3", "a", 0, 0)]
    flags = book_flags(pd.DataFrame(rows, columns=["item_id", "examinee", "closed", "opened"]))
    assert dict(zip(flags["item_id"], flags["flag"])) == {
        "q2": "everybody answers it without its text",
        "q3": "nobody answers it with its text",
    }


def test_tokens_that_a_reply_does_not_count_are_unknown_and_not_0():
    told = Answer("a", text="x", prompt_tokens=5, completion_tokens=2, cost_usd=0.1)
    untold = Answer("b", text="x", cost_usd=None)
    failed = Answer("c", status="error", cost_usd=None)
    spent = c._statuses_and_spending
    assert (spent([told, failed])["prompt_tokens"], spent([told])["cost_usd"]) == (5, 0.1)
    assert all(np.isnan(spent([told, untold])[k]) for k in ("prompt_tokens", "completion_tokens", "cost_usd"))
