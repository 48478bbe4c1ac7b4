"""Tests of the login that all calls share: single flight, renewal, refusals, pauses and credentials."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import anyio
import httpx
import pytest
from tests.calls.support import (
    EMAIL,
    FOUND,
    LOGGED_IN,
    URL,
    Kind,
    arm,
    client,
    logins,
    outcome,
    perform,
    reply,
    scripted,
    stocked,
    stranger,
)

from freight_exchange import (
    APIStatusError,
    AuthenticationError,
    BadRequestError,
    DeadlineExceededError,
    DecodeError,
    FreightExchange,
    FreightExchangeError,
    LoginRejectedError,
    NotFoundError,
    RateLimitedError,
    ServerError,
    TransportError,
)
from freight_exchange.hooks import Event, Login
from freight_exchange.testing import Profile, Sandbox

pytestmark = pytest.mark.virtual_time

TASKS = 200
HOUR = 3_600.0
WRONG = {"message": "The user name or password is invalid."}
FORBIDDEN = {"message": "Forbidden"}
DENIED = {"Unauthorized": "access denied"}


async def crowd(exchange: FreightExchange, size: int = TASKS) -> Counter[str]:
    """Make reads at the same time, and count their outcomes."""
    endings: Counter[str] = Counter()

    async def one() -> None:
        endings[await outcome(exchange, Kind.READ)] += 1

    async with anyio.create_task_group() as tasks:
        for _ in range(size):
            tasks.start_soon(one)
    return endings


# Single flight


@pytest.mark.both_backends
@pytest.mark.parametrize(
    ("fault", "ends", "most"),
    [
        (None, "ok", 1), ("login_message_401", "LoginRejectedError", 1), ("login_message_200", "LoginRejectedError", 1),
        ("login_hung", "DeadlineExceededError", 2), ("login_html", "DecodeError", 1),
        ("unavailable_forever", "ServerError", 2), ("reset_after_send", "TransportError", 2),
        ("throttled_huge", "RateLimitedError", 1),
    ],
)  # fmt: skip
async def test_crowd_shares_one_login(fault: str | None, ends: str, most: int) -> None:
    """An outage has its one retry."""
    sandbox = stocked()
    if fault is not None:
        arm(sandbox, fault, Kind.LOGIN, times=None)
    async with client(sandbox, deadline=10) as exchange:
        assert await crowd(exchange) == {ends: TASKS}
    assert 1 <= logins(sandbox) <= most


async def test_each_caller_gets_an_error_of_its_own() -> None:
    caught: list[FreightExchangeError] = []
    with scripted(reply(200, FOUND), login=reply(401, WRONG)):
        async with stranger() as exchange, anyio.create_task_group() as tasks:

            async def call() -> None:
                with pytest.raises(LoginRejectedError, match="password is invalid") as error:
                    await perform(exchange, Kind.READ)
                caught.append(error.value)

            for _ in range(100):
                tasks.start_soon(call)
    assert len({id(error) for error in caught}) == 100


@pytest.mark.both_backends
async def test_login_goes_on_for_the_others_if_the_first_caller_leaves() -> None:
    sandbox = stocked()
    arm(sandbox, "slow", Kind.LOGIN, seconds=5.0)
    leader = anyio.CancelScope()
    async with client(sandbox) as exchange, anyio.create_task_group() as tasks:

        async def lead() -> None:
            with leader:
                await perform(exchange, Kind.READ)

        tasks.start_soon(lead)
        await anyio.sleep(1)
        leader.cancel()
        assert await crowd(exchange, TASKS - 1) == {"ok": TASKS - 1}
    assert leader.cancelled_caught
    assert logins(sandbox) <= 2


@pytest.mark.both_backends
async def test_wave_of_refused_tokens_makes_one_login() -> None:
    sandbox = stocked()
    async with client(sandbox) as exchange:
        await exchange.login()
        sandbox.exchange.expire_tokens()
        assert await crowd(exchange) == {"ok": TASKS}
    assert logins(sandbox) == 2


# Refused tokens


async def test_repeated_refusals_make_one_login_more_and_no_storm() -> None:
    sandbox = stocked()
    arm(sandbox, "unauthorized_forever", Kind.READ)
    async with client(sandbox) as exchange:
        assert await crowd(exchange) == {"AuthenticationError": TASKS}
        assert await crowd(exchange, 100) == {"AuthenticationError": 100}
        assert logins(sandbox) == 2
        await anyio.sleep(31)
        with pytest.raises(AuthenticationError):
            await perform(exchange, Kind.READ)
    assert logins(sandbox) == 3


@pytest.mark.parametrize("status", [200, 400, 401, 403, 404, 422, 499])
async def test_key_unauthorized_refuses_the_token_at_200_and_any_4xx(status: int) -> None:
    with scripted(reply(status, DENIED), reply(200, FOUND)) as service:
        async with stranger() as exchange:
            assert await outcome(exchange, Kind.READ) == "ok"
    assert (len(service.logins), len(service.requests)) == (2, 2)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, DENIED), (302, DENIED),
        (200, {"raterequests": {"0": {"index": 2, "commodityname": "Unauthorized copies"}}}),
        (403, {"message": "Unauthorized"}), (403, ["Unauthorized"]), (403, b"Unauthorized"),
        (403, b'{"Unauthorized": '),
        (200, {"Unauthorized": "x", "raterequests": {str(n): {"index": n + 2} for n in range(1000)}}),
    ],
    ids=["500", "302", "name", "sentence", "list", "text", "half", "beside rows"],
)  # fmt: skip
async def test_nothing_else_refuses_the_token(status: int, body: object) -> None:
    with scripted(reply(status, body)) as service:
        async with stranger() as exchange:
            await outcome(exchange, Kind.READ)
    assert len(service.logins) == 1


async def test_two_clients_that_end_each_others_sessions_are_pointed_to_the_token_store() -> None:
    sandbox = stocked(Sandbox(Profile(tokens="latest")))
    errors = []
    async with client(sandbox) as one, client(sandbox) as other:
        for _ in range(20):
            for exchange in (one, other):
                await anyio.sleep(1)
                try:
                    await perform(exchange, Kind.READ)
                except AuthenticationError as error:
                    errors.append(str(error))
    assert errors
    assert all("token_store" in text for text in errors)


# Renewal by the clock

IN_AN_HOUR = "a time in an hour"


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ({"expires_on": 3600}, 3600), ({"expires_in": 3600}, 3600), ({"expires_on": "3600"}, 3600),
        ({"expires_on": IN_AN_HOUR}, 3600), ({"expires_on": 0}, None), ({"expires_on": "3600.0"}, 3600),
        ({"expires_on": -5}, None), ({"expires_on": "soon"}, None), ({"expires_on": None}, None),
        ({"expires_on": []}, None), ({}, None),
    ],
)  # fmt: skip
async def test_forms_of_the_lifetime(given: dict[str, object], seconds: int | None) -> None:
    if given.get("expires_on") == IN_AN_HOUR:
        # By the clock of the test, which may run long after its collection.
        given = {"expires_on": int(time.time()) + 3600}
    # Claims that would expire the token at once, if anyone read them.
    user = {"access_token": "eyJhbGciOiJub25lIn0.eyJleHAiOjF9.", "email": EMAIL, **given}
    with scripted(reply(200, FOUND), login=reply(200, {"user": user})) as service:
        async with stranger() as exchange:
            await perform(exchange, Kind.READ)
            await anyio.sleep(0.8 * (seconds or HOUR))
            await perform(exchange, Kind.READ)
            assert len(service.logins) == 1
            await anyio.sleep(0.3 * (seconds or 100 * HOUR))
            await perform(exchange, Kind.READ)
    assert len(service.logins) == (1 if seconds is None else 2)


async def test_token_is_renewed_before_it_expires_while_the_old_one_serves() -> None:
    sandbox = stocked()
    async with client(sandbox) as exchange:
        await perform(exchange, Kind.READ)
        arm(sandbox, "slow", Kind.LOGIN, seconds=20.0)
        await anyio.sleep(HOUR - 30)
        began = anyio.current_time()
        results = await crowd(exchange, 100)
        assert results == {"ok": 100}
        await anyio.sleep(25)
        assert await outcome(exchange, Kind.READ) == "ok"
        assert anyio.current_time() - began < 60
    assert logins(sandbox) == 2
    assert {call.status for call in sandbox.audit_log.calls} == {200}, "no token expired on the way"


async def test_renewal_that_fails_fails_no_call_while_the_old_token_serves() -> None:
    sandbox = stocked()
    async with client(sandbox) as exchange:
        await perform(exchange, Kind.READ)
        arm(sandbox, "unavailable_forever", Kind.LOGIN)
        await anyio.sleep(HOUR - 120)
        for _ in range(100):
            assert await outcome(exchange, Kind.READ) == "ok"
            await anyio.sleep(1)
        assert 1 < logins(sandbox) <= 60
        sandbox.exchange.faults.clear()
        await anyio.sleep(60)
        assert await outcome(exchange, Kind.READ) == "ok"


# Rejected credentials


@pytest.mark.parametrize("status", [200, 400, 401, 403, 422])
@pytest.mark.parametrize("body", [WRONG, DENIED, {"message": "no", "user": {"access_token": ""}}], ids=str)
async def test_rejected_credentials_are_not_tried_again_until_asked_to(status: int, body: object) -> None:
    with scripted(reply(200, FOUND), login=reply(status, body)) as service:
        async with stranger() as exchange:
            for kind in (Kind.READ, Kind.WRITE, Kind.LOGIN, Kind.READ):
                with pytest.raises(LoginRejectedError, match=r"credentials change.*reset_login\(\)") as caught:
                    await perform(exchange, kind)
                assert caught.value.status == status
                await anyio.sleep(HOUR)
            assert len(service.logins) == 1
            service.logged_in = reply(200, LOGGED_IN)
            exchange.reset_login()
            assert await outcome(exchange, Kind.READ) == "ok"
    assert len(service.logins) == 2


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (reply(500, WRONG), ServerError), (reply(503, WRONG), ServerError), (reply(404, WRONG), NotFoundError),
        (reply(413, WRONG), BadRequestError), (reply(409, WRONG), APIStatusError), (reply(307, WRONG), APIStatusError),
        (reply(429, WRONG), RateLimitedError), (reply(200, b"<html>Sign in</html>"), DecodeError),
        (reply(200, b""), DecodeError), (reply(200, [1, 2, 3]), DecodeError),
        (reply(200, {"status": "ok"}), DecodeError), (reply(400, {}), BadRequestError),
        (reply(403, b"<html>"), APIStatusError), (httpx.ReadError("cut"), TransportError),
        (httpx.ReadTimeout("silence"), TransportError),
    ],
    ids=str,
)  # fmt: skip
async def test_no_other_reply_to_a_login_latches(answer: Any, error: type[FreightExchangeError]) -> None:
    with scripted(reply(200, FOUND), login=answer) as service:
        async with stranger() as exchange:
            for _ in range(2):
                with pytest.raises(error) as caught:
                    await perform(exchange, Kind.READ)
                assert not isinstance(caught.value, LoginRejectedError)
            assert len(service.logins) >= 2
            service.logged_in = reply(200, LOGGED_IN)
            assert await outcome(exchange, Kind.READ) == "ok"


async def test_account_that_was_rejected_during_a_run_causes_no_storm_and_comes_back() -> None:
    """It has logged in before, so a refusal may be a gateway's. In any case no password is tried often."""
    with scripted(reply(200, FOUND)) as service:
        async with stranger() as exchange:
            await perform(exchange, Kind.READ)
            await anyio.sleep(HOUR)
            service.logged_in = reply(403, WRONG)
            for _ in range(360):
                with pytest.raises(AuthenticationError):
                    await perform(exchange, Kind.READ)
                await anyio.sleep(10)
            assert 2 <= len(service.logins) <= 1 + 12
            service.logged_in = reply(200, LOGGED_IN)
            exchange.reset_login()
            assert await outcome(exchange, Kind.READ) == "ok"


