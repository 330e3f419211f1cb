"""A sixth study: CONTRIBUTING.md followed to the letter, four forms of one table, and the tricks that tables play.

What is expected of the worked example stands in CONTRIBUTING.md itself; the other expectations are counted by hand.
"""

import datetime
import io
import json
import re
import shutil
import subprocess
import sys
import tracemalloc
import zipfile
from pathlib import Path

import openpyxl
import pandas as pd
import pytest
import yaml
from conftest import ENV, ROOT
from openpyxl.cell.rich_text import CellRichText, TextBlock
from openpyxl.cell.text import InlineFont
from openpyxl.styles import Font

import mhbench.studies
from mhbench.corpus.load import load_corpus
from mhbench.records.described import ratings_of_items, read_ratings
from mhbench.records.guessed import guess_description
from mhbench.records.questions import guess_layout, load_questions
from mhbench.records.schema import Item, read_records
from mhbench.records.table import read_table
from mhbench.run.cli import parser
from mhbench.tools.new_study import _commonest_values, asked_options, example, propose, summary

PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"(?:^`(?P<file>[\w./-]+)`:\n\n)?^```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = [m.groupdict() for m in BLOCK.finditer(PAGE)]
FILES = {b["file"]: b["text"] for b in BLOCKS if b["file"]}


# ---------------------------------------------------------------- the page, to the letter


