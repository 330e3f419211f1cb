"Label Studio: an export that a real server wrote, and exports that somebody broke."

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mhbench.records.labelstudio import (
    _annotation_time,
    exported_tasks,
    label_studio_tasks,
    labelling_config,
    load_label_studio,
    write_tasks,
)
from mhbench.records.schema import Item, Response

FILES = Path(__file__).parent / "fixtures" / "labelstudio"
MODELS = ["elm", "fir", "gem", "owl", "ox"]


@pytest.fixture
def out():
    terms = [
        ("Das Hormon, das den Blutzucker senkt, ist _____.", "Insulin"),
        ("Vitamin B1 heißt auch _____.", "Thiamin"),
        ("Lithium wird über die _____ ausgeschieden.", "Niere"),
        ("Das aktive Schilddrüsenhormon ist _____.", "Trijodthyronin"),
    ]
    items = [
        Item(item_id=f"demo-{n}", study="medqade", task="cloze", question=q, key=[k], source="demo", language="de")
        for n, (q, k) in enumerate(terms)
    ]
    responses = [
        Response(
            item_id=i.item_id,
            study="medqade",
            model=m,
            mode="free_form",
            text=i.key[0] if (n + k) % 2 else f'<falsch & "{k}">',
        )
        for n, i in enumerate(items)
        for k, m in enumerate(MODELS)
    ]
    return label_studio_tasks(items, responses, {"r1": [i.item_id for i in items]}, seed=5)


def test_an_export_of_a_server(out):
    "The server imported these tasks, took five annotations (one skipped, one a second thought), and exported them."
    key = json.loads((FILES / "key.json").read_text())
    assert (
        key == out.key and (FILES / "config.xml").read_text() == out.config
    )  # the draw and the page are still what the server was given
    got = load_label_studio(FILES / "export.json", key, raters={1: "r1"})
    assert got.counts == {"tasks": 4, "annotations": 4, "unlabelled": 1, "cancelled": 1, "superseded": 1, "missing": 0}
    said = {(r.item_id, r.target): r.label for r in got.ratings}
    assert [said["demo-2", m] for m in key["demo-2"]] == ["Correct", "Incorrect", "Correct", "Incorrect", "Abstain"]
    assert [said["demo-3", m] for m in MODELS] == ["Correct"] * 5 and said[
        "demo-3", "difficulty"
    ] == "Medium"  # the second annotation holds
    assert {r.comment for r in got.ratings if r.item_id == "demo-2"} == {"Eponym wäre auch richtig"} and len(said) == 12


def test_tasks_name_no_model(out):
    for t in out.tasks["r1"]:
        assert not set(t["data"].values()) & set(MODELS) and set(t["data"]) == {
            "item_id",
            "study",
            "question",
            "reference",
            *(f"answer_{k}" for k in range(1, 6)),
        }
    assert len({tuple(v) for v in out.key.values()}) > 1  # shuffled item by item


def export(tmp_path, change):
    data = json.loads((FILES / "export.json").read_text())
    change(data)
    (tmp_path / "e.json").write_text(json.dumps(data))
    return lambda **kw: load_label_studio(
        tmp_path / "e.json", json.loads((FILES / "key.json").read_text()), **{"raters": "r1", **kw}
    )


def test_a_missing_verdict_is_counted_and_is_no_abstention(tmp_path):
    got = export(tmp_path, lambda d: d[0]["annotations"][0]["result"].pop(0))()
    assert got.counts["missing"] == 1 and len(got.ratings) == 11


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda d: d[0]["annotations"][0]["result"][0]["value"].update(choices=["Richtig"]), "label must be one of"),
        (
            lambda d: d[0]["annotations"][0]["result"][0]["value"].update(choices=["Correct", "Incorrect"]),
            "must be single",
        ),
        (lambda d: d[0]["annotations"][0]["result"][0].update(type="labels"), "must be choices or textarea"),
        (
            lambda d: d[0]["annotations"][0]["result"][0].update(from_name="correctness_9"),
            "the key is of another round",
        ),
        (lambda d: d[0]["data"].update(item_id="demo-99"), "key must hold every item"),
        (lambda d: d[0].pop("annotations"), "a list of tasks with data and annotations"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path, change, message):
    with pytest.raises(ValueError, match=message):
        export(tmp_path, change)()


