"""A real browser, the sandbox's command as a process, and a bot as another."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
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
# No name is ever looked up.
FLAGS = ("--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")
TIMEOUT = 30.0

expect.set_options(timeout=TIMEOUT * 1000)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    program = next(filter(None, map(shutil.which, (os.environ.get("CHROMIUM") or NAMES[0], *NAMES))), None)
    if program is None:
        pytest.exit(MISSING, returncode=1)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


@attrs.define
class Served:
    """`freight-exchange sandbox` as a process."""

    board: str
    url: str
    process: subprocess.Popen[str]

    def ask(self, what: str, **values: object) -> None:
        """Act on the board without the page."""
        origin = self.board.removesuffix("/board")
        httpx.post(f"{self.board}/{what}", json=values, headers={"origin": origin}, trust_env=False).raise_for_status()

    def offer(self, *requests: int) -> None:
        """Log in as a careless forwarder, and make equal offers on these requests."""
        with httpx.Client(base_url=self.url, trust_env=False) as client:
            login = client.post("/login", json={"email": "forwarder@demo.example", "password": "forwarder"})
            client.headers["authorization"] = f"Bearer {login.json()['user']['access_token']}"
            for request in requests:
                client.post("/quote/submitoffer", json={"requestIndex": request, "offer": 900, "currencyIndex": 840})
            client.post("/nowhere", json={})


Serve = Callable[..., Served]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start the command with these arguments."""
    processes: list[subprocess.Popen[str]] = []

    def start(*arguments: str, port: int = 0) -> Served:
        command = [sys.executable, "-m", "freight_exchange", "sandbox", "--json", "--port", str(port), *arguments]
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
    return serve("--requests", "3")


@pytest.fixture
def bot(served: Served, tmp_path: Path) -> Iterator[Path]:
    """Run a forwarder's bot; yield the file that it logs to."""
    log = tmp_path / "bot.log"
    login = {"EMAIL": "forwarder@demo.example", "PASSWORD": "forwarder", "URL": served.url}
    environment = os.environ | {f"FREIGHT_EXCHANGE_{name}": value for name, value in login.items()}
    command = [sys.executable, "-m", "tests.browser.quick_bot", str(tmp_path / "bot.db")]
    with log.open("w") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=subprocess.STDOUT, env=environment | {"PYTHONPATH": str(ROOT)}, cwd=ROOT
        )
        yield log
        assert process.poll() is None, log.read_text()
        process.send_signal(signal.SIGTERM)
        process.wait(TIMEOUT)


OpenPage = Callable[..., Page]


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Open the board. At the end, check that the page had no error, and sent no request to another machine."""
    contexts: list[BrowserContext] = []
    complaints: list[str] = []
    hosts: set[str | None] = set()

    def open_one(url: str, *, width: int = 1280, height: int = 860, **options: Any) -> Page:
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page = context.new_page()

        def received(message: ConsoleMessage) -> None:
            # A lost connection is a part of the story.
            if message.type in {"error", "warning"} and "net::ERR_" not in message.text:
                complaints.append(message.text)

        page.on("console", received)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(f"a dialog: {dialog.message}"))
        context.on("request", lambda request: hosts.add(urlsplit(request.url).hostname))
        page.goto(url)
        expect(page.locator("#link-words")).to_have_text("Live")
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert complaints == []
    assert hosts == {"127.0.0.1"}
