"""What commands do with what they are told, by hand: the plan of a run, grids of parameters, selections, imports."""

import hashlib
import json
import math
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pandas as pd
import pytest

from mhbench.ask.client import Call, Plan
from mhbench.records.database import stage_folder
from mhbench.records.schema import Item
from mhbench.run.cli import main
from mhbench.run.graph import Node
from mhbench.tools import commands, compare, plan, replicate, summary, sweep
from mhbench.tools.manifest import (
    REPRO,
    RunPart,
    _Hashes,
    _report_part,
    _value_at,
    _why,
    _with_what_follows,
    address,
    fresh_studies,
    publishable_parts,
)


def item(name: str, group: str) -> Item:
    given = {"study": "s", "task": "multiple_choice", "question": "?", "options": ["a", "b"], "key": ["A"]}
    return Item(**given | {"item_id": name, "source": "x", "group_id": group})


# Plan -----------------------------------------------------------------------------------------------------------------

ENDPOINTS = {"e": {"kind": "openai"}, "near": {"kind": "encoder"}}
ENTRIES = {"m": {"endpoint": "e"}, "enc": {"endpoint": "near"}}


@pytest.fixture
def stages(monkeypatch, tmp_path):
    "The parameters of stages, by hand, and what was executed with which overrides."
    given = {
        "prepare": {"seed": 1},
        "collect": {"origin": "eutils"},
        "generate": {"replay": "use", "cache": "c.sqlite", "entries": ENTRIES, "endpoints": ENDPOINTS},
        "keys": {"replay": "use", "near": 0.5, "entries": {"enc": ENTRIES["enc"]}, "endpoints": ENDPOINTS},
        "score": {"n_boot": 9},
        "judge": {"replay": "use", "entries": {"m": ENTRIES["m"]}, "endpoints": ENDPOINTS},
    }
    executed, linked = [], []
    monkeypatch.setattr(plan, "stage_parameters", lambda p, stage, study, model: given[stage])
    monkeypatch.setattr(plan, "_link_results", lambda *of: linked.append(of[:3]) or of[0] == "prepare")
    monkeypatch.setattr(plan, "root", lambda: tmp_path)
    monkeypatch.setattr(plan, "cache_file", lambda cache, results: results / cache)
    recorder = SimpleNamespace(calls=[])

    def run_stage(name, study, model, **more):
        assert recorder.calls == [], "of the stage before"
        executed.append((name, more["overrides"], more["dry"]))
        assert more["in_process"] and more["params"] == "p.yaml"
        recorder.calls += calls.get(name, [])

    calls = {"generate": [Call(study="s", model="m", endpoint="e", plan=Plan(3, 1, 0, 2, 10, 20, 0, 0, 0.5))] * 2}
    monkeypatch.setattr(plan, "run_stage", run_stage)
    run = plan._DryRun({}, "p.yaml", tmp_path / "dry", recorder)
    node = lambda name, *reads: Node(name, "studies", False, reads, ())
    return run, node, executed, linked, calls, given


def test_a_dry_run_links_what_is_there_and_counts_what_would_be_asked(stages, tmp_path):
    run, node, executed, linked, calls, _ = stages
    run.run(node("prepare"), "s", None)
    assert executed == [] and run.supposed == set()
    run.run(node("generate", "prepare"), "s", "m")
    assert linked == [("prepare", "s", None)], "what asks somebody is never linked"
    overrides = {"results": str(tmp_path / "dry"), "cache": str(tmp_path / "results" / "c.sqlite")}
    assert executed.pop() == ("generate", overrides, True)
    assert run.rows == [("generate", "s", "m", 6, 2, 0, 4, 20, 40, 0, 0, 1.0)]
    assert run.supposed == {("generate", "s")}
    run.run(node("score", "generate"), "s", None)
    assert executed == [] and ("score", "s") in run.supposed, "statistics of stand-ins decide no request"
    run.run(node("score", "generate"), "t", None)
    assert executed.pop() == ("score", {"results": str(tmp_path / "dry")}, False) and ("score", "t") in run.supposed
    run.run(node("keys", "score"), "s", None)
    assert executed.pop()[1] == {"results": str(tmp_path / "dry"), "near": -1.0}
    run.run(node("keys", "prepare"), "s", None)
    assert executed.pop()[1] == {"results": str(tmp_path / "dry")}
    calls["judge"] = [call._replace(plan=call.plan._replace(to_ask=0)) for call in calls["generate"]]
    run.run(node("judge", "generate"), "s", None)
    assert ("judge", "s") not in run.supposed and run.rows[-1][:3] == ("judge", "s", "m")


def test_literature_that_is_not_collected_yet_is_not_collected_for_a_plan(stages):
    run, node, executed, _, _, given = stages
    with pytest.raises(ValueError, match="the literature must be collected .*studies.s.collect.*repro collect@s"):
        run.run(node("collect"), "s", None)
    given["collect"]["origin"] = "files"
    run.run(node("collect"), "s", None)
    assert [name for name, *_ in executed] == ["collect"]


