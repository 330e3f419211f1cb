"""What `dvc repro` costs where every answer and vector is stored: with no work, after one changed parameter, and with
all of it again.

    python benchmarks/repro.py [FOLDER ...] [--stage STAGE] [--change score.n_boot]

A folder is a working folder with a finished run (`make repro`); this one if none is named. Several are measured in
turn, so that a ratio is of runs beside each other. A whole number that `--change` names is raised by one in
`params.yaml`; that file, and the run with it, are put back after the measurement. CPU seconds are those of DVC, of
all stages, and of the process that stages are copied from, for which this one waits (Linux).
"""

import argparse
import contextlib
import ctypes
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from ruamel.yaml import YAML


def adopt_orphans() -> None:
    "Become the parent of those processes whose parent ends before them, so that their CPU seconds are counted."
    PR_SET_CHILD_SUBREAPER = 36
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def measured(folder: Path, words: Sequence[str] = ()) -> tuple[float, float]:
    "CPU and wall seconds of `dvc repro` in a folder, with the package that lies there."
    env = {**os.environ, "PYTHONPATH": str(folder), "PYTHONHASHSEED": "0", "DVC_NO_ANALYTICS": "1"}
    env |= {"TOKENIZERS_PARALLELISM": "false", "DVC_SITE_CACHE_DIR": str(folder / ".mhbench" / "dvc")}
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    dvc = str(Path(sys.executable).parent / "dvc")
    env["PATH"] = f"{Path(dvc).parent}{os.pathsep}{env['PATH']}"
    subprocess.run([dvc, "repro", "--quiet", *words], cwd=folder, env=env, check=True, capture_output=True)
    wall = time.monotonic() - began
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def measured_after(folder: Path, name: str) -> tuple[float, float]:
    "The same, after a whole number of `params.yaml` was raised by one; the folder is left as it was."
    file, yaml = folder / "params.yaml", YAML()
    text = file.read_text(encoding="utf-8")
    whole = section = yaml.load(text)
    *path, last = name.split(".")
    for key in path:
        section = section[key]
    section[last] += 1
    try:
        with file.open("w", encoding="utf-8") as out:
            yaml.dump(whole, out)
        return measured(folder)
    finally:
        file.write_text(text, encoding="utf-8")
        measured(folder)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folders", nargs="*", type=Path, default=[Path.cwd()])
    p.add_argument("--stage", action="append", default=[], help="this one alone, instead of all; may be said again")
    p.add_argument("--change", action="append", default=[], help="run what hangs on this parameter; may be said again")
    p.add_argument("--rounds", type=int, default=2)
    a = p.parse_args()
    adopt_orphans()
    runs = {f"-f -s {s}": partial(measured, words=["-f", "-s", s]) for s in a.stage}
    runs |= {f"after {name}": partial(measured_after, name=name) for name in a.change}
    runs = runs or {"with no work": measured, "-f": partial(measured, words=["-f"])}
    for name, run in runs.items():
        best: dict[Path, tuple[float, float]] = {}
        for _ in range(a.rounds):
            for folder in a.folders:
                now = run(folder.resolve())
                best[folder] = min(best.get(folder, now), now)
        first = best[a.folders[0]][0]
        for folder, (cpu, wall) in best.items():
            print(f"dvc repro {name:24} {cpu:7.1f} CPU s {wall:7.1f} s  {cpu / first:5.2f}  {folder}", flush=True)


if __name__ == "__main__":
    main()
