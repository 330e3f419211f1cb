"What a page is made of, piece by piece: links, tables, plots of the first screen, answers and their words."

import base64
import gzip
import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from mhbench.records.schema import Item, Judgment, Rating, Response, write_records
from mhbench.report import items, page, tables
from mhbench.report.findings import Front
from mhbench.report.page import Picture, ReportTable, Section
from mhbench.steps.score import FAILED, NOT_READ, REFUSED

NAN = float("nan")


# Tables and links -----------------------------------------------------------------------------------------------------


def scored(*rows) -> items.Answers:
    columns = ["study", "model", "mode", "category", "set", "item_id", "correct"]
    return items.Answers(pd.DataFrame(rows, columns=columns).assign(topic=None), {}, {})


ANSWERS = scored(
    ("s", "m", "cot", "x", "D0", "q1", 1.0),
    ("s", "m", "cot", "y", "D0", "q2", 0.0),
    ("s", "m", "cot", "y", "D1", "q3", 0.5),
    ("s", "m", "cot", "y", "D1", "q4", None),
    ("s", "m", "direct", "x", "D0", "q1", 1.0),
    ("t", "m", "cot", "x", "D0", "q9", 1.0),
)


@pytest.mark.parametrize(
    ("row", "link"),
    [
        ({"model": "m", "mode": "cot", "n": 3}, "items?study=s&model=m&mode=cot"),
        ({"model": "m", "mode": None, "n": 3}, "items?study=s&model=m"),
        ({"model": "m", "mode": "cot", "n": 2}, "items?study=s&model=m&mode=cot&set=D0"),
        ({"model": "m", "mode": "cot", "n": 1}, "items?study=s&model=m&mode=cot&set=D1"),
        ({"model": "m", "mode": "cot", "n": 4}, ""),
        (
            {"model": "m", "mode": "cot", "n": 2, "by": "category", "group": "y"},
            "items?study=s&model=m&mode=cot&category=y",
        ),
        ({"model": "m", "mode": "cot", "n": 3, "by": "gender", "group": "y"}, "items?study=s&model=m&mode=cot"),
        ({"model": "m", "study": "t", "n": 1}, "items?study=t&model=m"),
        ({"model": "other", "n": 0}, "items?study=s&model=other"),
        ({"model": "m", "mode": "few", "n": 0}, "items?study=s&model=m&mode=few"),
        ({"model": "m"}, ""),
        ({"n": 3}, ""),
    ],
)
def test_a_row_links_to_as_many_answers_as_it_rests_on(row, link):
    assert page._Links([], ANSWERS).answers(row, "s") == link
    assert page._Links([], None).answers(row, "s") == ""


def test_a_row_links_to_the_card_of_the_judge_that_it_names():
    table = ReportTable("Cards", pd.DataFrame({"judge": ["j1", "j2", "j1"]}), study="s", card="judge")
    links = page._Links([Section("s: judge", tables=[table], study="s")], None)
    assert links.cards == {("s", "j1"): "card-s-j1", ("s", "j2"): "card-s-j2"}
    card = links.card
    assert card({"judge": "j2"}, "s") == "#card-s-j2" and card({"measure": "mean by j1"}, "s") == "#card-s-j1"
    assert card({"judge": "j1"}, "t") == card({"judge": "j3"}, "s") == card({"measure": "by j"}, "s") == ""
    assert card({"judge": "j1", "study": "s"}, "t") == "#card-s-j1"


def test_what_all_rows_of_a_table_share_is_told_below_it():
    long = "x" * 41
    frame = pd.DataFrame(
        {"a": [long] * 4, "b": ["x" * 40] * 4, "n_lost": 0, "n": 0, "n_odd": [0, 0, 0, 1], "c": [*"abcd"]}
    )
    assert page._repeated_texts(frame) == {"a": long} and page._zero_counts(frame) == ["n_lost"]
    assert page._repeated_texts(frame[:3]) == {} and page._zero_counts(frame[:3]) == []
    assert page._repeated_texts(frame.assign(a=[long, long, long, None])) == {}


