"""Tests of answers in doubt: the reports for operators, and the ways in which doubts end."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import anyio
import pytest

from freight_exchange import Bot, Context, Offer, ValidationError
from freight_exchange.bot.ops.admin import BotFile
from freight_exchange.store import MemoryStore, SQLiteStore, Store
from freight_exchange.testing import FAULTS, Fault, Profile, Sandbox
from freight_sandbox.faults import json_reply

pytestmark = pytest.mark.virtual_time

APPROVE = "quote/approveoffer"
SOON = timedelta(minutes=4)
REFUSAL = Fault(name="refusal", path=APPROVE, processed=False, mutate=json_reply(400, {"message": "Not now."}))


def blind(sandbox: Sandbox) -> None:
    """Lose the next answer, and fail all reads after the one that precedes it."""
    lost = FAULTS["reset_after_send"](path=APPROVE)
    sandbox.strike(*lost, *FAULTS["unavailable"](path="quote/offer", times=None, skip=1))


def approving(store: Store | None = None) -> Bot:
    bot = Bot(store=MemoryStore() if store is None else store, interval=SOON, settle=timedelta(seconds=1))

    @bot.on_offer(id="award")
    async def award(offer: Offer, ctx: Context) -> None:
        await ctx.approve(offer)

    return bot


async def offered(sandbox: Sandbox, amount: int = 900, *, rival: bool = False, request: int | None = None) -> int:
    request = sandbox.publish() if request is None else request
    async with sandbox.client(sandbox.rival if rival else sandbox.forwarder) as forwarder:
        await forwarder.bids.submit(request, amount=amount, currency="USD")
    return request


def approvals(sandbox: Sandbox) -> int:
    return sum(call.processed for call in sandbox.audit_log.calls_to("POST", APPROVE))


async def wait_parked(bot: Bot) -> None:
    with anyio.fail_after(3600):
        while not bot.status().parked:  # noqa: ASYNC110 - virtual time
            await anyio.sleep(10)


@pytest.mark.parametrize("taken", [True, False])
async def test_approval_that_no_reading_shows_is_decided_by_a_person(taken: bool) -> None:
    sandbox, bot = Sandbox(), approving()
    request = await offered(sandbox)
    blind(sandbox)
    async with sandbox.running(bot, account=sandbox.shipper) as trial:
        await wait_parked(bot)
        (doubt,) = await bot.doubts()
        assert (doubt.kind, doubt.request, doubt.offer, doubt.amount) == ("approval", request, 5001, Decimal(900))
        assert (trial.status.answers["doubtful"], trial.status.parked) == (1, 1)
        with pytest.raises(ValidationError, match="no answer to offer 5002 is in doubt"):
            await bot.resolve(request, offer=5002, taken=taken)
        with pytest.raises(ValidationError, match="taken must be True or False"):
            await bot.resolve(request, offer=5001, taken="yes")  # type: ignore[arg-type]  # a form's answer
        sandbox.exchange.faults.clear()
        await bot.resolve(request, offer=5001, taken=taken)
        await trial.idle()
        assert await bot.doubts() == []
        assert trial.status.parked == 0
    assert approvals(sandbox) == (0 if taken else 1)


async def test_decline_is_no_longer_in_doubt_once_another_offer_is_approved() -> None:
    sandbox = Sandbox(Profile(decline_outcome="declined"))
    bot = Bot(store=None, interval=SOON, settle=timedelta(seconds=1))

    @bot.on_offer
    async def decline(offer: Offer, ctx: Context) -> None:
        if offer.id == 5001:
            await ctx.decline(offer)

    request = await offered(sandbox, 900)
    await offered(sandbox, 800, rival=True, request=request)
    blind(sandbox)
    async with sandbox.running(bot, account=sandbox.shipper) as trial:
        await wait_parked(bot)
        assert [doubt.kind for doubt in await bot.doubts()] == ["decline"]
        sandbox.exchange.select(5002, sandbox.now())
        sandbox.exchange.faults.clear()
        await trial.idle()
        assert await bot.doubts() == []
    assert approvals(sandbox) == 0


async def test_offer_whose_decline_is_in_doubt_is_not_approved() -> None:
    sandbox = Sandbox(Profile(decline_outcome="declined"))
    bot = Bot(store=None, interval=SOON, settle=timedelta(seconds=1))

    @bot.on_offer
    async def decide(offer: Offer, ctx: Context) -> None:
        await ctx.decline(offer)

    @bot.on_offer_changed
    async def approve(offer: Offer, ctx: Context) -> None:
        await ctx.approve(offer)

    await offered(sandbox)
    blind(sandbox)
    async with sandbox.running(bot, account=sandbox.shipper):
        await wait_parked(bot)
        sandbox.exchange.set_offer_status(5001, "revised", sandbox.now())
        await anyio.sleep(900)
    assert len(sandbox.audit_log.calls_to("POST", APPROVE)) == 1


async def test_doubt_is_seen_and_resolved_in_the_file(tmp_path: Path) -> None:
    sandbox, path = Sandbox(), tmp_path / "tender.db"
    request = await offered(sandbox)
    blind(sandbox)
    bot = approving(SQLiteStore(path, inline=True))
    async with sandbox.running(bot, account=sandbox.shipper):
        await wait_parked(bot)

    def decide() -> None:
        file = BotFile(path)
        (doubt,) = file.doubts()
        assert (doubt.kind, doubt.offer, doubt.parked, doubt.handler) == ("approval", 5001, True, "award")
        assert (file.status().answers["unknown"], file.status().parked) == (1, 1)
        (answer,) = file.explain(request).answers
        assert (answer.offer, answer.state) == (5001, "unknown")
        with pytest.raises(ValidationError, match="no answer to offer 7"):
            file.resolve(request, offer=7, taken=True)
        assert file.resolve(request, offer=5001, taken=False)
        assert (file.doubts(), file.status().parked) == ([], 0)

    await anyio.to_thread.run_sync(decide)
    sandbox.exchange.faults.clear()
    async with sandbox.running(approving(SQLiteStore(path, inline=True)), account=sandbox.shipper) as trial:
        await trial.idle()
    assert approvals(sandbox) == 1


async def test_refused_approval_is_sent_again_after_a_person_has_undone_it() -> None:
    sandbox, bot = Sandbox(), approving()
    request = await offered(sandbox)
    sandbox.strike(REFUSAL)
    async with sandbox.running(bot, account=sandbox.shipper) as trial:
        await trial.idle()
        (letter,) = await bot.dead_letters()
        assert (trial.status.answers, approvals(sandbox)) == ({"rejected": 1}, 0)
        await bot.resolve(request, offer=5001, taken=False)
        await bot.replay(letter.event, letter.handler)
        await trial.idle()
    assert approvals(sandbox) == 1
