"""How fast the cache takes answers and gives them back, alone and with four processes; prints a table and a ratio.

python benchmarks/cache.py [--rows 20000]
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from mhbench.ask.cache import Cache, Row

p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
p.add_argument("--rows", type=int, default=20_000)
p.add_argument("--write", help=argparse.SUPPRESS)
a = p.parse_args()


def rows(n, start=0):
    value = json.dumps(
        {
            "text": "A",
            "letter_logprobs": {c: -1.5 for c in "ABCD"},
            "prompt_tokens": 180,
            "completion_tokens": 1,
            "cost_usd": 3e-5,
        }
    )
    return [
        Row(hashlib.sha256(str(start + i).encode()).hexdigest(), "m", "e", "ok", True, 0.0, value) for i in range(n)
    ]


def put(cache, batch, size):
    began = time.perf_counter()
    for i in range(0, len(batch), size):
        cache.put_many(batch[i : i + size])
    return len(batch) / (time.perf_counter() - began)


if a.write:
    path, start = a.write.rsplit(":", 1)
    with Cache(path) as c:
        put(c, rows(a.rows, int(start)), 16)
    sys.exit()

print(f"{a.rows} rows, load {os.getloadavg()[0]:.1f}\n\n| step | rows/s |\n|---|---|")
with tempfile.TemporaryDirectory() as d:
    rates = {}
    for size in (1, 16, 64):
        with Cache(f"{d}/{size}.sqlite") as c:
            rates[size] = put(c, rows(a.rows), size)
        print(f"| commit {size} at a time | {rates[size]:,.0f} |")
    with Cache(f"{d}/64.sqlite") as c:
        keys = [r.key for r in rows(a.rows)]
        began = time.perf_counter()
        found = sum(len(c.get_many(keys[i : i + 256])) for i in range(0, len(keys), 256))
        print(f"| look up 256 at a time | {found / (time.perf_counter() - began):,.0f} |")
    began = time.perf_counter()
    ps = [
        subprocess.Popen([sys.executable, __file__, "--rows", str(a.rows), "--write", f"{d}/four.sqlite:{k * a.rows}"])
        for k in range(4)
    ]
    ok = [q.wait() for q in ps]
    took = time.perf_counter() - began
    with Cache(f"{d}/four.sqlite") as c:
        n = len(c)
    print(f"| four processes, 16 at a time, start-up included | {n / took:,.0f} |")
    print(
        f"\n{n} of {4 * a.rows} rows of the four are there, exit codes {ok}; ratio: 16 at a time / 1 at a time ="
        f" {rates[16] / rates[1]:.1f}; {Path(f'{d}/64.sqlite').stat().st_size / a.rows:.0f} bytes a row"
    )
