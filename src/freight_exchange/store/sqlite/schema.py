"""What a store's file looks like inside, how an older one becomes a newer one, and what is no store at all."""

from __future__ import annotations

import sqlite3
from typing import Final

from freight_exchange.errors import StoreError
from freight_exchange.store.sqlite.wal_check import left_beside

__all__ = ["APPLICATION_ID", "VERSION", "damaged", "prepare", "recognised", "sound"]

APPLICATION_ID: Final = 0x46_58_53_54
"""Says to whoever looks into the file (`file`, `PRAGMA application_id`) whose it is: FXST."""

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
    # Partial indexes: tombstones, which stay for ever, cost nothing in them.
    "CREATE INDEX seen_live ON seen (feed, updated_after) WHERE record IS NOT NULL AND digest <> x''",
    "CREATE INDEX seen_kept ON seen (feed, last) WHERE record IS NOT NULL",
    # A number is never given twice, not even that of an event that was dropped: what was handed out is told by it.
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
    # 1 while deliveries of the event are not done: so long it is neither emptied nor dropped.
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
    # Partial too: what is done, which is nearly all, costs nothing in them. The first two answer without the table.
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
"""What makes each version out of the one before; the first, out of nothing."""

VERSION: Final = len(_MIGRATIONS)


def prepare(connection: sqlite3.Connection, path: str) -> None:
    """Make an empty database a store, or an older store one of today. Anything else is left as it is found.

    Raises:
        StoreError: It is another program's, a newer version's, or damaged.
        sqlite3.Error: It cannot be read or written.
    """
    version = sound(connection, path)
    # Before anything is created: what is created in the log alone would be gone with the log.
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    # Only there does a plain fsync leave the data in the disk's own cache; elsewhere this changes nothing.
    connection.execute("PRAGMA fullfsync = 1")
    if version < VERSION:
        _migrate(connection, version)


def sound(connection: sqlite3.Connection, path: str) -> int:
    """As `recognised`, of a store that was read through.

    Raises:
        StoreError: It is damaged as well.
    """
    version = recognised(connection, path)
    if version:
        _check(connection, path)
    return version


def recognised(connection: sqlite3.Connection, path: str) -> int:
    """The version of the store, or 0 for an empty database.

    Raises:
        StoreError: It is another program's, or a newer version's.
    """
    application = _pragma(connection, "application_id")
    version = _pragma(connection, "user_version")
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application == APPLICATION_ID:
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


def _check(connection: sqlite3.Connection, path: str) -> None:
    """A torn file must not be written to: it would grow over what could still be saved."""
    (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if found != "ok":
        raise damaged(path, str(found).splitlines()[-1])


def damaged(path: str, how: str) -> StoreError:
    log = left_beside(path)
    advice = (
        "put a copy of it back, or move it away to begin without its memory"
        if log is None
        else f"move both it and its log {log} away, then put a copy back, or begin without its memory"
    )
    return StoreError(f"the store {path} is damaged ({how}): {advice}")


def _migrate(connection: sqlite3.Connection, version: int) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        for statements in _MIGRATIONS[version:]:
            for statement in statements:
                connection.execute(statement)
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