def test_what_asks_somebody_is_counted_with_what_it_rests_on(monkeypatch):
    entries = {"generate": ["m"], "judge": ["enc"], "duels": ["m"], "finetune": []}
    values = lambda stage: {"replay": 1, "entries": {k: ENTRIES[k] for k in entries[stage]}, "endpoints": ENDPOINTS}
    monkeypatch.setattr(plan, "stage_parameters", lambda p, stage, study, model: values(stage))
    node = lambda name, studies, reads=(), *more, models=False: Node(name, studies, models, reads, ("study", *more))
    nodes = [
        node("prepare", "studies"),
        node("finetune", "finetune", ("prepare",), "x"),
        node("generate", "studies", ("prepare", "finetune"), "replay", models=True),
        node("score", "studies", ("generate",)),
        node("judge", "judge", ("generate",), "replay"),
        node("duels", "duels", ("score",), "replay"),
        node("report", None, ("duels",)),
    ]
    p = {"run": {"studies": ["s", "t"], "models": ["m"], "judge": ["s"], "duels": ["s"], "finetune": ["s"]}}
    jobs = lambda: [(n.name, *of) for n, *of in plan.jobs_that_ask(p, {n.name: n for n in nodes})]
    prepared = [("prepare", "s", None), ("prepare", "t", None)]
    generated = [("generate", "s", "m"), ("generate", "t", "m")]
    assert jobs() == [*prepared, *generated, ("score", "s", None), ("duels", "s", None)]
    entries["duels"] = ["enc"]
    assert jobs() == [*prepared, *generated]
    entries["generate"] = ["enc"]
    assert jobs() == prepared
    assert plan._who_is_asked(values("generate")) == [] and plan._who_is_asked({"entries": ENTRIES}) == []
    assert plan._who_is_asked({"replay": 1, "entries": ENTRIES, "endpoints": ENDPOINTS}) == ["m"]


def test_results_are_linked_where_the_same_parameters_made_them(tmp_path, monkeypatch):
    monkeypatch.setattr(plan, "place", lambda results, *of: tmp_path / str(results) / stage_folder(*of))
    cells = [("parameters", "seed = 3"), ("injected-parameters", "# Parameters\nseed = 1\nname = 'x'\n")]
    nb = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source, metadata={"tags": [tag]}) for tag, source in cells]
    )
    link = lambda stage, values: plan._link_results(stage, "s", "m", values, tmp_path / "dry")
    assert not link("score", {"seed": 1, "name": "x"})
    for folder in ("results/studies/s/score/m", "results/text/s/score/m", "results/studies/s/judge/m"):
        (tmp_path / folder).mkdir(parents=True)
    for stage in ("score", "judge"):
        nbformat.write(nb, tmp_path / "results/studies/s" / stage / "m/notebook.ipynb")
    assert not link("score", {"seed": 3, "name": "x"}) and not (tmp_path / "dry").exists()
    assert link("score", {"seed": 1, "name": "x"}) and link("judge", {"seed": 1, "name": "x"})
    links = sorted(f.relative_to(tmp_path / "dry").as_posix() for f in (tmp_path / "dry").rglob("m"))
    assert links == ["studies/s/judge/m", "studies/s/score/m", "text/s/score/m"]
    assert (tmp_path / "dry/studies/s/score/m").resolve() == tmp_path / "results/studies/s/score/m"


def test_the_size_of_a_study_is_in_items_and_cases_and_a_failed_notebook_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(
        plan, "records_left", lambda results, stage, study, record: [item(*x) for x in ("ac", "bc", "dd")]
    )
    assert plan._study_size(tmp_path, "s") == (3, 2)
    monkeypatch.setattr(plan, "root", lambda: tmp_path)
    monkeypatch.chdir(tmp_path)
    failed = tmp_path / "dry" / "score" / "notebook.failed.ipynb"
    failed.parent.mkdir(parents=True)
    failed.write_text("nb")
    told = plan._with_what_is_left(f"it ended (the whole is in {failed})", tmp_path / "dry")
    assert told == "it ended (the whole is in .mhbench/plan.failed.ipynb)"
    assert (tmp_path / ".mhbench" / "plan.failed.ipynb").read_text() == "nb"


def planned(**more) -> pd.DataFrame:
    rows = [
        ("generate", "s", "m", Plan(5, 1, 0, 4, 40, 80, 0, 0, 0.25)),
        ("judge", "s", "k", Plan(3, 0, 0, 3, 9, 6, 2, 1, 0.5)),
    ]
    table = pd.DataFrame([(*names, *counts) for *names, counts in rows], columns=plan.PLAN_COLUMNS)
    return table.assign(**more)


@pytest.mark.parametrize(
    ("costs", "cells", "total"),
    [
        ([0.25, 0.5], ["0.2500", "0.5000"], "0.7500"),
        ([0.25, None], ["0.2500", "unknown"], "0.2500 and what is unknown"),
        ([None, None], ["unknown", "unknown"], "unknown"),
    ],
)
def test_requests_are_added_up_and_an_unknown_price_stays_unknown(costs, cells, total):
    lines = plan.requests_table(planned(cost_usd=costs)).splitlines()
    assert "to ask" in lines[0] and "answer tokens at most" in lines[0] and lines[0].endswith("USD, estimated")
    assert lines[1].split() == ["generate", "s", "m", "5", "1", "4", "40", "80", cells[0]]
    assert lines[2].split() == ["judge", "s", "k", "3", "0", "3", "9", "6", cells[1]]
    assert lines[3].split() == ["all", "8", "1", "7", "49", "86", *total.split()] and len(lines) == 4


def test_what_a_plan_leaves_out_is_told():
    notes = plan.plan_notes(planned(), "p.yaml")
    assert notes == [
        "Up to 1 requests to k are sent twice, and count in the cost: what was learnt is tried again.",
        "2 of the requests to ask have no max_tokens, so that their answers are not in the bounds; "
        "set it in the sampling of k",
    ]
    assert plan.plan_notes(planned(again=0, unlimited=0), "p.yaml") == []
    unpriced = planned(again=0, unlimited=[1, 1], cost_usd=None)
    assert plan.plan_notes(unpriced, "p.yaml") == [
        "2 of the requests to ask have no max_tokens, so that their answers are not in the bounds; "
        "set it in the sampling of m, k",
        "The price of m, k is not known; enter it as models.m.price (p.yaml).",
    ]


