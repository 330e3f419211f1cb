"""Settings of local models, their bounds and usual values."""

import re
import threading
import time
from collections import Counter
from concurrent.futures import Future
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from pydantic import ValidationError

from mhbench.encode import bertscore, classifiers, finetune, loading, perplexity, roscoe
from mhbench.encode.embeddings import padded_rows
from mhbench.encode.finetune import TrainingSettings
from mhbench.encode.loading import Executor, map_batches, most_tokens
from mhbench.encode.store import StoreSettings


@pytest.mark.parametrize(
    ("settings", "least", "below"),
    [
        (Executor, {"workers": 1}, {"workers": 0}),
        (Executor, {"retries": 0}, {"retries": -1}),
        (StoreSettings, {"max_gb": 0.0}, {"max_gb": -0.1}),
        (TrainingSettings, {"learning_rate": 1e-9}, {"learning_rate": 0.0}),
        (TrainingSettings, {"batch_size": 1}, {"batch_size": 0}),
        (TrainingSettings, {"epochs": 0}, {"epochs": -1}),
        (TrainingSettings, {"max_length": 8}, {"max_length": 7}),
        (TrainingSettings, {"warmup": 0.0}, {"warmup": -0.1}),
        (TrainingSettings, {"warmup": 0.99}, {"warmup": 1.0}),
        (TrainingSettings, {"weight_decay": 0.0}, {"weight_decay": -0.1}),
        (TrainingSettings, {"patience": 1}, {"patience": 0}),
        (TrainingSettings, {"layers": 1}, {"layers": 0}),
    ],
)
def test_settings_have_bounds(settings, least, below):
    assert settings(**least)
    with pytest.raises(ValidationError):
        settings(**below)


def test_the_usual_settings():
    usual = {"kind": "threads", "workers": None, "address": None, "retries": 2, "precision": "float32"}
    assert Executor().model_dump() == usual
    assert StoreSettings().max_gb == 2.0
    assert TrainingSettings().model_dump() == {
        "learning_rate": 2e-5,
        "batch_size": 32,
        "epochs": 5,
        "max_length": 256,
        "warmup": 0.1,
        "weight_decay": 0.01,
        "patience": 2,
        "precision": "auto",
        "layers": None,
        "device": "auto",
    }


def test_a_history_has_training_and_validation_in_one_form():
    log = [{"epoch": 1.0, "step": 2, "loss": 0.5}, {"epoch": 1.0, "step": 2, "eval_loss": 0.4, "eval_accuracy": 0.25}]
    log.append({"epoch": 1.0, "step": 2, "train_runtime": 1.0})
    table = finetune._history_table(log)
    assert table["part"].tolist() == ["training", "validation"] and table["loss"].tolist() == [0.5, 0.4]
    assert np.isnan(table["accuracy"][0]) and table["accuracy"][1] == 0.25 and table["step"].tolist() == [2, 2]


def test_the_newest_whole_checkpoint_is_gone_on_with_and_broken_ones_go(tmp_path):
    assert finetune._last_checkpoint(tmp_path) is None
    for n, whole in ((9, True), (10, True), (11, False)):
        folder = tmp_path / "checkpoints" / f"checkpoint-{n}"
        folder.mkdir(parents=True)
        if whole:
            (folder / "trainer_state.json").touch()
    assert finetune._last_checkpoint(tmp_path) == str(tmp_path / "checkpoints" / "checkpoint-10")
    assert not (tmp_path / "checkpoints" / "checkpoint-11").exists()


@pytest.mark.parametrize(
    ("n", "windows"),
    [
        (1, [(0, 1, 1)]),
        (8, [(0, 8, 1)]),
        (9, [(0, 8, 1), (4, 9, 8)]),
        (12, [(0, 8, 1), (4, 12, 8)]),
        (14, [(0, 8, 1), (4, 12, 8), (8, 14, 12)]),
    ],
)
def test_windows_move_by_half_and_score_each_position_once(n, windows):
    assert perplexity._windows(n, 8) == windows


