"Take away a rater, a file, an interval, a model, a verdict: nothing that is said becomes stronger."

import re
import shutil

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_pages_as_text import PARTS, STUDIES, made

from mhbench.corpus.demo import demo_canary, synthetic
from mhbench.records.schema import Item, Rating, read_records, write_records
from mhbench.report.findings import against_lines, before_reading, best_in_words, fronts, truths
from mhbench.report.tables import UNSEEN, covered_in_words, differences_in_words, doubts, sampled
from mhbench.stats.consensus import agreement_with_members
from mhbench.stats.jackknife import agreement_estimate
from mhbench.stats.preference import worth_estimates
from mhbench.steps.between_models import model_pairs
from mhbench.steps.by_raters import mean_rows, people_duel_rows
from mhbench.steps.judge_people import people_table
from mhbench.steps.rates import rate_table
from mhbench.studies.medqade.panel import student_accuracy
from mhbench.studies.medqade.panel_tables import JudgeLabels, Panel, members_table, people_as_sample
from mhbench.studies.psychiatrybench.standings import Column, draw_standings, rank_table, results_table

MANY = settings(max_examples=30, deadline=None)
SEED = st.integers(0, 2**32)


def claims(said: str) -> int:
    "How much a sentence on the best model claims."
    return 2 * said.count("is the most accurate") + (": above chance" in said) + (", above chance" in said)


@MANY
@given(st.integers(2, 8), st.sampled_from(["interval", "comparison", "mode"]), SEED)
def test_a_winner(k, what, seed):
    rng = np.random.default_rng(seed)
    right = np.sort(rng.uniform(0.2, 0.9, k))[::-1]
    rows = pd.DataFrame({"model": [f"m{i}" for i in range(k)], "origin": "asked", "n": 100, "estimate": right})
    rows = rows.assign(ci_low=right - 0.09, ci_high=right + 0.09, level=0.95)
    beaten = [i for i in range(1, k) if rng.random() < 0.9]
    pairs = pd.DataFrame([("m0", f"m{i}", right[0] - right[i], 0.01) for i in beaten])
    pairs = pairs.set_axis(["first", "second", "estimate", "p_adjusted"], axis=1) if len(pairs) else pd.DataFrame()
    lines = {"chance": rng.uniform(0.2, 0.8)}
    whole = best_in_words(rows, lines, None, pairs)
    if what == "interval":
        less = best_in_words(rows.drop(index=int(rng.integers(1, k))), lines, None, pairs, unranked=1)
    elif what == "mode":
        gone = rows.iloc[[int(rng.integers(1, k))]].assign(mode="few_shot")
        less = best_in_words(rows.assign(mode="zero_shot").drop(index=gone.index), lines, gone, pairs)
        assert "1 more answered in other modes only" in less and "(zero shot)" in less
        return
    else:
        less = best_in_words(rows, lines, None, pairs.iloc[1:])
    assert claims(less) <= claims(whole)


@MANY
@given(st.integers(1, 9), SEED)
def test_comparisons_and_coverage(k, seed):
    rng = np.random.default_rng(seed)
    p = pd.Series(rng.choice([0.001, 0.03, 0.4, np.nan], k))
    less = p.copy()
    less.iloc[rng.integers(k)] = np.nan
    shown = [int(differences_in_words(x).split(" ")[0].replace("none", "0")) for x in (p, less)]
    assert shown[1] <= shown[0]
    assert ("not tested" if less.notna().any() else "could be tested") in differences_in_words(less)
    covered = pd.Series(rng.choice(["yes", "no", "none"], k))
    covered_less = covered.where(np.arange(k) != rng.integers(k), "none")
    yes = [int(covered_in_words(x).split(" in ")[1].split(" of ")[0]) for x in (covered, covered_less)]
    assert yes[1] <= yes[0]


@MANY
@given(st.integers(2, 5), st.integers(6, 40), SEED)
def test_agreement(raters, items, seed):
    rng = np.random.default_rng(seed)
    labels = np.where(rng.random((raters, items)) < 0.75, "a", "b").astype(object)
    labels[rng.random(labels.shape) < 0.3] = None
    less = labels.copy()
    less[rng.integers(raters), rng.integers(items)] = rng.choice(np.array([None, "Abstain", ""], dtype=object))
    for measure in ("percent_agreement", "cohen_kappa", "krippendorff_alpha"):
        whole, part = (agreement_estimate(x, measure) for x in (labels, less))
        assert part.n <= whole.n and part.n_clusters <= whole.n_clusters
        assert whole.n == ((labels != None).sum(0) > 1).sum()  # noqa: E711