def test_the_width_of_an_interval_is_that_of_agresti_and_coull():
    "At a share of a half it is z / sqrt(n + z^2), so that a width of w takes z^2 (1 / w^2 - 1) cases."
    z = 1.959964
    width = z / math.sqrt(40 + z**2)
    cases = [math.ceil(z**2 * (1 / w**2 - 1)) for w in (0.2, 0.1, 0.05)]
    assert commands._interval_widths({"s": (120, 40)}) == [
        f"s: 120 items of 40 cases; the interval is at most {width:.2f} wide",
        f"The 95% interval of an accuracy near .5 takes {cases[0]} cases for 0.2, {cases[1]} cases for 0.1, "
        f"{cases[2]} cases for 0.05; fewer near 0 or 1.",
    ]


# Commands -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def clone(tmp_path, monkeypatch):
    "A folder in which commands find parameters made by hand, and what they called."
    calls: list[tuple] = []
    p = {"run": {"studies": ["s"], "models": ["m"]}, "studies": {"s": {"prepare": {"loader": "own"}, "score": {}}}}
    p["studies"]["s"]["annotate"] = {}
    p["models"], p["endpoints"] = {"m": {"endpoint": "e", "n_items": 3}}, {"e": {"kind": "openai"}}
    note = lambda name, back=None: lambda *a, **k: calls.append((name, *a, k)) or back
    monkeypatch.setattr(commands, "root", lambda: tmp_path)
    monkeypatch.setattr(commands, "load_params", lambda path: p)
    for name, back in (("select", None), ("forget_corpus", "data/demo"), ("name_ratings", ["named"])):
        monkeypatch.setattr(commands.edit, name, note(name, back))
    monkeypatch.setattr(commands.edit, "bring_in", note("bring_in", (True, ["summary"])))
    monkeypatch.setattr(commands.fetch, "unlock", note("unlock"))
    release = SimpleNamespace(summary_lines=lambda: ["fetched"], corpus=Path("c"), options={"a": 1})
    monkeypatch.setattr(commands.fetch, "fetch_release", note("fetch_release", release))
    releases = {"r": SimpleNamespace(is_clone_root=lambda path: path == Path("whole"))}
    monkeypatch.setattr(commands.fetch, "releases", lambda: releases)
    monkeypatch.setattr(commands.execute, "run_stage", note("run_stage"))
    monkeypatch.setattr(commands, "selection", lambda p: ["the selection"])
    return tmp_path, p, calls


def test_a_selection_is_changed_by_what_is_said_and_shown(clone, capsys):
    top, _, calls = clone
    nothing = {
        "studies": None,
        "models": None,
        "judges": None,
        "items": None,
        "demo": False,
        "params": top / "params.yaml",
    }
    assert main(["select"]) == 0 and calls == [] and capsys.readouterr().out == ""
    assert main(["select", "--show"]) == 0 and calls == [] and capsys.readouterr().out == "the selection\n"
    for words, change in (
        (["--studies", "a,b"], {"studies": ["a", "b"]}),
        (["--models", ""], {"models": []}),
        (["--judges", "j"], {"judges": ["j"]}),
        (["--items", "0"], {"items": 0}),
        (["--items", "12", "--params", "p.yaml"], {"items": 12, "params": top / "p.yaml"}),
        (["--demo"], {"demo": True}),
    ):
        assert main(["select", *words]) == 0
        assert calls.pop() == ("select", nothing | change) and capsys.readouterr().out == "the selection\n"
    for words, told in (
        (["--items", "-1"], "--items must be a number of items, 0 for all; got '-1'"),
        (["--studies", ""], "--studies must name something"),
        (["--judges", ""], "--judges must name something"),
    ):
        assert main(["select", *words]) == 1 and calls == [] and told in capsys.readouterr().err


def test_the_page_of_a_run_is_made_again_with_the_texts_of_all_its_studies_where_that_is_said(clone, capsys):
    _, _, calls = clone
    assert main(["report"]) == 0
    more = {"params": "params.yaml", "in_process": True}
    assert calls.pop() == ("run_stage", "report", more | {"overrides": None})
    assert capsys.readouterr().out == "results/report.html\n"
    assert main(["report", "--private"]) == 0
    assert calls.pop() == ("run_stage", "report", more | {"overrides": {"private": ["s"]}})
    assert capsys.readouterr().out.splitlines()[:2] == ["results/report.html", "results/private/report.html"]


def test_a_corpus_is_brought_in_with_its_options(clone, capsys):
    top, p, calls = clone
    params = {"params": top / "params.yaml"}
    assert main(["import", "s", "x.csv", "--option", "n=2", "--option", "strict=false"]) == 0
    assert calls == [("bring_in", "s", "x.csv", {"n": 2, "strict": False}, params)]
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "summary" and told[1].startswith("recorded in params.yaml with its SHA-256; ")
    assert told[1].endswith("the study's entry there is without the demo's limits, examinees and settings")
    assert told[2].startswith("it goes through prepare, score; `mhbench select --studies s`")
    calls.clear()
    assert main(["import", "s", "--ratings", "r.csv"]) == 0
    assert calls == [("name_ratings", "s", "r.csv", params)] and capsys.readouterr().out == "named\n"
    calls.clear()
    assert main(["import", "s", "x.csv", "--ratings", "r.csv"]) == 0
    assert [name for name, *_ in calls] == ["name_ratings", "bring_in"]
    calls.clear()
    assert main(["import", "s", "--demo"]) == 0
    assert calls == [("forget_corpus", "s", params)]
    calls.clear()
    p["studies"]["r"] = p["studies"]["s"]
    assert main(["import", "r", "whole", "--option", "b=2"]) == 0
    assert calls == [
        ("fetch_release", "r", "whole", {}),
        ("unlock", "r", {}),
        ("bring_in", "r", Path("c"), {"a": 1, "b": 2}, params),
    ]
    calls.clear()
    assert main(["import", "r", "part"]) == 0 and [name for name, *_ in calls] == ["bring_in"]
    calls.clear()
    capsys.readouterr()
    for words in (
        ["s"],
        ["s", "x.csv", "--demo"],
        ["s", "--demo", "--ratings", "r"],
        ["s", "--demo", "--option", "a=1"],
    ):
        assert main(["import", *words]) == 1 and calls == []
        assert "PATH must be given, or --ratings, or --demo alone" in capsys.readouterr().err
    p["studies"]["s"]["prepare"]["loader"] = "table"
    assert main(["import", "s", "x.csv"]) == 1 and calls == []
    assert "must not be a table with a layout of its own" in capsys.readouterr().err


