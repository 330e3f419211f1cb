"""Whatever happens on the way, the answers are each rater's last, and the log replays to them."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mhbench.annotate.assignment import complete_answers, conflicts, enrol, leave
from mhbench.annotate.dashboard import agreement
from mhbench.annotate.export import ratings
from mhbench.annotate.store import Change, Register, Store, differences, open_store, replay
from mhbench.annotate.study import RatedAnswer, build_study, present
from mhbench.records.database import transaction
from mhbench.records.schema import Response
from mhbench.stats.agreement import krippendorff_alpha
from mhbench.stats.estimate import estimate
from mhbench.stats.jackknife import agreement_estimate
from mhbench.stats.resample import mean
from mhbench.studies.medqade.panel_tables import build_panel, rater_agreement
from mhbench.studies.mentat.agreement import mean_agreement, question_agreement

from .conftest import items

STUDY = build_study("example", {"kind": "sliders"}, items(2))

changes = st.lists(
    st.tuples(
        st.sampled_from(["r1", "r2"]),
        st.sampled_from(["q1", "q2"]),
        st.sampled_from("AB"),
        st.one_of(st.none(), st.integers(0, 100)),
        st.integers(1, 6),  # stamps: few, so that some are equal
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), made=changes)
def test_any_schedule_ends_with_the_last_answer_of_each_rater(tmp_path_factory, data, made):
    """Changes are made in one order and arrive in any other, some twice, some late, in requests of any size, with the
    server started again between requests and requests that break off before they are written."""
    sent = [
        Change(f"e{k:02}", r, q, 0, t, RatedAnswer() if v is None else RatedAnswer(float(v)), "{}", stamp, None)
        for k, (r, q, t, v, stamp) in enumerate(made)
    ]
    again = data.draw(st.lists(st.sampled_from(sent), max_size=6))
    arriving = data.draw(st.permutations(sent + again))
    path = tmp_path_factory.mktemp("any") / "a.sqlite"
    store, losses = open_store(path, STUDY), 0
    while arriving:
        n = data.draw(st.integers(1, len(arriving)))
        batch, rest = arriving[:n], arriving[n:]
        fate = data.draw(st.sampled_from(["well", "restart", "reply lost", "broke off"]))
        if fate == "broke off":
            with pytest.raises(RuntimeError), transaction(store.db):
                store.db.execute("INSERT INTO visits VALUES ('r1', 'q1', 0, 'v', 1, 1)")
                raise RuntimeError
            continue
        store.save(batch)
        arriving = rest
        if fate == "reply lost" and losses < 3:
            losses += 1
            arriving = rest + batch  # the browser sends it again
        if fate == "restart":
            store.close()
            store = open_store(path, STUDY)
    expected = {}
    for c in sorted(sent, key=lambda c: (c.stamp, c.event)):
        expected[c.rater, c.question, c.occasion, c.target] = tuple(c.answer)
    table = {(*page, t): tuple(g.answer) for page, targets in store.all_answers().items() for t, g in targets.items()}
    assert table == expected
    assert replay(store) == expected
    assert differences(store) == []
    assert store.db.execute("SELECT count(*) FROM visits").fetchone() == (0,)
    assert store.db.execute("SELECT count(*) FROM events").fetchone() == (len(sent),)
    store.close()


WRITING = """
import sys
from mhbench.annotate.export import ratings
from mhbench.annotate.study import RatedAnswer, present
from mhbench.annotate.store import Change, Store
store = Store(sys.argv[1])
k = 0
while True:
    k += 1
    store.save([Change(f"e{k}{t}", "r1", "q1", 0, t, RatedAnswer(float(k % 101)), "{}", k, None) for t in "ABCDE"])
    print(k, flush=True)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
@pytest.mark.parametrize("enough", [3, 40])
def test_what_was_confirmed_outlives_sigkill(tmp_path, enough):
    "A process that saves without pause is killed; every save that it confirmed is there, and none is half there."
    path = tmp_path / "a.sqlite"
    open_store(path, STUDY).close()
    process = subprocess.Popen([sys.executable, "-c", WRITING, path], stdout=subprocess.PIPE, text=True)
    confirmed = 0
    while confirmed < enough:
        confirmed = int(process.stdout.readline())
    os.kill(process.pid, signal.SIGKILL)
    confirmed = max([confirmed, *(int(x) for x in process.stdout.read().split())])
    process.wait()
    process.stdout.close()
    with open_store(path) as store:
        assert store.db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        n, last = store.db.execute("SELECT count(*), max(stamp) FROM events").fetchone()
        assert last >= confirmed
        assert n == 5 * last  # each save has all of its five changes, or none
        assert differences(store) == []


