"""A real browser, the sandbox's command as a process, and a bot as another."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import attrs
import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "microsoft-edge")
MISSING = (
    "No Chromium is here to test the board in: install one (Debian, Ubuntu: apt install chromium; Fedora: dnf install"
    " chromium; macOS: brew install chromium), or name one: make browser CHROMIUM=/path/to/chromium"
)
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # No name is ever looked up.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)
TIMEOUT = 30.0

expect.set_options(timeout=TIMEOUT * 1000)


def _chromium() -> str:
    named = os.environ.get("CHROMIUM", "")
    found = shutil.which(named) if named else next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.exit(MISSING if not named else f"CHROMIUM is {named}, and that is not a program here.", returncode=1)
    return found


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_chromium(), args=FLAGS)
        yield browser
        browser.close()


@attrs.define
class Served:
    """`freight-exchange sandbox` as a process."""

    board: str
    url: str
    process: subprocess.Popen[str]

    @property
    def port(self) -> int:
        port = urlsplit(self.url).port
        assert port is not None
        return port

    def state(self) -> Any:
        """Return the state that the page receives."""
        return httpx.get(f"{self.board}/state?after=0", trust_env=False).raise_for_status().json()

    def ask(self, what: str, **values: object) -> None:
        """Send a call to the exchange, without the page."""
        origin = self.board.removesuffix("/board")
        httpx.post(f"{self.board}/{what}", json=values, headers={"origin": origin}, trust_env=False).raise_for_status()

    def examples(self, count: int, *, first: int = 0) -> None:
        """Publish this many examples, without the page."""
        samples = httpx.get(f"{self.board}/catalogue", trust_env=False).json()["samples"]
        for number in range(first, first + count):
            self.ask("requests", **samples[number % len(samples)])

    @contextmanager
    def client(self, who: str) -> Iterator[httpx.Client]:
        """Make an HTTP client that is logged in, and has none of the checks of the SDK."""
        with httpx.Client(base_url=self.url, trust_env=False) as client:
            login = client.post("/login", json={"email": f"{who}@demo.example", "password": who}).raise_for_status()
            client.headers["authorization"] = f"Bearer {login.json()['user']['access_token']}"
            yield client


Serve = Callable[..., Served]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start the command with these arguments."""
    processes: list[subprocess.Popen[str]] = []

    def start(*arguments: str, port: int = 0) -> Served:
        command = [sys.executable, "-m", "freight_exchange.cli", "sandbox", "--json", "--port", str(port), *arguments]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        processes.append(process)
        assert process.stdout is not None
        reported = json.loads(process.stdout.readline())
        return Served(reported["board"], reported["url"], process)

    yield start
    for process in processes:
        process.kill()
        process.communicate()


@pytest.fixture
def served(serve: Serve) -> Served:
    return serve()


@contextmanager
def bot_at(served: Served, folder: Path) -> Iterator[Path]:
    """Run a forwarder's bot; yield the file that it logs to."""
    log = folder / "bot.log"
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
        "FREIGHT_EXCHANGE_URL": served.url,
        "FREIGHT_EXCHANGE_EMAIL": "forwarder@demo.example",
        "FREIGHT_EXCHANGE_PASSWORD": "forwarder",
    }
    with log.open("w") as out:
        command = [sys.executable, "-m", "tests.browser.quick_bot", str(folder / "bot.db")]
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=environment, cwd=ROOT)
        try:
            yield log
            assert process.poll() is None, log.read_text()
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(TIMEOUT)


@pytest.fixture
def bot(served: Served, tmp_path: Path) -> Iterator[Path]:
    with bot_at(served, tmp_path) as log:
        yield log


@attrs.define
class Window:
    """Page of a browser, with the errors that occurred in it and the requests that left the machine."""

    page: Page
    complaints: list[str]
    requested: list[str]

    def forgive(self, words: str) -> None:
        """Clear the page's errors that a test provoked."""
        self.complaints[:] = [complaint for complaint in self.complaints if words not in complaint]


OpenWindow = Callable[..., Window]


@pytest.fixture
def open_window(browser: Browser) -> Iterator[OpenWindow]:
    """Open the board. At the end, check that the page had no error, and sent no request to another machine."""
    contexts: list[BrowserContext] = []
    windows: list[Window] = []

    def open_one(url: str, *, width: int = 1440, height: int = 900, **options: Any) -> Window:
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        window = Window(context.new_page(), [], [])
        windows.append(window)

        def received(message: ConsoleMessage) -> None:
            if message.type in {"error", "warning"}:
                window.complaints.append(message.text)

        window.page.on("console", received)
        window.page.on("pageerror", lambda error: window.complaints.append(str(error)))
        window.page.on("dialog", lambda dialog: window.complaints.append(f"a dialog: {dialog.message}"))
        context.on("request", lambda request: window.requested.append(request.url))
        window.page.goto(url)
        expect(window.page.locator("#link-words")).to_have_text("Live")
        return window

    yield open_one
    for context in contexts:
        context.close()
    for window in windows:
        assert window.complaints == []
        assert {urlsplit(url).hostname for url in window.requested} == {"127.0.0.1"}


@pytest.fixture
def window(served: Served, open_window: OpenWindow) -> Window:
    return open_window(served.board)


def until(true: Callable[[], bool]) -> None:
    ends = time.monotonic() + TIMEOUT
    while not true():
        assert time.monotonic() < ends, "it never came to that"
        time.sleep(0.05)
