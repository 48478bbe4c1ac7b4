"""Journal of a feed of offers: one transaction for each page with changes, each look-up and each end of a scan.

The known state of the account's requests is in memory too, so that a scan without changes writes a single row.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

import attrs

from freight_exchange.feed.core.absence import doubts
from freight_exchange.feed.core.state_rules import to_utc
from freight_exchange.feed.core.watermark import Watermark
from freight_exchange.offer_feed.core.compare import ListingChange, compare, without_offers
from freight_exchange.offer_feed.core.known_offers import KnownListing, OfferFeedState
from freight_exchange.offer_feed.core.scan import SCANS_THAT_LACK, OfferKey, OfferScan, absent_offers, next_doubt
from freight_exchange.offer_feed.scanning.unreadable_parts import record_unreadable, stored_unreadable, unreadable_parts
from freight_exchange.offer_feed.serialization import pack
from freight_exchange.store.protocol import AbsenceQuery, Commit, NewEvent, TrackedRequest

if TYPE_CHECKING:
    from freight_exchange.errors import DecodeError, FreightExchangeError
    from freight_exchange.feed.lease import Run
    from freight_exchange.models import Listing
    from freight_exchange.offer_feed.events import OfferEvent
    from freight_exchange.platform.clock import Reading
    from freight_exchange.store.protocol import FeedStore, ReadSet
    from freight_exchange.wire import Rows

__all__ = ["OfferJournal"]

_DAY: Final = 86_400.0
_ALL: Final = AbsenceQuery(scan=2**62, updated_after=float("-inf"))
_DIGEST: Final = 8


class OfferJournal:
    """Journal of the results of scans and look-ups.

    Args:
        store: The store.
        run: Runs the store's calls.
        is_silent: Whether offers of the first scan make no events.
        now: Reading of the clocks.
        retention: Seconds for which requests without offers and finished events are kept.

    Attributes:
        state: The last committed state.
        known: Known state of each request of the account, by index.
    """

    def __init__(self, store: FeedStore, run: Run, *, is_silent: bool, now: Reading, retention: float) -> None:
        self._store = store
        self._run = run
        self._is_silent = is_silent
        self._retention = retention
        fresh = OfferFeedState(watermark=Watermark(0.0, now))
        kept = fresh if store.state is None else OfferFeedState.load(store.state)
        self.state = attrs.evolve(kept, watermark=kept.watermark.continued(now))
        self.known: dict[int, KnownListing] = {}
        self._rows: dict[int, TrackedRequest] = {}
        self._missed: dict[OfferKey, int] = {}
        self._absent: frozenset[OfferKey] | None = None

    async def load(self) -> None:
        """Read the requests that earlier runs have recorded."""

        def read() -> None:
            def remember(found: ReadSet) -> Commit:
                self._rows = {row.index: row for row in found.absent}
                return Commit()

            self._store.commit(remember, absence=_ALL)
            loaded = ((index, row.record) for index, row in self._rows.items())
            self.known = {index: KnownListing.load(record) for index, record in loaded if record is not None}

        await self._run(read)

    async def record_page(self, scan: OfferScan, page: Rows[Listing], received: Reading) -> None:
        """Commit the content of a page."""
        unreadable = unreadable_parts(page)
        record_unreadable(scan, unreadable)
        for listing in page.records:
            scan.requests.add(listing.index)
            scan.offers.update((listing.index, offer.id) for offer in listing.offers if offer.id is not None)
        scan.event_count += await self._record(page.records, unreadable, received)

    async def record_find(self, listing: Listing, keys: Iterable[OfferKey], received: Reading) -> None:
        """Commit a request that a look-up has found; the given offers are gone if the request lacks them."""
        listed = {offer.id for offer in listing.offers}
        gone = {offer for index, offer in keys if index == listing.index and offer not in listed}
        await self._record((listing,), (), received, gone=gone)

    async def record_denial(self, index: int, keys: Iterable[OfferKey], received: Reading) -> None:
        """Commit that the service denies a request, so that the given offers are gone."""
        gone = {offer for request, offer in keys if request == index}

        def write() -> None:
            found = without_offers(self.known[index], gone, self._between(received))
            self._commit([found], [], received, self.state)

        await self._run(write)
        self._forget_missed((index, offer) for offer in gone)

    async def end_scan(self, scan: OfferScan, received: Reading) -> FreightExchangeError | None:
        """Commit the end of a complete scan; return an error if the scan proves no absence."""
        time = self.state.watermark.time_at(received)
        absent = absent_offers(scan, self.known) if scan.proves_absence else frozenset[OfferKey]()
        doubt = self.state.doubt
        if scan.proves_absence:
            doubt = next_doubt(doubt, scan, absent, absent if self._absent is None else self._absent, time)
        is_doubtful = doubt is not None and doubts.is_open(doubt, time)
        watermark = Watermark(self.state.watermark.time_at(scan.began), scan.began)
        state = OfferFeedState(watermark=watermark, is_primed=True, doubt=doubt)
        if is_doubtful:
            state = attrs.evolve(self.state, doubt=doubt)

        await self._run(lambda: self._commit([], [], received, state))
        self._absent = absent if scan.proves_absence else self._absent
        if doubt is not None and is_doubtful:
            return doubts.doubt_error(doubt, at=time, absent=len(absent), noun="offers")
        if scan.proves_absence:
            self._missed = {key: self._missed.get(key, 0) + 1 for key in absent}
        return None

    def to_look_up(self) -> dict[int, frozenset[OfferKey]]:
        """Return the offers that enough scans have lacked, by their requests."""
        # A service may list a request with the index 0. It cannot be looked up, so its offers are never gone.
        due = [key for key, scans in self._missed.items() if scans >= SCANS_THAT_LACK and key[0] > 0]
        return {index: frozenset(key for key in due if key[0] == index) for index, _ in due}

    async def prune(self, received: Reading) -> None:
        """Refresh requests with offers, drop requests without offers for days, and delete finished events.

        A dropped request that is still listed is recorded again by the next scan, without an event.
        """
        time = self.state.watermark.time_at(received)
        old = [row for row in self._rows.values() if time - row.last_seen >= _DAY]
        fresh = [attrs.evolve(row, last_seen=time) for row in old if self._has_offers(row.index)]
        # The store uses the same condition.
        over = [row for row in old if time - row.last_seen > self._retention and not self._has_offers(row.index)]

        def write() -> None:
            self._store.commit(lambda _: Commit(requests=fresh, at=time))
            self._rows.update((row.index, row) for row in fresh)
            self._store.prune(before=time - self._retention)
            for row in over:
                del self._rows[row.index], self.known[row.index]

        await self._run(write)

    # Within a call of the store

    async def _record(
        self,
        listings: Sequence[Listing],
        unreadable: Sequence[DecodeError],
        received: Reading,
        *,
        gone: Iterable[int] = (),
    ) -> int:
        added = 0

        def write() -> None:
            nonlocal added
            between = self._between(received)
            state = self.state
            found: list[ListingChange] = []
            for listing in listings:
                before = self.known.get(listing.index)
                now = compare(
                    listing,
                    before,
                    between,
                    is_first_scan=not state.is_primed,
                    is_silent=self._is_silent and not state.is_primed,
                )
                if lost := {*gone} & now.known.offers.keys():
                    ended = without_offers(now.known, lost, between)
                    now = ListingChange(ended.known, (*now.events, *ended.events))
                if now.events or before is None or now.known != before:
                    found.append(now)
            if found or unreadable:
                added = self._commit(
                    found, [stored_unreadable(error, between[1]) for error in unreadable], received, state
                )

        await self._run(write)
        self._forget_missed((listing.index, offer) for listing in listings for offer in _ids(listing))
        self._forget_missed((listing.index, offer) for listing in listings for offer in gone)
        return added

    def _commit(
        self, found: Sequence[ListingChange], unreadable: Sequence[NewEvent], received: Reading, state: OfferFeedState
    ) -> int:
        """Commit, and then update the memory, so that a caller that is cancelled meanwhile finds both done."""
        time = self.state.watermark.time_at(received)
        rows = [self._row(change.known, time) for change in found]
        events = [_stored(change.known, event) for change in found for event in change.events]
        events += unreadable
        added = self._store.commit(lambda _: Commit(requests=rows, events=events, state=state.dump(), at=time))
        self.state = state
        self.known.update((change.known.listing.index, change.known) for change in found)
        self._rows.update((row.index, row) for row in rows)
        return added

    def _row(self, known: KnownListing, time: float) -> TrackedRequest:
        index, record = known.listing.index, known.dump()
        before = self._rows.get(index)
        return TrackedRequest(
            index=index,
            digest=hashlib.blake2b(record, digest_size=_DIGEST).digest(),
            record=record,
            version=1 if before is None else before.version + 1,
            first_seen=time if before is None else before.first_seen,
            last_seen=time,
            last_scan=0,
            updated_after=0.0,
        )

    def _between(self, received: Reading) -> tuple[datetime | None, datetime]:
        if not self.state.is_primed:
            return None, to_utc(received)
        since = self.state.watermark.time_at(received) - self.state.watermark.time
        return datetime.fromtimestamp(received.wall - since, to_utc(received).tzinfo), to_utc(received)

    def _has_offers(self, index: int) -> bool:
        """Return whether a request has an offer that is not gone."""
        return any(not entry.is_gone for entry in self.known[index].offers.values())

    def _forget_missed(self, keys: Iterable[OfferKey]) -> None:
        for key in keys:
            self._missed.pop(key, None)


def _ids(listing: Listing) -> list[int]:
    return [offer.id for offer in listing.offers if offer.id is not None]


def _stored(known: KnownListing, event: OfferEvent) -> NewEvent:
    offer = event.offer.id
    assert offer is not None
    key = f"{event.request}:{offer}:{known.offers[offer].version}"
    return NewEvent(key=key, index=event.request, kind=event.kind, payload=pack(event))
