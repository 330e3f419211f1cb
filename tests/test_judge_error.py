"A judge's scores beside people's: what is refused, what is left out, and the numbers that are constants."

import numpy as np
import pytest

from mhbench.stats.judge_error import EVEN_DIGITS, bland_altman, within_slope


def test_shares_of_round_numbers_from_0_to_100():
    scores = np.arange(101)
    assert EVEN_DIGITS == {step: np.mean(scores % step == 0) for step in (5, 10)}


def test_scores_of_judge_and_people_are_one_an_answer():
    square = np.ones((3, 3))
    for judge, people in ((square, square), ([1, 2, 3], [1, 2])):
        with pytest.raises(ValueError, match="one score an answer each"):
            bland_altman(judge, people, seed=1)


def test_a_slope_within_items_is_that_of_the_items_in_which_something_varies():
    rng = np.random.default_rng(1)
    items = np.repeat(np.arange(12), 2)
    x = np.where(items % 3 == 0, 1.0, rng.normal(size=24))  # in every third item nothing varies
    found = within_slope(10 * items + 2 * x, x, items)
    assert found.estimate == pytest.approx(2) and (found.n, found.n_clusters) == (16, 8)
    assert np.isnan(within_slope(10 * items, np.ones(24), items).estimate)
    assert np.isnan(within_slope([], [], []).estimate)
