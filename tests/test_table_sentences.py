"What a page says of its tables, case by case: cells, intervals, doubts, samples, counts, differences."

import json

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from mhbench.report import tables
from mhbench.report.tables import doubts, sampled
from mhbench.steps.score import CUT_OFF, NONE_READ

NAN = float("nan")
DASH = "\N{EN DASH}"


# Cells ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, DASH),
        (pd.NA, DASH),
        (NAN, DASH),
        (np.float64("inf"), DASH),
        (True, "yes"),
        (np.bool_(False), "no"),
        (3, "3"),
        (np.int64(1234), "1234"),
        (0.12345, "0.123"),
        (np.float32(2.0), "2.000"),
        ("0.5", "0.5"),
    ],
)
def test_a_value_of_a_cell(value, text):
    assert tables.number(value) == text


@pytest.mark.parametrize(
    ("column", "is_p"),
    [
        ("p", True),
        ("p_holm", True),
        ("p_value", True),
        ("least_p", True),
        ("panel", False),
        ("least_px", False),
        (3, False),
    ],
)
def test_columns_of_p_values_are_known_by_name_and_small_ones_are_bounded(column, is_p):
    assert tables.is_p_value(column) is is_p
    frame = pd.DataFrame({column: [0.0009, 0.001]})
    assert tables.cell_texts(frame) == [["<0.001" if is_p else "0.001"], ["0.001"]]
    assert tables.cell_texts(frame.astype(object).replace(0.001, 0)) == [["<0.001" if is_p else "0.001"], ["0"]]


def estimates(**more) -> pd.DataFrame:
    rows = {"model": ["a", "b"], "estimate": [0.5, NAN], "ci_low": [0.25, NAN], "ci_high": [0.75, NAN], "n": [40, 40]}
    return pd.DataFrame(rows).assign(**more)


@pytest.mark.parametrize(
    ("more", "cells", "head"),
    [
        ({}, ["0.500 [0.250, 0.750]", DASH], "estimate [95% interval]"),
        ({"ci_high": NAN}, ["0.500", DASH], "estimate [95% interval]"),
        ({"n_unread": [3, 1]}, ["0.500 [0.250, 0.750]", NONE_READ], "estimate [95% interval]"),
        ({"n_unread": [3, NAN]}, ["0.500 [0.250, 0.750]", DASH], "estimate [95% interval]"),
        ({"n_unread": 40, "n_truncated": 21}, ["0.500 [0.250, 0.750]", CUT_OFF], "estimate [95% interval]"),
        ({"n_unread": 40, "n_truncated": 20}, ["0.500 [0.250, 0.750]", NONE_READ], "estimate [95% interval]"),
        ({"n_unread": 40, "n_truncated": NAN}, ["0.500 [0.250, 0.750]", NONE_READ], "estimate [95% interval]"),
        ({"level": 0.9}, ["0.500 [0.250, 0.750]", DASH], "estimate [90% interval]"),
        ({"level": [0.9, NAN]}, ["0.500 [0.250, 0.750]", DASH], "estimate [90% interval]"),
        ({"level": [0.9, 0.8]}, ["0.500 [0.250, 0.750]", DASH], "estimate [interval]"),
        ({"level": NAN}, ["0.500 [0.250, 0.750]", DASH], "estimate [interval]"),
        ({"level": "diploma"}, ["0.500 [0.250, 0.750]", DASH], "estimate [95% interval]"),
    ],
)
def test_an_interval_is_folded_into_its_estimate(more, cells, head):
    found = tables.with_interval(estimates(**more))
    assert found[head].tolist() == cells and not {"estimate", "ci_low", "ci_high"} & set(found)
    level = more.get("level")
    assert ("level" in found) == (isinstance(level, str) or level == [0.9, 0.8])
    assert tables.readable(estimates()[["model", "n"]]).equals(estimates()[["model", "n"]])


def test_a_markdown_table_sets_numbers_to_the_right_and_keeps_its_cells_apart():
    frame = pd.DataFrame({"a|b": ["x|y", "<b>\nz"], "n": [1, 2], "yes": [True, False]})
    assert tables.markdown_table(frame) == (
        "| a\\|b | n | yes |\n| --- | ---: | --- |\n| x\\|y | 1 | yes |\n| &lt;b> z | 2 | no |\n"
    )


