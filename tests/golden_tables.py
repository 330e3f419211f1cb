"""The numbers of the demo as text, one file a stage in tests/golden: what a change moves is a difference to read.

    python tests/golden_tables.py RESULTS            # compare a results folder with tests/golden: `make golden`
    python tests/golden_tables.py RESULTS --write    # make the files again, after the differences were read
    python tests/golden_tables.py BEFORE AFTER       # every cell of two results folders of one machine, exactly

A table of at most LONGEST rows stands there whole, with six significant digits. Of a longer one, each column stands
there by its count of missing cells, its distinct values, and for numbers the mean and the mean weighted by the row's
number, so that an exchange of two rows is seen. A cell of more than MOST characters is a text, and stands there by a
hash.
"""

from __future__ import annotations

import argparse
import csv
import functools
import hashlib
import io
import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

FOLDER = Path(__file__).resolve().parent / "golden"
LONGEST = 24  # rows of a table that stands there whole
MOST = 48  # characters of a cell that is no text
RELATIVE, ABSOLUTE = 1e-5, 1e-6  # other processors differ by 1e-8
LEFT_OUT = {"text", "inputs", "report", "ledger", "metrics", "figures", "models", "trained"}
Table = list[list[str]]  # a header, and the rows


def hashed(text: str) -> str:
    return "#" + hashlib.sha256(text.encode()).hexdigest()[:10]


def cell(value: Any) -> str:
    "A cell as it stands in a golden file."
    if isinstance(value, (list, tuple, np.ndarray, dict)):
        value = json.dumps(value, default=lambda x: x.tolist() if hasattr(x, "tolist") else str(x))
        return value if len(value) <= MOST else hashed(value)
    if value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, (float, np.floating)):
        return f"{value:.6g}"
    text = " ".join(str(value).split())
    return text if len(text) <= MOST else hashed(text)


def by_column(frame: pd.DataFrame) -> Table:
    "A long table: one row a column."
    rows = [["column", "missing", "distinct", "mean", "weighted mean", "values"]]
    weights = np.arange(1, len(frame) + 1) / len(frame)
    for name, values in frame.items():
        missing = int(values.isna().sum())
        if pd.api.types.is_numeric_dtype(values) or pd.api.types.is_bool_dtype(values):
            x = values.astype(float).to_numpy()
            there = ~np.isnan(x)
            mean = x[there].mean() if there.any() else math.nan
            weighted = (x[there] * weights[there]).mean() if there.any() else math.nan
            rows.append([str(name), str(missing), "", cell(mean), cell(weighted), ""])
        else:
            cells = values.map(cell)
            rows.append([str(name), str(missing), str(cells.nunique()), "", "", hashed("\n".join(cells))])
    return rows


def as_rows(frame: pd.DataFrame) -> Table:
    if len(frame) > LONGEST:
        return by_column(frame)
    return [list(map(str, frame.columns)), *([cell(v) for v in row] for row in frame.itertuples(index=False))]


def of_stage(file: Path, folder: Path) -> tuple[str, str]:
    "The stage that left a file, and its study and name: <study>/<stage>/name, or of some <stage>/<study>/name."
    first, *rest = file.relative_to(folder).with_suffix("").parts
    if folder.name in ("studies", "metrics") and rest:
        study, (first, *rest) = first, rest
        rest = [study, *rest]
    return first, "/".join(rest)


def tables(results: Path, left_out: set[str] = LEFT_OUT, stage: str = "*") -> dict[str, dict[str, Table]]:
    "Stage -> study/table -> rows: every table that the stages of a run left, or one of them, and their metrics."
    out: dict[str, dict[str, Table]] = {}
    files = [(f, results / "studies") for f in sorted((results / "studies").glob(f"*/{stage}/**/*.parquet"))]
    files += [(f, results) for f in sorted(results.glob(f"{stage}/**/*.parquet")) if "studies" not in f.parts]
    for file, folder in files:
        made_by, name = of_stage(file, folder)
        if made_by not in left_out:
            frame = pd.read_parquet(file)
            out.setdefault(made_by, {})[f"{name}: {len(frame)} rows"] = as_rows(frame)
    for file in sorted((results / "metrics").glob("*/**/*.json")):
        made_by, name = of_stage(file, results / "metrics")
        if made_by not in left_out and stage in ("*", made_by):
            flat = pd.json_normalize(json.loads(file.read_text(encoding="utf-8")))
            rows = [["metric", "value"], *([str(k), cell(flat.at[0, k])] for k in flat)]
            out.setdefault(made_by, {})[f"{name}: metrics"] = rows
    return out


