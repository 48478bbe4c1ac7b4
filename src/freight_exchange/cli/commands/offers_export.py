"""Command `offers export`: the offers as rows of a spreadsheet, a column for each fee."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from freight_exchange.cli.client.session import client_command
from freight_exchange.cli.options import INDEX
from freight_exchange.cli.render.csv_rows import print_csv_header, print_csv_row
from freight_exchange.cli.render.listing import collect
from freight_exchange.cli.render.record import currency_codes, print_json
from freight_exchange.errors import NotFoundError

if TYPE_CHECKING:
    from freight_exchange import FreightExchange, Listing, Offer

__all__ = ["export"]

_COLUMNS = (
    "request", "ref_id", "commodity", "origin", "destination", "offer", "status", "amount", "currency", "terms",
)  # fmt: skip


@click.command
@click.argument("requests", type=INDEX, nargs=-1, metavar="[REQUEST]...")
@click.option("--csv/--json", "as_csv", default=True, help="Rows of CSV, with a header (default), or lines of JSON.")
@client_command
async def export(exchange: FreightExchange, /, requests: Sequence[int], as_csv: bool) -> None:
    """Export the offers on your requests for a spreadsheet.

    There is a row for each offer, and a column for each fee. Without a REQUEST, the offers on all requests are
    exported. Amounts are exact, currencies are three-letter codes.

    \b
    Examples:
      freight-exchange offers export --csv | tee offers.csv
      freight-exchange offers export 4 7 --csv
    """
    codes = await currency_codes(exchange)
    listings = await collect(exchange.offers.search(sweep=True))
    if absent := sorted({*requests} - {listing.index for listing in listings}):
        raise NotFoundError(f"you have no request {', '.join(map(str, absent))}")
    rows = [
        _row(listing, offer, codes)
        for listing in listings
        if not requests or listing.index in requests
        for offer in listing.offers
    ]
    fees = sorted({name for row in rows for name in row["fees"]})
    if not as_csv:
        for row in rows:
            print_json(row)
        return
    print_csv_header([*_COLUMNS, *fees])
    for row in rows:
        # By position: a fee may have the name of a column.
        cells = [row[column] for column in _COLUMNS] + [row["fees"].get(fee) for fee in fees]
        places = [str(place) for place in range(len(cells))]
        print_csv_row(places, dict(zip(places, cells, strict=True)))


def _row(listing: Listing, offer: Offer, codes: Mapping[int, str]) -> dict[str, Any]:
    fees = {} if offer.rates is None else {name: str(amount) for name, amount in offer.rates.items()}
    return {
        "request": listing.index,
        "ref_id": listing.ref_id,
        "commodity": listing.commodity,
        "origin": listing.origin,
        "destination": listing.destination,
        "offer": offer.id,
        "status": None if offer.status is None else str(offer.status),
        "amount": None if offer.amount is None else str(offer.amount),
        "currency": None if offer.currency is None else codes.get(offer.currency, str(offer.currency)),
        "terms": offer.terms,
        "fees": fees,
    }
