"""Listings, page by page: await the first page, iterate over the records, or over the pages (service document, 4)."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Hashable, Iterator, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar, cast, overload

import anyio
import attrs

from freight_exchange.base import Serializable
from freight_exchange.errors import ConfigurationError, FeedProtocolError, FreightExchangeError, ValidationError
from freight_exchange.walk import SAFE, Pass, Sweep
from freight_exchange.wire import Rows

__all__ = ["DEFAULT_PAGE_SIZE", "FetchPage", "Page", "PageIterator", "Paginator", "keys_of"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

DEFAULT_PAGE_SIZE: Final = 100
"""Default of `page_size`."""

_WINDOWS: Final = 8
"""Windows of pages that are fetched together: a page is decoded while the service works on the next ones."""

_logger = logging.getLogger("freight_exchange")


FetchPage = Callable[[int, int], Awaitable[Rows[T]]]
"""Function that fetches a page by its number and size."""


@attrs.frozen
class Page(Serializable, Sequence[T_co], Generic[T_co]):
    """Records that one page added to a listing.

    Attributes:
        number: The page's number, from 0: the service's `offset` (service document, 4).
        page_size: Rows to request in the next page. To continue later with `pages(start=number + 1)`, use this
            `page_size`; records may then come again, but none is skipped. 0 if the listing has no pages.
    """

    records: tuple[T_co, ...]
    number: int
    page_size: int

    @overload
    def __getitem__(self, index: int) -> T_co: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T_co, ...]: ...
    def __getitem__(self, index: int | slice) -> T_co | tuple[T_co, ...]:
        return self.records[index]

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[T_co]:
        return iter(self.records)


class _Unreadable(NamedTuple):
    row: str


def keys_of(page: Rows[T], identity: Callable[[T], Hashable] | None) -> list[Hashable]:
    """Return the keys of a page's rows, the unreadable ones last. Without an identity, a record is its own key."""
    keys = [cast("Hashable", record) if identity is None else identity(record) for record in page.records]
    return keys + [_Unreadable(repr(getattr(error, "raw", error))) for error in page.broken]


@attrs.frozen(kw_only=True)
class Paginator(Generic[T]):
    """A listing: `async for record in listing`, `async for page in listing.pages()`, `await listing` (its first page).

    One pass yields no record twice. It ends after 20 rows without a new one, at refused pages, or at a repetition of
    the last page, and not at a short page. It can miss rows if earlier rows are removed between two pages, or if 20
    rows in a row are hidden from the user. With `sweep=True` the listing is read again until two passes agree, to 100
    rows past the end: no row that was listed all the time is missing.

    The first page is requested in the size that the service document states, then in 100 rows and in `page_size`
    (default: the client's) as long as each page is full, since a service may cut larger pages silently. Up to `window`
    pages are in flight at a time.

    Records without an identity (listed bids) can come twice if the list moves. With `sweep=True` they come together at
    the end, as often as they are listed.

    Raises:
        FeedProtocolError: A strict client raises it if `sweep=True` cannot prove that the listing is complete, or if
            the service ignores page numbers. Other clients log a warning.
    """

    name: str
    start_read: Callable[[], FetchPage[T]]
    identity: Callable[[T], Hashable] | None
    page_size: int
    documented_size: int | None
    path: str
    window: int = 1
    sweep: bool = False
    strict: bool = False
    where: Callable[[T], bool] | None = None

    def __repr__(self) -> str:
        return f"<Paginator {self.name}>"

    def __await__(self) -> Generator[Any, None, Page[T]]:
        return PageIterator(self, self._walk(0, sweep=False)).first_page().__await__()

    def __aiter__(self) -> _Records[T]:
        return _Records(PageIterator(self, self._walk(0, sweep=self.sweep), joins_first=False))

    def pages(self, *, start: int = 0) -> PageIterator[T]:
        """Iterate over the pages from number `start` on, without those that add no records.

        Args:
            start: Number of the last page read, plus one. The listing's `page_size` must be that of this page.

        Raises:
            ValidationError: `start` is not an integer of 0 or more.
        """
        if isinstance(start, bool) or not isinstance(start, int) or start < 0:
            raise ValidationError(f"start must be an integer of 0 or more, not {start!r}", field="start")
        return PageIterator(self, self._walk(start, sweep=self.sweep))

    async def collect(self) -> list[T]:
        """Return a list of all records."""
        return [record async for record in self]

    async def first(self) -> T | None:
        """Return the first record, or `None` if there is none."""
        async for record in self:
            return record
        return None

    def _walk(self, start: int, *, sweep: bool) -> Pass | Sweep:
        if sweep and self.page_size:
            # A sweep that claims completeness begins with the smallest documented size everywhere.
            return Sweep(self.page_size, start=start, documented=self.documented_size is not None)
        return Pass(self.page_size, safe=self.documented_size or SAFE, start=start)