def test_a_table_is_given_to_its_template_whole():
    rows = {"model": ["m", "k"], "judge": ["j", "j"], "n": [3, 0], "estimate": [0.5, NAN], "ci_low": [0.2, NAN]}
    frame = pd.DataFrame(rows | {"ci_high": [0.8, NAN], "mode": "cot"})
    about = tables.Prose("A heading", "Its text.")
    table = ReportTable("A caption", frame, about, "s", "", "accuracy")
    section = Section("s: score", stage="score", study="s")
    found = page._fill_table_view(table, "s1t1", section, page._Links([section], ANSWERS))
    assert found == {
        "head": ["model", "judge", "n", "estimate [95% interval]", "mode"],
        "right": [False, False, True, False, False],
        "rows": [
            {
                "cells": ["m", "j", "3", "0.500 [0.200, 0.800]", "cot"],
                "link": "items?study=s&model=m&mode=cot",
                "card": "",
            },
            {"cells": ["k", "j", "0", "–", "cot"], "link": "items?study=s&model=k&mode=cot", "card": ""},
        ],
        "id": "s1t1",
        "caption": "A caption",
        "card_at": 1,
        "cards": [],
        "n_at": 2,
        "n": 2,
        "cut": False,
        "doubts": tables.doubts(frame),
        "sampled": tables.sampled(frame),
        "same": [],
        "file": "s-score-a-caption.csv",
        "text": "Its text.",
        "heading": "A heading",
        "executed": "results/studies/s/score/notebook.ipynb",
    }
    many = pd.DataFrame({"measure": range(201), "n_lost": 0, "n_missing": 0})
    found = page._fill_table_view(ReportTable("C", many), "x", Section("T"), page._Links([], None))
    assert (len(found["rows"]), found["n"], found["cut"]) == (200, 201, True)
    assert found["same"] == ["n lost, n missing: 0"] and found["head"] == ["measure"] and found["executed"] == ""
    assert (found["card_at"], found["n_at"]) == (0, -1)
    whole = page._fill_table_view(ReportTable("C", many[:200]), "x", Section("T"), page._Links([], None))
    assert not whole["cut"] and page._Links([], None).sets == []


def test_a_card_has_the_rows_of_one_judge_without_what_no_reader_needs():
    frame = pd.DataFrame(
        {"judge": ["b", "a", "b"], "check": ["x", "y", "z"], "n": [1, 2, NAN], "n_clusters": 1, "interval": "t"}
    )
    table = ReportTable("Cards", frame, study="s", card="judge")
    links = page._Links([Section("s: judge", tables=[table], study="s")], None)
    first, second = page._card_pages(table, links)
    assert (first["who"], first["id"], first["study"], first["head"]) == ("b", "card-s-b", "s", ["check", "n"])
    assert first["rows"] == [["x", "1"], ["z", "–"]] and second["rows"] == [["y", "2"]]


def test_tables_are_files_named_after_section_and_caption(tmp_path):
    frame = pd.DataFrame({"n": [1]})
    one = Section("s: score", tables=[("Alike", frame), ("Alike", frame), ("Other", frame)])
    files = page.write_tables([one, Section("t", tables=[("Alike", frame)])], tmp_path / "csv")
    names = ["s-score-alike.csv", "s-score-alike-2.csv", "s-score-other.csv", "t-alike.csv"]
    assert [f.name for f in files] == names and files[1].read_text() == "n\n1\n"


