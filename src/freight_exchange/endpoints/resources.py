"""Resources of the exchange. Each method names a path, its parameters and a result type; `service` sends the calls.

`page_size`, `window` and `sweep` of the listings are those of `Paginator`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Final, TypeVar

import anyio

from freight_exchange import validation, wire
from freight_exchange.endpoints.service import Service, expect, index_of
from freight_exchange.errors import DeadlineExceededError, ValidationError
from freight_exchange.filters import RequestFilter
from freight_exchange.models import (
    Bid,
    BidsType,
    Carrier,
    CreateRoute,
    Currency,
    Listing,
    Offer,
    OffersType,
    Publish,
    RateRequest,
    RateRequestDraft,
    Respond,
    Route,
    RouteDraft,
    SearchType,
    SubmitOffer,
    UpdateRoute,
)
from freight_exchange.paging import Listed, Paginator

R = TypeVar("R")

_FIVE_DAYS = wire.encode_list_parameters(seconds=validation.window_seconds())
_OPEN = Listed("requests.open", "GET", "quote/request", wire.REQUESTS, _FIVE_DAYS, documented_size=10)
SEARCH = Listed("requests.search", "POST", "quote/getrequests", wire.REQUESTS, _FIVE_DAYS, documented_size=20)
OFFERS = Listed("offers.list", "GET", "quote/offer", wire.OFFERS)
_OFFERS_BY_STATE = Listed("offers.search", "POST", "quote/getoffers", wire.OFFERS)
SEARCH_ALL = _OFFERS_BY_STATE._replace(parameters=wire.encode_list_parameters(type=OffersType.ALL))
"""The shipper's own requests of all states, with their offers."""
BIDS = Listed("bids.list", "GET", "quote/bid", wire.BIDS)
ROUTES = Listed("routes.list", "GET", "route", wire.ROUTES)
_CARRIERS = Listed("carriers.list", "GET", "carrier", wire.CARRIERS, paged=False)
_CURRENCIES = Listed("currencies.list", "GET", "currency", wire.CURRENCIES, paged=False)

_GOOD_FOR: Final = 60.0
"""Age of the list of currencies, in seconds, after which an unknown code causes another fetch."""


class _Resource:
    def __init__(self, service: Service) -> None:
        self._service = service


class Requests(_Resource):
    """Rate requests: `exchange.requests`."""

    def open(
        self, *, since: timedelta | None = None, page_size: int | None = None, window: int = 1, sweep: bool = False
    ) -> Paginator[RateRequest]:
        """List open requests of other parties, which accept offers (service document, 4.2).

        Only those updated within `since`, rounded up to seconds; default five days, the most that the service allows.
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
            since: As for `open`.
            where: Filter of the records, applied on the client: all pages are fetched.
        """
        word = validation.member(SearchType, type, "type")
        parameters = wire.encode_list_parameters(type=word, seconds=validation.window_seconds(since))
        listed = SEARCH._replace(parameters=parameters)
        if where is None:
            return self._service.listing(listed, page_size, window, sweep)
        expect(where, RequestFilter, "where")
        return self._service.listing(listed, page_size, window, sweep, where=where.matches)

    async def get(self, index: int) -> RateRequest:
        """Return the request with this index (service document, 4.4); raise `NotFoundError` without one."""
        return await self._service.lookup(SEARCH, index)

    async def publish(self, draft: RateRequestDraft) -> RateRequest:
        """Publish a rate request (service document, 4.3).

        The service may return the dimensions in another order, and another date; only the volume is reliable.

        Raises:
            ValidationError: An argument is invalid; nothing was sent.
            OutcomeUnknownError: The write may or may not have taken effect; `reconcile()` finds out.
            BadRequestError: The service found the write invalid.
        """
        expect(draft, RateRequestDraft, "draft")
        body, address = wire.encode_request_draft(draft), self._service.config.addresses["publish"]
        return await self._service.write(Publish(draft), "POST", address, body, wire.decode_one, wire.REQUESTS)


