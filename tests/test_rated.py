"""Agreement, means, components and judges from a table of ratings: who counts as a rater, and numbers by other ways."""

import numpy as np
import pandas as pd
import pytest

from mhbench.records.described import RatingTable, read_ratings
from mhbench.stats.components import REST, spread_designs, variance_components
from mhbench.steps.rated import (
    POOLED,
    agreement_by_criterion,
    agreement_by_pair,
    judges_and_people,
    means_and_differences,
    spread_by_kind,
    spread_of,
    third_ratings,
)


def anova(y: np.ndarray) -> list[float]:
    "Components of a crossed table (A, B, C), a rating each: A, B, C, their products, and the rest."
    a, b, c = y.shape
    m = {"": y.mean(), "a": y.mean((1, 2)), "b": y.mean((0, 2)), "c": y.mean((0, 1))}
    ab, ac, bc = y.mean(2), y.mean(1), y.mean(0)
    ss_a, ss_b, ss_c = b * c * m["a"].var() * a, a * c * m["b"].var() * b, a * b * m["c"].var() * c
    ss_ab = c * ((ab - m["a"][:, None] - m["b"] + m[""]) ** 2).sum()
    ss_ac = b * ((ac - m["a"][:, None] - m["c"] + m[""]) ** 2).sum()
    ss_bc = a * ((bc - m["b"][:, None] - m["c"] + m[""]) ** 2).sum()
    rest = ((y - m[""]) ** 2).sum() - ss_a - ss_b - ss_c - ss_ab - ss_ac - ss_bc
    e = rest / ((a - 1) * (b - 1) * (c - 1))
    ms_ab, ms_ac, ms_bc = ss_ab / ((a - 1) * (b - 1)), ss_ac / ((a - 1) * (c - 1)), ss_bc / ((b - 1) * (c - 1))
    one = lambda ss, df, p, q, n: (ss / df - p - q + e) / n
    return [
        one(ss_a, a - 1, ms_ab, ms_ac, b * c),
        one(ss_b, b - 1, ms_ab, ms_bc, a * c),
        one(ss_c, c - 1, ms_ac, ms_bc, a * b),
        (ms_ab - e) / c,
        (ms_ac - e) / b,
        (ms_bc - e) / a,
        e,
    ]


def test_components_are_those_of_anova_and_negative_ones_stay():
    rng = np.random.default_rng(3)
    shape = (7, 5, 4)
    for sd in (0.0, 1.0):
        y = rng.normal(0, 1, shape) + sd * rng.normal(0, 1, 7)[:, None, None]
        a, b, c = (i.ravel() for i in np.indices(shape))
        got = variance_components(y.ravel(), {"persona": a, "rater": b, "run": c}, n_draws=0)
        assert np.allclose(got.table["component"], anova(y), rtol=0, atol=1e-6)
        assert got.left_out == []
    assert (got.table["component"] < 0).any() and got.table["share"].min() == 0


def drawn(rng, *, persona=20, models=3, raters=6, each=None, sd=(0.5, 0.4, 0.3, 0.5, 0.7)) -> pd.DataFrame:
    "Ratings of each persona with each model by some raters: persona, rater, model x persona, persona x rater, rest."
    p, m, r = (i.ravel() for i in np.indices((persona, models, raters)))
    y = sd[0] * rng.normal(size=persona)[p] + sd[1] * rng.normal(size=raters)[r]
    y += sd[2] * rng.normal(size=(persona, models))[p, m] + sd[3] * rng.normal(size=(persona, raters))[p, r]
    f = pd.DataFrame({"persona": p, "model": m, "rater": r, "y": y + sd[4] * rng.normal(size=len(p))})
    if each:
        order = rng.random((persona, models, raters)).argsort(-1).argsort(-1)
        f = f[order[p, m, r] < each]
    return f


