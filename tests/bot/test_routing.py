"""Tests of routing: which events come to which handlers, also to new ones and after gaps."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import anyio
import pytest
from tests.bot.rig import DAY, HOUR, INTERVAL, LOGGER, new_bot, other, run_until_idle

from freight_exchange import Bot, Context, Gap, Offer, Unreadable, ValidationError
from freight_exchange.store import MemoryStore, Store
from freight_exchange.testing import Profile, Sandbox

pytestmark = pytest.mark.virtual_time


def hearing(bot: Bot, received: list[int], **options: Any) -> Bot:
    """Register a handler of new requests that records them."""

    async def record(request: Any, ctx: Any) -> None:
        received.append(request.index)

    bot.on_new(**{"id": "records", **options})(record)
    return bot


async def test_filters_select_handlers(store: Store) -> None:
    sandbox, here, there, everywhere = Sandbox(), list[int](), list[int](), list[int]()
    bot = new_bot(store)
    hearing(bot, here, id="here", origin="hong  KONG")
    hearing(bot, there, id="there", where=lambda request: request.origin == "Ningbo")
    hearing(bot, everywhere, id="everywhere")

    async with sandbox.running(bot) as trial:
        one, two = sandbox.publish(), sandbox.publish(other("Ningbo"))
        await trial.idle()

    assert (here, there, sorted(everywhere)) == ([one], [two], [one, two])


async def test_filter_that_raises_fails_its_own_handler(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    sandbox, sound, broken = Sandbox(), list[int](), list[int]()
    is_mended = False

    def where(request: Any) -> bool:
        if is_mended:
            return bool(request.origin == "Ningbo")
        raise LookupError("no tariff")

    def make_bot() -> Bot:
        return hearing(hearing(new_bot(store), sound, id="sound"), broken, id="broken", where=where, retries=1)

    bot = make_bot()
    with caplog.at_level(logging.ERROR, LOGGER):
        async with sandbox.running(bot) as trial:
            one, two = sandbox.publish(), sandbox.publish(other("Ningbo"))
            await trial.idle()
            dead = await bot.dead_letters()
    assert sorted(sound) == [one, two]
    assert sorted((letter.handler, letter.request, letter.attempts) for letter in dead) == [
        ("broken", one, 2),
        ("broken", two, 2),
    ]
    assert all("LookupError: no tariff" in str(letter.error) for letter in dead)
    assert any("filter" in record.getMessage() and record.exc_info for record in caplog.records)

    bot, is_mended = make_bot(), True
    async with sandbox.running(bot) as trial:
        await trial.idle()
        for letter in dead:
            assert await bot.replay(letter.event, letter.handler)
        await trial.idle()
        assert await bot.dead_letters() == []
    assert broken == [two]
    assert sorted(sound) == [one, two]


async def test_event_without_handler_is_acknowledged(store: Store) -> None:
    sandbox, received = Sandbox(), list[int]()
    bot = hearing(new_bot(store), received, origin="Tokyo")
    async with sandbox.running(bot) as trial:
        sandbox.publish()
        await trial.idle()
        assert trial.status.feed is not None
        assert trial.status.feed.unacknowledged == 0
        assert (trial.status.handled, received) == (0, [])


async def test_new_handler_gets_later_events(store: Store) -> None:
    sandbox, old, fresh = Sandbox(), list[int](), list[int]()
    before = sandbox.publish()
    await run_until_idle(sandbox, hearing(new_bot(store), old, id="old"))
    async with sandbox.running(hearing(hearing(new_bot(store), old, id="old"), fresh, id="fresh")) as trial:
        await trial.idle()
        after = sandbox.publish()
        await trial.idle()
    assert (old, fresh) == ([before, after], [after])


async def test_unreadable_request_is_delivered_once(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    sandbox, received, unreadable = Sandbox(Profile(poison="hollow")), list[int](), list[Any]()

    def make_bot(*, listens: bool) -> Bot:
        bot = hearing(new_bot(store), received)
        if listens:

            @bot.on_unreadable
            async def cannot(what: Any, ctx: Any) -> None:
                assert what == ctx.event
                unreadable.append(what)

        return bot

    indexes = [sandbox.publish() for _ in range(3)]
    with caplog.at_level(logging.ERROR, LOGGER):
        for _ in range(2):
            async with sandbox.running(make_bot(listens=True)) as trial:
                await trial.idle()
                await anyio.sleep(10 * INTERVAL)
    assert len(received) == len(set(received)) == 2
    assert set(received) < set(indexes)
    (what,) = unreadable
    assert isinstance(what, Unreadable)
    assert what.error
    assert len([record for record in caplog.records if "cannot be read" in record.getMessage()]) == 1


async def test_unreadable_request_without_handler_is_logged(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    sandbox, received = Sandbox(Profile(poison="hollow")), list[int]()
    for _ in range(3):
        sandbox.publish()
    with caplog.at_level(logging.ERROR, LOGGER):
        await run_until_idle(sandbox, hearing(new_bot(store), received))
    assert len(received) == 2
    assert len([record for record in caplog.records if "cannot be read" in record.getMessage()]) == 1


@pytest.mark.parametrize("start", ["now", "backfill"])
async def test_known_requests_are_delivered_once(store: Store, start: str) -> None:
    sandbox, old, fresh = Sandbox(), list[int](), list[int]()

    def make_bot(**options: Any) -> Bot:
        return hearing(new_bot(store, start=start), fresh, id="fresh", from_start=True, **options)

    known = [sandbox.publish() for _ in range(3)]
    options = {"start": start, "interval": timedelta(minutes=1), "allowance": timedelta(seconds=1)}
    async with sandbox.running(hearing(new_bot(store, **options), old)) as trial:
        await trial.idle()
        gone = sandbox.publish()
        await trial.idle()
        sandbox.exchange.withdraw(gone, sandbox.now())
        await anyio.sleep(2 * HOUR)
        sandbox.exchange.update(known[0], sandbox.now(), other("Ningbo"))
        await trial.idle()
    assert sorted(old) == [*([] if start == "now" else known), gone]

    for _ in range(3):
        await run_until_idle(sandbox, make_bot())
    assert sorted(fresh) == known
    async with sandbox.running(make_bot()) as trial:
        late = sandbox.publish()
        await trial.idle()
    assert sorted(fresh) == [*known, late]


async def test_first_run_delivers_nothing_twice(store: Store) -> None:
    sandbox, fresh = Sandbox(), list[int]()
    known = [sandbox.publish() for _ in range(3)]
    for _ in range(2):
        await run_until_idle(sandbox, hearing(new_bot(store), fresh, from_start=True))
    assert sorted(fresh) == known


async def test_handler_without_deliveries_gets_nothing(store: Store) -> None:
    sandbox, old, received = Sandbox(), list[int](), list[int]()
    known = sandbox.publish()

    def make_bot(**options: Any) -> Bot:
        return hearing(hearing(new_bot(store), old), received, id="choosy", **options)

    await run_until_idle(sandbox, make_bot(origin="Ningbo"))
    await run_until_idle(sandbox, make_bot(from_start=True))
    assert (old, received) == ([known], [])


async def test_backfill_follows_the_filter_of_the_handler(store: Store) -> None:
    sandbox, kinds = Sandbox(), list[tuple[str, str, Any]]()
    sandbox.publish()
    sandbox.publish(other("Ningbo"))
    await run_until_idle(sandbox, hearing(new_bot(store), []))

    bot = new_bot(store)

    @bot.on_new(id="fresh", origin="Ningbo", from_start=True)
    async def fresh(request: Any, ctx: Any) -> None:
        kinds.append((ctx.event.kind, request.origin, ctx.event.observed_between[0]))

    await run_until_idle(sandbox, bot)
    assert kinds == [("new", "Ningbo", None)]


async def slept_through(sandbox: Sandbox, new_bot: Callable[[], Bot]) -> None:
    await run_until_idle(sandbox, new_bot())
    await anyio.sleep(6 * DAY)


async def test_gap_without_handler_is_logged_and_kept(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    sandbox, received = Sandbox(), list[int]()

    def make_bot() -> Bot:
        return hearing(new_bot(store), received)

    await slept_through(sandbox, make_bot)
    with caplog.at_level(logging.ERROR, LOGGER):
        async with sandbox.running(make_bot()) as trial:
            index = sandbox.publish()
            await trial.idle()
    assert received == [index]
    assert len([record for record in caplog.records if "gap" in record.getMessage()]) == 1

    bot = make_bot()
    async with sandbox.running(bot) as trial:
        await trial.idle()
        feed = trial.status.feed
        assert feed is not None
        (gap,) = feed.gaps
        assert timedelta(hours=23) < gap.until - gap.since < timedelta(hours=25)
        assert await bot.acknowledge_gaps() == 1
        assert await bot.acknowledge_gaps() == 0
        late = sandbox.publish()
        await trial.idle()
    assert received == [index, late]
    async with sandbox.running(make_bot()) as trial:
        await trial.idle()
        feed = trial.status.feed
        assert feed is not None
        assert feed.gaps == ()


async def test_gap_is_delivered_once(store: Store) -> None:
    sandbox, gaps = Sandbox(), list[Any]()

    def make_bot() -> Bot:
        bot = new_bot(store)

        @bot.on_gap
        async def missed(gap: Any, ctx: Any) -> None:
            assert gap == ctx.event
            gaps.append(gap)
            if len(gaps) == 1:
                raise OSError("no connection")

        return bot

    await slept_through(sandbox, make_bot)
    for _ in range(2):
        async with sandbox.running(make_bot()) as trial:
            await trial.idle()
            feed = trial.status.feed
            assert feed is not None
            assert feed.gaps == ()
    assert len(gaps) == 2
    assert gaps[0] == gaps[1]
    assert isinstance(gaps[0], Gap)


async def test_offer_on_gap_raises(store: Store) -> None:
    sandbox, errors = Sandbox(), list[str]()

    def make_bot() -> Bot:
        bot = new_bot(store)

        @bot.on_gap(retries=0)
        async def missed(gap: Any, ctx: Any) -> None:
            try:
                await ctx.offer(amount=1, currency=840)
            except Exception as error:
                errors.append(type(error).__name__)
                raise

        return bot

    await slept_through(sandbox, make_bot)
    bot = make_bot()
    async with sandbox.running(bot) as trial:
        await trial.idle()
        assert [(dead.kind, dead.request) for dead in await bot.dead_letters()] == [("gap", None)]
    assert errors == ["ConfigurationError"]
    assert sandbox.audit_log.offers == []


async def test_handler_gets_the_offers_in_its_currency_only() -> None:
    sandbox, amounts = Sandbox(), list[Decimal | None]()
    bot = Bot(store=MemoryStore(), interval=timedelta(seconds=30))

    @bot.on_offer(currency="eur")
    async def note(offer: Offer, ctx: Context) -> None:
        amounts.append(offer.amount)

    async with sandbox.running(bot, account=sandbox.shipper), sandbox.client(sandbox.forwarder) as forwarder:
        request = sandbox.publish()
        await forwarder.bids.submit(request, amount=900, currency="USD")
        await forwarder.bids.submit(request, amount=800, currency="EUR")
        await anyio.sleep(300)
    assert amounts == [800]


async def test_filter_by_an_unknown_currency_ends_the_start(store: Store) -> None:
    """It would match no offer, or fail at each one."""
    bot = new_bot(store)

    @bot.on_offer(currency="XXX")
    async def note(offer: Offer, ctx: Context) -> None: ...

    with pytest.raises(ValidationError, match="'XXX' is unknown to the service"), anyio.fail_after(60):
        await bot.serve(exchange=Sandbox().client())
    assert bot.status().state == "stopped"
