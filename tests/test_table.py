"Tables from files, byte by byte and cell by cell: what is read, what is counted, what is refused; expected by hand."

import datetime
import json
import math
import re
import zipfile
from xml.etree import ElementTree as ET

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mhbench.records import table as t
from mhbench.records.schema import Record, letters
from mhbench.records.table import Table, Unreadable, cell, json_rows, json_value, marked_text, read_table


@pytest.fixture
def file(tmp_path):
    def written(content: str | bytes, name: str = "q.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return written


@pytest.mark.parametrize(
    ("content", "encoding"),
    [
        (b"", "utf-8-sig"),
        (b"a", "utf-8-sig"),
        (b"\0", "utf-8-sig"),
        (b"ab", "utf-8-sig"),
        (b"\0\0", "utf-8-sig"),
        (b"\0a", "utf-16-be"),
        (b"a\0", "utf-16-le"),
        ("a".encode("utf-16"), "utf-16"),
        (b"\xfe\xff\0a", "utf-16"),
    ],
)
def test_an_encoding_is_seen_from_the_first_bytes(content, encoding, file):
    assert t.file_encoding(file(content)) == encoding
    assert t.file_encoding(file(content), "latin-1") == "latin-1"


def test_the_line_that_does_not_fit_is_named_as_windows_1252_has_it(file):
    path = file(b"x,y\n1,2\n\xe9t\xe9,3\n\xff,4\n")
    assert t.as_windows_1252(path) == (3, "été,3") and t.as_windows_1252(path, "cp1252") is None
    assert t.as_windows_1252(file(b"x\n1\n")) is None and t.as_windows_1252(file("é".encode("utf-16"))) is None
    words = r"got 'utf-8-sig', which line 3 does not fit \(q.csv:3\); as cp1252 it is 'été,3'; say --encoding cp1252"
    for read in (read_table, t.file_text):
        with pytest.raises(ValueError, match=words):
            read(file(b"x,y\n1,2\n\xe9t\xe9,3\n\xff,4\n"))
    with pytest.raises(ValueError, match="json_rows: encoding must be that of the file; got 'ascii', which line 1"):
        t.file_text(file("é"), "ascii")


@pytest.mark.parametrize(
    ("content", "columns", "rows"),
    [
        ("a;b,c;d\n1;2;3\n", ["a", "b,c", "d"], [("q.csv:2", "1", "2", "3")]),
        ("a\tb\n1\t2\n", ["a", "b"], [("q.csv:2", "1", "2")]),
        ("a\n1\n", ["a"], [("q.csv:2", "1")]),
        ('"a;b;c",d\n1,2\n', ["a;b;c", "d"], [("q.csv:2", "1", "2")]),
        ('sep=|\na|b\n1|"2\n3"\n\n4|5\n', ["a", "b"], [("q.csv:3", "1", "2\n3"), ("q.csv:6", "4", "5")]),
        ('"SEP=;"\r\na;b\r\n1;2\r\n', ["a", "b"], [("q.csv:3", "1", "2")]),
        ('a,b\n\n1,"2\n3"\n4, 5 \n', ["a", "b"], [("q.csv:3", "1", "2\n3"), ("q.csv:5", "4", "5")]),
        (" a , b\n1,2\n", ["a", "b"], [("q.csv:2", "1", "2")]),
    ],
)
def test_a_csv_file_is_cut_where_its_header_is_cut_best(content, columns, rows, file):
    table = read_table(file(content))
    assert (table.columns, table.notes) == (columns, [])
    assert [(place, *row.values()) for place, row in table.rows] == rows


def test_a_delimiter_is_named_where_two_cut_the_header_alike(file):
    with pytest.raises(
        ValueError, match=r"be named where a header can be cut in two ways; got \[',', ';'\] \(q.csv:1\)"
    ):
        read_table(file("a,b;c\n1,2\n"))
    assert read_table(file("a,b;c\n1,2\n"), delimiter=",").columns == ["a", "b;c"]
    for wrong in ("||", '"', "\n"):
        with pytest.raises(
            ValueError, match="csv_rows: delimiter must be one character that is no quote and ends no line"
        ):
            read_table(file("a,b;c\n1,2\n"), delimiter=wrong)
    assert read_table(file("a;b\n1;2\n", "q.tsv")).columns == ["a;b"]  # of its name alone
    assert read_table(file("sep=;\na;b\n1;2\n", "q.tsv")).columns == ["a", "b"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a,b\n1\n", r"a row must have 2 fields; got 1 \(q.csv:2\)"),
        ("a,b\n1,2,3\n", r"a row must have 2 fields; got 3 \(q.csv:2\)"),
        ('a,b\n1,2\n3,"4\n', r"path must be a CSV file; got unexpected end of data \(q.csv:3\); look for a quote"),
        ('sep=,\na,b\n3,"4\n', r"got unexpected end of data \(q.csv:3\)"),
        ("sep=;\na;a\n", r"got \['a'\] twice \(q.csv:2\)"),
        ("a,a\n1,2\n", r"columns must have names of their own; got \['a'\] twice \(q.csv:1\); rename one"),
        (",\n1,2\n", r"must begin with the names of its columns; got an empty row \(q.csv:1\)"),
        ("", r"must begin with the names of its columns; got an empty row \(q.csv:1\)"),
        ("#separator:tab\nx\n", r"must name the columns; got '#separator:tab' \(q.csv:1\); this is Anki's text"),
        ("::Q1:: x\n", "this is Moodle's GIFT"),
        ("Title,,\n\na,b,c\n1,2,3\n", r"got no name for 2 of 3 columns \(q.csv:1\); take the lines above line 3 away"),
        ("a,,,b\n1,2,3,4\n", r"got no name for 2 of 4 columns \(q.csv:1\); write all names into one row"),
    ],
)
def test_a_csv_file_that_does_not_fit_is_refused_with_its_line(content, words, file):
    with pytest.raises(ValueError, match=words):
        read_table(file(content))


