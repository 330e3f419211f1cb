"""A task is a class: what each must say of itself, that nothing else knows a task by name, and one from end to end.

The ranked list goes from a table of questions to the page of the report; what is expected of it is counted by hand.
"""

import ast
import inspect
from itertools import permutations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from conftest import ROOT
from faults.server import FaultServer, completion
from scipy.stats import kendalltau
from test_prompts import an_item

from mhbench.ask.prompts import bundled_texts
from mhbench.records import task as registered
from mhbench.records.schema import Item, Response, letters
from mhbench.records.task import UNKNOWN, Task, task_named, task_of, tasks, tasks_with
from mhbench.run.cli import main
from mhbench.run.execute import run_stage
from mhbench.steps.generate import generation_requests
from mhbench.steps.score import is_correct, read_answer, response_outcomes, score_responses
from mhbench.steps.variants import reorder
from mhbench.tasks.multiple_choice import parse_extended_matching, probabilities
from mhbench.tasks.ranking import among_first, kendall_tau, parse_ranking

OPTIONS = ["lithium", "sertraline", "clozapine", "a benzodiazepine"]


def says(item: Item, text: str | None, **more) -> Response:
    return Response(item_id=item.item_id, study=item.study, model="m", mode="zero_shot", text=text, **more)


# ---------------------------------------------------------------- every task


@pytest.mark.parametrize("name", tasks())
def test_a_task_has_all_that_a_task_must_have(name):
    of = task_named(name)
    assert of.name == name and isinstance(of.judged, bool) and inspect.getdoc(type(of))
    assert f"default/{name}.yaml" in bundled_texts(), "how it is shown"
    item = an_item(name)
    assert of.reference(item) and of.key_texts(item) and of.for_people(item).startswith(item.question)
    chance = of.chance(item)
    assert np.isnan(chance) if of.judged else 0 <= chance < 1
    assert of.judged == np.isnan(is_correct(item, of.read(item, says(item, "x"))[0]))
    for measure in of.measures.values():
        best, guess = measure.of(item, item.key), measure.chance(item)
        assert np.isnan(best) or best >= guess
    page = (ROOT / "nbs/records/01_schema.ipynb").read_text(encoding="utf-8")
    assert f"| `{name}` |" in page, "the table of tasks in the notebook on records"


@pytest.mark.parametrize("name", [name for name in tasks() if task_named(name).lettered])
def test_options_to_choose_from_are_two_to_26(name):
    item = an_item(name)
    with pytest.raises(ValueError, match=rf"options must be two or more for task {name}; got 1"):
        task_named(name).check(item.model_copy(update={"options": item.options[:1]}))
    options = [f"option {k}" for k in range(27)]
    task_named(name).check(item.model_copy(update={"options": options[:26]}))
    with pytest.raises(
        ValueError, match=rf"options must be 26 at most, a letter each, for task {name}; got 27; .*multi_label"
    ):
        task_named(name).check(item.model_copy(update={"options": options}))


@pytest.mark.parametrize("name", tasks())
def test_a_class_that_lacks_a_part_is_refused_by_its_name(name, monkeypatch):
    monkeypatch.setattr(registered, "_CLASSES", dict(registered._CLASSES))
    whole = type(task_named(name))
    for part in sorted(Task.__abstractmethods__):
        lacks = type("Lacking", (whole,), {"name": "lacking", part: getattr(Task, part)})
        assert lacks.__abstractmethods__ == {part}
        fields = an_item(name).model_dump() | {"task": "lacking"}
        with pytest.raises(ValueError, match=f"task lacking: class Lacking must define {part}"):
            Item(**fields)


def test_a_task_that_says_not_who_decides_is_refused(monkeypatch):
    monkeypatch.setattr(registered, "_CLASSES", dict(registered._CLASSES))

    class Undecided(Task):
        name = "undecided"
        read = correct = chance = lambda self, *more: 0.0

    with pytest.raises(ValueError, match="task undecided: class Undecided must define judged"):
        task_named("undecided")


