"""Tests of token refresh after refusals, and of credentials providers."""

from __future__ import annotations

import anyio
import pytest
from tests.unit.transport.tokens import Exchange, crowd, request

from freight_exchange.errors import (
    DeadlineExceededError,
    LoginRejectedError,
    TransportError,
)
from freight_exchange.transport.message import Request, RequestKind, Response
from freight_exchange.transport.secrets import Secret

pytestmark = pytest.mark.virtual_time


class TestRefusals:
    async def test_refusal_causes_one_login_and_one_replay(self) -> None:
        exchange = Exchange()
        await exchange.call()
        exchange.refused.add("t1")
        assert await exchange.call() == 200
        assert exchange.seen == ["t1", "t1", "t2"]

    async def test_a_newer_token_replays_without_a_login(self) -> None:
        exchange = Exchange()
        await exchange.call()
        exchange.refused.add("t1")
        late: list[int] = []

        async def slow(request: Request) -> Response:
            if request.token == Secret("t1"):
                await anyio.sleep(10)
            return await exchange.send(request)

        async def call() -> None:
            late.append((await exchange.token_refresh(request(), slow)).status)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await anyio.sleep(1)
            assert await exchange.call() == 200
        assert late == [200]
        assert exchange.logins == 2

    async def test_a_second_refusal_is_the_answer_and_ends_the_logins_for_a_while(self) -> None:
        exchange = Exchange()
        exchange.refused.update(f"t{number}" for number in range(1, 100))
        assert await exchange.call() == 401
        assert exchange.logins == 2
        assert set(await crowd(exchange.call)) == {401}
        assert exchange.logins == 2
        await anyio.sleep(30)
        exchange.refused.clear()
        exchange.refused.add("t2")
        assert await exchange.call() == 200
        assert exchange.logins == 3

    async def test_a_token_of_the_clock_is_not_held_back(self) -> None:
        exchange = Exchange(lifetime=10)
        await exchange.call()
        await anyio.sleep(10)
        exchange.refused.add("t2")
        assert await exchange.call() == 200
        assert exchange.seen == ["t1", "t2", "t3"]

    async def test_the_login_that_fails_is_the_answer(self) -> None:
        exchange = Exchange()
        await exchange.call()
        exchange.refused.add("t1")
        exchange.failure = TransportError("reset")
        with pytest.raises(TransportError) as caught:
            await exchange.call()
        assert caught.value.token_refused

    async def test_login_that_fails_before_a_call_reports_that_no_token_was_refused(self) -> None:
        exchange = Exchange()
        exchange.failure = TransportError("reset")
        with pytest.raises(TransportError) as caught:
            await exchange.call()
        assert not caught.value.token_refused

    @pytest.mark.parametrize("is_refused", [False, True])
    async def test_deadline_that_passes_during_a_login_reports_it(self, *, is_refused: bool) -> None:
        exchange = Exchange()
        if is_refused:
            await exchange.call()
            exchange.refused.add("t1")
        exchange.takes = 100
        late = request()
        with anyio.move_on_after(10):
            await exchange.token_refresh(late, exchange.send)
        assert late.progress.waits_for_login
        await anyio.sleep(100)
        done = request()
        await exchange.token_refresh(done, exchange.send)
        assert not done.progress.waits_for_login

    async def test_while_a_refused_write_waits_for_the_login_it_has_not_happened(self) -> None:
        exchange = Exchange()
        await exchange.call()
        exchange.refused.add("t1")
        exchange.takes = 100
        write = request(RequestKind.WRITE)
        with anyio.move_on_after(10):
            await exchange.token_refresh(write, exchange.send)
        assert not write.progress.may_have_begun

    async def test_refused_write_is_not_replayed_and_the_next_call_has_a_new_token(self) -> None:
        exchange = Exchange()
        await exchange.call()
        exchange.refused.add("t1")
        assert await exchange.call(kind=RequestKind.WRITE, replayable=False) == 401
        assert exchange.seen == ["t1", "t1"]
        await anyio.sleep(2)
        assert await exchange.call(kind=RequestKind.WRITE, replayable=False) == 200
        assert exchange.logins == 2

    async def test_refused_writes_do_not_log_in_repeatedly(self) -> None:
        exchange = Exchange()
        exchange.refused.update(f"t{number}" for number in range(1, 100))
        for _ in range(10):
            assert await exchange.call(kind=RequestKind.WRITE, replayable=False) == 401
            await anyio.sleep(2)
        assert exchange.logins == 2


class TestCredentials:
    async def test_a_latched_rejection_is_reported_once(self) -> None:
        exchange = Exchange()
        exchange.failure = LoginRejectedError("wrong", status=200)
        for _ in range(3):
            with pytest.raises(LoginRejectedError):
                await exchange.call()
        assert exchange.logins == 1
        assert exchange.reasons == ["first"]

    async def test_a_provider_that_hangs_is_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        exchange = Exchange()

        async def hang() -> tuple[str, Secret]:
            await anyio.sleep_forever()
            raise AssertionError

        monkeypatch.setattr(exchange.token_refresh, "_credentials", hang)
        started = anyio.current_time()
        with pytest.raises(DeadlineExceededError, match="credentials did not come"):
            await exchange.call()
        assert anyio.current_time() - started == pytest.approx(60)
        assert exchange.logins == 0

    async def test_a_provider_with_a_bug_is_asked_once_per_pause_while_the_old_token_serves(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        exchange = Exchange(lifetime=1000)
        await exchange.call()
        readings = 0

        async def stumble() -> tuple[str, Secret]:
            nonlocal readings
            readings += 1
            raise KeyError("vault")

        monkeypatch.setattr(exchange.token_refresh, "_credentials", stumble)
        await anyio.sleep(950)
        for _ in range(20):
            assert await exchange.call() == 200
        assert readings == 1
        await anyio.sleep(5)
        assert await exchange.call() == 200
        await anyio.sleep(1)
        assert readings == 2
