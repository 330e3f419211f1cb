"A command changes the entry that it is about, and no other character of somebody's file."

import difflib
from types import SimpleNamespace

import pytest
import yaml
from conftest import ROOT

from mhbench.run.params import load_params
from mhbench.tools import edit as edit_module
from mhbench.tools.edit import edit, forget_corpus, import_corpus, replaced, select

PARAMS, RUN = ((ROOT / name).read_text(encoding="utf-8") for name in ("params.yaml", "run.yaml"))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "params.yaml").write_text(PARAMS, encoding="utf-8")
    (tmp_path / "run.yaml").write_text(RUN, encoding="utf-8")
    return tmp_path


def changed(before: str, after: str) -> list[str]:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
    return [x for x in lines if x[0] in "+-" and x[:3] not in ("+++", "---")]


def test_a_selection_changes_its_own_lines_and_goes_back_to_every_character(folder):
    select(["mhqa"], ["minilm"], 20, params=folder / "params.yaml")
    now = (folder / "run.yaml").read_text(encoding="utf-8")
    assert "  studies: [mhqa]\n" in now and "  items: 20   " in now and now.count("#") == RUN.count("#")
    assert (folder / "params.yaml").read_text(encoding="utf-8") == PARAMS
    select(demo=True, params=folder / "params.yaml")
    assert (folder / "run.yaml").read_text(encoding="utf-8") == RUN


@pytest.mark.parametrize(
    ("said", "now"),
    [
        ("  studies: [mentat, psychiatrybench, medqade, counselingbench, mhqa]", "  studies: [mhqa]"),
        ("  studies:  # mine\n      - mentat\n      # and\n      - mhqa\n", "  studies: [mhqa]  # mine\n"),
        ('  "studies": ["mentat", mhqa]   # mine', '  "studies": [mhqa]   # mine'),
    ],
)
def test_however_an_entry_is_written(folder, said, now):
    written = RUN.replace("  studies: [mentat, psychiatrybench, medqade, counselingbench, mhqa]", said, 1)
    after = replaced(written, ("run", "studies"), ["mhqa"])
    assert after == written.replace(said, now, 1) and yaml.safe_load(after)["run"]["studies"] == ["mhqa"]


def test_what_entries_share_is_not_changed_behind_their_back(folder):
    shared = PARAMS.replace("      ratings:\n", "      ratings: &none\n", 1)
    shared = shared.replace("      ratings:\n", "      ratings: *none\n", 1)
    (folder / "params.yaml").write_text(shared, encoding="utf-8")
    with pytest.raises(ValueError, match="without aliases and merged keys; got .*; write them out"):
        edit(folder / "params.yaml", {("studies", "psychiatrybench", "prepare", "ratings"): "r.csv"})
    assert (folder / "params.yaml").read_text(encoding="utf-8") == shared


def test_an_imported_corpus_takes_the_lines_of_its_study_and_gives_them_back(folder):
    (folder / "corpus").mkdir()
    (folder / "corpus" / "x.csv").write_text("id\n1\n", encoding="utf-8")
    with pytest.raises(ValueError, match="must be among mentat, .*; got 'conversations'"):  # no corpus
        import_corpus("conversations", folder / "corpus", params=folder / "params.yaml")
    import_corpus("medqade", folder / "corpus", params=folder / "params.yaml")
    after = (folder / "params.yaml").read_text(encoding="utf-8")
    entry = PARAMS[PARAMS.index("  medqade:\n") : PARAMS.index("  counselingbench:\n")]
    assert {x[1:] for x in changed(PARAMS, after) if x[0] == "-"} <= set(entry.splitlines())
    assert load_params(folder / "params.yaml")["studies"]["medqade"]["prepare"]["sha256"]
    forget_corpus("medqade", params=folder / "params.yaml")
    assert (folder / "params.yaml").read_text(encoding="utf-8") == PARAMS


# ---------------------------------------------------------------- by hand


