"Label Studio: an export that a real server wrote, and exports that somebody broke."

import json
from pathlib import Path

import pytest

from mhbench.records.labelstudio import label_studio_tasks, load_label_studio, write_tasks
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
