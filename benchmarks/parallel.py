"""One seam, two executors: the same work on threads and on a Dask cluster of this machine; prints a table and a ratio.

    python benchmarks/parallel.py [--items 4000]

The work is a matrix product an item (BLAS on one thread), which releases the interpreter's lock as encoders do. The
results must be equal.
"""

import argparse
import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import numpy as np

from mhbench.encode.loading import Executor, dask_client, map_batches

p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
p.add_argument("--items", type=int, default=4000)
a = p.parse_args()


matrix = np.random.default_rng(0).normal(size=(512, 512)).astype("float32")


def work(batch):
    x = np.random.default_rng(batch[0]).normal(size=(len(batch), 512)).astype("float32")
    for _ in range(20):
        x = np.tanh(x @ matrix)
    return [float(v) for v in x.sum(axis=1)]


def timed(executor):
    began = time.perf_counter()
    out = map_batches(work, [range(i, min(i + 50, a.items)) for i in range(0, a.items, 50)], executor)
    return out, time.perf_counter() - began


if __name__ == "__main__":
    one, t1 = timed(Executor(workers=1))
    two, t2 = timed(Executor(workers=2))
    began = time.perf_counter()
    cluster = Executor(kind="dask", workers=2)
    with dask_client(cluster) as client:
        client.wait_for_workers(2)
        start = time.perf_counter() - began
        dask, t3 = timed(cluster)
    print(
        f"{a.items} items in batches of 50, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n\n| executor | s"
        " |\n|---|---|"
    )
    print(
        f"| one thread | {t1:.2f} |\n| two threads | {t2:.2f} |\n| Dask, two workers | {t3:.2f}, and {start:.2f} to"
        " start the cluster |"
    )
    print(f"\nequal results: {one == two == dask}; ratio: Dask / two threads = {(t3 + start) / t2:.1f} in time")
