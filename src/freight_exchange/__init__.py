"""An asyncio SDK for the freight exchange: requests, offers, routes, and a watcher for what is new."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

__all__ = [
    "APIStatusError",
    "Addresses",
    "AlreadyOfferedError",
    "Applied",
    "AuthenticationError",
    "BadRequestError",
    "Bid",
    "BidSelected",
    "BidStatus",
    "BidsType",
    "Bot",
    "BotStatus",
    "Carrier",
    "Company",
    "ConfigurationError",
    "Conflict",
    "Contact",
    "Context",
    "Currency",
    "DeadLetter",
    "DeadlineExceededError",
    "DecodeError",
    "Doubt",
    "Drop",
    "Explanation",
    "Feed",
    "FeedProtocolError",
    "FeedStatus",
    "FreightExchange",
    "FreightExchangeError",
    "Gap",
    "HeldError",
    "Listing",
    "LoginRejectedError",
    "NotApplied",
    "NotFoundError",
    "Offer",
    "OfferInDoubtError",
    "OfferRejectedError",
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
    "RequestFilter",
    "RequestStatus",
    "RequestType",
    "Response",
    "RetryLater",
    "RetryPolicy",
    "Route",
    "RouteDraft",
    "Router",
    "SchemaChanged",
    "SearchType",
    "ServerError",
    "StillUnknown",
    "StoreError",
    "Timeouts",
    "TokenFile",
    "TransportError",
    "UnknownWord",
    "Unreadable",
    "User",
    "ValidationError",
    "__version__",
]

logging.getLogger("freight_exchange").addHandler(logging.NullHandler())

if TYPE_CHECKING:
    from freight_exchange.bot import Bot, BotStatus, Context, DeadLetter, Doubt, Drop, RetryLater, Router
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
        HeldError,
        LoginRejectedError,
        NotFoundError,
        OfferInDoubtError,
        OfferRejectedError,
        OutcomeUnknownError,
        RateLimitedError,
        ServerError,
        StoreError,
        TransportError,
        ValidationError,
    )
    from freight_exchange.feed.events import BidSelected, Gap, RequestEvent, SchemaChanged, Unreadable
    from freight_exchange.feed.feed import Feed
    from freight_exchange.feed.filter import RequestFilter
    from freight_exchange.feed.status import Explanation, FeedStatus
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
    from freight_exchange.transport.auth.token_store import TokenFile
    from freight_exchange.transport.message import Request, Response

    __version__: str
else:
    # Imported when it is asked for: many programs never watch, and the command line's help needs none of it. Unseen by
    # type checkers: to them, every misspelt name of the package would be there.
    _LATER = {
        "APIStatusError": "errors",
        "Addresses": "options",
        "AlreadyOfferedError": "errors",
        "Applied": "models",
        "AuthenticationError": "errors",
        "BadRequestError": "errors",
        "Bid": "models",
        "BidSelected": "feed.events",
        "BidStatus": "models",
        "BidsType": "models",
        "Bot": "bot",
        "BotStatus": "bot",
        "Carrier": "models",
        "Company": "models",
        "ConfigurationError": "errors",
        "Conflict": "models",
        "Contact": "models",
        "Context": "bot",
        "Currency": "models",
        "DeadLetter": "bot",
        "DeadlineExceededError": "errors",
        "DecodeError": "errors",
        "Doubt": "bot",
        "Drop": "bot",
        "Explanation": "feed.status",
        "Feed": "feed.feed",
        "FeedProtocolError": "errors",
        "FeedStatus": "feed.status",
        "FreightExchange": "client",
        "FreightExchangeError": "errors",
        "Gap": "feed.events",
        "HeldError": "errors",
        "Listing": "models",
        "LoginRejectedError": "errors",
        "NotApplied": "models",
        "NotFoundError": "errors",
        "Offer": "models",
        "OfferInDoubtError": "errors",
        "OfferRejectedError": "errors",
        "OfferStatus": "models",
        "OffersType": "models",
        "OutcomeUnknownError": "errors",
        "Packaging": "models",
        "Page": "paging",
        "Paginator": "paging",
        "RateLimitedError": "errors",
        "RateRequest": "models",
        "RateRequestDraft": "models",
        "Request": "transport.message",
        "RequestEvent": "feed.events",
        "RequestFilter": "feed.filter",
        "RequestStatus": "models",
        "RequestType": "models",
        "Response": "transport.message",
        "RetryLater": "bot",
        "RetryPolicy": "options",
        "Route": "models",
        "RouteDraft": "models",
        "Router": "bot",
        "SchemaChanged": "feed.events",
        "SearchType": "models",
        "ServerError": "errors",
        "StillUnknown": "models",
        "StoreError": "errors",
        "Timeouts": "options",
        "TokenFile": "transport.auth.token_store",
        "TransportError": "errors",
        "UnknownWord": "models",
        "Unreadable": "feed.events",
        "User": "models",
        "ValidationError": "errors",
    }

    def __getattr__(name: str) -> object:
        if name == "__version__":
            from importlib.metadata import version

            return version("freight-exchange")
        if name in _LATER:
            from importlib import import_module

            found = getattr(import_module(f"freight_exchange.{_LATER[name]}"), name)
            globals()[name] = found
            return found
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