def test_an_item_of_no_task_stops_by_name():
    with pytest.raises(ValueError, match="name must be one of .*ranking.*; got 'essay'"):
        Item(**an_item("open").model_dump() | {"task": "essay"})
    stored = Item.model_construct(
        **an_item("open").model_dump() | {"task": "essay"}
    )  # as from a file of another release
    with pytest.raises(ValueError, match="got 'essay'"):
        score_responses([stored], [says(stored, "text")])


@pytest.mark.parametrize("name", sorted(set(tasks()) - set(tasks_with("judged"))))
def test_what_a_task_writes_it_reads_as_right(name):
    item = an_item(name)
    answer = item.key[:1] if task_of(item).one_reference else item.key
    response = says(item, task_of(item).written(item, answer))
    read, _ = read_answer(item, response)
    assert is_correct(item, read) == 1
    if item.options:
        for right in (True, False):
            parts = [right] * max(1, len(item.stems))
            drawn = task_of(item).drawn(item, parts, np.random.default_rng(1))
            assert is_correct(item, drawn) == right


@pytest.mark.parametrize("name", tasks_with("lettered"))
def test_the_key_follows_its_options_into_another_order(name):
    item = an_item(name)
    for order in permutations(range(len(item.options))):
        turned = reorder(item, order)
        texts = [[i.options[letters(26).index(k)] for k in i.key] for i in (item, turned)]
        assert texts[0] == texts[1]


