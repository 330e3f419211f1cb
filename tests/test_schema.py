"Records: their defaults and rules, how they are kept and drawn; each expected by hand."

import json

import numpy as np
import pandas as pd
import pytest

from mhbench.records import schema as s
from mhbench.records.draw import assign, draw_items, systematic
from mhbench.records.schema import Item, Judgment, Rating, Record, Response, Score, StoredRecords, validate
from mhbench.records.transcript import Scenario, Transcript, Turn, read_transcripts, scripted_cases, write_transcripts

ITEM = {"item_id": "q1", "study": "s", "task": "multiple_choice", "question": "?", "options": ["a", "b"], "source": "x"}
ANSWER = {"item_id": "q1", "study": "s", "model": "m"}


def item(**more) -> Item:
    return Item(**ITEM | {"key": ["A"]} | more)


def test_what_is_not_said_has_a_default():
    given = ITEM | {"key": ["A"], "language": "en", "protected": False}
    filled = {k: v for k, v in item().model_dump().items() if v not in (None, [], {})}
    assert filled == {k: v for k, v in given.items() if v is not False} | {"protected": False}
    response = Response(**ANSWER, mode="cot", text="x").model_dump()
    assert {k: v for k, v in response.items() if v not in (None, [], {})} == ANSWER | {
        "mode": "cot",
        "text": "x",
        "origin": "asked",
        "sample": 0,
        "status": "ok",
        "attempts": 1,
        "prompt_tokens": 0,
        "completion_tokens": 0,
        "cost_usd": 0.0,
        "uncounted": 0,
        "votes": False,
        "chosen_by": "language model",
        "numbered": False,
        "wording": "ours",
    }
    judgment = Judgment(**ANSWER, judge="j", kind="label", rubric="r", label="ok").model_dump()
    assert {k: v for k, v in judgment.items() if v not in (None, [], {})} == ANSWER | {
        "judge": "j",
        "kind": "label",
        "rubric": "r",
        "label": "ok",
        "mode": "zero_shot",
        "origin": "asked",
        "sample": 0,
        "status": "ok",
        "attempts": 1,
        "prompt_tokens": 0,
        "completion_tokens": 0,
        "cost_usd": 0.0,
        "uncounted": 0,
        "repeat": 0,
    }
    rating = Rating(item_id="q1", study="s", rater="r1", target="A", value=2.0, source="x").model_dump()
    assert {k: v for k, v in rating.items() if v not in (None, [], {})} == {
        "item_id": "q1",
        "study": "s",
        "rater": "r1",
        "target": "A",
        "value": 2.0,
        "source": "x",
        "origin": "asked",
        "kind": "person",
    }
    scenario = Scenario(item_id="q1", study="s", prompts=["Hi"], source="x").model_dump()
    assert scenario["protected"] is True and (scenario["persona"], scenario["person"]) == ("", "")
    turn = Turn(role="user", text="Hi").model_dump()
    assert [turn[k] for k in ("status", "attempts", "prompt_tokens", "completion_tokens", "cost_usd")] == [
        "ok",
        0,
        0,
        0,
        0.0,
    ]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: item(aliases={"x": "c"}), r"aliases must stand for options; got \['c'\]"),
        (lambda: item(order=[0, 0]), r"order must hold each place of the 2 options once; got \[0, 0\]"),
        (lambda: item(soft_labels=[1.0]), r"soft_labels must have one entry an option \(2\); got 1"),
        (lambda: item(soft_labels=[0.5, 0.500002]), "soft_labels must sum to 1; got 1.000002"),
        (lambda: item(soft_labels=[0.5, 0.5], soft_labels_low=[0.1]), "soft_labels_low must have one entry an option"),
        (lambda: item(soft_labels_high=[0.1, 0.2]), r"soft_labels_high must have one entry an option \(2\), beside"),
        (lambda: item(question=""), "question must not be empty"),
        (lambda: item(item_id="a b"), "item_id"),
        (lambda: item(study="-x"), "study"),
        (lambda: item(other=1), "Extra inputs"),
        (lambda: Response(**ANSWER, mode="cot"), "text must be present where status is ok; got None"),
        (lambda: Response(**ANSWER, mode="cot", text="x", attempts=-1), "greater than or equal to 0"),
        (lambda: Response(**ANSWER, mode="odd", text="x"), "mode"),
        (lambda: Judgment(**ANSWER, judge="j", kind="label", rubric="r"), "label or score must be present"),
        (
            lambda: Judgment(**ANSWER, judge="j", kind="label", rubric="r", label="x", status="error"),
            "label and score must be None where status is error; got 'x', None",
        ),
        (
            lambda: Judgment(**ANSWER, judge="j", kind="label", rubric="r", score=1.0),
            "score must be present exactly for",
        ),
        (
            lambda: Judgment(**ANSWER, judge="j", kind="score", rubric="r", label="x"),
            "score must be present exactly for",
        ),
        (lambda: Judgment(**ANSWER, judge="j", kind="score", rubric="r", score=100.1), "less than or equal to 100"),
        (lambda: Rating(item_id="q", study="s", rater="r", target="A", source="x"), "exactly one of value and label"),
        (
            lambda: Rating(item_id="q", study="s", rater="r", target="A", source="x", value=1.0, label="a"),
            "exactly one",
        ),
        (lambda: Scenario(item_id="q", study="s", source="x"), "prompts or persona must be given, and not both"),
        (lambda: Scenario(item_id="q", study="s", source="x", prompts=["a"], persona="b"), "and not both"),
        (
            lambda: Scenario(item_id="q", study="s", source="x", prompts=["a", " "]),
            "prompts must hold text; got an empty",
        ),
    ],
)
def test_a_record_that_does_not_fit_is_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_what_fits_at_the_edge_is_taken():
    assert item(soft_labels=[0.5, 0.5000009], soft_labels_low=[0.4, 0.4], order=[1, 0]).order == [1, 0]
    assert Response(**ANSWER, mode="cot", letter_logprobs={"A": -0.1}).text is None
    assert Response(**ANSWER, mode="cot", status="error").text is None
    assert Judgment(**ANSWER, judge="j", kind="score", rubric="r", score=100.0).score == 100
    assert Judgment(**ANSWER, judge="j", kind="score", rubric="r", status="error").score is None