def test_a_release_is_fetched_and_imported_where_there_are_parameters(clone, capsys, monkeypatch):
    top, p, calls = clone
    p["studies"]["r"] = p["studies"]["s"]
    assert main(["fetch", "r"]) == 0
    assert calls == [("fetch_release", "r", None, None, [], {})]
    assert capsys.readouterr().out == "fetched\n`mhbench import r c --option a=1` points the study at it\n"
    (top / "params.yaml").touch()
    calls.clear()
    assert main(["fetch", "r", "--from", "f", "--to", "t", "--only", "*.csv", "--no-import"]) == 0
    assert calls == [("fetch_release", "r", "f", "t", ["*.csv"], {})]
    calls.clear()
    assert main(["fetch", "r", "--all"]) == 0
    assert [name for name, *_ in calls] == ["fetch_release", "unlock", "bring_in"]
    assert calls[0][4] == ["**"] and calls[2] == ("bring_in", "r", Path("c"), {"a": 1}, {"params": top / "params.yaml"})
    monkeypatch.setattr(commands.fetch, "release_lines", lambda: ["r: a release"])
    monkeypatch.setattr(commands.fetch, "fetch_prompts", lambda name, source: [f"prompts of {name} from {source}"])
    calls.clear()
    capsys.readouterr()
    assert main(["fetch"]) == 0 and capsys.readouterr().out == "r: a release\n"
    assert main(["fetch", "r", "--prompts"]) == 0 and calls == []
    assert capsys.readouterr().out.startswith("prompts of r from None\n`generate: {wording: paper}`")


def test_the_selection_names_whom_each_stage_asks_and_what_is_not_run(monkeypatch):
    monkeypatch.setattr(commands, "ASKED_IN", {"judge": (), "duels": (), "keys": ()})
    asked = {
        ("judge", "s"): {"judges": ["j", "k"]},
        ("judge", "t"): {},
        ("duels", "s"): {"judges": [], "contestants": None},
    }
    monkeypatch.setattr(commands, "asked_by", lambda p, stage, study: asked[stage, study])
    monkeypatch.setattr(commands, "simulated_left_out", lambda p, study: {"s": ["x", "y"], "t": ["y"]}.get(study, []))
    reasons = {("formats", "s"): "none writes", ("freeform", "t"): "none writes", ("keys", "s"): "none is asked"}
    monkeypatch.setattr(commands, "not_run", lambda p: reasons)
    monkeypatch.setattr(commands, "unread_ratings", lambda p: ["ratings of s are read by nobody"])
    p = {"run": {"studies": ["s", "t"], "ratings": ["u"], "models": ["m"], "judge": ["s", "t"], "duels": ["s"]}}
    assert commands.selection(p) == [
        "studies: s, t, u",
        "models: m",
        "left out: x, y, who are simulated, beside models of your own",
        "judge of s: judges j, k",
        "judge of t: the models of the run",
        "duels of s: judges nobody",
        "not run, as none writes: formats of s, freeform of t",
        "not run, as none is asked: keys of s",
        "ratings of s are read by nobody",
    ]


def test_a_model_is_checked_with_its_entry_and_its_endpoint_s(clone, monkeypatch, capsys):
    top, p, _ = clone
    from contextlib import contextmanager

    @contextmanager
    def asking(entry, name, endpoints):
        assert (entry, name, endpoints) == ({"endpoint": "e"}, "m", p["endpoints"])
        yield SimpleNamespace(endpoint="e"), "endpoint"

    class Report:
        ok = True

        def __str__(self):
            return "the report"

        def entry(self):
            return "the entry"

    monkeypatch.setattr(commands, "asking", asking)
    checked = []
    monkeypatch.setattr(commands, "check", lambda model, endpoint, **more: checked.append(more) or Report())
    assert main(["check", "m"]) == 0 and capsys.readouterr().out == "the report\nthe entry\n"
    assert checked == [{"cache": commands.cache.cache_path(top), "entry": {"kind": "openai"}}]
    Report.ok = False
    assert main(["check", "m"]) == 1 and "m cannot be used as it is entered" in capsys.readouterr().err
    assert main(["check", "n"]) == 1 and "MODEL must be among m; got 'n'" in capsys.readouterr().err
    p["endpoints"]["demo"] = {"kind": "local", "record": "demo"}
    p["models"]["gemma"] = {"endpoint": "demo", "served": "g-1"}
    assert commands.recorded_models(p) == {"gemma": commands.RECORDED / "g-1.jsonl.gz"}


# Grids of parameters --------------------------------------------------------------------------------------------------


