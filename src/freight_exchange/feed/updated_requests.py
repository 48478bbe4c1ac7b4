"""Calls of a feed: the requests updated in a window, page by page (service document, 4.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from freight_exchange import wire
from freight_exchange.endpoints.requests import SEARCH
from freight_exchange.endpoints.service import Reported
from freight_exchange.models import SearchType

if TYPE_CHECKING:
    from freight_exchange.endpoints.service import Service
    from freight_exchange.models import RateRequest

__all__ = ["UpdatedRequests"]


class UpdatedRequests:
    """Requests of all types updated in a window. All types, since a request that changes its type is not withdrawn."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._reported = Reported()

    async def page(self, number: int, rows: int, window: int) -> wire.Rows[RateRequest]:
        """Fetch one page of the requests updated in the last `window` seconds; `broken` has the unreadable ones."""
        parameters = wire.encode_list_parameters(type=SearchType.ALL, seconds=window)
        listed = SEARCH._replace(operation="feed", parameters=parameters)
        return await self._service.page(listed, number, rows, self._reported)

    async def find(self, index: int) -> RateRequest | None:
        """Return the request with this index, or `None` if the service denies it."""
        return await self._service.find(SEARCH, index)
