"What every stage asks: schemas with their fields as declared, in the bytes that come; and in words the same task."

import json

import numpy as np
import pytest
from answering import answering
from conftest import ROOT

from mhbench.ask.client import ask, schema_example
from mhbench.ask.request import _IN_WORDS, Model
from mhbench.ask.rubrics import rubric
from mhbench.corpus.compose import Candidate, compose_with, making_recipe, read_with
from mhbench.corpus.passages import Passage, passage_requests
from mhbench.corpus.pubmed import Abstract
from mhbench.records.schema import Item, Response
from mhbench.run.graph import graph
from mhbench.steps.answers import Asked
from mhbench.steps.contamination import complete
from mhbench.steps.duels import Matched, compare_and_name
from mhbench.steps.generate import generate
from mhbench.steps.judge import judge, judge_items
from mhbench.steps.judge_study import ask_parts, study_parts
from mhbench.studies.psychiatrybench.approach import write_questions

MODEL = Model(name="m", endpoint="here", served="m", sampling={"temperature": 0.0})
OPTIONS = ["lithium", "sertraline", "lorazepam", "haloperidol"]
CHOICE = Item(
    item_id="q", study="mhqa", task="multiple_choice", question="Which is an SSRI, of these four?", options=OPTIONS,
    key=["B"], source="test", rationale="It inhibits reuptake.",
)  # fmt: skip
LETTER = CHOICE.model_copy(update={"study": "counselingbench"})
OPEN = Item(
    item_id="o", study="psychiatrybench", category="diagnosis", task="open", question="What helps with sleep?",
    key=["Regular hours. No screens at night."], source="test", context={"history": "She sleeps badly."},
)  # fmt: skip
GAP = Item(item_id="g", study="medqade", task="cloze", question="____ lowers glucose.", key=["insulin"], source="test")
LINKED = OPEN.model_copy(
    update={"task": "sequential", "category": "sequential qa", "question": "", "stems": [f"ask {k}" for k in range(12)],
            "key": [f"reference {k}" for k in range(12)]}
)  # fmt: skip
ARTICLE = Abstract(pmid="7", title="Sleep", text="Regular hours help with sleep.")
MAKING = ROOT / "mhbench" / "studies" / "mhqa" / "making"
SAME = {"cache": None, "progress": False}


def said(item, model, text, mode="zero_shot"):
    return Response(item_id=item.item_id, study=item.study, model=model, mode=mode, text=text)


def recipe(name):
    return making_recipe(MAKING / f"{name}.yaml")


def judged(item, here, n=1, **more):
    return judge([said(item, f"s{k}", f"answer {k}") for k in range(n)], [item], MODEL, here, **SAME, **more)


def duelled(here):
    pair = [said(LETTER, name, f"by {name}", "cot") for name in ("a", "b")]
    return compare_and_name(Matched([LETTER], pair, pair[:1], 1), [LETTER], Asked("m", {}, MODEL, here), **SAME)


def composed(here):
    return compose_with([ARTICLE], recipe("compose"), MODEL, here, seed=1, **SAME)


def read(here):
    about = {"candidate_id": "c", "pmid": "7", "composer": "m", "prompt": "", "seed": 1, "raw": ""}
    one = Candidate(**about, question="Which?", options=OPTIONS, key="B")
    return read_with([one], {"7": ARTICLE}, recipe("validate"), MODEL, here, **SAME)


def looked_up(here):
    near = np.zeros((1, 1), int), np.ones((1, 1))
    shelf = [Passage(passage_id="p", source="s", text="Sertraline is an SSRI.")]
    requests = [r for _, _, r in passage_requests([CHOICE], shelf, *near, recipe("pseudolabel"))]
    return list(ask(requests, MODEL, here, **SAME))


def studied(here):
    how = dict(kind="score", n_items=None, n_known=None, repeats=1, temperatures=[0.0], wordings=[], wording_repeats=1)
    parts = study_parts([OPEN], [], seed=1, **how)
    return ask_parts(parts, [OPEN], Asked("m", {}, MODEL, here), kind="score", cache=None)


def approached(here):
    asker = Asked("m", {}, MODEL, here)
    return write_questions([OPEN], asker, asker, attempts=1, **SAME)


def generated(here):
    modes = {"zero_shot": {}, "cot": {}, "free_form": {"samples": 1}}
    return generate([CHOICE], MODEL, here, modes=modes, **SAME) + generate([OPEN, GAP], MODEL, here, **SAME)


