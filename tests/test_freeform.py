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
    return freeform.load_scorer()


def by_package(candidates, references, layer=6, network=None):
    "One call of the package on a list of pairs."
    where = dict(model_type=str(network or encode.bundled_encoder()), num_layers=layer, batch_size=64, device="cpu")
    return [x.numpy() for x in bert_score.score(candidates, references, **where)]


def salads(n):
    rng = np.random.default_rng(0)
    words = (
        "panic talk weeks start lithium because disorder of room sleep two dose anxiety major with follow up admit stop"
        " therapy".split()
    )
    return [" ".join(rng.choice(words, rng.integers(1, 12))) for _ in range(n)]


@pytest.mark.parametrize("layer", [6, 4])
def test_equal_to_one_call_of_the_package(layer):
    "More pairs than a batch, one of them long, some without a cosine above 0, in the order given."
    some = salads(300)
    candidates, references = [*ANSWERS[:-1], "word " * 80, *some[:150]], [*REFERENCES, *some[150:]]
    found = freeform.load_scorer({"name": "minilm", "layer": layer})(candidates, references)
    for a, b in zip(found, by_package(candidates, references, layer)):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-6)


def test_an_empty_answer_is_not_in_the_call(minilm):
    answers, references = ["", *ANSWERS, " ", "He drinks."], ["He drinks.", *REFERENCES, "", "\n"]
    found = np.array(minilm(answers, references))
    assert (found[:, [0, -2, -1]] == 0).all()
    assert (found[:, 1:-2] == np.array(minilm(ANSWERS, REFERENCES))).all()
    assert minilm([], []).f1.shape == minilm([""], ["a"])[0][:0].shape == (0,)


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
    found = freeform.load_scorer(tmp_path, layer=2)(ANSWERS, REFERENCES)
    tokenizer.model_max_length = 512
    tokenizer.save_pretrained(tmp_path)
    for a, b in zip(found, by_package(ANSWERS, REFERENCES, 2, tmp_path)):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-6)


def test_a_call_is_kept_by_its_list_its_layer_and_the_packages_version(tmp_path, monkeypatch):
    from mhbench.encode.store import StoreSettings, keep_results

    calls, few = [], (ANSWERS[:4], REFERENCES[:4])
    inner = bert_score.BERTScorer.score
    count = lambda self, c, r, **how: calls.append(len(c)) or inner(self, c, r, **how)
    monkeypatch.setattr(bert_score.BERTScorer, "score", count)
    keep_results(StoreSettings(), tmp_path / "store.sqlite")
    first = np.array(freeform.load_scorer()(*few))
    assert (np.array(freeform.load_scorer()(*few)) == first).all() and calls == [4]
    freeform.load_scorer()(few[1], few[0])
    freeform.load_scorer(layer=5)(*few)
    monkeypatch.setattr(freeform, "version", lambda package: "another")
    freeform.load_scorer()(*few)
    assert calls == [4] * 4


def test_the_same_bits_again_and_order_hardly_matters(minilm):
    a, b = (minilm(ANSWERS, REFERENCES) for _ in range(2))
    assert all(x.tobytes() == y.tobytes() for x, y in zip(a, b))
    back = minilm(ANSWERS[::-1], REFERENCES[::-1])
    np.testing.assert_allclose(back.f1[::-1], a.f1, atol=2e-6)  # within one batch of pairs


def test_equal_sentences_score_exactly_one_and_negative_scores_stay(minilm):
    "1 - F is 0 and not -3e-8; what is below 0 in earnest is not cut off."
    assert freeform.inconsistency(REFERENCES, REFERENCES, scorer=minilm).tolist() == [0.0] * len(REFERENCES)
    assert freeform.inconsistency([f" {r}\n" for r in REFERENCES], REFERENCES, scorer=minilm).max() == 0
    assert freeform.inconsistency(ANSWERS, REFERENCES, scorer=minilm).min() >= 0
    assert freeform.inconsistency(["\u200b"], ["\u200b"], scorer=minilm).tolist() == [1.0]  # equal, and without a token
    raw = minilm(["Start an SSRI.", "He drinks."], ["Start an SSRI."] * 2)
    rescaled = freeform.rescale(raw, (0.5, 0.5, 0.5), floor=None).f1
    assert rescaled[0] == 1 and rescaled[1] < 0
    below = lambda c, r: freeform.BERTScore(*[np.array([-0.2, 1.25])] * 3)  # another scorer's scale
    assert freeform.inconsistency(["a", "b"], ["c", "d"], scorer=below) == pytest.approx([1.2, -0.25])


def test_rescaling_equals_the_package(tmp_path, minilm):
    baseline = tmp_path / "baseline.csv"
    baseline.write_text("LAYER,P,R,F\n" + "".join(f"{i},0.1{i},0.2{i},0.15{i}\n" for i in range(7)))
    scorer = bert_score.BERTScorer(
        model_type=str(encode.bundled_encoder()),
        num_layers=6,
        rescale_with_baseline=True,
        lang="en",
        baseline_path=str(baseline),
        device="cpu",
    )
    want = [x.numpy() for x in scorer.score(ANSWERS, REFERENCES)]
    raw = minilm(ANSWERS, REFERENCES)
    for a, b in zip(freeform.rescale(raw, (0.16, 0.26, 0.156), floor=None), want):
        np.testing.assert_allclose(a, b, atol=2e-6)
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


def test_inconsistency_is_what_bertscore_leaves(minilm):
    alike = ["Start an SSRI."] * 3 + ["Send him to the emergency room."] * 3
    found = freeform.inconsistency(ANSWERS[:6], alike, scorer=minilm)
    np.testing.assert_allclose(found, 1 - minilm(ANSWERS[:6], alike).f1)
    assert found[0] == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(
    ("responses", "references", "rule"),
    [
        (["a"], ["x", "y"], "one an answer; got 2 for 1"),
        (["a", float("nan")], ["x", "y"], "candidates must hold strings; got nan \\(position 1\\)"),
        (["a"], [None], "references must hold strings; got None \\(position 0\\)"),
    ],
)
def test_what_does_not_pair_is_refused(minilm, responses, references, rule):
    with pytest.raises(ValueError, match=rule):
        freeform.inconsistency(responses, references, scorer=minilm)
