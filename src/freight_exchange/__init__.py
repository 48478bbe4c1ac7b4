"""An asyncio SDK for the freight exchange: requests, offers, routes, and a watcher for what is new."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from freight_exchange.client import FreightExchange
from freight_exchange.errors import (
    AlreadyOfferedError,
    APIStatusError,
    AuthenticationError,
    BadRequestError,
    ConfigurationError,
    DeadlineExceededError,
    DecodeError,
    FeedProtocolError,
    FreightExchangeError,
    LoginRejectedError,
    NotFoundError,
    OfferInDoubtError,
    OutcomeUnknownError,
    RateLimitedError,
    ServerError,
    StoreError,
    TransportError,
    ValidationError,
)
from freight_exchange.feed.events import RequestEvent
from freight_exchange.feed.feed import Feed
from freight_exchange.models import (
    Applied,
    Bid,
    BidStatus,
    BidsType,
    Carrier,
    Company,
    Conflict,
    Contact,
    Currency,
    Listing,
    NotApplied,
    Offer,
    OfferStatus,
    OffersType,
    Packaging,
    RateRequest,
    RateRequestDraft,
    RequestStatus,
    RequestType,
    Route,
    RouteDraft,
    SearchType,
    StillUnknown,
    UnknownWord,
    User,
)
from freight_exchange.options import Addresses, RetryPolicy, Timeouts
from freight_exchange.paging import Page, Paginator
from freight_exchange.transport.message import Request, Response

__all__ = [
    "APIStatusError",
    "Addresses",
    "AlreadyOfferedError",
    "Applied",
    "AuthenticationError",
    "BadRequestError",
    "Bid",
    "BidStatus",
    "BidsType",
    "Carrier",
    "Company",
    "ConfigurationError",
    "Conflict",
    "Contact",
    "Currency",
    "DeadlineExceededError",
    "DecodeError",
    "Feed",
    "FeedProtocolError",
    "FreightExchange",
    "FreightExchangeError",
    "Listing",
    "LoginRejectedError",
    "NotApplied",
    "NotFoundError",
    "Offer",
    "OfferInDoubtError",
    "OfferStatus",
    "OffersType",
    "OutcomeUnknownError",
    "Packaging",
    "Page",
    "Paginator",
    "RateLimitedError",
    "RateRequest",
    "RateRequestDraft",
    "Request",
    "RequestEvent",
    "RequestStatus",
    "RequestType",
    "Response",
    "RetryPolicy",
    "Route",
    "RouteDraft",
    "SearchType",
    "ServerError",
    "StillUnknown",
    "StoreError",
    "Timeouts",
    "TransportError",
    "UnknownWord",
    "User",
    "ValidationError",
    "__version__",
]

logging.getLogger("freight_exchange").addHandler(logging.NullHandler())

if TYPE_CHECKING:
    __version__: str
else:
    # Unseen by type checkers: to them, every misspelt name of the package would be there.
    def __getattr__(name: str) -> str:
        """`__version__`, read when it is asked for: what reads it takes longer to import than all of this package."""
        if name != "__version__":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib.metadata import version

        return version("freight-exchange")