@pytest.mark.parametrize(
    "answer",
    [reply(403, FORBIDDEN), reply(401), reply(400), reply(404), reply(302), reply(200, b"<html>")],
    ids=lambda answer: str(answer.status_code),
)
async def test_replies_of_a_gateway_hold_logins_back_and_are_never_for_good(answer: httpx.Response) -> None:
    with scripted(reply(200, FOUND)) as service:
        async with stranger() as exchange:
            await perform(exchange, Kind.READ)
            await anyio.sleep(HOUR)
            service.logged_in = answer
            for _ in range(360):
                with pytest.raises(FreightExchangeError) as caught:
                    await perform(exchange, Kind.READ)
                error = caught.value
                assert isinstance(error, AuthenticationError)
                assert not isinstance(error, LoginRejectedError)
                assert 0 < (error.retry_after or 0) <= 600
                await anyio.sleep(10)
            assert 5 <= len(service.logins) <= 1 + 12
            service.logged_in = reply(200, LOGGED_IN)
            await anyio.sleep(600)
            assert await outcome(exchange, Kind.READ) == "ok"


async def test_refused_login_ends_a_feed_also_if_the_reply_asks_for_another_try() -> None:
    refusal = httpx.Response(401, text="no", headers={"Retry-After": "1"})
    with scripted(reply(200, FOUND), login=refusal) as service:
        async with stranger() as exchange:
            with pytest.raises(AuthenticationError), anyio.fail_after(HOUR):
                async with exchange.watch():
                    pass
        assert len(service.logins) <= 3