def test_what_is_left_out_is_counted(file):
    table = read_table(file("a,,b\n1,x,2\n,,\n3,,4\n,y,\n , , \n"))
    assert [(place, row) for place, row in table.rows] == [
        ("q.csv:2", {"a": "1", "b": "2"}),
        ("q.csv:4", {"a": "3", "b": "4"}),
        ("q.csv:5", {"a": "", "b": ""}),
    ]
    assert table.notes == [
        "2 empty rows are left out",
        "2 rows have something in a column without a name, which is not read",
    ]
    assert table.columns == ["a", "b"]


def test_rows_of_named_columns(file):
    path = file("a,b,b\n1,2,3\n")
    assert list(t.csv_rows(path, ("a",))) == [("q.csv:2", {"a": "1", "b": "3"})]  # b is not asked for
    with pytest.raises(
        ValueError, match=r"a column that is read must have a name of its own; got \['b'\] more than once"
    ):
        list(t.csv_rows(path))
    with pytest.raises(ValueError, match=r"columns must include \['c'\]; got \['a', 'b', 'b'\] \(q.csv:1\)"):
        list(t.csv_rows(path, ("a", "c")))
    with pytest.raises(FileNotFoundError, match="got 'none.csv', which is not there"):
        list(t.csv_rows(path.with_name("none.csv")))
    assert list(t.text_rows(file("a;b\n1\n2;3;4\n"))) == [(1, ["a", "b"]), (2, ["1"]), (3, ["2", "3", "4"])]
    assert t.rows_as_csv([{"a": 1, "b": 'x "y"'}]) == 'a,b\n1,"x ""y"""\n' and t.rows_as_csv([], ["a"]) == "a\n"
    assert t.rows_as_csv([{"a": 1, "b": 2}], ["b"], extrasaction="ignore") == "b\n2\n"


def test_a_field_of_16_million_characters_is_read_and_a_longer_one_is_not(file, monkeypatch):
    assert t.csv.field_size_limit() == 16 * 2**20
    t.csv.field_size_limit(100)
    try:
        read_table(file("a,b\n1," + "x" * 100))
        with pytest.raises(ValueError, match="take the long field into a file of its own"):
            read_table(file("a,b\n1," + "x" * 101))
    finally:
        t.csv.field_size_limit(t.MOST_OF_A_FIELD)


