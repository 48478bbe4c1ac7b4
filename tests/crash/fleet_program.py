"""Program of the replicas that `fleet.py` kills and freezes."""

from __future__ import annotations

import logging
import os
import signal
from datetime import timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
from tests.crash.processes import serve_forks

from freight_exchange import Bot, Context, FreightExchange, RateRequest, Timeouts

__all__ = ["LEASE", "ORIGIN", "price_of"]

LEASE: Final = timedelta(seconds=2)
ORIGIN: Final = "http://127.0.0.1:9"
"""Address of the exchange for all replicas; each reaches it through its own proxy."""


def price_of(quantity: int) -> Decimal:
    """Return the price of a request by its quantity."""
    return Decimal(1000 + quantity)


class _SignalAt:
    """Failpoints that send a signal to the process where a file says so: `NUMBER POINT`."""

    def __init__(self, aims: str) -> None:
        self._aim = Path(f"{aims}.{os.getpid()}")

    def __call__(self, point: str) -> None:
        if self._aim.exists():
            number, _, at = self._aim.read_text().partition(" ")
            if at == point:
                self._aim.unlink(missing_ok=True)
                os.kill(os.getpid(), int(number))


async def _run(order: dict[str, Any]) -> None:
    exchange = FreightExchange(
        f"{ORIGIN}/api",
        email="forwarder@demo.example",
        password="forwarder",
        proxy=order["proxy"],
        timeouts=Timeouts(connect=2, read=3, write=3),
        deadline=8,
    )
    bot = Bot(
        store=order["database"],
        lease=LEASE,
        start="backfill",
        interval=timedelta(seconds=1),
        settle=timedelta(seconds=1),
        concurrency=4,
    )

    @bot.on_new(retries=50)
    async def quote(request: RateRequest, ctx: Context) -> None:
        amount = price_of(request.quantity or 0)
        if order["ledger"]:
            await ctx.offer(amount=amount, currency=840)
        else:
            await ctx.exchange.bids.submit(request, amount=amount, currency=840)

    await bot.serve(exchange=exchange, failpoints=_SignalAt(order["aims"]))


def _live(order: dict[str, Any]) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    logging.basicConfig(filename=order["log"], format="%(asctime)s %(process)s %(message)s", level=logging.INFO)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        anyio.run(partial(_run, order), backend=order["backend"])
    except BaseException:
        logging.getLogger(__name__).exception("the replica ended")
        raise SystemExit(1) from None


if __name__ == "__main__":
    serve_forks(_live)
