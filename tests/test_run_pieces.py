"""The parts of commands that need no run: what they count, choose, refuse and say, by tables."""

import contextlib
import hashlib
import io
import json
import os
import signal
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import nbformat
import numpy as np
import pandas as pd
import pytest

from mhbench.errors import refuse  # noqa: F401
from mhbench.records.database import stage_folder
from mhbench.records.schema import Item, Rating, Response
from mhbench.report import page
from mhbench.run import asking, cli, execute, graph, process
from mhbench.run.cli import main
from mhbench.tools import aggregates, compare, eee, export, fetch, replicate, sweep


def item(name: str, **more) -> Item:
    given = {"study": "s", "task": "multiple_choice", "question": f"What about {name}?", "options": ["a", "b"]}
    return Item(**given | {"item_id": name, "key": ["A"], "source": f"{name}.csv:2"} | more)


# Graph and order ------------------------------------------------------------------------------------------------------

NODES = {
    n.name: n
    for n in (
        graph.Node("prepare", "studies", False, (), ("study",)),
        graph.Node("generate", "studies", True, ("prepare",), ("study", "model")),
        graph.Node("judge", "judge", False, ("generate",), ("study",)),
        graph.Node("inputs", None, False, (), ()),
        graph.Node("report", None, False, ("judge", "prepare"), ("run",)),
    )
}
RUN = {"studies": ["a", "b"], "models": ["m", "n"], "judge": ["b"]}


def test_jobs_are_every_stage_study_and_model_in_order(monkeypatch):
    order = [("prepare", s, None) for s in "ab"] + [("generate", s, m) for s in "ab" for m in "mn"]
    order += [("judge", "b", None), ("report", None, None)]
    assert [(node.name, *of) for node, *of in graph.jobs(RUN, NODES)] == order
    assert graph.runs(RUN, NODES) == [("prepare", "a"), ("prepare", "b"), ("judge", "b")]
    assert graph.selective(NODES) == ["judge"]
    assert graph.before(NODES, "report") == ["prepare", "generate", "judge"] and graph.before(NODES, "prepare") == []
    monkeypatch.setattr(process, "graph", lambda: NODES)
    assert process.position(RUN, "generate", "b", "m") == (5, 8) and process.position(RUN, "report") == (8, 8)
    assert process.position(RUN, "judge", "a") == (0, 8)


# Sweep ----------------------------------------------------------------------------------------------------------------


def test_a_grid_is_every_combination_and_shows_the_numbers_that_move(tmp_path, monkeypatch, capsys, root):
    assert sweep.grid(["a=1,2", "b.c=x,y"]) == [(f"a={k}", f"b.c={x}") for k in "12" for x in "xy"]
    for wrong in ("a", "a=", "=1"):
        with pytest.raises(ValueError, match="an axis must be NAME=V1,V2; got"):
            sweep.grid(["a=1", wrong])
    row = {"study": "z", "stage": "score", "measure": "accuracy", "model": "m", "mode": None}
    other = row | {"study": "a", "measure": "kappa"}
    rows = [row | {"point": p, "estimate": x} for p, x in (("p=1", 0.5), ("p=2", 0.75))]
    rows += [other | {"point": p, "estimate": x} for p, x in (("p=1", 0.1), ("p=2", 0.2))]
    rows += [row | {"measure": "same", "point": p, "estimate": 0.3} for p in ("p=1", "p=2")]
    found = sweep.moved(pd.DataFrame(rows))
    assert found.columns.tolist() == ["p=1", "p=2"] and found.to_numpy().tolist() == [[0.5, 0.75], [0.1, 0.2]]
    assert found.index.get_level_values("study").tolist() == ["z", "a"], "in the order of the run"
    points = {p: pd.DataFrame([r for r in rows if r["point"] == p]) for p in ("p=1", "p=2")} | {
        "p=3": None,
        "p=4": None,
    }
    monkeypatch.setattr(sweep, "sweep", lambda axes, targets: points.items())
    monkeypatch.setattr(sweep, "root", lambda: tmp_path)
    assert main(["sweep", "p=1,2,3,4"]) == 1
    told = capsys.readouterr()
    assert "accuracy" in told.out and "same" not in told.out
    assert "estimates alone: results/sweep.csv has n and the interval of every main number" in told.out
    assert "2 points failed: p=3; p=4; the same command runs them again" in told.err
    assert pd.read_csv(tmp_path / "results" / "sweep.csv").columns[0] == "study"
    monkeypatch.setattr(sweep, "sweep", lambda axes, targets: {"p=1": None}.items())
    assert main(["sweep", "p=1"]) == 1 and capsys.readouterr().out == ""


# Compare --------------------------------------------------------------------------------------------------------------


def scores(study: str, sets: list, correct: list[float], model: str = "m") -> pd.DataFrame:
    n = len(correct)
    of = {"study": study, "set": sets, "item_id": [f"q{k}" for k in range(n)], "cluster": [f"c{k}" for k in range(n)]}
    of |= {"model": model, "mode": "zero_shot", "answered_by": "plain", "n_votes": 1, "correct": correct}
    return pd.DataFrame(of | {"status": "ok", "how": "text", "read": True})


def test_paired_accuracies_are_over_all_items_and_over_each_set_where_there_are_several():
    before = pd.concat([scores("one", ["x"] * 8, [1, 1, 0, 0, 1, 0, 1, 0]), scores("two", [*"aaaabbbb"], [1, 0] * 4)])
    after = pd.concat(
        [scores("one", ["x"] * 8, [1, 0, 0, 1, 1, 1, 1, 0]), scores("two", [*"aaaabbbb"], [1] * 4 + [0] * 4)]
    )
    found = compare.paired_accuracies(before, after).set_index(["study", "set"])
    assert set(found.index) == {("one", "all"), ("two", "all"), ("two", "a"), ("two", "b")}
    assert found.loc[("one", "all"), ["n", "first", "second", "estimate", "n_changed"]].tolist() == [
        8,
        0.5,
        0.625,
        0.125,
        3,
    ]
    assert found.loc[("two", "a"), ["n", "first", "second", "n_changed"]].tolist() == [4, 0.5, 1.0, 2]
    assert found.loc[("two", "b"), ["n", "first", "second", "n_changed"]].tolist() == [4, 0.5, 0.0, 2]
    assert found.loc[("two", "all"), "estimate"] == 0
    assert found.loc[("one", "all"), "ci_low"] < 0.125 < found.loc[("one", "all"), "ci_high"]
    fewer = compare.paired_accuracies(before, after[after["item_id"] != "q0"]).set_index(["study", "set"])
    assert fewer.loc[("one", "all"), "n"] == 7, "the items that both have"
    assert len(compare.paired_accuracies(before, after[:0])) == 0


def main_rows(*rows: tuple) -> pd.DataFrame:
    columns = ["study", "stage", "measure", "model", "mode", "n", "estimate", "origin"]
    return pd.DataFrame([(*r, "asked")[:8] for r in rows], columns=columns)


