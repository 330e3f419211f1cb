"""The ledger held against itself: twenty numbers altered on purpose are all found, none of the right ones is accused.

The claims are those of the papers. Their numbers come from a results folder that is made of the claims, from the
verdicts of the replications that are committed, and from the releases themselves where they are at hand.
"""

import re
from collections import Counter, defaultdict
from dataclasses import replace
from types import SimpleNamespace

import pandas as pd
import pytest
import yaml
from claiming import SLIPS, found_slips, slip, spread
from conftest import ROOT
from scipy.stats import chi2

from mhbench.ledger import verdicts
from mhbench.ledger.claims import Block, CellOf, ClaimEntry, ClaimsFile, load_claims, read_printed
from mhbench.ledger.release import Blob, Inventory, Tree, inventory_of
from mhbench.ledger.verdicts import (
    VERDICT_COLUMNS,
    claims_by_verdict,
    judge_claims,
    no_tables,
    source_value,
    tables_of_files,
    tables_of_run,
    tolerances,
)
from mhbench.records.database import sha256_file, stage_folder
from mhbench.registry import claims_file, studies
from mhbench.run.cli import main
from mhbench.tools import ledger as ledger_command
from mhbench.tools.fetch import fetch_release
from mhbench.tools.ledger import all_verdicts_on_papers

PAPERS = [study.name for study in studies()]
COUNTS = {"outside/empathy": [18, 8, 0, 10], "ratings/mentalbench": [57, 27, 22, 13], "ratings/vera-mh": [0, 1, 0, 0]}
OUTSIDE = {name: f"docs/ledgers/{name.partition('/')[2].removesuffix('-mh')}.yaml" for name in COUNTS}


# ---------------------------------------------------------------- slips


def test_a_slip_changes_the_number_that_is_printed():
    assert [slip("0.75", kind) for kind in SLIPS] == ["0.76", "0.74", "1.75", "0.57", "-0.75"]
    for text in ("0.70", "1,353", "12.5%", "\u2212.12", "88", "7"):
        for kind in SLIPS:
            assert read_printed(slip(text, kind)).value != read_printed(text).value, (text, kind)


# ---------------------------------------------------------------- a results folder made of the claims


def plain_cells(claims):
    "Claims that rest on a cell of their own; of each table those that name the same columns."
    by_cell = defaultdict(list)
    for c in claims.claims:
        if isinstance(c.ours, CellOf) and c.ours.where and not c.number.bound:
            simple = all(isinstance(v, (str, int, float)) for v in c.ours.where.values())
            if simple:
                by_cell[c.ours.table, c.ours.value, tuple(sorted(map(str, c.ours.where.items())))].append(c)
    alone = [found[0] for found in by_cell.values() if len(found) == 1]
    keys = defaultdict(Counter)
    for c in alone:
        keys[c.ours.table][tuple(sorted(c.ours.where))] += 1
    return [c for c in alone if tuple(sorted(c.ours.where)) == keys[c.ours.table].most_common(1)[0][0]]


def write_run(chosen, study, folder):
    "The tables that these claims name, each cell within a third of a unit of what is printed."
    rows = defaultdict(dict)
    for k, c in enumerate(chosen):
        off = ((k % 5) - 2) / 6 * float(c.number.unit)
        row = rows[c.ours.table, tuple(sorted(c.ours.where.items()))]
        row |= dict(c.ours.where) | {c.ours.value: (float(c.number.value) + off) / c.scale}
    tables = defaultdict(list)
    for (table, _), row in rows.items():
        tables[table].append(row)
    for name, of in tables.items():
        stage, _, table = name.partition("/")
        file = folder / stage_folder(stage, study) / f"{table}.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        pd.DataFrame(of).to_parquet(file)


@pytest.mark.parametrize("study", ["mentat", "counselingbench", "mhqa"])
def test_twenty_slips_are_found_in_a_run(study, tmp_path):
    claims = load_claims(claims_file(study))
    chosen = plain_cells(claims)
    assert len(chosen) >= 20
    write_run(chosen, study, tmp_path)
    claims = replace(claims, claims=[replace(c, conventions={}, random=None, needs=(), part=False) for c in chosen])
    before, after = found_slips(claims, tables_of_run(tmp_path, study), spread([c.id for c in chosen]))
    assert set(before["verdict"]) == {"equal"} and (after["n_tried"] == 0).all()


# ---------------------------------------------------------------- what was committed, and the releases


@pytest.mark.parametrize("study", PAPERS)
def test_twenty_slips_are_found_in_what_is_committed(study):
    "Each claim with the value that the committed run gave: those that are equal as printed stay so, slips do not."
    file = ROOT / "reports" / "replication" / study / "verdicts.csv"
    claims = load_claims(claims_file(study))
    if file.exists():
        found = pd.read_csv(file, dtype=str, keep_default_na=False)
    else:
        found = judge_claims(claims, no_tables).astype(str)
    value = found[found["verdict"] == "equal"].set_index("claim")["value"].astype(float)
    kept = [c for c in claims.claims if c.id in value.index and not c.number.bound and "~" not in c.printed]
    held = pd.DataFrame({"claim": [c.id for c in kept], "value": [value[c.id] / c.scale for c in kept]})
    cells = {c.id: CellOf(table="held", where={"claim": c.id}, value="value") for c in kept}
    plain = {"conventions": {}, "random": None, "needs": (), "otherwise": None, "part": False, "cannot": None}
    claims = replace(claims, claims=[replace(c, ours=cells[c.id], **plain) for c in kept])
    before, _ = found_slips(claims, {"held": held}.get, spread([c.id for c in kept]))
    assert set(before["verdict"]) == {"equal"}


@pytest.fixture(params=OUTSIDE, scope="module")
def outside(request, datasets):
    folder = datasets / request.param
    if not folder.is_dir():
        pytest.skip(f"no {folder} among the corpora")
    claims = load_claims(ROOT / OUTSIDE[request.param])
    return request.param, claims, tables_of_files(claims, folder)


def test_the_ledgers_of_two_releases_that_are_no_study_here(outside):
    name, claims, tables = outside
    counts = claims_by_verdict(judge_claims(claims, tables)).set_index("kind").iloc[:, 2:]
    assert counts.loc["data"].tolist() == COUNTS[name], "equal, convention, undecided, differs"
    if name == "ratings/vera-mh":
        assert counts.loc["paper"].tolist() == [46, 14, 0, 0]  # 60 of 60 cells of its score table
        told = {k: round(float(source_value(v, claims, tables)), 4) for k, v in claims.file.values.items()}
        assert [told[k] for k in ("experts", "clinicians", "ac1_experts", "ac1_clinicians")] == [
            0.7652,
            0.6689,
            0.7766,
            0.6875,
        ]
        by = [round(told[k], 3) for k in ("detects", "confirms", "guides", "supportive", "boundaries")]
        assert by == [0.554, 0.726, 0.625, 0.453, 0.740]


def test_slips_are_found_in_two_releases_that_are_no_study_here(outside):
    "Among what is equal as printed, or under a convention that is not the Monte Carlo error of an interval's end."
    name, claims, tables = outside
    # what follows from printed numbers changes with them
    claims = replace(claims, claims=[c for c in claims.claims if c.column not in ("Avg", "lower", "upper")])
    if name == "ratings/vera-mh":
        return  # its cells follow from rounded numbers, whose rounding a slip of one unit may lie within
    found = judge_claims(claims, tables).set_index("claim")
    fits = ("equal", "convention") if name == "outside/empathy" else ("equal",)  # a slip may fit another convention
    held = [c.id for c in claims.claims if found.loc[c.id, "verdict"] in fits and found.loc[c.id, "kind"] == "data"]
    assert len(held) >= 14
    found_slips(claims, tables, spread(held))


