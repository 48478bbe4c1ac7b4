"""Tests of the fields of a record: their spellings, types and words, and absent ones."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.wire.raw_records import (
    LISTING,
    READ,
    REQUEST,
    request,
)

from freight_exchange import wire
from freight_exchange.models import (
    Company,
    Offer,
    Packaging,
    RateRequest,
    RequestType,
    UnknownWord,
)


class TestSpellings:
    """Requests and replies, listings and offers spell one field in several ways."""

    @pytest.mark.parametrize("key", ["currencyId", "currencyIndex"])
    def test_currency_is_read_from_each_key(self, key: str) -> None:
        listing = wire.decode_one({"offers": [{**LISTING, "offer": {"offerId": 1, key: "2"}}]}, wire.OFFERS)
        assert listing.offers[0].currency == 2
        assert wire.decode_one({"bids": [{**LISTING, "price": 5, key: 2}]}, wire.BIDS).currency == 2

    def test_second_key_of_a_currency_counts_if_the_first_is_null(self) -> None:
        entry = {"offerId": 1, "currencyId": None, "currencyIndex": 978}
        offer = wire.decode_one({"offers": [{**LISTING, "offer": entry}]}, wire.OFFERS).offers[0]
        assert offer == Offer(id=1, currency=978)

    @pytest.mark.parametrize("carrier", ["carrier", "carrierId"])
    @pytest.mark.parametrize("keys", [("vessel", "departure", "arrival"), ("vesselName", "estDeparture", "estArrival")])
    def test_route_is_read_in_each_spelling(self, carrier: str, keys: tuple[str, str, str]) -> None:
        vessel, departure, arrival = keys
        raw = {
            "index": 9,
            carrier: "3",
            vessel: "Ever Forward",
            departure: "2025-03-02 00:00:00",
            arrival: "2025-03-20 00:00:00",
            "timezone": "Asia/Hong_Kong",
        }
        route = wire.decode_one({"routes": [raw]}, wire.ROUTES)
        assert (route.carrier, route.vessel) == (3, "Ever Forward")
        assert route.departure == datetime(2025, 3, 2, tzinfo=ZoneInfo("Asia/Hong_Kong"))
        assert route.arrival == datetime(2025, 3, 20)
        assert route.arrival is not None
        assert route.arrival.tzinfo is None
        assert route.extra == {}

    def test_listings_and_requests_may_swap_their_spellings(self) -> None:
        listing = wire.decode_one({"offers": [LISTING]}, wire.OFFERS)
        assert (listing.commodity, listing.packaging) == ("Widgets", Packaging.PALLET)
        assert (listing.width, listing.height, listing.length) == (Decimal(1), Decimal(2), Decimal(3))
        assert listing.volume == 60
        swapped = wire.decode_one({"offers": [REQUEST]}, wire.OFFERS)
        assert (swapped.commodity, swapped.volume) == (READ.commodity, READ.volume)
        assert wire.decode_one({"raterequests": [LISTING]}, wire.REQUESTS).volume == 60


class TestScalars:
    """Numbers may be text, flags have several forms, and codes stay text."""

    def test_numbers_as_text(self) -> None:
        texts = {key: str(value) for key, value in REQUEST.items()}
        assert request(**texts) == READ

    @pytest.mark.parametrize(("value", "read"), [("1.20", "1.20"), (" 2 ", "2"), (3, "3"), ("1e2", "1E+2")])
    def test_numbers_are_exact(self, value: object, read: str) -> None:
        assert str(request(weight=value).weight) == read

    @pytest.mark.parametrize("value", [10, "10", Decimal("10.0"), "10.00"])
    def test_quantities_are_whole(self, value: object) -> None:
        quantity = request(qty=value).quantity
        assert quantity == 10
        assert type(quantity) is int

    @pytest.mark.parametrize(
        ("value", "read"), [(0, False), (1, True), ("0", False), ("1", True), (True, True), (False, False)]
    )
    def test_hazardous_is_read_from_numbers_and_booleans(self, value: object, read: bool) -> None:
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
    def test_enabled_is_read_from_booleans_and_words(self, value: object) -> None:
        assert wire.decode_login({"user": {"access_token": "t", "enabled": value}}).user.enabled is True
        assert wire.decode_login({"user": {"access_token": "t", "enabled": "FALSE"}}).user.enabled is False

    def test_codes_stay_text(self) -> None:
        company = wire.decode_login(
            {"user": {"access_token": "t", "company": {"postal": "01234", "otilicense": "007"}}}
        ).user
        assert company.company == Company(postal="01234", oti_license="007")
        numeric = wire.decode_login({"user": {"access_token": "t", "company": {"postal": 1234}}}).user
        assert numeric.company == Company(postal="1234")


class TestWords:
    """Words have any case, and may be unknown."""

    @given(st.sampled_from(list(RequestType)), st.randoms())
    def test_word_is_read_in_any_case(self, member: RequestType, random: Any) -> None:
        text = "".join(random.choice((letter.upper(), letter.lower())) for letter in member.value)
        assert request(requesttype=text).type is member

    def test_unknown_word_is_kept_as_written(self) -> None:
        found = request(status="Frozen", requesttype="Rail", packaging="Crate")
        assert (str(found.status), str(found.type), str(found.packaging)) == ("Frozen", "Rail", "Crate")
        assert isinstance(found.status, UnknownWord)
        assert found.status == "FROZEN"

    def test_empty_word_is_none(self) -> None:
        assert request(status="", requesttype=None).status is None


class TestAbsentFields:
    """Unknown keys are kept; a missing or null field is `None`."""

    def test_unknown_keys_are_kept(self) -> None:
        found = request(priority=3, tags=["a", {"b": 1}])
        assert found.extra == {"priority": 3, "tags": ("a", {"b": 1})}
        assert found == request(tags=["a", {"b": 1}], priority=3)

    def test_missing_or_null_field_is_none(self) -> None:
        bare = RateRequest(index=4)
        assert wire.decode_one({"raterequests": [{"index": 4}]}, wire.REQUESTS) == bare
        assert request(**dict.fromkeys(set(REQUEST) - {"index"})) == bare

    @given(st.sets(st.sampled_from(sorted(set(REQUEST) - {"index"}))))
    def test_any_field_may_be_missing(self, absent: set[str]) -> None:
        raw = {key: value for key, value in REQUEST.items() if key not in absent}
        nulled = {key: None if key in absent else value for key, value in REQUEST.items()}
        found = wire.decode_rows({"raterequests": [raw, nulled, raw]}, wire.REQUESTS)
        assert not found.broken
        assert found.records[0] == found.records[1] == found.records[2]

    def test_pages_of_several_shapes(self) -> None:
        raws = [{key: value for key, value in REQUEST.items() if key != left} for left in REQUEST if left != "index"]
        found = wire.decode_rows({"raterequests": [REQUEST, *raws, {**REQUEST, "new": 1}]}, wire.REQUESTS)
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
def test_unreadable_dates_are_kept_as_text(text: object) -> None:
    found = request(needdate=text)
    assert found.need_date is None
    assert found.extra == {"needdate": text}
    route = wire.decode_one({"routes": [{"index": 1, "departure": text, "timezone": "Asia/Hong_Kong"}]}, wire.ROUTES)
    assert route.departure is None
    assert route.extra == {"departure": text}


@pytest.mark.parametrize("text", ["2025-03-01 00:00:00", "2025-03-01T00:00:00", "2025-03-01", " 2025-03-01 00:00:00 "])
def test_date_is_read_in_each_documented_form(text: str) -> None:
    assert request(needdate=text).need_date == datetime(2025, 3, 1)


def test_usual_spelling_of_a_field_wins_unless_its_value_is_null() -> None:
    both = {**REQUEST, "cargoname": "Gadgets"}
    assert wire.decode_rows({"raterequests": [both]}, wire.REQUESTS).records[0].commodity == "Widgets"
    missing = wire.decode_rows({"raterequests": [{**both, "commodityname": None}]}, wire.REQUESTS)
    assert missing.records[0].commodity == "Gadgets"
