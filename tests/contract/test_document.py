"""Tests of the SDK and the sandbox against the service document: each call's request, reply and record.

The JSON of the bodies and replies is typed by hand from the document's tables and sentences. It judges the SDK and the
sandbox alike, and neither generated it.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final

import attrs
import httpx
import pytest
from tests.contract import documented as doc
from tests.contract.support import WIRES, Side, Wire, opened
from tests.support.one_call import TOKEN, answering, reply

from freight_exchange import FreightExchange, LoginRejectedError

ROWS: Final = {"offset": 0, "rowsperpage": 0}
"""Parameters of a listing's first page; its number of rows is paging's affair, so any is right."""
ALL_DAYS: Final = {"secondsSinceUpdate": 432000}


@attrs.frozen
class Contract:
    """Call of the SDK, its documented request and reply, and the record of that reply.

    Attributes:
        name: The call in words.
        line: The method and path of the request.
        call: The call of the SDK.
        body: The body of the request, `None` without one.
        reply: The name of the reply in `documented.REPLIES`.
        record: What the call returns.
        scene: The state of the sandbox before the call.
        by: The account that calls.
        is_shown_state: Whether this scene is the state that the reply shows, so that the sandbox's own has its form.
        options: Options of the client.
    """

    name: str
    line: str
    call: Callable[[FreightExchange], Awaitable[object]]
    body: dict[str, Any] | None
    reply: str
    record: object
    scene: str = "published"
    by: Side = "forwarder"
    is_shown_state: bool = True
    options: dict[str, Any] = attrs.field(factory=dict)

    def __str__(self) -> str:
        return f"{self.name} at {self.line}"


# fmt: off


def _reads() -> list[Contract]:
    opens, search, route, offer = "GET quote/request", "POST quote/getrequests", "GET route", "GET quote/offer"
    offers, bid, one, none = "POST quote/getoffers", "GET quote/bid", [doc.REQUEST], "no requests"
    lookup = {"index": 4, **ALL_DAYS}
    by_post, text = {"addresses": {"get_offer": "quote/getoffers"}}, {"index_type": "string"}
    hour, minute = timedelta(hours=1), timedelta(minutes=1)

    def bids(kind: str, reply: str = "bids", record: Any = doc.BIDS, *, shown: bool = False) -> Contract:
        body = {"type": kind, **ROWS}
        listed: Any = lambda fx: fx.bids.list(type=kind).collect()  # noqa: E731
        return Contract(f"bids {kind}", bid, listed, body, reply, record, "selected and pending", is_shown_state=shown)

    def asked(kind: str, scene: str, reply: str, record: Any, *, shown: bool = True) -> Contract:
        body, listed = {"type": kind, **ROWS}, lambda fx: fx.offers.search(type=kind).collect()
        return Contract(f"offers {kind}", offers, listed, body, reply, record, scene, "shipper", is_shown_state=shown)

    return [
        Contract("open", opens, lambda fx: fx.requests.open().collect(), {**ROWS, **ALL_DAYS}, "requests", one),
        Contract(
            "open of an hour", opens, lambda fx: fx.requests.open(since=hour).collect(),
            {**ROWS, "secondsSinceUpdate": 3600}, "requests", one,
        ),
        Contract("open one", opens, lambda fx: fx.requests.get_open(4), lookup, "requests", doc.REQUEST),
        Contract(
            "search", search, lambda fx: fx.requests.search().collect(), {"type": "all", **ROWS, **ALL_DAYS},
            "requests", one,
        ),
        Contract(
            "search pending", search, lambda fx: fx.requests.search(type="pending", since=minute).collect(),
            {"type": "pending", **ROWS, "secondsSinceUpdate": 60}, "requests", one,
        ),
        Contract(
            "search accept", search, lambda fx: fx.requests.search(type="accept").collect(),
            {"type": "accept", **ROWS, **ALL_DAYS}, none, [],
        ),
        Contract("search one", search, lambda fx: fx.requests.get(4), lookup, "requests", doc.REQUEST),
        Contract("routes", route, lambda fx: fx.routes.list().collect(), ROWS, "routes", [doc.ROUTE]),
        Contract("one route", route, lambda fx: fx.routes.get(301), {"index": 301}, "routes", doc.ROUTE),
        Contract(
            "one route by text", route, lambda fx: fx.routes.get(301), {"index": "301"}, "routes", doc.ROUTE,
            options=text,
        ),
        Contract(
            "routes that match", route, lambda fx: fx.routes.list(**doc.FILTERS).collect(),
            {
                "origin": "Hong Kong", "destination": "Long Beach", "carrierId": 3, "vessel": "Ever Given",
                "voyageId": "041E", "timezone": "Asia/Hong_Kong", "departure": "2027-01-04 06:00:00",
                "arrival": "2027-01-19 14:00:00", "cycutoff": "2027-01-02 17:00:00", "cfscutoff": "2027-01-01 12:00:00",
                "departStart": "2027-01-03 00:00:00", "departEnd": "2027-01-05 00:00:00",
                "arrivalStart": "2027-01-18 00:00:00", "arrivalEnd": "2027-01-20 00:00:00",
                "cyStart": "2027-01-02 00:00:00", "cyEnd": "2027-01-03 00:00:00", "cfsStart": "2027-01-01 00:00:00",
                "cfsEnd": "2027-01-02 00:00:00", **ROWS,
            },
            "no routes", [],
        ),
        Contract(
            "own offers", offer, lambda fx: fx.offers.list().collect(), ROWS, "offers", doc.LISTINGS, "offered",
            "shipper",
        ),
        Contract(
            "offers on one request", offer, lambda fx: fx.offers.get(4), {"index": 4}, "selected offer", doc.SELECTED,
            "selected", "shipper",
        ),
        Contract(
            "offers on one request by POST", offers, lambda fx: fx.offers.get(4), {"type": "all", "index": 4},
            "selected offer", doc.SELECTED, "selected", "shipper", options=by_post,
        ),
        asked("all", "offered", "offers", doc.LISTINGS),
        asked("offers", "offered", "offers", doc.LISTINGS, shown=False),
        asked("sel", "selected", "selected offer", [doc.SELECTED]), asked("nsel", "only selected", "no offers", []),
        Contract("own bids", bid, lambda fx: fx.bids.list().collect(), ROWS, "bids", doc.BIDS, "selected and pending"),
        bids("active"), bids("sel"), bids("nsel", "no bids", []), bids("offers", shown=True),
        Contract("carriers", "GET carrier", lambda fx: fx.carriers.list().collect(), None, "carriers", doc.CARRIERS),
        Contract(
            "one carrier", "GET carrier", lambda fx: fx.carriers.get(3), {"index": 3}, "carriers", doc.CARRIERS[0]
        ),
        Contract(
            "currencies", "GET currency", lambda fx: fx.currencies.list().collect(), None, "currencies", doc.CURRENCIES
        ),
        Contract(
            "one currency", "GET currency", lambda fx: fx.currencies.get(978), {"index": 978}, "currencies",
            doc.CURRENCIES[1],
        ),
    ]


PUBLICATION: Final = {
    "commodityname": "Ceramic tiles", "requesttype": "Air Freight", "origin": "Hong Kong", "destination": "Long Beach",
    "arrival": "2027-03-01 09:30:00", "packaging": "pallet", "quantity": 20, "length": 1.2, "width": 1.05,
    "height": 0.9, "weight": 640.5, "incoterm": "FOB", "hazardous": 1, "notes": "Keep dry.",
}
BARE_PUBLICATION: Final = {
    "commodityname": "Ceramic tiles", "requesttype": "Warehousing", "origin": "Hong Kong", "destination": "Long Beach",
    "arrival": "2027-03-01 00:00:00", "packaging": "carton", "quantity": 1, "length": 22.68, "width": 1, "height": 1,
    "weight": 7, "incoterm": "CIF", "hazardous": 0,
}
FEES: Final = {"Ocean Freight": 1700, "Chassis Fee": 140.5}
OFFER: Final = {"requestIndex": 4, "offer": 1840.5, "rates": FEES, "terms": "valid 14 days"}
ROUTE: Final = {
    "origin": "Hong Kong", "destination": "Long Beach", "cycutoff": "2027-01-02 17:00:00",
    "cfscutoff": "2027-01-01 12:00:00", "departure": "2027-01-04 06:00:00", "arrival": "2027-01-19 14:00:00",
    "vessel": "Ever Given", "voyageId": "041E", "timezone": "Asia/Hong_Kong",
}


def _submit(fx: FreightExchange) -> Awaitable[object]:
    return fx.bids.submit(4, amount="1840.5", currency=978, rates=FEES, terms="valid 14 days")


def _writes() -> list[Contract]:
    found = [
        Contract(
            "login", "POST login", lambda fx: fx.login(), {"email": "me@co.example", "password": "correct horse"},
            "login", doc.USER, "registered",
        )
    ]
    for path in ("quote/submitrequest", "quote/request", "request"):
        at: Any = {"line": f"POST {path}", "by": "shipper", "options": {"addresses": {"publish": path}}}
        at |= {"reply": "requests", "record": doc.REQUEST}
        full: Any = lambda fx: fx.requests.publish(doc.DRAFT)  # noqa: E731
        bare: Any = lambda fx: fx.requests.publish(doc.BARE_DRAFT)  # noqa: E731
        found += [
            Contract(name="publish", call=full, body=PUBLICATION, **at),
            Contract(name="publish without notes", call=bare, body=BARE_PUBLICATION, is_shown_state=False, **at),
        ]
    for path in ("quote/submitoffer", "quote/bid", "quote/request"):
        at = {"line": f"POST {path}", "reply": "submission", "record": doc.SUBMITTED}
        options: Any = {"addresses": {"submit": path}}
        for field, keys in (
            ("currencyIndex", {"currencyIndex": 978}), ("currencyId", {"currencyId": 978}),
            ("both", {"currencyIndex": 978, "currencyId": 978}),
        ):
            chosen: Any = {"options": {**options, "currency_field": field}}
            found.append(Contract(f"submit, {field}", call=_submit, body={**OFFER, **keys}, **at, **chosen))
        least: Any = lambda fx: fx.bids.submit(4, amount="1840.5", currency=978)  # noqa: E731
        body = {"requestIndex": 4, "offer": 1840.5, "currencyIndex": 978}
        found.append(Contract("submit bare", call=least, body=body, is_shown_state=False, options=options, **at))
    for path in ("quote/approveoffer", "quote/offer"):
        at = {"line": f"POST {path}", "by": "shipper", "scene": "offered", "options": {"addresses": {"approve": path}}}
        at |= {"reply": "approval", "record": doc.SELECTED}
        approve: Any = lambda fx: fx.offers.approve(5001)  # noqa: E731
        decline: Any = lambda fx: fx.offers.decline(5001)  # noqa: E731
        found += [
            Contract(name="approve", call=approve, body={"offerIndex": 5001, "approved": 1}, **at),
            # The document shows no reply to a declined offer, so only the request is tested.
            Contract(
                name="decline", call=decline, body={"offerIndex": 5001, "approved": 0}, is_shown_state=False, **at
            ),
        ]
    create: Any = lambda fx: fx.routes.create(doc.ROUTE_DRAFT)  # noqa: E731
    update: Any = lambda fx: fx.routes.update(doc.ROUTE)  # noqa: E731
    for field, keys in (
        ("carrier", {"carrier": 3}), ("carrierId", {"carrierId": 3}), ("both", {"carrier": 3, "carrierId": 3}),
    ):
        at = {"reply": "routes", "record": doc.ROUTE, "options": {"carrier_field": field}}
        found += [
            Contract(f"create a route, {field}", "POST route", create, {**ROUTE, **keys}, **at),
            Contract(f"update a route, {field}", "PUT route", update, {"index": 301, **ROUTE, **keys}, **at),
        ]
    return found


# fmt: on
CONTRACTS: Final = (*_reads(), *_writes())
GETS: Final = [contract for contract in CONTRACTS if contract.line.startswith("GET") and contract.body]

each_contract = pytest.mark.parametrize("contract", CONTRACTS, ids=str)
each_wire = pytest.mark.parametrize("wire", WIRES)


def parse(text: bytes | str) -> Any:
    return json.loads(text, parse_float=Decimal)


def without_page_size(body: Any) -> Any:
    """Set the number of rows that a page asks for to that of `ROWS`."""
    if isinstance(body, dict) and "rowsperpage" in body:
        assert type(body["rowsperpage"]) is int
        assert body["rowsperpage"] >= 0
        return {**body, "rowsperpage": 0}
    return body


def is_same_json(one: Any, other: Any) -> bool:
    """Compare values and JSON types: `4` differs from `"4"`, and `1` from `true`."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(is_same_json(one[key], other[key]) for key in one)
    return bool(one == other)


