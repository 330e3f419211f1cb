"""The ledger held against itself: twenty numbers altered on purpose are all found, none of the right ones is accused.

The claims are those of the papers. Their numbers come from a results folder that is made of the claims, from the
verdicts of the replications that are committed, and from the releases themselves where they are at hand.
"""

import re
from collections import Counter, defaultdict
from dataclasses import replace

import pandas as pd
import pytest
import yaml
from claiming import SLIPS, found_slips, slip, spread
from conftest import ROOT

from mhbench.ledger.claims import CallOf, CellOf, ClaimEntry, ClaimsFile, load_claims, read_printed
from mhbench.ledger.verdicts import (
    VERDICT_COLUMNS,
    claims_by_verdict,
    judge_claims,
    no_tables,
    tables_of_files,
    tables_of_run,
)
from mhbench.registry import claims_file, studies
from mhbench.run.cli import main
from mhbench.run.ledger import all_verdicts_on_papers

PAPERS = [study.name for study in studies()]
OUTSIDE = {"empathy": "docs/ledgers/empathy.yaml", "mentalbench": "docs/ledgers/mentalbench.yaml"}


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
        file = folder / stage / study / f"{table}.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        pd.DataFrame(of).to_parquet(file)


@pytest.mark.parametrize("study", ["mentat", "counselingbench", "mhqa"])
def test_twenty_slips_are_found_in_a_run(study, tmp_path):
    claims = load_claims(claims_file(study))
    chosen = plain_cells(claims)
    assert len(chosen) >= 20
    write_run(chosen, study, tmp_path)
    claims = replace(claims, claims=[replace(c, conventions={}, random=None, absent={}) for c in chosen])
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
    constant = [
        replace(c, ours=CallOf(call="sum", of=[value[c.id] / c.scale]), conventions={}, random=None) for c in kept
    ]
    claims = replace(claims, claims=constant)
    before, _ = found_slips(claims, no_tables, spread([c.id for c in kept]))
    assert set(before["verdict"]) == {"equal"}


@pytest.fixture(params=OUTSIDE)
def outside(request, datasets):
    folder = datasets / "outside" / request.param
    if not folder.is_dir():
        pytest.skip(f"no {folder} among the corpora")
    claims = load_claims(ROOT / OUTSIDE[request.param])
    return request.param, claims, tables_of_files(claims, folder)


def test_the_ledgers_of_two_releases_that_are_no_study_here(outside):
    name, claims, tables = outside
    counts = claims_by_verdict(judge_claims(claims, tables)).iloc[0, 1:].tolist()
    expected = {"empathy": [126, 18, 18, 0, 90, 0], "mentalbench": [144, 18, 53, 17, 56, 0]}
    assert counts == expected[name]  # claims, equal, convention, differs, cannot, not run


def test_slips_are_found_in_two_releases_that_are_no_study_here(outside):
    "Among what is equal as printed, or under a convention that is not the Monte Carlo error of an interval's end."
    _, claims, tables = outside
    # what follows from printed numbers changes with them
    claims = replace(claims, claims=[c for c in claims.claims if c.place != "Key Reliability Patterns Identified"])
    found = judge_claims(claims, tables).set_index("claim")
    rests = {c.id for c in claims.claims if c.random is None and c.column != "CI width" and not c.cannot}
    held = [i for i, verdict in found["verdict"].items() if i in rests and verdict in ("equal", "convention")]
    assert len(held) >= 14
    found_slips(claims, tables, spread(held))


# ---------------------------------------------------------------- conventions

CLAIMS = """
paper: {name: Example}
conventions: {first: One., second: Two., third: Three., random: Draws.}
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
    random: 0.05
  - rows: [d]
    conventions: {third: {table: t/nowhere, value: v}, first: *first}
"""


def written(folder, text=CLAIMS):
    (folder / "claims.yaml").write_text(text, encoding="utf-8")
    return load_claims(folder / "claims.yaml")


def table_of(**values):
    frame = pd.DataFrame({"of": list(values), "v": list(values.values())})
    return {"t/x": frame}.get


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
    found = judge_claims(written(tmp_path), table_of(plain=0.46, first=0.1, second=0.1)).set_index("row")
    assert found.loc["c", ["verdict", "convention", "n_tried"]].tolist() == ["convention", "random", 1]
    assert found.loc["b", "verdict"] == "differs"


def test_a_bound_has_no_monte_carlo_error(tmp_path):
    "Printed below 0.50, .54 in our run, draws may differ by .05: a bound is held or is not."
    text = CLAIMS.replace('c: ["0.50"]', 'c: ["<0.50"]')
    found = judge_claims(written(tmp_path, text), table_of(plain=0.54, first=0.9, second=0.9)).set_index("row")
    assert found.loc["c", "verdict"] == "differs"


def test_a_cell_of_a_turned_table_comes_from_one_row(tmp_path):
    (tmp_path / "r.csv").write_text("item,rater,v\n1,a,1\n1,b,2\n1,a,5\n1,a,6\n", encoding="utf-8")
    pivot = "pivot: {index: item, columns: rater, values: v}"
    for more, rows in (("", None), (", aggregate: mean", [[1, 4.0, 2.0]])):
        table = f"tables: {{r: {{file: r.csv, {pivot[:-1]}{more}}}}}}}\nclaims:"
        tables = tables_of_files(written(tmp_path, CLAIMS.replace("claims:", table, 1)), tmp_path)
        if rows is None:
            with pytest.raises(ValueError, match="got 2 rows too many"):
                tables("r")
        else:
            assert tables("r").to_numpy().tolist() == rows


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