@MANY
@given(SEED)
def test_a_judge_beside_members(seed):
    rng = np.random.default_rng(seed)
    raters = int(rng.integers(2, 6))
    truth = rng.random(120) < 0.6
    said = np.where(rng.random((raters + 1, 120)) < 0.85, truth, ~truth)
    labels = np.where(said, "Correct", "Incorrect").astype(object)
    judge, panel = labels[0], labels[1:]
    whole = agreement_with_members(judge, panel)
    silent = judge.copy()
    silent[rng.random(120) < 0.3] = "Abstain"
    less = agreement_with_members(silent, panel)
    assert less.difference.estimate <= whole.difference.estimate and less.difference.n == whole.difference.n
    fewer = agreement_with_members(judge, panel[:2])
    assert fewer.n_raters == 2 and np.isnan(fewer.difference.ci_low) and fewer.verdict(0.1).startswith("undecided")


@MANY
@given(st.integers(3, 5), SEED)
def test_worths(k, seed):
    rng = np.random.default_rng(seed)
    wins = np.zeros((12, k, k))
    for u in range(12):
        a, b = rng.choice(k, 2, replace=False)
        wins[u, a, b] = 1
    less = wins.copy()
    less[rng.integers(12)] = 0
    whole, part = (worth_estimates(x, np.zeros_like(x)) for x in (wins, less))
    for a, b in zip(whole, part):
        assert b.n <= a.n and (np.isnan(b.ci_low) or b.n_clusters >= 6)
    assert sum(e.estimate > 0 for e in part) <= k


@MANY
@given(st.integers(2, 5), SEED)
def test_marks_and_ranks(k, seed):
    rng = np.random.default_rng(seed)
    points = np.round(rng.uniform(0, 100, (9, k)), -1)
    less = points.copy()
    less[:, rng.integers(k)] = np.nan
    marked = []
    for x in (points, less):
        s = draw_standings({"mcq": Column(np.arange(9), x)}, [f"m{i}" for i in range(k)], n_boot=20, seed=1)
        table = results_table(s).query("task == 'mcq'")
        marked.append((table["mark"] != "").sum())
        ranks = rank_table(s)
        assert not len(ranks) or abs(ranks["first"].sum() - 1) < 1e-9 or ranks["first"].isna().all()
    assert marked[1] <= k - 1


@MANY
@given(st.integers(2, 4), SEED)
def test_pairs_of_models(k, seed):
    rng = np.random.default_rng(seed)
    rows = []
    for m in range(k):
        for q in range(14):
            of = {"item_id": f"q{q}", "cluster": f"c{q % 7}", "model": f"m{m}", "mode": "zero_shot", "n_votes": 1}
            of |= {"answered_by": "plain", "read": True, "status": "ok", "how": "letter", "answer": ["A"], "sample": 0}
            rows.append(of | {"correct": float(rng.random() < 0.2 + 0.7 * m / k)})
    table = pd.DataFrame(rows)
    few = table[table["cluster"].isin([f"c{i}" for i in range(5)])]
    whole, part = model_pairs(table), model_pairs(few)
    inside = (whole["ci_low"] <= 0) & (whole["ci_high"] >= 0)
    assert ((whole["p"] < 0.05) == ~inside).all()
    assert part["ci_low"].isna().all() and part["p"].isna().all() and (part["least_p"] == 1).all()


@MANY
@given(st.integers(1, 4), st.integers(2, 20), SEED)
def test_students_by_their_majority(raters, items, seed):
    rng = np.random.default_rng(seed)
    labels = rng.choice(np.array(["Correct", "Incorrect", "Abstain", None], dtype=object), (raters, 1, items))
    whole = student_accuracy(labels, ["s"]).iloc[0]
    silent = labels.copy()
    silent[:, :, rng.integers(items)] = "Abstain"
    less = student_accuracy(silent, ["s"]).iloc[0]
    assert less["n"] <= whole["n"] and less["n"] + less["left_out"] == items


