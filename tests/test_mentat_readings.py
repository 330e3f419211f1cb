"""MENTAT's two readings of question_order, what they lead to, and the tables in the paper's layout."""

import itertools
import re

import krippendorff
import numpy as np
import pandas as pd
import pytest
from examples import notebook_functions
from scipy.special import softmax
from scipy.stats import spearmanr

from mhbench.annotate.export import ratings_of_file
from mhbench.corpus.demo import demo_path
from mhbench.corpus.load import load_corpus
from mhbench.records.schema import Item, Response
from mhbench.stats.hierarchical import bootstrap_preferences
from mhbench.stats.preference import plackett_luce
from mhbench.steps.between_models import prompt_wordings
from mhbench.steps.rates import by_category, by_level, inconsistency_and_accuracy
from mhbench.studies.mentat.annotations import (
    AnnotationArrays,
    annotation_arrays,
    load_annotations,
    reading_note,
    slider_sections,
)
from mhbench.studies.mentat.labels import annotation_page, label_tables
from mhbench.studies.mentat.questions import load_mentat
from mhbench.studies.mentat.readings import (
    agreement_by_reading,
    both_readings,
    has_one_reading,
    labels_of,
    reading_fits,
    reading_tests,
    score_by_labels,
)

DEMO = notebook_functions("studies/mentat/04_demo_annotations.ipynb")


def arrays(scores, orders, questions=None, raters=None, sessions=None, mapping="shown"):
    n = len(scores)
    names = [np.asarray(x) if x is not None else np.array(["x"] * n) for x in (questions, raters, sessions)]
    sources = np.array([f"f:{k}" for k in range(n)])
    genders = np.array([""] * n)
    return AnnotationArrays(np.asarray(scores, float), names[0], names[1], genders, sources, names[2], orders, mapping)


# ---------------------------------------------------------------- the permutation


def test_either_reading_comes_from_the_other_for_every_order():
    "By the definitions: shown puts slider i at option order[i]; release gives option k the slider order[k]."
    orders = np.array(list(itertools.permutations(range(5))))
    sliders = [11, 22, 33, 44, 55]
    shown = np.zeros((120, 5))
    for line, order in enumerate(orders):
        for i in range(5):
            shown[line, order[i]] = sliders[i]
    release = np.array([[sliders[order[k]] for k in range(5)] for order in orders])
    for imported, scores in (("shown", shown), ("release", release)):
        got = both_readings(arrays(scores, orders, mapping=imported))
        assert (got["shown"].scores == shown).all() and (got["release"].scores == release).all()
    assert ((shown == release).all(1) == has_one_reading(orders)).all() and has_one_reading(orders).sum() == 26


def test_the_default_is_what_the_page_showed():
    folder = demo_path("mentat") / "annotated_data"
    default = annotation_arrays(load_annotations(folder).ratings)
    assert default.mapping == "shown"
    release = annotation_arrays(load_annotations(folder, mapping="release").ratings)
    assert (both_readings(default)["release"].scores == release.scores).all()
    corpus = load_corpus("mentat", demo_path("mentat"))
    assert corpus.notes[0] == reading_note("shown")
    assert load_corpus("mentat", demo_path("mentat"), mapping="release").notes[0] == reading_note("release")
    assert [len(re.findall(r"\.(?: |$)", reading_note(m))) for m in ("shown", "release")] == [2, 2]


@pytest.mark.parametrize("written", ["shown", "release"])
def test_the_tests_name_the_reading_that_sessions_were_written_in(tmp_path, written):
    asked = [i for i in load_mentat(demo_path("mentat")) if i.category in ("triage", "documentation")]
    for name, text in DEMO.simulate_annotations(asked, seed=9, mapping=written).items():
        (tmp_path / name).write_text(text, newline="")
    readings = both_readings(annotation_arrays(load_annotations(tmp_path).ratings))
    got = reading_tests(readings)
    other = {"shown": "release", "release": "shown"}[written]
    assert (got.signs[written] > got.signs[other]).all() and (got.signs["p_value"] < 0.05).all()
    assert (got.signs["n"] == got.signs[["shown", "release", "even"]].sum(axis=1)).all()