def test_the_size_of_a_table_is_limited(monkeypatch):
    assert (t.MOST_CELLS, t.MOST_CHARACTERS, t.MOST_OF_A_WORKBOOK) == (2_000_000, 128 * 2**20, 64 * 2**20)
    rows = lambda n, text="": ((str(k), {"a": text}) for k in range(n))
    monkeypatch.setattr(t, "MOST_CELLS", 40)  # four a row: its cells and three
    assert sum(1 for _ in t._rows_within_limit(rows(10))) == 10
    with pytest.raises(ValueError, match=r"at most, since it is held in memory; got more \(10\)"):
        sum(1 for _ in t._rows_within_limit(rows(11)))
    monkeypatch.setattr(t, "MOST_CHARACTERS", 3 * 2**20)
    assert sum(1 for _ in t._rows_within_limit(rows(3, "x" * 2**20))) == 3
    with pytest.raises(ValueError, match=r"40 cells and 3 million characters at most, .* got more \(3\)"):
        sum(1 for _ in t._rows_within_limit(rows(4, "x" * 2**20)))
    names = [f"c{k}" for k in range(4_001)]
    assert t._column_names(names[1:], "x") == names[1:]
    with pytest.raises(ValueError, match=r"4,000 columns at most; got 4,001 \(x\)"):
        t._column_names(names, "x")


ODD = "a cell must have no control character; this has U+{}".format


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (math.nan, ""),
        (" e\u0301\u200b\ufeff ", "é"),
        ("a\tb\nc\x85", "a\tb\nc"),
        (True, "true"),
        (7, "7"),
        (-0.0, "0"),
        (2.0, "2"),
        (2.5, "2.5"),
        (1e14, "100000000000000"),
        (1e15, "1000000000000000.0"),
        (-1e15, "-1000000000000000.0"),
        (datetime.date(2025, 1, 7), "2025-01-07"),
        (datetime.time(10, 5), "10:05:00"),
        ((1, "x"), ["1", "x"]),
        ({"A": "x", "B": "y"}, ["x", "y"]),
        ({"a": "x", "b": 2}, ["x", "2"]),
        ({"1": "x", "2": "y"}, ["x", "y"]),
        ({"text": ["x", "y"], "label": ["A", "B"]}, ["x", "y"]),
        ([{"label": "A", "text": "x"}, {"label": "B", "text": "y"}], ["x", "y"]),
        ([{"aid": 1, "atext": "x"}, {"aid": 2, "atext": "y"}], ["x", "y"]),
        ({k: k for k in letters(26)}, letters(26)),
        (math.inf, ("inf", "a number must be finite")),
        (-math.inf, ("-inf", "a number must be finite")),
        ("a\0b", ("'a\\x00b'", ODD("0000"))),
        ("\u202eabc", ("'\\u202eabc'", ODD("202E"))),
        ("x\x1f" + "y" * 100, ("'x\\x1f" + "y" * 74, ODD("001F"))),
        (["x", math.inf], ("inf", "a number must be finite")),
        (["x", ["y"]], ("['x', ['y']]", "a list must hold texts or numbers")),
        ({"A": "x", "C": "y"}, ("{'A': 'x', 'C': 'y'}", "a cell must be text, a number or a list, not dict")),
        ({"A": "x"}, ("{'A': 'x'}", "a cell must be text, a number or a list, not dict")),
        ({"A": "x", "B": None}, ("{'A': 'x', 'B': None}", "a cell must be text, a number or a list, not dict")),
        ({"text": ["x"] * 2}, ("{'text': ['x', 'x']}", "a cell must be text, a number or a list, not dict")),
        (["x"] * 1001, ("['x', 'x', 'x']", "a cell must hold 1000 values at most, not 1001")),
        (["x"] * 1000, ["x"] * 1000),
        ([], []),
    ],
)
def test_a_cell_is_text_or_says_why_it_is_none(value, text):
    assert cell(value) == (Unreadable(*text) if isinstance(text, tuple) else text)