def test_few_lines_know_a_task_by_its_name():
    names, found = set(tasks()), []
    for path in sorted((ROOT / "mhbench").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Compare):
                compared = {n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
                about = "task" in ast.unparse(node.left)
                found += [f"{path.name}:{node.lineno}"] * bool(about and compared & names)
    assert len(found) <= 15, found


# ---------------------------------------------------------------- a ranked list


def ranking(key="ACDB", **more) -> Item:
    fields = dict(question="Which first?", options=OPTIONS, key=list(key), source="test")
    return Item(item_id="r", study="s", task="ranking", **fields | more)


@pytest.mark.parametrize(
    ("text", "entries", "how"),
    [
        ("A > C > D > B", "ACDB", "line"),
        ("a, c, d, b", "ACDB", "line"),
        ("**A** → **C** → **D** → **B**", "ACDB", "line"),
        ("1) lithium\n2) clozapine\n3) a benzodiazepine\n4) sertraline", "ACDB", "list"),
        ('```json\n["A", "C", "D", "B"]\n```', "ACDB", "json"),
        ('{"ranking": [{"option": 1}]}', "", "none"),
        ("My first thought was B > A.\nFinal answer: A > C > D > B", "ACDB", "marked"),
        ("1. sertraline\n2. lithium", "BA", "list"),  # a list of two
        ("lithium: 2\nsertraline: 1", "BA", "list"),
        ("lithium: 2\nsertraline: 3", "", "none"),  # which are no places
        ("Ranking: A > B\nFinal ranking: B > A", "BA", "marked"),  # the last that is announced
        ('{"x": ["B", "A"], "y": ["A", "B"]}', "BA", "json"),  # the first list of an object
        ("From least to most appropriate:\nD\nC\nB", "", "conflict"),  # three lines, of one option each
        ("From least to most appropriate:\nD > C > B", "BCD", "line"),
        ("I looked at all.\nFrom least to most appropriate they differ.\nD > C > B", "", "conflict"),
        ("D > C > B (ascending)", "BCD", "line"),
        ("A > C", "AC", "line"),  # a partial list
        ("A", "A", "line"),
        ("A > C > A > B", "", "conflict"),  # an option twice
        ("A > B > C\nC > B > A", "", "conflict"),  # two orders
        ("A > Z > C", "", "none"),  # an order that nobody announced, of something that is no option
        ("These are all good drugs, and I like them.", "", "none"),
        ("", "", "none"),
        (None, "", "none"),
        ("<think>B > A</think>", "", "none"),
        ("[[[[", "", "none"),
        ("> > >", "", "none"),
    ],
)
def test_a_ranking_is_read_or_is_none(text, entries, how):
    got = parse_ranking(text, OPTIONS)
    assert ("".join(got.entries), got.how) == (entries, how)


def test_an_unknown_option_keeps_its_place():
    item = ranking()
    read, _ = read_answer(item, says(item, "Ranking: valproate > A > C > D"))
    assert read == [f"{UNKNOWN}valproate", "A", "C", "D"]
    assert is_correct(item, read) == 0 and among_first(item, read, 1) == 0 and among_first(item, read, 2) == 1
    assert kendall_tau(item, read) == kendall_tau(item, ["A", "C", "D"])


def test_a_refusal_is_counted_and_reaches_what_guessing_does():
    item = ranking()
    refused, failed = says(item, "I'm sorry, but I can't help with that."), says(item, None, status="error")
    both = [refused, failed.model_copy(update={"model": "n"})]
    scores = score_responses([item], both)
    assert response_outcomes(scores).tolist() == ["refused", "failed"]
    assert scores["correct"].fillna(-1).tolist() == [0, -1] and kendall_tau(item, []) == 0


def test_options_that_were_shown_in_another_order_and_numbered():
    item = ranking()
    shown = says(item, "2 > 1 > 4 > 3", numbered=True, order=[2, 0, 1, 3])
    assert read_answer(item, shown)[0] == ["A", "C", "D", "B"]


def test_a_judge_is_shown_the_key_in_words():
    item = ranking("CADB")
    assert task_of(item).reference(item).splitlines() == [
        f"{n}. {OPTIONS[ord(k) - 65]}" for n, k in enumerate("CADB", 1)
    ]


@pytest.mark.parametrize("key", ["ABCDE", "CE", "D"])
def test_tau_is_that_of_scipy(key):
    item = ranking(key, options=list("vwxyz"))
    rng = np.random.default_rng(7)
    for _ in range(200):
        said = list(rng.permutation(list("ABCDE"))[: rng.integers(1, 6)])
        places = [[s.index(a) if a in s else len(s) for a in "ABCDE"] for s in (list(key), said)]
        assert kendall_tau(item, said) == pytest.approx(kendalltau(*places).statistic, abs=1e-12)


@pytest.mark.parametrize(
    ("text", "n_stems", "answers"),
    [
        ("B", 1, ["B"]),
        ("AB", 2, ["A", "B"]),  # letters that are run together
        ("A, B", 2, ["A", "B"]),
        ("A B C", 2, ["", ""]),
        ("1: A, 2: B", 2, ["A", "B"]),
        ("Answers: 1-A 2-C", 2, ["A", "C"]),
        ('{"answer": "B"}', 1, ["B"]),
        ('{"answer": "B"}', 2, ["", ""]),  # of which of two
        ('["A", "C"]', 2, ["A", "C"]),
        ('["A", "C", "B"]', 2, ["", ""]),
        ('{"1": "A", "2": "C"}', 2, ["A", "C"]),
        ('{"stem": 1, "answer": "A"}\n{"stem": 2, "answer": "C"}', 2, ["A", "C"]),
        ('[{"answer": "A"}, {"answer": "C"}]', 2, ["A", "C"]),  # in their order
        ('[{"answer": "A"}, {"stem": 1, "answer": "C"}]', 2, ["C", ""]),
        ("1. A\n2. B\n1. A", 2, ["A", "B"]),  # said again
        ("1. A\n2. B\n1. C", 2, ["", "B"]),  # and otherwise
    ],
)
def test_each_scenario_has_the_letter_that_a_text_gives_it(text, n_stems, answers):
    "One letter each, or none."
    assert [p.letter or "" for p in parse_extended_matching(text, n_stems, 3)] == answers


def test_a_key_of_two_letters_is_read_from_the_text_and_guessed_as_two():
    "Log-probabilities are of one letter; without a key one letter is guessed."
    fields = {
        "item_id": "r",
        "study": "s",
        "task": "multiple_choice",
        "question": "?",
        "options": OPTIONS,
        "source": "x",
    }
    two, none = Item(**fields, key=["A", "C"]), Item(**fields)
    answer = says(two, "A, C", letter_logprobs=dict(zip("ABCD", (-3.0, -0.1, -3.0, -3.0))))
    assert read_answer(two, answer)[0] == ["A", "C"]
    assert (task_of(two).chance(two), task_of(none).chance(none)) == (1 / 6, 1 / 4)
    measures = task_named("ranking").measures
    assert [measures[name].share for name in ("top-3 accuracy", "Kendall's tau-b")] == [True, False]
    assert measures["top-3 accuracy"].chance(ranking()) == 3 / 4


def test_guessing_reaches_what_the_task_says():
    item, every = ranking(), [list(p) for p in permutations("ABCD")]
    of = task_of(item)
    assert np.mean([is_correct(item, a) for a in every]) == pytest.approx(of.chance(item))
    for measure in of.measures.values():
        assert np.mean([measure.of(item, a) for a in every]) == pytest.approx(measure.chance(item), abs=1e-12)


def test_it_is_asked_with_a_place_to_end():
    from mhbench.ask.request import Model

    base = Model(name="m", endpoint="e", served="m", one_line=True)
    ((_, request),) = generation_requests([ranking()], base, "zero_shot")
    assert request.letters is None and request.sampling["stop"] == ["\n"]
    assert "D: a benzodiazepine" in request.messages[-1]["content"]


# ---------------------------------------------------------------- from a table to the report

TABLE = """id,question,option A,option B,option C,option D,answer,task
r1,Which drug first in acute mania?,lithium,sertraline,naloxone,caffeine,A > B > C > D,ranking
r2,Which drug first in panic disorder?,lithium,sertraline,naloxone,caffeine,B > A > C > D,ranking
r3,Which drug first in opioid overdose?,lithium,sertraline,naloxone,caffeine,C > A > B,ranking
r4,Which drug first against sleepiness?,lithium,sertraline,naloxone,caffeine,D > C > B > A,ranking
r5,Which drug first against lasting sadness?,lithium,sertraline,naloxone,caffeine,B > A,Ranking
r6,Which drug first before an exam?,lithium,sertraline,naloxone,caffeine,D,ranking
r7,Which drug is an antagonist?,lithium,sertraline,naloxone,caffeine,C,
"""
ANSWERS = {  # who knows all, and who gives a partial list, an order upside down, an option twice, a refusal
    "doctor": ["A > B > C > D", "B > A > C > D", "C > A > B > D", "D > C > B > A", "B > A", "D", "C"],
    "novice": ["A > C", "D > C > A > B", "A > B > A > C", "I'm sorry, but I can't help with that.", "A > B", "D", "C"],
}


@pytest.fixture(scope="module")
def ranked(tmp_path_factory) -> Path:
    "A folder in which a study of ranked lists went from its table to the report."
    folder = tmp_path_factory.mktemp("ranked") / "mhbench"
    folder.mkdir()
    for name in ("dvc.yaml", "nbs", "data", "mhbench"):
        (folder / name).symlink_to(ROOT / name)
    questions = [line.split(",")[1] for line in TABLE.splitlines()[1:]]

    def answering(texts):
        def every(n, body):
            asked = body["messages"][-1]["content"]
            text = next(t for q, t in zip(questions, texts, strict=True) if q in asked)
            return lambda body: (200, completion(body, text))

        return every

    (folder / "order.csv").write_text(TABLE)
    with FaultServer(every=answering(ANSWERS["doctor"])) as a, FaultServer(every=answering(ANSWERS["novice"])) as b:
        p = yaml.safe_load((ROOT / "params.yaml").read_text())
        for name, server in (("doctor", a), ("novice", b)):
            p["endpoints"][name] = {"kind": "openai", "base_urls": [server.url]}
            p["models"][name] = {"endpoint": name, "served": name}
        (folder / "params.yaml").write_text(yaml.safe_dump(p, sort_keys=False))
        (folder / "run.yaml").write_text((ROOT / "run.yaml").read_text())
        with pytest.MonkeyPatch.context() as m:
            m.chdir(folder)
            m.setenv("MHBENCH_ROOT", str(folder))
            m.delenv("MHBENCH_CACHE", raising=False)
            assert main(["new-study", "order", "order.csv", "--yes"]) == 0
            assert main(["select", "--studies", "order", "--models", "doctor,novice"]) == 0
            run_stage("prepare", "order")
            for model in ANSWERS:
                run_stage("generate", "order", model)
            run_stage("score", "order")
            run_stage("report")
    return folder


def test_the_table_is_read_as_it_says(ranked):
    scores = pd.read_parquet(ranked / "results/studies/order/score/scores.parquet").query("model == 'novice'")
    assert scores["task"].tolist() == ["ranking"] * 6 + ["multiple_choice"]
    assert [list(k) for k in scores["key"]] == [
        list("ABCD"),
        list("BACD"),
        list("CAB"),
        list("DCBA"),
        ["B", "A"],
        ["D"],
        ["C"],
    ]
    assert [list(a) for a in scores["answer"]] == [list("AC"), list("DCAB"), [], [], ["A", "B"], ["D"], ["C"]]
    assert scores["how"].tolist()[2:4] == ["conflict", "refused"]


def test_its_measures_have_intervals_and_a_chance_level(ranked):
    t = pd.read_parquet(ranked / "results/studies/order/score/measures.parquet").set_index(["model", "measure"])
    known = t.loc["doctor"]
    assert known["estimate"].tolist() == [1, 1]
    tau = [3 / np.sqrt(6 * 5), -1, 0, 0, 3 / 5, 1]  # of A > C's five pairs four are alike; of A > B's, four
    novice = t.loc["novice"]
    assert novice.loc["Kendall's tau-b", "estimate"] == pytest.approx(np.mean(tau))
    assert novice.loc["top-3 accuracy", "estimate"] == pytest.approx(3 / 6)
    assert novice["n_refused"].tolist() == [1, 1] and novice["n_unread"].tolist() == [1, 1]
    assert (novice["ci_low"] < novice["estimate"]).all() and (novice["estimate"] < novice["ci_high"]).all()
    assert set(t["n"]) == {6} and known["ci_low"].iloc[0] > 0.5  # six of six: Agresti and Coull's interval
    assert novice["chance"].tolist() == [0.75, 0]


def test_top_1_is_its_accuracy(ranked):
    t = pd.read_parquet(ranked / "results/studies/order/score/accuracy.parquet").query("by == 'all'").set_index("model")
    assert t["estimate"].to_dict() == {"doctor": 1.0, "novice": pytest.approx(3 / 7)}


def test_the_report_shows_them(ranked):
    page = (ranked / "results/report.html").read_text(encoding="utf-8")
    assert "Further measures of answers" in page and "tau-b" in page and "top-3 accuracy" in page


def test_a_letter_without_a_log_probability_has_none():
    item = ranking(key="A").model_copy(update={"task": "multiple_choice"})
    some = says(item, "A", letter_logprobs={"A": -0.1, "B": -3.0})
    assert probabilities(some, 3).tolist() == pytest.approx([1 / (1 + np.exp(-2.9)), 1 / (1 + np.exp(2.9)), 0])
    assert probabilities(says(item, "A", letter_logprobs={"Z": -0.1}), 3) is None


def test_an_item_of_several_choices_is_checked_as_every_item_is():
    item = ranking(key="A").model_copy(update={"task": "multiple_choice", "key": ["Z"]})
    with pytest.raises(ValueError, match="key"):
        task_of(item).check(item)


def test_of_two_lists_in_an_object_the_first_is_the_ranking():
    assert parse_ranking('{"ranking": ["A", "C", "D", "B"], "left_out": ["E"]}', OPTIONS).entries == tuple("ACDB")


def test_a_wrong_ranking_that_is_drawn_holds_every_option_once():
    item = ranking("CADB")
    rng = np.random.default_rng(1)
    wrong = task_of(item).drawn(item, [False], rng)
    assert sorted(wrong) == list("ABCD") and wrong[0] != "C"
