"""A scan under way, and what it lacks at its end. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from freight_exchange.feed.core.absence import doubts
from freight_exchange.feed.core.planning.scanner import Scanner
from freight_exchange.feed.core.state import AbsenceDoubt
from freight_exchange.feed.core.watermark import WIDEST
from freight_exchange.models import Listing
from freight_exchange.offer_feed.core.compare import expected_offers
from freight_exchange.offer_feed.core.known import KnownListing
from freight_exchange.platform.clock import Reading

__all__ = ["SCANS_THAT_LACK", "OfferKey", "OfferScan", "absent_offers", "next_doubt"]

SCANS_THAT_LACK = 2
"""Complete scans in a row that must lack an offer before a look-up may prove that it is gone."""

OfferKey = tuple[int, int]
"""Index of the request, and identifier of the offer."""


@attrs.define(eq=False)
class OfferScan:
    """A scan under way.

    Attributes:
        scanner: Its place in the listing.
        began: When its first page was sent.
        requests: Indexes of the requests that it saw.
        offers: Offers that it saw.
        uncertain: Indexes of requests that were listed and cannot be read in full: what they lack is not absent.
        is_uncertain: Whether something could not be read that names no request.
        event_count: Number of events so far.
        pages: Number of pages, once it has ended.
    """

    scanner: Scanner[Listing]
    began: Reading
    requests: set[int] = attrs.field(factory=set)
    offers: set[OfferKey] = attrs.field(factory=set)
    uncertain: set[int] = attrs.field(factory=set)
    is_uncertain: bool = False
    event_count: int = 0
    pages: int = 0

    @property
    def has_ended(self) -> bool:
        """Completeness: the way up has reached the end of the listing.

        The way down, which proves that no row moved meanwhile, is left out: an offer that a scan lacks is gone only
        after a second scan and a look-up.
        """
        return self.scanner.ended or self.scanner.has_climbed

    @property
    def proves_absence(self) -> bool:
        """Validity as proof: offers that the scan lacks count as absent."""
        return self.has_ended and not self.scanner.offset_ignored and not self.is_uncertain


def absent_offers(scan: OfferScan, known: Mapping[int, KnownListing]) -> frozenset[OfferKey]:
    """Return the offers that a complete scan should have seen and did not."""
    return frozenset(
        (index, offer)
        for index, listing in known.items()
        if index not in scan.uncertain
        for offer in expected_offers(listing)
        if (index, offer) not in scan.offers
    )


def next_doubt(
    before: AbsenceDoubt | None,
    scan: OfferScan,
    absent: frozenset[OfferKey],
    absent_before: frozenset[OfferKey],
    at: float,
) -> AbsenceDoubt | None:
    """Return the doubt after a complete scan: a listing that lacks most of what is known proves nothing at first.

    Args:
        before: The doubt before it.
        scan: The scan.
        absent: Offers that it should have seen and did not.
        absent_before: Those of the last scan. What that one listed counts in a doubt that has lasted as well.
        at: When it ended, on the feed's clock.
    """
    listed, relisted = len(scan.offers) + bool(scan.requests), len(absent - absent_before)
    return doubts.next_doubt(before, window=WIDEST, at=at, listed=listed, absent=len(absent), relisted=relisted)
