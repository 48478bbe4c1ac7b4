"""Tests of the offers of a record: as a collection, as one entry, unreadable, and their fees."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.wire.raw_records import (
    ENTRY,
    LISTING,
    WITH_OFFERS,
    broken,
    flawed,
)

from freight_exchange import wire
from freight_exchange.models import (
    Offer,
)


class TestOffers:
    """`offer` is a collection, one entry, or empty."""

    @pytest.mark.parametrize("nothing", [{}, [], None])
    def test_listing_may_have_no_offers(self, nothing: object) -> None:
        listing = wire.decode_one({"offers": [{**LISTING, "offer": nothing}]}, wire.OFFERS)
        assert listing.offers == ()
        assert listing.selected is None

    def test_field_of_offers_may_be_absent(self) -> None:
        assert wire.decode_one({"offers": [LISTING]}, wire.OFFERS).offers == ()

    def test_a_collection_in_any_order(self) -> None:
        entries = {"10": {**ENTRY, "offerId": 3}, "2": {**ENTRY, "offerId": 2}, "1": {**ENTRY, "offerId": 1}}
        listing = wire.decode_one({"offers": [{**LISTING, "offer": entries}]}, wire.OFFERS)
        assert [offer.id for offer in listing.offers] == [1, 2, 3]

    def test_offers_may_be_a_list(self) -> None:
        listing = wire.decode_one({"offers": [{**LISTING, "offer": [ENTRY, ENTRY]}]}, wire.OFFERS)
        assert len(listing.offers) == 2

    @pytest.mark.parametrize("key", ["offerAmount", "offerId", "offerIndex", "index"])
    def test_single_entry_is_one_offer(self, key: str) -> None:
        listing = wire.decode_one({"offers": [{**LISTING, "offer": {key: 7, "status": "pending"}}]}, wire.OFFERS)
        assert len(listing.offers) == 1
        assert listing.selected is None
        assert (listing.offers[0].amount if key == "offerAmount" else listing.offers[0].id) == 7

    def test_selected_offer_is_found_alone_and_among_others(self) -> None:
        chosen = {**ENTRY, "offerId": 8, "status": "Selected"}
        alone = wire.decode_one({"offers": [{**LISTING, "offer": chosen}]}, wire.OFFERS)
        assert alone.selected == alone.offers[0]
        among = wire.decode_one({"offers": [{**LISTING, "offer": {"0": ENTRY, "1": chosen}}]}, wire.OFFERS)
        assert among.selected == among.offers[1]
        assert among.selected is not None
        assert among.selected.id == 8

    @pytest.mark.parametrize("nothing", [None, {}, [], ""])
    def test_empty_entries_are_skipped(self, nothing: object) -> None:
        listing = wire.decode_one({"offers": [{**LISTING, "offer": {"0": nothing, "1": ENTRY}}]}, wire.OFFERS)
        assert [offer.id for offer in listing.offers] == [7]

    @pytest.mark.parametrize(
        ("offer", "path", "kept"),
        [
            ("x", "offers.3.offer", "x"),
            (3, "offers.3.offer", 3),
            ({"0": 3}, "offers.3.offer.0", {"0": 3}),
            ([[1]], "offers.3.offer.0", {"0": (1,)}),
            ({"offerAmount": "much"}, "offers.3.offer.offerAmount", {"offerAmount": "much"}),
        ],
    )
    def test_entry_that_is_no_offer_is_left_out(self, offer: object, path: str, kept: object) -> None:
        listing, flaws = flawed(wire.OFFERS, {**LISTING, "offer": offer})
        assert listing.offers == ()
        assert flaws == [path]
        assert listing.extra == {"offer": kept}

    @pytest.mark.parametrize("shape", [dict, list])
    def test_one_unreadable_offer_loses_no_other(self, shape: type) -> None:
        entries = [ENTRY, {**ENTRY, "offerAmount": "much"}, {**ENTRY, "offerId": 9, "status": "selected"}]
        offer: object = entries if shape is list else {str(place): entry for place, entry in enumerate(entries)}
        found = wire.decode_rows({"offers": [{**LISTING, "offer": offer}, LISTING]}, wire.OFFERS)
        assert [[offer.id for offer in record.offers] for record in found.records] == [[7, 9], []]
        assert found.records[0].selected == found.records[0].offers[1]
        assert found.records[0].extra == {"offer": {"1": entries[1]}}
        assert not found.broken
        assert [error.path for error in found.flaws] == ["offers.0.offer.1.offerAmount"]

    def test_a_broken_record_is_counted_once(self) -> None:
        raw = {**LISTING, "weight": "heavy", "offer": {"0": {**ENTRY, "offerAmount": "much"}}}
        assert broken(wire.OFFERS, raw).path == "offers.3.weight"

    @pytest.mark.parametrize("stray", [1, 0, "1", "", True, Decimal("1.5")])
    def test_a_scalar_beside_the_entries_is_kept(self, stray: object) -> None:
        for kind in WITH_OFFERS:
            record, flaws = flawed(kind, {**LISTING, "offer": {"0": ENTRY, "count": stray}})
            assert flaws == []
            assert record.extra == {"offer": {"count": stray}}
            offers = record.offers if kind is wire.OFFERS else (record.offer,)
            assert [offer.id for offer in offers] == [7]

    def test_a_scalar_alone_is_no_offer(self) -> None:
        listing, flaws = flawed(wire.OFFERS, {**LISTING, "offer": {"status": "selected"}})
        assert (listing.offers, flaws, listing.extra) == ((), [], {"offer": {"status": "selected"}})


class TestRates:
    """An offer may have itemised fees."""

    @pytest.mark.parametrize("rates", [{}, []])
    def test_empty_rates_have_no_total(self, rates: object) -> None:
        listing = wire.decode_one({"offers": [{**LISTING, "offer": {"0": {**ENTRY, "rates": rates}}}]}, wire.OFFERS)
        assert listing.offers[0].rates == {}
        assert listing.offers[0].rates_total is None

    def test_rates_are_exact_numbers_by_name(self) -> None:
        rates = {"Ocean": "1700", "Chassis": Decimal("140.50")}
        listing = wire.decode_one({"offers": [{**LISTING, "offer": {"0": {**ENTRY, "rates": rates}}}]}, wire.OFFERS)
        assert listing.offers[0].rates == {"Ocean": Decimal(1700), "Chassis": Decimal("140.50")}
        assert listing.offers[0].difference == 0
        assert listing.offers[0].extra == {}

    @pytest.mark.parametrize("missing", [None, "", "  "])
    def test_a_fee_without_an_amount_is_left_out_and_stays_readable(self, missing: object) -> None:
        rates = {"Ocean": "1840.50", "Chassis": missing}
        listing, flaws = flawed(wire.OFFERS, {**LISTING, "offer": {"0": {**ENTRY, "rates": rates, "rank": 1}}})
        offer = listing.offers[0]
        assert flaws == []
        assert (offer.rates, offer.rates_total, offer.difference) == ({"Ocean": ENTRY["offerAmount"]}, offer.amount, 0)
        assert offer.extra == {"rank": 1, "rates": {"Chassis": missing}}
        alone = wire.decode_bid({"bid": {**LISTING, "offer": {**ENTRY, "rates": {"Chassis": missing}}}}).offer
        assert alone is not None
        assert (alone.rates, alone.rates_total, alone.difference) == ({}, None, None)
        assert alone.extra == {"rates": {"Chassis": missing}}

    @given(st.dictionaries(st.text(max_size=3), st.none() | st.sampled_from(["", " ", "1.5", "x"]) | st.integers()))
    def test_the_fees_of_any_rates_can_be_added_up(self, rates: dict[str, object]) -> None:
        listing = wire.decode_one({"offers": [{**LISTING, "offer": {"0": {**ENTRY, "rates": rates}}}]}, wire.OFFERS)
        for offer in listing.offers:
            assert offer.rates is not None
            assert (offer.rates_total is None) is (offer.difference is None) is (not offer.rates)
            missing: Any = offer.extra.get("rates", {})
            assert {*offer.rates, *missing} == {*rates}

    @pytest.mark.parametrize(
        ("rates", "path"),
        [([1], "rates"), ("x", "rates"), ({"A": "x"}, "rates.A"), ({"A": {}}, "rates.A"), ({"A": True}, "rates.A")],
    )
    def test_unreadable_rates_break_their_offer_alone(self, rates: object, path: str) -> None:
        entry = {**ENTRY, "rates": rates}
        listing, flaws = flawed(wire.OFFERS, {**LISTING, "offer": {"1": entry}})
        assert flaws == [f"offers.3.offer.1.{path}"]
        assert listing.extra["offer"].keys() == {"1"}


@pytest.mark.parametrize("key", ["offerId", "offerIndex", "index"])
@pytest.mark.parametrize("value", ["7", 7, Decimal("7.0"), " 7 "])
def test_id_of_an_offer_has_several_keys(key: str, value: object) -> None:
    entry = {key: value, "offerAmount": 5}
    listing = wire.decode_one({"offers": [{**LISTING, "offer": {"0": entry}}]}, wire.OFFERS)
    assert listing.offers == (Offer(id=7, amount=Decimal(5)),)
    assert type(listing.offers[0].id) is int
