"A stage ends whatever its requests came to, counts what is missing, and asks that again when it is run again."

import numpy as np
import pandas as pd
import pytest
from conftest import ROOT
from faults.server import FaultServer, completion

from mhbench.records.schema import Item, Judgment, Response, read_records
from mhbench.run.execute import run_stage
from mhbench.run.graph import graph

ITEMS = [
    Item(item_id=f"q{n}", study="mhqa", task="open", question=f"What helps {n}?", key=["sleep"], source="made")
    for n in range(4)
]
ANSWERS = [Response(item_id=i.item_id, study="mhqa", model="student", mode="zero_shot", text="rest") for i in ITEMS]
JUDGE = {"endpoint": "remote", "served": "j", "sampling": {"temperature": 0.0, "max_tokens": 64}}


ASKING = sorted(name for name, node in graph(ROOT).items() if "replay" in node.parameters)


def test_no_stage_that_asks_has_a_limit_of_failures():
    source = {n.stem: n.read_text(encoding="utf-8") for n in (ROOT / "nbs" / "stages").glob("*.ipynb")}
    assert sorted(name for name, text in source.items() if "replay=replay" in text) == ASKING
    assert {"generate", "judge", "duels", "contamination"} < set(ASKING)
    assert not [
        name for name, text in source.items() if any(f"max_{x}" in text for x in ("failed", "unread", "truncated"))
    ]


@pytest.fixture
def judged(house):
    "A study of four answers, and a judge behind an endpoint."
    house.only("mhqa")
    house.params["run"] |= {"models": ["student"], "judge": ["mhqa"]}
    house.params["studies"]["mhqa"]["judge"] = {"kind": "score", "judges": ["judge"], "n_boot": 20}
    house.params["models"] |= {"judge": JUDGE, "student": JUDGE | {"served": "s"}}
    house.lay("prepare", "items", ITEMS, "mhqa")
    house.lay("generate", "responses", ANSWERS, "mhqa", "student")
    house.lay("prepare", "recorded", [ANSWERS[0].model_copy(update={"model": "colleague", "mode": "cot"})], "mhqa")
    return house


def test_a_judge_that_is_refused_is_counted_and_asked_again(judged):
    def said(n, body):
        if n < 8:
            return lambda _: (401, {"error": {"message": "Incorrect API key"}})
        words = ['{"score": 80}', "I would say eighty", '{"score": 900}', '{"score": 60}']
        return lambda b: (200, completion(b, words[sum("What helps" in str(x) for x in s.asked[8:]) % 4]))

    with FaultServer(every=said) as s:
        judged.params["endpoints"]["remote"] = {"kind": "openai", "base_urls": [s.url], "structured": "none"}
        judged.params["endpoints"]["remote"]["concurrency"] = 1
        judged.write()
        run_stage("judge", "mhqa")
        refused = read_records(judged.top / "results/text/mhqa/judge/judgments.parquet", Judgment)
        assert [v.status for v in refused] == ["error"] * 4 and "401: Incorrect API key" in refused[0].error
        [row] = (
            pd.read_parquet(judged.top / "results/studies/mhqa/judge/means.parquet")
            .query("by == 'all'")
            .to_dict("records")
        )
        assert (row["n"], row["n_failed"]) == (0, 4) and np.isnan(row["estimate"])
        asked = len(s.asked)
        s.asked.extend([{}] * (8 - asked))  # the key is mended
        run_stage("judge", "mhqa")
        verdicts = read_records(judged.top / "results/text/mhqa/judge/judgments.parquet", Judgment)
        unread = [v for v in verdicts if v.status == "error"]
        assert len(verdicts) == 4 and 0 < len(unread) < 4 and all(v.score is None and v.error for v in unread)
        for _ in range(4):  # other words are said each time
            run_stage("judge", "mhqa")
        once = len(s.asked)
        run_stage("judge", "mhqa")
    assert len(s.asked) == once, "a verdict that was read is not asked again"
    verdicts = read_records(judged.top / "results/text/mhqa/judge/judgments.parquet", Judgment)
    assert [v.status for v in verdicts] == ["ok"] * 4
