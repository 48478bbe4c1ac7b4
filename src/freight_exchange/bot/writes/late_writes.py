"""Writes of processes that have ended, which may still reach the service."""

from __future__ import annotations

import math
from typing import Protocol

import anyio

from freight_exchange.errors import ValidationError

__all__ = ["LateWrites"]


class _Record(Protocol):
    @property
    def key(self) -> str: ...


class LateWrites:
    """Writes that were taken over, for as long as they may still arrive."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    async def wait(self, record: _Record, seconds: float) -> None:
        """Wait while a write may still arrive. During the wait, `check` refuses it."""
        self._until[record.key] = anyio.current_time() + seconds
        await anyio.sleep(seconds)
        self._until.pop(record.key, None)

    def check(self, record: _Record) -> None:
        """Check that a write cannot reach the service any more.

        Raises:
            ValidationError: It may still arrive.
        """
        remaining = self._until.get(record.key, -math.inf) - anyio.current_time()
        if remaining > 0:
            raise ValidationError(
                f"{record} may still arrive for {remaining:.0f} s: look at the service's own pages after that, and"
                " resolve it then",
                field="taken",
            )
