"""How events become deliveries: filters, handlers that come later, gaps, and what cannot be read."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from unittest.mock import AsyncMock

import anyio
import pytest
from tests.unit.bot import rig
from tests.unit.bot.rig import DAY, HOUR, INTERVAL, bot_on, other

from freight_exchange import Bot, Gap, Unreadable
from freight_exchange.bot.delivery.routing import Routing
from freight_exchange.store import Store
from freight_exchange.testing import Profile, Sandbox

pytestmark = pytest.mark.virtual_time

store = rig.store

LOGGER = "freight_exchange.bot"


def hearing(bot: Bot, heard: list[int], **options: Any) -> Bot:
    """The bot, with a handler of new requests that notes them."""

    async def hears(request: Any, ctx: Any) -> None:
        heard.append(request.index)

    bot.on_new(**{"id": "hears", **options})(hears)
    return bot


# Filters


async def test_each_handler_gets_what_it_wants(store: Store) -> None:
    sandbox, here, there, everywhere = Sandbox(), list[int](), list[int](), list[int]()
    bot = bot_on(store)
    hearing(bot, here, id="here", origin="hong  KONG")
    hearing(bot, there, id="there", where=lambda request: request.origin == "Ningbo")
    hearing(bot, everywhere, id="everywhere")

    async with sandbox.running(bot) as trial:
        one, two = sandbox.publish(), sandbox.publish(other("Ningbo"))
        await trial.idle()

    assert (here, there, sorted(everywhere)) == ([one], [two], [one, two])


async def test_a_filter_that_raises_is_a_failure_of_its_handler_and_of_no_other(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    sandbox, sound, broken = Sandbox(), list[int](), list[int]()
    is_mended = False

    def where(request: Any) -> bool:
        if is_mended:
            return bool(request.origin == "Ningbo")
        raise LookupError("no tariff")

    def new_bot() -> Bot:
        return hearing(hearing(bot_on(store), sound, id="sound"), broken, id="broken", where=where, retries=1)

    bot = new_bot()
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

    bot, is_mended = new_bot(), True
    async with sandbox.running(bot) as trial:
        await trial.idle()
        for letter in dead:
            assert await bot.replay(letter.event, letter.handler)
        await trial.idle()
        assert await bot.dead_letters() == []
    assert broken == [two]
    assert sorted(sound) == [one, two]


async def test_what_nobody_wants_is_kept_for_nobody(store: Store) -> None:
    sandbox, heard = Sandbox(), list[int]()
    bot = hearing(bot_on(store), heard, origin="Tokyo")
    async with sandbox.running(bot) as trial:
        sandbox.publish()
        await trial.idle()
        assert trial.status.feed is not None
        assert trial.status.feed.unacknowledged == 0
        assert (trial.status.handled, heard) == (0, [])


# Handlers that come later


async def test_a_handler_that_comes_later_hears_of_what_comes_later(store: Store) -> None:
    sandbox, old, fresh = Sandbox(), list[int](), list[int]()
    before = sandbox.publish()
    async with sandbox.running(hearing(bot_on(store), old, id="old")) as trial:
        await trial.idle()
    async with sandbox.running(hearing(hearing(bot_on(store), old, id="old"), fresh, id="fresh")) as trial:
        await trial.idle()
        after = sandbox.publish()
        await trial.idle()
    assert (old, fresh) == ([before, after], [after])


@pytest.mark.parametrize("start", ["now", "backfill"])
async def test_from_start_hears_once_of_all_that_is_known(store: Store, start: str) -> None:
    sandbox, old, fresh = Sandbox(), list[int](), list[int]()

    def new_bot(**options: Any) -> Bot:
        return hearing(bot_on(store, start=start), fresh, id="fresh", from_start=True, **options)

    known = [sandbox.publish() for _ in range(3)]
    told = {"start": start, "interval": timedelta(minutes=1), "allowance": timedelta(seconds=1)}
    async with sandbox.running(hearing(bot_on(store, **told), old)) as trial:
        await trial.idle()
        gone = sandbox.publish()
        await trial.idle()
        sandbox.exchange.withdraw(gone, sandbox.now())
        await anyio.sleep(2 * HOUR)
        sandbox.exchange.update(known[0], sandbox.now(), other("Ningbo"))
        await trial.idle()
    assert sorted(old) == [*([] if start == "now" else known), gone]

    for _ in range(3):
        async with sandbox.running(new_bot()) as trial:
            await trial.idle()
    assert sorted(fresh) == known
    async with sandbox.running(new_bot()) as trial:
        late = sandbox.publish()
        await trial.idle()
    assert sorted(fresh) == [*known, late]


async def test_from_start_in_the_first_run_hears_of_nothing_twice(store: Store) -> None:
    sandbox, fresh = Sandbox(), list[int]()
    known = [sandbox.publish() for _ in range(3)]
    for _ in range(2):
        async with sandbox.running(hearing(bot_on(store), fresh, from_start=True)) as trial:
            await trial.idle()
    assert sorted(fresh) == known


@pytest.mark.parametrize("is_marked", [True, False])
async def test_from_start_says_nothing_to_a_handler_that_has_run_before(
    store: Store, is_marked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither where that is noted nor where it was written by a version that did not note it."""
    sandbox, heard = Sandbox(), list[int]()
    known = [sandbox.publish() for _ in range(3)]
    with monkeypatch.context() as earlier:
        if not is_marked:
            earlier.setattr(Routing, "introduce_handlers", AsyncMock())
        async with sandbox.running(hearing(bot_on(store), heard)) as trial:
            await trial.idle()
    assert sorted(heard) == known
    for _ in range(2):
        async with sandbox.running(hearing(bot_on(store), heard, from_start=True)) as trial:
            known.append(sandbox.publish())
            await trial.idle()
    assert sorted(heard) == known


