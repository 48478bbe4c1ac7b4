"""The state of one feed in SQLite: each method is one transaction, under the lease of one epoch."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from freight_exchange.errors import StoreError
from freight_exchange.store.lock import Holder
from freight_exchange.store.protocol import Commit, Found
from freight_exchange.store.sqlite import feed_sql, work_sql
from freight_exchange.store.sqlite.diagnostics import telling

if TYPE_CHECKING:
    from freight_exchange.store.protocol import Absence, NewEvent, Seen, StoredEvent
    from freight_exchange.store.sqlite.store import SQLiteStore
    from freight_exchange.store.work import Delivery, DeliveryState, Effect

__all__ = ["SQLiteFeed", "transaction"]


class SQLiteFeed:
    """The state of one feed, under the lease of one epoch."""

    def __init__(
        self, store: SQLiteStore, number: int, name: str, epoch: int, lease: float, state: str | None, waiting: int
    ) -> None:
        self.state = state
        self.unacknowledged = waiting
        self.number = number
        self.name = name
        self.epoch = epoch
        self._store = store
        self._lease = lease
        self._shared: sqlite3.Connection | None = None

    def commit(
        self, decide: Callable[[Found], Commit], *, indexes: Sequence[int] = (), absence: Absence | None = None
    ) -> int:
        with self._writing() as connection:
            with telling(self._store.path):
                found = Found(
                    feed_sql.known(connection, self.number, indexes),
                    () if absence is None else feed_sql.absent(connection, self.number, absence),
                )
            commit = decide(found)
            with telling(self._store.path):
                added = feed_sql.write(connection, self.number, commit)
                if commit.state is not None:
                    connection.execute("UPDATE feed SET state = ? WHERE id = ?", (commit.state, self.number))
        self.unacknowledged += added
        return added

    def pending(self, *, after: int = 0, limit: int = 100) -> Sequence[StoredEvent]:
        with self._reading() as connection:
            return feed_sql.pending(connection, self.number, after, limit)

    def of_kind(self, kind: str) -> Sequence[StoredEvent]:
        with self._reading() as connection:
            return feed_sql.of_kind(connection, self.number, kind)

    def acknowledge(self, ids: Sequence[int], *, at: float, passed_over: Sequence[int] = ()) -> None:
        with self._writing() as connection, telling(self._store.path):
            done = feed_sql.acknowledge(connection, self.number, ids, at, passed_over)
        self.unacknowledged -= done

    def history(self, index: int) -> tuple[Seen | None, Sequence[StoredEvent]]:
        with self._reading() as connection:
            known = feed_sql.known(connection, self.number, (index,))
            return known.get(index), feed_sql.about(connection, self.number, index)

    def prune(self, *, before: float) -> bool:
        with self._reading() as connection:
            if not feed_sql.is_due(connection, self.number, before):
                return False
        with self._writing() as connection, telling(self._store.path):
            feed_sql.prune(connection, self.number, before)
            return feed_sql.is_due(connection, self.number, before)

    def deliver(self, handlers: Mapping[int, Sequence[str]], *, at: float) -> None:
        with self._writing() as connection, telling(self._store.path):
            done = work_sql.deliver(connection, self.number, handlers, at)
        self.unacknowledged -= done

    def claim(self, *, now: float, limit: int, handlers: Collection[str] | None = None) -> Sequence[Delivery]:
        due = self.next_due(handlers=handlers)
        # A write waits for the disk, even one that finds nothing.
        if limit <= 0 or due is None or due > now:
            return []
        with self._writing() as connection, telling(self._store.path):
            return work_sql.claim(connection, self.number, now, limit, handlers)

    def settle(
        self,
        event: int,
        handler: str,
        *,
        state: Literal["ready", "done", "dead"],
        not_before: float = 0,
        error: str | None = None,
        forgive: bool = False,
        also: Sequence[int] = (),
        at: float,
    ) -> None:
        with self._writing() as connection, telling(self._store.path):
            work_sql.settle(
                connection,
                self.number,
                event,
                handler,
                state=state,
                not_before=not_before,
                error=error,
                forgive=forgive,
                also=also,
                at=at,
            )

    def reclaim(self) -> int:
        with self._writing() as connection, telling(self._store.path):
            return work_sql.reclaim(connection, self.number)

    def next_due(self, *, handlers: Collection[str] | None = None) -> float | None:
        with self._reading() as connection:
            return work_sql.next_due(connection, self.number, handlers)

    def overdue(self, *, now: float, handlers: Collection[str] | None = None) -> tuple[int, float | None]:
        with self._reading() as connection:
            return work_sql.overdue(connection, self.number, now, handlers)

    def ready_by_handler(self) -> Mapping[str, int]:
        with self._reading() as connection:
            return work_sql.ready_by_handler(connection, self.number)

    def deliveries(self, *, state: DeliveryState, index: int | None = None, limit: int = 1000) -> Sequence[Delivery]:
        with self._reading() as connection:
            return work_sql.deliveries(connection, self.number, state, limit, index)

    def behind(self, event: int, handler: str) -> Sequence[Delivery]:
        with self._reading() as connection:
            return work_sql.behind(connection, self.number, event, handler)

    def replay(self, event: int, handler: str, *, at: float) -> bool:
        with self._writing() as connection, telling(self._store.path):
            return work_sql.replay(connection, self.number, event, handler, at)

    def add_event(self, event: NewEvent, *, at: float) -> bool:
        return self.commit(lambda found: Commit(events=(event,), at=at)) == 1

    def effect(self, key: str) -> Effect | None:
        with self._reading() as connection:
            return work_sql.effect(connection, self.number, key)

    def put_effect(self, effect: Effect, *, was: str | None) -> bool:
        with self._writing() as connection, telling(self._store.path):
            return work_sql.put_effect(connection, self.number, effect, was)

    def effects(self, *states: str) -> Sequence[Effect]:
        with self._reading() as connection:
            return work_sql.effects(connection, self.number, states)

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        if self._shared is not None:
            yield
            return
        waiting = self.unacknowledged
        try:
            with self._writing() as self._shared:
                try:
                    yield
                finally:
                    self._shared = None
        except BaseException:
            self.unacknowledged = waiting
            raise

    def release(self) -> None:
        self._store.release(self)

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        if self._shared is not None:
            with telling(self._store.path):
                yield self._shared
            return
        with self._store.using(self) as connection, telling(self._store.path):
            yield connection

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        if self._shared is not None:
            yield self._shared
            return
        with self._store.using(self) as connection, transaction(connection, self._store.path):
            with telling(self._store.path):
                self._fence(connection)
            yield connection

    def _fence(self, connection: sqlite3.Connection) -> None:
        """Go on only under the newest lease, and prolong it: in the same transaction as what is written under it."""
        until = time.time() + self._lease
        renewed = connection.execute(
            "UPDATE feed SET lease_until = ? WHERE id = ? AND epoch = ?", (until, self.number, self.epoch)
        )
        if renewed.rowcount != 1:
            row = connection.execute("SELECT holder FROM feed WHERE id = ?", (self.number,)).fetchone()
            holder = Holder.read(row[0]) if row is not None else None
            raise StoreError(
                f"the feed {self.name!r} in the store {self._store.path} was taken over by {holder or 'another'}: "
                "this one writes nothing more"
            )


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection, path: str) -> Iterator[None]:
    """All that is written within, or nothing."""
    with telling(path):
        if connection.in_transaction:
            # The disk refused the last one's end too.
            connection.execute("ROLLBACK")
        connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        with telling(path):
            connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
        raise
