"""Read-only access to a store's file, while another process may hold it."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import attrs

from freight_exchange.errors import StoreError
from freight_exchange.store.lease_holder import Holder
from freight_exchange.store.protocol import Binding
from freight_exchange.store.sqlite.diagnostics import check_path, check_wal, translate_errors
from freight_exchange.store.sqlite.schema import VERSION, identify

__all__ = ["FeedRow", "feeds", "last_holder", "open_snapshot", "read_only"]


@attrs.frozen(kw_only=True)
class FeedRow:
    """A feed of a store's file.

    Attributes:
        id: Its row.
        binding: The service, account and name that it belongs to.
        state: The state that it last committed, or `None` before its first commit.
        holder: The process that holds it, as far as known; otherwise `None`.
    """

    id: int
    binding: Binding
    state: str | None
    holder: Holder | None


def read_only(file: Path) -> contextlib.closing[sqlite3.Connection]:
    """Open a connection that cannot write, not even to merge a log into the file."""
    address = f"file:{quote(str(file))}?mode=ro"
    return contextlib.closing(sqlite3.connect(address, uri=True, isolation_level=None))


@contextlib.contextmanager
def open_snapshot(path: str | os.PathLike[str]) -> Iterator[sqlite3.Connection]:
    """Open a read-only connection that sees one snapshot of the file.

    Raises:
        StoreError: No store of this version is there, or it cannot be read.
    """
    file = Path(os.path.realpath(path))
    with translate_errors(str(file)):
        has_wal = check_path(file)
        if not file.exists():
            raise StoreError(f"there is no store {file}: a bot, or a watch with a store, makes it")
        if has_wal:
            _check_wal_in_use(file)
        with read_only(file) as connection:
            version = identify(connection, str(file))
            if version < VERSION:
                raise StoreError(f"the store {file} was last used by an older version: run its bot once with this one")
            connection.execute("BEGIN")
            yield connection


def _check_wal_in_use(file: Path) -> None:
    """Check a log that may be in use, twice if necessary: a log that is restarted during a check looks damaged."""
    try:
        check_wal(file)
    except StoreError:
        check_wal(file)


def feeds(connection: sqlite3.Connection) -> list[FeedRow]:
    """Read the feeds of a file, in the order of their creation."""
    rows = connection.execute("SELECT id, name, base_url, account, state, holder, lease_until FROM feed ORDER BY id")
    return [
        FeedRow(
            id=feed_id,
            binding=Binding(base_url, account, name),
            state=state,
            holder=_living_holder(Holder.from_json(note), until),
        )
        for feed_id, name, base_url, account, state, note, until in rows
    ]


def last_holder(file: Path) -> Holder | None:
    """Return the holder of the newest lease that was not given back, or `None` if the file has none."""
    select = "SELECT holder FROM feed WHERE holder IS NOT NULL ORDER BY lease_until DESC LIMIT 1"
    try:
        with read_only(file) as connection:
            row = connection.execute(select).fetchone()
    except sqlite3.Error:
        return None
    return None if row is None else Holder.from_json(row[0])


def _living_holder(holder: Holder | None, until: float) -> Holder | None:
    """Return the holder unless its lease ended or it died without giving the lease back."""
    if holder is None or until <= time.time() or holder.is_gone(Holder.current()):
        return None
    return holder