# ---------------------------------------------------------------- conventions

CLAIMS = """
paper: {name: Example}
conventions:
  first: {says: One., source: a}
  second: {says: Two., source: a}
  third: {says: Three., source: a}
  random: {says: Draws., source: a}
claims:
- place: Table 1
  of: accuracy
  columns: [value]
  rows: {a: ["0.50"], b: ["0.50"], c: ["0.50"], d: ["0.50"]}
  blocks:
  - rows: [a]
    ours: &plain {table: t/x, where: {of: plain}, value: v}
  - rows: [b]
    ours: *plain
    conventions:
      second: &second {table: t/x, where: {of: second}, value: v}
      first: &first {table: t/x, where: {of: first}, value: v}
  - rows: [c]
    ours: *plain
    conventions: {second: *second}
    random: 0.0152
  - rows: [d]
    conventions: {third: {table: t/nowhere, value: v}, first: *first}
"""


def written(folder, text=CLAIMS):
    (folder / "claims.yaml").write_text(text, encoding="utf-8")
    return load_claims(folder / "claims.yaml")


@pytest.mark.parametrize("text, kind", [("- 1\n", "list"), ("", "NoneType"), ("claims\n", "str")])
def test_a_claims_file_that_is_no_mapping_is_refused(text, kind, tmp_path):
    with pytest.raises(ValueError, match=f"load_claims: a claims file must be a mapping; got {kind}.*claims.yaml"):
        written(tmp_path, text)


def table_of(**values):
    frame = pd.DataFrame({"of": list(values), "v": list(values.values())})
    return {"t/x": frame}.get


@pytest.mark.parametrize(
    "source",
    [
        {"ours": {"table": "t/x", "value": "v"}},
        {"conventions": {"c": {"table": "t/x", "value": "v"}}},
        {"needs": ["f"]},
    ],
)
def test_a_reason_without_a_value_stands_without_a_source(source):
    assert Block(cannot="a reason").says and Block(**source).says and not Block().says
    with pytest.raises(ValueError, match="cannot must stand alone"):
        Block(cannot="a reason", **source)


def test_a_convention_that_a_claim_does_not_name_is_never_tried(tmp_path):
    found = judge_claims(written(tmp_path), table_of(plain=0.40, first=0.50, second=0.44)).set_index("row")
    assert found["verdict"].to_dict() == {"a": "differs", "b": "convention", "c": "differs", "d": "convention"}
    assert found["convention"].to_dict() == {"a": "", "b": "first", "c": "second", "d": "first"}  # of c the nearest
    assert found["n_tried"].to_dict() == {"a": 0, "b": 2, "c": 3, "d": 1}  # c: random, second, random about it
    assert found.attrs["missing"] == ["t/nowhere"]


def test_conventions_are_tried_in_their_order_until_one_fits(tmp_path):
    found = judge_claims(written(tmp_path), table_of(plain=0.40, first=0.50, second=0.50)).set_index("row")
    assert found.loc["b", ["convention", "n_tried"]].tolist() == ["second", 1]
    plain = judge_claims(written(tmp_path), table_of(plain=0.504, first=0.1, second=0.1)).set_index("row")
    assert plain.loc[["a", "b", "c"], "verdict"].eq("equal").all() and plain.loc[["a", "b", "c"], "n_tried"].eq(0).all()


def test_what_is_within_monte_carlo_error_is_no_plain_equality(tmp_path):
    text = CLAIMS.replace(
        'a: ["0.50"], b: ["0.50"], c: ["0.50"], d: ["0.50"]', 'a: ["0.80"], b: ["0.10"], c: ["0.50"], d: ["0.90"]'
    )
    found = judge_claims(written(tmp_path, text), table_of(plain=0.46, first=0.3, second=0.2)).set_index("row")
    assert found.loc["c", ["verdict", "convention", "n_tried"]].tolist() == ["convention", "random", 1]
    assert found.loc["b", "verdict"] == "differs"
    table = tolerances(found.reset_index())
    assert table[["along", "n_wrong", "decides"]].values.tolist() == [[0.0, 3, True]]


def test_a_tolerance_that_accepts_its_neighbours_decides_nothing(tmp_path):
    "All four rows print 0.50: what accepts this for c accepts it for every other."
    found = judge_claims(written(tmp_path), table_of(plain=0.46, first=0.1, second=0.1)).set_index("row")
    assert found.loc["c", ["verdict", "convention"]].tolist() == ["undecided", "random"]
    assert not tolerances(found.reset_index())["decides"].any()


def test_the_differences_of_a_table_are_looked_at_together(tmp_path):
    "Two runs of one script spread by what is declared; another thing spreads by more, though each number is near."
    rows = {str(k): [f"{k / 10:.2f}"] for k in range(1, 10)}
    text = yaml.safe_dump(
        {
            "paper": {"name": "E"},
            "conventions": {"random": {"says": "Draws.", "source": "a script"}},
            "claims": [
                {
                    "place": "T",
                    "of": "x",
                    "columns": ["v"],
                    "rows": rows,
                    "random": 0.01,
                    "ours": {"table": "t/x", "where": {"of": "{row}"}, "value": "v"},
                }
            ],
        }
    )
    claims = written(tmp_path, text)
    off = {"like two runs": 0.01, "wider": 0.03}
    spread = {}
    for name, by in off.items():
        frame = pd.DataFrame(
            {"of": list(rows), "v": [float(v[0]) + by * (-1) ** k for k, v in enumerate(rows.values())]}
        )
        spread[name] = tolerances(judge_claims(claims, {"t/x": frame}.get)).iloc[0]
    assert spread["like two runs"]["spread"] < 1.1 and spread["like two runs"]["p"] > 0.05
    assert spread["wider"]["spread"] > 2 and spread["wider"]["p"] < 0.001 and not spread["wider"]["decides"]


def test_a_convention_that_could_not_be_tried_leaves_a_number_undecided(tmp_path):
    found = judge_claims(written(tmp_path), table_of(plain=0.40, first=0.30, second=0.20)).set_index("row")
    assert found.loc["d", ["verdict", "convention"]].tolist() == ["undecided", "first"], (
        "the table of third is not here"
    )
    assert found.loc["b", "verdict"] == "differs"


def test_a_constant_is_no_evidence_and_a_value_is_as_good_as_its_weakest_part(tmp_path):
    text = """
paper: {name: E}
evidence: {t/s: stored}
claims:
- {place: A, of: models, printed: "2", ours: {call: count, of: [[one, two]]}}
- {place: B, of: x, printed: "0.4", ours: &x {table: t/x, where: {of: plain}, value: v}}
- {place: C, of: x, printed: "0.8", ours: {call: sum, of: [*x, {table: t/s, where: {of: plain}, value: v}]}}
- {place: D, of: x, printed: "0.8", ours: {call: sum, of: [*x, {printed: B}]}}
"""
    tables = {"t/x": table_of(plain=0.4)("t/x"), "t/s": table_of(plain=0.4)("t/x")}
    found = judge_claims(written(tmp_path, text), tables.get)
    assert found["verdict"].tolist() == ["cannot", "equal", "equal", "equal"]
    assert found["kind"].tolist() == ["", "data", "stored", "paper"] and found["reason"][0] == "typed"
    counts = claims_by_verdict(found)
    assert counts["claims"].tolist() == [1, 1, 1] and "all" not in set(counts["kind"]), "they are never added up"


