"""A parameter that a stage ignores leaves the tables of the demo's own value, and not those of golden/varied."""

import pytest
from golden_tables import differences
from varied import VARIED, golden, left_by

pytestmark = pytest.mark.whole


@pytest.mark.parametrize("key", VARIED)
def test_other_parameters_give_the_tables_that_somebody_read(key, demo):
    stage = key.split()[0].partition("/")[0]
    assert not differences({stage: golden(key)}, left_by(key, demo / "results", VARIED[key]))
