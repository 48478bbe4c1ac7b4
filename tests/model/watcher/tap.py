"""Store wrapper that simulates kills and disk failures, and records the committed events."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest import mock

from freight_exchange.errors import StoreError
from freight_exchange.store import MemoryStore, SQLiteStore
from freight_exchange.store.protocol import (
    AbsenceQuery,
    Binding,
    Commit,
    FeedStore,
    ReadSet,
    Store,
    StoredEvent,
    TrackedRequest,
)

if TYPE_CHECKING:
    from tests.model.watcher.clocks import Clocks

__all__ = ["Died", "DiskFull", "Tap"]


class DiskFull(StoreError):
    """Error of a single write that the disk refuses."""


class Died(BaseException):
    """Death of the process."""


class Tap:
    """Store in which each call has points at which the process may be killed, or the disk may fail.

    Args:
        sqlite: Whether the real one is SQLite's.
        clocks: Clocks of the machine.
        written: Called with every event that is written down.
        covered: Called with every advance of the watermark, as true time.
        acknowledged: Called when events were acknowledged.

    Attributes:
        die_at: The moments to come until the process dies at one, or `None`.
        fail_at: The same for the disk.
        die_at_statement: The same, counted in statements of SQL.
    """

    inline = True

    def __init__(
        self,
        clocks: Clocks,
        *,
        sqlite: bool,
        written: Callable[[StoredEvent], None],
        covered: Callable[[float], None],
        acknowledged: Callable[[Sequence[int]], None],
    ) -> None:
        self._sqlite = sqlite
        self._inner: Store = SQLiteStore(":memory:", inline=True) if sqlite else MemoryStore()
        self._lease: _TappedFeed | None = None
        self.clocks = clocks
        self.written = written
        self.covered = covered
        self.acknowledged = acknowledged
        self.die_at: int | None = None
        self.fail_at: int | None = None
        self.die_at_statement: int | None = None
        self.deaths: list[str] = []
        self.doubtful: Sequence[int] = ()
        self.last = 0
        self.watermark: tuple[str, float] | None = None

    def open(self, binding: Binding, *, lease: float) -> FeedStore:
        self.moment("open")
        try:
            with self._counted():
                self._lease = _TappedFeed(self, self._inner.open(binding, lease=lease))
            self.moment("opened", failing=False)
        except Died:
            self.die()
            raise
        return self._lease

    def close(self) -> None:
        self._inner.close()

    def die(self) -> None:
        """Simulate the death of the process: it writes nothing more, and releases no lock."""
        if self._lease is not None:
            self._lease.alive = False
            self._lease = None
        # A killed process releases nothing, and another finds no live process, so only this process's own lease
        # must be removed.
        database = self._inner._database  # type: ignore[attr-defined]  # the leases are not public
        database.leases.clear()
        self.die_at = self.fail_at = self.die_at_statement = None

    def moment(self, name: str, *, failing: bool = True) -> None:
        """Pass a point at which the process may be killed, or the disk may be full."""
        if self.die_at is not None:
            self.die_at -= 1
            if self.die_at < 0:
                self.deaths.append(name)
                self.die()
                raise Died
        if self.fail_at is not None and failing:
            self.fail_at -= 1
            if self.fail_at < 0:
                self.fail_at = None
                raise DiskFull(f"the disk is full ({name})")

    def statement(self) -> None:
        if self.die_at_statement is not None:
            self.die_at_statement -= 1
            if self.die_at_statement < 0:
                self.die_at_statement = None
                self.deaths.append("statement")
                raise Died

    @contextmanager
    def _counted(self) -> Iterator[None]:
        """Make new connections count their statements."""
        if not self._sqlite:
            yield
            return
        tap, connect = self, sqlite3.connect

        class Counting(sqlite3.Connection):
            def execute(self, *args: Any) -> sqlite3.Cursor:
                tap.statement()
                cursor = super().execute(*args)
                tap.statement()
                return cursor

            def executemany(self, *args: Any) -> sqlite3.Cursor:
                tap.statement()
                cursor = super().executemany(*args)
                tap.statement()
                return cursor

        def counting(*args: Any, **options: Any) -> sqlite3.Connection:
            return connect(*args, factory=Counting, **options)

        with mock.patch("sqlite3.connect", counting):
            yield


class _TappedFeed:
    def __init__(self, tap: Tap, inner: FeedStore) -> None:
        self._tap = tap
        self._inner = inner
        self.alive = True
        self._settle()

    @property
    def state(self) -> str | None:
        return self._inner.state

    @property
    def unacknowledged(self) -> int:
        return self._inner.unacknowledged

    def commit(
        self, decide: Callable[[ReadSet], Commit], *, indexes: Sequence[int] = (), absence: AbsenceQuery | None = None
    ) -> int:
        commits: list[Commit] = []

        def noted(found: ReadSet) -> Commit:
            commits.append(decide(found))
            self._moment("decided")
            return commits[-1]

        self._moment("before a commit")
        added: int = self._living(lambda: self._inner.commit(noted, indexes=indexes, absence=absence))
        if commits[-1].events:
            self._events()
        if commits[-1].state is not None:
            self._state(commits[-1].state)
        self._moment("after a commit")
        return added

    def pending(self, *, after: int = 0, limit: int = 100) -> Sequence[StoredEvent]:
        self._moment("pending")
        found: Sequence[StoredEvent] = self._living(lambda: self._inner.pending(after=after, limit=limit))
        return found

    def pending_of_kind(self, kind: str) -> Sequence[StoredEvent]:
        self._moment("of a kind")
        found: Sequence[StoredEvent] = self._living(lambda: self._inner.pending_of_kind(kind))
        return found

    def acknowledge(self, ids: Sequence[int], *, at: float, filtered: Sequence[int] = ()) -> None:
        self._moment("before an acknowledgement")
        self._tap.doubtful = done = [*ids, *filtered]
        self._living(lambda: self._inner.acknowledge(ids, at=at, filtered=filtered))
        self._tap.doubtful = ()
        self._tap.acknowledged(done)
        self._moment("after an acknowledgement")

    def history(self, index: int) -> tuple[TrackedRequest | None, Sequence[StoredEvent]]:
        return self._inner.history(index)

    def prune(self, *, before: float) -> None:
        self._moment("before pruning")
        self._living(lambda: self._inner.prune(before=before))
        self._moment("after pruning")

    def release(self) -> None:
        if self.alive:
            self._inner.release()

    def _moment(self, name: str) -> None:
        if not self.alive:
            raise Died
        self._tap.moment(name)

    def _living(self, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except Died:
            self._tap.die()
            raise

    def _settle(self) -> None:
        """Read the events that the previous run committed but, killed between two statements, could not record."""
        pending = self._inner.pending(limit=100_000)
        self._events()
        if self._inner.state is not None:
            self._state(self._inner.state)
        doubtful, self._tap.doubtful = self._tap.doubtful, ()
        if doubtful and not {event.id for event in pending}.issuperset(doubtful):
            self._tap.acknowledged(doubtful)

    def _events(self) -> None:
        for event in self._inner.pending(after=self._tap.last, limit=100_000):
            self._tap.last = event.id
            self._tap.written(event)

    def _state(self, text: str) -> None:
        state = json.loads(text)
        reading = state["watermark"]["reading"]
        watermark = (reading["boot_id"], reading["boot"])
        if state["stage"] == "primed" and watermark != self._tap.watermark:
            self._tap.watermark = watermark
            self._tap.covered(self._tap.clocks.meant(*watermark))