def test_a_stamp_from_the_future_is_cut_to_now(tmp_path):
    with open_store(tmp_path / "a.sqlite", STUDY) as store:
        before = time.time_ns() // 1_000_000
        store.save([Change("e1", "r1", "q1", 0, "A", RatedAnswer(1.0), "{}", 2**50, None)])
        assert before <= store.answers("r1", "q1", 0)["A"].stamp <= time.time_ns() // 1_000_000


def test_a_study_whose_questions_changed_is_refused(tmp_path):
    open_store(tmp_path / "a.sqlite", STUDY).close()
    for entry in ({"kind": "agree"}, {"kind": "sliders", "seed": 3}, {"kind": "sliders", "n_items": 1}):
        with pytest.raises(ValueError, match="other questions"):
            open_store(tmp_path / "a.sqlite", build_study("example", entry, items(2)))
    after = {"title": "New", "thanks": ["Bye."], "assignment": {"rule": "pairs"}}
    open_store(tmp_path / "a.sqlite", build_study("example", {"kind": "sliders"} | after, items(2))).close()
    with open_store(tmp_path / "a.sqlite") as store:  # what stands around the questions may change, and does
        assert store.study.settings.thanks == ["Bye."]
        assert store.study.settings.assignment.rule == "pairs"


def test_an_abstention_is_no_label_to_agree_on(tmp_path):
    """Two raters, two answers to each of two questions; one of the four verdicts of r2 is an abstention.

    The other three pairs agree: alpha is 1. With the abstention for a label it would be 1 - (2/8) / (34/56) = 0.59.
    """
    said = [Response(item_id=i, study="example", model=m, mode="cot", text=m) for i in ("q1", "q2") for m in ("a", "b")]
    study = build_study("example", {"kind": "labels", "difficulties": []}, items(2), said)
    given = {"r1": ["Correct", "Correct", "Incorrect", "Correct"], "r2": ["Correct", "Correct", "Incorrect", "Abstain"]}
    units = [("q1", "a"), ("q1", "b"), ("q2", "a"), ("q2", "b")]
    with open_store(tmp_path / "a.sqlite", study) as store:
        enrol(store, study, ["r1", "r2"])
        for r, labels in given.items():
            store.save(
                Change(f"{r}{q}{m}", r, q, 0, m, RatedAnswer(label=x), "{}", 1, None)
                for (q, m), x in zip(units, labels, strict=True)
            )
        (found,) = agreement(store, study)
    assert (found.n, found.estimate, found.ci) == (3, 1.0, None)


def test_agreement_so_far_has_the_interval_of_the_library(tmp_path):
    "Three raters' yes and no on ten questions: the estimate that the stages make of them, over questions."
    said = np.random.default_rng(3).random((3, 10)) < np.linspace(0.1, 0.9, 10)
    study = build_study("example", {"kind": "yes_no", "asks": {"relevant": "Is this relevant?"}}, items(10))
    with open_store(tmp_path / "a.sqlite", study) as store:
        enrol(store, study, ["r1", "r2", "r3"])
        store.save(
            Change(f"{r}{q}", f"r{r + 1}", f"q{q + 1}", 0, "relevant", RatedAnswer(label=label), "{}", 1, None)
            for (r, q), label in np.ndenumerate(np.where(said, "yes", "no"))
        )
        (found,) = agreement(store, study)
    settings = {"n_boot": 500, "seed": study.settings.seed, "axis": 1}
    expected = estimate(partial(krippendorff_alpha, level="nominal"), np.where(said, "yes", "no"), **settings)
    assert found.estimate == pytest.approx(expected.estimate)
    assert found.ci[0] < found.estimate < found.ci[1]
    assert found.ci == pytest.approx((expected.ci_low, expected.ci_high), abs=0.1)


