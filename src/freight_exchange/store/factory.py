"""Stores from what a user passes: a path, the URL of a database, a store, or nothing."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from freight_exchange.errors import ConfigurationError
from freight_exchange.platform.database_url import is_database

if TYPE_CHECKING:
    from freight_exchange.store import Store

__all__ = ["check_store", "make_store", "shared_store"]


def check_store(store: object) -> None:
    """Check that this is a store, or that one can be made of it."""
    if store is None or isinstance(store, str | os.PathLike):
        return
    if not all(hasattr(store, name) for name in ("open", "close", "inline")):
        raise ConfigurationError(
            "store must be a path, the URL of a database, a store of freight_exchange.store, or None, not"
            f" {type(store).__name__}"
        )


def make_store(store: Store | str | os.PathLike[str] | None) -> tuple[Store, bool]:
    """Return the store, and whether it was made here, and is to be closed by its user."""
    if is_database(store):
        from freight_exchange.store import PostgresStore

        return PostgresStore(store), True
    if store is None or isinstance(store, str | os.PathLike):
        # Imported here: a program that never watches needs no sqlite3.
        from freight_exchange.store import MemoryStore, SQLiteStore

        return (MemoryStore() if store is None else SQLiteStore(store)), True
    return store, False


def shared_store(given: Store | str | os.PathLike[str] | None) -> Store | str | os.PathLike[str]:
    """Return a store for one session after another, such as a database's, which remembers what it has seen of it.

    A path stays one: each session opens the file, and leaves it to other processes in between.
    """
    return make_store(given)[0] if given is None or is_database(given) else given
