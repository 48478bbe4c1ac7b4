"""Conversion of the user's `store` argument to a store: a path, the URL of a database, a store, or `None`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from freight_exchange.errors import ConfigurationError
from freight_exchange.store.database_url import is_database

if TYPE_CHECKING:
    from freight_exchange.store import Store

__all__ = ["check_store", "make_store", "shared_store"]


def check_store(store: object) -> None:
    """Check that `make_store` accepts this argument.

    Raises:
        ConfigurationError: It does not.
    """
    if store is None or isinstance(store, str | os.PathLike):
        return
    if not all(hasattr(store, name) for name in ("open", "close", "inline")):
        raise ConfigurationError(
            "store must be a path, the URL of a database, a store of freight_exchange.store, or None, not"
            f" {type(store).__name__}"
        )


def make_store(store: Store | str | os.PathLike[str] | None) -> tuple[Store, bool]:
    """Return the store, and whether this call made it. If so, the caller closes it."""
    if is_database(store):
        from freight_exchange.store import PostgresStore

        return PostgresStore(store), True
    if store is None or isinstance(store, str | os.PathLike):
        # Imported here: a program that never watches needs no sqlite3.
        from freight_exchange.store import MemoryStore, SQLiteStore

        return (MemoryStore() if store is None else SQLiteStore(store)), True
    return store, False


def shared_store(given: Store | str | os.PathLike[str] | None) -> Store | str | os.PathLike[str]:
    """Return a store that several sessions in a row share, or the path of a file.

    The store of a database remembers the history of the database between sessions. A file is opened by each session
    itself, so that other processes can use it in between.
    """
    return make_store(given)[0] if given is None or is_database(given) else given
