"""Requests, responses and the baseline that does not generate."""

import json
import math
import re

import numpy as np
import pandas as pd
import pytest
from answering import answering, refuse
from conftest import ROOT
from hypothesis import HealthCheck, given
from hypothesis import settings as hyp
from hypothesis import strategies as st

from mhbench.ask.budget import Budget
from mhbench.ask.request import Answer, Model, Request, answer_token_limit, wire
from mhbench.corpus.load import load_corpus
from mhbench.encode.classifiers import prepare_choices
from mhbench.encode.embeddings import bundled_encoder
from mhbench.encode.finetune import TrainingSettings
from mhbench.records.schema import Item, Judgment, Response, letters, read_records
from mhbench.report.findings import went_wrong
from mhbench.run.execute import run_stage
from mhbench.run.params import load_params
from mhbench.steps.answers import nearest_option
from mhbench.steps.contamination import complete
from mhbench.steps.failures import failed_requests
from mhbench.steps.generate import (
    SELF_CONSISTENCY,
    generate,
    generation_requests,
    names_without_items,
    response,
    select_items,
    settings,
)
from mhbench.steps.respondents import about_gaps, count_responses, generate_metrics, respondents_table
from mhbench.steps.score import read_answer, score_responses

MODEL = Model(name="m", endpoint="here", served="served", sampling={"temperature": 0.0, "max_tokens": 8})


def mc(n, **more):
    return [
        Item(
            **{
                "item_id": f"q{i}",
                "study": "any",
                "task": "multiple_choice",
                "question": f"Question {i}?",
                "options": ["one", "two", "three"],
                "key": ["B"],
                "source": "test",
                "rationale": f"Reason {i}.",
                **more,
            }
        )
        for i in range(n)
    ]


def number(body):
    return int(re.findall(r"Question (\d+)\?", body["messages"][-1]["content"])[-1])


# ---------------------------------------------------------------- one request, one response

OUTCOMES = {
    "ok": lambda: "B",
    "error": refuse,
    "refused": lambda: {"message": {"content": None, "refusal": "I cannot help with that"}, "finish_reason": "stop"},
    "filtered": lambda: {"message": {"content": ""}, "finish_reason": "content_filter"},
    "truncated": lambda: {"message": {"content": "B because"}, "finish_reason": "length"},
}


