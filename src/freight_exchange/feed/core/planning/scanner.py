"""Scanner of one window: the next page to request, and the end of the scan. Pure.

Only a single page is a snapshot. A listing of several pages is read in passes up and down until nothing that was listed
all the time can be missing (`feed.paging_legacy.window_walk`). This module adds the handling of errors:

- An error in place of a page ends the listing only if a second walk ends at the same page.
- A page that fails for a transient reason is requested again.
- A service that refuses large pages, or fails at them, receives requests for smaller ones.
"""

from __future__ import annotations

from collections.abc import Hashable
from operator import attrgetter
from typing import Final, Generic, Literal, TypeVar

from freight_exchange.errors import (
    APIStatusError,
    FeedProtocolError,
    FreightExchangeError,
    RateLimitedError,
    is_from_login,
    is_transient,
)
from freight_exchange.feed.paging_legacy.page_sizes import MODEST_PAGE, SIZE_REFUSALS, PageSizes, size_below
from freight_exchange.feed.paging_legacy.window_walk import WindowWalk
from freight_exchange.wire import Rows

__all__ = ["OPERATION", "PAGE_SIZE", "Scanner"]

OPERATION: Final = "feed"
PAGE_SIZE: Final = 1000
"""Rows requested in a page. A large page is more often the whole window."""

_ATTEMPTS: Final = 3
_ATTEMPTS_IN_THE_MIDDLE: Final = 6
"""Failures after which a page other than the first counts as too large.

The listing is then read again from the start, so an outage of a minute or two must not be enough.
"""
_WALKS: Final = 4

_index = attrgetter("index")

T = TypeVar("T")


class Scanner(Generic[T]):
    """Scanner of one window. Until it has `ended`, `number` and `size` describe the page to request.

    Attributes:
        sizes: Known page sizes of the service; the scanner adds to them.
        number: Number of the page to request.
        attempts: Failed requests of that page.
        pages: Number of pages received.
        rows: Number of rows on them.
        ended: Whether the scan is complete: it cannot have missed anything that was listed all the time.
        offset_ignored: Whether the service returns its first page for each offset. Other pages were then not seen.
    """

    def __init__(self, sizes: PageSizes, page_size: int = PAGE_SIZE) -> None:
        self.sizes = sizes
        self._page_size = page_size
        self._walks = 0
        self._agreed: int | None = None
        self._refused = False
        self._end: int | None = None
        self.attempts = 0
        self.pages = 0
        self.rows = 0
        self.ended = False
        self.offset_ignored = False
        self._start_walk()

    @property
    def number(self) -> int:
        return self._walk.number

    @property
    def size(self) -> int:
        return self._walk.size

    @property
    def has_climbed(self) -> bool:
        """`True` once a pass up has received the page that ends the listing. An error in its place does not count."""
        return self._walk.descending and self._end is None

    @property
    def unexplained(self) -> frozenset[Hashable]:
        """Indexes that the last two passes, up and down, added, if they proved nothing.

        Unless all of them are recent updates, other requests may have been missed.
        """
        return self._walk.unexplained

    def excuse(self, recent: frozenset[int]) -> None:
        """Record the requests updated since the scan began. They move the listing, and the scan may miss them."""
        self._walk.excuse(recent)
        self._conclude()

    def take(self, page: Rows[T]) -> None:
        """Accept the requested page.

        Raises:
            FeedProtocolError: The listing changed during each of many passes, so its content is unknown.
        """
        self.attempts = 0
        self.pages += 1
        self.rows += len(page.records) + len(page.broken)
        if self._refused:
            self._refused = False
            self.sizes.record_refusal(OPERATION, self._page_size)
        if not self._walk.descending:
            self._end = None
        self._walk.take(page)
        if self._walk.is_unstable:
            raise FeedProtocolError("the listing changed during each of many passes, so its content is unknown")
        self._conclude()

    def fail(self, error: FreightExchangeError) -> Literal["repeat", "continue", "give up"]:
        """Record an error in place of the page, and return what to do next.

        Returns:
            `repeat`: request the page again after a pause. `continue`: request the page that is now `number`.
            `give up`: the scan fails.
        """
        if is_from_login(error):
            self.attempts += 1
            return "repeat" if is_transient(error) and self.attempts < _ATTEMPTS else "give up"
        smaller = size_below(self._walk.size)
        if smaller is not None and self._is_size_refusal(error):
            self._page_size = smaller
            self._refused = True
            self._start_walk()
            return "continue"
        number, climbing = self._walk.number, not self._walk.descending
        if self._walk.beyond(error):
            self.attempts = 0
            self._end = number if climbing else self._end
            self._conclude()
            return "continue"
        self.attempts += 1
        if is_transient(error) and self.attempts < _ATTEMPTS:
            return "repeat"
        if self._may_be_too_large(error):
            # Failures do not prove that the size is refused: the next scan requests large pages again.
            self._page_size = MODEST_PAGE
            self._agreed = None
            self._start_walk()
            return "repeat"
        return "give up"

    def _start_walk(self) -> None:
        self._walks += 1
        self._end = None
        self._walk: WindowWalk[T] = WindowWalk(OPERATION, self.sizes, self._page_size, _index)

    def _conclude(self) -> None:
        if not self._walk.ended:
            return
        self.offset_ignored = self._walk.offset_ignored
        if self._end is None or self._end == self._agreed:
            self.ended = True
        elif self._walks < _WALKS:
            # The listing may go on after the error: a second walk has to end at the same page.
            self._agreed = self._end
            self._start_walk()
        else:
            raise FeedProtocolError("each pass through the listing ended with an error at a different page")

    @property
    def _is_first_request(self) -> bool:
        return self._walk.number == 0 and self.pages == 0

    def _is_size_refusal(self, error: FreightExchangeError) -> bool:
        return self._is_first_request and isinstance(error, APIStatusError) and error.status in SIZE_REFUSALS

    def _may_be_too_large(self, error: FreightExchangeError) -> bool:
        """Return whether the service may have failed because of the page size.

        A large page may be too slow for a gateway, perhaps only from some offset on, or its reply may be cut off.
        """
        large = self._walk.size > MODEST_PAGE and self.attempts >= _ATTEMPTS_IN_THE_MIDDLE
        return large and is_transient(error) and not isinstance(error, RateLimitedError)