def test_main_numbers_of_two_runs_stand_side_by_side(tmp_path):
    first = main_rows(
        ("one", "score", "accuracy", "m", "zero_shot", 8, 0.5),
        ("one", "judge", "mean", "m", None, 5, 1.0),
        ("one", "judge", "median", "m", None, 5, 2.0),
    )
    second = main_rows(
        ("one", "score", "accuracy", "m", "zero_shot", 8, 0.625),
        ("one", "judge", "mean", "m", None, 5, 1.5),
        ("one", "judge", "median", "m", None, 5, 2.0),
        ("two", "score", "accuracy", "m", "zero_shot", 4, 0.1),
    )
    runs = [
        compare.Results(name, table, scores("one", [None] * 8, x))
        for name, table, x in (("a", first, [1, 1, 0, 0, 1, 0, 1, 0]), ("b", second, [1, 0, 0, 1, 1, 1, 1, 0]))
    ]
    paired = compare.paired_accuracies(runs[0].scores, runs[1].scores)
    found = compare.main_numbers(*runs, paired).sort_values(["study", "first"])
    assert found["first"].tolist()[:3] == [0.5, 1.0, 2.0] and found["estimate"].tolist()[:3] == [0.125, 0.5, 0.0]
    assert found["estimate"].isna().sum() == 1, "a number that one run lacks"
    assert found["ci_low"].notna().tolist() == [True, False, False, False], "where both scored the same items"
    wrong = second.assign(estimate=second["estimate"].where(second["stage"] != "score", 0.75))
    other = compare.main_numbers(runs[0], runs[1]._replace(main=wrong), paired)
    assert other["ci_low"].isna().all(), "a difference that is not that of the items has no interval"
    fewer = compare.main_numbers(runs[0], runs[1]._replace(main=second.assign(n=7)), paired)
    assert fewer["ci_low"].isna().all()


def test_models_that_are_not_known_to_be_the_same_are_named():
    known = {
        ("s", "same"): ("v1", "d1"),
        ("s", "other"): ("v1", "d1"),
        ("s", "first"): ("v1", "d1"),
        ("s", "none"): ("not known", "d1"),
    }
    again = {
        ("s", "same"): ("v1", "not known"),
        ("s", "other"): ("v2", "d2"),
        ("s", "second"): ("v3", "d2"),
        ("s", "none"): ("not known", "d1"),
    }
    runs = [compare.Results("r", pd.DataFrame(), pd.DataFrame(), served) for served in (known, again)]
    found = compare.compare_respondents(*runs)
    assert found["model"].tolist() == ["other", "first", "none", "second"]
    assert found.iloc[0].tolist() == ["s", "other", "v1", "d1", "v2", "d2"]
    assert found.iloc[3].tolist() == ["s", "second", "not known", "not known", "v3", "d2"]


def test_the_metrics_of_a_report_are_the_numbers_with_most_items():
    table = main_rows(
        ("s", "score", "accuracy", "m", "cot", 10, 0.1),
        ("s", "score", "accuracy", "m", "zero_shot", 12, 0.2),
        ("s", "score", "accuracy", "few", "zero_shot", 2, 0.9),
        ("s", "score", "accuracy", "sim", "zero_shot", 12, 0.9),
        ("s", "score", "gain; largest", "m", "zero_shot", 99, 0.9),
        ("s", "judge", "mean", "a", None, 3, 1.0),
        ("s", "judge", "mean", "b.1", None, 5, 2.0),
        ("s", "judge", "mean", "c", None, 4, 3.0),
        ("s", "judge", "mean", "c", None, 9, np.nan),
    )
    table.loc[3, "origin"] = "simulated"
    assert page.headline_metrics(table) == {
        "s": {"score": {"accuracy, m, zero_shot": 0.2}, "judge": {"mean, b 1": 2.0, "mean, c": 3.0}}
    }


# What may be published ------------------------------------------------------------------------------------------------

LONG = "He has slept badly for three weeks and wakes at four every single morning"
HELD = aggregates.Protected(
    [item("q-1", question=LONG, group_id="case7"), item("q-2", base_id="base-2")],
    [Rating(item_id="q-9", study="s", rater="r", target="A", value=1.0, source="x", comment=LONG.replace("He", "She"))],
    [Response(item_id="q-1", study="s", model="m", mode="cot", text="one two three four five six seven eight nine")],
)
HELD.ratings.append(HELD.ratings[0].model_copy(update={"comment": None}))  # most ratings say nothing
HELD.responses.append(HELD.responses[0].model_copy(update={"text": None}))  # nor does every model


def test_texts_are_recognised_by_eight_words_in_a_row():
    assert list(aggregates.words_in_a_row("One, two THREE four.", 3)) == ["one two three", "two three four"]
    assert list(aggregates.words_in_a_row("One two", 3)) == []
    assert HELD.quoted_in("x slept badly for three weeks and wakes at y") == {
        "slept badly for three weeks and wakes at"
    }
    assert HELD.quoted_in("slept badly for three weeks and wakes") == set()
    assert HELD.quoted_in("She has slept badly for three weeks and") and HELD.quoted_in(
        "two three four five six seven eight nine"
    )
    assert HELD.names == {"q-1", "case7", "q-2", "base-2", "q-9"}
    assert HELD.about_items("see (q-1), base-2. and q-12") == {"q-1", "base-2"}


@pytest.mark.parametrize(
    ("named", "columns", "declared", "may"),
    [
        ((), ["anything"], False, True),
        (("q-1",), ["item_id", "n", "estimate"], True, True),
        (("q-1",), ["item_id", "n", "estimate"], False, False),
        (("q-1",), ["item_id", "key"], True, False),
    ],
)
def test_a_table_about_items_is_shown_where_it_is_declared_and_has_no_label(named, columns, declared, may):
    assert (not aggregates.withheld_for(named, columns, declared)) is may


def test_a_column_of_many_names_is_about_items_whatever_they_look_like():
    few, many = (pd.DataFrame({"item_id": range(n), "x": 0.5}) for n in (10, 11))
    assert aggregates.about(few, HELD) == set() and len(aggregates.about(many, HELD)) == 11
    assert aggregates.about(many.rename(columns={"item_id": "place"}), HELD) == set()
    assert aggregates.about(pd.DataFrame({"x": ["of q-2"]}), HELD) == {"q-2"}
    assert aggregates.about(pd.DataFrame({"q-1": [1]}), HELD) == {"q-1"}, "a head names one too"
    rounded = aggregates.six_digits(pd.DataFrame({"x": [1.23456789], "n": [1234567]}))
    assert rounded.iloc[0].tolist() == [1.23457, 1234567]


def table_output(*heads: str, text: str = "1") -> dict:
    html = f"<table><thead><tr><th></th>{''.join(f'<th>{h}</th>' for h in heads)}</tr></thead></table>"
    return {"output_type": "display_data", "data": {"text/html": [html], "text/plain": [text]}}


def test_outputs_about_items_are_kept_back_and_pictures_by_name():
    shown = aggregates.ShownOf(
        "score",
        HELD,
        {"score/by_item", "score/marks"},
        {"PNG1": "plain", "PNG2": "marks", "PNG3": "named"},
        {"marks", "named"},
    )
    cell = 's.table("by_item", x, "...")'
    for output, source, may in (
        (table_output("n", "estimate"), "x", True),
        (table_output("item_id", "n"), "x", False),
        (table_output("item_id", "n"), cell, True),
        (table_output("item_id", "key"), cell, False),
        (table_output("n", text="of q-1"), "x", False),
        ({"output_type": "stream", "text": ["all of q-2"]}, "x", False),
        ({"output_type": "stream", "text": ["all of them"]}, "x", True),
    ):
        assert (shown.output(output, source) == output) is may
    for data, may in (("PNG1\n", True), ("PNG2", True), ("PNG3", False), ("other", False)):
        picture = {"output_type": "display_data", "data": {"image/png": data}}
        kept = shown.output(picture, "x")
        assert (kept == picture) is may
    assert kept["text"] == [aggregates._KEPT_BACK.format("results/studies/<study>/score") + "\n"]
    nb = {
        "cells": [
            {"cell_type": "markdown", "source": ["a"], "id": "x"},
            {"cell_type": "code", "source": ["b"], "id": "y", "outputs": [picture]},
        ]
    }
    done = shown.notebook(nb)
    assert done["cells"][1]["outputs"] == [kept] and len({c["id"] for c in done["cells"]} | {"x", "y"}) == 4


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("a.md", "all is well: /results/x", None),
        ("a.md", LONG, "no text of the corpus; got 7"),
        ("a.md", "of q-2", "no item beside what is declared as shown; got 1"),
        ("a.md", "in /tmp/x and /tmp/y", "no path of a machine; got 2"),
        ("a.txt", "in /tmp/y of q-2", None),
        ("score-by_item.csv", "item_id,n\nq-1,3\n", None),
        ("score-by_item.csv", "item_id,key\nq-1,A\n", "no item beside"),
        ("score-other.csv", "item_id,n\nq-1,3\n", "no item beside"),
    ],
)
def test_published_files_are_searched(tmp_path, name, text, told):
    (tmp_path / name).write_text(text, encoding="utf-8")
    if told is None:
        return aggregates.check_published_files(tmp_path, HELD, {"score/by_item"})
    with pytest.raises(ValueError, match=f"publish: a file must hold {told}"):
        aggregates.check_published_files(tmp_path, HELD, {"score/by_item"})


