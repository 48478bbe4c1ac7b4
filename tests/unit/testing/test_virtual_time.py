"""Tests of the virtual clock, on which all tests of waits and deadlines depend."""

from __future__ import annotations

import asyncio
import socket
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from freight_exchange import testing
from freight_exchange.testing import VirtualDeadlockError, VirtualTimeLoop, virtual_time_options

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

pytestmark = pytest.mark.both_backends

Result = TypeVar("Result")
DAY = timedelta(days=1).total_seconds()


@pytest.mark.virtual_time
class TestOnBothBackends:
    async def test_month_passes_at_once(self) -> None:
        start = anyio.current_time()
        await anyio.sleep(30 * DAY)
        assert anyio.current_time() - start == pytest.approx(30 * DAY)

    async def test_timers_still_fire_in_order_after_years(self) -> None:
        await anyio.sleep(4000 * DAY)
        woken: list[float] = []

        async def wake_after(seconds: float) -> None:
            await anyio.sleep(seconds)
            woken.append(seconds)

        async with anyio.create_task_group() as tasks:
            for seconds in (0.3, 0.1, 0.2, 0.0):
                tasks.start_soon(wake_after, seconds)
        assert woken == [0.0, 0.1, 0.2, 0.3]

    async def test_deadline_ends_an_endless_wait(self) -> None:
        with anyio.move_on_after(DAY) as scope:
            await anyio.sleep_forever()
        assert scope.cancelled_caught

    async def test_ready_task_runs_before_the_clock_jumps(self) -> None:
        start = anyio.current_time()
        turns = 0

        async def busy() -> None:
            nonlocal turns
            for _ in range(100):
                await anyio.lowlevel.checkpoint()
                turns += 1

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(busy)
            await anyio.sleep(0.001)
            assert turns == 100
        assert anyio.current_time() - start == pytest.approx(0.001)


class TestTheAsyncioLoop:
    def test_starts_at_zero_and_stops_exactly_at_the_timer(self) -> None:
        async def main() -> float:
            await asyncio.sleep(60)
            return asyncio.get_running_loop().time()

        assert run_virtually(main) == 60

    def test_ready_socket_goes_before_a_timer(self) -> None:
        async def main() -> float:
            near, far = socket.socketpair()
            with near, far:
                near.setblocking(False)
                loop = asyncio.get_running_loop()

                async def receive() -> float:
                    await loop.sock_recv(near, 1)
                    return loop.time()

                receiving = asyncio.create_task(receive())
                await asyncio.sleep(0)  # the socket is watched now, and only then has something to read
                far.send(b"x")
                await asyncio.sleep(60)
                return await receiving

        assert run_virtually(main) == 0

    def test_loop_waits_for_a_socket_without_timers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        # The sender is a thread: without waiting for threads, only the socket can be what is waited for.
        monkeypatch.setattr(testing, "_THREAD_TIMEOUT", 0)

        async def main() -> bytes:
            near, far = socket.socketpair()
            with near, far:
                near.setblocking(False)
                sender = threading.Timer(0.05, far.send, [b"x"])
                sender.start()
                try:
                    return await asyncio.get_running_loop().sock_recv(near, 1)
                finally:
                    sender.join()

        assert run_virtually(main) == b"x"

    def test_worker_thread_wakes_the_loop(self) -> None:
        release = threading.Event()

        async def main() -> bool:
            threading.Timer(0.05, release.set).start()
            return await anyio.to_thread.run_sync(release.wait, 5)

        assert run_virtually(main) is True

    def test_deadlock_error_names_the_waiting_tasks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        # Threads that earlier tests left idle must not make this one wait for them.
        monkeypatch.setattr(testing, "_THREAD_TIMEOUT", 0.05)

        async def wait_without_end() -> None:
            await asyncio.Event().wait()

        async def main() -> None:
            await wait_without_end()

        with pytest.raises(VirtualDeadlockError, match=r"is left to wake one: .* in Event\.wait, line \d+"):
            run_virtually(main)

    def test_silent_thread_becomes_a_deadlock_after_the_timeout(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(testing, "_THREAD_TIMEOUT", 0.05)
        release = threading.Event()
        idle = threading.Thread(target=release.wait)
        idle.start()
        try:
            with pytest.raises(VirtualDeadlockError):
                run_virtually(asyncio.Event().wait)
        finally:
            release.set()
            idle.join()


def test_each_trio_clock_is_new() -> None:
    assert virtual_time_options("trio")["clock"] is not virtual_time_options("trio")["clock"]


def test_the_asyncio_options_name_the_loop() -> None:
    assert virtual_time_options("asyncio") == {"loop_factory": VirtualTimeLoop}


def run_virtually(main: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main())
