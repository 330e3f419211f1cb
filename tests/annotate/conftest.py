"""Studies of every kind with texts that tell apart, a real server process, and a real browser."""

import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import yaml
from aiohttp import web

from mhbench.annotate.assignment import enrol
from mhbench.annotate.export import ratings
from mhbench.annotate.server import make_app
from mhbench.annotate.sources import study_of
from mhbench.annotate.store import open_store
from mhbench.records.schema import Item, write_records

CANARY = "synthetic: written for this test"
OPTIONS = ["Ask about safety first", "Refer at once", "Wait and see", "Call the family", "Start a medicine"]
ANSWERS = {"m1": "Lithium, after a test of the kidneys", "m2": "A longer talk. Then rest.", "m3": "Nothing at all"}
ENTRIES = {
    "sliders": {"kind": "sliders"},
    "labels": {"kind": "labels"},
    "agree": {"kind": "agree"},
    "errors": {"kind": "errors", "models": ["m2"], "errors": {"knowledge": "Wrong facts.", "logical": "A wrong step."}},
    "duel": {
        "kind": "duel",
        "models": ["m1", "m2"],
        "axes": {"harm": "Which does less harm?", "bias": "Which is fairer?"},
    },
    "score": {"kind": "score", "anchors": {"0": "Wrong", "100": "Right"}},
    "yes_no": {"kind": "yes_no", "asks": {"relevant": "Is it relevant?", "clear": "Is it clear?"}},
}


def items(n: int) -> list[Item]:
    return [
        Item(
            item_id=f"q{k}",
            study="example",
            task="multiple_choice",
            question=f"Question number {k}: what comes first?",
            options=OPTIONS,
            key=["B"],
            context={"History": f"Somebody, case {k}, sleeps badly."},
            source="synthetic",
            canary=CANARY,
        )
        for k in range(1, n + 1)
    ]


class Served:
    "A study in a folder, with its raters' tokens, and a server process that can be killed and started again."

    def __init__(self, folder: Path, entry: dict, raters=("r1",), n_items: int = 2, all_items=None, prefix: str = ""):
        found = items(n_items) if all_items is None else all_items
        write_records(found, folder / "items.parquet", Item)
        said = [{"item_id": i.item_id, "model": m, "text": t} for i in found for m, t in ANSWERS.items()]
        judged = entry["kind"] in ("labels", "errors", "duel", "score")
        whole = {"corpus": {"loader": "items", "path": "items.parquet"}} | ({"answers": said} if judged else {}) | entry
        self.file, self.answers, self.process, self.prefix = (
            folder / "study.yaml",
            folder / "example.sqlite",
            None,
            prefix,
        )
        self.loop = None
        self.file.write_text(yaml.safe_dump(whole, allow_unicode=True), encoding="utf-8")
        self.study = study_of("example", whole, folder)
        with open_store(self.answers, self.study) as store:
            self.tokens = enrol(store, self.study, raters)
            self.tokens |= enrol(store, self.study, ["boss"], role="owner")
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]

    def link(self, rater: str, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{self.prefix}/in/{self.tokens[rater]}"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{self.prefix}"

    def start(self) -> "Served":
        "In a thread of this process, which takes no time; `start_process` is for a server that is to be killed."
        self.loop, started = asyncio.new_event_loop(), threading.Event()

        async def serve():
            self.runner = web.AppRunner(make_app(self.answers, prefix=self.prefix), access_log=None)
            await self.runner.setup()
            await web.TCPSite(self.runner, "127.0.0.1", self.port).start()
            started.set()

        def run():
            self.loop.run_until_complete(serve())
            self.loop.run_forever()

        threading.Thread(target=run, daemon=True).start()
        assert started.wait(20)
        return self

    def start_process(self, **more) -> "Served":
        code = "import sys; from mhbench.run.cli import main; sys.exit(main())"
        words = ["annotate", "serve", "example", "--file", self.file, "--answers", self.answers, "--port", self.port]
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, *map(str, words)], stdout=subprocess.DEVNULL, **more
        )
        until = time.monotonic() + 60
        while time.monotonic() < until:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return self
            assert self.process.poll() is None, "the server ended"
            time.sleep(0.05)
        raise AssertionError("the server did not start")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process = None

    def stop(self) -> None:
        if self.process is not None:
            self.kill()
        if self.loop is not None:
            asyncio.run_coroutine_threadsafe(self.runner.cleanup(), self.loop).result(20)
            self.loop.call_soon_threadsafe(self.loop.stop)
            self.loop = None

    def ratings(self) -> dict[tuple, float | str]:
        "(rater, item, target) -> what was answered."
        with open_store(self.answers) as store:
            return {
                (r.rater, r.item_id, r.target): r.label if r.value is None else r.value for r in ratings(store).ratings
            }


