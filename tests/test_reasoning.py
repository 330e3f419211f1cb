"""Steps, the ROSCOE suite against a literal reading of the published scorer, ROUGE and whole chains."""

from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest

torch = pytest.importorskip("torch")

import literal_roscoe as literal  # noqa: E402

from mhbench.encode import embeddings as encode
from mhbench.encode import roscoe

pytestmark = pytest.mark.skipif(
    find_spec("sentence_transformers") is None, reason="sentence_transformers is not installed"
)
CONTEXT = [
    "The client is a man of 65 who lives with his wife.",
    "He has felt low for several years.",
    "He sleeps badly and eats little.",
    "He drinks every evening.",
    "No one wants him around, he says.",
    "He will retire within the year.",
]
CHAINS = [
    [
        "He feels low and hopeless.",
        "He drinks every evening, which raises the risk.",
        "So suicidal ideation is asked about first.",
    ],
    ["The answer is D."],
    [
        "Ask about pain.",
        "Ask about the pain he has.",
        "Ask about pain.",
        "His wife should be called, since she knows him best and can say how he has been over the years.",
    ],
    [
        "Er f\u00fchlt sich seit Jahren niedergeschlagen.",
        "\u60a3\u8005\u306f\u6bce\u665a\u98f2\u9152\u3059\u308b\u3002",
        "\u041e\u043d \u043f\u043b\u043e\u0445\u043e \u0441\u043f\u0438\u0442.",
    ],
    ["...", "He drinks.", "---"],
    ["word " * 2000, "He drinks."],
    ["", "He drinks every evening."],
]
REFERENCES = [["Hopelessness and alcohol are risk factors.", "Suicidal ideation is discussed first."]] * len(CHAINS)


@pytest.fixture(scope="module")
def minilm():
    return encode.load_encoder()


@pytest.fixture(scope="module")
def published():
    from sentence_transformers import SentenceTransformer
    from transformers import AutoModel, AutoTokenizer

    folder = str(encode.bundled_encoder())
    return literal.Embedder(
        SentenceTransformer(folder, device="cpu"),
        AutoTokenizer.from_pretrained(folder),
        AutoModel.from_pretrained(folder).eval(),
    )


@pytest.fixture(scope="module")
def table(minilm):
    return roscoe.roscoe(CHAINS, [CONTEXT] * len(CHAINS), REFERENCES, encoder=minilm)


@pytest.mark.parametrize("i", range(len(CHAINS)))
def test_the_thirteen_embedding_scores_equal_the_published_ones(i, table, published):
    want = literal.embedding_scores(CHAINS[i], CONTEXT, REFERENCES[i], published)
    assert len(want) == 13
    for name, value in want.items():
        assert table.loc[i, name] == pytest.approx(value, abs=1e-5), name


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    "Tiny random models for inference, language and grammar, saved to disk."
    import transformers

    root = tmp_path_factory.mktemp("models")
    tokenizer = transformers.AutoTokenizer.from_pretrained(encode.bundled_encoder())
    tokenizer.bos_token = "[CLS]"
    torch.manual_seed(1)
    bert = dict(
        vocab_size=30522,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=512,
        initializer_range=0.3,
    )
    models = {
        "nli": transformers.BertForSequenceClassification(transformers.BertConfig(**bert, num_labels=3)),
        "grammar": transformers.BertForSequenceClassification(transformers.BertConfig(**bert, num_labels=2)),
        "lm": transformers.GPT2LMHeadModel(
            transformers.GPT2Config(
                vocab_size=30522,
                n_embd=32,
                n_layer=2,
                n_head=2,
                n_positions=64,
                initializer_range=0.3,
                bos_token_id=101,
                eos_token_id=102,
            )
        ),
    }
    for name, model in models.items():
        model.save_pretrained(root / name)
        tokenizer.save_pretrained(root / name)
    return {name: str(root / name) for name in models}


def test_the_other_seven_scores_equal_the_published_ones(tiny):
    import transformers

    rows = [0, 1, 2, 3, 4, 5]
    chains = [CHAINS[i] for i in rows]
    table = roscoe.roscoe(
        chains, [CONTEXT] * len(rows), encoder=None, nli=tiny["nli"], lm=tiny["lm"], grammar=tiny["grammar"]
    )
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny["lm"])
    nli, grammar = (
        transformers.AutoModelForSequenceClassification.from_pretrained(tiny[k]).eval() for k in ("nli", "grammar")
    )
    lm = transformers.AutoModelForCausalLM.from_pretrained(tiny["lm"]).eval()
    assert list(table.columns) == list(roscoe.LOGICAL_INFERENCE + roscoe.LANGUAGE_COHERENCE)
    for i, h in enumerate(chains):
        want = (
            literal.inference_scores(h, CONTEXT, tokenizer, nli)
            | literal.language_scores(h, tokenizer, lm, 64)
            | literal.grammar_scores(h, tokenizer, grammar)
        )
        for name, value in want.items():
            assert table.loc[i, name] == pytest.approx(value, abs=1e-5), (i, name)