def test_texts_are_padded_to_fours_and_batched_by_width():
    assert loading.padded_widths([1, 4, 5, 0]).tolist() == [4, 4, 8, 0]
    assert loading.padded_widths([1, 5, 9], 6).tolist() == [4, 6, 6]
    batches = loading.length_batches([5, 3, 1, 4, 7, 2, 30], budget=8)
    assert [b.tolist() for b in batches] == [[1, 2], [3, 5], [0], [4], [6]]
    assert [b.tolist() for b in loading.length_batches([1, 1, 1], budget=12)] == [[0, 1, 2]]
    values, places = loading.distinct_values("banana")
    assert values == ["b", "a", "n"] and places.tolist() == [0, 1, 2, 1, 2, 1]
    with pytest.raises(ValueError, match="budget must be at least 1; got 0"):
        loading.length_batches([1], 0)


@pytest.mark.parametrize("workers", [1, 3])
def test_batches_come_back_in_order(workers):
    sizes = []
    double = lambda batch: [sizes.append(len(batch)) or 2 * x for x in batch]
    found = map_batches(double, [[0, 1, 2], [3, 4, 5], [6]], Executor(workers=workers))
    assert found == [[0, 2, 4], [6, 8, 10], [12]] and sorted(sizes) == [1, 3, 3, 3, 3, 3, 3]
    assert map_batches(double, [], Executor(workers=workers)) == []


def test_scores_are_set_beside_unrelated_pairs():
    scores = bertscore.BERTScore(*(np.array([0.5, 0.25, 1.0]),) * 3)
    found = bertscore.rescale(scores, (0.5, 0.0, 0.25))
    assert found.precision.tolist() == [0.0, 0.0, 1.0] and found.recall.tolist() == [0.5, 0.25, 1.0]
    assert found.f1.tolist() == [pytest.approx(1 / 3), 0.0, 1.0]
    assert bertscore.rescale(scores, (0.5, 0.0, 0.25), floor=None).precision.tolist() == [0.0, -0.5, 1.0]
    with pytest.raises(ValueError, match="baseline must hold three numbers below 1"):
        bertscore.rescale(scores, (1.0, 0.0, 0.0))


def first_letters(candidates, references):
    "A scorer: 1 where both begin alike, else 0.25."
    same = np.array([0.25 + 0.75 * (c[:1] == r[:1]) for c, r in zip(candidates, references)])
    return bertscore.BERTScore(same, same, same)


def test_inconsistency_is_of_each_answer_beside_its_reference():
    assert bertscore.inconsistency(["ab", "b"], ["ac", "c"], scorer=first_letters).tolist() == [0.0, 0.75]
    with pytest.raises(ValueError, match="references must be one an answer; got 2 for 1"):
        bertscore.inconsistency(["a"], ["a", "b"], scorer=first_letters)
    base = bertscore.unrelated_baseline(["a", "a", "b", "c"], scorer=first_letters, n_pairs=40)
    assert base == (0.25, 0.25, 0.25), "no pair is of the same text"
    with pytest.raises(ValueError, match="texts must hold two different ones at least; got 1"):
        bertscore.unrelated_baseline(["a", "a"], scorer=first_letters)
    with pytest.raises(ValueError, match="unrelated_baseline: texts must be a list of strings"):
        bertscore.unrelated_baseline("a text", scorer=first_letters)


