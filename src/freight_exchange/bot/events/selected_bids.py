"""Selected bids: poll the listing of selected bids, and turn each selection into an event once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio
import attrs

from freight_exchange.bot.offers.existing_bids import describe_request, lenient_bids
from freight_exchange.bot.offers.record import PLACED, offer_prefix
from freight_exchange.bot.offers.repository import OfferRepository
from freight_exchange.errors import READ_ERRORS, request_count, retry_delay
from freight_exchange.feed.events import BidSelected
from freight_exchange.feed.serialization import load_request, pack_selected
from freight_exchange.models import Bid, BidStatus, BidsType, Shipment, UnknownWord
from freight_exchange.store.protocol import NewEvent
from freight_exchange.store.work import Effect
from freight_exchange.transport.call import RequestMeter
from freight_exchange.transport.replies import MAX_HONOURED

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
_MAX_READINGS_WITHOUT_CONTACT: Final = 3
_RETRY_PAUSE: Final = 1.0
_SWEEP_INTERVAL: Final = 10
"""Readings from one sweep to the next. A plain reading of a moving list may skip a bid, which the next one finds. Only
a sweep finds bids behind a page that is wholly hidden."""


class SelectedBids:
    """Own bids that a shipper selected.

    Args:
        exchange: The client.
        unit_of_work: Stores which selections were reported.
        routing: Makes deliveries of the events.
        handlers: Handlers of the bot.
        wake: Called when a delivery may be due.
        pace: Seconds from one reading to the next.
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
        self._from_start = [handler.id for handler in interested if handler.selected_from_start]
        self._others = [handler.id for handler in interested if not handler.selected_from_start]
        self._reported: set[int] = set()
        self._without_contact: dict[int, int] = {}
        self._unreadable: set[object] = set()
        self._readings = 0

    async def introduce(self, *, backfill: bool) -> None:
        """Record when the bot first had a handler of selections.

        Call it before the first offer of a run, and before the account's bids are read.

        Args:
            backfill: Whether a bot that begins with this run reports earlier selections.
        """
        if (
            not self._routing.selection_handlers()
            or await self._unit_of_work.read(lambda store: store.effect(_SINCE)) is not None
        ):
            return
        is_first_run = not await OfferRepository(self._unit_of_work).has_read_bids()
        state = _EVERYTHING if backfill and is_first_run else "later"
        mark = partial(self._mark, key=_SINCE, state=state, now=self._unit_of_work.time())
        await self._unit_of_work.write("known", mark)

    async def run(self) -> None:
        """Read and report until cancelled."""
        await self._routing.deliver_kind(BidSelected.kind, self._routing.selection_handlers())
        meter, owed, may_retry = RequestMeter(), 0, True
        while True:
            try:
                selected = await self._read(meter)
            except READ_ERRORS as error:
                _logger.warning(
                    "the selected bids cannot be read from %s: %s; retrying", self._exchange._base_url, error
                )
                # A failed reading is retried once, at once. The next pause pays for all extra requests.
                owed += max(request_count(error), 1 + meter.take_extra())
                floor = min(retry_delay(error) or 0.0, MAX_HONOURED)
                await anyio.sleep(max(floor, min(_RETRY_PAUSE, self._pace) if may_retry else owed * self._pace))
                owed, may_retry = (owed, False) if may_retry else (0, False)
            else:
                await self._report(selected)
                # A successful reading may have needed retries too.
                await anyio.sleep((1 + owed + meter.take_extra()) * self._pace)
                owed, may_retry = 0, True

    async def _read(self, meter: RequestMeter) -> Mapping[int, Bid]:
        """Return the selected bids by request. An unreadable one is logged once, until it is readable."""
        unreadable: set[object] = set()

        def note(request: int | None, error: DecodeError) -> None:
            key = repr(error.raw) if request is None else request
            if key not in self._unreadable:
                _logger.error(
                    "a selected bid on %s cannot be read: %s; it is reported once it can",
                    describe_request(request),
                    error,
                )
            unreadable.add(key)
            self._unreadable.add(key)

        found: dict[int, Bid] = {}
        sweep = self._readings % _SWEEP_INTERVAL == 0
        self._readings += 1
        async for bid in lenient_bids(self._exchange._limited(meter=meter), note).list(
            type=BidsType.SELECTED, sweep=sweep
        ):
            if _is_selected(bid):
                found.setdefault(bid.index, bid)
        self._unreadable = unreadable
        return found

    async def _report(self, selected: Mapping[int, Bid]) -> None:
        if await self._unit_of_work.read(lambda store: store.effect(_PRIMED)) is None:
            await self._skip_earlier(selected)
        await self._record_others()
        for handler in [*self._from_start]:
            if not await self._backfill(handler, selected):
                return
            self._from_start.remove(handler)
        for bid in selected.values():
            if bid.index in self._reported or not self._is_complete(bid):
                continue
            now = self._unit_of_work.time()
            add_event = partial(self._add_event, bid=bid, now=now, moment=self._unit_of_work.to_utc(now))
            if await self._unit_of_work.write("selected", add_event):
                await self._routing.deliver_kind(BidSelected.kind, self._routing.selection_handlers())
            mark = partial(self._mark, key=_key_of(bid.index), state="reported", now=now)
            await self._unit_of_work.write("reported", mark)
            self._reported.add(bid.index)

    async def _skip_earlier(self, selected: Mapping[int, Bid]) -> None:
        """Skip selections from before the first handler of selections.

        A bid does not show when it was selected. So these are the bids of the first reading, except for offers made
        since.
        """
        now = self._unit_of_work.time()

        def skip(store: WorkStore) -> Sequence[int]:
            since = store.effect(_SINCE)
            assert since is not None
            skipped = list[int]()
            for index in selected if since.state != _EVERYTHING else ():
                offers = store.effects_under(offer_prefix(index))
                made_at = max((offer.at for offer in offers if offer.state in PLACED), default=None)
                if made_at is None or made_at < since.at:
                    self._mark(store, key=_key_of(index), state="passed over", now=now)
                    skipped += [] if made_at is None else [index]
            self._mark(store, key=_PRIMED, state="primed", now=now)
            return sorted(skipped)

        if skipped := await self._unit_of_work.write("known", skip):
            _logger.warning(
                "%d of your offers were selected before the bot had a handler of selections, and are not reported;"
                " requests: %s",
                len(skipped),
                ", ".join(map(str, skipped)),
            )

    async def _record_others(self) -> None:
        """Record handlers without `from_start`, so that a later `from_start` is ignored."""
        now = self._unit_of_work.time()
        marks = [_handler_mark(handler, "there", now) for handler in self._others]
        self._others = []
        await self._routing.record_marks(marks)

    async def _backfill(self, handler: str, selected: Mapping[int, Bid]) -> bool:
        """Report earlier selections to a new handler, and return whether that is done."""

        def find(store: WorkStore) -> Sequence[Bid] | None:
            if store.effect(mark.key) is not None:
                return None
            return [bid for bid in selected.values() if store.effect(_key_of(bid.index)) is not None]

        def report(store: WorkStore, earlier: Sequence[Bid]) -> None:
            with store.transaction():
                for bid in earlier:
                    key = f"{_key_of(bid.index)}:{handler}"
                    store.add_event(self._event(store, bid, key=key, moment=moment), at=now)
                store.enqueue({event.id: (handler,) for event in store.pending_of_kind(BidSelected.kind)}, at=now)
                store.put_effect(mark, expected_state=None)

        now = self._unit_of_work.time()
        moment = self._unit_of_work.to_utc(now)
        mark = _handler_mark(handler, "introduced", now)
        earlier = await self._unit_of_work.read(find)
        if earlier is None:
            return True
        if [bid for bid in earlier if not self._is_complete(bid)]:
            return False
        # In one transaction: no other handler may get these events.
        await self._unit_of_work.write("selected", partial(report, earlier=earlier))
        self._wake()
        return True

    def _is_complete(self, bid: Bid) -> bool:
        """Return whether the bid can be reported: with its contact, or after several readings without.

        Each call counts as a reading.
        """
        if bid.contact is not None or bid.company is not None:
            return True
        readings = self._without_contact[bid.index] = self._without_contact.get(bid.index, 0) + 1
        return readings >= _MAX_READINGS_WITHOUT_CONTACT

    def _add_event(self, store: WorkStore, *, bid: Bid, now: float, moment: datetime) -> bool:
        """Add an event once. Until its mark is written, the unique key of the event prevents a second one."""
        key = _key_of(bid.index)
        if store.effect(key) is not None:
            return False
        store.add_event(self._event(store, bid, key=key, moment=moment), at=now)
        return True

    def _event(self, store: WorkStore, bid: Bid, *, key: str, moment: datetime) -> NewEvent:
        event = BidSelected(bid=_complete_freight(bid, store.history(bid.index)[0]), observed=moment)
        return NewEvent(key=key, index=bid.index, kind=event.kind, payload=pack_selected(event))

    def _mark(self, store: WorkStore, *, key: str, state: str, now: float) -> None:
        store.put_effect(Effect(key=key, state=state, payload=b"", at=now), expected_state=None)


def _handler_mark(handler: str, state: str, now: float) -> Effect:
    """Make the mark by which later runs recognise a handler of selections."""
    return Effect(key=f"{_PRIMED}:{handler}", state=state, payload=b"", at=now)


def _key_of(request: int) -> str:
    return f"selected:{request}"


def _complete_freight(bid: Bid, seen: TrackedRequest | None) -> Bid:
    """Fill the freight fields that the bid listing lacks, from the last known state of the request."""
    if seen is None or seen.record is None:
        return bid
    request = load_request(seen.record)
    return attrs.evolve(bid, **{name: getattr(request, name) for name in _FREIGHT if getattr(bid, name) is None})


def _is_selected(bid: Bid) -> bool:
    """Return whether the bid is selected, or has no known status: the request filters by status."""
    return bid.status is None or isinstance(bid.status, UnknownWord) or bid.status == BidStatus.SELECTED
