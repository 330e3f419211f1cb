"""Runs of stages with other values of their parameters than the demo's, which varied.yaml has.

python tests/varied.py RESULTS [PLACE ...]  # make golden/varied again from the demo's results, after they were read
"""

import contextlib
import csv
import hashlib
import json
import os
import re
import shutil
import sqlite3
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pandas as pd
import yaml
from faults.server import FaultServer, completion
from golden_tables import FOLDER, Table, cell, hashed, stored, tables, write
from here import stages_here

from mhbench.records.database import stage_folder

VARIED: dict[str, dict] = yaml.safe_load(Path(__file__).with_name("varied.yaml").read_text(encoding="utf-8"))
DATED = {"served", "served_checks"}  # tables that have the day
DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ][\d:.]+(?:Z|\+00:00| UTC)?)?")
ASKED = {  # models that the server below plays: one that answers, one that often fails, one that answers by a letter
    "asked": {},
    "shaky": {},
    "letters": {},
}


def answered(n: int, body: dict):
    "An answer that is drawn by the whole request: a value of each field that is wanted, a letter, or some words."
    asked = json.dumps({k: v for k, v in body.items() if k != "model"}, sort_keys=True)
    k = int(hashlib.sha256(asked.encode()).hexdigest(), 16)
    who = body["model"]
    fields = body.get("response_format", {}).get("json_schema", {}).get("schema", {}).get("properties", {})
    verdict = {
        name: f["enum"][(k >> j) % len(f["enum"])] if "enum" in f else (k >> j) % 101
        for j, (name, f) in enumerate(fields.items())
    }
    one = "1234" if "Give the number" in asked else "ABCD"
    words = f"Answer: {one[k % 4]}" if who == "letters" and k % 6 else f"What helps in case {k % 101}?"
    said = completion(
        body, json.dumps(verdict) if fields else words, "length" if k % 5 == 1 and who != "asked" else "stop"
    )
    refused = (400, {"error": {"message": "not this one", "type": "invalid_request_error"}})
    return lambda _: refused if who == "shaky" and k % 7 == 0 else (200, said)


def changed_prompts(folder: Path) -> Path:
    "The package's templates and rubrics, each with a word more."
    from mhbench.ask.prompts import bundled_texts

    for name, file in bundled_texts().items():
        text = file.read_text(encoding="utf-8")
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        more = re.sub(r"(?m)^( *(?:system|user|instruction)\w*: *[|>]-?\n +)", r"\1Now. ", text)
        (folder / name).write_text(more, encoding="utf-8")
    return folder


def drawn(n: int, *words: object) -> int:
    "A whole number below n, drawn by some words."
    return int(hashlib.sha256(" ".join(map(str, words)).encode()).hexdigest(), 16) % n


def relabelled(results: Path, table: str, where: dict, to: dict, cases: int = 0, in_place: bool = False) -> None:
    """A table that an earlier stage left, with copies of some rows under other names, or of some items as other cases;
    `in_place` the rows themselves have the other names.
    """
    file = results / f"{table}.parquet"
    frame = pd.read_parquet(file)
    is_named = (frame[list(where)] == pd.Series(where)).all(axis=1)
    rows = frame[is_named].assign(**to)
    copies = [] if cases or in_place else [rows]
    for k in range(cases):
        names = [name for name in ("item_id", "base_id", "cluster") if name in rows]
        copies.append(rows.assign(**{name: rows[name] + f"-{k}" for name in names}))
    if in_place:
        frame.loc[is_named, list(to)] = list(to.values())
    pd.concat([frame, *copies], ignore_index=True).to_parquet(file)


