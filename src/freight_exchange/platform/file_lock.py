"""Advisory file lock; the kernel releases it when the process dies."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from filelock import BaseFileLock


class FileLock:
    """Exclusive lock on a file, held until `release()`, garbage collection or the end of the process.

    It never waits and follows no symbolic link. The file stays, but nothing must be kept in it. A forked child does not
    hold the lock of its parent.
    """

    def __init__(self, lock: BaseFileLock | None = None) -> None:
        """Wrap a lock that `acquire` has taken; without a lock, the object has no effect."""
        self._lock = lock

    @classmethod
    def acquire(cls, path: Path) -> Self | None:
        """Lock a file, which is made if it is missing; return `None` if another holder has it.

        Raises:
            OSError: The file cannot be opened or locked.
        """
        # Imported here, as most programs lock nothing.
        import filelock

        # The lock is taken in a worker thread and released in the loop's; a marker file would outlive a killed process.
        lock = filelock.FileLock(path, mode=0o600, thread_local=False, fallback_to_soft=False, preserve_lock_file=True)
        with contextlib.suppress(filelock.Timeout):
            lock.acquire(blocking=False)
            return cls(lock)
        return None

    def release(self) -> None:
        """Release the lock; a second time does nothing."""
        if self._lock is not None:
            with contextlib.suppress(OSError):
                self._lock.release()
