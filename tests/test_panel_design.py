"""How many raters and items: the plan against held-out subsamples, simulated and real."""

import os
import re
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from mhbench.run.cli import main
from mhbench.stats.estimate import proportion
from mhbench.stats.multi_reader import RaterComponents, mean_over_raters, rater_components
from mhbench.stats.panel_design import (
    Aim,
    assured_width,
    cases_for_width,
    cautious,
    least_difference,
    mean_width,
    panel_designs,
    raters_for_width,
    same_raters,
)
from mhbench.studies.mentat.annotations import load_annotations

HERE = Path(__file__).resolve().parents[1]
REAL = (
    Path(os.environ.get("MHBENCH_DATASETS", HERE.parent / "shared" / "datasets")) / "outside/mentalbench/scores.csv.gz"
)
MENTAT = REAL.parents[2] / "mentat" / "annotated_data"
TRUTH = RaterComponents(1.0, 0.3, 0.0, 1.5, 0, 0, 0)


def study(rng, n: int, raters: int, shift: float = 0.0) -> np.ndarray:
    parts = rng.normal(0, 1.0, n) + rng.normal(0, 0.3**0.5, (raters, 1))
    return shift + parts + rng.normal(0, 1.5**0.5, (raters, n))


def of_study(rng, n: int, raters: int, shift: float = 0.0):
    item, rater = np.tile(np.arange(n), raters), np.repeat(np.arange(raters), n)
    return mean_over_raters(study(rng, n, raters, shift).ravel(), item, rater).both


def test_the_width_of_known_components_is_that_of_the_interval():
    rng = np.random.default_rng(1)
    widths = np.array([np.diff(of_study(rng, 60, 8)[3:5])[0] for _ in range(150)])
    assert np.sqrt((widths**2).mean()) == pytest.approx(mean_width(TRUTH, 60, 8), rel=0.1)


@pytest.mark.parametrize(("raters", "items"), [(4, 20), (8, 40)])
def test_the_width_that_is_planned_is_kept_in_four_of_five_studies(raters, items):
    rng, kept, planned = np.random.default_rng(2), 0, 0
    for _ in range(250):
        item, rater = np.tile(np.arange(items), raters), np.repeat(np.arange(raters), items)
        pilot = rater_components(study(rng, items, raters).ravel(), item, rater)
        n = same_raters(pilot, Aim(width=2.0), 10)
        if n is not None:
            planned += 1
            kept += np.diff(of_study(rng, n, 10)[3:5])[0] <= 2.0
    assert planned > 60 and kept / planned > 0.8 - 3 * np.sqrt(0.16 / planned)


def test_the_component_of_raters_is_at_most_its_limit_in_four_of_five_pilots():
    "Drawn mean squares of crossed pilots; and the limit itself, by chi-square quantiles of the mean square."
    rng = np.random.default_rng(3)
    for rater, rest, raters, items in ((0.3, 1.5, 6, 20), (1.0, 1.0, 10, 10), (0.05, 2.0, 8, 40)):
        n = 4000
        between = (rater + rest / items) * rng.chisquare(raters - 1, n) / (raters - 1)
        within = rest * rng.chisquare((raters - 1) * (items - 1), n) / ((raters - 1) * (items - 1))
        pilots = [
            RaterComponents(1.0, b - w / items, 0.0, w, items, raters, items * raters) for b, w in zip(between, within)
        ]
        limits = np.array([cautious(p).rater for p in pilots])
        assert np.mean(limits >= rater) == pytest.approx(0.8, abs=0.02)  # three standard errors
        positive = between > within / items
        by_hand = between * (raters - 1) / scipy.stats.chi2.ppf(0.2, raters - 1) - within / items
        np.testing.assert_allclose(limits[positive], by_hand[positive], rtol=1e-9)


def test_the_assured_width_has_the_quantile_of_two_estimates_of_a_variance():
    c = RaterComponents(1.0, 0.3, 0.2, 1.3, 40, 8, 320)
    for n, raters, each, level, studies in ((60, 6, 6, 0.95, 0.8), (30, 10, 3, 0.9, 0.6)):
        t_raters, t_items = scipy.stats.t.ppf(0.5 + level / 2, [raters - 1, n - 1]) ** 2
        seen, planned = 1.5 / 40, 1.5 * raters / (n * each)  # noise in a rater's mean: of the pilot, of the study
        both = scipy.stats.f.ppf(studies, raters - 1, 7) * (0.3 + seen)
        known = scipy.stats.chi2.ppf(studies, raters - 1) / (raters - 1) * (planned - seen)
        of_raters = max(both + known, 0.3 + planned) / raters
        of_items = scipy.stats.f.ppf(studies, n - 1, 39) / n
        squared = max(t_raters * of_raters + t_items * of_items, t_items * (of_items + planned / raters))
        assert assured_width(c, n, raters, each, level, studies) == pytest.approx(2 * np.sqrt(squared))


