"What was accepted in silence, and remedies that were refused themselves."

import copy
import shutil

import pytest
import yaml
from conftest import ROOT

from mhbench.records.answers import load_answers
from mhbench.records.schema import Item
from mhbench.run import params as params_module
from mhbench.run.graph import unchecked
from mhbench.run.params import asked_by, goes_through, load_params, simulated_left_out, stage_parameters
from mhbench.tools.commands import selection
from mhbench.tools.edit import select

PARAMS, RUN = (yaml.safe_load((ROOT / name).read_text(encoding="utf-8")) for name in ("params.yaml", "run.yaml"))


def written(folder, changes):
    p = copy.deepcopy(PARAMS)
    for path, value in changes.items():
        here = p
        *inside, name = path.split(".")
        for part in inside:
            here[part] = here.get(part) or {}
            here = here[part]
        here[name] = value
    (folder / "params.yaml").write_text(yaml.safe_dump(p, sort_keys=False), encoding="utf-8")
    shutil.copy(ROOT / "run.yaml", folder)
    return folder / "params.yaml"


@pytest.mark.parametrize(
    ("entry", "value", "said"),
    [
        ("seed", 10**30, "seed must be 4294967295 or less"),
        ("studies.mhqa.score.marks", {"pass": 7}, "marks.pass must be 1 or less; got 7"),
        ("score.n_boot", 10**12, "n_boot must be 1000000 or less"),
        ("score.groups", {"g": ["gema"]}, "score.groups.g must name models, .* got 'gema' .*; did you mean gemma?"),
        ("studies.mhqa.score.groups", {"g": ["nobody"]}, "groups.g must name models, .*; got 'nobody'"),
        ("studies.mhqa.score.prompt_pairs", {"gemma": "gama"}, "prompt_pairs must name models, .*; got 'gama'"),
        ("studies.mhqa.annotate", {"kind": "agreee"}, "annotate.kind must be one of .*; did you mean agree?"),
    ],
)
def test_what_means_nothing_is_refused(entry, value, said, tmp_path):
    with pytest.raises(ValueError, match=said):
        load_params(written(tmp_path, {entry: value}))


def test_groups_may_name_tables_of_answers_and_the_models_of_a_released_corpus(tmp_path):
    theirs = {"studies.mhqa.prepare.answers": {"student": "s.csv"}, "studies.mhqa.score.groups": {"g": ["student"]}}
    assert load_params(written(tmp_path, theirs))
    brought = {"studies.mhqa.prepare.sha256": "0" * 64, "studies.mhqa.score.groups": {"g": ["their-gpt"]}}
    assert load_params(written(tmp_path, brought))


@pytest.mark.parametrize(
    "broken", ["run: [a\n", "", "run: {studies: [mhqa]}\n", "nur: {}\n", "run:\n  models: [gone]\n", None]
)
def test_a_broken_selection_is_mended_by_the_remedy_that_is_named(broken, tmp_path, capsys):
    params, file = written(tmp_path, {}), tmp_path / "run.yaml"
    file.unlink()
    if broken is not None:
        file.write_text(broken, encoding="utf-8")
    with pytest.raises(ValueError):
        load_params(params)
    select(demo=True, params=params)
    assert load_params(params)["run"] == RUN["run"]
    if broken is not None:
        assert (tmp_path / "run.yaml.before").read_text(encoding="utf-8") == broken
        assert "its former content is in run.yaml.before" in capsys.readouterr().out


def test_what_is_broken_elsewhere_is_not_mended_there(tmp_path):
    params = written(tmp_path, {"seed": "x"})
    before = (tmp_path / "run.yaml").read_bytes()
    with pytest.raises(ValueError, match="seed must be a whole number"):
        select(demo=True, params=params)
    assert (tmp_path / "run.yaml").read_bytes() == before


