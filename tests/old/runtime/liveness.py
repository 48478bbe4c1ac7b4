"""Liveness of a bot, as the operator's port reports it."""

from __future__ import annotations

from datetime import timedelta

import anyio
from tests.old.rig import INTERVAL, eventually

from freight_exchange.bot.ops import probes
from freight_exchange.testing import Trial

THREE = 3 * INTERVAL


def state(trial: Trial) -> str:
    return trial.status.state


def port(trial: Trial, path: str) -> int:
    text = probes.answer(f"GET {path} HTTP/1.1\r\n\r\n".encode(), lambda: trial.status, None)
    return int(text.split()[1])


async def turns_bad(trial: Trial, *, sooner: bool = False) -> None:
    """Check that the bot is live until the watermark is three intervals old, and not after; `sooner` permits an
    earlier end."""
    await anyio.sleep(THREE - trial.status.age.total_seconds() - 0.1)
    assert port(trial, "/livez") == 200 or sooner
    await anyio.sleep(0.2)
    assert port(trial, "/livez") == port(trial, "/readyz") == 503


async def recovers(trial: Trial) -> None:
    await eventually(lambda: port(trial, "/livez") == port(trial, "/readyz") == 200, within=timedelta(minutes=20))
