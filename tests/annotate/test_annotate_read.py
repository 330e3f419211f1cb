"Ratings from files of answers: what a rating says of its page, who gave it, and what is refused."

import contextlib
import hashlib
import json
from types import SimpleNamespace

import pandas as pd
import pytest

from mhbench.annotate import export
from mhbench.annotate.study import RatedAnswer, build_study, question_fingerprint
from mhbench.records.schema import Rating, Response, fingerprint

from .conftest import items

ASKS = {"z": "Safe?", "a": "Kind?"}


def study_of(entry: dict, **more):
    "A study of one item, with the answers of two authors, and its question."
    [item] = items(1)
    said = [Response(item_id="q1", study="example", model=m, mode="cot", text=f"{m}!") for m in "ba"]
    study = build_study("example", entry, [item.model_copy(update=more)], said)
    return study, study.questions[0]


def label(x: str) -> RatedAnswer:
    return RatedAnswer(label=x)


PLAIN = {"wording": "", "order": ["B", "A"], "starts": {"A": 7}, "sides": ["b", "a"]}


@pytest.mark.parametrize(
    ("entry", "shown", "target", "answers", "variant"),
    [
        ({"kind": "sliders"}, {}, "A", {}, {"order": "1,0", "start": "7"}),
        ({"kind": "sliders"}, {}, "B", {}, {"order": "1,0"}),
        ({"kind": "labels"}, {"order": ["b", "a"]}, "a", {}, {"order": "b,a"}),
        ({"kind": "agree"}, {}, "key", {"key": label("B")}, {"order": "1,0", "agrees": "yes"}),
        ({"kind": "agree"}, {}, "key", {"key": label("A")}, {"order": "1,0", "agrees": "no"}),
        ({"kind": "duel", "axes": ASKS}, {}, "z", {}, {"first": "b", "second": "a"}),
        ({"kind": "yes_no", "asks": ASKS}, {}, "z", {}, {}),
        (
            {"kind": "conversation", "asks": ASKS},
            {},
            "z",
            {"turn-10": label("yes"), "turn-2": label("yes"), "z": label("Correct")},
            {"turns": "2,10"},
        ),
        (
            {"kind": "errors", "errors": {"fact": "x", "logic": "y", "tone": "z"}},
            {},
            "b",
            {"logic": label("yes"), "fact": label("yes"), "span-fact": label("0-1"), "span-tone": label("0-1")},
            {"kinds": "fact,logic", "span-fact": "0-1"},
        ),
    ],
)
def test_a_rating_says_what_its_page_showed(entry, shown, target, answers, variant):
    study, question = study_of(entry, stems=["Hello."])
    found = export._rating_variant(study, question, PLAIN | shown, target, answers)
    assert found == {"asked": question.asked} | variant


@pytest.mark.parametrize(
    ("texts", "name"),
    [({"text_male": "m", "text_female": "f"}, "gender"), ({"text_male": "m", "text_old": "o"}, "wording")],
)
def test_a_wording_is_a_gender_where_all_are(texts, name):
    study, question = study_of({"kind": "sliders"}, variant=texts)
    found = export._rating_variant(study, question, PLAIN | {"wording": "male"}, "B", {})
    assert found[name] == "male" and len({"gender", "wording"} & set(found)) == 1


def rating(rater: str, **more) -> Rating:
    given = {"item_id": "q1", "study": "example", "target": "A", "value": 1.0, "source": "x"}
    return Rating(**given | {"rater": rater} | more)


def put(folder, *ratings: Rating, name: str = "r.csv"):
    export._build_ratings_table(ratings).to_csv(folder / name, index=False)
    return folder / name


