"`mhbench plan --humans` as its users type it: a table, a card, the labels and verdicts of a run."

import contextlib
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from mhbench.records.schema import Item, Judgment, Rating, Response, write_records
from mhbench.run.cli import main
from mhbench.stats.prediction_powered import certificate, pilot_moments
from mhbench.tools import panel
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
    prepared = folder / "results/text/medqade/prepare"
    judged = folder / "results/text/medqade/judge"
    for place in (prepared, judged):
        place.mkdir(parents=True)
    write_records(items, prepared / "items.parquet")
    write_records(ratings, prepared / "ratings.parquet")
    write_records(verdicts, judged / "judgments.parquet")
    assert not main(["plan", "--humans"])
    told = capsys.readouterr().out
    assert "medqade, judge j: 30 labels of 30 cases" in told and "40 answers judged" in told


# ---------------------------------------------------------------- by hand


def test_a_pilot_of_a_run_is_people_s_means_beside_a_judge_s_points(tmp_path, monkeypatch):
    "Scores as they are; labels as 0 and 1, without those on which people are divided, from six cases on."
    n = 8
    ids = [f"q{k}" for k in range(n)]
    rng = np.random.default_rng(2)
    points = pd.DataFrame({"item_id": ids * 2, "model": "m", "judge": ["j"] * n + ["few"] * n, "cluster": ids * 2})
    points["points"] = rng.permutation(np.tile([0.0, 100.0], n))
    points.loc[n + 5 :, "points"] = np.nan
    raters = pd.DataFrame({"a": [0.0, 100, 100, 100, 0, 0, 100, 100], "b": [0.0, 100, 0, 100, 0, 100, 100, np.nan]})
    raters.index = pd.MultiIndex.from_arrays([ids, ["m"] * n], names=["item_id", "model"])
    people = raters.mean(axis=1).to_numpy()
    kinds = ["score"]
    left = {"Rating": ["a rating"], "Item": ["an item"]}
    monkeypatch.setattr(panel, "_recorded_labels", lambda ratings: [])
    judged = lambda: [SimpleNamespace(kind=kind) for kind in kinds]
    monkeypatch.setattr(panel, "records_left", lambda r, s, study, record: left.get(record.__name__) or judged())
    monkeypatch.setattr(panel, "student_points", lambda judgments, items, kind: points)
    monkeypatch.setattr(panel, "rated_points", lambda ratings, models: raters if models == {"m"} else None)
    judge = points["points"].to_numpy()[:n]
    [score] = panel._from_run(tmp_path, ["s"])
    assert (score.name, score.judged) == ("s, judge j", n), "the other judge has five cases"
    assert score.pilot == pilot_moments(people, judge, clusters=np.array(ids), share=False)
    kinds[:] = ["label"]
    [label] = panel._from_run(tmp_path, ["s"])
    decided = people != 50
    assert decided.sum() == 6
    expected = pilot_moments(
        (people > 50)[decided] * 1.0, judge[decided] / 100, clusters=np.array(ids)[decided], share=True
    )
    assert label.pilot == expected and label.judged == n
    kinds[:] = ["score", "label"]
    assert len(list(panel._from_run(tmp_path, ["s", "s"]))) == 4
    left["Rating"] = []
    kinds.clear()
    assert list(panel._from_run(tmp_path, ["s"])) == []


def test_labels_that_came_with_a_corpus_are_judgments_of_the_models_that_gave_them():
    shared = {"item_id": "q", "study": "s", "target": "m", "source": "x"}
    by_model = {"variant": {"annotator": "model"}, "origin": "recorded"}
    ratings = [
        Rating(rater="j", label="Correct", **by_model, **shared),
        Rating(rater="j", value=1.0, **by_model, **shared),
    ]
    ratings.append(Rating(rater="r", label="Correct", **shared))
    [judgment] = panel._recorded_labels(ratings)
    assert (judgment.item_id, judgment.study, judgment.model, judgment.judge) == ("q", "s", "m", "j")
    assert (judgment.label, judgment.origin, judgment.kind, judgment.rubric) == (
        "Correct",
        "recorded",
        "label",
        "recorded",
    )


