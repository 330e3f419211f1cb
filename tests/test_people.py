"""`mhbench panel` and `mhbench errors` on what a run left: out, filled in as people would, and in again."""

import csv
import json

import pandas as pd
import pytest

from mhbench.records.schema import Item, Response, read_records, write_records
from mhbench.run.cli import main
from mhbench.run.execute import run_stage
from mhbench.steps.duels import error_sample
from mhbench.steps.score import score_responses
from mhbench.studies.medqade.load import load
from mhbench.studies.medqade.panel_tables import build_panel
from mhbench.tools.panel import run_answers

CORE, OTHERS = 4, 8


@pytest.fixture(scope="module")
def results(root, tmp_path_factory):
    "Both demo banks prepared, and three models' answers to each: two students, and one that reasons."
    folder = tmp_path_factory.mktemp("people") / "results"
    with pytest.MonkeyPatch.context() as m:
        m.setenv("MHBENCH_ROOT", str(root))
        m.chdir(root)
        for study, options in (("medqade", {"language": "en"}), ("counselingbench", {})):
            demo = {"path": f"mhbench/studies/{study}/demo", "sha256": None, "n_items": None, "options": options}
            run_stage("prepare", study, overrides=demo | {"results": str(folder)})
        items = read_records(folder / "text/medqade/prepare/items.parquet", Item)
        for model, text in (("model-one", lambda i: i.key[0]), ("model-two", lambda i: f"not {i.key[0]}")):
            said = [
                Response(item_id=i.item_id, study="medqade", model=model, mode="zero_shot", text=text(i))
                for i in items[1:]  # one item has no answer of these two
            ]
            write_records(said, folder / f"text/medqade/generate/{model}/responses.parquet", Response)
        asked = read_records(folder / "text/counselingbench/prepare/items.parquet", Item)
        chains = [
            Response(
                item_id=i.item_id,
                study="counselingbench",
                model="third",
                mode="cot",
                text=f"Some say so. Answer: {'A' if i.key != ['A'] else 'B'}",
            )
            for i in asked
        ]
        write_records(chains, folder / "text/counselingbench/generate/third/responses.parquet", Response)
        yield folder


def annotated(pages, label):
    "A project's export of Label Studio: every answer labelled, the question called Medium."
    out = []
    for n, page in enumerate(pages):
        names = [k for k in page["data"] if k.startswith("answer_")]
        said = {k.replace("answer", "correctness"): label(page["data"], k) for k in names} | {"difficulty": "Medium"}
        result = [{"from_name": k, "type": "choices", "value": {"choices": [v]}} for k, v in said.items()]
        out.append({"id": n, "data": page["data"], "annotations": [{"id": n, "completed_by": 1, "result": result}]})
    return json.dumps(out)


def panel(*arguments, results):
    return main(["panel", *arguments, "--results", str(results)])


