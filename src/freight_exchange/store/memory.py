"""A store that ends with the process."""

from __future__ import annotations

from freight_exchange.store.sqlite.store import SQLiteStore

__all__ = ["MemoryStore"]


class MemoryStore(SQLiteStore):
    """A store in memory, whose calls run in the event loop. A feed opened on it again continues where it was."""

    def __init__(self) -> None:
        super().__init__(":memory:", inline=True)
