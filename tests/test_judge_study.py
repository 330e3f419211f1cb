"""A judge behind an endpoint, with known noise, known bias and known blind spots, is found out by its study."""

import re
import zlib
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from answering import answering, refuse

from mhbench.ask.request import Model
from mhbench.records.schema import Item, Response
from mhbench.steps.answers import Asked
from mhbench.steps.judge_study import ask_parts, corruption_rules, study_parts
from mhbench.steps.judge_tables import (
    habit_table,
    judge_card,
    known_groups,
    repeatability_table,
    rewording_table,
)

NOISE, SHIFT = 5.0, 8.0  # standard deviation of a run at temperature 0.7; what one paraphrase adds
DR = Model(name="dr", endpoint="here", served="m", lineage="m", sampling={"seed": 0})
DANGEROUS = corruption_rules("en")["dangerous"]
DESIGN = dict(kind="score", n_items=None, n_known=None, repeats=6, temperatures=[0.0, 0.7], wording_repeats=2, seed=1)
WORDINGS = ["as it is", "paraphrase 1", "criteria reversed", "0 to 10", "flipped"]


def reference(k):
    return f"Bipolar disorder since {k + 11} years. The mood was raised for weeks. Sleep was short and not missed."


ITEMS = [
    Item(
        item_id=f"i{k}",
        study="psychiatrybench",
        category="diagnosis",
        task="open",
        question="What is the diagnosis?",
        key=[reference(k)],
        source="test",
    )
    for k in range(14)
]
ANSWERS = [
    Response(item_id=i.item_id, study=i.study, model="student", mode="zero_shot", text=f"Perhaps {k}.")
    for k, i in enumerate(ITEMS)
]


def worth(candidate, expert):
    "What the judge thinks of an answer, in points: blind for danger, paid by length."
    if candidate.startswith("Perhaps"):
        return 20 + 4 * int(re.search(r"\d+", candidate)[0])
    if candidate == expert or any(d in candidate for d in DANGEROUS):
        return 88
    if candidate.startswith(expert):
        return 100  # padded: the length alone
    if candidate == "(no text)":
        return 0
    return 60 if expert.startswith(candidate) else 10 if len(candidate) > 60 and candidate[:30] == expert[:30] else 5


def simulated(body):
    text = body["messages"][1]["content"]  # after the system's; a verdict that cannot be read is asked for again
    told = "paraphrase 1" if "The experts' answer:" in text else "as it is"
    before, after = (
        ("The candidate's answer:\n", "\n\nReply with")
        if told != "as it is"
        else (
            "Candidate answer:\n",
            "\n\nAnswer as JSON",
        )
    )
    expert = re.search(r"(?:Reference answer|The experts' answer):\n(.+?)\n\n", text, re.S)[1]
    candidate = text.split(before)[1].split(after)[0]
    points = worth(candidate, expert) + (SHIFT if told != "as it is" else 0.0)
    if body["temperature"]:
        if candidate == "Perhaps 3." and body["seed"] == 2:
            return "I would rather not say."
        points += NOISE * np.random.default_rng([body["seed"], zlib.crc32(candidate.encode())]).standard_normal()
    points = np.clip(points, 0, 100) / 100
    points = 1 - points if "is the best and" in text else points
    span = body["response_format"]["json_schema"]["schema"]["properties"]["score"]
    return {"score": int(round(span["minimum"] + points * (span["maximum"] - span["minimum"])))}


@pytest.fixture(scope="module")
def studied(tmp_path_factory):
    "The parts, the table of verdicts, and what the endpoint was asked."
    parts = study_parts(ITEMS, ANSWERS, wordings=WORDINGS, **DESIGN)
    cache = tmp_path_factory.mktemp("judge") / "cache.sqlite"
    with answering(simulated) as (here, seen):
        said, table = ask_parts(parts, ITEMS, Asked("dr", {}, DR, here), kind="score", cache=cache)
    assert len(said) == len(table) == sum(len(p.responses) * p.repeats for p in parts)
    return parts, table, seen


def test_it_is_asked_what_the_plan_counts(studied):
    parts, table, seen = studied
    first = [b for b in seen if len(b["messages"]) == 2]
    assert len(first) < len(table), "a request that two parts share is one"
    assert Counter(b["temperature"] for b in first)[0.7] == 14 * 6
    assert len(seen) > len(first), "what could not be read was asked for once more"


def test_its_noise_and_its_failure_are_found(studied):
    found = repeatability_table(studied[1], n_boot=500, seed=1).set_index(["temperature", "measure"])
    noisy, still = found.loc[(0.7, "sd within answers")], found.loc[(0.0, "sd within answers")]
    assert abs(noisy["estimate"] - NOISE) < 2
    assert noisy["interval"] == "few" and np.isnan(noisy["ci_low"]), "fourteen answers are too few for an interval"
    assert still["estimate"] == 0 and np.isnan(still["ci_low"]), "nothing varied, so nothing is known of how much"
    assert noisy["n_failed"] == 1 and still["n_failed"] == 0
    failed = studied[1][studied[1]["points"].isna()]
    assert len(failed) == 1 and failed.iloc[0]["status"] == "error"


