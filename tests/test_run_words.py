"""Parameters, new studies, rounds, summaries, panels and stages: what is read, refused and said, by tables."""

import datetime
import io
import json
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import yaml

from mhbench.encode.store import StoreSettings, store_path
from mhbench.errors import NOTES
from mhbench.records.database import stage_folder
from mhbench.records.schema import AWAITING, Item, Judgment, Rating, Response, write_records
from mhbench.run import graph, params, shape, stage
from mhbench.stats.prediction_powered import card_moments
from mhbench.steps.failures import Failure
from mhbench.tools import annotate, commands, edit, new_study, panel, summary
from mhbench.tools.manifest import RunPart


def item(name: str, **more) -> Item:
    given = {"study": "s", "task": "multiple_choice", "question": f"What about {name}?", "options": ["a", "b"]}
    return Item(**given | {"item_id": name, "key": ["A"], "source": f"{name}.csv:2"} | more)


class Terminal:
    "A standard input at which somebody sits."

    def isatty(self):
        return True


# Parameters and the selection -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "name", "told"),
    [
        (None, "", "nothing"),
        ({"a": 1, "b": 2}, "", "a mapping of 2"),
        ([1], "", "a list of 1"),
        ("text", "", "'text'"),
        (3, "", "3"),
        ("x" * 58, "", "'" + "x" * 58 + "'"),
        ("x" * 70, "", "'" + "x" * 59 + " ..."),
        ("s3cret", "api_key", "a value that is not shown"),
    ],
)
def test_a_value_is_shown_short_and_never_where_it_is_a_key(value, name, told):
    assert shape.short_repr(value, name) == told


def test_names_are_listed_and_the_nearest_one_is_proposed():
    assert shape.listed(["a", None]) == "a, null"
    assert shape.listed(map(str, range(20))).endswith("18, 19") and shape.listed(range(23)).endswith(
        "18, 19 and 3 more"
    )
    assert shape.nearest("modle", [None, "model", "study"], "none") == "did you mean model?"
    assert shape.nearest("x", ["model"], "none") == "none"


def test_the_lines_of_entries_are_known_and_keys_that_are_wrong():
    text = "a: 1\nb:\n  - x\n  - c: 2\nd: {e: 3}\n1: f\na: 2\nbase: &b {g: 1}\nmore:\n  <<: *b\n"
    lines, faults = shape._keys(yaml.compose(text))
    assert {k: lines[k] for k in (("b",), ("b", 0), ("b", 1, "c"), ("d", "e"), ("more",))} == {
        ("b",): 2,
        ("b", 0): 3,
        ("b", 1, "c"): 4,
        ("d", "e"): 5,
        ("more",): 9,
    }
    assert ("more", "<<") not in lines
    assert [(f.path, f.rule, f.got) for f in faults] == [
        (("1",), "be named by a text", "1"),
        (("a",), "stand once", "it again, first in line 1"),
    ]
    assert faults[0].remedy == 'put it in quotes: "1"'
    fault = shape.Fault(("b", 1, "z"), "be", "none")
    assert str(fault) == "b.1.z must be; got none" and fault.line(lines) == 4
    assert shape.Fault(("z",), "be", "none").line(lines) == 0


@pytest.fixture(scope="module")
def known():
    "The repository's parameters."
    return params.load_params(graph.root() / "params.yaml")


@pytest.mark.parametrize(
    ("place", "value", "told"),
    [
        ("seed", "one", ("seed must be a whole number; got 'one'", "write a number, without quotes")),
        ("seed", None, ("seed must be a whole number; got nothing", "give it a value, or take the entry out")),
        ("run.items", -1, ("run.items must be 0 or more; got -1", "")),
        ("run.studies", "mhqa", ("run.studies must be a list; got 'mhqa'", "put it in brackets: [mhqa]")),
        ("models.minilm.endpoint", 3, ("models.minilm.endpoint must be a text; got 3", 'put it in quotes: "3"')),
        ("models.minilm.sreved", "x", ("models.minilm.sreved must be one of", "did you mean served?")),
        ("models.minilm.api_key", "x", ("models.minilm.api_key must", "")),
        (
            "studies.mhqa.score.seed",
            1,
            ("studies.mhqa.score.seed must be left to the run; got an entry", "seed and executor stand"),
        ),
        (
            "studies.mhqa.prepare.sha256",
            "abc",
            ("studies.mhqa.prepare.sha256 must be a SHA-256, 64 hex", "let `mhbench import` write it"),
        ),
    ],
)
def test_a_wrong_entry_is_told_with_its_rule_and_its_remedy(known, place, value, told):
    p = json.loads(json.dumps(known))
    *inside, last = place.split(".")
    at = p
    for part in inside:
        at = at[part]
    at[last] = value
    found = [f for f in shape.misshapen(p) if ".".join(map(str, f.path)) == place]
    assert found and str(found[0]).startswith(told[0]) and found[0].remedy.startswith(told[1])
    assert shape.misshapen(known) == []


QUOTE, GIVE = "put it in quotes: ", "give it a value, or take the entry out"
NUMBER = "write a number, without quotes"
DATE = datetime.date(2026, 1, 2)
METHODS = "be one of holm, bh, bonferroni"
FAULTS = [  # entry, value, what it must be, what it is, the remedy
    ("seed", 1.5, "be a whole number", "1.5", ""),
    ("seed", True, "be a whole number", "True", ""),
    ("seed", "none", "be a whole number", "'none'", f"{NUMBER}; null stands for none"),
    ("seed", DATE, "be a whole number", "2026-01-02, which YAML takes for a date", f'{QUOTE}"2026-01-02"'),
    ("models.minilm.served", DATE, "be a text", "2026-01-02, which YAML takes for a date", f'{QUOTE}"2026-01-02"'),
    ("models.minilm.served", 3.5, "be a text", "3.5", f'{QUOTE}"3.5"'),
    ("models.minilm.served", None, "be a text", "nothing", GIVE),
    ("models.minilm.scale", 0, "be above 0", "0", ""),
    ("models.minilm.scale", "x", "be a number", "'x'", NUMBER),
    ("models.minilm.scale", float("inf"), "be a number", "inf", ""),
    ("models.minilm.price", {"prompt": "none"}, None, "'none'", f"{NUMBER}; null stands for none"),
    ("models.minilm.price", 3, "be a mapping", "3", ""),
    ("models.minilm.n_items", 0, "be 1 or more", "0", ""),
    ("models.minilm.thinking", "yes", "be true or false", "'yes'", ""),
    ("models.minilm.sampling", {"temperature": 3}, None, "3", ""),
    ("models.minilm.sampling", {"stop": 3}, None, "3", f'{QUOTE}"3"'),
    ("models.minilm.seed", 1, "be one of endpoint, served, ", "'seed'", "did you mean served?"),
    ("models.minilm.model", 1, "be one of endpoint, served, ", "'model'", "take it out, or mend the spelling"),
    ("run.models", ["minilm", "minilm"], "not repeat an entry", "a list of 2", ""),
    ("run.models", None, "be a list", "nothing", GIVE),
    ("run.models", {"a": 1}, "be a list", "a mapping of 1", ""),
    ("run.judges", 3, "be a list", "3", ""),
    ("score.n_boot", 10**12, "be 1000000 or less", "1000000000000", ""),
    ("score.method", "bonferoni", METHODS, "'bonferoni'", "did you mean bonferroni?"),
    ("score.method", "none", METHODS, "'none'", "take one of these; null stands for none"),
    ("score.method", 3, METHODS, "3", "take one of these"),
    ("score.study", "x", "be left to the run", "an entry", "seed and executor stand at the top of the file"),
    ("study", "x", "be one of seed, run, endpoints, ", "'study'", "did you mean studies?"),
    ("executor", 3, "be a mapping", "3", ""),
    ("models", 3, "be a mapping", "3", ""),
    ("endpoints", None, "be a mapping", "nothing", GIVE),
    ("studies", [], "be a mapping", "a list of 0", ""),
    ("studies.mhqa.score", 3, "be a mapping", "3", ""),
    ("store.max_gb", -1, "be 0 or more", "-1", ""),
    ("studies.mhqa.generate.modes", {"zero": {}}, "be one of zero_shot, ", "'zero'", "did you mean zero_shot?"),
]


@pytest.mark.parametrize(("place", "value", "rule", "got", "remedy"), FAULTS)
def test_a_wrong_entry_is_one_mistake_told_in_full(known, place, value, rule, got, remedy):
    "Of a mapping with one wrong entry (no rule given) the mistake is that entry's."
    p = json.loads(json.dumps(known))
    *inside, last = place.split(".")
    at = p
    for part in inside:
        at = at.setdefault(part, {})
    at[last] = value
    [fault] = shape.misshapen(p)
    assert (fault.got, fault.remedy) == (got, remedy)
    path = ".".join(map(str, fault.path))
    assert path == place if rule else path == f"{place}.{next(iter(value))}"
    assert fault.rule.startswith(rule or "be ") and (rule is None or rule.endswith(" ") or fault.rule == rule)


@pytest.mark.parametrize("place", ["seed", "models", "endpoints.local.kind", "models.gemma.endpoint"])
def test_an_entry_that_is_not_there_is_told_with_its_place(known, place):
    p = json.loads(json.dumps(known))
    *inside, last = place.split(".")
    at = p
    for part in inside:
        at = at[part]
    del at[last]
    [fault] = shape.misshapen(p)
    assert fault == shape.Fault(tuple(place.split(".")), "be there", "nothing", "add it")


@pytest.mark.parametrize(
    ("name", "rule", "remedy"),
    [
        ("a b", "have names of letters, digits, '.', '_' and '-'", "rename it: results and stages are named after it"),
        ("x" * 101, "have 100 characters or fewer", ""),
        ("x" * 100, None, ""),
        ("-x", "have names of letters, digits, '.', '_' and '-'", "rename it: results and stages are named after it"),
    ],
)
def test_the_name_of_an_entry_is_one_of_a_file(known, name, rule, remedy):
    p = json.loads(json.dumps(known))
    p["models"][name] = p["models"]["gemma"]
    expected = [shape.Fault(("models",), rule, shape.short_repr(name), remedy)] if rule else []
    assert shape.misshapen(p) == expected


