"""Failpoints for crash tests: named points at which a test can stop a bot.

`reach("before send")` calls what `serve(failpoints=...)` was given, in every task of that bot.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Final

_STEPS: Final = (
    "adopt",  # what ended replicas had in flight is taken over
    "route",  # events become deliveries
    "claim",  # deliveries are claimed for their handlers
    "sending",  # an offer or an answer is recorded as sending
    "send",  # it is sent and answered
    "confirmed",  # the reply is recorded: taken
    "rejected",  # ... or refused
    "withdrawn",  # ... or certainly not sent
    "unknown",  # ... or in doubt
    "resolved",  # the result of a doubt is recorded
    "settle",  # the result of a delivery is recorded
)

FAILPOINTS: Final = tuple(f"{side} {step}" for step in _STEPS for side in ("before", "after"))
"""Points before and after each durable step of a bot, in the order of a request's way through it."""

Failpoints = Callable[[str], None]
"""Callback for each point, with its name."""


def no_failpoints(_: str) -> None:
    """Ignore a failpoint."""


active: Final[ContextVar[Failpoints]] = ContextVar("failpoints", default=no_failpoints)
"""Callback of the bot whose task runs."""


def reach(point: str) -> None:
    """Report that the bot has come to a failpoint."""
    active.get()(point)
