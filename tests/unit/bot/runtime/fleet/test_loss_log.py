"""Log of the losses of a bot's seat, and the pause before it joins again."""

from __future__ import annotations

import anyio
import pytest

from freight_exchange.bot.runtime.fleet.loss_log import LossLog
from freight_exchange.errors import StoreAwayError
from freight_exchange.store.protocol import StoreRefusedError

pytestmark = pytest.mark.virtual_time

AWAY, REFUSED = StoreAwayError("cut"), StoreRefusedError("no right")


async def test_refusals_of_a_running_bot_are_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    losses = LossLog()
    for _ in range(13):
        losses.add(REFUSED, has_worked=True, is_stopping=False)
        await anyio.sleep(9.0)
    assert [record.levelname for record in caplog.records if record.levelname != "DEBUG"] == ["ERROR"] * 2


async def test_pause_grows_with_refusals_in_a_row() -> None:
    losses = LossLog()

    async def pauses(error: Exception, *, apart: float, count: int = 1) -> list[float]:
        found = []
        for _ in range(count):
            await anyio.sleep(apart)
            found.append(losses.add(error, has_worked=True, is_stopping=False))
        return found

    assert await pauses(REFUSED, apart=5.0, count=7) == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    assert await pauses(AWAY, apart=5.0, count=2) == [1.0, 1.0]
    assert await pauses(REFUSED, apart=61.0, count=2) == [1.0, 1.0]
