"""Ask a mock endpoint through mhbench.ask exactly as the generate stage does, and say how long it took.

    python benchmarks/client_mock.py --base-url http://127.0.0.1:8099/v1 --items items.jsonl --n 2000 --concurrency 64
    --out out.jsonl [--cache FILE]

Items are JSON lines with id, question, choices (four) and answer (a letter). The answers are written to --out as they
come, one JSON line
each, and kept in the cache: --cache FILE keeps it there (run again to replay), without it the cache is a file beside
--out. --n may exceed the
number of items: they are then asked again under new sample indices, so that every request is its own.
The last line is JSON: eval_wall_s (from the first request built to the last answer written), acc, asked, cached,
failed, items_per_s, cpu_us_per_item
(of that phase; start-up, in which `openai` is imported, is left out, as in the peers' clients), rss_mb.
"""

import argparse
import dataclasses
import itertools
import json
import resource
import time

import aiohttp  # noqa: F401  # where something is asked, mhbench imports these at the first request
from openai import AsyncOpenAI, DefaultAioHttpClient  # noqa: F401

from mhbench.ask.cache import Cache
from mhbench.ask.client import ask
from mhbench.ask.request import Answer, Endpoint, Model, Request

FIELDS = [f.name for f in dataclasses.fields(Answer) if f.compare]  # those that the cache keeps
PROMPT = "{question}\nA. {0}\nB. {1}\nC. {2}\nD. {3}\nReply with the letter only."


def requests(items: list[dict], n: int):
    "n requests; beyond the number of items the same ones under the next sample index."
    for i, item in zip(range(n), itertools.cycle(items)):
        text = PROMPT.format(*item["choices"], question=item["question"])
        yield Request(
            f"{item['id']}-{i // len(items)}",
            [{"role": "user", "content": text}],
            sample=i // len(items),
            letters=["A", "B", "C", "D"],
        )


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--base-url", required=True)
    p.add_argument("--items", required=True)
    p.add_argument("--out", required=True)
    p.add_argument("--n", type=int, default=2000)
    p.add_argument("--concurrency", type=int, default=64)
    p.add_argument("--cache", help="keep the answers here; run again to replay them")
    p.add_argument("--patience", type=float, default=900, help="seconds that a request may be put off by 429")
    a = p.parse_args()
    endpoint = Endpoint(
        name="mock",
        base_urls=[a.base_url],
        identity="mock",
        concurrency=a.concurrency,
        top_logprobs=5,
        patience_s=a.patience,
    )
    model = Model(
        name="mock-model",
        endpoint="mock",
        served="mock-model",
        sampling={"temperature": 0.0, "max_tokens": 8},
        price={"prompt": 0.15, "completion": 0.6},
    )
    with open(a.items) as f:
        items = [json.loads(line) for line in itertools.islice(f, a.n)]
    gold = {str(item["id"]): item["answer"] for item in items}
    cache = Cache(a.cache or a.out + ".cache.sqlite")
    right = n = cached = failed = 0
    encode = json.JSONEncoder(ensure_ascii=False).encode
    began, cpu = time.perf_counter(), time.process_time()
    with open(a.out, "w", encoding="utf-8") as out:
        for answer in ask(requests(items, a.n), model, endpoint, cache=cache, progress=False):
            out.write(encode({name: getattr(answer, name) for name in FIELDS}) + "\n")
            n += 1
            cached += answer.cached
            failed += answer.status != "ok"
            right += (answer.text or "").strip()[:1] == gold[answer.id.rsplit("-", 1)[0]]
    wall, cpu = time.perf_counter() - began, time.process_time() - cpu
    cache.close()
    print(
        json.dumps(
            {
                "eval_wall_s": wall,
                "acc": right / n,
                "asked": n - cached,
                "cached": cached,
                "failed": failed,
                "items_per_s": round(n / wall),
                "cpu_us_per_item": round(1e6 * cpu / n, 1),
                "rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
            }
        )
    )


if __name__ == "__main__":
    main()
