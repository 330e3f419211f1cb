"A command changes the entry that it is about, and no other character of somebody's file."

import difflib

import pytest
import yaml
from conftest import ROOT

from mhbench.run.params import load_params
from mhbench.tools.edit import edit, forget_corpus, import_corpus, replaced, select

PARAMS, RUN = ((ROOT / name).read_text(encoding="utf-8") for name in ("params.yaml", "run.yaml"))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "params.yaml").write_text(PARAMS, encoding="utf-8")
    (tmp_path / "run.yaml").write_text(RUN, encoding="utf-8")
    return tmp_path


def changed(before: str, after: str) -> list[str]:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
    return [x for x in lines if x[0] in "+-" and x[:3] not in ("+++", "---")]


def test_a_selection_changes_its_own_lines_and_goes_back_to_every_character(folder):
    select(["mhqa"], ["minilm"], 20, params=folder / "params.yaml")
    now = (folder / "run.yaml").read_text(encoding="utf-8")
    assert "  studies: [mhqa]\n" in now and "  items: 20   " in now and now.count("#") == RUN.count("#")
    assert (folder / "params.yaml").read_text(encoding="utf-8") == PARAMS
    select(demo=True, params=folder / "params.yaml")
    assert (folder / "run.yaml").read_text(encoding="utf-8") == RUN


@pytest.mark.parametrize(
    ("said", "now"),
    [
        ("  studies: [mentat, psychiatrybench, medqade, counselingbench, mhqa]", "  studies: [mhqa]"),
        ("  studies:  # mine\n      - mentat\n      # and\n      - mhqa\n", "  studies: [mhqa]  # mine\n"),
        ('  "studies": ["mentat", mhqa]   # mine', '  "studies": [mhqa]   # mine'),
    ],
)
def test_however_an_entry_is_written(folder, said, now):
    written = RUN.replace("  studies: [mentat, psychiatrybench, medqade, counselingbench, mhqa]", said, 1)
    after = replaced(written, ("run", "studies"), ["mhqa"])
    assert after == written.replace(said, now, 1) and yaml.safe_load(after)["run"]["studies"] == ["mhqa"]


def test_what_entries_share_is_not_changed_behind_their_back(folder):
    shared = PARAMS.replace("      ratings:\n", "      ratings: &none\n", 1)
    shared = shared.replace("      ratings:\n", "      ratings: *none\n", 1)
    (folder / "params.yaml").write_text(shared, encoding="utf-8")
    with pytest.raises(ValueError, match="without aliases and merged keys; got .*; write them out"):
        edit(folder / "params.yaml", {("studies", "psychiatrybench", "prepare", "ratings"): "r.csv"})
    assert (folder / "params.yaml").read_text(encoding="utf-8") == shared


def test_an_imported_corpus_takes_the_lines_of_its_study_and_gives_them_back(folder):
    (folder / "corpus").mkdir()
    (folder / "corpus" / "x.csv").write_text("id\n1\n", encoding="utf-8")
    with pytest.raises(ValueError, match="must be among mentat, .*; got 'conversations'"):  # no corpus
        import_corpus("conversations", folder / "corpus", params=folder / "params.yaml")
    import_corpus("medqade", folder / "corpus", params=folder / "params.yaml")
    after = (folder / "params.yaml").read_text(encoding="utf-8")
    entry = PARAMS[PARAMS.index("  medqade:\n") : PARAMS.index("  counselingbench:\n")]
    assert {x[1:] for x in changed(PARAMS, after) if x[0] == "-"} <= set(entry.splitlines())
    assert load_params(folder / "params.yaml")["studies"]["medqade"]["prepare"]["sha256"]
    forget_corpus("medqade", params=folder / "params.yaml")
    assert (folder / "params.yaml").read_text(encoding="utf-8") == PARAMS
