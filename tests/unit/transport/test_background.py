"""Tests of background tasks."""

from __future__ import annotations

import asyncio
import logging
from typing import NoReturn

import anyio
import anyio.lowlevel
import pytest
import trio

from freight_exchange.errors import ConfigurationError, TransportError
from freight_exchange.transport.background import BackgroundTask, BackgroundTasks, TaskCancelledError

pytestmark = [pytest.mark.virtual_time, pytest.mark.both_backends]


async def soon(value: int = 7) -> int:
    await anyio.sleep(1)
    return value


async def failing() -> NoReturn:
    await anyio.sleep(1)
    raise KeyError("bug")


async def test_result_reaches_all_waiters() -> None:
    tasks, results = BackgroundTasks(), []
    task = tasks.start(soon)
    assert not task.is_finished

    async def wait() -> None:
        results.append(await task.wait())

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(wait)
    assert results == [7] * 5
    assert task.is_finished
    assert await task.wait() == 7


async def test_result_may_be_none() -> None:
    async def give_nothing() -> int | None:
        await anyio.sleep(1)
        return None

    task = BackgroundTasks().start(give_nothing)
    await task.wait_finished()
    assert await task.wait() is None


async def test_error_reaches_the_waiter_and_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(KeyError):
        await BackgroundTasks().start(failing).wait()
    assert not caplog.records


async def test_base_exception_reaches_the_waiter_and_not_the_loop() -> None:
    error = pytest.fail.Exception("must not be called")

    async def fail() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(soon)
            raise error

    task = BackgroundTasks().start(fail)
    with pytest.raises(BaseExceptionGroup) as raised:
        await task.wait()
    assert raised.value.exceptions == (error,)


async def test_bug_without_waiter_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    task = BackgroundTasks().start(failing)
    await task.wait_finished()
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert caplog.records[0].exc_info is not None


async def test_bug_is_logged_if_its_waiter_was_cancelled(caplog: pytest.LogCaptureFixture) -> None:
    task = BackgroundTasks().start(failing)
    with anyio.move_on_after(0.5):
        await task.wait()
    await task.wait_finished()
    assert len(caplog.records) == 1


async def test_bug_in_the_tick_of_its_waiters_cancellation_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The waiter still counts as one when the bug occurs, and leaves without its error."""
    scope = anyio.CancelScope()

    async def cancel_and_fail() -> NoReturn:
        await anyio.sleep(1)
        scope.cancel()
        raise KeyError("bug")

    task = BackgroundTasks().start(cancel_and_fail)
    with scope:
        await task.wait()
    assert scope.cancelled_caught
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [KeyError]


async def test_bug_that_another_waiter_raises_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    leaver, received = anyio.CancelScope(), list[BaseException]()

    async def cancel_and_fail() -> NoReturn:
        await anyio.sleep(1)
        leaver.cancel()
        raise KeyError("bug")

    task = BackgroundTasks().start(cancel_and_fail)

    async def stay() -> None:
        with pytest.raises(KeyError) as caught:
            await task.wait()
        received.append(caught.value)

    async def leave() -> None:
        with leaver:
            await task.wait()

    async with anyio.create_task_group() as group:
        group.start_soon(leave)
        group.start_soon(stay)
    assert leaver.cancelled_caught
    assert len(received) == 1
    assert not caplog.records


async def test_close_waits_for_all_tasks_but_its_own() -> None:
    tasks, steps = BackgroundTasks(), list[str]()
    started = anyio.current_time()

    async def last() -> None:
        steps.append("last")

    async def close() -> str:
        await anyio.sleep(1)
        await tasks.close(last).wait()
        await anyio.sleep(1)
        steps.append("goes on")
        return "result"

    other = tasks.start(anyio.sleep_forever)
    assert await tasks.start(close).wait() == "result"
    assert steps == ["last", "goes on"]
    assert other.is_finished
    assert anyio.current_time() == pytest.approx(started + 2)


async def test_own_error_without_waiter_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> NoReturn:
        raise TransportError("reset")

    await BackgroundTasks().start(fail).wait_finished()
    assert not caplog.records


async def test_cancelled_waiter_does_not_stop_the_task() -> None:
    task = BackgroundTasks().start(soon)
    with anyio.move_on_after(0.1) as scope:
        await task.wait()
    assert scope.cancelled_caught
    assert await task.wait() == 7


async def test_cancel_stops_the_task_now() -> None:
    began = anyio.current_time()
    task = BackgroundTasks().start(anyio.sleep_forever)
    await anyio.sleep(1)
    task.cancel()
    with pytest.raises(TaskCancelledError):
        await task.wait()
    assert anyio.current_time() == pytest.approx(began + 1)


async def test_cancel_before_the_first_step_stops_the_task() -> None:
    task = BackgroundTasks().start(anyio.sleep_forever)
    task.cancel()
    with pytest.raises(TaskCancelledError):
        await task.wait()


async def test_cancel_at_a_time_stops_the_task_then() -> None:
    began = anyio.current_time()
    task = BackgroundTasks().start(anyio.sleep_forever)
    task.cancel(began + 5)
    await task.wait_finished()
    assert anyio.current_time() == pytest.approx(began + 5)


async def test_cancel_after_the_end_changes_nothing() -> None:
    task = BackgroundTasks().start(soon)
    await task.wait_finished()
    task.cancel()
    task.cancel(anyio.current_time())
    assert await task.wait() == 7


async def test_last_work_runs_after_all_tasks_and_no_task_starts_any_more() -> None:
    tasks, steps = BackgroundTasks(), list[str]()

    async def slow_to_end() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(3)
            steps.append("ended")

    async def last() -> None:
        steps.append("last")

    running = [tasks.start(slow_to_end) for _ in range(3)]
    done = tasks.start(soon)
    await done.wait()
    closing = tasks.close(last)
    with pytest.raises(ConfigurationError, match="closed"):
        tasks.start(soon)
    await closing.wait()
    assert steps == ["ended", "ended", "ended", "last"]
    assert all(task.is_finished for task in running)
    for task in running:
        with pytest.raises(TaskCancelledError):
            await task.wait()
    assert await done.wait() == 7


async def test_closing_goes_on_when_its_caller_is_cancelled() -> None:
    tasks, closed = BackgroundTasks(), anyio.Event()

    async def last() -> None:
        await anyio.sleep(1)
        closed.set()

    with anyio.CancelScope() as scope:
        scope.cancel()
        await tasks.close(last).wait()
    await closed.wait()


async def test_check_loop_passes_on_its_own_loop() -> None:
    BackgroundTasks().check_loop()


def test_check_loop_refuses_every_other() -> None:
    async def make() -> BackgroundTasks:
        return BackgroundTasks()

    async def check(tasks: BackgroundTasks) -> None:
        with pytest.raises(ConfigurationError, match="another event loop"):
            tasks.check_loop()

    for tasks in (asyncio.run(make()), trio.run(make)):
        asyncio.run(check(tasks))
        trio.run(check, tasks)
        with pytest.raises(ConfigurationError):
            tasks.check_loop()


def test_native_cancel_of_the_waiter_does_not_stop_the_task() -> None:
    async def main() -> int:
        task: BackgroundTask[int] = BackgroundTasks().start(brief)
        waiter = asyncio.create_task(task.wait())
        await asyncio.sleep(0)
        waiter.cancel()
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        return await task.wait()

    async def brief() -> int:
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        return 7

    assert asyncio.run(main()) == 7