@pytest.fixture
def serve(tmp_path):
    "A function that serves a study; every server is stopped at the end."
    running = []

    def start(entry, raters=("r1",), process=False, **more) -> Served:
        folder = tmp_path / f"study{len(running)}"
        folder.mkdir()
        running.append(Served(folder, entry, raters, **more))
        return running[-1].start_process() if process else running[-1].start()

    yield start
    for s in running:
        s.stop()


FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    " --disable-component-update --disable-sync --disable-dev-shm-usage --force-prefers-reduced-motion"
)


def started(folder: Path, preferences: dict | None = None):
    "A Chromium with a profile of its own; skips where it, its driver or selenium is absent."
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed: pip install selenium")
    driver, browser = shutil.which("chromedriver"), shutil.which("chromium")
    if not (driver and browser):
        pytest.skip("no chromium and chromedriver: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for flag in [*FLAGS.split(), f"--user-data-dir={folder}"]:
        options.add_argument(flag)
    options.add_experimental_option("prefs", preferences or {})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    from selenium.webdriver.chrome.service import Service

    return webdriver.Chrome(options=options, service=Service(driver))


@pytest.fixture(scope="session")
def chromium(tmp_path_factory):
    "One Chromium for the browser tests."
    driver = started(tmp_path_factory.mktemp("profile"))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def no_script(tmp_path_factory):
    "Another one in which JavaScript is switched off, as some hospitals have it."
    blocked = {"profile.default_content_setting_values.javascript": 2}
    driver = started(tmp_path_factory.mktemp("profile"), blocked)
    driver.set_window_size(360, 740)
    yield driver
    driver.quit()


@pytest.fixture
def browser(chromium):
    "The browser as a phone of 360 pixels, with nothing kept from the test before."
    chromium.execute_cdp_cmd("Network.enable", {})
    chromium.execute_cdp_cmd("Network.clearBrowserCookies", {})
    chromium.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": False}
    )
    chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    chromium.get_log("browser")
    yield chromium
    for extra in chromium.window_handles[1:]:
        chromium.switch_to.window(extra)
        chromium.close()
    chromium.switch_to.window(chromium.window_handles[0])
    chromium.get("about:blank")


@pytest.fixture(scope="session")
def axe(request) -> str:
    "The script of axe-core, fetched once by npm into pytest's cache; skipped where npm cannot."
    folder = Path(request.config.cache.mkdir("axe-core"))
    script = folder / "package" / "axe.min.js"
    if not script.exists():
        if shutil.which("npm") is None:
            pytest.skip("npm is not installed, so that axe-core cannot be fetched")
        quiet = {**os.environ, "npm_config_update_notifier": "false"}
        done = subprocess.run(
            ["npm", "pack", "axe-core@4"], cwd=folder, env=quiet, capture_output=True, text=True, timeout=60
        )
        if done.returncode:
            pytest.skip(f"npm pack axe-core failed: {done.stderr.splitlines()[-1] if done.stderr else done.returncode}")
        shutil.unpack_archive(folder / done.stdout.split()[-1], folder, "gztar")
    return script.read_text(encoding="utf-8")
