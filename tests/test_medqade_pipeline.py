"""MedQADE through the stages: the panel's tables, cell by cell, against what the ratings say when they are counted
one by one, and against scikit-learn and scipy.
"""

import csv
import io
import json
import shutil
from collections import Counter, defaultdict
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats.proportion import proportion_confint

from mhbench.corpus.demo import demo_path
from mhbench.records.schema import Judgment, Rating, read_records, write_records
from mhbench.run.execute import run_stage
from mhbench.studies.medqade.simulate import SIMULATED_JUDGES, expected_bias

HARD = {"Easy": 0, "Medium": 1, "Hard": 2}
BINS = ["<= 0.5", "0.5 to 1", "1 to 1.5", ">= 1.5"]
TENTH = "sim-p10"  # breaks ties, and is no member of the panel


@pytest.fixture(scope="module")
def prepared(root, tmp_path_factory):
    "The demo bank's ratings; everything that the first student said about easy items is called correct by all."
    folder = tmp_path_factory.mktemp("medqade") / "results"
    with pytest.MonkeyPatch.context() as m:
        m.setenv("MHBENCH_ROOT", str(root))
        m.chdir(root)
        demo = {"path": "mhbench/studies/medqade/demo", "sha256": None, "answers": {}, "n_items": None, "sets": []}
        run_stage("prepare", "medqade", overrides=demo | {"results": str(folder), "options": {"language": "en"}})
        file = folder / "text/medqade/prepare/ratings.parquet"
        ratings = [r for r in read_records(file, Rating) if not r.by_model]
        easy = {i for i, d in difficulty(ratings).items() if d <= 0.5}
        student = min(r.target for r in ratings if r.target != "difficulty")
        praised = [
            r.model_copy(update={"label": "Correct"}) if r.target == student and r.item_id in easy else r
            for r in ratings
        ]
        write_records(praised, file, Rating)  # without the judges that came with the bank, for now
        yield folder


def panel(folder, judgments=None):
    "The panel stage on a copy of what was prepared, with these judgments, if any."
    if judgments is not None:
        write_records(judgments, folder / "text/medqade/judge/judgments.parquet", Judgment)
    run_stage("panel", "medqade", overrides={"results": str(folder), "n_boot": 100})
    return folder / "studies/medqade/panel"


@pytest.fixture(scope="module")
def people(prepared):
    return read_records(prepared / "text/medqade/prepare/ratings.parquet", Rating)


def difficulty(ratings) -> dict[str, float]:
    said = defaultdict(list)
    for r in ratings:
        if r.target == "difficulty" and r.rater != TENTH:
            said[r.item_id].append(HARD[r.label])
    return {i: sum(x) / len(x) for i, x in said.items()}


def bin_of(d: float) -> str:
    "The paper's bins: they include their upper edge, but for the last, which belongs to the hardest."
    if d >= 1.5:
        return BINS[3]
    return BINS[(d > 0.5) + (d > 1)]


def core_of(ratings) -> set[str]:
    "The items that all nine rated."
    raters = defaultdict(set)
    for r in ratings:
        if r.rater != TENTH:
            raters[r.item_id].add(r.rater)
    return {i for i, who in raters.items() if len(who) == 9}


def majorities(ratings, decided=False) -> dict[tuple[str, str], str]:
    """The label that more than half of the panel gave, of those who did not abstain; with `decided`, ties outside the
    core go by the tenth rater.
    """
    votes, tenth, core = defaultdict(Counter), {}, core_of(ratings)
    for r in ratings:
        if r.target != "difficulty" and r.label != "Abstain":
            if r.rater == TENTH:
                tenth[r.target, r.item_id] = r.label
            else:
                votes[r.target, r.item_id][r.label] += 1
    out = {}
    for k, v in votes.items():
        label, n = v.most_common(1)[0]
        if 2 * n > v.total():
            out[k] = label
        elif decided and k[1] not in core and k in tenth:
            out[k] = tenth[k]
    return out


