"""The client against its bars and its peers, all in one run; prints tables and ratios.

    python benchmarks/client.py --bench FOLDER [--peer-python PYTHON] [--repeat 3] [--only speed,replay,crash,push-
    back,memory]

FOLDER holds a mock endpoint and clients of the peers: mock_server.py (--port, --delay, --fail-every; GET /stats,
/reset), make_items.py, client_inspect.py, client_lmeval.py, client_openai.py and client_aiohttp.py (base_url items n
concurrency out). PYTHON is an interpreter that has what they need (uvicorn uvloop httptools openai[aiohttp] inspect_ai
lm-eval[api]); mhbench runs under this one. Peers that are not installed are left out and named.
"""

import argparse
import asyncio
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
p.add_argument("--bench", required=True, type=Path)
p.add_argument("--peer-python", default=sys.executable)
p.add_argument("--repeat", type=int, default=3)
p.add_argument("--port", type=int, default=8099)
p.add_argument("--n", type=int, default=2000)
p.add_argument("--concurrency", type=int, default=64)
p.add_argument("--delay", type=float, default=0.05, help="seconds that an answer takes in the test of speed")
p.add_argument("--many", type=int, default=200_000, help="items of the memory test")
p.add_argument("--only", default="speed,replay,crash,push-back,memory")
a = p.parse_args()
a.bench = a.bench.resolve()
WORK = Path(tempfile.mkdtemp(prefix="client-bench-"))
BASE = f"http://127.0.0.1:{a.port}"
get = lambda path: json.load(urllib.request.urlopen(BASE + path, timeout=10))


@contextmanager
def mock(*more):
    server = subprocess.Popen([a.peer_python, str(a.bench / "mock_server.py"), "--port", str(a.port), *map(str, more)])
    try:
        for _ in range(200):
            try:
                get("/stats")
                break
            except OSError:
                time.sleep(0.05)
        yield
    finally:
        server.terminate()
        server.wait()


def ours(n, out, cache=None):
    return [
        sys.executable,
        str(HERE / "client_mock.py"),
        "--base-url",
        f"{BASE}/v1",
        "--items",
        str(WORK / "items.jsonl"),
        "--n",
        str(n),
        "--concurrency",
        str(a.concurrency),
        "--out",
        str(WORK / out),
        *(["--cache", str(WORK / cache)] if cache else []),
    ]


def peer(script, out):
    return [
        a.peer_python,
        str(WORK / script),
        f"{BASE}/v1",
        str(WORK / "items.jsonl"),
        str(a.n),
        str(a.concurrency),
        str(WORK / out),
    ]


def timed(command):
    "Run a client alone: wall, CPU of its process tree, peak memory, its last line of JSON, and what the server saw."
    get("/reset")
    env = (
        {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])}
        if command[0] == sys.executable
        else os.environ
    )
    began = time.perf_counter()
    with open(WORK / "stdout", "w") as out, open(WORK / "stderr", "w") as err:
        child = subprocess.Popen(command, stdout=out, stderr=err, stdin=subprocess.DEVNULL, cwd=WORK, env=env)
        _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    lines, said = (WORK / "stdout").read_text().strip().splitlines(), {}
    for line in reversed(lines[-3:]):
        try:
            said = json.loads(line)
            break
        except ValueError:
            pass
    return {
        "wall": time.perf_counter() - began,
        "cpu": usage.ru_utime + usage.ru_stime,
        "rss": usage.ru_maxrss / 1024,
        "rc": child.returncode,
        "server": get("/stats"),
        "said": said if isinstance(said, dict) else {},
    }


def speed():
    limit = a.n * a.delay / a.concurrency
    clients = {
        "mhbench": ours(a.n, "mhbench.jsonl"),
        "openai": [*peer("client_openai.py", "openai"), "aiohttp"],
        "aiohttp": peer("client_aiohttp.py", "aiohttp"),
        "lm-eval": peer("client_lmeval.py", "lmeval"),
        "inspect_ai": peer("client_inspect.py", "inspect"),
    }
    runs = {c: [] for c in clients}
    with mock("--delay", a.delay):
        for _ in range(a.repeat):
            for c, command in clients.items():
                for f in WORK.glob("*.cache.sqlite*"):
                    f.unlink()
                runs[c].append(timed(command))
    good = {c: rs for c, rs in runs.items() if all(r["rc"] == 0 for r in rs)}
    print(
        f"\n## Speed: N = {a.n}, {a.concurrency} at once, {1000 * a.delay:g} ms: limit {limit:.3f} s."
        f" Medians of {a.repeat}, interleaved; items/s over the whole process.\n"
    )
    print("| client | items/s | request phase s | x limit | CPU ms/item | peak MB |\n|---|---|---|---|---|---|")
    m = lambda c, f: statistics.median(f(r) for r in good[c])
    for c in good:
        print(
            f"| {c} | {a.n / m(c, lambda r: r['wall']):.0f} | {m(c, lambda r: r['server']['window_s']):.2f} |"
            f" {m(c, lambda r: r['server']['window_s']) / limit:.2f} | {1000 * m(c, lambda r: r['cpu']) / a.n:.2f} |"
            f" {m(c, lambda r: r['rss']):.0f} |"
        )
    for c in runs.keys() - good.keys():
        print(
            f"\n{c} did not run here:"
            f" {(WORK / 'stderr').read_text()[-200:] if c == list(runs)[-1] else 'see --peer-python'}"
        )
    if "mhbench" in good:
        print(f"\nCPU of mhbench: {1000 * m('mhbench', lambda r: r['cpu']) / a.n:.2f} ms an item (bar 3)")
    for c, bar in (("lm-eval", 5), ("inspect_ai", 10)):
        if c in good:
            print(
                f"\nratio: mhbench / {c} = {m(c, lambda r: r['wall']) / m('mhbench', lambda r: r['wall']):.1f} in"
                f" items/s (bar {bar})"
            )


