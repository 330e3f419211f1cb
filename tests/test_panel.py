"""The design of a panel: draws, loads, meetings; and a simulation that is what it says."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mhbench.records.draw import assign
from mhbench.records.schema import Judgment, Response
from mhbench.stats import agreement, bias, consensus
from mhbench.steps.verdicts import by_rule, unasked_judgment
from mhbench.studies.medqade.judges import judge_confidences
from mhbench.studies.medqade.panel import (
    abstention_rates,
    label_array,
    lexical_match,
    rater_reliability,
    stratified_draw,
    student_accuracy,
    tie_breaker_items,
)
from mhbench.studies.medqade.panel_tables import labels_by_judge
from mhbench.studies.medqade.simulate import Judge, Student, expected_bias, simulate_panel, simulated_ratings


def share_right(ability):  # E over d of sigmoid(ability - d), by Gauss-Hermite quadrature
    x, w = np.polynomial.hermite_e.hermegauss(60)
    return float((w / (1 + np.exp(x - ability))).sum() / w.sum())


@settings(max_examples=150, deadline=None)
@given(st.integers(2, 12), st.integers(0, 300), st.integers(0, 30), st.integers(0, 10**6), st.data())
def test_every_design_is_balanced(n_raters, n, n_core, seed, data):
    per_item = data.draw(st.integers(1, n_raters))
    n_core = min(n_core, n)
    a = assign(
        [f"i{k}" for k in range(n)], [f"r{k}" for k in range(n_raters)], n_core=n_core, per_item=per_item, seed=seed
    )
    per = a.matrix.sum(0)
    assert (
        (per[:n_core] == n_raters).all()
        and (per[n_core:] == per_item).all()
        and sorted(a.item_ids) == sorted(f"i{k}" for k in range(n))
    )
    loads = list(a.loads().values())
    assert max(loads) - min(loads) <= per_item and sum(loads) == per.sum()
    assert {r: len(ids) for r, ids in a.by_rater().items()} == a.loads()


def test_the_papers_design():
    ids = [f"i{k}" for k in range(3800)]
    a = assign(ids, [f"r{k}" for k in range(9)], n_core=200, seed=3)
    assert set(a.loads().values()) == {1000}
    b = assign(ids[::-1], [f"r{k}" for k in range(9)], n_core=200, seed=3)
    assert b.item_ids == a.item_ids and (b.matrix == a.matrix).all()  # the seed decides, not the order of the input
    assert assign(ids, [f"r{k}" for k in range(9)], n_core=200, seed=4).item_ids != a.item_ids
    meets = a.matrix[:, 200:].astype(int) @ a.matrix[:, 200:].T.astype(int)
    assert set(meets[~np.eye(9, dtype=bool)]) == {100}


@settings(max_examples=80, deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=80), st.integers(0, 1000), st.data())
def test_draws_keep_their_share_or_refuse(match, seed, data):
    ids, n, share = (
        [f"i{k}" for k in range(len(match))],
        data.draw(st.integers(0, len(match))),
        data.draw(st.sampled_from([0.0, 0.2, 0.5, 1.0])),
    )
    want = round(n * share)
    if want > sum(match) or n - want > len(match) - sum(match):
        with pytest.raises(ValueError, match="enough items"):
            stratified_draw(ids, match, n, share_match=share, seed=seed)
    else:
        d = stratified_draw(ids, match, n, share_match=share, seed=seed)
        assert (
            len(set(d.item_ids)) == n and sum(m for i, m in zip(ids, match) if i in d.item_ids) == want == d.drawn[True]
        )


def test_lexical_match_is_strict():
    assert lexical_match(["a", "Insulin"], ["Insulin"]) and not lexical_match(
        ["insulin", "Insulin.", None], ["Insulin"]
    )


def test_tie_breaker():
    x = np.array(
        [[["Correct", "Abstain", "Correct", None]], [["Incorrect", "Incorrect", "Correct", None]]], dtype=object
    )
    assert tie_breaker_items(x, list("abcd")) == ["a"] and tie_breaker_items(x, list("abcd"), core=["d"]) == ["a", "d"]


def test_the_simulation_is_its_model():
    judges = [
        Judge("p", 0.9, 0.8),
        Judge("own", 0.8, 0.7, lineage="x", lean_self=0.4, lean_family=0.25),
        Judge("shy", abstains=0.2),
    ]
    students = [Student("own", 0.5, "x"), Student("kin", -0.5, "x"), Student("far", 0.0, "y")]
    p = simulate_panel(judges, students, 40_000, seed=1)
    for k, s in enumerate(students):
        right = p.right[k]
        assert abs(right.mean() - share_right(s.ability)) < 0.01
        says = p.labels[:, k] == "Correct"
        lean = {"own": 0.4, "kin": 0.25, "far": 0.0}[s.name]
        assert abs(says[0, right].mean() - 0.9) < 0.01 and abs(says[0, ~right].mean() - 0.2) < 0.01
        assert (
            abs(says[1, right].mean() - (0.8 + lean * 0.2)) < 0.01
            and abs(says[1, ~right].mean() - (0.3 + lean * 0.7)) < 0.01
        )
        away = p.labels[2, k] == "Abstain"
        assert abs(away.mean() - 0.2) < 0.01 and away[p.latent > 1].mean() > away[p.latent < -1].mean() + 0.1
    assert abs((p.difficulty == "Medium").mean() - 1 / 3) < 0.01


def test_true_bias_is_what_a_large_study_finds():
    judges = [
        Judge("own", 0.8, 0.7, lineage="x", lean_self=0.4, lean_family=0.25),
        Judge("b", 0.95, 0.9, lineage="b"),
        Judge("c", 0.85, 0.9, lineage="c"),
    ]
    students = [Student("own", 0.5, "x"), Student("kin", -0.5, "x")]
    s = bias.as_scores(simulate_panel(judges, students, 60_000, seed=2).labels)
    names, lineages = (
        ([j.name for j in judges], [x.name for x in students]),
        {"own": "x", "kin": "x", "b": "b", "c": "c"},
    )
    for b in bias.self_enhancement(s, *names, lineages, n=10, seed=1) + bias.family_bias(
        s, *names, lineages, n=10, seed=1
    ):
        student = students[names[1].index(b.student)]
        want = expected_bias(judges[0], student, share_right(student.ability), judges)
        assert abs(b.difference.estimate - want) < 0.01


def test_given_answers_are_judged_as_given():
    right = np.array([[True, False, True]])
    assert (
        simulate_panel([Judge("a", 1.0, 1.0)], [Student("s", 0, "x")], 3, right=right, seed=1).labels[0]
        == np.where(right, "Correct", "Incorrect")
    ).all()
    with pytest.raises(ValueError, match="right must have shape"):
        simulate_panel([Judge("a")], [Student("s", 0, "x")], 4, right=right, seed=1)


def test_ratings_say_that_they_are_simulated():
    judges, students, ids = [Judge("r1"), Judge("r2")], [Student("s", 0, "x")], ["a", "b", "c"]
    design = assign(ids, ["r1", "r2"], n_core=1, seed=1)
    ratings = simulated_ratings(
        simulate_panel(judges, students, 3, seed=1), judges, students, design, ids, study="medqade"
    )
    assert all(r.origin == "simulated" and "simulated" in r.source for r in ratings) and len(ratings) == 2 * 6
    assert label_array(ratings, ["r1", "r2"], ["s", "difficulty"], ids).shape == (2, 2, 3)
    with pytest.raises(ValueError, match="got 'r3'"):
        simulated_ratings(
            simulate_panel(judges, students, 3, seed=1),
            judges,
            students,
            assign(ids, ["r3"], n_core=0, per_item=1, seed=1),
            ids,
            study="x",
        )


def test_tables_of_the_study():
    judges, students = (
        [Judge(f"r{k}", abstains=0.1) for k in range(4)],
        [Student("s", 0.5, "x"), Student("t", -0.5, "x")],
    )
    x, names = simulate_panel(judges, students, 60, seed=1).labels, ["s", "t"]
    x[2, 0, :5] = None
    table = rater_reliability(x, names).set_index(["student", "metric"]).estimate
    np.testing.assert_allclose(table["s", "pabak"], agreement.pairwise(x[:, 0], "pabak").mean)
    np.testing.assert_allclose(
        table["all", "krippendorff_alpha"], agreement.krippendorff_alpha(np.hstack([x[:, 0], x[:, 1]]), "nominal")
    )
    match = np.arange(60) % 3 == 0
    a = student_accuracy(x, names, match)
    for r in a.itertuples():
        c = consensus.majority(x[:, names.index(r.student), match == r.stratum])
        assert (r.n, r.left_out) == ((c != None).sum(), (c == None).sum()) and r.n + r.left_out == (
            match == r.stratum
        ).sum()  # noqa: E711
        np.testing.assert_allclose(r.estimate, (c[c != None] == "Correct").mean())  # noqa: E711
    rates = abstention_rates(x, [j.name for j in judges])
    asked = np.zeros(x.shape, bool)
    asked[2, :, :3] = True  # the third was asked about three items alone
    few = abstention_rates(x, [j.name for j in judges], requested=asked)
    assert (few.n_failed + few.n_not_asked).tolist() == [
        0,
        0,
        5,
        0,
    ] and few.n_labels.tolist() == rates.n_labels.tolist()
    assert few.n_failed[2] == sum(v is None for v in x[2, :, :3].reshape(-1)) < 5, "never asked is not failed"
    assert rates.n_failed.tolist() == [0, 0, 5, 0] and rates.n_labels.tolist() == [120, 120, 115, 120]
    np.testing.assert_allclose(rates.estimate[2], (x[2] == "Abstain").sum() / 115)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: rater_reliability(np.empty((2, 3)), ["s"]), "labels must have shape"),
        (lambda: student_accuracy(np.empty((2, 2, 3)), ["s"]), "n_students 1; got"),
        (lambda: abstention_rates(np.empty((2, 1, 3)), ["a"]), "n_raters 1; got"),
        (lambda: stratified_draw(["a"], [True, False], 1, seed=1), "one an item"),
        (lambda: tie_breaker_items(np.empty((2, 3)), ["a"]), "must have shape"),
        (lambda: assign(["a", "a"], ["r1", "r2"], n_core=0, seed=1), "each be different"),
        (lambda: assign(["a"], ["r1", "r2"], n_core=2, seed=1), "n_core must be between 0 and the 1 items"),
        (lambda: stratified_draw(["a"], [True], 1, share_match=2, seed=1), "between 0 and 1"),
        (lambda: simulate_panel([Judge("a"), Judge("a")], [Student("s", 0, "x")], 2, seed=1), "different names"),
    ],
)
def test_faults_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_verdict_that_no_model_was_asked_for_is_no_label_of_the_judge():
    about = {"study": "medqade", "model": "s", "judge": "j", "rubric": "medqade", "kind": "label"}
    asked = [
        Judgment(item_id=f"q{k}", label="Incorrect", repeat=r, attempts=1, **about) for k in (0, 1) for r in (0, 1)
    ]
    empty = Response(item_id="q2", study="medqade", model="s", mode="zero_shot", text="", status="ok")
    names = {k: about[k] for k in ("judge", "rubric", "kind")}
    ruled = [unasked_judgment(empty, by_rule(empty, "label"), repeat=r, **names) for r in (0, 1)]
    assert {g.label for g in ruled} == {"Incorrect"}
    got = labels_by_judge([*asked, *ruled], ["s"], ["q0", "q1", "q2"])
    assert got.labels.tolist() == [[["Incorrect", "Incorrect", None]]] and got.requested.sum() == 2
    assert judge_confidences([*asked, *ruled])["item_id"].tolist() == ["q0", "q1"]
