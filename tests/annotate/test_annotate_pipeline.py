"""From the page to the soft labels: five raters answer over HTTP, and `dvc repro` goes on from the file of answers."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
from conftest import BIN, mhbench, run
from ruamel.yaml import YAML

from mhbench.annotate.export import study_ratings
from mhbench.annotate.simulate import opinion
from mhbench.annotate.store import Change, open_store
from mhbench.annotate.study import RatedAnswer
from mhbench.corpus.load import load_corpus
from mhbench.records.schema import Rating, read_records
from mhbench.run.params import check_params, load_params
from mhbench.stats.hierarchical import hierarchical_bradley_terry

FILE = ".mhbench/annotate/mentat.sqlite"


@pytest.fixture(scope="module")
def answered(clone, tmp_path_factory):
    "A copy of the clone in which MENTAT's entry says what people are asked and where their answers are."
    folder = tmp_path_factory.mktemp("answered") / "mhbench"
    shutil.copytree(clone, folder)
    yaml, file = YAML(), folder / "params.yaml"
    p = yaml.load(file)
    mentat = p["studies"]["mentat"]
    mentat["annotate"] = {"kind": "sliders", "n_items": 5, "replace": {"<AGE>": "40-year-old", " <NAT>": ""}}
    mentat["prepare"]["sets"] = ["D0"]
    mentat["generate"]["modes"]["zero_shot"] = {"n_items": {"D0": 22}}
    mentat["preferences"] |= {"n_boot": 2, "n_permutations": 9}  # the demo's seed of its own raters stays there
    yaml.dump(p, file)
    mhbench("select", "--studies", "mentat", "--models", "minilm", cwd=folder)
    mhbench("annotate", "demo", "mentat", "--raters", "5", cwd=folder)
    said = mhbench("import", "mentat", "--ratings", FILE, cwd=folder)
    assert f"ratings are those of {FILE} from now on; they go through preferences, agreement" in said
    run(BIN / "dvc", "repro", "preferences@mentat", cwd=folder)
    return folder


@pytest.fixture(scope="module")
def thought(answered):
    "(rater, question, option) -> the score that the rater had in mind."
    with open_store(answered / FILE) as store:
        study = store.study
    said = {(r, q.question_id): opinion(study, q, r, seed=1) for r in RATERS for q in study.questions}
    return {(*at, t): a.value for at, of in said.items() for t, a in of.items()}


RATERS = [f"sim-{k}" for k in range(1, 6)]


def test_prepare_keeps_what_the_raters_thought_and_nothing_else(answered, thought):
    kept = read_records(answered / "results/text/mentat/prepare/ratings.parquet", Rating)
    assert {(r.rater, r.item_id, r.target): r.value for r in kept} == thought
    assert len(kept) == 5 * 5 * 5
    assert all(r.origin == "simulated" for r in kept)
    said = (answered / "results/studies/mentat/prepare/notebook.ipynb").read_text(encoding="utf-8")
    assert "125 ratings by 5 simulated raters from mentat.sqlite, in the place of the" in said
    assert "0 pages were begun and are not complete" in said
    told = json.loads((answered / "results/studies/mentat/prepare/contents.json").read_text(encoding="utf-8"))[
        "findings"
    ]
    assert "0 pages were begun and are not complete" in " ".join(told), "the page of the run says it, too"


def test_the_soft_labels_come_out_of_their_answers(answered, thought):
    "The mean scores are those of the five; the probabilities those of the paper's model for what they had in mind."
    labels = pd.read_parquet(answered / "results/studies/mentat/preferences/labels.parquet")
    questions = sorted({q for _, q, _ in thought})
    pages = [(r, q) for r in RATERS for q in questions]
    scores = np.array([[thought[r, q, t] for t in "ABCDE"] for r, q in pages])
    raters, asked = np.array(pages).T
    fit = hierarchical_bradley_terry(scores, asked, raters, offset="paper", penalty=5.0)
    found = labels.pivot(index="question", columns="option", values=["mean_score", "probability"]).loc[questions]
    np.testing.assert_allclose(found["mean_score"], scores.reshape(5, 5, 5).mean(0))
    np.testing.assert_allclose(found["probability"], fit.probs, atol=1e-4)
    assert (labels["n"] == 5).all()


def test_an_answer_that_is_not_in_the_files_own_bytes_yet_makes_prepare_run_again(answered):
    "While the page is served, SQLite keeps new answers in a log beside the file."
    unchanged = run(BIN / "dvc", "repro", "prepare@mentat", cwd=answered)
    assert "Stage 'prepare@mentat' didn't change" in unchanged
    hashed = answered / "results/inputs/prepare/mentat.json"
    before = json.loads(hashed.read_text())
    with open_store(answered / FILE) as store:
        question = store.study.questions[0].question_id
        shown, size = store.answers("sim-1", question, 0)["A"].shown, (answered / FILE).stat().st_size
        late = Change("late", "sim-1", question, 0, "A", RatedAnswer(100.0), shown, 2**50, None)
        store.save([late])
        assert (answered / FILE).stat().st_size == size
        mhbench("inputs", cwd=answered)
    after = json.loads(hashed.read_text())
    assert {k for k in after if after[k] != before[k]} == {"people"}
    assert "prepare@mentat" in run(BIN / "dvc", "status", "prepare@mentat", cwd=answered)


def test_people_and_simulated_raters_are_not_mixed(answered, tmp_path):
    items = load_corpus("mentat", answered / "data" / "mentat").items
    kept = read_records(answered / "results/text/mentat/prepare/ratings.parquet", Rating)
    kept[0] = kept[0].model_copy(update={"rater": "r1", "origin": "asked"})
    rows = [r.model_dump(exclude={"variant"}) | {"variant": json.dumps(r.variant)} for r in kept]
    pd.DataFrame(rows).to_csv(tmp_path / "mixed.csv", index=False)
    with pytest.raises(ValueError, match="be people, or be simulated; got 5 simulated among 6"):
        study_ratings([], items, "mixed.csv", tmp_path)


def test_an_entry_annotate_is_no_stage_and_no_mistake(answered):
    p = load_params(answered / "params.yaml")
    p["studies"]["mentat"]["anotate"] = {}
    with pytest.raises(ValueError, match="mentat.anotate must be .*annotate"):
        check_params(p)
