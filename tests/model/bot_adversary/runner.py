"""Runner of the scenarios, each in its own world and virtual time."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Final
from unittest.mock import patch

import anyio
import trio

from freight_exchange.testing import VirtualDeadlockError, virtual_time_options

from . import scenarios as scenarios  # they enrol themselves
from .checker import CheckResult, check
from .disk import tapped_connections
from .scenario import Scenario
from .world import world_of

__all__ = ["run", "scenario_names"]

_LONGEST: Final = 90 * 86400.0
_DRAWING: Final = ("feed.stream", "bot.delivery.dispatcher", "bot.delivery.worker")
"""Modules that create their own random source."""
_MEMORY: Final = Path("/dev/shm")


def scenario_names() -> list[str]:
    """Return the names of the scenarios."""
    return [each.name for each in Scenario.all_scenarios]


@contextmanager
def _drawn_from(seed: int) -> Iterator[None]:
    """Derive all random draws of the bot, the feed, the client and the event loop from the seed."""
    source = Random(f"bot {seed}")
    random.seed(source.random())
    with ExitStack() as patches:
        for module in _DRAWING:
            patches.enter_context(patch(f"freight_exchange.{module}.Random", lambda: Random(source.random())))
        # Trio runs the tasks of a turn in an order that it draws.
        patches.enter_context(patch("trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING", True))
        trio._core._run._r.seed(source.random())
        yield


def run(name: str, seed: int) -> CheckResult:
    """Play a scenario once, and check the result."""
    (kind,) = (each for each in Scenario.all_scenarios if each.name == name)
    backend = Random(seed).choice(kind.backends)
    with (
        tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as folder,
        tapped_connections(),
        _drawn_from(seed),
    ):
        try:
            options = virtual_time_options("trio" if backend == "trio" else "asyncio")
            return anyio.run(_play, kind, seed, Path(folder), backend=backend, backend_options=options)
        except (TimeoutError, VirtualDeadlockError) as error:
            return CheckResult(name, seed, lost=1, flaws=[f"the run hung: {error!r}"])


async def _play(kind: type[Scenario], seed: int, folder: Path) -> CheckResult:
    with anyio.fail_after(_LONGEST):
        async with world_of(seed, folder) as world:
            scenario = kind(world)
            await scenario.play()
            result = check(world, kind.name, seed, owed_after=scenario.owed_after)
            result.lost += len(scenario.flaws)
            result.flaws += scenario.flaws
            return result