def test_fields_that_do_not_fit_each_other_are_told_by_model_and_endpoint(known):
    "What only the whole of an entry shows; nothing of it where the entry has another mistake."
    p = json.loads(json.dumps(known))
    p["endpoints"]["local"]["top_logprobs"] = 9
    [fault] = shape.misshapen(p)
    assert fault.path == ("endpoints", "local") and fault.rule == "hold together"
    assert fault.got.startswith("kind local takes gguf, sha256, ") and fault.got.endswith("; take top_logprobs out")
    encoder = p["models"]["minilm"]["endpoint"]
    p["endpoints"][encoder]["gguf"] = "x"
    p["endpoints"]["local"].pop("top_logprobs")
    [fault] = shape.misshapen(p)
    kind = p["endpoints"][encoder]["kind"]
    assert (fault.path, fault.got) == (("endpoints", encoder), f"kind {kind} takes nothing else; take gguf out")
    p["endpoints"][encoder]["kind"] = 3
    assert [f.path for f in shape.misshapen(p)] == [("endpoints", encoder, "kind")]
    whole = json.loads(json.dumps(known))
    whole["endpoints"]["remote"] = {"kind": "openai", "base_urls": []}
    assert [f.path[:2] for f in shape.misshapen(whole)] == [("endpoints", "remote")]


@pytest.mark.parametrize(
    ("text", "n"),
    [("x" * 999, 1998), ("x" * 1000, 2000), ("- []\n" * 1991, 1999), ("- []\n" * 1992, 2000), ("- {}\n" * 1992, 2000)],
)
def test_a_text_that_may_be_nested_deep_is_read_by_pythons_own_reader(text, n):
    "At most so many levels as it has brackets that open, and indents: two a character of its longest line."
    if not hasattr(yaml, "CSafeLoader"):
        pytest.skip("no libyaml here")
    assert shape._loader_of(text) is (yaml.CSafeLoader if n < 2000 else yaml.SafeLoader)
    assert shape._loader_of("a: [") is yaml.SafeLoader, "whose message it is"


def test_entries_are_counted_up_to_a_limit(monkeypatch):
    monkeypatch.setattr(shape, "_MOST_ENTRIES", 4)
    assert len(shape._keys(yaml.compose("{a: 1, b: [x, y]}"))[0]) == 4
    with pytest.raises(OverflowError):
        shape._keys(yaml.compose("{a: 1, b: [x, y, z]}"))


HINT = ", or say `mhbench select --demo`, which writes it anew"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "must be there; got nothing; change to the clone, or name the file with --params"),
        (b"a: \xff", "must be UTF-8; got byte 3 that is not; save it as UTF-8"),
        (b"a: 1\n\tb: 2\n", "must be YAML; got .* .line 2.; indent with spaces, not with a tab"),
        (b"a: 1\nb: [1\n", "must be YAML; got .* .line 3.; look for a bracket, a quote or a colon at that place"),
        (b"a: \x01", "must be YAML; got .*; take the odd character out"),
        (b"", "must hold the entr.*; got nothing; compare it with `git diff"),
        (b"[a]", "must hold the entr.*; got a list; compare"),
        (b"word", "must hold the entr.*; got a text; compare"),
        (b"x: 2026-13-45", "must be YAML; got .*; take the odd"),
    ],
)
@pytest.mark.parametrize("name", ["params.yaml", "run.yaml"])
def test_a_file_that_cannot_be_read_is_told_with_the_remedy(tmp_path, name, content, told):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"load_params: {name} {told}") as e:
        shape.read_tree(tmp_path / name)
    assert str(e.value).endswith(HINT) == (name == "run.yaml")
    assert ("hold the entry run;" in str(e.value)) == ("hold the entr" in told and name == "run.yaml")


def test_a_folder_in_place_of_a_file_and_aliases_without_end_are_told(tmp_path):
    (tmp_path / "params.yaml").mkdir()
    with pytest.raises(ValueError, match="must be a file; got a folder; name the file itself"):
        shape.read_tree(tmp_path / "params.yaml")
    (tmp_path / "run.yaml").write_text("a: &a [x, *a]\n")
    with pytest.raises(ValueError, match="must be of a size that can be read; got aliases of aliases"):
        shape.read_tree(tmp_path / "run.yaml")
    (tmp_path / "p.yaml").write_text("a: {b: 1}\n")
    shape.read_tree(tmp_path / "p.yaml").content["a"]["b"] = 2
    assert shape.read_tree(tmp_path / "p.yaml").content == {"a": {"b": 1}}, "what is given away is a copy"


def test_a_cell_of_parameters_has_a_line_for_each_with_its_words(monkeypatch, tmp_path):
    "The given ones first, then those of the class itself, then inherited ones; long comments stand above."
    from typing import Literal

    from pydantic import create_model

    base = shape.stage_classes()["score"].__mro__[1]
    more = {"kind": (Literal["a", "b"], shape.field("a", "which")), "long": (str, shape.field("x", "word " * 30))}
    more |= {
        "names": (list[str], shape.field([f"name{k}" for k in range(10)], "")),
        "n": (int, shape.field(3, "how many")),
    }
    first = create_model("First", __base__=base, late=(int, shape.field(1, "")))
    made = create_model("Made", __base__=first, **more)
    monkeypatch.setenv("MHBENCH_ROOT", str(graph.root()))
    monkeypatch.chdir(tmp_path)  # where no line length is declared
    lines = shape.parameters_cell(made, {"n": 5}).split("\n")
    names = [line.partition(" = ")[0] for line in lines if not line.startswith("#")]
    given = [k for k in shape.GIVEN if k in made.model_fields]
    assert names == [*given, "kind", "long", "names", "n", *(k for k in first.model_fields if k not in given)]
    assert 'kind = "a"  # a, b: which' in lines and "n = 5  # how many" in lines
    at = lines.index('long = "x"')
    assert lines[at - 2].startswith("# word word") and lines[at - 1].startswith("# word") and len(lines[at - 2]) <= 118
    [wide] = [line for line in lines if line.startswith("names = ")]
    assert 88 < len(wide) <= 120 and wide.endswith('"name9"]')


def test_every_notebook_has_the_parameters_of_its_class_and_one_that_has_not_is_stored_as_it_is(tmp_path, monkeypatch):
    assert shape.stale_cells() == {}
    file = tmp_path / "a.ipynb"
    monkeypatch.setattr(shape, "stale_cells", lambda: {file: {"b": "é", "a": 1}})
    shape.write_schema(tmp_path / "schema.json")
    assert file.read_text(encoding="utf-8") == '{\n "a": 1,\n "b": "é"\n}\n'


def test_a_cell_that_is_out_of_step_is_written_anew_and_the_notebook_as_it_is_stored(tmp_path, monkeypatch):
    stored = graph.root() / "nbs" / "stages" / "score.ipynb"
    in_another_order = dict(reversed(json.loads(stored.read_text(encoding="utf-8")).items()))
    changed = tmp_path / "score.ipynb"
    changed.write_text(json.dumps(in_another_order).replace("n_boot = 1000", "n_boot = 10"), encoding="utf-8")
    monkeypatch.setattr(shape, "notebook_files", lambda top, stage: [changed] if stage == "score" else [])
    shape.write_schema(tmp_path / "schema.json")
    assert changed.read_bytes() == stored.read_bytes()
    assert (tmp_path / "schema.json").read_bytes() == (graph.root() / "params.schema.json").read_bytes()


def test_all_mistakes_are_told_in_the_order_of_the_file():
    at = {("a",): 9, ("b",): 2}
    with pytest.raises(ValueError) as e:
        shape.refuse_all(
            [
                shape.Fault(("a", "x"), "be", "1", "mend a"),
                shape.Fault(("b",), "be", "2"),
                shape.Fault(("c",), "be", "3"),
            ],
            "p.yaml",
            at,
        )
    assert str(e.value).split("\n")[1:] == [
        "  c must be; got 3",
        "  line 2: b must be; got 2",
        "  line 9: a.x must be; got 1; mend a",
    ]
    assert "p.yaml must hold together; got 3 mistakes:" in str(e.value)
    with pytest.raises(ValueError, match=r"a must be; got 1 \(p.yaml, line 9\); mend"):
        shape.refuse_all([shape.Fault(("a",), "be", "1", "mend")] * 2, "p.yaml", at)
    with pytest.raises(ValueError) as e:
        shape.refuse_all([shape.Fault((f"x{k}",), "be", "1") for k in range(53)], "p.yaml", {})
    assert str(e.value).endswith("\n  and 3 more") and str(e.value).count("must be; got 1") == 50
    shape.refuse_all([], "p.yaml", {})


def test_a_selection_beside_the_parameters_holds_the_run_and_it_alone(tmp_path, known):
    alone = {k: v for k, v in known.items() if k != "run"}
    for p, chosen, got in (
        (known, {"run": known["run"]}, "got one in params.yaml too"),
        (alone, {"run": known["run"], "seed": 1}, "got the entries run, seed"),
        (alone, {"seed": 1}, "got the entries seed"),
    ):
        (tmp_path / "params.yaml").write_text(yaml.safe_dump(p, sort_keys=False), encoding="utf-8")
        (tmp_path / "run.yaml").write_text(yaml.safe_dump(chosen, sort_keys=False), encoding="utf-8")
        with pytest.raises(ValueError, match=got):
            params.load_params(tmp_path / "params.yaml")