def test_the_difference_that_is_planned_is_found_as_often_as_it_says():
    rng, shift = np.random.default_rng(2), least_difference(TRUTH, 60, 8, power=0.8)
    found = [of_study(rng, 60, 8, shift).ci_low > 0 for _ in range(400)]
    assert np.mean(found) == pytest.approx(0.8, abs=0.07)  # 3.5 standard errors of 400 draws


def test_no_cheaper_design_of_its_kind_reaches_the_aim():
    aim = Aim(width=1.6)
    best = panel_designs(TRUTH, aim, max_raters=10, max_items=200)
    every = [
        (n * each, "crossed" if each == raters else "nested" if each == 1 else "k of n")
        for raters, n in product(range(6, 11), range(2, 201))
        for each in range(1, raters + 1)
        if n * each >= raters and assured_width(TRUTH, n, raters, each) <= aim.width
    ]
    for kind, part in best.groupby("design"):
        assert part["ratings"].min() == min(ratings for ratings, k in every if k == kind)


def test_everybody_has_an_item():
    "Any width will do: two items are the fewest, and a rater who is in the design rates."
    found = panel_designs(TRUTH, Aim(width=1e9), max_raters=7)
    assert set(found[["design", "raters", "items", "per_item"]].itertuples(index=False, name=None)) == {
        ("nested", 6, 6, 1),
        ("nested", 7, 7, 1),
        ("k of n", 6, 3, 2),
        ("k of n", 6, 2, 3),
        ("crossed", 6, 2, 6),
        ("crossed", 7, 2, 7),
    }


def test_the_commands_of_the_guide_run(tmp_path, capsys):
    guide = (HERE / "docs" / "howto-raters.md").read_text(encoding="utf-8")
    commands = re.findall(r"^mhbench (panel design) (\S+) (.+)$", guide, re.M)
    assert len(commands) == 3
    rng, rows = np.random.default_rng(4), []
    for model, shift in (("m1", 0.0), ("m2", 0.1)):
        noise = (
            0.6 + shift + 0.1 * rng.normal(size=(40, 1)) + 0.02 * rng.normal(size=6) + 0.1 * rng.normal(size=(40, 6))
        )
        rows += [(i, r, model, noise[i, r]) for i in range(40) for r in range(6)]
    table = pd.DataFrame(rows, columns=["item", "rater", "target", "value"])
    table.to_csv(tmp_path / "pilot.csv", index=False)
    labelled = table.assign(label=np.where(table.pop("value") > 0.65, "Correct", "Incorrect"))
    labelled.to_csv(tmp_path / "labels.csv", index=False)
    for words, _, options in commands:
        pilot = tmp_path / ("labels.csv" if "--label" in options else "pilot.csv")
        assert main([*words.split(), str(pilot), *options.split()]) == 0
        said = capsys.readouterr().out
        if "--each" in options:
            assert "480 ratings by 6 raters of 40 items" in said and "raters an item; 40 answers" in said  # 7, not 6
            continue
        assert "240 ratings of a target by 6 raters of 40 items" in said
        assert "The same 6 raters" in said and "leave open about other raters" in said


def test_a_pilot_of_two_criteria_or_of_equal_ratings_plans_nothing(tmp_path, capsys):
    "The mean of two criteria varies less than a rating, and equal ratings say nothing of how raters differ."
    rows = [
        (f"q{i}", r, m, c, 3 + (i + r + (c == "tone")) % 2)
        for i in range(20)
        for r in range(4)
        for m in ("m1", "m2")
        for c in ("safety", "tone")
    ]
    table = pd.DataFrame(rows, columns=["item", "rater", "target", "criterion", "score"])
    table.to_csv(tmp_path / "two.csv", index=False)
    table.query("criterion == 'tone'").assign(score=3).to_csv(tmp_path / "equal.csv", index=False)
    for name, told in (("two", "must be by one criterion; got safety, tone"), ("equal", "got one value throughout")):
        for more in (["--each"], []):
            assert main(["panel", "design", str(tmp_path / f"{name}.csv"), "--width", "0.5", *more]) == 1
            said = capsys.readouterr()
            assert told in said.err and "nan" not in said.out


