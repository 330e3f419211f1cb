"Tables of questions, cell by cell: what a column, an option, a key and a share are read as; each expected by hand."

import pytest

from mhbench.records import questions
from mhbench.records.questions import guess_columns, guess_layout, load_questions, plain_name
from mhbench.records.table import Table, Unreadable


def table(head: str, *rows: str | list) -> Table:
    "A table; the cells of a row that is a text are parted by bars."
    columns = head.split("|")
    cells = [r.split("|") if isinstance(r, str) else r for r in rows]
    return Table(columns, [(f"t.csv:{k}", dict(zip(columns, c, strict=True))) for k, c in enumerate(cells, 2)], [])


@pytest.fixture
def read(tmp_path):
    def items_and_rules(head: str, *rows: str | list, **known):
        "The items of a table whose layout is guessed, and why rows are set aside."
        given = {k: known.pop(k) for k in ("columns", "key", "separator", "language") if k in known}
        table_read = table(head, *rows)
        how = guess_layout(table_read, **given) | known
        got = load_questions(table_read, "s", **how, strict=False, set_aside=tmp_path / "aside.jsonl")
        return got.records, [(a["column"], a["rule"]) for a in got.set_aside]

    return items_and_rules


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("Question-Text 2", "questiontext2"),
        ("ÉNONCÉ", "enonce"),
        ("Lösung", "loesung"),
        ("N°", "n"),
        ("Größe", "groesse"),
    ],
)
def test_a_name_is_compared_by_its_letters_and_digits(name, plain):
    assert plain_name(name) == plain


@pytest.mark.parametrize(
    ("columns", "options"),
    [
        ("b a c", "a b c"),  # by letter, wherever they stand
        ("option_2 Option_1", "Option_1 option_2"),
        ("A B D", None),  # a letter is missing
        ("op1 op3", None),
        ("option0 option1", None),  # numbers begin with 1
        ("a", None),
        ("choice1 choice2 option_a option_b", "choice1 choice2"),
        ("option_a option_1 option_b", "option_a option_b"),  # letters and numbers are two runs
        (" ".join(f"answer{k}" for k in range(1, 28)), " ".join(f"answer{k}" for k in range(1, 28))),
        ("opa opb opc", "opa opb opc"),
        ("antwort_a antwort_b antworten", "antwort_a antwort_b antworten"),  # and one for all in one cell
        ("antwort_a antwort_b antworten choices", "antwort_a antwort_b antworten"),
    ],
)
def test_options_stand_in_columns_that_are_lettered_or_numbered_without_a_gap(columns, options):
    found = guess_columns(["stem", *columns.split()])
    assert found.get("options") == (options.split() if options else None) and found["question"] == "stem"


def test_a_field_is_a_column_of_one_of_its_names():
    columns = "Frage_ID answer_idx answer Fall Vignette prob_a soft_a soft_b".split()
    assert guess_columns([*columns, "Frage"]) == {
        "soft_labels": ["soft_a", "soft_b"],
        "id": "Frage_ID",
        "question": "Frage",
        "key": "answer_idx",  # and not the text beside it
        "context": ["Fall", "Vignette"],
    }
    found = guess_columns(["q", "stem", "answer", "case"], {"question": "q", "key": "", "context": "case"})
    assert found == {"question": "q", "context": ["case"]}
    with pytest.raises(ValueError, match="several fit; got answer, solution; say --column 'key=answer'"):
        guess_columns(["answer", "solution"])
    with pytest.raises(ValueError, match="the column for key must be one; got a, b"):
        guess_columns(["a", "b"], {"key": ["a", "b"]})
    with pytest.raises(ValueError, match="column for options must be one of a, b; got c"):
        guess_columns(["a", "b"], {"options": ["a", "c"]})