def test_the_selection_is_told_in_words(known):
    p = json.loads(json.dumps(known))
    p["run"] |= {"studies": ["mhqa"], "ratings": [], "models": ["minilm"], "items": 5}
    p["models"]["minilm"]["n_items"] = 3
    told = commands.selection(p)
    assert told[:2] == ["studies: mhqa", "models: minilm"]
    assert told[-2:] == [
        "items: at most 5 a study, in each of its modes",
        "  at most, of a mode, by their own entries: minilm 3",
    ]
    p["run"] |= {"items": 0, "models": []}
    told = commands.selection(p)
    assert told[1] == "models: nobody is asked; recorded answers are scored" and told[-1] == "items: all"
    p["run"]["items"] = None
    assert not commands.selection(p)[-1].startswith("items")


def test_ties_are_broken_by_whom_the_panel_of_the_study_names_or_the_panel_of_all(known):
    p = json.loads(json.dumps(known))
    p["studies"]["medqade"]["panel"]["tie_breaker"] = "p1"
    named = lambda: [params._tie_breaker_of_panel(p, study) for study in ("medqade", "mhqa", None)]
    p["panel"] = {"tie_breaker": "p2"}
    assert named() == ["p1", "p2", "p2"]
    del p["panel"]
    assert named() == ["p1", None, None]


def test_whom_a_study_names_stays_beside_a_model_that_cannot_be_asked_and_without_an_entry_is_nobody(known):
    p = json.loads(json.dumps(known))
    p["run"] |= {"studies": ["counselingbench"], "models": ["minilm", "gemma"]}
    models_in_place_of = {("minilm", "gemma"): None, ("gemma", "qwen-0.5b"): ["gemma"], ("nobody",): ["gemma"]}
    for judges, models in models_in_place_of.items():
        p["studies"]["counselingbench"]["duels"]["judges"] = [*judges]
        assert edit._following(p, ("duels",), ("judges",), ("encoder",)) == models


def test_recording_runs_each_stage_that_asks_into_results_and_a_cache_of_its_own(monkeypatch):
    ran = []
    monkeypatch.delenv("MHBENCH_CACHE", raising=False)
    monkeypatch.setattr(commands.execute, "run_stage", lambda *part, params, overrides: ran.append((part, overrides)))
    monkeypatch.setattr(commands, "write_recorded", lambda answers, models: dict.fromkeys(models, 2))
    folder = graph.root() / ".mhbench" / "recording"
    assert [*commands.record(only="approach")] == ["approach psychiatrybench : gemma 2, qwen-0.5b 2, qwen-1.5b 2"]
    kept = {"results": str(folder / "results"), "cache": str(folder / "cache.sqlite")}
    assert ran == [(("approach", "psychiatrybench", None), kept)]
    said = [*commands.record()]
    assert len(said) == len(ran) - 1 and {part[0] for part, _ in ran[1:]} >= {"prepare", "generate", "judge", "duels"}
    assert {given["results"] for _, given in ran} == {kept["results"]}
    assert {part[0] for part, given in ran if "cache" not in given} <= {"prepare", "collect", "score"}


TEXT = "a: 1  # one\nb:\n  c: [x, y]\n  d:\n    - p\n    - q\n# end\ne: {f: 2}\n"


@pytest.mark.parametrize(
    ("entry", "value", "old", "new"),
    [
        (("a",), 2, "a: 1  # one", "a: 2  # one"),
        (("a",), None, "a: 1  # one", "a:  # one"),
        (("b", "c"), ["z"], "c: [x, y]", "c: [z]"),
        (("b", "d"), ["z"], "d:\n    - p\n    - q\n", "d: [z]\n"),
        (("e", "f"), None, "{f: 2}", "{f: null}"),
        (("b", "new"), {"k": 1}, "    - q\n", "    - q\n  new: {k: 1}\n"),
        (("new",), "ä", "e: {f: 2}\n", "e: {f: 2}\nnew: ä\n"),
    ],
)
def test_one_entry_is_replaced_and_every_other_character_stays(entry, value, old, new):
    assert edit.replaced(TEXT, entry, value) == TEXT.replace(old, new)


def test_the_lines_of_a_study_are_found_and_new_ones_come_last():
    text = "studies:\n  one:\n    score: {}\n  two: {}\n\nmodels: {}\n"
    first, last = edit.study_entry(text, "one", "p")
    assert text[first:last] == "  one:\n    score: {}"
    first, last = edit.study_entry(text, "new", "p")
    assert first == last and text[:first].endswith("two: {}")
    with pytest.raises(ValueError, match="studies must be entries on lines of their own"):
        edit.study_entry("studies: {one: {}}\n", "one", "p")
    assert edit.study_lines("one", {"score": {"a": [1, 2]}}) == "  one:\n    score:\n      a: [1, 2]"
    assert edit._merged_mappings({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"c": 4}, "e": 5}) == {
        "a": {"b": 1, "c": 4},
        "d": 3,
        "e": 5,
    }
    assert edit._as_before({"judges": ["b", "x"]}, "judges", ["a", "b"], ["a", "b"]) == ["b", "a"]
    assert (
        edit._as_before({"judges": ["x"]}, "judges", ["a"], ["a"]) == ["a"]
        and edit._as_before({}, "judges", ["a"], None) is None
    )


def test_rows_that_do_not_fit_are_told_up_to_a_number():
    aside = [{"place": f"r{k}", "column": "key", "rule": "be one", "value": "v" * 70} for k in range(12)]
    assert edit.rows_aside(aside[:1], 1) == [f"  r0, key: be one; got {'v' * 60}"]
    assert edit.rows_aside(aside, 10)[-1] == "  and 2 more" and len(edit.rows_aside(aside, 10)) == 11
    said = [Response(item_id="q", study="s", model="m", mode=mode, text="t") for mode in ("cot", "cot", "zero_shot")]
    corpus = SimpleNamespace(
        items=[1, 2], ratings=[1], responses=said, notes=["x is set aside, the first: y", "a note"]
    )
    lines = [
        "s: 2 items, 1 rating, 3 recorded answers",
        "  recorded: m in cot, 2 answers",
        "  recorded: m in zero_shot, 1 answer",
    ]
    assert edit.corpus_lines("s", corpus, []) == [*lines, "  x is set aside, the first: y", "  a note"]
    found = edit.corpus_lines("s", corpus, aside)
    assert found[3].startswith("  set aside: 12 rows that do not fit") and found[-2:] == ["    and 2 more", "  a note"]


# New studies ----------------------------------------------------------------------------------------------------------


def test_a_study_goes_through_the_stages_that_its_content_allows():
    written = item("w", task="open", options=[], key=["because"])
    stages, _ = new_study.sections(SimpleNamespace(items=[item("a")], ratings=[]), ["j"])
    assert stages == {"generate": {"modes": {"zero_shot": {}}}, "score": {}}
    stages, _ = new_study.sections(SimpleNamespace(items=[item("a"), written], ratings=[]), ["j"])
    assert stages["judge"] == {"kind": "score", "judges": ["j"]}
    soft = item("s", key=[], soft_labels=[0.5, 0.5])
    assert new_study.sections(SimpleNamespace(items=[soft], ratings=[]), [])[0]["score"] == {}
    with pytest.raises(
        ValueError, match="every question with options must have a key, .*; got 1 that have none .q, q.csv:2"
    ):
        new_study.sections(SimpleNamespace(items=[item("q", key=[])], ratings=[]), [])
    waiting = new_study.sections(SimpleNamespace(items=[item("q", key=[])], ratings=[]), [], {"preferences": {"x": 1}})[
        0
    ]
    assert waiting["score"] == {"soft_labels": True} and waiting["preferences"] == {"x": 1}


def test_judges_of_a_new_study_are_those_of_the_first_that_has_some_else_the_run_s_models():
    p = {"models": {"a": {}, "b": {}}, "run": {"models": ["b", "gone"]}, "studies": {"x": {}, "y": {"judge": None}}}
    assert new_study.default_judges(p) == ["b"]
    p["studies"] |= {
        "z": {"judge": {"judges": []}},
        "u": {"judge": {"judges": ["gone", "a"]}},
        "v": {"judge": {"judges": ["b"]}},
    }
    assert new_study.default_judges(p) == ["a"]


def test_a_new_study_of_ratings_or_of_several_labels_has_the_stages_for_them(monkeypatch):
    corpus = lambda *of: SimpleNamespace(items=list(of), ratings=[])
    several = item("m", task="multi_label", options=["a", "b", "c"], key=["a", "c"])
    stages, _ = new_study.sections(corpus(several), ["j"])
    assert stages["classification"] == {} and list(stages)[:3] == ["generate", "score", "classification"]
    paneled = new_study.sections(corpus(item("a")), ["j"], {"panel": {"x": 1}})[0]
    assert paneled["judge"] == {"kind": "label", "judges": ["j"]} and paneled["panel"] == {"x": 1}


def test_how_rows_were_read_is_told_by_kind_with_an_example():
    of = [
        item("a"),
        item("b"),
        item("c", key=[]),
        item("d", options=["x", "y", "z"]),
        item("e", task="open", options=[], key=["r"]),
    ]
    assert list(new_study.kinds_of_rows([of[2], *of[:2], *of[3:]])) == [
        "multiple_choice, 2 options, 1 right",
        "multiple_choice, 2 options, no key",
        "multiple_choice, 3 options, 1 right",
        "open, a reference answer",
    ]
    long = item("f", question="w " * 80, key=[])
    told = new_study.example(long, limit=20).split("\n")
    assert told == ["f.csv:2  " + "w " * 9 + "w…", "    A  a", "    B  b", "    right: not said"]
    assert new_study.example(item("a")).endswith("right: A")
    assert (
        new_study._commonest_values(["x"] * 3) == "one value: x" and new_study._numbers_in_words([3, 5, 4]) == "3 to 5"
    )
    assert new_study._commonest_values([*"aabbcd"]) == "4 values: a, b, c, …" and new_study._commonest_values(
        ["y" * 30, "z"]
    ).startswith("2 values: " + "y" * 23 + "…")
    assert new_study._lengths(["ab", "abcd"]) == "2 to 4 characters" and new_study._lengths(["ab"]) == "2 characters"