def json_form(value: Any) -> Any:
    """Return the keys and JSON types of a value; a collection has the forms of its records, in any number."""
    if isinstance(value, dict):
        if value and all(key.isdecimal() for key in value):
            return "collection", frozenset(json_form(record) for record in value.values())
        if value and all(isinstance(amount, int | Decimal) for amount in value.values()) and "index" not in value:
            # The forwarder chooses the names of fees.
            return "fees"
        return frozenset((key, json_form(item)) for key, item in value.items())
    return type(value).__name__


# The SDK


@each_contract
async def test_call_sends_documented_request_and_returns_documented_record(contract: Contract) -> None:
    replies = doc.REPLIES
    is_login = contract.line == "POST login"
    async with answering(replies[contract.reply], login=replies["login"], **contract.options) as service:
        result = await contract.call(service.exchange)
    # Later ones read the next page of a listing.
    request = (service.logins if is_login else service.sent)[0]
    path = request.url.path.removeprefix("/root/api/")
    assert f"{request.method} {path}" == contract.line
    assert request.url.query == b""
    if contract.body is None:
        assert request.content == b""
        assert "content-type" not in request.headers
    else:
        body = parse(request.content)
        assert is_same_json(without_page_size(body), parse(json.dumps(contract.body))), body
        assert request.headers["content-type"] == "application/json"
    assert request.headers.get("authorization") == (None if is_login else f"Bearer {TOKEN}")
    assert len(service.logins) == 1
    assert result == contract.record
    # Words are equal in any case, and Decimals in any form: the text shows the difference.
    assert repr(result) == repr(contract.record)


