"""Tests of queued writes: minimum time left, and abandoned writes."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from tests.unit.transport.bench import executor, sending_layers

from freight_exchange.errors import DeadlineExceededError, FreightExchangeError, OutcomeUnknownError, TransportError
from freight_exchange.hooks import Attempt, Event, Hooks
from freight_exchange.models.writes import RawWrite
from freight_exchange.options import RetryPolicy, Timeouts
from freight_exchange.transport.background import BackgroundTasks
from freight_exchange.transport.call import Limits
from freight_exchange.transport.chain import compose_layers
from freight_exchange.transport.message import AbandonedError, Request, RequestKind, Response
from freight_exchange.transport.middleware.limiter import Limiter
from freight_exchange.transport.middleware.write_timing import WriteLatency

pytestmark = [pytest.mark.virtual_time, pytest.mark.both_backends]


class Service:
    """Caller behind a limiter. Connecting takes `connects` seconds, an answer `answers` seconds."""

    def __init__(self, *, connects: float = 0.0, answers: float = 0.3, writes: int = 4, **limits: Any) -> None:
        self.connects, self.answers = connects, answers
        self.begun = self.under_way = self.most = 0
        self.outcomes: list[FreightExchangeError | int] = []
        self.events: list[Event] = []
        hooks = Hooks((self.events.append,))
        limiter = Limiter(BackgroundTasks(), reads=limits.pop("reads", 20), writes=writes, **limits)
        self.caller = executor(compose_layers(sending_layers(limiter, hooks), self.send), hooks=hooks)

    async def send(self, request: Request) -> Response:
        number = request.progress.record_send()
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            request.progress.trace("connection.connect_tcp.started")
            await anyio.sleep(self.connects)
            request.progress.trace("connection.connect_tcp.complete")
            try:
                request.progress.trace("http11.send_request_headers.started")
            except AbandonedError:
                raise TransportError("given up", unsent=True) from None
            self.begun += 1
            await anyio.sleep(self.answers)
            return Response(status=200, content=b"{}", attempt=number)
        finally:
            self.under_way -= 1

    async def call(self, kind: RequestKind = RequestKind.WRITE, deadline: float = 6) -> None:
        limits = Limits(deadline=deadline, timeouts=Timeouts(), retries=RetryPolicy())
        write = RawWrite("POST", "x") if kind is RequestKind.WRITE else None
        try:
            outcome = await self.caller.call(kind, "POST", "x", lambda response: response.status, limits, write=write)
        except FreightExchangeError as error:
            outcome = error
        self.outcomes.append(outcome)

    async def calls(self, count: int, kind: RequestKind = RequestKind.WRITE, deadline: float = 6) -> None:
        async with anyio.create_task_group() as tasks:
            for _ in range(count):
                tasks.start_soon(self.call, kind, deadline)

    def of(self, kind: type[object]) -> list[Any]:
        return [outcome for outcome in self.outcomes if isinstance(outcome, kind)]


@pytest.mark.parametrize("answers", [0.3, 0.31, 0.7, 2.0])
@pytest.mark.parametrize("shared", [False, True])
async def test_no_write_leaves_the_queue_too_late(answers: float, shared: bool) -> None:
    service = Service(answers=answers, shared=shared)
    await service.calls(100)
    assert service.of(OutcomeUnknownError) == []
    sent, unsent = service.of(int), service.of(DeadlineExceededError)
    assert len(sent) == service.begun
    assert len(sent) + len(unsent) == 100
    assert len(sent) >= 4 * (int(6 / answers) - 2)
    assert not any(error.may_have_taken_effect for error in unsent)


async def test_the_error_names_the_queue_and_the_option() -> None:
    service = Service()
    await service.calls(100)
    first = service.of(DeadlineExceededError)[0]
    assert "nothing took effect" in first.message
    assert "one of 4 slots for writes" in first.message
    assert "more waiting)" in first.message
    assert "max_writes" in first.message
    assert (first.method, first.path, first.attempts) == ("POST", "x", 0)
    assert first.elapsed is not None
    assert 5.5 < first.elapsed < 6
    assert first.settled


async def test_a_read_that_waits_past_its_deadline_names_the_queue() -> None:
    service = Service(reads=2, answers=1)
    await service.calls(10, RequestKind.READ, 2.5)
    errors = service.of(DeadlineExceededError)
    assert len(errors) == 6
    late = [error.message for error in errors if "waiting for one of 2 connections" in error.message]
    assert len(late) == 4
    assert all("max_connections" in message for message in late)


@pytest.mark.parametrize("writes", [1, 8])
async def test_max_writes_bounds_the_writes_under_way(writes: int) -> None:
    service = Service(writes=writes)
    await service.calls(16)
    assert service.most == writes
    assert len(service.of(int)) == 16


async def test_a_connection_that_takes_too_long_leaves_the_write_unsent() -> None:
    service = Service(connects=5.95)
    await service.call()
    [error] = service.of(DeadlineExceededError)
    assert service.begun == 0
    assert "when its connection was ready" in error.message
    assert "nothing took effect" in error.message
    [attempt] = service.events
    assert isinstance(attempt, Attempt)
    assert not attempt.may_have_taken_effect


async def test_slow_writes_do_not_refuse_a_call_that_waited_for_nothing() -> None:
    service = Service(answers=5)
    await service.calls(4)
    service.answers = 0.9
    for _ in range(10):
        await service.call(deadline=1)
    assert len(service.of(int)) == 14


class TestAbandoned:
    async def test_a_stalled_write_of_a_cancelled_caller_does_not_hold_up_the_next(self) -> None:
        service = Service(answers=1000)
        with anyio.move_on_after(1):
            await service.calls(4, deadline=60)
        assert (service.begun, service.under_way) == (4, 4)
        service.answers = 0.3
        began = anyio.current_time()
        await service.call(deadline=60)
        assert service.outcomes == [200]
        assert anyio.current_time() - began == pytest.approx(1.3)

    async def test_connections_stay_bounded(self) -> None:
        service = Service(answers=1000)
        for _ in range(5):
            with anyio.move_on_after(2):
                await service.calls(4, deadline=60)
        assert service.most == 8
        assert service.begun == 8

    async def test_write_on_shared_connections_never_waits_in_the_pool(self) -> None:
        service = Service(answers=1000, shared=True, reads=6)
        for _ in range(5):
            with anyio.move_on_after(2):
                await service.calls(4, deadline=60)
        assert service.most == 6

    async def test_a_place_is_freed_once(self) -> None:
        service = Service(answers=3)
        for _ in range(10):
            with anyio.move_on_after(0.5):
                await service.calls(4, deadline=60)
            await anyio.sleep(5)
        service.most = 0
        await service.calls(20, deadline=60)
        assert service.most == 4


class TestLatency:
    def test_before_the_first_write_the_floor_is_asked_for(self) -> None:
        assert WriteLatency().needed(60) == pytest.approx(0.1)

    def test_never_more_than_half_of_a_deadline(self) -> None:
        latency = WriteLatency()
        assert latency.needed(0.05) == pytest.approx(0.025)
        latency.observe(50)
        assert latency.needed(60) == pytest.approx(30)

    def test_latency_ignores_one_stall_among_twenty(self) -> None:
        latency = WriteLatency()
        for _ in range(19):
            latency.observe(0.2)
        latency.observe(30)
        assert latency.usual == 0.2
        latency.observe(30)
        assert latency.usual == 30

    def test_old_writes_are_forgotten(self) -> None:
        latency = WriteLatency()
        for _ in range(20):
            latency.observe(30)
        for _ in range(19):
            latency.observe(0.1)
        assert latency.usual == 0.1
