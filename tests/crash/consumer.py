"""The watcher that is killed: each event goes durably into a file, and is acknowledged by pulling the next.

A program of its own, `python consumer.py ORDERS`, where the orders are JSON. Where they name a place to stop at it says
so on its standard output and stands still until it is killed there.
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


class _Place:
    """Where to stop: before or after the n-th event, or the n-th statement of the store that begins so."""

    def __init__(self, what: str, nth: int, side: str) -> None:
        self._what = what
        self._left = nth
        self._side = side

    def reached(self, what: str, side: str) -> None:
        if side != self._side or not what.startswith(self._what):
            return
        self._left -= 1
        if self._left == 0:
            os.write(sys.stdout.fileno(), b"stands\n")
            # The parent kills it here: nothing after this line ever runs.
            time.sleep(3600)


class _Connection(sqlite3.Connection):
    """SQLite's own, which can be stopped at any statement."""

    place: _Place

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        statement = f"sql {' '.join(sql.split())}"
        self.place.reached(statement, "before")
        done = super().execute(sql, parameters)
        self.place.reached(statement, "after")
        return done

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> sqlite3.Cursor:
        statement = f"sql {' '.join(sql.split())}"
        self.place.reached(statement, "before")
        done = super().executemany(sql, parameters)
        self.place.reached(statement, "after")
        return done


class _FastClock:
    """The machine's clocks, some times faster: so much happens in a test's seconds that windows leave it behind."""

    def __init__(self, speed: float, origin: float) -> None:
        self._clock = SystemClock()
        self._speed = speed
        self._origin = origin

    def read(self) -> Reading:
        true = self._clock.read()
        return Reading(
            run=true.run,
            loop=true.loop * self._speed,
            boot_id=true.boot_id,
            boot=true.boot * self._speed,
            wall=self._origin + (true.wall - self._origin) * self._speed,
        )


class _Journal:
    """A file that holds what was written once `write` returns."""

    def __init__(self, path: str, life: int) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._life = life

    def write(self, kind: str, index: int | None = None, state: Sequence[object] = ()) -> None:
        line = json.dumps({"life": self._life, "kind": kind, "index": index, "state": state})
        os.write(self._file, f"{line}\n".encode())
        os.fsync(self._file)


async def watch(orders: dict[str, Any], place: _Place) -> None:
    journal = _Journal(orders["journal"], orders["life"])
    exchange = FreightExchange(
        orders["url"],
        email="forwarder@demo.example",
        password="forwarder",
        timeouts=Timeouts(connect=2, read=0.3, write=2),
        deadline=5,
    )
    exchange._shared.clock = _FastClock(orders["speed"], orders["origin"])
    async with exchange, exchange.watch(store=orders["store"], start=orders["start"], interval=_INTERVAL) as feed:
        journal.write("primed")
        async for event in feed:
            place.reached("event", "before")
            if isinstance(event, RequestEvent):
                journal.write(
                    event.kind, event.request.index, (str(event.request.quantity), str(event.request.destination))
                )
            else:
                journal.write(event.kind)
            place.reached("event", "after")


def main() -> None:
    orders = json.loads(sys.argv[1])
    stop = orders["stop"]
    place = _Place(stop["what"], stop["nth"], stop["side"]) if stop else _Place("nowhere", 0, "")
    _Connection.place = place
    with patch.object(sqlite3, "connect", partial(sqlite3.connect, factory=_Connection)):
        anyio.run(watch, orders, place, backend=orders["backend"])


if __name__ == "__main__":
    main()
