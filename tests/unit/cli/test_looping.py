"""The event loop of a command: what ends it comes out as it was raised, and signals are as they were."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import anyio
import anyio.lowlevel
import pytest

from freight_exchange.cli.runner import run, sole


@pytest.fixture
def deaf() -> Iterator[None]:
    """A process that ignores Ctrl-C, and makes one of SIGTERM."""
    before = [(number, signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM)]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def terminate(*_: object) -> None:
    signal.raise_signal(signal.SIGINT)


async def fail(*errors: BaseException) -> None:
    async def one(error: BaseException) -> None:
        raise error

    async with anyio.create_task_group() as tasks:
        for error in errors:
            tasks.start_soon(one, error)


def test_one_error_of_a_task_comes_out_as_it_is() -> None:
    error = OSError("broken")

    async def main() -> None:
        async with anyio.create_task_group():
            await fail(error)

    with pytest.raises(OSError, match="broken") as caught:
        run(main)
    assert caught.value is error


def test_several_come_together() -> None:
    async def main() -> None:
        await fail(OSError("one"), ValueError("two"))

    with pytest.raises(BaseExceptionGroup) as caught:
        run(main)
    assert len(caught.value.exceptions) == 2
    assert sole(caught.value) is caught.value


@pytest.mark.usefixtures("deaf")
def test_what_ignores_ctrl_c_goes_on_ignoring_it() -> None:
    async def main() -> int:
        signal.raise_signal(signal.SIGINT)
        await anyio.lowlevel.checkpoint()
        return 5

    assert run(main) == 5
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    assert signal.getsignal(signal.SIGTERM) is terminate


@pytest.mark.usefixtures("deaf")
def test_it_is_terminated_all_the_same_and_cleans_up() -> None:
    ended: list[str] = []

    async def main() -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
            ended.append("cleanly")

    with pytest.raises(KeyboardInterrupt):
        run(main)
    assert ended == ["cleanly"]
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    assert signal.getsignal(signal.SIGTERM) is terminate


@pytest.mark.usefixtures("deaf")
def test_a_question_has_handlers_of_its_own() -> None:
    async def main() -> None:
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGTERM)
        finally:
            signal.signal(signal.SIGINT, before)
        await anyio.lowlevel.checkpoint()

    run(main)
