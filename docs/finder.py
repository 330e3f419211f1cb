"""An index in which a function is found by what it does: words, and how strongly each stands for each function.

Weights are those of BM25F (Robertson and Zaragoza, 2009): a word counts more in a name than in a paragraph, and more
the fewer functions have it. They are computed here, so that the page in the browser only adds them up.
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

FIELDS = {"name": 4.0, "sentence": 3.0, "headings": 2.0, "module": 1.5, "signature": 0.6, "prose": 0.6}
SATURATION = 2.0  # how soon a repeated word stops to count more
GENERAL = {
    "stats": 1.6,
    "report": 1.1,
    "studies": 0.7,
    "run": 0.9,
    "tools": 0.9,
}  # what many can use comes before one study's own
RECORD = 0.7  # of a class beside a function
SYNONYM = 0.75  # the weight of a word that means the same as the one that was asked
STOP = set(
    "a an and are as at be been by can did do does each every find for from get got has have how i if in "
    "into is it its me my no none not of on one or our so than that the their them then there these they "
    "this those to two use we what when where which who with you".split()
)
SAME = [  # words of a field for one thing
    "share proportion rate fraction percentage",
    "rater annotator clinician reader reviewer person human expert",
    "interval confidence ci bound limit",
    "mean average",
    "agreement kappa alpha reliability concordance",
    "case cluster unit patient",
    "question item",
    "answer response reply",
    "compare comparison difference contrast against",
    "paired pair matched",
    "calibration calibrated reliability ece brier",
    "judge grader verdict",
    "cost price money spend budget",
    "plot figure draw chart",
    "read parse load",
    "test significance pvalue",
    "correction adjust adjusted holm multiple",
    "rank ranking order bradley",
    "similarity cosine embedding near",
    "gender age ethnicity demographic attribute",
    "refusal refused decline",
    "abstention abstain",
]
ENDINGS = re.compile(r"(?:isons?|ations?|ated|ements?|ments?|ings?|ities|ity|ies|ed|es|e|s|y)$")


class Found(NamedTuple):
    "A public function or class, and the texts in which it is looked for."

    name: str
    module: str
    sentence: str
    texts: dict[str, str]  # of each of FIELDS
    weight: float = 1.0


def stem(word: str) -> str:  # in lower case
    "A word without its ending; what is left has three letters or more."
    cut = ENDINGS.sub("", word)
    return cut if len(cut) >= 3 else word


def words(text: str) -> list[str]:
    "The stems of a text; names are taken apart at underscores and capitals."
    apart = re.sub(r"([a-z])([A-Z])", r"\1 \2", text).lower()
    return [stem(w) for w in re.findall(r"[a-z]{2,}|\d+", apart) if w not in STOP]


def defined(source: str) -> list[ast.FunctionDef | ast.ClassDef]:
    "The public functions and classes of a cell."
    try:
        nodes = ast.parse(source).body
    except SyntaxError:  # a cell with a magic
        return []
    return [n for n in nodes if isinstance(n, (ast.FunctionDef, ast.ClassDef)) and not n.name.startswith("_")]


def in_notebook(file: Path) -> list[Found]:
    "What a module's notebook defines, each with the headings above it and the paragraphs before it."
    cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
    sources = [("".join(c["source"]), c["cell_type"]) for c in cells]
    named = [m[1] for s, _ in sources for m in [re.match(r"#\| default_exp (\S+)", s)] if m]
    if not named:
        return []
    headings, prose, out = ["", ""], "", []
    for source, kind in sources:
        if kind == "markdown":
            for level, title in re.findall(r"(?m)^(#{1,3}) (.+)$", source):
                headings = [title, ""] if level == "#" else [headings[0], title]
            prose = source
            continue
        if not source.startswith("#| export"):
            continue
        for node in defined(source):
            says = (ast.get_docstring(node) or "").partition("\n\n")[0].replace("\n", " ")
            lines = source.splitlines()[node.lineno - 1 : node.body[0].lineno - 1]
            texts = {"name": node.name, "sentence": says, "headings": " ".join(headings), "module": named[0]}
            texts |= {"signature": " ".join(lines), "prose": prose}
            weight = GENERAL.get(named[0].partition(".")[0], 1.0) * (RECORD if isinstance(node, ast.ClassDef) else 1.0)
            out.append(Found(node.name, f"mhbench.{named[0]}", says, texts, weight))
        prose = ""
    return out


def indexed(found: list[Found]) -> dict:
    "What the page needs: functions, and of each stem the functions with their weights in hundredths."
    counts = [{field: Counter(words(f.texts[field])) for field in FIELDS} for f in found]
    length = {f: sum(c[f].total() for c in counts) / max(1, len(counts)) or 1.0 for f in FIELDS}
    weights: dict[str, dict[int, float]] = {}
    for k, fields in enumerate(counts):
        for field, weight in FIELDS.items():
            long = 0.5 + 0.5 * fields[field].total() / length[field]
            for word, n in fields[field].items():
                there = weights.setdefault(word, {})
                there[k] = there.get(k, 0.0) + weight * n / long
    n = len(found)
    out = {}
    for word, there in sorted(weights.items()):
        rarity = math.log(1 + (n - len(there) + 0.5) / (len(there) + 0.5))
        out[word] = [[k, round(100 * found[k].weight * rarity * w / (SATURATION + w))] for k, w in there.items()]
    same: dict[str, list[str]] = {}
    for line in SAME:
        group = list(dict.fromkeys(stem(w) for w in line.split()))
        for word in group:
            same.setdefault(word, []).extend(w for w in group if w != word)
    functions = [[f.name, f.module, f.sentence] for f in found]
    return {"functions": functions, "words": out, "same": same, "synonym": SYNONYM, "stop": sorted(STOP)}


def ranked(index: dict, query: str, most: int = 10) -> list[str]:
    "The names that a query finds, best first; `search.js` does the same in the browser."
    total: dict[int, float] = {}
    n: dict[int, int] = {}
    for word in dict.fromkeys(words(query)):
        best: dict[int, float] = {}
        for other, weight in [(word, 1.0), *((s, index["synonym"]) for s in index["same"].get(word, []))]:
            for k, w in index["words"].get(other, []):
                best[k] = max(best.get(k, 0.0), weight * w)
        for k, w in best.items():
            total[k] = total.get(k, 0.0) + w
            n[k] = n.get(k, 0) + 1
    order = sorted(total, key=lambda k: (-total[k] * n[k], k))[:most]
    return [index["functions"][k][0] for k in order]


def index_of(folder: Path) -> dict:  # nbs/
    "The index of all modules."
    files = [f for f in sorted(folder.rglob("*.ipynb")) if ".ipynb_checkpoints" not in f.parts]
    return indexed([found for f in files for found in in_notebook(f)])
