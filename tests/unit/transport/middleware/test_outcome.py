"""Tests of outcomes: writes in doubt, and deadlines."""

from __future__ import annotations

import anyio
import pytest
from tests.unit.transport.bench import (
    HEADERS,
    LOGIN,
    READ,
    TCP,
    WRITE,
    Bench,
    Step,
    fails,
    replies,
    stalls,
)

from freight_exchange.errors import (
    AuthenticationError,
    ConfigurationError,
    DeadlineExceededError,
    DecodeError,
    FreightExchangeError,
    OutcomeUnknownError,
    RateLimitedError,
    ServerError,
    TransportError,
)
from freight_exchange.hooks import Event
from freight_exchange.models.writes import RawWrite
from freight_exchange.transport.message import Request, RequestKind, Response

pytestmark = pytest.mark.virtual_time


class TestWrites:
    @pytest.mark.parametrize(
        "step",
        [fails(TransportError("reset")), replies(500), replies(503, Retry_After="1"), replies(408), replies(302)],
        ids=["reset", "500", "503", "408", "302"],
    )
    async def test_doubt_is_never_resent(self, step: Step) -> None:
        bench, exchange = Bench(step, replies(200)), object()
        error = await bench.failure(WRITE, exchange=exchange)
        assert isinstance(error, OutcomeUnknownError)
        assert error.may_have_taken_effect
        assert error.write == RawWrite("POST", "quote/bid")
        assert error._exchange is exchange
        assert len(bench.requests) == 1

    async def test_a_timeout_of_the_service_is_no_refusal(self) -> None:
        error = await Bench(replies(408)).failure(WRITE)
        assert error.message == ("the service gave up waiting for the request; whether it was carried out is not known")

    async def test_doubt_names_the_place_that_could_not_be_read(self) -> None:
        step = fails(DecodeError("missing", path="raterequests.0.index"))
        error = await Bench(step).failure(WRITE)
        assert error.message == "missing at raterequests.0.index; whether it was carried out is not known"

    async def test_mistake_of_a_middleware_after_the_send_leaves_the_outcome_unknown(self) -> None:
        mistake = ConfigurationError("the middleware tidy must return a Response")
        error = await Bench(fails(mistake)).failure(WRITE)
        assert isinstance(error, OutcomeUnknownError)
        assert "the middleware tidy must return" in error.message

    @pytest.mark.parametrize("kind", [READ, LOGIN])
    async def test_mistake_of_a_middleware_reaches_the_caller_of_a_read(self, kind: RequestKind) -> None:
        bench = Bench(fails(ConfigurationError("the middleware tidy must return a Response")))
        with pytest.raises(ConfigurationError, match="tidy"):
            await bench.call(kind)
        assert len(bench.requests) == 1

    async def test_a_throttled_write_is_sent_once_more(self) -> None:
        bench = Bench(replies(429, Retry_After="1"))
        error = await bench.failure(WRITE)
        assert isinstance(error, RateLimitedError)
        assert len(bench.requests) == 2
        assert not error.may_have_taken_effect

    @pytest.mark.parametrize("status", [401, 429])
    async def test_distrusted_refusals_are_doubt(self, status: int) -> None:
        bench = Bench(replies(status, Retry_After="1"))
        assert isinstance(await bench.failure(WRITE, trust_refusals=False), OutcomeUnknownError)
        assert [request.replayable for request in bench.requests] == [False]
        trusted = Bench(replies(401))
        assert isinstance(await trusted.failure(WRITE), AuthenticationError)
        assert [request.replayable for request in trusted.requests] == [True]


class TestDeadline:
    @pytest.mark.parametrize("kind", [READ, LOGIN])
    @pytest.mark.parametrize("events", [(), TCP, (*TCP, HEADERS)])
    async def test_stall_ends_at_the_deadline_and_reads_have_no_effect(
        self, kind: RequestKind, events: tuple[str, ...]
    ) -> None:
        began = anyio.current_time()
        error = await Bench(stalls(*events)).failure(kind, deadline=5)
        assert isinstance(error, DeadlineExceededError)
        assert anyio.current_time() - began == pytest.approx(5)
        assert error.elapsed == pytest.approx(5)
        assert not error.may_have_taken_effect
        assert "5 s" in error.message

    @pytest.mark.parametrize(
        ("events", "kind_of_error"),
        [
            ((), OutcomeUnknownError),
            (TCP[:1], DeadlineExceededError),
            (TCP, OutcomeUnknownError),
            ((*TCP, HEADERS), OutcomeUnknownError),
            ((TCP[0], "connection.connect_tcp.failed"), OutcomeUnknownError),
        ],
        ids=["silent", "connecting", "connected", "sending", "failed"],
    )
    async def test_a_write_is_in_doubt_unless_the_trace_clears_it(
        self, events: tuple[str, ...], kind_of_error: type[FreightExchangeError]
    ) -> None:
        error = await Bench(stalls(*events)).failure(WRITE, deadline=5)
        assert type(error) is kind_of_error
        assert error.may_have_taken_effect is (kind_of_error is OutcomeUnknownError)

    async def test_deadline_bounds_attempts_and_waits_together(self) -> None:
        began = anyio.current_time()
        bench = Bench(replies(503, Retry_After="3"), replies(503, Retry_After="3"), stalls(HEADERS))
        error = await bench.failure(deadline=7, attempts=9)
        assert anyio.current_time() - began == pytest.approx(7)
        assert error.attempts == 3

    @pytest.mark.parametrize("waits", [False, True])
    async def test_error_reports_whether_the_call_waited_for_a_login(self, *, waits: bool) -> None:
        async def logs_in(request: Request) -> Response:
            request.progress.waits_for_login = waits
            return await stalls()(request)

        assert (await Bench(logs_in).failure(deadline=7)).login_pending is waits

    async def test_a_wait_that_it_cuts_is_not_begun(self) -> None:
        began = anyio.current_time()
        error = await Bench(replies(503, Retry_After="8")).failure(deadline=7)
        assert isinstance(error, ServerError)
        assert anyio.current_time() - began == pytest.approx(0.1)

    async def test_a_write_waiting_to_be_sent_again_has_not_happened(self) -> None:
        async def slow_hook(event: Event) -> None:
            await anyio.sleep(100)

        bench = Bench(replies(429, Retry_After="1"), hooks=(slow_hook,))
        assert type(await bench.failure(WRITE, deadline=4)) is DeadlineExceededError

    async def test_cancellation_is_nobodys_error(self) -> None:
        for kind in RequestKind:
            with anyio.move_on_after(1) as scope:
                await Bench(stalls(HEADERS)).call(kind)
            assert scope.cancelled_caught