def test_options_of_more_than_26_letters_are_no_options():
    assert isinstance(cell({str(k): "x" for k in range(1, 28)}), Unreadable)
    assert cell({str(k): "x" for k in range(1, 27)}) == ["x"] * 26


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 1, "a": 2}', "the name 'a' more than once in an object"),
        ('{"a": NaN}', "NaN, which is no number"),
        ('{"a": "\\ud800"}', r"half a character, '\\ud800'"),
        ('{"a": "\\uDc00x"}', "half a character"),
        ("[" * 100_000, "entries in entries without end"),
        ("[1", "Expecting"),
    ],
)
def test_json_that_says_two_things_or_none_is_refused(text, words):
    with pytest.raises(ValueError, match=words):
        json_value(text)


def test_json_of_any_kind():
    assert json_value('{"a": ["\\ud83d\\ude00", 1.5, null]}') == {"a": ["\U0001f600", 1.5, None]}
    assert math.isnan(json_value("NaN", numbers=False)) and json_value("-Infinity", numbers=False) == -math.inf


def test_rows_of_json_have_places(file):
    lines = file('{"a": 1}\n\n{"a": "\u2028"}\r\n', "q.jsonl")
    assert list(json_rows(lines)) == [("q.jsonl:1", {"a": 1}), ("q.jsonl:3", {"a": "\u2028"})]
    listed = file('[{"a": 1},\n {"a": 2}]', "q.json")
    assert list(json_rows(listed)) == [("q.json:1", {"a": 1}), ("q.json:2", {"a": 2})]
    assert list(json_rows(file('{"a":\n 1}', "q.JSON"))) == [("q.JSON:1", {"a": 1})]
    [(_, row)] = json_rows(file('{"a": NaN}', "q.jsonl"), numbers=False)
    assert math.isnan(row["a"])


@pytest.mark.parametrize(
    ("content", "name", "words"),
    [
        ('{"a": 1}\n{"a"', "q.jsonl", r"a line must be a JSON object; got .* at column 5 \(q.jsonl:2\)"),
        ('[{"a": 1},\n{"a" 2}]', "q.json", r"got .* at column 6 \(q.json:2\)"),
        ('{"a": 1}\n[1]', "q.jsonl", r"a row must be a JSON object; got list \(q.jsonl:2\); write one object a line"),
        ('[{"a": 1}, 2]', "q.json", r"a row must be a JSON object; got int \(q.json:2\); write a list of objects"),
        ('{"a": 1}\n{"a": Infinity}', "q.jsonl", r"got Infinity, which is no number \(q.jsonl:2\)"),
    ],
)
def test_json_that_is_no_row_is_named_with_its_place(content, name, words, file):
    with pytest.raises(ValueError, match=words):
        list(json_rows(file(content, name)))


def test_rows_of_json_and_parquet_are_tables(file, tmp_path):
    question = {"stem": "?", "choices": [{"label": "A", "text": "x"}, {"label": "B", "text": "y"}]}
    table = read_table(file(json.dumps([{"question": question, "k": 1}, {"z": None, "k": 2}, {"k": None}]), "q.json"))
    assert table.columns == ["question", "k", "choices", "z"]
    assert table.rows == [
        ("q.json:1", {"question": "?", "k": "1", "choices": ["x", "y"], "z": ""}),
        ("q.json:2", {"question": "", "k": "2", "choices": "", "z": ""}),
    ]
    assert table.notes == ["1 empty rows are left out"]
    both = read_table(file(json.dumps([{"question": question, "choices": "own"}]), "q.json"))
    assert both.rows[0][1]["choices"] == "own" and isinstance(both.rows[0][1]["question"], Unreadable)
    pq.write_table(pa.table({"a": [1.0, None], "b": [["x"], ["y"]]}), tmp_path / "q.parquet")
    rows = [("q.parquet:row 1", {"a": "1", "b": ["x"]}), ("q.parquet:row 2", {"a": "", "b": ["y"]})]
    assert read_table(tmp_path / "q.parquet") == Table(["a", "b"], rows, [])
    with pytest.raises(ValueError, match=r"path must be a Parquet file; got .* \(p.parquet\)"):
        read_table(file("x", "p.parquet"))


