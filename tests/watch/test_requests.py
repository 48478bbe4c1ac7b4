"""Tests of a feed of requests: for each rule, what happens on the market and which events follow."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import timedelta
from itertools import count, pairwise
from typing import Any

import anyio
import attrs
import pytest
from tests.watch.market import HALF_MINUTE, Market, drop

from freight_exchange import Gap, LoginRejectedError, NotFoundError, Unreadable
from freight_exchange.hooks import Degraded, Recovered, Scan
from freight_exchange.store import MemoryStore
from freight_exchange.testing import FAULTS, Fault

pytestmark = pytest.mark.virtual_time

DAY = 86_400.0
MINUTE = 60.0
HOUR = 3600.0
LISTING = "quote/getrequests"

Script = Callable[[Market], list[tuple[float, Callable[[], object]]]]


@attrs.frozen
class Rule:
    """Actions after the feed was entered, and the events that follow.

    Attributes:
        script: Returns the steps, given a market with two requests, 1 and 2.
        told: The expected events, in any order among those of one page.
        lasts: Seconds from the last step until they must have come.
        options: Options of the feed.
        profile: Quirks of the service.
    """

    script: Script
    told: list[str]
    lasts: float = 10 * MINUTE
    options: dict[str, Any] = attrs.field(factory=dict)
    profile: dict[str, Any] = attrs.field(factory=dict)


def _denied_look_ups(market: Market) -> list[tuple[float, Callable[[], object]]]:
    def begin() -> None:
        market.hide(3)
        market.found = lambda index, rows: rows.clear()

    return [(0.0, market.publish), (90.0, begin)]


def _lose(market: Market, *indexes: int) -> None:
    """Leave requests out of the listing and of look-ups."""
    market.hide(*indexes)
    market.found = lambda index, rows: drop(rows, indexes)


def _broken(market: Market, *indexes: int, text: str = "x", noise: bool = False) -> Callable[[], None]:
    def spoil(page: int, rows: dict[str, Any]) -> None:
        for key, row in rows.items():
            if row["index"] in indexes:
                rows[key] = {"index": f"{text}{row['index']}", "refId": row["refId"]}
                if noise:
                    rows[key]["servedAt"] = market.sandbox.now()

    def begin() -> None:
        market.listed = spoil

    return begin


RULES: dict[str, Rule] = {
    "a new request": Rule(lambda market: [(5.0, market.publish)], ["new 3"], lasts=35.0),
    "each request of a burst": Rule(
        lambda market: [(5.0, lambda: market.publish_many(150))], [f"new {n}" for n in range(3, 153)], lasts=35.0
    ),
    "each request of a burst, where pages are cut at the documented size": Rule(
        lambda market: [(5.0, lambda: market.publish_many(75))],
        [f"new {n}" for n in range(3, 78)],
        lasts=35.0,
        profile={"rows_clamp": 20},
    ),
    "a change and its reversal": Rule(
        lambda market: [
            (5.0, lambda: market.update(1, quantity=7)),
            (40.0, lambda: market.update(1, quantity=10)),
        ],
        ["updated 1", "updated 1"],
        lasts=35.0,
    ),
    "no event for an update without a change": Rule(
        lambda market: [(5.0, lambda: market.sandbox.exchange.touch(1, market.sandbox.now()))], []
    ),
    "no event for the same number in another form": Rule(
        lambda market: [
            (5.0, lambda: setattr(market.sandbox.exchange, "profile", _with(market, number_form="string"))),
            (5.0, lambda: market.sandbox.exchange.touch(1, market.sandbox.now())),
        ],
        [],
    ),
    "no event for an undocumented field": Rule(
        lambda market: [(5.0, lambda: setattr(market.sandbox.exchange, "profile", _with(market, extra_keys=True)))],
        [],
        lasts=HOUR,
    ),
    "a withdrawal beside other requests": Rule(
        lambda market: [(5.0, lambda: market.publish_many(2)), (80.0, lambda: market.withdraw(3))],
        ["new 3", "new 4", "withdrawn 3"],
    ),
    "a withdrawal of the only recent request": Rule(
        lambda market: [(5.0, market.publish), (80.0, lambda: market.withdraw(3))], ["new 3", "withdrawn 3"]
    ),
    "a withdrawal of all that is listed, an hour later": Rule(
        lambda market: [(5.0, lambda: market.publish_many(3)), (80.0, lambda: market.withdraw(1, 2, 3, 4, 5))],
        ["new 3", "new 4", "new 5", "withdrawn 3", "withdrawn 4", "withdrawn 5"],
        lasts=3 * HOUR,
        options={"start": "now"},
    ),
    "no withdrawal after listings that are empty for some minutes": Rule(
        lambda market: [
            (5.0, market.publish),
            (195.0, lambda: setattr(market, "listed", lambda page, rows: rows.clear())),
            (0.0, lambda: setattr(market, "found", lambda index, rows: rows.clear())),
            (200.0, market.restore),
        ],
        ["new 3"],
        lasts=HOUR,
    ),
    "a row that cannot be read, once, though an undocumented field of it changes": Rule(
        lambda market: [(5.0, lambda: _broken(market, 1, noise=True)()), (0.0, lambda: market.update(1, quantity=7))],
        ["unreadable None"],
    ),
    "no withdrawal before the allowance has passed": Rule(
        lambda market: [(5.0, market.publish), (40.0, lambda: market.withdraw(3))],
        ["new 3"],
        lasts=55.0,
        options={"allowance": timedelta(seconds=120)},
    ),
    "no withdrawal of a request that left the window": Rule(
        lambda market: [(5.0, market.publish)], ["new 3"], 7 * HOUR
    ),
    "no withdrawal of a request that a look-up finds": Rule(
        lambda market: [(5.0, market.publish), (40.0, lambda: market.hide(3))], ["new 3"], 70 * MINUTE
    ),
    "no withdrawal while look-ups do not find what is listed": Rule(
        lambda market: [(5.0, lambda: market.publish_many(2)), *_denied_look_ups(market)],
        ["new 3", "new 4", "new 5"],
        lasts=70 * MINUTE,
    ),
    "no withdrawals for an hour where much is missing": Rule(
        lambda market: [
            (5.0, lambda: market.publish_many(9)),
            (90.0, lambda: _lose(market, *range(3, 10))),
        ],
        [f"new {n}" for n in range(3, 12)],
        lasts=50 * MINUTE,
    ),
    "the withdrawal once look-ups work": Rule(
        lambda market: [
            (5.0, lambda: market.publish_many(2)),
            (80.0, lambda: market.withdraw(3)),
            (0.0, lambda: market.strike(*FAULTS["unavailable"](path=LISTING, times=4, skip=1))),
        ],
        ["new 3", "new 4", "withdrawn 3"],
        lasts=20 * MINUTE,
    ),
    "a withdrawal behind one whose look-ups fail": Rule(
        lambda market: [
            (5.0, lambda: market.publish_many(2)),
            (0.0, lambda: market.strike(Fault(name="away", when=_looks_up(4), times=None, mutate=_fail))),
            (80.0, lambda: market.withdraw(3, 4)),
        ],
        ["new 3", "new 4", "withdrawn 3"],
        lasts=12 * MINUTE,
    ),
    "a withdrawn request that is listed again": Rule(
        lambda market: [
            (5.0, lambda: market.publish_many(2)),
            (80.0, lambda: _lose(market, 3)),
            (10 * MINUTE, lambda: setattr(market, "listed", lambda page, rows: None)),
            (0.0, lambda: market.update(3, quantity=9)),
        ],
        ["new 3", "new 4", "withdrawn 3", "updated 3 again"],
    ),
    "an update that is shown within the allowance": Rule(
        lambda market: [(5.0, market.publish)], ["new 3"], lasts=90.0, profile={"late_visibility": 55.0}
    ),
    "an update that is shown later than the allowance, within five minutes": Rule(
        lambda market: [(5.0, market.publish)], ["new 3"], lasts=12 * MINUTE, profile={"late_visibility": 400.0}
    ),
    "an update that is shown later than the allowance, while the feed pauses": Rule(
        lambda market: [(5.0, market.publish), (200.0, lambda: market.sandbox.machine.suspend(1690.0))],
        ["new 3"],
        lasts=10 * MINUTE,
        profile={"late_visibility": 400.0},
    ),
    "a row that cannot be read, once, and the others": Rule(
        lambda market: [(5.0, lambda: (market.publish_many(3), _broken(market, 4)()))],
        ["new 3", "unreadable None", "new 5"],
        lasts=70 * MINUTE,
    ),
    "a row that cannot be read, again with other content": Rule(
        lambda market: [(5.0, lambda: (market.publish(), _broken(market, 3)())), (60.0, _broken(market, 3, text="y"))],
        ["unreadable None", "unreadable None"],
    ),
    "all updates of a night asleep": Rule(
        lambda market: [
            (5.0, market.publish),
            (0.0, lambda: market.sandbox.machine.suspend(8 * HOUR)),
        ],
        ["new 3"],
        lasts=35.0,
    ),
    "a gap after six days asleep": Rule(
        lambda market: [(5.0, lambda: market.sandbox.machine.suspend(6 * DAY))], ["gap"], lasts=40.0
    ),
    "no gap after a little less than five days": Rule(
        lambda market: [(5.0, lambda: market.sandbox.machine.suspend(5 * DAY - 200))], [], lasts=HOUR
    ),
    "no event behind a page that is refused for a moment": Rule(
        lambda market: [
            (5.0, lambda: market.strike(Fault(name="late", when=_is_page(1), mutate=_refuse))),
            (1.0, lambda: market.publish_many(45)),
        ],
        [f"new {n}" for n in range(3, 48)],
        lasts=2 * MINUTE,
        profile={"rows_clamp": 20},
    ),
    "what follows a page of hidden rows, within five minutes": Rule(
        lambda market: [
            (5.0, market.publish),
            (0.0, lambda: _publish_hidden(market, 25)),
        ],
        ["new 3"],
        lasts=6 * MINUTE,
        profile={"rights": "after_paging"},
    ),
}  # fmt: skip


def _with(market: Market, **quirks: Any) -> Any:
    return attrs.evolve(market.sandbox.exchange.profile, **quirks)


def _publish_hidden(market: Market, number: int) -> None:
    """Publish requests of the reader's own account, which it may not see."""
    for _ in range(number):
        market.sandbox.exchange.publish(market.sandbox.forwarder, market.sandbox.now())