@pytest.mark.parametrize(
    ("cell", "options"),
    [
        ("x|y;z", ["x", "y;z"]),
        ("x | y\nz", ["x | y", "z"]),
        ("x ;y", ["x", "y"]),
        ('["x|1", "y"]', ["x|1", "y"]),
        ("['x', 2]", ["x", "2"]),
        ('["x", ["y"]]|[z]', ['["x", ["y"]]', "[z]"]),  # no list of texts
        ("[x]|y", ["[x]", "y"]),
        ("A) x|B) y", ["x", "y"]),
        ("(1) x|(2) y", ["x", "y"]),
        ("1. x|2: y", ["x", "y"]),
        ("B) x|A) y", ["B) x", "A) y"]),  # in another order they are no marks
        ("A) x|y", ["A) x", "y"]),
        ("A)x|B)y", ["A)x", "B)y"]),
        (["x", "y"], ["x", "y"]),
        ("[" + "'x', " * 4000 + "'y']", None),  # of 20,000 characters Python's own reader takes none
    ],
)
def test_options_in_one_cell(cell, options, read):
    separator = next((s for s in ("\n", "|", ";") if s in cell), "|")
    items, aside = read("question|options|key", ["?", cell, "A"], separator=separator, key="letter")
    if options is None:
        assert aside == [("options", "options must be two or more")]
    else:
        assert [i.options for i in items] == [options]


@pytest.mark.parametrize(
    ("rows", "separator"),
    [(["x\ny|z", "v\nw"], "\n"), (["x|y", "v|w;u"], "|"), (["x;y", "", "v;w"], ";"), (['["x"]', "[]"], None)],
)
def test_a_separator_stands_in_every_filled_cell(rows, separator):
    found = Table(
        ["question", "options"], [(f"t:{k}", {"question": "?", "options": r}) for k, r in enumerate(rows)], []
    )
    assert guess_layout(found).get("separator") == separator


def test_no_separator_is_guessed_where_none_stands_in_every_cell():
    found = Table(["question", "options"], [("t:1", {"question": "?", "options": t}) for t in ("x|y", "v;w")], [])
    with pytest.raises(ValueError, match="none of .* in column 'options'; say --separator"):
        guess_layout(found)


@pytest.mark.parametrize(
    ("cells", "options", "rule"),
    [
        ("x|y||", "x y", None),  # what is empty at the end is no option
        ("x;y;z|||", "x y z", None),  # all in one cell of a row
        ("['x', 'y']|||", "x y", None),
        ("x||y|", None, ("b", "an option must not be empty between others: the letters below it would move")),
        ("x|||", None, ("a", "options must be two or more")),
        ("x|X |y|", None, ("a", "options must differ; this one stands twice")),
        ("A. x|B. X |C. y|", None, ("a", "options must differ; this one stands twice")),  # but for their letters
        ("x|y|N/A|", None, ("a", "an option must be a text: leave the cell empty where there is none")),
        ("1) x|2) n/a|3) y|", None, ("a", "an option must be a text: leave the cell empty where there is none")),
        ("x|#N/A|y|", None, ("a", "an option must be a text: leave the cell empty where there is none")),
        ("-|+|0|", None, ("a", "an option must be a text: leave the cell empty where there is none")),
        ("None|Na|y|", "None Na y", None),  # these are answers
        (
            "x|3. Apr|y|",
            None,
            ("a", "an option must not be a date that a spreadsheet made of it, such as 3-4: write text"),
        ),
        (
            "x|May-24|y|",
            None,
            ("a", "an option must not be a date that a spreadsheet made of it, such as 3-4: write text"),
        ),
        ("x|3. Apr. 20|y|", "x,3. Apr. 20,y", None),
    ],
)
def test_options_in_columns(cells, options, rule, read):
    items, aside = read("question|a|b|c|d|key", f"?|{cells}|A", key="letter")
    wanted = options.split("," if "," in options else None) if options else None
    assert ([i.options for i in items], aside) == (([wanted], []) if options else ([], [rule]))


def test_options_stand_in_one_cell_or_each_in_its_own(read):
    head = "question|a|b|options|key"
    items, aside = read(head, "?|x|y||A", "!|||x;y|B", "-|x|y|v;w|A", key="letter")
    assert [(i.options, i.key) for i in items] == [(["x", "y"], ["A"]), (["x", "y"], ["B"])]
    assert aside == [("options", "options must stand in one cell or each in its own, not in both")]


