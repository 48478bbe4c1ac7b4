"""Backup of a file, and the move of a bot from a file into a database."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import anyio.to_thread

from freight_exchange.errors import StoreAwayError, StoreError
from freight_exchange.store.database import as_store, from_sqlite

if TYPE_CHECKING:
    from freight_exchange.store.database import Database, SQLite
    from freight_exchange.store.postgres import Postgres

_BATCH: Final = 1000
_NUMBERED: Final = ("binding", "feed", "event", "handler", "effect")


async def backup(path: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Copy the file of a store into a new file, while a bot may run with it.

    Raises:
        StoreError: There is no store, the target exists, or it cannot be written.
    """
    async with as_store(path, beside=True) as store:
        if store.is_shared:
            raise StoreError(f"{store.place} is no file: back it up with pg_dump")
    await anyio.to_thread.run_sync(_back_up, path, Path(target))


def _back_up(path: str | os.PathLike[str], target: Path) -> None:
    if target.exists():
        raise StoreError(f"{target} exists: give a new file")
    partial = target.with_name(f"{target.name}.partial")
    partial.unlink(missing_ok=True)
    try:
        with (
            contextlib.closing(sqlite3.connect(f"file:{quote(os.path.realpath(path))}?mode=ro", uri=True)) as source,
            contextlib.closing(sqlite3.connect(partial)) as copy,
        ):
            source.backup(copy)
            (result,) = copy.execute("PRAGMA integrity_check(1)").fetchone()
            if result != "ok":
                raise StoreError(f"the backup of the store {path} is damaged ({result}), and so may be the store")
        partial.rename(target)
    except (sqlite3.Error, OSError) as error:
        partial.unlink(missing_ok=True)
        raise from_sqlite(error, str(target)) from error


async def move(file: str | os.PathLike[str], database: str) -> dict[str, int]:
    """Move a bot from a file into an empty database.

    Nothing may run with either. The rows are compared before they are committed. The file keeps its rows, with a mark
    that no bot passes. If the reply to the commit is lost, the mark stays: call it again with the same database.

    Returns:
        The number of rows of each table.

    Raises:
        HeldError: Another process has the file.
        StoreError: The file has no bot, the database is not empty, or the copy differs.
    """
    async with as_store(file) as source, as_store(database) as target:
        is_first = await source.run(_mark, target.place)
        try:
            return await anyio.to_thread.run_sync(_move, source.database, target.database)
        except StoreAwayError:
            raise
        except BaseException:
            # An earlier call may have moved it, and its database may be in use.
            if is_first:
                with anyio.CancelScope(shield=True), contextlib.suppress(StoreError):
                    await source.run(lambda db: db.run("DELETE FROM meta WHERE key = 'moved'"))
            raise


def _mark(db: Database, place: str) -> bool:
    """Mark the file as moved; return `False` if it was marked before."""
    if db.run("SELECT 1 FROM binding").fetchone() is None:
        raise StoreError(f"{db.place} has no bot yet: there is nothing to move")
    sql = "INSERT INTO meta (key, value) VALUES ('moved', :place) ON CONFLICT DO NOTHING"
    is_first = bool(db.run(sql, place=place).rowcount)
    (marked,) = db.run("SELECT value FROM meta WHERE key = 'moved'").fetchone()
    if marked != place:
        raise StoreError(f"{db.place} was moved into {marked}")
    # The lock of the file proves that no process scans.
    db.run("UPDATE feed SET lease_until = 0")
    return is_first


def _move(source: SQLite | Postgres, target: SQLite | Postgres) -> dict[str, int]:
    with source.transaction(), target.transaction():
        target.run(
            "SELECT set_config(name, '0', true) FROM pg_settings WHERE name LIKE '%_timeout' AND source = 'session'"
        )
        # Nothing runs, so the replicas stay.
        tables = sorted(target.tables() - {"replica"})
        # If there is a bot, it may be from an earlier call, whose reply to the commit was lost.
        if is_empty := target.run("SELECT 1 FROM binding").fetchone() is None:
            for table in tables:
                for rows in _batches(source, table):
                    names = [*rows[0]]
                    values = ", ".join(f":{name}" for name in names)
                    target.many(f"INSERT INTO {table} ({', '.join(names)}) VALUES ({values})", rows)
            for table in _NUMBERED:
                # A handler's cursor may point to an event that was pruned.
                target.run(
                    f"""SELECT setval(pg_get_serial_sequence('{table}', 'id'), 1 + coalesce(max(number), 0), false)
                    FROM (SELECT id AS number FROM {table} UNION ALL SELECT abs(cursor) FROM handler) AS used"""
                )
        counts, digest = _digest(source, tables)
        if _digest(target, tables) != (counts, digest):
            problem = "differs from the file: nothing was moved" if is_empty else "has another bot: give an empty one"
            raise StoreError(f"{target.place} {problem}")
    del counts["meta"]
    return counts


def _batches(db: Database, table: str) -> Iterator[list[dict[str, Any]]]:
    condition = "WHERE key NOT IN ('schema_version', 'moved')" if table == "meta" else ""
    cursor = db.run(f"SELECT * FROM {table} {condition}")
    names = [column[0] for column in cursor.description]
    while rows := cursor.fetchmany(_BATCH):
        found = [dict(zip(names, row, strict=True)) for row in rows]
        if table == "event":
            # SQLite has no booleans.
            found = [{**row, "acked": bool(row["acked"])} for row in found]
        yield found


def _digest(db: Database, tables: list[str]) -> tuple[dict[str, int], int]:
    """Return the number of rows of each table, and a digest of all rows in any order."""
    counts, digest = dict.fromkeys(tables, 0), 0
    for table in tables:
        for rows in _batches(db, table):
            counts[table] += len(rows)
            digest += sum(hash((table, repr(row))) for row in rows)
    return counts, digest