def test_notebooks_are_searched_cell_by_cell(tmp_path):
    def write(source: str, *outputs: dict) -> None:
        cells = [{"cell_type": "code", "source": [source], "outputs": list(outputs)}]
        (tmp_path / "score.ipynb").write_text(json.dumps({"cells": cells}), encoding="utf-8")

    write('s.table("by_item", x, "t")', table_output("item_id", "n", text="q-1"))
    aggregates.check_published_files(tmp_path, HELD, {"score/by_item"})
    for source, output in (
        ("x = 'q-1'", table_output("n")),
        ("x", table_output("item_id")),
        ("x", table_output("n", text="q-2")),
    ):
        write(source, output)
        with pytest.raises(ValueError, match="no item beside what is declared as shown; got 1 .score.ipynb"):
            aggregates.check_published_files(tmp_path, HELD, {"score/by_item"})


def test_a_run_is_published_without_what_is_about_an_item(tmp_path, monkeypatch):
    "Two stages and the report, by hand: which notebooks and tables there are, and that no folder's name is left."
    import matplotlib.pyplot as plt

    top, to = tmp_path / "top", tmp_path / "out" / "s"
    tables = {
        "score": {"means": {"model": ["m"], "estimate": [0.123456789]}, "by_item": {"item_id": ["q-1"], "n": [3]}},
        "agreement": {"labels": {"item_id": ["q-1"], "key": ["A"]}, "headline": {"n": [1]}, "rest": {"x": [0.5]}},
        "ledger": {"verdicts": {"claim": ["c"]}, "other": {"claim": ["d"]}},
    }
    for stage_name, left in tables.items():
        folder = top / "results" / stage_folder(stage_name, "s")
        folder.mkdir(parents=True)
        for name, columns in left.items():
            pd.DataFrame(columns).to_parquet(folder / f"{name}.parquet")
    figures = top / "figures" / "s" / "score"
    figures.mkdir(parents=True)
    pictures = {}
    for k, (name, words) in enumerate({"plain": "all", "named": "of q-2"}.items()):
        figure, axes = plt.subplots(figsize=(1, 1 + k))
        figure.savefig(figures / f"{name}.png")
        plt.close(figure)
        (figures / f"{name}.svg").write_text(f"<text>{words}</text>", encoding="utf-8")
        pictures[name] = aggregates.as_saved(figures / f"{name}.png")
    shown = lambda data: {"output_type": "display_data", "data": data, "metadata": {}}
    outputs = [shown({"image/png": x}) for x in (*pictures.values(), "unsaved")]
    outputs.append(
        {"output_type": "stream", "name": "stdout", "text": [f"in {top}/results and {top}, by /opt/x of /a/opt"]}
    )
    cells = [
        {"cell_type": "markdown", "id": "x", "source": ["Text"], "metadata": {}},
        {"cell_type": "code", "id": "y", "source": ["draw()\n", "more()"], "metadata": {}, "outputs": outputs},
    ]
    notebooks = {}
    for name, stage_name in (("s/score.ipynb", "score"), ("report.ipynb", "report")):
        notebooks[name] = top / "results" / stage_name / "notebook.ipynb"
        notebooks[name].parent.mkdir(parents=True, exist_ok=True)
        notebooks[name].write_text(json.dumps({"cells": cells}, ensure_ascii=False), encoding="utf-8")
    monkeypatch.setattr(aggregates, "root", lambda: top)
    monkeypatch.setattr(aggregates, "load_params", lambda path: {"run": path.relative_to(top).as_posix()})
    monkeypatch.setattr(aggregates, "executed_notebooks", lambda run: notebooks if run == "params.yaml" else {})
    monkeypatch.setattr(aggregates, "runs", lambda run: [(name, "s") for name in tables])
    monkeypatch.setattr(aggregates, "held_by", lambda folder, study: HELD if study == "s" else None)
    to.mkdir(parents=True)
    (to / "old.csv").write_text("", encoding="utf-8")
    declared = ["score/by_item", "agreement/labels"]
    written = aggregates.publish_aggregates(
        to, "s", declared=declared, places={"/opt": "elsewhere", "/a/opt": "within"}
    )
    names = [
        "score.ipynb",
        "score-by_item.csv",
        "score-means.csv",
        "agreement-rest.csv",
        "ledger-other.csv",
        "verdicts.csv",
    ]
    assert [f.name for f in written] == names and sorted(f.name for f in to.iterdir()) == sorted(names)
    assert pd.read_csv(to / "score-means.csv")["estimate"].tolist() == [0.123457]
    published = json.loads((to / "score.ipynb").read_text(encoding="utf-8"))["cells"]
    note = {
        "output_type": "stream",
        "name": "stdout",
        "text": [aggregates._KEPT_BACK.format("results/studies/<study>/score") + "\n"],
    }
    printed = outputs[3] | {"text": ["in results and ., by elsewhere/x of within"]}
    assert published[1]["outputs"] == [outputs[0], note, note, printed] and "outputs" not in published[0]
    ids = [c["id"] for c in published]
    again = aggregates.ShownOf("score", HELD, [], {}, set()).notebook(json.loads(json.dumps({"cells": cells[1:]})))
    assert len({*ids, again["cells"][0]["id"], "x", "y"}) == 5 and {len(x) for x in ids} == {8}, "by place and source"
    aggregates.check_published_files(to, HELD, declared[:1])
    notebooks["s/score.ipynb"].unlink()
    with pytest.raises(FileNotFoundError, match="every stage must have run; got no s/score.ipynb; dvc repro"):
        aggregates.publish_aggregates(to, "s", declared=declared, places={})
    assert (to / "score.ipynb").exists()


# Exports --------------------------------------------------------------------------------------------------------------


def test_a_page_for_git_has_neither_date_nor_commit():
    page = "Made on 2026-01-02 10:11:12 UTC by mhbench 1.2 (commit abc). Date, commit, versions, seed and hashes"
    page += "<table><tr><td>made on<td>2026<tr><td>commit<td>abc<tr><td>seed<td>1</table>"
    assert export.undated(page) == "Made by mhbench 1.2. Versions, seed and hashes<table><tr><td>seed<td>1</table>"


def answer(**more) -> SimpleNamespace:
    row = {"item_id": "q", "model": "m", "sample": 1, "answer": "B", "what": "right", "correct": 1.0, "category": "c"}
    row |= {"set": None, "cluster": "k", "judged": "read", "confidence": 0.75, "key": "B"}
    return SimpleNamespace(**row | more)


