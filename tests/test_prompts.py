"""Templates, messages, demonstrations and rubrics."""

import itertools
import re

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from mhbench.ask.prompts import (
    build,
    bundled_texts,
    demonstrations,
    field_label,
    names,
    ordered_pool,
    related,
    render,
    slug,
    template,
)
from mhbench.ask.rubrics import rubric, rubric_for, rubrics
from mhbench.ask.wording import Wording, as_template, program_strings, write_prompts
from mhbench.records.schema import MODES, Item
from mhbench.records.task import tasks

SHAPES = {
    "multiple_choice": dict(options=["alpha", "beta", "gamma"], key=["B"]),
    "extended_matching": dict(
        options=["alpha", "beta", "gamma"], stems=["first scene", "second scene"], key=["A", "C"]
    ),
    "cloze": dict(key=["alpha"]),
    "open": dict(key=["the reference text"]),
    "sequential": dict(stems=["first ask", "second ask"], key=["one reference", "two reference"]),
    "conversation": dict(stems=["first words", "a reply", "second words"], key=["another reply"]),
    "multi_label": dict(options=["alpha", "beta", "gamma"], key=["beta"]),
    "ranking": dict(options=["alpha", "beta", "gamma"], key=["B", "A", "C"]),
}
LONG = [f"option {k}" for k in range(1, 27)]
NAMED = [
    "diagnosis",
    "treatment",
    "treatment_follow_up",
    "classification_categories",
    "classification_specific",
    "management_plan",
    "clinical_approach",
    "mental_qa",
    "sequential_qa",
    "mcq",
    "emi",
    "emi_separated",
    "exams",
]


def an_item(task, study="any", item_id="x", **more):
    return Item(
        **{
            "item_id": item_id,
            "study": study,
            "task": task,
            "question": f"The question of {item_id}?",
            "source": "test",
            "context": {"history": "a {braced} [[bracketed]] history", "mental_state": "calm"},
            "rationale": "because of this",
            **SHAPES[task],
            **more,
        }
    )


def text_of(messages):
    return "\n".join(m["content"] for m in messages)


# ---------------------------------------------------------------- the language


@given(st.text(), st.text())
@settings(max_examples=200, deadline=None)
def test_values_are_never_read_as_templates(a, b):
    assert render("{a}|{b}|.", {"a": a, "b": b}) == f"{a}|{b}|."


@given(st.text(alphabet="ab {}[]\n", max_size=30))
@settings(max_examples=500, deadline=None)
def test_any_template_renders_or_says_why(t):
    try:
        out = render(t, {"a": "1", "b": ""})
    except ValueError as e:
        assert "render:" in str(e)
    else:
        assert "{a}" not in t.replace("{{", "").replace("}}", "") or "1" in out or "[[" in t


def test_optional_parts_go_with_their_empty_fields():
    assert render("[[A {a} ]][[B {b} ]]C", {"a": "", "b": "2"}) == "B 2 C"
    assert render("[[x]]", {}) == "x"


# ---------------------------------------------------------------- every bundled text

FILES = sorted(bundled_texts())


@pytest.mark.parametrize("name", [str(f) for f in FILES])
def test_every_file_is_sound(name):
    data = yaml.safe_load(bundled_texts()[name].read_text(encoding="utf-8"))
    assert data["about"], "every file says which paper's structure it follows"
    texts = [
        v
        for d in (data, *(data.get("modes") or {}).values())
        for k, v in d.items()
        if k in ("system", "user", "assistant", "part", "answer_line")
    ]
    for t in texts:
        names(t, name)
    if not name.startswith(("rubrics", "steps")):
        for t in [d.get(k, "") for d in (data, *(data.get("modes") or {}).values()) for k in ("system", "user")]:
            assert not names(t) & {"key", "key_text", "rationale"}, "the answer stands in assistant alone"


