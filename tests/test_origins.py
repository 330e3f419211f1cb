"""Where an answer, a rating or a verdict comes from is what its record says: no name and no canary says it."""

import json

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from mhbench.annotate.export import ratings_of_file
from mhbench.corpus.adjudicate import decide_keys, decided_items, key_agreement, simulate_readers
from mhbench.corpus.demo import demo_path
from mhbench.corpus.load import load_corpus
from mhbench.records.answers import all_simulated, load_answers
from mhbench.records.schema import Item, Judgment, Rating, Response, frame, read_records, write_records
from mhbench.report.findings import Front, asked, before_reading
from mhbench.report.page import collect, html_report
from mhbench.report.style import introduce
from mhbench.run.stage import Stage
from mhbench.steps.between_models import model_pairs
from mhbench.steps.rates import status_table
from mhbench.steps.respondents import count_responses, generate_metrics
from mhbench.steps.score import score_responses, self_consistency, spending
from mhbench.studies.medqade.load import load_students


def item(name: str, canary: str | None) -> Item:
    about = dict(study="mentat", task="multiple_choice", question="Which?", options=["x", "y"], key=["A"])
    return Item(item_id=name, source="here", canary=canary, **about)


def rating(origin: str, rater: str = "p1", target: str = "A", **more) -> Rating:
    about = dict(item_id="q1", study="mentat", rater=rater, target=target, value=60.0, source="here")
    return Rating(origin=origin, **about | more)


def answer(model: str, origin: str) -> Response:
    return Response(item_id="q1", study="mentat", model=model, origin=origin, mode="zero_shot", text="A")


@pytest.fixture
def stage(tmp_path):
    def of(ratings=(), recorded=(), canary=None, **how) -> Stage:
        folder = tmp_path / "text" / "mentat" / "prepare"
        write_records([item("q1", canary)], folder / "items.parquet", Item)
        write_records(ratings, folder / "ratings.parquet", Rating)
        write_records(recorded, folder / "recorded.parquet", Response)
        return Stage("score", "mentat", tmp_path, models=["gemma"], **how)

    yield of
    introduce(())


def left(s: Stage) -> dict:
    s.done({})
    return json.loads((s.out / "contents.json").read_text())


def test_people_who_rate_the_demo_are_people(stage, capsys):
    s = stage([rating("asked")], canary="mhbench-canary-x", rated=True)
    s.parameters()
    s.table("alpha", pd.DataFrame({"rater": ["p1"], "estimate": [0.5]}), "Agreement")
    assert s.people == "people" and not left(s)["origins"] and "did not ask" not in capsys.readouterr().out
    assert "origin" not in pd.read_parquet(s.out / "alpha.parquet")


def test_simulated_ratings_of_a_real_bank_are_headlined(stage, capsys):
    s = stage([rating("simulated", rater="anna")], rated=True)
    s.parameters()
    s.table("alpha", pd.DataFrame({"question": ["q1"], "estimate": [0.5]}), "Agreement")
    s.headline(pd.DataFrame({"measure": ["alpha"], "model": ["people"], "n": [1], "estimate": [0.5]}))
    assert s.people == "simulated raters" and left(s)["origins"] == {"anna": "simulated"}
    assert "Simulated: anna (" in capsys.readouterr().out
    assert set(pd.read_parquet(s.out / "alpha.parquet")["origin"]) == {"simulated"}
    assert set(pd.read_parquet(s.out / "headline.parquet")["origin"]) == {"simulated"}


def test_soft_labels_of_simulated_raters_carry_the_column_and_the_scores_stay_the_models(stage, tmp_path):
    folder, labels = (
        tmp_path / "studies" / "mentat" / "preferences",
        pd.DataFrame({"question": "q1", "option": ["A", "B"]}),
    )
    stage([rating("simulated")])
    made = Stage("preferences", "mentat", tmp_path, rated=True)
    made.table("labels", labels.assign(probability=[0.7, 0.3]), "Soft labels")
    assert set(pd.read_parquet(folder / "labels.parquet")["origin"]) == {"simulated"}
    scoring = Stage("score", "mentat", tmp_path, models=["gemma"])
    [labelled] = scoring.labelled_items(True)
    assert labelled.soft_labels == [0.7, 0.3] and scoring.labelled_items(False)[0].soft_labels is None
    scoring.headline(pd.DataFrame({"measure": ["accuracy"], "model": ["gemma"], "n": [1], "estimate": [1.0]}))
    assert left(scoring)["origins"] == {"p1": "simulated"}
    assert pd.read_parquet(scoring.out / "headline.parquet")["origin"].tolist() == ["asked"]