def test_a_part_of_what_a_number_is_of_decides_nothing(tmp_path):
    text = CLAIMS.replace("  - rows: [a]\n", "  - rows: [a]\n    part: true\n")
    for value in (0.50, 0.40):
        found = judge_claims(written(tmp_path, text), table_of(plain=value, first=0.5, second=0.5)).set_index("row")
        assert found.loc["a", ["verdict", "value"]].tolist() == ["undecided", value]


def test_a_bound_has_no_monte_carlo_error(tmp_path):
    "Printed below 0.50, .54 in our run, draws may differ by .05: a bound is held or is not."
    text = CLAIMS.replace('c: ["0.50"]', 'c: ["<0.50"]')
    found = judge_claims(written(tmp_path, text), table_of(plain=0.54, first=0.9, second=0.9)).set_index("row")
    assert found.loc["c", "verdict"] == "differs"


def test_a_cell_of_a_turned_table_comes_from_one_row(tmp_path):
    (tmp_path / "r.csv").write_text("item,rater,v\n1,a,1\n1,b,2\n1,a,5\n1,a,6\n", encoding="utf-8")
    pivot = "pivot: {index: item, columns: rater, values: v}"
    for more, rows in (("", None), (", aggregate: mean", [[1, 4.0, 2.0]])):
        table = f"tables: {{r: {{files: r.csv, {pivot[:-1]}{more}}}}}}}\nclaims:"
        tables = tables_of_files(written(tmp_path, CLAIMS.replace("claims:", table, 1)), tmp_path)
        if rows is None:
            with pytest.raises(ValueError, match="got 2 rows too many"):
                tables("r")
        else:
            assert tables("r").to_numpy().tolist() == rows


def of_files(folder, table, claims):
    "Claims on a table of files in a folder, judged; a claim is (printed, its source)."
    entries = [
        {
            "place": f"P{k}",
            "of": "x",
            "printed": printed,
            "ours": {"table": "t", **ours} if "call" not in ours else ours,
        }
        for k, (printed, ours) in enumerate(claims)
    ]
    text = yaml.safe_dump({"paper": {"name": "E"}, "tables": {"t": table}, "claims": entries})
    claims = written(folder, text)
    return judge_claims(claims, tables_of_files(claims, folder))[["verdict", "reason"]].to_numpy().tolist()


def test_a_table_whose_files_are_not_all_there_is_judged_in_the_parts_that_are_whole(tmp_path):
    for name in ("a1", "b"):
        (tmp_path / f"{name}.csv").write_text("item,v\n1,4\n2,6\n", encoding="utf-8")
    table = {"files": {"a": ["a1.csv", "a2.csv"], "b": "b.csv"}}
    mean = lambda **where: {"call": "mean", "of": {"table": "t", "column": "v"} | ({"where": where} if where else {})}
    equal, no_run = ["equal", ""], ["cannot", "no_run"]
    asked = [mean(file="a"), mean(file="b"), mean(file=["a", "b"]), mean()]
    assert of_files(tmp_path, table, [("5", one) for one in asked]) == [no_run, equal, no_run, no_run]
    turned = table | {"pivot": {"index": "item", "columns": "file", "values": "v"}}
    columns = [{"value": "a"}, {"value": "b"}]
    claims = [("4", {"where": {"item": 1}} | column) for column in columns]
    several = {"call": "mean", "of": {"table": "t", "columns": ["a", "b"]}}
    assert of_files(tmp_path, turned, [*claims, ("5", several)]) == [no_run, equal, no_run]
    means = table | {"means_by": ["item"]}
    assert of_files(tmp_path, means, [("4", {"where": {"item": 1}, "value": "v"})]) == [no_run]
    (tmp_path / "a2.csv").write_text("item,v\n1,4\n2,6\n", encoding="utf-8")
    assert of_files(tmp_path, table, [("5", one) for one in asked]) == [equal] * 4


def test_the_count_of_what_no_row_has_is_no_zero_and_missing_cells_do_not_count(tmp_path):
    (tmp_path / "t.csv").write_text("model,v\na,1\na,\n", encoding="utf-8")
    count = lambda **where: {"call": "count", "of": {"table": "t", "column": "v", "where": where}}
    assert of_files(tmp_path, {"files": "t.csv"}, [("1", count(model="a")), ("1", count())]) == [["equal", ""]] * 2
    with pytest.raises(ValueError, match="got 0 for model=b"):
        of_files(tmp_path, {"files": "t.csv"}, [("0", count(model="b"))])


def test_a_column_that_one_of_several_files_does_not_have_is_no_zero_and_no_other_mean(tmp_path):
    (tmp_path / "a.csv").write_text("item,v\n1,1\n2,3\n", encoding="utf-8")
    table = {"files": {"a": "a.csv", "b": "b.csv"}}
    ask = lambda call, **where: {
        "call": call,
        "of": {"table": "t", "column": "v"} | ({"where": where} if where else {}),
    }
    asked = [("2", ask("count", file="b")), ("3", ask("mean")), ("2", ask("mean", file="a"))]
    (tmp_path / "b.csv").write_text("item,v\n1,4\n2,4\n", encoding="utf-8")
    assert of_files(tmp_path, table, asked) == [["equal", ""]] * 3
    (tmp_path / "b.csv").write_text("item,V\n1,4\n2,4\n", encoding="utf-8")
    for one in asked[:2]:
        with pytest.raises(ValueError, match="got none of 'v' in the rows of 'b'"):
            of_files(tmp_path, table, [one])
    assert of_files(tmp_path, table, asked[2:]) == [["equal", ""]]
    turned = table | {"pivot": {"index": "item", "columns": "file", "values": "v"}}
    with pytest.raises(ValueError, match="got none of 'v' in the rows of 'b'"):
        of_files(tmp_path, turned, [("1", {"where": {"item": 1}, "value": "a"})])


def test_a_share_for_a_percentage_is_an_error_and_no_difference(tmp_path):
    (tmp_path / "t.csv").write_text("v\n1\n0\n0\n", encoding="utf-8")
    share = {"call": "mean", "of": {"table": "t", "column": "v"}}
    with pytest.raises(ValueError, match=r"got a share, 0\.3333, for 33%; set `scale: 100`"):
        of_files(tmp_path, {"files": "t.csv"}, [("33%", share)])
    assert of_files(tmp_path, {"files": "t.csv"}, [("34%", share), ("0.33", share)]) == [["differs", ""], ["equal", ""]]


# ---------------------------------------------------------------- no value is no verdict


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (pd.DataFrame({"of": ["plain", "plain"], "v": [0.5, 0.5]}), "got 2 for of=plain"),
        (pd.DataFrame({"of": ["other"], "v": [0.5]}), "got 0 for of=plain"),
        (pd.DataFrame({"of": ["plain"], "v": [float("nan")]}), "one finite number"),
        (pd.DataFrame({"of": ["plain"], "w": [0.5]}), "must have the column; got 'v'"),
        (pd.DataFrame({"off": ["plain"], "v": [0.5]}), "nearest to it 'off'"),
        (pd.DataFrame({"of": ["plain"], "v": ["a half"]}), "could not convert"),
    ],
)
def test_a_missing_or_ambiguous_cell_is_an_error_that_names_the_claim(tmp_path, frame, said):
    with pytest.raises(ValueError, match="every claim must have one value") as e:
        judge_claims(written(tmp_path), {"t/x": frame}.get)
    assert said in str(e.value) and "Table 1/a/value" in str(e.value) and "claims.yaml" in str(e.value)


