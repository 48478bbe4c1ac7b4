"""Paginator: reads a listing as its first page, its records or its pages, on demand."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Generator, Hashable, Iterator
from typing import Any, Generic, TypeVar

from freight_exchange.errors import (
    ConfigurationError,
    FeedProtocolError,
    FreightExchangeError,
    ValidationError,
)
from freight_exchange.paging.core.page_sizes import PageSizes, WantedSize
from freight_exchange.paging.core.seen_rows import SeenRows
from freight_exchange.paging.core.single_pass import SinglePass
from freight_exchange.paging.core.sweep import MAX_ROUNDS, Sweep
from freight_exchange.paging.core.unpaged import UnpagedListing
from freight_exchange.paging.page import Page
from freight_exchange.paging.prefetch import FetchPage, Prefetcher
from freight_exchange.platform.background import BackgroundTasks

__all__ = ["FetchPage", "PageIterator", "Paginator"]

T = TypeVar("T")

_logger = logging.getLogger("freight_exchange")

_OFFSET_LOST = (
    "the service repeats the end of a listing, or ignores `offset`, or something on the way drops the bodies of GETs,"
    ' which get_parameters="query" avoids'
)

StartRead = Callable[[], FetchPage[T]]
"""Function that starts a read of the listing, and returns the fetcher of its pages."""


Walk = SinglePass[T] | Sweep[T] | UnpagedListing[T]
"""Strategy of a read: chooses the next page to request, and returns the new records of each page."""


class Paginator(Generic[T]):
    """A listing: `async for record in listing`, `async for page in listing.pages()`, `await listing` (its first page).

    One pass yields no record twice. It ends at an empty page, a refused one, or a repetition of the previous page, and
    not at a short page. It can miss rows if earlier rows are removed between two pages, or if all rows of a page are
    hidden from the user: then it may end there.

    `sweep=True` repeats the pass until two passes agree, and looks past the end. It misses no row that was listed all
    the time. Up to `window` pages are in flight at a time.

    Records without an identity (listed bids) can come twice if the list moves. With `sweep=True` they come together at
    the end, as often as they are listed.

    Raises:
        FeedProtocolError: With `sweep=True`, the listing changed during each of many passes. A strict client also
            raises it if `sweep=True` cannot prove that the listing is complete, or if the service ignores page
            numbers. Ignored page numbers are not detected from a later page on, or with one row per page.
    """

    def __init__(
        self,
        start_read: StartRead[T],
        *,
        operation: str,
        sizes: PageSizes,
        tasks: Callable[[], BackgroundTasks],
        identity: Callable[[T], Hashable] | None,
        page_size: int | None,
        window: int = 1,
        sweep: bool = False,
        strict: bool = False,
        path: str | None = None,
        where: Callable[[T], bool] | None = None,
    ) -> None:
        self._start_read = start_read
        self._operation = operation
        self._sizes = sizes
        self._tasks = tasks
        self._identity = identity
        self._page_size = page_size
        self._window = window
        if not isinstance(sweep, bool):
            raise ValidationError(f"sweep must be True or False, not {sweep!r}", field="sweep")
        self._sweep = sweep
        self._strict = strict
        self._path = path
        self._where = where

    def __repr__(self) -> str:
        return f"<Paginator {self._operation}>"

    def __await__(self) -> Generator[Any, None, Page[T]]:
        return self._first_page().__await__()

    def __aiter__(self) -> AsyncIterator[T]:
        return _Records(self.pages())

    def pages(self, *, start: int = 0) -> PageIterator[T]:
        """Iterate over the pages from number `start` on, without those that add no records.

        Args:
            start: Number of the last page read, plus one. The listing's `page_size` must be that of this page.

        Raises:
            ValidationError: `start` is not an integer of 0 or more.
        """
        if isinstance(start, bool) or not isinstance(start, int) or start < 0:
            raise ValidationError(f"start must be an integer of 0 or more, not {start!r}", field="start")
        walk = self._walk(start=start, sweep=self._sweep)
        flights = Prefetcher(self._start_read(), self._tasks, self._window)
        return PageIterator(
            self._operation, self._sizes, walk, flights, strict=self._strict, path=self._path, where=self._where
        )

    async def collect(self) -> list[T]:
        """Return a list of all records."""
        return [record async for record in self]

    async def first(self) -> T | None:
        """Return the first record, or `None` if there is none."""
        pages = self.pages()
        try:
            async for page in pages:
                return page[0]
        finally:
            await pages.aclose()
        return None

    async def _first_page(self) -> Page[T]:
        walk, fetch = self._walk(start=0, sweep=False), self._start_read()
        while True:
            try:
                rows = await fetch(0, walk.size)
            except FreightExchangeError as error:
                if error.path != self._path or not walk.fail(error):
                    raise
            else:
                records = _matching(walk.take(rows), self._where)
                # If the service cut the page, `pages` has to continue with the cut size.
                return Page(records, 0, walk.fitting)

    def _walk(self, *, start: int, sweep: bool) -> Walk[T]:
        if self._page_size is None:
            return UnpagedListing(self._operation, self._sizes, self._identity)
        if sweep:
            return Sweep(self._operation, self._sizes, self._page_size, self._identity, start=start)
        wanted = WantedSize(self._operation, self._sizes, self._page_size, start)
        return SinglePass(wanted, SeenRows(self._identity), start=start, probes_offset=self._strict)


def _matching(records: tuple[T, ...], where: Callable[[T], bool] | None) -> tuple[T, ...]:
    return records if where is None else tuple(filter(where, records))


class PageIterator(AsyncIterator[Page[T]]):
    """Iterator over the pages of a listing. Leaving it, by `break` or `aclose()`, cancels requests in flight.

    It is not a generator: after a `break` only the garbage collector would close a generator, and trio warns of that.
    """

    def __init__(
        self,
        operation: str,
        sizes: PageSizes,
        walk: Walk[T],
        flights: Prefetcher[T],
        *,
        strict: bool,
        path: str | None,
        where: Callable[[T], bool] | None = None,
    ) -> None:
        self._path = path
        self._where = where
        self._operation = operation
        self._sizes = sizes
        self._strict = strict
        self._walk = walk
        self._flights = flights
        self._closed = False
        self._pulling = False

    def __aiter__(self) -> PageIterator[T]:
        return self

    async def __anext__(self) -> Page[T]:
        if self._pulling:
            # Both tasks would process the same page, and its repetition would count as the end of the listing.
            raise ConfigurationError(
                "another task is waiting for the next page of this listing: give each task a pages() of its own, or"
                " have one task pull for all"
            )
        self._pulling = True
        try:
            while not (self._closed or self._walk.ended):
                if page := await self._next():
                    return page
        finally:
            self._pulling = False
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Stop fetching pages."""
        self._closed = True
        self._flights.end()

    async def _next(self) -> Page[T] | None:
        walk = self._walk
        if isinstance(walk, Sweep) and walk.is_unstable:
            raise FeedProtocolError(
                f"the listing changed during each of {MAX_ROUNDS} sweeps: its content is uncertain; read it later"
            )
        number, size = walk.number, walk.size
        try:
            rows = await self._flights.next_page(walk.numbers(), size)
        except FreightExchangeError as error:
            # The page may have needed a login, whose error is not about the listing.
            if error.path != self._path or not walk.fail(error):
                raise
            fresh: tuple[T, ...] = ()
        else:
            fresh = walk.take(rows)
        if walk.ended:
            self._flights.end()
            self._report_end(walk)
            if isinstance(walk, Sweep):
                fresh = (*fresh, *walk.rest())
        fresh = _matching(fresh, self._where)
        return Page(fresh, number, walk.fitting) if fresh else None

    def _report_end(self, walk: Walk[T]) -> None:
        """Log that the end of the listing is uncertain; raise with a strict client."""
        if isinstance(walk, UnpagedListing):
            return
        if walk.offset_ignored and self._strict:
            raise FeedProtocolError(f"every page of the listing is its first one: {_OFFSET_LOST}")
        if walk.repeated and self._sizes.first_repeat(self._operation):
            _logger.warning("%s: the second page repeats the first; %s", self._operation, _OFFSET_LOST)
        if isinstance(walk, Sweep) and not walk.complete:
            if self._strict:
                raise FeedProtocolError(f"{self._operation}: no two passes agree, so the listing may have more records")
            _logger.warning("%s: no two passes agree, so the listing may have more records", self._operation)


class _Records(AsyncIterator[T]):
    """Iterator over the records of a listing."""

    def __init__(self, pages: PageIterator[T]) -> None:
        self._pages = pages
        self._page: Iterator[T] = iter(())

    def __aiter__(self) -> _Records[T]:
        return self

    async def __anext__(self) -> T:
        while True:
            for record in self._page:
                return record
            self._page = iter(await anext(self._pages))

    async def aclose(self) -> None:
        """Stop fetching pages."""
        self._page = iter(())
        await self._pages.aclose()