def test_every_score_of_the_suite_in_one_table(minilm, tiny):
    table = roscoe.roscoe(CHAINS, [CONTEXT] * len(CHAINS), REFERENCES, encoder=minilm, **tiny)
    assert list(table.columns) == list(roscoe.SCORES) and len(roscoe.SCORES) == 20
    assert table.attrs["absent"] == {}
    assert table.notna().all().all()
    assert ((table >= -1e-6) & (table <= 1 + 1e-6)).all().all()


def test_what_cannot_be_had_is_absent_with_the_reason(minilm):
    table = roscoe.roscoe(CHAINS[:2], [CONTEXT] * 2, encoder=minilm)
    absent = table.attrs["absent"]
    assert set(absent) | set(table.columns) == set(roscoe.SCORES) and not set(absent) & set(table.columns)
    assert absent["grammar_step"] == "grammar was not given, and this score needs it"
    assert absent["missing_step"] == "references were not given, and this score needs them"


@pytest.mark.parametrize("convention", roscoe.CONVENTIONS)
def test_chains_at_the_edges(minilm, tiny, convention):
    chains = [[], ["He drinks."], ["...", "?!"], ["x" * 10_000, "word " * 2000], ["", ""], ["He drinks.", "He drinks."]]
    table = roscoe.roscoe(chains, [CONTEXT] * 6, [["He drinks."]] * 6, encoder=minilm, convention=convention, **tiny)
    assert table.loc[0].isna().all()  # an empty chain has no score
    one = table.loc[1]
    assert one["repetition_step"] == one["repetition_word"] == 1.0
    assert one.notna().all()
    assert convention == "official" or one["coherence_step_vs_step"] == 1.0
    assert table.loc[2].notna().all() and table.loc[3].notna().all()
    empty = table.loc[4]
    assert empty[list(roscoe.LANGUAGE_COHERENCE[1:3])].isna().all()  # no token, no perplexity of steps
    assert empty["repetition_word"] == 1.0
    same = {"official": 0.0, "paper": 0.0, "counselingbench": 0.5}[convention]
    assert table.loc[5, "repetition_step"] == pytest.approx(same, abs=1e-6)
    assert table.loc[5, "repetition_word"] == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("convention", ["official", "paper"])
def test_an_empty_context_or_reference(minilm, convention):
    table = roscoe.roscoe(
        [["He drinks."], ["He drinks."]], [[], CONTEXT], [["He drinks."], []], encoder=minilm, convention=convention
    )
    # the published code takes the mean of no alignment to be 0, and stops at the largest of none; in the paper neither
    # is defined
    for i, name in ((0, "faithfulness"), (0, "informativeness_step"), (1, "reasoning_alignment")):
        assert table.loc[i, name] == 0 if convention == "official" else np.isnan(table.loc[i, name])
    for i, name in (
        (0, "external_hallucination"),
        (0, "common_sense_error"),
        (1, "external_hallucination"),
        (1, "redundancy"),
        (1, "missing_step"),
        (1, "common_sense_error"),
    ):
        assert np.isnan(table.loc[i, name]), name


def test_no_chains(minilm):
    table = roscoe.roscoe([], [], [], encoder=minilm)
    assert table.shape == (0, 13)