def test_raters_by_email(tmp_path):
    load = export(
        tmp_path,
        lambda d: [a.update(completed_by={"id": 7, "email": "x@example.org"}) for t in d for a in t["annotations"]],
    )
    assert {r.rater for r in load(raters={"x@example.org": "r9"}).ratings} == {"r9"}
    with pytest.raises(ValueError, match="got 'x@example.org'"):
        load(raters={7: "r9"})


def test_files_of_a_round(tmp_path, out):
    names = [p.name for p in write_tasks(out, tmp_path)]
    assert names == ["config.xml", "key.json", "tasks-r1.json"]
    assert {(tmp_path / name).stat().st_mode & 0o777 for name in names} == {0o600}
    write_tasks(out, tmp_path / "new")
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "new" / ".gitignore").read_text(encoding="utf-8") == "*\n"
    assert (
        json.loads((tmp_path / "tasks-r1.json").read_text()) == out.tasks["r1"]
        and json.loads((tmp_path / "key.json").read_text()) == out.key
    )
    assert not (tmp_path / ".gitignore").exists()  # a folder that was there is the user's


ITEM = Item(item_id="i", study="medqade", task="cloze", question="_", key=["k"], source="demo", language="de-AT")
ANSWER = Response(item_id="i", study="medqade", model="m", mode="free_form", text="x")


def test_a_page_speaks_the_language_of_its_items_or_the_one_that_is_given():
    page = lambda **how: label_studio_tasks([ITEM], [ANSWER], {"r1": ["i"]}, seed=1, **how).config
    assert page() == page(language="de") == labelling_config(1, language="de") != page(language="en")
    assert label_studio_tasks([], [ANSWER], {}, seed=1).config == labelling_config(1)
    for words in ('value="Keine Angabe" alias="Abstain"', 'value="Schwer" alias="Hard"', 'value="Antwort 1"'):
        assert page().count(words) == 1


def test_a_page_shows_what_surrounds_the_question_and_every_right_term():
    item = ITEM.model_copy(update={"context": {"case": "A case.", "note": "A note."}, "key": ["k", "l"]})
    [page] = label_studio_tasks([item], [ANSWER], {"r1": ["i"]}, seed=1).tasks["r1"]
    assert page["data"]["question"] == "A case.\n\nA note.\n\n_" and page["data"]["reference"] == "k; l"


@pytest.mark.parametrize(
    ("items", "responses", "assignment", "message"),
    [
        ([ITEM], [ANSWER, ANSWER], {"r": ["i"]}, r"must be one a model and item; got two of m \(i\)"),
        ([ITEM], [ANSWER.model_copy(update={"text": None})], {"r": ["i"]}, "must have a text; got none of m with"),
        ([ITEM], [], {"r": ["i"]}, "responses must hold at least one answer"),
        ([ITEM], [ANSWER], {"r": ["j"]}, "assignment must name items that are there; got 'j'"),
        ([ITEM], [ANSWER.model_copy(update={"item_id": "j"})], {"r": ["i"]}, r"got none of \['m'\] \(i\)"),
        ([ITEM], [ANSWER], {"r": ["i"], "s": ["i", "i"]}, "each item once a rater; got an item twice for 's'"),
    ],
)
def test_a_round_that_does_not_fit_is_refused(items, responses, assignment, message):
    with pytest.raises(ValueError, match=message):
        label_studio_tasks(items, responses, assignment, seed=1)