@pytest.mark.parametrize(
    ("form", "cell", "key"),
    [
        ("letter", "A", "A"),
        ("letter", "(c).", None),
        ("letter", "(c)", "C"),
        ("letter", "d", None),  # of three options
        ("letter", "a / c", "AC"),
        ("letter", "c, a", "AC"),  # without an order
        ("letter", "a, a", None),
        ("letter", "a, x", None),
        ("letter", "c > a", None),  # of a ranking alone
        ("number", "1", "A"),
        ("number", "3.0", "C"),
        ("number", "0", None),
        ("number", "4", None),
        ("number", "1.5", None),
        ("number0", "0", "A"),
        ("number0", "2", "C"),
        ("number0", "3", None),
        ("text", "YES  ", "A"),
        ("text", "ye", None),
    ],
)
def test_a_key_names_options(form, cell, key, read):
    items, aside = read("question|a|b|c|key", f"?|yes|no|both|{cell.strip()}", key=form)
    assert ["".join(i.key) for i in items] == ([key] if key else [])
    assert aside == ([] if key else [("key", f"key must name one of the 3 options by {form}")])


def test_the_form_of_keys_is_the_one_that_fits_most():
    layout = lambda *keys: guess_layout(table("question|a|b|c|key", *(f"?|yes|2|no|{k}" for k in keys)))["key"]
    assert layout("A", "b", "x") == "letter" and layout("1", "3") == "number" and layout("yes", "no") == "text"
    assert layout("0", "1") == "number0" and layout("3", "x") == "number"
    with pytest.raises(ValueError, match=r"can name 'yes' \(--key number\) or '2' \(--key number0\) \(t.csv:2\)"):
        layout("1")
    with pytest.raises(ValueError, match=r"key must name an option by letter, number or text; got 'x' for 3 options"):
        layout("x", "y")
    found = table("question|a|b|key", "?|yes|yes|B", "?|yes||A", "?|yes|no|", "?|yes|no|A")  # the last one counts
    assert guess_layout(found)["key"] == "letter"
    assert "key" not in guess_layout(table("question|a|b|key", "?|yes|no|"))
    with pytest.raises(ValueError, match="key must be one of letter, number, number0, text; got 'word'"):
        guess_layout(found, key="word")


@pytest.mark.parametrize(("n", "task", "fits"), [(26, "", True), (27, "", False), (27, "multi label", True)])
def test_letters_go_to_26(n, task, fits, read):
    names = [f"o{k}" for k in range(n)]
    items, aside = read("question|options|key|task", ["?", names, "o1", task], key="text")
    assert [i.key for i in items] == ([["B"] if not task else ["o1"]] if fits else [])
    assert aside == ([] if fits else [("key", "options must be 26 at most, unless a column task says multi_label")])


@pytest.mark.parametrize(
    ("shares", "soft"),
    [
        ("0.5|0.3|0.2", [0.5, 0.3, 0.2]),
        ("50%|30 %|20%", [0.5, 0.3, 0.2]),
        ("5e1|,3e2|20.", [0.5, 0.3, 0.2]),
        ("0.5|0.3|0.186", [0.5 / 0.986, 0.3 / 0.986, 0.186 / 0.986]),
        ("0.5|0.3|0.214", [0.5 / 1.014, 0.3 / 1.014, 0.214 / 1.014]),
        ("50|30|18.6", [50 / 98.6, 30 / 98.6, 18.6 / 98.6]),
        ("50|30|21.4", [50 / 101.4, 30 / 101.4, 21.4 / 101.4]),
        ("0.5|0.3|0.184", "shares must sum to 1 or 100; these sum to 0.984"),
        ("0.5|0.3|0.216", "shares must sum to 1 or 100; these sum to 1.016"),
        ("50|30|18.4", "shares must sum to 1 or 100; these sum to 98.4"),
        ("50|30|21.6", "shares must sum to 1 or 100; these sum to 101.6"),
        ("0.5|0.5|", "there must be one share an option (3)"),
        ("0.5|-0.5|1", "a share must be a number of 0 or more"),
        ("||", None),
    ],
)
def test_shares_are_one_an_option_and_sum_to_one(shares, soft, read):
    items, aside = read("question|a|b|c|key|share_a|share_b|share_c", f"?|x|y|z|A|{shares}", key="letter")
    if isinstance(soft, str):
        column = "share_b" if soft.startswith("a share") else "share_a"
        assert (items, aside) == ([], [(column, soft)])
    else:
        [item] = items
        assert item.soft_labels == (soft and pytest.approx(soft)) and item.key == ["A"]