def _is_page(number: int) -> Callable[[Any], bool]:
    return lambda call: call.path == LISTING and json.loads(call.body or b"{}").get("offset") == number


def _looks_up(index: int) -> Callable[[Any], bool]:
    return lambda call: call.path == LISTING and json.loads(call.body or b"{}").get("index") == index


def _fail(reply: Any, now: float, random: object) -> Any:
    return attrs.evolve(reply, status=503, body=b"")


def _refuse(reply: Any, now: float, random: object) -> Any:
    return attrs.evolve(reply, status=404, body=b'{"message": "No records found."}')


def _refuse_bare(reply: Any, now: float, random: object) -> Any:
    return attrs.evolve(reply, status=404, body=b"")


@pytest.mark.parametrize("name", RULES)
async def test_rule(name: str) -> None:
    rule = RULES[name]
    market = Market.of(**rule.profile)
    market.publish_many(2)
    await anyio.sleep(10 * MINUTE)
    async with market.watched(**rule.options):
        await market.play(*rule.script(market))
        await anyio.sleep(rule.lasts)
        status = market.feed.status()
    assert sorted(market.told) == sorted(rule.told)
    assert status.state == "live"


async def test_state_that_a_new_request_was_changed_to_within_a_scan_is_told_last() -> None:
    market = Market.of(rows_clamp=20)
    market.publish_many(2)
    async with market.watched():
        await anyio.sleep(MINUTE)
        market.listed = lambda page, rows: market.update(3, quantity=50 + page) if page < 2 else None
        market.publish_many(30)
        await anyio.sleep(MINUTE)
        market.listed = lambda page, rows: None
        await anyio.sleep(MINUTE)
    about = [event.request for event in market.events if event.request.index == 3]
    assert about[-1].quantity == market.sandbox.exchange.requests[3].cargo.quantity


