"""Which own bids were selected by their shippers, from the bid listing, at a pace of its own."""

from __future__ import annotations

import logging
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio

from freight_exchange.bot.own_bids import PASSING
from freight_exchange.feed.events import BidSelected
from freight_exchange.feed.payload import pack_selected
from freight_exchange.models import BidStatus, BidsType, UnknownWord
from freight_exchange.store.protocol import NewEvent
from freight_exchange.store.work import Effect

if TYPE_CHECKING:
    from freight_exchange.bot.desk import Desk
    from freight_exchange.bot.intake import Intake
    from freight_exchange.bot.ledger import Ledger
    from freight_exchange.client import FreightExchange
    from freight_exchange.models import Bid
    from freight_exchange.store.work import WorkStore

__all__ = ["Selections"]

_logger = logging.getLogger("freight_exchange.bot")

_PRIMED: Final = "selections"
_LOOKS_WITHOUT_CONTACT: Final = 3
_FIRST_PAUSE: Final = 1.0


class Selections:
    """The own bids that were selected.

    Args:
        exchange: Where they are listed.
        ledger: What this bot offered.
        desk: Where it is kept who was told.
        intake: What tells the handlers.
        pace: Seconds from one look to the next.
        silently: Whether what is selected when the bot first looks is taken as known, but for its own offers.
    """

    def __init__(
        self,
        exchange: FreightExchange,
        desk: Desk,
        intake: Intake,
        ledger: Ledger,
        *,
        pace: float,
        silently: bool,
    ) -> None:
        self._exchange = exchange
        self._desk = desk
        self._intake = intake
        self._pace = pace
        self._ledger = ledger
        self._silently = silently
        self._has_looked = False
        self._told: set[int] = set()
        self._without_contact: dict[int, int] = {}

    async def run(self) -> None:
        """Look, tell, and look again, for ever."""
        await self._intake.hand_on(BidSelected.kind, self._intake.selected())
        first_pause = pause = min(_FIRST_PAUSE, self._pace)
        while True:
            try:
                bids = [bid async for bid in self._exchange.bids.list(type=BidsType.SELECTED, sweep=True)]
            except PASSING as error:
                _logger.warning("the selected bids cannot be read: %s", error)
                await anyio.sleep(pause)
                pause = min(2 * pause, self._pace)
            else:
                await self._take(bids)
                await anyio.sleep(self._pace)
                pause = first_pause

    async def _take(self, bids: list[Bid]) -> None:
        primed = self._has_looked or await self._desk.read(lambda store: store.effect(_PRIMED)) is not None
        silently = self._silently and not primed
        fresh = [bid for bid in bids if bid.index not in self._told and _is_selected(bid)]
        for bid in fresh:
            # What this bot offered is told, however late it comes to look.
            tell = not silently or await self._ledger.knows(bid.index)
            if tell and not self._is_ripe(bid):
                continue
            now = self._desk.time()
            note = partial(self._note, bid=bid, now=now, moment=self._desk.moment(now))
            if tell and await self._desk.write("selected", note):
                await self._intake.hand_on(BidSelected.kind, self._intake.selected())
            await self._desk.write("told", partial(self._mark, key=f"selected:{bid.index}", state="told", now=now))
            self._told.add(bid.index)
        if not self._has_looked:
            await self._desk.write("known", partial(self._mark, key=_PRIMED, state="primed", now=self._desk.time()))
            self._has_looked = True

    def _is_ripe(self, bid: Bid) -> bool:
        """Whether the bid is to be told: its contact may show up a little later than its selection."""
        if bid.contact is not None or bid.company is not None:
            return True
        looks = self._without_contact[bid.index] = self._without_contact.get(bid.index, 0) + 1
        return looks >= _LOOKS_WITHOUT_CONTACT

    def _note(self, store: WorkStore, *, bid: Bid, now: float, moment: datetime) -> bool:
        """Make it an event, once for ever: the event's key holds until the mark that follows it is written."""
        if store.effect(f"selected:{bid.index}") is not None:
            return False
        event = BidSelected(bid=bid, observed=moment)
        key = f"selected:{bid.index}"
        store.add_event(NewEvent(key=key, index=bid.index, kind=event.kind, payload=pack_selected(event)), at=now)
        return True

    def _mark(self, store: WorkStore, *, key: str, state: str, now: float) -> None:
        store.put_effect(Effect(key=key, state=state, payload=b"", at=now), was=None)


def _is_selected(bid: Bid) -> bool:
    """Whether it says so, or says nothing that is known: it was asked for by that."""
    return bid.status is None or isinstance(bid.status, UnknownWord) or bid.status == BidStatus.SELECTED
