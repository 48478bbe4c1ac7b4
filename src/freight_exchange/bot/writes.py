"""Writes of the ledger: what differs between an offer, an answer to an offer and a publication. Pure, but for `send`.

A write decides, from the effects on its request, whether it was carried out before (`Recorded`), may be begun (`Plan`),
or must not be sent (an error).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeAlias

import attrs

from freight_exchange.errors import (
    AlreadyApprovedError,
    AlreadyOfferedError,
    BadRequestError,
    FreightExchangeError,
    NotFoundError,
    OfferChangedError,
    OfferInDoubtError,
    OfferRejectedError,
    OutcomeUnknownError,
    ValidationError,
)
from freight_exchange.models import Bid, Listing, Offer, Publish, RateRequest, Respond, SubmitOffer
from freight_exchange.models._base import Serializable
from freight_exchange.models.enums import DECLINED
from freight_exchange.serialization import from_dict, to_dict
from freight_exchange.store.effects import Effect

if TYPE_CHECKING:
    from freight_exchange.client import FreightExchange
    from freight_exchange.models import RateRequestDraft

__all__ = [
    "AnswerWrite",
    "OfferWrite",
    "Plan",
    "Price",
    "PublishWrite",
    "Recorded",
    "Write",
    "already_offered_error",
    "changed_error",
    "decide",
    "dump_result",
    "in_doubt_error",
    "load_baseline",
    "load_offer",
    "load_write",
    "outcome_of",
    "rejected_error",
    "unknown_prices",
]

Price: TypeAlias = tuple[Decimal | None, int | None]
"""Amount and currency of a bid. Listed bids have no identifier of their own."""

_FIELDS: Final = ("amount", "currency", "terms", "rates")
"""Fields of an offer that its answer depends on."""
_MAY_BE_EMPTY: Final = ("terms", "rates")


@attrs.frozen
class Plan:
    """Effect to begin, in place of one that had no effect on the service, if any."""

    effect: Effect
    replaces: Effect | None = None


@attrs.frozen
class Recorded:
    """Effect of an earlier time, whose result is returned instead of a second write."""

    effect: Effect


@attrs.frozen(kw_only=True)
class Write:
    """A write that is carried out at most once.

    Attributes:
        request: Index of its request; `None` for a publication.
    """

    request: int | None

    subject: ClassVar[Literal["offer", "answer", "publication"]]
    """What outcomes are counted under."""
    refusals: ClassVar[tuple[type[FreightExchangeError], ...]] = (BadRequestError,)
    """Errors that are the service's answer to it."""

    def plan(self, known: Sequence[Effect], event: int | None, *, is_bound: bool = True) -> Plan | Recorded:
        """Decide what to do, by the effects on its request.

        Args:
            known: The effects.
            event: Number of the event that orders it.
            is_bound: Whether it belongs to a delivery of that event. Otherwise it comes after the event.

        Raises:
            FreightExchangeError: It must not be sent.
        """
        raise NotImplementedError

    async def send(self, exchange: FreightExchange) -> Any:
        """Send it, and return the record of the reply."""
        raise NotImplementedError

    @property
    def on_wire(self) -> SubmitOffer | Respond | Publish:
        """The write as a value, to look for its effect."""
        raise NotImplementedError

    def result(self, effect: Effect) -> Any:
        """Return the record that shows the effect."""
        found = effect.facts.get("result")
        return None if found is None else from_dict(found)


