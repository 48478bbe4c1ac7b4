"""Replicas of a bot on one PostgreSQL, in one event loop with the sandbox."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Any

import anyio
import psycopg
import pytest
from tests.bot.rig import amounts_on, new_bot
from tests.support.postgres import PostgresServer, find_programs, running_server

from freight_exchange import Bot, StoreError
from freight_exchange.bot.admin import BotFile
from freight_exchange.testing import Sandbox

pytestmark = [
    pytest.mark.skipif(find_programs() is None, reason="needs the programs of PostgreSQL"),
    pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"]),
]

SECOND = timedelta(seconds=1)
LEASE = 2 * SECOND


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with running_server() as running:
        yield running


@pytest.fixture
def database(server: PostgresServer) -> str:
    """Address of an empty database."""
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS fleet WITH (FORCE)")
        connection.execute("CREATE DATABASE fleet")
    return server.url("fleet")


class Fleet:
    """Replicas that offer on each new request, and count the calls of their handlers."""

    def __init__(self, sandbox: Sandbox, database: str) -> None:
        self.sandbox = sandbox
        self.calls: Counter[int] = Counter()
        self._database = database

    def bot(self, number: int, **options: Any) -> Bot:
        how = {"interval": timedelta(seconds=1), "settle": timedelta(seconds=1), "lease": LEASE, **options}
        bot = Bot(store=self._database, start="backfill", **how)

        @bot.on_new(id="quote")
        async def quote(request: Any, ctx: Any) -> None:
            self.calls[number] += 1
            await anyio.sleep(0.05)
            await ctx.offer(amount=1000 + request.index, currency="USD")

        return bot

    @asynccontextmanager
    async def running(self, count: int, **options: Any) -> AsyncIterator[list[Bot]]:
        bots = [self.bot(number, **options) for number in range(count)]
        async with AsyncExitStack() as stack:
            for bot in bots:
                await stack.enter_async_context(self.sandbox.running(bot))
            await until(lambda: all(bot.status().state == "running" for bot in bots))
            yield bots

    async def offers_once(self, requests: list[int]) -> None:
        """Wait until each request has an offer, and check that none has two."""
        await until(lambda: all(self.sandbox.audit_log.offers_on(index) for index in requests))
        await anyio.sleep(1)
        assert [len(self.sandbox.audit_log.offers_on(index)) for index in requests] == [1] * len(requests)


async def until(condition: Callable[[], object], within: float = 40.0) -> None:
    with anyio.fail_after(within):
        while not condition():  # noqa: ASYNC110 - the condition has no event
            await anyio.sleep(0.1)


def execute(database: str, statement: str) -> Any:
    with psycopg.connect(database, autocommit=True) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else None


async def test_three_replicas_share_the_work_and_offer_once(database: str) -> None:
    fleet = Fleet(Sandbox(), database)
    # One handler at a time: a replica that came first could do all of a small market while the others wake up.
    async with fleet.running(3, concurrency=1) as bots:
        requests = [fleet.sandbox.publish() for _ in range(40)]
        await fleet.offers_once(requests)
        assert len(+fleet.calls) >= 2
        assert sum(bot.status().scans for bot in bots) == 1
        status = await anyio.to_thread.run_sync(BotFile(database).status)
    assert len(status.replicas) == 3
    assert status.holder in status.replicas
    assert (status.offers["confirmed"], status.deliveries["ready"]) == (40, 0)


async def test_another_replica_scans_once_the_scanning_one_stops(database: str) -> None:
    fleet = Fleet(Sandbox(), database)
    async with fleet.running(3) as bots:
        await until(lambda: any(bot.status().scans for bot in bots))
        first = next(bot for bot in bots if bot.status().scans)
        first.stop()
        await until(lambda: first.status().state == "stopped")
        others = [bot for bot in bots if bot is not first]
        await until(lambda: any(bot.status().scans for bot in others))
        await fleet.offers_once([fleet.sandbox.publish() for _ in range(5)])


def _dump(database: str, moment: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {moment}")
        with connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            names = _tables(database)
            for name in names:
                connection.execute(f"CREATE TABLE {moment}.{name} AS TABLE freight_exchange.{name}")


def _restore(database: str, moment: str) -> None:
    """Load a dump of all rows, as an operator does who stops no replica."""
    names = [f"freight_exchange.{name}" for name in _tables(database)]
    with psycopg.connect(database, autocommit=True) as connection, connection.transaction():
        connection.execute(f"LOCK TABLE {', '.join(names)} IN ACCESS EXCLUSIVE MODE")
        for name in names:
            connection.execute(f"DELETE FROM {name}")
            dump = name.replace("freight_exchange", moment)
            connection.execute(f"INSERT INTO {name} OVERRIDING SYSTEM VALUE SELECT * FROM {dump}")


def _tables(database: str) -> list[str]:
    sql = "SELECT tablename FROM pg_tables WHERE schemaname = 'freight_exchange'"
    return [name for (name,) in execute(database, sql)]


@pytest.mark.long
@pytest.mark.parametrize("moment", ["before", "between", "after"])
async def test_database_put_back_under_its_replicas_makes_no_second_offer(database: str, moment: str) -> None:
    """Those that are left have begun no effect, so they miss none of their own."""
    sandbox, held, released = Sandbox(), set[int](), anyio.Event()

    def requoting(*, waits: bool) -> Bot:
        bot = new_bot(database, interval=SECOND, settle=SECOND, lease=LEASE, concurrency=1 if waits else 8)

        @bot.on_new(id="quote")
        @bot.on_updated(id="requote")
        async def quote(request: Any, ctx: Any) -> None:
            if waits:
                held.add(request.index)
                await released.wait()
            await ctx.offer(amount=100 * request.quantity, currency="USD")

        return bot

    async with AsyncExitStack() as stack:
        for _ in range(2):
            await stack.enter_async_context(sandbox.running(requoting(waits=True)))
        busy = {sandbox.publish(), sandbox.publish()}
        await until(lambda: held == busy)
        worker = requoting(waits=False)
        await stack.enter_async_context(sandbox.running(worker))
        await until(lambda: worker.status().state == "running")
        _dump(database, "before")
        requests = [sandbox.publish() for _ in range(10)]
        await until(lambda: all(amounts_on(sandbox, index) == ["1000"] for index in requests))
        await anyio.sleep(1)
        _dump(database, "between")
        for index in requests:
            sandbox.update(index, quantity=20)
        await until(lambda: all(amounts_on(sandbox, index) == ["1000", "2000"] for index in requests))
        await anyio.sleep(1)
        _dump(database, "after")
        worker.stop()
        await until(lambda: worker.status().state == "stopped")
        _restore(database, moment)
        released.set()
        requests += [*busy, sandbox.publish()]
        await until(lambda: all(amounts_on(sandbox, index) for index in requests), 90)
        await anyio.sleep(3)
        assert [amounts_on(sandbox, index) for index in requests] == [["1000", "2000"]] * 10 + [["1000"]] * 3


_CUT = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = 'fleet'"


def cut_transactions(database: str, replicas: int) -> None:
    """Cut the connections of replicas while each is in a transaction: it waits for a lock."""
    with psycopg.connect(database) as connection, psycopg.connect(database, autocommit=True) as other:
        connection.execute("LOCK TABLE freight_exchange.replica IN ACCESS EXCLUSIVE MODE")
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = 'fleet'"
        while (other.execute(waiting).fetchone() or (0,))[0] < replicas:
            time.sleep(0.02)
        other.execute(f"{_CUT} AND wait_event_type = 'Lock'")


async def test_replicas_that_join_again_read_no_bids(database: str, caplog: pytest.LogCaptureFixture) -> None:
    fleet = Fleet(Sandbox(), database)
    async with fleet.running(3, lease=6 * SECOND) as bots:
        await fleet.offers_once([fleet.sandbox.publish() for _ in range(3)])
        before = len(fleet.sandbox.audit_log.calls_to("GET", "quote/bid"))
        with caplog.at_level(logging.WARNING, "freight_exchange.bot"):
            await anyio.to_thread.run_sync(cut_transactions, database, 3)
            await until(lambda: caplog.text.count("lost its place") == 3)
        await fleet.offers_once([fleet.sandbox.publish() for _ in range(5)])
        await until(lambda: all(bot.status().state == "running" for bot in bots))
        assert len(fleet.sandbox.audit_log.calls_to("GET", "quote/bid")) == before


async def test_lost_connections_cost_no_reading_of_the_bids(database: str, caplog: pytest.LogCaptureFixture) -> None:
    fleet = Fleet(Sandbox(), database)
    async with fleet.running(3) as bots:
        await fleet.offers_once([fleet.sandbox.publish() for _ in range(3)])
        before = len(fleet.sandbox.audit_log.calls_to("GET", "quote/bid"))
        with caplog.at_level(logging.CRITICAL):
            await anyio.to_thread.run_sync(execute, database, _CUT)
            requests = [fleet.sandbox.publish() for _ in range(5)]
            await fleet.offers_once(requests)
            await until(lambda: all(bot.status().state == "running" for bot in bots))
        assert caplog.records == []
        assert len(fleet.sandbox.audit_log.calls_to("GET", "quote/bid")) == before


async def test_work_of_a_replica_that_ended_is_taken_over(database: str) -> None:
    fleet = Fleet(Sandbox(), database)
    crashed = fleet.bot(9)
    requests = [fleet.sandbox.publish() for _ in range(5)]
    trial = fleet.sandbox.running(crashed, crash_at="after claim")
    async with trial:
        await trial.crashed(timedelta(seconds=30))
    assert fleet.calls == {}
    async with fleet.running(2):
        await fleet.offers_once(requests)


async def test_replica_with_another_url_is_refused_beside_a_living_one(database: str) -> None:
    fleet = Fleet(Sandbox(), database)
    async with fleet.running(1):
        elsewhere = Sandbox()
        elsewhere.url = "http://localhost/api"
        with pytest.raises(StoreError, match="give all replicas the same URL"):
            async with elsewhere.running(fleet.bot(1)) as trial:
                await trial.idle(timedelta(seconds=20))


async def test_person_decides_beside_running_replicas(database: str) -> None:
    fleet = Fleet(Sandbox(), database)
    bots = [Bot(store=database, start="backfill", interval=timedelta(seconds=1), lease=LEASE) for _ in range(2)]
    broken = [True]
    for bot in bots:

        @bot.on_new(id="quote", retries=0)
        async def quote(request: Any, ctx: Any) -> None:
            if broken:
                raise ValueError("no tariff")
            await ctx.offer(amount=7, currency="USD")

    file = BotFile(database)
    async with fleet.sandbox.running(bots[0]), fleet.sandbox.running(bots[1]):
        one, other = fleet.sandbox.publish(), fleet.sandbox.publish()
        await until(lambda: sum(bot.status().dead for bot in bots) == 2)
        letters = {letter.request: letter for letter in await anyio.to_thread.run_sync(file.dead_letters)}
        broken.clear()
        assert await anyio.to_thread.run_sync(file.replay, letters[one].event, "quote")
        assert await anyio.to_thread.run_sync(file.drop, letters[other].event, "quote")
        await fleet.offers_once([one])
    assert await anyio.to_thread.run_sync(file.dead_letters) == []
    assert fleet.sandbox.audit_log.offers_on(other) == []
