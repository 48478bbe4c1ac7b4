"""Tests of options for open points of the service document, against services that accept one reading of it."""

from __future__ import annotations

from typing import Any

import pytest

from freight_exchange import BadRequestError, FreightExchange, NotFoundError
from freight_exchange.testing import Sandbox
from freight_sandbox import Account, Profile


def client(sandbox: Sandbox, account: Account, **options: Any) -> FreightExchange:
    http_client = sandbox.http_client()
    return FreightExchange(
        sandbox.url, email=account.email, password=account.password, http_client=http_client, **options
    )


async def test_index_type_string_suits_a_service_that_takes_text() -> None:
    sandbox = Sandbox(profile=Profile(index_type="str"))
    index = sandbox.publish()
    async with client(sandbox, sandbox.forwarder, index_type="string") as exchange:
        assert (await exchange.requests.get(index)).index == index
        assert (await exchange.requests.get_open(index)).index == index
        assert (await exchange.carriers.get(1)).index == 1
    async with sandbox.client() as exchange:
        with pytest.raises(BadRequestError):
            await exchange.requests.get(index)


async def test_offer_lookup_by_post_suits_a_service_whose_get_bodies_are_dropped() -> None:
    sandbox = Sandbox(profile=Profile(get_body="dropped"))
    index = sandbox.publish()
    for _ in range(120):
        sandbox.publish()
    async with client(sandbox, sandbox.shipper, addresses={"get_offer": "quote/getoffers"}) as exchange:
        assert (await exchange.offers.get(index)).index == index
        with pytest.raises(NotFoundError):
            await exchange.offers.get(9999)