def first_screen(results) -> tuple[dict[str, str], list[str]]:
    "The cautions of a run, and a sentence a study."
    parts = [*PARTS, *(("prepare", study) for study in STUDIES)]
    standings = against_lines(results, STUDIES, parts)
    shown = fronts(results, standings, STUDIES, parts)
    here = synthetic(results, STUDIES)
    return before_reading(results, STUDIES, here, shown, truths(results, parts), parts), [f.said for f in shown]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    "The results of a made-up run of three studies, and its first screen."
    folder = tmp_path_factory.mktemp("run") / "results"
    made(folder)
    return folder, first_screen(folder)


def numbers(said: str) -> list[int]:
    return [int(x) for x in re.findall(r"(?<![.\d])\d+(?![.\d])", said)]


GONE = [f"studies/{{}}/score/{name}.parquet" for name in ("accuracy", "counts", "scores", "pairs")]
GONE += ["studies/{}/judge/counts.parquet", "metrics/{}/prepare.json", "text/{}/prepare/items.parquet"]


# ---------------------------------------------------------------- one property over all tables and sentences

JUDGES, MODELS = ["j0", "j1"], ["m0", "m1", "m2"]


def study(rng: np.random.Generator, raters: int) -> dict:
    "What people and judges said of the answers of three models, and which answers were right."
    truth = rng.random((3, 14)) < np.array([[0.9], [0.6], [0.4]])
    labels = lambda who: np.where((rng.random((who, 3, 14)) < 0.85) == truth, "Correct", "Incorrect").astype(object)
    people = labels(raters)
    people[rng.random(people.shape) < 0.1] = "Abstain"
    return {"right": truth, "people": people, "judges": labels(2), "models": list(MODELS)}


def tables_of(s: dict) -> dict[str, pd.DataFrame]:
    models, people = s["models"], s["people"]
    items = [f"q{k}" for k in range(14)]
    names = [f"r{k}" for k in range(len(people))]
    panel = Panel(names, models, items, people, np.full((len(people), 14), "Easy", dtype=object))
    verdicts = JudgeLabels(JUDGES, s["judges"], np.ones(s["judges"].shape, bool))
    at = [(m, k) for m in range(len(models)) for k in range(14)]
    about = {"mode": "zero_shot", "answered_by": "plain", "n_votes": 1, "status": "ok", "how": "letter", "read": True}
    scores = [about | {"model": models[m], "item_id": items[k], "correct": float(s["right"][m, k])} for m, k in at]
    scores = pd.DataFrame(scores).assign(sample=0, cluster=lambda t: t["item_id"], answer=[["A"]] * len(at))
    said = [(r, m, k, people[r, m, k]) for r in range(len(people)) for m, k in at if people[r, m, k] != "Abstain"]
    long = pd.DataFrame(said, columns=["rater", "model", "item", "label"])
    long = long.assign(value=(long["label"] == "Correct").astype(float), case=long["item"])
    long["item"] = long["item"] * 3 + long["model"]
    duels = long[long["model"] < 2].pivot_table("value", ["rater", "case"], "model").dropna().reset_index()
    ends = np.select([duels[0] > duels[1], duels[0] < duels[1]], ["first", "second"], "tie") if len(duels) else []
    duels = duels.rename(columns={"case": "item"}).assign(axis="", first="m0", second="m1", outcome=ends)
    records = [
        Rating(item_id=items[k], study="s", rater=names[r], target=models[m], label=label, source="x:1")
        for r, m, k, label in said
    ]
    points = {"Correct": 100.0, "Incorrect": 0.0, "Abstain": np.nan}
    judged = [(j, models[m], items[k], points[s["judges"][a, m, k]]) for a, j in enumerate(JUDGES) for m, k in at]
    judged = pd.DataFrame(judged, columns=["judge", "model", "item_id", "points"]).assign(
        cluster=lambda t: t["item_id"]
    )
    return {
        "members": members_table(panel, verdicts),
        "people": people_as_sample(panel, verdicts),
        "alpha": pd.DataFrame([agreement_estimate(panel.flat, "krippendorff_alpha", clusters=panel.item).row()]),
        "means": pd.DataFrame(mean_rows(long, {"measure": "right"}, within=(0, 1))),
        "duels": people_duel_rows(duels),
        "accuracy": rate_table(scores, by=[], n_boot=20, seed=1),
        "pairs": model_pairs(scores),
        "judges": people_table(judged, records, kind="label", n_boot=20, seed=1),
    }


