"""MENTAT through the stages: what may be pushed, somebody's answers, the creators' answers, several models."""

import json

import numpy as np
import pandas as pd
import pytest
import yaml

from mhbench.records.schema import Item, Response, read_records, write_records
from mhbench.run.execute import run_stage

HOLDS_TEXT = {"items.parquet", "ratings.parquet", "recorded.parquet", "responses.parquet", "judgments.parquet"}


@pytest.fixture(scope="module")
def asked(root, tmp_path_factory):
    "The demo bank in all four sets, with the encoder's answers."
    folder = tmp_path_factory.mktemp("mentat") / "results"
    with pytest.MonkeyPatch.context() as m:
        m.setenv("MHBENCH_ROOT", str(root))
        m.chdir(root)
        values = {"results": str(folder)}
        run_stage(
            "prepare",
            "mentat",
            overrides=values
            | {
                "path": "mhbench/studies/mentat/demo",
                "sha256": None,
                "options": {},
                "answers": {},
                "n_items": None,
                "sets": ["D0", "D_G", "D_A", "D_N"],
            },
        )
        run_stage("generate", "mentat", "minilm", overrides=values)
        stage("preferences", folder, n_boot=5, n_permutations=99)
        yield folder


def stage(name, folder, **values):
    run_stage(name, "mentat", overrides={"results": str(folder)} | values)
    return folder / "studies" / "mentat" / name


def test_what_holds_text_is_never_pushed(root, asked):
    """Items, ratings and answers of a protected corpus stay on the machine, and so do the notebooks that were run on
    them before scoring.
    """
    stages = yaml.safe_load((root / "dvc.yaml").read_text())["stages"]
    kinds = {}
    for name, s in stages.items():
        for o in s.get("outs", []):
            path, kind = next(iter(o.items())) if isinstance(o, dict) else (o, {})
            kinds[name, path] = kind
    before_scoring = ("prepare", "generate")
    texts = {
        (name, path): kind
        for (name, path), kind in kinds.items()
        if path.startswith("results/text/") or (name in before_scoring and path.startswith("results/studies/"))
    }
    assert {name for name, _ in texts} >= {"prepare", "generate", "judge", "duels"}
    assert {name for name, path in texts if path.startswith("results/studies/")} == {*before_scoring}
    assert [k for k, v in texts.items() if v.get("push") is not False] == []
    elsewhere = [
        f for f in asked.rglob("*.parquet") if f.name in HOLDS_TEXT and "text" not in f.relative_to(asked).parts
    ]
    counted = {"generate"}  # its own tables of counts bear the names of what they count
    assert {f.relative_to(asked).parts[2] for f in elsewhere} <= counted


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_somebodys_answers_score_like_a_models(asked, tmp_path, suffix):
    items = read_records(asked / "text/mentat/prepare/items.parquet", Item)
    rng = np.random.default_rng(3)
    rows = [
        {"item_id": i.item_id, "text": rng.choice(["A", "The answer is B.", "C)", "", "no idea"]), "mode": "zero_shot"}
        for i in items
    ]
    rows += [
        {
            "item_id": i.item_id,
            "text": i.options["ABCDE".index(i.key[0])] if k % 2 else "something else entirely",
            "mode": "free_form",
        }
        for k, i in enumerate(items)
        if i.variant["set"] == "D0" and i.key
    ]
    table, file = pd.DataFrame(rows), tmp_path / f"answers{suffix}"
    blank = np.flatnonzero(table["text"] == "")
    table["error"] = ""
    table.loc[blank[::2], "error"] = "timed out"
    table.to_csv(file, index=False) if suffix == ".csv" else table.to_parquet(file)
    out = tmp_path / "results"
    stage(
        "prepare",
        out,
        path="mhbench/studies/mentat/demo",
        sha256=None,
        options={},
        answers={"a-colleague": str(file)},
        n_items=None,
        sets=["D0", "D_G", "D_A", "D_N"],
    )
    recorded = read_records(out / "text/mentat/prepare/recorded.parquet", Response)
    failed = [r.status == "error" for r in recorded]
    empty = [r.status == "ok" and r.text == "" for r in recorded]
    assert len(recorded) == len(rows) and 0 < sum(empty) <= sum(failed)
    assert np.flatnonzero(failed).tolist() == blank[::2].tolist()
    assert np.flatnonzero(empty).tolist() == blank[1::2].tolist()
    scores = pd.read_parquet(stage("score", out, models=[], soft_labels=False, n_boot=50) / "scores.parquet")
    choice = scores[scores["mode"] == "zero_shot"].set_index("item_id")
    said = {"A": "A", "The answer is B.": "B", "C)": "C"}
    for i, r in zip(items, table.to_dict("records")):  # an empty answer is not right; one that failed is missing
        want = np.nan if r["error"] else float([said.get(r["text"])] == i.key)
        assert choice.loc[i.item_id, "correct"] == pytest.approx(want, nan_ok=True)
    # the same answers as a model's responses give the same scores
    write_records(
        [r.model_copy(update={"model": "m"}) for r in recorded],
        out / "text/mentat/generate/m/responses.parquet",
        Response,
    )
    scored = stage("score", out, models=["m"], soft_labels=False, n_boot=50)
    both = pd.read_parquet(scored / "accuracy.parquet")
    one, other = (both[both["model"] == m].drop(columns="model").reset_index(drop=True) for m in ("a-colleague", "m"))
    assert set(one.pop("origin")) == {"recorded"} and set(other.pop("origin")) == {"asked"}
    pd.testing.assert_frame_equal(one, other)
    for name in ("score", "freeform"):
        with pytest.raises(
            RuntimeError,
            match=f"{name}: soft_labels must have the labels of the preferences stage; got no labels.parquet .mentat.",
        ):
            stage(name, out, models=[], soft_labels=True)
    free = pd.read_parquet(stage("freeform", out, models=[], soft_labels=False) / "inconsistency.parquet")
    words = dict(
        zip(table.loc[table["mode"] == "free_form", "item_id"], table.loc[table["mode"] == "free_form", "text"])
    )
    assert len(free) == len(words)
    for r in free.itertuples():
        assert (
            (r.inconsistency > 0.05) if words[r.item_id] == "something else entirely" else abs(r.inconsistency) < 1e-4
        )