def test_a_smaller_release_lacks_whole_models_and_nothing_else(tmp_path):
    text = """
paper: {name: Example}
reasons: {not_here: Not at hand.}
claims:
- place: T
  of: accuracy
  columns: [zero, few]
  rows: {a: [".5", ".5"], b: [".5", ".5"]}
  ours: {table: t/x, where: {model: "{row}", mode: "{column}"}, value: v}
  absent: {model: not_here}
"""
    claims = written(tmp_path, text)
    one = pd.DataFrame({"model": ["a", "a"], "mode": ["zero", "few"], "v": [0.5, 0.5]})
    found = judge_claims(claims, {"t/x": one}.get)
    assert found["reason"].tolist() == ["", "", "not_here", "not_here"]
    with pytest.raises(ValueError, match="got 0 for model=a, mode=few"):
        judge_claims(claims, {"t/x": one[:1]}.get)


@pytest.mark.parametrize(
    "call", ["os.system", "mhbench.stats.tests.np.array", "mhbench.run.cli.main", "mhbench.stats.x.y"]
)
def test_only_statistics_are_called(tmp_path, call):
    text = f"paper: {{name: E}}\nclaims:\n- {{place: T, of: x, printed: '1', ours: {{call: {call}, of: [1]}}}}\n"
    with pytest.raises(ValueError, match="a public function under mhbench.stats"):
        judge_claims(written(tmp_path, text), no_tables)


@pytest.mark.parametrize("file", ["../secret.csv", "/etc/passwd.csv", "notes.pdf"])
def test_files_are_those_of_the_release(tmp_path, file):
    text = f"""
paper: {{name: E}}
tables: {{t: {{file: {file}}}}}
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
    assert all(c.ours or c.conventions or c.cannot for c in claims.claims)
    found = judge_claims(claims, no_tables)
    assert list(found.columns) == VERDICT_COLUMNS and found["claim"].is_unique
    assert set(found.loc[found["reason"] != "", "verdict"]) == {"cannot"}


def test_the_command_counts_checks_judges_and_keeps(tmp_path, capsys):
    (tmp_path / "answers.csv").write_text("model,correct\na,1\na,0\nb,1\n")
    text = """
paper: {name: Example}
tables: {answers: {file: answers.csv}}
claims:
- place: Table 1
  of: accuracy
  columns: [accuracy]
  rows: {a: ["0.50"], b: ["0.90"]}
  ours: {call: mean, of: {table: answers, where: {model: "{row}"}, column: correct}}
"""
    written(tmp_path, text)
    file = str(tmp_path / "claims.yaml")
    assert main(["ledger", file, "--check"]) == 0 and "2 claims, 2 with what gives them" in capsys.readouterr().out
    assert main(["ledger", file, "--to", str(tmp_path / "v.csv")]) == 0
    said = capsys.readouterr().out
    assert "Example       2      1           0        1       0        0" in said and "Table 1/b/accuracy" in said
    kept = pd.read_csv(tmp_path / "v.csv", dtype={"printed": str}, keep_default_na=False)
    assert kept["printed"].tolist() == ["0.50", "0.90"] and kept["verdict"].tolist() == ["equal", "differs"]
    assert main(["ledger", file, "--from", str(tmp_path / "nowhere")]) != 0
    assert main(["ledger", "--check"]) != 0
    assert main(["ledger", file, "--to", str(tmp_path / "v.html")]) == 0
    assert "Table 1" in (tmp_path / "v.html").read_text(encoding="utf-8")


def test_the_documentation_shows_what_the_commands_print(datasets, capsys):
    page = (ROOT / "docs" / "howto-ledger.md").read_text(encoding="utf-8")
    shown = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    assert len(shown) == 2
    file, folder = str(ROOT / "docs" / "ledgers" / "empathy.yaml"), str(datasets / "outside" / "empathy")
    for text, options in zip(shown, (["--check"], ["--from", folder])):
        assert main(["ledger", file, *options]) == 0
        assert capsys.readouterr().out == text


def test_the_snippets_of_the_documentation_fit_the_grammar():
    page = (ROOT / "docs" / "howto-ledger.md").read_text(encoding="utf-8")
    blocks = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)]
    whole = {k: v for b in blocks for k, v in b.items() if k in ("paper", "reasons", "tables", "notes", "claims")}
    ClaimsFile(**whole)
    how = [b for b in blocks if not whole.keys() & b.keys()]
    entry = {k: v for k, v in whole["claims"][0].items() if k != "cannot"}
    assert len(how) == 3 and how[1]["conventions"].keys() == {"positions"}
    for b in (how[0], how[2]):
        ClaimEntry(**entry, **b)


def test_all_papers_are_counted_without_any_run():
    verdicts, claims, notes = all_verdicts_on_papers()
    assert len(claims) == verdicts["paper"].nunique() == len(PAPERS) and len(verdicts) == sum(
        len(c.claims) for c in claims
    )
    assert all("mhbench replicate" in note for note in notes)