@pytest.fixture(scope="module")
def judged(prepared, people, tmp_path_factory, root):
    """The stage with three judges: one says what the majority says, one says the contrary on every fourth answer,
    abstains and fails, and one has labelled nine answers.
    """
    wins, core = majorities(people), core_of(people)
    keys = sorted(k for k in wins if k[1] in core)
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
        if r.target != "difficulty" and r.rater != TENTH:
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
    assert of_difficulty == BINS != sorted(BINS), "a bin without items keeps its place"
    hard, wins = difficulty(people), majorities(people, decided=True)
    students = sorted({r.target for r in people} - {"difficulty"})
    for r in table[table["by"] == "difficulty"].itertuples():
        ids = [i for i in hard if bin_of(hard[i]) == r.stratum]
        right = [wins[r.student, i] == "Correct" for i in ids if (r.student, i) in wins]
        assert (r.n, r.left_out) == (len(right), len(ids) - len(right))
        assert r.estimate == pytest.approx(np.mean(right) if right else np.nan, nan_ok=True)
    known = table.dropna(subset=["ci_low"])
    assert (known["ci_low"] < known["ci_high"]).all()
    praised = table[(table["student"] == students[0]) & (table["stratum"] == BINS[0])].iloc[0]
    exact = proportion_confint(praised["n"], praised["n"], method="agresti_coull")
    assert praised["estimate"] == 1 and praised["interval"] == "agresti-coull"
    assert (praised["ci_low"], praised["ci_high"]) == pytest.approx(exact)


def test_the_agreement_of_nine_is_the_mean_of_their_36_pairs_on_the_core(unjudged, people):
    labels, core = defaultdict(dict), core_of(people)
    for r in people:
        if r.target != "difficulty" and r.label != "Abstain" and r.item_id in core:
            labels[r.rater][r.item_id, r.target] = r.label
    pairs = list(combinations(sorted({r.rater for r in people} - {TENTH}), 2))
    assert len(core) == 10 and len(pairs) == 36
    equal, kappas = [], []
    for first, second in pairs:
        common = sorted(labels[first].keys() & labels[second].keys())
        a, b = ([labels[x][k] for k in common] for x in (first, second))
        equal.append(np.mean(np.array(a) == np.array(b)))
        kappas.append(cohen_kappa_score(a, b))
    mean = pd.read_parquet(unjudged / "raters.parquet").set_index("measure")["estimate"]
    assert mean["percent agreement, mean of pairs"] == pytest.approx(np.mean(equal))
    assert mean["cohen kappa, mean of pairs"] == pytest.approx(np.mean(kappas))
    assert mean["pabak, mean of pairs"] == pytest.approx(2 * np.mean(equal) - 1)


def beside_the_others(people, label_of) -> list[tuple[list[str], list[str], list[str]]]:
    "For each rater the labels of the judge, of the rater and of the others' majority, on the answers that all have."
    core, out = core_of(people), []
    central = [r for r in people if r.item_id in core and r.rater != TENTH]
    for rater in sorted({r.rater for r in central}):
        others = majorities([r for r in central if r.rater != rater])
        own = {(r.target, r.item_id): r.label for r in central if r.rater == rater and r.target != "difficulty"}
        spoke = [k for k in own if k in others and own[k] != "Abstain" and label_of.get(k) in ("Correct", "Incorrect")]
        out.append(([label_of[k] for k in spoke], [own[k] for k in spoke], [others[k] for k in spoke]))
    return out


def test_judges_beside_the_majority(judged, people):
    out, keys, wins, contrary = judged
    table = pd.read_parquet(out / "alignment.parquet").set_index(["annotator", "metric"])
    echo = table.loc[("echo", "percent_agreement")]
    assert echo["estimate"] > 0.9 and echo["n"] == len(keys)  # its first verdicts, not its repetition
    parts = beside_the_others(people, dict(zip(keys, contrary, strict=True)))
    assert table.loc["moody", "n"].tolist() == [len(keys) - 2] * 3  # without the abstention and the failure
    assert (
        table.loc["moody", "n_abstained"].tolist() == [1] * 3 and table.loc["moody", "n_left_out"].tolist() == [2] * 3
    )
    kappa = table.loc[("moody", "cohen_kappa")]
    assert kappa["estimate"] == pytest.approx(np.mean([cohen_kappa_score(x, o) for x, _, o in parts]))
    assert kappa["ceiling"] == pytest.approx(np.mean([cohen_kappa_score(r, o) for _, r, o in parts]))
    assert kappa["difference"] == pytest.approx(kappa["estimate"] - kappa["ceiling"])
    brief = table.loc["brief"]
    assert brief["n"].tolist() == [9] * 3 and brief["estimate"].isna().all()  # too few: a row, and no number
    abstain = pd.read_parquet(out / "judges_abstain.parquet").set_index("annotator")
    assert abstain.loc["moody", "estimate"] == pytest.approx(1 / (len(keys) - 1))
    first = json.loads((out / "contents.json").read_text())["first"]
    assert first["measure"] == "kappa with people" and "non-inferior to a rater of the panel" in first["said"]
    best = pd.read_parquet(out / "ensembles.parquet").set_index("metric")
    assert best.loc["percent_agreement", "members"] == "echo" and best.loc["percent_agreement", "candidates"] == 2


