"""Finding out whether a write happened, by reading what the service shows now.

Absence is proof only when complete readings agree on it over the settle time: the service may be slow to show what
it has done. Nothing is ever sent again from here.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

import anyio
import attrs

from freight_exchange.errors import (
    BadRequestError,
    ConfigurationError,
    DeadlineExceededError,
    DecodeError,
    FeedProtocolError,
    RateLimitedError,
    ServerError,
    TransportError,
    ValidationError,
)
from freight_exchange.models import (
    Applied,
    Bid,
    BidsType,
    Conflict,
    CreateRoute,
    Listing,
    NotApplied,
    Offer,
    OfferStatus,
    Publish,
    RawWrite,
    Reconciliation,
    Respond,
    Route,
    RouteDraft,
    StillUnknown,
    SubmitOffer,
    UpdateRoute,
    Write,
)

if TYPE_CHECKING:
    from freight_exchange.endpoints.bids import Bids
    from freight_exchange.endpoints.offers import Offers
    from freight_exchange.endpoints.routes import Routes

__all__ = ["Readers", "reconcile"]

T = TypeVar("T")

_logger = logging.getLogger("freight_exchange.reconcile")

Look = Callable[[], Awaitable[Reconciliation]]

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 8.0
_PATIENCE = 4
"""How many settle times, and a minute, readings may keep failing before doubt is all that is left."""

_PASSING = (TransportError, DeadlineExceededError, DecodeError, ServerError, RateLimitedError, FeedProtocolError)


@attrs.frozen(kw_only=True)
class Readers:
    """The resources that a reconciliation reads: strict ones, so that a record it cannot read hides nothing."""

    bids: Bids
    offers: Offers
    routes: Routes


async def reconcile(
    readers: Readers, write: Write, *, settle: timedelta, baseline: Sequence[object] | None
) -> Reconciliation:
    """What became of the write. `settle` is its time; no deadline of the client bounds it."""
    if not isinstance(settle, timedelta) or settle < timedelta(0):
        raise ValidationError("settle must be a timedelta that is not negative", field="settle")
    if isinstance(write, RawWrite):
        return StillUnknown()
    return await _settle(_look_for(write, readers, baseline), settle.total_seconds())


def _look_for(
    write: SubmitOffer | Publish | Respond | CreateRoute | UpdateRoute,
    readers: Readers,
    baseline: Sequence[object] | None,
) -> Look:
    match write:
        case SubmitOffer():
            return _Submitted(readers.bids, write, _of(Bid, baseline)).look
        case Publish():
            return _Published(readers.offers, write, _indexes(baseline)).look
        case Respond():
            return _Responded(readers.offers, write).look
        case CreateRoute():
            return _Created(readers.routes, write, _of(Route, baseline)).look
        case UpdateRoute():
            before = next((route for route in _of(Route, baseline) or () if route.index == write.route.index), None)
            return _Updated(readers.routes, attrs.evolve(write, before=before or write.before)).look


async def _settle(look: Look, settle: float) -> Reconciliation:
    """Look until something decides it, or two complete readings at least agree over the whole settle time."""
    started = anyio.current_time()
    agreed: tuple[Reconciliation, float] | None = None
    pause = _FIRST_PAUSE
    while True:
        looked = anyio.current_time()
        wait = pause
        try:
            found = await look()
        except _PASSING as error:
            _logger.info("a reading failed, counting starts again: %s", error)
            agreed = None
            if isinstance(error, RateLimitedError) and error.retry_after is not None:
                wait = max(wait, error.retry_after)
        else:
            if isinstance(found, Applied | Conflict):
                return found
            if agreed is None or agreed[0] != found:
                agreed = (found, looked)
            elif looked - agreed[1] >= settle:
                return found
            wait = min(wait, max(0.0, agreed[1] + settle - anyio.current_time()))
        if anyio.current_time() - started + wait > _PATIENCE * settle + 60:
            return agreed[0] if agreed is not None and isinstance(agreed[0], StillUnknown) else StillUnknown()
        await anyio.sleep(wait)
        pause = min(2 * pause, _LONGEST_PAUSE)


@attrs.frozen
class _Submitted:
    """An own bid on that request with that price and currency, not there before."""

    bids: Bids
    write: SubmitOffer
    baseline: list[Bid] | None

    async def look(self) -> Reconciliation:
        mine = await self._read()
        before = Counter(map(_bid_terms, self._on_request(self.baseline or [])))
        now = Counter({terms: len(alike) for terms, alike in mine.items()})
        wanted = (self.write.amount, self.write.currency)
        if now[wanted] > before[wanted]:
            return Applied(mine[wanted][-1])
        # A server may round: an own bid that nobody can account for is no proof of absence.
        strange = [alike[-1] for terms, alike in mine.items() if now[terms] > before[terms] and terms != wanted]
        return StillUnknown(tuple(strange)) if strange else NotApplied()

    async def _read(self) -> dict[tuple[object, object], list[Bid]]:
        """The own bids on that request by price and currency, twins counted, from every view of the bid listing."""
        found: dict[tuple[object, object], list[Bid]] = {}
        for type in (None, *BidsType):
            try:
                listed = await self.bids.list(type=type, sweep=True).collect()
            except BadRequestError:
                # What the plain listing leaves out is not documented, and neither is that every type is served.
                if type is None:
                    raise
                continue
            view: dict[tuple[object, object], list[Bid]] = {}
            for bid in self._on_request(listed):
                view.setdefault(_bid_terms(bid), []).append(bid)
            for terms, alike in view.items():
                if len(alike) > len(found.get(terms, ())):
                    found[terms] = alike
        return found

    def _on_request(self, bids: Iterable[Bid]) -> list[Bid]:
        return [bid for bid in bids if bid.index == self.write.request]


def _bid_terms(bid: Bid) -> tuple[object, object]:
    return bid.amount, bid.currency


@attrs.frozen
class _Published:
    """An own request with the same commodity, lane, quantity, volume and weight, not there before."""

    offers: Offers
    write: Publish
    before: frozenset[int]

    async def look(self) -> Reconciliation:
        draft = self.write.draft
        wanted = _named(draft.commodity, draft.origin, draft.destination)
        near: list[Listing] = []
        async for listing in self.offers.list(sweep=True):
            if listing.index in self.before:
                continue
            if _named(listing.commodity, listing.origin, listing.destination) != wanted:
                continue
            facts = (
                (listing.quantity, draft.quantity),
                (listing.volume, draft.volume),
                (listing.weight, draft.weight),
            )
            if all(shown == sent for shown, sent in facts):
                return Applied(listing)
            if all(shown is None or shown == sent for shown, sent in facts):
                near.append(listing)
        return StillUnknown(tuple(near)) if near else NotApplied()


def _named(*words: str | None) -> tuple[str, ...]:
    return tuple(" ".join((word or "").split()).casefold() for word in words)


@attrs.frozen
class _Responded:
    """The offer's state says so; another one selected stands in the way."""

    offers: Offers
    write: Respond

    async def look(self) -> Reconciliation:
        found: Listing | None = None
        async for listing in self.offers.list(sweep=True):
            if any(offer.id == self.write.offer for offer in listing.offers):
                found = listing
                break
        if found is None:
            return StillUnknown()
        offer = next(offer for offer in found.offers if offer.id == self.write.offer)
        return self._judge(found, offer)

    def _judge(self, listing: Listing, offer: Offer) -> Reconciliation:
        selected = listing.selected
        if selected is not None and selected.id == offer.id:
            return Applied(listing) if self.write.approved else Conflict(listing)
        if offer.status is None:
            return StillUnknown((listing,))
        if offer.status == OfferStatus.PENDING:
            return NotApplied() if selected is None else Conflict(listing)
        return Conflict(listing) if self.write.approved else Applied(listing)


