"""The durable state of feeds and of the bots on them.

`protocol` is the interface for feeds, `work` and `seat` are that for bots. `memory`, `sqlite` and
`postgres` are the stores; `store_lock` keeps a store's file to one process at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from freight_exchange.errors import ConfigurationError
from freight_exchange.store.protocol import Store

if TYPE_CHECKING:
    from freight_exchange.store.memory import MemoryStore
    from freight_exchange.store.postgres.store import PostgresStore
    from freight_exchange.store.sqlite.store import SQLiteStore

__all__ = ["MemoryStore", "PostgresStore", "SQLiteStore", "Store"]

if not TYPE_CHECKING:
    # Hidden from type checkers, to which a module with `__getattr__` has every name.
    def __getattr__(name: str) -> object:
        """Import a store on first use: most programs need no `sqlite3`."""
        if name == "MemoryStore":
            from freight_exchange.store.memory import MemoryStore

            return MemoryStore
        if name == "SQLiteStore":
            from freight_exchange.store.sqlite.store import SQLiteStore

            return SQLiteStore
        if name == "PostgresStore":
            try:
                from freight_exchange.store.postgres.store import PostgresStore
            except ModuleNotFoundError as error:
                if error.name != "psycopg":
                    raise
                raise ConfigurationError(
                    "a store in a database needs psycopg: install freight-exchange[postgres]"
                ) from None
            return PostgresStore
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
