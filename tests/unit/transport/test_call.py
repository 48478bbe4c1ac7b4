"""Tests of a call: attempts, waits, budget and error messages."""

from __future__ import annotations

import anyio
import pytest
from tests.unit.transport.bench import (
    CANARY,
    LOGIN,
    READ,
    WRITE,
    Bench,
    executor,
    fails,
    replies,
    unreadable,
)

from freight_exchange.errors import (
    BadRequestError,
    DecodeError,
    LoginRejectedError,
    OutcomeUnknownError,
    RateLimitedError,
    ServerError,
    TransportError,
)
from freight_exchange.hooks import Event, Retry
from freight_exchange.options import RetryPolicy, Timeouts
from freight_exchange.transport.call import Limits
from freight_exchange.transport.message import Request, RequestKind, Response
from freight_exchange.transport.middleware.retry import RetryBudget

pytestmark = [pytest.mark.virtual_time, pytest.mark.both_backends]


class TestAttempts:
    async def test_successful_call_takes_one_attempt(self) -> None:
        bench = Bench(replies(200))
        assert await bench.call() == 200
        assert len(bench.requests) == 1
        assert bench.events == []

    @pytest.mark.parametrize("kind", [READ, LOGIN])
    async def test_a_broken_connection_is_tried_again(self, kind: RequestKind) -> None:
        bench = Bench(fails(TransportError("reset")), replies(200))
        assert await bench.call(kind) == 200
        assert [request.attempt for request in bench.requests] == [1, 2]

    async def test_reads_get_three_attempts_and_logins_two(self) -> None:
        for kind, attempts in ((READ, 3), (LOGIN, 2), (WRITE, 1)):
            bench = Bench(fails(TransportError("reset")))
            error = await bench.failure(kind)
            assert len(bench.requests) == error.attempts == attempts

    async def test_unsent_request_of_every_kind_is_repeated(self) -> None:
        for kind in RequestKind:
            bench = Bench(fails(TransportError("refused", unsent=True)))
            error = await bench.failure(kind)
            assert isinstance(error, TransportError)
            assert len(bench.requests) == 3

    async def test_different_causes_share_the_one_more_attempt(self) -> None:
        bench = Bench(replies(429, Retry_After="1"), replies(500), replies(200))
        assert isinstance(await bench.failure(LOGIN), ServerError)
        assert len(bench.requests) == 2

    async def test_delays_are_waited(self) -> None:
        began = anyio.current_time()
        bench = Bench(fails(TransportError("reset")), replies(429, Retry_After="7"), replies(200))
        await bench.call()
        assert anyio.current_time() - began == pytest.approx(0.1 + 0.05 + 0.1 + 7.7 + 0.1)

    async def test_concurrent_calls_do_not_mix(self) -> None:
        async def send(request: Request) -> Response:
            request.progress.record_send()
            await anyio.sleep(0.1)
            if request.attempt < int(request.path):
                raise TransportError(f"reset {request.path}")
            return Response(status=200, content=request.path.encode())

        caller = executor(send, RetryBudget(10_000))
        limits = Limits(deadline=60, timeouts=Timeouts(), retries=RetryPolicy(attempts=4))
        outcomes: dict[int, str] = {}

        async def call(number: int) -> None:
            try:
                path = str(number % 6 + 1)
                content = await caller.call(READ, "GET", path, lambda response: response.content, limits)
                outcomes[number] = content.decode()
            except TransportError as error:
                outcomes[number] = f"{error.message}, {error.attempts}"

        async with anyio.create_task_group() as tasks:
            for number in range(120):
                tasks.start_soon(call, number)
        expected = {1: "1", 2: "2", 3: "3", 4: "4", 5: "reset 5, 4", 6: "reset 6, 4"}
        assert outcomes == {number: expected[number % 6 + 1] for number in range(120)}

    async def test_a_settled_error_is_not_retried(self) -> None:
        settled = TransportError("the login failed", path="login", attempts=2)
        settled.settled = True
        bench = Bench(fails(settled))
        error = await bench.failure()
        assert len(bench.requests) == 1
        assert (error.message, error.path, error.attempts) == ("the login failed", "login", 2)

    async def test_a_rejected_login_passes_as_it_is(self) -> None:
        rejection = LoginRejectedError("wrong", status=200, path="login", method="POST")
        bench = Bench(fails(rejection))
        with pytest.raises(LoginRejectedError) as caught:
            await bench.call()
        assert len(bench.requests) == 1
        assert (caught.value.path, caught.value.attempts) == ("login", 0)

    @pytest.mark.parametrize("kind", [RequestKind.READ, RequestKind.LOGIN])
    async def test_bug_of_a_middleware_is_never_retried(self, kind: RequestKind) -> None:
        for bug in (KeyError("middleware"), OSError("file"), TimeoutError(), RuntimeError()):
            bench = Bench(fails(bug))
            with pytest.raises(type(bug)):
                await bench.call(kind)
            assert len(bench.requests) == 1

    async def test_bug_of_a_middleware_after_a_write_began_is_a_doubt(self) -> None:
        for bug in (KeyError("middleware"), OSError("file"), TimeoutError(), ExceptionGroup("several", [KeyError()])):
            bench = Bench(fails(bug))
            with pytest.raises(OutcomeUnknownError, match=type(bug).__name__) as caught:
                await bench.call(RequestKind.WRITE)
            assert type(caught.value.__cause__) is type(bug)
            assert len(bench.requests) == 1

    async def test_bug_of_a_hook_changes_no_outcome(self, caplog: pytest.LogCaptureFixture) -> None:
        def hook(_: Event) -> None:
            raise KeyError("hook")

        bench = Bench(fails(TransportError("reset")), replies(200), hooks=(hook,))
        await bench.call()
        assert len(bench.requests) == 2
        assert "failed on a record Retry: KeyError" in caplog.text

    async def test_a_bug_in_the_reader_reaches_the_caller(self) -> None:
        bench = Bench(replies(200))
        with pytest.raises(ZeroDivisionError):
            await bench.call(read=lambda _: 1 // 0)
        assert len(bench.requests) == 1


class TestBudget:
    async def test_empty_budget_ends_retries(self) -> None:
        bench = Bench(fails(TransportError("reset")), tokens=20)
        assert (await bench.failure()).attempts == 2
        assert (await bench.failure()).attempts == 1
        bench.steps = (replies(200),)
        for _ in range(20):
            await bench.call()
        bench.steps = (fails(TransportError("reset")),)
        assert (await bench.failure()).attempts == 2

    async def test_a_reply_that_cannot_be_read_earns_nothing(self) -> None:
        bench = Bench(replies(200), tokens=10)
        bench.budget.spend(10)
        await bench.failure(read=unreadable)
        assert bench.budget.tokens == 0


class TestReplies:
    async def test_a_reply_that_cannot_be_read_is_asked_for_once_more(self) -> None:
        bench = Bench(replies(200, {"x": CANARY}))
        error = await bench.failure(read=unreadable)
        assert isinstance(error, DecodeError)
        assert len(bench.requests) == 2
        assert (error.path, error.request_path, error.status) == ("raterequests.3", "quote/bid", 200)
        assert error.raw == {"access_token": "***", "x": "***"}
        assert error.body == '{"x": "***"}'

    async def test_a_login_that_cannot_be_read_is_not_and_shows_nothing(self) -> None:
        bench = Bench(replies(200, {"user": {"access_token": "not known yet"}}))
        error = await bench.failure(LOGIN, read=unreadable)
        assert len(bench.requests) == 1
        assert error.body is None

    async def test_a_write_that_cannot_be_read_is_unknown(self) -> None:
        bench = Bench(replies(200, {"x": CANARY}))
        error = await bench.failure(WRITE, read=unreadable)
        assert isinstance(error, OutcomeUnknownError)
        assert "not a listing" in error.message
        assert error.status == 200
        assert error.__context__ is None

    async def test_statuses_become_errors_and_are_not_retried(self) -> None:
        bench = Bench(replies(400, {"message": "offer must be positive"}))
        for kind in RequestKind:
            error = await bench.failure(kind)
            if kind is not LOGIN:
                assert isinstance(error, BadRequestError)
        assert len(bench.requests) == 3

    async def test_logins_are_judged_as_logins(self) -> None:
        assert isinstance(await Bench(replies(400, {"message": "wrong"})).failure(LOGIN), LoginRejectedError)
        assert isinstance(await Bench(replies(400, {"message": "wrong"})).failure(READ), BadRequestError)

    async def test_throttling_without_a_time(self) -> None:
        for kind, attempts in ((READ, 3), (LOGIN, 1), (WRITE, 1)):
            error = await Bench(replies(429)).failure(kind)
            assert isinstance(error, RateLimitedError)
            assert (error.attempts, error.retry_after) == (attempts, None)

    async def test_throttling_longer_than_the_deadline(self) -> None:
        error = await Bench(replies(429, Retry_After="70")).failure()
        assert isinstance(error, RateLimitedError)
        assert (error.attempts, error.retry_after) == (1, 70)


class TestWhatErrorsSay:
    async def test_error_has_the_circumstances_of_its_call(self) -> None:
        error = await Bench(replies(500, {"message": "broken"})).failure()
        assert (error.method, error.path, error.status, error.attempts) == ("POST", "quote/bid", 500, 3)
        assert error.elapsed == pytest.approx(0.1 * 3 + 0.05 + 0.1)
        assert error.body == {"message": "broken"}
        assert str(error) == "the service failed: broken [POST quote/bid, status 500, 3 attempts, 0.45 s]"

    async def test_error_carries_no_earlier_attempt(self) -> None:
        error = await Bench(fails(TransportError("reset")), replies(404)).failure()
        assert error.__context__ is None
        assert error.__cause__ is None

    async def test_hooks_receive_each_retry(self) -> None:
        bench = Bench(fails(TransportError("reset")), replies(500), replies(200))
        await bench.call()
        one, two = bench.events
        assert isinstance(one, Retry)
        assert isinstance(two, Retry)
        assert (one.method, one.path, one.number) == ("POST", "quote/bid", 1)
        assert isinstance(one.error, TransportError)
        assert [one.delay, two.delay] == pytest.approx([0.05, 0.1])
        assert two.number == 2
        assert isinstance(two.error, ServerError)