@pytest.mark.skipif(not REAL.exists(), reason="the public scores are not here: set MHBENCH_DATASETS")
def test_predicted_error_on_real_scores():
    # 1,000 conversations; three raters are these three, so that items alone are drawn: their part of the formula
    rows = pd.read_csv(REAL).query("attribute == 'Overall' or attribute == 'Empathy'")
    rng, ratios = np.random.default_rng(3), []
    for _, part in rows.groupby(["attribute", "model"]):
        wide = part.pivot(index="conversation", columns="rater", values="score").dropna()
        if len(wide) < 500 or wide.shape[1] < 3:
            continue
        pilot = wide.sample(150, random_state=len(ratios)).stack()
        held_out = wide.drop(pilot.index.get_level_values(0).unique()).to_numpy()
        c = rater_components(pilot.to_numpy(), pilot.index.get_level_values(0), pilot.index.get_level_values(1))
        predicted = c._replace(rater=0.0).standard_error(50, 3)
        means = [held_out[rng.choice(len(held_out), 50, replace=False)].mean() for _ in range(2000)]
        finite = np.sqrt(1 - 50 / len(held_out))
        ratios.append(predicted * finite / np.std(means))
    assert len(ratios) > 9
    assert np.mean(ratios) == pytest.approx(1, abs=0.1)  # a pilot of 150 alone is off by more


def predicted_beside_held_out(scores: np.ndarray, questions: np.ndarray, rng) -> float:
    """Scores (R, N) of options. The pilot is half of the raters on half of the questions; how far means of an option
    by one half of the raters and by the other lie apart on the other questions is what its components predict.
    """
    (n, _), predicted, seen = scores.shape, [], []
    for _ in range(300):
        order, drawn = rng.permutation(n), rng.permutation(np.unique(questions))
        inside = np.isin(questions, drawn[: len(drawn) // 2])
        one, other = order[: n // 2], order[n // 2 :]
        pilot = scores[np.ix_(one, inside)]
        rater, item = np.nonzero(~np.isnan(pilot))
        variance = np.maximum(rater_components(pilot[rater, item], item, rater)[1:4], 0).sum()
        halves = [scores[np.ix_(half, ~inside)] for half in (one, other)]
        counts = np.array([(~np.isnan(x)).sum(0) for x in halves])
        known = (counts > 0).all(0)
        apart = np.nanmean(halves[0][:, known], 0) - np.nanmean(halves[1][:, known], 0)
        predicted.append((variance / counts[:, known]).sum(0).mean())
        seen.append((apart**2).mean())
    return float(np.sqrt(np.mean(predicted) / np.mean(seen)))


def by_rater(ratings) -> tuple[np.ndarray, np.ndarray]:
    rows = pd.DataFrame([(r.rater, r.item_id, r.target, r.value) for r in ratings], columns=["r", "q", "o", "value"])
    wide = rows.pivot_table("value", "r", ["q", "o"])
    return wide.to_numpy(), wide.columns.get_level_values("q").to_numpy()


@pytest.mark.skipif(not MENTAT.exists(), reason="MENTAT's annotations are not here: set MHBENCH_DATASETS")
def test_predicted_error_over_raters_on_real_annotations():
    "Eight annotators: what a rater adds to single scores can be held out; how much their overall means differ cannot."
    scores, questions = by_rater(load_annotations(MENTAT).ratings)
    assert len(scores) == 8 and scores.shape[1] > 300
    assert predicted_beside_held_out(scores, questions, np.random.default_rng(1)) == pytest.approx(1, abs=0.1)


def test_predicted_error_over_raters_on_the_demo():
    scores, questions = by_rater(load_annotations(HERE / "mhbench/studies/mentat/demo/annotated_data").ratings)
    assert predicted_beside_held_out(scores, questions, np.random.default_rng(2)) == pytest.approx(1, abs=0.1)


def test_the_cases_that_a_width_takes_give_intervals_of_that_width():
    "Agresti and Coull's, of simulated accuracies near one half."
    rng, n = np.random.default_rng(5), cases_for_width(0.2)
    widths = [e.ci_high - e.ci_low for e in (proportion(int(k), n) for k in rng.binomial(n, 0.5, 200))]
    assert n == 93 and max(widths) <= 0.2 and np.mean(widths) > 0.19


@pytest.mark.parametrize("width", [0, 1, -0.1, float("nan")])
def test_a_width_that_no_interval_has_is_refused(width):
    with pytest.raises(ValueError, match="width must lie between 0 and 1"):
        cases_for_width(width)


def test_raters_of_each_are_as_many_as_students_interval_needs():
    "Standard deviation 10: nine raters give 2 x 2.306 x 10 / sqrt(9) = 15.4, ten 2 x 2.262 x 10 / sqrt(10) = 14.3."
    components = RaterComponents(100.0, 40.0, 30.0, 30.0, n_items=30, n_raters=5, n_ratings=150)
    assert raters_for_width(components, 15.0) == 10


@pytest.mark.parametrize(("power", "n_items"), [(0.8, 5), (0.9, 12)])
def test_where_only_items_differ_the_detectable_difference_has_the_items_degrees_of_freedom(power, n_items):
    t = lambda q: scipy.stats.t.ppf(q, n_items - 1)
    se = np.sqrt(2.0 / n_items)
    found = least_difference(RaterComponents(2.0, 0.0, 0.0, 0.0, 0, 0, 0), n_items, 6, power=power)
    assert found == pytest.approx((t(0.975) + t(power)) * se, rel=1e-9)
