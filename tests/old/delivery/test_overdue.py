"""Handlers that ignore their timeout or the end of the drain."""

from __future__ import annotations

import contextlib
import logging
from datetime import timedelta
from typing import Any

import anyio
import pytest
from tests.old.rig import HOUR, Calls, ignore_cancellation, messages, new_bot, other, run_until_idle

from freight_exchange.bot.metrics.metrics import ActiveDelivery, InFlight
from freight_exchange.store import Store
from freight_exchange.testing import Sandbox

pytestmark = [pytest.mark.virtual_time, pytest.mark.both_backends]


async def test_overdue_handler_is_logged_once(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    sandbox, calls = Sandbox(), Calls()
    bot = new_bot(store, concurrency=2)

    @bot.on_new(id="deaf", timeout=10, retries=0)
    async def deaf(request: Any, ctx: Any) -> None:
        calls.note("deaf", ctx, request.index)
        if request.origin == "Ningbo":
            await ignore_cancellation(300)

    index = sandbox.publish(other("Ningbo"))
    async with sandbox.running(bot) as trial:
        await anyio.sleep(14)
        assert messages(caplog, logging.CRITICAL) == [], "it may need a moment to close what it has open"
        await anyio.sleep(5)
        (text,) = messages(caplog, logging.CRITICAL)
        assert "'deaf'" in text
        assert str(index) in text
        sandbox.publish()
        await trial.idle()
        assert len(messages(caplog, logging.CRITICAL)) == 1
        assert len(calls.of("deaf")) == 2, "others are handed over meanwhile"


async def test_handler_that_ends_at_timeout_is_not_logged(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    sandbox = Sandbox()
    bot = new_bot(store)

    @bot.on_new(timeout=10, retries=1)
    async def slow(request: Any, ctx: Any) -> None:
        await anyio.sleep(HOUR)

    sandbox.publish()
    status = await run_until_idle(sandbox, bot)
    assert status.dead == 1
    assert messages(caplog, logging.CRITICAL) == []


async def test_handler_that_ignores_drain_is_logged(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    """The bot waits for it; only `bot.run()` ends the process."""
    sandbox = Sandbox()
    bot = new_bot(store, drain=timedelta(seconds=5))

    @bot.on_new(id="deaf")
    async def deaf(request: Any, ctx: Any) -> None:
        await (ignore_cancellation(30) if request.origin == "Ningbo" else anyio.sleep(HOUR))

    deaf_to, index = sandbox.publish(other("Ningbo")), sandbox.publish()
    async with sandbox.running(bot):
        await anyio.sleep(60)
        began = anyio.current_time()
    assert anyio.current_time() == pytest.approx(began + 35)
    (text,) = messages(caplog, logging.CRITICAL)
    assert f"request {deaf_to}" in text
    assert f"request {index}" not in text


def test_in_flight_names_first_deliveries() -> None:
    in_flight = InFlight()
    assert (len(in_flight), str(in_flight)) == (0, "")
    with contextlib.ExitStack() as blocks:
        for index in range(7):
            blocks.enter_context(in_flight.track(ActiveDelivery("quote", "new", index, 0.0)))
        blocks.enter_context(in_flight.track(ActiveDelivery("tell", "gap", None, 0.0)))
        assert len(in_flight) == 8
        assert str(in_flight).startswith("the handler 'quote' of the event 'new' of request 0; ")
        assert str(in_flight).endswith("request 4; and 3 more")
    assert len(in_flight) == 0
    with in_flight.track(ActiveDelivery("tell", "gap", None, 0.0)):
        assert str(in_flight) == "the handler 'tell' of the event 'gap'"
