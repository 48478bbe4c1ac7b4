"""Watcher that prints each request once, even if it is killed: `python examples/watcher.py watcher.db`.

It begins with the requests that are listed already, then waits for new ones; Ctrl-C ends it. The exchange and the
account come from the environment: FREIGHT_EXCHANGE_URL, FREIGHT_EXCHANGE_EMAIL, FREIGHT_EXCHANGE_PASSWORD.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

from freight_exchange import FreightExchange, FreightExchangeError, Gap, RequestEvent


async def main(store: str) -> None:
    async with FreightExchange() as exchange, exchange.watch(store=store, start="backfill") as feed:
        print("watching for requests", flush=True)
        async for event in feed:  # pulling the next event acknowledges this one
            match event:
                case RequestEvent(kind=kind, request=request):
                    cargo = f"{request.quantity} x {request.packaging} of {request.commodity}"
                    way = f"{request.origin} -> {request.destination}"
                    print(f"{kind} {request.ref_id}: {cargo}, {way}, {request.volume} m3", flush=True)
                case Gap(since=since, until=until):
                    print(f"gap from {since} to {until}", flush=True)
                case other:
                    print(other, flush=True)


def run(arguments: Sequence[str]) -> str | None:
    """Run the program; return the sentence that ends it with status 1, or `None`."""
    if len(arguments) != 1:
        return "name a file for the watcher: python examples/watcher.py watcher.db"
    try:
        asyncio.run(main(arguments[0]))
    except FreightExchangeError as error:
        return str(error)
    except KeyboardInterrupt:
        pass
    return None


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
