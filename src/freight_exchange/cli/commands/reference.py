"""Commands `carriers` and `currencies`: the records that routes and offers refer to by number."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from freight_exchange.cli.options import json_option
from freight_exchange.cli.render.listing import print_listing
from freight_exchange.cli.render.table import Column
from freight_exchange.cli.session import client_command

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
@json_option
@client_command
async def carriers(exchange: FreightExchange, /, as_json: bool) -> None:
    """List the carriers of routes.

    \b
    Example:
      freight-exchange carriers
    """
    await print_listing(exchange.carriers.list(), _CARRIERS, as_json=as_json, empty_message="There are no carriers.")


@click.command
@json_option
@client_command
async def currencies(exchange: FreightExchange, /, as_json: bool) -> None:
    """List the currencies of offers.

    \b
    Example:
      freight-exchange currencies --json
    """
    await print_listing(
        exchange.currencies.list(), _CURRENCIES, as_json=as_json, empty_message="There are no currencies."
    )
