"""Stores on memory, a file and PostgreSQL for tests, and crashes at each statement of a transaction."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import attrs

from freight_exchange.errors import FreightExchangeError
from freight_exchange.store import MemoryStore, Store
from freight_exchange.store.fleet import Binding

__all__ = ["BINDING", "Crash", "Place", "crash_at_each_statement", "read", "write"]

T = TypeVar("T")

BINDING: Final = Binding("https://exchange.example/api", "me@co.example", "bot")


@attrs.frozen
class Place:
    """A place for a store, which several stores can open, one after another or together.

    Attributes:
        kind: `memory`, `file` or `postgres`.
        target: The path or address; the object for memory.
    """

    kind: str
    target: str | Path | MemoryStore

    def store(self) -> Store:
        """Return a store at this place."""
        return self.target if isinstance(self.target, Store) else Store(self.target)


class Crash(BaseException):
    """The end of a process in the middle of a transaction, as far as the database notices."""


class _Crashing:
    """Database that crashes before its statement of this number."""

    def __init__(self, db: Any, at: int) -> None:
        self._db, self.left = db, at

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._db, name)
        if name not in ("run", "many", "among"):
            return value

        def statement(*args: Any, **kwargs: Any) -> Any:
            self.left -= 1
            if self.left < 0:
                raise Crash
            return value(*args, **kwargs)

        return statement


async def crash_at_each_statement(store: Store, function: Callable[..., T], *args: Any, **kwargs: Any) -> int:
    """Run a statement function up to each of its statements and crash there; return their number.

    What the function raises by itself ends the attempts.
    """
    for at in range(100):
        reached = -1

        def crashing(db: Any, at: int = at) -> None:
            nonlocal reached
            crashing_db = _Crashing(db, at)
            try:
                function(crashing_db, *args, **kwargs)
            finally:
                reached = crashing_db.left
            raise Crash

        try:
            await store.run(crashing)
        except Crash:
            if reached >= 0:
                return at
        except FreightExchangeError:
            return at
    raise AssertionError("the function does not end")


async def read(store: Store, sql: str, **values: Any) -> list[Any]:
    """Return the rows of a query."""
    return await store.run(lambda db: db.run(sql, **values).fetchall())


async def write(store: Store, sql: str, **values: Any) -> int:
    """Run one statement, and return the number of rows that changed."""
    return await store.run(lambda db: int(db.run(sql, **values).rowcount))
