"""The state of one feed in SQLite, written under one lease."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from freight_exchange.errors import StoreError
from freight_exchange.store.lease_holder import Holder
from freight_exchange.store.protocol import Commit, ReadSet
from freight_exchange.store.sqlite.connection import transaction
from freight_exchange.store.sqlite.diagnostics import translate_errors
from freight_exchange.store.sqlite.sql import effect_sql, feed_sql, work_sql
from freight_exchange.store.work import NO_LIMIT

if TYPE_CHECKING:
    from freight_exchange.store.protocol import AbsenceQuery, NewEvent, StoredEvent, TrackedRequest
    from freight_exchange.store.sqlite.connection import SQLiteConnection, StoreLease
    from freight_exchange.store.work import Delivery, DeliveryState, Effect

__all__ = ["SQLiteFeed"]


class SQLiteFeed:
    """The state of one feed, its deliveries and effects, under one lease. Each method is one transaction."""

    def __init__(self, database: SQLiteConnection, lease: StoreLease, state: str | None, unacknowledged: int) -> None:
        self.lease = lease
        self.state = state
        self.unacknowledged = unacknowledged
        self._feed = lease.feed_id
        self._database = database
        self._open_transaction: sqlite3.Connection | None = None

    def commit(
        self,
        decide: Callable[[ReadSet], Commit],
        *,
        indexes: Sequence[int] = (),
        absence: AbsenceQuery | None = None,
    ) -> int:
        with self._transaction() as connection:
            with translate_errors(self._database.path):
                read_set = ReadSet(
                    feed_sql.tracked(connection, self._feed, indexes),
                    () if absence is None else feed_sql.absent(connection, self._feed, absence),
                )
            commit = decide(read_set)
            with translate_errors(self._database.path):
                added = feed_sql.write(connection, self._feed, commit)
                if commit.state is not None:
                    connection.execute("UPDATE feed SET state = ? WHERE id = ?", (commit.state, self._feed))
        self.unacknowledged += added
        return added

    def pending(self, *, after: int = 0, limit: int = 100) -> Sequence[StoredEvent]:
        with self._read() as connection:
            return feed_sql.pending(connection, self._feed, after, limit)

    def pending_of_kind(self, kind: str) -> Sequence[StoredEvent]:
        with self._read() as connection:
            return feed_sql.pending_of_kind(connection, self._feed, kind)

    def acknowledge(self, ids: Sequence[int], *, at: float, filtered: Sequence[int] = ()) -> None:
        with self._write() as connection:
            acknowledged = feed_sql.acknowledge(connection, self._feed, ids, at, filtered)
        self.unacknowledged -= acknowledged

    def history(self, index: int) -> tuple[TrackedRequest | None, Sequence[StoredEvent]]:
        with self._read() as connection:
            tracked = feed_sql.tracked(connection, self._feed, (index,))
            return tracked.get(index), feed_sql.events_of_request(connection, self._feed, index)

    def prune(self, *, before: float) -> bool:
        with self._read() as connection:
            if not feed_sql.can_prune(connection, self._feed, before):
                return False
        with self._write() as connection:
            feed_sql.prune(connection, self._feed, before)
            return feed_sql.can_prune(connection, self._feed, before)

    def enqueue(self, handlers: Mapping[int, Sequence[str]], *, at: float) -> None:
        with self._write() as connection:
            acknowledged = work_sql.enqueue(connection, self._feed, handlers, at)
        self.unacknowledged -= acknowledged

    def claim(self, *, now: float, limit: int, handlers: Collection[str] | None = None) -> Sequence[Delivery]:
        due = self.next_due(handlers=handlers)
        # A transaction waits for the disk even if it finds nothing to claim.
        if limit <= 0 or due is None or due > now:
            return []
        with self._write() as connection:
            return work_sql.claim(connection, self._feed, now, limit, handlers)

    def settle(
        self,
        event: int,
        handler: str,
        *,
        state: Literal["ready", "done", "dead"],
        not_before: float = 0,
        error: str | None = None,
        refund_attempt: bool = False,
        also_done: Sequence[int] = (),
        at: float,
    ) -> bool:
        with self._write() as connection:
            return work_sql.settle(
                connection,
                self._feed,
                event,
                handler,
                state=state,
                not_before=not_before,
                error=error,
                refund_attempt=refund_attempt,
                also_done=also_done,
                at=at,
            )

    def next_due(self, *, handlers: Collection[str] | None = None) -> float | None:
        with self._read() as connection:
            return work_sql.next_due(connection, self._feed, handlers)

    def count_overdue(
        self, *, now: float, limit: int = NO_LIMIT, handlers: Collection[str] | None = None
    ) -> tuple[int, float | None]:
        with self._read() as connection:
            return work_sql.count_overdue(connection, self._feed, now, limit, handlers)

    def count_ready_by_handler(self, *, limit: int = NO_LIMIT) -> Mapping[str, int]:
        with self._read() as connection:
            return work_sql.count_ready_by_handler(connection, self._feed, limit)

    def deliveries(self, *, state: DeliveryState, index: int | None = None, limit: int = 1000) -> Sequence[Delivery]:
        with self._read() as connection:
            return work_sql.deliveries(connection, self._feed, state, limit, index)

    def has_delivery(self, handler: str, kind: str) -> bool:
        with self._read() as connection:
            return work_sql.has_delivery(connection, self._feed, handler, kind)

    def later_deliveries(self, event: int, handler: str) -> Sequence[Delivery]:
        with self._read() as connection:
            return work_sql.later_deliveries(connection, self._feed, event, handler)

    def replay(self, event: int, handler: str, *, at: float) -> bool:
        with self._write() as connection:
            return work_sql.replay(connection, self._feed, event, handler, at)

    def live_requests(self, *, after: TrackedRequest | None = None, limit: int) -> Sequence[TrackedRequest]:
        with self._read() as connection:
            return feed_sql.live_requests(connection, self._feed, after, limit)

    def add_event(self, event: NewEvent, *, at: float) -> bool:
        return self.commit(lambda read_set: Commit(events=(event,), at=at)) == 1

    def effect(self, key: str) -> Effect | None:
        with self._read() as connection:
            return effect_sql.effect(connection, self._feed, key)

    def put_effect(self, effect: Effect, *, expected_state: str | None, expected_at: float | None = None) -> bool:
        with self._write() as connection:
            return effect_sql.put_effect(
                connection, self._feed, effect, expected_state=expected_state, expected_at=expected_at
            )

    def amend_effect(self, effect: Effect, *, replaces: Callable[[Effect], bool]) -> bool:
        with self._write() as connection:
            stored = effect_sql.effect(connection, self._feed, effect.key)
            if stored is None or not replaces(stored):
                return False
            return effect_sql.put_effect(connection, self._feed, effect, expected_state=stored.state)

    def effects(self, *states: str) -> Sequence[Effect]:
        with self._read() as connection:
            return effect_sql.effects(connection, self._feed, states)

    def effects_under(self, prefix: str) -> Sequence[Effect]:
        with self._read() as connection:
            return effect_sql.effects_under(connection, self._feed, prefix)

    def used_prefixes(self, prefixes: Collection[str], *, states: Collection[str]) -> Collection[str]:
        with self._read() as connection:
            return effect_sql.used_prefixes(connection, self._feed, prefixes, states)

    def read_state(self) -> str | None:
        """Return the state that this object, or another one with the same lease, has committed last."""
        with self._read() as connection:
            (state,) = connection.execute("SELECT state FROM feed WHERE id = ?", (self._feed,)).fetchone()
        return None if state is None else str(state)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        if self._open_transaction is not None:
            yield
            return
        unacknowledged = self.unacknowledged
        try:
            with self._transaction() as self._open_transaction:
                try:
                    yield
                finally:
                    self._open_transaction = None
        except BaseException:
            self.unacknowledged = unacknowledged
            raise

    def release(self) -> None:
        self._database.release(self.lease)

    @contextlib.contextmanager
    def _read(self) -> Iterator[sqlite3.Connection]:
        with contextlib.ExitStack() as stack:
            connection = self._open_transaction or stack.enter_context(self._database.using(self.lease))
            with translate_errors(self._database.path):
                yield connection

    @contextlib.contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        with self._transaction() as connection, translate_errors(self._database.path):
            yield connection

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Join the open transaction or begin one. Errors of the caller's own code are not translated."""
        if self._open_transaction is not None:
            yield self._open_transaction
            return
        path = self._database.path
        with self._database.using(self.lease) as connection, transaction(connection, path):
            with translate_errors(path):
                self._extend_lease(connection)
            yield connection

    def _extend_lease(self, connection: sqlite3.Connection) -> None:
        """Extend the lease in the transaction that it protects, or fail if another holder has taken it."""
        lease = self.lease
        extended = connection.execute(
            "UPDATE feed SET lease_until = ? WHERE id = ? AND epoch = ?",
            (time.time() + lease.seconds, lease.feed_id, lease.epoch),
        )
        if extended.rowcount != 1:
            row = connection.execute("SELECT holder FROM feed WHERE id = ?", (lease.feed_id,)).fetchone()
            holder = Holder.from_json(row[0]) if row is not None else None
            raise StoreError(
                f"the feed {lease.name!r} in the store {self._database.path} was taken over by "
                f"{holder or 'another process'}: this process writes nothing more"
            )
