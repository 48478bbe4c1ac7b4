"""Outcome of a write that raised: unknown, rejected, or not sent. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from freight_exchange.errors import (
    BadRequestError,
    FreightExchangeError,
    NotFoundError,
    OutcomeUnknownError,
    is_from_login,
)

__all__ = ["outcome_of"]


def outcome_of(
    error: FreightExchangeError, *, refusals: tuple[type[FreightExchangeError], ...] = (BadRequestError, NotFoundError)
) -> Literal["unknown", "rejected", "not sent"]:
    """Return the outcome of the write that an error ended.

    Args:
        error: The error.
        refusals: Errors that are the service's answer to the write, if the service itself has replied.
    """
    if isinstance(error, OutcomeUnknownError):
        return "unknown"
    if isinstance(error, refusals) and not is_from_login(error):
        return "rejected" if _is_service_reply(error) else "unknown"
    return "unknown" if error.may_have_taken_effect else "not sent"


def _is_service_reply(refusal: FreightExchangeError) -> bool:
    """Return whether the service itself refused, and not a gateway: all its replies are JSON."""
    return isinstance(refusal.body, Mapping | Sequence) and not isinstance(refusal.body, str)
