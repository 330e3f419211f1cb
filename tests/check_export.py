"""Is the package in step with its notebooks, and are the notebooks clean?  Exits 1 and names what is not.

The notebooks and the package are copied to a temporary folder, exported and cleaned there, and compared.
"""

import filecmp
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def differences() -> list[str]:
    with tempfile.TemporaryDirectory() as d:
        copy = Path(d) / ROOT.name
        copy.mkdir()
        for name in ("settings.ini", "pyproject.toml", "ruff.toml", "README.md"):
            shutil.copy(ROOT / name, copy / name)
        for name in ("nbs", "mhbench"):
            shutil.copytree(
                ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints")
            )
        bin = Path(sys.executable).parent
        for command in (["nbdev_clean"], ["ruff", "format", "nbs"], ["nbdev_export"]):
            subprocess.run([bin / command[0], *command[1:]], cwd=copy, check=True, stdout=subprocess.DEVNULL)
        out = []
        for pattern, remedy in (("nbs/**/*.ipynb", "make export"), ("mhbench/**/*.py", "make export")):
            files = {
                p.relative_to(base)
                for base in (ROOT, copy)
                for p in base.glob(pattern)
                if ".ipynb_checkpoints" not in p.parts
            }
            for f in sorted(files):
                if not (ROOT / f).exists():
                    out.append(f"{f} is missing: run {remedy}")
                elif not (copy / f).exists():
                    out.append(f"{f} has no notebook: delete it")
                elif not filecmp.cmp(ROOT / f, copy / f, shallow=False):
                    out.append(f"{f} is out of step: run {remedy}")
        return out


if __name__ == "__main__":
    found = differences()
    print("\n".join(found) or "the package is in step with its notebooks")
    sys.exit(bool(found))
