"""Program of the watcher that `watcher.py` kills: before or after an event, or a statement of its store."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Final
from unittest.mock import patch

import anyio
from tests.crash.processes import serve_forks

from freight_exchange import FreightExchange, RequestEvent, Timeouts
from freight_exchange.platform.clock import Clock, Reading

_INTERVAL: Final = timedelta(seconds=1)


class _KillAt:
    """Kill before or after the n-th event, or the n-th statement of the store with a prefix."""

    def __init__(self, place: dict[str, Any] | None) -> None:
        self._prefix: str = place["prefix"] if place is not None else "none"
        self._side: str = place["side"] if place is not None else ""
        self._left: int = place["nth"] if place is not None else 0

    def __call__(self, name: str, side: str) -> None:
        if side == self._side and name.startswith(self._prefix):
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


class _Connection(sqlite3.Connection):
    """Connection that reaches a place before and after each statement."""

    reach: Callable[[str, str], None]

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        return self._around(sql, lambda: super(_Connection, self).execute(sql, parameters))

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> sqlite3.Cursor:
        return self._around(sql, lambda: super(_Connection, self).executemany(sql, parameters))

    def _around(self, sql: str, execute: Callable[[], sqlite3.Cursor]) -> sqlite3.Cursor:
        statement = f"sql {' '.join(sql.split())}"
        _Connection.reach(statement, "before")
        cursor = execute()
        _Connection.reach(statement, "after")
        return cursor


class _FastClock(Clock):
    """The system's clocks at a higher speed, so that a few seconds exceed the windows of scans."""

    def __init__(self, speed: float, origin: float) -> None:
        super().__init__()
        self._speed = speed
        self._origin = origin

    def read(self) -> Reading:
        real = super().read()
        return Reading(
            run=real.run,
            loop=real.loop * self._speed,
            boot_id=real.boot_id,
            boot=real.boot * self._speed,
            wall=self._origin + (real.wall - self._origin) * self._speed,
        )


class _Journal:
    """A file to which lines are appended durably."""

    def __init__(self, path: str, run: int) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._run = run

    def write(self, kind: str, index: int | None = None, state: Sequence[object] = ()) -> None:
        line = json.dumps({"run": self._run, "kind": kind, "index": index, "state": state})
        os.write(self._file, f"{line}\n".encode())
        os.fsync(self._file)


async def _watch(order: dict[str, Any]) -> None:
    journal = _Journal(order["journal"], order["run"])
    exchange = FreightExchange(
        order["url"],
        email="forwarder@demo.example",
        password="forwarder",
        timeouts=Timeouts(connect=2, read=0.3, write=2),
        deadline=5,
    )
    exchange._shared.clock = _FastClock(order["speed"], order["origin"])
    async with exchange, exchange.watch(store=order["store"], start=order["start"], interval=_INTERVAL) as feed:
        journal.write("primed")
        async for event in feed:
            _Connection.reach("event", "before")
            if isinstance(event, RequestEvent):
                journal.write(
                    event.kind, event.request.index, (str(event.request.quantity), str(event.request.destination))
                )
            else:
                journal.write(event.kind)
            _Connection.reach("event", "after")


def _live(order: dict[str, Any]) -> None:
    _Connection.reach = _KillAt(order["place"])
    with patch.object(sqlite3, "connect", partial(sqlite3.connect, factory=_Connection)):
        anyio.run(_watch, order, backend=order["backend"])


if __name__ == "__main__":
    serve_forks(_live)
