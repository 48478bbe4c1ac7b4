"""However a handler ends, its delivery lasts until it is known what came of its offer: an offer that is proven not to
have been taken is made again, or a person is told that nothing makes it."""

from __future__ import annotations

import contextlib
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
from tests.unit.bot import rig
from tests.unit.bot.ledger_rig import (
    AMOUNT,
    BIDS,
    CURRENCIES,
    OFFER,
    SETTLE,
    UNPROCESSED,
    amounts_on,
    blind,
    eventually,
    new_bot,
    offering_bot,
    said,
    sent,
    strike,
)

from freight_exchange import Bot, Drop, RetryLater
from freight_exchange.bot.ops.admin import BotFile
from freight_exchange.errors import ConfigurationError, OfferInDoubtError, ValidationError
from freight_exchange.store import SQLiteStore, Store
from freight_exchange.store.work import WorkStore
from freight_exchange.testing import FAULTS, Sandbox, Trial
from freight_exchange.testing.virtual_time import virtual_time_options

pytestmark = pytest.mark.virtual_time

store = rig.store

HOUR = 3600
SELDOM = timedelta(minutes=2)
"""The interval of bots that are waited for during hours: each scan takes its time of the test too."""


def stall(sandbox: Sandbox, *, times: int | None = 1) -> None:
    """Offers are not answered for 30 s, and not taken."""
    sandbox.strike(*[attrs.evolve(fault, processed=False, times=times) for fault in FAULTS["stall"](path=OFFER)])


class TestWhileItsOfferIsInDoubt:
    @pytest.mark.parametrize("retries", [0, 1])
    async def test_a_handler_that_runs_out_of_time_has_not_failed(
        self, sandbox: Sandbox, store: Store, retries: int, caplog: pytest.LogCaptureFixture
    ) -> None:
        bot, attempts = new_bot(store, settle=timedelta(seconds=30)), list[int]()

        @bot.on_new(retries=retries, timeout=10)
        async def quote(request: Any, ctx: Any) -> None:
            attempts.append(ctx.attempt)
            await ctx.offer(amount=AMOUNT, currency=840)

        stall(sandbox)
        index = sandbox.publish()
        async with sandbox.running(bot) as trial:
            await trial.idle()
            assert (trial.status.dead, trial.status.retried) == (0, 0)
            assert trial.status.offers == {"doubtful": 1, "not taken": 1, "confirmed": 1}
        assert amounts_on(sandbox, index) == [AMOUNT]
        assert attempts == [1, 1]
        # Why it ended is told all the same.
        (failure,) = [
            record for record in caplog.records if "TimeoutError; its offer is in doubt" in record.getMessage()
        ]
        assert failure.exc_info is not None
        assert failure.exc_info[0] is TimeoutError

    @pytest.mark.parametrize("by_hand", [False, True])
    async def test_a_handler_that_makes_another_error_of_it_has_not_failed(
        self, sandbox: Sandbox, store: Store, by_hand: bool
    ) -> None:
        bot, calls = new_bot(store), list[int]()

        @bot.on_new(retries=0)
        async def quote(request: Any, ctx: Any) -> None:
            calls.append(ctx.attempt)
            try:
                await ctx.offer(amount=AMOUNT, currency=840)
            except Exception as error:
                raise RuntimeError("quoting failed") from error

        async with sandbox.running(bot) as trial:
            await trial.idle()
            strike(sandbox, UNPROCESSED)
            with blind(sandbox):
                index = sandbox.publish()
                await anyio.sleep(600)
                assert (trial.status.in_doubt, trial.status.dead) == (1, 0)
                if by_hand:
                    await bot.resolve(index, taken=False)
            await trial.idle()
            assert (trial.status.dead, trial.status.retried) == (0, 0)
        assert amounts_on(sandbox, index) == [AMOUNT]
        assert calls == [1, 1]

    async def test_a_handler_that_asks_to_be_called_later_is_called_no_earlier(
        self, sandbox: Sandbox, store: Store
    ) -> None:
        bot, times = new_bot(store), list[float]()

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            times.append(anyio.current_time())
            try:
                await ctx.offer(amount=AMOUNT, currency=840)
            except OfferInDoubtError as error:
                raise RetryLater(timedelta(minutes=10), "tomorrow, as it were") from error

        async with sandbox.running(bot) as trial:
            await trial.idle()
            strike(sandbox, UNPROCESSED)
            index = sandbox.publish()
            await trial.idle()
        assert amounts_on(sandbox, index) == [AMOUNT]
        assert times[1] - times[0] == pytest.approx(600, abs=1)

    @pytest.mark.parametrize("drain", [0, 10])
    async def test_one_that_was_left_on_its_way_is_waited_for_no_longer_than_the_drain_lasts(
        self, sandbox: Sandbox, store: Store, drain: float
    ) -> None:
        attempts: list[int] = []

        def bot(drain: float) -> Bot:
            bot = new_bot(store, drain=timedelta(seconds=drain))

            @bot.on_new(retries=0, timeout=1)
            async def quote(request: Any, ctx: Any) -> None:
                attempts.append(ctx.attempt)
                await ctx.offer(amount=AMOUNT, currency=840)

            return bot

        strike(sandbox, "slow", seconds=4.0)
        index = sandbox.publish()
        async with sandbox.running(bot(drain)) as trial:
            await eventually(lambda: sent(sandbox) and not trial.status.in_flight)
            began = anyio.current_time()
        assert anyio.current_time() - began <= drain + 1
        async with sandbox.running(bot(30)) as trial:
            await trial.idle()
            assert trial.status.dead == 0
        assert amounts_on(sandbox, index) == [AMOUNT]
        # The next run calls it once or, where it comes before the doubt is settled, twice: no attempt has counted.
        assert attempts in ([1, 1], [1, 1, 1])