def test_a_round_with_the_run_s_own_models_as_students(results, tmp_path, capsys):
    folder, raters = tmp_path / "round", "p1,p2,p3"
    draw = ["draw", "--to", str(folder), "--raters", raters, "--tie-breaker", "p4", "--models", "model-one,model-two"]
    draw += [
        "--students",
        "model-one,model-two",
        "--items",
        str(CORE + OTHERS),
        "--core",
        str(CORE),
        "--share-match",
        "1",
    ]
    assert panel(*draw, results=results) == 0
    said = capsys.readouterr().out
    assert (
        "39 items answered by model-one, model-two; left out: 1" in said
        and "1: no answer of model-one, model-two" in said
    )
    assert panel(*draw, results=results) == 1 and "must hold no round" in capsys.readouterr().err
    assigned = pd.read_csv(folder / "assignment.csv").set_index("item_id")
    assert sorted(assigned.sum(axis=1)) == [2] * OTHERS + [3] * CORE
    shown = json.loads((folder / "tasks-p1.json").read_text())
    assert len(shown) == assigned["p1"].sum() and "model-one" not in json.dumps(shown)  # raters do not see whose it is
    # p1 calls what is not the key Incorrect, the others call everything Correct
    strict = lambda data, k: "Incorrect" if data[k].startswith("not ") else "Correct"
    for rater in raters.split(","):
        pages = json.loads((folder / f"tasks-{rater}.json").read_text())
        label = strict if rater == "p1" else lambda data, k: "Correct"
        (folder / f"export-{rater}.json").write_text(annotated(pages, label))
    assert main(["panel", "ties", str(folder)]) == 0
    ties = pd.read_csv(folder / "ties.csv").set_index("item_id")["why"]
    drawn = pd.read_csv(folder / "draw.csv").set_index("item_id")
    outside = assigned[~drawn.loc[assigned.index, "core"]]
    assert set(ties.index[ties == "tied"]) == set(outside.index[outside["p1"] == 1])
    assert (ties == "core").sum() == CORE
    collected = tmp_path / "corpus" / "panel.csv"
    study = ["--study", "medqade", "--models", "model-one,model-two"]
    gone, n_ties = (folder / "export-p3.json").read_text(), len(ties)
    (folder / "export-p3.json").rename(folder / "export-p3.csv")  # as Label Studio exports it, too
    assert panel("collect", str(folder), "--to", str(collected), *study, results=results) == 1
    assert "must be Label Studio's JSON; got export-p3.csv" in capsys.readouterr().err and not collected.exists()
    (folder / "export-p3.csv").unlink()
    assert panel("collect", str(folder), "--to", str(collected), *study, results=results) == 1
    said = capsys.readouterr()
    assert f"got none of p3 ({assigned['p3'].sum()} pages), p4 ({n_ties} pages)" in said.err and not collected.exists()
    assert f"p1: {assigned['p1'].sum()} of {assigned['p1'].sum()} pages, 0 more begun" in said.out
    assert panel("collect", str(folder), "--to", str(collected), "--partial", *study, results=results) == 0
    assert f"p3: 0 of {assigned['p3'].sum()} pages" in capsys.readouterr().out
    collected.unlink()
    (folder / "export-p3.json").write_text(gone)
    pages = json.loads((folder / "tasks-p4.json").read_text())
    (folder / "export-p4.json").write_text(annotated(pages, strict))
    assert panel("collect", str(folder), "--to", str(collected), *study, results=results) == 0
    said = capsys.readouterr().out
    assert f"{CORE} of the {CORE} items of the core have labels of the whole panel" in said
    assert "p4 breaks ties: an adjudicator in the column kind" in said and "for the tie-breaker" not in said
    deck = "mhbench/studies/medqade/demo/medqade_demo.txt"
    (tmp_path / "corpus" / "deck.txt").write_text(open(deck, encoding="utf-8").read(), encoding="utf-8")
    as_table = load(tmp_path / "corpus", language="en")
    from_table = {(r.item_id, r.rater, r.target): r.label for r in as_table.ratings}
    for file in folder.glob("*.json"):
        if file.name.startswith(("export", "key")):
            (tmp_path / "corpus" / file.name).write_text(file.read_text())
    collected.unlink()
    exports = load(tmp_path / "corpus", language="en")
    assert {(r.item_id, r.rater, r.target): r.label for r in exports.ratings} == from_table
    assert len(from_table) == (assigned.to_numpy().sum() + len(ties)) * 3  # two answers and a difficulty
    assert {r.rater for r in exports.ratings} == {"p1", "p2", "p3", "p4"}
    without_facts = build_panel(exports.ratings)  # a folder of exports alone does not know who breaks ties
    assert without_facts.raters == ["p1", "p2", "p3", "p4"] and without_facts.breaking is None
    (tmp_path / "corpus" / "round.json").write_text((folder / "round.json").read_text())
    for ratings in (as_table.ratings, load(tmp_path / "corpus", language="en").ratings):
        drawn_panel = build_panel(ratings)
        assert drawn_panel.raters == ["p1", "p2", "p3"] and pd.notna(drawn_panel.breaking).any()


def test_a_round_of_the_answers_that_wait_for_people_has_no_larger_core(results, tmp_path, capsys):
    items = read_records(results / "text" / "medqade" / "prepare" / "items.parquet", Item)
    waiting = [{"item_id": i.item_id, "target": "model-one", "judge": "j"} for i in items[5:8]]
    pd.DataFrame(waiting).to_csv(tmp_path / "for_people.csv", index=False)
    draw = ["draw", "--to", str(tmp_path / "round"), "--raters", "p1,p2", "--models", "model-one,model-two"]
    assert panel(*draw, "--only", str(tmp_path / "for_people.csv"), results=results) == 0
    assert "3 items go to all 2 raters" in capsys.readouterr().out
    drawn = pd.read_csv(tmp_path / "round" / "draw.csv")
    assert set(drawn["item_id"]) == {w["item_id"] for w in waiting} and drawn["core"].all()
    assert {
        k for p in json.loads((tmp_path / "round" / "tasks-p1.json").read_text()) for k in p["data"] if "answer_" in k
    } == {"answer_1"}, "the listed students' answers alone"


