"""Every place of the package that makes an interval, read from the code.

    python benchmarks/inventory.py    # the places, and those that `intervals/inventory.csv` lacks or has too many

A function makes an interval if it is one of `mhbench.stats` whose result is, or holds, an `Estimate` or an `Interval`,
or is a table whose rows such a function fills. The table beside the kinds says of each place what the number is, what
is random in it and what measures it.
"""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parent / "mhbench"
TABLE = HERE / "intervals" / "inventory.csv"
STAGES = HERE.parent / "nbs" / "stages"
FOLDERS = ("corpus", "steps", "studies", "report", "annotate", "run", "tools")  # whose code calls the statistics
COLUMNS = ["place", "call", "number", "random", "fixed", "kinds"]
_MADE = {"Estimate", "Interval"}
_PASSED_ON = {"interval_column", "from_interval"}  # they take an interval that another call has made


def _trees(folder: str) -> dict[str, ast.Module]:
    files = sorted((PACKAGE / folder).rglob("*.py"))
    return {f.relative_to(PACKAGE).as_posix(): ast.parse(f.read_text()) for f in files}


def _stages() -> dict[str, ast.Module]:
    "The code of every stage's notebook, lines that are no Python left out."
    found = {}
    for file in sorted(STAGES.glob("*.ipynb")):
        cells = json.loads(file.read_text())["cells"]
        lines = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "code").split("\n")
        found[f"stages/{file.name}"] = ast.parse("\n".join(x for x in lines if not x.lstrip().startswith(("%", "!"))))
    return found


def _names_one(annotation: ast.expr | None, of: set[str]) -> bool:
    return annotation is not None and bool(of & set(re.findall(r"\w+", ast.unparse(annotation))))


def makers() -> set[str]:
    "Names of functions and constructors of `mhbench.stats` that make an interval."
    bodies = [node for tree in _trees("stats").values() for node in tree.body]
    classes = {
        n.name: [b for b in n.body if isinstance(b, ast.AnnAssign)] for n in bodies if isinstance(n, ast.ClassDef)
    }
    holding = set(_MADE)
    for _ in range(2):  # a record may hold a record
        holding |= {c for c, fields in classes.items() if any(_names_one(f.annotation, holding) for f in fields)}
    holding |= {c for c, fields in classes.items() if "ci_low" in {ast.unparse(f.target) for f in fields}}
    functions = [n for n in bodies if isinstance(n, ast.FunctionDef)]
    of_stats = {n.name for n in functions if _names_one(n.returns, holding)}
    tables = [n for n in functions if _names_one(n.returns, {"DataFrame"})]
    of_stats |= {n.name for n in tables if of_stats & {x.id for x in ast.walk(n) if isinstance(x, ast.Name)}}
    of_stats = {name for name in of_stats if not name.startswith("_")}
    plain = {"from_limits", "from_replicates", "agresti_coull", "count_limits", "percentile_interval"}
    plain |= {"confidence_sequence", "mean_of"}  # `mean_of` is the estimate of a column, of `mhbench.steps.rates`
    return (of_stats | plain) - _PASSED_ON


def _is_nothing(call: ast.Call) -> bool:
    "Whether a call says that there is no number."
    return bool(call.args) and ast.unparse(call.args[0]) == "np.nan"


def _calls(tree: ast.Module, made: set[str]) -> Iterator[tuple[str, str]]:
    for top in tree.body:
        for call in (n for n in ast.walk(top) if isinstance(n, ast.Call)):
            name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            if name in made and not _is_nothing(call):
                yield getattr(top, "name", "<module>"), name


def sites() -> list[tuple[str, str]]:  # place (file: function), call
    "Where an interval is made, each place and function once."
    made = makers()
    trees = _stages()
    for folder in FOLDERS:
        trees |= _trees(folder)
    return sorted({(f"{file}: {top}", name) for file, tree in trees.items() for top, name in _calls(tree, made)})


def inventory() -> pd.DataFrame:  # columns COLUMNS
    "The table of every place."
    return pd.read_csv(TABLE, dtype=str, keep_default_na=False)


def main() -> None:
    there, listed = sites(), inventory()
    known = set(zip(listed["place"], listed["call"]))
    for place, call in there:
        print(f"{place:60} {call}" + ("" if (place, call) in known else "    NOT LISTED"))
    for place, call in sorted(known - set(there)):
        print(f"{place:60} {call}    IS NOT IN THE CODE")


if __name__ == "__main__":
    main()
