"""Confirmation of withdrawals: look-ups of the requests that scans lack."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import anyio

from freight_exchange.errors import LoginRejectedError, NotFoundError
from freight_exchange.errors.transient import READ_ERRORS, is_from_login, is_transient, request_count, retry_delay
from freight_exchange.feed.core.lookups import SCANS_THAT_MISS, Lookups

if TYPE_CHECKING:
    from freight_exchange.feed.core.active_scan import ActiveScan
    from freight_exchange.feed.core.pacer import Pacer
    from freight_exchange.feed.scanning.journal import Journal
    from freight_exchange.feed.scanning.source import Source
    from freight_exchange.platform.clock import Clock

__all__ = ["WithdrawalCheck"]

_logger = logging.getLogger("freight_exchange.feed")


class WithdrawalCheck:
    """Looks up requests that scans have lacked.

    Args:
        source: The service.
        journal: Journal of the feed.
        clock: Clock of the machine.
        pacer: Pace of the feed: a scan comes first.
    """

    def __init__(self, source: Source, journal: Journal, clock: Clock, pacer: Pacer) -> None:
        self._source = source
        self._journal = journal
        self._clock = clock
        self._pacer = pacer
        self._lookups = Lookups()

    @property
    def has_time(self) -> bool:
        """Presence of requests to look up, and of time for them."""
        now = anyio.current_time()
        return bool(self._lookups) and self._pacer.quiet_until <= now < self._pacer.due

    def note_scan(self, scan: ActiveScan) -> bool:
        """Note what a complete scan lacked; return whether another one has to lack it as well."""
        state = self._journal.state
        long_ago = state.watermark.time_at(self._clock.read()) - state.allowance
        self._lookups.update(scan.missing, scan.indexes, long_ago=long_ago)
        return any(row.missed_scans < SCANS_THAT_MISS for row in scan.missing)

    async def look_up(self) -> None:
        """Look up what complete scans lacked, until a scan is due; what the service does not know is withdrawn."""
        while self._lookups:
            await self._look_up_one()
            if not self.has_time:
                break

    async def _look_up_one(self) -> None:
        row = self._lookups.next_row()
        try:
            if row.index <= 0:
                # It can be listed, and cannot be asked for.
                await self._journal.record_silence(row)
            elif (record := await self._source.find(row.index)) is None:
                await self._journal.record_withdrawal(row, self._clock.read())
            else:
                await self._journal.record_find(record, self._clock.read())
        except LoginRejectedError:
            raise
        except READ_ERRORS as error:
            if isinstance(error, NotFoundError) and not is_from_login(error):
                # It does not say of what: a gateway's own page, perhaps, while the service behind it is away.
                self._pacer.record_reply()
                if not self._lookups.record_denial(row.index):
                    return
                await self._journal.record_withdrawal(row, self._clock.read())
            elif is_transient(error) or is_from_login(error):
                _logger.debug(
                    "the look-up of request %d failed: %s; trying again after the next scan", row.index, error
                )
                self._lookups.record_failure(row.index)
                self._lookups.pause()
                # The scan before it counts as well: they would be two in an interval.
                self._pacer.repeat_delay(sent=1 + request_count(error))
                self._pacer.record_failure(anyio.current_time(), retry_delay(error))
                return
            elif self._lookups.record_failure(row.index):
                await self._journal.record_silence(row)
            else:
                # Trouble may refuse a question as well, and pass.
                return
        else:
            self._pacer.record_reply()
        self._lookups.close(row.index)