@attrs.frozen(kw_only=True)
class OfferWrite(Write):
    """An offer on a request.

    Attributes:
        revision: Number of the price, from 0, if the caller counts; otherwise its event orders the price.
        allow_existing: Whether the account may have bids on the request that are not from the ledger.
        currency_code: Three-letter code of the currency for messages, if known.
    """

    request: int
    amount: Decimal
    currency: int
    rates: Mapping[str, Decimal] | None = None
    terms: str | None = None
    revision: int | None = None
    allow_existing: bool = False
    currency_code: str | None = None

    subject = "offer"

    @property
    def on_wire(self) -> SubmitOffer:
        return SubmitOffer(self.request, self.amount, self.currency, self.rates, self.terms)

    @property
    def price(self) -> Price:
        return self.amount, self.currency

    @property
    def price_text(self) -> str:
        """The price in words."""
        return f"{self.amount} {self.currency_code or f'in currency {self.currency}'}"

    def __str__(self) -> str:
        return f"the offer on request {self.request}{f', revision {self.revision}' if self.revision else ''}"

    def plan(self, known: Sequence[Effect], event: int | None, *, is_bound: bool = True) -> Plan | Recorded:
        _check_none_open(known)
        prices = [one for one in known if one.kind == "offer"]
        placed = [one for one in prices if one.state == "confirmed"]
        newest = max(placed, key=lambda one: one.revision, default=None)
        if self.revision is None:
            mine = [one for one in prices if is_bound and one.event == event and one.facts["order"] == "event"]
            own = mine[-1] if mine else None
        else:
            own = next((one for one in prices if one.revision == self.revision), None)
        if own is not None and own.state == "confirmed":
            return Recorded(own)
        revision = self.revision if own is None else own.revision
        if revision is not None and newest is not None and newest.revision > revision:
            return Recorded(newest)
        if own is not None and own.state == "refused":
            raise rejected_error(self, own)
        if self.revision is None and newest is not None:
            if _order(newest) > (event or 0, not is_bound):
                raise AlreadyOfferedError(
                    f"the offer on request {self.request} was not sent: a newer event has an offer of this bot",
                    request=self.request,
                )
            if own is None and load_offer(newest).on_wire == self.on_wire:
                return Recorded(newest)
        if revision is None:
            revision = max((one.revision for one in prices), default=-1) + 1
        return Plan(
            Effect(
                key=f"offer:{self.request}:{revision}",
                kind="offer",
                subject=self.request,
                revision=revision,
                event=event,
                facts={
                    "amount": str(self.amount),
                    "currency": self.currency,
                    "code": self.currency_code,
                    "rates": None if self.rates is None else {name: str(fee) for name, fee in self.rates.items()},
                    "terms": self.terms,
                    "order": "revision" if self.revision is not None else "event" if is_bound else "after",
                    **_history(own),
                },
            ),
            own,
        )

    async def send(self, exchange: FreightExchange) -> Bid:
        return await exchange.bids.submit(
            self.request, amount=self.amount, currency=self.currency, rates=self.rates, terms=self.terms
        )

    def is_same_as(self, effect: Effect) -> bool:
        """Return whether an offer of the ledger has the same price and terms."""
        return load_offer(effect).on_wire == self.on_wire

    def taken_over(self) -> Bid:
        """Return a bid of this price, for one that is only known by its price."""
        return Bid(index=self.request, amount=self.amount, currency=self.currency)


@attrs.frozen(kw_only=True)
class AnswerWrite(Write):
    """Approval or decline of an offer.

    Attributes:
        offer: Identifier of the offer.
        approved: `True` for an approval.
        seen: The offer as the handler saw it; `None` if it gave the identifier only.
    """

    request: int
    offer: int
    approved: bool
    seen: Offer | None = None

    subject = "answer"
    refusals = (BadRequestError, NotFoundError)

    @property
    def on_wire(self) -> Respond:
        return Respond(self.offer, self.approved, self.request)

    def __str__(self) -> str:
        return f"the {'approval' if self.approved else 'decline'} of offer {self.offer} on request {self.request}"

    def plan(self, known: Sequence[Effect], event: int | None, *, is_bound: bool = True) -> Plan | Recorded:
        _check_none_open(known)
        approval = next((one for one in known if one.kind == "approval"), None)
        decline = next((one for one in known if one.kind == "decline" and one.facts["offer"] == self.offer), None)
        if approval is not None and approval.state == "confirmed":
            is_this = approval.facts["offer"] == self.offer
            if self.approved and is_this:
                return Recorded(approval)
            if self.approved or is_this:
                raise already_approved_error(self, approval.facts["offer"])
        own = approval if self.approved else decline
        if own is not None and own.facts["offer"] == self.offer:
            if own.state == "refused":
                raise rejected_error(self, own)
            if own.state == "confirmed":
                return Recorded(own)
        # A second approval of a request has the key of the first.
        tail = "approval" if self.approved else f"decline:{self.offer}"
        history = _history(own) if own is not None and own.facts["offer"] == self.offer else _history(None)
        facts = {"offer": self.offer, "amount": None, "currency": None, **history}
        kind = "approval" if self.approved else "decline"
        effect = Effect(key=f"answer:{self.request}:{tail}", kind=kind, subject=self.request, event=event, facts=facts)
        return Plan(effect, own)

    async def send(self, exchange: FreightExchange) -> Listing | None:
        if self.approved:
            return await exchange.offers.approve(self.offer)
        return await exchange.offers.decline(self.offer)

    def find(self, listing: Listing) -> Offer | None:
        """Return the offer as a listing shows it."""
        return next((entry for entry in listing.offers if entry.id == self.offer), None)

    def is_shown(self, listing: Listing, known: Sequence[Effect]) -> bool:
        """Check the answer against the request as it was read just now; return whether the service shows it already.

        Raises:
            AlreadyApprovedError: Another offer on the request is selected, or the offer to decline is selected itself.
            OfferChangedError: The offer was answered, or differs from the offer that the handler saw.
        """
        selected = listing.selected
        if selected is not None:
            if self.approved and selected.id == self.offer:
                return True
            if self.approved or selected.id == self.offer:
                raise already_approved_error(self, selected.id)
        offer = self.find(listing)
        assert offer is not None
        if offer.status in DECLINED:
            if not self.approved:
                return True
            raise changed_error(self, "was declined before")
        if self.approved and any(self._declined(one, offer) for one in known):
            raise changed_error(self, "was declined before")
        changed = (
            [] if self.seen is None else [name for name in _FIELDS if _value(self.seen, name) != _value(offer, name)]
        )
        if changed:
            raise changed_error(self, f"has changed since the handler saw it: {', '.join(changed)}")
        return False

    def _declined(self, effect: Effect, offer: Offer) -> bool:
        """Return whether an effect is a decline of the offer at its present price. At another one it is another offer.

        How the service shows a decline is not documented (service document, section 3).
        """
        if (effect.kind, effect.state, effect.facts.get("offer")) != ("decline", "confirmed", self.offer):
            return False
        return _price_of(effect.facts) == (offer.amount, offer.currency)


