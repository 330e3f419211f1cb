"A fleet of models that know every answer: its accuracy is 1.000 wherever a letter reaches us, and `check` says where."

import json
import shutil

import pandas as pd
import pytest
import yaml
from conftest import mhbench
from fleet import seen, unseen
from fleet.server import Fleet

from mhbench.ask.probe import check
from mhbench.records.schema import Item, letters, read_records
from mhbench.run.asking import asking
from mhbench.run.execute import run_stage
from mhbench.run.stage import Stage
from mhbench.steps.score import score_responses

pytestmark = pytest.mark.whole
STUDY = "counselingbench"
FORMS = [*seen.FORMS, *unseen.FORMS]
N = 8  # questions


def entries(url):
    "Endpoints and models of params.yaml, as a user would write them."
    where = {f"at-{f['name']}": {"kind": "openai", "base_urls": [url], "pause_s": 0.01, **f["endpoint"]} for f in FORMS}
    return where, {f["name"]: {"endpoint": f"at-{f['name']}", "served": f["name"], **f["entry"]} for f in FORMS}


@pytest.fixture(scope="module")
def voyage(clone, tmp_path_factory):
    "One run of one study with all of them: what each was scored and what was said of it beforehand."
    folder = tmp_path_factory.mktemp("fleet") / "mhbench"
    shutil.copytree(clone, folder, symlinks=True)
    shutil.rmtree(folder / "results")
    params = yaml.safe_load((folder / "params.yaml").read_text(encoding="utf-8"))
    with pytest.MonkeyPatch.context() as m:
        m.chdir(folder)
        m.setenv("MHBENCH_ROOT", str(folder))
        m.setenv("MHBENCH_CACHE", str(folder / "cache.sqlite"))
        params["studies"][STUDY]["generate"] = {"modes": {"zero_shot": {"n_items": N}}}
        params["studies"][STUDY]["prepare"]["answers"] = {}

        def enter(url):
            where, models = entries(url)
            more = {"endpoints": params["endpoints"] | where, "models": params["models"] | models}
            (folder / "params.yaml").write_text(yaml.safe_dump(params | more, sort_keys=False), encoding="utf-8")
            return where, models

        enter("http://127.0.0.1:9/v1")
        mhbench("select", "--studies", STUDY, "--models", ",".join(f["name"] for f in FORMS), cwd=folder)
        run_stage("prepare", STUDY, in_process=True)
        items = read_records(folder / "results" / "text" / STUDY / "prepare" / "items.parquet", Item)
        known = [(i.question, dict(zip(letters(len(i.options)), i.options)), i.key[0]) for i in items]
        with Fleet(FORMS, known) as server:
            where, models = enter(server.url)
            reports, asked = {}, {}
            for name, entry in models.items():
                with asking(entry, name, where) as (model, endpoint):
                    reports[name] = check(model, endpoint)
                asked[name] = -len(server.asked[name])
                run_stage("generate", STUDY, name, in_process=True)
                asked[name] += len(server.asked[name])
        stage = Stage("score", STUDY, "results", models=list(models))
        scores = score_responses(stage.items, stage.stored)  # the stage goes on to compare every two models
    table = pd.DataFrame(
        {
            "accuracy": scores.groupby("model")["correct"].mean(),
            "unread": scores.groupby("model")["read"].apply(lambda x: int((~x).sum())),
            "failed": scores.groupby("model")["status"].apply(lambda x: int((x == "error").sum())),
            "n": scores.groupby("model").size(),
            "asked": pd.Series(asked),
            "check": pd.Series({name: r.letters_from for name, r in reports.items()}),
            "reads": pd.Series({f["name"]: f["reads"] for f in FORMS}),
            "unseen": pd.Series({f["name"]: f in unseen.FORMS for f in FORMS}),
            "why": pd.Series({name: r.why for name, r in reports.items()}),
        }
    ).loc[[f["name"] for f in FORMS]]
    table.to_csv(folder.parent / "fleet.csv")
    print("\n" + table.to_string(max_colwidth=60))
    (folder.parent / "reports.txt").write_text("\n".join(map(str, reports.values())), encoding="utf-8")
    (folder.parent / "asked.json").write_text(json.dumps(server.asked), encoding="utf-8")
    return table


def test_every_letter_that_reaches_us_is_read_with_default_settings(voyage):
    assert len(voyage) >= 60 and voyage["unseen"].sum() >= 30
    assert (voyage["accuracy"] == 1).sum() >= 54
    reaches = voyage["reads"] == True  # noqa: E712  a reason is a text
    assert not list(voyage.index[reaches & (voyage["accuracy"] != 1)])


def test_a_letter_that_does_not_reach_us_is_counted_as_unread(voyage):
    lost = voyage[voyage["reads"] != True]  # noqa: E712
    assert len(lost) and (lost["unread"] == lost["n"]).all() and (lost["failed"] == 0).all()


def test_the_check_says_beforehand_what_will_happen(voyage):
    assert not list(voyage.index[(voyage["check"] == "none") != (voyage["unread"] == voyage["n"])])


def test_no_item_is_asked_again_but_for_what_is_learnt_from_the_first_ones(voyage):
    "All of these few are in flight when the first reply teaches something; o-series models teach four things."
    assert not list(voyage.index[voyage["asked"] > 5 * voyage["n"]])
