"""Questions made from abstracts: what is collected, what is rejected and why, whose key counts, what a card says."""

import datetime
import hashlib
import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import yaml

from mhbench.ask.client import STAND_IN
from mhbench.ask.request import Answer, Request
from mhbench.corpus import adjudicate, card, compose, passages, pubmed, splits
from mhbench.corpus.pubmed import Abstract
from mhbench.records.schema import Item
from mhbench.studies.mhqa.study import KeysParameters
from mhbench.studies.psychiatrybench.study import ApproachParameters


def item(name: str, question: str = "What helps first?", key: str = "A", **more) -> Item:
    given = {
        "study": "s",
        "task": "multiple_choice",
        "options": ["sleep", "lithium", "rest", "exercise"],
        "source": "t",
    }
    return Item(**given | {"item_id": name, "question": question, "key": [key]} | more)


def article(pmid: str = "1", text: str = "Exercise helps. Sleep helps less.", **more) -> Abstract:
    return Abstract(**{"pmid": pmid, "title": "T", "text": text, "languages": ["eng"]} | more)


# Literature -----------------------------------------------------------------------------------------------------------


def read(inside: str = "", outside: str = "", pmid: str = "<PMID>7</PMID>", citation: str = "") -> Abstract:
    body = f"<Article><ArticleTitle>A <i>title</i></ArticleTitle>{inside}</Article>"
    whole = f"<MedlineCitation>{pmid}{citation}{body}</MedlineCitation>{outside}"
    [found] = pubmed.read_pubmed(
        f"<PubmedArticleSet><PubmedArticle>{whole}</PubmedArticle></PubmedArticleSet>".encode()
    )
    return found


ISSUE = "<Journal><Title>J</Title><JournalIssue><PubDate>{}</PubDate></JournalIssue></Journal>"
ENTERED = '<PubmedData><History><PubMedPubDate PubStatus="{}">{}</PubMedPubDate></History></PubmedData>'


@pytest.mark.parametrize(
    ("inside", "year"),
    [
        (ISSUE.format("<Year>2011</Year>") + "<ArticleDate><Year>2010</Year></ArticleDate>", 2011),
        (ISSUE.format("") + "<ArticleDate><Year>2010</Year></ArticleDate>", 2010),
        (ISSUE.format("<MedlineDate>1998 Dec-1999 Jan</MedlineDate>"), 1998),
        (ISSUE.format("<Season>Spring</Season>"), None),
        ("", None),
    ],
)
def test_the_year_of_an_article_is_that_of_its_issue_or_of_its_own_date(inside, year):
    assert read(inside).year == year


@pytest.mark.parametrize(
    ("date", "day"),
    [
        ("<Year>2020</Year><Month>3</Month><Day>9</Day>", "2020-03-09"),
        ("<Year>2020</Year><Month>12</Month>", "2020-12-01"),
        ("<Year>2020</Year>", "2020-01-01"),
        ("<Month>3</Month>", None),
    ],
)
def test_dates_are_whole_days_and_the_first_where_less_is_given(date, day):
    found = read(outside=ENTERED.format("entrez", date), citation=f"<DateRevised>{date}</DateRevised>")
    assert (found.entered, found.revised) == (day, day)
    assert read(outside=ENTERED.format("pubmed", date)).entered is None, "another date is not that of entry"


def test_the_parts_of_an_abstract_are_lines_with_their_labels():
    parts = '<AbstractText Label="AIM">To <b>test</b>\n it.</AbstractText><AbstractText>It works.</AbstractText>'
    found = read(f"<Abstract>{parts}<AbstractText Label='X'> </AbstractText></Abstract>")
    assert (found.text, found.title, found.version) == ("AIM: To test it.\nIt works.", "A title", 1)
    assert (found.journal, found.rights, found.languages, found.types, found.mesh) == (None, None, [], [], [])
    assert read(pmid='<PMID Version="3">7</PMID>').version == 3


@pytest.mark.parametrize(
    ("inside", "citation", "retracted"),
    [
        ("", "<CommentsCorrectionsList><CommentsCorrections RefType='RetractionIn'/></CommentsCorrectionsList>", True),
        ("", "<CommentsCorrectionsList><CommentsCorrections RefType='RetractionOf'/></CommentsCorrectionsList>", False),
        (
            "<PublicationTypeList><PublicationType>Retracted Publication</PublicationType></PublicationTypeList>",
            "",
            True,
        ),
        ("<PublicationTypeList><PublicationType>Journal Article</PublicationType></PublicationTypeList>", "", False),
    ],
)
def test_an_article_is_retracted_by_its_notice_or_by_its_type(inside, citation, retracted):
    assert read(inside, citation=citation).retracted is retracted


@pytest.mark.parametrize(
    ("a", "b", "is_newer"),
    [
        ((2, None), (1, "2024-05-01"), True),
        ((1, "2024-05-01"), (2, None), False),
        ((1, "2024-05-02"), (1, "2024-05-01"), True),
        ((1, "2024-05-01"), (1, "2024-05-02"), False),
        ((1, "2024-05-01"), (1, None), True),
        ((1, None), (1, None), True),  # read later
    ],
)
def test_the_present_state_of_an_article_has_the_highest_version_then_the_last_revision(a, b, is_newer):
    one, other = (article(version=version, revised=revised) for version, revised in (a, b))
    [merged] = pubmed.merge_topics({"sleep": [other, one]})
    latest = one if is_newer else other
    assert (merged.version, merged.revised) == (latest.version, latest.revised)


def test_an_article_of_two_topics_is_merged_into_its_newest_state():
    old, new, other = article("10"), article("10", version=2), article("9")
    merged = pubmed.merge_topics({"sleep": [new, other, other], "mood": [old]})
    assert [(a.pmid, a.version, a.topics) for a in merged] == [("9", 1, ["sleep"]), ("10", 2, ["sleep", "mood"])]
    assert pubmed.merge_topics({"mood": [old], "sleep": [new]})[0].version == 2


