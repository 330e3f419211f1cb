"""Answers as models write them: what states one, what does not, and what contradicts itself."""

import json
import os
import re

import answer_forms
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mhbench.ask import parse
from mhbench.ask.parse import (
    Parsed,
    answer_part,
    parse_choice,
    parse_choices,
)
from mhbench.ask.unwrap import json_in, split_thinking
from mhbench.tasks.multi_label import parse_labels
from mhbench.tasks.multiple_choice import parse_extended_matching

OPTIONS = [
    "Begin exposure with response prevention",
    "Refer for a medication review",
    "Assess the risk of suicide",
    "Discuss confidentiality",
]

STATES_B = """B|b|(B)|[B]|B.|B)|**B**|*B*|`B`|"B"|'B'| B |B\n|Option B|option b.|Choice B|Answer: B|
answer - no, Answer: B|Final answer: B|**Answer:** B|**Answer: B**|Answer: **B**|### Answer: (B)|
The answer is B|The answer is B.|The answer is (B).|The correct answer is **B**.|
The best option is B because it is first.|Therefore, the correct answer is (B)|So the answer is: B|
The correct choice would be B.|The most appropriate response is B, since he asked.|
I would choose B.|I select option B.|We pick (B).|B is correct.|Option B is the correct answer.|
(B) is the best option.|B is the most appropriate choice.|Only B is correct.|
B. Refer for a medication review|B) Refer for a medication review|(B): Refer for a medication review|
B: Refer for a medication review.|B - Refer for a medication review|**B. Refer for a medication review**|
Option B: Refer for a medication review|- B. Refer for a medication review|
Refer for a medication review|refer for a medication review.|The correct answer is: Refer for a medication review|
Answer: Refer for a medication review|B. Refer for a medication review\n\nHe has had no review for two years.|
B\n\nExplanation: he has had no review.|
{"answer": "B"}|{"answer": "b", "confidence": 0.8}|```json\n{"final_answer": "B"}\n```|<answer>B</answer>|\\boxed{B}|
$\\boxed{\\text{B}}$|{"choice": "B. Refer for a medication review"}|
<think>A? The answer is A. No.</think>B|<think>\nThe answer is C\n</think>\n\nThe answer is B.|
The answer is C</think>B|B\n\nQuestion: What next?\nAnswer: C|
Answer: B\n\nCase: a man of 40\nQuestion: Who?\nAnswer: D|
Step 1: A is unsafe.\nStep 2: C was done.\nThe answer is B.|
(A): This is early.\n(B): This fits.\n(C): Done already.\n(D): Not at issue.\nTherefore, the correct answer is (B).|
Antwort: B|Die richtige Antwort ist B.|Die Antwort lautet (B).|The answer is B: Refer for a medication review|
The answer is B, Refer for a medication review.|
While A is not ideal, the correct answer is B.|It is not A but the answer is B.|The answer is B, not A.|
The answer is B rather than A.|I think B is correct.|In my view, option B is the best.|
A is not safe. B is the best choice.|Since C is wrong, the answer is B.|Of these, B is the most appropriate.|
The answer is B in this case.|The facts:\nCase: a man of 40.\nContext: at work.\nThe answer is B."""

STATES_NONE = """|   |...|?|I don't know.|As an AI, I cannot answer.|None of the above|
A client who is at risk needs help.|A therapist should refer.|The answer is a matter of judgment.|
The answer is A good alliance.|I think the client is anxious.|
I would discuss this with a supervisor.|C-SSRS|DSM-5|Vitamin B|Hepatitis B was ruled out.|Plan B is in place.|
Cluster B traits are likely.|Axis C|B12 deficiency|Type A personality|Grade B evidence|Mr. B was seen in clinic D.|
The answer is not B.|The answer isn't B.|I would not choose B.|If the answer is B, the client is harmed.|
Is the answer B?|Whether the answer is B depends.|Neither A nor B is correct.|B is incorrect.|B is not correct.|
We can rule out option B.|
(A): This is early.\n(B): This fits.\n(C): Done already.|A. One\nB. Two\nC. Three\nD. Four|E|The answer is E.|
Answer: F|10 1ical of (B (Cenien (first (B (f|of of (follow (C of of the (Bite of (B|ABC therapy|
Refer|medication review|<think>The answer is B.</think>|
<think>The answer is B.|Answer:|The answer is|Vitamin B is the best choice.|Plan B is appropriate here.|
The wrong answer is B.|The incorrect option is B.|The answer can't be B.|I am not sure whether the answer is B.|
Suppose the answer is B.|The correct option can be found in the text."""

CONFLICTS = """A or B|A/B|B or C.|The answer is A or B.|A and B|A, B|The answers are A and C.|
The answer is A. The answer is B.|Answer: A\nAnswer: B|B. The correct answer is (C).|
{"answer": "A"} The answer is B.|A\n\nThe correct answer is B.|
B. Assess the risk of suicide\nThe answer is C.|
\\boxed{A} \\boxed{B}|["A", "B"]|Refer for a medication review or assess the risk of suicide|
The best answer is A, although B is also correct.|Answer: A\nAnswer: B"""


