"""State of a running scan, and the offers that it lacks at its end. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from freight_exchange.feed.core.absence import doubts
from freight_exchange.feed.core.planning.scanner import Scanner
from freight_exchange.feed.core.state import AbsenceDoubt
from freight_exchange.feed.core.watermark import WIDEST
from freight_exchange.models import Listing
from freight_exchange.offer_feed.core.compare import expected_offers
from freight_exchange.offer_feed.core.known_offers import KnownListing
from freight_exchange.platform.clock import Reading

__all__ = ["SCANS_THAT_LACK", "OfferKey", "OfferScan", "absent_offers", "next_doubt"]

SCANS_THAT_LACK = 2
"""Complete scans in a row that must lack an offer before it is looked up."""

OfferKey = tuple[int, int]
"""Index of the request, and identifier of the offer."""


@attrs.define(eq=False)
class OfferScan:
    """Running scan with its results so far.

    Attributes:
        scanner: Its place in the listing.
        began: When its first page was requested.
        requests: Indexes of the requests that it saw.
        offers: Offers that it saw.
        uncertain: Indexes of listed requests that could not be read completely. Offers that they lack do not count as
            absent.
        is_uncertain: Whether an unreadable part could belong to any request.
        event_count: Number of events so far.
        pages: Number of pages, set at its end.
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
        """`True` once the pass up has reached the end of the listing.

        The pass down, which would prove that no row was missed, is not needed: an offer counts as gone only after a
        second scan and a look-up.
        """
        return self.scanner.ended or self.scanner.has_climbed

    @property
    def proves_absence(self) -> bool:
        """`True` if offers that the scan lacks count as absent."""
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
    """Return the doubt after a complete scan. A listing that lacks many known offers proves nothing at first.

    Args:
        before: The doubt before the scan.
        scan: The scan.
        absent: Offers that the scan should have seen and did not.
        absent_before: Offers that were absent from the scan before. Others that are absent now have vanished since, and
            may begin a new doubt after the first one has lasted.
        at: When the scan ended, on the feed's clock.
    """
    listed = len(scan.offers) + bool(scan.requests)
    doubt = doubts.next_doubt(before, window=WIDEST, at=at, listed=listed, absent=len(absent))
    if doubt is None or doubts.is_open(doubt, at) or not doubts.is_much(len(absent - absent_before), listed, WIDEST):
        return doubt
    return AbsenceDoubt(since=at, last=at, window=WIDEST)