class TestOnceItIsSettled:
    async def test_a_handler_that_hangs_after_its_offer_fails_like_any_other(
        self, sandbox: Sandbox, store: Store
    ) -> None:
        bot, attempts = new_bot(store), list[int]()

        @bot.on_new(retries=2, timeout=10)
        async def quote(request: Any, ctx: Any) -> None:
            attempts.append(ctx.attempt)
            await ctx.offer(amount=AMOUNT, currency=840)
            await anyio.sleep(HOUR)

        index = sandbox.publish()
        async with sandbox.running(bot) as trial:
            await trial.idle()
            assert trial.status.dead == 1
        assert attempts == [1, 2, 3]
        assert amounts_on(sandbox, index) == [AMOUNT]

    async def test_a_handler_whose_every_offer_hangs_is_stopped_by_a_person_who_has_to_decide(
        self, sandbox: Sandbox, store: Store
    ) -> None:
        bot, calls = new_bot(store, interval=SELDOM), list[int]()

        @bot.on_new(retries=0, timeout=10)
        async def quote(request: Any, ctx: Any) -> None:
            calls.append(ctx.attempt)
            await ctx.offer(amount=AMOUNT, currency=840)

        stall(sandbox, times=None)
        sandbox.publish()
        async with sandbox.running(bot) as trial:
            await eventually(lambda: trial.status.parked)
            await anyio.sleep(HOUR)
            assert (trial.status.parked, trial.status.dead) == (1, 0)
        assert sent(sandbox) == len(calls) == 4

    @pytest.mark.parametrize("leaves", [False, True])
    @pytest.mark.parametrize(("fault", "path"), [("connect_stall", OFFER), ("stall", BIDS)])
    async def test_a_handler_that_never_comes_to_send_its_offer_is_dead_in_the_end(
        self, sandbox: Sandbox, store: Store, fault: str, path: str, leaves: bool
    ) -> None:
        """The rest of the service is there, for hours."""
        bot, calls = new_bot(store), list[int]()

        @bot.on_new(retries=2, timeout=10)
        async def quote(request: Any, ctx: Any) -> None:
            calls.append(request.index)
            with anyio.move_on_after(5 if leaves else HOUR):
                # The own bids on the request are read, since others may stand beside it.
                await ctx.offer(amount=AMOUNT, currency=840, allow_existing=True)

        async with sandbox.running(bot) as trial:
            await trial.idle()
            strike(sandbox, fault, path, times=None)
            index = sandbox.publish()
            await eventually(lambda: trial.status.dead, within=timedelta(hours=3))
            (dead,) = await bot.dead_letters()
            assert (dead.request, trial.status.in_doubt) == (index, 0)
            assert "before it was sent" in (dead.error or "")
        assert 3 < len(calls) < 100
        assert amounts_on(sandbox, index) == []


