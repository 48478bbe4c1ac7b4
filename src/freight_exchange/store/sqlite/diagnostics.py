"""What SQLite and the operating system say, as sentences that tell an operator what to do."""

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
from freight_exchange.store.sqlite.schema import damaged
from freight_exchange.store.sqlite.wal_check import broken_at, left_beside, log_of

__all__ = ["telling", "unbroken", "usable"]

_FULL: Final = "has no room left: make room on its disk; what was being written is not in it, all else is"
_FORBIDDEN: Final = "cannot be written to: give this user the right to write the file and its directory"
_FAILING: Final = "could not be read or written, its disk is full or failing: look at the disk, then start again"
_BUSY: Final = "is locked by another program that has it open: close that one"
_NO_DATABASE: Final = "is no database: give another path, or move the file away"

_MOUNTS: Final = Path("/proc/self/mountinfo")
"""What is mounted where, one mount a line: https://man7.org/linux/man-pages/man5/proc_pid_mountinfo.5.html"""

_MAGIC: Final = b"SQLite format 3\0"
_HEADER: Final = 100

_BY_CODE: Final = {
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_READONLY: _FORBIDDEN,
    sqlite3.SQLITE_PERM: _FORBIDDEN,
    sqlite3.SQLITE_AUTH: _FORBIDDEN,
    sqlite3.SQLITE_CANTOPEN: "cannot be opened: give this user the right to write the file and its directory",
    sqlite3.SQLITE_IOERR: _FAILING,
    sqlite3.SQLITE_BUSY: _BUSY,
    sqlite3.SQLITE_LOCKED: _BUSY,
    sqlite3.SQLITE_NOTADB: _NO_DATABASE,
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


@contextmanager
def telling(path: str) -> Iterator[None]:
    """Turn what goes wrong with the store at this path into a `StoreError`."""
    try:
        yield
    except sqlite3.Error as error:
        raise _told(error, path) from error
    except OSError as error:
        advice = _BY_ERRNO.get(error.errno or 0, "cannot be opened")
        raise StoreError(f"{_meant(error, path)} {advice} ({error.strerror or error})") from error
    except (OverflowError, UnicodeEncodeError) as error:
        raise StoreError(f"the store {path} cannot keep a value that it was given: {error}") from error


def _meant(error: OSError, path: str) -> str:
    """What the system speaks of: the store's file, or another one, as its lock."""
    name = None if error.filename is None else os.fsdecode(error.filename)
    return f"the store {path}" if name in (None, path) else f"{name}, which the store {path} needs,"


def _told(error: sqlite3.Error, path: str) -> StoreError:
    # Without a code it is the module's own: a text that is none any more, for one.
    code = getattr(error, "sqlite_errorcode", None)
    primary = None if code is None else code & 0xFF
    if primary == sqlite3.SQLITE_NOTADB and left_beside(path) is not None:
        # Another program's, or a store whose first page is broken: what is put in its place must not get its log.
        return damaged(path, str(error))
    if primary in _BY_CODE:
        return StoreError(f"the store {path} {_BY_CODE[primary]} ({error})")
    if primary in (sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_TOOBIG) or isinstance(error, sqlite3.InterfaceError):
        return StoreError(f"the store {path} cannot keep a value that it was given: {error}")
    if primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR) or isinstance(error, sqlite3.OperationalError):
        return damaged(path, str(error))
    return StoreError(f"the store {path} failed: {error}")


def usable(path: Path) -> bool:
    """Refuse a path at which no store can be, before anything is made there.

    Returns:
        Whether a log is left, without which the file may not be whole.

    Raises:
        StoreError: Why it cannot.
        OSError: It cannot be looked at.
    """
    found = _found(path)
    if found is not None and stat.S_ISDIR(found.st_mode):
        raise StoreError(f"the store {path} is a directory: give the path of a file in it")
    if found is not None and not stat.S_ISREG(found.st_mode):
        raise StoreError(f"the store {path} is a device, a pipe or a socket: give the path of a file on a disk")
    if not path.parent.is_dir():
        raise StoreError(f"the store {path} cannot be made: there is no directory {path.parent}, make it first")
    _refuse_other_names(path, 0 if found is None else found.st_nlink)
    log = log_of(path)
    # In this order: another program may be making all three just now, and a log is begun when the file has a page.
    logged, journalled, size = _size(log), _size(path.with_name(f"{path.name}-journal")), _size(path)
    if logged and size < _HEADER:
        # Opening what is less would make a new database of it, or fill it up, and drop the log with the last that was
        # committed.
        how = f"cut off at {size} bytes" if size else "gone or empty"
        raise StoreError(
            f"the store {path} is {how}, but its log {log} is not: put back the very file that it is the log of, or "
            "move both away, then put a copy back, or begin without its memory"
        )
    # Where a log or journal is left, the file may be whole only together with it: SQLite finds out.
    if size and not logged and not journalled:
        _look_at(path, size)
    return logged > 0


def _refuse_other_names(path: Path, names: int) -> None:
    """Log and lock lie beside one name of a file: by another, it is held twice, and lacks what is in its log."""
    if names > 1:
        raise StoreError(
            f"the store {path} is one file by {names} names (hard links): keep the one that its log and its lock lie "
            "beside, and remove the others, or make copies of them"
        )
    if _is_mounted(path):
        raise StoreError(
            f"the store {path} is mounted as a single file, and its log would stay outside of the mount: mount the "
            "folder that the file lies in"
        )


def _is_mounted(path: Path) -> bool:
    try:
        mounts = _MOUNTS.read_bytes()
    except OSError:
        # It is Linux that tells.
        return False
    # What would end a word or a line is told by its number.
    told = re.sub(rb"[ \t\n\\]", lambda found: b"\\%03o" % ord(found[0]), os.fsencode(path))
    return any(line.split(b" ")[4:5] == [told] for line in mounts.split(b"\n"))


def unbroken(path: Path) -> None:
    """Refuse a store that nobody has open, for what its log would lose.

    Raises:
        StoreError: The log is broken, and more was committed behind that: whoever opens it drops that.
        OSError: It cannot be read.
    """
    log = log_of(path)
    try:
        file = log.open("rb")
    except FileNotFoundError:
        # Who had it open has put it into the file since.
        return
    with file:
        at = broken_at(file)
    if at is not None:
        raise StoreError(
            f"the store {path} is damaged (its log {log} is broken at byte {at}, and more was committed behind that): "
            "move both away, then put a copy back, or begin without its memory"
        )


def _look_at(path: Path, size: int) -> None:
    """Tell what SQLite forgives: it takes one byte for an empty file, and fills up a page that is cut short."""
    with path.open("rb") as file:
        head = file.read(len(_MAGIC) + 2)
    if not head.startswith(_MAGIC):
        raise StoreError(f"the store {path} {_NO_DATABASE}")
    page_size = int.from_bytes(head[len(_MAGIC) :], "big")
    # It has no room for 65536, and says 1.
    if size % (65536 if page_size <= 1 else page_size):
        raise damaged(str(path), f"cut off at {size} bytes")


def _found(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _size(path: Path) -> int:
    found = _found(path)
    return 0 if found is None else found.st_size
