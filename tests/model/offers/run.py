"""Run of the feed of offers under a schedule, in virtual time."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import anyio
import anyio.lowlevel
from tests.model.offers.checker import Reported
from tests.model.offers.market import Failure, Market, Quote
from tests.model.offers.schedule import QUIET, Schedule

from freight_exchange import Listing, Offer, OfferEvent, OfferFeed, OfferStatus, ServerError, UnknownWord
from freight_exchange.feed.client_parts import ClientParts
from freight_exchange.offer_feed.options import WatchOffersOptions
from freight_exchange.platform.clock import Reading
from freight_exchange.store import MemoryStore
from freight_exchange.wire import Rows

__all__ = ["follow"]

_INTERVAL = timedelta(seconds=30)
_WORDS: dict[str, OfferStatus | UnknownWord] = {
    "pending": OfferStatus.PENDING,
    "selected": OfferStatus.SELECTED,
    "declined": UnknownWord("declined"),
}


class _Source:
    """Market as a source of the feed."""

    def __init__(self, market: Market) -> None:
        self._market = market

    async def page(self, number: int, rows: int) -> Rows[Listing]:
        await anyio.lowlevel.checkpoint()
        try:
            return Rows(tuple(_listing(*row) for row in self._market.page(number, rows)))
        except Failure:
            raise ServerError("down", status=503) from None

    async def find(self, index: int) -> Listing | None:
        await anyio.lowlevel.checkpoint()
        try:
            row = self._market.find(index)
        except Failure:
            raise ServerError("down", status=503) from None
        return None if row is None else _listing(*row)


class _Clock:
    def read(self) -> Reading:
        now = anyio.current_time()
        return Reading(run="run", loop=now, boot_id="boot", boot=now, wall=1.7e9 + now)


async def _account() -> str:
    return "me@co.example"


async def follow(schedule: Schedule) -> tuple[list[Reported], Market]:
    """Follow a schedule; return what the feed's reader received, and the market.

    An event that is delivered again because it was not acknowledged counts once: its number identifies it.
    """
    scope = anyio.CancelScope()
    market = Market(schedule, lambda: scope.cancel())
    store, reported, last, end = MemoryStore(), list[Reported](), 0, _End(market, schedule)
    is_open = False
    while True:
        scope = anyio.CancelScope()
        with scope:
            async with _feed(market, store) as feed:
                if not is_open:
                    is_open = True
                    market.open()
                while not end.has_come(feed):
                    with anyio.move_on_after(_INTERVAL.total_seconds() / 2):
                        event = await anext(feed)
                        if event._number > last and isinstance(event, OfferEvent):
                            last = event._number
                            reported.append(_reported(event, market))
                        continue
                return reported, market
    raise AssertionError("never reached")


class _End:
    """End of a run: the market is quiet, and the feed has had an hour to confirm that most offers are gone."""

    def __init__(self, market: Market, schedule: Schedule) -> None:
        self._market = market
        self._scans = schedule.scans
        self._restless_at = 0

    def has_come(self, feed: OfferFeed) -> bool:
        status, scans = feed.status(), self._market.scans
        if status.state != "live" or status.unacknowledged:
            self._restless_at = scans
        return scans >= self._scans and scans >= self._restless_at + QUIET


def _feed(market: Market, store: MemoryStore) -> OfferFeed:
    client = ClientParts(base_url="https://host/api", account=_account, account_timeout=60.0, clock=_Clock())
    options = WatchOffersOptions(store=store, interval=_INTERVAL, name="offers", standby=False)
    return OfferFeed(_Source(market), client, options)


def _listing(index: int, offers: dict[int, Quote], selected: int | None) -> Listing:
    found = tuple(
        Offer(id=number, amount=Decimal(quote.amount), currency=1, terms=quote.terms, status=_WORDS[quote.status])
        for number, quote in offers.items()
    )
    return Listing(index=index, offers=found, selected=next((one for one in found if one.id == selected), None))


def _reported(event: OfferEvent, market: Market) -> Reported:
    offer = event.offer
    assert offer.id is not None
    assert offer.amount is not None
    standing = offer.id in market.standing()
    if event.kind == "gone":
        return Reported(offer.id, None, standing)
    word = "pending" if offer.status is None else str(offer.status)
    return Reported(offer.id, Quote(int(offer.amount), offer.terms, word), standing)
