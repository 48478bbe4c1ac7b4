"""A feed's state in memory: it ends with the process."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from freight_exchange.models import RateRequest
    from freight_exchange.transport.clock import Instant

__all__ = ["MemoryStore"]


class MemoryStore:
    """The last state seen of every request, and the moment up to which nothing can have been missed."""

    def __init__(self) -> None:
        self.cover: Instant | None = None
        self._seen: dict[int, RateRequest] = {}

    def last(self, index: int) -> RateRequest | None:
        return self._seen.get(index)

    def remember(self, request: RateRequest) -> None:
        self._seen[request.index] = request
