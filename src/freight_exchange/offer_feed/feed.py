"""Feed of events about offers on the account's requests, acknowledged durably."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

from freight_exchange import validation
from freight_exchange.errors import ConfigurationError
from freight_exchange.feed.client_parts import ClientParts
from freight_exchange.feed.core.planning.pacer import Pacer
from freight_exchange.feed.status import Explanation
from freight_exchange.feed.stream import EventStream
from freight_exchange.filters import OfferFilter
from freight_exchange.offer_feed.events import KINDS, OfferEvent, OfferFeedEvent
from freight_exchange.offer_feed.explanation import explain_offer
from freight_exchange.offer_feed.options import WatchOffersOptions
from freight_exchange.offer_feed.scanning.journal import OfferJournal
from freight_exchange.offer_feed.scanning.poller import OfferPoller
from freight_exchange.offer_feed.scanning.source import OfferSource
from freight_exchange.offer_feed.serialization import unpack
from freight_exchange.offer_feed.status import OfferFeedStatus

__all__ = ["OfferFeed"]


class OfferFeed(EventStream[OfferFeedEvent]):
    """Events of offers on your requests: `async for event in feed`. Made by `exchange.watch_offers()`.

    Entering it reads the whole listing once, unless an earlier run has read it. Transient errors are retried; a wrong
    URL, an invalid certificate or a rejected login is raised.

    Pulling the next event acknowledges the one before it, durably. Leaving the loop does not: the last event is
    delivered again, also after a restart. Scans run only while an event is awaited.

    An offer is reported as gone after two complete scans in a row and a look-up of its request lack it. If scans lack
    many known offers, none counts as gone for an hour. A look-up without any offer counts only if another look-up
    shows a listed offer.
    """

    def __init__(self, source: OfferSource, client: ClientParts, options: WatchOffersOptions) -> None:
        super().__init__(client, options, partial(_is_wanted, options.where), kinds=KINDS, unpack=unpack)
        self._source = source
        self._watch_options = options
        self._journal: OfferJournal
        self._poller: OfferPoller

    async def _begin(self, pacer: Pacer) -> None:
        client, options = self._client, self._watch_options
        self._journal = OfferJournal(
            self.lease.state(),
            self.lease.run,
            is_silent=options.start == "now",
            now=client.clock.read(),
            retention=options.retention.total_seconds(),
        )
        await self._journal.load()
        self._poller = OfferPoller(self._source, self._journal, client, pacer, name=options.name)
        await self._poller.prime()
        await self._queue.load()

    def _stop(self) -> None:
        if hasattr(self, "_poller"):
            self._poller.stop()

    async def _scan(self) -> None:
        await self._poller.scan()

    def time(self) -> float:
        """Return the time on the feed's own clock, in seconds. It never goes back, even over restarts."""
        return self._journal.state.watermark.time_at(self._client.clock.read())

    def status(self) -> OfferFeedStatus:
        """Return the status of the feed."""
        if not hasattr(self, "_poller"):
            raise ConfigurationError("this feed has not been entered: use `async with exchange.watch_offers() as feed`")
        state, poller = self._journal.state, self._poller
        age = state.watermark.least(self._client.clock.read())
        offers = [entry for listing in self._journal.known.values() for entry in listing.offers.values()]
        return OfferFeedStatus(
            state=poller.phase,
            cover_age=timedelta(seconds=min(age, 1e9)) if state.is_primed else None,
            last_success=poller.last_success,
            pages=poller.pages,
            requests=len(self._journal.known),
            offers=sum(not entry.is_gone for entry in offers),
            unacknowledged=self.lease.unacknowledged,
            retry_in=timedelta(seconds=poller.quiet_for),
        )

    async def explain(self, request: int, offer: int) -> Explanation:
        """Explain why an offer was delivered or not; `Explanation.index` is that of its request.

        Args:
            request: Index of the request.
            offer: Identifier of the offer.

        Raises:
            ConfigurationError: The feed is not open.
            ValidationError: An argument is not a positive integer.
        """
        request, offer = validation.identifier(request, "request"), validation.identifier(offer, "offer")
        held = self.lease.state()
        seen, events = await self.lease.run(partial(held.history, request))
        now = self._client.clock.read()
        return explain_offer(
            request,
            offer,
            self._journal.known.get(request),
            seen,
            events,
            time=self._journal.state.watermark.time_at(now),
            wall=now.wall,
            where=self._watch_options.where,
        )


def _is_wanted(where: OfferFilter | None, event: OfferFeedEvent) -> bool:
    return where is None or not isinstance(event, OfferEvent) or where.matches(event.offer, event.listing)