def test_the_ceiling_is_a_member_against_the_others(judged, people):
    "Percent agreement of each rater with the majority of the other raters, averaged over raters."
    _, keys, wins, _ = judged
    parts = beside_the_others(people, dict(zip(keys, wins, strict=True)))
    shares = [np.mean([x == w for x, w in zip(own, others, strict=True)]) for _, own, others in parts]
    table = pd.read_parquet(judged[0] / "alignment.parquet").set_index(["annotator", "metric"])
    assert table.loc[("echo", "percent_agreement"), "ceiling"] == pytest.approx(np.mean(shares))


def test_what_is_not_there_says_why(unjudged):
    contents = json.loads((unjudged / "contents.json").read_text())
    absent = {a["name"]: a["why"] for a in contents["absent"]}
    assert {
        "no judge labelled answers of the core",
        "no judge has a confidence on answers that people labelled",
    } <= set(absent.values())
    assert all(absent.values()) and len(absent) >= 5
    for name in ("alignment", "ensembles", "bias", "bias_recorded", "judges_abstain"):
        assert not (unjudged / f"{name}.parquet").exists()
    for file in unjudged.glob("*.parquet"):
        table = pd.read_parquet(file)
        assert len(table) and "none" not in table, file.name


def test_answers_without_a_majority_before_and_after_the_tie_breaker(unjudged, people):
    table = pd.read_parquet(unjudged / "majorities.parquet").set_index(["items", "labels"])
    core, ids = core_of(people), {r.item_id for r in people}
    students = {r.target for r in people} - {"difficulty"}
    before, after = majorities(people), majorities(people, decided=True)
    for (items, whose), row in table.iterrows():
        of = {"core": core, "others": ids - core, "all": ids}[items]
        wins = before if whose == "the panel's" else after
        keys = [(s, i) for s in students for i in of]
        assert (row["n_items"], row["n_answers"]) == (len(of), len(keys))
        assert row["without"] == sum(k not in wins for k in keys)
        assert row["share"] == pytest.approx(row["without"] / row["n_answers"])
    without = table["without"]
    assert without["others", "the panel's"] > without["others", "with the tie-breaker's"]


def test_a_majority_of_one_rater_is_announced(prepared, unjudged, people, tmp_path):
    findings = lambda out: " ".join(json.loads((out / "contents.json").read_text())["findings"])
    assert "one rater alone" not in findings(unjudged)  # every answer of the demo has two raters or more
    folder = tmp_path / "results"
    shutil.copytree(prepared, folder)
    core = core_of(people)
    gone = next(r.rater for r in people if r.rater != TENTH and r.item_id not in core)
    left = [r for r in people if r.rater != gone or r.item_id in core]
    write_records(left, folder / "text/medqade/prepare/ratings.parquet", Rating)
    heard = defaultdict(set)
    for r in left:
        if r.target != "difficulty" and r.rater != TENTH:
            heard[r.item_id, r.target].add(r.rater)
    n = sum(len(raters) == 1 for raters in heard.values())
    assert n and f"{n} of {len(heard)} answers have a label of one rater alone" in findings(panel(folder))


@pytest.fixture(scope="module")
def bank(root, tmp_path_factory):
    "The stage on the demo bank as it is: its people, and the five judges that came with it."
    folder = tmp_path_factory.mktemp("bank") / "results"
    with pytest.MonkeyPatch.context() as m:
        m.setenv("MHBENCH_ROOT", str(root))
        m.chdir(root)
        demo = {"path": "mhbench/studies/medqade/demo", "sha256": None, "answers": {}, "n_items": None, "sets": []}
        run_stage("prepare", "medqade", overrides=demo | {"results": str(folder)})
        run_stage("panel", "medqade", overrides={"results": str(folder), "n_boot": 400})
    ratings = read_records(folder / "text/medqade/prepare/ratings.parquet", Rating)
    return folder / "studies/medqade/panel", ratings


