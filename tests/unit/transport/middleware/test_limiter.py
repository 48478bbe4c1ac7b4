"""Tests of the limiter: slots, order and uninterrupted sends."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from tests.unit.transport.bench import sending_layers

from freight_exchange.errors import TransportError
from freight_exchange.hooks import Attempt, Event, Hooks
from freight_exchange.options import Timeouts
from freight_exchange.transport.background import BackgroundTasks
from freight_exchange.transport.chain import compose_layers
from freight_exchange.transport.message import AbandonedError, Next, Request, RequestKind, Response
from freight_exchange.transport.middleware.limiter import Limiter

pytestmark = [pytest.mark.virtual_time, pytest.mark.both_backends]

READ, WRITE = RequestKind.READ, RequestKind.WRITE


def request(kind: RequestKind = READ, **changes: Any) -> Request:
    return Request(method="POST", path="quote/bid", kind=kind, timeouts=Timeouts(), **changes)


class Sender:
    """Network on which a request connects for a second, and is answered after another."""

    def __init__(self) -> None:
        self.under_way = self.most = self.answered = 0
        self.order: list[str] = []

    async def __call__(self, request: Request) -> Response:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            self.order.append(request.path)
            number = request.progress.record_send()
            request.progress.trace("connection.connect_tcp.started")
            await anyio.sleep(1)
            request.progress.trace("connection.connect_tcp.complete")
            request.progress.trace("http11.send_request_headers.started")
            await anyio.sleep(1)
        finally:
            self.under_way -= 1
        self.answered += 1
        return Response(status=200, content=b"{}", attempt=number)


class Bench:
    def __init__(self, reads: int = 3, writes: int = 2, *, shared: bool = False) -> None:
        self.events: list[Event] = []
        self.tasks = BackgroundTasks()
        limiter = Limiter(self.tasks, reads=reads, writes=writes, shared=shared)
        self.layers = sending_layers(limiter, Hooks((self.events.append,)))
        self.sender = Sender()

    async def call(self, request: Request, sender: Next | None = None) -> Response:
        return await compose_layers(self.layers, sender or self.sender)(request)

    async def calls(self, count: int, kind: RequestKind = READ) -> None:
        async with anyio.create_task_group() as tasks:
            for _ in range(count):
                tasks.start_soon(self.call, request(kind))


@pytest.mark.parametrize(("kind", "places"), [(READ, 3), (RequestKind.LOGIN, 3), (WRITE, 2)])
async def test_never_more_than_its_places(kind: RequestKind, places: int) -> None:
    bench = Bench()
    await bench.calls(20, kind)
    assert bench.sender.most == places
    assert bench.sender.answered == 20


async def test_reads_and_writes_have_places_of_their_own_or_share_them() -> None:
    for shared, most in ((False, 5), (True, 3)):
        bench = Bench(shared=shared)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(bench.calls, 10, READ)
            tasks.start_soon(bench.calls, 10, WRITE)
        assert bench.sender.most == most


async def test_first_come_first_served() -> None:
    bench = Bench(reads=1)

    async def call(number: int) -> None:
        await anyio.sleep(number / 100)
        await bench.call(request().with_header("n", str(number)), numbered)

    order: list[int] = []

    async def numbered(request: Request) -> Response:
        order.append(int(request.headers[0][1]))
        return await bench.sender(request)

    async with anyio.create_task_group() as tasks:
        for number in reversed(range(10)):
            tasks.start_soon(call, number)
    assert order == list(range(10))


@pytest.mark.parametrize("error", [TransportError("reset"), KeyError("bug")])
async def test_an_error_frees_the_place_and_reaches_the_caller(error: Exception) -> None:
    bench = Bench(reads=1)

    async def fail(_: Request) -> Response:
        raise error

    for _ in range(3):
        with pytest.raises(type(error)):
            await bench.call(request(), fail)
    await bench.calls(3)
    assert bench.sender.answered == 3


@pytest.mark.parametrize("kind", [READ, WRITE])
@pytest.mark.parametrize("after", [0.0, 0.5, 1.5])
async def test_cancelled_callers_leave_no_place_taken(kind: RequestKind, after: float) -> None:
    bench = Bench(reads=2, writes=2)
    with anyio.move_on_after(after):
        await bench.calls(50, kind)
    await bench.calls(10, kind)
    assert bench.sender.most == 2
    assert bench.sender.under_way == 0


async def test_a_caller_leaves_at_once_and_a_read_is_cut_off() -> None:
    bench = Bench()
    began = anyio.current_time()
    with anyio.move_on_after(1.5):
        await bench.call(request())
    assert anyio.current_time() == pytest.approx(began + 1.5)
    await anyio.sleep(5)
    assert bench.sender.answered == 0
    assert bench.sender.under_way == 0


async def test_a_write_that_has_begun_is_finished(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    began = anyio.current_time()
    with anyio.move_on_after(1.5):
        await bench.call(request(WRITE))
    assert anyio.current_time() == pytest.approx(began + 1.5)
    assert bench.sender.under_way == 1
    await anyio.sleep(1)
    assert bench.sender.answered == 1
    [attempt] = bench.events
    assert isinstance(attempt, Attempt)
    assert (attempt.status, attempt.abandoned, attempt.may_have_taken_effect) == (200, True, True)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


async def test_a_write_that_has_begun_is_bounded_by_its_deadline() -> None:
    bench = Bench()
    with anyio.move_on_after(1.5):
        await bench.call(request(WRITE, ends_at=anyio.current_time() + 1.7))
    await anyio.sleep(5)
    assert (bench.sender.answered, bench.sender.under_way) == (0, 0)


async def test_a_write_that_has_not_begun_does_not_begin() -> None:
    bench = Bench()
    write = request(WRITE)
    with anyio.move_on_after(0.5):
        await bench.call(write)
    await anyio.sleep(5)
    assert bench.sender.answered == 0
    assert not write.progress.may_have_begun
    with pytest.raises(AbandonedError):
        write.progress.trace("http11.send_request_headers.started")


@pytest.mark.parametrize(("after", "unsent"), [(0.5, True), (1.5, False)])
async def test_closing_ends_running_tasks_and_reports_whether_they_began(after: float, unsent: bool) -> None:
    bench, errors = Bench(), list[TransportError]()

    async def call() -> None:
        with pytest.raises(TransportError, match="closed") as caught:
            await bench.call(request(WRITE))
        errors.append(caught.value)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call)
        await anyio.sleep(after)
        bench.tasks.close(anyio.lowlevel.checkpoint)
    assert errors[0].permanent
    assert errors[0].unsent is unsent


class TestRecords:
    async def test_each_attempt_is_reported(self) -> None:
        bench = Bench()
        repeated = request(WRITE)
        await bench.call(repeated)
        await bench.call(repeated)
        _, attempt = bench.events
        assert isinstance(attempt, Attempt)
        assert (attempt.method, attempt.path, attempt.number) == ("POST", "quote/bid", 2)
        assert (attempt.status, attempt.error, attempt.abandoned) == (200, None, False)
        assert attempt.elapsed == pytest.approx(2)
        assert attempt.may_have_taken_effect

    async def test_reads_take_no_effect_and_errors_are_reported(self) -> None:
        bench, error = Bench(), TransportError("reset")

        async def fail(request: Request) -> Response:
            request.progress.record_send()
            raise error

        for kind in (READ, WRITE):
            with pytest.raises(TransportError):
                await bench.call(request(kind), fail)
        effects = [event.may_have_taken_effect for event in bench.events if isinstance(event, Attempt)]
        assert effects == [False, True]
        assert [event.error for event in bench.events if isinstance(event, Attempt)] == [error, error]

    async def test_bug_of_a_hook_changes_no_outcome_and_frees_the_place(self) -> None:
        def hook(_: Event) -> None:
            raise KeyError("hook")

        sender = Sender()
        send = compose_layers(sending_layers(Limiter(BackgroundTasks(), reads=1, writes=1), Hooks((hook,))), sender)
        for _ in range(3):
            await send(request())
        assert sender.answered == 3