def test_nobody_agrees_without_a_terminal(monkeypatch):
    monkeypatch.setattr(sys, "stdin", Terminal())
    assert new_study.agreed("Write?", "f", lambda q: "YES") and not new_study.agreed("Write?", "f", lambda q: "")
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    with pytest.raises(ValueError, match=r"f: --yes must be said where nobody can be asked \(Write\?\)"):
        new_study.agreed("Write?", "f", lambda q: "y")


@pytest.mark.parametrize(
    ("texts", "lists", "pairs"),
    [
        (["a=1", "b=2=3"], (), {"a": "1", "b": "2=3"}),
        (["a=1", "a=2"], (), {"a": ["1", "2"]}),
        (["a=1"], ("a",), {"a": ["1"]}),
        ([], (), {}),
        (["a"], (), None),
    ],
)
def test_names_with_values_may_repeat(texts, lists, pairs):
    if pairs is not None:
        assert new_study._named_columns(texts, lists) == pairs
        return
    with pytest.raises(ValueError, match="--column must be NAME=VALUE; got 'a'"):
        new_study._named_columns(texts, lists)


ASKED = {"option": [], "loader": "table", "separator": None, "column": [], "sheet": None, "encoding": None, "key": None}


@pytest.mark.parametrize(
    ("given", "texts", "options"),
    [
        ({}, "closed", {"columns": None, "key": None, "separator": None, "sheet": None, "encoding": None}),
        ({"loader": "own"}, "closed", {}),
        ({"loader": "own"}, "here", {}),
        ({"loader": "own"}, "shared", {"licence": "own"}),
        ({"loader": "own", "option": ["licence=CC0", "n=2"]}, "shared", {"licence": "CC0", "n": 2}),
        (
            {"column": ["context=a", "question=b"], "separator": "\\n;\\t", "key": "letter", "sheet": "x"},
            "shared",
            {"columns": {"context": ["a"], "question": "b"}, "separator": "\n;\t", "key": "letter", "sheet": "x"}
            | {"encoding": None, "licence": "own"},
        ),
    ],
)
def test_what_a_loader_is_given_is_what_the_command_says(given, texts, options):
    assert new_study.asked_options(SimpleNamespace(**ASKED | given), texts) == options


@pytest.mark.parametrize(
    ("words", "at_a_terminal", "answers", "place"),
    [
        ({"texts": "shared"}, True, "", "shared"),
        ({"yes": True}, True, "", "closed"),
        ({}, False, "", "closed"),
        ({"option": ["licence=CC0"]}, True, "", "closed"),
        ({}, True, ["Ja "], "shared"),
        ({}, True, ["n", "y"], "here"),
        ({}, True, ["", "no"], "closed"),
    ],
)
def test_where_texts_may_stand_is_asked_once_and_only_of_somebody(monkeypatch, words, at_a_terminal, answers, place):
    monkeypatch.setattr(sys, "stdin", Terminal() if at_a_terminal else io.StringIO())
    left = list(answers)
    given = SimpleNamespace(**{"texts": None, "yes": False, "option": []} | words)
    assert new_study.where_texts_may_stand(given, lambda question: left.pop(0)) == place and not left
    told = {"here": "in results/private/report.html, on this machine", "closed": "its texts are protected"}
    sentence = new_study.describe_text_visibility([item("a", protected=False), item("b", protected=True)], place)
    assert told.get(place, "its texts are protected") in sentence
    assert (
        new_study.describe_text_visibility([item("a", protected=False)], place)
        == "its texts stand in the report and in exports"
    )


@pytest.mark.parametrize("place", ["closed", "here", "shared"])
@pytest.mark.parametrize("agrees", [True, False])
def test_a_new_study_is_shown_then_written_where_that_is_agreed(monkeypatch, capsys, place, agrees):
    proposed, written = [], []
    items = [item("a", protected=True), item("b", options=["x", "y", "z"], protected=True)]

    def propose(name, path, **more):
        proposed.append((name, path, more))
        return SimpleNamespace(corpus=SimpleNamespace(items=items))

    monkeypatch.setattr(new_study, "propose", propose)
    monkeypatch.setattr(new_study, "summary", lambda proposal: "the summary")
    monkeypatch.setattr(new_study, "where_texts_may_stand", lambda a: place)
    monkeypatch.setattr(new_study, "agreed", lambda question, function: agrees)
    monkeypatch.setattr(new_study, "write_study", lambda *a, **more: written.append((*a[1:], more)))
    words = {
        "params": "p.yaml",
        "name": "s",
        "path": "s.csv",
        "ratings": "r.csv",
        "ratings_scale": [0, 1],
        "not_rated": [],
    }
    words |= {"judges": [], "replace": True, "yes": False, "encoding": "cp1252"}
    new_study.new_study(SimpleNamespace(**ASKED | words))
    told = capsys.readouterr().out
    assert told.startswith("the summary\n\nas they will be asked, one of each kind:\n" + new_study.example(items[0]))
    assert new_study.example(items[1]) in told
    ratings = {"path": "r.csv", "scale": [0, 1], "encoding": "cp1252"}
    settings = {"loader": "table", "ratings": ratings, "judges": None, "replace": True}
    file = graph.root() / "p.yaml"
    options = new_study.asked_options(SimpleNamespace(**ASKED | words))
    expected = [("s", "s.csv", {"params": file, "options": options} | settings)]
    if place == "shared" and agrees:
        expected.append(("s", "s.csv", {"params": file, "options": options | {"licence": "own"}} | settings))
    assert proposed == expected
    assert written == ([(file, {"texts_in_report": place == "here"})] if agrees else [])
    after = "written to p.yaml and selected: `dvc repro` runs it (`mhbench select` takes other studies)\n"
    assert told.endswith(
        after + new_study.describe_text_visibility(items, place) + "\n" if agrees else "\nnothing was written\n"
    )
    proposed.clear()
    new_study.new_study(SimpleNamespace(**ASKED | words | {"ratings": None, "yes": True, "judges": ["j"]}))
    assert proposed[0][2]["ratings"] is None and proposed[0][2]["judges"] == ["j"] and written


def test_a_study_of_ratings_alone_has_their_description_and_folder(monkeypatch, capsys, tmp_path):
    written, read = [], []
    monkeypatch.setattr(new_study, "load_params", lambda params: {"studies": {"old": {}}})
    monkeypatch.setattr(new_study, "read_ratings", lambda *a: read.append(a) or "table")
    monkeypatch.setattr(new_study, "describe_ratings", lambda table: f"told of the {table}")
    monkeypatch.setattr(new_study, "write_study", lambda proposal, params: written.append((proposal, params)))
    (tmp_path / "files").mkdir()
    words = {"params": "p.yaml", "name": "new", "path": str(tmp_path / "r.yaml"), "replace": False, "yes": True}
    for option, folder in ([], None), ([f"folder={tmp_path / 'files'}"], str(tmp_path / "files")):
        new_study._new_release(SimpleNamespace(**words, option=option), tmp_path / "p.yaml")
        proposal, params = written.pop()
        stored = {"description": "r.yaml", "folder": "files" if folder else None}
        assert (proposal.name, params) == ("new", tmp_path / "p.yaml") and read.pop() == (tmp_path / "r.yaml", folder)
        assert proposal.entry == {"ratings": stored} and not proposal.corpus.items
        told = "told of the table\nwritten to p.yaml and selected: `dvc repro` runs it\n"
        assert capsys.readouterr().out == told
    monkeypatch.setattr(new_study, "agreed", lambda *a: False)
    new_study._new_release(SimpleNamespace(**words | {"yes": False}, option=[]), tmp_path / "p.yaml")
    assert capsys.readouterr().out == "told of the table\nnothing was written\n" and not written
    with pytest.raises(ValueError, match="old"):
        new_study._new_release(SimpleNamespace(**words | {"name": "old"}, option=[]), tmp_path / "p.yaml")


def test_ratings_are_described_or_written_one_a_row(monkeypatch, capsys, tmp_path):
    guessed = []
    monkeypatch.setattr(
        new_study, "guess_description", lambda *a: guessed.append(a) or SimpleNamespace(text=lambda: "guess: ä\n")
    )
    monkeypatch.setattr(new_study, "read_ratings", lambda path, folder: (path.name, folder))
    monkeypatch.setattr(new_study, "describe_ratings", lambda table: f"told of {table}")
    monkeypatch.setattr(new_study, "ratings_csv", lambda table, to: to.write_text(str(table), encoding="utf-8"))
    for name in ("r.csv", "r.yaml", "r.yml"):
        (tmp_path / name).touch()

    def told(name, to=None):
        file, to = str(tmp_path / name), to and str(tmp_path / to)
        new_study._ratings(
            SimpleNamespace(file=file, folder="f", to=to, column=["rater=x", "item=y=z"], sheet=None, encoding=None)
        )
        return capsys.readouterr().out

    assert told("r.csv") == "guess: ä\n\n" and guessed == [(tmp_path / "r.csv", {"rater": "x", "item": "y=z"})]
    assert told("r.csv", "d.yaml") == f"written: {tmp_path / 'd.yaml'}\n"
    assert (tmp_path / "d.yaml").read_text(encoding="utf-8") == "guess: ä\n" and len(guessed) == 2
    for name in ("r.yaml", "r.yml"):
        head = f"told of {(name, 'f')}\n"
        out = f"{name}.csv"
        assert told(name) == head and told(name, out) == f"{head}written: {tmp_path / out}\n"
        assert (tmp_path / out).read_text(encoding="utf-8") == str((name, "f")) and len(guessed) == 2
        with pytest.raises(FileExistsError, match="ratings: --to must not be there yet"):
            told(name, out)
        capsys.readouterr()
        with pytest.raises(ValueError, match="ratings: --to must end in .csv; got .*o.txt"):
            told(name, "o.txt")
        capsys.readouterr()
        assert not (tmp_path / "o.txt").exists()
    with pytest.raises(FileNotFoundError, match="ratings: FILE must be there; got .*gone.yaml"):
        told("gone.yaml")


