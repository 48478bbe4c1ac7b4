"""Locks by key: one task at a time for each."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

__all__ = ["KeyedLocks"]


class KeyedLocks:
    """Locks by key, kept only while they are held or waited for."""

    def __init__(self) -> None:
        self._locks: dict[int, anyio.Lock] = {}

    @asynccontextmanager
    async def hold(self, key: int) -> AsyncIterator[None]:
        """Hold the lock of a key."""
        lock = self._locks.setdefault(key, anyio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.statistics().tasks_waiting and not lock.locked():
                self._locks.pop(key, None)

    async def wait_released(self) -> None:
        """Wait until each lock that is held now has been released."""
        for key in [*self._locks]:
            async with self.hold(key):
                pass
