"""Tests of the window in which an offer may be sent: a replica that takes over waits until it has passed."""

from __future__ import annotations

from functools import partial

import anyio
import pytest
from tests.unit.bot.rig import AMOUNT, amounts_on, eventually, messages, offering_bot

from freight_exchange.platform import clock
from freight_exchange.store import MemoryStore
from freight_exchange.store.work import SEND_WINDOW
from freight_exchange.testing import Sandbox

pytestmark = pytest.mark.virtual_time


@pytest.mark.parametrize(
    ("point", "frozen", "sent_late"),
    [("before send", 1.01, False), ("before sending", 1.01, False), ("before send", 0.9, True)],
)
async def test_offer_that_a_freeze_has_delayed_is_not_sent(
    point: str, frozen: float, sent_late: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sandbox, calls = Sandbox(), list[int]()
    index = sandbox.publish()
    bot = offering_bot(MemoryStore(), calls)
    freezes = [point]

    def freeze(reached: str) -> None:
        if reached in freezes:
            freezes.remove(reached)
            later = clock.boot_time() + frozen * SEND_WINDOW
            monkeypatch.setattr(clock, "boot_time", lambda: later)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(bot.serve, exchange=sandbox.client(), failpoints=freeze))
        await eventually(lambda: bot.status().offers.get("confirmed"))
        bot.stop()
    assert amounts_on(sandbox, index) == [AMOUNT]
    assert len(calls) == (1 if sent_late else 2)
    assert any("was not sent" in message for message in messages(caplog)) is not sent_late
