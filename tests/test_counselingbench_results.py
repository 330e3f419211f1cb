"""CounselingBench's claims and the authors' result files, on the released files."""

import re
from collections import Counter

import numpy as np
import pandas as pd
import pytest

from mhbench.ledger.claims import load_claims, unused_names
from mhbench.ledger.release import inventory_of
from mhbench.ledger.verdicts import judge_claims, tolerances
from mhbench.registry import claims_file
from mhbench.studies.counselingbench.results import (
    MADE_FROM,
    all_pair_tests,
    authors_results,
    printed_accuracies,
    released_results,
)
from mhbench.tools.fetch import fetch_release

TABLES = {"Table 1": 5, "Table 2": 22 * 5, "Table 3": 22 * 5, "Table 4": 12 * 12, "Table A1": 6, "Table A2": 29 * 2}
TABLES |= {"Table A8": 18 * 6, "Table A9": 23 * 6, "Table A13": 6 * 7}


@pytest.fixture(scope="module")
def claims():
    return load_claims(claims_file("counselingbench"))


class Kept(dict):
    "What a stage keeps, without the stage."

    def table(self, name, frame, caption, **_):
        if len(frame):
            self[f"ledger/{name}"] = frame
        return frame

    def has(self, stage, table):
        return False


@pytest.fixture(scope="module")
def tables(datasets):
    kept = Kept()
    for _ in authors_results(kept, release=datasets / "counselingbench"):
        pass
    return kept


@pytest.fixture(scope="module")
def inventory(datasets, tmp_path_factory):
    got = fetch_release("counselingbench", datasets / "counselingbench", tmp_path_factory.mktemp("release"))
    return inventory_of("counselingbench", got.folder)


@pytest.fixture(scope="module")
def verdicts(claims, tables, inventory):
    return judge_claims(claims, tables.get, inventory).set_index("claim")


def test_every_number_of_every_table_is_a_claim(claims):
    places = Counter(c.place for c in claims.claims)
    assert {place: places[place] for place in TABLES} == TABLES
    assert sum(n for place, n in places.items() if place not in TABLES) >= 70
    assert unused_names(claims) == []


def test_what_differs_has_its_evidence(verdicts, claims):
    differs = verdicts[verdicts["verdict"] == "differs"]
    assert (differs["note"] != "").all()
    assert all(claims.file.notes[n].says and claims.file.notes[n].notebook for n in differs["note"].unique())


def test_printed_tables_and_result_files_are_two_runs_of_one_script(verdicts, tables):
    "In units of Monte Carlo error their differences are standard normal."
    results = tables["ledger/results"].query("measure == 'accuracy'").set_index(["run", "group"])
    of = verdicts[verdicts["place"] == "Table 3"]
    where = of["source"].str.extract(r"run=(.*?), group=(.*?), measure")
    file = results.loc[list(where.itertuples(index=False, name=None))]
    error = (file["high"] - file["low"]).to_numpy() / 2 / 2.6264  # of t with 99 degrees of freedom
    z = (of["printed"].astype(float).to_numpy() - file["middle"].to_numpy()) / error / np.sqrt(2)
    assert len(z) == 110 and 0.85 < z.std() < 1.15
    assert set(of["verdict"]) == {"equal", "undecided"} and set(of["convention"]) == {"", "random"}


def test_a_tolerance_for_two_runs_accepts_too_much_to_decide_a_single_number(verdicts):
    "What 99.9% of two runs keep also accepts a quarter to a half of other settings' and competencies' numbers."
    prices = tolerances(verdicts.reset_index()).query("tolerance == 'random'")
    chains = prices[prices["of"] == "accuracy with chains of thought, by model"].iloc[0]
    assert chains["p"] < 0.001 and not chains["decides"], "narrower than a tenth, and no two runs of one script"
    prices = prices.drop(index=chains.name).set_index("place")
    assert prices["across"].round(2).to_dict() | {"Section 5.3": 0} == {
        "Section 5.3": 0,
        "Table 2": 0.55,
        "Table 3": 0.27,
        "Table A8": 0.29,
        "Table A9": 0.41,
    }
    assert not prices.loc[["Table 2", "Table 3", "Table A8", "Table A9"], "decides"].any()
    assert 0.85 < prices.loc["Table 3", "spread"] < 1.15 and prices.loc["Table 3", "p"] > 0.05, "two runs of one script"
    assert (prices.loc[["Table A8", "Table A9"], "p"] < 0.001).all(), "more than two runs"


def test_chains_that_are_missing_count_as_0_in_the_table_of_means(tables, verdicts):
    scores = tables["ledger/scores"].set_index(["model", "measure"])
    means = tables["ledger/results"].query("setting == 'reasoning'").set_index(["model", "measure"])["middle"]
    for model, n in {"Llama-2-70b-hf": 400, "meditron-70b": 377, "Llama-2-70b-chat-hf": 152}.items():
        row = scores.loc[(model, "faithfulness")]
        assert row["n_missing"] == n and row["with_zeros"] == pytest.approx(means[model, "faithfulness"], abs=0.001)
        assert row["present"] > row["with_zeros"] + 0.05
    one = scores.xs("repetition_step", level="measure")
    assert one.loc["Meta-Llama-3-70B-Instruct", "n_one"] == 966
    assert round(one.loc["Meta-Llama-3-70B-Instruct", "several"], 3) == 0.113
    roscoe = verdicts[(verdicts["place"] == "Table 4") & (verdicts["note"].isin(["", "reasoning_means"]))]
    assert (roscoe["verdict"] == "equal").sum() >= 94


