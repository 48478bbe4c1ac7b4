"""Tests of the sandbox against the service document: it takes and returns JSON of the documented form."""

from __future__ import annotations

import pytest
from tests.contract.conftest import Fill
from tests.contract.contracts import CONTRACTS, Contract
from tests.contract.service import json_shape, load, parse
from tests.sandbox.rig import NOW, ExchangeRig, RigReply

GETS = [contract for contract in CONTRACTS if contract.row.method == "GET" and contract.body]


def send(contract: Contract, *, in_query: bool = False) -> RigReply:
    rig = ExchangeRig()
    contract.scene(rig)
    token = None if contract.row.path == "login" else rig.exchange.token(contract.account(rig), NOW)
    body = load("bodies", contract.name) if contract.body else b""
    if not in_query:
        return rig.send(contract.row.method, contract.row.path, body, token=token)
    query = {name: str(value) for name, value in parse(body).items()}
    return rig.send(contract.row.method, contract.row.path, token=token, query=query)


@pytest.mark.parametrize("contract", CONTRACTS, ids=str)
def test_documented_request_gets_reply_of_documented_form(contract: Contract, fill: Fill) -> None:
    reply = send(contract)
    assert reply.status == 200, reply
    documented = parse(load("replies", contract.reply))
    assert reply.json.keys() == documented.keys()
    if contract.is_shown_state:
        assert json_shape(parse(reply.reply.body)) == json_shape(documented), (reply.json, documented)
    fill(contract.row.name, "document", "accepted")


@pytest.mark.parametrize("contract", GETS, ids=str)
def test_get_parameters_are_taken_from_query_too(contract: Contract) -> None:
    assert send(contract) == send(contract, in_query=True)


def test_login_leaves_out_index_of_company() -> None:
    """The document shows the company of a login with and without an index."""
    documented = parse(load("replies", "login_with_company_index"))["user"]
    user = ExchangeRig().login().json["user"]
    assert "index" not in user["company"]
    del documented["company"]["index"]
    assert json_shape(documented) == json_shape(user)


def test_rejections_have_documented_form() -> None:
    assert json_shape(ExchangeRig().login(password="wrong").json) == json_shape(
        parse(load("replies", "login_rejected"))
    )
    assert json_shape(ExchangeRig().call("GET", "carrier").json) == json_shape(parse(load("replies", "unauthorized")))
