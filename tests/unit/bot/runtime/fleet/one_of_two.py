"""Store in which a replica is one of two, and which may be away."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from freight_exchange.errors import StoreAwayError, StoreError
from freight_exchange.feed.core.state import State
from freight_exchange.store import MemoryStore
from freight_exchange.store.seat import Adoption
from freight_exchange.store.sqlite.seat import SQLiteSeat

__all__ = ["OneOfTwo"]


class OneOfTwo(MemoryStore):
    """Store that may be away, or held by a replica with the term."""

    def __init__(self) -> None:
        super().__init__()
        self.is_free = True
        self.is_away = False
        self.failure: StoreError = StoreAwayError("the database is away")
        self.is_restored = self.has_peer = False
        self.wait = 0.0
        self.feed_state: str | None = None
        """The state that another replica has committed; `None` for that of the file."""
        self.state: State | None = None
        self.on_attempt: Callable[[], object] = lambda: None
        """Called when the replica tries to take the term."""

    def join(self, binding: Any, **options: Any) -> Any:
        self.check()
        return _Seat(super().join(binding, **options), self)

    def check(self) -> None:
        if self.is_away:
            raise self.failure


class _Seat:
    holder = "another replica"

    def __init__(self, seat: SQLiteSeat, store: OneOfTwo) -> None:
        self._seat, self._store = seat, store

    @property
    def work(self) -> Any:
        self._store.check()
        return self._seat.work

    @property
    def is_restored(self) -> bool:
        return self._store.is_restored

    @property
    def feed_state(self) -> str | None:
        self._store.check()
        state = self._seat.work.read_state()
        self._store.state = None if state is None else State.load(state)
        return self._store.feed_state or state

    def trust(self) -> None:
        self._store.is_restored = False

    def adopt(self) -> Adoption:
        return attrs.evolve(self._seat.adopt(), wait=self._store.wait)

    def has_peer(self) -> bool:
        return self._store.has_peer

    def take_term(self) -> Any:
        self._store.on_attempt()
        return self._seat.take_term() if self._store.is_free else None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._seat, name)
