"""An asyncio SDK for the freight exchange: requests, offers, routes, and feeds of new events."""

from __future__ import annotations

import logging

__version__ = "0.1.0"

# Imported on first use, as many programs never watch, and the command line's help needs none of these. The stub beside
# this file has the same names for type checkers.
_NAMES = {
    "client": "FreightExchange",
    "models": (
        "Applied Bid BidStatus BidsType Carrier Company Conflict Contact Currency Listing NotApplied Offer "
        "OfferStatus OffersType Packaging RateRequest RateRequestDraft RequestStatus RequestType Route RouteDraft "
        "SearchType StillUnknown UnknownWord User"
    ),
    "filters": "OfferFilter RequestFilter",
    "paging": "Page Paginator",
    "options": "Addresses RetryPolicy Timeouts",
    "errors": (
        "APIStatusError AlreadyApprovedError AlreadyOfferedError AuthenticationError BadRequestError "
        "ConfigurationError DeadlineExceededError DecodeError FeedProtocolError FencedError FreightExchangeError "
        "HeldError LoginRejectedError NotFoundError OfferChangedError OfferInDoubtError OfferRejectedError "
        "OutcomeUnknownError RateLimitedError ServerError StoreAwayError StoreError TransportError ValidationError"
    ),
    "serialization": "from_dict from_json to_dict to_json",
    "transport.call": "Request Response",
    "transport.token_file": "TokenFile",
    "feed.events": "BidSelected Gap OfferEvent RequestEvent Unreadable",
    "feed.feed": "Explanation Feed FeedStatus OfferFeed OfferFeedStatus",
    "bot": (
        "Bot BotStatus Context DeadLetter Doubt Drop OfferContext RequestContext RetryLater Router SelectedContext"
    ),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [*sorted(_MODULES), "__version__"]  # pyright: ignore[reportUnsupportedDunderAll]  # made of the table

logging.getLogger("freight_exchange").addHandler(logging.NullHandler())


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found = getattr(import_module(f"freight_exchange.{_MODULES[name]}"), name)
    globals()[name] = found
    return found
