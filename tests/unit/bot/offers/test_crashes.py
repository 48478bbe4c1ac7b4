"""Tests of crashes at failpoints: one offer, one report of a selection, and an end of repeated crashes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import anyio
import pytest
from tests.unit.bot.rig import (
    AMOUNT,
    BIDS,
    SELDOM,
    UNPROCESSED,
    Process,
    amounts_on,
    approve,
    eventually,
    new_bot,
    offers,
    run_until_idle,
    sent,
    strike,
)

from freight_exchange import Bot
from freight_exchange.store import Store
from freight_exchange.testing import FAILPOINTS, FAULTS, Sandbox

pytestmark = pytest.mark.virtual_time
DOUBTFUL = {"before unknown", "after unknown", "before resolved", "after resolved"}
REFUSED = {"before rejected", "after rejected"}
NO_CURRENCY = 99
UNSENT = {"before withdrawn", "after withdrawn"}
SELECTED = {"before selected", "after selected", "before reported", "after reported"}


def reporting_bot(store: Store, selected: list[int], currency: int) -> Bot:
    bot = new_bot(store, interval=timedelta(seconds=30))
    bot.on_new(id="quote")(offers(amount=AMOUNT, currency=currency))

    @bot.on_selected
    async def won(bid: Any, ctx: Any) -> None:
        assert bid.contact is not None
        selected.append(bid.index)

    return bot


@pytest.mark.parametrize("point", FAILPOINTS)
async def test_crash_at_failpoint_changes_nothing_for_shipper(point: str, store: Store) -> None:
    sandbox, selected = Sandbox(), list[int]()
    index = sandbox.publish()
    if point in DOUBTFUL:
        sandbox.strike(*FAULTS["reset_after_processing"](path="quote/submitoffer"))
    if point in UNSENT:
        sandbox.strike(*FAULTS["not_found_page"](path="quote/submitoffer"))
    currency = NO_CURRENCY if point in REFUSED else 840

    async with sandbox.running(reporting_bot(store, selected, currency), crash_at=point) as trial:
        if point in SELECTED:
            await trial.idle()
            approve(sandbox, index)
        await trial.crashed()
    async with sandbox.running(reporting_bot(store, selected, currency)) as trial:
        if point in REFUSED:
            await anyio.sleep(120)
        else:
            await trial.idle()
        if point not in REFUSED | SELECTED:
            approve(sandbox, index)
        await anyio.sleep(600)
        status = trial.status

    assert trial.has_crashed is False
    assert status.parked == status.in_doubt == 0
    assert amounts_on(sandbox, index) == ([] if point in REFUSED else [AMOUNT])
    assert selected == ([] if point in REFUSED else [index])


ON_THE_WAY = ["after sending", "before send", "after send", "before confirmed"]


def quoting_bot(store: Store, attempts: list[int], *, retries: int = 0) -> Bot:
    bot = new_bot(store, interval=SELDOM)

    @bot.on_new(id="quote", retries=retries)
    async def quote(request: Any, ctx: Any) -> None:
        attempts.append(ctx.attempt)
        await ctx.offer(amount=AMOUNT, currency=840)

    return bot


@pytest.mark.parametrize("point", ["after claim", "before intent", *ON_THE_WAY, "after confirmed", "before settle"])
async def test_handler_without_retries_offers_after_crash(sandbox: Sandbox, store: Store, point: str) -> None:
    attempts: list[int] = []
    index = sandbox.publish()
    async with sandbox.running(quoting_bot(store, attempts), crash_at=point) as trial:
        await trial.crashed()
    before = len(attempts)
    status = await run_until_idle(sandbox, quoting_bot(store, attempts))
    assert (status.dead, status.handled) == (0, 1)
    assert amounts_on(sandbox, index) == [AMOUNT]
    assert len(attempts) == before + 1
    # Around an offer with an unknown outcome, it counts for nothing.
    assert attempts[-1] == (1 if point in ON_THE_WAY else 2)


@pytest.mark.parametrize(("retries", "kills", "decisions"), [(0, 3, 0), (4, 6, 1)])
async def test_handler_that_ends_process_at_each_send_is_dead_in_the_end(
    sandbox: Sandbox, store: Store, retries: int, kills: int, decisions: int
) -> None:
    """After four sends a person must decide, and the attempts are limited."""
    index, attempts, decided = sandbox.publish(), list[int](), 0
    for _ in range(kills):
        async with sandbox.running(quoting_bot(store, attempts, retries=retries), crash_at="before send") as trial:
            await eventually(lambda trial=trial: trial.has_crashed or trial.status.parked)  # type: ignore[misc]  # mypy has no types for it
            if not trial.has_crashed:
                await trial._bot.resolve(index, taken=False)
                decided += 1
            await trial.crashed()
    # The first counted for nothing, all the others do.
    assert attempts == [1, *range(1, kills)]
    bot = quoting_bot(store, attempts, retries=retries)
    async with sandbox.running(bot) as trial:
        await eventually(lambda: trial.status.dead or trial.status.parked)
        if trial.status.parked:
            await bot.resolve(index, taken=False)
            decided += 1
        await trial.idle()
        (dead,) = await bot.dead_letters()
        assert (dead.request, dead.attempts, trial.status.in_doubt) == (index, kills - 1, 0)
    assert len(attempts) == kills
    assert (sent(sandbox), decided) == (0, decisions)


async def test_only_handler_of_offer_waits_for_doubt(sandbox: Sandbox, store: Store) -> None:
    """Another interrupted handler of the same request is called at once."""
    calls: list[int] = []

    def bot_in(process: Process) -> Bot:
        bot = new_bot(store)
        bot.on_new(id="quote")(offers())

        @bot.on_new(id="ring")
        async def ring(request: Any, ctx: Any) -> None:
            calls.append(ctx.attempt)
            if len(calls) == 1:
                process.kill()

        return bot

    process = Process()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(process.run, sandbox, bot_in(process))
        await anyio.sleep(60)
        strike(sandbox, UNPROCESSED)
        strike(sandbox, "unavailable_forever", BIDS, times=None)
        sandbox.publish()
        await eventually(lambda: process.is_dead)
    async with sandbox.running(bot_in(Process())) as trial:
        await anyio.sleep(120)
        assert (trial.status.in_doubt, calls) == (1, [1, 2])
