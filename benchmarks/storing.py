"""Cost of a store's writes, beside SQLite's own in the same batches, and of a bot's deliveries beside a bare loop's.

Run: `python -m benchmarks.storing WRITER BATCH TIMES` prints how many events a second were written.
"""

from __future__ import annotations

import json
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
import httpx

from benchmarks.endless import EndlessExchange
from benchmarks.rounds import Figures, Metric, Scale, Table, alone, interleaved

__all__ = ["BATCHES", "PLAIN", "SAME_ROWS", "STORE", "store_writer", "tables"]

BATCHES: Final = (1, 10, 100)
STORE, SAME_ROWS, PLAIN = "this SDK's store", "SQLite, the same rows", "SQLite, one plain table"

_WRITERS: Final = {PLAIN: "plain", SAME_ROWS: "rows", STORE: "store"}
_EVENTS: Final = 20_000
_COMMITS: Final = 600
_DELIVERIES: Final = 3_000
_RECORD: Final = json.dumps({"index": 1, "notes": "what is known of a request" * 18}).encode()
_WRITING: Final = (
    Metric("rate", "events a second", ratio=True),
    Metric("quick", "on a disk that takes no time", ratio=True),
    Metric("cpu", "CPU us an event", 1),
)
_NO_TIME: Final = Path("/dev/shm")
_DELIVERING: Final = (Metric("rate", "deliveries a second"), Metric("cpu", "CPU us a delivery", ratio=True))


def tables(scale: Scale, note: Callable[[str], None]) -> list[Table]:
    """A table of writes for each batch, and one of deliveries."""
    return [*(_writes(batch, scale, note) for batch in BATCHES), _deliveries(scale, note)]


