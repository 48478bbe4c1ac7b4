"""Tests of the retry rules: which failures are repeated, after which wait, and how far a budget goes."""

from __future__ import annotations

import time
from email.utils import formatdate

import anyio
import httpx
import pytest
from tests.calls.support import (
    BID,
    FOUND,
    ONCE,
    Kind,
    arm,
    client,
    outcome,
    perform,
    reply,
    scripted,
    stocked,
    stranger,
    unkept,
)

from freight_exchange import (
    APIStatusError,
    FreightExchangeError,
    OutcomeUnknownError,
    RateLimitedError,
    RetryPolicy,
    TransportError,
)
from freight_exchange.hooks import Event, Retry

pytestmark = pytest.mark.virtual_time

GOOD = {Kind.READ: reply(200, FOUND), Kind.WRITE: reply(200, BID)}
BROKEN = httpx.ReadError("the connection broke")
RESENT = {"Unauthorized": "access denied"}


@pytest.mark.parametrize(
    ("failure", "reads", "writes"),
    [
        # Sent in all if every reply is the same: three attempts for what may pass, one for what will not.
        (BROKEN, 3, 1), (httpx.ReadTimeout("silence"), 3, 1), (httpx.RemoteProtocolError("no HTTP"), 3, 1),
        (reply(200, b"<html>"), 2, 1), (reply(200, {"message": "maintenance"}), 2, 1),
        (reply(307, headers={"Location": "https://elsewhere.example/"}), 1, 1), (reply(400, {"message": "no"}), 1, 1),
        (reply(401, RESENT), 2, 2), (reply(403, {"message": "no"}), 1, 1), (reply(403, RESENT), 2, 2),
        (reply(404, {"message": "no"}), 1, 1), (reply(405), 1, 1), (reply(408), 3, 1), (reply(409), 1, 1),
        (reply(413), 1, 1), (reply(422), 1, 1), (reply(429), 3, 1), (reply(429, headers={"Retry-After": "1"}), 3, 2),
        (reply(500), 3, 1), (reply(502, b"<html>"), 3, 1), (reply(503), 3, 1),
        (reply(503, headers={"Retry-After": "1"}), 3, 1),
    ],
    ids=str,
)  # fmt: skip
async def test_number_of_requests_that_a_failure_costs(
    failure: httpx.Response | Exception, reads: int, writes: int
) -> None:
    for kind, expected in ((Kind.READ, reads), (Kind.WRITE, writes)):
        with scripted(failure) as service:
            async with stranger() as exchange:
                with pytest.raises(FreightExchangeError) as caught:
                    await perform(exchange, kind)
        assert len(service.requests) == expected
        assert caught.value.attempts == expected
    if failure is BROKEN or (isinstance(failure, httpx.Response) and failure.status_code in (408, 500)):
        with scripted(GOOD[Kind.READ], login=failure) as service:
            async with stranger() as exchange:
                with pytest.raises(FreightExchangeError) as caught:
                    await exchange.login()
        assert len(service.logins) == caught.value.attempts == 2


@pytest.mark.parametrize("kind", [Kind.READ, Kind.WRITE])
@pytest.mark.parametrize("attempts_", [1, 2, 5])
async def test_policy_bounds_the_attempts_without_a_connection(kind: Kind, attempts_: int) -> None:
    sandbox = stocked()
    async with client(sandbox, middleware=[unkept], retries=RetryPolicy(attempts=attempts_)) as exchange:
        await exchange.login()
        arm(sandbox, "refused", kind, times=None)
        with pytest.raises(TransportError) as caught:
            await perform(exchange, kind)
    assert caught.value.attempts == len(sandbox.audit_log.calls_to("POST", kind.value)) == attempts_
    assert not caught.value.may_have_taken_effect
    assert not sandbox.audit_log.offers