def test_paper_convention_on_vectors_of_our_own():
    "Every alignment score against a loop over the formulas, on an encoder whose vectors are random."

    class Random:
        def vector(self, text, k):
            v = (
                np.random.default_rng([len(text), sum(map(ord, text)), k])
                .normal(size=(max(1, len(text.split())) if k else 1, 5))
                .astype(np.float32)
            )
            return v

        def sentences(self, texts):
            return np.array([v / np.linalg.norm(v) for v in (self.vector(t, 0)[0] for t in texts)], np.float32).reshape(
                len(texts), 5
            )

        def tokens(self, texts):
            return [self.vector(t, 1) for t in texts]

    e, h, s, r = Random(), CHAINS[2], CONTEXT, REFERENCES[0]
    found = roscoe.roscoe([h], [s], [r], encoder=e, convention="paper").loc[0]
    cos = lambda u, v: float(np.dot(u, v) / np.linalg.norm(u) / np.linalg.norm(v))
    vec = {t: e.sentences([t])[0] for t in [*h, *s, *r, ". ".join(h), ". ".join(s), ". ".join(r)]}
    tok = {t: e.tokens([t])[0] for t in [*h, *s]}
    al = lambda u, chain: (1 + max(cos(u, v) for v in chain)) / 2
    H, S, R = ([vec[t] for t in c] for c in (h, s, r))
    all_s = [w for t in s for w in tok[t]]
    want = {
        "faithfulness": np.mean([al(x, S) for x in H]),
        "redundancy": min(al(x, R) for x in H),
        "missing_step": min(al(x, H) for x in R),
        "faithfulness_ww": (
            sum([al(x, S) for x in H] + [al(w, all_s) for t in h for w in tok[t]])
            / (len(h) + sum(len(tok[t]) for t in h))
        ),
        "repetition_word": (
            1 - max(np.mean([al(w, tok[h[j]]) for w in tok[h[i]]]) for i in range(len(h)) for j in range(i))
        ),
        "informativeness_step": (np.mean([al(x, H) for x in S]) + np.mean([al(x, S) for x in H])) / 2,
        "reasoning_alignment": np.mean([al(x, R) for x in H]),
        "external_hallucination": 1 - max((1 - al(x, S)) * (1 - al(x, R)) for x in H),
        "common_sense_error": 1 - max((1 - al(x, H)) * (1 - al(x, S)) for x in R),
        "semantic_coverage_step": 1 - abs(np.mean([al(x, S) for x in R]) - np.mean([al(x, S) for x in H])),
        "informativeness_chain": (1 + cos(vec[". ".join(h)], vec[". ".join(s)])) / 2,
        "semantic_coverage_chain": (1 + cos(vec[". ".join(h)], vec[". ".join(r)])) / 2,
        "repetition_step": (1 - max(cos(H[i], H[j]) for i in range(len(H)) for j in range(i))) / 2,
    }
    assert set(want) == set(found.index)
    for name, value in want.items():
        assert found[name] == pytest.approx(value, abs=1e-5), name


def test_each_distinct_text_and_pair_is_computed_once(minilm):
    class Counting:
        def __init__(self):
            self.seen = []

        def sentences(self, texts):
            self.seen += texts
            return minilm.sentences(texts)

        def tokens(self, texts):
            return minilm.tokens(texts)

        def contradiction(self, pairs):
            self.seen += pairs
            return np.zeros(len(pairs))

        def perplexity(self, texts):
            self.seen += texts
            return np.full(len(texts), 2.0), np.full(len(texts), 3)

        def acceptability(self, texts):
            self.seen += texts
            return np.ones(len(texts))

    e, n, l, g = (Counting() for _ in range(4))
    chains, contexts = CHAINS[:4] * 5, [CONTEXT, CONTEXT[:3], CONTEXT, CONTEXT[2:]] * 5
    roscoe.roscoe(chains, contexts, [REFERENCES[0]] * 20, encoder=e, nli=n, lm=l, grammar=g)
    for model in (e, n, l, g):
        assert model.seen and len(model.seen) == len(set(model.seen))


@pytest.mark.parametrize("convention", ["official", "paper"])
def test_blocks_and_order_do_not_matter(minilm, convention):
    contexts = [CONTEXT[i % 3 :] for i in range(len(CHAINS))]
    whole = roscoe.roscoe(CHAINS, contexts, REFERENCES, encoder=minilm, convention=convention)
    again = roscoe.roscoe(CHAINS, contexts, REFERENCES, encoder=minilm, convention=convention)
    pd.testing.assert_frame_equal(whole, again, check_exact=True)
    pieces = roscoe.roscoe(CHAINS, contexts, REFERENCES, encoder=minilm, convention=convention, block=2)
    np.testing.assert_allclose(pieces, whole, atol=1e-5)
    back = roscoe.roscoe(CHAINS[::-1], contexts[::-1], REFERENCES[::-1], encoder=minilm, convention=convention)
    np.testing.assert_allclose(back.iloc[::-1], whole, atol=1e-5)


