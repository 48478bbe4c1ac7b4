"""Copy of a file's feeds and bots into a database, verified by count and digest."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from freight_exchange.errors import StoreError
from freight_exchange.store.postgres import schema
from freight_exchange.store.postgres.connection import DatabaseConnection
from freight_exchange.store.sqlite.connection import MEMORY
from freight_exchange.store.sqlite.connection import DatabaseConnection as FileConnection
from freight_exchange.store.sqlite.schema import MOVED_ID

__all__ = ["copy_file"]

_BATCH: Final = 1000
_PATIENCE: Final = 3600.0
"""Seconds for a statement: it reads and sorts a whole table, to compare it."""

_READ: Final = {
    "seen": 'SELECT "index", digest, record, version, first, last, scan, updated_after, missing FROM seen'
    ' WHERE feed = ? ORDER BY "index"',
    "event": "SELECT id, key, \"index\", kind, CASE WHEN acknowledged AND NOT owed THEN x'' ELSE payload END,"
    " acknowledged, acknowledged AND NOT owed AND payload = x'00', owed, at FROM event WHERE feed = ? ORDER BY id",
    "delivery": 'SELECT event, handler, "index", state, attempts, not_before, error FROM delivery WHERE feed = ?'
    " ORDER BY event, handler",
    "effect": "SELECT key, state, payload, at FROM effect WHERE feed = ? ORDER BY key",
}
_COLUMNS: Final = {
    "seen": ('"index"', "digest", "record", "version", "first", "last", "scan", "updated_after", "missing"),
    "event": ("id", "key", '"index"', "kind", "payload", "is_acknowledged", "is_filtered", "is_owed", "at"),
    "delivery": ("event", "handler", '"index"', "state", "attempts", "not_before", "error"),
    "effect": ("key", "state", "payload", "at"),
}
_ORDER: Final = {"seen": '"index"', "event": "id", "delivery": "event, handler", "effect": "key"}
_BOOLEANS: Final = {"event": (5, 6, 7)}
# Offers and their deliveries refer to events by number. A replica has read what the copy would write.
_IS_USED: Final = """
    SELECT EXISTS (SELECT FROM freight_exchange.event) OR EXISTS (SELECT FROM freight_exchange.seen)
        OR EXISTS (SELECT FROM freight_exchange.effect)
        OR EXISTS (SELECT FROM freight_exchange.replica WHERE NOT has_left AND lease_until > clock_timestamp())
"""
_OWNED: Final = ("delivery", "effect")
"""Tables whose rows belong to a replica. A row in the middle of its work belongs to one that has left."""


def copy_file(path: str | os.PathLike[str], address: str) -> Mapping[str, int]:
    """Copy a file's feeds and bots into a database, and mark the file as moved.

    The file is held meanwhile. The copy is one transaction, which is verified before it is committed. A second copy of
    the file finds it marked.

    Returns:
        The number of rows of each kind.

    Raises:
        HeldError: A process holds the file: stop that one first.
        StoreError: One of them cannot be used, the database is in use already, or the copy differs.
    """
    file = FileConnection(os.path.realpath(path))
    assert file.path != MEMORY
    if not Path(file.path).exists():
        raise StoreError(f"there is no store {file.path}: a bot, or a watch with a store, makes it")
    database = DatabaseConnection(address, patience=_PATIENCE)
    try:
        with file.access:
            source = file.connect()
            schema.prepare(database)
            with database.transaction():
                # Between its statements a large file is read and compared.
                database.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
                database.execute("LOCK TABLE freight_exchange.binding, freight_exchange.event IN EXCLUSIVE MODE")
                counts = _copy(source, database)
            source.execute(f"PRAGMA application_id = {MOVED_ID}")
            return counts
    finally:
        file.close()
        database.close()


def _copy(source: sqlite3.Connection, database: DatabaseConnection) -> Mapping[str, int]:
    if database.row(_IS_USED)[0]:
        raise StoreError(f"{database.address} is in use already: copy the file into an empty database")
    counts = dict.fromkeys(("feed", *_READ), 0)
    for feed, name, base_url, account, state in source.execute("SELECT id, name, base_url, account, state FROM feed"):
        (binding,) = database.row(
            "INSERT INTO freight_exchange.binding (base_url, account, name, state) VALUES (%s, %s, %s, %s)"
            " ON CONFLICT (base_url, account, name) DO UPDATE SET state = excluded.state RETURNING id",
            (base_url, account, name, state),
        )
        counts["feed"] += 1
        (left,) = database.row(
            "INSERT INTO freight_exchange.replica (binding, holder, version, handlers, lease_until, has_left)"
            " VALUES (%s, 'the file', '', '{}', clock_timestamp(), true) RETURNING id",
            (binding,),
        )
        for table, query in _READ.items():
            rows = [_converted(table, row) for row in source.execute(query, (feed,))]
            _insert(database, table, binding, left, rows)
            _verify(database, table, binding, rows)
            counts[table] += len(rows)
    database.execute(
        "SELECT setval(pg_get_serial_sequence('freight_exchange.event', 'id'), coalesce(max(id), 0) + 1, false)"
        " FROM freight_exchange.event"
    )
    return counts


def _insert(database: DatabaseConnection, table: str, binding: int, left: int, rows: Sequence[tuple[Any, ...]]) -> None:
    columns = ["binding", *_COLUMNS[table], *(["owner"] if table in _OWNED else [])]
    system = "OVERRIDING SYSTEM VALUE" if table == "event" else ""
    places = ", ".join(["%s"] * len(columns))
    query = f"INSERT INTO freight_exchange.{table} ({', '.join(columns)}) {system} VALUES ({places})"
    extra = (left,) if table in _OWNED else ()
    for start in range(0, len(rows), _BATCH):
        database.execute_many(query, [(binding, *row, *extra) for row in rows[start : start + _BATCH]])


def _verify(database: DatabaseConnection, table: str, binding: int, rows: Sequence[tuple[Any, ...]]) -> None:
    columns = ", ".join(_COLUMNS[table])
    query = f"SELECT {columns} FROM freight_exchange.{table} WHERE binding = %s ORDER BY {_ORDER[table]}"
    copied = database.rows(query, (binding,))
    if len(copied) != len(rows) or _digest(copied) != _digest(rows):
        raise StoreError(f"the copy of the table {table} in {database.address} differs: nothing of it was kept")


def _digest(rows: Iterable[tuple[Any, ...]]) -> str:
    digest = hashlib.sha256()
    for row in rows:
        digest.update(repr(tuple(row)).encode("utf-8", "backslashreplace"))
    return digest.hexdigest()


def _converted(table: str, row: tuple[Any, ...]) -> tuple[Any, ...]:
    booleans = _BOOLEANS.get(table, ())
    return tuple(bool(value) if place in booleans else value for place, value in enumerate(row))