def test_shares_of_options_that_are_not_there_are_refused(read):
    head = "question|a|b|c|key|share_a|share_b|share_c"
    items, aside = read(head, "?|x|y||A|0.5|0.5|", "?|x|y||A|0.5|0.4|0.1", "!|x|y||A|0.5|0.5|0", key="letter")
    assert [i.soft_labels for i in items] == [[0.5, 0.5]]
    assert aside == [("share_a", "there must be one share an option (2)")] * 2
    items, aside = read(head, "?|x|y|||0.25|0.75|", "?|x|y|z||||", key="letter")
    assert [(i.key, i.soft_labels) for i in items] == [([], [0.25, 0.75])]  # shares may stand in place of a key
    assert aside == [("key", "key must name an option; the cell is empty")]


def test_a_question_without_options_has_a_reference(read):
    items, aside = read("question|answer", "?|because", "!|", "-|B")
    assert [(i.task, i.key, i.options) for i in items] == [("open", ["because"], []), ("open", ["B"], [])]
    assert aside == [("answer", "a row without options must have a reference answer")]
    items, aside = read("question|a|b|answer", "?|x|y|A", "!|||because", "-|||B", "+|||2.0", "*|||12")
    assert [(i.task, i.key) for i in items] == [("multiple_choice", ["A"]), ("open", ["because"])]
    assert aside == [("answer", "options must be there where the key names one")] * 3
    items, aside = read("question|answer|reference", "?|x|y", "!|x|")
    assert [i.key for i in items] == [["y"]] and aside[0][0] == "reference"


def test_tags_are_taken_out_and_counted(tmp_path, read):
    found = table("question|options|key", ["<p>a &lt; b</p>", ["<b>x</b>", "y < z"], "A"], ["1 < 2", ["x", "y"], "B"])
    items = load_questions(found, "s", **guess_layout(found)).records
    assert [(i.question, i.options) for i in items] == [("a < b", ["x", "y < z"]), ("1 < 2", ["x", "y"])]
    long = "see <img src='a.png'> " + "x" * 100
    items, aside = read("question|a|b|key", f"{long}|x|y|A", key="letter")
    assert items == [] and aside == [("question", "a cell must be text, without pictures and sounds")]
    got = load_questions(
        table("question|a|b|key", f"{long}|x|y|A"),
        "s",
        **{"columns": {"question": "question"}},
        strict=False,
        set_aside=tmp_path / "a.jsonl",
    )
    assert got.set_aside[0]["value"] == repr(long[:80])


@pytest.mark.parametrize(
    ("first", "second", "group", "context"),
    [
        ("Case 1", "Case 2", "case", None),
        ("A-12", "", "case", None),
        ("12", "fever", None, ["case"]),
        ("", "", None, ["case"]),
        ("abcdefg1", "1", None, ["case"]),  # of seven letters it is a text
        ("1234567", "1", None, ["case"]),
    ],
)
def test_a_column_that_numbers_cases_is_their_group(first, second, group, context):
    found = table("question|answer|case", f"?|x|{first}", f"!|y|{second}")
    columns = guess_layout(found)["columns"]
    assert (columns.get("group"), columns.get("context")) == (group, context)
    given = guess_layout(found, {"context": ["case"]})["columns"]
    assert (given.get("group"), given["context"]) == (None, ["case"])


def test_of_several_columns_of_cases_one_that_numbers_them_is_the_group():
    columns = guess_layout(table("question|answer|case|vignette", "?|x|1|fever", "!|y|2|cough"))["columns"]
    assert (columns["group"], columns["context"]) == ("case", ["vignette"])
    columns = guess_layout(table("question|answer|case|vignette", "?|x|1|3", "!|y|2|4"))["columns"]
    assert "group" not in columns and columns["context"] == ["case", "vignette"]


