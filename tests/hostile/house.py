"A small repository to break: the package and the stages of this one, parameters and results of its own."

from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent.parent


class House:
    "`params` is what params.yaml says; `write` writes it again, `lay` puts records where a stage would have."

    def __init__(self, top: Path):
        self.top = top
        for name in ("dvc.yaml", "nbs", "mhbench", "data"):
            (top / name).symlink_to(ROOT / name)
        files = [(ROOT / name).read_text(encoding="utf-8") for name in ("params.yaml", "run.yaml")]
        self.params = yaml.safe_load("\n".join(files))  # in one file
        self.write()

    def write(self):
        (self.top / "params.yaml").write_text(yaml.safe_dump(self.params, sort_keys=False), encoding="utf-8")

    def only(self, *studies: str):
        "Run these studies, and no others."
        run = self.params["run"]
        for name in run:
            if name not in ("models", "judges", "subjects", "items"):
                run[name] = [s for s in studies if name == "studies" or name in self.params["studies"][s]]

    def lay(self, stage: str, name: str, records: list, *where: str):
        from mhbench.records.schema import write_records

        file = self.top.joinpath("results", "text", stage, *where, f"{name}.parquet")
        return write_records(records, file, type(records[0]))