# Rounds of people -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "public", "link"),
    [
        ("127.0.0.1", "", "http://127.0.0.1:9/in/t"),
        ("::1", "", "http://[::1]:9/in/t"),
        ("127.0.0.1", "https://host/study/", "https://host/study/in/t"),
    ],
)
def test_links_go_to_the_address_that_raters_see(capsys, tmp_path, host, public, link):
    of = {"study": "ward", "answers": str(tmp_path / "a.sqlite")}
    annotate.print_links(SimpleNamespace(host=host, port=9, public_url=public, **of), {"r": "t"})
    assert capsys.readouterr().out == f"  r: {link}\n"


def test_loopback_is_this_machine_alone_and_open_hosts_have_a_name(capsys, monkeypatch, tmp_path):
    of = {"study": "ward", "answers": str(tmp_path / "a.sqlite"), "port": 9, "public_url": ""}
    assert [
        annotate._on_loopback(h) for h in ("127.0.0.1", "127.8.0.1", "::1", "localhost", "0.0.0.0", "ward.example")
    ] == [True] * 4 + [False] * 2
    monkeypatch.setattr(annotate.socket, "gethostname", lambda: "ward")
    for host in ("0.0.0.0", "::", ""):
        annotate.print_links(SimpleNamespace(host=host, **of), {"r": "t"})
        assert capsys.readouterr().out == "  r: http://ward:9/in/t\n"


def test_sliders_ask_questions_of_one_number_of_options(capsys):
    two, three = [item(f"a{k}") for k in range(3)], [item("b", options=["x", "y", "z"])]
    written = item("w", task="open", options=[], key=["r"])
    assert annotate._one_width(two, None) is None
    assert annotate._one_width([*two, written], None) == ["a0", "a1", "a2"]
    assert "raters see 3 of 4 questions: those with 2 options" in capsys.readouterr().out
    assert annotate._one_width([*two, *three], 3) == ["b"]
    with pytest.raises(
        ValueError, match="must be said where .* different numbers .*; got 3 with 2 options, 1 with 3 options"
    ):
        annotate._one_width([*two, *three], None)
    for n in (5, 0):
        with pytest.raises(ValueError, match=f"--n-options must be one that questions have; got {n}"):
            annotate._one_width([*two, *three], n)
    with pytest.raises(ValueError, match="must have options for sliders; got none"):
        annotate._one_width([written], None)


def test_a_round_is_described_by_flags():
    flags = dict.fromkeys(
        ["kind", "n_options", "raters", "per_item", "repeats", "page_language", "title", "ask", "labels", "consent"]
    )

    def entry(items=(), **given):
        a = SimpleNamespace(
            **flags
            | {"ask": [], "labels": None, "consent": [], "study": "ward", "kind": "sliders", "repeats": 0}
            | given
        )
        return annotate.page_entry(a, list(items) or [item("a", language="de"), item("b", language="de")])

    assert entry() == {
        "kind": "sliders",
        "title": "ward",
        "language": "de",
        "assignment": {"rule": "everyone", "repeats": 0},
    }
    assert entry([item("a", language="de"), item("b")])["language"] == "en", "of several the usual one"
    more = entry(
        kind="yes_no",
        ask=["fit=Is it fit? "],
        per_item=2,
        repeats=3,
        title="T",
        consent=["I agree."],
        page_language="en",
    )
    rule = {"rule": "core_and_split", "n_core": 0, "per_item": 2, "repeats": 3}
    assert more == {
        "kind": "yes_no",
        "title": "T",
        "language": "en",
        "assignment": rule,
        "asks": {"fit": "Is it fit?"},
        "consent": ["I agree."],
    }
    assert entry([item("a"), item("b", options=["x", "y", "z"])], n_options=2)["item_ids"] == ["a"]
    for given, told in (
        (
            {"kind": "yes_no", "ask": ["no question"]},
            "--ask must be NAME=QUESTION with a word as NAME; got 'no question'",
        ),
        ({"kind": "yes_no", "ask": ["a b=x"]}, "--ask must be"),
        ({"kind": "yes_no", "ask": ["a= "]}, "--ask must be"),
        ({"kind": "yes_no"}, "--ask must be given for yes_no; got none"),
    ):
        with pytest.raises(ValueError, match=told):
            entry(**given)


# Summary --------------------------------------------------------------------------------------------------------------

ROW = {"study": "s", "stage": "score", "measure": "accuracy", "model": "m", "mode": "zero_shot", "n": 40, "n_unread": 0}
ROW |= {"estimate": 0.5, "ci_low": 0.25, "ci_high": 0.75, "origin": "asked"}


@pytest.mark.parametrize(
    ("more", "chance", "bar"),
    [
        ({}, None, ".....-----o-----....."),
        ({}, 0.25, ".....|----o-----....."),
        ({}, 1.0, ".....-----o-----....|"),
        ({"ci_low": 0.0, "ci_high": 1.0}, None, "----------o----------"),
        ({"ci_low": -0.1}, None, " " * 21),
        ({"ci_high": 1.1}, None, " " * 21),
        ({"ci_low": np.nan}, None, " " * 21),
    ],
)
def test_an_interval_is_drawn_to_scale_between_0_and_1(more, chance, bar):
    assert summary._bar(ROW | more, chance) == bar


def test_a_main_number_is_told_in_a_line_of_at_most_100_characters():
    line = summary._number_line(ROW, 0.25)
    assert line == "   0.500 [0.250, 0.750]   .....|----o-----..... n 40   m, zero shot: accuracy"
    assert "|" not in summary._number_line(ROW | {"measure": "kappa"}, 0.25) and "|" not in summary._number_line(
        ROW | {"stage": "x"}, 0.25
    )
    assert "m (simulated), 3 unread, zero shot" in summary._number_line(ROW | {"origin": "simulated", "n_unread": 3})
    bare = summary._number_line(
        ROW | {"ci_low": np.nan, "ci_high": np.nan, "n": np.nan, "n_unread": np.nan, "origin": None}
    )
    assert "no interval" in bare and " n " not in bare and "(" not in bare and "unread" not in bare
    long = summary._number_line(ROW | {"measure": "x" * 80})
    assert len(long) == 100 and "xxx...xxx" in long
    assert len(summary._number_line(ROW | {"measure": "x" * (100 - len(line) + 8)})) == 100


def test_a_share_that_refusals_made_says_how_many():
    assert summary._number_line(ROW | {"n_refused": 24, "n_unread": 3}).endswith(
        "m, 24 refused, 3 unread, zero shot: accuracy"
    )


def test_main_numbers_are_divided_among_studies():
    table = pd.DataFrame(
        [ROW | {"study": s, "model": f"m{k}"} for s, n in (("a", 9), ("b", 1), ("c", 5)) for k in range(n)]
    )
    table.loc[0, "origin"] = "simulated"
    told = summary.brief(table, lines=12)
    assert told[0] == "a, the first 3 of 9 main numbers" and told[4] == "b" and told[6] == "c"
    assert len(told) == 12 and "m1," in told[1] and "m0" not in "".join(told[1:4]), "who is simulated comes last"
    assert [x for x in summary.brief(table, lines=1) if not x.startswith(" ")][0] == "a, the first 1 of 9 main numbers"
    assert summary.brief(table[9:10], chance={"b": 0.25})[1] == summary._number_line(ROW | {"model": "m0"}, 0.25)


def test_how_a_run_went_is_told_in_three_lines(tmp_path):
    run = {"studies": ["a", "b"], "models": []}
    fresh = [RunPart("report", "", None, "fresh")]
    assert summary._how_it_went(tmp_path, run, fresh) == ["ran: a, b; asked: nobody"]
    noted = tmp_path / "metrics" / "a" / "prepare.json"
    noted.parent.mkdir(parents=True)
    made = {"n_ratings": 12, "n_by_models": 3, "n_simulated": 0, "n_raters": 2, "n_items": 4}
    noted.write_text(json.dumps(made), encoding="utf-8")
    told = ["ran: a, b; asked: nobody", "rated: a, 9 ratings by 2 people, 3 ratings by models of 4 questions"]
    assert summary._how_it_went(tmp_path, run, fresh) == told
    released = tmp_path / "metrics" / "talks" / "ratings.json"
    released.parent.mkdir()
    counted = {"n_ratings": 118, "n_by_models": 0, "n_simulated": 0, "n_missing": 1, "n_outside": 0}
    released.write_text(json.dumps(counted), encoding="utf-8")
    alone = {"studies": [], "models": ["m", "n"], "ratings": ["talks"]}
    told = ["ran: talks; asked: nobody", "rated: talks, 118 ratings by people, 1 missing"]
    assert summary._how_it_went(tmp_path, alone, fresh) == told
    noted.unlink()
    (tmp_path / "report").mkdir()
    for wrong, told in (([], ["nothing"]), (["x"], ["x"]), (["x", "y", "z"], ["x", "  and 2 more notes on the page"])):
        (tmp_path / "report" / "wrong.json").write_text(json.dumps(wrong), encoding="utf-8")
        found = summary._how_it_went(tmp_path, run | {"models": ["m", "n"]}, fresh)
        assert found == ["ran: a, b; asked: m, n", f"what went wrong: {told[0]}", *told[1:]]
    (tmp_path / "studies" / "a" / "score").mkdir(parents=True)
    lines = {"lines": {"chance, of four": 0.25, "pass mark": 0.6}}
    (tmp_path / "studies" / "a" / "score" / "contents.json").write_text(json.dumps(lines), encoding="utf-8")
    assert summary._chance(tmp_path) == {"a": 0.25}
    table = pd.DataFrame([ROW, ROW | {"study": "other"}])
    assert len(summary._of(table, "study", None)) == 2 and summary._of(table, "study", "s")["study"].tolist() == ["s"]
    with pytest.raises(ValueError, match="--study must be one of s, other; got 'othr'; did you mean other"):
        summary._of(table, "study", "othr")
    with pytest.raises(ValueError, match="`mhbench summary --csv` prints all"):
        summary._of(table, "study", "zzz")
    with pytest.raises(ValueError, match="--study must be one of none, since this run has no main number; got 's'"):
        summary._of(table[:0], "study", "s")