@pytest.mark.parametrize(
    ("convention", "chain", "missing", "empty"),
    [("official", 0.9, 0.8, 0.0), ("paper", 0.8, 0.8, np.nan), ("counselingbench", 0.8, 0.5, np.nan)],
)
def test_conventions_differ_as_they_say(convention, chain, missing, empty):
    "Two steps at a cosine of .2 or .6; by hand."
    e = np.eye(4)
    near = np.array([e[0], 0.6 * e[0] + 0.8 * e[1]])
    apart = near if convention != "counselingbench" else np.array([e[0], 0.2 * e[0] + np.sqrt(0.96) * e[1]])
    cosine = 0.6 if convention != "counselingbench" else 0.2
    by_hand = {"official": (1 - (1 + cosine) / 2) / 2, "paper": (1 - cosine) / 2, "counselingbench": 1 - cosine / 2}
    assert roscoe.repetition_step(apart, convention) == pytest.approx(by_hand[convention])
    assert roscoe.repetition_step(near[:1], convention) == 1.0
    assert roscoe.chain_score(near[0], near[1], convention) == pytest.approx(chain)
    found = roscoe.step_scores(np.array([e[0], e[2]]), e[:1], near[1:], convention=convention)
    # steps beside the reference: cosines .6 and 0; the reference beside the steps: .6; the context beside both
    assert found["missing_step"] == pytest.approx(missing) and found["redundancy"] == pytest.approx(0.5)
    assert found["faithfulness"] == pytest.approx(0.75) and found["informativeness_step"] == pytest.approx(0.875)
    assert found["reasoning_alignment"] == pytest.approx(0.65)
    assert found["external_hallucination"] == pytest.approx(1 - 0.5 * 0.5)
    assert found["common_sense_error"] == pytest.approx(1 - 0.2 * 0.2)
    assert found["semantic_coverage_step"] == pytest.approx(1 - abs(0.8 - 0.75))
    none = roscoe.step_scores(np.zeros((0, 4)), e[:1], convention=convention)
    assert none["faithfulness"] == pytest.approx(empty, nan_ok=True)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("step_scores", (np.eye(2), np.eye(2))),
        ("repetition_step", (np.eye(1),)),  # one step: the convention changes nothing, and is checked still
        ("token_scores", ([np.eye(2)], [np.eye(2)], np.ones(1))),
        ("chain_score", (np.eye(2)[0], np.eye(2)[1])),
        ("inference_pairs", (["a"], ["b"])),
        ("perplexity_scores", (2.0, np.full(2, np.nan), np.zeros(2))),
        ("roscoe", ([["a"]], [["b"]])),
    ],
)
def test_an_unknown_convention_is_refused_by_every_function_that_takes_one(name, arguments):
    models = {"encoder": None} if name == "roscoe" else {}
    rule = f"{name}: convention must be one of official, paper, counselingbench; got 'published'"
    with pytest.raises(ValueError, match=re.escape(rule)):
        getattr(roscoe, name)(*arguments, convention="published", **models)


@pytest.mark.parametrize(
    "declared, positions, family, tokens",
    [(65_536, None, "", 65_536), (int(1e30), None, "", 512), (int(1e30), 514, "roberta", 512), (512, 256, "bert", 256)],
)
def test_a_model_reads_what_its_tokenizer_declares_and_its_positions_allow(declared, positions, family, tokens):
    config = SimpleNamespace(max_position_embeddings=positions, model_type=family, pad_token_id=1)
    assert most_tokens(SimpleNamespace(model_max_length=declared), config) == tokens
    if family == "roberta":
        for pad in (None, 0):
            config = SimpleNamespace(max_position_embeddings=positions, model_type=family, pad_token_id=pad)
            assert most_tokens(SimpleNamespace(model_max_length=600), config) == positions - 1


def test_rows_of_ids_are_as_wide_as_the_longest():
    ids, mask = padded_rows([[5], [1, 2, 3]], pad=9)
    assert (ids.tolist(), mask.tolist()) == ([[5, 9, 9], [1, 2, 3]], [[1, 0, 0], [1, 1, 1]])
    assert padded_rows([[5]], pad=9, width=2)[0].tolist() == [[5, 9]]