def test_reading_tests_by_hand():
    """Rater b's one-reading annotation is the yardstick of a's two others: one follows it as shown, one is flat and has
    no correlation; a's two do not share a top option under release.
    """
    turn = [1, 2, 0]
    scores = [[10, 20, 90], [10, 20, 90], [50, 50, 50]]
    a = arrays(scores, np.array([[0, 1, 2], turn, turn]), ["q"] * 3, ["b", "a", "a"], ["s1", "s2", "s2"])
    got = reading_tests(both_readings(a))
    first = got.estimates.iloc[:2].set_index("reading")
    assert first.loc["shown", "n"] == first.loc["release", "n"] == 1
    assert first.loc["shown", "estimate"] == pytest.approx(1)
    # sliders are 20, 90, 10; release gives A the slider 1, B the slider 2, C the slider 0: 90, 10, 20
    assert first.loc["release", "estimate"] == pytest.approx(np.corrcoef([90, 10, 20], [10, 20, 90])[0, 1])
    assert got.estimates.iloc[2]["n"] == 0  # a flat annotation has no one top option
    for orders in (np.array([[0, 1, 2]] * 3), None):
        one = a._replace(orders=orders)
        with pytest.raises(ValueError, match="have two readings somewhere"):
            reading_tests({"shown": one, "release": one})


# ---------------------------------------------------------------- the release


@pytest.fixture(scope="module")
def real(datasets):
    folder = datasets / "mentat"
    if not (folder / "annotated_data").is_dir():
        pytest.skip("no MENTAT annotations among the corpora")
    named = pd.read_csv(folder / "creators.csv", dtype=str)
    creators = {q: "ABCDE".index(o) for q, o in zip(named["question"], named["option"], strict=True)}
    return both_readings(annotation_arrays(load_annotations(folder / "annotated_data").ratings)), creators


def test_real_tests_of_the_readings(real):
    readings, _ = real
    got = reading_tests(readings)
    estimate = got.estimates["estimate"].tolist()
    assert estimate[:2] == pytest.approx([0.718, 0.022], abs=0.001)
    assert got.signs.loc[0, ["n", "shown", "release"]].tolist() == [413, 309, 37]
    assert got.signs.loc[2, ["n", "shown", "release"]].tolist() == [30, 30, 0]
    assert estimate[2:4] == pytest.approx([0.87, 0.21], abs=0.02)
    assert has_one_reading(readings["shown"].orders).sum() == 133


def test_real_agreement_against_the_krippendorff_package(real):
    readings, creators = real
    got = agreement_by_reading(readings, creators=creators)
    by = got.set_index(["measure", "reading"])["estimate"]
    rng = np.random.default_rng(7)
    for m, a in readings.items():
        alphas = []
        for q in np.unique(a.questions):
            rows = np.flatnonzero(a.questions == q)
            each = [rows[a.raters[rows] == r] for r in np.unique(a.raters[rows])]
            drawn = [a.scores[[rng.choice(of) for of in each]] for _ in range(40)]
            one = [krippendorff.alpha(reliability_data=x, level_of_measurement="interval") for x in drawn]
            alphas.append(np.mean(one))
        assert by["Krippendorff's alpha", m] == pytest.approx(np.mean(alphas), abs=0.006)  # both are means over draws
    assert by["Krippendorff's alpha", "shown"] == pytest.approx(0.660, abs=0.001)
    assert by["Krippendorff's alpha", "release"] == pytest.approx(0.095, abs=0.001)
    assert by["creator's answer has the highest mean", "shown"] == pytest.approx(52 / 58)
    assert by["creator's answer has the highest mean", "release"] == pytest.approx(30 / 58)


def test_real_fits_with_the_creators(real):
    "The authors' released analysis ends at 506.52786 on these 658 rows, and their SLSQP at 470.718 without creators."
    readings, creators = real
    fits = reading_fits(readings, creators=creators)
    nll = {key: f.nll for key, f in fits.items()}
    assert nll["release", "paper", True] == pytest.approx(506.5278, abs=2e-4)
    assert nll["release", "paper", False] == pytest.approx(470.718, abs=1e-3)
    assert nll["shown", "paper", False] == pytest.approx(284.517, abs=1e-3)
    assert all(f.converged for f in fits.values())
    shown, released = (fits[m, "symmetric", False].probs.argmax(1) for m in ("shown", "release"))
    assert (len(shown), (shown != released).sum()) == (61, 33)


# ---------------------------------------------------------------- labels decide


def item(name, order):
    return Item(
        item_id=f"{name}.0",
        study="mentat",
        task="multiple_choice",
        question="What now?",
        options=[["wait", "ask", "act"][k] for k in order],  # an option called "a" would make the answer "A" ambiguous
        key=["A"],
        soft_labels=[1.0, 0.0, 0.0],
        order=[int(k) for k in order],
        base_id=name,
        category="triage",
        source="here",
    )