def test_an_answer_that_stands_twice_is_refused_with_its_file_and_line(tmp_path):
    about = {"study": "s", "task": "multiple_choice", "question": "Which?", "options": ["a", "b"], "source": "here"}
    items = [Item(item_id=i, key=["A"], **about) for i in ("q1", "q2")]
    file = tmp_path / "answers.csv"
    file.write_text("item_id,text\nq1,A\nq2,B\nq1,B\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"got 'q1' again, first in answers.csv.*2 \(answers.csv.*4\)"):
        load_answers(file, items, "m")
    file.write_text("item_id,text,sample\nq1,A,0\nq2,B,0\nq1,B,1\n", encoding="utf-8")
    assert [r.sample for r in load_answers(file, items, "m")] == [0, 0, 1]


NEW = {"endpoint": "local", "served": "x", "lineage": "x"}


def with_models(folder, *names):
    "params.yaml with models before all others, and with one that composes questions and reads passages."
    p = copy.deepcopy(PARAMS)
    for stage in ("compose", "keys"):
        p["studies"]["mhqa"][stage]["asked"] = ["gemma"]
    p["models"]["slow"] = p["models"]["gemma"] | {"n_items": 2}
    p["models"] = {name: NEW for name in names} | p["models"]
    (folder / "params.yaml").write_text(yaml.safe_dump(p, sort_keys=False), encoding="utf-8")
    if not (folder / "run.yaml").exists():
        shutil.copy(ROOT / "run.yaml", folder)
    return folder / "params.yaml"


def test_a_model_that_is_added_does_not_take_the_composers_or_the_examinees_place(tmp_path):
    params = with_models(tmp_path, "qwen")
    before = select(models=["qwen"], params=params)
    with_models(tmp_path, "aya", "qwen")
    after = select(models=["aya", "qwen"], params=params)
    for stage in ("compose", "keys"):
        assert asked_by(before, stage, "mhqa")["asked"] == asked_by(after, stage, "mhqa")["asked"] == ["qwen"]
    who = [asked_by(p, "compose", "mhqa")["examinees"] for p in (before, after)]
    assert who[0] == ["qwen"] and who[1][0] == "qwen"
    assert after["run"]["models"] == ["aya", "qwen"] and after["run"]["subjects"] == ["qwen", "aya"]
    assert select(models=["aya"], params=params)["run"]["subjects"] == ["aya"]
    assert select(demo=True, params=params)["run"]["subjects"] is None


def test_a_number_of_items_is_that_of_every_mode(tmp_path):
    params = with_models(tmp_path)
    own = stage_parameters(load_params(params), "generate", "mhqa", "gemma")["modes"]
    assert {m["n_items"] for m in own.values()} == {40, 6}, "the demo's limits"
    p = select(["mhqa"], ["gemma", "slow"], 20, params=params)
    assert stage_parameters(p, "prepare", "mhqa")["n_items"] == 20
    modes = stage_parameters(p, "generate", "mhqa", "gemma")["modes"]
    assert modes.keys() == own.keys() and not any("n_items" in settings for settings in modes.values())
    said = selection(p)
    assert "items: at most 20 a study, in each of its modes" in said
    assert "  at most, of a mode, by their own entries: slow 2" in said


def test_nobody_simulated_stands_beside_models_of_ones_own(tmp_path):
    params = with_models(tmp_path, "mine")
    demo = load_params(params)
    simulated = {"sim-specialist", "sim-gap", "sim-sure", "sim-memory", "sim-writer", "sim-steady"}
    assert simulated <= stage_parameters(demo, "prepare", "mentat")["answers"].keys()
    assert not simulated_left_out(select(models=["gemma"], params=params), "mentat")
    p = copy.deepcopy(select(models=["gemma", "mine"], params=params))
    p["studies"]["mentat"]["prepare"]["answers"]["student"] = "students.csv"
    assert set(simulated_left_out(p, "mentat")) == simulated
    assert list(stage_parameters(p, "prepare", "mentat")["answers"]) == ["student"]
    assert any(line.startswith("left out: sim-specialist") for line in selection(p))


def test_a_clone_whose_data_are_not_pulled_yet_goes_through_the_same_stages(tmp_path, monkeypatch):
    for name in ("params.yaml", "run.yaml", "dvc.yaml"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "nbs").symlink_to(ROOT / "nbs")
    monkeypatch.setenv("MHBENCH_ROOT", str(tmp_path))
    p = load_params(tmp_path / "params.yaml")
    assert not (tmp_path / "data").exists() and goes_through(p, "duels") == ["counselingbench"]
    assert (goes_through(p, "freeform"), goes_through(p, "reasoning")) == (["mentat"], ["counselingbench"])


# ---------------------------------------------------------------- by hand


def small(**sections) -> dict:
    "Two models that write, two entries of one of them, an encoder and a classifier that is trained here."
    endpoints = {"e": {"kind": "openai"}, "near": {"kind": "encoder"}, "trained": {"kind": "classifier"}}
    models = {"big": {"endpoint": "e", "served": "x", "lineage": "L"}, "twin": {"endpoint": "e", "served": "x"}}
    models |= {"other": {"endpoint": "e", "served": "y", "lineage": "M", "medical": True, "price": {}}}
    models |= {"enc": {"endpoint": "near", "served": "x", "lineage": "E"}}
    models |= {"pupil": {"endpoint": "trained", "trained_on": "s"}}
    p = {
        "seed": 7,
        "run": {"studies": ["s"], "models": ["big", "twin", "enc"]},
        "endpoints": endpoints,
        "models": models,
    }
    return p | {"studies": {"s": {"prepare": {"path": "d"}} | sections, "t": {"prepare": {"path": "d"}}}}


@pytest.mark.parametrize(
    ("stage", "section", "run", "asked"),
    [
        ("score", {"judges": ["big"]}, {}, {}),
        ("judge", {"judges": ["big", "enc", "pupil"]}, {}, {"judges": ["big", "enc"]}),
        ("judge", {"judges": ["big"]}, {"judges": ["other", "enc"]}, {"judges": ["other", "enc"]}),
        ("judge", {"judges": ["big"]}, {"judges": []}, {"judges": []}),
        ("judge", {}, {"judges": ["other"]}, {}),
        (
            "duels",
            {"judges": ["big", "enc"], "contestants": ["twin", "nobody"]},
            {},
            {"judges": ["big"], "contestants": ["twin", "nobody"]},
        ),
        (
            "duels",
            {"judges": ["big"], "contestants": ["twin"]},
            {"subjects": ["other", "big", "enc"]},
            {"judges": ["big"], "contestants": ["other", "big"]},
        ),
        ("contamination", {"asked": ["big"]}, {"subjects": ["other", "twin"]}, {"asked": ["other", "twin"]}),
        ("contamination", {"asked": None}, {}, {"asked": None}),
        ("keys", {"asked": ["big"]}, {"subjects": ["other", "twin"]}, {"asked": ["other"]}),
        ("keys", {"asked": None}, {"subjects": ["other"]}, {"asked": []}),
        (
            "profile",
            {"asked": ["big", "enc"]},
            {"subjects": ["other", "twin", "big"]},
            {"asked": ["other", "twin", "enc"]},
        ),
        ("profile", {"asked": ["big", "enc"]}, {"subjects": ["other"], "models": ["big"]}, {"asked": ["other"]}),
        ("profile", {"asked": ["enc"]}, {"subjects": ["enc"]}, {"asked": ["enc"]}),
        ("compose", {"asked": ["big"], "examinees": ["other", "enc"]}, {}, {"asked": ["big"], "examinees": ["enc"]}),
        (
            "compose",
            {"asked": ["big"], "examinees": ["other", "pupil"]},
            {"subjects": ["twin", "pupil"]},
            {"asked": ["twin"], "examinees": ["twin", "big"]},
        ),
        ("compose", {"asked": ["big"], "examinees": ["other"]}, {}, {"asked": ["big"], "examinees": ["big"]}),
    ],
)
def test_whom_a_stage_asks_is_the_run_s_choice_else_the_study_s(stage, section, run, asked):
    p = small(**{stage: section})
    p["run"] |= run
    assert params_module.asked_by(p, stage, "s") == asked


def test_a_section_at_the_top_names_whom_a_stage_asks_where_the_study_s_own_does_not():
    p = small(judge={}) | {"judge": {"judges": ["other"], "kind": "score"}}
    assert params_module.asked_by(p, "judge", "s") == {"judges": ["other"]}
    p["studies"]["s"]["judge"] = {"judges": ["big"]}
    assert params_module.asked_by(p, "judge", "s") == {"judges": ["big"]}


def test_entries_of_one_model_are_known_and_a_trained_model_is_its_own():
    p = small()
    p["run"]["models"] = ["twin", "big", "other", "enc", "pupil"]
    p["models"]["pupil"] |= {"endpoint": "e", "served": "x"}
    p["models"]["read"] = {"endpoint": "trained", "served": "x"}
    p["run"]["models"].append("read")
    assert params_module._same_model(p, "s") == {"big": "twin"}, "another endpoint, training and a classifier differ"
    p["score"] = {"prompt_pairs": {"other": "big"}}
    assert params_module._same_model(p, None) == {"big": "twin", "other": "twin"}
    p["studies"]["s"]["score"] = {"prompt_pairs": {"other": "enc"}}
    assert params_module._same_model(p, "s") == {"big": "twin", "other": "enc"}
    for model in ("big", "twin"):
        del p["models"][model]["served"]
    assert params_module._same_model(p, "t") == {"other": "big"}, "by their own names they are two"


def test_families_are_those_of_the_run_the_judges_and_the_tables_of_answers():
    p = small(judge={"judges": ["other"]}, panel={"lineages": {"expert": "P"}})
    p["studies"]["s"]["prepare"]["answers"] = {"enc": "a.csv"}
    p["run"]["models"] = ["big", "twin"]
    known = params_module._lineages_of_models
    assert known(p, "s", {}) == {"big": "L", "other": "M", "enc": "E", "expert": "P"}
    assert known(p, None, {}) == {"big": "L"} and known(p, "t", {}) == {"big": "L"}
    assert known(p, None, {"judges": ["other"]}) == {"big": "L", "other": "M"}
    assert known(p, None, {"asked": ["enc"]}) == {"big": "L", "enc": "E"}
    assert known(p, "s", {"lineages": {"big": "own"}})["big"] == "own"


def test_a_stage_is_given_the_entries_that_it_asks_and_the_facts_of_the_run_s_models(monkeypatch):
    names = ("seed", "results", "study", "models", "entries", "endpoints", "registry", "lineages", "tie_breaker", "run")
    nodes = {
        "judge": names,
        "finetune": ("study", "models"),
        "generate": ("study", "model", "entries"),
        "report": ("run",),
    }
    nodes = {name: type("Node", (), {"parameters": p}) for name, p in nodes.items()}
    monkeypatch.setattr(params_module, "graph", lambda: nodes)
    p = small(
        judge={"judges": ["other", "enc"], "n": 3}, finetune={}, generate={"modes": {"cot": {"n_items": 3, "k": 1}}}
    )
    p["judge"] = {"n": 1, "m": 2}
    found = stage_parameters(p, "judge", "s")
    entries = {m: p["models"][m] for m in ("other", "enc")}
    facts = {"big": {"lineage": "L"}, "twin": {}, "enc": {"lineage": "E"}}
    none = dict.fromkeys(params_module._FACTS)
    assert found == {"judges": ["other", "enc"], "n": 3, "m": 2, "seed": 7, "results": "results", "study": "s"} | {
        "models": ["big", "twin"],
        "entries": entries,
        "endpoints": {"e": {"kind": "openai"}, "near": {"kind": "encoder"}},
        "registry": {m: none | known for m, known in facts.items()},
        "lineages": {"big": "L", "enc": "E", "other": "M"},
        "tie_breaker": None,
        "run": p["run"],
    }
    p["run"]["models"] = ["enc"]
    assert stage_parameters(p, "judge", "s")["models"] == ["enc"], "nobody writes"
    p["run"]["trained"] = ["pupil"]
    assert stage_parameters(p, "finetune", "s")["models"] == ["pupil"]
    p["run"]["trained"] = []
    assert stage_parameters(p, "finetune", "s")["models"] == []
    generate = lambda: stage_parameters(p, "generate", "s", "other")
    assert generate()["entries"] == {"other": p["models"]["other"]} and generate()["modes"]["cot"]["n_items"] == 3
    p["run"]["items"] = 0
    assert generate()["modes"] == {"cot": {"k": 1}}
    assert stage_parameters(p, "report") == {"run": p["run"]}
    for stage, given, told in (
        ("jugde", (), "stage must be one of judge, finetune, generate, report; got 'jugde'; did you mean judge"),
        ("judge", ("u",), "study must be one of studies .s, t.; got 'u'"),
        ("judge", ("s", "big"), "model must be left out; got 'big' .judge is not run by model."),
        ("generate", ("s",), "model must be one of models"),
        ("report", ("s",), "study must be left out"),
    ):
        with pytest.raises(ValueError, match=told):
            stage_parameters(p, stage, *given)
    p["studies"]["s"]["judge"]["judges"] = ["gone"]
    with pytest.raises(
        ValueError, match=r"judges and asked must name entries of models .*got \['gone'\] .studies.s.judge"
    ):
        stage_parameters(p, "judge", "s")


def answers_file(folder, name: str, *rows: tuple[str, str]) -> str:
    text = "".join(f"q{k},A,{mode},{origin}\n" for k, (mode, origin) in enumerate(rows))
    (folder / name).write_text("item_id,text,mode,origin\n" + text, encoding="utf-8")
    return str(folder / name)


def test_a_study_holds_texts_of_models_that_write_of_tables_and_of_released_corpora(tmp_path):
    writes = params_module.somebody_writes
    p = small()
    assert writes(p, "s")
    p["run"]["models"] = ["enc", "gone"]
    assert writes(p, "s"), "a name without an entry is told elsewhere"
    p["run"]["models"] = ["enc", "pupil"]
    assert not writes(p, "s")
    prepare = p["studies"]["s"]["prepare"]
    prepare["sha256"] = "0"
    assert writes(p, "s")
    prepare["sha256"] = None
    prepare["answers"] = {"sim": answers_file(tmp_path, "sim.csv", ("cot", "simulated"), ("direct", "simulated"))}
    assert not writes(p, "s") and writes(p, "s", ["cot", "x"]) and not writes(p, "s", ["x"])
    prepare["answers"]["real"] = answers_file(tmp_path, "real.csv", ("cot", "simulated"), ("cot", "recorded"))
    assert writes(p, "s")
    prepare["answers"] = {"gone": "nowhere.csv"}
    assert not writes(p, "s") and writes(p, "s", ["cot"])


def test_simulated_examinees_are_left_out_beside_models_of_ones_own(tmp_path):
    p = small()
    p["run"]["models"] = []
    sim = answers_file(tmp_path, "sim.csv", ("cot", "simulated"))
    p["studies"]["s"]["prepare"]["answers"] = {"sim": sim, "gone": "nowhere.csv"}
    assert simulated_left_out(p, "s") == []
    p["run"]["models"] = ["gemma", "big"]
    assert simulated_left_out(p, "s") == ["sim"]


def test_who_is_trained_decides_whether_a_study_goes_through_finetune():
    p = small(finetune={"asked": ["pupil"]}, duels={"judges": ["big"], "contestants": ["enc"]}, keys={"asked": []})
    p["run"]["models"] = ["big"]
    assert goes_through(p, "finetune") == [] and goes_through(p, "keys") == ["s"] and goes_through(p, "duels") == []
    p["run"]["trained"] = ["pupil"]
    assert goes_through(p, "finetune") == ["s"]
    p["studies"]["t"]["ratings"] = p["studies"]["s"]["ratings"] = {}
    assert goes_through(p, "ratings") == []
    p["run"]["ratings"] = ["t"]
    assert goes_through(p, "ratings") == ["t"]


def test_why_a_study_does_not_go_through_a_stage(monkeypatch):
    monkeypatch.setattr(params_module, "graph", dict)
    monkeypatch.setattr(
        params_module, "selective", lambda stages: ["finetune", "duels", "judge", "formats", "freeform"]
    )
    p = small(finetune={"asked": ["pupil"]}, duels={"judges": ["big"], "contestants": ["enc"]}, freeform={})
    p["studies"]["s"] |= {"judge": {"judges": ["pupil"]}, "formats": {}}
    p["studies"]["t"]["judge"] = {"judges": ["pupil"]}
    reasons = params_module.not_run(p)
    assert reasons == {
        ("finetune", "s"): "no model of the run is one that it trains",
        ("duels", "s"): "no model of the run is one that it can ask (contestants)",
        ("judge", "s"): "no model of the run is one that it can ask (judges)",
    }
    p["run"]["models"] = ["enc"]
    reasons = params_module.not_run(p)
    assert {k: v for k, v in reasons.items() if v.endswith("that writes")}.keys() == {("duels", "s"), ("freeform", "s")}


def test_ratings_that_no_stage_reads_are_named():
    p = small()
    assert params_module.unread_ratings(p) == []
    p["studies"]["s"]["prepare"]["ratings"] = "r.csv"
    remedy = "`mhbench import s --ratings r.csv` adds the stages that fit them"
    assert params_module.unread_ratings(p) == [f"s: the ratings of r.csv go through no stage; {remedy}"]
    p["studies"]["s"]["agreement"] = {}
    assert params_module.unread_ratings(p) == []


@pytest.mark.parametrize(
    ("text", "is_key"),
    [
        ("sk-" + "a" * 16, True),
        ("sk-" + "a" * 15, False),
        (" Bearer hf_" + "A1b2" * 4, True),
        ("Bearer hf_" + "A1b2" * 4, True),
        (" XOXB-" + "0" * 16 + "\n", True),
        ("AIza" + "x" * 20, True),
        ("AIza" + "x" * 19, False),
        ("eyJhbGciOi." + "x" * 20, True),
        ("eyJhbGciOi." + "x" * 19, False),
        ("a sk-" + "a" * 16, False),
    ],
)
def test_a_text_that_looks_like_a_key_is_found_wherever_it_stands(text, is_key):
    found = [f.path for f in params_module._secrets({"a": ["x", {"b": text}], "c": 3})]
    assert found == ([("a", 1, "b")] if is_key else [])


@pytest.mark.parametrize(
    ("name", "is_number"),
    [("1", True), ("-2.5e3", True), (".5", True), ("1.", True), ("0x1F", True), ("0o17", True), (".inf", True)]
    + [("-.NaN", True), ("1a", False), ("v1", False), ("1-2", False), ("0x", False), ("e5", False), (".", False)],
)
def test_a_name_that_is_read_as_a_number_is_refused(name, is_number):
    found = list(params_module._numeric_names({"models": {name: {}}, "endpoints": {"a": 1}, "studies": None}))
    assert [(f.path, f.remedy) for f in found] == [(("models", name), f"name it model-{name}, say")] * is_number


def test_names_without_an_entry_are_told_with_their_place():
    p = small(judge={"judges": ["big", "biig"]}, score={"core": "D9"}, annotate={"kind": "agree"})
    p["studies"] |= {"u": {"score": {}}, "v": {"ratings": {}}}
    p["models"]["lost"] = {"endpoint": "nowhere"}
    p["run"] |= {"studies": ["s", "v", "w"], "models": ["big", "none"], "judges": ["j"], "ratings": ["v", "s"]}
    p["keys"] = {"asked": ["k"]}
    found = {".".join(f.path): (f.got, f.rule) for f in params_module._entries_named(p)}
    assert {k: got for k, (got, _) in found.items()} == {
        "run.models": "'none'",
        "run.judges": "'j'",
        "models.lost.endpoint": "'nowhere'",
        "studies.s.judge.judges": "'biig'",
        "keys.asked": "'k'",
        "studies.u": "score",
        "run.studies": "'w'",
        "run.ratings": "'s'",
    }
    assert found["run.ratings"][1] == "name entries of studies (v)"
    whole = [f for f in params_module._entries_named(p) if f.path == ("run", "studies")]
    assert [f.got for f in whole] == ["'v'", "'w'"] and whole[0].rule == "name entries of studies (s, t)"
    [fault] = params_module._sets(p)
    assert fault.path == ("studies", "s", "score", "core") and fault.got == "'D9'"
    p["studies"]["s"]["prepare"] |= {"sets": ["D9"], "options": {"sets": ["D1"]}}
    p["studies"]["s"]["demographics"] = {"attributes": {"D1": 1, "D2": 1}}
    assert [f.got for f in params_module._sets(p)] == ["'D2'"]
    modes = {
        "zero_shot": {"sets": ["D1", "D7"], "n_items": {"D8": 3, "D9": 2}, "tasks": ["cloze", "cloz"]},
        "cot": None,
    }
    p["studies"]["s"] |= {"generate": {"modes": modes}, "demographics": {}}
    found = [(".".join(f.path), f.got) for f in [*params_module._sets(p), *params_module._tasks_of_modes(p)]]
    place = "studies.s.generate.modes.zero_shot"
    assert found == [(f"{place}.sets", "'D7'"), (f"{place}.n_items", "'D8'"), (f"{place}.tasks", "'cloz'")]
    demo = unchecked(ROOT)
    demo["studies"]["mhqa"]["generate"]["modes"]["zero_shot"]["tasks"] = ["cloz"]
    with pytest.raises(ValueError, match="name tasks .*; got 'cloz'.*did you mean cloze"):
        params_module.check_params(demo)
    p["studies"]["s"]["prepare"] |= {"sets": [], "options": {}}  # a loader may make sets that nothing declares
    assert "D7" not in str([*params_module._sets(p)])


def test_comparisons_name_models_or_tables_of_answers_of_their_study():
    p = small(score={"prompt_pairs": {"big": "twn"}, "groups": {"g": ["enc", "people"]}}, annotate={"kind": "x"})
    p["studies"]["s"]["prepare"]["answers"] = {"people": "a.csv"}
    p["score"] = {"groups": {"h": ["people", "nobody"]}}
    found = [(".".join(f.path), f.got) for f in params_module._settings_notes(p)]
    expected = [
        ("studies.s.score.prompt_pairs", "'twn'"),
        ("studies.s.annotate.kind", "'x'"),
        ("score.groups.h", "'nobody'"),
    ]
    assert sorted(found) == sorted(expected)
    p["studies"]["t"]["prepare"]["sha256"] = "0"
    found = [(".".join(f.path), f.got) for f in params_module._settings_notes(p)]
    assert sorted(found) == sorted(expected[:2]), "a released corpus may bring answers of others"