def test_tables_of_several_studies_stand_one_below_the_other(tmp_path):
    for place, columns in {
        "studies/s/score/counts": {"judge": ["j"], "n": [1], "uncounted": [2]},
        "studies/t/score/counts": {"model": ["m"], "n": [3]},
        "studies/s/judge/counts": {"judge": ["k"], "n": [5]},
    }.items():
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        pd.DataFrame(columns).to_parquet(tmp_path / f"{place}.parquet")
    stages = [("score", "s"), ("score", "t"), ("judge", "s"), ("judge", "t")]
    one = page.across_studies(tmp_path, stages, "score/counts")
    assert one.to_dict("list") == {"study": ["s", "t"], "model": ["j", "m"], "n": [1, 3], "uncounted": [2.0, 0.0]}
    both = page.across_studies(tmp_path, stages, "score/counts", "judge/counts")
    assert list(both)[:2] == ["study", "stage"] and both["model"].tolist() == ["j", "m", "k"]
    assert both["stage"].tolist() == ["score", "score", "judge"]
    assert page.across_studies(tmp_path, [("judge", "t")], "judge/counts").empty


def test_main_numbers_stand_by_study_first_those_drawn_then_accuracies_the_few_last(tmp_path):
    def put(stage, study, rows, first=None):
        folder = tmp_path / "studies" / study / stage
        folder.mkdir(parents=True)
        pd.DataFrame(rows, columns=["measure", "estimate", "n"]).to_parquet(folder / "headline.parquet")
        (folder / "contents.json").write_text(json.dumps({"first": first} if first else {}))

    put(
        "judge",
        "s",
        [("mean", 0.1, 50), ("drawn", 0.2, 50), ("drawn", 0.3, 9), ("drawn", 0.25, 10)],
        {"measure": "drawn", "said": ""},
    )
    put("score", "s", [("gain", 0.9, 50), ("accuracy", 0.5, 50), ("exact match", 0.6, 50), ("accuracy", 0.99, 9)])
    put("score", "a", [("accuracy", 0.1, None)])
    put("other", "a", [("accuracy", 0.7, 50), ("accuracy", 0.8, 50)])
    found = page.headline(tmp_path, [("judge", "s"), ("score", "s"), ("score", "a"), ("other", "a"), ("gone", "a")])
    assert found[["study", "measure", "estimate"]].to_numpy().tolist() == [
        ["s", "drawn", 0.25],
        ["s", "drawn", 0.2],
        ["s", "drawn", 0.3],
        ["s", "exact match", 0.6],
        ["s", "accuracy", 0.5],
        ["s", "accuracy", 0.99],
        ["s", "mean", 0.1],
        ["s", "gain", 0.9],
        ["a", "accuracy", 0.1],
        ["a", "accuracy", 0.7],
        ["a", "accuracy", 0.8],
    ]
    assert list(found) == page._MAIN and found["n"].dtype == "Int64" and page.headline(tmp_path, []).empty