WHOLE = Tree("authors/example", "0" * 40, {f"answers/{m}_{k}.csv": Blob(m * 40, 1) for m in "ab" for k in "xy"})


def test_why_a_number_has_no_value_is_found_at_run_time(tmp_path):
    text = """
paper: {name: Example}
reasons: {beside: Another one of b is there.}
claims:
- place: T
  of: accuracy
  columns: [zero, few]
  rows: {a: [".5", ".5"], b: [".5", ".5"], c: [".5", null]}
  needs: ["answers/{row}_*.csv"]
  beside: beside
  ours: {table: t/x, where: {model: "{row}", mode: "{column}"}, value: v}
"""
    claims = written(tmp_path, text)
    both = pd.DataFrame({"model": list("aabb"), "mode": ["zero", "few"] * 2, "v": [0.5] * 4})
    tables = {"t/x": both}.get
    found = judge_claims(claims, tables, Inventory(WHOLE, {"a" * 40}))
    assert found["verdict"].tolist() == ["equal"] * 2 + ["cannot"] * 3, "b can be computed, and its files are not here"
    assert found["reason"].tolist() == ["", "", "not_fetched", "not_fetched", "not_in_release"]
    assert "answers/b_x.csv (blob bbbbbbbbbb)" in found["files"][2] and "answers/c_*.csv" in found["files"][4]
    here = Inventory(WHOLE, {"a" * 40, "b" * 40})
    assert judge_claims(claims, tables, here)["verdict"].tolist() == ["equal"] * 4 + ["cannot"], "without an edit"
    held = judge_claims(claims, {"t/x": both[:2]}.get, here)
    assert held["reason"].tolist()[2:4] == ["not_held"] * 2, "fetched and read, and it is not in it"
    with pytest.raises(ValueError, match="got 0 for model=b, mode=zero"):
        judge_claims(claims, {"t/x": both[:2]}.get)


def test_a_source_within_the_paper_is_used_where_files_are_not_here(tmp_path):
    text = """
paper: {name: Example}
claims:
- {place: A, of: x, printed: "3", needs: [none.csv]}
- place: B
  of: x
  printed: "3"
  needs: [b.csv]
  ours: {table: t/x, where: {of: plain}, value: v}
  otherwise: {call: sum, of: {printed: A}}
"""
    claims = written(tmp_path, text)
    tree = Tree("authors/example", "0" * 40, {"b.csv": Blob("b" * 40, 1)})
    away = judge_claims(claims, table_of(plain=4), Inventory(tree)).iloc[1]
    assert away[["verdict", "kind"]].tolist() == ["equal", "paper"] and "b.csv" in away["files"]
    here = judge_claims(claims, table_of(plain=4), Inventory(tree, {"b" * 40})).iloc[1]
    assert here[["verdict", "kind"]].tolist() == ["differs", "data"]


def test_no_claim_says_by_hand_what_a_file_could_answer():
    "With a release, only what no release can hold is written down; a search shows every absence."
    for study in ("mentat", "counselingbench", "mhqa"):
        claims = load_claims(claims_file(study))
        by_hand = Counter(c.cannot for c in claims.claims if c.cannot)
        assert set(by_hand) <= {"people_in_words", "listed_in_words", "about_averages", "said_in_words"}, by_hand
        tree = inventory_of(study)
        searched = judge_claims(claims, no_tables, tree).query("reason == 'not_in_release'")
        for c in (c for c in claims.claims if c.id in set(searched["claim"])):
            assert any(not tree.tree.matching(pattern) for pattern in c.needs), c.id


def test_every_file_that_lies_among_the_corpora_is_read(datasets, tmp_path):
    for study in ("mentat", "counselingbench", "mhqa"):
        got = fetch_release(study, datasets / study, tmp_path / study)
        found = judge_claims(load_claims(claims_file(study)), no_tables, inventory_of(study, got.folder))
        assert not (found["reason"] == "not_read").any(), found[found["reason"] == "not_read"]["files"].unique()


@pytest.mark.parametrize(
    "call", ["os.system", "mhbench.stats.tests.np.array", "mhbench.run.cli.main", "mhbench.stats.x.y"]
)
def test_only_statistics_are_called(tmp_path, call):
    text = f"""
paper: {{name: E}}
claims:
- {{place: T, of: x, printed: '1', ours: {{call: {call}, of: [{{printed: U}}]}}}}
- {{place: U, of: x, printed: '1', needs: [a.csv]}}
"""
    with pytest.raises(ValueError, match="a public function under mhbench.stats"):
        judge_claims(written(tmp_path, text), no_tables)


@pytest.mark.parametrize("file", ["../secret.csv", "/etc/passwd.csv", "notes.pdf"])
def test_files_are_those_of_the_release(tmp_path, file):
    text = f"""
paper: {{name: E}}
tables: {{t: {{files: {file}}}}}
claims:
- {{place: T, of: x, printed: "1", ours: {{table: t, value: v}}}}
"""
    claims = written(tmp_path, text)
    with pytest.raises(ValueError, match="must lie in the folder|must end in"):
        judge_claims(claims, tables_of_files(claims, tmp_path))


# ---------------------------------------------------------------- the files and the command


@pytest.mark.parametrize("study", PAPERS)
def test_every_claim_of_a_paper_is_readable_and_says_how_it_is_had(study):
    claims = load_claims(claims_file(study))
    assert len(claims.claims) > 100
    assert all(c.ours or c.conventions or c.cannot or c.needs for c in claims.claims)
    found = judge_claims(claims, no_tables)
    assert list(found.columns) == VERDICT_COLUMNS and found["claim"].is_unique
    assert set(found.loc[found["reason"] != "", "verdict"]) == {"cannot"}