@pytest.mark.parametrize("name", rubrics())
@pytest.mark.parametrize("language", [None, "de"])
def test_every_rubric_loads(name, language):
    r = rubric(name, language=language)
    if r.kind == "score" and "psychiatrybench/points" != name:
        assert sorted(r.anchors) == [0, 50, 75, 90, 100]
    assert len({r.show(x) for x in r.labels}) == len(r.labels), "labels stay apart in every language"
    assert set(r.shown) <= {*r.labels, *itertools.chain(*r.extra.values())}


# ---------------------------------------------------------------- messages


@pytest.mark.parametrize("task", tasks())
@pytest.mark.parametrize("mode", MODES)
def test_every_task_in_every_mode(task, mode):
    item, shot = an_item(task), an_item(task, item_id="y", rationale="SHOT-REASON")
    if mode == "free_form" and task in ("extended_matching", "multi_label", "ranking"):
        with pytest.raises(ValueError, match="there must be a prompt for mode free_form"):
            build(item, mode)
        return
    messages = build(item, mode, demonstrations=[shot] if mode.startswith("few") else ())
    asked = messages[-1]["content"]
    assert messages[-1]["role"] == "user" and [m["role"] for m in messages[-3:-1]] in (
        [],
        ["system"],
        ["user", "assistant"],
    )
    assert item.question in asked and "a {braced} [[bracketed]] history" in asked
    for part in item.stems:
        assert part in asked
    for part in item.options:
        assert (part in asked) == (mode != "free_form")
    assert ("SHOT-REASON" in text_of(messages)) == (mode == "few_shot_cot")
    assert "because of this" not in text_of(messages), "the item's own rationale is not shown"
    assert asked == asked.rstrip()


@pytest.mark.parametrize("task", ["cloze", "open", "sequential"])
def test_the_reference_is_not_shown(task):
    item = an_item(task, key=["SECRET-1"] if task != "sequential" else ["SECRET-1", "SECRET-2"])
    for mode in ("zero_shot", "cot"):
        assert "SECRET" not in text_of(build(item, mode))


@pytest.mark.parametrize("category", NAMED)
def test_each_psychiatrybench_task_has_its_own_prompt(category):
    task = {
        "emi": "extended_matching",
        "mcq": "multiple_choice",
        "emi_separated": "multiple_choice",
        "classification_categories": "multi_label",
        "classification_specific": "multi_label",
        "sequential_qa": "sequential",
    }.get(category, "open")
    item = an_item(task, study="psychiatrybench", category=category.replace("_", " ").title())
    assert template(item).name == f"psychiatrybench/{category}.yaml"
    assert "Patient's history: a {braced}" in text_of(build(item)) and "Mental state examination: calm" in text_of(
        build(item)
    )
    if task == "open":
        assert rubric_for(item).name == f"psychiatrybench/{category}"


def test_the_distributed_words_of_the_papers_are_ours():
    "No sentence of a paper's appendix stands in ours (a probe of what those say)."
    ours = "\n".join(bundled_texts()[f].read_text(encoding="utf-8") for f in FILES)
    for probe in (
        "You are a helpful, respectful, honest",
        "Du bist ein erfahrener Medizinstudent",
        "Do not penalize the",
        "Groundance",
        "Answer (single letter)",
        "I will provide two texts",
        "Do not favor any option",
    ):
        assert probe not in ours


def test_few_shot_of_mhqa_compares_and_shows_three_examples():
    messages = build(an_item("multiple_choice", study="mhqa", context={}, rationale=None), "few_shot_cot")
    assert [m["role"] for m in messages] == ["system"] + ["user", "assistant"] * 3 + ["user"]
    assert all(
        "Comparison:" in m["content"] and re.search(r"^Correct option: [1-4]$", m["content"], re.M)
        for m in messages
        if m["role"] == "assistant"
    )