def test_a_literature_is_counted_by_topic_and_once_in_all():
    of = [
        article("1", "Two words.", topics=["a", "b"], year=2001),
        article("2", "", topics=["a"], year=1999, retracted=True),
        article("3", "One, two, three four", topics=["b"], languages=["ger"]),
    ]
    table = pubmed.literature_table(of).set_index("topic")
    assert table.index.tolist() == ["a", "b", "all"]
    assert table["articles"].tolist() == [2, 2, 3] and table["with_abstract"].tolist() == [1, 2, 2]
    assert table["retracted"].tolist() == [1, 0, 1] and table["not_english"].tolist() == [0, 1, 1]
    assert table["first_year"].tolist() == [1999, 2001, 1999] and table["last_year"].tolist() == [2001, 2001, 2001]
    assert table["mean_words"].tolist() == [2.0, 3.0, 3.0]
    assert table["mean_tokens"].tolist() == [3.0, 4.5, 4.5], "words and marks"
    undated = pubmed.literature_table([article(topics=["a"])]).iloc[0]
    assert pd.isna(undated["first_year"]) and pd.isna(undated["last_year"])
    manifest = pubmed.literature_manifest(of)
    assert manifest["topics"].tolist() == ["a|b", "a", "b"] and manifest["sha256"].nunique() == 3
    told = pubmed.recipe({"b": "q1", "c": "q2"}, of, origin="files")
    assert told == {"queries": {"b": "q1", "c": "q2"}, "articles": 3, "by_topic": {"b": 2, "c": 0}, "origin": "files"}


@pytest.mark.parametrize(
    ("title", "text", "found"),
    [
        ("Sleep-wake cycles", "", True),
        ("", "the sleep wake cycle", True),
        ("", "SLEEP\u2010WAKE", True),
        ("", "asleep wake", False),
        ("", "sleep wakefulness", False),
        ("", "sleep, wake", False),
        ("", "a single word: insomnia.", True),
    ],
)
def test_keywords_are_whole_words_with_any_hyphen_between(title, text, found):
    assert pubmed.keyword_filter(["sleep wake", "insomnia"])(article(text=text, title=title or "T")) is found
    assert pubmed.keyword_query(["sleep wake", "x"]) == '"sleep wake"[Title/Abstract] OR "x"[Title/Abstract]'


def test_dates_are_cut_until_each_slice_can_be_fetched():
    first, last = datetime.date(2020, 1, 1), datetime.date(2020, 1, 12)
    of_day = {first + datetime.timedelta(days=k): n for k, n in enumerate([4, 0, 3, 3, 0, 0, 5, 1, 0, 0, 2, 3])}
    count = lambda a, b: sum(n for day, n in of_day.items() if a <= day <= b)
    found = list(pubmed.date_slices(count, first, last, limit=5))
    assert sum(n for *_, n in found) == 21 and max(n for *_, n in found) == 5 and min(n for *_, n in found) > 0
    assert [n for *_, n in found] == [count(a, b) for a, b, _ in found]
    assert all(b < c for (_, b, _), (c, _, _) in zip(found, found[1:]))
    assert list(pubmed.date_slices(count, first, last, limit=21)) == [(first, last, 21)]
    for n, n_slices in ((9_999, 1), (10_000, 2)):  # what ESearch gives at most
        assert (
            len([*pubmed.date_slices(lambda a, b, n=n: n if (a, b) == (first, last) else 9, first, last)]) == n_slices
        )
    with pytest.raises(ValueError, match="a day must have 4 records at most; got 5 .2020-01-07"):
        list(pubmed.date_slices(count, first, last, limit=4))


@pytest.mark.parametrize(("first", "last", "n"), [(None, None, 3), (2019, None, 2), (None, 2019, 2), (2020, 2021, 1)])
def test_a_file_is_limited_by_years_of_entry_and_counts_what_has_none(tmp_path, first, last, n):
    dated = lambda pmid, year: (
        f"<PubmedArticle><MedlineCitation><PMID>{pmid}</PMID><Article><ArticleTitle>Sleep</ArticleTitle></Article>"
        f"</MedlineCitation>{ENTERED.format('entrez', f'<Year>{year}</Year>') if year else ''}</PubmedArticle>"
    )
    body = "".join(dated(k, year) for k, year in ((1, 2018), (2, 2019), (3, 2020)))
    (tmp_path / "a.xml").write_text(f"<PubmedArticleSet>{body}{dated(4, None)}</PubmedArticleSet>", encoding="utf-8")
    found, counts = pubmed.collect_files(
        [tmp_path / "a.xml"], {"s": ["sleep"], "m": ["mood"]}, first_year=first, last_year=last
    )
    undated = first is None and last is None  # of an unknown year it cannot be said whether it lies within others
    assert len(found["s"]) == n + undated and found["m"] == []
    dropped = {} if undated else {"year_not_known": 1}
    assert counts == {"entry_not_said": int(undated)} | dropped


# Composing ------------------------------------------------------------------------------------------------------------

RECIPE = {
    "system": " You write. ",
    "user": "{n} of {topics}:\n{abstracts}{pairs}",
    "abstract": "[{pmid}] {text}",
    "pair": "{id}: {question} {options} -> {correct} in {text}",
    "topics": ["sleep", "mood"],
    "types": ["fact", "cause"],
}
GOOD = {"id": "1", "valid": True, "topic": "mood", "type": "cause", "question": "What lifts mood?"}
GOOD |= {"options": ["exercise", "alcohol", "isolation", "noise"], "correct": "Exercise "}
ASKED = Request("compose/1", [{"role": "user", "content": "?"}])


def composed(answer: Answer, *articles: Abstract, seed: int = 1) -> list[compose.Candidate]:
    return compose.read_composed(articles or [article()], answer, ASKED, RECIPE, composer="m", seed=seed)


def answered(*questions: dict, **more) -> Answer:
    return Answer("x", text="said", data={"questions": list(questions)}, **more)


def test_abstracts_with_a_text_are_asked_about_in_groups():
    of = [article(str(k), "" if k == 2 else f"text {k}") for k in range(1, 7)]
    found = list(compose.compose_requests(of, RECIPE, together=2, max_tokens=50))
    assert [[a.pmid for a in group] for group, _ in found] == [["1", "3"], ["4", "5"], ["6"]]
    requests = [request for _, request in found]
    assert [r.id for r in requests] == ["compose/1", "compose/4", "compose/6"]
    assert requests[0].messages[0] == {"role": "system", "content": "You write."}
    assert requests[0].messages[1]["content"] == "2 of sleep, mood:\n[1] text 1\n[3] text 3{pairs}"
    one = requests[0].schema["properties"]["questions"]["items"]
    assert one["properties"]["topic"]["enum"] == ["sleep", "mood", ""] and "correct" in one["required"]
    limits = [next(compose.compose_requests(of, RECIPE, max_tokens=n))[1] for n in (50, None)]
    assert "50" in str(limits[0]) and "50" not in str(limits[1])
    assert len(list(compose.compose_requests(of, RECIPE))) == 5, "one each by itself"


