"""The named points at which a bot can be made to crash, so that its promise can be tested."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

__all__ = ["FAILPOINTS", "STEPS", "Failpoints"]

STEPS: Final = (
    "recover",  # what the last run left at its handlers is taken back
    "deliver",  # a batch of events becomes deliveries
    "claim",  # deliveries are claimed for their handlers
    "intent",  # an offer is written down
    "sending",  # it is noted that the offer may be on its way
    "send",  # the offer is sent, and answered
    "confirmed",  # the service's answer is noted: taken
    "rejected",  # ... or refused
    "withdrawn",  # ... or proven not to have been sent
    "unknown",  # ... or in doubt
    "resolved",  # what became of a doubtful offer is noted
    "settle",  # what became of a delivery, or is to become of a dead one, is noted
    "selected",  # the selection of an own bid becomes an event
    "told",  # ... and is noted as told
    "known",  # what stood at the service before the bot's time is noted, in each run, and which handlers there were
)
"""What a bot does that lasts, in the order of a request's way through it."""

FAILPOINTS: Final = tuple(f"{side} {step}" for step in STEPS for side in ("before", "after"))
"""Before and after each of them."""

Failpoints = Callable[[str], None]
"""Called at each point with its name."""


def nowhere(_: str) -> None:
    """What bots call that nobody wants to crash."""
