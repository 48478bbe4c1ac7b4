"""An offer as the ledger keeps it: one entry for each request and revision. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Final, Literal, get_args

import attrs

from freight_exchange import wire
from freight_exchange.errors import ValidationError
from freight_exchange.models import Bid, SubmitOffer
from freight_exchange.store.work import Effect

__all__ = [
    "NO_DOUBT",
    "UNSETTLED",
    "OfferRecord",
    "State",
    "decision",
    "forsaken",
    "is_entry",
    "key_of",
    "later_price",
    "place_of",
    "revision_of",
]

State = Literal["intent", "sending", "unknown", "confirmed", "rejected"]
"""Written down and not sent; perhaps being sent; sent or not; taken by the service; refused by it."""

UNSETTLED: Final[tuple[State, ...]] = ("sending", "unknown")
"""In these nobody knows whether the service has the offer."""

NO_DOUBT: Final[Mapping[str, Any]] = {"looks": 0, "parked": False, "since": None}
"""What is known of an offer that is not in doubt, or not any more."""

_PREFIX: Final = "offer"


@attrs.frozen(kw_only=True)
class OfferRecord:
    """One offer, from the intention to its end.

    Attributes:
        request: The index of the request that it is on.
        revision: 0 for the first price, 1 for a deliberate second one, and so on.
        state: How far it has come.
        handler: Who asked for it.
        event: The number of the event that it was called for; `None` where a version before this field wrote it.
        amount, currency, rates, terms: What is offered.
        shown: What the request showed in the fields that an offer may change, where a request was heard of.
        baseline: The own bids that stood on the request before it was sent.
        bid: What the service answered, once confirmed.
        turned: The fields that an offer may change, and in which that answer differed from the request offered on.
        echo: The number of the update that showed this, once there was one.
        refusal: What the service answered, once rejected.
        status: The HTTP status of that answer.
        looks: How many times it was looked for in vain, while unknown.
        resent: How many times it was proven absent after a send, and so to be sent again.
        parked: Whether looking was given up: a person has to decide.
        since: When it came into doubt, while it is; `None` where a version before this field wrote it.
        at: When it came to this state, on the feed's clock.
    """

    request: int
    revision: int = 0
    state: State = "intent"
    handler: str
    event: int | None = None
    amount: Decimal
    currency: int
    rates: Mapping[str, Decimal] | None = None
    terms: str | None = None
    shown: Mapping[str, str] | None = None
    baseline: tuple[Bid, ...] = ()
    bid: Bid | None = None
    turned: tuple[str, ...] = ()
    echo: int | None = None
    refusal: str | None = None
    status: int | None = None
    looks: int = 0
    resent: int = 0
    parked: bool = False
    since: float | None = None
    at: float = 0.0

    @property
    def key(self) -> str:
        """What makes it the same offer."""
        return key_of(self.request, self.revision)

    @property
    def write(self) -> SubmitOffer:
        """The write that it is to the service."""
        return SubmitOffer(self.request, self.amount, self.currency, self.rates, self.terms)

    @property
    def doubtful_since(self) -> float:
        """When it came into doubt, while it is."""
        return self.at if self.since is None else self.since

    def offers_the_same(self, other: OfferRecord) -> bool:
        """Whether the two differ in nothing that the shipper would see."""
        return self.write == other.write

    def effect(self) -> Effect:
        """The entry, to be kept in a store."""
        said = {
            "request": self.request,
            "revision": self.revision,
            "handler": self.handler,
            "event": self.event,
            "amount": str(self.amount),
            "currency": self.currency,
            "rates": None if self.rates is None else {name: str(fee) for name, fee in self.rates.items()},
            "terms": self.terms,
            "shown": None if self.shown is None else {**self.shown},
            "baseline": [wire.keep_bid(bid).decode() for bid in self.baseline],
            "bid": None if self.bid is None else wire.keep_bid(self.bid).decode(),
            "turned": self.turned,
            "echo": self.echo,
            "refusal": self.refusal,
            "status": self.status,
            "looks": self.looks,
            "resent": self.resent,
            "parked": self.parked,
            "since": self.since,
        }
        payload = json.dumps(said, separators=(",", ":")).encode()
        return Effect(key=self.key, state=self.state, payload=payload, at=self.at)

    @classmethod
    def of(cls, effect: Effect) -> OfferRecord:
        """The entry that was kept."""
        said: dict[str, Any] = json.loads(effect.payload)
        rates = said.pop("rates")
        return cls(
            state=_state(effect.state),
            amount=Decimal(said.pop("amount")),
            rates=None if rates is None else {name: Decimal(fee) for name, fee in rates.items()},
            baseline=tuple(wire.recall_bid(kept.encode()) for kept in said.pop("baseline")),
            bid=None if (kept := said.pop("bid")) is None else wire.recall_bid(kept.encode()),
            turned=tuple(said.pop("turned", ())),
            at=effect.at,
            **said,
        )

    def __str__(self) -> str:
        revision = f", revision {self.revision}" if self.revision else ""
        return f"the offer on request {self.request}{revision}"


def key_of(request: int, revision: int) -> str:
    """The key of the offer on that request."""
    return f"{_PREFIX}:{request}:{revision}"


def revision_of(value: object) -> int:
    """A revision, checked.

    Raises:
        ValidationError: It is none.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValidationError(f"revision must be a whole number from 0, not {value!r}", field="revision")
    return value


