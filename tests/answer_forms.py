"""Forms in which models answer, and how well they are read: data/answer_forms.tsv (with it the parser was written) and
data/answer_forms_held_out.tsv (written afterwards).

A form holds places: {X} a letter, {x} in lower case, {T} its option's text, {t} beginning in lower case, {N} its
number; {Y}, {U}, {u}, {M} the same of another option; {Z} a letter that is not offered; {LIST} all options, one a line.
Each form is filled with several sets of options. The forms are our own; the shortest ones, and those of models that
write no language, follow recorded answers.
"""

from pathlib import Path
from typing import NamedTuple

import pandas as pd

from mhbench.ask.parse import Parsed, parse_choice

FOLDER = Path(__file__).parent / "data"
OPTIONS = [
    ["Lithium", "Sertraline", "Clozapine", "A benzodiazepine", "Lamotrigine"],
    [
        "Begin exposure with response prevention",
        "Refer for a medication review",
        "Assess the risk of suicide",
        "Discuss confidentiality",
    ],
    ["Refer", "Refer to a psychiatrist", "Watch", "Watch and wait"],
    ["Ein Gespräch führen", "Lithium geben", "Nicht behandeln", "Überweisen, sofort"],
    ['"Tell me more about it."', "C-SSRS; PHQ-9", "Ask for the client's view (today)", "50 mg/day, at night"],
    ["Panic disorder", "Mania", "Delirium", "Catatonia", "Mutism", "Phobia", "Tics", "Enuresis", "Pica"],
]


class Case(NamedTuple):
    "One form, filled."

    kind: str
    language: str
    form: str
    text: str
    options: list[str]
    numbered: bool
    want: str | None  # the letter, None where the text must stay unread


def fill(form: str, options: list[str], x: int, y: int) -> str:
    "A form with options x and y in its places."
    small = lambda text: text[0].lower() + text[1:]
    places = {
        "X": chr(65 + x),
        "x": chr(97 + x),
        "T": options[x],
        "t": small(options[x]),
        "N": str(x + 1),
        "Y": chr(65 + y),
        "U": options[y],
        "u": small(options[y]),
        "M": str(y + 1),
        "Z": chr(65 + len(options)),
        "LIST": "\n".join(f"({chr(65 + i)}) {o}" for i, o in enumerate(options)),
    }
    text = form.replace("\\n", "\n")
    for place, value in places.items():
        text = text.replace("{%s}" % place, value)
    return text


def cases(file: str, per_form: int = len(OPTIONS)) -> list[Case]:
    "The forms of a file, each filled with `per_form` sets of options."
    table = pd.read_csv(FOLDER / file, sep="\t", quoting=3, dtype=str, keep_default_na=False)
    out = []
    for i, row in enumerate(table.itertuples(index=False)):
        for k in range(per_form):
            options = OPTIONS[(i + k) % len(OPTIONS)]
            n = len(options) if row.labels == "letter" else min(len(options), 8)
            x = (i * (k + 1)) % n  # every letter has its turn, A among them
            y = (x + 1 + i % (n - 1)) % n
            text, want = fill(row.form, options[:n], x, y), chr(65 + x) if row.answer == "X" else None
            out.append(Case(row.kind, row.language, row.form, text, options[:n], row.labels == "number", want))
    return out


def read(case: Case) -> Parsed:
    return parse_choice(case.text, case.options, numbered=case.numbered)


def precision_and_recall(of: list[Case]) -> pd.DataFrame:
    "By kind of form: of the texts that were read, the share read rightly; of those that answer, the share read so."
    told = pd.DataFrame([dict(kind=c.kind, form=c.form, want=c.want, got=read(c).letter) for c in of])
    told["answers"], told["read"] = told.want.notna(), told.got.notna()
    told["right"] = told.answers & (told.want == told.got)
    sums = told.groupby("kind", sort=False).agg(
        forms=("form", "nunique"),
        texts=("form", "size"),
        answers=("answers", "sum"),
        read=("read", "sum"),
        right=("right", "sum"),
    )
    sums.loc["all"] = sums.sum()
    return sums.assign(precision=sums.right / sums.read, recall=sums.right / sums.answers)
