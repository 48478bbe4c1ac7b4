"""State of an exchange in one SQLite file, written before each reply is sent.

The file contains rate requests, offers, routes and the profile. It does not contain tokens (a restart ends all logins,
as at a real server), armed faults, or the audit log, which covers one run only.
"""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from random import Random
from typing import Any, Final

from freight_exchange.sandbox.core.database import Database
from freight_exchange.sandbox.core.exchange import Exchange
from freight_exchange.sandbox.core.sorter import Sorter
from freight_exchange.sandbox.core.state_records import check_references, decode_record, encode_record
from freight_exchange.sandbox.model.profile import Profile
from freight_exchange.sandbox.model.state import Table

__all__ = ["StateError", "StateFile"]

APPLICATION_ID: Final = 0x46_58_53_42
"""Identity of the file for the program `file` and for `PRAGMA application_id`: FXSB."""
VERSION: Final = 1
# A shorter file is not a database, but SQLite treats a file of one byte as an empty database, and would overwrite it.
_MAGIC: Final = b"SQLite format 3\0"

_TABLES: Final = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    """
    CREATE TABLE record (
        kind TEXT NOT NULL,
        "index" INTEGER NOT NULL,
        position INTEGER NOT NULL,
        time REAL NOT NULL,
        body TEXT NOT NULL,
        checksum INTEGER NOT NULL,
        PRIMARY KEY (kind, "index")
    ) WITHOUT ROWID
    """,
)
_PUT: Final = "INSERT OR REPLACE INTO record VALUES (?, ?, ?, ?, ?, ?)"
_KINDS: Final[Mapping[str, Callable[[Database], Table[Any]]]] = {
    "request": lambda database: database.requests,
    "offer": lambda database: database.offers,
    "route": lambda database: database.routes,
}


class StateError(Exception):
    """The state file cannot be used, or can be used no longer. The message is a sentence for its user."""