def test_ratings_by_models_are_nobodys_and_make_no_person_simulated(stage):
    judge = rating("simulated", rater="j1", variant={"annotator": "model"})
    s = stage([rating("recorded"), judge], rated=True)
    assert s.people == "people" and s.origins == {"j1": "simulated"}, "people's ratings come in files, and are theirs"


def test_recorded_answers_are_called_recorded_and_simulated_ones_simulated(stage):
    s = stage(recorded=[answer("o1", "recorded"), answer("drawn", "simulated")])
    frame = pd.DataFrame({"model": ["gemma", "o1", "drawn"], "estimate": [0.2, 0.9, 0.5]})
    s.table("accuracy", frame, "Accuracy")
    s.figure("accuracy", Figure(), "Accuracy")
    assert pd.read_parquet(s.out / "accuracy.parquet")["origin"].tolist() == ["asked", "recorded", "simulated"]
    assert s.asked(frame)["model"].tolist() == ["gemma", "o1"], "what a test over models rests on"
    kept = left(s)
    assert [kept[kind][0]["caption"] for kind in ("tables", "figures")] == ["Accuracy", "Accuracy"]
    [section] = collect(s.results, s.results / "figures", [("score", "mentat")])
    page = html_report("A report", [], [section])
    assert page.count("Simulated: drawn; recorded: o1 (") == 1


def test_the_first_screen_names_who_was_asked_and_who_was_recorded(tmp_path):
    scores = pd.DataFrame(
        {"model": ["gemma", "o1", "drawn"], "item_id": "q1", "origin": ["asked", "recorded", "simulated"]}
    )
    (tmp_path / "studies" / "mentat" / "score").mkdir(parents=True)
    scores.to_parquet(tmp_path / "studies" / "mentat" / "score" / "scores.parquet")
    [row] = asked(tmp_path, ["mentat"]).to_dict("records")
    assert (row["asked of"], row["recorded answers of"], row["simulated answers of"]) == (
        "gemma (1)",
        "o1 (1)",
        "drawn (1)",
    )
    drawn = pd.DataFrame({"model": ["drawn"], "origin": "simulated", "n": 1, "n_clusters": 1})
    shown = [Front("mentat", "right", "One sentence.", drawn)]
    told = " ".join(before_reading(tmp_path, ["mentat"], {"mentat": (0, 1)}, shown, pd.DataFrame(), []).values())
    assert told.startswith("An unknown number of questions, put to Gemma, with recorded answers of o1.")
    assert "1 simulated examinee; unknown of mentat, whose texts, answers or counts are not here." in told


def test_a_model_with_answers_of_two_origins_stands_under_both(tmp_path):
    scores = pd.DataFrame({"model": ["m", "m", "m", "n"], "item_id": ["q1", "q2", "q3", "q1"]})
    scores["origin"] = ["recorded", "asked", "asked", None]
    (tmp_path / "studies" / "mentat" / "score").mkdir(parents=True)
    scores.to_parquet(tmp_path / "studies" / "mentat" / "score" / "scores.parquet")
    [row] = asked(tmp_path, ["mentat"]).to_dict("records")
    assert (row["asked of"], row["recorded answers of"], row["answers of unknown origin of"]) == (
        "m (2)",
        "m (1)",
        "n (1)",
    )
    told = before_reading(tmp_path, ["mentat"], {"mentat": (0, 1)}, [], pd.DataFrame(), [])["What was asked?"]
    assert "put to m in part, with recorded answers of m in part, with answers of unknown origin of n." in told


@pytest.mark.parametrize("study", ["mentat", "psychiatrybench", "medqade", "counselingbench"])
def test_everything_that_the_demo_has_of_people_or_models_is_simulated(study):
    options = {"decks": {"en": "medqade_demo.txt"}} if study == "medqade" else {}
    corpus = load_corpus(study, demo_path(study), study=study, **options)
    assert {r.origin for r in [*corpus.ratings, *corpus.responses]} <= {"simulated"}
    files = sorted((demo_path(study) / "examinees").glob("*.csv")) if study != "medqade" else []
    assert all(all_simulated(f) for f in files) and (files or study == "medqade")