@pytest.mark.parametrize("order", ["newest", "oldest", "index"])
async def test_one_scan_misses_no_row_that_moves_while_pages_are_read(order: str) -> None:
    market = Market.of(rows_clamp=20, order=order)
    records: list[Any] = []
    async with market.watched(client=market.client(hooks=[records.append])):
        await anyio.sleep(MINUTE)
        records.clear()
        left = market.publish_many(90)
        head = -1 if order == "newest" else 0

        def move(page: int, rows: dict[str, Any]) -> None:
            if len(left) > 60:
                # Each row behind the first one moves a place to the front.
                market.withdraw(left.pop(head))

        market.listed = move
        while not any(isinstance(record, Scan) and record.events for record in records):  # noqa: ASYNC110 - virtual time
            await anyio.sleep(1.0)
        await anyio.sleep(1.0)
        told = {event.request.index for event in market.events}
    assert {*left} <= told


# Starts and restarts


@pytest.mark.parametrize(
    ("start", "told"),
    [
        ("now", ["new 5"]),
        ("backfill", ["new 1", "new 2", "new 3", "new 4", "new 5"]),
        (timedelta(minutes=30), ["new 3", "new 4", "new 5"]),
        (timedelta(0), ["new 5"]),
    ],
    ids=str,
)
async def test_start_decides_about_what_is_listed(start: Any, told: list[str]) -> None:
    market = Market()
    market.publish_many(2)
    await anyio.sleep(2 * HOUR)
    market.publish_many(2)
    await anyio.sleep(10 * MINUTE)
    store = MemoryStore()
    async with market.watched(start=start, store=store):
        await market.play((5.0, market.publish))
        await anyio.sleep(20 * MINUTE)
    assert sorted(market.told) == told
    async with market.watched(start="backfill", store=store):
        await anyio.sleep(20 * MINUTE)
    assert sorted(market.told) == told


