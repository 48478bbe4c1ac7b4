"""The seat of a bot in an SQLite file: a fleet of one, whose lease is the lock of the file."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from freight_exchange.store.seat import Adoption
from freight_exchange.store.sqlite.feed import SQLiteFeed
from freight_exchange.store.work import NO_LIMIT, OPEN_STATES

if TYPE_CHECKING:
    from freight_exchange.store.sqlite.connection import SQLiteConnection

__all__ = ["SQLiteSeat"]


class SQLiteSeat:
    """The seat of the only replica.

    Args:
        database: The open file.
        work: The feed's state, under the lease of the seat.
    """

    lease: Final = None
    holder: Final = "this process"
    feed_state: Final = None
    is_restored: Final = False

    def __init__(self, database: SQLiteConnection, work: SQLiteFeed) -> None:
        self.work: Final = work
        self._database: Final = database
        self._has_adopted = False

    def announce(self) -> None:
        pass

    def take_term(self) -> SQLiteFeed:
        # A separate object, because the term and the work of a bot are used by two threads.
        return _Term(self._database, self.work.lease, self.work.read_state(), self.work.unacknowledged)

    def left_out(self) -> tuple[str, ...]:
        return ()

    def has_newer(self) -> bool:
        return False

    def has_peer(self) -> bool:
        return False

    def acknowledge(self, kind: str, *, at: float) -> int:
        numbers = [event.id for event in self.work.pending_of_kind(kind)]
        self.work.acknowledge(numbers, at=at)
        return len(numbers)

    def adopt(self) -> Adoption:
        """Return the unfinished work of the process before. There is no other replica, so later calls find nothing."""
        if self._has_adopted:
            return Adoption()
        self._has_adopted = True
        return Adoption(
            deliveries=self.work.deliveries(state="claimed", limit=NO_LIMIT), effects=self.work.effects(*OPEN_STATES)
        )

    def heartbeat(self) -> bool:
        return False

    def wait(self, seconds: float) -> bool:
        time.sleep(seconds)
        return False

    def trust(self) -> None:
        pass

    def leave(self) -> None:
        self.work.release()


class _Term(SQLiteFeed):
    """The term. It uses the lease of the seat, which only the seat gives back."""

    def release(self) -> None:
        pass
