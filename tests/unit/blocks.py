"""The blocks of Markdown files that are marked to run, and programs among them run as processes."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from freight_exchange.sandbox import FAULTS, Account, Exchange, Fault
from freight_exchange.sandbox.faces.tcp import serve_tcp

__all__ = ["ROOT", "blocks_of", "compiled", "environment_of", "run_against_a_server", "run_program"]

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"<!-- run: (?P<how>[a-z, ]+) -->\n```python(?: title=\"[^\"]+\")?\n(?P<code>.*?)```", re.DOTALL)
PATIENCE = 60.0

Printed = list[tuple[object, ...]]


def blocks_of(page: Path) -> list[tuple[list[str], str]]:
    """Each block of the page that is marked, with the words of its mark.

    Raises:
        AssertionError: A block of Python is neither marked nor a file, which has tests of its own.
    """
    text = page.read_text()
    blocks = [(match["how"].split(", "), match["code"]) for match in BLOCK.finditer(text)]
    files = len(re.findall(r"```python(?: title=\"[^\"]+\")?\n *--8<--\n", text))
    assert len(blocks) + files == text.count("```python")
    return blocks


def compiled(code: str, page: Path, names: dict[str, Any] | None = None) -> Callable[[Callable[..., None]], Any]:
    """The block as an async function that prints through its argument."""
    source = f"async def block(print):\n{textwrap.indent(code, '    ')}"
    namespace = dict(names or {})
    exec(compile(source, str(page), "exec"), namespace)  # the page is ours
    return namespace["block"]  # type: ignore[no-any-return]  # made by the line above


def environment_of(url: str, account: Account) -> dict[str, str]:
    """What names the exchange and the account to a program."""
    return {
        "FREIGHT_EXCHANGE_URL": url,
        "FREIGHT_EXCHANGE_EMAIL": account.email,
        "FREIGHT_EXCHANGE_PASSWORD": account.password,
    }


async def run_against_a_server(code: str, page: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Exchange, Printed]:
    """Run a block whose client takes everything from the environment, which names a server; what the block waits for, a
    second party does. What happened at the exchange, and what the block printed."""
    exchange = Exchange()
    printed: Printed = []
    account = exchange.shipper if "offers" in code else exchange.forwarder

    def an_offer_comes_in(exchange: Exchange, now: float) -> None:
        newest = exchange.newest_open()
        assert newest is not None
        exchange.offer(exchange.rival, newest, now)

    if "publish" in code:
        exchange.faults.add(Fault(name="an offer", path="quote/offer", change=an_offer_comes_in))
    elif "watch" in code:
        exchange.faults.add(
            Fault(
                name="a request",
                path="quote/getrequests",
                skip=1,
                change=lambda exchange, now: exchange.touch(exchange.publish(exchange.shipper, now), now),
            )
        )
        code = code.replace("timedelta(seconds=30)", "timedelta(seconds=1)")
    else:
        exchange.publish(exchange.shipper, time.time())
    if "except OutcomeUnknownError as error" in code:
        exchange.faults.add(*FAULTS["reset_after_processing"](path="quote/submitoffer"))
    if "except TimeoutError" in code:
        exchange.faults.add(*FAULTS["slow"](path="quote/submitoffer", seconds=0.8))
        code = code.replace("fail_after(3)", "fail_after(0.5)")
    if "Retry()" in code:
        exchange.faults.add(*FAULTS["reset_after_send"](path="quote/getrequests", times=2))

    async with serve_tcp(exchange) as face:
        for name, value in environment_of(face.url, account).items():
            monkeypatch.setenv(name, value)
        with anyio.CancelScope() as scope:

            def note(*values: object) -> None:
                printed.append(values)
                if "watch" in code:
                    scope.cancel()

            await compiled(code, page)(note)
    return exchange, printed


async def run_program(code: str, folder: Path) -> tuple[int, str]:
    """Run a bot that is a program of its own, as it stands, on the store `bot.db`: it begins, it is stopped, a request
    is published, it begins again and offers, and is stopped again.

    Returns:
        How many offers there are in the end, and what the program wrote to standard error.
    """
    exchange = Exchange()
    async with serve_tcp(exchange) as face:
        environment = os.environ | environment_of(face.url, exchange.forwarder)
        with _program(code, folder, environment) as program:
            await _until(program, lambda: _has_begun(folder / "bot.db"))
            first = await _stopped(program)
        exchange.publish(exchange.shipper, time.time())
        with _program(code, folder, environment) as program:
            await _until(program, lambda: bool(exchange.audit_log.offers))
            second = await _stopped(program)
    return len(exchange.audit_log.offers), first + second


@contextmanager
def _program(code: str, folder: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-W", "error", "-c", code]
    with subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True) as program:
        try:
            yield program
        finally:
            program.kill()


async def _until(program: subprocess.Popen[str], true: Callable[[], bool]) -> None:
    with anyio.fail_after(PATIENCE):
        while not true():
            assert program.poll() is None, program.communicate()[1]
            await anyio.sleep(0.02)


async def _stopped(program: subprocess.Popen[str]) -> str:
    program.send_signal(signal.SIGTERM)
    _, said = await anyio.to_thread.run_sync(lambda: program.communicate(timeout=PATIENCE))
    assert program.returncode == 0, said
    return said


def _has_begun(store: Path) -> bool:
    """Whether the first complete scan is kept: what is published from now on is new."""
    if not store.exists():
        return False
    try:
        with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as connection:
            return any('"primed":true' in (state or "") for (state,) in connection.execute("SELECT state FROM feed"))
    except sqlite3.OperationalError:
        return False