AXES = list(rubric("counselingbench/duel").axes)
TWELVE = [f"answer_{k}" for k in range(1, 13)]
ASKS = [  # stage, what asks, the fields of each schema in the order in which they are to be answered
    ("generate", generated, []),
    ("judge", lambda here: judged(GAP, here, 12), [[*TWELVE, "difficulty"]]),
    ("judge", lambda here: judged(LINKED, here), [[f"Q{k}" for k in range(1, 13)]]),
    ("judge", lambda here: judged(OPEN, here), [["score"]]),
    ("judge_study", studied, [["score"]]),
    ("duels", duelled, [AXES, ["answer_1"]]),
    ("approach", approached, [["answer"]]),
    ("compose", composed, [["questions"]]),
    ("compose", read, [["snippet", "justification", "decision"]]),
    ("keys", looked_up, [["answered", "option"]]),
    ("profile", lambda here: judge_items([CHOICE], MODEL, here, rubric="mhqa/difficulty", **SAME), [["answer_1"]]),
    ("contamination", lambda here: complete([CHOICE], MODEL, here, **SAME), []),
]
NAMES = [f"{stage} {k}" for k, (stage, *_) in enumerate(ASKS)]


def schema_of(body):
    return body.get("response_format", {}).get("json_schema", {}).get("schema")


def in_words(body):
    "The schema that stands in the last message, and the message without it."
    text = body["messages"][-1]["content"]
    before, found, schema = text.partition(f"\n\n{_IN_WORDS['en']}\n")
    return (json.loads(schema), before) if found else (None, text)


def asked(asks, structured):
    "The bodies of all requests, by what is sent: each is answered with an example that fits."

    def reply(body):
        schema = schema_of(body) or in_words(body)[0]
        return schema_example(schema) if schema else "B"

    with answering(reply, structured=structured) as (here, seen):
        asks(here)
    return seen


def fields(schema):
    "The properties of all objects in a schema, outermost first."
    if not isinstance(schema, dict):
        return []
    inner = [schema.get("items"), *schema.get("properties", {}).values()]
    own = [list(schema["properties"])] if "properties" in schema else []
    return own + [f for s in inner for f in fields(s)]


def test_every_stage_that_asks_is_in_the_table():
    asking = {name for name, node in graph(ROOT).items() if "replay" in node.parameters}
    assert {stage for stage, *_ in ASKS} == asking


@pytest.mark.parametrize(("stage", "asks", "declared"), ASKS, ids=NAMES)
def test_what_is_asked_stands_in_the_order_in_which_it_is_answered(stage, asks, declared):
    sent = asked(asks, "json_schema")
    schemas = [schema_of(body) for body in sent if schema_of(body)]
    shapes = {json.dumps(s): s for s in schemas}.values()
    assert [fields(s)[0] for s in shapes] == declared
    for body in sent:
        schema = schema_of(body)
        assert body.raw == json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        if schema:
            assert json.dumps(schema, ensure_ascii=False, separators=(",", ":")).encode() in body.raw
            assert schema["required"] == list(schema["properties"])
    if stage == "compose" and declared == [["questions"]]:
        [inner] = fields(schemas[0])[1:]
        assert inner.index("question") < inner.index("options") < inner.index("correct")


@pytest.mark.parametrize("structured", ["none", "json_object"])
@pytest.mark.parametrize(("stage", "asks", "declared"), ASKS, ids=NAMES)
def test_a_schema_and_words_ask_the_same(stage, asks, declared, structured):
    by_schema, by_words = asked(asks, "json_schema"), asked(asks, structured)
    assert len(by_schema) == len(by_words)

    def told(body, words):
        schema, last = in_words(body) if words else (schema_of(body), body["messages"][-1]["content"])
        return json.dumps([*body["messages"][:-1], last, schema])  # keeps the order of fields

    assert sorted(told(body, True) for body in by_words) == sorted(told(body, False) for body in by_schema)


def test_a_correction_keeps_the_order_too():
    bad = iter(["Hm."])
    with answering(lambda body: next(bad, {"snippet": "?", "justification": "?", "decision": "Valid"})) as (here, seen):
        read(here)
    asked_for = [fields(schema_of(body))[0] for body in seen]
    assert asked_for == [["snippet", "justification", "decision"]] * 2
