"""Frozen values, without I/O: records of the service, drafts to send, writes, and results of reconciliation.

Each file has one noun. `_base` has the base classes, `enums` the words of the service, `validation` the checks of
arguments, and `units` the units of measures.
"""

from __future__ import annotations

from freight_exchange.models.bid import Bid
from freight_exchange.models.carrier import Carrier
from freight_exchange.models.company import Company
from freight_exchange.models.contact import Contact
from freight_exchange.models.currency import Currency
from freight_exchange.models.enums import (
    BidStatus,
    BidsType,
    OfferStatus,
    OffersType,
    Packaging,
    RequestStatus,
    RequestType,
    SearchType,
    UnknownWord,
)
from freight_exchange.models.listing import Listing
from freight_exchange.models.offer import Offer
from freight_exchange.models.reconciliation import Applied, Conflict, NotApplied, Reconciliation, StillUnknown
from freight_exchange.models.request import RateRequest, RateRequestDraft
from freight_exchange.models.route import Route, RouteDraft
from freight_exchange.models.user import User
from freight_exchange.models.writes import (
    CreateRoute,
    Publish,
    RawWrite,
    Respond,
    SubmitOffer,
    UpdateRoute,
    Write,
)

__all__ = [
    "Applied",
    "Bid",
    "BidStatus",
    "BidsType",
    "Carrier",
    "Company",
    "Conflict",
    "Contact",
    "CreateRoute",
    "Currency",
    "Listing",
    "NotApplied",
    "Offer",
    "OfferStatus",
    "OffersType",
    "Packaging",
    "Publish",
    "RateRequest",
    "RateRequestDraft",
    "RawWrite",
    "Reconciliation",
    "RequestStatus",
    "RequestType",
    "Respond",
    "Route",
    "RouteDraft",
    "SearchType",
    "StillUnknown",
    "SubmitOffer",
    "UnknownWord",
    "UpdateRoute",
    "User",
    "Write",
]
