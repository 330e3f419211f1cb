"""The competency tables and tests against loops, scipy and the recorded answers of a released file."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import precision_recall_fscore_support

from mhbench.ledger.claims import load_claims
from mhbench.records.schema import Item, Judgment, Rating, Response
from mhbench.registry import claims_file
from mhbench.stats.estimate import estimate
from mhbench.stats.resample import mean
from mhbench.steps import duels
from mhbench.steps.between_models import model_pairs
from mhbench.steps.rates import f1_table, rate_table
from mhbench.steps.score import score_responses, self_consistency
from mhbench.studies.counselingbench import competency, load, rationales
from mhbench.studies.counselingbench import results as results_of_release
from mhbench.studies.counselingbench.load import load_counselingbench, load_counselingbench_responses


def table(seed=0, cases=12, per_case=6, models=("a", "b", "c"), groups=("x", "y", "z")) -> pd.DataFrame:
    rng, rows = np.random.default_rng(seed), []
    hard = rng.normal(0, 1, cases)
    for m, ability in zip(models, np.linspace(1, -0.5, len(models))):
        for k in range(cases * per_case):
            case, key = k // per_case, "ABCD"[k % 4]
            right = rng.random() < 1 / (1 + np.exp(-ability - hard[case]))
            said = key if right else rng.choice([x for x in "ABCD" if x != key])
            rows.append(
                dict(
                    item_id=f"q{k:03d}",
                    cluster=f"c{case:02d}",
                    task="multiple_choice",
                    category=groups[k % len(groups)],
                    model=m,
                    mode="zero_shot",
                    answered_by="plain",
                    n_votes=1,
                    sample=0,
                    status="ok",
                    how="letter",
                    read=True,
                    key=[key],
                    answer=[said],
                    correct=float(right),
                )
            )
    return pd.DataFrame(rows)


@pytest.mark.parametrize("seed", range(4))
def test_measures_are_scikit_learns(seed):
    scores = table(seed)
    got = competency.competency_table(scores, n_boot=20, seed=1)
    for (m, by, group), g in got.groupby(["model", "by", "group"]):
        s = scores[(scores["model"] == m) & ((by == "all") | (scores["category"] == group))]
        key, said = ([x[0] for x in s[k]] for k in ("key", "answer"))
        p, r, f, _ = precision_recall_fscore_support(
            key, said, labels=sorted(set(key)), average="macro", zero_division=0
        )
        assert g.set_index("measure")["estimate"].to_dict() == pytest.approx(
            {
                "accuracy": np.mean(np.array(key) == np.array(said)),
                "macro precision": p,
                "macro recall": r,
                "macro f1": f,
            }
        )


def test_intervals_are_the_ones_of_the_score_module():
    scores = table(2)
    got = competency.competency_table(scores, seed=3, n_boot=300)
    rates = rate_table(scores, seed=3, n_boot=300)
    assert np.allclose(
        got.loc[got["measure"] == "accuracy", ["estimate", "ci_low", "ci_high"]].to_numpy(),
        rates[["estimate", "ci_low", "ci_high"]].to_numpy(),
    )
    single = competency.competency_table(scores, interval="question", seed=3, n_boot=300, by=())
    x = scores[scores["model"] == "a"].sort_values("item_id")["correct"].to_numpy()
    alone = estimate(mean, x, seed=3, share=True)
    assert np.allclose(
        single.loc[(single["model"] == "a") & (single["measure"] == "accuracy"), ["ci_low", "ci_high"]].to_numpy()[0],
        [alone.ci_low, alone.ci_high],
    )
    f = f1_table(scores, seed=3, n_boot=300)
    assert np.allclose(got.loc[(got["measure"] == "macro f1") & (got["by"] == "all"), "estimate"], f["estimate"])


@pytest.mark.whole
def test_paper_interval_draws_samples_of_its_size():
    "Each replicate is a count out of `size`; the spread is the binomial's, whatever the number of questions."
    x = np.r_[np.ones(700), np.zeros(300)]
    i = competency.paper_interval(mean, x, n=8000, seed=1)
    assert np.allclose(i.replicates * 100, np.round(i.replicates * 100)) and i.n == 1000 and i.level == 0.99
    assert i.replicates.std() == pytest.approx(np.sqrt(0.7 * 0.3 / 100), rel=0.05)
    assert competency.paper_interval(mean, np.tile(x, 10), n=4000, seed=1).replicates.std() == pytest.approx(
        i.replicates.std(), rel=0.05
    )
    assert [i.ci_low, i.ci_high] == pytest.approx(stats.binom.ppf([0.005, 0.995], 100, 0.7) / 100, abs=0.011)
    again = competency.paper_interval(mean, x, n=8000, seed=1)
    assert (i.ci_low, i.ci_high) == (again.ci_low, again.ci_high)


def test_paper_interval_draws_questions_with_all_their_samples():
    x, unit = np.tile([1.0, 0.0], 50), np.repeat(np.arange(50), 2)
    i = competency.paper_interval(mean, x, units=unit, seed=1)
    assert i.n == 50 and i.ci_low == i.ci_high == 0.5


def test_cluster_robust_test_by_the_sandwich():
    "An intercept-only regression with cluster-robust errors, written out: pairs that share a general model."
    d, general = np.array([0.1, 0.3, -0.1, 0.2, 0.25]), np.array(["a", "a", "b", "c", "c"])
    n, M = len(d), np.eye(5) - 1 / 5  # residuals are M d; a cluster's own are too small by 1 - n_g / n
    pull = [M[general == g].sum(0) / np.sqrt(1 - (general == g).mean()) / n for g in "abc"]  # Bell and McCaffrey 2002
    se = np.sqrt(sum((p @ d) ** 2 for p in pull))
    of_each = np.linalg.eigvalsh(np.array(pull) @ np.array(pull).T)
    df = of_each.sum() ** 2 / (of_each**2).sum()
    got = competency.over_units(pd.DataFrame({"all": d}), clusters=general).iloc[0]
    assert (got["t"], got["df"], got["n"]) == (pytest.approx(d.mean() / se), pytest.approx(df), 5)
    assert got["p"] == pytest.approx(2 * stats.t.sf(abs(d.mean() / se), df))
    assert got["ci_high"] == pytest.approx(d.mean() + stats.t.ppf(0.975, df) * se)
    alone = competency.over_units(pd.DataFrame({"all": d})).iloc[0]
    reference = stats.ttest_1samp(d, 0)
    assert (alone["t"], alone["p"]) == pytest.approx((reference.statistic, reference.pvalue))


def test_one_contrast_has_one_p_value_whatever_it_is_corrected_over():
    scores = table(5)
    every = model_pairs(scores.assign(temperature=0.0))
    asked = {"b": "a", "c": "a"}
    others = [every.assign(mode="cot", p_adjusted=0.5), every.assign(answered_by="majority", p_adjusted=0.5)]
    of_all = pd.concat([every, *others])
    got = competency.medical_models(scores, asked, mode="zero_shot", method="holm", every_two=of_all)
    overall = got[got["group"] == "all"].set_index("medical")
    pairs = every.set_index(["first", "second"])
    for medical in asked:
        assert overall.loc[medical, "p_case"] == pytest.approx(pairs.loc[("a", medical), "p"])
        assert overall.loc[medical, "p_every_two"] == pytest.approx(pairs.loc[("a", medical), "p_adjusted"])
    assert got.loc[got["group"] != "all", "p_every_two"].isna().all()
    assert (overall["p_adjusted"] <= overall["p_every_two"]).all(), "two named pairs are fewer than three"


@pytest.mark.whole
def test_the_test_over_cases_keeps_its_level():
    """No difference between competencies, large differences between cases: false alarms about as often as promised, 200
    banks.
    """
    rng, false = np.random.default_rng(8), 0
    for _ in range(200):
        hard = np.repeat(rng.normal(0, 1, 15), 6)
        x = (rng.random(90) < 1 / (1 + np.exp(-hard))).astype(float)
        frame = pd.DataFrame(
            {
                "item_id": [f"q{k}" for k in range(90)],
                "cluster": np.repeat(np.arange(15), 6).astype(str),
                "category": np.tile(["x", "y", "y"], 30),
                "model": "m",
                "mode": "zero_shot",
                "answered_by": "plain",
                "correct": x,
            }
        )
        false += competency.competency_differences(frame)["p"][0] < 0.05
    assert stats.binom.cdf(false, 200, 0.05) < 0.999 and false > 0


def test_an_unanswered_question_is_left_out_of_the_pair_and_counted():
    scores = table(1)
    scores.loc[scores.index[0], ["correct", "status"]] = [np.nan, "error"]
    row = competency.medical_models(scores, {"b": "a"}).iloc[0]
    assert (row["n"], row["n_left_out"]) == (71, 1)


def test_a_model_that_never_answered_has_no_row_and_breaks_nothing():
    scores = table(1)
    scores.loc[scores["model"] == "c", ["correct", "status"]] = [np.nan, "error"]
    assert set(competency.competency_table(scores, n_boot=10, seed=1)["model"]) == {"a", "b"}
    assert competency.competency_differences(scores)["estimate"].notna().all()


def test_finetuned_and_competency_tests_are_scipys():
    rng = np.random.default_rng(3)
    wide = pd.DataFrame(rng.random((8, 3)), index=[f"m{k}" for k in range(8)], columns=["x", "y", "z"])
    pairs = {f"m{k}": f"m{k + 4}" for k in range(4)}
    differences = wide.loc[[*pairs]] - wide.loc[[*pairs.values()]].to_numpy()
    for r in competency.over_units(differences, clusters=list(pairs.values())).itertuples():
        ref = stats.ttest_rel(wide.loc[[*pairs], r.group], wide.loc[[*pairs.values()], r.group])
        assert (r.t, r.p, r.ci_low, r.ci_high) == pytest.approx((ref.statistic, ref.pvalue, *ref.confidence_interval()))
    wide.loc["m0", "x"] = np.nan
    got = competency.compare_competencies(wide)
    assert got["n"].tolist() == [7, 7, 8]
    assert got["p"][0] == pytest.approx(stats.ttest_rel(wide["x"][1:], wide["y"][1:]).pvalue)


def test_one_contrast_has_one_sign_and_one_family():
    "Both tables subtract the general model; each family is corrected over what its caption names."
    scores = table(5)
    by_pair = competency.medical_models(scores, {"b": "a", "c": "a"}, mode="zero_shot", method="holm")
    over = competency.over_pairs(by_pair, method="holm").set_index("group")
    wide = scores.pivot(index="item_id", columns="model", values="correct").mean()
    overall = by_pair[by_pair["group"] == "all"].set_index("medical")
    assert overall["estimate"].to_dict() == pytest.approx({m: wide[m] - wide["a"] for m in "bc"})
    assert over.loc["all", "estimate"] == pytest.approx(overall["estimate"].mean())
    assert overall["p_adjusted"].min() == pytest.approx(min(2 * overall["p_case"].min(), 1)), "two pairs, one family"
    assert over.loc["all", ["n", "n_general"]].tolist() == [2, 1] and np.isnan(over.loc["all", "p"]), "one cluster"
    again = competency.over_units(pd.DataFrame({"all": wide[["b", "c"]] - wide["a"]}), clusters=["a", "a"])
    assert again["estimate"][0] == pytest.approx(over.loc["all", "estimate"])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"),
            st.sampled_from(["m1", "m2"]),
            st.integers(0, 9),
            st.sampled_from([*load.ERRORS, "Abstain"]),
        ),
        max_size=40,
        unique_by=lambda x: x[:3],
    )
)
def test_error_counts_by_loops(votes):
    ratings = [
        Rating(item_id=f"q{q}", study="counselingbench", rater=r, target=m, label=label, source="x")
        for r, m, q, label in votes
    ]
    got = rationales.error_table(ratings).set_index(["model", "kind"])["count"].to_dict() if ratings else {}
    want = Counter()
    for m, q in {(m, q) for _, m, q, _ in votes}:
        count = Counter(label for _, vm, vq, label in votes if (vm, vq) == (m, q) and label != "Abstain")
        abstained = sum((vm, vq, label) == (m, q, "Abstain") for _, vm, vq, label in votes)
        alone = sum(count.values()) == 1 and abstained > 1  # one label beside two abstentions is no majority
        if count and not alone and count.most_common(1)[0][1] * 2 > sum(count.values()):
            want[m, count.most_common(1)[0][0]] += 1
    assert {k: v for k, v in got.items() if v} == dict(want)


def test_the_papers_chi_square_and_the_right_one():
    o, e = np.array([35, 36, 29]), np.array([33, 21, 46])  # logical, context, knowledge: medical and general
    ratings = [
        Rating(item_id=f"{m}{k}{i}", study="counselingbench", rater="r", target=m, label=k, source="x")
        for m, row in (("medical", o), ("general", e))
        for k, n in zip(("logical", "context", "knowledge"), row)
        for i in range(n)
    ]
    got = rationales.compare_errors(ratings, seed=1).iloc[0]
    assert stats.chisquare(o, e).statistic == pytest.approx(17.12, abs=0.005)
    assert (got["chi2"], got["p"]) == pytest.approx(stats.chi2_contingency([o, e], correction=False)[:2])


def duel(item, a, b, first, second, axis="harm", judge="j"):
    make = lambda m, o, label: Judgment(
        item_id=item,
        study="counselingbench",
        model=m,
        other=o,
        mode="cot",
        judge=judge,
        kind="pairwise",
        rubric="counselingbench/duel",
        axis=axis,
        label=label,
        status="ok" if label else "error",
        error=None if label else "none",
    )
    return [make(a, b, first), make(b, a, second)]


verdict = st.sampled_from(["first", "second", "tie", None])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(verdict, verdict), min_size=1, max_size=12))
def test_duels_by_loops(verdicts):
    j = [x for k, (v, w) in enumerate(verdicts) for x in duel(f"q{k}", "a", "b", v, w)]
    row = duels.duel_table(j).iloc[0]
    known = [(v, w) for v, w in verdicts if v and w]
    won = lambda x, y: sum((v, w) == (x, y) for v, w in known)
    assert (row["a_wins"], row["b_wins"], row["ties"]) == (
        won("first", "second"),
        won("second", "first"),
        won("tie", "tie"),
    )
    assert row["n"] == len(known) == row[["a_wins", "b_wins", "ties", "split"]].sum() and row["n_failed"] == len(
        verdicts
    ) - len(known)
    s = duels.duel_strengths(j).set_index("model")
    if not row["a_wins"] + row["b_wins"]:  # none was decided
        assert s["estimate"].isna().all()
    else:
        assert s["estimate"].sum() == pytest.approx(1)
        assert np.sign(round(s.loc["a", "estimate"] - 0.5, 9)) == np.sign(row["a_wins"] - row["b_wins"])


def test_strength_intervals_draw_whole_cases():
    rng = np.random.default_rng(1)
    case = {f"q{k}": f"c{k // 10}" for k in range(60)}
    favours = rng.random(6) < 0.5
    j = [
        x
        for k in range(60)
        for x in duel(
            f"q{k}",
            "a",
            "b",
            *(("first", "second") if rng.random() < (0.9 if favours[k // 10] else 0.1) else ("second", "first")),
        )
    ]
    by_item, by_case = (
        duels.duel_strengths(j),
        duels.duel_strengths(j, cases=case),
    )
    assert by_case["n"].tolist() == by_item["n"].tolist() == [60, 60]
    assert by_case["n_clusters"].tolist() == [6, 6] and by_item["n_clusters"].tolist() == [60, 60]
    assert (by_case["ci_high"] - by_case["ci_low"])[0] > 1.5 * (by_item["ci_high"] - by_item["ci_low"])[0]


def test_axes_are_the_rubrics():
    from mhbench.ask.rubrics import rubric

    axes = list(rubric("counselingbench/duel").axes)
    backwards = [x for axis in axes[::-1] for x in duel("q", "a", "b", "first", "second", axis=axis)]
    assert duels.duel_table(backwards)["axis"].tolist() == axes[::-1], "the rubric's order, not the alphabet's"
    assert duels.duel_strengths(backwards)["axis"].drop_duplicates().tolist() == axes[::-1]
    assert {*rubric("counselingbench/error").labels} == {*load.ERRORS, "Abstain"}


def test_expert_takes_part_where_there_is_a_rationale():
    item = lambda i, why: Item(
        item_id=i,
        study="counselingbench",
        task="multiple_choice",
        question="Q?",
        options=["x", "y"],
        key=["A"],
        rationale=why,
        source="t",
    )
    got = duels.expert_responses([item("q1", "Because."), item("q2", None), item("q3", "  ")])
    assert [(r.item_id, r.model, r.text) for r in got] == [("q1", "expert", "Because.")]


def test_recorded_answers_of_a_released_file(datasets, tmp_path):
    file = datasets / "counselingbench" / "Mistral-7B-Instruct-v0.3_zero-shot_None_0.csv"
    (items, bad), (responses, _) = (
        load_counselingbench(file, strict=False, set_aside=tmp_path / "bad.jsonl"),
        load_counselingbench_responses(file),
    )
    kept = {i.item_id for i in items}
    scores = score_responses(items, [r for r in responses if r.item_id in kept])
    got = {
        i: competency.competency_table(scores, by=(), interval=i, seed=1).query("measure == 'accuracy'").iloc[0]
        for i in ("case", "question", "paper")
    }
    rows = pd.read_csv(file, encoding="utf-8-sig")
    assert (
        len(bad) == 2
        and got["case"]["n"] == len(items) == len(rows) - len(bad) == 508
        and got["case"]["n_clusters"] == scores["cluster"].nunique() < 100
    )
    assert got["case"]["estimate"] == pytest.approx(
        (rows["parsed_pred"] == rows["correct_answer_letter"]).mean(), abs=0.02
    )
    width = {k: r["ci_high"] - r["ci_low"] for k, r in got.items()}
    assert width["paper"] > 2 * width["question"] and got["paper"]["level"] == 0.99
    assert got["case"]["n_unread"] + got["case"]["n_missing"] < 10


@pytest.mark.parametrize(
    "votes, right",
    [
        ({0.2: "A", 0.4: "A", 0.6: "B", 0.8: "B", 1.0: "B"}, 1.0),
        ({0.2: "C", 0.4: "A", 0.6: "C", 0.8: "A", 1.0: "?"}, 0.0),
    ],
)
def test_the_plain_answer_does_not_vote_and_the_25_are_not_plain(votes, right):
    from answering import answering

    from mhbench.ask.request import Model
    from mhbench.steps.generate import generate
    from mhbench.steps.score import score_responses, self_consistency

    items = [
        Item(
            item_id=f"q{i}",
            study="any",
            task="multiple_choice",
            question=f"Number {i}?",
            options=["w", "x", "y", "z"],
            key=["B"],
            group_id=f"case {i}",
            category="one",
            source="test",
        )
        for i in range(3)
    ]
    plain = {"max_tokens": 5, "temperature": 0.0}
    with answering(lambda body: votes[body["temperature"]] if body["temperature"] else "D") as (here, seen):
        got = generate(
            items,
            Model(name="m", endpoint="here", served="m", sampling=plain),
            here,
            modes={"zero_shot": {"self_consistency": True}},
            cache=None,
            progress=False,
        )
    assert len(got) == 3 * 26
    scores = score_responses(items, got)
    scores = pd.concat([scores, self_consistency(scores, items)], ignore_index=True)
    assert scores.value_counts(["mode", "answered_by", "n_votes"]).to_dict() == {
        ("zero_shot", "plain", 1): 3,
        ("zero_shot", "sample", 1): 75,
        ("zero_shot", "majority", 25): 3,
    }
    voted = scores[scores["answered_by"] == "majority"]
    assert (voted["correct"] == right).all()
    if right:
        assert (voted["how"] == "majority").all() and voted["confidence"].tolist() == [15 / 25] * 3
    else:
        assert (voted["how"] == "majority: tie").all() and voted["answer"].tolist() == [
            ["C"]
        ] * 3  # ten votes each: the letter that was sampled first
    table = competency.competency_table(scores, seed=1, n_boot=50)
    accuracy = table[(table["measure"] == "accuracy") & (table["by"] == "all")].set_index("answered_by")["estimate"]
    assert accuracy["plain"] == 0 and accuracy["majority"] == right


def test_a_named_pair_is_compared_where_both_answered_and_else_named():
    choice = pd.DataFrame({"model": ["a", "b", "c"], "mode": ["zero_shot", "zero_shot", "cot"]})
    pairs = {"a": "b", "c": "b"}
    asked = competency.pairs_asked(pairs, choice, "zero_shot")
    assert asked == {"a": "b"} and [*competency.pairs_not_asked(pairs, asked, "zero_shot")] == ["c beside b"]


def test_a_majority_is_tied_whether_or_not_all_votes_came():
    about = {"study": "s", "mode": "zero_shot", "model": "m"}
    of = {"study": "s", "task": "multiple_choice", "question": "?", "options": ["x", "y"], "source": "here"}
    items = [Item(item_id=f"q{k}", key=["A"], category="one", **of) for k in range(12)]
    said = []
    for i in items:
        said += [Response(item_id=i.item_id, sample=k, votes=True, text=t, **about) for k, t in enumerate("AB")]
        said += [Response(item_id=i.item_id, sample=2, votes=True, status="error", error="503", **about)]
    scores = score_responses(items, said)
    choice = competency.choice_scores(pd.concat([scores, self_consistency(scores, items)], ignore_index=True)).scores
    accuracy = competency.accuracies(competency.competency_table(choice, n_boot=20, seed=1))
    standings = competency.standings(accuracy, choice, competency.MARKS).set_index("mode")["n_tied"]
    assert standings["zero_shot, majority of 3"] == 12


def test_a_printed_value_is_neither_inside_nor_outside_of_no_interval():
    claims = load_claims(claims_file("counselingbench"))
    row = {"model": "counselingQA-gpt4o", "mode": "zero_shot", "answered_by": "plain", "by": "all", "n": 9}
    limits = [(0.6, 0.9), (0.1, 0.2), (np.nan, np.nan)]
    accuracy = pd.DataFrame([row | {"estimate": 0.7, "ci_low": low, "ci_high": high} for low, high in limits])
    results = pd.DataFrame(columns=["run", "group", "measure", "middle"])
    assert results_of_release.join_released_results(accuracy, results, claims)["inside"].tolist() == [True, False, None]


def test_an_annotated_answer_without_an_error_has_no_kind(tmp_path):
    errors = ["Math Error,IA&D,IA&D", ",IA&D,TP", '"Math Error, Other Error",TP,TP']
    (tmp_path / "errors.csv").write_text("\n".join(["Errors,label_h,label_s", *errors]), encoding="utf-8")
    found = results_of_release.annotated_errors(tmp_path / "errors.csv").set_index(["what", "group"])["value"]
    assert found["answers", "all"] == 3 and found["answers", "one kind"] == 1
