"""SQL of a feed's requests and events, run inside the caller's transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, Final

from freight_exchange.store.protocol import AbsenceQuery, Commit, StoredEvent, TrackedRequest
from freight_exchange.store.rows import live_sort_key, read_request

__all__ = [
    "absent", "acknowledge", "can_prune", "events_of_request", "live_requests", "pending", "pending_of_kind", "prune",
    "tracked", "unacknowledged", "write",
]  # fmt: skip

_INDEXES_PER_QUERY: Final = 500
"""SQLite before 3.32 takes at most 999 parameters."""

_PRUNE_BATCH: Final = 10_000
"""Rows pruned in one transaction: about 0.1 s, which bounds how long a commit waits for pruning."""

_FILTERED: Final = b"\0"
"""The payload of an acknowledged event that was never delivered; any other finished event has none.

A third value of `acknowledged` would drop the event out of the indexes that pruning uses.
"""

_COLUMNS: Final = ("index", "digest", "record", "version", "first", "last", "scan", "updated_after", "missing")
_REQUEST: Final = ", ".join(f'"{column}"' for column in _COLUMNS)
_EVENT: Final = 'id, "index", kind, payload, acknowledged, owed'

_PUT_REQUEST: Final = f"""
    INSERT INTO seen (feed, {_REQUEST}) VALUES (?{", ?" * len(_COLUMNS)})
    ON CONFLICT (feed, "index") DO UPDATE SET
        {", ".join(f'"{column}" = excluded."{column}"' for column in _COLUMNS if column != "index")}
"""
_ABSENT: Final = f"""
    SELECT {_REQUEST} FROM seen
    WHERE feed = ? AND updated_after >= ? AND scan < ? AND record IS NOT NULL AND digest <> x''
    ORDER BY updated_after, "index"
"""
_LIVE: Final = f"""
    SELECT {_REQUEST} FROM seen INDEXED BY seen_live
    WHERE feed = ? AND record IS NOT NULL AND digest <> x'' AND (updated_after, "index") > (?, ?)
    ORDER BY updated_after, "index" LIMIT ?
"""
_ADD_EVENT: Final = """
    INSERT INTO event (feed, key, "index", kind, payload, at) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (feed, key) DO NOTHING
"""
_PROPOSE_AGAIN: Final = "UPDATE event SET at = ? WHERE feed = ? AND key = ? AND at < ?"
_PENDING: Final = f"SELECT {_EVENT} FROM event WHERE feed = ? AND id > ? AND acknowledged = 0 ORDER BY id LIMIT ?"
_UNACKNOWLEDGED: Final = "SELECT count(*) FROM event WHERE feed = ? AND acknowledged = 0"
_PENDING_OF_KIND: Final = f"SELECT {_EVENT} FROM event WHERE feed = ? AND kind = ? AND acknowledged = 0 ORDER BY id"
_OF_REQUEST: Final = f'SELECT {_EVENT} FROM event WHERE feed = ? AND "index" = ? ORDER BY id'
_ACKNOWLEDGE: Final = """
    UPDATE event SET acknowledged = 1, payload = ?, at = max(at, ?) WHERE id = ? AND feed = ? AND acknowledged = 0
"""
_OLD_REQUESTS: Final = """
    SELECT feed, "index", digest, version, first FROM seen
    WHERE feed = ? AND last < ? AND record IS NOT NULL ORDER BY last LIMIT ?
"""
_DELETE_REQUEST: Final = 'DELETE FROM seen WHERE feed = ? AND "index" = ?'
# SQLite stores a 0 in no bytes.
_ADD_TOMBSTONE: Final = """
    INSERT INTO seen (feed, "index", digest, version, first, last, scan, updated_after, missing)
    VALUES (?, ?, ?, ?, ?, 0, 0, 0, 0)
"""
_FINISHED_EVENTS: Final = """
    SELECT id FROM event WHERE feed = ? AND at < ? AND acknowledged = 1 AND owed = 0 ORDER BY at, id LIMIT ?
"""
_DELETE_DELIVERIES: Final = f"DELETE FROM delivery WHERE feed = ? AND event IN ({_FINISHED_EVENTS})"
_DELETE_EVENTS: Final = f"DELETE FROM event WHERE id IN ({_FINISHED_EVENTS})"
_CAN_PRUNE: Final = """
    SELECT EXISTS (SELECT 1 FROM seen WHERE feed = ? AND last < ? AND record IS NOT NULL)
        OR EXISTS (SELECT 1 FROM event WHERE feed = ? AND at < ? AND acknowledged = 1 AND owed = 0)