@pytest.mark.parametrize("settings", [TrainingSettings, Executor, StoreSettings])
def test_every_setting_says_what_it_is(settings):
    named_by_themselves = {"learning_rate", "weight_decay", "kind"}
    for name, field in settings.model_json_schema()["properties"].items():
        assert name in named_by_themselves or field["description"].strip(), name


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("Dr. Smith slept. He woke.", ["Dr. Smith slept.", "He woke."]),
        ("He asked J. Smith. He left.", ["He asked J. Smith.", "He left."]),
        ("Is it J! Smith? Yes", ["Is it J!", "Smith?", "Yes"]),
        ("Two (e.g. Ann) slept.", ["Two (e.g. Ann) slept."]),
        ("Ask (Dr. Smith). Then wait.", ["Ask (Dr. Smith).", "Then wait."]),
        ("It ended in 5. Then he left.", ["It ended in 5.", "Then he left."]),
        ("Wait... so he left. But... He stayed.", ["Wait... so he left.", "But...", "He stayed."]),
        ('He said "Go." Then he left.', ['He said "Go."', "Then he left."]),
        ("A dose of 2.5 mg. Enough.", ["A dose of 2.5 mg. Enough."]),
        ("\u4f60\u597d\u3002\u518d\u89c1\uff01", ["\u4f60\u597d\u3002", "\u518d\u89c1\uff01"]),
        ("1) First\n(b) second\r\niv. third\u2028- **fourth**", ["First", "second", "third", "fourth"]),
        ("Step 2: Go on\nSTEP 10 - stop\n- 1. both", ["Go on", "stop", "both"]),
        ("- \n***\n> >> \n", []),
    ],
)
def test_a_rationale_is_cut_where_a_reader_would(text, steps):
    assert roscoe.split_steps(text) == steps


def test_a_score_that_is_absent_says_what_it_needs():
    everything = {"encoder", "nli", "lm", "grammar", "references"}
    assert roscoe._absence_reasons(everything) == {}
    needs = {
        "encoder": "faithfulness faithfulness_ww repetition_word informativeness_step reasoning_alignment "
        "external_hallucination redundancy common_sense_error missing_step semantic_coverage_step "
        "informativeness_chain repetition_step semantic_coverage_chain",
        "nli": "discourse_representation coherence_step_vs_step",
        "lm": "perplexity_chain perplexity_step perplexity_step_max",
        "grammar": "grammar_step grammar_step_max",
        "references": "reasoning_alignment external_hallucination redundancy common_sense_error missing_step "
        "semantic_coverage_step semantic_coverage_chain",
    }
    for name, scores in needs.items():
        absent = roscoe._absence_reasons(everything - {name})
        assert set(absent) == set(scores.split()) and all(name in why for why in absent.values())
    assert list(roscoe._absence_reasons([])) == list(roscoe.SCORES)


# -- where batches are computed


def most_at_once(compute, n_batches: int) -> int:
    "How many of some batches were computed at the same time."
    lock, counts = threading.Lock(), Counter()

    def count(batch):
        with lock:
            counts["now"] += 1
            counts["most"] = max(counts["most"], counts["now"])
        time.sleep(0.02)
        with lock:
            counts["now"] -= 1
        return batch

    assert compute(count, range(n_batches)) == list(range(n_batches))
    return counts["most"]


@pytest.mark.parametrize(("workers", "n_batches", "n_threads"), [(3, 9, 3), (3, 2, 2), (1, 3, 1), (2, 1, 1)])
def test_as_many_threads_compute_as_there_are_workers_and_batches(workers, n_batches, n_threads):
    "Of an executor's own number of workers."
    executor = Executor(workers=workers)
    assert most_at_once(lambda f, batches: map_batches(f, batches, executor), n_batches) == n_threads
    assert most_at_once(lambda f, batches: loading.run_batches(f, batches, executor), n_batches) == n_threads


def test_without_a_number_as_many_threads_compute_as_the_machine_or_pytorch_has(monkeypatch):
    "The cores where nothing is known of PyTorch; one where their number is unknown."
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    monkeypatch.setattr(torch, "set_num_threads", lambda n: None)
    assert most_at_once(loading.run_batches, 9) == 3
    for n_cores, n_threads in ((2, 2), (None, 1)):
        monkeypatch.setattr(loading.os, "cpu_count", lambda n_cores=n_cores: n_cores)
        assert most_at_once(lambda f, batches: map_batches(f, batches, Executor()), 6) == n_threads


