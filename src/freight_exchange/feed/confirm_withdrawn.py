"""Finding out what became of the requests that scans lack: withdrawn is what the service knows no longer."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import anyio

from freight_exchange.errors import LoginRejectedError, NotFoundError
from freight_exchange.errors.transient import READ_ERRORS, is_from_login, is_transient, request_count, retry_delay
from freight_exchange.feed.core.lookups import SCANS_THAT_MISS, Lookups

if TYPE_CHECKING:
    from freight_exchange.feed.core.pacer import Pacer
    from freight_exchange.feed.journal import Journal, Look
    from freight_exchange.feed.source import Source
    from freight_exchange.platform.clock import Clock

__all__ = ["WithdrawalCheck"]

_logger = logging.getLogger("freight_exchange.feed")


class WithdrawalCheck:
    """Looks up by its index what scans have lacked.

    Args:
        source: The service.
        journal: Where it is written down.
        clock: What says when that was.
        pacer: Until when there is time: a scan comes first.
    """

    def __init__(self, source: Source, journal: Journal, clock: Clock, pacer: Pacer) -> None:
        self._source = source
        self._journal = journal
        self._clock = clock
        self._pacer = pacer
        self._lookups = Lookups()

    @property
    def has_time(self) -> bool:
        """Whether there is something to look up, and time for it."""
        now = anyio.current_time()
        return bool(self._lookups) and self._pacer.quiet_until <= now < self._pacer.due

    def saw(self, look: Look) -> bool:
        """Take note of what a complete scan lacked; whether another one has to lack it as well."""
        state = self._journal.state
        long_ago = state.cover.time_at(self._clock.read()) - state.allowance
        self._lookups.saw(look.missing, look.indexes, long_ago=long_ago)
        return any(row.missed_scans < SCANS_THAT_MISS for row in look.missing)

    async def look_up(self) -> None:
        """Look up what complete scans lacked, until a scan is due: withdrawn is what the service knows no longer."""
        while self._lookups:
            await self._look_up_one()
            if not self.has_time:
                break

    async def _look_up_one(self) -> None:
        row = self._lookups.next()
        try:
            if row.index <= 0:
                # It can be listed, and cannot be asked for.
                await self._journal.untold(row)
            elif (record := await self._source.find(row.index)) is None:
                await self._journal.withdrawn(row, self._clock.read())
            else:
                await self._journal.found(record, self._clock.read())
        except LoginRejectedError:
            raise
        except READ_ERRORS as error:
            if isinstance(error, NotFoundError) and not is_from_login(error):
                # It does not say of what: a gateway's own page, perhaps, while the service behind it is away.
                self._pacer.heard()
                if not self._lookups.denied(row.index):
                    return
                await self._journal.withdrawn(row, self._clock.read())
            elif is_transient(error) or is_from_login(error):
                _logger.debug("what became of request %d cannot be told: %s", row.index, error)
                self._lookups.failed(row.index)
                self._lookups.rest()
                # The scan before it counts as well: they would be two in an interval.
                self._pacer.again(sent=1 + request_count(error))
                self._pacer.failed(anyio.current_time(), retry_delay(error))
                return
            elif self._lookups.failed(row.index):
                await self._journal.untold(row)
            else:
                # Trouble may refuse a question as well, and pass.
                return
        else:
            self._pacer.heard()
        self._lookups.done(row.index)