def test_medqade_is_asked_in_the_language_of_the_card():
    de = an_item("cloze", study="medqade", language="de-DE", context={})
    assert "Fehlender Begriff:" in text_of(build(de)) and "Missing term:" in text_of(build(de, language="en"))
    hinted = de.model_copy(update={"context": {"hint": "Hormon"}})
    assert "Hinweis: Hormon" in text_of(build(hinted)) and "Hint: Hormon" in text_of(build(hinted, language="en"))
    en = de.model_copy(update={"language": "en"})
    assert (rubric_for(de).language, rubric_for(en).language) == ("de", "en")
    assert rubric_for(de).show("Correct") == "Richtig" and rubric_for(en).show("Correct") == "Correct"
    assert "Missing term:" in text_of(build(an_item("cloze", study="other", language="de", context={}))), (
        "English where there is no German text"
    )
    with pytest.raises(ValueError, match="got none in other/cloze.fr.yaml"):
        build(an_item("cloze", study="other"), language="fr")


# ---------------------------------------------------------------- demonstrations


def pool_of(n, per_case):
    return [
        an_item("multiple_choice", item_id=f"q{i}", group_id=f"g{i // per_case}", base_id=f"q{i - i % 2}")
        for i in range(n)
    ]


@given(st.integers(4, 40), st.integers(1, 5), st.integers(1, 3), st.integers(0, 10**9), st.randoms())
@settings(max_examples=100, deadline=None)
def test_demonstrations_are_by_seed_and_never_of_the_case(n, per_case, k, seed, rnd):
    pool = pool_of(n, per_case)
    asked = rnd.choice(pool)
    try:
        got = demonstrations(ordered_pool(pool, seed), k, exclude=asked)
    except ValueError as e:
        assert "items must hold" in str(e)
        assert len({i.base_id for i in pool if not related(i, asked)}) < k
        return
    assert len(got) == k == len({d.base_id for d in got})
    assert not any(related(d, asked) for d in got)
    shuffled = pool[:]
    rnd.shuffle(shuffled)
    assert demonstrations(ordered_pool(shuffled, seed), k, exclude=asked) == got


@pytest.mark.parametrize(
    ("changes", "is_related"),
    [
        ({}, False),
        ({"base_id": "b1"}, True),
        ({"base_id": "b1", "study": "s2"}, False),
        ({"group_id": "g1"}, True),
        ({"group_id": "g1", "study": "s2"}, False),
        ({"question": "Q1"}, True),
        ({"question": "Q1", "study": "s2"}, True),
        ({"question": "Q1", "context": {"age": "30"}}, False),
        ({"question": "Q1", "stems": ["t"]}, False),
    ],
)
def test_items_are_related_by_question_case_or_text(changes, is_related):
    "Within a study by base and case, and in any by the same question with the same context and parts."
    fields = {"task": "multi_label", "study": "s1", "source": "t", "options": ["x", "y"], "key": ["x"]}
    first = Item(**fields, item_id="i1", base_id="b1", group_id="g1", question="Q1")
    second_fields = fields | {"item_id": "i2", "base_id": "b2", "group_id": "g2", "question": "Q2"}
    second = Item(**second_fields).model_copy(update=changes)
    assert related(first, second) == related(second, first) == is_related
    ungrouped = [Item(**fields, item_id=i, base_id=i, question=i) for i in ("a", "b")]
    assert not related(*ungrouped), "no group is none that is shared"


def test_demonstrations_are_three_of_cases_of_their_own_while_there_are_enough():
    "In the order of the pool: first one a case, then further ones; of the study and the task that is asked."
    fields = {"study": "s", "source": "t", "key": ["x"]}
    items = [
        Item(
            **fields,
            item_id=f"q{k}",
            task="cloze",
            group_id=f"g{k // 2}",
            question=f"Q{k}",
            rationale="R" if k else None,
        )
        for k in range(8)
    ]
    other_task = Item(**fields, item_id="o", task="open", question="O")
    other_study = Item(**fields | {"study": "s2"}, item_id="q9", task="cloze", question="Q9")
    ids = lambda *arguments, **options: [i.item_id for i in demonstrations(*arguments, **options)]
    assert ids(items) == ["q0", "q2", "q4"]
    assert ids(items[:4], 3) == ["q0", "q2", "q1"]
    assert ids([other_task, other_study, *items], 2, exclude=items[2]) == ["q0", "q4"]
    assert ids(items, 2, rationale=True) == ["q1", "q2"]
    twice = items[4].model_copy(update={"item_id": "q4b", "base_id": items[4].base})
    assert ids([items[4], twice, items[6]], 2) == ["q4", "q6"]
    for n, words in ((0, "n must be at least 1; got 0"), (9, r"items must hold 9 that can be shown; got 8 \(no item")):
        with pytest.raises(ValueError, match=words):
            demonstrations(items, n)


