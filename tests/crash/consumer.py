"""Program of the watcher that is killed: it writes each event durably, and acknowledges it by pulling the next one.

`python consumer.py OPTIONS` takes options in JSON. At their breakpoint it writes to standard output, and waits for its
kill.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import time
from collections.abc import Iterable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Final
from unittest.mock import patch

import anyio

from freight_exchange import FreightExchange, RequestEvent, Timeouts
from freight_exchange.platform.clock import Reading, SystemClock

_INTERVAL: Final = timedelta(seconds=1)


class _Breakpoint:
    """The place before or after the n-th event, or the n-th statement of the store with a prefix."""

    def __init__(self, prefix: str, nth: int, side: str) -> None:
        self._prefix = prefix
        self._remaining = nth
        self._side = side

    def reach(self, name: str, side: str) -> None:
        if side != self._side or not name.startswith(self._prefix):
            return
        self._remaining -= 1
        if self._remaining == 0:
            os.write(sys.stdout.fileno(), b"waiting\n")
            # The parent kills the process here.
            time.sleep(3600)


class _Connection(sqlite3.Connection):
    """A connection with breakpoints at its statements."""

    breakpoint: _Breakpoint

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        statement = f"sql {' '.join(sql.split())}"
        self.breakpoint.reach(statement, "before")
        cursor = super().execute(sql, parameters)
        self.breakpoint.reach(statement, "after")
        return cursor

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> sqlite3.Cursor:
        statement = f"sql {' '.join(sql.split())}"
        self.breakpoint.reach(statement, "before")
        cursor = super().executemany(sql, parameters)
        self.breakpoint.reach(statement, "after")
        return cursor


class _FastClock:
    """The system's clocks at a higher speed, so that a few seconds exceed the windows of scans."""

    def __init__(self, speed: float, origin: float) -> None:
        self._clock = SystemClock()
        self._speed = speed
        self._origin = origin

    def read(self) -> Reading:
        real = self._clock.read()
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


async def watch(options: dict[str, Any], breakpoint: _Breakpoint) -> None:
    journal = _Journal(options["journal"], options["run"])
    exchange = FreightExchange(
        options["url"],
        email="forwarder@demo.example",
        password="forwarder",
        timeouts=Timeouts(connect=2, read=0.3, write=2),
        deadline=5,
    )
    exchange._shared.clock = _FastClock(options["speed"], options["origin"])
    async with exchange, exchange.watch(store=options["store"], start=options["start"], interval=_INTERVAL) as feed:
        journal.write("primed")
        async for event in feed:
            breakpoint.reach("event", "before")
            if isinstance(event, RequestEvent):
                journal.write(
                    event.kind, event.request.index, (str(event.request.quantity), str(event.request.destination))
                )
            else:
                journal.write(event.kind)
            breakpoint.reach("event", "after")


def main() -> None:
    options = json.loads(sys.argv[1])
    stop = options["stop"]
    breakpoint = _Breakpoint(stop["prefix"], stop["nth"], stop["side"]) if stop else _Breakpoint("none", 0, "")
    _Connection.breakpoint = breakpoint
    with patch.object(sqlite3, "connect", partial(sqlite3.connect, factory=_Connection)):
        anyio.run(watch, options, breakpoint, backend=options["backend"])


if __name__ == "__main__":
    main()
