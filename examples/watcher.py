"""A program that tells of every request, once, however often it is killed: `python examples/watcher.py bot.db`.

Which exchange, and who asks, comes from the environment: FREIGHT_EXCHANGE_URL, FREIGHT_EXCHANGE_EMAIL,
FREIGHT_EXCHANGE_PASSWORD. The second argument, if there is one, is the seconds from one look to the next.
"""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta

from freight_exchange import FreightExchange, Gap, RequestEvent


async def main(store: str, interval: timedelta) -> None:
    async with FreightExchange() as exchange, exchange.watch(store=store, interval=interval) as feed:
        print("watching", flush=True)
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


if __name__ == "__main__":
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 30.0
    asyncio.run(main(sys.argv[1], timedelta(seconds=seconds)))