def test_sections_are_read_with_what_their_stage_registered(tmp_path):
    folder, figures = tmp_path / "studies" / "s" / "score", tmp_path / "figures"
    folder.mkdir(parents=True)
    for name in ("one", "two", "three"):
        pd.DataFrame({"model": ["m"], "secret": [1], "estimate": [0.5]}).to_parquet(folder / f"{name}.parquet")
    table = {"hide": ["secret"], "show": True}
    contents = {
        "about": "About.",
        "tables": [
            table | {"name": "one", "caption": "One"},
            table | {"name": "two", "caption": "Two", "show": False},
            table | {"name": "three", "caption": "Three", "card": "model", "about": {"heading": "Own", "text": "Text"}},
        ],
        "figures": [{"name": "f", "caption": "F", "alt": "words"}, {"name": "g", "caption": "G"}],
        "absent": [{"name": "x", "why": "y"}],
        "findings": ["Found."],
        "origins": {"m": "recorded"},
    }
    (folder / "contents.json").write_text(json.dumps(contents))
    verdicts = pd.DataFrame(
        [("score/one[model=m].estimate", "0.5", "T1", "equal", "")],
        columns=["source", "printed", "place", "verdict", "convention"],
    )
    section = page._read_section(
        tmp_path, figures, "score", "s", {"one": tables.Prose("H", "P"), "three": tables.Prose("no")}, verdicts
    )
    assert (section.title, section.text, section.stage, section.study) == ("s: score", "About.", "score", "s")
    one, three = section.all_tables
    assert (one.caption, one.about, one.study, one.card, one.name) == ("One", tables.Prose("H", "P"), "s", "", "one")
    assert list(one.frame) == ["model", "estimate", "printed"] and list(three.frame) == ["model", "estimate"]
    assert (three.about, three.card) == (tables.Prose("Own", "Text"), "model")
    place = figures / "s" / "score"
    assert section.figures == [Picture("F", place / "f.svg", "words"), Picture("G", place / "g.svg", "")]
    assert (section.absent, section.findings, section.origins) == (contents["absent"], ["Found."], {"m": "recorded"})
    with pytest.raises(
        FileNotFoundError, match="judge of s must have left its contents; got no studies/s/judge/contents.json"
    ):
        page.collect(tmp_path, figures, [("judge", "s")])
    (tmp_path / "ledger" / "s").mkdir(parents=True)
    verdicts.to_parquet(tmp_path / "ledger" / "s" / "verdicts.parquet")
    (tmp_path / "ledger" / "s" / "contents.json").write_text(json.dumps(contents | {"tables": [], "figures": []}))
    with_ledger = page.collect(tmp_path, figures, [("score", "s"), ("ledger", "s")])
    assert "printed" in with_ledger[0].all_tables[0].frame
    assert "printed" not in page.collect(tmp_path, figures, [("score", "s")])[0].all_tables[0].frame


def test_tables_and_figures_of_a_study_stand_under_its_questions(tmp_path, monkeypatch):
    questions = {"score/accuracy": "How accurate?", "score/lone": "Alone?", "score": "What else?"}
    monkeypatch.setattr(page, "question_of", lambda stage, name="": questions.get(f"{stage}/{name}", "What else?"))
    monkeypatch.setattr(page.tables, "QUESTIONS", {"What else?": [], "How accurate?": []})
    (tmp_path / "accuracy.svg").write_text("<svg></svg>")
    (tmp_path / "lone.svg").write_text("<svg></svg>")
    frame = pd.DataFrame({"x": [1]})
    made = [
        ReportTable("Acc", frame, tables.Prose("", "It is so. More."), "s", "", "accuracy"),
        ReportTable("Rest", frame, name="rest"),
    ]
    pictures = [Picture("Acc", tmp_path / "accuracy.svg", "words"), Picture("Lone", tmp_path / "lone.svg")]
    section = Section(
        "s: score", "About.", made, pictures, [{"name": "a", "why": "b"}], "score", "s", {"m": "recorded"}, ["Found."]
    )
    other = Section("Over all", "Whole.", [("Key", frame)])
    first, second = page._sections_by_study([section, other], page._Links([section, other], None))
    assert (first["id"], first["name"], first["absent"], second["name"]) == ("g1", "s", "a (b)", "Over all")
    assert "m" in first["banner"] and second["banner"] == ""
    names = [(q["id"], q["name"], q["count"], q["texts"]) for q in first["questions"]]
    assert names == [
        ("g1q1", "What else?", "1 table", ["About.", "Found."]),
        ("g1q2", "How accurate?", "1 table, 1 figure", []),
        ("g1q3", "Alone?", "1 figure", []),
    ]
    [accuracy] = first["questions"][1]["entries"]
    assert (accuracy["id"], accuracy["said"], accuracy["figure"]["alt"]) == ("s1t1", "It is so.", "words")
    [lone] = first["questions"][2]["entries"]
    assert (lone["id"], lone["table"], lone["figure"]["alt"]) == ("s1f1", None, "Lone")
    [rest] = first["questions"][0]["entries"]
    assert (rest["id"], rest["said"], rest["figure"]) == ("s1t2", "", None)
    assert [(q["name"], q["texts"]) for q in second["questions"]] == [("", ["Whole."])]
    with pytest.raises(FileNotFoundError, match="figures must exist; got .*gone.svg"):
        page._embed_picture(Picture("x", tmp_path / "gone.svg"), "t")