def replay():
    with mock("--delay", 0.05):
        timed(ours(a.n, "a.jsonl", "replay.sqlite"))
        runs = [timed(ours(a.n, "b.jsonl", "replay.sqlite")) for _ in range(a.repeat)]
    same = [{**json.loads(x), "cached": None} for x in open(WORK / "a.jsonl")] == [
        {**json.loads(x), "cached": None} for x in open(WORK / "b.jsonl")
    ]
    print(
        f"\n## Replay: {statistics.median(r['said']['items_per_s'] for r in runs)} items/s (bar 20,000;"
        f" {statistics.median(r['said']['cpu_us_per_item'] for r in runs):.0f} us of CPU an item, load"
        f" {os.getloadavg()[0]:.1f}), {sum(r['server']['requests'] for r in runs)} requests sent, the same answers:"
        f" {same}"
    )


def crash():
    print(
        "\n## SIGKILL at half of 1,000, then again\n\n| asked again (bar 64) | equal to an undisturbed run |\n|---|---|"
    )
    with mock("--delay", 0.05):
        timed(ours(1000, "whole.jsonl", "whole.sqlite"))
        for k in range(a.repeat):
            get("/reset")
            child = subprocess.Popen(
                ours(1000, "killed.jsonl", f"crash-{k}.sqlite"),
                stdout=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": str(HERE.parent)},
            )
            while get("/stats")["done"] < 500:
                time.sleep(0.01)
            child.send_signal(signal.SIGKILL)
            child.wait()
            time.sleep(0.5)
            done = get("/stats")["done"]
            again = timed(ours(1000, "again.jsonl", f"crash-{k}.sqlite"))
            strip = lambda f: [{**json.loads(x), "cached": None} for x in open(WORK / f)]
            print(f"| {again['server']['requests'] - (1000 - done)} | {strip('again.jsonl') == strip('whole.jsonl')} |")


def push_back():
    with mock("--delay", 0.05, "--fail-every", 2):
        half = timed(ours(a.n, "half.jsonl"))
    print(
        f"\n## Push-back\n\nevery second request 429 with Retry-After 1: {half['said']['asked']} of {a.n} answered,"
        f" {half['said']['failed']} failed, {half['wall']:.0f} s, {half['server']['requests']} requests"
    )
    wall = Wall(20.0)
    with wall:
        r = subprocess.run(
            [*ours(1000, "wall.jsonl"), "--base-url", wall.url],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(HERE.parent)},
        )
        said = json.loads(r.stdout.strip().splitlines()[-1])
    print(
        f"every request 429 for 20 s, with no Retry-After: {said['asked'] - said['failed']} of 1000 answered,"
        f" {said['failed']} failed, {said['eval_wall_s']:.0f} s, {wall.refused} requests met the wall"
    )


class Wall:
    "An endpoint on loopback that says 429 for the first seconds after the first request."

    def __init__(self, seconds):
        self.seconds, self.first, self.refused, self.loop = seconds, None, 0, asyncio.new_event_loop()

    async def handle(self, request):
        from aiohttp import web

        await request.read()
        self.first = self.first or time.monotonic()
        if time.monotonic() - self.first < self.seconds:
            self.refused += 1
            return web.json_response({"error": {"message": "rate limited"}}, status=429)
        return web.json_response(
            {
                "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "A"}}],
                "usage": {"prompt_tokens": 180, "completion_tokens": 1},
            }
        )

    async def start(self):
        from aiohttp import web

        app = web.Application()
        app.router.add_post("/v1/chat/completions", self.handle)
        self.runner = web.AppRunner(app, access_log=None)
        await self.runner.setup()
        site = web.TCPSite(self.runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}/v1"

    def __enter__(self):
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        asyncio.run_coroutine_threadsafe(self.start(), self.loop).result()

    def __exit__(self, *_):
        asyncio.run_coroutine_threadsafe(self.runner.cleanup(), self.loop).result()
        self.loop.call_soon_threadsafe(self.loop.stop)


def memory():
    with mock("--delay", 0):
        few, many = (timed(ours(n, f"many-{n}.jsonl")) for n in (a.many // 100, a.many))
    print(
        f"\n## Memory: {a.many:,} items at 0 ms: peak {many['rss']:.0f} MB (bar 400); {a.many // 100:,} items:"
        f" {few['rss']:.0f} MB; {many['said']['items_per_s']} items/s, {many['said']['failed']} failed"
    )


def main():
    for f in a.bench.glob("*.py"):
        shutil.copy(f, WORK / f.name)
    if (a.bench / "tasks").is_dir():
        shutil.copytree(a.bench / "tasks", WORK / "tasks", copy_function=shutil.copyfile)
        os.chmod(WORK / "tasks", 0o755)
    subprocess.run([a.peer_python, "make_items.py", str(a.n)], cwd=WORK, check=True, stdout=subprocess.DEVNULL)
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start")
    for name in a.only.split(","):
        {"speed": speed, "replay": replay, "crash": crash, "push-back": push_back, "memory": memory}[name]()
    shutil.rmtree(WORK, ignore_errors=True)


if __name__ == "__main__":
    main()
