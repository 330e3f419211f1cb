"""The oldest versions that each extra promises, as the index has them, laid before those that are here, and used.

What is pinned (`==`) promises no other version. Where the oldest is what is here already, the other tests have used it.
"""

import json
import re
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import ENV, ROOT
from packaging.requirements import Requirement
from packaging.version import InvalidVersion, Version

EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
USES = {  # extra -> its smallest use, in a folder of its own
    "local": """
from mhbench.records import weights
import xllamacpp
[weights._installed_part("gemma-3-270m", *part) for part in weights.WEIGHTS["gemma-3-270m"].parts]
""",
    "metrics": """
from mhbench.encode.bertscore import load_scorer
from mhbench.encode.embeddings import load_encoder
from mhbench.encode.roscoe import rouge
a, b = load_encoder().sentences(["He sleeps.", "He drinks."])
assert 0.1 < a @ b < 0.9
assert load_scorer()(["a b"], ["a b"]).f1[0] == 1 == rouge(["He sleeps"], ["He sleeps"]).to_numpy().min()
""",
    "sources": """
import io, pooch, pyAesCrypt, tqdm, zstandard
from mhbench.records.database import corpora
from mhbench.studies.mentat.questions import decrypt
out = io.BytesIO()
pyAesCrypt.encryptStream(io.BytesIO(b"x" * 99), out, "p", 1024)
assert decrypt(out.getvalue(), "p", "file") == b"x" * 99 and corpora()
assert zstandard.decompress(zstandard.compress(b"y")) == b"y" and pooch.HTTPDownloader(progressbar=True)
""",
    "excel": """
import pandas as pd
from mhbench.records.table import read_table
pd.DataFrame({"a": [1, 2]}).to_excel("t.xlsx", index=False)
assert [row["a"] for _, row in read_table("t.xlsx").rows] == ["1", "2"]
""",
    "dask": """
from mhbench.encode.loading import Executor, map_batches
if __name__ == "__main__":
    assert map_batches(sorted, ["ba", "c"], Executor(kind="dask", workers=1)) == [["a", "b"], ["c"]]
""",
    "corpus": """
from mhbench.corpus.splits import near_duplicates
from mhbench.records.schema import Item
of = dict(study="s", task="open", source="t", question="What is asked here twice?", key=["x"])
items = [Item(item_id=i, **of) for i in "ab"]
assert list(near_duplicates(items)["item_id"]) == ["b"]
""",
    "pipeline": """
import dvc.repo, jupyterlab, papermill
from mhbench.tools import edit
import nbformat
cell = nbformat.v4.new_code_cell("x = 1", metadata={"tags": ["parameters"]})
nbformat.write(nbformat.v4.new_notebook(cells=[cell, nbformat.v4.new_code_cell("assert x == 2")]), "n.ipynb")
how = dict(kernel_name="python3", language="python", progress_bar=False)
papermill.execute_notebook("n.ipynb", "out.ipynb", {"x": 2}, **how)
""",
    "docs": """
from pathlib import Path
from sphinx.cmd.build import main
Path("conf.py").write_text("extensions = ['myst_nb', 'sphinx-mathjax-offline']; html_theme = 'pydata_sphinx_theme'")
Path("index.md").write_text("# A")
assert main(["-q", ".", "out"]) == 0 and Path("out/index.html").exists()
""",
}
USES["annotate"] = USES["excel"]
PINNED = {"dev", "qwen", "mpnet"}


def pip(*words: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "pip", *words]
    return subprocess.run(command, env=ENV, capture_output=True, text=True, timeout=300)


def oldest(requirement: Requirement) -> Version:
    "The oldest release of the index that a requirement allows."
    listed = re.search("Available versions: (.*)", pip("index", "versions", requirement.name).stdout)
    if listed is None:
        pytest.skip("no package index answers")
    found = []
    for text in listed[1].split(", "):
        try:
            found.append(Version(text))
        except InvalidVersion:  # older than the rule for versions
            continue
    return min(v for v in found if v in requirement.specifier)


def test_every_extra_has_a_use():
    assert set(USES) | PINNED == set(EXTRAS)
    floors = [r for extra in USES for r in map(Requirement, EXTRAS[extra])]
    assert all([s.operator for s in r.specifier] == [">="] for r in floors), "one lower bound each"


@pytest.mark.parametrize("extra", sorted({(*EXTRAS[extra], USES[extra]): extra for extra in USES}.values()))
def test_the_oldest_versions_of_an_extra_resolve_and_work(extra, tmp_path):
    needed = [*map(Requirement, EXTRAS[extra])]
    report = tmp_path / "report.json"
    resolve = lambda: pip(
        "install", "--dry-run", "--quiet", "--report", str(report), *(f"{name}=={v}" for name, v in pins.items())
    )
    pins = {r.name: next(iter(r.specifier)).version for r in needed}  # where the index has the lower bound itself
    if (resolved := resolve()).returncode:
        with ThreadPoolExecutor(len(needed)) as pool:  # the index answers several at once
            pins = dict(zip(pins, pool.map(oldest, needed)))
        resolved = resolve()
    assert resolved.returncode == 0, resolved.stderr[-2000:]
    chosen = [d["metadata"] for d in json.loads(report.read_text(encoding="utf-8"))["install"]]
    older = [f"{d['name']}=={d['version']}" for d in chosen]  # and what goes with them
    if not older:
        return  # what is here: every other test uses it
    target = tmp_path / "older"
    done = pip("install", "--quiet", "--no-deps", "--no-compile", "--target", str(target), *older)
    assert done.returncode == 0, done.stderr[-2000:]
    check = "".join(
        f"assert version({name!r}) in SpecifierSet('=={v}'), version({name!r})\n" for name, v in pins.items()
    )
    imports = "from importlib.metadata import version\nfrom packaging.specifiers import SpecifierSet\n"
    (tmp_path / "use.py").write_text(f"{imports}{check}{USES[extra]}")
    path = {"PYTHONPATH": f"{target}:{ROOT}"}
    used = subprocess.run(
        [sys.executable, "use.py"], cwd=tmp_path, env=ENV | path, capture_output=True, text=True, timeout=300
    )
    assert used.returncode == 0, f"{', '.join(older)}: {used.stderr[-3000:]}"
