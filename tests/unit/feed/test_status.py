"""Tests of the status of a feed, and of the explanation of a delivery."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import attrs
import pytest

from freight_exchange import Bot, ConfigurationError, LoginRejectedError, RateRequest, RequestEvent, RequestFilter
from freight_exchange.feed.core.state import State
from freight_exchange.feed.core.watermark import Watermark
from freight_exchange.feed.serialization import pack
from freight_exchange.feed.status import explain
from freight_exchange.platform.clock import Reading
from freight_exchange.store import MemoryStore, Store
from freight_exchange.store.protocol import StoredEvent, TrackedRequest
from freight_exchange.testing import FAULTS, Cargo, Profile, Sandbox

POLL = "quote/getrequests"
MINUTE = timedelta(minutes=1)
READING = Reading(run="r", loop=0.0, boot_id="b", boot=0.0, wall=0.0)
STATE = State(watermark=Watermark(900.0, READING), stage="primed", allowance=60.0)
ROW = TrackedRequest(
    index=4, digest=b"d", record=b'{"index":4,"origin":"Oslo"}', version=1, first_seen=100.0, last_seen=800.0,
    last_scan=3, updated_after=0.0,
)  # fmt: skip


def event(kind: str, *, acknowledged: bool = False, filtered: bool = False, number: int = 1) -> StoredEvent:
    return StoredEvent(
        id=number, index=4, kind=kind, payload=b"", is_acknowledged=acknowledged or filtered, is_filtered=filtered
    )


def verdict(seen: TrackedRequest | None, *events: StoredEvent, state: State = STATE, **options: Any) -> str:
    explanation = explain(4, seen, events, state=state, time=1000.0, wall=1.7e9, where=None, **options)
    assert str(explanation) == explanation.sentence
    assert explanation.sentence.startswith("request 4 ")
    assert explanation.events == tuple(event.kind for event in events)
    return explanation.verdict


def test_verdict_follows_from_row_and_last_event() -> None:
    assert verdict(None) == "unseen"
    assert verdict(None, state=attrs.evolve(STATE, stage="listing")) == "unseen"
    assert verdict(None, event("unreadable")) == "unreadable"
    assert verdict(attrs.evolve(ROW, version=0)) == "baseline"
    assert verdict(ROW, event("new")) == "waiting"
    assert verdict(ROW, event("new", acknowledged=True), event("updated", number=2)) == "waiting"
    assert verdict(ROW, event("new", acknowledged=True)) == "handed-out"
    assert verdict(ROW) == "handed-out"


def test_waiting_event_is_filtered_by_its_own_content() -> None:
    oslo = RequestEvent(
        kind="new",
        request=RateRequest(index=4, origin="Oslo"),
        observed_between=(None, datetime.fromtimestamp(900, UTC)),
    )
    waiting = attrs.evolve(event("new"), payload=pack(oslo))
    where = RequestFilter(origin="Oslo")
    moved = attrs.evolve(ROW, record=b'{"index":4,"origin":"Bergen"}')
    explanation = explain(4, moved, [waiting], state=STATE, time=1000.0, wall=1.7e9, where=where)
    assert explanation.verdict == "waiting"
    explanation = explain(4, ROW, [waiting], state=STATE, time=1000.0, wall=1.7e9, where=RequestFilter(origin="Bergen"))
    assert explanation.verdict == "excluded"


def test_a_known_request_that_cannot_be_read_any_more_reports_it() -> None:
    assert verdict(ROW, event("new", acknowledged=True), event("unreadable", acknowledged=True)) == "unreadable"
    again = event("updated", number=3, acknowledged=True)
    assert verdict(ROW, event("unreadable", acknowledged=True), again) == "handed-out"


def test_explanation_of_an_excluded_request_names_the_field() -> None:
    explanation = explain(4, ROW, [], state=STATE, time=1000.0, wall=1.7e9, where=RequestFilter(origin="Bergen"))
    assert explanation.verdict == "excluded"
    assert "origin" in explanation.sentence


@pytest.mark.parametrize("where", [None, RequestFilter(origin="Oslo")])
@pytest.mark.parametrize(
    ("events", "verdict", "sentence"),
    [
        ([event("new", filtered=True)], "excluded", "excluded by the filter of that time: the last event was 'new'"),
        (
            [event("new", acknowledged=True), event("updated", filtered=True)],
            "excluded",
            "excluded by the filter of that time: the last event was 'updated', and 'new' before it was handed out",
        ),
        (
            [event("new", filtered=True), event("updated", acknowledged=True)],
            "handed-out",
            "handed out and acknowledged: the last event was 'updated'",
        ),
        ([], "handed-out", "handed out, or excluded by a filter, longer ago than events are kept"),
    ],
)
def test_request_that_an_earlier_filter_excluded_was_not_handed_out(
    events: list[StoredEvent], verdict: str, sentence: str, where: RequestFilter | None
) -> None:
    explanation = explain(4, ROW, events, state=STATE, time=1000.0, wall=1.7e9, where=where)
    assert (explanation.verdict, explanation.sentence) == (verdict, f"request 4 was {sentence}")


def test_explanation_of_a_removed_request_names_both_possible_reasons() -> None:
    tomb = attrs.evolve(ROW, record=None, last_seen=0.0, last_scan=0)
    for where in (None, RequestFilter(origin="Oslo")):
        explanation = explain(4, tomb, [], state=STATE, time=1000.0, wall=1.7e9, where=where)
        assert explanation.sentence.endswith(
            "was handed out, or excluded by a filter, longer ago than requests are kept"
        )


def test_waiting_event_that_the_filter_will_exclude_was_not_handed_out() -> None:
    """The event changed later into one that passes the filter, which makes no event if all requests changed alike."""
    bergen = RequestEvent(
        kind="new",
        request=RateRequest(index=4, origin="Bergen"),
        observed_between=(None, datetime.fromtimestamp(900, UTC)),
    )
    unwanted = attrs.evolve(event("new"), payload=pack(bergen))
    explanation = explain(4, ROW, [unwanted], state=STATE, time=1000.0, wall=1.7e9, where=RequestFilter(origin="Oslo"))
    assert explanation.verdict == "excluded"
    assert "was excluded by the filter of that time: the last event was 'new'" in explanation.sentence


def test_explanation_has_times_by_the_wall_clock() -> None:
    explanation = explain(4, ROW, [], state=STATE, time=1000.0, wall=1.7e9, where=None)
    assert explanation.first_seen == datetime.fromtimestamp(1.7e9 - 900, UTC)
    assert explanation.last_seen == datetime.fromtimestamp(1.7e9 - 200, UTC)


def test_a_tombstone_lacks_the_time_at_which_it_was_last_seen() -> None:
    tomb = attrs.evolve(ROW, record=None, last_seen=0.0, last_scan=0)
    explanation = explain(4, tomb, [], state=STATE, time=1000.0, wall=1.7e9, where=None)
    assert explanation.last_seen is None
    assert explanation.first_seen == datetime.fromtimestamp(1.7e9 - 900, UTC)


@pytest.mark.virtual_time
async def test_a_feed_that_was_not_entered_has_no_status() -> None:
    feed = Sandbox().client().watch()
    with pytest.raises(ConfigurationError, match="entered"):
        feed.status()
    with pytest.raises(ConfigurationError):
        await feed.explain(1)


@pytest.mark.virtual_time
async def test_priming_until_the_first_scan_is_complete() -> None:
    sandbox = Sandbox(Profile(latency=5.0))
    async with sandbox.client() as exchange:
        feed = exchange.watch(interval=MINUTE)
        async with anyio.create_task_group() as group:

            async def enter() -> None:
                async with feed:
                    await anyio.sleep(1)

            group.start_soon(enter)
            await anyio.sleep(3)
            assert (status := feed.status()).state == "priming"
            assert (status.cover_age, status.last_success) == (None, None)
    assert feed.status().state == "stopped"


@pytest.mark.virtual_time
async def test_live_then_backing_off_then_live_again() -> None:
    sandbox = Sandbox()
    async with sandbox.client() as exchange, exchange.watch(interval=MINUTE) as feed:
        live = feed.status()
        assert (live.state, live.pages, live.window, live.gaps) == ("live", 1, timedelta(days=5), ())
        assert live.cover_age is not None
        assert live.cover_age < MINUTE
        sandbox.strike(*FAULTS["unavailable"](path=POLL, times=None))
        with anyio.move_on_after(600):
            await anext(feed)
        off = feed.status()
        assert off.state == "backing-off"
        assert off.cover_age is not None
        assert off.cover_age > timedelta(seconds=500)
        assert off.last_success == live.last_success
        sandbox.exchange.faults.clear()
        sandbox.publish()
        await anext(feed)
        assert feed.status().state == "live"
        assert feed.status().unacknowledged == 1
    assert feed.status().state == "stopped"


@pytest.mark.virtual_time
async def test_catching_up_after_a_restart_and_the_gap_of_six_days() -> None:
    sandbox, store = Sandbox(), MemoryStore()
    async with sandbox.client() as exchange:
        async with exchange.watch(store=store, interval=MINUTE):
            pass
        await anyio.sleep(6 * 86_400)
        async with exchange.watch(store=store, interval=MINUTE) as feed:
            assert (status := feed.status()).state == "catching-up"
            assert status.cover_age is not None
            assert status.cover_age >= timedelta(days=6)
            gap = await anext(feed)
            assert gap.kind == "gap"
            assert feed.status().gaps == (gap,)
            await gap.ack()
            assert feed.status().gaps == ()
            assert feed.status().state == "live"


@pytest.mark.virtual_time
async def test_stopped_by_a_rejected_login() -> None:
    sandbox = Sandbox()
    async with sandbox.client() as exchange, exchange.watch(interval=MINUTE) as feed:
        sandbox.exchange.expire_tokens()
        sandbox.strike(*FAULTS["login_message_200"](times=None))
        with pytest.raises(LoginRejectedError):
            await anext(feed)
        assert feed.status().state == "stopped"


@pytest.mark.virtual_time
async def test_status_has_the_learned_page_size() -> None:
    sandbox = Sandbox(Profile(rows_clamp=10))
    for _ in range(25):
        sandbox.publish()
    async with sandbox.client() as exchange, exchange.watch(interval=MINUTE) as feed:
        assert feed.status().clamp == 10
        assert feed.status().pages > 3


@pytest.mark.virtual_time
async def test_a_request_from_unseen_to_handed_out_to_withdrawn() -> None:
    sandbox = Sandbox()
    base = sandbox.publish()
    async with sandbox.client() as exchange:
        async with exchange.watch(interval=MINUTE) as feed:
            assert (await feed.explain(base)).verdict == "baseline"
            index = sandbox.publish()
            assert (await feed.explain(index)).verdict == "unseen"
            event = await anext(feed)
            assert (await feed.explain(index)).verdict == "waiting"
            await event.ack()
            assert (await feed.explain(index)).verdict == "handed-out"
            sandbox.exchange.withdraw(index, sandbox.now())
            gone = await anext(feed)
            assert isinstance(gone, RequestEvent)
            assert gone.kind == "withdrawn"
            assert (await feed.explain(index)).events == ("new", "withdrawn")
        with pytest.raises(ConfigurationError, match="closed"):
            await feed.explain(index)


@pytest.mark.virtual_time
async def test_excluded_request_is_never_called_handed_out() -> None:
    sandbox = Sandbox()
    sandbox.publish()
    async with (
        sandbox.client() as exchange,
        exchange.watch(interval=MINUTE, where=RequestFilter(origin="nowhere")) as feed,
    ):
        index = sandbox.publish(Cargo(origin="Oslo"))
        with anyio.move_on_after(200):
            await anext(feed)
        assert (await feed.explain(index)).verdict == "excluded"
        assert feed.status().unacknowledged == 0
        sandbox.exchange.withdraw(index, sandbox.now())
        with anyio.move_on_after(3600):
            await anext(feed)
        explanation = await feed.explain(index)
        assert explanation.events == ("new", "withdrawn")
        assert explanation.verdict == "excluded"


@pytest.mark.virtual_time
async def test_request_that_an_earlier_run_excluded_is_not_called_handed_out(store: Store) -> None:
    sandbox = Sandbox()
    oslo, bergen = (sandbox.publish(Cargo(origin=origin)) for origin in ("Oslo", "Bergen"))

    async def run(where: RequestFilter | None) -> list[str]:
        async with (
            sandbox.client() as exchange,
            exchange.watch(store=store, interval=MINUTE, start="backfill", where=where) as feed,
        ):
            with anyio.move_on_after(200):
                async for _ in feed:
                    pass
            return [(await feed.explain(index)).verdict for index in (oslo, bergen)]

    assert await run(RequestFilter(origin="Oslo")) == ["handed-out", "excluded"]
    assert await run(None) == ["handed-out", "excluded"]


@pytest.mark.virtual_time
async def test_look_up_that_finds_a_request_gone_sets_when_it_was_last_seen() -> None:
    sandbox = Sandbox()
    async with sandbox.client() as exchange, exchange.watch(interval=MINUTE) as feed:
        index = sandbox.publish()
        await anext(feed)
        listed = (await feed.explain(index)).last_seen
        sandbox.exchange.withdraw(index, sandbox.now())
        gone = await anext(feed)
        assert isinstance(gone, RequestEvent)
        assert listed is not None
        assert (await feed.explain(index)).last_seen == gone.observed_between[1] > listed


@pytest.mark.parametrize("interval", [timedelta(microseconds=1), timedelta(milliseconds=999)])
def test_interval_under_one_second_is_refused(interval: timedelta) -> None:
    exchange = Sandbox().client()
    with pytest.raises(ConfigurationError, match="interval must be at least one second"):
        exchange.watch(interval=interval)
    with pytest.raises(ConfigurationError, match="interval must be at least one second"):
        Bot(exchange, store=None, interval=interval)
