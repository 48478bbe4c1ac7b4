"""The SDK and the sandbox, each held against JSON that was typed by hand from the service document."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.contract import expected
from tests.contract.conftest import Fill
from tests.contract.contracts import CONTRACTS, Contract
from tests.contract.table import ROWS
from tests.unit.sandbox.rig import NOW, ExchangeRig

from freight_exchange import FreightExchange, LoginRejectedError

HERE = Path(__file__).parent
URL = "http://127.0.0.1:9/root/api"
ACCOUNT: dict[str, Any] = {"email": "me@co.example", "password": "correct horse"}
NAMES = [f"{contract.name} at {contract.row}" for contract in CONTRACTS]
GETS = [contract for contract in CONTRACTS if contract.row.method == "GET" and contract.body]

each_contract = pytest.mark.parametrize("contract", CONTRACTS, ids=NAMES)


def typed(folder: str, name: str) -> bytes:
    return (HERE / folder / f"{name}.json").read_bytes()


def read(text: bytes | str) -> Any:
    return json.loads(text, parse_float=Decimal)


def same(one: Any, other: Any) -> bool:
    """Equal in values and in JSON types: `4` is no `"4"`, and `1` is no `true`."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def shape(value: Any) -> Any:
    """The keys and JSON types of a value. A collection has the shapes of its records, however many there are."""
    if isinstance(value, dict):
        if value and all(key.isdecimal() for key in value):
            return "collection", frozenset(shape(record) for record in value.values())
        if value and all(isinstance(amount, int | Decimal) for amount in value.values()) and "index" not in value:
            # A map of fees: the names are the forwarder's own.
            return "fees"
        return frozenset((key, shape(held)) for key, held in value.items())
    return type(value).__name__


class Exchange:
    """A service with one reply to everything but logins, which keeps what it was sent."""

    def __init__(self, reply: bytes) -> None:
        self.requests: list[httpx.Request] = []
        self._reply = reply

    def answer(self, request: httpx.Request) -> httpx.Response:
        login = request.url.path == "/root/api/login"
        self.requests.append(request)
        json_type = {"content-type": "application/json"}
        return httpx.Response(200, content=typed("replies", "login") if login else self._reply, headers=json_type)

    async def serve(self, call: Callable[[FreightExchange], Any], **options: Any) -> object:
        async with (
            httpx.AsyncClient(transport=httpx.MockTransport(self.answer)) as http,
            FreightExchange(URL, http_client=http, **ACCOUNT, **options) as exchange,
        ):
            return await call(exchange)

    @property
    def request(self) -> httpx.Request:
        """The call's first request, after the login; what follows looks for a listing's next page."""
        return self.requests[min(1, len(self.requests) - 1)]


@each_contract
async def test_the_sdk_sends_what_the_document_says(contract: Contract, fill: Fill) -> None:
    exchange = Exchange(typed("replies", contract.reply))
    await exchange.serve(contract.call, **contract.options)
    request = exchange.request
    assert (request.method, request.url.path) == (contract.row.method, f"/root/api/{contract.row.path}")
    assert request.url.query == b""
    if contract.body:
        body, by_hand = read(request.content), read(typed("bodies", contract.name))
        assert same(body, by_hand), (body, by_hand)
        assert request.headers["content-type"] == "application/json"
    else:
        assert request.content == b""
        assert "content-type" not in request.headers
    if contract.row.path != "login":
        token = read(typed("replies", "login"))["user"]["access_token"]
        assert request.headers["authorization"] == f"Bearer {token}"
        assert {(sent.method, sent.url.path) for sent in exchange.requests[1:]} == {(request.method, request.url.path)}
    else:
        assert "authorization" not in request.headers
    fill(contract.row.name, "document", "sent")


@pytest.mark.parametrize("contract", GETS, ids=[contract.name for contract in GETS])
async def test_get_parameters_go_into_the_query_where_the_client_says_so(contract: Contract) -> None:
    exchange = Exchange(typed("replies", contract.reply))
    await exchange.serve(contract.call, get_parameters="query")
    by_hand = {name: str(value) for name, value in read(typed("bodies", contract.name)).items()}
    assert dict(exchange.request.url.params) == by_hand
    assert exchange.request.content == b""


