"""What is guessed of a file of ratings, from the values and the names of its columns: each expected by hand."""

import json

import pytest

from mhbench.records.described import read_ratings
from mhbench.records.guessed import Guess, _are_similar, _common_ends, guess_description, guess_long

SEEN = "scale: the least and the largest value that are seen; say what could be chosen"
ORDER = "scale: if the labels have an order, {steps: [from low to high], beside: [labels that are no step]}"
CODES = "missing: do {0} mean that nobody rated? If so, missing: [{0}]".format


def guess(tmp_path, text: str, name: str = "r.csv", **how):
    (tmp_path / name).write_text(text, encoding="utf-8")
    return guess_description(tmp_path / name, **how)


@pytest.mark.parametrize(
    ("values", "scale", "asks"),
    [
        ("1 2 3 4 5", "1..5", [SEEN]),
        ("2 4 -1", "2..4", [CODES("-1"), SEEN]),  # under a positive median
        ("-2 -1 -1 1", "-2..1", [SEEN]),  # of a scale that goes below 0
        ("-10 0 0 0 12", "-10..12", [SEEN]),
        ("-11 0 0 0 12", "0..12", [CODES("-11"), SEEN]),  # over ten times 1, and further than the median
        ("1 2 5 99", "1..5", [CODES("99"), SEEN]),
        ("9 9 9 99 77", "9..77", [CODES("99"), SEEN]),  # ten times 9 lies between
        ("10 10 10 99", "10..99", [SEEN]),
        ("2 2 9 40 50 88", "2..88", [SEEN]),  # ten times the upper median: a third would give 20
        ("0 5 10", "5..10", [CODES("0"), SEEN]),
        ("0 5 11", "0..11", [SEEN]),
        ("0 1 2", "1..2", [CODES("0"), SEEN]),
        ("0 1 1", "0..1", [SEEN]),  # no or yes
        ("0 2 2", "0..2", [SEEN]),  # one value beside 0 is no scale from 1
        ("0 1 2 3 4 5 6 7 8 9 10", "1..10", [CODES("0"), SEEN]),  # ten steps
        ("0 1 1.5 2 3 4 5 6 7 8 9 10", "0..10", [SEEN]),  # eleven
        ("0 0 0 -11 -12", "-12..0", [CODES("-11, -12, 0"), SEEN]),  # where all are codes, none is left out
        ("3 3", "3..4", [SEEN]),
        ("0,5 2,25", "0.5..2.25", [SEEN]),
        ("1 2 3 9 5 9", "1..5", [CODES("9"), SEEN]),  # apart from a scale of five
        ("1 2 3 4 8 9", "1..4", [CODES("8, 9"), SEEN]),
        ("1 2 3 4 5 7", "1..7", [SEEN]),  # a step that nobody chose
        ("4 5 6 9", "4..6", [CODES("9"), SEEN]),
        ("7 8 9", "7..9", [SEEN]),
        ("1 5 9 10", "1..10", [SEEN]),
        (
            "20 99 99 40 99",
            "20..99",
            ["missing: 99, the largest, stands 3 times; if it means that nobody rated, missing: [99]", SEEN],
        ),
        ("20 99 99 40", "20..99", [SEEN]),
        ("+1 -1 +2 -2 \u22121", "-2..2", [SEEN]),
        ("1,000 2 3", "2..3", ["missing: 1,000 are no numbers", SEEN]),
        ("good Good bad GOOD good", ["good", "bad"], [ORDER]),  # one label in three cases
        ("20 300", "20..300", [SEEN]),  # not 3E+2
        ("1 2 no none", "1..2", ["missing: no, none are no numbers", SEEN]),  # half are numbers
        ("1 2 3 4 5 6 7 a b c d e f g", "1..7", ["missing: a, b, c, d, e, f are no numbers", SEEN]),
        ("1 no none", ["1", "no", "none"], [ORDER]),
        ("good bad bad", ["bad", "good"], [ORDER]),  # the most frequent first
        ("a b c d e f g h i j k l", list("abcdefghijkl"), [ORDER]),
        ("a b c d e f g h i j k l m", list("abcdefghijklm"), ["scale: 13 different texts: are these ratings?", ORDER]),
        (" ".join(f"w{k}" for k in range(41)), [f"w{k}" for k in range(40)], None),
    ],
)
def test_a_scale_is_guessed_from_the_values(values, scale, asks, tmp_path):
    rows = "".join(f'q{k},r1,m,"{v}"\n' for k, v in enumerate(values.split()))
    got = guess(tmp_path, "item,rater,target,score\n" + rows)
    assert got.description["scale"] == scale
    assert asks is None or got.asks == asks


