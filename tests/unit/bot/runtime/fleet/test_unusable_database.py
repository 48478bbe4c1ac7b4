"""Tests of databases that a bot or a feed cannot use: one sentence, no partial change, and no password."""

from __future__ import annotations

import pytest
from tests.calls.canary import Catch
from tests.unit.store.postgres.unusable import MARK, Unusable, contents, unusable

from freight_exchange import Bot, StoreError
from freight_exchange.testing import Sandbox

__all__ = ["unusable"]


def check(error: StoreError, caught: Catch, refusing: Unusable, before: object) -> None:
    assert refusing.reason in str(error)
    assert "\n" not in str(error)
    assert contents() == before
    caught.error(error)
    assert [what for what, text in caught.texts if MARK in text] == []


async def test_bot_refuses_an_unusable_database_and_leaves_it_as_it_is(sandbox: Sandbox, unusable: Unusable) -> None:
    before = contents()
    with Catch() as caught:
        bot = Bot(store=unusable.address)
        bot.on_new(_quote)
        with pytest.raises(StoreError) as raised:
            await bot.serve(exchange=sandbox.client())
        caught.reachable(bot)
    check(raised.value, caught, unusable, before)


async def test_feed_refuses_an_unusable_database_and_leaves_it_as_it_is(sandbox: Sandbox, unusable: Unusable) -> None:
    before = contents()
    async with sandbox.client() as exchange:
        with Catch() as caught:
            feed = exchange.watch(store=unusable.address)
            with pytest.raises(StoreError) as raised:
                async with feed:
                    pass
            caught.reachable(feed)
    check(raised.value, caught, unusable, before)


async def _quote(request: object, ctx: object) -> None: ...
