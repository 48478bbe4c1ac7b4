"""A store in one SQLite file, which survives `kill -9`, a full disk and a loss of power."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Collection
from typing import Final

from freight_exchange.errors import ConfigurationError, HeldError, StoreError
from freight_exchange.store.lease_holder import Holder
from freight_exchange.store.protocol import Binding, HeldHereError
from freight_exchange.store.sqlite.connection import MEMORY, SQLiteConnection, StoreLease, transaction
from freight_exchange.store.sqlite.diagnostics import translate_errors
from freight_exchange.store.sqlite.feed import SQLiteFeed
from freight_exchange.store.sqlite.seat import SQLiteSeat
from freight_exchange.store.sqlite.sql import feed_sql

__all__ = ["SQLiteStore"]

_IS_EMPTY: Final = "state IS NULL" + "".join(
    f" AND NOT EXISTS (SELECT 1 FROM {table} WHERE feed = feed.id)" for table in ("seen", "event", "effect")
)
"""Condition of a feed that has recorded nothing."""


class SQLiteStore:
    """Feed states in one SQLite file. One process at a time holds it, by a lock on a file beside it.

    The store touches nothing before the first `open`, and holds the file from then until its last feed is released. A
    process that has died on this host holds nothing. The file must be on a local disk: locks and shared memory are not
    reliable over a network.
    """

    def __init__(self, path: str | os.PathLike[str], *, inline: bool = False) -> None:
        """
        Args:
            path: The file, created if missing; `:memory:` keeps the state in memory, for tests.
            inline: Make calls in the event loop instead of a worker thread, for tests in virtual time.

        Raises:
            ConfigurationError: The path is empty or contains a null character.
        """
        self.inline = inline
        name = os.fsdecode(path)
        if not name or "\0" in name:
            raise ConfigurationError(f"a store needs the path of a file, not {name!r}")
        # Absolute and without links, so that one file has one path, even after a change of directory.
        self.path: Final = name if name == MEMORY else os.path.realpath(name)
        self._database: Final = SQLiteConnection(self.path)

    def open(self, binding: Binding, *, lease: float) -> SQLiteFeed:
        database = self._database
        with database.access:
            if database.is_closed:
                raise StoreError(f"the store {self.path} is closed: make another object for it")
            if binding.feed in database.leases:
                raise HeldHereError.for_feed(binding.feed)
            with translate_errors(self.path):
                connection = database.connect()
                try:
                    feed = self._take_lease(connection, binding, lease)
                    database.record_wal()
                except BaseException:
                    database.disconnect_if_unused()
                    raise
            database.leases[binding.feed] = feed.lease
            return feed

    def join(self, binding: Binding, *, handlers: Collection[str], version: str, lease: float) -> SQLiteSeat:
        return SQLiteSeat(self._database, self.open(binding, lease=lease))

    def close(self) -> None:
        self._database.close()

    def _take_lease(self, connection: sqlite3.Connection, binding: Binding, seconds: float) -> SQLiteFeed:
        current = Holder.current(lock=self._database.lock_inode)
        with transaction(connection, self.path):
            connection.execute(
                "INSERT INTO feed (name, base_url, account, epoch, lease_until) VALUES (?, ?, ?, 0, 0)"
                " ON CONFLICT (name) DO NOTHING",
                (binding.feed, binding.base_url, binding.account),
            )
            feed_id, base_url, account, state, epoch, note, until, is_empty = connection.execute(
                f"SELECT id, base_url, account, state, epoch, holder, lease_until, {_IS_EMPTY}"
                " FROM feed WHERE name = ?",
                (binding.feed,),
            ).fetchone()
            is_own = (base_url, account) == (binding.base_url, binding.account)
            # A first run with a wrong URL or email records nothing, and the next run may correct them.
            if not is_own and not is_empty:
                raise StoreError(
                    f"the feed {binding.feed!r} in the store {self.path} belongs to {account} at {base_url}, not to "
                    f"{binding.account} at {binding.base_url}: give another file, or name the feed otherwise"
                )
            self._refuse_if_held_elsewhere(binding, Holder.from_json(note), until, current)
            connection.execute(
                "UPDATE feed SET base_url = ?, account = ?, epoch = ?, holder = ?, lease_until = ? WHERE id = ?",
                (binding.base_url, binding.account, epoch + 1, current.to_json(), time.time() + seconds, feed_id),
            )
            unacknowledged = feed_sql.unacknowledged(connection, feed_id)
        lease = StoreLease(feed_id, binding.feed, epoch + 1, seconds)
        return SQLiteFeed(self._database, lease, state, unacknowledged)

    def _refuse_if_held_elsewhere(self, binding: Binding, holder: Holder | None, until: float, current: Holder) -> None:
        remaining = until - time.time()
        if holder is None or remaining <= 0 or self._is_gone(holder, current):
            return
        raise HeldError(
            f"the feed {binding.feed!r} in the store {self.path} is held by {holder}, whose lease ends in "
            f"{remaining:.0f} s unless it is extended: stop that process, or wait",
            holder=str(holder),
        )

    @staticmethod
    def _is_gone(holder: Holder, current: Holder) -> bool:
        """Return whether the holder has certainly ended, given that this process has the lock of the file."""
        if not current.shares_locks_with(holder):
            return False
        if holder.lock and holder.lock == current.lock:
            return True
        # The holder locked another lock file, which was removed afterwards: the holder may still run.
        return holder.is_gone(current) or (holder.host, holder.pid) == (current.host, current.pid)