CORRECTIONS_TO_C = """B. No, C|A. Actually, wait: C|I first thought A, but the answer is C|~~A~~ C|Sorry, I meant C|
A. Correction: C|Nein, doch C|A. Nein, doch C.|B... scratch that, C.|A - no wait, C|The answer is A. Wait, no, it is C.|
Refer for a medication review. Actually, assess the risk of suicide.|<s>A</s> C|<del>A</del> C|
Answer: A\n\nHold on. He is alone tonight.\n\nAnswer: C|Answer: A\n\nRevised answer: C|
La réponse est A. Non, C.|La respuesta es A. Perdón, es la C.|La risposta è A, anzi C.|A resposta é A. Aliás, C.|
Het antwoord is A. Nee, toch C.|Ответ: A. Нет, C.|答案是A。不对，应该是C。|答えはAです。いや、Cです。|
Svaret är A. Nej, C.|The correct answer is B... On reflection, the correct answer is C."""


def cases(block):
    return [c.replace("\\n", "\n") for c in block.replace("|\n", "|").split("|")]


@pytest.mark.parametrize("text", cases(STATES_B))
def test_states_b(text):
    got = parse_choice(text, OPTIONS)
    assert got.letter == "B", got
    assert got.how in ("bare", "marked", "declared", "option", "leading") and got.evidence


@pytest.mark.parametrize("text", cases(STATES_NONE) + [None])
def test_states_nothing(text):
    got = parse_choice(text, OPTIONS)
    assert got.letters == () and got.how == "none", got


@pytest.mark.parametrize("text", cases(CORRECTIONS_TO_C))
def test_a_correction_is_the_answer(text):
    assert parse_choice(text, OPTIONS).letter == "C"


def test_the_last_of_two_corrections_is_the_answer():
    assert parse_choice("A. No, B. Actually, C.", OPTIONS).letter == "C"
    assert parse_choice("答案是A。不对C。", OPTIONS).letter == "C"  # it begins where the correction ends


@pytest.mark.parametrize(
    "text", ["The answer is A. The answer is C.", "Answer: A\nAnswer: C", "A, but C is also correct."]
)
def test_without_a_word_of_correction_the_later_answer_is_not_taken(text):
    assert parse_choice(text, OPTIONS).how == "conflict"


THERAPIES = ["Eye movement desensitization (EMDR)", "Cognitive therapy (CBT)", "Dialectical therapy, weekly"]


@pytest.mark.parametrize(
    "text, options, letter",
    [
        ("CBT", THERAPIES, "B"),
        ("I would recommend CBT rather than EMDR.", THERAPIES, "B"),
        ("Cognitive therapy is the treatment of choice.", THERAPIES, "B"),
        ("CBT or EMDR", THERAPIES, None),
        ("CBT is contraindicated.", THERAPIES, None),
        ("Weekly", THERAPIES, None),
        ("Dialectical therapy", [*THERAPIES, "Dialectical therapy, daily"], None),
        ("Yes, he has capacity.", ["Yes", "No"], "A"),
        ("No doubt about it: A.", ["Yes", "No"], "A"),
        ("No clear answer can be given.", ["Yes", "No"], None),
        ("Of the two, the latter.", ["Admit him", "Discharge him"], "B"),
        ("10mg daily", ["5 mg", "10 mg", "20 mg"], "B"),
        ("110 mg", ["5 mg", "10 mg", "20 mg"], None),
        ("Ответ: В", OPTIONS, "B"),
        ("В этом случае нужно подождать.", OPTIONS, None),
        ("🅱️", OPTIONS, "B"),
    ],
)
def test_other_names_of_an_option(text, options, letter):
    assert parse_choice(text, options).letter == letter


@pytest.mark.parametrize("text", ["B. No, that is wrong.", "The answer is B. Wait, that's not right."])
def test_what_is_taken_back_with_nothing_in_its_place_is_no_answer(text):
    assert parse_choice(text, OPTIONS).letters == ()


@pytest.mark.parametrize("text", cases(CONFLICTS))
def test_two_answers_are_no_answer(text):
    got = parse_choice(text, OPTIONS)
    assert got.letters == () and got.how == "conflict", got


@pytest.mark.parametrize(
    "text, letters",
    [
        ("A, C", "AC"),
        ("A and C", "AC"),
        ("C, A", "AC"),
        ("The correct answers are A and C.", "AC"),
        ("Answers: A, B, and D", "ABD"),
        ("ACD", "ACD"),
        ('{"answers": ["A", "C"]}', "AC"),
        ("B", "B"),
        ("The correct answers are A, B, C and D.", "ABCD"),  # all of them
        ("A, B and C are correct.", "ABC"),
        ("(A), (C), and (D) are the best choices", "ACD"),
        ("A), B) and D) apply.", "ABD"),
        ("A & C would be right.", "AC"),
        ("All of A, B and D are true.", "ABD"),
        ("All of A and C", "AC"),
        ("Since A, B and C would be correct", "ABC"),
        ("Since A, B would be correct.", "B"),
        ("Since nothing speaks against them, A, B and D are right.", "ABD"),
        ("Because A, C and D are indicated, A, C and D are right.", "ACD"),
        ("A is excluded, and B is correct.", "B"),
        ("A and B are wrong, C is correct.", "C"),
        ("A or C", ""),
        ("The answers are A and C. The answers are A and D.", ""),
        ("I cannot say.", ""),
    ],
)
def test_several_letters(text, letters):
    assert "".join(parse_choices(text, OPTIONS).letters) == letters


