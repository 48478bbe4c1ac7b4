"""Requests of a feed to the service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from freight_exchange.models import RateRequest
    from freight_exchange.wire import Rows

__all__ = ["Source"]


class Source(Protocol):
    """Requests of a feed to the service."""

    async def page(self, number: int, rows: int, window: int) -> Rows[RateRequest]:
        """Return a page of the requests that were updated in the last `window` seconds."""
        ...

    async def find(self, index: int) -> RateRequest | None:
        """Return the request with this index, or `None` if the service has none."""
        ...