def test_texts_that_a_spreadsheet_would_run_begin_with_an_apostrophe():
    texts = ["=1", "+1", "@x", "\tx", "\rx", "-x", "-1", "-.5", "a=1", "x\ry"]
    rows = tables.csv_text(pd.DataFrame({"-t": texts, "n": -1})).split("\n")
    safe = ["'=1", "'+1", "'@x", "'\tx", "' x", "'-x", "-1", "-.5", "a=1", "x y"]
    assert rows == ["'-t,n", *(f"{text},-1" for text in safe), ""]
    for text in ("=1", "+1", "@x", "-x"):
        assert tables.as_typed(f"'{text}") == text
    assert [tables.as_typed(text) for text in ("'a", "=1", "''", "")] == ["'a", "=1", "''", ""]


# Prose ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("markdown", "plain"),
    [
        ("see [the page](x.html) and `code`", "see the page and code"),
        ("**bold** and *one*, 2 * 3", "bold and one, 2 * 3"),
        (r"$\text{n} \le 3$ and $$a_{1} \times b$$", "n \N{LESS-THAN OR EQUAL TO} 3 and a_1 \N{MULTIPLICATION SIGN} b"),
        (r"$\alpha$", "alpha"),
    ],
)
def test_prose_is_told_without_marks_and_formulas(markdown, plain):
    assert tables._plain_prose(markdown) == plain


def test_a_table_has_the_prose_of_its_section_before_and_below_it(tmp_path):
    show = lambda *names: ("code", "; ".join(f's.table("{name}", x)' for name in names))
    cells = [
        ("markdown", "# Title\n\n## First\n\nAbout it."),
        show("one", "two"),
        ("code", "x = 1"),
        ("markdown", "Below it.\n\n## Second\n\nMore."),
        ("markdown", "Even more."),
        show("three"),
        ("markdown", "## Third"),
        show("four"),
    ]
    content = {"cells": [{"cell_type": kind, "source": [text]} for kind, text in cells]}
    (tmp_path / "n.ipynb").write_text(json.dumps(content), encoding="utf-8")
    assert tables.stage_prose(tmp_path / "n.ipynb") == {
        "one": tables.Prose("First", "About it.\n\nBelow it."),
        "two": tables.Prose("First", "About it.\n\nBelow it."),
        "three": tables.Prose("Second", "Even more."),
        "four": tables.Prose("Third", ""),
    }


# Doubts ---------------------------------------------------------------------------------------------------------------


def rests(n, *rest, **more) -> pd.DataFrame:
    return pd.DataFrame({"estimate": 0.5, "n": [n, *rest]}).assign(**more)


@pytest.mark.parametrize(
    ("table", "sentences"),
    [
        (rests(30), []),
        (rests(29), ["1 of 1 rows rest on fewer than 30 items: treat as imprecise"]),
        (rests(10, 50), ["1 of 2 rows rest on fewer than 30 items: treat as imprecise"]),
        (rests(9, 20, 50), ["1 of 3 rows rest on fewer than 10 items: treat as inconclusive"]),
        (rests(9, 50, estimate=[NAN, 0.5]), []),
        (
            rests(50, 50, n_clusters=[9, 40]),
            ["1 of 2 rows rest on fewer than 10 independent cases: treat as inconclusive"],
        ),
        (rests(20, n_clusters=NAN), ["1 of 1 rows rest on fewer than 30 items: treat as imprecise"]),
        (rests(5, question="x"), ["1 of 1 rows rest on fewer than 10 raters: treat as inconclusive"]),
        (rests(5, item_id="x", judge="j"), ["1 of 1 rows rest on fewer than 10 items: treat as inconclusive"]),
        (rests(NAN, 50), ["1 of 2 rows do not say on how many items they rest"]),
        (rests("many", 50), ["1 of 2 rows do not say on how many items they rest"]),
        (pd.DataFrame({"n": [3]}), []),
    ],
)
def test_few_items_cases_or_raters_are_named(table, sentences):
    assert doubts(table) == sentences


UNEVEN = "compare them in the tables of pairs, which use the items that both answered"


@pytest.mark.parametrize(
    ("columns", "n_range"),
    [
        ({"model": ["a", "b"]}, (40, 90)),
        ({"model": ["a", "b"], "mode": ["x", "y"]}, None),
        ({"model": ["a", "b"], "mark": ["x", "y"], "reading": ["x", "y"]}, (40, 90)),
        ({"model": ["a", "b"], "seed": [1, 2]}, (40, 90)),
        ({"who": ["a", "b"]}, None),
    ],
)
def test_models_that_answered_different_items_are_named(columns, n_range):
    told = [f"the models answered different items (n from {n_range[0]} to {n_range[1]}): {UNEVEN}"] if n_range else []
    assert doubts(rests(40, 90).assign(**columns)) == told
    assert doubts(rests(60, 60).assign(**columns)) == []


