"""Tests of a bot's file, which another process may read and change at any time."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from freight_exchange import (
    Bot,
    StoreError,
    ValidationError,
)
from freight_exchange.bot.admin import BotFile
from freight_exchange.store import Store
from freight_exchange.testing import FAULTS, Cargo, Profile, Sandbox, virtual_time_options


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bot.db"


def made(path: Path, handler: Callable[[Any, Any], Awaitable[None]], **options: Any) -> Bot:
    bot = Bot(store=Store(path, inline=True), start="backfill", interval=timedelta(minutes=10), **options)
    bot.on_new(id="quote", retries=0)(handler)
    return bot


def run(sandbox: Sandbox, bot: Bot, during: Callable[[], object] = lambda: None, *, hours: float = 0.5) -> None:
    # Less than an hour: the next run's wall clock is behind by as much, and an hour is a large step.
    async def main() -> None:
        async with sandbox.running(bot):
            await anyio.sleep(3600 * hours)
            # A loop of its own is what a shell has.
            await anyio.to_thread.run_sync(during)

    anyio.run(main, backend="asyncio", backend_options=virtual_time_options("asyncio"))


async def offer(request: Any, ctx: Any) -> None:
    await ctx.offer(amount="1840.50", currency="USD")


async def fail(request: Any, ctx: Any) -> None:
    raise ValueError("no tariff")


def test_status_of_stopped_bot(path: Path) -> None:
    sandbox = Sandbox()
    sandbox.publish()
    run(sandbox, made(path, offer))
    status = BotFile(path).status()
    assert (status.name, status.base_url, status.account) == ("bot", sandbox.url, sandbox.forwarder.email)
    assert status.holder is None
    assert status.covered_until is not None
    assert status.covered_until.tzinfo is UTC
    assert status.unacknowledged == 0
    assert status.deliveries == {"ready": 0, "claimed": 0, "done": 1, "dead": 0}
    assert status.offers == {
        "sending": 0, "unknown": 0, "parked": 0, "confirmed": 1, "refused": 0, "absent": 0
    }  # fmt: skip
    assert status.parked == 0
    assert status.gaps == []


def test_dead_letter_is_replayed_by_next_run(path: Path) -> None:
    sandbox = Sandbox()
    index = sandbox.publish()
    run(sandbox, made(path, fail))
    file = BotFile(path)
    (letter,) = file.dead_letters()
    assert (letter.handler, letter.request, letter.error) == ("quote", index, "ValueError: no tariff")
    assert not file.replay(letter.event, "another")
    assert file.replay(letter.event, "quote")
    assert file.dead_letters() == []
    run(sandbox, made(path, offer))
    assert len(sandbox.audit_log.offers_on(index)) == 1


def test_refusal_is_undone_by_hand(path: Path) -> None:
    async def offer_too_late(request: Any, ctx: Any) -> None:
        await ctx.offer(amount="1840.50", currency=99, revision=1)

    sandbox = Sandbox()
    index = sandbox.publish()
    run(sandbox, made(path, offer_too_late))
    file = BotFile(path)
    (refused,) = file.explain(index).offers
    assert (refused.state, refused.revision) == ("refused", 1)
    with pytest.raises(ValidationError, match="taken must be True or False"):
        file.resolve(index, taken="no", revision=1)  # type: ignore[arg-type]  # a form's answer
    file.resolve(index, taken=False, revision=1)
    assert [entry.state for entry in file.explain(index).offers] == ["absent"]
    assert [made.state for made in file.explain(index + 1).offers] == []


def test_gap_is_acknowledged_beside_a_running_bot(path: Path) -> None:
    sandbox = Sandbox()
    run(sandbox, made(path, offer))
    sandbox.machine.suspend(timedelta(days=7).total_seconds())
    file = BotFile(path)

    def acknowledge() -> None:
        (gap,) = file.gaps()
        assert gap.until - gap.since > timedelta(days=1)
        assert [*file.status().gaps] == [gap]
        assert file.acknowledge_gaps() == 1

    # Beside the bot that runs.
    run(sandbox, made(path, offer), acknowledge)
    assert (file.gaps(), file.acknowledge_gaps()) == ([], 0)


def test_history_of_request(path: Path) -> None:
    sandbox = Sandbox()
    index = sandbox.publish()
    run(sandbox, made(path, offer))
    reported = BotFile(path).explain(index)
    assert reported.explanation.verdict == "handed-out"
    assert reported.deliveries == [("new", "quote", "done", None)]
    assert [(offer.revision, offer.state, offer.amount) for offer in reported.offers] == [
        (0, "confirmed", Decimal("1840.50"))
    ]
    unseen = BotFile(path).explain(index + 1)
    assert (unseen.explanation.verdict, unseen.deliveries, unseen.offers) == ("unseen", [], [])


def test_history_says_that_no_handler_matched(path: Path) -> None:
    sandbox = Sandbox()
    index = sandbox.publish(Cargo(origin="Oslo"))
    bot = Bot(store=Store(path, inline=True), start="backfill", interval=timedelta(minutes=10))
    bot.on_new(id="quote", origin="Bergen")(offer)
    run(sandbox, bot)
    reported = BotFile(path).explain(index)
    # The feed handed it to the bot.
    assert (reported.explanation.verdict, reported.deliveries) == ("handed-out", [])


def test_killed_holder_holds_nothing(path: Path) -> None:
    sandbox = Sandbox()
    sandbox.publish()

    async def main() -> None:
        async with sandbox.running(made(path, offer), crash_at="after confirmed") as trial:
            await trial.crashed()

    anyio.run(main, backend="asyncio", backend_options=virtual_time_options("asyncio"))
    assert BotFile(path).status().offers["confirmed"] == 1


def test_path_without_store_raises(path: Path) -> None:
    with pytest.raises(StoreError, match="there is no store"):
        BotFile(path).status()
    assert not path.exists()
    path.write_text("not a database, but long enough to be taken for one at a glance")
    with pytest.raises(StoreError, match="is not a database"):
        BotFile(path).status()


@pytest.mark.anyio
async def test_letters_are_replayed_and_dropped_beside_a_running_bot(path: Path) -> None:
    sandbox, is_broken = Sandbox(), [True]
    bot = Bot(store=path, start="backfill", interval=timedelta(seconds=1))

    @bot.on_new(id="quote", retries=0)
    async def quote(request: Any, ctx: Any) -> None:
        if is_broken:
            raise ValueError("no tariff")
        await ctx.offer(amount="1840.50", currency="USD")

    file = BotFile(path)
    async with sandbox.running(bot) as trial:
        one, other = sandbox.publish(), sandbox.publish()
        with anyio.fail_after(30):
            while trial.status.dead < 2:  # noqa: ASYNC110 - the status has no event
                await anyio.sleep(0.05)
        letters = {letter.request: letter for letter in await anyio.to_thread.run_sync(file.dead_letters)}
        assert datetime.now(UTC) - letters[one].since < timedelta(minutes=1)
        is_broken.clear()
        assert await anyio.to_thread.run_sync(file.replay, letters[one].event, "quote")
        assert await anyio.to_thread.run_sync(file.drop, letters[other].event, "quote")
        assert not await anyio.to_thread.run_sync(file.drop, letters[other].event, "quote")
        with pytest.raises(ValidationError, match="is not in doubt"):
            await anyio.to_thread.run_sync(partial(file.resolve, other, taken=True))
        await trial.idle()
    assert [len(sandbox.audit_log.offers_on(index)) for index in (one, other)] == [1, 0]
    assert await anyio.to_thread.run_sync(file.dead_letters) == []


@pytest.mark.anyio
async def test_doubt_is_resolved_beside_a_running_bot(path: Path) -> None:
    # It rounds prices: the one that is there may be the bot's, or not.
    sandbox = Sandbox(Profile(amount_rounding="whole"))
    sandbox.strike(*FAULTS["reset_after_processing"](path="quote/submitoffer"))
    bot = Bot(store=path, start="backfill", interval=timedelta(seconds=1))
    bot.on_new(id="quote")(offer)
    file = BotFile(path)
    async with sandbox.running(bot) as trial:
        index = sandbox.publish()
        with anyio.fail_after(30):
            while not trial.status.in_doubt:  # noqa: ASYNC110 - the status has no event
                await anyio.sleep(0.05)
            await anyio.to_thread.run_sync(partial(file.resolve, index, taken=True))
            handling = await anyio.to_thread.run_sync(file.explain, index)
            while handling.deliveries[0][2] != "done":
                await anyio.sleep(0.05)
                handling = await anyio.to_thread.run_sync(file.explain, index)
        assert await anyio.to_thread.run_sync(file.doubts) == []
    assert [entry.state for entry in handling.offers] == ["confirmed"]
    assert len(sandbox.audit_log.offers_on(index)) == 1


@pytest.mark.parametrize(("age", "state"), [(10.0, "sending"), (30.0, "confirmed")])
def test_write_that_may_still_arrive_is_not_decided_from_outside(path: Path, age: float, state: str) -> None:
    """Only the bot itself knows that it does not send a write any more."""
    sandbox = Sandbox()
    index = sandbox.publish()
    run(sandbox, made(path, offer), hours=0.001)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE effect SET state = 'sending', owner = 1, at = ?", (time.time() - age,))
    with pytest.raises(ValidationError, match="may still arrive for") if state == "sending" else nullcontext():
        BotFile(path).resolve(index, taken=True)
    assert [entry.state for entry in BotFile(path).explain(index).offers] == [state]
