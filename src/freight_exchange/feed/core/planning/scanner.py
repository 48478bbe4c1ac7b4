"""One scan of a window: the next page to request, and the end of the scan. Pure.

Only a single page is a snapshot. A listing of several is walked up and down until nothing that was there all the time
can be missing (`paging.window_walk`). This module adds what a watcher needs: an error in place of a page ends the
listing only if a second walk meets it as well, a page that fails for a transient reason is repeated, and a service that
refuses large pages, or fails at them, is asked for smaller ones.
"""

from __future__ import annotations

from collections.abc import Hashable
from operator import attrgetter
from typing import Final, Generic, Literal, TypeVar

from freight_exchange.errors import APIStatusError, FeedProtocolError, FreightExchangeError, RateLimitedError
from freight_exchange.errors.transient import is_from_login, is_transient
from freight_exchange.paging import PageSizes
from freight_exchange.paging.page_sizes import SIZE_REFUSALS, size_below
from freight_exchange.paging.window_walk import WindowWalk
from freight_exchange.wire import Rows

__all__ = ["MODEST_PAGE", "OPERATION", "PAGE_SIZE", "Scanner"]

OPERATION: Final = "feed"
PAGE_SIZE: Final = 1000
"""Rows requested in a page: the more a page holds, the more often it is the whole window."""

MODEST_PAGE: Final = 100
_ATTEMPTS: Final = 3
_ATTEMPTS_IN_THE_MIDDLE: Final = 6
"""Failures after which a later page counts as too large, though the first ones came. The listing is then read again, so
an outage of a minute or two must not be enough."""
_WALKS: Final = 4

_index = attrgetter("index")

T = TypeVar("T")


class Scanner(Generic[T]):
    """One scan: `number` and `size` name the page that it waits for, until it has `ended`.

    Attributes:
        sizes: What is known of the service's page sizes; the scan adds to it.
        number: The page to request.
        attempts: Failed requests of that page.
        pages: How many pages have come.
        rows: How many rows were on them.
        ended: Whether nothing that was listed all the time can have been missed.
        offset_ignored: Whether the service returns its first page for each offset: only that one was seen.
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
        """`True` once the way up has come to a page that ends the listing; an error in its place does not."""
        return self._walk.descending and self._end is None

    @property
    def unexplained(self) -> frozenset[Hashable]:
        """Indexes that the last round through the listing added, if it proved nothing.

        If not all of them are recent, more may have slipped past.
        """
        return self._walk.unexplained

    def excuse(self, recent: frozenset[int]) -> None:
        """Record what was updated since the scan began: it moves the listing, and need not have been seen."""
        self._walk.excuse(recent)
        self._conclude()

    def take(self, page: Rows[T]) -> None:
        """Accept the requested page.

        Raises:
            FeedProtocolError: The listing changed during every one of many passes: its content is unknown.
        """
        self.attempts = 0
        self.pages += 1
        self.rows += len(page.records) + len(page.broken)
        if self._refused:
            self._refused = False
            self.sizes.refused(OPERATION, self._page_size)
        if not self._walk.descending:
            self._end = None
        self._walk.take(page)
        if self._walk.is_unstable:
            raise FeedProtocolError("the listing changed during every one of many passes: its content is unknown")
        self._conclude()

    def fail(self, error: FreightExchangeError) -> Literal["again", "on", "lost"]:
        """Decide after an error in place of the page: repeat it after a pause, continue with another page, or give
        up."""
        if is_from_login(error):
            self.attempts += 1
            return "again" if is_transient(error) and self.attempts < _ATTEMPTS else "lost"
        smaller = size_below(self._walk.size)
        if smaller is not None and self._refused_size(error):
            self._page_size = smaller
            self._refused = True
            self._start_walk()
            return "on"
        number, climbing = self._walk.number, not self._walk.descending
        if self._walk.beyond(error):
            self.attempts = 0
            self._end = number if climbing else self._end
            self._conclude()
            return "on"
        self.attempts += 1
        if is_transient(error) and self.attempts < _ATTEMPTS:
            return "again"
        if self._may_be_too_much(error):
            # The size was learned from failures only: the next scan requests large pages again.
            self._page_size = MODEST_PAGE
            self._agreed = None
            self._start_walk()
            return "again"
        return "lost"

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
            # An error where the listing may go on: a second walk has to meet it in the same place.
            self._agreed = self._end
            self._start_walk()
        else:
            raise FeedProtocolError("every walk through the listing ended by an error, each in another place")

    @property
    def _begins(self) -> bool:
        return self._walk.number == 0 and self.pages == 0

    def _refused_size(self, error: FreightExchangeError) -> bool:
        return self._begins and isinstance(error, APIStatusError) and error.status in SIZE_REFUSALS

    def _may_be_too_much(self, error: FreightExchangeError) -> bool:
        """Return whether the service may have failed because of the size.

        It may be too slow for a gateway, perhaps only from some offset on, or its reply ends early.
        """
        large = self._walk.size > MODEST_PAGE and self.attempts >= _ATTEMPTS_IN_THE_MIDDLE
        return large and is_transient(error) and not isinstance(error, RateLimitedError)
