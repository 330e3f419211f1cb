"""Forms in which models answer, and how well they are read.

Every `data/answer_forms*.jsonl` holds one form a row: id, form, language, options, numbered, text, right (the letters;
none where nothing was chosen), why. The texts and options are made up.
"""

import json
import sys
from pathlib import Path

import pandas as pd

from mhbench.ask.parse import parse_choice, parse_choices

READ = Path(__file__).parent / "data" / "answer_forms_read.tsv"  # how each form was read when somebody last looked
FILES = sorted((Path(__file__).parent / "data").glob("answer_forms*.jsonl"))


def read_forms(file: Path) -> list[dict]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]


def readings(file: Path) -> list[str]:
    "How each form of a file is read, one line each: file, id, letters, how, the words that state it, all statements."
    told = []
    for row in read_forms(file):
        parse = parse_choices if len(row["right"]) > 1 else parse_choice
        got = parse(row["text"], row["options"], numbered=row["numbered"])
        words = " ".join(got.evidence.split())[:80]
        told.append("\t".join([file.stem, row["id"], "".join(got.letters), got.how, words, "; ".join(got.statements)]))
    return told


def misread(rows: list[dict]) -> pd.DataFrame:
    "The rows with what was read of each: id, form, language, right, got, how, answers, read, correct."
    told = []
    for row in rows:
        parse = parse_choices if len(row["right"]) > 1 else parse_choice
        got = parse(row["text"], row["options"], numbered=row["numbered"])
        told.append({k: row[k] for k in ("id", "form", "language", "right")} | {"got": [*got.letters], "how": got.how})
    table = pd.DataFrame(told)
    table["answers"], table["read"] = table.right.map(bool), table.got.map(bool)
    table["correct"] = table.answers & (table.right == table.got)
    return table


def precision_and_recall(rows: list[dict]) -> pd.DataFrame:
    "By form and of all: of the texts that were read, the share read rightly; of those that answer, the share read so."
    table = misread(rows)
    sums = table.groupby("form", sort=False)[["answers", "read", "correct"]].sum()
    sums.insert(0, "rows", table["form"].value_counts())
    sums.loc["all"] = sums.sum()
    return sums.assign(precision=sums.correct / sums.read, recall=sums.correct / sums.answers)


def recorded_counselingbench(folder: Path) -> pd.DataFrame:
    "Recorded answers, what their authors read of each and what is read here: run, id, said, theirs, ours; no question."
    told = []
    for file in sorted(folder.glob("*.csv")):
        table = pd.read_csv(file, keep_default_na=False)
        for n, row in enumerate(table.to_dict("records")):
            ours = parse_choice(row["raw_pred"], [row[f"Choice {x}"] for x in "ABCD"]).letter or ""
            theirs = row["parsed_pred"].replace("Z", "")  # Z: unread
            told.append({"run": file.stem, "id": f"row {n}", "said": row["raw_pred"], "theirs": theirs, "ours": ours})
    return pd.DataFrame(told)


def recorded_mentat(folder: Path, password: str) -> pd.DataFrame:
    "The same of the released run of MENTAT, whose texts are not told: run, id, category, theirs, ours."
    from mhbench.studies.mentat.load import RESULT_SETS, load_mentat_results, pickled_table, result_files
    from mhbench.studies.mentat.questions import load_mentat, open_part

    ((file, (model, name)),) = result_files(folder).items()
    assert name in RESULT_SETS
    items, said = load_mentat_results(folder, password, load_mentat(folder, password), [name])
    asked, table = {i.item_id: i for i in items}, pickled_table(open_part(file, password))
    told = []
    for answer, shares in zip(said, table["candidate_logprobs"], strict=True):
        item = asked[answer.item_id]
        ours = parse_choice(answer.text, item.options).letter or ""
        theirs = "ABCDE"[max(range(5), key=list(shares).__getitem__)]
        told.append({"run": model, "id": item.base, "category": item.category, "theirs": theirs, "ours": ours})
        told[-1] |= {f"{who}_right": told[-1][who] in item.key for who in ("theirs", "ours")}
    return pd.DataFrame(told)


if __name__ == "__main__" and "--store" in sys.argv:
    READ.write_text("".join(f"{line}\n" for file in FILES for line in readings(file)), encoding="utf-8")
elif __name__ == "__main__":
    for file in FILES:
        rows = read_forms(file)
        print(f"{file.name}\n{precision_and_recall(rows).round(3).to_string()}")
        print(
            misread(rows)
            .query("read != correct or answers != correct")[["id", "form", "right", "got", "how"]]
            .to_string()
        )
