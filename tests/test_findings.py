"""What the report says first, and the answers that it holds: by hand, from a few rows each."""

import json

import numpy as np
import pandas as pd
import pytest

from mhbench.records.schema import Judgment, Rating, Response, StoredRecords, write_records
from mhbench.report import findings, items, page, tables


@pytest.fixture
def left(tmp_path):
    "A results folder, and what puts a table or a JSON file into it."

    def put(place: str, content) -> None:
        file = tmp_path / place
        file.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, pd.DataFrame):
            content.to_parquet(file)
        else:
            file.write_text(json.dumps(content), encoding="utf-8")

    return tmp_path, put


# Failures -------------------------------------------------------------------------------------------------------------


def test_failures_of_a_study_are_counted_kind_by_kind(left):
    results, put = left
    put("metrics/s/prepare.json", {"n_set_aside": 3, "n_items": 9})
    put("metrics/s/judge_study.json", {"n_failed": {"a": 1, "b": 2}, "n_verdicts": 40})
    put("metrics/s/preferences.json", {"n_unconverged": 0})
    counts = {"model": ["m", "m", "n"], "n": [10, 10, 5], "failed": [1, 2, 0], "refused": [0, 0, 4], "unread": 0}
    put("studies/s/score/counts.parquet", pd.DataFrame(counts))
    accuracy = {
        "by": ["all", "all", "topic"],
        "model": ["m", "n", "n"],
        "mode": "zero_shot",
        "estimate": [0.5, None, 1],
    }
    accuracy |= {"answered_by": "plain", "n_votes": 1, "n": [8, 0, 1], "n_missing": [1, 5, 0], "n_not_asked": [3, 0, 9]}
    put("studies/s/score/accuracy.parquet", pd.DataFrame(accuracy))
    put("studies/s/judge/counts.parquet", pd.DataFrame({"status": ["ok", "error", "unread"], "n": [7, 2, 1]}))
    lost = {"model": ["m", "n"], "no completion": [0, 2], "questions": [4, 4]}
    put("studies/s/contamination/counts.parquet", pd.DataFrame(lost))
    put("studies/s/duels/contents.json", {"tables": [{"name": "counts"}], "failures": [{"follows": "x", "broke": ""}]})
    put("studies/s/panel/contents.json", {"tables": [], "failures": [{"broke": "", "follows": ""}]})
    stages = ["judge_study", "preferences", "score", "judge", "contamination", "duels", "panel"]
    parts = [*((stage, "s") for stage in stages), ("approach", "other")]
    found = findings.failures_of_studies(results, ["s"], parts)
    assert (found["study"] == "s").all()
    rows = [
        (r.what.split(";")[0].split(" (")[0], r.k, r.n, r.who) for r in found.fillna({"n": -1, "k": -1}).itertuples()
    ]
    assert rows == [
        ("stages failed", 1, 7, "duels"),
        ("rows of the source were set aside", 3, -1, ""),
        ("verdicts of the stage judge_study could not be used", 3, 40, ""),
        ("requests got no answer", 3, 25, "m 3"),
        ("answers are refusals", 4, 25, "n 4"),
        ("pairs of model and mode without an accuracy", 1, 2, "n, zero shot"),
        ("questions to a model in a mode were not asked", 3, 17, "m, zero shot 3 of 12"),
        ("verdicts of the stage judge were error", 2, 10, ""),
        ("verdicts of the stage judge were unread", 1, 10, ""),
        ("questions of the stage contamination got no completion", 2, 8, "n 2"),
        ("failures of stages that left no counts", -1, -1, "duels"),
    ]


def test_a_table_that_nobody_left_is_excused_only_by_contents_that_do_not_name_it(left):
    results, put = left
    excused = lambda: findings._has_or_excuses_table(results, "score", "s", "pairs")
    assert not excused()
    put("studies/s/score/contents.json", {"tables": [{"name": "accuracy"}]})
    assert excused() and findings._studies_without_scores(results, ["s", "t"], [("score", "s")], "pairs") == []
    put("studies/s/score/contents.json", {"tables": [{"name": "pairs"}]})
    assert not excused()
    assert findings._studies_without_scores(results, ["s", "t"], [("score", "s")], "pairs") == ["s"]
    put("studies/s/score/pairs.parquet", pd.DataFrame({"x": [1]}))
    assert excused()


def test_failures_of_one_kind_are_added_over_studies_and_the_unknown_is_named():
    failed = pd.DataFrame(
        [("s", "answers are refusals; x", 2, 10, "m"), ("t", "answers are refusals; x", 1, 5, "")]
        + [("s", "rows were set aside; y", 3, None, "")]
        + [("u", "no counts", None, None, "score"), ("u", "no counts", None, None, "score"), ("v", "z", None, 4, "")],
        columns=findings._COLUMNS,
    )
    refused, aside, unknown = findings._describe_failures(failed).split("; ")
    assert refused == findings.failure_in_words("answers are refusals", 3, 15)
    assert aside == findings.failure_in_words("rows were set aside", 3, None)
    assert unknown == "unknown where counts are not there (u: score, v)."
    assert findings._describe_failures(failed.iloc[:0]).startswith("Nothing was counted as failed")


# The first screen -----------------------------------------------------------------------------------------------------


def standing_rows(*rows, **same) -> pd.DataFrame:
    columns = ["model", "mode", "estimate", "ci_low", "ci_high", "n", "origin"]
    table = pd.DataFrame(rows, columns=columns).assign(n_clusters=lambda t: t["n"], level=0.95)
    return table.assign(**same)


