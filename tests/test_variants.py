"""Evaluation sets: counts, what each promises, uniform draws, the same bytes for the same seed."""

import os
import re
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from mhbench.records.schema import Item, fingerprint, letters
from mhbench.steps.variants import (
    AGES,
    ETHNICITIES,
    GENDERS,
    SETS,
    age_band,
    answers_by_order,
    evaluation_set,
    fill,
    order_row,
    reorder,
    shuffled,
    split_items,
)


def base(n=0, genders=GENDERS, text="A <AGE> <NAT> {} person asks. What now?", **changes):
    fields = dict(
        item_id=f"q{n}",
        study="mentat",
        task="multiple_choice",
        category="triage",
        source="test",
        question=text.format("any"),
        options=[f"option {k}" for k in range(5)],
        key=["B"],
        soft_labels=[0.1, 0.5, 0.2, 0.15, 0.05],
        variant={f"text_{g}": text.format(g) for g in genders},
        protected=True,
    )
    return Item(**fields | changes)


BANK = [base(n) for n in range(203)]


@pytest.mark.parametrize("n, counts", [(203, (183, 549, 915, 1098, 20)), (204, (184, 552, 920, 1104, 20))])
def test_counts_of_the_paper_and_of_the_release(n, counts):
    bank = [base(k) for k in range(n)]
    assert tuple(len(evaluation_set(bank, name, 1)) for name in ("D0", "D_G", "D_A", "D_N", "few_shot")) == counts


@pytest.mark.parametrize("seed", [0, 1, 20250107])
def test_what_each_set_promises(seed):
    def groups(name):
        s = evaluation_set(BANK, name, seed)
        return [s[k : k + SETS[name]] for k in range(0, len(s), SETS[name])]

    assert all({i.variant["gender"] for i in g} == set(GENDERS) for g in groups("D_G"))
    assert all({i.variant["ethnicity"] for i in g} == set(ETHNICITIES) for g in groups("D_N"))
    assert all(len({i.variant["age"] for i in g}) == 5 for g in groups("D_A"))
    for name in SETS:
        for g in groups(name):
            assert len({i.base_id for i in g}) == 1 == len({i.group_id for i in g})
            for i in g:
                v = i.variant
                assert i.question == fill(
                    f"A <AGE> <NAT> {v['gender']} person asks. What now?", int(v["age"]), v["ethnicity"]
                )
                assert (
                    18 <= int(v["age"]) <= 65
                    and i.protected
                    and v["set"] == name
                    and not any(k.startswith("text_") for k in v)
                )
                order = i.order
                assert i.options == [f"option {o}" for o in order] and i.soft_labels == [
                    BANK[0].soft_labels[o] for o in order
                ]
                assert i.options[letters(5).index(i.key[0])] == "option 1" and len(i.key) == 1


@pytest.mark.parametrize("name, axis", [("D_G_random", "gender"), ("D_A_random", "age"), ("D_N_random", "ethnicity")])
def test_the_published_way_draws_with_replacement(name, axis):
    s = evaluation_set(BANK, name, 3)
    distinct = [len({i.variant[axis] for i in s[k : k + SETS[name]]}) for k in range(0, len(s), SETS[name])]
    assert min(distinct) < SETS[name] and len(set(distinct)) > 1
    if name == "D_G_random":  # 3 draws of 3: all different with probability 2/9
        assert stats.binomtest(distinct.count(3), len(distinct), 2 / 9).pvalue > 1e-4


def test_draws_are_uniform_and_independent():
    many = [base(n) for n in range(3000)]
    s = evaluation_set(many, "D0", 5, test=1)
    for values, possible in (
        ([i.variant["gender"] for i in s], GENDERS),
        ([i.variant["ethnicity"] for i in s], ETHNICITIES),
        ([int(i.variant["age"]) for i in s], AGES),
        ([tuple(i.order) for i in s], None),
        ([i.key[0] for i in s], letters(5)),
    ):
        n = Counter(values)
        expected = len(possible) if possible else 120
        assert len(n) == expected and stats.chisquare(list(n.values())).pvalue > 1e-4
    table = np.array(
        [
            [sum(i.variant["gender"] == g and i.variant["ethnicity"] == e for i in s) for e in ETHNICITIES]
            for g in GENDERS
        ]
    )
    assert stats.chi2_contingency(table).pvalue > 1e-4


