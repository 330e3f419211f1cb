"Ratings from files of answers: what a rating says of its page, who gave it, and what is refused."

import contextlib
import hashlib
import json
from types import SimpleNamespace

import pandas as pd
import pytest

from mhbench.annotate import export, simulate, sources
from mhbench.annotate.study import RatedAnswer, build_study, question_fingerprint
from mhbench.records.schema import Rating, Response, fingerprint, write_records

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


# Simulated raters and the sources of a round --------------------------------------------------------------------------


def drawn(*words) -> int:
    "The SHA-256 of words as JSON, as a number."
    text = json.dumps(words, ensure_ascii=False, separators=(",", ":"))
    return int(hashlib.sha256(text.encode()).hexdigest(), 16)


@pytest.mark.parametrize("rater", [f"sim-{k}" for k in range(1, 7)])
def test_a_simulated_opinion_is_the_question_s_with_a_part_of_the_rater_s_own(rater):
    of_question = lambda target: drawn(3, "example", "q1", target)
    of_rater = lambda target: drawn(3, "example", "q1", target, rater)
    study, question = study_of({"kind": "sliders"})
    values = {t: RatedAnswer(value=float(of_question(t) % 81 + of_rater(t) % 21)) for t in "ABCDE"}
    assert simulate.opinion(study, question, rater, 3) == values
    study, question = study_of({"kind": "labels", "difficulties": ["Easy", "Hard"]})

    def choice(target: str, choices: list[str]) -> RatedAnswer:
        draw_of_choice = of_question(target) if of_rater(target) % 4 else of_rater(target) // 4
        return label(choices[draw_of_choice % len(choices)])

    verdicts = {t: choice(t, ["Correct", "Incorrect", "Abstain"]) for t in "ba"}
    assert simulate.opinion(study, question, rater, 3) == verdicts | {
        "difficulty": choice("difficulty", ["Easy", "Hard"])
    }
    check = question.model_copy(update={"expected": {"b": "Incorrect"}})
    assert simulate.opinion(study, check, rater, 3)["b"] == label("Incorrect")
    sliders, question = study_of({"kind": "sliders"})
    expected = question.model_copy(update={"expected": {"A": [10.0, 21.0]}})
    assert simulate.opinion(sliders, expected, rater, 3)["A"] == RatedAnswer(value=15.0)
    errors = {"fact": "x", "logic": "y", "tone": "z"}
    study, question = study_of({"kind": "errors", "errors": errors})
    [ticked] = simulate.opinion(study, question, rater, 3)
    assert ticked == [*errors][drawn(3, question.question_id, rater) % 3]


def test_an_entry_comes_from_its_own_file_from_the_parameters_or_from_a_demonstration(tmp_path):
    (tmp_path / "own.yaml").write_text("kind: agree\n")
    text = (
        "studies: {a: {prepare: {loader: x, path: p}, annotate: {kind: sliders}}, b: {prepare: {}, annotate: null}}\n"
    )
    (tmp_path / "params.yaml").write_text(text)
    params = tmp_path / "params.yaml"
    assert sources.entry_of("any", params, tmp_path / "own.yaml") == ({"kind": "agree"}, tmp_path)
    corpus = {"loader": "x", "path": "p", "study": "a"}
    assert sources.entry_of("a", params) == ({"kind": "sliders", "corpus": corpus}, tmp_path)
    demo = sources.demo_names()[0]
    assert sources.entry_of(demo, params) == (sources.demo_entry(demo), tmp_path)
    assert sources.entry_of(demo, tmp_path / "gone.yaml") == (sources.demo_entry(demo), tmp_path)
    with pytest.raises(
        ValueError, match=f"with an entry annotate, or one of a, {demo}, .*; got 'b' .*add studies.b.annotate"
    ):
        sources.entry_of("b", params)
    with pytest.raises(
        FileNotFoundError, match="file must be an annotation study; got .*none.yaml', which is not there"
    ):
        sources.entry_of("a", params, tmp_path / "none.yaml")
    with pytest.raises(ValueError, match=f"demo_entry: name must be one of {demo}, .*; got 'none'"):
        sources.demo_entry("none")