def test_the_mode_of_most_models_is_drawn_and_zero_shot_of_equal_ones():
    few = findings.FEW
    rows = standing_rows(
        ("a", "cot", 0.5, 0.4, 0.6, few, "asked"),
        ("b", "cot", 0.5, None, None, few, "asked"),
        ("c", "cot", 0.5, 0.4, 0.6, few - 1, "asked"),
        ("a", "zero_shot", 0.7, 0.6, 0.8, few, "asked"),
        ("a", "zero_shot", 0.1, 0.0, 0.2, few, "asked"),
    )
    drawn = findings._rows_of_main_mode(rows)
    assert drawn[["model", "estimate"]].to_numpy().tolist() == [["a", 0.7]]
    more = pd.concat([rows, standing_rows(("d", "cot", 0.2, 0.1, 0.3, few, "asked"))])
    assert findings._rows_of_main_mode(more)["model"].tolist() == ["a", "d"]
    assert findings._rows_of_main_mode(rows.iloc[1:3]).empty


def test_models_stand_in_one_order_on_all_of_the_page():
    "Simulated ones last; by the mean over studies; by name where it is equal."
    one = pd.DataFrame({"model": ["x", "b", "a", "s"], "estimate": [0.9, 0.5, 0.5, 1.0], "simulated": [0, 0, 0, 1]})
    two = pd.DataFrame({"model": ["x", "s"], "estimate": [0.1, 1.0], "simulated": [0, 1]})
    assert findings._place_models([one]) == {"x": 0, "a": 1, "b": 2, "s": 3}
    assert findings._place_models([one, two.assign(estimate=[0.0, 1.0])]) == {"a": 0, "b": 1, "x": 2, "s": 3}
    assert findings._place_models([]) == {}


def test_a_model_is_beaten_where_a_corrected_pair_says_so():
    pairs = pd.DataFrame(
        [
            ("a", "b", 0.1, 0.049),
            ("c", "a", -0.1, 0.01),
            ("a", "d", 0.1, 0.05),
            ("e", "a", 0.1, 0.01),
            ("b", "f", 1, 0),
        ],
        columns=["first", "second", "estimate", "p_adjusted"],
    )
    assert findings.unseparated_models("a", [*"bcdef"], pairs) == ["d", "e", "f"]
    assert findings.unseparated_models("a", ["b"], pairs.iloc[:0]) == ["b"]


def test_a_higher_accuracy_in_another_mode_is_named_and_an_equal_one_is_not():
    row = lambda model, mode, x: (model, mode, x, x - 0.1, x + 0.1, 100, "asked")
    here = standing_rows(row("m", "cot", 0.5))
    words = lambda *rows: findings._describe_other_modes(here, standing_rows(*rows), "accuracy")
    assert words() == "" and words(row("m", "zero_shot", 0.5)) == ""
    assert words(row("n", "zero_shot", 0.5), row("o", "zero_shot", 0.4)) == " 2 more answered in other modes only."
    told = words(row("m", "zero_shot", 0.51))
    assert told.startswith(" The highest accuracy in another mode: m, zero shot, 0.51") and told.endswith(".")
    of_terms = findings._describe_other_modes(here, standing_rows(row("m", "zero_shot", 0.6)), "exact match")
    assert of_terms.startswith(" The highest exact match in another mode: ")
    nobody = findings._describe_other_modes(here.iloc[:0], standing_rows(row("n", "zero_shot", 0.2)), "accuracy")
    assert nobody.startswith(" 1 more answered in other modes only. The highest accuracy")
    assert findings._n_hidden(here, standing_rows(row("m", "x", 0.1), row("n", "x", 0.1)), 2) == 3


def test_soft_labels_are_told_by_their_median_their_range_and_how_many_are_none(left):
    results, put = left
    assert findings._describe_labels(results, "s") == ""
    top = {"q1": 0.5, "q2": 0.98, "q3": 0.99, "q4": 1.0}
    rows = [(q, p) for q, x in top.items() for p in (x, 1 - x)]
    put("studies/s/preferences/labels.parquet", pd.DataFrame(rows, columns=["question", "probability"]))
    told = findings._describe_labels(results, "s")
    assert "0.98 in the median question" in told or "0.99 in the median question" in told
    assert f"{np.median([*top.values()]):.2f} in the median question, from 0.50 to 1.00; " in told
    assert findings.counted(2, 4, "questions") in told and told.endswith("0.99 or more, which is no soft label")
    put("studies/s/preferences/labels.parquet", pd.DataFrame({"question": ["q1"] * 2, "probability": [0.6, 0.4]}))
    assert findings._describe_labels(results, "s").endswith("has a probability of 0.60 in the median question")


def test_a_bank_that_words_alone_answer_has_a_flaw():
    "One interval stands as it is; of several each is as wide as all at once need it."

    def table(*rows) -> pd.DataFrame:
        return pd.DataFrame(rows, columns=["measure", "estimate", "ci_low", "ci_high", "n", "chance"])

    clear = ("its length", 0.6, 0.5, 0.7, 100, 0.25)
    close = ("its words", 0.35, 0.26, 0.44, 1200, 0.25)  # above chance by itself
    at = ("its length", 0.4, 0.25, 0.5, 100, 0.25)
    without = ("its words", 0.3, None, None, 100, 0.25)
    none = "Words alone are not shown to answer more than chance in {}."
    alone = findings.answered_by_words({"s": table(close, without)})
    assert len(alone) == 1 and alone[0].startswith(
        "s has a flaw: words alone answer 420 of 1,200 from its words, 30 of 100 from its words (chance 0.25), so"
    )
    assert findings.answered_by_words({"t": table(at, without)}) == [none.format("t")]
    first, rest = findings.answered_by_words({"s": table(clear, close), "t": table(at, without), "u": table(close)})
    assert first.startswith("s has a flaw: words alone answer 60 of 100 from its length, 420 of 1,200 from its words (")
    assert "(chance 0.25; corrected for 4 intervals), so" in first and rest == none.format("t, u")
    assert findings.answered_by_words({}) == []


