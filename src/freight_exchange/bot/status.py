"""What a bot says of itself when it is asked."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Literal

import attrs

if TYPE_CHECKING:
    from freight_exchange.feed.status import FeedStatus

__all__ = ["BotStatus", "DeadLetter", "Doubt"]


@attrs.frozen(kw_only=True)
class BotStatus:
    """How a bot is.

    Attributes:
        state: `starting`, until it hands over its first deliveries; `running`; `draining`; `login-rejected`, while it
            waits to try again; `stopped`.
        live: Whether the service has been heard of lately: the cover is younger than three intervals.
        age: How old the cover is, or how long ago the bot began, whichever is less.
        feed: How the feed is; `None` before its first scan.
        in_flight: Deliveries at their handlers.
        handled, retried, dead: How many deliveries came to an end, were failures that are tried again, were given up,
            since the process began.
        offers: Offers made since the process began: `confirmed`, `rejected`, `doubtful`, `not taken`.
        in_doubt: Offers of which it is not known whether they were taken, and that are being looked for.
        parked: Those for which a person has to decide.
        address: Where the operator's port is, as `(host, port)`.
    """

    state: Literal["starting", "running", "draining", "login-rejected", "stopped"]
    live: bool
    age: timedelta
    feed: FeedStatus | None
    in_flight: int
    handled: int
    retried: int
    dead: int
    offers: Mapping[str, int]
    in_doubt: int
    parked: int
    address: tuple[str, int] | None


@attrs.frozen(kw_only=True)
class DeadLetter:
    """A delivery that was given up. It is kept until it is replayed.

    Attributes:
        event: The event's number.
        handler: The handler's id.
        request: The request that the event is about, where it is about one.
        kind: The event's kind.
        attempts: How often it was tried.
        error: What the last attempt ended by.
    """

    event: int
    handler: str
    request: int | None
    kind: str
    attempts: int
    error: str | None


@attrs.frozen(kw_only=True)
class Doubt:
    """An offer of which it is not known whether the service took it.

    Attributes:
        request, revision: Which offer.
        handler: Who asked for it.
        amount, currency: What was offered.
        parked: Whether a person has to decide: `bot.resolve(...)`.
        since: When it came into doubt, UTC.
    """

    request: int
    revision: int
    handler: str
    amount: Decimal
    currency: int
    parked: bool
    since: datetime
