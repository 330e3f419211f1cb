"""What `dvc repro` costs where every answer and vector is stored: with no work, and with all of it again.

    python benchmarks/repro.py [FOLDER ...] [--stage STAGE]

A folder is a working folder with a finished run (`make repro`); this one if none is named. Several are measured in
turn, so that a ratio is of runs beside each other. CPU seconds are those of DVC, of all stages and of the process that
stages are forked from: it outlives the stage that began it, so orphans come back to this process, and are waited for.
"""

import argparse
import ctypes
import os
import resource
import subprocess
import time
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36


def measured(folder: Path, *words: str) -> tuple[float, float]:
    "CPU and wall seconds of `dvc repro` in a folder, with the package that lies there."
    env = {**os.environ, "PYTHONPATH": str(folder), "PYTHONHASHSEED": "0", "DVC_NO_ANALYTICS": "1"}
    env |= {"TOKENIZERS_PARALLELISM": "false", "DVC_SITE_CACHE_DIR": str(folder / ".mhbench" / "dvc")}
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(["dvc", "repro", "--quiet", *words], cwd=folder, env=env, check=True, stderr=subprocess.DEVNULL)
    wall = time.monotonic() - began
    while True:
        try:
            os.wait()
        except ChildProcessError:
            break
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folders", nargs="*", type=Path, default=[Path.cwd()])
    p.add_argument("--stage", action="append", default=[], help="this one alone, instead of all; may be said again")
    p.add_argument("--rounds", type=int, default=2)
    a = p.parse_args()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    runs = {f"-f -s {s}": ["-f", "-s", s] for s in a.stage} or {"with no work": [], "-f": ["-f"]}
    for name, words in runs.items():
        best: dict[Path, tuple[float, float]] = {}
        for _ in range(a.rounds):
            for folder in a.folders:
                now = measured(folder.resolve(), *words)
                best[folder] = min(best.get(folder, now), now)
        first = best[a.folders[0]][0]
        for folder, (cpu, wall) in best.items():
            print(f"dvc repro {name:24} {cpu:7.1f} CPU s {wall:7.1f} s  {cpu / first:5.2f}  {folder}", flush=True)


if __name__ == "__main__":
    main()
