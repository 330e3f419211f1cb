"A small repository to break: the package and the stages of this one, parameters and results of its own."

from pathlib import Path

import yaml

from mhbench.run.graph import graph, selective
from mhbench.run.params import goes_through

ROOT = Path(__file__).resolve().parent.parent.parent


class House:
    "`params` is what params.yaml says; `write` writes it again, `lay` puts records where a stage would have."

    def __init__(self, top: Path):
        self.top = top
        for name in ("dvc.yaml", "nbs", "mhbench", "data"):
            (top / name).symlink_to(ROOT / name)
        (top / "params.yaml").touch()  # by which the folder is found
        files = [(ROOT / name).read_text(encoding="utf-8") for name in ("params.yaml", "run.yaml")]
        self.params = yaml.safe_load("\n".join(files))  # in one file
        self.write()

    def write(self):
        "params.yaml as it is now, with the lists that follow from the rest."
        for stage in selective(graph(ROOT)):
            self.params["run"][stage] = goes_through(self.params, stage)
        (self.top / "params.yaml").write_text(yaml.safe_dump(self.params, sort_keys=False), encoding="utf-8")

    def only(self, *studies: str):
        "Run these studies, and no others; no file of ratings is read."
        self.params["run"] |= {"studies": list(studies), "ratings": []}

    def lay(self, stage: str, name: str, records: list, *where: str):
        from mhbench.records.database import stage_folder
        from mhbench.records.schema import Rating, Response, write_records

        file = self.top / "results" / stage_folder(f"text/{stage}", *where) / f"{name}.parquet"
        if (stage, name) == ("prepare", "items"):  # which also writes who answered and who rated: nobody
            for other, record in (("recorded", Response), ("ratings", Rating)):
                write_records([], file.with_name(f"{other}.parquet"), record)
        return write_records(records, file, type(records[0]))
