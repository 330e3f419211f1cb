"""Encoders that learn: by heart, the same bits twice, the same weights after a kill, and nothing cut in silence."""

import hashlib
import inspect
import json
import multiprocessing
import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from mhbench.ask.progress import LIVE, Steps
from mhbench.encode import finetune as finetuning
from mhbench.encode.classifiers import (
    Choices,
    choice_responses,
    load_multiple_choice,
    option_scores,
    prepare_choices,
    question_text,
)
from mhbench.encode.embeddings import bundled_encoder
from mhbench.encode.finetune import (
    TrainingData,
    base_identity,
    finetune,
    run_key,
    training_settings,
    untrained_model,
)
from mhbench.encode.store import StoreSettings, keep_results
from mhbench.records.schema import Item, letters, read_records, write_records
from mhbench.steps.training import order_table, run_table, train_runs, training_parts

SETTINGS = {"learning_rate": 3.0e-3, "batch_size": 8, "epochs": 4, "patience": None}


class Killed(RuntimeError):
    pass


class KillAt(transformers.TrainerCallback):
    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == self.step:
            raise Killed


class Counted(transformers.TrainerCallback):
    def __init__(self):
        self.steps = []

    def on_step_end(self, args, state, control, **kwargs):
        self.steps.append(state.global_step)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    "A model this small waits for its threads longer than it computes."
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("base")
    words = [a + b + c for a in "bdfgklmnprst" for b in "aeiou" for c in "nr"]
    (folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]))
    transformers.BertTokenizerFast(str(folder / "vocab.txt"), model_max_length=64).save_pretrained(folder)
    torch.manual_seed(0)
    shape = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)
    transformers.BertModel(transformers.BertConfig(vocab_size=len(words) + 5, **shape)).save_pretrained(folder)
    return folder, words


def bank(words, n, seed, k=4, distinct=False):
    rng, out = np.random.default_rng(seed), []
    own = rng.permutation(words).tolist()
    for i in range(n):
        options = own[i * k : (i + 1) * k] if distinct else rng.choice(words, k, replace=False).tolist()
        key = [letters(k)[int(rng.integers(k))]]
        text = dict(question=" ".join(rng.choice(words, 3)), options=options, key=key, source="test")
        out.append(Item(item_id=f"s{seed}-{i}", study="demo", task="multiple_choice", **text))
    return out


@pytest.fixture(scope="module")
def parts(base):
    return TrainingData(base[0], *(bank(base[1], n, seed) for n, seed in ((24, 1), (12, 2))))


def test_questions_that_share_a_case_are_counted_among_those_left_out():
    case = {"context": {"case": "A man of 40"}}
    train = [
        q.model_copy(update=case if k == 0 else {}) for k, q in enumerate(bank([f"w{n}" for n in range(40)], 4, 31))
    ]
    validation, test = (bank([f"{x}{n}" for n in range(40)], 1, seed) for x, seed in (("v", 32), ("t", 33)))
    counts = training_parts(train, validation, [q.model_copy(update=case) for q in test], seed=1).counts
    assert counts.set_index("part").loc["train"].to_dict() == {
        "items": 4,
        "same_question": 0,
        "same_case": 1,
        "same_abstract": 0,
        "not_drawn": 0,
        "kept": 3,
    }
    assert "same_case" not in training_parts(train, validation, test, seed=1).counts  # where there is none


def weights(folder):
    from safetensors.torch import load_file

    return load_file(folder / "model" / "model.safetensors")


def equal(a, b):
    a, b = weights(a), weights(b)
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


@pytest.fixture(scope="module")
def whole(base, parts, tmp_path_factory):
    return finetune(parts, training_settings(SETTINGS), seed=7, runs=tmp_path_factory.mktemp("whole"))


def test_the_same_bits_twice_and_others_for_another_seed(base, parts, whole, tmp_path):
    settings = training_settings(SETTINGS)
    assert equal(finetune(parts, settings, seed=7, runs=tmp_path).folder, whole.folder)
    other = finetune(parts, settings, seed=8, runs=tmp_path)
    assert not equal(other.folder, whole.folder) and other.key != whole.key


