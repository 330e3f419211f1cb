"""Encoders that learn: by heart, the same bits twice, the same weights after a kill, and nothing cut in silence."""

import inspect
import json
import multiprocessing
import os
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from mhbench.ask.progress import LIVE, Steps
from mhbench.encode import finetune as finetuning
from mhbench.encode.classifiers import choice_responses, load_multiple_choice, prepare_choices
from mhbench.encode.finetune import TrainingData, finetune, run_key, training_settings, untrained_model
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
