"""A judge against a panel: how often it is called non-inferior where it is worse by exactly the margin, and where it is
equal to a member.

    python benchmarks/noninferior.py [--draws 400] [--to benchmarks/results/noninferior.csv]

Raters' skills are normal with a standard deviation of up to one logit, answers stand in cases of three. The error is of
a one-sided test at level .05: its lower limit is that of a 95% interval, of which each side has .025, and what skewed
skills take of the rest is seen here. Bars: error at most .05, for 3 to 8 raters; power at least .5 for eight raters and
800 answers.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import expit

from mhbench.stats.consensus import agreement_with_members

RESULTS = Path(__file__).resolve().parent / "results" / "noninferior.csv"
MARGIN, EASE, CASE_SD, ANSWER_SD = 0.1, 1.5, 0.7, 0.7


def expected(skill: float, sd: float, z: np.ndarray, w: np.ndarray) -> float:
    "The expected agreement of a judge of this skill with a member, less that of two members."
    ease = EASE + np.hypot(CASE_SD, ANSWER_SD) * z
    member = (expit(ease[:, None] + sd * z) * w).sum(1)  # of each ease, the mean over raters
    judge = expit(ease + skill)
    same = judge * member + (1 - judge) * (1 - member) - member**2 - (1 - member) ** 2
    return float((same * w).sum())


def skill_at(difference: float, sd: float) -> float:
    z = np.linspace(-6, 6, 401)
    w = np.exp(-z * z / 2) / np.exp(-z * z / 2).sum()
    return float(brentq(lambda skill: expected(skill, sd, z, w) - difference, -6, 6))


def verdict(rng: np.random.Generator, raters: int, answers: int, sd: float, skill: float) -> str:
    case = np.arange(answers) // 3
    ease = EASE + rng.normal(0, CASE_SD, case[-1] + 1)[case] + rng.normal(0, ANSWER_SD, answers)
    skills = np.r_[rng.normal(0, sd, raters), skill][:, None]
    truth = rng.random(answers) < 0.6
    right = rng.random((raters + 1, answers)) < expit(skills + ease)
    labels = np.where(right == truth, "Correct", "Incorrect").astype(object)
    return agreement_with_members(labels[-1], labels[:-1], clusters=case).verdict(MARGIN)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--to", type=Path, default=RESULTS)
    args = parser.parse_args()
    rows = []
    for sd in (0.25, 0.5, 1.0):
        for answers in (200, 800):
            for raters in range(3, 9):
                row = {"sd": sd, "answers": answers, "raters": raters, "draws": args.draws}
                for name, difference in (("error", -MARGIN), ("power", 0.0)):
                    skill = skill_at(difference, sd)
                    seeds = ([int(sd * 100), answers, raters, d] for d in range(args.draws))
                    found = [verdict(np.random.default_rng(s), raters, answers, sd, skill) for s in seeds]
                    row[name] = found.count("non-inferior") / args.draws
                rows.append(row)
    table = pd.DataFrame(rows)
    table.to_csv(args.to, index=False)
    print(table.to_string(index=False))
    print(
        f"greatest error {table['error'].max():.3f}; least power of 8 raters, 800 answers: "
        f"{table.query('raters == 8 and answers == 800')['power'].min():.2f}"
    )


if __name__ == "__main__":
    main()
