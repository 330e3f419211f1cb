"""`mhbench corpus`: a bank from the demo's literature, part by part, and what goes out to people and to machines."""

import json
from pathlib import Path

import pandas as pd
import pytest
import yaml

from mhbench.corpus.adjudicate import decide_keys, decided_items, decision_table
from mhbench.corpus.demo import demo_path
from mhbench.records.schema import Item, letters, write_records
from mhbench.run.cli import main
from mhbench.studies.mhqa.load import load_mhqa
from mhbench.tools import bank


@pytest.fixture
def results(tmp_path):
    "What the stages compose and keys would leave: a few of the demo's questions, two of them with another key."
    items = load_mhqa(demo_path("mhqa") / "b" / "mhqa_b_val.csv").records[:6]
    write_records(items, tmp_path / "text/mhqa/compose/items.parquet", Item)
    first = {i.item_id: i.key[0] for i in items}
    second = dict(first)
    other = next(a for a in letters(4) if a != items[0].key[0])
    first[items[0].item_id] = second[items[0].item_id] = other
    second[items[1].item_id] = next(a for a in letters(4) if a != items[1].key[0])
    decisions = decide_keys(items, first, second, {})
    gold = decided_items(items, decisions)
    write_records(gold, tmp_path / "text/mhqa/keys/gold.parquet", Item)
    folder = tmp_path / "studies/mhqa/keys"
    folder.mkdir(parents=True)
    decision_table(decisions).to_parquet(folder / "decisions.parquet")
    return tmp_path, items, gold


def corpus(*words, results):
    return main(["corpus", *words, "--results", str(results)])


def test_a_part_shows_what_its_stage_left(root, tmp_path, capsys, monkeypatch):
    def stage(name, study, params, overrides, in_process):
        folder = Path(overrides["results"]) / "studies" / study / name
        folder.mkdir(parents=True)
        row = {"topic": "Sleep", "estimate": 0.5, "ci_low": 0.25, "ci_high": 0.75}
        pd.DataFrame([row]).to_parquet(folder / "literature.parquet")
        tables = [{"name": "keywords", "caption": "Words"}, {"name": "literature", "caption": "Articles by topic"}]
        contents = {"tables": tables, "absent": [{"name": "Abstracts", "why": "none came"}]}
        (folder / "contents.json").write_text(json.dumps(contents))

    monkeypatch.chdir(root)
    monkeypatch.setattr(bank.execute, "run_stage", stage)
    assert corpus("collect", results=tmp_path) == 0
    said = capsys.readouterr().out
    assert "Articles by topic" in said and "0.500 [0.250, 0.750]" in said and "Words" not in said
    assert "not there: Abstracts (none came)" in said and "dvc commit" not in said, "a trial leaves the run as it is"


@pytest.mark.parametrize("stage", ["compose", "keys"])
def test_a_part_is_a_stage_with_what_params_says(root, monkeypatch, capsys, stage):
    monkeypatch.chdir(root)
    ran = []
    monkeypatch.setattr(bank.execute, "run_stage", lambda *a, **k: ran.append((a, k)))
    monkeypatch.setattr(bank, "printed_tables", lambda folder, names: f"{folder.parent.name}: {names[0]}")
    assert main(["corpus", stage]) == 0
    assert ran == [((stage, "mhqa"), {"params": "params.yaml", "overrides": {}, "in_process": True})]
    assert f"`dvc commit -f {stage}@mhqa` records it" in capsys.readouterr().out


def test_sheets_go_out_once(root, results, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(root)
    folder, items, _ = results
    to = tmp_path / "out"
    assert corpus("sheets", "--to", str(to), results=folder) == 0
    names = {f"{r}.{e}" for r in ("first", "second", "resolver") for e in ("csv", "tasks.json")}
    assert {f.name for f in to.iterdir()} == names | {"config.xml", ".gitignore"}
    assert to.stat().st_mode & 0o777 == 0o700 and {f.stat().st_mode & 0o77 for f in to.glob("*.*s*")} == {0}
    assert set(pd.read_csv(to / "second.csv")["item_id"]) == {i.item_id for i in items}
    assert "studies.mhqa.keys.sheets: {first:" in capsys.readouterr().out
    assert corpus("sheets", "--to", str(to), results=folder) == 1
    assert "somebody's work" in capsys.readouterr().err
    there = tmp_path / "clone" / "sheets"  # an empty folder of a clone: git leaves the files alone one by one
    for made in (there, tmp_path / "clone" / ".git"):
        made.mkdir(parents=True)
    assert corpus("sheets", "--to", str(there), results=folder) == 0
    assert set((there / ".gitignore").read_text().split()) == {f"/{name}" for name in names | {"config.xml"}}


def test_the_bank_that_goes_out_says_who_confirmed_it(root, results, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(root)
    folder, items, gold = results
    assert corpus("card", "--to", str(tmp_path / "plain"), results=folder) == 0
    assert "6 questions; annotators: none" in capsys.readouterr().out
    assert corpus("card", "--of", "gold", "--to", str(tmp_path / "simulated"), results=folder) == 0
    assert "5 questions; annotators: none" in capsys.readouterr().out, "simulated readers are nobody"
    p = yaml.safe_load((root / "params.yaml").read_text(encoding="utf-8"))
    p["studies"]["mhqa"]["keys"]["sheets"] = {"first": "a.csv", "second": "b.csv"}
    monkeypatch.setattr(bank, "load_params", lambda path: p)
    assert corpus("card", "--of", "gold", "--to", str(tmp_path / "gold"), results=folder) == 0
    card = (tmp_path / "gold/README.md").read_text(encoding="utf-8")
    assert "of 6 keys: 4 confirmed, 1 changed by both, 1 resolver needed" in card and "5 questions" in card
    keys = pd.read_csv(tmp_path / "gold/bank.csv")["key"].tolist()
    assert keys == [i.key[0] for i in gold] != [i.key[0] for i in items[:5]]
    assert not {"text", "abstract"} & set(pd.read_csv(tmp_path / "gold/bank.csv").columns)


def test_what_has_not_run_is_named_with_its_command(root, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(root)
    assert corpus("card", "--of", "labelled", "--to", str(tmp_path / "out"), results=tmp_path) == 1
    assert "run `mhbench corpus keys --study mhqa`" in capsys.readouterr().err


def test_the_card_counts_the_keys_that_a_model_compared_with_passages(root, results, tmp_path, monkeypatch):
    "One key of six: the others were not asked about, or have no passage."
    monkeypatch.chdir(root)
    folder, items, _ = results
    write_records(items, folder / "text/mhqa/keys/labelled.parquet", Item)
    outcomes = ["changed", *["near passages, not asked"] * 3, *["no passage"] * 2]
    pd.DataFrame({"outcome": outcomes}).to_parquet(folder / "studies/mhqa/keys/labels.parquet")
    assert corpus("card", "--of", "labelled", "--to", str(tmp_path / "bank"), results=folder) == 0
    card = (tmp_path / "bank/README.md").read_text(encoding="utf-8")
    assert "of 6 keys, near passages, not asked: 3; no passage: 2; changed: 1." in card
