"""Does a guaranteed threshold keep its promise? Draws of calibration sets whose true risk is known.

    python benchmarks/abstaining.py                 # 10,000 draws a setting, into results/abstaining.csv
    python benchmarks/abstaining.py --draws 500

The promise fails where a threshold was found and the true risk at it is above the one wanted; it may fail in a share of
at most `delta` of the draws. In the settings called `nothing to be had` no threshold deserves a promise, so that every
one that is found fails. The last settings draw whole cases, with replacement, from the recorded answers of
CounselingBench: the confidence is the share of eight models that chose the option that most chose, and the true risk is
that in all of the recorded answers.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from next_question import DATASETS, recorded_scores
from scipy import stats

from mhbench.stats.abstention import threshold_kept, thresholds_tested

HERE = Path(__file__).resolve().parent
DELTA = 0.1


class Drawn(NamedTuple):
    confidence: np.ndarray
    wrong: np.ndarray
    case: np.ndarray


class Setting(NamedTuple):
    name: str
    cases: int
    largest: int  # answers of a case, at most
    risk: float
    draw: Callable[[np.random.Generator], Drawn]
    truth: Callable[[float], float]  # the risk at a threshold or above


def _uniform(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.random(n)


def _shares(rng: np.random.Generator, n: int) -> np.ndarray:
    "Five judges' vote shares."
    return rng.choice([0.6, 0.8, 1.0], n, p=[0.2, 0.3, 0.5])


def cases_of(
    sizes: Callable[[np.random.Generator], np.ndarray],
    confidence: Callable[[np.random.Generator, int], np.ndarray],
    p_wrong: Callable[[np.ndarray, np.ndarray], np.ndarray],  # of confidences and sizes of the case
    alike: float,  # share of the variance behind an error that the answers of a case have in common
) -> Callable[[np.random.Generator], Drawn]:
    def draw(rng: np.random.Generator) -> Drawn:
        size = sizes(rng)
        case = np.repeat(np.arange(len(size)), size)
        z = np.sqrt(alike) * rng.normal(size=len(size))[case] + np.sqrt(1 - alike) * rng.normal(size=len(case))
        c = confidence(rng, len(case))
        return Drawn(c, (stats.norm.cdf(z) < p_wrong(c, size[case])).astype(float), case)

    return draw


def simulated() -> list[Setting]:
    found = []

    def add(name, cases, largest, risk, confidence, p_wrong, truth, alike=0.0, sizes=None):
        size = sizes or (lambda rng: np.full(cases, largest))
        found.append(Setting(name, cases, largest, risk, cases_of(size, confidence, p_wrong, alike), truth))

    def falls(c, _):
        return 0.4 * (1 - c)

    def flat(c, _):
        return np.full(len(c), 0.102)

    def rises(c, _):
        return 0.102 + 0.1 * (c - 1) * (c < 0.5)

    def by_share(c, _):
        return np.select([c == 1, c == 0.8], [0.04, 0.16], 0.3)

    def share_risk(t):
        p, w = np.array([0.5, 0.3, 0.2]), np.array([0.04, 0.16, 0.3])
        use = np.array([1.0, 0.8, 0.6]) >= t
        return float((p * w)[use].sum() / p[use].sum())

    def by_size(c, size):
        return np.where(size == 4, 0.5, 0.1) * (1 - c)

    def one_or_four(cases):
        return lambda rng: np.where(rng.random(cases) < 0.5, 4, 1)

    for n in (50, 200, 1000):
        add("risk falls", n, 1, 0.1, _uniform, falls, lambda t: 0.2 * (1 - t))
    add("vote shares", 100, 1, 0.1, _shares, by_share, share_risk)
    add("vote shares", 400, 1, 0.08, _shares, by_share, share_risk)
    add("nothing to be had", 100, 1, 0.1, _uniform, flat, lambda t: 0.102)
    add("nothing to be had", 1000, 1, 0.1, _uniform, flat, lambda t: 0.102)
    for n, alike in ((100, 0.3), (400, 0.3), (400, 0.9)):
        add(f"risk falls, alike {alike:g}", n, 5, 0.15, _uniform, falls, lambda t: 0.2 * (1 - t), alike)
        add(f"nothing to be had, alike {alike:g}", n, 5, 0.1, _uniform, flat, lambda t: 0.102, alike)
    add("nothing to be had, two alike", 400, 2, 0.1, _uniform, flat, lambda t: 0.102, 0.9)
    add("vote shares, alike 0.5", 200, 5, 0.1, _shares, by_share, share_risk, 0.5)
    add(
        "large cases worse",
        300,
        4,
        0.15,
        _uniform,
        by_size,
        lambda t: (4 * 0.5 + 0.1) / 5 * (1 - t) / 2,
        0.5,
        one_or_four(300),
    )
    add("sure and wrong", 300, 1, 0.1, _uniform, rises, lambda t: _risen(t))
    return found


def _risen(t: float) -> float:
    "The mean of `rises` above t."
    below = max(0.5 - t, 0.0)
    lost = 0.1 * ((1 - t) ** 2 - 0.25) / 2 if below else 0.0
    return 0.102 - lost / (1 - t)


def recorded_answers() -> Drawn:
    "The option that most of the eight models chose zero-shot, the share that did, and whether it is wrong."
    scores = recorded_scores()
    zero = scores[(scores["mode"] == "zero_shot") & (scores["answer"].str.len() == 1)]
    rows = []
    for _, g in zero.groupby("item_id"):
        votes = g["answer"].str[0].value_counts()
        wrong = votes.index[0] not in g["key"].iloc[0]
        rows.append((votes.iloc[0] / votes.sum(), float(wrong), g["cluster"].iloc[0]))
    confidence, wrong, case = zip(*rows)
    return Drawn(np.array(confidence), np.array(wrong), pd.factorize(np.array(case))[0])


def from_recorded(found: Drawn, cases: int, risk: float) -> Setting:
    members = [np.flatnonzero(found.case == k) for k in range(found.case.max() + 1)]

    def draw(rng: np.random.Generator) -> Drawn:
        picked = [members[k] for k in rng.integers(0, len(members), cases)]
        at = np.concatenate(picked)
        return Drawn(found.confidence[at], found.wrong[at], np.repeat(np.arange(cases), [len(p) for p in picked]))

    def truth(t: float) -> float:
        return float(found.wrong[found.confidence >= t].mean())

    return Setting("CounselingBench's answers", cases, max(map(len, members)), risk, draw, truth)


def measured(s: Setting, draws: int, seed: int) -> dict:
    rng, given, failed, coverage, answers = np.random.default_rng(seed), 0, 0, 0.0, 0
    for _ in range(draws):
        x = s.draw(rng)
        clusters = None if s.largest == 1 else x.case
        tested = thresholds_tested(
            x.confidence, x.wrong, risk=s.risk, delta=DELTA, clusters=clusters, largest=s.largest
        )
        best = threshold_kept(tested)
        answers += len(x.wrong)
        if best is not None:
            given += 1
            failed += s.truth(best["threshold"]) > s.risk
            coverage += best["coverage"]
    about = {"setting": s.name, "cases": s.cases, "largest": s.largest, "answers": round(answers / draws)}
    about |= {"risk": s.risk, "delta": DELTA, "draws": draws, "threshold found": given / draws}
    return about | {
        "promise failed": float(failed) / draws,
        "kept, where found": float(coverage) / given if given else np.nan,
    }


def main() -> None:
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--draws", type=int, default=10_000)
    args.add_argument("--to", type=Path, default=HERE / "results" / "abstaining.csv")
    a = args.parse_args()
    settings = simulated()
    if (DATASETS / "counselingbench" / "outputs_t").is_dir():
        found = recorded_answers()
        settings += [from_recorded(found, n, risk) for n, risk in ((100, 0.3), (200, 0.2), (600, 0.2))]
    rows = []
    for k, s in enumerate(settings):
        rows.append(measured(s, a.draws, seed=k))
        print(rows[-1], flush=True)
        a.to.parent.mkdir(exist_ok=True)
        pd.DataFrame(rows).round(4).to_csv(a.to, index=False, lineterminator="\n")


if __name__ == "__main__":
    main()
