"""Tests of decoding: what a client returns for a given reply.

One rule covers every value: an unreadable one goes to `extra` and is reported, and its field is `None`. A record
without a readable identifier is unreadable as a whole; it is reported, and the others are returned. An object without
the collection is never an empty list.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Awaitable, Callable
from datetime import datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.one_call import LOGIN, answering

from freight_exchange import (
    Bid,
    BidStatus,
    Carrier,
    Company,
    Contact,
    Currency,
    DecodeError,
    FreightExchange,
    FreightExchangeError,
    Listing,
    Offer,
    OfferStatus,
    OutcomeUnknownError,
    Packaging,
    Paginator,
    RateRequest,
    RequestStatus,
    RequestType,
    Route,
    UnknownWord,
    User,
    from_json,
    to_json,
)

Call = Callable[[FreightExchange], Awaitable[Any]]

REQUEST: dict[str, Any] = {
    "index": 4, "commodityname": "Widgets", "refId": "RQ-4", "requesttype": "Air Freight", "status": "Available",
    "origin": "Hong Kong", "destination": "Los Angeles", "needdate": "2025-03-01 00:00:00", "notes": "10 pallets",
    "qty": 10, "packaging": "Pallet", "measureUnit": "m", "width": Decimal("1.20"), "height": 1,
    "length": Decimal("0.8"), "massUnit": "kg", "weight": Decimal("450.5"), "incoterm": "FOB", "hazardous": 1,
}  # fmt: skip
READ = RateRequest(
    index=4, commodity="Widgets", ref_id="RQ-4", type=RequestType.AIR_FREIGHT, status=RequestStatus.AVAILABLE,
    origin="Hong Kong", destination="Los Angeles", need_date=datetime(2025, 3, 1), notes="10 pallets", quantity=10,
    packaging=Packaging.PALLET, measure_unit="m", width=Decimal("1.20"), height=Decimal(1), length=Decimal("0.8"),
    mass_unit="kg", weight=Decimal("450.5"), incoterm="FOB", hazardous=True,
)  # fmt: skip
LISTED: dict[str, Any] = {"index": 4, "cargoname": "Widgets", "status": "Available", "qty": 10, "packingtype": "Pallet"}
ENTRY: dict[str, Any] = {"offerId": "7", "offerAmount": Decimal("1840.50"), "currencyId": 840, "status": "pending"}
OFFER = Offer(id=7, amount=Decimal("1840.50"), currency=840, status=OfferStatus.PENDING)
POC, CO = {"name": "Ada", "email": "ada@co.example"}, {"name": "Co", "fax": "1", "postal": "01234"}
CONTACTS = {"loadingPOC": POC, "loadingCompany": CO}
CONTACT, COMPANY = Contact(name="Ada", email="ada@co.example"), Company(name="Co", fax="1", postal="01234")

LISTS: dict[str, Callable[[FreightExchange], Paginator[Any]]] = {
    "raterequests": lambda fx: fx.requests.search(),
    "offers": lambda fx: fx.offers.list(),
    "bids": lambda fx: fx.bids.list(),
    "routes": lambda fx: fx.routes.list(),
    "carriers": lambda fx: fx.carriers.list(),
    "currencies": lambda fx: fx.currencies.list(),
}
"""Listings by the name of their collection; the first page of each is one request."""
NOTHING: list[Any] = [None, {}, [], ""]
WITH_OFFERS = ("offers", "bids")


def written(value: Any) -> bytes:
    """Write JSON; a `Decimal` keeps its digits."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, dict):
        return b"{%s}" % b",".join(json.dumps(key).encode() + b":" + written(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return b"[%s]" % b",".join(map(written, value))
    return str(value).encode() if isinstance(value, Decimal) else json.dumps(value).encode()


async def read(call: Call | str, body: object, **options: Any) -> tuple[Any, list[str]]:
    """Return what a call returns for a reply, and the places of the unreadable parts that it reports."""
    async with answering(written(body), **options) as service:
        if isinstance(call, str):
            return [*await LISTS[call](service.exchange)], service.reports
        return await call(service.exchange), service.reports


async def listed(collection: str, *rows: object) -> tuple[list[Any], list[str]]:
    return await read(collection, {collection: {str(place): row for place, row in enumerate(rows, 3)}})


async def only(collection: str, row: object) -> Any:
    (record,), reports = await listed(collection, row)
    assert reports == []
    return record


# Collections


def row(index: int) -> dict[str, Any]:
    return {"index": index, "origin": "Oslo"}


TEN, TWO, ONE = row(10), row(2), row(1)


@pytest.mark.parametrize(
    ("held", "indexes"),
    [
        ({}, []), ([], []), (None, []),
        ([TEN, TWO], [10, 2]),
        ({"0": TEN, "1": TWO}, [10, 2]),
        # By the number of the key: gaps and any order are tolerated.
        *[(dict(order), [2, 10, 1]) for order in itertools.permutations([("2", TWO), ("9", TEN), ("10", ONE)])],
        ({"0": TEN, "total": 1, "9" * 5000: 2}, [10]),
        ({"0": TEN, "index": 9}, [10]),
    ],
)  # fmt: skip
async def test_collection_is_read_in_each_form(held: object, indexes: list[int]) -> None:
    found, _ = await read("raterequests", {"raterequests": held})
    assert [record.index for record in found] == indexes


@pytest.mark.parametrize("collection", LISTS)
@pytest.mark.parametrize("body", [{}, [], None])
async def test_empty_reply_is_an_empty_listing(collection: str, body: object) -> None:
    assert await read(collection, body) == ([], [])


@pytest.mark.parametrize("collection", LISTS)
@pytest.mark.parametrize(
    "body",
    [
        {"message": "maintenance"},
        {"records": {}},
        [1, 2],
        [REQUEST],
        "text",
        0,
        False,
        "",
        b"<html></html>",
        b"{",
        b"x",
    ],
)
async def test_reply_without_its_collection_is_never_an_empty_listing(collection: str, body: object) -> None:
    with pytest.raises(DecodeError) as caught:
        await read(collection, body)
    assert caught.value.path == "$"
    assert (caught.value.status, caught.value.attempts) == (200, 2)


@pytest.mark.parametrize("held", ["none", 3, True, {"message": "maintenance"}, {"index": None}, {"index": {}}])
async def test_collection_of_another_kind_is_never_an_empty_one(held: object) -> None:
    with pytest.raises(DecodeError) as caught:
        await read("raterequests", {"raterequests": held})
    assert caught.value.path == "raterequests"


@pytest.mark.parametrize("empty", [{}, [], None])
@pytest.mark.parametrize(
    ("key", "value"), [("error", "the database is away"), ("Errors", [{"code": 7}]), ("error", True)]
)
async def test_error_beside_an_empty_collection_is_no_empty_listing(empty: object, key: str, value: object) -> None:
    """A watcher that took it for one would go deaf."""
    with pytest.raises(DecodeError, match="error"):
        await read("raterequests", {"raterequests": empty, key: value})


@pytest.mark.parametrize("value", [None, False, "", [], {}, 0, "No records found.", "No rate requests found"])
async def test_empty_error_or_one_of_no_records_beside_an_empty_collection_is_an_empty_listing(value: object) -> None:
    assert await read("raterequests", {"raterequests": [], "error": value}) == ([], [])


@pytest.mark.parametrize(
    "beside",
    [
        {"success": True}, {"message": "failed over"}, {"error": False}, {"error": None}, {"status": "ok"},
        {"error": "query timed out"}, {"errors": ["query timed out"]},
    ],
)  # fmt: skip
@pytest.mark.parametrize("strict", [False, True])
async def test_other_keys_beside_rows_are_ignored(beside: dict[str, object], strict: bool) -> None:
    found, reports = await read("raterequests", {"raterequests": [ONE], **beside}, strict=strict)
    assert ([request.index for request in found], reports) == ([1], [])


# Fields


async def test_documented_record_is_read_exactly() -> None:
    found = await only("raterequests", REQUEST)
    assert repr(found) == repr(READ)
    assert found.volume == Decimal("9.600")
    assert str(found.width) == "1.20"


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        # Numbers as text
        ({key: str(value) for key, value in REQUEST.items()}, {}),
        ({"weight": "1.20"}, {"weight": Decimal("1.20")}),
        ({"weight": " 2 "}, {"weight": Decimal(2)}),
        ({"weight": 3}, {"weight": Decimal(3)}),
        ({"weight": "1e2"}, {"weight": Decimal("1E+2")}),
        ({"weight": b"12345678901234567890.10"}, {"weight": Decimal("12345678901234567890.10")}),
        ({"weight": ""}, {"weight": None}),
        *[({"qty": value}, {"quantity": 10}) for value in ("10", Decimal("10.0"), "10.00", b"1e1")],
        *[({"hazardous": value}, {"hazardous": True}) for value in (1, "1", True)],
        *[({"hazardous": value}, {"hazardous": False}) for value in (0, "0", False)],
        # Words in any case, and new ones
        ({"requesttype": "AIR FREIGHT", "status": "available", "packaging": "PALLET"}, {}),
        ({"requesttype": "Rail"}, {"type": UnknownWord("Rail")}),
        ({"status": "Frozen"}, {"status": UnknownWord("Frozen")}),
        ({"packaging": "Crate"}, {"packaging": UnknownWord("Crate")}),
        ({"status": ""}, {"status": None}),
        # Other spellings: the usual one wins unless it is null
        ({"commodityname": None, "cargoname": "Gadgets"}, {"commodity": "Gadgets"}),
        ({"cargoname": "Gadgets"}, {}),
        ({"width": None, "cargowidth": 3}, {"width": Decimal(3)}),
        # Dates
        *[({"needdate": text}, {}) for text in ("2025-03-01T00:00:00", "2025-03-01", " 2025-03-01 00:00:00 ")],
        # Unknown and missing fields
        ({"priority": 3, "tags": ["a", {"b": 1}]}, {"extra": {"priority": 3, "tags": ("a", {"b": 1})}}),
        ({"refId": None}, {"ref_id": None}),
        ({"origin": 5}, {"origin": "5"}),
    ],
)  # fmt: skip
async def test_field_is_read_in_each_form(changes: dict[str, Any], fields: dict[str, Any]) -> None:
    found = await only("raterequests", {**REQUEST, **changes})
    expected = attrs.evolve(READ, **fields)
    assert found == expected
    # Words are equal in any case, and Decimals in any form: the text shows the difference.
    assert repr(found) == repr(expected)
    assert type(found.quantity) is int


