"""Tests of every operation over real sockets, on asyncio and trio."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from tests.contract.conftest import Fill
from tests.contract.coverage import ROWS, Row
from tests.contract.scenarios import NOW, ROUTE, Outcomes, new_exchange, run_scenario, summarize
from tests.contract.test_quirks import as_documented, differing

from freight_exchange import (
    BadRequestError,
    FreightExchange,
    NotFoundError,
    OutcomeUnknownError,
    Paginator,
    Route,
)
from freight_exchange.sandbox import FAULTS, Account, Exchange, Profile
from freight_exchange.sandbox.faces.tcp import serve_tcp

each_row = pytest.mark.parametrize("row", ROWS, ids=str)

PUBLISHED = {"full": 6, "bare": 7}
SUBMITTED = {"full": 4, "bare": 1, "second": 4, "late": "BadRequestError", "unknown": "BadRequestError"}
ANSWERED = {
    "declined": 2,
    "approved": 2,
    "again": "BadRequestError",
    "another": "BadRequestError",
    "unknown": "BadRequestError",
}

SUMMARIES: Mapping[str, Mapping[str, object]] = {
    "POST login": {"user": None, "again": None, "known": None, "wrong": "LoginRejectedError"},
    "GET quote/request": {
        "all": [4, 2, 1],
        "paged": [4, 2, 1],
        "recent": [4],
        "none": [],
        "one": 4,
        "old": 1,
        "missing": "NotFoundError",
    },
    "POST quote/request (publish)": PUBLISHED,
    "POST quote/request (submit)": SUBMITTED,
    "POST quote/submitrequest": PUBLISHED,
    "POST request": PUBLISHED,
    "POST quote/getrequests": {
        "all": [5, 4, 3, 2, 1],
        "paged": [5, 4, 3, 2, 1],
        "accept": [5, 3],
        "pending": [4, 2, 1],
        "recent": [5, 4, 3],
        "none": [],
        "one": 4,
        "old": 1,
        "settled": 3,
        "missing": "NotFoundError",
    },
    "GET route": {
        "all": [303, 302, 301],
        "paged": [303, 302, 301],
        "named": [301],
        "part": [],
        "carrier": [302],
        "sailing": [302],
        "none": [],
        "one": 302,
        "missing": "NotFoundError",
    },
    "POST route": {"full": 304, "wrong": "BadRequestError"},
    "PUT route": {"full": 301, "unknown": "BadRequestError"},
    "GET quote/offer": {
        "all": [5, 4, 3, 2, 1],
        "paged": [5, 4, 3, 2, 1],
        "none": [],
        "one": 2,
        "bare": 4,
        "settled": 3,
        "missing": "NotFoundError",
    },
    "POST quote/offer": ANSWERED,
    "POST quote/getoffers": {
        "all": [5, 4, 3, 2, 1],
        "paged": [5, 4, 3, 2, 1],
        "offers": [5, 3, 2],
        "sel": [5, 3],
        "nsel": [4, 2, 1],
        "none": [],
    },
    "POST quote/approveoffer": ANSWERED,
    "GET quote/bid": {
        "all": [5, 3, 2],
        "paged": [5, 3, 2],
        "none": [],
        "active": [2],
        "sel": [3],
        "nsel": [5],
        "offers": [5, 3, 2],
    },
    "POST quote/bid": SUBMITTED,
    "POST quote/submitoffer": SUBMITTED,
    "GET carrier": {"all": [1, 2, 3, 7, 12], "one": 7, "missing": "NotFoundError"},
    "GET currency": {
        "all": [840, 978, 344, 156, 826, 392, 702],
        "one": 826,
        "missing": "NotFoundError",
        "code": 826,
        "unknown": "ValidationError(code)",
    },
}
"""Summaries of the scenarios, worked out by hand."""


@asynccontextmanager
async def served(exchange: Exchange) -> AsyncIterator[Callable[..., FreightExchange]]:
    """Serve the exchange on a free port; yield the function that creates clients."""
    async with serve_tcp(exchange, clock=lambda: NOW) as server:

        def connect(account: Account, *, password: str | None = None, **options: Any) -> FreightExchange:
            secret = account.password if password is None else password
            return FreightExchange(server.url, email=account.email, password=secret, **options)

        yield connect


async def run_over_http(row: Row, profile: Profile, **options: Any) -> tuple[Outcomes, Exchange]:
    exchange = new_exchange(profile)
    async with served(exchange) as connect:
        return await run_scenario(row, exchange, connect, **options), exchange


@each_row
@pytest.mark.both_backends
async def test_operation_returns_documented_records(row: Row, anyio_backend: str, fill: Fill) -> None:
    outcomes, exchange = await run_over_http(row, Profile())
    assert summarize(outcomes) == SUMMARIES[row.name]
    assert differing(outcomes, await as_documented(row, Profile())) == {}
    calls = exchange.audit_log.calls_to(row.method, row.path)
    assert any(call.processed for call in calls)
    others = {(call.method, call.path) for call in exchange.audit_log.calls} - {(row.method, row.path)}
    assert others <= {("POST", "login"), ("GET", "currency"), ("GET", "route")}
    fill(row.name, "http", anyio_backend)


@pytest.mark.parametrize("row", [row for row in ROWS if row.method == "GET"], ids=str)
@pytest.mark.parametrize("get_body", ["read", "dropped"])
async def test_get_parameters_in_query_return_same_records(row: Row, get_body: Any) -> None:
    outcomes, exchange = await run_over_http(row, Profile(get_body=get_body), get_parameters="query")
    assert summarize(outcomes) == SUMMARIES[row.name]
    assert all(call.body == b"" for call in exchange.audit_log.calls if call.method == "GET")


@pytest.mark.parametrize("row", [row for row in ROWS if row.call == "bids.submit()"], ids=str)
@pytest.mark.parametrize(
    ("option", "wanted", "fields"),
    [
        ("currencyIndex", "currencyIndex", {"currencyIndex"}),
        ("currencyId", "currencyId", {"currencyId"}),
        ("both", "currencyIndex", {"currencyIndex", "currencyId"}),
        ("both", "currencyId", {"currencyIndex", "currencyId"}),
    ],
)
async def test_currency_field_option_sets_name(row: Row, option: str, wanted: Any, fields: set[str]) -> None:
    outcomes, exchange = await run_over_http(row, Profile(currency_field=wanted), currency_field=option)
    assert summarize(outcomes) == SUMMARIES[row.name]
    sent = exchange.audit_log.calls_to(row.method, row.path)[-1].parameters
    assert {name for name in sent if name.startswith("currency")} == fields


@pytest.mark.parametrize("row", [row for row in ROWS if row.path == "route" and row.method != "GET"], ids=str)
@pytest.mark.parametrize(
    ("option", "wanted", "fields"),
    [
        ("carrier", "carrier", {"carrier"}),
        ("carrierId", "carrierId", {"carrierId"}),
        ("both", "carrier", {"carrier", "carrierId"}),
        ("both", "carrierId", {"carrier", "carrierId"}),
    ],
)
async def test_carrier_field_option_sets_name(row: Row, option: str, wanted: Any, fields: set[str]) -> None:
    outcomes, exchange = await run_over_http(row, Profile(carrier_field=wanted), carrier_field=option)
    assert summarize(outcomes) == SUMMARIES[row.name]
    sent = exchange.audit_log.calls_to(row.method, row.path)[-1].parameters
    assert {name for name in sent if name.startswith("carrier")} == fields


DAY = datetime(2030, 1, 5)

FILTERS: list[tuple[str, object, str, object, list[int]]] = [
    ("origin", "Shanghai", "origin", "Shanghai", [302]),
    ("destination", "New York", "destination", "New York", [303]),
    ("carrier", 1, "carrierId", 1, [301]),
    ("vessel", "Meridian Hansa", "vessel", "Meridian Hansa", [303]),
    ("voyage_id", "118W", "voyageId", "118W", [302]),
    ("timezone", "Europe/Berlin", "timezone", "Europe/Berlin", [303]),
    ("departure", datetime(2030, 1, 4, 6), "departure", "2030-01-04 06:00:00", [301]),
    ("arrival", datetime(2030, 2, 6, 8), "arrival", "2030-02-06 08:00:00", [302]),
    ("cy_cutoff", datetime(2030, 1, 5, 18), "cycutoff", "2030-01-05 18:00:00", [302]),
    ("cfs_cutoff", datetime(2030, 1, 1, 12), "cfscutoff", "2030-01-01 12:00:00", [301]),
    ("departs_from", DAY, "departStart", "2030-01-05 00:00:00", [303, 302]),
    ("departs_until", DAY, "departEnd", "2030-01-05 00:00:00", [301]),
    ("arrives_from", datetime(2030, 1, 20), "arrivalStart", "2030-01-20 00:00:00", [303, 302]),
    ("arrives_until", datetime(2030, 1, 20), "arrivalEnd", "2030-01-20 00:00:00", [301]),
    ("cy_from", DAY, "cyStart", "2030-01-05 00:00:00", [303, 302]),
    ("cy_until", DAY, "cyEnd", "2030-01-05 00:00:00", [301]),
    ("cfs_from", DAY, "cfsStart", "2030-01-05 00:00:00", [303]),
    ("cfs_until", DAY, "cfsEnd", "2030-01-05 00:00:00", [302, 301]),
]


@pytest.mark.parametrize("get_parameters", ["body", "query"])
async def test_route_filters_reach_service(get_parameters: Any) -> None:
    exchange = new_exchange()
    async with served(exchange) as connect, connect(exchange.forwarder, get_parameters=get_parameters) as fx:
        for name, value, key, written, found in FILTERS:
            exchange.audit_log.forget()
            listed: Paginator[Route] = fx.routes.list(**{name: value})  # type: ignore[arg-type]  # filters by name
            assert [route.index for route in await listed] == found, name
            sent = dict(exchange.audit_log.calls_to("GET", "route")[-1].parameters)
            assert sent.pop(key) == (written if get_parameters == "body" else str(written)), name
            assert sent.keys() == {"offset", "rowsperpage"}, name
        assert [route.index for route in await fx.routes.list(departs_from=DAY, carrier=3, origin="Hamburg")] == [303]


async def test_carrier_filter_takes_record() -> None:
    exchange = new_exchange()
    async with served(exchange) as connect, connect(exchange.forwarder) as fx:
        carrier = await fx.carriers.get(2)
        assert [route.index for route in await fx.routes.list(carrier=carrier)] == [302]


async def test_list_parameters_reach_service() -> None:
    exchange = new_exchange()
    audit_log = exchange.audit_log

    def sent(method: str, path: str) -> Mapping[str, object]:
        return audit_log.calls_to(method, path)[-1].parameters

    async with served(exchange) as connect, connect(exchange.forwarder) as fx, connect(exchange.shipper) as shipper:
        assert len(await fx.requests.open(since=timedelta(hours=2.0001), page_size=7)) == 2
        assert sent("GET", "quote/request") == {"secondsSinceUpdate": 7201, "offset": 0, "rowsperpage": 7}
        assert len(await fx.requests.search(type="accept", since=timedelta(days=1), page_size=3)) == 2
        window = {"secondsSinceUpdate": 86400, "offset": 0, "rowsperpage": 3}
        assert sent("POST", "quote/getrequests") == {"type": "accept", **window}
        assert [page.number async for page in fx.requests.search(page_size=2).pages(start=1)] == [1, 2]
        # Twenty rows past the end.
        assert sent("POST", "quote/getrequests")["offset"] == 12
        assert len(await shipper.offers.list(page_size=2)) == 2
        assert sent("GET", "quote/offer") == {"offset": 0, "rowsperpage": 2}
        assert len(await shipper.offers.search(type="nsel", page_size=4)) == 3
        assert sent("POST", "quote/getoffers") == {"type": "nsel", "offset": 0, "rowsperpage": 4}
        assert len(await fx.bids.list(type="sel", page_size=5)) == 1
        assert sent("GET", "quote/bid") == {"type": "sel", "offset": 0, "rowsperpage": 5}
        assert len(await fx.carriers.list()) == 5
        assert sent("GET", "carrier") == {}
        assert len(await fx.currencies.list()) == 7
        assert sent("GET", "currency") == {}


async def test_records_are_accepted_as_arguments() -> None:
    exchange = new_exchange()
    async with served(exchange) as connect, connect(exchange.forwarder) as fx, connect(exchange.shipper) as shipper:
        request, euro = await fx.requests.get_open(4), await fx.currencies.by_code("EUR")
        bid = await fx.bids.submit(request, amount=0.1, currency=euro)
        assert (bid.index, bid.amount, bid.currency) == (4, Decimal("0.1"), 978)
        listing = await shipper.offers.get(4)
        approved = await shipper.offers.approve(listing.offers[0])
        assert approved.selected is not None
        assert approved.selected.id == 5008
        assert approved.contact is not None
        assert approved.contact.email == "forwarder@demo.example"
        created = await fx.routes.create(ROUTE)
        assert created is not None
        assert await fx.routes.get(created.index) == created


async def test_request_sends_any_call() -> None:
    exchange = new_exchange()
    async with served(exchange) as connect, connect(exchange.forwarder) as fx:
        one = await fx.request("GET", "carrier", body={"index": 7})
        assert one == {"carriers": {"0": {"index": 7, "name": "Northern Air Cargo"}}}
        assert await fx.request("get", "/currency", params={"index": 978}) == {
            "currencies": {"0": {"index": 978, "name": "Euro", "code": "EUR"}}
        }
        found = await fx.request("POST", "quote/getrequests", body={"index": 4}, repeatable=True)
        assert found["raterequests"]["0"]["width"] == Decimal("0.8")
        with pytest.raises(NotFoundError):
            await fx.request("GET", "quote/nowhere")
        with pytest.raises(BadRequestError):
            await fx.request("POST", "quote/submitoffer", body={"requestIndex": 4})
        exchange.faults.add(*FAULTS["reset_after_processing"](path="quote/submitoffer"))
        with pytest.raises(OutcomeUnknownError):
            await fx.request("POST", "quote/submitoffer", body={"requestIndex": 4, "offer": 5, "currencyIndex": 840})
        assert len(exchange.audit_log.offers_on(4)) == 1
