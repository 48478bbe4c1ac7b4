"""Dead letters and their replay."""

from __future__ import annotations

from typing import Any

import pytest
from tests.old.rig import Calls, new_bot, other

from freight_exchange import ConfigurationError
from freight_exchange.store import Store
from freight_exchange.testing import Sandbox

pytestmark = pytest.mark.virtual_time


async def test_replay_starts_with_new_attempts(store: Store) -> None:
    sandbox, calls = Sandbox(), Calls()
    is_mended = False

    def make_bot() -> Any:
        bot = new_bot(store)

        @bot.on_new(id="broken", retries=1)
        async def broken(request: Any, ctx: Any) -> None:
            calls.note("broken", ctx, request.index)
            if not is_mended:
                raise ValueError

        return bot

    bot = make_bot()
    async with sandbox.running(bot) as trial:
        index = sandbox.publish()
        await trial.idle()
        (dead,) = await bot.dead_letters()
        assert await bot.replay(dead.event, "broken") is True
        assert await bot.replay(dead.event, "broken") is False
        await trial.idle()
        assert await bot.dead_letters() == [dead]
    bot, is_mended = make_bot(), True
    async with sandbox.running(bot) as trial:
        await trial.idle()
        assert await bot.dead_letters() == [dead]
        assert await bot.replay(dead.event, "another") is False
        assert await bot.replay(dead.event + 1, "broken") is False
        assert await bot.replay(dead.event, "broken") is True
        await trial.idle()
        assert await bot.dead_letters() == []
        assert await bot.replay(dead.event, "broken") is False
    assert calls.of("broken") == [(index, 1), (index, 2)] * 2 + [(index, 1)]


async def test_letter_of_removed_handler_stays(store: Store) -> None:
    sandbox, calls = Sandbox(), list[int]()

    def make_bot(name: str) -> Any:
        bot = new_bot(store)

        @bot.on_new(id=name, retries=0)
        async def broken(request: Any, ctx: Any) -> None:
            calls.append(request.index)
            raise ValueError

        return bot

    bot = make_bot("old")
    async with sandbox.running(bot) as trial:
        index = sandbox.publish()
        await trial.idle()
    renamed = make_bot("new")
    async with sandbox.running(renamed) as trial:
        await trial.idle()
        (dead,) = await renamed.dead_letters()
        with pytest.raises(ConfigurationError, match="no handler 'old' any more"):
            await renamed.replay(dead.event, dead.handler)
        assert await renamed.replay(dead.event + 1, dead.handler) is False
        await trial.idle()
        assert await renamed.dead_letters() == [dead]
    async with sandbox.running(bot) as trial:
        await trial.idle()
        assert await bot.replay(dead.event, dead.handler)
        await trial.idle()
    assert calls == [index, index]


async def test_letter_blocks_no_later_event(store: Store) -> None:
    sandbox, received = Sandbox(), list[str]()
    bot = new_bot(store)

    @bot.on_new(id="both", retries=0)
    @bot.on_updated(id="both", retries=0)
    async def both(request: Any, ctx: Any) -> None:
        received.append(ctx.event.kind)
        if ctx.event.kind == "new":
            raise ValueError

    async with sandbox.running(bot) as trial:
        index = sandbox.publish()
        await trial.idle()
        sandbox.exchange.update(index, sandbox.now(), other("Ningbo"))
        await trial.idle()
        assert len(await bot.dead_letters()) == 1
    assert received == ["new", "updated"]


async def test_all_letters_are_listed(store: Store) -> None:
    sandbox = Sandbox()
    bot = new_bot(store, concurrency=50)
    for name in range(12):

        @bot.on_new(id=f"broken {name}", retries=0)
        async def broken(request: Any, ctx: Any) -> None:
            raise ValueError

    async with sandbox.running(bot) as trial:
        for _ in range(100):
            sandbox.publish()
        await trial.idle()
        assert trial.status.dead == 1200
        assert len(await bot.dead_letters()) == 1200
