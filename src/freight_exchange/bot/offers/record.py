"""Record of an offer in the ledger: one for each request and revision. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Final, Literal, get_args

import attrs

from freight_exchange import validation
from freight_exchange.errors import ValidationError
from freight_exchange.models import Bid, SubmitOffer
from freight_exchange.store import snapshots
from freight_exchange.store.work import OPEN_STATES, Effect

__all__ = [
    "PLACED",
    "RESOLVED",
    "UNSETTLED",
    "OfferRecord",
    "State",
    "check_revision",
    "checked_offer_key",
    "describe_unsent",
    "find_newer_price",
    "is_offer",
    "manual_changes",
    "offer_key",
    "offer_prefix",
]

State = Literal["intent", "sending", "unknown", "confirmed", "rejected"]
"""In this order: not sent; perhaps being sent; in doubt; taken by the service; refused by it."""

UNSETTLED: Final[tuple[State, ...]] = OPEN_STATES
"""States in which the service may or may not have the offer."""

PLACED: Final[tuple[State, ...]] = ("confirmed", *UNSETTLED)
"""States in which the service has the offer, or may have it."""

RESOLVED: Final[Mapping[str, Any]] = {"checks": 0, "parked": False, "unknown_since": None}
"""Fields of an offer that is not in doubt."""

_PREFIX: Final = "offer"

_STORED_NAMES: Final = {
    "fields_before": "shown",
    "changed_fields": "turned",
    "own_update": "echo",
    "checks": "looks",
    "resends": "resent",
    "unknown_since": "since",
}
"""Keys in stored records that differ from the names of the fields. They must not change: stores have them."""


@attrs.frozen(kw_only=True)
class OfferRecord:
    """One offer.

    Attributes:
        request: Index of the request.
        revision: 0 for the first price, 1 for a deliberate second one, and so on.
        state: One of `State`.
        handler: Id of the handler that made it.
        event: Number of the event that the handler was called for; `None` in records of earlier versions.
        amount, currency, rates, terms: The offer.
        fields_before: Fields of the request that an offer may change, before the offer, if known.
        baseline: Own bids on the request before the offer was sent.
        bid: Reply of the service, once confirmed.
        changed_fields: Fields of `fields_before` that the offer may have changed.
        own_update: Number of the update that showed these changes, once there was one.
        refusal: Reply of the service, once rejected.
        status: HTTP status of that reply.
        checks: Checks that proved nothing, while unknown.
        resends: Times that it was proven absent after a send, and is sent again.
        parked: Whether a person must decide.
        unknown_since: Time at which it came into doubt; `None` if it is not, and in records of earlier versions.
        at: Time of the last change of state, on the feed's clock.
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
    fields_before: Mapping[str, str] | None = None
    baseline: tuple[Bid, ...] = ()
    bid: Bid | None = None
    changed_fields: tuple[str, ...] = ()
    own_update: int | None = None
    refusal: str | None = None
    status: int | None = None
    checks: int = 0
    resends: int = 0
    parked: bool = False
    unknown_since: float | None = None
    at: float = 0.0

    @property
    def key(self) -> str:
        """Key in the store."""
        return offer_key(self.request, self.revision)

    @property
    def write(self) -> SubmitOffer:
        """The write that sends it."""
        return SubmitOffer(self.request, self.amount, self.currency, self.rates, self.terms)

    @property
    def in_doubt_since(self) -> float:
        """Time at which it came into doubt, while it is."""
        return self.at if self.unknown_since is None else self.unknown_since

    def is_same_offer(self, other: OfferRecord) -> bool:
        """Return whether the shipper would see no difference."""
        return self.write == other.write

    def to_effect(self) -> Effect:
        """Convert it for the store."""
        fields = {
            "request": self.request,
            "revision": self.revision,
            "handler": self.handler,
            "event": self.event,
            "amount": str(self.amount),
            "currency": self.currency,
            "rates": None if self.rates is None else {name: str(fee) for name, fee in self.rates.items()},
            "terms": self.terms,
            "fields_before": None if self.fields_before is None else {**self.fields_before},
            "baseline": [snapshots.dump_record(bid).decode() for bid in self.baseline],
            "bid": None if self.bid is None else snapshots.dump_record(self.bid).decode(),
            "changed_fields": self.changed_fields,
            "own_update": self.own_update,
            "refusal": self.refusal,
            "status": self.status,
            "checks": self.checks,
            "resends": self.resends,
            "parked": self.parked,
            "unknown_since": self.unknown_since,
        }
        stored = {_STORED_NAMES.get(name, name): value for name, value in fields.items()}
        payload = json.dumps(stored, separators=(",", ":")).encode()
        return Effect(key=self.key, state=self.state, payload=payload, at=self.at)

    @classmethod
    def from_effect(cls, effect: Effect) -> OfferRecord:
        """Convert it from the store."""
        names, known = {stored: name for name, stored in _STORED_NAMES.items()}, attrs.fields_dict(cls)
        payload: dict[str, Any] = json.loads(effect.payload)
        fields = {names.get(stored, stored): value for stored, value in payload.items()}
        # A replica of a newer version may have stored more.
        fields = {name: value for name, value in fields.items() if name in known}
        rates = fields.pop("rates")
        return cls(
            state=_state(effect.state),
            amount=Decimal(fields.pop("amount")),
            rates=None if rates is None else {name: Decimal(fee) for name, fee in rates.items()},
            baseline=tuple(snapshots.load_bid(bid.encode()) for bid in fields.pop("baseline")),
            bid=None if (bid := fields.pop("bid")) is None else snapshots.load_bid(bid.encode()),
            changed_fields=tuple(fields.pop("changed_fields", ())),
            at=effect.at,
            **fields,
        )

    def __str__(self) -> str:
        revision = f", revision {self.revision}" if self.revision else ""
        return f"the offer on request {self.request}{revision}"


