"""Tests of reading a feed: acknowledgements, batches, filters, leases, status and explanations."""

from __future__ import annotations

import asyncio
import contextlib
import math
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.watch.market import HALF_MINUTE, Market

from freight_exchange import (
    Bid,
    BidSelected,
    ConfigurationError,
    Contact,
    FencedError,
    FreightExchange,
    Gap,
    HeldError,
    LoginRejectedError,
    OfferFilter,
    RateRequest,
    RequestEvent,
    RequestFilter,
    StoreError,
    TransportError,
    Unreadable,
    ValidationError,
    from_json,
    to_json,
)
from freight_exchange.hooks import Degraded, Recovered, ScanProgress
from freight_exchange.store import MemoryStore, Store
from freight_exchange.testing import FAULTS, inline_store

virtual_time = pytest.mark.virtual_time

MINUTE = 60.0
HOUR = 3600.0
Reading = Callable[[Any], Any]


def _indexes(events: Any) -> list[int]:
    return [event.request.index for event in events]


async def _read(market: Market, store: Store | str | None, reading: Reading, **options: Any) -> Any:
    async with (
        market.client() as exchange,
        exchange.watch(store=store, start="backfill", interval=HALF_MINUTE, **options) as feed,
    ):
        return await reading(feed)


async def _all(feed: Any) -> list[int]:
    """Return what is delivered within a minute."""
    found: list[int] = []
    with anyio.move_on_after(MINUTE):
        async for event in feed:
            found += _indexes([event])
    return found


async def _leave_loop(feed: Any) -> None:
    async for _ in feed:
        break


async def _raise_in_loop(feed: Any) -> None:
    with contextlib.suppress(ZeroDivisionError):
        async for _ in feed:
            raise ZeroDivisionError


async def _pull_two(feed: Any) -> None:
    await anext(feed)
    await anext(feed)


async def _ack_after_loop(feed: Any) -> None:
    async for _ in feed:
        break
    await feed.ack()


async def _ack_the_second(feed: Any) -> None:
    await anext(feed)
    second = await anext(feed)
    await second.ack()
    await second.ack()


async def _pull_a_batch(feed: Any) -> None:
    async for batch in feed.batches():
        assert _indexes(batch) == [1, 2, 3]
        break


async def _begin_batches_anew(feed: Any) -> None:
    for _ in range(2):
        assert _indexes(await anext(feed.batches())) == [1, 2, 3]


async def _pull_batches(feed: Any) -> None:
    batches = feed.batches()
    await anext(batches)
    with anyio.move_on_after(MINUTE):
        await anext(batches)


async def _cancel_pull(feed: Any) -> None:
    for _ in range(3):
        with anyio.move_on_after(0):
            await anext(feed)


READINGS: dict[str, tuple[Reading, list[int]]] = {
    "leaving the loop acknowledges nothing": (_leave_loop, [1, 2, 3]),
    "an exception acknowledges nothing": (_raise_in_loop, [1, 2, 3]),
    "pulling acknowledges the event before": (_pull_two, [2, 3]),
    "`feed.ack()` acknowledges the event in hand": (_ack_after_loop, [2, 3]),
    "`event.ack()` acknowledges that event alone": (_ack_the_second, [3]),
    "a batch in hand is not acknowledged": (_pull_a_batch, [1, 2, 3]),
    "new batches begin with the batch in hand": (_begin_batches_anew, [1, 2, 3]),
    "the next batch acknowledges the one before": (_pull_batches, []),
    "a cancelled pull loses nothing": (_cancel_pull, [1, 2, 3]),
}


@virtual_time
@pytest.mark.parametrize("name", READINGS)
async def test_unacknowledged_events_come_again_after_a_restart(name: str) -> None:
    reading, left = READINGS[name]
    market, store = Market.of(order="index"), MemoryStore()
    market.publish_many(3)
    await _read(market, store, reading)
    assert await _read(market, store, _all) == left


@virtual_time
async def test_new_loop_receives_the_unacknowledged_event_again() -> None:
    market = Market.of(order="index")
    market.publish_many(3)

    async def read(feed: Any) -> list[int]:
        found = []
        for _ in range(2):
            async for event in feed:
                found += _indexes([event])
                break
        return found

    assert await _read(market, None, read) == [1, 1]


