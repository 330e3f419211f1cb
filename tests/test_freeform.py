"""BERTScore against the bert-score package with the same network, baselines, inconsistency."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
bert_score = pytest.importorskip("bert_score")

from mhbench.encode import bertscore as freeform
from mhbench.encode import embeddings as encode

ANSWERS = [
    "Start an SSRI.",
    "Begin treatment with sertraline, and see him in two weeks.",
    "Start an SSRI.",
    "He should go to the emergency room at once.",
    "Nein, er braucht zuerst ein Gespr\u00e4ch.",
    "\u60a3\u8005\u306f\u5165\u9662\u304c\u5fc5\u8981\u3067\u3059\u3002",
    "  Start an SSRI.  ",
    "?",
    "word " * 600,
]
REFERENCES = [
    "Start an SSRI.",
    "Start an SSRI.",
    "Send him to the emergency room.",
    "Send him to the emergency room.",
    "First talk with him.",
    "Admit the patient.",
    "Start an SSRI.",
    "Start an SSRI.",
    "Send him to the emergency room.",
]


@pytest.fixture(scope="module")
def minilm():
    return encode.load_encoder()


@pytest.mark.parametrize("layer", [6, 4])
def test_equal_to_the_package_with_the_same_network(layer):
    scorer = bert_score.BERTScorer(model_type=str(encode.bundled_encoder()), num_layers=layer)
    encoder = encode.load_encoder(layer=layer)
    for size in (64, 4):
        want = [x.numpy() for x in scorer.score(ANSWERS, REFERENCES, batch_size=size)]
        for a, b in zip(freeform.bertscore(ANSWERS, REFERENCES, encoder=encoder, batch_size=size), want):
            np.testing.assert_allclose(a, b, atol=1e-5)
    alone = np.array([[float(x[0]) for x in scorer.score([c], [r])] for c, r in zip(ANSWERS, REFERENCES)]).T
    for a, b in zip(freeform.bertscore(ANSWERS, REFERENCES, encoder=encoder, batch_size=None), alone):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_equal_to_the_package_on_unrelated_word_salads():
    "Where cosines are negative, the package's padding shows."
    rng = np.random.default_rng(0)
    words = (
        "panic talk weeks start lithium because disorder of room sleep two dose anxiety major with follow up admit stop"
        " therapy".split()
    )
    some = [" ".join(rng.choice(words, rng.integers(1, 12))) for _ in range(300)]
    scorer = bert_score.BERTScorer(model_type=str(encode.bundled_encoder()), num_layers=6)
    want = [x.numpy() for x in scorer.score(some[:150], some[150:])]
    for a, b in zip(freeform.bertscore(some[:150], some[150:]), want):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_the_package_as_a_scorer_and_an_empty_answer(minilm):
    package = freeform.package_scorer(encode.bundled_encoder(), layer=6)
    answers, references = [*ANSWERS, "", " ", "He drinks."], [*REFERENCES, "He drinks.", "", "\n"]
    found, ours = package(answers, references), freeform.bertscore(answers, references, encoder=minilm)
    for a, b in zip(found, ours):
        np.testing.assert_allclose(a, b, atol=1e-5)
    assert (ours.f1[-3:] == 0).all() and (np.array(found)[:, -3:] == 0).all()
    assert package([], []).f1.shape == freeform.bertscore([], [], encoder=minilm).f1.shape == (0,)


def test_a_tokenizer_that_declares_no_length_is_capped(tmp_path):
    """Papers' setting in small: a DeBERTa whose tokenizer declares no length, a hidden layer, a text longer than the
    cap.
    """
    tokenizer = transformers.AutoTokenizer.from_pretrained(encode.bundled_encoder())
    tokenizer.model_max_length = int(1e30)
    torch.manual_seed(0)
    config = transformers.DebertaConfig(
        vocab_size=30522,
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=512,
        relative_attention=True,
        pos_att_type=["c2p", "p2c"],
        type_vocab_size=0,
        initializer_range=0.2,
        pad_token_id=0,
    )
    transformers.DebertaModel(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    package = freeform.package_scorer(tmp_path, layer=2)
    found = package(ANSWERS, REFERENCES)
    assert np.isfinite(found.f1).all()
    ours = freeform.bertscore(ANSWERS, REFERENCES, encoder=encode.load_encoder(tmp_path, layer=2, pooling="mean"))
    for a, b in zip(found, ours):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_each_distinct_sentence_is_embedded_once(minilm):
    class Counting:
        seen: list = []

        def tokens(self, texts, special):
            self.seen += texts
            return minilm.tokens(texts, special=special)

        def sentences(self, texts):
            raise AssertionError("not needed")

    e = Counting()
    found = freeform.bertscore(ANSWERS * 10, REFERENCES * 10, encoder=e, block=7)
    assert len(e.seen) == len(set(e.seen)) == len({t.strip() for t in ANSWERS + REFERENCES})
    assert (found.f1.reshape(10, -1) == found.f1[: len(ANSWERS)]).all()  # an encoder that tells no lengths pads nothing


def test_the_same_bits_again_and_order_does_not_matter(minilm):
    a, b = (freeform.bertscore(ANSWERS, REFERENCES, encoder=minilm) for _ in range(2))
    assert all(x.tobytes() == y.tobytes() for x, y in zip(a, b))  # within one batch of pairs
    back = freeform.bertscore(ANSWERS[::-1], REFERENCES[::-1], encoder=minilm)
    np.testing.assert_allclose(back.f1[::-1], a.f1, atol=1e-6)


def test_equal_sentences_score_exactly_one_and_negative_scores_stay(minilm):
    "Each token of a sentence finds itself, so 1 - F is 0 and not -3e-8; what is below 0 in earnest is not cut off."
    package = freeform.package_scorer(encode.bundled_encoder(), layer=6)
    for scorer in (minilm, package):
        assert freeform.inconsistency(REFERENCES, REFERENCES, scorer=scorer).tolist() == [0.0] * len(REFERENCES)
        assert freeform.inconsistency([f" {r}\n" for r in REFERENCES], REFERENCES, scorer=scorer).max() == 0
        assert freeform.inconsistency(ANSWERS, REFERENCES, scorer=scorer).min() >= 0
    assert freeform.inconsistency(["\u200b"], ["\u200b"], scorer=minilm).tolist() == [1.0]  # equal, and without a token
    assert freeform.inconsistency(["\u200b"], ["\u200b"], scorer=package).tolist() == [1.0]
    away = np.array([[1.0, 0], [1, 0], [1, 0]], np.float32)
    assert freeform.greedy_match(away, -away) == (-1, -1, -1)
    long = np.array([[1.0, 1e-3]] * 3, np.float32)  # a cosine of 1.000001 by vectors that are a little too long
    assert freeform.greedy_match(long, np.array([[1.0, 0]] * 3, np.float32) * np.float32(1.0000002)) == (1, 1, 1)
    raw = freeform.bertscore(["Start an SSRI.", "He drinks."], ["Start an SSRI."] * 2, encoder=minilm)
    rescaled = freeform.rescale(raw, (0.5, 0.5, 0.5), floor=None).f1
    assert rescaled[0] == 1 and rescaled[1] < 0
    below = lambda c, r: freeform.BERTScore(*[np.array([-0.2, 1.25])] * 3)  # another scorer's scale
    assert freeform.inconsistency(["a", "b"], ["c", "d"], scorer=below) == pytest.approx([1.2, -0.25])


def test_against_loops_over_tokens():
    rng = np.random.default_rng(0)
    for t, u in ((3, 3), (5, 4), (3, 9)):
        c, r = (
            x / np.linalg.norm(x, axis=1, keepdims=True) for x in (rng.normal(size=(t, 6)), rng.normal(size=(u, 6)))
        )
        p = np.mean([max(c[i] @ r[j] for j in range(u)) for i in range(1, t - 1)])
        q = np.mean([max(c[i] @ r[j] for i in range(t)) for j in range(1, u - 1)])
        assert freeform.greedy_match(c, r) == pytest.approx((p, q, 2 * p * q / (p + q)))


def test_rescaling_equals_the_package(tmp_path):
    baseline = tmp_path / "baseline.csv"
    baseline.write_text("LAYER,P,R,F\n" + "".join(f"{i},0.1{i},0.2{i},0.15{i}\n" for i in range(7)))
    scorer = bert_score.BERTScorer(
        model_type=str(encode.bundled_encoder()),
        num_layers=6,
        rescale_with_baseline=True,
        lang="en",
        baseline_path=str(baseline),
    )
    want = [x.numpy() for x in scorer.score(ANSWERS, REFERENCES)]
    raw = freeform.bertscore(ANSWERS, REFERENCES)
    for a, b in zip(freeform.rescale(raw, (0.16, 0.26, 0.156), floor=None), want):
        np.testing.assert_allclose(a, b, atol=1e-5)
    assert (
        freeform.rescale(raw, (0.16, 0.26, 0.156)).f1
        == np.maximum(freeform.rescale(raw, (0.16, 0.26, 0.156), floor=None).f1, 0)
    ).all()


def test_the_published_baseline_is_the_packages_own():
    from pathlib import Path

    import pandas as pd

    table = pd.read_csv(Path(bert_score.__file__).parent / "rescale_baseline/en/microsoft/deberta-xlarge-mnli.tsv")
    assert freeform.published_baseline("microsoft/deberta-xlarge-mnli", 40) == tuple(table.set_index("LAYER").loc[40])


def test_an_estimated_baseline_is_seeded_and_pairs_no_text_with_itself():
    equal = lambda c, r: freeform.BERTScore(*[np.array([float(a == b) for a, b in zip(c, r)])] * 3)
    assert freeform.unrelated_baseline(["a", "b", "a", "c"], scorer=equal, n_pairs=500) == (0, 0, 0)
    texts = [str(i) for i in range(50)]
    length = lambda c, r: freeform.BERTScore(*[np.array([int(a) / 100 for a in c])] * 3)
    assert (
        freeform.unrelated_baseline(texts, scorer=length, seed=1)
        == freeform.unrelated_baseline(texts, scorer=length, seed=1)
        != freeform.unrelated_baseline(texts, scorer=length, seed=2)
    )
    with pytest.raises(ValueError, match="two different ones at least; got 1"):
        freeform.unrelated_baseline(["a", "a"])


def test_inconsistency_takes_samples_or_single_answers(minilm):
    nested = freeform.inconsistency(
        [ANSWERS[:3], ANSWERS[3:6]], ["Start an SSRI.", "Send him to the emergency room."], scorer=minilm
    )
    flat = freeform.inconsistency(
        ANSWERS[:6], ["Start an SSRI."] * 3 + ["Send him to the emergency room."] * 3, scorer=minilm
    )
    assert nested.shape == (2, 3)
    np.testing.assert_array_equal(nested.ravel(), flat)
    np.testing.assert_allclose(
        flat,
        1
        - freeform.bertscore(
            ANSWERS[:6], ["Start an SSRI."] * 3 + ["Send him to the emergency room."] * 3, encoder=minilm
        ).f1,
    )
    assert nested[0, 0] == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(
    ("responses", "references", "rule"),
    [
        ([["a", "b"], ["c"]], ["x", "y"], "same number of samples a question; got 1 and 2 \\(position 1\\)"),
        (["a"], ["x", "y"], "one a question; got 2 for 1 questions"),
        (["a", float("nan")], ["x", "y"], "candidates must hold strings; got nan \\(position 1\\)"),
        (["a"], [None], "references must hold strings; got None \\(position 0\\)"),
    ],
)
def test_what_does_not_pair_is_refused(minilm, responses, references, rule):
    with pytest.raises(ValueError, match=rule):
        freeform.inconsistency(responses, references, scorer=minilm)
