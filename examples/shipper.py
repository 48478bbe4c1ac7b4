"""Shipper that publishes requests from a CSV file, and no row twice: `python examples/shipper.py requests.csv`.

After a stop, a kill or a power cut, run it again: it continues with the row that it had reached. It records its
progress beside the file, in `requests.csv.progress`, before it sends a row. `freight-exchange requests import` does
the same on the command line.

The exchange and the account, which must be a shipper's, come from the environment: FREIGHT_EXCHANGE_URL,
FREIGHT_EXCHANGE_EMAIL, FREIGHT_EXCHANGE_PASSWORD. The progress belongs to one account at one exchange: for another,
copy the file to a new name. The exit status is 0 when every row is published, else 1.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import anyio

from freight_exchange import FreightExchange, FreightExchangeError, Listing, RateRequest, bulk


def report(row: bulk.Row, event: str, record: RateRequest | Listing | None) -> None:
    index = "" if record is None else f" as request {record.index}"
    print(f"line {row.line}, {row.draft.commodity}: {event}{index}", flush=True)


async def main(file: Path) -> int:
    rows = bulk.read_requests(file)
    exchange = FreightExchange()
    owner = f"{os.environ['FREIGHT_EXCHANGE_EMAIL']} at {os.environ['FREIGHT_EXCHANGE_URL'].strip().rstrip('/')}"
    with bulk.Journal(file.with_name(f"{file.name}.progress"), owner) as journal:
        async with exchange:
            states = await bulk.publish(exchange, rows, journal, on_row=report)
    print(", ".join(f"{count} {state}" for state, count in sorted(states.items())))
    return int(states["published"] < len(rows))


def run(arguments: Sequence[str]) -> int | str:
    """Run the program; return the exit status, or the sentence that ends it with status 1."""
    if len(arguments) != 1:
        return "name one file of requests: python examples/shipper.py examples/requests.csv"
    try:
        return anyio.run(main, Path(arguments[0]))
    except (FreightExchangeError, OSError) as error:
        return str(error)
    except KeyboardInterrupt:
        return "stopped: run it again to continue"


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
