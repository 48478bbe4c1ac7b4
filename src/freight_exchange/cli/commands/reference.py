"""Commands `carriers` and `currencies`: the records that routes and offers refer to by number."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

import freight_exchange
from freight_exchange.cli.client.session import client_command
from freight_exchange.cli.output import Output, format_options
from freight_exchange.cli.render.csv_rows import csv_columns
from freight_exchange.cli.render.listing import print_listing
from freight_exchange.cli.render.table import Column

if TYPE_CHECKING:
    from freight_exchange import Carrier, Currency, FreightExchange

__all__ = ["carriers", "currencies"]

_CARRIERS: tuple[Column[Carrier], ...] = (
    Column("INDEX", lambda carrier: carrier.index, align_right=True),
    Column("NAME", lambda carrier: carrier.name),
)
_CURRENCIES: tuple[Column[Currency], ...] = (
    Column("INDEX", lambda currency: currency.index, align_right=True),
    Column("CODE", lambda currency: currency.code),
    Column("NAME", lambda currency: currency.name),
)


@click.command
@format_options
@client_command
async def carriers(exchange: FreightExchange, /, output: Output) -> None:
    """List the carriers of routes.

    \b
    Example:
      freight-exchange carriers
    """
    await print_listing(
        exchange.carriers.list(),
        _CARRIERS,
        output=output,
        csv_columns=csv_columns(freight_exchange.Carrier),
        empty_message="There are no carriers.",
    )


@click.command
@format_options
@client_command
async def currencies(exchange: FreightExchange, /, output: Output) -> None:
    """List the currencies of offers.

    \b
    Example:
      freight-exchange currencies --json
    """
    await print_listing(
        exchange.currencies.list(),
        _CURRENCIES,
        output=output,
        csv_columns=csv_columns(freight_exchange.Currency),
        empty_message="There are no currencies.",
    )