async def test_from_start_says_nothing_to_a_handler_of_which_nothing_is_kept(store: Store) -> None:
    sandbox, old, heard = Sandbox(), list[int](), list[int]()
    known = sandbox.publish()

    def new_bot(**options: Any) -> Bot:
        return hearing(hearing(bot_on(store), old), heard, id="choosy", **options)

    async with sandbox.running(new_bot(origin="Ningbo")) as trial:
        await trial.idle()
    async with sandbox.running(new_bot(from_start=True)) as trial:
        await trial.idle()
    assert (old, heard) == ([known], [])


async def test_from_start_tells_a_handler_that_was_there_for_other_events_alone(store: Store) -> None:
    sandbox, kinds = Sandbox(), list[str]()

    def new_bot() -> tuple[Bot, Any]:
        bot = bot_on(store)

        async def hears(request: Any, ctx: Any) -> None:
            kinds.append(ctx.event.kind)

        return bot, bot.on_updated(id="hears")(hears)

    bot, _ = new_bot()
    index = sandbox.publish()
    async with sandbox.running(bot) as trial:
        await trial.idle()
        sandbox.exchange.update(index, sandbox.now(), other("Ningbo"))
        await trial.idle()
    bot, hears = new_bot()
    bot.on_new(id="hears", from_start=True)(hears)
    async with sandbox.running(bot) as trial:
        await trial.idle()
    assert kinds == ["updated", "new"]