def test_a_template_is_looked_for_by_category_task_and_language(tmp_path):
    "The user's before ours, the language's before English; a language asked for by name has no substitute."
    file_names = (
        "any/mood_disorders.de",
        "any/cloze.de",
        "default/cloze.de",
        "any/mood_disorders",
        "any/cloze",
        "default/cloze",
    )
    for name in file_names:
        file = tmp_path / f"{name}.yaml"
        file.parent.mkdir(exist_ok=True)
        file.write_text("user: '{question} {context}'\nprefill: So\nlabels: {Mental State: MSE}\nomit: [stems]\n")
    item = an_item("cloze", category="Mood Disorders!", language="de-CH")
    for name in file_names:
        user_template = template(item, dir=tmp_path)
        assert (user_template.name, user_template.wording) == (f"{name}.yaml", "own")
        assert (user_template.prefill, user_template.inline, user_template.numbered) == ("So", False, False)
        assert user_template.labels == {"mental_state": "MSE"} and user_template.omit == {"stems"}
        (tmp_path / f"{name}.yaml").unlink()
    assert template(item, dir=tmp_path).name == "default/cloze.yaml"
    assert template(item, dir=tmp_path).wording == "ours"
    (tmp_path / "any/cloze.yaml").write_text("user: '{question} {context}'\nwording: paper\n")
    assert template(an_item("cloze"), dir=tmp_path).wording == "paper"
    assert template(an_item("cloze"), language="en-GB", dir=tmp_path).name == "any/cloze.yaml"
    with pytest.raises(ValueError, match="got none in any/cloze.fr.yaml, default/cloze.fr.yaml"):
        template(an_item("cloze"), language="fr", dir=tmp_path)


def test_fields_and_categories_have_names_of_words():
    "A label of the template's own, else the name with a capital; a category names a file."
    assert field_label("mental_state", {}) == "Mental state" and field_label("", {}) == ""
    assert field_label("Mental State", {"mental_state": "MSE"}) == "MSE"
    assert slug("  Mood & Anxiety (adults) ") == "mood_anxiety_adults"


def test_another_seed_draws_others():
    pool = pool_of(40, 1)
    assert len({tuple(d.item_id for d in demonstrations(ordered_pool(pool, s), 3)) for s in range(20)}) > 10


def test_the_studys_own_examples_come_first():
    pool = pool_of(10, 1) + [an_item("multiple_choice", item_id="own", split="few_shot")]
    assert [d.item_id for d in demonstrations(ordered_pool(pool, 0), 1)] == ["own"]
    with pytest.raises(ValueError, match="must hold 2"):
        demonstrations(ordered_pool(pool, 0), 2)


def test_chain_of_thought_wants_rationales():
    pool = [i.model_copy(update={"rationale": None}) for i in pool_of(10, 1)]
    with pytest.raises(ValueError, match="have a rationale"):
        demonstrations(ordered_pool(pool, 0), 1, rationale=True)
    with pytest.raises(ValueError, match="must have a rationale for this prompt; got none"):
        build(an_item("multiple_choice"), "few_shot_cot", demonstrations=pool[:1])


# ---------------------------------------------------------------- a folder of one's own


def test_a_users_file_takes_the_place_of_ours_and_only_that(tmp_path):
    (tmp_path / "default").mkdir()
    (tmp_path / "default/cloze.yaml").write_text("user: |\n  MINE {question} {context}\n", encoding="utf-8")
    cloze, other = an_item("cloze"), an_item("open")
    assert text_of(build(cloze, dir=tmp_path)).startswith("MINE") and text_of(build(other, dir=tmp_path)) == text_of(
        build(other)
    )
    (tmp_path / "default/cloze.yaml").write_text("user: |\n  MINE, CHANGED {question} {context}\n", encoding="utf-8")
    assert text_of(build(cloze, dir=tmp_path)).startswith("MINE, CHANGED")


