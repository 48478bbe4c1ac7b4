"""Errors of task groups: flattened, separated from cancellations, and reported early."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import anyio

__all__ = [
    "FailureReportingGroup",
    "TaskStarter",
    "find_failure",
    "flatten",
    "report_failure",
    "split_cancellations",
    "unwrap_errors",
]


def flatten(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors inside nested exception groups."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from flatten(inner)
    else:
        yield error


def split_cancellations(error: BaseException) -> tuple[list[BaseException], list[BaseException]]:
    """Split an error into its cancellations and its other errors."""
    found = [*flatten(error)]
    kind = anyio.get_cancelled_exc_class()
    cancelled = [leaf for leaf in found if isinstance(leaf, kind)]
    return cancelled, [leaf for leaf in found if leaf not in cancelled]


def find_failure(error: BaseException) -> BaseException | None:
    """Return the first error inside that is not a cancellation."""
    return next(iter(split_cancellations(error)[1]), None)


@contextmanager
def unwrap_errors() -> Iterator[None]:
    """Raise the error inside an exception group, if all errors of the group have the same type.

    For example, a failing store raises the same error in every task that uses it.
    """
    try:
        yield
    except BaseExceptionGroup as group:
        found = [*flatten(group)]
        raise (found[0] if len({type(leaf) for leaf in found}) == 1 else group) from None


@contextmanager
def report_failure(report: Callable[[BaseException], None]) -> Iterator[None]:
    """Report a failure of the block as soon as it is raised."""
    try:
        yield
    except BaseException as error:
        if (failure := find_failure(error)) is not None:
            report(failure)
        raise


class TaskStarter(Protocol):
    """Starter of tasks, such as a task group."""

    def start_soon(self, work: Callable[..., Coroutine[Any, Any, Any]], /, *args: Any) -> object:
        """Start a task."""
        ...


class FailureReportingGroup:
    """Task group that reports a failed task at once, before the other tasks have ended.

    Args:
        tasks: The task group.
        report: Called with the error.
    """

    def __init__(self, tasks: TaskStarter, report: Callable[[BaseException], None]) -> None:
        self._tasks = tasks
        self._report = report

    def start_soon(self, work: Callable[..., Coroutine[Any, Any, Any]], /, *args: Any) -> None:
        """Start a task."""
        self._tasks.start_soon(self._run, work, args)

    async def _run(self, work: Callable[..., Coroutine[Any, Any, Any]], args: tuple[Any, ...]) -> None:
        with report_failure(self._report):
            await work(*args)
