"""What the end of a process costs a handler: nothing the first time its offer was on its way, and never its only call,
though one that ends the process each time is dead in the end."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from tests.unit.bot import rig
from tests.unit.bot.ledger_rig import AMOUNT, BIDS, UNPROCESSED, amounts_on, eventually, new_bot, sent, strike
from tests.unit.bot.rig import Process

from freight_exchange import Bot
from freight_exchange.store import Store
from freight_exchange.testing import Sandbox

pytestmark = [pytest.mark.virtual_time, pytest.mark.both_backends]

store = rig.store

ON_THE_WAY = ["after sending", "before send", "after send", "before confirmed"]


def quoting_bot(store: Store, attempts: list[int], *, retries: int = 0) -> Bot:
    bot = new_bot(store)

    @bot.on_new(id="quote", retries=retries)
    async def quote(request: Any, ctx: Any) -> None:
        attempts.append(ctx.attempt)
        await ctx.offer(amount=AMOUNT, currency=840)

    return bot


@pytest.mark.parametrize("point", ["after claim", "before intent", *ON_THE_WAY, "after confirmed", "before settle"])
async def test_a_handler_without_retries_makes_its_offer_through_a_crash(
    sandbox: Sandbox, store: Store, point: str
) -> None:
    attempts: list[int] = []
    index = sandbox.publish()
    async with sandbox.running(quoting_bot(store, attempts), crash_at=point) as trial:
        await trial.crashed()
    before = len(attempts)
    async with sandbox.running(quoting_bot(store, attempts)) as trial:
        await trial.idle()
        assert (trial.status.dead, trial.status.handled) == (0, 1)
    assert amounts_on(sandbox, index) == [AMOUNT]
    assert len(attempts) == before + 1
    # Around an offer nobody can tell of, it counts for nothing.
    assert attempts[-1] == (1 if point in ON_THE_WAY else 2)


@pytest.mark.parametrize(("retries", "kills", "decisions"), [(0, 3, 0), (1, 3, 0), (8, 10, 2)])
async def test_one_that_ends_the_process_as_it_sends_each_time_is_dead_in_the_end(
    sandbox: Sandbox, store: Store, retries: int, kills: int, decisions: int
) -> None:
    """After four sends that came to nothing a person has to say that it is to go on; it does not for ever."""
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


async def test_only_who_made_the_offer_waits_for_what_came_of_it(sandbox: Sandbox, store: Store) -> None:
    """Another handler that was interrupted on the same request is called, though a person may have to decide first."""
    calls: list[int] = []

    def bot_in(process: Process) -> Bot:
        bot = new_bot(store)

        @bot.on_new(id="quote")
        async def quote(request: Any, ctx: Any) -> None:
            await ctx.offer(amount=AMOUNT, currency=840)

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