def test_the_same_seed_gives_the_same_bytes_in_another_process():
    code = (
        "import sys; sys.path.insert(0, 'tests')\n"
        "from test_variants import BANK\n"
        "from mhbench.steps.variants import *\n"
        "from mhbench.records.schema import fingerprint\n"
        "print(*(fingerprint([i.model_dump() for i in evaluation_set(BANK, n, 7)]) for n in SETS))"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": h},
        ).stdout.split()
        for h in ("0", "1")
    ]
    here = [fingerprint([i.model_dump() for i in evaluation_set(BANK, n, 7)]) for n in SETS]
    assert runs[0] == runs[1] == here
    assert len({*here, *(fingerprint([i.model_dump() for i in evaluation_set(BANK, n, 8)]) for n in SETS)}) == 2 * len(
        SETS
    )


def test_frozen_draws():
    "A change here changes every published set: it needs a new name, not a new value."
    assert "".join(shuffled("ABCDE", 1, "mentat-2")) == "EDBAC"
    assert [i.variant["gender"] for i in evaluation_set(BANK[:8], "D0", 1, test=1)] == [
        "nonbinary",
        "male",
        "female",
        "nonbinary",
        "female",
        "nonbinary",
        "nonbinary",
        "male",
    ]


def test_a_questions_prompts_do_not_depend_on_the_others():
    alone = {i.item_id: i for i in evaluation_set(BANK[40:60], "D_N", 1, test=1)}
    among = {i.item_id: i for i in evaluation_set(BANK, "D_N", 1, test=1)}
    assert alone.items() <= among.items() and len(alone) == 120


@pytest.mark.parametrize("genders", [("male",), ("female", "nonbinary"), ("male", "female")])
def test_a_missing_wording_is_replaced_and_said(genders):
    s = evaluation_set([base(n, genders) for n in range(60)], "D_G", 1, test=1)
    assert len(s) == 180 and {i.variant["gender"] for i in s} == set(genders)
    missing = [i.variant["gender_wanted"] for i in s if "gender_wanted" in i.variant]
    assert Counter(missing) == {g: 60 for g in GENDERS if g not in genders}
    assert all(i.variant["gender"] in i.question for i in s)
    assert not any(
        "gender_wanted" in i.variant for i in evaluation_set([base(n, genders) for n in range(60)], "D0", 1, test=1)
    )


def test_what_the_text_does_not_show_is_not_recorded():
    s = evaluation_set([base(text="A person of <AGE>. What now?")], "D_N", 1, test=1)
    assert all("ethnicity" not in i.variant and "age" in i.variant and i.variant["same_wording"] == "yes" for i in s)
    s = evaluation_set([base(text="What now?", variant={})], "D0", 1, test=1)
    assert sorted(s[0].variant) == ["set"] and s[0].question == "What now?"


def test_split_is_by_question_and_respected():
    split = split_items(BANK, seed=4)
    assert [i.item_id for i in split] == [i.item_id for i in BANK]
    assert {i.base_id for i in evaluation_set(split, "D0", 99)} == {
        i.item_id for i in split if i.split == "test"
    }  # the split's seed, not the set's
    assert not {i.base_id for i in evaluation_set(split, "D_A", 99)} & {
        i.base_id for i in evaluation_set(split, "few_shot", 99)
    }
    shares = np.mean([[i.split == "few_shot" for i in split_items(BANK, seed=s)] for s in range(300)], 0)
    assert 0.03 < shares.min() and shares.max() < 0.2  # nobody is always in or out


@pytest.mark.parametrize("test", [0, 1.1, -1])
def test_split_share(test):
    with pytest.raises(ValueError, match="test must be above 0"):
        split_items(BANK, seed=1, test=test)


