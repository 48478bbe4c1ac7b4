"""Evidence of writes: searches the listings for the effect of a write, and draws a conclusion from one reading.

Conclusions are cautious. Servers round amounts, return total weights, omit fields, replace an earlier offer with a
later one, and list a selected offer alone. If a reply has two explanations, the result is a doubt.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, TypeVar

import attrs

from freight_exchange.base import EXACT
from freight_exchange.endpoints.reconcile.request_evidence import PublishedRequest
from freight_exchange.endpoints.reconcile.route_evidence import CreatedRoute, UpdatedRoute
from freight_exchange.errors import BadRequestError, ConfigurationError, is_from_login
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
    Reconciliation,
    Respond,
    Route,
    StillUnknown,
    SubmitOffer,
    UpdateRoute,
)
from freight_exchange.words import DECLINED

if TYPE_CHECKING:
    from freight_exchange.endpoints.bids import Bids, SeenBids
    from freight_exchange.endpoints.offers import Offers
    from freight_exchange.endpoints.reconcile.shared_readings import SharedReadings
    from freight_exchange.endpoints.routes import Routes

__all__ = ["EvidenceSearch", "Gone", "Readers", "SearchExtent", "evidence_search_for"]

T = TypeVar("T")


class SearchExtent(enum.Enum):
    """Extent of one search for a write: how much it reads.

    Attributes:
        SINGLE_PASS: One plain pass through the main listing. It can prove presence, but not absence.
        UNTIL_DOUBT: Complete readings of the listings, until one leaves a doubt.
        COMPLETE: Complete readings of all listings that may show the write.
    """

    SINGLE_PASS = enum.auto()
    UNTIL_DOUBT = enum.auto()
    COMPLETE = enum.auto()


EvidenceSearch = Callable[[SearchExtent], Awaitable[Reconciliation]]
"""Function that reads the listings to an extent, or further, and returns the conclusion."""

_COARSEST_ROUNDING = Decimal(1)
"""Largest change of an amount by a server that rounds."""


@attrs.frozen(kw_only=True)
class Readers:
    """The resources that a reconciliation reads.

    Attributes:
        shared: Readings that concurrent reconciliations share.
        seen: Requests on which readings have shown bids of this account.
        strict: Whether a listing fails if one of its records cannot be read.
    """

    bids: Bids
    offers: Offers
    routes: Routes
    shared: SharedReadings
    seen: SeenBids
    strict: bool

    async def own_bids(self, type: BidsType | None, *, sweep: bool = True) -> list[Bid]:
        """Return the account's bids of this type, from a reading that begins now or later."""
        listing = self.bids.list(type=type, sweep=sweep)
        listed = await self.shared.read(("bids", type, self.strict, sweep), listing.collect)
        self.seen.remember(listed)
        return listed


def evidence_search_for(
    write: SubmitOffer | Publish | Respond | CreateRoute | UpdateRoute,
    readers: Readers,
    baseline: Sequence[object] | None,
) -> EvidenceSearch:
    """Return the search for a write; raise `ConfigurationError` if the baseline has records of another class."""
    match write:
        case SubmitOffer():
            return _SubmittedOffer(readers, write, _baseline(Bid, baseline)).search
        case Publish():
            return _complete(PublishedRequest(readers.offers, write, _indexes(_baseline(Listing, baseline))).search)
        case Respond():
            # The offer shows its state, so the baseline is not used; a wrong one is refused nevertheless.
            _baseline(Listing, baseline)
            return _complete(_OfferResponse(readers.offers, write).search)
        case CreateRoute():
            return _complete(CreatedRoute(readers.routes, write, _indexes(_baseline(Route, baseline))).search)
        case UpdateRoute():
            routes = _baseline(Route, baseline) or ()
            before = next((route for route in routes if route.index == write.route.index), None)
            return _complete(UpdatedRoute(readers.routes, write.route, before or write.before).search)


def _complete(search: Callable[[], Awaitable[Reconciliation]]) -> EvidenceSearch:
    """Make a search that always reads its single listing completely."""
    return lambda _: search()