def test_a_training_says_how_far_it_is(parts, whole, tmp_path, monkeypatch):
    "Where whoever looks on reads it, and counted from the start where it was stopped."
    monkeypatch.setenv(LIVE, str(tmp_path / "state.json"))
    settings = training_settings(SETTINGS)
    with pytest.raises(Killed):
        finetune(parts, settings, seed=7, runs=tmp_path, callbacks=[KillAt(5)])
    monkeypatch.setattr(Steps, "tick", lambda line: line.tell(line.began + 1e6, True))
    finetune(parts, settings, seed=7, runs=tmp_path)
    told = json.loads((tmp_path / "state.json").read_text(encoding="utf-8"))
    assert told["line"] == f"training, seed 7: {told['total']} of {told['total']} steps, 0 s left"
    assert told["cached"] == 3 and told["so_far"] is None, "the first epoch was kept"


@pytest.mark.parametrize("step", [4, 8])  # three steps an epoch: within the second epoch, and within the third
def test_a_run_that_was_killed_ends_with_the_same_weights(base, parts, whole, tmp_path, step):
    settings = training_settings(SETTINGS)
    with pytest.raises(Killed):
        finetune(parts, settings, seed=7, runs=tmp_path, callbacks=[KillAt(step)])
    [folder] = tmp_path.iterdir()
    assert not (folder / "done.json").exists() and list(folder.glob("checkpoints/checkpoint-*"))
    half = folder / "checkpoints" / "checkpoint-99"  # what a kill in the middle of saving leaves
    half.mkdir()
    (half / "model.safetensors").write_bytes(b"half")
    resumed = finetune(parts, settings, seed=7, runs=tmp_path)
    assert equal(resumed.folder, whole.folder)
    assert resumed.facts["steps"] == whole.facts["steps"] == 12
    assert not (folder / "checkpoints").exists()


class Hold(transformers.TrainerCallback):
    "Say after four steps that they are done, and go on when told to."

    def __init__(self, pipe):
        self.pipe = pipe

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == 4:
            self.pipe.send("training")
            self.pipe.recv()


@pytest.mark.parametrize("killed", [False, True])
def test_a_run_that_another_process_trains_is_waited_for(parts, whole, tmp_path, monkeypatch, killed):
    fork, said, mine = multiprocessing.get_context("fork"), [], Counted()  # it has the libraries already
    here, there = fork.Pipe()
    asked = {"seed": 7, "runs": tmp_path, "callbacks": [Hold(there)]}
    of = (parts, training_settings(SETTINGS))
    other = fork.Process(target=finetune, args=of, kwargs=asked, daemon=True)
    other.start()
    assert here.recv() == "training"

    def end_it(sentence):
        said.append(sentence)
        other.kill() if killed else here.send("go on")

    monkeypatch.setattr(finetuning, "say", end_it)
    run = finetune(*of, **asked | {"callbacks": [mine]})
    assert said == [f"another process trains the run {run.folder.name}; its end is waited for"]
    assert mine.steps == (list(range(4, 13)) if killed else []), "three steps were in its checkpoint"
    assert equal(run.folder, whole.folder)


def test_early_stopping_counts_through_a_kill(base, parts, tmp_path):
    settings = training_settings(SETTINGS | {"epochs": 30, "patience": 2, "learning_rate": 1.0e-2})
    straight = finetune(parts, settings, seed=7, runs=tmp_path / "a")
    assert straight.facts["epochs_trained"] < 30, "nonsense cannot be learnt: the validation loss must rise"
    best = straight.history.query("part == 'validation'").sort_values("loss").iloc[0]
    assert straight.facts["best_epoch"] == best["epoch"]
    assert straight.facts["epochs_trained"] == best["epoch"] + 2
    stop = int(straight.facts["steps"]) - 2
    with pytest.raises(Killed):
        finetune(parts, settings, seed=7, runs=tmp_path / "b", callbacks=[KillAt(stop)])
    resumed = finetune(parts, settings, seed=7, runs=tmp_path / "b")
    assert equal(resumed.folder, straight.folder) and resumed.facts["steps"] == straight.facts["steps"]


