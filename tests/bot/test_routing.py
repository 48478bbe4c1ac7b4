"""Routing of events to handlers."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest
from tests.bot.recorders import LOGGER, hearing
from tests.bot.rig import INTERVAL, new_bot, other, run_until_idle

from freight_exchange import Bot, Unreadable
from freight_exchange.store import Store
from freight_exchange.testing import Profile, Sandbox

pytestmark = pytest.mark.virtual_time


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
