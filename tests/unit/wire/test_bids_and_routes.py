"""Tests of bids and routes in listings and in replies to writes."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from tests.unit.wire.raw_records import (
    CONTACTS,
    ENTRY,
    LISTING,
    flawed,
)

from freight_exchange import wire
from freight_exchange.errors import DecodeError
from freight_exchange.models import (
    BidStatus,
    Contact,
    OfferStatus,
)


class TestBids:
    """Submissions and listings return bids in different forms."""

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

    def test_submitted_bid_is_read_with_its_offer(self) -> None:
        bid = wire.decode_bid({"bid": self.SUBMITTED})
        assert (bid.index, bid.amount, bid.currency) == (4, Decimal("1840.50"), 840)
        assert bid.offer is not None
        assert (bid.offer.id, bid.offer.terms) == (7, "valid 14 days")
        assert bid.offer.difference == 0
        assert bid.offer.status is OfferStatus.PENDING
        assert wire.decode_bid({"bid": {"0": self.SUBMITTED}}) == wire.decode_bid({"bid": [self.SUBMITTED]}) == bid

    def test_listed_bid_is_read_with_its_contact(self) -> None:
        raw = {**LISTING, "status": "Selected", "price": "1840.50", "currencyIndex": 840, **CONTACTS}
        bid = wire.decode_one({"bids": {"0": raw}}, wire.BIDS)
        assert (bid.index, bid.amount, bid.currency, bid.offer) == (4, Decimal("1840.50"), 840, None)
        assert bid.status is BidStatus.SELECTED
        assert bid.contact == Contact(name="Ada", email="ada@co.example")

    def test_several_offers_are_not_guessed_from(self) -> None:
        bid = wire.decode_one({"bids": [{**LISTING, "offer": [ENTRY, ENTRY]}]}, wire.BIDS)
        assert bid.offer is None
        assert len(bid.extra["offer"]) == 2  # type: ignore[arg-type]  # a list came

    @pytest.mark.parametrize(
        "data", [None, [], {}, {"bid": None}, {"bid": []}, {"bid": 3}, {"bids": {}}, {"message": "x"}]
    )
    def test_reply_without_a_bid_raises(self, data: object) -> None:
        with pytest.raises(DecodeError):
            wire.decode_bid(data)

    def test_unreadable_bid_raises_with_the_path(self) -> None:
        for reply in ({**self.SUBMITTED, "weight": "heavy"}, {"0": {**self.SUBMITTED, "weight": "heavy"}}):
            with pytest.raises(DecodeError, match="weight") as caught:
                wire.decode_bid({"bid": reply})
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
        with pytest.raises(DecodeError, match="an error where 'bid' is expected"):
            wire.decode_bid({**beside, "bid": self.SUBMITTED})

    def test_an_offer_that_cannot_be_read_does_not_fail_the_submission(self) -> None:
        offer = {"index": 7, "offerAmount": "much"}
        bid = wire.decode_bid({"bid": {**self.SUBMITTED, "offer": offer}})
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
        route = wire.decode_one({"routes": [{**self.RAW, "timezone": "America/New_York"}]}, wire.ROUTES)
        zone = ZoneInfo("America/New_York")
        assert route.cy_cutoff is not None
        assert route.cfs_cutoff is not None
        assert route.cy_cutoff.tzinfo is route.cfs_cutoff.tzinfo is zone
        assert route.cy_cutoff.fold == 0
        assert route.arrival == datetime(2025, 3, 20)

    @pytest.mark.parametrize("name", ["Mars/Olympus", "", None, "Asia", "../etc"])
    def test_naive_without_a_known_zone(self, name: object) -> None:
        route = wire.decode_one({"routes": [{**self.RAW, "timezone": name}]}, wire.ROUTES)
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
        route = wire.decode_written_route(data)
        assert route is not None
        assert route.index == 9

    @pytest.mark.parametrize(
        "data", [None, {}, [], {"message": "ok"}, {"routes": {}}, {"index": "x"}, {"error": False}, {"Errors": []}]
    )
    def test_a_reply_to_a_write_that_shows_none(self, data: object) -> None:
        assert wire.decode_written_route(data) is None

    @pytest.mark.parametrize("key", ["error", "errors", "Error", "ERRORS"])
    @pytest.mark.parametrize("nothing", [False, None, [], {}, "", 0])
    def test_an_envelope_of_success(self, key: str, nothing: object) -> None:
        route = wire.decode_written_route({key: nothing, "routes": {"0": self.RAW}})
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
            wire.decode_written_route(data)
