"""Requests of a feed of offers to the service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from freight_exchange.models import Listing
    from freight_exchange.wire import Rows

__all__ = ["OfferSource"]


class OfferSource(Protocol):
    """Requests of a feed of offers to the service."""

    async def page(self, number: int, rows: int) -> Rows[Listing]:
        """Return a page of the account's requests with their offers."""
        ...

    async def find(self, index: int) -> Listing | None:
        """Return the account's request with this index, or `None` if the service has none."""
        ...