def test_rows_that_share_their_context_are_a_case(read):
    head = "question|answer|vignette|group"
    items, _ = read(
        head, "1|x|fever|", "2|x|fever|", "3|x|cough|", "4|x|None|", "5|x| - |", "6|x|fever|g", "7|x|pain|h"
    )
    groups = [i.group_id for i in items]
    assert groups[0] == groups[1] and groups[0].startswith("case-") and len(groups[0]) == 13
    assert groups[2:] == [None, None, None, "g", "h"]
    assert [i.context for i in items] == [{"vignette": "fever"}] * 2 + [{"vignette": "cough"}, {}, {}] + [
        {"vignette": "fever"},
        {"vignette": "pain"},
    ]


@pytest.mark.parametrize(
    ("head", "language"), [("Fragetext", "de"), ("énoncé", "fr"), ("pregunta", "es"), ("stem", "en"), ("Aufgabe", "de")]
)
def test_a_language_is_that_of_the_heading_or_the_one_that_is_said(head, language, read):
    items, aside = read(f"{head}|answer|lang", "?|x|", "!|y|pt-BR", "-|z|German")
    assert [i.language for i in items] == [language, "pt-BR"]
    assert aside == [("lang", "language must be a tag such as en, de or pt-BR")]
    assert guess_layout(table(f"{head}|answer", "?|x"), language="nl")["language"] == "nl"
    with pytest.raises(ValueError, match="language must be a tag such as en, de or pt-BR; got 'x y'"):
        guess_layout(table(f"{head}|answer", "?|x"), language="x y")


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (
            "question|a|b|fraction1|fraction2",
            r"the table must have a key; got marks of the options \(fraction1, fraction2\)",
        ),
        ("words|a|b|key", "column for question must be one of words, a, b, key; got no name that is known"),
        ("question|id", "must have options with a key, or reference answers; got columns question, id;"),
    ],
)
def test_a_table_without_what_is_needed_is_refused(head, words):
    with pytest.raises(ValueError, match=words):
        guess_layout(table(head, head))


def test_an_item_has_what_its_row_says(read):
    head = "id|question|a|b|key|rationale|category|topic|group|canary|task"
    [item], _ = read(head, "q 1|?|x|y|b>a|why|c|t|g|BIG|Ranking", "q 2||x|y|A||||||", key="letter", protected=False)
    assert (item.item_id, item.key, item.rationale, item.category, item.topic) == ("q-1", ["B", "A"], "why", "c", "t")
    assert (item.group_id, item.canary, item.task, item.protected) == ("g", "BIG", "ranking", False)
    assert (item.source, item.study, item.soft_labels, item.context) == ("t.csv:2", "s", None, {})
    [plain], aside = read("question|a|b|key|task", "?|x|y|A|", "!|x|y|A|guess", key="letter")
    assert plain.item_id.startswith("s-") and len(plain.item_id) == 14 and plain.protected
    assert (plain.rationale, plain.category, plain.canary) == (None, None, None)
    assert aside[0][0] == "task" and aside[0][1].startswith("task must be one of multi_label, multiple_choice")
    _, aside = read("question|a|b|key", "|x|y|A", ["?", Unreadable("1e", "no number"), "y", "A"], key="letter")
    assert aside == [("question", "question must not be empty"), ("a", "no number")]
    with pytest.raises(ValueError, match="the form of keys must be said: letter, number, number0, text"):
        load_questions(
            table("question|a|b|key", "?|x|y|A"), "s", {"question": "question", "options": ["a", "b"], "key": "key"}
        )


@pytest.mark.parametrize("text", ["N/A", "n/a", "#N/A", "-", "–", "?", "TBD", "null"])
def test_a_sign_that_there_is_no_reference_is_none(text, read):
    items, aside = read("question|reference", f"?|{text}", "!|Na", "#|None")
    assert [i.key for i in items] == [["Na"], ["None"]]
    assert aside == [("reference", "a reference must be an answer, and no sign that there is none")]


@pytest.mark.parametrize("n", [14, 26])
def test_options_in_columns_and_labels_before_them_go_to_z(n, read):
    "Fourteen lettered columns, or fourteen lettered lines in a cell; and twenty-six."
    names = [f"option_{x}" for x in "abcdefghijklmnopqrstuvwxyz"[:n]]
    assert guess_columns(["stem", *names])["options"] == names
    labelled = [f"{x.upper()}. text {x}" for x in "abcdefghijklmnopqrstuvwxyz"[:n]]
    [got], _ = read("stem|options|key", ["?", "\n".join(labelled), "A"])
    assert got.options == [f"text {x}" for x in "abcdefghijklmnopqrstuvwxyz"[:n]]