def test_what_was_asked_is_told_in_one_sentence():
    origins = lambda *pairs: pd.DataFrame(pairs, columns=["model", "origin"])
    told = findings._describe_questions_asked
    assert told([3], origins(("m", "asked"))) == "3 questions from 1 study, put to m."
    two = origins(("m", "asked"), ("m", "recorded"), ("n", "recorded"), ("s", "simulated"))
    words = (
        "5 questions from 2 studies, put to m in part, with recorded answers of m in part, n, with 7 ratings by people."
    )
    assert told([3, 2], two, n_ratings=7) == words
    five, six = (origins(*((f"m{k}", "asked") for k in range(n))) for n in (5, 6))
    assert told([1], five).endswith("put to m0, m1, m2, m3, m4.") and told([1], six).endswith("put to 6 models.")
    assert told([1], origins()) == "1 questions from 1 study, put to no model."
    assert told([1], origins(), ["s"]) == "1 questions from 1 study; unknown who answered s."
    assert told([None], origins(("m", "asked"))).startswith("An unknown number of questions, put to m")
    assert told([], origins()) == "No question."
    assert (
        told([1, None], origins(("m", "asked")))
        == f"1 questions from {findings.counted(1, 2, 'studies', 1)}, put to m."
    )


def test_whose_questions_are_synthetic_is_told_for_all_some_or_a_part():
    told = findings._questions_in_words
    assert told(["s", "t"], {"s": (3, 3), "t": (1, 1)}) == ["all questions (no number has a clinical meaning)"]
    part = f"{findings.counted(1, 4, 'questions')} of t (without clinical meaning)"
    assert told(["s", "t"], {"s": (3, 3), "t": (1, 4)}) == ["the questions of s (without clinical meaning)", part]
    assert told(["s", "t"], {"s": (0, 3), "t": (0, 0)}) == [] == told([], {})


# The answers ----------------------------------------------------------------------------------------------------------


def verdict(judge="j", **more) -> Judgment:
    given = {"item_id": "q", "study": "s", "model": "m", "mode": "cot", "judge": judge, "rubric": "r"}
    return Judgment(kind="score" if "score" in more else "label", **given | more)


def test_judges_disagree_by_labels_or_by_more_than_twenty_points():
    score = lambda judge, x: verdict(judge, score=x)
    for verdicts, word in (
        ([score("j", 1.0)], None),
        ([score("j", 1.0), score("j", 90.0)], None),
        ([score("j", 10.0), score("k", 30.0)], "agree"),
        ([score("j", 10.0), score("k", 30.5)], "disagree"),
        ([score("j", 10.0), verdict("k", status="error", error="x")], None),
        ([verdict("j", label="Correct"), verdict("k", label="Correct")], "agree"),
        ([verdict("j", label="Correct"), verdict("k", label="Incorrect")], "disagree"),
    ):
        assert items._judges_disagree(verdicts) == word, verdicts
    assert items._verdict_texts([score("j", 10.0), verdict("k", label="Correct")]) == "j: 10; k: Correct"
    assert (
        items._verdict_texts([verdict("k", status="error", error="x")]) == "k: error"
        and items._verdict_texts([]) is None
    )


def test_a_score_has_the_last_answer_of_its_kind(tmp_path):
    said = [("q1", "m", 0, "old"), ("q2", "m", 0, "b"), ("q1", "m", 0, "new"), ("q1", "m", 1, "c")]
    kept = [Response(item_id=q, study="s", model=m, mode="cot", sample=k, text=text) for q, m, k, text in said]
    stored = StoredRecords([write_records(kept, tmp_path / "r.parquet", Response)], Response)
    rows = pd.DataFrame({"item_id": ["q2", "q1", "q1", "q3"], "model": "m", "mode": "cot", "sample": [0, 1, 0, 0]})
    assert items._response_places(rows, stored).tolist() == [1, 3, 2, -1]


def test_words_of_wrong_answers_come_first_where_there_is_little_room(tmp_path):
    words = ["aaaa", "bbb", "cc", "d"]
    kept = [Response(item_id=f"q{k}", study="s", model="m", mode="cot", text=w) for k, w in enumerate(words)]
    stored = StoredRecords([write_records(kept, tmp_path / "r.parquet", Response)], Response)
    rows = pd.DataFrame({"what": ["right", "wrong", "right", "unread", "wrong"]})
    part = items._StudyPart(rows, {}, np.array([0, 1, 2, 3, -1]), stored, [[]] * 5)
    for room, rows_kept in (
        (None, "0123"),
        (10, "0123"),
        (9, "013"),
        (8, "013"),
        (7, "13"),
        (4, "13"),
        (3, "1"),
        (2, ""),
    ):
        texts, n_out = items._answer_texts([part], room)
        assert sorted(texts) == [*rows_kept] and n_out == 4 - len(rows_kept), room
        assert all(texts[k]["text"] == words[int(k)] for k in texts)
    both, _ = items._answer_texts([part, part], None)
    assert list(both) == ["0", "1", "2", "3", "5", "6", "7", "8"], "rows go on from study to study"