def release(folder: Path, criteria: list[str]) -> Path:
    """The description of a release of ratings: six persons, the last of whom saw one model; an adjudicator that decides
    between the first two persons and one that does not, a panel, a judge of the lineage of a model and another one. The
    criteria a and b are numbers, c has steps and a label beside them.
    """
    rows = []
    for persona, target, of in ((p, t, k) for p in range(8) for t in ("m1", "m2") for k in range(2)):
        item = f"i{persona}{target}{of}"
        near = lambda who, c: min(6, 1 + drawn(4, item, c) + drawn(3, item, c, who))  # noqa: B023
        own = {f"r{k}": [near(k, c) for c in criteria] for k in (3, 0, 4, 1, 2, 5) if k < 5 or target == "m1"}
        own |= {"expert-2": [1 + drawn(6, item, c) for c in criteria], "panel": [near("panel", c) for c in criteria]}
        own |= {"expert-1": [own[f"r{drawn(2, item, c)}"][k] for k, c in enumerate(criteria)]}
        own |= {"m1-2025": [min(6, x + 1) for x in own["panel"]], "judge": [near("judge", c) for c in criteria]}
        for rater, values in own.items():
            steps = [("low", "some", "high", "cannot say")[x // 2] for x in values]
            cells = [s if c == "c" else x for c, s, x in zip(criteria, steps, values)]
            odd = drawn(40, item, rater)  # a value outside the scale, and an empty cell
            cells[0] = 9 if odd == 0 else "" if odd == 1 else cells[0]
            rows.append([item, f"p{persona}", target, rater, *cells])
    with (folder / "ratings.csv").open("w", newline="") as f:
        csv.writer(f).writerows([["item", "persona", "model", "rater", *criteria], *rows])
    where = {"item": "item", "target": "model", "rater": "rater", "within": {"persona": "persona"}}
    kinds = {"adjudicator": "expert.*", "judge": "m1-.*|judge", "panel": "panel", "person": "r[0-9]"}
    given = {"study": "conversations", "files": "ratings.csv", "value": "{criterion}", "criterion": criteria, **where}
    given |= {
        "kind": kinds,
        "scale": "1..6",
        "scales": {"c": {"steps": ["low", "some", "high"], "beside": ["cannot say"]}},
    }
    (folder / "release.yaml").write_text(yaml.safe_dump(given))
    return folder / "release.yaml"


def one_sheet(items: Path, folder: Path) -> Path:
    "The filled-in sheet of the only reader of keys who has answered yet."
    ids = pd.read_parquet(items, columns=["item_id"])["item_id"]
    answers = pd.DataFrame({"item_id": ids, "answer": ["ABCD"[drawn(4, i)] for i in ids]})
    answers.to_csv(folder / "first.csv", index=False)
    return folder / "first.csv"


def filled_sheets(sheet: Path, raters: list[str], folder: Path) -> dict[str, str]:  # rater -> file
    "The sheet of a stage as some people filled it in: each says yes or no of most questions, and leaves the others."
    rows = pd.read_csv(sheet, dtype=str, keep_default_na=False)
    files = {rater: str(folder / f"{rater}.csv") for rater in raters}
    for rater, file in files.items():
        verdicts = [("yes", "no", "yes", "no", "")[drawn(5, rater, item_id)] for item_id in rows["item_id"]]
        rows.assign(relevant=verdicts).to_csv(file, index=False)
    return files


def page_of_answers(items: Path, study: str, folder: Path) -> Path:
    "The file of a page on which three people moved sliders with care, and a fourth at random and in haste."
    from mhbench.annotate.assignment import enrol
    from mhbench.annotate.store import Change, Visit, open_store
    from mhbench.annotate.study import RatedAnswer, build_study, present
    from mhbench.records.schema import Item, read_records

    page = build_study(study, {"kind": "sliders"}, read_records(items, Item)[:20])
    raters = ["r1", "r2", "r3", "r4"]
    with contextlib.closing(open_store(folder / "page.sqlite", page)) as store:
        enrol(store, page, raters)
        for question in page.questions:
            for rater in raters:
                place = (rater, question.question_id, 0)
                shown = present(page, question, rater).text()
                hasty = rater == "r4"
                points = {
                    t: drawn(101, *place, t) if hasty else drawn(80, *place[1:], t) + drawn(21, *place, t)
                    for t in question.targets
                }
                changes = [
                    Change(f"{place}{t}", *place, t, RatedAnswer(float(x)), shown, 1, None) for t, x in points.items()
                ]
                store.save(changes, [Visit(*place, "opened", 1000 if hasty else 60_000)])
    return folder / "page.sqlite"


def rated(results: Path, study: str, of: list[str], kind: str) -> None:
    "Ratings by four people of answers of some models, or of duels between two, beside those that are there."
    from mhbench.records.schema import Item, Rating, read_records, write_records

    file = results / "text" / study / "prepare" / "ratings.parquet"
    found = read_records(file, Rating)
    for i in read_records(file.with_name("items.parquet"), Item):
        for rater in "abcd":
            for target in of:
                k = int(hashlib.sha256(f"{i.item_id} {target}".encode()).hexdigest(), 16)
                own = int(hashlib.sha256(f"{i.item_id} {target} {rater}".encode()).hexdigest(), 16)
                about = {"item_id": i.item_id, "study": study, "rater": f"p-{rater}", "source": "made up"}
                if kind == "duels":
                    first, second = sorted(of, key=lambda name: (own % 2, name))
                    about |= {"variant": {"first": first, "second": second}, "label": (*of, "tie")[own % 3]}
                    found.append(Rating(**about, target=["correctness", "empathy"][of.index(target) % 2]))
                elif own % 4:
                    found.append(Rating(**about, target=target, value=float(min(100, k % 80 + own % 21))))
    write_records(found, file, Rating)


@contextlib.contextmanager
def pubmed(asked: list):
    "E-utilities of our own, for a stage that asks PubMed's; what it was asked is added to the list."
    from unittest import mock

    from test_collect import Server

    from mhbench.corpus.pubmed import Eutils

    server = Server()
    known = Eutils.__init__.__kwdefaults__ | {"base": server.base}
    with mock.patch.object(Eutils.__init__, "__kwdefaults__", known), mock.patch.dict(os.environ, OTHER_KEY="k"):
        yield
    server.http.shutdown()
    asked += [
        [name, *(given.get(k, "") for k in ("email", "api_key", "mindate", "maxdate"))] for name, given in server.asked
    ]


def settled_parameters(given: dict, folder: Path, url: str) -> dict:
    "Parameters with the models that the server plays, where they name one."
    named = {x for value in given.values() if isinstance(value, list) for x in value if isinstance(x, str)}
    named |= {given.get("model")}
    if named & set(ASKED):
        known = yaml.load(Path("params.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader)
        entries = {name: ASKED[name] | {"endpoint": "here", "served": name, "lineage": "m"} for name in ASKED}
        if given.get("repeats", 1) > 1:
            entries = {
                name: e | {"sampling": {"seed": 1}} for name, e in entries.items()
            }  # each repetition has another
        endpoints = known["endpoints"] | {"here": {"kind": "openai", "base_urls": [url], "max_attempts": 2}}
        entries = {k: v | given.get("entry", {}) for k, v in entries.items()}
        given = {"cache": "", "replay": "use"} | given | {"entries": known["models"] | entries, "endpoints": endpoints}
    if "slices" in given:
        given = given | {"slices": str(folder / given["slices"])}
    if given.get("prompts_dir") == "changed":
        given = given | {"prompts_dir": str(changed_prompts(folder / "prompts"))}
    if "criteria" in given:
        given = given | {"description": str(release(folder, given["criteria"]))}
    return {k: v for k, v in given.items() if k not in ("relabel", "rated", "entry", "criteria")}


def normal(text: str) -> str:
    "A text without days and with fewer digits than processors differ in."
    return re.sub(r"-?\d+\.\d{6,}(?:e-?\d+)?", lambda m: f"{float(m[0]):.4g}", DATE.sub("DAY", text))


def page_lines(page: str) -> list[str]:
    "What stands on a page outside its tables and figures."
    text = re.sub(r"(?s)<(style|script|svg|tbody|template)\b.*?</\1>|<!--.*?-->", "", page)
    lines = [" ".join(x.split()) for x in re.sub(r"<[^>]+>", "\n", text).split("\n")]
    return [normal(x) for x in lines if x]


def files_left(folder: Path) -> Table:
    "What a stage left beside its tables, by a hash of each file: records with texts, and what is read elsewhere."
    rows = [["file", "rows", "hash"]]
    for file in sorted(f for f in folder.rglob("*") if f.is_file() and not f.name.startswith("notebook")):
        if file.suffix == ".parquet":
            frame = pd.read_parquet(file).drop(columns=["request_key"], errors="ignore")
            if "wording" in frame and (frame["wording"] == "ours").all():
                frame = frame.drop(columns="wording")  # as everywhere
            text = frame.to_csv(index=False, lineterminator="\n")
        elif file.suffix in (".csv", ".json", ".jsonl", ".md", ".xml", ".txt") and file.name != "contents.json":
            text = file.read_text(encoding="utf-8")
        else:
            continue
        rows.append([str(file.relative_to(folder)), str(text.count("\n")), hashed(normal(text))])
    return rows


def contents_left(file: Path) -> Table:
    "How the page shows what a stage left: what of a table, which lines, its first sentence, what is absent."
    made = json.loads(file.read_text(encoding="utf-8"))
    rows = [[t["name"], cell(t["show"]), " ".join(t["hide"]), t.get("card", "")] for t in made["tables"]]
    rows += [["absent", str(len(made["absent"])), "", ""]]
    rows += [[name, cell(x), "", ""] for name, x in made.get("lines", {}).items()]
    rows += [[cell(x) for x in ("first", made["first"]["measure"], made["first"]["said"], "")]] if made["first"] else []
    rows += [[origin, str(n), "", ""] for origin, n in Counter(made.get("origins", {}).values()).items()]
    return [["name", "shown", "hidden", "card"], *rows]


def of_report(out: Path, page: Path) -> dict[str, Table]:
    "The tables of the report itself, the names of the others, and what stands on the page."
    left: dict[str, Table] = {"files": [["file", "lines"]], "page": [["line"]]}
    for file in sorted(out.glob("*.csv")):
        rows = list(csv.reader(file.read_text(encoding="utf-8").splitlines()))
        left["files"].append([file.name, str(len(rows))])
        if file.name.startswith(("over-all", "does-the")):
            left[file.stem] = [[cell(x) for x in row] for row in rows]
    lines = page_lines(page.read_text(encoding="utf-8"))
    left["page"] += [[cell(x)] for x in lines if not re.search(r"[0-9a-f]{12}|^mhbench|Python|KiB", x)]
    return left


def left_by(key: str, results: Path, given: dict) -> dict[str, dict[str, Table]]:  # stage -> study/table -> rows
    """What one run of a stage leaves, in this process, from what the stages before it left in `results`: its tables,
    records and files, or what it refuses. A key is a place, and a word where the place is run more than once.
    """
    from mhbench.run.execute import run_stage

    place, _, variant = key.partition(" ")
    stage, _, rest = place.partition("/")
    study = rest.partition("/")[0]
    known = f"{rest} {variant}".strip()
    with (
        tempfile.TemporaryDirectory() as folder,
        stages_here(),
        open(os.devnull, "w") as nowhere,
        FaultServer(every=answered) as server,
        pubmed(searched := []) if given.get("origin") == "eutils" else contextlib.nullcontext(),
    ):
        trial = Path(folder) / "results"
        others = {f.name for f in (results / "studies").iterdir()} - {study} if study else set()  # which it never reads
        shutil.copytree(results, trial, ignore=shutil.ignore_patterns("report", "ledger", "report.html", *others))
        for own in (stage, f"text/{stage}", f"metrics/{stage}") if study else ():
            shutil.rmtree(trial / stage_folder(own, study), ignore_errors=True)
        if stage == "report":
            shutil.copytree(results.parent / "figures", trial / "figures")
        for change in given.get("relabel", ()):
            relabelled(trial, **change)
        if given.get("ratings") == "page":
            items = results / "text" / study / "prepare" / "items.parquet"
            given = given | {"ratings": str(page_of_answers(items, study, Path(folder)))}
        if given.get("sheets") == "first":
            items = results / "text" / study / "compose" / "items.parquet"
            given = given | {"sheets": {"first": str(one_sheet(items, Path(folder)))}}
        for kind, of in given.get("rated", {}).items():
            rated(trial, study, of, kind)
        people = given["sheets"] if isinstance(given.get("sheets"), list) else []
        given = given | {"sheets": {}} if people else given
        overrides = settled_parameters(given, Path(folder), server.url) | {"results": str(trial)}
        try:
            with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
                run_stage(*place.split("/"), overrides=overrides, in_process=True)
                if people:  # who fill in what it left
                    sheets = filled_sheets(trial / "text" / study / stage / "sheet.csv", people, Path(folder))
                    run_stage(*place.split("/"), overrides=overrides | {"sheets": sheets}, in_process=True)
        except RuntimeError as e:
            if not variant.startswith("refused"):
                raise
            said = str(e).split("\n")[0].partition("ipynb: ")[2].replace(folder, "").partition("; got ")
            return {stage: {known: [["refused"], [said[0][:48]], [normal(said[2]).partition(" (")[0][:48]]]}}
        if stage == "report":
            return {
                stage: {f"{known}{name}": x for name, x in of_report(trial / "report", trial / "report.html").items()}
            }
        left = tables(trial, {"inputs"}, stage).get(stage, {})
        left = {
            k: rows for k, rows in left.items() if k.startswith(study) and k.split("/")[-1].split(":")[0] not in DATED
        }
        left[f"{study}/texts"] = files_left(trial / "text" / study / stage)
        beside = [row for row in files_left(trial / stage_folder(stage, study)) if not row[0].endswith(".parquet")]
        left |= {f"{study}/files": beside} if beside[1:] else {}
        if "slices" in given:
            kept = [[str(f.relative_to(folder))] for f in sorted((Path(folder) / given["slices"]).rglob("*.*"))]
            left[f"{study}/slices"] = [["file"], *kept]
        for file in (trial / stage_folder(stage, study)).rglob("contents.json"):
            left[f"{study}/contents"] = contents_left(file)
        if (trial / "cache.sqlite").exists():
            with contextlib.closing(sqlite3.connect(trial / "cache.sqlite")) as db:
                n = db.execute("select count(*) from answers").fetchone()[0]
            left[f"{study}/cache"] = [["answers"], [str(n)]]
    if given.get("origin") == "eutils":
        left[f"{study}/searched"] = [["asked", "email", "key", "from", "to"], *searched]
    return {stage: {known + k.removeprefix(study): rows for k, rows in left.items()}}


def golden(key: str) -> dict[str, Table]:
    "What golden/varied has of one run."
    place, _, variant = key.partition(" ")
    stage, _, rest = place.partition("/")
    known = f"{rest} {variant}".strip()
    of = lambda name: name == known or name.startswith((f"{known}/", f"{known}:")) or stage == "report"
    return {name: rows for name, rows in stored(FOLDER / "varied").get(stage, {}).items() if of(name)}


if __name__ == "__main__":
    found: dict[str, dict[str, Table]] = {}
    for key, given in VARIED.items():
        named = not sys.argv[2:] or any(key.startswith(x) for x in sys.argv[2:])
        stage = key.partition("/")[0].partition(" ")[0]
        new = left_by(key, Path(sys.argv[1]).resolve(), given)[stage] if named else golden(key)
        found.setdefault(stage, {}).update(new)
        print(key, sum(map(len, new.values())), flush=True)
    write(found, FOLDER / "varied")