def offer_key(request: int, revision: int) -> str:
    """Make the key of an offer."""
    return f"{offer_prefix(request)}{revision}"


def offer_prefix(request: int | None = None) -> str:
    """Return the prefix of the keys of all offers, or of those on one request."""
    return f"{_PREFIX}:" if request is None else f"{_PREFIX}:{request}:"


def checked_offer_key(request: object, revision: object) -> str:
    """Make the key of an offer from unchecked values.

    Raises:
        ValidationError: One of them is invalid.
    """
    return offer_key(validation.identifier(request, "request"), check_revision(revision))


def is_offer(effect: Effect, request: int | None = None) -> bool:
    """Return whether an effect is an offer, on the given request if there is one."""
    return effect.key.startswith(offer_prefix(request))


def check_revision(value: object) -> int:
    """Check a revision.

    Raises:
        ValidationError: It is not a whole number from 0.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValidationError(f"revision must be a whole number from 0, not {value!r}", field="revision")
    return value


def find_newer_price(draft: OfferRecord, records: Iterable[OfferRecord]) -> OfferRecord | None:
    """Return the newest confirmed revision after the draft's; `None` while an offer is in doubt.

    The older price would replace it if it were sent now.
    """
    found = [*records]
    if any(other.state in UNSETTLED for other in found):
        return None
    newer = [other for other in found if other.state == "confirmed" and other.revision > draft.revision]
    return max(newer, key=lambda other: other.revision, default=None)


def manual_changes(record: OfferRecord | None, *, taken: bool) -> dict[str, Any]:
    """Return the changes of a record when a person decides whether the service has the offer.

    Raises:
        ValidationError: `taken` is not a boolean, or the offer is neither in doubt nor refused.
    """
    if not isinstance(taken, bool):
        raise ValidationError(f"taken must be True or False, not {taken!r}", field="taken")
    if record is None or record.state not in (*UNSETTLED, "rejected"):
        raise ValidationError(f"{record or 'the offer'} is not in doubt, nor was it refused", field="request")
    return {
        "state": "confirmed" if taken else "intent",
        "bid": Bid(index=record.request, amount=record.amount, currency=record.currency) if taken else None,
        "resends": 0,
        "refusal": None,
        "status": None,
        **RESOLVED,
    }


def describe_unsent(record: OfferRecord, *, is_final: bool) -> str:
    """Describe, for a person, an absent offer that its own handler does not send again.

    Args:
        record: The offer.
        is_final: `True` if no other handler sends it either; `False` if another one waits and may do so.
    """
    why = f"the handler {record.handler!r}, which made it, is done, has dropped the event, or was removed"
    then = "if you still want the offer, make it by hand at the service"
    if is_final:
        return f"nothing sends it again: {why}; {then}"
    return f"another handler waits, and may or may not send it again: {why}; if it does not, {then}"


def _state(word: str) -> State:
    if word not in get_args(State):
        raise ValueError(f"not a state of an offer: {word!r}")
    return word  # type: ignore[return-value]  # looked up