def test_a_drawing_is_made_small_without_a_change_that_is_seen():
    svg = '<?xml version="1"?>\n<!DOCTYPE svg>\n<svg>\n <metadata>\n x </metadata>\n'
    svg += '<g id="a" transform="rotate(-0 1 2)">\n'
    svg += ' <path d="M 1.2345 2.5 \nL 3.999 4 z" style="fill: none; stroke: #fff"/>\n'
    svg += ' <text x="1.009" y="20.5">a b</text>\n</g>\n</svg>\n'
    path = '<path d="M1.23 2.5L3.99 4 z" style="fill:none;stroke:#fff"/>'
    assert page._shrink_svg(svg).strip() == f'<svg><g>{path}<text x="1.00" y="20.5">a b</text></g></svg>'


# The first screen -----------------------------------------------------------------------------------------------------


def test_estimates_of_a_study_are_placed_on_its_scale():
    rows = pd.DataFrame(
        {
            "model": ["a", "b", "robot"],
            "estimate": [0.25, 0.5, 0.75],
            "ci_low": [0.125, 0.4, 0.5],
            "ci_high": [0.5, 0.6, 1.0],
        }
    )
    rows = rows.assign(
        n=[10.0, 20, 30],
        origin=["asked", "asked", "simulated"],
        truth=[NAN, NAN, 0.7],
        printed=["0.26 (T1: equal)", None, ""],
    )
    front = Front("s", "accuracy", "Said.", rows, {"chance 1/4": 0.25, "pass_mark": 0.6}, (), 2, ("Note.",))
    plot = page._study_plot(front, 2, "g1")
    kept = {k: plot[k] for k in ("study", "measure", "n_at_once", "said", "notes", "to", "room", "narrow", "scale")}
    assert kept == {
        "study": "s",
        "measure": "accuracy",
        "n_at_once": 2,
        "said": "Said.",
        "notes": ("Note.",),
        "to": "g1",
        "room": 12,
        "narrow": 7,
        "scale": ["0.0", "0.5", "1.0"],
    }
    b, a, robot = plot["rows"]
    assert b == {
        "model": "b",
        "n": 20,
        "estimate": "0.50",
        "at": 50.0,
        "low": 40.0,
        "wide": 20.0,
        "ends": b["ends"],
        "truth": None,
        "paper": "",
    }
    assert b["ends"] == tables.ends_in_words(0.4, 0.6, front.lines)
    assert (a["paper"], a["low"], a["wide"]) == ("0.26", 12.5, 37.5) and (robot["model"], robot["truth"]) == (
        "robot (simulated)",
        70.0,
    )
    sims = rows.assign(model=["a", "b", "sim-robot"])
    assert page._study_plot(front._replace(rows=sims), 5, "")["rows"][2]["model"] == "sim-robot"
    many = page._study_plot(front, 5, "")
    assert (many["room"], many["narrow"]) == (9, 3)
    empty = page._study_plot(Front("s", "", "x", pd.DataFrame()), 1, "")
    assert (empty["rows"], empty["scale"], empty["room"], empty["narrow"]) == ([], ["0.0", "0.5", "1.0"], 24, 15)


def test_a_scale_holds_0_and_1_and_all_that_is_drawn():
    rows = pd.DataFrame({"ci_low": [-0.5], "ci_high": [0.5]})
    assert page._plot_scale(Front("s", "", "", rows, {"x": 1.5})) == (-0.5, 1.5)
    assert page._percent_of_width(0.5, (-0.5, 1.5)) == 50.0 and page._percent_of_width(1 / 3, (0.0, 1.0)) == 33.33


