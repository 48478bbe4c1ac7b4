"""Snapshots of the feeds in an SQLite file."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence

from freight_exchange.store.protocol import StoredEvent, TrackedRequest
from freight_exchange.store.sqlite.inspect import FeedRow, feeds, open_snapshot
from freight_exchange.store.sqlite.sql import effect_sql, feed_sql, work_sql
from freight_exchange.store.work import Delivery, DeliveryState, Effect

__all__ = ["SQLiteSnapshot", "snapshots"]

_DELIVERIES_OF: str = """
    SELECT event.kind, delivery.handler, delivery.state, delivery.error FROM delivery
    JOIN event ON event.id = delivery.event WHERE delivery.feed = ? AND event."index" = ?
    ORDER BY delivery.event, delivery.handler
"""


@contextlib.contextmanager
def snapshots(path: str | os.PathLike[str]) -> Iterator[Sequence[SQLiteSnapshot]]:
    """Open a snapshot of each feed of a file, all of the same moment.

    Raises:
        StoreError: No store of this version is there, or it cannot be read.
    """
    with open_snapshot(path) as connection:
        yield [SQLiteSnapshot(connection, row) for row in feeds(connection)]


class SQLiteSnapshot:
    """State of one feed of a file."""

    replicas: Sequence[str] = ()
    is_restored = False

    def __init__(self, connection: sqlite3.Connection, row: FeedRow) -> None:
        self.binding = row.binding
        self.state = row.state
        self.holder = None if row.holder is None else str(row.holder)
        self._connection = connection
        self._feed = row.id

    def count_unacknowledged(self) -> int:
        return feed_sql.unacknowledged(self._connection, self._feed)

    def count_deliveries(self) -> Mapping[str, int]:
        query = "SELECT state, count(*) FROM delivery WHERE feed = ? GROUP BY state"
        return dict(self._connection.execute(query, (self._feed,)).fetchall())

    def deliveries(self, *, state: DeliveryState, limit: int = 1000) -> Sequence[Delivery]:
        return work_sql.deliveries(self._connection, self._feed, state, limit)

    def effects(self, *states: str) -> Sequence[Effect]:
        return effect_sql.effects(self._connection, self._feed, states)

    def effects_under(self, prefix: str) -> Sequence[Effect]:
        return effect_sql.effects_under(self._connection, self._feed, prefix)

    def count_effects(self, prefix: str) -> Mapping[str, int]:
        return effect_sql.count_effects(self._connection, self._feed, prefix)

    def pending_of_kind(self, kind: str) -> Sequence[StoredEvent]:
        return feed_sql.pending_of_kind(self._connection, self._feed, kind)

    def history(self, index: int) -> tuple[TrackedRequest | None, Sequence[StoredEvent]]:
        tracked = feed_sql.tracked(self._connection, self._feed, (index,))
        return tracked.get(index), feed_sql.events_of_request(self._connection, self._feed, index)

    def deliveries_of(self, index: int) -> Sequence[tuple[str, str, DeliveryState, str | None]]:
        return [tuple(row) for row in self._connection.execute(_DELIVERIES_OF, (self._feed, index))]