@attrs.frozen
class _SubmittedOffer:
    """Evidence of a submitted offer: a new bid of the account on the request with this price and currency."""

    readers: Readers
    write: SubmitOffer
    baseline: list[Bid] | None
    served: set[BidsType | None] = attrs.field(factory=set)

    async def search(self, extent: SearchExtent) -> Reconciliation:
        whole = extent is not SearchExtent.SINGLE_PASS
        before = Counter(map(_terms, self._on_request(self.baseline or ())))
        wanted = (self.write.amount, self.write.currency)
        doubtful: dict[Bid, None] = {}
        found: Reconciliation = NotApplied()
        # The document does not state which bids the plain listing omits, and a service may refuse some types.
        for type in (None, *BidsType):
            view = await self._view(type, sweep=whole)
            # A baseline is from the plain listing: a bid that only another view shows may be older.
            if type is None or self.baseline is None:
                alike = [bid for bid in view if _terms(bid) == wanted]
                # Bids are counted in complete readings only, as a row that moves appears twice in others.
                if len(alike) > before[wanted] and ((whole and self.readers.strict) or not before[wanted]):
                    return Applied(alike[-1])
            now = Counter(map(_terms, view))
            doubtful |= dict.fromkeys(
                bid for bid in view if now[_terms(bid)] > before[_terms(bid)] or self._may_be_it(bid)
            )
            found = StillUnknown(tuple(doubtful)) if doubtful else NotApplied()
            if not whole or (doubtful and extent is SearchExtent.UNTIL_DOUBT):
                break
        return found

    async def _view(self, type: BidsType | None, *, sweep: bool) -> list[Bid]:
        """Return the account's bids on the request in one view of the listing; none if the service refuses the view."""
        try:
            listed = await self.readers.own_bids(type, sweep=sweep)
        except BadRequestError as error:
            # A view that was served before fails now; it is not refused.
            if type is None or type in self.served or is_from_login(error):
                raise
            return []
        self.served.add(type)
        return self._on_request(listed)

    def _on_request(self, bids: Iterable[Bid]) -> list[Bid]:
        return [bid for bid in bids if bid.index == self.write.request]

    def _may_be_it(self, bid: Bid) -> bool:
        """Return whether a bid with an equal earlier one may be this write's, which replaced the earlier bid."""
        if bid.currency not in (None, self.write.currency):
            return False
        if bid.amount is None:
            return True
        return EXACT.subtract(bid.amount, self.write.amount).copy_abs() <= _COARSEST_ROUNDING


def _terms(bid: Bid) -> tuple[object, object]:
    return bid.amount, bid.currency


@attrs.frozen(eq=False, repr=False)
class Gone(Applied):
    """A declined offer that is no longer listed. It is proof only if it lasts, since a listing may be out of date."""


@attrs.frozen
class _OfferResponse:
    """Evidence of an approval or a decline: the state of the offer. The selection of another offer contradicts it."""

    offers: Offers
    write: Respond

    async def search(self) -> Reconciliation:
        without: Listing | None = None
        async for listing in self.offers.list(sweep=True):
            for offer in listing.offers:
                if offer.id == self.write.offer:
                    return self._result_for(listing, offer)
            if listing.index == self.write.request:
                without = listing
        if without is None:
            return StillUnknown()
        if not self.write.approved and without.selected is not None:
            # A selected offer may be listed alone, so this one may be missing without a decline.
            return StillUnknown((without,))
        if not self.write.approved:
            # The offer was declined, or its forwarder has withdrawn it: it is gone in both cases.
            return Gone(without)
        # A selected offer is listed alone.
        lost = without.selected is not None and without.selected.id is not None
        return Conflict(without) if lost else StillUnknown((without,))

    def _result_for(self, listing: Listing, offer: Offer) -> Reconciliation:
        approved = self.write.approved
        if offer.status == OfferStatus.SELECTED:
            return Applied(listing) if approved else Conflict(listing)
        if offer.status in DECLINED:
            return Conflict(listing) if approved else Applied(listing)
        pending = offer.status == OfferStatus.PENDING
        if listing.selected is not None and (approved or pending):
            return Conflict(listing)
        return NotApplied() if pending else StillUnknown((listing,))


def _baseline(kind: type[T], baseline: Sequence[object] | None) -> list[T] | None:
    """Check that a baseline consists of records of the write's listing, as other indexes mean nothing here."""
    if baseline is None:
        return None
    # An iterator would be empty at the second reading.
    if not isinstance(baseline, Sequence):
        raise ConfigurationError(
            f"the baseline of this write is a sequence of {kind.__name__}s, not a {type(baseline).__name__}"
        )
    records = [record for record in baseline if isinstance(record, kind)]
    if len(records) < len(baseline):
        wrong = next(record for record in baseline if not isinstance(record, kind))
        raise ConfigurationError(f"the baseline of this write is made of {kind.__name__}s, not {type(wrong).__name__}s")
    return records


def _indexes(baseline: Iterable[Listing | Route] | None) -> frozenset[int]:
    return frozenset(record.index for record in baseline or ())