class TestWhileItsCurrencyIsLookedUp:
    async def test_a_handler_that_leaves_is_called_again(self, sandbox: Sandbox, store: Store) -> None:
        bot, calls = new_bot(store), list[int]()

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            calls.append(ctx.attempt)
            with anyio.move_on_after(2):
                await ctx.offer(amount=AMOUNT, currency="USD")

        strike(sandbox, "slow", CURRENCIES, seconds=4.0)
        index = sandbox.publish()
        async with sandbox.running(bot) as trial:
            await trial.idle()
            assert trial.status.handled == 1
        assert amounts_on(sandbox, index) == [AMOUNT]
        assert len(calls) == 2

    async def test_a_currency_that_cannot_be_looked_up_is_for_the_handler_to_act_on(
        self, sandbox: Sandbox, store: Store
    ) -> None:
        bot, errors = new_bot(store), list[str]()

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            try:
                await ctx.offer(amount=AMOUNT, currency="XYZ")
            except ValidationError as error:
                errors.append(error.field or "")

        index = sandbox.publish()
        async with sandbox.running(bot) as trial:
            await trial.idle()
            assert (trial.status.handled, trial.status.retried) == (1, 0)
        assert (errors, amounts_on(sandbox, index)) == (["currency"], [])

    async def test_one_that_cannot_be_makes_no_doubt_forgotten(self, sandbox: Sandbox, store: Store) -> None:
        bot, calls = new_bot(store), list[int]()

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            calls.append(ctx.attempt)
            try:
                await ctx.offer(amount=AMOUNT, currency=840)
            except OfferInDoubtError:
                with contextlib.suppress(ValidationError):
                    await ctx.offer(amount=AMOUNT, currency="XYZ")

        async with sandbox.running(bot) as trial:
            await trial.idle()
            strike(sandbox, UNPROCESSED)
            index = sandbox.publish()
            await trial.idle()
        assert amounts_on(sandbox, index) == [AMOUNT]
        assert calls == [1, 1]


class TestATaskThatOutlivesItsHandler:
    """The delivery is done, and nothing would call it again for an offer that did not come to be."""

    @pytest.mark.parametrize("looks_up", [False, True])
    async def test_makes_no_offer(self, sandbox: Sandbox, store: Store, looks_up: bool) -> None:
        bot, errors = new_bot(store), list[str]()

        async def later(ctx: Any) -> None:
            if not looks_up:
                await anyio.sleep(1)
            try:
                await ctx.offer(amount=AMOUNT, currency="USD" if looks_up else 1)
            except ConfigurationError as error:
                errors.append(str(error))

        @bot.on_new(id="quote")
        async def quote(request: Any, ctx: Any) -> None:
            if not begun:
                begun.append(ctx)
                beside.start_soon(later, ctx)
                await anyio.lowlevel.checkpoint()
                if looks_up:
                    await anyio.sleep(0.5)

        begun: list[Any] = []
        strike(sandbox, "slow", CURRENCIES, seconds=4.0)
        async with anyio.create_task_group() as beside, sandbox.running(bot) as trial:
            index = sandbox.publish()
            await trial.idle()
            await anyio.sleep(60)
            assert (sent(sandbox), trial.status.handled, trial.status.retried) == (0, 1, looks_up), (
                "one that had begun is called for again"
            )
        assert amounts_on(sandbox, index) == []
        (error,) = errors
        assert "the handler 'quote' has ended" in error

    async def test_makes_none_that_it_has_begun_where_the_own_bids_are_still_read(
        self, sandbox: Sandbox, store: Store
    ) -> None:
        bot, errors, began = new_bot(store), list[str](), anyio.Event()

        async def offer(ctx: Any) -> None:
            with pytest.raises(ConfigurationError) as error:
                await ctx.offer(amount=AMOUNT, currency=840, allow_existing=True)
            errors.append(str(error.value))

        @bot.on_new(id="quote")
        async def quote(request: Any, ctx: Any) -> None:
            if began.is_set():
                raise Drop
            began.set()
            beside.start_soon(offer, ctx)
            await anyio.sleep(1)

        strike(sandbox, "slow", BIDS, times=None)
        async with anyio.create_task_group() as beside, sandbox.running(bot) as trial:
            index = sandbox.publish()
            await anyio.sleep(60)
            assert (sent(sandbox), trial.status.handled, trial.status.offers) == (0, 1, {})
        assert amounts_on(sandbox, index) == []
        (error,) = errors
        assert "the handler 'quote' has ended" in error

    async def test_may_see_an_offer_to_its_end_that_it_made_before(self, sandbox: Sandbox, store: Store) -> None:
        bot, bids = new_bot(store), list[Any]()

        async def slowly(ctx: Any) -> None:
            bids.append(await ctx.offer(amount=AMOUNT, currency=840))

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            if not bids:
                beside.start_soon(slowly, ctx)
                await eventually(lambda: sent(sandbox))

        strike(sandbox, "slow", seconds=4.0)
        async with anyio.create_task_group() as beside, sandbox.running(bot) as trial:
            index = sandbox.publish()
            await trial.idle()
            assert trial.status.handled == 1
        assert (amounts_on(sandbox, index), len(bids)) == ([AMOUNT], 1)