@given(st.sets(st.sampled_from(sorted(set(REQUEST) - {"index"}))))
@settings(max_examples=20)
async def test_any_field_may_be_missing_or_null(absent: set[str]) -> None:
    without = {key: value for key, value in REQUEST.items() if key not in absent}
    nulled = {key: None if key in absent else value for key, value in REQUEST.items()}
    (one, two, three), reports = await listed("raterequests", without, {**nulled, "index": 5}, {**without, "index": 6})
    assert reports == []
    assert attrs.evolve(two, index=4) == attrs.evolve(three, index=4) == one


@pytest.mark.parametrize(
    ("collection", "raw", "record"),
    [
        ("carriers", {"index": "3", "name": "Line", "code": "L"}, Carrier(index=3, name="Line", extra={"code": "L"})),
        ("currencies", {"index": 1, "name": "Dollar", "code": "USD"}, Currency(index=1, name="Dollar", code="USD")),
        ("raterequests", {"index": 4}, RateRequest(index=4)),
        ("offers", {"index": 4}, Listing(index=4)),
        *[("bids", {"index": 4, "price": "5", key: "2"}, Bid(index=4, amount=Decimal(5), currency=2))
          for key in ("currencyIndex", "currencyId")],
        # Listings may use the spellings of requests, and requests those of listings.
        ("offers", {"index": 4, "commodityname": "Tea", "packaging": "carton", "width": 1},
         Listing(index=4, commodity="Tea", packaging=Packaging.CARTON, width=Decimal(1))),
        ("raterequests", {"index": 4, "cargoname": "Tea", "packingtype": "Carton", "cargolength": 2, "cargoheight": 3},
         RateRequest(index=4, commodity="Tea", packaging=Packaging.CARTON, length=Decimal(2), height=Decimal(3))),
    ],
)  # fmt: skip
async def test_record_of_each_kind_is_read(collection: str, raw: object, record: object) -> None:
    assert await only(collection, raw) == record


