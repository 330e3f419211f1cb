"""How well forms of answers that somebody wrote without having seen the parser are read, by kind of task.

A row of `forms_unseen.jsonl` has a kind, a text and every reading that is right; none where nothing is to be read.
"""

import json
from pathlib import Path

import pandas as pd

from mhbench.ask.parse import parse_choice, parse_choices
from mhbench.ask.reply import read_json
from mhbench.tasks.multi_label import parse_labels
from mhbench.tasks.multiple_choice import parse_extended_matching
from mhbench.tasks.ranking import parse_ranking
from mhbench.tasks.written import same_term

UNSEEN = Path(__file__).parent / "forms_unseen.jsonl"


def _schema(fields: dict) -> dict:
    "A form of verdicts: texts, labels of a list, and numbers in a range."
    kinds = {}
    for name, values in fields.items():
        low_high = isinstance(values, list) and all(isinstance(v, (int, float)) for v in values)
        if isinstance(values, str):
            kinds[name] = {"type": values}
        else:
            limits = {"type": "number", "minimum": min(values), "maximum": max(values)} if low_high else {}
            kinds[name] = limits or {"enum": values}
    return {"type": "object", "properties": kinds, "required": list(fields)}


def reading(row: dict) -> object:
    "What is read of a row, in the form of its `expected`; None where nothing is."
    text, kind = row["text"], row["kind"]
    if kind in ("letter", "thought"):
        return parse_choice(text, row["options"]).letter
    if kind == "multi-select":
        return "".join(parse_choices(text, row["options"]).letters) or None
    if kind == "EMI":
        letters = [p.letter or "-" for p in parse_extended_matching(text, row["stems"], row["options"])]
        return "".join(letters).strip("-") and "".join(letters) or None
    if kind == "ranking":
        return "".join(parse_ranking(text, row["options"]).entries) or None
    if kind == "labels":
        said = parse_labels(text, row["labels"])
        return list(said.labels) if said.labels and not said.unknown else None
    if kind == "verdict":
        data = read_json(text, _schema(row["fields"]))[0]
        return data and {name: data[name] for name in row["fields"]}
    wanted = [e for e in row["expected"] if e]
    return next((e for e in wanted if isinstance(e, str) and same_term(text, [e])), None)


def _agrees(got: str, want: str | None) -> bool:
    "Whether every letter that is read of a set of scenarios is right, and some are not read."
    return bool(want) and len(got) == len(want) and "-" in got and all(a in (b, "-") for a, b in zip(got, want))


def read_all(file: Path = UNSEEN) -> pd.DataFrame:
    "The rows with what is read of each, whether something is to be read, and whether it is right."
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    told = []
    for row in rows:
        got = reading(row)
        want = row["expected"] if row["kind"] != "labels" else [row["expected"]]
        answers = any(want) and want != [[None]]
        right = got in want or (isinstance(got, list) and any(sorted(got) == sorted(w) for w in want if w))
        told.append({k: row[k] for k in ("kind", "id", "text", "expected")} | {"got": got, "answers": answers})
        told[-1] |= {"read": got is not None, "right": bool(got is not None and right)}
        told[-1]["partly"] = row["kind"] == "EMI" and any(map(_agrees, [got or ""] * len(want), want))
    return pd.DataFrame(told)


def by_kind(table: pd.DataFrame) -> pd.DataFrame:
    "Rows, answers, how many were read, rightly and wrongly; recall and precision."
    sums = table.groupby("kind", sort=False)[["answers", "read", "right", "partly"]].sum()
    sums.insert(0, "rows", table["kind"].value_counts())
    sums.loc["all"] = sums.sum()
    wrong = sums["read"] - sums["right"] - sums["partly"]
    return sums.assign(wrong=wrong, recall=sums.right / sums.answers, precision=sums.right / sums.read).round(3)


if __name__ == "__main__":
    import sys

    table = read_all(Path(sys.argv[1]) if len(sys.argv) > 1 else UNSEEN)
    print(by_kind(table).to_string())
    if "--all" in sys.argv:
        print(table[table["right"] != table["answers"]].drop(columns="kind").to_string())