def test_ratings_of_an_item_are_told_by_target_people_apart_from_models(tmp_path):
    rating = lambda rater, target, **more: Rating(
        **{"item_id": "q", "study": "s", "rater": rater, "target": target, "source": "x"} | more
    )
    kept = [rating("a", "A", value=1.0), rating("b", "A", value=2.0), rating("a", "A", value=4.0, session="2")]
    kept += [rating("m", "A", value=9.0, variant={"annotator": "model"}), rating("c", "A", value=0.0, item_id="other")]
    kept += [rating(r, "B", label=x) for r, x in zip("abc", ("yes", "no", "yes"))]
    kept += [rating("s", "A", value=3.0, origin="simulated")]
    write_records(kept, tmp_path / "text" / "s" / "prepare" / "ratings.parquet", Rating)
    found = items._rating_summaries(tmp_path, "s", {"q"})
    assert found[["item_id", "target", "who", "value", "n"]].to_numpy().tolist() == [
        ["q", "A", "models", "mean 9.0", 1],
        ["q", "A", "raters", "mean 2.3", 2],
        ["q", "A", "simulated raters", "mean 3.0", 1],
        ["q", "B", "raters", "yes 2, no 1", 3],
    ]
    assert items._rating_summaries(tmp_path, "s", set()).empty and items._rating_summaries(tmp_path, "t", {"q"}).empty


def test_scores_of_other_models_than_the_run_s_are_refused():
    items._check_selection({"a"}, set(), "s")
    items._check_selection({"a"}, {"a"}, "s")
    for scored, answered, got in (
        ({"a", "c", "b"}, {"a"}, r"got scores of b, c, not of the run; run `dvc repro`"),
        ({"a"}, {"a", "b"}, r"got none of b; run `dvc repro`, or `dvc repro score@s`"),
        ({"a"}, {"b"}, r"got scores of a, not of the run; none of b; run"),
    ):
        with pytest.raises(ValueError, match=got):
            items._check_selection(scored, answered, "s")


def test_columns_go_into_the_page_and_come_out_again():
    rows = pd.DataFrame({"a": ["x", None, "x", "y"], "n": [1.0, None, 2.5, 1.0], "k": [1, 2, 3, 3]})
    packed = items.columnar(rows)
    assert packed == {
        "n": 4,
        "columns": {
            "a": {"values": ["x", "y"], "codes": [0, -1, 0, 1]},
            "n": [1, None, 2.5, 1],
            "k": [1, 2, 3, 3],
        },
    }
    assert [type(x) for x in packed["columns"]["n"]] == [int, type(None), float, int]


# Tables ---------------------------------------------------------------------------------------------------------------


def test_intervals_are_folded_under_their_level_and_what_has_none_says_why():
    rows = pd.DataFrame({"model": [*"abcd"], "estimate": [0.5, None, None, 0.25], "ci_low": [0.25, None, None, None]})
    rows = rows.assign(ci_high=[0.75, None, None, 0.5], n=[9, 9, 9, 9], n_unread=[0, 9, 9, None])
    folded = tables.with_interval(rows.assign(n_truncated=[0, 5, 4, None]))
    heading = "estimate [95% interval]"
    cut, unread = folded[heading][1:3]
    assert folded[heading].tolist()[::3] == ["0.500 [0.250, 0.750]", "0.250"] and cut != unread
    assert not {"ci_low", "ci_high", "estimate"} & set(folded)
    assert set(tables.with_interval(rows)[heading][1:3]) == {unread}
    assert tables.with_interval(rows.drop(columns="n_unread"))[heading][1] == tables.number(None)
    one, two = rows.assign(level=0.9), rows.assign(level=[0.9, 0.95, 0.95, None])
    assert "estimate [90% interval]" in tables.with_interval(one) and "level" not in tables.with_interval(one)
    assert "estimate [interval]" in tables.with_interval(two) and "level" in tables.with_interval(two)
    words = tables.with_interval(rows.assign(level="case"))
    assert heading in words and words["level"].tolist() == ["case"] * 4
    assert tables.readable(rows).equals(tables.with_interval(rows))
    assert tables.readable(part := rows.drop(columns="ci_low")) is part
    with pytest.raises(ValueError, match=r"without .'ci_low'.; compute the interval first"):
        tables.with_interval(part)


def test_what_a_notebook_says_before_a_table_is_its_prose(tmp_path):
    cells = [
        ("markdown", "# Title\n\nAll of it."),
        ("code", "s.table('one', x, 'One')"),
        ("markdown", "## Second\n\nA [link](x.md), **bold**, `code`, $p \\le 0.05 \\times k$ and $$\\text{n}_{i}$$."),
        ("code", 's.table(\n    "two", x, "Two")\ns.table("three", y, "Three")'),
        ("markdown", "More of it."),
        ("code", "s.table('four', x, 'Four'); t.stable('no', x)"),
        ("markdown", "Look at *all* of four.\n\n### Third"),
        ("code", "s.table('five', x, 'Five')"),
    ]
    nb = {"cells": [{"cell_type": kind, "source": [source]} for kind, source in cells]}
    (tmp_path / "n.ipynb").write_text(json.dumps(nb), encoding="utf-8")
    prose = tables.stage_prose(tmp_path / "n.ipynb")
    second = "A link, bold, code, p \N{LESS-THAN OR EQUAL TO} 0.05 \N{MULTIPLICATION SIGN} k and n_i."
    expected = {"one": ("Title", "All of it."), "two": ("Second", second), "three": ("Second", second)}
    assert prose == expected | {"four": ("Second", "More of it.\n\nLook at all of four."), "five": ("Third", "")}