def without(s: dict, what: str, rng: np.random.Generator) -> dict:
    if what == "rater":
        return s | {"people": np.delete(s["people"], rng.integers(len(s["people"])), 0)}
    if what == "verdict":
        judges = s["judges"].copy()
        judges[rng.integers(2), rng.integers(3), rng.random(14) < 0.5] = "Abstain"
        return s | {"judges": judges}
    k = int(rng.integers(3))
    return {name: np.delete(x, k, x.ndim - 2) if name != "models" else [*x[:k], *x[k + 1 :]] for name, x in s.items()}


TEXTS = ("interval", "verdict", "reading", "plain", "mark")
COUNTS = ("n", "n_clusters", "n_raters")
WITHHELD = ("raters", "few")
WARNINGS = ("as judged, labelled answers less the others",)  # shown where people's labels are no random sample


def compare_tables(whole: pd.DataFrame, part: pd.DataFrame, name: str, what: str) -> None:
    "Rows that are in both: no count is larger, and nothing that was withheld is there. A row that warns may be new."
    part = part[~part["measure"].isin(WARNINGS)] if name == "judges" else part
    texts = [c for c in part if c not in TEXTS and not pd.api.types.is_numeric_dtype(part[c])]
    both = part.merge(whole, on=[*texts], suffixes=("", "_whole")) if texts else part.join(whole, rsuffix="_whole")
    assert len(both) == len(part), f"{name}: rows that were not there before"
    ties_break = name == "judges" and what == "rater"  # of an even panel's majorities, which are then labels
    for c in [c for c in COUNTS if c in part and not ties_break]:
        assert (both[c].fillna(0) <= both[f"{c}_whole"].fillna(0)).all(), (name, c)
    if "interval" in part:
        withheld = both["interval_whole"].isin(WITHHELD)
        assert both.loc[withheld, "ci_low"].isna().all(), name
    if "verdict" in part:
        few = both["n_raters"] < 6
        assert (both.loc[few, "verdict"] == "undecided, for want of raters").all()
        of_raters = both["verdict_whole"] == "undecided, for want of raters"
        assert (both.loc[of_raters & (both["n_raters_whole"] < 6), "verdict"].str.startswith("undecided")).all()


def lost(sentences: list[str]) -> int:
    "How many rows the cautions below a table say to have no interval."
    return sum(int(x.split(" of ")[0]) for x in sentences if "rows have no interval" in x)


@pytest.mark.whole
@settings(max_examples=25, deadline=None)
@given(st.sampled_from(["rater", "file", "interval", "model", "verdict"]), st.sampled_from([6, 7]), SEED)
@example("rater", 6, 337457081)  # without this rater, the answers without a label are shown to differ
def test_nothing_that_is_said_becomes_stronger(run, tmp_path_factory, what, raters, seed):
    rng = np.random.default_rng(seed)
    if what == "file":
        folder, (full, (_, sentences)) = tmp_path_factory.mktemp("less") / "run", run
        shutil.copytree(full, folder)
        files = sorted(f for stage in ("score", "judge") for f in folder.glob(f"studies/*/{stage}/*.parquet"))
        files[rng.integers(len(files))].unlink()
        for before, after in zip(sentences, first_screen(folder)[1]):
            assert claims(after) <= claims(before)
        return
    s = study(rng, raters)
    whole = tables_of(s)
    part = whole if what == "interval" else tables_of(without(s, what, rng))
    for name, table in whole.items():
        if what != "interval":
            compare_tables(table, part[name], name, what)
            continue
        has = np.flatnonzero(table["ci_low"].notna())
        if len(has):
            bare = table.copy()
            bare.loc[table.index[rng.choice(has)], ["ci_low", "ci_high"]] = np.nan
            assert lost(doubts(bare)) == lost(doubts(table)) + 1, name
            told = [[text for text in UNSEEN.values() if text[:25] in sampled(x)] for x in (table, bare)]
            assert set(told[1]) <= set(told[0]) and (len(has) > 1 or not sampled(bare))


