"""The rows of a feed, read and written inside a transaction that the caller began."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, Final

import attrs

from freight_exchange.store.protocol import Absence, Commit, Seen, StoredEvent

__all__ = [
    "about", "absent", "acknowledge", "is_due", "known", "of_kind", "pending", "prune", "unacknowledged", "write"
]  # fmt: skip

_INDEXES_AT_ONCE: Final = 500
"""SQLite before 3.32 takes no more than 999 parameters."""

_PRUNED_AT_ONCE: Final = 10_000
"""So many take a tenth of a second: a commit does not wait longer for pruning than that."""

_NAMES: Final = tuple(field.name for field in attrs.fields(Seen))
_SEEN: Final = ", ".join(f'"{name}"' for name in _NAMES)
_EVENT: Final = 'id, "index", kind, payload, acknowledged, owed'

_PASSED_OVER: Final = b"\0"
"""Left of the payload of an event that nobody was handed; of any other that is acknowledged and not owed, nothing is.

A third value of `acknowledged` would be in no index by which events are dropped.
"""

_PUT: Final = f"""
    INSERT INTO seen (feed, {_SEEN}) VALUES (?{", ?" * len(_NAMES)})
    ON CONFLICT (feed, "index") DO UPDATE SET
        {", ".join(f'"{name}" = excluded."{name}"' for name in _NAMES if name != "index")}
"""
_ABSENT: Final = f"""
    SELECT {_SEEN} FROM seen
    WHERE feed = ? AND updated_after >= ? AND scan < ? AND record IS NOT NULL AND digest <> x''
    ORDER BY updated_after, "index"
"""
_ADD: Final = """
    INSERT INTO event (feed, key, "index", kind, payload, at) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (feed, key) DO NOTHING
"""
_PROPOSED_AGAIN: Final = "UPDATE event SET at = ? WHERE feed = ? AND key = ? AND at < ?"
_PENDING: Final = f"SELECT {_EVENT} FROM event WHERE feed = ? AND id > ? AND acknowledged = 0 ORDER BY id LIMIT ?"
_UNACKNOWLEDGED: Final = "SELECT count(*) FROM event WHERE feed = ? AND acknowledged = 0"
_OF_KIND: Final = f"SELECT {_EVENT} FROM event WHERE feed = ? AND kind = ? AND acknowledged = 0 ORDER BY id"
_ABOUT: Final = f'SELECT {_EVENT} FROM event WHERE feed = ? AND "index" = ? ORDER BY id'
_ACKNOWLEDGE: Final = """
    UPDATE event SET acknowledged = 1, payload = ?, at = max(at, ?) WHERE id = ? AND feed = ? AND acknowledged = 0
"""
_OLD: Final = """
    SELECT feed, "index", digest, version, first FROM seen
    WHERE feed = ? AND last < ? AND record IS NOT NULL ORDER BY last LIMIT ?
"""
_REMOVE: Final = 'DELETE FROM seen WHERE feed = ? AND "index" = ?'
# What is 0 takes no room.
_ENTOMB: Final = """
    INSERT INTO seen (feed, "index", digest, version, first, last, scan, updated_after, missing)
    VALUES (?, ?, ?, ?, ?, 0, 0, 0, 0)
"""
_DONE: Final = """
    SELECT id FROM event WHERE feed = ? AND at < ? AND acknowledged = 1 AND owed = 0 ORDER BY at, id LIMIT ?
"""
_DROP_DELIVERIES: Final = f"DELETE FROM delivery WHERE feed = ? AND event IN ({_DONE})"
_DROP: Final = f"DELETE FROM event WHERE id IN ({_DONE})"
_DUE: Final = """
    SELECT EXISTS (SELECT 1 FROM seen WHERE feed = ? AND last < ? AND record IS NOT NULL)
        OR EXISTS (SELECT 1 FROM event WHERE feed = ? AND at < ? AND acknowledged = 1 AND owed = 0)
