"""Replica of the fleet's demonstration: a bot whose store is a database.

`fleet.py` starts three of them: `python -m examples.fleet_bot postgresql://USER@HOST/DATABASE`.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from datetime import timedelta
from decimal import Decimal
from textwrap import shorten

from freight_exchange import Bot, Context, RateRequest
from freight_exchange.store import PostgresStore

LEASE = timedelta(seconds=2)


def price(request: RateRequest) -> Decimal:
    """Price a request by its pallets."""
    return Decimal(1000) + Decimal(request.quantity or 0)


async def quote(request: RateRequest, ctx: Context) -> None:
    # Takes as long as a request to a price list on the network.
    await asyncio.sleep(0.05)
    await ctx.offer(amount=price(request), currency="USD")


class OneLine(logging.Formatter):
    """Formatter of one line: the message without a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        return shorten(record.getMessage(), 160)


def main(database: str) -> None:
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(OneLine())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("httpx").setLevel(logging.WARNING)
    bot = Bot(
        store=PostgresStore(database, lease=LEASE),
        start="backfill",
        interval=timedelta(seconds=1),
        settle=timedelta(seconds=1),
    )
    bot.on_new(quote)
    bot.run()


if __name__ == "__main__":
    main(sys.argv[1])