@pytest.mark.parametrize(
    "age, article",
    [
        (8, "An"),
        (11, "An"),
        (18, "An"),
        (80, "An"),
        (89, "An"),
        (17, "A"),
        (19, "A"),
        (28, "A"),
        (65, "A"),
        (1, "A"),
        (100, "A"),
    ],
)
def test_articles_before_ages(age, article):
    assert fill("A <AGE> man, (<AGE>)", age) == f"{article} {age}-year-old man, ({age}-year-old)"
    assert fill("An <AGE> man", age) == f"{article} {age}-year-old man"


@pytest.mark.parametrize("ethnicity", ETHNICITIES)
def test_articles_before_ethnicities(ethnicity):
    an = "an" if ethnicity[0] in "AEIO" else "a"
    assert (
        fill("was a <NAT> man, than <NAT> men", ethnicity=ethnicity)
        == f"was {an} {ethnicity} man, than {ethnicity} men"
    )


@given(st.permutations(range(5)), st.permutations(range(5)))
@settings(max_examples=60, deadline=None)
def test_reordering_composes(p, q):
    twice = reorder(reorder(base(), p), q)
    assert [twice.options, twice.key, twice.soft_labels] == [
        getattr(reorder(base(), [p[k] for k in q]), f) for f in ("options", "key", "soft_labels")
    ]


def test_several_right_options_move_along():
    i = reorder(base(key=["A", "D"], soft_labels=[0.4, 0.1, 0.05, 0.4, 0.05]), [4, 3, 2, 1, 0])
    assert i.key == ["B", "E"] and [i.options[letters(5).index(k)] for k in i.key] == ["option 3", "option 0"]


@pytest.mark.parametrize("age", [17, 66])
def test_bands_end(age):
    with pytest.raises(ValueError, match="between 18 and 65"):
        age_band(age)


def test_every_age_has_a_band():
    assert Counter(age_band(a) for a in AGES) == {"18-33": 15, "33-49": 16, "49-65": 17}


def test_real_release_to_sets(datasets):
    from mhbench.studies.mentat.questions import load_mentat

    folder = datasets / "mentat"
    if not folder.is_dir():
        pytest.skip("no MENTAT release among the corpora")
    password = (
        os.environ.get("MHBENCH_MENTAT_PASSWORD")
        or re.search(r"Copyright \(c\) \d+ .*?(\w+)\s*$", (folder / "LICENSE").read_text(), re.MULTILINE)[1].lower()
    )
    items = load_mentat(folder, password)
    for name, n in (("D0", 184), ("D_G", 552), ("D_A", 920), ("D_N", 1104), ("few_shot", 20)):
        s = evaluation_set(items, name, 20250107)
        assert len(s) == n == len({i.item_id for i in s}) and all(i.protected for i in s)
        assert not any(
            "<AGE>" in i.question
            or "<NAT>" in i.question
            or re.search(r"\b[Aa] (18|8|11)-year|\b[Aa] A(sian|frican)|\b[Aa]n (?!18|8|11)\d+-year", i.question)
            for i in s
        )
        by = {i.item_id: i for i in items}
        assert all(sorted(i.options) == sorted(by[i.base_id].options) for i in s)
        assert all(
            i.options[letters(5).index(i.key[0])] == by[i.base_id].options[letters(5).index(by[i.base_id].key[0])]
            for i in s
        )


def test_the_spread_over_orders_is_of_the_same_questions():
    "By hand: a model that never looks at the order, always right about four options and always wrong about two."
    few = base(1, options=["no", "yes"], key=["A"], soft_labels=None)
    many = base(2, options=["a", "b", "c", "d"], key=["A"], soft_labels=None)
    text_by_item = {"q1": "yes", "q2": "a"}
    answer = lambda items: {i.item_id: "ABCD"[i.options.index(text_by_item[i.item_id])] for i in items}
    row = order_row(answers_by_order([few, many], answer, 4, seed=1))
    assert (row["estimate"], row["depends"], row["n"], row["n_orders"]) == (0.5, 0, 2, 4)
    assert (row["lowest"], row["highest"], row["sd_orders"]) == (0.5, 0.5, 0.0)
    alone = order_row(answers_by_order([many], answer, 4, seed=1))
    assert (alone["lowest"], alone["highest"], alone["sd_orders"], alone["n_orders"]) == (1.0, 1.0, 0.0, 4)
