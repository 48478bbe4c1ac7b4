"""Copy of a file's feeds and bots into a database, verified by count and digest."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from freight_exchange.errors import StoreAwayError, StoreError
from freight_exchange.store.postgres import schema
from freight_exchange.store.postgres.connection import DatabaseConnection
from freight_exchange.store.sqlite.connection import MEMORY, SQLiteConnection
from freight_exchange.store.sqlite.copy_mark import BegunCopy, mark_absent, mark_begun, mark_moved, read_begun

__all__ = ["copy_file"]

_BATCH: Final = 1000
_REPLY_TIMEOUT: Final = 3600.0
"""Seconds for a statement: it may read and sort a whole table for the comparison."""

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
    "seen": {
        '"index"': "bigint", "digest": "bytea", "record": "bytea", "version": "bigint", "first": "float8",
        "last": "float8", "scan": "bigint", "updated_after": "float8", "missing": "bigint",
    },
    "event": {
        "id": "bigint", "key": "text", '"index"': "bigint", "kind": "text", "payload": "bytea",
        "is_acknowledged": "boolean", "is_filtered": "boolean", "is_owed": "boolean", "at": "float8",
    },
    "delivery": {
        "event": "bigint", "handler": "text", '"index"': "bigint", "state": "text", "attempts": "integer",
        "not_before": "float8", "error": "text",
    },
    "effect": {"key": "text", "state": "text", "payload": "bytea", "at": "float8"},
}  # fmt: skip
"""Columns of the rows that are read, with their types."""
_ORDER: Final = {"seen": '"index"', "event": "id", "delivery": "event, handler", "effect": "key"}
_BOOLEANS: Final = {"event": (5, 6, 7)}
# Copied rows refer to events by number, so no event may exist. A living replica has read the state that a copy writes.
_IS_USED: Final = """
    SELECT EXISTS (SELECT FROM freight_exchange.event) OR EXISTS (SELECT FROM freight_exchange.seen)
        OR EXISTS (SELECT FROM freight_exchange.effect)
        OR EXISTS (SELECT FROM freight_exchange.replica WHERE NOT has_left AND lease_until > clock_timestamp())
"""
# A second call recognises the copy by this row. It is the first replica of its version, so it is never deleted.
_ADD_REPLICA: Final = """
    INSERT INTO freight_exchange.replica (binding, holder, version, handlers, lease_until, has_left)
    VALUES (%s, 'the file', 'copy ' || %s, '{}', clock_timestamp(), true) RETURNING id
"""
_HAS_COPY: Final = "SELECT EXISTS (SELECT FROM freight_exchange.replica WHERE version = 'copy ' || %s)"
# Identifies the database. Neither part changes when a standby is promoted.
_DATABASE: Final = """
    SELECT (SELECT system_identifier FROM pg_control_system())::text || '/' || oid::text
    FROM pg_database WHERE datname = current_database()
"""
_OWNED: Final = ("delivery", "effect")
"""Tables whose rows have an owner. Copied rows belong to a replica that has left, so that a bot adopts open work."""


def copy_file(path: str | os.PathLike[str], address: str) -> Mapping[str, int]:
    """Copy a file's feeds and bots into a database, and mark the file as moved.

    The file is locked meanwhile. The copy is one transaction, which is verified and then committed. Just before the
    commit the file is marked. If then the reply is lost or this process ends, no bot can start with the file, and a
    second call completes the copy.

    Returns:
        The number of rows of each kind.

    Raises:
        HeldError: A process holds the file: stop that one first.
        StoreError: The file or the database cannot be used, the file was copied before, the database is in use, the
            copy differs, or a copy into another database was begun.
    """
    file = SQLiteConnection(os.path.realpath(path), accepts_begun_copy=True)
    assert file.path != MEMORY
    if not Path(file.path).exists():
        raise StoreError(f"there is no store {file.path}: a bot, or a watch with a store, makes it")
    database = DatabaseConnection(address, reply_timeout=_REPLY_TIMEOUT)
    try:
        with file.access:
            source = file.connect()
            schema.prepare(database)
            try:
                _commit_copy(source, file.path, database)
            except StoreAwayError as error:
                if read_begun(source) is None:
                    raise
                raise StoreAwayError(f"{error}; the copy may be complete even so: run this command again") from error
            mark_moved(source, file.path)
            return {name: source.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in ("feed", *_READ)}
    finally:
        file.close()
        database.close()


def _commit_copy(source: sqlite3.Connection, path: str, database: DatabaseConnection) -> None:
    """Copy the file, unless the database has the copy that an earlier call has begun."""
    # Not limited: between its statements a large file is read and compared.
    with database.transaction(is_limited=False):
        # A commit whose reply was lost may still be under way: this waits for it.
        database.execute("LOCK TABLE freight_exchange.binding, freight_exchange.event IN EXCLUSIVE MODE")
        (identity,) = database.row(_DATABASE)
        begun = read_begun(source)
        if begun is not None:
            if begun.database != identity:
                raise StoreError(
                    f"a copy of {path} into {begun.address} was begun, and may be complete: run this command again with"
                    " that database"
                )
            if database.row(_HAS_COPY, (begun.id,))[0]:
                return
            # The transaction of that copy held the lock, so it has ended, and without a commit.
            mark_absent(source, path)
        copy = BegunCopy(id=uuid.uuid4().hex, database=identity, address=database.address)
        _copy(source, database, copy.id)
        # The last step before the commit: an earlier failure leaves the file unmarked.
        mark_begun(source, path, copy)


def _copy(source: sqlite3.Connection, database: DatabaseConnection, id: str) -> None:
    if database.row(_IS_USED)[0]:
        raise StoreError(f"{database.address} is in use already: copy the file into an empty database")
    for feed, name, base_url, account, state in source.execute("SELECT id, name, base_url, account, state FROM feed"):
        (binding,) = database.row(
            "INSERT INTO freight_exchange.binding (base_url, account, name, state) VALUES (%s, %s, %s, %s)"
            " ON CONFLICT (base_url, account, name) DO UPDATE SET state = excluded.state RETURNING id",
            (base_url, account, name, state),
        )
        (owner,) = database.row(_ADD_REPLICA, (binding, id))
        for table, query in _READ.items():
            rows = [_converted(table, row) for row in source.execute(query, (feed,))]
            _insert(database, table, binding, owner, rows)
            _verify(database, table, binding, rows)
    database.execute(
        "SELECT setval(pg_get_serial_sequence('freight_exchange.event', 'id'), coalesce(max(id), 0) + 1, false)"
        " FROM freight_exchange.event"
    )


def _insert(
    database: DatabaseConnection, table: str, binding: int, owner: int, rows: Sequence[tuple[Any, ...]]
) -> None:
    owner_column, values = (", owner", (owner,)) if table in _OWNED else ("", ())
    query = (
        f"INSERT INTO freight_exchange.{table} ({', '.join(_COLUMNS[table])}, binding{owner_column})"
        f"{' OVERRIDING SYSTEM VALUE' if table == 'event' else ''} SELECT new.*, %s{', %s' if owner_column else ''}"
        f" FROM unnest({', '.join(f'%s::{type}[]' for type in _COLUMNS[table].values())}) AS new"
    )
    for start in range(0, len(rows), _BATCH):
        arrays = map(list, zip(*rows[start : start + _BATCH], strict=True))
        database.execute(query, (binding, *values, *arrays))


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