@virtual_time
async def test_filter_delivers_less_and_tracks_all() -> None:
    market, store = Market(), MemoryStore()
    market.publish(origin="Shenzhen")
    market.publish(origin="Hamburg")

    async def read(feed: Any) -> list[int]:
        found = await _all(feed)
        assert feed.status().unacknowledged == 0
        explanation = await feed.explain(2)
        assert (explanation.verdict, "origin" in str(explanation)) == ("excluded", True)
        return found

    assert await _read(market, store, read, where=RequestFilter(origin="Shenzhen")) == [1]
    assert await _read(market, store, _all) == []


@virtual_time
async def test_filter_that_raises_loses_no_event() -> None:
    market = Market()
    market.publish()
    problems = [ZeroDivisionError()]

    def check(request: RateRequest) -> bool:
        if problems:
            raise problems.pop()
        return True

    async def read(feed: Any) -> int:
        with pytest.raises(ZeroDivisionError):
            await anext(feed)
        return _indexes([await anext(feed)])[0]

    assert await _read(market, None, read, where=RequestFilter(where=check)) == 1


@virtual_time
async def test_events_of_a_closed_feed_and_second_pulls_are_refused() -> None:
    market, store = Market(), MemoryStore()
    market.publish()
    async with market.client() as exchange:
        feed = exchange.watch(store=store, start="backfill", interval=HALF_MINUTE)
        with pytest.raises(ConfigurationError, match="not open"):
            await anext(feed)
        with pytest.raises(ConfigurationError, match="not been entered"):
            feed.status()
        async with feed:
            event = await anext(feed)
            with pytest.raises(ConfigurationError, match="already entered"):
                await feed.__aenter__()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(anext, feed)
                await anyio.wait_all_tasks_blocked()
                with pytest.raises(ConfigurationError, match="another task"):
                    await anext(feed)
                tasks.cancel_scope.cancel()
        with pytest.raises(ConfigurationError, match="not open"):
            await event.ack()
        assert feed.status().state == "stopped"


@virtual_time
async def test_no_scan_runs_while_no_reader_pulls() -> None:
    market = Market()
    market.publish()

    async def read(feed: Any) -> int:
        await anext(feed)
        before = len(market.requests_of())
        await anyio.sleep(60 * MINUTE)
        return len(market.requests_of()) - before

    assert await _read(market, None, read) == 0


@virtual_time
async def test_slow_reader_widens_the_next_window() -> None:
    market = Market()
    market.publish()

    async def read(feed: Any) -> None:
        await anext(feed)
        await anyio.sleep(20 * MINUTE)
        market.publish()
        await anyio.sleep(10 * MINUTE)
        assert _indexes([await anext(feed)]) == [2]

    await _read(market, None, read)


@virtual_time
async def test_reader_who_always_leaves_before_a_page_comes_gets_no_storm() -> None:
    market = Market.of(latency=1.0)
    market.publish()

    async def read(feed: Any) -> int:
        await anext(feed)
        before = len(market.requests_of())
        for _ in range(600):
            with anyio.move_on_after(0.5):
                await anext(feed)
        return len(market.requests_of()) - before

    assert await _read(market, None, read) <= 24


@virtual_time
async def test_status_follows_the_feed() -> None:
    market, store = Market(), MemoryStore()
    market.publish()
    states = []

    async def read(feed: Any) -> None:
        await anext(feed)
        states.append(feed.status().state)
        await feed.ack()
        with anyio.move_on_after(2 * MINUTE):
            await anext(feed)
        status = feed.status()
        states.append(status.state)
        assert status.cover_age < timedelta(seconds=40)
        assert status.last_success is not None
        assert status.allowance == timedelta(minutes=1)
        assert (status.unacknowledged, status.gaps) == (0, ())
        market.strike(*FAULTS["unavailable"](path="quote/getrequests", times=6))
        with anyio.move_on_after(MINUTE):
            await anext(feed)
        states.append(feed.status().state)
        assert feed.status().retry_in > timedelta(0)
        assert timedelta(seconds=60) < feed.status().cover_age

    await _read(market, store, read)

    async def look(feed: Any) -> None:
        states.append(feed.status().state)

    await _read(market, store, look)
    assert states == ["live", "live", "backing-off", "catching-up"]


@virtual_time
async def test_watermark_is_when_the_first_page_was_requested() -> None:
    market, ages = Market.of(latency=9.0), []
    market.publish()
    async with market.watched():
        for _ in range(180):
            await anyio.sleep(1.0)
            ages.append(market.feed.status().cover_age)
    assert timedelta(seconds=9) <= min(ages) < timedelta(seconds=20)