def test_a_table_is_doubted_for_few_items_uneven_ones_and_many_tests():
    few, small = tables.FEW, tables.SMALL
    rows = pd.DataFrame({"model": [*"abc"], "estimate": 0.5, "n": [small, small, few - 1]})
    of = lambda table: [sentence.split(":")[0] for sentence in tables.doubts(table)]
    uneven = f"the models answered different items (n from {few - 1} to {small})"
    assert of(rows) == [f"1 of 3 rows rest on fewer than {few} items", uneven]
    assert of(rows.assign(n=[small, small - 1, few])) == [
        f"2 of 3 rows rest on fewer than {small} items",
        f"the models answered different items (n from {few} to {small})",
    ]
    assert of(rows.assign(n=small)) == [] == of(rows.assign(n=[1, small, small], estimate=[None, 0.5, 0.5]))
    clustered = rows.assign(n=small, n_clusters=[small, few - 1, None])
    assert of(clustered) == [f"1 of 3 rows rest on fewer than {few} independent cases"]
    assert of(rows.assign(n=[None, small, small])) == ["1 of 3 rows do not say on how many items they rest"]
    by_item = rows.assign(question="q", n=few - 1)
    assert of(by_item)[0].endswith("raters") and of(by_item.assign(judge="j"))[0].endswith("items")
    assert of(rows.assign(mode=["x", "x", "y"]))[1:] == [] != of(rows.assign(mode="x"))[1:]
    assert of(rows.drop(columns="model"))[1:] == []
    tests = pd.DataFrame({"p": [0.1, 0.2], "p_holm": [0.2, 0.2], "p_bh": 0.2})
    assert tables.doubts(tests)[0].startswith("2 tests: ") and tables.doubts(tests)[0].endswith("use p_holm or p_bh")
    assert tables.doubts(tests[["p"]])[0].endswith("these p-values are not adjusted for it")
    assert tables.doubts(tests.iloc[:1]) == []


# Who was asked, and what came of it -----------------------------------------------------------------------------------


def test_who_answered_and_who_rated_stands_in_a_row_of_each_study(left):
    results, put = left
    counts = {"n_items": 9, "n_ratings": 20, "n_simulated": 5, "n_by_models": 3, "n_set_aside": 2}
    put("metrics/s/prepare.json", counts)
    rows = [
        ("m", "asked", "q1"),
        ("m", "asked", "q1"),
        ("m", "asked", "q2"),
        ("m", None, "q3"),
        ("r", "recorded", "q1"),
    ]
    put("studies/s/score/scores.parquet", pd.DataFrame(rows, columns=["model", "origin", "item_id"]))
    one, two = findings.asked(results, ["s", "t"]).to_dict("records")
    assert one == {
        "study": "s",
        "items": 9,
        "asked of": "m (2)",
        "recorded answers of": "r (1)",
        "simulated answers of": "nobody",
        "answers of unknown origin of": "m (1)",
        "ratings by people": 12,
        "ratings by models": 3,
        "simulated ratings": 5,
        "rows set aside": 2,
    }
    assert (
        two["asked of"] == "nobody" and pd.isna([two["items"], two["ratings by people"], two["rows set aside"]]).all()
    )
    plain = pd.DataFrame({"model": ["m"], "item_id": ["q"]})
    assert (
        findings.where_from(plain).to_numpy().tolist() == [["m", "asked", 1]] and findings.where_from(plain[:0]).empty
    )
    put("metrics/t/ratings.json", {"n_ratings": 4, "n_simulated": 4})
    assert findings._read_rating_metrics(results, "t")["n_ratings"] == 4
    assert findings._read_rating_metrics(results, "s")["n_ratings"] == 20
    some = findings.counted(5, 20, "ratings")
    assert findings._ratings_in_words(results, ["s", "t", "u"]) == [f"{some} of s", "the ratings of t"]


def test_models_are_set_against_lines_the_most_accurate_first(left):
    results, put = left
    rows = [
        ("all", "a", 0.5, 0.3, 0.7),
        ("topic", "z", 0.9, 0.8, 1.0),
        ("all", "b", 0.8, 0.7, 0.9),
        ("all", "c", None, None, None),
    ]
    table = pd.DataFrame(rows, columns=["by", "model", "estimate", "ci_low", "ci_high"])
    table = table.assign(mode="zero_shot", answered_by="plain", n_votes=1, n=[10, 1, 20, 0], origin="asked")
    put("studies/s/score/accuracy.parquet", table)
    put("studies/s/score/contents.json", {"lines": {"chance_level": 0.25, "pass": 0.6}})
    put("studies/t/score/accuracy.parquet", table.iloc[:1])
    found = findings.against_lines(results, ["s", "u", "t"], [("score", "s"), ("ledger", "u")])
    assert found[["study", "model"]].to_numpy().tolist() == [["s", "b"], ["s", "a"], ["s", "c"], ["t", "a"]]
    assert found["lines"].tolist() == ["chance level 0.25, pass 0.60"] * 3 + ["–"]
    above = "above chance_level and pass"
    assert found["reading"].tolist()[::2] == [above, "no answer counts"] and "pass" in found["reading"][1]
    assert found["reading"][3] == "no reference value" and "printed" not in found and "n" in found
    assert findings.against_lines(results, ["u"], []).empty


def test_judges_that_share_a_family_are_named_with_whom_they_judge(left):
    results, put = left
    guard = pd.DataFrame({"judge": ["j", "k"], "model": ["m", "n"], "family": ["f", "g"]})
    put("studies/s/judge/guard.parquet", guard)
    put("studies/s/approach/guard.parquet", guard.iloc[:1])
    parts = [("judge", "s"), ("approach", "s")]
    told = findings.went_wrong(results, ["s"], parts)
    assert "s: a judge shares a family with a model that it judges (j judging m, k judging n)." in told
    assert "s: a model answers questions that one of its family wrote (j writing for m)." in told
    assert not [x for x in findings.went_wrong(results, ["s"], parts[1:]) if "judging" in x]
    assert findings.first_screen(results, "judge", "s") == {}
    put("studies/s/judge/contents.json", {"first": None})
    assert findings.first_screen(results, "judge", "s") == {}
    put("studies/s/judge/contents.json", {"first": {"measure": "x", "said": "y"}})
    assert findings.first_screen(results, "judge", "s") == {"measure": "x", "said": "y"}