def test_sixteen_questions_by_heart(base, tmp_path):
    items = bank(base[1], 16, 5, distinct=True)
    settings = training_settings({"learning_rate": 3.0e-3, "batch_size": 8, "epochs": 30, "warmup": 0.0})
    run = finetune(TrainingData(base[0], items), settings, seed=0, runs=tmp_path)
    answers = choice_responses(items, load_multiple_choice(run.folder / "model"), model="tiny")
    assert [r.text for r in answers] == [i.key[0] for i in items]


def test_everything_that_shapes_a_run_is_in_its_key(base, parts):
    settings = training_settings(SETTINGS)
    turned = {"A": "B", "B": "C", "C": "D", "D": "A"}
    other_key = [parts.train[0].model_copy(update={"key": [turned[parts.train[0].key[0]]]}), *parts.train[1:]]
    keys = {
        run_key(parts, settings, 1),
        run_key(parts, settings, 2),
        run_key(TrainingData(base[0], parts.validation, parts.train), settings, 1),
        run_key(TrainingData(base[0], parts.train, parts.validation, without_question=True), settings, 1),
        run_key(TrainingData(base[0], other_key, parts.validation), settings, 1),
        run_key(parts, settings.model_copy(update={"weight_decay": 0.5}), 1),
        run_key(TrainingData("minilm", parts.train, parts.validation), settings, 1),
    }
    assert len(keys) == 7
    assert run_key(parts, settings.model_copy(update={"device": "cpu"}), 1) in keys, "a device is no setting"
    renamed = [i.model_copy(update={"item_id": f"other-{i.item_id}"}) for i in parts.train]
    assert run_key(TrainingData(base[0], renamed, parts.validation), settings, 1) in keys, "nor is a name"


def test_options_are_scored_by_themselves(base, whole):
    "Permuting options permutes the probabilities and changes nothing else."
    items = bank(base[1], 8, 9)
    turned = [i.model_copy(update={"options": i.options[::-1]}) for i in items]
    classifier = load_multiple_choice(whole.folder / "model")
    a, b = classifier.log_probabilities(items), classifier.log_probabilities(turned)
    for i in items:
        np.testing.assert_allclose(a[i.item_id], b[i.item_id][::-1], atol=1e-5)
        assert np.exp(a[i.item_id]).sum() == pytest.approx(1)


def test_numbers_of_options_may_differ_where_nothing_is_trained(base, whole):
    items = bank(base[1], 3, 11, k=5) + bank(base[1], 3, 12, k=2)
    found = load_multiple_choice(whole.folder / "model").log_probabilities(items)
    assert [len(found[i.item_id]) for i in items] == [5, 5, 5, 2, 2, 2]
    with pytest.raises(ValueError, match="as many options in every item"):
        finetune(TrainingData(base[0], items), training_settings({}), seed=0, runs=whole.folder)


def test_nothing_to_train_on_is_refused(base, whole):
    data = TrainingData(base[0], [], bank(base[1], 3, 11))
    with pytest.raises(ValueError, match="finetune: train must hold items; got none; name a larger file"):
        finetune(data, training_settings({}), seed=0, runs=whole.folder)


def test_the_context_is_cut_and_never_question_or_options(base):
    tokenizer, words = transformers.AutoTokenizer.from_pretrained(base[0]), base[1]
    item = bank(words, 1, 3)[0]
    long = item.model_copy(update={"item_id": "long", "context": {"case": " ".join(words[:60])}})
    beyond = item.model_copy(update={"item_id": "beyond", "question": " ".join(words[:60])})
    got = prepare_choices([item, long, beyond], tokenizer, max_length=20)
    assert (got.item_ids, got.n_truncated, got.too_long) == ([item.item_id, "long"], 1, ["beyond"])
    for ids, option in zip(got.rows[1]["input_ids"], item.options):
        text = tokenizer.decode(ids)
        assert item.question in text and option in text and len(ids) == 20