def test_each_batch_has_one_core_and_pytorch_its_threads_afterwards():
    "Threads of this process, which PyTorch shares out again when all batches are computed."
    torch = pytest.importorskip("torch")
    n_before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        assert loading.run_batches(lambda batch: torch.get_num_threads(), range(4)) == [1] * 4
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(n_before)


@pytest.mark.parametrize(("n_workers", "n_pending"), [(3, 12), (1, 4), (0, 4)])
def test_a_cluster_is_sent_four_batches_a_worker_ahead(monkeypatch, n_workers, n_pending):
    "With a stand-in for a cluster, whose batches are computed when their results are wanted."
    pending, most_pending, options = set(), [], []

    class Client:
        def scheduler_info(self):
            return {"workers": range(n_workers)}

        def submit(self, function, batch, **submit_options):
            options.append(submit_options)
            pending.add(batch)
            most_pending.append(len(pending))
            future = Future()
            future.result = lambda: pending.discard(batch) or function(batch)
            return future

    monkeypatch.setattr(loading, "dask_client", lambda executor: nullcontext(Client()))
    executor = Executor(kind="dask", retries=5)
    assert map_batches(lambda batch: -batch, range(30), executor) == [-k for k in range(30)]
    assert max(most_pending) == n_pending and options == [{"pure": False, "retries": 5}] * 30
    assert map_batches(abs, [], executor) == [] and len(options) == 30


def test_a_function_of_groups_gives_each_row_its_own():
    "In the order of the rows, and None for a row of no group."
    groups = [np.array([3, 0]), np.array([1])]
    assert loading.in_groups(lambda rows: [2 * x for x in rows], [1, 2, 3, 4], groups, None) == [2, 4, None, 8]


def test_rows_are_divided_by_their_length():
    "By hand; a row of zeros stays."
    rows = loading.normalise_rows(np.array([[3.0, 4.0], [0.0, 0.0], [1e-9, 0.0]]))
    assert rows.tolist() == [[0.6, 0.8], [0.0, 0.0], [1.0, 0.0]]


def test_progress_bars_are_as_before_once_a_model_is_loaded():
    "They are not shown meanwhile, and only those that were shown before are shown again."
    logging = pytest.importorskip("transformers.utils.logging")
    was_enabled = logging.is_progress_bar_enabled()
    try:
        for switch, is_enabled in ((logging.enable_progress_bar, True), (logging.disable_progress_bar, False)):
            switch()
            with loading.quiet_loading():
                assert not logging.is_progress_bar_enabled()
            assert logging.is_progress_bar_enabled() == is_enabled
    finally:
        (logging.enable_progress_bar if was_enabled else logging.disable_progress_bar)()


def test_what_a_library_says_of_a_name_is_told_in_part():
    "The first line, 160 characters of it."
    with pytest.raises(ValueError, match="load_x: name must be a hub id.*; got 'y'") as error:
        with loading.loading_model("load_x", "y"):
            raise OSError("z" * 200 + "\nthe trace")
    assert f"({'z' * 160})" in str(error.value)
    with pytest.raises(
        ModuleNotFoundError, match=r"load_x: the package no-such must be installed; .*mhbench\[metrics\]"
    ):
        loading.need_packages("load_x", "json", "no_such")


def test_a_gpu_may_be_here_where_a_driver_or_a_device_is(monkeypatch):
    "CUDA's driver, or ROCm's device; without PyTorch."
    for driver, device_exists, may_have_gpu in (
        (None, False, False),
        ("libcuda.so.1", False, True),
        (None, True, True),
    ):
        monkeypatch.setattr(loading, "find_library", lambda name, driver=driver: driver if name == "cuda" else None)
        monkeypatch.setattr(Path, "exists", lambda path, exists=device_exists: exists and str(path) == "/dev/kfd")
        assert loading.may_have_gpu() == may_have_gpu