@attrs.frozen(kw_only=True)
class PublishWrite(Write):
    """Publication of one row of a file.

    Attributes:
        row: Identity of the row in its file.
    """

    request: None = None
    row: str
    draft: RateRequestDraft

    subject = "publication"

    @property
    def on_wire(self) -> Publish:
        return Publish(self.draft)

    def __str__(self) -> str:
        return "the publication"

    def plan(self, known: Sequence[Effect], event: int | None, *, is_bound: bool = True) -> Plan | Recorded:
        own = next((one for one in known if one.key == self.row), None)
        if own is not None and own.is_open:
            raise in_doubt_error(own)
        if own is not None and own.state != "absent":
            return Recorded(own)
        return Plan(Effect(key=self.row, kind="publication", subject=None, facts=_history(own)), own)

    async def send(self, exchange: FreightExchange) -> RateRequest:
        return await exchange.requests.publish(self.draft)


def load_baseline(effect: Effect) -> list[Price]:
    """Return the prices of the account's bids that were on the request before an offer."""
    return [(None if amount is None else Decimal(amount), code) for amount, code in effect.facts.get("baseline", ())]


def load_write(effect: Effect) -> OfferWrite | AnswerWrite:
    """Return the write of an effect on a request."""
    if effect.kind == "offer":
        return load_offer(effect)
    assert effect.subject is not None
    return AnswerWrite(request=effect.subject, offer=effect.facts["offer"], approved=effect.kind == "approval")


def dump_result(record: Serializable | None) -> dict[str, Any] | None:
    """Return a record as the facts of an effect have it."""
    return None if record is None else to_dict(record)


def outcome_of(error: FreightExchangeError, refusals: tuple[type[FreightExchangeError], ...]) -> str:
    """Return the state of the write that an error ended: `unknown`, `refused`, or `absent`, as it was not sent."""
    if isinstance(error, OutcomeUnknownError):
        return "unknown"
    if isinstance(error, refusals) and error.call_path != "login":
        # The service itself has refused, and no gateway, only if the reply is JSON, as all its replies are.
        is_service = isinstance(error.body, Mapping | Sequence) and not isinstance(error.body, str)
        return "refused" if is_service else "unknown"
    return "unknown" if error.may_have_taken_effect else "absent"


def unknown_prices(listed: Iterable[Price], effects: Iterable[Effect]) -> Counter[Price]:
    """Return the listed prices on a request that are not from the ledger. Equal prices are matched by their number.

    A price of the ledger is listed as it was sent, or as the reply showed it. A bid without a readable amount may be
    any of them.
    """
    left = Counter(listed)
    spare = 0
    for effect in effects:
        result = effect.facts.get("result") or {}
        sent, shown = _price_of(effect.facts), _price_of(result)
        wanted = [sent, (sent[0], None), *([shown, (shown[0], None)] if shown[0] is not None else [])]
        match = next((price for price in wanted if left[price] > 0), None)
        if match is None:
            spare += 1
        else:
            left[match] -= 1
    for price in [price for price in left if price[0] is None]:
        left[price] -= min(spare, left[price])
    return +left