def test_a_users_file_without_a_question_leaves_it_to_the_more_general_one(tmp_path):
    item = an_item("cloze", category="Mood disorders")
    (tmp_path / "any").mkdir()
    (tmp_path / "any/mood_disorders.yaml").write_text("system: Be brief.\n", encoding="utf-8")
    assert build(item, dir=tmp_path) == build(item)
    (tmp_path / "any/cloze.yaml").write_text("user: |\n  MINE {question} {context}\n", encoding="utf-8")
    assert text_of(build(item, dir=tmp_path)).startswith("MINE")


def test_what_is_no_text_in_a_program_is_no_prompt():
    program = "N = 3\nSAME = None\ndef ask():\n    parts = ['a {x}', 4, b'b']\n    p = {'user': f'{x} b', 'n': 5}\n"
    assert program_strings(program) == {
        "ask.parts[0]": [("a {x}", None)],
        "ask.p.user": [("", "x"), (" b", None)],
    }


def test_the_first_string_of_a_name_is_the_prompt():
    program = "x = 'a'\nx = 'b'\nasync def ask():\n    t = ('c', f'{d}')\n"
    assert program_strings(program) == {
        "x": [("a", None)],
        "ask.t[0]": [("c", None)],
        "ask.t[1]": [("", "d"), ("", None)],
    }


def test_the_lines_of_the_options_become_a_layout_and_braces_stay():
    numbered = as_template([("Which?\n1) ", "a"), ("\n2) ", "b"), (" Say.", None)], {}, ["a", "b"])
    assert numbered == Wording("Which?\n{options} Say.", "{number}) {text}")
    assert as_template([("As {json}: ", "q"), ("", None)], {"q": "question"}) == Wording("As {{json}}: {question}", "")
    with pytest.raises(ValueError, match=r"options must stand on lines that follow each other; got '\\nor' before b"):
        as_template([("A: ", "a"), ("\nor\nB: ", "b"), ("", None)], {}, ["a", "b"])
    for text in ("[[q", "q]]"):
        with pytest.raises(ValueError, match=r"text must be free of \[\[ and \]\]"):
            as_template([(text, None)], {})


def test_a_recipe_is_written_mode_by_mode(tmp_path):
    (tmp_path / "a.txt").write_text("Say {q}", encoding="utf-8")
    (tmp_path / "b.py").write_text("S = 'Think of {q}.'", encoding="utf-8")
    cot = {"user": {"file": "b.py", "name": "S"}, "fields": {"q": "question"}, "omit": ["context"]}
    modes = {"zero_shot": {"user": {"file": "a.txt"}, "fields": {"q": "question"}}, "cot": cot}
    [file] = write_prompts({"open.yaml": modes}, tmp_path, tmp_path / "to")
    written = {"wording": "paper", "about": "as in a.txt, b.py", "user": "Say {question}"}
    written["modes"] = {"cot": {"user": "Think of {question}.", "omit": ["context"]}}
    assert yaml.safe_load(file.read_text(encoding="utf-8")) == written
    cot["user"]["name"] = "T"
    with pytest.raises(ValueError, match="b.py must assign a string to T; got S"):
        write_prompts({"open.yaml": modes}, tmp_path, tmp_path / "to")
    cot["user"]["file"] = "c.py"
    with pytest.raises(FileNotFoundError, match="c.py must be there"):
        write_prompts({"open.yaml": modes}, tmp_path, tmp_path / "to")