@pytest.mark.whole
def test_components_of_incomplete_data_are_right_on_average():
    rng = np.random.default_rng(11)
    found = []
    for _ in range(500):
        f = drawn(rng, each=3)
        got = variance_components(f["y"], {k: f[k] for k in ("persona", "model", "rater")}, n_draws=0)
        found.append(got.table.set_index("source")["component"])
    means = pd.concat(found, axis=1).T.mean()
    truth = {"persona": 0.25, "rater": 0.16, "persona x rater": 0.25, REST: 0.49}
    assert all(abs(means[k] / v - 1) < 0.1 for k, v in truth.items()), means
    assert (pd.concat(found, axis=1).T["model"] < 0).mean() > 0.2  # nothing is cut off


def test_a_judge_with_many_seeds_is_one_judge():
    rng = np.random.default_rng(5)
    judge, seed, item = (i.ravel() for i in np.indices((4, 5, 30)))
    y = rng.normal(0, 1, 4)[judge] + rng.normal(0, 0.3, len(judge))
    got = variance_components(y, {"judge": judge, "seed": judge * 5 + seed, "item": item}, n_draws=0)
    one, many = (got.variance_of_mean({"judge": 1, "seed": n, "item": 30}) for n in (1, 25))
    assert many > 0.95 * one
    designs = spread_designs(got, 1.5, max_levels={"judge": 10, "seed": 25, "item": 50})
    assert designs["seed"].iloc[0] == 1 and designs["judge"].iloc[0] > 1


def table(tmp_path, rows: list[str], head: str, **more) -> RatingTable:
    (tmp_path / "r.csv").write_text("\n".join([head, *rows]))
    given = {"files": "r.csv", "item": "item", "target": "model", "rater": "rater", "value": "{criterion}"}
    kinds = {"adjudicator": "expert.*", "judge": "m1.*", "panel": "panel", "person": "r[0-9]+"}
    return read_ratings(given | {"kind": kinds, "criterion": ["a", "b"], "scale": "1..6"} | more, tmp_path)


@pytest.fixture
def rated(tmp_path):
    rng = np.random.default_rng(2)
    rows = []
    for p in range(12):
        for m in range(2):
            base = 2 + m + rng.normal(0, 0.8, 2)
            for k in range(6):
                a, b = np.clip(np.rint(base + rng.normal(0, 0.8, 2)), 1, 6).astype(int)
                rows.append(f"i{p}{m},m{m},r{k},p{p},{a},{b}")
            for who in ("expert_1", "m1-2025", "panel"):
                a, b = np.clip(np.rint(base + 1), 1, 6).astype(int)
                rows.append(f"i{p}{m},m{m},{who},p{p},{a},{b}")
    return table(tmp_path, rows, "item,model,rater,persona,a,b", within={"persona": "persona"})


def test_adjudicators_panels_and_judges_are_no_raters(rated):
    agreement = agreement_by_criterion(rated)
    assert set(agreement["n_raters"]) == {6} and set(agreement["criterion"]) == {"a", "b", POOLED}
    assert agreement.loc[agreement["criterion"] == POOLED, "note"].str.contains("read the criteria").all()
    assert set(agreement["n_clusters"]) == {12}  # personas, not the twenty-four conversations
    pairs = agreement_by_pair(rated)
    assert set(pairs["first"]) | set(pairs["second"]) == {f"r{k}" for k in range(6)}
    assert len(pairs) == 15 * 3
    assert set(means_and_differences(rated)["n_raters"]) == {6}


def test_means_for_items_raters_and_both(rated):
    got = means_and_differences(rated)
    d = got[(got["criterion"] == "a") & (got["target"] == "m0") & (got["against"] == "m1")].set_index("for")
    width = d["ci_high"] - d["ci_low"]
    assert width["items and raters"] >= max(width["items"], width["raters"]) - 1e-9 and d["n_clusters"].eq(12).all()
    f = rated.frame[(rated.frame["kind"] == "person") & (rated.frame["criterion"] == "a")]
    by = f.groupby("target")["score"].mean()
    assert np.isclose(d["estimate"].iloc[0], by["m0"] - by["m1"])


def test_too_few_raters_have_no_interval_for_others(tmp_path):
    rows = [f"i{p},m0,r{k},{(p + k) % 6 + 1},{p % 6 + 1}" for p in range(15) for k in range(4)]
    got = means_and_differences(table(tmp_path, rows, "item,model,rater,a,b"))
    few = got[got["for"] != "items"]
    assert few["ci_low"].isna().all() and set(few["interval"]) == {"raters"} and got["lowest"].notna().all()


