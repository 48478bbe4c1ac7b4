"""Outcome of a write: unknown, rejected, or not sent, and whether it may still arrive. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from freight_exchange.errors import (
    BadRequestError,
    FreightExchangeError,
    NotFoundError,
    OutcomeUnknownError,
    ValidationError,
)
from freight_exchange.errors.transient import is_from_login

__all__ = ["check_arrived", "outcome_of"]


def check_arrived(write: object, remaining: float) -> None:
    """Check that a write of a process that has ended cannot reach the service any more.

    Args:
        write: The write, in words.
        remaining: Seconds for which it may.

    Raises:
        ValidationError: It may.
    """
    if remaining > 0:
        raise ValidationError(
            f"{write} may still arrive for {remaining:.0f} s: look at the service's own pages after that, and resolve"
            " it then",
            field="taken",
        )


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
