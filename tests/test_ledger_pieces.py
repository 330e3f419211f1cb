"The ledger's parts by hand: files of a release, what is searched for, and how a number stands on the page."

import hashlib
import json
from pathlib import PurePosixPath
from types import SimpleNamespace

import pandas as pd
import pytest

from mhbench.ledger import page, release
from mhbench.ledger.claims import read_printed
from mhbench.ledger.release import Blob, Derived, FileGroup, Inventory, Release, ReleasedFile, Tree

BLOBS = {f"a/{k}.csv": Blob(f"{k:040d}", 10 * k) for k in range(5)} | {
    "a/b/x.csv": Blob("f" * 40, None),
    "y.txt": Blob("0" * 40, 3),
}
TREE = Tree("o/r", "c" * 40, BLOBS)


@pytest.mark.parametrize(
    ("pattern", "paths"),
    [
        ("a/*.csv", [f"a/{k}.csv" for k in range(5)]),
        ("a/**.csv", [*(f"a/{k}.csv" for k in range(5)), "a/b/x.csv"]),
        ("a/?.csv", [f"a/{k}.csv" for k in range(5)]),
        ("?.txt", ["y.txt"]),
        ("a/b/x.csv", ["a/b/x.csv"]),
        ("a/b", []),
        ("a/?/x.csv", ["a/b/x.csv"]),
        ("a.b/x.csv", []),
    ],
)
def test_patterns_stay_within_a_folder_unless_they_say_otherwise(pattern, paths):
    assert TREE.matching(pattern) == paths


def test_the_same_bytes_may_lie_at_several_places():
    assert TREE.paths_of["0" * 40] == ["a/0.csv", "y.txt"] and TREE.paths_of["f" * 40] == ["a/b/x.csv"]