def test_a_first_import_takes_the_recipe_and_keeps_whom_the_study_asks(monkeypatch, tmp_path):
    recipe = {"generate": {"modes": {"cot": {}}}, "judge": {"kind": "score"}, "score": {"n": 1}, "duels": {}}
    monkeypatch.setattr(edit_module, "recipe_of", {"own": recipe}.get)
    monkeypatch.setattr(edit_module, "all_simulated", lambda file: file == tmp_path / "sim.csv")
    answers = {"demo": "data/s/a.csv", "sim": "sim.csv", "mine": "mine.csv"}
    prepare = {"loader": "own", "path": "data/s", "answers": answers, "sha256": None}
    entry = {"prepare": prepare, "generate": {"n_items": 3}, "judge": {"judges": ["j"], "n_items": 2}, "score": None}
    entry |= {"panel": {"x": 1}, "annotate": {"kind": "agree"}}
    settings = {"judge": {"kind": "label", "more": {"a": 1}}, "duels": {"x": 1}}
    kept = {"loader": "own", "path": "data/s", "answers": {"mine": "mine.csv"}, "sha256": None}
    found = edit_module._imported_entry(entry, settings, tmp_path)
    assert found == {
        "prepare": kept,
        "generate": {"modes": {"cot": {}}},
        "judge": {"kind": "label", "judges": ["j"], "more": {"a": 1}},
        "score": {"n": 1},
        "annotate": {"kind": "agree"},
    }
    assert list(found) == ["prepare", "generate", "judge", "score", "annotate"]
    again = entry | {"prepare": prepare | {"sha256": "0", "answers": None}}
    found = edit_module._imported_entry(again, {}, tmp_path)
    assert found == again | {"prepare": again["prepare"] | {"answers": {}}}, "its own settings stay"
    prepare["loader"] = "table"
    assert edit_module._imported_entry(entry, {}, tmp_path)["panel"] == {"x": 1}


@pytest.mark.parametrize(
    ("n_items", "n_aside", "options", "is_read"),
    [(3, 2, {}, True), (3, 3, {}, False), (3, 0, {}, False), (3, 1, {"strict": True}, False), (0, 1, {}, False)],
)
def test_rows_that_do_not_fit_are_set_aside_where_most_rows_do(monkeypatch, n_items, n_aside, options, is_read):
    corpus = SimpleNamespace(items=[1] * n_items)

    def read(loader, path, study, options):
        if options.get("strict") is not False:
            raise ValueError("a row does not fit")
        return corpus, [{}] * n_aside

    monkeypatch.setattr(edit_module, "read_corpus", read)
    given = dict(options)
    if not is_read:
        with pytest.raises(ValueError, match="a row does not fit"):
            edit_module.read_fitting_rows("own", "p", "s", given)
        assert given == options
    else:
        assert edit_module.read_fitting_rows("own", "p", "s", given) == (corpus, [{}] * n_aside)
        assert given == options | {"strict": False}


def test_a_corpus_is_read_with_the_rows_that_are_set_aside(monkeypatch):
    def load(loader, path, study, **options):
        if "set_aside" in options:
            with open(options["set_aside"], "w", encoding="utf-8") as f:
                f.write('{"a": 1}\n{"a": 2}\n' if loader == "some" else "")
        return loader, study, {k: v for k, v in options.items() if k != "set_aside"}

    monkeypatch.setattr(edit_module, "load_corpus", load)
    assert edit_module.read_corpus("some", "p", "s", {"n": 1}) == (("some", "s", {"n": 1}), [])
    lenient = {"n": 1, "strict": False}
    assert edit_module.read_corpus("some", "p", "s", lenient) == (("some", "s", lenient), [{"a": 1}, {"a": 2}])
    assert edit_module.read_corpus("all", "p", "s", lenient)[1] == []