def said(model: str, mode: str = "cot", sample: int = 0, item_id: str = "q1") -> Response:
    return Response(item_id=item_id, study="example", model=model, mode=mode, sample=sample, text="t")


def test_answers_to_be_judged_are_first_samples_of_one_mode(tmp_path):
    of = lambda entry, *responses: sources.responses_of(
        entry, SimpleNamespace(items=items(1), responses=list(responses)), tmp_path
    )
    both = (said("a"), said("a", "few_shot"), said("b", sample=1), said("b"))
    assert of({"mode": "cot"}, *both) == [both[0], both[3]] and of({}, *both[2:]) == [both[3]]
    with pytest.raises(ValueError, match="mode must be one of cot, few_shot where answers have several; got none"):
        of({}, *both)
    given = [{"item_id": "q1", "model": "m", "text": "x"}]
    [own] = of({"answers": given})
    assert (own.study, own.mode, own.text) == ("example", "zero_shot", "x") and of({"answers": given, "mode": "cot"})[
        0
    ].mode == "cot"
    for name in ("b", "a"):
        write_records([said(name)], tmp_path / f"{name}.parquet", Response)
    assert [r.model for r in of({"answers": "*.parquet"})] == ["a", "b"]
    with pytest.raises(
        FileNotFoundError, match="answers must name a Parquet file of responses, .*; got 'gone/.*', which is not"
    ):
        of({"answers": "gone/*.parquet"})
    with pytest.raises(
        ValueError, match="scores must name the table that says which answers are wrong; got none .kind errors."
    ):
        of({"kind": "errors"}, said("a"))
    assert of({"kind": "errors"}) == [] and len(of({"kind": "errors", "answers": given})) == 1


def test_wrong_answers_are_drawn_by_the_table_of_scores(tmp_path, monkeypatch):
    calls = []

    def error_sample(scores, n, *, mode, seed):
        calls.append((scores["item_id"].tolist(), n, mode, seed))
        return scores[scores["correct"] == 0]

    monkeypatch.setattr(sources, "error_sample", error_sample)
    rows = [("a", "q1", 0, 0.0), ("a", "q2", 0, 1.0), ("b", "q1", 1, 0.0), ("b", "q2", 0, 0.0)]
    table = pd.DataFrame(rows, columns=["model", "item_id", "sample", "correct"])
    table.to_parquet(tmp_path / "scores.parquet")
    responses = [said(m, item_id=i) for m in "ab" for i in ("q1", "q2")]
    corpus = SimpleNamespace(items=items(2), responses=responses)
    found = sources.responses_of({"kind": "errors", "scores": "scores.parquet"}, corpus, tmp_path)
    assert [(r.model, r.item_id) for r in found] == [("a", "q1"), ("b", "q2")]
    entry = {"scores": "scores.parquet", "n_wrong": 1, "seed": 7, "mode": "cot"}
    sources.responses_of(entry, corpus, tmp_path)
    assert calls == [(["q1", "q2", "q2"], 3, "cot", 20250107), (["q1", "q2", "q2"], 1, "cot", 7)]


def test_a_corpus_is_the_demonstration_s_or_lies_beside_its_entry(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(sources, "load_corpus", lambda loader, path, **more: calls.append((loader, path, more)))
    monkeypatch.setattr(sources, "demo_path", lambda loader: f"demo of {loader}")
    for path in (None, "demo"):
        sources.entry_corpus({"corpus": {"loader": "x", "path": path}}, tmp_path)
        assert calls.pop() == ("x", "demo of x", {"study": None})
    corpus = {"loader": "x", "path": "p.csv", "study": "s", "options": {"n": 1}}
    sources.entry_corpus({"corpus": corpus}, tmp_path)
    assert calls.pop() == ("x", tmp_path / "p.csv", {"study": "s", "n": 1})
    sources.entry_corpus({"corpus": corpus | {"options": {"strict": False}}}, tmp_path)
    _, _, more = calls.pop()
    assert more.pop("set_aside").endswith("/set_aside.jsonl") and more == {"study": "s", "strict": False}
    with pytest.raises(ValueError, match="corpus must name a loader and a path; got {'path': 'p'}"):
        sources.entry_corpus({"corpus": {"path": "p"}}, tmp_path)