def test_names_of_a_grid_are_entries_of_the_files_and_stages_of_the_run(tmp_path, monkeypatch):
    (tmp_path / "params.yaml").write_text("score: {n_boot: 9, other: 1}\nseed: 1\n")
    (tmp_path / "run.yaml").write_text("run: {items: 3}\n")
    monkeypatch.setattr(sweep, "pipeline", lambda top: ["score", "judge"])
    monkeypatch.setattr(sweep, "named_parts", lambda run, top: [("score", "s", None), ("generate", "s", "m")])
    monkeypatch.setattr(sweep, "selected_run", lambda top: {})
    check = lambda axes, targets=(): sweep._refuse_unknown(axes, targets, tmp_path)
    check(["score.n_boot=1,2", "run.yaml:run.items=2"], ["judge", "score@s", "generate@s-m", "other"])
    check(["seed=1"], ["judge", "score@s", "generate@s-m"])
    for axes, targets, told in (
        (["score.n_bot=1"], (), "NAME must be an entry of params.yaml; got 'score.n_bot'.*there is n_boot, other"),
        (["seed.x=1"], (), "got 'seed.x'.*there is nothing below a value"),
        (["run.items=1"], (), "got 'run.items'.*entries of the run are run.yaml:run.NAME"),
        (["run.yaml:run.item=1"], (), "an entry of run.yaml; got 'run.item'"),
        (["seed=1"], ["score@t", "judge"], "--target must be a stage of the run; got score@t"),
    ):
        with pytest.raises(ValueError, match=told):
            check(axes, targets)


def test_the_values_of_a_point_are_written_into_the_files_as_they_were(tmp_path, monkeypatch):
    (tmp_path / "params.yaml").write_text("score: {n_boot: 9}  # own\nseed: 1\n")
    (tmp_path / "run.yaml").write_text("run: {items: 3}\n")
    words = []
    monkeypatch.setattr(sweep, "_git", lambda top, *given: words.append((top, *given)))
    sweep._write_values(tmp_path, ["score.n_boot=20", "run.yaml:run.items=5"])
    assert (tmp_path / "params.yaml").read_text() == "score: {n_boot: 20}  # own\nseed: 1\n"
    assert (tmp_path / "run.yaml").read_text() == "run: {items: 5}\n"
    assert words == [(tmp_path, "checkout", "-q", "--", ".")]


def test_only_points_without_a_result_are_run(tmp_path, monkeypatch, capsys):
    "Of two points one fails; when both are asked for again, the one with a result is not run."
    stored, written, ran, git_words, names = set(), [], [], [], []

    def git(top, *words):
        git_words.append(words)
        if words[0] == "for-each-ref":
            return "ref" if words[1].rpartition("/")[2] in stored else ""
        return {"rev-parse": "tree", "ls-files": "data.dvc"}.get(words[0], "")

    def call(words, cwd, env):
        name = words[words.index("-n") + 1]
        ran.append((name, words[words.index("-n") + 2 :], cwd.name, env["MHBENCH_ROOT"], env[sweep.ROWS]))
        return int(written[-1] == ("a=2",))

    monkeypatch.setattr(sweep, "root", lambda: tmp_path)
    monkeypatch.setattr(sweep, "_refuse_unknown", lambda *given: None)
    monkeypatch.setattr(sweep, "_copy_to", lambda copy, top: None)
    monkeypatch.setattr(sweep, "_outside", lambda top: {})
    monkeypatch.setattr(sweep, "_write_values", lambda copy, point: written.append(point))
    monkeypatch.setattr(sweep, "_git", git)
    monkeypatch.setattr(sweep.subprocess, "call", call)
    table = pd.DataFrame({"estimate": [0.5]})
    monkeypatch.setattr(sweep, "results_of", lambda name: names.append(name) or SimpleNamespace(main=table))
    points = dict(sweep.sweep(["a=1,2"], ["score"]))
    assert written == [("a=1",), ("a=2",)] and points["a=2"] is None and names == [ran[0][0]]
    assert [x[1:] for x in ran] == [(["score", "data.dvc"], tmp_path.name, "", "stop")] * 2
    assert points["a=1"][["point", "experiment"]].to_numpy().tolist() == [["a=1", names[0]]]
    digest = hashlib.sha256(b"tree a=1 ['score']").hexdigest()
    assert names[0] == f"sweep-{digest[:12]}" and ran[1][0] != names[0]
    stored.add(names[0])
    capsys.readouterr()
    points = dict(sweep.sweep(["a=1,2"], ["score"]))
    assert written[2:] == [("a=2",)] and len(points["a=1"]) == 1
    assert capsys.readouterr().out == "a=1: there already\na=2\n"
    assert git_words[-1][:2] == ("fetch", "-q") and git_words[-1][3] == "refs/exps/*:refs/exps/*"
    assert dict(sweep.sweep(["a=3"], [])) and ran[-1][1] == [], "without targets DVC brings all data"


# Compared runs --------------------------------------------------------------------------------------------------------


def test_parameters_of_a_run_are_those_of_its_stages_and_of_models_of_both(tmp_path):
    params = {
        "models": {"m": {"served": "x", "sampling": {"t": 0}}},
        "score": {"n": 1},
        "studies": {"s": {"score": {"k": [1]}}},
    }
    locked = {
        "params.yaml": {"seed": 1, "judge": {"a": {}, "b": None}},
        "run.yaml": {"run.items": 5, "run.studies": ["s"], "run": {}},
    }
    stages = {"score@s": {"params": locked}, "generate@s-m": {}, "report": {"params": {"params.yaml": {"title": "t"}}}}
    ran = compare.Ran({"studies": ["s", "s-t"], "models": ["m"]}, params, stages)
    values = compare._parameters(ran, ["score@s", "report"], ["m", "n"])
    assert values == {
        "seed": "1",
        "judge.a": "{}",
        "judge.b": "null",
        "run.items": "5",
        "score.n": "1",
        "studies.s.score.k": "[1]",
        "title": '"t"',
        "models.m.served": '"x"',
        "models.m.sampling.t": "0",
        "models.n": "null",
    }
    assert compare._sections_of(ran, "generate@s-m") == {"generate": None, "studies.s.generate": None}
    assert compare._sections_of(ran, "report") == {} and "studies.s.score" in compare._sections_of(ran, "score@s")


