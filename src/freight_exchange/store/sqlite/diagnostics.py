"""Errors of SQLite and the system as `StoreError`s with advice, and checks before a file is opened."""

from __future__ import annotations

import errno
import os
import re
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from freight_exchange.errors import StoreError
from freight_exchange.store.sqlite.schema import damage_error
from freight_exchange.store.sqlite.wal_check import find_damage, leftover_wal, wal_path

__all__ = ["check_path", "check_wal", "translate_errors"]

_FULL: Final = "has no room left: make room on its disk; the write that failed is not in it, everything else is"
_FORBIDDEN: Final = "cannot be written to: give this user the right to write the file and its directory"
_FAILING: Final = "could not be read or written because its disk is full or failing: check the disk, then start again"
_BUSY: Final = "is locked by another program that has it open: close that one"
_NOT_A_DATABASE: Final = "is not a database: give another path, or move the file away"

_BY_CODE: Final = {
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_READONLY: _FORBIDDEN,
    sqlite3.SQLITE_PERM: _FORBIDDEN,
    sqlite3.SQLITE_AUTH: _FORBIDDEN,
    sqlite3.SQLITE_CANTOPEN: "cannot be opened: give this user the right to write the file and its directory",
    sqlite3.SQLITE_IOERR: _FAILING,
    sqlite3.SQLITE_BUSY: _BUSY,
    sqlite3.SQLITE_LOCKED: _BUSY,
    sqlite3.SQLITE_NOTADB: _NOT_A_DATABASE,
}

_BY_ERRNO: Final = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EACCES: _FORBIDDEN,
    errno.EPERM: _FORBIDDEN,
    errno.EROFS: _FORBIDDEN,
    errno.EIO: _FAILING,
    errno.EISDIR: "is a directory: move it away",
}

_MOUNTS: Final = Path("/proc/self/mountinfo")
"""The mounts of Linux, one a line: https://man7.org/linux/man-pages/man5/proc_pid_mountinfo.5.html"""

_MAGIC: Final = b"SQLite format 3\0"
_HEADER_SIZE: Final = 100


@contextmanager
def translate_errors(path: str) -> Iterator[None]:
    """Raise a `StoreError` for any error of SQLite or the system inside."""
    try:
        yield
    except sqlite3.Error as error:
        raise _from_sqlite(error, path) from error
    except OSError as error:
        advice = _BY_ERRNO.get(error.errno or 0, "cannot be opened")
        raise StoreError(f"{_subject(error, path)} {advice} ({error.strerror or error})") from error
    except (OverflowError, UnicodeEncodeError) as error:
        raise StoreError(f"the store {path} cannot keep a value that it was given: {error}") from error


def _subject(error: OSError, path: str) -> str:
    """Name the file that the error is about: the store's own file, or another one such as its lock."""
    name = None if error.filename is None else os.fsdecode(error.filename)
    return f"the store {path}" if name in (None, path) else f"{name}, which the store {path} needs,"


def _from_sqlite(error: sqlite3.Error, path: str) -> StoreError:
    # Errors of the Python module itself have no code, e.g. for text that is not UTF-8.
    code = getattr(error, "sqlite_errorcode", None)
    primary = None if code is None else code & 0xFF
    if primary == sqlite3.SQLITE_NOTADB and leftover_wal(path) is not None:
        # Perhaps a store whose first page is damaged. The advice must include its log.
        return damage_error(path, str(error))
    if primary in _BY_CODE:
        return StoreError(f"the store {path} {_BY_CODE[primary]} ({error})")
    if primary in (sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_TOOBIG) or isinstance(error, sqlite3.InterfaceError):
        return StoreError(f"the store {path} cannot keep a value that it was given: {error}")
    if primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR) or isinstance(error, sqlite3.OperationalError):
        return damage_error(path, str(error))
    return StoreError(f"the store {path} failed: {error}")


