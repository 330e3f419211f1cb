"""Distances against the textbook table, completions and Min-K% against loops."""

import math

import numpy as np
import pytest
from answering import answering, refuse
from faults.server import FaultServer, completion
from hypothesis import given, settings
from hypothesis import strategies as st

from mhbench.ask.request import Endpoint, Model
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
    got = c.compare_completions(seconds, wrote, encoder=OneHot(), others=4)
    for i, row in got.table.iterrows():
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
    assert got.flagged["embedding > 0.9"] == sum(a == b for a, b in zip(seconds, wrote))


def test_what_is_written_beyond_the_question_does_not_count():
    got = c.compare_completions(["one two three"], ["one two three Answer: B because " + "x " * 50])
    assert got.table.loc[0, "levenshtein"] == 1


def test_missing_completions_are_counted_and_not_scored():
    got = c.compare_completions(["a b", None, "c d", "e f"], ["a b", "x", None, "  "], others=3)
    assert got.n == 1 and got.skipped == {"too short": 1, "no completion": 2}
    assert got.table["levenshtein"].isna().tolist() == [False, True, True, True]
    assert got.table.loc[0, "levenshtein_other"] < 1  # compared with the halves whose completion is missing


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.floats(-20, 0), max_size=30), max_size=5), st.floats(0.01, 1))
def test_min_k_by_sorting(texts, k):
    for got, x in zip(c.min_k(texts, k), texts):
        if not x:
            assert math.isnan(got)
        else:
            assert got == pytest.approx(np.mean(sorted(x)[: max(1, math.floor(k * len(x)))]))


def test_real_halves(datasets):
    from mhbench.studies.mhqa.load import load_mhqa

    items = load_mhqa(datasets / "mhqa" / "mhqa.csv", key="number").records
    cut = [c.halves(i.question) for i in items]
    assert sum(h is None for h in cut) == 0
    seconds = [h[1] for h in cut[:200]]
    same = c.compare_completions(seconds, seconds)
    assert same.flagged == {"levenshtein > 0.8": 200, "levenshtein > 0.9": 200}


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
        got = c.complete(items, Model(name="m", endpoint="here", served="m"), here, cache=None, progress=False)
    assert len(seen) == len(got.answers) == 3
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
    assert got.seconds[1] is None and got.completions[1] is None and got.completions[2] is None
    assert (
        got.completions[0] == "would you assess first today?" and got.completions[3] == "describe his affect in"
    )  # cut off, but written
    assert got.statuses == {"ok": 1, "error": 1, "truncated": 1}
    assert c.compare_completions(got.seconds, got.completions).skipped == {"too short": 1, "no completion": 1}


# -- the log-probabilities behind Min-K%

TEXTS = [
    "Which presenting problem would you assess first?",
    "",
    "He drinks every evening.",
    " ".join(["sleep", "mood", "risk", "family", "he", "drinks"] * 15),
    "He drinks every evening.",
]


