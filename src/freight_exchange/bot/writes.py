"""Writes of the ledger: what differs between an offer and an answer to an offer. Pure, but for `send`.

A write decides by the effects on its request whether it was carried out before (that effect), may begin (`Plan`), or
must not be sent (an error).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

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
from freight_exchange.models import Bid, Listing, Offer, Respond, SubmitOffer
from freight_exchange.serialization import from_dict, to_dict
from freight_exchange.store.effects import Effect
from freight_exchange.words import DECLINED

if TYPE_CHECKING:
    from freight_exchange.client import FreightExchange

Price: TypeAlias = tuple[Decimal | None, int | None]
"""Amount and currency of a bid. Listed bids have no identifier of their own."""

_FIELDS: Final = ("amount", "currency", "terms", "rates")
"""Fields of an offer that its answer depends on. Empty terms or rates are equal to missing ones."""


@attrs.frozen
class Plan:
    """Effect to begin, in place of one that had no effect on the service, if any."""

    effect: Effect
    replaces: Effect | None = None


@attrs.frozen(kw_only=True)
class OfferWrite:
    """An offer on a request. Without a `revision`, the price is ordered by its event."""

    request: int
    amount: Decimal
    currency: int
    rates: Mapping[str, Decimal] | None = None
    terms: str | None = None
    revision: int | None = None
    allow_existing: bool = False
    currency_code: str | None = None

    refusals: ClassVar = (BadRequestError,)

    @property
    def on_wire(self) -> SubmitOffer:
        return SubmitOffer(self.request, self.amount, self.currency, self.rates, self.terms)

    @property
    def price(self) -> Price:
        return self.amount, self.currency

    @property
    def price_text(self) -> str:
        return f"{self.amount} {self.currency_code or f'in currency {self.currency}'}"

    def __str__(self) -> str:
        return f"the offer on request {self.request}{f', revision {self.revision}' if self.revision else ''}"

    def plan(self, known: Sequence[Effect], event: int | None, *, is_bound: bool = True) -> Plan | Effect:
        _check_none_open(known)
        prices = [one for one in known if one.kind == "offer"]
        placed = [one for one in prices if one.state == "confirmed"]
        newest = max(placed, key=lambda one: one.revision, default=None)
        if self.revision is None:
            own = [
                one
                for one in prices
                if is_bound and one.event == event and one.facts["order"] == "event"
                # Other values than the refused ones are another offer.
                if one.state != "refused" or load_offer(one).on_wire == self.on_wire
            ]
        else:
            own = [one for one in prices if one.revision == self.revision]
        earlier = own[-1] if own else None
        if earlier is not None and earlier.state == "confirmed":
            return earlier
        revision = self.revision if earlier is None else earlier.revision
        if newest is not None and revision is not None and newest.revision > revision:
            return newest
        if earlier is not None and earlier.state == "refused":
            raise rejected_error(self, earlier)
        if newest is not None and self.revision is None:
            if (newest.event or 0, newest.facts["order"] == "after") > (event or 0, not is_bound):
                raise AlreadyOfferedError(f"{self} was not sent: a newer event has its price", request=self.request)
            if earlier is None and load_offer(newest).on_wire == self.on_wire:
                return newest
        if revision is None:
            revision = max((one.revision for one in prices), default=-1) + 1
        facts = {
            "amount": str(self.amount),
            "currency": self.currency,
            "code": self.currency_code,
            "rates": None if self.rates is None else {name: str(fee) for name, fee in self.rates.items()},
            "terms": self.terms,
            "order": "revision" if self.revision is not None else "event" if is_bound else "after",
            **_history(earlier),
        }
        key = f"offer:{self.request}:{revision}"
        effect = Effect(key=key, kind="offer", subject=self.request, revision=revision, event=event, facts=facts)
        return Plan(effect, earlier)

    async def send(self, exchange: FreightExchange) -> Bid:
        return await exchange.bids.submit(
            self.request, amount=self.amount, currency=self.currency, rates=self.rates, terms=self.terms
        )


@attrs.frozen(kw_only=True)
class AnswerWrite:
    """Approval or decline of an offer. `seen` is the offer as the handler saw it, if it did not give a number only."""

    request: int
    offer: int
    approved: bool
    seen: Offer | None = None

    refusals: ClassVar = (BadRequestError, NotFoundError)

    @property
    def on_wire(self) -> Respond:
        return Respond(self.offer, self.approved, self.request)

    def __str__(self) -> str:
        return f"the {'approval' if self.approved else 'decline'} of offer {self.offer} on request {self.request}"

    def plan(self, known: Sequence[Effect], event: int | None, *, is_bound: bool = True) -> Plan | Effect:
        _check_none_open(known)
        approval = next((one for one in known if one.kind == "approval"), None)
        if approval is not None and approval.state == "confirmed":
            approved = approval.facts["offer"]
            if self.approved and approved == self.offer:
                return approval
            if self.approved or approved == self.offer:
                raise self._already(approved)
        decline = next((one for one in known if one.kind == "decline" and one.facts["offer"] == self.offer), None)
        # A second approval of a request has the key of the first.
        earlier = approval if self.approved else decline
        is_same = earlier is not None and earlier.facts["offer"] == self.offer
        if earlier is not None and is_same and earlier.state == "refused":
            raise rejected_error(self, earlier)
        if earlier is not None and is_same and earlier.state == "confirmed":
            return earlier
        kind, tail = ("approval", "") if self.approved else ("decline", f":{self.offer}")
        facts = {"offer": self.offer, **_history(earlier if is_same else None)}
        key = f"{kind}:{self.request}{tail}"
        return Plan(Effect(key=key, kind=kind, subject=self.request, event=event, facts=facts), earlier)

    async def send(self, exchange: FreightExchange) -> Listing | None:
        return await (exchange.offers.approve if self.approved else exchange.offers.decline)(self.offer)

    def find(self, listing: Listing) -> Offer | None:
        return next((entry for entry in listing.offers if entry.id == self.offer), None)

    def is_shown(self, listing: Listing, known: Sequence[Effect]) -> bool | None:
        """Return whether the service shows the answer already, by the request as it was read just now.

        `None` if the listing lacks the offer: a selected one may be alone. `AlreadyApprovedError` or
        `OfferChangedError` if it must not be given any more.
        """
        selected, offer = listing.selected, self.find(listing)
        if selected is not None and self.approved and selected.id == self.offer:
            return True
        if selected is not None and (self.approved or selected.id == self.offer):
            raise self._already(selected.id)
        if offer is None:
            return None
        if offer.status in DECLINED and not self.approved:
            return True
        if offer.status in DECLINED or (self.approved and any(self._declined(one, offer) for one in known)):
            raise self.changed("was declined before")
        seen = offer if self.seen is None else self.seen
        changed = [name for name in _FIELDS if (getattr(seen, name) or None) != (getattr(offer, name) or None)]
        if changed:
            raise self.changed(f"has changed since the handler saw it: {', '.join(changed)}")
        return False

    def _declined(self, effect: Effect, offer: Offer) -> bool:
        """Return whether an effect is a decline of the offer at its present price. At another one it is another offer.

        How the service shows a decline is not documented (service document, section 3).
        """
        is_decline = effect.kind == "decline" and effect.state == "confirmed" and effect.facts["offer"] == self.offer
        return is_decline and _price(effect.facts) == (offer.amount, offer.currency)

    def changed(self, how: str) -> OfferChangedError:
        message = f"{self} was not sent: the offer {how}; its event follows"
        return OfferChangedError(message, request=self.request, offer=self.offer)

    def _already(self, approved: int | None) -> AlreadyApprovedError:
        which = "another offer" if approved is None else f"offer {approved}"
        message = f"{self} was not sent: {which} on the request is approved"
        return AlreadyApprovedError(message, request=self.request, offer=approved)


Write: TypeAlias = OfferWrite | AnswerWrite
"""A write about a request that is carried out at most once."""


def load_write(effect: Effect) -> Write:
    if effect.kind == "offer":
        return load_offer(effect)
    assert effect.subject is not None
    return AnswerWrite(request=effect.subject, offer=effect.facts["offer"], approved=effect.kind == "approval")


def load_offer(effect: Effect) -> OfferWrite:
    facts, rates = effect.facts, effect.facts["rates"]
    assert effect.subject is not None
    return OfferWrite(
        request=effect.subject,
        amount=Decimal(facts["amount"]),
        currency=facts["currency"],
        currency_code=facts["code"],
        rates=None if rates is None else {name: Decimal(fee) for name, fee in rates.items()},
        terms=facts["terms"],
        revision=effect.revision,
    )


def result_of(effect: Effect) -> Any:
    found = effect.facts.get("result")
    return None if found is None else from_dict(found)


def outcome_of(error: FreightExchangeError, refusals: tuple[type[FreightExchangeError], ...]) -> str:
    """Return the state of the write that an error ended: `unknown`, `refused`, or `absent`, as it was not sent."""
    if isinstance(error, refusals) and error.call_path != "login":
        # The service itself has refused, and no gateway, only if the reply is JSON, as all its replies are.
        is_service = isinstance(error.body, Mapping | Sequence) and not isinstance(error.body, str)
        return "refused" if is_service else "unknown"
    return "unknown" if isinstance(error, OutcomeUnknownError) or error.may_have_taken_effect else "absent"


def prices_of(rows: Iterable[Sequence[Any]]) -> list[Price]:
    return [(None if amount is None else Decimal(amount), currency) for amount, currency in rows]


def unknown_prices(listed: Iterable[Price], effects: Iterable[Effect]) -> Counter[Price]:
    """Return the listed prices on a request that are not from the ledger. Equal prices are matched by their number.

    A price of the ledger is listed as it was sent, or as the reply showed it. A bid without a readable amount may be
    any of them.
    """
    left, unmatched = Counter(listed), 0
    for effect in effects:
        prices = _price(effect.facts), _price(effect.facts.get("result") or {})
        wanted = [(amount, code) for amount, currency in prices if amount is not None for code in (currency, None)]
        if (match := next((price for price in wanted if left[price]), None)) is None:
            unmatched += 1
        else:
            left[match] -= 1
    for price in [price for price in left if price[0] is None]:
        left[price], unmatched = left[price] - unmatched, max(unmatched - left[price], 0)
    return +left


def in_doubt_error(effect: Effect) -> OfferInDoubtError:
    then = "a person has to decide" if effect.state == "parked" else "it is being checked"
    return OfferInDoubtError(
        f"{load_write(effect)} may or may not have been carried out: {then}, and nothing more is sent about it before"
        " that is known",
        request=effect.subject,
    )


def rejected_error(write: Write, effect: Effect) -> OfferRejectedError:
    reason, status = effect.facts.get("refusal"), effect.facts.get("status")
    error = OfferRejectedError(f"{write} was refused: {reason}; it is not sent again", status=status)
    error.request = write.request
    return error


def decided_by_person(effect: Effect, *, taken: object) -> Effect:
    if not isinstance(taken, bool):
        raise ValidationError(f"taken must be True or False, not {taken!r}", field="taken")
    # What is listed on the request is not the effect that the person denies.
    facts: dict[str, Any] = {"resends": 0, "checks": 0, "refusal": None, "status": None, "allowed": not taken}
    if taken and effect.kind == "offer":
        write = load_offer(effect)
        facts["result"] = to_dict(Bid(index=write.request, amount=write.amount, currency=write.currency))
    return attrs.evolve(effect.with_facts(**facts), state="confirmed" if taken else "absent")


def _history(earlier: Effect | None) -> dict[str, Any]:
    facts = {} if earlier is None else earlier.facts
    return {"resends": facts.get("resends", 0), "allowed": facts.get("allowed", False)}


def _check_none_open(known: Sequence[Effect]) -> None:
    if (doubt := next((one for one in known if one.is_open), None)) is not None:
        raise in_doubt_error(doubt)


def _price(facts: Mapping[str, Any]) -> Price:
    amount = facts.get("amount")
    return None if amount is None else Decimal(amount), facts.get("currency")
