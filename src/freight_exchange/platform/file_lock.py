"""Advisory file lock; the kernel releases it when the process dies."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from filelock import BaseFileLock

_ATTEMPTS = 2
"""If the file is removed during an attempt, `filelock` reports it as held; a second attempt locks the new file."""


class FileLock:
    """Exclusive lock on a file, held until `release()`, garbage collection or the end of the process.

    It never waits and follows no symbolic link. The file stays, but may lose its content, so nothing must be kept in
    it. A forked child does not hold the lock of its parent.
    """

    __slots__ = ("_lock",)

    def __init__(self, lock: BaseFileLock | None = None) -> None:
        """Wrap a lock that `acquire` has taken; without a lock, the object has no effect."""
        self._lock = lock

    @classmethod
    def acquire(cls, path: Path, *, private: bool = False) -> Self | None:
        """Lock a file, which is created if it is missing; return `None` if another holder has the lock.

        Args:
            path: The file.
            private: Refuse a file of another user, who could hold the lock forever.

        Raises:
            PermissionError: The file belongs to another user and must be `private`.
            OSError: The file cannot be opened or locked.
        """
        # Imported here, as most programs lock nothing.
        import filelock

        if private:
            _check_owner(path)
        lock = filelock.FileLock(
            path,
            mode=0o600,
            # The lock is taken in a worker thread and released in the loop's thread.
            thread_local=False,
            # A marker file would remain after a process is killed.
            fallback_to_soft=False,
            preserve_lock_file=True,
        )
        for _ in range(_ATTEMPTS):
            with contextlib.suppress(filelock.Timeout):
                lock.acquire(blocking=False)
                break
        else:
            return None
        if private:
            try:
                _check_owner(path)
            except BaseException:
                lock.release()
                raise
        return cls(lock)

    @property
    def is_held(self) -> bool:
        return self._lock is not None and self._lock.is_locked

    def release(self) -> None:
        """Release the lock; a second time does nothing."""
        lock, self._lock = self._lock, None
        if lock is not None:
            with contextlib.suppress(OSError):
                lock.release()


def _check_owner(path: Path) -> None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "the lock is not a regular file")
    if hasattr(os, "geteuid") and found.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "the lock belongs to another user")
