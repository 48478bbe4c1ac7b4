"""Tests with a service on which each login ends all earlier sessions."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from tests.faults.support import Kind, outcome, patient, perform, stocked

from freight_exchange import AuthenticationError, FreightExchange
from freight_exchange.testing import Profile, Sandbox


@pytest.mark.virtual_time
async def test_two_processes_that_end_each_others_tokens_are_pointed_to_the_token_store() -> None:
    sandbox = stocked(Sandbox(Profile(tokens="latest")))
    async with (
        sandbox.http_client() as http_client,
        patient(sandbox, http_client=http_client) as one,
        patient(sandbox, http_client=http_client) as other,
    ):
        errors = [error for _ in range(20) for exchange in (one, other) if (error := await failure(exchange))]
    assert errors
    assert all(isinstance(error, AuthenticationError) for error in errors)
    assert all("token_store" in str(error) for error in errors)


async def test_processes_with_a_token_store_share_one_login(tmp_path: Path) -> None:
    sandbox = stocked(Sandbox(Profile(tokens="latest")))
    store = tmp_path / "login"
    async with (
        sandbox.http_client() as http_client,
        patient(sandbox, http_client=http_client, token_store=store) as one,
        patient(sandbox, http_client=http_client, token_store=store) as other,
    ):
        for _ in range(5):
            assert [await outcome(exchange, Kind.READ) for exchange in (one, other)] == ["ok", "ok"]
    assert len(sandbox.audit_log.calls_to("POST", "login")) == 1


async def failure(exchange: FreightExchange) -> AuthenticationError | None:
    await anyio.sleep(1)
    try:
        await perform(exchange, Kind.READ)
    except AuthenticationError as error:
        return error
    return None