def test_creators_answers_make_the_curve(asked, tmp_path):
    "Without them the curve is absent and says why; with the preferred options as answers it starts at one."
    plain = stage("preferences", asked, creators=None, n_boot=5, n_boot_rankings=0, n_permutations=99)
    contents = json.loads((plain / "contents.json").read_text())
    assert {"top_k", "top_k_wide"} & {t["name"] for t in contents["tables"]} == set()
    assert any("creator" in a["why"] for a in contents["absent"])
    source = "the source's own labels prefer the same option"
    without = pd.read_parquet(plain / "headline.parquet").set_index("measure").loc[source]
    labels = pd.read_parquet(plain / "labels.parquet")
    best = labels.loc[labels.groupby("question")["probability"].idxmax(), ["question", "option"]]
    best.to_csv(tmp_path / "creators.csv", index=False)
    out = stage(
        "preferences",
        asked,
        creators=str(tmp_path / "creators.csv"),
        n_boot=5,
        n_boot_rankings=5,
        n_permutations=99,
    )
    beside = pd.read_parquet(out / "headline.parquet").set_index("measure").loc[source]
    assert beside["n"] == without["n"] > 1, "a creator's answer takes no question from the source's own labels"
    ranked = pd.read_parquet(out / "labels_all.parquet").query("model == 'Plackett-Luce' and not wrong")
    assert ranked[["refits_low", "refits_high"]].notna().all().all()
    top = pd.read_parquet(out / "top_k.parquet")
    assert top["model"].nunique() == 4 and set(top["n"]) == {best["question"].nunique()}
    symmetric = top[top["model"].str.contains("symmetric")]
    assert symmetric["estimate"].tolist() == [1] * 10  # five ranks of two models
    assert (symmetric.query("k < 5")["ci_low"] < 1).all()  # a share's interval, since no replicate differs
    assert symmetric.query("k == 5")["ci_low"].isna().all()  # all five of five options: nothing is estimated
    raters = pd.read_parquet(out / "raters.parquet")
    assert set(raters["quantity"]) == {"mean score", "slope", "offset", "tie parameter"}
    refitted = raters["quantity"] != "mean score"
    assert (raters["ci_low"].isna() == refitted).all(), "the spread of refits is no interval"
    assert (raters["refits_low"].notna() == refitted).all() and (raters["interval"].eq("refits") == refitted).all()
    assert raters["estimate"].notna().all() and (raters["n"] > 0).all()


def test_what_is_said_of_unrated_questions_stops_nothing(asked, tmp_path):
    "It is counted and named; a file that is not there ends the stage with what to do."
    labels = pd.read_parquet(asked / "studies/mentat/preferences/labels.parquet")
    rated = labels["question"].iloc[0]
    file = tmp_path / "creators.csv"
    file.write_text(f"question,option\n{rated},A\nq-unrated,B\n")
    small = dict(n_boot=2, n_boot_rankings=0, n_permutations=9)
    out = stage("preferences", asked, creators=str(file), wrong_options={rated: ["E"], "q-gone": ["A"]}, **small)
    said = (out / "notebook.ipynb").read_text(encoding="utf-8")
    for where, question in (("creators.csv", "q-unrated"), ("preferences.wrong_options", "q-gone")):
        assert f"note: 1 of 2 questions of {where} have no rating and are passed over: ['{question}']" in said
    made = pd.read_parquet(out / "labels.parquet")
    assert made.loc[made["wrong"], ["question", "option"]].to_numpy().tolist() == [[rated, "E"]]
    assert set(pd.read_parquet(out / "top_k.parquet")["n"]) == {1}
    with pytest.raises(RuntimeError, match=r"file must be a CSV file; got .*gone.csv.*`dvc pull data.dvc`"):
        stage("preferences", asked, creators=str(tmp_path / "gone.csv"), **small)


