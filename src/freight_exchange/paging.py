"""Listings, page by page: await one page, iterate the records, iterate the pages (service document, section 4).

The service pages by number and size, clamps sizes silently, and lists change while they are read. What a page says
about the listing is worked out by `Pass`, which is pure; the rest fetches.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Hashable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, overload

import attrs

from freight_exchange.errors import APIStatusError, FeedProtocolError, FreightExchangeError

if TYPE_CHECKING:
    from freight_exchange.transport.tasks import Job, Jobs

__all__ = ["Page", "PageSizes", "Paginator"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

DEFAULT_PAGE_SIZE = 100
"""Rows asked for in a page unless told."""

MOST_PASSES = 32
"""Passes that a sweep makes before it says that the listing never stands still."""


@attrs.frozen
class Page(Sequence[T_co]):
    """The records that one page added to a listing.

    Attributes:
        records: They, without those that earlier pages brought.
        number: The page's number, from 0: the service's `offset`.
        page_size: The rows that were asked for: what a later `pages(start=number + 1)` has to ask for as well.
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


class Rows(Protocol[T_co]):
    """One page as it came: records, and rows that could not be read but count as rows."""

    @property
    def records(self) -> Sequence[T_co]: ...
    @property
    def broken(self) -> Sequence[Exception]: ...


class PageSizes:
    """What the server makes of the page sizes that it is asked for, per operation; shared by a client's listings."""

    def __init__(self) -> None:
        self._longest: dict[str, int] = {}
        self._clamp: dict[str, int] = {}

    def longest(self, operation: str) -> int:
        """The most rows that one page ever held: the server is known to give that many."""
        return self._longest.get(operation, 0)

    def to_ask(self, operation: str, wanted: int) -> int:
        """The page size to ask for: what is wanted, or what the server would make of it."""
        return min(wanted, self._clamp.get(operation, wanted))

    def saw(self, operation: str, rows: int) -> None:
        self._longest[operation] = max(rows, self.longest(operation))

    def clamped(self, operation: str, rows: int) -> None:
        """A page was cut to `rows`, and more followed."""
        self._clamp[operation] = rows


