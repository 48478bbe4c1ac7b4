"""Failpoints for crash tests: named points at which a test can stop a bot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

__all__ = ["FAILPOINTS", "STEPS", "Failpoints", "no_failpoints"]

STEPS: Final = (
    "recover",  # deliveries of the last run are returned
    "deliver",  # a batch of events becomes deliveries
    "claim",  # deliveries are claimed for their handlers
    "intent",  # an offer is recorded
    "sending",  # the offer is recorded as sending
    "send",  # the offer is sent and answered
    "confirmed",  # the reply is recorded: taken
    "rejected",  # ... or refused
    "withdrawn",  # ... or certainly not sent
    "unknown",  # ... or in doubt
    "resolved",  # the result of an offer in doubt is recorded
    "settle",  # the result of a delivery, or a replay, is recorded
    "selected",  # the selection of a bid becomes an event
    "reported",  # ... and is recorded as delivered
    "known",  # the handlers, their absences and the bids from before are recorded
)
"""Durable steps of a bot, in the order of a request's way through it."""

FAILPOINTS: Final = tuple(f"{side} {step}" for step in STEPS for side in ("before", "after"))
"""The points before and after each step."""

Failpoints = Callable[[str], None]
"""Callback for each point, with its name."""


def no_failpoints(_: str) -> None:
    """Ignore a failpoint."""