@pytest.mark.parametrize(
    ("change", "step", "reason"),
    [
        ({}, "", ""),
        ({"id": "999"}, "", ""),  # of one abstract, whatever id is said
        ({"valid": False}, "composing", "no valid question, by the model's word"),
        ({"valid": "yes"}, "composing", "no valid question, by the model's word"),
        ({"topic": "work"}, "form", "topic 'work' is not on the list"),
        ({"type": "sum"}, "form", "type 'sum' is not on the list"),
        ({"question": " "}, "form", "there is no question"),
        ({"options": "exercise"}, "form", "there are not four different options"),
        ({"options": GOOD["options"][:3]}, "form", "there are not four different options"),
        ({"options": [*GOOD["options"], "fog"]}, "form", "there are not four different options"),
        ({"options": ["exercise", "EXERCISE", "a", "b"]}, "form", "there are not four different options"),
        ({"options": ["exercise", " ", "a", "b"]}, "form", "there are not four different options"),
        ({"correct": "cocoa"}, "form", "the right answer is none of the options"),
        ({"question": "What did this study show?"}, "wording", "it names its study: this study"),
        ({"question": "What percentage is helped?"}, "wording", "it asks for a number"),
        ({"options": ["exercise", "all of the above", "a", "b"]}, "wording", "an option is about the others"),
    ],
)
def test_a_question_is_kept_or_rejected_with_its_reason(change, step, reason):
    [c] = composed(answered(GOOD | change))
    assert (c.step, c.reason, c.is_kept) == (step, reason, not step)
    if c.is_kept:
        assert c.options[ord(c.key) - 65] == "exercise" and sorted(c.options) == sorted(GOOD["options"])
        assert (c.topic, c.category, c.question) == ("mood", "cause", "What lifts mood?")
    assert (c.candidate_id, c.pmid, c.composer, c.seed) == ("m-1", "1", "m", 1) and json.loads(c.raw)["correct"]


@pytest.mark.parametrize(
    ("question", "options", "fault"),
    [
        ("What did the authors conclude?", "abcd", "it names its study: the authors"),
        ("According to which view?", "abcd", "it names its study: according to"),
        ("What do researchers prefer?", "abcd", "it names its study: researchers"),
        ("What studies sleep?", "abcd", ""),
        ("How many sleep badly?", "abcd", "it asks for a number"),
        ("Is 20 % too few?", "abcd", "it asks for a number"),
        ("Which dose?", ["20 mg", "30 mg", "none", "more"], "it asks for a number"),
        ("Which dose?", ["20 mg", "little", "none", "more"], ""),
        ("What helps?", ["a", "b", "c", "None of these"], "an option is about the others"),
        ("What helps?", ["a", "b", "c", "Both parents"], ""),
        ("What helps?", ["a", "b", "c", "Not all of the above"], ""),
    ],
)
def test_wording_that_a_reviewer_would_reject(question, options, fault):
    assert compose.wording_fault(question, list(options)) == fault


def test_an_answer_about_several_abstracts_is_taken_apart_by_id():
    of = [article("1"), article("2"), article("3")]
    other = GOOD | {"id": 2, "question": "What deepens sleep?"}
    found = composed(answered(other, GOOD, GOOD | {"question": "Again?"}, "no object"), *of)
    assert [(c.pmid, c.question) for c in found[:2]] == [("1", "What lifts mood?"), ("2", "What deepens sleep?")]
    assert (found[2].reason, found[2].raw) == ("no answer for this abstract", "said")
    assert [c.reason for c in composed(Answer("x", text="no JSON"))] == ["no answer for this abstract"]
    assert composed(answered(GOOD, status="truncated"))[0].reason == "the answer was truncated"
    [supposed] = composed(Answer("x", text="12345", finish_reason=STAND_IN))
    assert (supposed.question, supposed.key, supposed.topic, supposed.is_kept) == ("1 ?????", "A", "sleep", True)


def test_the_order_of_options_is_of_the_seed_and_the_abstract():
    orders = {seed: tuple(composed(answered(GOOD), seed=seed)[0].options) for seed in range(8)}
    assert len(set(orders.values())) > 4
    assert orders[3] == tuple(composed(answered(GOOD), seed=3)[0].options)
    by_article = {tuple(composed(answered(GOOD), article(str(k)))[0].options) for k in range(8)}
    assert len(by_article) > 4


@pytest.mark.parametrize(
    ("snippet", "stands"),
    [
        ("Exercise helps.", True),
        ("exercise, HELPS", True),
        ("Exercise ... helps less", True),
        ("Exercise \u2026 hurts", False),
        ("Sleep helps more", False),
        ("...", False),
        ("", False),
    ],
)
def test_a_snippet_stands_in_its_abstract_word_for_word(snippet, stands):
    assert compose.snippet_stands(snippet, article().text) is stands


def test_a_reader_is_asked_about_what_is_kept_and_its_verdict_has_to_stand():
    [kept] = composed(answered(GOOD))
    gone = kept.rejected("form", "x").model_copy(update={"candidate_id": "gone"})
    [(c, request)] = compose.reading_requests([gone, kept], {"1": article()}, RECIPE, max_tokens=9)
    assert c is kept and request.id == "validate/m-1" and "9" in str(request)
    assert "-> exercise in Exercise helps." in request.messages[1]["content"]
    [(_, unlimited)] = compose.reading_requests([kept], {"1": article()}, RECIPE)
    assert unlimited != request
    good = {"snippet": "exercise helps", "justification": "j", "decision": "Valid"}
    for data, status, reason in (
        (good, "ok", ""),
        (good, "refused", "no verdict"),
        (good | {"decision": "Perhaps"}, "ok", "no verdict"),
        ("text", "ok", "no verdict"),
        (good | {"decision": "Not Valid"}, "ok", "not valid, by the reader's word"),
        (good | {"snippet": "walking helps"}, "ok", "the passage does not stand in the abstract"),
    ):
        read = compose.read_verdict(kept, Answer("x", data=data, status=status), article(), reader="r")
        assert (read.reason, read.step) == (reason, "reading" if reason else "") and read.reader == "r"
    assert compose.read_verdict(kept, Answer("x", finish_reason=STAND_IN), article(), reader="r") == kept