def test_ratings_are_of_items_of_the_study_and_simulated_where_an_old_file_says_so(tmp_path):
    file = put(tmp_path, rating("r1", variant={"simulated": "true"}), rating("r2", variant={"simulated": "no"}))
    origins = [r.origin for r in export.ratings_of_file(file)]
    assert origins[0] == "simulated" and origins[1] != "simulated"
    assert len(export.ratings_of_file(file, items(1))) == 2
    for wrong in ([i.model_copy(update={"study": "other"}) for i in items(1)], items(3)[1:]):
        with pytest.raises(ValueError, match="item_id must name an item of the study; got 'q1' of example .r.csv."):
            export.ratings_of_file(file, wrong)
    with pytest.raises(ValueError, match="path must end in one of .sqlite, .parquet, .csv, .json; got 'r.txt'"):
        export.ratings_of_file(tmp_path / "r.txt")
    with pytest.raises(FileNotFoundError, match="path must be a file of answers; got .*none.csv'"):
        export.ratings_of_file(tmp_path / "none.csv")


def test_ratings_of_a_file_take_the_place_of_a_corpus_s_under_pseudonyms(tmp_path):
    asked = {"asked": question_fingerprint(items(1)[0])}
    corpus = [rating("Ann"), rating("Ben", target="B")]
    own = export.study_ratings(corpus, items(1))
    assert [r.rater for r in own.ratings] == ["rater-1", "rater-2"]
    told = "2 names of raters are replaced: rater-1, rater-2, ... in order; `mhbench annotate who` reads them "
    assert own.notes == [f"{told}from the private key"]
    put(tmp_path, rating("rater-1", variant=asked), rating("rater-2", variant=asked))
    replaced = export.study_ratings(corpus, items(1), "r.csv", tmp_path)
    assert replaced.notes == ["2 ratings by 2 raters from r.csv, in the place of the 2 that came with the corpus"]
    put(tmp_path, rating("rater-1"), rating("rater-2", variant=asked))
    notes = export.study_ratings([], items(1), "r.csv", tmp_path).notes
    assert notes == [
        "2 ratings by 2 raters from r.csv",
        "1 of 2 ratings do not record what was asked: nothing compared it with the items",
    ]
    put(tmp_path, rating("s1", origin="simulated", variant=asked))
    assert export.study_ratings([], items(1), "r.csv", tmp_path).notes == ["1 rating by 1 simulated raters from r.csv"]
    put(tmp_path, rating("s1", origin="simulated", variant=asked), rating("rater-1", variant=asked))
    with pytest.raises(ValueError, match="raters must be people, or be simulated; got 1 simulated among 2 .r.csv."):
        export.study_ratings([], items(1), "r.csv", tmp_path)
    other = {"asked": "0" * 12}
    put(
        tmp_path,
        rating("rater-1", variant=other),
        rating("rater-1", item_id="q2", variant=other),
        rating("rater-2", variant=other),
    )
    with pytest.raises(ValueError, match="got other words or options for 'q1' and 1 more .r.csv."):
        export.study_ratings([], items(2), "r.csv", tmp_path)


def test_raters_are_named_for_review_from_a_page_s_file_alone(monkeypatch, tmp_path):
    store = SimpleNamespace(study="the study")
    opened = []
    monkeypatch.setattr(export, "open_store", lambda path: opened.append(path) or contextlib.nullcontext(store))
    monkeypatch.setattr(export, "pseudonym_by_rater", lambda store: {"Ann": "rater-1", "Ben": "rater-2"})
    monkeypatch.setattr(export, "flags", lambda of, study: {"Ann": "", "Ben": "fast"} if study == "the study" else {})
    assert export.raters_for_review("a.sqlite", tmp_path).to_dict("list") == {"rater": ["rater-2"], "reasons": ["fast"]}
    assert opened == [tmp_path / "a.sqlite"]
    for file in (None, "a.csv"):
        found = export.raters_for_review(file, tmp_path)
        assert list(found) == ["rater", "reasons"] and found.empty
    assert len(opened) == 1


