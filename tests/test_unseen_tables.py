"""41 files of ratings and questions as programs write them, by somebody who had not seen the readers: what each gives.

`index.tsv` beside them says what a careful reader makes of each, `NOW` what is read today. A file that may be read or
refused is misread only where something else comes out; a refusal that says how to go on is tried to the letter.
"""

import csv
from collections import Counter
from pathlib import Path

import pytest

from mhbench.annotate.export import ratings_of_file
from mhbench.records.described import read_ratings
from mhbench.records.guessed import guess_long
from mhbench.records.questions import guess_layout, load_questions
from mhbench.records.table import read_table

FILES = Path(__file__).parent / "fixtures" / "unseen"
INDEX = {r["file"]: r for r in csv.DictReader((FILES / "index.tsv").open(encoding="utf-8"), delimiter="\t")}
SCALES = {"spss": (1, 5), "redcap": (0, 4), "title": (0, 2), "qualtrics": (1, 7)}  # what a user would say
HUNDRED = ("excel_semicolon", "percent", "limesurvey", "sheet_matrix")
KEYS = {  # the keys that index.tsv states, where the file is read
    "questions_excel_cp1252.csv": "B A C",
    "questions_utf16.txt": "B A C A",
    "questions_key_by_text.csv": "A D B",
    "questions_hf_letters.jsonl": "A B D",
    "questions_hf_zero_based.jsonl": "A B D",
    "questions_hf_opa.jsonl": "A C B",
    "questions_r_write_csv.csv": "C A",
    "questions_pandas_list.csv": "A B",
    "questions_line_breaks.csv": "A B C",
    "questions_pipes.csv": "A C A",
    "questions_key_outside.csv": "A B",
    "questions_cases.csv": "A A A D",
    "questions_excel_dates.csv": "A",  # the question whose options are dates is set aside
}


def scale_of(name: str) -> tuple[float, float]:
    named = next((scale for word, scale in SCALES.items() if word in name), (1, 5))
    return (0, 100) if any(word in name for word in HUNDRED) else named


def ratings_from(path: Path, not_rated=(), name: str = "", **given):
    "The ratings of a table, as `new-study` reads it for a user who declares the scale."
    guess = guess_long(path, given or None).description
    scale = "{}..{}".format(*scale_of(name or path.name))
    guess |= {"scale": scale} if isinstance(guess["scale"], str) else {}
    table = read_ratings(guess | ({"missing": list(not_rated)} if not_rated else {}), path.parent)
    if table.asks:
        raise ValueError(table.asks[0])
    return table.records(), []


def questions_from(path: Path):
    try:
        table = read_table(path)
    except ValueError as e:
        if "say --encoding cp1252" not in str(e):
            raise
        table = read_table(path, encoding="cp1252")  # after the line was shown
    return load_questions(table, "s", **guess_layout(table), strict=False, set_aside=path.with_suffix(".aside"))


def outcome(file: str, folder: Path) -> tuple[str, str]:  # read, aside (rows are set aside, none is read) or refused
    "What a file gives, and in what words."
    path = folder / file
    path.write_bytes((FILES / file).read_bytes())
    try:
        if path.suffix == ".json":
            got, aside = ratings_of_file(path), []
        else:
            got, aside = (ratings_from if file.startswith("ratings") else questions_from)(path)
    except ValueError as e:
        return "refused", str(e)
    why = "; ".join(f"{a['place']}, {a['column']}: {a['rule']}" for a in aside)
    if not got:
        return "aside", why
    if file.startswith("ratings"):
        said = f"{len(got)} {len({r.rater for r in got})} {len({r.item_id for r in got})}"
    else:
        said = " ".join("".join(i.key) for i in got)
    return "read", said


def right(file: str, folder: Path) -> bool:
    "Whether what a file gives is among what index.tsv allows."
    said, words = outcome(file, folder)
    row = INDEX[file]
    if said != "read":
        return row["outcome"] != "read" and len(words) > 40
    if file in KEYS:
        return words == KEYS[file]
    if row["outcome"] == "refuse":  # the one that is read has its codes set aside by the declared scale
        return file == "ratings_spss.csv" and words == "6 3 3"
    n = [row["ratings"], row["raters"], row["items"]]
    if file == "ratings_excel_errors.csv":  # of the second rater nothing is left
        n = ["3", "1", "3"]
    return words == " ".join(n)


@pytest.mark.parametrize("file", sorted(INDEX))
def test_no_file_is_misread(file, tmp_path):
    if file == "ratings_label_studio.json":
        said, words = outcome(file, tmp_path)  # of a project of one's own: it should be read, and is not
        assert said == "refused" and "key.json must lie beside" in words
    else:
        assert right(file, tmp_path), outcome(file, tmp_path)


def test_what_should_be_read_is_mostly_read(tmp_path):
    got = {file: outcome(file, tmp_path)[0] for file in INDEX}
    table = Counter((INDEX[file]["outcome"], said) for file, said in got.items())
    assert table == {
        ("either", "read"): 7,
        ("either", "refused"): 11,
        ("read", "read"): 14,
        ("read", "refused"): 1,
        ("refuse", "read"): 1,
        ("refuse", "refused"): 7,
    }


def test_a_line_that_names_the_delimiter_is_no_row(tmp_path):
    file = tmp_path / "sep.csv"
    file.write_text('sep=;\n"item";"rater";"option";"value"\nq1;r1;"A, or B";0,125\n')
    [(place, row)] = read_table(file).rows
    assert place == "sep.csv:3" and row == {"item": "q1", "rater": "r1", "option": "A, or B", "value": "0,125"}
    assert ratings_from(file)[0] == []  # .125 lies outside 1 to 5
