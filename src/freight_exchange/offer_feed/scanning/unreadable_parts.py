"""Events for the parts of a page that are unreadable, or have no identifier of their own. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Final

import attrs

from freight_exchange import wire
from freight_exchange.errors import DecodeError
from freight_exchange.feed.events import Unreadable
from freight_exchange.offer_feed.serialization import pack
from freight_exchange.serialization import to_dict
from freight_exchange.store.protocol import NewEvent

if TYPE_CHECKING:
    from freight_exchange.models import Listing, Offer
    from freight_exchange.offer_feed.core.scan import OfferScan
    from freight_exchange.wire import Rows

__all__ = ["record_unreadable", "stored_unreadable", "unreadable_parts"]

_DIGEST: Final = 8


def unreadable_parts(page: Rows[Listing]) -> list[DecodeError]:
    """Return the errors of a page's requests and offers. Other errors in a request are left out: they hide no offer."""
    flaws = (flaw for flaw in page.flaws if ".offer" in flaw.path)
    return [*page.broken, *flaws, *(error for listing in page.records for error in _unidentified(listing))]


def record_unreadable(scan: OfferScan, unreadable: Iterable[DecodeError]) -> None:
    """Record unreadable parts in a scan. Their requests prove no absence; if one names no request, none does."""
    for error in unreadable:
        index = wire.index_of_raw(error.raw)
        if index is None:
            scan.is_uncertain = True
        else:
            scan.uncertain.add(index)
            scan.requests.add(index)


def stored_unreadable(error: DecodeError, observed: datetime) -> NewEvent:
    """Return the stored event of an error. Its key depends on the raw value, so the same value makes one event."""
    event = Unreadable(index=wire.index_of_raw(error.raw), raw=error.raw, error=str(error), observed=observed)
    key = hashlib.blake2b(repr((event.index, event.raw)).encode("utf-8", "surrogatepass"), digest_size=_DIGEST)
    return NewEvent(key=f"unreadable:{key.hexdigest()}", index=event.index, kind=event.kind, payload=pack(event))


def _unidentified(listing: Listing) -> Iterator[DecodeError]:
    """Yield an error for each offer without an identifier, or with the identifier of a different offer before it."""
    seen: dict[int, Offer] = {}
    for offer in listing.offers:
        if offer.id is None:
            problem = "an offer without an identifier"
        elif seen.setdefault(offer.id, offer) != offer:
            problem = f"another offer with the identifier {offer.id}"
        else:
            continue
        # Without undocumented fields: they may change with each scan, and would make another event each time.
        raw = {"index": listing.index, "offer": to_dict(attrs.evolve(offer, extra={}))}
        yield DecodeError(f"{problem} on request {listing.index}", path="offers.offer", raw=raw)
