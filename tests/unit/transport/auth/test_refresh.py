"""Tests of token refresh by the clock and under cancellation."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from tests.unit.transport.tokens import HOUR, Exchange, crowd

from freight_exchange.errors import (
    FreightExchangeError,
    LoginRejectedError,
    ServerError,
    TransportError,
)
from freight_exchange.hooks import Hooks, Login
from freight_exchange.platform import clock
from freight_exchange.transport.auth.refresh import TokenRefresh
from freight_exchange.transport.auth.token import Grant
from freight_exchange.transport.background import BackgroundTask, BackgroundTasks
from freight_exchange.transport.secrets import Secret

pytestmark = [pytest.mark.virtual_time, pytest.mark.both_backends]


class TestOneLoginForEverybody:
    async def test_thousand_callers_share_one_login(self) -> None:
        exchange = Exchange()
        assert await crowd(exchange.call) == [200] * 1000
        assert exchange.logins == 1
        assert set(exchange.seen) == {"t1"}
        assert exchange.reasons == ["first"]

    @pytest.mark.parametrize("failure", [LoginRejectedError("wrong", status=200), TransportError("timeout")])
    async def test_failure_and_each_gets_its_own_copy(self, failure: FreightExchangeError) -> None:
        exchange = Exchange()
        exchange.failure = failure
        outcomes = await crowd(exchange.call)
        assert exchange.logins == 1
        assert {type(outcome) for outcome in outcomes} == {type(failure)}
        assert len({id(outcome) for outcome in [failure, *outcomes]}) == 1001
        assert {outcome.message for outcome in outcomes} == {failure.message}

    async def test_the_leaders_leaving_does_not_stop_it(self) -> None:
        exchange = Exchange()
        async with anyio.create_task_group() as tasks:
            with anyio.CancelScope() as leader:
                tasks.start_soon(crowd, exchange.call)
                leader.cancel()
                with suppress(TransportError):
                    await exchange.call()
            assert leader.cancelled_caught
        assert exchange.logins == 1
        assert exchange.seen == ["t1"] * 1000

    async def test_login_goes_on_when_all_callers_are_cancelled(self) -> None:
        exchange = Exchange()
        with anyio.move_on_after(0.5):
            await crowd(exchange.call)
        await anyio.sleep(5)
        assert await exchange.call() == 200
        assert exchange.logins == 1

    async def test_thousand_refusals_make_one_login(self) -> None:
        exchange = Exchange()
        await exchange.call()
        exchange.refused.add("t1")
        assert await crowd(exchange.call) == [200] * 1000
        assert exchange.logins == 2
        assert exchange.reasons == ["first", "refused"]

    async def test_closing_ends_it_for_all(self) -> None:
        exchange = Exchange()
        async with anyio.create_task_group() as tasks:

            async def call() -> None:
                with pytest.raises(TransportError, match="closed") as caught:
                    await exchange.call()
                assert caught.value.permanent
                assert caught.value.unsent

            for _ in range(5):
                tasks.start_soon(call)
            await anyio.sleep(0.5)
            exchange.tasks.close(anyio.lowlevel.checkpoint)

    async def test_a_login_that_ends_at_once_is_not_taken_for_one_under_way(self) -> None:
        class Eager(BackgroundTasks):
            def start(self, work: Any, on_end: Any = None, *, log_errors: bool = True) -> BackgroundTask[Any]:
                task = BackgroundTask(work, lambda _: None)
                # What an eager task factory does with work that never waits.
                with pytest.raises(StopIteration):
                    task.run().send(None)
                return task

        exchange = Exchange(tasks=Eager())

        async def log_in(email: str, password: Secret) -> Grant:
            exchange.logins += 1
            raise TransportError("down")

        exchange.token_refresh = TokenRefresh(exchange.tasks, Hooks(), exchange.credentials, log_in)
        for count in (1, 2, 3):
            with pytest.raises(TransportError):
                await exchange.call()
            assert exchange.logins == count


class TestByTheClock:
    async def test_token_serves_until_its_leeway(self) -> None:
        exchange = Exchange()
        await exchange.call()
        await anyio.sleep(HOUR - 300 - 5)
        await exchange.call()
        assert exchange.logins == 1

    async def test_between_leeway_and_expiry_the_old_one_serves_while_one_refresh_runs(self) -> None:
        exchange = Exchange()
        await exchange.call()
        exchange.takes = 20
        await anyio.sleep(HOUR - 30)
        began = anyio.current_time()
        assert await crowd(exchange.call) == [200] * 1000
        assert anyio.current_time() == pytest.approx(began + 0.1)
        assert exchange.logins == 2
        await anyio.sleep(20)
        await exchange.call()
        assert exchange.seen == ["t1"] * 1001 + ["t2"]
        assert exchange.reasons == ["first", "clock"]

    async def test_failed_early_refresh_fails_no_call_and_backs_off(self, caplog: pytest.LogCaptureFixture) -> None:
        exchange = Exchange(lifetime=1000)
        await exchange.call()
        exchange.failure = ServerError("down", status=500)
        await anyio.sleep(950)
        for _ in range(300):
            assert await exchange.call() == 200
        assert set(exchange.seen) == {"t1"}
        assert 2 <= exchange.logins <= 8
        assert {record.levelno for record in caplog.records} == {logging.WARNING}

    async def test_an_expired_one_is_not_used(self) -> None:
        exchange = Exchange()
        await exchange.call()
        await anyio.sleep(HOUR)
        assert await crowd(exchange.call) == [200] * 1000
        assert exchange.seen == ["t1"] + ["t2"] * 1000
        assert exchange.logins == 2

    async def test_tokens_of_seconds_are_refreshed_without_pause(self) -> None:
        exchange = Exchange(lifetime=3)
        began = anyio.current_time()
        while anyio.current_time() < began + 60:
            assert await exchange.call() == 200
            await anyio.sleep(1)
        assert 15 <= exchange.logins <= 40
        assert "refused" not in exchange.reasons

    @pytest.mark.parametrize("lifetime", [None, 0.0, -5.0])
    async def test_token_without_lifetime_serves_until_refused(self, lifetime: float | None) -> None:
        exchange = Exchange(lifetime=lifetime)
        await exchange.call()
        await anyio.sleep(400 * 24 * HOUR)
        await exchange.call()
        assert exchange.logins == 1
        exchange.refused.add("t1")
        assert await exchange.call() == 200
        assert exchange.logins == 2

    @pytest.mark.parametrize("which", ["boot_time", "wall_time"])
    @pytest.mark.parametrize("step", [8 * HOUR, 24 * HOUR])
    async def test_a_clock_that_jumps_ahead_expires_it_once(
        self, which: str, step: float, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        exchange = Exchange()
        await exchange.call()
        real = getattr(clock, which)
        monkeypatch.setattr(clock, which, lambda: real() + step)
        for _ in range(5):
            await exchange.call()
        assert exchange.seen == ["t1"] + ["t2"] * 5

    async def test_a_wall_clock_set_back_changes_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        exchange = Exchange()
        await exchange.call()
        real = clock.wall_time
        monkeypatch.setattr(clock, "wall_time", lambda: real() - 24 * HOUR)
        await exchange.call()
        assert exchange.logins == 1
        await anyio.sleep(HOUR)
        await exchange.call()
        assert exchange.seen[-1] == "t2"


async def test_logins_are_reported() -> None:
    exchange = Exchange()
    await exchange.call()
    exchange.refused.add("t1")
    exchange.failure = TransportError("reset")
    with pytest.raises(TransportError):
        await exchange.call()
    first, failed = exchange.events
    assert isinstance(first, Login)
    assert isinstance(failed, Login)
    assert (first.generation, first.reason, first.error) == (1, "first", None)
    assert first.elapsed == pytest.approx(1, abs=0.1)
    assert (failed.generation, failed.reason, failed.error) == (0, "refused", exchange.failure)
    assert not any("t1" in repr(event) for event in exchange.events)