def test_the_command_counts_checks_judges_and_keeps(tmp_path, capsys):
    (tmp_path / "answers.csv").write_text("model,correct\na,1\na,0\nb,1\n")
    text = """
paper: {name: Example}
tables: {answers: {files: answers.csv}}
claims:
- place: Table 1
  of: accuracy
  columns: [accuracy]
  rows: {a: ["0.50"], b: ["0.90"]}
  ours: {call: mean, of: {table: answers, where: {model: "{row}"}, column: correct}}
"""
    written(tmp_path, text)
    file = str(tmp_path / "claims.yaml")
    assert main(["ledger", file, "--check"]) == 0
    said = capsys.readouterr().out
    assert "2 claims, 2 with what gives them" in said and "2 were computed here\n" in said
    (tmp_path / "root" / "deeper").mkdir(parents=True)
    (tmp_path / "root" / "deeper" / "answers.csv").write_text("model,right\na,1\nb,1\n")
    assert main(["ledger", file, "--check", "--from", str(tmp_path / "root")]) != 0, "what fails there fails here"
    assert "correct" in capsys.readouterr().err
    assert main(["ledger", file, "--to", str(tmp_path / "v.csv")]) == 0
    said = capsys.readouterr().out
    assert "2 recomputed from data: 1 equal, 1 differ" in said and "Table 1/b/accuracy" in said
    kept = pd.read_csv(tmp_path / "v.csv", dtype={"printed": str}, keep_default_na=False)
    assert kept["printed"].tolist() == ["0.50", "0.90"] and kept["verdict"].tolist() == ["equal", "differs"]
    assert main(["ledger", file, "--from", str(tmp_path / "nowhere")]) != 0
    assert main(["ledger", "--check"]) != 0
    assert main(["ledger", file, "--to", str(tmp_path / "v.html")]) == 0
    assert "Table 1" in (tmp_path / "v.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(("others", "verdict"), [(0.0, "convention"), (9.0, "undecided")])
def test_a_table_unlike_two_runs_is_not_accepted_number_by_number(tmp_path, others, verdict):
    "One number within the tolerance is equal under it only where the other differences look like those of two runs."
    printed = {f"m{k}": 10 + 3 * k for k in range(20)}
    rows = "\n".join(f'    {m}: ["{n}.0"]' for m, n in printed.items())
    text = f"""
paper: {{name: Example}}
conventions: {{random: {{says: Drawn anew., source: a script}}}}
claims:
- place: Table 1
  of: accuracy
  columns: [accuracy]
  rows:
{rows}
  ours: {{table: t, where: {{model: "{{row}}"}}, value: estimate}}
  random: 0.1
"""
    values = [n + (others if k > 9 else 0) + (0.2 if k == 0 else 0) for k, n in enumerate(printed.values())]
    table = pd.DataFrame({"model": list(printed), "estimate": values})
    found = judge_claims(written(tmp_path, text), {"t": table}.get)
    assert found["verdict"][0] == verdict and set(found["verdict"][1:10]) == {"equal"}


def test_the_documentation_shows_what_the_commands_print(datasets, capsys):
    page = (ROOT / "docs" / "howto-ledger.md").read_text(encoding="utf-8")
    shown = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    assert len(shown) == 2
    file, folder = str(ROOT / "docs" / "ledgers" / "empathy.yaml"), str(datasets / "outside" / "empathy")
    for text, options in zip(shown, (["--check"], ["--from", folder])):
        assert main(["ledger", file, *options]) == 0
        assert capsys.readouterr().out == text


PARTS_OF_A_FILE = ("paper", "reasons", "tables", "notes", "values", "conclusions", "claims")


def test_the_snippets_of_the_documentation_fit_the_grammar():
    page = (ROOT / "docs" / "howto-ledger.md").read_text(encoding="utf-8")
    blocks = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)]
    whole = {k: v for b in blocks for k, v in b.items() if k in PARTS_OF_A_FILE}
    ClaimsFile(**whole)
    how = [b for b in blocks if not whole.keys() & b.keys()]
    entry = {k: v for k, v in whole["claims"][0].items() if k not in ("cannot", "needs")}
    assert len(how) == 3 and how[1]["conventions"].keys() == {"positions"}
    for b in (how[0], how[2]):
        ClaimEntry(**entry, **b)


def test_all_papers_are_counted_without_any_run():
    verdicts, claims, notes = all_verdicts_on_papers()
    assert len(claims) == verdicts["paper"].nunique() == len(PAPERS) and len(verdicts) == sum(
        len(c.claims) for c in claims
    )
    assert all("mhbench replicate" in note for note in notes)


PERCENT = """
paper: {name: E}
claims:
- {place: T, of: accuracy, columns: [percent], scale: SCALE, needs: [answers.csv], rows: {a: ["84"], b: ["47"]}}
- {place: Text, of: gap, printed: "38", ours: {call: difference, of: [{printed: T/a/percent}, {printed: T/b/percent}]}}
"""


def test_a_whole_percentage_is_rounded_and_a_count_is_exact(tmp_path):
    "84 and 47 percent are 38 points apart if they are 84.4 and 46.5; 84 and 47 answers are not."
    for scale, verdict in (("100", "convention"), ("1", "differs")):
        found = judge_claims(written(tmp_path, PERCENT.replace("SCALE", scale)))
        assert found.set_index("claim").loc["Text", "verdict"] == verdict


def test_a_row_that_stands_twice_is_refused_and_not_lost(tmp_path):
    with pytest.raises(ValueError, match=r"the name 'a' more than once \(.*:5\)"):
        written(tmp_path, PERCENT.replace("SCALE", "1").replace("rows: {a:", 'rows: {a: ["85"],\n  a:'))


@pytest.mark.parametrize(
    ("ours", "told"),
    [
        ("{call: mean, of: {table: t/x, column: of}}", "must be given numbers; got text .*`share` take words"),
        ("{call: mean, of: {table: t/x, column: v}, value: ci_low}", "got 'ci_low', of a float; leave `value` out"),
        (
            "{call: mhbench.stats.estimate.proportion, of: [3, 10], value: ci_lo, given: {}}",
            "got 'ci_lo', nearest to it 'ci_low', of a Estimate; it has n, n_clusters, estimate",
        ),
    ],
)
def test_a_source_that_gives_no_number_is_told_by_its_argument(tmp_path, ours, told):
    text = f"{{paper: {{name: E}}, claims: [{{place: T, of: x, printed: '1', ours: {ours}}}]}}"
    table = pd.DataFrame({"of": ["a", "b"], "v": [0.0, 1.0]})
    claims = written(tmp_path, text)
    with pytest.raises(ValueError, match=told):
        source_value(claims.claims[0].ours, claims, {"t/x": table}.get)


@pytest.mark.parametrize("of", ["consistency", "agreement"])
def test_a_function_that_is_handed_over_has_its_own_arguments(tmp_path, of):
    ours = f"""{{call: mhbench.stats.resample.bootstrap, value: estimate, given: {{n: 20, seed: 1}}, of: [
      {{function: mhbench.stats.repeatability.two_way_intraclass_correlation, given: {{of: {of}}}}},
      {{table: t/x, columns: [a, b]}}]}}"""
    claims = written(tmp_path, f"{{paper: {{name: E}}, claims: [{{place: T, of: x, printed: '1', ours: {ours}}}]}}")
    table = pd.DataFrame({"a": [1.0, 2, 3, 5], "b": [3.0, 3, 5, 6]})
    ratings = table.to_numpy()
    rows, cells = (
        ratings.mean(1),
        ratings.mean() + (ratings.mean(1, keepdims=True) - ratings.mean()) + (ratings.mean(0) - ratings.mean()),
    )
    between, rest = 2 * rows.var(ddof=1), ((ratings - cells) ** 2).sum() / 3
    raters = 4 * ratings.mean(0).var(ddof=1)
    lost = 2 / 4 * (raters - rest) if of == "agreement" else 0  # McGraw and Wong 1996, table 4, for two raters
    expected = (between - rest) / (between + rest + lost)
    assert source_value(claims.claims[0].ours, claims, {"t/x": table}.get) == pytest.approx(expected, rel=1e-12)


