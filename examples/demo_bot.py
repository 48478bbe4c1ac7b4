"""Bot of the demonstration: that of `bot.py` with short intervals and a flaky tariff for air freight.

`demo.py` starts it, kills it and starts it again: `python -m examples.demo_bot STORE`.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from textwrap import shorten

from examples.bot import TARIFF, WEIGHT_PER, Prices, router

from freight_exchange import Bot, RateRequest, RequestType
from freight_exchange.tariff import NoQuote, Quote, Tariff

POISON = "Violins"


class FlakyPrices(Prices):
    """Prices that fail once for each request by air, and always for violins."""

    def __init__(self, tariff: Tariff) -> None:
        super().__init__(tariff)
        self._asked: set[int] = set()

    async def quote(self, request: RateRequest) -> Quote | NoQuote:
        if request.commodity == POISON:
            raise ValueError("the tariff does not know what a violin is")
        if request.type == RequestType.AIR_FREIGHT and request.index not in self._asked:
            self._asked.add(request.index)
            raise ConnectionError("the tariff hung up")
        return await super().quote(request)


async def shared() -> AsyncIterator[FlakyPrices]:
    yield FlakyPrices(Tariff.read(TARIFF, weight_per=WEIGHT_PER))


class OneLine(logging.Formatter):
    """Formatter of one line: the message without a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        return shorten(record.getMessage(), 160)


def main(store: str) -> None:
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(OneLine())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("httpx").setLevel(logging.WARNING)
    bot = Bot(
        store=store,
        lifespan=shared,
        start="backfill",
        interval=timedelta(seconds=1),
        selection_interval=timedelta(seconds=1),
        settle=timedelta(seconds=1),
    )
    bot.include(router)
    bot.run()


if __name__ == "__main__":
    main(sys.argv[1])