def test_what_an_item_is_and_what_makes_it_dependent():
    plain, variant = item(), item(item_id="q2", base_id="q1", variant={"question": s.AWAITING})
    assert (plain.base, plain.cluster, plain.awaits_question) == ("q1", "q1", False)
    assert (variant.base, variant.cluster, variant.awaits_question) == ("q1", "q1", True)
    assert item(group_id="g", base_id="q0").cluster == "g" and plain.right == ["A"]
    soft = item(key=[], soft_labels=[0.4, 0.6])
    assert soft.right == ["B"] and item(key=[], soft_labels=[0.5, 0.5]).right == []
    assert s.letters(26)[-1] == "Z" and s.letters(0) == []
    for n in (-1, 27):
        with pytest.raises(ValueError, match=f"n must be between 0 and 26; got {n}"):
            s.letters(n)
    assert Rating(item_id="q", study="s", rater="r", target="A", source="x", value=1.0, kind="judge").by_model
    model = Rating(item_id="q", study="s", rater="r", target="A", source="x", value=1.0, variant={"annotator": "model"})
    assert model.by_model and not model.model_copy(update={"variant": {}}).by_model


def test_whom_a_run_did_not_ask_is_said_in_one_sentence():
    asked = [Response(**ANSWER | {"model": f"m{k}"}, mode="cot", text="x", origin="recorded") for k in range(7)]
    asked += [Response(**ANSWER, mode="cot", text="x", origin=o) for o in ("asked", "simulated", "recorded")]
    asked += [Judgment(**ANSWER, judge="j", kind="label", rubric="r", label="x")]
    asked += [Rating(item_id="q", study="s", rater="r9", target="A", source="x", value=1.0, origin="composed")]
    got = s.origins(asked)
    assert got == {f"m{k}": "recorded" for k in range(7)} | {"m": "simulated", "j": "asked", "r9": "composed"}
    end = " (this run did not ask them; see the column `origin`)."
    six = "recorded: m0, m1, m2, m3, m4, m5"
    assert s.origin_banner(got) == f"Simulated: m; composed: r9; {six} and 1 more{end}"
    assert s.origin_banner({f"m{k}": "recorded" for k in range(6)}) == f"R{six[1:]}{end}"
    assert s.origin_banner({"m": "asked"}) == ""