def _writes(batch: int, scale: Scale, note: Callable[[str], None]) -> Table:
    times = max(10, min(scale.of(_EVENTS) // batch, scale.of(_COMMITS)))
    candidates = {title: partial(alone, "storing", writer, batch, times) for title, writer in _WRITERS.items()}
    return Table(
        name=f"writes {batch}",
        title=f"Events written, {batch} a commit" if batch > 1 else "Events written, each in a commit of its own",
        metrics=_WRITING,
        rows=interleaved(candidates, scale.rounds, note),
        peers={SAME_ROWS: PLAIN, STORE: SAME_ROWS},
    )


def _deliveries(scale: Scale, note: Callable[[str], None]) -> Table:
    candidates = {
        "a loop, `async for event in feed`": partial(alone, "storing", "events", 0, scale.of(_DELIVERIES)),
        "a loop, `feed.batches()`": partial(alone, "storing", "batches", 0, scale.of(_DELIVERIES)),
        "a bot": partial(alone, "storing", "bot", 0, scale.of(_DELIVERIES)),
    }
    first, *others = candidates
    return Table(
        name="deliveries",
        title="Deliveries from an SQLite file, with nothing to do in the handler",
        metrics=_DELIVERING,
        rows=interleaved(candidates, min(3, scale.rounds), note),
        peers=dict.fromkeys(others, first),
    )


def _measure(writer: str, batch: int, times: int) -> Figures:
    if batch == 0:
        with tempfile.TemporaryDirectory() as folder:
            return _delivered(writer, times, Path(folder))
    rate, _ = _written(writer, batch, times, None)
    quick, cpu = _written(writer, batch, times, _NO_TIME if _NO_TIME.is_dir() else None)
    return {"rate": rate, "quick": quick, "cpu": cpu}


def _written(writer: str, batch: int, times: int, disk: Path | None) -> tuple[float, float]:
    """Events a second, and the processor's microseconds for each."""
    with tempfile.TemporaryDirectory(dir=disk) as folder:
        write = {"plain": _plain, "rows": _same_rows, "store": store_writer}[writer](Path(folder), batch)
        for number in range(max(1, times // 10)):
            write(number)
        cpu, commits = time.process_time(), []
        for number in range(times):
            began = time.perf_counter()
            write(times + number)
            commits.append(time.perf_counter() - began)
        cpu = time.process_time() - cpu
    # The median commit leaves out stalls of the disk.
    return batch / statistics.median(commits), cpu / (batch * times) * 1e6


def _numbers(batch: int, number: int) -> range:
    return range(1 + number * batch, 1 + (number + 1) * batch)


def _plain(folder: Path, batch: int) -> Callable[[int], object]:
    """The least that a program can do: the payload, in one table without an index."""
    connection = sqlite3.connect(folder / "plain.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE event (id INTEGER PRIMARY KEY, payload BLOB)")

    def write(number: int) -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("INSERT INTO event (payload) VALUES (?)", [(_RECORD,) for _ in _numbers(batch, number)])
        connection.execute("COMMIT")

    return write


def _same_rows(folder: Path, batch: int) -> Callable[[int], object]:
    """The store's own tables and rows, written by two statements in a loop."""
    from freight_exchange.store.sqlite.schema import prepare

    connection = sqlite3.connect(folder / "rows.db", isolation_level=None)
    prepare(connection, "rows.db")

    def write(number: int) -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(
            "INSERT INTO seen VALUES (1, ?, ?, ?, 1, 0, 0, ?, 0, 0)",
            [(index, _digest(index), _RECORD, number) for index in _numbers(batch, number)],
        )
        connection.executemany(
            'INSERT INTO event (feed, key, "index", kind, payload, at) VALUES (1, ?, ?, ?, ?, 0)',
            [(f"{index}.1", index, "new", _RECORD) for index in _numbers(batch, number)],
        )
        connection.execute("COMMIT")

    return write


def store_writer(folder: Path, batch: int) -> Callable[[int], object]:
    """The same through `SQLiteStore`, as a feed's scan commits it: under its lease, after a look at what is known."""
    from freight_exchange.store import SQLiteStore
    from freight_exchange.store.protocol import Binding, Commit, NewEvent, ReadSet, TrackedRequest

    feed = SQLiteStore(folder / "store.db").open(
        Binding("http://benchmark/api", "me@co.example", "benchmark"), lease=60
    )

    def write(number: int) -> None:
        indexes: Sequence[int] = _numbers(batch, number)
        seen = [
            TrackedRequest(
                index=index,
                digest=_digest(index),
                record=_RECORD,
                version=1,
                first_seen=0.0,
                last_seen=0.0,
                last_scan=number,
                updated_after=0.0,
            )
            for index in indexes
        ]
        events = [NewEvent(key=f"{index}.1", index=index, kind="new", payload=_RECORD) for index in indexes]

        def decide(found: ReadSet) -> Commit:
            assert not found.requests
            return Commit(requests=seen, events=events, state="{}")

        assert feed.commit(decide, indexes=indexes) == batch

    return write


def _digest(index: int) -> bytes:
    return index.to_bytes(8, "big")


def _delivered(reader: str, deliveries: int, folder: Path) -> Figures:
    """Deliver requests to an empty handler by a bot, or by a loop over a feed's events or batches."""
    return anyio.run(_deliver, reader, deliveries, folder)


_WINDOW: Final = 400_000.0
"""Seconds within which the requests were published, of the five days that the service looks back."""


async def _deliver(reader: str, deliveries: int, folder: Path) -> Figures:
    from freight_exchange import Bot, FreightExchange
    from freight_exchange.store import SQLiteStore

    period = _WINDOW / deliveries
    service = EndlessExchange(period, lambda: _WINDOW + period / 2)
    client = httpx.AsyncClient(transport=service, trust_env=False)
    exchange = FreightExchange(service.url, email="me@co.example", password="p", http_client=client)
    store = SQLiteStore(folder / "deliveries.db")

    async with client, exchange:
        if reader == "bot":
            bot = Bot(exchange, store=store, start="backfill", settle=timedelta(0))

            @bot.on_new(id="nothing")
            async def nothing(request: Any, ctx: Any) -> None:
                """Do nothing."""

            async with bot:
                seconds, processor = await _timed(service, _until_handled(bot, deliveries))
        else:
            async with exchange.watch(store=store, start="backfill") as feed:
                read = _read_batches if reader == "batches" else _read_events
                seconds, processor = await _timed(service, read(feed, deliveries))
    store.close()
    return {"rate": deliveries / seconds, "cpu": processor / deliveries * 1e6}


async def _timed(service: EndlessExchange, work: Awaitable[None]) -> tuple[float, float]:
    began = time.perf_counter(), time.process_time() - service.busy
    await work
    return time.perf_counter() - began[0], time.process_time() - service.busy - began[1]


async def _until_handled(bot: Any, deliveries: int) -> None:
    while bot.status().handled < deliveries:  # noqa: ASYNC110 - nothing signals that the last is settled
        await anyio.sleep(0.001)


async def _read_events(feed: Any, deliveries: int) -> None:
    left = deliveries
    async for _ in feed:
        left -= 1
        if not left:
            break
    await feed.ack()


async def _read_batches(feed: Any, deliveries: int) -> None:
    left = deliveries
    async for batch in feed.batches():
        left -= len(batch)
        if left <= 0:
            break
    await feed.ack()


if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
