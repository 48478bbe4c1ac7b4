"""Processes that are killed: forks of one that has loaded the package, so that each starts within milliseconds.

A program calls `serve_forks`; a trial starts it by `fork_server`, and orders a fork for each life of a bot. A fork is a
process with its own sockets and its own hold of the store.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import select
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from subprocess import PIPE
from typing import Any, Final

import anyio
import anyio.abc
from anyio.streams.buffered import BufferedByteReceiveStream

from freight_exchange import Bot

__all__ = ["TRANSIENT_FAULTS", "Forks", "KillAt", "fork_server", "run_bot", "serve_forks"]

_ROOT: Final = Path(__file__).parents[2]
_PRELOADED: Final = ("httpcore", "httpx", "freight_exchange.bot", "freight_exchange.testing")

TRANSIENT_FAULTS: Final = (
    *("reset_before_headers", "reset_after_send", "reset_after_processing", "reset_mid_reply", "fin_no_bytes"),
    *("truncated_length", "stall", "unavailable", "server_error", "server_error_after_commit", "bad_gateway"),
    *("html_200", "throttled_seconds"),
)
"""Faults of the exchange that a client survives without help."""


# In the program


class KillAt:
    """Failpoints that kill the process at the n-th visit of one of them; without a point, they do nothing."""

    def __init__(self, point: str | None, visit: int) -> None:
        self._point = point
        self._left = visit

    def __call__(self, point: str) -> None:
        self._left -= point == self._point
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def run_bot(make: Callable[[dict[str, Any], KillAt], Bot], orders: dict[str, Any]) -> None:
    """Run a bot with its log in a file, and kill it at the point of its orders, if they name one."""
    logging.basicConfig(
        filename=orders["log"], format="%(asctime)s %(process)s %(levelname)s %(message)s", level=logging.INFO
    )
    logging.getLogger("httpx").setLevel(logging.WARNING)
    failpoints = KillAt(orders["point"], orders["visit"])
    bot = make(orders, failpoints)
    if orders["point"] is None:
        bot.run(backend=orders["backend"])
    else:
        anyio.run(partial(bot.serve, failpoints=failpoints), backend=orders["backend"])


def serve_forks(live: Callable[[dict[str, Any]], None]) -> None:
    """Fork a process for each line of standard input, in which `live` runs with the order; print its birth and end."""
    for name in _PRELOADED:
        importlib.import_module(name)
    for backend in ("asyncio", "trio"):
        anyio.run(anyio.sleep, 0, backend=backend)
    orders, alive = b"", set[int]()
    while True:
        if select.select([0], [], [], 0.02)[0]:
            if not (data := os.read(0, 65536)):
                break
            orders += data
        while b"\n" in orders:
            line, orders = orders.split(b"\n", 1)
            if (born := os.fork()) == 0:
                live(json.loads(line))
                return
            alive.add(born)
            print(f"born {born}", flush=True)  # noqa: T201
        while alive and (ended := os.waitpid(-1, os.WNOHANG))[0]:
            alive.discard(ended[0])
            print(f"ended {ended[0]} {os.waitstatus_to_exitcode(ended[1])}", flush=True)  # noqa: T201
    # Nothing outlives a trial that fails.
    for process in alive:
        os.kill(process, signal.SIGKILL)


# In the trial


class Forks:
    """Client of a fork server."""

    def __init__(self, process: anyio.abc.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._orders = process.stdin
        self._replies = BufferedByteReceiveStream(process.stdout)
        self._born: list[int] = []
        self._ended: dict[int, int] = {}

    async def start(self, order: Mapping[str, Any]) -> int:
        """Start a process, and return its number."""
        await self._orders.send(f"{json.dumps(order)}\n".encode())
        known = len(self._born)
        while len(self._born) == known:
            await self._read()
        self._ended.pop(self._born[-1], None)
        return self._born[-1]

    async def end(self, process: int, within: float = float("inf")) -> int | None:
        """Wait for the end of a process; return its status, a signal as a negative number, or `None` after a time."""
        with anyio.move_on_after(within):
            while process not in self._ended:
                await self._read()
        return self._ended.get(process)

    async def kill(self, process: int, number: int = signal.SIGKILL) -> int:
        """Send a signal that ends a process, and return its status."""
        if process not in self._ended:
            os.kill(process, number)
        status = await self.end(process)
        assert status is not None
        return status

    async def _read(self) -> None:
        word, *numbers = (await self._replies.receive_until(b"\n", 100)).decode().split()
        if word == "born":
            self._born.append(int(numbers[0]))
        else:
            self._ended[int(numbers[0])] = int(numbers[1])


@asynccontextmanager
async def fork_server(program: str, errors: Path) -> AsyncIterator[Forks]:
    """Run a module of this folder that calls `serve_forks`; its standard error goes to a file."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(_ROOT / "src"), str(_ROOT)))}
    command = [sys.executable, "-P", "-W", "error", "-m", f"tests.crash.{program}"]
    with errors.open("ab") as stderr:
        async with await anyio.open_process(command, stdout=PIPE, stderr=stderr, env=environment) as process:
            forks = Forks(process)
            try:
                yield forks
            finally:
                assert process.stdin is not None
                with anyio.CancelScope(shield=True):
                    await process.stdin.aclose()
                    await process.wait()