def test_every_set_is_compared_and_every_figure_drawn(asked, root):
    stage("score", asked, models=["minilm"], n_boot=50)
    out = stage(
        "demographics",
        asked,
        models=["minilm"],
        n_boot=50,
        n_permutations=199,
        groups={"encoders": ["minilm"], "hosted": ["nobody"]},
    )
    pairs, averages, scores = (
        pd.read_parquet(f)
        for f in (out / "pairs.parquet", out / "averages.parquet", asked / "studies/mentat/score/scores.parquet")
    )
    assert pairs.groupby("set").size().to_dict() == {"D_A": 3, "D_G": 3, "D_N": 15} and set(averages["models"]) == {
        "all models",
        "encoders",
    }
    assert (
        (pairs["p_holm"] >= pairs["p_bh"]).all()
        and (pairs["p_bh"] >= pairs["p"]).all()
        and (pairs["n_mcnemar"] <= pairs["n"]).all()
    )
    k = pairs.query("set == 'D_N' and first == 'Asian' and second == 'White'").iloc[0]
    wide = (
        scores[scores["set"] == "D_N"]
        .dropna(subset=["ethnicity"])
        .pivot(index="base_id", columns="ethnicity", values="correct")
        .dropna()
    )
    assert (
        k["estimate"] == pytest.approx((wide["Asian"] - wide["White"]).mean()) and k["n"] == len(wide) == k["n_mcnemar"]
    )
    accuracy = pd.read_parquet(asked / "studies/mentat/score/accuracy.parquet").set_index(["by", "group"])
    assert (
        accuracy.loc[("all", "all"), "n"] == accuracy.loc[("set", "D0"), "n"] == (scores["set"] == "D0").sum()
    )  # the main table is the core set's
    outs = [
        next(iter(o)) if isinstance(o, dict) else o
        for name in ("demographics", "preferences", "score")
        for o in yaml.safe_load((root / "dvc.yaml").read_text())["stages"][name]["outs"]
    ]
    stage("preferences", asked, n_boot=5, n_permutations=99)
    for o in outs:
        path = o.replace("${item.study}", "mentat")
        assert (asked / path.removeprefix("results/") if path.startswith("results/") else asked / path).exists(), path


def test_the_labels_of_either_reading_and_the_question_file_s_score_the_same_answers(asked):
    "Counted one by one: the letter of the most probable option, put back into the order that the model was shown."
    out = stage("score", asked, models=["minilm"], n_boot=50)
    table = pd.read_parquet(out / "by_labels.parquet").query("category == 'all'").set_index("labels")["estimate"]
    labels = pd.read_parquet(asked / "studies/mentat/preferences/labels_by_reading.parquet")
    items = [i for i in read_records(asked / "text/mentat/prepare/items.parquet", Item) if i.variant["set"] == "D0"]
    said = {
        r.item_id: max(r.letter_logprobs, key=r.letter_logprobs.get)
        for r in read_records(asked / "text/mentat/generate/minilm/responses.parquet", Response)
    }
    best = {
        (reading, q): g.loc[g["probability"].idxmax(), "option"]
        for (reading, q), g in labels.groupby(["reading", "question"])
    }
    right = {"as shown": [], "as released": [], "question file": []}
    for i in items:
        if ("shown", i.base) not in best or i.item_id not in said:
            continue
        shown = "ABCDE".index(said[i.item_id])
        original = "ABCDE"[shown if i.order is None else i.order[shown]]
        right["as shown"].append(original == best["shown", i.base])
        right["as released"].append(original == best["release", i.base])
        right["question file"].append(said[i.item_id] == "ABCDE"[int(np.argmax(i.soft_labels))])
    assert len(right["as shown"]) > 3
    for name, x in right.items():
        assert table[name] == pytest.approx(np.mean(x)), name
    assert table["as shown - as released"] == pytest.approx(np.mean(right["as shown"]) - np.mean(right["as released"]))


def test_tables_in_the_paper_s_layout_say_what_the_tidy_ones_say(asked):
    tidy = pd.read_parquet(asked / "studies/mentat/score/averages.parquet").query("by == 'category'").set_index("group")
    wide = pd.read_parquet(asked / "studies/mentat/score/averages_wide.parquet").set_index("category").iloc[:, 0]
    assert set(wide.index) == set(tidy.index)
    for category, cell in wide.items():
        r = tidy.loc[category]
        limits = f" [{r['ci_low']:.2f}, {r['ci_high']:.2f}]" if np.isfinite(r["ci_low"]) else ", no interval"
        assert cell == f"{r['estimate']:.2f}{limits}"
    paper = pd.read_parquet(asked / "studies/mentat/score/averages_paper.parquet").set_index("category").iloc[:, 0]
    assert set(paper.index) == set(wide.index) and paper.str.fullmatch(r"-|\d\.\d\d( ± \d\.\d\d)?").all()
    page = pd.read_parquet(asked / "studies/mentat/preferences/page.parquet")
    assert page["place"].tolist() == [1, 2, 3, 4, 5] and sorted(page["option"]) == list("ABCDE")
