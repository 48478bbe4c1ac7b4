"""Tests of the shared login of all calls, and of credentials for other origins."""

from __future__ import annotations

from collections import Counter

import anyio
import httpx
import pytest
from tests.faults.support import Kind, arm, outcome, patient, perform, stocked

from freight_exchange import (
    APIStatusError,
    AuthenticationError,
    DeadlineExceededError,
    FreightExchange,
    FreightExchangeError,
    LoginRejectedError,
    OutcomeUnknownError,
    RateLimitedError,
)
from freight_exchange.errors.transient import request_count
from freight_exchange.platform import clock
from freight_exchange.testing import Sandbox

TASKS = 1_000
HOUR = 3_600.0

pytestmark = pytest.mark.virtual_time


def logins(sandbox: Sandbox) -> int:
    return len(sandbox.audit_log.calls_to("POST", "login"))


async def crowd(exchange: FreightExchange, size: int = TASKS) -> Counter[str]:
    """Make concurrent reads, and count their outcomes."""
    endings: Counter[str] = Counter()

    async def one() -> None:
        endings[await outcome(exchange, Kind.READ)] += 1

    async with anyio.create_task_group() as tasks:
        for _ in range(size):
            tasks.start_soon(one)
    return endings


@pytest.mark.parametrize(
    ("fault", "ends"),
    [
        (None, "ok"),
        ("login_message_401", "LoginRejectedError"),
        ("login_message_200", "LoginRejectedError"),
        ("login_hung", "DeadlineExceededError"),
        ("login_html", "DecodeError"),
    ],
)
async def test_thousand_tasks_share_one_login(fault: str | None, ends: str) -> None:
    sandbox = stocked(Sandbox())
    if fault is not None:
        arm(sandbox, fault, Kind.LOGIN, times=None)
    async with (
        sandbox.http_client() as http_client,
        patient(sandbox, http_client=http_client, deadline=10) as exchange,
    ):
        assert await crowd(exchange) == {ends: TASKS}
    assert logins(sandbox) == 1


async def test_thousand_tasks_share_one_login_although_the_first_is_cancelled() -> None:
    sandbox = stocked(Sandbox())
    arm(sandbox, "slow", Kind.LOGIN, seconds=5.0)
    leader = anyio.CancelScope()
    async with sandbox.client() as exchange, anyio.create_task_group() as tasks:

        async def lead() -> None:
            with leader:
                await perform(exchange, Kind.READ)

        tasks.start_soon(lead)
        await anyio.sleep(1)
        leader.cancel()
        assert await crowd(exchange, TASKS - 1) == {"ok": TASKS - 1}
    assert leader.cancelled_caught
    assert logins(sandbox) == 1


async def test_a_wave_of_401_over_a_thousand_tasks_makes_one_login() -> None:
    sandbox = stocked(Sandbox())
    async with sandbox.client() as exchange:
        await exchange.login()
        sandbox.exchange.expire_tokens()
        assert await crowd(exchange) == {"ok": TASKS}
    assert logins(sandbox) == 2


async def test_error_after_a_refused_token_counts_the_login_too() -> None:
    sandbox = stocked(Sandbox())
    async with sandbox.client() as exchange:
        await exchange.login()
        arm(sandbox, "unauthorized_once", Kind.READ)
        arm(sandbox, "throttled_huge", Kind.READ, times=None)
        before = len(sandbox.audit_log.calls)
        with pytest.raises(RateLimitedError) as caught:
            await perform(exchange, Kind.READ)
    assert request_count(caught.value) == len(sandbox.audit_log.calls) - before == 3


async def test_401_forever_makes_one_login_more_and_no_storm() -> None:
    sandbox = stocked(Sandbox())
    arm(sandbox, "unauthorized_forever", Kind.READ)
    async with sandbox.client() as exchange:
        assert await crowd(exchange) == {"AuthenticationError": TASKS}
        assert await crowd(exchange, 100) == {"AuthenticationError": 100}
        assert logins(sandbox) == 2
        await anyio.sleep(31)
        with pytest.raises(AuthenticationError):
            await perform(exchange, Kind.READ)
    assert logins(sandbox) == 3


async def test_rejected_credentials_are_not_tried_again_until_asked_to() -> None:
    sandbox = stocked(Sandbox())
    arm(sandbox, "login_message_401", Kind.LOGIN)
    async with sandbox.client() as exchange:
        for kind in (Kind.READ, Kind.WRITE, Kind.LOGIN, Kind.READ):
            with pytest.raises(LoginRejectedError):
                await perform(exchange, kind)
        assert logins(sandbox) == 1
        exchange.reset_login()
        await perform(exchange, Kind.READ)
    assert logins(sandbox) == 2


async def test_a_throttled_login_holds_back_the_logins_of_all_later_calls() -> None:
    sandbox = stocked(Sandbox())
    arm(sandbox, "throttled_seconds", Kind.LOGIN, seconds=300.0)
    async with sandbox.client() as exchange:
        for _ in range(3):
            assert await crowd(exchange) == {"RateLimitedError": TASKS}
            assert await outcome(exchange, Kind.WRITE) == "RateLimitedError"
            await anyio.sleep(90)
        assert logins(sandbox) == 1
        with pytest.raises(RateLimitedError, match="30 s more") as caught:
            await perform(exchange, Kind.READ)
        assert caught.value.retry_after == pytest.approx(30)
        assert (caught.value.path, caught.value.status) == ("login", 429)
        await anyio.sleep(31)
        assert await crowd(exchange) == {"ok": TASKS}
    assert logins(sandbox) == 2