"""


def known(connection: sqlite3.Connection, feed: int, indexes: Sequence[int]) -> dict[int, Seen]:
    found: dict[int, Seen] = {}
    for start in range(0, len(indexes), _INDEXES_AT_ONCE):
        wanted = indexes[start : start + _INDEXES_AT_ONCE]
        places = ", ".join("?" * len(wanted))
        select = f'SELECT {_SEEN} FROM seen WHERE feed = ? AND "index" IN ({places})'
        found.update((row[0], _seen(row)) for row in connection.execute(select, (feed, *wanted)))
    return found


def absent(connection: sqlite3.Connection, feed: int, absence: Absence) -> list[Seen]:
    return [_seen(row) for row in connection.execute(_ABSENT, (feed, absence.updated_after, absence.scan))]


def write(connection: sqlite3.Connection, feed: int, commit: Commit) -> int:
    """Write what was seen and the events; how many of these are new."""
    if commit.seen:
        connection.executemany(
            _PUT,
            [
                (
                    feed, seen.index, seen.digest, seen.record, seen.version, seen.first, seen.last, seen.scan,
                    seen.updated_after, seen.missing,
                )
                for seen in commit.seen
            ],
        )  # fmt: skip
    if not commit.events:
        return 0
    events = [(feed, event.key, event.index, event.kind, event.payload, commit.at) for event in commit.events]
    added = connection.executemany(_ADD, events).rowcount
    if added < len(events):
        again = [(commit.at, feed, event.key, commit.at) for event in commit.events]
        connection.executemany(_PROPOSED_AGAIN, again)
    return added


def pending(connection: sqlite3.Connection, feed: int, after: int, limit: int) -> list[StoredEvent]:
    return [_event(row) for row in connection.execute(_PENDING, (feed, after, max(0, limit)))]


def unacknowledged(connection: sqlite3.Connection, feed: int) -> int:
    (count,) = connection.execute(_UNACKNOWLEDGED, (feed,)).fetchone()
    return int(count)


def of_kind(connection: sqlite3.Connection, feed: int, kind: str) -> list[StoredEvent]:
    return [_event(row) for row in connection.execute(_OF_KIND, (feed, kind))]


def about(connection: sqlite3.Connection, feed: int, index: int) -> list[StoredEvent]:
    return [_event(row) for row in connection.execute(_ABOUT, (feed, index))]


def acknowledge(
    connection: sqlite3.Connection, feed: int, ids: Sequence[int], at: float, passed_over: Sequence[int] = ()
) -> int:
    """How many were not acknowledged before."""
    done = [(b"", at, number, feed) for number in ids]
    done += [(_PASSED_OVER, at, number, feed) for number in passed_over]
    return max(0, connection.executemany(_ACKNOWLEDGE, done).rowcount)


def is_due(connection: sqlite3.Connection, feed: int, before: float) -> bool:
    (due,) = connection.execute(_DUE, (feed, before, feed, before)).fetchone()
    return bool(due)


def prune(connection: sqlite3.Connection, feed: int, before: float) -> None:
    # Removed and put back, in their order: rows that are made short in place keep the pages that they had.
    old = sorted(connection.execute(_OLD, (feed, before, _PRUNED_AT_ONCE)))
    connection.executemany(_REMOVE, [row[:2] for row in old])
    connection.executemany(_ENTOMB, old)
    connection.execute(_DROP_DELIVERIES, (feed, feed, before, _PRUNED_AT_ONCE))
    connection.execute(_DROP, (feed, before, _PRUNED_AT_ONCE))


def _seen(row: tuple[Any, ...]) -> Seen:
    index, digest, record, version, first, last, scan, updated_after, missing = row
    return Seen(
        index=index,
        digest=digest,
        record=record,
        version=version,
        first=first,
        last=last,
        scan=scan,
        updated_after=updated_after,
        missing=missing,
    )


def _event(row: tuple[Any, ...]) -> StoredEvent:
    number, index, kind, payload, acknowledged, owed = row
    finished = acknowledged == 1 and owed == 0
    return StoredEvent(
        id=number,
        index=index,
        kind=kind,
        payload=b"" if finished else payload,
        acknowledged=acknowledged == 1,
        passed_over=finished and payload == _PASSED_OVER,
    )
