"""Intervals hold the truth as often as they say: calibration error, limits of agreement, the corrected share."""

import tracemalloc

import numpy as np
import pytest
from scipy.special import expit

from mhbench.stats.abstention import risk_coverage_area
from mhbench.stats.calibration import calibration_error
from mhbench.stats.estimate import estimate
from mhbench.stats.judge_error import bland_altman, corrected_share
from mhbench.stats.resample import mean

SAMPLES = 400
LEAST = 0.92 * SAMPLES  # .95 less three standard errors


@pytest.mark.parametrize("n", [30, 120, 500])
@pytest.mark.parametrize("slope", [1.0, 0.4])  # calibrated, and overconfident
def test_the_interval_of_the_calibration_error(n, slope):
    rng, held, values = np.random.default_rng([n, int(10 * slope)]), 0, []
    for _ in range(SAMPLES):
        said = rng.uniform(0.5, 1, n)
        e = calibration_error(said, rng.random(n) < 0.5 + slope * (said - 0.5))
        truth = (1 - slope) * 0.25  # the mean gap: confidence is always too high
        held += e.ci_low <= truth <= e.ci_high
        values.append(e.estimate)
    assert held >= LEAST and abs(np.mean(values) - truth) < 0.06


def test_the_calibration_error_counts_cases():
    rng, held = np.random.default_rng(3), 0
    for _ in range(SAMPLES):
        said = np.full(100, 0.7)
        right = rng.random(100) < np.repeat(expit(0.1 + 2 * rng.normal(size=20)), 5)
        e = calibration_error(said, right, clusters=np.repeat(np.arange(20), 5))
        held += e.ci_low <= 0.7 - expit(0.1 + 2 * np.random.default_rng(1).normal(size=100_000)).mean() <= e.ci_high
    assert held >= LEAST
    assert calibration_error(said[:25], right[:25], clusters=np.repeat(np.arange(5), 5)).kind == "few"


@pytest.mark.parametrize("n, answers, alike", [(30, 1, 0.0), (30, 5, 0.3)])
def test_the_limits_of_agreement(n, answers, alike):
    held = np.zeros(3)
    for k in range(SAMPLES):
        g, case = np.random.default_rng([5, k]), np.repeat(np.arange(n), answers)
        x = g.normal(60, 15, n * answers)
        d = 8 + 6 * (np.sqrt(alike) * g.normal(size=n)[case] + np.sqrt(1 - alike) * g.normal(size=n * answers))
        b = bland_altman(x + d, x, clusters=case, seed=k, n_boot=300)
        truth = [(b.bias, 8), (b.sd, 6), (b.high, 8 + 1.959964 * 6)]
        held += [e.ci_low <= t <= e.ci_high for e, t in truth]
    assert (held >= LEAST).all()


def test_the_corrected_share_counts_cases():
    def simulated(cases, g):
        chance = [expit(c + 1.5 * g.normal(size=(cases, 1))) for c in (0.5, 2.0, 1.5)]
        good = g.random((cases, 5)) < chance[0]
        said = np.where(good, g.random((cases, 5)) < chance[1], g.random((cases, 5)) > chance[2])
        return said.ravel(), good.ravel(), np.repeat(np.arange(cases), 5)

    def rates(said, of, found, good, where, cases):
        "The three rates, over cases or as if each answer were its own."
        parts = [(said, of), (found[good], where[good]), (~found[~good], where[~good])]
        each = {"share": True, "n_boot": 300, "seed": 1}
        return [estimate(mean, x.astype(float), clusters=c if cases else None, **each) for x, c in parts]

    truth = simulated(200_000, np.random.default_rng(1))[1].mean()
    held = np.zeros(2)
    for k in range(SAMPLES):
        g = np.random.default_rng([8, k])
        (said, _, of), labelled = simulated(60, g), simulated(60, g)
        ours, plain = (corrected_share(*rates(said, of, *labelled, cases)) for cases in (True, False))
        held += [e.ci_low <= truth <= e.ci_high for e in (ours, plain)]
    assert held[0] >= LEAST > held[1] + 0.01 * SAMPLES
    assert (ours.n, ours.n_clusters) == (300, 60) and ours.estimate == pytest.approx(plain.estimate)


def test_the_area_under_risk_and_coverage_takes_no_table_of_all_pairs():
    rng = np.random.default_rng(1)
    confidence = rng.random(30_000)
    tracemalloc.start()
    area = risk_coverage_area(confidence, rng.random(30_000) < confidence)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert area == pytest.approx(0.25, abs=0.01) and peak < 50e6  # a table of all pairs takes 7.2 GB