def place_of(key: str) -> tuple[int, int]:
    """The request and the revision that a key is made of."""
    _, request, revision = key.split(":")
    return int(request), int(revision)


def is_entry(effect: Effect, request: int | None = None) -> bool:
    """Whether the effect is an entry of the ledger, about that request if one is named."""
    return effect.key.startswith(f"{_PREFIX}:" if request is None else f"{_PREFIX}:{request}:")


def later_price(asked: OfferRecord, made: Iterable[OfferRecord]) -> OfferRecord | None:
    """The newest price on the request that the service has taken, if it is newer than the one that is asked for.

    Sent after it, an older price would be the last that the shipper hears. `None` while an offer is in doubt.
    """
    found = [*made]
    if any(other.state in UNSETTLED for other in found):
        return None
    later = [other for other in found if other.state == "confirmed" and other.revision > asked.revision]
    return max(later, key=lambda other: other.revision, default=None)


def decision(entry: OfferRecord | None, *, taken: bool) -> dict[str, Any]:
    """What changes in an entry when a person says whether the service has its offer.

    Raises:
        ValidationError: That is no answer, or nobody asks: the offer is not in doubt, nor was it refused.
    """
    if not isinstance(taken, bool):
        raise ValidationError(f"taken must be True or False, not {taken!r}", field="taken")
    if entry is None or entry.state not in (*UNSETTLED, "rejected"):
        raise ValidationError(f"{entry or 'the offer'} is not in doubt, nor was it refused", field="request")
    return {
        "state": "confirmed" if taken else "intent",
        "bid": Bid(index=entry.request, amount=entry.amount, currency=entry.currency) if taken else None,
        "resent": 0,
        "refusal": None,
        "status": None,
        **NO_DOUBT,
    }


def forsaken(entry: OfferRecord, *, by_all: bool) -> str:
    """What a person has to know of an offer that was not taken, and that the handler which asked for it does not make
    again, nor any other: unless `by_all` is false, since another one waits of which that is not known."""
    why = f"the handler {entry.handler!r}, which asked for it, has ended well, has dropped its event, or is gone"
    then = "if the offer is still wanted, make it by hand, on the service's own pages"
    if by_all:
        return f"nothing makes it again: {why}; {then}"
    return f"another handler waits, and may make it again or not: {why}; unless it is made, and {then}"


def _state(word: str) -> State:
    if word not in get_args(State):
        raise ValueError(f"no offer is {word!r}")
    return word  # type: ignore[return-value]  # looked up
