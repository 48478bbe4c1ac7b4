"""Journal of a file of requests: the state of each row, and the account's requests that existed before."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, TypeAlias

from freight_exchange.bulk.request_file import Row
from freight_exchange.errors import ConfigurationError
from freight_exchange.models import Listing, RateRequest

__all__ = ["Journal", "State"]

State: TypeAlias = Literal["sending", "published", "refused"]
"""State of a row. `sending` is written before the request is sent, and stays if the outcome is unknown."""


class Journal:
    """Journal of one file, one account and one exchange: an SQLite file, synced at each step.

    Use it as a context manager, which closes it. One process uses it at a time.

    Args:
        path: The file of the journal.
        owner: The account and the exchange, in any words. The journal of another owner is refused, since its published
            rows are not published here.

    Raises:
        ConfigurationError: The journal belongs to another owner, another process uses it, or it cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str], owner: str) -> None:
        self.path = Path(path)
        self._owner = owner
        self._connection = sqlite3.connect(path, isolation_level=None, timeout=0)
        try:
            self._open()
        except sqlite3.Error as error:
            self._connection.close()
            raise ConfigurationError(f"the journal {path} cannot be used: {error}") from None
        except BaseException:
            self._connection.close()
            raise

    def _open(self) -> None:
        run = self._connection.execute
        # The lock is held until the connection closes, as two processes would publish a row twice.
        run("PRAGMA locking_mode = EXCLUSIVE")
        run("BEGIN EXCLUSIVE")
        run("CREATE TABLE IF NOT EXISTS row (key TEXT PRIMARY KEY, state TEXT, request INTEGER, commodity TEXT)")
        run("CREATE TABLE IF NOT EXISTS own (request INTEGER PRIMARY KEY)")
        run("CREATE TABLE IF NOT EXISTS owner (owner TEXT)")
        stored = run("SELECT owner FROM owner").fetchone()
        if stored is None and not run("SELECT count(*) FROM row").fetchone()[0]:
            run("INSERT INTO owner VALUES (?)", (self._owner,))
        elif stored != (self._owner,):
            raise ConfigurationError(
                f"{self.path} is the journal of {stored[0] if stored else 'an unnamed account'}, not of {self._owner}: "
                "publish there from a copy of the file with another name"
            )
        run("COMMIT")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def state(self, row: Row) -> State | None:
        """Return the state of a row, or `None` before it is sent."""
        found = self._connection.execute("SELECT state FROM row WHERE key = ?", (row.key,)).fetchone()
        return None if found is None else found[0]

    def write(self, row: Row, state: State, record: RateRequest | Listing | None = None) -> None:
        """Write the state of a row, with the record that shows its request, if any."""
        request, commodity = (None, None) if record is None else (record.index, record.commodity)
        self._connection.execute("INSERT OR REPLACE INTO row VALUES (?, ?, ?, ?)", (row.key, state, request, commodity))

    def remove(self, row: Row) -> None:
        """Remove the state of a row whose request was not published."""
        self._connection.execute("DELETE FROM row WHERE key = ?", (row.key,))

    def write_own(self, own: Iterable[Listing]) -> None:
        """Replace the stored requests of the account; one that is gone must not exclude a new request."""
        run = self._connection.execute
        run("BEGIN")
        run("DELETE FROM own")
        self._connection.executemany("INSERT OR IGNORE INTO own VALUES (?)", [(listing.index,) for listing in own])
        run("COMMIT")

    def baseline(self) -> Sequence[Listing]:
        """Return the account's requests that are surely not the one in doubt."""
        known = self._connection.execute(
            "SELECT request FROM own UNION SELECT request FROM row WHERE request IS NOT NULL"
        )
        return [Listing(index=index) for (index,) in known]

    def published(self) -> set[tuple[int, str | None]]:
        """Return the index and commodity of each published request."""
        return {*self._connection.execute("SELECT request, commodity FROM row WHERE state = 'published'")}

    def foreign_exchange_error(self) -> ConfigurationError:
        """Return the error for an exchange that has none of the published requests."""
        return ConfigurationError(
            f"{self.path} has {len(self.published())} published rows, and {self._owner} has none of these requests: "
            "the exchange was reset, or all of them are gone. Put the rows that are still to be published into a file "
            "with another name"
        )
