"""The connection of a store to its database, and the leases that use it."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import attrs

from freight_exchange.errors import HeldError, StoreError
from freight_exchange.store.protocol import HeldHereError
from freight_exchange.store.sqlite.diagnostics import check_path, check_wal, translate_errors
from freight_exchange.store.sqlite.inspect import last_holder, read_only
from freight_exchange.store.sqlite.schema import prepare, verify
from freight_exchange.store.sqlite.wal_check import wal_path
from freight_exchange.store.store_lock import StoreLock

__all__ = ["MEMORY", "SQLiteConnection", "StoreLease", "transaction"]

MEMORY: Final = ":memory:"
_BUSY_TIMEOUT: Final = 5.0


@attrs.frozen
class StoreLease:
    """The right to write one feed.

    Attributes:
        feed_id: The feed's row.
        name: The feed's name.
        epoch: The fencing token: each later holder of the feed has a higher one.
        seconds: How long each write extends the lease.
    """

    feed_id: int
    name: str
    epoch: int
    seconds: float


class SQLiteConnection:
    """The connection to one database, open while a feed of it is held, and used by one thread at a time.

    A database in memory stays open until `close`. While a file is open, its lock file keeps other processes out.

    Args:
        path: The file, or `MEMORY`.
        accepts_begun_copy: Whether to open a file whose copy into a database was begun. A bot must not use such a file.

    Attributes:
        path: The file, or `MEMORY`.
        access: A lock. `using`, `release` and `close` take it; the callers of all other methods must hold it.
        leases: The leases held, by feed name.
        lock_inode: The inode of the lock file while the connection is open; 0 in memory.
        is_closed: `close` was called.
    """

    def __init__(self, path: str, *, accepts_begun_copy: bool = False) -> None:
        self.path: Final = path
        self._accepts_begun_copy = accepts_begun_copy
        self.access: Final = threading.Lock()
        self.leases: Final[dict[str, StoreLease]] = {}
        self.lock_inode = 0
        self.is_closed = False
        self._connection: sqlite3.Connection | None = None
        self._dispose: Callable[[], object] | None = None
        self._pid = 0
        self._file: os.stat_result | None = None
        self._wal: os.stat_result | None = None

    def connect(self) -> sqlite3.Connection:
        """Return the open connection, or open it: take the file's lock, check the file, and migrate it."""
        if self._connection is not None:
            self._check_files()
            return self._connection
        with contextlib.ExitStack() as cleanup:
            if self.path != MEMORY:
                file = Path(self.path)
                has_wal = check_path(file)
                lock = _lock(file)
                cleanup.callback(lock.release)
                self.lock_inode = lock.inode
                if has_wal:
                    check_wal(file)
                    # Read-only: a connection that can write merges the log into the file when it closes, even a torn
                    # log or one of another database.
                    with read_only(file) as reader:
                        verify(reader, self.path, accepts_begun_copy=self._accepts_begun_copy)
            connection = sqlite3.connect(
                self.path, timeout=_BUSY_TIMEOUT, isolation_level=None, check_same_thread=False
            )
            cleanup.callback(_close_quietly, connection)
            prepare(connection, self.path, accepts_begun_copy=self._accepts_begun_copy)
            # A store that is garbage-collected without `close` must not keep the lock.
            dispose = weakref.finalize(self, cleanup.pop_all().close)
            dispose.atexit = False
        self._connection, self._dispose, self._pid = connection, dispose, os.getpid()
        self._file = None if self.path == MEMORY else Path(self.path).stat()
        return connection

    def record_wal(self) -> None:
        """Record the identity of the file's log. Call it after a write: the first write creates the log."""
        if self._file is not None and self._wal is None:
            self._wal = wal_path(Path(self.path)).stat()

    def disconnect_if_unused(self) -> None:
        """Close the connection, unless a lease is held or the database is in memory and not closed yet."""
        if self.leases or (self.path == MEMORY and not self.is_closed) or self._dispose is None:
            return
        self._dispose()
        self._connection = self._dispose = self._wal = None

    @contextlib.contextmanager
    def using(self, lease: StoreLease) -> Iterator[sqlite3.Connection]:
        """Yield the connection to the holder of a lease, and hold `access` meanwhile.

        Raises:
            StoreError: The lease was released, the process is a fork, or the file or its log was removed.
        """
        with self.access:
            if self._connection is None or self.leases.get(lease.name) is not lease:
                raise StoreError(f"the feed {lease.name!r} was released, or its store {self.path} closed")
            if self._pid != os.getpid():
                raise StoreError(f"the store {self.path} was opened by process {self._pid}: a fork cannot use it")
            self._check_files()
            yield self._connection

    def release(self, lease: StoreLease) -> None:
        """Give a lease back. Never raises; a lease that is not held is ignored."""
        with self.access:
            self._release(lease)
            self.disconnect_if_unused()

    def close(self) -> None:
        """Give all leases back and close the connection for good. Never raises."""
        with self.access:
            for lease in list(self.leases.values()):
                self._release(lease)
            self.is_closed = True
            self.disconnect_if_unused()

    def _release(self, lease: StoreLease) -> None:
        if self.leases.get(lease.name) is not lease:
            return
        del self.leases[lease.name]
        if self._connection is None or self._pid != os.getpid():
            return
        with contextlib.suppress(StoreError), translate_errors(self.path), transaction(self._connection, self.path):
            self._connection.execute(
                "UPDATE feed SET holder = NULL, lease_until = 0 WHERE id = ? AND epoch = ?",
                (lease.feed_id, lease.epoch),
            )

    def _check_files(self) -> None:
        """Refuse to write into a file or log that was removed: such writes would be lost silently."""
        path = Path(self.path)
        if self._file is not None and not _is_same_file(path, self._file):
            raise StoreError(
                f"the file of the store {path} was removed or replaced while it was in use: put the old one back, "
                "or start again with what is there now"
            )
        if self._wal is not None and not _is_same_file(wal_path(path), self._wal):
            raise StoreError(
                f"the log {wal_path(path)} of the store {path} was removed or replaced while it was in use: stop this "
                "program with SIGTERM or Ctrl-C and do not kill it, because only an orderly end saves what was "
                "committed; then start it again"
            )


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection, path: str) -> Iterator[None]:
    """Commit what is written inside, or roll all of it back if anything raises."""
    with translate_errors(path):
        if connection.in_transaction:
            # The rollback of the previous transaction failed.
            connection.execute("ROLLBACK")
        connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        with translate_errors(path):
            connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
        raise


def _lock(file: Path) -> StoreLock:
    path = file.with_name(f"{file.name}.lock")
    lock = StoreLock.acquire(path)
    if lock is not None:
        return lock
    holder = last_holder(file)
    if StoreLock.is_held_here(path):
        details = "" if holder is None else f" ({holder})"
        raise HeldHereError(
            f"the store {file} is open already in this process{details}: feeds of one program share one SQLiteStore "
            "object, each under its own name",
            holder="this process" if holder is None else str(holder),
        )
    name = "another process" if holder is None else str(holder)
    raise HeldError(f"the store {file} is held by {name}: stop that one first", holder=name)


def _is_same_file(path: Path, expected: os.stat_result) -> bool:
    try:
        return os.path.samestat(expected, path.stat())
    except OSError:
        return False


def _close_quietly(connection: sqlite3.Connection) -> None:
    with contextlib.suppress(sqlite3.Error):
        connection.close()