# Unreadable values, and unreadable records

LONG = b"0." + b"1" * 5000


@pytest.mark.parametrize(
    ("key", "value", "field", "is_reported"),
    [
        *[("weight", value, "weight", True)
          for value in ("heavy", True, {"kg": 1}, "1e99", "Infinity", "NaN", 10**100, b"NaN", b"1e999", LONG)],
        *[("qty", value, "quantity", True) for value in ("many", 2**70, [1])],
        *[(key, value, field, True) for key, value, field in (
            ("hazardous", {}, "hazardous"), ("origin", ["Hong Kong"], "origin"), ("status", {"word": 1}, "status"),
            ("notes", {"a": 1}, "notes"))],
        *[("hazardous", value, "hazardous", True) for value in ("Class 3", 2, Decimal("0.5"), "2")],
        *[("qty", value, "quantity", True) for value in (Decimal("1.5"), "1.5", "5e-1")],
        # Not reported: some services send such a date in every row, which would block strict readings.
        *[("needdate", value, "need_date", False) for value in (
            "0000-00-00 00:00:00", "", "soon", "2025-13-01 00:00:00", "2025-03-01T00:00:00Z", "2025-03-01 00:00+05",
            0, 1712011530000, "1712011530000", " 20250301 ", Decimal("20250301.5"), True, {"date": 1})],
    ],
)  # fmt: skip
async def test_unreadable_value_is_kept_in_extra_and_hides_no_record(
    key: str, value: Any, field: str, is_reported: bool
) -> None:
    found, reports = await listed("raterequests", {**REQUEST, key: value}, {**REQUEST, "index": 5})
    kept = value.decode() if isinstance(value, bytes) else value
    extra = {key: tuple(kept) if isinstance(kept, list) else kept}
    without: dict[str, Any] = {field: None}
    assert attrs.evolve(found[0], extra={}) == attrs.evolve(READ, **without)
    assert found[1:] == [attrs.evolve(READ, index=5)]
    assert found[0].extra in (extra, {key: Decimal(10**100)}, {key: Decimal("0." + "1" * 5000)})
    assert reports == [f"raterequests.3.{key}"] * is_reported
    to_json(found[0])


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        *[({**REQUEST, "index": index}, "raterequests.3.index")
          for index in (*NOTHING, "four", Decimal("4.5"), 2**70)],
        ({key: value for key, value in REQUEST.items() if key != "index"}, "raterequests.3.index"),
        ({}, "raterequests.3.index"),
        (None, "raterequests.3"), ([], "raterequests.3"), ("text", "raterequests.3"), (3, "raterequests.3"),
    ],
)  # fmt: skip
async def test_record_without_a_readable_identifier_is_reported_and_hides_no_other(raw: object, path: str) -> None:
    found, reports = await listed("raterequests", raw, REQUEST, {**REQUEST, "index": 5})
    assert found == [READ, attrs.evolve(READ, index=5)]
    assert reports == [path]
    with pytest.raises(DecodeError) as caught:
        await read("raterequests", {"raterequests": {"3": raw, "4": REQUEST}}, strict=True)
    assert caught.value.path == path
    assert f"at {path} [POST quote/getrequests, status 200" in str(caught.value)


@pytest.mark.parametrize("collection", LISTS)
async def test_strict_client_raises_for_an_unreadable_record_of_each_kind(collection: str) -> None:
    with pytest.raises(DecodeError) as caught:
        await read(collection, {collection: [{"index": 4}, {"name": "no index"}]}, strict=True)
    assert caught.value.path == f"{collection}.1.index"
    assert (await read(collection, {collection: [{"index": 4}, {"name": "no index"}]}))[1] == [f"{collection}.1.index"]


