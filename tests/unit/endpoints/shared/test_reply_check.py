"""Tests of replies that do not match the write: a doubt, never a success and never a second send."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from datetime import datetime
from decimal import Context, Decimal, Inexact, Rounded, localcontext
from typing import Any

import httpx
import pytest

from freight_exchange import (
    Applied,
    FreightExchange,
    Listing,
    OutcomeUnknownError,
    RateRequestDraft,
    RouteDraft,
)
from freight_exchange.endpoints.shared.reply_check import is_rounded

DRAFT = RateRequestDraft(
    commodity="Tiles", type="Shipping", origin="Hong Kong", destination="Long Beach", arrival=datetime(2027, 3, 1),
    packaging="pallet", quantity=2, length=2, width=1, height=1, weight=640, incoterm="FOB", hazardous=False,
)  # fmt: skip
ROUTE = RouteDraft(
    origin="Hong Kong", destination="Los Angeles", cy_cutoff=datetime(2027, 3, 1), cfs_cutoff=datetime(2027, 3, 1),
    departure=datetime(2027, 3, 4), arrival=datetime(2027, 3, 20), carrier=1, vessel="Aurora", voyage_id="041E",
    timezone="Asia/Hong_Kong",
)  # fmt: skip
REQUEST = {
    "index": 7, "commodityname": "Tiles", "origin": "Hong Kong", "destination": "Long Beach",
    "qty": 2, "length": 1, "width": 2, "height": 1, "needdate": "2027-03-02 00:00:00",
}  # fmt: skip
SHOWN_ROUTE = {"index": 301, "origin": "HONG KONG", "destination": "Los Angeles", "voyageId": "041E", "carrier": 1}


def bid(index: Any = 4, amount: Any = "1840.50", currency: Any = 840) -> dict[str, Any]:
    offer = {"index": "9", "offerAmount": amount, "currencyIndex": currency, "status": "pending"}
    return {"bid": {"index": index, "offer": {key: value for key, value in offer.items() if value is not None}}}


def approval(request: int = 4, offer: int | None = 17, status: str = "selected") -> dict[str, Any]:
    return {"offers": {"0": {"index": request, "offer": {"offerIndex": offer, "offerAmount": 5, "status": status}}}}


class Service:
    """Service with one fixed reply to writes, which counts the writes and the logins."""

    def __init__(self, reply: object, status: int = 200) -> None:
        self.reply = reply
        self.status = status
        self.writes = 0
        self.logins = 0

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/login"):
            self.logins += 1
            return httpx.Response(200, json={"user": {"access_token": f"t{self.logins}", "expires_on": 3600}})
        self.writes += 1
        body = self.reply if isinstance(self.reply, str) else json.dumps(self.reply)
        return httpx.Response(self.status, content=body.encode())

    def client(self) -> FreightExchange:
        http_client = httpx.AsyncClient(transport=httpx.MockTransport(self))
        return FreightExchange("https://host.example/api", email="a@b.example", password="x", http_client=http_client)


Call = Callable[[FreightExchange], Awaitable[object]]


def submit(exchange: FreightExchange) -> Awaitable[object]:
    return exchange.bids.submit(4, amount="1840.50", currency=840)


CONTRADICTIONS: dict[str, tuple[Call, object]] = {
    "another request": (submit, bid(index=5)),
    "another amount": (submit, bid(amount="1850.50")),
    "another amount, as whole": (submit, bid(amount="1842")),
    "another currency": (submit, bid(currency=978)),
    "another publication": (lambda fx: fx.requests.publish(DRAFT), {"raterequests": {"0": {**REQUEST, "qty": 9}}}),
    "another lane and commodity": (
        lambda fx: fx.requests.publish(DRAFT),
        {"raterequests": {"0": {**REQUEST, "commodityname": "Fish", "origin": "Oslo", "destination": "Faro"}}},
    ),
    "approval of another offer": (lambda fx: fx.offers.approve(17), approval(offer=18)),
    "approval that is pending": (lambda fx: fx.offers.approve(17), approval(status="pending")),
    "approval that is pending, of no id": (lambda fx: fx.offers.approve(17), approval(offer=None, status="pending")),
    "another route": (
        lambda fx: fx.routes.create(ROUTE),
        {"routes": {"0": {"index": 1, "origin": "Oslo", "destination": "Faro", "voyageId": "7"}}},
    ),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
async def test_reply_about_something_else_is_a_doubt(name: str) -> None:
    call, reply = CONTRADICTIONS[name]
    service = Service(reply)
    async with service.client() as exchange:
        with pytest.raises(OutcomeUnknownError, match="does not match what was sent") as caught:
            await call(exchange)
    assert caught.value.write is not None
    assert service.writes == 1


AGREEMENTS: dict[str, tuple[Call, object]] = {
    "as sent": (submit, bid()),
    "rounded to whole units": (submit, bid(amount="1841")),
    "truncated": (submit, bid(amount=1840)),
    "fewer fields": (submit, bid(amount=None, currency=None)),
    "permuted dimensions, another date": (lambda fx: fx.requests.publish(DRAFT), {"raterequests": {"0": REQUEST}}),
    "one word respelt": (
        lambda fx: fx.requests.publish(DRAFT),
        {"raterequests": {"0": {**REQUEST, "origin": "Hong Kong, HK"}}},
    ),
    "approved": (lambda fx: fx.offers.approve(17), approval()),
    "approved, of no id": (lambda fx: fx.offers.approve(17), approval(offer=None)),
    "route": (lambda fx: fx.routes.create(ROUTE), {"routes": {"0": SHOWN_ROUTE}}),
}


@pytest.mark.parametrize("name", AGREEMENTS)
async def test_reply_that_rounds_permutes_or_leaves_out_is_a_success(name: str) -> None:
    call, reply = AGREEMENTS[name]
    service = Service(reply)
    async with service.client() as exchange:
        assert await call(exchange) is not None


@pytest.mark.parametrize(
    ("received", "sent", "rounded"),
    [
        ("1840.50", "1840.5", True), ("1840.57", "1840.567", True), ("1840.56", "1840.567", True),
        ("1841", "1840.5", True), ("1840", "1840.999", True), ("1E+3", "1000.4", True),
        ("1840.6", "1840.50", False), ("1841.50", "1840.50", False), ("1842", "1840.5", False), ("0", "0.5", True),
    ],
)  # fmt: skip
def test_amount_is_rounded_if_only_its_last_digits_differ(received: str, sent: str, rounded: bool) -> None:
    assert is_rounded(Decimal(received), Decimal(sent)) is rounded


@pytest.mark.parametrize("name", ["as sent", "rounded to whole units", "permuted dimensions, another date"])
async def test_check_of_a_reply_ignores_the_decimal_context_of_the_program(name: str) -> None:
    call, reply = AGREEMENTS[name]
    async with Service(reply).client() as exchange:
        with localcontext(Context(prec=1, traps=[Inexact, Rounded])):
            assert await call(exchange) is not None


def test_few_digits_in_the_programs_context_widen_no_rounding() -> None:
    with localcontext(prec=1):
        assert not is_rounded(Decimal("1840.6"), Decimal("1840.50"))


@pytest.mark.parametrize("value", [None, False, "", 0, "access denied"])
async def test_result_beside_unauthorized_is_a_success_and_not_sent_again(value: object) -> None:
    service = Service({**bid(), "Unauthorized": value})
    async with service.client() as exchange:
        assert await submit(exchange) is not None
    assert (service.writes, service.logins) == (1, 1)


@pytest.mark.parametrize("value", [None, False, "", 0])
async def test_empty_unauthorized_alone_is_a_doubt_and_not_sent_again(value: object) -> None:
    service = Service({"Unauthorized": value})
    async with service.client() as exchange:
        with pytest.raises(OutcomeUnknownError):
            await submit(exchange)
    assert (service.writes, service.logins) == (1, 1)


async def test_refusal_alone_is_replayed_after_one_login() -> None:
    service = Service({"Unauthorized": "access denied"})
    async with service.client() as exchange:
        with pytest.raises(Exception, match="does not accept the token"):
            await submit(exchange)
    assert (service.writes, service.logins) == (2, 2)


@pytest.mark.parametrize("reply", ["{}", "[]", "null", "", '{"offers": {}}', '{"message": "Offer declined."}'])
async def test_decline_succeeds_on_any_undocumented_reply(reply: str) -> None:
    service = Service(reply)
    async with service.client() as exchange:
        assert await exchange.offers.decline(17) is None


@pytest.mark.parametrize("reply", ["false", "[1]", '{"success": false}', '{"error": "no such offer"}', "<html>"])
async def test_decline_whose_reply_speaks_of_failure_is_a_doubt(reply: str) -> None:
    service = Service(reply)
    async with service.client() as exchange:
        with pytest.raises(OutcomeUnknownError):
            await exchange.offers.decline(17)


@pytest.mark.virtual_time
@pytest.mark.parametrize("back", [False, True])
async def test_declined_offer_that_is_gone_is_proof_only_if_it_stays_gone(back: bool) -> None:
    """A replica that lags may lack the offer for a while."""
    offer = {"offerId": "17", "offerAmount": 5, "currencyId": 840, "status": "pending"}
    looks = 0

    def answer(request: httpx.Request) -> httpx.Response:
        nonlocal looks
        if request.url.path.endswith("/login"):
            return httpx.Response(200, json={"user": {"access_token": "t", "expires_on": 3600}})
        if request.url.path.endswith("approveoffer"):
            return httpx.Response(500)
        if b'"offset":0' not in request.content:
            return httpx.Response(200, json={"offers": {}})
        looks += 1
        held = [offer] if looks == 1 or (back and looks > 3) else []
        return httpx.Response(200, json={"offers": {"0": {"index": 4, "offer": held}}})

    http_client = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    async with FreightExchange(
        "https://host.example/api", email="a@b.example", password="x", http_client=http_client
    ) as exchange:
        await exchange.offers.list().collect()
        with pytest.raises(OutcomeUnknownError) as caught:
            await exchange.offers.decline(17)
        found = await caught.value.reconcile()
    if back:
        assert not isinstance(found, Applied)
    else:
        assert type(found) is Applied
        assert isinstance(found.record, Listing)
