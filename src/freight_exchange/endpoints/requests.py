"""Rate requests, which shippers publish and forwarders read (service document, 4.2 to 4.4)."""

from __future__ import annotations

from datetime import timedelta

from freight_exchange import validation, wire
from freight_exchange.endpoints.service import Listed, Service, expect
from freight_exchange.filters import RequestFilter
from freight_exchange.models import Publish, RateRequest, RateRequestDraft, SearchType
from freight_exchange.paging import Paginator
from freight_exchange.wire import encoder

_FIVE_DAYS = wire.encode_list_parameters(seconds=validation.window_seconds())
_OPEN = Listed("requests.open", "GET", "quote/request", wire.REQUESTS, _FIVE_DAYS, documented_size=10)
SEARCH = Listed("requests.search", "POST", "quote/getrequests", wire.REQUESTS, _FIVE_DAYS, documented_size=20)


class Requests:
    """Rate requests: `exchange.requests`."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def open(
        self,
        *,
        since: timedelta | None = None,
        page_size: int | None = None,
        window: int = 1,
        sweep: bool = False,
    ) -> Paginator[RateRequest]:
        """List open requests of other parties, which accept offers (service document, 4.2).

        Args:
            since: Only those updated within this time, rounded up to seconds; default five days, which is the most
                that the service allows.
            page_size, window, sweep: As `Paginator` has them.
        """
        parameters = wire.encode_list_parameters(seconds=validation.window_seconds(since))
        return self._service.listing(_OPEN._replace(parameters=parameters), page_size, window, sweep)

    async def get_open(self, index: int) -> RateRequest:
        """Return the open request with this index (service document, 4.2); raise `NotFoundError` without one."""
        return await self._service.lookup(_OPEN, index)

    def search(
        self,
        *,
        type: SearchType | str = SearchType.ALL,
        since: timedelta | None = None,
        where: RequestFilter | None = None,
        page_size: int | None = None,
        window: int = 1,
        sweep: bool = False,
    ) -> Paginator[RateRequest]:
        """List the requests available to a forwarder (service document, 4.4).

        Args:
            type: `all`; `accept`: with an accepted offer; `pending`: waiting for offers.
            since: Only those updated within this time, rounded up to seconds; default five days, which is the most
                that the service allows.
            where: Filter of the records, applied on the client: all pages are fetched.
            page_size, window, sweep: As `Paginator` has them.
        """
        word = validation.member_of(SearchType)(type, "type")
        parameters = wire.encode_list_parameters(type=word, seconds=validation.window_seconds(since))
        if where is not None:
            expect(where, RequestFilter, "where")
        listed = SEARCH._replace(parameters=parameters)
        matches = None if where is None else where.matches
        return self._service.listing(listed, page_size, window, sweep, where=matches)

    async def get(self, index: int) -> RateRequest:
        """Return the request with this index (service document, 4.4); raise `NotFoundError` without one."""
        return await self._service.lookup(SEARCH, index)

    async def publish(self, draft: RateRequestDraft) -> RateRequest:
        """Publish a rate request (service document, 4.3).

        The service may return the dimensions in another order, and another date; only the volume is reliable.

        Raises:
            ValidationError: `draft` is not a `RateRequestDraft`; nothing was sent.
            OutcomeUnknownError: The request may or may not have been published; `reconcile()` finds out.
            BadRequestError: The service found the request invalid.
        """
        expect(draft, RateRequestDraft, "draft")
        body, address = encoder.encode_request_draft(draft), self._service.conventions.addresses["publish"]
        return await self._service.write(Publish(draft), "POST", address, body, wire.decode_one, wire.REQUESTS)
