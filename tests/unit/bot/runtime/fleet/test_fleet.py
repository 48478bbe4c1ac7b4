"""Replicas of a bot on one database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import anyio
import attrs
import pytest
from tests.unit.bot.rig import amounts_on, blind, eventually, messages, new_bot, offering_bot, offers, strike
from tests.unit.store.postgres.databases import database_url, empty_store, execute
from tests.unit.store.rows import BINDING

from freight_exchange import Bot
from freight_exchange.bot.ops.admin import BotFile
from freight_exchange.bot.runtime.fleet import term
from freight_exchange.bot.runtime.fleet.membership import Membership
from freight_exchange.store import PostgresStore
from freight_exchange.store.postgres.connection import DatabaseConnection
from freight_exchange.store.postgres.fleet import seat
from freight_exchange.store.postgres.fleet.work import PostgresWork
from freight_exchange.store.postgres.history import History
from freight_exchange.testing import Sandbox

REQUESTS = "quote/getrequests"
WITHIN = timedelta(seconds=20)


@pytest.fixture
def store() -> Iterator[PostgresStore]:
    store = empty_store(lease=timedelta(seconds=6))
    yield store
    store.close()


@asynccontextmanager
async def replicas(sandbox: Sandbox, store: Any, count: int, **options: Any) -> AsyncIterator[list[Bot]]:
    """Run bots during the block, and stop them at its end."""
    bots = [offering_bot(store, interval=timedelta(seconds=1), **options) for _ in range(count)]
    async with anyio.create_task_group() as tasks:
        for bot in bots:
            tasks.start_soon(partial(bot.serve, exchange=sandbox.client()))
            await eventually(partial(_runs, bot), WITHIN)
        yield bots
        for bot in bots:
            bot.stop()


def _runs(bot: Bot) -> bool:
    return bot.status().state == "running"


async def idle(sandbox: Sandbox, *indexes: int) -> None:
    """Wait until the database records an offer on each request."""
    await eventually(lambda: all(amounts_on(sandbox, index) for index in indexes), WITHIN)
    await eventually(lambda: _open_deliveries() == 0, WITHIN)


def _leases() -> list[Any]:
    return execute("SELECT lease_until FROM freight_exchange.replica")


def _open_deliveries() -> int:
    ((count,),) = execute("SELECT count(*) FROM freight_exchange.delivery WHERE state <> 'done'")
    return int(count)


async def test_one_replica_scans_and_another_takes_over_when_it_stops(sandbox: Sandbox, store: PostgresStore) -> None:
    first = sandbox.publish()
    async with replicas(sandbox, store, 2) as (poller, other):
        await idle(sandbox, first)
        assert (poller.status().feed is None, other.status().feed is None) == (False, True)
        assert (other.status().live, other.status().state) == (True, "running")
        assert (poller.status().scans, other.status().scans) == (True, False)
        report = await anyio.to_thread.run_sync(BotFile(database_url()).status)
        assert (len(report.replicas), report.holder in report.replicas) == (2, True)
        assert (report.deliveries["done"], report.offers["confirmed"], report.gaps) == (1, 1, [])
        poller.stop()
        await eventually(lambda: other.status().feed is not None, WITHIN)
        assert other.status().scans
        second = sandbox.publish()
        await idle(sandbox, second)
    assert [len(amounts_on(sandbox, index)) for index in (first, second)] == [1, 1]


async def test_only_the_scanning_replica_counts_waiting_deliveries(
    sandbox: Sandbox, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = set[int]()

    def count(work: PostgresWork, **_: Any) -> tuple[int, None]:
        counted.add(work._replica.id)
        return 0, None

    monkeypatch.setattr(PostgresWork, "count_overdue", count)
    async with replicas(sandbox, store, 2) as (poller, other):
        await idle(sandbox, *(sandbox.publish() for _ in range(5)))
        await eventually(lambda: counted, WITHIN)
        await anyio.sleep(3.0)
        assert len(counted) == 1
        poller.stop()
        await eventually(lambda: len(counted) == 2, WITHIN)
        assert other.status().scans


async def test_replica_that_drains_does_not_scan(sandbox: Sandbox, store: PostgresStore) -> None:
    ended, waiting = anyio.Event(), new_bot(store, interval=timedelta(seconds=1))

    @waiting.on_new(id="quote")
    async def take_long(request: Any, ctx: Any) -> None:
        await ended.wait()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(waiting.serve, exchange=sandbox.client()))
        sandbox.publish()
        await eventually(lambda: waiting.status().in_flight, WITHIN)
        assert waiting.status().scans
        waiting.stop()
        await eventually(lambda: not waiting.status().scans, WITHIN)
        assert waiting.status().state == "draining"
        ended.set()


async def test_notification_hands_the_term_over(
    sandbox: Sandbox, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with replicas(sandbox, store, 2) as (poller, other):
        # The other one looks for the term once more, and then would in an hour.
        monkeypatch.setattr(term, "_POLL_INTERVAL", 3600.0)
        await anyio.sleep(2.0)
        poller.stop()
        await eventually(lambda: other.status().feed is not None, WITHIN)


async def test_replica_that_was_taken_over_joins_again(
    sandbox: Sandbox, store: PostgresStore, caplog: pytest.LogCaptureFixture
) -> None:
    async with replicas(sandbox, store, 1) as (bot,):
        execute("UPDATE freight_exchange.replica SET epoch = epoch + 1, has_left = true")
        index = sandbox.publish()
        await idle(sandbox, index)
        assert bot.status().state == "running"
    assert len(amounts_on(sandbox, index)) == 1
    assert any("has lost its seat in the store" in message for message in messages(caplog))


async def test_replica_recognises_a_database_that_stepped_back_though_its_store_is_an_address(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    empty_store().close()
    histories, check = list[History](), History.check

    def record(history: History, connection: DatabaseConnection, binding: int) -> tuple[bool, str, int]:
        histories.append(history)
        return check(history, connection, binding)

    monkeypatch.setattr(History, "check", record)
    monkeypatch.setattr(seat, "_ADOPTION_WAIT", 0.0)
    async with replicas(sandbox, database_url(), 1, settle=timedelta(0)) as (bot,):
        execute("UPDATE freight_exchange.replica SET epoch = epoch + 1, has_left = true")
        histories[0].flushed = "FFFFFFFF/0"
        await idle(sandbox, sandbox.publish())
        assert bot.status().state == "running"
    assert "the database may have lost its last commits" in caplog.text


async def test_replica_joins_again_after_its_connections_were_cut(sandbox: Sandbox, store: PostgresStore) -> None:
    async with replicas(sandbox, store, 1):
        execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'freight-exchange'")
        index = sandbox.publish()
        await idle(sandbox, index)
    assert len(amounts_on(sandbox, index)) == 1


async def test_lease_is_renewed_before_the_first_page(sandbox: Sandbox, store: PostgresStore) -> None:
    bot = offering_bot(store, interval=timedelta(seconds=1))
    async with anyio.create_task_group() as tasks:
        with blind(sandbox, REQUESTS):
            tasks.start_soon(partial(bot.serve, exchange=sandbox.client()))
            await eventually(_leases, WITHIN)
            (joined,) = _leases()
            await eventually(lambda: _leases() != [joined], WITHIN)
        await eventually(partial(_runs, bot), WITHIN)
        bot.stop()


@pytest.mark.parametrize(
    "loss",
    [
        "UPDATE freight_exchange.replica SET epoch = epoch + 1, has_left = true",
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'freight-exchange'",
    ],
)
@pytest.mark.both_backends
async def test_replica_that_loses_its_seat_before_the_first_page_joins_again(
    sandbox: Sandbox, store: PostgresStore, loss: str
) -> None:
    bot, index = offering_bot(store, interval=timedelta(seconds=1)), sandbox.publish()
    async with anyio.create_task_group() as tasks:
        with blind(sandbox, REQUESTS):
            tasks.start_soon(partial(bot.serve, exchange=sandbox.client()))
            await eventually(_leases, WITHIN)
            execute(loss)
        await idle(sandbox, index)
        bot.stop()
    assert len(amounts_on(sandbox, index)) == 1


@pytest.mark.both_backends
async def test_replicas_take_turns_at_the_first_page(
    sandbox: Sandbox, store: PostgresStore, caplog: pytest.LogCaptureFixture
) -> None:
    """One that waits for it has to be announced, so that it counts as a peer."""
    bots = [offering_bot(store, interval=timedelta(seconds=1)) for _ in range(2)]
    async with anyio.create_task_group() as tasks:
        with blind(sandbox, REQUESTS):
            for bot in bots:
                tasks.start_soon(partial(bot.serve, exchange=sandbox.client()))
            await eventually(lambda: "another replica takes over scanning" in caplog.text, WITHIN)
        await idle(sandbox, sandbox.publish())
        await eventually(lambda: all(_runs(bot) for bot in bots), WITHIN)
        for bot in bots:
            bot.stop()


async def test_newer_version_scans(sandbox: Sandbox, store: PostgresStore) -> None:
    """A handler that only the newer version has receives all later findings."""
    called = list[int]()
    newer = offering_bot(store, interval=timedelta(seconds=1))

    @newer.on_new(id="log")
    async def note(request: Any, ctx: Any) -> None:
        called.append(request.index)

    async with replicas(sandbox, store, 1) as (old,), anyio.create_task_group() as tasks:
        tasks.start_soon(partial(newer.serve, exchange=sandbox.client()))
        await eventually(lambda: newer.status().feed is not None, WITHIN)
        assert old.status().state == "running"
        index = sandbox.publish()
        await idle(sandbox, index)
        newer.stop()
    assert (called, len(amounts_on(sandbox, index))) == ([index], 1)


@pytest.mark.both_backends
async def test_newer_version_that_cannot_log_in_leaves_the_scans_to_an_older_one(
    sandbox: Sandbox, store: PostgresStore
) -> None:
    async with replicas(sandbox, store, 1) as (old,), anyio.create_task_group() as tasks:
        await idle(sandbox, first := sandbox.publish())
        strike(sandbox, "refused", path="login", times=None)
        newer = offering_bot(store, interval=timedelta(seconds=1))
        newer.on_updated(id="log")(offers())
        tasks.start_soon(partial(newer.serve, exchange=sandbox.client()))
        await eventually(lambda: len(_leases()) == 2, WITHIN)
        await anyio.sleep(3.0)
        await idle(sandbox, second := sandbox.publish())
        assert (old.status().scans, newer.status().scans) == (True, False)
        sandbox.exchange.faults.clear()
        await eventually(lambda: newer.status().scans, WITHIN)
        await idle(sandbox, third := sandbox.publish())
        newer.stop()
    assert [len(amounts_on(sandbox, index)) for index in (first, second, third)] == [1, 1, 1]


async def test_newer_version_that_returns_gets_the_requests_of_its_absence(
    sandbox: Sandbox, store: PostgresStore
) -> None:
    """A deploy restarts the replicas of the newer version while an older one lives, and scans."""
    called = list[int]()

    def make_newer() -> Bot:
        newer = offering_bot(store, interval=timedelta(seconds=1))

        @newer.on_new(id="log")
        async def note(request: Any, ctx: Any) -> None:
            called.append(request.index)

        return newer

    published = list[int]()
    async with replicas(sandbox, store, 1) as (old,), anyio.create_task_group() as tasks:
        for _ in range(2):
            published.append(sandbox.publish())
            await idle(sandbox, *published)
            newer = make_newer()
            tasks.start_soon(partial(newer.serve, exchange=sandbox.client()))
            await eventually(lambda newer=newer: newer.status().feed is not None, WITHIN)  # type: ignore[misc]
            published.append(sandbox.publish())
            await idle(sandbox, *published)
            newer.stop()
            await eventually(lambda: old.status().scans, WITHIN)
    assert called == published[1:]
    assert [len(amounts_on(sandbox, index)) for index in published] == [1] * 4


async def test_handlers_that_the_newest_version_lacks_are_logged_once(
    sandbox: Sandbox, store: PostgresStore, caplog: pytest.LogCaptureFixture
) -> None:
    """The older replica hands over the term, and its handlers do not receive later requests until it scans again."""
    called = list[int]()
    newer = new_bot(store, interval=timedelta(seconds=1))

    @newer.on_new(id="log")
    async def note(request: Any, ctx: Any) -> None:
        called.append(request.index)

    async with replicas(sandbox, store, 1), anyio.create_task_group() as tasks:
        tasks.start_soon(partial(newer.serve, exchange=sandbox.client()))
        await eventually(lambda: newer.status().feed is not None, WITHIN)
        index = sandbox.publish()
        await eventually(lambda: called, WITHIN)
        await anyio.sleep(2.5)
        assert amounts_on(sandbox, index) == []
        newer.stop()
        await idle(sandbox, index)
    (warning,) = [text for text in messages(caplog) if "which scans, lacks them" in text]
    assert "quote receive no new events" in warning


def test_further_feed_of_a_bot_is_free_as_soon_as_its_term(store: PostgresStore) -> None:
    membership = Membership(store, handlers=["quote"], closes_store=False)
    membership.open(BINDING, lease=90.0)
    membership.further_feeds.open(attrs.evolve(BINDING, feed="offers"), lease=90.0)
    ((count, latest),) = execute("SELECT count(*), max(lease_until) - clock_timestamp() FROM freight_exchange.replica")
    assert (count, latest <= timedelta(seconds=6)) == (2, True)