class Pass(Generic[T]):
    """One pass over a listing: what each page adds, and which page is next. Pure.

    Args:
        operation: The name under which page sizes are known.
        sizes: What is known of them; learned from as the pass goes on.
        page_size: The rows wanted in a page; `None` for a listing that has no pages.
        identity: What makes a record the same record in two pages; `None` where two records may be alike.
        start: The first page's number.
        known: The identities that earlier passes brought.
        down_from: For a pass that goes backwards: the last page that the pass before it found.
    """

    def __init__(
        self,
        operation: str,
        sizes: PageSizes,
        page_size: int | None,
        identity: Callable[[T], Hashable] | None,
        *,
        start: int = 0,
        known: set[Hashable] | None = None,
        down_from: int | None = None,
    ) -> None:
        self._operation = operation
        self._sizes = sizes
        self._identity = identity
        self._down_from = down_from
        self._descending = False
        self._probing: int | None = None
        self._twins: Counter[Hashable] = Counter()
        self._pages: set[Hashable] = set()
        self._broken: set[Hashable] = set()
        self.seen: set[Hashable] = set()
        self.known = self.seen if known is None else known
        self.repeats = 0
        self._paged = page_size is not None
        self.size = 0 if page_size is None else sizes.to_ask(operation, page_size)
        self.number = start if down_from is None else down_from + 1
        self.last = start
        self.ended = False

    @property
    def settled(self) -> bool:
        """Whether the size asked for is known to be honoured, so that later pages can be asked for ahead."""
        return (
            self._down_from is None
            and self._probing is None
            and self._sizes.longest(self._operation) >= self.size
        )

    def take(self, rows: Rows[T]) -> tuple[T, ...]:
        """Take in the page that was asked for; what it adds. Afterwards `number` and `size` are the next page's."""
        if self._down_from is not None:
            return self._take_backwards(rows)
        count = len(rows.records) + len(rows.broken)
        fresh, unseen = self._sift(rows)
        if not (unseen and self._paged):
            # Empty, or the last page over again, or an ignored offset: nothing in it is new to this pass.
            self.ended = True
            return fresh
        if self._probing is not None:
            self._sizes.clamped(self._operation, self._probing)
            self._probing = None
        self.last = self.number
        longest = self._sizes.longest(self._operation)
        self._sizes.saw(self._operation, count)
        if count >= self.size:
            self.number += 1
        elif count < longest or self.number > 0:
            self.ended = True
        else:
            # Shorter than asked, and no page was ever longer: the end, or the most that the server gives. The next
            # page in this very size tells, and is the right one under either reading.
            self._probing = self.size = count
            self.number = 1
        return fresh

    def beyond(self, error: FreightExchangeError) -> bool:
        """Whether the error, in place of a page, is how this server says that there is no such page."""
        if self.number == 0 or error.status not in (400, 404):
            return False
        if self._down_from is None:
            self.ended = True
        else:
            self._descend()
        return True

    def _take_backwards(self, rows: Rows[T]) -> tuple[T, ...]:
        if not self._descending and not self._anything_unknown(rows):
            self._descend()
            return ()
        fresh, _ = self._sift(rows)
        if self._descending:
            self._descend()
        else:
            # The listing has grown since the last pass: its end is further on.
            self.last = self.number
            self.number += 1
        return fresh

    def _descend(self) -> None:
        if not self._descending:
            self._descending = True
            self.number = self._down_from or 0
            self.last = max(self.last, self.number)
        elif self.number == 0:
            self.ended = True
        else:
            self.number -= 1

    def _anything_unknown(self, rows: Rows[T]) -> bool:
        twins = self._twins.copy()
        unknown = any(self._key(record) not in self.known for record in rows.records)
        self._twins = twins
        return unknown

    def _sift(self, rows: Rows[T]) -> tuple[tuple[T, ...], bool]:
        """The records that no pass brought yet, and whether anything in the page is new to this pass."""
        if self._identity is None:
            page = (*map(repr, rows.records), *map(_what_is_broken, rows.broken))
            if page in self._pages:
                return (), False
            self._pages.add(page)
        fresh: list[T] = []
        unseen = False
        for record in rows.records:
            key = self._key(record)
            if key in self.seen:
                self.repeats += 1
                continue
            unseen = True
            if key not in self.known:
                fresh.append(record)
                self.known.add(key)
            self.seen.add(key)
        for error in rows.broken:
            what = _what_is_broken(error)
            unseen = unseen or what not in self._broken
            self._broken.add(what)
        return tuple(fresh), unseen

    def _key(self, record: T) -> Hashable:
        if self._identity is not None:
            return self._identity(record)
        # Two records alike are two, not one twice: the second of a kind is told from the first.
        whole = repr(record)
        self._twins[whole] += 1
        return whole, self._twins[whole]


def _what_is_broken(error: Exception) -> Hashable:
    return type(error).__name__, str(error), repr(getattr(error, "raw", None))


FetchPage = Callable[[int, int], Awaitable[Rows[T]]]
"""Fetches the page with this number in this size."""