class StateFile:
    """State file, locked by one process from opening until closing."""

    def __init__(self, path: Path) -> None:
        """Open the file, or create it.

        Raises:
            StateError: It belongs to another program or a newer version, is damaged or in use, or cannot be written.
        """
        self._path = path
        # An absolute path, since the working directory may change, and `:memory:` is not a file for SQLite.
        self._absolute = path.absolute()
        self._position = 0
        self._saved: dict[str, dict[int, int]] = {kind: {} for kind in _KINDS}
        self._profile = Profile()
        found = self._stat()
        if found is not None and 0 < found.st_size < len(_MAGIC):
            raise self._foreign()
        try:
            self._connection = sqlite3.connect(self._absolute, timeout=0, isolation_level=None)
        except sqlite3.Error as error:
            raise self._error_from(error) from error
        try:
            self._open()
            self._opened = self._stat()
        except BaseException:
            self._connection.close()
            raise

    def _open(self) -> None:
        run = self._connection.execute
        try:
            # The first transaction takes the lock; the kernel releases it when the process dies.
            run("PRAGMA locking_mode = EXCLUSIVE")
            run("PRAGMA synchronous = FULL")
            run("BEGIN EXCLUSIVE")
            if self._is_new():
                for statement in _TABLES:
                    run(statement)
                run(f"PRAGMA application_id = {APPLICATION_ID}")
                run(f"PRAGMA user_version = {VERSION}")
            run("COMMIT")
        except sqlite3.Error as error:
            raise self._error_from(error) from error

    def _stat(self) -> os.stat_result | None:
        """Return the status of the file at the path now."""
        try:
            return self._absolute.stat()
        except OSError:
            return None

    def _is_new(self) -> bool:
        application, version = self._number("PRAGMA application_id"), self._number("PRAGMA user_version")
        if application != APPLICATION_ID:
            if self._number("SELECT count(*) FROM sqlite_master"):
                raise StateError(f"{self._path} is another program's database: give another file.")
            return True
        if version > VERSION:
            raise StateError(f"{self._path} was written by a newer version: upgrade, or give another file.")
        (found,) = self._connection.execute("PRAGMA integrity_check(1)").fetchone()
        if found != "ok":
            raise self._damaged(str(found).splitlines()[-1])
        return False

    def _number(self, query: str) -> int:
        (value,) = self._connection.execute(query).fetchone()
        return int(value)

    def restore(self, exchange: Exchange, seed: int | None) -> bool:
        """Load the file into a new exchange, and return whether it contained anything.

        `seed` determines orders and tokens, and a file keeps its first seed. Without a seed, tokens are unique.

        Raises:
            StateError: The file is damaged, or was created with another seed.
        """
        try:
            meta = dict(self._connection.execute("SELECT name, value FROM meta"))
            rows = self._connection.execute(
                'SELECT kind, "index", position, time, body, checksum FROM record ORDER BY position'
            ).fetchall()
        except sqlite3.Error as error:
            raise self._error_from(error) from error
        try:
            stored_seed = json.loads(meta.get("seed", "null"))
            salt = json.loads(meta.get("salt", '""'))
            run = int(meta.get("run", "0")) + 1
            profile = Profile(**json.loads(meta.get("profile", "{}")))
            self._read(exchange.database, rows)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise self._damaged(f"this version cannot read it: {error}") from error
        if stored_seed is not None and seed is not None and stored_seed != seed:
            raise StateError(f"{self._path} began with the seed {stored_seed}: leave --seed out, or give another file.")
        chosen = stored_seed if stored_seed is not None else seed or 0
        if stored_seed is None and seed is None:
            salt = secrets.token_hex(16)
        exchange.profile = self._profile = profile
        exchange.database.sorter = Sorter(chosen)
        # Tokens must not recur in the next run, where they could belong to another account.
        exchange.database.random = Random(f"{chosen} {run} {salt}")
        self._write([], {"seed": chosen, "salt": salt, "run": run})
        return bool(rows) or profile != Profile()

    def _read(self, database: Database, rows: Iterable[tuple[str, int, int, float, str, int]]) -> None:
        found: dict[str, list[tuple[float, Any]]] = {kind: [] for kind in _KINDS}
        for kind, index, position, time, body, checksum in rows:
            if zlib.crc32(body.encode()) != checksum:
                raise ValueError(f"{kind} {index} is torn")
            record = decode_record(kind, body)
            if record.index != index:
                raise ValueError(f"{kind} {record.index} is stored under the number {index}")
            found[kind].append((time, record))
            self._position = position
        if not found["route"]:
            found["route"] = [(time, route) for _, _, time, route in reversed(list(database.routes.latest()))]
        else:
            self._saved["route"] = {route.index: 1 for _, route in found["route"]}
        database.restore(found["request"], found["offer"], found["route"])
        check_references(database)
        for kind in ("request", "offer"):
            self._saved[kind] = {record.index: 1 for _, record in found[kind]}

    def save(self, exchange: Exchange) -> None:
        """Write all changes in one transaction.

        Raises:
            StateError: The file cannot be written.
        """
        rows: list[tuple[str, int, float, str]] = []
        seen: list[tuple[str, int, int]] = []
        for kind, table in _KINDS.items():
            known, changed = self._saved[kind], []
            for index, versions, time, record in table(exchange.database).latest():
                # The newest changes come first: after a saved record, all are saved.
                if known.get(index) == versions:
                    break
                changed.append((kind, index, time, encode_record(record)))
                seen.append((kind, index, versions))
            rows += reversed(changed)
        profile = exchange.profile
        if not rows and profile is self._profile:
            return
        self._write(rows, {"profile": _changed_quirks(profile)})
        for kind, index, versions in seen:
            self._saved[kind][index] = versions
        self._profile = profile

    def _write(self, rows: list[tuple[str, int, float, str]], meta: Mapping[str, object]) -> None:
        found = self._stat()
        if found is None or self._opened is None or not os.path.samestat(found, self._opened):
            raise StateError(
                f"{self._path} was removed or replaced while it was in use, so changes can no longer be saved."
            )
        numbered = enumerate(rows, self._position + 1)
        run = self._connection
        try:
            run.execute("BEGIN IMMEDIATE")
            run.executemany(
                _PUT,
                [
                    (kind, index, position, time, body, zlib.crc32(body.encode()))
                    for position, (kind, index, time, body) in numbered
                ],
            )
            run.executemany(
                "INSERT OR REPLACE INTO meta VALUES (?, ?)",
                [(name, json.dumps(value)) for name, value in meta.items()],
            )
            run.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._error_from(error) from error
        self._position += len(rows)

    def close(self) -> None:
        """Close and unlock the file."""
        self._connection.close()

    def _error_from(self, error: sqlite3.Error) -> StateError:
        code = getattr(error, "sqlite_errorcode", None)
        match None if code is None else code & 0xFF:
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                return StateError(f"{self._path} is in use by another process: stop that one, or give another file.")
            case sqlite3.SQLITE_NOTADB:
                return self._foreign()
            case sqlite3.SQLITE_CORRUPT:
                return self._damaged(str(error))
            case _:
                return StateError(f"{self._path} cannot be used: {error}.")

    def _foreign(self) -> StateError:
        return StateError(f"{self._path} is not a file of the sandbox: give another file.")

    def _damaged(self, damage: str) -> StateError:
        return StateError(f"{self._path} is damaged ({damage}): put a copy of it back, or give another file.")


def _changed_quirks(profile: Profile) -> Mapping[str, object]:
    """Return the quirks that differ from the documented behaviour."""
    return {
        knob.name: getattr(profile, knob.name)
        for knob in Profile.knobs()
        if getattr(profile, knob.name) != knob.default
    }
