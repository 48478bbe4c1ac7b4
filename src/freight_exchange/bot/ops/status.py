"""What a bot says of itself when it is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Literal, Self

import attrs

if TYPE_CHECKING:
    from freight_exchange.bot.offers.record import OfferRecord
    from freight_exchange.feed.events import Gap
    from freight_exchange.feed.status import Explanation, FeedStatus
    from freight_exchange.store.work import Delivery, DeliveryState

__all__ = ["BotStatus", "DeadLetter", "Doubt", "FileStatus", "Handling"]


@attrs.frozen(kw_only=True)
class BotStatus:
    """How a bot is.

    Attributes:
        state: `starting`, until it hands over its first deliveries; `standby`, while another process holds the store;
            `running`; `draining`; `login-rejected`, while it waits to try again; `stopped`.
        live: Whether the service has been heard of lately: the cover is younger than three intervals. A bot that stands
            by is live, and has as long from when it takes the store.
        age: How old the cover is, or how long ago the bot began or had stood by, whichever is less.
        feed: How the feed is; `None` before its first scan.
        in_flight: Deliveries at their handlers.
        waiting: Deliveries that are due and at no handler yet, when the bot last looked: a minute ago at most.
        waited: How long the oldest of them has been due. Both are nothing once the bot has stopped.
        handled, retried, dead: How many deliveries came to an end, were failures that are tried again, were given up,
            since the process began. Of updates that were handed over as one, each is handled.
        offers: Offers made since the process began: `confirmed`, `rejected`, `doubtful`, `not taken`.
        in_doubt: Offers of which it is not known whether they were taken, and that are being looked for.
        parked: Those for which a person has to decide.
        address: Where the operator's port is, as `(host, port)`; `None` without one, and while it is waited for.
    """

    state: Literal["starting", "standby", "running", "draining", "login-rejected", "stopped"]
    live: bool
    age: timedelta
    feed: FeedStatus | None
    in_flight: int
    waiting: int
    waited: timedelta
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

    @classmethod
    def of(cls, delivery: Delivery) -> Self:
        """The delivery, as an operator sees it."""
        return cls(
            event=delivery.event,
            handler=delivery.handler,
            request=delivery.index,
            kind=delivery.kind,
            attempts=delivery.attempts,
            error=delivery.error,
        )


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

    @classmethod
    def of(cls, entry: OfferRecord, moment: Callable[[float], datetime]) -> Self:
        """What is to be said of the entry; `moment` tells when the feed's clock said so."""
        return cls(
            request=entry.request,
            revision=entry.revision,
            handler=entry.handler,
            amount=entry.amount,
            currency=entry.currency,
            parked=entry.parked,
            since=moment(entry.doubtful_since),
        )


@attrs.frozen(kw_only=True)
class FileStatus:
    """What a bot's file says of the bot.

    Attributes:
        name: The bot's name.
        base_url, account: The service and the account that it belongs to.
        holder: Who holds the file now: the process, its host, and since when; `None` for nobody.
        covered_until: Before this nothing can have been missed, UTC; `None` before the first complete scan.
        unacknowledged: Events that wait to become deliveries.
        deliveries: How many there are in each state: `ready`, `claimed`, `done`, `dead`.
        offers: How many there are in each state: `intent`, `sending`, `unknown`, `confirmed`, `rejected`.
        parked: Those for which a person has to decide.
        gaps: The gaps that were not acknowledged.
    """

    name: str
    base_url: str
    account: str
    holder: str | None
    covered_until: datetime | None
    unacknowledged: int
    deliveries: Mapping[str, int]
    offers: Mapping[str, int]
    parked: int
    gaps: Sequence[Gap]


@attrs.frozen(kw_only=True)
class Handling:
    """What became of a request: why it was, or was not yet, handed out, and to whom.

    Attributes:
        explanation: What the feed says.
        deliveries: The state of each delivery, and what its last attempt ended by, by kind of event and handler.
        offers: The offers on it: revision, state, amount and the index of the currency are of note.
    """

    explanation: Explanation
    deliveries: Sequence[tuple[str, str, DeliveryState, str | None]]
    offers: Sequence[OfferRecord]