@pytest.mark.parametrize(
    ("more", "value", "stop"),
    [
        ({"finish_reason": "stop"}, "C", "stop"),
        ({}, "C", "unknown"),
        ({"finish_reason": "end_turn", "correct": 0.0, "what": "refused"}, "I", "stop"),
        ({"status": "filtered", "correct": 0.0, "what": "refused"}, "I", "content_filter"),
        ({"status": "truncated", "correct": 0.5}, 0.5, "max_tokens"),
        ({"finish_reason": "odd", "correct": np.nan, "what": "failed"}, "N", "unknown"),
    ],
)
def test_a_scored_answer_becomes_a_sample_of_a_log(more, value, stop):
    known = {"question": "Which?", "options": ["a", "b"], "context": {"History": "h"}}
    found = export._inspect_sample(answer(**more), known, {"text": "It is B."})
    assert found["scores"]["mhbench"]["value"] == value
    assert (found["epoch"], found["target"], found["choices"]) == (2, "B", ["a", "b"])
    assert ("error" in found) == (more.get("what") == "failed")
    assert found["output"]["choices"][0]["stop_reason"] == stop and found["output"]["completion"] == "It is B."
    assert "Which?" in found["input"] and "h" in found["input"]
    seen = {"category": "c", "case": "k", "became": more.get("what", "right"), "judged": "read"}
    assert found["metadata"] == seen and found["scores"]["mhbench"]["metadata"] == {"confidence": 0.75}
    bare = export._inspect_sample(answer(confidence=np.nan, answer=None, key=None), {}, {})
    assert bare["input"] == "(the text of q is not part of this log)" and bare["choices"] is None
    assert bare["target"] == "" and "answer" not in bare["scores"]["mhbench"]
    assert bare["scores"]["mhbench"]["metadata"] == {}


@pytest.mark.parametrize(
    ("kind", "is_open", "said"),
    [
        ("openai", {"open": False}, "externally_managed"),
        ("openai", {"open": True}, "unknown"),
        ("openai", {}, "unknown"),
        ("local", {"open": True}, "self_deployed"),
    ],
)
def test_a_model_is_externally_managed_only_where_nobody_else_has_its_weights(kind, is_open, said):
    p = {"models": {"m": {"endpoint": "e"} | is_open}, "endpoints": {"e": {"kind": kind}}}
    assert eee._model_info("m", p, "asked")["additional_details"]["deployment_type"] == said


def test_what_nothing_scored_has_no_score_and_unknown_tokens_are_absent():
    item = Item(item_id="q", study="s", task="multiple_choice", question="?", options=["a", "b"], key=["A"], source="x")
    row = {"item_id": "q", "order": None, "reasoning": None, "text": "A", "answer": ["A"], "how": "letter"}
    row |= {"error": None, "sample": 0, "numbered": False, "served": None, "temperature": None, "letter_logprobs": None}

    def line(**more):
        return eee._instance_line(SimpleNamespace(**row | more), item, {}, True)

    none = line(correct=None, became="not read", prompt_tokens=12, completion_tokens=0)
    assert none["evaluation"] is None and none["token_usage"] is None
    wrong = line(correct=0.0, became="read", prompt_tokens=12, completion_tokens=3)
    assert wrong["evaluation"] == {"score": 0.0, "is_correct": False}
    assert wrong["token_usage"] == {"input_tokens": 12, "output_tokens": 3, "total_tokens": 15}


def test_the_lines_of_an_exported_result_come_to_its_score():
    lines = [
        {"evaluation_result_id": "r", "sample_id": i, "evaluation": {"score": x}}
        for i, x in (("a", 1), ("a", 0), ("b", 1))
    ]
    result = {"evaluation_result_id": "r", "score_details": {"score": 0.75, "details": {"n": "2"}}}
    eee._check_means(lines, [result])
    eee._check_means(lines, [result | {"evaluation_result_id": "other"}])
    for wrong in ({"score": 0.7, "details": {"n": "2"}}, {"score": 0.75, "details": {"n": "3"}}):
        with pytest.raises(RuntimeError, match="the lines of a result must come to its score; got 0.750000 of 2 for"):
            eee._check_means(lines, [result | {"score_details": wrong}])
    assert eee._BOUNDS == {"lower_is_better": False, "score_type": "continuous", "min_score": 0, "max_score": 1}


def test_means_of_judges_without_their_judgments_are_in_no_record_and_neither_are_judgments_alone(tmp_path):
    rows = pd.DataFrame({"model": ["m"], "by": ["all"], "estimate": [0.5]})
    for name in ("studies/s/judge/means.parquet", "text/t/judge/judgments.parquet"):
        (tmp_path / name).parent.mkdir(parents=True)
        rows.to_parquet(tmp_path / name)
    for study in ("s", "t"):
        means, rubrics_by_judge = eee._judge_means(tmp_path, study)
        assert (len(means), rubrics_by_judge) == (0, {})


# Fetch ----------------------------------------------------------------------------------------------------------------


def test_what_was_fetched_is_told(tmp_path):
    (tmp_path / "a").write_bytes(b"0" * 2_600_000)
    (tmp_path / "b").write_bytes(b"0")
    of = {"a": "1" * 64, "b": "2" * 64}
    got = fetch.Fetched("s", tmp_path, tmp_path, {}, of, ["b"], {}, [f"f{k}" for k in range(6)], 3, 2)
    assert got.summary_lines() == [
        f"s: 2 files, 2.6 MB, in {tmp_path}; 1 as the registry has them",
        f"  not in the registry: b, sha256 {'2' * 64}",
        "  not there: 6 files of the release: f0, f1, f2, f3, f4, ...",
        "  3 files of the source are no part of what was asked for",
        "  2 more files in the authors' repository were not asked for; `--all` brings them, `--only PATTERN` some",
    ]
    few = fetch.Fetched("s", tmp_path, tmp_path, {}, {"a": "1"}, [], {"a": "unpacked"}, ["x"] * 5, 0, 0).summary_lines()
    assert few == [
        f"s: 1 file, 2.6 MB, in {tmp_path}; 0 as the registry has them",
        "  in no repository: a: unpacked",
        "  not there: 5 files of the release: x, x, x, x, x",
    ]


def test_bibtex_escapes_what_latex_would_read():
    entry = fetch.bibtex(
        "k", {"title": "A & B", "author": "{The_Group}", "note": "50% ~ $5 #1 {x}\\", "url": "https://a/_b"}
    )
    assert entry.split("\n") == [
        "@misc{k,",
        r"  title = {{A \& B}},",
        "  author = {{The_Group}},",
        r"  note = {50\% \textasciitilde{} \$5 \#1 \{x\}\textbackslash{}},",
        "  url = {https://a/_b},",
        "}",
    ]


# Runs that go on, and how they look -----------------------------------------------------------------------------------