def test_the_four_places_where_code_and_paper_part(minilm, tiny):
    official, paper = (
        roscoe.roscoe(CHAINS, [CONTEXT] * len(CHAINS), REFERENCES, encoder=minilm, convention=c, **tiny)
        for c in ("official", "paper")
    )
    several = [i for i, c in enumerate(CHAINS) if len(c) > 1]
    for name in ("informativeness_chain", "semantic_coverage_chain"):
        np.testing.assert_allclose(official[name], (1 + paper[name]) / 2, atol=1e-6)
    np.testing.assert_allclose(
        official.loc[several, "repetition_step"], paper.loc[several, "repetition_step"] / 2, atol=1e-6
    )
    assert (official["coherence_step_vs_step"] <= paper["coherence_step_vs_step"] + 1e-6).all()
    alike = [
        "faithfulness",
        "informativeness_step",
        "reasoning_alignment",
        "external_hallucination",
        "redundancy",
        "common_sense_error",
        "missing_step",
        "semantic_coverage_step",
        "discourse_representation",
        "perplexity_chain",
        "perplexity_step_max",
        "grammar_step",
        "grammar_step_max",
    ]
    np.testing.assert_allclose(official[alike], paper[alike], atol=1e-6)


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("", []),
        (" \n\t ", []),
        ("...", []),
        ("- \n* \n---", []),
        ("He drinks. He sleeps badly.", ["He drinks.", "He sleeps badly."]),
        ("1. First.\n2. Second.", ["First.", "Second."]),
        ("(1) First\n(2) Second", ["First", "Second"]),
        ("Step 1: ask about risk.\nStep 2: call the family.", ["ask about risk.", "call the family."]),
        ("a) one\nb) two", ["one", "two"]),
        ("\u2022 one\n\u2022 two", ["one", "two"]),
        ("The answer is (D).", ["The answer is (D)."]),
        (
            "Dr. Lee saw Mr. J. Smith at 3.5 mg, i.e. a low dose.",
            ["Dr. Lee saw Mr. J. Smith at 3.5 mg, i.e. a low dose."],
        ),
        ('He said "I am low." Then he left.', ['He said "I am low."', "Then he left."]),
        ("Is he at risk? Yes! So ask...", ["Is he at risk?", "Yes!", "So ask..."]),
        (
            "\u60a3\u8005\u306f\u7720\u308c\u306a\u3044\u3002\u6bce\u665a\u98f2\u9152\u3059\u308b\u3002",
            ["\u60a3\u8005\u306f\u7720\u308c\u306a\u3044\u3002", "\u6bce\u665a\u98f2\u9152\u3059\u308b\u3002"],
        ),
        ("Er schl\u00e4ft schlecht. \u00c4ngste nehmen zu.", ["Er schl\u00e4ft schlecht.", "\u00c4ngste nehmen zu."]),
        ("one\r\ntwo\u2028three", ["one", "two", "three"]),
        ("**Bold** and `code`.", ["Bold and code."]),
    ],
)
def test_split_steps(text, steps):
    assert roscoe.split_steps(text) == steps


def test_splitting_loses_no_word_and_is_stable():
    text = "1. He drinks. He sleeps badly!\n- Dr. Lee asks why?\nTherefore, the answer is (D)."
    steps = roscoe.split_steps(text)
    assert " ".join(steps) == "He drinks. He sleeps badly! Dr. Lee asks why? Therefore, the answer is (D)."
    assert [t for s in steps for t in roscoe.split_steps(s)] == steps


def test_split_steps_on_real_rationales(datasets):
    path = datasets / "counselingbench" / "Mistral-7B-Instruct-v0.3_zero-shot_None_0.csv"
    if not path.is_file():
        pytest.skip(f"no {path.name} among the real corpora")
    texts = pd.read_csv(path)["Explanation for correct answer"].dropna()
    letters = lambda t: [c for c in t if c.isalpha()]
    for text in texts:
        steps = roscoe.split_steps(text)
        assert letters("".join(steps)) == letters(text)  # no word is lost but a bullet
        assert all(any(c.isalnum() for c in s) for s in steps)
    n = texts.map(lambda t: len(roscoe.split_steps(t)))
    assert n.median() in (4, 5) and (n > 0).all()


def test_rouge_equals_the_package():
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer(["rouge1", "rougeL"], use_stemmer=True)
    h, r = [" ".join(c) for c in CHAINS], [" ".join(c) for c in REFERENCES]
    found = roscoe.rouge(h, r)
    for i, (a, b) in enumerate(zip(h, r)):
        s = scorer.score(b, a)
        assert found.loc[i].tolist() == [s["rouge1"].fmeasure, s["rougeL"].fmeasure]


def test_chain_cosine_is_a_cosine(minilm):
    found = roscoe.chain_cosine(["He drinks.", "He drinks."], ["He drinks.", "The train was late."], encoder=minilm)
    assert found[0] == pytest.approx(1, abs=1e-6) and -1 <= found[1] < 0.5
    with pytest.raises(ValueError, match="as many as hypotheses; got 0 and 1"):
        roscoe.chain_cosine(["a"], [], encoder=minilm)
    with pytest.raises(ValueError, match="chain_cosine: hypotheses must be a list of strings"):
        roscoe.chain_cosine("a chain", "a chain", encoder=minilm)


def test_chains_that_are_not_lists_of_strings(minilm):
    for bad, rule in (
        ([None], "got None \\(chain 0\\)"),
        ([["a", 3]], "hypotheses\\[0\\] must hold strings; got 3"),
        ("ab", "must be a list of chains"),
    ):
        with pytest.raises(ValueError, match=rule):
            roscoe.roscoe(bad, [CONTEXT] * len(bad), encoder=minilm)