def test_a_file_of_another_form_is_refused(file):
    with pytest.raises(ValueError, match="path must end in .csv, .tsv, .xlsx, .json, .jsonl or .parquet; got 'q.ods'"):
        read_table(file("x", "q.ods"))
    with pytest.raises(ValueError, match=r"sheet must be left out where the file is no workbook; got 'a' \(q.csv\)"):
        read_table(file("a\n1\n"), sheet="a")
    for name in ("q.txt", "q.CSV"):
        assert read_table(file("a\n1\n", name)).columns == ["a"]
    assert read_table(file('{"a": 1}', "q.ndjson")).columns == ["a"]
    with pytest.raises(
        ValueError, match="path must be an Excel workbook; got .*; save it as .xlsx, without a password"
    ):
        read_table(file("x", "q.xlsm"))


@pytest.mark.parametrize(
    ("value", "code", "shown"),
    [
        (2.0, "General", "2"),
        (2.5, "@", "2.5"),
        (1e15, "general", "1000000000000000.0"),
        (1e14, "general", "100000000000000"),
        (-1e15, "general", "-1000000000000000.0"),
        (2.345, "0.00", "2.35"),
        (2.5, "0", "3"),
        (1234.5, "#,##0", "1,235"),
        (1234.5, "#,##0.0", "1,234.5"),
        (0.255, "0%", "26%"),
        (0.255, "0.0%", "25.5%"),
        (2.5, "0.0E+00", None),
        (2.5, "yyyy", None),
    ],
)
def test_a_number_of_a_workbook_as_it_is_shown(value, code, shown):
    assert t._number_as_shown(value, code) == shown


def test_marks_of_a_type():
    assert marked_text("9", raised=True) == "^9" and marked_text("2", lowered=True) == "_2"
    assert marked_text(" no ", struck=True) == "~~no~~" and marked_text(" ", struck=True) == " "
    assert marked_text(" no ") == " no " and marked_text("x", raised=True, struck=True) == "^~~x~~"