def saved(*annotations, tmp_path, raters="r1"):
    "What is read of one task with these annotations: (id, when, label, more)."
    chosen = lambda label: {"from_name": "correctness_1", "type": "choices", "value": {"choices": [label]}}
    task = {"id": 1, "data": {"item_id": "i", "study": "s"}, "annotations": []}
    for number, when, label, more in annotations:
        task["annotations"].append({"id": number, "updated_at": when, "result": [chosen(label)], **more})
    (tmp_path / "e.json").write_text(json.dumps([task, {"id": 2, "data": {"item_id": "i"}, "annotations": []}]))
    return load_label_studio(tmp_path / "e.json", {"i": ["m"]}, raters=raters)


def test_the_latest_of_a_rater_s_annotations_holds(tmp_path):
    early, late = "2025-01-07T10:00:00Z", "2025-01-07T10:30:00"  # without an offset: universal time
    for annotations in (
        [(1, early, "Correct", {}), (2, late, "Incorrect", {})],
        [(2, late, "Incorrect", {}), (1, early, "Correct", {})],
        [(1, late, "Correct", {}), (2, late, "Incorrect", {})],  # of one time the higher number
        [(2, late, "Incorrect", {}), (1, late, "Correct", {})],
        [(1, "2025-01-07T11:15:00+01:00", "Correct", {}), (2, late, "Incorrect", {})],  # a quarter past ten
        [(2, None, "Incorrect", {"created_at": late}), (1, early, "Correct", {})],
        [(1, None, "Correct", {}), (2, late, "Incorrect", {})],
        [(3, late, "Correct", {"was_cancelled": True}), (2, early, "Incorrect", {}), (1, None, "Correct", {})],
    ):
        got = saved(*annotations, tmp_path=tmp_path)
        assert [(r.label, r.session, r.target, r.study) for r in got.ratings] == [("Incorrect", "2", "m", "s")]
        n_cancelled = sum("was_cancelled" in a[3] for a in annotations)
        expected = {"annotations": len(annotations), "unlabelled": 1, "cancelled": n_cancelled, "superseded": 1}
        assert got.counts == {"tasks": 2, "missing": 1} | expected  # the difficulty
        assert got.ratings[0].source == "e.json:task 1:annotation 2"
    with pytest.raises(ValueError, match="must be as 2025-01-07T10:42:00Z; got 'soon'"):
        saved((1, "soon", "Correct", {}), tmp_path=tmp_path)


def test_annotations_of_several_need_a_name_for_each(tmp_path):
    both = [(k, None, "Correct", {"completed_by": who}) for k, who in enumerate((4, {"id": 5}, None), 1)]
    with pytest.raises(ValueError, match=r"one rater must have made all annotations; got 2 \(e\.json\)"):
        saved(*both, tmp_path=tmp_path)
    one = saved(*both[1:], tmp_path=tmp_path)  # of one account, and of one that the export does not name
    assert one.counts["superseded"] == 1
    named = saved(*both[:2], tmp_path=tmp_path, raters={"4": "r4", 5: "r5"})
    assert {r.rater: r.session for r in named.ratings} == {"r4": "1", "r5": "2"}


def test_annotations_of_unnamed_people_are_not_taken_for_one_persons(tmp_path):
    "By account, an annotation without one may be anybody's: the second would replace the first as the same rater's."
    unnamed = [(k, None, label, {"completed_by": None}) for k, label in enumerate(("Correct", "Incorrect"), 1)]
    with pytest.raises(ValueError, match=r"must say who made it.*got none \(e\.json:task 1:annotation 1\); export"):
        saved(*unnamed, tmp_path=tmp_path, raters=None)
    skipped = (3, None, None, {"completed_by": None, "was_cancelled": True})
    one = saved((1, None, "Correct", {"completed_by": 4}), skipped, tmp_path=tmp_path, raters=None)
    assert [r.rater for r in one.ratings] == ["rater-1"] and one.counts["cancelled"] == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[1]", r"got task 1: .* \(e\.json, task 1\)"),
        (
            '[{"data": {"item_id": "i"}, "annotations": [{"result": [{"value": {}}]}]}]',
            "annotations.0.result.0.from_name",
        ),
        ('{"a": 1}', r"got the whole: .* \(e\.json, the whole\)"),
        ("a,b", "path must be the JSON export of a project; got .* export as JSON, neither CSV nor TSV"),
    ],
)
def test_a_file_that_is_no_export_is_named_with_its_place(content, message, tmp_path):
    (tmp_path / "e.json").write_text(content)
    with pytest.raises(ValueError, match=message):
        load_label_studio(tmp_path / "e.json", {}, raters="r1")
    with pytest.raises(FileNotFoundError, match=r"got No such file or directory \(none\.json\)"):
        load_label_studio(tmp_path / "none.json", {}, raters="r1")


