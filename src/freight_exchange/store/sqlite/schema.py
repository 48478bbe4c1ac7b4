"""Schema of a store's file: creation, migration, and recognition of foreign or damaged files."""

from __future__ import annotations

import sqlite3
from typing import Final

from freight_exchange.errors import StoreError
from freight_exchange.store.sqlite.wal_check import leftover_wal

__all__ = ["APPLICATION_ID", "COPYING_ID", "MOVED_ID", "VERSION", "damage_error", "identify", "prepare", "verify"]

APPLICATION_ID: Final = 0x46_58_53_54
"""FXST, the mark of a store's file: `file` and `PRAGMA application_id` show it."""

COPYING_ID: Final = 0x46_58_53_43
"""FXSC, the mark of a file whose copy into a database was begun."""

MOVED_ID: Final = 0x46_58_53_4D
"""FXSM, the mark of a file that was copied into a database."""

_FEEDS: Final = (
    """
    CREATE TABLE feed (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        base_url TEXT NOT NULL,
        account TEXT NOT NULL,
        state TEXT,
        epoch INTEGER NOT NULL,
        holder TEXT,
        lease_until REAL NOT NULL
    )
    """,
    """
    CREATE TABLE seen (
        feed INTEGER NOT NULL,
        "index" INTEGER NOT NULL,
        digest BLOB NOT NULL,
        record BLOB,
        version INTEGER NOT NULL,
        first REAL NOT NULL,
        last REAL NOT NULL,
        scan INTEGER NOT NULL,
        updated_after REAL NOT NULL,
        missing INTEGER NOT NULL,
        PRIMARY KEY (feed, "index")
    ) WITHOUT ROWID
    """,
    # Partial indexes: tombstones are kept forever and cost nothing in them.
    "CREATE INDEX seen_live ON seen (feed, updated_after) WHERE record IS NOT NULL AND digest <> x''",
    "CREATE INDEX seen_kept ON seen (feed, last) WHERE record IS NOT NULL",
    # AUTOINCREMENT: the number of a deleted event is never used again, because consumers remember numbers.
    """
    CREATE TABLE event (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        feed INTEGER NOT NULL,
        key TEXT NOT NULL,
        "index" INTEGER,
        kind TEXT NOT NULL,
        payload BLOB NOT NULL,
        acknowledged INTEGER NOT NULL DEFAULT 0,
        at REAL NOT NULL,
        UNIQUE (feed, key)
    )
    """,
    'CREATE INDEX event_about ON event (feed, "index") WHERE "index" IS NOT NULL',
    "CREATE INDEX event_pending ON event (feed) WHERE acknowledged = 0",
    "CREATE INDEX event_kind ON event (feed, kind) WHERE acknowledged = 0",
    "CREATE INDEX event_done ON event (feed, at) WHERE acknowledged = 1",
)

