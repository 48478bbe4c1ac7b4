"""What a feed asks of the service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from freight_exchange.models import RateRequest
    from freight_exchange.wire import Rows

__all__ = ["Source"]


class Source(Protocol):
    """What a feed asks of the service."""

    async def page(self, number: int, rows: int, window: int) -> Rows[RateRequest]:
        """One page of the requests that were updated in the last `window` seconds."""
        ...

    async def find(self, index: int) -> RateRequest | None:
        """The request with this index, or `None` where the service says that there is none."""
        ...
