"What was accepted in silence, and remedies that were refused themselves."

import copy
import shutil

import pytest
import yaml
from conftest import ROOT

from mhbench.records.answers import load_answers
from mhbench.records.schema import Item
from mhbench.run.params import asked_by, goes_through, load_params, simulated_left_out, stage_parameters
from mhbench.tools.commands import selection
from mhbench.tools.edit import select

PARAMS, RUN = (yaml.safe_load((ROOT / name).read_text(encoding="utf-8")) for name in ("params.yaml", "run.yaml"))


def written(folder, changes):
    p = copy.deepcopy(PARAMS)
    for path, value in changes.items():
        here = p
        *inside, name = path.split(".")
        for part in inside:
            here[part] = here.get(part) or {}
            here = here[part]
        here[name] = value
    (folder / "params.yaml").write_text(yaml.safe_dump(p, sort_keys=False), encoding="utf-8")
    shutil.copy(ROOT / "run.yaml", folder)
    return folder / "params.yaml"


@pytest.mark.parametrize(
    ("entry", "value", "said"),
    [
        ("seed", 10**30, "seed must be 4294967295 or less"),
        ("studies.mhqa.score.marks", {"pass": 7}, "marks.pass must be 1 or less; got 7"),
        ("score.n_boot", 10**12, "n_boot must be 1000000 or less"),
        ("score.groups", {"g": ["gema"]}, "score.groups.g must name models, .* got 'gema' .*; did you mean gemma?"),
        ("studies.mhqa.score.groups", {"g": ["nobody"]}, "groups.g must name models, .*; got 'nobody'"),
        ("studies.mhqa.score.prompt_pairs", {"gemma": "gama"}, "prompt_pairs must name models, .*; got 'gama'"),
        ("studies.mhqa.annotate", {"kind": "agreee"}, "annotate.kind must be one of .*; did you mean agree?"),
    ],
)
def test_what_means_nothing_is_refused(entry, value, said, tmp_path):
    with pytest.raises(ValueError, match=said):
        load_params(written(tmp_path, {entry: value}))


def test_groups_may_name_tables_of_answers_and_the_models_of_a_released_corpus(tmp_path):
    theirs = {"studies.mhqa.prepare.answers": {"student": "s.csv"}, "studies.mhqa.score.groups": {"g": ["student"]}}
    assert load_params(written(tmp_path, theirs))
    brought = {"studies.mhqa.prepare.sha256": "0" * 64, "studies.mhqa.score.groups": {"g": ["their-gpt"]}}
    assert load_params(written(tmp_path, brought))


@pytest.mark.parametrize(
    "broken", ["run: [a\n", "", "run: {studies: [mhqa]}\n", "nur: {}\n", "run:\n  models: [gone]\n", None]
)
def test_a_broken_selection_is_mended_by_the_remedy_that_is_named(broken, tmp_path, capsys):
    params, file = written(tmp_path, {}), tmp_path / "run.yaml"
    file.unlink()
    if broken is not None:
        file.write_text(broken, encoding="utf-8")
    with pytest.raises(ValueError):
        load_params(params)
    select(demo=True, params=params)
    assert load_params(params)["run"] == RUN["run"]
    if broken is not None:
        assert (tmp_path / "run.yaml.before").read_text(encoding="utf-8") == broken
        assert "its former content is in run.yaml.before" in capsys.readouterr().out


def test_what_is_broken_elsewhere_is_not_mended_there(tmp_path):
    params = written(tmp_path, {"seed": "x"})
    before = (tmp_path / "run.yaml").read_bytes()
    with pytest.raises(ValueError, match="seed must be a whole number"):
        select(demo=True, params=params)
    assert (tmp_path / "run.yaml").read_bytes() == before


