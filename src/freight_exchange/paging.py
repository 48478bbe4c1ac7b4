"""Listings, page by page: await the first page, iterate over the records, or over the pages (service document, 4)."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Hashable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, Generic, NamedTuple, TypeVar, cast, overload

import anyio
import attrs

from freight_exchange.base import NOTHING, Serializable
from freight_exchange.errors import (
    ConfigurationError,
    DecodeError,
    FeedProtocolError,
    FreightExchangeError,
    ValidationError,
)
from freight_exchange.models import Bid, Listing
from freight_exchange.walk import SAFE, Pass, Sweep
from freight_exchange.wire import MAX_DESCRIBED, Kind, Rows

__all__ = ["Page", "PageIterator", "Paginator"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_WINDOWS: Final = 8
"""Windows of pages that are fetched together: a page is decoded while the service works on the next ones."""

_logger = logging.getLogger("freight_exchange")


class Listed(NamedTuple, Generic[T]):
    """Request for a listing. `documented_size` is the rows of a page by default (service document, 8), if stated."""

    operation: str
    method: str
    path: str
    kind: Kind[T]
    parameters: Mapping[str, Any] = NOTHING
    documented_size: int | None = None
    paged: bool = True


class Reported:
    """Errors that one reading of a listing has reported, each once, and `MAX_DESCRIBED` at most."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, ...]] = set()

    def new(self, errors: Sequence[DecodeError]) -> tuple[list[DecodeError], int]:
        """Return the errors that no earlier page had, up to the limit, and the number of further ones."""
        # Identified by the content of the row, since its number in the path changes when rows move.
        keys = {(error.message, *error.path.split(".")[2:], repr(error.raw)): error for error in errors}
        new = {key: error for key, error in keys.items() if key not in self._seen}
        found = dict([*new.items()][: MAX_DESCRIBED - len(self._seen)])
        self._seen |= found.keys()
        return [*found.values()], len(new) - len(found)


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


_IDENTITIES: Final[Mapping[type, Callable[[Any], Hashable] | None]] = {
    Bid: None,
    # A service may list a request once for each offer.
    Listing: lambda listing: (listing.index, min((offer.id or 0 for offer in listing.offers), default=0)),
}
"""Functions that return the key of a row. A listed bid has none."""


class _Unreadable(NamedTuple):
    row: str


def keys_of(page: Rows[T], identity: Callable[[T], Hashable] | None) -> list[Hashable]:
    """Return the keys of a page's rows, the unreadable ones last. Without an identity, a record is its own key."""
    keys = [cast("Hashable", record) if identity is None else identity(record) for record in page.records]
    return keys + [_Unreadable(repr(getattr(error, "raw", error))) for error in page.broken]


@attrs.frozen(kw_only=True, repr=False)
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

    listed: Listed[T]
    fetch: Callable[[int, int, Reported], Awaitable[Rows[T]]]
    page_size: int
    window: int = 1
    sweep: bool = False
    strict: bool = False
    where: Callable[[T], bool] | None = None

    def __repr__(self) -> str:
        return f"<Paginator {self.listed.operation}>"

    def __await__(self) -> Generator[Any, None, Page[T]]:
        return attrs.evolve(self, sweep=False).pages().first_page().__await__()

    def __aiter__(self) -> _Records[T]:
        return _Records(PageIterator(self, 0, joins_first=False))

    def pages(self, *, start: int = 0) -> PageIterator[T]:
        """Iterate over the pages from number `start` on, without those that add no records.

        Args:
            start: Number of the last page read, plus one. The listing's `page_size` must be that of this page.

        Raises:
            ValidationError: `start` is not an integer of 0 or more.
        """
        if isinstance(start, bool) or not isinstance(start, int) or start < 0:
            raise ValidationError(f"start must be an integer of 0 or more, not {start!r}", field="start")
        return PageIterator(self, start)

    async def collect(self) -> list[T]:
        """Return a list of all records."""
        return [record async for record in self]

    async def first(self) -> T | None:
        """Return the first record, or `None` if there is none."""
        async for record in self:
            return record
        return None