def test_an_untrained_head_is_one_by_its_seed(base):
    settings = training_settings({"epochs": 0})
    a, b, c = (untrained_model(base[0], settings, s)[0] for s in (1, 1, 2))
    assert torch.equal(a.classifier.weight, b.classifier.weight)
    assert not torch.equal(a.classifier.weight, c.classifier.weight)
    assert a.config.mhbench_new_weights == ["classifier.bias", "classifier.weight"], "the base itself was read whole"


def test_no_epoch_leaves_the_random_head(base, parts, tmp_path):
    run = finetune(parts, training_settings({"epochs": 0}), seed=1, runs=tmp_path)
    model, _ = untrained_model(base[0], training_settings({"epochs": 0}), 1)
    assert torch.equal(weights(run.folder)["classifier.weight"], model.classifier.weight) and not len(run.history)


def item_of(words, n_question=4, n_options=2, context=(), **fields):
    "A question of so many words, with options of one word each; a word is a token."
    text = {"question": " ".join(words[:n_question]), "options": words[50 : 50 + n_options], "key": ["A"]}
    context = {f"part {k}": part for k, part in enumerate(context)}
    return Item(
        **{
            "item_id": "q",
            "study": "demo",
            "task": "multiple_choice",
            "source": "test",
            "context": context,
            **text,
            **fields,
        }
    )


def test_a_question_fits_to_the_token(base):
    "By hand: four words, an option's one and three special tokens are eight; a word of context more is cut."
    tokenizer, words = transformers.AutoTokenizer.from_pretrained(base[0]), base[1]
    short, cut = item_of(words), item_of(words, context=[words[9]], item_id="cut")
    long = item_of(words, 5, 3, item_id="long")
    no_key = item_of(words, 1, 3, item_id="no-key", key=[])
    last = item_of(words, 4, 4, item_id="last", key=["D"])
    items = [short, long, cut, no_key, last]
    choices = prepare_choices(items, tokenizer, max_length=8)
    assert (choices.item_ids, choices.too_long) == (["q", "cut", "no-key", "last"], ["long"])
    assert (choices.truncated, choices.n_truncated) == (["cut"], 1)
    assert [row.get("labels") for row in choices.rows] == [0, 0, None, 3]
    for item, row in zip((short, cut, no_key, last), choices.rows):
        texts = [f"[CLS] {item.question} [SEP] {option} [SEP]" for option in item.options]
        assert [tokenizer.decode(ids) for ids in row["input_ids"]] == texts
        assert all(sum(types) == 2 for types in row["token_type_ids"])
    assert prepare_choices(items, tokenizer, max_length=9).truncated == []
    options_alone = prepare_choices(items, tokenizer, max_length=4, without_question=True)
    assert options_alone.item_ids == [i.item_id for i in items] and options_alone.n_truncated == 0
    assert prepare_choices(items, tokenizer, max_length=3, without_question=True).rows == []
    assert prepare_choices([], tokenizer) == ([], [], [], [])
    wide = prepare_choices([item_of(words, 60, context=[" ".join((2 * words)[:n])]) for n in (192, 193)], tokenizer)
    assert len(wide.truncated) == 1 and max(map(len, wide.rows[1]["input_ids"])) == 256, "256 tokens where none is said"


def test_a_question_is_read_with_its_context():
    "A part a line, without those that are empty."
    item = item_of(["why"], 1, 0, [" ", "He sleeps.", "", "She drinks."], task="open", key=["x"])
    assert question_text(item, False) == "why\nHe sleeps.\nShe drinks." and question_text(item, True) == ""