def test_declared_numbers_come_first_then_accuracies_then_ratings(left):
    results, put = left
    columns = ["measure", "model", "mode", "n", "n_clusters", "estimate", "ci_low", "ci_high", "level", "origin"]
    rows = [
        ("x", "a", "", 50, 50, 0.2, 0.1, 0.3, 0.95, "asked"),
        ("x", "new", "", 50, 50, 0.9, 0.8, 1.0, 0.95, "asked"),
    ]
    rows += [
        ("x", "b", "", 50, 50, 0.1, None, None, 0.95, "asked"),
        ("y", "a", "", 50, 50, 0.3, 0.2, 0.4, 0.95, "asked"),
    ]
    put("studies/s/judge/headline.parquet", pd.DataFrame(rows, columns=columns))
    put(
        "studies/s/judge/contents.json",
        {"first": {"measure": "x", "said": "Said."}, "lines": {"p": 0.5}, "notes": ["Note."]},
    )
    front = findings._declared_front(results, "judge", "s", {"b": 0, "a": 1})
    assert (front.study, front.measure, front.said, front.lines) == ("s", "x", "Said.", {"p": 0.5})
    assert front.rows["model"].tolist() == ["a", "new"] and front.rows["place"].tolist() == [1, 2]
    assert findings._declared_front(results, "score", "s", {}) is None
    standings = pd.DataFrame(columns=[*columns, "study"])
    shown = findings.fronts(results, standings, ["s", "none"], [("judge", "s"), ("score", "none")])
    assert [(f.study, f.measure, f.notes) for f in shown] == [("s", "x", ("Note.",)), ("none", "", ())]
    assert shown[1].said == "No accuracy and no main number of this study has an interval."
    put("metrics/r/prepare.json", {"n_items": 4, "n_ratings": 8, "n_raters": 2})
    put("metrics/r/preferences.json", {"n_questions": 3})
    agreement = pd.DataFrame([("alpha", "", "", 4, 4, 0.5, 0.25, 0.75, 0.95, "asked")], columns=columns)
    put("studies/r/agreement/headline.parquet", pd.concat([agreement.assign(estimate=None, measure="none"), agreement]))
    rated = findings._rated_front(results, "r", ["agreement", "preferences"])
    labels = findings.counted(3, 4, "questions")
    assert rated.measure == "alpha" and rated.rows["estimate"].tolist() == [0.5]
    assert rated.said.startswith("8 ratings by 2 people, of 4 questions. alpha: 0.50")
    assert rated.said.endswith(f". Soft labels of {labels}.")
    alone = findings._rated_front(results, "r", [])
    assert (alone.measure, alone.said, len(alone.rows)) == ("", "8 ratings by 2 people, of 4 questions.", 0)
    assert findings._rated_front(results, "s", ["agreement"]) is None


def test_an_accuracy_of_few_items_does_not_lead_the_main_numbers(tmp_path):
    rows = [("a", "majority", 2, 1.0), ("b", "zero_shot", 24, 0.5), ("a", "zero_shot", 24, 0.75)]
    main = pd.DataFrame(rows, columns=["model", "mode", "n", "estimate"]).assign(measure="accuracy")
    (tmp_path / "studies" / "s" / "score").mkdir(parents=True)
    main.to_parquet(tmp_path / "studies" / "s" / "score" / "headline.parquet")
    assert page.headline(tmp_path, [("score", "s")])["estimate"].tolist() == [0.75, 0.5, 1.0]


def test_simulated_raters_are_no_examinees(tmp_path):
    origins = pd.DataFrame({"model": ["simulated raters", "sim-a", "m"], "origin": ["simulated", "simulated", "asked"]})
    text = findings._describe_simulated(tmp_path, [], {}, origins, pd.DataFrame(columns=["covered"]))
    assert "1 simulated examinee" in text, text


def test_declared_truths_of_all_stages_stand_in_one_table(left):
    results, put = left
    assert findings.truths(results, [("score", "s")]).empty
    put("studies/s/score/truth.parquet", pd.DataFrame({"model": ["a"], "truth": [0.5]}, index=[7]))
    put("studies/t/judge/truth.parquet", pd.DataFrame({"model": ["b", "c"], "truth": [0.1, 0.2], "covered": "yes"}))
    put("studies/u/judge/truth.parquet", pd.DataFrame({"model": ["d"], "truth": [0.1]}))
    found = findings.truths(results, [("score", "s"), ("score", "t"), ("judge", "t")])
    assert found.columns.tolist() == ["study", "stage", "model", "truth", "covered"] and found.index.tolist() == [
        0,
        1,
        2,
    ]
    assert found[["study", "stage", "model"]].to_numpy().tolist() == [
        ["s", "score", "a"],
        ["t", "judge", "b"],
        ["t", "judge", "c"],
    ]


def test_a_single_question_without_a_soft_label_is_told(left):
    results, put = left
    top = {"q1": 0.5, "q2": 0.989, "q3": 0.99}
    rows = [(q, p) for q, x in top.items() for p in (1 - x, x)]
    put("studies/s/preferences/labels.parquet", pd.DataFrame(rows, columns=["question", "probability"]))
    told = "; 1 of 3 questions have 0.99 or more, which is no soft label"
    assert findings._describe_labels(results, "s").endswith(f", from 0.50 to 0.99{told}")
    put("studies/s/preferences/labels.parquet", pd.DataFrame(rows[:4], columns=["question", "probability"]))
    assert findings._describe_labels(results, "s").endswith("from 0.50 to 0.99")


