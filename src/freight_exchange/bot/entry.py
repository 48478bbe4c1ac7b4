"""An offer as the ledger keeps it: one entry for each request and revision. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, Literal, get_args

import attrs

from freight_exchange import wire
from freight_exchange.models import Bid, SubmitOffer
from freight_exchange.store.work import Effect

__all__ = ["Entry", "State", "key_of"]

State = Literal["intent", "sending", "unknown", "confirmed", "rejected"]
"""Written down and not sent; perhaps being sent; sent or not; taken by the service; refused by it."""

_PREFIX: Final = "offer"


@attrs.frozen(kw_only=True)
class Entry:
    """One offer, from the intention to its end.

    Attributes:
        request: The index of the request that it is on.
        revision: 0 for the first price, 1 for a deliberate second one, and so on.
        state: How far it has come.
        handler: Who asked for it.
        amount, currency, rates, terms: What is offered.
        baseline: The own bids that stood on the request before it was sent.
        bid: What the service answered, once confirmed.
        turned: The fields in which that answer differed from the request that was offered on.
        refusal: What the service answered, once rejected.
        status: The HTTP status of that answer.
        looks: How many times it was looked for in vain, while unknown.
        parked: Whether looking was given up: a person has to decide.
        at: When it came to this state, on the feed's clock.
    """

    request: int
    revision: int = 0
    state: State = "intent"
    handler: str
    amount: Decimal
    currency: int
    rates: Mapping[str, Decimal] | None = None
    terms: str | None = None
    baseline: tuple[Bid, ...] = ()
    bid: Bid | None = None
    turned: tuple[str, ...] = ()
    refusal: str | None = None
    status: int | None = None
    looks: int = 0
    parked: bool = False
    at: float = 0.0

    @property
    def key(self) -> str:
        """What makes it the same offer."""
        return key_of(self.request, self.revision)

    @property
    def write(self) -> SubmitOffer:
        """The write that it is to the service."""
        return SubmitOffer(self.request, self.amount, self.currency, self.rates, self.terms)

    def offers_the_same(self, other: Entry) -> bool:
        """Whether the two differ in nothing that the shipper would see."""
        return self.write == other.write

    def effect(self) -> Effect:
        """The entry, to be kept in a store."""
        said = {
            "request": self.request,
            "revision": self.revision,
            "handler": self.handler,
            "amount": str(self.amount),
            "currency": self.currency,
            "rates": None if self.rates is None else {name: str(fee) for name, fee in self.rates.items()},
            "terms": self.terms,
            "baseline": [wire.keep_bid(bid).decode() for bid in self.baseline],
            "bid": None if self.bid is None else wire.keep_bid(self.bid).decode(),
            "turned": self.turned,
            "refusal": self.refusal,
            "status": self.status,
            "looks": self.looks,
            "parked": self.parked,
        }
        payload = json.dumps(said, separators=(",", ":")).encode()
        return Effect(key=self.key, state=self.state, payload=payload, at=self.at)

    @classmethod
    def of(cls, effect: Effect) -> Entry:
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


def is_entry(effect: Effect) -> bool:
    """Whether the effect is an entry of the ledger."""
    return effect.key.startswith(f"{_PREFIX}:")


def _state(word: str) -> State:
    if word not in get_args(State):
        raise ValueError(f"no offer is {word!r}")
    return word  # type: ignore[return-value]  # looked up