def test_uneven_numbers_are_those_of_settings_that_models_share():
    rows = pd.DataFrame({"model": [*"abab"], "mode": [*"xxyy"], "estimate": 0.5, "n": [50, 50, 40, 60]})
    assert doubts(rows) == [f"the models answered different items (n from 40 to 60): {UNEVEN}"]


def test_many_tests_are_named_with_the_p_values_to_use():
    p = pd.DataFrame({"p": [0.04, 0.5]})
    start = "2 tests: without any true difference, one in 20 has p below 0.05 by chance; "
    assert doubts(p) == [f"{start}these p-values are not adjusted for it"]
    assert doubts(p.assign(p_holm=0.1)) == [f"{start}use p_holm"]
    assert doubts(p.assign(p_adjusted=0.1, p_bh=0.1, p_other=1)) == [f"{start}use p_adjusted or p_bh"]
    assert doubts(p[:1]) == [] and doubts(p.rename(columns={"p": "p_value"}))[0].startswith("2 tests")


@pytest.mark.parametrize(
    ("more", "n"),
    [
        ({}, 1),
        ({"p": 0.049}, 0),
        ({"ci_low": 0.0}, 0),
        ({"ci_low": -0.4, "ci_high": -0.1}, 1),
        ({"ci_low": -0.4, "ci_high": 0.0}, 0),
    ],
)
def test_intervals_that_exclude_0_beside_a_test_that_decides_otherwise_are_counted(more, n):
    rows = pd.DataFrame({"estimate": [0.2], "ci_low": 0.1, "ci_high": 0.4, "p": 0.05, "first": "a", "second": "b"})
    told = "1 of 1 interval exclude 0 although p is not below 0.05: the test decides"
    exact = "; an exact one of k cases that differ gives 2^(1-k) or more"
    assert tables._explain_p_values(rows.assign(**more)) == [told + exact] * n
    assert tables._explain_p_values(rows.drop(columns="first")) == []
    pairs = rows.rename(columns={"first": "annotator", "second": "student", "p": "p_value"})
    assert tables._explain_p_values(pairs) == [told + exact]


def test_missing_intervals_are_named_by_reason():
    rows = estimates(estimate=0.5, interval=["t", "raters"]).assign(ci_low=[0.2, NAN])
    assert doubts(rows) == [f"1 of 2 rows have no interval: {tables.NO_INTERVAL['raters']}"]
    assert doubts(rows.assign(interval="odd")) == ["1 of 2 rows have no interval: the reason is unknown"]
    few = estimates(estimate=0.5, ci_low=NAN, n=[5, 6]).assign(n_clusters=[9, 5])
    assert tables.without(few).tolist() == [tables.NO_INTERVAL["few"]] * 2
    assert tables.without(few.assign(n_clusters=6, n=[5, 6])).tolist() == [
        tables.NO_INTERVAL["few"],
        "the reason is unknown",
    ]


# Samples --------------------------------------------------------------------------------------------------------------

FIXED = "Treated as fixed: "


def interval_row(**more) -> pd.DataFrame:
    return pd.DataFrame({"estimate": [0.5], "ci_low": 0.4, "ci_high": 0.6, "n": 40}).assign(**more)


def of(units: str, *fixed: str, more: str = "") -> str:
    start = f"The intervals reflect the sampling of {units}. {FIXED}{', '.join([*fixed, 'the answers of this run'])}."
    return f"{start} {more}".strip()


CASES = "whole cases, each with all its items"


@pytest.mark.parametrize(
    ("table", "told"),
    [
        (interval_row(), of("items")),
        (interval_row(n_clusters=40), of("items")),
        (interval_row(n_clusters=12), of(CASES, more=tables.UNSEEN["cases"].format(12))),
        (interval_row(n_clusters=1), of(CASES)),
        (interval_row(question="q"), of("the annotations of a question")),
        (
            interval_row(model="m", judge="j", seed=1, style="s"),
            of("items", "models", "judges", "trainings", "wordings"),
        ),
        (interval_row(who="w", rater="r"), of("items", "judges", "raters")),
        (interval_row(rater="r", interval="t over raters"), of("raters and items", more=tables.UNSEEN["raters"])),
        (interval_row(n_missing=1), of("items", more=tables.UNSEEN["missing"])),
        (interval_row(n_missing=0, n_failed=NAN), of("items")),
        (interval_row(left_out=2), of("items", more=tables.UNSEEN["missing"])),
        (interval_row(interval="prediction-powered"), of("items", more=tables.UNSEEN["labels"])),
        (interval_row(measure="intraclass correlation"), of("items", more=tables.UNSEEN["repeats"])),
        (interval_row(ci_low=NAN), ""),
        (interval_row().drop(columns="ci_low"), ""),
    ],
)
def test_what_intervals_treat_as_random_and_as_fixed_and_do_not_hold(table, told):
    assert sampled(table) == told