def test_ratings_of_people_bring_the_stages_that_can_read_them(tmp_path, monkeypatch):
    (tmp_path / "params.yaml").touch()
    (tmp_path / "r.csv").write_text("x")
    entries = {"s": {"prepare": {}, "agreement": {"n": 1}}, "t": {"ratings": {}}}
    edits = []
    sections = {"preferences": {"a": 1}, "agreement": {"n": 2}}
    state = {"ratings": ["r"], "found": (sections, None)}
    monkeypatch.setattr(edit_module, "load_params", lambda params, lists: {"studies": entries})
    monkeypatch.setattr(edit_module, "ratings_of_file", lambda path: state["ratings"])
    monkeypatch.setattr(edit_module, "rated_sections", lambda ratings: state["found"])
    monkeypatch.setattr(edit_module, "FOR_RATINGS", ("preferences", "agreement", "panel"))

    def change(params, changes):
        edits.append(changes)
        return {"studies": {"s": entries["s"] | {at[2]: v for at, v in changes.items() if len(at) == 3}}}

    monkeypatch.setattr(edit_module, "edit", change)
    told = lambda: edit_module.name_ratings("s", tmp_path / "r.csv", params=tmp_path / "params.yaml")
    start = "s: ratings are those of r.csv from now on; they go through "
    assert told() == [f"{start}preferences, agreement", "added to studies.s: preferences"]
    path = ("studies", "s", "prepare", "ratings")
    assert edits.pop() == {("studies", "s", "preferences"): {"a": 1}, path: "r.csv"}
    state["found"] = ({}, "each answer is of another kind")
    assert told() == [f"{start}agreement"] and edits.pop() == {path: "r.csv"}
    state["ratings"] = []
    assert told() == [f"{start}no stage: each answer is of another kind"]
    state["found"] = ({}, None)
    assert told()[0].startswith(f"{start}no stage: there is no complete answer yet")
    for study, file, error in (
        ("t", "r.csv", "study must be among s; got 't'"),
        ("s", "gone.csv", "which does not exist"),
    ):
        with pytest.raises((ValueError, FileNotFoundError), match=error):
            edit_module.name_ratings(study, tmp_path / file, params=tmp_path / "params.yaml")


def test_a_file_is_replaced_as_a_whole_with_its_permissions_and_left_where_nothing_changes(tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text("one\ntwo\n")
    file.chmod(0o640)
    before = file.stat().st_ino
    edit_module.replace_file(file, "one\ntwo\n")
    assert file.stat().st_ino == before
    assert edit_module.difference(file, "one\nthree\n") == ["a.yaml changes:", "  -two", "  +three"]
    assert edit_module.difference(file, "one\ntwo\n") == []
    edit_module.replace_file(file, "one\nthree\n")
    assert file.read_text() == "one\nthree\n" and file.stat().st_mode & 0o777 == 0o640
    edit_module.replace_file(tmp_path / "new.yaml", "x")
    assert sorted(f.name for f in tmp_path.iterdir()) == ["a.yaml", "new.yaml"]


def test_a_path_inside_the_clone_is_told_from_its_root(tmp_path):
    top = tmp_path.resolve()
    assert edit_module.path_from(top / "a" / ".." / "b.csv", top) == "b.csv"
    assert edit_module.path_from(top.parent / "b.csv", top) == str(top.parent / "b.csv")


def test_the_results_of_a_study_are_removed_and_no_other_s(tmp_path):
    for name in (
        "results/studies/s/score",
        "results/studies/t/score",
        "results/text/s/prepare",
        "results/text/t/prepare",
        "figures/s/score",
    ):
        (tmp_path / name).mkdir(parents=True)
    edit_module._remove_results("s", tmp_path)
    left = sorted(f.relative_to(tmp_path).as_posix() for f in tmp_path.rglob("*") if f.parent.name in ("s", "t"))
    assert left == ["figures/s/score", "results/studies/t/score", "results/text/t/prepare"]


def test_options_are_values_of_yaml():
    given = ["a=1", "b=x=y", "c=[1, two]", "d=false", "a=2"]
    assert edit_module.options_by_name(given, "x") == {"a": 2, "b": "x=y", "c": [1, "two"], "d": False}
    for text, told in (
        ("a", "x must be NAME=VALUE; got 'a'"),
        ("=1", "got '=1'"),
        ("a=", "got 'a='"),
        ("a=[", "x a must have a value"),
    ):
        with pytest.raises(ValueError, match=told):
            edit_module.options_by_name([text], "x")