@pytest.mark.parametrize("name", GONE)
@pytest.mark.parametrize("study", ["mhqa", "mentat"])
def test_a_file_that_is_gone_is_named_as_unknown(run, tmp_path, name, study):
    full, (whole, sentences) = run
    shutil.copytree(full, tmp_path / "less")
    (tmp_path / "less" / name.format(study)).unlink()
    less, others = first_screen(tmp_path / "less")
    changed = [heading for heading in whole if whole[heading] != less[heading]]
    assert changed, "the screen is the same without it"
    for heading in changed:
        by_figure = heading == "What needs caution?" and "accuracy" in name  # whose rows are fewer
        assert (
            by_figure or re.search(r"unknown", less[heading]) and study in less[heading] or "1 unknown" in less[heading]
        )
        assert not re.search(r"Nothing (was counted|:)|[Aa]ll questions", less[heading]) or "Nothing" in whole[heading]
    assert sum(map(claims, others)) <= sum(map(claims, sentences))


@settings(max_examples=9, deadline=None)
@given(st.sampled_from(["model", "mode", "verdict"]), st.sampled_from(["mhqa", "mentat", "medqade"]), SEED)
def test_the_first_screen_without_a_model_a_mode_or_a_verdict(run, tmp_path_factory, what, study, seed):
    "Their answers are lost: the rows stay, without a number."
    rng, folder = np.random.default_rng(seed), tmp_path_factory.mktemp("less") / "run"
    full, (whole, sentences) = run
    shutil.copytree(full, folder)
    score = folder / "studies" / study / "score"
    table = pd.read_parquet(score / "accuracy.parquet")
    if what == "verdict":
        file = folder / "studies" / study / "judge" / "counts.parquet"
        counts = pd.read_parquet(file)
        counts["n"] += np.array([-1, 1, 0])
        counts.to_parquet(file)
    else:
        lost = table[what] == rng.choice(table[what].unique())
        part = table["n"] + table["n_not_asked"]
        table.loc[lost, ["estimate", "ci_low", "ci_high"]] = np.nan
        table = table.assign(n=table["n"].where(~lost, 0), n_not_asked=table["n_not_asked"].where(~lost, part))
        table.to_parquet(score / "accuracy.parquet")
        pairs = pd.read_parquet(score / "pairs.parquet")
        gone = pairs[["first", "second"]].isin(set(table.loc[lost, "model"])).any(axis=1)
        pairs.loc[gone, ["p", "p_adjusted", "ci_low", "ci_high"]] = np.nan
        pairs.to_parquet(score / "pairs.parquet")
    less, others = first_screen(folder)
    wrong = [sum(numbers(re.sub(r"\([^)]*\)", "", x["What went wrong?"]))) for x in (whole, less)]
    assert wrong[1] >= wrong[0], "less that went wrong"
    shown = [re.search(r"(\d+) of (\d+) comparisons", x["What needs caution?"]).groups() for x in (whole, less)]
    assert int(shown[1][0]) <= int(shown[0][0]) and shown[1][1] == shown[0][1]
    for before, after in zip(sentences, others):
        assert claims(after) <= claims(before)


def test_a_model_whose_requests_all_failed_is_still_one_of_those_that_were_asked(run, tmp_path):
    "It has responses and no accuracy: the others are not compared as if it had not been there."
    full, (_, sentences) = run
    shutil.copytree(full, tmp_path / "less")
    file = tmp_path / "less" / "studies" / "mhqa" / "score" / "accuracy.parquet"
    table = pd.read_parquet(file)
    table[table["model"] != "beta"].to_parquet(file)
    _, others = first_screen(tmp_path / "less")
    assert claims(others[0]) <= claims(sentences[0]) and others[0].endswith("3 more have no interval.")


def test_a_synthetic_question_makes_no_bank_synthetic(run, tmp_path):
    "One question with this project's canary among others, and one with somebody else's."
    shutil.copytree(run[0], tmp_path / "less")
    file = tmp_path / "less" / "text" / "mhqa" / "prepare" / "items.parquet"
    for mark, said in (
        (demo_canary(), "1 of 6 questions of mhqa (without clinical meaning)"),
        ("other-canary-1", None),
    ):
        items = list(read_records(run[0] / "text" / "mhqa" / "prepare" / "items.parquet", Item))
        write_records([items[0].model_copy(update={"canary": mark}), *items[1:]], file, Item)
        told = first_screen(tmp_path / "less")[0]["What is simulated?"]
        assert "all questions" not in told.lower() and (said in told if said else "questions" not in told)