def test_options_are_scored_in_batches_as_one_by_one(base):
    "Questions of several lengths and numbers of options come back in their order, whatever a batch holds."
    model, tokenizer = untrained_model(base[0], training_settings({"epochs": 0}), seed=1)
    items = [item_of(base[1], n, k, item_id=f"{n}-{k}") for n, k in ((3, 4), (9, 2), (4, 4), (30, 3), (10, 2), (3, 2))]
    rows = prepare_choices(items, tokenizer).rows
    n_rows = []
    hook = model.register_forward_hook(lambda module, inputs, output: n_rows.append(output.logits.shape))
    scores = option_scores(model, tokenizer, rows)
    assert sorted(map(tuple, n_rows)) == [(1, 2), (1, 3), (2, 2), (2, 4)]
    n_rows.clear()
    assert all(np.allclose(a, b, atol=1e-5) for a, b in zip(option_scores(model, tokenizer, rows, budget=1), scores))
    assert len(n_rows) == 6 and option_scores(model, tokenizer, []) == []
    hook.remove()
    for row, row_scores in zip(rows, scores):
        for k, option_score in enumerate(row_scores):
            inputs = {name: torch.tensor([[row[name][k]]]) for name in row if name != "labels"}
            with torch.no_grad():
                assert float(model(**inputs).logits[0, 0]) == pytest.approx(option_score, abs=1e-5)
    assert [z.dtype for z in scores] == [np.dtype(np.float64)] * 6


def test_a_run_says_what_it_was(parts, whole):
    "By hand: 24 questions in batches of eight are three updates an epoch, of which there are four."
    facts, history = whole.facts, whole.history
    counts = {"n_train": 24, "n_validation": 12, "n_truncated": 0, "n_too_long": 0, "steps": 12, "epochs_trained": 4.0}
    assert {name: facts[name] for name in counts} == counts and facts["seed"] == 7
    assert (facts["precision"], facts["device"], facts["base"]) == ("fp32", "cpu", str(parts.base))
    assert facts["new_weights"] == "classifier.bias, classifier.weight"
    validation = history[history["part"] == "validation"]
    assert validation["epoch"].tolist() == [1.0, 2.0, 3.0, 4.0] and validation["step"].tolist() == [3, 6, 9, 12]
    best_row = validation.loc[validation["loss"].idxmin()]
    assert (facts["best_epoch"], facts["validation_loss"]) == (best_row["epoch"], best_row["loss"])
    assert facts["validation_accuracy"] == best_row["accuracy"]
    assert (history["part"] == "training").sum() == 12, "each update is noted where there are few"
    assert not list(whole.folder.glob("done.json.part")) and whole.folder.name == whole.key[:16]
    model = load_multiple_choice(whole.folder / "model")
    answers = model.log_probabilities(parts.validation)
    losses = [-answers[i.item_id]["ABCD".index(i.key[0])] for i in parts.validation]
    assert np.mean(losses) == pytest.approx(best_row["loss"], abs=1e-4), "the best epoch's weights are kept"


def test_without_validation_the_last_epoch_is_kept(base, tmp_path):
    "By hand: twelve questions in batches of five are three updates an epoch, the last of two questions."
    settings = training_settings(SETTINGS | {"epochs": 2, "batch_size": 5, "patience": 2})
    run = finetune(TrainingData(base[0], bank(base[1], 12, 3)), settings, seed=1, runs=tmp_path)
    facts = {name: run.facts[name] for name in ("steps", "epochs_trained", "best_epoch", "validation_loss")}
    assert facts == {"steps": 6, "epochs_trained": 2.0, "best_epoch": 2.0, "validation_loss": None}
    assert set(run.history["part"]) == {"training"} and run.facts["n_validation"] == 0


