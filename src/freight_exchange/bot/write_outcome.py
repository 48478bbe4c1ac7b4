"""Outcome of a write that raised: unknown, rejected, or not sent. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from freight_exchange.errors import BadRequestError, FreightExchangeError, NotFoundError, OutcomeUnknownError
from freight_exchange.errors.transient import is_from_login

__all__ = ["is_service_reply", "outcome_of"]


def outcome_of(error: FreightExchangeError) -> Literal["unknown", "rejected", "not sent"]:
    """Return the outcome of the write that an error ended."""
    if isinstance(error, OutcomeUnknownError):
        return "unknown"
    if isinstance(error, BadRequestError | NotFoundError) and not is_from_login(error):
        return "rejected" if is_service_reply(error) else "unknown"
    return "unknown" if error.may_have_taken_effect else "not sent"


def is_service_reply(refusal: BadRequestError | NotFoundError) -> bool:
    """Return whether the service itself refused, and not a gateway: all its replies are JSON."""
    return isinstance(refusal.body, Mapping | Sequence) and not isinstance(refusal.body, str)