class PageIterator(AsyncIterator[Page[T]]):
    """Iterator over the pages of a listing. Between two pages no request is in flight.

    It is not a generator: after a `break` only the garbage collector would close a generator, and trio warns of that.
    """

    def __init__(self, listing: Paginator[T], walk: Pass | Sweep, *, joins_first: bool = True) -> None:
        self._listing = listing
        self._walk = walk
        self._fetch = listing.start_read()
        self._joins_first = joins_first
        self._pending: list[T] = []
        self._fetched: dict[tuple[int, int], Rows[T] | Exception] = {}
        self._refusal: Exception | None = None
        self._seen: set[Hashable] = set()
        self._closed = self._pulling = self._has_unreadable = False

    @property
    def is_complete(self) -> bool:
        """`True` if this was a sweep that has missed nothing, and could read everything."""
        return isinstance(self._walk, Sweep) and self._walk.complete and not self._has_unreadable

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
                if page := await self.first_page():
                    return page
        finally:
            self._pulling = False
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Stop fetching pages."""
        self._closed = True

    async def first_page(self) -> Page[T]:
        """Return the next page, even if it adds no record."""
        number = self._walk.number
        self._pending += await self._step()
        while self._joins_first and self._walk.up.settling:
            # The first page is requested again, in a larger size: together they are one page.
            self._pending += await self._step()
        records, self._pending = self._pending, []
        where = self._listing.where
        return Page(tuple(records if where is None else filter(where, records)), number, self._walk.up.fitting)

    async def _step(self) -> list[T]:
        """Process one page; return the records that it adds."""
        walk, identity = self._walk, self._listing.identity
        page = await self._next_page()
        by_key: dict[Hashable, T] = {}
        if isinstance(page, Exception):
            # The page may have needed a login, whose error is not about the listing.
            is_answer = isinstance(page, FreightExchangeError) and page.path == self._listing.path
            added = walk.refuse(page.status) if is_answer and isinstance(page, FreightExchangeError) else None
            if added is None:
                raise page
            self._refusal = page
        else:
            keys = keys_of(page, identity)
            self._has_unreadable = self._has_unreadable or bool(page.broken or page.flaws)
            by_key = dict(zip(keys, page.records, strict=False))
            added = walk.take(keys)
        if walk.up.broken and self._refusal is not None:
            raise self._refusal
        if walk.ended:
            self._report_end()
        if identity is None:
            if isinstance(walk, Sweep):
                added = [*walk.rows.elements()] if walk.ended else []
            return [cast("T", key) for key in added if not isinstance(key, _Unreadable)]
        new = [key for key in dict.fromkeys(added) if key in by_key and key not in self._seen]
        self._seen.update(new)
        return [by_key[key] for key in new]

    async def _next_page(self) -> Rows[T] | Exception:
        """Return the page that the walk needs, and fetch further ones of the window together with it."""
        walk = self._walk
        at = walk.number, walk.size
        if at not in self._fetched:
            self._fetched = {}
            window = self._listing.window
            numbers = walk.ahead(window if window == 1 or walk.up.settling else window * _WINDOWS)
            if len(numbers) == 1:
                await self._fetch_pages(iter(numbers), walk.size)
            else:
                waiting = iter(numbers)
                async with anyio.create_task_group() as group:
                    for _ in range(min(window, len(numbers))):
                        group.start_soon(self._fetch_pages, waiting, walk.size)
        return self._fetched.pop(at)

    async def _fetch_pages(self, numbers: Iterator[int], size: int) -> None:
        """Fetch pages until one is not full: it may be the last."""
        for number in numbers:
            page: Rows[T] | Exception
            try:
                page = await self._fetch(number, size)
            except Exception as error:  # noqa: BLE001  # raised when it is the turn of the page
                page = error
            self._fetched[number, size] = page
            if isinstance(page, Exception) or page.rows < size:
                for _ in numbers:
                    # The other readers stop too.
                    pass

    def _report_end(self) -> None:
        """Log that the listing may have more records; raise with a strict client."""
        walk, name = self._walk, self._listing.name
        if walk.up.ignores_offset:
            problem = (
                f"{name}: every page of the listing is its first one: the service ignores `offset`, or something on the"
                ' way drops the bodies of GETs, which get_parameters="query" avoids'
            )
        elif isinstance(walk, Sweep) and walk.is_unstable:
            raise FeedProtocolError(f"{name}: the listing changed during each of many readings; read it later")
        elif isinstance(walk, Sweep) and not walk.complete:
            changes = "rows change their places or come several times, at each reading"
            reason = "the service cuts pages below ten rows, and skips the rest" if walk.cut else changes
            problem = f"{name}: no two passes agree, so the listing may have more records: {reason}"
        else:
            if walk.up.moved:
                _logger.info("%s: rows came again while the listing was read, so others may be missing", name)
            return
        if self._listing.strict:
            raise FeedProtocolError(problem)
        _logger.warning("%s", problem)


class _Records(AsyncIterator[T]):
    def __init__(self, pages: PageIterator[T]) -> None:
        self._pages = pages
        self._page: Iterator[T] = iter(())

    async def __anext__(self) -> T:
        while True:
            for record in self._page:
                return record
            self._page = iter(await anext(self._pages))

    async def aclose(self) -> None:
        """Stop fetching pages."""
        self._page = iter(())
        await self._pages.aclose()