def saved(store, said):
    "(rater, question, target) -> verdict, as the page saves them."
    enrol(store, store.study, sorted({rater for rater, _, _ in said}))
    at = {q.question_id: q for q in store.study.questions}
    store.save(
        Change(f"{r}{q}{t}", r, q, 0, t, verdict, present(store.study, at[q], r).text(), 1, None)
        for (r, q, t), verdict in said.items()
    )


def test_the_report_prints_the_alpha_of_the_dashboard_for_scores_of_options(tmp_path):
    "Questions differ more than the options of one do: pooled over questions, alpha would be another number."
    rng = np.random.default_rng(5)
    worth = rng.uniform(10, 90, (6, 1)) + rng.normal(0, 8, (6, 5))
    scores = np.clip(np.round(worth + rng.normal(0, 8, (3, 6, 5))), 0, 100)
    study = build_study("example", {"kind": "sliders"}, items(6))
    said = {(f"r{r}", f"q{q + 1}", "ABCDE"[o]): RatedAnswer(value=x) for (r, q, o), x in np.ndenumerate(scores)}
    with open_store(tmp_path / "a.sqlite", study) as store:
        saved(store, said)
        (found,) = agreement(store, study)
        in_report = mean_agreement(question_agreement(ratings(store).ratings, seed=1)).iloc[0]
    assert found.estimate == pytest.approx(in_report["estimate"], abs=1e-12)
    assert found.ci == pytest.approx((in_report["ci_low"], in_report["ci_high"]), abs=1e-12)
    assert krippendorff_alpha(scores.reshape(3, -1), level="interval") > found.estimate + 0.2
    by_hand = [krippendorff_alpha(scores[:, q], level="interval") for q in range(6)]
    assert found.estimate == pytest.approx(np.mean(by_hand))


def test_the_report_prints_the_alphas_of_the_dashboard_for_labels(tmp_path):
    "Labels of two students' answers with abstentions, and the questions' difficulty."
    rng, said = np.random.default_rng(6), {}
    given = [
        Response(item_id=f"q{k}", study="example", model=m, mode="cot", text=m) for k in range(1, 13) for m in "ab"
    ]
    study = build_study("example", {"kind": "labels"}, items(12), given)
    choices = {"a": study.settings.labels, "b": study.settings.labels, "difficulty": study.settings.difficulties}
    for q, (target, known) in product(range(1, 13), choices.items()):
        common = rng.integers(3)
        for r in range(4):
            at = common if rng.random() < 0.6 else rng.integers(3)
            said[f"r{r}", f"q{q}", target] = RatedAnswer(label=known[at])
    with open_store(tmp_path / "a.sqlite", study) as store:
        saved(store, said)
        difficulty, labels = agreement(store, study)
        table = rater_agreement(build_panel(ratings(store).ratings)).set_index("measure")
    for found, measure in (
        (labels, "Krippendorff's alpha, nominal"),
        (difficulty, "Krippendorff's alpha of difficulty, ordinal"),
    ):
        printed = table.loc[measure]
        assert found.estimate == pytest.approx(printed["estimate"], abs=1e-12) and found.estimate < 0.9
        assert found.ci == pytest.approx((printed["ci_low"], printed["ci_high"]), abs=1e-12)


def test_a_file_that_is_no_file_of_answers_is_refused(tmp_path):
    (tmp_path / "text.sqlite").write_text("no database " * 100)
    with pytest.raises(ValueError, match="must be a file of answers"):
        open_store(tmp_path / "text.sqlite")
    with pytest.raises(FileNotFoundError, match="annotate"):
        open_store(tmp_path / "none.sqlite")


def test_forgetting_a_rater_leaves_no_byte_of_the_answers(tmp_path):
    path, comment = tmp_path / "a.sqlite", "I would rather not have said this"
    with open_store(path, STUDY) as store:
        enrol(store, STUDY, ["r1", "r2"])
        for r in ("r1", "r2"):
            said = comment if r == "r1" else "kept"
            store.save([Change(f"{r}e", r, "q1", 0, "comment", RatedAnswer(label=said), "{}", 1, None)])
        assert leave(store, STUDY, "r1", forget=True) == 1
        assert [r.rater for r in Register(store).raters()] == ["r2"]
        assert set(store.all_answers()) == {("r2", "q1", 0)}
        with pytest.raises(Exception, match="not deleted"):
            store.db.execute("DELETE FROM events")
    found = b"".join(p.read_bytes() for p in tmp_path.iterdir())
    assert comment.encode() not in found
    assert b"kept" in found


