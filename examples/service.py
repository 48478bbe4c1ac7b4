"""Bot in an existing FastAPI service: `pip install fastapi uvicorn`, then `uvicorn examples.service:app`.

The bot runs in the event loop of the service: it starts with the service and drains when the service stops. Users
change the tariff over HTTP, and `GET /bot` shows the offers. The bot begins with the requests that are listed already.

The exchange and the account come from the environment: FREIGHT_EXCHANGE_URL, FREIGHT_EXCHANGE_EMAIL,
FREIGHT_EXCHANGE_PASSWORD. BOT_STORE names the bot's file; the default is `bot.db`. Run one worker: only one
process can hold the file.
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
    """Make the service. Tests pass a client of the sandbox and a store."""
    rates: dict[str, Decimal] = {"Long Beach": Decimal("62.40")}

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with bot:  # leaving it drains
            yield

    app = FastAPI(lifespan=lifespan)
    # A bot without a client takes one from the environment when it starts.
    bot = Bot(exchange, store=store or os.environ.get("BOT_STORE", "bot.db"), start="backfill")

    @bot.on_new(type="Shipping")
    async def quote(request: RateRequest, ctx: Context) -> None:
        rate = rates.get(request.destination or "")
        if rate is None or request.volume is None:
            raise RetryLater(timedelta(minutes=10), "no tariff yet")
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
        """Return the status of the bot, for people."""
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
        """Answer a supervisor: a service whose bot cannot reach the exchange is not alive."""
        response.status_code = 200 if bot.status().live else 503

    return app


app = make_app()