"""


def tracked(connection: sqlite3.Connection, feed: int, indexes: Sequence[int]) -> dict[int, TrackedRequest]:
    """Read the requests with these indexes that are known."""
    found: dict[int, TrackedRequest] = {}
    for start in range(0, len(indexes), _INDEXES_PER_QUERY):
        batch = indexes[start : start + _INDEXES_PER_QUERY]
        places = ", ".join("?" * len(batch))
        select = f'SELECT {_REQUEST} FROM seen WHERE feed = ? AND "index" IN ({places})'
        found.update((row[0], read_request(row)) for row in connection.execute(select, (feed, *batch)))
    return found


def absent(connection: sqlite3.Connection, feed: int, query: AbsenceQuery) -> list[TrackedRequest]:
    """Read the requests that match the query."""
    return [read_request(row) for row in connection.execute(_ABSENT, (feed, query.updated_after, query.scan))]


def live_requests(
    connection: sqlite3.Connection, feed: int, after: TrackedRequest | None, limit: int
) -> list[TrackedRequest]:
    """Read up to `limit` requests after `after`, without tombstones and withdrawn ones."""
    return [read_request(row) for row in connection.execute(_LIVE, (feed, *live_sort_key(after), limit))]


def write(connection: sqlite3.Connection, feed: int, commit: Commit) -> int:
    """Write the requests and events of a commit, and return how many events are new."""
    if commit.requests:
        connection.executemany(
            _PUT_REQUEST,
            [
                (
                    feed, request.index, request.digest, request.record, request.version, request.first_seen,
                    request.last_seen, request.last_scan, request.updated_after, request.missed_scans,
                )
                for request in commit.requests
            ],
        )  # fmt: skip
    if not commit.events:
        return 0
    events = [(feed, event.key, event.index, event.kind, event.payload, commit.at) for event in commit.events]
    added = connection.executemany(_ADD_EVENT, events).rowcount
    if added < len(events):
        again = [(commit.at, feed, event.key, commit.at) for event in commit.events]
        connection.executemany(_PROPOSE_AGAIN, again)
    return added


def pending(connection: sqlite3.Connection, feed: int, after: int, limit: int) -> list[StoredEvent]:
    """Read the first unacknowledged events with higher numbers than `after`."""
    return [_event(row) for row in connection.execute(_PENDING, (feed, after, max(0, limit)))]


def unacknowledged(connection: sqlite3.Connection, feed: int) -> int:
    """Count the unacknowledged events."""
    (count,) = connection.execute(_UNACKNOWLEDGED, (feed,)).fetchone()
    return int(count)


def pending_of_kind(connection: sqlite3.Connection, feed: int, kind: str) -> list[StoredEvent]:
    """Read the unacknowledged events of one kind."""
    return [_event(row) for row in connection.execute(_PENDING_OF_KIND, (feed, kind))]


def events_of_request(connection: sqlite3.Connection, feed: int, index: int) -> list[StoredEvent]:
    """Read the events about one request."""
    return [_event(row) for row in connection.execute(_OF_REQUEST, (feed, index))]


def acknowledge(
    connection: sqlite3.Connection, feed: int, ids: Sequence[int], at: float, filtered: Sequence[int] = ()
) -> int:
    """Acknowledge events, and return how many of them were pending."""
    updates = [(b"", at, number, feed) for number in ids]
    updates += [(_FILTERED, at, number, feed) for number in filtered]
    return max(0, connection.executemany(_ACKNOWLEDGE, updates).rowcount)


def can_prune(connection: sqlite3.Connection, feed: int, before: float) -> bool:
    """Return whether `prune` has work to do."""
    (is_due,) = connection.execute(_CAN_PRUNE, (feed, before, feed, before)).fetchone()
    return bool(is_due)


def prune(connection: sqlite3.Connection, feed: int, before: float) -> None:
    """Make tombstones of old requests and delete finished events, one batch of each."""
    # Delete the rows and insert them again in key order: rows that shrink in place do not free their pages.
    old = sorted(connection.execute(_OLD_REQUESTS, (feed, before, _PRUNE_BATCH)))
    connection.executemany(_DELETE_REQUEST, [row[:2] for row in old])
    connection.executemany(_ADD_TOMBSTONE, old)
    connection.execute(_DELETE_DELIVERIES, (feed, feed, before, _PRUNE_BATCH))
    connection.execute(_DELETE_EVENTS, (feed, before, _PRUNE_BATCH))


def _event(row: tuple[Any, ...]) -> StoredEvent:
    number, index, kind, payload, acknowledged, owed = row
    is_finished = acknowledged == 1 and owed == 0
    return StoredEvent(
        id=number,
        index=index,
        kind=kind,
        payload=b"" if is_finished else payload,
        is_acknowledged=acknowledged == 1,
        is_filtered=is_finished and payload == _FILTERED,
    )
