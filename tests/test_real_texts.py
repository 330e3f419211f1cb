"""What leaves a run over each real release: no twelve words in a row that one question, answer or comment has alone.

The releases carry no licence for their texts, or one that asks that they stay apart; the run scores recorded answers
and asks the bundled encoder. `-s` prints what was searched and held back.
"""

import re
import shutil
from collections import defaultdict
from functools import cache

import pytest
from conftest import BIN, ROOT, listed, mhbench, run
from leaks import unpacked
from test_canary import changed, everything, outputs
from test_real_studies import release  # noqa: F401  MENTAT's password

from mhbench.records.schema import Item, Rating, Response, read_records

WORDS = 12
OPTIONS = {"mentat": "sets=[D0_results]", "mhqa": "key=number", "counselingbench": "strict=false"}


def in_a_row(text: str) -> set[int]:
    "Hashes of every twelve words in a row."
    words = re.findall(r"\w+", text.casefold())
    return {hash(tuple(words[k : k + WORDS])) for k in range(len(words) - WORDS + 1)}


def own_runs(folder, study: str) -> set[int]:
    "Twelve words in a row of the texts of one item alone."
    of: dict[int, set[str]] = defaultdict(set)

    def note(item: str, *texts: str | None):
        for text in texts:
            for found in in_a_row(text or ""):
                of[found].add(item)

    prepared = folder / "results" / "text" / study / "prepare"
    for i in read_records(prepared / "items.parquet", Item):
        note(i.base, " ".join([*i.context.values(), i.question]), i.question, i.rationale, *i.options, *i.stems, *i.key)
        note(i.base, *i.context.values(), *i.variant.values())
    for r in read_records(prepared / "recorded.parquet", Response):
        note(r.item_id, r.text, r.reasoning)
    for r in read_records(prepared / "ratings.parquet", Rating):
        note(r.item_id, r.comment)
    return {found for found, items in of.items() if len(items) == 1}


@cache
def own_sources() -> set[int]:
    "Twelve words in a row of what git tracks here."
    texts = [f for f in listed(ROOT) if f.suffix in (".py", ".ipynb", ".md", ".yaml", ".csv", ".tsv", ".txt", ".html")]
    return set().union(*(in_a_row(f.read_text(encoding="utf-8", errors="replace")) for f in texts))


def quoted(files, theirs: set[int]) -> dict[str, int]:
    "The files that hold some of it, packed or not, with how much."
    found: dict[str, int] = {}
    for file in files:
        held = set()
        for part in unpacked(file.read_bytes()):
            if b"\0" not in part[:1000]:
                held |= theirs & in_a_row(part.decode("utf-8", errors="replace"))
        if held:
            found[str(file)] = len(held)
    return found


@pytest.mark.parametrize("study", OPTIONS)
def test_nothing_that_leaves_a_run_quotes_a_release(study, clone, datasets, tmp_path, monkeypatch, request):
    if study == "mentat":
        request.getfixturevalue("release")
    folder = tmp_path / "mhbench"
    shutil.copytree(clone, folder, symlinks=True)
    params = folder / "params.yaml"
    params.write_text(params.read_text(encoding="utf-8").replace("n_boot: 50", "n_boot: 5"), encoding="utf-8")
    source = datasets / study
    if study == "counselingbench":  # recorded answers of some models: every file has all questions
        (tmp_path / "outputs_t").mkdir()
        for file in sorted((source / "outputs_t").glob("*.csv"))[::4]:
            shutil.copy(file, tmp_path / "outputs_t")
        source = tmp_path / "outputs_t"
    said = mhbench("import", study, source, "--option", OPTIONS[study], cwd=folder)
    said += mhbench("select", "--studies", study, "--models", "minilm", "--items", "20", cwd=folder)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("MHBENCH_ROOT", str(folder))
    everything(folder)
    items = read_records(folder / "results" / "text" / study / "prepare" / "items.parquet", Item)
    assert items and all(i.protected for i in items)
    theirs = own_runs(folder, study) - own_sources()
    assert len(theirs) > 100

    run(BIN / "dvc", "commit", "-q", "-f", cwd=folder)  # what ran in this process is the run's
    for kind, more in (("eee", ()), ("inspect", ()), ("hf", ("--license", "other"))):
        mhbench("export", kind, tmp_path / "out" / kind, *more, cwd=folder)
    for word in ("cite", "summary"):
        (tmp_path / "out" / f"{word}.txt").write_text(mhbench(word, cwd=folder), encoding="utf-8")
    refused = mhbench("publish", "--to", tmp_path / "out" / "reports", cwd=folder, ok=False)
    assert "must be free to publish" in refused
    run(BIN / "dvc", "remote", "add", "-q", "-f", "away", tmp_path / "away", cwd=folder)
    run(BIN / "dvc", "push", "-q", "-r", "away", cwd=folder)

    leaves = {
        "git": [f for f in changed(folder) if f.is_file()],
        "dvc push": [f for f in (tmp_path / "away").rglob("*") if f.is_file()],
        "exports": [f for f in (tmp_path / "out").rglob("*") if f.is_file()],
    }
    found = {where: quoted(files, theirs) for where, files in leaves.items()}
    stays = quoted(outputs(folder, pushed=False), theirs)
    n = {where: len(files) for where, files in leaves.items()}
    print(f"\n{study}: {len(items)} items, all held back; {len(theirs)} runs of {WORDS} words; files searched {n}")
    print(
        f"  files with any of them: { ({w: len(f) for w, f in found.items()}) }; of those that stay here: {len(stays)}"
    )
    assert stays, "the texts are found where they are"
    assert not any(found.values()), found
