"""Errors of this package. Each states whether the call may have taken effect.

Most are in `hierarchy`. The root and `ValidationError` are in `platform.errors`, because models need them, and
`OutcomeUnknownError` is in `outcome`. `transient` tells which errors may pass.
"""

from __future__ import annotations

from freight_exchange.errors.hierarchy import (
    AlreadyApprovedError,
    AlreadyOfferedError,
    APIStatusError,
    AuthenticationError,
    BadRequestError,
    ConfigurationError,
    DeadlineExceededError,
    DecodeError,
    FeedProtocolError,
    FencedError,
    HeldError,
    LoginRejectedError,
    NotFoundError,
    OfferChangedError,
    OfferInDoubtError,
    OfferRejectedError,
    RateLimitedError,
    ServerError,
    StoreAwayError,
    StoreError,
    TransportError,
)
from freight_exchange.errors.outcome import OutcomeUnknownError
from freight_exchange.platform.errors import FreightExchangeError, ValidationError

__all__ = [
    "APIStatusError",
    "AlreadyApprovedError",
    "AlreadyOfferedError",
    "AuthenticationError",
    "BadRequestError",
    "ConfigurationError",
    "DeadlineExceededError",
    "DecodeError",
    "FeedProtocolError",
    "FencedError",
    "FreightExchangeError",
    "HeldError",
    "LoginRejectedError",
    "NotFoundError",
    "OfferChangedError",
    "OfferInDoubtError",
    "OfferRejectedError",
    "OutcomeUnknownError",
    "RateLimitedError",
    "ServerError",
    "StoreAwayError",
    "StoreError",
    "TransportError",
    "ValidationError",
]
