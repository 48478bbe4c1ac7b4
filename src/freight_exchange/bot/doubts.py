"""Offers of which nobody knows whether the service took them: looked for until that is known, or a person is needed."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

import anyio

from freight_exchange.bot.own_bids import PASSING
from freight_exchange.errors import ValidationError
from freight_exchange.models import Applied, Bid, NotApplied, StillUnknown

if TYPE_CHECKING:
    from freight_exchange.bot.entry import Entry, State
    from freight_exchange.bot.tally import Tally
    from freight_exchange.client import FreightExchange
    from freight_exchange.models import Reconciliation

__all__ = ["Doubts"]

_logger = logging.getLogger("freight_exchange.bot")

_LOOKS: Final = 3
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
_AT_A_TIME: Final = 4
"""Looking reads whole listings: a crowd of doubts waits for its turn."""


class _Advance(Protocol):
    def __call__(self, entry: Entry, state: State, *, step: str | None = None, **facts: Any) -> Awaitable[Entry]: ...


class Doubts:
    """The offers that are `unknown`."""

    def __init__(
        self,
        exchange: FreightExchange,
        advance: _Advance,
        tally: Tally,
        *,
        settle: timedelta,
    ) -> None:
        self._exchange = exchange
        self._advance = advance
        self._tally = tally
        self._settle = settle
        self._places = anyio.CapacityLimiter(_AT_A_TIME)
        self._open: dict[str, Entry] = {}

    def about(self, request: int | None) -> Literal["looked for", "parked"] | None:
        """Whether an offer on the request is in doubt."""
        found = [entry for entry in self._open.values() if entry.request == request]
        if not found:
            return None
        return "looked for" if any(not entry.parked for entry in found) else "parked"

    def entries(self) -> tuple[Entry, ...]:
        """Those in doubt now, the oldest first."""
        return tuple(sorted(self._open.values(), key=lambda entry: (entry.at, entry.key)))

    def take_up(self, entry: Entry) -> None:
        """Count it among those in doubt; `resolve` follows."""
        self._open[entry.key] = entry

    async def resolve(self, entry: Entry) -> None:
        """Look for the offer until it is found, or proven not to be there, or nothing can be proven."""
        while not entry.parked:
            found = await self._look(entry)
            # A person may have been quicker: then this is no doubt any more, or another one of the same offer, of which
            # what was seen before it says nothing.
            if not self._take(entry):
                return
            match found:
                case Applied(record=Bid() as bid):
                    await self._close(entry, "confirmed", bid=bid, why="it was found among the own bids")
                    return
                case NotApplied():
                    await self._close(entry, "intent", why="it was not taken, and will be made again")
                    return
                case _:
                    looks = entry.looks + 1
                    entry = await self._noted(entry, "unknown", looks=looks, parked=looks >= _LOOKS)
                    self._open[entry.key] = entry
        _logger.critical(
            "nobody can tell whether %s was taken: look at the service's own pages, and resolve it by hand",
            entry,
            extra={"request": entry.request, "revision": entry.revision, "amount": str(entry.amount)},
        )

    async def decide(self, entry: Entry, *, bid: Bid | None) -> None:
        """End a doubt as a person says: with the bid that was taken, or as not taken.

        Raises:
            ValidationError: It is in doubt no more.
        """
        if not self._take(entry):
            raise ValidationError(f"{entry} is not in doubt", field="request")
        if bid is None:
            await self._close(entry, "intent", why="a person says that it was not taken")
        else:
            await self._close(entry, "confirmed", bid=bid, why="a person says that it was taken")

    def _take(self, entry: Entry) -> bool:
        """Whether the entry is still in doubt; if so, it is the caller's to see to, and nobody else's."""
        if self._open.get(entry.key) is not entry:
            return False
        del self._open[entry.key]
        return True

    async def _close(self, entry: Entry, state: State, *, why: str, **facts: Any) -> None:
        await self._noted(entry, state, looks=0, parked=False, **facts)
        self._tally.offers["confirmed" if state == "confirmed" else "not taken"] += 1
        _logger.warning("%s is in doubt no more: %s", entry, why, extra={"request": entry.request})

    async def _noted(self, entry: Entry, state: State, **facts: Any) -> Entry:
        try:
            return await self._advance(entry, state, step="resolved", **facts)
        except BaseException:
            self._open[entry.key] = entry
            raise

    async def _look(self, entry: Entry) -> Reconciliation:
        """What a look has shown; those that failed are made again, however often."""
        pause = _FIRST_PAUSE
        while True:
            try:
                async with self._places:
                    found = await self._exchange.reconcile(
                        entry.write, settle=self._settle, baseline=list(entry.baseline)
                    )
                    if found == StillUnknown():
                        # Nothing was seen that comes near. Unless the bids can be read, nothing was seen at all.
                        await self._exchange.bids.list(sweep=True).collect()
            except PASSING as error:
                _logger.warning("%s cannot be looked for yet: %s", entry, error)
            else:
                return found
            await anyio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