def write(stages: dict[str, dict[str, Table]], folder: Path = FOLDER) -> None:
    "One file a stage; a file of a stage that is no more goes."
    folder.mkdir(exist_ok=True)
    for file in folder.glob("*.txt"):
        file.unlink()
    for stage, named in stages.items():
        text = io.StringIO()
        for name, rows in named.items():
            text.write(f"== {name}\n")
            csv.writer(text, lineterminator="\n").writerows(rows)
        (folder / f"{stage}.txt").write_text(text.getvalue(), encoding="utf-8")


@functools.cache
def stored(folder: Path = FOLDER) -> dict[str, dict[str, Table]]:
    out: dict[str, dict[str, Table]] = {}
    for file in sorted(folder.glob("*.txt")):
        sections = file.read_text(encoding="utf-8").split("== ")[1:]
        heads = [s.partition("\n") for s in sections]
        out[file.stem] = {name: list(csv.reader(io.StringIO(rows))) for name, _, rows in heads}
    return out


def close(one: str, two: str) -> bool:
    "Whether two cells agree: equal words, or numbers within the tolerance."
    if one == two:
        return True
    try:
        a, b = float(one), float(two)
    except ValueError:
        return False
    return abs(a - b) <= ABSOLUTE + RELATIVE * abs(a)


def difference(golden: Table, now: Table) -> str:
    "What differs between two tables; nothing where they agree."
    if golden[0] != now[0]:
        gone = [c for c in golden[0] if c not in now[0]]
        new = [c for c in now[0] if c not in golden[0]]
        return f"columns gone {gone}, new {new}" if gone or new else "columns in another order"
    if len(golden) != len(now):
        return f"{len(golden) - 1} rows, now {len(now) - 1}"
    wrong = [
        f"{column} of row {k}: {a!r}, now {b!r}"
        for k, (one, two) in enumerate(zip(golden[1:], now[1:]), 1)
        for column, a, b in zip(golden[0], one, two)
        if not close(a, b)
    ]
    return "; ".join(wrong[:4]) + (f"; and {len(wrong) - 4} more cells" if len(wrong) > 4 else "")


def differences(golden: dict[str, dict[str, Table]], now: dict[str, dict[str, Table]]) -> list[str]:
    "What moved, a line a table."
    out = []
    for stage in sorted(golden.keys() | now.keys()):
        before, after = golden.get(stage, {}), now.get(stage, {})
        out += [f"{stage}/{name}: gone" for name in before if name not in after]
        out += [f"{stage}/{name}: new" for name in after if name not in before]
        moved = {name: difference(before[name], after[name]) for name in before if name in after}
        out += [f"{stage}/{name}: {what}" for name, what in moved.items() if what]
    return out


def exact(before: Path, after: Path) -> list[str]:
    "Every Parquet file and every metric of two folders, cell by cell, texts among them."
    out = []
    names = {f.relative_to(r) for r in (before, after) for f in r.rglob("*.parquet") if "inputs" not in f.parts}
    names |= {f.relative_to(r) for r in (before, after) for f in (r / "metrics").rglob("*.json")}
    for name in sorted(names):
        one, two = before / name, after / name
        if not (one.exists() and two.exists()):
            out.append(f"{name}: {'new' if two.exists() else 'gone'}")
        elif name.suffix == ".json":
            if json.loads(one.read_text(encoding="utf-8")) != json.loads(two.read_text(encoding="utf-8")):
                out.append(f"{name}: differs")
        else:
            a, b = pd.read_parquet(one), pd.read_parquet(two)
            if list(a.columns) != list(b.columns) or len(a) != len(b):
                out.append(f"{name}: {a.shape} with {list(a.columns)}, now {b.shape} with {list(b.columns)}")
            elif changed := [c for c in a if not a[c].map(repr).equals(b[c].map(repr))]:
                out.append(f"{name}: {', '.join(changed)}")
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("after", type=Path, nargs="?", help="another results folder of the same machine")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    if given.after:
        lines = exact(given.results, given.after)
    else:
        now = tables(given.results)
        lines = differences(stored(), now)
        if given.write:
            write(now)
    print("\n".join(lines) or "no number moved")
    return int(bool(lines) and not given.write)


if __name__ == "__main__":
    sys.exit(main())