def test_answers_in_a_table_are_recorded_where_the_table_does_not_say_otherwise(tmp_path):
    file = tmp_path / "sim-like.csv"
    file.write_text("item_id,text\nq1,A\n", encoding="utf-8")
    assert [r.origin for r in load_answers(file, [item("q1", None)], "sim-like")] == ["recorded"]
    assert not all_simulated(file)
    file.write_text("item_id,text,origin\nq1,A,invented\n", encoding="utf-8")
    with pytest.raises(ValueError, match="origin"):
        load_answers(file, [item("q1", None)], "m")


def test_an_export_from_before_there_was_an_origin_still_says_that_it_is_simulated(tmp_path):
    kept = [rating("asked", variant={"simulated": "true"}), rating("asked", target="B")]
    write_records(kept, tmp_path / "old.parquet", Rating)
    assert [r.origin for r in ratings_of_file(tmp_path / "old.parquet")] == ["simulated", "asked"]
    assert [r.origin for r in read_records(tmp_path / "old.parquet", Rating)] == ["asked", "asked"]


def test_simulated_readers_differ_as_declared_and_every_decided_key_is_right():
    bank = [item(f"q{k}", None).model_copy(update={"key": ["B" if k % 9 == 0 else "A"]}) for k in range(100)]
    said = simulate_readers([(i.item_id, i.key[0], "A") for i in bank], seed=3)
    decisions = decide_keys(bank, **said)
    assert sum(d.first != d.second for d in decisions) == 24, "each errs at 12 of 100, never both at one"
    gold = decided_items(bank, decisions, by="simulated readers")
    assert (
        len(gold) == 100
        and {i.key[0] for i in gold} == {"A"}
        and {i.origin["key"] for i in gold} == {"simulated readers"}
    )
    kappa = key_agreement(decisions).set_index("measure").loc["kappa, letter"]
    assert kappa["estimate"] < 1 and kappa["ci_low"] < kappa["estimate"] < kappa["ci_high"]


def test_who_is_simulated_changes_no_p_value_of_two_models():
    bank = [item(f"q{k}", None) for k in range(40)]
    right = {"a": range(0, 34), "b": range(10, 25), "drawn": range(40), "also-drawn": range(0)}
    said = [
        Response(item_id=i.item_id, study="mentat", model=m, mode="zero_shot", text="A" if k in of else "B")
        for m, of in right.items()
        for k, i in enumerate(bank)
    ]
    scores = score_responses(bank, said)
    two = model_pairs(scores[scores["model"].isin(["a", "b"])])
    four = model_pairs(scores, simulated={"drawn", "also-drawn"}).set_index(["first", "second"])
    assert len(four) == 6
    assert four.loc[("a", "b"), "p_adjusted"] == two["p_adjusted"][0]
    assert four.loc[("a", "b"), "detectable_corrected"] == two["detectable_corrected"][0]
    others = four.drop(index=[("a", "b")])
    assert (others["p_adjusted"] >= others["p"]).all() and (others["p_adjusted"] > others["p"]).any()


def test_recorded_answers_have_no_known_cost(tmp_path):
    file = tmp_path / "o1.csv"
    file.write_text("item_id,text\nq1,A\n", encoding="utf-8")
    bank = [item("q1", None)]
    told = Response(item_id="q1", study="mentat", model="m", mode="zero_shot", text="A", prompt_tokens=7)
    counts = status_table(score_responses(bank, [told, *load_answers(file, bank, "o1")])).set_index("model")
    corpus = load_corpus("mentat", demo_path("mentat"), study="mentat")
    assert {r.cost_usd for r in corpus.responses} <= {None}
    assert counts.loc["m", ["prompt_tokens", "cost_usd"]].tolist() == [7, 0.0]
    assert counts.loc["o1", ["prompt_tokens", "completion_tokens", "cost_usd"]].isna().all()