@virtual_time
async def test_scan_that_fails_half_way_moves_no_watermark_and_delivers_its_events() -> None:
    market = Market.of(rows_clamp=20)
    market.publish_many(1)

    async def read(feed: Any) -> None:
        await anext(feed)
        with anyio.move_on_after(2 * MINUTE):
            await anext(feed)
        age, began = feed.status().cover_age, anyio.current_time()
        market.publish_many(45)
        market.strike(*(one for one in FAULTS["unavailable"](path="quote/getrequests", times=40, skip=2)))
        told = []
        with anyio.move_on_after(5 * MINUTE):
            async for event in feed:
                told += _indexes([event])
        assert len(told) >= 20
        passed = timedelta(seconds=anyio.current_time() - began)
        assert feed.status().cover_age >= age + passed - timedelta(seconds=0.1)

    await _read(market, None, read)


@virtual_time
async def test_explanation_follows_a_request_from_unseen_to_withdrawn() -> None:
    market = Market()
    market.publish_many(2)
    verdicts: list[Any] = []
    async with market.client() as exchange, exchange.watch(interval=HALF_MINUTE) as opened:
        feed: Any = opened
        verdicts.append(await feed.explain(3))
        verdicts.append(await feed.explain(1))
        market.publish_many(2)
        event = await anext(feed)
        verdicts.append(await feed.explain(event.request.index))
        await anext(feed)
        await feed.ack()
        verdicts.append(await feed.explain(3))
        await anyio.sleep(MINUTE)
        market.withdraw(3)
        gone = await anext(feed)
        assert gone.kind == "withdrawn"
        await feed.ack()
        verdicts.append(await feed.explain(3))
        with pytest.raises(ValidationError):
            await feed.explain("3")
    assert [one.verdict for one in verdicts] == ["unseen", "baseline", "waiting", "handed-out", "handed-out"]
    assert verdicts[-1].events == ("new", "withdrawn")
    assert "3" in str(verdicts[0])
    seen = verdicts[3]
    assert seen.first_seen is not None
    assert abs(seen.first_seen.timestamp() - seen.last_seen.timestamp()) < MINUTE


# Stores


@virtual_time
async def test_feeds_of_one_store_differ_in_name() -> None:
    market, store = Market(), MemoryStore()
    market.publish()
    async with market.client() as exchange:
        first = exchange.watch(store=store, start="backfill", interval=HALF_MINUTE, name="first")
        second = exchange.watch(store=store, start="backfill", interval=HALF_MINUTE, name="second")
        async with first, second:
            assert _indexes([await anext(first), await anext(second)]) == [1, 1]
            with pytest.raises(HeldError):
                await exchange.watch(store=store, name="first").__aenter__()


@virtual_time
async def test_standby_waits_for_a_feed_of_this_process_that_is_ending() -> None:
    market, store = Market(), MemoryStore()
    market.publish()
    async with market.client() as exchange:
        first = exchange.watch(store=store, interval=HALF_MINUTE)
        await first.__aenter__()

        async def leave() -> None:
            await anyio.sleep(3.0)
            await first.__aexit__(None, None, None)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(leave)
            async with exchange.watch(store=store, interval=HALF_MINUTE, standby=True) as second:
                assert second.status().state == "catching-up"


async def test_file_keeps_events_and_is_held_by_one_feed(tmp_path: Path) -> None:
    market, path = Market.of(order="index"), str(tmp_path / "feed.db")
    market.publish_many(2)
    async with market.client() as exchange:
        async with exchange.watch(store=path, start="backfill") as feed:
            assert _indexes([await anext(feed)]) == [1]
            with pytest.raises(HeldError, match="share one Store object"):
                await exchange.watch(store=path).__aenter__()
        async with exchange.watch(store=path) as feed:
            assert _indexes([await anext(feed), await anext(feed)]) == [1, 2]
    async with market.client(offers=True) as other:
        with pytest.raises(StoreError, match="belongs to"):
            await other.watch(store=path).__aenter__()


