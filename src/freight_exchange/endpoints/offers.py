"""Offers, as the shipper sees them (service document, 4.6 to 4.8)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, TypeVar

from freight_exchange import validation, wire
from freight_exchange.endpoints.service import Listed, Service, index_of
from freight_exchange.models import Listing, Offer, OffersType, Respond
from freight_exchange.paging import Paginator
from freight_exchange.wire import encoder

R = TypeVar("R")
Kind: TypeAlias = wire.Kind[Listing]

_LIST = Listed("offers.list", "GET", "quote/offer", wire.OFFERS)
_SEARCH = Listed("offers.search", "POST", "quote/getoffers", wire.OFFERS)
SEARCH_ALL = _SEARCH._replace(parameters=wire.encode_list_parameters(type=OffersType.ALL))
"""The shipper's own requests of all states, with their offers."""

_LOOKUPS = {"quote/offer": _LIST, "quote/getoffers": SEARCH_ALL}


class Offers:
    """Offers on the shipper's own requests: `exchange.offers`."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def list(self, *, page_size: int | None = None, window: int = 1, sweep: bool = False) -> Paginator[Listing]:
        """List the shipper's requests, each with its offers (service document, 4.6)."""
        return self._service.listing(_LIST, page_size, window, sweep)

    async def get(self, index: int) -> Listing:
        """Return the shipper's request with this index and its offers (service document, 4.6 or 4.7).

        If a middlebox drops the bodies of GETs, `addresses={"get_offer": "quote/getoffers"}` uses POST.
        """
        return await self._service.lookup(_LOOKUPS[self._service.conventions.addresses["get_offer"]], index)

    def search(
        self,
        *,
        type: OffersType | str = OffersType.ALL,
        page_size: int | None = None,
        window: int = 1,
        sweep: bool = False,
    ) -> Paginator[Listing]:
        """List the shipper's requests by the state of their offers (service document, 4.7).

        Args:
            type: `all`; `offers`: with an offer; `sel`: with a selected offer; `nsel`: without a selected offer.
            page_size, window, sweep: As `Paginator` has them.
        """
        word = validation.member_of(OffersType)(type, "type")
        listed = _SEARCH._replace(parameters=wire.encode_list_parameters(type=word))
        return self._service.listing(listed, page_size, window, sweep)

    async def approve(self, offer: Offer | int) -> Listing:
        """Accept an offer, given as the record or its id (service document, 4.8).

        The returned listing has the forwarder's contact and company. The forwarder receives the shipper's.

        Raises:
            ValidationError: `offer` has no identifier, or it is not a positive integer; nothing was sent.
            OutcomeUnknownError: The offer may or may not have been accepted; `reconcile()` finds out.
            BadRequestError: The service found the approval invalid.
        """
        return await self._respond(offer, True, wire.decode_one)

    async def decline(self, offer: Offer | int) -> Listing | None:
        """Decline an offer, as `approve` accepts one (service document, 4.8).

        The document does not show the reply (section 3): the result is `None` if it has no listing.
        """
        return await self._respond(offer, False, wire.decode_optional)

    async def _respond(self, offer: Offer | int, approved: bool, decode: Callable[[object, Kind], R]) -> R:
        request = offer.request if isinstance(offer, Offer) else None
        write = Respond(index_of(offer, "offer", Offer), approved, request)
        body = encoder.encode_response(write.offer, write.approved)
        address = self._service.conventions.addresses["approve"]
        return await self._service.write(write, "POST", address, body, decode, wire.OFFERS)