class Small(Record):
    name: str
    n: int = 0
    share: float | None = None
    facts: dict[str, str] | None = None
    parts: list[int] = []
    good: bool | None = None


ROWS = [
    Small(name="a"),
    Small(name="b", n=2, share=0.5, facts={"x": "é"}, parts=[1, 2], good=True),
    Small(name="a", facts={}, good=False),
]


def test_columns_are_those_of_a_record_in_its_order():
    assert s.columns(Small) == ["name", "n", "share", "facts", "parts", "good"]
    assert s.columns(Small, dict, list) == ["facts", "parts"] and s.columns(Small, float) == ["share"]
    frame = s.frame(ROWS, Small)
    assert list(frame) == s.columns(Small) and list(s.frame([], Small)) == s.columns(Small)
    full = s.frame([ROWS[1]], Small).assign(other=1)[["other", *reversed(s.columns(Small))]]
    table = s.conform(full, Small)
    assert list(table) == s.columns(Small)
    assert [str(table[c].dtype) for c in ("n", "share", "good")] == ["int64", "float64", "bool"]
    with pytest.raises(ValueError, match=r"columns must be those of Small; got none of \['n', 'good'\]"):
        s.conform(full.drop(columns=["n", "good"]), Small)
    assert "correct" in s.columns(Score, float) and "answer" in s.columns(Score, list)


@pytest.mark.parametrize("group", [1, 2, 50])
def test_records_are_kept_and_read_by_row_and_by_column(tmp_path, group, monkeypatch):
    assert s.ROW_GROUP == 50_000
    monkeypatch.setattr(s, "ROW_GROUP", group)
    path = s.write_records(ROWS, tmp_path / "deep" / "er" / "r.parquet")
    assert list(path.parent.iterdir()) == [path] and s.read_records(path, Small) == ROWS
    again = s.write_records(iter(ROWS), tmp_path / "again.parquet", Small)
    assert again.read_bytes() == path.read_bytes()
    both = StoredRecords([path, str(again)], Small)
    assert len(both) == 6 and list(both) == ROWS * 2 and both[4] == ROWS[1]
    for name in s.columns(Small):
        expected = [getattr(r, name) for r in ROWS * 2]
        assert both.column(name).tolist() == expected == s.column_of(both, name).tolist()
        assert s.column_of(ROWS * 2, name).tolist() == expected
    empty = s.write_records([], tmp_path / "empty.parquet", Small)
    assert s.read_records(empty, Small) == [] and StoredRecords([], Small).column("n").tolist() == []
    with pytest.raises(ValueError, match="record must be given where records is empty"):
        s.write_records([], tmp_path / "none.parquet")
    with pytest.raises(ValueError, match=r"records must all be Small; got a Turn"):
        s.write_records([ROWS[0], Turn(role="user", text="x")], tmp_path / "mixed.parquet")
    assert not (tmp_path / "mixed.parquet").exists()


def test_a_file_of_another_record_or_version_is_named(tmp_path):
    old = pd.DataFrame({"name": ["a", "b"], "n": [1, 2]})
    old.to_parquet(tmp_path / "old.parquet")
    stored = StoredRecords([tmp_path / "old.parquet"], Small)  # from before the other fields
    assert stored.column("share").tolist() == [None, None] and stored.column("parts").tolist() == [[], []]
    assert [r.n for r in stored] == [1, 2]
    old.drop(columns="name").assign(x=1).to_parquet(tmp_path / "other.parquet")
    with pytest.raises(ValueError, match=r"with missing \['name'\] and unknown \['x'\]; it was written by another"):
        s.read_records(tmp_path / "other.parquet", Small)
    old.assign(n=["1", "2"]).to_parquet(tmp_path / "odd.parquet")
    with pytest.raises(ValueError, match=r"Small.n must hold what fits; got '1' \(Input should be a valid integer\)"):
        StoredRecords([tmp_path / "odd.parquet"], Small).column("n")
    with pytest.raises(ValueError, match=r"Small.n does not fit: .*odd.parquet:row 0"):
        s.read_records(tmp_path / "odd.parquet", Small)
    (tmp_path / "no.parquet").write_text("x")
    with pytest.raises(ValueError, match="path must be a Parquet file"):
        s.read_records(tmp_path / "no.parquet", Small)
    with pytest.raises(FileNotFoundError, match="which is not there; run the stage that writes it"):
        s.read_records(tmp_path / "none.parquet", Small)