class Offers(_Resource):
    """Offers on the shipper's own requests: `exchange.offers`."""

    def list(self, *, page_size: int | None = None, window: int = 1, sweep: bool = False) -> Paginator[Listing]:
        """List the shipper's requests, each with its offers (service document, 4.6)."""
        return self._service.listing(OFFERS, page_size, window, sweep)

    async def get(self, index: int) -> Listing:
        """Return the shipper's request with this index and its offers (service document, 4.6 or 4.7).

        If a middlebox drops the bodies of GETs, `addresses={"get_offer": "quote/getoffers"}` uses POST.
        """
        by_get = self._service.config.addresses["get_offer"] == OFFERS.path
        return await self._service.lookup(OFFERS if by_get else SEARCH_ALL, index)

    def search(
        self,
        *,
        type: OffersType | str = OffersType.ALL,
        page_size: int | None = None,
        window: int = 1,
        sweep: bool = False,
    ) -> Paginator[Listing]:
        """List the shipper's requests by the state of their offers (service document, 4.7).

        `type` is `all`, `offers` (with an offer), `sel` (with a selected offer) or `nsel` (without a selected one).
        """
        word = validation.member(OffersType, type, "type")
        listed = _OFFERS_BY_STATE._replace(parameters=wire.encode_list_parameters(type=word))
        return self._service.listing(listed, page_size, window, sweep)

    async def approve(self, offer: Offer | int) -> Listing:
        """Accept an offer, given as the record or its id (service document, 4.8).

        The returned listing has the forwarder's contact and company. The forwarder receives the shipper's. It raises
        the errors of `requests.publish`.
        """
        return await self._respond(offer, True, wire.decode_one)

    async def decline(self, offer: Offer | int) -> Listing | None:
        """Decline an offer, as `approve` accepts one (service document, 4.8).

        The document does not show the reply (section 3): the result is `None` if it has no listing.
        """
        return await self._respond(offer, False, wire.decode_optional)

    async def _respond(
        self, offer: Offer | int, approved: bool, decode: Callable[[object, wire.Kind[Listing]], R]
    ) -> R:
        request = offer.request if isinstance(offer, Offer) else None
        write = Respond(index_of(offer, "offer", Offer), approved, request)
        body = wire.encode_response(write.offer, write.approved)
        address = self._service.config.addresses["approve"]
        return await self._service.write(write, "POST", address, body, decode, wire.OFFERS)


class Bids:
    """The forwarder's own offers: `exchange.bids`."""

    def __init__(self, service: Service, currencies: Currencies) -> None:
        self._service = service
        self._currencies = currencies

    def list(
        self, *, type: BidsType | str | None = None, page_size: int | None = None, window: int = 1, sweep: bool = False
    ) -> Paginator[Bid]:
        """List the forwarder's offers with their requests (service document, 4.9).

        Listed bids have no identifier; two equal ones are both listed. `type` is `active`, `sel` (selected), `nsel`
        (not selected) or `offers`; default: the service's own choice.
        """
        word = None if type is None else validation.member(BidsType, type, "type")
        listed = BIDS._replace(parameters=wire.encode_list_parameters(type=word))
        return self._service.listing(listed, page_size, window, sweep)

    async def submit(
        self,
        request: RateRequest | Listing | int,
        *,
        amount: validation.Number,
        currency: Currency | int | str,
        rates: Mapping[str, validation.Number] | None = None,
        terms: str | None = None,
    ) -> Bid:
        """Submit an offer on a request (service document, 4.10). It is sent at most once.

        It raises the errors of `requests.publish`.

        Args:
            amount: The total, more than 0: a `Decimal`, an `int`, a numeric string, or a `float`, read as it prints.
            currency: The currency, its index, or its three-letter code, resolved through the service's own list.
            rates: Amounts by fee name. Their sum need not be the total.
        """
        index = index_of(request, "request", RateRequest, Listing)
        total = validation.amount(amount, "amount")
        fees = None if rates is None else validation.rates(rates)
        words = None if terms is None else validation.text(terms, "terms", allow_empty=True)
        started = anyio.current_time()
        write = SubmitOffer(index, total, await index_of_currency(self._currencies, currency), fees, words)
        body = wire.encode_offer(write, self._service.config.currency_field)
        address = self._service.config.addresses["submit"]
        return await self._service.write(write, "POST", address, body, wire.decode_one, wire.BID, started=started)