async def test_strict_client_raises_for_an_unreadable_value() -> None:
    for body, path in (
        ({"raterequests": [{**REQUEST, "weight": "heavy"}]}, "raterequests.0.weight"),
        ({"raterequests": [REQUEST, {**REQUEST, "qty": []}]}, "raterequests.1.qty"),
    ):
        with pytest.raises(DecodeError) as caught:
            await read("raterequests", body, strict=True)
        assert caught.value.path == path


async def test_date_of_zeros_does_not_block_a_strict_client() -> None:
    rows = [{**REQUEST, "index": index, "needdate": "0000-00-00 00:00:00"} for index in range(3)]
    found, reports = await read("raterequests", {"raterequests": rows}, strict=True)
    assert ([request.need_date for request in found], reports) == ([None] * 3, [])


async def test_many_unreadable_records_cost_little_and_hide_none() -> None:
    rows = [{"index": "n/a", "number": number} for number in range(3000)]
    found, reports = await read("raterequests", {"raterequests": [*rows, REQUEST]})
    assert found == [READ]
    assert 1 <= len(reports) < 110, "a hundred are described, the others are counted"


# Offers of a listing or a bid

CHOSEN = {**ENTRY, "offerId": 8, "status": "Selected"}


@pytest.mark.parametrize(
    ("raw", "offers"),
    [
        ({}, ()), ([], ()), (None, ()),
        ({"0": ENTRY}, (OFFER,)), ([ENTRY], (OFFER,)), (ENTRY, (OFFER,)),
        *[({"0": nothing, "1": ENTRY}, (OFFER,)) for nothing in NOTHING],
        *[({key: value, "offerAmount": 5}, (Offer(id=7, amount=Decimal(5)),))
          for key in ("offerId", "offerIndex", "index") for value in ("7", 7, Decimal("7.0"), " 7 ")],
        ({"offerAmount": 5}, (Offer(amount=Decimal(5)),)),
        *[({"0": {"offerId": 1, key: "978"}}, (Offer(id=1, currency=978),)) for key in ("currencyId", "currencyIndex")],
        ({"0": {"offerId": 1, "currencyId": None, "currencyIndex": 978}}, (Offer(id=1, currency=978),)),
        ({"10": {"offerId": 3}, "2": {"offerId": 2}, "1": {"offerId": 1}}, (Offer(id=1), Offer(id=2), Offer(id=3))),
        ({"0": {**ENTRY, "status": "Withdrawn"}}, (attrs.evolve(OFFER, status=UnknownWord("Withdrawn")),)),
        # An empty map of PHP is a list, and a fee without an amount is left out but stays readable.
        *[({"0": {**ENTRY, "rates": rates}}, (attrs.evolve(OFFER, rates={}),)) for rates in NOTHING[1:3]],
        ({"0": {**ENTRY, "rates": None}}, (OFFER,)),
        ({"0": {**ENTRY, "rates": {"Ocean": "1700", "Chassis": Decimal("140.50")}}},
         (attrs.evolve(OFFER, rates={"Ocean": Decimal(1700), "Chassis": Decimal("140.50")}),)),
        *[({"0": {**ENTRY, "rates": {"Ocean": "1840.50", "Chassis": missing}}},
           (attrs.evolve(OFFER, rates={"Ocean": Decimal("1840.50")}, extra={"rates": {"Chassis": missing}}),))
          for missing in (None, "", "  ")],
    ],
)  # fmt: skip
async def test_offers_are_read_in_each_form(raw: object, offers: tuple[Offer, ...]) -> None:
    listing = await only("offers", {**LISTED, "offer": raw})
    offers = tuple(attrs.evolve(offer, request=listing.index) for offer in offers)
    assert listing.offers == offers
    assert (listing.selected, listing.extra) == (None, {})
    assert repr(listing.offers) == repr(offers)
    bid = await only("bids", {**LISTED, "offer": raw})
    assert bid.offer == (offers[0] if len(offers) == 1 else None), "one of several is not guessed"


@pytest.mark.parametrize("raw", [CHOSEN, {"0": ENTRY, "1": CHOSEN}, [ENTRY, CHOSEN], [CHOSEN]])
async def test_selected_offer_is_found_alone_and_among_others(raw: object) -> None:
    listing = await only("offers", {**LISTED, "offer": raw})
    assert listing.selected == listing.offers[-1]
    assert listing.selected.id == 8
    assert listing.selected.status is OfferStatus.SELECTED


@pytest.mark.parametrize(
    ("raw", "offers", "extra", "paths"),
    [
        ("x", (), {"offer": "x"}, ["offer"]),
        (3, (), {"offer": 3}, ["offer"]),
        ({"0": 3}, (), {"offer": {"0": 3}}, ["offer.0"]),
        ({"0": "x", "1": ENTRY}, (OFFER,), {"offer": {"0": "x"}}, ["offer.0"]),
        *[({"0": ENTRY, "count": stray}, (OFFER,), {"offer": {"count": stray}}, []) for stray in (1, "1", True)],
        ({"status": "selected"}, (), {"offer": {"status": "selected"}}, []),
        ({"0": {**ENTRY, "offerAmount": "much"}},
                    (attrs.evolve(OFFER, amount=None, extra={"offerAmount": "much"}),), {}, ["offer.0.offerAmount"]),
        ({"0": {**ENTRY, "offerId": "FX"}, "1": ENTRY},
                    (attrs.evolve(OFFER, id=None, extra={"offerId": "FX"}), OFFER), {}, ["offer.0.offerId"]),
        ([ENTRY, {**ENTRY, "offerId": 9, "offerAmount": {}}],
                    (OFFER, attrs.evolve(OFFER, id=9, amount=None, extra={"offerAmount": {}})), {},
                    ["offer.1.offerAmount"]),
        *[({"1": {**ENTRY, "rates": rates}},
                      (attrs.evolve(OFFER, extra={"rates": kept}),), {}, ["offer.1.rates"])
          for rates, kept in (([1], (1,)), ("x", "x"))],
    ],
)  # fmt: skip
async def test_unreadable_part_of_offers_hides_no_other(
    raw: object, offers: tuple[Offer, ...], extra: dict[str, object], paths: list[str]
) -> None:
    (listing, other), reports = await listed("offers", {**LISTED, "offer": raw}, {"index": 5})
    assert (listing.index, listing.commodity, other.index) == (4, "Widgets", 5)
    assert listing.offers == tuple(attrs.evolve(offer, request=4) for offer in offers)
    assert listing.extra == extra
    assert reports == [f"offers.3.{path}" for path in paths]