def test_rows_of_several_kinds_are_told_together():
    rows = pd.concat([interval_row(n_clusters=30, interval="t"), interval_row(n_clusters=8, interval="rater")])
    rows = pd.concat([rows, interval_row(n_clusters=3, ci_low=NAN, n_missing=5)])
    units = f"{CASES}, and of raters in rows that say so"
    more = " ".join([tables.UNSEEN["cases"].format(8), tables.UNSEEN["raters"]])
    assert sampled(rows) == of(units, more=more), "rows without an interval do not count"


# In words -------------------------------------------------------------------------------------------------------------


def test_a_share_stands_above_below_or_about_reference_values():
    lines = {"chance": 0.25, "pass mark": 0.6, "expert": 0.9}
    told = "above chance; below expert; not shown to differ from pass mark"
    assert tables.standing(0.5, 0.26, 0.6, lines) == told
    assert tables.standing(0.5, 0.25, 0.9, lines) == "not shown to differ from chance and pass mark and expert"
    assert tables.standing(0.95, 0.91, 1.0, lines) == "above chance and pass mark and expert"
    assert tables.standing(0.5, NAN, 0.6, lines) == "inconclusive: there is no interval"


def test_intervals_for_all_rows_at_once_are_those_of_bonferroni_at_the_effective_size():
    "By hand: a Wald-like size from the interval's width, then Agresti and Coull at the shared level."
    row = pd.DataFrame({"estimate": [0.4], "ci_low": 0.3, "ci_high": 0.5, "level": 0.9})
    z = norm.ppf(0.95)
    n = z**2 * 0.4 * 0.6 / 0.1**2 - z**2
    z_all = norm.ppf(1 - 0.1 / 3 / 2)
    centre = (0.4 * n + z_all**2 / 2) / (n + z_all**2)
    half = z_all * np.sqrt(centre * (1 - centre) / (n + z_all**2))
    found = tables.for_all(row, n_hidden=2).iloc[0]
    assert (found["ci_low"], found["ci_high"]) == pytest.approx((centre - half, centre + half))
    two = tables.for_all(pd.concat([row, row]), n_hidden=1)
    assert two["ci_low"].tolist() == pytest.approx([centre - half] * 2)
    usual = tables.for_all(row.assign(level=NAN), n_hidden=1).iloc[0]
    assert usual["ci_low"] == tables.for_all(row.drop(columns="level"), n_hidden=1).iloc[0]["ci_low"] < 0.3
    assert tables.for_all(row, 0).equals(row) and tables.for_all(row[:0], 5).equals(row[:0])
    missing = tables.for_all(row.assign(ci_low=NAN, ci_high=NAN), n_hidden=1)
    assert missing[["ci_low", "ci_high"]].isna().all(axis=None)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ((3, 8, "x"), "3 of 8 x"),
        ((3, None, "x"), "3 x"),
        ((None, 8, "x"), "an unknown number of 8 x"),
        ((None, NAN, "x"), "an unknown number of x"),
        ((0, 8, "x", 2), "0 of 8 x, 2 unknown"),
        ((0, 8, "x", 2, "not tested"), "0 of 8 x, 2 not tested"),
    ],
)
def test_how_many_of_how_many(given, told):
    assert tables.counted(*given) == told


def test_ratings_are_told_by_who_gave_them():
    assert tables.ratings_in_words({"n_ratings": 7, "n_simulated": 3, "n_by_models": 4}) == [
        "4 ratings by models",
        "3 simulated ratings",
    ]
    assert tables.ratings_in_words({"n_ratings": 8, "n_simulated": 3, "n_by_models": 4, "n_raters": 1})[0] == (
        "1 rating by 1 people"
    )


def test_flagged_raters_are_told_with_each_reason_once():
    flags = pd.DataFrame({"rater": ["a", "b", "a", "c"], "flag": ["fast; odd", "", "odd; late", None]})
    assert tables.flagged_in_words(flags, 3) == "Flagged, and not removed: 1 of 3 raters (a: fast, odd, late)"
    assert tables.flagged_in_words(flags) == "Flagged, and not removed: 1 of 4 raters (a: fast, odd, late)"
    assert tables.flagged_in_words(flags[:0]) == "Flagged, and not removed: 0 raters"


UNSHOWN = "0 of 2 comparisons show a difference (adjusted p < 0.05)"


