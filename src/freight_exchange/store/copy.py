"""Backup of a file, and the move of a bot from a file into a database or back."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import anyio.to_thread

from freight_exchange.errors import ConfigurationError, StoreAwayError, StoreError
from freight_exchange.store.database import as_store
from freight_exchange.store.errors import from_sqlite

if TYPE_CHECKING:
    from freight_exchange.store.database import Database, SQLite
    from freight_exchange.store.postgres import Postgres

_BATCH: Final = 1000
_FEEDS: Final = "SELECT id FROM feed WHERE binding = :binding"
_HANDLERS: Final = "SELECT id FROM handler WHERE binding = :binding"
_MARKS: Final = "SELECT 'pruned ' || id FROM feed WHERE binding = :binding"

_TABLES: Final = {
    "binding": ("id, url, account, name, created", "id = :binding"),
    "feed": ("id, binding, name, state, epoch", "binding = :binding"),
    "item": (
        "feed, key, subject, digest, record, version, first_seen, last_seen, updated_after", f"feed IN ({_FEEDS})"
    ),
    "event": ("id, feed, key, subject, kind, payload, at, acked", f"feed IN ({_FEEDS})"),
    "handler": ("id, binding, name, feed, cursor, at", "binding = :binding"),
    "delivery": ("event, handler, subject, state, attempts, not_before, error, owner", f"handler IN ({_HANDLERS})"),
    "effect": (
        "id, binding, key, kind, subject, state, version, revision, event, payload, at, owner", "binding = :binding"
    ),
    "reading": ("binding, name, began, payload", "binding = :binding"),
    "meta": ("key, value", f"key IN ({_MARKS} UNION ALL {_MARKS.replace('pruned', 'silent')})"),
}  # fmt: skip
"""Columns and rows of each table that is moved. Replicas stay behind: none of them lives."""

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


async def move(
    source: str | os.PathLike[str], target: str | os.PathLike[str], *, name: str | None = None
) -> dict[str, int]:
    """Move a bot from a file into an empty database, or from a database into a new file.

    Nothing may run with either. The rows are compared before they are committed. The source keeps its rows, with a mark
    that no bot passes. If the reply to the commit is lost, the mark stays: call it again with the same target.

    Args:
        source, target: A path or an address.
        name: The name of the bot, if the source has several.

    Returns:
        The number of rows of each table.

    Raises:
        HeldError: Another process has a file.
        StoreError: A replica runs, the target is not empty, or the copy differs.
    """
    async with as_store(source) as one, as_store(target) as other:
        binding = await one.run(_mark, other.place, name)
        try:
            return await anyio.to_thread.run_sync(_move, one.database, other.database, binding)
        except StoreAwayError:
            raise
        except BaseException:
            with anyio.CancelScope(shield=True), contextlib.suppress(StoreError):
                await one.run(_unmark, binding)
            raise


def _mark(db: Database, place: str, name: str | None) -> int:
    db.run("SELECT value FROM meta WHERE key = 'schema_version' {LOCK}")
    binding = _choose(db, name)
    sql = "SELECT holder FROM replica WHERE binding = :binding AND lease_until > {NOW}"
    running = db.run(sql, binding=binding).fetchone()
    if running and db.dialect != "sqlite":
        raise StoreError(f"{running[0]} runs with {db.place}: stop all replicas of the bot first")
    key = f"moved {binding}"
    marked = db.run("SELECT value FROM meta WHERE key = :key", key=key).fetchone()
    if marked and marked[0] != place:
        raise StoreError(f"{db.place} was moved into {marked[0]}")
    db.run("INSERT INTO meta (key, value) VALUES (:key, :place) ON CONFLICT (key) DO NOTHING", key=key, place=place)
    return binding


def _choose(db: Database, name: str | None) -> int:
    found = db.run("SELECT id, name FROM binding ORDER BY id").fetchall()
    chosen = [number for number, its_name in found if name in (None, its_name)]
    if len(chosen) == 1:
        return int(chosen[0])
    if not found:
        raise StoreError(f"{db.place} has no bot yet: there is nothing to move")
    names = ", ".join(repr(its_name) for _, its_name in found)
    raise ConfigurationError(f"the name of one bot is needed: {db.place} has {names}")


def _unmark(db: Database, binding: int) -> None:
    db.run("DELETE FROM meta WHERE key = :key", key=f"moved {binding}")


def _move(source: SQLite | Postgres, target: SQLite | Postgres, binding: int) -> dict[str, int]:
    with source.transaction(), target.transaction():
        source.unlimited()
        target.unlimited()
        if target.run("SELECT 1 FROM binding").fetchone() is not None:
            # The commit of an earlier call, whose reply was lost.
            counts, digest = _digest(source, binding)
            if _digest(target, binding) == (counts, digest):
                return counts
            raise StoreError(f"{target.place} has another bot already: give an empty one")
        for table, (columns, _) in _TABLES.items():
            names = columns.split(", ")
            insert = f"INSERT INTO {table} ({columns}) VALUES ({', '.join(f':{name}' for name in names)})"
            for rows in _batches(source, table, binding):
                target.many(insert, [dict(zip(names, _typed(names, row), strict=True)) for row in rows])
        counts, digest = _digest(source, binding)
        if _digest(target, binding) != (counts, digest):
            raise StoreError(f"the copy of {source.place} in {target.place} differs from it: nothing was moved")
        target.continue_numbers({table: _largest(source, table) for table in _NUMBERED})
    return counts


def _batches(db: Database, table: str, binding: int) -> Iterator[Sequence[Any]]:
    columns, condition = _TABLES[table]
    cursor = db.run(f"SELECT {columns} FROM {table} WHERE {condition}", binding=binding)
    while rows := cursor.fetchmany(_BATCH):
        yield rows


def _digest(db: Database, binding: int) -> tuple[dict[str, int], str]:
    """Return the number of rows of each table, and a digest of all rows in any order."""
    counts, total = {}, 0
    for table, (columns, _) in _TABLES.items():
        names = columns.split(", ")
        counts[table] = 0
        for rows in _batches(db, table, binding):
            counts[table] += len(rows)
            for row in rows:
                text = repr((table, _typed(names, row))).encode("utf-8", "surrogatepass")
                total += int.from_bytes(hashlib.sha256(text).digest(), "big")
    del counts["meta"]
    return counts, f"{total:x}"


def _typed(names: Sequence[str], row: Sequence[Any]) -> tuple[Any, ...]:
    """Return a row with the types of both databases: SQLite has no booleans, and keeps whole floats as they are."""
    return tuple(bool(value) if name == "acked" else value for name, value in zip(names, row, strict=True))


def _largest(db: Database, table: str) -> int:
    """Return the largest number that a table has given: a handler's cursor may point to an event that was pruned."""
    query = f"SELECT max(id) FROM {table}"
    if table == "event":
        query = "SELECT max(n) FROM (SELECT max(id) AS n FROM event UNION ALL SELECT max(cursor) FROM handler) AS both_"
    (number,) = db.run(query).fetchone()
    return int(number or 0)


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