@pytest.mark.parametrize("contract", GETS, ids=str)
async def test_option_moves_get_parameters_into_query(contract: Contract) -> None:
    async with answering(doc.REPLIES[contract.reply], get_parameters="query", **contract.options) as service:
        assert await contract.call(service.exchange) == contract.record
    sent = dict(service.sent[0].url.params)
    assert "rowsperpage" not in sent or int(sent.pop("rowsperpage")) > 0
    assert contract.body is not None
    assert sent == {key: str(value) for key, value in contract.body.items() if key != "rowsperpage"}
    assert service.sent[0].content == b""
    assert "content-type" not in service.sent[0].headers


async def test_rejected_login_raises_message_of_service() -> None:
    async with answering({}, login=reply(doc.REPLIES["rejected login"], 401)) as service:
        with pytest.raises(LoginRejectedError, match="user name or password is invalid"):
            await service.exchange.login()


async def test_expired_token_is_renewed_and_call_repeated() -> None:
    refused = reply(doc.REPLIES["unauthorized"], 401)
    async with answering(refused, doc.REPLIES["carriers"]) as service:
        assert await service.exchange.carriers.list().collect() == doc.CARRIERS
    assert (len(service.sent), len(service.logins)) == (2, 2)


# The sandbox


async def sandbox_reply(contract: Contract, wire: Wire, *, in_query: bool = False) -> httpx.Response:
    method, path = contract.line.split()
    side = None if path == "login" else contract.by
    body = contract.body
    if body and "rowsperpage" in body:
        body = {**body, "rowsperpage": 25}
    async with opened(wire, contract.scene) as market:
        if in_query and body:
            query = {key: str(value) for key, value in body.items()}
            return await market.send(side, method, path, None, **query)
        return await market.send(side, method, path, body)