def test_two_raters_agree_without_an_interval_for_others(tmp_path):
    rows = [f"i{p},m0,r{k},{(p + k * (p % 3 == 0)) % 6 + 1},{p % 6 + 1}" for p in range(15) for k in range(2)]
    got = agreement_by_criterion(table(tmp_path, rows, "item,model,rater,a,b"))
    assert set(got["for"]) == {"items"} and got["lowest"].isna().all() and set(got["n_raters"]) == {2}
    raw = got[(got["criterion"] == "a") & (got["measure"] == "raw")].iloc[0]
    assert np.isclose(raw["estimate"], 10 / 15) and raw["ci_low"] < raw["estimate"] < raw["ci_high"]


def test_an_adjudicator_that_chooses_between_two_labels_is_said(tmp_path):
    rng = np.random.default_rng(0)
    rows = []
    for i in range(80):
        x, y = rng.choice(6, 2, replace=False) + 1
        rows += [f"i{i},m,r0,{x},1", f"i{i},m,r1,{y},1", f"i{i},m,expert_1,{rng.choice([x, y])},1"]
        rows += [f"i{i},m,expert_2,{rng.integers(1, 7)},1"]
    got = third_ratings(table(tmp_path, rows, "item,model,rater,a,b")).set_index("rater")
    assert got.loc["expert_1", ["n", "either"]].tolist() == [80, 80] and "80 of 80 cases" in got.loc["expert_1", "says"]
    assert got.loc["expert_2", "says"] == ""
    two_alike = [f"i{k},m,r{r},{(k if r else 5 * k) % 6 + 1},1" for k in range(80) for r in range(3)]
    said = third_ratings(table(tmp_path, two_alike, "item,model,rater,a,b"))["says"]
    assert any("or who sees the items as one of the two raters does" in line for line in said), "nobody need have seen"


def test_a_judge_beside_people(rated):
    got = judges_and_people(rated)
    whole = got[(got["criterion"] == POOLED) & (got["with"] == "people's mean")].set_index("targets")
    assert {"others' answers", "its own model's answers", "m0", "m1"} == set(whole.index)
    assert 0.5 < whole.loc["others' answers", "difference"] < 1.5 and whole.loc["others' answers", "slope"] > 0.5
    assert {"r0", "panel", "expert_1"} < set(got["with"])
    assert (whole["ci_low"] < whole["difference"]).all() and (whole["difference"] < whole["ci_high"]).all()
    people = rated.frame[(rated.frame["kind"] == "person") & (rated.frame["target"] == "m0")]
    mean = people.groupby(["item", "criterion"])["score"].mean()
    judge = rated.frame[(rated.frame["kind"] == "judge") & (rated.frame["target"] == "m0")].set_index(
        ["item", "criterion"]
    )["score"]
    assert np.isclose(whole.loc["m0", "difference"], (judge - mean).mean())


def test_the_spread_names_what_a_design_does_not_tell_apart(rated):
    got = spread_of(rated, ["person"])
    assert {"target", "persona", "item", "rater", "criterion", REST} <= set(got.table["source"])
    assert any(said.startswith("repeat: the same groups as rater") for said in got.left_out)


def test_ratings_that_name_no_persona_share_none(rated):
    "They counted as those of one persona."
    named = rated.frame["item"].isin(sorted(rated.frame["item"].unique())[::2])
    blank, own = (rated.frame["within.persona"].where(named, other) for other in ("", rated.frame["item"]))
    got, expected = (
        spread_of(rated._replace(frame=rated.frame.assign(**{"within.persona": x})), ["person"]) for x in (blank, own)
    )
    pd.testing.assert_frame_equal(got.table, expected.table)


def test_a_design_without_a_spread_says_why(rated):
    one = rated._replace(frame=rated.frame[rated.frame["kind"] == "person"].iloc[:1])
    spread, changed, why = spread_by_kind(one)
    assert spread.empty and changed.empty and why == "person: a factor must have two levels or more; got none"