async def test_from_start_hears_of_what_it_wants(store: Store) -> None:
    sandbox, kinds = Sandbox(), list[tuple[str, str, Any]]()
    sandbox.publish()
    sandbox.publish(other("Ningbo"))
    async with sandbox.running(hearing(bot_on(store), [])) as trial:
        await trial.idle()

    bot = bot_on(store)

    @bot.on_new(id="fresh", origin="Ningbo", from_start=True)
    async def fresh(request: Any, ctx: Any) -> None:
        kinds.append((ctx.event.kind, request.origin, ctx.event.observed_between[0]))

    async with sandbox.running(bot) as trial:
        await trial.idle()
    assert kinds == [("new", "Ningbo", None)]


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("point", ["before deliver", "after deliver"])
async def test_from_start_through_a_crash_while_it_is_introduced(store: Store, point: str, times: int) -> None:
    sandbox, fresh = Sandbox(), list[int]()
    known = [sandbox.publish() for _ in range(3)]
    async with sandbox.running(hearing(bot_on(store), [])) as trial:
        await trial.idle()
    async with sandbox.running(
        hearing(bot_on(store), fresh, id="fresh", from_start=True), crash_at=point, times=times
    ) as trial:
        await trial.crashed()
    assert fresh == []
    for _ in range(2):
        async with sandbox.running(hearing(bot_on(store), fresh, id="fresh", from_start=True)) as trial:
            await trial.idle()
    assert sorted(fresh) == known


async def test_from_start_does_not_come_behind_what_it_was_told_of_the_same_request(store: Store) -> None:
    """An update that was seen, and not taken in, before the handler came: `new` is the first that it hears."""
    sandbox, kinds = Sandbox(), list[tuple[str, str]]()
    index = sandbox.publish()
    async with sandbox.running(hearing(bot_on(store), [])) as trial:
        await trial.idle()
    async with sandbox.running(hearing(bot_on(store), []), crash_at="before deliver") as trial:
        await anyio.sleep(INTERVAL)
        sandbox.exchange.update(index, sandbox.now(), other("Ningbo"))
        await trial.crashed()

    bot = bot_on(store)

    @bot.on_new(id="fresh", from_start=True)
    @bot.on_updated(id="fresh")
    async def fresh(request: Any, ctx: Any) -> None:
        kinds.append((ctx.event.kind, request.origin))

    async with sandbox.running(bot) as trial:
        await trial.idle()
    assert kinds[0] == ("new", "Ningbo")


# Gaps


async def slept_through(sandbox: Sandbox, new_bot: Callable[[], Bot]) -> None:
    async with sandbox.running(new_bot()) as trial:
        await trial.idle()
    await anyio.sleep(6 * DAY)


