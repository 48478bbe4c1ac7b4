"""Prefetcher: pages fetched concurrently, returned in the order of the requests."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Generic, TypeVar

from freight_exchange.errors import ConfigurationError, TransportError
from freight_exchange.paging.page import RawPage
from freight_exchange.platform.background import TaskCancelledError

if TYPE_CHECKING:
    from freight_exchange.platform.background import BackgroundTask, BackgroundTasks

__all__ = ["FetchPage", "Prefetcher"]

T = TypeVar("T")

FetchPage = Callable[[int, int], Awaitable[RawPage[T]]]
"""Function that fetches a page by its number and size."""


class Prefetcher(Generic[T]):
    """Fetcher of up to `window` pages at a time, which returns them in the order of the requests."""

    def __init__(self, fetch: FetchPage[T], tasks: Callable[[], BackgroundTasks], window: int) -> None:
        self._fetch = fetch
        self._window = window
        self._find_tasks = tasks
        self._tasks: BackgroundTasks | None = None
        self._under_way: deque[tuple[int, int, BackgroundTask[RawPage[T]]]] = deque()

    async def next_page(self, numbers: Iterable[int], size: int) -> RawPage[T]:
        """Return the first of these pages; start requests for as many of the others as the window allows.

        After a cancellation, pages in flight are kept for the next call.
        """
        wanted = [*islice(numbers, self._window)]
        if self._under_way and self._under_way[0][:2] != (wanted[0], size):
            self.end()
        if len(wanted) == 1 and not self._under_way:
            return await self._fetch(wanted[0], size)
        if self._tasks is None:
            self._tasks = self._find_tasks()
        for number in wanted[len(self._under_way) :]:
            self._under_way.append((number, size, self._tasks.start(partial(self._fetch, number, size))))
        task = self._under_way[0][2]
        try:
            return await task.wait()
        except TaskCancelledError:
            raise TransportError("the client was closed while the listing was read", permanent=True) from None
        finally:
            # A failed request is removed too, so that the next call repeats it.
            if task.is_finished:
                self._under_way.popleft()

    def end(self) -> None:
        while self._under_way:
            self._under_way.popleft()[2].cancel()

    def __del__(self) -> None:
        # The garbage collector may run in another thread, or after the loop: nothing can be cancelled there.
        if self._under_way and self._tasks is not None:
            try:
                self._tasks.check_loop()
            except ConfigurationError:
                return
            self.end()
