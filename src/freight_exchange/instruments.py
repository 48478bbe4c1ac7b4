"""Hooks and instrumentations of a client: who receives its records, and who surrounds its work with spans."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Final

import anyio

if TYPE_CHECKING:
    from freight_exchange.hooks import Event, Hook, Work

HOOK_TIMEOUT: Final = 5.0
"""Time limit of an async hook for one record, in seconds."""

_logger = logging.getLogger("freight_exchange.hooks")


class Instrumentation:
    """Base class of instrumentations, which does nothing."""

    def record(self, event: Event) -> None:
        """Receive a record of the client's hooks."""

    def span(self, work: Work) -> AbstractContextManager[object]:
        """Surround a call, a scan or a handler. Its error passes through."""
        return nullcontext()

    def found(self, feed: str, events: Sequence[int]) -> None:
        """Receive the numbers of the events that the last scan of a feed has found."""


class Hooks:
    """The hooks of a client, called one after another, and its instrumentations, the first outermost."""

    def __init__(self, hooks: Sequence[Hook] = (), parts: Sequence[Instrumentation] = ()) -> None:
        self.hooks = hooks
        self.parts = parts
        self._failed: set[tuple[int, str]] = set()

    def __bool__(self) -> bool:
        return bool(self.hooks)

    async def emit(self, event: Event) -> None:
        for hook in self.hooks:
            try:
                result = hook(event)
                if inspect.isawaitable(result):
                    with anyio.move_on_after(HOOK_TIMEOUT) as scope:
                        await result
                    if scope.cancelled_caught:
                        self._log(hook, event, f"it took longer than {HOOK_TIMEOUT:g} s and was cancelled", None)
            except BaseException as error:  # a hook's bug must not change the result of the call
                if not isinstance(error, Exception) and not _is_of_another_task(error):
                    raise
                self._log(hook, event, type(error).__name__, error)

    @contextmanager
    def span(self, work: Work) -> Iterator[None]:
        with ExitStack() as stack:
            for part in self.parts:
                stack.enter_context(part.span(work))
            yield

    def found(self, feed: str, events: Sequence[int]) -> None:
        for part in self.parts:
            part.found(feed, events)

    def _log(self, hook: Hook, event: Event, why: str, error: BaseException | None) -> None:
        # The first failure of a kind is logged at ERROR, others at DEBUG.
        key = (id(hook), why)
        level = logging.DEBUG if key in self._failed else logging.ERROR
        self._failed.add(key)
        name = getattr(hook, "__qualname__", type(hook).__qualname__)
        message = "hook %s failed on a record %s: %s; the call is not affected"
        _logger.log(level, message, name, type(event).__name__, why, exc_info=error)


def _is_of_another_task(error: BaseException) -> bool:
    """Return whether an error is the cancellation of a task that the hook has awaited, and not of its caller."""
    import asyncio  # programs on trio need none

    task = asyncio.current_task() if isinstance(error, asyncio.CancelledError) else None
    return task is not None and not task.cancelling()