def test_a_local_model_equals_plain_transformers(tiny):
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    from mhbench.encode.perplexity import load_lm

    lm = load_lm(tiny["lm"], budget=64)
    tokenizer, model = (
        transformers.AutoTokenizer.from_pretrained(tiny["lm"]),
        transformers.AutoModelForCausalLM.from_pretrained(tiny["lm"]).eval(),
    )
    got = c.local_logprobs(TEXTS, lm)
    assert got.answers == [] and got.reason == ""
    for text, found in zip(TEXTS, got.logprobs):
        ids = [tokenizer.bos_token_id, *tokenizer(text, add_special_tokens=False)["input_ids"]]
        assert len(found) == len(ids) - 1
        want, half = [], lm.window // 2
        for i in range(1, len(ids)):  # one token at a time, each with what its window holds before it
            begin = 0 if i < lm.window else (i // half - 1) * half
            with torch.no_grad():
                logits = model(torch.tensor([ids[begin:i]])).logits[0, -1]
            want.append(float(torch.log_softmax(logits, -1)[ids[i]]))
        assert found == pytest.approx(want, abs=1e-4)
    assert got.logprobs[2] == got.logprobs[4]
    np.testing.assert_allclose(
        np.exp(-c.min_k(got.logprobs, 1)), lm.perplexity(TEXTS)[0], rtol=1e-5
    )  # the mean over all tokens is the perplexity's


def listed(body):
    "A reply as vLLM's completions give it: the prompt's words, the first without a log-probability, and one more."
    words = body["prompt"].split()
    return 200, {
        "choices": [
            {
                "text": body["prompt"] + ".",
                "finish_reason": "length",
                "logprobs": {
                    "tokens": [*words, "."],
                    "token_logprobs": [None, *(-0.5 * len(w) for w in words[1:]), -0.1],
                },
            }
        ],
        "usage": {"prompt_tokens": len(words), "completion_tokens": 1},
    }


def here(server, how="echo"):
    return Endpoint(name="here", base_urls=[server.url], prompt_logprobs=how, pause_s=0.02)


def test_an_endpoint_that_echoes(tmp_path):
    texts = [
        "Which presenting problem would you assess first?",
        "Why now?",
        "Which presenting problem would you assess first?",
    ]
    with FaultServer(every=lambda n, body: listed) as s:
        for _ in range(2):
            got = c.ask_logprobs(
                texts,
                Model(name="m", endpoint="here", served="m"),
                here(s),
                cache=tmp_path / "c.sqlite",
                progress=False,
            )
        assert sorted(b["prompt"] for b in s.asked) == sorted(set(texts))  # each text once, and none the second time
    assert got.logprobs == [[-5.0, -3.5, -2.5, -1.5, -3.0, -3.0], [-2.0], [-5.0, -3.5, -2.5, -1.5, -3.0, -3.0]]
    assert got.statuses == {"ok": 3} and got.reason == ""
    assert c.min_k(got.logprobs, 0.34) == pytest.approx([-4.25, -2.0, -4.25])


def test_without_log_probabilities_there_is_a_reason_and_no_number():
    model = Model(name="m", endpoint="here", served="m")
    with FaultServer() as s:
        got = c.ask_logprobs(["a b", "c d"], model, here(s, "none"), cache=None, progress=False)
        assert s.asked == [] and got.logprobs == [None, None] and "gives no log-probabilities" in got.reason
        got = c.ask_logprobs(["a b", "c d"], model, here(s), cache=None, progress=False)  # answers, and overlooks echo
        assert (
            got.logprobs == [None, None]
            and got.statuses == {"error": 2}
            and "no log-probabilities of the prompt's tokens" in got.reason
        )
    with FaultServer(every=lambda n, body: "400") as s:
        got = c.ask_logprobs(["a b", "c d"], model, here(s), cache=None, progress=False)
        assert got.logprobs == [None, None] and "told to answer 400" in got.reason
    with FaultServer(
        every=lambda n, body: "400" if body["prompt"] == "a b" else listed
    ) as s:  # one text alone fails: the others have theirs
        got = c.ask_logprobs(["a b", "c d"], model, here(s), cache=None, progress=False)
        assert got.logprobs == [None, [-0.5]] and got.statuses == {"error": 1, "ok": 1} and got.reason == ""


@pytest.mark.parametrize("case", ["echo", "refuse", "local"])
def test_the_stage_has_min_k_or_a_reason(case, tiny, root, tmp_path, monkeypatch):
    import pandas as pd

    from mhbench.run.execute import run_stage

    monkeypatch.chdir(root)
    folder = {"results": str(tmp_path)}
    run_stage(
        "prepare",
        "counselingbench",
        overrides={"results": str(tmp_path), "path": "mhbench/studies/counselingbench/demo"},
    )

    def reply(n, body):
        if "messages" in body:
            return lambda b: (200, completion(b, "do next with the family?"))
        return listed if case == "echo" else "400"

    with FaultServer(every=reply) as s:
        run_stage(
            "contamination",
            "counselingbench",
            overrides=folder
            | {
                "asked": ["m"],
                "completions": {},
                "n_items": 8,  # below six there is no interval
                "encoder": None,
                "max_failed": None if case == "refuse" else 0,  # a refusal would end the stage
                "cache": str(tmp_path / "c.sqlite"),
                "min_k": {"share": 0.2, "lm": {"m": tiny["lm"]} if case == "local" else None},
                "entries": {"m": {"endpoint": "here", "served": "m"}},
                "endpoints": {
                    "here": {
                        "kind": "openai",
                        "base_urls": [s.url],
                        "prompt_logprobs": "none" if case == "local" else "echo",
                    }
                },
            },
        )
    out = tmp_path / "contamination" / "counselingbench"
    each = pd.read_parquet(out / "completions.parquet")
    if case == "refuse":
        assert not (out / "min_k.parquet").exists() and each["min_k"].isna().all() and (each["n_tokens"] == 0).all()
        assert "told to answer 400" in (out / "contents.json").read_text()
        return
    surprise = pd.read_parquet(out / "min_k.parquet")
    assert surprise["tokens"].tolist() == ["least likely 20%", "all tokens"]
    assert surprise["n"].tolist() == [8, 8] and (surprise["absent"] == "").all()
    assert surprise["estimate"].tolist() == pytest.approx([each["min_k"].mean(), each["mean_logprob"].mean()])
    assert (
        (surprise["ci_low"] < surprise["estimate"]).all()
        and surprise["estimate"].is_monotonic_increasing
        and (surprise["estimate"] < 0).all()
    )
    assert surprise["from"].unique().tolist() == ["endpoint" if case == "echo" else f"local model {tiny['lm']}"]
