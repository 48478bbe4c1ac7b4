"""Process that shares its login: `python sharer.py ORDERS`, where the orders are JSON.

For each line on standard input it logs in and reads once, and prints the result on standard output. Its log goes to
standard error, from level DEBUG.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import anyio
import anyio.to_thread

from freight_exchange import FreightExchange, FreightExchangeError


async def work(exchange: FreightExchange) -> dict[str, Any]:
    try:
        user = await exchange.login()
        found = await exchange.requests.search().collect()
    except FreightExchangeError as error:
        return {"error": str(error)}
    return {"user": user.email, "company": user.company and user.company.name, "found": len(found)}


async def share(orders: dict[str, Any]) -> None:
    exchange = FreightExchange(
        orders["url"], email=orders["email"], password=orders["password"], token_store=orders["token_store"]
    )
    async with exchange:
        print(json.dumps("ready"), flush=True)  # noqa: T201  # that is how it speaks
        while await anyio.to_thread.run_sync(sys.stdin.readline):
            print(json.dumps(await work(exchange)), flush=True)  # noqa: T201


def main() -> None:
    logging.basicConfig(level=logging.DEBUG, stream=sys.stderr)
    orders = json.loads(sys.argv[1])
    anyio.run(share, orders, backend=orders["backend"])


if __name__ == "__main__":
    main()