def table(head: str, *columns: str) -> str:
    "A table of columns whose cells are parted by blanks."
    rows = zip(*(c.split() for c in columns), strict=True)
    return "\n".join([head, *(",".join(r) for r in rows)])


ITEM_RATER = ("q1 q1 q2 q2", "a b a b")


@pytest.mark.parametrize(
    ("head", "columns", "value", "criterion"),
    [
        ("item,rater,warm_a,warm_b", ("1 2 3 3", "3 4 5 5"), "warm_{criterion}", ["a", "b"]),  # both hold 3
        ("item,rater,warm_a,warm_b", ("3 4 5 5", "1 2 3 3"), "warm_{criterion}", ["a", "b"]),
        ("item,rater,warm_a,warm_b", ("1 2 3 3", "4 5 5 5"), "warm_a", None),  # no value in common
        ("item,rater,warm_a,warm_b", ("x y y y", "y z z z"), "warm_{criterion}", ["a", "b"]),  # half of two
        ("item,rater,warm_a,warm_b", ("x y z z", "z v w w"), "warm_a", None),  # one of three
        ("item,rater,warm_a,warm_b", ("x y z z", "1 2 3 4"), "warm_a", None),  # labels and numbers
        ("item,rater,warm_a,warm_b", ("1 1 1 1", "1 2 3 4"), "warm_b", None),  # a constant is no rating
        ("item,rater,is_clear,is_kind", ("1 2 1 2", "1 2 2 1"), "is_{criterion}", ["clear", "kind"]),
        ("item,rater,Q1,Q2", ("1 2 1 2", "1 2 2 1"), "Q{criterion}", ["1", "2"]),
        ("item,rater,clear,clever", ("1 2 1 2", "1 2 2 1"), "{criterion}", ["clear", "clever"]),  # a word stays whole
        ("item,rater,a_rated,b_rated", ("1 2 1 2", "1 2 2 1"), "{criterion}_rated", ["a", "b"]),
        ("item,rater,a.score,b.score", ("1 2 1 2", "1 2 2 1"), "{criterion}.score", ["a", "b"]),
        ("item,rater,a (1-5),b (1-5)", ("1 2 1 2", "1 2 2 1"), "{criterion} (1-5)", ["a", "b"]),
        ("item,rater,safe,kind,progress", ("1 2 1 2", "1 2 2 1", "1 2 3 4"), "{criterion}", ["safe", "kind"]),
        ("item,rater,long,b", ("x" * 61 + " y y y", "1 2 2 1"), "b", None),  # 61 characters are no label
        ("item,rater,long,b", ("x" * 60 + " y y y", "1 2 2 1"), "long", None),
    ],
)
def test_columns_that_hold_values_are_told_by_what_they_hold(head, columns, value, criterion, tmp_path):
    description = guess(tmp_path, table(head, *ITEM_RATER, *columns)).description
    assert (description["value"], description.get("criterion")) == (value, criterion)
    assert (description["item"], description["rater"]) == ("item", "rater")


@pytest.mark.parametrize(
    ("head", "columns", "value", "criterion", "asked"),
    [
        ("item,rater,s_a,s_b,s_c", "2 2 2 2", "s_{criterion}", ["a", "b", "c"], []),  # everybody gave the same
        ("item,rater,s_a,s_b,site", "2 2 2 2", "s_{criterion}", ["a", "b"], ["site"]),
        ("item,rater,s_a,s_b,s_c", "9 9 9 9", "s_{criterion}", ["a", "b"], []),  # a number that nobody gave
        ("item,rater,a,b,c", "2 2 2 2", "{criterion}", ["a", "b"], ["c"]),
        ("item,rater,long,s_b,s_c", "2 2 2 2", "s_b", None, ["s_c"]),
    ],
)
def test_a_column_on_which_all_agree_is_rated_or_asked_about(head, columns, value, criterion, asked, tmp_path):
    first = " ".join("x" * 61 + str(k) for k in range(4)) if ",long," in head else "1 2 1 2"
    got = guess(tmp_path, table(head, *ITEM_RATER, first, "1 2 2 1", columns))
    assert (got.description["value"], got.description.get("criterion")) == (value, criterion)
    held = "value: {} hold one value each, and are not taken for ratings"
    assert [a for a in got.asks if a.startswith("value: ")] == [held.format(c) for c in asked]


