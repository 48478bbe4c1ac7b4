"""Command `tariff`: a tariff in a CSV file, checked against the open requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, get_args

import attrs
import click

from freight_exchange.cargo import Per
from freight_exchange.cli.client.session import run_with_client
from freight_exchange.cli.options import FILE, json_option, limit_option
from freight_exchange.cli.render.listing import collect
from freight_exchange.cli.render.record import print_json, print_result, to_json
from freight_exchange.cli.render.table import Column, print_table
from freight_exchange.tariff import NoQuote, Quote, Tariff

if TYPE_CHECKING:
    from freight_exchange import FreightExchange, RateRequest
    from freight_exchange.cli.options import GlobalOptions

__all__ = ["tariff"]


@attrs.frozen
class _Row:
    """Request with the tariff's quote, or the reason for none."""

    request: RateRequest
    quote: Quote | NoQuote


@click.group
def tariff() -> None:
    """Check a tariff in a CSV file."""


@tariff.command
@click.argument("file", type=FILE)
@click.option(
    "--weight",
    "per",
    type=click.Choice(get_args(Per)),
    required=True,
    help="Read a request's weight as that of one packaging unit, or as the total of all units.",
)
@click.option("--requests", "reads_requests", is_flag=True, help="Show the quotes for the open requests.")
@limit_option
@json_option
@click.pass_obj
def check(
    options: GlobalOptions, /, file: str, per: Per, reads_requests: bool, limit: int | None, as_json: bool
) -> None:
    """Read the tariff in FILE, and show what it would quote. Nothing is sent.

    The command names every invalid cell by line and column.

    \b
    Examples:
      freight-exchange tariff check tariff.csv --weight unit
      freight-exchange tariff check tariff.csv --weight unit --requests
    """
    try:
        prices = Tariff.read(file, weight_per=per)
    except OSError as error:
        raise click.UsageError(f"{file} cannot be read: {error.strerror}") from None
    if not reads_requests:
        count = len(prices.rules)
        print_result(f"{file}: {count} rows, all valid.", {"file": file, "rows": count}, as_json=as_json)
        return

    async def work(exchange: FreightExchange) -> None:
        def print_record(request: RateRequest) -> None:
            if as_json:
                print_json(_quote_to_json(request, prices.quote(request)))

        requests = await collect(exchange.requests.search(type="pending"), limit=limit, on_record=print_record)
        if not as_json:
            rows = [_Row(request, prices.quote(request)) for request in requests]
            print_table(rows, _COLUMNS, empty_message="There are no open requests.")

    run_with_client(options, work)


def _quote_to_json(request: RateRequest, quote: Quote | NoQuote) -> dict[str, Any]:
    return {"request": request.index, "ref_id": request.ref_id, **to_json(quote)}


def _format_result(row: _Row) -> str:
    if isinstance(row.quote, NoQuote):
        return f"no quote: {row.quote.reason}"
    return ", ".join(f"{name} {amount}" for name, amount in row.quote.rates.items())


_COLUMNS: Final[Sequence[Column[_Row]]] = (
    Column("REQUEST", lambda row: row.request.index, align_right=True),
    Column("TYPE", lambda row: row.request.type, drop_order=2),
    Column("ORIGIN", lambda row: row.request.origin, wraps=True, drop_order=3),
    Column("DESTINATION", lambda row: row.request.destination, wraps=True, drop_order=1),
    Column(
        "AMOUNT",
        lambda row: f"{row.quote.amount} {row.quote.currency}" if isinstance(row.quote, Quote) else None,
        align_right=True,
    ),
    Column("CHARGES", _format_result, wraps=True),
)
