"""Concurrent runs in one event loop, since most of a run is waiting."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, Literal

import anyio
from tests.model.socket_runs.plan import Plan, Transport
from tests.model.socket_runs.run import Run, run
from tests.model.socket_runs.secrets import holds_secret
from tests.model.socket_runs.summary import RunSummary

__all__ = ["backend_of", "repeat", "summarize"]

_AT_A_TIME = 40
_LOGGER = "freight_exchange"


def backend_of(transport: Transport, seed: int) -> Literal["asyncio", "trio"]:
    """Pick the event loop for the runs from this seed on."""
    return "trio" if transport != "aiohttp" and seed // 250 % 4 == 3 else "asyncio"


def summarize(
    transport: Transport, seeds: Iterable[int], backend: Literal["asyncio", "trio"] = "asyncio"
) -> RunSummary:
    """Make the runs of these seeds in a separate event loop."""
    return anyio.run(_summarize, transport, [*seeds], backend=backend)


def repeat(transport: Transport, seed: int) -> Run:
    """Make one run again, alone."""
    return anyio.run(run, Plan.of(seed, transport), backend=backend_of(transport, seed))


async def _summarize(transport: Transport, seeds: list[int]) -> RunSummary:
    total = RunSummary(transport)
    waiting = iter(seeds)

    async def work() -> None:
        for seed in waiting:
            total.count(await run(Plan.of(seed, transport)))

    log = _Log()
    logger = logging.getLogger(_LOGGER)
    logger.addHandler(log)
    level = logger.level
    logger.setLevel(logging.DEBUG)
    try:
        async with anyio.create_task_group() as tasks:
            for _ in range(_AT_A_TIME):
                tasks.start_soon(work)
    finally:
        logger.removeHandler(log)
        logger.setLevel(level)
    total.logged += log.secrets
    return total


class _Log(logging.Handler):
    """Log handler that counts the lines with a secret."""

    secrets = 0

    def emit(self, record: logging.LogRecord) -> None:
        text: Any = record.getMessage()
        if record.exc_info is not None and record.exc_info[1] is not None:
            text += str(record.exc_info[1])
        self.secrets += holds_secret(text)