def test_what_became_a_tie_after_the_list_was_written_is_announced(results, tmp_path, capsys):
    folder = tmp_path / "round"
    draw = ["draw", "--to", str(folder), "--raters", "p1,p2", "--tie-breaker", "p4", "--models", "model-one,model-two"]
    draw += ["--students", "model-one,model-two", "--items", "6", "--core", "2", "--share-match", "1"]
    assert panel(*draw, results=results) == 0
    for rater, said in (("p1", "Correct"), ("p2", "Incorrect")):
        pages = json.loads((folder / f"tasks-{rater}.json").read_text())
        export = annotated(pages if rater == "p1" else pages[:4], lambda data, k, said=said: said)
        (folder / f"export-{rater}.json").write_text(export)
    collected = ["collect", str(folder), "--partial", "--to"]
    assert panel(*collected, str(tmp_path / "a.csv"), results=results) == 0
    said = capsys.readouterr().out
    is_core = pd.read_csv(folder / "draw.csv").set_index("item_id")["core"]
    tied = {p["data"]["item_id"] for p in pages[:4]}
    assert f"{len(tied | set(is_core.index[is_core]))} items are for the tie-breaker and not on the list" in said
    assert f"{is_core[list(tied)].sum()} of the 2 items of the core have labels of the whole panel" in said
    assert main(["panel", "ties", str(folder)]) == 0 and capsys.readouterr()
    assert panel(*collected, str(tmp_path / "b.csv"), results=results) == 0
    assert "not on the list" not in capsys.readouterr().out
    (folder / "export-p2.json").write_text(annotated(pages, lambda data, k: "Incorrect"))
    assert panel(*collected, str(tmp_path / "c.csv"), results=results) == 0
    n_new = 6 - len(tied | set(is_core.index[is_core]))
    assert n_new == 1 and "1 item is for the tie-breaker and not on the list" in capsys.readouterr().out


def test_labels_of_answers_that_have_changed_are_not_taken(results, tmp_path, capsys):
    folder = tmp_path / "round"
    draw = [
        "draw",
        "--to",
        str(folder),
        "--raters",
        "p1,p2",
        "--models",
        "model-one,model-two",
        "--students",
        "model-one,model-two",
    ]
    assert panel(*draw, "--items", "4", "--core", "2", "--share-match", "1", results=results) == 0
    for rater in ("p1", "p2"):
        pages = json.loads((folder / f"tasks-{rater}.json").read_text())
        pages = [{"data": p["data"] | {"answer_1": "another text"}} for p in pages]
        (folder / f"tasks-{rater}.json").write_text(json.dumps(pages))
        (folder / f"export-{rater}.json").write_text(annotated(pages, lambda data, k: "Correct"))
    study = ["--study", "medqade", "--models", "model-one,model-two"]
    assert panel("collect", str(folder), "--to", str(tmp_path / "panel.csv"), *study, results=results) == 1
    assert "the run's answers must be those that the panel read; got 4 others" in capsys.readouterr().err


def test_wrong_answers_out_and_their_labels_in(results, tmp_path, capsys):
    sheet, back = tmp_path / "sheet.csv", tmp_path / "errors.csv"
    draw = ["errors", "draw", "--to", str(sheet), "--models", "third", "--number", "5", "--results", str(results)]
    assert main(draw) == 0 and "third: 5 wrong answers in mode cot" in capsys.readouterr().out
    assert main(draw) == 1 and "not be there yet" in capsys.readouterr().err  # nobody's work is written over
    rows = list(csv.DictReader(sheet.open(encoding="utf-8")))
    assert len(rows) == 5 and {r["model"] for r in rows} == {"third"} and all(r["rationale"] for r in rows)
    sheets = []
    for rater, labels in (("e1", ["knowledge"] * 5), ("e2", ["context"] * 4 + [""])):
        filled = [r | {"rater": rater, "label": x} for r, x in zip(rows, labels, strict=True)]
        sheets.append(str(tmp_path / f"{rater}.csv"))
        pd.DataFrame(filled).to_csv(sheets[-1], index=False)
    assert main(["errors", "collect", *sheets, "--to", str(back), "--results", str(results)]) == 0
    assert "9 labels by 2 annotators" in capsys.readouterr().out
    labels = pd.read_csv(back)
    assert labels.groupby("rater")["label"].first().to_dict() == {"e1": "knowledge", "e2": "context"}


