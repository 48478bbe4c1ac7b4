"""Calls of a feed of offers: the shipper's own requests with their offers (service document, 4.7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from freight_exchange import wire
from freight_exchange.endpoints.offers import SEARCH_ALL
from freight_exchange.endpoints.service import Reported

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from freight_exchange.endpoints.service import Service
    from freight_exchange.models import Listing

__all__ = ["OwnOffers"]


class OwnOffers:
    """The shipper's own requests of all states, with the offers on them; `prepare` is awaited before each page."""

    def __init__(self, service: Service, prepare: Callable[[], Awaitable[None]]) -> None:
        self._service = service
        self._prepare = prepare
        self._reported = Reported()

    async def page(self, number: int, rows: int) -> wire.Rows[Listing]:
        """Fetch one page; `broken` has the unreadable requests, `flaws` the unreadable offers."""
        await self._prepare()
        return await self._service.page(SEARCH_ALL, number, rows, self._reported)

    async def find(self, index: int) -> Listing | None:
        """Return the shipper's request with this index, or `None` if the service denies it."""
        return await self._service.find(SEARCH_ALL, index)