def test_a_batch_fills_a_quarter_of_the_memory_of_a_gpu(monkeypatch):
    "By hand: MiniLM's layer holds 24 x 384 + 512 x 12 = 15,360 numbers a token, which are 61,440 bytes."
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (16 * 2**30, 80 * 2**30))
    config = SimpleNamespace(hidden_size=384, num_attention_heads=12)
    network_on = lambda kind: SimpleNamespace(
        config=config, parameters=lambda: iter([SimpleNamespace(device=SimpleNamespace(type=kind))])
    )
    assert loading.batch_room(network_on("cuda"), 1024) == 4 * 2**30 // 61_440 == 69_905
    assert (
        loading.batch_room(network_on("cuda"), 100_000) == 100_000
        and loading.batch_room(network_on("cpu"), 1024) == 1024
    )


@pytest.mark.parametrize(
    ("declared", "positions", "tokens"),
    [(100_000, None, 100_000), (100_001, None, 512), (None, None, 512), (None, 40, 40), (300, 2, 300), (300, 3, 1)],
)
def test_a_length_that_is_too_large_or_absent_is_512(declared, positions, tokens):
    "Of a RoBERTa's positions two come before the first token; where none is left, its tokenizer is believed."
    family = "roberta" if positions in (2, 3) else "bert"
    config = SimpleNamespace(max_position_embeddings=positions, model_type=family, pad_token_id=1)
    assert most_tokens(SimpleNamespace(model_max_length=declared), config) == tokens


def test_linear_layers_are_packed_where_they_fit_and_change_no_number(monkeypatch):
    "Those of 2^26 weights at most, in 32 bits; a GELU that follows one becomes its last step."
    torch = pytest.importorskip("torch")
    from transformers.activations import GELUActivation

    class Block(torch.nn.Module):
        def __init__(self, bias):
            super().__init__()
            self.dense = torch.nn.Linear(8, 4, bias=bias)
            self.intermediate_act_fn = GELUActivation()

        def forward(self, x):
            return self.intermediate_act_fn(self.dense(x))

    torch.manual_seed(0)
    x = torch.randn(5, 8)
    is_packed = lambda layer: "forward" in vars(layer)
    for bias in (True, False):
        model = torch.nn.Sequential(Block(bias), torch.nn.Linear(4, 3, bias=bias), torch.nn.ReLU())
        with torch.inference_mode():
            values = model(x)
            monkeypatch.delenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", raising=False)
            packed_model = loading.packed_layers(model)
            assert loading.os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] == "64"
            np.testing.assert_allclose(packed_model(x), values, atol=1e-6)
        assert is_packed(model[0].dense) == is_packed(model[1]) == hasattr(torch.ops.mkldnn, "_linear_pointwise")
    double = torch.nn.Sequential(torch.nn.Linear(4, 3).double())
    small, large = (torch.nn.Linear(4, 3) for _ in range(2))
    assert not is_packed(loading.packed_layers(double)[0])
    assert is_packed(loading.packed_layers(torch.nn.Sequential(small), 12)[0])
    assert not is_packed(loading.packed_layers(torch.nn.Sequential(large), 11)[0])
    monkeypatch.setattr(torch.ops.mkldnn, "_reorder_linear_weight", lambda weight, n: weight)
    for n_rows, packed in ((2**13, True), (2**13 + 1, False)):
        layer = torch.nn.Linear(1, 1)
        layer.weight = torch.nn.Parameter(torch.zeros(1).expand(n_rows, 2**13))
        assert is_packed(loading.packed_layers(torch.nn.Sequential(layer))[0]) == packed


# -- which class and which options


