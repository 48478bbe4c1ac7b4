"""A program that tells of every request, once, however often it is killed: `python examples/watcher.py watcher.db`.

Which exchange, and who asks, comes from the environment: FREIGHT_EXCHANGE_URL, FREIGHT_EXCHANGE_EMAIL,
FREIGHT_EXCHANGE_PASSWORD. The second argument, if there is one, is the seconds from one look to the next.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from datetime import timedelta

from freight_exchange import FreightExchange, FreightExchangeError, Gap, RequestEvent


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


def run(arguments: Sequence[str]) -> str | None:
    """The sentence that the program ends with where it cannot go on; it makes the exit status 1."""
    usage = "give a file, and the seconds between two looks if not 30: python examples/watcher.py watcher.db 30"
    if len(arguments) not in (1, 2):
        return usage
    try:
        interval = timedelta(seconds=float(arguments[1]) if len(arguments) == 2 else 30.0)
    except (ValueError, OverflowError):
        return usage
    try:
        asyncio.run(main(arguments[0], interval))
    except FreightExchangeError as error:
        return str(error)
    except KeyboardInterrupt:
        pass
    return None


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
