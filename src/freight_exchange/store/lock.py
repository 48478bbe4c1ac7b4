"""Advisory lock of a store's file; the kernel releases it when the process dies."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from pathlib import Path
from typing import Final

from freight_exchange.errors import HeldError
from freight_exchange.store.holder import Holder
from freight_exchange.store.protocol import HeldHereError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = ["FileLock"]

_LONGEST_NOTE: Final = 4096
_FAR_AWAY: Final = 1 << 30
"""Windows lets nobody read a locked byte: far behind the note about the holder it is in nobody's way."""

_HELD: Final = {errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK}


class FileLock:
    """Held from being made until it is closed, or until the process is gone.

    Attributes:
        previous_holder: Who held it last, by the note in it; `None` where it was made anew.
    """

    def __init__(self, path: Path, holder: Holder) -> None:
        """Take it.

        Raises:
            HeldError: Another holds it.
            OSError: It cannot be made here.
        """
        self._file = _taken(path)
        self._identity = _identity(self._file)
        _of_this_process[self._identity] = self
        self.previous_holder: Final = _noted(self._file)
        note = holder.to_json().encode()
        # Who holds it is only said: without room for the note the lock is as good.
        with contextlib.suppress(OSError):
            os.lseek(self._file, 0, os.SEEK_SET)
            os.ftruncate(self._file, os.write(self._file, note))

    def close(self) -> None:
        """Give it back. The file stays: who removed it could remove one that another has just locked."""
        if self._file >= 0:
            file, self._file = self._file, -1
            # First: the next one of this process may have it at once.
            _of_this_process.pop(self._identity, None)
            with contextlib.suppress(OSError):
                os.close(file)


def _taken(path: Path) -> int:
    while True:
        # Not inherited by programs that this one starts: they would hold it on when this one is gone.
        file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
        try:
            _lock(file, path)
            # Somebody may have removed the file in between: a lock on it keeps nobody out.
            if os.path.samestat(os.fstat(file), path.stat()):
                return file
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(file)
            raise
        os.close(file)


def _lock(file: int, path: Path) -> None:
    try:
        if sys.platform == "win32":
            os.lseek(file, _FAR_AWAY, os.SEEK_SET)
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in _HELD:
            raise
        raise _held(file, path.with_suffix("")) from None


def _held(file: int, store: Path) -> HeldError:
    holder = _noted(file)
    # Not by the note: in containers that share a host's name, each is process 1.
    if _identity(file) in _of_this_process:
        which = "" if holder is None else f" ({holder})"
        return HeldHereError(
            f"the store {store} is open already in this process{which}: feeds of one program share one SQLiteStore "
            "object, each under its own name",
            holder="this process" if holder is None else str(holder),
        )
    who = "another process" if holder is None else str(holder)
    return HeldError(f"the store {store} is held by {who}: stop that one first", holder=who)


def _noted(file: int) -> Holder | None:
    os.lseek(file, 0, os.SEEK_SET)
    return Holder.from_json(os.read(file, _LONGEST_NOTE).decode(errors="replace"))


def _identity(file: int) -> tuple[int, int]:
    there = os.fstat(file)
    return there.st_dev, there.st_ino


_of_this_process: Final[dict[tuple[int, int], FileLock]] = {}


def _forget() -> None:
    """A fork shares its parent's locks, and would hold them on when the parent is gone."""
    for lock in list(_of_this_process.values()):
        lock.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