def test_rows_that_do_not_fit_are_named_or_set_aside(tmp_path):
    rows = [
        ("f:1", {"name": "a"}),
        ("f:2", {"name": 3}),
        ("f:3", {"name": "a", "n": 1}),
        ("f:4", {"name": "b", "n": -1}),
    ]
    file = tmp_path / "deep" / "aside.jsonl"
    got = validate(rows, Small, strict=False, set_aside=file, unique="name")
    assert [r.n for r in got.records] == [0, -1]
    assert [(a["place"], a["column"], a["value"]) for a in got.set_aside] == [
        ("f:2", "name", "3"),
        ("f:3", "name", "'a'"),
    ]
    assert got.set_aside[1]["rule"] == "name must be unique; got 'a' again, first at f:1"
    assert [json.loads(line)["place"] for line in file.read_text().splitlines()] == ["f:2", "f:3"]
    validate(rows[:1], Small, strict=False, set_aside=file)
    assert file.read_text() == ""  # of this time
    validate(rows[:1], Small, set_aside=tmp_path / "none.jsonl")
    assert not (tmp_path / "none.jsonl").exists()
    with pytest.raises(
        ValueError, match=r"validate: Small.name does not fit: .*; got 3 \(f:2\); mend the row, or go on"
    ):
        validate(rows, Small)
    with pytest.raises(ValueError, match="set_aside must be a path where strict=False; got None"):
        validate(rows, Small, strict=False)
    with pytest.raises(ValueError, match=r"Item.key.*got \['C'\] \(f:1\); ask"):
        validate([("f:1", ITEM | {"key": ["C"]})], Item, remedy="ask")
    judged = [
        Judgment(**ANSWER, judge="j", kind=kind, rubric="r", **more)
        for kind, more in (("label", {"label": "x"}), ("score", {"score": 1.0}))
    ]
    assert s.judgments_of_kind("f", judged[:1], "label") == judged[:1]
    with pytest.raises(ValueError, match=r"f: judgments must be of kind label; got score \(q1, j\)"):
        s.judgments_of_kind("f", judged, "label")


def test_a_fingerprint_is_of_the_content():
    assert s.fingerprint({"b": 1, "a": "é"}) == s.fingerprint({"a": "é", "b": 1}) != s.fingerprint({"a": "e", "b": 1})
    assert s.fingerprint(ROWS[0]) == s.fingerprint(ROWS[0].model_dump()) and len(s.fingerprint([])) == 64
    with pytest.raises(ValueError):
        s.fingerprint(float("nan"))


def test_a_draw_lies_within_a_larger_one_and_takes_all_that_belongs_to_a_question():
    items = [item(item_id=f"q{k}") for k in range(9)] + [item(item_id=f"v{k}", base_id=f"q{k}") for k in range(9)]
    last: set[str] = set()
    for n in range(1, 10):
        drawn = draw_items(items, n, seed=4)
        bases = {i.base for i in drawn}
        assert (
            len(bases) == n and len(drawn) == 2 * n and last < bases and drawn == [i for i in items if i.base in bases]
        )
        last = bases
    assert draw_items(items, None, seed=4) == draw_items(items, 10, seed=4) == items
    assert {i.base for i in draw_items(items, 3, seed=5)} != {i.base for i in draw_items(items, 3, seed=4)}
    with pytest.raises(ValueError, match="n_items must be 1 or more, or None for all; got 0"):
        draw_items(items, 0, seed=1)