async def test_refusal_of_a_token_is_recognised_in_a_long_body() -> None:
    with scripted(reply(403, {**RESENT, "trace": "x" * 9_000}), GOOD[Kind.READ]) as service:
        async with stranger() as exchange:
            assert await outcome(exchange, Kind.READ) == "ok"
    assert len(service.logins) == 2


# Waits


async def waited(after: str | None, status: int = 429, **options: object) -> tuple[float, str, int]:
    """Return the seconds until a read ends after one refusal, its outcome, and the requests sent."""
    headers = {} if after is None else {"Retry-After": after}
    with scripted(reply(status, {"message": "busy"}, headers), GOOD[Kind.READ]) as service:
        async with stranger(**options) as exchange:
            await exchange.login()
            began = anyio.current_time()
            ended = await outcome(exchange, Kind.READ)
            return anyio.current_time() - began, ended, len(service.requests)


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("after", "least", "most"), [("0", 0, 1), ("7", 7, 8), (" 20 ", 20, 22), ("007", 7, 8), ("1.5", 1.5, 2.5)]
)
async def test_reply_is_waited_for_as_long_as_asked_and_little_longer(
    after: str, least: float, most: float, status: int
) -> None:
    elapsed, ended, sent = await waited(after, status)
    assert (ended, sent) == ("ok", 2)
    assert least <= elapsed <= most


@pytest.mark.parametrize("after", [None, "", "-5", "+5", "soon", "nan", "inf", "1e3", "0x10", "1_000", "٣", "1,5"])
async def test_throttling_without_a_readable_time_backs_off_for_a_second_or_more(after: str | None) -> None:
    with scripted(reply(429), GOOD[Kind.READ]) as service:
        service.answers[0] = httpx.Response(
            429, headers=[] if after is None else [(b"Retry-After", after.encode("latin-1", "replace"))]
        )
        async with stranger() as exchange:
            await exchange.login()
            began = anyio.current_time()
            assert await outcome(exchange, Kind.READ) == "ok"
            assert 1 <= anyio.current_time() - began <= 2


@pytest.mark.parametrize("hours", [-2, 2])
async def test_date_is_read_against_the_date_of_its_reply(hours: int) -> None:
    """The machine's clock may be hours off: the service's own `Date` says how long it means."""
    theirs = time.time() - hours * 3600
    headers = {"Date": formatdate(theirs, usegmt=True), "Retry-After": formatdate(theirs + 20, usegmt=True)}
    with scripted(reply(429, {}, headers), GOOD[Kind.READ]):
        async with stranger() as exchange:
            await exchange.login()
            began = anyio.current_time()
            assert await outcome(exchange, Kind.READ) == "ok"
            assert 20 <= anyio.current_time() - began <= 23


@pytest.mark.parametrize("after", ["121", "3600", "1000000000000", "9" * 500, "Fri, 31 Dec 9999 23:59:59 GMT"])
@pytest.mark.parametrize("kind", [Kind.READ, Kind.WRITE])
async def test_wait_of_more_than_two_minutes_is_the_callers(after: str, kind: Kind) -> None:
    with scripted(reply(429, {}, {"Retry-After": after})) as service:
        async with stranger(deadline=10_000) as exchange:
            await exchange.login()
            began = anyio.current_time()
            with pytest.raises(RateLimitedError, match="to wait") as caught:
                await perform(exchange, kind)
            assert anyio.current_time() == began
    assert len(service.requests) == 1
    assert caught.value.retry_after is not None
    assert caught.value.retry_after > 120


@pytest.mark.parametrize("kind", [Kind.READ, Kind.WRITE])
async def test_wait_beyond_the_deadline_is_not_begun(kind: Kind) -> None:
    with scripted(reply(429, {}, {"Retry-After": "30"})) as service:
        async with stranger(deadline=20) as exchange:
            await exchange.login()
            began = anyio.current_time()
            with pytest.raises(RateLimitedError) as caught:
                await perform(exchange, kind)
            assert anyio.current_time() - began < 20
    assert (caught.value.retry_after, len(service.requests)) == (30, 1)


