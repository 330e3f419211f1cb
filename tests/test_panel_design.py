"""How many raters and items: the plan against held-out subsamples, simulated and real."""

import os
import re
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from mhbench.records.schema import Rating
from mhbench.run.cli import main
from mhbench.stats.estimate import proportion
from mhbench.stats.multi_reader import RaterComponents, mean_over_raters, rater_components
from mhbench.stats.panel_design import (
    Aim,
    assured_width,
    cases_for_width,
    cautious,
    design_sentence,
    least_difference,
    mean_width,
    panel_designs,
    pilot_components,
    pilot_lacks,
    pilot_table,
    raters_for_width,
    same_raters,
    share_width,
    with_more,
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
    "The last: mostly items; a low share of studies, below which the estimate itself is; a pilot of two raters."
    c = RaterComponents(1.0, 0.3, 0.2, 1.3, 40, 8, 320)
    no_rater, two = c._replace(rater=0.0), c._replace(n_raters=2, n_items=2, n_ratings=80)
    for c, n, raters, each, level, studies in (
        (c, 60, 6, 6, 0.95, 0.8),
        (c, 30, 10, 3, 0.9, 0.6),
        (no_rater._replace(rest=0.0, item_by_rater=0.01), 8, 10, 3, 0.9, 0.6),
        (c, 60, 6, 2, 0.95, 0.2),
        (two, 60, 6, 2, 0.95, 0.8),
    ):
        t_raters, t_items = scipy.stats.t.ppf(0.5 + level / 2, [raters - 1, n - 1]) ** 2
        rating = c.item_by_rater + c.rest
        seen = rating * c.n_raters / c.n_ratings  # noise in a rater's mean: of the pilot, of the study
        planned = rating * raters / (n * each)
        both = scipy.stats.f.ppf(studies, raters - 1, c.n_raters - 1) * (c.rater + seen)
        known = scipy.stats.chi2.ppf(studies, raters - 1) / (raters - 1) * (planned - seen)
        of_raters = max(both + known, c.rater + planned) / raters
        of_items = scipy.stats.f.ppf(studies, n - 1, c.n_items - 1) / n
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


def verdict(rater, item, target="m", **given):
    return Rating(item_id=item, study="s", rater=rater, target=target, source="example", **given)


NUMBERS = [
    verdict("r", "q1", "m1", value=3.0),
    verdict("r", "q2", "m1", value=5.0),
    verdict("t", "q1", "m1", value=4.0),
]
LABELS = [verdict(r, "q1", "m2", label=x) for r, x in (("r", "good"), ("t", "bad"), ("u", "bad"))]
LABELS += [verdict("v", "q1", "m2", label="good"), verdict("w", "q1", "m2", label="Abstain")]


@pytest.mark.parametrize(
    ("ratings", "label", "values", "counted"),
    [
        (NUMBERS, None, [3, 5, 4], ""),
        (NUMBERS + LABELS[:3], None, [3, 5, 4], ""),  # as many numbers as labels: numbers
        (NUMBERS + LABELS[:4], None, [0, 1, 1, 0], "bad"),  # more labels; of equally frequent ones the first by name
        (NUMBERS + LABELS, "good", [1, 0, 0, 1], "good"),  # an abstention is none
        ([*LABELS[:1], *LABELS[3:]], None, [1, 1], "good"),
        ([*LABELS, verdict("r", "q1", "ease", label="easy")], None, [0, 1, 1, 0], "bad"),  # of targets with that label
        ([*NUMBERS, verdict("x", "q1", "m1", value=9.0, kind="judge")], None, [3, 5, 4], ""),
    ],
)
def test_a_pilot_is_people_s_numbers_or_the_commonest_label(ratings, label, values, counted):
    "Item, rater, target and value of each rating that counts, in their order."
    table, counted_label = pilot_table(ratings, label)
    assert (table["value"].tolist(), counted_label) == (values, counted)
    assert list(table) == ["item", "rater", "target", "value"] and set(table["target"]) == {
        "m1" if not counted else "m2"
    }


@pytest.mark.parametrize(
    ("ratings", "label", "message"),
    [
        ([], None, "must hold ratings by people"),
        ([verdict("x", "q1", value=9.0, kind="judge")], None, "must hold ratings by people"),
        ([*NUMBERS, verdict("u", "q1", "m1", label="bad")], None, "both for 'm1': 3 numbers, 1 labels in all"),
        (LABELS, "fair", r"the label 'fair'; got labels \['bad', 'good'\]"),
        ([LABELS[-1]], None, r"got labels \[\]"),
        ([verdict("r", "q1", value=1.0, criterion="tone"), verdict("r", "q1", value=1.0)], None, "by one criterion"),
    ],
)
def test_a_pilot_that_is_none_is_refused(ratings, label, message):
    "Nobody's, numbers and labels of one target, a label that nobody gave, two criteria."
    with pytest.raises(ValueError, match=message):
        pilot_table(ratings, label)


def test_a_pilot_of_differences_averages_over_pairs_of_targets():
    "Three targets, of which the last lacks ratings: components of each pair, none below 0; and the largest counts."
    rng = np.random.default_rng(5)
    scores = rng.normal(size=(3, 8, 4)) + rng.normal(size=(8, 1))
    scores[2, 5:] = np.nan
    rows = [(i, r, f"m{t}", x) for (t, i, r), x in np.ndenumerate(scores) if x == x]
    pilot = pd.DataFrame(rows, columns=["item", "rater", "target", "value"])
    found = pilot_components(pilot, difference=True)
    by_pair = []
    for first, second in ((0, 1), (0, 2), (1, 2)):
        y = (scores[first] - scores[second])[: 5 if second == 2 else 8]
        item, rater = (place.ravel() for place in np.indices(y.shape))
        by_pair.append(np.maximum(rater_components(y.ravel(), item, rater)[:4], 0))
    assert found[:4] == pytest.approx(np.mean(by_pair, 0)) and found[4:] == (8, 4, 32)
    with pytest.raises(ValueError, match="in a pair of targets; got none: there is one target"):
        pilot_components(pilot[pilot["target"] == "m0"], difference=True)


@pytest.mark.parametrize("level", [0.9, 0.95])
@pytest.mark.parametrize("c", [TRUTH, RaterComponents(1.0, 0.0, 0.01, 0.0, 0, 0, 0), TRUTH._replace(rater=-0.1)])
def test_the_width_is_of_both_variances_or_of_the_items_alone(c, level):
    "Two raters, or two items, are the fewest; each variance has its own quantile."
    rater = max(c.rater, 0)
    for n, raters, each in ((12, 6, 2), (2, 2, 2), (3, 2, 1)):
        t_raters, t_items = scipy.stats.t.ppf(0.5 + level / 2, [raters - 1, n - 1]) ** 2
        rest = (c.item_by_rater + c.rest) / (n * each)
        squared = max(t_raters * (rater / raters + rest) + t_items * c.item / n, t_items * (c.item / n + rest))
        assert mean_width(c, n, raters, each, level) == pytest.approx(2 * np.sqrt(squared))
    for n, raters in ((1, 6), (6, 1)):
        with pytest.raises(ValueError, match="two or more"):
            mean_width(c, n, raters)


@pytest.mark.parametrize(("n", "raters", "each", "power"), [(40, 6, 3, 0.8), (12, 8, 8, 0.9)])
def test_the_detectable_difference_has_satterthwaite_s_degrees_of_freedom(n, raters, each, power):
    "Half the width of the interval, and a quantile of t of the standard error beyond it."
    c = RaterComponents(1.0, 0.5, 0.1, 1.4, 0, 0, 0)
    of_raters, of_items = 0.5 / raters + 1.5 / (n * each), 1.0 / n
    variance = of_raters + of_items
    df = variance**2 / (of_raters**2 / (raters - 1) + of_items**2 / (n - 1))
    by_hand = mean_width(c, n, raters, each, 0.9) / 2 + scipy.stats.t.ppf(power, df) * np.sqrt(variance)
    assert least_difference(c, n, raters, each, power=power, level=0.9) == pytest.approx(by_hand)
    nothing = RaterComponents(0.0, 0.0, 0.0, 0.0, 0, 0, 0)
    assert least_difference(nothing, n, raters, each) == 0.0


def test_designs_that_find_a_difference_say_what_they_find_and_take():
    "At most six raters of three minutes a rating: every column by hand, the cheapest first, at most two of a kind."
    pair, aim = TRUTH._replace(n_raters=8, n_items=40, n_ratings=320), Aim(difference=2.0, power=0.9, level=0.9)
    found = panel_designs(TRUTH, aim, pair=pair, minutes=3.0, max_raters=7, max_items=100)
    detectable = lambda n, raters, each: least_difference(cautious(pair), n, raters, each, power=0.9, level=0.9)
    assert set(found["design"]) == {"crossed", "k of n", "nested"} and found["design"].value_counts().max() == 2
    assert found["minutes"].is_monotonic_increasing
    for d in found.to_dict("records"):
        n, raters, each = d["items"], d["raters"], d["per_item"]
        assert d["ratings"] == n * each and d["each"] == np.ceil(n * each / raters) and d["minutes"] == 3 * n * each
        assert d["width"] == pytest.approx(assured_width(TRUTH, n, raters, each, 0.9))
        assert d["detectable"] == pytest.approx(detectable(n, raters, each)) and d["detectable"] <= 2.0
        assert (n - 1) * each < raters or detectable(n - 1, raters, each) > 2.0
    assert panel_designs(TRUTH, Aim(width=3.0), max_raters=6)["detectable"].isna().all()
    with pytest.raises(ValueError, match="aim must have a width or a difference"):
        panel_designs(TRUTH, Aim())


def test_items_are_the_fewest_up_to_the_most_that_may_be_asked():
    "Where the last item that may be asked is enough; and a width and a difference are both to be reached."
    aim = Aim(width=1.6)
    n = same_raters(TRUTH, aim, 9)
    assert assured_width(TRUTH, n, 9) <= 1.6 < assured_width(TRUTH, n - 1, 9)
    assert (same_raters(TRUTH, aim, 9, max_items=n), same_raters(TRUTH, aim, 9, max_items=n - 1)) == (n, None)
    assert same_raters(TRUTH, Aim(width=1e9), 6) == 2 and same_raters(TRUTH, Aim(width=1e9), 5) is None
    pair = TRUTH._replace(n_raters=8, n_items=40, n_ratings=320)
    for difference in (1.1, 5.0):
        both = same_raters(TRUTH, aim._replace(difference=difference), 9, pair=pair)
        alone = same_raters(TRUTH, Aim(difference=difference), 9, pair=pair)
        assert both == max(n, alone) and (alone > n) == (difference == 1.1)


@pytest.mark.parametrize(("n_raters", "n_items", "is_enough"), [(4, 20, True), (3, 20, False), (4, 19, False)])
def test_a_pilot_has_four_raters_and_twenty_items(n_raters, n_items, is_enough):
    "One rater fewer or one item fewer is not enough, and is said."
    told = pilot_lacks(TRUTH._replace(n_raters=n_raters, n_items=n_items))
    assert (told == "") == is_enough and (is_enough or f"{n_raters} raters and {n_items} items" in told)


def test_the_limit_of_the_raters_component_needs_two_raters_and_is_never_negative():
    "Components that are known stay; of two raters there is one degree of freedom."
    for n_raters in (0, 1):
        known = TRUTH._replace(n_raters=n_raters, n_ratings=n_raters * 10)
        if n_raters:
            assert cautious(known) == known
    two = RaterComponents(1.0, 0.3, 0.2, 1.0, 10, 2, 20)
    by_hand = (0.3 + 0.12) / scipy.stats.chi2.ppf(0.1, 1) - 0.12
    assert cautious(two, 0.9).rater == pytest.approx(by_hand) and cautious(two)._replace(rater=0.3) == two
    assert cautious(two._replace(rater=0.0), 1e-6).rater == 0.0


def test_the_answer_names_the_cheapest_design_in_which_raters_share_items():
    "Both aims, the hours in all, who rates what; where no design is enough, or none in which raters share items."
    columns = ["raters", "items", "per_item", "ratings", "each", "minutes"]
    designs = pd.DataFrame([(9, 30, 1, 30, 4, 60), (8, 20, 3, 60, 8, 135), (6, 15, 6, 90, 15, 180)], columns=columns)
    assert design_sentence(designs, Aim(width=0.25, difference=0.1, power=0.9), 12) == (
        "For an interval no wider than 0.25 in 80% of studies and a difference of 0.1 found in 90% of studies: "
        "8 raters and 20 items, each rated by 3 of them: 60 ratings, 8 a rater, 2.2 hours in all."
    )
    crossed = design_sentence(designs[2:], Aim(width=0.25), 12)
    assert crossed.endswith(
        "6 raters and 15 items, each rated by all of them: 90 ratings, 15 a rater, 3.0 hours in all."
    )
    assert "9 raters and 30 items, each rated by 1 of them" in design_sentence(designs[:1], Aim(width=0.25), 12)
    none = design_sentence(designs[:0], Aim(difference=0.1), 12, 500)
    assert "found in 80% of studies, 12 raters are too few, even with 500 items" in none


def test_ratings_that_are_there_are_used_where_items_have_most_of_them():
    "The target with most ratings has 5, 2 and 1 of its items: two items of three raters use 3 and 2."
    ratings = [("a", i, r) for i, n in enumerate((2, 1, 5)) for r in range(n)] + [("b", i, 0) for i in range(7)]
    pilot = pd.DataFrame(ratings, columns=["target", "item", "rater"])
    designs = pd.DataFrame({"items": [2, 3, 9], "per_item": [3, 1, 4], "ratings": [6, 3, 36]})
    assert with_more(designs, pilot)["more"].tolist() == [6 - 5, 3 - 3, 36 - 7]


def test_the_fewest_raters_of_each_are_sought_from_seven_to_the_most():
    "Known by hand from Student's quantiles; the most that may be tried is tried."
    c = RaterComponents(100.0, 40.0, -5.0, 30.0, n_items=30, n_raters=5, n_ratings=150)
    width = lambda n, level: 2 * scipy.stats.t.ppf(0.5 + level / 2, n - 1) * np.sqrt(70 / n)
    for level in (0.9, 0.95):
        assert raters_for_width(c, width(9, level) + 1e-9, level) == 9
        assert raters_for_width(c, width(9, level) + 1e-9, level, max_raters=9) == 9
        assert raters_for_width(c, width(9, level) + 1e-9, level, max_raters=8) is None
    assert raters_for_width(c, 1e9) == 7


@pytest.mark.parametrize(
    ("width", "share", "level"), [(0.2, 0.5, 0.9), (0.1, 0.2, 0.95), (0.3, 0.9, 0.9999), (0.9, 0.5, 0.95)]
)
def test_one_case_fewer_has_a_wider_interval(width, share, level):
    "Widths are those of the interval of the expected number of right answers."
    n = cases_for_width(width, share, level)
    z_squared = scipy.stats.norm.ppf(0.5 + level / 2) ** 2
    assert share_width(n, share, level) <= width and (n == 1 or share_width(n - 1, share, level) > width)
    if n > 40:
        p, total = (share * n + z_squared / 2) / (n + z_squared), n + z_squared
        assert share_width(n, share, level) == pytest.approx(2 * np.sqrt(z_squared * p * (1 - p) / total))
