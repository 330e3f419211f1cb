"""MedQADE through the stages: the panel's tables, cell by cell, against what the ratings say when they are counted
one by one, and against scikit-learn and scipy.
"""

import json
import shutil
from collections import Counter, defaultdict
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest
from sklearn.metrics import cohen_kappa_score

from mhbench.records.schema import Judgment, Rating, read_records, write_records
from mhbench.run.execute import run_stage

HARD = {"Easy": 0, "Medium": 1, "Hard": 2}
BINS = ["<= 0.5", "0.5 to 1", "1 to 1.5", ">= 1.5"]


@pytest.fixture(scope="module")
def prepared(root, tmp_path_factory):
    "The demo bank's ratings; everything that the first student said about easy items is called correct by all."
    folder = tmp_path_factory.mktemp("medqade") / "results"
    with pytest.MonkeyPatch.context() as m:
        m.setenv("MHBENCH_ROOT", str(root))
        m.chdir(root)
        demo = {"path": "mhbench/studies/medqade/demo", "sha256": None, "answers": {}, "n_items": None, "sets": []}
        run_stage("prepare", "medqade", overrides=demo | {"results": str(folder), "options": {"language": "en"}})
        file = folder / "text/prepare/medqade/ratings.parquet"
        ratings = read_records(file, Rating)
        easy = {i for i, d in difficulty(ratings).items() if d <= 0.5}
        student = min(r.target for r in ratings if r.target != "difficulty")
        praised = [
            r.model_copy(update={"label": "Correct"}) if r.target == student and r.item_id in easy else r
            for r in ratings
        ]
        write_records(praised, file, Rating)
        yield folder


def panel(folder, judgments=None):
    "The panel stage on a copy of what was prepared, with these judgments, if any."
    if judgments is not None:
        write_records(judgments, folder / "text/judge/medqade/judgments.parquet", Judgment)
    run_stage("panel", "medqade", overrides={"results": str(folder), "n_boot": 100})
    return folder / "panel/medqade"


@pytest.fixture(scope="module")
def people(prepared):
    return read_records(prepared / "text/prepare/medqade/ratings.parquet", Rating)


def difficulty(ratings) -> dict[str, float]:
    said = defaultdict(list)
    for r in ratings:
        if r.target == "difficulty":
            said[r.item_id].append(HARD[r.label])
    return {i: sum(x) / len(x) for i, x in said.items()}


def bin_of(d: float) -> str:
    "The paper's bins: they include their upper edge, but for the last, which belongs to the hardest."
    if d >= 1.5:
        return BINS[3]
    return BINS[(d > 0.5) + (d > 1)]


def majorities(ratings) -> dict[tuple[str, str], str]:
    "The label that more than half of those gave who did not abstain."
    votes = defaultdict(Counter)
    for r in ratings:
        if r.target != "difficulty" and r.label != "Abstain":
            votes[r.target, r.item_id][r.label] += 1
    most = {k: v.most_common(1)[0] for k, v in votes.items()}
    return {k: label for k, (label, n) in most.items() if 2 * n > votes[k].total()}


@pytest.fixture(scope="module")
def judged(prepared, people, tmp_path_factory, root):
    """The stage with three judges: one says what the majority says, one says the contrary on every fourth answer,
    abstains and fails, and one has labelled nine answers.
    """
    wins = majorities(people)
    keys = sorted(wins)
    flip = {"Correct": "Incorrect", "Incorrect": "Correct"}

    def verdict(judge, key, label, **fields):
        about = {"item_id": key[1], "study": "medqade", "model": key[0], "kind": "label", "rubric": "medqade/label"}
        return Judgment(judge=judge, label=label, **about, **fields)

    judgments = [verdict("echo", k, wins[k]) for k in keys]
    judgments += [verdict("echo", k, flip[wins[k]], repeat=1) for k in keys]  # its repetition says the contrary
    contrary = [wins[k] if n % 4 else flip[wins[k]] for n, k in enumerate(keys)]
    contrary[1], contrary[2] = "Abstain", None
    judgments += [
        verdict("moody", k, x, **({} if x else {"status": "error", "error": "no JSON"}))
        for k, x in zip(keys, contrary, strict=True)
    ]
    judgments += [verdict("brief", k, wins[k]) for k in keys[:9]]
    folder = tmp_path_factory.mktemp("judged") / "results"
    shutil.copytree(prepared, folder)
    with pytest.MonkeyPatch.context() as m:
        m.setenv("MHBENCH_ROOT", str(root))
        m.chdir(root)
        yield panel(folder, judgments), keys, [wins[k] for k in keys], contrary


@pytest.fixture(scope="module")
def unjudged(prepared):
    return panel(prepared)


def test_abstention_by_difficulty_is_in_the_report(unjudged, people):
    table = pd.read_parquet(unjudged / "abstention.parquet").set_index("difficulty")
    contents = json.loads((unjudged / "contents.json").read_text())
    assert "abstention" in {t["name"] for t in contents["tables"]} & {f["name"] for f in contents["figures"]}
    assert list(table.index) == BINS
    hard = difficulty(people)
    labels, answers = defaultdict(list), defaultdict(set)
    for r in people:
        if r.target != "difficulty":
            labels[bin_of(hard[r.item_id])].append(r.label == "Abstain")
            answers[bin_of(hard[r.item_id])].add((r.item_id, r.target))
    for name in BINS:
        row = table.loc[name]
        assert (row["n"], row["n_ratings"]) == (len(answers[name]), len(labels[name]))
        assert row["estimate"] == pytest.approx(np.mean(labels[name]) if labels[name] else np.nan, nan_ok=True)
    seen = table.dropna(subset=["estimate"])
    assert len(seen) > 2 and (seen["ci_low"] < seen["ci_high"]).all()