@each_contract
async def test_the_sdk_reads_what_the_document_says(contract: Contract, fill: Fill) -> None:
    exchange = Exchange(typed("replies", contract.reply))
    result = await exchange.serve(contract.call, **contract.options)
    assert result == contract.result
    # Words compare in any case and Decimals in any form: their text says the rest.
    assert repr(result) == repr(contract.result)
    fill(contract.row.name, "typed", "fields")


async def test_the_other_form_of_the_login_has_an_index_in_the_company() -> None:
    reply = read(typed("replies", "login_with_company_index"))["user"]
    desk = ExchangeRig()
    told = desk.login().json["user"]
    assert "index" not in told["company"]
    assert shape(
        {**reply, "company": {key: held for key, held in reply["company"].items() if key != "index"}}
    ) == shape(told)


@each_contract
def test_the_sandbox_takes_and_says_what_the_document_says(contract: Contract, fill: Fill) -> None:
    desk = ExchangeRig()
    contract.scene(desk)
    login = contract.row.path == "login"
    token = None if login else desk.exchange.token(contract.account(desk), NOW)
    body = typed("bodies", contract.name) if contract.body else b""
    seen = desk.send(contract.row.method, contract.row.path, body, token=token)
    assert seen.status == 200, seen
    by_hand = read(typed("replies", contract.reply))
    assert seen.json.keys() == by_hand.keys()
    if contract.shown:
        told = shape(read(seen.reply.body))
        assert told == shape(by_hand), (seen.json, by_hand)
    fill(contract.row.name, "document", "accepted")


@pytest.mark.parametrize("contract", GETS, ids=[contract.name for contract in GETS])
def test_the_sandbox_takes_the_same_in_the_query(contract: Contract) -> None:
    replies = []
    for in_query in (False, True):
        desk = ExchangeRig()
        contract.scene(desk)
        token = desk.exchange.token(contract.account(desk), NOW)
        body = typed("bodies", contract.name)
        query = {name: str(value) for name, value in read(body).items()} if in_query else {}
        replies.append(
            desk.send(contract.row.method, contract.row.path, b"" if in_query else body, token=token, query=query)
        )
    assert replies[0] == replies[1]


async def test_a_rejected_login_is_what_the_document_says() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(401, content=typed("replies", "login_rejected"))

    async with (
        httpx.AsyncClient(transport=httpx.MockTransport(answer)) as http,
        FreightExchange(URL, http_client=http, **ACCOUNT) as exchange,
    ):
        with pytest.raises(LoginRejectedError, match="user name or password is invalid"):
            await exchange.login()
    assert shape(ExchangeRig().login(password="wrong").json) == shape(read(typed("replies", "login_rejected")))


async def test_an_expired_token_is_what_the_document_says() -> None:
    """The SDK logs in anew on 401 and `Unauthorized`, and sends the call once more."""
    told: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        told.append(request.url.path.removeprefix("/root/api/"))
        if told == ["login", "carrier"]:
            return httpx.Response(401, content=typed("replies", "unauthorized"))
        return httpx.Response(200, content=typed("replies", "login" if told[-1] == "login" else "carriers"))

    async with (
        httpx.AsyncClient(transport=httpx.MockTransport(answer)) as http,
        FreightExchange(URL, http_client=http, **ACCOUNT) as exchange,
    ):
        assert await exchange.carriers.list().collect() == expected.CARRIERS
    assert told == ["login", "carrier", "login", "carrier"]
    assert shape(ExchangeRig().call("GET", "carrier").json) == shape(read(typed("replies", "unauthorized")))


def test_every_file_is_used() -> None:
    assert {path.stem for path in (HERE / "bodies").iterdir()} == {c.name for c in CONTRACTS if c.body}
    used = {contract.reply for contract in CONTRACTS}
    others = {"login_with_company_index", "login_rejected", "unauthorized"}
    assert {path.stem for path in (HERE / "replies").iterdir()} == used | others
    assert {contract.row.name for contract in CONTRACTS} == {row.name for row in ROWS}
