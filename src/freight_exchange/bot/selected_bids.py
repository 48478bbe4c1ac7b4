"""Which own bids were selected by their shippers, from the bid listing, at a pace of its own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio
import attrs

from freight_exchange.bot.offers.existing_bids import describe_request, lenient_bids
from freight_exchange.bot.offers.record import UNSETTLED, is_offer, parse_offer_key
from freight_exchange.bot.offers.repository import OfferRepository
from freight_exchange.errors.transient import READ_ERRORS, request_count, retry_delay
from freight_exchange.feed.events import BidSelected
from freight_exchange.feed.serialization import pack_selected, recall
from freight_exchange.models import Bid, BidStatus, BidsType, UnknownWord
from freight_exchange.models.shipment import Shipment
from freight_exchange.store.protocol import NewEvent
from freight_exchange.store.work import Effect
from freight_exchange.transport.call import RequestMeter
from freight_exchange.transport.retry_after import LONGEST_HONOURED

if TYPE_CHECKING:
    from freight_exchange.bot.delivery.routing import Routing
    from freight_exchange.bot.handlers.handler import Handler
    from freight_exchange.bot.unit_of_work import UnitOfWork
    from freight_exchange.client import FreightExchange
    from freight_exchange.errors import DecodeError
    from freight_exchange.store.protocol import TrackedRequest
    from freight_exchange.store.work import WorkStore

__all__ = ["SelectedBids"]

_logger = logging.getLogger("freight_exchange.bot")

_SINCE: Final = "selections since"
_PRIMED: Final = "selections"
_EVERYTHING: Final = "everything"
_FREIGHT: Final = tuple(field.name for field in attrs.fields(Shipment) if field.name not in ("index", "extra"))
_LOOKS_WITHOUT_CONTACT: Final = 3
_FIRST_PAUSE: Final = 1.0
_SWEEP_EACH: Final = 10
"""Looks to one sweep. What a plain reading of a moving list misses, the next look finds. What lies behind a page that
is wholly hidden, only a sweep does."""


class SelectedBids:
    """The own bids that were selected.

    Args:
        exchange: Where they are listed.
        unit_of_work: Where it is kept who was told.
        routing: What tells the handlers.
        handlers: The bot's handlers.
        wake: Called when there may be something to claim.
        pace: Seconds from one look to the next.
    """

    def __init__(
        self,
        exchange: FreightExchange,
        unit_of_work: UnitOfWork,
        routing: Routing,
        handlers: Iterable[Handler],
        wake: Callable[[], None],
        *,
        pace: float,
    ) -> None:
        self._exchange = exchange
        self._unit_of_work = unit_of_work
        self._routing = routing
        self._wake = wake
        self._pace = pace
        interested = [handler for handler in handlers if handler.handles(BidSelected.kind)]
        self._newcomers = [handler.id for handler in interested if handler.selected_from_start]
        self._others = [handler.id for handler in interested if not handler.selected_from_start]
        self._told: set[int] = set()
        self._without_contact: dict[int, int] = {}
        self._unreadable: set[object] = set()
        self._looks = 0

    async def introduce(self, *, backfill: bool) -> None:
        """Note since when there is somebody to tell. Before the bot offers anything in this run, or learns of its bids.

        Args:
            backfill: Whether a bot that begins with this run tells of what was selected before it.
        """
        if (
            not self._routing.selection_handlers()
            or await self._unit_of_work.read(lambda store: store.effect(_SINCE)) is not None
        ):
            return
        begins = not await OfferRepository(self._unit_of_work).has_read_bids()
        state = _EVERYTHING if backfill and begins else "later"
        mark = partial(self._mark, key=_SINCE, state=state, now=self._unit_of_work.time())
        await self._unit_of_work.write("known", mark)

    async def run(self) -> None:
        """Look, tell, and look again, for ever."""
        await self._routing.deliver_kind(BidSelected.kind, self._routing.selection_handlers())
        meter, owed, again = RequestMeter(), 0, True
        while True:
            try:
                selected = await self._listed(meter)
            except READ_ERRORS as error:
                _logger.warning(
                    "the selected bids cannot be read from %s: %s; trying again", self._exchange._base_url, error
                )
                # One look is repeated at once. The next pause makes up for it: no more requests than in health.
                owed += max(request_count(error), 1 + meter.take_extra())
                floor = min(retry_delay(error) or 0.0, LONGEST_HONOURED)
                await anyio.sleep(max(floor, min(_FIRST_PAUSE, self._pace) if again else owed * self._pace))
                owed, again = (owed, False) if again else (0, False)
            else:
                await self._take(selected)
                # A look that went well after it was repeated, or its requests were, has to be made up for as well.
                await anyio.sleep((1 + owed + meter.take_extra()) * self._pace)
                owed, again = 0, True

    async def _listed(self, meter: RequestMeter) -> Mapping[int, Bid]:
        """Those that are listed, by their requests. Of one that cannot be read it is told once, until it can be."""
        unreadable: set[object] = set()

        def note(request: int | None, error: DecodeError) -> None:
            which = repr(error.raw) if request is None else request
            if which not in self._unreadable:
                _logger.error("a selected bid cannot be read, on %s: %s", describe_request(request), error)
            unreadable.add(which)
            self._unreadable.add(which)

        found: dict[int, Bid] = {}
        sweep = self._looks % _SWEEP_EACH == 0
        self._looks += 1
        async for bid in lenient_bids(self._exchange._metered(meter), note).list(type=BidsType.SELECTED, sweep=sweep):
            if _is_selected(bid):
                found.setdefault(bid.index, bid)
        self._unreadable = unreadable
        return found

    async def _take(self, selected: Mapping[int, Bid]) -> None:
        if await self._unit_of_work.read(lambda store: store.effect(_PRIMED)) is None:
            await self._prime(selected)
        await self._note_others()
        for handler in [*self._newcomers]:
            if not await self._catch_up(handler, selected):
                return
            self._newcomers.remove(handler)
        for bid in selected.values():
            if bid.index in self._told or not self._is_ripe(bid):
                continue
            now = self._unit_of_work.time()
            note = partial(self._note, bid=bid, now=now, moment=self._unit_of_work.moment(now))
            if await self._unit_of_work.write("selected", note):
                await self._routing.deliver_kind(BidSelected.kind, self._routing.selection_handlers())
            await self._unit_of_work.write("told", partial(self._mark, key=_key_of(bid.index), state="told", now=now))
            self._told.add(bid.index)

    async def _prime(self, selected: Mapping[int, Bid]) -> None:
        """Pass over what was selected before there was anybody to tell. That is not told of a bid: so it is what is
        listed at the first look, but for the offers that were made since."""
        now = self._unit_of_work.time()

        def prime(store: WorkStore) -> Sequence[int]:
            since = store.effect(_SINCE)
            assert since is not None
            made = {
                parse_offer_key(effect.key)[0]: effect.at >= since.at
                for effect in store.effects("confirmed", *UNSETTLED)
                if is_offer(effect)
            }
            earlier = [] if since.state == _EVERYTHING else [index for index in selected if not made.get(index)]
            for index in earlier:
                self._mark(store, key=_key_of(index), state="passed over", now=now)
            self._mark(store, key=_PRIMED, state="primed", now=now)
            return sorted(index for index in earlier if index in made)

        if own := await self._unit_of_work.write("known", prime):
            _logger.warning(
                "%d offers of this bot's were selected before it had a handler of selections, and are not told: those "
                "on the requests %s",
                len(own),
                ", ".join(map(str, own)),
            )

    async def _note_others(self) -> None:
        """Note that handlers were there: one that asks for what came before in a later run only is not new then."""
        now = self._unit_of_work.time()
        marks = [_introduced(handler, "there", now) for handler in self._others]
        self._others = []
        await self._routing.record_marks(marks)

    async def _catch_up(self, handler: str, selected: Mapping[int, Bid]) -> bool:
        """Tell a handler that is new, and is to hear of it, what was told or passed over before; whether it was."""

        def find(store: WorkStore) -> Sequence[Bid] | None:
            if store.effect(mark.key) is not None:
                return None
            return [bid for bid in selected.values() if store.effect(_key_of(bid.index)) is not None]

        def tell(store: WorkStore, earlier: Sequence[Bid]) -> None:
            with store.transaction():
                for bid in earlier:
                    key = f"{_key_of(bid.index)}:{handler}"
                    store.add_event(self._event(store, bid, key=key, moment=moment), at=now)
                store.enqueue({event.id: (handler,) for event in store.pending_of_kind(BidSelected.kind)}, at=now)
                store.put_effect(mark, expected_state=None)

        now = self._unit_of_work.time()
        moment = self._unit_of_work.moment(now)
        mark = _introduced(handler, "introduced", now)
        earlier = await self._unit_of_work.read(find)
        if earlier is None:
            return True
        if [bid for bid in earlier if not self._is_ripe(bid)]:
            return False
        # In one transaction: nobody else is to be handed these events.
        await self._unit_of_work.write("selected", partial(tell, earlier=earlier))
        self._wake()
        return True

    def _is_ripe(self, bid: Bid) -> bool:
        """Whether the bid is to be told: its contact may show up a little later than its selection."""
        if bid.contact is not None or bid.company is not None:
            return True
        looks = self._without_contact[bid.index] = self._without_contact.get(bid.index, 0) + 1
        return looks >= _LOOKS_WITHOUT_CONTACT

    def _note(self, store: WorkStore, *, bid: Bid, now: float, moment: datetime) -> bool:
        """Make it an event, once for ever: the event's key holds until the mark that follows it is written."""
        key = _key_of(bid.index)
        if store.effect(key) is not None:
            return False
        store.add_event(self._event(store, bid, key=key, moment=moment), at=now)
        return True

    def _event(self, store: WorkStore, bid: Bid, *, key: str, moment: datetime) -> NewEvent:
        event = BidSelected(bid=_completed(bid, store.history(bid.index)[0]), observed=moment)
        return NewEvent(key=key, index=bid.index, kind=event.kind, payload=pack_selected(event))

    def _mark(self, store: WorkStore, *, key: str, state: str, now: float) -> None:
        store.put_effect(Effect(key=key, state=state, payload=b"", at=now), expected_state=None)


def _introduced(handler: str, state: str, now: float) -> Effect:
    """What tells later runs that they know a handler of selected bids."""
    return Effect(key=f"{_PRIMED}:{handler}", state=state, payload=b"", at=now)


def _key_of(request: int) -> str:
    return f"selected:{request}"


def _completed(bid: Bid, seen: TrackedRequest | None) -> Bid:
    """The bid, and of its freight what the request said when it was last seen and the bid listing does not say."""
    if seen is None or seen.record is None:
        return bid
    request = recall(seen.record)
    return attrs.evolve(bid, **{name: getattr(request, name) for name in _FREIGHT if getattr(bid, name) is None})


def _is_selected(bid: Bid) -> bool:
    """Whether it says so, or says nothing that is known: it was asked for by that."""
    return bid.status is None or isinstance(bid.status, UnknownWord) or bid.status == BidStatus.SELECTED