def in_doubt_error(effect: Effect) -> OfferInDoubtError:
    """Make the error for a write that must wait for the end of a doubt."""
    then = "a person has to decide" if effect.state == "parked" else "it is being checked"
    return OfferInDoubtError(
        f"{_name(effect)} may or may not have been carried out: {then}, and nothing more is sent about it before that"
        " is known",
        request=effect.subject,
    )


def rejected_error(write: Write, effect: Effect) -> OfferRejectedError:
    """Make the error for a write that the service has refused."""
    error = OfferRejectedError(
        f"{write} was refused: {effect.facts.get('refusal')}; it is not sent again", status=effect.facts.get("status")
    )
    error.request = write.request
    return error


def already_approved_error(write: AnswerWrite, approved: int | None) -> AlreadyApprovedError:
    """Make the error for an answer that the approval of an offer excludes."""
    which = "another offer" if approved is None else f"offer {approved}"
    return AlreadyApprovedError(
        f"{write} was not sent: {which} on the request is approved", request=write.request, offer=approved
    )


def already_offered_error(write: OfferWrite, which: str) -> AlreadyOfferedError:
    """Make the error for an offer beside a bid that is not from the ledger."""
    return AlreadyOfferedError(
        f"{write} was not sent: this account has one there that {which}; a person or another bot made it, or the store"
        " was lost; pass allow_existing=True to offer anyway",
        request=write.request,
    )


def changed_error(write: AnswerWrite, how: str) -> OfferChangedError:
    """Make the error for an answer to an offer that is not as the handler saw it."""
    return OfferChangedError(
        f"{write} was not sent: the offer {how}; its event follows", request=write.request, offer=write.offer
    )


def decide(effect: Effect, *, taken: object) -> Effect:
    """Return an effect as a person has decided.

    Raises:
        ValidationError: `taken` is not a boolean, or the effect is neither in doubt nor refused.
    """
    if not isinstance(taken, bool):
        raise ValidationError(f"taken must be True or False, not {taken!r}", field="taken")
    if not (effect.is_open or effect.state == "refused"):
        raise ValidationError(f"{_name(effect)} is not in doubt, nor was it refused", field="request")
    facts: dict[str, Any] = {"resends": 0, "checks": 0, "since": None, "refusal": None, "status": None}
    if taken and effect.kind == "offer":
        write = load_offer(effect)
        facts["result"] = to_dict(write.taken_over())
    # What is listed on the request is not the effect: the person has looked.
    facts["allowed"] = not taken
    return attrs.evolve(effect.with_facts(**facts), state="confirmed" if taken else "absent")


def load_offer(effect: Effect) -> OfferWrite:
    """Return the offer of an effect."""
    facts = effect.facts
    assert effect.subject is not None
    rates = facts["rates"]
    return OfferWrite(
        request=effect.subject,
        amount=Decimal(facts["amount"]),
        currency=facts["currency"],
        currency_code=facts.get("code"),
        rates=None if rates is None else {name: Decimal(fee) for name, fee in rates.items()},
        terms=facts["terms"],
        revision=effect.revision,
    )


def _history(own: Effect | None) -> dict[str, Any]:
    """Return what an effect keeps from its earlier sends."""
    if own is None:
        return {"resends": 0}
    return {"resends": own.facts.get("resends", 0), "allowed": own.facts.get("allowed", False)}


def _check_none_open(known: Sequence[Effect]) -> None:
    if (doubt := next((one for one in known if one.is_open), None)) is not None:
        raise in_doubt_error(doubt)


def _name(effect: Effect) -> str:
    return "the publication" if effect.kind == "publication" else str(load_write(effect))


def _order(effect: Effect) -> tuple[int, bool]:
    return effect.event or 0, effect.facts["order"] == "after"


def _price_of(facts: Mapping[str, Any]) -> Price:
    amount = facts.get("amount")
    return None if amount is None else Decimal(amount), facts.get("currency")


def _value(offer: Offer, name: str) -> object:
    value: object = getattr(offer, name)
    return (value or None) if name in _MAY_BE_EMPTY else value
