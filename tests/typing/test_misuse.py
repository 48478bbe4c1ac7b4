"""Misuse that a user's type checker must reject. Each ignore covers an error, and an unused ignore is an error.

mypy and pyright check this file; pytest only imports it.
"""

# pyright: strict, reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from freight_exchange import (
        Applied,
        Bid,
        Bot,
        Carrier,
        Context,
        FreightExchange,
        Gap,
        Listing,
        Offer,
        Paginator,
        RateRequest,
        RateRequestDraft,
        RequestEvent,
        RetryLater,
        RetryPolicy,
        Route,
        RouteDraft,
        Router,
        SearchType,
        Timeouts,
        from_dict,
        to_dict,
    )
    from freight_exchange.feed.events import Event
    from freight_exchange.models import Reconciliation


def clients() -> None:
    FreightExchange("https://host/api", "me@co.example")  # type: ignore[call-arg]  # by keyword alone
    FreightExchange(get_parameters="header")  # type: ignore[arg-type]  # body or query
    FreightExchange(currency_field="currency")  # type: ignore[arg-type]  # no spelling of the document
    FreightExchange(carrier_field="carrierIndex")  # type: ignore[arg-type]  # no spelling of the document
    FreightExchange(addresses={"approve": "quote/bid"})  # type: ignore[arg-type]  # an address of another
    FreightExchange(addresses={"login": "login"})  # type: ignore[arg-type]  # it has one address
    FreightExchange(deadline="60 s")  # type: ignore[arg-type]  # a number or a timedelta
    FreightExchange(timeouts=5)  # type: ignore[arg-type]  # Timeouts(...)
    FreightExchange(verify="ca.pem")  # type: ignore[arg-type]  # True or an SSLContext
    FreightExchange(verify=False)  # type: ignore[arg-type]  # True or an SSLContext
    FreightExchange(http_client="https://host")  # type: ignore[arg-type]  # a client of httpx or httpx2
    FreightExchange(credentials=lambda: ("me", "secret"))  # type: ignore[arg-type,return-value]  # must be async
    FreightExchange(timeout=5)  # type: ignore[call-arg]  # no such option
    Timeouts(5, 30, 10)  # type: ignore[call-arg]  # by keyword alone
    RetryPolicy(retries=3)  # type: ignore[call-arg]  # no such option


async def calls(exchange: FreightExchange, bid: Bid, offer: Offer, listing: Listing, route: Route) -> None:
    aiter(exchange.requests.search("pending"))  # type: ignore[call-arg]  # by keyword alone
    aiter(exchange.requests.search(since=3600))  # type: ignore[arg-type]  # a timedelta, whose unit is plain
    aiter(exchange.requests.search(where=bool))  # type: ignore[arg-type]  # a RequestFilter
    aiter(exchange.requests.search(status="Available"))  # type: ignore[call-arg]  # no such filter
    await exchange.requests.get("4")  # type: ignore[arg-type]  # an index is an int
    await exchange.requests.publish({"commodityname": "Tea"})  # type: ignore[arg-type]  # a draft
    await exchange.offers.approve(bid)  # type: ignore[arg-type]  # a bid has no identifier
    await exchange.offers.approve(listing)  # type: ignore[arg-type]  # which of its offers?
    await exchange.offers.decline("31")  # type: ignore[arg-type]  # an identifier is an int
    await exchange.bids.submit(4, amount=5)  # type: ignore[call-arg]  # no currency
    await exchange.bids.submit(4, 5, "USD")  # type: ignore[call-arg]  # by keyword alone
    await exchange.bids.submit(4, amount=None, currency="USD")  # type: ignore[arg-type]  # an offer has a price
    await exchange.bids.submit(offer, amount=5, currency="USD")  # type: ignore[arg-type]  # an offer is on no offer
    await exchange.bids.submit(4, amount=5, currency="USD", rates=[5])  # type: ignore[arg-type]  # fees have names
    aiter(exchange.routes.list(departure="2030-01-01"))  # type: ignore[arg-type]  # a datetime
    aiter(exchange.routes.list(voyageId="041E"))  # type: ignore[call-arg]  # that is the wire's spelling
    await exchange.routes.create(route)  # type: ignore[arg-type]  # a draft
    aiter(exchange.carriers.list(page_size=5))  # type: ignore[call-arg]  # it has no pages
    exchange.bids.get(4)  # type: ignore[attr-defined]  # bids have no identifier
    exchange.watch(start="yesterday")  # type: ignore[arg-type]  # now, backfill or a timedelta


