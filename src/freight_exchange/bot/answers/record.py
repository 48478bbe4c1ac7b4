"""Record of an answer in the ledger: one approval for each request, one decline for each offer. Pure."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any, Final, Literal

import attrs

from freight_exchange import validation
from freight_exchange.bot.offers.record import UNSETTLED
from freight_exchange.errors import ValidationError
from freight_exchange.models import Listing, Respond
from freight_exchange.serialization import from_dict, to_dict
from freight_exchange.store.work import Effect

__all__ = [
    "RESOLVED",
    "AnswerRecord",
    "AnswerState",
    "answer_key",
    "answer_keys",
    "answer_prefix",
    "is_answer",
    "manual_answer",
]

AnswerState = Literal["intent", "sending", "unknown", "confirmed", "rejected"]
"""In this order: not sent; perhaps being sent; in doubt; carried out by the service; refused by it."""

RESOLVED: Final[dict[str, Any]] = {"checks": 0, "unknown_since": None}
"""Fields of an answer that is not in doubt."""

_PREFIX = "answer:"
_CHECKS_BEFORE_PARKED: Final = 3


@attrs.frozen(kw_only=True)
class AnswerRecord:
    """An answer to an offer.

    Attributes:
        request: Index of the request.
        offer: Identifier of the offer.
        approved: `True` for an approval, `False` for a decline.
        handler: Id of the handler that gives it.
        event: Number of the event for which the handler was called.
        amount, currency: Price of the offer when the answer was recorded, if it had one.
        state: State of the answer.
        at: Time of that state, on the feed's clock.
        listing: The request as the reply showed it.
        refusal, status: Text and status of a refusal.
        checks: Number of checks of its doubt that proved nothing.
        resends: Number of times that it was proven absent and returned to its handler.
        unknown_since: Time at which it came into doubt; `None` if it is not.
    """

    request: int
    offer: int
    approved: bool
    handler: str
    event: int
    amount: Decimal | None = None
    currency: int | None = None
    state: AnswerState = "intent"
    at: float = 0.0
    listing: Listing | None = None
    refusal: str | None = None
    status: int | None = None
    checks: int = 0
    resends: int = 0
    unknown_since: float | None = None

    @property
    def key(self) -> str:
        """Key in the store: a second approval of a request has the key of the first."""
        return answer_key(self.request, None if self.approved else self.offer)

    @property
    def write(self) -> Respond:
        """The write that sends it."""
        return Respond(self.offer, self.approved, self.request)

    @property
    def parked(self) -> bool:
        """`True` if a person must decide, as several checks have proven nothing. The bot goes on checking."""
        return self.checks >= _CHECKS_BEFORE_PARKED

    @property
    def in_doubt_since(self) -> float:
        """Time at which it came into doubt, while it is."""
        return self.at if self.unknown_since is None else self.unknown_since

    def to_effect(self) -> Effect:
        """Convert it for the store."""
        fields = attrs.asdict(self, recurse=False)
        state, at, listing, amount = (fields.pop(name) for name in ("state", "at", "listing", "amount"))
        fields["listing"] = None if listing is None else to_dict(listing)
        fields["amount"] = None if amount is None else str(amount)
        return Effect(key=self.key, state=state, payload=json.dumps(fields, separators=(",", ":")).encode(), at=at)

    @classmethod
    def from_effect(cls, effect: Effect) -> AnswerRecord:
        """Convert it from the store."""
        payload: dict[str, Any] = json.loads(effect.payload)
        known = attrs.fields_dict(cls)
        # A replica of a newer version may have stored more.
        fields = {name: value for name, value in payload.items() if name in known}
        listing, amount = fields.pop("listing"), fields.pop("amount", None)
        state: Any = effect.state
        return cls(
            **fields,
            state=state,
            at=effect.at,
            amount=None if amount is None else Decimal(amount),
            listing=None if listing is None else from_dict(listing, Listing),
        )

    def __str__(self) -> str:
        return f"the {'approval' if self.approved else 'decline'} of offer {self.offer} on request {self.request}"


def answer_prefix(request: int | None = None) -> str:
    """Return the prefix of the keys of all answers, or of those on one request."""
    return _PREFIX if request is None else f"{_PREFIX}{request}:"


def answer_key(request: int, declined: int | None = None) -> str:
    """Make the key of a request's approval, or of the decline of one of its offers."""
    return answer_prefix(request) + ("approval" if declined is None else f"decline:{declined}")


def answer_keys(request: object, offer: object) -> tuple[str, str]:
    """Make the keys of the approval of a request and of the decline of an offer, from unchecked values.

    Raises:
        ValidationError: One of them is invalid.
    """
    index, declined = validation.identifier(request, "request"), validation.identifier(offer, "offer")
    return answer_key(index), answer_key(index, declined)


def is_answer(effect: Effect, request: int | None = None) -> bool:
    """Return whether an effect is an answer, on the given request if there is one."""
    return effect.key.startswith(answer_prefix(request))


def manual_answer(records: list[AnswerRecord], offer: int, *, taken: bool) -> tuple[AnswerRecord, dict[str, Any]]:
    """Return the answer that a person decides about, and its changes.

    Args:
        records: The approval of the request and the decline of the offer, as far as there are any.
        offer: Identifier of the offer.
        taken: Whether the service has carried it out.

    Raises:
        ValidationError: `taken` is not a boolean, or no answer to the offer is in doubt or was refused.
    """
    if not isinstance(taken, bool):
        raise ValidationError(f"taken must be True or False, not {taken!r}", field="taken")
    found = [record for record in records if record.offer == offer and record.state in (*UNSETTLED, "rejected")]
    if not found:
        raise ValidationError(f"no answer to offer {offer} is in doubt, nor was one refused", field="offer")
    # An answer in doubt comes first: a refused one may stay as it is.
    record = min(found, key=lambda entry: entry.state == "rejected")
    state: AnswerState = "confirmed" if taken else "intent"
    return record, {"state": state, "resends": 0, "refusal": None, "status": None, **RESOLVED}
