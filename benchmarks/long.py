"""Growth of a bot over weeks, in virtual time: `python -m benchmarks.long --days 30` prints a row for each fifth of it.

The exchange publishes a request every two minutes, the bot offers on each, and its store is an SQLite file.
"""

from __future__ import annotations

import argparse
import gc
import resource
import sys
import tempfile
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import anyio

from benchmarks.feeds import Endless
from benchmarks.rounds import grid, number
from freight_exchange import Bot
from freight_exchange.testing import inline_store, virtual_time_options

_PERIOD: Final = 120.0
_DAY: Final = 86_400.0
_ROWS: Final = 5


async def measure(days: float, path: Path) -> AsyncIterator[list[float]]:
    """Yield what a bot has used by the end of each part of the days."""
    service = Endless(_PERIOD)
    async with service.client() as exchange:
        bot = Bot(exchange, store=inline_store(path), interval=timedelta(minutes=1))

        @bot.on_new(id="quote")
        async def quote(request: Any, ctx: Any) -> None:
            await ctx.offer(amount="1840.50", currency=840)

        async with bot:
            for row in range(1, _ROWS + 1):
                await anyio.sleep(days * _DAY / _ROWS)
                gc.collect()
                size = sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*"))
                resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
                blocks = sys.getallocatedblocks()
                yield [row * days / _ROWS, service.offers, service.calls, blocks / 1e3, resident / 1e3, size / 1e6]


async def print_growth(days: float) -> int:
    print(
        "| Day | Offers | Calls | Blocks of memory, thousands | Resident, MB | File, MB |", "|---" * 6 + "|", sep="\n"
    )
    offers = 0.0
    with tempfile.TemporaryDirectory() as folder:
        async for figures in measure(days, Path(folder, "bot.db")):
            print(grid([number(figure) for figure in figures]), flush=True)
            offers = figures[1]
    return int(offers < 0.99 * days * _DAY / _PERIOD)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=float, default=30)
    arguments = parser.parse_args()
    sys.exit(anyio.run(print_growth, arguments.days, backend_options=virtual_time_options("asyncio")))