@pytest.mark.parametrize(
    ("narrower", "told"),
    [
        (0.05, "20 labels beside the judge are worth 31 of people alone: 35% of the labels are saved."),
        (0.049, "20 labels: the interval becomes 5% narrower. The judge buys correction"),
        (-0.1, "20 labels: the interval becomes 0% narrower. The judge buys correction"),
    ],
)
def test_precision_is_bought_from_a_twentieth_on(narrower, told):
    row = SimpleNamespace(labels=20.0, worth=31.0, narrower=narrower, saved=0.354)
    assert panel._sentence(row).startswith(told)


def test_a_pilot_is_told_with_its_cautious_correlation():
    rng = np.random.default_rng(0)
    worth = rng.normal(60, 15, 60)
    pilot = pilot_moments(worth, worth + rng.normal(0, 7, 60), clusters=np.arange(60) // 2)
    lines = panel._pilot_lines(panel._Known("pilot", pilot, 400), [20, 120, 90, 350])
    head = f"pilot: 60 labels of 30 cases beside the judge's; correlation {pilot.correlation:.2f}; 400 answers judged"
    assert lines[0] == head and len(lines) == 4
    table = certificate(pilot, 400, [20, 120, 90, 350]).set_index("labels")
    assert [row.split()[0] for row in lines[1].splitlines()[1:]] == ["20", "120", "90", "350"]
    for row, (_, known) in zip(lines[1].splitlines()[1:], table.iterrows()):
        assert f"{100 * known['narrower']:.0f}%" in row.split() and f"{100 * known['saved']:.0f}%" in row.split()
    saved = f"90 labels beside the judge are worth {table.loc[90, 'worth']:.0f} of people alone: "
    assert lines[2] == f"{saved}{table.loc[90, 'saved']:.0%} of the labels are saved."
    weak = certificate(pilot.cautious(), 400, [90]).iloc[0]
    told = f"With the pilot's correlation at its lower 80% limit, {pilot.cautious().correlation:.2f}: 90 labels beside"
    assert lines[3].startswith(told) and lines[3].endswith(f" {weak['saved']:.0%} of the labels are saved.")


def asked(**more) -> SimpleNamespace:
    given = {"labels": "20,50", "correlation": None, "rates": None, "correct": 0.5, "judged": None, "humans": ""}
    return SimpleNamespace(**given | more)


def test_a_plan_of_people_takes_a_card_a_table_or_the_run(monkeypatch, tmp_path):
    known = lambda name, n: panel._Known(name, None, n)
    monkeypatch.setattr(panel, "card_moments", lambda *a, **k: (a, k))
    monkeypatch.setattr(panel, "_from_table", lambda path: known(path, 7))
    monkeypatch.setattr(panel, "_from_run", lambda results, studies: (known(s, 9) for s in studies))
    monkeypatch.setattr(panel, "root", lambda: tmp_path)
    monkeypatch.setattr(
        panel, "_pilot_lines", lambda source, counts: [f"{source.name} {source.judged} {counts}", str(source.pilot)]
    )
    lines = lambda studies=(), **more: panel.plan_humans(asked(**more), list(studies))
    card = "((0.3,), {'rates': None, 'correct': 0.5})"
    assert lines(correlation=0.3) == ["the judge's card 1000 [20, 50]", card]
    assert lines(correlation=0.3, judged=40)[0] == "the judge's card 40 [20, 50]"
    assert lines(rates="0.9,0.7", correct=0.4)[1] == "((None,), {'rates': (0.9, 0.7), 'correct': 0.4})"
    assert lines(humans="p.csv") == ["p.csv 7 [20, 50]", "None"]
    assert lines("st") == ["s 9 [20, 50]", "None", "", "t 9 [20, 50]", "None"] and lines("s", judged=3)[0].startswith(
        "s 3"
    )
    for more, told in (
        ({"rates": "0.9"}, "--rates must be two numbers"),
        ({}, "must hold labels of people beside a judge's"),
    ):
        with pytest.raises(ValueError, match=told):
            lines(**more)


def test_the_answers_that_a_command_names_are_the_run_s_those_recorded_or_those_of_models(tmp_path, monkeypatch):
    said = lambda model: Response(item_id="a", study="s", model=model, mode="cot", text="t")
    files = {"s/prepare/recorded": ["rec", "old"], "s/generate/m/responses": ["m"], "s/generate/n/responses": ["n"]}
    for name, models in files.items():
        write_records([said(m) for m in models], tmp_path / "text" / f"{name}.parquet", Response)
    one = Item(item_id="a", study="s", task="open", question="?", key=["r"], source="s")
    write_records([one], tmp_path / "text/s/prepare/items.parquet", Item)
    monkeypatch.setattr(panel, "root", lambda: tmp_path)
    p = {"run": {"models": ["m"]}}
    monkeypatch.setattr(panel, "load_params", lambda file: p if file == tmp_path / "p.yaml" else None)
    of = lambda models: panel.named_answers(
        SimpleNamespace(params="p.yaml", study="s", results=tmp_path, models=models)
    )
    assert [r.model for r in of(None)[2]] == ["rec", "old", "m"] and of(None)[0] is p and of(None)[1] == [one]
    assert [r.model for r in of(["n", "rec"])[2]] == ["rec", "n"]
    assert [r.model for r in panel.run_answers("s", None, tmp_path)[1]] == ["rec", "old", "m", "n"]


def test_a_pilot_s_ratings_are_read_with_the_minutes_of_a_page(tmp_path, monkeypatch):
    store = SimpleNamespace(active_ms=lambda: {1: 60_000, 2: 0, 3: 120_000, 4: 600_000})
    monkeypatch.setattr(panel, "open_store", lambda path: contextlib.nullcontext(store))
    monkeypatch.setattr(panel, "ratings", lambda store: SimpleNamespace(ratings=["of the page"]))
    assert panel.pilot_ratings(tmp_path / "a.sqlite") == (["of the page"], 2.0)
    store.active_ms = dict
    assert panel.pilot_ratings(tmp_path / "a.sqlite") == (["of the page"], None)
    monkeypatch.setattr(panel, "ratings_of_file", lambda path: ["exported"])
    monkeypatch.setattr(panel, "guess_long", lambda path: SimpleNamespace(description=f"guess of {path.name}"))
    table = lambda description, folder: SimpleNamespace(
        records=lambda: [str(getattr(description, "name", description))]
    )
    monkeypatch.setattr(panel, "read_ratings", table)
    (tmp_path / "page.csv").write_text("item_id,study,rater,value\nq,s,r,1\n")
    (tmp_path / "own.csv").write_text("item_id,rater,value\nq,r,1\n")
    assert panel.pilot_ratings(tmp_path / "page.csv") == (["exported"], None)
    assert panel.pilot_ratings(tmp_path / "own.csv") == (["guess of own.csv"], None)
    assert panel.pilot_ratings(tmp_path / "d.yml") == (["d.yml"], None)


@pytest.mark.parametrize(
    ("n_needed", "told"),
    [
        (None, "no wider than 0.5 no number of raters up to 200 is enough."),
        (3, "no wider than 0.5: 3 raters an item; 4 answers are still to be given, 0.2 hours in all."),
        (1, "no wider than 0.5: 1 rater an item; 0 answers are still to be given, 0.0 hours in all."),
    ],
)
def test_raters_of_each_thing_are_counted_item_by_item(monkeypatch, capsys, n_needed, told):
    "Items with one, two and four raters lack two, one and none of three; a third has one too few."
    rows = [
        ("a", "r1"),
        ("b", "r1"),
        ("b", "r2"),
        ("c", "r1"),
        ("c", "r2"),
        ("c", "r3"),
        ("c", "r4"),
        ("d", "r1"),
        ("d", "r2"),
    ]
    pilot = pd.DataFrame(rows, columns=["item", "rater"]).assign(target="t", value=1.0)
    components = SimpleNamespace(n_ratings=9, n_raters=4)
    monkeypatch.setattr(panel, "rater_components", lambda value, thing, rater: components)
    monkeypatch.setattr(
        panel.design, "raters_for_width", lambda c, width: n_needed if (c, width) == (components, 0.5) else 0
    )
    panel._print_each(pilot, 0.5, 3.0)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "9 ratings by 4 raters of 4 items" and lines[1].endswith(told)
    for width in (None, 0.0):
        with pytest.raises(ValueError, match="--each needs a --width above 0"):
            panel._print_each(pilot, width, 3.0)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "--width or --difference must be given; got neither"),
        (["--width", "0"], "--width and --difference must be above 0"),
        (["--width", "1", "--difference", "-1"], "--width and --difference must be above 0"),
    ],
)
def test_a_design_needs_an_aim_above_zero(words, told, capsys):
    assert main(["panel", "design", "r.csv", *words]) == 1 and told in capsys.readouterr().err