@pytest.mark.parametrize("fee", ["x", {}, True, [1]])
async def test_unreadable_fee_is_in_extra_and_hides_neither_its_offer_nor_its_amount(fee: object) -> None:
    rates = {"Ocean": "1840.50", "Bunker": fee}
    (listing,), reports = await listed("offers", {**LISTED, "offer": {"1": {**ENTRY, "rates": rates}}})
    (offer,) = listing.offers
    assert (offer.id, offer.amount) == (7, Decimal("1840.50"))
    assert "Bunker" not in (offer.rates or {})
    assert "Bunker" in offer.extra["rates"]
    assert [path.partition(".rates")[0] for path in reports] == ["offers.3.offer.1"]


# Contacts


@pytest.mark.parametrize("collection", WITH_OFFERS)
@pytest.mark.parametrize(
    "raw",
    [
        pytest.param({**CONTACTS, "offer": ENTRY}, id="on the record"),
        pytest.param({"offer": {**ENTRY, "status": "selected", **CONTACTS}}, id="in the one entry"),
        pytest.param({"offer": {**ENTRY, **CONTACTS}}, id="in the one pending entry"),
        pytest.param({"offer": {"0": ENTRY, **CONTACTS}}, id="beside the entries"),
        pytest.param({**CONTACTS, "offer": {"0": {**ENTRY, **CONTACTS}, **CONTACTS}}, id="in each of the places"),
        pytest.param({"offer": {"0": {**ENTRY, **CONTACTS}}}, id="in the only entry"),
        pytest.param({"offer": [{**ENTRY, "status": "Won", **CONTACTS}]}, id="in the only one of a list"),
        pytest.param({"offer": {"0": ENTRY, "1": {**CHOSEN, **CONTACTS}}}, id="in the selected entry"),
    ],
)
async def test_contact_and_company_are_found_in_each_place(collection: str, raw: dict[str, Any]) -> None:
    record = await only(collection, {**LISTED, **raw})
    assert (record.contact, record.company, record.extra) == (CONTACT, COMPANY, {})
    offers = record.offers if collection == "offers" else (record.offer,)
    assert [offer.extra for offer in offers if offer] == [{} for offer in offers if offer]


async def test_contact_of_an_offer_that_was_not_selected_is_not_taken() -> None:
    eve = {"loadingPOC": {"name": "Eve"}, "rank": 2}
    entries = [{**ENTRY, **eve}, {**CHOSEN, **CONTACTS, "rank": 1}]
    assert (await only("offers", {**LISTED, "offer": entries})).contact == CONTACT
    assert (await only("offers", {**LISTED, "offer": [entries[0], ENTRY]})).contact is None
    assert (await only("offers", {**LISTED, **CONTACTS, "offer": {"0": entries[0]}})).contact == CONTACT


@pytest.mark.parametrize("collection", WITH_OFFERS)
@pytest.mark.parametrize("nothing", NOTHING)
async def test_contact_and_company_may_be_absent(collection: str, nothing: object) -> None:
    record = await only(collection, {**LISTED, "loadingPOC": nothing, "loadingCompany": nothing})
    assert (record.contact, record.company, record.extra) == (None, None, {})


@pytest.mark.parametrize("collection", WITH_OFFERS)
@pytest.mark.parametrize(
    ("key", "value", "contact", "company", "extra", "path"),
    [
        ("loadingPOC", "Bob", None, None, {"loadingPOC": "Bob"}, "loadingPOC"),
        ("loadingCompany", "Co", None, None, {"loadingCompany": "Co"}, "loadingCompany"),
        ("loadingPOC", {"name": [], "email": "a"}, Contact(email="a", extra={"name": ()}), None, {},
                    "loadingPOC.name"),
        ("loadingCompany", {"index": "abc", "name": "Co"}, None,
                    Company(name="Co", extra={"index": "abc"}), {}, "loadingCompany.index"),
    ],
)  # fmt: skip
async def test_unreadable_contact_or_company_hides_no_record(
    collection: str, key: str, value: object, contact: object, company: object, extra: dict[str, object], path: str
) -> None:
    (record,), reports = await listed(collection, {**LISTED, key: value, "new": 1})
    assert (record.contact, record.company, record.extra) == (contact, company, {**extra, "new": 1})
    assert reports == [f"{collection}.3.{path}"]