async def test_throttled_login_holds_back_the_logins_of_all_later_calls() -> None:
    sandbox = stocked()
    arm(sandbox, "throttled_seconds", Kind.LOGIN, seconds=300.0)
    async with client(sandbox) as exchange:
        for _ in range(3):
            assert await crowd(exchange, 100) == {"RateLimitedError": 100}
            assert await outcome(exchange, Kind.WRITE) == "RateLimitedError"
            await anyio.sleep(90)
        assert logins(sandbox) == 1
        with pytest.raises(RateLimitedError) as caught:
            await perform(exchange, Kind.READ)
        assert caught.value.retry_after == pytest.approx(30, abs=2)
        assert (caught.value.path, caught.value.status) == ("login", 429)
        await anyio.sleep(32)
        assert await crowd(exchange, 100) == {"ok": 100}
    assert logins(sandbox) == 2


# Credentials of a callable


def of_provider(provide: Any, **options: Any) -> FreightExchange:
    return FreightExchange(URL, credentials=provide, **options)


async def test_changed_credentials_are_tried_after_a_rejection() -> None:
    """A secret manager is asked by later calls, but not by each of thousands."""
    password, asked = "old-password", 0

    async def provide() -> tuple[str, str]:
        nonlocal asked
        asked += 1
        return EMAIL, password

    def log_in(request: httpx.Request) -> httpx.Response:
        return reply(200, LOGGED_IN) if b"new-password" in request.content else reply(401, WRONG)

    with scripted(reply(200, FOUND), login=log_in) as service:
        async with of_provider(provide) as exchange:
            for _ in range(300):
                with pytest.raises(LoginRejectedError):
                    await perform(exchange, Kind.READ)
            assert len(service.logins) == 1
            assert asked <= 20
            password = "new-password"
            await anyio.sleep(10)
            assert await outcome(exchange, Kind.READ) == "ok"
    assert len(service.logins) == 2


async def test_provider_that_hangs_ends_at_the_deadline() -> None:
    async def provide() -> tuple[str, str]:
        await anyio.sleep_forever()
        raise AssertionError

    with scripted(reply(200, FOUND)) as service:
        async with of_provider(provide, deadline=5) as exchange:
            began = anyio.current_time()
            with pytest.raises(DeadlineExceededError):
                await perform(exchange, Kind.READ)
            assert anyio.current_time() - began == pytest.approx(5)
    assert not service.logins


# Records


async def test_logins_are_reported_with_their_reason() -> None:
    seen: list[Event] = []
    with scripted(reply(200, FOUND)) as service:
        async with stranger(hooks=[seen.append]) as exchange:
            await perform(exchange, Kind.READ)
            await anyio.sleep(2 * HOUR)
            await perform(exchange, Kind.READ)
            service.answers = [reply(401, DENIED)]
            service.logged_in = httpx.ReadError("cut")
            with pytest.raises(TransportError):
                await perform(exchange, Kind.READ)
    records = [event for event in seen if isinstance(event, Login)]
    assert [(it.generation, it.reason) for it in records] == [(1, "first"), (2, "clock"), (0, "refused")]
    assert [type(it.error) for it in records] == [type(None), type(None), TransportError]
