"""Offers, as the shipper sees them (service document, 4.6 to 4.8)."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

import attrs

from freight_exchange import wire
from freight_exchange.endpoints.service import Listed, index_of
from freight_exchange.models import Listing, Offer, OffersType, validation
from freight_exchange.models.writes import Respond

if TYPE_CHECKING:
    from freight_exchange.endpoints.service import Service
    from freight_exchange.paging import Paginator

__all__ = ["Offers"]

_index = attrgetter("index")


@attrs.frozen(eq=False)
class Offers:
    """`exchange.offers`."""

    _service: Service = attrs.field(repr=False)

    def list(
        self, *, page_size: int | None = None, window: int = 1, sweep: bool = False
    ) -> Paginator[Listing]:
        """The shipper's requests, each with its offers (service document, 4.6).

        Args:
            page_size: Rows in a page; 100 unless told.
            window: Pages in flight at a time.
            sweep: Pass over a moving listing until two passes agree, so that nothing that was there is skipped.
        """
        return self._service.listing(
            Listed("offers.list", "GET", "quote/offer"),
            wire.OFFERS,
            _index,
            page_size=page_size,
            window=window,
            sweep=sweep,
        )

    async def get(self, index: int) -> Listing:
        """The shipper's request with this index, with its offers (service document, 4.6).

        Raises:
            NotFoundError: The service lists no such request.
        """
        return await self._service.lookup(
            Listed("offers.list", "GET", "quote/offer"), index, wire.OFFERS, _index
        )

    def search(
        self,
        *,
        type: OffersType | str = OffersType.ALL,
        page_size: int | None = None,
        window: int = 1,
        sweep: bool = False,
    ) -> Paginator[Listing]:
        """The shipper's requests by the state of their offers (service document, 4.7).

        Args:
            type: `all`; `offers`, those with an offer; `sel`, with a selected one; `nsel`, without.
            page_size: Rows in a page; 100 unless told.
            window: Pages in flight at a time.
            sweep: Pass over a moving listing until two passes agree, so that nothing that was there is skipped.

        Raises:
            ValidationError: An argument cannot be right.
        """
        word = validation.one_of(type, OffersType, "type")
        return self._service.listing(
            Listed("offers.search", "POST", "quote/getoffers", wire.list_parameters(type=word)),
            wire.OFFERS,
            _index,
            page_size=page_size,
            window=window,
            sweep=sweep,
        )

    async def approve(self, offer: Offer | int) -> Listing:
        """Accept an offer, given as the record or its id (service document, 4.8).

        The listing that comes back carries the forwarder's contact and company, and the forwarder is given the
        shipper's.

        Raises:
            OutcomeUnknownError: It may or may not have been accepted; `reconcile()` finds out.
            BadRequestError: The service found it wrong.
        """
        return await self._respond(offer, approved=True)

    async def decline(self, offer: Offer | int) -> Listing:
        """Decline an offer, given as the record or its id (service document, 4.8).

        What the offer then looks like, the document does not say.

        Raises:
            OutcomeUnknownError: It may or may not have been declined; `reconcile()` finds out.
            BadRequestError: The service found it wrong.
        """
        return await self._respond(offer, approved=False)

    async def _respond(self, offer: Offer | int, *, approved: bool) -> Listing:
        write = Respond(index_of(offer, "offer", Offer), approved)
        return await self._service.write(
            "POST",
            self._service.conventions.addresses["approve"],
            wire.response(write.offer, write.approved),
            lambda data: wire.one(data, wire.OFFERS),
            write,
        )