@pytest.mark.parametrize("down", [10.0, HOUR, 3 * DAY])
async def test_restart_tells_what_happened_meanwhile(down: float) -> None:
    market, store = Market(), MemoryStore()
    market.publish_many(2)
    async with market.watched(store=store):
        await market.play((5.0, market.publish))
        await anyio.sleep(2 * MINUTE)
    market.publish()
    market.update(3, quantity=7)
    market.withdraw(1)
    await anyio.sleep(down)
    async with market.watched(store=store):
        await anyio.sleep(12 * MINUTE)
    assert sorted(market.told) == ["new 3", "new 4", "updated 3", "withdrawn 1"]


async def test_restart_looks_five_days_back() -> None:
    market, store = Market(), MemoryStore()
    market.publish()
    async with market.watched(store=store):
        await anyio.sleep(HOUR)
    since = anyio.current_time()
    async with market.watched(store=store):
        await anyio.sleep(MINUTE)
    assert 432_000 in [body["secondsSinceUpdate"] for body in market.requests_of(since=since)]


async def test_gap_after_six_days_down_is_told_once_with_its_bounds() -> None:
    market, store = Market(), MemoryStore()
    market.publish()
    async with market.watched(store=store):
        await anyio.sleep(MINUTE)
    stopped = market.sandbox.now()
    await anyio.sleep(6 * DAY)
    async with market.watched(store=store):
        await anyio.sleep(MINUTE)
        assert market.feed.status().gaps == ()
    async with market.watched(store=store):
        await anyio.sleep(MINUTE)
    (gap,) = market.events
    assert isinstance(gap, Gap)
    assert stopped - 120 < gap.since.timestamp() < stopped
    assert abs(gap.until.timestamp() - (stopped + DAY)) < MINUTE


async def test_gaps_are_acknowledged_without_being_delivered() -> None:
    market, store = Market(), MemoryStore()
    market.publish()
    async with market.watched(store=store):
        await anyio.sleep(MINUTE)
    await anyio.sleep(6 * DAY)
    market.publish_many(2)
    async with market.client() as exchange, exchange.watch(store=store, interval=HALF_MINUTE) as feed:
        assert (await anext(feed)).kind == "new"
        await anyio.sleep(MINUTE)
        while not feed.status().gaps:
            await anext(feed)
        assert await feed.acknowledge_gaps() == 1
        assert feed.status().gaps == ()
    assert store is not None


async def test_request_that_is_forgotten_is_not_new_again() -> None:
    market, store = Market(), MemoryStore()
    market.publish()
    async with market.watched(store=store, start="backfill", interval=timedelta(hours=1)):
        await anyio.sleep(12 * DAY)
        market.sandbox.exchange.touch(1, market.sandbox.now())
        await anyio.sleep(2 * HOUR)
        market.update(1, quantity=7)
        await anyio.sleep(2 * HOUR)
        explanation = await market.feed.explain(1)
    assert market.told == ["new 1", "updated 1"]
    assert market.events[1].previous is not None
    assert explanation.verdict == "handed-out"
    assert explanation.events == ("updated",)


# Bytes


