"""Tests of the term: one replica of a fleet has it and scans, the others work."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

import anyio
import attrs
import pytest
from tests.unit.bot.rig import INTERVAL, amounts_on, blind, eventually, new_bot, offering_bot
from tests.unit.bot.runtime.fleet.one_of_two import OneOfTwo

from freight_exchange import RetryLater
from freight_exchange.feed.events import Gap
from freight_exchange.store.protocol import Commit, NewEvent
from freight_exchange.testing import Sandbox

pytestmark = pytest.mark.virtual_time

REQUESTS = "quote/getrequests"


async def test_replica_without_the_term_works_and_scans_once_it_is_free(sandbox: Sandbox) -> None:
    store, called = OneOfTwo(), list[int]()
    first = sandbox.publish()
    bot = new_bot(store)

    @bot.on_new(id="quote")
    async def postpone(request: Any, ctx: Any) -> None:
        called.append(request.index)
        raise RetryLater(timedelta(minutes=1))

    async with sandbox.running(bot):
        await eventually(lambda: called)
    store.is_free = False
    called.clear()
    again = new_bot(store)

    @again.on_new(id="quote")
    async def note(request: Any, ctx: Any) -> None:
        called.append(request.index)

    async with sandbox.running(again) as trial:
        await eventually(lambda: called)
        assert called == [first]
        second = sandbox.publish()
        await anyio.sleep(10 * INTERVAL)
        assert called == [first]
        assert (trial.status.state, trial.status.live, trial.status.feed) == ("running", True, None)
        store.is_free = True
        await eventually(lambda: second in called, within=timedelta(seconds=INTERVAL))
        assert trial.status.feed is not None


async def test_replica_without_the_term_follows_the_clock_of_the_scan(sandbox: Sandbox) -> None:
    """The scan may go to a machine whose clock is ahead: each delivery would look early for as long as that."""
    store = OneOfTwo()
    async with sandbox.running(offering_bot(store)) as trial:
        await trial.idle()
    store.is_free = False
    bot = offering_bot(store)
    async with sandbox.running(bot):
        await eventually(lambda: bot.status().state == "running")
        unit_of_work = bot._components().unit_of_work
        scanned_at = unit_of_work.time()

        def scan(*, ahead: float) -> None:
            assert store.state is not None
            watermark = attrs.evolve(store.state.watermark, time=scanned_at + ahead)
            store.feed_state = attrs.evolve(store.state, watermark=watermark).dump()

        scan(ahead=300.0)
        await eventually(lambda: unit_of_work.time() >= scanned_at + 300.0, within=timedelta(seconds=2))
        scan(ahead=100.0)
        await anyio.sleep(3)
        assert unit_of_work.time() >= scanned_at + 300.0 + 3.0
        store.is_free = True
        await eventually(lambda: bot.status().scans)
        index = sandbox.publish()
        await eventually(lambda: amounts_on(sandbox, index))


async def test_replica_that_is_stopped_while_it_joins_ends_without_an_error(sandbox: Sandbox) -> None:
    store = OneOfTwo()
    store.is_free = False
    bot = offering_bot(store)
    store.on_attempt = bot.stop
    await bot.serve(exchange=sandbox.client())


async def test_replica_without_the_term_acknowledges_gaps(sandbox: Sandbox) -> None:
    store = OneOfTwo()
    first, second = offering_bot(store), offering_bot(store)
    async with sandbox.running(first) as trial:
        await trial.idle()
        gap = NewEvent(key="gap:1", index=None, kind=Gap.kind, payload=b"")
        first._components().feed.lease.state().commit(lambda _: Commit(events=[gap]))
    store.is_free = False
    async with sandbox.running(second):
        await eventually(lambda: second.status().state == "running")
        assert await second.acknowledge_gaps() == 1
        assert await second.acknowledge_gaps() == 0


async def test_replica_whose_scans_fail_hands_the_term_over(sandbox: Sandbox, caplog: pytest.LogCaptureFixture) -> None:
    """Only this replica may be cut off from the service."""
    store = OneOfTwo()
    async with sandbox.running(offering_bot(store)) as trial:
        await trial.idle()
        with blind(sandbox, REQUESTS):
            await anyio.sleep(10 * INTERVAL)
            assert trial.status.scans, "no other replica lives"
            store.has_peer = True
            await eventually(lambda: not trial.status.scans, within=timedelta(seconds=2 * INTERVAL))
            assert "another replica scans from now on" in caplog.text
            store.is_free = False
            await anyio.sleep(10 * INTERVAL)
            assert not trial.status.scans
        # The other one ended.
        store.is_free = True
        index = sandbox.publish()
        await eventually(lambda: amounts_on(sandbox, index))
        await anyio.sleep(10 * INTERVAL)
        assert trial.status.scans


async def test_replica_whose_first_scan_fails_lets_another_one_try(
    sandbox: Sandbox, caplog: pytest.LogCaptureFixture
) -> None:
    store = OneOfTwo()
    bot = offering_bot(store)
    store.has_peer = True
    index = sandbox.publish()
    async with anyio.create_task_group() as tasks:
        with blind(sandbox, REQUESTS):
            tasks.start_soon(partial(bot.serve, exchange=sandbox.client()))
            await eventually(
                lambda: "another replica takes over scanning" in caplog.text, within=timedelta(seconds=5 * INTERVAL)
            )
            store.is_free = False
        await anyio.sleep(10 * INTERVAL)
        assert (bot.status().state, amounts_on(sandbox, index)) == ("starting", [])
        # The other one ended.
        store.is_free = True
        await eventually(lambda: amounts_on(sandbox, index))
        bot.stop()


async def test_replica_whose_first_scan_fails_tries_on_if_it_is_alone(sandbox: Sandbox) -> None:
    store = OneOfTwo()
    bot = offering_bot(store)
    index = sandbox.publish()
    async with anyio.create_task_group() as tasks:
        with blind(sandbox, REQUESTS):
            tasks.start_soon(partial(bot.serve, exchange=sandbox.client()))
            await anyio.sleep(10 * INTERVAL)
            # A term that it gave back now would not be free again.
            store.is_free = False
        await eventually(lambda: amounts_on(sandbox, index))
        bot.stop()


async def test_replica_gives_the_term_back_before_its_handlers_end(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another replica scans in the meantime."""
    released, ended = list[object](), anyio.Event()
    monkeypatch.setattr("freight_exchange.store.sqlite.seat._Term.release", lambda term: released.append(term))
    bot = new_bot(OneOfTwo())

    @bot.on_new(id="quote")
    async def take_long(request: Any, ctx: Any) -> None:
        await ended.wait()

    sandbox.publish()
    async with sandbox.running(bot) as trial:
        await eventually(lambda: trial.status.in_flight)
        bot.stop()
        await anyio.sleep(1)
        assert (trial.status.state, len(released)) == ("draining", 1)
        ended.set()