@pytest.mark.parametrize(
    ("lines", "placed"),
    [
        ({"pass": 0.5, "chance": 0.25}, [("chance 0.25", 25.0, " start"), ("pass 0.50", 50.0, " low")]),
        (
            {"a": 0.1, "b": 0.2, "c": 0.3},
            [("a 0.10", 10.0, " start"), ("b 0.20", 20.0, " start low"), ("c 0.30", 30.0, "")],
        ),
        ({"a": 0.1, "b": 0.7}, [("a 0.10", 10.0, " start"), ("b 0.70", 70.0, "")]),
        ({"a": 0.1, "b": 0.699}, [("a 0.10", 10.0, " start"), ("b 0.70", 69.9, " low")]),
        ({"chance_1/4": 0.28, "top": 0.721}, [("chance 1/4", 28.0, ""), ("top 0.72", 72.1, " end low")]),
        ({"x": 0.72}, [("x 0.72", 72.0, "")]),
        ({"x": 0.279}, [("x 0.28", 27.9, " start")]),
    ],
)
def test_names_of_reference_lines_do_not_touch(lines, placed):
    found = page._reference_lines(lines, (0.0, 1.0))
    assert [(x["name"], x["at"], x["side"]) for x in found] == placed


# Answers --------------------------------------------------------------------------------------------------------------


def unpacked(text: str):
    return json.loads(gzip.decompress(base64.b64decode(text)))


def test_answers_are_packed_by_columns_and_the_first_stand_in_a_table():
    rows = pd.DataFrame({c: None for c in items.ROW_COLUMNS}, index=range(3))
    rows = rows.assign(
        study="s", item_id=["q1", "q2", "q2"], model="m", mode="cot", what="right", answer=["A", None, "B"]
    )
    rows = rows.assign(correct=[1.0, NAN, 0.5], sample=[0, 1, 2], key="A", judged=None)
    answers = items.Answers(rows, {"s/q1": {"question": "Größe?"}, "s/q2": {}}, {"0": {"text": "A"}}, 4)
    found = page._embed_answers(answers)
    assert (found["n"], found["wordless"], found["protected"]) == (3, 4, False)
    assert found["shown"][0] == ["s", "q1", "m", "cot", "right", "A", "A", "–"] and len(found["shown"]) == 3
    columns = unpacked(found["rows"])["columns"]
    assert columns["correct"] == [1, None, 0.5] and columns["sample"] == [0, 1, 2]
    assert columns["item_id"] == {"values": ["q1", "q2"], "codes": [0, 1, 1]}
    assert columns["answer"] == {"values": ["A", "B"], "codes": [0, -1, 1]}
    assert unpacked(found["texts"]) == {"items": answers.items, "answers": answers.texts}
    assert "Größe" in gzip.decompress(base64.b64decode(found["texts"])).decode()
    assert page._embed_answers(answers._replace(items={"s/q1": {}}))["protected"]
    with pytest.raises(ValueError, match="Out of range"):
        items.packed({"x": NAN})


def test_what_became_of_an_answer_is_a_word():
    outcomes = [("ok", True, "letter", x) for x in (1.0, 0.0, 0.5, None)]
    outcomes += [("ok", False, "none", 0.0), ("refused", False, "none", 0.0), ("error", False, "none", None)]
    scores = pd.DataFrame(outcomes, columns=["status", "read", "how", "correct"])
    words = ["right", "wrong", "partly right", "not scored", NOT_READ, REFUSED, FAILED]
    assert items._outcome_word(scores).tolist() == words


def judgment(**more) -> Judgment:
    given = {"item_id": "q", "study": "s", "model": "m", "judge": "j", "kind": "label", "label": "pass", "rubric": "r"}
    return Judgment(**given | more)


