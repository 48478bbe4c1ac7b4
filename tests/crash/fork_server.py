"""Fork server of crash tests: a program that has loaded the package once, and forks a process for each bot.

Each bot is a separate process with its own sockets and lease, and starts within milliseconds. The server reads orders
from standard input, one JSON line each. Its replies name the new process, and later its exit status.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import PIPE
from typing import Any, Final

import anyio
from anyio.streams.buffered import BufferedByteReceiveStream

__all__ = ["ForkServer", "KillAt", "fork_server", "serve_forks"]

_ROOT: Final = Path(__file__).parents[2]
_PRELOADED: Final = ("httpcore", "httpx", "freight_exchange.feed.feed", "freight_exchange.store.sqlite.store")
"""Modules that each bot would otherwise import when it starts."""


# In the program


class KillAt:
    """Failpoints that kill the process at the n-th visit to one of them; without one, it is not killed."""

    def __init__(self, point: str | None, visit: int) -> None:
        self._point = point
        self._left = visit

    def __call__(self, point: str) -> None:
        if point != self._point:
            return
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def serve_forks(live: Callable[[dict[str, Any]], None]) -> None:
    """Fork a process for each order on standard input. `live` runs in it, with the order."""
    for name in _PRELOADED:
        importlib.import_module(name)
    # So is the backend.
    anyio.run(_nothing, backend=sys.argv[1])
    for line in iter(sys.stdin.readline, ""):
        born = os.fork()
        if born == 0:
            live(json.loads(line))
            return
        print(f"born {born}", flush=True)  # noqa: T201
        # Not reaped before the next is born: so long no other process can have its number, and be killed for it.
        ended = os.waitid(os.P_PID, born, os.WEXITED | os.WNOWAIT)
        assert ended is not None
        by_signal = ended.si_code != os.CLD_EXITED
        print(f"ended {-ended.si_status if by_signal else ended.si_status}", flush=True)  # noqa: T201
        sys.stdin.readline()
        os.waitpid(born, 0)


async def _nothing() -> None:
    pass


# In the test


class ForkServer:
    """Client of the fork server, which runs one process at a time."""

    def __init__(self, process: anyio.abc.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._orders = process.stdin
        self._replies = BufferedByteReceiveStream(process.stdout)
        self._alive: int | None = None

    async def start(self, orders: Mapping[str, Any]) -> int:
        """Start a process, and return its number."""
        await self._orders.send(f"{json.dumps(orders)}\n".encode())
        self._alive = await self._reply("born")
        return self._alive

    async def ended(self) -> int:
        """Wait until it ends; return the signal as a negative number, or its status."""
        return await self._reply("ended")

    async def reap(self) -> None:
        """Reap the process, so that its number becomes free."""
        self._alive = None
        await self._orders.send(b"\n")

    def kill(self) -> None:
        """Kill the process, if one runs: no bot outlives a test that fails."""
        if self._alive is not None:
            os.kill(self._alive, signal.SIGKILL)

    async def _reply(self, word: str) -> int:
        line = await self._replies.receive_until(b"\n", 100)
        found, number = line.decode().split()
        assert found == word, line
        return int(number)


@asynccontextmanager
async def fork_server(program: Path, errors: Path, backend: str) -> AsyncIterator[ForkServer]:
    """Run a program that calls `serve_forks`. Its standard error goes to a file."""
    with errors.open("ab") as stderr:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(_ROOT / "src"), str(_ROOT)))}
        command = [sys.executable, "-P", "-W", "error", str(program), backend]
        async with await anyio.open_process(command, stdout=PIPE, stderr=stderr, env=environment) as process:
            assert process.stdin is not None
            server = ForkServer(process)
            try:
                yield server
            finally:
                server.kill()
            await process.stdin.aclose()
            await process.wait()
