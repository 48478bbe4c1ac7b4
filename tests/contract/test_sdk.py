"""Tests of the SDK against the service document: respx routes answer with its JSON, typed by hand."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
import respx
from tests.contract import expected
from tests.contract.conftest import Fill
from tests.contract.contracts import CONTRACTS, Contract
from tests.contract.coverage import ROWS
from tests.contract.service import HERE, URL, client, is_same_json, load, parse

from freight_exchange import LoginRejectedError

GETS = [contract for contract in CONTRACTS if contract.row.method == "GET" and contract.body]
JSON = {"content-type": "application/json"}

each_contract = pytest.mark.parametrize("contract", CONTRACTS, ids=str)


def reply(name: str, status: int = 200) -> httpx.Response:
    return httpx.Response(status, content=load("replies", name), headers=JSON)


@pytest.fixture
def service() -> Iterator[respx.MockRouter]:
    """Service that knows only the login; a call without a route fails."""
    with respx.mock(base_url=URL, assert_all_called=False) as router:
        router.post("/login", name="login").mock(reply("login"))
        yield router


def add_route(service: respx.MockRouter, contract: Contract) -> respx.Route:
    name = "login" if contract.row.path == "login" else "call"
    return service.request(contract.row.method, f"/{contract.row.path}", name=name).mock(reply(contract.reply))


@each_contract
async def test_call_sends_documented_request(service: respx.MockRouter, contract: Contract, fill: Fill) -> None:
    route = add_route(service, contract)
    async with client(**contract.options) as exchange:
        await contract.call(exchange)
    # Later ones read the next page of a listing.
    request = route.calls[0].request
    assert request.url.query == b""
    if contract.body:
        body, documented = parse(request.content), parse(load("bodies", contract.name))
        assert is_same_json(body, documented), (body, documented)
        assert request.headers["content-type"] == "application/json"
    else:
        assert request.content == b""
        assert "content-type" not in request.headers
    if contract.row.path == "login":
        assert "authorization" not in request.headers
    else:
        token = parse(load("replies", "login"))["user"]["access_token"]
        assert request.headers["authorization"] == f"Bearer {token}"
        assert service["login"].call_count == 1
    fill(contract.row.name, "document", "sent")


@each_contract
async def test_documented_reply_becomes_typed_result(service: respx.MockRouter, contract: Contract, fill: Fill) -> None:
    add_route(service, contract)
    async with client(**contract.options) as exchange:
        result = await contract.call(exchange)
    assert result == contract.result
    # Words are equal in any case, and Decimals in any form: the text shows the difference.
    assert repr(result) == repr(contract.result)
    fill(contract.row.name, "typed", "fields")


@pytest.mark.parametrize("contract", GETS, ids=str)
async def test_option_moves_get_parameters_into_query(service: respx.MockRouter, contract: Contract) -> None:
    route = add_route(service, contract)
    async with client(get_parameters="query") as exchange:
        await contract.call(exchange)
    request = route.calls[0].request
    assert dict(request.url.params) == {
        name: str(value) for name, value in parse(load("bodies", contract.name)).items()
    }
    assert request.content == b""


async def test_rejected_login_raises_message_of_service(service: respx.MockRouter) -> None:
    service["login"].mock(reply("login_rejected", 401))
    async with client() as exchange:
        with pytest.raises(LoginRejectedError, match="user name or password is invalid"):
            await exchange.login()


async def test_expired_token_is_renewed_and_call_repeated(service: respx.MockRouter) -> None:
    service.get("/carrier").mock(side_effect=[reply("unauthorized", 401), reply("carriers")])
    async with client() as exchange:
        assert await exchange.carriers.list().collect() == expected.CARRIERS
    paths = [call.request.url.path.removeprefix("/root/api/") for call in service.calls]
    assert paths == ["login", "carrier", "login", "carrier"]


def test_every_json_file_and_address_is_used() -> None:
    assert {path.stem for path in (HERE / "bodies").iterdir()} == {c.name for c in CONTRACTS if c.body}
    replies = {contract.reply for contract in CONTRACTS}
    others = {"login_with_company_index", "login_rejected", "unauthorized"}
    assert {path.stem for path in (HERE / "replies").iterdir()} == replies | others
    assert {contract.row.name for contract in CONTRACTS} == {row.name for row in ROWS}
