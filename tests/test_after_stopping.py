"""Tables of every stage, where a model was asked until it was decided: no interval that needs a fixed number."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from mhbench.run.stage import Stage


@pytest.fixture
def stage(tmp_path):
    folder = tmp_path / "text" / "generate" / "mhqa" / "quick"
    folder.mkdir(parents=True)
    decided = pd.DataFrame({"first": ["quick"], "second": ["whole"], "verdict": ["first"]})
    decided.to_parquet(folder / "decisions.parquet")
    asked = {"model": ["quick", "whole"], "asked": [60, 400], "of": 400, "mode": "zero_shot"}
    limits = {"ci_low": [0.1, 0.2], "ci_high": [0.9, 0.8], "level": 0.95}
    pd.DataFrame(asked | limits).to_parquet(folder / "models.parquet")
    return Stage("profile", "mhqa", tmp_path, models=["quick", "whole"], about="Made up.")


def rows(**more):
    return pd.DataFrame({"n": 60, "estimate": [0.5, 0.6], "ci_low": 0.4, "ci_high": 0.7, "interval": "hall"} | more)


def test_every_table_of_every_stage_leaves_such_an_interval_out(stage):
    f1 = rows(model=["quick", "whole"], p_value=0.01, simultaneous_low=0.3)
    stage.table("f1", f1, "Macro F1")
    kept = pd.read_parquet(stage.out / "f1.parquet")
    assert kept.loc[0, ["ci_low", "ci_high", "p_value", "simultaneous_low"]].isna().all()
    assert kept["interval"].tolist() == ["stopped", "hall"] and kept["estimate"].tolist() == [0.5, 0.6]
    pd.testing.assert_series_equal(kept.loc[1, f1.columns], f1.loc[1])
    stage.table("pairs", rows(first="whole", second=["other", "quick"]), "Pairs")
    assert pd.read_parquet(stage.out / "pairs.parquet")["ci_low"].isna().tolist() == [False, True]
    stage.table("averages", rows(models="all models"), "Averages over models")
    assert pd.read_parquet(stage.out / "averages.parquet")["ci_low"].isna().all()
    stage.table("questions", rows(topic=["a", "b"]), "About the questions, not about models")
    assert pd.read_parquet(stage.out / "questions.parquet")["ci_low"].notna().all()
    stage.headline(f1, measure="macro F1", mode="zero_shot")
    stage.done({})
    main = pd.read_parquet(stage.out / "headline.parquet").set_index("model")
    assert np.isnan(main.loc["quick", "ci_low"]) and main.loc["whole", "ci_low"] == 0.4


def test_an_interval_that_holds_wherever_asking_stopped_stays(stage):
    stage.table("accuracy", rows(model=["quick", "whole"], interval="sequence"), "Accuracy")
    assert pd.read_parquet(stage.out / "accuracy.parquet")["ci_low"].tolist() == [0.4, 0.4]


def test_a_figure_says_whose_intervals_do_not_hold(stage):
    stage.origins = {"quick": "asked", "whole": "recorded"}
    for name, sequential in (("f1", False), ("accuracy", True)):
        drawing = Figure()
        drawing.text(0.1, 0.1, "quick")
        stage.figure(name, drawing, "Shares by model", sequential=sequential)
    first, second = (entry["caption"] for entry in stage._figures)
    assert first == f"{second}. quick: asked until it was decided, so the intervals drawn do not hold"
    assert second == "Shares by model"
