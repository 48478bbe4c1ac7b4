"""Status records of a bot: one of a running bot, and one of its store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal, Self, cast

import attrs

from freight_exchange.base import Serializable
from freight_exchange.feed.events import Gap
from freight_exchange.feed.feed import Explanation, FeedStatus, OfferFeedStatus
from freight_exchange.store.effects import Effect
from freight_exchange.store.work import DeliveryState

Phase = Literal["starting", "standby", "running", "draining", "login-rejected", "stopped"]


@attrs.frozen(kw_only=True)
class BotStatus(Serializable):
    """Status of a bot.

    Attributes:
        state: `starting`, until deliveries begin; `standby`, while another process holds the store; `running`;
            `draining`; `login-rejected`, until the next try; `stopped`.
        live: Whether each watermark is younger than three intervals of its feed. A bot in standby is live, and has
            three intervals from when it takes the store.
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

    state: Phase
    live: bool = False
    age: timedelta = timedelta(0)
    feed: FeedStatus | None = None
    in_flight: int = 0
    waiting: int = 0
    waited: timedelta = timedelta(0)
    handled: int = 0
    retried: int = 0
    dead: int = 0
    offers: Mapping[str, int] = attrs.field(factory=dict)
    in_doubt: int = 0
    parked: int = 0
    address: tuple[str, int] | None = None
    offer_feed: OfferFeedStatus | None = None
    answers: Mapping[str, int] = attrs.field(factory=dict)
    scans: bool = True


@attrs.frozen(kw_only=True)
class DeadLetter(Serializable):
    """Delivery that was given up. It is kept until it is replayed or dropped.

    Attributes:
        event: Number of the event.
        handler: Id of the handler.
        request: Index of the event's request, if it has one.
        kind: Kind of the event.
        attempts: Number of attempts.
        error: Error of the last attempt.
        since: When it was given up, UTC.
    """

    event: int
    handler: str
    request: int | None
    kind: str
    attempts: int
    error: str | None
    since: datetime

    @classmethod
    def from_row(cls, row: tuple[int, str, int | None, str, int, str | None, float]) -> Self:
        """Make it from a row of the store."""
        event, handler, request, kind, attempts, error, since = row
        return cls(
            event=event, handler=handler, request=request, kind=kind.removeprefix("earlier:"), attempts=attempts,
            error=error, since=datetime.fromtimestamp(since, UTC),
        )  # fmt: skip


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
    def from_effect(cls, effect: Effect, handlers: Mapping[int, str]) -> Self:
        """Make it from an effect of the ledger, with the ids of the handlers by their rows."""
        since = datetime.fromtimestamp(effect.facts.get("since") or effect.at, UTC)
        common = _facts_of(effect, handlers)
        return cls(request=cast(int, effect.subject), parked=effect.state == "parked", since=since, **common)


@attrs.frozen(kw_only=True)
class LedgerEntry(Serializable):
    """Offer of the ledger, or answer to an offer, with the fields of a `Doubt`.

    Attributes:
        state: `sending`, `unknown`, `parked`, `confirmed`, `refused`, or `absent`: it was certainly not taken.
        handler: Id of the handler that made it; empty if it was made otherwise.
    """

    kind: Literal["offer", "approval", "decline"]
    state: str
    revision: int
    offer: int | None
    handler: str
    amount: Decimal | None
    currency: int | None

    @classmethod
    def from_effect(cls, effect: Effect, handlers: Mapping[int, str]) -> Self:
        """Make it from an effect of the ledger."""
        return cls(state=effect.state, **_facts_of(effect, handlers))


def _facts_of(effect: Effect, handlers: Mapping[int, str]) -> dict[str, Any]:
    facts, amount = effect.facts, effect.facts.get("amount")
    return {
        "kind": effect.kind, "revision": effect.revision, "offer": facts.get("offer"),
        "handler": handlers.get(facts.get("handler") or 0, ""), "currency": facts.get("currency"),
        "amount": None if amount is None else Decimal(amount),
    }  # fmt: skip


@attrs.frozen(kw_only=True)
class StoreStatus(Serializable):
    """Status of a bot in its store.

    Attributes:
        name: Name of the bot.
        base_url, account: Service and account that the store belongs to.
        holder: Process that scans or has the file, its host, and since when; `None` if there is none.
        replicas: Processes that share the store.
        covered_until: Watermark, UTC: nothing from before it was missed. `None` before the first complete scan.
        unacknowledged: Events that have no deliveries yet.
        deliveries: Number in each state: `ready`, `claimed`, `done`, `dead`.
        offers: Number in each state: `sending`, `unknown`, `parked`, `confirmed`, `refused`, `absent`.
        answers: Number of approvals and declines in each of these states.
        gaps: Gaps that were not acknowledged.
    """

    name: str
    base_url: str
    account: str
    holder: str | None
    replicas: Sequence[str]
    covered_until: datetime | None
    unacknowledged: int
    deliveries: Mapping[str, int]
    offers: Mapping[str, int]
    answers: Mapping[str, int]
    gaps: Sequence[Gap]

    @property
    def parked(self) -> int:
        """Offers and answers for which a person must decide."""
        return self.offers["parked"] + self.answers["parked"]

    @property
    def in_doubt(self) -> int:
        """Offers and answers whose outcome is not known yet."""
        return sum(counts[state] for counts in (self.offers, self.answers) for state in ("sending", "unknown"))


@attrs.frozen(kw_only=True)
class Handling(Serializable):
    """History of a request: why it was or was not delivered, and to which handlers.

    Attributes:
        explanation: Explanation by the feed.
        deliveries: Kind of event, handler, state and last error of each delivery.
        offers, answers: Offers of the ledger on it, and approvals and declines, each the oldest first.
    """

    explanation: Explanation
    deliveries: Sequence[tuple[str, str, DeliveryState, str | None]]
    offers: Sequence[LedgerEntry]
    answers: Sequence[LedgerEntry]