@pytest.mark.parametrize("n", [12, 13])
def test_a_column_of_many_numbers_is_rated_where_no_column_of_few_is(n, tmp_path):
    rows = [f"q{k},a,t{k},{k % n + 1},{10 * k}" for k in range(26)]
    description = guess(tmp_path, "\n".join(["item,rater,words,few,many", *rows])).description
    value, criterion = ("few", None) if n == 12 else ("{criterion}", ["few", "many"])  # `words` are no numbers
    assert (description["value"], description.get("criterion")) == (value, criterion)


@pytest.mark.parametrize(
    ("head", "value", "fields"),
    [
        ("rater,target,q_1,q_2", "q_{item}", {"rater": "rater", "target": "target"}),  # an item a column
        ("item,target,R1,R2", "R{rater}", {"item": "item", "target": "target"}),  # a rater a column
        ("item,target,expert,dr", "{rater}", {"item": "item", "target": "target"}),
        ("item,rater,a,b", "{criterion}", {"item": "item", "rater": "rater", "criterion": ["a", "b"]}),
    ],
)
def test_what_differs_between_columns_is_what_no_column_names(head, value, fields, tmp_path):
    got = guess(tmp_path, table(head, "x y x y", "u u v v", "1 2 3 4", "4 3 2 1"))
    assert got.description == {"release": "r", "files": "r.csv", "value": value, **fields, "scale": "1..4"}
    assert got.asks == [SEEN]


def test_a_description_says_what_each_column_is(tmp_path):
    text = table(
        "question_id,item,judge_model,model,dimension,score,repeat,session,user_profile,patient,run_id",
        *("q1 q2", "s t", "j j", "m n", "d e", "1 5", "0 1", "s1 s1", "u v", "p p", "1 2"),
    )
    got = guess(tmp_path, text)
    assert got.description == {
        "release": "r",
        "files": "r.csv",
        "item": "item",
        "rater": "judge_model",
        "target": "model",
        "criterion": "dimension",
        "repeat": "repeat",
        "session": "session",
        "value": "score",
        "kind": "judge",
        "scale": "1..5",
        "within": {"persona": "user_profile", "patient": "patient", "run": "run_id"},
    }
    assert got.asks == ["item: item was taken; question_id might be meant", SEEN]
    given = guess(tmp_path, text, given={"item": "question_id", "rater": ""}).description
    assert (given["item"], given["rater"]) == ("question_id", "judge_model")
    with pytest.raises(ValueError, match=r"a column must be there; got item=q; it has question_id, item, judge_model"):
        guess(tmp_path, text, given={"item": "q"})


@pytest.mark.parametrize(
    ("head", "pairs", "value", "criterion"),
    [
        ("anna_b_w,anna_b_v,carl_w,carl_v", "anna_b, carl and w, v", "{rater}_{criterion}", ["w", "v"]),
        (
            "Rater 1: w,Rater 1: v,Rater 2: w,Rater 2: v",
            "Rater 1, Rater 2 and w, v",
            "{rater}: {criterion}",
            ["w", "v"],
        ),
        ("w R1,w R2,v R1,v R2", "w, v and R1, R2", "{criterion} {rater}", ["w", "v"]),
    ],
)
def test_columns_that_are_pairs_of_raters_and_criteria_are_read_as_such_and_asked_about(
    head, pairs, value, criterion, tmp_path
):
    "Each column was a rater of its own, and agreement was that between criteria."
    n = head.count(",") + 1
    rows = [",".join(str(1 + (k * j) % 5) for j in range(1, n + 1)) for k in (1, 2, 3)]
    g = guess(tmp_path, "\n".join([f"id,{head}", *(f"{k},{row}" for k, row in enumerate(rows))]) + "\n")
    assert (g.description["value"], g.description.get("criterion")) == (value, criterion)
    asked = f"value: the columns are all pairs of {pairs}; {value} was assumed: one may be {{repeat}} or {{session}}"
    assert g.asks == [asked, SEEN]
    table = read_ratings(g.description, tmp_path)
    assert len(table.frame) == 3 * n and table.frame["rater"].nunique() == 2


