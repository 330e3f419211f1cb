"The table in README.md counts what there is: no case is claimed that is not tried, and none is tried that is not told."

import importlib
import math
import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TEXT = (HERE / "README.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (.+?) \| `(test_hostile_\w+)\.py` \| (\d+) \| (.+?) \|$", TEXT, re.MULTILINE)
FILES = sorted(f.stem for f in HERE.glob("test_*.py") if f.stem != "test_hostile_counted")


def cases_of(name: str) -> dict[str, int]:
    "The tests of a file, and how many cases each has."
    if name == "test_hostile_local":
        pytest.importorskip("xllamacpp")
    module = importlib.import_module(f"hostile.{name}")
    found = {}
    for test, function in vars(module).items():
        if test.startswith("test_"):
            given = [m.args[1] for m in getattr(function, "pytestmark", []) if m.name == "parametrize"]
            found[test] = math.prod(len(list(values)) for values in given)
    return found


def test_a_files_cases_are_those_of_the_table():
    counted = {name: sum(cases_of(name).values()) for name in FILES}
    assert {name: sum(int(n) for _, file, n, _ in ROWS if file == name) for name in FILES} == counted


def test_the_sum_is_the_sum_of_the_rows():
    told = re.search(r"\*\*(\d+) cases in (\d+) groups\*\*", TEXT)
    assert told and (int(told[1]), int(told[2])) == (sum(int(n) for _, _, n, _ in ROWS), len(ROWS))
    assert len(ROWS) == TEXT.count("| `test_hostile_") and {file for _, file, _, _ in ROWS} == set(FILES)


def test_the_shapes_of_replies_are_as_many_as_is_said():
    module = importlib.import_module("hostile.test_hostile_replies")
    shapes, raw = re.search(r"(\d+) shapes, (\d+) strings of bytes", TEXT).groups()
    drawn = (module.test_no_reply_raises_anything_but_malformed_and_what_it_gives_can_be_kept,
             module.test_no_bytes_raise_anything_but_malformed)  # fmt: skip
    assert [d._hypothesis_internal_use_settings.max_examples for d in drawn] == [int(shapes), int(raw)]