def test_what_is_kept_becomes_items_and_what_is_rejected_is_counted_step_by_step():
    [kept] = composed(answered(GOOD))
    same = kept.model_copy(update={"candidate_id": "m-2", "pmid": "2", "question": "What lifts MOOD?"})
    other = kept.model_copy(update={"candidate_id": "m-3", "pmid": "3", "question": "Why does sleep matter so much?"})
    wrong = [kept.rejected("form", f"topic {x!r} is not on the list: no") for x in "ab"]
    simulated = other.model_copy(update={"candidate_id": "m-4", "origin": "simulated", "declared": "B"})
    found = compose.without_duplicates([kept, same, other, *wrong])
    assert [(c.step, c.reason) for c in found[:3]] == [("", ""), ("duplicates", "nearly an earlier question"), ("", "")]
    items = compose.candidate_items([*found, simulated], "bank", "canary")
    assert [(i.item_id, i.group_id, i.key, i.canary) for i in items] == [
        ("bank-m-1", "pmid-1", [kept.key], "canary"),
        ("bank-m-3", "pmid-3", [kept.key], "canary"),
        ("bank-m-4", "pmid-3", [kept.key], "canary"),
    ]
    assert items[0].origin == {"composed by": "m", "key": "composed"}
    assert items[2].origin == {"composed by": "m", "key": "simulated", "declared key": "B"}
    assert compose.composers_of(items) == ["a simulated composer", "m"] and compose.composers_of([item("x")]) == []
    failed = kept.rejected("composing", "the request failed: refused")
    table = compose.funnel_table([*found, failed, failed], n_articles=10)
    assert table.to_records(index=False).tolist() == [
        ("abstracts", "collected", 0, 10),
        ("abstracts", "not asked about", 3, 7),
        ("composing", "the request failed", 2, 5),
        ("form", "topic 'a' is not on the list", 1, 4),
        ("form", "topic 'b' is not on the list", 1, 3),
        ("duplicates", "nearly an earlier question", 1, 2),
    ]
    left, told = compose.funnel_counts(table)
    assert told == "2 of 7 abstracts yielded an accepted question; most rejections by composing (2)"
    assert (left["asked about"], left["after duplicates"]) == (7, 2)
    lineage = compose.candidate_table(found)
    assert len(lineage) == 5 and "question" not in lineage and lineage["raw_sha256"].str.len().eq(64).all()


@pytest.mark.parametrize(
    ("more", "usable"),
    [({}, True), ({"text": ""}, False), ({"retracted": True}, False), ({"languages": ["ger"]}, False)],
)
def test_questions_rest_on_english_abstracts_that_were_not_retracted(more, usable):
    assert len(compose.usable_articles([article(**more)])) == usable


def test_recorded_answers_are_read_with_their_declared_key(tmp_path):
    verdict = {"snippet": "exercise helps", "justification": "j", "decision": "Valid"}
    rows = [
        {"pmid": p, "answer": GOOD | {"id": p}, "declared": "Noise", "origin": "simulated", "verdict": verdict}
        for p in "19"
    ]
    rows.append(rows[0] | {"answer": GOOD | {"topic": "x"}, "declared": "", "origin": None})
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
    one, two = compose.recorded_candidates(tmp_path / "a.jsonl", {"1": article()}, RECIPE, seed=4)
    assert one.is_kept and (one.origin, one.reader, one.seed) == ("simulated", "recorded", 4)
    assert one.options[ord(one.declared) - 65] == "noise" and one.declared != one.key
    assert (two.step, two.origin, two.declared, two.reader) == ("form", "recorded", "", "")


# Passages -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "pieces"),
    [
        (0, []),
        (1, ["1"]),
        (5, ["1 2 3 4 5"]),
        (6, ["1 2 3 4 5", "4 5 6"]),
        (8, ["1 2 3 4 5", "4 5 6 7 8"]),
        (9, ["1 2 3 4 5", "4 5 6 7 8", "7 8 9"]),
    ],
)
def test_a_text_is_cut_into_pieces_that_share_words(n, pieces):
    assert passages.chunk_text(" ".join(map(str, range(1, n + 1))), words=5, overlap=2) == pieces


def test_passages_come_from_lines_and_texts_and_pieces_are_numbered(tmp_path):
    line = {"passage_id": "p", "source": "book", "text": "a b c d e f g"}
    (tmp_path / "1.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
    (tmp_path / "2.txt").write_text("short text", encoding="utf-8")
    (tmp_path / "3.md").write_text("not read", encoding="utf-8")
    found = passages.read_passages(tmp_path, words=4, overlap=0)
    assert [(p.passage_id, p.source, p.text) for p in found] == [
        ("p-1", "book", "a b c d"),
        ("p-2", "book", "e f g"),
        ("2", "2.txt", "short text"),
    ]
    for text, told in (
        (json.dumps(line | {"text": " "}), "must have a text; got none"),
        (json.dumps(line) + "\n" + json.dumps(line), "must stand once; got 'p' twice"),
        (json.dumps({"text": "x"}), "JSON lines of passage_id, source and text; got .'text'."),
    ):
        (tmp_path / "1.jsonl").write_text(text + "\n", encoding="utf-8")
        with pytest.raises(ValueError, match=told):
            passages.read_passages(tmp_path / "1.jsonl")
    for overlap in (-1, 4):
        with pytest.raises(ValueError, match="overlap must be at least 0 and below 4 words"):
            passages.chunk_text("x", words=4, overlap=overlap)


@pytest.mark.parametrize(("k", "block", "width"), [(3, 4, 5), (1, 2, 3), (6, 100, 4), (5, 3, 100)])
def test_the_nearest_passages_are_those_of_a_whole_search_and_the_earlier_of_equal_ones(k, block, width):
    rng = np.random.default_rng(k)
    some = rng.choice([-1.0, 0.5, 1.0], (13, 2)).astype(np.float32)  # many are equal
    asked = rng.normal(size=(9, 2)).astype(np.float32)
    places, cosines = passages.nearest_passages(asked, some, k=k, block=block, width=width)
    every = asked @ some.T
    order = np.argsort(-every, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(places, order)
    np.testing.assert_allclose(cosines, np.take_along_axis(every, order, 1), rtol=1e-6)
    few, near = passages.nearest_passages(asked, some[:2], k=4)
    assert (few[:, 2:] == -1).all() and np.isnan(near[:, 2:]).all() and (few[:, :2] >= 0).all()


def test_an_item_is_asked_with_the_passages_from_a_cosine_on():
    known = [passages.Passage(passage_id=f"p{k}", source="b", text=f"text {k}") for k in range(3)]
    places, cosines = np.array([[2, 0], [1, -1]]), np.array([[0.9, 0.7], [0.69, np.nan]])
    recipe = RECIPE | {"user": "{question} {correct}\n{options}\n{passages}"}
    (_, use, request), (_, none, nothing) = passages.passage_requests(
        [item("a", key="B"), item("b")], known, places, cosines, recipe, threshold=0.7, max_tokens=7
    )
    assert [p.passage_id for p in use] == ["p2", "p0"] and none == [] and nothing is None
    shown = "What helps first? B\nA. sleep\nB. lithium\nC. rest\nD. exercise\n[1] text 2\n[2] text 0"
    assert request.messages[1]["content"] == shown and request.id == "pseudolabel/a" and "7" in str(request)
    assert request.schema["properties"]["option"]["enum"] == ["A", "B", "C", "D", ""]
    near = passages.near_table([item("a"), item("b")], known, places, cosines)
    assert near.to_records(index=False).tolist() == [("a", "p2", 0.9), ("a", "p0", 0.7), ("b", "p1", 0.69)]
    assert list(passages.near_table([], known, places[:0], cosines[:0])) == list(near), "no question, the same columns"


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (None, ("A", "no passage")),
        (Answer("x", status="refused", data={"answered": True, "option": "B"}), ("A", "unread")),
        (Answer("x", data="B"), ("A", "unread")),
        (Answer("x", data={"answered": "yes", "option": "B"}), ("A", "unread")),
        (Answer("x", data={"answered": False, "option": "B"}), ("A", "not answered")),
        (Answer("x", data={"answered": True, "option": "E"}), ("A", "not answered")),
        (Answer("x", data={"answered": True, "option": "A"}), ("A", "confirmed")),
        (Answer("x", data={"answered": True, "option": "B"}), ("B", "changed")),
    ],
)
def test_a_key_changes_only_where_passages_support_another_option(answer, outcome):
    assert passages.pseudo_label(item("a"), answer) == outcome