@pytest.fixture
def sheet(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()

    def read(**how) -> Table:
        book.save(tmp_path / "q.xlsx")
        return read_table(tmp_path / "q.xlsx", **how)

    return book.active, read


def test_a_sheet_begins_with_the_first_row_that_shows_something(sheet):
    page, read = sheet
    for place, value in {"B3": "a", "C3": 7, "B4": 1.5, "C6": "x", "E6": "y"}.items():
        page[place] = value
    table = read()
    assert table.columns == ["a", "7"]
    assert table.rows == [("q.xlsx:4", {"a": "1.5", "7": ""}), ("q.xlsx:6", {"a": "", "7": "x"})]
    assert table.notes == [
        "1 empty rows are left out",
        "1 rows have something in a column without a name, which is not read",
    ]


def test_merged_hidden_and_computed_cells_are_counted(sheet):
    page, read = sheet
    for row in (["case", "n", "m"], ["x", 1, "p"], [None, "=1+1", None], [None, 3, None], ["y", 4, "q"]):
        page.append(row)
    page.merge_cells("A2:A4")
    page.merge_cells("B5:C5")
    page.merge_cells("A8:A12")  # below the last row
    page.row_dimensions[1].hidden = page.row_dimensions[2].hidden = page.row_dimensions[5].hidden = True
    table = read()
    assert [row["case"] for _, row in table.rows] == ["x", "x", "x", "y"]
    assert table.rows[1][1]["n"] == Unreadable(
        "=1+1", "a formula must have a stored value: open the workbook and save it"
    )
    wide = Unreadable("5:5", "a cell must not be merged over several columns")
    assert (table.rows[3][1]["n"], table.rows[3][1]["m"]) == (wide, wide)
    assert table.notes == [
        "1 cells are formulas; the values stored with them are taken",
        "3 merged cells count for every row that they cover",
        "2 hidden rows are read like the others",
    ]


def test_a_name_over_two_columns_is_refused(sheet):
    page, read = sheet
    page.append(["a", None, None, "b"])
    page.append([1, 2, 3, 4])
    page.merge_cells("A1:C1")
    with pytest.raises(ValueError, match=r"must name each column; got one cell over 3 columns \(q.xlsx:1\)"):
        read()


def test_a_name_over_two_rows_is_a_name(sheet):
    page, read = sheet
    page.append(["a", "b"])
    page.append([None, 2])
    page.merge_cells("A1:A2")
    assert read().rows == [("q.xlsx:2", {"a": "a", "b": "2"})]


def test_cells_as_they_are_shown_or_as_they_are_kept(sheet):
    from openpyxl.cell.rich_text import CellRichText, TextBlock
    from openpyxl.cell.text import InlineFont
    from openpyxl.styles import Font

    page, read = sheet
    page.append(["a", "b", "c", "d", "e", "f"])
    rich = CellRichText("10", TextBlock(InlineFont(vertAlign="superscript"), "9"), " and ")
    rich.append(TextBlock(InlineFont(strike=True), "no"))
    page.append([2.345, 0.25, rich, "gone", datetime.date(2025, 1, 7), True])
    page["A2"].number_format, page["B2"].number_format = "0.0", "0%"
    page["D2"].font = Font(strike=True)
    shown, kept = read().rows[0][1], read(stored=True).rows[0][1]
    assert (shown["a"], kept["a"], shown["b"], kept["b"]) == ("2.3", "2.345", "25%", "25%")
    assert (shown["c"], shown["d"], shown["f"]) == ("10^9 and ~~no~~", "~~gone~~", "true")
    assert shown["e"].value == "2025-01-07 00:00:00" and "a number in a plain format" in shown["e"].rule


@pytest.mark.parametrize(("n_rows_above", "is_refused"), [(38, True), (39, False)])
def test_forty_lines_show_whether_the_first_one_names_the_columns(n_rows_above, is_refused, file):
    "Of a CSV file, the header among them; what stands in a column without a name further down is counted."
    content = "a,,\n" + "1,,\n" * n_rows_above + "1,2,3\n"
    if is_refused:
        with pytest.raises(ValueError, match="got no name for 2 of 3 columns"):
            read_table(file(content))
    else:
        assert read_table(file(content)).notes == [
            "1 rows have something in a column without a name, which is not read"
        ]


@pytest.mark.parametrize(("row", "is_refused"), [(41, True), (42, False)])
def test_forty_rows_below_the_first_show_whether_it_names_the_columns(row, is_refused, sheet):
    "Of a sheet."
    page, read = sheet
    page["A1"], page[f"B{row}"], page[f"C{row}"] = "a", 2, 3
    if is_refused:
        with pytest.raises(ValueError, match=r"got no name for 2 of 3 columns \(q.xlsx:1\)"):
            read()
    else:
        assert read().columns == ["a"]


def test_a_line_that_names_the_delimiter_may_end_in_blanks(file):
    "Up to twenty characters."
    assert read_table(file("sep=;" + " " * 14 + "\na;b,c\n1;2\n")).columns == ["a", "b,c"]


def test_a_sheet_has_as_many_rows_as_a_sheet_of_excel(sheet, monkeypatch):
    "And as many cells as a table."
    assert t._MOST_ROWS == 2**20
    page, read = sheet
    for value in ("a", *range(4)):
        page.append([value])
    monkeypatch.setattr(t, "_MOST_ROWS", 5)
    assert len(read().rows) == 4
    page.append([5])
    with pytest.raises(ValueError, match="a sheet must have 5 rows at most; got row 6"):
        read()
    monkeypatch.setattr(t, "MOST_CELLS", 6)
    t._refuse_too_many_cells(dict.fromkeys(range(6)))
    with pytest.raises(ValueError, match="a sheet must have 6 cells at most"):
        t._refuse_too_many_cells(dict.fromkeys(range(7)))


def test_a_long_formula_without_a_value_is_shown_in_part(sheet):
    "Its first 80 characters."
    page, read = sheet
    page.append(["a"])
    page.append(["=" + "+".join(["1"] * 60)])
    assert read().rows[0][1]["a"].value == ("=" + "+".join(["1"] * 60))[:80]


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ("<strike/>", "~~no~~"),
        ('<strike val="1"/>', "~~no~~"),
        ('<strike val="0"/>', "no"),
        ('<strike val="false"/>', "no"),
        ('<vertAlign val="superscript"/>', "^no"),
        ('<vertAlign val="subscript"/>', "_no"),
        ('<vertAlign val="baseline"/>', "no"),
        ("", "no"),
    ],
)
def test_parts_of_a_text_are_marked_wherever_the_workbook_keeps_it(properties, text, sheet, tmp_path):
    "In the cell, or among the texts that cells share."
    run = ET.fromstring(f'<r xmlns="x"><rPr>{properties}</rPr><t>no</t></r>')
    assert t._inline_text([run, ET.fromstring('<r xmlns="x"><t>, yes</t></r>')]) == f"{text}, yes"
    page, read = sheet
    page.append(["a"])
    page.append(["PART"])
    read()
    with zipfile.ZipFile(tmp_path / "q.xlsx") as old, zipfile.ZipFile(tmp_path / "r.xlsx", "w") as new:
        kind = "application/vnd.openxmlformats-officedocument.spreadsheetml.sharedStrings+xml"
        part = f'<Override PartName="/xl/sharedStrings.xml" ContentType="{kind}"/></Types>'
        for name in old.namelist():
            content = old.read(name).decode()
            content = re.sub(r't="inlineStr"><is><t>PART</t></is>', 't="s"><v>0</v>', content)
            new.writestr(name, content.replace("</Types>", part))
        text_parts = f"<si><r><t>so </t></r><r><rPr>{properties}</rPr><t>no</t></r></si>"
        main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
        new.writestr("xl/sharedStrings.xml", f'<sst xmlns="{main}">{text_parts}</sst>')
    assert read_table(tmp_path / "r.xlsx").rows[0][1]["a"] == f"so {text}"