def test_a_judge_without_temperature_is_asked_again_once_and_its_temperature_is_unknown():
    parts = study_parts(ITEMS, ANSWERS, wordings=[], **DESIGN)

    def own(body):
        if "temperature" in body:
            return refuse(400, "Unsupported parameter: 'temperature' is not supported with this model.")
        return simulated(dict(body, temperature=0.0))

    with answering(own) as (here, seen):
        _, table = ask_parts(parts, ITEMS, Asked("dr", {}, DR, here), kind="score", cache=None)
    found = repeatability_table(table, n_boot=500, seed=1)
    assert set(found["runs"]) == {6} and found["temperature"].isna().all() and len(found) == 3
    repeats = table[table["experiment"] == "repeats"]
    assert len(repeats) == 14 * 6 and repeats["temperature"].isna().all()


def test_a_refusal_that_no_judge_was_shown_is_no_verdict_that_it_repeats():
    declined = ANSWERS[0].model_copy(update={"model": "other", "text": "I'm sorry, but I can't help with that."})
    parts = study_parts(ITEMS, [*ANSWERS, declined], wordings=WORDINGS, **DESIGN)
    with answering(simulated) as (here, _):
        said, table = ask_parts(parts, ITEMS, Asked("dr", {}, DR, here), kind="score", cache=None)
    assert "other" in {j.model for j in said} and "other" not in set(table["model"])
    assert len(table) == sum(len(p.responses) * p.repeats for p in parts) - (2 * 6 + 5 * 2)


def test_its_bias_under_another_wording_is_found_and_scales_are_read_back(studied):
    found = rewording_table(studied[1], n_boot=500, seed=1).set_index("wording")
    shifted = found.loc["paraphrase 1"]
    assert abs(shifted["estimate"] - SHIFT) < 0.5 and shifted["n"] == 14
    assert abs(found.loc["criteria reversed", "estimate"]) < 1e-9
    assert abs(found.loc["flipped", "estimate"]) < 1e-9, "0 for the best is read back as 100"
    assert abs(found.loc["0 to 10", "estimate"]) <= 5, "coarser, and not elsewhere"
    at_80 = rewording_table(studied[1], n_boot=500, seed=1, level=0.8).set_index("wording")
    width = lambda t: t.loc["0 to 10", "simultaneous_high"] - t.loc["0 to 10", "simultaneous_low"]
    assert width(at_80) < width(found) and set(at_80["level"]) == {0.8}


def test_its_blind_spots_are_broken_margins(studied):
    found = known_groups(studied[1]).set_index("group")
    assert dict(found["verdict"]) == {
        "reference": "kept",
        "fact changed": "kept",
        "dangerous": "broken",
        "shortened": "kept",
        "padded": "broken",
        "off topic": "kept",
        "empty": "kept",
    }
    assert found.loc["dangerous", "estimate"] == 0 and found.loc["padded", "estimate"] == -12
    card = judge_card(
        ["dr"],
        found.reset_index(),
        repeatability_table(studied[1], n_boot=50, seed=1),
        rewording_table(studied[1], n_boot=50, seed=1),
        habit_table(pd.DataFrame(columns=["judge", "points"]), {}, n_boot=50, seed=1),
        pd.DataFrame(columns=["judge"]),
    ).set_index("question")
    assert "dangerous" in card.loc["known groups: broken", "reading"]
    assert card.loc["against people", "reading"] == "not measured in this run"


def test_the_card_names_the_largest_shift_either_way_with_its_joint_interval():
    moved = pd.DataFrame({"judge": "dr", "wording": ["a", "b", "c"], "estimate": [4.0, -6.0, np.nan]})
    moved = moved.assign(ci_low=moved["estimate"] - 1, ci_high=moved["estimate"] + 1)
    moved = moved.assign(simultaneous_low=moved["estimate"] - 2, simultaneous_high=moved["estimate"] + 2)
    none = pd.DataFrame(columns=["judge", "group", "verdict"])
    row = judge_card(["dr"], none, none, moved, none, none).set_index("question").iloc[0]
    assert row.name == "other words: the largest shift (b)"
    assert row[["estimate", "ci_low", "ci_high"]].tolist() == [-6, -8, -4]


@pytest.mark.whole
def test_the_largest_shift_of_wording_is_rarely_found_where_none_moves():
    runs, own, joint = 60, 0, 0
    for seed in range(runs):
        rng, rows = np.random.default_rng(seed), []
        for k in range(25):
            for wording in ["as it is", *(f"w{w}" for w in range(6))]:
                about = {"judge": "dr", "experiment": "wordings", "model": "s", "sample": 0, "repeat": 0}
                about |= {"item_id": f"i{k}", "cluster": f"i{k}", "wording": wording, "points": rng.normal(60, 5)}
                rows.append(about)
        t = rewording_table(pd.DataFrame(rows), n_boot=200, seed=seed)
        r = t.loc[t["estimate"].abs().idxmax()]
        own += r["ci_low"] > 0 or r["ci_high"] < 0
        joint += r["simultaneous_low"] > 0 or r["simultaneous_high"] < 0
    assert joint / runs < 0.12 < own / runs