# Panels ---------------------------------------------------------------------------------------------------------------


def test_a_pilot_in_a_table_has_numbers_or_words_for_people_and_the_judge(tmp_path):
    file = tmp_path / "p.csv"
    rows = [("q1", "Correct", "1"), ("q1", "incorrect", "0"), ("q2", "1", "1"), ("q2", "", "0"), ("q3", "0", "")]
    rows += [(f"q{k}", "1", "0,0") for k in range(4, 8)]
    pd.DataFrame(rows, columns=["Case", "People", " judge"]).to_csv(file, index=False)
    found = panel._from_table(str(file))
    assert (found.name, found.judged, found.pilot.n, found.pilot.n_clusters) == ("p.csv", 8, 7, 6)
    some = [(name if k % 2 else "", *labels) for k, (name, *labels) in enumerate(rows)]
    pd.DataFrame(some, columns=["case", "people", "judge"]).to_csv(file, index=False)
    assert panel._from_table(str(file)).pilot.n_clusters == 7, "a row that names no case is a case of its own"
    for text, told in (
        ("people,judge\nx,1\n", "a label must be a number, Correct or Incorrect; got 'x'"),
        ('people,judge\n1,"1,000"\n', "a label must be a number, Correct or Incorrect; got '1,000'"),
        ("people\n1\n", "columns people and judge; got none named judge"),
    ):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(ValueError, match=told):
            panel._from_table(str(file))


def test_the_worth_of_a_judge_is_told_by_numbers_of_labels():
    known = panel._Known("card", card_moments(0.8, 1.0), 1000)
    told = panel._pilot_lines(known, [50, 200])
    assert told[0] == "card: correlation 0.80; 1000 answers judged" and len(told) == 3
    assert told[2].startswith("50 labels beside the judge are worth "), "the number nearest to 100"
    weak = panel._pilot_lines(panel._Known("card", card_moments(0.1, 1.0), 1000), [100])
    assert weak[-1].startswith("100 labels: the interval becomes 0% narrower. The judge buys correction, not precision")
    few = panel._pilot_lines(known._replace(judged=20), [2, 50])
    assert few[1:] == ["no number of labels among 2, 50 is of six cases or more, and below 20"]
    assert panel._numbers_of_option("1,2", "--labels", int) == [1, 2]
    with pytest.raises(ValueError, match="--labels must be numbers, comma-separated; got '1,x'"):
        panel._numbers_of_option("1,x", "--labels", int)


def test_the_answers_of_a_run_are_those_recorded_and_those_of_its_models(tmp_path, monkeypatch):
    said = lambda model: Response(item_id="a", study="s", model=model, mode="cot", text="t")
    texts = tmp_path / "text"
    write_records([item("a")], texts / "s/prepare/items.parquet", Item)
    write_records([said("recorded")], texts / "s/prepare/recorded.parquet", Response)
    write_records([said("m")], texts / "s/generate/m/responses.parquet", Response)
    items, found = panel.run_answers("s", ["m"], tmp_path)
    assert [i.item_id for i in items] == ["a"] and [r.model for r in found] == ["recorded", "m"]
    assert [r.model for r in panel.run_answers("s", [], tmp_path)[1]] == ["recorded"]
    with pytest.raises(FileNotFoundError, match="s/generate/n/responses.parquet; run `dvc repro generate`"):
        panel.run_answers("s", ["m", "n"], tmp_path)


# Stages ---------------------------------------------------------------------------------------------------------------


def test_numbers_are_written_with_six_digits_and_nothing_for_nan(tmp_path):
    values = {"b": np.float64(1.23456789), "a": [np.nan, (1, "x")], 3: {"c": np.int64(2)}, "d": float("inf"), "e": None}
    stage.write_metrics(values, tmp_path / "m.json")
    assert json.loads((tmp_path / "m.json").read_text(encoding="utf-8")) == {
        "a": [None, [1, "x"]],
        "b": 1.23457,
        "3": {"c": 2},
        "d": None,
        "e": None,
    }


def test_each_row_has_the_weightiest_origin_of_the_names_in_it():
    known = {"sim": "simulated", "rec": "recorded"}
    frame = pd.DataFrame({"model": ["m", "rec", "sim", None], "judge": ["m", "sim", "rec", "rec"], "text": ["sim"] * 4})
    assert stage.origin_column(frame, known) == ["asked", "simulated", "simulated", "recorded"]
    assert stage.origin_column(pd.DataFrame({"rec": [1, 2], "model": ["m", "sim"]}), known) == ["recorded", "simulated"]
    assert stage.origin_column(frame, {}) == ["asked"] * 4


@pytest.fixture
def made(tmp_path):
    "A stage of a study whose results are made by hand: two raters, one of them a model and one simulated."
    texts = tmp_path / "text/mhqa/prepare"
    write_records([item("a", study="mhqa"), item("b", study="mhqa")], texts / "items.parquet", Item)
    rated = {"study": "mhqa", "target": "A", "value": 1.0, "source": "x"}
    ratings = [Rating(item_id="a", rater="r", **rated), Rating(item_id="a", rater="sim", origin="simulated", **rated)]
    ratings.append(Rating(item_id="a", rater="judge", origin="recorded", variant={"annotator": "model"}, **rated))
    write_records(ratings, texts / "ratings.parquet", Rating)
    said = [
        Response(item_id="a", study="mhqa", model=m, mode="cot", text="t", origin=o)
        for m, o in (("rec", "recorded"), ("drawn", "simulated"))
    ]
    write_records(said, texts / "recorded.parquet", Response)
    write_records(
        [said[0].model_copy(update={"model": "minilm", "origin": "asked"})],
        tmp_path / "text/mhqa/generate/minilm/responses.parquet",
        Response,
    )
    return lambda name="score", **more: stage.Stage(name, "mhqa", tmp_path, **more)


def test_a_stage_reads_what_others_have_left(made, tmp_path):
    s = made(models=["minilm"])
    assert s.origins == {"sim": "simulated", "judge": "recorded", "rec": "recorded", "drawn": "simulated"}
    assert s.simulated == {"sim", "drawn"} and s.drawn_ratings and s.people == "simulated raters"
    assert [r.model for r in s.responses] == ["rec", "drawn", "minilm"] and [r.model for r in s.answers] == ["minilm"]
    assert list(s.stored.column("model")) == ["rec", "drawn", "minilm"] and [i.item_id for i in s.items] == ["a", "b"]
    assert s.judgments == [] and len(s.declared) == 0 and not s.has("prepare", "declared")
    (tmp_path / "studies/mhqa/prepare").mkdir(parents=True)
    pd.DataFrame({"x": [1]}).to_parquet(tmp_path / "studies/mhqa/prepare/declared.parquet")
    assert made().declared["x"].tolist() == [1]
    with pytest.raises(
        FileNotFoundError, match="no text/mhqa/keys/gold.parquet .mhqa.; run `dvc repro`, or the stage keys first"
    ):
        s.texts_of("keys", "gold", Item)
    with pytest.raises(ValueError, match="study must be named; got none"):
        stage.Stage("report", None, tmp_path).items
    table = s.parameters(seed=1, empty="", none=None, mode_of="x")
    assert table["parameter"].to_dict() == {"study": "mhqa", "models": "minilm", "seed": 1, "mode of": "x"}
    assert s.asked(pd.DataFrame({"model": ["drawn", "minilm", "rec"]}))["model"].tolist() == ["minilm", "rec"]
    assert s.set_aside({"strict": False}) == {
        "strict": False,
        "set_aside": str(tmp_path / "text/mhqa/score/set_aside.jsonl"),
    }
    assert s.set_aside({"strict": True}) == {"strict": True} and s.n_set_aside == 0
    s.records("kept", [item("z")], Item)
    (tmp_path / "text/mhqa/score/set_aside.jsonl").write_text("{}\n{}\n", encoding="utf-8")
    assert s.n_set_aside == 2 and [i.item_id for i in s.reread("kept", Item)] == ["z"]
    with pytest.raises(FileNotFoundError, match="soft_labels must have the labels of the preferences stage"):
        s.labelled_items(True)
    assert s.labelled_items(False) == s.items


