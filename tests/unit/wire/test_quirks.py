"""What the decoder accepts, row by row, and what it refuses."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freight_exchange import wire
from freight_exchange.errors import DecodeError
from freight_exchange.models import (
    BidStatus,
    Company,
    Contact,
    Offer,
    OfferStatus,
    Packaging,
    RateRequest,
    RequestStatus,
    RequestType,
    UnknownWord,
)

REQUEST: dict[str, Any] = {
    "index": 4,
    "commodityname": "Widgets",
    "refId": "RQ-4",
    "requesttype": "Air Freight",
    "status": "Available",
    "origin": "Hong Kong",
    "destination": "Los Angeles",
    "needdate": "2025-03-01 00:00:00",
    "notes": "10 pallets",
    "qty": 10,
    "packaging": "Pallet",
    "measureUnit": "m",
    "width": Decimal("1.20"),
    "height": 1,
    "length": Decimal("0.8"),
    "massUnit": "kg",
    "weight": Decimal("450.5"),
    "incoterm": "FOB",
    "hazardous": 1,
}
READ = RateRequest(
    index=4,
    commodity="Widgets",
    ref_id="RQ-4",
    type=RequestType.AIR_FREIGHT,
    status=RequestStatus.AVAILABLE,
    origin="Hong Kong",
    destination="Los Angeles",
    need_date=datetime(2025, 3, 1),
    notes="10 pallets",
    quantity=10,
    packaging=Packaging.PALLET,
    measure_unit="m",
    width=Decimal("1.20"),
    height=Decimal(1),
    length=Decimal("0.8"),
    mass_unit="kg",
    weight=Decimal("450.5"),
    incoterm="FOB",
    hazardous=True,
)
LISTING: dict[str, Any] = {
    "index": 4,
    "cargoname": "Widgets",
    "status": "Available",
    "origin": "Hong Kong",
    "destination": "Los Angeles",
    "needdate": "2025-03-01 00:00:00",
    "notes": "",
    "qty": 10,
    "packingtype": "Pallet",
    "measureUnit": "m",
    "massUnit": "kg",
    "weight": 450,
    "cargowidth": 1,
    "cargoheight": 2,
    "cargolength": 3,
}
ENTRY: dict[str, Any] = {"offerId": "7", "offerAmount": Decimal("1840.50"), "currencyId": 840, "status": "pending"}
WITH_OFFERS: tuple[wire.Kind[Any], ...] = (wire.OFFERS, wire.BIDS)
CONTACTS = {"loadingPOC": {"name": "Ada", "email": "ada@co.example"}, "loadingCompany": {"name": "Co", "fax": "1"}}


def request(**changes: object) -> RateRequest:
    return wire.one({"raterequests": {"0": {**REQUEST, **changes}}}, wire.REQUESTS)


def broken(kind: wire.Kind[Any], raw: object) -> DecodeError:
    found = wire.rows({kind.collection: {"3": raw}}, kind)
    assert not found.records
    assert not found.flaws
    return found.broken[0]


def flawed(kind: wire.Kind[Any], raw: object) -> tuple[Any, list[str]]:
    """The record, and where in the reply the parts were that it does without."""
    found = wire.rows({kind.collection: {"3": raw}}, kind)
    assert not found.broken
    assert all(error.raw == raw for error in found.flaws)
    assert found.records == (wire.one({kind.collection: {"3": raw}}, kind),)
    return found.records[0], [error.path for error in found.flaws]


def shuffled(values: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for order in itertools.islice(itertools.permutations(values), 24):
        yield {key: values[key] for key in order}


def test_the_documented_record() -> None:
    assert request() == READ
    assert request().volume == Decimal("9.600")
    assert str(request().width) == "1.20"


class Test01Collections:
    """Objects keyed by numbers, lists, and the several ways to be empty."""

    def test_sorted_by_number_with_gaps(self) -> None:
        raws = {"10": {**REQUEST, "index": 10}, "9": {**REQUEST, "index": 9}, "0": {**REQUEST, "index": 0}}
        for order in shuffled(raws):
            found = wire.rows({"raterequests": order}, wire.REQUESTS)
            assert [record.index for record in found.records] == [0, 9, 10]

    @given(st.permutations(list(range(30))), st.sets(st.integers(0, 29)))
    def test_any_order_and_any_gaps(self, order: list[int], gaps: set[int]) -> None:
        raws = {str(place): {**REQUEST, "index": place} for place in order if place not in gaps}
        found = wire.rows({"raterequests": raws}, wire.REQUESTS)
        assert [record.index for record in found.records] == sorted(set(range(30)) - gaps)

    def test_a_list(self) -> None:
        found = wire.rows({"raterequests": [REQUEST, {**REQUEST, "index": 5}]}, wire.REQUESTS)
        assert [record.index for record in found.records] == [4, 5]

    @pytest.mark.parametrize("empty", [{}, [], None])
    @pytest.mark.parametrize(
        ("key", "said"), [("error", "the database is away"), ("Errors", [{"code": 7}]), ("error", True)]
    )
    def test_an_error_beside_an_empty_collection_is_not_an_empty_one(
        self, empty: object, key: str, said: object
    ) -> None:
        """A watcher that took it for one would be deaf."""
        with pytest.raises(DecodeError, match="an error beside an empty 'raterequests'"):
            wire.rows({"raterequests": empty, key: said}, wire.REQUESTS)

    @pytest.mark.parametrize("said", [None, False, "", [], "No records found.", "No rate requests found"])
    def test_what_says_that_there_are_none_is_no_error(self, said: object) -> None:
        assert wire.rows({"raterequests": [], "error": said, "message": "db"}, wire.REQUESTS) == wire.Rows(())

    @pytest.mark.parametrize(
        ("key", "said"),
        [
            *itertools.product(["success", "Success", "ok"], [False, "false", 0, "0", " No "]),
            *itertools.product(["status", "statusCode"], [False, "error", "Failed", 500, "503", 404]),
        ],
    )
    def test_what_says_that_it_went_wrong_is_not_empty(self, key: str, said: object) -> None:
        with pytest.raises(DecodeError, match="an error beside an empty 'raterequests'"):
            wire.rows({"raterequests": [], key: said, "message": "the database is away"}, wire.REQUESTS)
        none = {"raterequests": [], key: said, "message": "No records found."}
        assert wire.rows(none, wire.REQUESTS) == wire.Rows(())

    def test_an_error_beside_records_loses_neither(self) -> None:
        said = {"raterequests": [REQUEST], "error": "query timed out after 1 of 3 rows"}
        found = wire.rows(said, wire.REQUESTS)
        assert [record.index for record in found.records] == [4]
        assert found.failure is not None
        assert found.failure.raw == said

    @pytest.mark.parametrize(
        "beside",
        [
            {"success": True},
            {"success": None},
            {"message": "failed over"},
            {"error": False},
            {"ok": 1},
            {"status": "ok"},
            {"status": 200},
            {"status": 0},
            {"status": "4"},
        ],
    )
    def test_what_is_no_failure_beside_records(self, beside: dict[str, object]) -> None:
        assert wire.rows({"raterequests": [REQUEST], **beside}, wire.REQUESTS).failure is None

    @pytest.mark.parametrize("empty", [{}, [], None])
    def test_empty(self, empty: object) -> None:
        assert wire.rows({"raterequests": empty}, wire.REQUESTS) == wire.Rows(())
        assert wire.rows(empty, wire.REQUESTS) == wire.Rows(())

    @pytest.mark.parametrize(
        "data",
        [{"message": "maintenance"}, {"offers": {}}, [1, 2, 3], [REQUEST], "text", 0, False, Decimal(1), ""],
    )
    def test_a_reply_without_the_collection_is_not_an_empty_one(self, data: object) -> None:
        with pytest.raises(DecodeError) as caught:
            wire.rows(data, wire.REQUESTS)
        assert caught.value.path == "$"

    @pytest.mark.parametrize("held", ["none", 3, {"message": "maintenance"}, True])
    def test_a_collection_that_is_none(self, held: object) -> None:
        with pytest.raises(DecodeError) as caught:
            wire.rows({"raterequests": held}, wire.REQUESTS)
        assert caught.value.path == "raterequests"

    def test_a_stray_key_loses_nothing(self) -> None:
        found = wire.rows({"raterequests": {"0": REQUEST, "total": 1, "9" * 5000: 2}}, wire.REQUESTS)
        assert found.records == (READ,)
        assert [error.path for error in found.broken] == ["raterequests.total", f"raterequests.{'9' * 5000}"]

    @pytest.mark.parametrize("rates", [{}, []])
    def test_empty_rates(self, rates: object) -> None:
        listing = wire.one({"offers": [{**LISTING, "offer": {"0": {**ENTRY, "rates": rates}}}]}, wire.OFFERS)
        assert listing.offers[0].rates == {}
        assert listing.offers[0].rates_total is None

    def test_rates(self) -> None:
        rates = {"Ocean": "1700", "Chassis": Decimal("140.50")}
        listing = wire.one({"offers": [{**LISTING, "offer": {"0": {**ENTRY, "rates": rates}}}]}, wire.OFFERS)
        assert listing.offers[0].rates == {"Ocean": Decimal(1700), "Chassis": Decimal("140.50")}
        assert listing.offers[0].difference == 0
        assert listing.offers[0].extra == {}

    @pytest.mark.parametrize("unsaid", [None, "", "  "])
    def test_a_fee_that_says_nothing_is_left_out_and_stays_readable(self, unsaid: object) -> None:
        rates = {"Ocean": "1840.50", "Chassis": unsaid}
        listing, flaws = flawed(wire.OFFERS, {**LISTING, "offer": {"0": {**ENTRY, "rates": rates, "rank": 1}}})
        offer = listing.offers[0]
        assert flaws == []
        assert (offer.rates, offer.rates_total, offer.difference) == ({"Ocean": ENTRY["offerAmount"]}, offer.amount, 0)
        assert offer.extra == {"rank": 1, "rates": {"Chassis": unsaid}}
        alone = wire.bid({"bid": {**LISTING, "offer": {**ENTRY, "rates": {"Chassis": unsaid}}}}).offer
        assert alone is not None
        assert (alone.rates, alone.rates_total, alone.difference) == ({}, None, None)
        assert alone.extra == {"rates": {"Chassis": unsaid}}

    @given(st.dictionaries(st.text(max_size=3), st.none() | st.sampled_from(["", " ", "1.5", "x"]) | st.integers()))
    def test_the_fees_of_any_rates_can_be_added_up(self, rates: dict[str, object]) -> None:
        listing = wire.one({"offers": [{**LISTING, "offer": {"0": {**ENTRY, "rates": rates}}}]}, wire.OFFERS)
        for offer in listing.offers:
            assert offer.rates is not None
            assert (offer.rates_total is None) is (offer.difference is None) is (not offer.rates)
            unsaid: Any = offer.extra.get("rates", {})
            assert {*offer.rates, *unsaid} == {*rates}

    @pytest.mark.parametrize(
        ("rates", "path"),
        [([1], "rates"), ("x", "rates"), ({"A": "x"}, "rates.A"), ({"A": {}}, "rates.A"), ({"A": True}, "rates.A")],
    )
    def test_broken_rates(self, rates: object, path: str) -> None:
        entry = {**ENTRY, "rates": rates}
        listing, flaws = flawed(wire.OFFERS, {**LISTING, "offer": {"1": entry}})
        assert flaws == [f"offers.3.offer.1.{path}"]
        assert listing.extra["offer"].keys() == {"1"}


class Test02Offers:
    """`offer` as a collection, as one entry, or empty."""

    @pytest.mark.parametrize("nothing", [{}, [], None])
    def test_none(self, nothing: object) -> None:
        listing = wire.one({"offers": [{**LISTING, "offer": nothing}]}, wire.OFFERS)
        assert listing.offers == ()
        assert listing.selected is None

    def test_absent(self) -> None:
        assert wire.one({"offers": [LISTING]}, wire.OFFERS).offers == ()

    def test_a_collection_in_any_order(self) -> None:
        entries = {"10": {**ENTRY, "offerId": 3}, "2": {**ENTRY, "offerId": 2}, "1": {**ENTRY, "offerId": 1}}
        listing = wire.one({"offers": [{**LISTING, "offer": entries}]}, wire.OFFERS)
        assert [offer.id for offer in listing.offers] == [1, 2, 3]

    def test_a_list(self) -> None:
        listing = wire.one({"offers": [{**LISTING, "offer": [ENTRY, ENTRY]}]}, wire.OFFERS)
        assert len(listing.offers) == 2

    @pytest.mark.parametrize("key", ["offerAmount", "offerId", "offerIndex", "index"])
    def test_one_entry(self, key: str) -> None:
        listing = wire.one({"offers": [{**LISTING, "offer": {key: 7, "status": "pending"}}]}, wire.OFFERS)
        assert len(listing.offers) == 1
        assert listing.selected is None
        assert (listing.offers[0].amount if key == "offerAmount" else listing.offers[0].id) == 7

    def test_the_selected_one(self) -> None:
        chosen = {**ENTRY, "offerId": 8, "status": "Selected"}
        alone = wire.one({"offers": [{**LISTING, "offer": chosen}]}, wire.OFFERS)
        assert alone.selected == alone.offers[0]
        among = wire.one({"offers": [{**LISTING, "offer": {"0": ENTRY, "1": chosen}}]}, wire.OFFERS)
        assert among.selected == among.offers[1]
        assert among.selected is not None
        assert among.selected.id == 8

    @pytest.mark.parametrize("nothing", [None, {}, [], ""])
    def test_entries_that_say_nothing(self, nothing: object) -> None:
        listing = wire.one({"offers": [{**LISTING, "offer": {"0": nothing, "1": ENTRY}}]}, wire.OFFERS)
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
    def test_what_is_no_offer_is_left_out(self, offer: object, path: str, kept: object) -> None:
        listing, flaws = flawed(wire.OFFERS, {**LISTING, "offer": offer})
        assert listing.offers == ()
        assert flaws == [path]
        assert listing.extra == {"offer": kept}

    @pytest.mark.parametrize("shape", [dict, list])
    def test_one_unreadable_offer_loses_no_other(self, shape: type) -> None:
        entries = [ENTRY, {**ENTRY, "offerAmount": "much"}, {**ENTRY, "offerId": 9, "status": "selected"}]
        offer: object = entries if shape is list else {str(place): entry for place, entry in enumerate(entries)}
        found = wire.rows({"offers": [{**LISTING, "offer": offer}, LISTING]}, wire.OFFERS)
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


@pytest.mark.parametrize("key", ["offerId", "offerIndex", "index"])
@pytest.mark.parametrize("value", ["7", 7, Decimal("7.0"), " 7 "])
def test_03_the_offers_id(key: str, value: object) -> None:
    entry = {key: value, "offerAmount": 5}
    listing = wire.one({"offers": [{**LISTING, "offer": {"0": entry}}]}, wire.OFFERS)
    assert listing.offers == (Offer(id=7, amount=Decimal(5)),)
    assert type(listing.offers[0].id) is int


class Test04Spellings:
    """Requests and replies, listings and offers spell one field in several ways."""

    @pytest.mark.parametrize("key", ["currencyId", "currencyIndex"])
    def test_currencies(self, key: str) -> None:
        listing = wire.one({"offers": [{**LISTING, "offer": {"offerId": 1, key: "2"}}]}, wire.OFFERS)
        assert listing.offers[0].currency == 2
        assert wire.one({"bids": [{**LISTING, "price": 5, key: 2}]}, wire.BIDS).currency == 2

    def test_both_currencies(self) -> None:
        entry = {"offerId": 1, "currencyId": None, "currencyIndex": 978}
        offer = wire.one({"offers": [{**LISTING, "offer": entry}]}, wire.OFFERS).offers[0]
        assert offer == Offer(id=1, currency=978)

    @pytest.mark.parametrize("carrier", ["carrier", "carrierId"])
    @pytest.mark.parametrize("keys", [("vessel", "departure", "arrival"), ("vesselName", "estDeparture", "estArrival")])
    def test_routes(self, carrier: str, keys: tuple[str, str, str]) -> None:
        vessel, departure, arrival = keys
        raw = {
            "index": 9,
            carrier: "3",
            vessel: "Ever Forward",
            departure: "2025-03-02 00:00:00",
            arrival: "2025-03-20 00:00:00",
            "timezone": "Asia/Hong_Kong",
        }
        route = wire.one({"routes": [raw]}, wire.ROUTES)
        assert (route.carrier, route.vessel) == (3, "Ever Forward")
        assert route.departure == datetime(2025, 3, 2, tzinfo=ZoneInfo("Asia/Hong_Kong"))
        assert route.arrival == datetime(2025, 3, 20)
        assert route.arrival is not None
        assert route.arrival.tzinfo is None
        assert route.extra == {}

    def test_listings_and_requests(self) -> None:
        listing = wire.one({"offers": [LISTING]}, wire.OFFERS)
        assert (listing.commodity, listing.packaging) == ("Widgets", Packaging.PALLET)
        assert (listing.width, listing.height, listing.length) == (Decimal(1), Decimal(2), Decimal(3))
        assert listing.volume == 60
        swapped = wire.one({"offers": [REQUEST]}, wire.OFFERS)
        assert (swapped.commodity, swapped.volume) == (READ.commodity, READ.volume)
        assert wire.one({"raterequests": [LISTING]}, wire.REQUESTS).volume == 60


class Test05Contacts:
    """On the record or inside `offer`."""

    CONTACT = Contact(name="Ada", email="ada@co.example")
    COMPANY = Company(name="Co", fax="1")

    @pytest.mark.parametrize(
        "raw",
        [
            pytest.param({**LISTING, **CONTACTS, "offer": ENTRY}, id="on the record"),
            pytest.param({**LISTING, "offer": {**ENTRY, "status": "selected", **CONTACTS}}, id="in the one entry"),
            pytest.param({**LISTING, "offer": {"0": ENTRY, **CONTACTS}}, id="beside the entries"),
            pytest.param({**LISTING, "offer": {**ENTRY, **CONTACTS}}, id="in the one pending entry"),
            pytest.param(
                {**LISTING, **CONTACTS, "offer": {"0": {**ENTRY, **CONTACTS}, **CONTACTS}}, id="in each of the places"
            ),
            pytest.param({**LISTING, "offer": {"0": {**ENTRY, **CONTACTS}}}, id="in the only entry"),
            pytest.param(
                {**LISTING, "offer": [{**ENTRY, "status": "Won", **CONTACTS}]}, id="in the only one of a list"
            ),
            pytest.param(
                {**LISTING, "offer": {"0": ENTRY, "1": {**ENTRY, "status": "selected", **CONTACTS}}},
                id="in the selected entry",
            ),
        ],
    )
    def test_found(self, raw: dict[str, Any]) -> None:
        for kind in WITH_OFFERS:
            record = wire.one({kind.collection: [raw]}, kind)
            assert (record.contact, record.company) == (self.CONTACT, self.COMPANY)
            assert record.extra == {}
            offers = record.offers if kind is wire.OFFERS else (record.offer,)
            assert [offer.extra for offer in offers if offer] == [{}] * len(offers)

    def test_of_entries_that_are_not_used(self) -> None:
        other = {"loadingPOC": {"name": "Eve"}, "rank": 2}
        entries = [{**ENTRY, **other}, {**ENTRY, "status": "selected", **CONTACTS, "rank": 1}]
        listing = wire.one({"offers": [{**LISTING, "offer": entries}]}, wire.OFFERS)
        assert listing.contact == self.CONTACT
        assert [offer.extra for offer in listing.offers] == [other, {"rank": 1}]
        assert listing.selected == listing.offers[1]
        pending = wire.one({"offers": [{**LISTING, "offer": [entries[0], ENTRY]}]}, wire.OFFERS)
        assert pending.contact is None
        assert pending.offers[0].extra == other

    def test_of_the_record_go_before_those_of_its_offer(self) -> None:
        raw = {**LISTING, **CONTACTS, "offer": {"0": {**ENTRY, "loadingPOC": {"name": "Eve"}}}}
        listing = wire.one({"offers": [raw]}, wire.OFFERS)
        assert listing.contact == self.CONTACT
        assert listing.offers[0].extra == {"loadingPOC": {"name": "Eve"}}
        beside = {**LISTING, **CONTACTS, "offer": {"0": ENTRY, "loadingPOC": {"name": "Eve"}}}
        assert wire.one({"offers": [beside]}, wire.OFFERS).extra == {"offer": {"loadingPOC": {"name": "Eve"}}}

    def test_of_an_entry_that_cannot_be_read(self) -> None:
        entry = {**ENTRY, "offerAmount": "much", **CONTACTS}
        listing, flaws = flawed(wire.OFFERS, {**LISTING, "offer": {"0": entry}})
        assert (listing.contact, listing.company, listing.offers) == (self.CONTACT, self.COMPANY, ())
        assert flaws == ["offers.3.offer.0.offerAmount"]

    def test_unreadable_in_an_offer(self) -> None:
        listing, flaws = flawed(wire.OFFERS, {**LISTING, "offer": {"0": {**ENTRY, "loadingPOC": {"name": []}}}})
        assert flaws == ["offers.3.offer.0.loadingPOC.name"]
        assert (listing.contact, listing.offers[0].id) == (None, 7)
        assert listing.offers[0].extra == {"loadingPOC": {"name": ()}}
        beside, flaws = flawed(wire.OFFERS, {**LISTING, "offer": {"0": ENTRY, "loadingPOC": "Ada"}})
        assert flaws == ["offers.3.offer.loadingPOC"]
        assert beside.extra == {"offer": {"loadingPOC": "Ada"}}

    @pytest.mark.parametrize("nothing", [None, {}, [], ""])
    def test_absent(self, nothing: object) -> None:
        raw = {**LISTING, "loadingPOC": nothing, "loadingCompany": nothing}
        bid = wire.one({"bids": [raw]}, wire.BIDS)
        assert bid.contact is None
        assert bid.company is None

    @pytest.mark.parametrize("kind", WITH_OFFERS)
    @pytest.mark.parametrize(
        ("key", "unread", "path"),
        [
            ("loadingPOC", "Bob", "loadingPOC"),
            ("loadingPOC", {"name": ()}, "loadingPOC.name"),
            ("loadingCompany", "Co", "loadingCompany"),
            ("loadingCompany", {"index": "abc", "name": "Co"}, "loadingCompany.index"),
        ],
    )
    def test_unreadable_on_the_record(self, kind: wire.Kind[Any], key: str, unread: Any, path: str) -> None:
        raw = json.loads(json.dumps({key: unread}))
        record, flaws = flawed(kind, {**LISTING, **raw, "new": 1})
        assert flaws == [f"{kind.collection}.3.{path}"]
        assert (record.contact, record.company, record.extra) == (None, None, {key: unread, "new": 1})

    def test_unreadable_on_the_record_and_readable_in_its_offer(self) -> None:
        raw = {**LISTING, "loadingPOC": "Bob", "offer": {**ENTRY, **CONTACTS}}
        for kind in WITH_OFFERS:
            record, flaws = flawed(kind, raw)
            assert flaws == [f"{kind.collection}.3.loadingPOC"]
            assert (record.contact, record.company) == (self.CONTACT, self.COMPANY)
            assert record.extra == {"loadingPOC": "Bob"}

    def test_unreadable_beside_an_unreadable_offer(self) -> None:
        raw = {**LISTING, "loadingPOC": "Bob", "offer": {"0": {**ENTRY, "offerAmount": "much"}}}
        listing, flaws = flawed(wire.OFFERS, raw)
        assert flaws == ["offers.3.offer.0.offerAmount", "offers.3.loadingPOC"]
        assert listing.extra == {"loadingPOC": "Bob", "offer": raw["offer"]}


class Test06Scalars:
    """Numbers as text, flags in any form, codes that stay text."""

    def test_numbers_as_text(self) -> None:
        texts = {key: str(value) for key, value in REQUEST.items()}
        assert request(**texts) == READ

    @pytest.mark.parametrize(("value", "read"), [("1.20", "1.20"), (" 2 ", "2"), (3, "3"), ("1e2", "1E+2")])
    def test_exact(self, value: object, read: str) -> None:
        assert str(request(weight=value).weight) == read

    @pytest.mark.parametrize("value", [10, "10", Decimal("10.0"), "10.00"])
    def test_quantities_are_whole(self, value: object) -> None:
        quantity = request(qty=value).quantity
        assert quantity == 10
        assert type(quantity) is int

    @pytest.mark.parametrize(
        ("value", "read"), [(0, False), (1, True), ("0", False), ("1", True), (True, True), (False, False)]
    )
    def test_hazardous(self, value: object, read: bool) -> None:
        assert request(hazardous=value).hazardous is read

    @pytest.mark.parametrize("value", ["Class 3", 2, -1, Decimal("0.5"), "2"])
    def test_hazardous_in_other_words(self, value: object) -> None:
        found = request(hazardous=value)
        assert found.hazardous is None
        assert found.extra == {"hazardous": value}

    @pytest.mark.parametrize("value", [Decimal("1.5"), "1.5", "5e-1"])
    def test_a_quantity_with_a_fraction(self, value: object) -> None:
        found = request(qty=value)
        assert (found.quantity, found.volume) == (None, None)
        assert found.extra == {"qty": value}

    @pytest.mark.parametrize("value", ["TRUE", "true", "True", True, 1, "1"])
    def test_enabled(self, value: object) -> None:
        assert wire.login({"user": {"access_token": "t", "enabled": value}}).user.enabled is True
        assert wire.login({"user": {"access_token": "t", "enabled": "FALSE"}}).user.enabled is False

    def test_codes_stay_text(self) -> None:
        company = wire.login({"user": {"access_token": "t", "company": {"postal": "01234", "otilicense": "007"}}}).user
        assert company.company == Company(postal="01234", oti_license="007")
        numeric = wire.login({"user": {"access_token": "t", "company": {"postal": 1234}}}).user
        assert numeric.company == Company(postal="1234")


class Test08Words:
    """Any case, and words that are not known."""

    @given(st.sampled_from(list(RequestType)), st.randoms())
    def test_any_case(self, member: RequestType, random: Any) -> None:
        text = "".join(random.choice((letter.upper(), letter.lower())) for letter in member.value)
        assert request(requesttype=text).type is member

    def test_unknown(self) -> None:
        found = request(status="Frozen", requesttype="Rail", packaging="Crate")
        assert (str(found.status), str(found.type), str(found.packaging)) == ("Frozen", "Rail", "Crate")
        assert isinstance(found.status, UnknownWord)
        assert found.status == "FROZEN"

    def test_nothing(self) -> None:
        assert request(status="", requesttype=None).status is None


class Test09Absent:
    """Unknown keys are kept; what is missing or null is `None`."""

    def test_unknown_keys_are_kept(self) -> None:
        found = request(priority=3, tags=["a", {"b": 1}])
        assert found.extra == {"priority": 3, "tags": ("a", {"b": 1})}
        assert found == request(tags=["a", {"b": 1}], priority=3)

    def test_missing_and_null(self) -> None:
        bare = RateRequest(index=4)
        assert wire.one({"raterequests": [{"index": 4}]}, wire.REQUESTS) == bare
        assert request(**dict.fromkeys(set(REQUEST) - {"index"})) == bare

    @given(st.sets(st.sampled_from(sorted(set(REQUEST) - {"index"}))))
    def test_any_field_may_be_missing(self, absent: set[str]) -> None:
        raw = {key: value for key, value in REQUEST.items() if key not in absent}
        nulled = {key: None if key in absent else value for key, value in REQUEST.items()}
        found = wire.rows({"raterequests": [raw, nulled, raw]}, wire.REQUESTS)
        assert not found.broken
        assert found.records[0] == found.records[1] == found.records[2]

    def test_pages_of_several_shapes(self) -> None:
        raws = [{key: value for key, value in REQUEST.items() if key != left} for left in REQUEST if left != "index"]
        found = wire.rows({"raterequests": [REQUEST, *raws, {**REQUEST, "new": 1}]}, wire.REQUESTS)
        assert not found.broken
        assert [record.index for record in found.records] == [4] * (len(raws) + 2)
        assert found.records[-1].extra == {"new": 1}


@pytest.mark.parametrize(
    "text",
    [
        "0000-00-00 00:00:00",
        "",
        "soon",
        "2025-13-01 00:00:00",
        "2025-03-01T00:00:00Z",
        "2025-03-01 00:00+05",
        0,
        1712011530000,
        "1712011530000",
        " 20250301 ",
        Decimal("20250301.5"),
        True,
    ],
)
def test_10_unreadable_dates_are_kept_as_text(text: object) -> None:
    found = request(needdate=text)
    assert found.need_date is None
    assert found.extra == {"needdate": text}
    route = wire.one({"routes": [{"index": 1, "departure": text, "timezone": "Asia/Hong_Kong"}]}, wire.ROUTES)
    assert route.departure is None
    assert route.extra == {"departure": text}


@pytest.mark.parametrize("text", ["2025-03-01 00:00:00", "2025-03-01T00:00:00", "2025-03-01", " 2025-03-01 00:00:00 "])
def test_10_readable_dates(text: str) -> None:
    assert request(needdate=text).need_date == datetime(2025, 3, 1)


def test_11_a_byte_order_mark() -> None:
    content = b"\xef\xbb\xbf" + json.dumps({"raterequests": {"0": REQUEST}}, default=float).encode()
    assert wire.one(wire.parse(content), wire.REQUESTS).index == 4


class Test12BrokenRecords:
    """One broken record does not lose the others."""

    @pytest.mark.parametrize(
        ("raw", "path"),
        [
            ({**REQUEST, "weight": "heavy"}, "raterequests.3.weight"),
            ({**REQUEST, "weight": True}, "raterequests.3.weight"),
            ({**REQUEST, "weight": {}}, "raterequests.3.weight"),
            ({**REQUEST, "weight": "1e99"}, "raterequests.3.weight"),
            ({**REQUEST, "weight": "Infinity"}, "raterequests.3.weight"),
            ({**REQUEST, "weight": 10**100}, "raterequests.3.weight"),
            ({**REQUEST, "qty": "many"}, "raterequests.3.qty"),
            ({**REQUEST, "qty": 2**70}, "raterequests.3.qty"),
            ({**REQUEST, "index": None}, "raterequests.3.index"),
            ({**REQUEST, "index": "four"}, "raterequests.3.index"),
            ({**REQUEST, "index": Decimal("4.5")}, "raterequests.3.index"),
            ({**REQUEST, "index": ""}, "raterequests.3.index"),
            ({**REQUEST, "hazardous": {}}, "raterequests.3.hazardous"),
            ({**REQUEST, "origin": ["Hong Kong"]}, "raterequests.3.origin"),
            ({**REQUEST, "status": {}}, "raterequests.3.status"),
            ({**REQUEST, "needdate": {"date": 1}}, "raterequests.3.needdate"),
            ({key: value for key, value in REQUEST.items() if key != "index"}, "raterequests.3.index"),
            ({}, "raterequests.3.index"),
            (None, "raterequests.3"),
            ([], "raterequests.3"),
            ("text", "raterequests.3"),
        ],
    )
    def test_the_others_survive(self, raw: object, path: str) -> None:
        raws = {"2": REQUEST, "3": raw, "4": {**REQUEST, "index": 5}}
        found = wire.rows({"raterequests": raws}, wire.REQUESTS)
        assert [record.index for record in found.records] == [4, 5]
        assert [error.path for error in found.broken] == [path]
        assert found.broken[0].raw == raw

    def test_one_broken_first(self) -> None:
        found = wire.rows({"raterequests": [3, REQUEST]}, wire.REQUESTS)
        assert found.records == (READ,)
        assert [error.path for error in found.broken] == ["raterequests.0"]

    def test_one_needs_exactly_one(self) -> None:
        with pytest.raises(DecodeError, match="0 records where one is due"):
            wire.one({"raterequests": {}}, wire.REQUESTS)
        with pytest.raises(DecodeError, match="2 records where one is due"):
            wire.one({"raterequests": [REQUEST, REQUEST]}, wire.REQUESTS)
        with pytest.raises(DecodeError) as caught:
            wire.one({"raterequests": [{**REQUEST, "weight": "heavy"}]}, wire.REQUESTS)
        assert caught.value.path == "raterequests.0.weight"

    @pytest.mark.parametrize("kind", [wire.REQUESTS, wire.OFFERS, wire.BIDS, wire.ROUTES, wire.CARRIERS])
    @pytest.mark.parametrize("index", [4, "4"])
    def test_one_that_stands_where_its_collection_is_due(self, kind: wire.Kind[Any], index: object) -> None:
        raw = {"index": index, "new": {"a": 1}}
        record = wire.one({kind.collection: raw}, kind)
        assert record == wire.one({kind.collection: {"0": raw}}, kind)
        assert wire.rows({kind.collection: raw}, kind).records == (record,)

    def test_one_that_stands_so_and_is_broken(self) -> None:
        found = wire.rows({"offers": {"index": 4, "weight": "heavy"}}, wire.OFFERS)
        assert [error.path for error in found.broken] == ["offers.weight"]
        found = wire.rows({"offers": {"index": 4, "offer": {"0": {"offerAmount": "much"}}}}, wire.OFFERS)
        assert [error.path for error in found.flaws] == ["offers.offer.0.offerAmount"]

    @pytest.mark.parametrize("place", ["0", "3"])
    def test_a_collection_with_an_index_beside_is_a_collection(self, place: str) -> None:
        found = wire.rows({"raterequests": {place: REQUEST, "index": 9}}, wire.REQUESTS)
        assert found.records == (READ,)
        assert [error.path for error in found.broken] == ["raterequests.index"]

    @pytest.mark.parametrize("index", [None, {}, [4]])
    def test_an_index_that_is_none_makes_no_record(self, index: object) -> None:
        with pytest.raises(DecodeError) as caught:
            wire.rows({"raterequests": {"index": index}}, wire.REQUESTS)
        assert caught.value.path == "raterequests"

    def test_what_may_be_a_secret_is_not_kept(self) -> None:
        with pytest.raises(DecodeError) as caught:
            wire.rows({"user": {"access_token": "canary", "email": "a"}}, wire.REQUESTS)
        assert caught.value.raw == {"user": {"access_token": "***", "email": "a"}}


class TestBids:
    """Bids as submissions return them and as listings do."""

    SUBMITTED = {
        **LISTING,
        "refId": "RQ-4",
        "offer": {
            "index": 7,
            "offerAmount": "1840.50",
            "currencyIndex": 840,
            "status": "pending",
            "terms": "valid 14 days",
            "rates": {"Ocean Freight": 1700, "Chassis Fee": Decimal("140.50")},
        },
    }

    def test_submitted(self) -> None:
        bid = wire.bid({"bid": self.SUBMITTED})
        assert (bid.index, bid.amount, bid.currency) == (4, Decimal("1840.50"), 840)
        assert bid.offer is not None
        assert (bid.offer.id, bid.offer.terms) == (7, "valid 14 days")
        assert bid.offer.difference == 0
        assert bid.offer.status is OfferStatus.PENDING
        assert wire.bid({"bid": {"0": self.SUBMITTED}}) == wire.bid({"bid": [self.SUBMITTED]}) == bid

    def test_listed(self) -> None:
        raw = {**LISTING, "status": "Selected", "price": "1840.50", "currencyIndex": 840, **CONTACTS}
        bid = wire.one({"bids": {"0": raw}}, wire.BIDS)
        assert (bid.index, bid.amount, bid.currency, bid.offer) == (4, Decimal("1840.50"), 840, None)
        assert bid.status is BidStatus.SELECTED
        assert bid.contact == Contact(name="Ada", email="ada@co.example")

    def test_several_offers_are_not_guessed_from(self) -> None:
        bid = wire.one({"bids": [{**LISTING, "offer": [ENTRY, ENTRY]}]}, wire.BIDS)
        assert bid.offer is None
        assert len(bid.extra["offer"]) == 2  # type: ignore[arg-type]  # a list came

    @pytest.mark.parametrize(
        "data", [None, [], {}, {"bid": None}, {"bid": []}, {"bid": 3}, {"bids": {}}, {"message": "x"}]
    )
    def test_none(self, data: object) -> None:
        with pytest.raises(DecodeError):
            wire.bid(data)

    def test_broken(self) -> None:
        for reply in ({**self.SUBMITTED, "weight": "heavy"}, {"0": {**self.SUBMITTED, "weight": "heavy"}}):
            with pytest.raises(DecodeError, match="weight") as caught:
                wire.bid({"bid": reply})
            assert caught.value.path.removeprefix("bid.").removeprefix("0.") == "weight"

    @pytest.mark.parametrize(
        "beside",
        [
            {"error": "closed for offers"},
            {"success": False},
            {"error": "No bid found"},
            {"success": 0},
            {"status": "error"},
        ],
    )
    def test_an_error_beside_the_bid_is_no_bid(self, beside: dict[str, object]) -> None:
        with pytest.raises(DecodeError, match="an error where 'bid' is due"):
            wire.bid({**beside, "bid": self.SUBMITTED})

    def test_an_offer_that_cannot_be_read_does_not_fail_the_submission(self) -> None:
        offer = {"index": 7, "offerAmount": "much"}
        bid = wire.bid({"bid": {**self.SUBMITTED, "offer": offer}})
        assert (bid.index, bid.offer, bid.amount) == (4, None, None)
        assert bid.extra == {"offer": offer}

    def test_one_of_two_that_cannot_be_read_leaves_no_guess(self) -> None:
        raw = {**LISTING, "offer": [ENTRY, {**ENTRY, "offerAmount": "much"}]}
        bid, flaws = flawed(wire.BIDS, raw)
        assert bid.offer is None
        assert len(bid.extra["offer"]) == 2
        assert flaws == ["bids.3.offer.1.offerAmount"]


class TestRoutes:
    """A route's zone applies to its cut-offs and its departure."""

    RAW = {
        "index": 9,
        "cycutoff": "2025-11-02 01:30:00",
        "cfscutoff": "2025-03-09 02:30:00",
        "estDeparture": "2025-03-02 00:00:00",
        "estArrival": "2025-03-20 00:00:00",
    }

    def test_aware_in_the_zone(self) -> None:
        route = wire.one({"routes": [{**self.RAW, "timezone": "America/New_York"}]}, wire.ROUTES)
        zone = ZoneInfo("America/New_York")
        assert route.cy_cutoff is not None
        assert route.cfs_cutoff is not None
        assert route.cy_cutoff.tzinfo is route.cfs_cutoff.tzinfo is zone
        assert route.cy_cutoff.fold == 0
        assert route.arrival == datetime(2025, 3, 20)

    @pytest.mark.parametrize("name", ["Mars/Olympus", "", None, "Asia", "../etc"])
    def test_naive_without_a_known_zone(self, name: object) -> None:
        route = wire.one({"routes": [{**self.RAW, "timezone": name}]}, wire.ROUTES)
        assert route.timezone == name
        assert route.departure == datetime(2025, 3, 2)
        assert route.departure is not None
        assert route.departure.tzinfo is None

    @pytest.mark.parametrize(
        "data",
        [
            {"routes": {"0": {**RAW}}},
            {"routes": [{**RAW}]},
            {"routes": {**RAW}},
            {"route": {**RAW}},
            {**RAW},
        ],
    )
    def test_the_reply_to_a_write(self, data: object) -> None:
        route = wire.written_route(data)
        assert route is not None
        assert route.index == 9

    @pytest.mark.parametrize(
        "data", [None, {}, [], {"message": "ok"}, {"routes": {}}, {"index": "x"}, {"error": False}, {"Errors": []}]
    )
    def test_a_reply_to_a_write_that_shows_none(self, data: object) -> None:
        assert wire.written_route(data) is None

    @pytest.mark.parametrize("key", ["error", "errors", "Error", "ERRORS"])
    @pytest.mark.parametrize("nothing", [False, None, [], {}, "", 0])
    def test_an_envelope_of_success(self, key: str, nothing: object) -> None:
        route = wire.written_route({key: nothing, "routes": {"0": self.RAW}})
        assert route is not None
        assert route.index == 9

    @pytest.mark.parametrize(
        "data",
        [
            "ok",
            1,
            [1, 2],
            [{**RAW}],
            {"error": "x"},
            {"error": "Carrier not found"},
            {"error": "No such carrier exists"},
            {"error": "Record not found"},
            {"success": False, "message": "Carrier not found"},
            {"success": "0", "message": "Carrier not found"},
            {"status": "error", "message": "Carrier not found"},
            {"statusCode": 422, "message": "Carrier not found"},
            {"Errors": ["x"]},
            {"error": True, "routes": {"0": RAW}},
            {"error": 1},
            {"errors": {"vessel": "x"}},
            {"error": None, "errors": ["x"]},
            {"Unauthorized": "x"},
        ],
    )
    def test_a_reply_to_a_write_that_is_no_answer(self, data: object) -> None:
        with pytest.raises(DecodeError):
            wire.written_route(data)


def test_reference_lists() -> None:
    assert wire.one({"carriers": {"0": {"index": "3", "name": "Line"}}}, wire.CARRIERS).index == 3
    assert wire.one({"currencies": {"0": {"index": 1, "name": "Dollar", "code": "USD"}}}, wire.CURRENCIES).code == "USD"


def test_of_two_spellings_at_once_the_usual_one_wins_unless_it_is_null() -> None:
    both = {**REQUEST, "cargoname": "Gadgets"}
    assert wire.rows({"raterequests": [both]}, wire.REQUESTS).records[0].commodity == "Widgets"
    unsaid = wire.rows({"raterequests": [{**both, "commodityname": None}]}, wire.REQUESTS)
    assert unsaid.records[0].commodity == "Gadgets"
