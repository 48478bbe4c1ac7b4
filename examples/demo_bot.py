"""Bot of the demonstration: that of `bot.py` with short intervals and a flaky tariff for air freight.

`demo.py` starts it, kills it and starts it again: `python -m examples.demo_bot STORE`.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from decimal import Decimal
from textwrap import shorten

from examples.bot import Tariff, router

from freight_exchange import Bot, RateRequest

POISON = "Violins"


class FlakyTariff(Tariff):
    """Tariff that fails once for each request, and always for violins."""

    def __init__(self) -> None:
        self._asked: set[int] = set()

    async def by_air(self, request: RateRequest) -> Mapping[str, Decimal] | None:
        if request.commodity == POISON:
            raise ValueError("the tariff does not know what a violin is")
        if request.index not in self._asked:
            self._asked.add(request.index)
            raise ConnectionError("the tariff hung up")
        return await super().by_air(request)


async def shared() -> AsyncIterator[Tariff]:
    yield FlakyTariff()


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
