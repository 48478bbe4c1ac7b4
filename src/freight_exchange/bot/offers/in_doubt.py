"""Offers of which nobody knows whether the service took them: looked for until that is known, or a person is needed."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio

from freight_exchange.bot.offers.existing_bids import united
from freight_exchange.bot.offers.own_updates import turned
from freight_exchange.bot.offers.record import NO_DOUBT, decision, forsaken
from freight_exchange.errors import ValidationError
from freight_exchange.errors.transient import READ_ERRORS
from freight_exchange.models import Applied, Bid, NotApplied, StillUnknown

if TYPE_CHECKING:
    from freight_exchange.bot.metrics import Metrics
    from freight_exchange.bot.offers.record import OfferRecord, State
    from freight_exchange.bot.offers.repository import OfferRepository
    from freight_exchange.client import FreightExchange
    from freight_exchange.models import Reconciliation

__all__ = ["InDoubtResolver"]

T = TypeVar("T")

_logger = logging.getLogger("freight_exchange.bot")

_LOOKS: Final = 3
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
_ASK_AGAIN, _ASK_AGAIN_EACH = 2.0, 0.1
"""Seconds, and for each of a crowd: each time is two commits."""
_AT_A_TIME: Final = 4
"""Looking reads whole listings: a crowd of doubts waits for its turn."""

_MOST_RESENDS: Final = 3
_TIMES_LONGER: Final = 4
"""A service that shows an offer later than `settle` makes its absence a wrong proof, time after time. So an offer that
comes into doubt again is looked for four times as long as before, and is sent four times at most."""


class InDoubtResolver:
    """The offers that are `unknown`.

    Args:
        exchange: Where they are looked for.
        entries: Where what is found is written down.
        metrics: Where it is counted.
        settle: How long the service may take to show an offer.

    Attributes:
        wake: Called when a delivery may have become ready again.
    """

    wake: Callable[[], None]

    def __init__(
        self, exchange: FreightExchange, entries: OfferRepository, metrics: Metrics, *, settle: timedelta
    ) -> None:
        self._exchange = exchange
        self._entries = entries
        self._metrics = metrics
        self._settle = settle
        self._places = anyio.CapacityLimiter(_AT_A_TIME)
        self._open: dict[str, OfferRecord] = {}
        self._being_noted: dict[str, anyio.Event] = {}
        self.wake = _nobody

    def pause(self, request: int | None, *, handler: str | None = None) -> float | None:
        """Seconds until it is worth asking again whether an offer on the request is in doubt, one of this handler's if
        it is named; `None` where none is."""
        found = [entry for entry in self._open.values() if entry.request == request]
        found = [entry for entry in found if handler in (None, entry.handler)]
        if not found:
            return None
        parked = all(entry.parked for entry in found)
        return _LONGEST_PAUSE if parked else min(max(_ASK_AGAIN, _ASK_AGAIN_EACH * len(self._open)), _LONGEST_PAUSE)

    def entries(self) -> tuple[OfferRecord, ...]:
        """Those in doubt now, the oldest first."""
        return tuple(sorted(self._open.values(), key=lambda entry: (entry.doubtful_since, entry.key)))

    async def noted(self, key: str) -> None:
        """Wait until it is written down what a look for the offer has shown, if that is under way."""
        while (noting := self._being_noted.get(key)) is not None:
            await noting.wait()

    def take_up(self, entry: OfferRecord) -> None:
        """Count it among those in doubt; `resolve` follows."""
        self._open[entry.key] = entry

    async def resolve(self, entry: OfferRecord) -> None:
        """Look for the offer until it is found, or proven not to be there, or nothing can be proven."""
        while not entry.parked:
            found = await self._look(entry)
            # A person may have been quicker: then this is no doubt any more, or another one of the same offer, of which
            # what was seen before it says nothing.
            if not self._take(entry):
                return
            match found:
                case Applied(record=Bid() as bid):
                    facts = {"bid": bid, "turned": turned(bid, entry.shown)}
                    await self._close(entry, "confirmed", why="it was found among the own bids", **facts)
                    return
                case NotApplied() if entry.resent < _MOST_RESENDS:
                    again = entry.resent + 1
                    await self._close(entry, "intent", resent=again, why="it was not taken")
                    return
                case NotApplied():
                    entry = await self._still(entry, parked=True)
                case _:
                    looks = entry.looks + 1
                    entry = await self._still(entry, looks=looks, parked=looks >= _LOOKS)
        _logger.critical(
            "nobody can tell whether %s was taken: look at the service's own pages, and resolve it by hand",
            entry,
            extra={"request": entry.request, "revision": entry.revision, "amount": str(entry.amount)},
        )

    async def decide(self, entry: OfferRecord, *, taken: bool) -> None:
        """End a doubt as a person says. In a task that only the bot's end cancels: see `_noted`.

        Raises:
            ValidationError: It is in doubt no more, or that is no answer.
        """
        facts = decision(entry, taken=taken)
        if not self._take(entry):
            raise ValidationError(f"{entry} is not in doubt any more", field="request")
        await self._close(entry, why=f"a person says that it was {'taken' if taken else 'not taken'}", **facts)

    def _take(self, entry: OfferRecord) -> bool:
        """Whether the entry is still in doubt; if so, it is the caller's to see to, and nobody else's."""
        if self._open.get(entry.key) is not entry:
            return False
        del self._open[entry.key]
        return True

    async def _close(self, entry: OfferRecord, state: State, *, why: str, **facts: Any) -> None:
        known, about = {**NO_DOUBT, **facts}, {"request": entry.request}
        if state == "confirmed":
            await self._noted(entry, self._entries.advance(entry, state, step="resolved", **known))
            self._metrics.offers["confirmed"] += 1
            _logger.warning("%s is in doubt no more: %s", entry, why, extra=about)
            return
        is_made = await self._noted(entry, self._entries.give_back(entry, **known))
        self._metrics.offers["not taken"] += 1
        if is_made:
            self.wake()
            then = "its handler makes it again"
            _logger.warning("%s is in doubt no more: %s, and %s", entry, why, then, extra=about)
        else:
            then = forsaken(entry, by_all=is_made is False)
            _logger.error("%s is in doubt no more: %s, and %s", entry, why, then, extra=about)

    async def _still(self, entry: OfferRecord, **facts: Any) -> OfferRecord:
        noting = self._entries.advance(entry, "unknown", step="resolved", **facts)
        self._open[entry.key] = further = await self._noted(entry, noting)
        return further

    async def _noted(self, entry: OfferRecord, noting: Awaitable[T]) -> T:
        """What `noting` gives. What it raises means that nothing was written. A cancellation does not: a write may go
        on without whoever left it. So nothing but the bot's end may cancel this; nobody asks what is open then."""
        ended = self._being_noted[entry.key] = anyio.Event()
        try:
            return await noting
        except BaseException:
            self._open[entry.key] = entry
            raise
        finally:
            del self._being_noted[entry.key]
            ended.set()

    async def _look(self, entry: OfferRecord) -> Reconciliation:
        """What a look has shown; those that failed are made again, however often."""
        pause = _FIRST_PAUSE
        settle = self._settle.total_seconds()
        # What is not there is looked for again until then; each look takes a settle time of its own.
        until = anyio.current_time() + settle * (_TIMES_LONGER**entry.resent - 1)
        while True:
            rest = pause
            try:
                async with self._places:
                    found = await self._exchange.reconcile(
                        entry.write, settle=self._settle, baseline=await self._baseline(entry)
                    )
                    if found == StillUnknown():
                        # Nothing was seen that comes near. Unless the bids can be read, nothing was seen at all.
                        await self._exchange._own_bids()
            except READ_ERRORS as error:
                _logger.warning("%s cannot be looked for yet: %s", entry, error, extra={"request": entry.request})
            else:
                if not isinstance(found, NotApplied) or anyio.current_time() >= until:
                    return found
                # It is no proof before then: each look reads whole listings, time after time.
                rest = max(pause, (until - anyio.current_time()) / 2)
            await anyio.sleep(rest)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _baseline(self, entry: OfferRecord) -> list[Bid]:
        """The own bids of which none is this offer: what was listed before it was sent, and what the ledger knows, as
        the service may be slow to show that."""
        others = [other.bid for other in await self._entries.on(entry.request) if other.key != entry.key]
        return united(entry.baseline, [bid for bid in others if bid is not None])


def _nobody() -> None:
    """Waits for no delivery."""
