"""Tests of the event loop of a command: errors keep their identity, and signal handlers are restored."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import anyio
import anyio.lowlevel
import pytest

from freight_exchange.cli.client.runner import run, unwrap


def terminate(*_: object) -> None:
    signal.raise_signal(signal.SIGINT)


@pytest.fixture
def _background() -> Iterator[None]:
    """Process that ignores SIGINT and turns SIGTERM into SIGINT."""
    handlers = [(number, signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM)]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, terminate)
    yield
    has_restored = (signal.getsignal(signal.SIGINT) is signal.SIG_IGN, signal.getsignal(signal.SIGTERM) is terminate)
    for number, handler in handlers:
        signal.signal(number, handler)
    assert has_restored == (True, True)


async def fail(*errors: BaseException) -> None:
    async def fail_with(error: BaseException) -> None:
        raise error

    async with anyio.create_task_group() as tasks:
        for error in errors:
            tasks.start_soon(fail_with, error)


def test_single_error_of_nested_groups_is_unwrapped() -> None:
    error = OSError("broken")

    async def main() -> None:
        async with anyio.create_task_group():
            await fail(error)

    with pytest.raises(OSError, match="broken") as caught:
        run(main)
    assert caught.value is error


def test_several_errors_stay_a_group() -> None:
    async def main() -> None:
        await fail(OSError("one"), ValueError("two"))

    with pytest.raises(BaseExceptionGroup) as caught:
        run(main)
    assert len(caught.value.exceptions) == 2
    assert unwrap(caught.value) is caught.value


@pytest.mark.usefixtures("_background")
def test_background_program_ignores_sigint() -> None:
    async def main() -> int:
        signal.raise_signal(signal.SIGINT)
        await anyio.lowlevel.checkpoint()
        return 5

    assert run(main) == 5


@pytest.mark.usefixtures("_background")
def test_background_program_cleans_up_on_sigterm() -> None:
    cleanups: list[str] = []

    async def main() -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
            cleanups.append("done")

    with pytest.raises(KeyboardInterrupt):
        run(main)
    assert cleanups == ["done"]


@pytest.mark.usefixtures("_background")
def test_prompt_keeps_its_own_handler() -> None:
    async def main() -> None:
        handler = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGTERM)
        finally:
            signal.signal(signal.SIGINT, handler)
        await anyio.lowlevel.checkpoint()

    run(main)