def shell(script: str, cwd: Path) -> str:
    env = {k: v for k, v in ENV.items() if k != "MHBENCH_ROOT"} | {"PYTHONPATH": str(cwd)}
    done = subprocess.run(["bash", "-euc", script], cwd=cwd, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def followed(clone, tmp_path_factory) -> Path:
    """A clone in which every block of CONTRIBUTING.md was written or run, in the order of the page. `dvc repro` runs
    once, at the last of the blocks that have it, for both studies.
    """
    folder = tmp_path_factory.mktemp("followed") / "mhbench"
    shutil.copytree(clone, folder)
    said = None
    last = [b for b in BLOCKS if b["kind"] == "bash" and "dvc repro\n" in b["text"]][-1]
    assert "--studies memory" in last["text"]
    for block in BLOCKS:
        if block["file"]:
            path = folder / block["file"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block["text"], encoding="utf-8")
        elif block["kind"] == "bash":
            of_last = block["text"].replace("--studies memory", "--studies clinic,memory")
            said = shell(of_last if block is last else block["text"].replace("dvc repro\n", ""), folder)
        elif block["kind"] == "text":
            assert said == block["text"]
    return folder


def prepared(folder: Path, study: str) -> list[Item]:
    return read_records(next(folder.glob(f"results/text/{study}/prepare/items.parquet")), Item)


def test_the_page_has_both_ways():
    assert [b["kind"] for b in BLOCKS].count("bash") == 6
    assert {"questions.csv", "fragen.csv", "ratings.csv", "cases.txt", "mhbench/studies/vignettes/load.py"} < set(FILES)
    assert len(FILES["mhbench/studies/vignettes/load.py"].splitlines()) <= 15
    assert FILES["questions.csv"].count("\n") == 7  # a header and six questions


def test_the_table_of_the_page_is_scored(followed):
    items = prepared(followed, "clinic")
    assert [i.item_id for i in items] == ["w1", "w2", "w3", "w4", "w5", "w6"]
    assert [len(i.options) for i in items] == [4, 3, 4, 4, 0, 0]
    assert [i.key for i in items[:4]] == [["B"], ["A"], ["B"], ["A"]]
    assert [i.key[0] for i in items[4:]] == ["Little sleep, spending, talking without pause", "He avoids lifts"]
    cases = [i.group_id for i in items]
    assert cases[0] == cases[1] and cases[2] == cases[3] == cases[4] and cases[5] is None and cases[0] != cases[2]
    scores = pd.read_parquet(followed / "results" / "studies" / "clinic" / "score" / "scores.parquet")
    assert len(scores) == 6 and scores["correct"].notna().sum() == 4  # the open ones are the judge's


def test_the_page_went_through_every_stage_that_its_studies_have(followed):
    "`dvc repro` alone: judge for the open questions, preferences and agreement for the ratings."
    p = yaml.safe_load((followed / "params.yaml").read_text(encoding="utf-8"))
    for study in ("clinic", "memory"):
        for stage in set(p["studies"][study]) - {"prepare", "generate"}:
            assert (followed / "results" / "metrics" / study / f"{stage}.json").exists(), (stage, study)
    labels = pd.read_parquet(followed / "results" / "studies" / "clinic" / "preferences" / "labels.parquet")
    best = labels.loc[labels.groupby("question")["probability"].idxmax()]
    assert dict(zip(best["question"], best["option"], strict=True)) == {"w1": "B", "w3": "B"}
    again = shell("dvc repro", followed)
    assert re.findall(r"Running stage '([^']+)'", again) == ["inputs"]  # the inputs are hashed, and nothing else runs


def test_the_loader_of_the_page_is_scored(followed):
    items = prepared(followed, "memory")
    assert [(i.item_id, i.key[0]) for i in items] == [
        ("memory-1", "Memory and daily functioning"),
        ("memory-2", "Compulsive washing"),
    ]
    assert (followed / "results" / "studies" / "memory" / "score" / "scores.parquet").exists()


def test_the_entries_of_the_page(followed):
    p = yaml.safe_load((followed / "params.yaml").read_text(encoding="utf-8"))
    assert list(p["studies"]["memory"]) == ["prepare", "generate", "score", "judge"]
    assert list(p["studies"]["clinic"]) == ["prepare", "generate", "score", "judge", "preferences", "agreement"]
    assert p["studies"]["clinic"]["judge"] == {"kind": "score", "judges": ["minilm"]}
    options = p["studies"]["clinic"]["prepare"]["options"]
    assert options["columns"]["options"] == [f"option {x}" for x in "ABCD"]
    told = {"item": "item", "rater": "rater", "target": "option", "value": "score", "scale": "0..100"}
    assert told.items() <= options["ratings"].items()
    assert p["studies"]["station"]["prepare"]["options"]["strict"] is False
    before = (ROOT / "params.yaml").read_text(encoding="utf-8")
    after = (followed / "params.yaml").read_text(encoding="utf-8")
    assert re.findall("#.*", after) == re.findall("#.*", before)  # no comment is lost or moved


def test_a_changed_table_is_refused_until_it_is_read_anew(followed):
    table = followed / "questions.csv"
    old = table.read_text(encoding="utf-8")
    table.write_text(old.replace("Her diet", "Her appetite"), encoding="utf-8")
    with pytest.raises(AssertionError, match="SHA-256"):
        shell("mhbench run prepare --study clinic", followed)
    table.write_text(old, encoding="utf-8")


# ---------------------------------------------------------------- four forms of one table


@pytest.fixture()
def forms(tmp_path) -> dict[str, Path]:
    "The table of the page in all forms."
    (tmp_path / "questions.csv").write_text(FILES["questions.csv"], encoding="utf-8")
    frame = pd.read_csv(tmp_path / "questions.csv", dtype=str)
    frame.to_excel(tmp_path / "questions.xlsx", index=False)
    frame.to_parquet(tmp_path / "questions.parquet")
    frame.to_json(tmp_path / "questions.jsonl", orient="records", lines=True, force_ascii=False)
    frame.to_json(tmp_path / "questions.json", orient="records", indent=2)
    return {p.suffix: p for p in tmp_path.iterdir()}


def read(path: Path, study="clinic", **given) -> list[Item]:
    table = read_table(path, **{k: given.pop(k) for k in ("sheet", "encoding", "delimiter") if k in given})
    return load_questions(table, study, **guess_layout(table, **given)).records


def test_all_forms_give_equal_items(forms):
    assert set(forms) == {".csv", ".xlsx", ".json", ".jsonl", ".parquet"}
    got = {k: [i.model_dump(exclude={"source"}) for i in read(p)] for k, p in forms.items()}
    assert len(got[".csv"]) == 6 and all(v == got[".csv"] for v in got.values())
    places = {k: read(p)[1].source for k, p in forms.items()}
    assert places == {
        ".csv": "questions.csv:3",
        ".xlsx": "questions.xlsx:3",
        ".json": "questions.json:2",
        ".jsonl": "questions.jsonl:2",
        ".parquet": "questions.parquet:row 2",
    }


@pytest.mark.parametrize(
    "encoding, delimiter, given",
    [
        ("utf-8-sig", ";", {}),
        ("cp1252", ";", {"encoding": "cp1252"}),
        ("utf-8", "\t", {}),
        ("utf-16", "\t", {}),
        ("utf-16-le", ";", {}),
    ],
)
def test_a_text_file_as_a_spreadsheet_writes_it(tmp_path, encoding, delimiter, given):
    rows = [["Frage", "Antwort A", "Antwort B", "Lösung"], ["Größer als üblich?", "ja, „viel“", "nein", "B"]]
    (tmp_path / "f.csv").write_text("\r\n".join(delimiter.join(r) for r in rows), encoding=encoding)
    (item,) = read(tmp_path / "f.csv", **given)
    assert (item.question, item.options, item.key) == ("Größer als üblich?", ["ja, „viel“", "nein"], ["B"])
    assert item.language == "de"


def test_another_encoding_is_named_and_not_guessed(tmp_path):
    (tmp_path / "f.csv").write_bytes("Frage;Lösung\nWarum?;Größe\n".encode("cp1252"))
    with pytest.raises(
        ValueError, match="which line 1 does not fit .*as cp1252 it is .Frage;Lösung..*--encoding cp1252"
    ):
        read_table(tmp_path / "f.csv")


@pytest.mark.parametrize(
    "answers, protected, private",
    [(("n", "n"), True, []), (("n", "y"), True, ["clinic"]), (("y",), False, []), (None, True, [])],
)
def test_who_sits_at_a_terminal_is_asked_once_where_the_texts_may_stand(
    clone, tmp_path, monkeypatch, capsys, answers, protected, private
):
    for name in ("params.yaml", "run.yaml", "dvc.yaml"):
        shutil.copy(clone / name, tmp_path)
    (tmp_path / "nbs").symlink_to(ROOT / "nbs")
    (tmp_path / "q.csv").write_text("question,A,B,answer\nWhich?,this,that,B\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MHBENCH_ROOT", str(tmp_path))
    typed = io.StringIO("".join(f"{answer}\n" for answer in ([*answers, "y"] if answers else [])))
    typed.isatty = lambda: answers is not None
    monkeypatch.setattr("sys.stdin", typed)
    a = parser(["new-study"]).parse_args(["new-study", "clinic", "q.csv", *([] if answers else ["--yes"])])
    a.function(a)
    assert not typed.read(), "nothing more is asked"
    p = yaml.safe_load((tmp_path / "params.yaml").read_text(encoding="utf-8"))
    entry = p["studies"]["clinic"]["prepare"]
    corpus = load_corpus("table", tmp_path / "q.csv", study="clinic", **entry["options"])
    assert [i.protected for i in corpus.items] == [protected] and p["report"]["private"] == private
    assert ("on this machine, and in nothing else" in capsys.readouterr().out) == bool(private)


@pytest.mark.parametrize(
    "head, language",
    [
        ("Lfd. Nr.;Frage;Antwort A;Antwort B;Richtige Antwort;Themengebiet", "de"),
        ("N°;Énoncé;Réponse A;Réponse B;Bonne réponse;Thème", "fr"),
        ("Núm.;Pregunta;Opción A;Opción B;Respuesta correcta;Tema", "es"),
    ],
)
def test_headings_of_other_languages(tmp_path, head, language):
    (tmp_path / "q.csv").write_text(f"{head}\n7;¿Größe, où?;ja;nein;B;Schlaf\n", encoding="utf-8-sig")
    (item,) = read(tmp_path / "q.csv")
    assert (item.item_id, item.options, item.key, item.topic) == ("7", ["ja", "nein"], ["B"], "Schlaf")
    assert item.language == language


def test_rows_of_several_kinds_are_read_and_counted(tmp_path):
    rows = ["1,Good?,yes,no,,A", "2,Which?,yes|no|unsure,,,C", "3,Bad?,yes,no,never,C", "4,Which one?,,,,B"]
    (tmp_path / "q.csv").write_text("\n".join(["id,question,A,B,C,key", *rows]))
    proposal = propose("clinic", tmp_path / "q.csv", params=ROOT / "params.yaml")
    assert [(i.item_id, len(i.options), i.key) for i in proposal.corpus.items] == [
        ("1", 2, ["A"]),
        ("2", 3, ["C"]),
        ("3", 3, ["C"]),
    ]
    said = summary(proposal)
    assert "2  multiple_choice, 3 options, 1 right (q.csv:3)" in said and "q.csv:5" in said
    assert "yes" in example(proposal.corpus.items[0]) and "right: A" in example(proposal.corpus.items[0])


def test_a_study_without_a_question_that_fits_says_why(tmp_path):
    (tmp_path / "q.csv").write_text("id,question,A,B,key\n1,Good?,yes,,A\n")
    with pytest.raises(ValueError, match="must hold a question; got none .*q.csv:2, A: options must be two or more"):
        propose("clinic", tmp_path / "q.csv", params=ROOT / "params.yaml")


LARGE = """
import sys
from pathlib import Path
from mhbench.records.table import read_table
try:
    table = read_table(Path(sys.argv[1]))
    print(len(table.rows), end=" ")
except ValueError as e:
    print(str(e)[:90], end=" ")
status = Path("/proc/self/status").read_text()  # what getrusage says begins with the parent's
print(int(status.partition("VmHWM:")[2].split()[0]) >> 10)
"""


@pytest.mark.parametrize("form", ["two columns", "many empty", "objects", "lists", "sparse", "workbook", "far cell"])
def test_a_table_of_ten_megabytes_needs_less_than_500(tmp_path, form):
    "Peak memory of a process of its own that reads nothing else; the imports are in it."
    path = tmp_path / "q.csv"
    if form == "two columns":
        path.write_text("a,b\n" + "x,y\n" * 2_500_000)
    elif form == "many empty":
        path.write_text("a,b\n" + "," * 1 + "\n" + ",\n" * 3_000_000)
    elif form == "objects":
        path = path.with_suffix(".jsonl")
        path.write_text('{"a":1}\n' * 1_300_000)
    elif form == "lists":
        path = path.with_suffix(".jsonl")
        path.write_text('{"question":"q","options":[' + ",".join(["1"] * 4_900_000) + "]}\n")
    elif form == "sparse":
        path = path.with_suffix(".jsonl")
        path.write_text("".join(f'{{"c{k}":1}}\n' for k in range(700_000)))
    else:
        path = path.with_suffix(".xlsx")
        book = openpyxl.Workbook(write_only=form == "workbook")
        sheet = book.create_sheet("q") if form == "workbook" else book.active
        rows = 12_000 if form == "workbook" else 8
        for k in range(rows):
            text = "".join(f"{(k + 1) * j**9 % 2**61:x} " for j in range(8, 32))
            sheet.append([text, text[::-1], k] if k else ["a", "b", "c"])
        if form == "far cell":
            sheet["XFD1048576"] = "x"
        book.save(path)
    said = subprocess.run([sys.executable, "-c", LARGE, path], capture_output=True, text=True, check=True).stdout
    *what, megabytes = said.split()
    assert int(megabytes) < 500, said
    assert what


@pytest.mark.parametrize("given, read", [(" · ", " · "), ("；", "；"), (r"\n", "\n"), ("\\", "\\")])
def test_a_separator_of_the_command_line(given, read):
    line = parser(["new-study"]).parse_args(["new-study", "own", "q.csv", "--separator", given])
    assert asked_options(line)["separator"] == read


@pytest.mark.parametrize("head, cell, told", [("answer", "", True), ("answer,task", ",multi_label", False)])
def test_several_right_options_are_told_where_one_letter_is_asked_for(tmp_path, head, cell, told):
    file = tmp_path / "q.csv"
    file.write_text(f'question,A,B,C,{head}\nWhich?,x,y,z,"A, C"{cell}\nAnd?,x,y,z,B{cell}\n', encoding="utf-8")
    assert (
        "1 of 2 questions have several right options" in summary(propose("own", file, params=ROOT / "params.yaml"))
    ) == told


def test_a_line_separator_inside_a_json_line(tmp_path):
    text = json.dumps({"question": "One\u2028two?", "answer": "Yes."}, ensure_ascii=False)
    (tmp_path / "q.jsonl").write_text(text + "\n", encoding="utf-8")
    assert read(tmp_path / "q.jsonl")[0].question == "One\u2028two?"


# ---------------------------------------------------------------- tricks of workbooks


def workbook(path: Path, rows: list[list], title="Fragen"):
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = title
    for row in rows:
        sheet.append(row)
    book.save(path)
    return book, sheet


HEAD = ["id", "question", "A", "B", "key"]


def aside(path: Path, tmp_path: Path, **given) -> tuple[list[Item], list[tuple[str, str]]]:
    table = read_table(path, sheet=given.pop("sheet", None))
    how = {"strict": False, "set_aside": tmp_path / "aside.jsonl"}
    got = load_questions(table, "s", **guess_layout(table, **given), **how)
    return got.records, [(b["place"], b["rule"]) for b in got.set_aside]


def test_numbers_of_a_workbook_are_read_as_they_are_shown(tmp_path):
    workbook(tmp_path / "q.xlsx", [HEAD, [1.0, "How many?", 2.0, 2.5, 1.0], [2, "How much?", 0.1, 7, 2]])
    items = read(tmp_path / "q.xlsx", key="number")
    assert [i.item_id for i in items] == ["1", "2"]
    assert [(i.options, i.key) for i in items] == [(["2", "2.5"], ["A"]), (["0.1", "7"], ["B"])]


def test_numbers_of_a_workbook_look_as_their_author_saw_them_and_a_date_is_set_aside(tmp_path):
    book, sheet = workbook(tmp_path / "q.xlsx", [HEAD, ["1", "How often a week?", 3, 0.5, "B"]])
    sheet["D2"].number_format = "0.00"
    book.save(tmp_path / "q.xlsx")
    assert read(tmp_path / "q.xlsx")[0].options == ["3", "0.50"]
    for value, code in ((datetime.date(2026, 4, 3), "d-m"), (0.5, "# ?/?")):
        sheet["D2"].value, sheet["D2"].number_format = value, code
        book.save(tmp_path / "q.xlsx")
        items, bad = aside(tmp_path / "q.xlsx", tmp_path)
        assert items == [] and bad[0][1].startswith(f"a cell must be text, or a number in a plain format, not {code!r}")


def test_a_formula_and_an_error_are_set_aside(tmp_path):
    book, sheet = workbook(
        tmp_path / "q.xlsx",
        [
            HEAD,
            ["1", "Good?", "yes", "no", "A"],
            ["3", "Computed?", "=1+1", "no", "A"],
            ["4", "Broken?", "#N/A", "no", "A"],
        ],
    )
    assert sheet["C4"].data_type == "e"
    items, bad = aside(tmp_path / "q.xlsx", tmp_path)
    assert [i.item_id for i in items] == ["1"]
    assert [place for place, _ in bad] == ["q.xlsx:3", "q.xlsx:4"]
    for (_, rule), start in zip(bad, ("a formula", "a cell must hold"), strict=True):
        assert rule.startswith(start)


def test_a_case_merged_over_rows_and_a_cell_merged_over_columns(tmp_path):
    book, sheet = workbook(
        tmp_path / "q.xlsx",
        [
            ["case", *HEAD],
            ["A man cannot sleep.", "1", "Why?", "worry", "noise", "A"],
            [None, "2", "What then?", "wait", "ask", "B"],
            ["Another case.", "3", "Which?", "both of them", None, "A"],
        ],
    )
    sheet.merge_cells("A2:A3")
    sheet.merge_cells("D4:E4")
    book.save(tmp_path / "q.xlsx")
    items, bad = aside(tmp_path / "q.xlsx", tmp_path)
    assert [i.context for i in items] == [{"case": "A man cannot sleep."}] * 2
    assert len({i.group_id for i in items}) == 1 and items[0].group_id
    assert bad == [("q.xlsx:4", "a cell must not be merged over several columns")]


def test_a_second_sheet_has_to_be_named(tmp_path):
    book, _ = workbook(tmp_path / "q.xlsx", [HEAD, ["1", "Good?", "yes", "no", "A"]])
    book.create_sheet("leer")
    book.save(tmp_path / "q.xlsx")
    assert len(read(tmp_path / "q.xlsx")) == 1  # an empty sheet is none
    book["leer"].append(["only", "notes"])
    book.save(tmp_path / "q.xlsx")
    with pytest.raises(ValueError, match=r"sheet must be one of Fragen, leer; got None \(q.xlsx\); say which with"):
        read(tmp_path / "q.xlsx")
    assert read(tmp_path / "q.xlsx", sheet="Fragen")[0].source == "q.xlsx:Fragen:2"


def test_an_empty_sheet_is_refused(tmp_path):
    book, _ = workbook(tmp_path / "q.xlsx", [HEAD])
    book.create_sheet("leer")
    book.save(tmp_path / "q.xlsx")
    with pytest.raises(ValueError, match="the table must begin with the names of its columns"):
        read_table(tmp_path / "q.xlsx", sheet="leer")


def test_what_is_no_workbook_is_refused(tmp_path):
    (tmp_path / "q.xlsx").write_bytes(b"no zip")
    with pytest.raises(ValueError, match="path must be an Excel workbook"):
        read_table(tmp_path / "q.xlsx")
    (tmp_path / "q.xls").write_bytes(b"old")
    with pytest.raises(ValueError, match="path must end in .csv, .tsv, .xlsx, .json, .jsonl or .parquet; got 'q.xls'"):
        read_table(tmp_path / "q.xls")


def test_hidden_rows_are_read_and_said(tmp_path):
    book, sheet = workbook(
        tmp_path / "q.xlsx", [HEAD, ["1", "Good?", "yes", "no", "A"], ["2", "Bad?", "yes", "no", "B"]]
    )
    sheet.row_dimensions[3].hidden = True
    book.save(tmp_path / "q.xlsx")
    table = read_table(tmp_path / "q.xlsx")
    assert len(table.rows) == 2 and table.notes == ["1 hidden rows are read like the others"]


# ---------------------------------------------------------------- tricks of rows


def rows_of(tmp_path, *rows, head="id,question,A,B,C,D,key", **given):
    (tmp_path / "q.csv").write_text("\n".join([head, *rows]) + "\n", encoding="utf-8")
    return aside(tmp_path / "q.csv", tmp_path, **given)


@pytest.mark.parametrize(
    "row, rule",
    [
        ("2,Which?,w,x,y,z,", "key must name an option; the cell is empty"),
        ("2,Which?,w,x,y,,D", "key must name one of the 3 options by letter"),
        ("2,Which?,w,,y,z,A", "an option must not be empty between others"),
        ("2,Which?,w,x,W,z,A", "options must differ"),
        ("2,Which?,w,,,,A", "options must be two or more"),
        ("2,,w,x,y,z,A", "question must not be empty"),
        ("2,Which?,,,,,B", "options must be there where the key names one"),
        ("2,Which?,,,,,", "a row without options must have a reference answer"),
        ("1,Which?,w,x,y,z,A", "item_id must be unique; got '1' again, first at q.csv:2"),
        ('2,Which?,w,x,y,z,"A,A"', "key must name one of the 4 options by letter"),
    ],
)
def test_a_row_that_does_not_fit_is_set_aside_with_its_reason(tmp_path, row, rule):
    items, bad = rows_of(tmp_path, "1,Good?,a,b,c,d,B", row)
    assert [i.item_id for i in items] == ["1"]
    assert len(bad) == 1 and bad[0][0] == "q.csv:3" and rule in bad[0][1]


def test_three_options_among_four_and_a_key_of_two(tmp_path):
    items, bad = rows_of(tmp_path, "1,Good?,a,b,c,,C", '2,Both?,a,b,c,d,"A, D"')
    assert not bad and [(len(i.options), i.key) for i in items] == [(3, ["C"]), (4, ["A", "D"])]


@pytest.mark.parametrize(
    "keys, form, want",
    [
        (("B", "c", "D)"), "letter", ["B", "C", "D"]),
        (("2", "3.0", "4"), "number", ["B", "C", "D"]),
        (("0", "3", "1"), "number0", ["A", "D", "B"]),
        (("x", "Y", " z "), "text", ["B", "C", "D"]),
    ],
)
def test_the_key_has_one_form(tmp_path, keys, form, want):
    (tmp_path / "q.csv").write_text(
        "question,A,B,C,D,key\n" + "".join(f"Q{n}?,w,x,y,z,{k}\n" for n, k in enumerate(keys))
    )
    table = read_table(tmp_path / "q.csv")
    layout = guess_layout(table)
    assert layout["key"] == form
    assert [i.key[0] for i in load_questions(table, "s", **layout).records] == want


def test_a_number_that_is_also_an_option_is_not_guessed(tmp_path):
    (tmp_path / "q.csv").write_text("question,A,B,C,key\nHow many?,2,4,6,2\n")
    with pytest.raises(ValueError, match=r"'2', which can name '4' \(--key number\) .*'2' \(--key text\) \(q.csv:2\)"):
        read(tmp_path / "q.csv")
    assert read(tmp_path / "q.csv", key="number")[0].key == ["B"]
    assert read(tmp_path / "q.csv", key="text")[0].key == ["A"]


def test_ids_are_made_of_what_is_asked_and_of_nothing_else(tmp_path):
    head, rows = "question,A,B,key,topic", ["Why?,a,b,A,x", "How?,a,b,B,y"]
    first, _ = rows_of(tmp_path, *rows, head=head)
    again, _ = rows_of(tmp_path, rows[1].replace(",B,y", ",A,z"), rows[0], head=head)
    assert {i.question: i.item_id for i in first} == {i.question: i.item_id for i in again}
    assert all(re.fullmatch("s-[0-9a-f]{12}", i.item_id) for i in first)
    twice, bad = rows_of(tmp_path, rows[0], rows[0], head=head)
    assert len(twice) == 1 and "item_id must be unique" in bad[0][1]


def test_soft_labels_in_columns(tmp_path):
    items, bad = rows_of(
        tmp_path,
        "1,Good?,a,b,c,0.33,0.33,0.33",
        "2,Better?,a,b,,25,75,",
        "3,Worse?,a,b,c,0.5,0.2,0.1",
        "4,Worst?,a,b,c,0.5,0.5,",
        head="id,question,A,B,C,soft A,soft B,soft C",
    )
    assert items[0].soft_labels == pytest.approx([1 / 3] * 3) and items[1].soft_labels == [0.25, 0.75]
    assert [p for p, _ in bad] == ["q.csv:4", "q.csv:5"] and "these sum to 0.8" in bad[0][1]


def test_names_that_could_mean_two_things_are_refused(tmp_path):
    (tmp_path / "q.csv").write_text("Frage,Question,answer\na,b,c\n")
    with pytest.raises(ValueError, match="column for question must be named where several fit; got Frage, Question"):
        read(tmp_path / "q.csv")
    (tmp_path / "q.csv").write_text("question,answer,answer\na,b,c\n")
    with pytest.raises(ValueError, match=r"columns must have names of their own; got \['answer'\] twice"):
        read(tmp_path / "q.csv")
    (tmp_path / "q.csv").write_text("text one,text two\na,b\n")
    with pytest.raises(ValueError, match="say --column question=NAME"):
        read(tmp_path / "q.csv")


# ---------------------------------------------------------------- ratings and the proposal


STRINGS = "application/vnd.openxmlformats-officedocument.spreadsheetml.sharedStrings"


def test_types_within_a_text_are_read_where_excel_keeps_them(tmp_path):
    "Excel itself writes texts with several types into its table of shared strings, openpyxl into the sheet."
    book = openpyxl.Workbook()
    for row in (["question", "A", "B", "answer"], ["Which?", "FIRST", "SECOND", "B"]):
        book.active.append(row)
    book.save(tmp_path / "plain.xlsx")
    run_of = lambda text, kind="": f'<r>{f"<rPr>{kind}</rPr>" if kind else ""}<t xml:space="preserve">{text}</t></r>'
    rich = {
        "FIRST": run_of("10") + run_of("9", '<vertAlign val="superscript"/>') + run_of("/L"),
        "SECOND": run_of("CO")
        + run_of("2", '<vertAlign val="subscript"/>')
        + run_of(" is ")
        + run_of("not", "<strike/>"),
    }
    shared = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/sharedStrings"
    more = {  # what a workbook with shared strings has besides
        "xl/_rels/workbook.xml.rels": ("</Relationships>", f'<Relationship Id="s" Type="{shared}" Target="s.xml"/>'),
        "[Content_Types].xml": ("</Types>", f'<Override PartName="/xl/s.xml" ContentType="{STRINGS}+xml"/>'),
    }
    with zipfile.ZipFile(tmp_path / "plain.xlsx") as old, zipfile.ZipFile(tmp_path / "q.xlsx", "w") as new:
        for name in old.namelist():
            text = old.read(name).decode()
            end, entry = more.get(name, ("", ""))
            text = text.replace(end, entry + end) if end else text
            for k, word in enumerate(rich):
                text = text.replace(f't="inlineStr"><is><t>{word}</t></is>', f't="s"><v>{k}</v>')
            assert ('t="s"' in text) == name.endswith("sheet1.xml")
            new.writestr(name, text)
        strings = "".join(f"<si>{runs}</si>" for runs in rich.values())
        of = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
        new.writestr("xl/s.xml", f'<sst xmlns="{of}" count="2" uniqueCount="2">{strings}</sst>')
    assert read(tmp_path / "q.xlsx")[0].options == ["10^9/L", "CO_2 is ~~not~~"]


def test_ratings_that_do_not_fit_are_set_aside_or_counted(forms, tmp_path):
    text = FILES["ratings.csv"] + "w9,r1,A,10\nw3,r3,Manic episode,\nw3,r4,Manic episode,fifty\n"
    (tmp_path / "ratings.csv").write_text(text, encoding="utf-8")
    given = guess_description(tmp_path / "ratings.csv").description | {"scale": "0..100"}
    table = read_ratings(given, tmp_path)
    got = ratings_of_items(table, read(forms[".csv"]), "clinic", strict=False)
    assert len(got.records) == 16 and {r.source for r in got.records} == {"ratings.csv"}
    assert [b["place"] for b in got.set_aside] == ["ratings.csv:18"]
    assert table.counts[["rated", "missing", "outside"]].sum().tolist() == [17, 1, 1]
    with pytest.raises(ValueError, match=r"id of a question that was kept; got 'w9' \(ratings.csv:18\)"):
        ratings_of_items(table, read(forms[".csv"]), "clinic")


def test_codes_for_not_rated_are_no_ratings(forms, tmp_path):
    "999 and -99 are no ratings from 0 to 100, nor is a number whose thousands are marked."
    text = FILES["ratings.csv"] + "w3,r9,A,999\nw3,r9,B,-99\nw3,r9,C,101\nw3,r9,D,1.000\n"
    (tmp_path / "ratings.csv").write_text(text, encoding="utf-8")
    given = {"path": tmp_path / "ratings.csv"}
    with pytest.raises(ValueError, match="scale of ratings must be given; got values from .* do -99, 999 mean"):
        propose("clinic", forms[".csv"], ratings=given, params=ROOT / "params.yaml")
    given |= {"scale": [0, 100], "not_rated": ["999", "-99"]}
    got = propose("clinic", forms[".csv"], ratings=given, params=ROOT / "params.yaml")
    assert len(got.corpus.ratings) == 16
    assert "1 times '101' lies outside the scale (0 to 100) and is left out" in got.corpus.notes
    more = "".join(f"w1,x{k},A,{code}\n" for k in range(4) for code in (999, -99))
    (tmp_path / "ratings.csv").write_text(FILES["ratings.csv"] + more, encoding="utf-8")
    with pytest.raises(ValueError, match="Does 999 mean that nobody rated.*Does -99 mean"):
        propose("clinic", forms[".csv"], ratings=given | {"not_rated": None}, params=ROOT / "params.yaml")
    for files in ("[ratings.csv, more.csv]", "'{rater}.csv'", "gone.csv"):
        (tmp_path / "r.yaml").write_text(f"{{files: {files}, item: id, value: score, scale: 0..100}}", encoding="utf-8")
        with pytest.raises(ValueError, match="must describe one file that is there; got .*; `mhbench ratings .*r.yaml"):
            propose("clinic", forms[".csv"], ratings={"path": tmp_path / "r.yaml"}, params=ROOT / "params.yaml")


@pytest.mark.parametrize(
    "row, options, key",
    [
        ({"choices": list("abcd"), "answer": 0}, list("abcd"), ["A"]),  # MMLU
        ({"options": {"A": "a", "B": "b"}, "answer": "b", "answer_idx": "B"}, ["a", "b"], ["B"]),  # MedQA
        ({"choices": {"text": ["a", "b"], "label": ["A", "B"]}, "answerKey": "B"}, ["a", "b"], ["B"]),  # ARC
        ({"opa": "a", "opb": "b", "opc": "c", "opd": "d", "cop": 0}, list("abcd"), ["A"]),  # MedMCQA
        ({"opA": "a", "opB": "b", "answer_idx": "B", "answer": "b"}, ["a", "b"], ["B"]),  # MedBullets
        ({"answers": [{"aid": 1, "atext": "a"}, {"aid": 2, "atext": "b"}], "ra": 2}, ["a", "b"], ["B"]),  # HeadQA
    ],
)
def test_layouts_of_public_question_sets(row, options, key, tmp_path):
    (tmp_path / "q.jsonl").write_text(json.dumps({"question": "Which?"} | row) + "\n")
    [item] = read(tmp_path / "q.jsonl")
    assert (item.options, item.key) == (options, key)


def test_a_question_that_is_an_object_and_options_that_are_not_counted(tmp_path):
    asked = {"stem": "Which?", "choices": [{"label": "A", "text": "a"}, {"label": "B", "text": "b"}]}
    (tmp_path / "q.jsonl").write_text(json.dumps({"id": "q1", "question": asked, "answerKey": "A"}) + "\n")
    [item] = read(tmp_path / "q.jsonl")
    assert (item.question, item.options, item.key) == ("Which?", ["a", "b"], ["A"])
    asked["choices"][1]["label"] = "C"
    (tmp_path / "q.jsonl").write_text(json.dumps({"id": "q1", "question": asked, "answerKey": "A"}) + "\n")
    items, bad = aside(tmp_path / "q.jsonl", tmp_path, key="letter")
    assert not items and len(bad) == 1


def test_keys_that_may_count_from_0_or_from_1_are_refused(tmp_path):
    "Neither 0 nor the number of options occurs, so that each key names one of two options."
    rows = [{"question": f"Which, {k}?", "choices": list("abcd"), "answer": k} for k in (1, 2, 3)]
    (tmp_path / "q.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(ValueError, match=r"'1', which can name 'a' \(--key number\) or 'b' \(--key number0\)"):
        read(tmp_path / "q.jsonl")
    assert [i.key for i in read(tmp_path / "q.jsonl", key="number0")] == [["B"], ["C"], ["D"]]
    rows.append({"question": "Which, 4?", "choices": list("abcd"), "answer": 4})
    (tmp_path / "q.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert [i.key for i in read(tmp_path / "q.jsonl")] == [["A"], ["B"], ["C"], ["D"]]


def test_raised_lowered_and_struck_text_of_a_workbook_is_marked(tmp_path):
    book, sheet = workbook(tmp_path / "q.xlsx", [HEAD, ["1", "How many?", "", "", "B"]])
    part = lambda text, **font: TextBlock(InlineFont(**font), text)
    sheet["C2"] = CellRichText("10", part("9", vertAlign="superscript"), "/L")
    sheet["D2"] = CellRichText("CO", part("2", vertAlign="subscript"), " is ", part("not ", strike=True), "low")
    sheet["B2"].font = Font(strike=True)
    book.save(tmp_path / "q.xlsx")
    [item] = read(tmp_path / "q.xlsx")
    assert (item.question, item.options) == ("~~How many?~~", ["10^9/L", "CO_2 is ~~not~~low"])


def test_ratings_without_an_option_go_through_no_stage_and_this_is_said(forms, tmp_path):
    lines = FILES["ratings.csv"].splitlines()
    (tmp_path / "ratings.csv").write_text("\n".join(lines[:-1]) + "\n", encoding="utf-8")
    got = propose(
        "clinic",
        forms[".csv"],
        ratings={"path": tmp_path / "ratings.csv", "scale": [0, 100]},
        params=ROOT / "params.yaml",
    )
    assert "preferences" not in got.entry and len(got.corpus.ratings) == 15
    assert "go through no stage: annotation_arrays: an annotation must rate options A, B, C, D" in summary(got)


def test_changed_ratings_are_refused(forms, tmp_path):
    (tmp_path / "ratings.csv").write_text(FILES["ratings.csv"], encoding="utf-8")
    got = propose(
        "clinic",
        forms[".csv"],
        ratings={"path": tmp_path / "ratings.csv", "scale": [0, 100]},
        params=ROOT / "params.yaml",
    )
    options = got.entry["prepare"]["options"]
    assert len(load_corpus("table", forms[".csv"], study="clinic", **options).ratings) == 16
    (tmp_path / "ratings.csv").write_text(FILES["ratings.csv"].replace(",95", ",59"), encoding="utf-8")
    with pytest.raises(ValueError, match="ratings must be the file that was recorded; got another SHA-256"):
        load_corpus("table", forms[".csv"], study="clinic", **options)


def test_options_without_a_key_need_scores(forms, tmp_path):
    frame = pd.read_csv(forms[".csv"], dtype=str).drop(columns="answer").iloc[[0, 2]]
    frame.to_csv(tmp_path / "q.csv", index=False)
    with pytest.raises(ValueError, match="must have a key, soft labels or people's scores; got 2 that have none"):
        propose("clinic", tmp_path / "q.csv", params=ROOT / "params.yaml")
    (tmp_path / "ratings.csv").write_text(FILES["ratings.csv"], encoding="utf-8")
    got = propose(
        "clinic",
        tmp_path / "q.csv",
        ratings={"path": tmp_path / "ratings.csv", "scale": [0, 100]},
        params=ROOT / "params.yaml",
    )
    assert got.entry["score"] == {"soft_labels": True} and "judge" not in got.entry


def test_a_summary_shows_no_text_of_a_case(forms):
    got = summary(propose("clinic", forms[".csv"], params=ROOT / "params.yaml"))
    for row in pd.read_csv(forms[".csv"], dtype=str).to_dict("records"):
        assert row["case"][:30] not in got and row["question"] not in got


@pytest.mark.parametrize("name", ["a b", "../x", "x;y", "", "-x"])
def test_a_name_that_is_none(forms, name):
    with pytest.raises(ValueError, match="name must begin with a letter or digit"):
        propose(name, forms[".csv"], params=ROOT / "params.yaml")


def test_without_a_terminal_nothing_is_written(followed):
    before = (followed / "params.yaml").read_bytes()
    with pytest.raises(AssertionError, match="new_study: --yes must be said where nobody can be asked"):
        shell("mhbench new-study again questions.csv < /dev/null", followed)
    assert (followed / "params.yaml").read_bytes() == before


# ---------------------------------------------------------------- loaders from elsewhere


@pytest.fixture()
def folder(tmp_path, monkeypatch):
    "Makes a study's folder that names one loader."
    monkeypatch.setattr(mhbench.studies, "__path__", list(mhbench.studies.__path__))
    monkeypatch.setenv("MHBENCH_STUDIES", str(tmp_path / "own"))

    def make(study: str, name: str, code: str) -> None:
        home = tmp_path / "own" / study
        home.mkdir(parents=True)
        declared = f"STUDY = RegisteredStudy(name={study!r}, loaders={{{name!r}: 'load:load'}})"
        (home / "__init__.py").touch()
        (home / "study.py").write_text(f"from mhbench.registry import RegisteredStudy\n{declared}\n")
        (home / "load.py").write_text(code)

    before = set(sys.modules)
    yield make
    for module in set(sys.modules) - before:
        if module.startswith("mhbench.studies."):
            del sys.modules[module]


GOOD = """
from mhbench.records.schema import Item
from mhbench.corpus.load import Corpus

def load(path, study, n=0):
    item = Item(item_id="q1", study=study, task="open", question="Why?", key=["because"], source="here")
    return Corpus([item], notes=[study])
"""


def test_a_loader_of_a_folder(folder, tmp_path):
    folder("goodone", "good-one", GOOD)
    assert load_corpus("good-one", tmp_path, study="mine").notes == ["mine"]
    with pytest.raises(ValueError, match="options must be those that loader good-one takes.*unexpected keyword"):
        load_corpus("good-one", tmp_path, study="mine", m=1)
    with pytest.raises(ValueError, match="loader must be one of .*good-one, .*mentat, .*; got 'other'"):
        load_corpus("other", tmp_path)


def test_a_name_that_is_taken_is_refused(folder, tmp_path):
    folder("thief", "mhqa", GOOD)
    with pytest.raises(ValueError, match="a loader's name must be its own; got 'mhqa' again in study thief"):
        load_corpus("mhqa", tmp_path)


@pytest.mark.parametrize(
    "code, what",
    [
        ("import nothing_of_that_name\n", "ModuleNotFoundError: No module named 'nothing_of_that_name'"),
        ("raise RuntimeError('broken')\n", "RuntimeError: broken"),
        ("def loaded(path): ...\n", "AttributeError"),
    ],
)
def test_a_loader_that_cannot_be_imported_is_refused(folder, tmp_path, code, what):
    folder("bad", "bad", code)
    with pytest.raises(ValueError, match=f"loader must be a function that can be imported; got 'bad'.*{what}"):
        load_corpus("bad", tmp_path)


def test_a_loader_that_returns_something_else_is_refused(folder, tmp_path):
    folder("odd", "odd", "def load(path):\n    return {'items': []}\n")
    with pytest.raises(ValueError, match="loader must return a Corpus; got dict from odd"):
        load_corpus("odd", tmp_path)


@pytest.mark.parametrize("where, stray", [("A1048576", " "), ("XFD1048576", "x")])
def test_one_stray_cell_at_the_end_of_a_sheet_costs_nothing(where, stray, tmp_path):
    book, sheet = workbook(tmp_path / "q.xlsx", [HEAD, ["1", "Why?", "worry", "noise", "A"]])
    sheet[where] = stray
    book.save(tmp_path / "q.xlsx")
    tracemalloc.start()
    table = read_table(tmp_path / "q.xlsx")
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 50e6 and table.columns == HEAD, f"{most / 1e6:.0f} MB"
    assert ["1", "Why?", "worry", "noise", "A"] == list(table.rows[0][1].values())
    assert bool(table.notes) == (stray == "x")


def test_a_workbook_that_unpacks_to_far_more_than_it_weighs_is_refused(tmp_path):
    workbook(tmp_path / "q.xlsx", [HEAD, ["1", "Why?", "worry", "noise", "A"]])
    with zipfile.ZipFile(tmp_path / "q.xlsx", "a", zipfile.ZIP_DEFLATED) as z:
        z.writestr("xl/worksheets/sheet9.xml", b" " * (65 << 20))
    assert (tmp_path / "q.xlsx").stat().st_size < 1 << 20
    with pytest.raises(ValueError, match=r"a workbook must unpack to 64 MB at most; got 65 MB \(q.xlsx\); save .* CSV"):
        read_table(tmp_path / "q.xlsx")


def test_a_csv_as_excel_writes_it_is_a_study_wherever_it_is_read(tmp_path):
    path = tmp_path / "bom.csv"
    path.write_bytes("id,question,option A,option B,answer\nq1,Was heißt Übelkeit?,x,y,A\n".encode("utf-8-sig"))
    asked = {"columns": None, "key": None, "separator": None, "sheet": None, "encoding": None}
    proposal = propose("bom", path, options=asked, params=ROOT / "params.yaml")
    assert [i.question for i in proposal.corpus.items] == ["Was heißt Übelkeit?"]
    assert None not in proposal.entry["prepare"]["options"].values()


def test_the_commonest_values_of_a_column_are_cut_after_24_characters():
    assert _commonest_values(["x" * 24, "x" * 24]) == f"one value: {'x' * 24}"
    assert _commonest_values(["y" * 50] * 4 + ["a"] * 3 + ["b"] * 2 + ["c"]) == f"4 values: {'y' * 23}…, a, b, …"