def test_students_have_their_strata_in_order_and_an_interval_where_nothing_varies(unjudged, people):
    table = pd.read_parquet(unjudged / "students.parquet")
    of_difficulty = list(dict.fromkeys(table.loc[table["by"] == "difficulty", "stratum"]))
    assert of_difficulty == [b for b in BINS if b in of_difficulty] != sorted(of_difficulty)
    hard, wins = difficulty(people), majorities(people)
    students = sorted({r.target for r in people} - {"difficulty"})
    for r in table[table["by"] == "difficulty"].itertuples():
        ids = [i for i in hard if bin_of(hard[i]) == r.stratum]
        right = [wins[r.student, i] == "Correct" for i in ids if (r.student, i) in wins]
        assert (r.n, r.left_out) == (len(right), len(ids) - len(right))
        assert r.estimate == pytest.approx(np.mean(right))
    known = table.dropna(subset=["ci_low"])
    assert (known["ci_low"] < known["ci_high"]).all()
    praised = table[(table["student"] == students[0]) & (table["stratum"] == BINS[0])].iloc[0]
    exact = binomtest(int(praised["n"]), int(praised["n"])).proportion_ci(method="wilson")
    assert praised["estimate"] == 1 and praised["interval"] == "wilson"
    assert (praised["ci_low"], praised["ci_high"]) == pytest.approx((exact.low, exact.high))


def test_every_pair_of_raters_and_in_the_order_of_their_numbers(unjudged, people):
    table = pd.read_parquet(unjudged / "pairs.parquet")
    labels = defaultdict(dict)
    for r in people:
        if r.target != "difficulty" and r.label != "Abstain":
            labels[r.rater][r.item_id, r.target] = r.label
    numbered = sorted({r.rater for r in people}, key=lambda name: int(name.removeprefix("sim-p")))
    assert len(numbered) >= 10  # p10 must not follow p1
    assert list(zip(table["first"], table["second"], strict=True)) == list(combinations(numbered, 2))
    for r in table.itertuples():
        common = sorted(labels[r.first].keys() & labels[r.second].keys())
        a, b = ([labels[x][k] for k in common] for x in (r.first, r.second))
        assert r.cohen_kappa == pytest.approx(cohen_kappa_score(a, b))
        assert r.pabak == pytest.approx(2 * r.percent_agreement - 1)
        assert r.percent_agreement == pytest.approx(np.mean(np.array(a) == np.array(b)))
    mean = pd.read_parquet(unjudged / "raters.parquet").set_index("measure")
    assert mean.loc["cohen kappa, mean of pairs", "estimate"] == pytest.approx(table["cohen_kappa"].mean())


def test_judges_beside_the_majority(judged):
    out, keys, wins, contrary = judged
    table = pd.read_parquet(out / "alignment.parquet").set_index(["annotator", "metric"])
    echo = table.loc[("echo", "percent_agreement")]
    assert echo["estimate"] == 1 and echo["n"] == len(keys)  # its first verdicts, not its repetition
    said = [(x, w) for x, w in zip(contrary, wins, strict=True) if x in ("Correct", "Incorrect")]
    assert table.loc["moody", "n"].tolist() == [len(keys) - 2] * 3  # without the abstention and the failure
    kappa = cohen_kappa_score(*zip(*said, strict=True))
    assert table.loc[("moody", "cohen_kappa"), "estimate"] == pytest.approx(kappa)
    assert table.loc[("moody", "percent_agreement"), "estimate"] == pytest.approx(np.mean([x == w for x, w in said]))
    brief = table.loc["brief"]
    assert brief["n"].tolist() == [9] * 3 and brief["estimate"].isna().all()  # too few: a row, and no number
    assert table["ceiling"].groupby("metric").nunique().eq(1).all()
    abstain = pd.read_parquet(out / "judges_abstain.parquet").set_index("annotator")
    assert abstain.loc["moody", "estimate"] == pytest.approx(1 / (len(keys) - 1))
    best = pd.read_parquet(out / "ensembles.parquet").set_index("metric")
    assert best.loc["percent_agreement", "members"] == "echo" and best.loc["percent_agreement", "candidates"] == 2


def test_the_ceiling_is_a_member_against_the_others(judged, people):
    "Percent agreement of each rater with the majority of the other raters, averaged over raters."
    shares = []
    for rater in sorted({r.rater for r in people}):
        others = majorities([r for r in people if r.rater != rater])
        own = {(r.target, r.item_id): r.label for r in people if r.rater == rater and r.target != "difficulty"}
        both = [own[k] == others[k] for k in own if k in others and own[k] != "Abstain"]
        shares.append(np.mean(both))
    table = pd.read_parquet(judged[0] / "alignment.parquet").set_index(["annotator", "metric"])
    assert table.loc[("echo", "percent_agreement"), "ceiling"] == pytest.approx(np.mean(shares))


def test_what_is_not_there_says_why(unjudged):
    contents = json.loads((unjudged / "contents.json").read_text())
    absent = {a["name"]: a["why"] for a in contents["absent"]}
    assert {"no judge was asked about these answers"} <= set(absent.values())
    assert all(absent.values()) and len(absent) >= 5
    for name in ("alignment", "ensembles", "bias", "judges_abstain"):
        assert not (unjudged / f"{name}.parquet").exists()
    for file in unjudged.glob("*.parquet"):
        table = pd.read_parquet(file)
        assert len(table) and "none" not in table, file.name
