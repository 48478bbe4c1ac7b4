"""Types of the client as a user's type checker sees them. mypy and pyright check this file; pytest only imports it."""

# pyright: strict

# A listing can be awaited and need not be: asserting its type is not a use of it.
# mypy: disable-error-code="unused-awaitable"

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, assert_never, assert_type

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator
    from datetime import datetime, timedelta
    from decimal import Decimal

    import httpx
    import httpx2

    from freight_exchange import (
        Applied,
        Bid,
        BidsType,
        Carrier,
        Conflict,
        Currency,
        Explanation,
        Feed,
        FeedStatus,
        FreightExchange,
        Gap,
        Listing,
        NotApplied,
        Offer,
        OffersType,
        OutcomeUnknownError,
        Page,
        Paginator,
        RateRequest,
        RateRequestDraft,
        RequestEvent,
        RequestFilter,
        RetryPolicy,
        Route,
        RouteDraft,
        SearchType,
        StillUnknown,
        Timeouts,
        Unreadable,
        User,
        bulk,
        from_dict,
        from_json,
        to_dict,
        to_json,
    )
    from freight_exchange.feed.events import Event
    from freight_exchange.models import Publish, Reconciliation, SubmitOffer, Write
    from freight_exchange.store import MemoryStore, Store
    from freight_exchange.tariff import NoQuote, Quote


async def the_client(
    five: timedelta, context: ssl.SSLContext, http_client: httpx.AsyncClient | httpx2.AsyncClient
) -> None:
    async with FreightExchange() as exchange:
        assert_type(exchange, FreightExchange)
    async with FreightExchange(
        "https://host/api",
        email="me@co.example",
        password="...",
        timeouts=Timeouts(connect=5, read=30, write=10),
        deadline=five,
        retries=RetryPolicy(attempts=3),
        max_connections=20,
        max_writes=4,
        get_parameters="query",
        addresses={"publish": "request", "approve": "quote/offer", "submit": "quote/bid"},
        currency_field="both",
        index_type="string",
        carrier_field="carrierId",
        strict=True,
        verify=context,
        http_client=http_client,
        hooks=(print,),
    ) as exchange:
        assert_type(exchange.user, User | None)
        assert_type(await exchange.login(), User)
        assert_type(exchange.with_options(deadline=5), FreightExchange)
        assert_type(await exchange.request("GET", "quote/new", params={"index": 4}, repeatable=True), Any)
        await exchange.aclose()


async def requests(exchange: FreightExchange, draft: RateRequestDraft, hour: timedelta) -> None:
    assert_type(exchange.requests.open(since=hour, page_size=10), Paginator[RateRequest])
    assert_type(exchange.requests.search(type=SearchType.PENDING, since=hour), Paginator[RateRequest])
    assert_type(exchange.requests.search(type="pending", window=3, sweep=True), Paginator[RateRequest])
    assert_type(await exchange.requests.get(4), RateRequest)
    assert_type(await exchange.requests.get_open(4), RateRequest)
    assert_type(await exchange.requests.publish(draft), RateRequest)


async def offers(exchange: FreightExchange, offer: Offer) -> None:
    assert_type(exchange.offers.list(page_size=10), Paginator[Listing])
    assert_type(exchange.offers.search(type=OffersType.NOT_SELECTED), Paginator[Listing])
    assert_type(await exchange.offers.get(4), Listing)
    assert_type(await exchange.offers.approve(offer), Listing)
    assert_type(await exchange.offers.decline(31), Listing | None)


async def bids(
    exchange: FreightExchange, request: RateRequest, listing: Listing, currency: Currency, price: Decimal
) -> None:
    assert_type(exchange.bids.list(type=BidsType.ACTIVE), Paginator[Bid])
    assert_type(await exchange.bids.submit(request, amount=price, currency="USD", rates={"Freight": 1.5}), Bid)
    assert_type(await exchange.bids.submit(listing, amount="1840.50", currency=currency, terms="14 days"), Bid)
    assert_type(await exchange.bids.submit(4, amount=1840, currency=978, rates={"Freight": "1700"}), Bid)


async def routes(exchange: FreightExchange, draft: RouteDraft, carrier: Carrier, day: datetime) -> None:
    assert_type(
        exchange.routes.list(
            origin="Hong Kong",
            destination="Long Beach",
            carrier=carrier,
            vessel="Ever Given",
            voyage_id="041E",
            timezone="Asia/Hong_Kong",
            departure=day,
            arrival=day,
            cy_cutoff=day,
            cfs_cutoff=day,
            departs_from=day,
            departs_until=day,
            arrives_from=day,
            arrives_until=day,
            cy_from=day,
            cy_until=day,
            cfs_from=day,
            cfs_until=day,
        ),
        Paginator[Route],
    )
    route = await exchange.routes.get(17)
    assert_type(route, Route)
    assert_type(await exchange.routes.create(draft), Route | None)
    assert_type(await exchange.routes.update(route), Route | None)