def test_what_a_stage_asked_is_told_when_it_ends(monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    out = io.StringIO()
    with process.Live("generate s m", out) as live:
        assert os.environ["MHBENCH_LIVE"] == str(live.file)
        counts = {"done": 7, "cached": 2, "failed": 1, "declined": 0, "uncounted": 0, "usd": 0.5}
        live.file.write_text(json.dumps({"line": "l", "so_far": counts}), encoding="utf-8")
        assert live._spent() == ", 7 answers (2 cached, 1 failed), 0.5000 USD"
        live.file.write_text(json.dumps({"line": "l", "so_far": counts | {"uncounted": 1}}), encoding="utf-8")
        assert live._spent() == ", 7 answers (2 cached, 1 failed), at least 0.5000 USD"
        live.file.write_text(
            json.dumps({"line": "l", "so_far": counts | {"declined": 3, "usd": None}}), encoding="utf-8"
        )
    told = out.getvalue().splitlines()
    assert told[0] == "mhbench: generate s m" and len(told) == 2
    assert told[1].startswith(
        "mhbench: generate s m: done after 0 s, 7 answers (2 cached, 1 failed, 3 refused), cost unknown"
    )
    assert "MHBENCH_LIVE" not in os.environ
    for error, outcome in ((KeyError, "ended with an error"), (KeyboardInterrupt, "interrupted")):
        with pytest.raises(error), process.Live("x", out):
            raise error
        assert out.getvalue().splitlines()[-1] == f"mhbench: x: {outcome} after 0 s"
    monkeypatch.setenv("CI", "1")
    with process.Live("silent", out):
        assert "MHBENCH_LIVE" not in os.environ
    assert "silent" not in out.getvalue()


@pytest.mark.parametrize(
    ("entry", "modes", "capped"),
    [
        ({}, {"a": {"n_items": 9}, "b": None}, {"a": {"n_items": 9}, "b": {}}),
        ({"n_items": 5}, {"a": {"n_items": 9}, "b": {"n_items": 3}}, {"a": {"n_items": 5}, "b": {"n_items": 3}}),
        ({"n_items": 5}, {"a": None}, {"a": {"n_items": 5}}),
        ({"n_items": 5}, {"a": {"n_items": {"x": 9, "y": 2}}}, {"a": {"n_items": {"x": 5, "y": 2}}}),
        ({"n_items": 5}, {"a": {"n_items": None, "k": 1}}, {"a": {"n_items": 5, "k": 1}}),
    ],
)
def test_a_models_own_limit_caps_each_mode(entry, modes, capped):
    before = json.dumps([entry, modes])
    assert asking.capped(entry | {"served": "x"}, modes) == ({"served": "x"}, capped)
    assert json.dumps([entry, modes]) == before, "what is given stays as it is"


def test_an_executed_notebook_has_no_time_and_no_progress():
    cells = [
        nbformat.v4.new_markdown_cell("a"),
        nbformat.v4.new_code_cell("b", execution_count=3, metadata={"tags": ["parameters"], "papermill": 1}),
    ]
    outputs = [nbformat.v4.new_output("stream", name=n, text="x") for n in ("stdout", "stderr")]
    outputs.append(nbformat.v4.new_output("execute_result", data={"text/plain": "1"}, execution_count=3))
    cells[1].outputs = outputs
    nb = execute._normalise(nbformat.v4.new_notebook(cells=cells, metadata={"papermill": {"at": "now"}}))
    assert set(nb.metadata) == {"kernelspec"} and nb.cells[1].metadata == {"tags": ["parameters"]}
    assert nb.cells[0].metadata == {} and nb.cells[1].execution_count is None
    assert [o.output_type for o in nb.cells[1].outputs] == ["stream", "execute_result"]
    assert nb.cells[1].outputs[0].name == "stdout" and nb.cells[1].outputs[1].execution_count is None
    assert len({c["id"] for c in nb.cells}) == 2 and all(len(c["id"]) == 8 for c in nb.cells)


def test_a_dry_run_goes_as_far_as_the_last_cell_that_asks_or_keeps(tmp_path):
    sources = ["a", "with open_model(x) as y: ...", "b", "s.records('x', y, Z)", "c", "d"]
    nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(s) for s in sources])
    nbformat.write(nb, tmp_path / "whole.ipynb")
    part = execute._asking_part(tmp_path / "whole.ipynb", tmp_path / "part.ipynb")
    assert [c.source for c in nbformat.read(part, 4).cells] == sources[:4]


def test_a_replication_runs_the_pipeline_in_its_own_folder(tmp_path, monkeypatch):
    ran, top = [], tmp_path / "top"
    monkeypatch.setattr(replicate, "unlock", lambda name: None)
    monkeypatch.setattr(replicate, "_released", lambda top, name, source, public: SimpleNamespace(folder="f", files={}))
    monkeypatch.setattr(replicate, "_made_of", lambda top, name, release: {"study": name, "x": 1})
    monkeypatch.setattr(replicate, "init", lambda top, update: ran.append(("init", update)))
    monkeypatch.setattr(replicate, "_enter", lambda *a: ran.append(("enter", os.environ["MHBENCH_ROOT"])) or ["line"])
    ended = SimpleNamespace(returncode=0)
    monkeypatch.setattr(replicate.subprocess, "run", lambda words, cwd, stdout: ran.append((words[1:], cwd)) or ended)
    monkeypatch.setattr(replicate, "replication", lambda name: None)
    before = os.environ.get("MHBENCH_ROOT")
    assert replicate.replicate("mhqa", None, top) == top.resolve()
    repro = (["-m", "dvc", "repro", "--quiet"], top.resolve())
    assert ran == [("init", False), ("enter", str(top.resolve())), repro] and os.environ.get("MHBENCH_ROOT") == before
    assert (top / replicate._READ).read_text() == "line\n"
    assert json.loads((top / replicate._MADE_OF).read_text()) == {"study": "mhqa", "x": 1}
    ran.clear()
    assert replicate.replicate("mhqa", None, top) and ran == [repro], "what is up to date is not set up again"
    monkeypatch.setattr(replicate, "_made_of", lambda top, name, release: {"study": name, "x": 2})
    (top / "params.yaml").write_text("old")
    ran.clear()
    replicate.replicate("mhqa", None, top)
    assert ran[0] == ("init", True) and "seed" in (top / "params.yaml").read_text(), (
        "an older version is brought up to date"
    )
    ended.returncode = 1
    with pytest.raises(RuntimeError, match="every stage must succeed; got an error of one"):
        replicate.replicate("mhqa", None, top)
    with pytest.raises(ValueError, match="got one of mhqa"):
        replicate.replicate("mentat", None, top)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    with pytest.raises(ValueError, match="got one with other files"):
        replicate.replicate("mhqa", None, tmp_path / "full")


@pytest.mark.parametrize(
    ("around", "ignored", "has_git", "at_top", "chosen"),
    [
        (True, False, True, False, ["--subdir"]),
        (True, False, True, True, ["--subdir"]),  # which fails there: once more without it
        (True, True, True, False, []),  # a repository around it that ignores it: one of its own
        (False, False, True, False, []),
        (False, False, False, False, ["--no-scm"]),
    ],
)
def test_a_working_folder_is_under_dvc(tmp_path, monkeypatch, around, ignored, has_git, at_top, chosen):
    asked: list[list[str]] = []
    answers = {"check-ignore": ignored, "rev-parse": around, "init": has_git}

    def quietly(*command, working_folder):
        assert working_folder == tmp_path
        if command[0] == "git":
            return answers[command[1]]
        asked.append([*command[3:]])
        return not (at_top and "--subdir" in command)

    monkeypatch.setattr(replicate, "_quietly", quietly)
    replicate._under_dvc(tmp_path)
    made = [["init", "--quiet", *chosen]] + [["init", "--quiet"]] * at_top
    keys = ("analytics", "check_update", "autostage")
    assert asked == [["--version"], *made, *(["config", f"core.{key}", "false"] for key in keys)]
    (tmp_path / ".dvc").mkdir()
    asked.clear()
    replicate._under_dvc(tmp_path)
    assert [words[0] for words in asked] == ["--version", "config", "config", "config"]
    monkeypatch.setattr(replicate, "_quietly", lambda *command, working_folder: False)
    with pytest.raises(ImportError, match=r"DVC must be installed; got none; pip install 'mhbench\[pipeline\]'"):
        replicate._under_dvc(tmp_path)


def test_commands_that_are_not_there_or_fail_are_false_and_print_nothing(tmp_path, capfd):
    for words, ok in ((["-c", "print(1)"], True), (["-c", "import os; print(os.getcwd()); exit(2)"], False)):
        assert replicate._quietly(sys.executable, *words, working_folder=tmp_path) is ok
    assert replicate._quietly("no-such-command", working_folder=tmp_path) is False
    code = f"import os; exit(os.getcwd() != {str(tmp_path.resolve())!r})"
    assert replicate._quietly(sys.executable, "-c", code, working_folder=tmp_path)
    assert capfd.readouterr() == ("", "")


