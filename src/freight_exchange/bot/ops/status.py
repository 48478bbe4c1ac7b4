"""Status records of a bot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Literal, Self

import attrs

from freight_exchange.base import Serializable
from freight_exchange.bot.answers.record import AnswerRecord
from freight_exchange.bot.offers.record import OfferRecord
from freight_exchange.feed.events import Gap
from freight_exchange.feed.status import Explanation, FeedStatus
from freight_exchange.offer_feed.status import OfferFeedStatus
from freight_exchange.store.work import Delivery, DeliveryState

__all__ = ["BotStatus", "DeadLetter", "Doubt", "FileStatus", "Handling"]


@attrs.frozen(kw_only=True)
class BotStatus(Serializable):
    """Status of a bot.

    Attributes:
        state: `starting`, until deliveries begin; `standby`, while another process holds the store; `running`;
            `draining`; `login-rejected`, until the next try; `stopped`.
        live: Whether the watermark is younger than three intervals. A bot in standby is live, and has three intervals
            from when it takes the store.
        scans: Whether this process scans, or will. `False` for a replica of a fleet without the right to scan, in each
            state: the one that has it reports the ages and the figures of the feed.
        age: Age of the watermark, or time since the bot started or ended its standby, if that is less.
        feed: Status of the feed; `None` before its first scan.
        offer_feed: Status of the feed of offers; `None` before its first scan, and without a handler of offers.
        in_flight: Deliveries that handlers work on.
        waiting: Deliveries that are due and not in flight, counted within the last minute, up to 10,000; 0 once the bot
            has stopped, and while another replica scans.
        waited: Time since the oldest of them became due; 0 if `waiting` is 0.
        handled: Deliveries that ended since the process began. Merged updates count each.
        retried: Failures that are tried again.
        dead: Dead letters since the process began.
        offers: Offers since the process began, by outcome: `confirmed`, `rejected`, `doubtful`, `not taken`.
        answers: Approvals and declines since the process began, by the same outcomes.
        in_doubt: Offers and answers in doubt that are being checked.
        parked: Offers and answers in doubt for which a person must decide.
        address: Host and port of the operator's port; `None` without one, and while the bot waits for it.
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
    offer_feed: OfferFeedStatus | None = None
    answers: Mapping[str, int] = attrs.field(factory=dict)
    scans: bool = True


@attrs.frozen(kw_only=True)
class DeadLetter(Serializable):
    """Delivery that was given up. It is kept until it is replayed.

    Attributes:
        event: Number of the event.
        handler: Id of the handler.
        request: Index of the event's request, if it has one.
        kind: Kind of the event.
        attempts: Number of attempts.
        error: Error of the last attempt.
    """

    event: int
    handler: str
    request: int | None
    kind: str
    attempts: int
    error: str | None

    @classmethod
    def from_delivery(cls, delivery: Delivery) -> Self:
        """Make it from a delivery of the store."""
        return cls(
            event=delivery.event,
            handler=delivery.handler,
            request=delivery.index,
            kind=delivery.kind,
            attempts=delivery.attempts,
            error=delivery.error,
        )


@attrs.frozen(kw_only=True)
class Doubt(Serializable):
    """Offer in doubt, or answer to one: the service may or may not have it.

    Attributes:
        kind: `offer`; or `approval` or `decline`, of another party's offer.
        request, revision: Key of the offer. The revision of an answer is 0.
        offer: Identifier of the offer that is answered; `None` if the doubt is about an offer of this bot.
        handler: Id of the handler that made it.
        amount, currency: Price, and index of its currency; `None` for an answer to an offer without one.
        parked: Whether a person must decide: `bot.resolve(...)`.
        since: Start of the doubt, UTC.
    """

    kind: Literal["offer", "approval", "decline"] = "offer"
    request: int
    revision: int
    offer: int | None = None
    handler: str
    amount: Decimal | None
    currency: int | None
    parked: bool
    since: datetime

    @classmethod
    def from_record(cls, record: OfferRecord, to_utc: Callable[[float], datetime]) -> Self:
        """Make it from an offer of the ledger. `to_utc` converts a time of the feed's clock to UTC."""
        return cls(
            request=record.request,
            revision=record.revision,
            handler=record.handler,
            amount=record.amount,
            currency=record.currency,
            parked=record.parked,
            since=to_utc(record.in_doubt_since),
        )

    @classmethod
    def from_answer(cls, record: AnswerRecord, to_utc: Callable[[float], datetime]) -> Self:
        """Make it from an answer of the ledger, as `from_record` does."""
        return cls(
            kind="approval" if record.approved else "decline",
            request=record.request,
            revision=0,
            offer=record.offer,
            handler=record.handler,
            amount=record.amount,
            currency=record.currency,
            parked=record.parked,
            since=to_utc(record.in_doubt_since),
        )


@attrs.frozen(kw_only=True)
class FileStatus:
    """Status of a bot in its file.

    Attributes:
        name: Name of the bot.
        base_url, account: Service and account that the file belongs to.
        holder: Process that holds the file, or scans for a fleet, its host, and since when; `None` if there is none.
        replicas: Processes of a fleet.
        is_restored: Whether the database may have lost commits, and the bot still looks for offers that it may have
            lost.
        covered_until: Watermark, UTC: nothing from before it was missed. `None` before the first complete scan.
        unacknowledged: Events that have no deliveries yet.
        deliveries: Number in each state: `ready`, `claimed`, `done`, `dead`.
        offers: Number in each state: `intent`, `sending`, `unknown`, `confirmed`, `rejected`.
        answers: Number of approvals and declines in each of these states.
        parked: Offers and answers for which a person must decide.
        gaps: Gaps that were not acknowledged.
    """

    name: str
    base_url: str
    account: str
    holder: str | None
    replicas: Sequence[str]
    is_restored: bool
    covered_until: datetime | None
    unacknowledged: int
    deliveries: Mapping[str, int]
    offers: Mapping[str, int]
    answers: Mapping[str, int]
    parked: int
    gaps: Sequence[Gap]


@attrs.frozen(kw_only=True)
class Handling:
    """History of a request: why it was or was not delivered, and to which handlers.

    Attributes:
        explanation: Explanation by the feed.
        deliveries: Kind of event, handler, state and last error of each delivery.
        offers: Offers on it, with revision, state, amount and the index of the currency.
        answers: Approval and declines of offers on it, with state, offer and amount.
    """

    explanation: Explanation
    deliveries: Sequence[tuple[str, str, DeliveryState, str | None]]
    offers: Sequence[OfferRecord]
    answers: Sequence[AnswerRecord] = ()