def check_path(path: Path) -> bool:
    """Refuse a path at which no store can be, before anything is created.

    Returns:
        Whether a log is left. Without its log the file may be incomplete.

    Raises:
        StoreError: No store can be there.
        OSError: The path cannot be examined.
    """
    status = _stat(path)
    if status is not None and stat.S_ISDIR(status.st_mode):
        raise StoreError(f"the store {path} is a directory: give the path of a file in it")
    if status is not None and not stat.S_ISREG(status.st_mode):
        raise StoreError(f"the store {path} is a device, a pipe or a socket: give the path of a file on a disk")
    if not path.parent.is_dir():
        raise StoreError(f"the store {path} cannot be made: there is no directory {path.parent}, make it first")
    _refuse_aliases(path, 0 if status is None else status.st_nlink)
    wal = wal_path(path)
    # The sizes are read in this order because another program may be creating the files: the log comes after the file.
    wal_size, journal_size, size = _size(wal), _size(path.with_name(f"{path.name}-journal")), _size(path)
    if wal_size and size < _HEADER_SIZE:
        # SQLite would make a new database of such a file, and drop the log with the last commits.
        remains = f"cut off at {size} bytes" if size else "gone or empty"
        raise StoreError(
            f"the store {path} is {remains}, but its log {wal} is not: put back the file that belongs to this log, or "
            "move both away, then put a copy back, or start with an empty store"
        )
    # A file with a log or journal may be complete only together with it: SQLite checks that.
    if size and not wal_size and not journal_size:
        _check_size(path, size)
    return wal_size > 0


def check_wal(path: Path) -> None:
    """Refuse a store whose log is damaged in the middle: SQLite would silently drop the commits after that.

    Raises:
        StoreError: The log is damaged, and commits follow the damage.
        OSError: It cannot be read.
    """
    wal = wal_path(path)
    try:
        file = wal.open("rb")
    except FileNotFoundError:
        # Its holder merged it into the file in the meantime.
        return
    with file:
        offset = find_damage(file)
    if offset is not None:
        raise StoreError(
            f"the store {path} is damaged (its log {wal} is broken at byte {offset}, and more was committed after "
            "that): move both away, then put a copy back, or start with an empty store"
        )


def _refuse_aliases(path: Path, link_count: int) -> None:
    """Refuse a file with several names: under another name it has another lock file, and lacks its log."""
    if link_count > 1:
        raise StoreError(
            f"the store {path} is one file with {link_count} names (hard links): keep the name beside its log and its "
            "lock, and remove the others, or make copies of them"
        )
    if _is_mounted(path):
        raise StoreError(
            f"the store {path} is mounted as a single file, and its log would stay outside of the mount: mount the "
            "file's folder"
        )


def _is_mounted(path: Path) -> bool:
    try:
        mounts = _MOUNTS.read_bytes()
    except OSError:
        # Not Linux.
        return False
    # mountinfo escapes separators as octal numbers.
    escaped = re.sub(rb"[ \t\n\\]", lambda found: b"\\%03o" % ord(found[0]), os.fsencode(path))
    return any(line.split(b" ")[4:5] == [escaped] for line in mounts.split(b"\n"))


def _check_size(path: Path, size: int) -> None:
    """Refuse files that SQLite accepts silently: one of a single byte, as empty, and one whose last page is cut off."""
    with path.open("rb") as file:
        head = file.read(len(_MAGIC) + 2)
    if not head.startswith(_MAGIC):
        raise StoreError(f"the store {path} {_NOT_A_DATABASE}")
    page_size = int.from_bytes(head[len(_MAGIC) :], "big")
    # The two bytes cannot hold 65536, which is written as 1.
    if size % (65536 if page_size <= 1 else page_size):
        raise damage_error(str(path), f"cut off at {size} bytes")


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _size(path: Path) -> int:
    status = _stat(path)
    return 0 if status is None else status.st_size
