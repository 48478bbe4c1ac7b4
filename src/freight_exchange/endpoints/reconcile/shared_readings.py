"""Readings of a listing, shared by all callers that wait when a reading begins."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Generic, TypeVar

import anyio

from freight_exchange.errors import FreightExchangeError

__all__ = ["SharedReadings"]

T = TypeVar("T")


class _Reading(Generic[T]):
    """One reading, from the first caller's wait to its end."""

    def __init__(self) -> None:
        self.ended = anyio.Event()
        self.result: T
        self.succeeded = False
        self.error: FreightExchangeError | None = None


class SharedReadings:
    """Readings of listings, one at a time for each. Callers during a reading share the next one.

    The current reading may be too old for them, since it began before their call. In this way a hundred offers in doubt
    need one or two readings of the bids, not a hundred.
    """

    def __init__(self) -> None:
        self._next: dict[Hashable, _Reading[Any]] = {}
        self._turns: dict[Hashable, anyio.Lock] = {}

    async def read(self, key: Hashable, read: Callable[[], Awaitable[T]]) -> T:
        """Return the result of the next reading under `key`.

        The first caller reads, with its own `read`. If that caller is cancelled, the next one reads.

        Raises:
            FreightExchangeError: The reading failed. All callers that share it receive the error.
        """
        while (reading := self._next.get(key)) is not None:
            await reading.ended.wait()
            if reading.succeeded:
                return reading.result  # type: ignore[no-any-return]  # what is read under one key is of one type
            if reading.error is not None:
                # A copy: one exception raised in many tasks would collect the tracebacks of all.
                raise copy.copy(reading.error)
        return await self._lead(key, read)

    async def _lead(self, key: Hashable, read: Callable[[], Awaitable[T]]) -> T:
        reading = self._next[key] = _Reading[T]()
        try:
            async with self._turns.setdefault(key, anyio.Lock()):
                # The reading begins: later callers share the next one.
                del self._next[key]
                reading.result = await read()
                reading.succeeded = True
                return reading.result
        except FreightExchangeError as error:
            reading.error = error
            raise
        finally:
            if self._next.get(key) is reading:
                del self._next[key]
            reading.ended.set()