def test_a_hash_of_answers_is_of_their_bytes_of_a_key_beside_them_or_of_a_page_s_ratings(monkeypatch, tmp_path):
    sha = lambda raw: hashlib.sha256(raw).hexdigest()
    for name in ("a.csv", "a.json", "key.json"):
        (tmp_path / name).write_text(name)
    assert export.hash_of_answers(tmp_path / "a.csv") == sha(b"a.csv")
    assert export.hash_of_answers(tmp_path / "a.json") == sha(b"a.jsonkey.json")
    (tmp_path / "key.json").unlink()
    assert export.hash_of_answers(tmp_path / "a.json") == sha(b"a.json")
    given = [rating("r1")]
    monkeypatch.setattr(export, "_ratings_of_store", lambda path: export.Rated(given, []))
    assert export.hash_of_answers(tmp_path / "a.sqlite") == fingerprint([r.model_dump() for r in given])


def test_what_is_no_rating_is_counted():
    check = lambda passed, role="check": {"role": role, "passed": passed}
    exported = export.Exported(
        [], [rating("r1")] * 3, [check(True), check(False), check(None), check(True, "practice")], [{}]
    )
    assert export.left_out(exported) == [
        "3 second ratings; 1 of 2 attention checks passed",
        "1 pages were begun and are not complete: they are in answers.csv, and in no rating",
    ]
    assert export._time_text(None) == "" and export._time_text(1_500) == "1970-01-01T00:00:01.500+00:00"


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        (
            {"item_id": "q1", "study": "s", "rater": "r"},
            "columns must include item_id, study, rater, target and value or label",
        ),
        ({"value": "x"}, "a row must hold numbers in value and JSON in variant; got .*r.csv:2"),
        ({"variant": "{"}, "a row must hold numbers in value and JSON in variant"),
        (
            {"value": "101", "variant": '{"asked": "x"}'},
            "a value that the page asked for must be from 0 to 100; got 101.0 .r.csv:2",
        ),
        ({"value": "-1", "variant": '{"asked": "x"}'}, "from 0 to 100; got -1.0"),
    ],
)
def test_a_table_of_answers_that_does_not_fit_is_refused(tmp_path, columns, told):
    whole = {"item_id": "q1", "study": "example", "rater": "r", "target": "A", "value": "1"}
    row = columns if "item_id" in columns else whole | columns
    pd.DataFrame([row]).to_csv(tmp_path / "r.csv", index=False)
    with pytest.raises(ValueError, match=told):
        export.ratings_of_file(tmp_path / "r.csv")


def test_a_table_of_answers_is_read_with_its_numbers_and_without_names(tmp_path):
    rows = [
        {"rater": "Ann", "value": "101", "sd": "0.5", "n": "3", "comment": "'=1", "kind": ""},
        {"rater": "sim", "value": "0", "origin": "simulated", "session": "1"},
        {"rater": "Ann", "value": "", "label": "yes", "target": "B", "within": json.dumps({"persona": "p"})},
        {"rater": "jury", "value": "2", "kind": "panel", "target": "C"},
        {"rater": "old", "value": "2", "variant": '{"simulated": "true"}', "target": "D"},
    ]
    table = pd.DataFrame(rows).fillna("").assign(item_id="q1", study="example")
    table["target"] = table["target"].replace("", "A")
    table.to_csv(tmp_path / "r.csv", index=False)
    first, second, third, panel, old = export.ratings_of_file(tmp_path / "r.csv")
    assert (first.rater, first.value, first.sd, first.n, first.comment, first.source) == (
        "rater-1",
        101.0,
        0.5,
        3,
        "=1",
        "r.csv",
    )
    assert (second.rater, second.value, second.origin, second.session) == ("sim", 0.0, "simulated", "1")
    assert (third.rater, third.value, third.label, third.within) == ("rater-1", None, "yes", {"persona": "p"})
    assert (panel.rater, panel.kind, first.kind) == ("jury", "panel", "person") and (old.rater, old.origin) == (
        "old",
        "simulated",
    )
    pd.concat([table, table[1:2]]).to_csv(tmp_path / "r.csv", index=False)
    with pytest.raises(
        ValueError, match="a target once in a session; got two of q1, A, sim, at line 3 and here .r.csv:7."
    ):
        export.ratings_of_file(tmp_path / "r.csv")