@given(st.lists(st.sampled_from(sorted(OUTCOMES)), min_size=1, max_size=12))
@hyp(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_request_has_exactly_one_response_whatever_became_of_it(fates):
    items = mc(len(fates))
    modes = {"zero_shot": {}, "free_form": {"samples": 2, "temperatures": [1.0]}}
    with answering(lambda body: OUTCOMES[fates[number(body)]]()) as (here, seen):
        got = generate(items, MODEL, here, modes=modes, cache=None, progress=False)
    assert [(r.item_id, r.mode, r.sample) for r in got] == [
        (i.item_id, m, s) for m, n in (("zero_shot", 1), ("free_form", 2)) for i in items for s in range(n)
    ]
    assert [r.status for r in got[: len(items)]] == fates
    assert len(seen) == len(got)


def test_errors_keep_the_endpoints_words_and_are_not_answers():
    with answering(lambda body: refuse(403, "your plan does not include this model")) as (here, _):
        (r,) = generate(mc(1), MODEL, here, cache=None, progress=False)
    assert (r.status, r.text, r.letter_logprobs) == (
        "error",
        None,
        None,
    ) and "your plan does not include this model" in r.error


def test_a_stage_without_one_answer_ends_and_tells_it_in_the_endpoints_words():
    items = mc(4)
    with answering(lambda body: refuse(401, "no such key")) as (here, _):
        failed = generate(items, MODEL, here, cache=None, progress=False)
        [row] = failed_requests("generate", items, failed)
        assert (row.n_lost, row.n_asked, row.again) == (4, 4, True) and row.withheld and "no such key" in row.said
        [line] = about_gaps(items, failed)
        assert line.startswith("zero_shot: 4 of 4 requests have no answer (the first: ") and "no such key" in line
        written, answers = complete(
            mc(2, question="Which of these four comes first?"), MODEL, here, cache=None, progress=False
        )
    assert written == [None, None] and [a.status for a in answers] == ["error", "error"]


def test_the_next_run_asks_again_what_has_no_answer_and_nothing_else(tmp_path):
    items, cache = mc(12), tmp_path / "cache.sqlite"
    with answering(lambda body: refuse() if number(body) >= 10 else "A", concurrency=1) as (here, seen):
        first = generate(items, MODEL, here, cache=cache, progress=False)
        asked = len(seen)
        generate(items, MODEL, here, cache=cache, progress=False)
    assert [r.status for r in first] == ["ok"] * 10 + ["error"] * 2
    assert {number(body) for body in seen[asked:]} == {10, 11}


def test_answers_that_cannot_be_read_end_no_stage_and_are_told():
    said = [Response(item_id=f"q{k}", study="any", model="m", mode="zero_shot", text="Hm.") for k in range(20)]
    [row] = failed_requests("generate", mc(20), said)
    assert (row.n_lost, row.withheld, row.again) == (20, "its accuracy in this mode", False)
    [line] = about_gaps(mc(20), said)
    assert line.startswith("zero_shot: 20 of 20 answers cannot be read; look at some in responses.parquet")


def test_where_the_budget_ends_the_rest_is_failed_and_the_next_run_asks_it(tmp_path):
    items, cache = mc(12), tmp_path / "cache.sqlite"
    with answering(lambda body: "A", concurrency=1) as (here, seen):
        first = generate(items, MODEL, here, cache=cache, budget=Budget(max_tokens=400), progress=False)
        n = len(seen)
        whole = generate(items, MODEL, here, cache=cache, progress=False)
    assert 0 < n < 12 and [r.status for r in first] == ["ok"] * n + ["error"] * (12 - n)
    assert [r.item_id for r in first] == [i.item_id for i in items] and "budget" in first[-1].error
    assert len(seen) == 12 and {r.status for r in whole} == {"ok"}
    [row] = failed_requests("generate", items, first)
    assert (row.n_lost, row.n_answered, row.withheld) == (12 - n, n, "")


def test_a_run_is_replayed_without_an_endpoint(tmp_path):
    items, cache = mc(5), tmp_path / "cache.sqlite"
    modes = {"zero_shot": {"self_consistency": True}}
    with answering(lambda body: "A" if body["temperature"] < 0.5 else "B") as (here, seen):
        first = generate(items, MODEL, here, modes=modes, cache=cache, progress=False)
    assert len(seen) == 5 * 26, "repeats do not collapse"
    assert generate(items, MODEL, here, modes=modes, cache=cache, replay="only", progress=False) == first


def test_nothing_is_asked_where_one_prompt_cannot_be_built():
    items = mc(3) + [
        Item(
            item_id="e",
            study="any",
            task="extended_matching",
            question="",
            options=["x", "y"],
            stems=["s"],
            key=["A"],
            source="test",
        )
    ]
    with answering(lambda body: "A") as (here, seen):
        with pytest.raises(ValueError, match="there must be a prompt for mode free_form"):
            generate(items, MODEL, here, modes=["zero_shot", "free_form"], cache=None, progress=False)
    assert seen == []


# ---------------------------------------------------------------- what is asked


def test_self_consistency_is_25_beside_the_plain_answer():
    draws = settings({"cot": {"self_consistency": True}})["cot"].draws
    assert draws[0] == (0, None) and [s for s, _ in draws] == list(range(26))
    assert [t for _, t in draws[1:]] == [t for t in SELF_CONSISTENCY for _ in range(5)]
    assert settings(["free_form"])["free_form"].draws == [(s, 1.0) for s in range(10)]


def test_temperatures_are_sent_and_recorded():
    with answering(lambda body: "B") as (here, seen):
        got = generate(mc(1), MODEL, here, modes={"zero_shot": {"self_consistency": True}}, cache=None, progress=False)
        unstated = generate(mc(1), MODEL.model_copy(update={"sampling": {}}), here, cache=None, progress=False)
    assert sorted(b["temperature"] for b in seen[:26]) == sorted(
        [0.0] + [t for t in SELF_CONSISTENCY for _ in range(5)]
    )
    assert [r.temperature for r in got] == [0.0] + [t for t in SELF_CONSISTENCY for _ in range(5)]
    assert "temperature" not in seen[26] and unstated[0].temperature is None


@pytest.mark.parametrize(
    "mode,thinking,temperature,wanted",
    [
        ("zero_shot", False, 0.0, True),
        ("few_shot", False, 0.0, True),
        ("cot", False, 0.0, False),
        ("zero_shot", True, 0.0, False),
        ("zero_shot", False, 0.7, False),
        ("free_form", False, 0.0, False),
    ],
)
def test_letters_are_asked_for_where_the_answer_is_one(mode, thinking, temperature, wanted):
    model = MODEL.model_copy(update={"thinking": thinking, "sampling": {"temperature": temperature}})
    pairs = list(
        generation_requests(mc(5), model, mode, setting=settings({mode: {"samples": 1, "temperatures": None}})[mode])
    )
    assert {r.letters is not None for _, r in pairs} == {wanted}


def test_the_models_persona_comes_before_the_tasks_role():
    model = MODEL.model_copy(update={"system": "You are cautious."})
    ((_, a),) = generation_requests(mc(1), MODEL, "zero_shot")
    ((_, b),) = generation_requests(mc(1), model, "zero_shot")
    assert (
        b.messages[0]["content"] == f"You are cautious.\n\n{a.messages[0]['content']}"
        and a.messages[1:] == b.messages[1:]
    )
    ((_, c),) = generation_requests(mc(1, study="mentat"), model, "zero_shot")
    assert [m["role"] for m in c.messages] == ["system", "user"] and c.messages[0]["content"] == "You are cautious."


def test_thinking_is_kept_apart():
    with answering(lambda body: {"message": {"content": "<think>A? No.</think>B"}, "finish_reason": "stop"}) as (
        here,
        _,
    ):
        (r,) = generate(mc(1), MODEL.model_copy(update={"thinking": True}), here, cache=None, progress=False)
    assert r.text == "B" and r.reasoning.strip() == "A? No."


@pytest.mark.parametrize("mode", ["few_shot", "few_shot_cot"])
def test_demonstrations_are_not_of_the_case(mode):
    items = mc(12)
    items = [i.model_copy(update={"group_id": f"case-{k // 4}"}) for k, i in enumerate(items)]
    for item, r in generation_requests(items, MODEL, mode, n_demonstrations=2, seed=3):
        shown = [int(x) for m in r.messages[:-1] for x in re.findall(r"Question (\d+)\?", m["content"])]
        assert len(shown) == 2 and not {items[k].group_id for k in shown} & {item.group_id}
    assert list(generation_requests(items, MODEL, mode, seed=3)) == list(
        generation_requests(items, MODEL, mode, seed=3)
    )
    assert list(generation_requests(items, MODEL, mode, seed=3)) != list(
        generation_requests(items, MODEL, mode, seed=4)
    )


def test_a_draw_of_items_does_not_hang_on_their_order():
    items, s = mc(50), settings({"zero_shot": {"n_items": 7}})["zero_shot"]
    a, b = select_items(items, s, 1), select_items(items[::-1], s, 1)
    assert len(a) == 7 and a == b[::-1] and a != select_items(items, s, 2)
    some = settings({"zero_shot": {"categories": ["x"]}})["zero_shot"]
    assert select_items(items + mc(1, category="x", item_id="y"), some, 1)[0].item_id == "y"


def test_a_name_that_no_item_has_is_named():
    items = mc(3, category="mood", variant={"set": "D0"})
    modes = {"zero_shot": {"categories": ["mood", "moood"], "tasks": ["cloze"]}, "cot": {"n_items": {"D0": 2, "D1": 1}}}
    assert names_without_items(items, modes | {"few_shot": None}) == [
        "zero_shot: categories has moood, which no item has; those of the items are mood",
        "zero_shot: tasks has cloze, which no item has; those of the items are multiple_choice",
        "cot: sets has D1, which no item has; those of the items are D0",
    ]
    assert names_without_items(mc(1), {"cot": {"sets": ["D2"]}})[0].endswith("those of the items are none")


@pytest.mark.parametrize(
    "bad", [{"samples": 0}, {"temperatures": [-1.0]}, {"sample": 2}, {"n_items": "7"}, {"self_consistency": "yes"}]
)
def test_a_misspelt_or_impossible_setting_is_refused(bad):
    with pytest.raises(ValueError, match="settings: zero_shot"):
        settings({"zero_shot": bad})


def test_a_models_entry_goes_before_the_budget_of_a_mode():
    free = MODEL.model_copy(update={"sampling": {}})

    def most(mode, model=free, **more):
        return answer_token_limit(next(generation_requests(mc(5), model, mode, **more))[1], model)[1]

    budgets = {"max_tokens_letter": 1, "max_tokens_answer": 90, "max_tokens_reasoning": 500}
    assert most("zero_shot") is None and most("cot") is None
    assert [most(m, **budgets) for m in ("zero_shot", "few_shot_cot", "free_form")] == [1, 500, 90]
    longer = settings({"cot": {"max_tokens": 900}})["cot"]
    assert most("cot", setting=longer, **budgets) == 900
    for mode in ("zero_shot", "few_shot", "cot", "free_form"):
        assert most(mode, MODEL, **budgets) == 8, "sampling.max_tokens of the entry"
    own = free.model_copy(update={"max_tokens": {"reasoning": 50}})
    assert most("cot", own, setting=longer, **budgets) == 50 and most("zero_shot", own, **budgets) == 1


# ---------------------------------------------------------------- the encoder


class Random:
    "Unit vectors by text, and a count of what was embedded."

    def __init__(self):
        self.seen, self.known = [], {}

    def sentences(self, texts):
        self.seen += texts
        for t in texts:
            self.known.setdefault(t, np.random.default_rng(abs(hash(t)) % 2**32).normal(size=8))
        v = np.array([self.known[t] for t in texts], np.float32).reshape(-1, 8)
        return v / np.linalg.norm(v, axis=1, keepdims=True)


def test_nearest_option_is_the_argmax_of_the_cosine():
    items, enc = mc(40, context={"history": "A history."}), Random()
    items = [i.model_copy(update={"options": [f"{i.item_id}-{c}" for c in "abcd"]}) for i in items]
    got = nearest_option(items, enc, scale=7.0, chunk=11)
    for i, r in zip(items, got):
        q, o = enc.sentences([f"{i.question}\nA history."])[0], enc.sentences(i.options)
        z = 7.0 * (o @ q).astype(float)
        want = z - np.log(np.exp(z).sum())
        assert r.text == letters(4)[int(z.argmax())]
        assert np.allclose([r.letter_logprobs[c] for c in letters(4)], want, atol=1e-5) and math.isclose(
            sum(math.exp(v) for v in r.letter_logprobs.values()), 1, abs_tol=1e-9
        )


def test_a_text_is_embedded_once():
    enc = Random()
    nearest_option(mc(20), enc)
    assert len(enc.seen) == len(set(enc.seen)) == 20 + 3


def test_every_item_has_a_response_from_the_encoder():
    base = dict(study="any", source="test")
    items = [
        *mc(1),
        Item(item_id="a", task="cloze", question="____", key=["x"], **base),
        Item(item_id="b", task="open", question="Why?", key=["x"], **base),
        Item(item_id="c", task="open", question="Why?", key=["x"], context={"h": "One. Two! Three?"}, **base),
        Item(
            item_id="d",
            task="sequential",
            question="",
            stems=["1?", "2?"],
            key=["x", "y"],
            context={"h": "One."},
            **base,
        ),
        Item(
            item_id="e",
            task="multi_label",
            question="Which apply?",
            options=["x", "y"],
            key=[],
            context={"h": "One."},
            **base,
        ),
    ]
    got = nearest_option(items, Random())
    assert [r.item_id for r in got] == [i.item_id for i in items] and [r.status for r in got] == [
        "ok",
        "error",
        "error",
        "ok",
        "ok",
        "ok",
    ]
    assert (
        got[3].text in {"One.", "Two!", "Three?"} and got[4].text == "Q1: One.\nQ2: One." and got[5].text in {"x", "y"}
    )
    assert all(r.error for r in got if r.status == "error")
    assert nearest_option([], Random()) == []


def test_the_bundled_encoder_on_real_questions(datasets):
    "A sanity bound, not a benchmark: on 200 real questions MiniLM is above chance by three standard errors."
    pytest.importorskip("sentence_transformers")
    from mhbench.encode.embeddings import load_encoder
    from mhbench.studies.mhqa.load import load_mhqa

    items = list(getattr(got := load_mhqa(datasets / "mhqa" / "mhqa.csv", key="number"), "records", got))[:200]
    rs = nearest_option(items, load_encoder())
    right = np.mean([r.text in i.key for r, i in zip(rs, items)])
    assert right > 0.25 + 3 * math.sqrt(0.25 * 0.75 / 200), right


KEYS = [
    ("zero_shot", "bd752916dc94075d27cac54a2f2d3c8211288b4729a2bb68c02d74618690d35f"),
    ("few_shot", "badc34934cb9687a91dec55c915d06c13e11983389c407808ba057234c433f69"),
    ("few_shot_cot", "0c9bca730600b6f20206610dc024c37841d64134d1a716a24ac3c0c673977efa"),
    ("default/label", "85c780ac5af5d3628d89c0d621d479961ac0c14c9a5048575dad3a29da749daa"),
    ("default/pairwise", "57df9da6d75d3ca74eff9b8cd8b92723934232325c5bcf4ec054725c8803d5b1"),
    ("counselingbench/duel", "33436aaf9573efa33809024517f5e6600417dbdc7b3e12f008899b820118baa6"),
]


@pytest.mark.parametrize("asked, key", KEYS)
def test_a_question_keeps_the_key_under_which_its_answer_is_cached(asked, key):
    "Recorded once: a change of these keys would ask, and pay for, every answer again."
    from mhbench.ask.request import Endpoint
    from mhbench.records.schema import Response
    from mhbench.steps.judge import judge_requests
    from mhbench.steps.variants import evaluation_set

    bank = [
        Item(
            item_id=f"q{k}",
            study="demo",
            task="multiple_choice",
            question=f"A <AGE> <NAT> person asks {k}. What now?",
            options=["wait", "ask", "act"],
            key=["B"],
            rationale="Ask first.",
            source="test",
            split="few_shot" if k > 3 else "test",
        )
        for k in range(8)
    ]
    item = evaluation_set(bank, "D_G", 1)[0]
    model = Model(name="m", endpoint="here", served="m", sampling={"temperature": 0.0})
    here = Endpoint(name="here", base_urls=["http://localhost:1/v1"])
    if "/" in asked:
        said = [Response(item_id=item.item_id, study="demo", model=m, mode="zero_shot", text="B") for m in ("a", "b")]
        request = next(iter(judge_requests(said, [item], model, rubric=asked)))
    else:
        _, request = next(generation_requests([item], model, asked, pool=bank, seed=3))
    assert wire(request, model, here).key == key


def test_the_samples_of_self_consistency_say_that_they_vote():
    setting = settings({"cot": {"self_consistency": True, "samples": 2}})["cot"]
    assert [setting.votes(sample) for sample, _ in setting.draws] == [False] * 2 + [True] * 25
    assert not any(settings(["free_form"])["free_form"].votes(k) for k in range(10))


def test_a_smaller_draw_lies_within_a_larger_one():
    from mhbench.records.draw import draw_items

    items = mc(30)
    drawn = [{i.item_id for i in draw_items(items, n, seed=4)} for n in (3, 9, 27)]
    assert [len(d) for d in drawn] == [3, 9, 27] and drawn[0] < drawn[1] < drawn[2]
    # what the demo's answers were asked for: SHA-256 of seed and id, smallest first
    import hashlib

    by_hand = sorted(items, key=lambda i: hashlib.sha256(f"4:{i.item_id}".encode()).digest())[:3]
    assert drawn[0] == {i.item_id for i in by_hand}


def test_the_samples_that_vote_may_be_fewer_and_of_a_few_items():
    setting = settings({"zero_shot": {"self_consistency": {"n_items": 2, "samples": 1}, "temperatures": [0.5]}})
    assert setting["zero_shot"].draws == [(0, 0.5), *enumerate((0.2, 0.4, 0.6, 0.8, 1.0), 1)]
    modes = {"zero_shot": {"self_consistency": {"n_items": 2, "samples": 1}}}
    items = mc(6)
    with answering(lambda body: "B") as (here, _):
        whole = generate(items, MODEL, here, modes=modes, cache=None, progress=False)
    votes = [r.item_id for r in whole if r.votes]
    assert len(whole) == 6 + 2 * 5 and len(set(votes)) == 2 and all(votes.count(i) == 5 for i in votes)
    every = settings({"cot": {"self_consistency": True}})["cot"].voting
    assert every is not None and every.samples == 5


def test_an_answer_is_read_by_what_named_the_options(tmp_path):
    (tmp_path / "any").mkdir()
    numbers = "option: '{number}) {text}'\nuser: |\n  {question}\n  {options}\n"
    (tmp_path / "any/multiple_choice.yaml").write_text(numbers)
    for dir, named, said in ((tmp_path, True, "2"), (None, False, "B")):
        with answering(lambda body, said=said: said) as (here, seen):
            (got,) = generate(mc(1), MODEL, here, cache=None, prompts_dir=dir, progress=False)
        assert got.numbered is named and ("2) two" in seen[0]["messages"][-1]["content"]) is named
        assert read_answer(mc(1)[0], got)[0] == ["B"]
        assert read_answer(mc(1)[0], got.model_copy(update={"numbered": not named}))[0] == []
        assert score_responses(mc(1), [got])["correct"].tolist() == [1.0]
        assert "logprobs" not in seen[0] or not named  # those of letters say nothing of numbers


def test_a_response_keeps_what_its_request_said_of_the_options_and_the_sample():
    for numbered in (True, False):
        request = Request("q0", [], {"temperature": 0.7}, 3, numbered=numbered)
        got = response(mc(1)[0], request, Answer("q0", "ok", "2"), MODEL, "zero_shot", votes=True)
        assert (got.numbered, got.sample, got.temperature, got.votes) == (numbered, 3, 0.7, True)
    without = response(mc(1)[0], request, Answer("q0", "ok", "2", changed=["no temperature"]), MODEL, "zero_shot")
    assert without.temperature is None, "an endpoint that does not accept a temperature answered at another"


def test_answers_under_two_sets_of_terms_are_said(tmp_path):
    items = mc(4)
    with answering(lambda body: "A") as (here, _):
        responses = generate(items, MODEL, here, cache=None, progress=False)
    mixed = [
        r.model_copy(update={"changed": ["no temperature"], "temperature": None}) if r is responses[0] else r
        for r in responses
    ]
    counts = count_responses(items, mixed)
    assert dict(zip(counts["changed"], counts["n"])) == {"": 3, "no temperature": 1}
    assert [generate_metrics(items, x)["n_terms"] for x in (responses, mixed)] == [1, 2]
    file = tmp_path / "studies" / "s" / "score" / "served.parquet"
    file.parent.mkdir(parents=True)
    for x, said in ((responses, []), (mixed, ["s, score: m: answers were made with different parameters"])):
        respondents_table(items, x).to_parquet(file)
        assert [
            w.split(": the endpoint")[0] for w in went_wrong(tmp_path, ["s"], [("score", "s")]) if "score: m" in w
        ] == said


@pytest.mark.whole  # the bundled model judges
def test_an_encoder_is_asked_what_it_can_read_and_nothing_of_it_fails(tmp_path):
    "Sentences with a gap have no options: they count as not asked, and no judge is shown an answer that nobody gave."
    for stage, model in (("prepare", None), ("generate", "minilm"), ("score", None), ("judge", None)):
        given = {"results": str(tmp_path)} | ({} if stage in ("prepare", "generate") else {"models": ["minilm"]})
        run_stage(
            stage, "medqade", model, overrides=given | ({"judges": ["gemma"], "n_items": 1} if stage == "judge" else {})
        )
    items = read_records(tmp_path / "text/medqade/prepare/items.parquet", Item)
    assert read_records(tmp_path / "text/medqade/generate/minilm/responses.parquet", Response) == []
    told = pd.read_parquet(tmp_path / "studies/medqade/generate/minilm/not_asked.parquet")
    assert told["n"].sum() == len(items) and "no options" in told["why"][0]
    judged = read_records(tmp_path / "text/medqade/judge/judgments.parquet", Judgment)
    assert judged and {j.status for j in judged} == {"ok"}


def test_the_demo_gives_the_trained_encoder_questions_that_it_reads():
    "Every multiple-choice question of the demo, with its longest option: only its context may be cut."
    transformers = pytest.importorskip("transformers")
    p = load_params(ROOT / "params.yaml")
    read = TrainingSettings(**p["studies"]["mhqa"]["finetune"]["settings"]).max_length
    tokenizer = transformers.AutoTokenizer.from_pretrained(bundled_encoder())
    for study, entry in [(s, e) for s, e in p["studies"].items() if "prepare" in e]:
        own = {"language": "en"} if study == "medqade" else entry["prepare"]["options"]
        items = load_corpus(entry["prepare"]["loader"], ROOT / entry["prepare"]["path"], study=study, **own).items
        chosen = [i for i in items if i.task == "multiple_choice"]
        assert prepare_choices(chosen, tokenizer, max_length=read).too_long == [], study


def test_mhqa_is_asked_for_a_number_and_a_justification_with_room_for_both():
    item = Item(
        item_id="q1", study="mhqa", task="multiple_choice", question="?", options=list("wxyz"), key=["C"], source="test"
    )
    model = Model(name="m", endpoint="here", served="m", sampling={"temperature": 0.0})
    room = dict(max_tokens_letter=1, max_tokens_answer=90, max_tokens_reasoning=500)
    for mode, tokens in (("zero_shot", 90), ("few_shot_cot", 500)):
        [(_, request)] = generation_requests([item], model, mode, pool=[], seed=1, **room)
        assert (request.letters, request.numbered, request.room) == (None, True, tokens)
    assert "Option 3: y" in request.messages[-1]["content"] and len(request.messages) == 2 + 2 * 3


def test_whose_words_a_prompt_had_stands_with_every_answer_and_in_the_table(tmp_path):
    "A template that says wording: paper, one of the user's, and mhbench's own, where a mode has no other."
    (tmp_path / "any").mkdir()
    own = tmp_path / "any" / "multiple_choice.yaml"
    text = {
        "user": "{question}\n{options}",
        "modes": {"cot": {"inline": True, "user": "Example: A.\n{question}\n{options}"}},
    }
    items = mc(2)
    found = {}
    with answering(lambda body: "B") as (here, seen):
        for wording in ("paper", "own"):
            own.write_text(json.dumps(text | ({"wording": "paper"} if wording == "paper" else {})))
            modes = {"zero_shot": {}, "few_shot_cot": {}, "free_form": {}}
            got = generate(items, MODEL, here, modes=modes, cache=None, progress=False, prompts_dir=tmp_path)
            found[wording] = {r.mode: r.wording for r in got}
    paper = {"zero_shot": "paper", "few_shot_cot": "paper", "free_form": "ours"}
    assert found == {"paper": paper, "own": {m: w.replace("paper", "own") for m, w in paper.items()}}
    assert [m["content"][:11] for m in seen[2]["messages"]] == ["Example: A."]  # no demonstration besides
    assert "wording" not in respondents_table(items, [r for r in got if r.mode == "free_form"])
    assert set(respondents_table(items, got)["wording"]) == {"own", "ours"}


def test_an_answer_is_begun_where_the_endpoint_takes_that_and_refused_by_name_elsewhere(tmp_path):
    (tmp_path / "any").mkdir()
    text = {"user": "{question}\n{options}", "prefill": "Correct Answer is ("}
    (tmp_path / "any" / "multiple_choice.yaml").write_text(json.dumps(text))
    asks = dict(cache=None, progress=False, prompts_dir=tmp_path)
    with answering(lambda body: "B) two") as (here, seen):
        with pytest.raises(ValueError, match="endpoints.here must take a prefill.*got prefill: false"):
            generate(mc(1), MODEL, here, **asks)
        assert seen == []
        (got,) = generate(mc(1), MODEL, here.model_copy(update={"prefill": True}), **asks)
        assert seen[0]["messages"][-1] == {"role": "assistant", "content": "Correct Answer is ("}
        assert read_answer(mc(1)[0], got)[0] == ["B"]
        completions = MODEL.model_copy(update={"api": "completions"})
        assert (
            wire(Request("x", [{"role": "user", "content": "Q"}], prefill="("), completions, here).body.count(b" (")
            == 1
        )


def test_where_the_endpoint_gave_no_words_none_are_quoted():
    about = {"study": "any", "model": "m", "mode": "zero_shot"}
    said = [Response(item_id="q0", status="error", error="503: busy", **about)]
    said += [Response(item_id=f"q{k}", status="empty", text="", **about) for k in (1, 2)]
    said += [Response(item_id="q3", text="A", **about)]
    failed, empty = failed_requests("generate", mc(4), said)
    assert (failed.said, failed.n_lost) == ("503: busy", 1) and (empty.said, empty.n_lost) == ("", 2)
