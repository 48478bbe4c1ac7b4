"""Record of an answer in the ledger: one approval for each request, one decline for each offer. Pure."""

from __future__ import annotations

import json
from typing import Any, Literal

import attrs

from freight_exchange.models import Listing, Respond
from freight_exchange.serialization import from_dict, to_dict
from freight_exchange.store.work import Effect

__all__ = ["AnswerRecord", "AnswerState", "answer_key", "answer_prefix", "is_answer"]

AnswerState = Literal["intent", "sending", "unknown", "confirmed", "rejected"]
"""Not sent; perhaps being sent; in doubt; carried out by the service; refused by it."""

_PREFIX = "answer:"


@attrs.frozen(kw_only=True)
class AnswerRecord:
    """An answer to an offer.

    Attributes:
        request: Index of the request.
        offer: Identifier of the offer.
        approved: Whether it approves; else it declines.
        handler: Id of the handler that gives it.
        event: Number of the event for which the handler was called.
        state: State of the answer.
        at: Time of that state, on the feed's clock.
        listing: The request as the reply showed it.
        refusal, status: Text and status of a refusal.
        checks: How often its doubt was checked in vain.
        resends: How often it was proven absent and returned to its handler.
    """

    request: int
    offer: int
    approved: bool
    handler: str
    event: int
    state: AnswerState = "intent"
    at: float = 0.0
    listing: Listing | None = None
    refusal: str | None = None
    status: int | None = None
    checks: int = 0
    resends: int = 0

    @property
    def key(self) -> str:
        """Key in the store: a second approval of a request has the key of the first."""
        return answer_key(self.request, None if self.approved else self.offer)

    @property
    def write(self) -> Respond:
        """The write that sends it."""
        return Respond(self.offer, self.approved, self.request)

    def to_effect(self) -> Effect:
        """Convert it for the store."""
        fields = attrs.asdict(self, recurse=False)
        state, at, listing = fields.pop("state"), fields.pop("at"), fields.pop("listing")
        fields["listing"] = None if listing is None else to_dict(listing)
        return Effect(key=self.key, state=state, payload=json.dumps(fields, separators=(",", ":")).encode(), at=at)

    @classmethod
    def from_effect(cls, effect: Effect) -> AnswerRecord:
        """Convert it from the store."""
        fields: dict[str, Any] = json.loads(effect.payload)
        listing = fields.pop("listing")
        state: Any = effect.state
        return cls(
            **fields, state=state, at=effect.at, listing=None if listing is None else from_dict(listing, Listing)
        )

    def __str__(self) -> str:
        return f"the {'approval' if self.approved else 'decline'} of offer {self.offer} on request {self.request}"


def answer_prefix(request: int) -> str:
    """Make the text with which the keys of the answers on a request begin."""
    return f"{_PREFIX}{request}:"


def answer_key(request: int, declined: int | None = None) -> str:
    """Make the key of a request's approval, or of the decline of one of its offers."""
    return answer_prefix(request) + ("approval" if declined is None else f"decline:{declined}")


def is_answer(effect: Effect) -> bool:
    """Return whether an effect is an answer."""
    return effect.key.startswith(_PREFIX)
