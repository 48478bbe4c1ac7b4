"""Confirmation of withdrawals: look-ups of the requests that scans lack."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Final

import anyio

from freight_exchange.errors import (
    READ_ERRORS,
    AuthenticationError,
    LoginRejectedError,
    NotFoundError,
    is_from_login,
    is_transient,
    request_count,
    retry_delay,
)
from freight_exchange.feed.core.absence.lookup_trust import LookupTrust
from freight_exchange.feed.core.absence.lookups import Lookups
from freight_exchange.feed.core.watermark import WIDEST

if TYPE_CHECKING:
    from freight_exchange.errors import FreightExchangeError
    from freight_exchange.feed.core.planning.active_scan import ActiveScan
    from freight_exchange.feed.core.planning.pacer import Pacer
    from freight_exchange.feed.scanning.journal import ScanJournal
    from freight_exchange.feed.scanning.source import Source
    from freight_exchange.platform.clock import Clock

__all__ = ["WithdrawalCheck"]

_logger = logging.getLogger("freight_exchange.feed")

_APART: Final = 0.8
"""Minimum number of intervals from the first scan that lacks a request to the last one."""
_TRIES: Final = 1
"""Failed controls in a row that pause all look-ups."""
_LATE_LOOKUPS: Final = 2
"""Look-ups made after each scan even if the next scan is due already: a control, and one of a missing request."""


class WithdrawalCheck:
    """Check by look-ups whether requests that scans have lacked are withdrawn.

    Args:
        source: The service.
        journal: Journal of the feed.
        clock: Clock of the machine.
        pacer: Pace of the feed; scans have priority over look-ups.
    """

    def __init__(self, source: Source, journal: ScanJournal, clock: Clock, pacer: Pacer) -> None:
        self._source = source
        self._journal = journal
        self._clock = clock
        self._pacer = pacer
        self._lookups = Lookups(_APART * pacer.interval)
        self._listed: list[int] = []
        self._trust = LookupTrust(_TRIES)
        self._late_lookups_left = 0

    @property
    def due(self) -> float:
        """Time of the next look-up on the loop's clock; infinity if there is none, or a scan is due before it."""
        now = anyio.current_time()
        due = max(now, self._pacer.quiet_until, self._trust.resting_until)
        is_in_time = due < self._pacer.due or (self._late_lookups_left > 0 and due == now)
        return due if self._lookups and is_in_time else math.inf

    def record_listed(self, scan: ActiveScan) -> None:
        """Record the requests that any scan listed, even a failed one: they need no look-up any more."""
        self._lookups.close_listed(scan.indexes)

    def record_scan(self, scan: ActiveScan) -> bool:
        """Record the requests that a complete scan lacked; return whether some need a second scan to confirm that."""
        state = self._journal.state
        is_doubtful = self._lookups.update(
            scan.missing,
            began=state.watermark.time_at(scan.began),
            before=scan.watermark.time,
            long_ago=state.watermark.time_at(self._clock.read()) - state.allowance,
        )
        if scan.indexes or scan.window >= WIDEST:
            # The newest first, since few of them are withdrawn meanwhile. Look-ups may not find requests yet that only
            # this scan has seen.
            self._listed = sorted((index for index in scan.known or scan.indexes if index > 0), reverse=True)
        self._listed = [index for index in self._listed if index not in self._lookups]
        self._trust.begin(self._listed)
        self._late_lookups_left = _LATE_LOOKUPS
        return is_doubtful

    async def look_up(self) -> None:
        """Look up missing requests until a scan is due; record those that the service denies as withdrawn."""
        while self.due <= anyio.current_time():
            # Counted before the request: a reader who leaves before each answer must not hold up the scans.
            self._late_lookups_left -= 1
            await (self._look_up_one() if self._trust.is_given else self._look_up_control())

    async def _look_up_control(self) -> None:
        index, is_found = self._trust.control, False
        try:
            is_found = await self._source.find(index) is not None
        except LoginRejectedError:
            raise
        except READ_ERRORS as error:
            if _is_outage(error) or isinstance(error, AuthenticationError):
                self._record_failure(index, error)
        else:
            self._pacer.record_reply()
        if self._trust.record_control(anyio.current_time(), is_found=is_found):
            _logger.warning(
                "the look-up of request %d found nothing although it is listed; nothing counts as withdrawn until a"
                " look-up works",
                index,
            )

    async def _look_up_one(self) -> None:
        row = self._lookups.next_row()
        try:
            if row.index <= 0:
                # It is listed, but this index cannot be looked up.
                await self._journal.record_unprovable(row)
            elif (record := await self._source.find(row.index)) is not None:
                await self._journal.record_find(record, self._clock.read())
            else:
                await self._journal.record_withdrawal(row, self._clock.read())
        except LoginRejectedError:
            raise
        except READ_ERRORS as error:
            if isinstance(error, NotFoundError) and not is_from_login(error):
                # A bare 404 may be the page of a gateway whose service is down.
                self._pacer.record_reply()
                if not self._lookups.record_denial(row.index):
                    return
                await self._journal.record_withdrawal(row, self._clock.read())
            elif _is_outage(error):
                self._lookups.record_failure(row.index, is_refusal=False)
                self._record_failure(row.index, error)
                return
            elif self._lookups.record_failure(row.index, is_refusal=True):
                await self._journal.record_unprovable(row)
            else:
                # The refusal may be a transient failure: retry after the next scan.
                if isinstance(error, AuthenticationError):
                    # The refused token cost a login and a second look-up.
                    self._record_failure(row.index, error)
                return
        else:
            self._pacer.record_reply()
        self._lookups.close(row.index)

    def _record_failure(self, index: int, error: FreightExchangeError) -> None:
        _logger.debug("the look-up of request %d failed: %s; retrying after the next scan", index, error)
        self._lookups.pause()
        # The pause counts the scan too: look-up and scan are two requests in one interval.
        self._pacer.repeat_delay(sent=1 + request_count(error))
        self._pacer.record_failure(anyio.current_time(), retry_delay(error))


def _is_outage(error: FreightExchangeError) -> bool:
    return is_transient(error) or is_from_login(error)
