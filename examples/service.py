"""A bot in an existing FastAPI service: `pip install fastapi uvicorn`, and then `uvicorn examples.service:app`.

The service has routes of its own; the bot runs beside them in the same loop, begins with the service, and is drained
when the service stops. The tariff is the service's: people change it over HTTP, and the bot quotes by it.

Which exchange, and whose bot it is, comes from the environment: FREIGHT_EXCHANGE_URL, FREIGHT_EXCHANGE_EMAIL,
FREIGHT_EXCHANGE_PASSWORD. The bot's file is BOT_STORE, `bot.db` unless told. Run one worker: a file has one holder.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from fastapi import FastAPI, HTTPException, Response

from freight_exchange import Bot, Context, FreightExchange, RateRequest, RetryLater
from freight_exchange.store import Store

CENT = Decimal("0.01")


def make_app(exchange: FreightExchange | None = None, store: Store | str | None = None) -> FastAPI:
    """The service. Its tests give a client of the sandbox, and a store of their own."""
    rates: dict[str, Decimal] = {"Long Beach": Decimal("62.40")}

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with bot:  # leaving it drains
            yield

    app = FastAPI(lifespan=lifespan)
    # Made here and not when it starts: a bot without a client takes one from the environment when it is entered.
    bot = Bot(exchange, store=store or os.environ.get("BOT_STORE", "bot.db"), start="backfill")

    @bot.on_new(type="Shipping")
    async def quote(request: RateRequest, ctx: Context) -> None:
        rate = rates.get(request.destination or "")
        if rate is None or request.volume is None:
            raise RetryLater(timedelta(minutes=10), "no tariff yet: somebody may put one")
        await ctx.offer(amount=(rate * request.volume).quantize(CENT, ROUND_HALF_UP), currency="USD")

    @app.get("/rates")
    async def show() -> dict[str, Decimal]:
        return rates

    @app.put("/rates/{destination}")
    async def put(destination: str, dollars: Decimal) -> None:
        if dollars <= 0:
            raise HTTPException(422, "a rate is more than 0")
        rates[destination] = dollars

    @app.get("/bot")
    async def status() -> dict[str, Any]:
        """For people: how the bot is."""
        now = bot.status()
        return {
            "state": now.state,
            "live": now.live,
            "offers": dict(now.offers),
            "dead": now.dead,
            "parked": now.parked,
        }

    @app.get("/livez")
    async def alive(response: Response) -> None:
        """For the supervisor: a service whose bot hears nothing is not alive."""
        response.status_code = 200 if bot.status().live else 503

    return app


app = make_app()
