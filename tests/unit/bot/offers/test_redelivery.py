"""Tests of absent offers: a handler sends them again, or the bot logs an error."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import attrs
import pytest
from tests.unit.bot.rig import (
    AMOUNT,
    BIDS,
    SELDOM,
    SETTLE,
    UNPROCESSED,
    amounts_on,
    eventually,
    messages,
    new_bot,
    offering_bot,
    offers,
    strike,
)

from freight_exchange import Bot, Drop
from freight_exchange.bot.ops.admin import BotFile
from freight_exchange.errors import OfferInDoubtError
from freight_exchange.store import SQLiteStore, Store
from freight_exchange.store.work import WorkStore
from freight_exchange.testing import Sandbox, Trial, virtual_time_options

pytestmark = pytest.mark.virtual_time
HOUR = 3600
AT_ONCE = timedelta(seconds=1)


def die_or_end(store: WorkStore, state: Any, *, older: bool = False) -> None:
    """Settle a delivery as earlier versions did while its offer was in doubt; `older` ones stored fewer fields."""
    (claimed,) = store.claim(now=float("inf"), limit=1)
    store.settle(claimed.event, claimed.handler, state=state, error="TimeoutError", at=0.0)
    if older:
        (kept,) = store.effects("unknown")
        reported = {name: text for name, text in json.loads(kept.payload).items() if name not in ("event", "shown")}
        assert store.put_effect(attrs.evolve(kept, payload=json.dumps(reported).encode()), expected_state="unknown")


def fickle_and_steady_bot(store: Store) -> Bot:
    """Make two handlers of new requests with the same offer. The first drops the event when its offer is in doubt."""
    bot = new_bot(store)

    @bot.on_new(id="fickle")
    async def fickle(request: Any, ctx: Any) -> None:
        try:
            await ctx.offer(amount=AMOUNT, currency=840)
        except OfferInDoubtError:
            raise Drop("let the other one do it") from None

    bot.on_new(id="steady")(offers())
    return bot


class TestEndedDelivery:
    """The handler dropped the event, or an earlier version settled the delivery."""

    async def in_doubt(self, sandbox: Sandbox, trial: Trial) -> int:
        """Leave an offer in doubt until the faults are cleared."""
        await trial.idle()
        await anyio.sleep(SETTLE.total_seconds())
        strike(sandbox, UNPROCESSED)
        strike(sandbox, "unavailable_forever", BIDS, times=None)
        index = sandbox.publish()
        await eventually(lambda: trial.status.in_doubt)
        await anyio.sleep(1)
        return index

    @pytest.mark.parametrize("by_hand", [False, True])
    @pytest.mark.parametrize("older", [False, True])
    async def test_dead_letter_is_replayed(
        self, sandbox: Sandbox, store: Store, by_hand: bool, older: bool, caplog: pytest.LogCaptureFixture
    ) -> None:
        bot = offering_bot(store)
        async with sandbox.running(bot) as trial:
            index = await self.in_doubt(sandbox, trial)
            await bot._components().unit_of_work.read(lambda store: die_or_end(store, "dead", older=older))
            if not older:
                await self.settled(sandbox, bot, trial, index, by_hand=by_hand)
        if older:
            bot = offering_bot(store)
            async with sandbox.running(bot) as trial:
                await eventually(lambda: trial.status.in_doubt)
                # A bot that has just started reads the account's bids before it offers, and may be between two tries.
                timeout = timedelta(minutes=5) if by_hand else AT_ONCE
                await self.settled(sandbox, bot, trial, index, by_hand=by_hand, within=timeout)
        assert amounts_on(sandbox, index) == [AMOUNT]
        assert messages(caplog, logging.ERROR) == []
        assert [line for line in messages(caplog) if "its handler sends it again" in line]

    async def settled(
        self, sandbox: Sandbox, bot: Bot, trial: Trial, index: int, *, by_hand: bool, within: timedelta = AT_ONCE
    ) -> None:
        (dead,) = await bot.dead_letters()
        assert dead.request == index
        if by_hand:
            await bot.resolve(index, taken=False)
        sandbox.exchange.faults.clear()
        # Nothing else wakes the bot before the next scan.
        await eventually(lambda: not trial.status.in_doubt)
        await eventually(lambda: amounts_on(sandbox, index), within=within)
        await trial.idle()
        assert await bot.dead_letters() == []

    @pytest.mark.parametrize("by_hand", [False, True])
    async def test_done_delivery_is_logged(
        self, sandbox: Sandbox, store: Store, by_hand: bool, caplog: pytest.LogCaptureFixture
    ) -> None:
        bot = new_bot(store)

        @bot.on_new(id="quote")
        async def quote(request: Any, ctx: Any) -> None:
            try:
                await ctx.offer(amount=AMOUNT, currency=840)
            except OfferInDoubtError:
                raise Drop("it was not worth it") from None

        async with sandbox.running(bot) as trial:
            index = await self.in_doubt(sandbox, trial)
            if by_hand:
                await bot.resolve(index, taken=False)
            sandbox.exchange.faults.clear()
            await eventually(lambda: not trial.status.in_doubt)
            await anyio.sleep(HOUR)
        assert amounts_on(sandbox, index) == []
        (error,) = messages(caplog, logging.ERROR)
        assert f"the offer on request {index} is no longer in doubt" in error
        assert "nothing sends it again: the handler 'quote'" in error
        assert "make it by hand" in error
        assert not [line for line in messages(caplog) if "its handler sends it again" in line]

    async def test_nothing_is_logged_if_another_handler_offers(
        self, sandbox: Sandbox, store: Store, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with sandbox.running(fickle_and_steady_bot(store)) as trial:
            index = await self.in_doubt(sandbox, trial)
            sandbox.exchange.faults.clear()
            await trial.idle()
        assert amounts_on(sandbox, index) == [AMOUNT]
        assert messages(caplog, logging.ERROR) == []

    @pytest.mark.parametrize("revision", [0, 1])
    async def test_done_delivery_is_logged_if_another_handler_offers_another_price(
        self, sandbox: Sandbox, store: Store, revision: int, caplog: pytest.LogCaptureFixture
    ) -> None:
        bot = new_bot(store)

        @bot.on_new(id="fickle")
        async def fickle(request: Any, ctx: Any) -> None:
            try:
                await ctx.offer(amount=AMOUNT, currency=840, revision=revision)
            except OfferInDoubtError:
                raise Drop("it was not worth it") from None

        bot.on_new(id="steady")(offers(amount=7, currency=840, revision=1 - revision))
        async with sandbox.running(bot) as trial:
            await trial.idle()
            await anyio.sleep(SETTLE.total_seconds())
            strike(sandbox, UNPROCESSED)
            index = sandbox.publish()
            await eventually(lambda: trial.status.in_doubt)
            # Another price waits for the account's bids, which are read before it is sent.
            strike(sandbox, "unavailable_forever", BIDS, times=None)
            await anyio.sleep(60)
            sandbox.exchange.faults.clear()
            await trial.idle()
        assert amounts_on(sandbox, index) == ["7"]
        (error,) = messages(caplog, logging.ERROR)
        assert f"the offer on request {index}{', revision 1' if revision else ''} is no longer in doubt" in error
        assert "nothing sends it again: the handler 'fickle'" in error
        assert not [line for line in messages(caplog) if "sends it again" in line]

    @pytest.mark.parametrize("by_hand", [False, True])
    @pytest.mark.parametrize("state", ["ready", "dead"])
    async def test_removed_handler_is_logged(
        self, sandbox: Sandbox, store: Store, state: str, by_hand: bool, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def quote(request: Any, ctx: Any) -> None:
            await ctx.offer(amount=AMOUNT, currency=840)

        bot = new_bot(store, interval=SELDOM)
        bot.on_new(id="old")(quote)
        async with sandbox.running(bot) as trial:
            index = await self.in_doubt(sandbox, trial)
            if state == "dead":
                await bot._components().unit_of_work.read(lambda store: die_or_end(store, "dead"))
        renamed = new_bot(store, interval=SELDOM)
        renamed.on_new(id="new")(quote)
        async with sandbox.running(renamed) as trial:
            await eventually(lambda: trial.status.in_doubt)
            if by_hand:
                await renamed.resolve(index, taken=False)
            sandbox.exchange.faults.clear()
            await eventually(lambda: not trial.status.in_doubt)
            await anyio.sleep(HOUR)
            dead = [letter.handler for letter in await renamed.dead_letters()]
        assert amounts_on(sandbox, index) == []
        assert dead == ["old"] * (state == "dead")
        (error,) = [line for line in messages(caplog, logging.ERROR) if "no longer in doubt" in line]
        assert "nothing sends it again: the handler 'old'" in error
        assert not [line for line in messages(caplog) if "sends it again" in line]

    async def test_done_delivery_is_logged_if_another_handler_may_offer(
        self, sandbox: Sandbox, store: Store, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Offers of waiting deliveries are not stored, so the next run does not know them."""

        async with sandbox.running(fickle_and_steady_bot(store)) as trial:
            index = await self.in_doubt(sandbox, trial)
            await anyio.sleep(60)
        async with sandbox.running(fickle_and_steady_bot(store)) as trial:
            await eventually(lambda: trial.status.in_doubt)
            sandbox.exchange.faults.clear()
            await trial.idle()
        assert amounts_on(sandbox, index) == [AMOUNT]
        (error,) = messages(caplog, logging.ERROR)
        assert "another handler waits, and may or may not send it again: the handler 'fickle'" in error
        assert not [line for line in messages(caplog) if "its handler sends it again" in line]