def test_scores_by_three_sets_of_labels_by_hand():
    """Base option b is preferred in one set and c in the other; question 1 shows options as b, c, a and question 2 as
    they are. Both answers are A: that is b in question 1 and a in question 2.
    """
    items = [item("q1", [1, 2, 0]), item("q2", [0, 1, 2]), item("q3", [0, 1, 2])]
    said = [Response(item_id=i.item_id, study="mentat", model="m", mode="zero_shot", text="A") for i in items]

    def labels(best, questions=("q1", "q2")):
        rows = [(q, o, 0.8 if o == best else 0.1) for q in questions for o in "ABC"]
        return pd.DataFrame(rows, columns=["question", "option", "probability"])

    got = score_by_labels(items, said, {"b": labels("B"), "c": labels("C"), "file": None})
    row = got[got["category"] == "all"].set_index("labels")
    assert row["n"].tolist() == [2] * 5  # q3 has no labels in two of the sets
    assert row["estimate"].to_dict() == {
        "b": 0.5,
        "c": 0.0,
        "file": 1.0,
        "b - c": 0.5,
        "b - file": -0.5,
    }
    assert set(got["category"]) == {"all", "triage"}
    with pytest.raises(ValueError, match="every set of labels holds"):
        score_by_labels(items, said, {"b": labels("B", ["q9"])})


def test_labels_of_a_fit_are_what_the_fit_holds():
    demo = annotation_arrays(load_annotations(demo_path("mentat") / "annotated_data").ratings)
    fits = reading_fits(both_readings(demo))
    fit = fits["shown", "symmetric", False]
    wide = labels_of(fit).pivot(index="question", columns="option", values="probability")
    assert wide.index.tolist() == fit.questions.tolist() and wide.to_numpy() == pytest.approx(fit.probs)


# ---------------------------------------------------------------- the demo's panel


def test_pairs_of_an_order_follow_davidson():
    "Pair by pair against Davidson 1970, equation 2.4, for worths drawn at random; the orders are the 541 of five."
    rng = np.random.default_rng(2)
    for _ in range(5):
        worths, slope, tie = rng.normal(0, 0.8, 5), rng.uniform(0.7, 1.3), rng.uniform(-1.5, 0.5)
        levels, p = DEMO.order_probabilities(worths, slope, tie)
        assert len(p) == 541 and p.sum() == pytest.approx(1) and (p >= 0).all()
        for i, j in itertools.permutations(range(5), 2):
            pi, pj = np.exp(slope * worths[i]), np.exp(slope * worths[j])
            total = pi + pj + np.exp(tie) * np.sqrt(pi * pj)
            assert p[levels[:, i] > levels[:, j]].sum() == pytest.approx(pi / total, abs=1e-8)
            assert p[levels[:, i] == levels[:, j]].sum() == pytest.approx(1 - (pi + pj) / total, abs=1e-8)


def test_the_fit_finds_the_panel_behind_the_demo():
    asked = [i for i in load_mentat(demo_path("mentat")) if i.category in ("triage", "documentation")]
    a = annotation_arrays(load_annotations(demo_path("mentat") / "annotated_data").ratings)
    panel, at = DEMO.simulated_panel(asked, seed=20250107), {i.item_id: k for k, i in enumerate(asked)}
    b = bootstrap_preferences(a.scores, a.questions, a.raters, n=40, seed=1, offset="symmetric")
    worths = panel.worths[[at[q] for q in b.fit.questions]]
    assert b.fit.finite.all() and b.fit.probs.min() > 0.001 and b.fit.probs.max() < 0.95
    assert spearmanr(b.fit.betas.ravel(), worths.ravel()).statistic > 0.85
    assert spearmanr(b.fit.offsets, panel.ties).statistic > 0.7
    truth = softmax(worths, 1)
    assert 0.85 < ((b.probs.low <= truth) & (truth <= b.probs.high)).mean()


# ---------------------------------------------------------------- tables


def test_label_tables_by_hand():
    """One question, wins and losses of two options three to one: Bradley and Terry's worths are 3 to 1 without a
    penalty, and the creator's answer makes it four to one.
    """
    x = np.array([[9, 1]] * 3 + [[1, 9]])
    a = arrays(x, None, ["q"] * 4, list("abcd"), mapping=None)
    got = label_tables(
        a, creators={"q": 0}, models=["Bradley-Terry", "Plackett-Luce"], ridge=1e-9, n_boot=5, n_boot_rankings=5, seed=1
    )
    p = got.labels.set_index(["model", "creators", "option"])["probability"]
    for model in ("Bradley-Terry", "Plackett-Luce"):
        assert p[model, False, "A"] == pytest.approx(0.75, abs=1e-4) and p[model, True, "A"] == pytest.approx(
            0.8, abs=1e-4
        )
    assert got.models["n"].tolist() == [4, 5, 4, 5]
    assert got.top_k.query("k == 1")["estimate"].tolist() == [1.0] * 4
    assert got.top_k.query("k == 1")["ci_low"].tolist() == pytest.approx([0.025] * 4)  # one of one
    assert got.top_k.query("k == 2")["ci_low"].isna().all()  # of two options both are among the first two
    assert got.labels["mean_score"].tolist() == pytest.approx([7.0, 3.0] * 4)