class Paginator(Generic[T]):
    """A listing: `async for record in listing`, `async for page in listing.pages()`, `await listing` (its first page).

    One pass yields nothing twice. When rows leave a moving list between two pages, a pass can skip some: with
    `sweep=True` it passes again, forwards and backwards in turn, until two passes agree. `window` pages are in
    flight at a time.
    """

    def __init__(
        self,
        fetch: FetchPage[T],
        *,
        operation: str,
        sizes: PageSizes,
        jobs: Callable[[], Jobs],
        identity: Callable[[T], Hashable] | None,
        page_size: int | None,
        window: int = 1,
        sweep: bool = False,
    ) -> None:
        self._fetch = fetch
        self._operation = operation
        self._sizes = sizes
        self._jobs = jobs
        self._identity = identity
        self._page_size = page_size
        self._window = window
        self._sweep = sweep

    def __repr__(self) -> str:
        return f"<Paginator {self._operation}>"

    def __await__(self) -> Generator[Any, None, Page[T]]:
        return self._first_page().__await__()

    def __aiter__(self) -> AsyncIterator[T]:
        return _Records(self.pages())

    def pages(self, *, start: int = 0) -> Pages[T]:
        """The listing's pages, from number `start` on; pages that add nothing are left out."""
        return Pages(self, start)

    async def collect(self) -> list[T]:
        """Every record, in a list."""
        return [record async for record in self]

    async def first(self) -> T | None:
        """The first record, or `None` if there is none."""
        async for record in self:
            return record
        return None

    async def _first_page(self) -> Page[T]:
        first = self._pass()
        size = first.size
        return Page(first.take(await self._fetch(0, size)), 0, size)

    def _pass(
        self, *, start: int = 0, known: set[Hashable] | None = None, down_from: int | None = None
    ) -> Pass[T]:
        return Pass(
            self._operation,
            self._sizes,
            self._page_size,
            self._identity,
            start=start,
            known=known,
            down_from=down_from,
        )


class Pages(AsyncIterator[Page[T]]):
    """The pages of a listing as they come. Leaving it, by `break` or `aclose()`, cancels those in flight.

    It is no generator: what a loop left by `break` has open would be closed whenever the collector comes by, and
    trio warns of it.
    """

    def __init__(self, listing: Paginator[T], start: int) -> None:
        self._listing = listing
        self._ahead: deque[tuple[int, Job[Rows[T]]]] = deque()
        self._pass = listing._pass(start=start)
        self._passes = 1
        self._agreed: set[Hashable] | None = None
        self._finished = False

    def __aiter__(self) -> Pages[T]:
        return self

    async def __anext__(self) -> Page[T]:
        while not self._finished:
            current = self._pass
            number, size = current.number, current.size
            try:
                rows = await self._rows(current)
            except APIStatusError as error:
                self._cancel_ahead()
                if not current.beyond(error):
                    raise
                fresh: tuple[T, ...] = ()
            else:
                fresh = current.take(rows)
            if current.ended:
                self._cancel_ahead()
                self._after(current)
            if fresh:
                return Page(fresh, number, size)
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Stop: nothing more is fetched."""
        self._finished = True
        self._cancel_ahead()

    def __del__(self) -> None:
        self._cancel_ahead()

    async def _rows(self, current: Pass[T]) -> Rows[T]:
        """The page that the pass is waiting for; where its size is sure to be honoured, later ones are asked for too."""
        listing = self._listing
        if listing._window == 1 or not current.settled:
            return await listing._fetch(current.number, current.size)
        while len(self._ahead) < listing._window:
            number = self._ahead[-1][0] + 1 if self._ahead else current.number
            self._ahead.append((number, listing._jobs().start(partial(listing._fetch, number, current.size))))
        rows = await self._ahead[0][1].wait()
        self._ahead.popleft()
        return rows

    def _cancel_ahead(self) -> None:
        while self._ahead:
            self._ahead.popleft()[1].end()

    def _after(self, done: Pass[T]) -> None:
        """A pass has ended: so has the listing, or another pass the other way round follows."""
        single = done.last == 0
        agreed = self._agreed is not None and done.seen == self._agreed and done.repeats == 0
        if not self._listing._sweep or single or agreed:
            self._finished = True
            return
        if self._passes == MOST_PASSES:
            raise FeedProtocolError(
                f"the listing changed during each of {MOST_PASSES} passes: what it holds cannot be told"
            )
        self._agreed = done.seen
        self._passes += 1
        self._pass = self._listing._pass(
            known=done.known, down_from=done.last if self._passes % 2 == 0 else None
        )


class _Records(AsyncIterator[T]):
    """The records of a listing, one by one."""

    def __init__(self, pages: Pages[T]) -> None:
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
        """Stop: nothing more is fetched."""
        await self._pages.aclose()
