"""The simulated examinees: made by seed, read as anybody's answers, and found again by what the stages estimate."""

import json

import numpy as np
import pandas as pd
import pytest
import yaml
from examples import notebook_functions

from mhbench.corpus.demo import demo_canary, demo_path
from mhbench.corpus.load import load_corpus
from mhbench.records.answers import load_answers
from mhbench.records.schema import Item
from mhbench.run.stage import origin_column
from mhbench.stats.estimate import estimate
from mhbench.stats.resample import mean
from mhbench.steps.rates import paper_averages
from mhbench.steps.score import score_responses
from mhbench.steps.variants import declared_skill, every_prompt, recorded_answers
from mhbench.tools.edit import import_corpus

DEMO = notebook_functions("corpus/09_demo_examinees.ipynb")
SEED = 20250107
SETS = {"mentat": ["D0", "D_G", "D_A", "D_N"]}
MADE = {"seed": SEED, "canary": demo_canary()}
STUDIES = ("mentat", "psychiatrybench", "counselingbench", "mhqa")


@pytest.fixture(scope="module")
def banks():
    return {s: load_corpus(s, demo_path(s), study=s).items for s in STUDIES}


@pytest.mark.parametrize("study", STUDIES)
def test_the_files_are_what_the_declarations_make(banks, study):
    folder = demo_path(study) / "examinees"
    made = DEMO.examinee_files(banks[study], SETS.get(study, []), **MADE)
    if study == "counselingbench":
        made["sim-memory-completions.csv"] = DEMO.simulate_completions(
            banks[study], DEMO.EXAMINEES[3], seed=SEED, canary=demo_canary()
        )
    assert {f.name: f.read_text(encoding="utf-8") for f in folder.iterdir()} == made


def test_every_study_has_all_examinees_and_what_they_answered_is_scored_as_declared(root, banks):
    params = yaml.safe_load((root / "params.yaml").read_text(encoding="utf-8"))
    for study, items in banks.items():
        tables = params["studies"][study]["prepare"]["answers"]
        assert list(tables)[: len(DEMO.EXAMINEES)] == [e.name for e in DEMO.EXAMINEES]
        made = DEMO.examinee_files(items, SETS.get(study, []), **MADE)
        assert sorted(f"{name}.csv" for name in tables) == sorted(made)
        asked = every_prompt(items, SETS.get(study, []), seed=SEED)
        said = [r for r in recorded_answers([], asked, tables, root) if r.mode != "free_form"]
        scores = score_responses(asked, said).merge(declared_skill(tables, asked, root), on=["model", "item_id"])
        assert len(scores) == len(said) and scores["read"].all()
        assert abs(scores["correct"] - scores["right"]).groupby(scores["model"]).mean().gt(0).all()
        luck = np.sqrt((scores["right"] * (1 - scores["right"])).groupby(scores["model"]).sum())
        apart = (scores["correct"] - scores["right"]).groupby(scores["model"]).sum().abs()
        assert (apart <= 4 * luck + 1e-6).all(), "no further from what was declared than luck takes it"


def test_answers_hold_under_another_seed(root, banks):
    asked = every_prompt(banks["mentat"], ["D0", "D_G"], seed=1)  # options in another order
    file = demo_path("mentat") / "examinees" / "sim-gap.csv"
    others = {i.item_id for i in every_prompt(banks["mentat"], SETS["mentat"], seed=1)}
    scores = score_responses(asked, load_answers(file, asked, "sim-gap", other_ids=others))
    shares = scores[scores["set"] == "D_G"].groupby("gender")["correct"].mean()
    assert shares["nonbinary"] < 0.3 < 0.8 < shares["male"]


def test_an_interval_covers_the_truth_as_often_as_it_says_where_luck_takes_part():
    rng = np.random.default_rng(SEED)
    draws = (rng.random((200, 40)) < 0.7).astype(float)
    limits = [estimate(mean, x, n_boot=300, seed=k, share=True) for k, x in enumerate(draws)]
    covered = np.mean([e.ci_low <= 0.7 <= e.ci_high for e in limits])
    assert 0.90 <= covered <= 0.98  # 0.95, but for 200 draws and a bootstrap of 40