def test_tokens_of_some_answers_are_not_those_of_all():
    bank = [item("q1", None), item("q2", None), item("q3", None)]
    about = {"study": "mentat", "model": "m", "mode": "zero_shot", "cost_usd": None}
    told = Response(item_id="q1", text="A", prompt_tokens=7, completion_tokens=1, **about)
    untold = Response(item_id="q2", text="A", **about)
    failed = Response(item_id="q3", status="error", error="500", **about)
    counted = lambda *responses: status_table(score_responses(bank, responses))["prompt_tokens"].tolist()
    assert counted(told, failed) == [7]
    assert counted(told, untold) == [pd.NA] == counted(untold, failed)
    assert counted(failed) == [pd.NA] == count_responses(bank, [failed])["prompt_tokens"].tolist(), "both tables alike"


@pytest.mark.parametrize("price", [0.0, 0.5, None])
def test_tokens_that_nobody_counted_are_unknown_whatever_the_price(price):
    bank = [item("q1", None), item("q2", None)]
    about = {"study": "mentat", "model": "m", "mode": "zero_shot", "text": "A", "cost_usd": price}
    told = Response(item_id="q1", prompt_tokens=7, completion_tokens=1, **about)
    untold = Response(item_id="q2", **about)
    tokens = ["prompt_tokens", "completion_tokens"]
    for table in (status_table(score_responses(bank, [told, untold])), count_responses(bank, [told, untold])):
        assert table[tokens].isna().all(axis=None) and "uncounted" not in table
    metrics = generate_metrics(bank, [told, untold])
    assert np.isnan([metrics[c] for c in tokens]).all()
    assert [generate_metrics(bank, [told])[c] for c in tokens] == [7, 1]
    encoder = untold.model_copy(update={"attempts": 0, "cost_usd": 0.0})
    assert generate_metrics(bank, [told, encoder])["prompt_tokens"] == 7, "no request was sent"
    votes = [r.model_copy(update={"item_id": "q1", "sample": k, "votes": True}) for k, r in enumerate([told, untold])]
    majority = self_consistency(score_responses(bank, votes), bank)
    assert status_table(majority)[tokens].isna().all(axis=None)


def test_the_tokens_of_a_request_with_several_judgments_are_those_of_the_first():
    about = {"study": "s", "model": "m", "judge": "j", "kind": "label", "rubric": "r", "label": "ok", "text": "ok"}
    of_one = [Judgment(item_id="q1", request_key="k", **about) for _ in range(2)]
    counted = of_one[0].model_copy(update={"prompt_tokens": 7, "completion_tokens": 1})
    assert spending(frame([counted, of_one[1]], Judgment))["prompt_tokens"] == 7
    assert np.isnan(spending(frame(of_one, Judgment))["prompt_tokens"])


def test_requests_that_may_be_paid_for_stand_beside_the_cost_of_the_others():
    bank = [item("q1", None), item("q2", None)]
    about = {"study": "mentat", "mode": "zero_shot", "text": "A", "prompt_tokens": 7, "completion_tokens": 1}
    late = Response(item_id="q1", model="m", cost_usd=0.5, attempts=3, uncounted=2, **about)
    others = [Response(item_id=i, model=m, cost_usd=0.5, **about) for i, m in (("q2", "m"), ("q1", "n"))]
    table = status_table(score_responses(bank, [late, *others])).set_index("model")
    assert table[["cost_usd", "uncounted"]].to_numpy().tolist() == [[1.0, 2], [0.5, 0]]
    assert generate_metrics(bank, [late, others[0]])["uncounted"] == 2


def test_what_nobody_asked_here_was_sent_in_no_request_and_has_no_known_cost():
    about = {"item_id": "q1", "study": "s", "model": "m", "mode": "zero_shot"}
    label = {"judge": "j", "kind": "label", "rubric": "r", "label": "Correct"}
    for origin in ("recorded", "composed", "simulated"):
        for record in (Response(text="A", origin=origin, **about), Judgment(origin=origin, **about, **label)):
            assert (record.cost_usd, record.attempts) == (None, 0)
    assert Response(text="A", origin="recorded", cost_usd=0.1, attempts=2, **about).cost_usd == 0.1, "as stated"
    assert (Response(text="A", **about).cost_usd, Judgment(**about, **label).attempts) == (0.0, 1)
    students = load_students(demo_path("medqade") / "simulated_students.csv")
    assert {(r.cost_usd, r.attempts) for r in students} == {(None, 0)}
