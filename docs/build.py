"""`make docs`: the site in `_docs/html`, from notebooks with their stored outputs and the executed stages.

Pages whose text is what it was are not made again: their files stay untouched, and Sphinx goes by these.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import json
import re
import sys
from pathlib import Path

import yaml
from finder import index_of
from gallery import Picture, pictures
from sphinx.cmd.build import main as sphinx

from mhbench.corpus.demo import demo_path
from mhbench.corpus.load import load_corpus
from mhbench.ledger.page import ledger_page
from mhbench.ledger.verdicts import claims_by_verdict
from mhbench.report.tables import markdown_table
from mhbench.run.shape import stage_classes
from mhbench.steps.parameters import GIVEN
from mhbench.tools.export import demo_card
from mhbench.tools.ledger import all_verdicts_on_papers

TOP = Path(__file__).resolve().parents[1]
JOBS = "2"
PLAIN = re.compile(r'<span class="(?:n|nn|p|w|o)">([^<]*)</span>')  # code that has no colour of its own: 15 MB of tags
MATHJAX = ("mathjax/tex-chtml.js", "mathjax/output/chtml/fonts")  # what the pages load of 24 MB
SOURCE, HTML = TOP / "_docs" / "source", TOP / "_docs" / "html"
FOLDERS = [
    "records",
    "stats",
    "ask",
    "encode",
    "tasks",
    "corpus",
    "steps",
    "report",
    "ledger",
    "studies",
    "annotate",
    "run",
    "tools",
]
STUDIES = {
    "mentat": "MENTAT",
    "psychiatrybench": "PsychiatryBench",
    "medqade": "MedQADE",
    "counselingbench": "CounselingBench",
    "mhqa": "MHQA",
}
KEPT: set[Path] = set()  # of this build


def write(path: str, content: str | bytes) -> None:
    "A file of SOURCE; one that holds the same already is left as it is."
    file, data = SOURCE / path, content if isinstance(content, bytes) else content.encode("utf-8")
    KEPT.add(file)
    if file.exists() and file.read_bytes() == data:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)


def forget_the_rest() -> None:
    "What an earlier build wrote and this one did not."
    for file in SOURCE.rglob("*"):
        if file.is_file() and file not in KEPT:
            file.unlink()


def within_the_site(text: str, folder: str = "") -> str:
    "Links of a page that lies elsewhere here than in the clone: `folder` is where its `..` leads to."
    text = re.sub(r"\]\(\.\./", f"](/{folder}", text)
    text = text.replace("](/docs/", "](/")
    return re.sub(r"\]\(/reports/replication/?\)", "](/replication.md)", text)


def toctree(pages: list[str], caption: str = "", depth: int = 1) -> str:
    head = f":maxdepth: {depth}\n" + (f":caption: {caption}\n" if caption else "")
    return "```{toctree}\n" + head + "\n" + "\n".join(pages) + "\n```\n"


def title_of(notebook: Path) -> str:
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    heads = [
        m[1] for c in cells if c["cell_type"] == "markdown" for m in [re.match(r"# (.+)", "".join(c["source"]))] if m
    ]
    return heads[0] if heads else notebook.stem


def copied(notebook: Path, onward: str = "", up: str = "") -> str:
    "A notebook as a page: its title, where it leads to, and all but the cells that are hidden, which test or export."
    nb = json.loads(notebook.read_text(encoding="utf-8"))
    hidden = ("#| hide", "#| default_exp", "#|hide")
    nb["cells"] = [c for c in nb["cells"] if not "".join(c["source"]).lstrip().startswith(hidden)]
    for c in nb["cells"]:
        c["source"] = re.sub(r"^#\| export\n", "", "".join(c["source"]))
        if c["cell_type"] == "markdown":
            c["source"] = within_the_site(c["source"], up) if up else c["source"].replace("](/docs/", "](/")
        for output in c.get("outputs", []):
            if html := "".join(output.get("data", {}).get("text/html", "")):
                html = re.sub(r'(href="[./]+/nbs/[^"]+)\.ipynb"', r'\1.html"', html)
                html = html.replace('href="../../ledger.html', 'href="../../../ledger-page.html')
                output["data"]["text/html"] = html.replace('href="../../index.html', 'href="../../../index.html')
    titled = [c for c in nb["cells"] if c["cell_type"] == "markdown" and c["source"].startswith("# ")]
    if onward and titled:
        title, _, rest = titled[0]["source"].partition("\n")
        titled[0]["source"] = f"{title}\n\n{onward}\n{rest}"
    page = notebook.relative_to(TOP)
    write(str(page), json.dumps(nb, ensure_ascii=False))
    return str(page.with_suffix(""))


def onward_of(notebook: Path, after: Path | None) -> str:
    "Where a notebook of a module leads to: what it defines, the next of its folder, all of them."
    named = re.search(r"#\| default_exp ([\w.]+?)(?:\\n|\")", notebook.read_text(encoding="utf-8"))
    module = TOP / "mhbench" / (named[1].replace(".", "/") + ".py") if named else None
    links = [f"[The functions in short](/api/mhbench.{named[1]}.md)"] if module and has_public(module) else []
    links += [f"next: [{title_of(after)}](/{after.relative_to(TOP)})"] if after else []
    return " · ".join([*links, "[all notebooks](/notebooks/index.md)"])


def notebooks() -> None:
    for folder in [".", *FOLDERS]:
        apart = {".ipynb_checkpoints", "results.ipynb"}
        files = sorted(f for f in (TOP / "nbs" / folder).rglob("*.ipynb") if not apart & set(f.parts))
        if folder == ".":
            files = [f for f in files if f.parent.name == "nbs" and f.name != "index.ipynb"]
        pages = [copied(f, onward_of(f, after)) for f, after in zip(files, [*files[1:], None])]
        links = [f"/{p}" for p in pages]
        name = "package" if folder == "." else folder
        write(f"notebooks/{name}.md", f"# {name}\n\n" + toctree(links))
    stages = [copied(f, STAGE_ONWARD) for f in sorted((TOP / "nbs" / "stages").glob("*.ipynb"))]
    write("notebooks/stages.md", "# stages\n\n" + toctree([f"/{p}" for p in stages]))
    head = (
        "# Notebooks\n\nThe source of the package: each explains a concept, defines functions and shows examples.\n\n"
    )
    write("notebooks/index.md", head + toctree(["package", *FOLDERS, "stages"]))


STAGE_ONWARD = "[What it gave on the demo](/demo.md) · [its parameters](/parameters.md) · [all stages](/parts.md)"


def of_report(page: str) -> str:
    "A page of a run with links into the site where it names notebooks of the clone."
    inside = re.sub(r'href="\.\./(nbs/[^"#]+)\.ipynb', r'href="\1.html', page)
    inside = re.sub(r'href="((?!nbs/|\.\.|[a-z]+:)[^"#]+)\.ipynb', r'href="reports/\1.html', inside)
    return re.sub(r'(?<!["/=])<code>(nbs/[^<]+)\.ipynb</code>', r'<a href="\1.html"><code>\1.ipynb</code></a>', inside)


def executed() -> None:
    copies = [f.relative_to(TOP / "reports") for f in sorted((TOP / "reports").rglob("*.ipynb"))]
    demo = [f for f in copies if f.parts[0] != "replication" and f.name != "results.ipynb"]
    pages = []
    for f in demo:
        stage = f.parts[min(1, len(f.parts) - 1)].removesuffix(".ipynb")  # <study>/<stage>/<model>, or the report
        onward = f"Executed on synthetic questions. [The stage](/nbs/stages/{stage}.ipynb) · [all of the run](/demo.md)"
        pages.append(copied(TOP / "reports" / f, onward, "nbs/"))
    text = "# The demo run\n\nEvery stage as it was executed on synthetic demonstration items, with two small models "
    text += "that answer at about chance level: every step works, and no clinical conclusion can be drawn.\n\n"
    if (TOP / "reports" / "report.html").exists():
        page = (TOP / "reports" / "report.html").read_text(encoding="utf-8")
        write("extra/report.html", of_report(page))
        text += '<p><a href="report.html">The report of that run, on one page</a></p>\n\n'
    write("demo.md", text + toctree([f"/{p}" for p in pages]))


def replications() -> None:
    "What three papers' released files give: notebooks, and every table as a file."
    text = "# The replications\n\nThree papers' own pipelines on their released files, made by `mhbench replicate`: "
    text += "aggregates only, since the corpora stay with their authors. [How to repeat them](howto-released.md); "
    text += "[every printed number beside them](ledger.md); [their figures](gallery.md).\n\n"
    pages = []
    for folder in sorted(f for f in (TOP / "reports" / "replication").iterdir() if f.is_dir()):
        for file in sorted(folder.iterdir()):
            page = str(file.relative_to(TOP))
            if file.suffix == ".ipynb":
                copied(file, f"Executed on the released files. [All of {STUDIES[folder.name]}](README.md)", "nbs/")
            elif file.suffix in (".md", ".csv", ".json"):
                write(page, file.read_bytes())
        pages.append(f"/reports/replication/{folder.name}/README")
    write("replication.md", text + toctree(pages))


def card(p: Picture, name: str) -> str:
    "A figure of the gallery with its sentence, and the notebook that made it."
    write(f"gallery/{name}.png", base64.b64decode(p.png))
    notebook = f"[notebook](/{p.notebook.relative_to(TOP)})"
    heading = f"### {STUDIES.get(p.study, p.study)}: {p.title}"
    return f"{heading}\n\n![{p.title}](gallery/{name}.png)\n\n{p.sentence} {notebook}\n"


def figures() -> None:
    "Every figure that an executed notebook shows: those of released files first."
    found = pictures(TOP / "reports")
    text = "# Figures\n\nFrom [the replications](replication.md), real answers and real raters; then from "
    text += (
        "[the demo run](demo.md), whose questions are *synthetic* and whose raters and examinees are simulated: these "
    )
    text += "show what a stage draws, and nothing about a model.\n\n"
    for real, heading in ((True, "From released files"), (False, "From the demo: synthetic questions")):
        shown = [p for p in found if p.real is real]
        cards = [card(p, f"{'real' if real else 'demo'}-{k}") for k, p in enumerate(shown, 1)]
        text += f"## {heading}\n\n" + "\n".join(cards) + "\n"
    write("gallery.md", text)


def ledger() -> None:
    "The page of the papers' printed numbers, with links into the site, and a page that leads to it."
    verdicts, claims, _ = all_verdicts_on_papers(TOP)
    stored = TOP / "reports" / "ledger.html"
    page = stored.read_text(encoding="utf-8") if stored.exists() else ledger_page(verdicts, claims)
    write("extra/ledger-page.html", of_report(page))
    text = "# The ledger\n\nEvery number that the five papers print among their results, beside what their released "
    text += "files give.\n\n" + markdown_table(claims_by_verdict(verdicts))
    text += '\n\n<p><a href="ledger-page.html">The ledger, on one page</a>: the evidence on every difference, what '
    text += "remains open, and every number with filters.</p>\n"
    write("ledger.md", text)


def first_page() -> None:
    "The page that a visitor sees first, with the tables that its numbers come from."
    page = of_report((TOP / "reports" / "index.html").read_text(encoding="utf-8"))
    for link, to in (("ledger.html", "ledger-page.html"), ("../README.md", "guide.html")):
        page = page.replace(f'href="{link}"', f'href="{to}"')
    page = re.sub(r'href="reports/(\w+)/results\.html', r'href="studies/\1.html', page)
    for table in set(re.findall(r'href="(replication/[^"]+\.csv)"', page)):
        write(f"extra/{table}", (TOP / "reports" / table).read_bytes())
    write("extra/index.html", page)


def signature(source: str, node: ast.FunctionDef | ast.ClassDef) -> str:
    "The head of a function with the comments that say shapes and units, as they stand in the source."
    lines = source.splitlines()
    first = node.body[0].lineno - 1
    kept = lines[node.lineno - 1 : first]
    if isinstance(node, ast.ClassDef):
        fields = [n for n in node.body if isinstance(n, ast.AnnAssign)]
        kept = [lines[node.lineno - 1], *(line for n in fields for line in lines[n.lineno - 1 : n.end_lineno])]
    return "\n".join(kept)


def public(tree: ast.Module) -> list[ast.FunctionDef | ast.ClassDef]:
    return [n for n in tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef)) and not n.name.startswith("_")]


def has_public(module: Path) -> bool:
    return module.exists() and bool(public(ast.parse(module.read_text(encoding="utf-8"))))


def api() -> None:
    "One page a module: public names, their signatures with shapes, their docstrings with sources and errors."
    pages = []
    for file in sorted((TOP / "mhbench").rglob("*.py")):
        source = file.read_text(encoding="utf-8")
        tree = ast.parse(source)
        nodes = public(tree)
        if not nodes or file.name.startswith("_"):
            continue
        name = ".".join(file.relative_to(TOP).with_suffix("").parts)
        notebook = re.search(r"File to edit: (?:\.\./)*(nbs/\S+)\.ipynb", source)
        parts = [f"# {name}\n\n{ast.get_docstring(tree) or ''}\n"]
        if notebook:
            parts.append(f"Explained, with examples, in [its notebook](/{notebook[1]}.ipynb).\n")
        for n in nodes:
            doc = ast.get_docstring(n) or ""
            parts.append(f"## {n.name}\n\n```python\n{signature(source, n)}\n```\n\n{doc}\n")
        write(f"api/{name}.md", "\n".join(parts))
        pages.append(name)
    write("api/index.md", "# API reference\n\nPublic functions and classes, by module.\n\n" + toctree(pages))


def question_of(notebook: Path) -> str:
    text = "\n\n".join("".join(c["source"]) for c in json.loads(notebook.read_text(encoding="utf-8"))["cells"][:2])
    asked = re.search(r"\*\*The question\.\*\* (.+)", text)
    return asked[1] if asked else ""


def as_page(study: str, more: str) -> str:
    "A study's executed results as a page: without code, and with what follows below."
    nb = json.loads((TOP / "reports" / study / "results.ipynb").read_text(encoding="utf-8"))
    nb["cells"] = [
        c
        for c in nb["cells"]
        if not {"parameters", "injected-parameters", "setup"} & set(c["metadata"].get("tags", []))
    ]
    for c in nb["cells"]:
        for output in c.get("outputs", []):
            html = "".join(output["data"]["text/html"])
            for table in set(re.findall(r'href="\.\./(replication/[^"]+\.csv)"', html)):
                write(f"extra/{table}", (TOP / "reports" / table).read_bytes())
            html = re.sub(r'href="\.\./\.\./([^"]+)\.ipynb"', r'href="../\1.html"', html)
            output["data"]["text/html"] = html.replace("../ledger.html", "../ledger-page.html")
        if c["cell_type"] == "code":
            c["metadata"] = {"tags": ["remove-input"]}
    nb["cells"].append({"cell_type": "markdown", "id": "more", "metadata": {}, "source": more})
    return json.dumps(nb, ensure_ascii=False)


def stages_of(study: str) -> str:
    params = yaml.safe_load((TOP / "params.yaml").read_text(encoding="utf-8"))
    through = {"prepare", "generate", "score", *params["studies"][study]}
    rows = ["| stage | asks | executed on the demo |", "|---|---|---|"]
    for stage in yaml.safe_load((TOP / "dvc.yaml").read_text(encoding="utf-8"))["stages"]:
        notebook = TOP / "nbs" / "stages" / f"{stage}.ipynb"
        if stage not in through or not notebook.exists():
            continue
        copies = TOP / "reports" / study
        files = sorted([*copies.glob(f"{stage}.ipynb"), *copies.glob(f"{stage}/*.ipynb")])
        demo = ", ".join(f"[{f.stem}](/{f.relative_to(TOP)})" for f in files) or "not run"
        rows.append(f"| [{stage}](/nbs/stages/{stage}.ipynb) | {question_of(notebook)} | {demo} |".replace("\n", " "))
    return "\n".join(rows)


def studies() -> None:
    "A page for each study: its results in the order of its paper, then how they are made."
    for study in STUDIES:
        own = sorted((TOP / "nbs" / "studies" / study).glob("[0-9]*.ipynb"))
        listed = "\n".join(f"- [{title_of(f)}](/{f.relative_to(TOP)})" for f in own)
        where = {"language": "en"} if study == "medqade" else {}
        items = load_corpus(study, demo_path(study), **where).items
        back = f"[{STUDIES[study]}: results]({study}.ipynb)"
        card_of_demo = re.sub(r"(?m)^(# .+)$", rf"\1\n\n{back}", demo_card(study, items), count=1)
        write(f"studies/{study}-demo.md", card_of_demo)
        more = f"## How this page is made\n\n[The demo's questions and their limitations]({study}-demo.md).\n\n"
        write(
            f"studies/{study}.ipynb",
            as_page(study, f"{more}{stages_of(study)}\n\nNotebooks of this study:\n\n{listed}\n"),
        )
    write("studies/index.md", "# Studies\n\nFive papers, one pipeline.\n\n" + toctree(list(STUDIES)))


def takes(schema: dict) -> str:
    "What may stand in a place of params.yaml, in a few words."
    if "anyOf" in schema:
        return " or ".join(map(takes, schema["anyOf"]))
    if "enum" in schema or "const" in schema:
        return ", ".join(map(str, schema.get("enum", [schema.get("const")])))
    words = {"integer": "whole number", "string": "text", "boolean": "true or false", "array": "list"}
    kind = schema.get("type", "mapping").replace("object", "mapping")
    bounds = [f"{word} {schema[key]}" for word, key in (("from", "minimum"), ("to", "maximum")) if key in schema]
    return " ".join([words.get(kind, kind), *bounds])


def parameters() -> None:
    "A table a stage: what each parameter takes, what the notebook runs with by itself, and what it is."
    out = [
        "# Parameters\n\nWhat a stage's section of `params.yaml` may hold, and what its notebook takes by itself. "
        "[The parts](parts.md) says what each stage asks.\n"
    ]
    for stage, declared in sorted(stage_classes().items()):
        properties = declared.model_json_schema()["properties"]
        out += [f"## {stage}\n\n{declared.__doc__}\n", "| parameter | takes | by itself | |", "|---|---|---|---|"]
        for name, f in declared.model_fields.items():
            if name not in GIVEN:
                about = (f.description or "").replace("|", "\\|")
                out.append(f"| `{name}` | {takes(properties[name])} | `{json.dumps(f.default)}` | {about} |")
        out.append("")
    write("parameters.md", "\n".join(out))


def built() -> int:
    "The pages of what lies in SOURCE; all of them where the list of pages is another one, since each shows it."
    pages = sorted(str(f.relative_to(SOURCE)) for f in SOURCE.rglob("*") if f.suffix in (".md", ".ipynb"))
    listed = hashlib.sha256("\n".join(pages).encode()).hexdigest()
    stored = HTML.parent / "pages"
    every = [] if stored.exists() and stored.read_text() == listed else ["-a"]
    jobs = ["-j", JOBS, "-q", *every, "-c", str(TOP / "docs")]
    extra = ["-D", f"html_extra_path={SOURCE / 'extra'}"] if (SOURCE / "extra").exists() else []
    code = sphinx([*jobs, *extra, "-b", "html", "-d", str(HTML.parent / "trees"), str(SOURCE), str(HTML)])
    for file in [*(HTML / "_static" / "mathjax").rglob("*"), *(HTML / "_static").rglob("*.map")]:
        if file.is_file() and not str(file.relative_to(HTML / "_static")).startswith(MATHJAX):
            file.unlink()
    for page in HTML.rglob("*.html"):
        if not made_now(page):
            page.unlink()
        elif (text := page.read_text(encoding="utf-8")) != (short := lean(text)):
            page.write_text(short, encoding="utf-8")
    stored.write_text(listed)
    print(f"{len(list(HTML.rglob('*.html')))} pages: {HTML / 'index.html'}")
    return code


def lean(page: str) -> str:
    "A page without tags that colour nothing, and without the indentation of its tags."
    parts = re.split(
        r"(?s)(<(?:pre|script|style|textarea)\b.*?</(?:pre|script|style|textarea)>)", PLAIN.sub(r"\1", page)
    )
    return "".join(part if k % 2 else re.sub(r"\s*\n\s*", "\n", part) for k, part in enumerate(parts))


def made_now(page: Path) -> bool:
    "A page of this build, and not of one whose notebook has gone since."
    name = page.relative_to(HTML).with_suffix("")
    if name.name in ("search", "genindex") or "_static" in name.parts:
        return True
    return (
        any((SOURCE / f"{name}{ending}").exists() for ending in (".md", ".ipynb"))
        or (SOURCE / "extra" / f"{name}.html").exists()
    )


def part_of(page: Path) -> str:
    "The start pages that lead to a page of docs/, as its first line; none of a start page."
    if page.stem in ("index", "howto") or page.stem.startswith("start-"):
        return ""
    starts = {f: f.read_text(encoding="utf-8") for f in sorted(page.parent.glob("start-*.md"))}
    links = [f"[{text.splitlines()[0][2:]}]({f.name})" for f, text in starts.items() if f"]({page.name}" in text]
    return f"\nFor: {' · '.join(links or ['[all readers](guide.md)'])}\n"


def main(only: list[str]) -> int:
    SOURCE.mkdir(parents=True, exist_ok=True)
    if only:  # these notebooks, to look at
        write("guide.md", "# Pages\n\n" + toctree([f"/{copied((TOP / page).resolve())}" for page in only]))
        forget_the_rest()
        return built()
    for file in sorted((TOP / "docs").glob("*.md")):
        title, _, rest = within_the_site(file.read_text(encoding="utf-8")).partition("\n")
        write("guide.md" if file.stem == "index" else file.name, f"{title}\n{part_of(file)}{rest}")
    for file in sorted((TOP / "docs" / "ledgers").iterdir()):
        write(f"ledgers/{file.name}", file.read_bytes())
    notebooks()
    executed()
    replications()
    figures()
    ledger()
    first_page()
    api()
    parameters()
    studies()
    index = json.dumps(index_of(TOP / "nbs"), separators=(",", ":"), ensure_ascii=False)
    write("extra/functions.js", f"window.FUNCTIONS = {index};\n")
    forget_the_rest()
    return built()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
