"""Lock that lets only one process at a time use a store's file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, Self

from freight_exchange.platform.file_lock import FileLock

__all__ = ["StoreLock"]

_pid_by_inode: Final[dict[int, int]] = {}
"""The process that locked each lock file. A forked child inherits entries, but not the locks."""


class StoreLock:
    """Exclusive lock of a store, held until `release` or the end of the process.

    Attributes:
        inode: Identifies the lock file. While a holder lives, no other file has this number, even if the lock file is
            removed and made again.
    """

    def __init__(self, lock: FileLock, inode: int) -> None:
        self.inode: Final = inode
        self._lock = lock
        _pid_by_inode[inode] = os.getpid()

    @classmethod
    def acquire(cls, path: Path) -> Self | None:
        """Take the lock; `None` if another holder has it.

        Raises:
            OSError: The lock file cannot be opened.
        """
        lock = FileLock.acquire(path)
        return None if lock is None else cls(lock, path.stat().st_ino)

    @staticmethod
    def is_held_here(path: Path) -> bool:
        """Return whether this process holds the lock."""
        return path.exists() and _pid_by_inode.get(path.stat().st_ino) == os.getpid()

    def release(self) -> None:
        """Release the lock. The lock file stays: another process may lock it just before it would be removed."""
        _pid_by_inode.pop(self.inode, None)
        self._lock.release()