def test_an_answer_that_stands_twice_is_refused_with_its_file_and_line(tmp_path):
    about = {"study": "s", "task": "multiple_choice", "question": "Which?", "options": ["a", "b"], "source": "here"}
    items = [Item(item_id=i, key=["A"], **about) for i in ("q1", "q2")]
    file = tmp_path / "answers.csv"
    file.write_text("item_id,text\nq1,A\nq2,B\nq1,B\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"got 'q1' again, first in answers.csv.*2 \(answers.csv.*4\)"):
        load_answers(file, items, "m")
    file.write_text("item_id,text,sample\nq1,A,0\nq2,B,0\nq1,B,1\n", encoding="utf-8")
    assert [r.sample for r in load_answers(file, items, "m")] == [0, 0, 1]


NEW = {"endpoint": "local", "served": "x", "lineage": "x"}


def with_models(folder, *names):
    "params.yaml with models before all others, and with one that composes questions and reads passages."
    p = copy.deepcopy(PARAMS)
    for stage in ("compose", "keys"):
        p["studies"]["mhqa"][stage]["asked"] = ["gemma"]
    p["models"]["slow"] = p["models"]["gemma"] | {"n_items": 2}
    p["models"] = {name: NEW for name in names} | p["models"]
    (folder / "params.yaml").write_text(yaml.safe_dump(p, sort_keys=False), encoding="utf-8")
    if not (folder / "run.yaml").exists():
        shutil.copy(ROOT / "run.yaml", folder)
    return folder / "params.yaml"


def test_a_model_that_is_added_does_not_take_the_composers_or_the_examinees_place(tmp_path):
    params = with_models(tmp_path, "qwen")
    before = select(models=["qwen"], params=params)
    with_models(tmp_path, "aya", "qwen")
    after = select(models=["aya", "qwen"], params=params)
    for stage in ("compose", "keys"):
        assert asked_by(before, stage, "mhqa")["asked"] == asked_by(after, stage, "mhqa")["asked"] == ["qwen"]
    who = [asked_by(p, "compose", "mhqa")["examinees"] for p in (before, after)]
    assert who[0] == ["qwen"] and who[1][0] == "qwen"
    assert after["run"]["models"] == ["aya", "qwen"] and after["run"]["subjects"] == ["qwen", "aya"]
    assert select(models=["aya"], params=params)["run"]["subjects"] == ["aya"]
    assert select(demo=True, params=params)["run"]["subjects"] is None


def test_a_number_of_items_is_that_of_every_mode(tmp_path):
    params = with_models(tmp_path)
    own = stage_parameters(load_params(params), "generate", "mhqa", "gemma")["modes"]
    assert {m["n_items"] for m in own.values()} == {40, 6}, "the demo's limits"
    p = select(["mhqa"], ["gemma", "slow"], 20, params=params)
    assert stage_parameters(p, "prepare", "mhqa")["n_items"] == 20
    modes = stage_parameters(p, "generate", "mhqa", "gemma")["modes"]
    assert modes.keys() == own.keys() and not any("n_items" in settings for settings in modes.values())
    said = selection(p)
    assert "items: at most 20 a study, in each of its modes" in said
    assert "  at most, of a mode, by their own entries: slow 2" in said


def test_nobody_simulated_stands_beside_models_of_ones_own(tmp_path):
    params = with_models(tmp_path, "mine")
    demo = load_params(params)
    simulated = {"sim-specialist", "sim-gap", "sim-sure", "sim-memory", "sim-writer", "sim-steady"}
    assert simulated <= stage_parameters(demo, "prepare", "mentat")["answers"].keys()
    assert not simulated_left_out(select(models=["gemma"], params=params), "mentat")
    p = copy.deepcopy(select(models=["gemma", "mine"], params=params))
    p["studies"]["mentat"]["prepare"]["answers"]["student"] = "students.csv"
    assert set(simulated_left_out(p, "mentat")) == simulated
    assert list(stage_parameters(p, "prepare", "mentat")["answers"]) == ["student"]
    assert any(line.startswith("left out: sim-specialist") for line in selection(p))


def test_a_clone_whose_data_are_not_pulled_yet_goes_through_the_same_stages(tmp_path, monkeypatch):
    for name in ("params.yaml", "run.yaml", "dvc.yaml"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "nbs").symlink_to(ROOT / "nbs")
    monkeypatch.setenv("MHBENCH_ROOT", str(tmp_path))
    p = load_params(tmp_path / "params.yaml")
    assert not (tmp_path / "data").exists() and goes_through(p, "duels") == ["counselingbench"]
    assert (goes_through(p, "freeform"), goes_through(p, "reasoning")) == (["mentat"], ["counselingbench"])