def test_the_number_of_options_bounds_the_letters():
    assert parse_choice("E", 5).letter == "E" and parse_choice("E", 4).how == "none"
    assert parse_choice("T", 20).letter == "T"
    assert parse_choice("The answer is I think", 10).how == "none"
    assert parse_choice("The answer is I.", 10).letter == "I"


def test_an_options_own_words_do_not_count_as_a_letter():
    "Options that hold letters, and options of which one begins another."
    options = ["Vitamin B", "Vitamin D", "Plan A", "Group C"]
    assert parse_choice("Vitamin D", options).letter == "B"
    assert parse_choice("C. Plan A", options).letter == "C"
    nested = ["Refer", "Refer to a psychiatrist", "Wait", "Wait and see"]
    assert parse_choice("Refer to a psychiatrist", nested).letter == "B"
    assert parse_choice("Wait and see", nested).letter == "D"
    assert parse_choice("B. Refer to a psychiatrist", nested).letter == "B"


@pytest.mark.parametrize("file", answer_forms.FILES, ids=lambda file: file.stem)
def test_every_form_is_read_as_when_somebody_last_looked(file):
    known = answer_forms.READ.read_text(encoding="utf-8").splitlines()
    before = {line for line in known if line.partition("\t")[0] == file.stem}
    now = set(answer_forms.readings(file))
    told = "\n".join([*sorted(now ^ before)[:20], "look at each; if it is right: python tests/answer_forms.py --store"])
    assert now == before, told


@pytest.mark.parametrize("file", answer_forms.FILES, ids=lambda file: file.stem)
def test_the_forms_in_which_models_answer_are_read(file):
    "Every corpus that lies in the folder: what is read is right, and what is said is read."
    figures = answer_forms.precision_and_recall(answer_forms.read_forms(file)).loc["all"]
    assert figures["precision"] >= 0.995 and figures["recall"] >= 0.97, figures.to_dict()


def test_forms_that_nobody_looked_at_are_read_as_the_notebook_says():
    "Written by others, and kept out of sight when the forms were made: what nbs/ask/03_parse.ipynb says of new forms."
    rows = answer_forms.read_forms(answer_forms.FILES[0].parent / "forms_held_out.jsonl")
    figures = answer_forms.precision_and_recall(rows).loc["all"]
    assert len(rows) == 383 and figures["precision"] >= 0.995 and figures["recall"] >= 0.89, figures.to_dict()


@pytest.mark.parametrize(
    "text",
    [
        "D\n\nLamotrigine is considered safest.",
        "Answer: D\n\nLamotrigine is considered safest; lithium and valproic acid are not.",
        "D (Lamotrigine) are not to be stopped. In contrast, lithium and levetiracetam need care.",
        "Lamotrigine (choice D) is the one to avoid. While lithium needs care, it is not to be avoided.",
    ],
)
def test_an_explanation_takes_no_answer_back(text):
    assert parse_choice(text, ["Valproic Acid", "Lithium", "Levetiracetam", "Lamotrigine"]).letter == "D"


def test_what_an_invented_question_is_answered_by_is_not_read():
    said = "B\n\nQuestion: What next?\nAnswer: C\n\nQuestion: And then?\nAnswer: D"
    assert parse_choice(said, OPTIONS) == parse_choice("B", OPTIONS)
    assert parse_choice("2\n\nQuestion: What next?\nAnswer: 3", OPTIONS, numbered=True).letter == "B"


def test_letters_in_one_word_are_several_where_none_repeats():
    assert parse_choices("ABD", OPTIONS).letters == ("A", "B", "D")
    assert parse_choices("AAB", OPTIONS).letters == () and parse_choices("AAB", OPTIONS).how == "none"
    assert parse_choices("ABE", OPTIONS).how == "none"


def test_a_text_that_goes_on_in_another_word_is_no_options_text():
    options = ["Plan", "Plan-B", "Plan C", "Wait"]
    assert parse_choice("B. Plan-B", options).letter == "B" and parse_choice("Plan-B", options).letter == "B"
    assert parse_choice("D Plan-B", options).letters == ()
    assert parse_choice("Planning", options).how == "none"


def test_the_evidence_is_quoted_as_it_was_written():
    said = "It helps.\n\n**Final answer:** (B) *Refer for a medication review*, not A."
    assert parse_choice(said, OPTIONS).evidence == "Final answer:** (B) *Refer for a medication review"
    both = parse_choice("The answer is A. The answer is **D**.", OPTIONS)
    assert both.evidence.split(" | ") == ["answer is A", "answer is **D"]