@pytest.mark.parametrize(
    ("head", "value", "criterion", "of"),
    [
        ("item,target,by_ann,by_bob", "by_{criterion}", ["ann", "bob"], "rater"),
        ("item,target,R1-w,R2-v", "R{criterion}", ["1-w", "2-v"], "rater"),  # no pairs
        ("rater,target,q_mood,q_sleep", "q_{criterion}", ["mood", "sleep"], "item"),
    ],
)
def test_columns_whose_names_tell_neither_rater_nor_item_are_criteria_and_asked_about(
    head, value, criterion, of, tmp_path
):
    "A column a rater would make agreement between criteria that of raters."
    got = guess(tmp_path, table(head, "x y x y", "u u v v", "1 2 3 4", "4 3 2 1"))
    assert (got.description["value"], got.description["criterion"]) == (value, criterion)
    template = value.replace("criterion", of)
    asked = f"value: the columns are taken for criteria; if each is one {of}: {template}, and no criterion"
    assert got.asks[0] == asked and len(got.asks) == 3 and any("no column was found" in a for a in got.asks[1:])


def test_pairs_are_asked_about_where_a_column_names_the_rater_and_clinicians_rate_cases(tmp_path):
    rows = "c1,AB,1,2,3,4\nc2,CD,2,3,4,5\nc1,CD,3,3,1,2\n"
    g = guess(tmp_path, f"Case,Clinician,gpt_w,gpt_v,llama_w,llama_v\n{rows}")
    assert (g.description["item"], g.description["rater"], g.description["value"]) == (
        "Case",
        "Clinician",
        "{criterion}",
    )
    asked = "value: the columns are all pairs of gpt, llama and w, v; of two fields, such as {target}_{criterion}, "
    assert g.asks == [f"{asked}name both", SEEN]


def test_who_rated_is_asked_where_no_column_says_it(tmp_path):
    got = guess(tmp_path, table("model,score", "m n", "1 5"), name="judges.csv")
    expected = {"release": "judges", "files": "judges.csv", "rater": "=judges", "target": "model", "value": "score"}
    assert got.description == expected | {"kind": "judge", "scale": "1..5"}
    rater, item = "rater: no column was found; one rater was assumed", "item: no column was found for what is rated"
    assert got.asks == [rater, SEEN, item]
    assert got.text().splitlines()[:4] == [
        "# guessed; correct it, then: mhbench ratings THIS_FILE",
        *(f"# {a}" for a in got.asks),
    ]
    with pytest.raises(ValueError, match=r"got value: score, and no column for item, rater \(judges\.csv\)"):
        guess_long(tmp_path / "judges.csv")


def test_means_of_ratings_are_described_with_their_count_and_spread(tmp_path):
    text = table("item,rater,target,score,n,sd", "q1 q2", "a a", "m m", "3.5 4", "12 15", "0.5 1")
    got = guess(tmp_path, text).description
    assert (got["value"], got["n"], got["sd"]) == ("score", "n", "sd")
    only_n = guess(tmp_path, text.replace(",sd", ",spread")).description
    assert "n" not in only_n and "sd" not in only_n and only_n["value"] == "score"
    wide = guess(tmp_path, table("item,rater,n,sd,warm", "q1 q2", "a a", "1 2", "1 2", "2 1")).description
    assert (wide["value"], wide["criterion"]) == ("{criterion}", ["n", "sd", "warm"])


@pytest.mark.parametrize(("score", "label", "value"), [("1 2 3", "x y -", "score"), ("1 - -", "x y z", "label")])
def test_of_a_number_and_a_label_the_one_that_is_filled_more_often_is_rated(score, label, value, tmp_path):
    text = table("item,rater,target,score,label", "q r s", "a a a", "m m m", score, label).replace("-", "")
    assert guess(tmp_path, text).description["value"] == value
    assert guess_long(tmp_path / "r.csv").description["value"] == value