def test_a_tree_is_read_with_its_repository_its_commit_and_its_files(tmp_path):
    lines = [f"# o/r at {'c' * 40}", "blob\tsize\tpath", f"{'1' * 40}\t7\ta b.csv", f"{'2' * 40}\t\tc.csv"]
    (tmp_path / "t.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    expected = Tree("o/r", "c" * 40, {"a b.csv": Blob("1" * 40, 7), "c.csv": Blob("2" * 40, None)})
    assert release.repository_tree(tmp_path / "t.tsv") == expected
    for wrong in ("# o/r at c", lines[0] + "0", "o/r"):
        (tmp_path / "t.tsv").write_text("\n".join([wrong, *lines[1:]]), encoding="utf-8")
        with pytest.raises(ValueError, match="tsv must begin with its repository and commit"):
            release.repository_tree(tmp_path / "t.tsv")
    (tmp_path / "t.tsv").write_text("\n".join([lines[0], "size\tblob\tpath"]), encoding="utf-8")
    with pytest.raises(ValueError, match="tsv must begin"):
        release.repository_tree(tmp_path / "t.tsv")


def test_what_is_searched_for_is_missing_not_here_or_here():
    label = lambda path: f"{path} (blob {BLOBS[path].id[:10]})"
    inventory = Inventory(TREE, {BLOBS["a/1.csv"].id, "f" * 40})
    none = inventory.search(["y.txt", "z.csv", "w*"])
    assert none == ("not_in_release", "no path of 7 of o/r at ccccccc fits z.csv, w*")
    assert inventory.search(["a/1.csv", "a/b/*"]) == ("", f"{label('a/1.csv')}; {label('a/b/x.csv')}")
    absent = [label(f"a/{k}.csv") for k in (0, 2, 3, 4)]
    assert inventory.search(["a/*.csv"]) == ("not_fetched", "; ".join(absent)), "four are all named"
    more = inventory.search(["a/*.csv", "y.txt"])
    assert more.files == "; ".join([*absent[:3], "and 2 more"])
    assert inventory.search(["a/1.csv"]) is inventory.search(iter(["a/1.csv"])), "searched once"


def test_contents_are_known_by_gits_sum_or_by_sha_256(tmp_path):
    file = tmp_path / "a"
    file.write_bytes(b"hello")
    blob = hashlib.sha1(b"blob 5\0hello").hexdigest()
    assert release.blob_id(file) == blob
    sha = hashlib.sha256(b"hello").hexdigest()
    assert ReleasedFile(blob=blob).is_in(file) and ReleasedFile(sha256=sha).is_in(file) and ReleasedFile().is_in(file)
    assert not ReleasedFile(blob=sha).is_in(file) and not ReleasedFile(sha256=blob).is_in(file)
    assert ReleasedFile(blob="b", sha256="s").digest == "b" and ReleasedFile(sha256="s").digest == "s"


def made(**more) -> Release:
    given = {"title": "T", "repository": "https://h/o/r", "commit": "c0ffee", "licence": "MIT", "terms": "None."}
    groups = [
        FileGroup(there="data/raw/*", to="raw/{}", files={"a.csv": ReleasedFile(size=1)}),
        FileGroup(there="a/*.csv", to="{}"),
    ]
    return Release(**given | {"groups": groups} | more)


def test_files_of_a_release_have_a_place_here_and_one_there():
    bare = made()
    assert list(bare.files(["**"])) == [("raw/a.csv", "data/raw/a.csv", ReleasedFile(size=1))]
    whole = bare.model_copy(update={"tree": TREE})
    of_tree = lambda path: ReleasedFile(size=BLOBS[path].size, blob=BLOBS[path].id)
    own = [("raw/a.csv", "data/raw/a.csv", ReleasedFile(size=1))]
    own += [(f"{k}.csv", f"a/{k}.csv", of_tree(f"a/{k}.csv")) for k in range(5)]
    assert list(whole.files()) == own
    further = [(path, path, of_tree(path)) for path in ("y.txt", "a/b/x.csv")]
    assert list(whole.files(["y*", "**"])) == [*own, *further], "each once, in the order of the patterns"
    assert whole.address("a b/x.csv") == "https://h/o/r/raw/c0ffee/a%20b/x.csv"


@pytest.mark.parametrize(
    ("there", "to", "path", "here"),
    [
        ("data/raw/*", "raw/{}", "clone/data/raw/a.csv", "raw/a.csv"),
        ("data/raw/*", "raw/{}", "own/raw/a.csv", "raw/a.csv"),
        ("data/raw/*.csv", "raw/{}", "own/raw/a.txt", None),
        ("data/raw/*", "raw/{}", "own/other/a.csv", None),
        ("data/*", "{}", "a.csv", None),
        ("data/*", "{}", "x/data/a.csv", "a.csv"),
    ],
)
def test_a_path_belongs_to_a_group_in_the_authors_layout_or_in_ours(there, to, path, here):
    assert FileGroup(there=there, to=to).holds(PurePosixPath(path)) == here


@pytest.mark.parametrize("to", ["/raw/{}", "../{}", "raw/{name}", "raw/}{"])
def test_a_place_lies_below_the_folder(to):
    with pytest.raises(ValueError, match="must be a path below the folder, with"):
        FileGroup(there="a/*", to=to)


def test_the_root_of_a_clone_has_files_where_the_authors_have_them_alone(tmp_path):
    assert not made().is_clone_root(tmp_path)
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/a.csv").touch()
    (tmp_path / "data/raw/folder").mkdir(parents=True)
    assert not made().is_clone_root(tmp_path)
    (tmp_path / "data/raw/a.csv").touch()
    assert made().is_clone_root(tmp_path)


def test_a_record_lies_in_the_folder_of_a_release_or_up_to_two_above(tmp_path):
    (tmp_path / "release.json").write_text(json.dumps({"commit": "c"}), encoding="utf-8")
    for place in (".", "a", "a/b"):
        assert release.recorded(tmp_path / place) == {"commit": "c"}
    assert release.recorded(tmp_path / "a/b/c") == {}


def test_an_inventory_has_what_was_fetched_and_what_repeats_a_released_file(monkeypatch, tmp_path):
    derived = {
        "joined.csv": Derived(how="joined", of="a/2.csv"),
        "ours.csv": Derived(how="ours"),
        "odd.csv": Derived(how="x", of="gone"),
    }
    declared = {"s": made(derived=derived).model_copy(update={"tree": TREE}), "t": made()}
    monkeypatch.setattr(release, "releases", lambda: declared)
    assert release.inventory_of("none") is None and release.inventory_of("t") is None
    assert set(release.inventory_of("s").here) == set()
    files = {
        "1.csv": {"blob": BLOBS["a/1.csv"].id},
        "joined.csv": {"blob": "j"},
        "ours.csv": {},
        "odd.csv": {"blob": "o"},
    }
    (tmp_path / "release.json").write_text(json.dumps({"files": files}), encoding="utf-8")
    inventory = release.inventory_of("s", tmp_path)
    assert inventory.tree is TREE and set(inventory.here) == {BLOBS["a/1.csv"].id, BLOBS["a/2.csv"].id, "j", "o"}
    assert declared["s"].find_derivation("x/ours.csv").how == "ours" and declared["s"].find_derivation("z.csv") is None


# The page -------------------------------------------------------------------------------------------------------------

MINUS = "\N{MINUS SIGN}"


@pytest.mark.parametrize(
    ("value", "printed", "signed", "text"),
    [
        (0.75123, "0.75", False, "0.7512"),
        (-0.75, "0.7", False, f"{MINUS}0.750"),
        (1353.0, "1,353", False, "1,353"),
        (1353.5, "1,353", False, "1,353.50"),
        (2.0, "2.0", False, "2.000"),
        (0.25, "0.7", True, "+0.250"),
        (-3.0, "5", True, f"{MINUS}3"),
        (float("nan"), "5", False, ""),
    ],
)
def test_a_value_has_two_more_digits_than_its_printed_number(value, printed, signed, text):
    assert page.format_value(value, read_printed(printed), signed) == text


def test_a_claim_on_the_page_has_its_words_and_its_links():
    paper = page._Paper(SimpleNamespace(name="P"), 2)
    row = {
        "of": "accuracy",
        "row": "A",
        "column": "",
        "printed": "0.75",
        "value": 0.5,
        "difference": -0.25,
        "kind": "data",
    }
    row |= {"verdict": "differs", "convention": "cut_off, random", "reason": "", "note": "n1"}
    view = page._build_claim_view(paper, 7, row)
    assert {k: view[k] for k in view if k not in row or k in ("difference",)} == {
        "id": "k-2-7",
        "what": "accuracy \N{MIDDLE DOT} A",
        "ours": "0.5000",
        "difference": f"{MINUS}0.2500",
        "said": page.SAID["differs"],
        "made_of": page.EVIDENCE_KINDS["data"],
        "why": [
            {"to": "c-2-cut_off", "name": "cut off"},
            {"to": "c-2-random", "name": "random"},
            {"to": "n-2-n1", "name": "evidence"},
        ],
        "conventions": ["cut_off", "random"],
        "named": "cut off, random",
    }
    bare = row | {
        "verdict": "cannot",
        "convention": "",
        "note": "",
        "reason": "no_run",
        "kind": "",
        "column": "B",
        "value": float("nan"),
    }
    view = page._build_claim_view(paper, 1, bare)
    assert (view["what"], view["ours"], view["difference"], view["made_of"]) == (
        "accuracy \N{MIDDLE DOT} A \N{MIDDLE DOT} B",
        "",
        "",
        "",
    )
    assert view["why"] == [{"to": "r-2-no_run", "name": "no run"}] and view["named"] == ""
    undecided = page._build_claim_view(paper, 1, row | {"verdict": "undecided", "convention": ""})
    assert undecided["named"] == page.SAID["undecided"] and undecided["difference"] == ""


def test_the_title_has_the_number_of_papers_as_a_word():
    papers = [page._Paper(SimpleNamespace(name=f"P{k}"), k) for k in range(11)]
    assert page._page_title(papers[:1]) == "What P0 prints, and what its released files give"
    for n, word in ((2, "two"), (10, "ten"), (11, "11")):
        assert page._page_title(papers[:n]) == f"What {word} papers print, and what their released files give"


def test_the_price_of_a_tolerance_is_told_in_percent_and_by_its_p_value(monkeypatch):
    rows = [
        ("T", "o", "my_random", 0.125, float("nan"), 2.345, 0.0009),
        ("U", "o", "kept", float("nan"), 0.0, 1.0, 0.001),
    ]
    rows.append(("V", "o", "cut", 1.0, 0.5, float("nan"), float("nan")))
    columns = ["place", "of", "tolerance", "across", "along", "spread", "p"]
    monkeypatch.setattr(page, "tolerances", lambda verdicts: pd.DataFrame(rows, columns=columns))
    found = [(r["name"], r["what"], r["across"], r["along"], r["runs"]) for r in page._tolerance_rows(pd.DataFrame())]
    assert found == [
        ("my random", "T: o", "12%", "", "2.35 (p < .001)"),
        ("kept", "U: o", "", "0%", "1.00 (p 0.001)"),
        ("cut", "V: o", "100%", "50%", ""),
    ]


def paper_of(*rows, notes=None, conventions=None, reasons=None, claims=()) -> page._Paper:
    file = SimpleNamespace(
        notes=notes or {}, conventions=conventions or {}, reasons=reasons or {}, paper=SimpleNamespace(url="u")
    )
    paper = page._Paper(SimpleNamespace(name="P", file=file, claims=list(claims)), 1)
    columns = {
        "verdict": "equal",
        "note": "",
        "conventions": [],
        "place": "T",
        "reason": "",
        "files": "",
        "beside": "",
        "kind": "data",
    }
    paper.claim_rows = [columns | {"claim": f"c{k}", "n_tried": 0} | row for k, row in enumerate(rows)]
    return paper


def note(title="", discovery=False, notebook="") -> SimpleNamespace:
    return SimpleNamespace(title=title, discovery=discovery, notebook=notebook, says=" Said. ", doubt=" Doubt. ")


def test_a_note_is_told_once_and_then_referred_to():
    notes = {
        "one_note": note(notebook="nbs/x.ipynb"),
        "two": note("Two", True, "https://h/x"),
        "three": note("Three", True, "own.md"),
    }
    rows = [
        {"verdict": "differs", "note": "one_note"},
        {"verdict": "equal", "note": "two"},
        {"verdict": "undecided", "note": "two"},
    ]
    rows += [{"verdict": "undecided", "note": "", "place": "U"}, {"verdict": "differs", "note": "", "place": "V"}]
    rows += [
        {"verdict": "undecided", "note": "one_note", "conventions": ["c"]},
        {"verdict": "convention", "note": "two"},
    ]
    paper = paper_of(*rows, notes=notes)
    two, three = page._list_discoveries(paper)
    assert (two["title"], two["id"], [r["claim"] for r in two["rows"]]) == ("Two", "n-1-two", ["c2", "c6"])
    assert (two["says"], two["doubt"], two["notebook"], two["link"]) == (
        "Said.",
        "Doubt.",
        "https://h/x",
        "https://h/x",
    )
    assert three["rows"] == [] and three["link"] == ""
    first, again, unknown = page._differences_by_note(paper)
    assert (first["title"], first["link"], [r["claim"] for r in first["rows"]]) == (
        "T",
        "../nbs/x.ipynb",
        ["c0"],
    )
    assert (again["again"], again["title"], again["id"], [r["claim"] for r in again["rows"]]) == (
        "n-1-two",
        "Two",
        "",
        ["c2"],
    )
    assert (unknown["title"], unknown["says"], unknown["id"]) == ("U, V", "We have no explanation for it.", "")


def test_a_convention_has_the_numbers_that_are_equal_under_it_and_those_it_was_named_for():
    convention = SimpleNamespace(says=" Cut. ", source=" section 1 ")
    claims = [SimpleNamespace(id=f"c{k}", conventions={"cut": 1} if k < 3 else {}, random=k > 3) for k in range(6)]
    rows = [
        {"verdict": "convention", "conventions": ["cut"], "note": "n"},
        {"verdict": "undecided", "conventions": ["cut"]},
    ]
    rows += [
        {"verdict": "cannot"},
        {"verdict": "differs", "conventions": ["cut"]},
        {"verdict": "cannot"},
        {"verdict": "equal", "n_tried": 2},
    ]
    declared = {"cut": convention, "random": convention, page.INPUTS: convention}
    paper = paper_of(*rows, notes={"n": note("N")}, conventions=declared, claims=claims)
    cut, random = page._list_conventions(paper)
    assert {k: cut[k] for k in ("id", "name", "says", "source", "inputs", "named", "without", "undecided")} == {
        "id": "c-1-cut",
        "name": "Cut",
        "says": "Cut.",
        "source": "section 1",
        "inputs": False,
        "named": 3,
        "without": 1,
        "undecided": 1,
    }
    assert [r["claim"] for r in cut["rows"]] == ["c0", "c1"] and [n["title"] for n in cut["notes"]] == ["N"]
    assert (random["named"], random["without"], random["rows"]) == (2, 1, [])
    totals = page._convention_totals([paper], paper.claim_rows)
    assert totals == {"declared": 2, "attempts": 2, "tried": 1, "held": 1}


def test_numbers_without_a_value_are_counted_by_reason_and_by_what_was_searched_for():
    missing = {"verdict": "cannot", "reason": "no_run"}
    rows = [
        missing,
        missing | {"files": "a", "beside": "r"},
        missing | {"files": "a", "beside": "r"},
        missing | {"files": "b"},
    ]
    rows += [
        {"verdict": "cannot", "reason": "own"},
        {"verdict": "equal"},
        {"verdict": "differs"},
        {"verdict": "equal", "kind": "paper"},
    ]
    paper = paper_of(*rows, reasons={"own": " Words. ", "r": " Beside. "})
    no_run, own = page._list_missing_value_reasons(paper)
    assert (no_run["id"], no_run["n"], no_run["says"]) == ("r-1-no_run", 4, page.WITHOUT_VALUE["no_run"])
    assert no_run["of"] == [{"files": "a", "beside": "Beside.", "n": 2}, {"files": "b", "beside": "", "n": 1}]
    assert own == {"id": "r-1-own", "n": 1, "says": "Words.", "of": []}
    [counts] = page._verdicts_in_words([paper])
    assert (counts["paper"], counts["url"], counts["claims"], counts["without"]) == ("P", "u", 8, 5)
    assert [(k["kind"], k["n"], [(v["verdict"], v["n"]) for v in k["of"]]) for k in counts["kinds"]] == [
        ("data", 2, [("equal", 1), ("differs", 1)]),
        ("stored", 0, []),
        ("paper", 1, [("equal", 1)]),
    ]
    links = [("r-1-no_run", "no run", 4), ("r-1-own", "own", 1)]
    assert [(r["to"], r["name"], r["n"]) for r in counts["reasons"]] == links
    assert (
        page._entries_by_paper([paper, paper], "x", lambda p: [1] if p is paper else [])
        == [{"paper": "P", "x": [1]}] * 2
    )