def item(name, **changes):
    text = {"question": "?", "options": ["ones", "twos"], "key": ["A"], "source": "here"}
    return Item(item_id=name, study="demo", task="multiple_choice", **text | changes)


def test_a_table_may_hold_probabilities_and_answers_to_items_that_are_not_asked(tmp_path, capsys):
    p = json.dumps({"A": -0.1, "B": -2.4}).replace('"', '""')
    file = tmp_path / "a.csv"
    file.write_text(f'item_id,text,letter_logprobs\nq1,A,"{p}"\nq2,B,\n', encoding="utf-8")
    said = load_answers(file, [item("q1")], "m", other_ids={"q2"})
    assert [r.letter_logprobs for r in said] == [{"A": -0.1, "B": -2.4}]
    assert "1 of 2 answers of a.csv are to items that are not asked here" in capsys.readouterr().out
    with pytest.raises(ValueError, match="item_id must name items of this run; got 1 that do not, the first 'q2'"):
        load_answers(file, [item("q1")], "m")
    for cell in ("0.7", "[1]", "x"):
        file.write_text(f"item_id,text,letter_logprobs\nq1,A,{cell}\n", encoding="utf-8")
        with pytest.raises(ValueError, match="letter_logprobs must be a JSON object of numbers by letter"):
            load_answers(file, [item("q1")], "m")


def test_who_is_simulated_is_in_no_mean():
    rows = [
        {"model": m, "by": "all", "estimate": e, "ci_low": e - 0.1, "ci_high": e + 0.1}
        for m, e in (("a", 0.4), ("b", 0.4), ("c", 0.9))
    ]
    averages = paper_averages(pd.DataFrame(rows), ["by"], {"some": ["a", "c"]}, simulated={"c"})
    assert averages.set_index("models")["estimate"].round(2).to_dict() == {"all models": 0.4, "some": 0.4}


def test_a_row_says_where_it_comes_from_by_the_records_and_not_by_a_name():
    known = {"c": "simulated", "o1": "recorded"}
    pairs = pd.DataFrame({"first": ["a", "a", "sim-a"], "second": ["o1", "c", "a"], "option": ["c", "A", "B"]})
    assert origin_column(pairs, known) == ["recorded", "simulated", "asked"]
    wide = pd.DataFrame({"measure": ["kappa"], "c": [0.5]})
    assert origin_column(wide, known) == ["simulated"], "whose column it is counts"


def test_a_corpus_that_is_imported_leaves_the_demos_examinees_out(root, tmp_path):
    params = tmp_path / "params.yaml"
    for name in ("params.yaml", "run.yaml"):
        (tmp_path / name).write_text((root / name).read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "data").symlink_to(root / "data")
    corpus = tmp_path / "counselingbench_demo.csv"
    corpus.write_bytes((demo_path("counselingbench") / corpus.name).read_bytes())
    import_corpus("counselingbench", corpus, params=params)
    study = yaml.safe_load(params.read_text(encoding="utf-8"))["studies"]["counselingbench"]
    assert study["prepare"]["answers"] == {} and not study["contamination"].get("completions")


def test_what_is_declared_is_read_from_answers_that_are_simulated(tmp_path):
    file = tmp_path / "t.csv"
    head = "item_id,text,declared_right,declared_memorised,origin\n"
    file.write_text(head + "q1,A,0.25,yes,simulated\nq2,B,1,,simulated\nq1,A,1,,\n", encoding="utf-8")
    found = declared_skill({"x": file}, [item("q1")])
    assert found[["model", "item_id", "right", "memorised"]].to_dict("records") == [
        {"model": "x", "item_id": "q1", "right": 0.25, "memorised": True}
    ]
    assert np.isnan(found["sureness"][0])
