"""Tests of the endpoints' methods: what they send, and what they make of the service's replies and refusals."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta, timezone
from decimal import Context, Decimal, Inexact, Rounded, localcontext
from typing import Any
from zoneinfo import ZoneInfo

import anyio
import attrs
import pytest
from tests.support.one_call import Service, answering, reply

from freight_exchange import (
    BadRequestError,
    Carrier,
    Currency,
    DeadlineExceededError,
    DecodeError,
    FreightExchange,
    FreightExchangeError,
    Listing,
    NotFoundError,
    Offer,
    OffersType,
    OutcomeUnknownError,
    RateRequest,
    RateRequestDraft,
    Request,
    RequestFilter,
    Response,
    Route,
    RouteDraft,
    SearchType,
    ValidationError,
)
from freight_exchange.hooks import Attempt, BrokenRecord

Call = Callable[[FreightExchange], Awaitable[Any]]

NO_REASONS: list[Any] = [None, False, "", 0]

DRAFT = RateRequestDraft(
    commodity="Tiles", type="Air Freight", origin="Hong Kong", destination="Long Beach",
    arrival=datetime(2027, 3, 1, 0, 0, 0, 999), packaging="pallet", quantity=2, length="1.20", width="0.8", height=1,
    weight="640.50", incoterm="FOB", hazardous=True, notes="fragile é",
)  # fmt: skip
ROUTE = RouteDraft(
    origin="Hong Kong", destination="Los Angeles", cy_cutoff=datetime(2025, 3, 1, 12),
    cfs_cutoff=datetime(2025, 3, 1, 4, tzinfo=UTC), departure=datetime(2025, 3, 2), arrival=datetime(2025, 3, 20),
    carrier=3, vessel="Ever Forward", voyage_id="E12", timezone="Asia/Hong_Kong",
)  # fmt: skip
SHOWN_ROUTE: dict[str, Any] = {
    "index": 9, "origin": "Hong Kong", "destination": "Los Angeles", "cycutoff": "2025-03-01 12:00:00",
    "cfscutoff": "2025-03-01 12:00:00", "estDeparture": "2025-03-02 00:00:00", "estArrival": "2025-03-20 00:00:00",
    "carrier": 3, "vesselName": "Ever Forward", "voyageId": "E12", "timezone": "Asia/Hong_Kong",
}  # fmt: skip
SENT_ROUTE: dict[str, Any] = {
    "origin": "Hong Kong", "destination": "Los Angeles", "cycutoff": "2025-03-01 12:00:00",
    "cfscutoff": "2025-03-01 12:00:00", "departure": "2025-03-02 00:00:00", "arrival": "2025-03-20 00:00:00",
    "carrier": 3, "vessel": "Ever Forward", "voyageId": "E12", "timezone": "Asia/Hong_Kong",
}  # fmt: skip
SHOWN_REQUEST = {
    "index": 7, "commodityname": "Tiles", "origin": "Hong Kong", "destination": "Long Beach", "qty": 2, "length": 0.8,
    "width": 1, "height": 1.2, "needdate": "2027-03-02 00:00:00",
}  # fmt: skip


def bid(index: Any = 4, amount: Any = "1840.50", **offer: Any) -> dict[str, Any]:
    shown = {"index": "9", "offerAmount": amount, "currencyIndex": 840, "status": "pending", **offer}
    return {"bid": {"index": index, "offer": {key: value for key, value in shown.items() if value is not None}}}


def approval(request: int = 4, offer: int | None = 17, status: str = "selected") -> dict[str, Any]:
    return {"offers": {"0": {"index": request, "offer": {"offerIndex": offer, "offerAmount": 5, "status": status}}}}


def submit(fx: FreightExchange) -> Awaitable[Any]:
    return fx.bids.submit(4, amount="1840.50", currency=840)


def approve(fx: FreightExchange) -> Awaitable[Any]:
    return fx.offers.approve(17)


def decline(fx: FreightExchange) -> Awaitable[Any]:
    return fx.offers.decline(17)


def publish(fx: FreightExchange) -> Awaitable[Any]:
    return fx.requests.publish(DRAFT)


def create(fx: FreightExchange) -> Awaitable[Any]:
    return fx.routes.create(ROUTE)


def search(fx: FreightExchange) -> Awaitable[Any]:
    return fx.requests.search().collect()


def facts(error: FreightExchangeError) -> tuple[str | None, int | None, int]:
    """Return the path, status and attempts that an error carries."""
    assert error.elapsed is not None
    assert error.elapsed >= 0
    path = error.request_path if isinstance(error, DecodeError) else error.path
    return path, error.status, error.attempts


# What is sent; `tests/contract/test_document.py` has every body with its names


async def test_numbers_are_sent_exactly() -> None:
    async with answering({"raterequests": {"0": SHOWN_REQUEST}}, bid()) as service:
        await publish(service.exchange)
        fees: Any = {"Ocean": 1700, "Discount": "-10.50", "Free": 0.1}
        await service.exchange.bids.submit(4, amount=Decimal("1840.50"), currency=840, rates=fees, terms="")
    assert service.sent[0].content.decode() == (
        '{"commodityname":"Tiles","requesttype":"Air Freight","origin":"Hong Kong","destination":"Long Beach",'
        '"arrival":"2027-03-01 00:00:00","packaging":"pallet","quantity":2,"length":1.20,"width":0.8,"height":1,'
        '"weight":640.50,"incoterm":"FOB","hazardous":1,"notes":"fragile é"}'
    )
    assert service.sent[1].content == (
        b'{"requestIndex":4,"offer":1840.50,"currencyIndex":840,"rates":{"Ocean":1700,"Discount":-10.50,"Free":0.1},"terms":""}'
    )


@pytest.mark.parametrize(
    ("call", "sent"),
    [
        (lambda fx: fx.requests.open(since=timedelta(seconds=1, microseconds=1)), {"secondsSinceUpdate": 2}),
        (lambda fx: fx.requests.open(since=timedelta(microseconds=1)), {"secondsSinceUpdate": 1}),
        (lambda fx: fx.requests.search(since=timedelta(days=5)), {"secondsSinceUpdate": 432000, "type": "all"}),
        (lambda fx: fx.requests.search(type="ACCEPT"), {"secondsSinceUpdate": 432000, "type": "accept"}),
        (lambda fx: fx.requests.search(type=SearchType.PENDING), {"secondsSinceUpdate": 432000, "type": "pending"}),
        (lambda fx: fx.offers.search(type=OffersType.SELECTED), {"type": "sel"}),
        (lambda fx: fx.bids.list(), {}),
        (lambda fx: fx.routes.list(origin=None), {}),
        (lambda fx: fx.routes.list(carrier=Carrier(index=3)), {"carrierId": 3}),
        (lambda fx: fx.routes.list(cy_from=datetime(2025, 3, 1, 8, 30)), {"cyStart": "2025-03-01 08:30:00"}),
    ],
)  # fmt: skip
async def test_arguments_of_a_listing_are_sent(call: Callable[[FreightExchange], Any], sent: dict[str, Any]) -> None:
    async with answering({}) as service:
        await call(service.exchange)
    body = service.bodies[0]
    assert body.pop("offset") == 0
    assert body.pop("rowsperpage") >= 1
    assert body == sent


async def test_carriers_and_currencies_are_asked_for_without_a_body() -> None:
    async with answering({}) as service:
        for listing in (service.exchange.carriers.list(), service.exchange.currencies.list()):
            assert list(await listing) == []
    assert [request.content for request in service.sent] == [b"", b""]


async def test_index_type_string_sends_indexes_of_lookups_as_text() -> None:
    rows = [{"index": 4}]
    async with answering({"raterequests": rows, "carriers": rows, "offers": rows}, index_type="string") as service:
        for found in (service.exchange.requests, service.exchange.carriers, service.exchange.offers):
            await found.get(4)
    assert [body["index"] for body in service.bodies] == ["4", "4", "4"]


async def test_records_are_accepted_as_arguments() -> None:
    async with answering(bid(), bid(), approval(), {"offers": {}}) as service:
        fx = service.exchange
        for request in (RateRequest(index=4), Listing(index=4)):
            await fx.bids.submit(request, amount=1840.5, currency=Currency(index=840))
        for answer in (fx.offers.approve, fx.offers.decline):
            await answer(Offer(id=17))
    assert service.bodies == [
        {"requestIndex": 4, "offer": 1840.5, "currencyIndex": 840},
        {"requestIndex": 4, "offer": 1840.5, "currencyIndex": 840},
        {"offerIndex": 17, "approved": 1},
        {"offerIndex": 17, "approved": 0},
    ]


# Updates of routes send the whole route


async def updated(change: Callable[[Route], Route], **shown: Any) -> dict[str, Any]:
    """Read a route, change it, update it, and return the body that was sent."""
    async with answering({"routes": [{**SHOWN_ROUTE, **shown}]}, {}) as service:
        route = await service.exchange.routes.get(9)
        assert await service.exchange.routes.update(change(route)) is None
    body: dict[str, Any] = service.bodies[1]
    assert body.pop("index") == 9
    return body


@pytest.mark.parametrize(
    ("shown", "changes", "sent"),
    [
        ({}, {}, {}),
        ({}, {"vessel": "Ever Given", "carrier": Carrier(index=5)}, {"vessel": "Ever Given", "carrier": 5}),
        # What could not be read goes back as the text that came; an update never destroys it.
        ({"estDeparture": "when full", "cycutoff": "0000-00-00 00:00:00", "estArrival": ""}, {},
         {"departure": "when full", "cycutoff": "0000-00-00 00:00:00", "arrival": ""}),
        ({"estDeparture": "when full"}, {"departure": datetime(2025, 3, 2)}, {}),
        ({"vesselName": "", "voyageId": "", "timezone": ""}, {}, {"vessel": "", "voyageId": "", "timezone": ""}),
        ({"timezone": "Mars/Olympus"}, {}, {"timezone": "Mars/Olympus"}),
        ({"timezone": "Mars/Olympus"}, {"timezone": "Asia/Hong_Kong"}, {}),
        # Skipped and repeated times of a zone are sent back unchanged.
        ({"timezone": "America/New_York", "cycutoff": "2025-03-09 02:30:00", "cfscutoff": "2025-11-02 01:30:00"}, {},
         {"timezone": "America/New_York", "cycutoff": "2025-03-09 02:30:00", "cfscutoff": "2025-11-02 01:30:00"}),
        # Aware times are those of the route's zone.
        ({}, {"departure": datetime(2025, 3, 2, tzinfo=timezone(timedelta(hours=9)))},
         {"departure": "2025-03-01 23:00:00"}),
        ({}, {"timezone": "UTC"}, {"timezone": "UTC", "cycutoff": "2025-03-01 04:00:00",
                                   "cfscutoff": "2025-03-01 04:00:00", "departure": "2025-03-01 16:00:00"}),
    ],
)  # fmt: skip
async def test_update_sends_the_whole_route(
    shown: dict[str, Any], changes: dict[str, Any], sent: dict[str, Any]
) -> None:
    assert await updated(lambda route: attrs.evolve(route, **changes), **shown) == {**SENT_ROUTE, **sent}


@pytest.mark.parametrize(
    "body", [b"", b" \r\n", b"\xef\xbb\xbf", b"\r\n\xef\xbb\xbf \n", {}, [], b"null", {"message": "ok"}, {"routes": {}}]
)
async def test_write_of_a_route_may_be_answered_with_nothing(body: object) -> None:
    async with answering(body) as service:
        assert await create(service.exchange) is None
        assert await service.exchange.routes.update(Route(index=9, **attrs.asdict(ROUTE))) is None


@pytest.mark.parametrize(
    "body",
    [
        {"routes": {"0": SHOWN_ROUTE}}, {"routes": [SHOWN_ROUTE]}, {"route": SHOWN_ROUTE}, SHOWN_ROUTE,
        {"error": False, "routes": {"0": SHOWN_ROUTE}}, {"errors": [], "routes": {"0": SHOWN_ROUTE}},
    ],
)  # fmt: skip
async def test_route_in_the_reply_to_its_write_is_returned(body: object) -> None:
    async with answering(body) as service:
        route = await create(service.exchange)
    assert (route.index, route.departure) == (9, datetime(2025, 3, 2, tzinfo=ZoneInfo("Asia/Hong_Kong")))


# Replies to writes: a success, or a doubt, and never sent again


@pytest.mark.parametrize(
    ("call", "body"),
    [
        (submit, bid(index=5)), (submit, bid(amount="1850.50")), (submit, bid(amount="1842")),
        (approve, approval(offer=18)), (approve, approval(status="pending")),
        (approve, approval(offer=None, status="pending")), (approve, {"offers": {}}), (approve, {}),
        (publish, {}), (publish, {"raterequests": {}}), (publish, {"raterequests": {"0": {"index": "n/a"}}}),
        (create, "ok"), (create, [1, 2]), (create, {"error": "Carrier not found"}), (create, {"Errors": ["x"]}),
        (create, {"error": True, "routes": {"0": SHOWN_ROUTE}}), (create, b"<html>"),
        (decline, b"false"), (decline, [1]), (decline, {"error": "no such offer"}), (decline, b"<html>"),
        (lambda fx: fx.request("POST", "quote/new", body={}), b"<html>"),
        *[(submit, {"Unauthorized": nothing}) for nothing in NO_REASONS],
    ],
)  # fmt: skip
async def test_reply_that_does_not_show_the_write_is_a_doubt(call: Call, body: object) -> None:
    async with answering(body if isinstance(body, bytes) else json.dumps(body)) as service:
        with pytest.raises(OutcomeUnknownError) as caught:
            await call(service.exchange)
    assert (len(service.sent), len(service.logins)) == (1, 1)
    assert caught.value.write is not None
    assert caught.value.may_have_taken_effect


@pytest.mark.parametrize(
    ("call", "body"),
    [
        (submit, bid()), (submit, bid(amount="1841")), (submit, bid(amount=1840)), (submit, bid(amount="1.84050e3")),
        (submit, bid(amount=None, currencyIndex=None)),
        *[(submit, {**bid(), "Unauthorized": value}) for value in (*NO_REASONS, "access denied")],
        # The service permutes dimensions and moves dates; the volume stays.
        (publish, {"raterequests": {"0": SHOWN_REQUEST}}),
        (publish, {"raterequests": {"0": {**SHOWN_REQUEST, "origin": "Hong Kong, HK"}}}),
        (approve, approval()), (approve, approval(offer=None)),
        (create, {"routes": {"0": {**SHOWN_ROUTE, "origin": "HONG KONG"}}}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("context", [Context(), Context(prec=1, traps=[Inexact, Rounded])])
async def test_reply_that_rounds_permutes_or_leaves_out_is_a_success(
    call: Call, body: object, context: Context
) -> None:
    async with answering(body) as service:
        with localcontext(context):
            assert await call(service.exchange) is not None
    assert (len(service.sent), len(service.logins)) == (1, 1)


@pytest.mark.parametrize("body", [b"{}", b"[]", b"null", b"", b'{"offers": {}}', b'{"message": "Offer declined."}'])
@pytest.mark.parametrize("status", [200, 201, 202, 204])
async def test_decline_succeeds_on_any_undocumented_reply(body: bytes, status: int) -> None:
    async with answering(reply(b"" if status == 204 else body, status)) as service:
        assert await decline(service.exchange) is None


# Logins


async def test_credentials_that_cannot_be_sent_are_refused_and_not_shown() -> None:
    async with answering({}, password="canary\ud800") as service:
        with pytest.raises(FreightExchangeError) as caught:
            await service.exchange.login()
    assert isinstance(caught.value, ValidationError)
    assert "canary" not in str(caught.value) + repr(vars(caught.value))
    assert service.logins == []


@pytest.mark.parametrize("message", ["no route", "no records found"])
async def test_login_at_a_wrong_address_says_so(message: str) -> None:
    async with answering({}, login=reply({"message": message}, 404)) as service:
        with pytest.raises(NotFoundError, match=rf"{message}; base_url may be wrong \[POST login"):
            await service.exchange.carriers.list()


@pytest.mark.virtual_time
async def test_login_past_its_deadline_carries_its_facts() -> None:
    async def never() -> tuple[str, str]:
        await anyio.sleep_forever()
        raise AssertionError

    async with answering({}, email=None, password=None, credentials=never, deadline=5) as service:
        with pytest.raises(DeadlineExceededError, match="POST login") as caught:
            await service.exchange.login()
    assert facts(caught.value) == ("login", None, 0)
    assert caught.value.elapsed == pytest.approx(5)


# Refusals and their sentences


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"message": "No such  fee"}, "No such fee"), ({"Message": "no"}, "no"), ({"error": "bad"}, "bad"),
        ({"error": {"code": 3, "message": "bad"}}, "bad"), ({"errors": [{"detail": "bad"}]}, "bad"),
        ({"errors": {"weight": ["must be positive"]}}, "weight: must be positive"),
        ({"errors": {"weight": "must be positive"}}, "weight: must be positive"),
        ({"message": "", "error": "bad"}, "bad"), ({"msg": "bad"}, "bad"), ({"reason": "bad"}, "bad"),
        (b"no such fee\r\n", "no such fee"), (b"weight < 0", "weight < 0"),
        (b"<html>oops</html>", None), (b"", None), (b"\x00\x01binary", None), ({"code": 3}, None), (b"3", None),
    ],
)  # fmt: skip
async def test_refusal_has_the_best_sentence_of_its_reply(body: object, sentence: str | None) -> None:
    async with answering(reply(body, 400)) as service:
        with pytest.raises(BadRequestError) as caught:
            await submit(service.exchange)
    text = str(caught.value)
    assert (f": {sentence} [POST" in text) if sentence else ("wrong [POST" in text)
    assert facts(caught.value) == ("quote/submitoffer", 400, 1)
    expected = body if isinstance(body, dict) else None
    assert expected is None or caught.value.body == expected
    assert len(service.sent) == 1


async def test_long_sentence_is_cut() -> None:
    async with answering(reply({"message": "x" * 1000}, 400)) as service:
        with pytest.raises(BadRequestError) as caught:
            await search(service.exchange)
    assert len(str(caught.value)) < 450


@pytest.mark.parametrize("size", [1_000, 9_000])
async def test_refusal_with_a_long_body_is_a_refusal(size: int) -> None:
    refusal = {"message": "The request is closed.", "trace": "x" * size}
    async with answering(reply(refusal, 400)) as service:
        with pytest.raises(BadRequestError, match="The request is closed") as caught:
            await submit(service.exchange)
    assert (len(service.sent), caught.value.may_have_taken_effect) == (1, False)
    assert isinstance(caught.value.body, dict)


NO_RECORDS = [
    "No records found.", "no records found", "No  records\nfound", "No record found", "No records were found.",
    "No results found.", "No data found", "No rate requests found", "No raterequests found.", "No requests found",
]  # fmt: skip
OTHER_SENTENCES = [
    "", "Not Found", "no route", "No routes found.", "There are no open requests", "0 records found",
    "Record not found.", "The request could not be routed", "No data available from upstream",
    "No requests are accepted",
    "No healthy upstream for request", "Request: tenant not found", "Could not find the data", "10 requests.",
    "The requested URL was not found on this server. No records found.", "No records found: the query failed",
    "Session data not found", "No DNS records found", "No record found for this user", "You have made no requests",
    "No results found. Please sign in again.", "No records found, try again", "0 of 5 records found",
]  # fmt: skip


@pytest.mark.parametrize("sentence", NO_RECORDS)
async def test_404_of_no_records_is_an_empty_listing_and_no_record(sentence: str) -> None:
    async with answering(reply({"message": sentence}, 404)) as service:
        assert list(await service.exchange.requests.search()) == []
        with pytest.raises(NotFoundError):
            await service.exchange.requests.get(4)


@pytest.mark.parametrize("sentence", OTHER_SENTENCES)
async def test_any_other_404_may_be_a_gateways(sentence: str) -> None:
    async with answering(reply({"message": sentence}, 404)) as service:
        with pytest.raises(NotFoundError, match="base_url may be wrong"):
            await service.exchange.requests.search()


async def test_each_listing_knows_its_own_name_alone() -> None:
    listings: dict[str, Callable[[FreightExchange], Any]] = {
        "offers": lambda fx: fx.offers.list(), "bids": lambda fx: fx.bids.list(), "routes": lambda fx: fx.routes.list(),
        "carriers": lambda fx: fx.carriers.list(), "currencies": lambda fx: fx.currencies.list(),
    }  # fmt: skip
    for name, listing in listings.items():
        async with answering(reply({"message": f"No {name} found."}, 404)) as service:
            assert list(await listing(service.exchange)) == []
        async with answering(reply({"message": "No rate requests found."}, 404)) as service:
            with pytest.raises(NotFoundError):
                await listing(service.exchange)


@pytest.mark.parametrize("body", [b"<html>", {"message": "no route"}])
async def test_404_is_an_empty_listing_where_the_client_is_set_so(body: object) -> None:
    async with answering(reply(body, 404), missing_list_is_empty=True) as service:
        assert await search(service.exchange) == []
        # A look-up is not a listing.
        with pytest.raises(NotFoundError) as caught:
            await service.exchange.carriers.get(4)
    assert "base_url" not in str(caught.value)


# Look-ups

BROKEN = {"index": 8, "weight": {}}


@pytest.mark.parametrize("body", [{}, {"raterequests": {}}, {"raterequests": [{"index": 9}]}])
async def test_lookup_that_finds_nothing_is_a_not_found_error(body: object) -> None:
    async with answering(reply(b"", 503), reply(b"", 503), body) as service:
        with pytest.raises(NotFoundError, match="8") as caught:
            await service.exchange.requests.get(8)
    assert facts(caught.value) == ("quote/getrequests", 200, 3)
    assert len(service.sent) == 3


@pytest.mark.parametrize(
    ("rows", "weight"),
    [
        ([{"index": 9}, {"index": "8", "weight": 1}], 1), ([{"weight": {}}, {"index": 8}], None),
        ([None, {"index": 8}], None),
        ([{"index": 9}, BROKEN], None), ([None, BROKEN], None),
    ],
)  # fmt: skip
async def test_lookup_finds_its_record_among_others(rows: list[object], weight: int | None) -> None:
    async with answering({"raterequests": rows}) as service:
        found = await service.exchange.requests.get(8)
    assert (found.index, found.weight) == (8, weight)


async def test_request_with_a_row_for_each_offer_has_all_offers() -> None:
    rows = [{"index": 4, "offer": {"offerId": at, "offerAmount": 5, "status": "pending"}} for at in (2, 1)]
    joined = {"offers": {"0": rows[0], "1": {"index": 5}, "2": rows[1]}}
    async with answering(joined, joined, {"offers": {}}, {"offers": {}}) as service:
        found = await service.exchange.offers.get(4)
        listed = await service.exchange.offers.list().collect()
    assert [offer.id for offer in found.offers] == [2, 1]
    assert [(one.index, [offer.id for offer in one.offers]) for one in listed] == [(4, [2]), (5, []), (4, [1])]


@pytest.mark.parametrize("unknown", [{"weight": {}}, {"index": []}, {"index": "FX8"}, 5, None], ids=str)
async def test_record_without_a_readable_identifier_may_be_the_wanted_one(unknown: object) -> None:
    async with answering({"raterequests": [{"index": 9}, {"index": 10}, unknown]}) as service:
        with pytest.raises(DecodeError) as caught:
            await service.exchange.requests.get(8)
    assert caught.value.path.startswith("raterequests.2")
    assert facts(caught.value) == ("quote/getrequests", 200, 1)


async def test_unreadable_part_of_another_record_is_not_the_lookups() -> None:
    offers = {"0": {"index": 7, "offer": {"0": {"offerId": "31", "offerAmount": "much"}}}, "1": {"index": 8}}
    async with answering({"offers": offers}, strict=True) as service:
        assert (await service.exchange.offers.get(8)).index == 8
        with pytest.raises(DecodeError) as caught:
            await service.exchange.offers.get(7)
    assert caught.value.path == "offers.0.offer.0.offerAmount"


async def test_search_yields_the_requests_that_its_filter_matches() -> None:
    rows = [{"index": 4, "origin": "Oslo"}, {"index": 5, "origin": "Hong Kong"}, {"index": 6}]
    async with answering({"raterequests": rows}, {"raterequests": []}) as service:
        found = await service.exchange.requests.search(where=RequestFilter(origin="hong kong")).collect()
        with pytest.raises(ValidationError, match="where must be a RequestFilter"):
            service.exchange.requests.search(where={"origin": "Oslo"})  # type: ignore[arg-type,unused-awaitable]
    assert [request.index for request in found] == [5, 6]


# Reports of unreadable parts

ROWS = [{"index": 1}, {"index": "n/a"}, None, {"index": 2, "loadingPOC": "Bob"}]
PATHS = ["offers.1.index", "offers.2", "offers.3.loadingPOC"]


def warnings(caplog: pytest.LogCaptureFixture, path: str) -> int:
    return sum(
        record.levelno == logging.WARNING
        and record.name.startswith("freight_exchange")
        and f"at {path} " in record.message
        for record in caplog.records
    )


async def test_unreadable_parts_are_reported_to_hooks_and_log(caplog: pytest.LogCaptureFixture) -> None:
    async with answering(reply({"offers": ROWS}, 200, **{"X-Request-Id": "r-17"})) as service:
        assert [listing.index for listing in await service.exchange.offers.list()] == [1, 2]
    assert service.reports == PATHS
    assert [warnings(caplog, path) for path in PATHS] == [1, 1, 1]
    events = [event for event in service.events if isinstance(event, BrokenRecord)]
    assert {(event.method, event.path, facts(event.error)) for event in events} == {
        ("GET", "quote/offer", ("quote/offer", 200, 1))
    }
    assert events[0].error.raw == {"index": "n/a"}
    [attempt] = [event for event in service.events if isinstance(event, Attempt) and event.path == "quote/offer"]
    assert {(event.error.call_id, event.error.request_id) for event in events} == {(attempt.call_id, "r-17")}


@pytest.mark.parametrize("sweep", [False, True])
@pytest.mark.parametrize("window", [1, 3])
async def test_part_that_a_reading_meets_again_is_reported_once(sweep: bool, window: int) -> None:
    async with answering({"offers": ROWS}) as service:
        listing = service.exchange.offers.list(sweep=sweep, window=window)
        assert [row.index for row in await listing.collect()] == [1, 2]
        assert len(service.sent) >= 2
        assert service.reports == PATHS
        # Another reading of the same listing reports what it meets.
        await listing
        assert service.reports == [*PATHS, *PATHS]


async def test_of_many_broken_rows_a_hundred_are_reported_and_the_others_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with answering({"offers": [*({"index": f"n{n}"} for n in range(300)), {"index": 500}]}) as service:
        assert [listing.index for listing in await service.exchange.offers.list()] == [500]
    assert service.reports[:100] == [f"offers.{n}.index" for n in range(100)]
    assert {*service.reports[100:]} == {"$"}
    assert "more parts of a reply that cannot be read" in caplog.text


async def test_strict_reading_fails_at_the_same_row_again() -> None:
    async with answering({"offers": ROWS}, strict=True) as service:
        pages = service.exchange.offers.list().pages()
        for _ in range(2):
            with pytest.raises(DecodeError, match=r"at offers\.1\.index") as caught:
                await anext(pages)
            assert facts(caught.value) == ("quote/offer", 200, 1)
        await pages.aclose()


async def test_unreadable_record_shows_no_secret() -> None:
    row = {"index": "n/a", "access_token": "canary", "notes": "the password is correct horse"}
    async with answering({"offers": [row]}) as service:
        await service.exchange.offers.list()
    [event] = [event for event in service.events if isinstance(event, BrokenRecord)]
    shown = repr(event.error.raw) + str(event.error)
    assert "canary" not in shown
    assert "correct horse" not in shown


# Currencies by code

USD = {"index": 1, "name": "US Dollar", "code": " usd "}
EUR = {"index": 2, "name": "Euro", "code": "EUR"}


async def test_empty_list_of_currencies_is_not_kept() -> None:
    async with answering({"currencies": []}, {"currencies": [USD]}) as service:
        with pytest.raises(ValidationError, match="none"):
            await service.exchange.currencies.by_code("USD")
        assert (await service.exchange.currencies.by_code("Usd ")).index == 1


@pytest.mark.virtual_time
async def test_code_that_the_list_lacks_is_looked_for_again_after_a_minute() -> None:
    async with answering({"currencies": [USD]}, {"currencies": [USD, EUR]}) as service:
        by_code = service.exchange.currencies.by_code
        await by_code("USD")
        with pytest.raises(ValidationError, match="which has USD"):
            await by_code("EUR")
        assert len(service.sent) == 1
        await anyio.sleep(61)
        await by_code("USD")
        assert len(service.sent) == 1
        assert (await by_code("EUR")).index == 2
        with pytest.raises(ValidationError, match="which has EUR, USD"):
            await by_code("GBP")
        assert len(service.sent) == 2


@pytest.mark.parametrize("listed", [[], [USD]], ids=["an empty list", "a list"])
async def test_many_who_wait_for_the_currencies_fetch_them_once(listed: list[object]) -> None:
    refused: list[ValidationError] = []

    async def look(service: Service) -> None:
        try:
            await service.exchange.currencies.by_code("EUR")
        except ValidationError as error:
            refused.append(error)

    async with answering({"currencies": listed}) as service:
        await service.exchange.login()
        async with anyio.create_task_group() as group:
            for _ in range(50):
                group.start_soon(look, service)
    assert len(refused) == 50
    assert len(service.sent) == 1


async def test_code_of_two_currencies_is_refused() -> None:
    async with answering({"currencies": [USD, EUR | {"code": "USD"}]}) as service:
        with pytest.raises(ValidationError, match="index, one of 1, 2") as caught:
            await service.exchange.currencies.by_code("USD")
        assert caught.value.field == "code"
        with pytest.raises(ValidationError, match="index, one of 1, 2") as caught:
            await service.exchange.bids.submit(4, amount=5, currency="USD")
        assert caught.value.field == "currency"
    assert {request.url.path for request in service.sent} == {"/root/api/currency"}


async def test_code_of_an_offer_is_resolved_through_the_services_list() -> None:
    async with answering({"currencies": [USD, EUR]}, bid(currencyIndex=2)) as service:
        await service.exchange.bids.submit(4, amount="1840.50", currency="eur")
    assert service.bodies[1]["currencyIndex"] == 2


# Any other call


async def test_request_sends_any_call_and_returns_its_json() -> None:
    seen: list[Request] = []

    async def note(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        seen.append(request)
        return await call_next(request)

    async with answering({"a": [1.5, {"b": None}]}, middleware=[note]) as service:
        fx = service.exchange
        parsed = await fx.request("get", "/route", params={"index": 301, "timezone": "Asia/Hong_Kong"})
        await fx.request("POST", "quote/new", body={"n": [Decimal("1840.50"), Decimal("1E+3")], "b": (True, None, "é")})
    assert repr(parsed) == "{'a': [Decimal('1.5'), {'b': None}]}"
    assert (service.sent[0].method, service.sent[0].url.path) == ("GET", "/root/api/route")
    assert dict(service.sent[0].url.params) == {"index": "301", "timezone": "Asia/Hong_Kong"}
    assert service.sent[1].content == '{"n":[1840.50,1000],"b":[true,null,"é"]}'.encode()
    assert [request.params for request in seen if request.path == "route"] == [
        (("index", "301"), ("timezone", "Asia/Hong_Kong"))
    ]


@pytest.mark.parametrize("body", [b"", b" \r\n", b"\xef\xbb\xbf"])
async def test_request_returns_none_for_an_empty_reply(body: bytes) -> None:
    async with answering(body) as service:
        assert await service.exchange.request("POST", "anything", body={}) is None
        assert await service.exchange.request("GET", "anything") is None


@pytest.mark.parametrize(
    ("method", "repeatable", "attempts"), [("GET", False, 3), ("HEAD", False, 3), ("POST", True, 3), ("POST", False, 1)]
)
async def test_request_repeats_only_what_is_repeatable(method: str, repeatable: bool, attempts: int) -> None:
    async with answering(reply(b"{}", 503)) as service:
        with pytest.raises(FreightExchangeError) as caught:
            await service.exchange.request(method, "quote/new", repeatable=repeatable)
    assert len(service.sent) == attempts
    assert isinstance(caught.value, OutcomeUnknownError) is (attempts == 1)


def deep(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        float("nan"), float("inf"), Decimal("NaN"), Decimal("-Infinity"), Decimal("1e999999"), 10**5000, "\ud800",
        {"\ud800": 1}, {1: 2}, {"a": object()}, b"bytes", {1, 2}, deep(65), deep(1000),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
async def test_body_that_json_lacks_is_refused_before_anything_is_sent(value: object) -> None:
    async with answering({}) as service:
        with pytest.raises(ValidationError) as caught:
            await service.exchange.request("POST", "quote/new", body=value)
    assert caught.value.field == "body"
    assert (service.sent, service.logins) == ([], [])


async def test_body_may_nest_as_deep_as_a_reply() -> None:
    async with answering(json.dumps(deep(64))) as service:
        assert await service.exchange.request("POST", "quote/new", body=deep(64)) == deep(64)
    assert json.loads(service.sent[0].content) == deep(64)