@pytest.mark.parametrize(("n", "is_list"), [(2_000, True), (4_000, False)])
def test_a_list_of_python_is_read_up_to_twenty_thousand_characters(n, is_list):
    "Of single quotes, which JSON does not know: some 14,000 characters, and 28,000."
    text = str([f"'{k}" if not k else str(k % 10) * 3 for k in range(n)])
    parts = questions._cell_parts(text, None)
    assert (len(text) < 20_000) == is_list and len(parts) == (n if is_list else 1)


def test_of_several_options_that_do_not_fit_the_first_is_named():
    "Signs that there is none, and options that stand twice; a key that is two options' is the first's."
    for options, value in ((["a", "n/a", "-"], "n/a"), (["a", "b", "B", "A"], "a")):
        with pytest.raises(questions.Misfit) as e:
            questions._options_of_row({"o": options}, "o", None)
        assert e.value.value == value
    assert questions._key_position("x", "text", ["y", "x", "X"]) == 1


def test_the_form_of_ranked_keys_is_seen_from_their_entries():
    "Letters with > between them name options of a ranking."
    rows = ["?|x;y;z|B > A|ranking", "?|u;v;w|C>B>A|ranking"]
    assert guess_layout(table("stem|options|key|task", *rows))["key"] == "letter"
    rows = ["?|x;y;z|y > x|ranking", "?|u;v;w|w>v|ranking"]
    assert guess_layout(table("stem|options|key|task", *rows))["key"] == "text"


@pytest.mark.parametrize(("number", "is_group"), [("case-123456", True), ("case-1234567", False), ("abcdefg1", False)])
def test_a_number_of_a_case_has_six_digits_at_most(number, is_group):
    "And six letters before them; beside it stands another case."
    found = guess_layout(table("stem|key|case|vignette|options", f"?|A|{number}|text of it|x;y", "!|B|7|text|x;y"))
    assert (found["columns"].get("group") == "case") == is_group


def test_every_cell_with_tags_is_counted():
    "Three of four, in two rows; a picture is none that can be read, of which 80 characters are shown."
    picture = '<img src="' + "x" * 100 + '"/>'
    got = questions._remove_tags(table("a|b", ["<b>x</b>", "y"], ["<i>z</i>", picture]))
    assert got.notes == ["3 cells hold HTML; its text is read"]
    assert [list(row.values()) for _, row in got.rows][0] == ["x", "y"] and got.rows[1][1]["a"] == "z"
    assert got.rows[1][1]["b"].value == picture[:80]


def test_a_number_with_a_decimal_comma_names_one_option(read):
    rows = [f"{k}|Why {k}?|a{k}|b{k}|c{k}|{k},0" for k in (1, 2, 3)]
    items, rules = read("id|question|option_a|option_b|option_c|key", *rows)
    assert ([i.key for i in items], rules) == ([["A"], ["B"], ["C"]], [])  # 1,0 was A and B, counted from 0
    with pytest.raises(ValueError, match=r"'1,0', which can name 'a1' \(--key number\) or 'b1, a1' \(--key number0\)"):
        read("id|question|option_a|option_b|option_c|key", *rows[:2])  # as 1 and 2 alone
    items, _ = read("id|question|option_a|option_b|option_c|key", "1|Why?|a|b|c|1,0", key="number0")
    assert items[0].key == ["A", "B"]


@pytest.mark.parametrize("vignette", ["vignette", ["vignette"]])
def test_one_column_of_context_or_shares_is_read_by_its_name_alone(vignette):
    rows = table("question|a|b|key|vignette|share", "What now?|x|y|A|A man of 40.|0.5")
    columns = {"question": "question", "options": ["a", "b"], "key": "key", "context": vignette}
    (item,) = load_questions(rows, "s", columns, key="letter").records
    assert item.context == {"vignette": "A man of 40."}  # of a name alone no case was read
    with pytest.raises(ValueError, match=r"column share must hold what fits: there must be one share an option \(2\)"):
        load_questions(rows, "s", columns | {"soft_labels": "share"}, key="letter")