@pytest.mark.parametrize("quotes", ['""', "''", "“”", "‘’", "«»", "„”", "「」", "【】"])
def test_a_text_in_quotes_is_read_with_them_and_one_in_brackets_is_an_aside(quotes):
    for form in ("{}", "The answer is {}", "{} is the answer"):
        said = form.format(quotes[0] + "Wait" + quotes[1])
        got = parse_choice(f"{said} \n", ["Assess the risk", "Wait", "Refer"])
        assert (got.letter, got.evidence) == ("B", said.removeprefix("The "))
        for brackets in ("[]", "()"):
            aside = parse_choice(f"The answer is {brackets[0]}Wait{brackets[1]}.", ["Assess the risk", "Wait", "Refer"])
            assert aside.letter is None


@pytest.mark.parametrize("form", ["Option {N}", "The answer is {N}.", "{N}", "{N}. {T}", "Answer: {N} ({T})"])
def test_numbers_are_read_where_the_prompt_numbered_the_options_and_only_there(form):
    for k in range(4):
        text = form.format(N=k + 1, T=OPTIONS[k])
        assert parse_choice(text, OPTIONS, numbered=True).letter == "ABCD"[k]
        assert parse_choice(text, 4).letters == ()  # nothing but a number: no label was offered that reads so
        assert parse_choice(f"The answer is {'ABCD'[k]}.", OPTIONS, numbered=True).how == "none"
    assert parse_choice("12", 12, numbered=True).letter == "L" and parse_choice("1", 12, numbered=True).letter == "A"
    assert parse_choices("1, 3", 4, numbered=True).letters == ("A", "C")


def test_another_options_text_contradicts_the_letter():
    assert parse_choice("Answer: B (Refer for a medication review)", OPTIONS).letter == "B"
    got = parse_choices("Answer: B (Assess the risk of suicide)", OPTIONS)
    assert got.how == "conflict" and got.statements == ("declared: B", "declared: C")
    nested = ["Refer", "Refer to a psychiatrist"]
    assert parse_choice("A. Refer to a psychiatrist", nested).how == "conflict"  # the longest text is what is meant
    same = ["Wait", "Wait", "Refer"]
    assert [parse_choice(f"{x}. Wait", same).letter for x in "ABC"] == ["A", "B", None]
    assert parse_choice("Wait", same).how == "none"  # the text of two options tells neither
    groups = ["B", "A", "AB", "0"]  # letters that are the texts of other options
    assert parse_choice("The answer is A.", groups).how == "conflict"
    assert parse_choice("AB", groups).letter == "C" and parse_choice("AB", 4).how == "conflict"


def test_an_options_own_words_neither_deny_nor_ask():
    options = ["Is he not averse to it?", "If he agrees, wait or refer", "Neither C nor D", "Do not treat"]
    for x, own in zip("ABCD", options):
        for form in (
            "Answer: {x}. {own}",
            "{x}) {own}",
            "The answer is {x} ({own}).",
            "Option {x} ({own}) is correct.",
        ):
            assert parse_choice(form.format(x=x, own=own), options).letter == x, (form, own)


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from("ABCD"),
    st.sampled_from(
        [
            "{}",
            "({})",
            "The answer is {}.",
            "Answer: {}",
            '{{"answer": "{}"}}',
            "<answer>{}</answer>",
            "Option {} is correct.",
        ]
    ),
    st.text(max_size=60),
)
def test_reasoning_is_never_read(letter, form, noise):
    noise = noise.replace("<", "").replace(">", "")
    said = form.format(letter)
    assert parse_choice(f"<think>{noise} The answer is A. Answer: B. (C)</think>{said}", 4).letter == letter
    assert parse_choice(f"<think>{noise} {said}", 4) == Parsed((), "none")


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=200))
def test_any_text_has_a_result(text):
    for got in (parse_choice(text, OPTIONS), parse_choices(text, 26), *parse_extended_matching(text, 3, 8)):
        assert got.how in ("bare", "marked", "declared", "option", "leading", "conflict", "none")
        assert bool(got.letters) == (got.how not in ("conflict", "none"))
    parse_labels(text, ["mood", "anxiety"]), split_thinking(text)


@pytest.mark.whole
def test_long_outputs_take_no_time():
    import time

    for text in (
        "of of (B (follow of " * 1500,
        "(" * 20000,
        "A, " * 2500 + "x",
        "answer " * 5000,
        "<think>" * 5000,
        "{" * 5000,
        "1. B\n" * 2000,
        "the answer is not " * 3000,
        "a" + "\n" * 20000 + "b",
        "answer" + " " * 20000 + "x",
        "Refer for a medication review " * 1000,
        "if x, the answer for x " * 1500,
        "A)\nB)\n" * 1500,
        "B. " * 5000,
        '"reasoning": "' * 3000,
        "<reasoning>" * 4000,
        "~~" * 10000,
        "the most x " * 2000 + "B",
        "so B so B " * 2000,
        "Refer for a medication review (A " * 1000,
        "答案是 " * 8000,
        "answer, aaa " * 2000 + "B",
        "A is correct. " * 1000 + "No, x. " * 1500,
        "A ✅ " * 2000,
        "x, y: " * 2000 + "B",
    ):
        start = time.process_time()
        parse_choice(text, OPTIONS)
        parse_extended_matching(text, 4, 8)
        parse_labels(text, ["mood"])
        assert time.process_time() - start < 2, text[:20]  # a pattern that backtracks without bound takes minutes