def test_what_became_of_keys_is_counted_and_held_against_people():
    items = [item("a", topic="t", category="c"), item("b", topic="u", category="c"), item("c", topic="u", category="d")]
    changed = Answer("x", data={"answered": True, "option": "C"})
    asked = [(items[0], [], ASKED), (items[1], [], ASKED), (items[2], [], None)]
    outcomes = passages.pseudo_labels(asked, {"a": changed})
    assert outcomes == [("C", "changed"), ("A", "near passages, not asked"), ("A", "no passage")]
    table = passages.pseudo_label_table(items, [o for _, o in outcomes]).set_index(["by", "group", "outcome"])
    assert table.loc[("all", "all", "changed"), ["n", "estimate"]].tolist() == [3, pytest.approx(1 / 3)]
    assert table.loc[("topic", "u", "no passage"), ["n", "estimate"]].tolist() == [2, 0.5]
    assert table.loc[("category", "c", "confirmed"), ["n", "estimate"]].tolist() == [2, 0.0]
    assert len(table) == 6 * (1 + 2 + 2)
    audit = passages.audit_table(list("ABCD"), list("AABB"), list("ABBC")).set_index("keys")
    assert audit["n"].tolist() == [4, 4, 3, 3]
    assert audit["estimate"].tolist() == [0.5, 0.5, pytest.approx(1 / 3), pytest.approx(1 / 3)]


# Splits ---------------------------------------------------------------------------------------------------------------


def test_parts_share_an_item_by_its_question_or_its_abstract():
    train = [item("t1", "What helps?", group_id="g1"), item("t2", "WHAT helps ?"), item("t3", "Why?", group_id="g2")]
    test = [
        item("a", "what  helps?"),
        item("b", "How?", group_id="g2"),
        item("c", "When?"),
        item("d", "Who?", group_id="g3"),
    ]
    shared = splits.shared_items(test, train)
    assert shared["item_id"].tolist() == ["a", "b"] and shared["kind"].tolist() == ["question", "abstract"]
    assert "t1" in shared["also"][0] and shared["also"][1] == ["t3"]
    kept, gone = splits.without_shared(test, train)
    assert [i.item_id for i in kept] == ["c", "d"] and gone.equals(shared)


def test_the_same_words_about_another_case_are_no_leak_and_the_same_case_is_one():
    most_likely = "What is the most likely diagnosis?"
    train = [item("t1", most_likely, context={"case": "He hears voices."})]
    test = [
        item("a", most_likely, context={"case": "She sleeps badly."}),
        item("b", "Which drug?", context={"case": "He hears  voices."}),
        item("c", most_likely, context={"history": "he hears voices."}),
        item("d", most_likely),
    ]
    shared = splits.shared_items(test, train)
    assert [*zip(shared["item_id"], shared["kind"])] == [("b", "case"), ("c", "question")]


def test_whole_groups_are_split_by_shares_and_seed():
    items = [item(f"q{k}", group_id=f"g{k % 10}") for k in range(30)]
    parts = splits.split_by_group(items, {"train": 0.75, "validation": 0.05, "test": 0.2}, seed=1)
    groups = {name: {i.group_id for i in part} for name, part in parts.items()}
    assert [len(g) for g in groups.values()] == [8, 0, 2], "of ten groups 7.5 and 8 end at 8"
    assert sum(map(len, parts.values())) == 30 and not groups["train"] & groups["test"]
    places = [items.index(i) for i in parts["train"]]
    assert places == sorted(places)
    again = splits.split_by_group(items[::-1], {"train": 0.75, "test": 0.25}, seed=1)
    assert {i.group_id for i in again["train"]} == groups["train"], "of the seed, not of the order"
    assert any(
        {i.group_id for i in splits.split_by_group(items, {"a": 0.8, "b": 0.2}, seed=s)["a"]} != groups["train"]
        for s in (2, 3)
    )
    for shares in ({}, {"a": 0.5}, {"a": 1.5, "b": -0.5}, {"a": 0.6, "b": 0.5}):
        with pytest.raises(ValueError, match="shares must be at least 0 and sum to 1"):
            splits.split_by_group(items, shares, seed=1)


def test_a_fingerprint_is_of_what_is_asked_in_whatever_order():
    one = item("a", key="B")
    moved = item("b", " what helps FIRST?", key="A", options=["lithium", "rest", "exercise", "sleep"], source="other")
    assert splits.item_fingerprint(one) == splits.item_fingerprint(moved) and len(splits.item_fingerprint(one)) == 16
    others = [item("a", key="A"), item("a", "What else?", key="B"), item("a", key="B", context={"x": "y"})]
    others.append(item("a", key="B", options=["sleep", "lithium", "rest", "walks"]))
    assert len({splits.item_fingerprint(i) for i in [one, *others]}) == 5
    same = {"study": "s", "question": "Which order?", "source": "here", "options": ["rest", "walks", "sleep"]}
    ranked = [Item(item_id="r", task="ranking", key=key, **same) for key in (["A", "B", "C"], ["C", "B", "A"])]
    assert len({splits.item_fingerprint(i) for i in ranked}) == 2