@pytest.mark.parametrize(
    ("labels", "default", "chosen", "index"),
    [
        (["Contradiction", "entailment"], 1, None, 0),
        (["entailment", "CONTRADICT"], 0, None, 1),
        (["LABEL_0", "LABEL_1", "LABEL_2"], 2, None, 2),
        (["LABEL_0", "LABEL_1"], 2, None, None),  # the default is none of them
        (["LABEL_0", "neutral", "LABEL_2"], 2, None, None),
        (["contradiction", "contradictory"], 1, None, None),
        (["a", "b", "c"], 2, 0, 0),
        (["a", "b", "c"], 0, 2, 2),
        (["a", "b", "c"], 0, 3, None),
        (["a", "b", "c"], 0, -1, None),
    ],
)
def test_the_class_that_is_meant(labels, default, chosen, index):
    "As it is chosen, by one label that begins so, or by default where no label has a name."
    config = SimpleNamespace(num_labels=len(labels), id2label=dict(enumerate(labels)))
    class_index = lambda: classifiers._class_index("load_x", config, ("contradict",), default, chosen)
    if index is not None:
        assert class_index() == index
        return
    with pytest.raises(
        ValueError, match="the class must be between 0 and 2" if chosen else "one label that starts with"
    ):
        class_index()


class FakeScorer:
    "Scores of pairs, as the package gives them."

    def __init__(self, scores):
        self.scores = scores

    def score(self, candidates, references):
        torch = pytest.importorskip("torch")
        assert len(candidates) == len(references) == len(self.scores)
        return [torch.tensor(self.scores) - k / 1000 for k in range(3)]


def test_scores_are_freed_of_what_rounding_adds():
    "Equal texts have 1, or 0 without a token; no score is above 1, and each has six decimals."
    score = bertscore.PackageScorer("fake", FakeScorer([0.9996, 0.0006, 1.2, 0.12345678]))
    pairs = (["a ", "b", "A", "c", ""], ["a", " b", "a", "d", "e"])
    precision, recall, f1 = score(*pairs)
    assert precision.tolist() == [1.0, 0.0, 1.0, 0.123457, 0.0]
    assert recall.tolist() == [1.0, 0.0, 1.0, 0.122457, 0.0] and f1.tolist() == [1.0, 0.0, 1.0, 0.121457, 0.0]


def test_unrelated_pairs_are_a_thousand_of_all_pairs():
    "Each text with each other one, whichever comes first; by the seed 0 unless another is named."
    pairs = Counter()

    def scorer(candidates, references):
        pairs.update(zip(candidates, references))
        return bertscore.BERTScore(*(np.arange(len(candidates)) / 10_000 * k for k in (1, 2, 3)))

    baseline = bertscore.unrelated_baseline(["a", "b", "c", "d"], scorer=scorer)
    assert sum(pairs.values()) == 1000 and baseline == pytest.approx((0.04995, 0.0999, 0.14985))
    assert set(pairs) == {(a, b) for a in "abcd" for b in "abcd" if a != b} and min(pairs.values()) > 40
    default_pairs = dict(pairs)
    pairs.clear()
    bertscore.unrelated_baseline(["a", "b", "c", "d"], scorer=scorer, seed=0, n_pairs=1000)
    assert pairs == default_pairs


# -- how much is read


def test_a_language_model_reads_an_even_number_of_tokens_and_as_many_logits_as_memory_takes():
    "1,024 where it does not say, half a window at a time; logits of 64 MiB, of one token at least."
    tokenizer = SimpleNamespace(bos_token_id=None, eos_token_id=0)
    model = lambda vocabulary, n=None: SimpleNamespace(
        config=SimpleNamespace(vocab_size=vocabulary, max_position_embeddings=n)
    )
    language_model = lambda *config, **options: perplexity.LanguageModel("x", model(*config), tokenizer, **options)
    assert [language_model(9, n).window for n in (None, 2048, 1023, 9)] == [1024, 1024, 1022, 8]
    assert [language_model(9, 2048, window=n).window for n in (2000, 7)] == [2000, 6] and language_model(9).start == 0
    assert [language_model(v).budget for v in (9, 2**14, 2**20, 2**25)] == [1024, 1024, 16, 1]
    assert language_model(2**20, budget=4).budget == 4


# -- scores of reasoning, by hand