def test_label_tables_against_the_single_fits():
    a = annotation_arrays(load_annotations(demo_path("mentat") / "annotated_data").ratings)
    both = ["Plackett-Luce", "hierarchical, symmetric"]
    bare = label_tables(a, models=both[:1], seed=1)
    assert bare.labels["refits_low"].isna().all() and bare.models["n_boot"].tolist() == [0]
    got = label_tables(a, models=both, n_boot=4, n_boot_rankings=2, seed=1).labels
    wide = got.pivot(index=["model", "question"], columns="option", values="probability")
    for q in np.unique(a.questions):
        one = plackett_luce(a.scores[a.questions == q], penalty=0.1).probs
        assert wide.loc[("Plackett-Luce", q)].to_numpy() == pytest.approx(one)
    assert (got["refits_low"] <= got["refits_high"]).all() and not got["creators"].any()
    removed = label_tables(
        a, wrong_options={a.questions[0]: ["A", "B"]}, models=["Plackett-Luce"], n_boot_rankings=2, seed=1
    ).labels.set_index(["question", "option"])
    q = a.questions[0]
    was = wide.loc[("Plackett-Luce", q)]
    assert removed.loc[(q, "A"), "probability"] == removed.loc[(q, "B"), "refits_high"] == 0
    assert removed.loc[(q, "C"), "probability"] == pytest.approx(was["C"] / was[["C", "D", "E"]].sum())


def test_tables_in_the_papers_layout():
    "Rows and numbers of the paper's tables 1, 2 and 3."
    published = {"monitoring": (0.67, 0.03), "diagnosis": (0.82, 0.03), "documentation": (0.40, 0.02)}
    rows = [
        dict(group=c, models="all models", n_models=14, estimate=e, ci_low=e - h, ci_high=e + h)
        for c, (e, h) in published.items()
    ]
    averages = pd.DataFrame(rows).assign(mode="zero_shot", answered_by="plain", by="category")
    one = by_category(averages, as_published=True)
    assert one["category"].tolist() == ["diagnosis", "monitoring", "documentation"]
    assert one["all models (14 models)"].tolist() == ["0.82 ± 0.03", "0.67 ± 0.03", "0.40 ± 0.02"]
    two = by_level(pd.DataFrame(rows).rename(columns={"group": "level"}).assign(set="D_G"))
    levels = list(two[["set", "level"]].itertuples(index=False, name=None))
    assert levels == [("D_G", "monitoring"), ("D_G", "diagnosis"), ("D_G", "documentation")]
    free = pd.DataFrame(
        [dict(model="o1", by="category", group="triage", n=9, estimate=0.77, ci_low=0.72, ci_high=0.81)]
    )
    three = inconsistency_and_accuracy(free, free.assign(estimate=np.nan)).set_index("model")
    assert three.loc["o1", "triage, free-form inconsistency"] == "0.77 +0.04 -0.05 (n = 9)"
    assert three.loc["o1", "triage, accuracy"] == "- (n = 9)"


def test_prompt_wordings_pair_items():
    def scores(right):
        return pd.DataFrame([dict(model="m", item_id=f"i{k}", cluster=f"i{k}", correct=r) for k, r in enumerate(right)])

    got = prompt_wordings({"A": scores([1, 1, 0, 1]), "B": scores([1, 0, 0, np.nan])})
    assert got["n"].tolist() == [3, 3, 3] and got["estimate"].tolist() == pytest.approx([2 / 3, 1 / 3, 1 / 3])


def test_the_page_of_an_annotation():
    a = arrays([[10, 20, 30]], np.array([[2, 0, 1]]))
    page = annotation_page(a, 0)
    assert page["option"].tolist() == ["C", "A", "B"] and page["slider"].tolist() == [30, 10, 20]


@pytest.mark.parametrize("code", [999, -99, 100.5])
def test_a_code_is_no_slider_at_any_door(code, tmp_path):
    rows = [f"q1,s,r-aaaa,{a},{v}" for a, v in zip("ABC", (80, code, 20))]
    (tmp_path / "ratings.csv").write_text("\n".join(["item_id,study,rater,target,value", *rows]) + "\n")
    ratings = ratings_of_file(tmp_path / "ratings.csv")
    words = (
        f"a rating of an option must be from 0 to 100; got {code:g} for B (q1, ratings.csv); take codes such as 999 out"
    )
    with pytest.raises(ValueError) as e:
        annotation_arrays(ratings)
    assert words in str(e.value) and slider_sections(ratings) == ({}, str(e.value))
