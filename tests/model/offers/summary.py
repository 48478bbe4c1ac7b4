"""Summary of many schedules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import Literal

import anyio
from tests.model.offers.checker import check
from tests.model.offers.naive import naive_loop
from tests.model.offers.run import follow
from tests.model.offers.schedule import draw

from freight_exchange.testing import virtual_time_options

__all__ = ["count_feed", "count_naive"]


async def _follow_all(seeds: Iterable[int]) -> Counter[str]:
    flaws: Counter[str] = Counter()
    for seed in seeds:
        reported, market = await follow(draw(seed))
        found = +check(reported, market)
        flaws += found
        flaws["schedules"] += 1
        flaws["events"] += len(reported)
        flaws["flawed schedules"] += bool(found)
        flaws.update(f"seed {seed}: {flaw}" for flaw in found)
    return flaws


def count_feed(seeds: Iterable[int], backend: Literal["asyncio", "trio"] = "asyncio") -> Counter[str]:
    """Count the flaws of the feed under the schedules of these seeds."""
    return anyio.run(partial(_follow_all, seeds), backend=backend, backend_options=virtual_time_options(backend))


def count_naive(seeds: Iterable[int]) -> Counter[str]:
    """Count the flaws of the naive loop under the same schedules."""
    flaws: Counter[str] = Counter()
    for seed in seeds:
        reported, market = naive_loop(draw(seed))
        found = +check(reported, market)
        flaws += found
        flaws["schedules"] += 1
        flaws["events"] += len(reported)
        flaws["flawed schedules"] += bool(found)
    return flaws