async def test_row_that_is_not_json_hides_no_other() -> None:
    market = Market()
    market.publish_many(2)
    async with market.watched():
        await anyio.sleep(MINUTE)
        market.publish_many(13)

        def answer(page: int, size: int) -> bytes | None:
            rows = [f'"{n}": {{"index": {n}}}' for n in range(1, 16)]
            rows[6] = '"7": {"index": 7, "notes": "5" pipes"}'
            return ('{"raterequests": {' + ", ".join(rows[page * size : (page + 1) * size]) + "}}").encode()

        market.answer = answer
        await anyio.sleep(MINUTE)
    told = {event.request.index for event in market.events if event.kind == "new"}
    assert told == {*range(3, 16)} - {7}
    assert [event.index for event in market.events if isinstance(event, Unreadable)] == [None]


NO_RECORDS = {"a sentence": b'{"message": "No records found."}', "an empty body": b" "}


@pytest.mark.parametrize("end", NO_RECORDS)
async def test_sentence_behind_the_last_row_is_the_end(end: str) -> None:
    market = Market.of(rows_clamp=20)
    market.publish_many(2)
    async with market.watched():
        await anyio.sleep(MINUTE)
        market.publish_many(70)
        market.answer = lambda page, size: NO_RECORDS[end] if page > 0 and page * min(size, 20) >= 72 else None
        await anyio.sleep(MINUTE)
        assert market.feed.status().state == "live"
    assert len(market.told) == 70


async def test_large_page_that_the_service_does_not_serve_hides_no_request() -> None:
    market = Market()
    async with market.watched():
        await anyio.sleep(MINUTE)
        market.publish_many(70)
        market.answer = lambda page, size: b'{"raterequests": {}}' if size > 20 else None
        await anyio.sleep(2 * MINUTE)
        assert len(market.told) == 70


@pytest.mark.parametrize("end", NO_RECORDS)
async def test_sentence_in_place_of_the_first_page_is_an_error(end: str) -> None:
    market = Market()
    market.publish_many(2)
    async with market.watched():
        await anyio.sleep(MINUTE)
        market.publish()
        market.answer = lambda page, size: NO_RECORDS[end]
        await anyio.sleep(5 * MINUTE)
        assert market.feed.status().state == "backing-off"
        assert market.told == []
        market.answer = lambda page, size: None
        await anyio.sleep(3 * MINUTE)
    assert market.told == ["new 3"]


async def test_token_that_the_service_repeats_is_not_stored() -> None:
    market = Market()
    tokens: list[str] = []

    def note(reply: Any, now: float, random: object) -> Any:
        tokens.append(json.loads(reply.body)["user"]["access_token"])
        return reply

    market.strike(Fault(name="note", path="login", times=None, mutate=note))

    def repeat(page: int, rows: dict[str, Any]) -> None:
        for row in rows.values():
            row |= {"notes": f"sent by {tokens[-1]}, fragile", "traceOf": [tokens[-1]]}

    market.listed = repeat
    market.publish()
    async with market.watched(start="backfill"):
        await anyio.sleep(MINUTE)
    (event,) = market.events
    assert (event.request.notes, event.request.extra) == ("sent by ***, fragile", {"traceOf": ("***",)})


# Pace


def _every_other() -> Callable[[Any], bool]:
    flips = count()
    return lambda call: next(flips) % 2 == 0


async def test_idle_poll_is_one_request() -> None:
    market = Market()
    market.publish_many(2)
    async with market.watched():
        await anyio.sleep(10 * MINUTE)
        since = anyio.current_time()
        await anyio.sleep(HOUR)
        bodies = market.requests_of(since=since)
    narrow = [body for body in bodies if body["secondsSinceUpdate"] < 1800]
    assert all(body["offset"] == 0 for body in narrow)
    assert 105 <= len(narrow) <= 135
    assert len(bodies) - len(narrow) <= 12 * 4 + 10


async def test_first_phase_and_interval_vary() -> None:
    times: list[list[float]] = []
    for _ in range(6):
        market = Market()
        async with market.watched(interval=timedelta(minutes=10)):
            entered = market.sandbox.now()
            await anyio.sleep(2 * HOUR)
        calls = [call.time - entered for call in market.sandbox.audit_log.calls if call.path == LISTING]
        times.append([time for time in calls if time > 1.0])
    assert len({round(first) for first, *_ in times}) >= 4
    assert all(first < 660.0 for first, *_ in times)


WINDOWS: dict[str, tuple[dict[str, Any], float]] = {
    "an interval, the allowance and a scan": ({}, 0.0),
    "an outage too": ({}, 10 * MINUTE),
    "a long allowance": ({"allowance": timedelta(minutes=20)}, 0.0),
}