def test_the_only_sheet_that_holds_something_is_read(sheet):
    page, read = sheet
    page.title = "empty"
    other = page.parent.create_sheet("full")
    with pytest.raises(
        ValueError, match=r"sheet must be one of empty, full; got None \(q.xlsx\); say which with --sheet"
    ):
        read()
    other.append(["a"])
    other.append([1])
    assert read().rows == [("q.xlsx:2", {"a": "1"})]
    assert read(sheet="full").rows == [("q.xlsx:full:2", {"a": "1"})]
    page.append(["b"])
    with pytest.raises(ValueError, match="sheet must be one of empty, full; got 'none'"):
        read(sheet="none")
    assert read(sheet="empty").columns == ["b"]


class Named(Record):
    name: str


def test_rows_that_do_not_fit_are_set_aside_in_the_table_s_order(tmp_path):
    table = Table(
        ["n"], [(f"x:{k}", {"n": n}) for k, n in enumerate(["a", "", "b", Unreadable("e", "r"), ["l"], "a"])], []
    )

    def fields(place, row):
        if not (name := t.cell_text(row, "n")):
            raise t.Misfit("n", "x" * 300, "no name")
        return {"name": name if name != "b" else 7}

    got = t.validate_table(table, fields, Named, strict=False, set_aside=tmp_path / "a.jsonl", unique="name")
    assert [r.name for r in got.records] == ["a"]
    assert [(a["place"], a["column"]) for a in got.set_aside][:4] == [
        ("x:1", "n"),
        ("x:2", "name"),
        ("x:3", "n"),
        ("x:4", "n"),
    ]
    assert got.set_aside[-1]["place"] == "x:5" and got.set_aside[0]["value"] == "'" + "x" * 199
    assert [a["rule"] for a in got.set_aside[2:4]] == ["r", "a cell must hold one text, not a list"]
    assert len((tmp_path / "a.jsonl").read_text().splitlines()) == 5
    with pytest.raises(ValueError, match=r"column n must hold what fits: no name; got '(x){199} \(x:1\)"):
        t.validate_table(table, fields, Named)
    assert t.cell_text({}, None) == "" and t.cell_value({"a": ["x"]}, "a") == ["x"] and t.folded(" A  b\n") == "a b"
