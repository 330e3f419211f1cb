"""Runs of stages with other values of their parameters than the demo's, which varied.yaml has.

python tests/varied.py RESULTS     # make golden/varied again from the demo's results, after the differences were read
"""

import contextlib
import hashlib
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

import yaml
from faults.server import FaultServer, completion
from golden_tables import FOLDER, Table, tables, write
from here import stages_here

VARIED: dict[str, dict] = yaml.safe_load(Path(__file__).with_name("varied.yaml").read_text(encoding="utf-8"))


def answered(n: int, body: dict):
    "An answer that is drawn by the prompt and the seed: a value of each field that is wanted, or some words."
    asked = json.dumps(body["messages"]) + str(body.get("seed", ""))
    k = int(hashlib.sha256(asked.encode()).hexdigest(), 16)
    fields = body.get("response_format", {}).get("json_schema", {}).get("schema", {}).get("properties", {})
    verdict = {
        name: f["enum"][(k >> j) % len(f["enum"])] if "enum" in f else k % 101
        for j, (name, f) in enumerate(fields.items())
    }
    return lambda _: (200, completion(body, json.dumps(verdict) if fields else f"What helps in case {k % 101}?"))


def left_by(place: str, results: Path, given: dict) -> dict[str, dict[str, Table]]:  # stage -> study/table -> rows
    "What one run of a stage leaves, in this process, from what the stages before it left in `results`."
    from mhbench.run.execute import run_stage

    stage, _, study = place.partition("/")
    with (
        tempfile.TemporaryDirectory() as folder,
        stages_here(),
        open(os.devnull, "w") as nowhere,
        FaultServer(every=answered) as server,
    ):
        if set(given.get("judges", ())) == {"asked"}:
            model = {"endpoint": "here", "served": "m", "lineage": "m"}
            if given.get("repeats", 1) > 1:
                model["sampling"] = {"seed": 1}  # each repetition has another
            here = {"kind": "openai", "base_urls": [server.url]}
            given = given | {"entries": {"asked": model}, "endpoints": {"here": here}, "cache": "", "replay": "use"}
        trial = Path(folder) / "results"
        shutil.copytree(results, trial)
        for file in trial.joinpath(place).glob("*.parquet"):
            file.unlink()
        with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
            run_stage(*place.split("/"), overrides=given | {"results": str(trial)}, here=True)
        left = tables(trial).get(stage, {})
    dated = f"{study}/served"  # has the day
    return {stage: {name: rows for name, rows in left.items() if name.startswith(study) and not name.startswith(dated)}}


if __name__ == "__main__":
    found: dict[str, dict[str, Table]] = {}
    for place, given in VARIED.items():
        for stage, left in left_by(place, Path(sys.argv[1]).resolve(), given).items():
            found.setdefault(stage, {}).update(left)
    write(found, FOLDER / "varied")
