"`mhbench plan --humans` as its users type it: a table, a card, the labels and verdicts of a run."

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mhbench.records.schema import Item, Judgment, Rating, write_records
from mhbench.run.cli import main
from mhbench.tools.panel import _from_table

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    "A project without results."
    for name in ("params.yaml", "run.yaml", "dvc.yaml"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "nbs").symlink_to(ROOT / "nbs")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_pilot_says_what_labels_buy(folder, capsys):
    rng = np.random.default_rng(0)
    worth = rng.normal(60, 15, 1000).round()
    people = np.where(np.arange(1000) < 60, worth, np.nan)
    pd.DataFrame({"people": people, "judge": worth + rng.normal(0, 7, 1000).round()}).to_csv("pilot.csv")
    assert not main(["plan", "--humans", "pilot.csv", "--judged", "1000"])
    told = capsys.readouterr().out
    assert "60 labels of 60 cases" in told and "1000 answers judged" in told and "labels are saved" in told


@pytest.mark.parametrize(
    ("people", "judge", "share"),
    [("01", "10", True), ("11", "10", True), ("12", "10", False), ("01", "12", False), ("01", ["0.5", "1"], False)],
)
def test_a_pilot_of_labels_is_one_of_0_and_1_alone(folder, people, judge, share):
    pairs = [f"{people[k % 2]},{judge[k // 2 % 2]}" for k in range(40)]
    (folder / "pilot.csv").write_text("\n".join(["people,judge", *pairs]) + "\n", encoding="utf-8")
    assert _from_table("pilot.csv").pilot.share is share


@pytest.mark.parametrize("card", [["--rates", "0.9,0.7", "--correct", "0.6"], ["--correlation", "0.3"]])
def test_a_card_says_what_labels_buy(folder, card, capsys):
    assert not main(["plan", "--humans", *card])
    told = capsys.readouterr().out
    assert told.startswith("the judge's card: correlation 0.")
    assert ("correction, not precision" in told) == (card[0] == "--correlation")


def test_a_run_without_labels_says_what_to_give(folder, capsys):
    assert main(["plan", "--humans"]) == 1
    assert "--correlation or --rates" in capsys.readouterr().err


def test_the_labels_of_a_run_are_found(folder, capsys):
    ids = [f"q{i}" for i in range(40)]
    items = [Item(item_id=i, study="medqade", task="open", question="?", key=["r"], source="s") for i in ids]
    labels = ["Correct", "Incorrect"]
    about = {"study": "medqade", "rubric": "label", "attempts": 1, "kind": "label", "model": "m"}
    ratings = [
        Rating(item_id=i, study="medqade", rater=r, target="m", label=labels[k % 2], source="s")
        for k, i in enumerate(ids[:30])
        for r in ("r1", "r2")
    ]
    verdicts = [
        Judgment(item_id=i, judge="j", label=labels[(k + (k % 7 == 0)) % 2], **about) for k, i in enumerate(ids)
    ]
    prepared = folder / "results/text/prepare/medqade"
    judged = folder / "results/text/judge/medqade"
    for place in (prepared, judged):
        place.mkdir(parents=True)
    write_records(items, prepared / "items.parquet")
    write_records(ratings, prepared / "ratings.parquet")
    write_records(verdicts, judged / "judgments.parquet")
    assert not main(["plan", "--humans"])
    told = capsys.readouterr().out
    assert "medqade, judge j: 30 labels of 30 cases" in told and "40 answers judged" in told