@attrs.frozen
class _Created:
    """One more route with that fingerprint than before."""

    routes: Routes
    write: CreateRoute
    baseline: list[Route] | None

    async def look(self) -> Reconciliation:
        wanted = _image(self.write.draft)
        before = {route.index for route in self.baseline or () if _image(route) == wanted}
        async for route in self.routes.list(sweep=True):
            if _image(route) == wanted and route.index not in before:
                return Applied(route)
        return NotApplied()


@attrs.frozen
class _Updated:
    """The route reads as the new image, as the old one, or as neither."""

    routes: Routes
    write: UpdateRoute

    async def look(self) -> Reconciliation:
        new, old = self.write.route, self.write.before
        async for route in self.routes.list(sweep=True):
            if route.index != new.index:
                continue
            if _image(route) == _image(new):
                return Applied(route)
            if old is None:
                return StillUnknown((route,))
            return NotApplied() if _image(route) == _image(old) else Conflict(route)
        return StillUnknown()


def _image(route: Route | RouteDraft) -> tuple[Hashable, ...]:
    """What is compared of a route: all that a client sends."""
    return (
        *_named(route.origin, route.destination, route.vessel, route.voyage_id, route.timezone),
        route.cy_cutoff,
        route.cfs_cutoff,
        route.departure,
        route.arrival,
        route.carrier,
    )


def _of(kind: type[T], baseline: Sequence[object] | None) -> list[T] | None:
    if baseline is None:
        return None
    wrong = next((record for record in baseline if not isinstance(record, kind)), None)
    if wrong is not None:
        raise ConfigurationError(f"the baseline of this write is made of {kind.__name__}s, not {type(wrong).__name__}s")
    return [record for record in baseline if isinstance(record, kind)]


def _indexes(baseline: Sequence[object] | None) -> frozenset[int]:
    return frozenset(index for record in baseline or () if isinstance(index := getattr(record, "index", None), int))
