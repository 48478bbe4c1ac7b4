"""Durable state of feeds and bots.

`protocol` has the interface for feeds, `work` and `seat` the interface for bots. `memory`, `sqlite` and `postgres` are
the stores. `store_lock` lets only one process at a time use a store's file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from freight_exchange.errors import ConfigurationError

if TYPE_CHECKING:
    from freight_exchange.store.memory import MemoryStore
    from freight_exchange.store.postgres.store import PostgresStore
    from freight_exchange.store.protocol import Store
    from freight_exchange.store.sqlite.store import SQLiteStore

__all__ = ["MemoryStore", "PostgresStore", "SQLiteStore", "Store"]

if not TYPE_CHECKING:
    # Type checkers must not see `__getattr__`: they would accept every name of the module.
    def __getattr__(name: str) -> object:
        """Import a store on first use: most programs need no `sqlite3`."""
        if name == "Store":
            from freight_exchange.store.protocol import Store

            return Store
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