def test_what_a_stage_leaves_is_registered_for_the_report(made, tmp_path, capsys):
    s = made(about="About.")
    shown = s.table(
        "one", pd.DataFrame({"model": ["minilm", "drawn"], "x": [1, 2], "y": [3, 4]}), "One", hide=["y"], card="model"
    )
    assert shown.columns.tolist() == ["model", "x", "origin"] and shown["origin"].tolist() == ["asked", "simulated"]
    folded = s.table("two", pd.DataFrame({"estimate": [0.5], "ci_low": [0.1], "ci_high": [0.9]}), "Two")
    assert "ci_low" not in folded and "origin" not in folded
    assert s.table("three", pd.DataFrame({"x": [1]}), "Three", show=False, rated=True) is None
    assert pd.read_parquet(tmp_path / "studies/mhqa/score/three.parquet")["origin"].tolist() == ["simulated"]
    assert s.table("four", pd.DataFrame({"x": []}), "Four; lower is better", absent="nobody answered") is None
    assert s.table("four", pd.DataFrame({"x": []}), "Unnamed") is None
    assert s.figure("five", None, "Five", absent="no points") is None
    finding = s.table("six", pd.DataFrame({"x": []}), "Six", empty="every answer came")
    assert finding.data == "Every answer came."
    with pytest.raises(ValueError, match="name must be used once in a stage; got 'one'"):
        s.table("one", pd.DataFrame({"x": [1]}), "One")
    s.headline(pd.DataFrame({"measure": ["accuracy"], "model": ["drawn"], "estimate": [0.5]}), n=3, first="It is half.")
    s.headline(pd.DataFrame({"measure": ["kappa"], "model": ["minilm"], "estimate": [0.25]}), mode="cot")
    assert s.lines({"chance": 1 / 4}) == {"chance": 0.25}
    NOTES.clear()  # of other tests
    capsys.readouterr()
    assert s.done({"n": 2}) == "score mhqa: 3 tables, 0 figures"
    told = capsys.readouterr().out
    assert told == "Not shown: Four (nobody answered); Five (no points).\n"
    left = json.loads((tmp_path / "studies/mhqa/score/contents.json").read_text(encoding="utf-8"))
    assert [(t["name"], t["rows"], t["hide"], t["show"], t.get("card")) for t in left["tables"]] == [
        ("one", 2, ["y"], True, "model"),
        ("two", 1, [], True, None),
        ("three", 1, [], False, None),
    ]
    assert left["absent"] == [
        {"name": "Four", "why": "nobody answered"},
        {"name": "Five", "why": "no points"},
    ]
    assert left["findings"] == ["Every answer came."]
    assert (left["stage"], left["study"], left["about"], left["lines"]) == ("score", "mhqa", "About.", {"chance": 0.25})
    assert left["first"] == {"measure": "accuracy", "said": "It is half."} and left["origins"] == s.origins
    main_table = pd.read_parquet(tmp_path / "studies/mhqa/score/headline.parquet")
    assert main_table["origin"].tolist() == ["simulated", "asked"] and main_table["level"].tolist() == [0.95, 0.95]
    assert main_table["n"].fillna(0).tolist() == [3, 0] and main_table.columns[0] == "measure"
    assert json.loads((tmp_path / "metrics/mhqa/score.json").read_text(encoding="utf-8")) == {"n": 2}
    assert not (tmp_path / "figures").joinpath("mhqa/score/figures.json").exists()
    page = s.page("<p>", private=True)
    assert (
        page == tmp_path / "private/score.html"
        and page.stat().st_mode & 0o077 == 0
        and s.page("<p>").parent == tmp_path
    )


def test_a_stage_that_runs_alone_has_before_it_what_its_study_goes_through(monkeypatch):
    node = lambda name, studies="studies", models=False, *more: SimpleNamespace(
        name=name, studies=studies, models=models, parameters=["study", "results", *more]
    )
    nodes = [
        node("prepare", "studies", False, "n_items", "seed"),
        node("keys", "keys", False, "models"),
        node("generate", "studies", True),
        node("judge", "judge", False, "models", "n_items"),
        SimpleNamespace(name="inputs", studies=None, models=False, parameters=[]),
    ]
    entries = {
        "s": {"prepare": {}, "keys": {"asked": ["other", "m"]}, "judge": None},
        "t": {"prepare": {}, "keys": {"asked": ["other"]}},
    }
    runs: list[tuple] = []
    monkeypatch.setattr(stage, "graph", lambda: {n.name: n for n in nodes})
    monkeypatch.setattr(stage, "before", lambda stages, name: list(stages))
    monkeypatch.setattr(stage, "unchecked", lambda top: {"studies": entries})
    monkeypatch.setattr(stage, "registered", lambda: [SimpleNamespace(demo={"prepare": {"n_items": 9, "gone": 1}})])
    monkeypatch.setattr(stage, "stage_by_command", lambda *given: runs.append(given))
    folder = stage._demo_results("score", ["s", "t"], ["m", "n"], 3)
    assert folder.name.startswith("mhbench-") and not list(folder.iterdir())
    common, models = {"results": str(folder)}, {"models": ["m", "n"]}
    always = [("prepare", study, None, common | {"n_items": 9}) for study in "st"]
    asked = [("generate", study, model, common) for study in "st" for model in "mn"]
    keys, judged = ("keys", "s", None, common | models), ("judge", "s", None, common | models | {"n_items": 2})
    assert runs == [*always, keys, *asked, judged]
    for name in ("report", "ledger"):
        runs.clear()
        folder = stage._demo_results(name, ["s", "t"], ["m", "n"], 3)
        expected = [(*run, more | {"results": str(folder)}) for *run, more in [*always, *asked]]
        assert runs == expected
    monkeypatch.setattr(stage, "registered", lambda: [])
    runs.clear()
    stage._demo_results("report", ["s"], [], None)
    assert [(name, more["n_items"]) for name, _, _, more in runs] == [("prepare", None)]


def test_a_figure_has_a_title_a_caption_and_words_for_who_does_not_see_it(made, tmp_path):
    from matplotlib.figure import Figure

    s, texts = made(), {}
    for name, label, title in (("plain", "", ""), ("drawn", "Two lines.", "Accuracy")):
        drawing = Figure(figsize=(2, 2), label=label)
        drawing.add_subplot().plot([0, 1])
        if title:
            drawing.suptitle(title)
        assert s.figure(name, drawing, f"Caption of {name}.") is drawing
        texts[name] = stage.figure_title(drawing)
        assert {f.suffix for f in (tmp_path / "figures/mhqa/score").glob(f"{name}.*")} == {".png", ".svg"}
    with pytest.raises(ValueError, match="name must be used once in a stage; got 'plain' .score|name must be used"):
        s.figure("plain", drawing, "Again.")
    assert s.done({}) == "score mhqa: 0 tables, 2 figures"
    registered = json.loads((tmp_path / "figures/mhqa/score/figures.json").read_text(encoding="utf-8"))
    plain, drawn = registered
    assert plain == {
        "name": "plain",
        "title": "Caption of plain.",
        "caption": "Caption of plain.",
        "alt": "Caption of plain.",
    }
    assert drawn == {
        "name": "drawn",
        "title": texts["drawn"] or "Caption of drawn.",
        "caption": "Caption of drawn.",
        "alt": "Two lines.",
    }
    assert (
        json.loads((tmp_path / "studies/mhqa/score/contents.json").read_text(encoding="utf-8"))["figures"] == registered
    )


def test_whom_a_run_did_not_ask_stands_above_its_parameters(made, capsys):
    s = made(models=["minilm"])
    capsys.readouterr()
    s.parameters()
    assert capsys.readouterr().out.rstrip("\n") == stage.origin_banner(s.origins) != ""
    s.origins = {}
    s.parameters()
    assert capsys.readouterr().out == ""


def test_a_stage_without_results_makes_a_small_run_of_its_own(monkeypatch, tmp_path):
    "Whose answers it reads: the models named, else its own model, else the one that answers at once."
    runs = []
    monkeypatch.setattr(stage, "_demo_results", lambda *given: runs.append(given) or tmp_path)
    for given, run in (
        ({}, ("score", ["mhqa"], ["minilm"], 6)),
        ({"model": "m"}, ("score", ["mhqa"], ["m"], 6)),
        ({"models": ("a", "b"), "n_items": None}, ("score", ["mhqa"], ["a", "b"], None)),
    ):
        s = stage.Stage("score", "mhqa", **given)
        assert runs.pop() == run and s.alone and s.results == tmp_path and s.goes_through("judge")
    s = stage.Stage("report", studies=["mhqa", "mentat"])
    assert runs.pop() == ("report", ["mhqa", "mentat"], ["minilm"], 6) and s.figures == tmp_path / "figures/report"
    s = stage.Stage("score", "mhqa", tmp_path, model="m")
    assert not runs and not s.alone and s.figures == tmp_path / "figures/mhqa/score/m"
    assert (s.out, s.texts) == (tmp_path / "studies/mhqa/score/m", tmp_path / "text/mhqa/score/m") and s.out.is_dir()


def test_a_stage_keeps_results_as_the_parameters_say_and_introduces_models(made, monkeypatch, tmp_path):
    calls, introduced = [], []
    monkeypatch.setattr(stage, "keep_results", lambda *given: calls.append(given))
    monkeypatch.setattr(stage, "introduce", lambda *given: introduced.append([list(x) for x in given]))
    p = {"models": {"b": {}, "a": {"medical": True}, "c": {"medical": False}}, "run": {}, "store": {"max_gb": 3.0}}
    p["studies"] = {"mhqa": {"score": {"groups": {"medical": ["c"], "other": ["b"]}}}}
    monkeypatch.setattr(stage, "unchecked", lambda top: p)
    s = made()
    assert calls == [(StoreSettings(max_gb=3.0), store_path(graph.root()))]
    names, simulated, best, medical = introduced.pop()
    assert (names, sorted(simulated), best, sorted(medical)) == (["b", "a", "c"], ["drawn", "sim"], [], ["a", "c"])
    s.best_first(("c", "a"))
    assert introduced.pop()[2] == ["c", "a"]
    s.know({"new": "simulated", "old": "asked"})
    assert sorted(introduced.pop()[1]) == ["drawn", "new", "sim"] and "old" not in s.origins
    p["studies"]["mhqa"]["score"] = None
    del p["store"]
    made()
    assert calls[1][0] == StoreSettings() and introduced.pop()[3] == ["a"]


