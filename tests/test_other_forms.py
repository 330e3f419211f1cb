"Forms of answers by somebody who had not seen the parser: what is read is right, and no less is read than before."

import pytest
from other_forms import by_kind, read_all

from mhbench.ask.parse import parse_choice, parse_choices
from mhbench.tasks.multiple_choice import parse_extended_matching
from mhbench.tasks.ranking import parse_ranking

# the number of answers that are read rightly, of how many; terms in several gaps are no task here
READ = {"letter": 50, "multi-select": 19, "EMI": 21, "ranking": 19, "cloze": 4, "labels": 11, "verdict": 9}
FIVE = ["Begin lithium", "Begin valproate", "Admit her", "Stop the antidepressant", "Wait a week"]


def test_forms_that_the_parser_was_not_made_for_are_read_rightly_or_not_at_all():
    table = by_kind(read_all())
    assert table["wrong"].to_dict() == dict.fromkeys([*READ, "all"], 0)
    assert {k: n for k, n in table["right"].items() if k != "all" and n < READ[k]} == {}


@pytest.mark.parametrize(
    "text, letter",
    [
        ("Doğru yanıt C şıkkıdır.", "C"),
        ("คำตอบคือ D", "D"),
        ("Of A–E, the best is D.", "D"),
        ("The dose is $\\boxed{A = 2 C}$.\n\n**Answer: D**", "D"),
        ("It comes down to A or C. A is too slow. So C.", "C"),
        ("C (80/100)", "C"),
        ("**C**[2][3]", "C"),
        ("C[^a]\n\n[^a]: Option B was tried.", "C"),
        ("C\n\n### Input:\nAnother.\n\n### Response:\nA", "C"),
        ("[|assistant|]C[|endofturn|]", "C"),
        ("H. pylori was found.", None),
        ("B. burgdorferi was excluded.", None),
        ("✅ B ❌ C ✅ D", None),
        ("Everything but B is safe.", None),
        ("B–D", None),
    ],
)
def test_a_letter_in_further_forms(text, letter):
    assert parse_choice(text, FIVE).letter == letter


@pytest.mark.parametrize(
    "text, letters",
    [
        ("B; D; E", "BDE"),
        ("(B)(D)", "BD"),
        ("B. Begin valproate\nD. Stop the antidepressant", "BD"),
        ("Only D", "D"),
        ("B, D\n\nNote: E would be right only with fever.", "BD"),
        ("True: B, D\nFalse: A, C, E", "BD"),
        ("Answers: **BD**", "BD"),
        ("ANSWER: B D", "BD"),
        ("✅ B ❌ C ✅ D", "BD"),
        ("- [ ] A\n- [x] B\n- [x] D", "BD"),
        ("A: false\nB: true\nC: false\nD: true", "BD"),
        ('{"A": false, "B": true, "C": false, "D": true}', "BD"),
        ("Everything but B and D applies.", ""),
    ],
)
def test_several_letters_in_further_forms(text, letters):
    assert "".join(parse_choices(text, FIVE).letters) == letters


@pytest.mark.parametrize(
    "text",
    [
        "1-C, 2-A, 3-E",
        "1: C; 2: A; 3: E",
        "Vignette 1 → C\nVignette 2 → A\nVignette 3 → E",
        "Case 1: C. Case 2: A. Case 3: E.",
        "1．C\n2．A\n3．E",
        "1. **C**; 2. **A**; 3. **E**",
        "| Case | Answer | Why |\n|---|---|---|\n| 1 | C | x |\n| 2 | A | y |\n| 3 | E | z |",
        '[{"stem": 3, "answer": "E"}, {"stem": 1, "answer": "C"}, {"stem": 2, "answer": "A"}]',
        '{"answers": {"stem_1": {"answer": "C"}, "stem_2": {"answer": "A"}, "stem_3": {"answer": "E"}}}',
        "1: \\boxed{C}\n2: \\boxed{A}\n3: \\boxed{E}",
        "CAE",
    ],
)
def test_matching_in_further_forms(text):
    assert [p.letter for p in parse_extended_matching(text, 3, FIVE)] == ["C", "A", "E"]


@pytest.mark.parametrize(
    "text, entries",
    [
        ("BDAEC", "BDAEC"),
        ("My order: B, D, A, E, C (most to least helpful)", "BDAEC"),
        ("5. C\n4. E\n3. A\n2. D\n1. B", "BDAEC"),
        ("From least to most helpful: C > E > A > D > B", "BDAEC"),
        ("Vom am wenigsten geeigneten bis zum am besten geeigneten: C, E, A, D, B", "BDAEC"),
        ("Worst to best:\nC, E, A, D, B", "BDAEC"),
        ("Du pire au meilleur : C, E, A, D, B", "BDAEC"),
        ("A: 3rd, B: 1st, C: 5th, D: 2nd, E: 4th", "BDAEC"),
        ("| Option | Rank |\n|---|---|\n| A | 3 |\n| B | 1 |\n| C | 5 |\n| D | 2 |\n| E | 4 |", "BDAEC"),
        ('{"A": 3, "B": 1, "C": 5, "D": 2, "E": 4}', "BDAEC"),
        ('{"B": 95, "D": 80, "A": 10}', ""),
        ("B: 95, D: 80, A: 10", ""),
        ('{"excluded": ["C"], "ranking": ["B", "D"]}', "BD"),
        ("C < E < A < D < B", ""),
        ("I thought from worst to best. In the end:\nB > D", ""),
    ],
)
def test_rankings_read_their_direction_and_take_no_score_for_a_place(text, entries):
    assert "".join(parse_ranking(text, FIVE).entries) == entries