def test_a_replication_s_settings_override_the_recipe_s(tmp_path, monkeypatch):
    calls: dict[str, tuple] = {}
    note = lambda name, back=None: lambda *a, **k: calls.update({name: (a, k)}) or back
    recipe = {"prepare": {"path": "x", "n": 1}, "score": None, "judge": {"kind": "score"}, "ledger": {"level": 0.9}}
    monkeypatch.setattr(replicate, "bring_in", note("bring_in", (None, ["lines"])))
    monkeypatch.setattr(replicate, "edit", note("edit"))
    monkeypatch.setattr(replicate, "select", note("select"))
    monkeypatch.setattr(replicate, "study_lines", lambda name, entry: (name, entry))
    release = SimpleNamespace(corpus=tmp_path / "c", folder=tmp_path / "f", options={"a": 1, "b": 2})
    stages = {"prepare": {"n": 2}, "score": {"seed": 3}, "judge": None, "ledger": {"release": "own"}}
    for claims, ledger in (
        ({"s": "claims.yaml"}, {"release": "own", "level": 0.9}),
        ({}, {"release": str(tmp_path / "f"), "level": 0.9}),
    ):
        monkeypatch.setattr(replicate, "study_files", lambda name, files=claims: files)
        monkeypatch.setattr(replicate, "load_params", note("load", {"studies": {"s": {**recipe}}}))
        settings = replicate.Replication(options={"b": 3}, stages=stages)
        assert replicate._enter(tmp_path, "s", release, settings) == ["lines"]
        params = tmp_path / "params.yaml"
        assert calls["bring_in"] == (("s", tmp_path / "c", {"a": 1, "b": 3}), {"params": params})
        entry = {"prepare": {"path": "x", "n": 2}, "score": {"seed": 3}, "ledger": ledger}
        assert calls["edit"] == ((params, {}, {"s": ("s", entry)}), {}) and calls["load"] == (
            (params,),
            {"lists": False},
        )
        assert calls["select"] == ((), {"studies": ["s"], "models": [], "items": 0, "params": params})


def replicated(top: Path) -> None:
    "What a replication leaves of two stages."
    (top / ".mhbench").mkdir(parents=True)
    lines = ["s: 2 items", "  recorded: m in cot, 2 answers", *(f"  {n}" for n in "one two three four five".split())]
    (top / replicate._READ).write_text("\n".join(lines) + "\n", encoding="utf-8")
    (top / replicate._MADE_OF).write_text(json.dumps({"folder": "/opt/release"}), encoding="utf-8")
    for stage, tables in {"score": ["means", "marks"], "ledger": ["verdicts"]}.items():
        folder = top / "results" / stage_folder(stage, "s")
        folder.mkdir(parents=True)
        contents = {"stage": stage, "tables": [{"name": t, "caption": f"The {t}."} for t in tables]}
        (folder / "contents.json").write_text(json.dumps(contents), encoding="utf-8")
    (top / "figures" / "s" / "score").mkdir(parents=True)
    drawn = [{"name": n, "title": t, "alt": "x"} for n, t in (("plain", "All items"), ("one", "Marks of q-2"))]
    (top / "figures" / "s" / "score" / "figures.json").write_text(json.dumps(drawn), encoding="utf-8")


def test_a_replication_is_told_on_a_screen(tmp_path, monkeypatch, capsys):
    replicated(tmp_path)
    roots = []
    monkeypatch.setattr(replicate, "_verdict_numbers", lambda top, name: ["", "verdicts"])
    monkeypatch.setattr(
        replicate, "_headline_in_words", lambda top: roots.append(os.environ["MHBENCH_ROOT"]) or ["", "numbers"]
    )
    lines = replicate.replication_lines(tmp_path, "s")
    page = f"the page: {tmp_path / 'results' / 'report.html'}"
    told = ["s: 2 items", "  recorded: 1 run of models; nobody is asked", "  one", "  two", "  three", "  four"]
    assert lines == [*told, "", "verdicts", "", "numbers", "", page] and roots == [str(tmp_path)]
    ledger = tmp_path / "results" / "ledger" / "s" / "verdicts.parquet"
    ledger.touch()
    (tmp_path / replicate._READ).write_text(
        "s: none\n" + "  recorded: m\n" * 2 + f"  {'word ' * 40}\n", encoding="utf-8"
    )
    lines = replicate.replication_lines(tmp_path, "s")
    assert (
        lines[:2] == ["s: none", "  recorded: 2 runs of models; nobody is asked"]
        and lines[-1] == f"the ledger: {ledger}"
    )
    assert lines[2].endswith("word ...") and 140 < len(lines[2]) <= 152
    monkeypatch.setattr(replicate, "replicate", lambda *a, public: (*a, f"public: {public}"))
    monkeypatch.setattr(replicate, "replication_lines", lambda top, name: [*map(str, top), name])
    monkeypatch.setattr(replicate, "publish_replication", lambda top, name, to: [1, 2, 3])
    for publish in (None, "out"):
        replicate._replicate(SimpleNamespace(name="s", source="from", to="to", publish=publish))
        told = f"for readers: 3 files in {Path('out', 's')}\n" if publish else ""
        assert capsys.readouterr().out == f"s\nfrom\nto\npublic: {bool(publish)}\ns\n" + told


def test_what_is_published_of_a_replication_is_listed_on_a_page(tmp_path, monkeypatch):
    top, to = tmp_path / "top", tmp_path / "out"
    replicated(top)
    derived = {"made.csv": SimpleNamespace(how="joined", of="a.csv and b.csv")}
    release = SimpleNamespace(
        title="A study",
        repository="example.org/r",
        commit="c0ffee",
        licence="MIT",
        terms="No texts.",
        find_derivation=derived.get,
        files=lambda: iter([("a.csv", "x/a.csv", None), ("b.csv", "x/b.csv", None), ("c.csv", "x/c.csv", None)]),
    )
    files = {"a.csv": {"registered": True, "sha256": "1"}, "made.csv": {"registered": False, "sha256": "2"}}
    shown = ["score/marks", "score/plain"]
    given: dict = {}

    def published(folder, name, **more):
        given.update(more, name=name, root=os.environ["MHBENCH_ROOT"])
        folder.mkdir(parents=True)
        names = ("score.ipynb", "ledger.ipynb", "score-means.csv", "score-other.csv", "verdicts.csv")
        for file in names:
            (folder / file).write_text('{"cells": []}' if file.endswith("b") else "n\n1\n", encoding="utf-8")
        return [folder / file for file in names]

    monkeypatch.setattr(replicate, "release_of", lambda name: release)
    monkeypatch.setattr(replicate, "recorded", lambda folder: {"files": files if folder == "/opt/release" else {}})
    monkeypatch.setattr(replicate, "replication", lambda name: replicate.Replication(shown=shown))
    monkeypatch.setattr(replicate, "publish_aggregates", published)
    monkeypatch.setattr(replicate, "held_by", lambda top, name: HELD)
    written = replicate.publish_replication(top, "s", to)
    assert [f.relative_to(to / "s").as_posix() for f in written[-3:]] == ["release.csv", "README.md", "figures.json"]
    assert len(written) == 8 and all(f.exists() for f in written)
    replaced = {"/opt/release": "RELEASE", 'href=\\"../': 'href=\\"../../'}
    assert given == {"declared": shown, "places": replaced, "name": "s", "root": str(top)}
    assert (to / "s" / "release.csv").read_text() == "file,registered,sha256\na.csv,True,1\nmade.csv,False,2\n"
    assert json.loads((to / "s" / "figures.json").read_text()) == {"score": [{"name": "plain", "title": "All items"}]}
    page = " ".join((to / "s" / "README.md").read_text(encoding="utf-8").split())
    for words in (
        "# A study Results computed",
        "2 files of example.org/r at c0ffee.",
        " Not fetched here: 2 files of the release, such as b.csv. In place of a file of the repository: `made.csv`:",
        "`made.csv`: joined (a.csv and b.csv). Licence: MIT.",
        "no item-level results but score/marks and score/plain, without a label.",
        "Executed notebooks: [score](score.ipynb), [ledger](ledger.ipynb).",
        "[score-means](score-means.csv) | The means. |",
        "[score-other](score-other.csv) | |",
        "[verdicts](verdicts.csv) | The verdicts. |",
    ):
        assert words in page, words
    shown.clear()
    release.files, files["made.csv"] = (lambda: iter([("a.csv", "x/a.csv", None)])), {"registered": True}
    page = " ".join(replicate._index(top, "s", written).split())
    assert "Not fetched" not in page and "In place of" not in page and "no item-level results." in page


