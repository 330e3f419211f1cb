"""What a wheel holds beside the package: the pipeline that `mhbench init` sets up in a folder."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

STAGES = sorted(Path("nbs", "stages").glob("*.ipynb"))
FILES = ("params.yaml", "run.yaml", "dvc.yaml", "params.schema.json", "nbs/stages/mhbench.sh")
PIPELINE = [*map(Path, FILES), *STAGES, *sorted(Path("nbs", "studies").glob("*/results.ipynb"))]


class WithPipeline(build_py):
    def run(self):
        super().run()
        if self.editable_mode:  # the clone has them
            return
        if not STAGES:
            raise SystemExit("mhbench: build the wheel in a clone; here are no nbs/stages")
        for file in PIPELINE:
            target = Path(self.build_lib, "mhbench", "pipeline", file)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)


setup(cmdclass={"build_py": WithPipeline})