def drafts(draft: RouteDraft, day: datetime, hour: timedelta) -> None:
    RateRequestDraft(commodity="Tea", type=SearchType.ALL)  # type: ignore[call-arg]  # the rest is missing
    RouteDraft(draft)  # type: ignore[call-arg,arg-type]  # by keyword alone
    draft.vessel = "Ever Given"  # type: ignore[misc]  # drafts are frozen


def records(request: RateRequest, offer: Offer, carrier: Carrier, listed: Paginator[RateRequest]) -> None:
    request.status = "Closed"  # type: ignore[misc,assignment]  # records are frozen
    request.commodityname  # type: ignore[attr-defined]  # noqa: B018  # that is the wire's spelling
    request.volume + 1  # type: ignore[operator]  # it may be missing
    offer.rates["Freight"] = 5  # type: ignore[index]  # read-only, and may be missing
    RateRequest(4)  # type: ignore[call-arg]  # by keyword alone
    carrier.code  # type: ignore[attr-defined]  # noqa: B018  # a currency has one
    for _ in listed:  # type: ignore[attr-defined]  # `async for`
        pass


def bots(exchange: FreightExchange, hour: timedelta) -> None:
    Bot()  # type: ignore[call-arg]  # whether anything lasts is a decision
    Bot("bot.db", store=None)  # type: ignore[arg-type]  # first comes the client
    Bot(exchange, None)  # type: ignore[call-arg]  # by keyword alone
    Bot(store=5)  # type: ignore[arg-type]  # a path, a store or None
    Bot(store=None, interval=30)  # type: ignore[arg-type]  # a timedelta, whose unit is plain
    Bot(store=None, drain=25.0)  # type: ignore[arg-type]  # a timedelta
    Bot(store=None, start="yesterday")  # type: ignore[arg-type]  # now, backfill or a timedelta
    Bot(store=None, concurrency=hour)  # type: ignore[arg-type]  # how many
    Bot(store=None, lifespan={"pool": 1})  # type: ignore[arg-type]  # a function
    Bot(store=None, port="8080")  # type: ignore[arg-type]  # a number
    Bot(store=None, timeout=30)  # type: ignore[call-arg]  # that is a handler's
    Bot(store=None).run(backend="curio")  # type: ignore[arg-type]  # asyncio or trio
    Bot(store=None).include([Router()])  # type: ignore[arg-type]  # one at a time


async def handlers(router: Router, request: RateRequest, ctx: Context, hour: timedelta) -> None:
    async def quote(request: RateRequest, ctx: Context) -> int:
        return 1

    def plain(request: RateRequest, ctx: Context) -> int:
        return 1

    router.on_new(orgin="Oslo")  # type: ignore[call-overload]  # origin
    router.on_new(volume=60)  # type: ignore[call-overload]  # max_volume
    router.on_new(origin=5)  # type: ignore[call-overload]  # a text, or several
    router.on_new(hazardous="yes")  # type: ignore[call-overload]  # True or False
    router.on_new(need_by="2026-05-01")  # type: ignore[call-overload]  # a date
    router.on_new(where="Oslo")  # type: ignore[call-overload]  # a function
    router.on_updated(retries="3")  # type: ignore[call-overload]  # a number
    router.on_withdrawn(timeout="30 s")  # type: ignore[call-overload]  # seconds or a timedelta
    router.on_selected(id=4)  # type: ignore[call-overload]  # a text
    router.on_gap(origin="Oslo")  # type: ignore[call-overload]  # a gap is about no request
    router.on_unreadable(where=bool)  # type: ignore[call-overload]  # what cannot be read cannot be tested
    router.on_gap(from_start=True)  # type: ignore[call-overload]  # only what is new
    router.on_new(quote, origin="Oslo")  # type: ignore[call-overload]  # it would be dropped
    router.on_new("Oslo")  # type: ignore[call-overload]  # by keyword alone
    router.on_new(plain)  # type: ignore[type-var]  # a handler is async
    router.on_new(origin="Oslo")(plain)  # type: ignore[type-var]  # a handler is async
    router.on_gap(plain)  # type: ignore[type-var]  # a handler is async
    router.on_news(quote)  # type: ignore[attr-defined]  # on_new

    bare = router.on_new(quote)
    filtered = router.on_updated(origin="Oslo")(quote)
    await bare(request)  # type: ignore[call-arg]  # what is decorated is as it was
    await filtered(request, ctx, 5)  # type: ignore[call-arg]  # what is decorated is as it was
    await bare(ctx, request)  # type: ignore[arg-type]  # what is decorated is as it was
    RetryLater("5 min")  # type: ignore[arg-type]  # seconds or a timedelta


