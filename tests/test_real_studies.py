"""Real studies from their authors' files: what an import sets aside, and what MENTAT's labels are. Whole runs are in
test_replicate.py.

Expected numbers are counted here from the files themselves, or are the papers'.
"""

import re
import shutil

import pandas as pd
import pytest
import yaml
from conftest import ROOT, mhbench

from mhbench.corpus.load import load_corpus
from mhbench.run.params import load_params
from mhbench.studies.mentat.annotations import annotation_arrays
from mhbench.studies.mentat.preferences import creators_of, same_as_source
from mhbench.studies.mentat.readings import both_readings, compare_with_published, labels_of, reading_fits
from mhbench.tools.edit import forget_corpus, import_corpus, recipe_of

STUDIES = ("mentat", "psychiatrybench", "medqade", "counselingbench", "mhqa")


@pytest.fixture(scope="module")
def release(datasets):
    "MENTAT's folder; its password is the lead author's last name in lower case, whom the licence names."
    folder = datasets / "mentat"
    if not folder.is_dir():
        pytest.skip("no MENTAT release among the corpora")
    named = re.search(r"Copyright \(c\) \d+ .*?(\w+)\s*$", (folder / "LICENSE").read_text(), re.MULTILINE)
    with pytest.MonkeyPatch.context() as m:
        m.setenv("MHBENCH_MENTAT_PASSWORD", named[1].lower())
        yield folder


# ---------------------------------------------------------------- what an import sets aside


@pytest.fixture
def params(tmp_path):
    for name in ("params.yaml", "run.yaml"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "corpus.csv").write_text("id\n1\n")
    return tmp_path / "params.yaml"


def leaves(value, path=()):
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inner:
        yield from leaves(part, (*path, key))
    if not isinstance(value, (dict, list)):
        yield path, value


@pytest.mark.parametrize("study", STUDIES)
def test_nothing_of_the_demo_stays_and_all_of_it_comes_back(params, study):
    before = params.read_text(encoding="utf-8")
    demo = load_params(params)["studies"][study]
    import_corpus(study, params.parent / "corpus.csv", params=params)
    entry = load_params(params)["studies"][study]
    assert set(entry) - {"prepare"} == set(recipe_of(demo["prepare"]["loader"])) & set(demo)
    of_the_demo = {"collect", "compose", "keys", "finetune"}  # its literature
    assert set(demo) - set(entry) <= of_the_demo, "a new stage needs a line in the study's recipe.yaml"
    limits = {"n_items", "n_known", "n_errors", "n_examined", "n_per_category", "tie_breaker", "pool"}
    limits |= {"lineages", "pairs", "prompt_pairs", "beside"}
    left = [path for path, value in leaves(entry) if limits & set(path) and value is not None]
    assert left == []
    assert not [x for _, x in leaves(entry) if isinstance(x, str) and (x.startswith(("sim-", "data/")))]
    forget_corpus(study, params=params)
    assert params.read_text(encoding="utf-8") == before


def test_settings_of_a_corpus_and_of_a_person_hold_over_an_import(params):
    own = {"a-colleague": "answers.csv"}
    params.with_name("answers.csv").write_text("item_id,letter\n1,A\n")
    text = params.read_text(encoding="utf-8").replace("  mhqa:\n    prepare:\n", "  mhqa:\n    prepare:\n")
    p = yaml.safe_load(text)
    p["studies"]["mhqa"]["prepare"]["answers"] |= own
    p["studies"]["mhqa"]["annotate"] = {"kind": "score"}
    params.write_text(yaml.safe_dump(p, sort_keys=False), encoding="utf-8")
    corpus = params.parent / "corpus.csv"
    assert import_corpus("mhqa", corpus, settings={"score": {"by": ["topic"]}}, params=params)
    entry = load_params(params)["studies"]["mhqa"]
    assert entry["prepare"]["answers"] == own and entry["annotate"] == {"kind": "score"}
    assert entry["score"] == {"by": ["topic"]} and entry["prepare"]["sha256"]
    p = yaml.safe_load(params.read_text(encoding="utf-8"))
    p["studies"]["mhqa"]["generate"]["modes"] = {"cot": {"n_items": 7}}
    params.write_text(yaml.safe_dump(p, sort_keys=False), encoding="utf-8")
    assert not import_corpus("mhqa", corpus, {"key": "number"}, params=params)  # the second time the entry stays
    entry = load_params(params)["studies"]["mhqa"]
    assert entry["generate"]["modes"] == {"cot": {"n_items": 7}} and entry["prepare"]["options"] == {"key": "number"}