async def test_unreadable_contact_on_the_record_gives_way_to_one_in_its_offer() -> None:
    (listing,), reports = await listed("offers", {**LISTED, "loadingPOC": "Bob", "offer": {**ENTRY, **CONTACTS}})
    assert (listing.contact, listing.company, listing.extra) == (CONTACT, COMPANY, {"loadingPOC": "Bob"})
    assert reports == ["offers.3.loadingPOC"]


async def test_contact_of_an_offer_with_an_unreadable_value_is_read() -> None:
    (listing,), _ = await listed("offers", {**LISTED, "offer": {"0": {**ENTRY, "offerAmount": "much", **CONTACTS}}})
    assert (listing.contact, listing.company) == (CONTACT, COMPANY)


# Routes

NEW_YORK = ZoneInfo("America/New_York")
SAILING: dict[str, Any] = {"index": 9, "cycutoff": "2025-11-02 01:30:00", "cfscutoff": "2025-03-09 02:30:00"}


@pytest.mark.parametrize("carrier", ["carrier", "carrierId"])
@pytest.mark.parametrize("keys", [("vessel", "departure", "arrival"), ("vesselName", "estDeparture", "estArrival")])
async def test_route_is_read_in_each_spelling(carrier: str, keys: tuple[str, str, str]) -> None:
    values = dict(zip(keys, ("Ever Forward", "2025-03-02 00:00:00", "2025-03-20 00:00:00"), strict=True))
    route = await only("routes", {**SAILING, carrier: "3", **values, "timezone": "America/New_York"})
    assert route == Route(
        index=9, carrier=3, vessel="Ever Forward", timezone="America/New_York",
        # An ambiguous time is the first of the two, and a skipped one is kept.
        cy_cutoff=datetime(2025, 11, 2, 1, 30, tzinfo=NEW_YORK),
        cfs_cutoff=datetime(2025, 3, 9, 2, 30, tzinfo=NEW_YORK),
        departure=datetime(2025, 3, 2, tzinfo=NEW_YORK), arrival=datetime(2025, 3, 20),
    )  # fmt: skip
    assert (route.cy_cutoff.fold, route.arrival.tzinfo, route.extra) == (0, None, {})


@pytest.mark.parametrize("name", ["Mars/Olympus", "", None, "Asia", "../etc"])
async def test_times_of_a_route_without_a_known_zone_are_naive(name: str | None) -> None:
    route = await only("routes", {**SAILING, "timezone": name})
    assert (route.timezone, route.cy_cutoff, route.cy_cutoff.tzinfo) == (name, datetime(2025, 11, 2, 1, 30), None)


# JSON


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"<html></html>", id="HTML"),
        pytest.param(b'{"raterequests": []} x', id="trailing garbage"),
        pytest.param(b'{"raterequests": [', id="truncated"),
        pytest.param(b'{"raterequests":' + b"[" * 64 + b"]" * 64 + b"}", id="65 levels"),
        pytest.param(b'{"raterequests":' + b'{"a":' * 64 + b"1" + b"}" * 65, id="65 levels of objects"),
        pytest.param(b'{"x":[' + b"[]," * 1000 + b"[" * 63 + b"]" * 64 + b"}", id="65 levels behind a thousand"),
        pytest.param(b"[" * 100_000, id="100,000 levels, unclosed"),
        pytest.param(b"[" * 100_000 + b"]" * 100_000, id="100,000 levels"),
        pytest.param(b'{"raterequests": ["' + b"x" * 10_000_000 + b'"]}', id="more than 10 MB"),
        pytest.param('{"raterequests": []}'.encode("utf-16"), id="UTF-16"),
    ],
)
async def test_reply_beyond_the_bounds_is_a_decode_error(body: bytes) -> None:
    with pytest.raises(DecodeError) as caught:
        await read("raterequests", body)
    assert caught.value.path == "$"
    assert len(str(caught.value)) < 500
    with pytest.raises(DecodeError):
        await read(lambda fx: fx.request("GET", "quote/new"), body)


async def test_json_is_read_exactly() -> None:
    body = b'\xef\xbb\xbf{"a": 1840.50, "b": 0.1, "c": 1e3, "d": 12345678901234567890, "e": -0.00, "f": "\xc3\xa9"}'
    parsed, _ = await read(lambda fx: fx.request("GET", "quote/new"), body)
    assert repr(parsed) == (
        "{'a': Decimal('1840.50'), 'b': Decimal('0.1'), 'c': Decimal('1E+3'),"
        " 'd': 12345678901234567890, 'e': Decimal('-0.00'), 'f': 'é'}"
    )
    for body in (b"[" * 64 + b"]" * 64, b"[1e30]", b"[1e-30]", b'["' + b"9" * 5000 + b'"]'):
        assert await read(lambda fx: fx.request("GET", "quote/new"), body) == (
            json.loads(body, parse_float=Decimal),
            [],
        )


@given(st.decimals(min_value=-(10**25), max_value=10**25, places=25))
@settings(max_examples=20)
async def test_decimals_keep_every_digit(value: Decimal) -> None:
    assert (await only("raterequests", {**REQUEST, "weight": value})).weight.as_tuple() == value.as_tuple()


@pytest.mark.parametrize(
    ("notes", "text"),
    [
        (b'"first\nsecond\tthird"', "first\nsecond\tthird"), (rb'"a\ud83d\ude00"', "a\U0001f600"),
        (rb'"\ud55c"', "\ud55c"), (rb'"\\ud800"', "\\ud800"), (rb'"a\uDC00b"', "a\ufffdb"),
    ],
)  # fmt: skip
async def test_odd_text_is_read_and_can_be_written(notes: bytes, text: str) -> None:
    found = await only("raterequests", {**REQUEST, "notes": notes})
    assert found.notes == text
    assert to_json(found).encode()


