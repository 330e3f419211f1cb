"""Three schedules of failures, kills and selections, each a real `dvc repro`; `tests/schedules.py` plays all twenty.

What summary, report, compare and an export then show has no number of another run, calls nothing right that failed, and
nothing that was answered is asked twice.
"""

import pytest
import schedules


@pytest.mark.parametrize(
    "schedule",
    [schedules.four, schedules.killed_then_unreadable, schedules.broken_code],
    ids=lambda s: s.__name__,
)
def test_what_a_user_sees_is_of_this_run(schedule, tmp_path):
    assert not schedules.play(schedule, tmp_path)


def test_a_number_of_another_selection_and_a_number_that_cannot_be_are_seen(tmp_path, monkeypatch):
    "The schedules can fail: what `seen` looks at is changed."
    import pandas as pd

    class Told:
        models, told = schedules.Models(), []
        top = tmp_path

        def numbers(self):
            row = {"study": "ward", "stage": "score", "measure": "accuracy", "model": "typo", "mode": "zero_shot"}
            return pd.DataFrame([row | {"estimate": 0.5}])

        def summary(self):
            return "ward: typo, zero shot"

        def command(self, *words):
            return type("Done", (), {"returncode": 1})

    (tmp_path / "run.yaml").write_text("run: {studies: [clinic], models: [sound]}\n")
    wrong = schedules.seen(Told())
    assert any("of another selection" in x for x in wrong) and any("nothing can be known" in x for x in wrong)
    assert any(x.startswith("summary: names ward") for x in wrong)