@pytest.mark.parametrize("name", WINDOWS)
async def test_window_covers(name: str) -> None:
    options, outage = WINDOWS[name]
    market = Market()
    market.publish_many(2)
    async with market.watched(**options):
        await anyio.sleep(10 * MINUTE)
        if outage:
            market.strike(*(faults := FAULTS["unavailable"](path=LISTING, times=None)))
            await anyio.sleep(outage)
            market.sandbox.exchange.faults.disarm(*faults)
        await anyio.sleep(2 * MINUTE)
    bodies = [body for body in market.requests_of() if "secondsSinceUpdate" in body]
    calls = [call for call in market.sandbox.audit_log.calls if call.path == LISTING and call.status == 200]
    allowance = options.get("allowance", timedelta(minutes=1)).total_seconds()
    assert max(body["secondsSinceUpdate"] for body in bodies[-4:]) >= allowance + 27.0
    pages = [(call.time, json.loads(call.body)) for call in calls]
    firsts = [(time, body["secondsSinceUpdate"]) for time, body in pages if body["offset"] == 0 and time]
    narrow = [(time, window) for time, window in firsts if window < 1800]
    for (before, _), (time, window) in pairwise(narrow):
        assert window >= time - before + allowance


async def test_scan_whose_window_slid_past_the_watermark_is_repeated_wider() -> None:
    market = Market()
    records: list[Any] = []
    market.publish_many(2)
    async with market.watched(client=market.client(hooks=[records.append])):
        await anyio.sleep(5 * MINUTE + 20.0)
        records.clear()
        market.strike(Fault(name="slow", when=_is_page(1), delay=25.0))
        market.publish()
        await anyio.sleep(2 * MINUTE)
    scans = [record for record in records if isinstance(record, Scan) and record.tier == "narrow"]
    slow = next(number for number, scan in enumerate(scans) if scan.elapsed > 20.0)
    assert (scans[slow].complete, scans[slow].error) == (False, None)
    assert scans[slow + 1].complete
    assert scans[slow + 1].window >= scans[slow].window + 20


OUTAGES = {
    "failures": FAULTS["unavailable"],
    "no connection": FAULTS["refused"],
    "html": FAULTS["html_200"],
    "a rate limit": FAULTS["throttled_seconds"],
}


@pytest.mark.parametrize("name", OUTAGES)
async def test_outage_gets_no_more_requests_than_health(name: str) -> None:
    market = Market()
    market.publish_many(2)
    records: list[Any] = []
    async with market.watched(client=market.client(hooks=[records.append])):
        await anyio.sleep(10 * MINUTE)
        healthy = len(market.requests_of())
        await anyio.sleep(30 * MINUTE)
        healthy = len(market.requests_of()) - healthy
        market.strike(*(faults := OUTAGES[name](path=LISTING, times=None)))
        began = len(market.requests_of())
        await anyio.sleep(30 * MINUTE)
        failing = len(market.requests_of()) - began
        status = market.feed.status()
        market.sandbox.exchange.faults.disarm(*faults)
        market.publish()
        await anyio.sleep(2.5 * MINUTE)
    assert failing <= 1.2 * healthy
    assert status.state == "backing-off"
    assert market.told == ["new 3"]
    assert [type(record) for record in records if isinstance(record, Degraded | Recovered)] == [Degraded, Recovered]


async def test_every_other_request_failing_gets_no_more_requests_than_health() -> None:
    counts = []
    for is_failing in (False, True):
        market = Market()
        market.publish_many(2)
        async with market.watched():
            if is_failing:
                faults = FAULTS["unavailable"](path=LISTING, times=None)
                market.strike(*(attrs.evolve(one, when=_every_other()) for one in faults))
            await anyio.sleep(HOUR)
        counts.append(len(market.requests_of()))
    assert counts[1] <= 1.2 * counts[0]


async def test_retry_after_holds_the_feed() -> None:
    market = Market()
    async with market.watched():
        await anyio.sleep(MINUTE)
        market.strike(*FAULTS["throttled_seconds"](path=LISTING, seconds=600.0))
        await anyio.sleep(MINUTE)
        before = len(market.requests_of())
        assert market.feed.status().retry_in > timedelta(minutes=8)
        await anyio.sleep(8 * MINUTE)
        assert len(market.requests_of()) == before
        await anyio.sleep(3 * MINUTE)
        assert market.feed.status().state == "live"