def test_what_raters_said_is_the_owners_alone_in_a_folder_of_others(tmp_path):
    tmp_path.chmod(0o755)
    with open_store(tmp_path / "a.sqlite", STUDY) as store:
        store.db.execute("SELECT count(*) FROM events").fetchone()
        modes = {f.name: f.stat().st_mode & 0o777 for f in tmp_path.iterdir()}
    assert modes.pop("a.sqlite") == 0o600 and set(modes.values()) <= {0o600}


def test_a_reader_sees_what_two_writers_save_at_once(tmp_path):
    "Two connections write in turn from two threads; nothing is lost to a lock."
    path = tmp_path / "a.sqlite"
    open_store(path, STUDY).close()

    def write(rater):
        with Store(path) as store:
            for k in range(40):
                store.save([Change(f"e{k}", rater, "q1", 0, "A", RatedAnswer(float(k)), "{}", k, None)])

    async def both():
        await asyncio.gather(asyncio.to_thread(write, "r1"), asyncio.to_thread(write, "r2"))

    asyncio.run(both())
    with open_store(path) as store:
        assert store.db.execute("SELECT count(*) FROM events").fetchone() == (80,)
        assert {g["A"].answer.value for g in store.all_answers().values()} == {39.0}


def test_the_resolver_gets_what_is_in_conflict_and_nothing_leaves_the_list(tmp_path):
    study = build_study("example", {"kind": "agree", "assignment": {"rule": "pairs"}}, items(3))
    with open_store(tmp_path / "a.sqlite", study) as store:
        enrol(store, study, ["r1", "r2"])
        for k, (r, q, letter) in enumerate(
            [("r1", "q1", "A"), ("r2", "q1", "B"), ("r1", "q2", "A"), ("r2", "q2", "A")]
        ):
            store.save([Change(f"e{k}", r, q, 0, "key", RatedAnswer(label=letter), "{}", k, None)])
        assert conflicts(store, study) == ["q1"]
        enrol(store, study, ["r3"], role="resolver")
        store.save([Change("late", "r2", "q1", 0, "key", RatedAnswer(label="A"), "{}", 9, None)])
        assert conflicts(store, study) == []
        assert [p.question_id for p in Register(store).assigned("r3")] == ["q1"]
        assert len(complete_answers(store, study)) == 4


def test_the_file_holds_no_token(tmp_path):
    path = Path(tmp_path / "a.sqlite")
    with open_store(path, STUDY) as store:
        token = enrol(store, STUDY, ["r1"])["r1"]
        assert Register(store).rater_of_token(token).rater == "r1"
        new = enrol(store, STUDY, ["r1"])["r1"]
        assert Register(store).rater_of_token(token) is None
        assert Register(store).rater_of_token(new).rater == "r1"
    assert new.encode() not in b"".join(p.read_bytes() for p in tmp_path.iterdir())


def test_who_is_invited_is_a_person_unless_it_is_said(tmp_path):
    with open_store(tmp_path / "a.sqlite", STUDY) as store:
        register = Register(store)
        register.invite("person")
        register.invite("program", simulated=True)
        assert {r.rater: r.simulated for r in register.raters()} == {"person": False, "program": True}


def test_a_rater_becomes_simulated_when_it_is_said_and_stays_so(tmp_path):
    "Invited as a person first, by mistake: what a program answered was exported as asked of a person."
    with open_store(tmp_path / "a.sqlite", STUDY) as store:
        enrol(store, STUDY, ["sim-1", "r1"])
        enrol(store, STUDY, ["sim-1"], simulated=True)
        assert {r.rater: r.simulated for r in Register(store).raters()} == {"sim-1": True, "r1": False}
        enrol(store, STUDY, ["sim-1"])  # a new link
        for rater in ("sim-1", "r1"):
            store.save([Change(f"{rater}e", rater, "q1", 0, "A", RatedAnswer(5.0), "{}", 1, None)])
        enrol(store, STUDY, ["sim-1"], simulated=True)
        with pytest.raises(ValueError, match="must not have answered as a person; got 'r1' with 1 change as a person"):
            enrol(store, STUDY, ["r1"], simulated=True)
        assert {r.rater: r.simulated for r in Register(store).raters()} == {"sim-1": True, "r1": False}


