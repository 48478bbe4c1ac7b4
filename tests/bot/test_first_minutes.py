"""Tests of a bot's start, of how soon it reacts, and of how it comes to rest."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.bot.rig import BIDS, amounts_on, approve, eventually, new_bot, offers, run_until_idle
from tools.pages import ROOT, snippets_of

from freight_exchange import Bot, Context, RateRequest, RetryPolicy
from freight_exchange.bot import OfferContext, RequestContext, SelectedContext
from freight_exchange.models import Bid, Offer
from freight_exchange.store import Store
from freight_exchange.testing import FAULTS, Cargo, Sandbox, inline_store

pytestmark = pytest.mark.virtual_time


def bids_of(sandbox: Sandbox, count: int) -> None:
    """Give the account bids on requests that are gone."""
    for _ in range(count):
        request = sandbox.publish()
        sandbox.exchange.offer(sandbox.forwarder, request, sandbox.now(), amount=77)
        sandbox.exchange.withdraw(request, sandbox.now())


def selecting(store: Store | None) -> Bot:
    bot = new_bot(store)
    bot.on_new(id="quote")(offers())

    bot.on_selected(id="won")(noted)
    return bot


@pytest.mark.parametrize(("bids", "least"), [(0, 2), (10, 4), (200, 4)])
async def test_start_reads_the_bids_once_to_twenty_rows_past_the_end(store: Store, bids: int, least: int) -> None:
    sandbox = Sandbox()
    bids_of(sandbox, bids)
    for _ in range(2):
        before = len(sandbox.audit_log.calls)
        bot = selecting(store)
        async with sandbox.running(bot) as trial:
            await eventually(lambda: trial.status.state == "running")
            await anyio.sleep(20)
        calls = sandbox.audit_log.calls[before:]
        bids_read = [call for call in calls if call.path == BIDS]
        assert sum("type" not in call.parameters for call in bids_read) == least
        # The selected ones: the first scan or the deep one of a restart, and narrow scans.
        assert len(bids_read) <= least + 5
        assert len(calls) <= 20


def bot_of_the_readme() -> Bot:
    (code,) = [one.code for one in snippets_of(ROOT / "README.md") if one.name == "my_bot.py"]
    names: dict[str, Any] = {"__name__": "my_bot"}
    exec(code.replace('"bot.db"', "None"), names)
    bot: Bot = names["bot"]
    return bot


async def test_bot_of_the_readme_offers_and_hears_of_its_selection_within_three_seconds(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sandbox = Sandbox()
    async with sandbox.running(bot_of_the_readme()) as trial:
        await trial.idle()
        index = sandbox.publish(Cargo(destination="Long Beach"))
        await eventually(lambda: amounts_on(sandbox, index), timedelta(seconds=3))
        approve(sandbox, index)
        await eventually(lambda: "won" in capsys.readouterr().out, timedelta(seconds=3))


async def test_offer_follows_a_publication_within_three_seconds() -> None:
    sandbox = Sandbox()
    bot = new_bot(None, interval=timedelta(seconds=2))
    bot.on_new(offers())
    async with sandbox.running(bot) as trial:
        await trial.idle()
        for _ in range(3):
            await anyio.sleep(7.3)
            index = sandbox.publish()
            began = anyio.current_time()
            await eventually(lambda index=index: amounts_on(sandbox, index))  # type: ignore[misc]
            assert anyio.current_time() - began < 3


async def test_bot_that_starts_before_the_service_tries_after_half_a_minute_at_most(store: Store) -> None:
    sandbox, bot = Sandbox(), new_bot(store)
    bot.on_new(offers())
    sandbox.strike(*FAULTS["unavailable_forever"]())
    index = sandbox.publish()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(bot.serve, exchange=sandbox.client(retries=RetryPolicy(attempts=1))))
        await anyio.sleep(300)
        tries = [call.time for call in sandbox.audit_log.calls]
        sandbox.exchange.faults.clear()
        await eventually(lambda: amounts_on(sandbox, index), timedelta(seconds=45))
        bot.stop()
    assert [round(later - earlier) for earlier, later in pairwise(tries)][:7] == [1, 2, 4, 8, 16, 30, 30]
    assert len(tries) <= 16


async def test_selection_is_told_at_the_pace_of_the_feed() -> None:
    sandbox, won = Sandbox(), list[Bid]()
    bot = new_bot(None, interval=timedelta(seconds=2))
    bot.on_new(id="quote")(offers())

    @bot.on_selected(id="won")
    async def selected(bid: Bid, ctx: Context) -> None:
        won.append(bid)

    async with sandbox.running(bot) as trial:
        index = sandbox.publish()
        await trial.idle()
        approve(sandbox, index)
        began = anyio.current_time()
        await eventually(lambda: won)
        assert anyio.current_time() - began < 5


async def test_event_of_a_context_has_the_type_of_its_decorator(store: Store) -> None:
    sandbox, seen = Sandbox(), list[type]()
    bot = new_bot(store)

    def notes(kind: Any, expected: type) -> None:
        async def note(subject: Any, ctx: Any) -> None:
            seen.append(type(ctx))
            if expected is RequestContext:
                await ctx.offer(amount=1, currency="usd")

        kind(id=expected.__name__)(note)

    notes(bot.on_new, RequestContext)
    notes(bot.on_selected, SelectedContext)
    notes(bot.on_offer, OfferContext)
    index = sandbox.publish()
    await run_until_idle(sandbox, bot)
    approve(sandbox, index)
    async with sandbox.running(bot):
        await eventually(lambda: SelectedContext in seen)
    assert {*seen} == {RequestContext, SelectedContext}


async def test_bot_whose_scans_fail_is_not_live() -> None:
    sandbox = Sandbox()
    bot = new_bot(None, interval=timedelta(seconds=10))
    bot.on_new(offers())
    async with sandbox.running(bot) as trial:
        await trial.idle()
        assert trial.status.live
        sandbox.strike(*FAULTS["unavailable_forever"](times=None))
        await anyio.sleep(60)
        assert not trial.status.live
        sandbox.exchange.faults.clear()
        await trial.idle()
        assert trial.status.live


async def test_bot_that_looks_for_selections_seldom_is_live() -> None:
    """Each feed has three of its own intervals."""
    bot = new_bot(None, interval=timedelta(seconds=10), selection_interval=timedelta(minutes=10))
    bot.on_new(id="quote")(offers())
    bot.on_selected(id="won")(noted)
    async with Sandbox().running(bot) as trial:
        await trial.idle()
        for _ in range(30):
            await anyio.sleep(30)
            assert trial.status.live


async def noted(subject: Any, ctx: Any) -> None: ...


def typed(bot: Bot) -> None:
    """Show to type checkers that the event of a context needs no check."""

    @bot.on_updated
    async def updated(request: RateRequest, ctx: RequestContext) -> None:
        assert ctx.event.changed is not None

    @bot.on_offer
    async def offered(offer: Offer, ctx: OfferContext) -> None:
        assert ctx.event.listing is not None


async def test_store_that_is_lost_again_and_again_is_logged_once_a_minute(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    """Also that the bot runs again has one line for each loss that has one."""
    caplog.set_level("INFO", "freight_exchange.bot")
    sandbox, bot = Sandbox(), new_bot(store)
    bot.on_new(noted)
    async with sandbox.running(bot) as trial:
        published: list[int] = []
        for _ in range(20):
            await eventually(lambda: trial.status.state == "running")
            await store.run(lambda db: db.run("UPDATE replica SET lease_until = 0"))
            published.append(sandbox.publish())
            await eventually(lambda: trial.status.handled == len(published))
    counts = [sum(text in line for line in caplog.messages) for text in ("lost its place", "running: noted")]
    assert 1 <= counts[0] < 20
    assert counts[1] == 1 + counts[0]


async def test_lock_of_another_program_is_waited_out(tmp_path: Path) -> None:
    sandbox, path = Sandbox(), tmp_path / "bot.db"
    bot = new_bot(inline_store(path), interval=timedelta(seconds=1))
    bot.on_new(offers())
    async with sandbox.running(bot) as trial:
        await trial.idle()
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            index = sandbox.publish()
            await anyio.sleep(8)
        await eventually(lambda: amounts_on(sandbox, index))
        assert trial.status.state == "running"
