"""Growth of a bot over weeks, in virtual time: `python -m benchmarks.long --days 30` prints a row for each fifth of it.

The exchange publishes a request every two minutes, the bot offers on each, and its store is an SQLite file.
"""

from __future__ import annotations

import argparse
import gc
import resource
import sys
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import anyio
import httpx

from benchmarks.endless import EndlessExchange
from freight_exchange import Bot, FreightExchange
from freight_exchange.store import SQLiteStore
from freight_exchange.testing import virtual_time_options

_PERIOD: Final = 120.0
_DAY: Final = 86_400.0
_ROWS: Final = 5


async def measure(days: float, path: Path, *, rows: int = _ROWS) -> list[dict[str, float]]:
    """Return what a bot has used by the end of each part of the days."""
    origin = anyio.current_time()
    service = EndlessExchange(_PERIOD, lambda: anyio.current_time() - origin)
    client = httpx.AsyncClient(transport=service, trust_env=False)
    exchange = FreightExchange(service.url, email="me@co.example", password="p", http_client=client)
    # In virtual time a store needs no threads.
    bot = Bot(exchange, store=SQLiteStore(path, inline=True), interval=timedelta(minutes=1))

    @bot.on_new(id="quote")
    async def quote(request: Any, ctx: Any) -> None:
        await ctx.offer(amount="1840.50", currency=840)

    found: list[dict[str, float]] = []
    async with client, bot:
        for row in range(1, rows + 1):
            await anyio.sleep(days * _DAY / rows)
            gc.collect()
            files = path.parent.glob(f"{path.name}*")
            found.append({
                "day": row * days / rows,
                "offers": service.offers,
                "calls": service.calls,
                "blocks": sys.getallocatedblocks() / 1e3,
                "resident": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
                "file": sum(file.stat().st_size for file in files) / 1e6,
            })  # fmt: skip
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=float, default=30)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = anyio.run(
            measure, options.days, Path(folder, "bot.db"), backend_options=virtual_time_options("asyncio")
        )
    print(
        "| Day | Offers | Calls | Blocks of memory, thousands | Resident, MB | File, MB |",
        "|---|---|---|---|---|---|",
        sep="\n",
    )
    for row in found:
        numbers = (f"{row['day']:g}", *(f"{row[key]:.1f}" for key in ("blocks", "resident", "file")))
        print(f"| {numbers[0]} | {row['offers']:,.0f} | {row['calls']:,.0f} | {' | '.join(numbers[1:])} |")
    expected = options.days * _DAY / _PERIOD
    return int(found[-1]["offers"] < 0.99 * expected)


if __name__ == "__main__":
    sys.exit(main())