@pytest.mark.parametrize(("convention", "step_score"), [("official", 4 / (3 * 2 + 1 * 8)), ("paper", 1 / 5)])
def test_perplexities_of_steps_are_averaged_by_tokens_as_published(convention, step_score):
    "Steps of 2 and 8 with three tokens and one; a step without tokens has none."
    n_tokens = np.array([3, 0, 1])
    scores = roscoe.perplexity_scores(4.0, np.array([2.0, np.nan, 8.0]), n_tokens, convention)
    assert list(scores) == ["perplexity_chain", "perplexity_step", "perplexity_step_max"]
    assert list(scores.values()) == pytest.approx([1 / 4, step_score, 1 / 8])
    tokenless_scores = roscoe.perplexity_scores(4.0, np.array([np.nan]), np.array([0]), convention)
    assert list(tokenless_scores) == list(scores) and np.isnan(list(tokenless_scores.values())).all()


def test_premises_and_hypotheses_are_paired_as_published():
    "The context entails a step; of two steps each is a premise, by the paper the earlier one alone."
    pairs = {c: roscoe.inference_pairs(["a", "b"], ["s"], c) for c in roscoe.CONVENTIONS}
    assert {tuple(p["discourse_representation"]) for p in pairs.values()} == {(("s", "a"), ("s", "b"))}
    assert pairs["official"]["coherence_step_vs_step"] == [("a", "a"), ("a", "b"), ("b", "a"), ("b", "b")]
    assert (
        pairs["paper"]["coherence_step_vs_step"] == pairs["counselingbench"]["coherence_step_vs_step"] == [("a", "b")]
    )


@pytest.mark.parametrize("convention", ["official", "paper"])
def test_tokens_are_aligned_and_repeated_as_a_loop_says(convention):
    "Of random vectors; a step without a token repeats nothing, and steps without an alignment are left out."
    rng = np.random.default_rng(0)
    steps = [rng.normal(size=(n, 5)) for n in (2, 0, 3, 1)]
    context = [rng.normal(size=(n, 5)) for n in (4, 0)]
    step_alignments = np.array([0.5, np.nan, 0.25, 1.0])
    cosine = lambda a, b: a @ b / np.linalg.norm(a) / np.linalg.norm(b)
    nearness = lambda a, vectors: (1 + max(cosine(a, b) for b in vectors)) / 2
    alignments = [0.5, 0.25, 1.0, *(nearness(a, context[0]) for step in steps for a in step)]
    repetitions = [
        np.mean([nearness(a, steps[j]) for a in steps[i]])
        for i in range(4)
        for j in range(i)
        if len(steps[i]) and len(steps[j])
    ]
    scores = roscoe.token_scores(steps, context, step_alignments, convention=convention)
    assert scores == {
        "faithfulness_ww": pytest.approx(np.mean(alignments)),
        "repetition_word": pytest.approx(1 - max(repetitions)),
    }
    two_step_scores = roscoe.token_scores(steps[:2], context, step_alignments[:2], convention=convention)
    assert two_step_scores["repetition_word"] == 1.0
    tokenless_scores = roscoe.token_scores([steps[1]], context, np.array([np.nan]), convention=convention)
    expected = 0.0 if convention == "official" else np.nan
    assert tokenless_scores == {"faithfulness_ww": pytest.approx(expected, nan_ok=True), "repetition_word": 1.0}


def test_chains_that_share_a_context_are_scored_together():
    "In blocks, in the order in which the contexts first come; lists are cut like others."
    contexts = [("x",), ("y",), ("x",), ("z",), ("y",)]
    assert roscoe._chain_blocks(contexts, 2) == [[0, 2], [1, 4], [3]]
    assert roscoe._chain_blocks(contexts, 9) == [[0, 2, 1, 4, 3]] and roscoe._chain_blocks([], 2) == []
    assert roscoe._split_like(range(5), ["ab", "", "cde"]) == [[0, 1], [], [2, 3, 4]]
    with pytest.raises(ValueError, match="roscoe: block must be at least 1; got 0"):
        roscoe.roscoe([["a"]], [["b"]], encoder=None, block=0)
    assert roscoe.roscoe([["a"]], [["b"]], encoder=None, block=1).shape == (1, 0)