def test_where_keys_stand_and_whether_the_longest_option_is_right():
    items = [item(f"q{k}", key=key) for k, key in enumerate("AAABBCAA")]
    found = splits.key_positions(items).set_index("letter")
    assert found["k"].to_dict() == {"A": 5, "B": 2, "C": 1, "D": 0} and found["n"].eq(8).all()
    assert found["chi2"].iloc[0] == pytest.approx((25 + 4 + 1 + 0) / 2 - 8)
    assert 0 < found["p"].iloc[0] < 1 and found["estimate"].tolist() == [0.625, 0.25, 0.125, 0.0]
    with pytest.raises(ValueError, match="as many options each; got .3, 4"):
        splits.key_positions([*items, item("x", options=["a", "b", "c"])])
    of = lambda name, *lengths, key: item(name, key=key, options=[c * n for c, n in zip("abcd", lengths)])
    told = splits.length_cue([of("1", 8, 2, 2, 2, key="A"), of("2", 2, 8, 5, 2, key="C"), of("3", 4, 4, 2, 2, key="A")])
    assert (told["k"], told["n"], told["n_tied"], told["chance"]) == (1, 2, 1, 0.25)
    assert told["median_length_ratio"] == pytest.approx(1.5), "4, 1.25 and 1.5 times the others' mean"
    none = splits.length_cue([item("x", task="open", options=[], key="because")])
    assert none["k"] == none["n_tied"] == 0 and np.isnan(none["chance"]) and np.isnan(none["median_length_ratio"])


def test_near_duplicates_name_the_nearest_earlier_question():
    text = "which treatment helps most people with a first episode of depression in early adult life"
    items = [
        item("a", text),
        item("b", "what is sleep for"),
        item("c", text + " today"),
        item("d", text.upper() + "!"),
        item("e", "x"),
    ]
    found = splits.near_duplicates(items).set_index("item_id")
    assert found["first"].to_dict() == {"c": "a", "d": "a"}
    assert found.loc["c", "jaccard"] == pytest.approx(13 / 14) and found.loc["d", "jaccard"] >= 0.7
    assert splits.near_duplicates(items, threshold=0.95)["item_id"].tolist() in ([], ["d"])


# Keys confirmed by people ---------------------------------------------------------------------------------------------

ITEMS = [item(f"q{k}", f"Question {k}?", key="ABCD"[k % 4]) for k in range(6)]


def test_each_reader_has_an_order_of_their_own_and_sees_the_proposed_key():
    sheets = {who: adjudicate.key_sheet(ITEMS, who, seed=1) for who in ("first", "second")}
    orders = {who: s["item_id"].tolist() for who, s in sheets.items()}
    assert orders["first"] != orders["second"] and sorted(orders["first"]) == [i.item_id for i in ITEMS]
    assert orders["first"] == adjudicate.key_sheet(ITEMS, "first", seed=1)["item_id"].tolist()
    by = sheets["first"].set_index("item_id")
    assert by["proposed"].to_dict() == {i.item_id: i.key[0] for i in ITEMS} and (by["answer"] == "").all()
    assert by.loc["q1", "option B"] == "lithium" and (by["rater"] == "first").all()
    few = [ITEMS[0], item("z", "Yes or no?", options=["yes", "no"])]
    tasks = {t["data"]["item_id"]: t["data"] for t in adjudicate.key_tasks(few, "first", seed=1)}
    assert tasks["z"]["option_B"] == "B. no" and tasks["z"]["option_D"] == "" and tasks["z"]["proposed"] == "A. yes"
    page = adjudicate.key_page(3)
    assert page.count('<Text name="option_') == 3 and page.count("<Choice ") == 4


@pytest.mark.parametrize(
    ("rows", "letters"),
    [
        ([("q0", "agree"), ("q1", " AGREE "), ("q2", "d"), ("q3", "")], {"q0": "A", "q1": "B", "q2": "D"}),
        ([("q0", None)], {}),
        ([("q0", "E")], r"must be agree or an option's letter; got 'E' \(row 2, q0\)"),
        ([("q0", "A"), ("x", "A")], r"must be an item of the bank, once; got 'x' \(row 3\)"),
        ([("q0", ""), ("q0", "A")], r"got 'q0' twice \(row 3\)"),
    ],
)
def test_a_sheet_gives_letters_or_says_which_row_does_not_fit(rows, letters):
    sheet = pd.DataFrame(rows, columns=["item_id", "answer"])
    if isinstance(letters, dict):
        assert adjudicate.read_key_sheet(sheet, ITEMS) == letters
        return
    with pytest.raises(ValueError, match=letters):
        adjudicate.read_key_sheet(sheet, ITEMS)


def annotation(choice: str | None, who: int = 1, **more) -> dict:
    value = {"from_name": "answer", "to_name": "question", "type": "choices", "value": {"choices": [choice]}}
    return {"completed_by": who, "result": [value] if choice else []} | more


def test_of_a_readers_annotations_the_latest_counts(tmp_path):
    at = lambda hour: {"updated_at": f"2026-01-01T{hour:02}:00:00Z"}
    given = [
        [annotation("A", **at(1)), annotation("C", **at(3)), annotation("B", **at(2))],
        [annotation("A", id=7), annotation("D", id=9), annotation("B", id=8)],
        [annotation("C", was_cancelled=True), annotation("agree", created_at="2026")],
        [annotation(None)],
        [],
    ]
    tasks = [{"id": k, "data": {"item_id": f"q{k}"}, "annotations": a} for k, a in enumerate(given)]
    file = tmp_path / "export.json"
    file.write_text(json.dumps(tasks), encoding="utf-8")
    assert adjudicate.read_keys(file, ITEMS) == {"q0": "C", "q1": "D", "q2": "C"}
    tasks[1]["annotations"][0]["completed_by"] = 2
    file.write_text(json.dumps(tasks), encoding="utf-8")
    with pytest.raises(ValueError, match=r"got 2 people's \(export.json, task 2\)"):
        adjudicate.read_keys(file, ITEMS)
    with pytest.raises(ValueError, match="must be a sheet .*; got 'a.txt'"):
        adjudicate.read_keys(tmp_path / "a.txt", ITEMS)


def test_two_readers_decide_a_key_and_a_resolver_where_they_differ():
    first = {"q0": "A", "q1": "C", "q2": "A", "q3": "A", "q4": "A"}
    second = {"q0": "A", "q1": "C", "q2": "C", "q3": "D", "q5": "B"}
    decisions = adjudicate.decide_keys(ITEMS, first, second, {"q2": "B", "q0": "D"})
    assert [(d.outcome, d.key) for d in decisions] == [
        ("confirmed", "A"),
        ("changed by both", "C"),
        ("resolved", "B"),
        ("resolver needed", None),
        ("reader missing", None),
        ("reader missing", None),
    ]
    decided = adjudicate.decided_items(ITEMS, decisions, by="people")
    assert [(i.item_id, i.key, i.origin["key"]) for i in decided] == [
        ("q0", ["A"], "people"),
        ("q1", ["C"], "people"),
        ("q2", ["B"], "people"),
    ]
    table = adjudicate.decision_table(decisions)
    assert table["k"].tolist() == [1, 1, 1, 1, 2] and table["n"].eq(6).all()
    told = "of 6 keys: 1 confirmed, 1 changed by both, 1 resolved, 1 resolver needed, 2 reader missing."
    assert adjudicate.decisions_in_words(table).endswith(told)
    few = adjudicate.decisions_in_words(adjudicate.decision_table(decisions[:1]))
    assert few.endswith("of 1 keys: 1 confirmed.")
    agreement = adjudicate.key_agreement(decisions).set_index("measure")["estimate"]
    assert agreement["first reader agrees with the key"] == 0.25, "q0 of the four that both have read"
    assert agreement["second reader agrees with the key"] == 0.75
    assert agreement["agreement, letter"] == 0.5 and agreement["agreement, agree or disagree"] == 0.5


