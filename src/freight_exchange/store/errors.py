"""Errors of a store, and the errors of SQLite and the system as sentences with advice."""

from __future__ import annotations

import errno
import os
import sqlite3
from typing import Final

from freight_exchange.errors import FencedError, HeldError, StoreError


class ConflictError(StoreError):
    """A write met writes of other replicas again and again. Nothing was written; the call may be repeated."""


class StoreRefusedError(StoreError):
    """The database refuses the login, or this user lacks a right. This may pass. Nothing was written."""


class HeldHereError(HeldError):
    """This process itself holds the store or the feed: waiting for it might never end."""


class LockedError(HeldError):
    """Another program keeps the file locked. Nothing was written."""


class RestoredError(FencedError):
    """The database lacks commits of this replica. Join again, and read the account's bids before any offer."""


_FULL: Final = "has no room left: make room on its disk; the write that failed is not in it, everything else is"
_FORBIDDEN: Final = "cannot be written to: give this user the right to write the file and its directory"

_BY_CODE: Final = {
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_READONLY: _FORBIDDEN,
    sqlite3.SQLITE_PERM: _FORBIDDEN,
    sqlite3.SQLITE_CANTOPEN: _FORBIDDEN,
    sqlite3.SQLITE_IOERR: "could not be read or written: its disk is full or failing; check it, then start again",
    sqlite3.SQLITE_NOTADB: "is not a database, or its first page is damaged: give another path, or move the file away",
}
_BY_ERRNO: Final = dict.fromkeys((errno.ENOSPC, errno.EDQUOT), _FULL) | dict.fromkeys(
    (errno.EACCES, errno.EPERM, errno.EROFS), _FORBIDDEN
)


def from_sqlite(error: Exception, path: str) -> StoreError:
    """Describe an error of SQLite, of the system, or of a value that SQLite cannot keep."""
    if isinstance(error, OSError):
        name = path if error.filename is None else os.fsdecode(error.filename)
        subject = f"the store {path}" if name == path else f"{name}, which the store {path} needs,"
        advice = _BY_ERRNO.get(error.errno or 0, "cannot be opened")
        return StoreError(f"{subject} {advice} ({error.strerror or error})")
    code = getattr(error, "sqlite_errorcode", None)
    primary = None if code is None else code & 0xFF
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return LockedError(
            f"the store {path} is locked by another program that has it open: close that one", holder="another program"
        )
    if primary in _BY_CODE:
        return StoreError(f"the store {path} {_BY_CODE[primary]} ({error})")
    is_value = primary in (sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_TOOBIG)
    if is_value or isinstance(error, (OverflowError, UnicodeEncodeError, sqlite3.InterfaceError)):
        return StoreError(f"the store {path} cannot keep a value that it was given: {error}")
    if primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR):
        return damage(path, str(error))
    return StoreError(f"the store {path} failed: {error}")


def damage(path: str, details: str) -> StoreError:
    """Describe a damaged file, and how to replace it."""
    return StoreError(
        f"the store {path} is damaged ({details}): move it away, with {path}-wal if there is one; then put a copy back,"
        " or start with an empty store"
    )