def test_declared_rows_of_one_model_stand_with_the_highest_first(left):
    results, put = left
    rows = pd.DataFrame({"measure": "x", "model": ["a", "b", "a"], "estimate": [0.1, 0.2, 0.3], "ci_low": 0.0})
    put("studies/s/judge/headline.parquet", rows)
    put("studies/s/judge/contents.json", {"first": {"measure": "x", "said": "Said."}, "lines": {}})
    front = findings._declared_front(results, "judge", "s", {"b": 0, "a": 1})
    assert front.rows["estimate"].tolist() == [0.2, 0.3, 0.1] and front.rows.index.tolist() == [0, 1, 2]
    assert front.rows["truth"].isna().all()
    (results / "studies/s/judge/headline.parquet").unlink()
    absent = findings._declared_front(results, "judge", "s", {})
    assert (absent.measure, absent.said) == ("", "The main numbers of the stage judge are not here.")


def best(*rows, pairs=(), **more) -> str:
    pairs = pd.DataFrame(list(pairs), columns=["first", "second", "estimate", "p_adjusted"])
    return findings.best_in_words(standing_rows(*rows), {"chance": 0.25}, pairs=pairs, **more)


def test_the_best_model_is_named_with_those_that_are_not_shown_to_be_worse():
    wide = lambda model, x, origin="asked": (model, "cot", x, x - 0.2, x + 0.2, 50, origin)
    row = lambda x: {"estimate": x, "ci_low": x - 0.2, "ci_high": x + 0.2, "level": 0.95}
    words = lambda xs, k, hidden=0: tables.estimate_in_words(
        tables.for_all(pd.DataFrame([row(x) for x in xs]), hidden).iloc[k], {"chance": 0.25}
    )
    a, b, c = wide("a", 0.7), wide("b", 0.6), wide("c", 0.5)
    beaten = [("a", "b", 0.1, 0.01), ("c", "a", -0.2, 0.01)]
    interval = words([0.7, 0.6, 0.5], 0)
    assert (
        best(a, b, c, pairs=beaten) == f"a is the most accurate of 3 models, {interval} for all at once: above chance."
    )
    told = f"a has the highest accuracy of 3 models, {interval} for all at once: above chance"
    assert best(a, b, c, pairs=beaten[:1]) == f"{told}; not shown to be better than c."
    assert best(a, b, c) == f"{told}; not shown to be better than b and c."
    assert best(c, a, b).startswith(told), "in whatever order"
    many = best(a, *(wide(f"m{k}", 0.1) for k in range(4)))
    assert many.endswith("; not shown to be better than 4 others.")
    exact = best(a, b, c, pairs=beaten, measure="exact match")
    assert exact == f"a has the highest exact match of 3 models, {interval} for all at once: above chance."
    tied = best(a, wide("z", 0.7), b, pairs=beaten)
    assert tied.startswith("a and z have the highest accuracy of 3 models, ") and "not shown to be better" not in tied
    assert best(a, b, wide("s", 0.9, "simulated"), pairs=beaten).startswith("a is the most accurate of 2 models, ")
    one_more = best(a, b, pairs=beaten, unranked=1)
    assert one_more.startswith(f"a has the highest accuracy of 2 models, {words([0.7, 0.6], 0, 1)} for all at once: ")
    assert one_more.endswith(". 1 more has no interval.") and best(a, b, unranked=2).endswith(
        ". 2 more have no interval."
    )


def test_one_model_is_told_with_the_questions_that_it_answered():
    a = ("a", "few_shot", 0.7, 0.5, 0.9, 50, "asked")
    assert best(a) == "Accuracy of a on 50 questions: 0.70 [0.50, 0.90], above chance."
    row = pd.DataFrame({"estimate": [0.7], "ci_low": 0.5, "ci_high": 0.9, "level": 0.95})
    interval = tables.estimate_in_words(tables.for_all(row, 1).iloc[0], {"chance": 0.25})
    other = standing_rows(("b", "cot", 0.6, 0.4, 0.8, 50, "asked"))
    told = f"Accuracy of a on 50 questions (few shot): {interval} for all 2 models at once, above chance."
    assert best(a, elsewhere=other) == f"{told} 1 more answered in other modes only."
    simulated = ("s", "cot", 0.7, 0.5, 0.9, 50, "simulated")
    assert best(simulated) == "No model that was asked has an interval in this mode."
    assert (
        best(simulated, unranked=1) == "No model that was asked has an interval in this mode. 1 more has no interval."
    )


def test_a_scored_study_is_drawn_by_its_main_mode_with_its_truths_and_pairs(left):
    results, put = left
    few = findings.FEW
    rows = standing_rows(
        ("a", "cot of 3", 0.7, 0.5, 0.9, 50, "asked"),
        ("b", "cot of 3", 0.6, 0.4, 0.8, 50, "asked"),
        ("sim", "cot of 3", 0.9, 0.7, 1.0, 50, "simulated"),
        ("c", "direct", 0.5, 0.3, 0.7, 50, "asked"),
        ("d", "direct", 0.5, 0.3, 0.7, few - 1, "asked"),
    )
    put("studies/s/score/contents.json", {"lines": {"chance": 0.25}})
    truth = pd.DataFrame({"model": ["sim", "sim"], "quantity": ["accuracy", "other"], "truth": [0.8, 0.1]})
    put("studies/s/score/truth.parquet", truth)
    put(
        "studies/s/score/scores.parquet",
        pd.DataFrame({"model": ["a", "lost"], "origin": "asked", "item_id": ["q", "q"]}),
    )
    pairs = [("a", "b", 0.1, 0.01, "cot", "plain"), ("a", "b", 0.1, 0.9, "direct", "plain")]
    columns = ["first", "second", "estimate", "p_adjusted", "mode", "answered_by"]
    put("studies/s/score/pairs.parquet", pd.DataFrame(pairs, columns=columns))
    drawn = findings._rows_of_main_mode(rows)
    front = findings._scored_front(results, "s", rows, drawn, {"b": 0, "a": 1, "sim": 2})
    assert (front.study, front.measure, front.lines) == ("s", "accuracy, cot of 3", {"chance": 0.25})
    assert (
        front.left_out == ("d",) and front.rows["model"].tolist() == ["b", "a"] and front.rows.index.tolist() == [0, 1]
    )
    assert front.n_at_once == 5, "two that are drawn, one of another mode, and two without an interval"
    expected = tables.for_all(drawn[drawn["origin"] == "asked"], 3)
    assert front.rows["ci_low"].tolist() == expected["ci_low"].tolist()[::-1] and front.rows["truth"].isna().all()
    assert (
        front.said.startswith("a has the highest accuracy of 2 models (cot of 3), ") and "not shown" not in front.said
    )
    assert front.said.endswith(" 1 more answered in other modes only. 2 more have no interval.")
    put("studies/s/score/headline.parquet", pd.DataFrame({"measure": ["exact match"]}))
    named = findings._scored_front(results, "s", rows, drawn, {})
    assert named.measure == "exact match, cot of 3" and "has the highest exact match" in named.said
    simulated = drawn[drawn["origin"] == "simulated"]
    alone = findings._scored_front(results, "s", simulated, simulated, {"sim": 0})
    assert alone.rows["truth"].tolist() == [0.8] and alone.rows["ci_low"].tolist() == [0.7] and alone.n_at_once == 1
    nothing = findings._scored_front(results, "s", rows[4:], drawn[:0], {})
    assert nothing.measure == "exact match" and nothing.left_out == ("d",) and len(nothing.rows) == 0