def test_how_a_run_is_trained(tmp_path):
    "What is said goes to the trainer: one checkpoint an epoch, the best by its loss, and the same bits each time."
    settings = training_settings(
        {"warmup": 0.1, "weight_decay": 0.25, "batch_size": 6, "epochs": 3, "learning_rate": 0.5}
    )
    arguments = finetuning._training_arguments(tmp_path, settings, 11, True, 250)
    values = {
        "learning_rate": 0.5,
        "per_device_train_batch_size": 6,
        "per_device_eval_batch_size": 6,
        "num_train_epochs": 3,
        "warmup_steps": 25,
        "weight_decay": 0.25,
        "bf16": False,
        "use_cpu": True,
        "seed": 11,
        "data_seed": 11,
        "full_determinism": True,
        "eval_strategy": "epoch",
        "save_strategy": "epoch",
        "save_total_limit": 1,
        "load_best_model_at_end": True,
        "metric_for_best_model": "eval_loss",
        "greater_is_better": False,
        "restore_callback_states_from_checkpoint": True,
        "logging_strategy": "steps",
        "logging_steps": 2,
        "disable_tqdm": True,
        "dataloader_pin_memory": False,
        "remove_unused_columns": False,
    }
    if torch.cuda.is_available():
        values |= {"use_cpu": False, "dataloader_pin_memory": True, "bf16": arguments.bf16}
    assert {name: getattr(arguments, name) for name in values} == values and arguments.report_to == []
    assert arguments.output_dir == str(tmp_path / "checkpoints")
    last_arguments = finetuning._training_arguments(tmp_path, settings, 11, False, 99)
    assert (
        last_arguments.eval_strategy,
        last_arguments.load_best_model_at_end,
        last_arguments.metric_for_best_model,
    ) == ("no", False, None)
    assert (last_arguments.logging_steps, last_arguments.warmup_steps) == (1, 10)


@pytest.mark.parametrize(
    ("precision", "device", "driver", "cuda", "bf16", "in_16_bits"),
    [
        ("auto", "auto", True, True, True, True),
        ("auto", "auto", False, True, True, False),
        ("auto", "auto", True, False, True, False),
        ("auto", "auto", True, True, False, False),
        ("auto", "cpu", True, True, True, False),
        ("fp32", "auto", True, True, True, False),
        ("bf16", "auto", False, False, False, True),
        ("bf16", "cpu", False, False, False, True),
    ],
)
def test_training_is_in_16_bits_where_that_is_chosen_or_a_gpu_has_them(
    parts, monkeypatch, precision, device, driver, cuda, bf16, in_16_bits
):
    "The key of a run tells both apart, and is that of a run for which bf16 was chosen."
    monkeypatch.setattr(finetuning, "may_have_gpu", lambda: driver)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: bf16)
    settings = training_settings({"precision": precision, "device": device})
    assert finetuning._computes_in_16_bits(settings) == in_16_bits
    if in_16_bits:
        bf16_settings = training_settings({"precision": "bf16"})
        other_key = run_key(parts, training_settings({"precision": "auto", "device": "cpu"}), 1)
        assert run_key(parts, settings, 1) == run_key(parts, bf16_settings, 1) != other_key


def test_a_base_is_known_by_its_files_or_its_revision(tmp_path, monkeypatch):
    "By the SHA-256 of its weights and settings in order of name; of a hub id by the folder of its revision."
    contents = {"b.json": b"{}", "a.safetensors": b"weights", "c.bin": b"more", "notes.txt": b"not read"}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    digests = [hashlib.sha256(contents[name]).hexdigest() for name in ("a.safetensors", "b.json", "c.bin")]
    assert base_identity(tmp_path) == hashlib.sha256("".join(digests).encode()).hexdigest()
    assert base_identity("minilm") == base_identity(bundled_encoder())
    import huggingface_hub

    file = tmp_path / "snapshots" / "0a1b" / "config.json"
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda base, name: str(file))
    assert base_identity("some/model") == "some/model@0a1b"
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda base, name: None)
    config = SimpleNamespace(_commit_hash="2c3d")
    monkeypatch.setattr(transformers.AutoConfig, "from_pretrained", lambda base: config)
    assert base_identity("some/model") == "some/model@2c3d"


def test_an_untrained_model_has_the_first_layers_and_the_shorter_length(base):
    "At most as many layers as the base has, and as many tokens as it reads; no warning of its head is shown."
    from transformers.utils import logging

    verbosity = logging.get_verbosity()
    for layers, max_length, n_layers, n_tokens in ((1, 32, 1, 32), (9, 256, 2, 64), (None, 256, 2, 64)):
        model, _ = untrained_model(base[0], training_settings({"layers": layers, "max_length": max_length}), seed=1)
        assert len(model.bert.encoder.layer) == n_layers and model.config.mhbench_max_length == n_tokens
        assert not model.training and logging.get_verbosity() == verbosity


