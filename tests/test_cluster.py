"""Metrics on a real cluster of two workers: the ROSCOE suite and vectors, a worker killed in the middle included."""

import os
import pickle
import random
import signal
import threading
from importlib.util import find_spec

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("dask.distributed", reason="the extra dask is not installed")

from mhbench.encode import classifiers, embeddings, perplexity
from mhbench.encode import roscoe as reasoning
from mhbench.encode.loading import Executor, dask_client

pytestmark = pytest.mark.skipif(
    find_spec("sentence_transformers") is None, reason="sentence_transformers is not installed"
)
TWO = Executor(kind="dask", workers=2)
WORDS = (
    "client mood sleep appetite family work drinking risk history reports feels most days for weeks goal plan support"
    " group hopeless".split()
)


def sentences(n, seed, at_most=30):
    rng = random.Random(seed)
    return [" ".join(rng.choice(WORDS) for _ in range(rng.randint(2, at_most))).capitalize() + "." for _ in range(n)]


def chains(n, length, seed):
    flat = sentences(n * length, seed)
    return [flat[i : i + length] for i in range(0, len(flat), length)]


@pytest.fixture(scope="module")
def client():
    with dask_client(TWO) as c:
        c.wait_for_workers(2, timeout=60)
        yield c


def loaded(tiny, executor=None):
    return {
        "encoder": embeddings.load_encoder(executor=executor),
        "nli": classifiers.load_nli(tiny["nli"], executor=executor),
        "lm": perplexity.load_lm(tiny["lm"], executor=executor),
        "grammar": classifiers.load_grammar(tiny["cola"], executor=executor),
    }


def test_the_suite_has_the_same_bits_on_a_cluster(client, tiny):
    h, s, r = chains(6, 3, 1), chains(6, 4, 2), chains(6, 3, 3)
    here, there = (reasoning.roscoe(h, s, r, **loaded(tiny, e), block=4) for e in (None, TWO))
    assert here.shape == (6, 20)
    np.testing.assert_array_equal(here.to_numpy(), there.to_numpy())


def test_vectors_survive_a_killed_worker(client):
    "SIGKILL to one of two workers while batches run: the same bits, and none missing."
    texts = sentences(150, 4)
    here = embeddings.load_encoder().sentences(texts)
    victim = sorted(client.run(os.getpid).values())[0]
    killed = threading.Event()
    there = embeddings.load_encoder(executor=TWO)
    there.sentences(texts[:8])  # the workers have the model
    threading.Timer(0.3, lambda: (os.kill(victim, signal.SIGKILL), killed.set())).start()
    rounds = [there.sentences(texts)]
    while not killed.is_set():
        rounds.append(there.sentences(texts))
    for found in rounds:
        np.testing.assert_array_equal(found, here)
    client.wait_for_workers(2, timeout=60)
    assert victim not in client.run(os.getpid).values()


def test_an_executor_goes_with_a_name(tiny):
    import transformers

    with pytest.raises(ValueError, match="load_encoder: executor must go with a model's name.*a loaded Encoder"):
        embeddings.load_encoder(embeddings.load_encoder(), executor=TWO)
    pair = (
        transformers.AutoModelForSequenceClassification.from_pretrained(tiny["nli"]).eval(),
        transformers.AutoTokenizer.from_pretrained(tiny["nli"]),
    )
    with pytest.raises(TypeError, match="only a model that was loaded by its name can be sent"):
        pickle.dumps(classifiers.NLI("own", *pair, index=2, budget=1024))


def test_any_number_of_threads_gives_the_same_bits():
    texts = sentences(60, 7)
    by_default = embeddings.load_encoder().sentences(texts)
    for workers in (1, 2, 3):
        encoder = embeddings.load_encoder(executor=Executor(workers=workers))
        np.testing.assert_array_equal(encoder.sentences(texts), by_default, err_msg=f"{workers} workers")
