"""A parameter that a stage ignores leaves the tables of the demo's own value, and not those of golden/varied."""

import pytest
from golden_tables import FOLDER, differences, stored
from varied import VARIED, left_by

pytestmark = pytest.mark.whole


@pytest.mark.parametrize("place", VARIED)
def test_other_parameters_give_the_tables_that_somebody_read(place, demo):
    stage, _, study = place.partition("/")
    golden = {name: rows for name, rows in stored(FOLDER / "varied")[stage].items() if name.startswith(study)}
    assert not differences({stage: golden}, left_by(place, demo / "results", VARIED[place]))