async def test_service_that_starts_late_is_found_within_half_a_minute() -> None:
    market = Market()
    market.publish()
    faults = [*FAULTS["refused"](path="login", times=None), *FAULTS["refused"](path=LISTING, times=None)]
    market.strike(*faults)
    entered: list[float] = []

    async def enter() -> None:
        async with market.watched():
            entered.append(anyio.current_time())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(enter)
        await anyio.sleep(5 * MINUTE)
        tries = [call.time for call in market.sandbox.audit_log.calls]
        market.sandbox.exchange.faults.disarm(*faults)
        began = anyio.current_time()
    assert entered[0] - began <= 40.0
    assert len(tries) <= 60


@pytest.mark.parametrize(
    ("fault", "error"), [("login_rejected", LoginRejectedError), ("not_found", NotFoundError)], ids=str
)
async def test_permanent_error_at_the_start_is_raised(fault: str, error: type[Exception]) -> None:
    market = Market()
    if fault == "not_found":
        market.strike(Fault(name="wrong", path=LISTING, times=None, mutate=_refuse_bare))
    client = market.client(password="wrong") if fault == "login_rejected" else market.client()
    with pytest.raises(error):
        async with market.watched(client=client):
            pass


async def test_rejected_login_ends_a_running_feed() -> None:
    market = Market()
    async with market.client() as exchange, exchange.watch(interval=HALF_MINUTE) as feed:
        market.sandbox.exchange.expire_tokens()
        market.sandbox.exchange.forwarder.password = "changed"
        with pytest.raises(LoginRejectedError):
            await anext(feed)
        assert feed.status().state == "stopped"


async def test_look_ups_that_fail_delay_no_scan() -> None:
    market = Market()
    market.publish_many(2)
    async with market.watched():
        await market.play((5.0, lambda: market.publish_many(4)), (80.0, lambda: market.withdraw(3)))
        faults = FAULTS["unavailable"](path=LISTING, times=None)
        market.strike(*(attrs.evolve(one, when=lambda call: b'"index"' in call.body) for one in faults))
        since = anyio.current_time()
        await anyio.sleep(HOUR)
        bodies = market.requests_of(since=since)
        assert market.feed.status().state == "live"
    look_ups = [body for body in bodies if "index" in body]
    assert 1 <= len(look_ups) <= 12
    assert len([body for body in bodies if body.get("secondsSinceUpdate", 1800) < 1800]) >= 100


async def test_order_that_changes_with_each_call_is_read_calmly() -> None:
    market = Market.of(order="random", rows_clamp=20)
    market.publish_many(40)
    market.listed = lambda page, rows: market.sandbox.exchange.reorder()
    async with market.watched(start="backfill"):
        await anyio.sleep(2 * MINUTE)
        since = anyio.current_time()
        await anyio.sleep(HOUR)
        bodies = market.requests_of(since=since)
    assert len({event.request.index for event in market.events}) == 40
    assert len(bodies) <= 120 + 12 * 8 + 60


async def test_service_that_ignores_page_numbers_is_named(caplog: pytest.LogCaptureFixture) -> None:
    market = Market.of(rows_clamp=20)
    market.publish_many(2)
    with caplog.at_level(logging.WARNING, logger="freight_exchange.feed"):
        async with market.watched():
            await anyio.sleep(MINUTE)
            market.publish_many(30)
            first = json.dumps({"raterequests": {str(n): {"index": n} for n in range(13, 33)}}).encode()
            market.answer = lambda page, size: (
                first if size > 1 or page == 0 else json.dumps({"raterequests": {"0": {"index": 13}}}).encode()
            )
            await anyio.sleep(2 * MINUTE)
            assert market.feed.status().state == "backing-off"
    assert "ignores `offset`" in caplog.text


async def test_hooks_receive_each_scan() -> None:
    market = Market()
    records: list[Any] = []
    market.publish_many(2)
    async with market.watched(client=market.client(hooks=[records.append])):
        await anyio.sleep(HOUR + 10 * MINUTE)
    scans = [record for record in records if isinstance(record, Scan)]
    tiers = {scan.tier for scan in scans}
    assert tiers == {"narrow", "half an hour", "six hours", "five days"}
    assert all(scan.complete and scan.error is None for scan in scans)
    assert scans[0].rows >= 2