_WORK: Final = (
    # 1 while a delivery of the event is not done: the event is then neither emptied nor deleted.
    "ALTER TABLE event ADD COLUMN owed INTEGER NOT NULL DEFAULT 0",
    "DROP INDEX event_done",
    "CREATE INDEX event_done ON event (feed, at) WHERE acknowledged = 1 AND owed = 0",
    """
    CREATE TABLE delivery (
        feed INTEGER NOT NULL,
        event INTEGER NOT NULL,
        handler TEXT NOT NULL,
        "index" INTEGER,
        state TEXT NOT NULL CHECK (state IN ('ready', 'claimed', 'done', 'dead')),
        attempts INTEGER NOT NULL,
        not_before REAL NOT NULL,
        error TEXT,
        PRIMARY KEY (feed, event, handler)
    ) WITHOUT ROWID
    """,
    # Partial indexes: finished deliveries, nearly all of them, cost nothing. The first two indexes cover their queries.
    """CREATE INDEX delivery_ready ON delivery (feed, event, handler, not_before, "index") WHERE state = 'ready'""",
    """CREATE INDEX delivery_due ON delivery (feed, not_before, "index") WHERE state = 'ready'""",
    """
    CREATE INDEX delivery_queue ON delivery (feed, "index", handler, event)
    WHERE state = 'ready' AND "index" IS NOT NULL
    """,
    """CREATE INDEX delivery_claimed ON delivery (feed, "index") WHERE state = 'claimed'""",
    "CREATE INDEX delivery_dead ON delivery (feed, event, handler) WHERE state = 'dead'",
    """
    CREATE TABLE effect (
        feed INTEGER NOT NULL,
        key TEXT NOT NULL,
        state TEXT NOT NULL,
        payload BLOB NOT NULL,
        at REAL NOT NULL,
        PRIMARY KEY (feed, key)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX effect_state ON effect (feed, state)",
)

_MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (_FEEDS, _WORK)
"""The statements that make each version from the one before it, the first from an empty database."""

VERSION: Final = len(_MIGRATIONS)


def prepare(connection: sqlite3.Connection, path: str, *, accepts_begun_copy: bool = False) -> None:
    """Create or migrate the store; leave other programs' files untouched. Arguments as in `identify`.

    Raises:
        StoreError: The file is another program's, a newer version's, or damaged.
        sqlite3.Error: It cannot be read or written.
    """
    version = verify(connection, path, accepts_begun_copy=accepts_begun_copy)
    # Before anything is created: tables created only in the log would be lost with the log.
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    # On macOS a plain fsync leaves the data in the disk's cache; elsewhere this changes nothing.
    connection.execute("PRAGMA fullfsync = 1")
    if version < VERSION:
        _migrate(connection, version)


def verify(connection: sqlite3.Connection, path: str, *, accepts_begun_copy: bool = False) -> int:
    """Read the version, as `identify` does, and check the whole file for damage.

    A damaged file must not be written to: growing it would overwrite what could still be saved.

    Raises:
        StoreError: The file is another program's, a newer version's, or damaged.
    """
    version = identify(connection, path, accepts_begun_copy=accepts_begun_copy)
    if version:
        (result,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
        if result != "ok":
            raise damage_error(path, str(result).splitlines()[-1])
    return version


def identify(connection: sqlite3.Connection, path: str, *, accepts_begun_copy: bool = False) -> int:
    """Read the version of the store; 0 for an empty database.

    Args:
        connection: The file.
        path: Its path.
        accepts_begun_copy: Whether to accept a file whose copy into a database was begun.

    Raises:
        StoreError: The file is another program's or a newer version's, or was copied into a database.
    """
    application = _pragma(connection, "application_id")
    version = _pragma(connection, "user_version")
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application == MOVED_ID:
        raise StoreError(
            f"the store {path} was copied into a database: start the bot with the URL of that one; with the file, a "
            "bot would repeat the offers made since"
        )
    if application == COPYING_ID and not accepts_begun_copy:
        raise StoreError(
            f"a copy of the store {path} into a database was begun, and may be complete: run `freight-exchange store"
            " copy` again with the same database; with the file, a bot would repeat the offers made since"
        )
    if application in (APPLICATION_ID, COPYING_ID):
        if version > VERSION:
            raise StoreError(
                f"the store {path} was written by a newer version of this package (schema {version}, this one reads up "
                f"to {VERSION}): upgrade the package, or give another path"
            )
        if version > 0:
            return version
    if tables:
        raise StoreError(f"{path} is another program's database, not a store of this package: give another path")
    return 0


def damage_error(path: str, damage: str) -> StoreError:
    """Describe a damaged store, and how to replace it."""
    wal = leftover_wal(path)
    advice = (
        "put a copy of it back, or move it away to start with an empty store"
        if wal is None
        else f"move both it and its log {wal} away, then put a copy back, or start with an empty store"
    )
    return StoreError(f"the store {path} is damaged ({damage}): {advice}")


def _migrate(connection: sqlite3.Connection, version: int) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        for statements in _MIGRATIONS[version:]:
            for statement in statements:
                connection.execute(statement)
        if version == 0:
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    return int(value)
