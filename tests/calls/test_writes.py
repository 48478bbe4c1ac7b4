"""Tests of writes: sent once, and in doubt without a reply that shows the effect."""

from __future__ import annotations

import attrs
import pytest
from tests.calls.doubts import KINDS, RAW, WRITES, Market, doubt
from tests.calls.support import BRISK, reply, scripted, stranger, unkept

from freight_exchange import Applied, BadRequestError, NotFoundError, TransportError
from freight_exchange.testing import FAULTS

pytestmark = pytest.mark.virtual_time

# Doubt


@pytest.mark.parametrize(
    ("fault", "processed"),
    [
        ("reset_mid_body", False), ("reset_after_send", False), ("reset_after_processing", True), ("stall", True),
        ("stall", False), ("server_error_after_commit", True), ("unavailable_retry_after", False),
        ("request_timeout", True), ("redirect", False), ("html_200", True), ("half_json", True),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", [*WRITES, "raw"])
async def test_write_without_a_reply_that_shows_its_effect_is_in_doubt(kind: str, fault: str, processed: bool) -> None:
    write, market = WRITES.get(kind, RAW), Market()
    async with market.client(write, deadline=120) as exchange:
        error = await doubt(market, write, exchange, fault, processed=processed)
    assert market.sent(write) == [processed]
    assert error.may_have_taken_effect
    assert (error.method, error.path, error.attempts) == (write.method, write.path, 1)
    assert error.write is not None


@KINDS
async def test_write_that_was_provably_not_sent_is_tried_again(kind: str) -> None:
    write, market = WRITES[kind], Market()
    async with market.client(write, retries=BRISK, middleware=[unkept]) as exchange:
        await exchange.login()
        market.sandbox.strike(*FAULTS["refused"](method=write.method, path=write.path, times=2))
        await write.send(exchange, market)
        market.sandbox.strike(*FAULTS["refused"](method=write.method, path=write.path, times=None))
        with pytest.raises(TransportError) as caught:
            await write.send(exchange, market)
    assert caught.value.unsent
    assert not caught.value.may_have_taken_effect
    assert market.sent(write).count(True) == 1


@KINDS
@pytest.mark.parametrize(("status", "error"), [(400, BadRequestError), (404, NotFoundError), (422, BadRequestError)])
async def test_refused_write_did_not_happen(kind: str, status: int, error: type[Exception]) -> None:
    write, market = WRITES[kind], Market()
    with scripted(reply(status, {"message": "no such port"})) as service:
        async with stranger() as exchange:
            send = write.send if kind != "update" else RAW.send
            with pytest.raises(error, match="no such port"):
                await send(exchange, market)
    assert len(service.requests) == 1


@pytest.mark.parametrize("name", ["reply_of_another_request", "approval_of_another_offer"])
async def test_reply_about_another_approval_is_a_doubt(name: str) -> None:
    write, market = WRITES["approve"], Market()
    async with market.client(write) as exchange:
        _, offer = (await exchange.offers.get(market.request)).offers
        write = attrs.evolve(write, send=lambda fx, _: fx.offers.approve(offer))
        error = await doubt(market, write, exchange, name)
        assert isinstance(await error.reconcile(), Applied)
    assert market.sent(write) == [True]