def test_raters_are_flagged_by_how_they_rate_and_by_how_they_worked(left):
    results, put = left
    assert findings._describe_flags(results, "s", ["agreement", "panel"]) == []
    put("studies/s/agreement/flags.parquet", pd.DataFrame({"rater": ["a", "b", "c"], "flag": ["odd", "", ""]}))
    put("studies/s/panel/flags.parquet", pd.DataFrame({"rater": ["a", "d"], "flag": ["", "late"]}))
    put("studies/s/prepare/review.parquet", pd.DataFrame({"rater": ["b"], "reasons": ["fast"]}))
    told = findings._describe_flags(results, "s", ["agreement"])
    assert told == ["Flagged, and not removed: 2 of 3 raters (a: odd; b: fast)"]
    both = findings._describe_flags(results, "s", ["agreement", "panel", "prepare"])
    assert both == ["Flagged, and not removed: 3 of 3 raters (a: odd; d: late; b: fast)"]
    assert findings._describe_flags(results, "s", []) == ["Flagged, and not removed: 1 rater (b: fast)"]


def test_what_needs_caution_is_few_cases_differences_and_who_is_not_drawn():
    rows = pd.DataFrame({"n": [50, 50, 29, np.nan, 5], "n_clusters": [30, 29, np.nan, np.nan, 5]})
    rows = rows.assign(origin=["asked", "asked", "recorded", "asked", "simulated"])
    none = pd.Series(dtype=float)
    end = "Nothing here is clinical advice."
    words = findings._describe_doubts
    few = "2 of 4 numbers drawn rest on fewer than 30 independent cases, 1 on an unknown number."
    assert words(rows, [], none) == f"{few} {end}" and words(rows[:1], [], none) == end
    between = "Between models, 1 of 2 comparisons show a difference (adjusted p < 0.05)"
    still = "; where none is shown, models may still differ."
    assert words(rows[:1], [], pd.Series([0.01, 0.5])) == f"{between}{still} {end}"
    unknown = words(rows[:1], ["a", "b"], pd.Series([0.01, 0.5]), ["s", "t"])
    assert unknown == f"{between}, unknown of s, t{still} Not drawn, without an interval or 10 answers: a, b. {end}"


def test_what_every_reader_should_know_is_gathered_from_all_studies(left):
    results, put = left
    put("metrics/s/prepare.json", {"n_items": 10, "n_ratings": 9, "n_simulated": 2, "n_by_models": 3, "n_set_aside": 0})
    put("metrics/r/ratings.json", {"n_ratings": 5, "n_simulated": 5})
    scores = pd.DataFrame({"model": ["a", "b"], "origin": ["asked", "simulated"], "item_id": ["q1", "q1"]})
    put("studies/s/score/scores.parquet", scores)
    pairs = pd.DataFrame({"p_adjusted": [0.01, 0.5, 0.01], "origin": ["asked", "asked", "simulated"]})
    put("studies/s/score/pairs.parquet", pairs)
    for table in ("accuracy", "counts"):
        put(f"studies/s/score/{table}.parquet", pd.DataFrame({"by": [], "n": []}))
    rows = pd.DataFrame({"model": ["a", "b"], "n": [9, 5], "n_clusters": [9, 5], "origin": ["asked", "simulated"]})
    shown = [
        findings.Front("s", "", "", rows[:1], left_out=("x", "y")),
        findings.Front("r", "", "", rows[1:], left_out=("x",)),
    ]
    parts = [("prepare", "s"), ("score", "s"), ("ratings", "r")]
    truth = pd.DataFrame({"covered": ["yes", "no"]})
    told = findings.before_reading(results, ["s"], {"s": (10, 10)}, shown, truth, parts)
    assert told["What was asked?"] == "10 questions from 1 study, put to a, with 4 ratings by people."
    covered = tables.covered_in_words(truth["covered"])
    assert told["What is simulated?"] == (
        "All questions (no number has a clinical meaning); 1 simulated examinee; 2 of 9 ratings of s; "
        f"the ratings of r. Of simulated quantities, {covered}."
    )
    assert told["What needs caution?"] == (
        "1 of 1 numbers drawn rest on fewer than 30 independent cases. Between models, 1 of 2 comparisons show a "
        "difference (adjusted p < 0.05); where none is shown, models may still differ. Not drawn, without an interval "
        "or 10 answers: x, y. Nothing here is clinical advice."
    )