def test_a_clock_that_is_set_back_loses_no_later_change(tmp_path, monkeypatch):
    from mhbench.annotate import store as module

    real, back = module.now_ms, 0
    monkeypatch.setattr(module, "now_ms", lambda: real() - back)
    path = tmp_path / "a.sqlite"
    with open_store(path, STUDY) as s:
        for n, value in enumerate([10.0, 90.0, 20.0]):
            back = n * 3_600_000
            at = s.clock()  # what a page is told that is opened now
            s.save([Change(f"e{n}", "r1", "q1", 0, "A", RatedAnswer(value), "{}", stamp=at, client_ms=None)])
            assert s.answers("r1", "q1", 0)["A"].answer.value == value
        late = Change("late", "r1", "q1", 0, "A", RatedAnswer(1.0), "{}", stamp=at - 7_200_000, client_ms=None)
        s.save([late])
        assert s.answers("r1", "q1", 0)["A"].answer.value == 20.0, "what was given before counts less, however late"
        assert differences(s) == []


def test_a_form_after_changes_that_were_written_together_is_the_latest(tmp_path, monkeypatch):
    "Three fields of one rater's form and a late change of another are one transaction; the next form follows at once."
    from mhbench.annotate import store as module

    monkeypatch.setattr(module, "now_ms", lambda: 1000)
    with open_store(tmp_path / "a.sqlite", STUDY) as s:
        form = lambda name, t, value: Change(name, "r1", "q1", 0, t, RatedAnswer(value), "{}", 2**53, None)
        late = Change("e4", "r2", "q1", 0, "A", RatedAnswer(1.0), "{}", 500, None)
        s.save([form("e1", "A", 1.0), form("e2", "B", 2.0), form("e3", "C", 3.0), late])
        assert s.clock() > max(stamp for (stamp,) in s.db.execute("SELECT stamp FROM events"))
        s.save([form("e5", "C", 90.0)])
        assert s.answers("r1", "q1", 0)["C"].answer.value == 90.0
        assert differences(s) == []


@pytest.mark.parametrize("kind", ["yes_no", "sliders"])
def test_agreement_so_far_draws_and_counts_cases_where_questions_share_one(tmp_path, kind):
    "Twenty-four questions of eight cases: the interval is that of the same numbers with the cases as clusters."
    rng = np.random.default_rng(5)
    asked = [i.model_copy(update={"group_id": f"case{k // 3}"}) for k, i in enumerate(items(24))]
    study = build_study("example", {"kind": kind, "asks": {"relevant": "Is it?"} if kind == "yes_no" else {}}, asked)
    assert study.hash == build_study("example", study.settings.model_dump(), items(24)).hash, "no file is another's"
    targets = ["relevant"] if kind == "yes_no" else list(study.questions[0].targets)
    said = (rng.normal(50, 25, (1, 8, 1, len(targets))).repeat(3, 2) + rng.normal(0, 20, (3, 8, 3, len(targets)))) / 100
    said = said.reshape(3, 24, len(targets)).clip(0, 1)
    said = np.where(said > 0.5, "yes", "no") if kind == "yes_no" else (100 * said).round()
    with open_store(tmp_path / "a.sqlite", study) as store:
        enrol(store, study, ["r1", "r2", "r3"])
        for (r, q, t), x in np.ndenumerate(said):
            answer = RatedAnswer(label=str(x)) if kind == "yes_no" else RatedAnswer(value=float(x))
            store.save([Change(f"{r}-{q}-{t}", f"r{r + 1}", f"q{q + 1}", 0, targets[t], answer, "{}", 1, None)])
        (found,) = agreement(store, study)
    cases = np.arange(24) // 3
    if kind == "yes_no":
        expected = agreement_estimate(
            said[:, :, 0].astype(object), "krippendorff_alpha", scale="nominal", clusters=cases
        )
    else:
        alphas = [krippendorff_alpha(said[:, q], level="interval") for q in range(24)]
        expected = estimate(mean, np.array(alphas), clusters=cases, seed=0)
    assert (found.n, found.n_cases) == (24 * len(targets), 8)
    assert (found.estimate, *found.ci) == pytest.approx((expected.estimate, expected.ci_low, expected.ci_high))