async def reference(exchange: FreightExchange) -> None:
    assert_type(exchange.carriers.list(), Paginator[Carrier])
    assert_type(await exchange.carriers.get(3), Carrier)
    assert_type(exchange.currencies.list(), Paginator[Currency])
    assert_type(await exchange.currencies.get(978), Currency)
    assert_type(await exchange.currencies.by_code("USD"), Currency)


async def listings(listing: Paginator[RateRequest]) -> None:
    page = await listing
    assert_type(page, Page[RateRequest])
    assert_type(page[0], RateRequest)
    assert_type(page[1:], tuple[RateRequest, ...])
    assert_type((len(page), page.number, page.page_size), tuple[int, int, int])
    assert_type(await listing.collect(), list[RateRequest])
    assert_type(await listing.first(), RateRequest | None)
    records: AsyncIterator[RateRequest] = aiter(listing)
    pages: AsyncIterator[Page[RateRequest]] = listing.pages(start=3)
    assert_type([request async for request in records], list[RateRequest])
    assert_type([part async for part in pages], list[Page[RateRequest]])


async def watching(exchange: FreightExchange, half_a_minute: timedelta) -> None:
    assert_type(exchange.watch(start="backfill", interval=half_a_minute), Feed)
    async with exchange.watch() as feed:
        async for event in feed:
            assert_type(event, RequestEvent | Gap | Unreadable)
            match event:
                case RequestEvent():
                    assert_type(event.kind, Literal["new", "updated", "withdrawn"])
                    assert_type(event.request, RateRequest)
                    assert_type(event.previous, RateRequest | None)
                    assert_type(event.changed, tuple[str, ...])
                    assert_type(event.observed_between, tuple[datetime | None, datetime])
                case Gap():
                    assert_type((event.since, event.until), tuple[datetime, datetime])
                case Unreadable():
                    assert_type(event.index, int | None)
            await event.ack()
        async for batch in feed.batches():
            assert_type(batch, tuple[RequestEvent | Gap | Unreadable, ...])
        await feed.ack()
        assert_type(feed.status(), FeedStatus)
        assert_type(await feed.explain(7), Explanation)
    exchange.watch(store=MemoryStore(), where=RequestFilter(origin={"Oslo"}), standby=True)
    exchange.watch(store=Store("feed.db"))


async def doubt(error: OutcomeUnknownError, exchange: FreightExchange, settle: timedelta) -> None:
    found = await error.reconcile(exchange, settle=settle)
    assert_type(found, Applied | NotApplied | Conflict | StillUnknown)
    match found:
        case Applied(record) | Conflict(record):
            assert_type(record, RateRequest | Listing | Bid | Route)
        case StillUnknown(candidates):
            assert_type(candidates, tuple[RateRequest | Listing | Bid | Route, ...])
        case NotApplied():
            pass


async def doubt_about_a_bid(error: OutcomeUnknownError[Bid]) -> Offer | None:
    match await error.reconcile():
        case Applied(bid) | Conflict(bid):
            assert_type(bid, Bid)
            return bid.offer
        case StillUnknown(candidates):
            assert_type(candidates, tuple[Bid, ...])
        case NotApplied():
            pass
    return None


async def doubt_about_a_write(
    exchange: FreightExchange, offer: SubmitOffer, publication: Publish, other: Write
) -> None:
    assert_type(await exchange.reconcile(offer), Reconciliation[Bid])
    assert_type(await exchange.reconcile(publication), Reconciliation[RateRequest | Listing])
    assert_type(await exchange.reconcile(other), Reconciliation)


def records_leave(bid: Bid, gap: Gap, text: str) -> None:
    assert_type(to_dict(bid), dict[str, Any])
    assert_type(to_json(gap), str)
    assert_type(from_json(text, Bid), Bid)
    assert_type(from_dict(to_dict(gap), Gap), Gap)


async def a_first_program(exchange: FreightExchange) -> None:
    request = await exchange.requests.search(where=RequestFilter(origin="Hong Kong")).first()
    if request is None:
        return
    assert_type(request, RateRequest)
    try:
        bid = await exchange.bids.submit(request, amount="1840.50", currency="USD")
    except OutcomeUnknownError as error:
        match await error.reconcile():
            case Applied(Bid() as bid):
                assert_type(bid, Bid)
            case _:
                return
    if bid.offer is not None:
        assert_type(bid.offer.difference, Decimal | None)


def every_event(event: Event) -> str:
    match event:
        case RequestEvent():
            match event.kind:
                case "new":
                    return "appeared"
                case "updated":
                    return "changed"
                case "withdrawn":
                    return "gone"
                case _:
                    assert_never(event.kind)
        case Gap():
            return "a gap"
        case Unreadable():
            return "unreadable"
        case _:
            assert_never(event)


async def publication(exchange: FreightExchange, quote: Quote | NoQuote) -> None:
    rows = bulk.read_requests("requests.csv")
    assert_type(rows, list[bulk.Row])
    with bulk.Journal("requests.csv.progress", "me@co.example at https://host/api") as journal:
        assert_type(journal.state(rows[0]), Literal["sending", "published", "refused"] | None)
        states = await bulk.publish(exchange, rows, journal)
    assert_type(states["published"], int)
    assert_type(from_dict(to_dict(quote), Quote), Quote)