class TestBotFile:
    """The same decisions in the file of a stopped bot."""

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return tmp_path / "bot.db"

    @pytest.fixture
    def store(self, path: Path) -> Iterator[SQLiteStore]:
        with_file = SQLiteStore(path, inline=True)
        yield with_file
        with_file.close()

    def run(self, sandbox: Sandbox, store: SQLiteStore, state: str | None, *, currency: int = 840) -> None:
        async def main() -> None:
            bot = new_bot(store)
            bot.on_new(id="quote")(offers(amount=AMOUNT, currency=currency))
            async with sandbox.running(bot) as trial:
                await trial.idle()
                if state is None:
                    return
                strike(sandbox, UNPROCESSED)
                strike(sandbox, "unavailable_forever", BIDS, times=None)
                sandbox.publish()
                await eventually(lambda: trial.status.in_doubt)
                await anyio.sleep(1)
                if state != "ready":
                    await bot._components().unit_of_work.read(lambda store: die_or_end(store, state))

        anyio.run(main, backend="asyncio", backend_options=virtual_time_options("asyncio"))
        sandbox.exchange.faults.clear()

    @pytest.mark.parametrize(("state", "is_made"), [("ready", True), ("dead", True), ("done", False)])
    def test_absent_offer_is_sent_by_next_run_or_logged(
        self, sandbox: Sandbox, path: Path, store: SQLiteStore, state: str, is_made: bool, caplog: Any
    ) -> None:
        self.run(sandbox, store, state)
        store.close()
        file = BotFile(path)
        (doubt,) = file.doubts()
        assert file.resolve(doubt.request, taken=False) is is_made
        assert (file.doubts(), file.dead_letters()) == ([], [])
        errors = messages(caplog, logging.ERROR)
        assert len(errors) == (0 if is_made else 1)
        assert all("make it by hand" in error for error in errors)
        if is_made:
            assert "the handler 'quote' sends it again, if the bot still has it" in messages(caplog)[-1]
        self.run(sandbox, SQLiteStore(path, inline=True), None)
        assert amounts_on(sandbox, doubt.request) == ([AMOUNT] if is_made else [])

    def test_taken_offer_needs_no_handler(self, sandbox: Sandbox, path: Path, store: SQLiteStore) -> None:
        self.run(sandbox, store, "done")
        store.close()
        file = BotFile(path)
        (doubt,) = file.doubts()
        assert file.resolve(doubt.request, taken=True) is True

    def test_refused_offer_waits_for_its_dead_letter(
        self, sandbox: Sandbox, path: Path, store: SQLiteStore, caplog: pytest.LogCaptureFixture
    ) -> None:
        index = sandbox.publish()
        self.run(sandbox, store, None, currency=99)
        store.close()
        file = BotFile(path)
        assert file.resolve(index, taken=False) is False
        (dead,) = file.dead_letters()
        assert (dead.request, messages(caplog, logging.ERROR)[1:]) == (index, [])