@pytest.mark.parametrize(
    ("p", "least", "cases", "told"),
    [
        ([0.049, 0.05, NAN], None, None, "1 of 3 comparisons show a difference (adjusted p < 0.05), 1 not tested"),
        ([NAN, NAN], None, None, "none of 2 comparisons could be tested"),
        ([NAN, NAN], [0.05, 0.01], None, f"{UNSHOWN}, 2 not tested; 1 with too few cases to show one"),
        ([0.5, 0.5], [0.05, 0.2], [3, 4], "none of 2 comparisons can show a difference: 4 cases cannot show one"),
        ([0.5, 0.5], [0.05, 0.2], [3, NAN], "none of 2 comparisons can show a difference"),
        ([0.5, 0.5], [0.05, 0.2], None, "none of 2 comparisons can show a difference"),
        ([0.5, 0.5], [0.049, NAN], None, UNSHOWN),
        ([], None, None, "0 of 0 comparisons show a difference (adjusted p < 0.05)"),
    ],
)  # fmt: skip
def test_differences_that_are_shown_or_cannot_be_shown_are_counted(p, least, cases, told):
    series = lambda values: None if values is None else pd.Series(values, dtype=float)
    assert tables.differences_in_words(series(p), series(least), series(cases)) == told
    table = pd.DataFrame({"p_holm": p, "p_bh": 0.0}).assign(
        **({"least_p": least} if least else {}), **({"n_clusters": cases} if cases else {})
    )
    if p:
        assert tables.in_a_sentence(table) == f"{told[:1].upper()}{told[1:]}."


def test_coverage_is_told_of_rows_with_an_interval():
    covered = pd.Series(["yes", "no", "yes", "-"])
    told = "The true value lies in 2 of 3 intervals, 1 without an interval."
    assert tables.in_a_sentence(pd.DataFrame({"covered": covered, "p_holm": 0.0})) == told
    assert tables.in_a_sentence(pd.DataFrame({"p": [0.1]})) == ""


@pytest.mark.parametrize(
    ("low", "high", "lines", "told"),
    [
        (0.123, 0.987, {}, "[0.12, 0.99]"),
        (0.2486, 0.75, {"chance": 0.25}, "[0.249, 0.75]"),
        (0.2496, 0.75, {"chance": 0.25}, "[0.2496, 0.75]"),
        (0.25, 0.75, {"chance": 0.25}, "[0.25, 0.75]"),
        (0.1, 0.604, {"chance": 0.25, "pass": 0.6}, "[0.10, 0.604]"),
    ],
)
def test_ends_of_intervals_are_not_rounded_onto_a_reference_value(low, high, lines, told):
    assert tables.ends_in_words(low, high, lines) == told
    row = {"estimate": 0.5, "ci_low": low, "ci_high": high}
    assert tables.estimate_in_words(row, lines) == f"0.50 {told}"
    assert tables.estimate_in_words(row | {"ci_low": NAN}, lines) == "0.50 (no interval)"


def test_printed_numbers_stand_behind_the_interval_of_their_row():
    frame = pd.DataFrame(
        {"model": ["a", "b", "b"], "mode": [1, 1, 2], "estimate": [0.1, 0.2, 0.3], "ci_high": 0.5, "n": 3}
    )
    claims = [
        ("score/x[model=a, mode=1].estimate", "0.1", "T1", "equal", ""),
        ("score/x[model=b].estimate", "0.2", "T2", "convention", "rounded"),
        ("score/x[model=b, mode=2].estimate", "0.3", "T3", "undecided", ""),
        ("score/x[other=b].estimate", "9", "T4", "equal", ""),
        ("score/y[model=a].estimate", "9", "T5", "equal", ""),
        ("score/x[model=a].n", "9", "T6", "equal", ""),
        ("score/x[model=a, mode=1].estimate", "0.4", "T7", "cannot", ""),
    ]
    verdicts = pd.DataFrame(claims, columns=["source", "printed", "place", "verdict", "convention"])
    found = tables.join_printed_numbers(frame, "score/x", verdicts)
    assert list(found) == ["model", "mode", "estimate", "ci_high", "printed", "n"]
    assert found["printed"].tolist() == [
        "0.1 (T1: equal), 0.4 (T7: not judged)",
        "0.2 (T2: equal, rounded)",
        "0.2 (T2: equal, rounded), 0.3 (T3: not decided)",
    ]
    assert list(tables.join_printed_numbers(frame.drop(columns="ci_high"), "score/x", verdicts))[3] == "printed"
    for other in (None, verdicts[3:6]):
        assert tables.join_printed_numbers(frame, "score/x", other) is frame
    bare = frame.drop(columns="estimate")
    assert tables.join_printed_numbers(bare, "score/x", verdicts) is bare