class Routes(_Resource):
    """Routes: `exchange.routes`."""

    def list(
        self,
        *,
        origin: str | None = None,
        destination: str | None = None,
        carrier: Carrier | int | None = None,
        vessel: str | None = None,
        voyage_id: str | None = None,
        timezone: str | None = None,
        departure: datetime | None = None,
        arrival: datetime | None = None,
        cy_cutoff: datetime | None = None,
        cfs_cutoff: datetime | None = None,
        departs_from: datetime | None = None,
        departs_until: datetime | None = None,
        arrives_from: datetime | None = None,
        arrives_until: datetime | None = None,
        cy_from: datetime | None = None,
        cy_until: datetime | None = None,
        cfs_from: datetime | None = None,
        cfs_until: datetime | None = None,
        page_size: int | None = None,
        window: int = 1,
        sweep: bool = False,
    ) -> Paginator[Route]:
        """List the routes that match the filters (service document, 4.5).

        Args:
            departure, arrival, cy_cutoff, cfs_cutoff: Exact times. All times are naive, as the service compares them.
            departs_from, departs_until, arrives_from, arrives_until: Earliest and latest departure and arrival.
            cy_from, cy_until, cfs_from, cfs_until: Earliest and latest cut-off of container yard and freight station.
        """
        given = {**locals(), "carrier": None if carrier is None else index_of(carrier, "carrier", Carrier)}
        filters = wire.encode_route_filters(given)
        return self._service.listing(ROUTES._replace(parameters=filters), page_size, window, sweep)

    async def get(self, index: int) -> Route:
        """Return the route with this index (service document, 4.5); raise `NotFoundError` without one."""
        return await self._service.lookup(ROUTES, index)

    async def create(self, draft: RouteDraft) -> Route | None:
        """Create a route (service document, 4.5); return the route in the reply, or `None` if it has none.

        It raises the errors of `requests.publish`.
        """
        expect(draft, RouteDraft, "draft")
        return await self._write("POST", draft, CreateRoute(draft))

    async def update(self, route: Route) -> Route | None:
        """Replace the route that has this index with this entire route (service document, 4.5).

        Change the route as it was read (`attrs.evolve(route, vessel="...")`), so that unreadable dates are sent back as
        received: a missing field is a `ValidationError`, as the update would erase it. To tell an update that did not
        happen from one that somebody has undone, `reconcile(baseline=[...])` needs the route as it was before. It
        raises the errors of `requests.publish`.
        """
        expect(route, Route, "route")
        return await self._write("PUT", route, UpdateRoute(route))

    async def _write(self, method: str, route: Route | RouteDraft, write: CreateRoute | UpdateRoute) -> Route | None:
        body = wire.encode_route(route, self._service.config.carrier_field)
        return await self._service.write(write, method, "route", body, wire.decode_optional, wire.ROUTES)


class Carriers(_Resource):
    """Carriers: `exchange.carriers`."""

    def list(self) -> Paginator[Carrier]:
        """List the carriers (service document, 4.11). It is one request, without pages."""
        return self._service.listing(_CARRIERS)

    async def get(self, index: int) -> Carrier:
        """Return the carrier with this index (service document, 4.11); raise `NotFoundError` without one."""
        return await self._service.lookup(_CARRIERS, index)


class CurrencyCodes:
    """Currencies of the service by their codes in upper case, fetched once for a client and all its views."""

    def __init__(self) -> None:
        self.by_code: dict[str, list[Currency]] = {}
        self.fetched = 0.0
        self.lock = anyio.Lock()


class Currencies:
    """Currencies: `exchange.currencies`."""

    def __init__(self, service: Service, codes: CurrencyCodes) -> None:
        self._service = service
        self._codes = codes

    def list(self) -> Paginator[Currency]:
        """List the currencies (service document, 4.12). It is one request, without pages."""
        return self._service.listing(_CURRENCIES)

    async def get(self, index: int) -> Currency:
        """Return the currency with this index (service document, 4.12); raise `NotFoundError` without one."""
        return await self._service.lookup(_CURRENCIES, index)

    async def by_code(self, code: str) -> Currency:
        """Return the currency with this three-letter code, in any case (service document, 4.12).

        The list is fetched once. If it lacks the code and is older than a minute, it is fetched again.

        Raises:
            ValidationError: The service has no such code, or several currencies with it.
        """
        return await self._by_code(code, "code")

    async def _by_code(self, code: str, field: str) -> Currency:
        if not isinstance(code, str) or not code.strip():
            raise ValidationError(f"{field} must be a three-letter code such as USD", field=field)
        wanted, known = code.strip().upper(), self._codes.by_code
        if wanted not in known and (not known or anyio.current_time() - self._codes.fetched > _GOOD_FOR):
            await self._fetch()
        known = self._codes.by_code
        match known.get(wanted, []):
            case [found]:
                return found
            case []:
                problem = f"is unknown to the service, which has {', '.join(sorted(known)) or 'none'}"
            case several:
                indexes = ", ".join(str(currency.index) for currency in several)
                problem = f"stands for several currencies: give the index, one of {indexes}"
        raise ValidationError(f"{field} {code!r} {problem}", field=field)

    async def _fetch(self) -> None:
        """Fetch the list once for all callers that wait, each for the deadline of one call at most."""
        codes, held, deadline = self._codes, self._codes.by_code, self._service.config.deadline
        with anyio.move_on_after(deadline):
            async with codes.lock:
                if codes.by_code is held:
                    began, by_code = anyio.current_time(), dict[str, list[Currency]]()
                    async for currency in self.list():
                        if currency.code and (code := currency.code.strip().upper()):
                            by_code.setdefault(code, []).append(currency)
                    codes.by_code, codes.fetched = by_code, began
                return
        message = f"the deadline of {deadline:g} s has passed; nothing took effect"
        method, path = _CURRENCIES.method, _CURRENCIES.path
        raise DeadlineExceededError(message, method=method, path=path, elapsed=deadline)


async def index_of_currency(currencies: Currencies, currency: Currency | int | str) -> int:
    """Return the index of a currency, given as a record, an index, or a code of the service's list."""
    if isinstance(currency, str):
        return (await currencies._by_code(currency, "currency")).index
    return index_of(currency, "currency", Currency)