def test_a_reader_who_always_agrees_is_to_be_asked():
    decisions = [
        adjudicate.Decision(f"q{k}", "A", "A", "A" if k % 2 else "B", None, None, "resolver needed") for k in range(30)
    ]
    flags = adjudicate.reader_flags(decisions).set_index("rater")["flag"]
    assert "one answer throughout" in flags["first"] and "one answer throughout" not in flags["second"]


def test_simulated_readers_err_on_the_declared_share_and_never_both():
    rng = np.random.default_rng(1)
    questions = [(f"q{k}", *rng.choice(list("ABCD"), 2)) for k in range(500)]
    said = adjudicate.simulate_readers(questions, seed=2)
    right = {name: truth for name, _, truth in questions}
    composed_key = {name: c for name, c, _ in questions}
    wrong = {who: {q for q in right if said[who][q] != right[q]} for who in ("first", "second")}
    assert not wrong["first"] & wrong["second"] and set(said["resolver"]) == wrong["first"] | wrong["second"]
    assert len(wrong["first"]) == len(wrong["second"]) == 60, "0.12 of 500 each, in turn"
    assert all(said["resolver"][q] == right[q] for q in said["resolver"])
    for who, names in wrong.items():
        misled = [q for q in names if composed_key[q] != right[q]]
        assert misled and all(said[who][q] == composed_key[q] for q in misled)
    assert adjudicate.simulate_readers(questions, seed=2) == said != adjudicate.simulate_readers(questions, seed=3)


# The card of a bank ---------------------------------------------------------------------------------------------------


def described(**more) -> card.BankDescription:
    given = {"name": "B", "version": "1.0.0", "licence": "MIT"} | more.pop("given", {})
    return card.bank_description(given, n_items=7, composers=["m1", "m2"], languages=["en"], **more)


def test_a_description_takes_facts_of_the_run_for_what_is_not_given():
    plain = described()
    assert plain.about == "7 questions made from abstracts." and plain.source == "Not stated."
    assert plain.making == "Composed by m1, m2; rules and a second reading rejected the others."
    assert plain.annotators == "none" and "Keys were not confirmed by people" in plain.limits
    queries = {"sleep": "q1", "mood": "q2"}
    recipe = {"origin": "eutils", "queries": queries, "articles": 9, "first": "2001", "last": "2004"}
    whole = described(annotators="two", labels="3 changed.", collected=recipe, given={"about": "Mine."})
    assert whole.about == "Mine." and whole.limits == "Questions of general knowledge, which describe no patient."
    assert whole.making.endswith("rejected the others. 3 changed.")
    assert whole.source.startswith(
        "PubMed, by E-utilities: 9 articles of 2001 to 2004, found by these queries:\n\n- sleep: `q1`"
    )
    assert card.collection_in_words(recipe | {"origin": "a shelf"}).startswith("a shelf: ")
    with pytest.raises(ValueError, match="licens"):
        described(given={"licens": "MIT"})


@pytest.mark.parametrize(("n", "size"), [(1, "n<1K"), (999, "n<1K"), (1000, "1K<n<10K"), (10_000, "10K<n<100K")])
def test_a_card_says_how_large_the_bank_is_in_the_hubs_words(n, size):
    head = card.dataset_card(described(), [ITEMS[0]] * n).split("---")[1]
    assert yaml.safe_load(head)["size_categories"] == [size]


def test_a_card_counts_questions_by_topic_type_and_part(tmp_path):
    items = [
        item("a", topic="t", category="c", split="test"),
        item("b", topic="t", category="c", split="test"),
        item("c", canary="mark"),
    ]
    files = card.write_bank(described(), items, tmp_path / "bank")
    text = files["card"].read_text(encoding="utf-8")
    assert "| t | c | test | 2 |" in text and "| \u2013 | \u2013 | \u2013 | 1 |" in text and "3 questions." in text
    assert "## Canary\n\n`mark`" in text and "## Who checked it\n\nnone" in text
    assert "## Canary" not in card.dataset_card(described(), items[:2])
    head = yaml.safe_load(text.split("---")[1])
    assert head["license"] == "MIT" and head["language"] == ["en"] and head["task_categories"] == ["multiple-choice"]
    table = pd.read_csv(files["bank"])
    assert table["key"].tolist() == ["A"] * 3 and json.loads(table["options"][0]) == items[0].options
    assert table["fingerprint"].nunique() == 1 and table.columns[0] == "item_id" and table.columns[-1] == "canary"


def test_two_readers_have_two_sheets_and_a_reader_has_a_known_name():
    "The same sheet twice would be perfect agreement, and that of an unknown reader would be read by nobody."
    with pytest.raises(ValueError, match="every person must have a file of their own"):
        KeysParameters(sheets={"first": "sheets/a.csv", "second": "sheets/a.csv"})
    with pytest.raises(ValueError, match="every person must have a file of their own"):
        ApproachParameters(sheets={"r1": "sheets/a.csv", "r2": "sheets/a.csv"})
    with pytest.raises(ValueError, match="'first', 'second' or 'resolver'"):
        KeysParameters(sheets={"frist": "sheets/a.csv"})
    sheets = {"first": "sheets/a.csv", "second": "sheets/b.csv"}
    assert KeysParameters(sheets=sheets).sheets == sheets


