"""The figures of executed notebooks, each with what its stage says of it."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import NamedTuple


class Picture(NamedTuple):
    "A figure as an executed notebook shows it."

    study: str
    notebook: Path
    title: str
    sentence: str
    png: str  # base64
    real: bool  # of released files; otherwise of synthetic questions


def said(node: ast.expr, names: dict[str, ast.expr]) -> str:
    "The text that an expression has, as far as it stands in the cell: a part that is computed is left out."
    if isinstance(node, ast.Name) and node.id in names:
        return said(names[node.id], {k: v for k, v in names.items() if k != node.id})
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(map(part, node.values))
    return said(node.left, names) if isinstance(node, ast.BinOp) else ""


def part(node: ast.expr) -> str:
    "Of an f-string; `{mark}` names who is simulated, which the gallery says once."
    if isinstance(node, ast.Constant):
        return str(node.value)
    shown = ast.unparse(node.value) if isinstance(node, ast.FormattedValue) else ""
    return "" if shown == "mark" else "…"


def captions(source: str) -> list[tuple[str, str]]:
    "Name and caption of the figures that a cell registers."
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return []
    names = {n.targets[0].id: n.value for n in ast.walk(tree) if isinstance(n, ast.Assign) and named(n.targets)}
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and ast.unparse(n.func).endswith("s.figure")]
    return [(said(n.args[0], names), said(n.args[2], names)) for n in calls if len(n.args) > 2]


def titles(file: Path, folder: Path) -> dict[str, str]:
    "The titles that the figures of an executed notebook bear, by name, as its stage wrote them beside the figures."
    demo = folder.parent / "figures" / file.relative_to(folder).with_suffix("") / "figures.json"
    entries = json.loads(demo.read_text(encoding="utf-8")) if demo.exists() else []
    released = file.with_name("figures.json")  # of all stages of a replication
    if released.exists():
        entries = json.loads(released.read_text(encoding="utf-8")).get(file.stem, [])
    return {e["name"]: e["title"] for e in entries}


def named(targets: list[ast.expr]) -> bool:
    return len(targets) == 1 and isinstance(targets[0], ast.Name)


def pictures(folder: Path) -> list[Picture]:  # reports/
    "All that are shown, of released files first, by study and stage."
    out = []
    for file in sorted(folder.rglob("*.ipynb")):
        parts = file.relative_to(folder).with_suffix("").parts
        real = parts[0] == "replication"
        if len(parts) < 2:
            continue
        study = parts[1] if real else parts[0]
        cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
        asked = re.search(r"\*\*The question\.\*\* (.+)", "".join(cells[0]["source"]))
        heading, drawn = "", titles(file, folder)
        spoken = {name for cell in cells for name, _ in captions("".join(cell["source"]))}
        looped = iter([name for name in drawn if name not in spoken])  # their names are made in a loop
        for cell in cells:
            source = "".join(cell["source"])
            if cell["cell_type"] == "markdown":
                heading = "".join(re.findall(r"(?m)^## (.+)$", source)[-1:]) or heading
                continue
            shown = [o["data"]["image/png"] for o in cell.get("outputs", []) if "image/png" in o.get("data", {})]
            about = captions(source)
            for k, png in enumerate(shown):
                name, caption = about[min(k, len(about) - 1)] if about else ("", heading)
                name = name or next(looped, "")
                title, _, rest = re.sub(r" +", " ", caption).partition("; ")
                if name in drawn:
                    title, rest = drawn[name], caption
                sentence = rest or (asked[1] if asked else "")
                sentence = sentence[:1].upper() + sentence[1:].rstrip(".?") + ("." if rest else "?")
                out.append(Picture(study, file, title.rstrip("."), sentence, "".join(png), real))
    return sorted(out, key=lambda p: not p.real)
