"""Tests of comparing an answer with the listed request."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import attrs
import pytest

from freight_exchange import Listing, Offer, OfferChangedError, OfferStatus, UnknownWord
from freight_exchange.bot.answers.checks import check_against
from freight_exchange.bot.answers.record import AnswerRecord

OFFER = Offer(id=31, amount=Decimal(900), currency=1, status=OfferStatus.PENDING, terms="prepaid")
APPROVAL = AnswerRecord(request=4, offer=31, approved=True, handler="award", event=1)


@pytest.mark.parametrize(("name", "before", "now"), [("terms", None, ""), ("rates", {}, None)])
def test_empty_terms_and_rates_that_another_operation_leaves_out_are_no_change(
    name: str, before: Any, now: Any
) -> None:
    seen, listed = attrs.evolve(OFFER, **{name: before}), attrs.evolve(OFFER, **{name: now})
    assert not check_against(Listing(index=4, offers=(listed,)), APPROVAL, seen)


def test_offer_that_the_bot_has_declined_is_not_approved_though_no_listing_shows_it() -> None:
    decline = attrs.evolve(APPROVAL, approved=False, state="confirmed", amount=OFFER.amount, currency=OFFER.currency)
    with pytest.raises(OfferChangedError, match="was declined before"):
        check_against(Listing(index=4, offers=(OFFER,)), APPROVAL, OFFER, decline)
    # A decline that was refused is none, and a lower price makes another offer.
    refused, lower = attrs.evolve(decline, state="rejected"), attrs.evolve(OFFER, amount=Decimal(800))
    assert not check_against(Listing(index=4, offers=(OFFER,)), APPROVAL, OFFER, refused)
    assert not check_against(Listing(index=4, offers=(lower,)), APPROVAL, lower, decline)


def test_another_word_that_is_no_answer_is_no_change() -> None:
    listed = attrs.evolve(OFFER, status=UnknownWord("under review"))
    assert not check_against(Listing(index=4, offers=(listed,)), APPROVAL, OFFER)


@pytest.mark.parametrize(
    "change", [{"amount": Decimal(901)}, {"currency": 2}, {"terms": "collect"}, {"rates": {"A": 1}}]
)
def test_offer_that_has_changed_since_the_handler_saw_it_is_not_approved(change: dict[str, Any]) -> None:
    listed = attrs.evolve(OFFER, **change)
    with pytest.raises(OfferChangedError, match=f"has changed since the handler saw it: {next(iter(change))}"):
        check_against(Listing(index=4, offers=(listed,)), APPROVAL, OFFER)