def test_extended_matching_in_every_form():
    want = ["B", "H", None]
    for text in (
        "1. B\n2. H",
        "1) B\n2) h",
        "(1) B\n(2) H\n(3) none",
        "Scenario 1: B\nScenario 2: H",
        '{"1": "B", "2": "H", "3": null}',
        '{"answers": {"1": "B", "2": "H"}}',
        "**1.** B\n**2.** H",
        "Question 1: B\nQuestion 2: H",
    ):
        assert [p.letter for p in parse_extended_matching(text, 3, 8)] == want, text
    assert [p.letter for p in parse_extended_matching(json.dumps(["B", "H", "A"]), 3, 8)] == ["B", "H", "A"]
    assert [p.letter for p in parse_extended_matching("B, H", 3, 8)] == [None] * 3  # two letters for three scenarios
    assert [p.how for p in parse_extended_matching("1. B or C\n2. H\n2. A\n3. Z", 3, 8)] == [
        "conflict",
        "conflict",
        "none",
    ]
    assert parse_extended_matching("The answer is (H).", 1, 8)[0].letter == "H"


@pytest.mark.parametrize(
    ("text", "letters"),
    [
        ('{"0": "B", "1": "H", "2": "A"}', ["B", "H", "A"]),
        ('[{"id": 0, "answer": "B"}, {"id": 1, "answer": "H"}, {"id": 2, "answer": "A"}]', ["B", "H", "A"]),
        ("0: B\n1: H\n2: A", ["B", "H", "A"]),
        ("0: B\n1: H", [None, None, None]),  # whose answer lacks is unknown
        ("0: none\n1: B\n2: H", ["B", "H", None]),
        ("0: A\n1: B\n2: H\n3: C", ["B", "H", "C"]),
    ],
)
def test_scenarios_that_are_all_counted_from_0_are_those_asked(text, letters):
    assert [p.letter for p in parse_extended_matching(text, 3, 8)] == letters


def test_agrees_with_the_recorded_answers(datasets):
    """All 510 recorded one-letter answers; and the five degenerate outputs, which the authors' parser reads as A, are
    none.
    """
    from mhbench.studies.counselingbench.load import load_counselingbench, load_counselingbench_responses

    folder = datasets / "counselingbench"
    file = folder / "Mistral-7B-Instruct-v0.3_zero-shot_None_0.csv"
    responses, recorded = load_counselingbench_responses(file)
    assert len(responses) == len(recorded) == 510
    got = {r.item_id: parse_choice(r.text, 4) for r in responses}
    assert [(i, got[i], recorded[i]) for i in got if got[i].letter != recorded[i]] == []
    file = folder / "Asclepius-7B_few-shot-cot_None_3.csv"
    options = {i.item_id: i.options for i in load_counselingbench(file).records}
    responses, recorded = load_counselingbench_responses(file)
    assert set(recorded.values()) == {"A"}
    assert [parse_choice(r.text, options[r.item_id]).how for r in responses] == ["none"] * 5


def test_where_recorded_answers_are_read_otherwise_than_by_their_authors(datasets):
    """All of CounselingBench's runs: brackets and small letters, which they left unread; a number where letters were
    offered, which they read as A.
    """
    if not (folder := datasets / "counselingbench" / "outputs_t").is_dir():
        pytest.skip("no runs of CounselingBench")
    told = answer_forms.recorded_counselingbench(folder)
    other = told[told["ours"] != told["theirs"]]
    assert len(told) == 16320 and len(other) == 36
    kinds = {"(": (11, lambda said: said[1]), "": (8, str.upper), "1234": (17, lambda said: "")}
    for kind, (n, letter) in kinds.items():
        rows = other[other["said"].str.startswith(tuple(kind))] if kind else other[other["said"].str.islower()]
        assert len(rows) == n and (rows["ours"] == rows["said"].map(letter)).all(), kind


def test_the_released_run_of_mentat_is_read_as_its_authors_read_it(datasets):
    "But for three answers, of which they took the first letter of a word."
    if not (datasets / "mentat").is_dir():
        pytest.skip("no MENTAT release among the corpora")
    named = re.search(r"Copyright \(c\) \d+ .*?(\w+)\s*$", (datasets / "mentat" / "LICENSE").read_text(), re.MULTILINE)
    password = os.environ.get("MHBENCH_MENTAT_PASSWORD") or named[1].lower()
    told = answer_forms.recorded_mentat(datasets / "mentat", password)
    assert len(told) == 183 and (told["ours"] != "").all() and (told["ours"] != told["theirs"]).sum() == 3
    right = told.groupby("category")[["theirs_right", "ours_right"]].mean().round(3)
    assert right.loc["monitoring"].tolist() == [0.976, 0.976] and right.loc["treatment"].tolist() == [0.952, 0.952]


