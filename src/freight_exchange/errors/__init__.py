"""One hierarchy of errors, each stating whether the call may have taken effect."""

from __future__ import annotations

from freight_exchange.errors.base import (
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

__all__ = [
    "APIStatusError",
    "AlreadyOfferedError",
    "AuthenticationError",
    "BadRequestError",
    "ConfigurationError",
    "DeadlineExceededError",
    "DecodeError",
    "FeedProtocolError",
    "FreightExchangeError",
    "HeldError",
    "LoginRejectedError",
    "NotFoundError",
    "OfferInDoubtError",
    "OfferRejectedError",
    "OutcomeUnknownError",
    "RateLimitedError",
    "ServerError",
    "StoreError",
    "TransportError",
    "ValidationError",
]