def exact_error(judge, student, right) -> float:
    "The standard deviation of a bias over all labels that the simulated judges could have given, which are coins."

    def variance(j, lean=0.0):
        p = np.where(right, j.sensitivity, 1 - j.specificity)
        p = p + lean * (1 - p)
        return p * (1 - p)

    peers = [j for j in SIMULATED_JUDGES if j.lineage != judge.lineage]
    own = variance(judge, judge.lean_self if student == judge.name else judge.lean_family)
    both = own + np.sum([variance(j) for j in peers], axis=0) / len(peers) ** 2
    return float(np.sqrt(both.sum()) / len(right))


def test_the_known_bias_is_found_again(bank):
    "Two simulated judges lean; what they lean by is known from the answers and the model that made the labels."
    pool = {r["item_id"]: r for r in csv.DictReader((demo_path("medqade") / "answer_pool.csv").open())}
    answers = list(csv.DictReader(io.StringIO((demo_path("medqade") / "simulated_students.csv").read_text())))
    right = {
        s: np.array([a[s] in (pool[a["item_id"]]["key"], pool[a["item_id"]]["accepted"]) for a in answers])
        for s in (f"sim-s{k}" for k in range(1, 6))
    }
    table = pd.read_parquet(bank[0] / "bias_recorded.parquet")
    judges = {j.name: j for j in SIMULATED_JUDGES}
    related = table[table["kind"] != "other"].set_index(["annotator", "student"])
    for (judge, student), row in related.iterrows():
        known = expected_bias(judges[judge], judges[student], right[student], SIMULATED_JUDGES)
        error = exact_error(judges[judge], student, right[student])
        assert abs(row["estimate"] - known) < 3 * error, (judge, student)
        if (judge, student) in (("sim-s4", "sim-s4"), ("sim-s3", "sim-s4")):
            assert row["ci_low"] <= known <= row["ci_high"]
    own = related.loc[("sim-s4", "sim-s4")]
    assert own["kind"] == "self" and own["ci_low"] > 0.1 and own["p_adjusted"] < 0.1
    assert related.loc[("sim-s3", "sim-s4"), "kind"] == "family"
    assert related.loc[("sim-s3", "sim-s4"), "ci_low"] > 0


def test_self_preference_is_the_difference_to_independent_peers(bank):
    table = pd.read_parquet(bank[0] / "bias_recorded.parquet").set_index(["annotator", "student"])
    lineage = {j.name: j.lineage for j in SIMULATED_JUDGES}
    said = defaultdict(dict)
    for r in bank[1]:
        if r.by_model and r.target != "difficulty" and r.label != "Abstain":
            said[r.target, r.item_id][r.rater] = float(r.label == "Correct")
    for (judge, student), row in table.iterrows():
        differences = []
        for (target, _), x in said.items():
            peers = [v for j, v in x.items() if lineage[j] != lineage[judge]]
            if target == student and judge in x and peers:
                differences.append(x[judge] - np.mean(peers))
        assert (row["n"], row["estimate"]) == (len(differences), pytest.approx(np.mean(differences)))


def test_two_languages_are_one_parameter(bank):
    from mhbench.records.schema import Item

    items = read_records(bank[0].parents[2] / "text/medqade/prepare/items.parquet", Item)
    assert Counter(i.language for i in items) == {"en": 40, "de": 12}


def test_the_paper_s_layout_says_what_the_tidy_tables_say(bank):
    tidy = pd.read_parquet(bank[0] / "alignment.parquet").set_index(["annotator", "metric"])
    wide = pd.read_parquet(bank[0] / "alignment_wide.parquet").set_index("annotator")
    for (judge, metric), row in tidy.iterrows():
        cell = wide.loc[judge, metric.replace("_", " ")]
        assert cell == f"{row['estimate']:.3f} [{row['ci_low']:.3f}, {row['ci_high']:.3f}] (n = {row['n']})"
