"""Scenarios at the sandbox while a snippet runs."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import anyio
from tools.snippets.environments import Interpreter, Process
from tools.snippets.pages import PAGES, Snippet, snippets_of
from tools.snippets.proxy import serve_proxy

from freight_sandbox import FAULTS, Account, Exchange, Fault
from freight_sandbox.samples import samples
from freight_sandbox.server import serve

__all__ = ["Outcome", "environment_of", "run_page"]

_TIMEOUT: Final = 100.0
_SUBMIT: Final = "quote/submitoffer"


@dataclass(frozen=True)
class Outcome:
    """Result of one snippet.

    Attributes:
        snippet: The snippet.
        output: Output of the snippet.
        problem: Problem, or an empty text.
    """

    snippet: Snippet
    output: str
    problem: str


def environment_of(url: str, account: Account) -> dict[str, str]:
    """Return the variables that name the exchange and the account to a program."""
    return {
        "FREIGHT_EXCHANGE_URL": url,
        "FREIGHT_EXCHANGE_EMAIL": account.email,
        "FREIGHT_EXCHANGE_PASSWORD": account.password,
    }


async def run_page(page: Path, interpreter: Interpreter, folder: Path) -> list[Outcome]:
    """Save and run each snippet of a page, each program in a separate folder; `pytest` runs the tests together."""
    snippets = snippets_of(page)
    outcomes = [
        await _run_program(snippet, _saved(snippets, folder / str(number), snippet), interpreter)
        for number, snippet in enumerate(snippets)
        if snippet.way in ("program", "bot", "watcher")
    ]
    tests = [snippet for snippet in snippets if snippet.way == "test"]
    if tests:
        outcomes += await _run_tests(tests, _saved(snippets, folder / "tests", *tests), interpreter)
    for snippet in snippets:
        if snippet.way == "recorded":
            outcomes += await _run_recorded(snippet, _saved(snippets, folder / "recorded", snippet), interpreter)
    return outcomes


def _saved(snippets: list[Snippet], folder: Path, *wanted: Snippet) -> Path:
    """Save the wanted snippets, and those that others import, in a new folder."""
    folder.mkdir(parents=True)
    others = [snippet for snippet in snippets if snippet.way == "saved"]
    # A block may continue a file of another page, which it links to.
    others += [
        snippet
        for page in PAGES
        for snippet in snippets_of(page)
        if any(f"from {snippet.name.removesuffix('.py')} import " in one.code for one in wanted)
    ]
    for snippet in [*wanted, *others]:
        (folder / snippet.name).write_text(snippet.code)
    return folder


async def _run_recorded(snippet: Snippet, folder: Path, interpreter: Interpreter) -> list[Outcome]:
    """Record the test against an exchange, and replay it without one; the recording holds no password and no token."""
    exchange = Exchange()
    _publish_samples(exchange)
    account = exchange.forwarder
    async with serve(exchange) as face:
        environment = environment_of(face.url, account)
        (outcome,) = await _run_tests([snippet], folder, interpreter, environment)
    if outcome.problem:
        return [outcome]
    (cassette,) = (path.read_text() for path in (folder / "cassettes").iterdir())
    if any(secret in cassette for secret in ("password", *exchange.tokens)):
        return [Outcome(snippet, cassette, "a secret is recorded")]
    return await _run_tests([snippet], folder, interpreter)


async def _run_tests(
    tests: list[Snippet], folder: Path, interpreter: Interpreter, environment: Mapping[str, str] | None = None
) -> list[Outcome]:
    command = ["-m", "pytest", "-p", "no:cacheprovider"]
    process = interpreter.start(command, folder, environment or {}, folder / "output.txt")
    status = await _wait(process)
    output = (folder / "output.txt").read_text()
    complete = all(f"{test.name} ." in output for test in tests)
    problem = "" if status == 0 and complete and "warning" not in output else f"exit status {status}"
    return [Outcome(test, output, problem) for test in tests]


async def _run_program(snippet: Snippet, folder: Path, interpreter: Interpreter) -> Outcome:
    output = folder / "output.txt"
    output.touch()
    if {"forwarder", "shipper"} & {*snippet.marks}:
        problem = await _with_exchange(snippet, folder, interpreter)
    else:
        status = await _wait(interpreter.start([snippet.name], folder, {}, output))
        problem = "" if status == 0 else f"exit status {status}"
    printed = output.read_text()
    if not printed:
        problem = problem or "nothing is printed"
    if "Traceback" in printed or "Warning" in printed:
        problem = problem or "a traceback or a warning is printed"
    return Outcome(snippet, printed, problem)


async def _with_exchange(snippet: Snippet, folder: Path, interpreter: Interpreter) -> str:
    """Run a program against an exchange that the environment names; return the problem, or an empty text."""
    exchange = Exchange()
    _prepare(exchange, snippet)
    account = exchange.shipper if "shipper" in snippet.marks else exchange.forwarder
    output = folder / "output.txt"

    def start(environment: dict[str, str]) -> Process:
        return interpreter.start([snippet.name], folder, environment, output)

    async with serve(exchange) as face, serve_proxy() as (proxy, targets):
        environment = environment_of(face.url, account) | {"COMPANY_PROXY": proxy}
        if snippet.way == "bot":
            status = await _stop_when(start(environment), lambda: bool(exchange.audit_log.offers))
        elif snippet.way == "watcher":
            status = await _stop_when(start(environment), lambda: bool(output.read_text()))
            status = 0 if status == -signal.SIGTERM else status
        else:
            status = await _wait(start(environment))
    if status != 0:
        return f"exit status {status}"
    if snippet.way == "bot" and not exchange.audit_log.offers:
        return "no offer was made"
    if exchange.audit_log.duplicate_offers():
        return "an offer was made twice"
    if "proxy" in snippet.marks and [urlsplit(target).path for target in targets] != ["/api/login", "/api/carrier"]:
        return f"the proxy was asked for {targets}"
    if {"lost answer", "slow answer"} & {*snippet.marks} and not exchange.audit_log.offers:
        return "no offer was made"
    return ""


def _prepare(exchange: Exchange, snippet: Snippet) -> None:
    """Publish a request, and arm the faults that the marks name."""
    _publish_samples(exchange)
    if "lost answer" in snippet.marks:
        exchange.faults.add(*FAULTS["reset_after_processing"](path=_SUBMIT))
    if "slow answer" in snippet.marks:
        exchange.faults.add(*FAULTS["slow"](path=_SUBMIT, seconds=3))
    if "failed scan" in snippet.marks:
        exchange.faults.add(*FAULTS["reset_after_send"](path="quote/getrequests", times=2))
    if "an offer comes" in snippet.marks:
        for path in ("quote/offer", "quote/getoffers"):
            exchange.faults.add(Fault(name="an offer", path=path, change=_offer_on_newest))


def _publish_samples(exchange: Exchange) -> None:
    """Publish the same requests as `freight-exchange sandbox --requests 5`."""
    for cargo in samples(5, now := time.time()):
        exchange.act(exchange.shipper, "POST", "quote/submitrequest", cargo, now)


def _offer_on_newest(exchange: Exchange, now: float) -> None:
    newest = exchange.newest_open()
    assert newest is not None
    exchange.offer(exchange.rival, newest, now)


async def _wait(process: Process) -> int:
    """Wait for the end of a process, which is killed when it takes too long."""
    status = -signal.SIGKILL
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_kill_later, process)
        status = await anyio.to_thread.run_sync(process.wait)
        tasks.cancel_scope.cancel()
    return status


async def _kill_later(process: Process) -> None:
    await anyio.sleep(_TIMEOUT)
    process.stop(signal.SIGKILL)


async def _stop_when(process: Process, ready: Callable[[], bool]) -> int:
    """Send SIGTERM when the program is ready, or when it takes too long, and return its exit status."""
    with anyio.move_on_after(_TIMEOUT):
        while not ready():  # noqa: ASYNC110  # another process gets ready
            await anyio.sleep(0.02)
    process.stop(signal.SIGTERM)
    return await _wait(process)