@each_wire
@each_contract
async def test_sandbox_gives_documented_request_a_reply_of_documented_form(contract: Contract, wire: Wire) -> None:
    answer = await sandbox_reply(contract, wire)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    shown, own = parse(json.dumps(doc.REPLIES[contract.reply])), parse(answer.text)
    assert own.keys() == shown.keys()
    if contract.is_shown_state:
        assert json_form(own) == json_form(shown), own


@pytest.mark.parametrize("contract", GETS, ids=str)
async def test_sandbox_takes_get_parameters_from_query_too(contract: Contract) -> None:
    in_query = await sandbox_reply(contract, "memory", in_query=True)
    assert in_query.text == (await sandbox_reply(contract, "memory")).text


@each_wire
async def test_sandbox_refuses_in_documented_form(wire: Wire) -> None:
    async with opened(wire) as market:
        wrong = await market.send(None, "POST", "login", {"email": "forwarder@demo.example", "password": "wrong"})
        stranger = await market.send(None, "GET", "carrier", None)
    assert (wrong.status_code, json_form(wrong.json())) == (401, json_form(doc.REPLIES["rejected login"]))
    assert (stranger.status_code, json_form(stranger.json())) == (401, json_form(doc.REPLIES["unauthorized"]))


def test_every_operation_is_tested_at_every_address() -> None:
    """The document has seventeen operations; the samples and tables give some of them two or three addresses."""
    addresses = {
        "POST": "login quote/request quote/submitrequest request quote/getrequests route quote/offer quote/getoffers"
        " quote/approveoffer quote/bid quote/submitoffer",
        "GET": "quote/request route quote/offer quote/bid carrier currency",
        "PUT": "route",
    }
    assert {contract.line for contract in CONTRACTS} == {
        f"{method} {path}" for method, paths in addresses.items() for path in paths.split()
    }
    assert {contract.reply for contract in CONTRACTS} == doc.REPLIES.keys() - {"rejected login", "unauthorized"}