def test_questions_are_tokenised_once_for_each_length(base, monkeypatch):
    "And known by what is read of them, in both parts: so that a second run need not be trained."
    data = TrainingData(base[0], bank(base[1], 3, 1), bank(base[1], 2, 2))
    tokenizer, lengths = transformers.AutoTokenizer.from_pretrained(base[0]), []
    prepare = finetuning.prepare_choices
    monkeypatch.setattr(
        finetuning, "prepare_choices", lambda *a, **k: lengths.append(k["max_length"]) or prepare(*a, **k)
    )
    train, validation = data.prepared(tokenizer, 20)
    assert data.prepared(tokenizer, 20) == (train, validation) and lengths == [20, 20]
    assert (
        (len(train.rows), len(validation.rows)) == (3, 2) and data.prepared(tokenizer, 21) and lengths[2:] == [21, 21]
    )
    texts = [(question_text(i, False), i.options, i.key) for i in data.train]
    digest = hashlib.sha256(json.dumps(texts).encode()).hexdigest()
    assert data.identity[:3] == [base_identity(base[0]), 1, digest] and len(data.identity) == 4


@pytest.mark.parametrize(
    ("rows", "rule"),
    [
        (
            [{"input_ids": [1, 2], "labels": 0}, {"input_ids": [1], "labels": 0}],
            r"as many options in every item; got \[1, 2\]",
        ),
        ([{"input_ids": [1], "labels": 0}, {"input_ids": [1]}], "one key an item; got none, or several, for 'b'"),
    ],
)
def test_parts_that_cannot_be_trained_on_are_refused(rows, rule):
    "The first that does not fit is named, with its part."
    fit = Choices([{"input_ids": [1], "labels": 0}], ["a"], [], [])
    unfit = Choices(rows, ["a", "b"], [], [])
    finetuning._check_parts(fit, fit)
    for parts, name in (((unfit, fit), "train"), ((fit, unfit), "validation")):
        with pytest.raises(ValueError, match=f"finetune: {name} must have {rule}"):
            finetuning._check_parts(*parts)


def test_accuracy_is_the_share_of_questions_whose_key_has_the_highest_score():
    "By hand: three of four."
    prediction = SimpleNamespace(
        predictions=np.array([[1, 2], [3, 0], [5, 4], [0, 1]]), label_ids=np.array([1, 1, 0, 1])
    )
    assert finetuning._accuracy(prediction) == {"accuracy": 0.75}


def trained(folder, base):
    "Two tables of the stage: what every run came to, and in other orders of the options."
    entries, settings = {"tiny": {"served": str(base)}}, SETTINGS | {"epochs": 1}
    parts = training_parts(*(read_records(folder / f"{n}.parquet", Item) for n in ("train", "held", "test")), seed=1)
    runs = train_runs(entries, parts, settings, seeds=[7], baseline_seeds=[7], runs=folder / "runs")
    return [t.to_json() for t in (run_table(runs, parts), order_table(runs, parts, seed=1))]


ALONE = """
import json, sys
from pathlib import Path
from mhbench.encode.store import StoreSettings, keep_results
from mhbench.records.schema import Item, read_records
from mhbench.steps.training import order_table, run_table, train_runs, training_parts
{trained}
folder, base, SETTINGS = Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3])
keep_results(StoreSettings(), folder / "encoders.sqlite")
tables = trained(folder, base)
print(json.dumps([tables, [m for m in ("torch", "transformers", "tokenizers") if m in sys.modules]]))
"""


def test_runs_that_are_there_are_read_without_torch(base, tmp_path):
    for n, seed in (("train", 21), ("held", 22), ("test", 23)):
        write_records(bank(base[1], 12, seed), tmp_path / f"{n}.parquet", Item)
    keep_results(StoreSettings(), tmp_path / "encoders.sqlite")
    tables = trained(tmp_path, base[0])
    script = ALONE.format(trained=inspect.getsource(trained))
    command = [sys.executable, "-c", script, str(tmp_path), str(base[0]), json.dumps(SETTINGS)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment, timeout=120, check=True)
    assert json.loads(done.stdout) == [tables, []]