def test_code_and_files_of_a_run_are_told_by_their_hashes():
    deps = {
        "nbs/a.ipynb": "1",
        "data/x": "2",
        "results/inputs/score/s.json": "3",
        "results/inputs/again/s.json": "4",
        "other": "5",
    }
    stages = {
        "score@s": {"deps": [{"path": k, "md5": v} for k, v in deps.items()]},
        "b": {"deps": [{"path": "data/y"}]},
        "c": {},
    }
    ran = compare.Ran({}, {}, stages)
    assert compare._hashes(ran, list(stages), "code") == {"nbs/a.ipynb": "1"}
    digest = hashlib.sha256(json.dumps([("results/inputs/score/s.json", "3")]).encode()).hexdigest()
    assert compare._hashes(ran, list(stages), "files") == {"data/x": "2", "data/y": "", compare._INPUTS: digest}
    assert compare._hashes(ran, ["b"], "files") == {"data/y": ""}


def runs_of(**changes) -> tuple:
    scores = pd.DataFrame({"study": ["s"], "mode": ["cot"], "answered_by": "plain", "n_votes": 1})
    entry = {
        "params": {"params.yaml": {f"p{k:02d}": 1 for k in range(25)}},
        "deps": [{"path": "nbs/a.ipynb", "md5": "a" * 32}],
    }
    first = compare.Results(
        "one", pd.DataFrame(), scores, ran=compare.Ran({"studies": ["s"], "models": ["m"]}, {}, {"x@s": entry})
    )
    changed = {
        "params": {"params.yaml": {f"p{k:02d}": 1 + (k < changes["n"]) for k in range(25)}},
        "deps": [{"path": "nbs/b.ipynb", "md5": "b" * 32}],
    }
    run = {"studies": ["s", "t"], "models": []}
    return first, first._replace(
        name="two", ran=compare.Ran(run, {}, {"x@s": changed, "y@s": {}}), scores=scores.assign(mode="direct")
    )


def test_what_differs_in_what_two_runs_ran_is_a_row_each():
    table, omissions = compare.differences_of_runs(*runs_of(n=1))
    assert omissions == [] and table.to_numpy().tolist() == [
        ["studies", "", "s", "s, t"],
        ["models", "", "m", "–"],
        ["modes", "s", "cot", "direct"],
        ["parameter", "p00", "1", "2"],
        ["code", "nbs/a.ipynb", "a" * 8, "–"],
        ["code", "nbs/b.ipynb", "–", "b" * 8],
    ]
    for n, omitted in ((20, []), (22, ["and 2 more parameters"])):
        table, omissions = compare.differences_of_runs(*runs_of(n=n))
        assert (table["what"] == "parameter").sum() == 20 and omissions == omitted
    first, second = runs_of(n=1)
    bare = first._replace(ran=first.ran._replace(stages={}))
    told = "parameters, code and files are not known of one: no stage of it in dvc.lock"
    assert compare.differences_of_runs(bare, second)[1] == [told]
    told = ["not known of one and two: no run.yaml beside its results"]
    assert compare.differences_of_runs(first._replace(ran=None), second._replace(ran=None))[1] == told


def test_the_stages_of_a_folder_s_run_are_those_of_its_selection():
    files = {"params.yaml": "seed: 1\n", "run.yaml": "run: {studies: [s], models: [m], judge: []}\n"}
    files["dvc.lock"] = (
        "stages: {score@s: {a: 1}, generate@s-m: {b: 1}, generate@s-n: {}, judge@s: {}, score@t: {}, report: {}}\n"
    )
    ran = compare._run_of_folder(files.get)
    assert ran.stages == {"score@s": {"a": 1}, "generate@s-m": {"b": 1}} and ran.params == {"seed": 1}
    assert compare._run_of_folder(lambda name: "") is None
    own = compare._run_of_folder({"params.yaml": "run: {studies: [s]}", "run.yaml": "", "dvc.lock": ""}.get)
    assert own.run == {"studies": ["s"]} and own.stages == {} and own.has("score", "s") and not own.has("score", "t")


# The state of a run ---------------------------------------------------------------------------------------------------

PARTS = [
    RunPart("prepare", "s", None, "fresh"),
    RunPart("score", "s", None, "stale", "a cause", REPRO),
    RunPart("judge", "s", None, "fresh"),
    RunPart("judge", "t", None, "failed", "an error", "mend"),
    RunPart("score", "t", None, "fresh"),
    RunPart("report", "", None, "fresh"),
]


def test_what_rests_on_a_part_that_is_out_of_date_is_stale_and_names_the_first(monkeypatch):
    from mhbench.tools import manifest

    nodes = [Node("prepare", "studies", False, (), ()), Node("score", "studies", False, ("prepare",), ())]
    nodes.append(Node("judge", "judge", False, ("score", "prepare"), ()))
    monkeypatch.setattr(manifest, "graph", lambda top: {n.name: n for n in nodes})
    found = _with_what_follows(PARTS, Path("top"))
    expected = list(PARTS)
    expected[2] = PARTS[2]._replace(state="stale", cause="score s is out of date", remedy=REPRO)
    expected[5] = PARTS[5]._replace(state="stale", cause="score s is out of date", remedy=REPRO)
    assert found == expected
    absent = [PARTS[0]._replace(state="absent"), PARTS[1], PARTS[3]]
    found = _with_what_follows(absent, Path("top"))
    assert [(p.state, p.cause) for p in found[1:]] == [("stale", "a cause"), ("failed", "an error")]
    failed = [PARTS[0]._replace(study="t", state="absent"), PARTS[3]]
    assert _with_what_follows(failed, Path("top"))[1].cause == "prepare t is out of date"


def test_studies_go_elsewhere_where_nothing_of_them_is_out_of_date():
    parts = [*PARTS, RunPart("judge", "s", "m", "absent", "another", "run it")]
    assert fresh_studies(parts) == (["t"], [f"s (score s is stale: a cause; `{REPRO}`)"])
    assert publishable_parts([*PARTS, RunPart("generate", "t", "m", "fresh")]) == [
        ("prepare", "s"),
        ("judge", "s"),
        ("score", "t"),
    ]
    assert address("generate", "s", "m") == "generate@s-m" and address("score", "s") == "score@s"


