"""Steps, the ROSCOE suite against a literal reading of the published scorer, ROUGE and whole chains."""

import numpy as np
import pandas as pd
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("sentence_transformers")

from mhbench import encode, reasoning  # noqa: E402

import literal_roscoe as literal  # noqa: E402

torch.set_num_threads(2)

CONTEXT = ["The client is a man of 65 who lives with his wife.", "He has felt low for several years.", "He sleeps badly and eats little.",
           "He drinks every evening.", "No one wants him around, he says.", "He will retire within the year."]
CHAINS = [
    ["He feels low and hopeless.", "He drinks every evening, which raises the risk.", "So suicidal ideation is asked about first."],
    ["The answer is D."],
    ["Ask about pain.", "Ask about the pain he has.", "Ask about pain.", "His wife should be called, since she knows him best and can say how he has been over the years."],
    ["Er f\u00fchlt sich seit Jahren niedergeschlagen.", "\u60a3\u8005\u306f\u6bce\u665a\u98f2\u9152\u3059\u308b\u3002", "\u041e\u043d \u043f\u043b\u043e\u0445\u043e \u0441\u043f\u0438\u0442."],
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
    return literal.Embedder(SentenceTransformer(folder, device="cpu"), AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval())


@pytest.fixture(scope="module")
def table(minilm):
    return reasoning.roscoe(CHAINS, [CONTEXT] * len(CHAINS), REFERENCES, encoder=minilm)


@pytest.mark.parametrize("i", range(len(CHAINS)))
def test_the_thirteen_embedding_scores_equal_the_published_ones(i, table, published):
    want = literal.embedding_scores(CHAINS[i], CONTEXT, REFERENCES[i], published)
    assert len(want) == 13
    for name, value in want.items():
        assert table.loc[i, name] == pytest.approx(value, abs=1e-5), name