@pytest.mark.parametrize("fault", ["login_message_500", "login_html", "login_redirect", "not_found_page", "redirect"])
async def test_other_replies_to_a_login_do_not_latch(fault: str) -> None:
    sandbox = stocked(Sandbox())
    arm(sandbox, fault, Kind.LOGIN, times=2)
    async with sandbox.client() as exchange:
        for _ in range(2):
            with pytest.raises(FreightExchangeError):
                await perform(exchange, Kind.READ)
            if fault == "login_message_500":
                break
        await perform(exchange, Kind.READ)


async def test_a_caller_leaves_a_hung_login_at_its_own_deadline() -> None:
    sandbox = stocked(Sandbox())
    arm(sandbox, "login_hung", Kind.LOGIN)
    async with sandbox.client() as exchange, anyio.create_task_group() as tasks:
        tasks.start_soon(perform, exchange, Kind.READ)
        started = anyio.current_time()
        for kind in Kind:
            with pytest.raises(DeadlineExceededError):
                await perform(exchange.with_options(deadline=1), kind)
        assert anyio.current_time() - started == pytest.approx(3)
    # The one who stays gets through: the login was given up by the network's timeout, and tried once more.
    assert logins(sandbox) == 2


@pytest.mark.parametrize(
    ("fault", "hours", "expected"),
    [
        # Without a lifetime that makes sense, a token serves until the service refuses it.
        ("login_expires_zero", 2, 1),
        ("login_expires_missing", 2, 1),
        ("login_expires_epoch", 2, 2),
        ("login_expires_string", 2, 2),
        ("login_expires_epoch", 0.5, 1),
        ("login_expires_string", 0.5, 1),
    ],
)
async def test_the_lifetime_that_a_login_gives(fault: str, hours: float, expected: int) -> None:
    sandbox = stocked(Sandbox())
    arm(sandbox, fault, Kind.LOGIN, times=None)
    sandbox.exchange.profile = type(sandbox.exchange.profile)(token_lifetime=100_000)
    async with sandbox.client() as exchange:
        await perform(exchange, Kind.READ)
        await anyio.sleep(hours * HOUR)
        for _ in range(3):
            await perform(exchange, Kind.READ)
    assert logins(sandbox) == expected


@pytest.mark.parametrize(("clock_name", "jump", "refreshes"), [
    ("wall_time", 24 * HOUR, 1),
    ("wall_time", -24 * HOUR, 0),
    ("boot_time", 8 * HOUR, 1),
])  # fmt: skip
async def test_a_clock_that_jumps(
    monkeypatch: pytest.MonkeyPatch, clock_name: str, jump: float, refreshes: int
) -> None:
    """The calendar is set, or the machine sleeps while the loop's clock stands still. No call gets a 401."""
    sandbox = stocked(Sandbox())
    async with sandbox.client() as exchange:
        await perform(exchange, Kind.READ)
        real = getattr(clock, clock_name)
        monkeypatch.setattr(clock, clock_name, lambda: real() + jump)
        assert await crowd(exchange, 50) == {"ok": 50}
        assert await crowd(exchange, 50) == {"ok": 50}
    assert logins(sandbox) == 1 + refreshes
    assert {call.status for call in sandbox.audit_log.calls} == {200}


@pytest.mark.parametrize("days", [-1, 1])
async def test_an_epoch_read_by_a_wall_clock_a_day_off(monkeypatch: pytest.MonkeyPatch, days: int) -> None:
    sandbox = stocked(Sandbox())
    arm(sandbox, "login_expires_epoch", Kind.LOGIN, times=None)
    real = clock.wall_time
    monkeypatch.setattr(clock, "wall_time", lambda: real() + days * 24 * HOUR)
    async with sandbox.client() as exchange:
        assert await crowd(exchange, 50) == {"ok": 50}
        assert await crowd(exchange, 50) == {"ok": 50}
    assert logins(sandbox) == 1


@pytest.mark.parametrize("kind", list(Kind))
async def test_no_credential_follows_a_redirect(kind: Kind) -> None:
    """The caller's HTTP client follows redirects, keeps cookies and authenticates by itself."""
    sandbox = stocked(Sandbox())
    inner = sandbox.transport()
    requests: list[httpx.Request] = []

    class Watching(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            requests.append(request)
            return await inner.handle_async_request(request)

    arm(sandbox, "login_redirect" if kind is Kind.LOGIN else "redirect", kind)
    async with (
        httpx.AsyncClient(transport=Watching(), follow_redirects=True, auth=("someone", "else")) as http_client,
        patient(sandbox, http_client=http_client) as exchange,
    ):
        with pytest.raises(OutcomeUnknownError if kind is Kind.WRITE else APIStatusError):
            await perform(exchange, kind)
    assert sandbox.exchange.faults.fired
    assert {request.url.host for request in requests} == {"127.0.0.1"}
    assert not any("Basic" in request.headers.get("authorization", "") for request in requests)