def test_the_report_is_absent_stale_or_fresh(tmp_path):
    lock = lambda *changes, entries=True: SimpleNamespace(entries=entries, changes=lambda name: list(changes))
    assert _report_part(tmp_path, lock()) == RunPart("report", "", None, "absent", "it has not been made", REPRO)
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "contents.json").write_text('{"stage": "report"}')
    assert _report_part(tmp_path, lock()) == RunPart("report", "", None, "fresh")
    assert _report_part(tmp_path, lock("a", entries=False)) == RunPart("report", "", None, "fresh")
    stale = RunPart("report", "", None, "stale", "a; b; c", REPRO)
    assert _report_part(tmp_path, lock(*"abcd")) == stale


@pytest.mark.parametrize(
    ("path", "meaning"),
    [
        ("results/inputs/again/score/s.json", "what failed is asked again"),
        ("results/inputs/score/s.json", "its code, inputs or settings have changed"),
        ("nbs/stages/score.ipynb", "its notebook has changed"),
        ("results/text/s/prepare", "prepare of s has new results"),
        ("results/studies/s/score/accuracy.parquet", "score of s has new results"),
        ("data/s", "data/s has changed"),
    ],
)
def test_a_changed_dependency_has_a_meaning(path, meaning):
    assert _why(path) == meaning


def test_a_file_s_and_a_folder_s_sum_are_those_of_md5(tmp_path):
    md5 = lambda raw: hashlib.md5(raw).hexdigest()
    (tmp_path / "d" / "__pycache__").mkdir(parents=True)
    (tmp_path / "d" / "b").write_bytes(b"x" * ((1 << 20) + 3))
    (tmp_path / "d" / "a").write_bytes(b"")
    (tmp_path / "d" / "__pycache__" / "c").write_bytes(b"c")
    entries = [{"md5": md5(b""), "relpath": "a"}, {"md5": md5(b"x" * ((1 << 20) + 3)), "relpath": "b"}]
    hashes = _Hashes(tmp_path)
    assert hashes.of(tmp_path / "d") == md5(json.dumps(entries).encode()) + ".dir"
    assert hashes.of(tmp_path / "gone") is None and hashes.of(tmp_path / "d" / "a") == md5(b"")
    (tmp_path / "d" / "a").write_bytes(b"y")
    assert hashes.of(tmp_path / "d" / "a") == md5(b""), "each is computed once"
    assert [_value_at({"a": {"b": 2}}, key) for key in ("a.b", "a.c", "a.b.c", "d")] == [2, None, None, None]


# Summary and working folders ------------------------------------------------------------------------------------------

MAIN = {"study": "s", "stage": "score", "measure": "accuracy", "model": "m", "mode": "cot", "n": 40, "n_unread": 0}
MAIN |= {"estimate": 0.5, "ci_low": 0.25, "ci_high": 0.75, "origin": "asked"}


@pytest.fixture
def finished(tmp_path, monkeypatch):
    "A run of two studies that is fresh, with its report, tables and figures."
    parts = [
        RunPart("score", "s", None, "fresh"),
        RunPart("judge", "t", None, "fresh"),
        RunPart("report", "", None, "fresh"),
    ]
    rows = [MAIN, MAIN | {"study": "t", "stage": "judge", "measure": "mean"}, MAIN | {"study": "u"}]
    report = tmp_path / "results" / "report"
    report.mkdir(parents=True)
    names = {"key": "over-all-studies-key-results", "one": "s-score-accuracy", "other": "s-judge-mean"}
    for name in names.values():
        pd.DataFrame(rows).to_csv(report / f"{name}.csv", index=False)
    for name in ("s/score/a.png", "s/score/a.svg", "t/judge/b.png", "u/score/c.png"):
        (tmp_path / "figures" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "figures" / name).touch()
    monkeypatch.setattr(summary, "root", lambda: tmp_path)
    monkeypatch.setattr(summary, "manifest", lambda top: parts)
    monkeypatch.setattr(summary, "selected_run", lambda top: {"studies": ["s", "t"], "models": ["m"]})
    return tmp_path, parts


def asked_summary(**more) -> SimpleNamespace:
    return SimpleNamespace(**{"study": None, "stage": None, "csv": False, "everything": False} | more)


def test_a_summary_has_the_main_numbers_of_what_is_fresh_and_where_the_rest_is(finished, capsys):
    top, parts = finished
    summary.print_summary(asked_summary())
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "s" and told[2] == "t" and told[1] == summary._number_line(MAIN) and "u" not in told
    assert told[-3:] == [
        "ran: s, t; asked: m",
        "3 tables as CSV in results/report/",
        "2 figures in figures/ (PNG and SVG); everything on one page: results/report.html",
    ]
    summary.print_summary(asked_summary(csv=True, study="t"))
    assert capsys.readouterr().out.splitlines()[1:] == ["t,judge,mean,m,cot,40,0,0.5,0.25,0.75,asked"]
    summary.print_summary(asked_summary(everything=True))
    told = capsys.readouterr().out
    assert "# over-all-studies-key-results" in told and "# s-score-accuracy" in told and "s-judge-mean" not in told
    assert "drawn from 0 to 1" not in told
    parts[2] = RunPart("report", "", None, "stale", "a cause", REPRO)
    (top / "results/studies/s/score").mkdir(parents=True)
    pd.DataFrame([MAIN | {"estimate": 0.75, "n_clusters": 4}]).drop(columns=["study", "stage"]).to_parquet(
        top / "results/studies/s/score/headline.parquet"
    )
    summary.print_summary(asked_summary())
    told = capsys.readouterr().out
    assert "0.750 [" in told and "0.500 [" not in told and "as CSV in" not in told
    assert told.endswith("everything on one page: none (a cause): `dvc repro`\n")
    parts[:2] = [parts[0]._replace(state="stale"), parts[1]._replace(state="absent")]
    for file in (top / "results/report").glob("over-all*"):
        file.unlink()
    with pytest.raises(FileNotFoundError, match="results/report must hold the report's tables; got none"):
        summary.print_summary(asked_summary())


