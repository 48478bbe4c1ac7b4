"""Durable state of feeds and bots.

A store is a path, the address of a PostgreSQL database, or `MemoryStore()`. `database` has the connection and its
transactions, `schema` the tables; `fleet` and the modules of feeds, deliveries and effects have statements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from freight_exchange.store.database import MemoryStore, Store

__all__ = ["MemoryStore", "Store"]

if not TYPE_CHECKING:
    # Type checkers must not see `__getattr__`: they would accept every name of the module.
    def __getattr__(name: str) -> object:
        """Import the store on first use: most programs need no `sqlite3`."""
        if name in __all__:
            from freight_exchange.store import database

            return getattr(database, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
