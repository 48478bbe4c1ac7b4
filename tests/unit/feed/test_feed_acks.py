"""Tests of acknowledgements: each event is delivered until it is acknowledged, and never afterwards."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import anyio
import pytest

from freight_exchange import ConfigurationError, FreightExchange, RequestEvent, RequestFilter
from freight_exchange.errors import StoreError
from freight_exchange.feed.events import Event
from freight_exchange.hooks import Degraded, Recovered, Scan
from freight_exchange.models import RateRequest
from freight_exchange.store import MemoryStore, Store
from freight_exchange.testing import FAULTS, Cargo, Profile, Sandbox

pytestmark = pytest.mark.virtual_time

POLL = "quote/getrequests"
MINUTE = timedelta(minutes=1)


def index_of(event: Event) -> int:
    assert isinstance(event, RequestEvent)
    return event.request.index


@pytest.fixture
def sandbox() -> Sandbox:
    return Sandbox()


@pytest.fixture
def listed(sandbox: Sandbox) -> list[int]:
    """Return five requests from before the feed."""
    return [sandbox.publish() for _ in range(5)]


async def rest(sandbox: Sandbox, store: Store, **options: Any) -> list[int]:
    """Return the events that the next run on the store delivers."""
    found: list[int] = []
    async with sandbox.client() as exchange, exchange.watch(store=store, interval=MINUTE, **options) as feed:
        with anyio.move_on_after(300):
            async for event in feed:
                found.append(index_of(event))
    return found


async def test_pulling_acknowledges_and_leaving_does_not(sandbox: Sandbox, listed: list[int], store: Store) -> None:
    handed: list[int] = []
    async with (
        sandbox.client() as exchange,
        exchange.watch(store=store, start="backfill", interval=MINUTE) as feed,
    ):
        async for event in feed:
            handed.append(index_of(event))
            if len(handed) == 3:
                break
    left = await rest(sandbox, store)
    assert left[0] == handed[2]
    assert sorted(handed[:2] + left) == listed


async def test_an_exception_does_not_acknowledge(sandbox: Sandbox, listed: list[int], store: Store) -> None:
    with pytest.raises(ZeroDivisionError):  # noqa: PT012 - leaving by an exception is the point
        async with (
            sandbox.client() as exchange,
            exchange.watch(store=store, start="backfill", interval=MINUTE) as feed,
        ):
            async for _ in feed:
                raise ZeroDivisionError
    assert sorted(await rest(sandbox, store)) == listed


async def test_new_loop_receives_unacknowledged_event_again(sandbox: Sandbox, listed: list[int]) -> None:
    async with sandbox.client() as exchange, exchange.watch(start="backfill") as feed:
        first = await anext(feed)
        assert await anext(aiter(feed)) == first
        assert feed.status().unacknowledged == len(listed)


@pytest.mark.parametrize("written", [True, False])
async def test_new_loop_gets_events_that_the_store_holds_unacknowledged_after_an_acknowledgement_failed(
    sandbox: Sandbox, listed: list[int], store: Store, monkeypatch: pytest.MonkeyPatch, written: bool
) -> None:
    """A store may fail after it has written. The events that it still holds are not delivered again."""
    async with sandbox.client() as exchange, exchange.watch(store=store, start="backfill") as feed:
        first = index_of(await anext(feed))
        held: Any = feed.lease.state()
        acknowledge = held.acknowledge

        def failing(*args: Any, **options: Any) -> None:
            if written:
                acknowledge(*args, **options)
            raise StoreError("the answer is lost")

        with monkeypatch.context() as patch:
            patch.setattr(type(held), "acknowledge", lambda _, *args, **options: failing(*args, **options))
            with pytest.raises(StoreError):
                await anext(feed)
        events = aiter(feed)
        again = [index_of(await anext(events)) for _ in range(4 if written else 5)]
    assert sorted([*again, first] if written else again) == listed


async def test_feed_ack_acknowledges_delivered_event(sandbox: Sandbox, listed: list[int], store: Store) -> None:
    async with sandbox.client() as exchange, exchange.watch(store=store, start="backfill") as feed:
        first = index_of(await anext(feed))
        await feed.ack()
        await feed.ack()
        assert feed.status().unacknowledged == 4
    assert first not in await rest(sandbox, store)


async def test_event_acknowledges_only_itself_and_again_has_no_effect(
    sandbox: Sandbox, listed: list[int], store: Store
) -> None:
    async with sandbox.client() as exchange, exchange.watch(store=store, start="backfill") as feed:
        batch = await anext(feed.batches())
        await batch[3].ack()
        await batch[3].ack()
        assert feed.status().unacknowledged == 4
    assert sorted(await rest(sandbox, store)) == sorted(index_of(event) for event in batch if event is not batch[3])


async def test_next_batch_acknowledges_the_one_before(sandbox: Sandbox, store: Store) -> None:
    for _ in range(250):
        sandbox.publish()
    sizes: list[int] = []
    async with sandbox.client() as exchange, exchange.watch(store=store, start="backfill") as feed:
        async for batch in feed.batches():
            sizes.append(len(batch))
            if len(sizes) == 3:
                break
    assert sizes == [100, 100, 50]
    assert len(await rest(sandbox, store)) == 50


async def test_requeued_event_that_is_then_acknowledged_is_not_delivered_again(
    sandbox: Sandbox, listed: list[int]
) -> None:
    async with sandbox.client() as exchange, exchange.watch(start="backfill") as feed:
        first = await anext(feed)
        aiter(feed)
        await first.ack()
        assert index_of(await anext(feed)) != index_of(first)


async def test_a_filter_that_raises_loses_no_event(sandbox: Sandbox, listed: list[int]) -> None:
    filtered: list[int] = []

    def moody(request: RateRequest) -> bool:
        filtered.append(request.index)
        if len(filtered) == 3:
            raise ZeroDivisionError
        return True

    async with (
        sandbox.client() as exchange,
        exchange.watch(start="backfill", where=RequestFilter(where=moody)) as feed,
    ):
        batches = feed.batches()
        with pytest.raises(ZeroDivisionError):
            await anext(batches)
        assert sorted(map(index_of, await anext(batches))) == listed


async def test_feed_that_is_entered_again_delivers_unacknowledged_event_again(
    sandbox: Sandbox, listed: list[int]
) -> None:
    async with sandbox.client() as exchange:
        feed = exchange.watch(start="backfill", store=MemoryStore())
        async with feed:
            first = await anext(feed)
        async with feed:
            assert await anext(feed) == first


async def test_excluded_request_is_tracked_and_acknowledged(sandbox: Sandbox, store: Store) -> None:
    where = RequestFilter(origin="Oslo")
    sandbox.publish(Cargo(origin="Bergen"))
    oslo = sandbox.publish(Cargo(origin="Oslo"))
    assert await rest(sandbox, store, start="backfill", where=where) == [oslo]
    assert await rest(sandbox, store) == []


async def test_an_event_of_a_closed_feed_cannot_be_acknowledged(sandbox: Sandbox, listed: list[int]) -> None:
    async with sandbox.client() as exchange:
        async with exchange.watch(start="backfill") as feed:
            event = await anext(feed)
        for call in (event.ack, feed.ack, feed.__anext__):
            with pytest.raises(ConfigurationError):
                await call()
    with pytest.raises(ConfigurationError):
        await anext(sandbox.client().watch())


async def test_two_tasks_do_not_pull_one_feed(sandbox: Sandbox) -> None:
    async with (
        sandbox.client() as exchange,
        exchange.watch(interval=MINUTE) as feed,
        anyio.create_task_group() as group,
    ):
        group.start_soon(feed.__anext__)
        await anyio.sleep(1)
        with anyio.fail_after(10), pytest.raises(ConfigurationError, match="another task"):
            await anext(feed)
        group.cancel_scope.cancel()


async def test_a_feed_that_is_open_is_not_entered_again(sandbox: Sandbox) -> None:
    async with sandbox.client() as exchange, exchange.watch() as feed:
        with pytest.raises(ConfigurationError, match="already entered"):
            await feed.__aenter__()


@pytest.mark.parametrize("after", [0.0, 0.3, 0.6, 1.0, 1.3, 1.6, 2.0, 2.3, 2.6, 3.1])
async def test_a_cancelled_pull_loses_nothing_and_repeats_nothing(store: Store, after: float) -> None:
    """The cancellation comes before, between and after the pages of a scan."""
    sandbox = Sandbox(Profile(latency=0.5, rows_clamp=2))
    found: list[int] = []
    async with (
        sandbox.client() as exchange,
        exchange.watch(store=store, interval=timedelta(seconds=2)) as feed,
    ):
        published = [sandbox.publish() for _ in range(5)]
        with anyio.move_on_after(after):
            while True:
                found.append(index_of(await anext(feed)))
        with anyio.move_on_after(40):
            while True:
                found.append(index_of(await anext(feed)))
    assert sorted(found) == published


async def test_leaving_takes_no_longer_than_the_request_under_way() -> None:
    sandbox = Sandbox(Profile(latency=3.0))
    async with sandbox.client() as exchange:
        with anyio.move_on_after(100) as scope:
            async with exchange.watch(interval=timedelta(seconds=1)) as feed:
                await anext(feed)
        assert scope.cancelled_caught
        polls = len(sandbox.audit_log.calls_to("POST", POLL))
        assert anyio.current_time() - scope.deadline <= 3.0
        await anyio.sleep(600)
    assert len(sandbox.audit_log.calls_to("POST", POLL)) <= polls + 1


async def test_no_scan_runs_while_no_reader_pulls(sandbox: Sandbox) -> None:
    async with sandbox.client() as exchange, exchange.watch(interval=MINUTE):
        polls = len(sandbox.audit_log.calls_to("POST", POLL))
        await anyio.sleep(3600)
        assert len(sandbox.audit_log.calls_to("POST", POLL)) == polls


async def test_hooks_receive_each_scan_and_each_turn_once(sandbox: Sandbox) -> None:
    reported: list[Any] = []
    account = sandbox.forwarder
    client = FreightExchange(
        sandbox.url,
        email=account.email,
        password=account.password,
        http_client=sandbox.http_client(),
        hooks=[reported.append],
    )
    async with client as exchange, exchange.watch(interval=MINUTE) as feed:
        sandbox.strike(*FAULTS["unavailable"](path=POLL, times=20))
        index = sandbox.publish()
        assert index_of(await anext(feed)) == index
    scans = [event for event in reported if isinstance(event, Scan)]
    assert [scan.complete for scan in scans][:2] == [True, False]
    assert scans[-1].complete
    assert (scans[-1].events, scans[-1].error) == (1, None)
    turns = [type(event) for event in reported if isinstance(event, Degraded | Recovered)]
    assert turns == [Degraded, Recovered]


async def test_rule_6_all_types_are_asked_for(sandbox: Sandbox) -> None:
    async with sandbox.client() as exchange, exchange.watch(where=RequestFilter(origin="Oslo")):
        pass
    (call, *_) = sandbox.audit_log.calls_to("POST", POLL)
    assert b'"type":"all"' in call.body.replace(b" ", b"")


async def test_two_pulls_begun_together_are_distinguished() -> None:
    sandbox = Sandbox()
    refused: list[ConfigurationError] = []
    async with sandbox.client() as exchange, exchange.watch(interval=MINUTE) as feed:
        sandbox.publish()

        async def pull() -> None:
            try:
                await anext(feed)
            except ConfigurationError as error:
                refused.append(error)

        async with anyio.create_task_group() as group:
            group.start_soon(pull)
            group.start_soon(pull)
    assert len(refused) == 1


async def test_a_later_acknowledgement_does_not_settle_the_doubt_of_an_earlier_one(
    monkeypatch: pytest.MonkeyPatch, sandbox: Sandbox, listed: list[int]
) -> None:
    async with sandbox.client() as exchange, exchange.watch(store=MemoryStore(), start="backfill") as feed:
        batch = await anext(feed.batches())
        held = type(feed.lease.state())
        written = held.acknowledge

        def failing(*words: Any, **options: Any) -> None:
            written(*words, **options)
            raise StoreError("the answer is lost")

        with monkeypatch.context() as patch:
            patch.setattr(held, "acknowledge", failing)
            with pytest.raises(StoreError):
                await batch[0].ack()
        await batch[1].ack()
        again = await anext(feed.batches())
        assert [index_of(event) for event in again] == [index_of(event) for event in batch[2:]]
        assert len(again) == len(listed) - 2
