"Batches: a real cluster of two workers, a worker killed in the middle."

import contextlib
import os
import signal
import time
from types import SimpleNamespace

import numpy as np
import pytest

from mhbench.encode.loading import Executor, dask_client, held, map_batches


def centred(batch):
    "A result whose last bits depend on what shares the batch."
    b = np.asarray(batch, dtype="float32")
    return (b - b.mean()).tolist()


def slow_centred(batch):
    time.sleep(0.1)
    return centred(batch)


TWO = Executor(kind="dask", workers=2)


@pytest.fixture(scope="module")
def client():
    pytest.importorskip("dask.distributed", reason="the extra dask is not installed")
    with dask_client(TWO) as c:
        c.wait_for_workers(2, timeout=60)
        yield c


@pytest.fixture(scope="module")
def numbers():
    return np.random.default_rng(1).normal(size=(40, 16)).tolist()  # batches


def test_a_cluster_gives_the_numbers_of_threads(client, numbers):
    assert map_batches(centred, numbers, TWO) == map_batches(centred, numbers, Executor(workers=2))


def test_every_worker_takes_part(client, numbers):
    out = map_batches(lambda batch: os.getpid(), numbers, TWO)
    assert len(out) == len(numbers) and set(out) == set(client.run(os.getpid).values())
    assert len(set(map_batches(lambda batch: os.urandom(8), [[1.0]] * 4, TWO))) == 4  # equal ones, too


def test_an_error_on_a_worker_is_raised_here(client):
    with pytest.raises(ZeroDivisionError):
        map_batches(lambda x: 1 / x, [1.0, 0.0], TWO)


def test_a_killed_worker_loses_nothing(client, numbers):
    "SIGKILL to one of two workers while batches run: the same numbers, and none missing."
    import threading

    pids = client.run(os.getpid)
    victim = sorted(pids.values())[0]
    killed = threading.Event()

    def kill():
        os.kill(victim, signal.SIGKILL)
        killed.set()

    timer = threading.Timer(0.4, kill)
    timer.start()
    out = map_batches(slow_centred, numbers, TWO)  # 40 batches, 2 s on two workers
    timer.join()
    assert killed.is_set()
    assert out == map_batches(centred, numbers, Executor())
    client.wait_for_workers(2, timeout=60)
    assert victim not in client.run(os.getpid).values(), "the worker that was killed is another process now"


def test_a_cluster_starts_when_it_is_first_needed_and_lasts_as_long_as_its_block(monkeypatch):
    distributed, started = pytest.importorskip("dask.distributed"), []
    ended = contextlib.closing(SimpleNamespace(close=lambda: started.append("ended")))
    monkeypatch.setattr(distributed, "LocalCluster", lambda **_: started.append("started") or ended)
    monkeypatch.setattr(distributed, "Client", contextlib.nullcontext)
    executor = Executor(kind="dask", workers=1)
    model = SimpleNamespace(executor=executor)
    with held(model, None):
        assert started == [], "what is stored needs no cluster"
        with held(model), dask_client(executor) as first:
            pass
        with dask_client(executor) as second:
            assert first is second and started == ["started"]
    assert started == ["started", "ended"]
    with dask_client(executor):
        assert started == ["started", "ended", "started"]
    assert started == ["started", "ended", "started", "ended"]