def test_verdicts_are_told_by_judge_and_whether_judges_agree():
    score = {"kind": "score", "label": None}
    one, two = judgment(), judgment(judge="k", **score, score=62.5)
    failed = judgment(judge="k", status="error", label=None)
    assert items._verdict_texts([one, two, failed]) == "j: pass; k: 62.5; k: error" and items._verdict_texts([]) is None
    by_score = lambda *xs: [judgment(judge=f"j{k}", **score, score=x) for k, x in enumerate(xs)]
    assert (
        items._judges_disagree(by_score(50, 70)) == "agree" and items._judges_disagree(by_score(50, 70.5)) == "disagree"
    )
    assert items._judges_disagree([one, one]) is None and items._judges_disagree([one, failed]) is None
    assert items._judges_disagree([one, judgment(judge="k", label="fail")]) == "disagree"


def test_words_of_an_answer_are_its_text_its_thought_and_its_judges_words():
    verdicts = [judgment(text="x" * 2001), judgment(judge="k", text=None, error="503")]
    written = {"text": " said ", "reasoning": "thought", "error": None}
    told = [{"judge": "j", "verdict": "pass", "text": "x" * 2000}, {"judge": "k", "verdict": "pass", "text": "503"}]
    assert items._answer_words(written, verdicts) == {"text": "said", "reasoning": "thought", "verdicts": told}
    assert items._answer_words({"text": None, "reasoning": "", "error": "e"}, []) == {"error": "e"}


def test_words_are_kept_as_long_as_there_is_room_those_of_wrong_answers_first():
    texts = ["aaa", "bb", "cccc", "d", "ee"]
    stored = SimpleNamespace(column=lambda name: np.array(texts if name == "text" else [None] * 5, dtype=object))
    part = items._StudyPart(
        pd.DataFrame({"what": ["right", "wrong", "right", "wrong"]}), {}, np.array([0, 1, -1, 3]), stored, [[]] * 4
    )
    later = part._replace(rows=pd.DataFrame({"what": ["wrong"]}), place=np.array([4]), judged=[[judgment(text="v")]])
    kept = lambda most: items._answer_texts([part, later], most)
    whole = {"0": {"text": "aaa"}, "1": {"text": "bb"}, "3": {"text": "d"}, "4": {"text": "ee"}}
    whole["4"]["verdicts"] = [{"judge": "j", "verdict": "pass", "text": "v"}]
    assert kept(None) == kept(8) == (whole, 0)
    assert kept(7) == ({k: whole[k] for k in "134"}, 1) and kept(4) == ({k: whole[k] for k in "13"}, 2)
    assert kept(0) == ({}, 4)


def test_an_item_s_texts_are_those_that_it_has():
    item = Item(item_id="q", study="s", task="multiple_choice", question="?", options=["a", "b"], key=["B"], source="x")
    assert items._item_texts(item) == {"question": "?", "options": ["a", "b"], "key": ["B"]}
    more = item.model_copy(update={"stems": ["s"], "context": {"k": "v"}, "rationale": "r", "soft_labels": [0.4, 0.6]})
    assert list(items._item_texts(more)) == ["question", "options", "stems", "context", "key", "rationale", "soft"]


