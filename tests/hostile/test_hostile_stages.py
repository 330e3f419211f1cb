"A stage whose requests failed is not finished; one whose verdicts cannot be read is, and counts them."

import nbformat
import pytest
import yaml
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


ASKING = sorted(name for name, node in graph(ROOT).items() if "max_failed" in node.parameters)


def test_every_stage_that_asks_has_a_limit_of_failures():
    source = {n.stem: n.read_text(encoding="utf-8") for n in (ROOT / "nbs" / "stages").glob("*.ipynb")}
    assert sorted(name for name, text in source.items() if "replay=replay" in text) == ASKING
    assert {"generate", "judge", "duels", "contamination"} < set(ASKING)


@pytest.mark.parametrize("stage", ASKING)
def test_no_request_may_fail_unless_somebody_says_so(stage):
    assert yaml.safe_load((ROOT / "params.yaml").read_text())[stage]["max_failed"] == 0
    cells = nbformat.read(ROOT / "nbs" / "stages" / f"{stage}.ipynb", 4).cells
    [given] = [c.source for c in cells if "parameters" in c.metadata.get("tags", [])]
    assert "\nmax_failed = 0" in given and any("max_failed=max_failed" in c.source for c in cells)


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


def test_a_judge_that_is_refused_leaves_no_result_and_asks_again(judged):
    def said(n, body):
        if n < 8:
            return lambda _: (401, {"error": {"message": "Incorrect API key"}})
        words = ['{"score": 80}', "I would say eighty", '{"score": 900}', '{"score": 60}']
        return lambda b: (200, completion(b, words[sum("What helps" in str(x) for x in s.asked[8:]) % 4]))

    with FaultServer(every=said) as s:
        judged.params["endpoints"]["remote"] = {"kind": "openai", "base_urls": [s.url], "structured": "none"}
        judged.params["endpoints"]["remote"]["concurrency"] = 1
        judged.write()
        with pytest.raises(RuntimeError, match=r"at most 0 requests may fail .*401: Incorrect API key.*api_key_env"):
            run_stage("judge", "mhqa")
        assert not (judged.top / "results/metrics/judge/mhqa.json").exists()
        assert not (judged.top / "results/judge/mhqa/notebook.ipynb").exists()
        asked = len(s.asked)
        s.asked.extend([{}] * (8 - asked))  # the key is mended
        run_stage("judge", "mhqa")
    verdicts = read_records(judged.top / "results/text/judge/mhqa/judgments.parquet", Judgment)
    assert len(verdicts) == 4 and {v.status for v in verdicts} == {"ok", "error"}
    unread = [v for v in verdicts if v.status == "error"]
    assert all("not the JSON asked for" in v.error and v.score is None for v in unread)
