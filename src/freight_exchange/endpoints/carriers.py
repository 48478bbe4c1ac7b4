"""Carriers (service document, 4.11)."""

from __future__ import annotations

from operator import attrgetter

from freight_exchange import wire
from freight_exchange.endpoints.shared.conventions import Listed
from freight_exchange.endpoints.shared.service import Service
from freight_exchange.models import Carrier
from freight_exchange.paging import Paginator

__all__ = ["Carriers"]

_LISTED = Listed("carriers.list", "GET", "carrier", paged=False)
_index = attrgetter("index")


class Carriers:
    """Carriers: `exchange.carriers`."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def list(self) -> Paginator[Carrier]:
        """List the carriers (service document, 4.11).

        It is one request, since the document shows no pages.

        Iteration raises `NotFoundError` if nothing is at that address, and `DecodeError` if the reply has no such list.
        """
        return self._service.listing(_LISTED, wire.CARRIERS, _index, page_size=None, window=1, sweep=False)

    async def get(self, index: int) -> Carrier:
        """Return the carrier with this index (service document, 4.11).

        Raises:
            ValidationError: The index is not a positive integer.
            NotFoundError: There is no such carrier.
            DecodeError: The carrier cannot be read.
        """
        return await self._service.lookup(_LISTED, index, wire.CARRIERS, _index)