AT_ONCE = timedelta(seconds=1)


def die_or_end(store: WorkStore, state: Any, *, older: bool = False) -> None:
    """As earlier versions did: with its offer in doubt, the delivery is dead, or done. Older ones kept less of it."""
    (claimed,) = store.claim(now=float("inf"), limit=1)
    store.settle(claimed.event, claimed.handler, state=state, error="TimeoutError", at=0.0)
    if older:
        (kept,) = store.effects("unknown")
        told = {name: said for name, said in json.loads(kept.payload).items() if name not in ("event", "shown")}
        assert store.put_effect(attrs.evolve(kept, payload=json.dumps(told).encode()), expected_state="unknown")


class TestADeliveryThatEndedBefore:
    """In a file of an earlier version it may have; where the handler drops its event, it has."""

    async def in_doubt(self, sandbox: Sandbox, trial: Trial) -> int:
        """Leave an offer in doubt for as long as nobody clears the faults away."""
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
    async def test_as_a_dead_letter_is_replayed_when_its_offer_proves_not_taken(
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
                # A bot that has just begun reads the own bids before it offers, and may be between two tries of that.
                patience = timedelta(minutes=5) if by_hand else AT_ONCE
                await self.settled(sandbox, bot, trial, index, by_hand=by_hand, within=patience)
        assert amounts_on(sandbox, index) == [AMOUNT]
        assert said(caplog, logging.ERROR) == []
        assert [line for line in said(caplog) if "its handler makes it again" in line]

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
    async def test_as_done_is_told_to_a_person(
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
        (error,) = said(caplog, logging.ERROR)
        assert f"the offer on request {index} is in doubt no more" in error
        assert "nothing makes it again: the handler 'quote'" in error
        assert "make it by hand" in error
        assert not [line for line in said(caplog) if "its handler makes it again" in line]

    async def test_as_done_is_told_to_nobody_where_another_makes_the_offer(
        self, sandbox: Sandbox, store: Store, caplog: pytest.LogCaptureFixture
    ) -> None:
        bot = new_bot(store)

        @bot.on_new(id="fickle")
        async def fickle(request: Any, ctx: Any) -> None:
            try:
                await ctx.offer(amount=AMOUNT, currency=840)
            except OfferInDoubtError:
                raise Drop("let the other one do it") from None

        @bot.on_new(id="steady")
        async def steady(request: Any, ctx: Any) -> None:
            await ctx.offer(amount=AMOUNT, currency=840)

        async with sandbox.running(bot) as trial:
            index = await self.in_doubt(sandbox, trial)
            sandbox.exchange.faults.clear()
            await trial.idle()
        assert amounts_on(sandbox, index) == [AMOUNT]
        assert said(caplog, logging.ERROR) == []

    @pytest.mark.parametrize("revision", [0, 1])
    async def test_as_done_is_told_to_a_person_where_another_waits_for_another_price(
        self, sandbox: Sandbox, store: Store, revision: int, caplog: pytest.LogCaptureFixture
    ) -> None:
        bot = new_bot(store)

        @bot.on_new(id="fickle")
        async def fickle(request: Any, ctx: Any) -> None:
            try:
                await ctx.offer(amount=AMOUNT, currency=840, revision=revision)
            except OfferInDoubtError:
                raise Drop("it was not worth it") from None

        @bot.on_new(id="steady")
        async def steady(request: Any, ctx: Any) -> None:
            await ctx.offer(amount=7, currency=840, revision=1 - revision)

        async with sandbox.running(bot) as trial:
            await trial.idle()
            await anyio.sleep(SETTLE.total_seconds())
            strike(sandbox, UNPROCESSED)
            index = sandbox.publish()
            await eventually(lambda: trial.status.in_doubt)
            # Another price waits for the own bids, which are read before it is sent.
            strike(sandbox, "unavailable_forever", BIDS, times=None)
            await anyio.sleep(60)
            sandbox.exchange.faults.clear()
            await trial.idle()
        assert amounts_on(sandbox, index) == ["7"]
        (error,) = said(caplog, logging.ERROR)
        assert f"the offer on request {index}{', revision 1' if revision else ''} is in doubt no more" in error
        assert "nothing makes it again: the handler 'fickle'" in error
        assert not [line for line in said(caplog) if "makes it again" in line]

    @pytest.mark.parametrize("by_hand", [False, True])
    @pytest.mark.parametrize("state", ["ready", "dead"])
    async def test_for_a_handler_that_is_gone_is_told_to_a_person(
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
        (error,) = [line for line in said(caplog, logging.ERROR) if "in doubt no more" in line]
        assert "nothing makes it again: the handler 'old'" in error
        assert not [line for line in said(caplog) if "makes it again" in line]

    async def test_as_done_is_told_to_a_person_where_it_is_not_known_what_another_waits_for(
        self, sandbox: Sandbox, store: Store, caplog: pytest.LogCaptureFixture
    ) -> None:
        """It is not kept: the next run does not know, and calls nobody before the doubt has ended."""

        def new() -> Bot:
            bot = new_bot(store)

            @bot.on_new(id="fickle")
            async def fickle(request: Any, ctx: Any) -> None:
                try:
                    await ctx.offer(amount=AMOUNT, currency=840)
                except OfferInDoubtError:
                    raise Drop("let the other one do it") from None

            @bot.on_new(id="steady")
            async def steady(request: Any, ctx: Any) -> None:
                await ctx.offer(amount=AMOUNT, currency=840)

            return bot

        async with sandbox.running(new()) as trial:
            index = await self.in_doubt(sandbox, trial)
            await anyio.sleep(60)
        async with sandbox.running(new()) as trial:
            await eventually(lambda: trial.status.in_doubt)
            sandbox.exchange.faults.clear()
            await trial.idle()
        assert amounts_on(sandbox, index) == [AMOUNT]
        (error,) = said(caplog, logging.ERROR)
        assert "another handler waits, and may make it again or not: the handler 'fickle'" in error
        assert not [line for line in said(caplog) if "its handler makes it again" in line]


class TestFromAShell:
    """The same, by a bot's file while the bot is stopped."""

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return tmp_path / "bot.db"

    @pytest.fixture
    def store(self, path: Path) -> Iterator[SQLiteStore]:
        with_file = SQLiteStore(path, inline=True)
        yield with_file
        with_file.close()

    def run(self, sandbox: Sandbox, store: SQLiteStore, state: str | None, *, currency: int = 840) -> None:
        """Have the bot offer, and end. With a state, the offer is left in doubt, and its delivery in that state."""

        async def main() -> None:
            bot = new_bot(store)

            @bot.on_new(id="quote")
            async def quote(request: Any, ctx: Any) -> None:
                await ctx.offer(amount=AMOUNT, currency=currency)

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
    def test_an_offer_that_was_not_taken_is_made_by_the_next_run_or_a_person_is_told(
        self, sandbox: Sandbox, path: Path, store: SQLiteStore, state: str, is_made: bool, caplog: Any
    ) -> None:
        self.run(sandbox, store, state)
        store.close()
        file = BotFile(path)
        (doubt,) = file.doubts()
        assert file.resolve(doubt.request, taken=False) is is_made
        assert (file.doubts(), file.dead_letters()) == ([], [])
        errors = said(caplog, logging.ERROR)
        assert len(errors) == (0 if is_made else 1)
        assert all("make it by hand" in error for error in errors)
        if is_made:
            assert "the handler 'quote' makes it again, if the bot still has it" in said(caplog)[-1]
        self.run(sandbox, SQLiteStore(path, inline=True), None)
        assert amounts_on(sandbox, doubt.request) == ([AMOUNT] if is_made else [])

    def test_one_that_was_taken_needs_nobody(self, sandbox: Sandbox, path: Path, store: SQLiteStore) -> None:
        self.run(sandbox, store, "done")
        store.close()
        file = BotFile(path)
        (doubt,) = file.doubts()
        assert file.resolve(doubt.request, taken=True) is True

    def test_one_that_was_refused_waits_for_its_dead_letter(
        self, sandbox: Sandbox, path: Path, store: SQLiteStore, caplog: pytest.LogCaptureFixture
    ) -> None:
        index = sandbox.publish()
        self.run(sandbox, store, None, currency=99)
        store.close()
        file = BotFile(path)
        assert file.resolve(index, taken=False) is False
        (dead,) = file.dead_letters()
        assert (dead.request, said(caplog, logging.ERROR)[1:]) == (index, [])