@pytest.mark.parametrize(
    ("body", "indexes"),
    [
        # The text may be any: bytes of another character set are not guessed at.
        (b'{"raterequests": [{"index": 4, "origin": "G\xf6teborg"}]}', [[4]]),
        # Which of the records comes is open where a key repeats.
        (b'{"raterequests": {"0": {"index": 4}, "0": {"index": 5}}}', [[4], [5], [4, 5]]),
        (b'{"raterequests": [{"index": 3, "index": 4}]}', [[3], [4]]),
        (b'{"raterequests": {"0": {"index": 3}}, "raterequests": {"0": {"index": 4}}}', [[3], [4]]),
        # A record where its collection is due.
        (b'{"raterequests": {"index": 4, "origin": "Oslo"}}', [[4]]),
    ],
)
async def test_undocumented_form_is_read_or_refused_and_never_invented(body: bytes, indexes: list[list[int]]) -> None:
    try:
        found, _ = await read("raterequests", body)
    except DecodeError:
        return
    assert [record.index for record in found] in indexes


async def test_row_that_is_not_json_hides_no_other_row() -> None:
    """The page is asked for again in smaller pieces, down to one row."""
    rows = [b'{"index": %d, "notes": "%s"}' % (n, b'5" pipes' if n == 7 else b"pipes") for n in range(1, 13)]

    def page(body: Any) -> bytes:
        first = body["offset"] * body["rowsperpage"]
        return b'{"raterequests": [%s]}' % b",".join(rows[first : first + body["rowsperpage"]])

    async with answering(b"") as service:
        service.by = page
        found = await service.exchange.requests.search().collect()
    assert [record.index for record in found] == [n for n in range(1, 13) if n != 7]
    assert service.reports


@pytest.mark.parametrize("strict", [False, True])
async def test_page_of_rows_that_are_not_json_costs_few_requests(strict: bool) -> None:
    async with answering(b'{"raterequests": [{"index": 1, "notes": "5" pipes"}]}', strict=strict) as service:
        with pytest.raises(DecodeError):
            await service.exchange.requests.search()
    assert len(service.sent) <= 20


# Replies to writes

SUBMITTED = {**LISTED, "refId": "RQ-4", "offer": {"index": 7, "offerAmount": "1840.50", "currencyIndex": 840}}


def submit(fx: FreightExchange) -> Awaitable[Bid]:
    return fx.bids.submit(4, amount="1840.50", currency=840)


@pytest.mark.parametrize("held", [SUBMITTED, {"0": SUBMITTED}, [SUBMITTED]])
async def test_submitted_bid_is_read_with_its_offer(held: object) -> None:
    bid, _ = await read(submit, {"bid": held})
    assert (bid.index, bid.ref_id, bid.amount, bid.currency) == (4, "RQ-4", Decimal("1840.50"), 840)
    assert bid.offer == Offer(id=7, request=4, amount=Decimal("1840.50"), currency=840)


async def test_listed_bid_has_its_price_and_no_offer() -> None:
    bid = await only("bids", {**LISTED, "status": "SELECTED", "price": "1840.50", "currencyIndex": 840, **CONTACTS})
    assert (bid.amount, bid.currency, bid.offer, bid.contact) == (Decimal("1840.50"), 840, None, CONTACT)
    assert bid.status is BidStatus.SELECTED


async def test_several_offers_of_which_none_is_the_bids_are_kept_as_they_came() -> None:
    offers = [{"offerId": 1, "status": "pending"}, {"offerId": 2, "status": "pending"}]
    bid = await only("bids", {**LISTED, "offer": offers})
    assert (bid.offer, [dict(one) for one in bid.extra["offer"]]) == (None, offers)


@pytest.mark.parametrize(
    "body",
    [
        None, [], {}, {"bid": None}, {"bid": []}, {"bid": 3}, {"bids": {}}, {"message": "x"}, b"", b"<html>",
        {"bid": [SUBMITTED, {**SUBMITTED, "index": 5}]}, {"bid": {**SUBMITTED, "index": "n/a"}},
        {"bid": SUBMITTED, "error": "closed for offers"},
    ],
)  # fmt: skip
async def test_reply_that_does_not_show_the_bid_leaves_the_offer_in_doubt(body: object) -> None:
    async with answering(written(body)) as service:
        with pytest.raises(OutcomeUnknownError) as caught:
            await submit(service.exchange)
    assert len(service.sent) == 1
    assert caught.value.may_have_taken_effect


@pytest.mark.parametrize(
    "changes",
    [
        {"offer": {"index": 7, "offerAmount": "much"}}, {"offer": "x"}, {"notes": 5}, {"weight": "heavy"},
    ],
)  # fmt: skip
async def test_unreadable_value_does_not_fail_a_submission(changes: dict[str, object]) -> None:
    bid, _ = await read(submit, {"bid": {**SUBMITTED, **changes}})
    assert bid.index == 4


# Logins