def test_a_systematic_draw_has_as_many_hits_as_the_chances_sum_to():
    chances = np.array([0.25] * 8 + [1.0, 0.0, 0.5, 0.5])
    for start in (0.0, 0.3, 0.9):
        hits = systematic(chances, start)
        assert hits.sum() == 4 and hits[8] and not hits[9] and hits[:4].sum() == hits[4:8].sum() == hits[10:].sum() == 1
    assert systematic(np.full(10, 0.1), 0.0).tolist() == [False] * 9 + [True]  # rounding leaves no hit out


@pytest.mark.parametrize(
    ("n_raters", "n_items", "n_core", "per_item"), [(4, 25, 4, 2), (5, 23, 0, 3), (2, 7, 7, 1), (1, 3, 0, 1)]
)
def test_every_item_has_its_raters_and_loads_are_alike(n_raters, n_items, n_core, per_item):
    raters, ids = [f"r{k}" for k in range(n_raters)], [f"i{k}" for k in range(n_items)]
    a = assign(ids, raters, n_core=n_core, per_item=per_item, seed=2)
    assert sorted(a.item_ids) == sorted(ids) and a.n_core == n_core and a.raters == raters
    assert (a.matrix.sum(0) == [n_raters] * n_core + [per_item] * (n_items - n_core)).all()
    assert a.loads() == {r: len(own) for r, own in a.by_rater().items()} and sum(a.loads().values()) == a.matrix.sum()
    assert max(a.loads().values()) - min(a.loads().values()) <= per_item
    assert a.item_ids == assign(ids[::-1], raters, n_core=n_core, per_item=per_item, seed=2).item_ids
    if per_item == 2:
        met = a.matrix[:, n_core:].astype(int) @ a.matrix[:, n_core:].T.astype(int)
        assert (met > 0).all()  # all pairs of raters meet


@pytest.mark.parametrize(
    ("ids", "raters", "n_core", "per_item", "words"),
    [
        ("aab", "rs", 0, 2, r"must each be different; got \['a'\] twice"),
        ("abc", "rr", 0, 2, r"got \['r'\] twice"),
        ("abc", "rs", 4, 2, "n_core must be between 0 and the 3 items; got 4"),
        ("abc", "rs", -1, 2, "n_core must be between 0 and the 3 items; got -1"),
        ("abc", "rs", 0, 3, "per_item must be between 1 and the 2 raters; got 3"),
        ("abc", "rs", 0, 0, "per_item must be between 1 and the 2 raters; got 0"),
    ],
)
def test_an_assignment_that_cannot_be_is_refused(ids, raters, n_core, per_item, words):
    with pytest.raises(ValueError, match=words):
        assign([*ids], [*raters], n_core=n_core, per_item=per_item, seed=1)


def test_a_conversation_is_told_kept_and_counted(tmp_path):
    turns = [Turn(role="user", text="Hi"), Turn(role="assistant", text="Hello", model="m", cost_usd=0.5, attempts=1)]
    t = Transcript(item_id="c1", study="s", model="m", turns=turns, ended="script", source="x")
    assert (t.patient, t.run, t.person, t.origin, t.protected) == ("script", 0, "", "asked", True)
    assert t.id == "c1/m/script/0" and t.within == {
        "persona": "c1",
        "patient": "script",
        "conversation": "c1/m/script/0",
    }
    assert t.model_copy(update={"person": "Lena"}).within["persona"] == "Lena" and t.cost_usd == 0.5
    assert t.rated == {"item_id": "c1", "study": "s", "target": "m", "within": t.within, "origin": "asked"}
    assert t.model_copy(update={"turns": [*turns, turns[1].model_copy(update={"cost_usd": None})]}).cost_usd is None
    assert t.text() == "[1] User: Hi\n\n[2] Chatbot: Hello" and t.text(("P", "A")) == "[1] P: Hi\n\n[2] A: Hello"
    path = write_transcripts([t, t], tmp_path / "deep" / "t.jsonl")
    assert read_transcripts(path) == [t, t] and list(path.parent.iterdir()) == [path]
    played = Scenario(item_id="c", study="s", persona="You are Lena.", person="Lena", source="x")
    assert played.cluster == "Lena" and played.model_copy(update={"person": ""}).cluster == "c"