def test_the_time_of_an_annotation_is_universal_and_its_number_decides_between_equal_ones():
    "Of its last change, else of its beginning; without a number it has 0, and without a time it is before all."
    noon = datetime(2025, 1, 7, 12, tzinfo=UTC)
    saved_at = {"updated_at": "2025-01-07T13:00:00+01:00", "created_at": "2025-01-06T13:00:00Z"}
    assert _annotation_time(saved_at | {"id": 7}, "x") == (noon, 7)
    assert _annotation_time({"created_at": "2025-01-07T12:00:00"}, "x") == (noon, 0)
    assert _annotation_time({"id": "a"}, "x") == (datetime.min.replace(tzinfo=UTC), 0)


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        ({"result": [{"from_name": "comment"}] * 2}, "there are two results of the control comment"),
        ({"was_cancelled": "yes"}, "was_cancelled: Input should be a valid boolean"),
        ({"completed_by": {"id": [1]}}, "completed_by must be a person"),
        ({"result": [{"from_name": 7}]}, "from_name: Input should be a valid string"),
    ],
)
def test_a_part_of_an_export_of_another_form_is_named(annotation, message, tmp_path):
    "With the number of its task."
    tasks = [{"data": {"item_id": "q"}, "annotations": []}, {"data": {"item_id": "q"}, "annotations": [annotation]}]
    (tmp_path / "x.json").write_text(json.dumps(tasks))
    with pytest.raises(ValueError, match=rf"{message}.*\(x.json, task 2\)"):
        exported_tasks(tmp_path / "x.json")


def test_files_of_a_round_in_a_repository_are_ignored_and_are_as_they_were(out, tmp_path):
    "In a folder that was there before; a line for each entry of the key."
    folder = tmp_path / "round"
    folder.mkdir()
    (tmp_path / ".git").mkdir()
    files = write_tasks(out, folder)
    assert (folder / ".gitignore").read_text().splitlines() == [f"/{f.name}" for f in files]
    assert (folder / "key.json").read_text() == json.dumps(out.key, indent=1) + "\n"


def test_a_page_of_items_in_two_languages_has_that_of_the_first():
    "Its region is none of a language."
    fields = {"study": "s", "task": "open", "question": "?", "key": ["x"], "source": "x"}
    items = [Item(item_id=x, language=x, **fields) for x in ("de-AT", "en")]
    answers = [Response(item_id=x, study="s", model="m", mode="cot", text="x") for x in ("de-AT", "en")]
    assert "Referenzantwort" in label_studio_tasks(items, answers, {"r": ["en"]}, seed=1).config
    assert "Referenzantwort" not in label_studio_tasks(items[::-1], answers, {"r": ["en"]}, seed=1).config


def test_of_annotations_of_one_time_without_a_number_the_last_holds(tmp_path):
    "In the order of the export."
    late = "2025-01-07T10:30:00Z"
    got = saved((None, late, "Correct", {}), (None, late, "Incorrect", {}), tmp_path=tmp_path)
    assert [r.label for r in got.ratings] == ["Incorrect"] and got.counts["superseded"] == 1
