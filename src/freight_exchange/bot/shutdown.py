"""What ends a bot, told before it has ended: what is at work may take its time, and may not end at all."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from freight_exchange.bot.cancellation import split

__all__ = ["Ending", "FailureReportingGroup", "Tasks", "cause", "ignore_failure", "telling"]

Ending = Callable[[BaseException, Callable[[], bool]], None]
"""Called with what ends the bot, or one run of it, and with what says whether that has ended."""


def ignore_failure(error: BaseException, has_ended: Callable[[], bool]) -> None:
    """What tells nobody."""


def cause(error: BaseException) -> BaseException | None:
    """The first error in it that is no cancellation."""
    return next(iter(split(error)[1]), None)


@contextmanager
def telling(tell: Callable[[BaseException], None]) -> Iterator[None]:
    """Tell what the block fails by, as soon as it does."""
    try:
        yield
    except BaseException as error:
        if (found := cause(error)) is not None:
            tell(found)
        raise


class Tasks(Protocol):
    """Where tasks are begun."""

    def start_soon(self, work: Callable[..., Coroutine[Any, Any, Any]], /, *args: Any) -> object:
        """Begin one."""
        ...


class FailureReportingGroup:
    """A task group whose tasks tell what they fail by: the group itself first waits for all the others.

    Args:
        tasks: The task group.
        tell: Called with the error.
    """

    def __init__(self, tasks: Tasks, tell: Callable[[BaseException], None]) -> None:
        self._tasks = tasks
        self._tell = tell

    def start_soon(self, work: Callable[..., Coroutine[Any, Any, Any]], /, *args: Any) -> None:
        """Begin a task."""
        self._tasks.start_soon(self._see_to, work, args)

    async def _see_to(self, work: Callable[..., Coroutine[Any, Any, Any]], args: tuple[Any, ...]) -> None:
        with telling(self._tell):
            await work(*args)
