"""The state of a feed: in memory, or in a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from freight_exchange.store.memory import MemoryStore
from freight_exchange.store.protocol import Store

if TYPE_CHECKING:
    from freight_exchange.store.sqlite.store import SQLiteStore

__all__ = ["MemoryStore", "SQLiteStore", "Store"]

if not TYPE_CHECKING:
    # Unseen by type checkers: to them, every misspelt name of the package would be there.
    def __getattr__(name: str) -> object:
        """`SQLiteStore`, imported when it is asked for: not every Python has sqlite3, nor does every user need it."""
        if name != "SQLiteStore":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from freight_exchange.store.sqlite.store import SQLiteStore

        return SQLiteStore
