"""How fast answers are read, how well, and where recorded answers are read otherwise than by their authors.

Run: python benchmarks/parse.py [rounds]

The texts are `tests/data/answer_forms*.jsonl`. The recorded answers are in $MHBENCH_DATASETS, by default
`../shared/datasets`; of those of MENTAT, ids and letters are printed, and nothing else, where MHBENCH_MENTAT_PASSWORD
is set.
"""

import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
import answer_forms

from mhbench.ask import parse

DATASETS = Path(os.environ.get("MHBENCH_DATASETS", ROOT.parent / "shared" / "datasets"))
ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 3


def seconds_each(rows: list[dict], times: int = ROUNDS) -> float:
    "CPU seconds for one answer, none of them known from before; patterns are compiled first."
    spent = []
    for _ in range(times + 1):
        parse._parse_without_texts.cache_clear()
        start = time.process_time()
        for row in rows:
            parse.parse_choices(row["text"], row["options"], numbered=row["numbered"])
        spent.append((time.process_time() - start) / len(rows))
    return min(spent[1:])


for file in answer_forms.FILES:
    rows = answer_forms.read_forms(file)
    signs = sum(len(row["text"]) for row in rows) / len(rows)
    print(f"\n{file.name}: {1e6 * seconds_each(rows):.0f} microseconds an answer of {signs:.0f} characters")
    print(answer_forms.precision_and_recall(rows).loc[["all"]].round(3).to_string())

rows = [row for file in answer_forms.FILES for row in answer_forms.read_forms(file) if len(row["text"]) > 200]
long = [row | {"text": f"{row['text']}\n\nTo repeat it in full:\n\n" * 4} for row in rows]
signs = sum(len(row["text"]) for row in long) / len(long)
print(f"\nlong answers: {1e6 * seconds_each(long):.0f} microseconds an answer of {signs:.0f} characters")

if (folder := DATASETS / "counselingbench" / "outputs_t").is_dir():
    told = answer_forms.recorded_counselingbench(folder)
    other = told[told["ours"] != told["theirs"]]
    print(f"\nCounselingBench: {len(other)} of {len(told)} read otherwise")
    print(other.groupby(["run", "said", "theirs", "ours"])["id"].agg(list).to_string())
if (folder := DATASETS / "mentat").is_dir() and (password := os.environ.get("MHBENCH_MENTAT_PASSWORD")):
    told = answer_forms.recorded_mentat(folder, password)
    other = told[told["ours"] != told["theirs"]]
    print(f"\nMENTAT: {len(other)} of {len(told)} read otherwise")
    print(other[["id", "category", "theirs", "ours"]].to_string(index=False))
    print(told.groupby("category")[["theirs_right", "ours_right"]].mean().round(3).to_string())
