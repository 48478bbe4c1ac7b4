"""Types of a bot as a user's type checker sees them. mypy and pyright check this file; pytest only imports it."""

# pyright: strict

# A listing can be awaited and need not be: asserting its type is not a use of it.
# mypy: disable-error-code="unused-awaitable"

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, assert_type

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from datetime import date, datetime, timedelta
    from decimal import Decimal

    from prometheus_client.registry import Collector

    from freight_exchange import (
        Bid,
        BidSelected,
        Bot,
        BotStatus,
        Context,
        Currency,
        DeadLetter,
        Doubt,
        Drop,
        FeedStatus,
        FreightExchange,
        Gap,
        OfferEvent,
        RateRequest,
        RequestEvent,
        RequestType,
        RetryLater,
        Router,
        Unreadable,
    )
    from freight_exchange.store import Store


class Pool: ...


def bots(
    exchange: FreightExchange,
    store: Store,
    five: timedelta,
    manager: AbstractAsyncContextManager[Mapping[str, Pool]],
) -> None:
    async def generator() -> AsyncIterator[Pool]:
        yield Pool()

    def lifespan(client: FreightExchange) -> AbstractAsyncContextManager[Mapping[str, Pool]]:
        return manager

    Bot(store=None)
    Bot(store="bot.db", lifespan=generator)
    bot = Bot(
        exchange,
        store=store,
        start=five,
        interval=five,
        concurrency=8,
        drain=five,
        lifespan=lifespan,
        port=0,
        host="127.0.0.1",
        settle=five,
        selection_interval=five,
        retention=timedelta(days=30),
        allowance=five,
        name="requests",
        standby=True,
    )
    assert_type(bot, Bot)
    assert_type(bot.include(Router()), None)
    assert_type([handler.id for handler in bot], list[str])
    assert_type(bot.collector(bot), Collector)
    assert_type(bot.run(), None)
    assert_type(bot.run(backend="trio"), None)


async def handlers(
    bot: Bot, router: Router, request: RateRequest, bid: Bid, gap: Gap, broken: Unreadable, ctx: Context, day: date
) -> None:
    @bot.on_new
    async def bare(request: RateRequest, ctx: Context) -> int:
        return 1

    @bot.on_new(
        origin={"Hong Kong", "Shenzhen"},
        destination="Oakland",
        type=RequestType.SHIPPING,
        incoterm=["FOB", "EXW"],
        commodity="Tea",
        hazardous=False,
        max_volume=60,
        max_weight="1200.5",
        need_by=day,
        where=lambda request: request.quantity == 4,
        id="tariff",
        retries=3,
        timeout=30,
        from_start=True,
    )
    async def filtered(request: RateRequest, ctx: Context, pool: Pool) -> str:
        return "quoted"

    @router.on_withdrawn()
    @router.on_updated(max_volume=60, type={"rail", RequestType.TRUCKING})
    async def stacked(request: RateRequest, ctx: Context, *, margin: float = 0.1) -> Decimal | None:
        return None

    @router.on_selected(origin="Oslo", id="won")
    async def won(bid: Bid, ctx: Context) -> None: ...

    @router.on_gap
    async def missed(gap: Gap, ctx: Context) -> bool:
        return True

    @router.on_unreadable(retries=0, timeout=5.5)
    async def unread(unreadable: Unreadable, ctx: Context) -> None: ...

    assert_type(await bare(request, ctx), int)
    assert_type(await filtered(request, ctx, Pool()), str)
    assert_type(await stacked(request, ctx, margin=0.2), Decimal | None)
    assert_type(await won(bid, ctx), None)
    assert_type(await missed(gap, ctx), bool)
    assert_type(await unread(broken, ctx), None)
    assert_type(await bot.on_updated(bare)(request, ctx), int)


async def contexts(ctx: Context, currency: Currency, price: Decimal) -> None:
    assert_type(await ctx.offer(amount=price, currency="USD"), Bid)
    assert_type(await ctx.offer(amount="1840.50", currency=currency, rates={"Freight": 1700, "Fuel": 140.5}), Bid)
    assert_type(await ctx.offer(amount=1840, currency=978, terms="14 days", revision=1, allow_existing=True), Bid)
    assert_type(ctx.event, RequestEvent | Gap | Unreadable | BidSelected | OfferEvent)
    assert_type(ctx.attempt, int)
    assert_type(ctx.exchange, FreightExchange)
    assert_type(bool(ctx.stopping), bool)
    assert_type(ctx.stopping.is_set(), bool)
    assert_type(await ctx.stopping.wait(), None)
    ctx.log.info("quoted %s", price)


def outcomes(five: timedelta) -> None:
    assert_type(RetryLater(five, "no tariff").delay, float)
    assert_type(RetryLater(30).reason, str)
    assert_type(Drop("too far").reason, str)


async def operating(bot: Bot, exchange: FreightExchange) -> None:
    async with bot as running:
        assert_type(running, Bot)
    assert_type(await bot.serve(), None)
    assert_type(await bot.serve(exchange=exchange), None)
    assert_type(bot.stop(), None)
    status = bot.status()
    assert_type(status, BotStatus)
    assert_type(status.state, Literal["starting", "standby", "running", "draining", "login-rejected", "stopped"])
    assert_type(status.feed, FeedStatus | None)
    assert_type(status.offers, Mapping[str, int])
    assert_type(status.address, tuple[str, int] | None)
    letters = await bot.dead_letters()
    assert_type(letters, Sequence[DeadLetter])
    assert_type(await bot.replay(letters[0].event, letters[0].handler), bool)
    doubts = await bot.doubts()
    assert_type(doubts, Sequence[Doubt])
    assert_type((doubts[0].amount, doubts[0].since), tuple[Decimal | None, datetime])
    assert_type(await bot.resolve(doubts[0].request, taken=True, revision=doubts[0].revision), None)
    assert_type(await bot.acknowledge_gaps(), int)