def test_rows_of_json_are_looked_for_in_its_list(tmp_path):
    row = {"item": "q", "rater": "a", "target": "m", "score": 2}
    got = guess(tmp_path, json.dumps({"version": "1", "done": [row, row | {"score": [3, 4]}]}), name="r.json")
    assert (got.description["each"], got.description["scale"]) == ("done", "2..4")
    plain = guess(tmp_path, json.dumps([row]), name="r.json").description
    assert "each" not in plain and plain["scale"] == "2..3"


def test_lines_that_qualtrics_puts_below_the_header_are_left_out(tmp_path):
    lines = ["ResponseId,Q1_kind,Q1_safe", "Response,How kind,How safe", *['"{""ImportId"":""x""}"' + ",x,x"]]
    got = guess(tmp_path, "\n".join([*lines, "R1,1,2", "R2,2,1"])).description
    assert (got["skip"], got["rater"], got["value"], got["scale"]) == ([2, 3], "ResponseId", "Q1_{criterion}", "1..2")


def test_a_file_without_ratings_is_refused_with_its_columns(tmp_path):
    with pytest.raises(ValueError, match=r"must have columns that look like ratings; got \['note'\]; describe it as"):
        guess(tmp_path, table("item,rater,note", "q r", "a b", "x x"))
    with pytest.raises(ValueError, match=r"got value: Q\{item\}, and no column for item, target \(r\.csv\)"):
        guess(tmp_path, table("rater,Q1,Q2", "a b", "1 2", "2 1"))
        guess_long(tmp_path / "r.csv")


@pytest.mark.parametrize(
    ("first", "second", "are_similar"),
    [
        ("1 2 3", "3 4 5", True),
        ("3 4 5", "1 2 3", True),
        ("1 2", "3 4", False),
        ("3 4", "1 2", False),
        ("good bad", "good odd", True),  # half of the shorter list
        ("good bad well", "good odd even", False),
        ("good bad", "1 2", False),
    ],
)
def test_columns_are_alike_whose_numbers_meet_or_half_of_whose_labels_are_the_same(first, second, are_similar):
    "Of two lists of labels the one that has fewer counts."
    assert _are_similar(first.split(), second.split()) == are_similar


@pytest.mark.parametrize(
    ("names", "ends"),
    [
        (["a_rate", "b_rate"], ("", "_rate")),
        (["arate", "brate"], ("", "rate")),  # a word of four letters
        (["aate", "bate"], ("", "")),
        (["Q1", "Q2"], ("Q", "")),
        (["QX1", "QX2"], ("QX", "")),
        (["QXY1", "QXY2"], ("", "")),
        (["m_clear", "m_kind"], ("m_", "")),
    ],
)
def test_names_share_what_stands_before_or_after_a_separator(names, ends):
    "One or two letters before a number, or a word of four letters, need none."
    assert _common_ends(names) == ends


def test_a_guess_is_written_in_its_order_and_its_letters_below_what_is_asked():
    "Lines are broken after 110 characters; a list stands in as many as it needs."
    description = {"release": "größe", "files": "a.csv", "scale": [f"step {k}" for k in range(14)]}
    steps = [f"step {k}" for k in range(14)]
    lines = Guess(description, ["scale: what?"]).text().splitlines()
    head = [
        "# guessed; correct it, then: mhbench ratings THIS_FILE",
        "# scale: what?",
        "release: größe",
        "files: a.csv",
    ]
    assert lines[:4] == head and 105 < len(lines[4]) < 120
    assert " ".join(x.strip() for x in lines[4:]) == f"scale: [{', '.join(steps)}]"


def test_a_column_that_is_not_there_is_refused_with_those_that_are(tmp_path):
    "300 characters of their names."
    names = [f"column{k:03}" for k in range(60)]
    with pytest.raises(ValueError, match="a column must be there; got value=none") as e:
        guess(tmp_path, ",".join(names) + "\n" + ",".join(["1"] * 60) + "\n", given={"value": "none"})
    assert ", ".join(names)[:300] in str(e.value) and ", ".join(names)[:301] not in str(e.value)