TURN = {"role": "user", "text": "Hi"}
RATING = {"item_id": "q1", "study": "s", "rater": "r1", "target": "A", "value": 2.0, "source": "x"}
JUDGMENT = ANSWER | {"judge": "j", "kind": "score", "rubric": "r", "score": 50.0}


@pytest.mark.parametrize(
    ("record", "fields", "name", "least", "most"),
    [
        *[(Turn, TURN, n, 0, None) for n in ("attempts", "prompt_tokens", "completion_tokens", "uncounted")],
        (Turn, TURN, "cost_usd", 0.0, None),
        (Judgment, JUDGMENT, "cost_usd", 0.0, None),
        (Judgment, JUDGMENT, "repeat", 0, None),
        (Judgment, JUDGMENT, "score", 0.0, 100.0),
        (Judgment, JUDGMENT, "confidence", 0.0, 1.0),
        (Response, ANSWER | {"mode": "cot", "text": "x"}, "temperature", 0.0, None),
        (Response, ANSWER | {"mode": "cot", "text": "x"}, "letter_mass", 0.0, 1.0),
        (Response, ANSWER | {"mode": "cot", "text": "x"}, "letter_position", 0, None),
        (Rating, RATING, "sd", 0.0, None),
        (Rating, RATING, "n", 0, None),
    ],
)
def test_a_number_of_a_record_lies_between_its_limits(record, fields, name, least, most):
    "Both are within; the nearest whole or half number beyond is not."
    step = 1 if isinstance(least, int) else 0.5
    for value in [least] if most is None else [least, most]:
        assert getattr(record(**fields | {name: value}), name) == value
    for value in [least - step] if most is None else [least - step, most + step]:
        with pytest.raises(ValueError, match=name):
            record(**fields | {name: value})


def test_of_a_transcript_that_does_not_fit_the_first_field_is_named(tmp_path):
    "With its line; two are wrong."
    row = {"item_id": "c 1", "study": "s", "model": "m", "turns": [], "ended": "never", "source": "x"}
    (tmp_path / "t.jsonl").write_text("\n" + json.dumps(row))
    with pytest.raises(ValueError, match=r"read_transcripts: item_id must fit; .*t\.jsonl:2"):
        read_transcripts(tmp_path / "t.jsonl")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "a file must be JSON"),
        ("{}", "cases must be a list of one or more; got none"),
        ("[]", "cases must be a list of one or more; got none"),
        ('[{"id": "a", "theme": "t", "prompts": ["x"]}]', r"got no condition .*cases.json, case 0"),
        ('["a"]', "got no id, theme, condition, prompts"),
        ('[{"id": "a", "theme": "t", "condition": "c", "prompts": [""]}]', "prompts must hold text"),
    ],
)
def test_scripted_cases_that_do_not_fit_are_named(content, words, tmp_path):
    (tmp_path / "cases.json").write_text(content)
    with pytest.raises(ValueError, match=words.replace(" .*cases", ".*cases")):
        scripted_cases(tmp_path / "cases.json")


def test_scripted_cases_are_scenarios(tmp_path):
    case = {"id": "a", "theme": "t", "condition": "c", "prompts": ["x", "y"]}
    for content in ([case], {"cases": [case]}):
        (tmp_path / "cases.json").write_text(json.dumps(content))
        [got] = scripted_cases(tmp_path / "cases.json")
        assert (got.item_id, got.study, got.prompts, got.category) == ("a", "psychosis-bench", ["x", "y"], "t")
        assert got.variant == {"condition": "c"} and got.source == "cases.json, case 0"
    (tmp_path / "cases.json").write_text(json.dumps([case, case]))
    with pytest.raises(ValueError, match="an id must stand for one case; got 'a' again"):
        scripted_cases(tmp_path / "cases.json")


def test_a_record_stays_as_it_was_made():
    class Count(Record):
        n: int

    count = Count(n=1)
    with pytest.raises(ValueError, match="frozen"):
        count.n = 2
    assert count.n == 1