def test_a_new_working_folder_is_told_with_the_next_command(monkeypatch, capsys):
    monkeypatch.setattr(replicate, "init", lambda folder, update: ["a.ipynb", "b.ipynb", "dvc.yaml"])
    first, update = "first: pip install 'mhbench[metrics]', which brings the encoder minilm\n", "x: 3 files, 2 stages\n"
    after = "next: cd x; mhbench select --studies mhqa --models minilm; dvc repro\n"
    for spec, updates, told in ((None, False, first + after), (object(), False, after), (None, True, "")):
        monkeypatch.setattr(replicate, "find_spec", lambda name, spec=spec: spec)
        replicate._init(SimpleNamespace(folder="x", update=updates))
        assert capsys.readouterr().out == update + told


def test_the_pipeline_is_taken_from_where_all_of_it_is(tmp_path, monkeypatch):
    package = tmp_path / "top" / "mhbench"
    monkeypatch.setattr(replicate, "PACKAGE", package)
    monkeypatch.setattr(replicate, "notebook_files", lambda top: sorted(top.glob("nbs/stages/*.ipynb")))
    places = package / "pipeline", package.parent
    for n, place in enumerate(places[::-1]):
        for k, name in enumerate((*replicate._FILES, "nbs/stages/score.ipynb")):
            if not n:
                with pytest.raises(
                    FileNotFoundError, match="the package must hold its pipeline; got no stage notebooks"
                ):
                    replicate.pipeline_files()
            else:  # a part of it inside the package
                assert replicate.pipeline_files()["params.yaml"] == places[1] / "params.yaml", k
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).touch()
        found = replicate.pipeline_files()
        assert list(found) == [*replicate._FILES, "nbs/stages/score.ipynb"]
        assert all(file == place / name for name, file in found.items())


# Processes ------------------------------------------------------------------------------------------------------------

CHILD = "import os, stat, sys; ok = os.environ['PYTHONHASHSEED'] == '0' and sys.argv[1:] == ['run', 'score'];"
CHILD += (
    "ok = ok and os.environ['OF_TEST'] == 'x' and stat.S_ISFIFO(os.fstat(0).st_mode); raise SystemExit(3 if ok else 4)"
)


def test_a_command_runs_in_a_process_of_its_own_with_a_pipe_to_its_caller(monkeypatch):
    monkeypatch.setattr(process, "_copy_template", lambda *given: None)
    monkeypatch.setenv("OF_TEST", "x")
    monkeypatch.setattr(process, "_STAGE", CHILD)
    before = signal.getsignal(signal.SIGINT)
    assert process.run_in_child_process(["run", "score"]) == 3 and signal.getsignal(signal.SIGINT) is before
    monkeypatch.setattr(process, "_STAGE", "import os, sys; os.kill(os.getpid(), int(sys.argv[1]))")
    rule = "run: the stage must end by itself; got "
    for number, told in (
        (9, "SIGKILL from outside, often for want of memory .9.; .*: give it more memory"),
        (15, "SIGTERM from outside .15.; .*: run it again"),
    ):
        with pytest.raises(RuntimeError, match=rule + told):
            process.run_in_child_process([str(number)])


@pytest.mark.parametrize(("status", "ignored"), [(0, False), (1, False), (130, True)])
def test_an_interrupt_is_handed_to_the_child_and_ignored_where_the_child_has_ended_by_one(monkeypatch, status, ignored):
    sent, given = [], []

    class Child:
        def send_signal(self, number):
            sent.append(number)

        def wait(self):
            signal.raise_signal(signal.SIGINT)
            return status

    monkeypatch.setattr(process, "_copy_template", lambda *of: given.append(of) or Child())
    before = signal.getsignal(signal.SIGINT)
    try:
        assert process.run_in_child_process(["a", "b"]) == status and sent == [signal.SIGINT]
        assert signal.getsignal(signal.SIGINT) is (signal.SIG_IGN if ignored else before)
    finally:
        signal.signal(signal.SIGINT, before)
    [(command, words, environment, _)] = given
    assert command[0] == sys.executable and command[-1] == "-c" and words == ["a", "b"]
    assert environment == {**os.environ, "PYTHONHASHSEED": "0"}


def test_a_template_is_found_by_its_interpreter_and_its_environment():
    address = process._socket_address(["py", "-c"], {"B": "1", "A": "2", "DVC_STAGE": "x"})
    digest = hashlib.sha256(b'[["py", "-c"], {"A": "2", "B": "1"}]').hexdigest()
    assert address == f"\0mhbench-{digest}"
    for environment in ({}, {"DVC_STAGE": "x"}, {"MHBENCH_DVC": "1"}):
        assert process._copy_template(["py"], [], environment, 0) is None


@pytest.mark.skipif(sys.platform != "linux", reason="a template of stages is made under Linux")
def test_a_template_is_started_once_for_the_stages_of_a_pipeline(monkeypatch):
    started, mask = [], lambda: signal.pthread_sigmask(signal.SIG_BLOCK, [])
    popen = lambda command, pass_fds, env, **_: started.append((command, env, os.dup(pass_fds[0]), mask()))
    monkeypatch.setattr(process.subprocess, "Popen", popen)
    process.start_template()
    assert not started, "no pipeline runs"
    monkeypatch.setenv("MHBENCH_DVC", str(os.getpid()))
    for stage in ("inputs", "inputs", "score@mhqa"):
        monkeypatch.setenv("DVC_STAGE", stage)
        process.start_template()
    [(command, environment, listener, blocked)] = started
    os.close(listener)
    assert command[0] == sys.executable and "serve_copies()" in command[-2] and signal.SIGINT in blocked - mask()
    assert environment == {**os.environ, "DVC_STAGE": "inputs", "PYTHONHASHSEED": "0"}


@pytest.mark.parametrize(("recorded", "starts"), [({}, 1), ({"score mhqa": {}}, 0)])
def test_the_stage_inputs_starts_the_template_where_parameters_have_changed(monkeypatch, recorded, starts):
    started = []
    monkeypatch.setattr(cli, "recorded_parameters", lambda top: recorded)
    monkeypatch.setattr(cli, "start_template", lambda: started.append(1))
    monkeypatch.setattr("mhbench.run.inputs.record_inputs", lambda params: {})
    assert cli.main(["inputs"]) == 0 and len(started) == starts


def test_a_program_runs_a_stage_by_the_command_line(monkeypatch, tmp_path):
    ran = []
    ended = SimpleNamespace(returncode=0, stderr="mhbench run: it must be; got b\n")

    def run(command, env, capture_output, text):
        ran.append((command[1:], env["CI"], capture_output, text))
        return ended

    monkeypatch.setattr(process.subprocess, "run", run)
    overrides = {"results": str(tmp_path)}
    file = process.stage_by_command("score", "s", "m", overrides, "p.yaml")
    assert file == tmp_path / "studies" / "s" / "score" / "m" / "notebook.ipynb"
    words = [
        "-m",
        "mhbench",
        "run",
        "score",
        "--study=s",
        "--model=m",
        "--params=p.yaml",
        f"--overrides={json.dumps(overrides)}",
    ]
    assert ran == [(words, "1", True, True)]
    assert process.stage_by_command("report", None, None, {}) == graph.root() / "results/report/notebook.ipynb"
    assert ran[1][0] == ["-m", "mhbench", "run", "report", "--params=params.yaml", "--overrides={}"]
    ended.returncode = 1
    with pytest.raises(RuntimeError, match="^it must be; got b$"):
        process.stage_by_command("score", "s", None, {})