@virtual_time
async def test_copy_that_is_put_back_under_a_feed_is_noticed(tmp_path: Path) -> None:
    market, path = Market(), tmp_path / "feed.db"
    market.publish_many(2)
    async with market.client() as exchange, exchange.watch(store=inline_store(path), interval=HALF_MINUTE) as feed:
        with anyio.move_on_after(MINUTE):
            await anext(aiter(feed))
        copied = tmp_path / "copy.db"
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copied)) as copy:
            source.backup(copy)
        with anyio.move_on_after(HOUR):
            await anext(aiter(feed))
        with closing(sqlite3.connect(copied)) as copy, closing(sqlite3.connect(path)) as target:
            copy.backup(target)
        with pytest.raises(FencedError, match="an earlier copy was put back"), anyio.fail_after(MINUTE):
            await anext(aiter(feed))


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_native_cancellation_delivers_no_event_twice(tmp_path: Path) -> None:
    market, found = Market.of(order="index"), []
    market.publish_many(40)
    async with market.client() as exchange, exchange.watch(store=str(tmp_path / "f.db"), start="backfill") as feed:
        for _ in range(60):
            # The event may come just before the timeout.
            with contextlib.suppress(TimeoutError):
                found += _indexes([await asyncio.wait_for(anext(feed), 0.002)])
        while len(found) < 40:
            found += _indexes([await anext(feed)])
        await feed.ack()
        assert feed.status().unacknowledged == 0
    assert found == [*range(1, 41)]


# Credentials


@virtual_time
async def test_credentials_that_are_away_for_a_while_are_waited_for() -> None:
    market = Market()
    records: list[Any] = []
    away = [TransportError("no secrets yet") for _ in range(3)]
    account = market.sandbox.forwarder

    async def credentials() -> tuple[str, str]:
        if away:
            raise away.pop()
        return account.email, account.password

    client = market.client(email=None, password=None, credentials=credentials, hooks=[records.append])
    async with market.watched(client=client):
        pass
    assert [type(record) for record in records if isinstance(record, Degraded | Recovered)] == [Degraded, Recovered]


@virtual_time
async def test_error_of_the_credentials_is_raised() -> None:
    async def credentials() -> tuple[str, str]:
        raise LoginRejectedError("no such account")

    market = Market()
    with pytest.raises(LoginRejectedError):
        async with market.watched(client=market.client(email=None, password=None, credentials=credentials)):
            pass


@virtual_time
async def test_first_scan_of_many_pages_reports_its_progress() -> None:
    market = Market.of(rows_clamp=20)
    records: list[Any] = []
    market.publish_many(100)
    async with market.watched(client=market.client(hooks=[records.append]), start="backfill"):
        await anyio.sleep(1.0)
    progress = [record for record in records if isinstance(record, ScanProgress)]
    assert progress
    assert all(record.first and record.tier == "five days" for record in progress)
    assert [record.pages for record in progress] == [*range(1, len(progress) + 1)]
    assert progress[-1].requests == 100


# Options and values

WRONG: dict[str, dict[str, Any]] = {
    "a start": {"start": "yesterday"},
    "a start before five days": {"start": timedelta(days=6)},
    "a short interval": {"interval": timedelta(milliseconds=500)},
    "a long interval": {"interval": timedelta(days=2)},
    "an interval as a number": {"interval": 30},
    "no allowance": {"allowance": timedelta(0)},
    "a long allowance": {"allowance": timedelta(days=2)},
    "a filter of offers": {"where": OfferFilter()},
    "no name": {"name": ""},
    "half a character": {"name": "\ud800"},
    "a standby": {"standby": "yes"},
    "a store": {"store": 7},
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_option_is_refused(name: str) -> None:
    exchange = FreightExchange("https://host.example/api", email="me@co.example", password="secret")
    with pytest.raises(ConfigurationError):
        exchange.watch(**WRONG[name])


NOW = datetime(2026, 11, 28, 12, 0, 0, 1, tzinfo=UTC)
EVENTS = [
    RequestEvent(kind="new", request=RateRequest(index=1, weight=Decimal("12.50")), observed_between=(None, NOW)),
    Gap(since=NOW, until=NOW + timedelta(days=1)),
    Unreadable(index=None, raw={"qty": Decimal("1.10"), "x": [None]}, error="raterequests.0", observed=NOW),
    BidSelected(bid=Bid(index=1, amount=Decimal("9.90"), contact=Contact(name="A", email="a@b.example")), observed=NOW),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.kind)
def test_event_survives_json(event: Any) -> None:
    assert from_json(to_json(event)) == event
    assert math.isfinite(len(repr(event)))