@pytest.mark.parametrize("status", [429, 503])
async def test_one_reply_holds_back_all_reads_of_the_client(status: int) -> None:
    """The reads that come meanwhile wait too, or raise at once where the wait is longer than their deadline."""
    with scripted(reply(status, {}, {"Retry-After": "40"}), GOOD[Kind.READ]) as service:
        async with stranger(retries=ONCE) as exchange:
            with pytest.raises(APIStatusError):
                await perform(exchange, Kind.READ)
            began = anyio.current_time()
            with pytest.raises(RateLimitedError) as caught:
                await perform(exchange.with_options(deadline=10), Kind.READ)
            assert len(service.requests) == 1
            assert caught.value.retry_after == pytest.approx(40)
            assert await outcome(exchange, Kind.READ) == "ok"
            assert 40 <= anyio.current_time() - began <= 42
    assert len(service.requests) == 2


async def test_back_off_doubles_up_to_its_cap_with_jitter() -> None:
    seen: list[Event] = []
    policy = RetryPolicy(attempts=6, base=1, cap=5, budget=10_000)
    with scripted(reply(500)):
        async with stranger(retries=policy, hooks=[seen.append], deadline=600) as exchange:
            for _ in range(30):
                await outcome(exchange, Kind.READ)
    delays = [event.delay for event in seen if isinstance(event, Retry)]
    for place, limit in enumerate([1, 2, 4, 5, 5]):
        assert min(delays[place::5]) < limit / 2 < max(delays[place::5]) <= limit


# Budget


@pytest.mark.parametrize(
    ("fault", "at_once"),
    [("unavailable_forever", False), ("refused", False), ("stall", True), ("throttled", False), ("throttled", True)],
)
async def test_requests_under_a_total_outage_are_bounded(fault: str, at_once: bool) -> None:
    sandbox, calls = stocked(), 150
    async with client(sandbox, middleware=[unkept], deadline=1e6) as exchange:
        await exchange.login()
        arm(sandbox, fault, Kind.READ, times=None)

        async def call() -> None:
            assert await outcome(exchange, Kind.READ) != "ok"

        async with anyio.create_task_group() as tasks:
            for _ in range(calls):
                tasks.start_soon(call) if at_once else await call()
        sent = len(sandbox.audit_log.calls_to("POST", Kind.READ.value))
        assert calls < sent <= calls + 500 // (5 if fault == "throttled" else 14)
        # Once it is over, successes fill the budget again, and a single failure is retried once more.
        sandbox.exchange.faults.clear()
        for _ in range(20):
            assert await outcome(exchange, Kind.READ) == "ok"
        arm(sandbox, "unavailable", Kind.READ)
        assert await outcome(exchange, Kind.READ) == "ok"


async def test_replies_that_cannot_be_read_earn_no_budget() -> None:
    with scripted(reply(200, b"<html>")) as service:
        async with stranger(retries=RetryPolicy(budget=20)) as exchange:
            for _ in range(100):
                with pytest.raises(FreightExchangeError):
                    await perform(exchange, Kind.READ)
    assert len(service.requests) == 101


# Distrusted refusals


@pytest.mark.parametrize("failure", [reply(401, RESENT), reply(429), reply(429, {}, {"Retry-After": "1"})], ids=str)
async def test_distrusted_refusal_of_a_write_is_a_doubt(failure: httpx.Response) -> None:
    distrust = RetryPolicy(trust_refusals=False)
    with scripted(failure, GOOD[Kind.WRITE]) as service:
        async with stranger(retries=distrust) as exchange:
            with pytest.raises(OutcomeUnknownError):
                await perform(exchange, Kind.WRITE)
            assert len(service.requests) == 1
            # The next write has a new token, and is sent.
            assert await outcome(exchange, Kind.WRITE) == "ok"


# Facts
