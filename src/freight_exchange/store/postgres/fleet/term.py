"""The state of one feed in a database, written under the term."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

from freight_exchange.errors import StoreError
from freight_exchange.store.postgres import feed_sql
from freight_exchange.store.postgres.fleet import work_sql
from freight_exchange.store.postgres.fleet.work import PostgresWork
from freight_exchange.store.protocol import Commit, ReadSet, StoredEvent, TrackedRequest
from freight_exchange.store.rows import live_sort_key, read_request

if TYPE_CHECKING:
    from freight_exchange.store.postgres.connection import DatabaseConnection
    from freight_exchange.store.postgres.fleet.replica import Replica
    from freight_exchange.store.protocol import AbsenceQuery, NewEvent
    from freight_exchange.store.work import Delivery

__all__ = ["LeasedTerm", "PostgresTerm"]

T = TypeVar("T")

_PART: Final = 65_536
"""Bytes of rows in one statement. A slow client that sends a longer one would look frozen to the server."""


class PostgresTerm(PostgresWork):
    """The state of one feed, its deliveries and effects. Each write locks the term.

    Args:
        connection: The connection, used by one thread.
        replica: The replica that has the term.
        epoch: The epoch of the term.
        state: The feed's state when the term began.
        on_release: Called when the term is given back.
    """

    def __init__(
        self,
        connection: DatabaseConnection,
        replica: Replica,
        epoch: int,
        state: str | None,
        on_release: Callable[[], None],
    ) -> None:
        super().__init__(connection, replica)
        self.state = state
        self._epoch = epoch
        self._on_release = on_release
        (self.unacknowledged,) = connection.row(feed_sql.UNACKNOWLEDGED, self._values())

    def commit(
        self,
        decide: Callable[[ReadSet], Commit],
        *,
        indexes: Sequence[int] = (),
        absence: AbsenceQuery | None = None,
    ) -> int:
        with self._write() as connection:
            commit = decide(self._read_set(connection, indexes, absence))
            added = self._put(connection, commit)
            if commit.state is not None:
                query = "UPDATE freight_exchange.binding SET state = %(state)s WHERE id = %(binding)s"
                connection.execute(query, self._values(state=commit.state))
            self.unacknowledged += added
        return added

    def claim(self, *, now: float, limit: int, handlers: Collection[str] | None = None) -> Sequence[Delivery]:
        with self._write():
            return super().claim(now=now, limit=limit, handlers=handlers)

    def pending(self, *, after: int = 0, limit: int = 100) -> Sequence[StoredEvent]:
        query = f"{feed_sql.EVENT} AND id > %(after)s AND NOT is_acknowledged ORDER BY id LIMIT %(limit)s"
        return [_event(row) for row in self._read().rows(query, self._values(after=after, limit=max(0, limit)))]

    def pending_of_kind(self, kind: str) -> Sequence[StoredEvent]:
        query = f"{feed_sql.EVENT} AND kind = %(kind)s AND NOT is_acknowledged ORDER BY id"
        # A command may have acknowledged some meanwhile.
        (self.unacknowledged,) = self._read().row(feed_sql.UNACKNOWLEDGED, self._values())
        return [_event(row) for row in self._read().rows(query, self._values(kind=kind))]

    def acknowledge(self, ids: Sequence[int], *, at: float, filtered: Sequence[int] = ()) -> None:
        with self._write() as connection:
            for numbers, is_filtered in ((ids, False), (filtered, True)):
                if numbers:
                    self._acknowledge(connection, numbers, at, is_filtered=is_filtered)

    def history(self, index: int) -> tuple[TrackedRequest | None, Sequence[StoredEvent]]:
        connection = self._read()
        found = connection.row(feed_sql.TRACKED, self._values(indexes=[index]))
        query = f'{feed_sql.EVENT} AND "index" = %(index)s ORDER BY id'
        events = [_event(row) for row in connection.rows(query, self._values(index=index))]
        return None if found is None else read_request(found), events

    def prune(self, *, before: float) -> bool:
        values = self._values(before=before, limit=feed_sql.PRUNE_BATCH)
        with self._write() as connection:
            connection.execute(feed_sql.MAKE_TOMBSTONES, values)
            connection.execute(feed_sql.DELETE_EVENTS, values)
            is_more_due = bool(connection.row(feed_sql.CAN_PRUNE, values)[0])
            if not is_more_due:
                # Only after the last batch.
                self._replica.forget_ended(connection)
        return is_more_due

    def enqueue(self, handlers: Mapping[int, Sequence[str]], *, at: float) -> None:
        with self._write() as connection:
            self._acknowledge(connection, [event for event, names in handlers.items() if not names], at)
            pairs = [(event, name) for event, names in handlers.items() for name in names]
            if pairs:
                events, names = zip(*pairs, strict=True)
                values = self._values(events=[*events], handlers=[*names], at=at)
                self.unacknowledged -= connection.row(work_sql.ENQUEUE, values)[0]
                self._replica.notify(connection)

    def live_requests(self, *, after: TrackedRequest | None = None, limit: int) -> Sequence[TrackedRequest]:
        updated_after, index = live_sort_key(after)
        values = self._values(after=updated_after, index=index, limit=limit)
        return [read_request(row) for row in self._read().rows(feed_sql.LIVE, values)]

    def add_event(self, event: NewEvent, *, at: float) -> bool:
        return self.commit(lambda read_set: Commit(events=(event,), at=at)) == 1

    def release(self) -> None:
        if self._is_released:
            return
        self._is_released = True
        # A database that does not answer would take ten seconds for it. The term ends with the lease.
        if not self._connection.has_stalled:
            with suppress(StoreError):
                self._replica.resign(self._connection, self._epoch)
        self._on_release()

    @contextmanager
    def _write(self) -> Iterator[DatabaseConnection]:
        unacknowledged = self.unacknowledged
        try:
            with super()._write() as connection:
                yield connection
        except BaseException:
            self.unacknowledged = unacknowledged
            raise

    def _fence(self, connection: DatabaseConnection) -> None:
        self._replica.fence(connection)
        self._replica.fence_term(connection, self._epoch)

    def _read_set(
        self, connection: DatabaseConnection, indexes: Sequence[int], absence: AbsenceQuery | None
    ) -> ReadSet:
        requests = {}
        if indexes:
            rows = connection.rows(feed_sql.TRACKED, self._values(indexes=[*indexes]))
            requests = {row[0]: read_request(row) for row in rows}
        if absence is None:
            return ReadSet(requests)
        values = self._values(after=absence.updated_after, scan=absence.scan)
        return ReadSet(requests, [read_request(row) for row in connection.rows(feed_sql.ABSENT, values)])

    def _put(self, connection: DatabaseConnection, commit: Commit) -> int:
        # A statement may write a row only once. If a page lists a request twice, the last state counts.
        requests = {request.index: request for request in commit.requests}.values()
        for part in _parts(requests, lambda request: len(request.digest) + len(request.record or b"")):
            values = self._values(
                indexes=[request.index for request in part],
                digests=[request.digest for request in part],
                records=[request.record for request in part],
                versions=[request.version for request in part],
                first=[request.first_seen for request in part],
                last=[request.last_seen for request in part],
                scans=[request.last_scan for request in part],
                updated_after=[request.updated_after for request in part],
                missing=[request.missed_scans for request in part],
            )
            connection.execute(feed_sql.PUT_REQUESTS, values)
        parts = _parts(commit.events, lambda event: len(event.payload))
        return sum(self._add_events(connection, part, commit.at) for part in parts)

    def _add_events(self, connection: DatabaseConnection, events: Sequence[NewEvent], at: float) -> int:
        values = self._values(
            keys=[event.key for event in events],
            indexes=[event.index for event in events],
            kinds=[event.kind for event in events],
            payloads=[event.payload for event in events],
            at=at,
        )
        added = connection.execute(feed_sql.ADD_EVENTS, values).rowcount
        if added < len(events):
            connection.execute(feed_sql.PROPOSE_AGAIN, values)
        return added

    def _acknowledge(
        self, connection: DatabaseConnection, ids: Sequence[int], at: float, *, is_filtered: bool = False
    ) -> None:
        values = self._values(ids=[*ids], at=at, is_filtered=is_filtered)
        self.unacknowledged -= connection.execute(feed_sql.ACKNOWLEDGE, values).rowcount


class LeasedTerm(PostgresTerm):
    """The state of one feed whose process has no heartbeat: each commit renews the lease."""

    def _fence(self, connection: DatabaseConnection) -> None:
        super()._fence(connection)
        self._replica.renew(connection)


def _parts(rows: Iterable[T], size: Callable[[T], int]) -> Iterator[Sequence[T]]:
    """Split rows into parts, so small that even a slow link sends one before the server ends the transaction."""
    part, length = list[T](), 0
    for row in rows:
        if part and length + size(row) > _PART:
            yield part
            part, length = [], 0
        part.append(row)
        length += size(row)
    if part:
        yield part


def _event(row: tuple[Any, ...]) -> StoredEvent:
    number, index, kind, payload, is_acknowledged, is_filtered = row
    return StoredEvent(
        id=number,
        index=index,
        kind=kind,
        payload=payload,
        is_acknowledged=is_acknowledged,
        is_filtered=is_filtered,
    )