def test_models_are_ordered_by_the_accuracy_on_the_main_set_where_a_stage_rests_on_scores(made, monkeypatch, tmp_path):
    "On the set D0 b is right more often than a, on all items a is."
    rows = [("a", "D0", 0.0), ("a", "D0", 1.0), ("a", "D1", 1.0), ("a", "D1", 1.0), ("b", "D0", 1.0), ("b", "D0", 1.0)]
    rows += [("b", "D1", 0.0), ("b", "D1", 0.0)]
    scores = pd.DataFrame(rows, columns=["model", "set", "correct"])
    scores = scores.assign(mode="cot", answered_by="plain", n_votes=1)
    (tmp_path / "studies/mhqa/score").mkdir(parents=True)
    p = {"models": {}, "run": {}, "studies": {"mhqa": {"score": {"core": "D0"}}}}
    monkeypatch.setattr(stage, "unchecked", lambda top: p)
    monkeypatch.setattr(stage, "before", lambda stages, name: ["score"] if name == "after" else [])
    assert made("after")._best_first == []
    scores.to_parquet(tmp_path / "studies/mhqa/score/scores.parquet")
    assert made("after")._best_first == ["b", "a"] and made("score")._best_first == []
    p["studies"]["mhqa"] = {}
    assert made("after")._best_first == ["a", "b"]
    scores.drop(columns="set").to_parquet(tmp_path / "studies/mhqa/score/scores.parquet")
    assert made("after")._best_first == []


def test_the_weightiest_origin_of_a_name_counts_and_people_are_named_where_they_are_simulated(tmp_path):
    said = {"item_id": "a", "study": "s", "mode": "cot", "text": "t"}
    of = [("x", "simulated"), ("x", "recorded"), ("y", "recorded"), ("z", "asked")]
    texts = tmp_path / "text" / "s" / "prepare"
    write_records([Response(model=m, origin=o, **said) for m, o in of], texts / "recorded.parquet", Response)
    rated = {"item_id": "a", "study": "s", "target": "A", "value": 1.0, "source": "x"}
    kinds = [
        ("y", "simulated", {}),
        ("r", "recorded", {}),
        ("j", "recorded", {"annotator": "model"}),
        ("z", "asked", {}),
    ]
    ratings = [Rating(rater=r, origin=o, variant=v, **rated) for r, o, v in kinds]
    ratings.append(Rating(rater="k", origin="recorded", kind="judge", **rated))
    write_records(ratings, texts / "ratings.parquet", Rating)
    expected = {"x": "simulated", "y": "simulated", "j": "recorded", "k": "recorded"}
    assert stage.recorded_origins(tmp_path, ["s", "none"]) == expected


def broken(tmp_path, *place: str) -> None:
    "What a part of a run leaves that has ended with an error."
    folder = tmp_path / stage_folder(*place)
    folder.mkdir(parents=True, exist_ok=True)
    failures = [{"broke": False}, {"broke": True}]
    (folder / "contents.json").write_text(json.dumps({"failures": failures}), encoding="utf-8")


def test_of_what_ended_with_an_error_nothing_is_read(made, tmp_path):
    s = made("demographics", models=["minilm", "other"])
    assert not stage.ended_badly(tmp_path, "generate", "mhqa", "minilm")
    broken(tmp_path, "generate", "mhqa", "other")
    assert stage.ended_badly(tmp_path, "generate", "mhqa", "other")
    assert [r.model for r in s.answers] == ["minilm"] and list(s.stored.column("model")) == ["rec", "drawn", "minilm"]
    broken(tmp_path, "generate", "mhqa", "minilm")
    assert made("demographics", models=["minilm"]).answers == [], "recorded answers are there"
    write_records([], tmp_path / "text/mhqa/prepare/recorded.parquet", Response)
    with pytest.raises(RuntimeError, match="answers must be there; got none, since generate of mhqa failed"):
        made("demographics", models=["minilm", "other"]).answers
    assert made("demographics").answers == [], "nobody is asked"
    broken(tmp_path, "score", "mhqa")
    with pytest.raises(RuntimeError, match="what it rests on must be there; got none, since score of mhqa failed"):
        s.read("score", "accuracy")
    verdict = Judgment(item_id="a", study="mhqa", model="m", judge="j", kind="label", label="pass", rubric="r")
    write_records([verdict], tmp_path / "text/mhqa/judge/judgments.parquet", Judgment)
    assert [j.judge for j in made("demographics").judgments] == ["j"]
    broken(tmp_path, "judge", "mhqa")
    with pytest.raises(RuntimeError, match="since judge of mhqa failed"):
        _ = made("demographics").judgments


def test_in_the_run_s_own_results_a_study_goes_through_the_stages_that_the_run_names(made, monkeypatch, tmp_path):
    s = made()
    monkeypatch.setattr(stage, "root", lambda: tmp_path)
    s.results, s._run = tmp_path / "results", {"judge": ["mhqa"], "duels": ["other"], "keys": []}
    stages = ("judge", "duels", "keys", "unnamed")
    assert [s.goes_through(name) for name in stages] == [True, False, False, True]
    for name in stages:
        (s.results / "studies" / "mhqa" / name).mkdir(parents=True)
        pd.DataFrame({"x": [1]}).to_parquet(s.results / "studies" / "mhqa" / name / "t.parquet")
    assert [s.has(name, "t") for name in (*stages, "gone")] == [True, False, False, True, False]
    s._run["judge"] = []
    assert s.judgments == []


def test_a_stage_after_approach_reads_the_questions_that_it_had_written(made, monkeypatch, tmp_path):
    "Of two prepared items one awaits its question: it may be there in words, or not at all; no other item may."
    prepared = [item("a", study="mhqa"), item("b", study="mhqa", variant={"question": AWAITING})]
    written = [prepared[0], item("b", study="mhqa", question="Written?")]
    write_records(prepared, tmp_path / "text/mhqa/prepare/items.parquet", Item)
    monkeypatch.setattr(stage, "before", lambda stages, name: ["prepare", "approach"] if name == "after" else [])
    assert made("after").items == prepared
    file = tmp_path / "text/mhqa/approach/items.parquet"
    for of in (written, written[:1]):
        write_records(of, file, Item)
        assert made("after").items == of and made("score").items == prepared
    for of in ([*written, item("c", study="mhqa")], written[1:]):
        write_records(of, file, Item)
        with pytest.raises(ValueError, match=f"but for cases without a question; got {len(of)} items of 2 .mhqa"):
            _ = made("after").items
    broken(tmp_path, "approach", "mhqa")
    with pytest.raises(RuntimeError, match="since approach of mhqa failed"):
        _ = made("after").items


def test_what_studies_add_is_shown_below_its_heading_and_has_it_in_the_report(made, monkeypatch):
    shown, asked = [], []

    def first(s, **results):
        """A heading.

        More words.
        """
        s.table("one", pd.DataFrame({"x": [results["n"]]}), "One")
        return [None, "an output"]

    def second(s, **results):
        "Nothing to show."
        s.table("two", pd.DataFrame({"x": [1]}), "Two")
        return [None]

    monkeypatch.setattr("IPython.display.display", lambda output: shown.append(getattr(output, "data", output)))
    monkeypatch.setattr(stage, "added", lambda *given: asked.append(given) or [first, second])
    monkeypatch.setattr(stage, "owner", lambda study: f"owner of {study}")
    s = made()
    s.table("earlier", pd.DataFrame({"x": [1]}), "Earlier")
    s.added(n=7)
    assert shown == ["## A heading.\n\nMore words.", "an output"]
    abouts = {t["name"]: t.get("about") for t in s._tables}
    assert abouts == {
        "earlier": None,
        "one": {"heading": "A heading.", "text": "More words."},
        "two": {"heading": "Nothing to show.", "text": ""},
    }
    monkeypatch.setattr(stage, "added", lambda *given: asked.append(given) or [])
    s.added(of="another")
    assert asked == [("tables", "score", "owner of mhqa"), ("tables", "score", "another")]


def test_what_failed_is_shown_without_what_all_rows_share_and_noted_at_the_end(made, tmp_path, capsys):
    s = made()
    assert s.failed([]) is None
    lost = Failure("score", "mhqa", "m", "cot", "requests got no answer", n_asked=9, n_lost=2)
    table = s.failed([lost])
    assert list(table.columns) == [c for c in Failure._fields if c not in ("stage", "study", "broke", "follows")]
    assert table["n_lost"].tolist() == [2]
    NOTES[:] = ["something odd"]
    capsys.readouterr()
    s.done({})
    NOTES.clear()
    assert capsys.readouterr().out == "note: something odd\n"
    left = json.loads((tmp_path / "studies/mhqa/score/contents.json").read_text(encoding="utf-8"))
    assert left["failures"] == [lost._asdict()]
    made("report").done({"a": 1})
    assert json.loads((tmp_path / "metrics/mhqa/report.json").read_text(encoding="utf-8")) == {"a": 1}
    s = stage.Stage("report", None, tmp_path)
    s.done({"b": 1})
    assert json.loads((tmp_path / "metrics/headline.json").read_text(encoding="utf-8")) == {"b": 1}


def test_numbers_of_rows_are_named_by_their_columns():
    table = pd.DataFrame({"model": ["a", "b"], "mode": ["cot", "direct"], "n": [3, 4], "estimate": [0.5, 0.25]})
    table = table.assign(ci_low=0.1, ci_high=0.9, other=1)
    numbers = stage.Stage.numbers(table, "model", "mode")
    assert numbers["b/direct"] == {"n": 4, "estimate": 0.25, "ci_low": 0.1, "ci_high": 0.9} and len(numbers) == 2
    assert stage.Stage.numbers(table, "model", columns="n") == {"a": 3, "b": 4}
    assert stage.Stage.numbers(table, "mode", columns=["other"]) == {"cot": {"other": 1}, "direct": {"other": 1}}


def test_all_rows_of_a_stage_of_ratings_are_simulated_where_these_are(made, tmp_path):
    plain = pd.DataFrame({"x": [1, 2]})
    s = made(rated=True)
    assert s.table("one", plain, "One")["origin"].tolist() == ["simulated"] * 2
    assert s.table("two", plain.assign(origin="own"), "Two")["origin"].tolist() == ["own"] * 2
    s.headline(pd.DataFrame({"measure": ["alpha"], "estimate": [0.5]}))
    assert s._main[0]["origin"].tolist() == ["simulated"] and "origin" not in made().table("three", plain, "Three")
    assert s.asked(pd.DataFrame({"model": ["drawn", "rec"]}))["model"].tolist() == ["rec"]