class PageIterator(AsyncIterator[Page[T]]):
    """Iterator over the pages of a listing. Between two pages no request is in flight.

    It is not a generator: after a `break` only the garbage collector would close a generator, and trio warns of that.
    """

    def __init__(self, listing: Paginator[T], start: int, *, joins_first: bool = True) -> None:
        size, documented = listing.page_size, listing.listed.documented_size
        # A sweep that claims completeness begins with the smallest documented size everywhere.
        self._walk: Pass | Sweep = (
            Sweep(size, start=start, documented=documented is not None)
            if listing.sweep and size
            else Pass(size, safe=documented or SAFE, start=start)
        )
        self._listing = listing
        self._identity = _IDENTITIES.get(listing.listed.kind.model, attrgetter("index"))
        self._reported = Reported()
        self._joins_first = joins_first
        self._pending: list[T] = []
        self._given: Counter[Hashable] = Counter()
        self._fetched: dict[tuple[int, int], Rows[T] | Exception] = {}
        self._refusal: Exception | None = None
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
        number = self._walk.now.number
        self._pending += await self._step()
        while self._joins_first and self._walk.up.settling:
            # The first page is requested again, in a larger size: together they are one page.
            self._pending += await self._step()
        records, self._pending, where = self._pending, [], self._listing.where
        return Page(tuple(records if where is None else filter(where, records)), number, self._walk.up.fitting)

    async def _step(self) -> list[T]:
        """Process one page; return the records that it adds."""
        walk = self._walk
        page = await self._next_page()
        if isinstance(page, Exception):
            # The page may have needed a login, whose error is not about the listing.
            is_answer = isinstance(page, FreightExchangeError) and page.path == self._listing.listed.path
            if not (is_answer and walk.refuse(getattr(page, "status", None))):
                raise page
            self._refusal, page, keys = page, Rows(()), list[Hashable]()
        else:
            keys = keys_of(page, self._identity)
            self._has_unreadable = self._has_unreadable or bool(page.broken or page.flaws)
            walk.take(keys)
        if walk.up.broken and self._refusal is not None:
            raise self._refusal
        if walk.ended:
            self._report_end()
        return self._added(keys, page.records)

    def _added(self, keys: list[Hashable], records: Sequence[T]) -> list[T]:
        walk, given = self._walk, self._given
        if self._identity is not None:
            new = {key: record for key, record in zip(keys, records, strict=False) if key not in given}
            given.update(new.keys())
            return [*new.values()]
        if isinstance(walk, Sweep) and not walk.ended:
            return []
        now = Counter(keys)
        found = walk.rows if walk.ended else {key: max(now[key], walk.rows[key]) for key in now}
        added = Counter({key: count - given[key] for key, count in found.items() if count > given[key]})
        given.update(added)
        return [cast("T", key) for key in added.elements() if not isinstance(key, _Unreadable)]

    async def _next_page(self) -> Rows[T] | Exception:
        """Return the page that the walk needs, and fetch further ones of the window together with it."""
        walk, window = self._walk.now, self._listing.window
        at = walk.number, walk.size
        if at not in self._fetched:
            self._fetched.clear()
            numbers = walk.ahead(window if window == 1 else window * _WINDOWS)
            waiting = iter(numbers)
            if len(numbers) == 1:
                await self._fetch_pages(waiting, walk.size)
            else:
                async with anyio.create_task_group() as group:
                    for _ in range(min(window, len(numbers))):
                        group.start_soon(self._fetch_pages, waiting, walk.size)
        return self._fetched.pop(at)

    async def _fetch_pages(self, numbers: Iterator[int], size: int) -> None:
        """Fetch pages until one is not full: it may be the last."""
        for number in numbers:
            page: Rows[T] | Exception
            try:
                page = await self._listing.fetch(number, size, self._reported)
            except Exception as error:  # noqa: BLE001  # raised when it is the turn of the page
                page = error
            self._fetched[number, size] = page
            if isinstance(page, Exception) or page.rows < size:
                for _ in numbers:
                    # The other readers stop too.
                    pass

    def _report_end(self) -> None:
        """Log that the listing may have more records; raise with a strict client."""
        walk, name = self._walk, self._listing.listed.operation
        if isinstance(walk, Sweep) and walk.is_unstable:
            raise FeedProtocolError(f"{name}: the listing changed during each of many readings; read it later")
        if walk.up.ignores_offset:
            problem = (
                "every page of the listing is its first one: the service ignores `offset`, or something on the way"
                ' drops the bodies of GETs, which get_parameters="query" avoids'
            )
        elif isinstance(walk, Sweep) and not walk.complete:
            changes = "rows change their places or come several times, at each reading"
            reason = "the service cuts pages below ten rows, and skips the rest" if walk.cut else changes
            problem = f"no two passes agree, so the listing may have more records: {reason}"
        else:
            return
        if self._listing.strict:
            raise FeedProtocolError(f"{name}: {problem}")
        _logger.warning("%s: %s", name, problem)


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
