"""The pages of a scan: asked for one after another, again where that may help, and written down as they come."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import anyio

from freight_exchange.errors import FeedProtocolError, FreightExchangeError, LoginRejectedError
from freight_exchange.errors.transient import READ_ERRORS, is_transient, request_count, retry_delay
from freight_exchange.feed.core.observation import UNTOLD, Lately
from freight_exchange.feed.core.scanner import Scanner
from freight_exchange.feed.core.watermark import window_for
from freight_exchange.feed.journal import UnclearError
from freight_exchange.platform.clock import max_elapsed

if TYPE_CHECKING:
    from freight_exchange.feed.core.pacer import Pacer
    from freight_exchange.feed.journal import Journal, Look
    from freight_exchange.feed.source import Source
    from freight_exchange.models import RateRequest
    from freight_exchange.platform.clock import Clock, Reading
    from freight_exchange.wire import Rows

__all__ = ["PageFetcher"]

_logger = logging.getLogger("freight_exchange.feed")

_PAGES_OF_RECENT: Final = 20
_ONE_MOMENT: Final = 10.0
"""Seconds within which two looks count as one moment: shippers update requests between looks that are further apart."""


class PageFetcher:
    """Asks for the pages that scans wait for.

    Args:
        source: The service.
        journal: Where they are written down.
        clock: What says when a page was sent, and when it was there.
        pacer: How long to wait before a page is asked for again.
        expected: Seconds that a narrow scan is expected to take.
    """

    def __init__(
        self, source: Source, journal: Journal, clock: Clock, pacer: Pacer, expected: Callable[[], float]
    ) -> None:
        self._source = source
        self._journal = journal
        self._clock = clock
        self._pacer = pacer
        self._expected = expected

    async def take(self, look: Look) -> None:
        """Ask for the page that comes next, and write it down. Whoever is cancelled here can go on with it.

        Raises:
            FreightExchangeError: The page does not come, or says nothing; what came before it is written down.
        """
        restless = None
        # Whoever was cancelled while a page was being written down comes back to one that is.
        if look.unwritten is None and not look.scanner.ended:
            if look.scanner.unexplained:
                await self._next_recent(look)
            else:
                restless = await self._next_page(look)
        while look.unwritten is not None:
            try:
                await self._journal.page(look, *look.unwritten)
            except UnclearError:
                look.lately = await self._lately(look)
        if restless is not None:
            raise restless

    async def _next_page(self, look: Look) -> FreightExchangeError | None:
        """Ask for the next page, which is then unwritten; an error that ends the scan once it is written."""
        scanner, sent = look.scanner, self._clock.read()
        if not scanner.pages:
            look.began = sent
        page = await self._page(scanner, look.window)
        if page is not None or scanner.ended:
            look.unwritten = (page, sent, self._clock.read())
        if page is not None and page.failure is not None:
            # Its rows count; the page does not, and is asked for again.
            return None if await self._goes_on(scanner, page.failure) else page.failure
        try:
            if page is not None:
                scanner.take(page)
        except FeedProtocolError as error:
            return error
        return None

    async def _next_recent(self, look: Look) -> None:
        """Ask for a page of what was updated since the scan began: only what was there before must not slip past it.

        Once a page adds nothing, the scanner is told. Should that end the scan, the end is to be written down.
        """
        sent, (recent, number) = self._clock.read(), look.recent
        found = await self._recent(look, number)
        if not found <= recent:
            look.recent = (recent | found, number + 1)
            return
        look.recent = (frozenset(), 0)
        look.scanner.excuse(recent)
        if look.scanner.ended:
            look.unwritten = (None, sent, self._clock.read())

    async def _recent(self, look: Look, number: int) -> frozenset[int]:
        """What a page of what is recent lists; nothing where that cannot be told.

        It is asked for right after another page, which a limit of rate may refuse: one refusal must not cost a round
        through the whole listing.
        """
        while (window := self._window_since(look.began)) < look.window:
            try:
                page = await self._source.page(number, look.scanner.size, window)
                if page.failure is not None:
                    raise page.failure
            except LoginRejectedError:
                raise
            except READ_ERRORS as error:
                pause = self._pacer.again(sent=request_count(error), retry_after=retry_delay(error))
                if not is_transient(error) or pause is None:
                    _logger.debug("what is recent cannot be told: %s", error)
                    self._pacer.failed(anyio.current_time(), retry_delay(error))
                    break
                await anyio.sleep(pause)
            else:
                self._pacer.heard()
                return frozenset(record.index for record in page.records)
        return frozenset()

    def _window_since(self, began: Reading) -> int:
        elapsed = max_elapsed(began, self._clock.read())
        return window_for(elapsed, self._journal.state.allowance, self._expected())

    async def _lately(self, look: Look) -> Lately:
        """What was updated since the cover; an error where that fails."""
        state, now = self._journal.state, self._clock.read()
        window = window_for(state.cover.most(now), state.allowance, self._expected())
        scanner, listed = Scanner(self._journal.sizes), set[int]()
        until = anyio.current_time() + _ONE_MOMENT
        while not scanner.ended:
            if anyio.current_time() > until or window >= look.window or scanner.pages == _PAGES_OF_RECENT:
                return UNTOLD
            page = await self._page(scanner, window)
            if page is not None and page.failure is not None:
                if not await self._goes_on(scanner, page.failure):
                    raise page.failure
            elif page is not None:
                listed.update(record.index for record in page.records)
                scanner.take(page)
        return UNTOLD if scanner.offset_ignored else Lately(frozenset(listed), window)

    async def _page(self, scanner: Scanner, window: int) -> Rows[RateRequest] | None:
        """The page that the scanner waits for, or `None` where it goes on after an error in its place."""
        try:
            page = await self._source.page(scanner.number, scanner.size, window)
        except LoginRejectedError:
            raise
        except READ_ERRORS as error:
            if not await self._goes_on(scanner, error):
                raise
            return None
        if page.failure is None:
            self._pacer.heard()
        return page

    async def _goes_on(self, scanner: Scanner, error: FreightExchangeError) -> bool:
        pause = self._pacer.again(sent=request_count(error), retry_after=retry_delay(error))
        match scanner.fail(error):
            case "on":
                return True
            case "again" if pause is not None:
                await anyio.sleep(pause)
                return True
            case _:
                return False