def test_a_study_s_answers_are_read_with_what_judges_and_raters_said(tmp_path):
    "Two items, the second protected: of it there are no texts, no letters and no words."
    about = {
        "study": "s",
        "task": "multiple_choice",
        "question": "?",
        "options": ["a", "b"],
        "key": ["A"],
        "source": "x",
    }
    written = [Item(item_id=i, protected=i == "q2", **about) for i in ("q1", "q2")]
    write_records(written, tmp_path / "text/s/prepare/items.parquet", Item)
    asked = [written[0].model_copy(update={"question": "As asked?"})]
    write_records(asked, tmp_path / "text/s/approach/items.parquet", Item)
    said = [Response(item_id=i, study="s", model="m", mode="cot", text=f"of {i}") for i in ("q2", "q1")]
    write_records(said, tmp_path / "text/s/generate/m/responses.parquet", Response)
    verdicts = [judgment(item_id="q1", mode="cot"), judgment(item_id="q1", mode="direct", judge="k")]
    write_records(verdicts, tmp_path / "text/s/judge/judgments.parquet", Judgment)
    rated = {"item_id": "q1", "study": "s", "target": "A", "source": "x"}
    ratings = [Rating(rater=r, value=v, **rated) for r, v in (("r1", 3.0), ("r2", 4.0))]
    ratings.append(Rating(rater="j", label="yes", variant={"annotator": "model"}, origin="recorded", **rated))
    write_records(ratings, tmp_path / "text/s/prepare/ratings.parquet", Rating)
    row = {
        "cluster": "c",
        "category": None,
        "topic": None,
        "set": None,
        "task": "t",
        "model": "m",
        "mode": "cot",
        "sample": 0,
    }
    row |= {
        "answered_by": "plain",
        "n_votes": 1,
        "status": "ok",
        "read": True,
        "how": "letter",
        "correct": 1.0,
        "confidence": 0.12345,
    }
    scores = pd.DataFrame([row | {"item_id": i, "answer": ["A"], "key": ["A"]} for i in ("q1", "q2")])
    votes = scores[:1].assign(answered_by="majority", n_votes=3, answer=[[]])
    (tmp_path / "studies/s/score").mkdir(parents=True)
    pd.concat([scores, votes]).to_parquet(tmp_path / "studies/s/score/scores.parquet")
    part = items._read_study_part(tmp_path, "s", ["m", "gone"], False)
    assert part.items == {
        "s/q1": {"question": "As asked?", "options": ["a", "b"], "key": ["A"]}
        | {"rated": ["A: yes 1 (1 model)", "A: mean 3.5 (2 raters)"]}
    }
    assert part.place.tolist() == [1, -1, -1] and [len(x) for x in part.judged] == [1, 0, 0]
    shown = part.rows[["item_id", "answer", "key", "confidence", "judged", "judges", "what", "origin", "study"]].fillna(
        ""
    )
    assert shown.to_numpy().tolist() == [
        ["q1", "A", "A", 0.123, "j: pass", "", "right", "asked", "s"],
        ["q2", "", "", 0.123, "", "", "right", "asked", "s"],
        ["q1", "", "A", 0.123, "", "", "right", "asked", "s"],
    ]
    private = items._read_study_part(tmp_path, "s", ["m"], True)
    assert private.place.tolist() == [1, 0, -1] and set(private.items) == {"s/q1", "s/q2"}
    assert items._read_study_part(tmp_path, "none", ["m"], False) is None
    assert items.protected_ids(tmp_path, ["s", "none"]) == {"s/q2"}
    whole = items.answers_of(tmp_path, ["none", "s"], ["m"])
    assert (
        whole.texts == {"0": {"text": "of q1", "verdicts": [{"judge": "j", "verdict": "pass", "text": ""}]}}
        and whole.wordless == 0
    )
    assert items.answers_of(tmp_path, ["s"], ["m"], private=["s"]).texts.keys() == {"0", "1"}


def test_a_judge_a_panel_and_an_adjudicator_are_no_raters_among_others(tmp_path):
    rated = {"item_id": "q1", "study": "s", "target": "m", "source": "x"}
    kinds = [("r1", "person", 10.0), ("r2", "person", 20.0), ("j", "judge", 90.0), ("a", "adjudicator", 50.0)]
    kinds += [("p", "panel", 16.0), ("k", "reference", 40.0)]
    ratings = [Rating(rater=r, kind=kind, value=v, **rated) for r, kind, v in kinds]
    write_records(ratings, tmp_path / "text/s/prepare/ratings.parquet", Rating)
    found = items._rating_summaries(tmp_path, "s", {"q1"}).set_index("who")[["value", "n"]]
    alone = {"models": 90, "adjudicators": 50, "panels": 16, "references": 40}
    expected = {who: (f"mean {v:.1f}", 1) for who, v in alone.items()} | {"raters": ("mean 15.0", 2)}
    assert {who: tuple(row) for who, row in zip(found.index, found.to_numpy())} == expected