def test_main_numbers_without_a_table_have_the_usual_columns(tmp_path):
    found = summary._fresh_headline(
        tmp_path, [RunPart("score", "s", None, "fresh"), RunPart("report", "", None, "absent")]
    )
    assert found.empty and list(found)[:3] == ["study", "stage", "measure"] and "origin" in found


def test_what_failed_is_told_in_eight_lines_with_its_remedy_and_the_rest_counted(tmp_path):
    lost = {
        "stage": "score",
        "study": "s",
        "mode": "cot",
        "what": "requests got no answer",
        "said": "503",
        "n_asked": 9,
    }
    lost |= {
        "n_answered": 0,
        "n_lost": 9,
        "withheld": "its accuracy",
        "remedy": "mend it",
        "again": True,
        "broke": False,
        "follows": "",
    }
    failures = [lost | {"model": f"m{k}"} for k in range(9)] + [
        lost | {"model": "bare", "said": "", "withheld": "", "remedy": ""}
    ]
    (tmp_path / "studies/s/score").mkdir(parents=True)
    place = tmp_path / "studies/s/score/contents.json"
    parts = [RunPart("score", "s", None, "failed"), RunPart("report", "", None, "fresh")]
    told = lambda of: (
        place.write_text(json.dumps({"failures": of}))
        and summary._how_it_went(tmp_path, {"studies": ["s"], "models": []}, parts)
    )
    lines = told(failures)
    assert lines[1] == 'failed: m0 (s, score, cot): 9 of 9 requests got no answer: "503"'
    assert lines[2] == "        withheld: its accuracy; to mend: mend it"
    assert len(lines) == 1 + 2 * 8 + 1 and lines[-1] == "        and 2 more, on the page"
    assert told(failures[8:])[-1] == "failed: bare (s, score, cot): 9 of 9 requests got no answer"
    assert len(told(failures[:8])) == 1 + 2 * 8
    (tmp_path / "report").mkdir()
    (tmp_path / "report/wrong.json").write_text("[]")
    assert told(failures[:1])[-1] == "what went wrong: nothing else" and told([])[-1] == "what went wrong: nothing"
    parts[1] = RunPart("report", "", None, "stale", "a cause", REPRO)
    assert told([])[-1] == f"stale: report (a cause): `{REPRO}`"


@pytest.fixture
def pipeline_of_package(tmp_path, monkeypatch):
    "A package whose pipeline is three files, with one demonstration's file and a recipe that the parameters name."
    files = {"params.yaml": "seed: 1\nfiles: [mhbench/studies/s/making/a.csv]\n", "run.yaml": "run: {}\n"}
    files |= {
        "dvc.yaml": "stages: {}\n",
        "nbs/stages/score.ipynb": "{}",
        "package/studies/s/making/a.csv": "x",
        "demo.csv": "d",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "package/studies/s/making/folder").mkdir()
    names = ("params.yaml", "run.yaml", "dvc.yaml", "nbs/stages/score.ipynb")
    under_dvc = []
    monkeypatch.setattr(replicate, "pipeline_files", lambda: {name: tmp_path / name for name in names})
    monkeypatch.setattr(replicate, "demo_files", lambda: {"s/demo.csv": tmp_path / "demo.csv"})
    monkeypatch.setattr(replicate, "PACKAGE", tmp_path / "package")
    monkeypatch.setattr(replicate, "_under_dvc", lambda folder: under_dvc.append(folder))
    return tmp_path / "new", under_dvc


def test_a_working_folder_has_the_pipeline_the_demo_and_the_recipes_that_its_parameters_name(pipeline_of_package):
    folder, under_dvc = pipeline_of_package
    with pytest.raises(FileNotFoundError, match="the folder must hold a pipeline; got .*; leave --update out"):
        replicate.init(folder, update=True)
    names = [
        "params.yaml",
        "run.yaml",
        "dvc.yaml",
        "nbs/stages/score.ipynb",
        "data/s/demo.csv",
        ".gitignore",
        "README.md",
    ]
    assert replicate.init(folder) == [*names, "recipes/s/a.csv"] and under_dvc == [folder.resolve()]
    assert (folder / "params.yaml").read_text() == "seed: 1\nfiles: [recipes/s/a.csv]\n"
    assert (folder / "recipes/s/a.csv").read_text() == "x" and (folder / "data/s/demo.csv").read_text() == "d"
    assert f"Made with mhbench {replicate.mhbench.__version__}." in (folder / "README.md").read_text()
    assert (folder / ".gitignore").read_text() == replicate._IGNORED
    with pytest.raises(
        FileExistsError, match="the folder must hold no pipeline; got .*; take another folder, or add --update"
    ):
        replicate.init(folder)
    (folder / "params.yaml").write_text("own")
    (folder / "nbs/stages/score.ipynb").write_text("old")
    assert replicate.init(folder, update=True) == ["dvc.yaml", "nbs/stages/score.ipynb"]
    assert (folder / "params.yaml").read_text() == "own" and (folder / "nbs/stages/score.ipynb").read_text() == "{}"
    (folder / "mhbench").mkdir()
    (folder / "mhbench/__init__.py").touch()
    with pytest.raises(ValueError, match="must be one that `mhbench init` made; got .*; a clone has git for this"):
        replicate.init(folder, update=True)