def test_who_composes_and_who_reads_must_give_some_answers_and_keep_the_order(monkeypatch):
    "Both ask with what they are given, and stop where nothing at all comes; what is rejected is not read."
    asked: list[tuple] = []
    model = SimpleNamespace(name="m")

    def ask(requests, *who, **more):
        asked.append((list(requests), who, more))
        return [f"answer {k}" for k in range(len(asked[-1][0]))]

    monkeypatch.setattr(compose, "ask", ask)
    groups = [(["a", "b"], "first"), (["c"], "second")]
    monkeypatch.setattr(
        compose, "compose_requests", lambda articles, recipe, **more: asked.append(more) or iter(groups)
    )
    read = lambda group, answer, request, recipe, **more: [(x, answer, request, more) for x in group]
    monkeypatch.setattr(compose, "read_composed", read)
    made = compose.compose_with(["x"], {}, model, "e", together=2, max_tokens=9, seed=3, cache="c")
    settings = {"composer": "m", "seed": 3}
    assert made == [
        (x, f"answer {k}", r, settings) for x, k, r in (("a", 0, "first"), ("b", 0, "first"), ("c", 1, "second"))
    ]
    assert asked == [
        {"together": 2, "max_tokens": 9},
        (["first", "second"], (model, "e"), {"some_must_come": True, "cache": "c"}),
    ]
    asked.clear()
    candidate = lambda name: SimpleNamespace(candidate_id=name, pmid=f"of {name}")
    candidates = [candidate(name) for name in "abc"]
    pairs = [(candidates[2], "third"), (candidates[0], "first")]
    monkeypatch.setattr(
        compose, "reading_requests", lambda c, articles, recipe, **more: asked.append(more) or iter(pairs)
    )
    judged = lambda c, answer, abstract, reader: SimpleNamespace(
        candidate_id=c.candidate_id, told=(answer, abstract, reader)
    )
    monkeypatch.setattr(compose, "read_verdict", judged)
    articles = {f"of {name}": name.upper() for name in "abc"}
    first, second, third = compose.read_with(candidates, articles, {}, model, "e", max_tokens=7, budget=1)
    assert (first.told, second, third.told) == (("answer 1", "A", "m"), candidates[1], ("answer 0", "C", "m"))
    assert asked == [{"max_tokens": 7}, (["third", "first"], (model, "e"), {"some_must_come": True, "budget": 1})]


def test_reasons_of_a_step_stand_with_the_commonest_first_and_equal_ones_by_name():
    lost = [("form", "b"), ("form", "c: 1"), ("form", "c: 2"), ("form", "a"), ("reading", "x"), ("", "")]
    table = compose.funnel_table([SimpleNamespace(step=step, reason=reason) for step, reason in lost], 9)
    assert table.to_numpy().tolist() == [
        ["abstracts", "collected", 0, 9],
        ["abstracts", "not asked about", 3, 6],
        ["form", "c", 2, 4],
        ["form", "a", 1, 3],
        ["form", "b", 1, 2],
        ["reading", "x", 1, 1],
    ]


def test_a_question_s_raw_text_and_its_prompt_s_hash_are_of_the_letters_as_they_are():
    messages = [{"role": "user", "content": "Größe"}]
    digest = hashlib.sha256('[{"role": "user", "content": "Größe"}]'.encode()).hexdigest()
    assert compose.prompt_hash(messages) == digest
    question = {"id": "1", "valid": False, "question": "Größe?"}
    answer = compose.Answer("x", data={"questions": [question]})
    group = [SimpleNamespace(pmid="1")]
    [c] = compose.read_composed(group, answer, compose.Request("x", messages), {}, composer="m", seed=1)
    assert "Größe?" in c.raw and c.prompt == digest and c.reason == "no valid question, by the model's word"


def test_reference_texts_are_cut_into_120_words_that_share_20(tmp_path):
    words = [f"w{k}" for k in range(221)]
    (tmp_path / "a.txt").write_text(" ".join(words[:220]), encoding="utf-8")
    found = passages.read_passages(tmp_path / "a.txt")
    assert [p.text.split() for p in found] == [words[:120], words[100:220]]
    assert [(p.passage_id, p.source) for p in found] == [("a-1", "a.txt"), ("a-2", "a.txt")]
    assert [len(t.split()) for t in passages.chunk_text(" ".join(words))] == [120, 120, 21]
    assert len(passages.chunk_text(" ".join(words[:120]))) == 1 and passages.chunk_text(" ") == []


def test_a_reader_sees_the_questions_in_an_order_drawn_by_name_and_seed(tmp_path):
    several = [item(f"q{k}", question=f"Größe {k}?") for k in range(9)]
    for reader in ("first", "second"):
        order = np.random.default_rng([4, *reader.encode()]).permutation(9)
        assert adjudicate.key_sheet(several, reader, seed=4)["item_id"].tolist() == [f"q{k}" for k in order]
    files = adjudicate.write_key_files(several, tmp_path / "keys", seed=4)
    names = ["config.xml"] + [f"{r}{e}" for r in ("first", "second", "resolver") for e in (".csv", ".tasks.json")]
    assert [f.name for f in files] == names
    text = files[2].read_text(encoding="utf-8")
    assert text.endswith("]\n") and "Größe" in text and text.startswith('[\n {\n  "data"')
    assert json.loads(text) == adjudicate.key_tasks(several, "first", seed=4)
    assert files[0].read_text(encoding="utf-8") == adjudicate.key_page(len(several[0].options))


def test_simulated_readers_differ_on_twice_the_declared_share_in_turn():
    questions = [(f"q{k}", "AB"[k % 2], "A") for k in range(100)]
    said = adjudicate.simulate_readers(questions, seed=2)
    wrong = {r: {i for i, letter in said[r].items() if letter != "A"} for r in ("first", "second")}
    assert (len(wrong["first"]), len(wrong["second"])) == (12, 12) and not wrong["first"] & wrong["second"]
    assert said["resolver"] == dict.fromkeys(wrong["first"] | wrong["second"], "A")
    composed = dict((i, key) for i, key, _ in questions)
    of_wrong_keys = [said[r][i] for r in wrong for i in wrong[r] if composed[i] == "B"]
    assert of_wrong_keys and set(of_wrong_keys) == {"B"}, "who errs agrees with the composer"
    in_order = sorted(wrong["first"] | wrong["second"], key=lambda i: int(i[1:]))
    assert [i in wrong["first"] for i in in_order] == [True, False] * 12


def test_three_words_in_a_row_make_two_questions_alike():
    assert splits._shingles("One two THREE four") == {"one two three", "two three four"}
    assert splits._shingles("One two") == {"one two"} and splits._shingles("") == {""}
    base = "a b c d e f g h i j k l m n o p q r s t u v w x y z"  # 24 shingles
    near = base.removesuffix(" x y z") + " 1 2 3"  # 21 shared, 27 together
    rows = splits.near_duplicates([item("p", question=base), item("q", question=near)])
    assert rows.to_numpy().tolist() == [["q", "p", 21 / 27]]
    far = base.removesuffix(" w x y z") + " 1 2 3 4"  # 20 of 28: .714; with one more 19 of 29: .655
    assert len(splits.near_duplicates([item("p", question=base), item("q", question=far)])) == 1
    farther = base.removesuffix(" v w x y z") + " 1 2 3 4 5"
    assert splits.near_duplicates([item("p", question=base), item("q", question=farther)]).empty