async def events(router: Router) -> None:
    async def of_bid(bid: Bid, ctx: Context, pool: str) -> None: ...

    async def of_request(request: RateRequest, ctx: Context, pool: str) -> None: ...

    async def of_gap(gap: Gap, ctx: Context) -> None: ...

    async def without_context(request: RateRequest) -> None: ...

    router.on_new(of_bid)  # type: ignore[type-var]  # a rate request
    router.on_new(origin="Oslo")(of_bid)  # type: ignore[type-var]  # a rate request
    router.on_updated(of_bid)  # type: ignore[type-var]  # a rate request
    router.on_withdrawn(of_gap)  # type: ignore[type-var]  # a rate request
    router.on_selected(of_request)  # type: ignore[type-var]  # a bid
    router.on_gap(of_request)  # type: ignore[type-var]  # a gap
    router.on_unreadable(of_gap)  # type: ignore[type-var]  # what cannot be read
    router.on_new(without_context)  # type: ignore[type-var]  # and the context


def matches(event: Event, changed: RequestEvent, found: Reconciliation[Bid]) -> None:
    match event:
        case RequestEvent() | Gap():
            pass
        case _:
            assert_never(event)  # type: ignore[arg-type]  # what cannot be read is left
    match changed.kind:
        case "new" | "updated":
            pass
        case _:
            assert_never(changed.kind)  # type: ignore[arg-type]  # withdrawn ones are left
    match found:
        case Applied(bid):
            bid.vessel  # type: ignore[attr-defined]  # noqa: B018  # a route has one
        case _:
            pass


def conversions(bid: Bid) -> None:
    to_dict({"index": 4})  # type: ignore[arg-type]  # a record
    from_dict(to_dict(bid), dict)  # type: ignore[type-var]  # the class of a record


async def contexts(ctx: Context, offer: Offer) -> None:
    await ctx.offer(5, currency="USD")  # type: ignore[call-arg]  # by keyword alone
    await ctx.offer(amount=5)  # type: ignore[call-arg]  # no currency
    await ctx.offer(amount=None, currency="USD")  # type: ignore[arg-type]  # an offer has a price
    await ctx.offer(amount=5, currency=2.0)  # type: ignore[arg-type]  # an index is an int
    await ctx.offer(amount=5, currency="USD", rates=[5])  # type: ignore[arg-type]  # fees have names
    await ctx.offer(amount=5, currency="USD", revision="second")  # type: ignore[arg-type]  # a number
    await ctx.offer(amount=5, currency="USD", request=offer)  # type: ignore[call-arg]  # the event's, and no other


async def operating(bot: Bot, router: Router) -> None:
    router.on_new = print  # type: ignore[misc,assignment]  # it is a decorator
    await bot.resolve(4)  # type: ignore[call-arg]  # was it taken?
    await bot.resolve(4, True)  # type: ignore[call-arg]  # by keyword alone
    await bot.serve("bot.db")  # type: ignore[call-arg,arg-type]  # by keyword alone
    bot.status().state == "alive"  # type: ignore[comparison-overlap]  # noqa: B015  # no such state
