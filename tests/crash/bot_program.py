"""Program of the bot that `bot.py` kills."""

from __future__ import annotations

import json
import os
import ssl
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any, Final

from tests.crash.bot import price
from tests.crash.processes import run_bot, serve_forks

from freight_exchange import Bot, FreightExchange, OfferRejectedError, Timeouts

_DOLLARS: Final = 840
_NO_CURRENCY: Final = 99


def _bot(orders: dict[str, Any], at: Callable[[str], None]) -> Bot:
    exchange = FreightExchange(
        orders["url"],
        email="forwarder@demo.example",
        password="forwarder",
        timeouts=Timeouts(connect=2, read=0.5, write=2),
        deadline=5,
        # No TLS is spoken here, and the world's certificates take long to load.
        verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
    )
    bot = Bot(
        exchange,
        store=orders["store"],
        start="backfill",
        interval=timedelta(seconds=1),
        settle=timedelta(seconds=0.3),
        allowance=timedelta(seconds=1),
        selection_interval=timedelta(seconds=1),
        drain=timedelta(seconds=10),
        concurrency=4,
    )
    journal = os.open(orders["journal"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    async def quote(request: Any, ctx: Any) -> None:
        amount = price(int(request.quantity), str(request.destination))
        if request.hazardous:
            # The house asks for its own currency first, which the exchange refuses.
            try:
                await ctx.offer(amount=amount, currency=_NO_CURRENCY)
            except OfferRejectedError as error:
                if not error.request_closed:
                    await ctx.offer(amount=amount, currency=_DOLLARS)
        else:
            try:
                await ctx.offer(amount=amount, currency=_DOLLARS)
            except OfferRejectedError as error:
                # A change that comes with the selection needs no other price.
                if not error.request_closed:
                    raise

    async def quote_without_ledger(request: Any, ctx: Any) -> None:
        """Make the same offer at the same moments, without a record."""
        amount = price(int(request.quantity), str(request.destination))
        for step in ("claim", "sending"):
            at(f"before {step}")
            at(f"after {step}")
        at("before send")
        await ctx.exchange.bids.submit(request, amount=amount, currency=_DOLLARS)
        at("after send")
        at("before confirmed")
        at("after confirmed")

    async def won(bid: Any, ctx: Any) -> None:
        line = json.dumps({"run": orders["run"], "request": bid.index, "contact": bid.contact is not None})
        os.write(journal, f"{line}\n".encode())
        os.fsync(journal)

    if orders["ledger"]:
        bot.on_new(id="quote")(quote)
        # What a shipper changes after the offer costs another price, and must not bring about another offer.
        bot.on_updated(id="requote")(quote)
    else:
        bot.on_new(id="quote")(quote_without_ledger)
    bot.on_selected(id="won")(won)
    return bot


if __name__ == "__main__":
    serve_forks(partial(run_bot, _bot))
