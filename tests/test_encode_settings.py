"""Settings of local models, their bounds and usual values."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
from pydantic import ValidationError

from mhbench.encode import bertscore, finetune, loading, perplexity, roscoe
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