async def test_a_gap_without_a_handler_is_told_kept_and_blocks_nothing(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    sandbox, heard = Sandbox(), list[int]()

    def new_bot() -> Bot:
        return hearing(bot_on(store), heard)

    await slept_through(sandbox, new_bot)
    with caplog.at_level(logging.ERROR, LOGGER):
        async with sandbox.running(new_bot()) as trial:
            index = sandbox.publish()
            await trial.idle()
    assert heard == [index]
    assert len([record for record in caplog.records if "gap" in record.getMessage()]) == 1

    bot = new_bot()
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
    assert heard == [index, late]
    async with sandbox.running(new_bot()) as trial:
        await trial.idle()
        feed = trial.status.feed
        assert feed is not None
        assert feed.gaps == ()


async def test_a_gap_with_a_handler_is_delivered_once(store: Store) -> None:
    sandbox, gaps = Sandbox(), list[Any]()

    def new_bot() -> Bot:
        bot = bot_on(store)

        @bot.on_gap
        async def missed(gap: Any, ctx: Any) -> None:
            assert gap == ctx.event
            gaps.append(gap)
            if len(gaps) == 1:
                raise OSError("nobody to tell")

        return bot

    await slept_through(sandbox, new_bot)
    for _ in range(2):
        async with sandbox.running(new_bot()) as trial:
            await trial.idle()
            feed = trial.status.feed
            assert feed is not None
            assert feed.gaps == ()
    assert len(gaps) == 2
    assert gaps[0] == gaps[1]
    assert isinstance(gaps[0], Gap)


async def test_a_gap_that_was_kept_is_delivered_to_a_handler_that_comes_later(store: Store) -> None:
    sandbox, gaps = Sandbox(), list[Any]()
    await slept_through(sandbox, lambda: hearing(bot_on(store), []))
    async with sandbox.running(hearing(bot_on(store), [])) as trial:
        await trial.idle()

    bot = bot_on(store)

    @bot.on_gap
    async def missed(gap: Any, ctx: Any) -> None:
        gaps.append(gap)

    async with sandbox.running(bot) as trial:
        await trial.idle()
        feed = trial.status.feed
        assert feed is not None
        assert feed.gaps == ()
    assert len(gaps) == 1


async def test_there_is_no_request_to_offer_on_in_a_gap(store: Store) -> None:
    sandbox, errors = Sandbox(), list[str]()

    def new_bot() -> Bot:
        bot = bot_on(store)

        @bot.on_gap(retries=0)
        async def missed(gap: Any, ctx: Any) -> None:
            try:
                await ctx.offer(amount=1, currency=840)
            except Exception as error:
                errors.append(type(error).__name__)
                raise

        return bot

    await slept_through(sandbox, new_bot)
    bot = new_bot()
    async with sandbox.running(bot) as trial:
        await trial.idle()
        assert [(dead.kind, dead.request) for dead in await bot.dead_letters()] == [("gap", None)]
    assert errors == ["ConfigurationError"]
    assert sandbox.audit_log.offers == []


# What cannot be read


async def test_what_cannot_be_read_is_delivered_once_and_the_others_as_ever(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    sandbox, heard, unreadable = Sandbox(Profile(poison="hollow")), list[int](), list[Any]()

    def new_bot(*, listens: bool) -> Bot:
        bot = hearing(bot_on(store), heard)
        if listens:

            @bot.on_unreadable
            async def cannot(what: Any, ctx: Any) -> None:
                assert what == ctx.event
                unreadable.append(what)

        return bot

    indexes = [sandbox.publish() for _ in range(3)]
    with caplog.at_level(logging.ERROR, LOGGER):
        for _ in range(2):
            async with sandbox.running(new_bot(listens=True)) as trial:
                await trial.idle()
                await anyio.sleep(10 * INTERVAL)
    assert len(heard) == len(set(heard)) == 2
    assert set(heard) < set(indexes)
    (what,) = unreadable
    assert isinstance(what, Unreadable)
    assert what.error
    assert len([record for record in caplog.records if "cannot be read" in record.getMessage()]) == 1


async def test_what_cannot_be_read_is_told_where_nobody_listens(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    sandbox, heard = Sandbox(Profile(poison="hollow")), list[int]()
    for _ in range(3):
        sandbox.publish()
    with caplog.at_level(logging.ERROR, LOGGER):
        async with sandbox.running(hearing(bot_on(store), heard)) as trial:
            await trial.idle()
    assert len(heard) == 2
    assert len([record for record in caplog.records if "cannot be read" in record.getMessage()]) == 1


async def test_a_change_of_shape_is_told_and_calls_no_handler(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    sandbox, kinds = Sandbox(), list[str]()
    bot = bot_on(store)

    @bot.on_new(id="all")
    @bot.on_updated(id="all")
    async def all_of_them(request: Any, ctx: Any) -> None:
        kinds.append(ctx.event.kind)

    with caplog.at_level(logging.WARNING, LOGGER):
        async with sandbox.running(bot) as trial:
            indexes = [sandbox.publish() for _ in range(12)]
            await trial.idle()
            sandbox.exchange.profile = Profile(extra_keys=True)
            await anyio.sleep(5 * INTERVAL)
            await trial.idle()
            sandbox.exchange.update(indexes[0], sandbox.now(), other("Ningbo"))
            await trial.idle()
            feed = trial.status.feed
            assert feed is not None
            assert feed.unacknowledged == 0
    assert kinds == ["new"] * 12 + ["updated"]
    assert len([record for record in caplog.records if "changed what it sends" in record.getMessage()]) == 1
