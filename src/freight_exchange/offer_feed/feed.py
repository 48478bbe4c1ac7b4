"""Feed of events about offers on own requests, acknowledged durably."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from random import Random
from types import TracebackType
from typing import Self

from freight_exchange.errors import ConfigurationError
from freight_exchange.feed.account import resolve_account
from freight_exchange.feed.client_parts import ClientParts
from freight_exchange.feed.core.planning.pacer import Pacer
from freight_exchange.feed.lease import Lease, lease_time
from freight_exchange.feed.queue import EventQueue
from freight_exchange.feed.status import Explanation
from freight_exchange.feed.stream import EventStream
from freight_exchange.models import validation
from freight_exchange.models.offer_filter import OfferFilter
from freight_exchange.offer_feed.events import KINDS, OfferEvent, OfferFeedEvent
from freight_exchange.offer_feed.explanation import explain_offer
from freight_exchange.offer_feed.options import WatchOffersOptions
from freight_exchange.offer_feed.scanning.journal import OfferJournal
from freight_exchange.offer_feed.scanning.poller import OfferPoller
from freight_exchange.offer_feed.scanning.source import OfferSource
from freight_exchange.offer_feed.serialization import unpack
from freight_exchange.offer_feed.status import OfferFeedStatus
from freight_exchange.store.factory import make_store
from freight_exchange.store.protocol import Binding

__all__ = ["OfferFeed"]


class OfferFeed(EventStream[OfferFeedEvent]):
    """Events of offers on own requests: `async for event in feed`. Made by `exchange.watch_offers()`.

    Entering it reads the whole listing once, unless an earlier run has, and retries transient errors; a wrong URL, an
    invalid certificate or a rejected login is raised. Pulling the next event acknowledges the one in hand, durably;
    leaving the loop does not: the event is delivered again, after a restart too. Scans run only while an event is
    awaited.

    An offer is reported as gone once two complete scans in a row lack it and a look-up of its request does too. If
    scans lack most of what they should contain, nothing counts as gone for an hour. A look-up that shows no offer
    counts only if look-ups show offers that are listed.
    """

    def __init__(self, source: OfferSource, client: ClientParts, options: WatchOffersOptions) -> None:
        store, made_here = make_store(options.store)
        lease = Lease(store, closes_store=made_here)
        queue = EventQueue[OfferFeedEvent](
            lease, partial(_is_wanted, options.where), self.time, kinds=KINDS, unpack=unpack
        )
        super().__init__(lease, queue, client.instruments, options.name)
        self._source = source
        self._client = client
        self._options = options
        self._journal: OfferJournal
        self._poller: OfferPoller

    def __repr__(self) -> str:
        return f"<OfferFeed {self._name!r} of {self._client.base_url}>"

    async def __aenter__(self) -> Self:
        self.lease.check_free()
        self._queue.reset()
        client, options = self._client, self._options
        interval = options.interval.total_seconds()
        pacer = Pacer(interval, Random(), client.extra_requests)
        binding = Binding(client.base_url, await resolve_account(client, options.name, pacer), options.name)
        try:
            await self.lease.take(binding, lease=lease_time(interval), standby=options.standby)
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
        except BaseException:
            await self._let_go()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._let_go()

    async def _let_go(self) -> None:
        if hasattr(self, "_poller"):
            self._poller.stop()
        await self.lease.let_go()

    async def _scan(self) -> None:
        await self._poller.scan()

    def time(self) -> float:
        """Return the time on the feed's own clock in seconds; it never goes back, not even over restarts."""
        return self._journal.state.watermark.time_at(self._client.clock.read())

    def status(self) -> OfferFeedStatus:
        """Return the status of the feed."""
        if not hasattr(self, "_poller"):
            raise ConfigurationError("this feed was not entered yet: use `async with exchange.watch_offers() as feed`")
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
        """Explain why an offer was delivered, or was not yet; `Explanation.index` is that of its request.

        Args:
            request: Index of the request.
            offer: Identifier of the offer.

        Raises:
            ConfigurationError: The feed is not open.
            ValidationError: An argument is no positive integer.
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
            where=self._options.where,
        )


def _is_wanted(where: OfferFilter | None, event: OfferFeedEvent) -> bool:
    return where is None or not isinstance(event, OfferEvent) or where.matches(event.offer, event.listing)
