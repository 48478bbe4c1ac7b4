"""Tests of the backoff of logins: rejected, held and throttled."""

from __future__ import annotations

import anyio
import pytest
from tests.unit.transport.tokens import HOUR, Exchange, count_credential_reads, crowd

from freight_exchange.errors import (
    APIStatusError,
    AuthenticationError,
    BadRequestError,
    DeadlineExceededError,
    DecodeError,
    FreightExchangeError,
    LoginRejectedError,
    NotFoundError,
    RateLimitedError,
    ServerError,
    TransportError,
)
from freight_exchange.transport.auth.backoff import LoginBackoff
from freight_exchange.transport.secrets import Secret

pytestmark = pytest.mark.virtual_time


class TestLatch:
    async def test_rejected_credentials_are_not_tried_again(self) -> None:
        exchange = Exchange()
        exchange.failure = LoginRejectedError("wrong", status=200)
        for _ in range(10):
            with pytest.raises(LoginRejectedError, match="wrong"):
                await exchange.call()
            await anyio.sleep(HOUR)
        assert exchange.logins == 1

    async def test_reset_allows_one_more(self) -> None:
        exchange = Exchange()
        exchange.failure = LoginRejectedError("wrong", status=200)
        for _ in range(3):
            exchange.token_refresh.reset()
            for _ in range(3):
                with pytest.raises(LoginRejectedError):
                    await exchange.call()
        assert exchange.logins == 3
        exchange.token_refresh.reset()
        exchange.failure = None
        assert await exchange.call() == 200

    @pytest.mark.parametrize("account", [("me@co.example", Secret("new")), ("you@co.example", Secret("right"))])
    async def test_changed_credentials_are_tried(self, account: tuple[str, Secret]) -> None:
        exchange = Exchange()
        exchange.failure = LoginRejectedError("wrong", status=200)
        with pytest.raises(LoginRejectedError):
            await exchange.call()
        exchange.account, exchange.failure = account, None
        assert await exchange.call() == 200
        assert exchange.logins == 2

    @pytest.mark.parametrize("failure", [TransportError("reset"), ServerError("down", status=500)])
    async def test_failures_that_are_no_rejection_do_not_latch(self, failure: FreightExchangeError) -> None:
        exchange = Exchange()
        exchange.failure = failure
        for _ in range(3):
            with pytest.raises(type(failure)):
                await exchange.call()
        assert exchange.logins == 3

    async def test_an_early_refresh_that_is_refused_lets_the_old_token_serve_out(self) -> None:
        exchange = Exchange()
        await exchange.call()
        exchange.failure = rejection(OWN_WORDS)
        await anyio.sleep(HOUR - 30)
        for _ in range(20):
            assert await exchange.call() == 200
            await anyio.sleep(1)
        assert exchange.logins == 2
        await anyio.sleep(10)
        with pytest.raises(AuthenticationError):
            await exchange.call()
        assert exchange.logins == 3

    async def test_a_secret_manager_is_not_asked_by_every_call(self, monkeypatch: pytest.MonkeyPatch) -> None:
        exchange = Exchange()
        exchange.failure = LoginRejectedError("wrong", status=200)
        readings = count_credential_reads(exchange, monkeypatch)
        for _ in range(1000):
            with pytest.raises(LoginRejectedError):
                await exchange.call()
        assert len(readings) == 1 + 10
        await anyio.sleep(5)
        for _ in range(1000):
            with pytest.raises(LoginRejectedError):
                await exchange.call()
        assert len(readings) == 1 + 10 + 1
        assert exchange.logins == 1

    @pytest.mark.parametrize(("calls", "pause"), [(0, 0), (9, 0), (100, 5)])
    async def test_a_rotated_secret_is_found(self, calls: int, pause: float) -> None:
        exchange = Exchange()
        exchange.failure = LoginRejectedError("wrong", status=200)
        for _ in range(1 + calls):
            with pytest.raises(LoginRejectedError):
                await exchange.call()
        exchange.account, exchange.failure = ("me@co.example", Secret("new")), None
        await anyio.sleep(pause)
        assert await exchange.call() == 200

    async def test_a_new_secret_that_meets_an_outage_gets_no_error_of_the_old_one(self) -> None:
        exchange = Exchange()
        exchange.failure = LoginRejectedError("wrong", status=200)
        for _ in range(100):
            with pytest.raises(LoginRejectedError):
                await exchange.call()
        exchange.account, exchange.failure = ("me@co.example", Secret("new")), TransportError("down")
        await anyio.sleep(5)
        for _ in range(10):
            with pytest.raises(TransportError):
                await exchange.call()

    async def test_a_secret_manager_that_hangs_holds_up_ten_calls_and_not_all(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        exchange = Exchange()
        exchange.failure = LoginRejectedError("wrong", status=200)
        with pytest.raises(LoginRejectedError):
            await exchange.call()
        monkeypatch.setattr(exchange.token_refresh, "_credentials", anyio.sleep_forever)
        for _ in range(10):
            with pytest.raises(DeadlineExceededError):
                await exchange.call()
        began = anyio.current_time()
        for _ in range(1000):
            with pytest.raises(LoginRejectedError):
                await exchange.call()
        assert anyio.current_time() == pytest.approx(began)


OWN_WORDS = "The user name or password is invalid."
GATEWAYS = "Forbidden"


def rejection(message: str) -> LoginRejectedError:
    return LoginRejectedError(f"rejected: {message}", status=403, body={"message": message})


class TestHold:
    """The account has logged in before."""

    async def expired(self) -> Exchange:
        exchange = Exchange()
        await exchange.call()
        await anyio.sleep(HOUR)
        return exchange

    async def held(self, exchange: Exchange) -> AuthenticationError:
        with pytest.raises(AuthenticationError) as caught:
            await exchange.call()
        assert type(caught.value) is AuthenticationError
        assert caught.value.settled
        return caught.value

    @pytest.mark.parametrize("message", [GATEWAYS, OWN_WORDS])
    async def test_first_refusal_holds_logins_for_thirty_seconds(self, message: str) -> None:
        exchange = await self.expired()
        exchange.failure = rejection(message)
        first = await self.held(exchange)
        assert first.retry_after == pytest.approx(30)
        assert message.rstrip(".") in first.message
        exchange.failure = None
        await anyio.sleep(20)
        errors = await crowd(exchange.call)
        assert {type(error) for error in errors} == {AuthenticationError}
        assert {round(error.retry_after) for error in errors} == {10}
        assert exchange.logins == 2
        await anyio.sleep(10)
        assert await exchange.call() == 200
        assert exchange.logins == 3

    @pytest.mark.parametrize(
        "failure",
        [
            rejection(GATEWAYS),
            AuthenticationError("the login was refused", status=401),
            BadRequestError("the service found the request wrong", status=400, path="login"),
            NotFoundError("the service has nothing there", status=404, path="login"),
            APIStatusError("the service redirects", status=302, path="login"),
            DecodeError("the body is not JSON", status=200, request_path="login"),
        ],
        ids=lambda failure: f"{type(failure).__name__}-{failure.status}",
    )
    async def test_a_gateways_refusals_are_never_for_good_and_their_pauses_grow(
        self, failure: FreightExchangeError
    ) -> None:
        exchange = await self.expired()
        exchange.failure = failure
        pauses = []
        for _ in range(20):
            error = await self.held(exchange)
            assert error.retry_after is not None
            assert (error.path, error.status) == ("login", failure.status)
            assert failure.message in error.message
            pauses.append(round(error.retry_after))
            await anyio.sleep(error.retry_after)
        assert pauses == [30, 60, 120, 240, 480] + [600] * 15
        assert exchange.logins == 21
        exchange.failure = None
        assert await exchange.call() == 200

    async def test_held_error_names_the_field_that_a_reply_lacks(self) -> None:
        exchange = await self.expired()
        exchange.failure = DecodeError("missing from the login reply", path="user", status=200, request_path="login")
        assert "missing from the login reply at user; this account" in (await self.held(exchange)).message

    async def test_three_in_a_row_in_the_services_own_words_are_for_good(self) -> None:
        exchange = await self.expired()
        exchange.failure = rejection(OWN_WORDS)
        for pause in (30, 60):
            assert (await self.held(exchange)).retry_after == pytest.approx(pause)
            await anyio.sleep(pause)
        for _ in range(10):
            with pytest.raises(LoginRejectedError):
                await exchange.call()
            await anyio.sleep(HOUR)
        assert exchange.logins == 4
        exchange.failure = None
        exchange.token_refresh.reset()
        assert await exchange.call() == 200

    async def test_after_that_a_reset_allows_one_login(self) -> None:
        exchange = await self.expired()
        exchange.failure = rejection(OWN_WORDS)
        for pause in (30, 60):
            await self.held(exchange)
            await anyio.sleep(pause)
        for logins in (4, 5, 6):
            for _ in range(3):
                with pytest.raises(LoginRejectedError):
                    await exchange.call()
            assert exchange.logins == logins
            exchange.token_refresh.reset()

    async def test_refusal_in_other_words_resets_the_count(self) -> None:
        exchange = await self.expired()
        for message in [OWN_WORDS, OWN_WORDS, GATEWAYS] * 4:
            exchange.failure = rejection(message)
            error = await self.held(exchange)
            assert error.retry_after is not None
            await anyio.sleep(error.retry_after)

    async def test_changed_credentials_are_tried_at_once(self) -> None:
        exchange = await self.expired()
        exchange.failure = rejection(GATEWAYS)
        await self.held(exchange)
        exchange.account, exchange.failure = ("me@co.example", Secret("new")), None
        assert await exchange.call() == 200

    async def test_reset_ends_it(self) -> None:
        exchange = await self.expired()
        exchange.failure = rejection(GATEWAYS)
        await self.held(exchange)
        exchange.failure = None
        exchange.token_refresh.reset()
        assert await exchange.call() == 200

    async def test_an_outage_in_between_changes_nothing(self) -> None:
        exchange = await self.expired()
        exchange.failure = rejection(OWN_WORDS)
        await self.held(exchange)
        await anyio.sleep(30)
        exchange.failure = TransportError("down")
        with pytest.raises(TransportError):
            await exchange.call()
        exchange.failure = rejection(OWN_WORDS)
        assert (await self.held(exchange)).retry_after == pytest.approx(60)

    async def test_a_login_that_succeeds_begins_anew(self) -> None:
        exchange = await self.expired()
        for _ in range(5):
            exchange.failure = rejection(OWN_WORDS)
            assert (await self.held(exchange)).retry_after == pytest.approx(30)
            exchange.failure = None
            await anyio.sleep(30)
            assert await exchange.call() == 200
            await anyio.sleep(HOUR)

    @pytest.mark.parametrize(
        "failure",
        [
            ServerError("down", status=503, path="login"),
            RateLimitedError("slow down", status=429, path="login"),
            TransportError("reset", path="login"),
            DecodeError("a middleware gave up"),
        ],
        ids=lambda failure: type(failure).__name__,
    )
    async def test_an_outage_holds_nothing(self, failure: FreightExchangeError) -> None:
        exchange = await self.expired()
        exchange.failure = failure
        for _ in range(3):
            with pytest.raises(type(failure)):
                await exchange.call()
        exchange.failure = None
        assert await exchange.call() == 200

    async def test_login_of_another_process_proves_the_account(self) -> None:
        backoff = LoginBackoff()
        credentials = ("me@co.example", Secret("right"))
        backoff.login_adopted("me@co.example")
        assert type(backoff.login_failed(credentials, rejection(GATEWAYS))) is AuthenticationError


class TestThrottledLogin:
    async def test_a_retry_after_holds_back_every_later_login(self, monkeypatch: pytest.MonkeyPatch) -> None:
        exchange = Exchange()
        exchange.failure = RateLimitedError("slow down", status=429, retry_after=90)
        readings = count_credential_reads(exchange, monkeypatch)
        with pytest.raises(RateLimitedError, match="slow down"):
            await exchange.call()
        await anyio.sleep(30)
        outcomes = await crowd(exchange.call)
        assert {type(outcome) for outcome in outcomes} == {RateLimitedError}
        assert {round(outcome.retry_after) for outcome in outcomes} == {60}
        assert {outcome.status for outcome in outcomes} == {429}
        assert all(outcome.settled for outcome in outcomes)
        assert (exchange.logins, len(readings)) == (1, 1)
        exchange.failure = None
        await anyio.sleep(60)
        assert await exchange.call() == 200
        assert exchange.logins == 2

    async def test_throttled_login_without_retry_after_holds_nothing(self) -> None:
        exchange = Exchange()
        exchange.failure = RateLimitedError("slow down", status=429)
        with pytest.raises(RateLimitedError):
            await exchange.call()
        exchange.failure = None
        assert await exchange.call() == 200

    async def test_retry_after_of_years_holds_logins_for_an_hour(self) -> None:
        exchange = Exchange()
        exchange.failure = RateLimitedError("slow down", status=429, retry_after=1e9)
        with pytest.raises(RateLimitedError):
            await exchange.call()
        exchange.failure = None
        await anyio.sleep(HOUR)
        assert await exchange.call() == 200

    async def test_an_early_refresh_waits_as_well_and_the_old_token_serves(self) -> None:
        exchange = Exchange()
        await exchange.call()
        exchange.failure = RateLimitedError("slow down", status=429, retry_after=100)
        await anyio.sleep(HOUR - 200)
        for _ in range(50):
            assert await exchange.call() == 200
            await anyio.sleep(1)
        assert exchange.logins == 2

    async def test_a_login_that_succeeds_ends_it(self) -> None:
        exchange = Exchange(lifetime=10)
        exchange.failure = RateLimitedError("slow down", status=429, retry_after=20)
        with pytest.raises(RateLimitedError):
            await exchange.call()
        exchange.failure = None
        await anyio.sleep(20)
        for _ in range(3):
            assert await exchange.call() == 200
            await anyio.sleep(10)