@pytest.mark.parametrize(
    "form",
    ["{k}", "Correct Option: {k}", "Correct option: {k}\nJustification: 3 of 4 trials.", "Option{k}: {o}", "{k}. {o}"],
)
def test_every_number_of_a_numbering_prompt_is_read(datasets, form):
    from mhbench.studies.mhqa.load import load_mhqa

    for item in load_mhqa(datasets / "mhqa" / "mhqa.csv", key="number").records[::7]:
        if len(set(item.options)) == 4:
            got = [
                parse_choice(form.format(k=k, o=o), item.options, numbered=True) for k, o in enumerate(item.options, 1)
            ]
            assert [g.letter for g in got] == ["A", "B", "C", "D"], (item.item_id, got)


def test_a_key_spelled_out_is_parsed_back(datasets):
    "Every real option, in eleven forms, comes back as its own letter."
    from mhbench.studies.mhqa.load import load_mhqa

    forms = ["{x}\n\n{o} is what the studies found; the others are not supported.", "Answer: {x}\n\n{o} was found."]
    forms += ["{x}", "{x}. {o}", "({x}) {o}", "The correct answer is {x}: {o}", "Answer: {o}", "Answer: {x} ({o})"]
    forms += ["Option {x} ({o}) is correct.", "I would choose {x} ({o}).", "The best answer is {x} {o}"]
    wrong = []
    for item in load_mhqa(datasets / "mhqa" / "mhqa.csv", key="number").records[::5]:
        for letter, option in zip("ABCD", item.options):
            for form in forms:
                got = parse_choice(form.format(x=letter, o=option), item.options)
                if got.letter != letter:
                    wrong.append((item.item_id, form, option, got))
    assert wrong == []


def test_labels_are_never_guessed():
    names = [
        "Depressive Disorders",
        "Bipolar and Related Disorders",
        "Anxiety Disorders",
        "Feeding and Eating Disorders",
        "Major depressive disorder, single episode",
    ]
    got = parse_labels("Depression, Anxiety Disorders", names)
    assert got[:2] == (("Anxiety Disorders",), ("Depression",))
    got = parse_labels(
        "Labels: Bipolar and related disorders, feeding and eating disorders and anxiety disorders", names
    )
    assert got[:2] == (("Bipolar and Related Disorders", "Feeding and Eating Disorders", "Anxiety Disorders"), ())
    assert parse_labels("Major depressive disorder, single episode (F32.1)", names)[:2] == (
        ("Major depressive disorder, single episode",),
        (),
    )
    assert parse_labels('{"labels": [{"name": "Anxiety Disorders"}, "Anxiety disorders"]}', names)[:2] == (
        ("Anxiety Disorders",),
        (),
    )
    assert parse_labels(None, names).how == "none"


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                "Depressive Disorders",
                "Bipolar and Related Disorders",
                "Feeding and Eating Disorders",
                "Major depressive disorder, single episode",
                "Trauma- and Stressor-Related Disorders",
            ]
        ),
        min_size=1,
        max_size=4,
        unique=True,
    ),
    st.sampled_from(["; ", ", ", "\n", "\n- ", "\n* "]),
)
def test_labels_in_every_list_form(labels, separator):
    names = [
        "Depressive Disorders",
        "Bipolar and Related Disorders",
        "Feeding and Eating Disorders",
        "Major depressive disorder, single episode",
        "Trauma- and Stressor-Related Disorders",
    ]
    for text in (separator.join(labels), separator.join(x.lower() for x in labels), json.dumps(labels)):
        assert parse_labels(text, names)[:2] == (tuple(labels), ())


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: parse_choice("A", 1), "two or more"),
        (lambda: parse_choices("A", ["x"]), "two or more"),
        (lambda: parse_extended_matching("A", 0, 5), "n_stems must be 1"),
    ],
)
def test_bad_input_is_refused(call, words):
    with pytest.raises(ValueError) as e:
        call()
    assert words in str(e.value)


@pytest.mark.parametrize(
    "sign", "\U0001f151 \U0001f171 \U0001f1e7 \u24b7 \uff22 \u24d1 \U0001d401 \u2777 \u2781".split()
)
def test_letters_and_numbers_of_every_shape(sign):
    "B in a circle, in a box, as a flag's letter, wide, bold; 2 in circles."
    numbered = sign in "\u2777\u2781"
    for text in (sign, f"({sign})", f"Answer: {sign}", f"The answer is {sign}."):
        assert parse_choice(text, ["Valproate", "Lithium", "Placebo"], numbered=numbered).letter == "B", (text, sign)


