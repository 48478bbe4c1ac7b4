"""A feed's state in a file: it holds what it said after `kill -9`, a full disk and a loss of power.

Needs nothing but the standard library's `sqlite3`.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from freight_exchange.errors import ConfigurationError, HeldError, StoreError
from freight_exchange.store.lock import FileLock, Holder
from freight_exchange.store.protocol import HeldHereError
from freight_exchange.store.sqlite import feed_sql
from freight_exchange.store.sqlite.diagnostics import telling, unbroken, usable
from freight_exchange.store.sqlite.feed import SQLiteFeed, transaction
from freight_exchange.store.sqlite.inspect import reading
from freight_exchange.store.sqlite.schema import prepare, sound
from freight_exchange.store.sqlite.wal_check import log_of

if TYPE_CHECKING:
    from freight_exchange.store.protocol import Binding

__all__ = ["SQLiteStore"]

_MEMORY: Final = ":memory:"
_BUSY_TIMEOUT: Final = 5.0


class SQLiteStore:
    """Keeps the state of feeds in one SQLite file, which one process at a time may hold; a lock file lies beside it.

    Nothing is touched before the first `open`. From then until its last feed is released the file is held; a holder
    that died on this host holds nothing. The file belongs on a disk of this machine: over a network, locks and
    shared memory are not to be relied on.
    """

    def __init__(self, path: str | os.PathLike[str], *, inline: bool = False) -> None:
        """
        Args:
            path: The file, made if there is none; `:memory:` keeps the state in memory, for tests.
            inline: Call it in the loop itself instead of in a worker thread, for tests under virtual time.

        Raises:
            ConfigurationError: That is no path.
        """
        self.inline = inline
        given = os.fsdecode(path)
        if not given or "\0" in given:
            raise ConfigurationError(f"a store needs the path of a file, not {given!r}")
        # Absolute, and by its real name: a change of directory or a link must not make it another file.
        self.path: Final = given if given == _MEMORY else os.path.realpath(given)
        self._access = threading.Lock()
        self._held: dict[str, SQLiteFeed] = {}
        self._connection: sqlite3.Connection | None = None
        self._dispose: Callable[[], object] | None = None
        self._process = 0
        self._locked_before: Holder | None = None
        self._file: os.stat_result | None = None
        self._log: os.stat_result | None = None
        self._closed = False

    def open(self, binding: Binding, *, lease: float) -> SQLiteFeed:
        with self._access:
            if self._closed:
                raise StoreError(f"the store {self.path} is closed: make another object for it")
            if binding.feed in self._held:
                raise HeldHereError.of(binding.feed)
            with telling(self.path):
                if self._connection is not None:
                    self._check_file()
                connection = self._connection or self._connect()
                try:
                    feed = self._leased(connection, binding, lease)
                    # Not before: it is the first write that makes a log.
                    if self._file is not None and self._log is None:
                        self._log = log_of(Path(self.path)).stat()
                except BaseException:
                    self._let_go()
                    raise
            self._held[binding.feed] = feed
            return feed

    def close(self) -> None:
        with self._access:
            for feed in list(self._held.values()):
                self._give_back(feed)
            self._closed = True
            self._let_go()

    def _connect(self) -> sqlite3.Connection:
        holder, lock = Holder.here(), None
        with contextlib.ExitStack() as undo:
            if self.path != _MEMORY:
                file = Path(self.path)
                log_is_left = usable(file)
                lock = FileLock(file.with_name(f"{file.name}.lock"), holder)
                undo.callback(lock.close)
                self._locked_before = lock.before
                if log_is_left:
                    unbroken(file)
                    # Whoever can write to a file puts its log into it when he closes it, be it torn or another's.
                    with reading(file) as looking:
                        sound(looking, self.path)
            connection = sqlite3.connect(
                self.path, timeout=_BUSY_TIMEOUT, isolation_level=None, check_same_thread=False
            )
            undo.callback(_closed_quietly, connection)
            prepare(connection, self.path)
            # Who forgets to close the store leaves no lock behind.
            dispose = weakref.finalize(self, undo.pop_all().close)
            dispose.atexit = False
        self._connection, self._dispose, self._process = connection, dispose, holder.pid
        self._file = None if self.path == _MEMORY else Path(self.path).stat()
        return connection

    def _let_go(self) -> None:
        """Close the file, unless a feed of it is held. What is in memory only is closed with the store."""
        if self._held or (self.path == _MEMORY and not self._closed) or self._dispose is None:
            return
        self._dispose()
        self._connection = self._dispose = self._log = None

    def _leased(self, connection: sqlite3.Connection, binding: Binding, lease: float) -> SQLiteFeed:
        holder = Holder.here()
        with transaction(connection, self.path):
            connection.execute(
                "INSERT INTO feed (name, base_url, account, epoch, lease_until) VALUES (?, ?, ?, 0, 0)"
                " ON CONFLICT (name) DO NOTHING",
                (binding.feed, binding.base_url, binding.account),
            )
            number, base_url, account, state, epoch, noted, until = connection.execute(
                "SELECT id, base_url, account, state, epoch, holder, lease_until FROM feed WHERE name = ?",
                (binding.feed,),
            ).fetchone()
            if (base_url, account) != (binding.base_url, binding.account):
                raise StoreError(
                    f"the feed {binding.feed!r} in the store {self.path} belongs to {account} at {base_url}, not to "
                    f"{binding.account} at {binding.base_url}: give another file, or name the feed otherwise"
                )
            self._refuse_if_held_elsewhere(binding, Holder.read(noted), until, holder)
            connection.execute(
                "UPDATE feed SET epoch = ?, holder = ?, lease_until = ? WHERE id = ?",
                (epoch + 1, holder.note(), time.time() + lease, number),
            )
            waiting = feed_sql.unacknowledged(connection, number)
        return SQLiteFeed(self, number, binding.feed, epoch + 1, lease, state, waiting)

    def _refuse_if_held_elsewhere(self, binding: Binding, holder: Holder | None, until: float, us: Holder) -> None:
        left = until - time.time()
        if holder is None or left <= 0 or self._has_decided(holder, us):
            return
        raise HeldError(
            f"the feed {binding.feed!r} in the store {self.path} is held by {holder}, for {left:.0f} s more unless it "
            "goes on: stop that one, or wait",
            holder=str(holder),
        )

    def _has_decided(self, holder: Holder, us: Holder) -> bool:
        """Whether who is noted is gone, for this process has the lock of the file."""
        if not us.shares_locks_with(holder):
            return False
        if self._locked_before is not None and self._locked_before.is_process_of(holder):
            return True
        # It had another lock: somebody has removed that one, and its holder may go on.
        return holder.is_gone(us) or (holder.host, holder.pid) == (us.host, us.pid)

    def _give_back(self, feed: SQLiteFeed) -> None:
        if self._held.get(feed.name) is not feed:
            return
        del self._held[feed.name]
        if self._connection is None or self._process != os.getpid():
            return
        with contextlib.suppress(StoreError), telling(self.path), transaction(self._connection, self.path):
            self._connection.execute(
                "UPDATE feed SET holder = NULL, lease_until = 0 WHERE id = ? AND epoch = ?", (feed.number, feed.epoch)
            )

    @contextlib.contextmanager
    def using(self, feed: SQLiteFeed) -> Iterator[sqlite3.Connection]:
        """The connection for one of its feeds, for one thread at a time."""
        with self._access:
            if self._connection is None or self._held.get(feed.name) is not feed:
                raise StoreError(f"the feed {feed.name!r} was released, or its store {self.path} closed")
            if self._process != os.getpid():
                raise StoreError(f"the store {self.path} was opened by process {self._process}: a fork cannot use it")
            self._check_file()
            yield self._connection

    def _check_file(self) -> None:
        """What is written into a file that was removed, or into its log, is lost without a word."""
        path = Path(self.path)
        if self._file is not None and not _lies_at(path, self._file):
            raise StoreError(
                f"the file of the store {path} was removed or replaced while it was in use: put the old one back, "
                "or start again with what is there now"
            )
        if self._log is not None and not _lies_at(log_of(path), self._log):
            raise StoreError(
                f"the log {log_of(path)} of the store {path} was removed or replaced while it was in use: let this "
                "program end in an orderly way, as after SIGTERM or Ctrl-C, and do not kill it, for only so does what "
                "was committed still reach the file; then start it again"
            )

    def release(self, feed: SQLiteFeed) -> None:
        with self._access:
            self._give_back(feed)
            self._let_go()


def _lies_at(path: Path, noted: os.stat_result) -> bool:
    try:
        return os.path.samestat(noted, path.stat())
    except OSError:
        return False


def _closed_quietly(connection: sqlite3.Connection) -> None:
    with contextlib.suppress(sqlite3.Error):
        connection.close()