@pytest.mark.parametrize(
    "text,words",
    [
        ("user: '{question}'", "got none for context, options"),
        ("user: '{question} {options} {context} {soft_labels}'", "got soft_labels"),
        ("- a\n- b", "must be YAML with named entries"),
        ("user: 'a\n b: {", "must be YAML"),
        ("user: x\nmodes: {cot: {usr: x}}", "modes.cot must hold entries"),
        ("user: '{question} {options} {context} {rationale}'", "must not name the answer"),
    ],
)
def test_a_users_file_that_does_not_fit_is_refused(tmp_path, text, words):
    (tmp_path / "any").mkdir()
    (tmp_path / "any/multiple_choice.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape(words)):
        build(an_item("multiple_choice"), "cot" if "cot" in text else "zero_shot", dir=tmp_path)


def test_a_demonstration_of_a_long_numbered_list_answers_with_a_number(tmp_path):
    (tmp_path / "default").mkdir()
    text = "option: '{number}) {text}'\nuser: '{context} {question} {options}'\nassistant: '{key}'"
    (tmp_path / "default/multiple_choice.yaml").write_text(text, encoding="utf-8")
    first, second = (
        Item(item_id=k, study="s", task="multiple_choice", question=k, options=LONG, key=["C"], source="t")
        for k in ("first", "second")
    )
    shown, answered, _ = build(first, "few_shot", demonstrations=[second], dir=tmp_path)
    assert shown["content"].endswith("26) option 26") and answered["content"] == "3"


def test_a_demonstration_answers_each_scenario_by_its_number():
    item, shot = an_item("extended_matching"), an_item("extended_matching", item_id="other")
    assert build(item, "few_shot", demonstrations=[shot])[-2] == {"role": "assistant", "content": "1: A\n2: C"}


def test_leaving_out_is_a_decision_that_stands_in_the_file(tmp_path):
    (tmp_path / "any").mkdir()
    (tmp_path / "any/multiple_choice.yaml").write_text(
        "omit: [context]\nuser: '{question} {options}'", encoding="utf-8"
    )
    assert "history" not in text_of(build(an_item("multiple_choice"), dir=tmp_path))


def test_single_fields_of_the_context(tmp_path):
    (tmp_path / "any").mkdir()
    (tmp_path / "any/open.yaml").write_text(
        "user: 'MSE {context.mental_state} THEN {context} {question}'", encoding="utf-8"
    )
    out = text_of(build(an_item("open"), dir=tmp_path))
    assert out.startswith("MSE calm THEN History: a {braced}") and out.count("calm") == 1


# ---------------------------------------------------------------- real questions


def test_every_real_question_is_asked_whole(datasets):
    from mhbench.studies.mhqa.load import load_mhqa

    items = list(getattr(got := load_mhqa(datasets / "mhqa" / "mhqa.csv", key="number"), "records", got))
    assert len(items) == 2475
    for i in items:
        asked = build(i)[-1]["content"]
        assert i.question.strip() in asked and all(o.rstrip() in asked for o in i.options)


def test_the_papers_few_shot_prompt_is_read_as_a_template(datasets, tmp_path):
    "MHQA's own text file: question and options are put in, its three examples stand in it, nothing is lost."
    text = (datasets / "mhqa" / "fewshot_prompt" / "final_prompt.txt").read_text(encoding="utf-8")
    source = {"user": {"file": "fewshot_prompt/final_prompt.txt"}, "fields": {"question": "question"}, "inline": True}
    source["options"] = ["op1", "op2", "op3", "op4"]
    write_prompts({"multiple_choice.yaml": {"zero_shot": source, "cot": source}}, datasets / "mhqa", tmp_path / "mhqa")
    item = Item(
        item_id="i",
        study="mhqa",
        task="multiple_choice",
        question="{Which}?",
        options=list("wxyz"),
        key=["A"],
        source="t",
    )
    asked = {"question": "{Which}?"} | {f"op{i}": option for i, option in enumerate("wxyz", 1)}
    (turn,) = build(item, "few_shot_cot", dir=tmp_path)
    assert turn["content"] == text.format(**asked).rstrip()
    t = template(item, "few_shot_cot", dir=tmp_path)
    assert (t.wording, t.numbered) == ("paper", True) and template(item).wording == "ours"