def test_an_empty_list_is_no_answer_and_what_follows_it_is_read():
    assert json_in('[] {"answer": "B"}') == {"answer": "B"}
    assert json_in('{not JSON} {"a": 1}') == {"a": 1}
    assert json_in('{"a": [1') is None and json_in("{} [2]") == {}
    assert parse_choice('Excluded: []\n{"answer": "B"}', OPTIONS).letter == "B"


def test_a_label_is_known_without_the_word_disorder_from_four_letters_on():
    names = ["Mood disorder", "Tic disorder", "Anxiety disorders"]
    assert parse_labels("Mood", names)[:2] == (("Mood disorder",), ())
    assert parse_labels("Tic", names)[:2] == ((), ("Tic",))
    hows = {'["Tic disorder"]': "json", "Tic disorder\nMood disorder": "lines", "Labels: Tic disorder": "marked"}
    assert {text: parse_labels(text, names).how for text in hows} == hows


def test_both_of_two_options_are_a_statement_and_all_of_three_are_their_list():
    assert parse_choice("Answer: A\nAnswer: A and B", ["Yes", "No"])[:2] == ((), "conflict")
    assert parse_choice("Answer: A\nAnswer: A, B and C", ["Yes", "No", "Unknown"])[:2] == (("A",), "declared")


# -- parts of the reading, by hand


@pytest.mark.parametrize(
    ("text", "numbered", "letters"),
    [
        ('{"A": false, "B": true}', False, "B"),
        ('{"B": true, "A": true, "C": false}', False, "AB"),
        ('{"B": true}', False, ""),  # one is no list
        ('{"A": false, "B": false}', False, ""),
        ('{"A": true, "X": true}', False, ""),
        ('{"A": true, "E": true}', False, ""),  # of four options
        ('{"A": true, "B": "yes"}', False, ""),
        ('{"A": true, "B": true}', True, "AB"),
        ("[x] A\n- [ ] B\n* [\u2713] C", False, "AC"),
        ("[x] A\n[ ] A", False, ""),
        ("[x] A", False, ""),
        ("[x] A\nB: no", False, ""),
        ("A: yes\nB: no\n(C) = ja", False, "AC"),
        ("A \u2013 true\nB - false", False, "A"),
        ("A: yes\n\nB: yes", False, "AB"),
        ("A: yes\nB: no", True, ""),
        ("A: yes\nand more", False, ""),
        ("A: yes\nA: no", False, ""),
        ("A: no\nB: no", False, ""),
    ],
)
def test_a_list_of_verdicts_judges_each_option_once(text, numbered, letters):
    "Two lines at least, each with an option of its own; those that are right, in order."
    for options in (4, OPTIONS):
        assert "".join(parse._judged_options(text, options, numbered)) == letters


@pytest.mark.parametrize(
    ("opening", "closing", "lengths"),
    [
        ("(", ")", (1, 1)),
        ("([", "])", (2, 2)),
        ("( [", "] )", (3, 3)),
        ("[(", ")", (1, 1)),
        ("(", "]", (0, 0)),
        ("(", "", (0, 0)),
        ("", ")", (0, 0)),
        ("\u201c(", ")\u201d)", (2, 2)),
    ],
)
def test_brackets_belong_to_a_label_where_they_match(opening, closing, lengths):
    "From the label on outwards, with white space between them."
    assert parse._bracket_lengths(opening, closing) == lengths


@pytest.mark.parametrize(
    ("text", "letters"),
    [
        ("ABD", "ABD"),
        ("A, B; D", "ABD"),
        ("Answer: **(A)(C)**", "AC"),
        ("A & B", "AB"),
        ("AA", ""),
        ("ABE", ""),
        ("AD and", ""),
        ("\u2705 A \u274c B \u2705 D", "AD"),
        ("A \u2713, B \u2717, D \u2713", "AD"),
        ("\u2705 A \u2705 E", ""),
        ("ab", ""),
    ],
)
def test_letters_alone_are_a_list(text, letters):
    "Each once, of the options there are; of letters with a tick or a cross the ticked ones; no option's own text."
    assert parse._run_of_letters(text, parse._options(4, False)) == letters
    texts = ("abd", "x", "y", "z")
    assert parse._run_of_letters(text, parse._options(texts, False)) == ("" if text == "ABD" else letters)


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("He slept. \u24b7 is it", ["He slept.", "\u24b7 is it"]),
        ("Dr. \u24b7 is it", ["Dr. \u24b7 is it"]),
        ("12. \u24b7 is it", ["12. \u24b7 is it"]),
        ("******** 12. \u24b7 is it", ["******** 12. \u24b7 is it"]),
        ("He is 12. \u24b7 is it", ["He is 12.", "\u24b7 is it"]),
        ("Is it \u24b6? \u24b7!\u3002\u24b8", ["Is it \u24b6?", "\u24b7!\u3002", "\u24b8"]),
        ("one\ntwo", ["one", "two"]),
        ("the answer\n\u24b7", ["the answer\n\u24b7"]),
    ],
)
def test_sentences_end_at_their_stops_and_a_heading_goes_with_what_it_heads(text, sentences):
    "But for abbreviations and numbers at the head of a line; a heading is shorter than eighty characters."
    spans = lambda t: [t[a:b].strip() for a, b in parse._sentence_spans(t)]
    assert spans(text) == sentences
    heading = lambda n: f"{'a' * 20} {'b' * 20} {'c' * 20} {'d' * (n - 70)} answer\n\u24b7"
    assert [len(spans(heading(n))) for n in (79, 80)] == [1, 2]