@pytest.mark.parametrize(
    ("slip", "message"),
    [
        ({"model": "Third"}, "got 'Third' (e1.csv:3); answers are there of"),
        ({"rater": "E1"}, "got two names (e1.csv:2 and e1.csv:3); write one of them in all rows"),
        ({"label": "reasoning"}, "got 'reasoning' (e1.csv:3); mend the row"),
        ({"rater": ""}, "ErrorRow.rater does not fit: Field required; got None (e1.csv:3)"),
        ({"item_id": "q"}, "item_id must name a question of the corpus; got 'q' (e1.csv:3)"),
    ],
)
def test_a_slip_in_a_sheet_is_refused_with_its_place_and_can_be_mended(results, tmp_path, capsys, slip, message):
    sheet, filled, back = tmp_path / "sheet.csv", tmp_path / "e1.csv", tmp_path / "errors.csv"
    place = ["--results", str(results)]
    assert main(["errors", "draw", "--to", str(sheet), "--models", "third", "--number", "5", *place]) == 0
    rows = [r | {"rater": "e1", "label": "logical"} for r in csv.DictReader(sheet.open(encoding="utf-8"))]
    pd.DataFrame([rows[0], rows[1] | slip, *rows[2:]]).to_csv(filled, index=False)
    collect = ["errors", "collect", str(filled), "--to", str(back), *place]
    assert main(collect) == 1 and message in (told := capsys.readouterr().err) and "--option" not in told
    pd.DataFrame(rows[:4] + [rows[4] | {"label": ""}]).to_csv(filled, index=False)
    assert main(collect) == 0, "what was refused has left no file in the way"
    told = capsys.readouterr().out
    assert "1 row without a label (e1.csv:6)" in told and "rationales: 4 with 1 label" in told


def test_a_workbook_and_a_header_in_other_letters_are_refused_by_name(results, tmp_path, capsys):
    collect = ["errors", "collect", "--to", str(tmp_path / "errors.csv"), "--results", str(results)]
    pd.DataFrame([{"item_id": "q"}]).to_excel(tmp_path / "e1.xlsx")
    (tmp_path / "e2.csv").write_text("item_id;model;Rater;label \nq;m;e2;logical\n", encoding="utf-8-sig")
    for name, message in (
        ("e1.xlsx", "an Excel workbook or an archive (e1.xlsx); save the sheet as CSV"),
        ("e2.csv", "rename 'Rater' to 'rater', 'label ' to 'label'"),
    ):
        assert main([*collect, str(tmp_path / name)]) == 1 and message in capsys.readouterr().err


def test_one_wrong_answer_of_a_question_is_drawn(results):
    scores = score_responses(*run_answers("counselingbench", ["third"], results))
    twice = pd.concat([scores, scores.assign(sample=scores["sample"] + 1)])
    drawn = error_sample(twice, seed=1)
    assert len(drawn) and not drawn.duplicated(["model", "item_id"]).any() and set(drawn["sample"]) == {0}


def test_a_draw_or_a_collection_that_is_refused_saves_no_name_and_none_is_shown(results, tmp_path, capsys, monkeypatch):
    key, folder = tmp_path / "raters.sqlite", tmp_path / "round"
    monkeypatch.setattr("mhbench.studies.medqade.commands.names_file", lambda top: key)
    draw = ["draw", "--to", str(folder), "--models", "model-one,model-two", "--students", "model-one,model-two"]
    draw += ["--core", "2", "--share-match", "1"]
    assert panel(*draw, "--raters", "Zoë,Ann", "--items", "999", results=results) == 1
    assert panel(*draw, "--raters", "Zoë,Ann", "--tie-breaker", "Ann", "--items", "4", results=results) == 1
    assert not key.exists() and not folder.exists()
    assert panel(*draw, "--raters", "Zoë,Ann", "--items", "4", results=results) == 0
    told, names = capsys.readouterr(), key.read_bytes()
    assert "tasks by rater: rater-1 " in told.out and not any(name in told.out + told.err for name in ("Zoë", "Ann"))
    assert panel(*draw, "--raters", "Zoë,Ben", "--items", "4", results=results) == 1
    pages = json.loads((folder / "tasks-rater-1.json").read_text())
    (folder / "export-Ben.json").write_text(annotated(pages, lambda data, k: "Correct"))
    (tmp_path / "there.csv").write_text("somebody's work")
    assert panel("collect", str(folder), "--to", str(tmp_path / "new.csv"), results=results) == 1  # Zoë sent nothing
    assert panel("collect", str(folder), "--partial", "--to", str(tmp_path / "there.csv"), results=results) == 1
    assert key.read_bytes() == names and "Ben" not in (told := "".join(capsys.readouterr())), told
