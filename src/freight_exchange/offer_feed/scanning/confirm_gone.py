"""Confirmation that offers are gone, by look-ups of their requests."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import anyio

from freight_exchange.errors import (
    READ_ERRORS,
    FreightExchangeError,
    LoginRejectedError,
    NotFoundError,
    is_from_login,
    retry_delay,
)
from freight_exchange.feed.core.absence.lookup_trust import LookupTrust
from freight_exchange.feed.core.absence.lookups import Denials

if TYPE_CHECKING:
    from freight_exchange.feed.core.planning.pacer import Pacer
    from freight_exchange.models import Listing
    from freight_exchange.offer_feed.core.scan import OfferScan
    from freight_exchange.offer_feed.scanning.journal import OfferJournal
    from freight_exchange.offer_feed.scanning.source import OfferSource
    from freight_exchange.platform.clock import Clock

__all__ = ["GoneCheck"]

_logger = logging.getLogger("freight_exchange.feed")

_MAX_LOOK_UPS: Final = 20
"""Maximum number of requests to look up after one scan; others wait until after the next one."""
_TRIES: Final = 3
"""Failed controls in a row that pause all look-ups; a single one may mean that its offer is gone since the scan."""


class GoneCheck:
    """Check by look-ups whether offers that scans have lacked are gone.

    A look-up that shows any offer always counts. A look-up without offers counts only after a successful control: a
    look-up that shows an offer which the scan has listed.

    Args:
        source: The service.
        journal: Journal of the feed.
        clock: Clock of the machine.
        pacer: Pace of the feed.
    """

    def __init__(self, source: OfferSource, journal: OfferJournal, clock: Clock, pacer: Pacer) -> None:
        self._source = source
        self._journal = journal
        self._clock = clock
        self._pacer = pacer
        self._failures: dict[int, int] = {}
        self._denials = Denials()
        self._trust = LookupTrust(_TRIES)

    async def look_up(self, scan: OfferScan) -> None:
        """Look up the requests of offers that enough scans have lacked, and commit the results.

        Args:
            scan: The last complete scan.

        Raises:
            LoginRejectedError: The service rejected the email or password. After other errors, the look-up is repeated
                after the next scan.
        """
        due = self._journal.to_look_up()
        self._failures = {index: failures for index, failures in self._failures.items() if index in due}
        self._denials.keep(due.keys())
        if anyio.current_time() < self._trust.resting_until:
            return
        listed = {index for index, _ in scan.offers} or scan.requests
        self._trust.begin(sorted(index for index in listed if index > 0))
        # Look-ups that failed before come last.
        for index in sorted(due, key=lambda index: self._failures.get(index, 0))[:_MAX_LOOK_UPS]:
            try:
                listing = await self._find(index)
                if not self._trust.is_given:
                    self._trust.is_given = _shows_an_offer(listing) or await self._finds_listed_offer(scan)
            except LoginRejectedError:
                raise
            except READ_ERRORS as error:
                self._failures[index] = self._failures.get(index, 0) + 1
                self._pacer.record_failure(anyio.current_time(), retry_delay(error))
                return
            if not self._trust.is_given:
                return
            if listing is None:
                await self._journal.record_denial(index, due[index], self._clock.read())
            else:
                await self._journal.record_find(listing, due[index], self._clock.read())

    async def _find(self, index: int) -> Listing | None:
        try:
            listing = await self._source.find(index)
        except READ_ERRORS as error:
            if not self._is_denied(index, error):
                raise
            listing = None
        self._denials.forget(index)
        return listing

    async def _finds_listed_offer(self, scan: OfferScan) -> bool:
        """Make a control: return whether a look-up shows a listed offer, or a listed request if no offer is listed."""
        control = self._trust.control
        found = await self._source.find(control)
        is_found = found is not None and (not scan.offers or _shows_an_offer(found))
        if self._trust.record_control(anyio.current_time(), is_found=is_found):
            _logger.warning(
                "the look-up of request %d found no offers although some are listed; no offer counts as gone until"
                " look-ups work",
                control,
            )
        return is_found

    def _is_denied(self, index: int, error: FreightExchangeError) -> bool:
        if not isinstance(error, NotFoundError) or is_from_login(error):
            self._denials.forget(index)
            return False
        return self._denials.record(index)


def _shows_an_offer(listing: Listing | None) -> bool:
    return listing is not None and bool(listing.offers)