def test_signs_of_letters_and_numbers_are_read_and_others_stay():
    "The first and the last of each row of Unicode, and what stands beside it."
    rows = {
        "\u2460\u2468": "19",
        "\u24d0\u24e9": "az",
        "\u2776\u277e": "19",
        "\u2780\u2788": "19",
        "\u278a\u2792": "19",
    }
    rows |= {"\U0001d400\U0001d7ff": "A9", "\U0001f110\U0001f129": "AZ", "\U0001f130\U0001f149": "AZ"}
    rows |= {"\U0001f150\U0001f169": "AZ", "\U0001f170\U0001f189": "AZ", "\U0001f1e6\U0001f1ff": "AZ"}
    rows |= {"\uff21\uff3a": "AZ", "\uff41\uff5a": "az", "\uff10\uff19": "09", "\uff08\uff09": "()"}
    assert {signs: answer_part(signs) for signs in rows} == rows
    for sign in "\u24ea\u245f\u2775\u277f\u338e\u3299\u2103\uff74\uff71\U0001f14a\U0001d3ff":
        assert answer_part(sign) == sign
    assert answer_part("x\u200b\u2060\ufeff\ufe0f\u20e3\xa0y") == "x      y"


@pytest.mark.parametrize(
    ("text", "options", "result"),
    [
        ("A clozapine", ["x", "y", "Clozapine"], ("C", "option", "A clozapine")),
        ("Wait (C)", ["Wait", "Wait", "Refer"], ("", "conflict", "Wait (C)")),
        ("T", ["T, thyroxine", "L, lithium"], ("", "none", "")),
        ("OA", ["OA (opioid agonist)", "B"], ("A", "option", "OA")),
        ("DM", ["Type 1 (DM)", "Type 2 (DM)"], ("", "none", "")),
        ("Refer to her", ["Refer", "Refer to her", "Refer to"], ("B", "option", "Refer to her")),
        ("\uff74\uff71", ["\uff74\uff71", "\uff83\uff7d"], ("A", "option", "\uff74\uff71")),
        ("**A or C**\nA is slow. So the answer is C.", 4, ("C", "declared", "answer is C")),
    ],
)
def test_texts_of_options_are_read_whole_and_in_part(text, options, result):
    "With an article before them; a part that two options have, or of one letter, tells neither."
    parsed = parse_choices(text, options)
    assert ("".join(parsed.letters), parsed.how, parsed.evidence) == result
    if text == "Wait (C)":
        assert parsed.statements == ("bare: A", "bare: C")


@pytest.mark.parametrize(
    ("text", "how", "letters"),
    [
        ("\\boxed{B}", "marked", "B"),
        ('{"answer": ["A", "C"]}', "marked", "AC"),
        ("\\boxed{nothing}", "none", ""),
        ("A: yes\nB: no", "marked", "A"),
        ("Lithium\nWait", "bare", "AD"),
        ("A\nB\nA", "none", ""),
        ("A\nB\nC\nD", "none", ""),  # all of them
        ("A\nB and C", "none", ""),
        ("A\nit depends", "none", ""),
        ("A", "none", ""),  # one line is no list
    ],
)
def test_what_a_wrapper_or_a_list_holds(text, how, letters):
    "A wrapper marks an answer; in a list each line is one option and nothing else."
    parsed = parse._parse_wrapped_or_listed(text, ["Lithium", "Sertraline", "Clozapine", "Wait"], False)
    assert (parsed.how, "".join(parsed.letters)) == (how, letters)
    assert parsed.statements == (("bare: A", "bare: D") if how == "bare" else parsed.statements)


def test_all_options_of_a_numbered_list_are_an_answer_where_nothing_else_is_said():
    "Beside another statement such a list is none."
    assert parse_choices("1, 2, 3 and 4", 4, numbered=True).letters == tuple("ABCD")
    assert parse_choices("Of 1, 2, 3 and 4\nThe answer is 2.", 4, numbered=True).letters == ("B",)
    lines = "\n".join(f"- {x}" for x in "ABCDEFGHIJKLMN")
    assert parse_choices(lines, 20).letters == tuple("ABCDEFGHIJKLMN"), "of fourteen lines"


@pytest.mark.parametrize("options", [1, ["x"], 0, []])
def test_one_option_is_no_choice(options):
    "Nothing can be chosen of it."
    with pytest.raises(ValueError, match="parse_choices: options must be two or more"):
        parse_choice("A", options)
    assert Parsed(("A", "B"), "bare").letter is None and Parsed((), "none").letter is None
