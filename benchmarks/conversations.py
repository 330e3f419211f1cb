"""How often the components of the demonstration's ratings of conversations lie in their intervals.

    python benchmarks/conversations.py [--seeds 1000]

For every seed people's and judges' ratings are drawn with the declared spread, and taken apart. Bar: each component's
95% interval holds the declared one in at least 93% of 1,000 seeds.
"""

import argparse
from collections import defaultdict

import numpy as np

from mhbench.corpus.demo import DEMO_SPREAD, demo_conversation_ratings
from mhbench.records.described import Scale
from mhbench.steps.graded import rating_table
from mhbench.steps.rated import spread_of

SCALE = {"support": Scale(kind="numbers", low=0, high=100)}


def held(seeds: range) -> dict[tuple[str, str], float]:
    "The share of seeds whose interval holds the declared component, by kind of rater and source."
    out = defaultdict(list)
    for seed in seeds:
        table = rating_table(demo_conversation_ratings(seed), SCALE)
        for kind, sd in DEMO_SPREAD.items():
            rows = spread_of(table, [kind], seed=seed).table
            for source, low, high in rows[["source", "ci_low", "ci_high"]].itertuples(index=False):
                out[kind, source].append(low <= sd[source] ** 2 <= high)
    return {key: float(np.mean(x)) for key, x in out.items()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=1000)
    n = parser.parse_args().seeds
    for (kind, source), share in held(range(n)).items():
        print(f"{kind:8} {source:20} {share:.3f} of {n}")