class Screen(io.StringIO):
    "A stream that says it is a terminal."

    def isatty(self):
        return True


def wait_until(is_so, seconds: float = 5.0) -> None:
    "Wait for something that another thread does."
    until = time.monotonic() + seconds
    while not is_so() and time.monotonic() < until:
        time.sleep(0.02)
    assert is_so()


def test_progress_moves_in_one_line_of_a_terminal_and_stands_in_lines_of_a_log(monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("MHBENCH_LIVE", "of a caller")
    monkeypatch.setattr(process.shutil, "get_terminal_size", lambda: SimpleNamespace(columns=20))
    screen = Screen()
    with process.Live("score s", screen) as live:
        live.file.write_text(json.dumps({"line": "0123456789abcdef"}), encoding="utf-8")
        wait_until(lambda: "0123456789" in screen.getvalue())
    assert os.environ["MHBENCH_LIVE"] == "of a caller" and not live.file.exists()
    told = screen.getvalue()
    start = "\r\x1b[Kmhbench: "
    assert told.startswith(f"{start}score s\n") and f"{start}0123456789{start[:1]}" in told, "as wide as the terminal"
    assert told.endswith(f"{start}score s: done after 0 s\n")
    log = io.StringIO()
    with process.Live("score s", log, every_s=0.1) as live:
        live.file.write_text(json.dumps({"line": "first"}), encoding="utf-8")
        wait_until(lambda: "first" in log.getvalue())
        live.file.write_text(json.dumps({"line": "second"}), encoding="utf-8")
        wait_until(lambda: "second" in log.getvalue())
    lines = log.getvalue().splitlines()
    assert lines[:3] == ["mhbench: score s", "mhbench: score s: first", "mhbench: score s: second"] and len(lines) == 4
    rare = io.StringIO()
    with process.Live("score s", rare, every_s=60) as live:
        live.file.write_text(json.dumps({"line": "first"}), encoding="utf-8")
        time.sleep(0.5)
    assert "first" not in rare.getvalue() and process.EVERY_S == 30.0


# Models that are asked ------------------------------------------------------------------------------------------------


def test_the_cache_is_named_by_the_environment_by_the_settings_or_lies_in_the_results(monkeypatch, tmp_path):
    monkeypatch.setattr(asking, "root", lambda: tmp_path)
    monkeypatch.setattr(asking, "clone_of", lambda top: top / "clone")
    monkeypatch.delenv("MHBENCH_CACHE", raising=False)
    assert asking.cache_file("a.sqlite", tmp_path / "r") == tmp_path / "clone" / "a.sqlite"
    assert asking.cache_file("", tmp_path / "r") == tmp_path / "r" / "cache.sqlite"
    assert asking.cache_file("/opt/a.sqlite", tmp_path) == Path("/opt/a.sqlite")
    monkeypatch.setenv("MHBENCH_CACHE", "~/b.sqlite")
    assert asking.cache_file("a.sqlite", tmp_path) == Path("~/b.sqlite").expanduser()


def test_a_model_is_asked_behind_its_endpoint_and_a_local_one_behind_its_server(monkeypatch, tmp_path):
    from mhbench.ask import local

    served: list[dict] = []

    @contextlib.contextmanager
    def serve(**settings):
        served.append(settings)
        yield "server"

    monkeypatch.setattr(local, "serve", serve)
    monkeypatch.setattr(asking, "root", lambda: tmp_path)
    monkeypatch.setattr(asking, "clone_of", lambda top: top)
    endpoints = {"here": {"kind": "local", "n_ctx": 9}, "remote": {"kind": "openai", "base_urls": ["http://a/v1"]}}
    endpoints["near"] = {"kind": "encoder"}
    entry = {"served": "x", "lineage": "l"}
    with asking.asking(entry | {"endpoint": "here"}, "m", endpoints) as (model, endpoint):
        assert (model.name, model.served, endpoint) == ("m", "x", "server")
    assert served == [
        {"start": False, "name": "here", "served": "x", "log": tmp_path / ".mhbench/here.log", "n_ctx": 9}
    ]
    with asking.asking(entry | {"endpoint": "remote"}, "m", endpoints) as (model, endpoint):
        assert (endpoint.name, list(endpoint.base_urls)) == ("remote", ["http://a/v1"]) and len(served) == 1
    with pytest.raises(ValueError, match="endpoints.near.kind must be local, or one of .* got 'encoder' .models.m.;"):
        with asking.asking(entry | {"endpoint": "near"}, "m", endpoints):
            pass
    assert endpoints["here"] == {"kind": "local", "n_ctx": 9}, "what is given stays as it is"


def test_each_kind_of_model_is_opened_as_what_it_is(monkeypatch, tmp_path):
    monkeypatch.setattr(asking, "load_encoder", lambda served, executor: (served, executor))
    monkeypatch.setattr(asking, "trained_classifier", lambda entry, name, results: (entry["served"], name, results))
    monkeypatch.setattr(asking, "WordModel", lambda served: f"words of {served}")
    monkeypatch.setattr(asking, "root", lambda: tmp_path)
    monkeypatch.setattr(asking, "asking", lambda entry, name, endpoints: contextlib.nullcontext((name, endpoints)))
    endpoints = {kind: {"kind": kind} for kind in ("encoder", "classifier", "words", "openai")}
    modes = {"cot": {"n_items": 9}}

    def opened(kind, *more, **entry):
        with asking.open_model(
            {"endpoint": kind, "served": "x", "n_items": 5, **entry}, "m", endpoints, modes, *more
        ) as model:
            assert (model.name, model.modes) == ("m", {"cot": {"n_items": 5}})
            return model

    executor = asking.Executor()
    assert (opened("encoder").encoder, opened("encoder").scale) == (("x", executor), 20.0)
    assert opened("encoder", {"retries": 3}, scale=7.0).encoder[1] == asking.Executor(retries=3)
    assert opened("encoder", scale=7.0).scale == 7.0
    assert opened("classifier").classifier == ("x", "m", tmp_path / "results")
    assert opened("classifier", None, tmp_path).classifier == ("x", "m", tmp_path)
    assert opened("words").classifier == "words of x"
    remote = opened("openai")
    assert (remote.model, remote.endpoint) == ("m", endpoints) and remote.encoder is remote.classifier is None
    with asking.Recorder():
        assert isinstance(opened("encoder").encoder, asking.FirstOption) and opened("openai").encoder is None
    zeros = asking.FirstOption().sentences(["a", "b", "c"])
    assert zeros.shape == (3, 1) and zeros.dtype == np.float32 and not zeros.any()


def test_a_classifier_is_the_one_that_was_trained_here_or_one_from_elsewhere(monkeypatch, tmp_path):
    monkeypatch.setattr(asking, "load_multiple_choice", lambda where: where)
    monkeypatch.setattr(asking, "root", lambda: tmp_path)
    monkeypatch.setattr(asking, "clone_of", lambda top: top)
    entry = {"served": "x", "trained_on": "s"}
    assert asking.trained_classifier({"served": "x"}, "m", tmp_path) == "x"
    file = tmp_path / "finetune" / "s" / "models.json"
    with pytest.raises(
        FileNotFoundError, match="models.m must be trained by the stage finetune of s; got no model in models"
    ):
        asking.trained_classifier(entry, "m", tmp_path)
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"m": {"folder": "weights/m"}}))
    with pytest.raises(FileNotFoundError, match="got no folder .*weights/m/model; name it in studies.s.finetune.asked"):
        asking.trained_classifier(entry, "m", tmp_path)
    (tmp_path / "weights/m/model").mkdir(parents=True)
    assert asking.trained_classifier(entry, "m", tmp_path) == tmp_path / "weights/m/model"
    with pytest.raises(FileNotFoundError, match="got no model in models.json"):
        asking.trained_classifier(entry, "n", tmp_path)
