"""Tests of the bot in `bot.py`, against the sandbox: `pytest examples/test_bot.py`.

Time is virtual: an hour of waiting takes a moment. No network, no account.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any, Literal

import anyio
import pytest
from examples.bot import TARIFF, Prices, router, shared

from freight_exchange import Bot, RateRequest
from freight_exchange.store import MemoryStore, Store
from freight_exchange.tariff import NoQuote, Quote, Tariff
from freight_exchange.testing import FAILPOINTS, FAULTS, Cargo, Sandbox, virtual_time_options

pytestmark = pytest.mark.anyio

TILES = Cargo(destination="Long Beach", quantity=20, width=1, height=Decimal("0.9"), weight=640)
CARTON: dict[str, Any] = {"length": Decimal("0.4"), "width": Decimal("0.3"), "height": Decimal("0.2"), "weight": 6}
WATCHES = Cargo(requesttype="Air Freight", destination="Chicago", quantity=10, **CARTON)
# 21.6 cubic metres weigh less than 21.6 tonnes: 21.6 x 62.40 + 45.
TILES_BY_SEA = Decimal("1392.84")
# Ten cartons of 6 kg, 4 kg each by volume: 60 kg x 5.10 + 45.
WATCHES_BY_AIR = Decimal("351.00")


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    backend: Literal["asyncio", "trio"] = request.param
    return backend, virtual_time_options(backend)


def bot_on(store: Store | None = None, lifespan: Any = shared) -> Bot:
    bot = Bot(store=store, lifespan=lifespan, start="backfill")
    bot.include(router)
    return bot


def prices(sandbox: Sandbox, request: int) -> list[Any]:
    """Return the amounts of all offers on the request."""
    return [record.offer.amount for record in sandbox.audit_log.offers_on(request)]


async def test_it_offers_by_the_tariff() -> None:
    sandbox = Sandbox()
    async with sandbox.running(bot_on()) as trial:
        tiles, watches = sandbox.publish(TILES), sandbox.publish(WATCHES)
        await trial.idle()
    assert prices(sandbox, tiles) == [TILES_BY_SEA]
    assert prices(sandbox, watches) == [WATCHES_BY_AIR]


@pytest.mark.parametrize(
    "cargo",
    [Cargo(destination="Narvik"), Cargo(destination="Long Beach", quantity=1000), Cargo(hazardous=1)],
    ids=["no tariff", "too much", "dangerous"],
)
async def test_request_without_tariff_gets_no_offer(cargo: Cargo) -> None:
    sandbox = Sandbox()
    async with sandbox.running(bot_on()) as trial:
        request = sandbox.publish(cargo)
        await trial.idle()
        assert trial.status.dead == 0
    assert prices(sandbox, request) == []


async def test_unavailable_tariff_delays_the_offer() -> None:
    class Away(Prices):
        questions = 0

        async def quote(self, request: RateRequest) -> Quote | NoQuote:
            self.questions += 1
            if self.questions <= 3:  # a quarter of an hour, at five minutes each
                raise TimeoutError
            return await super().quote(request)

    async def away() -> AsyncIterator[Prices]:
        yield Away(Tariff.read(TARIFF, weight_per="unit"))

    sandbox = Sandbox()
    async with sandbox.running(bot_on(lifespan=away)) as trial:
        request = sandbox.publish(WATCHES)
        await trial.idle()
        assert trial.status.dead == 0
    assert prices(sandbox, request) == [WATCHES_BY_AIR]


# `FAILPOINTS` has them all; these are the ones of an offer. "resolved" comes after a lost reply only.
@pytest.mark.parametrize("point", [point for point in FAILPOINTS if point.split()[1] in ("intent", "sending", "send")])
async def test_killed_bot_offers_once(point: str) -> None:
    sandbox, store = Sandbox(), MemoryStore()
    request = sandbox.publish(TILES)
    async with sandbox.running(bot_on(store), crash_at=point) as trial:
        await trial.crashed()
    async with sandbox.running(bot_on(store)) as trial:
        await trial.idle()
        assert trial.status.in_doubt == 0
    assert prices(sandbox, request) == [TILES_BY_SEA]


async def test_lost_reply_causes_no_second_offer() -> None:
    sandbox = Sandbox()
    sandbox.strike(*FAULTS["reset_after_processing"](path="quote/submitoffer"))
    async with sandbox.running(bot_on()) as trial:
        request = sandbox.publish(TILES)
        await trial.idle()
        assert trial.status.offers == {"doubtful": 1, "confirmed": 1}
    assert prices(sandbox, request) == [TILES_BY_SEA]


async def test_selected_offer_is_logged_with_its_contact(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "freight_exchange.bot")
    sandbox = Sandbox()
    async with sandbox.running(bot_on()) as trial:
        request = sandbox.publish(TILES)
        await trial.idle()
        (offer,) = sandbox.audit_log.offers_on(request)
        sandbox.exchange.select(offer.offer.index, sandbox.now())
        await anyio.sleep(600)  # selections are looked for every two minutes
    (reported,) = [record for record in caplog.records if "was selected" in record.message]
    assert "Sylvia Ship <shipper@demo.example>" in reported.message