async def test_replica_waits_for_the_first_page_of_the_other(sandbox: Sandbox) -> None:
    store = OneOfTwo()
    store.is_free = False
    index = sandbox.publish()
    bot = offering_bot(store)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(bot.serve, exchange=sandbox.client()))
        await anyio.sleep(60)
        assert (bot.status().state, bot.status().live) == ("starting", True)
        store.is_free = True
        await eventually(lambda: amounts_on(sandbox, index))
        bot.stop()


async def test_store_that_was_restored_is_not_trusted_before_the_own_bids_were_read(
    sandbox: Sandbox, caplog: pytest.LogCaptureFixture
) -> None:
    """The service may list late an offer that the store has forgotten, even on a request that the store never had."""
    store = OneOfTwo()
    async with sandbox.running(offering_bot(store)) as trial:
        await trial.idle()
    # An offer of a replica that still runs may leave, and arrive, for as long as one that is adopted.
    store.is_restored, store.wait = True, 20.0
    bot = offering_bot(store, settle=timedelta(seconds=30))
    async with sandbox.running(bot):
        await anyio.sleep(1)
        index = sandbox.publish()
        await anyio.sleep(40)
        assert amounts_on(sandbox, index) == []
        await eventually(lambda: amounts_on(sandbox, index), within=timedelta(seconds=60))
        assert not store.is_restored
    assert "the database may have lost its last commits" in caplog.text
