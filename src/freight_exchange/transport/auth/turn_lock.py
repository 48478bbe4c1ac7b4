"""One process at a time logs in: a lock of the operating system's, which it takes back however the holder ends."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import weakref
from pathlib import Path
from typing import Final, Self

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = ["TurnLock"]

# A link is not followed, and a pipe that somebody put there is not waited for.
_FLAGS: Final = (
    os.O_RDWR
    | os.O_CREAT
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOINHERIT", 0)
)
_MOST_TRIES: Final = 10
_HELD: Final = {errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK}


class TurnLock:
    """Held until it is closed, or forgotten, or the process is gone."""

    def __init__(self, file: int) -> None:
        """Of an open and locked file; a negative one holds nothing."""
        self._file = file
        _of_this_process.add(self)

    @classmethod
    def take(cls, path: Path) -> Self | None:
        """The lock, or `None` if another holds it.

        Raises:
            OSError: There can be none here.
        """
        for _ in range(_MOST_TRIES):
            lock = cls(os.open(path, _FLAGS, 0o600))
            try:
                lock._check_owner()
                if not lock._locked():
                    lock.close()
                    return None
                # Somebody may have removed the file in between: a lock on it keeps nobody out.
                if os.path.samestat(os.fstat(lock._file), path.lstat()):
                    return lock
            except FileNotFoundError:
                pass
            except BaseException:
                lock.close()
                raise
            lock.close()
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    @property
    def held(self) -> bool:
        return self._file >= 0

    def close(self) -> None:
        """Give it back. The file stays: who removed it could remove one that another has just locked."""
        if self._file >= 0:
            file, self._file = self._file, -1
            with contextlib.suppress(OSError):
                os.close(file)

    # Whoever was to have it may have left while a thread was taking it.
    __del__ = close

    def _check_owner(self) -> None:
        # Whoever it belongs to can hold it for ever, and have everybody else wait.
        if hasattr(os, "geteuid") and os.fstat(self._file).st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "the lock belongs to another user")

    def _locked(self) -> bool:
        try:
            if sys.platform == "win32":
                msvcrt.locking(self._file, msvcrt.LK_NBLCK, 1)
            else:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in _HELD:
                return False
            raise
        return True


_of_this_process: Final[weakref.WeakSet[TurnLock]] = weakref.WeakSet()


def _forget() -> None:
    """A fork shares its parent's locks, and would hold them on when the parent is gone."""
    for lock in list(_of_this_process):
        lock.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