def test_a_file_of_claims_is_utf_8_and_a_scale_is_above_0(tmp_path):
    (tmp_path / "claims.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"load_claims: path must be a YAML file; got .*codec.* \(claims.yaml:1\)"):
        load_claims(tmp_path / "claims.yaml")
    with pytest.raises(ValueError, match="claims.0.scale must fit .*greater than 0.*; got 0"):
        written(tmp_path, PERCENT.replace("SCALE", "0"))


# ---------------------------------------------------------------- by hand


def test_a_tolerance_decides_where_it_accepts_few_numbers_of_other_places():
    "A table of two rows and three columns: what 2 +- 1 accepts of the numbers beside it and below it."
    printed = {("a", "x"): "2", ("a", "y"): "3", ("a", "z"): "9", ("b", "x"): "2.5", ("b", "y"): "7", ("b", "z"): "8"}
    rows = [
        {
            "paper": "p",
            "place": "T1",
            "of": "o",
            "row": r,
            "column": c,
            "printed": text,
            "tolerance": "",
            "difference": 0.0,
        }
        for (r, c), text in printed.items()
    ]
    frame = pd.DataFrame(rows).assign(low=float("nan"), high=float("nan"))
    assert verdicts.tolerances(frame).empty
    one = frame.copy()
    one.loc[0, ["tolerance", "low", "high", "difference"]] = ["random", 1.0, 3.0, 0.5]
    [row] = verdicts.tolerances(one).to_dict("records")
    sd = 1 / 3.29
    assert (row["n"], row["across"], row["along"], row["n_wrong"]) == (1, 0.5, 1.0, 3) and not row["decides"]
    assert row["spread"] == pytest.approx(0.5 / sd) and row["p"] == pytest.approx(chi2.sf((0.5 / sd) ** 2, 1))
    narrow = one.assign(high=one["high"].where(one["high"].isna(), 2.25), low=one["low"].where(one["low"].isna(), 1.75))
    narrow.loc[0, "difference"] = 0.0
    [row] = verdicts.tolerances(narrow).to_dict("records")
    assert (row["across"], row["along"], row["p"]) == (0.0, 0.0, 1.0) and row["decides"]
    narrow.loc[0, "difference"] = 0.25  # z 3.29: p just above 0.001; a little more is not decided
    assert verdicts.tolerances(narrow)["decides"].item()
    narrow.loc[0, "difference"] = 0.251
    assert not verdicts.tolerances(narrow)["decides"].item()
    alone = narrow.iloc[:1].assign(difference=0.0)
    assert not verdicts.tolerances(alone)["decides"].item()
    assert verdicts.tolerances(alone.assign(tolerance=verdicts.INPUTS))["decides"].item()
    for convention, verdict, becomes in (
        ("random", "convention", "undecided"),
        ("kept, random", "convention", "undecided"),
        ("random, kept", "convention", "convention"),
        ("random", "differs", "differs"),
    ):
        judged = one.assign(verdict="equal", convention="")
        judged.loc[0, ["verdict", "convention"]] = [verdict, convention]
        assert verdicts._undecided_where_loose(judged)["verdict"].tolist() == [becomes, *["equal"] * 5]


def test_verdicts_are_counted_by_what_a_value_is_made_of_and_by_reason():
    rows = [
        ("p", "data", "equal", ""),
        ("p", "data", "equal", ""),
        ("p", "paper", "differs", ""),
        ("q", "", "cannot", "x"),
    ]
    rows += [("p", "", "cannot", "x"), ("p", "", "cannot", "y"), ("p", "", "cannot", "x")]
    frame = pd.DataFrame(rows, columns=["paper", "kind", "verdict", "reason"])
    counts = verdicts.claims_by_verdict(frame).set_index(["paper", "kind"])
    assert counts["claims"].to_dict() == {
        ("p", "data"): 2,
        ("p", "stored"): 0,
        ("p", "paper"): 1,
        ("q", "data"): 0,
        ("q", "stored"): 0,
        ("q", "paper"): 0,
    }
    assert counts.loc[("p", "data"), "equal"] == 2 and counts.loc[("p", "paper"), "differs"] == 1
    assert counts.drop(columns="claims").to_numpy().sum() == 3 and "cannot" not in counts
    reasons = verdicts.claims_by_reason(frame).to_numpy().tolist()
    assert sorted(reasons) == [["p", "x", 2], ["p", "y", 1], ["q", "x", 1]]


def test_functions_of_numbers_leave_out_what_is_missing():
    nan = float("nan")
    of = lambda name, *values, **more: verdicts.PLAIN_FUNCTIONS[name](*values, **more)
    column = pd.Series([1.0, nan, 4.0])
    assert [of(n, column, [3, 4], 8) for n in ("sum", "product", "mean", "median", "min", "max")] == [
        20,
        384,
        4,
        4,
        1,
        8,
    ]
    assert of("weighted_mean", [1, 4], [3, 1]) == 1.75 and of("count", ["a", None, "b", nan]) == 2
    assert of("ratio", 3, 4) == 0.75 and of("difference", 3, 4) == -1 and of("sum") == 0
    assert of("share", [True, False, None, True]) == pytest.approx(2 / 3) and of("share", [1, 2, 3, 2], 2) == 0.5
    assert of("share", ["a", "b", "c"], ["a", "c"]) == pytest.approx(2 / 3)
    with pytest.raises(ValueError, match="a function of numbers must be given numbers; got text"):
        of("sum", ["a"])


def test_rows_match_by_number_by_text_by_nothing_or_by_one_of_several():
    match = lambda values, value: verdicts._matches_value(pd.Series(values), value).tolist()
    assert match([1.0, 1 + 1e-13, 1 + 1e-11, None], 1) == [True, True, False, False]
    assert match([1, 2, 3], "2") == [False, True, False] and match([1, 2], "two") == [False, False]
    assert match([True, False], True) == [True, False] and match(["1", "1.0"], 1) == [True, False]
    assert match(["a", None], None) == [False, True] and match(["a", "b", None], ["a", None]) == [True, False, True]


def test_a_result_is_taken_apart_by_fields_attributes_and_indices():
    take = verdicts._take_from_result
    row = Counter(a=3)
    assert take(5, None) == 5 and take({"a": [1, (2, 3)]}, "a.1.0") == 2 and take(row, "a") == 3
    assert take([4, 5], 1) == 5 and take(read_printed("2.50"), "value") == read_printed("2.50").value
    for result, path, told in (
        ({"alpha": 1}, "alpa", r"got 'alpa'.*alpha.*, of a dict; it has alpha"),
        ([1], "3", r"got '3', of a list; leave `value` out"),
        (1.0, "x", r"got 'x', of a float; leave `value` out"),
    ):
        with pytest.raises(ValueError, match=told):
            take(result, path)


def test_verdicts_of_a_run_are_kept_where_the_printed_number_is_the_same(tmp_path):
    path = tmp_path / "claims.yaml"
    first = "paper: {name: P}\nno_release: None.\nreasons: {nowhere: Not there.}\nclaims:\n"
    line = '- {{place: T, of: {of}, printed: "{printed}", cannot: nowhere, id: {of}}}\n'
    write = lambda **numbers: path.write_text(first + "".join(line.format(of=k, printed=v) for k, v in numbers.items()))
    write(a=1, b=2)
    stored = judge_claims(load_claims(path)).assign(source=["run a", "run b"])
    write(c=3, b=2, a=4)
    merged, n_changed = verdicts.merged_verdicts(load_claims(path), stored)
    assert merged[["claim", "printed", "source"]].to_numpy().tolist() == [
        ["T/c", "3", ""],
        ["T/b", "2", "run b"],
        ["T/a", "4", ""],
    ]
    assert n_changed == 2
    assert verdicts.merged_verdicts(load_claims(path), None)[1] == 0
    assert verdicts.merged_verdicts(load_claims(path), stored.drop(columns="note"))[1] == 3
    top, place = tmp_path / "top", ("ledger", "s", "verdicts.parquet")
    assert verdicts.stored_verdicts("s", None) is None and verdicts.stored_verdicts("s", top) is None
    report, run = top / "reports" / "replication" / "s" / "verdicts.csv", (top / "results").joinpath(*place)
    for file in (report, run):
        file.parent.mkdir(parents=True)
    stored.to_csv(report, index=False)
    back = verdicts.stored_verdicts("s", top)
    assert back["printed"].tolist() == ["1", "2"] and back["value"].isna().all() and back["note"].tolist() == ["", ""]
    stored.assign(source="run").to_parquet(run)
    assert verdicts.stored_verdicts("s", top)["source"].tolist() == ["run", "run"]
    assert verdicts.stored_verdicts("s", top, runs=False)["source"].tolist() == ["run a", "run b"]


def test_a_verdict_of_a_run_is_open_again_once_what_decides_it_has_changed(tmp_path):
    path = tmp_path / "claims.yaml"
    text = """paper: {name: P}
no_release: None.
conventions: {c: {says: Cut., source: section 1}, random: {says: Two runs., source: measured}}
notes: {n: {says: Here., doubt: None.}, m: {says: There., doubt: None.}}
evidence: {score/b: stored}
claims:
- {place: T, of: x, id: a, printed: "0.51", ours: {table: score/a, value: v}, note: n}
- place: T
  of: x
  id: b
  printed: "0.6"
  ours: {table: score/b, value: v}
  conventions: {c: {table: score/b, value: w}}
- {place: U, of: y, id: c, printed: "1.1", ours: {call: sum, of: [{printed: T/a}, {table: score/a, value: v}]}}
- {place: U, of: y, id: d, printed: "2", scale: 100, random: 0.5, ours: {table: score/d, value: v}, needs: [d.csv]}
"""
    cells = {"score/a": 0.5, "score/b": 0.7, "score/d": 0.02}
    path.write_text(text)
    stored = judge_claims(load_claims(path), lambda name: pd.DataFrame({"v": [cells[name]], "w": [cells[name]]}))
    changed_after = lambda old, new: open_claims(path, text, old, new, stored)

    assert changed_after("paper", "paper") == set()
    assert changed_after("value: v}, note: n", "value: w}, note: n") == {"T/a"}
    assert changed_after("ours: {table: score/b, value: v}", "ours: {table: score/b, value: v, rounding: down}") == {
        "T/b"
    }
    assert changed_after("value: w}}", "value: w, rounding: down}}") == {"T/b"}
    assert changed_after("  conventions: {c: {table: score/b, value: w}}\n", "") == {"T/b"}
    assert changed_after("score/b: stored", "score/a: stored") == {"T/a", "T/b", "U/c"}
    assert changed_after("random: 0.5", "random: 0.4") == {"U/d"}
    assert changed_after("scale: 100", "scale: 10") == {"U/d"}
    assert changed_after("d.csv", "e.csv") == {"U/d"}
    assert changed_after('"0.51"', '"0.52"') == {"T/a", "U/c"}  # the sum rests on it
    assert changed_after('"1.1"', '"1.2"') == {"U/c", "U/d"}  # what a tolerance must not accept

    path.write_text(text.replace("note: n}", "note: m}").replace("of: x, id: a", "of: z, id: a"))
    row = verdicts.merged_verdicts(load_claims(path), stored)[0].iloc[0]
    assert [row["verdict"], row["note"], row["of"]] == ["differs", "m", "z"]  # words are those of the file


def open_claims(path, text, old, new, stored):
    "The claims whose stored verdict is not kept once a file is edited; the others have it."
    assert old in text
    path.write_text(text.replace(old, new, 1))
    merged, n_changed = verdicts.merged_verdicts(load_claims(path), stored)
    has_stored_value = merged["value"].notna() & (merged["basis"] == stored["basis"])
    assert n_changed == (~has_stored_value).sum() and set(merged.loc[~has_stored_value, "reason"]) <= {"no_run"}
    return set(merged.loc[~has_stored_value, "claim"])


# ---------------------------------------------------------------- the command


def hand_made_verdicts() -> pd.DataFrame:
    "Numbers of two papers in every verdict; of a third three tables whose tolerances decide nothing."
    columns = ["paper", "claim", "kind", "verdict", "reason"]
    rows = [("P", "a", "data", "equal", ""), ("P", "b", "data", "equal", ""), ("P", "c", "data", "differs", "")]
    rows += [
        ("P", "d", "data", "convention", ""),
        ("P", "e", "stored", "undecided", ""),
        ("Q", "f", "paper", "equal", ""),
    ]
    rows += [
        ("P", "g", "", "cannot", "no_run"),
        ("P", "h", "", "cannot", "no_run"),
        ("P", "i", "", "cannot", "in_words"),
    ]
    printed = pd.DataFrame(rows, columns=columns).assign(
        place="T", of="o", printed="2", value=1.23456, difference=0.76544
    )
    shared = {"paper": "R", "kind": "data", "verdict": "equal", "reason": "", "of": "o", "value": 2.0}
    cells = {("a", "x"): "2", ("a", "y"): "3", ("a", "z"): "9", ("b", "x"): "2.5", ("b", "y"): "7"}
    tables = [
        ("wide", "kept", 1.0, 3.0, 0.0, 5),
        ("narrow", "random", 1.75, 2.25, 0.5, 5),
        ("alone", "kept", 1, 3, 0, 1),
    ]
    for place, tolerance, low, high, difference, n in tables:
        table = pd.DataFrame([{"row": r, "column": c, "printed": x} for (r, c), x in cells.items()][:n])
        table = table.assign(place=place, claim=place, tolerance="", difference=0.0, **shared)
        table.loc[0, ["tolerance", "difference", "low", "high"]] = [tolerance, difference, low, high]
        printed = pd.concat([printed, table], ignore_index=True)
    return printed.assign(tolerance=printed["tolerance"].fillna(""))


def test_verdicts_are_told_on_a_screen_by_paper_kind_and_reason():
    table = hand_made_verdicts()
    table.attrs["missing"] = ["score/a", "score/b"]
    told = ledger_command.verdict_summary(table).split("\n")
    assert told[:8] == [
        "P: 8 printed numbers",
        "  4 recomputed from data: 2 equal, 1 under a convention, 1 differ",
        "  1 compared with the authors' stored results: 0 equal, 1 not decided",
        "  3 without a value here: 2 no run, 1 in words",
        "Q: 1 printed numbers",
        "  1 compared within the paper: 1 equal",
        "R: 11 printed numbers",
        "  11 recomputed from data: 11 equal",
    ]
    sd = 0.25 / 3.29  # of a difference between two runs, by the range of the tolerance
    assert told[8:11] == [
        "  R, wide: kept accepts 100% of wrong numbers, and decides nothing",
        f"  R, narrow: random stands beside differences {0.5 / sd:.1f} times as wide as between two runs, "
        "and decides nothing",
        "  R, alone: kept accepts 0% of wrong numbers, and decides nothing",
    ]
    assert told[11:13] == ["", "differs:"] and told[14].split() == ["P", "c", "data", "2", "1.2346", "0.7654"]
    assert told[15:] == ["not there: score/a, score/b"]
    equal = table[table["verdict"] == "equal"]
    equal.attrs.clear()
    assert "differs:" not in ledger_command.verdict_summary(
        equal
    ) and "not there" not in ledger_command.verdict_summary(equal)


SEVEN_CLAIMS = """
paper: {name: Example}
no_release: None.
reasons: {in_words: It is said in words.}
tables: {answers: {files: answers.csv}, others: {files: others.csv}}
claims:
- {place: T, of: a, printed: "0.75", id: a, ours: {call: mean, of: {table: answers, column: x}}}
- {place: T, of: b, printed: "0.7", id: b, ours: {call: mean, of: {table: others, column: x}}}
- {place: T, of: c, printed: "1", id: c, needs: [other.csv]}
- {place: T, of: c, printed: "1", id: d, needs: [other.csv]}
- {place: T, of: d, printed: "2", id: e, cannot: in_words}
- {place: T, of: d, printed: "2", id: f, cannot: in_words}
- {place: T, of: d, printed: "2", id: g, cannot: in_words}
"""


def test_a_claims_file_is_counted_for_its_author(tmp_path):
    "Of seven numbers two have what gives them, of which one is computed; of two a file is named, of three nothing."
    (tmp_path / "claims.yaml").write_text(SEVEN_CLAIMS, encoding="utf-8")
    (tmp_path / "answers.csv").write_text("x\n1\n1\n0\n1\n", encoding="utf-8")
    told = ledger_command.check_claims(tmp_path / "claims.yaml").split("\n")
    assert told[-2:] == [
        "Example: 7 claims, 2 with what gives them, 2 whose files alone are named, 3 that no file holds",
        "of those with what gives them, 1 were computed here, 1 not: no run",
    ]


def test_a_claim_from_a_table_that_its_file_does_not_declare_is_refused(tmp_path):
    (tmp_path / "claims.yaml").write_text(SEVEN_CLAIMS.replace("table: others", "table: other"), encoding="utf-8")
    with pytest.raises(ValueError, match="table must be declared in `tables`; got 'other'"):
        ledger_command.check_claims(tmp_path / "claims.yaml")


def test_the_files_of_a_paper_are_those_of_the_run_or_of_the_reports(tmp_path, monkeypatch):
    of = lambda study: SimpleNamespace(name="P", path=tmp_path / study / "claims.yaml")
    release = SimpleNamespace(repository="example.org/r", commit="c0ffee")
    monkeypatch.setattr(ledger_command, "releases", lambda: {"s": release})
    released = ledger_command._released_files
    assert (
        released(of("s"), None) is None and released(of("t"), tmp_path) is None and released(of("s"), tmp_path) is None
    )
    reported = tmp_path / "reports" / "replication" / "s" / "release.csv"
    reported.parent.mkdir(parents=True)
    reported.write_text("registered,file,sha256\nTrue,a.csv,1\nTrue,b.csv,2\n", encoding="utf-8")
    files = released(of("s"), tmp_path)
    assert files[:3] == ("P", "example.org/r", "c0ffee") and {k: str(v) for k, v in files.files.items()} == {
        "a.csv": "1",
        "b.csv": "2",
    }
    run = tmp_path / "results" / "ledger" / "s" / "verdicts.parquet"
    run.parent.mkdir(parents=True)
    run.touch()
    params = {"studies": {"s": {"prepare": {"path": "data/s"}}}}
    monkeypatch.setattr(ledger_command, "load_params", lambda file: params if file == tmp_path / "params.yaml" else {})
    known = {"files": {"c.csv": {"sha256": "3", "registered": True}}}
    monkeypatch.setattr(ledger_command, "recorded", lambda folder: known if folder == tmp_path / "data/s" else {})
    assert released(of("s"), tmp_path).files == {"c.csv": "3"}


def test_the_files_that_a_claims_file_declares_are_named_with_their_hashes(tmp_path):
    "Of a table its own files, of described ratings those of their description; a pattern names several."
    ratings = "{files: r.csv, item: i, rater: r, value: v, scale: 1..5}"
    text = SEVEN_CLAIMS.replace("{files: answers.csv}", "{files: 'a*.csv'}").replace(
        "{files: others.csv}", f"{{ratings: {ratings}}}"
    )
    (tmp_path / "claims.yaml").write_text(text, encoding="utf-8")
    for name in ("answers.csv", "also.csv", "r.csv", "unnamed.csv"):
        (tmp_path / name).write_text(f"i,r,v\n1,2,{len(name) % 5}\n", encoding="utf-8")
    files = ledger_command._declared_files(load_claims(tmp_path / "claims.yaml"), tmp_path)
    named = ("also.csv", "answers.csv", "r.csv")
    assert files[:3] == ("Example", "", "") and files.files == {n: sha256_file(tmp_path / n) for n in named}


@pytest.mark.parametrize("in_clone", [True, False])
def test_what_conclusions_rest_on_is_committed_in_the_clone(tmp_path, monkeypatch, in_clone):
    claims = SimpleNamespace(name="P", path=tmp_path / "s" / "claims.yaml")
    frame = pd.DataFrame({"paper": ["P", "Q"], "claim": ["a", "b"]})
    monkeypatch.setattr(ledger_command, "_here", lambda: tmp_path if in_clone else None)
    monkeypatch.setattr(
        ledger_command, "committed_tables", lambda folder, study, of: (folder, study, list(of["claim"]))
    )
    assert ledger_command._committed(claims, frame) is None, "no folder of replications"
    (tmp_path / "reports" / "replication").mkdir(parents=True)
    expected = (tmp_path / "reports" / "replication", "s", ["a"]) if in_clone else None
    assert ledger_command._committed(claims, frame) == expected
    monkeypatch.undo()
    monkeypatch.setenv("MHBENCH_ROOT", str(tmp_path))
    assert ledger_command._here() is None
    for name in ("params.yaml", "dvc.yaml"):
        (tmp_path / name).touch()
    assert ledger_command._here() == tmp_path


def test_verdicts_of_all_papers_come_with_notes_on_what_has_changed_or_has_not_run(monkeypatch):
    "Three papers: one without a run, one with changed claims, one whose other numbers need no run."
    monkeypatch.setattr(ledger_command, "study_files", lambda name: dict.fromkeys("abc", "file"))
    names = iter("ABC")
    monkeypatch.setattr(ledger_command, "load_claims", lambda file: SimpleNamespace(name=next(names)))
    stored: list[tuple] = []
    runs = {"a": None, "b": "run", "c": None}
    monkeypatch.setattr(ledger_command, "stored_verdicts", lambda *given: stored.append(given) or runs[given[0]])
    reason = {"A": ["not_fetched", ""], "B": ["no_run", ""], "C": ["in_words", ""]}
    merged = lambda c, run, inventory: (
        pd.DataFrame({"paper": c.name, "reason": reason[c.name]}),
        3 * (run is not None),
    )
    monkeypatch.setattr(ledger_command, "merged_verdicts", merged)
    monkeypatch.setattr(ledger_command, "inventory_of", lambda study: None)
    frame, claims, notes = ledger_command.all_verdicts_on_papers("top", runs=False)
    assert frame["paper"].tolist() == list("AABBCC") and [c.name for c in claims] == list("ABC")
    assert stored == [(study, "top", False) for study in "abc"] and frame.index.tolist() == list(range(6))
    assert notes == [
        "A: no run here: `mhbench fetch a`, then `mhbench replicate a`",
        "B: 3 claims were changed since its run: `mhbench replicate b`",
    ]