USER: dict[str, Any] = {
    **LOGIN["user"], "firstname": "Ada", "middlename": "", "lastname": "Lovelace", "email": "ada@co.example",
    "title": "Ms", "enabled": "TRUE", "lastlogin": "2025-03-01 08:00:00", "imageUrl": "https://host.example/ada.png",
    "company": {"index": 3, "name": "Co", "postal": "01234", "otilicense": "007"},
}  # fmt: skip
ADA = User(
    first_name="Ada", middle_name="", last_name="Lovelace", email="ada@co.example", title="Ms", enabled=True,
    last_login=datetime(2025, 3, 1, 8), image_url="https://host.example/ada.png",
    company=Company(index=3, name="Co", postal="01234", oti_license="007"),
)  # fmt: skip
CANARY = "canary-5f1c"


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({}, {}),
        *[({"enabled": value}, {"enabled": True}) for value in ("TRUE", "true", "True", True, 1, "1")],
        *[({"enabled": value}, {"enabled": False}) for value in ("FALSE", "false", False, 0, "0")],
        *[({"company": nothing}, {"company": None}) for nothing in (*NOTHING, False)],
        ({"company": {"postal": 1234}}, {"company": Company(postal="1234")}),
        # No field about a person costs a good token.
        *[({key: []}, {field: None, "extra": {key: ()}}) for key, field in (
            ("firstname", "first_name"), ("middlename", "middle_name"), ("lastname", "last_name"), ("email", "email"),
            ("title", "title"), ("enabled", "enabled"), ("lastlogin", "last_login"), ("imageUrl", "image_url"))],
        *[({"company": odd}, {"company": None, "extra": {"company": kept}})
          for odd, kept in (("x", "x"), (3, 3), (["Co"], ("Co",)), (True, True))],
        ({"company": {"index": "abc", "name": "Co", "phone": [], "new": 2}},
         {"company": Company(name="Co", extra={"index": "abc", "phone": (), "new": 2})}),
        # Nothing shows a secret.
        ({"refresh_token": CANARY, "history": [{"password": CANARY}], "company": {"name": "Co", "apiToken": CANARY}},
         {"company": Company(name="Co"), "extra": {"history": ({},)}}),
    ],
)  # fmt: skip
async def test_user_is_read_and_shows_no_secret(changes: dict[str, Any], fields: dict[str, Any]) -> None:
    user, _ = await read(lambda fx: fx.login(), {}, login={"user": {**USER, **changes}})
    assert user == attrs.evolve(ADA, **fields)
    assert CANARY not in repr(user) + to_json(user)
    assert USER["access_token"] not in repr(user) + to_json(user)


# What was read can be kept: a store keeps records as JSON


@pytest.mark.parametrize(
    "raw",
    [
        *[{"weight": number, "serial": number} for number in (
            b"12.50", b"0.000", b"-0.0", b"100", b"1e30", b"1.5e-29", b"0e5", b"0e-30", b"-0")],
        # Otherwise each scan would fail as long as the record is listed.
        *[{"serial": b"7" * count} for count in (60, 61, 400, 999)],
        # Each of these characters becomes six in JSON.
        {"notes": "\x01" * 1_500_000},
    ],
    ids=lambda raw: str(raw)[:30],
)  # fmt: skip
async def test_extreme_record_can_be_kept_and_recalled(raw: dict[str, Any]) -> None:
    request = await only("raterequests", {"index": 1, **raw})
    assert from_json(to_json(request), RateRequest) == request


async def test_kept_bid_keeps_the_fee_that_has_no_amount() -> None:
    offer = {"offerId": 1, "rates": {"Fuel": None, "Sea": "1.50"}}
    bid = await only("bids", {"index": 1, "colour": "red", "offer": offer})
    assert from_json(to_json(bid), Bid) == bid
    assert (bid.offer.rates, bid.offer.extra) == ({"Sea": Decimal("1.50")}, {"rates": {"Fuel": None}})


# Any reply at all

KEYS = [
    "0", "1", "-1", "01", "x", "1" * 30, "access_token", "expires_on", "user", "bid", "message", "Unauthorized",
    "error", "index", "offer", "offerId", "offerAmount", "rates", "status", "qty", "weight", "needdate", "timezone",
    "cycutoff", "estDeparture", "carrier", "code", "name", "loadingPOC", "loadingCompany", "price", "currencyIndex",
    "requesttype",
]  # fmt: skip
WORDS = ["", "0", "1", "4.0", "1e30", "1e999", "NaN", "2025-03-01 00:00:00", "0000-00-00 00:00:00", "selected", "UTC"]
SCALARS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(max_size=5) | st.sampled_from(WORDS)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=8),
    max_leaves=30,
)
CALLS: dict[str, Call] = {
    **LISTS,
    "bid": submit,
    "carrier": lambda fx: fx.carriers.get(4),
    "decline": lambda fx: fx.offers.decline(4),
    "raw": lambda fx: fx.request("GET", "quote/new"),
}


@given(name=st.sampled_from(sorted(CALLS)), value=VALUES)
@settings(max_examples=60)
async def test_any_json_is_read_or_refused(name: str, value: object) -> None:
    for body in (value, {name: value}, {name: [value]}):
        try:
            result, _ = await read(CALLS[name], body)
        except FreightExchangeError as error:
            str(error), repr(error)
        else:
            repr(result), hash(str(result))


@given(st.sampled_from(sorted(LISTS)), st.lists(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=8), max_size=4))
@settings(max_examples=50)
async def test_good_record_survives_any_company(collection: str, rows: list[dict[str, Any]]) -> None:
    found, reports = await read(collection, {collection: [*rows, {"index": 2**40}]})
    assert found[-1].index == 2**40
    assert len(found) <= len(rows) + 1
    assert reports or all(row.get("index") is not None for row in rows)
