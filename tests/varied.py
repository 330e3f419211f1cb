"""Runs of stages with other values of their parameters than the demo's, which varied.yaml has.

python tests/varied.py RESULTS     # make golden/varied again from the demo's results, after the differences were read
"""

import contextlib
import os
import shutil
import sys
import tempfile
from pathlib import Path

import yaml
from golden_tables import FOLDER, Table, tables, write
from here import stages_here

VARIED: dict[str, dict] = yaml.safe_load(Path(__file__).with_name("varied.yaml").read_text(encoding="utf-8"))


def left_by(place: str, results: Path, given: dict) -> dict[str, dict[str, Table]]:  # stage -> study/table -> rows
    "What one run of a stage leaves, in this process, from what the stages before it left in `results`."
    from mhbench.run.execute import run_stage

    stage, _, study = place.partition("/")
    with tempfile.TemporaryDirectory() as folder, stages_here(), open(os.devnull, "w") as nowhere:
        trial = Path(folder) / "results"
        shutil.copytree(results, trial)
        for file in trial.joinpath(place).glob("*.parquet"):
            file.unlink()
        with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
            run_stage(*place.split("/"), overrides=given | {"results": str(trial)}, here=True)
        left = tables(trial).get(stage, {})
    return {stage: {name: rows for name, rows in left.items() if name.startswith(study)}}


if __name__ == "__main__":
    found: dict[str, dict[str, Table]] = {}
    for place, given in VARIED.items():
        for stage, left in left_by(place, Path(sys.argv[1]).resolve(), given).items():
            found.setdefault(stage, {}).update(left)
    write(found, FOLDER / "varied")
