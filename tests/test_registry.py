"""A study is one folder: what it registers is found, and added where it says."""

import json
import sys

import pandas as pd
import pytest
import yaml

import mhbench.studies
from mhbench.corpus.load import load_corpus
from mhbench.registry import added, owner, read_yaml, references, studies
from mhbench.report.page import collect
from mhbench.run.execute import run_stage
from mhbench.run.inputs import record_inputs

SIXTH = '''
import pandas as pd

from mhbench.records.schema import Item
from mhbench.registry import RegisteredStudy

STUDY = RegisteredStudy(
    name="{name}", tables={{"score": "study:count"}}, loaders={{"sixth": "study:load"}}
)


def count(stage, *, n_boot, **found):
    """How many answered

    One row a model.
    """
    rows = [(model, n_boot) for model in stage.models]
    yield stage.table("sixth", pd.DataFrame(rows, columns=["model", "n_boot"]), "Who answered")


def load(path):
    return [Item(item_id="1", study="sixth", task="open", question="Who?", source="made here", group="case")]
'''


@pytest.fixture
def sixth(tmp_path, monkeypatch):
    "A study in a folder of its own, outside of the package."

    def make(name="sixth"):
        (tmp_path / "own" / "sixth").mkdir(parents=True)
        (tmp_path / "own" / "sixth" / "__init__.py").touch()
        (tmp_path / "own" / "sixth" / "study.py").write_text(SIXTH.format(name=name))
        monkeypatch.setattr(mhbench.studies, "__path__", list(mhbench.studies.__path__))
        monkeypatch.setenv("MHBENCH_STUDIES", str(tmp_path / "own"))
        return tmp_path / "own"

    yield make
    for module in [m for m in sys.modules if m.startswith("mhbench.studies.sixth")]:
        del sys.modules[module]


def test_every_reference_of_every_study_leads_somewhere():
    for study in studies():
        assert study.folder.name == study.name and (study.folder / "recipe.yaml").exists()
        named = [*study.loaders.values(), *study.parameters.values(), *study.tables.values()]
        assert named and all(callable(study.find(reference)) for reference in named)


def test_a_sixth_study_adds_a_table_to_a_general_stage(root, sixth, tmp_path, monkeypatch):
    sixth()
    monkeypatch.setenv("MHBENCH_ROOT", str(root))
    results = tmp_path / "results"
    p = yaml.safe_load((root / "params.yaml").read_text(encoding="utf-8"))
    theirs = p["studies"]["mhqa"]
    few = {"path": "mhbench/studies/mhqa/demo", "sha256": None, "n_items": 4, "answers": {}, "ratings": None}
    p["studies"]["ward"] = {k: theirs[k] for k in ("generate", "score")} | {"prepare": theirs["prepare"] | few}
    params = tmp_path / "params.yaml"
    params.write_text(yaml.safe_dump(p), encoding="utf-8")
    run = {"run": {"studies": ["ward"], "models": ["minilm"]}}
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(run), encoding="utf-8")
    for stage, model, more in (("prepare", None, {}), ("generate", "minilm", {}), ("score", None, {"n_boot": 20})):
        run_stage(stage, "ward", model, params=params, overrides={"results": str(results), **more})
    kept = pd.read_parquet(results / "studies/ward/score/sixth.parquet")
    assert kept.to_dict("list") == {"model": ["minilm"], "n_boot": [20]}
    told = json.loads((results / "studies/ward/score/contents.json").read_text())["tables"]
    [entry] = [t for t in told if t["name"] == "sixth"]
    assert entry["about"]["heading"] == "How many answered" and entry["about"]["text"] == "One row a model."
    [section] = collect(results, tmp_path / "figures", [("score", "ward")], root / "nbs/stages")
    [shown] = [t for t in section.tables if t.caption == "Who answered"]
    assert shown.about.heading == "How many answered"
    assert owner("mhqa") == "mhqa" and references("tables", "score", owner("mhqa")) == []


def test_a_folder_of_studies_is_found_while_it_is_named(sixth):
    before = [study.name for study in studies()]
    sixth()
    assert [study.name for study in studies()] == sorted([*before, "sixth"])
    assert added("loaders", "sixth")[0].__name__ == "load"


def test_a_record_that_does_not_fit_is_refused_with_its_place_in_the_loader(sixth, tmp_path):
    sixth()
    with pytest.raises(ValueError, match=r"error for Item group .*the loader \(study.py:\d+\)"):
        load_corpus("sixth", tmp_path)


def test_a_study_has_the_name_of_its_folder(sixth):
    sixth("seventh")
    with pytest.raises(ValueError, match="must have the name of its folder; got 'seventh' in sixth"):
        studies()


def test_a_file_that_a_study_names_is_an_input(house, sixth):
    sixth()
    house.only("mhqa")
    house.params["studies"]["mhqa"]["keys"]["passages"] = "notes.txt"
    (house.top / "notes.txt").write_text("one")
    house.write()
    before = record_inputs()["keys/mhqa.json"]
    assert "notes.txt" in before["files"] and record_inputs()["keys/mhqa.json"] == before
    (house.top / "notes.txt").write_text("two")
    assert record_inputs()["keys/mhqa.json"] != before


def test_a_name_that_stands_twice_is_shown_where_it_stands_again(tmp_path):
    file = tmp_path / "release.yaml"
    file.write_text("title: a\nfiles:\n  first: 1\n  second: 2\n\n  first: 3\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"the name 'first' more than once: take one out \(line 6\)"):
        read_yaml(file, "f")
    file.write_text("title: a\nfiles: {}\n# files\nlicence: b\ntitle: c\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"the name 'title' more than once: take one out \(line 5\)"):
        read_yaml(file, "f")