# ---------------------------------------------------------------- MENTAT


@pytest.fixture(scope="module")
def fits(release):
    arrays = annotation_arrays(load_corpus("mentat", release).ratings)
    file = pd.read_csv(release / "creators.csv")
    creators = {q: ord(o) - ord("A") for q, o in zip(file["question"], file["option"])}
    return reading_fits(both_readings(arrays), creators=creators)


def test_the_source_prefers_the_same_option_in_as_many_questions_as_counted_by_hand(release, fits):
    "Creators' answers from a file take no question away from the source's own labels."
    items = load_corpus("mentat", release).items
    for reading, share in (("shown", 0.5), ("release", 0.741)):
        fit = fits[reading, "symmetric", False]
        known = creators_of(items, set(fit.questions), release / "creators.csv")
        (row,) = same_as_source(labels_of(fit), known.sources).to_dict("records")
        assert (row["n"], row["estimate"]) == (58, pytest.approx(share, abs=0.001)) and len(known.answers) == 58


def test_the_labels_of_the_evaluation_sets_are_the_published_reading_s_with_the_creators(release, fits):
    sets = load_corpus("mentat", release, sets=["D0_release"])
    assert sets.settings["prepare"]["sets"] == [] and sets.settings["score"]["core"] == "D0_release"
    found = compare_with_published(fits, sets.items).set_index(["reading", "offset", "creators"])
    same = found.loc[("release", "paper", True)]
    assert same["n"] == same["n_same"] > 50 and same["largest_difference"] < 1e-4
    assert (found.drop(index=("release", "paper", True))["largest_difference"] > 0.1).all()


def test_a_released_set_is_compared_by_what_it_varies(release, params):
    options = {"sets": ["D0_release", "D_G_release"]}
    corpus = load_corpus("mentat", release, **options)
    import_corpus("mentat", release, options, corpus.settings, params=params)
    entry = load_params(params)["studies"]["mentat"]
    assert entry["prepare"]["sets"] == [] and entry["preferences"]["creators"].endswith("creators.csv")
    named = yaml.safe_load(params.read_text(encoding="utf-8"))
    named["studies"]["mentat"]["demographics"] = {"attributes": {"D_G_release": "gender"}}
    params.write_text(yaml.safe_dump(named, sort_keys=False), encoding="utf-8")
    assert load_params(params)["studies"]["mentat"]["demographics"]["attributes"] == {"D_G_release": "gender"}


# ---------------------------------------------------------------- and back


def test_a_real_corpus_leaves_nothing_of_the_demo_and_the_demo_comes_back(clone, datasets, tmp_path):
    folder = tmp_path / "mhbench"
    shutil.copytree(clone, folder)
    (folder / "results" / "studies" / "mhqa" / "duels").mkdir(parents=True, exist_ok=True)
    (folder / "results" / "studies" / "mhqa" / "duels" / "contents.json").write_text("{}")  # the demo's
    said = mhbench("import", "mhqa", datasets / "mhqa", "--option", "key=number", cwd=folder)
    assert not (folder / "results" / "studies" / "mhqa" / "duels").exists(), "no table of the demo stays"
    said += mhbench("select", "--studies", "mhqa", "--models", "", "--items", "0", cwd=folder)
    assert "2475 items, 0 ratings" in said and "nobody is asked; recorded answers are scored" in said
    mhbench("select", "--demo", cwd=folder)
    for file in ("params.yaml", "run.yaml"):
        assert (folder / file).read_bytes() == (clone / file).read_bytes()