def test_annotated_errors_are_counted_and_decide_nothing(tables, verdicts):
    errors = tables["ledger/errors"].set_index(["what", "group"])["value"]
    assert errors["kind"][["logical", "context", "knowledge"]].tolist() == [74, 28, 33]
    assert errors["competency", "agreed"] == 56 and errors["competency", "kappa"] == pytest.approx(0.453, abs=5e-4)
    found = verdicts[verdicts.index.str.startswith("Section 7.2.1/Llama-3-70B/")]
    assert set(found["verdict"]) == {"undecided"} and found["value"].tolist() == [74, 28, 33]


def test_result_files_that_hold_no_number_are_named(tables, datasets):
    unread = tables["ledger/unread"]
    assert len(unread) == 8 and Counter(unread["why"]) == {"nan throughout": 7, "an empty file": 1}
    read = tables["ledger/results"].query("measure == 'accuracy'")["run"].nunique()
    assert read + len(unread) == len(list((datasets / "counselingbench" / "metrics").iterdir()))
    assert set(tables["ledger/results"].query("form == 'later'")["run"].str.contains("sc_|None_2")) == {True}


def test_a_release_in_the_folders_of_its_repository_is_found(datasets, tables, tmp_path):
    there = {"metrics": "results/metrics", "outputs_t": "results/outputs/outputs_t"}
    there |= {"statistical_analysis": "statistical_analysis"}
    for folder, to in there.items():
        (tmp_path / to).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / to).symlink_to(datasets / "counselingbench" / folder)
    found, unread = released_results(tmp_path / "results/outputs/outputs_t")
    pd.testing.assert_frame_equal(found, tables["ledger/results"][list(found)])  # beside the rows' origin
    assert len(unread) == 8


def test_questions_are_counted_as_the_authors_script_counts_them(verdicts, tables):
    assert tables["ledger/rows"].iloc[0].tolist() == ["tests.com", 510, 508, 509]
    found = verdicts.loc["Table A1/Tests.com/questions"]
    assert (found["verdict"], found["convention"], found["value"]) == ("convention", "authors_filter", 509)


def test_chi_square_differs_and_no_convention_was_fitted_to_it(verdicts):
    found = verdicts.loc[["Section 7.2.1/chi-square", "Section 7.2.1/p"]]
    assert set(found["verdict"]) == {"differs"} and found["value"].round(4).tolist() == [7.8595, 0.0196]


def test_pairs_of_models_give_what_the_text_says_only_in_part(verdicts, claims):
    assert verdicts.loc["Section 5.4/mean", "verdict"] == "differs"
    assert verdicts.loc["Section 6.3/significant", "convention"] == "notebook_pairs"
    assert verdicts.loc["Section 5.4/Overall/t", ["verdict", "kind"]].tolist() == ["differs", "stored"]
    tests = all_pair_tests({"printed": printed_accuracies(claims)}).set_index(["pairs", "group"])
    assert tests.loc[("table A4", "Overall"), "n"] == len(MADE_FROM) == 13


def altered(text, row, old, new):
    "One printed number of a row changed."
    found = re.search(rf"^    {re.escape(row)}: \[.*{re.escape(old)}.*\]$", text, re.MULTILINE)
    return text.replace(found[0], found[0].replace(old, new, 1))


def test_altered_numbers_are_found_and_no_right_one_is_accused(verdicts, tables, inventory, tmp_path):
    text = claims_file("counselingbench").read_text(encoding="utf-8")
    changes = [
        ("Llama-2-7B", '".408"', '".480"'),
        ("Meditron-7B", '".258"', '".285"'),
        ("Asclepius-7B", '".28"', '".82"'),
    ]
    changes += [("OpenBioLLM-70B", '".725"', '".752"'), ("gpt4o", '".78"', '".87"')]
    changed = {"Table 2/Llama-2-7B/ZS", "Table 2/Meditron-7B/ZS", "Table 2/Asclepius-7B/ZS"}
    changed |= {"Table 2/OpenBioLLM-70B/ZS + SC", "Table 2/gpt4o/ZS"}
    for change in changes:
        text = altered(text, *change)
    (tmp_path / "claims.yaml").write_text(text, encoding="utf-8")
    found = judge_claims(load_claims(tmp_path / "claims.yaml"), tables.get, inventory).set_index("claim")["verdict"]
    tables_only = found.index.str.startswith("Table")
    differs = set(found.index[(found == "differs") & tables_only])
    before = set(verdicts.index[(verdicts["verdict"] == "differs") & verdicts.index.str.startswith("Table")])
    assert differs - before == changed and before <= differs
